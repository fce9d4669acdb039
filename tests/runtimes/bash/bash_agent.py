"""The Bash agent, a shell of its own for each call by default.

CLOCHE_BUILD names the build directory, which has cloche-bash.so; CLOCHE_TEST_BASH another bash."""
import os
import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process

MANIFEST = agent_process.manifest_of("bash")
BASH = os.environ.get("CLOCHE_TEST_BASH", "/usr/bin/bash")


class Agent(agent_process.Agent):
    def __init__(self, **env):
        command = agent_process.command_of(MANIFEST, agent_process.BUILD)
        env = {"LANG": "C.UTF-8", **MANIFEST["env"], **env}
        super().__init__([BASH, *command[1:]], ".sh", env, result_bytes=1 << 20)


class AgentCase(agent_process.AgentCase):
    start = Agent
