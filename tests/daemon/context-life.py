#!/usr/bin/python3
"""The life of contexts: interrupts, timeouts, cancelling, input, ends, restarts; the state they
share with their sandbox, and the state that ends with it."""
import json
import os
import shutil
import signal
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from context_cells import Daemon, Notebook, QuickFrames, together
from hostile_sandboxes import Host
from http_client import Http, WebSocket
from sandbox_client import read_events, wait_for

TIMEOUT = 120
WAIT = """
import os, sys, time
def wait_for(name):
    while not os.path.exists('/workspace/' + name):
        time.sleep(0.01)
"""
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\nprint('deaf')\nimport time\nwhile True: time.sleep(0.01)"


# -- interrupted, late, restarted ---------------------------------------------------------------------------------

def interrupted(n):
    n.run("kept = 1")
    for code in ("print('go')\nwhile True: pass", "import time\nprint('go')\ntime.sleep(1000)", "import asyncio\nprint('go')\nawait asyncio.sleep(1000)",
                 "import subprocess\nprint('go')\nsubprocess.run(['sleep', '1000'])"):
        number = n.begin(code)
        n.until_printed(number, b"go")
        assert n.call("context.interrupt", context="c") == {"context": "c", "interrupted": True}
        answer = n.wait(number)
        assert answer["interrupted"] and not answer["timedOut"] and not answer["ended"] and answer["error"]["name"] == "KeyboardInterrupt", (code, answer)
    assert n.call("context.interrupt", context="c") == {"context": "c", "interrupted": False}
    assert n.value("kept") == "1", "who does not run is not interrupted, and has lost nothing"
    number = n.begin("try:\n    print('go')\n    while True: pass\nexcept KeyboardInterrupt:\n    print('caught')")
    n.until_printed(number, b"go")
    n.call("context.interrupt", context="c")
    answer = n.wait(number)
    assert answer["status"] == "ok" and answer["stdout"] == b"go\ncaught\n" and answer["interrupted"]


def late(n):
    n.create(timeoutMs=1000)
    assert n.get()["timeoutMs"] == 1000
    n.run("kept = 1")
    for _ in range(3):  # on a busy machine the limit may come before the line
        answer = n.run("print('go')\nwhile True: pass")
        if answer["stdout"]:
            break
    assert answer["timedOut"] and not answer["ended"] and answer["error"]["name"] == "Timeout" and "1000 ms" in answer["error"]["message"], answer
    assert answer["stdout"] == b"go\n" and any("line 2" in line for line in answer["error"]["traceback"]), "where it was is told"
    assert n.value("kept") == "1"
    assert n.prints("import time\ntime.sleep(1.2)\nprint('done')", timeoutMs=0) == "done\n", "the cell's own word comes first"
    for seconds in (1.5, 5.5, 20.5):  # on a busy machine the second may be late itself
        first, second = n.ask(f"time.sleep({seconds})", timeoutMs=0), n.ask("'second'", timeoutMs=int(seconds * 1000 - 500))
        assert n.wait(first)["status"] == "ok"
        if n.wait(second)["status"] == "ok":
            break
    else:
        raise AssertionError("who waits is not late")


def late_and_deaf(n):
    for timeout_ms in (200, 2000, 20000):  # on a busy machine a cell may be late before it is deaf
        numbers = n.ask(DEAF, timeoutMs=timeout_ms), n.ask("1")
        answer = n.wait(numbers[0])
        if answer["ended"]:
            break
        n.wait(numbers[1])
    assert answer["timedOut"] and answer["ended"] and answer["status"] == "error" and answer["stdout"] == b"deaf\n", answer
    assert n.outcome(numbers[1]) == "context_ended" and n.get()["state"] == "ended" and "interrupted" in n.get()["endedWhy"]
    assert n.refused("context.run", context="c", code="1").name == "context_ended"
    assert n.run("1", restart=True)["executionCount"] == 1
    number = n.begin(DEAF)
    n.until_printed(number, b"deaf")
    assert n.cancel(number) == "cancelled"
    wait_for(lambda: n.get()["state"] == "ended")
    assert n.call("context.restart", context="c")["state"] == "idle"
    n.is_well()


def restarted(n):
    n.create(env={"WORD": "kept"}, cwd="/workspace/below", timeoutMs=10000)
    n.run("x = 1\nimport os\nos.chdir('/')\nos.environ['WORD'] = 'changed'")
    again = n.call("context.restart", context="c")
    assert again["executionCount"] == 0 and again["state"] == "idle" and again["timeoutMs"] == 10000 and "created" not in again, again
    assert n.error("x") == "NameError" and n.value("import os; os.getcwd(), os.environ['WORD']") == "('/workspace/below', 'kept')"
    numbers = [n.begin("print('go')\nwhile True: pass"), n.ask("2"), n.ask("3")]
    n.until_printed(numbers[0], b"go")
    n.call("context.restart", context="c")
    answer = n.wait(numbers[0])
    assert answer["ended"] and answer["error"]["name"] == "ContextEnded" and "restarted" in answer["error"]["message"], answer
    assert [n.outcome(number) for number in numbers[1:]] == ["context_ended", "context_ended"]
    assert n.run("1")["executionCount"] == 1
    n.is_well()


def deleted(n):
    numbers = [n.begin("print('go')\nwhile True: pass"), n.ask("2")]
    n.until_printed(numbers[0], b"go")
    n.call("context.delete", context="c")
    answer = n.wait(numbers[0])
    assert answer["ended"] and answer["error"]["name"] == "ContextEnded" and "deleted" in answer["error"]["message"], answer
    assert n.outcome(numbers[1]) == "context_ended"
    assert n.call("context.list") == {"contexts": []}


# -- taken back ---------------------------------------------------------------------------------------------------

def cancelled(n):
    n.run(WAIT + "kept = 1")
    number = n.begin("print('go')\nwhile True: pass")
    n.until_printed(number, b"go")
    assert n.cancel(number) == "cancelled"
    answer = n.run("kept")
    assert answer["status"] == "ok" and answer["stdout"] == b"" and answer["displays"][0]["data"]["text/plain"] == b"1", "it goes on, without what the other printed"
    first, second, third = n.begin("print('go')\nwait_for('go')\nran = ['first']"), n.ask("ran.append('second')"), n.ask("ran.append('third'); ran")
    n.until_printed(first, b"go")
    assert n.get()["state"] == "busy"
    assert n.cancel(second) == "cancelled", "who waits is taken back at once"
    n.call("file.write", path="go", content="")
    assert n.wait(first)["status"] == "ok" and n.wait(third)["displays"][0]["data"]["text/plain"] == b"['first', 'third']"
    assert n.get()["state"] == "idle" and n.get()["executionCount"] == 5, "and was not counted"


def closed_connections_cancel(n):
    n.run("kept = 1")
    for accept in ("text/event-stream", None):
        with Http(n.daemon.connect()) as http:
            code = "kept += 1\nopen('/workspace/go', 'w').close()\nprint('go')\nwhile True: pass"
            if accept:
                assert http.begin("POST", n.path + "/context/run", {"context": "c", "code": code}, accept=accept) == 200
                assert next(event for event in read_events(http) if event[0] == "output")[1] == {"stream": "stdout", "data": "go\n"}
            else:
                body = json.dumps({"context": "c", "code": code}).encode()
                http.send_head("POST", n.path + "/context/run", {"Host": "a", "Content-Type": "application/json", "Content-Length": str(len(body))})
                http.socket.sendall(body)
                wait_for(lambda: n.call("file.exists", path="go")["exists"])
        wait_for(lambda: n.get()["state"] == "idle")
        n.call("file.remove", path="go")
    assert n.value("kept") == "3", "both ran until nobody was there, and the context goes on"


# -- questions ----------------------------------------------------------------------------------------------------

def answer(n, about, **value):
    return n.call("context.input", context=about["context"], input=about["input"], **value)


def questions(n):
    number = n.begin("name = input('who? ')\nprint('hello', name)", input=True)
    asked = n.until(number, "input")
    assert asked["prompt"] == "who? " and asked["password"] is False and asked["context"] == "c", asked
    other = n.create("other")["context"]
    for wrong in ({"context": "c", "input": asked["input"] + 1}, {"context": other, "input": asked["input"]}, {"context": "none", "input": asked["input"]}):
        assert n.refused("context.input", value="x", **wrong).name == "not_found", wrong
    assert answer(n, asked, value="W\u00f6rld") == {}
    assert n.wait(number)["stdout"].endswith("hello W\u00f6rld\n".encode())
    assert n.refused("context.input", context="c", input=asked["input"], value="x").name == "not_found", "a question is answered once"
    number = n.begin("import getpass\na = getpass.getpass('secret: ')\nb = input()\nprint([a, b])", input=True)
    first = n.until(number, "input")
    assert first["password"] is True and first["prompt"] == "secret: "
    answer(n, first, value="s")
    second = n.until(number, "input", 2)
    assert second["input"] != first["input"] and n.refused("context.input", context="c", input=first["input"], value="x").name == "not_found"
    answer(n, second, value="")
    assert n.wait(number)["stdout"].endswith(b"['s', '']\n")


def questions_without_an_answer(n):
    number = n.begin("input()", input=True)
    answer(n, n.until(number, "input"))
    assert n.wait(number)["error"]["name"] == "EOFError", "the caller has none"
    assert n.error("input()") == "EOFError" and n.prints("import sys; print(repr(sys.stdin.read()))") == "''\n", "nobody answers who did not say so"
    number = n.begin("input()", input=True)
    asked = n.until(number, "input")
    n.call("context.interrupt", context="c")
    assert n.wait(number)["error"]["name"] == "KeyboardInterrupt"
    assert n.refused("context.input", context="c", input=asked["input"], value="late").name == "not_found"
    number = n.begin("input()", input=True)
    n.until(number, "input")
    assert n.cancel(number) == "cancelled"
    assert n.run("input()", timeoutMs=5000)["error"]["name"] == "EOFError"
    n.is_well()


# -- beside each other --------------------------------------------------------------------------------------------

def one_after_another(n):
    n.run(WAIT + "seen = []")
    numbers = [n.begin(f"seen.append({i}); time.sleep(0.01 * (5 - {i})); seen.append({i})") for i in range(5)]
    assert [n.wait(number)["executionCount"] for number in numbers] == [2, 3, 4, 5, 6]
    assert n.value("seen") == "[0, 0, 1, 1, 2, 2, 3, 3, 4, 4]"
    told = [params["event"] for method, params, _ in n.frames.told if method == "event" and params["event"] == "begin"]
    assert len(told) == 5
    first = n.begin("print('go')\nwait_for('go')")
    n.until_printed(first, b"go")
    second = n.begin("1")
    assert n.value("1 + 1", "other") == "2" and not n.events(second), "another context waits for nobody; who waits has not begun"
    n.call("file.write", path="go", content="")
    n.wait(first), n.wait(second)
    assert n.events(second)[0] == ("begin", {"context": "c", "executionCount": 9})


def a_thousand_wait(n):
    n.run(WAIT)
    first = n.begin("print('go')\nwait_for('never')")
    n.until_printed(first, b"go")
    waiting = [n.ask("1") for _ in range(999)]
    assert n.refused("context.run", context="c", code="1").name == "queue_full"
    n.cancel(waiting.pop())
    waiting.append(n.ask("1"))
    n.call("context.restart", context="c")
    assert n.wait(first)["ended"] and {n.outcome(number) for number in waiting} == {"context_ended"}
    n.is_well()


def apart_from_each_other(n):
    n.run("x = 'of c'\nimport os, socket\npid = os.getpid()\nopen('/tmp/shared', 'w').write('from c')\nserver = socket.create_server(('127.0.0.1', 8080))")
    assert n.error("x", "d") == "NameError" and n.value("open('/tmp/shared').read()", "d") == "'from c'", "files are the sandbox's, variables are not"
    assert n.shell("cat /tmp/shared; echo of the shell > /workspace/f") == "from c" and n.value("open('/workspace/f').read()") == "'of the shell\\n'"
    connect = "import os, socket\nsocket.create_connection(('127.0.0.1', 8080)).close()"
    assert n.run(connect)["status"] == "ok", "in its own the port is open"
    assert n.error(connect, "d") == "ConnectionRefusedError" and n.shell("(: > /dev/tcp/127.0.0.1/8080) 2> /dev/null || echo refused") == "refused\n"
    seen = "import os\nsorted(int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid()))"
    assert n.value(seen) == n.value(seen, "d") == "[]" and len(n.pids()) >= 2, "processes are its own"
    n.run("import subprocess\nchild = subprocess.Popen(['sleep', '1000'])")
    assert n.value("child.pid in " + seen.splitlines()[1]) == "True" and n.value(seen, "d") == "[]" and "sleep" not in n.shell("ps -eo comm="), "also later"
    n.run("child.kill(); child.wait()")


def where_and_with_what_it_begins(n):
    n.call("sandbox.create", env={"SHARED": "of the sandbox", "WORD": "of the sandbox"})
    made = n.create(env={"WORD": "of the context", "EMPTY": ""}, cwd="/workspace/new/dir")
    assert made["cwd"] == "/workspace/new/dir" and made["env"] == {"WORD": "of the context", "EMPTY": ""}
    assert n.value("import os; os.getcwd(), os.environ['WORD'], os.environ['EMPTY']") == "('/workspace/new/dir', 'of the context', '')"
    assert n.value("os.environ.get('SHARED')") == "'of the sandbox'"
    assert n.prints("os.system('pwd; echo $WORD');") == "/workspace/new/dir\nof the context\n"
    assert n.value("import os; os.getcwd(), os.environ['WORD']", "d") == "('/workspace', 'of the sandbox')"
    assert n.shell("echo $WORD; ls -d /workspace/new/dir") == "of the sandbox\n/workspace/new/dir\n"


def default_contexts(n):
    assert n.value("x = 1; x", None) == "1" and n.value("x", None, language="python") == "1"
    assert [c["context"] for c in n.call("context.list")["contexts"]] == ["default-python"]
    answer = n.run("import os; os._exit(0)", None)
    assert answer["ended"] and answer["error"]["name"] == "ContextEnded" and answer["context"] == "default-python"
    assert n.error("x", None) == "NameError" and n.get("default-python")["executionCount"] == 1, "it begins anew by itself"
    n.run("os = __import__('os'); os._exit(0)", None)
    assert n.refused("context.run", context="default-python", code="1").name == "context_ended", "but not for who names it"
    assert n.refused("context.run", code="1", restart=False).name == "context_ended"
    assert n.value("1", None) == "1"


# -- its end ------------------------------------------------------------------------------------------------------

DEATHS = [("import os; os._exit(3)", "exit code 3"), ("import os, signal; print('last', end=''); os.kill(os.getpid(), signal.SIGKILL)", "signal 9"),
          ("import ctypes; ctypes.string_at(8)", "signal 11"), ("import os; os.abort()", "signal 6"), ("import os; os.execv('/bin/true', ['true'])", "")]


def dead(n):
    for code, why in DEATHS:
        n.create()
        numbers = [n.ask("kept = 1\n" + code), n.ask("2"), n.ask("3")]
        answer = n.wait(numbers[0])
        assert answer["ended"] and answer["error"]["name"] == "ContextEnded" and why in answer["error"]["message"], (code, answer)
        assert answer["stdout"] == (b"last" if "last" in code else b"")
        assert [n.outcome(number) for number in numbers[1:]] == ["context_ended", "context_ended"], code
        ended = n.get()
        assert ended["state"] == "ended" and why in ended["endedWhy"] and "pid" not in ended, ended
        for method in ("context.run", "context.complete", "context.inspect", "context.isComplete", "context.describe"):
            assert n.refused(method, context="c", **({} if method.endswith("be") else {"code": "1"})).name == "context_ended", method
        assert n.call("context.interrupt", context="c")["interrupted"] is False
        assert n.call("context.restart", context="c")["state"] == "idle" and n.error("kept") == "NameError"
    n.run("import os; os._exit(0)")
    again = n.create()
    assert again["created"] is False and again["state"] == "idle" and "endedWhy" not in again, "create makes it live again"
    n.is_well()


def dead_between_cells(n):
    n.run(WAIT + "import threading\nthreading.Thread(target=lambda: (wait_for('go'), os._exit(4))).start()")
    n.call("file.write", path="go", content="")
    wait_for(lambda: n.get()["state"] == "ended")
    assert "exit code 4" in n.get()["endedWhy"] and n.refused("context.run", context="c", code="1").name == "context_ended"
    assert n.run("1", restart=True)["status"] == "ok"


def out_of_memory(n):
    n.call("sandbox.create", limits={"memoryBytes": 256 << 20})
    n.run("x = 1", "beside")
    answer = n.run("held = []\nwhile True: held.append(bytearray(10 << 20))")
    assert answer["status"] == "error" and answer["error"]["name"] in ("MemoryLimit", "MemoryError"), answer
    assert answer["error"]["name"] == "MemoryError" or answer["ended"] and str(256 << 20) in answer["error"]["message"], answer
    assert n.run("6 * 7", restart=True)["status"] == "ok" and n.value("x", "beside") == "1", "the other one has its own"
    n.shell("true")


# -- its history --------------------------------------------------------------------------------------------------

def history(n):
    n.create()
    assert n.call("context.history", context="c") == {"entries": []}
    n.run("x = 1")
    with QuickFrames(n.daemon.connect()) as other:  # another client
        other.call("context.run", sandbox=n.sandbox, context="c", code="y = 2")
        other.call("context.run", sandbox=n.sandbox, context="c", code="secret = 3", silent=True)
        other.call("context.run", sandbox=n.sandbox, context="c", code="hidden = 4", history=False)
    n.run("1 / 0")
    cells = [(1, "x = 1"), (2, "y = 2"), (4, "1 / 0")]
    assert [(e["count"], e["code"]) for e in n.call("context.history", context="c")["entries"]] == cells
    assert [e["count"] for e in n.call("context.history", context="c", limit=2)["entries"]] == [2, 4]
    assert n.call("context.history", context="c", limit=0)["entries"] == []
    n.call("context.restart", context="c")
    n.run("#" + "a" * 65536)
    n.run("x = 4")
    assert [(e["count"], e["code"]) for e in n.call("context.history", context="c")["entries"]] == [*cells, (2, "x = 4")], "one is too large"
    for i in range(5):
        n.run(f"#{i}" + "b" * 60000)
    kept = n.call("context.history", context="c")["entries"]
    assert [e["code"][:2] for e in kept] == ["#1", "#2", "#3", "#4"] and sum(len(e["code"]) for e in kept) <= 256 << 10, "older ones made room"
    assert n.refused("context.history", context="none").name == "not_found"


def no_look_while_a_cell_runs(n):
    number = n.begin("print('go')\nwhile True: pass")
    n.until_printed(number, b"go")
    for method in ("context.inspect", "context.isComplete"):
        refused = n.refused(method, context="c", code="x")
        assert refused.name == "invalid_state" and '"c"' in str(refused) and "context.interrupt" in str(refused), refused
        assert n.refused(method, context="c", code="x" * ((1 << 20) + 1)).name == "invalid_argument"
    assert n.call("context.history", context="c")["entries"][-1]["count"] == 1, "the history of a busy one is told"
    n.call("context.interrupt", context="c")
    n.wait(number)


# -- with its sandbox ---------------------------------------------------------------------------------------------

def many(n):
    host = Host(n.daemon)
    n.shell("true")
    names = [f"many{i}" for i in range(20)]
    numbers = [n.frames.ask("context.create", sandbox=n.sandbox, context=name) for name in names]
    for number in numbers:
        n.frames.wait(number)
    n.known.update(names)
    for i, name in enumerate(names):
        assert n.value(f"x = {i}; x", name) == str(i)
    assert [n.value("x", name) for name in reversed(names)] == [str(i) for i in reversed(range(20))]
    assert len(n.call("context.list")["contexts"]) == 20
    before = host.now()
    for name in names:
        n.call("context.delete", context=name)
    wait_for(lambda: host.now()["processes"] <= before["processes"] - 20)


def goes_with_its_sandbox(n):
    host = Host(n.daemon)
    n.shell("true")
    before = host.now()
    for end in ("stop", "delete"):
        for i in range(3):
            n.run("import subprocess\nchild = subprocess.Popen(['sleep', '1000'])", f"c{i}")
        number = n.begin("print('go')\nwhile True: pass", "c0")
        n.until_printed(number, b"go")
        n.call("sandbox." + end)
        result = n.outcome(number)
        assert result in ("context_ended", "sandbox_ended", "cancelled", "not_found") or result["ended"], result
        n.known.clear()
        assert n.call("context.list") == {"contexts": []}, "none came back with it"
    host.comes_back_to(before)


def over_http(n):
    with Http(n.daemon.connect()) as http:
        status, made = http.post(n.path + "/context/create", context="c")
        assert status == 201 and made["created"], made
        status, result = http.post(n.path + "/context/run", context="c", code="print('hi')\n{'image/png': b'\\x89'}['image/png']")
        assert status == 200 and result["stdout"] == "hi\n" and result["executionCount"] == 1
        http.begin("POST", n.path + "/context/run", {"context": "c", "code": "print('one')\nname = input('who? ')\n"
                                                     "display({'image/png': b'\\x89'}, raw=True)\nname", "input": True}, accept="text/event-stream")
        seen = []
        for name, about in read_events(http):
            seen.append((name, about))
            if name == "input":
                n.call("context.input", context="c", input=about["input"], value="me")
        assert [name for name, _ in seen if name] == ["begin", "output", "input", "display", "display", "result"], seen
        assert dict(seen)["result"]["executionCount"] == 2 and dict(seen)["result"]["displays"] == []
        shown = [about for name, about in seen if name == "display"]
        assert shown[0]["data"] == {"image/png": {"$": "bytes", "b64": "iQ=="}} and shown[1]["data"] == {"text/plain": "'me'"}
        assert http.post(n.path + "/context/isComplete", context="c", code="if name:") == (200, {"status": "incomplete", "indent": "    "})
        status, found = http.post(n.path + "/context/inspect", context="c", code="name", detail=1)
        assert status == 200 and found == {"found": True, "data": {"text/plain": "Value: 'me'\nType: str"}}, found
        status, told = http.post(n.path + "/context/history", context="c", limit=1)
        assert status == 200 and [entry["count"] for entry in told["entries"]] == [2] and told["entries"][0]["code"].endswith("raw=True)\nname"), told
        for path, body, status, name in (("/context/get", {"context": "none"}, 404, "not_found"), ("/context/run", {"context": "c"}, 400, "invalid_argument"),
                                         ("/context/create", {"language": "cobol"}, None, "unknown_language")):
            answered, error = http.post(n.path + path, **body)
            assert (status or answered) == answered >= 400 and error["error"]["name"] == name, (path, answered, error)
        http.post(n.path + "/context/run", context="c", code="import os; os._exit(0)")
        answered, error = http.post(n.path + "/context/run", context="c", code="1")
        assert 400 <= answered < 500 and error["error"]["name"] == "context_ended", (answered, error)
    with WebSocket(n.daemon.connect()) as socket:
        number = socket.ask("context.run", sandbox=n.sandbox, context="c", code="print('one')\n2", restart=True, stream=True)
        assert socket.wait(number)["executionCount"] == 1
        assert [params["event"] for method, params, _ in socket.told if params["id"] == number] == ["begin", "output", "display"]


def test_life():
    together(interrupted, late, late_and_deaf, restarted, deleted, cancelled, closed_connections_cancel, questions, questions_without_an_answer,
             one_after_another, a_thousand_wait, apart_from_each_other, where_and_with_what_it_begins, default_contexts, dead, dead_between_cells, out_of_memory, many,
             history, no_look_while_a_cell_runs, goes_with_its_sandbox, over_http)


def process_named(name):
    """(pid, parent) on the host."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat") as file:
                head, _, rest = file.read().rpartition(") ")
        except OSError:
            continue
        if head.endswith("(" + name):
            return int(pid), int(rest.split()[1])


def test_a_report_of_the_end_that_comes_late():
    """The template, which reports the exit status, is stopped for a while."""
    with Daemon() as daemon, QuickFrames(daemon.connect()) as frames:
        n = Notebook(daemon, frames, "a")
        name = f"late{os.getpid()}"
        n.run(f"import os\nwith open('/proc/self/comm', 'w') as file: file.write('{name}')")
        _, template = process_named(name)
        os.kill(template, signal.SIGSTOP)
        try:
            number = n.ask("os._exit(4)")
            time.sleep(0.6)  # by then it is taken for one that has closed its channel and goes on
            assert n.get()["state"] != "ended"
        finally:
            os.kill(template, signal.SIGCONT)
        answer = n.wait(number)
        assert answer["ended"] and "exit code 4" in answer["error"]["message"], answer
        assert n.run("1", restart=True)["status"] == "ok"
        answer = n.run("import os, time\nos.closerange(3, 70000)\ntime.sleep(1000)")
        assert answer["ended"] and "closed its connection" in answer["error"]["message"], answer
        assert n.run("1", restart=True)["status"] == "ok"


def test_a_sandbox_saved_while_contexts_live():
    directory = tempfile.mkdtemp(prefix="cloche-state-")
    os.chmod(directory, 0o711)
    try:
        state = os.path.join(directory, "state")
        for life in range(2):
            with Daemon("--state-dir", state) as daemon, QuickFrames(daemon.connect()) as frames:
                n = Notebook(daemon, frames, "a")
                if life == 0:
                    n.run("x = 1\nopen('/workspace/f', 'w').write('by a cell')")
                    saved = n.call("sandbox.save")
                    assert saved["savedAt"] and "saveError" not in saved and n.value("x") == "1", "it goes on while it is saved"
                    number = n.begin("open('/workspace/g', 'w').write('unsaved')\nprint('go')\nwhile True: pass")
                    n.until_printed(number, b"go")
                    n.call("sandbox.stop")
                else:
                    assert n.call("file.read", path="f")["content"] == "by a cell" and n.call("file.read", path="g")["content"] == "unsaved"
                assert n.call("context.list") == {"contexts": []}
                assert life or n.error("x", None) == "NameError"
                assert daemon.stop() == 0, "also with contexts alive"
    finally:
        shutil.rmtree(directory)
