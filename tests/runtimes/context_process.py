"""A context of any agent, driven cell by cell over its channel (spec/agent.md, Contexts), and
helpers for the tests of all languages."""
import json
import os
import random
import select
import signal
import unittest

from agent_process import PATIENCE

CHART = "application/vnd.cloche.chart+json"


class Context:
    """displays: those of the last cell, each with its bytes put in place; cleared: its `clear`
    messages, as (wait, number of displays before it); asked: its requests for input, as (prompt,
    password)."""

    def __init__(self, agent, **opening):
        """opening: params of every `open`."""
        self.agent, self.opening, self.count = agent, opening, 0
        self.displays, self.cleared, self.asked = [], [], []

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def end(self):
        return self.agent.end()

    def ask(self, method, **params):
        """The answer, but for its attachments."""
        return (self.agent.ask(method, **params) or self.died())[0]

    def open(self, **params):
        return self.ask("open", **{"cwd": self.agent.workdir, "env": {}, **self.opening, **params})

    def opened(self, **params):
        """Itself, open."""
        answer = self.open(**params)
        assert answer.get("result", {}).get("pid") == self.agent.process.pid, answer
        return self

    def begin(self, code, **params):
        self.count += 1
        self.displays, self.cleared, self.asked = [], [], []
        self.agent.tell("cell", code=code, **{"count": self.count, **params})

    def next(self):
        """(message, attachments)."""
        return self.agent.receive() or self.died()

    def died(self):
        raise AssertionError("the agent died: %r" % (self.end(),))

    def finish(self, lines=()):
        """The cell's result, questions for input answered with `lines`: text, or an error's message in a tuple."""
        lines = list(lines)
        while True:
            message, attachments = self.next()
            if message.get("method") in ("display", "clear"):
                self.hear(message, attachments)
            elif message.get("method") == "input":
                self.asked.append((message["params"]["prompt"], message["params"]["password"]))
                self.answer_input(message["id"], lines.pop(0))
            else:
                assert message["id"] == self.agent.ids, message
                return message.get("result") or message

    def hear(self, message, attachments):
        """A display or a clear. The result is a notification; other displays wait for a response,
        because later output must not overtake them."""
        params = message["params"]
        if message["method"] == "clear":
            self.cleared.append((params["wait"], len(self.displays)))
        else:
            self.displays.append(in_place(params, attachments))
        assert ("id" in message) != params.get("isResult", False), message
        if "id" in message:
            self.answer(message["id"], result={})

    def answer_input(self, number, line):
        if type(line) is tuple:
            self.answer(number, error={"code": -32000, "message": line[0], "data": {"message": line[0]}})
        else:
            self.answer(number, result={"value": line})

    def answer(self, number, **what):
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": number, **what}).encode())

    def cell(self, code, lines=(), **params):
        self.begin(code, **params)
        return self.finish(lines)

    def printed(self, until, stream="stdout"):
        """The output up to `until`, which must come."""
        fd, data = getattr(self.agent.process, stream).fileno(), b""
        while until.encode() not in data:
            assert select.select([fd], [], [], PATIENCE)[0], "%r did not come: %r" % (until, data)
            more = os.read(fd, 65536)
            assert more, "the stream ended: %r" % data
            data += more
        return data.decode("utf-8", "backslashreplace")

    def interrupt(self):
        os.kill(self.agent.process.pid, signal.SIGINT)


def in_place(tree, attachments):
    if isinstance(tree, list):
        return [in_place(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") == "bytes":
        return bytes(attachments[tree["at"]:tree["at"] + tree["n"]])
    return {key: in_place(item, attachments) for key, item in tree.items()}


def remove_if_empty(folder):
    """Tests of other languages may be using it, or have removed it already."""
    try:
        os.rmdir(folder)
    except OSError:
        pass


class ContextCase(unittest.TestCase):
    """`start` makes a context that is not open yet; all cells of a test go to `context`."""
    maxDiff = None
    start = None
    context = None

    def own_context(self):
        """From now on the test has it, and it ends with the test."""
        self.context = self.start()
        self.addCleanup(self.context.end)
        return self.context.opened()

    def run_cell(self, code, lines=(), **params):
        self.assertEqual(self.context.cell(code, lines, **params), {"status": "ok"})
        return self.context.displays

    def display(self, code, lines=(), **params):
        """The one display."""
        displays = self.run_cell(code, lines, **params)
        self.assertEqual(len(displays), 1, displays)
        return displays[0]

    def shown(self, code, lines=(), **params):
        """The one display's kinds."""
        return self.display(code, lines, **params)["data"]

    def text(self, code, lines=(), **params):
        return self.shown(code, lines, **params)["text/plain"]

    def run_until_answered(self, code, **params):
        """A cell that leaves something behind, which goes on once the cell has been answered: as soon as the file GO is there."""
        go = os.path.join(self.context.agent.workdir, "go-%d" % self.context.count)
        self.run_cell(code.replace("GO", json.dumps(go)), **params)
        with open(go, "w"):
            pass

    def error(self, code, lines=(), **params):
        answer = self.context.cell(code, lines, **params)
        self.assertEqual(answer.get("status"), "error", answer)
        return answer["error"]

    def result(self, method, **params):
        return self.context.ask(method, **params)["result"]

    def assertStored(self, display, kind, content):
        """content: the bytes of the file it lies in, which goes with the test."""
        stored = display["metadata"]["stored"]
        self.addCleanup(remove_if_empty, os.path.dirname(stored["path"]))
        self.addCleanup(os.unlink, stored["path"])
        self.assertRegex(stored["path"], r"^/tmp/\.cloche-display/[0-9a-f]+\.(html|txt)$")
        self.assertEqual((stored["mime"], stored["bytes"]), (kind, len(content)))
        with open(stored["path"], "rb") as file:
            self.assertEqual(file.read(), content)

    def interrupt_while_it_asks(self, code, name):
        """The response comes after the wait was abandoned. name: of the error."""
        self.context.begin(code)
        question, _ = self.context.next()
        self.context.interrupt()
        self.assertEqual(self.context.finish()["error"]["name"], name)
        self.context.answer_input(question["id"], "late")

    def interrupt_at_any_time(self, code, times):
        """Before, in and behind the cell."""
        for _ in range(times):
            self.context.begin(code)
            for _ in range(random.randrange(3)):
                self.context.interrupt()
            self.assertIn(self.context.finish().get("status"), ("ok", "error"))


class SharedContextCase(ContextCase):
    """The tests of a class share a context, except those that spoil it: each of them has its own."""

    @classmethod
    def setUpClass(cls):
        cls.shared = cls.start()
        cls.addClassCleanup(cls.shared.end)
        cls.shared.opened()

    def setUp(self):
        self.context = self.shared
