"""Drives the agent of C and C++ over a socketpair at descriptor 3, without a box. CLOCHE_BUILD names the build directory."""
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


def load(path):
    spec = importlib.util.spec_from_file_location("python_" + path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


sys.path.append(str(ROOT / "tests" / "runtimes" / "python"))
base = load(ROOT / "tests" / "runtimes" / "python" / "harness.py")


class Agent(base.Agent):
    def __init__(self, language="c", **env):
        manifest = json.loads((ROOT / "runtimes" / language / "manifest.json").read_text())
        command = [word.replace("/run/cloche", str(BUILD.resolve())) for word in manifest["agent"]]
        self.extension = manifest["extension"]
        self.workdir = tempfile.mkdtemp()
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(30)
        self.process = subprocess.Popen(
            command, cwd=self.workdir, env={"PATH": "/usr/bin:/bin", "TMPDIR": self.workdir, **manifest["env"], **env},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False,
            preexec_fn=lambda: base.only_descriptor_3(theirs.fileno()))
        theirs.close()
        self.ids = 0

    def ask(self, method, attachments=b"", **params):
        """(message, attachments), or None"""
        self.ids += 1
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}).encode(), attachments)
        return self.receive()

    def params(self, **params):
        return {"filename": "main" + self.extension, "function": None, "build": None, **params}

    def request(self, attachments=b"", **params):
        return self.ask("call", attachments, **self.params(**{
            "args": [], "holes": [], "kwargs": {}, "order": None, "resultBytes": 1 << 20, "globals": {}, "imports": {}, **params}))


class AgentCase(unittest.TestCase):
    """Each call has an agent of its own; or, in classes with CODE, calls go to functions of one program."""
    language, CODE = "c", None

    @classmethod
    def setUpClass(cls):
        if cls.CODE:
            cls.program = Agent(cls.language)
            answer, _ = cls.program.ask("prepare", **cls.program.params(code=cls.CODE, globals={}, imports={}))
            assert "result" in answer, answer

    @classmethod
    def tearDownClass(cls):
        if cls.CODE:
            assert cls.program.end()[0] == 0

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        params.setdefault("args", list(args))
        if self.CODE:
            return self.program.request(attachments, code=self.CODE, function=code, **params)
        agent = Agent(self.language)
        try:
            return agent.request(attachments, code=code, **params)
        finally:
            self.output = agent.end()

    def answer(self, code, *args, **params):
        answer = self.answer_and_attachments(code, *args, **params)
        self.assertIsNotNone(answer, "the agent died")
        return answer[0]

    def call(self, code, *args, **params):
        """The value sent back, as it stands on the wire."""
        answer = self.answer(code, *args, **params)
        self.assertIn("result", answer, answer)
        return answer["result"]["value"]

    def fails(self, kind, message, code, *args, **params):
        answer = self.answer(code, *args, **params)
        self.assertIn("error", answer, answer)
        data = answer["error"]["data"]
        self.assertEqual((answer["error"]["code"], data["type"]), (-32000, kind), data)
        self.assertIn(message, data["message"])
        return data

    def refuses(self, message, code, *args, **params):
        return self.fails("TypeError", message, code, *args, **params)
