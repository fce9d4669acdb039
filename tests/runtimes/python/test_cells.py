"""Cells in a context: their view, displays, output and input, and their failures."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from contexts import Context, SharedCase, needs_libraries
from harness import PYTHON, RUNTIME


class Namespace(SharedCase):
    def test_variables_stay(self):
        self.assertEqual(self.run_cell("x = 20\ndef f(a): return a + x"), [])
        self.assertEqual(self.text("f(1)"), "21")
        self.assertEqual(self.text("__name__, f.__module__"), "('__main__', '__main__')")

    def test_earlier_inputs_and_results(self):
        self.run_cell("40 + 2")
        self.run_cell("'b'")
        self.assertEqual(self.text("_, __, Out[1], In[1], _i"), "('b', 42, 42, '40 + 2', \"'b'\")")

    def test_many_results_are_dropped_without_a_word(self):
        self.own_context()
        for _ in range(1005):
            self.context.cell("1")
        self.assertEqual(self.text("len(Out) < 1000, Out[1000]"), "(True, 1)")
        self.assertEqual(self.context.end()[2], "")

    def test_what_breaks_the_library_is_an_error_of_the_cell(self):
        self.own_context()
        self.run_cell("import builtins\nkept = builtins.isinstance\ndel builtins.isinstance")
        self.assertIn("status", self.context.cell("1"))
        self.assertIn("status", self.context.cell("builtins.isinstance = kept"))

    def test_futures_stay(self):
        self.own_context()
        self.run_cell("from __future__ import annotations")
        self.assertEqual(self.text("def f(a: nowhere): pass\nf.__annotations__"), "{'a': 'nowhere'}")

    def test_classes_pickle_and_show_their_source(self):
        self.run_cell("import pickle, inspect\nclass A:\n    x = 1\ndef f():\n    return 2")
        self.assertEqual(self.text("type(pickle.loads(pickle.dumps(A()))) is A"), "True")
        self.assertEqual(self.text("inspect.getsource(f)"), repr("def f():\n    return 2\n"))

    def test_no_name_of_the_agent(self):
        self.own_context()
        # Later IPythons have an `open` of their own there.
        self.assertEqual(self.text("sorted(n for n in globals() if n[0] != '_' and n != 'open')"), "['In', 'Out', 'exit', 'get_ipython', 'quit']")
        self.assertEqual(self.text("try:\n    cells\nexcept NameError:\n    pass\n'no'"), "'no'")

    def test_place_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            context = Context()
            self.addCleanup(context.end)
            where = os.path.join(folder, "a", "b")
            context.opened(cwd=where, env={"COLOUR": "blue"})
            pathlib.Path(where, "mine.py").write_text("x = 5")
            context.cell("import os, mine\n(os.getcwd(), os.environ['COLOUR'], mine.x)")
            self.assertEqual(context.displays[0]["data"]["text/plain"], repr((where, "blue", 5)))

    def test_limits_and_traces_that_a_cell_sets_stay(self):
        self.own_context()
        self.run_cell("import sys\nsys.setrecursionlimit(3000)\nsys.setprofile(len_of := (lambda *a: None))")
        self.assertEqual(self.text("sys.getrecursionlimit(), sys.getprofile() is len_of"), "(3000, True)")
        self.run_cell("sys.setprofile(None)")
        self.assertEqual(self.text("sys.getprofile()" + " is None"), "True")

    def test_silent(self):
        self.run_cell("7")
        self.assertEqual(self.run_cell("8", silent=True), [])
        self.assertEqual(self.run_cell("display(9)", silent=True)[0]["data"], {"text/plain": "9"})
        self.assertEqual(self.text("_"), "7")


class Syntax(SharedCase):
    def test_the_last_expression(self):
        self.assertEqual(self.run_cell("1 + 1")[0], {"data": {"text/plain": "2"}, "metadata": {}, "isResult": True})
        for code in ("x = 1", "None", "5;", "5  ;  # kept back", "for i in range(2):\n    i", "", "# nothing", "\n\n"):
            self.assertEqual(self.run_cell(code), [], code)
        self.assertEqual(self.text("x = 3; x"), "3")
        self.assertEqual(self.text("';'"), "';'")
        self.assertEqual(self.text("'ü'; 'é;'"), "'é;'")

    def test_top_level_await(self):
        self.run_cell("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x")
        self.assertEqual(self.text("await f(5)"), "5")
        self.assertEqual(self.text("async with asyncio.Lock():\n    y = await f(6)\ny"), "6")
        self.assertEqual(self.text("asyncio.run(f(7))"), "7")
        self.assertEqual(self.text("await f(8)"), "8")

    def test_tasks_go_on_between_cells(self):
        self.own_context()
        self.run_cell("import asyncio\nasync def f():\n    await asyncio.sleep(0.05)\n    print('ran')\ntask = asyncio.create_task(f())\n"
                      "await asyncio.sleep(0)")
        self.assertEqual(self.context.printed("ran"), "ran\n")
        self.assertEqual(self.text("await task\ntask.done()"), "True")

    def test_a_task_that_exits_ends_nothing(self):
        self.run_until_answered("import asyncio, os, sys\nasync def f():\n    while not os.path.exists(GO): await asyncio.sleep(0.001)\n    sys.exit(3)\n"
                                "t = asyncio.create_task(f())\nawait asyncio.sleep(0)")
        self.context.printed("a task ended with SystemExit: 3", "stderr")
        self.assertEqual(self.text("1"), "1")

    def test_magics(self):
        self.assertIn("Wall time", self.printed_by("%time x = 5"))
        self.assertEqual(self.text("x"), "5")
        self.assertIn("Signature: len(obj, /)", self.printed_by("len?"))
        self.assertEqual(self.text("%%time\n3 + 4"), "7")
        self.assertEqual(self.run_cell("%cd -q /"), [])
        self.assertEqual(self.text("%pwd"), "'/'")
        self.assertEqual(self.text("pwd"), "'/'")
        self.assertEqual(self.text("pwd = 1\npwd"), "1")
        self.assertEqual(self.text("pwd"), "1")
        self.run_cell("%%capture kept\nprint('inside')")
        self.assertEqual(self.text("kept.stdout"), repr("inside\n"))

    def test_an_unknown_magic(self):
        error = self.error("%nosuch")
        self.assertEqual((error["name"], error["message"]), ("UsageError", "Line magic function `%nosuch` not found."))

    def test_commands(self):
        self.own_context()
        self.assertEqual(self.run_cell("!echo out; echo err >&2; exit 3"), [])
        self.assertEqual(self.context.printed("out\n"), "out\n")
        self.assertEqual(self.context.printed("err\n", "stderr"), "err\n")
        self.assertEqual(self.text("_exit_code"), "3")
        self.assertEqual(self.text("who = 'me'\nlines = !echo a; echo $who\nlines"), "['a', 'me']")
        self.run_cell("%%bash\necho from bash")
        self.assertEqual(self.context.printed("bash\n"), "from bash\n")

    def test_a_command_is_heard_while_it_runs(self):
        with tempfile.TemporaryDirectory() as folder:
            self.context.begin("!echo one; while [ ! -e %s/go ]; do sleep 0.01; done; echo two" % folder)
            self.assertEqual(self.context.printed("one\n"), "one\n")
            pathlib.Path(folder, "go").touch()
            self.assertEqual(self.context.finish(), {"status": "ok"})
            self.assertEqual(self.context.printed("two\n"), "two\n")


PARTS_OF_IPYTHON = """
import sys
space = {"__name__": "lazy"}
exec(open(sys.argv[1]).read(), space)
assert space["import_ipython"]() is space["import_ipython"]() is sys.modules["IPython"]
import IPython
from IPython.core import completer

assert not {"IPython.terminal.embed", "prompt_toolkit", "jedi", "jedi.settings"} & set(sys.modules)
assert not hasattr(IPython, "nowhere") and completer.JEDI_INSTALLED
assert IPython.embed is IPython.embed and IPython.embed.__module__ == "IPython.terminal.embed"
assert "prompt_toolkit" in sys.modules and IPython.terminal.debugger and "__getattr__" not in vars(IPython)
finders = len(sys.meta_path)
if sys.argv[2] == "completer":
    assert completer.jedi.Interpreter("imp", [{}]).complete(1, 3)[0].name == "import"
    assert completer.jedi is sys.modules["jedi"]
import jedi
assert jedi.settings.case_insensitive_completion is False and len(sys.meta_path) == finders - 1
"""


@needs_libraries
class PartsOfIPython(unittest.TestCase):
    def test_they_are_loaded_when_they_are_named(self):
        for who in ("completer", "user"):
            done = subprocess.run([PYTHON, "-c", PARTS_OF_IPYTHON, str(RUNTIME / "lazy.py"), who], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))


class Output(SharedCase):
    def test_a_print_is_seen_at_once(self):
        self.own_context()
        self.context.begin("print('a', 'b', end='')\ninput()")
        message, _ = self.context.next()
        self.assertEqual(message["method"], "input")
        self.assertEqual(os.read(self.context.agent.process.stdout.fileno(), 100), b"a b")
        self.context.answer_input(message["id"], "")
        self.context.finish()

    def test_order_of_streams(self):
        self.own_context()
        code = "import os, subprocess, ctypes, sys\nprint('1')\nos.write(1, b'2\\n')\nsubprocess.run(['echo', '3'])\n" \
               "ctypes.CDLL(None).printf(b'4\\n')\nsys.stdout.write('5')\n"
        self.run_cell(code + "print('6', file=sys.stderr)\nos.write(1, b'<end>')")
        text = self.context.printed("<end>") + (self.context.end()[1])
        self.assertEqual(text.replace("\n", ""), "123<end>54")

    def test_redirected(self):
        self.assertEqual(self.text("import io, contextlib\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n    print('x')\n"
                                   "f.getvalue()"), repr("x\n"))
        self.run_cell("class OnlyWrites:\n    def write(self, text): pass\nwith contextlib.redirect_stdout(OnlyWrites()):\n    print('x')")

    def test_threads_go_on(self):
        self.run_cell("import threading, time\ndef f():\n    time.sleep(0.05)\n    print('thread')\nthreading.Thread(target=f).start()")
        self.assertEqual(self.context.printed("thread\n"), "thread\n")

    def test_a_display_between_cells_is_printed(self):
        self.run_until_answered("import os, threading, time\ndef f():\n    while not os.path.exists(GO): time.sleep(0.001)\n    display('late')\n"
                                "threading.Thread(target=f).start()")
        self.assertEqual(self.context.printed("late'\n"), "'late'\n")
        self.assertEqual(self.text("1"), "1")

    def test_forked_children(self):
        self.run_cell("import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nelse:\n    display('child')\n    os._exit(0)")
        self.assertEqual(self.context.printed("child'"), "'child'\n")
        self.assertEqual(self.text("import multiprocessing\nwith multiprocessing.Pool(2) as p:\n    r = p.map(abs, [-1, -2])\nr"), "[1, 2]")


class Displays(SharedCase):
    def test_several_and_the_result(self):
        displays = self.run_cell("display('a')\ndisplay(1, 2)\n3")
        self.assertEqual([(d["data"]["text/plain"], d["isResult"]) for d in displays],
                         [("'a'", False), ("1", False), ("2", False), ("3", True)])

    def test_updates(self):
        self.run_cell("handle = display('a', display_id='spot')")
        self.assertEqual(self.context.displays[0]["displayId"], "spot")
        self.run_cell("handle.update('b')")
        self.assertEqual(self.context.displays[0],
                         {"data": {"text/plain": "'b'"}, "metadata": {}, "isResult": False, "displayId": "spot", "isUpdate": True})

    def test_json(self):
        self.assertEqual(self.shown("{'a': [1, 2.5, None, True, 'x']}"),
                         {"text/plain": "{'a': [1, 2.5, None, True, 'x']}", "application/json": {"a": [1, 2.5, None, True, "x"]}})
        for code in ("{1: 2}", "[float('nan')]", "[1 << 60]", "[{1}]", "[object]", "[0] * 20000", "x = []; x.append(x); x"):
            self.assertNotIn("application/json", self.shown(code), code)

    def test_kinds(self):
        self.run_cell("from IPython.display import *")
        for code, kind, value in [
            ("HTML('<b>')", "text/html", "<b>"), ("Markdown('# a')", "text/markdown", "# a"), ("Latex('$x$')", "text/latex", "$x$"),
            ("JSON({'a': [1]})", "application/json", {"a": [1]}), ("Javascript('1')", "application/javascript", "1"),
            ("Image(b'\\x89PNG\\r\\n\\x1a\\n12', format='png')", "image/png", b"\x89PNG\r\n\x1a\n12"),
            ("Image(b'\\xff\\xd8\\xff', format='jpeg')", "image/jpeg", b"\xff\xd8\xff"),
        ]:
            self.assertEqual(self.shown(code)[kind], value, code)
        self.assertIn("<svg", self.shown("SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')")["image/svg+xml"])

    def test_methods_of_classes(self):
        self.run_cell("class A:\n    def _repr_html_(self): return '<i>'\n    def _repr_png_(self): return b'\\x89PNG'\n"
                      "    def _repr_mimebundle_(self, **k): return {'application/pdf': b'%PDF'}\n    def __repr__(self): return 'A!'")
        self.assertEqual(self.shown("A()"), {"text/plain": "A!", "text/html": "<i>", "image/png": b"\x89PNG", "application/pdf": b"%PDF"})

    def test_a_repr_that_throws(self):
        self.assertEqual(self.run_cell("class A:\n    def __repr__(self): raise ValueError('no')\nA()"), [])
        self.assertIn("Cell In[1], line 2, in A.__repr__(self)", self.context.printed("ValueError: no", "stderr"))

    def test_what_cannot_be_sent_is_named(self):
        display = self.run_cell("display({'text/plain': 'a', 'application/x': object()}, raw=True)")[0]
        self.assertEqual(display["data"], {"text/plain": "a"})
        self.assertEqual(display["metadata"], {"application/x": {"error": "$: object cannot be sent: return its data, or give its class a method to_dict()"}})
        self.assertEqual(self.text("'\\ud800'"), "'\\ud800'")

    def test_large_ones_are_kept_in_files(self):
        displays = self.run_cell("from IPython.display import HTML\ndisplay(HTML('é' * 5000))\n'x' * 3000", storeBytes=2000)
        for display, kind, content in zip(displays, ("text/html", "text/plain"), ("é" * 5000, repr("x" * 3000))):
            self.assertStored(display, kind, content.encode())
            self.assertEqual(list(display["data"]), ["text/plain"])
            self.assertLess(len(display["data"]["text/plain"]), 1100)
        self.assertEqual(self.text("'x' * 1000", storeBytes=2000), repr("x" * 1000))


class Errors(SharedCase):
    def test_in_the_cells_coordinates(self):
        self.run_cell("def f(a):\n    return 1 / a")
        error = self.error("x = 1\nf(0)")
        self.assertEqual((error["name"], error["message"]), ("ZeroDivisionError", "division by zero"))
        self.assertEqual(error["traceback"], [
            "-" * 75, "ZeroDivisionError                         Traceback (most recent call last)",
            "Cell In[2], line 2", "      1 x = 1", "----> 2 f(0)", "",
            "Cell In[1], line 2, in f(a)", "      1 def f(a):", "----> 2     return 1 / a", "",
            "ZeroDivisionError: division by zero"])

    def test_syntax(self):
        error = self.error("x = 1\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertEqual(error["traceback"], ["  Cell In[1], line 2", "    y = = 2", "        ^", "SyntaxError: invalid syntax"])
        self.assertEqual(self.error("if x:\npass")["name"], "IndentationError")
        self.assertEqual(self.error("return 5")["message"], "'return' outside function (Cell In[3], line 1)")
        self.assertEqual(self.error("x = '\0'")["name"] in ("ValueError", "SyntaxError"), True)

    def test_causes(self):
        lines = self.error("try:\n    {}['k']\nexcept KeyError as e:\n    raise ValueError('v') from e")["traceback"]
        self.assertIn("The above exception was the direct cause of the following exception:", lines)
        self.assertEqual([line for line in lines if "Error:" in line], ["KeyError: 'k'", "ValueError: v"])

    def test_frames_of_libraries_but_not_of_ipython(self):
        lines = "\n".join(self.error("import json\njson.loads('{')")["traceback"])
        self.assertRegex(lines, r"File /\S*/json/decoder\.py:\d+, in JSONDecoder\.(raw_)?decode\(self, s")
        lines = "\n".join(self.error("%run nosuch.py\n%timeit 1/0")["traceback"])
        self.assertNotIn("IPython", lines)
        self.assertNotIn("\x1b", lines)

    def test_deep_ones_are_cut(self):
        lines = self.error("def f(): f()\nf()")["traceback"]
        self.assertTrue(any(line.startswith("... ") and line.endswith(" frames left out ...") for line in lines))
        self.assertLess(len(lines), 200)

    def test_a_name_of_its_own(self):
        self.assertIn("sums.py, line 1", self.error("1/0", filename="sums.py")["traceback"])

    def test_exit_is_an_error_and_the_context_lives(self):
        self.own_context()
        for code, message in (("exit()", "0"), ("quit(2)", "2"), ("import sys; sys.exit(3)", "3"), ("raise SystemExit('why')", "why"),
                              ("import asyncio; await asyncio.sleep(0); exit(4)", "4")):
            error = self.error("x = 1\n" + code)
            self.assertEqual((error["name"], error["message"]), ("SystemExit", message))
        self.assertEqual(self.text("x"), "1")

    def test_exceptions_that_fight(self):
        for code in ("class E(Exception):\n    def __str__(self): raise E\nraise E", "class E(BaseException):\n"
                     "    def __getattribute__(self, name): raise self\nraise E"):
            self.assertEqual(self.error(code)["name"], "E")
        self.assertEqual(self.text("1"), "1")

    def test_any_text_is_code(self):
        for code in ("\0", "(" * 1000, "x" * 100000, "%%", "!", "?", "%time", "\ud800 = 1", "'" * 3, "\f\n\t", "[" * 300 + "]" * 300):
            self.assertIn(self.context.cell(code).get("status"), ("ok", "error"), repr(code[:20]))
        self.assertEqual(self.text("1"), "1")

    def test_groups_and_notes(self):
        if self.text("hasattr(__import__('builtins'), 'ExceptionGroup')") == "False":
            self.skipTest("the interpreter is older than 3.11")
        lines = self.error("e = ExceptionGroup('g', [ValueError('a'), KeyError('b')])\ne.add_note('noted')\nraise e")["traceback"]
        self.assertEqual(lines[-4:], ["ExceptionGroup: g (2 sub-exceptions)", "noted", "  | ValueError: a", "  | KeyError: 'b'"])

    def test_warnings_name_the_cell(self):
        self.run_cell("import warnings\nwarnings.warn('careful')")
        self.assertIn("Cell In[1]:2: UserWarning: careful", self.context.printed("careful')", "stderr"))


class Input(SharedCase):
    def test_lines(self):
        self.assertEqual(self.text("input('name? ') + input()", lines=["Ada", " L"]), "'Ada L'")
        self.assertEqual(self.context.asked, [("name? ", False), ("", False)])

    def test_passwords(self):
        self.assertEqual(self.text("import getpass\ngetpass.getpass()", lines=["secret"]), "'secret'")
        self.assertEqual(self.context.asked, [("Password: ", True)])

    def test_none_to_be_had(self):
        error = self.error("input('x')", lines=[("no input is to be had",)])
        self.assertEqual((error["name"], error["message"]), ("EOFError", "no input is to be had"))

    def test_in_a_coroutine_and_in_threads(self):
        self.assertEqual(self.text("async def f(): return input('a')\nawait f()", lines=["b"]), "'b'")
        code = "import threading\ngot = []\nts = [threading.Thread(target=lambda: got.append(input())) for _ in range(3)]\n" \
               "[t.start() for t in ts]\n[t.join() for t in ts]\nsorted(got)"
        self.assertEqual(self.text(code, lines=["1", "2", "3"]), "['1', '2', '3']")

    def test_between_cells_there_is_nobody_to_ask(self):
        self.run_until_answered("import os, threading, time\ndef f():\n    while not os.path.exists(GO): time.sleep(0.001)\n    try:\n        input()\n"
                                "    except EOFError as e:\n        print(e)\nthreading.Thread(target=f).start()")
        self.assertIn("only be asked for while a cell runs", self.context.printed("\n"))


class Interrupts(SharedCase):
    def interrupted(self, code, lines=()):
        """A cell that prints `on` and is then interrupted."""
        self.context.begin("x = 5\nprint('on')\n" + code)
        self.context.printed("on\n")
        self.context.interrupt()
        answer = self.context.finish(lines)
        self.assertEqual(answer["status"], "error", answer)
        self.assertEqual(answer["error"]["name"], "KeyboardInterrupt")
        self.assertEqual(self.text("x"), "5")
        return answer["error"]["traceback"]

    def test_a_loop(self):
        self.assertRegex("\n".join(self.interrupted("while True: pass")), r"Cell In\[1\], line [23]\n(.*\n)*-+> [23] ")

    def test_a_sleep(self):
        self.interrupted("import time\ntime.sleep(1000)")

    def test_what_is_awaited(self):
        self.interrupted("import asyncio\nawait asyncio.sleep(1000)")
        self.interrupted("import asyncio\nasync def f():\n    while True: pass\nawait f()")
        self.assertEqual(self.text("import asyncio\nawait asyncio.sleep(0, 5)"), "5")

    def test_a_command_and_what_it_started(self):
        self.interrupted("!trap '' INT; sleep 1000; true")

    def test_waiting_for_input(self):
        self.interrupt_while_it_asks("try:\n    input()\nexcept KeyboardInterrupt:\n    y = 6\n    raise", "KeyboardInterrupt")
        self.assertEqual(self.text("y"), "6")

    def test_while_displays_are_on_their_way(self):
        self.context.begin("print('on', flush=True)\nwhile True: display('y' * 5000)")
        self.context.printed("on\n")
        self.context.interrupt()
        self.assertEqual(self.context.finish()["error"]["name"], "KeyboardInterrupt")
        self.assertLessEqual({display["data"]["text/plain"] for display in self.context.displays}, {repr("y" * 5000)})
        self.assertEqual(self.text("1"), "1")

    def test_a_handler_of_the_users_lasts_one_cell(self):
        self.run_cell("import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)")
        self.interrupted("while True: pass")

    def test_between_cells_nothing_happens(self):
        self.run_cell("x = 1")
        for _ in range(20):
            self.context.interrupt()
        self.assertEqual(self.text("x"), "1")
        self.run_cell("import asyncio\nawait asyncio.sleep(0)")
        for _ in range(20):
            self.context.interrupt()
        self.assertEqual(self.text("x"), "1")

    def test_many_at_any_time(self):
        self.interrupt_at_any_time("for i in range(300): display(i)", 60)
        self.assertEqual(self.text("1"), "1")


class Tools(SharedCase):
    def test_describe(self):
        self.run_cell("import numpy as np, pandas as pd\na = 1\ns = 'x' * 500\nl = [1]\ndef f(p, *, q): pass\nd = pd.DataFrame({'u': [1]})\n"
                      "n = np.zeros((2, 3))\nclass Bad:\n    def __repr__(self): 1/0\nb = Bad()\n_hidden = 1")
        told = {row["name"]: (row["type"], row["summary"]) for row in self.result("describe")["variables"]}
        self.assertEqual(told.pop("s")[1][-5:], "(500)")
        self.assertEqual(told, {
            "np": ("module", "numpy"), "pd": ("module", "pandas"), "a": ("int", "1"), "l": ("list", "1 item"),
            "f": ("function", "f(p, q)"), "d": ("pandas.core.frame.DataFrame", "1 rows, 1 columns: u"),
            "n": ("numpy.ndarray", "shape (2, 3), float64"), "Bad": ("type", "__main__.Bad"), "b": ("__main__.Bad", "__main__.Bad")})

    def test_complete(self):
        self.run_cell("colour = 'red'")
        self.assertEqual(self.result("complete", code="x = colo", at=8), {"matches": ["colour"], "from": 4, "to": 8})
        self.assertIn("upper", str(self.result("complete", code="é = colour.up\n1", at=13)["matches"]))
        self.assertEqual(self.result("complete", code="nosuchname", at=10), {"matches": [], "from": 10, "to": 10})


def inspected(self, code, at=None, detail=0):
    """The text, or None."""
    data = self.result("inspect", code=code, at=len(code) if at is None else at, detail=detail)["data"]
    return data["text/plain"] if data else None


LIARS = """
ran = []
def loops(*a):
    ran.append(1)
    while True: pass
class Meta(type):
    __getattribute__ = __getattr__ = __dir__ = __repr__ = __instancecheck__ = __subclasscheck__ = __call__ = __hash__ = __eq__ = __bool__ = loops
    __name__ = __doc__ = property(loops)
class Liar(metaclass=Meta):
    __getattribute__ = __getattr__ = __dir__ = __repr__ = __str__ = __len__ = __eq__ = __hash__ = loops
    __class__ = __dict__ = member = property(loops)
    def __call__(self, x): pass
liar = object.__new__(Liar)
class Text(str):
    __str__ = __repr__ = __len__ = __getitem__ = splitlines = expandtabs = loops
def f(a, b=liar, *, c: liar = Text('x')) -> Text('y'): pass
f.__doc__ = Text('doc')
f.__signature__ = f.__wrapped__ = f.__text_signature__ = liar
class Row(tuple):
    __len__ = __bool__ = __iter__ = __getitem__ = loops
class Space(dict):
    __len__ = __bool__ = __iter__ = __getitem__ = get = loops
def h(a, b=1, *, c=2): pass
h.__defaults__ = Row([liar])
h.__kwdefaults__ = Space(c=liar)
class ndarray:
    shape = dtype = property(loops)
ndarray.__module__ = 'numpy'
fake = ndarray()
import types, sys, linecache
module = types.ModuleType('mine')
module.__getattr__ = module.__dir__ = loops
module.__doc__ = Text('doc')
module.huge = type('Huge', (), {'__doc__': 'word ' * 1000000})
linecache.cache['mine'] = (loops,)
exec(compile('def g(): pass', 'mine', 'exec'))
bound, of_liar = types.MethodType(liar, 1), types.MethodType(Liar, 1)
class Holder:
    __slots__ = 'slot', 'empty'
    static, of_class = staticmethod(len), classmethod(len)
    def g(self, a=Liar, *, b: Liar = liar): pass
holder = Holder()
holder.slot = liar
"""


class Looks(SharedCase):
    """`inspect` and `isComplete`: nothing of the cells runs."""

    def test_inspect(self):
        self.run_cell("import json, os.path\nclass A:\n    'An A.'\n    size = 3\n    def __init__(self, n: int = 5, *, s='x'): pass\n"
                      "    def m(self, k, /, *more, **rest) -> str:\n        'Of m.'\n        return k\n"
                      "    @property\n    def p(self):\n        'Of p.'\n        ran.append('p')\n"
                      "    @classmethod\n    def c(cls, q): pass\n    @staticmethod\n    def s(q): pass\na, ran, text = A(), [], 'lemon'")
        self.assertEqual(inspected(self, "a"), "Value: __main__.A\nClass docstring: An A.\nType: __main__.A")
        self.assertEqual(inspected(self, "A"), "Init signature: A(n: int = 5, *, s='x')\nDocstring: An A.\nType: type")
        for code in ("a.m", "x = a.m(1)", "A.m("):
            self.assertEqual(inspected(self, code, code.index("m") + 1), "Signature: m(self, k, /, *more, **rest) -> str\nDocstring: Of m.\nType: function", code)
        self.assertEqual(inspected(self, "b = a.m", detail=1).partition("Source:\n")[2], "    def m(self, k, /, *more, **rest) -> str:\n        'Of m.'\n        return k")
        self.assertIn("class A:\n    'An A.'", inspected(self, "A", detail=1))
        self.assertNotIn("Source", inspected(self, "A"))
        self.assertIn("Docstring: Of p.\nValue: not computed", inspected(self, "a.p"))
        self.assertIsNone(inspected(self, "a.p.real"))
        self.assertEqual(self.text("ran"), "[]")
        self.assertIn("Signature: c(cls, q)", inspected(self, "a.c"))
        self.assertIn("Signature: s(q)", inspected(self, "A.s"))
        self.assertIn("Value: 3\n", inspected(self, "a.size"))
        self.assertIn("Signature: len(obj, /)\nDocstring: Return the number", inspected(self, "len("))
        self.assertIn("Signature: upper()", inspected(self, "text.upper"))
        self.assertIn("Signature: join(a, *p)", inspected(self, "os.path.join"))
        self.assertIn("\ndef join(a, *p):", inspected(self, "os.path.join", detail=1))
        self.assertIn("\ndef dumps(obj, *", inspected(self, "json.dumps", detail=1))
        self.assertIn("Value: 'lemon'\n", inspected(self, "\u00e9 = text"))
        for code, at in (("nosuch", 6), ("a.nosuch", 8), ("", 0), ("1 + ", 4), (")", 1), ("'a'.upper", 9), ("if", 2)):
            self.assertIsNone(inspected(self, code, at), code)
        self.assertIn("'lemon'", inspected(self, "text", 10 ** 9))

    def test_liars_are_not_asked(self):
        self.run_cell(LIARS.strip())
        for code in ("bound", "of_liar", "Holder", "holder", "Holder.static", "holder.of_class", "holder.slot", "holder.empty", "holder.g", "Meta", "Liar.mro"):
            inspected(self, code, detail=1)
        self.assertIn("Liar", str(self.result("describe")))
        self.assertEqual(inspected(self, "liar", detail=1), "Value: __main__.Liar\nCall signature: liar(x)\nType: __main__.Liar")
        self.assertEqual(inspected(self, "Liar", detail=1).partition("\n")[0], "Init signature: Liar()")
        self.assertIn("Value: not computed", inspected(self, "liar.member"))
        self.assertIsNone(inspected(self, "liar.nosuch"))
        self.assertEqual(inspected(self, "f"), "Signature: f(a, b=<__main__.Liar>, *, c=<__main__.Text>)\nType: function")
        self.assertEqual(inspected(self, "h"), "Signature: h(a, b=<__main__.Liar>, *, c=<__main__.Liar>)\nType: function")
        self.assertEqual(inspected(self, "fake"), "Value: numpy.ndarray\nType: numpy.ndarray")
        self.assertEqual(inspected(self, "module"), "Type: module")
        self.assertIsNone(inspected(self, "module.nosuch"))
        self.assertLess(len(inspected(self, "module.huge")), 40000)
        self.assertIn("Type: function", inspected(self, "g", detail=1))
        self.assertEqual(self.text("len(ran)"), "0")

    def test_a_look_that_loops_is_interrupted(self):
        """A key of the namespace may be an object that compares itself: that cannot be avoided."""
        self.own_context()
        self.run_cell("class Key:\n    def __hash__(self): return hash('lemon')\n    def __eq__(self, other):\n        print('go', flush=True)\n        while True: pass\n"
                      "globals()[Key()] = 1")
        self.context.agent.tell("inspect", code="lemon", at=5, detail=0)
        self.context.printed("go")
        self.context.interrupt()
        self.assertEqual(self.context.next()[0]["error"]["message"], "the look at the code was interrupted")
        self.assertEqual(self.text("1"), "1")

    def test_is_complete(self):
        for code, status, indent in (("x = 1", "complete", ""), ("x = (", "incomplete", ""), ("def f():", "incomplete", "    "), ("for i in x:\n    i", "incomplete", "    "),
                                     ("for i in x:\n    i\n", "complete", ""), ("x = '''abc", "incomplete", ""), ("x = )", "invalid", ""), ("await f()", "complete", ""),
                                     ("@d", "incomplete", ""), ("# a", "complete", ""), ("f(\n    1)", "complete", ""),
                                     ("x = \'\'\'\n  a\'\'\'", "complete", ""), ("if x:\n    f(\n  1)", "incomplete", "  "), ("class A:\n    x = 1\n\n", "complete", ""), ("\n\n", "complete", ""), ("for i in x: i\n", "complete", "")):
            self.assertEqual(self.result("isComplete", code=code), {"status": status, "indent": indent}, code)
        self.run_cell("import warnings\nwarnings.simplefilter('error')\nx = 1")
        self.assertEqual(self.result("isComplete", code="x = 2; 1/0")["status"], "complete")
        self.assertIn(self.result("isComplete", code="(" * 100000)["status"], ("incomplete", "invalid"))
        self.assertEqual(self.text("x"), "1")


class Requests(SharedCase):
    def test_refused(self):
        for params, message in (({"code": 5, "count": 1}, "params.code is missing or of the wrong type"),
                                ({"code": "1"}, "params.count is missing or of the wrong type"),
                                ({"code": "1", "count": 1, "silent": "no"}, "params.silent is missing or of the wrong type"),
                                ({"code": "1", "count": -1}, "params.count is -1: less than 0")):
            self.assertEqual(self.context.ask("cell", **params)["error"], {"code": -32602, "message": message})
        self.assertEqual(self.context.open()["error"]["message"], "a context is open here already")

    def test_open(self):
        with Context() as context:
            self.assertEqual(context.ask("cell", code="1", count=1)["error"]["message"],
                             "no context is open here: `open` comes before `cell`")
            self.assertIn("this is the agent of python", context.open(language="ruby")["error"]["message"])
            self.assertIn("params.env['A=']", context.open(env={"A=": "x"})["error"]["message"])
            self.assertIn("params.env['A']", context.open(env={"A": 1})["error"]["message"])
            self.assertIn("cannot be in /proc/nosuch", context.open(cwd="/proc/nosuch")["error"]["message"])
            context.opened()

    def test_open_names_the_interpreter(self):
        with Context() as context:
            self.assertRegex(context.open()["result"]["interpreter"], r"^IPython [\d.]+ on Python 3\.[\d.]+$")

    def test_calls_still_work_before_a_context(self):
        with Context() as context:
            self.assertEqual(context.agent.request(code="def f(x): return x", args=[1])[0]["result"]["value"], 1)
            context.opened()
            self.assertEqual(context.cell("f = 1\nf"), {"status": "ok"})


class Bridge(SharedCase):
    def test_host_functions_in_cells(self):
        with Context() as context:
            context.ask("prepare", code="", filename="p.py", globals={"double": {"kind": "function"}}, imports={})
            context.open()
            for code in ("double(4)", "async def f(): return await double(4)\nawait f()"):
                context.begin(code)
                message, _ = context.next()
                self.assertEqual((message["method"], message["params"]["args"]), ("bridge", [4]))
                context.answer_input(message["id"], 8)
                self.assertEqual(context.finish(), {"status": "ok"})
                self.assertEqual(context.displays[0]["data"]["text/plain"], "8")

    def test_in_threads_between_cells(self):
        with Context() as context:
            context.ask("prepare", code="", filename="p.py", globals={"double": {"kind": "function"}}, imports={})
            context.open()
            context.begin("import threading\nt = threading.Thread(target=lambda: print(double(4)))\nt.start()")
            message = next(told for told in (context.next()[0], context.next()[0]) if "method" in told)
            context.begin("5")
            self.assertEqual(context.finish(), {"status": "ok"})
            context.answer_input(message["id"], 8)
            self.assertEqual(context.printed("\n"), "8\n")


class BrokenIPython(unittest.TestCase):
    def test_calls_work_and_contexts_name_what_is_wrong(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "IPython.py").write_text("raise ImportError('not here')")
            with Context() as context:
                code = "import sys\ndef f(p):\n    sys.path.insert(0, p)\n    return 1"
                self.assertEqual(context.agent.request(code=code, args=[folder])[0]["result"]["value"], 1)
                error = context.open()["error"]
        self.assertEqual(error["data"]["type"], "missing_runtime")
        self.assertIn("the image has IPython, and it cannot be imported (not here)", error["message"])


if __name__ == "__main__":
    unittest.main()
