"""The Ruby agent, one for each test; CLOCHE_TEST_RUBY names another interpreter."""
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process

sys.setrecursionlimit(5000)  # vectors nest deeply
MANIFEST = agent_process.manifest_of("ruby")
RUBY = os.environ.get("CLOCHE_TEST_RUBY", "/usr/bin/ruby")


class Agent(agent_process.Agent):
    def __init__(self):
        command = agent_process.command_of(MANIFEST, agent_process.ROOT / "runtimes" / "ruby")
        super().__init__([RUBY, *command[1:]], ".rb", MANIFEST["env"])


class AgentCase(agent_process.OneAgentCase):
    start = Agent

    def request(self, **params):
        return self.agent.request(**params)

    def assertAlive(self):
        self.assertEqual(self.call("def alive_(x) = x + 1", 41, function="alive_"), 42)
