"""file.watch: events for changes."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files, Refused


class Watch:
    def __init__(self, f, path=".", **params):
        self.f, self.number = f, f.send("file.watch", path=path, **params)
        assert f.event() == {"id": self.number, "event": "ready", "about": {}}

    def until(self, kind, path):
        """The events up to this change, as (type, path) or for a move (type, path, from)."""
        told = []
        while True:
            event = self.f.event()
            assert event["id"] == self.number and event["event"] == "change", event
            about = event["about"]
            assert about["timestamp"].endswith("Z") and isinstance(about["isDirectory"], bool)
            row = tuple(os.path.relpath(about[key], self.f.root) if isinstance(about[key], str) else about[key] for key in ("path", "from") if key in about)
            told.append((about["type"], *row))
            if told[-1][:2] == (kind, path):
                return told

    def cancel(self):
        assert self.f.call("cancel", id=self.number)["found"]
        try:
            self.f.answer(self.number)
        except Refused as error:
            assert error.name == "cancelled"


def test_each_kind_of_change():
    with Files({"old": "1"}) as f:
        w = Watch(f)
        with open(f.path("new"), "w") as file:
            file.write("1")
        assert w.until("create", "new") == [("create", "new")]
        with open(f.path("old"), "a") as file:
            file.write("2")
        assert w.until("modify", "old") == [("modify", "old")]
        os.chmod(f.path("old"), 0o600)
        assert w.until("attrib", "old") == [("attrib", "old")]
        os.rename(f.path("old"), f.path("newer"))
        assert w.until("move", "newer") == [("move", "newer", "old")]
        os.unlink(f.path("new"))
        assert w.until("delete", "new") == [("delete", "new")]
        os.mkdir(f.path("d"))
        assert w.until("create", "d") == [("create", "d")]
        w.cancel()


def test_our_own_operations():
    with Files({"old": "1"}) as f:
        w = Watch(f)
        f.call("file.write", path="new", content="1")
        assert w.until("create", "new") == [("create", "new")]
        f.call("file.write", path="old", content="2")
        assert w.until("modify", "old") == [("modify", "old")]
        f.call("file.replace", path="old", text="2", replacement="3")
        assert w.until("modify", "old") == [("modify", "old")]
        f.call("file.move", **{"from": "old", "to": "moved"})
        assert w.until("move", "moved") == [("move", "moved", "old")]
        f.call("file.remove", path="moved")
        assert w.until("delete", "moved") == [("delete", "moved")]
        w.cancel()


def test_directories_that_come_are_watched_with_what_is_in_them():
    with Files({"outside/d/e/f": "1"}) as other, Files({"a": None}) as f:
        w = Watch(f)
        shutil.copytree(other.path("outside"), f.path("a/tree"))
        told = w.until("create", "a/tree/d/e/f")
        assert [row[1] for row in told if row[0] == "create"] == ["a/tree", "a/tree/d", "a/tree/d/e", "a/tree/d/e/f"]
        open(f.path("a/tree/d/e/g"), "w").close()
        w.until("create", "a/tree/d/e/g")
        os.rename(other.path("outside"), f.path("in"))
        assert ("create", "in/d/e/f") in w.until("create", "in/d/e/f")
        os.rename(f.path("in/d"), f.path("a/moved"))
        assert w.until("move", "a/moved")[-1] == ("move", "a/moved", "in/d")
        with open(f.path("a/moved/e/f"), "a") as file:
            file.write("2")
        w.until("modify", "a/moved/e/f")  # by the path it has now
        os.rename(f.path("a/moved"), other.path("gone"))
        w.until("delete", "a/moved")
        with open(other.path("gone/e/f"), "a") as file:
            file.write("3")
        open(f.path("last"), "w").close()
        assert w.until("create", "last") == [("create", "last")]
        w.cancel()


def test_include_exclude_and_flat():
    with Files({"src": None, "node_modules": None, "d": None}) as f:
        plain, only, without, flat = Watch(f), Watch(f, include=["*.ts"]), Watch(f, exclude=["src"]), Watch(f, recursive=False)
        watches = {w.number: [] for w in (plain, only, without, flat)}
        for path in ("node_modules/x", "src/a.js", "src/b.ts", "d/c", ".DS_Store", "end.ts"):
            open(f.path(path), "w").close()
        while not all("end.ts" in told for told in watches.values()):
            event = f.event()
            watches[event["id"]].append(os.path.relpath(event["about"]["path"], f.root))
        assert watches[plain.number] == ["src/a.js", "src/b.ts", "d/c", "end.ts"]
        assert watches[only.number] == ["src/b.ts", "end.ts"]
        assert watches[without.number] == ["node_modules/x", "d/c", ".DS_Store", "end.ts"]
        assert [p for p in watches[flat.number] if "/" in p] == [] and "end.ts" in watches[flat.number]
        f.refused("invalid_argument", "file.watch", path=".", include=["a"], exclude=["b"])
        f.refused("file_not_found", "file.watch", path="none")


def test_moves_in_and_out_of_what_is_excluded():
    with Files({"node_modules": None, "a": ""}) as f:
        w = Watch(f)
        os.rename(f.path("a"), f.path("node_modules/a"))
        assert w.until("delete", "a") == [("delete", "a")]
        os.rename(f.path("node_modules/a"), f.path("b"))
        assert w.until("create", "b") == [("create", "b")]
        w.cancel()


def test_a_file_alone():
    with Files({"f": "1", "g": "1"}) as f:
        w = Watch(f, path="f")
        with open(f.path("g"), "a") as file:
            file.write("2")
        with open(f.path("f"), "a") as file:
            file.write("2")
        assert w.until("modify", "f") == [("modify", "f")]
        f.call("file.write", path="f", content="new")
        assert w.until("modify", "f") == [("modify", "f")]
        os.rename(f.path("g"), f.path("f"))  # as editors save
        assert w.until("modify", "f") == [("modify", "f")]
        os.unlink(f.path("f"))
        assert w.until("delete", "f") == [("delete", "f")]
        assert f.answer(w.number) == {"path": f.path("f")}


def test_it_ends_with_what_is_watched():
    with Files({"d/e/f": "", "x/y": ""}) as f:
        w = Watch(f, path="d")
        shutil.rmtree(f.path("d"))
        told = w.until("delete", "d")
        assert ("delete", "d/e/f") in told and f.answer(w.number) == {"path": f.path("d")}
        w = Watch(f, path="x")
        os.rename(f.path("x"), f.path("z"))
        w.until("delete", "x")
        f.answer(w.number)


def test_more_than_is_kept_is_lost_and_said_so():
    """The reader stops while 8,000 changes of more than 400 bytes each arrive: 3.2 MB, while the channel and the watch keep
    1.5 MB at most. An event "lost" may be about any change before it, so after each of them another file is made."""
    with Files({"d": None}) as f:
        w = Watch(f)
        for i in range(8000):
            open(f.path(f"d/{i}".ljust(200, "-")), "w").close()
        lost = 0
        while True:
            event = f.event()
            assert event["id"] == w.number, event
            if event["event"] == "lost":
                lost += 1
                open(f.path(f"after-{lost}"), "w").close()
            elif lost and event["about"]["path"] == f.path(f"after-{lost}"):
                break
        w.cancel()


def test_names_that_are_no_text():
    with Files() as f:
        w = Watch(f)
        open(os.fsencode(f.root) + b"/\xff", "w").close()
        assert w.until("create", os.fsencode(f.root) + b"/\xff")
        w.cancel()


def test_many_watches_and_other_requests():
    with Files({"x": ""}) as f:
        watches = [Watch(f) for _ in range(20)]
        f.call("file.write", path="x", content="1")
        assert {f.event()["id"] for _ in watches} == {w.number for w in watches}
        for w in watches:
            w.cancel()
        assert f.call("cancel", id=watches[0].number) == {"found": False}
