#!/usr/bin/python3
"""Contexts forked from live ones, checkpoints, and going back to them."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from context_cells import together
from hostile_sandboxes import Host

TIMEOUT = 120
WAIT = "import os, time\ndef wait_for(name):\n    while not os.path.exists('/workspace/' + name): time.sleep(0.01)\n"


def fork(n, context="c", **more):
    names = [made["context"] for made in n.call("context.fork", context=context, **more)["contexts"]]
    n.known.update(names)
    return names


def copies_have_everything_and_go_their_own_way(n):
    n.create(forkable=True, env={"WORD": "kept"})
    assert n.get()["forkable"] is True
    n.run("import os, random\nx = ['c']\nos.mkdir('sub')\nos.chdir('sub')\nopen('f', 'w').write('of c')\nopen('/tmp/f', 'w').write('of c')")
    n.create("other")
    n.delete("other")
    one, two = fork(n, count=2)
    assert (one, two) == ("c-fork-1", "c-fork-2"), (one, two)
    for name in (one, two):
        made = n.get(name)
        assert made["forkedFrom"] == "c" and made["state"] == "idle" and made["executionCount"] == 1 and made["language"] == "python" and made["forkable"] is False, made
        assert n.value("x, os.getcwd(), open('f').read(), os.environ['WORD'], In[1][:6]", name) == "(['c'], '/workspace/sub', 'of c', 'kept', 'import')"
    assert n.run("x.append('one'); open('f', 'w').write('of one')", one)["executionCount"] == 3
    counts = [[entry["count"] for entry in n.call("context.history", context=name)["entries"]] for name in ("c", one, two)]
    assert counts == [[1], [1, 2, 3], [1, 2]], counts
    assert [n.value("x, open('/workspace/sub/f').read()", name) for name in ("c", one, two)] == ["(['c'], 'of c')", "(['c', 'one'], 'of one')", "(['c'], 'of c')"]
    assert n.shell("cat /workspace/sub/f") == "of c" and n.value("os.path.exists('/tmp/f')", one) == "False", "the sandbox's files are the original's; a copy is of /workspace"
    n.call("file.write", path="later", content="x")
    assert n.value("os.path.exists('/workspace/later')", one) == "False" and n.value("os.path.exists('/workspace/later')") == "True"
    assert len({n.value("random.random()", name) for name in ("c", one, two)}) == 3, "chance is not the same"
    assert [c["context"] for c in n.call("context.list")["contexts"]] == ["c", one, two]
    number = n.begin("input('who? ')", two, input=True)
    n.call("context.input", context=two, input=n.until(number, "input")["input"], value="me")
    n.wait(number)
    assert [about["data"]["text/plain"] for name, about in n.events(number) if name == "display"] == [b"'me'"]


def copies_of_copies_outlive_the_original(n):
    n.create(forkable=True)
    n.run("import os\nx = 1")
    child, = fork(n, forkable=True)
    grandchild, = fork(n, child, forkable=True)
    last, = fork(n, grandchild)
    assert n.get(last)["forkedFrom"] == grandchild and n.value("x", last) == "1"
    n.delete()
    assert n.value("x + 1", child) == "2" and n.refused("context.get", context="c").name == "not_found"
    assert n.run("os._exit(3)", child)["ended"] and n.value("x + 2", grandchild) == "3"
    more, = fork(n, grandchild)
    assert n.value("x + 3", more) == "4"
    assert n.run("x + 4", child, restart=True)["status"] == "error", "begun anew it has nothing"
    n.call("sandbox.stop")
    assert n.call("context.list") == {"contexts": []}


def what_cannot_be_forked(n):
    n.create("plain")
    for method in ("context.fork", "context.checkpoint"):
        error = n.refused(method, context="plain")
        assert error.name == "invalid_state" and "forkable" in error.message, error.message
        assert n.refused(method, context="none").name == "not_found"
    n.create(forkable=True)
    for count in (0, 101):
        assert n.refused("context.fork", context="c", count=count).name == "invalid_argument", count
    for begin, end, word in (("import threading\nstop = threading.Event()\nt = threading.Thread(target=stop.wait)\nt.start()", "stop.set(); t.join()", "thread"),
                             ("import subprocess\nchild = subprocess.Popen(['sleep', '1000'])", "child.kill(); child.wait()", "child"),
                             ("opened = open('/workspace/open', 'w')", "opened.close()", "open")):
        n.run(begin)
        error = n.refused("context.fork", context="c")
        assert error.name == "invalid_state" and word in error.message, (begin, error.name, error.message)
        assert n.run(end)["status"] == "ok" and len(n.call("context.list")["contexts"]) == 2, "it goes on as it was, and nothing was made"
        n.delete(*fork(n))
    n.run("import os; os._exit(0)")
    assert n.refused("context.fork", context="c").name == n.refused("context.checkpoint", context="c").name == "context_ended"


def forks_wait_for_the_cells_before(n):
    n.create(forkable=True)
    n.run(WAIT)
    first = n.begin("print('go')\nwait_for('go')\nx = 'first'")
    n.until_printed(first, b"go")
    forked = n.frames.ask("context.fork", sandbox=n.sandbox, context="c")
    second = n.ask("x = 'second'")
    n.call("file.write", path="go", content="")
    n.wait(first)
    name = n.frames.wait(forked)["contexts"][0]["context"]
    n.known.add(name)
    n.wait(second)
    assert n.value("x", name) == "'first'" and n.value("x") == "'second'"
    first = n.begin("print('go')\nwait_for('more')")
    n.until_printed(first, b"go")
    forked = n.frames.ask("context.fork", sandbox=n.sandbox, context="c")
    n.call("context.list")
    assert n.cancel(forked) == "cancelled" and n.cancel(first) == "cancelled"
    assert n.value("x") == "'second'" and len(n.call("context.list")["contexts"]) == 2


def back_to_a_checkpoint(n):
    n.create(forkable=True)
    assert n.refused("context.rollback", context="c").name == "not_found" and n.call("context.checkpoints", context="c") == {"checkpoints": []}
    n.run("x = 1\nopen('/workspace/f', 'w').write('one')")
    kept = n.call("context.checkpoint", context="c", checkpoint="k")
    assert kept["checkpoint"] == "k" and kept["executionCount"] == 1 and kept["files"] is True and n.get()["checkpoints"] == 1, kept
    for _ in range(2):
        n.run("x = 2\nopen('/workspace/f', 'w').write('two')\nopen('/workspace/new', 'w').close()")
        back = n.call("context.rollback", context="c")
        assert back["executionCount"] == 1 and back["checkpoints"] == 1 and back["context"] == "c", back
        assert n.value("x, open('/workspace/f').read()") == "(1, 'one')" and n.shell("ls /workspace; cat /workspace/f") == "f\none", "the sandbox's files too"
    n.run("x = 3\nopen('/workspace/f', 'w').write('three')")
    unnamed = n.call("context.checkpoint", context="c", files=False)
    assert unnamed["checkpoint"] == "checkpoint-1", unnamed
    assert unnamed["files"] is False and [k["checkpoint"] for k in n.call("context.checkpoints", context="c")["checkpoints"]] == ["k", unnamed["checkpoint"]]
    n.run("x = 4\nopen('/workspace/f', 'w').write('four')")
    n.call("context.rollback", context="c")
    assert n.value("x, open('/workspace/f').read()") == "(3, 'four')", "the newest, without files"
    n.call("context.rollback", context="c", checkpoint="k")
    assert n.value("x, open('/workspace/f').read()") == "(1, 'one')"
    n.run("x = 5")
    n.call("context.checkpoint", context="c", checkpoint="k")
    n.run("x = 6")
    n.call("context.rollback", context="c", checkpoint="k")
    assert n.value("x") == "5", "one of that name gave way"
    n.run("import os; os._exit(3)")
    assert n.call("context.rollback", context="c", checkpoint="k")["state"] == "idle" and n.value("x") == "5", "also out of the interpreter's death"
    assert n.call("context.forget", context="c", checkpoint="k") == {"checkpoint": "k"}
    for method in ("context.forget", "context.rollback"):
        assert n.refused(method, context="c", checkpoint="k").name == "not_found", method
    assert n.value("x") == "5" and n.get()["checkpoints"] == 1
    n.delete()


def nothing_is_left(n):
    n.shell("true")
    n.create("first", forkable=True), n.delete("first")
    host = Host(n.daemon)
    before = host.now()
    for end in ("delete each", "delete the original", "sandbox.stop"):
        n.create(forkable=True)
        n.run("x = 1")
        names = fork(n, count=3, forkable=True)
        n.call("context.checkpoint", context="c")
        n.call("context.checkpoint", context=names[0])
        fork(n, names[0])
        n.call("context.rollback", context="c")
        assert n.value("x") == "1"
        if end == "sandbox.stop":
            n.call("sandbox.stop")
            n.shell("true")
        else:
            for context in [c["context"] for c in n.call("context.list")["contexts"]][::-1 if end == "delete each" else 1]:
                n.delete(context)
    host.comes_back_to(before)


def test_branches():
    together(copies_have_everything_and_go_their_own_way, copies_of_copies_outlive_the_original, what_cannot_be_forked, forks_wait_for_the_cells_before, back_to_a_checkpoint,
             nothing_is_left)
