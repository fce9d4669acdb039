"""Mounts that lie in other mounts, and mounts of one file: the visible tree, the owner of each
change, and the target of writes."""
import json
import os
import re
from cloche import bad_input, cli, equal, run
from mounts import at, bash, call, make, rules, state, tree, value_of

state()
os.environ["XDG_DATA_HOME"] = os.path.abspath("data-home")
ALL = "**=*"


def both(outer="/workspace", inner="/workspace/in", **options):
    """(the mounts, …): the directory host at outer, and other at inner."""
    return [at(outer), at(inner, "other")]


def refused(mounts, says, **options):
    """A run that could not begin."""
    finished = run("python", "print(1)", mount=mounts, **options)
    equal((finished.code in (1, 2), finished.stdout), (True, b""), finished)
    assert re.search(says, finished.stderr.decode()), finished


def test_at_all_kinds_of_places():
    make({"a": "outer"})
    make({"b": "inner"}, "other")
    for outer, inner in [("/workspace", "/workspace/in"), ("/data", "/data/in"), ("/data", "/data/deep/er/in"), ("/tmp/x", "/tmp/x/in"),
                         ("/home/cloche", "/home/cloche/in"), ("/workspace/x/y", "/workspace/x/y/z")]:
        for mounts in (both(outer, inner), both(outer, inner)[::-1]):
            found = value_of("return [get(args[0] + '/a'), get(args[1] + '/b'), sorted(os.listdir(args[1])), os.path.basename(args[1]) in os.listdir(os.path.dirname(args[1]))]",
                             mounts, args=[outer, inner])
            equal(found, ["outer", "inner", ["b"], True], mounts)


def test_three_deep_and_beside_each_other():
    for name in "abcd":
        make({"own": name}, name)
    mounts = [at("/workspace/b/c", "c"), at("/workspace", "a"), at("/workspace/b", "b"), at("/workspace/d", "d")]
    found = value_of("return [get(f'/workspace/{where}own') for where in ('', 'b/', 'b/c/', 'd/')]", mounts)
    equal(found, list("abcd"))


def test_each_has_its_own_changes_and_they_are_written_to_it():
    make({"a": "outer"})
    make({"b": "inner"}, "other")
    body = """
        put('/workspace/new', 'o'); put('/workspace/in/new', 'i'); put('/workspace/in/b', 'changed'); os.mkdir('/workspace/in/d')
        put('/workspace/in/d/x', 'x'); os.rename('/workspace/a', '/workspace/z')
    """
    manual = call(body, both(), rule=ALL, sync="manual")
    equal(manual.paths("created"), ["/workspace/in/d", "/workspace/in/d/x", "/workspace/in/new", "/workspace/new", "/workspace/z"], manual)
    equal(manual.paths("modified"), ["/workspace/in/b"], manual)
    real = {c["path"]: c["realPath"] for c in manual.raw["files"]["created"]}
    equal([real["/workspace/in/new"], real["/workspace/new"]], [os.path.abspath("other/new"), os.path.abspath("host/new")])
    equal((tree(), tree("other")), ({"a": b"outer"}, {"b": b"inner"}))
    finished = cli("sync")
    assert b"wrote 4 changes to " + os.fsencode(os.path.abspath("other")) in finished.stdout, finished
    equal((tree(), tree("other")), ({"new": b"o", "z": b"outer"}, {"b": b"changed", "new": b"i", "d/": None, "d/x": b"x"}))


def test_the_first_thing_that_is_asked_of_one():
    """Before its server has returned attributes the kernel treats the root of a mount as nobody's."""
    make({"a": "outer", "in/": None})
    make({"b": "inner"}, "other")
    code = "return [os.access(path, os.W_OK) for path in ('/data', '/data/in')] + [os.close(os.open(path, os.O_TMPFILE | os.O_RDWR)) for path in ('/data', '/data/in')]"
    equal(call(code, [at("/data"), at("/data/in", "other")], rule="**=*").value, [True, True, None, None])


def test_each_has_its_own_rules():
    make({"a": "outer", "in/hidden": "of the host"})
    make({"b": "inner", "deep/b": "inner"}, "other")
    closed = rules({"default": {"create": True}, "exclude": ["in", "b"], "rules": [{"pattern": "in/**", "deny": "*"}]}, "outer.json")
    open_ = rules({"default": {"create": True, "modify": True}}, "inner.json")
    mounts = [at("/workspace", rules=closed), at("/workspace/in", "other", rules=open_)]
    result = call("return [attempt(put, '/workspace/in/b', 'x'), attempt(put, '/workspace/in/new', 'x'), attempt(put, '/workspace/a', 'x'),"
                  " sorted(os.listdir('/workspace/in')), sorted(os.listdir('/workspace'))]", mounts)
    equal(result.value, ["ok", "ok", "EACCES", ["b", "deep", "new"], ["a", "in"]], result)
    equal((tree("other")["b"], tree()), (b"x", {"a": b"outer", "in/": None, "in/hidden": b"of the host"}))


def test_the_inner_place_is_not_there_on_the_host_or_is_a_file_or_link():
    make({"b": "inner"}, "other")
    for at_place in ({}, {"in": "a file"}, {"in": ("/etc/passwd",)}, {"in/x": "a directory"}):
        make({"a": "outer", **at_place}, "host-" + str(len(str(at_place))))
        root = "host-" + str(len(str(at_place)))
        before = tree(root)
        mounts = [at("/data", root), at("/data/in", "other")]
        equal(value_of("return [sorted(os.listdir('/data')), os.listdir('/data/in')]", mounts, rule=ALL), [["a", "in"], ["b"]], at_place)
        equal(tree(root), before)


def test_what_leads_to_the_place_is_no_directory_on_the_host():
    make({"way": "a file", "link": ("other",)})
    make({"b": "inner"}, "other")
    for way in ("way", "link"):
        refused([at("/data"), at(f"/data/{way}/in", "other")], f"{way}/in in it: a part of that path is not a directory on the host")


def test_loading_of_the_outer_mount_does_not_reach_the_inner_one():
    make({"a": "outer", "in/big": "x" * 5000})
    make({"b": "inner"}, "other")
    for loading in ({"mode": "explicit", "include": ["a"]}, {"mode": "eager", "maxTotalSize": 100}):
        file = rules({"permissions": {}, "loading": loading})
        result = call("return [get('/data/a'), get('/data/way/in/b') if args else get('/data/in/b')]", [at("/data", rules=file), at("/data/in", "other")])
        equal((result.value, result.raw["meta"]["warnings"]), (["outer", "inner"], []), result)


def test_files_of_the_call_come_to_the_mount_they_lie_in():
    make({"a": "outer"})
    make({"b": "inner"}, "other")
    with open("given", "w") as file:
        file.write("given")
    for place in ("/workspace/in/given", "/workspace/in/new/given", "/workspace/given"):
        equal(value_of("return get(args[0])", both(), file=f"{place}=given", args=[place]), "given")
    refused(both(), "busy", file="/workspace/in=given")
    refused([at("/workspace/in", "other/b")], "a file of the host is mounted there", file="/workspace/in=given")


def test_links_from_one_into_the_other():
    make({"a": "outer", "to-inner": ("in/b",)})
    make({"b": "inner", "to-outer": ("../a",)}, "other")
    equal(value_of("return [get('/workspace/to-inner'), get('/workspace/in/to-outer')]", both()), ["inner", "outer"])
    restricted = rules({"permissions": {}, "security": {"followSymlinks": "restricted"}})
    equal(value_of("return [attempt(get, '/workspace/in/to-outer'), get('/workspace/in/b')]", [at("/workspace"), at("/workspace/in", "other", rules=restricted)]), ["EACCES", "inner"])


def test_of_a_set_up():
    equal(cli("prefix", "create", "nested", "python", "-c", "def get(path): return open(path).read()").code, 0)
    make({"a": "outer"})
    make({"b": "inner"}, "other")
    make({"c": "file"}, "third")
    for _ in range(3):
        finished = cli("call", "python", "-c", "open('/workspace/one', 'a').write('!'); return [get('/workspace/a'), get('/workspace/in/b'), get('/workspace/one')]", "--prefix", "nested",
                       *[w for m in both() + [at("/workspace/one", "third/c")] for w in ("--mount", m)], "--rule", ALL, "--sync", "manual", "--json")
        equal(json.loads(finished.stdout)["result"], ["outer", "inner", "file!"], finished)


# ---- one file -------------------------------------------------------------------------------------------------

def test_one_file_at_any_place_under_any_name():
    make({"a.csv": "text", "beside": "not shown"})
    for place in ("/x.csv", "/data/x", "/data/deep/x.csv", "/workspace/x", "/workspace/sub/x", "/tmp/x", "/home/cloche/.x"):
        result = call("put(args[0], '!', 'a'); return [get(args[0]), os.path.isfile(args[0])]", at(place, "host/a.csv"), args=[place], rule=ALL, sync="manual")
        equal((result.value, result.paths("modified")), (["text!", True], [place]), result)
        equal([c["realPath"] for c in result.raw["files"]["modified"]], [os.path.abspath("host/a.csv")])
        assert b"+text!" in cli("diff", "-u").stdout
        equal((tree()["a.csv"], cli("sync").code, tree()), (b"text", 0, {"a.csv": b"text!", "beside": b"not shown"}))
        make({"a.csv": "text"})


def test_one_file_in_a_mount():
    make({"a": "outer", "b": "hidden"})
    make({"c": "file"}, "third")
    for name in ("b", "new", "deep/er"):
        place = "/workspace/" + name
        equal(value_of("put(args[0], '!', 'a'); return get(args[0])", [at("/workspace"), at(place, "third/c")], args=[place], rule=ALL), "file!")
        equal(tree("third"), {"c": b"file!"})
        equal(tree(), {"a": b"outer", "b": b"hidden"})
        make({"c": "file"}, "third")


def test_one_file_that_may_not_be_written():
    make({"a": "text"})
    result = call("return [attempt(put, '/x', 'y', 'a'), get('/x')]", at("/x", "host/a"))
    equal((result.value, [(d["path"], d["operation"]) for d in result.raw["files"]["denied"]]), (["EACCES", "text"], [("/x", "modify")]), result)


def test_rules_of_one_file_go_by_its_name_in_the_box():
    make({"a": "text"})
    for rule, expected in (("x.csv=*", "ok"), ("a=*", "EACCES"), ("*.csv=modify", "ok"), ("x.csv=-read", "EACCES")):
        equal(value_of("return attempt(put, '/data/x.csv', 'y', 'r+')", at("/data/x.csv", "host/a"), rule=rule), expected, rule)


def test_one_file_is_too_large_or_gone():
    make({"a": "text"})
    small = rules({"permissions": {}, "loading": {"maxFileSize": 2}})
    refused(at("/x", "host/a", rules=small), "larger than maxFileSize")
    bad_input("run", "bash", "-c", ":", "--mount", at("/x", "host/absent"), says="absent.*no such file")


def test_a_file_of_the_host_that_changes_meanwhile_is_a_conflict():
    make({"a": "text"})
    bash("echo box > /x", at("/x", "host/a"), rule=ALL, sync="manual")
    os.rename("host/a", "host/old")
    make({"a": "the host's"})
    finished = cli("sync")
    assert finished.code != 0 and b"/host/a" in finished.stdout + finished.stderr, finished
    equal(tree(), {"a": b"the host's", "old": b"text"})


def test_what_does_not_fit_together():
    make({"a": "text"})
    words = ["run", "bash", "-c", ":"]
    bad_input(*words, "--mount", at("/x", "host/a"), "--mount", at("/x/y"), says="'/x/y' cannot lie in '/x', which is a file")
    bad_input(*words, "--mount", at("/data"), "--mount", at("/data/"), says="given twice|the place '/data'")
    bad_input(*words, "--mount", at("/data"), "--mount", at("/data/.cloche-sync/x"), says="where syncs keep their journal: choose another name")
    os.mkdir("host/.cloche-sync")
    bad_input(*words, "--mount", at("/data", "host/.cloche-sync"), says="the name belongs to syncs")
    bad_input(*words, "--mount", at("s"), says=r"absolute path: --mount /workspace/s=host")
