"""Contexts of a real daemon, by both clients."""
import threading
import unittest

import cloche
from tests.real import AsyncDaemonCase, DaemonCase

FIGURE = "import matplotlib.pyplot as plt\n_ = plt.plot([1, 2])\nplt.show()"


class Cells(DaemonCase):
    """One sandbox for all: creating the first context of a language takes long."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.box = cls.client.sandbox()

    def test_the_default_context_stays(self):
        self.assertTrue(self.box.run_code("x = 20").success)
        done = self.box.run_code("import sys; print('out'); print('err', file=sys.stderr); x + 1")
        self.assertEqual((done.text, done.stdout, done.stderr, done.context), ("21", "out\n", "err\n", "default-python"))
        self.assertEqual(self.box.run_code("X=5; echo $X", language="bash").stdout, "5\n")
        self.assertLessEqual({"default-python", "default-bash"}, {row.name for row in self.box.contexts()})

    def test_of_a_prefix(self):
        with self.client.prefix("python", "import json\nrows = [1, 2]") as prefix:
            made = [self.box.context(prefix=prefix), self.box.context(prefix=prefix)]
        for context in made:
            with context:
                self.assertEqual(context.run("rows.append(3); json.dumps(rows)").text, "'[1, 2, 3]'")
                self.assertEqual(context.info().prefix, prefix.id)
        with self.assertRaisesRegex(cloche.NotFoundError, "there is no prefix"):
            self.box.context(prefix=prefix)

    def test_errors_are_results(self):
        done = self.box.run_code("def f():\n    raise ValueError('no')\nf()")
        self.assertEqual((done.success, str(done.error)), (False, "ValueError: no"))
        self.assertTrue(any("line 2" in line for line in done.error.traceback), done.error.traceback)
        with self.assertRaisesRegex(cloche.CellFailedError, "ValueError: no"):
            done.unwrap()
        with self.assertRaises(cloche.UnknownLanguageError):
            self.box.run_code("1", language="cobol")

    def test_displays(self):
        done = self.box.run_code(FIGURE + "\nimport pandas as pd\npd.DataFrame({'a': [1]})")
        figure, frame = done.displays
        self.assertTrue(figure.png.startswith(b"\x89PNG") and figure.chart["type"] == "line" and not figure.is_result)
        self.assertEqual((frame.formats(), frame.is_result, done.result), (["text/plain", "text/html"], True, frame))
        self.assertIn("<table", frame._repr_mimebundle_()[0]["text/html"])

    def test_told_as_it_comes(self):
        said, shown, asked = [], [], []
        with self.box.context() as context:
            done = context.run("print('ä', end=''); display(1); name = input('who? '); name * 2", on_stdout=said.append, on_display=shown.append,
                               on_input=lambda *question: asked.append(question) or "Ada")
            self.assertEqual(("".join(said), [display.text for display in shown], asked), ("ä", ["1", "'AdaAda'"], [("who? ", False)]))
            self.assertEqual((done.text, len(done.displays)), ("'AdaAda'", 2))
            self.assertEqual(context.run("input()").error.name, "EOFError")
            with context.stream("print('a'); 5") as stream:
                told = list(stream)
            self.assertEqual((told[0], told[1].text, stream.result.status), (cloche.Output("stdout", b"a\n"), "5", "ok"))

    def test_a_life(self):
        with self.box.context(cwd="/tmp", env={"COLOR": "green"}, timeout_ms=60_000) as context:
            info = context.info()
            self.assertEqual((info.name, info.language, info.cwd, info.env, info.timeout_ms, info.state), (context.name, "python", "/tmp", {"COLOR": "green"},
                                                                                                            60_000, "idle"))
            context.run("import os, time; y = 1")
            self.assertIn(cloche.Variable("y", "int", "1"), context.describe())
            found = context.complete("os.getcw")
            self.assertIn("getcwd", [match.rpartition(".")[2] for match in found.matches])
            self.assertIn("Value: 1", context.inspect("print(y)", 7).text)
            self.assertFalse(context.inspect("nosuch").found)
            self.assertEqual(context.is_complete("if y:"), cloche.Completeness("incomplete", "    "))
            self.assertEqual(context.history(), [cloche.HistoryEntry(1, "import os, time; y = 1")])
            self.assertTrue(context.run("time.sleep(60)", timeout_ms=300).timed_out)
            with self.assertRaises(cloche.RunTimeoutError):
                context.run("time.sleep(60)", timeout=0.5)
            self.assertEqual(context.run("y").text, "1")
            self.assertTrue(context.run("os._exit(3)").ended)
            self.assertEqual(context.info().state, "ended")
            with self.assertRaises(cloche.ContextEndedError):
                context.run("y")
            self.assertEqual(context.restart().state, "idle")
            self.assertEqual(context.run("y").error.name, "NameError")
        self.assertNotIn(context.name, [row.name for row in self.box.contexts()])

    def test_an_interrupt_from_another_thread(self):
        with self.box.context() as context:
            context.run("x = 1")
            begun = threading.Event()
            helper = threading.Thread(target=lambda: (begun.wait(), context.interrupt()))
            helper.start()
            done = context.run("import time; print('begun'); time.sleep(60)", on_stdout=lambda text: begun.set())
            helper.join()
            self.assertEqual((done.interrupted, done.error.name, context.run("x").text), (True, "KeyboardInterrupt", "1"))

    def test_forks_and_checkpoints(self):
        with self.box.context(forkable=True) as context:
            context.run("x = [1]")
            left, right = context.fork(2)
            self.assertEqual([copy.run(f"x.append({n}); x").text for n, copy in enumerate((left, right))], ["[1, 0]", "[1, 1]"])
            self.assertEqual((context.run("x").text, left.info().forked_from), ("[1]", context.name))
            left.delete()
            right.delete()
            kept = context.checkpoint("before")
            context.run("x = None")
            self.assertEqual([row.name for row in context.checkpoints()], ["before"])
            context.rollback()
            self.assertEqual((context.run("x").text, kept.files), ("[1]", True))
            self.assertEqual(context.forget("before"), "before")
        with self.box.context() as context, self.assertRaises(cloche.ClocheError):
            context.fork()


class Async(AsyncDaemonCase):
    async def test_the_same(self):
        async with self.client.sandbox() as box:
            said = []

            async def answer(prompt, password):
                return prompt.upper()
            async with box.context() as context:
                done = await context.run("print('a'); input('who')", on_stdout=said.append, on_input=answer)
                self.assertEqual((said, done.text), (["a\n"], "'WHO'"))
                told = [event async for event in context.stream("print('b'); 1")]
                self.assertEqual((told[0].data, told[1].text), (b"b\n", "1"))
            self.assertEqual((await box.run_code("1 + 1")).text, "2")


if __name__ == "__main__":
    unittest.main()
