"""Renames that exchange or replace nothing, and files without names."""
import errno
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, AT_FDCWD, AT_SYMLINK_FOLLOW, Mounted, RENAME_EXCHANGE, RENAME_NOREPLACE, check, libc, read, rename, write

FREE = {"default": ALL}
TIMEOUT = 120


def exchange(one, other):
    return lambda: rename(one, other, RENAME_EXCHANGE)


def test_files_and_directories_trade_names():
    tree = {"a": "a", "b": "bb", "d/x": "x", "e/y": "y", "e/f/z": "z", "link": ("link", "a")}
    with Mounted(tree, permissions=FREE) as m:
        m.guest(exchange("a", "b"))
        assert m.guest(lambda: (read("a"), read("b"))) == ("bb", "a")
        assert m.summary() == {"a": "renamed b", "b": "renamed a"}
        m.guest(exchange("a", "b"))
        assert m.summary() == {}
        m.guest(exchange("d", "e"))
        assert m.guest(lambda: (os.listdir("e"), sorted(os.listdir("d")), read("d/f/z"))) == (["x"], ["f", "y"], "z")
        m.guest(exchange("a", "e"))
        assert m.guest(lambda: (os.listdir("a"), read("e"))) == (["x"], "a")
        m.guest(exchange("d/y", "link"))
        assert m.guest(lambda: (os.readlink("d/y"), read("link"))) == ("a", "y")
        assert m.summary() == {"d": "renamed e", "a": "renamed d", "e": "renamed a", "d/y": "renamed link", "link": "renamed e/y"}, m.summary()
        def own():
            write("mine", "m")
            os.mkdir("box")
            rename("mine", "b", RENAME_EXCHANGE)
            rename("box", "mine", RENAME_EXCHANGE)
            return read("b"), read("box"), os.listdir("mine")
        assert m.guest(own) == ("m", "bb", [])
        for work in (exchange("d", "d/f"), exchange("d/f", "d")):
            m.fails(errno.EINVAL, work)
        m.fails(errno.ENOENT, exchange("a", "missing"))
        m.guest(exchange("a", "a"))


def test_an_exchange_asks_for_the_rights_of_both():
    tree = {"free": "free", "other": "other", "kept": "kept", "fixed": "fixed", "d/x": "x", "e/secret": "s", "f/y": "y"}
    rules = {"default": ALL, "rules": [{"pattern": "kept", "deny": ["delete"]}, {"pattern": "fixed", "deny": ["modify"]},
                                       {"pattern": "d/secret", "deny": ["create"]}, {"pattern": "f/x", "deny": ["*"]}]}
    with Mounted(tree, permissions=rules) as m:
        for one, other, denied in (("free", "kept", ("kept", "delete")), ("kept", "free", ("kept", "delete")), ("free", "fixed", ("fixed", "modify")),
                                   ("fixed", "free", ("fixed", "modify")), ("d", "e", ("d/secret", "create")), ("e", "d", ("d/secret", "create")),
                                   ("d", "f", ("f/x", "create"))):
            m.fails(errno.EACCES, exchange(one, other))
            assert denied in [row[:2] for row in m.denials()], (one, other, m.denials())
        assert m.summary() == {}
        m.guest(exchange("free", "other"))
        m.guest(exchange("e", "f"))
        assert m.summary() == {"free": "renamed other", "other": "renamed free", "e": "renamed f", "f": "renamed e"}
    for policy, wanted in (("ignore", ("free", "kept")), ("virtual", ("kept", "free"))):
        with Mounted(tree, permissions=rules, onPermissionDenied=policy) as m:
            m.guest(exchange("free", "kept"))
            assert m.guest(lambda: (read("free"), read("kept"))) == wanted
            assert all(text.replace("!", "") != text for text in m.summary().values()), m.summary()
            assert bool(m.summary()) == (policy == "virtual")


def test_a_denied_name_is_not_had_by_an_exchange():
    rules = {"default": ALL, "rules": [{"pattern": "**/secret", "deny": ["read", "list"]}]}
    with Mounted({"a/secret": "SECRET", "b/open": "open"}, permissions=rules) as m:
        m.guest(exchange("a", "b"))
        m.fails(errno.EACCES, lambda: read("b/secret"))
        m.guest(exchange("b/secret", "a/open"))
        m.fails(errno.EACCES, lambda: read("a/open"))
        assert m.guest(lambda: os.listdir("a")) == []
        # A file that takes a denied name is denied, too.
        m.fails(errno.EACCES, lambda: read("b/secret"))
        m.guest(exchange("b/secret", "a/open"))
        assert m.guest(lambda: read("a/open")) == "open"


def test_replacing_nothing():
    with Mounted({"a": "a", "b": "b"}, permissions=FREE) as m:
        m.fails(errno.EEXIST, lambda: rename("a", "b", RENAME_NOREPLACE))
        m.guest(lambda: rename("a", "c", RENAME_NOREPLACE))
        assert m.summary() == {"c": "renamed a"}
        m.fails(errno.EINVAL, lambda: rename("b", "c", RENAME_NOREPLACE | RENAME_EXCHANGE))
        m.fails(errno.EINVAL, lambda: rename("b", "d", 4))  # RENAME_WHITEOUT


def test_files_without_names():
    with Mounted({"d": None}, permissions={"default": ALL, "rules": [{"pattern": "no", "deny": ["create"]}]}) as m:
        def work():
            fd = os.open("d", os.O_TMPFILE | os.O_RDWR, 0o640)
            os.write(fd, b"nameless")
            before = os.fstat(fd).st_nlink, os.listdir("d")
            def name(to):
                check(libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, to.encode(), AT_SYMLINK_FOLLOW))
            try:
                name("no")
            except PermissionError:
                name("named")
            os.write(fd, b", named")
            return before, read("named"), os.fstat(fd).st_nlink, oct(os.stat("named").st_mode & 0o777)
        assert m.guest(work) == ((0, []), "nameless, named", 1, "0o640")
        assert m.summary() == {"named": "created"} and m.denials() == [("no", "create", "no")]
        assert m.contents("named") == b"nameless, named"
        used = m.usage()["bytes"]
        def scratch():
            fd = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_EXCL)
            os.write(fd, b"x" * 100000)
            try:
                check(libc.linkat(AT_FDCWD, f"/proc/self/fd/{fd}".encode(), AT_FDCWD, b"x", AT_SYMLINK_FOLLOW))
            except OSError as error:
                return error.errno, os.pread(fd, 10, 99990)
        assert m.guest(scratch) == (errno.ENOENT, b"x" * 10)
        assert m.settled()["bytes"] == used and m.summary() == {"named": "created"}
    with Mounted({}, permissions=FREE, limits={"bytes": 50000}) as m:
        m.fails(errno.ENOSPC, lambda: os.write(os.open(".", os.O_TMPFILE | os.O_RDWR), b"x" * 100000))
