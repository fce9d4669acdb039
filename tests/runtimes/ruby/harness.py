"""Drives the Ruby agent over a socketpair at descriptor 3, without a box: the Python agent's harness with another runtime."""
import importlib.util
import os
import pathlib
import sys

sys.setrecursionlimit(5000)  # vectors nest deeply
ROOT = pathlib.Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "runtimes" / "ruby"
VECTORS = ROOT / "tests" / "vectors"


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


PYTHON_TESTS = ROOT / "tests" / "runtimes" / "python"
base = load("python_harness", PYTHON_TESTS / "harness.py")
base.RUNTIME = RUNTIME
base.PYTHON = os.environ.get("CLOCHE_TEST_RUBY", "/usr/bin/ruby")
Agent = base.Agent
Agent.__init__.__defaults__ = (RUNTIME,)


class AgentCase(base.AgentCase):
    FILENAME = "main.rb"

    def answer(self, code, *args, **params):
        return super().answer(code, *args, filename=self.FILENAME, **params)

    def request(self, **params):
        return self.agent.request(filename=self.FILENAME, **params)

    def assertAlive(self):
        self.assertEqual(self.call("def alive_(x) = x + 1", 41, function="alive_"), 42)


def python_tests(name):
    """A file of the Python agent's tests, for what it has in common; it imports its own harness by the name ours has."""
    ours = sys.modules["harness"]
    sys.modules["harness"] = base
    try:
        return load("python_" + name, PYTHON_TESTS / (name + ".py"))
    finally:
        sys.modules["harness"] = ours
