"""The rules, checked again when changes are written to the host."""
import itertools
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from synced import ALL, Synced, difference

TREE = {"in/a": "a", "in/b": "b", "out/c": "c", "tree/sub/x": "x", "tree/.env": "secret"}
# the change, and the sets of rights any of which is enough
ACTS = {
    "create": (lambda s: [s.created("in/new")], [{"create"}]),
    "mkdir": (lambda s: [s.directory("in/new")], [{"create"}]),
    "symlink": (lambda s: [s.symlink("in/new", "a")], [{"create"}]),
    "link": (lambda s: [s.link("in/new", "in/a")], [{"create"}]),
    "modify": (lambda s: [s.modified("in/a")], [{"modify"}, {"create", "delete"}]),
    "chmod": (lambda s: [s.chmod("in/a", 0o600)], [{"modify"}, {"create", "delete"}]),
    "delete": (lambda s: [s.deleted("in/a")], [{"delete"}]),
    "rename": (lambda s: [s.renamed("in/a", "in/z")], [{"create", "delete"}]),
    "rename over": (lambda s: [{**s.renamed("in/a", "in/b"), "over": True}], [{"create", "delete"}]),
}
RIGHTS = ("create", "modify", "delete")


def test_every_right_of_every_change():
    with Synced(TREE, memory="8m") as s:
        for (name, (make, enough)), given in itertools.product(ACTS.items(), [set(c) for n in range(4) for c in itertools.combinations(RIGHTS, n)]):
            changes = make(s)
            s.begin(permissions={"default": {"read": True, "list": True, **{right: right in given for right in RIGHTS}}})
            plan = s.call("plan", changes=changes)
            allowed = any(one <= given for one in enough)
            assert bool(plan["steps"]) == allowed and bool(plan["denied"]) != allowed, (name, given, plan)
            if not allowed:
                before = s.snapshot()
                result = s.apply(changes)
                assert [row["error"]["code"] for row in result["failed"]] == ["denied"] and not result["synced"], (name, given, result)
                assert not difference(before, s.snapshot()), (name, given)


def test_a_denial_names_its_rule_and_stops_nothing():
    rules = {"default": ALL, "rules": [{"pattern": "in/**", "deny": ["modify", "delete", "create"], "priority": 5}], "exclude": ["*.key"]}
    with Synced(TREE, memory="8m") as s:
        changes = [s.modified("in/a"), s.deleted("in/b"), s.renamed("out/c", "in/c"), s.created("x.key"), s.created("fine"), s.created("tree/sub/fine")]
        s.begin(permissions=rules)
        denied = s.call("plan", changes=changes)["denied"]
        assert sorted((row["path"], row["operation"], row["rule"]) for row in denied) == [
            ("in/a", "modify", "in/**"), ("in/b", "delete", "in/**"), ("in/c", "create", "in/**"), ("x.key", "create", "*.key")]
        result = s.apply(changes)
        assert sorted(result["synced"]) == ["fine", "tree/sub/fine"] and len(result["failed"]) == 4 and result["committed"]


def test_what_hangs_on_a_denial_is_left_out():
    rules = {"default": ALL, "rules": [{"pattern": "no", "deny": ["create"]}, {"pattern": "in/a", "deny": ["delete"]}]}
    with Synced(TREE, memory="8m") as s:
        result = s.run([s.directory("no"), s.created("no/x"), s.directory("no/d"), s.created("no/d/y"), s.deleted("in/a"), s.deleted("in/b"), s.deleted("in"),
                        s.created("yes")], permissions=rules)
        assert sorted(result["synced"]) == ["in/b", "yes"], result
        assert sorted(row["path"] for row in result["failed"]) == ["in/a", "no"]
        assert sorted((row["path"], row["reason"]) for row in result["skipped"]) == [("in", "depends"), ("no/d", "depends"), ("no/d/y", "depends"),
                                                                                  ("no/x", "depends")]


def test_a_directory_does_not_move_what_the_rules_hold():
    with Synced(TREE, memory="8m") as s:
        changes = [s.renamed("tree", "public")]
        result = s.run(changes, permissions={"default": ALL, "exclude": [".env"]})
        assert result["failed"][0]["error"]["code"] == "denied" and ".env" in result["failed"][0]["error"]["message"], result
        assert os.path.exists(s.root + "/tree/.env")
        os.unlink(s.root + "/tree/.env")
        assert s.run(changes, permissions={"default": ALL, "exclude": [".env"]})["synced"] == ["public"]


def test_virtual_and_strange_kinds_are_skipped():
    with Synced(TREE, memory="8m") as s:
        result = s.run([s.created("v", virtual=True), {"type": "created", "path": "p", "kind": "pipe"}, {"type": "created", "path": "d", "kind": "device"},
                        {"type": "created", "path": "s", "kind": "socket"}, s.created("fine")])
        assert result["synced"] == ["fine"] and sorted((row["path"], row["reason"]) for row in result["skipped"]) == [
            ("d", "kind"), ("p", "kind"), ("s", "kind"), ("v", "virtual")]


def test_links_that_lead_out_are_refused_on_demand():
    for path, target, is_inside in (("l", "in/a", True), ("in/l", "../out/c", True), ("l", "/etc/passwd", False), ("l", "../x", False), ("in/l", "../../x", False)):
        with Synced(TREE) as s:
            s.begin(links="inside")
            plan = s.call("plan", changes=[s.symlink(path, target)])
            assert bool(plan["steps"]) == is_inside, (target, plan)
            result = s.apply([s.symlink(path, target), s.created("in/new")])
            if is_inside:
                assert result["committed"] and os.readlink(os.path.join(s.root, path)) == target, (target, result)
            else:
                assert [row["error"]["code"] for row in result["failed"]][0] == "denied" and not result["synced"], (target, result)
                assert "link" in result["failed"][0]["error"]["message"] and not os.path.lexists(os.path.join(s.root, path)), result
    with Synced(TREE) as s:
        s.begin()
        assert s.apply([s.symlink("l", "/etc/passwd")])["committed"], "else they are made as they are"
