"""The input of a sync: places of contents, the host's former state, and the caller's own files,
which are never synced."""
import errno
import os
import shutil
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, Mounted, Refused, read, write

FREE = {"default": ALL}
TIMEOUT = 120


def identity(path):
    st = os.lstat(path)
    return {"dev": st.st_dev, "ino": st.st_ino, "size": st.st_size, "mtimeNs": st.st_mtime_ns, "ctimeNs": st.st_ctime_ns}


def rows(m):
    """{(type, path): row}"""
    return {(row["type"], row["path"]): row for row in m.changes()["changes"]}


def refused(work):
    try:
        work()
    except Refused as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_each_change_says_where_its_contents_are():
    with Mounted({"old": "old", "mode": "m", "moved": "moved", "edited": "e", "gone": "g", "d": None}, permissions=FREE) as m:
        def work():
            write("new", "new text")
            write("old", "+", "a")
            os.chmod("mode", 0o600)
            os.rename("moved", "away")
            os.rename("edited", "E")
            write("E", "!", "a")
            os.link("new", "other")
            os.unlink("gone")
            os.mkdir("dir")
            os.symlink("x", "link")
            open("empty", "w").close()
        m.guest(work)
        got = rows(m)
        with_contents = {key: m.contents_of(row) for key, row in got.items() if "contents" in row}
        assert with_contents == {("created", "new"): b"new text", ("modified", "old"): b"old+", ("modified", "E"): b"e!",
                                 ("created", "other"): b"new text", ("created", "empty"): b""}, with_contents
        assert got[("modified", "mode")]["content"] is False and got[("modified", "old")]["content"] is True
        assert {("renamed", "away"), ("renamed", "E"), ("deleted", "gone"), ("created", "dir"), ("created", "link")} <= set(got)
        assert got[("created", "new")]["contents"] == got[("created", "other")]["contents"]


def test_contents_outlive_the_server():
    m = Mounted({}, permissions=FREE)
    with m:
        m.guest(lambda: write("new", "new"))
        row, directory = rows(m)[("created", "new")], m.contents_fd()
        m.server.kill()
        m.server.wait()
        with os.fdopen(os.open(row["contents"], os.O_RDONLY, dir_fd=directory)) as file:
            assert file.read() == "new"
        os.close(directory)


def test_each_change_says_what_the_host_had():
    tree = {"mod": "m", "del": "dd", "d/x": "x", "from": "from!", "over": "o", "swap1": "1", "swap2": "22", "kind": "file", "saved": "sss",
            "touched": "t"}
    with Mounted(tree, permissions=FREE) as m:
        was = {path: identity(f"{m.lower}/{path}") for path in [*tree, "d"]}
        def work():
            write("mod", "changed")
            os.unlink("del")
            shutil.rmtree("d")
            os.rename("from", "over")
            os.rename("swap1", "t")
            os.rename("swap2", "swap1")
            os.rename("t", "swap2")
            os.unlink("kind")
            os.mkdir("kind")
            write("saved.tmp", "new")
            os.rename("saved.tmp", "saved")
            os.utime("touched", (5, 5))
            write("created", "c")
            os.rename("swap1", "swap3")
            write("swap3", "x", "a")
        m.guest(work)
        # Later changes of the host are not in the tree that the guest began with.
        for path in ("mod", "del", "from", "over", "saved"):
            write(f"{m.lower}/{path}", "the host's, meanwhile")
        got = rows(m)
        origins = {key: row["origin"] for key, row in got.items()}
        assert origins == {
            ("modified", "mod"): was["mod"], ("deleted", "del"): was["del"], ("deleted", "d/x"): was["d/x"], ("deleted", "d"): was["d"],
            ("renamed", "over"): was["from"], ("renamed", "swap2"): was["swap1"], ("renamed", "swap3"): was["swap2"],
            ("modified", "swap3"): was["swap2"], ("deleted", "kind"): was["kind"], ("created", "kind"): None, ("modified", "saved"): was["saved"],
            ("modified", "touched"): was["touched"], ("created", "created"): None}, origins
        assert got[("renamed", "over")]["over"] and got[("renamed", "over")]["overOrigin"] == was["over"]
        assert all("overOrigin" not in row for key, row in got.items() if key != ("renamed", "over"))


def test_what_is_given_back_and_changed_again_is_looked_at_again():
    with Mounted({"a": "a"}, permissions=FREE) as m:
        m.guest(lambda: os.rename("a", "b"))
        m.guest(lambda: os.rename("b", "a"))
        assert rows(m) == {}
        write(m.lower + "/a", "longer")
        m.guest(lambda: os.unlink("a"))
        assert rows(m)[("deleted", "a")]["origin"] == identity(m.lower + "/a")


def test_what_was_left_out_has_an_origin_too():
    with Mounted({"big": b"x" * 5000, "other": b"y" * 5000, "small": "s", "moved": "m"}, permissions=FREE, loading={"maxFileSize": 100}) as m:
        was = {path: identity(f"{m.lower}/{path}") for path in ("big", "other", "moved")}
        m.guest(lambda: (write("big", "mine"), os.rename("moved", "other")))
        got = rows(m)
        assert got[("modified", "big")]["origin"] == was["big"]
        row = got[("renamed", "other")]
        assert row["origin"] == was["moved"] and row["over"] and row["overOrigin"] == was["other"]


def test_changes_come_in_pages():
    count = 5000
    with Mounted({}, permissions={"default": ALL, "rules": [{"pattern": "no", "deny": ["*"]}]}) as m:
        m.guest(lambda: [os.mkdir(f"d{i:05}") for i in range(count)])
        m.fails(errno.EACCES, lambda: os.mkdir("no"))
        whole = m.control.call("changes")
        assert len(whole["changes"]) == count == whole["total"] and whole["more"] is False and len(whole["denials"]) == 1
        assert m.changes(limit=777)["changes"] == whole["changes"]
        first = m.control.call("changes", limit=10)
        assert first["more"] and len(first["changes"]) == 10 and len(first["denials"]) == 1
        # All pages are of one moment.
        m.guest(lambda: os.rmdir("d00010"))
        second = m.control.call("changes", after=10, limit=10)
        assert second["changes"] == whole["changes"][10:20] and "denials" not in second
        assert m.control.call("changes")["total"] == count - 1
        assert "begins with" in refused(lambda: m.control.call("changes", after=10))
        m.control.call("changes", limit=1)
        assert "begins with" in refused(lambda: m.control.call("changes", after=count + 1))
        for wrong in ({"after": -1}, {"limit": 0}, {"limit": "x"}, {"after": 1.5}):
            refused(lambda: m.control.call("changes", **wrong))


def test_the_name_of_the_journal_is_nobodys():
    tree = {".cloche-sync/journal": "SECRET", "file": "x", "d/.cloche-sync": "another"}
    for loading in ({}, {"mode": "eager", "maxTotalSize": 1000}, {"mode": "explicit", "include": ["**"]}):
        with Mounted(tree, permissions=FREE, loading=loading) as m:
            assert m.guest(lambda: sorted(os.listdir("."))) == ["d", "file"]
            assert m.guest(lambda: sorted(entry.name for entry in os.scandir("."))) == ["d", "file"]
            for work in (lambda: os.stat(".cloche-sync"), lambda: read(".cloche-sync/journal"), lambda: os.rename(".cloche-sync", "x"),
                         lambda: os.unlink(".cloche-sync"), lambda: os.rmdir(".cloche-sync"), lambda: read("d/../.cloche-sync/journal"),
                         lambda: (os.symlink(".cloche-sync", "l"), os.listdir("l"))):
                m.fails(errno.ENOENT, work)
            for work in (lambda: write(".cloche-sync", "x"), lambda: os.mkdir(".cloche-sync"), lambda: os.symlink("x", ".cloche-sync"),
                         lambda: os.mkfifo(".cloche-sync"), lambda: os.link("file", ".cloche-sync"),
                         lambda: os.rename("file", ".cloche-sync"), lambda: os.rename("d", ".cloche-sync")):
                m.fails(errno.EACCES, work)
            # Further down too: the directory may be the root of another mount, whose journal a guest would forge.
            m.fails(errno.ENOENT, lambda: read("d/.cloche-sync"))
            for work in (lambda: write("d/.cloche-sync", "mine"), lambda: os.mkdir("d/.Cloche-SYNC"), lambda: os.rename("file", "d/.cloche-sync"),
                         lambda: (os.mkdir("d/e"), os.rename("d/e", "d/.cloche-sync"))):
                m.fails(errno.EACCES, work)
            m.guest(lambda: (write("d/.cloche-sync2", "mine"), os.rename("d/.cloche-sync2", "d/cloche-sync")))  # the twin
            assert m.denials() == []
            refused(lambda: m.place(".cloche-sync", "x"))
            refused(lambda: m.place(".cloche-sync/x", "x"))
            refused(lambda: m.place("d/e/.cloche-sync/x", "x"))
        

def test_what_the_caller_places_is_free_and_stays():
    denying = {"default": {**ALL, "create": False, "modify": False, "delete": False}, "exclude": ["secret"]}
    with Mounted({"host": "host", "d/old": "old", "secret/key": "k"}, permissions=denying) as m:
        m.place("host", "placed over")
        m.place("secret/input", "in")
        m.place("new/deep/file", b"\0" * 100000, mode=0o600)
        m.place("d/link", None, kind="symlink", target="../host")
        m.place("empty", None, kind="directory", mode=0o711)
        m.place("d", None, kind="directory")
        m.place("twice", "one")
        m.place("twice", "two")
        assert m.changes()["changes"] == []
        def look():
            modes = [stat.S_IMODE(os.lstat(path).st_mode) for path in ("host", "new", "new/deep/file", "empty")]
            return read("host"), read("d/link"), read("secret/input"), read("twice"), os.stat("new/deep/file").st_size, modes
        assert m.guest(look) == ("placed over", "placed over", "in", "two", 100000, [0o644, 0o755, 0o600, 0o711])
        assert m.guest(lambda: sorted(os.listdir("."))) == ["d", "empty", "host", "new", "twice"]
        assert m.guest(lambda: (sorted(os.listdir("d")), os.listdir("new"))) == (["link", "old"], ["deep"])
        assert m.changes()["changes"] == [] and m.denials() == []
        # Beside it the rules are as they were.
        for work in (lambda: write("new/x", "x"), lambda: write("d/old", "x"), lambda: os.unlink("d/old"), lambda: read("secret/key")):
            m.fails(errno.EACCES, work)
        def change():
            write("host", "+", "a")
            os.chmod("empty", 0o700)
            write("twice", "three")
            os.unlink("twice")
            write("twice", "four")
            os.unlink("d/link")
            write("new/deep/file", "saved")
        m.guest(change)
        got = {key: row.get("virtual") for key, row in rows(m).items()}
        assert set(got.values()) == {True} and {path for _, path in got} == {"host", "empty", "twice", "d/link", "new/deep/file"}, got
        assert m.contents("host") == b"placed over+" and m.contents("twice") == b"four"
        assert read(m.lower + "/host") == "host"


def test_placed_things_can_be_saved_over_and_moved():
    rules = {"default": {**ALL, "modify": False}, "rules": [{"pattern": "locked", "deny": ["*"]}]}
    with Mounted({"host": "host", "locked": "l"}, permissions=rules) as m:
        for path in ("a", "b", "locked", "t/inner"):
            m.place(path, path)
        def work():
            for text in ("one", "two"):
                write("a.tmp", text)
                os.rename("a.tmp", "a")
            os.rename("b", "c")
            os.rename("t", "u")
            write("locked.tmp", "new")
            os.rename("locked.tmp", "locked")
            return read("a"), read("c"), read("u/inner"), read("locked")
        assert m.guest(work) == ("two", "b", "t/inner", "new")
        got = rows(m)
        assert got and all(row.get("virtual") for row in got.values()), got
        m.guest(lambda: (os.rename("c", "b"), os.rename("u", "t")))
        assert not {"b", "c", "t", "u"} & {path for _, path in rows(m)}, rows(m)
        m.guest(lambda: (os.unlink("t/inner"), os.rmdir("t")))
        assert rows(m)[("deleted", "t")]["virtual"]


def test_what_is_made_in_a_placed_directory_is_as_the_rules_say():
    rules = {"default": ALL, "rules": [{"pattern": "closed", "deny": ["create"]}]}
    with Mounted({"host": "h"}, permissions=rules) as m:
        m.place("src/lib/input", "in")
        m.place("closed/input", "in")
        m.place("idle/input", "in")
        m.guest(lambda: (write("src/lib/made", "made"), write("closed/made", "made"), os.rename("host", "src/host")))
        got = {(row["type"], row["path"]): row.get("virtual", False) for row in m.changes()["changes"]}
        # A directory that the host has not is made there with the first thing in it; where it may not be, nothing in it goes there.
        assert got == {("created", "src"): False, ("created", "src/lib"): False, ("created", "src/lib/made"): False,
                       ("created", "closed/made"): True, ("renamed", "src/host"): False}, got


def test_placing_that_is_refused():
    with Mounted({"file": "f", "d/x": "x", "link": ("link", "d")}, permissions=FREE) as m:
        for path in ("", "/abs", "a/../b", "a//b", "a/", ".", "x" * 300, "file/below", "link/below", 7, None):
            refused(lambda: m.place(path, "x"))
        m.place("d/placed", "x")
        assert "directory" in refused(lambda: m.place("d", "x"))
        assert "descriptor" in refused(lambda: m.place("nothing", None, kind="file"))
        open_before = len(os.listdir(f"/proc/{m.server.pid}/fd"))
        pipe = os.pipe()
        try:
            assert "descriptor" in refused(lambda: m.control.answer(m.control.send("place", {"path": "p", "kind": "file"}, pipe[0])))
        finally:
            os.close(pipe[0]), os.close(pipe[1])
        refused(lambda: m.place("l", None, kind="symlink"))
        refused(lambda: m.place("l", None, kind="device"))
        refused(lambda: m.place("l", "x", mode=0o4755))
        assert m.guest(lambda: sorted(os.listdir(".") + os.listdir("d"))) == ["d", "file", "link", "placed", "x"]
        m.settled()
        for _ in range(20):
            refused(lambda: m.place("file/below", "x"))
            m.place("d/placed", "y")
        # But for the two directories the guest has looked into since.
        assert len(os.listdir(f"/proc/{m.server.pid}/fd")) <= open_before + 2, "descriptors are left open"
    with Mounted({}, permissions=FREE, limits={"bytes": 1000}) as m:
        assert "No space" in refused(lambda: m.place("big", b"x" * 100000))
        m.place("small", "x")
        assert m.guest(lambda: os.listdir(".")) == ["small"]
