"""The client's reactions to a daemon, played by a scripted peer."""
import asyncio
import copy
import queue
import random
import threading
import time
import unittest

import cloche
from cloche import _core, _requests, _run
from tests.peer import Peer, frame, result


class SyncCase(unittest.TestCase):
    def client(self, script, greet=True, **options):
        """A client of a scripted daemon."""
        peer = self.enterContext(Peer(script, greet))
        client = cloche.Cloche(peer.address, **options)
        self.addCleanup(client.close)
        return client

    def lost(self, script, kind, message, greet=True):
        """Every waiting call fails with this."""
        client = self.client(script, greet)
        with self.assertRaises(kind) as caught:
            client.call("python", "1")
        self.assertRegex(str(caught.exception), message)
        with self.assertRaises(kind):
            client.stats()
        self.assertTrue(client.closed)


class Greeting(SyncCase):
    def test_what_the_client_says_first(self):
        said = queue.SimpleQueue()

        def script(conversation):
            said.put(conversation.greet(version="7"))
            conversation.end()
        client = self.client(script, greet=False, token="secret")
        self.assertEqual(said.get(timeout=10)["params"],
                         {"protocol": 1, "client": f"cloche-python/{cloche.__version__}", "token": "secret"})
        self.assertEqual(client.server["version"], "7")

    def refused(self, script, kind, message, **options):
        with self.assertRaisesRegex(kind, message):
            self.client(script, greet=False, **options)

    def test_another_protocol(self):
        self.refused(lambda c: c.greet(protocol=2), cloche.ProtocolError, "speaks protocol 2, this client speaks 1")

    def test_another_server(self):
        self.refused(lambda c: c.greet(server="nginx"), cloche.ProtocolError, "no cloched")

    def test_a_wrong_token(self):
        def script(c):
            c.exactly(8)
            c.send({"id": c.expect("hello")["id"], "error": {"code": -32000, "message": "wrong token", "data": {"name": "unauthorized"}}})
        self.refused(script, cloche.UnauthorizedError, "wrong token")

    def test_who_speaks_http(self):
        self.refused(lambda c: c.socket.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), (cloche.TooLargeError, cloche.ProtocolError), "frame")

    def test_who_says_nothing(self):
        self.refused(lambda c: c.end(), cloche.ConnectionLostError, "did not answer within 0.2 s", connect_timeout=0.2)

    def test_who_hangs_up(self):
        self.refused(lambda c: None, cloche.ConnectionLostError, "the connection to the daemon ended")


class Lost(SyncCase):
    def test_the_daemon_goes(self):
        self.lost(lambda c: c.expect("call"), cloche.ConnectionLostError, "ended$")

    def test_in_the_middle_of_a_message(self):
        def script(c):
            c.expect("call")
            c.socket.sendall(frame(b"{}")[:-1])
        self.lost(script, cloche.ConnectionLostError, "in the middle of a message")

    def test_garbage(self):
        for sent, kind, message in (
                (b"\0\0\0\0", cloche.ProtocolError, "frame of 0 bytes"),
                (b"\xff\xff\xff\xff", cloche.TooLargeError, "at most"),
                (frame(b"{"), cloche.ProtocolError, "no JSON"),
                (frame(b"[" * 100_000), cloche.ProtocolError, "nested too deeply"),
                (frame(b"[]"), cloche.ProtocolError, "no JSON-RPC 2.0 object"),
                (frame({"jsonrpc": "1.0", "id": 1, "result": 1}), cloche.ProtocolError, "no JSON-RPC 2.0 object"),
                (frame({"jsonrpc": "2.0", "id": 99, "result": 1}), cloche.ProtocolError, "answered request 99, which is not open"),
                (frame({"jsonrpc": "2.0", "id": [1], "result": 1}), cloche.ProtocolError, "id that is neither"),
                (frame({"jsonrpc": "2.0", "id": 1}), cloche.ProtocolError, "neither a request nor an answer"),
                (frame({"jsonrpc": "2.0", "method": 1}), cloche.ProtocolError, "method that is no string"),
                (frame({"jsonrpc": "2.0", "method": "output", "params": []}), cloche.ProtocolError, "are no object"),
                (frame({"jsonrpc": "2.0", "method": "output", "params": {"run": 2, "stream": "x", "data": ""}}),
                 cloche.ProtocolError, "no stream"),
                (frame({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "bad frame"}}),
                 cloche.ProtocolError, "bad frame")):
            with self.subTest(sent[:60]):
                def script(c):
                    c.expect("call")
                    c.socket.sendall(sent)
                    c.end()
                self.lost(script, kind, message)

    def test_everybody_is_told(self):
        def script(c):
            for _ in range(8):
                c.expect("call")
        client, seen = self.client(script), []

        def wait():
            try:
                client.call("python", "1")
            except cloche.ConnectionLostError as error:
                seen.append(error)
        threads = [threading.Thread(target=wait) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        self.assertEqual(len(seen), 8)
        self.assertEqual(len(set(map(id, seen))), 8, "an exception that several threads raise mixes their tracebacks")

    def test_close_wakes_who_waits(self):
        client = self.client(lambda c: c.end())
        run = client.start_call("python", "1")
        threading.Timer(0.05, client.close).start()
        with self.assertRaisesRegex(cloche.ConnectionLostError, "the client was closed"):
            run.wait()
        client.close()
        with self.assertRaises(cloche.ConnectionLostError):
            client.call("python", "1")


class Answers(SyncCase):
    def answered(self, *messages, attachments=b""):
        def script(c):
            ident = c.receive()[0]["id"]
            for message in messages:
                c.send({"id": ident, **message}, attachments)
            c.end()
        return self.client(script).call("python", "1")

    def test_everything_of_a_result(self):
        got = self.answered({"result": result(
            status="error", success=False, result={"$": "bytes", "at": 0, "n": 3}, exitCode=1, stderr="e",
            stdout="a\ufffd", stdoutBase64="Yf8=",
            error={"type": "KeyError", "message": "'k'", "stack": "s"}, changeset="c1",
            files={"created": [{"type": "created", "path": "/workspace/n", "kind": "file", "size": 2, "timestamp": 5,
                                "content": {"$": "bytes", "b64": "//8="}}], "modified": [], "deleted": [
                                    {"type": "deleted", "path": {"$": "bytes", "b64": "L/8="}}],
                   "denied": [{"path": "/d", "operation": "create", "rule": "default", "timestamp": 3}]},
            meta={"duration": 2.5, "signatureSource": "inferred", "usage": {"cpuMs": 1.0}, "limits": {"pids": 3}, "limitsHit": ["pids"],
                  "warnings": ["w"]})}, attachments=b"\1\2\3")
        self.assertEqual((got.status, got.success, got.value, got.exit_code), ("error", False, b"\1\2\3", 1))
        self.assertEqual((got.stdout, got.stdout_bytes, got.stderr_bytes), ("a\ufffd", b"a\xff", b"e"))
        self.assertEqual((got.error.type, got.error.message, got.error.stack), ("KeyError", "'k'", "s"))
        created, deleted = got.changes.created[0], got.changes.deleted[0]
        self.assertEqual((created.content, created.size, created.timestamp), (b"\xff\xff", 2, 5))
        self.assertEqual(deleted.path, "/\udcff")
        self.assertEqual((got.changes.denied[0].rule, got.files.changeset, bool(got.changes)), ("default", "c1", True))
        self.assertEqual((got.meta.duration_ms, got.meta.limits_hit, got.meta.usage), (2.5, ["pids"], {"cpuMs": 1.0}))
        self.assertEqual(got.raw["meta"]["signatureSource"], "inferred")
        with self.assertRaisesRegex(cloche.RunFailedError, "KeyError: 'k'") as caught:
            got.unwrap()
        self.assertIs(caught.exception.result, got)

    def test_each_error_by_its_class(self):
        for name, kind in cloche.errors.BY_NAME.items():
            with self.assertRaises(kind) as caught:
                self.answered({"error": {"code": -32000, "message": "m", "data": {"name": name, "fault": "x", "more": 1}}})
            self.assertEqual((type(caught.exception), str(caught.exception), caught.exception.data["more"]), (kind, "m", 1))

    def test_an_error_of_a_later_daemon(self):
        with self.assertRaises(cloche.ClocheError) as caught:
            self.answered({"error": {"code": -32000, "message": "m", "data": {"name": "teapot"}}})
        self.assertEqual((type(caught.exception), caught.exception.name), (cloche.ClocheError, "teapot"))

    def test_a_method_of_a_later_client(self):
        with self.assertRaisesRegex(cloche.UnknownMethodError, "no such method"):
            self.answered({"error": {"code": -32601, "message": "no such method"}})

    def test_a_failed_set_up(self):
        def script(c):
            c.send({"id": c.expect("prefix.create")["id"], "error": {"code": -32000, "message": "set-up failed", "data": {
                "name": "prefix", "failure": {"type": "ZeroDivisionError", "message": "division by zero", "stack": "s"}}}})
            c.end()
        with self.assertRaises(cloche.PrefixError) as caught:
            self.client(script).prefix("python", "1/0")
        self.assertEqual((caught.exception.failure.type, caught.exception.failure.stack), ("ZeroDivisionError", "s"))

    def test_a_value_python_cannot_hold(self):
        with self.assertRaisesRegex(cloche.ValueRefusedError, r"^result\.s\[0\]: dict cannot be a set item"):
            self.answered({"result": result(result={"s": {"$": "set", "v": [{}]}})})

    def test_a_result_that_is_none(self):
        for wrong in (1, [], None, result(status=1), result(stdout=1), result(files=[]), result(files={"created": [1]})):
            with self.subTest(wrong), self.assertRaises(cloche.ProtocolError):
                self.answered({"result": wrong})


class Told(SyncCase):
    def test_output_comes_in_order_before_the_result_in_the_thread_that_waits(self):
        def script(c):
            ident = c.expect("script")["id"]
            for number in range(50):
                c.send({"method": "output", "params": {"run": ident, "stream": "stdout" if number % 2 else "stderr",
                                                       "data": {"$": "bytes", "at": 0, "n": 1}}}, bytes([number]))
            c.send({"id": ident, "result": result()})
            c.end()
        seen = []
        self.client(script).script("bash", "", on_output=lambda stream, data: seen.append((stream, data, threading.get_ident())))
        self.assertEqual(seen, [("stdout" if n % 2 else "stderr", bytes([n]), threading.get_ident()) for n in range(50)])

    def test_a_callback_that_throws_cancels_the_run(self):
        cancelled = queue.SimpleQueue()

        def script(c):
            ident = c.expect("script")["id"]
            c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": "x"}})
            cancelled.put(c.expect("cancel")["params"]["id"] == ident)
            c.end()
        with self.assertRaises(ZeroDivisionError):
            self.client(script).script("bash", "", on_output=lambda stream, data: 1 // 0)
        self.assertIs(cancelled.get(timeout=10), True)

    def test_a_callback_slower_than_the_output(self):
        before, _core.MAX_WAITING_OUTPUT = _core.MAX_WAITING_OUTPUT, 1000
        self.addCleanup(setattr, _core, "MAX_WAITING_OUTPUT", before)
        told = threading.Event()

        def script(c):
            ident = c.expect("script")["id"]
            for _ in range(20):
                c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": "x" * 100}})
            c.send({"method": "other", "params": {}})
            c.expect("cancel")
            told.set()
            c.end()
        run = self.client(script).start_script("bash", "", on_output=lambda stream, data: None)
        self.assertTrue(told.wait(20))
        with self.assertRaisesRegex(cloche.TooLargeError, "1000 bytes of output wait"):
            run.wait()

    def test_denials_and_what_a_sync_says(self):
        change = {"type": "created", "path": "/w/a", "size": 1}

        def script(c):
            ident = c.expect("call")["id"]
            c.send({"method": "permissionDenied", "params": {"run": ident, "path": "/w/x", "operation": "create", "rule": "r", "count": 2}})
            c.send({"method": "sync.after", "params": {"run": ident, "path": "/w/a", "success": True}})
            c.send({"method": "sync.error", "params": {"run": ident, "change": change, "error": "disk full"}})
            c.send({"method": "unheard.of", "params": {"run": ident}})
            c.send({"method": "output", "params": {"run": 999, "stream": "stdout", "data": "late"}})
            c.send({"method": "output", "params": {"run": ["odd"], "stream": "stdout", "data": "late"}})
            c.send({"id": ident, "result": result()})
            c.end()
        seen = []
        self.client(script).call("python", "", mount={"dirs": {}}, on_permission_denied=seen.append, after_sync=seen.append,
                                 on_sync_error=lambda change, error: seen.append((change.path, error)))
        self.assertEqual((seen[0].path, seen[0].operation, seen[0].rule, seen[0].count), ("/w/x", "create", "r", 2))
        self.assertEqual((seen[1].path, seen[1].success), ("/w/a", True))
        self.assertEqual(seen[2], ("/w/a", "disk full"))


class Asked(SyncCase):
    def ask(self, ask, **handlers):
        """The client's response to a daemon's request; None after the run's end."""
        answers = []

        def script(c):
            ident = c.expect("call")["id"]
            answers.append(ask(c, ident))
            c.send({"id": ident, "result": result()})
            c.end()
        self.client(script).call("python", "", **handlers)
        return answers[0]

    def decide(self, before_sync):
        return self.ask(lambda c, run: c.ask(1, "sync.before", run=run, change={"type": "created", "path": "/w/a"}),
                        mount={"dirs": {}}, before_sync=before_sync)

    def test_decisions(self):
        for given, sent in ((None, {"action": "continue"}), ("continue", {"action": "continue"}), ("skip", {"action": "skip"}),
                            ("abort", {"action": "abort"}), (cloche.Skip("why"), {"action": "skip", "reason": "why"}),
                            (cloche.Abort(), {"action": "abort"})):
            seen = []
            self.assertEqual(self.decide(lambda change: seen.append(change.path) or given)["result"], sent)
            self.assertEqual(seen, ["/w/a"])

    def test_a_decision_may_be_awaited(self):
        async def before(change):
            await asyncio.sleep(0)
            return "skip"
        self.assertEqual(self.decide(before)["result"], {"action": "skip"})

    def undecided(self, before_sync, kind):
        answers = queue.SimpleQueue()

        def script(c):
            ident = c.expect("call")["id"]
            answers.put(c.ask(1, "sync.before", run=ident, change={"type": "created", "path": "/w/a"}))
            c.expect("cancel")
            c.end()
        client = self.client(script)
        with self.assertRaises(kind):
            client.call("python", "", mount={"dirs": {}}, before_sync=before_sync)
        return answers.get(timeout=10)["result"]

    def test_who_fails_to_decide_aborts(self):
        self.assertEqual(self.undecided(lambda change: 1 // 0, ZeroDivisionError),
                         {"action": "abort", "reason": "before_sync failed: ZeroDivisionError"})
        self.assertEqual(self.undecided(lambda change: True, cloche.InvalidArgumentError)["action"], "abort")

    def bridge(self, *args, target=("global", "f"), kwargs=None, **functions):
        return self.ask(lambda c, run: c.ask("b1", "bridge", run=run, target=list(target), args=list(args), kwargs=kwargs or {}),
                        globals=functions)

    def test_a_function_of_the_host(self):
        answer = self.bridge(1, {"$": "set", "v": [2]}, kwargs={"k": 3}, f=lambda *args, **kwargs: [args, kwargs])
        self.assertEqual(answer, {"jsonrpc": "2.0", "id": "b1", "result": {"value": [[1, {"$": "set", "v": [2]}], {"k": 3}]}})

    def test_what_it_throws_goes_by_name_without_its_stack(self):
        class Special(Exception):
            def __init__(self):
                super().__init__("went wrong")
                self.status, self._secret, self.message, self.handler = 404, "x", "no", lambda: 1

        def f():
            raise Special
        self.assertEqual(self.bridge(f=f)["error"], {"code": -32000, "message": "went wrong", "data": {
            "name": "Special", "message": "went wrong", "fields": {"status": 404}}})

        def lookup():
            return {}["missing"]
        self.assertEqual(self.bridge(f=lookup)["error"]["data"], {"name": "KeyError", "message": "missing"})

        def leave():
            raise SystemExit(3)
        self.assertEqual(self.bridge(f=leave)["error"]["data"], {"name": "SystemExit", "message": "3"})

    def test_an_error_whose_text_cannot_be_had(self):
        class Broken(Exception):
            def __str__(self):
                raise RuntimeError

        def f():
            raise Broken
        self.assertEqual(self.bridge(f=f)["error"]["message"], "Broken whose text cannot be had: RuntimeError")

    def test_what_cannot_be_sent_back(self):
        self.assertEqual(self.bridge(f=lambda: [object()])["error"]["data"], {
            "name": "TypeError", "message": "what the host function f returned cannot be sent: $[0]: object cannot be sent"})

    def test_arguments_python_cannot_hold(self):
        answer = self.bridge({"$": "set", "v": [{}]}, f=lambda x: x)
        self.assertEqual(answer["error"]["data"]["name"], "ValueRefusedError")
        self.assertIn("args[0][0]: dict cannot be a set item", answer["error"]["message"])

    def test_a_function_that_was_never_declared(self):
        for target in (["global", "g"], ["global", "f", "__globals__"], ["import", "f"], [], [1], "f"):
            answer = self.ask(lambda c, run: c.ask(1, "bridge", run=run, target=target, args=[], kwargs={}), globals={"f": len})
            self.assertEqual(answer["error"]["data"]["name"], "NameError", target)

    def test_a_run_that_is_not_there(self):
        for run in (999, "x", None, [1], True):
            answer = self.ask(lambda c, _: c.ask(1, "bridge", run=run, target=["global", "f"], args=[], kwargs={}), globals={"f": len})
            self.assertEqual(answer["error"]["message"], "the run has ended")

    def test_another_method(self):
        answer = self.ask(lambda c, run: c.ask(1, "shutdown", run=run))
        self.assertEqual(answer["error"]["code"], -32601)

    def test_answers_after_the_end_go_nowhere(self):
        begun, over, sent = threading.Event(), threading.Event(), []

        def f():
            begun.set()
            over.wait(10)

        def script(c):
            ident = c.expect("call")["id"]
            c.send({"id": 1, "method": "bridge", "params": {"run": ident, "target": ["global", "f"], "args": [], "kwargs": {}}})
            begun.wait(10)
            c.send({"id": ident, "result": result()})
            sent.append(c.receive()[0]["method"])
            c.answer({"id": 3}, {})
            c.end()
        client = self.client(script)
        client.call("python", "", globals={"f": f})
        over.set()
        client.stats()
        self.assertEqual(sent, ["stats"])

    def test_several_at_once(self):
        barrier = threading.Barrier(5)

        def script(c):
            ident = c.expect("call")["id"]
            for number in range(5):
                params = {"run": ident, "target": ["global", "f"], "args": [number], "kwargs": {}}
                c.send({"id": number, "method": "bridge", "params": params})
            got = sorted((c.receive()[0] for _ in range(5)), key=lambda message: message["id"])
            assert [message["result"]["value"] for message in got] == [0, 1, 4, 9, 16], got
            c.send({"id": ident, "result": result()})
            c.end()

        def f(n):
            barrier.wait(10)
            return n * n
        self.client(script).call("python", "", globals={"f": f})

    def test_no_more_threads_than_permitted(self):
        now, most, lock, three = [0], [0], threading.Lock(), threading.Barrier(3)

        def script(c):
            ident = c.expect("call")["id"]
            for number in range(21):
                c.send({"id": number, "method": "bridge", "params": {"run": ident, "target": ["global", "f"], "args": [], "kwargs": {}}})
            for _ in range(21):
                c.receive()
            c.send({"id": ident, "result": result()})
            c.end()

        def f():
            with lock:
                now[0] += 1
                most[0] = max(most[0], now[0])
            three.wait(20)  # that many in total; a fourth would come while they sleep
            time.sleep(0.01)
            with lock:
                now[0] -= 1
        self.client(script, host_threads=3).call("python", "", globals={"f": f})
        self.assertEqual(most[0], 3)


class Given(SyncCase):
    """Given up by the caller: the client releases the daemon's data for it."""

    def given_up(self, method, answer, use):
        asked = queue.SimpleQueue()

        def script(c):
            ident = c.expect(method)["id"]
            c.expect("cancel")
            c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": "late"}})
            c.send({"id": ident, "result": answer})
            asked.put(c.receive()[0])
            c.end()
        client = self.client(script)
        run = use(client)
        with self.assertRaises(ZeroDivisionError):
            run.wait()
        return asked.get(timeout=10)

    def interrupted(self, run):
        """As if a signal interrupted the waiting thread."""
        run._inbox.put(lambda: 1 // 0)
        return run

    def test_a_prefix(self):
        asked = self.given_up("prefix.create", {"prefix": "p7"},
                              lambda client: self.interrupted(client._start(_requests.prefix("python", "x = 1"))))
        self.assertEqual((asked["method"], asked["params"]), ("prefix.dispose", {"prefix": "p7"}))

    def test_a_change_set(self):
        asked = self.given_up("call", result(changeset="c7"), lambda client: self.interrupted(client.start_call("python", "1")))
        self.assertEqual((asked["method"], asked["params"]), ("changeset.drop", {"changeset": "c7"}))


class Late(SyncCase):
    def test_a_daemon_that_does_not_answer_a_cancel(self):
        before, _run.CANCEL_GRACE = _run.CANCEL_GRACE, 0.1
        self.addCleanup(setattr, _run, "CANCEL_GRACE", before)
        with self.assertRaises(cloche.RunTimeoutError) as caught:
            self.client(lambda c: c.end()).call("python", "1", timeout=0.1)
        self.assertIsNone(caught.exception.result)
        self.assertIsInstance(caught.exception, TimeoutError)

    def test_a_run_that_ended_just_in_time(self):
        def script(c):
            ident = c.expect("call")["id"]
            c.expect("cancel")
            c.send({"id": ident, "result": result(result=7)})
            c.end()
        self.assertEqual(self.client(script).call("python", "1", timeout=0.1).value, 7)

    def test_output_without_end_does_not_hold_the_timeout_up(self):
        def script(c):
            ident = c.expect("script")["id"]
            c.socket.settimeout(0.001)
            while True:
                c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": "x"}})
                try:
                    c.expect("cancel")
                except TimeoutError:
                    continue
                break
            c.send({"id": ident, "result": result(status="terminated", success=False, exitCode=143)})
            c.end()
        with self.assertRaises(cloche.RunTimeoutError) as caught:
            self.client(script).script("bash", "", on_output=lambda stream, data: time.sleep(0.002), timeout=0.2)
        self.assertEqual(caught.exception.result.exit_code, 143)


class Owner(_core.Exchange):
    """Decodes everything that a daemon may send about a run, as both clients do."""

    def answered(self, message):
        try:
            self.read(message)
        except cloche.ClocheError:
            pass

    def lost(self, error):
        pass

    def told(self, event):
        _core.dispatch(self.request, event)

    def host_call(self, call):
        try:
            call.answer(call.arguments())
        except cloche.ValueRefusedError as error:
            call.fail(error)

    def sync_question(self, question):
        question.answer(None)


class Mutations(unittest.TestCase):
    """A faulty daemon causes named errors, and nothing else."""

    JUNK = (None, True, -1, 0, 1.5, 2**60, "", "x", "result", [], {}, [[]], {"$": 1}, {"$": "bytes", "at": 0, "n": 9},
            {"$": "set", "v": [1, 1]})

    def messages(self, ident):
        change = {"type": "created", "path": "/w/a", "size": 1, "content": {"$": "bytes", "at": 0, "n": 2}}
        return [
            {"method": "output", "params": {"run": ident, "stream": "stdout", "data": {"$": "bytes", "at": 0, "n": 3}}},
            {"method": "permissionDenied", "params": {"run": ident, "path": "/w", "operation": "read", "rule": None, "count": 1}},
            {"method": "sync.after", "params": {"run": ident, "path": "/w/a", "success": False, "error": {"message": "m"}}},
            {"method": "sync.error", "params": {"run": ident, "change": change, "error": "e"}},
            {"id": 1, "method": "sync.before", "params": {"run": ident, "change": change}},
            {"id": "b", "method": "bridge", "params": {"run": ident, "target": ["global", "f"], "args": [1, {"$": "undefined"}],
                                                       "kwargs": {"a": {"$": "date", "v": "2026-01-01"}}}},
            {"id": ident, "error": {"code": -32000, "message": "m", "data": {"name": "prefix", "failure": {"type": "T", "message": "m"}}}},
            {"id": ident, "result": result(
                result={"a": [{"$": "ref", "n": 0}]}, error={"type": "T", "message": "m"}, console={"stdout": ["a"], "stderr": []},
                files={"created": [change], "modified": [], "deleted": [], "denied": [], "collected": [{"path": "x", "error": "none"}]},
                sync={"synced": [], "failed": [], "skipped": []}, changeset="c", stdoutBase64="AA==")}]

    def mutated(self, tree, dice):
        """Replaces one of its nodes by another."""
        spots = []

        def walk(node):
            for key, item in list(node.items() if isinstance(node, dict) else enumerate(node)):
                spots.append((node, key))
                if isinstance(item, (dict, list)):
                    walk(item)
        walk(tree)
        owner, key = dice.choice(spots)
        if isinstance(owner, dict) and dice.random() < 0.2:
            del owner[key]
        else:
            owner[key] = dice.choice(self.JUNK)
        return tree

    def receive(self, change):
        """The number of refused ones among those changed by `change`."""
        refused = 0
        for seed in range(400):
            dice = random.Random(seed)
            for number in range(8):
                core = _core.Core("test")
                handlers = _requests.Handlers({("global", "f"): len}, *([lambda *told: None] * 5))
                owner = Owner(_requests.Request("call", {}, cloche.Result.read, handlers=handlers))
                core.ask(owner)
                tree = {"jsonrpc": "2.0", **copy.deepcopy(self.messages(owner.ident)[number])}
                try:
                    core.receive(change(tree, dice))
                except cloche.ClocheError:
                    refused += 1
        return refused

    def test_other_values(self):
        self.assertGreater(self.receive(lambda tree, dice: frame(self.mutated(tree, dice), b"abc")), 100)

    def test_other_bytes(self):
        def flipped(tree, dice):
            data = bytearray(frame(tree, b"abc"))
            data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
            return data
        self.assertGreater(self.receive(flipped), 100)

    def test_as_it_is(self):
        self.assertEqual(self.receive(lambda tree, dice: frame(tree, b"abc")), 0)


class Asynchronous(unittest.IsolatedAsyncioTestCase):
    async def client(self, script, greet=True, **options):
        peer = self.enterContext(Peer(script, greet))
        client = cloche.AsyncCloche(peer.address, **options)
        self.addAsyncCleanup(client.close)
        return client

    async def test_the_daemon_goes(self):
        def script(c):
            for _ in range(5):
                c.expect("call")
        client = await self.client(script)
        ends = await asyncio.gather(*(client.call("python", "1") for _ in range(5)), return_exceptions=True)
        self.assertEqual({type(end) for end in ends}, {cloche.ConnectionLostError})
        with self.assertRaises(cloche.ConnectionLostError):
            await client.stats()

    async def test_garbage(self):
        def script(c):
            c.expect("call")
            c.socket.sendall(frame(b"nonsense"))
            c.end()
        with self.assertRaisesRegex(cloche.ProtocolError, "no JSON"):
            await (await self.client(script)).call("python", "1")

    async def test_who_says_nothing(self):
        client = await self.client(lambda c: c.end(), greet=False, connect_timeout=0.2)
        with self.assertRaisesRegex(cloche.ConnectionLostError, "did not answer within 0.2 s"):
            await client.connect()

    async def test_another_protocol(self):
        client = await self.client(lambda c: c.greet(protocol=2), greet=False)
        with self.assertRaisesRegex(cloche.ProtocolError, "protocol 2"):
            await client.call("python", "1")

    async def test_a_cancelled_task_cancels_its_run_and_no_other(self):
        seen = []

        def script(c):
            first, second = c.expect("call")["id"], c.expect("call")["id"]
            seen.append(c.expect("cancel")["params"]["id"] == first)  # before the response that the test waits for
            c.send({"id": first, "result": result(status="terminated", success=False)})
            c.send({"id": second, "result": result(result=2)})
            c.end()
        client = await self.client(script)
        await client.connect()
        first = asyncio.create_task(client.call("python", "1"))
        await asyncio.sleep(0.05)
        second = asyncio.create_task(client.call("python", "2"))
        await asyncio.sleep(0.05)
        first.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await first
        self.assertEqual(((await second).value, seen), (2, [True]))

    async def given_up(self, work, begun):
        """As soon as the daemon has received it."""
        task = asyncio.ensure_future(work)
        await asyncio.to_thread(begun.get, timeout=20)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task

    async def test_what_nobody_waits_for_any_more_is_given_back(self):
        begun, asked = queue.SimpleQueue(), queue.SimpleQueue()

        def script(c):
            for method, answer in (("prefix.create", {"prefix": "p7"}), ("call", result(changeset="c7"))):
                ident = c.expect(method)["id"]
                begun.put(method)
                c.expect("cancel")
                c.send({"id": ident, "result": answer})
                asked.put(c.receive()[0]["params"])
            c.end()
        client = await self.client(script)
        await client.connect()
        for work, wanted in ((client.prefix("python", "x = 1")._open(), {"prefix": "p7"}), (client.call("python", "1"), {"changeset": "c7"})):
            await self.given_up(work, begun)
            self.assertEqual(await asyncio.to_thread(asked.get, timeout=20), wanted)

    async def test_who_came_second_still_connects_when_the_first_is_cancelled(self):
        def script(c):
            c.greet()
            c.answer(c.expect("stats"), {"a": 1})
            c.end()
        client = await self.client(script, greet=False)
        first = asyncio.create_task(client.connect())
        second = asyncio.create_task(client.stats())
        await asyncio.sleep(0)
        first.cancel()
        self.assertEqual(await second, {"a": 1})

    async def test_what_is_asked_of_a_run_that_was_given_up(self):
        begun, answers = queue.SimpleQueue(), queue.SimpleQueue()

        def script(c):
            ident = c.expect("call")["id"]
            begun.put(ident)
            c.expect("cancel")
            answers.put(c.ask(1, "sync.before", run=ident, change={"type": "created", "path": "/w/a"}))
            answers.put(c.ask(2, "bridge", run=ident, target=["global", "f"], args=[], kwargs={}))
            c.send({"id": ident, "result": result()})
            c.end()
        client = await self.client(script)
        await self.given_up(client.call("python", "", globals={"f": len}, mount={"dirs": {}}, before_sync=lambda change: None), begun)
        first, second = [await asyncio.to_thread(answers.get, timeout=20) for _ in range(2)]
        self.assertEqual(first["result"]["action"], "abort")
        self.assertEqual(second["error"]["data"]["name"], "RuntimeError")

    async def test_tasks_of_host_functions_end_with_the_run(self):
        begun, ended = threading.Event(), asyncio.Event()

        async def f():
            begun.set()
            try:
                await asyncio.sleep(100)
            finally:
                ended.set()

        def script(c):
            ident = c.expect("call")["id"]
            c.send({"id": 1, "method": "bridge", "params": {"run": ident, "target": ["global", "f"], "args": [], "kwargs": {}}})
            assert begun.wait(20)
            c.send({"id": ident, "result": result()})
            c.end()
        await (await self.client(script)).call("python", "", globals={"f": f})
        await asyncio.wait_for(ended.wait(), 10)

    async def test_callbacks_may_be_coroutines(self):
        def script(c):
            ident = c.expect("call")["id"]
            for number in range(10):
                c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": str(number)}})
            assert c.ask(1, "sync.before", run=ident, change={"type": "created", "path": "/w/a"})["result"] == {"action": "skip"}
            c.send({"id": ident, "result": result()})
            c.end()
        seen = []

        async def on_output(stream, data):
            await asyncio.sleep(0.001)
            seen.append(data)

        async def before(change):
            return "skip"
        await (await self.client(script)).call("python", "", on_output=on_output, mount={"dirs": {}}, before_sync=before)
        self.assertEqual(seen, [str(number).encode() for number in range(10)])

    async def test_a_timeout_of_the_callbacks_own(self):
        def script(c):
            ident = c.expect("call")["id"]
            c.send({"method": "output", "params": {"run": ident, "stream": "stdout", "data": "x"}})
            c.expect("cancel")
            c.end()

        def on_output(stream, data):
            raise TimeoutError("mine")
        with self.assertRaisesRegex(TimeoutError, "mine"):
            await (await self.client(script)).call("python", "", on_output=on_output, timeout=30)

    async def test_another_loop(self):
        client = await self.client(lambda c: c.end())
        await client.connect()

        def elsewhere():
            with self.assertRaisesRegex(cloche.InvalidStateError, "another event loop"):
                asyncio.run(client.stats())
        await asyncio.to_thread(elsewhere)


if __name__ == "__main__":
    unittest.main()
