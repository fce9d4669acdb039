"""The deciding rule: priority, order, exclusion, patterns, rules about a directory itself; and
every denial names it."""
from cloche import bad_input, cli, equal
from mounts import at, bash, call, make, rules, state, tree, value_of

state()
PATHS = ["a.txt", "b.md", "sub/a.txt", "sub/deep/c.txt", ".hidden", "sub/.hidden.txt", "node_modules/x/index.js", "sub/node_modules/y.js", "[x]", "ä.txt"]


def readable(permissions, paths=PATHS):
    """The readable ones of the paths."""
    make({path: path for path in paths})
    found = value_of("return [p for p in args[0] if attempt(get, '/data/' + p) == 'ok']", at(rules=rules(permissions)), args=[paths])
    return set(found)


def denied_by(pattern, paths=PATHS):
    return set(paths) - readable({"rules": [{"pattern": pattern, "deny": ["read"]}]}, paths)


def test_patterns():
    equal(denied_by("*.txt"), {"a.txt", "ä.txt"})
    equal(denied_by("**/*.txt"), {"a.txt", "ä.txt", "sub/a.txt", "sub/deep/c.txt", "sub/.hidden.txt"})
    equal(denied_by("?.txt"), {"a.txt", "ä.txt"})
    equal(denied_by("[ab].*"), {"a.txt", "b.md"})
    equal(denied_by("[!a].*"), {"b.md", "ä.txt"})
    equal(denied_by("{a,b}.{txt,md}"), {"a.txt", "b.md"})
    equal(denied_by("sub/**"), {"sub/a.txt", "sub/deep/c.txt", "sub/.hidden.txt", "sub/node_modules/y.js"})
    equal(denied_by("sub/*"), {"sub/a.txt", "sub/.hidden.txt"})
    equal(denied_by(".*"), {".hidden"})
    equal(denied_by("\\[x\\]"), {"[x]"})
    equal(denied_by("**"), set(PATHS))
    equal(denied_by("nothing"), set())


def test_extended_globs():
    equal(denied_by("**/!(*.txt)"), {"b.md", ".hidden", "node_modules/x/index.js", "sub/node_modules/y.js", "[x]"})
    equal(denied_by("!(sub|node_modules)/**"), set())
    equal(denied_by("+(sub|node_modules)/**"), {path for path in PATHS if path.startswith(("sub/", "node_modules/"))})
    equal(denied_by("*([!b]).+(txt|md)"), {"a.txt", "ä.txt"})
    # The main purpose of rules that permit all but secrets: a name that only resembles a secret's is none.
    make({"a.key": "k", "x.keys": "", "key": ""}, "keys")
    said = bash("cd /keys; for f in *; do echo new >$f && echo $f; done 2>/dev/null", "/keys=keys", rule="!(*.key)=modify")
    equal((said.stdout.split(), tree("keys")["a.key"]), ([b"key", b"x.keys"], b"k"), said)
    bad_input("run", "bash", "-c", "true", "--mount", "/keys=keys", "--rule", "+(a*(b))=*", says="repeats within one that repeats")


def test_the_higher_priority_decides():
    low, high = {"pattern": "*.txt", "deny": ["read"], "priority": 1}, {"pattern": "a.*", "allow": ["read"], "priority": 2}
    for order in ([low, high], [high, low]):
        equal(readable({"rules": order}, ["a.txt", "c.txt"]), {"a.txt"})


def test_of_equal_priority_the_first_decides():
    one, other = {"pattern": "*.txt", "deny": ["read"]}, {"pattern": "a.*", "allow": ["read"]}
    equal(readable({"rules": [one, other]}, ["a.txt", "c.txt"]), set())
    equal(readable({"rules": [other, one]}, ["a.txt", "c.txt"]), {"a.txt"})


def test_the_first_match_alone_decides_and_what_it_does_not_name_is_the_default():
    make({"a": "text"})
    both = {"default": {"modify": True}, "rules": [{"pattern": "a", "deny": ["read"]}, {"pattern": "a", "deny": ["modify"]}]}
    equal(value_of("return [attempt(get, '/data/a'), attempt(put, '/data/a', 'x')]", at(rules=rules(both)), sync="manual"), ["EACCES", "ok"])


def test_deny_comes_before_allow_in_a_rule():
    equal(readable({"default": {"read": False}, "rules": [{"pattern": "a", "deny": ["*"], "allow": ["read"]}]}, ["a", "b"]), {"a"})


def test_a_star_is_all_five():
    make({"a": "text", "b": "text"})
    acts = "return [attempt(get, '/data/a'), attempt(put, '/data/a', 'x'), attempt(os.unlink, '/data/a'), attempt(put, '/data/new', 'x')]"
    mount = at(rules=rules({"rules": [{"pattern": "**", "allow": ["*"]}]}))
    equal(value_of(acts, mount, sync="manual"), ["ok"] * 4)
    mount = at(rules=rules({"default": {"create": True}, "rules": [{"pattern": "**", "deny": ["*"]}]}))
    equal(value_of(acts, mount), ["EACCES"] * 4)


def test_exclude_is_that_name_at_any_depth_and_all_below():
    equal(set(PATHS) - readable({"exclude": ["node_modules"]}), {"node_modules/x/index.js", "sub/node_modules/y.js"})
    equal(set(PATHS) - readable({"exclude": ["*.txt"]}), {"a.txt", "ä.txt", "sub/a.txt", "sub/deep/c.txt", "sub/.hidden.txt"})
    equal(set(PATHS) - readable({"exclude": ["sub/deep"]}), {"sub/deep/c.txt"})


def test_exclude_has_priority_1000():
    rule = {"pattern": "node_modules/**", "allow": ["*"]}
    equal(readable({"exclude": ["node_modules"], "rules": [{**rule, "priority": 999}]}, PATHS[6:7]), set())
    equal(readable({"exclude": ["node_modules"], "rules": [{**rule, "priority": 1001}]}, PATHS[6:7]), set(PATHS[6:7]))


def test_what_is_excluded_is_not_listed_and_can_not_be_replaced():
    make({"node_modules/x": "x", "a": "a"})
    mount = at(rules=rules({"default": dict.fromkeys(("create", "modify", "delete"), True), "exclude": ["node_modules"]}))
    equal(value_of("""return [os.listdir("/data"), attempt(os.mkdir, "/data/node_modules"), attempt(os.rename, "/data/a", "/data/node_modules/a"),
                              attempt(os.rename, "/data/node_modules", "/data/b"), attempt(put, "/data/node_modules/y", "")]""", mount),
          [["a"], "EEXIST", "EACCES", "EACCES", "EACCES"])


def test_rename_does_not_carry_a_denial_away():
    make({"secret/key": "key", "a/": None})
    permissions = {"default": dict.fromkeys(("create", "modify", "delete"), True), "rules": [{"pattern": "secret/*", "deny": ["read"]}]}
    found = value_of("""
        first = attempt(os.rename, "/data/secret", "/data/open")
        return [first, attempt(get, "/data/open/key"), attempt(get, "/data/secret/key"), attempt(os.link, "/data/secret/key", "/data/l")]
    """, at(rules=rules(permissions)), sync="manual")
    assert "ok" not in found[1:], found


def test_a_rule_holds_for_names_that_come_later():
    make({"a": "text"})
    permissions = {"default": dict.fromkeys(("create", "modify", "delete"), True), "rules": [{"pattern": "*.exe", "deny": ["create"]}]}
    equal(value_of("return [attempt(put, '/data/x.exe', ''), attempt(os.rename, '/data/a', '/data/a.exe'), attempt(put, '/data/x.com', '')]",
                   at(rules=rules(permissions)), sync="manual"), ["EACCES", "EACCES", "ok"])


def test_each_directory_has_its_own_rules():
    make({"a": "1"}, "one")
    make({"a": "2"}, "two")
    mounts = [at("/data/one", "one", rules({"rules": [{"pattern": "**", "allow": ["modify"]}]})), at("/data/two", "two")]
    equal(value_of("return [attempt(put, f'/data/{n}/a', 'x') for n in ('one', 'two')]", mounts, sync="manual"), ["ok", "EACCES"])


def test_rules_of_the_command_line_come_before_those_of_a_file():
    make({"a": "text"})
    mount = at(rules=rules({"rules": [{"pattern": "a", "deny": ["modify"]}]}))
    equal(value_of("return attempt(put, '/data/a', 'x')", mount, sync="manual"), "EACCES")
    equal(value_of("return attempt(put, '/data/a', 'x')", mount, rule="a=modify", sync="manual"), "ok")
    equal(value_of("return attempt(get, '/data/a')", rule=["a=-read", "**=*"]), "EACCES")


def test_denials_are_recorded_with_their_rule():
    make({"a": "text", "b": "text"})
    result = call("return [attempt(put, '/data/a', 'x') for _ in range(5)] + [attempt(os.unlink, '/data/b')]", rule="*a*=-modify")
    denied = {(d["path"], d["operation"], d.get("rule"), d["count"]) for d in result.files["denied"]}
    equal(denied, {("/data/a", "modify", "*a*", 5), ("/data/b", "delete", None, 1)})
    assert all(d["timestamp"] > 1.6e12 for d in result.files["denied"]), result
    equal(call("return attempt(get, '/data/a')").files["denied"], [])


def test_denials_are_told_as_they_happen():
    make({"a": "text", "b": "text"})
    code = "for i in 1 2 3; do echo x > /data/a; done 2>/dev/null; echo y > '/data/\x1b[31m\n' ; cat /data/a"
    finished = bash(code, denials=True, rule="a=-modify")
    equal((finished.code, finished.stdout), (0, b"text"))
    told = [line for line in finished.stderr.splitlines() if line.startswith(b"cloche: ")]
    equal(told, [b"cloche: denied modify /data/a by the rule a", b"cloche: denied modify /data/a by the rule a (2 times)",
                 b"cloche: denied create /data/\\x1b[31m\\x0a"])
    assert b"cloche: " not in bash("echo x > /data/a 2>/dev/null").stderr


def test_denials_want_a_mount():
    bad_input("run", "bash", "-c", ":", "--denials", says="--denials.*--mount")


def test_bad_rules_say_what_is_wrong_and_where():
    make({"a": "text"})
    for content, says in [
        ("{", r"rules\.json.*line 1"), ("[]", "not an object"), ({"path": "/"}, "not an object"), ({"rule": []}, "unknown member 'rule'"),
        ({"rules": {}}, "rules"), ({"rules": [{"pattern": 1}]}, r"rules\[0\]"), ({"rules": [{"allow": ["read"]}]}, r"rules\[0\].*pattern"),
        ({"rules": [{"pattern": "a", "allow": ["raed"]}]}, "raed"), ({"rules": [{"pattern": "a", "alow": ["read"]}]}, "alow"),
        ({"rules": [{"pattern": "a", "priority": "high"}]}, "priority"), ({"default": {"execute": True}}, "execute"),
        ({"default": {"read": 1}}, "read"), ({"exclude": "node_modules"}, "exclude"),
        ({"permissions": {}, "loading": {"mode": "early"}}, "mode"), ({"permissions": {}, "loading": {"maxFileSize": -1}}, "maxFileSize"),
        ({"permissions": {}, "loading": {"mode": "lazy", "maxFilesize": 1}}, 'loading has no member "maxFilesize"'),
        ({"security": {"followSymlinks": "never"}}, "followSymlinks"), ({"security": {"follow": True}}, "follow"),
        ({"onPermissionDenied": "cry"}, "onPermissionDenied"), ({"permissions": {}, "sync": {}}, 'no member "sync"'),
        ('{"default": {"read": true}, "default": {}}', "duplicate"),
    ]:
        bad_input("run", "bash", "-c", ":", "--mount", at(rules=rules(content)), says=says)
    bad_input("run", "bash", "-c", ":", "--mount", at(rules="absent.json"), says="absent.json.*(no such|cannot|unable)")


def test_bad_options_say_what_is_wrong():
    make({"a": "text"})
    for option, value, says in [("--rule", "a", "PATTERN=ACTION"), ("--rule", "a=fly", "^cloche: --rule: .fly. is none of"), ("--sync", "later", "--sync must be batch or manual"),
                                ("--on-error", "retry", "--on-error must be rollback, continue or abort"), ("--conflict", "merge", "--conflict must be refuse, keepBoth or overwrite"),
                                ("--on-denied", "cry", "--on-denied: expected throw"), ("--mount", "data=host", "absolute path: --mount /workspace/data=host"), ("--mount", "/data", "PLACE=HOSTPATH")]:
        bad_input("run", "bash", "-c", ":", "--mount", at(), option, value, says=says)
    bad_input("run", "bash", "-c", ":", "--rule", "a=read", says="--mount")
    file = at(rules=rules({"rules": [{"pattern": "a", "allow": ["read"]}, {"pattern": "b", "allow": ["fly"]}]}))
    bad_input("run", "bash", "-c", ":", "--mount", file, "--rule", "a=read", "--rule", "c=read", says=r"--mount: rules\[1\].allow: 'fly' is none of")
    equal(tree(), {"a": b"text"})
    equal(cli("run", "bash", "-c", "cat /data/a", "--mount", at()).stdout, b"text")
