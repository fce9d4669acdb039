"""The contract of the subprocess sandbox."""
import asyncio
import os
import threading
import time
import unittest

import cloche
from cloche._plain import plain
from tests.real import AsyncDaemonCase, DaemonCase

ADD = {"name": "add", "description": "Adds", "inputSchema": {
    "type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"],
    "additionalProperties": False}}


def execute_tool(name, params):
    assert name == "add"
    return params["a"] + params["b"]


class Python(DaemonCase):
    def setUp(self):
        self.sandbox = cloche.SubprocessSandbox(self.client)
        self.addCleanup(self.sandbox.close)

    def test_a_body_with_functions_of_its_own(self):
        done = self.sandbox.execute("def twice(n): return add(a=n, b=n)\nprint('log')\nreturn twice(4)", [ADD], execute_tool)
        self.assertEqual((done.result, done.logs, done.error), (8, ["[stdout] log"], None))
        self.assertGreater(done.duration, 0)

    def test_the_last_expression_is_the_result(self):
        self.assertEqual(self.sandbox.execute("x = 2\nx * 3").result, 6)
        self.assertIsNone(self.sandbox.execute("").result)

    def test_await(self):
        self.assertEqual(self.sandbox.execute("import asyncio\nawait asyncio.sleep(0)\nreturn 5").result, 5)

    def test_parameters_as_one_object(self):
        self.assertEqual(self.sandbox.execute("return add({'a': 1, 'b': 2})", [ADD], execute_tool).result, 3)

    def test_parameters_are_checked_before_the_host_is_called(self):
        called = []
        code = "try: add(a='x', b=1)\nexcept TypeError as e: return str(e)"
        self.assertEqual(self.sandbox.execute(code, [ADD], lambda *call: called.append(call)).result, "add.a must be integer, not string")
        for wrong in ("add(a=1)", "add(a=1, b=2, c=3)", "add(1, 2)", "add([])", "add({'a': 1}, b=2)"):
            self.assertIn("TypeError", self.sandbox.execute(wrong, [ADD], lambda *call: called.append(call)).error)
        self.assertEqual(called, [])

    def test_a_tools_error_can_be_caught(self):
        def fail(name, params):
            raise ValueError("no such city")
        tool = [cloche.Tool("weather")]
        self.assertEqual(self.sandbox.execute("try: weather()\nexcept ValueError as e: return str(e)", tool, fail).result, "no such city")
        self.assertEqual(self.sandbox.execute("weather()", tool, fail).error, "ValueError: no such city")

    def test_tools_that_are_coroutines(self):
        async def run(name, params):
            await asyncio.sleep(0)
            return name
        self.assertEqual(self.sandbox.execute("return t()", [{"name": "t"}], run).result, "t")

    def test_errors(self):
        self.assertEqual(self.sandbox.execute("1 / 0").error, "ZeroDivisionError: division by zero")
        self.assertIn("SyntaxError", self.sandbox.execute("def").error)

    def test_logs_by_stream_in_lines(self):
        done = self.sandbox.execute("import sys\nprint('a\\nb')\nprint('e', file=sys.stderr)\nprint('end', end='')")
        self.assertEqual([line for line in done.logs if "stdout" in line], ["[stdout] a", "[stdout] b", "[stdout] end"])
        self.assertIn("[stderr] e", done.logs)

    def test_timeout(self):
        for timeout in (300, 2000, 10000):  # on a busy machine the code may not have begun
            done = cloche.SubprocessSandbox(self.client, timeout=timeout).execute("print('begun', flush=True)\nwhile True: pass")
            self.assertEqual((done.result, done.error), (None, f"Execution timed out after {timeout} ms"))
            if done.logs:
                break
        self.assertEqual(done.logs, ["[stdout] begun"])

    def test_a_timeout_of_one_execution(self):
        done = self.sandbox.execute("while True: pass", timeout=300)
        self.assertEqual((done.error, self.sandbox.execute("return 1").result), ("Execution timed out after 300 ms", 1))
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "timeout must be an integer"):
            self.sandbox.execute("1", timeout=-1)

    def test_the_timeout_covers_the_start(self):
        """A daemon that accepts the request and never starts it."""
        ours, theirs = cloche.SubprocessSandbox(self.client, timeout=300), cloche.SubprocessSandbox(self.client)
        write, self.client._write = self.client._write, lambda data: None
        try:
            late = ours.execute("return 1")
        finally:
            self.client._write = write
        self.assertEqual((late.error, theirs.execute("return 1").result), ("Execution timed out after 300 ms", 1))

    def test_results_are_json_and_rich_ones_are_not(self):
        code = "import datetime\nreturn {1: {2}, 'd': datetime.date(2020, 1, 2), 'b': b'x', 'n': float('nan'), 'i': 10**20, 't': (1, [2.5])}"
        self.assertEqual(self.sandbox.execute(code).result, {"1": [2], "d": "2020-01-02", "b": "eA==", "n": None, "i": 10**20, "t": [1, [2.5]]})
        rich = self.sandbox.execute(code, rich=True).result
        self.assertEqual((rich[1], rich["d"].year, rich["b"]), ({2}, 2020, b"x"))

    def test_a_value_that_holds_itself(self):
        shared = [1]
        self.assertEqual(plain([shared, shared]), [[1], [1]])
        shared.append(shared)
        with self.assertRaisesRegex(cloche.ValueRefusedError, "holds itself, which JSON cannot express; rich=True"):
            plain([shared])

    def test_parameters_are_json_and_rich_ones_are_not(self):
        kinds = [self.sandbox.execute("return t(a={1})", [{"name": "t"}], lambda name, given: type(given["a"]).__name__, rich=rich).result
                 for rich in (False, True)]
        self.assertEqual(kinds, ["list", "set"])

    def test_a_timeout_rejects_tools_under_way(self):
        over = threading.Event()
        self.addCleanup(over.set)
        done = cloche.SubprocessSandbox(self.client, timeout=300).execute("return t()", [{"name": "t"}], lambda *call: over.wait(30))
        self.assertEqual(done.error, "Execution timed out after 300 ms")

    def test_memory(self):
        done = cloche.SubprocessSandbox(self.client, memory_limit=64).execute("x = bytearray(200 << 20)\nreturn len(x)")
        self.assertIsNone(done.result)
        self.assertIn("Memory", done.error)
        self.assertEqual(self.sandbox.execute("return len(bytearray(64 << 20))").result, 64 << 20)

    def test_terminate(self):
        self.assertFalse(self.sandbox.is_running())
        begun = threading.Event()
        tool = [{"name": "begun"}]
        threading.Thread(target=lambda: (begun.wait(20), running.append(self.sandbox.is_running()), self.sandbox.terminate())).start()
        running = []
        done = self.sandbox.execute("begun()\nwhile True: pass", tool, lambda *call: begun.set())
        self.assertEqual((done.error, running, self.sandbox.is_running()), ("Execution was terminated", [True], False))
        self.assertEqual(self.sandbox.execute("return 1").result, 1)

    def test_terminate_before_the_run_is_known(self):
        """As from a tool that is called before the client knows that the run has started."""
        start, cancelled = self.client._start, []

        def late(request):
            run = start(request)
            self.sandbox.terminate()
            cancel = run.cancel
            run.cancel = lambda: (cancelled.append(True), cancel())
            return run

        self.client._start = late
        self.addCleanup(lambda: vars(self.client).pop("_start", None))
        self.assertEqual((self.sandbox.execute("while True: pass").error, cancelled), ("Execution was terminated", [True]))

    def test_environment(self):
        os.environ["CLOCHE_TEST_SECRET"] = "x"
        self.addCleanup(os.environ.pop, "CLOCHE_TEST_SECRET")
        code = "import os\nreturn os.environ.get('CLOCHE_TEST_SECRET')"
        self.assertIsNone(self.sandbox.execute(code).result)
        self.assertEqual(cloche.SubprocessSandbox(self.client, minimal_env=False).execute(code).result, "x")

    def test_nothing_is_left_for_the_next(self):
        self.sandbox.execute("import builtins\nbuiltins.x = 1\nglobal y\ny = 2")
        self.assertIn("NameError", self.sandbox.execute("return x").error)
        self.assertIn("NameError", self.sandbox.execute("return y").error)

    def test_bad_input(self):
        for call, message in ((lambda: cloche.SubprocessSandbox(self.client, language="ruby"), "must be one of python, javascript"),
                              (lambda: cloche.SubprocessSandbox(self.client, timeout=-1), "timeout must be an integer"),
                              (lambda: self.sandbox.execute(1), "code must be text"),
                              (lambda: self.sandbox.execute("1", [ADD]), "tools need a tool_executor"),
                              (lambda: self.sandbox.execute("1", [{"name": "a b"}], execute_tool), r"tools\[0\] must have a name"),
                              (lambda: self.sandbox.execute("1", [ADD, ADD], execute_tool), r"tools\[1\]: there is a tool 'add' already"),
                              (lambda: self.sandbox.execute("1", [{"name": "t", "inputSchema": {"type": "x"}}], execute_tool),
                               r"tools\[0\].inputSchema.type is 'x'")):
            with self.assertRaisesRegex(cloche.InvalidArgumentError, message):
                call()
        self.sandbox.close()
        with self.assertRaisesRegex(cloche.InvalidStateError, "was closed"):
            self.sandbox.execute("1")
        self.assertFalse(self.client.closed, "the client is the caller's")


class JavaScript(DaemonCase):
    def test_tools_are_async_functions(self):
        sandbox = cloche.SubprocessSandbox(self.client, language="javascript")
        done = sandbox.execute("function twice(n) { return add({ a: n, b: n }) }\nconsole.log('log'); console.error('bad');\n"
                               "return await Promise.all([twice(1), twice(2)])", [ADD], execute_tool)
        self.assertEqual((done.result, sorted(done.logs), done.error), ([2, 4], ["[stderr] bad", "[stdout] log"], None))

    def test_errors(self):
        sandbox = cloche.SubprocessSandbox(self.client, language="javascript")
        self.assertEqual(sandbox.execute("throw new RangeError('m')").error, "RangeError: m")
        done = sandbox.execute("try { await add({}) } catch (e) { return e.message }", [ADD], execute_tool)
        self.assertEqual(done.result, "add.a is required")


class Asynchronous(AsyncDaemonCase):
    async def test_execute(self):
        sandbox = cloche.AsyncSubprocessSandbox(self.client)

        async def run(name, params):
            await asyncio.sleep(0)
            return params["a"] + params["b"]
        done = await sandbox.execute("print('log')\nreturn add(a=1, b=2)", [ADD], run)
        self.assertEqual((done.result, done.logs, done.error), (3, ["[stdout] log"], None))

    async def test_a_timeout_of_one_execution_and_of_the_start(self):
        sandbox = cloche.AsyncSubprocessSandbox(self.client)
        self.assertEqual((await sandbox.execute("while True: pass", timeout=300)).error, "Execution timed out after 300 ms")

        async def say_nothing(reader, writer):
            await reader.read()
            writer.close()
        silent = await asyncio.start_server(say_nothing, "127.0.0.1")
        port = silent.sockets[0].getsockname()[1]
        never = cloche.AsyncSubprocessSandbox(cloche.AsyncCloche(f"127.0.0.1:{port}", token="x"), timeout=300)
        self.assertEqual((await never.execute("return 1")).error, "Execution timed out after 300 ms")
        silent.close()
        await never.close()
        self.assertEqual((await sandbox.execute("return {1}")).result, [1])

    async def test_terminate(self):
        sandbox = cloche.AsyncSubprocessSandbox(self.client)
        task = asyncio.create_task(sandbox.execute("begun()\nwhile True: pass", [{"name": "begun"}], lambda *call: sandbox.terminate()))
        self.assertEqual((await task).error, "Execution was terminated")
        self.assertFalse(sandbox.is_running())

    async def test_a_client_of_its_own(self):
        from tests.real import program
        os.environ["CLOCHE_DAEMON"], before = program(), os.environ.get("CLOCHE_DAEMON")
        try:
            async with cloche.AsyncSubprocessSandbox() as sandbox:
                self.assertEqual((await sandbox.execute("return 1")).result, 1)
            with await asyncio.to_thread(cloche.SubprocessSandbox) as sandbox:
                self.assertEqual(sandbox.execute("return 1").result, 1)
        finally:
            if before is None:
                del os.environ["CLOCHE_DAEMON"]
            else:
                os.environ["CLOCHE_DAEMON"] = before


if __name__ == "__main__":
    unittest.main()
