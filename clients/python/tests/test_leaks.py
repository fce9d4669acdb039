"""Resources in use are the same after many calls as before: a thousand with CLOCHE_TEST_ALL=1, else a sample."""
import asyncio
import gc
import os
import threading
import unittest

import cloche
from tests.real import AsyncDaemonCase, DaemonCase, descriptors, program

CALLS = 1000 if os.environ.get("CLOCHE_TEST_ALL") == "1" else 200


def children():
    """Child processes of this one."""
    with open(f"/proc/self/task/{threading.get_native_id()}/children") as file:
        return len(file.read().split())


class Sync(DaemonCase):
    def assert_no_more(self, descriptors_before, threads_before):
        """Fewer are fine: a thread of a test before this one may have waited for its daemon's end."""
        self.assertLessEqual(descriptors(), descriptors_before)
        self.assertLessEqual(threading.active_count(), threads_before)

    def test_many_calls(self):
        with self.client.prefix("python", "def f(x): return ask(x)", globals={"ask": lambda x: x}) as prefix:
            self.assertEqual(prefix.call(function="f", args=[b"x"]).unwrap(), b"x")
            ours, theirs = descriptors(), len(os.listdir(f"/proc/{self.client.daemon_pid}/fd"))
            for number in range(CALLS):
                self.assertEqual(prefix.call(function="f", args=[number]).unwrap(), number)
            self.assertEqual(descriptors(), ours)
            # The pool of boxes stays small after any number of runs.
            self.assertLess(len(os.listdir(f"/proc/{self.client.daemon_pid}/fd")), theirs + 40)
        self.assertEqual(self.client._core.waiting, 0)

    def test_what_was_refused_leaves_nothing(self):
        self.client.call("python", "1")
        before = descriptors()
        for _ in range(CALLS):
            with self.assertRaises(cloche.UnknownLanguageError):
                self.client.call("pythn", "1")
        self.assertEqual((descriptors(), self.client._core.waiting), (before, 0))

    def test_clients_that_come_and_go(self):
        def once():
            with cloche.Cloche(daemon=program()) as client:
                client.stats()
        once()
        descriptors_before, threads_before = descriptors(), threading.active_count()
        for _ in range(10):
            once()
        self.assert_no_more(descriptors_before, threads_before)

    def test_clients_that_fail_to_start(self):
        before, threads = descriptors(), threading.active_count()
        for _ in range(20):
            with self.assertRaises(cloche.ConnectionLostError):
                cloche.Cloche(daemon="/bin/false")
            with self.assertRaises(cloche.DaemonNotFoundError):
                cloche.Cloche(daemon=os.path.abspath(__file__))
            with self.assertRaises(cloche.DaemonNotFoundError):
                cloche.Cloche("/nowhere/socket")
        gc.collect()
        self.assert_no_more(before, threads)


class Async(AsyncDaemonCase):
    async def test_many_calls(self):
        async def ask(x):
            return x
        async with self.client.prefix("python", "def f(x): return ask(x)", globals={"ask": ask}) as prefix:
            await prefix.call(function="f", args=[1])
            before = descriptors()
            for begin in range(0, CALLS, 20):
                results = await asyncio.gather(*(prefix.call(function="f", args=[begin + n]) for n in range(20)))
                self.assertEqual([result.unwrap() for result in results], list(range(begin, begin + 20)))
            self.assertEqual(descriptors(), before)
        self.assertEqual((self.client._core.waiting, len(asyncio.all_tasks())), (0, 1))

    async def test_clients_that_come_and_go(self):
        async def once():
            async with cloche.AsyncCloche(daemon=program()) as client:
                await client.stats()
        await once()
        before, kids = descriptors(), children()
        for _ in range(10):
            await once()
        self.assertEqual((descriptors(), children()), (before, kids))


if __name__ == "__main__":
    unittest.main()
