"""A guest's attacks on the server and its rules, each with a permitted twin."""
import errno
import fcntl
import mmap
import os
import signal
import stat
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, BUILD, HANG, MNT_DETACH, Mounted, OWNER, libc, read, write

FREE = {"default": ALL}
TIMEOUT = 180


def go_down(name, depth, make=False):
    for _ in range(depth):
        if make:
            os.mkdir(name)
        os.chdir(name)


def remove_down(name, depth):
    """From the top to the bottom and back, one step at a time: no path is as long as the tree is deep."""
    go_down(name, depth)
    for entry in os.listdir("."):
        os.unlink(entry)
    for _ in range(depth):
        os.chdir("..")
        os.rmdir(name)


def test_deep_trees_of_the_host_are_read_and_removed():
    depth, name = 2500, "d"
    with Mounted({}, permissions=FREE) as m:
        before = os.open(".", os.O_RDONLY)
        os.chdir(m.lower)
        go_down(name, depth, make=True)
        for entry in (b"\xff\xfe", b"n" * 255, b"a\nb"):
            os.close(os.open(entry, os.O_CREAT | os.O_WRONLY, 0o666))
        os.fchdir(before)
        os.close(before)
        m.guest(lambda: go_down(name, depth), timeout=100)
        def bottom():
            go_down(name, depth)
            return sorted(os.listdir(b"."))
        assert m.guest(bottom, timeout=100) == [b"a\nb", b"n" * 255, b"\xff\xfe"]
        m.guest(lambda: remove_down(name, depth), timeout=150)
        assert m.guest(lambda: os.listdir(".")) == []
        rows = m.changes()["changes"]
        assert len(rows) == depth + 3 and {row["type"] for row in rows} == {"deleted"}
        back = os.open(".", os.O_RDONLY)
        os.chdir(m.lower)
        remove_down(name, depth)
        os.fchdir(back)
        os.close(back)


def test_a_path_too_long_for_a_call_does_not_escape_its_rule():
    rules = {"default": ALL, "rules": [{"pattern": "**/*.key", "deny": ["*"]}, {"pattern": "d/**/kept", "deny": ["modify", "delete"]}]}
    for name, depth in (("d", 3000), ("d" + "x" * 200, 40)):
        with Mounted({}, permissions=rules) as m:
            def work():
                os.mkdir("d")
                os.chdir("d")
                go_down(name, depth, make=True)
                write("kept", "k")
                refused = []
                for act in (lambda: write("new.key", "x"), lambda: os.rename("kept", "other"), lambda: os.mkdir("x.key"),
                            lambda: write("kept", "again"), lambda: os.unlink("kept"), lambda: os.link("kept", "y.key")):
                    try:
                        act()
                        refused.append(False)
                    except PermissionError:
                        refused.append(True)
                write("fine", "x")
                os.rename("fine", "finer")
                return refused, sorted(os.listdir("."))
            assert m.guest(work, timeout=100) == ([True] * 6, ["finer", "kept"])


def test_contradictory_and_overlapping_rules():
    rules = {"default": {**ALL, "modify": False}, "exclude": ["node_modules", "a/**/private"],
             "rules": [{"pattern": "logs/*.txt", "allow": ["modify"]}, {"pattern": "logs/**", "deny": ["*"]},
                       {"pattern": "both", "allow": ["read", "modify"], "deny": ["read", "modify", "delete"]},
                       {"pattern": "late", "allow": ["modify"], "priority": 1}, {"pattern": "late", "deny": ["*"], "priority": 2},
                       {"pattern": "node_modules/**", "allow": ["*"], "priority": 1000}, {"pattern": "a/*", "allow": ["modify"], "priority": 5}]}
    tree = {"logs/a.txt": "a", "logs/a.bin": "b", "logs/deep/a.txt": "c", "both": "b", "late": "l", "node_modules/x": "x", "a/x": "x",
            "a/private": "p", "a/b/c/private/y": "y", "a/b/x": "x"}
    with Mounted(tree, permissions=rules) as m:
        m.guest(lambda: (write("logs/a.txt", "!", "a"), write("both", "!", "a"), write("a/x", "!", "a")))
        for path in ("logs/a.bin", "logs/deep/a.txt", "late", "node_modules/x", "a/private", "a/b/c/private/y"):
            m.fails(errno.EACCES, lambda: read(path))
        m.fails(errno.EACCES, lambda: os.unlink("both"))
        m.fails(errno.EACCES, lambda: write("a/b/x", "!", "a"))
        # Later operations fall under the same rules.
        m.guest(lambda: (os.makedirs("a/q/r"), write("a/q/r/file", "x")))
        for work in (lambda: os.mkdir("a/q/private"), lambda: os.mkdir("a/q/node_modules"), lambda: write("logs/new.bin", "x"),
                     lambda: os.rename("a/q/r/file", "a/q/private"), lambda: os.link("a/q/r/file", "logs/x.bin")):
            m.fails(errno.EACCES, work)
        m.guest(lambda: write("logs/new.txt", "x"))


def test_a_link_grants_nothing():
    rules = {"default": ALL, "exclude": ["secret"], "rules": [{"pattern": "open/**", "allow": ["*"], "priority": 5}]}
    tree = {"secret/key": "KEY", "open/link": ("link", "../secret/key"), "open/dir": ("link", "../secret"), "free": "free",
            "open/proc": ("link", "/proc/1/root/etc/passwd"), "open/good": ("link", "../free")}
    with Mounted(tree, permissions=rules) as m:
        m.guest(lambda: (os.symlink("../secret/key", "open/mine"), os.symlink("secret", "short")))
        for path in ("open/link", "open/dir/key", "open/mine", "short/key", "open/../secret/key", "open/dir/../secret/key"):
            m.fails(errno.EACCES, lambda: read(path))
        for work in (lambda: os.link("secret/key", "open/hard"), lambda: write("open/dir/new", "x"), lambda: os.rename("secret", "open/s"),
                     lambda: os.truncate("open/link", 0), lambda: os.utime("short/key")):
            m.fails(errno.EACCES, work)
        assert m.guest(lambda: read("open/good")) == "free"
    for follow, number in (("restricted", errno.EACCES), (False, errno.ELOOP)):
        with Mounted(tree, permissions=rules, followSymlinks=follow) as m:
            m.fails(number, lambda: read("open/proc"))
            m.fails(errno.ENOENT, lambda: read("../../../../../../nothing/etc/passwd"))


def test_links_across_mounts():
    with Mounted({"file": "f", "setuid": lambda path: (write(path, "s"), os.chmod(path, 0o6755))}, permissions=FREE) as m:
        os.chmod(m.lower + "/setuid", 0o6755)
        m.fails(errno.EXDEV, lambda: os.link("/usr/bin/su", "su"))
        m.fails(errno.EXDEV, lambda: os.rename("file", m.folder + "/out"))
        m.guest(lambda: (os.link("setuid", "copy"), os.link("file", "second"), write("copy", "changed")))
        modes = m.guest(lambda: [stat.S_IMODE(os.stat(name).st_mode) for name in ("setuid", "copy")])
        assert modes == [0o755, 0o755] and m.guest(lambda: read("second")) == "f"
        assert stat.S_IMODE(os.stat(m.lower + "/setuid").st_mode) == 0o6755 and read(m.lower + "/setuid") == "s"


def test_nothing_of_overlayfs_can_be_forged():
    with Mounted({"file": "f", "d/x": "x"}, permissions=FREE) as m:
        for name in ("trusted.overlay.opaque", "trusted.overlay.redirect", "security.capability", "system.posix_acl_access", "trusted.x"):
            # As root, with fewer checks by the kernel.
            for path in ("file", "d"):
                try:
                    os.setxattr(f"{m.at}/{path}", name, b"y")
                    raise AssertionError(f"{name} was set")
                except OSError as error:
                    assert error.errno in (errno.EOPNOTSUPP, errno.EPERM, errno.EINVAL, errno.EACCES), error
        m.guest(lambda: os.setxattr("file", "user.overlay.opaque", b"y"))
        m.fails(errno.EPERM, lambda: os.mknod("x", stat.S_IFCHR, os.makedev(0, 0)))
        try:
            os.mknod(m.at + "/x", stat.S_IFCHR, os.makedev(0, 0))
            raise AssertionError("a whiteout was made")
        except OSError as error:
            assert error.errno in (errno.EPERM, errno.EACCES), error
        # Names that mean something elsewhere are names here.
        m.guest(lambda: (write(".wh.file", "w"), write("d/.wh..wh..opq", "")))
        assert m.guest(lambda: (read("file"), sorted(os.listdir("d")))) == ("f", [".wh..wh..opq", "x"])
        assert m.summary() == {".wh.file": "created", "d/.wh..wh..opq": "created"}


def test_a_write_from_a_mapping_of_the_mount_does_not_stop_the_server():
    """The server must not wait for a page that only it could bring."""
    big = b"m" * (1 << 20)
    for policy in ("throw", "ignore"):
        rules = {"default": ALL, "rules": [{"pattern": "dropped", "deny": ["modify"]}]} if policy == "ignore" else FREE
        with Mounted({"source": big, "dropped": b"d" * 10}, permissions=rules, onPermissionDenied=policy) as m:
            def work():
                fd = os.open("source", os.O_RDWR)
                memory = mmap.mmap(fd, len(big), prot=mmap.PROT_READ | mmap.PROT_WRITE)
                out = os.open("dropped" if policy == "ignore" else "target", os.O_CREAT | os.O_RDWR)
                written = os.write(out, memory)
                # Into its own pages, from the file itself.
                taken = os.preadv(fd, [memory], 0)
                return written, taken
            assert m.guest(work) == (len(big), len(big))
            assert m.guest(lambda: len(read("source"))) == len(big)


def test_leases_and_locks_of_others_stop_nobody():
    with Mounted({"leased": "l" * 100000, "locked": "k", "other": "o"}, permissions=FREE) as m:
        leased = os.open(m.lower + "/leased", os.O_RDWR)
        locked = os.open(m.lower + "/locked", os.O_RDWR)
        held = signal.signal(signal.SIGIO, signal.SIG_IGN)
        try:
            fcntl.fcntl(leased, fcntl.F_SETLEASE, fcntl.F_WRLCK)
            fcntl.flock(locked, fcntl.LOCK_EX)
            fcntl.lockf(locked, fcntl.LOCK_EX)
            m.fails(errno.EAGAIN, lambda: read("leased"))
            m.fails(errno.EAGAIN, lambda: write("leased", "x", "r+"))
            assert m.guest(lambda: (read("locked"), read("other"), os.stat("leased").st_size)) == ("k", "o", 100000)
            m.guest(lambda: write("locked", "mine", "a"))
            m.usage()
        finally:
            signal.signal(signal.SIGIO, held)
            os.close(leased)
            os.close(locked)
        assert m.guest(lambda: len(read("leased"))) == 100000


def test_names_are_bytes():
    tree = {"secret": "KEY", "Ünïcode": "u", "plain": "p"}
    rules = {"default": ALL, "exclude": ["secret", "Ünïcode"]}
    with Mounted(tree, permissions=rules) as m:
        for path in ("secret", "./secret", "secret/", "plain/../secret", "//secret", "Ünïcode"):
            m.fails(errno.ENOTDIR if path in ("secret/", "plain/../secret") else errno.EACCES if path != "//secret" else errno.ENOENT,
                    lambda: read(path))
        # Others are other files, on the host as well.
        for path in ("SECRET", "secret.", "secret ", "ſecret", "U\u0308ni\u0308code", "sеcret"):
            m.fails(errno.ENOENT, lambda: read(path))
            m.guest(lambda: write(path, "another"))
            assert m.guest(lambda: read(path)) == "another"
        m.fails(errno.EACCES, lambda: read("secret"))


def test_a_host_that_folds_case_opens_no_other_way():
    """A file that the host finds by another spelling is visible by its own alone."""
    m = Mounted({}, permissions={"default": ALL, "exclude": ["secret"]})
    behind = m.folder + "/behind"
    os.mkdir(behind)
    for name in ("secret", "Free", ".cloche-sync", "12", "żółć"):
        write(f"{behind}/{name}", name)
    host = subprocess.Popen([os.path.join(BUILD, "tests/folding-host"), behind, m.lower])
    try:
        until = time.monotonic() + HANG
        while not os.path.ismount(m.lower) and time.monotonic() < until:
            time.sleep(0.02)
        assert read(m.lower + "/SECRET") == "secret", "the host does not fold"
        with m:
            for path in ("SECRET", "Secret", "FREE", "free", ".CLOCHE-sync"):
                m.fails(errno.ENOENT, lambda: read(path))
            m.fails(errno.EACCES, lambda: read("secret"))
            assert m.guest(lambda: (read("Free"), read("12"), read("żółć"), sorted(os.listdir(".")))) == (
                "Free", "12", "żółć", ["12", "Free", "żółć"])
    finally:
        libc.umount2(os.fsencode(m.lower), MNT_DETACH)
        host.kill()
        host.wait()
        m.stop()


def forever(work):
    pid = os.fork()
    if pid == 0:
        try:
            while True:
                work()
        finally:
            os._exit(1)
    return pid


def test_nothing_from_outside_is_copied_up():
    """While the host swaps a directory for a link, the guest has files copied, listed and looked at, with and without caches."""
    for cache in (0, 0.02):
        with Mounted({"d/file": "inside", "d/other": "inside"}, permissions=FREE, followSymlinks=False, cacheSeconds=cache) as m:
            outside = m.folder + "/outside"
            os.mkdir(outside)
            for name in ("file", "other", "only-outside"):
                write(f"{outside}/{name}", "OUTSIDE")
            os.chmod(outside, 0o755)
            os.symlink(outside, m.lower + "/link")
            d, link, kept = (m.lower + "/" + name for name in ("d", "link", "kept"))
            def swap():
                os.rename(d, kept)
                os.rename(link, d)
                os.rename(d, link)
                os.rename(kept, d)
            def work():
                tries, seen = 0, set()
                while tries < 1000 or ("inside" not in seen and tries < 50000):
                    tries += 1
                    for act in (lambda: read("d/other"), lambda: os.listdir("d"), lambda: os.stat("d/only-outside") and "OUTSIDE",
                                lambda: write("d/file", "+", "a"), lambda: os.unlink("d/file")):
                        try:
                            seen.add(str(act()))
                        except OSError as error:
                            seen.add(errno.errorcode[error.errno])
                return tries, seen
            pid = forever(swap)
            try:
                tries, seen = m.guest(work, timeout=100)
            finally:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            assert "inside" in seen and not [text for text in seen if "OUTSIDE" in text or "only-outside" in text], (tries, seen)
            for name in os.listdir(m.upper):
                assert "OUTSIDE" not in read(f"{m.upper}/{name}")
            assert read(outside + "/file") == "OUTSIDE" and sorted(os.listdir(outside)) == ["file", "only-outside", "other"]
