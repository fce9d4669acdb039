"""Drives the Python agent over a socketpair at descriptor 3, without a box."""
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
RUNTIME = ROOT / "runtimes" / "python"
VECTORS = ROOT / "tests" / "vectors"
PYTHON = os.environ.get("CLOCHE_TEST_PYTHON", "/usr/bin/python3")


def only_descriptor_3(fd):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in a box, whoever started the tests
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            os.set_inheritable(number, number < 3)
        except OSError:
            continue
    os.dup2(fd, 3)


class Agent:
    def __init__(self, folder=RUNTIME):
        manifest = json.loads((RUNTIME / "manifest.json").read_text())
        command = [word.replace("/run/cloche", str(folder)) for word in manifest["agent"]]
        self.workdir = tempfile.mkdtemp()
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(20)
        self.process = subprocess.Popen(
            [PYTHON, *command[1:]], cwd=self.workdir, env={"PATH": "/usr/bin:/bin", **manifest["env"]},
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, close_fds=False,
            preexec_fn=lambda: only_descriptor_3(theirs.fileno()))
        theirs.close()
        self.ids = 0

    def send_raw(self, text, attachments=b""):
        self.socket.sendall((4 + len(text) + len(attachments)).to_bytes(4, "little")
                            + len(text).to_bytes(4, "little") + text + attachments)

    def receive(self):
        """(message, attachments), or None when the agent has closed the channel."""
        head = self.exactly(8)
        if head is None:
            return None
        length, size = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        body = self.exactly(length - 4)
        return json.loads(body[:size]), body[size:]

    def exactly(self, size):
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return data

    def request(self, attachments=b"", **params):
        self.ids += 1
        message = {"jsonrpc": "2.0", "id": self.ids, "method": "call", "params": {
            "language": "python", "filename": "main.py", "function": None, "args": [], "holes": [], "kwargs": {},
            "order": None, "resultBytes": 1 << 26, **params}}
        self.send_raw(json.dumps(message).encode(), attachments)
        answer = self.receive()
        if answer is not None and answer[0]["id"] != self.ids:
            raise AssertionError("answer to another request: %r" % (answer[0],))
        return answer

    def end(self):
        """(exit status, stdout, stderr) after the channel is closed."""
        self.socket.close()
        try:
            out, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        finally:
            shutil.rmtree(self.workdir, ignore_errors=True)
        return self.process.returncode, out.decode(), err.decode()


class AgentCase(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.ended = False
        self.addCleanup(self.end)

    def end(self):
        if not self.ended:
            self.ended = True
            self.output = self.agent.end()
        return self.output

    def call(self, code, *args, **params):
        """The value sent back, as it stands on the wire."""
        return self.answer(code, *args, **params)["result"]["value"]

    def answer(self, code, *args, **params):
        params.setdefault("args", list(args))
        answer = self.agent.request(code=code, **params)
        self.assertIsNotNone(answer, "the agent died")
        return answer[0]

    def error(self, code, *args, **params):
        answer = self.answer(code, *args, **params)
        self.assertIn("error", answer)
        self.assertEqual(answer["error"]["code"], -32000)
        self.assertEqual(answer["error"]["message"], answer["error"]["data"]["message"])
        return answer["error"]["data"]

    def assertAlive(self):
        self.assertEqual(self.call("def f(x): return x + 1", 41), 42)
