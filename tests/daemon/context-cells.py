#!/usr/bin/python3
"""Responses to cells of contexts: results, errors, output, displays, and the same as events."""
import os
import re
import signal
import sys
import time

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from context_cells import bytes_of, together
from sandbox_client import wait_for

TIMEOUT = 120
MIB = 1 << 20


# -- which contexts there are -------------------------------------------------------------------------------------

def made_found_and_deleted(n):
    made = n.create("one")
    assert made["created"] and made["language"] == "python" and made["state"] == "idle" and made["cwd"] == "/workspace" and made["pid"] > 1, made
    assert made["interpreter"].startswith("IPython ") and " on Python 3." in made["interpreter"], made
    assert made["executionCount"] == 0 and made["checkpoints"] == 0 and made["forkable"] is False and "endedWhy" not in made, made
    assert n.run("x = 1", "one")["executionCount"] == 1
    again = n.create("one")
    assert again["created"] is False and again["executionCount"] == 1 and again["pid"] == made["pid"]
    assert n.value("x", "one") == "1", "and it is the same"
    unnamed = [n.call("context.create")["context"] for _ in range(2)]
    assert len(set(unnamed)) == 2
    assert [c["context"] for c in n.call("context.list")["contexts"]] == ["one", *unnamed]
    assert n.get("one")["executionCount"] == 2 and n.get("one")["createdAt"] == made["createdAt"] <= n.get("one")["lastUsedAt"]
    assert n.call("context.delete", context="one") == {"context": "one"}
    for method in ("get", "delete", "restart", "interrupt", "describe"):
        assert n.refused("context." + method, context="one").name == "not_found", method
    assert n.refused("context.run", context="one", code="1").name == "not_found"
    assert n.create("one")["created"] and n.error("x", "one") == "NameError", "a new one of that name has nothing of the old one"


def refused(n):
    n.create("taken")
    for language in ("javascript", "bash"):
        error = n.refused("context.create", context="taken", language=language)
        assert error.name == "invalid_state" and "taken" in error.message and "python" in error.message, error.message
    for method in ("context.create", "context.run"):
        for language in ("cobol", "c", ""):
            error = n.refused(method, language=language, **({"code": "1"} if method == "context.run" else {}))
            assert error.name == "unknown_language", (method, language, error.name, error.message)
            assert "python" in error.message or method == "context.run", error.message
    for params, word in (({"context": ""}, "context"), ({"context": "x" * 200}, "context"), ({"cwd": "relative"}, "cwd"), ({"cwd": "/" + "x" * 5000}, "cwd"),
                         ({"env": {"A=": "b"}}, "env"), ({"env": {"": "b"}}, "env"), ({"context": 1}, "context"), ({"language": 1}, "language"), ({"what": 1}, "what")):
        error = n.refused("context.create", **params)
        assert error.name == "invalid_argument" and word in error.message, (params, error.name, error.message)
    for params, word in (({"context": "taken"}, "code"), ({"code": "1", "context": "taken", "language": "python"}, "language"), ({"code": "1", "input": True}, "stream"),
                         ({"code": 1}, "code"), ({"code": "1", "timeoutMs": -1}, "timeoutMs")):
        error = n.refused("context.run", **params)
        assert error.name == "invalid_argument" and word in error.message, (params, error.name, error.message)
    error = n.refused("context.create", context="nowhere", cwd="/proc/nowhere")
    assert "/proc/nowhere" in error.message, error.message
    assert [c["context"] for c in n.call("context.list")["contexts"]] == ["taken"], "what could not be made is not there"
    assert n.prints("print(1)", "taken") == "1\n"


# -- results, errors ----------------------------------------------------------------------------------------------

def results_and_counts(n):
    answer = n.run("x = 40\nprint('hi')\nx + 2")
    assert answer["status"] == "ok" and "error" not in answer and answer["stdout"] == b"hi\n" and answer["stderr"] == b"", answer
    assert answer["executionCount"] == 1 and answer["context"] == "c" and not (answer["timedOut"] or answer["interrupted"] or answer["ended"] or answer["truncated"])
    assert [(d["data"], d["isResult"]) for d in answer["displays"]] == [({"text/plain": b"42"}, True)] and answer["displaysDropped"] == 0
    assert n.run("x + 3;")["displays"] == [] and n.run("y = 1")["displays"] == [] and n.run("")["executionCount"] == 4
    silent = n.run("z = 5; z", silent=True)
    assert silent["displays"] == [] and silent["executionCount"] == 4 and n.get()["executionCount"] == 4
    after = n.run("z")
    assert after["executionCount"] == 5 and after["displays"][0]["data"]["text/plain"] == b"5", "what is silent counts for nothing, but is done"
    assert n.value("await __import__('asyncio').sleep(0, 'awaited')") == "'awaited'"
    assert n.value("_") == "'awaited'" and n.value("In[1].splitlines()[0]") == "'x = 40'"


def errors(n):
    n.run("1")
    answer = n.run("print('before')\ndef f():\n    raise ValueError('no \\u00e9')\nf()")
    error = answer["error"]
    assert answer["status"] == "error" and error["name"] == "ValueError" and error["message"] == "no \u00e9" and answer["stdout"] == b"before\n", answer
    text = "\n".join(error["traceback"])
    assert "Cell In[2], line 4" in text and "Cell In[2], line 3, in f" in text and "/run/cloche" not in text and "\x1b" not in text, text
    assert n.error("def f(:") == "SyntaxError" and n.error("import sys; sys.exit(3)") == "SystemExit" and n.error("1/0") == "ZeroDivisionError"
    assert n.get()["executionCount"] == 5 and n.get()["state"] == "idle"
    shown = n.run("from IPython.display import display\ndisplay(1)\nraise KeyError('k')")
    assert [d["data"]["text/plain"] for d in shown["displays"]] == [b"1"] and shown["error"]["name"] == "KeyError", "what was shown before is there"
    n.is_well()


def completions_and_variables(n):
    n.run("lemon_tree = 1\ntext = 'a'")
    found = n.call("context.complete", context="c", code="x = '\u00e9'; lemon_t")
    assert "lemon_tree" in found["matches"] and found["from"] == 9 and found["to"] == 16, found
    inside = n.call("context.complete", context="c", code="lemon_t + 1", at=7)
    assert "lemon_tree" in inside["matches"] and (inside["from"], inside["to"]) == (0, 7)
    rows = {row["name"]: row for row in n.call("context.describe", context="c")["variables"]}
    assert rows["lemon_tree"]["type"] == "int" and rows["text"]["summary"] == "'a'", rows


# -- output -------------------------------------------------------------------------------------------------------

def bytes_stay_what_they_are(n):
    answer = n.run("import os, sys\nos.write(1, b'a\\xff\\0b')\nos.write(2, b'\\xfe');")
    assert answer["stdout"] == b"a\xff\0b" and answer["stderr"] == b"\xfe" and answer["stdoutBytes"] == 4 and answer["stderrBytes"] == 1, answer
    answer = n.run("""
        for i in range(2000):
            print(i)
            print(i, file=sys.stderr)
        """)
    numbers = b"".join(b"%d\n" % i for i in range(2000))
    assert answer["stdout"] == numbers and answer["stderr"] == numbers
    number = n.begin("os.write(1, b'x' * 300000 + b'\\xff')\nprint('end', end='')\nprint('', file=sys.stderr)")
    answer = n.wait(number)
    assert answer["stdout"] == n.printed(number) == b"x" * 300000 + b"\xffend" and n.printed(number, "stderr") == b"\n"
    assert n.prints("!echo of a child; echo $((1 + 1))") == "of a child\n2\n"


def much_output_is_read_in_pages(n):
    line = b"0123456789abcdef" * 64 + b"\n"
    answer = n.run("for i in range(3000): print('0123456789abcdef' * 64)")
    assert answer["stdoutBytes"] == 3000 * len(line) and len(answer["stdout"]) == MIB and answer["truncated"] and answer["output"], answer["stdoutBytes"]
    data, offset = answer["stdout"], len(answer["stdout"])
    while True:
        page = n.call("output.read", output=answer["output"], stream="stdout", offset=offset)
        data, offset = data + bytes_of(page["data"], n.frames.attachments), page["next"]
        if page["end"]:
            break
    assert data == line * 3000
    few = n.run("print('x' * 100)\nimport sys\nprint('y' * 100, file=sys.stderr)", outputBytes=10)
    assert (few["stdout"], few["stderr"], few["stdoutBytes"], few["truncated"]) == (b"x" * 10, b"y" * 10, 101, True)
    assert bytes_of(n.call("output.read", output=few["output"], stream="stderr", offset=10)["data"]) == b"y" * 90 + b"\n"
    assert few["output"] != answer["output"] and n.refused("output.read", output="output-none", stream="stdout").name == "not_found"
    whole = n.run("print('z' * 10)", outputBytes=11)
    assert whole["stdout"] == b"z" * 10 + b"\n" and not whole["truncated"] and "output" not in whole


def what_is_printed_between_cells_belongs_to_the_next(n):
    n.run("""
        import os, threading, time
        def late():
            while not os.path.exists('/workspace/go'):
                time.sleep(0.01)
            print('between')
            os.write(2, b'also\\n')
            open('/workspace/done', 'w').close()
        threading.Thread(target=late).start()
        print('first')
        """)
    n.call("file.write", path="go", content="")
    wait_for(lambda: n.call("file.exists", path="done")["exists"])
    answer = n.run("print('second')")
    assert answer["stdout"] == b"between\nsecond\n" and answer["stderr"] == b"also\n", answer
    n.shell("rm go done")
    n.run("threading.Thread(target=late).start()")
    n.call("file.write", path="go", content="")
    wait_for(lambda: n.call("file.exists", path="done")["exists"])
    number = n.begin("print('third')")
    assert n.wait(number)["stdout"] == n.printed(number) == b"between\nthird\n", "told once, and first"


# -- displays -----------------------------------------------------------------------------------------------------

def displays_and_output_are_told_in_order(n):
    number = n.begin("""
        from IPython.display import display, HTML
        print('one')
        display(HTML('<b>two</b>'))
        print('three', end='')
        display({'text/plain': 'four', 'image/png': b'\\x89PNG'}, raw=True)
        print('five')
        'six'
        """)
    answer = n.wait(number)
    said = [(name, about[1] if name == "output" else about["data"]) for name, about in n.events(number) if name != "begin"]
    assert said[0] == ("output", b"one\n") and said[1][0] == "display" and said[1][1]["text/html"] == b"<b>two</b>", said
    assert said[2] == ("output", b"three") and said[3] == ("display", {"text/plain": b"four", "image/png": b"\x89PNG"}), said
    assert said[4:] == [("output", b"five\n"), ("display", {"text/plain": b"'six'"})], said
    assert answer["displays"] == [] and answer["stdout"] == b"one\nthreefive\n", "displays were told, output is in the answer too"
    assert n.events(number)[0] == ("begin", {"context": "c", "executionCount": 1})
    assert [about["isResult"] for name, about in n.events(number) if name == "display"] == [False, False, True]
    again = n.run("for i in range(3): display(i)\nprint(end='x')\n4")
    assert [(d["data"]["text/plain"], d["isResult"]) for d in again["displays"]] == [(b"0", False), (b"1", False), (b"2", False), (b"4", True)]


def displays_are_updated_and_cleared(n):
    n.run("from IPython.display import display, clear_output")
    answer = n.run("h = display('a', display_id='mine')\nh.update('b')\ndisplay('c', display_id=True)\ndisplay('d');")
    first, second, third, fourth = answer["displays"]
    assert first["displayId"] == second["displayId"] == "mine" and not first["isUpdate"] and second["isUpdate"], answer
    assert third["displayId"] not in (None, "mine") and "displayId" not in fourth and "isUpdate" not in fourth
    number = n.begin("h.update('later')")
    n.wait(number)
    assert [(about["displayId"], about["isUpdate"]) for name, about in n.events(number) if name == "display"] == [("mine", True)], "from another cell too"
    number = n.begin("display(1)\nclear_output()\ndisplay(2)\nclear_output(wait=True)\ndisplay(3)")
    n.wait(number)
    said = [about["wait"] if name == "clear" else about["data"]["text/plain"] for name, about in n.events(number) if name in ("clear", "display")]
    assert said == [b"1", False, b"2", True, b"3"], said
    kept = lambda code: [d["data"]["text/plain"] for d in n.run(code)["displays"]]
    assert kept("display(1)\nclear_output()\ndisplay(2)") == [b"2"] and kept("display(1)\nclear_output()") == []
    assert kept("display(1)\nclear_output(wait=True)\ndisplay(2)") == [b"2"]
    assert kept("display(1)\nclear_output(wait=True)") == [b"1"], "nothing came in its place"


def figures_and_tables(n):
    answer = n.run("""
        import pandas as pd, matplotlib.pyplot as plt
        plt.plot([1, 2, 3], [4, 5, 6], label='a')
        plt.title('Title')
        plt.show()
        pd.DataFrame({'a': [1, 2]})
        """)
    figure, table = answer["displays"]
    assert figure["data"]["image/png"].startswith(b"\x89PNG") and not figure["isResult"], figure["data"].keys()
    chart = figure["data"]["application/vnd.cloche.chart+json"]
    assert chart["type"] == "line" and chart["title"] == "Title" and chart["elements"][0]["points"] == [[1, 4], [2, 5], [3, 6]], chart
    assert b"<table" in table["data"]["text/html"] and b"a" in table["data"]["text/plain"] and table["isResult"]
    number = n.begin("plt.plot([1])\nplt.show()")
    n.wait(number)
    assert [about["data"]["image/png"][:4] for name, about in n.events(number) if name == "display"] == [b"\x89PNG"]


def large_displays(n):
    n.run("from IPython.display import display\nshow = lambda size: display({'image/png': bytes([size % 251]) * size, 'text/plain': 'p'}, raw=True)")
    answer = n.run("for i in range(6): show(7_000_000 + i)")
    assert [len(d["data"]["image/png"]) for d in answer["displays"]] == [7000000 + i for i in range(4)] and answer["displaysDropped"] == 2, answer["displaysDropped"]
    assert all(d["data"]["image/png"] == bytes([(7000000 + i) % 251]) * (7000000 + i) for i, d in enumerate(answer["displays"])), "each has its own bytes"
    assert len(n.run("show(10)")["displays"]) == 1, "the next cell has all its room"
    number = n.begin("for i in range(6): show(7_000_000 + i)")
    assert n.wait(number)["displaysDropped"] == 0
    assert [len(about["data"]["image/png"]) for name, about in n.events(number) if name == "display"] == [7000000 + i for i in range(6)], "told are all"
    display = n.run("show(9_000_000)")["displays"][0]
    stored = display["metadata"]["stored"]
    assert "image/png" not in display["data"] and stored["mime"] == "image/png" and stored["bytes"] == 9000000, display
    content = bytes_of(n.call("file.read", path=stored["path"])["content"], n.frames.attachments)
    assert content == bytes([9000000 % 251]) * 9000000


# -- slow readers --------------------------------------------------------------------------------------------------

WAIT = """
import os, sys, time
def wait_for(name):
    while not os.path.exists('/workspace/' + name):
        time.sleep(0.01)
"""


def a_held_request_loses_nothing(n):
    n.run(WAIT)
    number = n.begin("""
        from IPython.display import display
        print('begun')
        wait_for('go')
        for i in range(40):
            sys.stdout.write('%07d\\n' % i * 12500)
            display(i)
        print('end')
        """)
    n.until_printed(number, b"begun")
    assert n.frames.call("hold", id=number, hold=True) == {"found": True}
    n.call("file.write", path="go", content="")
    assert n.value("1 + 1", "other") == "2", "others go on meanwhile"
    n.until_printed(number, b"0000000\n")  # pending output is sent, then no more
    held = -1
    while held != len(n.printed(number)):
        held = len(n.printed(number))
        for _ in range(5):
            n.call("context.list")
            time.sleep(0.05)
    assert n.get()["state"] == "busy" and len(n.printed(number)) == held < 300000, "and the cell waits"
    assert n.frames.call("hold", id=number, hold=False) == {"found": True}
    answer = n.wait(number)
    expected = b"begun\n" + b"".join(b"%07d\n" % i * 12500 for i in range(40)) + b"end\n"
    assert n.printed(number) == expected and answer["stdoutBytes"] == len(expected) and answer["status"] == "ok"
    assert [about["data"]["text/plain"] for name, about in n.events(number) if name == "display"] == [b"%d" % i for i in range(40)]
    assert n.run("print('x' * 500000)")["stdoutBytes"] == 500001, "the next one is heard as ever"


def who_is_held_is_given_up(n):
    n.run(WAIT)
    for code in ("print('begun')\nwait_for('go')\nprint('x' * 300000)", "print('begun')\nwait_for('go')\nprint('end')"):
        number = n.begin(code)
        n.until_printed(number, b"begun")
        n.frames.call("hold", id=number, hold=True)
        n.call("file.write", path="go", content="")
        n.call("context.list")
        assert n.cancel(number) == "cancelled"
        after = n.run("print('y' * 300000)")
        assert after["stdout"] == b"y" * 300000 + b"\n", (after["status"], after.get("error"), len(after["stdout"]), after["stdout"].count(b"x"))
        n.call("file.remove", path="go")


def first_process(namespace):
    """The pid of the process that is 1 in this pid namespace."""
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink(f"/proc/{name}/ns/pid") == namespace and re.search(r"^NSpid:.*\t1$", open(f"/proc/{name}/status").read(), re.MULTILINE):
                return int(name)
        except OSError:
            pass
    raise AssertionError(f"no process is 1 in {namespace}")


def a_late_signal_does_not_interrupt_the_next_cell(n):
    """PID 1 of the box delivers the signal; it is stopped until the cancelled cell has ended on its own."""
    n.run(WAIT)
    pid = first_process(n.value("os.readlink('/proc/self/ns/pid')").strip("'"))
    number = n.begin("print('begun')\nwait_for('go')\nopen('/workspace/gone', 'w').close()")
    n.until_printed(number, b"begun")
    os.kill(pid, signal.SIGSTOP)
    try:
        assert n.cancel(number) == "cancelled"
        n.call("file.write", path="go", content="")
        wait_for(lambda: "gone" in n.shell("ls"))
        after = n.ask("open('/workspace/after', 'w').close()\nwait_for('more')\nprint('whole')")
        time.sleep(0.2)
    finally:
        os.kill(pid, signal.SIGCONT)
    wait_for(lambda: "after" in n.shell("ls"))
    time.sleep(0.2)
    n.call("file.write", path="more", content="")
    answer = n.wait(after)
    assert answer["stdout"] == b"whole\n" and answer["status"] == "ok", answer


def test_cells():
    together(made_found_and_deleted, refused, results_and_counts, errors, completions_and_variables, bytes_stay_what_they_are, much_output_is_read_in_pages,
             what_is_printed_between_cells_belongs_to_the_next, displays_and_output_are_told_in_order, displays_are_updated_and_cleared, figures_and_tables, large_displays,
             a_held_request_loses_nothing, who_is_held_is_given_up, a_late_signal_does_not_interrupt_the_next_cell, has_packages=True)
