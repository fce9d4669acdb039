#!/usr/bin/python3
"""sandbox.logs and sandbox.rename: lines with their causes, that outlive the daemon; a name that is another's is refused."""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from clocks import Clock
from cloche import equal
from disk import Disk
from http_client import Http
from rpc import Daemon
from sandbox_client import wait_for


def lines(frames, name="a", **params):
    return [(row["event"], row.get("message", "")) for row in frames.call("sandbox.logs", sandbox=name, **params)["lines"]]


def log_file(state, name):
    return os.path.join(state, str(os.geteuid()), name, "log")


def test_a_life():
    with Clock() as clock, Daemon(env=clock.env) as daemon:
        state = os.path.join(daemon.directory, "state")
        with daemon.frames() as frames, daemon.frames() as watcher:
            frames.call("sandbox.create", sandbox="a", idleMs=1000000)
            watcher.ask("sandbox.events", sandbox="a")
            for method, params in (("sandbox.pause", {}), ("sandbox.resume", {}), ("sandbox.stop", {}), ("sandbox.update", {"labels": {"of": "a"}}), ("exec", {"command": "true"}), ("sandbox.save", {}),
                                   ("sandbox.snapshot", {"snapshot": "s"}), ("sandbox.fork", {"names": ["b"]}), ("sandbox.pause", {"memory": False}), ("sandbox.resume", {})):
                frames.call(method, sandbox="a", **params)
            frames.call("sandbox.create", sandbox="c", snapshot="s")
            begun = [("created", ""), ("started", ""), ("paused", "by a request, with its memory"), ("resumed", ""), ("stopped", "by a request"), ("changed", "labels"), ("started", ""),
                     ("snapshot", '"s"'), ("forked", '1 times: "b"'), ("paused", "by a request, with its files only"), ("started", "")]
            equal(lines(frames), begun)
            equal((lines(frames, "b"), lines(frames, "c")), ([("created", 'as a fork of "a"'), ("started", "")], [("created", "from a snapshot"), ("started", "")]))
            clock.let_pass(1100, frames)
            wait_for(lambda: lines(frames)[-1] == ("stopped", "as it was idle"))
            # A look and a new name change no state, and the name before is free.
            assert frames.refused("sandbox.rename", sandbox="a", name="b").message.startswith('there is a sandbox "b" already')
            for name in ("", "-", "a/b", "..", "x" * 64):
                equal(frames.refused("sandbox.rename", sandbox="a", name=name).name, "invalid_argument", name)
            equal(frames.refused("sandbox.rename", sandbox="none", name="new").name, "not_found")
            with Http(daemon.connect()) as http:
                status, answer = http.post("/v1/sandboxes/a/rename", name="new")
                status_of_logs, logs = http.get("/v1/sandboxes/new/logs?limit=1")
            equal((status_of_logs, logs["lines"][0]["event"]), (200, "renamed"))
            equal((status, answer["sandbox"], answer["state"]), (200, "new", "stopped"))
            equal(lines(frames, "new", limit=2), [("stopped", "as it was idle"), ("renamed", 'from "a"')])
            equal((frames.refused("sandbox.logs", sandbox="a").name, lines(frames, "new")[0]), ("not_found", ("created", "")))
            frames.call("exec", sandbox="a", command="true")
            equal(lines(frames, "a"), [("created", "by its first use"), ("started", "")])
            while not any(params["event"] == "renamed" for method, params, _ in watcher.told):
                watcher.turn()
        os.kill(daemon.engine_pid(), signal.SIGKILL)
        daemon.process.kill()
        daemon.process.wait()
        with open(log_file(state, "new"), "a") as file:
            file.write('\n{"time":"2026-')  # torn by the end of a machine
        with Daemon("--state-dir", state) as later, later.frames() as frames:
            equal(lines(frames, "new")[-2:], [("stopped", "as it was idle"), ("renamed", 'from "a"')])
            frames.call("sandbox.update", sandbox="new", labels={})
            equal(lines(frames, "new")[-2:], [("renamed", 'from "a"'), ("changed", "labels")])
            equal(lines(frames, "a")[-1][0], "lost")
            frames.call("sandbox.delete", sandbox="a")
            assert not os.path.exists(os.path.dirname(log_file(state, "a")))


def test_a_sandbox_at_work_is_renamed():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="X=1; echo one > f")
        command = frames.ask("exec", sandbox="a", command="until [ -e go ]; do sleep 0.02; done; echo $X")
        wait_for(lambda: not frames.is_answered(command))
        frames.call("sandbox.rename", sandbox="a", name="b")
        frames.call("file.write", sandbox="b", path="go", content="")
        equal(frames.wait(command)["stdout"], "1\n")
        frames.call("sandbox.stop", sandbox="b")
        equal(frames.call("exec", sandbox="b", command="cat f")["stdout"], "one\n")
        equal([row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]], ["b"])
        equal(sorted(os.listdir(os.path.join(daemon.directory, "state", str(os.geteuid())))), ["b"])


def test_it_does_not_grow():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a")
        path = log_file(os.path.join(daemon.directory, "state"), "a")
        row = json.dumps({"time": "2026-11-28T00:00:00.000Z", "event": "changed", "message": "x" * 100}) + "\n"
        for size, least, most in ((80000, 20000, 60000), (400000, 40000, 90000)):  # the second could not be shortened for long
            with open(path, "a") as file:
                file.write(row * (size // len(row)))
            frames.call("sandbox.update", sandbox="a", labels={})
            assert least < os.stat(path).st_size < most, os.stat(path)
            equal(lines(frames, limit=2), [("changed", "x" * 100), ("changed", "labels")])


def test_lines_for_which_there_was_no_room_are_counted():
    with Disk() as disk, Daemon(*disk.options) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a")
        state = disk.options[1]
        with open(log_file(state, "a"), "a") as file:
            file.write(" " * (4096 - file.tell() % 4096 - 1) + "\n")  # the next line needs a block
        disk.fill()
        for _ in range(2):
            frames.call("sandbox.pause", sandbox="a", save=False)
            frames.call("sandbox.resume", sandbox="a")
        disk.free()
        frames.call("sandbox.pause", sandbox="a", save=False)
        rows = frames.call("sandbox.logs", sandbox="a")["lines"]
        equal([(row["event"], row.get("missed")) for row in rows], [("created", None), ("started", None), ("paused", 4)])


def test_without_a_state_directory_and_of_another_caller():
    with Daemon("--state-dir", "", tcp=True) as daemon, daemon.frames() as frames, Http(daemon.connect_tcp(), daemon.token) as other:
        frames.call("sandbox.create", sandbox="a")
        frames.call("sandbox.rename", sandbox="a", name="b")
        equal(lines(frames, "b"), [("created", ""), ("started", ""), ("renamed", 'from "a"')])
        equal((other.get("/v1/sandboxes/b/logs")[0], other.post("/v1/sandboxes/b/rename", name="c")[0]), (404, 404))
