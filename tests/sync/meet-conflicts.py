"""Changes of the host in the meantime: refused, kept beside, or overwritten."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from synced import Synced, difference, own, snapshot

TREE = {"m.txt": "old", "gone": "old", "del": "old", "mode": "old", "r1": "old", "dir/a": "a", "over1": "1", "over2": "2"}


def write(s, path, data):
    full = os.path.join(s.root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with open(full, "w") as file:
        file.write(data)
    own(s.root)


def read(s, path):
    with open(os.path.join(s.root, path)) as file:
        return file.read()


# name: the guest's changes; the host's changes after them; the result under keepBoth and overwrite, None: nothing
CASES = {
    "modified and modified": (lambda s: [s.modified("m.txt", "ours")], lambda s: write(s, "m.txt", "host's"),
                              {"m.txt": "host's", "m.cloche-conflict-1.txt": "ours"}, {"m.txt": "ours"}),
    "modified and removed": (lambda s: [s.modified("gone", "ours")], lambda s: os.unlink(s.root + "/gone"),
                             {"gone": None, "gone.cloche-conflict-1": "ours"}, {"gone": "ours"}),
    "created and created": (lambda s: [s.created("n", "ours")], lambda s: write(s, "n", "host's"),
                            {"n": "host's", "n.cloche-conflict-1": "ours"}, {"n": "ours"}),
    "created twice beside": (lambda s: [s.created("n", "ours")], lambda s: (write(s, "n", "host's"), write(s, "n.cloche-conflict-1", "older")),
                             {"n": "host's", "n.cloche-conflict-1": "older", "n.cloche-conflict-2": "ours"}, {"n": "ours"}),
    "deleted and modified": (lambda s: [s.deleted("del")], lambda s: write(s, "del", "host's"), {"del": "host's"}, {"del": None}),
    "mode and modified": (lambda s: [s.chmod("mode", 0o600)], lambda s: write(s, "mode", "host's"), {"mode": "host's"}, {"mode": "host's"}),
    "renamed onto what was created": (lambda s: [s.renamed("r1", "r2")], lambda s: write(s, "r2", "host's"),
                                      {"r1": None, "r2": "host's", "r2.cloche-conflict-1": "old"}, {"r1": None, "r2": "old"}),
    "over what was modified": (lambda s: [{**s.renamed("over1", "over2"), "over": True, "overOrigin": s.origin("over2")}],
                               lambda s: write(s, "over2", "host's"),
                               {"over1": None, "over2": "host's", "over2.cloche-conflict-1": "1"}, {"over1": None, "over2": "1"}),
    "a directory that is filled": (lambda s: [s.deleted("dir/a"), s.deleted("dir")], lambda s: write(s, "dir/b", "host's"),
                                   {"dir/a": None, "dir/b": "host's"}, {"dir/a": None, "dir/b": "host's"}),
    "a file of the same size and time": (lambda s: [s.modified("m.txt", "ours")],
                                         lambda s: (write(s, "copy", "new"), os.utime(s.root + "/copy", ns=(0, os.stat(s.root + "/m.txt").st_mtime_ns)),
                                                    os.rename(s.root + "/copy", s.root + "/m.txt")),
                                         {"m.txt": "new", "m.cloche-conflict-1.txt": "ours"}, {"m.txt": "ours"}),
    "both made a directory": (lambda s: [s.directory("nd"), s.created("nd/ours", "ours")], lambda s: write(s, "nd/theirs", "host's"),
                              {"nd/ours": "ours", "nd/theirs": "host's"}, {"nd/ours": "ours", "nd/theirs": "host's"}),
}


def look(s, expected, name):
    for path, text in expected.items():
        full = os.path.join(s.root, path)
        if text is None:
            assert not os.path.lexists(full), f"{name}: {path} is there"
        else:
            assert read(s, path) == text, f"{name}: {path} has {read(s, path)!r}"


def test_refused_leaves_everything():
    for name, (make, meddle, _, _) in CASES.items():
        with Synced(TREE, memory="8m") as s:
            changes = make(s) + [s.created("other", "other")]
            meddle(s)
            before = s.snapshot()
            result = s.run(changes)
            assert not result["synced"] and not result["committed"], (name, result)
            assert result["conflicts"] and result["failed"][0]["error"]["code"] == "conflict", (name, result)
            assert not difference(before, s.snapshot()), (name, difference(before, s.snapshot()))
            assert {row["reason"] for row in result["skipped"]} <= {"rolled_back", "depends"}


def test_refused_under_continue_does_the_rest():
    for name, (make, meddle, _, _) in CASES.items():
        with Synced(TREE, memory="8m") as s:
            changes = make(s) + [s.created("other", "other")]
            meddle(s)
            result = s.run(changes, onError="continue")
            assert "other" in result["synced"] and read(s, "other") == "other", (name, result)
            assert any(row["error"]["code"] == "conflict" for row in result["failed"]), (name, result)


def test_keep_both():
    for name, (make, meddle, both, _) in CASES.items():
        with Synced(TREE, memory="8m") as s:
            changes = make(s)
            meddle(s)
            result = s.run(changes, conflict="keepBoth")
            assert not result["failed"] and result["conflicts"], (name, result)
            look(s, both, name)
            kept = [path for path in both if "conflict" in path and both[path] != "older"]
            assert [row["as"] for row in result["kept"]] == kept, (name, result["kept"])


def test_overwrite():
    for name, (make, meddle, _, ours) in CASES.items():
        with Synced(TREE, memory="8m") as s:
            changes = make(s)
            meddle(s)
            result = s.run(changes, conflict="overwrite")
            assert not result["failed"], (name, result)
            look(s, ours, name)


def test_no_conflict_where_the_host_did_nothing():
    for name, (make, _, _, _) in CASES.items():
        with Synced(TREE, memory="8m") as s:
            result = s.run(make(s))
            assert not result["failed"] and not result["conflicts"] and not result["skipped"], (name, result)


def test_what_is_no_conflict():
    with Synced(TREE, memory="8m") as s:
        changes = [s.deleted("gone"), s.modified("m.txt", "ours")]
        os.unlink(s.root + "/gone")
        os.chmod(s.root + "/m.txt", 0o600)  # ctime alone is no proof: a rename or a link would change it, too
        result = s.run(changes)
        assert result["synced"] == ["m.txt"] and [row["reason"] for row in result["skipped"]] == ["gone"], result


def test_without_origin_nothing_is_compared():
    with Synced(TREE, memory="8m") as s:
        changes = [s.modified("m.txt", "ours"), s.created("del", "over it")]
        for change in changes:
            del change["origin"]
        write(s, "m.txt", "host's")
        result = s.run(changes)
        assert sorted(result["synced"]) == ["del", "m.txt"] and read(s, "m.txt") == "ours" and read(s, "del") == "over it"


def test_decisions_for_one_path():
    with Synced(TREE, memory="8m") as s:
        changes = [s.modified("m.txt", "ours"), s.modified("mode", "ours"), s.created("n", "ours"), s.created("left", "out")]
        write(s, "m.txt", "host's")
        write(s, "mode", "host's")
        write(s, "n", "host's")
        s.begin()
        plan = s.call("plan", changes=changes)
        assert sorted(row["path"] for row in plan["conflicts"]) == ["m.txt", "mode", "n"] and [row["path"] for row in plan["steps"]] == ["left"]
        assert next(row for row in plan["conflicts"] if row["path"] == "n")["expected"] is None
        result = s.apply(changes, decisions=[{"path": "m.txt", "action": "overwrite"}, {"path": "mode", "action": "keepBoth"},
                                             {"path": "n", "action": "skip", "reason": "not wanted"}, {"path": "left", "action": "skip"}])
        assert sorted(result["synced"]) == ["m.txt", "mode"] and [row["path"] for row in result["kept"]] == ["mode"]
        assert result["skipped"][-1] == {"path": "n", "reason": "decided", "message": "not wanted"}
        assert read(s, "m.txt") == "ours" and read(s, "mode") == "host's" and not os.path.exists(s.root + "/left")


def test_plan_writes_nothing():
    with Synced(TREE, memory="8m") as s:
        changes = [s.modified("m.txt", "ours"), s.deleted("del"), s.created("n", "ours"), s.directory("nd"), s.symlink("l", "n"), s.renamed("r1", "r2"),
                   s.chmod("mode", 0o600), s.link("gone2", "gone")]
        before = s.snapshot()
        s.begin()
        plan = s.call("plan", changes=changes)
        assert {row["path"]: row["action"] for row in plan["steps"]} == {
            "m.txt": "write", "del": "remove", "n": "write", "nd": "mkdir", "l": "symlink", "r2": "rename", "mode": "chmod", "gone2": "link"}
        assert not difference(before, snapshot(s.root))
