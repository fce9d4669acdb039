"""The code's view of a denial: an error, an appearance, or a change that stays in the box. The host never changes."""
import json
import re
import shlex
from cloche import equal
from mounts import at, bash, call, make, rules, state, tree

state()
ACTS = """
    acts = [attempt(put, "/data/a", "changed"), attempt(put, "/data/new", "new"), attempt(os.mkdir, "/data/dir"), attempt(os.unlink, "/data/b"),
            attempt(os.rename, "/data/c", "/data/moved"), attempt(os.chmod, "/data/d", 0o600), attempt(get, "/data/secret"), attempt(os.listdir, "/data/hidden")]
    return [acts, sorted(os.listdir("/data")), attempt(get, "/data/new"), get("/data/a")]
"""
HOST = {"a": "a", "b": "b", "c": "c", "d": "d", "secret": "s", "hidden/x": "x"}
PERMISSIONS = {"rules": [{"pattern": "secret", "deny": ["read"]}, {"pattern": "hidden", "deny": ["list"]}]}
OPERATIONS = [("/data/a", "modify"), ("/data/b", "delete"), ("/data/d", "modify"), ("/data/dir", "create"), ("/data/hidden", "list"), ("/data/new", "create"),
              ("/data/secret", "read")]


def denied(policy):
    make(HOST)
    before = tree()
    result = call(ACTS, at(rules=rules(PERMISSIONS)), on_denied=policy)
    equal(result.status, "success", result)
    recorded = sorted({(d["path"], d["operation"]) for d in result.files["denied"]} - {("/data/c", "delete"), ("/data/moved", "create")})
    equal(recorded, OPERATIONS, policy)
    equal(tree(), before, policy)
    return result


def test_throw():
    acts, listed, new, a = denied("throw").value
    equal(acts, ["EACCES"] * 8)
    equal((listed, new, a), (["a", "b", "c", "d", "hidden", "secret"], "ENOENT", "a"))


def test_ignore():
    result = denied("ignore")
    acts, listed, new, a = result.value
    equal(acts, ["ok"] * 6 + ["EACCES"] * 2, "(reading is never pretended)")
    equal((listed, new, a), (["a", "b", "c", "d", "hidden", "secret"], "ENOENT", "a"))
    equal([result.paths(kind) for kind in ("created", "modified", "deleted")], [[], [], []])


def test_virtual():
    result = denied("virtual")
    acts, listed, new, a = result.value
    equal(acts, ["ok"] * 6 + ["EACCES"] * 2)
    equal((listed, new, a), (["a", "d", "dir", "hidden", "moved", "new", "secret"], "ok", "changed"))
    changes = [c for kind in ("created", "modified", "deleted") for c in result.files[kind] if "renamedTo" not in c]
    assert changes and all(c.get("virtual") for c in changes), changes


def test_virtual_changes_alone_are_not_kept():
    make(HOST)
    finished = bash("echo x > /data/new; rm /data/a", on_denied="virtual", sync="manual")
    equal((finished.code, finished.stderr), (0, b""))
    finished = bash("echo x > /data/new; rm /data/a; echo y > /data/b", on_denied="virtual", sync="manual", rule="b=modify")
    assert finished.stderr.startswith(b"cloche: 1 change kept: "), finished


ODD = "a*[1]{b,c}(d)!+@|?\\e=f"


def test_the_rule_of_each_denial_permits_the_act():
    for operation, act in (("read", "get({!r})"), ("list", "os.listdir({!r})"), ("create", "put({!r} + '-new', 'x')"), ("modify", "put({!r}, 'x')"), ("delete", "os.unlink({!r})")):
        name = "directory" if operation == "list" else ODD
        make({ODD: "x", "directory/f": "x", "a1": "x"})
        body = f"try: return {act.format('/data/' + name)} or 'ok'\nexcept OSError as e: return e.errno"
        permissions = {"default": {"read": True, "list": True, operation: False}}
        denied = call(body, at(rules=rules(permissions)))
        [denial] = denied.files["denied"]
        equal((denied.value, denial["operation"], denial["allow"][0]["allow"]), (13, operation, [operation]))
        permitted = call(body, at(rules=rules({**permissions, "rules": denial["allow"]})))
        assert permitted.value != 13 and not permitted.files["denied"], (operation, permitted)
        # The rule is for that path alone; one that a rule refuses has none.
        other = call("return attempt(put, '/data/a1', 'x')", at(rules=rules({**permissions, "rules": denial["allow"]})))
        equal((other.value, [d["path"] for d in other.files["denied"]]), ("EACCES", ["/data/a1"]))
        make({ODD: "x"})
        refused = call(body, at(rules=rules({**permissions, "rules": [{**denial["allow"][0], "allow": [], "deny": [operation]}]})))
        equal([("allow" in d, refused.value) for d in refused.files["denied"]], [(False, 13)])


def test_the_command_line_names_the_option():
    make({ODD: "x", "it's": "x"})
    code = f"echo y > '/data/{ODD}'; echo y > \"/data/it's\""
    told = bash(code, denials=True, sync="manual").stderr.decode()
    [option] = re.findall("; (--rule '.*') permits it\n", told)
    assert told.count("denied modify") == 2, told
    [rule] = shlex.split(option)[1:]
    told = bash(code, denials=True, sync="manual", rule=rule).stderr.decode()
    assert told.count("denied modify") == 1 and "denied modify /data/it's" in told, told


def test_one_directory_may_differ():
    make({"a": "1"}, "one")
    make({"a": "2"}, "two")
    mounts = [at("/data/one", "one", rules({"onPermissionDenied": "virtual"})), at("/data/two", "two")]
    result = call("return [attempt(put, f'/data/{n}/a', 'x') for n in ('one', 'two')]", mounts)
    equal(result.value, ["ok", "EACCES"], json.dumps(result.raw))


def test_the_language_goes_on_after_an_ignored_write():
    make({"a": "1"})
    equal(bash("echo x > /data/a && rm /data/a && cat /data/a", on_denied="ignore").stdout, b"1")
