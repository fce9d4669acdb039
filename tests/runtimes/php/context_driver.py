"""A context of any agent, driven cell by cell (spec/agent.md, Contexts); a class of tests shares one. Bash's tests use this too."""
import json
import os
import select
import signal
import unittest


class Context:
    """displays: those of the last cell, each with its bytes put in place; cleared: what `clear` said; asked: prompts and whether they hide what is typed."""

    def __init__(self, agent, **params):
        self.agent, self.count = agent, 0
        self.opened = agent.ask("open", **{"cwd": agent.workdir, "env": {}, **params})[0]

    def begin(self, code, **params):
        self.count += 1
        self.displays, self.cleared, self.asked = [], [], []
        self.agent.tell("cell", code=code, **{"count": self.count, **params})

    def next(self):
        received = self.agent.receive()
        if received is None:
            raise AssertionError("the agent died: %r" % (self.agent.end(),))
        return received

    def finish(self, lines=()):
        """The cell's result; questions are answered with `lines`: text, or an error's message in a tuple."""
        lines = list(lines)
        while True:
            message, attachments = self.next()
            if message.get("method") == "display":
                self.displays.append(in_place(message["params"], attachments))
                assert ("id" in message) != message["params"]["isResult"], message
                self.heard(message)
            elif message.get("method") == "clear":
                self.cleared.append(message["params"])
                self.heard(message)
            elif message.get("method") == "input":
                self.asked.append((message["params"]["prompt"], message["params"]["password"]))
                self.answer_input(message["id"], lines.pop(0))
            else:
                assert message["id"] == self.agent.ids, message
                return message.get("result") or message

    def heard(self, message):
        if "id" in message:
            self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode())

    def answer_input(self, number, line):
        what = ({"error": {"code": -32000, "message": line[0], "data": {"message": line[0]}}} if type(line) is tuple
                else {"result": {"value": line}})
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": number, **what}).encode())

    def cell(self, code, lines=(), **params):
        self.begin(code, **params)
        return self.finish(lines)

    def printed(self, until, stream="stdout"):
        """What came, as far as `until`, which must come."""
        fd, data = getattr(self.agent.process, stream).fileno(), b""
        while until.encode() not in data:
            assert select.select([fd], [], [], 20)[0], "%r did not come: %r" % (until, data)
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


class ContextCase(unittest.TestCase):
    """The tests of a class share a context; `start` makes an agent."""
    maxDiff = None
    start = None
    context = None

    @classmethod
    def setUpClass(cls):
        agent = cls.start()
        cls.addClassCleanup(agent.end)
        cls.context = Context(agent)

    def run_cell(self, code, lines=(), **params):
        self.assertEqual(self.context.cell(code, lines, **params), {"status": "ok"})
        return self.context.displays

    def shown(self, code, lines=(), **params):
        """The one display."""
        displays = self.run_cell(code, lines, **params)
        self.assertEqual(len(displays), 1, displays)
        return displays[0]

    def error(self, code, lines=(), **params):
        answer = self.context.cell(code, lines, **params)
        self.assertEqual(answer.get("status"), "error", answer)
        return answer["error"]

    def asks(self, method, **params):
        return self.context.agent.ask(method, **params)[0]

    def refused(self, code, message, method, **params):
        answer = self.asks(method, **params)
        self.assertEqual((answer["error"]["code"], answer["error"]["message"]), (code, message))
