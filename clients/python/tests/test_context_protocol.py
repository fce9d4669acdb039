"""Requests and events of contexts on the wire, with a scripted peer as the daemon."""
import asyncio
import base64
import queue
import unittest

import cloche
from tests.peer import Peer
from tests.test_sandbox_protocol import PeerCase, printed, told

CONTEXT = {"context": "c1", "language": "python", "cwd": "/workspace", "env": {}, "state": "idle", "executionCount": 3, "forkable": True, "timeoutMs": 0,
           "createdAt": "2026-11-21T00:00:00.000Z", "lastUsedAt": "2026-11-21T00:00:01.000Z", "pid": 7, "forkedFrom": "c0", "checkpoints": 2}
DONE = {"context": "c1", "executionCount": 4, "status": "ok", "stdout": "out", "stderr": "", "stdoutBytes": 3, "stderrBytes": 0, "truncated": False,
        "output": "o1", "displays": [], "displaysDropped": 0, "timedOut": False, "interrupted": False, "ended": False, "durationMs": 1.5}
FAILED = {**DONE, "status": "error", "error": {"name": "ValueError", "message": "no", "traceback": ["Traceback", "ValueError: no"]}}
CHECKPOINT = {"checkpoint": "k", "createdAt": "2026-11-21T00:00:00.000Z", "executionCount": 3, "files": True}
PICTURE = {"data": {"text/plain": "<Figure>", "image/png": {"$": "bytes", "at": 0, "n": 4}, "application/json": {"a": [1]}},
           "metadata": {"image/png": {"width": 2}, "stored": {"mime": "text/html", "path": "/tmp/x", "bytes": 9}}, "isResult": True, "displayId": "d"}


class ContextCase(PeerCase):
    def context(self, script):
        def whole(conversation):
            conversation.answer(conversation.expect("context.create"), {**CONTEXT, "created": True})
            script(conversation)
        return self.box(whole).context()

    def one(self, answer, use):
        """The request that use(context) sends, and its result."""
        seen = queue.SimpleQueue()

        def script(conversation):
            message, _ = conversation.receive()
            seen.put((message["method"], message["params"]))
            conversation.answer(message, answer)
            conversation.end()
        return use(self.context(script)), seen.get(timeout=10)


class Asked(ContextCase):
    def test_one_request_each(self):
        rows = [
            (lambda c: c.info(), "context.get", {}, CONTEXT), (lambda c: c.delete(), "context.delete", {}, {"context": "c1"}),
            (lambda c: c.restart(), "context.restart", {}, CONTEXT),
            (lambda c: c.interrupt(), "context.interrupt", {}, {"context": "c1", "interrupted": True}),
            (lambda c: c.run("1", timeout_ms=5, output_bytes=6, silent=True, restart=True), "context.run",
             {"code": "1", "timeoutMs": 5, "outputBytes": 6, "silent": True, "restart": True}, DONE),
            (lambda c: c.answer(7, "x"), "context.input", {"input": 7, "value": "x"}, {}),
            (lambda c: c.answer(cloche.Question(8, "", False), None), "context.input", {"input": 8}, {}),
            (lambda c: c.complete("im", 2), "context.complete", {"code": "im", "at": 2}, {"matches": ["import"], "from": 0, "to": 2}),
            (lambda c: c.describe(), "context.describe", {}, {"variables": [{"name": "x", "type": "int", "summary": "1"}]}),
            (lambda c: c.inspect("im", 2, detail=1), "context.inspect", {"code": "im", "at": 2, "detail": 1}, {"found": True, "data": {"text/plain": "i"}}),
            (lambda c: c.is_complete("if x:"), "context.isComplete", {"code": "if x:"}, {"status": "incomplete", "indent": "    "}),
            (lambda c: c.history(1), "context.history", {"limit": 1}, {"entries": [{"count": 3, "code": "x"}]}),
            (lambda c: c.fork(2, forkable=True), "context.fork", {"count": 2, "forkable": True}, {"contexts": [CONTEXT, CONTEXT]}),
            (lambda c: c.checkpoint("k", files=False), "context.checkpoint", {"checkpoint": "k", "files": False}, CHECKPOINT),
            (lambda c: c.rollback("k"), "context.rollback", {"checkpoint": "k"}, CONTEXT),
            (lambda c: c.checkpoints(), "context.checkpoints", {}, {"checkpoints": [CHECKPOINT]}),
            (lambda c: c.forget("k"), "context.forget", {"checkpoint": "k"}, {"checkpoint": "k"}),
        ]
        gave = {}
        for use, method, params, answer in rows:
            with self.subTest(method):
                gave[method], asked = self.one(answer, use)
                self.assertEqual(asked, (method, {"sandbox": "box", "context": "c1", **params}))
        info = gave["context.get"]
        self.assertEqual((info.name, info.execution_count, info.forkable, info.pid, info.forked_from, info.checkpoints, info.ended_why),
                         ("c1", 3, True, 7, "c0", 2, None))
        self.assertEqual((gave["context.interrupt"], gave["context.complete"], gave["context.describe"]),
                         (True, cloche.Completions(["import"], 0, 2), [cloche.Variable("x", "int", "1")]))
        self.assertEqual((gave["context.inspect"], gave["context.isComplete"], gave["context.history"]),
                         (cloche.Inspection({"text/plain": "i"}), cloche.Completeness("incomplete", "    "), [cloche.HistoryEntry(3, "x")]))
        self.assertEqual((gave["context.inspect"].found, gave["context.inspect"].text), (True, "i"))
        self.assertEqual([copy.name for copy in gave["context.fork"]], ["c1", "c1"])
        self.assertEqual((gave["context.checkpoint"].name, gave["context.checkpoints"][0].files, gave["context.forget"]), ("k", True, "k"))

    def test_making_one(self):
        _, (method, params, _) = self.asked({**CONTEXT, "created": True}, lambda box: box.context(
            "c1", language="ruby", cwd="/tmp", env={"A": "1"}, timeout_ms=5, forkable=True))
        self.assertEqual((method, params), ("context.create", {"sandbox": "box", "context": "c1", "language": "ruby", "cwd": "/tmp", "env": {"A": "1"},
                                                               "timeoutMs": 5, "forkable": True}))

    def test_of_a_prefix(self):
        class Made:
            id = "p7"
        for given, name in (("rows", "rows"), (Made(), "p7")):
            made, (method, params, _) = self.asked({**CONTEXT, "created": True, "prefix": name}, lambda box: box.context(prefix=given))
            self.assertEqual((method, params, made.name), ("context.create", {"sandbox": "box", "prefix": name}, "c1"))
        self.assertEqual(cloche.ContextInfo.read({**CONTEXT, "prefix": "rows"}).prefix, "rows")
        self.assertEqual([cloche.ContextInfo.read({**CONTEXT, **more}).mounts for more in ({}, {"mounts": False})], [None, False])

    def test_default_contexts(self):
        done, (method, params, _) = self.asked(DONE, lambda box: box.run_code("1", language="bash"))
        self.assertEqual((method, params), ("context.run", {"sandbox": "box", "code": "1", "language": "bash"}))
        self.assertEqual((done.success, done.stdout, done.execution_count, done.text, done.result, done.unwrap()), (True, "out", 4, None, None, done))
        rows, (method, _, _) = self.asked({"contexts": [CONTEXT]}, lambda box: box.contexts())
        self.assertEqual((method, rows[0].language), ("context.list", "python"))

    def test_a_failure(self):
        done, _ = self.one(FAILED, lambda context: context.run("x"))
        self.assertEqual((done.success, str(done.error), done.error.traceback), (False, "ValueError: no", ["Traceback", "ValueError: no"]))
        with self.assertRaisesRegex(cloche.CellFailedError, "^Traceback\nValueError: no$") as caught:
            done.unwrap()
        self.assertIs(caught.exception.result, done)

    def test_what_is_refused(self):
        context = self.context(lambda conversation: conversation.end())
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "code must be text"):
            context.run(b"1")
        for answer in ({}, {**DONE, "status": "x"}, {**DONE, "displays": [1]}, {**DONE, "stdout": 5}):
            with self.subTest(answer), self.assertRaises(cloche.ProtocolError):
                self.one(answer, lambda context: context.run("1"))


class Displays(unittest.TestCase):
    def test_forms(self):
        raw = {**PICTURE, "data": {**PICTURE["data"], "image/png": b"\x89PNG", "text/html": 5}}
        display = cloche.Display.read(raw)
        self.assertEqual((display.text, display.png, display.json, display.html, display.svg), ("<Figure>", b"\x89PNG", {"a": [1]}, None, None))
        self.assertEqual(display.formats(), ["text/plain", "image/png", "application/json", "text/html"])
        self.assertEqual((display.is_result, display.display_id, display.is_update, display.stored["path"]), (True, "d", False, "/tmp/x"))

    def test_in_the_readers_own_notebook(self):
        display = cloche.Display.read({**PICTURE, "data": {"text/plain": "x", "image/png": b"\x89PNG"}})
        self.assertEqual(display._repr_mimebundle_(), ({"text/plain": "x", "image/png": base64.b64encode(b"\x89PNG").decode()}, {"image/png": {"width": 2}}))
        self.assertEqual(display._repr_mimebundle_(include={"text/plain"})[0], {"text/plain": "x"})
        self.assertEqual(display._repr_mimebundle_(exclude={"text/plain"})[0].keys(), {"image/png"})


def tells(conversation):
    """A cell that prints half a character at a time, displays, and requests input."""
    asked = conversation.expect("context.run")
    told(conversation, asked, "begin", {"context": "c1", "executionCount": 4})
    printed(conversation, asked, "stdout", b"\xc3")
    printed(conversation, asked, "stdout", b"\xa4")
    printed(conversation, asked, "stderr", b"e")
    told(conversation, asked, "display", PICTURE, b"\x89PNG")
    told(conversation, asked, "clear", {"wait": True})
    return asked


def asks_too(seen):
    def script(conversation):
        asked = tells(conversation)
        assert asked["params"] == {"sandbox": "box", "context": "c1", "code": "x", "stream": True, "input": True}, asked
        told(conversation, asked, "input", {"context": "c1", "input": 9, "prompt": "name? ", "password": False})
        answer = conversation.expect("context.input")
        seen.put(answer["params"])
        conversation.answer(answer, {})
        conversation.answer(asked, DONE)
        conversation.end()
    return script


TOLD = ["ä", ("e",), "<Figure>", True, "name? "]


class Told(ContextCase):
    def test_callbacks(self):
        seen, was = queue.SimpleQueue(), []

        def answer(prompt, password):
            was.append(prompt)
            return "Ada"
        done = self.context(asks_too(seen)).run("x", on_stdout=was.append, on_stderr=lambda text: was.append((text,)),
                                                on_display=lambda display: was.append(display.text), on_clear=was.append, on_input=answer)
        self.assertEqual(was, TOLD)
        self.assertEqual(seen.get(timeout=10), {"sandbox": "box", "context": "c1", "input": 9, "value": "Ada"})
        self.assertEqual((done.text, done.result.png, done.stdout), ("<Figure>", b"\x89PNG", "out"))

    def test_no_input(self):
        seen = queue.SimpleQueue()
        self.context(asks_too(seen)).run("x", on_input=lambda prompt, password: None)
        self.assertEqual(seen.get(timeout=10), {"sandbox": "box", "context": "c1", "input": 9})

    def test_a_callback_that_throws_ends_the_cell(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            asked = tells(conversation)
            seen.put(conversation.expect("cancel")["params"] == {"id": asked["id"]})
            conversation.end()
        with self.assertRaises(ZeroDivisionError):
            self.context(script).run("x", on_display=lambda display: 1 / 0)
        self.assertTrue(seen.get(timeout=10))

    def test_to_iterate_over(self):
        seen = queue.SimpleQueue()
        context = self.context(asks_too(seen))
        was = []
        with context.stream("x", input=True) as stream:
            for event in stream:
                was.append(event)
                if isinstance(event, cloche.Question):
                    context.answer(event, "Eve")
            self.assertEqual(stream.result.displays, [])
        self.assertEqual(seen.get(timeout=10)["value"], "Eve")
        self.assertEqual(was[:3], [cloche.Output("stdout", b"\xc3"), cloche.Output("stdout", b"\xa4"), cloche.Output("stderr", b"e")])
        self.assertEqual((was[3].png, was[4], was[5]), (b"\x89PNG", cloche.Cleared(True), cloche.Question(9, "name? ", False)))

    def test_asyncio(self):
        seen, was = queue.SimpleQueue(), []

        def script(conversation):
            conversation.answer(conversation.expect("sandbox.create"), {"sandbox": "box"})
            conversation.answer(conversation.expect("context.create"), CONTEXT)
            asks_too(seen)(conversation)

        async def answer(prompt, password):
            was.append(prompt)
            return "Ada"

        async def whole(address):
            async with cloche.AsyncCloche(address) as client:
                context = await (await client.sandbox("box")).context()
                return await context.run("x", on_stdout=was.append, on_stderr=lambda text: was.append((text,)),
                                         on_display=lambda display: was.append(display.text), on_clear=was.append, on_input=answer)
        with Peer(script) as peer:
            done = asyncio.run(whole(peer.address))
        self.assertEqual((was, done.text), (TOLD, "<Figure>"))
        self.assertEqual(seen.get(timeout=10)["value"], "Ada")


if __name__ == "__main__":
    unittest.main()
