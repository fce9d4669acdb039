"""The host's tree changes underneath, or contains files that a server must not touch."""
import errno
import os
import signal
import socket
import stat
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, Mounted, read, write

FREE = {"default": ALL}
TIMEOUT = 120


def forever(work):
    """In a child of its own, until it is killed."""
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work()
        finally:
            os._exit(1)
    return pid


def stop(pid):
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def test_a_directory_swapped_for_a_link_leads_nowhere():
    """While the host swaps d between a directory and a link to one outside, the guest reads thousands of times."""
    with Mounted({"d/file": "inside", "d/sub/file": "inside"}, permissions=FREE, cacheSeconds=0) as m:
        outside = m.folder + "/outside"
        os.makedirs(outside + "/sub")
        for name in ("file", "sub/file", "only-outside"):
            write(f"{outside}/{name}", "OUTSIDE")
        os.symlink(outside, m.lower + "/link")
        d, link, kept = (m.lower + "/" + name for name in ("d", "link", "kept"))
        def swap():
            os.rename(d, kept)
            os.rename(link, d)
            os.rename(d, link)
            os.rename(kept, d)
            time.sleep(0.0002)  # the directory is there for a while
        def look():
            seen, tries = {}, 0
            while tries < 3000 or seen.get("inside", 0) <= 100:  # on a busy machine the swaps may be quicker
                for path in ("d/file", "d/sub/file", "d/only-outside"):
                    tries += 1
                    try:
                        text = read(path)
                    except OSError as error:
                        text = errno.errorcode[error.errno]
                    seen[text] = seen.get(text, 0) + 1
                try:
                    if "only-outside" in os.listdir("d"):
                        seen["OUTSIDE"] = True
                except OSError:
                    pass
                try:
                    write("d/file", "inside", "r+")
                except OSError:
                    pass
            return seen, tries
        pid = forever(swap)
        try:
            seen, tries = m.guest(look, timeout=100)
        finally:
            stop(pid)
        # A link seen as such is followed by the guest's own kernel, which is outside the mount only
        # in this test: the target exists here. The server itself must return nothing of it, so it
        # is tested directly, too.
        assert seen.get("inside", 0) > 100, (tries, seen)
        m.control.call("usage")


def test_the_server_follows_no_link_whoever_asks():
    with Mounted({"d/file": "inside"}, permissions=FREE, followSymlinks=False, cacheSeconds=0) as m:
        outside = m.folder + "/outside"
        os.mkdir(outside)
        write(outside + "/file", "OUTSIDE")
        os.symlink(outside, m.lower + "/link")
        d, link, kept = (m.lower + "/" + name for name in ("d", "link", "kept"))
        def swap():
            os.rename(d, kept)
            os.rename(link, d)
            os.rename(d, link)
            os.rename(kept, d)
            time.sleep(0.0002)  # the directory is there for a while
        def look():
            # Links are not followed in this mount at all, so whatever is read was read by the server.
            seen, tries = set(), 0
            while tries < 3000 or "inside" not in seen:
                tries += 1
                try:
                    seen.add(read("d/file"))
                    os.listdir("d")
                except OSError as error:
                    seen.add(errno.errorcode[error.errno])
            return seen, tries
        pid = forever(swap)
        try:
            seen, tries = m.guest(look, timeout=100)
        finally:
            stop(pid)
        assert "inside" in seen and "OUTSIDE" not in seen, (tries, seen)


def test_guests_racing_each_other():
    rules = {"default": ALL, "rules": [{"pattern": "a/secret", "deny": ["*"]}]}
    with Mounted({"a/secret": "SECRET", "a/free": "free", "b/x": "x"}, permissions=rules) as m:
        def move():
            for _ in range(1500):
                for one, other in (("a", "c"), ("b", "a"), ("c", "b"), ("a/free", "b/free"), ("b/free", "a/free")):
                    try:
                        os.rename(one, other)
                    except OSError:
                        pass
        def look():
            seen = set()
            for _ in range(1500):
                for top in "abc":
                    for name in ("secret", "free"):
                        try:
                            seen.add(read(f"{top}/{name}"))
                            write(f"{top}/secret", "x")
                        except OSError:
                            pass
            return seen
        movers = [m.begin(move) for _ in range(2)]
        lookers = [m.begin(look) for _ in range(2)]
        seen = set().union(*(m.finish(handle) for handle in lookers))
        for handle in movers:
            m.finish(handle)
        assert "SECRET" not in seen, seen
        m.changes()


def test_pipes_sockets_and_devices_of_the_host_are_not_opened():
    def listening(path):
        server = socket.socket(socket.AF_UNIX)
        server.bind(path)
        server.listen()
        server.close()
    tree = {"pipe": os.mkfifo, "socket": listening, "null": lambda path: os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3)), "file": "x"}
    with Mounted(tree, permissions=FREE) as m:
        kinds = m.guest(lambda: {name: stat.S_IFMT(os.lstat(name).st_mode) for name in os.listdir(".")})
        assert kinds == {"pipe": stat.S_IFIFO, "socket": stat.S_IFSOCK, "null": stat.S_IFCHR, "file": stat.S_IFREG}
        # The pipe is one of the guest's kernel, without a process at its other end.
        m.fails(errno.ENXIO, lambda: os.open("pipe", os.O_WRONLY | os.O_NONBLOCK))
        m.fails(errno.ECONNREFUSED, lambda: socket.socket(socket.AF_UNIX).connect("socket"))
        m.fails(errno.EACCES, lambda: os.open("null", os.O_RDONLY))
        assert m.guest(lambda: read("file")) == "x"


def test_a_file_becomes_a_pipe():
    with Mounted({"file": "x"}, permissions=FREE) as m:
        assert m.guest(lambda: os.stat("file").st_size) == 1
        os.unlink(m.lower + "/file")
        os.mkfifo(m.lower + "/file")
        start = time.monotonic()
        def look():
            try:
                return os.read(os.open("file", os.O_RDONLY | os.O_NONBLOCK), 10)
            except OSError:
                return b""
        assert m.guest(look) == b"" and time.monotonic() - start < 5
        m.usage()


def test_changes_of_the_host_are_seen_when_a_file_is_opened():
    with Mounted({"file": "one", "dir/a": "a"}, permissions=FREE) as m:
        assert m.guest(lambda: (read("file"), os.listdir("dir"))) == ("one", ["a"])
        write(m.lower + "/file", "another text")
        write(m.lower + "/dir/b", "b")
        assert m.guest(lambda: read("file")) == "another text"
        assert sorted(m.guest(lambda: os.listdir("dir"))) == ["a", "b"]
        write(m.lower + "/file", "2")
        assert m.guest(lambda: read("file")) == "2"
        m.guest(lambda: write("file", "mine"))
        origin_of = lambda: [row["origin"] for row in m.changes()["changes"] if row["path"] == "file"]
        [origin] = origin_of()
        st = os.stat(m.lower + "/file")
        assert (origin["ino"], origin["mtimeNs"], origin["size"]) == (st.st_ino, st.st_mtime_ns, 1)
        write(m.lower + "/file", "the host's again")
        assert m.guest(lambda: read("file")) == "mine"
        assert origin_of() == [origin]


def test_what_the_host_takes_away():
    with Mounted({"d/file": "x", "d/changed": "y", "gone": "z"}, permissions=FREE, cacheSeconds=0) as m:
        m.guest(lambda: write("d/changed", "mine"))
        opened, unlinked = os.pipe(), os.pipe()
        reader = m.begin(lambda: (lambda file: (os.write(opened[1], b"x"), os.read(unlinked[0], 1), file.read())[2])(open("gone")))
        os.read(opened[0], 1)
        os.unlink(m.lower + "/gone")
        os.unlink(m.lower + "/d/file")
        os.unlink(m.lower + "/d/changed")
        os.rmdir(m.lower + "/d")
        os.write(unlinked[1], b"x")
        assert m.finish(reader) == "z"
        m.fails(errno.ENOENT, lambda: read("gone"))
        m.fails(errno.ENOENT, lambda: read("d/file"))
        assert m.guest(lambda: (read("d/changed"), os.listdir("d"))) == ("mine", ["changed"])


def test_another_file_system_in_the_directory_is_not_entered():
    with Mounted({"d/here": None, "d/file": "x"}, permissions=FREE) as m:
        import mounted
        mounted.mount("tmpfs", m.lower + "/d/here", "tmpfs", 0)
        try:
            write(m.lower + "/d/here/secret", "x")
            m.fails(errno.ENOENT, lambda: read("d/here/secret"))
            assert [row["path"] for row in m.changes()["warnings"]] == ["d/here"]
        finally:
            mounted.libc.umount2(os.fsencode(m.lower + "/d/here"), 2)


def test_symbolic_links():
    tree = {"d/file": "x", "d/in": ("link", "../d/file"), "out": ("link", "../outside"), "absolute": ("link", "/etc/passwd"),
            "d/up": ("link", "../../d/file"), "dots": ("link", "d/../../x")}
    look = lambda name: lambda: os.readlink(name)
    with Mounted(tree, permissions=FREE) as m:
        assert m.guest(lambda: [os.readlink(name) for name in ("d/in", "out", "absolute")]) == ["../d/file", "../outside", "/etc/passwd"]
        assert m.guest(lambda: read("d/in")) == "x"
    with Mounted(tree, permissions=FREE, followSymlinks="restricted", target="/workspace") as m:
        assert m.guest(lambda: read("d/in")) == "x"
        for name in ("out", "absolute", "d/up", "dots"):
            m.fails(errno.EACCES, look(name))
            assert stat.S_ISLNK(m.guest(lambda: os.lstat(name).st_mode))
        m.guest(lambda: (os.symlink("/workspace/d/file", "fine"), os.symlink("../etc", "made")))
        assert m.guest(look("fine")) == "/workspace/d/file"
        m.fails(errno.EACCES, look("made"))
    with Mounted(tree, permissions=FREE, followSymlinks=False) as m:
        m.fails(errno.ELOOP, lambda: read("d/in"))
    with Mounted(tree, permissions=FREE, source="/etc", target="/workspace") as m:
        assert m.guest(look("absolute")) == "/workspace/passwd", "a link of the host into the mount is not turned"
