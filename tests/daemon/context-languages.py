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
# interpreter's end, from within; file: reads /workspace/f. looks: a name, and a part of what
# context.inspect tells of it; more: the beginning of a cell.
JAVASCRIPT = {
    "result": "40 + 2", "keep": "let word = 'ke' + 'pt'", "kept": "console.log(word)", "prints": "console.log('one \\u00e9'); console.error('two')",
    "error": ("throw new RangeError('no')", "RangeError", "no"), "broken": "let x = ;", "spins": "console.log('go'); while (true) {}",
    "sleeps": "console.log('go'); await new Promise(done => setTimeout(done, 1e9))", "exits": "process.abort()", "dies": "process.kill(process.pid, 'SIGKILL')",
    "file": "console.log((await import('node:fs')).readFileSync('f', 'utf8'))",
    "looks": ("word", "'kept'"), "more": "if (word) {"}
ROWS = {
    "python": {"result": "40 + 2", "keep": "word = 'ke' + 'pt'", "kept": "print(word)", "prints": "import sys\nprint('one \u00e9')\nprint('two', file=sys.stderr)",
               "error": ("raise ValueError('no')", "ValueError", "no"), "broken": "x = (", "spins": "print('go')\nwhile True: pass", "sleeps": "import time\nprint('go')\ntime.sleep(1000)",
               "exits": "import os; os._exit(3)", "dies": "import os; os.kill(os.getpid(), 9)", "file": "print(open('f').read())",
               "looks": ("word", "'kept'"), "more": "if word:"},
    "javascript": JAVASCRIPT,
    "typescript": {**JAVASCRIPT, "keep": "let word: string = 'ke' + 'pt' as string", "result": "(40 + 2) as number"},
    "ruby": {"result": "40 + 2", "keep": "word = 'ke' + 'pt'", "kept": "puts word", "prints": "puts \"one \u00e9\"\nwarn 'two'", "error": ("raise ArgumentError, 'no'", "ArgumentError", "no"),
             "broken": "x = (", "spins": "puts 'go'\nloop {}", "sleeps": "puts 'go'\nsleep 1000", "exits": "exit!(3)", "dies": "Process.kill(:KILL, Process.pid)", "file": "puts File.read('f')",
             "looks": ("word", '"kept"'), "more": "if word"},
    "php": {"result": "40 + 2", "keep": "$word = 'ke' . 'pt';", "kept": "echo $word, \"\\n\";", "prints": "echo \"one \u00e9\\n\"; fwrite(STDERR, \"two\\n\");",
            "error": ("throw new RangeException('no');", "RangeException", "no"), "broken": "$x = (;", "spins": "echo \"go\\n\"; while (true);", "sleeps": "echo \"go\\n\"; sleep(1000);",
            "exits": "posix_kill(getmypid(), 15); sleep(1000);", "dies": "posix_kill(getmypid(), 9);", "file": "echo file_get_contents('f');",
            "looks": ("$word", "'kept'"), "more": "if ($word) {"},
    "bash": {"keep": "word=ke; word+=pt", "kept": "echo $word", "prints": "echo 'one \u00e9'; echo two >&2", "broken": "if true; then (", "spins": "echo go; while :; do :; done",
             "sleeps": "echo go; sleep 1000", "exits": "exec false", "dies": "kill -9 $$", "file": "cat f",
             "looks": ("$word", "kept"), "more": "if true; then"},
}


# set_up: the code of a prefix; word, list, function: what it leaves; kept: a cell that prints "kept 3 7";
# changes: a cell that changes the word and the list and makes `own`; changed: prints "changed 4";
# own: a cell that fails without `own`; call: a call in the prefix that returns "kept 3";
# fails: a cell in which a function of the set-up fails, in the line that `line` quotes.
JAVASCRIPT_SET_UP = {
    "set_up": "const path = require('node:path')\nlet word = 'kept'\nconst list = [1, 2, 3]\nfunction add (a, b) {\n  return a + b\n}\n"
              "class Wrong extends Error {}\nfunction fail () {\n  throw new Wrong('no')\n}\nmodule.exports = { exported: 5 }",
    "kept": "console.log(word, list.length, add(3, 4))", "changes": "word = 'changed'; list.push(4); let own = 1",
    "changed": "console.log(word, list.length)", "own": "own", "call": "return `${word} ${list.length}`", "fails": "fail()", "line": "set-up:9",
    "names": ["word", "list", "add", "path", "exported"], "again": "const list = [5]; console.log(list.length, exported)", "again_prints": "1 5\n"}
PREFIXES = {
    "python": {
        "set_up": "import json, math as m\nword = 'kept'\nlist_ = [1, 2, 3]\nx, f, a = 'x', 'f', 'a'\ndef add(a, b):\n    return a + b\n"
                  "def fail():\n    raise KeyError('no')\n",
        "kept": "print(word, len(list_), add(3, 4))", "changes": "word = 'changed'; list_.append(4); own = 1", "changed": "print(word, len(list_))",
        "own": "own", "call": "f'{word} {len(list_)}'", "fails": "fail()", "line": "raise KeyError('no')", "names": ["word", "list_", "add", "x", "f", "a"],
        "again": "print(x, f, a, json.dumps(m.floor(1.5)))", "again_prints": "x f a 1\n"},
    "javascript": JAVASCRIPT_SET_UP,
    "typescript": {**JAVASCRIPT_SET_UP, "set_up": "const path = require('node:path')\nlet word: string = 'kept'\nconst list: number[] = [1, 2, 3]\nfunction add (a: number, b: number): number {\n"
                                           "  return a + b\n}\nclass Wrong extends Error {}\nfunction fail (): void {\n  throw new Wrong('no')\n}\nmodule.exports = { exported: 5 as number }"},
    "ruby": {
        "set_up": "require 'json'\nword = 'kept'\n$list = [1, 2, 3]\ndef add(a, b)\n  a + b\nend\ndef fail_now\n  raise KeyError, 'no'\nend\nLimit = 9\n",
        "kept": "puts [word, $list.size, add(3, 4)].join(' ')", "changes": "word = 'changed'; $list << 4; own = 1", "changed": "puts [word, $list.size].join(' ')",
        "own": "own", "call": "\"#{word} #{$list.size}\"", "fails": "fail_now", "line": "set-up, line 8", "names": ["word", "$list", "add", "Limit"],
        "again": "puts [Limit, JSON.generate([1])].join(' ')", "again_prints": "9 [1]\n"},
    "php": {
        "set_up": "$word = 'kept';\n$list = [1, 2, 3];\nfunction add($a, $b) {\n  return $a + $b;\n}\nfunction fail_now() {\n  throw new RangeException('no');\n}\nclass Box {}\n",
        "kept": "echo $word, ' ', count($list), ' ', add(3, 4), \"\\n\";", "changes": "$word = 'changed'; $list[] = 4; $own = 1;",
        "changed": "echo $word, ' ', count($list), \"\\n\";", "own": "isset($own) || throw new LogicException('none');",
        "call": "return $word . ' ' . count($list);", "fails": "fail_now();", "line": "set-up:7", "names": ["word", "list", "add", "Box"],
        "again": "echo get_class(new Box()), \"\\n\";", "again_prints": "Box\n"},
    "bash": {
        "set_up": "word=kept\nlist=(1 2 3)\nadd() {\n  echo $(($1 + $2))\n}\nfail_now() {\n  false || return 3\n}\n",
        "kept": "echo $word ${#list[@]} $(add 3 4)", "changes": "word=changed; list+=(4); own=1", "changed": "echo $word ${#list[@]}",
        "own": "[[ -v own ]]", "call": "echo -n $word ${#list[@]}", "fails": "fail_now", "line": "", "names": ["word", "list", "add"],
        "again": "declare -A map=([a]=1); echo ${map[a]}", "again_prints": "1\n"},
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
    looks(n, row)
    assert n.get()["language"] == n.language and n.get()["state"] == "idle"


def looks(n, row):
    count = n.get()["executionCount"]
    name, part = row["looks"]
    found = n.call("context.inspect", context="c", code="\u00e9 " + name + " ", at=2 + len(name), detail=1)
    assert found["found"] is True and list(found["data"]) == ["text/plain"] and part in found["data"]["text/plain"], found
    assert n.call("context.inspect", context="c", code=name, at=2 ** 53 - 1)["found"], "a place behind the code is its end"
    assert n.call("context.inspect", context="c", code="nosuchname_") == {"found": False, "data": {}}
    for code, status in ((row["keep"], "complete"), (row["more"], "incomplete"), (")", "invalid")):
        judged = n.call("context.isComplete", context="c", code=code)
        assert judged["status"] == status and judged["indent"].strip(" ") == "" and (status == "incomplete" or not judged["indent"]), (code, judged)
    assert n.get()["executionCount"] == count and row["keep"] in [entry["code"].lstrip("\ufeff") for entry in n.call("context.history", context="c")["entries"]]


def interrupts(n, row):
    n.run(row["keep"])
    for code in (row["spins"], row["sleeps"]):
        for how in ("interrupt", "timeout", "cancel"):
            for timeout_ms in (300, 3000, 20000):  # on a busy machine the limit may come before the line
                number = n.begin(code, timeoutMs=timeout_ms if how == "timeout" else 0)
                while number not in n.frames.answers and b"go" not in n.printed(number):
                    n.frames.turn()
                if b"go" in n.printed(number):
                    break
            if how == "cancel":
                assert n.cancel(number) == "cancelled"
            else:
                assert how == "timeout" or n.call("context.interrupt", context="c")["interrupted"]
                answer = n.wait(number)
                assert answer["status"] == "error" and not answer["ended"] and answer["timedOut"] is (how == "timeout"), (code, how, answer)
                traceback = "\n".join(answer["error"]["traceback"])
                if how == "timeout":
                    assert f"Timeout: the cell ran for more than {timeout_ms} ms" in traceback and not re.search("Interrupt$", traceback, re.MULTILINE), traceback
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


def of_a_prefix(n, _row):
    """Contexts from a caller's prefix: cells see all that its set-up made, each context alone; they outlive the prefix."""
    language, row = n.language, PREFIXES[n.language]
    name = f"of-{n.sandbox}"
    n.frames.call("prefix.create", language=language, code=row["set_up"], filename="set-up", name=name)
    made = n.create("one", prefix=name)
    assert made["created"] and made["language"] == language and made["prefix"] == name and made["state"] == "idle", made
    n.create("two", prefix=name)
    assert n.prints(row["kept"], "one") == "kept 3 7\n"
    n.run(row["changes"], "one")
    assert n.prints(row["changed"], "one") == "changed 4\n"
    assert n.prints(row["kept"], "two") == "kept 3 7\n", "contexts of a prefix do not see each other"
    assert n.run(row["own"], "two")["status"] == "error" and n.run(row["own"], "one")["status"] == "ok"
    assert n.frames.call("call", language=language, code=row["call"], prefix=name)["result"] == "kept 3", "nor does the prefix see them"
    assert n.prints(row["again"], "two") == row["again_prints"]
    names = [variable["name"].removesuffix("()") for variable in n.call("context.describe", context="one")["variables"]]
    assert set(row["names"]) <= set(names), (row["names"], names)
    answer = n.run(row["fails"], "two")
    assert answer["status"] == "error" and row["line"] in "\n".join(answer["error"]["traceback"]), answer
    n.frames.call("prefix.dispose", prefix=name)
    assert n.refused("context.create", prefix=name).name == "not_found"
    assert n.prints(row["changed"], "one") == "changed 4\n", "contexts outlive their prefix"
    n.call("context.restart", context="one")
    assert n.prints(row["kept"], "one") == "kept 3 7\n", "and start again with its set-up"


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
    together(*(check(language, what) for language in there for what in (cells, interrupts, ends, default_one, of_a_prefix)))
