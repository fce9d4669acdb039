"""An agent alone, driven over a socketpair at descriptor 3 without a box, and helpers for the tests
of all languages."""
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("CLOCHE_BUILD", ROOT / "build")).resolve()
PATIENCE = 300  # seconds; an agent that does not answer fails the test, and one that compiles on a busy machine does not


def manifest_of(language):
    return json.loads((ROOT / "runtimes" / language / "manifest.json").read_text())


def command_of(manifest, folder):
    """The agent's command, with `folder` in place of the box's /run/cloche."""
    return [word.replace("/run/cloche", str(folder)) for word in manifest["agent"]]


def only_descriptor_3(fd):
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # as in a box, for any parent of the tests
    for number in map(int, os.listdir("/proc/self/fd")):
        try:
            os.set_inheritable(number, number < 3)
        except OSError:
            continue
    os.dup2(fd, 3)


class Agent:
    def __init__(self, command, extension, env, result_bytes=1 << 26, workdir=None):
        self.extension, self.result_bytes = extension, result_bytes
        self.workdir = workdir or tempfile.mkdtemp()
        self.ids, self.ending = 0, None
        self.socket, theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE)
        self.process = subprocess.Popen(
            command, cwd=self.workdir, env={"PATH": "/usr/bin:/bin", **env}, close_fds=False, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=lambda: only_descriptor_3(theirs.fileno()))
        theirs.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

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

    def tell(self, method, attachments=b"", **params):
        self.ids += 1
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.ids, "method": method, "params": params}).encode(), attachments)

    def ask(self, method, attachments=b"", **params):
        """As receive()."""
        self.tell(method, attachments, **params)
        answer = self.receive()
        if answer is not None and answer[0]["id"] != self.ids:
            raise AssertionError("answer to another request: %r" % (answer[0],))
        return answer

    def call_params(self, **params):
        return {"filename": "main" + self.extension, "function": None, "args": [], "holes": [], "kwargs": {}, "order": None,
                "build": None, "resultBytes": self.result_bytes, "globals": {}, "imports": {}, **params}

    def request(self, attachments=b"", **params):
        return self.ask("call", attachments, **self.call_params(**params))

    def end(self):
        """(exit status, stdout, stderr) after the channel is closed."""
        if self.ending is None:
            self.socket.close()
            try:
                out, err = self.process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.communicate()
                raise
            finally:
                shutil.rmtree(self.workdir, ignore_errors=True)
            self.ending = self.process.returncode, out.decode(), err.decode()
        return self.ending


class AgentCase(unittest.TestCase):
    """Each call has an agent of its own, as each has a box; `output` is how the last one ended."""
    output = None

    def start(self):
        raise NotImplementedError

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        agent = self.start()
        try:
            return agent.request(attachments, code=code, **{"args": list(args), **params})
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

    def refused(self, code, message):
        """message: how the error's begins; a way out and the place of the function may follow."""
        error = self.error(code)
        self.assertEqual((error["type"], error["message"][:len(message)]), ("TypeError", message))
        return error

    def sent(self, code, want, attachment=None):
        answer, attached = self.answer_and_attachments(code)
        self.assertIn("result", answer, answer)
        self.assertEqual(exact(answer["result"]["value"]), exact(want))
        if attachment is not None:
            self.assertEqual(attached, attachment)


class OneAgentCase(AgentCase):
    """All calls of a test go to one agent."""

    def setUp(self):
        self.agent = self.start()
        self.addCleanup(self.agent.end)

    def end(self):
        return self.agent.end()

    def answer_and_attachments(self, code, *args, attachments=b"", **params):
        return self.agent.request(attachments, code=code, **{"args": list(args), **params})


# ---- values -----------------------------------------------------------------------------------------------------

def vectors(*names):
    """The vectors of tests/vectors."""
    return [vector for name in names for vector in json.loads((ROOT / "tests" / "vectors" / (name + ".json")).read_text())]


def wanted(vector, *languages):
    """The expected value: the vector's for the first of these languages that it names, else the one sent."""
    return next((vector[language] for language in languages if language in vector), vector["value"])


def outward(tree, attachments):
    """The text form as the framed form: bytes move into the attachments."""
    if isinstance(tree, list):
        return [outward(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$" in tree and isinstance(tree.get("b64"), str):
        try:
            data = base64.b64decode(tree["b64"], validate=True)
        except ValueError:
            return tree
        rest = {key: item for key, item in tree.items() if key != "b64"}
        rest.update(at=len(attachments), n=len(data))
        attachments += data
        return rest
    return {key: outward(item, attachments) for key, item in tree.items()}


def inward(tree, attachments):
    """The framed form as the text form."""
    if isinstance(tree, list):
        return [inward(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$" in tree and "at" in tree:
        data = attachments[tree["at"]:tree["at"] + tree["n"]]
        rest = {key: item for key, item in tree.items() if key not in ("at", "n")}
        return {**rest, "b64": base64.b64encode(data).decode()}
    return {key: inward(item, attachments) for key, item in tree.items()}


def exact(tree):
    """1 and 1.0 differ here, and the order of keys does not count."""
    return json.dumps(tree, sort_keys=True)


def shifted(tree):
    """The value as the only item of `args`, which is the first container."""
    if isinstance(tree, list):
        return [shifted(item) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") == "ref" and type(tree.get("n")) is int and tree["n"] >= 0:
        return {**tree, "n": tree["n"] + 1}
    return {key: shifted(item) for key, item in tree.items()}
