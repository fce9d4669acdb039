"""Promise by promise against the real daemon."""
import asyncio
import contextvars
import datetime
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import cloche
from tests.real import DaemonCase, is_alive, program

ECHO = "def echo(x): return x"


class Calls(DaemonCase):
    def test_a_function_and_its_arguments(self):
        result = self.client.call("python", "def add(a, b=5): return a + b", args=[2], kwargs={"b": 3})
        self.assertEqual((result.value, result.status, result.exit_code, result.meta.signature_source), (5, "success", 0, "inferred"))
        self.assertGreater(result.meta.duration_ms, 0)

    def test_every_language_that_needs_no_compiler(self):
        for language, code in {"python": "def f(x): return x + 1", "javascript": "function f(x) { return x + 1 }",
                               "typescript": "function f(x: number): number { return x + 1 }", "ruby": "def f(x) = x + 1",
                               "php": "function f($x) { return $x + 1; }"}.items():
            with self.subTest(language):
                self.assertEqual(self.client.call(language, code, "f", [41]).unwrap(), 42)

    def test_rich_values_there_and_back(self):
        values = [None, True, 2**70, -0.0, 1.5, "ä\0", b"\0\xff", [1, (2,)], {"a": {"$": 1}, "n\0": 2}, {1: "x"}, {1, 2},
                  datetime.datetime(2026, 11, 21, 10, 20, tzinfo=datetime.timezone.utc)]
        back = self.client.call("python", ECHO, args=[values]).unwrap()
        self.assertEqual(back, [*values[:7], [1, [2]], *values[8:]])

    def test_dates_finer_than_pythons(self):
        expected = datetime.datetime(1970, 1, 1, 0, 0, 0, 123456, datetime.timezone.utc)
        cpp = "#include <chrono>\nusing namespace std::chrono;\nsystem_clock::time_point f() { return system_clock::time_point(nanoseconds(123456789)); }"
        for language, code in (("ruby", "def f = Time.at(0, 123456789, :nsec).utc"), ("cpp", cpp)):
            with self.subTest(language):
                self.assertEqual(self.client.call(language, code).unwrap(), expected)

    def test_large_bytes(self):
        data = os.urandom(8 << 20)
        self.assertEqual(self.client.call("python", ECHO, args=[data]).unwrap(), data)

    def test_references(self):
        value = {"a": [1]}
        value["self"] = value
        with self.assertRaisesRegex(cloche.ValueRefusedError, r"args\[0\]\.self: cycle cannot be sent"):
            self.client.call("python", ECHO, args=[value])
        self.assertTrue(self.client.call("python", "def f(x): return x['self'] is x", args=[value], references=True).unwrap())

    def test_a_network_by_rules(self):
        code = "import urllib.request\ndef f():\n    try: urllib.request.urlopen('http://denied.test/', timeout=5)\n    except OSError: return 'refused'"
        for network in (cloche.Network(["allowed.test"]), {"allow": ["allowed.test"]}):
            result = self.client.call("python", code, network=network)
            (denied,) = result.meta.raw["network"]["denied"]
            self.assertEqual((result.unwrap(), denied["kind"], denied["host"]), ("refused", "dns", "denied.test"))
        self.assertNotIn("network", self.client.call("python", code).meta.raw)
        with self.assertRaisesRegex(cloche.InvalidArgumentError, r"network\.allow\[0\]"):
            self.client.script("python", "", network={"allow": ["10.0.0.1/8"]})

    def test_an_image(self):
        missing = "sha256-" + "f" * 64
        for act in (lambda **image: self.client.call("python", "1", **image), lambda **image: self.client.script("python", "", **image),
                    lambda **image: self.client.evaluate("export const a = 1", **image), lambda **image: self.client.prefix("python", **image),
                    lambda **image: self.client.sandbox("of-an-image", **image)):
            with self.assertRaisesRegex(cloche.NotFoundError, "images"):
                act(image=missing)
            with self.assertRaisesRegex(cloche.NotFoundError, "there is no image"):
                act(image="python")
        self.assertEqual(self.client.call("python", "def f(): return 1").unwrap(), 1)

    def test_an_error_is_a_result(self):
        result = self.client.call("python", "def f():\n    return 1 / 0")
        self.assertEqual((result.status, result.exit_code, result.error.type, result.value), ("error", 1, "ZeroDivisionError", None))
        self.assertIn("line 2", result.error.stack)
        with self.assertRaisesRegex(cloche.RunFailedError, "ZeroDivisionError: division by zero"):
            result.unwrap()

    def test_a_schema(self):
        schema = {"params": [{"name": "n", "type": "integer", "required": True}]}
        code = "def f(n): return n"
        self.assertEqual(self.client.call("python", code, args=[3], schema=schema).unwrap(), 3)
        self.assertIn("n", self.client.call("python", code, args=["x"], schema=schema).error.message)

    def test_arguments_by_index(self):
        self.assertEqual(self.client.call("python", "def f(a=1, b=2): return [a, b]", args=[{"index": 1, "value": 9}]).unwrap(), [1, 9])

    def test_a_crash(self):
        self.assertEqual(self.client.call("python", "import os, signal\ndef f(): os.kill(os.getpid(), signal.SIGSEGV)").status, "crash")

    def test_limits(self):
        result = self.client.call("python", "def f():\n    while True: pass", limits={"wall_ms": 200})
        self.assertEqual((result.status, result.exit_code, result.meta.limits_hit), ("timeout", 124, ["wallMs"]))
        self.assertEqual(self.client.call("python", "1", limits=cloche.Limits(pids=20)).meta.limits["pids"], 20)

    def test_files_in_and_changes_out(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "b")
            path.write_bytes(b"\0\xff")
            result = self.client.call(
                "python", "import os\ndef f():\n    open('new', 'wb').write(open('b', 'rb').read())\n    os.unlink('a')\n"
                "    open('c', 'a').write('2')\n    return os.stat('c').st_mode & 0o777",
                files={"a": "text", "b": path, "c": cloche.File("1", 0o640)})
        self.assertEqual(result.unwrap(), 0o640)
        created, modified, deleted = result.changes.created, result.changes.modified, result.changes.deleted
        self.assertEqual([(change.path, change.content) for change in created], [("/workspace/new", b"\0\xff")])
        self.assertEqual([(change.path, change.content) for change in modified], [("/workspace/c", "12")])
        self.assertEqual([change.path for change in deleted], ["/workspace/a"])

    def test_result_options(self):
        code = "def f(): open('new', 'w').write('x')"
        self.assertEqual(self.client.call("python", code, result_options={"includeChanges": False}).changes.all, [])
        self.assertIsNone(self.client.call("python", code, result_options={"includeContents": False}).changes.created[0].content)

    def test_environment_and_directory(self):
        result = self.client.call("python", "import os\ndef f(): return [os.environ['A'], os.getcwd()]", env={"A": "ä=1"}, workdir="/tmp")
        self.assertEqual(result.unwrap(), ["ä=1", "/tmp"])

    def test_refusals_of_the_daemon_have_a_class(self):
        for kind, message, call in (
                (cloche.UnknownLanguageError, "unknown language 'pythn'", lambda: self.client.call("pythn", "1")),
                (cloche.InvalidArgumentError, "wallMs", lambda: self.client.call("python", "1", limits={"wall_ms": -1})),
                (cloche.InvalidArgumentError, r"\.\.", lambda: self.client.call("python", "1", files={"../x": ""}))):
            with self.assertRaisesRegex(kind, message):
                call()
        self.assertEqual(self.client.call("python", "1").unwrap(), 1)

    def test_about_the_daemon(self):
        languages = {language.name: language for language in self.client.languages()}
        self.assertTrue(languages["python"].warm and languages["javascript"].evaluate)
        self.assertIn("js", languages["javascript"].aliases)
        self.assertIn("seccomp", {guard.name for guard in self.client.guards()})
        self.assertGreaterEqual(self.client.stats()["connections"], 1)


class Scripts(DaemonCase):
    def test_streams_arguments_and_exit_code(self):
        result = self.client.script("python", "import sys\nprint(sys.argv[1:], sys.stdin.read())\nprint('e', file=sys.stderr)\nsys.exit(3)",
                                    ["a", "b c"], stdin="in")
        self.assertEqual((result.stdout, result.stderr, result.exit_code, result.status), ("['a', 'b c'] in\n", "e\n", 3, "error"))

    def test_bytes_are_exact(self):
        data = bytes(range(256))
        self.assertEqual(self.client.script("bash", "cat", stdin=data).stdout_bytes, data)

    def test_output_as_it_comes(self):
        """The first line arrives while the script still waits for further input."""
        seen = []
        run = self.client.start_script("python", "import time\nprint('one', flush=True)\ntime.sleep(60)",
                                       on_output=lambda stream, data: (seen.append((stream, data)), run.cancel()))
        self.assertEqual((run.wait().status, seen), ("terminated", [("stdout", b"one\n")]))

    def test_output_of_a_call(self):
        seen = []
        result = self.client.call("python", "import sys\ndef f():\n    print('o')\n    print('e', file=sys.stderr)",
                                  on_output=lambda *output: seen.append(output))
        self.assertEqual((sorted(seen), result.stdout, result.stderr), ([("stderr", b"e\n"), ("stdout", b"o\n")], "o\n", "e\n"))


class Modules(DaemonCase):
    def test_exports_and_console(self):
        result = self.client.evaluate("console.log('a', 1); console.error('b')\n"
                                      "export default new Map([[1, 2]]); export const n = 10n ** 20n")
        self.assertEqual((result.exports, result.console.stdout, result.console.stderr),
                         ({"default": {1: 2}, "n": 10**20}, ["a 1"], ["b"]))

    def test_a_shared_object_stays_one(self):
        exports = self.client.evaluate("const o = {}; o.self = o; export default o").unwrap()
        self.assertIs(exports["default"]["self"], exports["default"])

    def test_errors_have_a_code(self):
        error = self.client.evaluate("const e = new TypeError('m'); e.status = 4; throw e").error
        self.assertEqual((error.code, error.type, error.message, error.fields), ("ERR_USER_CODE", "TypeError", "m", {"status": 4}))
        self.assertEqual(self.client.evaluate("export default }").error.code, "ERR_COMPILE")
        self.assertEqual(self.client.evaluate("import 'nowhere'").error.code, "ERR_MODULE_NOT_FOUND")

    def test_imports_from_text_and_from_the_host(self):
        result = self.client.evaluate("import { twice } from 'text'; import { db, version } from 'host';\n"
                                      "export default [twice(2), await db.users.get(7), version]",
                                      imports={"text": "export const twice = x => 2 * x",
                                               "host": {"db": {"users": {"get": lambda key: {"id": key}}}, "version": 3}})
        self.assertEqual(result.unwrap()["default"], [4, {"id": 7}, 3])

    def test_expressions_and_shims(self):
        result = self.client.evaluate("export default [answer, await load('x')]", globals={
            "answer": cloche.Expression("6 * 7"), "load": cloche.Shim(lambda name: {"text": name}, "r => r.text.toUpperCase()")})
        self.assertEqual(result.unwrap()["default"], [42, "X"])

    def test_a_bare_prefix(self):
        with self.client.prefix("javascript", "globalThis.n = 1", bare=True, globals={"f": lambda: "old"}) as prefix:
            self.assertEqual(prefix.run("n += 1; export default n").unwrap()["default"], 2)
            self.assertEqual(prefix.run("export default [n, await f()]").unwrap()["default"], [1, "old"])
            self.assertEqual(prefix.run("export default await f()", globals={"f": lambda: "new"}).unwrap()["default"], "new")


class HostFunctions(DaemonCase):
    def test_sync_and_async(self):
        async def later(x):
            await asyncio.sleep(0.001)
            return x + 1
        result = self.client.call("python", "def f(): return now(1) + later(2)", globals={"now": lambda x: x + 1, "later": later})
        self.assertEqual(result.unwrap(), 5)

    def test_several_at_once(self):
        barrier = threading.Barrier(4)

        def meet(n):
            barrier.wait(20)
            return n
        result = self.client.call("javascript", "async function f() { return await Promise.all([meet(1), meet(2), meet(3), meet(4)]) }",
                                  globals={"meet": meet})
        self.assertEqual(result.unwrap(), [1, 2, 3, 4])

    def test_an_error_arrives_by_its_name_and_can_be_caught(self):
        def find(name):
            error = LookupError(f"no {name}")
            error.status = 404
            raise error
        result = self.client.call("python", "def f():\n    try: find('x')\n    except LookupError as e: return [str(e), e.status]",
                                  globals={"find": find})
        self.assertEqual(result.unwrap(), ["no x", 404])

    def test_an_error_nobody_catches(self):
        def fail():
            raise PermissionError("not for you")
        self.assertEqual(str(self.client.call("python", "def f(): fail()", globals={"fail": fail}).error), "PermissionError: not for you")

    def test_the_hosts_stack_stays_here(self):
        def secret_name():
            raise ValueError("m")
        result = self.client.call("python", "def f(): g()", globals={"g": secret_name})
        self.assertNotIn("secret_name", str(result.raw))
        self.assertNotIn(__file__, str(result.raw))

    def test_rich_values_both_ways(self):
        got = []
        result = self.client.call("javascript", "async function f() { return await host({ b: new Uint8Array([1, 2]), d: new Date(0) }) }",
                                  globals={"host": lambda x: got.append(x) or {"m": {1: b"x"}}})
        self.assertEqual(got, [{"b": b"\1\2", "d": datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)}])
        self.assertEqual(result.unwrap(), {"m": {1: b"x"}})

    def test_constants_and_nested_names(self):
        result = self.client.call("python", "def f(): return [VERSION, db.users.get(2)]", globals={
            "VERSION": [1, 2], "db": {"users": {"get": lambda n: n * 2}}})
        self.assertEqual(result.unwrap(), [[1, 2], 4])

    def test_more_calls_than_permitted(self):
        calls = []
        result = self.client.call("python", "def f():\n    while True:\n        try: g()\n        except Exception: pass",
                                  globals={"g": lambda: calls.append(1)}, limits={"bridge_calls": 3})
        self.assertEqual((result.status, result.error.type, len(calls)), ("error", "BridgeLimit", 3))

    def test_the_callers_context(self):
        variable = contextvars.ContextVar("v")
        variable.set("mine")

        async def later():
            return variable.get()
        result = self.client.call("python", "def f(): return [now(), later()]", globals={"now": variable.get, "later": later})
        self.assertEqual(result.unwrap(), ["mine", "mine"])

    def test_a_function_may_run_code_itself(self):
        inner = lambda n: self.client.call("python", "def f(n): return n * 2", args=[n]).unwrap()
        self.assertEqual(self.client.call("python", "def f(): return inner(21)", globals={"inner": inner}).unwrap(), 42)

    def test_what_hostile_code_sends_is_refused_before_the_function_is_called(self):
        code = ("def f():\n    said = []\n    for value in ({n * (2**61 - 1) for n in range(1, 3000)}, 10**5000, {(): [{1: 2}]}):\n"
                "        try: said.append(take(value))\n        except Exception as error: said.append(str(error))\n    return said")
        taken = []
        said = self.client.call("python", code, globals={"take": taken.append}).unwrap()
        self.assertEqual(said, ["args[0]: 2999 keys have but few hashes among them", said[1], None])
        self.assertIn("bigint of 5001 figures", said[1])
        self.assertEqual(taken, [{(): [{1: 2}]}])

    def test_names_that_mean_something_elsewhere(self):
        code = """async function f() { return await take(JSON.parse('{"__proto__": {"a": 1}, "constructor": 2}')) }"""
        got = self.client.call("javascript", code, globals={"take": lambda value: [value, type(value).__name__]})
        self.assertEqual(got.unwrap(), [{"__proto__": {"a": 1}, "constructor": 2}, "dict"])

    def test_a_function_that_never_answers_does_not_hold_the_run(self):
        over = threading.Event()
        self.addCleanup(over.set)
        result = self.client.call("python", "def f(): wait()", globals={"wait": lambda: over.wait(60)}, limits={"wall_ms": 300})
        self.assertEqual(result.status, "timeout")


class Prefixes(DaemonCase):
    def test_runs_begin_where_the_set_up_ended(self):
        with self.client.prefix("python", "rows = list(range(5))\ndef total(): return sum(rows)") as prefix:
            self.assertEqual(prefix.call("rows.append(100)\nreturn total()").unwrap(), 110)
            self.assertEqual(prefix.call("return total()").unwrap(), 10)
            self.assertEqual(prefix.call(function="total").unwrap(), 10)
            self.assertEqual(prefix.call("def f(n): return rows[n]", args=[2]).unwrap(), 2)
            self.assertEqual(prefix.run("return 1").unwrap(), 1)
            self.assertIn(prefix.id, [row.prefix for row in self.client.prefixes()])

    def test_disposed(self):
        prefix = self.client.prefix("python", "x = 1")
        self.assertTrue(prefix.alive)
        prefix.dispose()
        prefix.dispose()
        self.assertFalse(prefix.alive)
        with self.assertRaisesRegex(cloche.InvalidStateError, "was disposed of"):
            prefix.call("return x")
        self.assertNotIn(prefix.id, [row.prefix for row in self.client.prefixes()])

    def test_set_up_that_fails(self):
        with self.assertRaises(cloche.PrefixError) as caught:
            self.client.prefix("python", "x = 1\n1 / 0")
        self.assertEqual((caught.exception.failure.type, caught.exception.fault), ("ZeroDivisionError", "GUEST"))

    def test_functions_may_be_others_in_a_run(self):
        with self.client.prefix("python", "def ask(): return answer()", globals={"answer": lambda: "old"}) as prefix:
            self.assertEqual(prefix.call("return ask()").unwrap(), "old")
            self.assertEqual(prefix.call("return ask()", globals={"answer": lambda: "new"}).unwrap(), "new")
            self.assertEqual(prefix.call("return ask()").unwrap(), "old")

    def test_files_of_the_set_up(self):
        with self.client.prefix("python", "text = open('a').read()", files={"a": "kept"}) as prefix:
            self.assertEqual(prefix.call("return text + open('a').read()").unwrap(), "keptkept")

    def test_named_ones_are_found_again(self):
        prefix = self.client.prefix("python", "def ask(): return answer()", name="kept", globals={"answer": lambda: 1})
        try:
            again = self.client.find_prefix("kept", globals={"answer": lambda: 2})
            self.assertEqual((again.id, again.language, again.call("return ask()").unwrap()), (prefix.id, "python", 2))
        finally:
            prefix.dispose()
        with self.assertRaisesRegex(cloche.NotFoundError, "no prefix 'kept'"):
            self.client.find_prefix("kept")


class Cancelling(DaemonCase):
    def setUp(self):
        self.before = self.client.stats()["runs"]["total"]

    def tearDown(self):
        """The run has ended, and the connection still works."""
        deadline = time.monotonic() + 20
        while self.client.stats()["runs"]["now"] and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertEqual(self.client.stats()["runs"]["now"], 0)
        self.assertEqual(self.client.call("python", "1").unwrap(), 1)

    def test_by_timeout(self):
        stdout, timeout = "", 0.5
        while not stdout and timeout < 60:  # a busy machine may not have started by then
            with self.assertRaises(cloche.RunTimeoutError) as caught:
                self.client.call("python", "def f():\n    print('begun', flush=True)\n    while True: pass", timeout=timeout)
            stdout, timeout = caught.exception.result.stdout, 4 * timeout
            self.assertEqual(caught.exception.result.status, "terminated")
        self.assertEqual(stdout, "begun\n")

    def test_from_another_thread(self):
        run = self.client.start_call("python", "def f():\n    while True: pass")
        threading.Timer(0.2, run.cancel).start()
        result = run.wait()
        self.assertEqual((result.status, result.exit_code, run.done), ("terminated", 143, True))
        run.cancel()
        self.assertIs(run.wait(), result)

    def test_at_once(self):
        for _ in range(10):
            run = self.client.start_call("python", "import time\ndef f(): time.sleep(60)")
            run.cancel()
            self.assertEqual(run.wait().status, "terminated")

    def test_while_it_waits_for_its_turn(self):
        runs = [self.client.start_call("python", "import time\ndef f(): time.sleep(60)") for _ in range(12)]
        for run in reversed(runs):
            run.cancel()
        self.assertEqual({run.wait().status for run in runs}, {"terminated"})

    def test_while_a_host_function_is_asked(self):
        asked, over = threading.Event(), threading.Event()
        self.addCleanup(over.set)

        def wait():
            asked.set()
            over.wait(60)
        run = self.client.start_call("python", "def f(): wait()", globals={"wait": wait})
        self.assertTrue(asked.wait(20))
        run.cancel()
        self.assertEqual(run.wait().status, "terminated")

    def test_after_the_end(self):
        run = self.client.start_call("python", "1")
        self.assertEqual(run.wait().value, 1)
        run.cancel()
        self.assertEqual(run.wait().value, 1)

    def test_a_set_up(self):
        with self.assertRaises(cloche.RunTimeoutError):
            self.client.prefix("python", "while True: pass", timeout=0.5)

    def test_leaving_the_block_of_a_run(self):
        with self.client.start_call("python", "def f():\n    while True: pass") as run:
            pass
        self.assertEqual(run.wait().status, "terminated")

    def test_the_run_beside_it_goes_on(self):
        endless = self.client.start_call("python", "def f():\n    while True: pass")
        self.assertEqual(self.client.call("python", "2").unwrap(), 2)
        endless.cancel()
        self.assertEqual(endless.wait().status, "terminated")


class Threads(DaemonCase):
    def test_one_client_in_many_threads(self):
        problems = []

        def work(number):
            try:
                for step in range(5):
                    value = [number, step]
                    got = self.client.call("python", "def f(x): return [x, ask(x)]", args=[value], globals={"ask": lambda x: [x, number]})
                    self.assertEqual(got.unwrap(), [value, [value, number]])
            except BaseException as problem:
                problems.append(problem)
        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])

    def test_started_here_awaited_there(self):
        run, got = self.client.start_call("python", "1"), []
        threads = [threading.Thread(target=lambda: got.append(run.wait())) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual([result.value for result in got], [1, 1, 1])


def in_child(body):
    """Fork; the exit status says whether `body` finished."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            body()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class Forks(DaemonCase):
    def test_a_child_is_told_and_disturbs_nothing(self):
        run = self.client.start_call("python", "import time\ndef f():\n    time.sleep(0.3)\n    return 'parent'")

        def child():
            for use in (self.client.stats, lambda: self.client.start_call("python", "1"), lambda: run.wait()):
                try:
                    use()
                except cloche.InvalidStateError as error:
                    assert "belongs to" in str(error), error
                else:
                    raise AssertionError(use)
            run.cancel()
            self.client.close()
        self.assertEqual(in_child(child), 0)
        self.assertEqual(run.wait().value, "parent")

    def test_a_child_has_clients_of_its_own(self):
        def child():
            with cloche.Cloche(daemon=program()) as client:
                assert client.call("python", "def f(): return 2").unwrap() == 2
        self.assertEqual(in_child(child), 0)
        self.assertEqual(self.client.call("python", "1").unwrap(), 1)

    def test_a_child_that_lives_on_does_not_keep_the_daemon(self):
        reader, writer = os.pipe()
        with cloche.Cloche(daemon=program()) as client:
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            daemon = client.daemon_pid
        os.close(reader)
        self.assertFalse(is_alive(daemon))
        os.close(writer)
        os.waitpid(pid, 0)


class Daemons(unittest.TestCase):
    def test_killed(self):
        client = cloche.Cloche(daemon=program())
        self.addCleanup(client.close)
        runs = [client.start_call("python", "def f():\n    while True: pass") for _ in range(4)]
        client.stats()
        os.kill(client.daemon_pid, 9)
        for run in runs:
            with self.assertRaisesRegex(cloche.ConnectionLostError, "killed by signal 9"):
                run.wait(30)
        with self.assertRaises(cloche.ConnectionLostError):
            client.call("python", "1")

    def test_killed_while_a_host_function_is_asked(self):
        client = cloche.Cloche(daemon=program())
        self.addCleanup(client.close)
        with self.assertRaises(cloche.ConnectionLostError):
            client.call("python", "def f(): die()", globals={"die": lambda: os.kill(client.daemon_pid, 9)}, timeout=30)

    def test_killed_in_the_block_of_a_prefix(self):
        client = cloche.Cloche(daemon=program())
        self.addCleanup(client.close)
        with self.assertRaises(cloche.ConnectionLostError), client.prefix("python", "x = 1") as prefix:
            os.kill(client.daemon_pid, 9)
            prefix.call("return x")
        self.assertFalse(prefix.alive)

    def test_a_program_that_is_no_daemon(self):
        with self.assertRaisesRegex(cloche.ConnectionLostError, "exit status 1"):
            cloche.Cloche(daemon="/bin/false")

    def test_what_a_dying_daemon_said(self):
        with self.assertRaisesRegex(cloche.ConnectionLostError, "(?s)cloched: exit status.*no-such-option"):
            cloche.Cloche(daemon=program(), daemon_options=["--no-such-option"])

    def test_it_ends_with_its_client(self):
        with cloche.Cloche(daemon=program()) as client:
            daemon = client.daemon_pid
            self.assertTrue(is_alive(daemon))
            run = client.start_call("python", "def f():\n    while True: pass")
        self.assertFalse(is_alive(daemon))
        with self.assertRaises(cloche.ConnectionLostError):
            run.wait()

    def test_it_ends_with_its_process(self):
        here = pathlib.Path(__file__).resolve().parents[1]
        code = (f"import cloche, os\nclient = cloche.Cloche(daemon={program()!r})\nclient.start_call('python', 'while True: pass')\n"
                "print(client.daemon_pid, flush=True)\nos._exit(0)")
        out = subprocess.run(["python3", "-c", code], cwd=here, capture_output=True, text=True, timeout=60).stdout
        deadline = time.monotonic() + 20
        while is_alive(int(out)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(is_alive(int(out)))


def listening(case, *options, where):
    """A daemon started by others."""
    process = subprocess.Popen([program(), *options], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
    case.addCleanup(process.stderr.close)
    case.addCleanup(process.wait)
    case.addCleanup(process.terminate)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            with socket.socket(socket.AF_INET if isinstance(where, tuple) else socket.AF_UNIX) as trial:
                trial.connect(where)
            return process
        except OSError:
            time.sleep(0.02)
    raise AssertionError("the daemon does not listen")


class Programs(unittest.TestCase):
    """Uses of a client by real programs."""

    def start(self, code):
        here = pathlib.Path(__file__).resolve().parents[1]
        process = subprocess.Popen(["python3", "-X", "dev", "-c", f"import cloche\nclient = cloche.Cloche(daemon={program()!r})\n" + code],
                                   cwd=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def test_an_interrupt_ends_the_run(self):
        process = self.start("try:\n    client.call('python', 'print(1, flush=True)\\nwhile True: pass', "
                             "on_output=lambda *output: print('begun', flush=True))\n"
                             "except KeyboardInterrupt:\n"
                             "    import time\n"
                             "    while client.stats()['runs']['now']: time.sleep(0.01)\n"
                             "    runs = client.stats()['runs']\n"
                             "    print('ended', runs['byStatus']['terminated'] or runs)\nclient.close()")
        self.assertEqual(process.stdout.readline(), "begun\n")
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.communicate(timeout=60), ("ended 1\n", ""))

    def test_one_that_closes_nothing_ends_all_the_same(self):
        process = self.start("client.start_call('python', 'f()', globals={'f': lambda: __import__('time').sleep(1000)})\n"
                             "import time; time.sleep(0.5)\nprint(client.daemon_pid)")
        out, err = process.communicate(timeout=60)
        self.assertNotIn("Traceback", err)
        deadline = time.monotonic() + 20
        while is_alive(int(out)) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(is_alive(int(out)))


class Addresses(unittest.TestCase):
    def test_a_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            listening(self, "--socket", folder + "/s", where=folder + "/s")
            with cloche.Cloche(folder + "/s") as client, cloche.Cloche("unix:" + folder + "/s") as other:
                self.assertEqual(client.call("python", "1").unwrap() + other.call("python", "2").unwrap(), 3)
                self.assertIsNone(client.daemon_pid)
                with client.prefix("python", "x = 1") as mine, self.assertRaises(cloche.NotFoundError):
                    other.find_prefix(mine.id)
            self.doCleanups()

    def test_tcp_wants_the_token(self):
        with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            taken.close()
            secret = pathlib.Path(folder, "token")
            secret.write_text("s3cret-token-of-the-test-0123456789\n")
            secret.chmod(0o600)
            listening(self, "--listen", f"127.0.0.1:{port}", "--token-file", str(secret), where=("127.0.0.1", port))
            with cloche.Cloche(f"127.0.0.1:{port}", token=secret.read_text().strip()) as client:
                self.assertEqual(client.call("python", "1").unwrap(), 1)
            for token in (None, "wrong"):
                with self.assertRaises(cloche.UnauthorizedError):
                    cloche.Cloche(f"127.0.0.1:{port}", token=token)
            self.doCleanups()


if __name__ == "__main__":
    unittest.main()
