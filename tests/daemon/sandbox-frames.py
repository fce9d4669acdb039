#!/usr/bin/python3
"""Sandboxes over frames: attachments without base64, events, cancelling, pausing, visibility, and
objects that end with a connection."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon, Failed, Frames, Gone, private
from sandbox_client import IS_SANITIZED, wait_for


def events(frames, number):
    return [(p["event"], p["about"], attachments) for method, p, attachments in frames.told if method == "event" and p["id"] == number]


def printed(frames, number, stream="stdout"):
    return b"".join(data[about["data"]["at"]:about["data"]["at"] + about["data"]["n"]] for event, about, data in events(frames, number)
                    if event == "output" and about["stream"] == stream)


def attached(data):
    return {"$": "bytes", "at": 0, "n": len(data)}


def test_copies_of_a_shell_wait_for_no_other():
    """All at once are copies, with the shell's functions; one beside a command of the shell begins at once, without them."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="word() { echo of the shell; }")
        asked = [frames.ask("exec", sandbox="a", command="word", fork=True) for _ in range(64)]
        assert {frames.wait(number)["stdout"] for number in asked} == {"of the shell\n"}
        waits = frames.ask("exec", sandbox="a", command="until [ -e go ]; do sleep 0.01; done; word")
        asked = [frames.ask("exec", sandbox="a", command="echo beside; touch go", fork=True) for _ in range(4)]
        assert {frames.wait(number)["stdout"] for number in asked} == {"beside\n"}
        assert frames.wait(waits)["stdout"] == "of the shell\n"



def test_a_copy_does_not_wait_for_the_first_command():
    """Both are requested while the shell of a new session starts."""
    with Daemon() as daemon, daemon.frames() as frames:
        for i in range(5):
            frames.call("session.create", sandbox="a", session=f"s{i}")
            first = frames.ask("exec", sandbox="a", session=f"s{i}", command=f"until [ -e go{i} ]; do sleep 0.02; done; echo first")
            assert frames.call("exec", sandbox="a", session=f"s{i}", command=f"touch go{i}; echo copy", fork=True)["stdout"] == "copy\n"
            assert frames.wait(first)["stdout"] == "first\n"


def test_commands_and_bytes():
    with Daemon() as daemon, daemon.frames() as frames:
        assert frames.call("exec", sandbox="a", command="echo $((1 + 1)); echo no >&2; false")["exitCode"] == 1
        result = frames.call("exec", sandbox="a", command="printf 'a\\xff\\0b'")
        at = result["stdout"]
        assert frames.attachments[at["at"]:at["at"] + at["n"]] == b"a\xff\0b"
        data = os.urandom(3 << 20)
        assert frames.call("file.write", data, sandbox="a", path="big", content=attached(data))["bytes"] == len(data)
        content = frames.call("file.read", sandbox="a", path="/workspace/big")["content"]
        assert frames.attachments[content["at"]:content["at"] + content["n"]] == data
        assert frames.call("exec", b"in\xff", sandbox="a", command="od -An -tx1", stdin=attached(b"in\xff"))["stdout"].split() == ["69", "6e", "ff"]
        frames.call("exec", sandbox="a", command="cd /tmp; export WORD=kept")
        assert frames.call("exec", sandbox="a", command="echo $PWD $WORD")["stdout"] == "/tmp kept\n"
        assert [box["sandbox"] for box in frames.call("sandbox.list")["sandboxes"]] == ["a"]
        stats = frames.call("stats")["sandboxes"]
        assert stats["known"] == stats["running"] == 1 and stats["sessions"] == 1
        assert frames.call("sandbox.delete", sandbox="a") == {} and frames.call("sandbox.list") == {"sandboxes": []}


def test_what_is_asked_is_checked():
    with Daemon() as daemon, daemon.frames() as frames:
        for method, params, word in (("exec", {"sandbox": "a"}, "command"), ("exec", {"command": "true"}, "sandbox"), ("exec", {"sandbox": 1, "command": ""}, "sandbox"),
                                     ("exec", {"sandbox": "a", "command": "true", "other": 1}, "other"), ("exec", {"sandbox": "a", "command": 5}, "command"),
                                     ("exec", {"sandbox": "a", "command": {"$": "bytes", "b64": "AA=="}}, "command"),
                                     ("exec", {"sandbox": "a", "command": {"$": "bytes", "at": 0, "n": 9}}, "command"),
                                     ("exec", {"sandbox": "a", "command": "true", "timeoutMs": -1}, "timeoutMs"),
                                     ("exec", {"sandbox": "a", "command": "true", "timeoutMs": 10 ** 9}, "timeoutMs"),
                                     ("exec", {"sandbox": "a", "command": "true", "stream": "yes"}, "stream"),
                                     ("sandbox.create", {"limits": {"what": 1}}, "what"), ("sandbox.create", {"env": {"A=": "b"}}, "env"),
                                     ("sandbox.list", {"sandbox": "a"}, "sandbox"), ("file.search", {"sandbox": "a", "path": ".", "include": "x"}, "include")):
            error = frames.refused(method, **params)
            assert error.name == "invalid_argument" and word in error.message, (method, params, error.message)
        for name in ("", "-a", "a-", "a/b", "a.b", "..", "x" * 64, "\u00e4", "a b", "a%00", "a\n"):
            assert frames.refused("exec", sandbox=name, command="true").name == "invalid_argument", name
        assert frames.call("sandbox.list") == {"sandboxes": []}, "nothing was made by a mistake"
        assert frames.call("exec", sandbox="a" * 63, command="echo")["exitCode"] == 0
        assert frames.refused("sandbox.get", sandbox="b").name == "not_found"


def test_before_hello():
    with Daemon() as daemon, daemon.frames(hello=False) as frames:
        assert frames.refused("exec", sandbox="a", command="true").name == "invalid_state"


def test_events_come_before_the_answer():
    with Daemon() as daemon, daemon.frames() as frames:
        number = frames.ask("exec", sandbox="a", command="echo one; sleep 0.2; echo two; echo err >&2", stream=True)
        assert frames.wait(number)["exitCode"] == 0
        assert printed(frames, number) == b"one\ntwo\n" and printed(frames, number, "stderr") == b"err\n"
        frames.call("process.start", sandbox="a", process="p", command="for i in 1 2 3; do echo $i; sleep 0.1; done")
        number = frames.ask("process.follow", sandbox="a", process="p")
        ended = frames.wait(number)
        assert ended["status"] == "completed" and printed(frames, number) == b"1\n2\n3\n"
        number = frames.ask("sandbox.events", sandbox="a")
        frames.call("process.start", sandbox="a", process="q", command="true")
        while "processEnded" not in [event for event, _, _ in events(frames, number)]:
            frames.turn()
        frames.call("sandbox.delete", sandbox="a")
        assert frames.wait(number) == {}


def test_the_end_of_a_run_takes_no_other_descriptor_off_the_loop():
    """Two runs have read all their input, so the numbers of their pipes are free; a pipe gets them before the runs end."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        # Without a limit of processor time the engine opens no counters, which would get the numbers.
        runs = [frames.ask("script", language="bash", code="wc -c; exec sleep 600", stdin="x", stream=True, warm=False,
                           limits={"wallMs": 0, "cpuMs": 0}) for _ in range(2)]
        for run in runs:
            while frames.output("stdout", run) != b"1\n":
                frames.turn()
        names = ["p", "q", "r"]
        for name in names:
            frames.call("process.start", sandbox="a", process=name, command="until [ -e go ]; do sleep 0.01; done; wc -c", stdin=True)
        inputs = [frames.ask("process.input", sandbox="a", process=name, data="y" * 300000, end=True) for name in names]
        for run in runs:
            assert frames.call("cancel", id=run) == {"found": True}
            assert frames.wait(run)["status"] == "terminated"
        frames.call("file.write", sandbox="a", path="go", content="")
        for name, number in zip(names, inputs):
            frames.wait(number)
            frames.call("process.wait", sandbox="a", process=name)


def test_cancelling():
    with Daemon() as daemon, daemon.frames() as frames:
        number = frames.ask("exec", sandbox="a", command="echo $$; sleep 1000 & sleep 1000", stream=True)
        while not printed(frames, number):
            frames.turn()
        assert frames.refused("exec", sandbox="b", command=5).name == "invalid_argument", "others go on meanwhile"
        assert frames.call("cancel", id=number) == {"found": True}
        try:
            frames.wait(number)
            raise AssertionError("it was not cancelled")
        except Failed as error:
            assert error.name == "cancelled"
        assert frames.call("cancel", id=number) == {"found": False}
        left = frames.call("exec", sandbox="a", command="true; ps ax | grep -c '[s]leep 1000'")["stdout"]
        assert left == "0\n", "what the command had started is dead"
        numbers = [frames.ask("exec", sandbox="a", command="sleep 1000") for _ in range(3)]  # one runs, two wait
        for number in reversed(numbers):
            assert frames.call("cancel", id=number)["found"]
        assert frames.call("exec", sandbox="a", command="echo on")["stdout"] == "on\n"


def test_an_id_under_way_is_not_given_twice():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.send({"jsonrpc": "2.0", "id": "same", "method": "exec", "params": {"sandbox": "a", "command": "sleep 1000"}})
        for method, params in {"exec": {"sandbox": "a", "command": "true"}, "script": {"language": "bash", "code": "true"},
                               "prefix.create": {"language": "python", "code": "x = 1"},
                               "sync": {"changeset": "none"}}.items():
            frames.send({"jsonrpc": "2.0", "id": "same", "method": method, "params": params})
            try:
                frames.wait("same")
                raise AssertionError(f"{method} was taken")
            except Failed as error:
                assert error.name == "invalid_argument" and "use a new id" in str(error), (method, error)
        assert frames.call("cancel", id="same")["found"]


def test_a_connection_takes_its_requests_along_and_leaves_sandboxes():
    with Daemon() as daemon:
        with daemon.frames() as frames:
            frames.call("exec", sandbox="a", command="export KEPT=1")
            number = frames.ask("exec", sandbox="a", command="echo go; sleep 1000", stream=True)
            while not printed(frames, number):
                frames.turn()
        with daemon.frames() as frames:
            assert frames.call("exec", sandbox="a", command="echo $KEPT; ps ax | grep -c '[s]leep 1000'")["stdout"] == "1\n0\n"
            wait_for(lambda: frames.call("stats")["sandboxes"]["asks"] <= 1)


def test_holding_one_request():
    with Daemon() as daemon, daemon.frames() as frames:
        number = frames.ask("exec", sandbox="a", command="yes | head -c 30000000", stream=True, outputBytes=10)
        while not printed(frames, number):
            frames.turn()
        assert frames.call("hold", id=number, hold=True) == {"found": True}
        assert frames.call("exec", sandbox="b", command="echo others")["stdout"] == "others\n"
        before = len(printed(frames, number))
        for _ in range(10):
            frames.call("stats")
            time.sleep(0.05)
        held = len(printed(frames, number))
        assert frames.call("hold", id=number, hold=False) == {"found": True}
        frames.wait(number)
        assert len(printed(frames, number)) == 30000000 and held < 30000000, (before, held)
        assert frames.call("hold", id=number, hold=True) == {"found": False}
        assert frames.refused("hold", id=1).name == "invalid_argument"


def test_who_does_not_read_fills_no_memory():
    with Daemon() as daemon, daemon.frames() as watcher:
        watcher.call("exec", sandbox="a", command="true")
        before = daemon.memory()
        with daemon.frames() as frames:
            number = frames.ask("exec", sandbox="a", command="yes | head -c 400000000", stream=True, outputBytes=10)
            most = 0
            for _ in range(20):
                time.sleep(0.1)
                most = max(most, daemon.memory() - before)
            assert most < 48 << 20 or IS_SANITIZED, most
            watcher.call("exec", sandbox="b", command="true")
        assert watcher.call("exec", sandbox="a", command="echo free")["stdout"] == "free\n", number


def test_others_sandboxes_are_not_there():
    with Daemon(tcp=True) as daemon, daemon.frames() as mine, Frames(daemon.connect_tcp(), token=daemon.token) as others:
        mine.call("exec", sandbox="a", command="echo secret > /workspace/x")
        assert others.call("sandbox.list") == {"sandboxes": []}
        unknown = others.refused("sandbox.get", sandbox="no-such")
        known = others.refused("sandbox.get", sandbox="a")
        assert (unknown.name, unknown.message.replace("no-such", "a")) == (known.name, known.message), "nothing tells that it is there"
        assert others.call("sandbox.delete", sandbox="a") == {}, "of his own there is none"
        others.call("exec", sandbox="a", command="true")
        assert others.refused("file.read", sandbox="a", path="x").name == "file_not_found"
        assert mine.call("file.read", sandbox="a", path="x")["content"] == "secret\n"


def test_a_private_daemon():
    process, frames = private()
    with frames:
        assert frames.call("exec", sandbox="a", command="echo private")["stdout"] == "private\n"
    assert process.wait(40) == 0
