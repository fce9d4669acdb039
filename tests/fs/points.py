"""Mount points of other mounts (points), with a server that gets a request at each step: actions of
the host and the guest there, and a mount of one file."""
import errno
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, MNT_DETACH, Mounted, Refused, libc, mount, read, write

FREE = {"default": ALL}
POINTS = [{"path": "way/on/place", "kind": "directory"}, {"path": "way/file", "kind": "file"}]
TREE = {"way/on/place/secret": "the host's", "way/file": "the host's", "way/on/beside": "x"}


class Pointed(Mounted):
    """With a file system of the test's own attached at the directory."""

    def __init__(self, tree=TREE, **settings):
        super().__init__(tree, **{"points": POINTS, "permissions": FREE, "cacheSeconds": 0, **settings})

    def start(self, configure=True):
        super().start(configure)
        mount("inner", self.at + "/way/on/place", "tmpfs", 0)
        write(self.at + "/way/on/place/own", "inner")
        return self

    def stop(self):
        libc.umount2(os.fsencode(self.at + "/way/on/place"), MNT_DETACH)
        super().stop()

    def look(self):
        return self.guest(lambda: (read("way/on/place/own"), os.listdir("way/on/place"), read("way/file")))


STANDS = ("inner", ["own"], "")


def test_the_host_cannot_move_the_mount_or_take_it_away():
    """The kernel drops mounts beneath a directory that was replaced by another one."""
    for change in (lambda lower: os.rename(lower + "/way", lower + "/gone"), lambda lower: shutil.rmtree(lower + "/way"),
                   lambda lower: (os.rename(lower + "/way", lower + "/gone"), write(lower + "/way", "a file")),
                   lambda lower: (os.rename(lower + "/way/on", lower + "/on"), os.symlink("../on", lower + "/way/on")),
                   lambda lower: (os.rename(lower + "/way", lower + "/gone"), os.makedirs(lower + "/way/on/place"), write(lower + "/way/on/place/secret", "another")),
                   lambda lower: (shutil.rmtree(lower + "/way/on/place"), write(lower + "/way/on/place", "a file"))):
        with Pointed() as m:
            assert m.look() == STANDS
            change(m.lower)
            for _ in range(3):
                assert m.look() == STANDS
            assert m.guest(lambda: os.path.exists("way/on/place/secret")) is False


def test_where_there_is_no_point_the_host_does_take_it_away():
    with Pointed({**TREE, "plain/place/x": "x"}) as m:
        mount("inner", m.at + "/plain/place", "tmpfs", 0)
        write(m.at + "/plain/place/own", "inner")
        assert m.guest(lambda: read("plain/place/own")) == "inner"
        shutil.rmtree(m.lower + "/plain")
        m.fails(errno.ENOENT, lambda: read("plain/place/own"))
        assert m.look() == STANDS


def test_of_what_the_host_has_not():
    with Pointed({"a": "a"}) as m:
        assert m.look() == STANDS
        assert m.guest(lambda: (sorted(os.listdir(".")), sorted(os.listdir("way")), os.listdir("way/on"))) == (["a", "way"], ["file", "on"], ["place"])
        assert m.control.call("changes")["changes"] == []


def test_the_guest_cannot_either():
    for policy in ("throw", "ignore", "virtual"):
        for permissions in (FREE, {"default": {"read": True, "list": True}}):
            with Pointed(permissions=permissions, onPermissionDenied=policy) as m:
                for path in ("way", "way/on", "way/on/place", "way/file"):
                    m.fails(errno.EBUSY, lambda path=path: os.rename(path, "moved"))
                m.fails(errno.EBUSY, lambda: os.unlink("way/file"))
                assert m.look() == STANDS, (policy, permissions)
                assert m.control.call("changes")["changes"] == []


def test_what_leads_there_is_reported_with_what_the_guest_makes_in_it():
    with Pointed({"a": "a"}) as m:
        m.guest(lambda: write("way/on/new", "new"))
        assert [(c["type"], c["path"], c.get("virtual")) for c in m.control.call("changes")["changes"]] == [
            ("created", "way", None), ("created", "way/on", None), ("created", "way/on/new", None)]


def test_what_the_caller_places():
    with Pointed() as m:
        for kind in ("file", "symlink"):
            with open(m.lower + "/way/on/beside") as file:
                try:
                    m.control.answer(m.control.send("place", {"path": "way/file", "kind": kind, "target": "x"}, fd=file.fileno() if kind == "file" else None))
                    raise AssertionError("it was placed")
                except Refused as refused:
                    assert "busy" in str(refused).lower(), refused
        assert m.look() == STANDS


def test_configurations_that_are_none():
    for points in ("way", [{"path": "/way", "kind": "directory"}], [{"path": "../way", "kind": "directory"}], [{"path": "way", "kind": "symlink"}], [{"kind": "file"}],
                   [{"path": ".cloche-sync", "kind": "directory"}], [{"path": f"p{i}", "kind": "file"} for i in range(9)]):
        m = Mounted({"a": "a"}, points=points)
        try:
            m.__enter__()
            raise AssertionError(points)
        except Refused as refused:
            assert "points" in str(refused), refused
        finally:
            m.stop()
    for file in ("", ".", "..", "a/b", 3):
        m = Mounted({"a": "a"}, file=file)
        try:
            m.__enter__()
            raise AssertionError(file)
        except Refused as refused:
            assert "file" in str(refused), refused
        finally:
            m.stop()


def test_a_file_that_is_none():
    for tree, says in (({"x": None}, "not a file"), ({"x": ("link", "a"), "a": "a"}, "not a file"), ({"a": "a"}, "No such file")):
        m = Mounted(tree, file="x")
        try:
            m.__enter__()
            raise AssertionError(tree)
        except Refused as refused:
            assert says in str(refused), refused
        finally:
            m.stop()
