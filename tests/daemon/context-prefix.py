#!/usr/bin/python3
"""Contexts from a caller's prefix: cells see all that its set-up made, and are in all else as in
other contexts; only the prefix's owner can name it. Each language: context-languages.py."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from context_cells import Frames, Notebook, QuickFrames, together
from hostile_sandboxes import OTHER_UID, as_another
from http_client import Http

TIMEOUT = 120

def prefix(n, language, code, **more):
    return n.frames.call("prefix.create", language=language, code=code, filename="set-up", **more)["prefix"]


CELLS = ("1 + 1", "_ * 4", "Out[1], In[1], len(In)", "print('out'); import sys; print('err', file=sys.stderr)", "1 / 0", "def f():\n    return g()\nf()",
         "x = (", "display({'a': 1}); [1, 2]", "!echo $((6 * 7))", "%%timeit -q -n1 -r1\npass", "import pandas\npandas.DataFrame({'a': [1, 2]})",
         "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])", "import asyncio\nawait asyncio.sleep(0, 'slept')", "__name__, '__file__' in globals()", "input()", "exit()")
SHOWN = ("status", "stdout", "stderr", "displays", "error", "executionCount", "ended")


def as_in_a_plain_context(n):
    """Each cell's answer is the same with a set-up as without."""
    prefix(n, "python", "held = 1", name="plain")
    n.create("with", prefix="plain")
    n.create("without")
    for code in CELLS:
        one, other = ({name: n.run(code, context).get(name) for name in SHOWN} for context in ("with", "without"))
        assert one == other, (code, one, other)
    assert n.value("held", "with") == "1" and n.error("held", "without") == "NameError"
    assert "held" in n.prints("%who", "with").split(), "a name of the set-up is one of the user's"
    assert "held" in n.call("context.complete", context="with", code="hel")["matches"]


def all_that_it_made(n):
    """Modules, loaded data, environment, a top-level await; a hook of the set-up's sees cells only."""
    prefix(n, "python", """
import asyncio, os, sys, types
data = bytearray(8 << 20)
data[-1] = 7
made = types.ModuleType('made')
made.answer = 42
sys.modules['made'] = made
os.environ['SET_UP'] = 'yes'
slept = await asyncio.sleep(0, 'slept')
cells = []
if 'IPython' in sys.modules:
    sys.modules['IPython'].get_ipython().events.register('pre_run_cell', lambda info: cells.append(info.raw_cell))
""", name="all")
    n.create(prefix="all", env={"OWN": "1"}, cwd="/workspace/below")
    assert n.value("import os, made; data[-1], len(data), made.answer, os.environ['SET_UP'], os.environ['OWN'], slept, os.getcwd()") == \
        "(7, 8388608, 42, 'yes', '1', 'slept', '/workspace/below')"
    assert n.value("len(cells)") == "2", "of two cells, and no rehearsal"
    n.call("file.write", path="/workspace/below/f", content="shared")
    assert n.value("open('f').read()") == "'shared'", "the files are the sandbox's"


def forks(n):
    for language, count, more in (("python", "len(list_)", "list_.append(4)"), ("javascript", "list.length", "list.push(4)")):
        prefix(n, language, "list_ = [1, 2, 3]" if language == "python" else "const list = [1, 2, 3]", name=f"f-{language}")
        n.create(language, prefix=f"f-{language}", forkable=True)
        n.run(more, language)
        copy = n.call("context.fork", context=language)["contexts"][0]
        assert copy["forkedFrom"] == language and copy["prefix"] == f"f-{language}", copy
        assert n.value(count, copy["context"]) == "4"
        n.run(more, copy["context"])
        assert n.value(count, language) == "4" and n.value(count, copy["context"]) == "5"
        n.call("context.checkpoint", context=language, checkpoint="k")
        n.run(more, language)
        n.call("context.rollback", context=language, checkpoint="k")
        assert n.value(count, language) == "4"


def host_functions(n):
    """They answer runs; a cell gets an error that says why, and the context lives."""
    declared = {"lookup": {"kind": "function"}}
    prefix(n, "python", "def ask(): return lookup(1)", name="asks", globals=declared)
    n.frames.host[("global", "lookup")] = lambda number: number + 1
    assert n.frames.call("call", language="python", code="ask()", prefix="asks")["result"] == 2
    n.create(prefix="asks")
    error = n.run("ask()")["error"]
    assert error["message"].startswith('lookup is a host function of the prefix "asks", and answers runs only'), error
    n.run("""
import os, threading, time
def later():
    while not os.path.exists('/workspace/go'):
        time.sleep(0.01)
    try:
        ask()
    except Exception as error:
        told.append(str(error))
told = []
thread = threading.Thread(target=later)
thread.start()
""")
    n.call("file.write", path="go", content="")
    assert n.value("thread.join(); told[0][:25]") == "'lookup is a host function'", "also between cells"
    prefix(n, "javascript", "let held = 1", name="asks-js", globals=declared)
    n.create("js", prefix="asks-js")
    assert "answers runs only" in n.run("await lookup(1)", "js")["error"]["message"] and n.value("held", "js") == "1"


def refusals(n):
    prefix(n, "python", "x = 1", name="mine")
    prefix(n, "javascript", "globalThis.x = 1", name="bare", bare=True)
    prefix(n, "c", "int x = 1;", name="c")
    for params, name, text in (({"prefix": "none"}, "not_found", 'there is no prefix "none"'), ({"prefix": "bare"}, "invalid_argument", "bare"),
                               ({"prefix": "c"}, "unknown_language", '"c"'), ({"prefix": "mine", "language": "ruby"}, "invalid_argument", "leave the language out"),
                               ({"prefix": "m" * 70}, "not_found", "there is no prefix")):
        failed = n.refused("context.create", context="x", **params)
        assert failed.name == name and text in failed.message, (params, failed.name, failed.message)
    assert n.call("context.list") == {"contexts": []}, "none is left"
    n.create("x", prefix="mine")
    assert n.create("x", prefix="mine")["created"] is False and n.create("x")["prefix"] == "mine"
    untitled = prefix(n, "python", "x = 2")
    assert n.create("z", prefix=prefix(n, "python", "x = 2", title="mine"))["prefix"] == "mine"
    assert n.create("z", prefix=prefix(n, "python", "x = 2", title="mine"))["created"] is False
    for other, text in ((untitled, "of the prefix"), (prefix(n, "python", "x = 3", title="mine"), "of an earlier set-up")):
        failed = n.refused("context.create", context="z", prefix=other)
        assert failed.name == "invalid_state" and text in failed.message, failed.message
    for more, text in (({"title": "a b"}, "title must be"), ({"title": "a", "name": "b"}, "exclude each other")):
        failed = n.frames.refused("prefix.create", language="python", code="x = 1", **more)
        assert failed.name == "invalid_argument" and text in failed.message, failed.message
    n.create("y")
    for context in ("x", "y"):
        failed = n.refused("context.create", context=context, prefix="other" if context == "x" else "mine")
        assert failed.name == "invalid_state" and "use another name" in failed.message, failed.message


def set_ups_that_fail_here(n):
    """In the prefix it ended well; where contexts are forked it does not: one error, which names the prefix."""
    for name, code, text in (("raises", "raise RuntimeError('not here')", "RuntimeError: not here"), ("dies", "import os; os._exit(3)", "ended")):
        prefix(n, "python", f"import sys\nif 'IPython' in sys.modules:\n    {code}", name=name)
        for _ in range(2):
            failed = n.refused("context.create", context="x", prefix=name)
            assert f'the set-up of the prefix "{name}", in a context' in failed.message and text in failed.message, failed.message
    for name, code in (("ends", "os._exit(9)"), ("fails", "1 / 0")):
        prefix(n, "python", f"import os, sys\nif 'IPython' in sys.modules:\n    os.fork = lambda: {code}", name=name)
        for _ in range(4):  # more often than a template is started anew
            failed = n.refused("context.create", context="x", prefix=name)
            assert f'forked from the prefix "{name}"' in failed.message, failed.message
    assert n.call("context.list") == {"contexts": []}
    n.is_well()


def owners(n):
    """Others get the answer for a name that does not exist: another connection for a prefix without a name, another user for any."""
    prefix(n, "python", "secret = 1", name="named")
    unnamed = prefix(n, "python", "secret = 2")
    n.create("mine", prefix=unnamed)
    assert n.value("secret", "mine") == "2"

    def asks(frames, name):
        failed = frames.refused("context.create", sandbox=n.sandbox, context="x", prefix=name)
        return failed.name, failed.message.replace(name, "NAME")
    with Frames(n.daemon.connect()) as same_user:
        assert asks(same_user, unnamed) == asks(same_user, "nothing")
        assert same_user.call("context.create", sandbox=n.sandbox, context="theirs", prefix="named")["created"]
    with Http(n.daemon.connect()) as http:
        assert http.post(n.path + "/context/create", prefix=unnamed)[0] == 404
        status, made = http.post(n.path + "/context/create", prefix="named")
        assert status == 201 and made["prefix"] == "named", made
    connection = as_another(n.daemon) if os.geteuid() == 0 else None
    if connection:
        with Frames(connection) as other:
            assert asks(other, "named") == asks(other, unnamed) == asks(other, "nothing")


def netlink(n):
    """Refused to a set-up from which contexts are forked, for these may be templates themselves; a run of the prefix has it."""
    tries = "try:\n    socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()\n    told = 'open'\nexcept OSError as error:\n    told = error.strerror\n"
    prefix(n, "python", "import socket\n" + tries, name="netlink")
    n.create(prefix="netlink")
    assert n.value("told") == n.prints(tries + "print(repr(told))").strip() == "'Operation not permitted'"
    assert n.frames.call("call", language="python", code="return told", prefix="netlink")["result"] == "open"
    assert n.frames.call("call", language="python", code=tries + "return told", prefix="netlink")["result"] == "open"


def modules(n):
    """All names of a module, where runs of its prefix see the exported ones."""
    prefix(n, "javascript", "import path, { join } from 'node:path'\nlet count = 1\nexport const add = () => ++count\nexport default class Box {}", name="module")
    n.create("js", prefix="module")
    assert n.prints("add(); console.log(count, join('a', 'b'), path.sep, new Box())", "js") == "2 a/b / Box {}\n"
    prefix(n, "javascript", "const display = 'own', _ = 'kept'\nlet a = 1, b = 2, f = 3", name="names")
    n.create("names", prefix="names")
    assert n.prints("console.log(display, _, a, b, f)", "names") == "own kept 1 2 3\n", "names that the agent or its rehearsals use"
    assert n.value("40 + 2", "names") == "42" and n.prints("console.log(_)", "names") == "kept\n"
    assert n.run("path = 1", "js")["error"]["name"] == "TypeError", "an import is constant, as one of a cell is"


def connections_that_end(n):
    """Their prefixes go with them; contexts of these stay."""
    with QuickFrames(n.daemon.connect()) as frames:
        gone = Notebook(n.daemon, frames, n.sandbox)
        gone.create(prefix=prefix(gone, "python", "x = [1]"))
    n.known.add("c")
    assert n.frames.call("prefix.list") == {"prefixes": []}
    assert n.value("x.append(2); x") == "[1, 2]"
    n.call("context.restart", context="c")
    assert n.value("x") == "[1]"


def test_prefixes():
    together(connections_that_end, as_in_a_plain_context, all_that_it_made, forks, host_functions, refusals, set_ups_that_fail_here, owners, netlink, modules, options=("--allow-uid", str(OTHER_UID)), has_packages=True)
