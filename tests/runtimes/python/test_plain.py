"""Cells of an interpreter without IPython. Features common to both are tested here too, by the
tests of test_cells.py."""
import unittest

import contexts
import context_process
import test_cells

HIDE = """import sys

class Hidden:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == 'IPython':
            raise ModuleNotFoundError('hidden', name=name)

def hide():
    sys.meta_path.insert(0, Hidden)
"""
RESET = "for _name in [n for n in globals() if n[0] != '_' and n not in ('In', 'Out', 'exit', 'quit')]: del globals()[_name]"


class Context(contexts.Context):
    def __init__(self):
        super().__init__()
        answer = self.agent.request(code=HIDE, function="hide")[0]
        assert "result" in answer, answer


class PlainCase(contexts.Printed, context_process.ContextCase):
    start = Context

    def setUp(self):
        self.own_context()


class SharedCase(contexts.Printed, context_process.SharedContextCase):
    start = Context

    def setUp(self):
        super().setUp()
        self.context.cell(RESET, silent=True)
        self.context.count = 0


def also_plain(case, *leaving):
    """The tests of that case, with contexts that have no IPython; `leaving`: those that are about IPython, or need libraries."""
    tests = {name: getattr(case, name) for name in dir(case) if name.startswith("test_") and name not in leaving}
    helpers = {name: value for name, value in vars(case).items() if not name.startswith(("test_", "__"))}
    base = SharedCase if issubclass(case, contexts.SharedCase) else PlainCase
    return type("Plain" + case.__name__, (base,), {**helpers, **tests, "start": Context, "__module__": __name__})


PlainNamespace = also_plain(test_cells.Namespace, "test_no_name_of_the_agent", "test_place_and_environment")
PlainSyntax = also_plain(test_cells.Syntax, "test_magics", "test_an_unknown_magic", "test_commands", "test_a_command_is_heard_while_it_runs")
PlainOutput = also_plain(test_cells.Output)
PlainDisplays = also_plain(test_cells.Displays, "test_kinds", "test_a_repr_that_throws", "test_large_ones_are_kept_in_files")
PlainErrors = also_plain(test_cells.Errors, "test_frames_of_libraries_but_not_of_ipython")
PlainInput = also_plain(test_cells.Input)
PlainInterrupts = also_plain(test_cells.Interrupts, "test_a_command_and_what_it_started")
PlainTools = also_plain(test_cells.Tools, "test_describe")
PlainLooks = also_plain(test_cells.Looks)


class Alone(PlainCase):
    def test_open_names_the_interpreter(self):
        with Context() as context:
            self.assertRegex(context.open()["result"]["interpreter"], r"^Python 3\.[\w.+]+$")

    def test_names(self):
        self.assertEqual(self.text("sorted(n for n in globals() if n[0] != '_')"), "['In', 'Out', 'exit', 'quit']")
        self.assertEqual(self.text("'get_ipython' in dir(__builtins__), 'IPython.core' in __import__('sys').modules"), "(False, False)")

    def test_an_underscore_of_the_users_own_stays(self):
        self.run_cell("_ = str.upper\n5")
        self.assertEqual(self.text("_('a')"), "'A'")
        self.assertEqual(self.text("_('b'), _2, Out[2]"), "('B', 'A', 'A')")

    def test_what_only_ipython_reads_is_refused_by_name(self):
        for code, line, thing in (("%time x = 5", 1, "the magic `%time`"), ("%%bash\necho", 1, "the magic `%%bash`"), ("!ls -l", 1, "the command `!ls`"),
                                  ("x = 1\nlines = !ls", 2, "the command `!ls`"), ("y = %pwd", 1, "the magic `%pwd`"), ("len?", 1, "the question `len?`"),
                                  ("?len", 1, "the question `?len`"), ("if 1:\n    %cd /tmp", 2, "the magic `%cd`"), ("%matplotlib inline", 1, "the magic `%matplotlib`")):
            error = self.error(code)
            self.assertEqual(error["name"], "SyntaxError")
            self.assertIn(thing + " needs IPython, which this image's Python does not have: install it in the image", error["message"])
            self.assertEqual(error["traceback"][0], "  Cell In[%d], line %d" % (self.context.count, line))
        for code in ("y = = 2", "x = (1,\n% 2", "5 % = 3"):
            self.assertNotIn("IPython", self.error(code)["message"])
        self.assertEqual(self.text("5 %\\\n3"), "2")

    def test_completion(self):
        self.run_cell("colour = 'red'\nclass A:\n    def __dir__(self): raise ValueError\na = A()")
        for code, matches, start in (("colour.upp", ["upper"], 7), ("x = colo", ["colour"], 4), ("impo", ["import"], 0), ("prin", ["print"], 0),
                                     ("colour.upper.__nam", ["__name__"], 13)):
            self.assertEqual(self.result("complete", code=code, at=len(code)), {"matches": matches, "from": start, "to": len(code)})
        for code in ("nosuch.x", "a.x", "'text'.upp", "colour.nosuch.x", "1 + ", ""):
            self.assertEqual(self.result("complete", code=code, at=len(code))["matches"], [], code)
        self.assertNotIn("_", "".join(name[:1] for name in self.result("complete", code="colour.", at=7)["matches"]))

    def test_describe(self):
        self.run_cell("a = 1\ndef f(p, *, q): pass\n_hidden = 1\nclass Bad:\n    def __repr__(self): 1/0\nb = Bad()")
        told = {row["name"]: (row["type"], row["summary"]) for row in self.result("describe")["variables"]}
        self.assertEqual(told, {"a": ("int", "1"), "f": ("function", "f(p, q)"), "Bad": ("type", "__main__.Bad"), "b": ("__main__.Bad", "__main__.Bad")})

    def test_what_displays_itself_and_forms_that_throw(self):
        self.run_cell("class A:\n    def _ipython_display_(self): display('own')\nclass B:\n    def _repr_html_(self): 1/0\n"
                      "    def _repr_png_(self): return b'\\x89PNG', {'width': 5}\n    def _repr_latex_(self): raise NotImplementedError\n"
                      "    def __repr__(self): return 'B!'\nclass C:\n    def _repr_html_(self): return 'class'\nclass D:\n    def __repr__(self): 1/0")
        self.assertEqual(self.display("A()"), {"data": {"text/plain": "'own'"}, "metadata": {}, "isResult": False})
        self.assertEqual(self.display("B()"), {
            "data": {"text/plain": "B!", "image/png": b"\x89PNG"}, "isResult": True,
            "metadata": {"text/html": {"error": "ZeroDivisionError: division by zero"}, "image/png": {"width": 5}}})
        self.assertEqual(self.shown("C"), {"text/plain": "<class '__main__.C'>"})
        self.assertEqual(self.error("D()")["name"], "ZeroDivisionError")
        self.assertEqual(self.text("1"), "1")

    def test_options_of_display(self):
        self.assertEqual(self.shown("display({'text/html': '<b>'}, raw=True)"), {"text/html": "<b>"})
        self.assertEqual(self.shown("display({'a': 1}, include=['text/plain'])"), {"text/plain": "{'a': 1}"})
        self.assertEqual(self.shown("display({'a': 1}, exclude=['text/plain'])"), {"application/json": {"a": 1}})
        self.run_cell("display(1)\ndisplay(2, clear=True)")
        self.assertEqual(self.context.cleared, [(True, 1)])

    def test_large_ones_are_kept_in_files(self):
        self.assertStored(self.display("'x' * 3000", storeBytes=2000), "text/plain", repr("x" * 3000).encode())


@contexts.needs_libraries
class Libraries(PlainCase):
    def test_tables_and_figures(self):
        self.assertIn("<table", self.shown("import pandas as pd\npd.DataFrame({'a': [1]})")["text/html"])
        shown = self.shown("import matplotlib.pyplot as plt\nf, a = plt.subplots()\na.plot([1, 2], label='l')\nf")
        self.assertEqual(shown["image/png"][:4], b"\x89PNG")
        self.assertEqual(shown[context_process.CHART]["type"], "line")

    def test_a_set_up_for_notebooks_and_the_children_of_a_rehearsed_shell(self):
        with Context() as context:
            code = (contexts.harness.RUNTIME / "notebook.py").read_text()
            self.assertIn("result", context.ask("prepare", code=code, filename="notebook.py", globals={}, imports={}))
            context.opened()
            self.assertEqual(context.cell("40 + 2"), {"status": "ok"})
            self.assertEqual(context.displays[0]["data"], {"text/plain": "42"})
            self.assertEqual(context.cell("sorted(n for n in globals() if n[0] != '_'), In"), {"status": "ok"})
            self.assertIn("['In', 'Out', 'exit', 'quit']", context.displays[0]["data"]["text/plain"])


if __name__ == "__main__":
    unittest.main()
