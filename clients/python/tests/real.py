"""The real daemon, for the tests that need one; CLOCHE_MUST_WORK=1 makes its absence a failure."""
import functools
import os
import unittest

import cloche
from cloche import _daemon


@functools.cache
def program():
    try:
        return _daemon.find_program()
    except cloche.DaemonNotFoundError as error:
        if os.environ.get("CLOCHE_MUST_WORK") == "1":
            raise
        raise unittest.SkipTest(str(error)) from None


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def is_alive(pid):
    """Zombies do not count either: /proc lists them, but they have no command line."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return bool(file.read())
    except FileNotFoundError:
        return False


class DaemonCase(unittest.TestCase):
    """One daemon for all tests of a class."""

    @classmethod
    def setUpClass(cls):
        cls.client = cloche.Cloche(daemon=program())
        cls.addClassCleanup(cls.client.close)


class AsyncDaemonCase(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self):
        self.client = cloche.AsyncCloche(daemon=program())
        self.addAsyncCleanup(self.client.close)
        await self.client.connect()
