"""Prefixes are kept by name, shown, replaced and dropped; a call with --prefix is forked from one."""
import json
import os
from cloche import (ORDINARY_USER, alive, bad_input, call, cli, descendants, equal, need_ordinary_user, skip, start, value_of, wait_for,
                    write_file)

os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
KEPT = os.path.abspath("data/cloche/prefixes")


def create(name, code, *words):
    finished = cli("prefix", "create", name, "python", "-c", code, *words)
    equal((finished.code, finished.stdout, finished.stderr), (0, b"", b""))


def listed():
    return json.loads(cli("prefix", "list", "--json").stdout)


def test_globals_of_the_set_up_are_visible():
    create("a", "import math\nx = 41\ndef double(n): return 2 * n")
    equal(value_of("python", "def f(n): return double(x) + math.floor(n)", "f", args=[0.5], prefix="a"), 82)


def test_each_call_starts_from_the_set_up():
    create("a", "seen = []")
    for _ in range(2):
        equal(value_of("python", "def f():\n    seen.append(1)\n    return len(seen)", "f", prefix="a"), 1)


def test_what_the_set_up_printed_is_no_output_of_a_run():
    create("a", "print('from the set-up')")
    result = call("python", "def f(): print('from the run')", "f", prefix="a")
    equal((result.stdout, result.stderr), ("from the run\n", ""))


def test_files_are_there_for_the_set_up_and_for_runs():
    host = write_file("host", bytes(range(256)))
    create("a", "there = open('in/data', 'rb').read()", "--file", f"in/data={host}")
    os.unlink(host)
    result = call("python", "def f(): return [there, open('in/data', 'rb').read()]", "f", prefix="a")
    equal(result.value, [bytes(range(256))] * 2, result)
    equal(result.files["created"], [])


def test_a_run_has_files_of_its_own_too():
    create("a", "x = 1", "--file", f"one={write_file('one', '1')}")
    equal(value_of("python", "import os\ndef f(): return sorted(os.listdir())", "f", prefix="a", file=f"two={write_file('two', '2')}"),
          ["one", "two"])


def test_an_empty_set_up_and_one_with_a_file_name():
    create("empty", "")
    equal(value_of("python", "return 7", prefix="empty"), 7)
    equal(cli("prefix", "create", "named", "python", "-f", write_file("mine.py", "def g(): raise KeyError('k')")).code, 0)
    assert "mine.py" in call("python", "def f(): return g()", "f", prefix="named").error["stack"]


def test_code_on_standard_input():
    equal(cli("prefix", "create", "a", "python", "-", stdin=b"x = 5").code, 0)
    equal(value_of("python", "return x", prefix="a"), 5)


def test_list():
    equal(listed(), [])
    equal(cli("prefix", "list").stdout, b"")
    create("b", "x = 1", "--file", f"one={write_file('one', 'x' * 1000)}")
    create("a.b-c_D9", "x = 2")
    rows = listed()
    equal([(r["name"], r["language"], r["files"]) for r in rows], [("a.b-c_D9", "python", 0), ("b", "python", 1)])
    assert rows[1]["bytes"] > 1000 and 0 <= rows[0]["ageSeconds"] < 60, rows
    lines = cli("prefix", "list").stdout.decode().splitlines()
    equal([line.split()[:2] for line in lines], [["a.b-c_D9", "python"], ["b", "python"]])


def test_completion_offers_prefixes_only_where_one_is_named():
    create("geo", "x = 1")
    offered = lambda *words: [line.split("\t")[0] for line in cli("__complete", *words).stdout.decode().splitlines()]
    for words in (["call", "--prefix", "g"], ["prefix", "drop", ""], ["prefix", "create", ""]):
        equal(offered(*words), ["geo"])
    for words in (["sandbox", "create", ""], ["call", "python", "--env", ""], ["git", "box", "file:///x", "--branch", ""]):
        equal(offered(*words), [])


def test_replacing_needs_force():
    create("a", "x = 1")
    bad_input("prefix", "create", "a", "python", "-c", "x = 2", says="'a' already.*--force")
    equal(value_of("python", "return x", prefix="a"), 1)
    create("a", "x = 2", "--force")
    equal(value_of("python", "return x", prefix="a"), 2)
    equal(os.listdir(KEPT), ["a"])


def test_a_failing_replacement_leaves_the_old_one():
    create("a", "x = 1")
    equal(cli("prefix", "create", "a", "python", "-c", "raise OSError", "--force").code, 1)
    equal(value_of("python", "return x", prefix="a"), 1)


def test_drop():
    create("a", "x = 1")
    create("b", "x = 1")
    create("c", "x = 1")
    equal(cli("prefix", "drop", "a", "b").code, 0)
    equal([r["name"] for r in listed()], ["c"])
    finished = cli("prefix", "drop", "a", "c")
    equal(finished.code, 2)
    assert b"'a'" in finished.stderr and listed() == [], finished


def test_limits_are_the_set_ups():
    create("a", "import resource\nthere = resource.getrlimit(resource.RLIMIT_FSIZE)", "--memory", "64", "--timeout", "5")
    result = call("python", "def f(): return len(bytearray(100 << 20))", "f", prefix="a", memory=200)
    equal((result.value, result.raw["meta"]["limits"]["wallMs"]), (100 << 20, 30000))


def test_only_the_owner_reads_them():
    create("a", "x = 1")
    equal([os.stat(path).st_mode & 0o777 for path in ("data", KEPT, KEPT + "/a")], [0o700, 0o700, 0o600])


def test_home_where_xdg_says_nothing():
    env = {"HOME": os.path.abspath("home"), "XDG_DATA_HOME": "relative/does/not/count"}
    equal(cli("prefix", "create", "a", "python", "-c", "x = 1", env=env).code, 0)
    equal(os.listdir("home/.local/share/cloche/prefixes"), ["a"])
    bad_input_env = cli("prefix", "list", env={"HOME": "", "XDG_DATA_HOME": ""})
    equal(bad_input_env.code, 2)


def test_an_ordinary_user_keeps_their_own():
    need_ordinary_user()
    os.mkdir("theirs")
    os.chown("theirs", 12345, 12345)
    os.chmod(".", 0o755)
    env = {"XDG_DATA_HOME": os.path.abspath("theirs")}
    weak = "memory,pids,cpu,freezer,private-uid,disk-quota,cgroup-namespace"
    finished = cli("prefix", "create", "a", "python", "-c", "x = 3", "--optional", weak, env=env, under=ORDINARY_USER)
    if b"enter the template's pid namespace" in finished.stderr:
        skip("an ordinary user's runs cannot be forked from a template yet")
    equal((finished.code, finished.stderr), (0, b""))
    equal(os.stat("theirs/cloche/prefixes/a").st_uid, 12345)
    finished = cli("call", "python", "-c", "return x", "--prefix", "a", "--optional", weak, env=env, under=ORDINARY_USER)
    equal((finished.code, finished.stdout), (0, b"3\n"), finished)


def test_a_signal_ends_a_set_up_and_keeps_nothing():
    process = start("prefix", "create", "slow", "python", "-c", "while True: pass")
    # The privileged helper, the keeper, two inits and two interpreters at least.
    wait_for(lambda: len(descendants(process.pid)) >= 5, "the set-up to run")
    below = descendants(process.pid)
    process.terminate()
    equal(process.wait(20), 143)
    wait_for(lambda: not any(map(alive, below)), "its processes to end")
    assert not os.path.exists(KEPT + "/slow")


# ---- bad input ------------------------------------------------------------------------------------------------

def test_names_that_are_none():
    for name in ("", ".", "..", ".a", "a/b", "../a", "a b", "ä", "a\nb", "x" * 65):
        bad_input("prefix", "create", name, "python", "-c", "x = 1", says="name")
    create("x" * 64, "x = 1")
    bad_input("prefix", "drop", "../../etc/passwd", says="name")
    bad_input("call", "python", "-c", "return 1", "--prefix", "../a", says="name")


def test_missing_words():
    bad_input("prefix", says="create.*list.*drop")
    bad_input("prefix", "frobnicate", says="frobnicate")
    bad_input("prefix", "create", "a", "-c", "x = 1", says="language")
    bad_input("prefix", "create", "a", "python", says="code")
    bad_input("prefix", "create", "a", "python", "b", "-c", "x = 1", says="unexpected word")
    bad_input("prefix", "drop", says="name")
    bad_input("prefix", "list", "a", says="unexpected word")


def test_unknown_language():
    bad_input("prefix", "create", "a", "klingon", "-c", "x = 1", says="klingon")
    equal(listed(), [])


def test_unreadable_files():
    bad_input("prefix", "create", "a", "python", "-c", "x = 1", "--file", "a=/nonexistent", says="/nonexistent")
    bad_input("prefix", "create", "a", "python", "-c", "x = 1", "--file", f"/etc/passwd={write_file('x', 'x')}", says="/etc/passwd")


def test_an_unknown_prefix_of_a_call():
    bad_input("call", "python", "-c", "return 1", "--prefix", "nobody", says="'nobody'")


def test_the_prefix_of_another_language():
    create("a", "x = 1")
    bad_input("call", "javascript", "-c", "return 1", "--prefix", "a", says="python.*javascript")


def test_a_script_of_a_prefix():
    create("a", "import sys\nBASE = 40")
    finished = cli("run", "python", "--prefix", "a", "-c", "print(BASE + 2, sys.argv[1:], sys.stdin.read())\nsys.stderr.write('e')\nsys.exit(3)", "--", "x",
                   stdin=b"in")
    equal((finished.code, finished.stdout, finished.stderr), (3, b"42 ['x'] in\n", b"e"))
    finished = cli("run", "python", "--prefix", "a", "-c", "BASE / 0")
    equal(finished.code, 1)
    assert b"ZeroDivisionError" in finished.stderr and b"main.py" in finished.stderr and b"cloche" not in finished.stderr, finished
    finished = cli("run", "python", "--prefix", "a", "-c", "while True: pass", "--timeout", "0.5")
    equal(finished.code, 124)
    finished = cli("run", "python", "--prefix", "a", "-c", "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.1), print('late'))).start()")
    equal((finished.code, finished.stdout), (0, b"late\n"))


def test_a_script_of_a_javascript_prefix():
    equal(cli("prefix", "create", "j", "javascript", "-c", "globalThis.base = 40").code, 0)
    finished = cli("run", "javascript", "--prefix", "j", "-c", "console.log(base + 2, process.argv[2]); setTimeout(() => { process.exitCode = 5 }, 10)", "--", "x")
    equal((finished.code, finished.stdout), (5, b"42 x\n"))
    finished = cli("run", "javascript", "--prefix", "j", "-c", "import fs from 'node:fs'\nconsole.log(typeof fs.readFileSync)\nthrow new TypeError('no')")
    equal((finished.code, finished.stdout), (1, b"function\n"))
    assert b"TypeError: no" in finished.stderr, finished


def test_a_damaged_file_is_said_to_be():
    create("a", "x = 1")
    for damage in (b"", b"nonsense", b"{}\n", b'{"version":1,"language":"python","codeBytes":99}\nx', open(KEPT + "/a", "rb").read() + b"x"):
        write_file(KEPT + "/a", damage)
        bad_input("call", "python", "-c", "return 1", "--prefix", "a", says="'a' is damaged")
    equal(cli("prefix", "list").code, 1)
    equal(cli("prefix", "drop", "a").code, 0)


def test_help_tells_of_both_words():
    for words in (["help", "prefix"], ["prefix", "--help"]):
        finished = cli(*words)
        assert finished.code == 0 and b"prefix create" in finished.stdout and b"prefix drop" in finished.stdout, finished
    assert b"--force" in cli("help", "prefix", "create").stdout
