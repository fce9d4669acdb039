"""Contexts of the Ruby agent."""
from harness import Agent
import context_process


class Context(context_process.Context):
    def __init__(self):
        super().__init__(Agent(), language="ruby")


class ContextCase(context_process.SharedContextCase):
    start = Context

    def place(self, line):
        """How the last cell's line stands in a traceback."""
        return "Cell In[%d], line %d" % (self.context.count, line)
