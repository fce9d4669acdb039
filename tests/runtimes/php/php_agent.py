"""The PHP agent; CLOCHE_TEST_PHP names another interpreter.

PHP keeps all declarations of a call, so each call has an agent of its own by default."""
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process

RUNTIME = agent_process.ROOT / "runtimes" / "php"
MANIFEST = agent_process.manifest_of("php")
PHP = os.environ.get("CLOCHE_TEST_PHP", "/usr/bin/php")


class Agent(agent_process.Agent):
    def __init__(self, *options):
        """options: more words for php, in front of the file."""
        _, *words, file = agent_process.command_of(MANIFEST, RUNTIME)
        super().__init__([PHP, *words, *options, file], ".php", MANIFEST["env"])


class Old(agent_process.Agent):
    """In the place of the agent in a PHP that is too old for it."""

    def __init__(self):
        super().__init__([PHP, str(RUNTIME / "old.php")], ".php", MANIFEST["env"])


class AgentCase(agent_process.AgentCase):
    start = Agent


class OneAgentCase(agent_process.OneAgentCase):
    start = Agent
