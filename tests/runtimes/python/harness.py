"""The Python agent, one for each test; CLOCHE_TEST_PYTHON names another interpreter."""
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process

RUNTIME = agent_process.ROOT / "runtimes" / "python"
BUILT = agent_process.BUILD / "runtimes" / "python"  # compiled: else each start would compile it
MANIFEST = agent_process.manifest_of("python")
PYTHON = os.environ.get("CLOCHE_TEST_PYTHON", "/usr/bin/python3")


class Agent(agent_process.Agent):
    def __init__(self, folder=BUILT):
        super().__init__([PYTHON, *agent_process.command_of(MANIFEST, folder)[1:]], ".py", MANIFEST["env"])


class AgentCase(agent_process.OneAgentCase):
    start = Agent

    def assertAlive(self):
        self.assertEqual(self.call("def f(x): return x + 1", 41), 42)
