"""Contexts of the Python agent, one for each test."""
import subprocess
import unittest

from harness import PYTHON, Agent
import context_process

MISSING = subprocess.run([PYTHON, "-c", "import IPython, numpy, pandas, matplotlib, PIL"], capture_output=True, text=True).stderr
needs_libraries = unittest.skipIf(MISSING, "the interpreter lacks a library of notebooks: %s" % MISSING.strip().rpartition("\n")[2])


class Context(context_process.Context):
    def __init__(self):
        super().__init__(Agent(), language="python")


@needs_libraries
class ContextCase(context_process.ContextCase):
    start = Context

    def setUp(self):
        self.own_context()

    def printed_by(self, code):
        """Of a cell that runs well."""
        self.run_cell(code + "\nprint('<end>')")
        return self.context.printed("<end>").partition("<end>")[0]
