"""A guest's changes to a tree: renames, links, odd names, large directories, and the resulting list of changes."""
import errno
import fcntl
import mmap
import os
import random
import shutil
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from mounted import ALL, Mounted, OWNER, read, write

FREE = {"default": ALL}
TIMEOUT = 120


def test_saving_by_rename_is_a_modification():
    with Mounted({"file": "old"}, permissions=FREE) as m:
        def save():
            write("file.tmp", "new")
            os.rename("file.tmp", "file")
        m.guest(save)
        assert m.summary() == {"file": "modified"}
        assert m.contents("file") == b"new"
        [row] = m.changes()["changes"]
        assert row["origin"]["size"] == 3


def test_renames_are_told_as_renames():
    with Mounted({"a": "a", "b": "b", "d/x": "x", "d/y": "y", "d/e/z": "z"}, permissions=FREE) as m:
        def work():
            os.rename("a", "t")
            os.rename("b", "a")
            os.rename("t", "b")
            os.rename("d", "D")
            os.rename("D/x", "x")
            os.unlink("D/y")
            write("D/e/z", "changed")
            write("D/new", "new")
        m.guest(work)
        assert m.summary() == {"a": "renamed b", "b": "renamed a", "D": "renamed d", "x": "renamed d/x", "d/y": "deleted",
                               "D/e/z": "modified", "D/new": "created"}, m.summary()
        order = [(c["type"], c["path"]) for c in m.changes()["changes"]]
        assert order[0] == ("deleted", "d/y") and order.index(("renamed", "D")) < order.index(("created", "D/new"))
        m.guest(lambda: (os.rename("x", "D/x"), os.rename("D", "d"), os.rename("b", "t"), os.rename("a", "b"), os.rename("t", "a")))
        assert m.summary() == {"d/y": "deleted", "d/e/z": "modified", "d/new": "created"}, m.summary()


def test_removed_trees():
    with Mounted({"d/e/f": "f", "d/g": "g", "keep": "k"}, permissions=FREE) as m:
        m.fails(errno.ENOTEMPTY, lambda: os.rmdir("d"))
        m.guest(lambda: shutil.rmtree("d"))
        assert m.guest(lambda: os.listdir(".")) == ["keep"]
        assert [c["path"] for c in m.changes()["changes"]] == ["d/g", "d/e/f", "d/e", "d"]
        assert {c["type"] for c in m.changes()["changes"]} == {"deleted"}
        m.guest(lambda: (os.mkdir("d"), write("d/g", "again")))
        assert m.guest(lambda: os.listdir("d")) == ["g"]
        assert m.summary() == {"d": "modified", "d/e": "deleted", "d/e/f": "deleted", "d/g": "deleted", "d/g": "created"} or \
            m.summary() == {"d": "modified", "d/e": "deleted", "d/e/f": "deleted", "d/g": "deleted, created"}, m.summary()
        m.guest(lambda: (os.unlink("keep"), os.symlink("d", "keep")))
        assert m.summary()["keep"] == "deleted, created"


def test_hard_links():
    with Mounted({"host": "host"}, permissions=FREE) as m:
        def work():
            write("a", "one")
            os.link("a", "b")
            os.link("host", "c")
            write("b", "two", "a")
            write("c", "!", "a")
            assert os.stat("a").st_ino == os.stat("b").st_ino and os.stat("a").st_nlink == 2
            os.unlink("a")
            return read("b"), read("host"), os.stat("b").st_nlink
        assert m.guest(work) == ("onetwo", "host!", 1)
        rows = {c["path"]: (c["type"], c.get("link")) for c in m.changes()["changes"]}
        assert rows == {"b": ("created", None), "host": ("modified", None), "c": ("created", "host")}, rows


def test_links_of_the_host_part_when_they_are_written():
    with Mounted({"a": "same"}, permissions=FREE) as m:
        os.link(m.lower + "/a", m.lower + "/b")
        def work():
            before = os.stat("a").st_ino == os.stat("b").st_ino
            write("a", "other")
            return before, os.stat("a").st_ino == os.stat("b").st_ino, read("b")
        assert m.guest(work) == (True, False, "same")


def test_open_files_outlive_their_names():
    with Mounted({"file": "host"}, permissions=FREE) as m:
        def work():
            old = open("file", "r+")
            new = open("new", "w+")
            new.write("abc")
            new.flush()
            os.unlink("file")
            os.unlink("new")
            old.seek(0, 2)
            old.write("+")
            old.flush()
            old.seek(0)
            new.seek(0)
            return old.read(), new.read(), os.fstat(new.fileno()).st_nlink, os.listdir(".")
        assert m.guest(work) == ("host+", "abc", 0, [])
        assert m.summary() == {"file": "deleted"}
        assert m.settled()["bytes"] == 0


def test_a_reader_sees_what_is_written_after_it_opened():
    with Mounted({"file": b"h" * 300000}, permissions=FREE) as m:
        def work():
            reader = os.open("file", os.O_RDONLY)
            writer = os.open("file", os.O_RDWR)
            os.pwrite(writer, b"WRITTEN", 200000)
            got = os.pread(reader, 7, 200000), os.pread(reader, 3, 299999), len(os.pread(reader, 400000, 0))
            os.ftruncate(writer, 10)
            return got, os.pread(reader, 100, 0), os.fstat(reader).st_size
        assert m.guest(work) == ((b"WRITTEN", b"h", 300000), b"h" * 10, 10)


def test_appending_and_creating_exclusively():
    with Mounted({"log": "0"}, permissions=FREE) as m:
        def work():
            fds = [os.open("log", os.O_WRONLY | os.O_APPEND) for _ in range(2)]
            for i in range(6):
                os.write(fds[i % 2], b"%d" % i)
            try:
                os.open("log", os.O_CREAT | os.O_EXCL | os.O_WRONLY)
            except FileExistsError:
                return read("log")
        assert m.guest(work) == "0012345"


def test_sparse_files():
    with Mounted({}, permissions=FREE, upper="8m") as m:
        def host(path):
            with open(path, "wb") as file:
                file.truncate(1 << 30)
                file.seek(1 << 29)
                file.write(b"data")
        m.make({"hole": host})
        def work():
            write("hole", "x", "r+")
            fd = os.open("hole", os.O_RDWR)
            data = os.lseek(fd, 4096, os.SEEK_DATA)
            hole = os.lseek(fd, data, os.SEEK_HOLE)
            fcntl.flock(fd, fcntl.LOCK_EX)
            return data, hole, os.fstat(fd).st_size, os.pread(fd, 4, 1 << 29)
        data, hole, size, text = m.guest(work)
        assert data <= 1 << 29 < hole and size == 1 << 30 and text == b"data"
        assert m.usage()["bytes"] < 1 << 20


def test_odd_names():
    names = [b"\xff\xfe", b"a\nb", b"-rf", b"*", b"n" * 255, "é".encode(), b"\\", b"$(x)", b" "]
    with Mounted({os.fsdecode(b"host\x80"): "h"}, permissions=FREE) as m:
        def work():
            for name in names:
                with open(name, "w") as file:
                    file.write("x")
            os.rename(b"host\x80", b"moved\x81")
            return sorted(os.listdir(b"."))
        assert m.guest(work) == sorted(names + [b"moved\x81"])
        m.fails(errno.ENAMETOOLONG, lambda: write("n" * 256, ""))
        rows = m.changes()["changes"]
        assert len(rows) == len(names) + 1
        row = next(r for r in rows if r["type"] == "renamed")
        assert row["path"] == {"$": "bytes", "b64": "bW92ZWSB"} and row["from"] == {"$": "bytes", "b64": "aG9zdIA="}
        assert m.guest(lambda: os.stat(b"moved\x81").st_size) == 1


def test_deep_trees():
    with Mounted({}, permissions={"default": ALL, "rules": [{"pattern": "never/**", "deny": ["*"]}]}) as m:
        def make():
            for _ in range(3000):
                os.mkdir("d")
                os.chdir("d")
            write("bottom", "x")
        m.guest(make, timeout=100)
        paths = [c["path"] for c in m.changes()["changes"]]
        assert len(paths) == 3001 and paths[-1].endswith("/bottom")
        m.guest(lambda: os.rename("d", "moved"))
        assert m.contents("moved/" + "d/" * 2999 + "bottom") == b"x"
        def too_deep():
            for _ in range(400):
                os.mkdir("l" * 200)
                os.chdir("l" * 200)
        m.fails(errno.ENAMETOOLONG, too_deep)


def test_large_directories():
    count = sampled(15000, 60000)
    with Mounted({"big": None}, permissions=FREE) as m:
        for i in range(count):
            os.close(os.open(f"{m.lower}/big/{i}", os.O_CREAT | os.O_WRONLY))
        m.make({})
        def work():
            seen = os.listdir("big")
            assert len(seen) == count and len(set(seen)) == count
            for i in range(0, 1000):
                os.unlink(f"big/{i}")
            write("big/new", "")
            again = set(os.listdir("big"))
            with os.scandir("big") as entries:
                first = [next(entries).name for _ in range(count // 2)]
                for name in first[:100]:
                    os.unlink("big/" + name)
                rest = [entry.name for entry in entries]
            return len(again), "0" in again, "new" in again, len(set(first) | set(rest))
        assert m.guest(work, timeout=100) == (count - 999, False, True, count - 999)


def test_copying_within():
    with Mounted({"a": b"0123456789" * 1000}, permissions=FREE) as m:
        def work():
            with open("a", "rb") as source, open("b", "wb") as target:
                done = 0
                while done < 10000:
                    done += os.copy_file_range(source.fileno(), target.fileno(), 10000 - done)
            shutil.copy("b", "c")
            os.posix_fallocate(os.open("c", os.O_RDWR), 0, 20000)
            return read("b") == read("a"), os.stat("c").st_size
        assert m.guest(work) == (True, 20000)
        assert m.summary() == {"b": "created", "c": "created"}


def test_the_upper_layer_is_bounded():
    with Mounted({"a": b"x" * 300000}, permissions=FREE, limits={"bytes": 1 << 20, "changes": 100}) as m:
        def fill(size):
            def work():
                with open("fill", "wb", buffering=0) as file:
                    for _ in range(size >> 12):
                        file.write(b"x" * 4096)
            return work
        m.guest(fill(900 << 10))
        st = m.guest(lambda: os.statvfs("."))
        assert st.f_blocks * st.f_frsize == 1 << 20 and st.f_bavail * st.f_frsize < 200 << 10
        m.fails(errno.ENOSPC, fill(2 << 20))
        m.fails(errno.ENOSPC, lambda: write("a", "y", "r+"))
        assert m.guest(lambda: read("a")) == "x" * 300000
        m.guest(lambda: os.unlink("fill"))
        m.guest(lambda: write("a", "y", "r+"))
        def many():
            for i in range(1000):
                os.mkdir(str(i))
        m.fails(errno.ENOSPC, many)
        assert m.usage()["changed"] <= 101
        m.fails(errno.ENOSPC, lambda: os.posix_fallocate(os.open("a", os.O_RDWR), 0, 1 << 50))
    with Mounted({}, permissions=FREE, upper="1m") as m:
        m.fails(errno.ENOSPC, lambda: write("a", "x" * (2 << 20)))


def test_metadata_alone():
    with Mounted({"a": "a", "d": None}, permissions=FREE) as m:
        m.guest(lambda: (os.chmod("a", 0o600), os.utime("d", (1, 2))))
        rows = {c["path"]: c for c in m.changes()["changes"]}
        assert rows["a"]["type"] == "modified" and rows["a"]["mode"] == 0o600 and rows["a"]["content"] is False
        assert rows["d"]["mtimeNs"] == 2 * 10 ** 9 and rows["d"]["kind"] == "directory"
        assert m.usage()["bytes"] == 0 and "contents" not in rows["a"] and m.guest(lambda: read("a")) == "a"


def test_memory_is_flat_over_many_lookups():
    def resident(m):
        with open(f"/proc/{m.server.pid}/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    tree = {f"d{i}/f{j}": "x" for i in range(20) for j in range(50)}
    with Mounted(tree, permissions=FREE, cacheSeconds=0) as m:
        def look(rounds):
            def work():
                for _ in range(rounds):
                    for path in tree:
                        os.stat(path)
                    for i in range(100):
                        try:
                            os.stat(f"missing{i}")
                        except FileNotFoundError:
                            pass
            return work
        m.guest(look(5), timeout=100)
        before, nodes = resident(m), len(tree) + 20 + 1  # files, directories and the root
        m.guest(look(sampled(10, 40)), timeout=100)
        assert resident(m) - before < 1000, (before, resident(m))
        assert m.usage()["nodes"] <= nodes, m.usage()
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("2")
        for _ in range(50):
            if m.usage()["nodes"] < nodes / 2:
                break
            m.guest(lambda: __import__("time").sleep(0.05))
        assert m.usage()["nodes"] < nodes / 2, "what the kernel forgot is still held"


NAMES = ["a", "b", "c", "d/a", "d/b", "d/c", "d", "e", "e/a", "e/d", "e/d/a"]
START = {"a": "one", "b": "two", "d/a": "three", "d/b": "four", "e/d/a": "five"}


def tree():
    """The working directory: {path: (mode, content)}."""
    seen = {}
    for top, folders, files in os.walk("."):
        for name in folders + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            seen[path[2:]] = (stat.filemode(st.st_mode), os.readlink(path) if stat.S_ISLNK(st.st_mode) else
                              read(path) if stat.S_ISREG(st.st_mode) else None)
    return seen


def script(seed, operations):
    """400 random operations; their errors and the resulting tree."""
    chosen = random.Random(seed)
    log = []
    work = {"c": lambda x, y, n: write(x, str(n)), "r": lambda x, y, n: os.rename(x, y), "w": lambda x, y, n: write(x, "more", "a"),
            "m": lambda x, y, n: os.mkdir(x), "d": lambda x, y, n: os.rmdir(x), "l": lambda x, y, n: os.link(x, y),
            "u": lambda x, y, n: os.unlink(x), "t": lambda x, y, n: os.truncate(x, n % 30), "s": lambda x, y, n: os.symlink("a", x),
            "x": lambda x, y, n: os.chmod(x, 0o700)}
    for _ in range(400):
        operation, x, y, n = chosen.choice(operations), chosen.choice(NAMES), chosen.choice(NAMES), chosen.randrange(1000)
        try:
            work[operation](x, y, n)
            log.append("ok")
        except OSError as error:
            log.append(errno.errorcode[error.errno])
    return log, tree()


def test_random_work_against_a_plain_directory():
    """The same random operations in the mount and in a directory give the same tree and the same errors."""
    for seed in range(25):
        with Mounted(START, permissions=FREE) as m:
            through = m.guest(lambda: script(seed, "crwmdlutsx"))
            at, m.at = m.at, m.lower
            plain = m.guest(lambda: script(seed, "crwmdlutsx"))
            m.at = at
            for i, (one, other) in enumerate(zip(through[0], plain[0])):
                assert one == other, f"seed {seed}, operation {i}: {one} in the mount, {other} in a directory"
            assert through[1] == plain[1], f"seed {seed}: {through[1]}\n{plain[1]}"


def apply(m, at):
    """Applies the changes to another copy of the host's tree, as change.h promises."""
    rows = m.changes()["changes"]
    stage = at + ".stage"
    os.mkdir(stage)
    path = lambda name: os.path.join(at, name)
    leaving = [(row.get("from", row["path"]), i) for i, row in enumerate(rows) if row["type"] in ("deleted", "renamed")]
    for name, i in sorted(leaving, reverse=True):
        if rows[i]["type"] == "renamed":
            os.rename(path(name), f"{stage}/{i}")
        else:
            (os.rmdir if rows[i]["kind"] == "directory" else os.unlink)(path(name))
    for i, row in enumerate(rows):
        to = path(row["path"])
        if row["type"] == "renamed":
            if row.get("over"):
                (os.rmdir if row["kind"] == "directory" else os.unlink)(to)
            os.rename(f"{stage}/{i}", to)
        elif row["type"] in ("created", "modified"):
            if row["kind"] == "directory":
                if row["type"] == "created":
                    os.mkdir(to)
                os.chmod(to, row["mode"])
            elif row["kind"] == "symlink":
                if row["type"] == "modified":
                    os.unlink(to)
                os.symlink(row["target"], to)
            else:
                if row.get("content", True):
                    with open(to, "wb") as file:
                        file.write(m.contents_of(row))
                os.chmod(to, row["mode"])
    os.rmdir(stage)


def test_the_list_of_changes_can_be_applied():
    for seed in range(40):
        with Mounted(START, permissions=FREE) as m:
            copy = m.folder + "/copy"
            shutil.copytree(m.lower, copy, symlinks=True)
            _, wanted = m.guest(lambda: script(seed, "crrrwmmdutsx"))
            try:
                apply(m, copy)
            except OSError as error:
                raise AssertionError(f"seed {seed}: {error!r} {m.summary()}") from error
            before = os.getcwd()
            os.chdir(copy)
            got = tree()
            os.chdir(before)
            assert got == wanted, f"seed {seed}: {m.summary()}\n{got}\n{wanted}"
