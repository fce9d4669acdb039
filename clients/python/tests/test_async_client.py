"""The asyncio client against the real daemon: differences from the other client, and many calls at once."""
import asyncio
import contextvars
import os
import time
import unittest

import cloche
from tests.real import AsyncDaemonCase, is_alive, program

ENDLESS = "def f():\n    while True: pass"


class Calls(AsyncDaemonCase):
    async def test_every_kind(self):
        self.assertEqual((await self.client.call("python", "def f(a, b): return a + b", args=[1], kwargs={"b": 2})).unwrap(), 3)
        script = await self.client.script("bash", "cat; exit 4", stdin=b"\xff")
        self.assertEqual((script.stdout_bytes, script.exit_code), (b"\xff", 4))
        self.assertEqual((await self.client.evaluate("export default 1")).exports, {"default": 1})
        self.assertIn("python", [language.name for language in await self.client.languages()])
        self.assertTrue(await self.client.guards())
        self.assertEqual((await self.client.stats())["connections"], 1)

    async def test_sixty_four_at_once(self):
        results = await asyncio.gather(*(self.client.call("python", "def f(x): return [x, ask(x)]", args=[n], globals={"ask": lambda x: -x})
                                         for n in range(64)))
        self.assertEqual([result.unwrap() for result in results], [[n, -n] for n in range(64)])

    async def test_errors_have_a_class(self):
        with self.assertRaises(cloche.UnknownLanguageError):
            await self.client.call("pythn", "1")
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "args must be"):
            await self.client.call("python", "1", args="x")

    async def test_prefixes(self):
        async with self.client.prefix("python", "x = [1]\ndef ask(): return answer()", globals={"answer": lambda: "old"}) as prefix:
            self.assertEqual((await prefix.call("x.append(2)\nreturn x")).unwrap(), [1, 2])
            self.assertEqual((await prefix.run("return x")).unwrap(), [1])
            self.assertEqual((await prefix.call(function="ask", globals={"answer": lambda: "new"})).unwrap(), "new")
        self.assertFalse(prefix.alive)
        with self.assertRaisesRegex(cloche.InvalidStateError, "was disposed of"):
            await prefix.call("return x")
        again = await self.client.prefix("javascript", "globalThis.n = 1", bare=True)
        self.assertEqual((await again.run("export default n")).unwrap(), {"default": 1})
        await again.dispose()
        self.assertEqual(await self.client.prefixes(), [])

    async def test_output_as_it_comes(self):
        """The first line arrives while the script still waits."""
        first = asyncio.Event()

        async def on_output(stream, data):
            if data.startswith(b"one"):
                first.set()
        task = asyncio.create_task(self.client.script("bash", "echo one; sleep 60", on_output=on_output))
        await asyncio.wait_for(first.wait(), 30)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task


class HostFunctions(AsyncDaemonCase):
    async def test_coroutines_meet_each_other(self):
        barrier = asyncio.Barrier(4)

        async def meet(n):
            await barrier.wait()
            return n
        code = "async function f() { return await Promise.all([meet(1), meet(2), meet(3), meet(4)]) }"
        result = await self.client.call("javascript", code, globals={"meet": meet})
        self.assertEqual(result.unwrap(), [1, 2, 3, 4])

    async def test_those_that_block_do_not_hold_the_loop(self):
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                await asyncio.sleep(0.01)
                ticks += 1
        def block():
            until = ticks + 5
            deadline = time.monotonic() + 20
            while ticks < until and time.monotonic() < deadline:
                time.sleep(0.01)
            return ticks >= until
        ticker = asyncio.create_task(tick())
        result = await self.client.call("python", "def f(): return block()", globals={"block": block})
        ticker.cancel()
        self.assertTrue(result.unwrap())

    async def test_the_callers_context(self):
        variable = contextvars.ContextVar("v")
        variable.set("mine")

        async def later():
            return variable.get()
        result = await self.client.call("python", "def f(): return [now(), later()]", globals={"now": variable.get, "later": later})
        self.assertEqual(result.unwrap(), ["mine", "mine"])

    async def test_a_function_may_run_code_itself(self):
        async def inner(n):
            return (await self.client.call("python", "def f(n): return n * 2", args=[n])).unwrap()
        self.assertEqual((await self.client.call("python", "def f(): return inner(21)", globals={"inner": inner})).unwrap(), 42)

    async def test_errors_by_name(self):
        async def find():
            raise LookupError("nothing")
        result = await self.client.call("python", "def f():\n    try: find()\n    except LookupError as e: return str(e)",
                                        globals={"find": find})
        self.assertEqual(result.unwrap(), "nothing")

    async def test_a_callable_object(self):
        class Tool:
            async def __call__(self, x):
                return x + 1
        self.assertEqual((await self.client.call("python", "def f(): return tool(1)", globals={"tool": Tool()})).unwrap(), 2)


class Cancelling(AsyncDaemonCase):
    async def settled(self):
        """The run has ended, and the connection still works."""
        async with asyncio.timeout(20):
            while (await self.client.stats())["runs"]["now"]:
                await asyncio.sleep(0.01)
        self.assertEqual((await self.client.call("python", "1")).unwrap(), 1)
        self.assertEqual(self.client._core.waiting, 0)

    async def cancelled(self, delay, call):
        task = asyncio.create_task(call)
        await asyncio.sleep(delay)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await self.settled()

    async def test_at_each_stage(self):
        for delay in (0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3):
            with self.subTest(delay):
                await self.cancelled(delay, self.client.call("python", ENDLESS))

    async def test_a_cold_one(self):
        for delay in (0.005, 0.05):
            await self.cancelled(delay, self.client.call("python", ENDLESS, warm=False))

    async def test_a_set_up(self):
        async def make():
            await self.client.prefix("python", "while True: pass")
        await self.cancelled(0.3, make())

    async def test_while_host_functions_are_asked(self):
        asked = asyncio.Event()
        ended = asyncio.Event()

        async def wait():
            asked.set()
            try:
                await asyncio.sleep(60)
            finally:
                ended.set()
        task = asyncio.create_task(self.client.call("python", "def f(): wait()", globals={"wait": wait}))
        await asyncio.wait_for(asked.wait(), 20)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(ended.wait(), 20)
        await self.settled()

    async def test_many_that_wait_for_their_turn(self):
        tasks = [asyncio.create_task(self.client.call("python", ENDLESS)) for _ in range(16)]
        await asyncio.sleep(0.05)
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual({type(end) for end in ends}, {asyncio.CancelledError})
        await self.settled()

    async def test_by_timeout(self):
        with self.assertRaises(cloche.RunTimeoutError) as caught:
            await self.client.call("python", ENDLESS, timeout=0.3)
        self.assertEqual(caught.exception.result.status, "terminated")
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.3):
                await self.client.call("python", ENDLESS)
        await self.settled()

    async def test_one_of_two(self):
        first = asyncio.create_task(self.client.call("python", ENDLESS))
        second = self.client.call("python", "2")
        await asyncio.sleep(0.05)
        first.cancel()
        self.assertEqual((await second).unwrap(), 2)


class Daemons(unittest.IsolatedAsyncioTestCase):
    async def test_killed(self):
        client = cloche.AsyncCloche(daemon=program())
        self.addAsyncCleanup(client.close)
        await client.connect()
        tasks = [asyncio.create_task(client.call("python", ENDLESS)) for _ in range(8)]
        await asyncio.sleep(0.2)
        os.kill(client.daemon_pid, 9)
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        self.assertEqual({type(end) for end in ends}, {cloche.ConnectionLostError})
        self.assertIn("killed by signal 9", str(ends[0]))
        with self.assertRaises(cloche.ConnectionLostError):
            await client.call("python", "1")

    async def test_the_first_request_connects(self):
        client = cloche.AsyncCloche(daemon=program())
        self.addAsyncCleanup(client.close)
        results = await asyncio.gather(*(client.call("python", str(n)) for n in range(3)))
        self.assertEqual([result.unwrap() for result in results], [0, 1, 2])
        self.assertEqual((await client.stats())["connectionsTotal"], 1)

    async def test_it_ends_with_its_client(self):
        async with cloche.AsyncCloche(daemon=program()) as client:
            daemon = client.daemon_pid
            task = asyncio.create_task(client.call("python", ENDLESS))
            await asyncio.sleep(0.1)
        self.assertFalse(is_alive(daemon))
        with self.assertRaisesRegex(cloche.ConnectionLostError, "the client was closed"):
            await task

    async def test_a_forked_child_is_told_and_disturbs_nothing(self):
        async with cloche.AsyncCloche(daemon=program()) as client:
            task = asyncio.create_task(client.call("python", "import time\ndef f():\n    time.sleep(0.3)\n    return 'parent'"))
            await asyncio.sleep(0.05)
            pid = os.fork()
            if pid == 0:
                status = 1
                try:
                    asyncio.run(client.stats())
                except cloche.InvalidStateError as error:
                    status = 0 if "make another here" in str(error) else 2
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            self.assertEqual((await task).value, "parent")

    async def test_closed_before_it_was_used(self):
        client = cloche.AsyncCloche(daemon=program())
        await client.close()
        with self.assertRaisesRegex(cloche.ConnectionLostError, "the client was closed"):
            await client.call("python", "1")

    async def test_no_daemon(self):
        with self.assertRaises(cloche.DaemonNotFoundError):
            await cloche.AsyncCloche(daemon="/nowhere/cloched").connect()
        with self.assertRaisesRegex(cloche.ConnectionLostError, "exit status 1"):
            await cloche.AsyncCloche(daemon="/bin/false").connect()


if __name__ == "__main__":
    unittest.main()
