"""Floods of output: the daemon buffers no more than promised, a slow reader blocks no other, and counts are right."""
import json
import time

from hostile_sandboxes import Box, Daemon, Memory, wait_for
from http_client import Http
from sandbox_client import Socket, read_events

A = "/v1/sandboxes/a"
TIMEOUT = 90
ROOM = 40 << 20  # of memory, for several streams of which each may hold some MiB


def begin_stream(http, method="/exec", **params):
    assert http.begin("POST", A + method, params, accept="text/event-stream") == 200


def runs(box, word):
    return int(box.says(f"ps -eo args= | grep -c '^{word}'", session="look"))


def test_slow_readers_of_endless_output():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        for n in range(3):
            box.call("session.create", session=f"s{n}")
        box.says("echo", session="look")
        with Memory(daemon, ROOM) as memory:
            streams = [Http(daemon.connect()) for _ in range(3)]
            for n, http in enumerate(streams):
                begin_stream(http, command="yes flood" if n else "cat /dev/zero", session=f"s{n}")
            socket = Socket(daemon.connect(), A + "/exec")
            socket.say(command="yes flood")
            for _ in range(10):
                time.sleep(0.1)
                memory.look()
                assert box.says("echo beside", session="look") == b"beside\n"
            assert next(read_events(streams[1]))[1]["stream"] == "stdout"
            assert runs(box, "yes flood") == 3
            for http in streams:
                http.close()
            socket.http.close()
            wait_for(lambda: runs(box, "yes flood") == 0 and runs(box, "cat /dev/zero") == 0)
        box.is_well()


def test_floods_nobody_streams():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        with Memory(daemon, ROOM) as memory:
            result = box.run("head -c 150000000 /dev/zero | tr '\\0' x; head -c 70000000 /dev/zero | tr '\\0' y >&2", outputBytes=100)
            assert (result["stdoutBytes"], result["stderrBytes"], result["stdout"], result["truncated"]) == (150000000, 70000000, "x" * 100, True)
            memory.look()
            page = box.call("output.read", output=result["output"], stream="stdout", offset=(64 << 20) - 10)
            assert page["data"] == "x" * 10 and page["end"] and page["total"] == 150000000, page
            page = box.call("output.read", output=result["output"], stream="stderr", offset=1 << 52)
            assert page["data"] == "" and page["end"], page
        number = frames.ask("exec", sandbox="a", command="yes", session="default", timeoutMs=700, outputBytes=0)
        assert frames.wait(number)["timedOut"]
        for _ in range(70):
            box.run("echo x")
        assert box.refused("output.read", output=result["output"], stream="stdout").name == "not_found", "old ones are forgotten"
        box.is_well()


def test_processes_that_print_for_ever():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        with Memory(daemon, ROOM) as memory:
            names = [box.call("process.start", command="exec yes flood", process=f"p{n}")["process"] for n in range(4)]
            names.append(box.call("process.start", command="exec cat /dev/urandom", terminal={"cols": 80, "rows": 24})["process"])
            until = time.monotonic() + 1.5
            while time.monotonic() < until:
                memory.look()
                assert box.says("echo beside") == b"beside\n"
                time.sleep(0.1)
            logs = box.call("process.logs", process="p0", limit=100)
            assert logs["stdoutTotal"] > logs["stdoutDropped"] >= 0 and box.bytes(logs["stdout"])
            assert box.call("process.wait", process="p1", pattern="^(f+)+lood$", timeoutMs=20000)["line"] == "flood"
            for name in names:
                box.call("process.kill", process=name, signal="KILL")
        assert box.call("process.cleanup")["count"] >= 0
        box.is_well()


def test_lines_and_patterns_that_have_no_end():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as other:
        box, beside = Box(frames), Box(other, "beside")
        slow = box.call("process.start", command="printf %s aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa{1..50}; echo b; head -c 30000000 /dev/zero | tr '\\0' a; sleep 1000", process="slow")["process"]
        waits = [box.ask("process.wait", process=slow, pattern=pattern, timeoutMs=1500) for pattern in ("(a+)+$", "(a|aa)+c", "(?:a?){200}a{200}c", "^(.*?,){30}P", "(?R)?a", "(*LIMIT_MATCH=4000000000)(a+)+$")]
        for _ in range(5):
            assert beside.says("echo beside") == b"beside\n", "one's patterns hold up nobody else"
        ends = set()
        for number in waits:
            try:
                frames.wait(number)
                ends.add("matched")
            except Exception as error:
                ends.add(error.name)
        assert ends <= {"matched", "timeout", "invalid_argument", "too_large", "resource"}, ends
        for pattern in ("(", "[", "a{999999999}", "(?<n>a)(?<n>b)", "\\C", "x" * 100000):
            try:
                box.call("process.wait", process=slow, pattern=pattern, timeoutMs=100)
            except Exception as error:
                assert error.name in ("invalid_argument", "timeout", "too_large"), (pattern[:20], error.name)
        box.call("process.kill", process=slow, signal="KILL")
        assert box.call("process.start", command="echo ready; sleep 1000", process="twin")
        assert box.call("process.wait", process="twin", pattern="^re(ad)y$", timeoutMs=20000)["match"] == ["ready", "ad"]
        box.is_well()


ESCAPES = "python3 -c 'import sys\nfor i in range(3000): sys.stdout.write(\"\\x1b]0;title\\x07\\x1b[2J\\x1b[999;999H\\x1b[6n\\x1b[c\\x1b]52;c;AAAA\\x07\\x1bP+q544e\\x1b\\\\\\x1b[?1049h\\x1b#8\\x9b31m\\x00\" + chr(0x202e))\nsys.stdout.write(chr(10) + \"ENDED\" + chr(10))'\n"


def test_terminals_flooded_with_escapes():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        with Memory(daemon, ROOM) as memory, Socket(daemon.connect(), A + "/terminal?cols=80&rows=24") as viewer, Socket(daemon.connect(), A + "/terminal") as deaf:
            assert all(json.loads(socket.receive())["type"] == "ready" for socket in (viewer, deaf))
            viewer.send(b"stty -echo\n")
            viewer.send(ESCAPES.encode())
            data = viewer.until(b"ENDED\r\n")
            assert data.count(b"\x1b]52;c;AAAA\x07") == 3000 and data.count("\u202e".encode()) == 3000, "bytes are passed on as they are, and answered by nobody"
            viewer.send(b"yes flood\n")
            for _ in range(100):
                viewer.receive()
                memory.look()
            viewer.send(b"\x03")
            viewer.send(b"echo over $((20 + 22))\n")
            viewer.until(b"over 42\r\n")
            for text in ("x" * 100000, json.dumps({"type": "resize", "cols": 1000, "rows": 1000})):
                viewer.send(text.encode())
            with Socket(daemon.connect(), A + "/terminal") as late:
                late.receive()
                assert sum(len(late.receive()) for _ in range(1)) <= 300000
        box.is_well()


def test_a_flood_of_input_nobody_takes():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as other:
        box = Box(frames)
        box.call("process.start", process="deaf", command="sleep 1000", stdin=True)
        box.call("process.start", process="terminal", command="sleep 1000", terminal={"cols": 80, "rows": 24})
        beside = Box(other, "beside")
        asked = [box.ask("process.input", process=name, data="x" * (1 << 20)) for _ in range(10) for name in ("deaf", "terminal")]
        for _ in range(5):
            assert beside.says("echo beside") == b"beside\n"
        for name in ("deaf", "terminal"):
            beside.frames.call("process.kill", sandbox="a", process=name, signal="KILL")
        for number in asked:
            try:
                frames.wait(number)
            except Exception as error:
                assert error.name in ("process_ended", "queue_full", "resource", "too_large", "invalid_state", "cancelled", "not_found", "state"), error.name
        box.call("process.start", process="hears", command="head -c 1000000 | wc -c", stdin=True)
        box.call("process.input", process="hears", data="x" * 1000000)
        assert box.call("process.wait", process="hears", text="1000000", timeoutMs=20000)  # the twin
        box.is_well()


def test_events_faster_than_they_are_taken():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        with Memory(daemon, ROOM) as memory, Http(daemon.connect()) as watch, Http(daemon.connect()) as events:
            begin_stream(watch, "/file/watch", path="/workspace", recursive=True)
            begin_stream(events, "/events")
            assert next(event for event in read_events(watch) if event[0])[0] == "ready"
            for _ in range(3):
                box.python("import os\nfor i in range(6000):\n  open('f', 'w').close()\n  os.rename('f', 'g')\n  os.unlink('g')")
                for n in range(30):
                    box.call("process.start", command="true", autoCleanup=True)
                memory.look()
            box.call("file.write", path="last", content="x")
            assert any(name == "lost" or about and about.get("path", "").endswith("last") for name, about in read_events(watch))
        box.is_well()
