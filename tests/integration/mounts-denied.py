"""The code's view of a denial: an error, an appearance, or a change that stays in the box. The host never changes."""
import json
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


def test_one_directory_may_differ():
    make({"a": "1"}, "one")
    make({"a": "2"}, "two")
    mounts = [at("/data/one", "one", rules({"onPermissionDenied": "virtual"})), at("/data/two", "two")]
    result = call("return [attempt(put, f'/data/{n}/a', 'x') for n in ('one', 'two')]", mounts)
    equal(result.value, ["ok", "EACCES"], json.dumps(result.raw))


def test_the_language_goes_on_after_an_ignored_write():
    make({"a": "1"})
    equal(bash("echo x > /data/a && rm /data/a && cat /data/a", on_denied="ignore").stdout, b"1")
