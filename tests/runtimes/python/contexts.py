"""A context of the Python agent, driven cell by cell."""
import json
import os
import select
import signal
import subprocess
import unittest

from harness import PYTHON, Agent

MISSING = subprocess.run([PYTHON, "-c", "import IPython, numpy, pandas, matplotlib, PIL"], capture_output=True, text=True).stderr
needs_libraries = unittest.skipIf(MISSING, "the interpreter lacks a library of notebooks: %s" % MISSING.strip().rpartition("\n")[2])
CHART = "application/vnd.cloche.chart+json"


class Context(Agent):
    """displays: those of the last cell, each with its bytes put in place. asked: what it asked for, as (prompt, password)."""

    def open(self, **params):
        answer = self.ask("open", **{"cwd": self.workdir, "env": {}, "language": "python", **params})[0]
        self.count = 0
        return answer

    def begin(self, code, **params):
        self.count += 1
        self.displays = []
        self.tell("cell", code=code, **{"count": self.count, **params})

    def finish(self, lines=()):
        """The cell's result, questions for input answered with `lines`: text, or an exception's message in a tuple."""
        lines, self.asked = list(lines), []
        while True:
            message, attachments = self.receive() or self.died()
            if message.get("method") == "display":
                self.displays.append(in_place(message["params"], attachments))
                assert ("id" in message) != message["params"]["isResult"], "what may be overtaken by prints is asked"
                self.say_heard(message)
            elif message.get("method") == "clear":
                self.displays.append(("clear", message["params"]["wait"]))
                self.say_heard(message)
            elif message.get("method") == "input":
                self.asked.append((message["params"]["prompt"], message["params"]["password"]))
                self.answer_input(message["id"], lines.pop(0))
            else:
                assert message["id"] == self.ids, message
                return message.get("result") or message

    def say_heard(self, message):
        if "id" in message:
            self.send_raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}).encode())

    def answer_input(self, number, line):
        what = ({"error": {"code": -32000, "message": line[0], "data": {"message": line[0]}}} if type(line) is tuple
                else {"result": {"value": line}})
        self.send_raw(json.dumps({"jsonrpc": "2.0", "id": number, **what}).encode())

    def died(self):
        raise AssertionError("the agent died: %r" % (self.end(),))

    def cell(self, code, lines=(), **params):
        self.begin(code, **params)
        return self.finish(lines)

    def printed(self, until, stream="stdout"):
        """What came, as far as `until`, which must come."""
        fd, text = getattr(self.process, stream).fileno(), ""
        while until not in text:
            assert select.select([fd], [], [], 20)[0], "%r did not come: %r" % (until, text)
            data = os.read(fd, 65536).decode()
            assert data, "the stream ended: %r" % text
            text += data
        return text

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)


def in_place(tree, attachments):
    if isinstance(tree, list):
        return [in_place(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") == "bytes":
        return bytes(attachments[tree["at"]:tree["at"] + tree["n"]])
    return {key: in_place(item, attachments) for key, item in tree.items()}


@needs_libraries
class ContextCase(unittest.TestCase):
    """All cells of a test go to one context."""
    maxDiff = None

    def setUp(self):
        self.context = Context()
        self.addCleanup(self.context.end)
        self.assertEqual(self.context.open().get("result"), {"pid": self.context.process.pid})

    def run_cell(self, code, **params):
        self.assertEqual(self.context.cell(code, **params), {"status": "ok"})
        return self.context.displays

    def shown(self, code, **params):
        """The one display's kinds."""
        displays = self.run_cell(code, **params)
        self.assertEqual(len(displays), 1, displays)
        return displays[0]["data"]

    def text(self, code, **params):
        return self.shown(code, **params)["text/plain"]

    def error(self, code, **params):
        answer = self.context.cell(code, **params)
        self.assertEqual(answer.get("status"), "error", answer)
        return answer["error"]

    def printed_by(self, code):
        """Of a cell that runs well."""
        self.run_cell(code + "\nprint('<end>')")
        return self.context.printed("<end>").partition("<end>")[0]
