"""Contexts from the command line: cells with their streams, displays, errors and exit codes; restart, forks, checkpoints."""
import json
import os
import re
import signal

from boxes import daemon, ok
from cloche import bad_input, cli, equal, start

TIMEOUT = 180


def run(*words, code, stdin=b""):
    finished = cli("context", "run", "box", *words, "-c", code, stdin=stdin)
    return finished.code, finished.stdout.decode(), finished.stderr.decode()


def rows(*words):
    return json.loads(ok(*words, "--json"))


def state(name):
    return rows("context", "get", "box", name)["state"]


def cells():
    equal(run(code="import sys; x = 20; print('out'); print('err', file=sys.stderr); x + 1"), (0, "out\n21\n", "err\n"))
    equal(run(code="print('x is', end=' '); x + 2"), (0, "x is \n22\n", ""))
    equal(ok("context", "run", "box", "-", stdin=b"print(x)\n"), b"20\n")
    with open("cell.sh", "w") as file:
        file.write("Y=$((40 + 2)); cd /tmp")
    ok("context", "run", "box", "--language", "bash", "-f", "cell.sh")
    equal(ok("context", "run", "box", "--language", "bash", "-c", "echo $Y $PWD"), b"42 /tmp\n")
    equal(sorted(row["context"] for row in rows("context", "list", "box")), ["default-bash", "default-python"])
    code, out, err = run(code="print('so far')\nraise ValueError('a\\x1b[2Jb')")
    equal((code, out), (1, "so far\n"))
    assert err.endswith("ValueError: a\\x1b[2Jb\n") and "line 2" in err and "\x1b" not in err, err
    # A program's output passes as it is; its displays may not steer the terminal.
    equal(run(code="print('\\x1b[1m')\nclass C:\n    def __repr__(self): return 'c\\x1b[2J'\nC()")[1], "\x1b[1m\nc\\x1b[2J\n")
    equal(ok("context", "run", "box", "-c", "import os; _ = os.write(1, bytes([255, 0, 10]))"), b"\xff\0\n")
    size = 20_000_000
    equal(len(ok("context", "run", "box", "-c", f"print('x' * {size})")), size + 1)


def answers_as_json():
    finished = cli("context", "run", "box", "--json", "-c", "print('p'); {'a': 1}")
    answer = json.loads(finished.stdout)
    equal((finished.code, answer["stdout"], answer["status"], answer["displays"][0]["data"]["application/json"]), (0, "p\n", "ok", {"a": 1}))
    finished = cli("context", "run", "box", "--json", "-c", "1/0")
    equal((finished.code, json.loads(finished.stdout)["error"]["name"]), (1, "ZeroDivisionError"))


def displays():
    code = "import matplotlib.pyplot as plt; from IPython.display import HTML, display; _ = plt.plot([1, 2]); plt.show(); display(HTML('<b>b</b>'))"
    finished = run(code=code)
    assert finished[0] == 0 and "[image/png]\n" in finished[1] and "[text/html]\n" in finished[1], finished
    for number in (1, 2):  # existing files are not overwritten
        said = run("--save-displays", "shown", code=code)[1]
        assert f"image/png: shown/display-{number}.png\n" in said and f"text/html: shown/display-{number + 1}.html\n" in said, said
    equal(sorted(os.listdir("shown")), ["display-1.png", "display-2.html", "display-2.png", "display-3.html"])
    with open("shown/display-1.png", "rb") as file:
        equal(file.read(8), b"\x89PNG\r\n\x1a\n")
    with open("shown/display-2.html") as file:
        equal(file.read(), "<b>b</b>")


def questions():
    equal(run("-i", code="a = input('a? '); b = input('b? '); a + b", stdin=b"1\n2"), (0, "a? b? \n'12'\n", ""))
    assert "EOFError" in run("-i", code="input()")[2]
    assert "EOFError" in run(code="input()")[2]


def ends():
    code, _, err = run("--timeout", "0.3", code="import time; time.sleep(60)")
    assert code == 124 and "Timeout: the cell ran for more than 300 ms" in err and "KeyboardInterrupt" not in err, (code, err)
    equal(run(code="x")[1], "20\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = start("context", "run", "box", "-c", "import time; print('begun', flush=True); time.sleep(60)")
        equal(process.stdout.readline(), b"begun\n")
        process.send_signal(number)
        equal(process.wait(30), -number if number == signal.SIGINT else 143)
        process.stdout.close()
        process.stderr.close()
    equal(run(code="x")[1], "20\n")
    ok("context", "create", "box", "mortal")
    code, _, err = run("--context", "mortal", code="import os; os._exit(3)")
    assert code == 1 and "ContextEnded" in err, (code, err)
    equal(state("mortal"), "ended")
    assert b"mortal" in ok("context", "list", "box") and b"ended" in ok("context", "get", "box", "mortal")
    equal(cli("context", "run", "box", "--context", "mortal", "-c", "1").code, 1)
    equal(run("--context", "mortal", "--restart", code="1")[:2], (0, "1\n"))


def lives():
    made = ok("context", "create", "box", "-C", "/tmp", "-e", "COLOR=green").decode().strip()
    equal(run("--context", made, code="import os; print(os.getcwd(), os.environ['COLOR']); y = 1")[1], "/tmp green\n")
    equal([row["name"] for row in rows("context", "describe", "box", made) if row["name"] == "y"], ["y"])
    assert b"y\tint\t1\n" in ok("context", "describe", "box", made)
    assert f"{made}\tpython\n".encode() in ok("__complete", "context", "get", "box", "")
    equal(ok("__complete", "context", "run", "nowhere", "--context", ""), b"")
    equal([row["sandbox"] for row in rows("sandbox", "ls")], ["box"])  # a query created none
    equal(ok("context", "inspect", "box", made, "-c", "y + 2", "--at", "1"), b"Value: 1\nType: int\n")
    equal(rows("context", "inspect", "box", made, "-c", "os.getcwd")["found"], True)
    run("--context", made, code="def f(a):\n    '''Of \x1b[2J f.'''\n    return a")
    equal(ok("context", "inspect", "box", made, "-c", "f", "--source"),
          b"Signature: f(a)\nDocstring: Of \\x1b[2J f.\nType: function\nFile: Cell In[2]\nSource:\ndef f(a):\n    '''Of \\x1b[2J f.'''\n    return a\n")
    equal(ok("context", "inspect", "box", made, "-", stdin=b"y\n"), b"Value: 1\nType: int\n")
    missing = cli("context", "inspect", "box", made, "-c", "nosuch")
    assert missing.code == 1 and missing.stdout == b"" and b"no such name" in missing.stderr, missing
    for code, status, exit_code in (("y = 2", b"complete\n", 0), ("if y:", b"incomplete\n", 1), ("y = )", b"invalid\n", 1)):
        said = cli("context", "is-complete", "box", made, "-c", code)
        equal((said.stdout, said.code), (status, exit_code))
    equal(ok("context", "history", "box", made, "--limit", "1"), b"     2  def f(a):\n            '''Of \\x1b[2J f.'''\n            return a\n")
    equal([row["count"] for row in rows("context", "history", "box", made)], [1, 2])
    bad_input("context", "inspect", "box", made, says="code")
    for command in ("inspect", "is-complete"):
        bad_input("context", command, "box", made, "-", stdin=b"y\xff", says="not UTF-8")
    process = start("context", "run", "box", "--context", made, "-c", "import time; print('begun', flush=True); time.sleep(600)")
    equal(process.stdout.readline(), b"begun\n")
    for command in ("inspect", "is-complete"):
        bad_input("context", command, "box", made, "-c", "y", says=r"a cell runs in .* \(cloche context interrupt\)")
    equal(rows("context", "interrupt", "box", made)["interrupted"], True)
    equal(process.wait(30), 1)
    process.stdout.close()
    process.stderr.close()
    equal(rows("context", "interrupt", "box", made)["interrupted"], False)
    ok("context", "restart", "box", made)
    assert "NameError" in run("--context", made, code="y")[2]
    ok("context", "delete", "box", made, "mortal")
    bad_input("context", "get", "box", made, says=made)


def refusals():
    bad_input("context", "run", "box", says="code")
    bad_input("context", "run", "box", "--context", "a", "--language", "bash", "-c", "1", says="--language")
    bad_input("context", "run", "box", "-i", "-", says="-i")
    bad_input("context", "run", "box", "--json", "-i", "-c", "1", says="--json")
    bad_input("context", "run", "box", "--language", "cobol", "-c", "1", says="cobol")
    bad_input("context", "fork", "box", "a", "--count", "101", says="--count")
    bad_input("context", "create", "box", "javascript", says="--language javascript")
    bad_input("context", "create", "box", "mine", "javascript", says="'javascript': a language is named by --language ")
    bad_input("context", "create", "box", "mine", "yours", says=r"unexpected word 'yours' \(usage")
    equal(ok("context", "create", "box", "javascript", "--language", "javascript"), b"javascript\n")
    equal(ok("context", "create", "box", "javascript.mine"), b"javascript.mine\n")
    bad_input("context", "delete", "box", says="contexts")
    bad_input("context", says="create")


def forks_and_checkpoints():
    ok("context", "create", "box", "f", "--forkable")
    run("--context", "f", code="x = 1; open('/workspace/kept', 'w').write('1')")
    copies = ok("context", "fork", "box", "f", "--count", "2").decode().split()
    equal(len(copies), 2)
    for number, name in enumerate(copies):
        equal(run("--context", name, code=f"x += {number}; x")[1], f"{1 + number}\n")
    equal(run("--context", "f", code="x")[1], "1\n")
    equal(ok("context", "checkpoint", "box", "f", "before"), b"before\n")
    run("--context", "f", code="x = 5; _ = open('/workspace/kept', 'w').write('5')")
    equal([row["checkpoint"] for row in rows("context", "checkpoints", "box", "f")], ["before"])
    assert b"with files" in ok("context", "checkpoints", "box", "f")
    ok("context", "rollback", "box", "f")
    equal(run("--context", "f", code="x, open('/workspace/kept').read()")[1], "(1, '1')\n")
    ok("context", "forget", "box", "f", "before")
    bad_input("context", "rollback", "box", "f", "before", says="before")


def of_a_prefix():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    with open("rows.json", "w") as file:
        file.write("[1, 2, 3]")
    ok("prefix", "create", "geo", "python", "--file", "rows.json=rows.json", "-c", "import json\nrows = json.load(open('rows.json'))\nLIMIT = 10")
    for number in (1, 2):
        ok("context", "create", "box", f"g{number}", "--prefix", "geo")
        equal(run("--context", f"g{number}", code="rows.append(4); json.dumps(rows), LIMIT")[1], "('[1, 2, 3, 4]', 10)\n")
    assert re.search(r"g1\t.*\tprefix geo\n", ok("context", "list", "box").decode()), ok("context", "list", "box")
    equal(ok("context", "create", "box", "g1", "--prefix", "geo"), b"g1\n")
    ok("context", "create", "box", "plain")
    bad_input("context", "create", "box", "plain", "--prefix", "geo", says="without a prefix")
    ok("prefix", "create", "geo", "--force", "python", "-c", "LIMIT = 11")
    bad_input("context", "create", "box", "g1", "--prefix", "geo", says='exists already, of an earlier set-up "geo": use another name')
    bad_input("context", "create", "box", "--prefix", "none", says=r"there is no prefix .none. \(cloche prefix list lists them\): make it by cloche prefix create")
    bad_input("context", "create", "box", "g1", "--language", "ruby", "--prefix", "geo", says="use another name")
    bad_input("context", "create", "box", "--language", "ruby", "--prefix", "geo", says="is of python, not of ruby")


def test_cells_and_what_becomes_of_them():
    """One daemon and one sandbox for all."""
    with daemon():
        for part in (cells, answers_as_json, displays, questions, ends, lives, forks_and_checkpoints, of_a_prefix, refusals):
            print("--", part.__name__, flush=True)
            part()


def test_a_context_out_of_memory_says_the_limit():
    with daemon():
        ok("sandbox", "create", "box", "--memory", "256M")
        finished = cli("context", "run", "box", "-c", "held = []\nwhile True: held.append(bytearray(10 << 20))")
        equal(finished.code, 1, finished)
        assert b"MemoryLimit" in finished.stderr and str(256 << 20).encode() in finished.stderr, finished
