"""Drives the PHP agent over a socketpair at descriptor 3, without a box, as tests/runtimes/python/harness.py does with Python's.

What code declares stays declared in PHP, so each call has an agent of its own unless a test says otherwise."""
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
RUNTIME = ROOT / "runtimes" / "php"
VECTORS = ROOT / "tests" / "vectors"
MANIFEST = json.loads((RUNTIME / "manifest.json").read_text())
PHP = os.environ.get("CLOCHE_TEST_PHP", "/usr/bin/php")


PYTHON_TESTS = ROOT / "tests" / "runtimes" / "python"
sys.path.append(str(PYTHON_TESTS))  # its tests import its harness


def load(path):
    spec = importlib.util.spec_from_file_location("python_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


base = load(PYTHON_TESTS / "harness.py")


class Agent(base.Agent):
    def __init__(self, *options):
        """options: more words for php, in front of the file."""
        command = [word.replace("/run/cloche", str(RUNTIME)) for word in MANIFEST["agent"]]
        self.workdir = tempfile.mkdtemp()
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        self.process = subprocess.Popen(
            [PHP, *command[1:-1], *options, command[-1]], cwd=self.workdir, env={"PATH": "/usr/bin:/bin", **MANIFEST["env"]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False,
            preexec_fn=lambda: base.only_descriptor_3(theirs.fileno()))
        theirs.close()
        self.ids = 0

    def ask(self, method, attachments=b"", **params):
        """(message, attachments)"""
        self.ids += 1
        message = {"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}
        self.send_raw(json.dumps(message).encode(), attachments)
        return self.receive()

    def request(self, attachments=b"", **params):
        return self.ask("call", attachments, **{
            "filename": "main.php", "function": None, "args": [], "holes": [], "kwargs": {}, "order": None, "build": None,
            "resultBytes": 1 << 26, "globals": {}, "imports": {}, **params})


class AgentCase(unittest.TestCase):
    OPTIONS = ()

    def setUp(self):
        self.output = None

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        agent = Agent(*self.OPTIONS)
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
        self.assertIn("result", answer, answer)
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
