"""Every operation, allowed and denied, under each of the three policies."""
import ctypes
import errno
import mmap
import os
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, Mounted, libc, read, write

TREE = {"file": "host\n", "other": "other\n", "empty": None, "folder/inside": "inside\n", "link": ("link", "file")}


def truncating_open(path):
    os.close(os.open(path, os.O_WRONLY | os.O_TRUNC))


def append(path):
    write(path, "more", "a")


def shared_map(path):
    with open(path, "r+b") as file, mmap.mmap(file.fileno(), 4) as area:
        area[:4] = b"MMAP"
        area.flush()


def extend(path):
    fd = os.open(path, os.O_WRONLY)
    try:
        os.posix_fallocate(fd, 0, 100)
    finally:
        os.close(fd)


def copy_range(path):
    with open("other", "rb") as source, open(path, "r+b") as file:
        os.copy_file_range(source.fileno(), file.fileno(), 3)


# name: (action, the call, the paths it changes)
WRITES = {
    "create": ("create", lambda: write("new", "x"), ["new"]),
    "create exclusively": ("create", lambda: os.close(os.open("new", os.O_CREAT | os.O_EXCL | os.O_WRONLY)), ["new"]),
    "mkdir": ("create", lambda: os.mkdir("new"), ["new"]),
    "symlink": ("create", lambda: os.symlink("file", "new"), ["new"]),
    "link": ("create", lambda: os.link("file", "new"), ["new"]),
    "mknod": ("create", lambda: os.mknod("new", 0o600 | stat.S_IFREG), ["new"]),
    "write": ("modify", lambda: write("file", "changed", "r+"), ["file"]),
    "append": ("modify", lambda: append("file"), ["file"]),
    "open with truncation": ("modify", lambda: truncating_open("file"), ["file"]),
    "truncate": ("modify", lambda: os.truncate("file", 2), ["file"]),
    "chmod": ("modify", lambda: os.chmod("file", 0o600), ["file"]),
    "utimes": ("modify", lambda: os.utime("file", (1, 1)), ["file"]),
    "fallocate": ("modify", lambda: extend("file"), ["file"]),
    "copy_file_range": ("modify", lambda: copy_range("file"), ["file"]),
    "unlink": ("delete", lambda: os.unlink("file"), ["file"]),
    "rmdir": ("delete", lambda: os.rmdir("empty"), ["empty"]),
}


def allowing(**changed):
    return {"default": {**ALL, **changed}}


def state():
    """All a guest can see."""
    seen = {}
    for top, folders, files in os.walk("."):
        for name in folders + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            seen[path] = (st.st_mode, os.readlink(path) if os.path.islink(path) else read(path) if name in files else None)
            if name == "file":
                seen["time"] = st.st_mtime
    return seen


def host_state(m):
    seen = {}
    for top, folders, files in os.walk(m.lower):
        for name in folders + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            seen[path] = (st.st_mode, st.st_mtime_ns, st.st_size, st.st_nlink)
    return seen


def each_write(policy, check):
    for name, (action, work, paths) in WRITES.items():
        with Mounted(TREE, permissions=allowing(**({action: False} if policy else {})), onPermissionDenied=policy or "throw") as m:
            host = host_state(m)
            try:
                check(m, action, work, paths)
                assert host_state(m) == host, "the host's directory was written"
            except Exception as error:
                raise AssertionError(f"{name}: {error!r}") from error


def test_allowed():
    def check(m, action, work, paths):
        before = m.guest(state)
        m.guest(work)
        assert m.guest(state) != before
        assert sorted(m.summary()) == paths, m.summary()
        assert m.denials() == []
    each_write(None, check)


def test_throw():
    def check(m, action, work, paths):
        before = m.guest(state)
        m.fails(errno.EACCES, work)
        assert m.guest(state) == before
        assert m.summary() == {}
        assert (paths[0], action, "") in m.denials(), m.denials()
    each_write("throw", check)


def test_ignore():
    def check(m, action, work, paths):
        before = m.guest(state)
        m.guest(work)
        assert m.guest(state) == before, m.guest(state)
        assert m.summary() == {}, m.summary()
        assert (paths[0], action, "") in m.denials(), m.denials()
    each_write("ignore", check)


def test_virtual():
    def check(m, action, work, paths):
        before = m.guest(state)
        m.guest(work)
        assert m.guest(state) != before
        assert sorted(m.summary()) == paths and all(row.endswith("!") for row in m.summary().values()), m.summary()
        assert (paths[0], action, "") in m.denials(), m.denials()
    each_write("virtual", check)


def test_reading_is_never_pretended():
    for policy in ("throw", "ignore", "virtual"):
        with Mounted(TREE, permissions=allowing(read=False), onPermissionDenied=policy) as m:
            m.fails(errno.EACCES, lambda: read("file"))
            m.fails(errno.EACCES, lambda: os.readlink("link"))
            m.fails(errno.EACCES, lambda: os.close(os.open("file", os.O_RDWR)))
            m.fails(errno.EACCES, lambda: os.link("file", "readable"))
            assert sorted(m.guest(lambda: os.listdir("."))) == ["empty", "file", "folder", "link", "other"]
            m.guest(lambda: append("file"))
            assert m.contents("file") == b"host\nmore"
        with Mounted(TREE, permissions=allowing(list=False), onPermissionDenied=policy) as m:
            m.fails(errno.EACCES, lambda: os.listdir("folder"))
            assert m.guest(lambda: read("folder/inside")) == "inside\n"


def test_shared_maps():
    with Mounted(TREE, permissions=allowing()) as m:
        m.guest(lambda: shared_map("file"))
        assert m.guest(lambda: read("file")) == "MMAP\n"
        assert m.contents("file") == b"MMAP\n"
    with Mounted(TREE, permissions=allowing(modify=False)) as m:
        m.fails(errno.EACCES, lambda: shared_map("file"))


def test_renames_ask_for_both_ends():
    rename = lambda a, b: lambda: os.rename(a, b)
    with Mounted(TREE, permissions=allowing()) as m:
        m.guest(rename("file", "moved"))
        assert m.summary() == {"moved": "renamed file"}
    for missing, target in (("delete", "moved"), ("create", "moved"), ("modify", "other")):
        for policy in ("throw", "ignore", "virtual"):
            with Mounted(TREE, permissions=allowing(**{missing: False}), onPermissionDenied=policy) as m:
                before = m.guest(state)
                if policy == "throw":
                    m.fails(errno.EACCES, rename("file", target))
                else:
                    m.guest(rename("file", target))
                after = m.guest(state)
                assert (after == before) == (policy != "virtual"), (missing, policy, after)
                rows = m.summary()
                assert rows == ({target: "renamed! file"} if policy == "virtual" else {}), (missing, policy, rows)
                assert ("file" if missing == "delete" else target, missing, "") in m.denials()


def test_a_file_may_be_filled_by_who_creates_it():
    def save():
        with open("new", "w") as file:
            file.write("first ")
            file.flush()
            os.fchmod(file.fileno(), 0o640)
            os.utime(file.fileno(), (5, 5))
            file.write("second")
    with Mounted(TREE, permissions=allowing(modify=False, delete=False)) as m:
        m.guest(save)
        assert m.contents("new") == b"first second"
        m.fails(errno.EACCES, lambda: append("new"))


def test_xattrs():
    with Mounted(TREE, permissions=allowing()) as m:
        def use():
            os.setxattr("file", "user.a", b"1")
            os.setxattr("file", "user.b", b"")
            os.setxattr("file", "user.a", b"22", os.XATTR_REPLACE)
            try:
                os.setxattr("file", "user.a", b"3", os.XATTR_CREATE)
            except FileExistsError:
                pass
            os.removexattr("file", "user.b")
            return os.listxattr("file"), os.getxattr("file", "user.a")
        assert m.guest(use) == (["user.a"], b"22")
        m.fails(errno.EPERM, lambda: os.setxattr("file", "trusted.overlay.opaque", b"y"))
        m.fails(errno.ENODATA, lambda: os.getxattr("file", "user.none"))
        assert m.summary() == {}
    for policy, number in (("throw", errno.EACCES), ("ignore", None)):
        with Mounted(TREE, permissions=allowing(modify=False), onPermissionDenied=policy) as m:
            if number:
                m.fails(number, lambda: os.setxattr("file", "user.a", b"1"))
            else:
                m.guest(lambda: os.setxattr("file", "user.a", b"1"))
            assert m.guest(lambda: os.listxattr("file")) == []


def test_excluded_names():
    rules = {"default": ALL, "exclude": ["secret", "*.key"]}
    with Mounted({"secret/a": "a", "b.key": "b", "sub/c.key": "c", "d": "d"}, permissions=rules) as m:
        assert m.guest(lambda: sorted((top, sorted(f), sorted(n)) for top, f, n in os.walk("."))) == [
            (".", ["sub"], ["d"]), ("./sub", [], [])]
        m.fails(errno.EACCES, lambda: read("b.key"))
        m.fails(errno.EACCES, lambda: read("secret/a"))
        m.fails(errno.EACCES, lambda: os.listdir("secret"))
        m.fails(errno.EACCES, lambda: write("secret/new", "x"))
        m.fails(errno.EACCES, lambda: write("new.key", "x"))
        m.fails(errno.EACCES, lambda: os.unlink("b.key"))
        m.fails(errno.ENOTEMPTY, lambda: os.rmdir("sub"))
        assert m.guest(lambda: os.stat("b.key").st_size) == 0, "the size of what cannot be read is told"
        assert ("b.key", "read", "*.key") in m.denials() and ("new.key", "create", "*.key") in m.denials(), m.denials()


def test_rules_name_themselves_and_count():
    rules = {"default": ALL, "rules": [{"pattern": "**/*.lock", "deny": ["modify"]}]}
    with Mounted({"a/x.lock": "1"}, permissions=rules) as m:
        for _ in range(3):
            m.fails(errno.EACCES, lambda: append("a/x.lock"))
        (denial,) = m.changes()["denials"]
        assert (denial["path"], denial["operation"], denial["rule"], denial["count"]) == ("a/x.lock", "modify", "**/*.lock", 3)
        told = [row["params"] for row in m.control.drain() if row["method"] == "permissionDenied"]
        assert told and told[0]["path"] == "a/x.lock" and told[0]["rule"] == "**/*.lock"


def test_nothing_is_protected_by_its_parents_name_alone():
    """Rename the parent of a denied path, write, rename back."""
    rules = {"default": ALL, "rules": [{"pattern": "etc/secret/**", "deny": ["*"]}, {"pattern": "etc/frozen/*", "deny": ["modify", "delete"]}]}
    tree = {"etc/secret/key": "key", "etc/frozen/file": "file", "etc/free": "free"}
    for name in ("etc", "etc/secret", "etc/frozen"):
        with Mounted(tree, permissions=rules) as m:
            m.fails(errno.EACCES, lambda: os.rename(name, "loose"))
            m.fails(errno.EACCES, lambda: read("etc/secret/key"))
            assert m.guest(lambda: os.listdir("etc/frozen")) == ["file"] and m.summary() == {}
    with Mounted(tree, permissions=rules, onPermissionDenied="virtual") as m:
        m.guest(lambda: os.rename("etc", "loose"))
        assert m.guest(lambda: read("loose/free")) == "free"
        m.fails(errno.EACCES, lambda: read("loose/secret/key"))
        assert m.guest(lambda: os.listdir("loose/secret")) == []
        assert all("!" in row for row in m.summary().values()), m.summary()
    with Mounted(tree, permissions=rules) as m:
        m.guest(lambda: os.mkdir("new"))
        m.guest(lambda: os.rename("etc/free", "new/free"))
        m.guest(lambda: os.rename("new", "newer"))
        assert m.summary() == {"newer": "created", "newer/free": "renamed etc/free"}


def test_open_files_follow_the_rules_of_where_they_are():
    """A file opened for writing where it may be, moved to where it may not."""
    rules = {"default": ALL, "rules": [{"pattern": "final/**", "deny": ["modify"]}]}
    with Mounted({"file": "x", "final": None}, permissions=rules) as m:
        def work():
            fd = os.open("file", os.O_WRONLY)
            os.write(fd, b"1")
            os.rename("file", "final/file")
            os.write(fd, b"2")
        m.fails(errno.EACCES, work)
        assert m.contents("final/file") == b"1"


def test_modes_and_owners():
    with Mounted(TREE, permissions=allowing()) as m:
        m.guest(lambda: os.chmod("file", 0o4755))
        assert m.guest(lambda: stat.S_IMODE(os.stat("file").st_mode)) == 0o755
        m.fails(errno.EPERM, lambda: os.chown("file", 0, 0))
        m.fails(errno.EPERM, lambda: os.mknod("device", 0o600 | stat.S_IFCHR, os.makedev(1, 3)))
        m.guest(lambda: os.chmod("file", 0))
        m.fails(errno.EACCES, lambda: read("file"))
        m.guest(lambda: os.mkfifo("pipe"))
        assert stat.S_ISFIFO(m.guest(lambda: os.stat("pipe").st_mode))
        assert "pipe" not in m.summary() and m.changes()["warnings"][0]["path"] == "pipe"
