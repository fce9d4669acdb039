"""Every kind of change, done as ordinary calls would do it."""
import copy
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from synced import FREE, MTIME, Synced, apply_plainly, copy_tree, difference, every_kind, every_kind_tree, snapshot, text


def expected_of(s, changes):
    other = os.path.join(s.folder, "expected")
    copy_tree(s.root, other)
    apply_plainly(other, s.contents, copy.deepcopy(changes))
    return snapshot(other, times=False)


def test_contents_in_one_file():
    with Synced({"old": "old"}) as s:
        s.whole = os.path.join(s.folder, "whole")
        changes = [s.created("a", b"first"), s.created("empty", b""), s.created("b", b"x" * 100000), s.modified("old", b"new")]
        result = s.run(changes)
        assert not result["failed"] and not result["skipped"], result
        for path, data in (("a", b"first"), ("empty", b""), ("b", b"x" * 100000), ("old", b"new")):
            assert open(os.path.join(s.root, path), "rb").read() == data, path
        for row in ({"contents": "ffffff"}, {"contents": "1", "size": 1 << 30}):
            assert s.run([{**s.created("late", b"data"), **row}])["failed"][0]["error"]["code"] == "contents", row
        unsized = {key: value for key, value in s.created("late", b"data").items() if key != "size"}
        assert s.run([unsized])["failed"][0]["error"]["code"] == "contents"
        assert not os.path.exists(os.path.join(s.root, "late"))


def test_every_kind_of_change():
    with Synced(every_kind_tree()) as s:
        changes = every_kind(s)
        expected = expected_of(s, changes)
        result = s.run(changes)
        assert (result["failed"], result["skipped"], result["conflicts"], result["kept"]) == ([], [], [], []), result
        assert not difference(expected, s.snapshot(times=False)), difference(expected, s.snapshot(times=False))
        assert len(result["synced"]) == len({str(c["path"]) for c in changes} | {str(c["path"]) + "!" for c in changes if c["type"] == "deleted"
                                            and any(d["path"] == c["path"] and d["type"] != "deleted" for d in changes)})
        progress = [message["params"] for message in s.control.told]
        assert len(progress) == len(changes) and all(p["success"] for p in progress)
        assert [p["done"] for p in progress] == list(range(1, len(changes) + 1)) and progress[0]["total"] == len(changes)
