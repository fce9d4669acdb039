"""Sandboxes of a real daemon, by both clients."""
import asyncio
import io
import os
import pathlib
import tempfile
import threading
import time
import unittest

import cloche
from tests.real import AsyncDaemonCase, DaemonCase, program


class Commands(DaemonCase):
    def setUp(self):
        self.box = self.enterContext(self.client.sandbox())

    def test_what_a_command_says(self):
        done = self.box.exec("echo out; echo err >&2; exit 3")
        self.assertEqual((done.exit_code, done.stdout, done.stderr, done.success, done.cwd, done.session), (3, "out\n", "err\n", False, "/workspace", "default"))
        self.assertEqual(self.box.exec(r"printf '\377'").stdout_bytes, b"\xff")
        self.assertEqual(self.box.exec("cat", stdin=b"\0\xff").stdout_bytes, b"\0\xff")
        self.assertEqual(self.box.exec("echo $A; pwd", env={"A": "x"}, cwd="/tmp").stdout, "x\n/tmp\n")

    def test_a_session_stays(self):
        with self.box.session(env={"A": "1"}) as session:
            session.exec("cd /tmp; X=5; f() { echo f$X$A; }")
            self.assertEqual(session.exec("pwd; f").stdout, "/tmp\nf51\n")
            session.set_env({"A": "2"})
            self.assertEqual(session.exec("f").stdout, "f52\n")
            self.assertIn(session.id, [row.session for row in self.box.sessions()])
        self.assertNotIn(session.id, [row.session for row in self.box.sessions()])

    def test_timeouts(self):
        done = self.box.exec("sleep 60", timeout_ms=300)
        self.assertEqual((done.exit_code, done.timed_out), (124, True))
        with self.assertRaises(cloche.RunTimeoutError):
            self.box.exec("sleep 61", timeout=0.5)
        self.assertEqual(self.box.exec("pgrep -x sleep").stdout, "")

    def test_output_as_it_comes(self):
        seen = []
        done = self.box.exec("seq 3", on_output=lambda stream, data: seen.append((stream, data)))
        self.assertEqual((b"".join(data for _, data in seen), done.stdout), (b"1\n2\n3\n", "1\n2\n3\n"))
        with self.box.stream("echo a; echo b >&2") as stream:
            self.assertEqual({(output.stream, output.data) for output in stream}, {("stdout", b"a\n"), ("stderr", b"b\n")})
            self.assertTrue(stream.result.success)

    def test_leaving_a_stream_kills_the_command(self):
        with self.box.stream("yes") as stream:
            next(stream)
        self.assertEqual(self.box.exec("pgrep -x yes").stdout, "")

    def test_more_than_an_answer_holds(self):
        done = self.box.exec("seq 200000", output_bytes=1000)
        self.assertTrue(done.truncated)
        whole, at = b"", 0
        while True:
            page = self.box.read_output(done, offset=at)
            whole, at = whole + page.data, page.next
            if page.end:
                break
        self.assertEqual(whole, b"".join(b"%d\n" % n for n in range(1, 200001)))
        self.assertEqual(done.stdout_total, len(whole))

    def test_a_slow_reader_does_not_keep_the_others(self):
        size = 30 << 20
        with self.box.stream(f"head -c {size} /dev/zero") as stream:
            next(stream)
            time.sleep(0.5)
            with self.client.sandbox() as other:
                self.assertEqual(other.exec("echo there").stdout, "there\n")
            self.assertEqual(sum(len(output.data) for output in stream) > size - (1 << 20), True)

    def test_many_threads(self):
        found = {}

        def work(number):
            with self.box.session() as session:
                session.exec(f"X={number}")
                found[number] = session.exec("echo $X").stdout
        threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(found, {number: f"{number}\n" for number in range(8)})


class Processes(DaemonCase):
    def setUp(self):
        self.box = self.enterContext(self.client.sandbox())

    def test_a_life(self):
        process = self.box.start("echo one; echo two >&2; read line; echo got $line; exit 4", stdin=True)
        self.assertEqual(process.wait_for(text="one", timeout_ms=20000).line, "one")
        self.assertTrue(process.info().running)
        process.input("hello\n")
        with process.follow() as stream:
            self.assertEqual(b"".join(output.data for output in stream if output.stream == "stdout"), b"one\ngot hello\n")
        self.assertEqual((stream.result.status, stream.result.exit_code, process.wait().exit_code), ("failed", 4, 4))
        logs = process.logs()
        self.assertEqual((logs.stdout, logs.stderr, logs.stdout_total), ("one\ngot hello\n", "two\n", 14))
        self.assertEqual([row.id for row in self.box.processes()], [process.id])
        process.cleanup()
        self.assertEqual(self.box.processes(), [])
        with self.assertRaises(cloche.NotFoundError):
            process.info()

    def test_waiting(self):
        process = self.box.start("sleep 60")
        with self.assertRaises(cloche.errors.TimeoutError):
            process.wait_for(text="never", timeout_ms=200)
        self.assertEqual(process.kill().status, "killed")
        with self.assertRaisesRegex(cloche.errors.TimeoutError, "before the process .* printed 'never'$"):
            self.box.start("sleep 61").wait_for(text="never", timeout_ms=1)
        for option, awaited in ({"text": "never"}, "it printed 'never'"), ({"pattern": "x+"}, "it printed a line that matches 'x\\+'"), ({"port": 8098}, "it served port 8098"):
            with self.assertRaisesRegex(cloche.ProcessEndedError, f"ended with exit code [0-9]+ before {awaited}$") as caught:
                process.wait_for(**option)
            self.assertEqual((caught.exception.data["condition"], caught.exception.data["exitCode"]), (*option, 143))
        self.assertEqual(self.box.start("echo n=42").wait_for(pattern=r"n=(\d+)").match, ["n=42", "42"])

    def test_a_terminal(self):
        process = self.box.start("stty size; read x; stty size; exit 2", terminal=(100, 30))
        process.wait_for(text="30 100", timeout_ms=20000)
        process.resize(90, 20)
        process.input("\r")
        with process.follow() as stream:
            said = b"".join(output.data for output in stream)
        self.assertIn(b"20 90", said)
        self.assertEqual(stream.result.exit_code, 2)

    def test_ports(self):
        server = self.box.start("python3 -m http.server 8099 --bind 127.0.0.1")
        self.assertEqual(server.wait_for(port=8099, path="/", timeout_ms=30000).status, 200)
        self.assertEqual(self.box.wait_for_port(8099, path="/"), 200)
        self.assertIn(8099, [port.port for port in self.box.ports().open])
        exposed = self.box.expose_port(8099, name="web")
        self.assertEqual((exposed.port, exposed.name, [port.token for port in self.box.ports().exposed]), (8099, "web", [exposed.token]))
        self.assertTrue(self.box.unexpose_port(8099))
        self.assertFalse(self.box.unexpose_port(8099))
        self.assertEqual(self.box.kill_all(), 1)


class Files(DaemonCase):
    def setUp(self):
        self.box = self.enterContext(self.client.sandbox())

    def test_contents(self):
        self.assertEqual(self.box.write_file("a/b", "text"), 4)
        self.box.write_file(pathlib.PurePosixPath("raw"), b"\0\xff", mode=0o600)
        self.assertEqual((self.box.read_file("a/b").text, self.box.read_file("raw").data), ("text", b"\0\xff"))
        self.assertEqual(self.box.read_file("a/b", offset=1, limit=2).data, b"ex")
        self.assertEqual((self.box.stat("raw").type, self.box.stat("raw").mode & 0o777, self.box.stat("raw").size), ("file", 0o600, 2))
        self.assertEqual((self.box.exists("a"), self.box.exists("z")), (True, False))
        with self.assertRaises(cloche.FileNotFoundError):
            self.box.read_file("z")

    def test_trees(self):
        self.assertTrue(self.box.make_directory("d/e", recursive=True))
        self.box.write_file("d/e/f", "one two")
        self.assertEqual([entry.relative_path for entry in self.box.walk("d")], ["e", "e/f"])
        self.assertEqual(self.box.copy("d", "c"), "/workspace/c")
        self.assertEqual(self.box.move("c/e/f", "g"), "/workspace/g")
        self.assertEqual([match.line for match in self.box.search(".", text="two").matches], [1, 1])
        self.assertEqual(self.box.replace("g", "2", text="two").count, 1)
        self.assertEqual(self.box.read_file("g").text, "one 2")
        self.box.pack("d", "d.tar.gz")
        self.box.unpack("d.tar.gz", "new")
        self.assertEqual([entry.name for entry in self.box.walk("new") if entry.type == "file"], ["f"])
        self.assertGreater(self.box.remove("d", recursive=True), 1)
        self.assertFalse(self.box.exists("d"))

    def test_any_size(self):
        data = os.urandom(1 << 20) * 5 + b"end"
        with tempfile.TemporaryDirectory() as folder:
            source, target = pathlib.Path(folder, "source"), pathlib.Path(folder, "target")
            source.write_bytes(data)
            source.chmod(0o640)
            self.assertEqual(self.box.upload(source, "big"), len(data))
            self.assertEqual(self.box.download("big", target), len(data))
            self.assertEqual((target.read_bytes() == data, self.box.stat("big").mode & 0o777), (True, 0o640))
        out = io.BytesIO()
        self.box.download("big", out)
        self.assertTrue(out.getvalue() == data)
        self.assertEqual([entry.name for entry in self.box.list_files(hidden=True).entries], ["big"])
        with self.assertRaises(cloche.FileKindError):
            self.box.download("/tmp", io.BytesIO())

    def test_a_directory(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder, "top")
            (top / "deep" / "empty").mkdir(parents=True)
            (top / "deep" / "run").write_bytes(b"echo ran\n")
            (top / "deep" / "run").chmod(0o755)
            (top / "link").symlink_to("deep/run")
            self.assertEqual(self.box.upload(top, "copied/here"), 9)
            self.assertEqual(self.box.upload(str(top), "/workspace/copied/here"), 9)
            os.mkfifo(top / "pipe")
            with self.assertRaisesRegex(cloche.UnreadableFileError, "pipe.*neither"):
                self.box.upload(top, "other")
        self.assertEqual(self.box.exec("cd copied/here && find . | sort && readlink link && bash link; ls /tmp; test -x deep/run").stdout_bytes,
                         b".\n./deep\n./deep/empty\n./deep/run\n./link\ndeep/run\nran\n")

    def test_watching(self):
        with self.box.watch(".") as changes:
            self.box.exec("mkdir sub; echo x > sub/f")
            while (change := next(changes)).path != "/workspace/sub/f":
                pass
            self.assertIn(change.type, ("create", "modify"))


class Sandboxes(DaemonCase):
    def test_names(self):
        box = self.client.sandbox("named", labels={"a": "b"}, limits={"memory_bytes": 300 << 20})
        self.addCleanup(box.delete)
        self.assertEqual((box.info().labels, box.info().limits["memoryBytes"]), ({"a": "b"}, 300 << 20))
        self.assertIn("named", [row.name for row in self.client.sandboxes()])
        box.exec("touch there")
        with self.client.sandbox("named") as again:
            self.assertTrue(again.exists("there"))
        self.assertEqual(box.update(labels={}, idle_ms=0).idle_ms, 0)
        box.delete()
        self.assertNotIn("named", [row.name for row in self.client.sandboxes()])
        with self.assertRaises(cloche.InvalidArgumentError):
            self.client.sandbox("no_such_name")

    def test_a_pause(self):
        box = self.client.sandbox("paused")
        box.exec("X=1")
        self.assertEqual(box.pause().state, "paused")
        with self.assertRaisesRegex(cloche.InvalidStateError, "paused already"):
            box.pause()
        self.assertEqual(box.resume().resumed, "memory")
        self.assertEqual(box.exec("echo $X").stdout, "1\n")
        info = box.update(lifetime_ms=3600000, idle_action="pause", end_action="delete")
        self.assertIsNotNone(info.ends_at)
        self.assertEqual((info.idle_action, info.end_action, info.writable_root, info.root), ("pause", "delete", False, False))
        box.stop()
        self.assertEqual(box.resume().resumed, "files")
        self.assertEqual(box.rename("resumed").name, "resumed")
        box = self.client.sandbox("resumed")
        self.assertEqual([(row.event, row.message) for row in box.logs(limit=3)],
                         [("stopped", "by a request"), ("started", None), ("renamed", 'from "paused"')])
        box.delete()

    def test_forks_and_snapshots(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        os.chmod(folder, 0o711)
        with cloche.Cloche(daemon=program(), daemon_options=["--state-dir", f"{folder}/state"]) as client, client.sandbox("origin") as box:
            box.exec("echo one > f")
            process = box.start("exec sleep 1000")
            forks = box.fork(names=["fork-1"])
            self.assertEqual([info.name for info in forks.sandboxes], ["fork-1"])
            self.assertEqual([(row.kind, row.name) for row in forks.omitted], [("process", process.id)])
            taken = box.snapshot("kept", labels={"a": "1"})
            self.assertEqual((taken.snapshot, taken.sandbox, taken.labels), ("kept", "origin", {"a": "1"}))
            self.assertEqual(client.snapshots(), [taken])
            self.assertEqual(client.snapshot("kept"), taken)
            box.exec("echo two > f")
            for copy in (client.sandbox("fork-1"), client.sandbox("of-kept", snapshot="kept")):
                self.assertEqual(copy.exec("cat f").stdout, "one\n")
                copy.delete()
            self.assertEqual(client.copy_snapshot("kept", "kept", replace=True, labels={"a": "2"}).labels, {"a": "2"})
            client.delete_snapshot("kept")
            with self.assertRaises(cloche.NotFoundError):
                client.snapshot("kept")

    def test_kept_packages(self):
        """A daemon without a state directory keeps none; tests/daemon/package-layers.py has those that are."""
        self.assertEqual(self.client.packages(), [])
        with self.assertRaises(cloche.NotFoundError):
            self.client.delete_packages("0" * 64)
        row = {"layer": "1f", "packages": {"pip": ["a"]}, "bytes": 3, "createdAt": "2026-01-01T00:00:00.000Z", "expiresAt": "2026-01-08T00:00:00.000Z"}
        kept = cloche.KeptPackages.read(row)
        self.assertEqual((kept.layer, kept.packages, kept.image, kept.bytes, kept.created_at, kept.expires_at, kept.raw),
                         ("1f", {"pip": ["a"]}, None, 3, row["createdAt"], row["expiresAt"], row))

    def test_a_made_up_one_goes(self):
        with self.client.sandbox() as box:
            self.assertIn(box.name, [row.name for row in self.client.sandboxes()])
        self.assertNotIn(box.name, [row.name for row in self.client.sandboxes()])

    def test_events(self):
        with self.client.sandbox() as box:
            events = box.events()
            box.start("true")
            seen = set()
            while not {"processStarted", "processEnded"} <= seen:
                seen.add(next(events).event)
            events.close()

    def test_git(self):
        with self.client.sandbox() as box:
            self.assertTrue(box.exec("(git init -q -b main o && cd o && git config user.email a@b.c && git config user.name n && echo x > f && git add f && "
                                     "git commit -qm 1)").success)
            done = box.checkout("file:///workspace/o", "copy")
            self.assertEqual((done.dir, done.branch, len(done.commit)), ("/workspace/copy", "main", 40))
            with self.assertRaises(cloche.GitNotFoundError):
                box.checkout("file:///workspace/none", "other")

    def test_no_network_unless_said(self):
        with self.client.sandbox() as box:
            self.assertFalse(box.exec("python3 -c 'import socket; socket.create_connection((\"192.0.2.1\", 80), 3)'", timeout_ms=20000).success)
            self.assertEqual(box.update(network=cloche.Network(["example.org:443"])).network.allow, ["example.org:443"])
            self.assertEqual(box.update(add_network=cloche.Network(["b.test"])).network.allow, ["example.org:443", "b.test"])
            self.assertEqual(box.update(network=cloche.Network()).network.allow, [])
            self.assertIsInstance(box.network_log(), list)

    def test_what_the_network_refused(self):
        refused = "curl -sS -m 5 http://93.184.216.34:81/"
        with self.client.sandbox(network=cloche.Network(["example.org:443"])) as box:
            remedy = 'update(add_network={"allow": ["93.184.216.34:81"]})'  # the command line does not reach a daemon of our own
            done = box.exec(refused)
            [denial] = done.denials
            self.assertEqual((denial.kind, denial.host, denial.address, denial.port, denial.rule, denial.remedy, denial.allow),
                             ("tcp", None, "93.184.216.34", 81, None, remedy, ["93.184.216.34:81"]))
            self.assertRegex(box.exec("curl -sS http://other.invalid/").warnings[0], "does not allow.* can allow more: sandbox.update ")
            cell = box.run_code(f"import subprocess; subprocess.run({refused.split()!r}).returncode != 0")
            process = box.start(refused).wait()
            self.assertEqual(([row.remedy for row in cell.denials], cell.text), ([remedy], "True"))
            self.assertEqual([row.remedy for row in process.denials], [remedy])
            done = box.exec("true")
            self.assertEqual((done.denials, done.warnings, box.run_code("1").denials), ([], [], []))
            eval(f"box.{remedy}", {"box": box})
            self.assertEqual((box.info().network.allow, box.exec(refused).denials), (["example.org:443", *denial.allow], []))


class Async(AsyncDaemonCase):
    async def test_the_same(self):
        async with self.client.sandbox() as box:
            self.assertEqual((await box.exec("echo out")).stdout, "out\n")
            self.assertEqual([output.data async for output in box.stream("echo a")], [b"a\n"])
            async with box.session(cwd="/tmp") as session:
                self.assertEqual((await session.exec("pwd")).stdout, "/tmp\n")
            process = await box.start("echo ready; sleep 60")
            self.assertEqual((await process.wait_for(text="ready")).line, "ready")
            self.assertEqual((await process.kill()).status, "killed")
            data = os.urandom(3 << 20)
            await box.upload(io.BytesIO(data), "f")
            out = io.BytesIO()
            await box.download("f", out)
            self.assertTrue(out.getvalue() == data)

    async def test_many_at_once(self):
        async with self.client.sandbox() as box:
            done = await asyncio.gather(*(box.exec(f"echo {number}", fork=True) for number in range(20)))
            self.assertEqual([one.stdout for one in done], [f"{number}\n" for number in range(20)])

    async def test_a_cancelled_task_kills_its_command(self):
        async with self.client.sandbox() as box:
            task = asyncio.create_task(box.exec("sleep 60"))
            await asyncio.sleep(0.3)
            task.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await task
            self.assertEqual((await box.exec("pgrep -x sleep")).stdout, "")

    async def test_watching(self):
        async with self.client.sandbox() as box, box.watch(".") as changes:
            await box.exec("touch f")
            async for change in changes:
                self.assertEqual(change.path, "/workspace/f")
                break


if __name__ == "__main__":
    unittest.main()
