"""Runs that are forked from a set-up, with a mount: each sees its own clean state, at places that a fork can be given."""
import concurrent.futures
import json
import os
from cloche import bad_input, cli, equal, run
from mounts import at, make, state, tree

state()
os.environ["XDG_DATA_HOME"] = os.path.abspath("data-home")
CODE = "import os\nSEEN = os.path.exists('/workspace/a')\ndef get(path):\n    with open(path) as file: return file.read()\n"


def prefix(language="python", code=CODE):
    equal(cli("prefix", "create", "warm", language, "-c", code).code, 0)


def call_warm(body, mount, **options):
    words = [w for name, value in options.items() for w in ("--" + name, value)]
    finished = cli("call", "python", "-c", body, "--prefix", "warm", "--mount", mount, "--json", *words)
    return json.loads(finished.stdout), finished


def test_places_a_fork_can_be_given():
    prefix()
    make({"a": "text"})
    for place in ("/workspace", "/workspace/x", "/tmp/x", "/home/cloche/x"):
        result, _ = call_warm(f"return [SEEN, get('{place}/a')]", at(place))
        equal(result["result"], [False, "text"], place)


def test_other_places_are_refused():
    prefix()
    make({"a": "text"})
    bad_input("call", "python", "-c", "return 1", "--prefix", "warm", "--mount", at("/data"), says="/data.*/workspace, /tmp and /home/cloche")


def test_each_run_sees_the_host_and_its_own_changes_only():
    prefix()
    make({"a": "text", "count": "0"})
    for _ in range(3):
        result, _ = call_warm("""
open('/workspace/mine', 'x').write('x')
open('/workspace/a', 'w').write('changed')
return [get('/workspace/a'), sorted(os.listdir('/workspace'))]
""", at("/workspace"), rule="**=*", sync="manual")
        equal(result["result"][0], "changed", result)
        assert {"a", "count", "mine"} <= set(result["result"][1]), result
    equal(tree(), {"a": b"text", "count": b"0"})


def test_what_one_run_wrote_the_next_one_sees():
    prefix()
    make({"count": "0"})
    for i in range(3):
        result, _ = call_warm("n = int(get('/workspace/count')) + 1; open('/workspace/count', 'w').write(str(n)); return n", at("/workspace"), rule="**=*")
        equal((result["result"], tree()), (i + 1, {"count": str(i + 1).encode()}), result)


def test_denials_and_changes_are_told_of_a_forked_run():
    prefix()
    make({"a": "text"})
    result, _ = call_warm("""
try:
    open('/workspace/a', 'w')
except PermissionError:
    open('/workspace/new', 'w').write('n')
""", at("/workspace"), rule="new=create")
    equal([(d["path"], d["operation"]) for d in result["files"]["denied"]], [("/workspace/a", "modify")], result)
    equal([c["path"] for c in result["files"]["created"]], ["/workspace/new"], result)


def test_a_script_from_a_set_up():
    prefix()
    make({"a": "text"})
    finished = run("python", "print(get('/workspace/a'), end='')", prefix="warm", mount=at("/workspace"))
    equal((finished.code, finished.stdout), (0, b"text"), finished)


def test_javascript_and_bash_set_ups():
    make({"a": "text"})
    for language, setup, body in (("javascript", "globalThis.fs = require('fs')", "return fs.readFileSync('/workspace/a', 'utf8')"),
                                  ("bash", "x=1", "cat /workspace/a")):
        equal(cli("prefix", "create", "--force", "warm", language, "-c", setup).code, 0)
        finished = cli("call", language, "-c", body, "--prefix", "warm", "--mount", at("/workspace"), "--json")
        result = json.loads(finished.stdout)
        equal(result["status"], "success", finished)
        equal(result["result"], "text", language)


def test_many_at_once():
    prefix()
    for i in range(6):
        make({"own": str(i)}, f"host{i}")

    def one(i):
        return call_warm("open('/workspace/new', 'w').write(get('/workspace/own')); return get('/workspace/own')", at("/workspace", f"host{i}"), rule="**=*")[0]
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        equal([r["result"] for r in pool.map(one, range(6))], [str(i) for i in range(6)])
    equal([tree(f"host{i}") for i in range(6)], [{"own": str(i).encode(), "new": str(i).encode()} for i in range(6)])
