"""Requests and events of sandboxes on the wire, with a scripted peer as the daemon."""
import asyncio
import io
import pathlib
import queue
import signal
import threading
import unittest

import cloche
from cloche import _core
from tests.peer import Peer
from tests.tables import spec_tables


def told(conversation, request, event, about, attachments=b""):
    conversation.send({"method": "event", "params": {"id": request["id"], "event": event, "about": about}}, attachments)


def printed(conversation, request, stream, data):
    told(conversation, request, "output", {"stream": stream, "data": {"$": "bytes", "at": 0, "n": len(data)}}, data)


ENDED = {"exitCode": 3, "stdout": "out", "stderr": {"$": "bytes", "at": 0, "n": 2}, "stdoutBytes": 3, "stderrBytes": 2, "truncated": False,
         "output": "o1", "timedOut": False, "durationMs": 1.5, "session": "default", "cwd": "/workspace", "sessionEnded": False}
PROCESS = {"process": "p1", "pid": 7, "command": "sleep 1", "status": "killed", "session": "default", "startedAt": "2026-11-21T00:00:00.000Z",
           "endedAt": "2026-11-21T00:00:01.000Z", "exitCode": 137, "signal": "SIGKILL", "terminal": True}


def slowly_read(pieces, held):
    """Sends more than a reader's buffer holds, until it is paused; continues when resumed."""
    def script(conversation):
        asked = conversation.expect("process.follow")
        for _ in range(pieces):
            printed(conversation, asked, "stdout", bytes(1 << 16))
        for want in (True, False):
            hold = conversation.expect("hold")
            assert hold["params"] == {"id": asked["id"], "hold": want}, hold
            conversation.answer(hold, {"found": True})
            held.set()
        conversation.answer(asked, PROCESS)
        conversation.end()
    return script


class PeerCase(unittest.TestCase):
    def box(self, script, name="box"):
        """A sandbox of a scripted daemon, after its creation."""
        def whole(conversation):
            asked = conversation.expect("sandbox.create")
            conversation.answer(asked, {"sandbox": asked["params"].get("sandbox", "made-up"), "state": "running", "created": True})
            script(conversation)
        peer = self.enterContext(Peer(whole))
        client = cloche.Cloche(peer.address)
        self.addCleanup(client.close)
        return client.sandbox(name)

    def asked(self, answer, use, attachments=b""):
        """The request that use(box) sends: the parameters, and the result."""
        seen = queue.SimpleQueue()

        def script(conversation):
            message, data = conversation.receive()
            seen.put((message["method"], message["params"], data))
            conversation.send({"id": message["id"], "result": answer}, attachments)
            conversation.end()
        return use(self.box(script)), seen.get(timeout=10)


class Asked(PeerCase):
    def test_create(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            seen.put(conversation.receive()[0])
        peer = self.enterContext(Peer(script))
        with cloche.Cloche(peer.address) as client, self.assertRaises(cloche.ConnectionLostError):
            client.sandbox("a", limits=cloche.Limits(pids=9), env={"A": "1"}, network=cloche.Network(["x.org:443"]), idle_ms=0, labels={"k": "v"}, image="sha256:1", writable_root=True, root=True, image_settings={"env": {"A": "1"}}, packages={"pip": ("a==1",)}, startup={"start": "serve"})
        self.assertEqual(seen.get(timeout=10)["params"], {
            "sandbox": "a", "limits": {"pids": 9}, "env": {"A": "1"}, "network": {"allow": ["x.org:443"], "deny": []}, "idleMs": 0, "labels": {"k": "v"}, "image": "sha256:1", "writableRoot": True, "root": True, "imageSettings": {"env": {"A": "1"}}, "startup": {"start": "serve"},
            "packages": {"pip": ["a==1"]}})

    def test_members_of_answers(self):
        info = cloche.SandboxInfo.read({"sandbox": "a", "idleAction": "pause", "endAction": "delete", "writableRoot": True, "root": True, "pauseKind": "files", "pausedAt": "t"})
        self.assertEqual((info.pause_kind, info.paused_at), ("files", "t"))
        self.assertEqual((info.idle_action, info.end_action, info.writable_root, info.root, info.volumes), ("pause", "delete", True, True, ()))
        self.assertEqual(cloche.SandboxPage([info], "next").next, "next")
        self.assertEqual([cloche.SyncReport.read(raw).lost for raw in ({}, {"lost": ["/m"]})], [[], ["/m"]])

    def test_exec(self):
        done, (method, params, data) = self.asked(
            ENDED, lambda box: box.exec("cat", cwd=pathlib.PurePosixPath("/tmp"), env={"A": "1", "B": None}, stdin=b"\xff", timeout_ms=5, fork=True), b"\xff\xfe")
        self.assertEqual((method, data), ("exec", b"\xff"))
        self.assertEqual(params, {"sandbox": "box", "command": "cat", "cwd": "/tmp", "env": {"A": "1", "B": None}, "stdin": {"$": "bytes", "at": 0, "n": 1},
                                  "timeoutMs": 5, "fork": True})
        self.assertEqual((done.exit_code, done.success, done.stdout, done.stdout_bytes, done.stderr_bytes), (3, False, "out", b"out", b"\xff\xfe"))
        self.assertEqual((done.output, done.cwd, done.duration_ms), ("o1", "/workspace", 1.5))

    def test_one_request_each(self):
        """Method and parameters of every operation with one request; the response is not checked here."""
        rows = [
            (lambda box: box.info(), "sandbox.get", {}),
            (lambda box: box.update(idle_ms=5, network=cloche.Network()), "sandbox.update", {"idleMs": 5, "network": {"allow": [], "deny": []}}),
            (lambda box: box.update(network={"allow": ("a",), "headers": {"a": {"X": "1"}}}), "sandbox.update", {"network": {"allow": ["a"], "headers": {"a": {"X": "1"}}}}),
            (lambda box: box.stop(), "sandbox.stop", {}),
            (lambda box: box.save(), "sandbox.save", {}),
            (lambda box: box.commit(), "sandbox.commit", {}),
            (lambda box: box.commit("made:1", env={"A": None}, cmd=("x",), user="app", comment="c", file_time=1), "sandbox.commit",
             {"image": "made:1", "config": {"env": {"A": None}, "cmd": ["x"], "user": "app"}, "comment": "c", "fileTime": 1}),
            (lambda box: box.pause(), "sandbox.pause", {}),
            (lambda box: box.pause(save=False), "sandbox.pause", {"save": False}),
            (lambda box: box.logs(limit=2), "sandbox.logs", {"limit": 2}),
            (lambda box: box.rename("c"), "sandbox.rename", {"name": "c"}),
            (lambda box: box.metrics(from_time="2026"), "sandbox.metrics", {"from": "2026"}),
            (lambda box: box.pause(memory=False), "sandbox.pause", {"memory": False}),
            (lambda box: box.resume(), "sandbox.resume", {}),
            (lambda box: box.fork(), "sandbox.fork", {}),
            (lambda box: box.fork(2, names=["b", "c"]), "sandbox.fork", {"count": 2, "names": ["b", "c"]}),
            (lambda box: box.snapshot("s", labels={"a": "1"}), "sandbox.snapshot", {"snapshot": "s", "labels": {"a": "1"}}),
            (lambda box: box.update(lifetime_ms=5, end_action="delete", idle_action="pause"), "sandbox.update",
             {"lifetimeMs": 5, "endAction": "delete", "idleAction": "pause"}),
            (lambda box: box.delete(), "sandbox.delete", {}),
            (lambda box: box.session("s", cwd="/", isolation=True), "session.create", {"session": "s", "cwd": "/", "isolation": True}),
            (lambda box: box.sessions(), "session.list", {}),
            (lambda box: box.set_env({"A": None}), "session.env", {"env": {"A": None}}),
            (lambda box: box.read_output("o1", "stderr", offset=2, limit=3), "output.read", {"output": "o1", "stream": "stderr", "offset": 2, "limit": 3}),
            (lambda box: box.start("ls", id="p", stdin=True, terminal=(80, 24)), "process.start",
             {"command": "ls", "process": "p", "stdin": True, "terminal": {"cols": 80, "rows": 24}}),
            (lambda box: box.processes(), "process.list", {}),
            (lambda box: box.kill_all(grace_ms=1), "process.killAll", {"graceMs": 1}),
            (lambda box: box.cleanup(), "process.cleanup", {}),
            (lambda box: box.process("p").info(), "process.get", {"process": "p"}),
            (lambda box: box.process("p").kill(signal.SIGINT, tree=False), "process.kill", {"process": "p", "signal": "2", "tree": False}),
            (lambda box: box.process("p").logs(offset=1, limit=2), "process.logs", {"process": "p", "offset": 1, "limit": 2}),
            (lambda box: box.process("p").input("x", end=True), "process.input", {"process": "p", "data": "x", "end": True}),
            (lambda box: box.process("p").resize(10, 20), "process.resize", {"process": "p", "cols": 10, "rows": 20}),
            (lambda box: box.process("p").wait(timeout_ms=1), "process.wait", {"process": "p", "timeoutMs": 1}),
            (lambda box: box.process("p").wait_for(port=80, path="/", status=(200, 299)), "process.wait",
             {"process": "p", "port": 80, "path": "/", "status": [200, 299]}),
            (lambda box: box.process("p").cleanup(), "process.cleanup", {"process": "p"}),
            (lambda box: box.write_file("f", "x", append=True, mode=0o600), "file.write", {"path": "f", "content": "x", "append": True, "mode": 0o600}),
            (lambda box: box.read_file("f", offset=1, limit=2), "file.read", {"path": "f", "offset": 1, "limit": 2}),
            (lambda box: box.stat("f"), "file.stat", {"path": "f"}),
            (lambda box: box.exists("f"), "file.exists", {"path": "f"}),
            (lambda box: box.list_files("d", recursive=True, hidden=True, after="a", limit=5), "file.list",
             {"path": "d", "recursive": True, "hidden": True, "after": "a", "limit": 5}),
            (lambda box: box.make_directory("d", recursive=True, mode=0o700), "file.mkdir", {"path": "d", "recursive": True, "mode": 0o700}),
            (lambda box: box.remove("d", recursive=True, force=True), "file.remove", {"path": "d", "recursive": True, "force": True}),
            (lambda box: box.search(".", pattern="a+", include=["*.c"], ignore_case=True), "file.search",
             {"path": ".", "pattern": "a+", "include": ["*.c"], "ignoreCase": True}),
            (lambda box: box.replace("f", "b", text="a", dry_run=True), "file.replace", {"path": "f", "replacement": "b", "text": "a", "dryRun": True}),
            (lambda box: box.pack("d", "d.tar", format="tar", exclude=["x"]), "archive.create", {"path": "d", "to": "d.tar", "format": "tar", "exclude": ["x"]}),
            (lambda box: box.unpack("d.tar", "e"), "archive.extract", {"path": "d.tar", "to": "e"}),
            (lambda box: box.checkout("https://x/y", "z", branch="b", depth=1, username="u", password="p"), "git.checkout",
             {"url": "https://x/y", "dir": "z", "branch": "b", "depth": 1, "username": "u", "password": "p"}),
            (lambda box: box.expose_port(8080, name="n", token="t"), "port.expose", {"port": 8080, "name": "n", "token": "t"}),
            (lambda box: box.unexpose_port(8080), "port.unexpose", {"port": 8080}),
            (lambda box: box.ports(), "port.list", {}),
            (lambda box: box.wait_for_port(8080, path="/"), "port.wait", {"port": 8080, "path": "/"}),
            (lambda box: box.network_log(after=4), "network.log", {"after": 4}),
        ]
        for use, method, params in rows:
            with self.subTest(method):
                self.assertEqual(self.asked({}, use)[1][:2], (method, {"sandbox": "box", **params}))

    def test_every_operation_of_the_table_is_asked(self):
        here = pathlib.Path(__file__).resolve()
        source = "".join((here.parents[1] / "cloche" / name).read_text() for name in ("_sandbox_requests.py", "_context_requests.py"))
        methods = [row["method"] for row in spec_tables()["SANDBOX_OPERATION"]]
        self.assertGreater(len(methods), 40)
        self.assertEqual([method for method in methods if f'"{method}"' not in source], [])

    def test_a_session_asks_as_itself(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            conversation.answer(conversation.expect("session.create"), {"session": "s1", "cwd": "/", "created": True, "isolation": False})
            for _ in range(3):
                message = conversation.receive()[0]
                seen.put((message["method"], message["params"]))
                conversation.answer(message, {"process": "p1"} if message["method"] == "process.start" else {})
            message = conversation.expect("process.get")
            seen.put((message["method"], message["params"]))
            conversation.answer(message, PROCESS)
            conversation.end()
        with self.box(script).session() as session:
            session.exec("a")
            process = session.start("b")
            session.delete()
            info = process.info()
            session.delete = lambda: None
        self.assertEqual([seen.get(timeout=10) for _ in range(4)], [
            ("exec", {"sandbox": "box", "session": "s1", "command": "a"}), ("process.start", {"sandbox": "box", "session": "s1", "command": "b"}),
            ("session.delete", {"sandbox": "box", "session": "s1"}), ("process.get", {"sandbox": "box", "process": "p1"})])
        self.assertEqual((info.id, info.status, info.exit_code, info.signal, info.terminal, info.running), ("p1", "killed", 137, "SIGKILL", True, False))

    def test_what_is_refused_here(self):
        box = self.box(lambda conversation: conversation.end())
        for use, message in [
            (lambda: box.exec(5), "command must be text or bytes"), (lambda: box.exec("a", env={"A=": "1"}), "cannot be a variable"),
            (lambda: box.exec("a", env={"A": 1}), "must be texts"), (lambda: box.session(env={"A": None}), "must be texts"),
            (lambda: box.read_file(""), "is no path"), (lambda: box.read_file(b"x"), "is no path"), (lambda: box.process("p").wait_for(), "expected text"),
            (lambda: box.exec("a", timeout=0), "timeout must be"), (lambda: box.search(".", text="a", include="x"), "sequence of texts"),
            (lambda: box.update(network=["a"]), "network must be"), (lambda: box.stop(timeout="1"), "timeout must be"),
        ]:
            with self.subTest(message), self.assertRaisesRegex(cloche.InvalidArgumentError, message):
                use()
        client = self.enterContext(cloche.Cloche(self.enterContext(Peer(lambda conversation: conversation.end())).address))
        for words, message in [({"packages": {"pip": "requests"}}, "packages: pip must be a sequence of texts, not a str"), ({"packages": ["requests"]}, "packages must be a mapping"),
                               ({"volumes": "data:/data"}, "volumes must be a sequence"), ({"volumes": {"name": "data", "path": "/data"}}, "volumes must be a sequence")]:
            with self.subTest(message), self.assertRaisesRegex(cloche.InvalidArgumentError, message):
                client.sandbox("a", **words)

    def test_errors_of_sandboxes_are_classes(self):
        def script(conversation):
            asked = conversation.expect("file.read")
            conversation.send({"id": asked["id"], "error": {"code": -32000, "message": "no f", "data": {"name": "file_not_found", "fault": "CALLER"}}})
            conversation.end()
        with self.assertRaisesRegex(cloche.FileNotFoundError, "no f"):
            self.box(script).read_file("f")

    def test_only_a_made_up_name_is_deleted(self):
        for name, last in ((None, "sandbox.delete"), ("kept", None)):
            seen = queue.SimpleQueue()

            def script(conversation, seen=seen):
                try:
                    message = conversation.receive()[0]
                    seen.put(message["method"])
                    conversation.answer(message, {})
                except EOFError:
                    seen.put(None)
            with self.box(script, name) as box:
                pass
            box._client.close()
            self.assertEqual(seen.get(timeout=10), last)


class Streams(PeerCase):
    def test_output_while_a_command_runs(self):
        def script(conversation):
            asked = conversation.expect("exec")
            assert asked["params"]["stream"] is True
            for stream, data in (("stdout", b"a\xff"), ("stderr", b"b")):
                printed(conversation, asked, stream, data)
            told(conversation, asked, "output", {"stream": "stdout", "data": "text"})
            told(conversation, {"id": 4711}, "output", {"stream": "stdout", "data": "somebody else's"})
            conversation.send({"id": asked["id"], "result": {**ENDED, "stderr": ""}})
            conversation.end()
        with self.box(script).stream("x") as stream:
            with self.assertRaises(cloche.InvalidStateError):
                stream.result
            self.assertEqual(list(stream), [cloche.Output("stdout", b"a\xff"), cloche.Output("stderr", b"b"), cloche.Output("stdout", b"text")])
            self.assertEqual(stream.result.exit_code, 3)
            self.assertEqual(list(stream), [])
            self.assertIs(stream.wait(), stream.result)

    def test_a_callback_is_told(self):
        def script(conversation):
            asked = conversation.expect("exec")
            printed(conversation, asked, "stdout", b"a")
            conversation.send({"id": asked["id"], "result": {**ENDED, "stderr": ""}})
            conversation.end()
        seen = []
        self.box(script).exec("x", on_output=lambda *what: seen.append(what))
        self.assertEqual(seen, [("stdout", b"a")])

    def test_who_leaves_takes_it_back(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            asked = conversation.expect("exec")
            printed(conversation, asked, "stdout", b"a")
            cancel = conversation.expect("cancel")
            seen.put((asked["id"], cancel["params"]))
            conversation.end()
        with self.box(script).stream("x") as stream:
            next(stream)
        ident, params = seen.get(timeout=10)
        self.assertEqual(params, {"id": ident})
        self.assertEqual(list(stream), [])
        with self.assertRaises(cloche.InvalidStateError):
            stream.result

    def test_a_watch_begins_when_it_is_ready(self):
        go = threading.Event()

        def script(conversation):
            asked = conversation.expect("file.watch")
            go.wait(10)
            told(conversation, asked, "ready", {})
            told(conversation, asked, "change", {"type": "move", "path": "/workspace/b", "from": {"$": "bytes", "at": 0, "n": 2}, "isDirectory": True,
                                                 "timestamp": 5}, b"\xff/")
            told(conversation, asked, "lost", {})
            conversation.answer(asked, {})
            conversation.end()
        box = self.box(script)
        threading.Timer(0.1, go.set).start()
        changes = list(box.watch("x", recursive=False))
        self.assertTrue(go.is_set())
        self.assertEqual([(change.type, change.path, change.old_path, change.is_directory) for change in changes],
                         [("move", "/workspace/b", "\udcff/", True), ("lost", "", None, False)])

    def test_events(self):
        def script(conversation):
            asked = conversation.expect("sandbox.events")
            told(conversation, asked, "portOpened", {"port": 80, "address": "0.0.0.0"})
            conversation.answer(asked, {})
            conversation.end()
        self.assertEqual(list(self.box(script).events()), [cloche.SandboxEvent("portOpened", {"port": 80, "address": "0.0.0.0"})])

    def test_an_error_ends_it(self):
        def script(conversation):
            asked = conversation.expect("process.follow")
            printed(conversation, asked, "terminal", b"a")
            conversation.send({"id": asked["id"], "error": {"code": -32000, "message": "gone", "data": {"name": "sandbox_ended"}}})
            conversation.end()
        stream = self.box(script).process("p").follow()
        self.assertEqual(next(stream), cloche.Output("terminal", b"a"))
        with self.assertRaises(cloche.SandboxEndedError):
            next(stream)

    def test_who_is_slow_has_the_daemon_hold(self):
        pieces, held = 40, threading.Event()
        stream = self.box(slowly_read(pieces, held)).process("p").follow()
        self.assertTrue(held.wait(10))
        self.assertEqual(sum(len(output.data) for output in stream), pieces << 16)
        self.assertEqual(stream.result.exit_code, 137)

    def test_no_more_than_so_much_is_kept(self):
        before, _core.MAX_WAITING_OUTPUT = _core.MAX_WAITING_OUTPUT, 1 << 20
        self.addCleanup(setattr, _core, "MAX_WAITING_OUTPUT", before)
        seen = queue.SimpleQueue()

        def script(conversation):
            asked = conversation.expect("process.follow")
            for _ in range(20):
                printed(conversation, asked, "stdout", bytes(1 << 16))
            while (message := conversation.receive()[0])["method"] != "cancel":
                pass
            seen.put(message["params"])
            conversation.end()
        stream = self.box(script).process("p").follow()
        self.assertTrue(seen.get(timeout=10))
        with self.assertRaises(cloche.TooLargeError):
            list(stream)


class Transfers(PeerCase):
    def test_upload_in_pieces_and_at_once(self):
        files = {}

        def script(conversation):
            while True:
                message, data = conversation.receive()
                params = message["params"]
                if message["method"] == "file.write":
                    files[params["path"]] = (files[params["path"]] if "offset" in params else b"") + data
                elif message["method"] == "file.move":
                    files[params["to"]] = files.pop(params["from"])
                conversation.answer(message, {"to": params.get("to", ""), "bytes": len(data)})
        content = bytes(range(256)) * 12000
        self.assertEqual(self.box(script).upload(io.BytesIO(content), "big"), len(content))
        self.assertEqual(files, {"big": content})
        self.assertEqual(self.box(script).upload(io.BytesIO(), "empty"), 0)
        self.assertEqual(files["empty"], b"")

    def test_what_fails_leaves_nothing(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            while True:
                message, _ = conversation.receive()
                seen.put(message["method"])
                if message["method"] == "file.move":
                    conversation.send({"id": message["id"], "error": {"code": -32000, "message": "no", "data": {"name": "file_denied"}}})
                else:
                    conversation.answer(message, {})
        with self.assertRaises(cloche.FileDeniedError):
            self.box(script).upload(io.BytesIO(bytes(2 << 20)), "f")
        self.assertEqual([seen.get(timeout=10) for _ in range(4)], ["file.write", "file.write", "file.move", "file.remove"])


class Async(unittest.IsolatedAsyncioTestCase):
    async def box(self, script):
        def whole(conversation):
            conversation.answer(conversation.expect("sandbox.create"), {"sandbox": "box", "state": "running", "created": True})
            script(conversation)
        peer = self.enterContext(Peer(whole))
        client = cloche.AsyncCloche(peer.address)
        self.addAsyncCleanup(client.close)
        return await client.sandbox("box")

    async def test_a_stream(self):
        def script(conversation):
            asked = conversation.expect("exec")
            printed(conversation, asked, "stdout", b"a")
            conversation.send({"id": asked["id"], "result": {**ENDED, "stderr": ""}})
            conversation.end()
        stream = (await self.box(script)).stream("x")
        self.assertEqual([output.data async for output in stream], [b"a"])
        self.assertEqual(stream.result.exit_code, 3)

    async def test_hold(self):
        held = threading.Event()
        async with (await self.box(slowly_read(40, held))).process("p").follow() as stream:
            self.assertTrue(await asyncio.to_thread(held.wait, 10))
            self.assertEqual(sum([len(output.data) async for output in stream]), 40 << 16)

    async def test_who_is_cancelled_takes_it_back(self):
        begun, seen = threading.Event(), queue.SimpleQueue()

        def script(conversation):
            asked = conversation.expect("file.watch")
            told(conversation, asked, "ready", {})
            begun.set()
            seen.put(conversation.expect("cancel")["params"]["id"] == asked["id"])
            conversation.end()
        box = await self.box(script)

        async def watch():
            async with box.watch("x") as stream:
                async for _ in stream:
                    pass
        task = asyncio.create_task(watch())
        await asyncio.to_thread(begun.wait, 20)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertTrue(await asyncio.to_thread(seen.get, timeout=10))

    async def test_a_sandbox_and_a_session_of_a_block(self):
        seen = queue.SimpleQueue()

        def script(conversation):
            while True:
                message = conversation.receive()[0]
                seen.put(message["method"])
                conversation.answer(message, {"sandbox": "made-up", "session": "s"})
        peer = self.enterContext(Peer(script))
        async with cloche.AsyncCloche(peer.address) as client, client.sandbox() as box, box.session() as session:
            self.assertEqual((box.name, session.id), ("made-up", "s"))
        self.assertEqual([seen.get(timeout=10) for _ in range(4)], ["sandbox.create", "session.create", "session.delete", "sandbox.delete"])


if __name__ == "__main__":
    unittest.main()
