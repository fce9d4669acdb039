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
