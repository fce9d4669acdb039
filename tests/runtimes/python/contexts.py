"""Contexts of the Python agent, one for each test."""
import subprocess
import unittest

import harness
from harness import PYTHON, Agent
import context_process

MISSING = subprocess.run([PYTHON, "-c", "import IPython, numpy, pandas, matplotlib, PIL"], capture_output=True, text=True).stderr
needs_libraries = unittest.skipIf(MISSING, "the interpreter lacks a library of notebooks: %s" % MISSING.strip().rpartition("\n")[2])


class Context(context_process.Context):
    def __init__(self):
        super().__init__(Agent(), language="python")


class Printed:
    def printed_by(self, code):
        """The output of a cell that succeeds."""
        self.run_cell(code + "\nprint('<end>')")
        return self.context.printed("<end>").partition("<end>")[0]


@needs_libraries
class ContextCase(Printed, context_process.ContextCase):
    start = Context

    def setUp(self):
        self.own_context()


@needs_libraries
class SharedCase(Printed, context_process.SharedContextCase):
    """Importing notebook libraries takes longer than a test: the tests of a class share a context,
    whose names are deleted and whose cells are counted from 1 again."""
    start = Context

    def setUp(self):
        super().setUp()
        self.context.cell("%reset -f", silent=True)
        self.context.count = 0
