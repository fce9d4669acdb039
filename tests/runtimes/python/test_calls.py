import pathlib
import shutil
import subprocess
import tempfile
import unittest

from harness import PYTHON, RUNTIME, Agent, AgentCase


class FindsTheFunction(AgentCase):
    def test_the_one_public_function(self):
        code = "from os.path import join\nclass K: pass\ndef _helper(): return 1\ndef add(a, b): return a + b + _helper()"
        self.assertEqual(self.call(code, 2, 3), 6)

    def test_several_need_a_name(self):
        code = "def b(): return 1\ndef a(): return 2"
        self.assertEqual(self.error(code)["message"], "code defines several public functions (b, a): name one")
        self.assertEqual(self.call(code, function="a"), 2)

    def test_a_missing_name_lists_what_there_is(self):
        error = self.error("import os\ndef a(): pass\nasync def b(): pass", function="x")
        self.assertEqual(error["type"], "NameError")
        self.assertEqual(error["message"], "function 'x' is not defined in the code; it defines: a, b")
        error = self.error("def a(): pass", function="a.b")
        self.assertEqual((error["type"], error["message"]),
                         ("NameError", "function 'a.b' is not defined in the code; it defines: a"))

    def test_dotted_and_imported_names(self):
        code = "from math import sqrt\nclass K:\n @staticmethod\n def twice(x): return 2 * x"
        self.assertEqual(self.call(code, 4, function="K.twice"), 8)
        self.assertEqual(self.call(code, 16, function="sqrt"), 4.0)

    def test_what_cannot_be_called(self):
        error = self.error("x = 3", function="x")
        self.assertEqual((error["type"], error["message"]), ("TypeError", "'x' is not a function but int"))


class CodeAsBody(AgentCase):
    def test_final_expression_is_the_result(self):
        self.assertEqual(self.call("x = 20\nx + args[0] + kwargs['k']", 1, kwargs={"k": 2}), 23)

    def test_code_that_would_drop_its_arguments_says_so(self):
        for code, named in (("class A:\n    def __init__(self, a): self.a = a", "the class A: name it as the function"), ("add = lambda x: x + 1", "a lambda: write it with def"),
                            ("'words'\nimport json\nlambda x: x", "a lambda")):
            self.assertIn("no function that could take the arguments, but " + named, self.error(code, 1)["message"])

    def test_code_that_looks_at_its_arguments_or_gets_none_has_classes_and_lambdas(self):
        cases = (("class A:\n    n = args[0]\nA.n", [4], 4), ("add = lambda x: x + 1\nadd(args[0])", [4], 5), ("class A: pass", [], None), ("double = lambda x: 2 * x\ndouble(2)", [9], 4))
        for code, args, value in cases:
            self.assertEqual(self.call(code, *args), value, code)

    def test_a_return_behind_the_one_function_names_the_way_out(self):
        self.assertIn("leave the return out and give f() its arguments (args), or name it _f", self.error("def f(x): return x\nreturn f(1)")["message"])
        self.assertEqual(self.call("def _f(x): return x\nreturn _f(1)"), 1)

    def test_no_final_expression_gives_null(self):
        self.assertIsNone(self.call("x = 1"))
        self.assertIsNone(self.call(""))

    def test_return(self):
        self.assertEqual(self.call("if args[0]:\n    return 'yes'\nreturn 'no'", True), "yes")
        self.assertIsNone(self.call("if args[0]:\n    return 'yes'\n5", False))

    def test_future_and_star_imports_before_return(self):
        self.assertEqual(self.call("'doc'\nfrom __future__ import annotations\nfrom math import *\nreturn floor(2.5)"), 2)

    def test_await_with_and_without_return(self):
        wait = "import asyncio\nawait asyncio.sleep(0)\n"
        self.assertEqual(self.call(wait + "7"), 7)
        self.assertEqual(self.call(wait + "return 8"), 8)

    def test_yield_is_collected(self):
        self.assertEqual(self.call("for i in range(3):\n    yield i"), [0, 1, 2])

    def test_line_numbers_are_the_users(self):
        stack = self.error("x = 1\n\nif x:\n    return 1 / 0")["stack"]
        self.assertIn('File "main.py", line 4, in <module>', stack)
        self.assertIn("return 1 / 0", stack)

    def test_globals_of_a_module_body(self):
        self.assertEqual(self.call("n = 0\ndef _up():\n    global n\n    n += 1\n_up()\n_up()\nn"), 2)

    def test_source_is_convention(self):
        for code in ("1", "return 1"):
            self.assertEqual(self.answer(code)["result"]["signatureSource"], "convention")


class Arguments(AgentCase):
    CODE = "def f(a, b=10, *, c=100): return [a, b, c]"

    def test_forms(self):
        self.assertEqual(self.call(self.CODE, 1), [1, 10, 100])
        self.assertEqual(self.call(self.CODE, 1, kwargs={"c": 3}), [1, 10, 3])
        self.assertEqual(self.call(self.CODE, kwargs={"a": 1, "c": 2}), [1, 10, 2])

    def test_a_hole_keeps_the_default(self):
        code = "def f(a=1, b=2, c=3): return [a, b, c]"
        self.assertEqual(self.call(code, None, None, 9, holes=[0, 1]), [1, 2, 9])
        self.assertEqual(self.call(code, None, None, 9, holes=[1]), [None, 2, 9])

    def test_a_hole_without_a_default(self):
        self.assertIn("'a'", self.error(self.CODE, None, 1, holes=[0])["message"])
        self.assertIn("position 0", self.error("def f(*a): return a", None, 1, holes=[0])["message"])

    def test_order_places_the_names_the_function_has_not(self):
        order = ["x", "y"]
        for code, expected in [
            ("def f(a, b): return [a, b]", [1, 2]),
            ("def f(y, x): return [y, x]", [2, 1]),
            ("def f(a, *, y): return [a, y]", [1, 2]),
            ("def f(*a): return a", [1, 2]),
            ("def f(a, /, **k): return [a, k]", None),
            ("def f(**k): return k", {"x": 1, "y": 2}),
        ]:
            answer = self.answer(code, kwargs={"y": 2, "x": 1}, order=order)
            if expected is None:
                self.assertIn("'a'", answer["error"]["message"])
            else:
                self.assertEqual(answer["result"], {"value": expected, "signatureSource": "schema"})

    def test_order_leaves_unknown_names_to_the_function(self):
        self.assertIn("'z'", self.error("def f(a): return a", kwargs={"x": 1, "z": 2}, order=["x"])["message"])

    def test_order_and_a_gap(self):
        self.assertEqual(self.call("def f(a=1, b=2): return [a, b]", kwargs={"y": 5}, order=["x", "y"]), [1, 5])
        self.assertIn("'a'", self.error("def f(a, b=2): return [a, b]", kwargs={"y": 5}, order=["x", "y"])["message"])

    def test_errors_name_the_parameter(self):
        cases = [((), {}, "'a'"), ((1,), {"z": 1}, "'z'"), ((1,), {"a": 1}, "'a'"), ((1, 2, 3), {}, "(a, b)")]
        for args, kwargs, part in cases:
            error = self.error(self.CODE, *args, kwargs=kwargs)
            self.assertEqual(error["type"], "TypeError")
            self.assertIn(part, error["message"])
            self.assertNotIn("agent", error["stack"])
            self.assertNotIn("call.py", error["stack"])

    def test_sources(self):
        inferred = ["def f(): pass", "import functools\n@functools.lru_cache\ndef f(): pass"]
        for code in inferred:
            self.assertEqual(self.answer(code)["result"]["signatureSource"], "inferred")
        answer = self.answer("f = dict", function="f")
        self.assertEqual(answer["result"]["signatureSource"], "convention")
        answer = self.answer("class K:\n def m(self, x): return x\nf = K().m", 3, function="f")
        self.assertEqual(answer["result"], {"value": 3, "signatureSource": "inferred"})


class Waiting(AgentCase):
    def test_async(self):
        self.assertEqual(self.call("import asyncio\nasync def f(x):\n await asyncio.sleep(0)\n return x", 3), 3)

    def test_generators(self):
        self.assertEqual(self.call("def f():\n yield 1\n yield 2"), [1, 2])
        self.assertEqual(self.call("async def f():\n yield 1\n yield 2"), [1, 2])

    def test_awaitable_object(self):
        code = "class A:\n def __await__(self):\n  yield\n  return 5\ndef f(): return A()"
        self.assertEqual(self.call(code), 5)

    def test_error_in_a_coroutine_has_no_asyncio_frames(self):
        stack = self.error("async def f():\n  raise KeyError('k')")["stack"]
        self.assertIn('File "main.py", line 2, in f', stack)
        self.assertNotIn("asyncio", stack)


class Errors(AgentCase):
    def test_type_message_stack(self):
        error = self.error("def f():\n    return 1 / 0")
        self.assertEqual((error["type"], error["message"]), ("ZeroDivisionError", "division by zero"))
        self.assertTrue(error["stack"].startswith("Traceback (most recent call last):\n  File \"main.py\", line 2, in f\n"
                                                  "    return 1 / 0\n"), error["stack"])

    def test_own_class_and_causes(self):
        error = self.error("class Mine(Exception): pass\ndef f():\n try: {}['k']\n except KeyError as e: raise Mine('m') from e")
        self.assertEqual((error["type"], error["message"]), ("Mine", "m"))
        self.assertIn("KeyError: 'k'", error["stack"])
        self.assertIn("direct cause", error["stack"])

    def test_syntax_error(self):
        for function in (None, "f"):
            error = self.error("x = 1\ndef f(:\n", function=function)
            self.assertEqual(error["type"], "SyntaxError")
            self.assertIn('File "main.py", line 2', error["stack"])
            self.assertNotIn("Traceback", error["stack"].split("File")[0].replace("Traceback (most recent call last):", ""))

    def test_break_outside_a_loop(self):
        self.assertEqual(self.error("break")["type"], "SyntaxError")

    def test_nul_in_the_code(self):
        self.assertIn(self.error("x = '\0'")["type"], ("SyntaxError", "ValueError"))

    def test_str_that_raises(self):
        error = self.error("class E(Exception):\n def __str__(self): raise ValueError\ndef f(): raise E")
        self.assertEqual(error["type"], "E")
        self.assertIn("ValueError", error["message"])

    def test_long_and_broken_messages(self):
        self.assertLess(len(self.error("def f(): raise ValueError('x' * 10**7)")["message"]), 100000)
        self.assertIn("udc80", self.error("def f(): raise ValueError('\\udc80')")["message"])

    def test_exit(self):
        for code, message in (("3", "3"), ("", "0"), ("'bye'", "bye")):
            error = self.error("import sys\ndef f(): sys.exit(%s)" % code)
            self.assertEqual((error["type"], error["message"]), ("SystemExit", message))
        self.assertAlive()

    def test_base_exceptions(self):
        for name in ("KeyboardInterrupt", "GeneratorExit", "MemoryError", "StopIteration"):
            self.assertEqual(self.error("def f(): raise %s" % name)["type"], name)
        self.assertAlive()

    def test_result_too_large(self):
        error = self.error("def f(): return 'x' * 5000", resultBytes=2000)
        self.assertEqual(error["type"], "ValueError")
        self.assertIn("2000", error["message"])
        error = self.error("def f(): return [b'x' * 1500, b'x' * 1500]", resultBytes=2000)
        self.assertIn("limit of 2000", error["message"])
        self.assertEqual(self.call("def f(): return 'x' * 1000", resultBytes=2000), "x" * 1000)


class Environment(AgentCase):
    def test_main_module(self):
        code = ("import pickle, sys, dataclasses\n@dataclasses.dataclass\nclass P:\n x: int\n"
                "def f(): return [__name__, __file__, sys.argv, pickle.loads(pickle.dumps(P(3))).x]")
        self.assertEqual(self.call(code, filename="job.py"), ["__main__", "job.py", ["job.py"], 3])

    def test_imports_come_from_the_working_directory(self):
        for name in ("values", "helper"):
            (pathlib.Path(self.agent.workdir) / (name + ".py")).write_text("name = %r" % ("user " + name))
            self.assertEqual(self.call("import %s as m\ndef f(): return m.name" % name), "user " + name)
        code = "import sys\ndef f(d): return any('runtimes/python' in p for p in sys.path)"
        self.assertIs(self.call(code, 0), False)

    def test_no_agent_module_is_importable(self):
        self.assertEqual(self.error("def f():\n import schema")["type"], "ModuleNotFoundError")

    def test_source_for_inspect(self):
        self.assertEqual(self.call("import inspect\ndef f(): return inspect.getsource(f)"),
                         "def f(): return inspect.getsource(f)\n")

    def test_output_is_flushed_and_apart(self):
        self.call("import sys\ndef f():\n print('{\"jsonrpc\": 1}', end='')\n print('err', end='', file=sys.stderr)")
        self.assertEqual(self.end(), (0, '{"jsonrpc": 1}', "err"))

    def test_each_call_has_a_fresh_namespace(self):
        self.call("x = 1\ndef f(): pass")
        self.assertEqual(self.error("def f(): return x")["type"], "NameError")


class Protocol(AgentCase):
    def bad(self, text, code):
        self.agent.send_raw(text)
        self.assertEqual(self.agent.receive()[0]["error"]["code"], code)

    def test_bad_messages_are_answered(self):
        for text in (b"", b"{", b"nonsense", b'{"a": NaN}', b"\xff", b"[" * 100000, b"{} {}"):
            self.bad(text, -32700)
        for text in (b"[]", b"{}", b'{"jsonrpc":"2.0","id":[],"method":"call"}'):
            self.bad(text, -32600)
        self.bad(b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601)
        self.bad(b'{"jsonrpc":"2.0","id":1,"method":"call"}', -32602)
        self.bad(b'{"jsonrpc":"2.0","id":1,"method":"call","params":{"code":5}}', -32602)
        self.assertAlive()

    def test_string_ids(self):
        self.agent.send_raw(b'{"jsonrpc":"2.0","id":"\\u00e9","method":"call","params":{"code":"5"}}')
        self.assertEqual(self.agent.receive()[0]["id"], "\u00e9")

    def test_impossible_lengths_end_the_agent(self):
        self.agent.socket.sendall((8).to_bytes(4, "little") + (9).to_bytes(4, "little"))
        self.assertEqual(self.agent.receive()[0]["error"]["code"], -32700)
        self.assertIsNone(self.agent.receive())
        self.assertEqual(self.end()[0], 1)

    def test_frame_in_single_bytes(self):
        text = b'{"jsonrpc":"2.0","id":1,"method":"call","params":{"code":"6*7"}}'
        for byte in (4 + len(text)).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text:
            self.agent.socket.send(bytes([byte]))
        self.assertEqual(self.agent.receive()[0]["result"]["value"], 42)

    def test_large_both_ways(self):
        blob = bytes(range(256)) * 20000
        answer, attached = self.agent.request(blob, code="def f(x): return x[::-1]",
                                              args=[{"$": "bytes", "at": 0, "n": len(blob)}])
        self.assertEqual(answer["result"]["value"], {"$": "bytes", "at": 0, "n": len(blob)})
        self.assertEqual(attached, blob[::-1])


class Precompiled(unittest.TestCase):
    """Flat .pyc files beside the parts are used when they fit, and ignored when they do not."""

    def run_with(self, spoil, code="def f(): return 5", check=lambda answer: None):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            for file in RUNTIME.glob("*.py"):
                shutil.copy(file, folder)
            subprocess.run([PYTHON, str(folder / "precompile.py"), str(folder)], check=True)
            self.assertTrue(list(folder.glob("serve.*.pyc")))
            for file in folder.glob("*.pyc"):
                file.write_bytes(spoil(file.read_bytes()))
            agent = Agent(folder)
            try:
                answer = agent.request(code=code)[0]
                check(answer)
                return answer.get("result", {}).get("value")
            finally:
                agent.end()

    def test_frames_of_the_agent_stay_hidden(self):
        self.run_with(lambda data: data, "def f(a): pass", check=lambda answer: self.assertEqual(
            answer["error"]["data"]["stack"].count("File"), 0))

    def test_used_only_when_they_fit(self):
        self.assertEqual(self.run_with(lambda data: data), 5)
        self.assertEqual(self.run_with(lambda data: b"xxxx" + data[4:]), 5)
        self.assertEqual(self.run_with(lambda data: data[:8] + bytes(8) + data[16:]), 5)
        self.assertEqual(self.run_with(lambda data: data[:3]), 5)


class TooOld(unittest.TestCase):
    def test_every_request_is_refused_by_name(self):
        with tempfile.TemporaryDirectory() as folder:
            shutil.copytree(RUNTIME, folder, dirs_exist_ok=True)
            agent = pathlib.Path(folder, "agent.py")
            agent.write_text(agent.read_text().replace("LEAST = (3, 9)", "LEAST = (4, 1)"))
            with Agent(folder) as old:
                for method in ("call", "freeze", "open"):
                    error = old.ask(method, code="x" * 200000)[0]["error"]
                    self.assertRegex(error["message"], r"^this image has Python 3\.\S+, and the agent needs Python 4\.1 or later: use an image with one")
                    self.assertEqual((error["code"], error["data"]["type"]), (-32000, "UnsupportedVersion"))
                self.assertEqual(old.end(), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
