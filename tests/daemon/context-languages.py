#!/usr/bin/python3
"""Every language with contexts (`notebook` in its manifest): the same few checks for each."""
import json
import os
import re
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from context_cells import together

TIMEOUT = 120
RUNTIMES = os.path.join(os.environ["CLOCHE_SOURCE"], "runtimes")

# result: a cell with the value 42; keep, kept: a variable that persists, shown by printing "kept";
# prints: a line and one on stderr; error: a cell and the name of its error; broken: a syntax error;
# spins: prints "go" and runs forever; sleeps: the same, but waits; exits and dies: the
# interpreter's end, from within; file: reads /workspace/f.
JAVASCRIPT = {
    "result": "40 + 2", "keep": "let word = 'ke' + 'pt'", "kept": "console.log(word)", "prints": "console.log('one \\u00e9'); console.error('two')",
    "error": ("throw new RangeError('no')", "RangeError", "no"), "broken": "let x = ;", "spins": "console.log('go'); while (true) {}",
    "sleeps": "console.log('go'); await new Promise(done => setTimeout(done, 1e9))", "exits": "process.abort()", "dies": "process.kill(process.pid, 'SIGKILL')",
    "file": "console.log((await import('node:fs')).readFileSync('f', 'utf8'))"}
ROWS = {
    "python": {"result": "40 + 2", "keep": "word = 'ke' + 'pt'", "kept": "print(word)", "prints": "import sys\nprint('one \u00e9')\nprint('two', file=sys.stderr)",
               "error": ("raise ValueError('no')", "ValueError", "no"), "broken": "x = (", "spins": "print('go')\nwhile True: pass", "sleeps": "import time\nprint('go')\ntime.sleep(1000)",
               "exits": "import os; os._exit(3)", "dies": "import os; os.kill(os.getpid(), 9)", "file": "print(open('f').read())"},
    "javascript": JAVASCRIPT,
    "typescript": {**JAVASCRIPT, "keep": "let word: string = 'ke' + 'pt' as string", "result": "(40 + 2) as number"},
    "ruby": {"result": "40 + 2", "keep": "word = 'ke' + 'pt'", "kept": "puts word", "prints": "puts \"one \u00e9\"\nwarn 'two'", "error": ("raise ArgumentError, 'no'", "ArgumentError", "no"),
             "broken": "x = (", "spins": "puts 'go'\nloop {}", "sleeps": "puts 'go'\nsleep 1000", "exits": "exit!(3)", "dies": "Process.kill(:KILL, Process.pid)", "file": "puts File.read('f')"},
    "php": {"result": "40 + 2", "keep": "$word = 'ke' . 'pt';", "kept": "echo $word, \"\\n\";", "prints": "echo \"one \u00e9\\n\"; fwrite(STDERR, \"two\\n\");",
            "error": ("throw new RangeException('no');", "RangeException", "no"), "broken": "$x = (;", "spins": "echo \"go\\n\"; while (true);", "sleeps": "echo \"go\\n\"; sleep(1000);",
            "exits": "posix_kill(getmypid(), 15); sleep(1000);", "dies": "posix_kill(getmypid(), 9);", "file": "echo file_get_contents('f');"},
    "bash": {"keep": "word=ke; word+=pt", "kept": "echo $word", "prints": "echo 'one \u00e9'; echo two >&2", "broken": "if true; then (", "spins": "echo go; while :; do :; done",
             "sleeps": "echo go; sleep 1000", "exits": "exec false", "dies": "kill -9 $$", "file": "cat f"},
}


def languages():
    for name in sorted(os.listdir(RUNTIMES)):
        path = os.path.join(RUNTIMES, name, "manifest.json")
        if os.path.exists(path):
            with open(path) as file:
                if "notebook" in json.load(file):
                    yield name


def cells(n, row):
    assert re.search(r"^[A-Za-z]+ \d+\.\d+", n.get()["interpreter"]), n.get()
    if "result" in row:
        answer = n.run(row["result"])
        assert answer["status"] == "ok" and answer["executionCount"] == 1 and [d["isResult"] for d in answer["displays"]] == [True], answer
        assert answer["displays"][0]["data"]["text/plain"] == b"42", answer
    answer = n.run(row["prints"])
    assert answer["status"] == "ok" and answer["stdout"].decode() == "one \u00e9\n" and answer["stderr"] == b"two\n", answer
    number = n.begin(row["prints"])
    n.wait(number)
    assert n.events(number)[0][0] == "begin" and n.printed(number).decode() == "one \u00e9\n" and n.printed(number, "stderr") == b"two\n"
    if "error" in row:
        code, name, message = row["error"]
        answer = n.run(code)
        assert answer["status"] == "error" and answer["error"]["name"] == name and message in answer["error"]["message"] and not answer["ended"], answer
        assert isinstance(answer["error"]["traceback"], list)
    answer = n.run(row["broken"])
    assert answer["status"] == "error" and not answer["ended"], answer
    n.run("\ufeff" + row["keep"])
    assert n.prints(row["kept"]) == "kept\n"
    n.call("file.write", path="/workspace/f", content="of the sandbox\n")
    assert n.prints(row["file"]).strip() == "of the sandbox"
    names = n.call("context.describe", context="c")["variables"]
    assert any(variable["name"].lstrip("$") == "word" for variable in names), names
    assert n.get()["language"] == n.language and n.get()["state"] == "idle"


def interrupts(n, row):
    n.run(row["keep"])
    for code in (row["spins"], row["sleeps"]):
        for how in ("interrupt", "timeout", "cancel"):
            number = n.begin(code, timeoutMs=300 if how == "timeout" else 10000)
            n.until_printed(number, b"go")
            if how == "cancel":
                assert n.cancel(number) == "cancelled"
            else:
                assert how == "timeout" or n.call("context.interrupt", context="c")["interrupted"]
                answer = n.wait(number)
                assert answer["status"] == "error" and not answer["ended"] and answer["timedOut"] is (how == "timeout"), (code, how, answer)
                traceback = "\n".join(answer["error"]["traceback"])
                if how == "timeout":
                    assert "Timeout: the cell ran for more than 300 ms" in traceback and not re.search("Interrupt$", traceback, re.MULTILINE), traceback
            answer = n.run(row["kept"])
            assert answer["stdout"] == b"kept\n" and answer["status"] == "ok", (code, how, answer)


def ends(n, row):
    for code in (row["exits"], row["dies"]):
        n.run(row["keep"], restart=True)
        numbers = n.ask(code), n.ask(row["kept"])
        answer = n.wait(numbers[0])
        assert answer["ended"] and answer["error"]["name"] == "ContextEnded", (code, answer)
        assert n.refused("context.run", context="c", code=row["kept"]).name == "context_ended"
        assert n.outcome(numbers[1]) == "context_ended"
        answer = n.run(row["kept"], restart=True)
        assert b"kept" not in answer["stdout"] and answer["executionCount"] == 1, answer
        assert n.prints(row["prints"]) == "one \u00e9\n"


def default_one(n, row):
    n.run(row["keep"], None, language=n.language)
    assert n.prints(row["kept"], None, language=n.language) == "kept\n" and n.get(f"default-{n.language}")["language"] == n.language


def check(language, what):
    def run(n):
        n.language = language
        n.create(language=language)
        what(n, ROWS[language])

    run.__name__ = f"{language} {what.__name__}"
    return run


def test_every_language():
    there = list(languages())
    assert "python" in there and set(there) <= set(ROWS), f"no row for {set(there) - set(ROWS)}"
    together(*(check(language, what) for language in there for what in (cells, interrupts, ends, default_one)))
