"""Drives the Bash agent over a socketpair at descriptor 3, without a box, as tests/runtimes/python/harness.py does with Python's.

CLOCHE_BUILD names the build directory, which has cloche-bash.so. Each call has a shell of its own unless a test says otherwise."""
import importlib.util
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
BUILD = pathlib.Path(os.environ.get("CLOCHE_BUILD", ROOT / "build"))
VECTORS = ROOT / "tests" / "vectors"
MANIFEST = json.loads((ROOT / "runtimes" / "bash" / "manifest.json").read_text())


def load(path):
    spec = importlib.util.spec_from_file_location("python_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "tests" / "runtimes" / "python"))
base = load(ROOT / "tests" / "runtimes" / "python" / "harness.py")


class Agent(base.Agent):
    def __init__(self, **env):
        command = [word.replace("/run/cloche", str(BUILD.resolve())) for word in MANIFEST["agent"]]
        self.workdir = tempfile.mkdtemp()
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        self.process = subprocess.Popen(
            ["/usr/bin/bash", *command[1:]], cwd=self.workdir,
            env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **MANIFEST["env"], **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False,
            preexec_fn=lambda: base.only_descriptor_3(theirs.fileno()))
        theirs.close()
        self.ids = 0

    def tell(self, method, attachments=b"", **params):
        self.ids += 1
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}).encode(), attachments)

    def ask(self, method, attachments=b"", **params):
        """(message, attachments)"""
        self.tell(method, attachments, **params)
        return self.receive()

    def call_params(self, **params):
        return {"filename": "main.sh", "function": None, "args": [], "holes": [], "kwargs": {}, "order": None, "build": None,
                "resultBytes": 1 << 20, "globals": {}, "imports": {}, **params}

    def request(self, attachments=b"", **params):
        return self.ask("call", attachments, **self.call_params(**params))


class AgentCase(unittest.TestCase):
    def setUp(self):
        self.output = None

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        agent = Agent()
        try:
            params.setdefault("args", list(args))
            return agent.request(attachments, code=code, **params)
        finally:
            self.output = agent.end()

    def answer(self, code, *args, **params):
        answer = self.answer_and_attachments(code, *args, **params)
        self.assertIsNotNone(answer, "the agent died: %r" % (self.output,))
        return answer[0]

    def call(self, code, *args, **params):
        """The value sent back, as it stands on the wire."""
        answer = self.answer(code, *args, **params)
        self.assertIn("result", answer, (answer, self.output))
        return answer["result"]["value"]

    def error(self, code, *args, **params):
        answer = self.answer(code, *args, **params)
        self.assertIn("error", answer, answer)
        self.assertEqual(answer["error"]["code"], -32000, answer)
        self.assertEqual(answer["error"]["message"], answer["error"]["data"]["message"])
        return answer["error"]["data"]

    def fails(self, code, kind, message, *args, **params):
        error = self.error(code, *args, **params)
        self.assertEqual((error["type"], error["message"]), (kind, message))
        return error
