#!/usr/bin/python3
"""Sandboxes and the daemon's own life: where they are saved, whose that is, and how the daemon ends."""
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import DAEMON, Daemon, Failed, Frames, Gone
from sandbox_client import wait_for


class Directory:
    """One that the daemon's user can reach."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="cloche-state-")
        os.chmod(self.path, 0o711)
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path)


def test_sandboxes_outlive_the_daemon():
    with Directory() as directory:
        state = os.path.join(directory, "state")
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            frames.call("exec", sandbox="a", command="echo kept > f; cd /tmp; export WORD=too")
            status = os.stat(state)
            assert status.st_uid != 0 and status.st_mode & 0o777 == 0o700, "it is the daemon's user's, and nobody else's"
            number = frames.ask("sandbox.events", sandbox="a")  # event subscriptions do not delay the end
            assert daemon.stop() == 0, number
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            assert frames.call("sandbox.get", sandbox="a")["state"] == "stopped"
            assert frames.call("exec", sandbox="a", command="cat /workspace/f; pwd; echo $WORD")["stdout"] == "kept\n/tmp\ntoo\n"
            frames.call("sandbox.delete", sandbox="a")
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            assert frames.call("sandbox.list") == {"sandboxes": []}


def test_nothing_is_saved_without_a_directory():
    with Daemon("--state-dir", "") as daemon, daemon.frames() as frames:
        assert frames.call("exec", sandbox="a", command="echo x")["stdout"] == "x\n"


def start(*options):
    return subprocess.run([DAEMON, "--socket", "/nowhere/socket", *options], capture_output=True, text=True, timeout=30)


def test_directories_that_are_refused():
    with Directory() as directory:
        def refused(path, *more):
            finished = subprocess.run([DAEMON, "--socket", os.path.join(directory, "socket"), "--state-dir", path, *more], capture_output=True, text=True, timeout=30)
            assert finished.returncode != 0, finished.stderr
            return finished.stderr

        full = os.path.join(directory, "full")
        os.mkdir(full)
        open(os.path.join(full, "somebody's"), "w").close()
        assert "empty" in refused(full) and os.stat(full).st_uid == 0, "a mistyped path is not taken away"
        os.symlink(full, os.path.join(directory, "link"))
        refused(os.path.join(directory, "link"))
        refused(os.path.join(full, "somebody's"))
        closed = os.path.join(directory, "closed")
        os.mkdir(closed, 0o700)
        assert "user" in refused(os.path.join(closed, "state"))
        shared = os.path.join(directory, "shared")
        with Daemon("--state-dir", shared):
            assert "another daemon" in refused(shared)


def test_options_that_are_refused():
    for option, value, word in (("--preview-host", "", "HOST"), ("--preview-host", "a b", "HOST"), ("--preview-host", "a:x", "port"), ("--preview-host", "a/b", "HOST"),
                                ("--save-every", "x", "whole"), ("--max-sandboxes", "0", "whole"), ("--max-saved", "0", "whole"), ("--container-listen", "127.0.0.1:0", "SANDBOX"),
                                ("--container-listen", "127.0.0.1:0=", "SANDBOX"), ("--container-listen", "=a", "SANDBOX"), ("--container-listen", "127.0.0.1:x=a", "port")):
        finished = start(option, value)
        assert finished.returncode == 2 and word in finished.stderr, (option, value, finished.stderr)
    finished = subprocess.run([DAEMON, "--container-listen", "0.0.0.0:0=a", "--state-dir", ""], capture_output=True, text=True, timeout=30)
    assert finished.returncode == 2 and "loopback" in finished.stderr, finished.stderr


def test_a_caller_has_so_many_sandboxes_and_no_more():
    """Another caller has his own; which ones are there is no matter of the bound."""
    with Directory() as directory:
        state = os.path.join(directory, "state")
        with Daemon("--state-dir", state, "--max-saved", "3", tcp=True) as daemon, daemon.frames() as frames, Frames(daemon.connect_tcp(), token=daemon.token) as other:
            frames.call("sandbox.create", sandbox="a")
            frames.call("exec", sandbox="b", command="echo kept > f")
            frames.call("sandbox.stop", sandbox="b")
            frames.call("sandbox.create", sandbox="c", limits={"pids": 60}, env={"UNUSUAL": "1"})
            for method, params in (("sandbox.create", {"sandbox": "d"}), ("sandbox.create", {}), ("sandbox.create", {"env": {"UNUSUAL": "1"}}), ("exec", {"sandbox": "d", "command": "true"}),
                                   ("file.write", {"sandbox": "d", "path": "f", "content": ""}), ("context.create", {"sandbox": "d"})):
                error = frames.refused(method, **params)
                assert error.name == "queue_full" and "3 sandboxes" in error.message, (method, error.name, error.message)
            assert sorted(os.listdir(os.path.join(state, "0"))) == ["a", "b", "c"]
            assert frames.call("exec", sandbox="b", command="cat f")["stdout"] == "kept\n"  # the twins
            assert other.call("exec", sandbox="d", command="echo served")["stdout"] == "served\n"
            frames.call("sandbox.delete", sandbox="a")
            assert frames.call("exec", sandbox="d", command="echo served")["stdout"] == "served\n"
            assert frames.refused("exec", sandbox="a", command="true").name == "queue_full"
        with Daemon("--state-dir", state, "--max-saved", "2") as daemon, daemon.frames() as frames:
            assert len(frames.call("sandbox.list")["sandboxes"]) == 3, "what was saved is kept"
            assert frames.refused("sandbox.create").name == "queue_full"
            assert frames.call("exec", sandbox="b", command="cat f")["stdout"] == "kept\n"


def test_a_command_may_end_within_the_grace():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1; echo done")
        frames.call("stats")
        daemon.process.send_signal(signal.SIGTERM)
        assert frames.wait(number)["stdout"] == "done\n"
        code = daemon.process.wait(40)
        assert code == 0, code


def test_grace_is_over():
    with Daemon("--grace", "1") as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1000")
        frames.call("stats")
        daemon.process.send_signal(signal.SIGTERM)
        try:
            frames.wait(number)
            raise AssertionError("it ended well")
        except (Failed, Gone):
            pass
        code = daemon.process.wait(40)
        assert code == 0, code


def test_told_twice_it_ends_at_once():
    with Daemon("--grace", "1000", level="info") as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1000")
        frames.call("stats")
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in daemon.log_text())
        assert daemon.process.poll() is None, number
        daemon.process.send_signal(signal.SIGTERM)
        code = daemon.process.wait(40)
        assert code == 0, code


def test_no_new_work_while_it_ends():
    with Daemon("--grace", "1000", level="info") as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        assert http.get("/health")[0] == 200
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1000")
        frames.call("stats")
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in daemon.log_text())
        assert frames.refused("exec", sandbox="a", command="true").name == "stopping"
        assert http.get("/v1/sandboxes/a/raw?path=x")[1]["error"]["name"] == "stopping"
        assert number not in frames.answers, "it goes on meanwhile"
        daemon.process.send_signal(signal.SIGTERM)
        code = daemon.process.wait(40)
        assert code == 0, code


def test_cycles_leave_nothing():
    with Daemon("--state-dir", "") as daemon, daemon.frames() as frames:
        for i in range(3):
            frames.call("exec", sandbox="a", command="true")
            frames.call("sandbox.delete", sandbox="a")
        before = daemon.descriptors()
        for i in range(60):
            frames.call("exec", sandbox="a", command="true")
            frames.call("sandbox.delete", sandbox="a")
        # Pooled boxes have some too, and may not have been there before.
        wait_for(lambda: daemon.descriptors() < before + 10)


def test_killed_it_leaves_no_process():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("process.start", sandbox="a", command="exec -a killed-daemons-child sleep 1000")
        daemon.process.kill()
        daemon.process.wait()
        wait_for(lambda: subprocess.run(["pgrep", "-f", "^killed-daemons-child"], capture_output=True).returncode == 1)


def saved_with(text="kept", name="a"):
    """A state directory in which a sandbox was saved."""
    directory = Directory()
    state = os.path.join(directory.__enter__(), "state")
    with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox=name, labels={"of": "me"})
        frames.call("file.write", sandbox=name, path="f", content=text)
        frames.call("file.write", sandbox=name, path="run.sh", content="#!/bin/sh\ntouch /tmp/executed\n", mode=0o755)
        frames.call("sandbox.stop", sandbox=name)
        assert daemon.stop() == 0
    return directory, state


def archive_of(state, name="a"):
    return os.path.join(state, "0", name, "files")


def damaged(data):
    """Damaged variants of an archive, by name."""
    yield "empty", b""
    yield "one byte", data[:1]
    yield "cut in the middle", data[:len(data) // 2]
    yield "cut at the end", data[:-3]
    yield "garbage", bytes(range(256)) * 40
    yield "zeros", bytes(len(data))
    yield "turned bits", bytes(byte ^ (0x40 if i % 97 == 50 else 0) for i, byte in enumerate(data))
    yield "text", b"#!/bin/sh\ntouch /tmp/executed\n"
    yield "twice", data + data[:100]


def test_a_damaged_archive_is_an_error_and_nothing_of_it_is_run():
    directory, state = saved_with()
    with directory:
        whole = open(archive_of(state), "rb").read()
        for why, data in damaged(whole):
            with open(archive_of(state), "wb") as file:
                file.write(data)
            with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
                assert frames.call("sandbox.get", sandbox="a")["labels"] == {"of": "me"}, "what it is can be asked all the same"
                for method, params in (("exec", {"command": "cat f; ls /tmp"}), ("file.read", {"path": "f"})):
                    try:
                        said = frames.call(method, sandbox="a", **params)
                        assert why in ("twice", "cut at the end", "turned bits"), (why, said)
                        assert said.get("stdout", said.get("content")) == "kept", (why, said)
                    except Failed as error:
                        assert error.name in ("resource", "bad_archive") and "files of the sandbox a" in error.message, (why, error.name, error.message)
                assert frames.call("exec", sandbox="b", command="echo other")["stdout"] == "other\n"
                frames.call("sandbox.delete", sandbox="b")
                wait_for(lambda: frames.call("stats")["sandboxes"]["running"] <= 1)
                daemon.process.kill()  # so that it is not saved over
                daemon.process.wait()
        with open(archive_of(state), "wb") as file:
            file.write(whole)
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            assert frames.call("exec", sandbox="a", command="cat f; ls /tmp")["stdout"] == "kept"  # the twin
            frames.call("sandbox.delete", sandbox="a")
            assert frames.call("exec", sandbox="a", command="ls")["stdout"] == "", "deleted, its name is free"


def test_a_damaged_archive_is_not_saved_over():
    directory, state = saved_with()
    with directory:
        data = open(archive_of(state), "rb").read()[:40]
        with open(archive_of(state), "wb") as file:
            file.write(data)
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            frames.refused("exec", sandbox="a", command="true")
            try:
                frames.call("sandbox.stop", sandbox="a")
            except Failed:
                pass
            daemon.stop()
        assert open(archive_of(state), "rb").read() == data, "it may yet be mended by who has a copy"


def test_what_is_in_the_archives_place():
    for kind in ("link", "directory"):
        directory, state = saved_with()
        with directory:
            place = archive_of(state)
            os.rename(place, place + ".kept")
            if kind == "link":
                os.symlink("/etc/passwd", place)
            else:
                os.mkdir(place, 0o700)
                os.chown(place, os.stat(state).st_uid, os.stat(state).st_gid)
            with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
                number = frames.ask("exec", sandbox="a", command="ls; cat passwd")
                with daemon.frames() as other:
                    assert other.call("exec", sandbox="b", command="echo beside")["stdout"] == "beside\n", kind
                    other.call("sandbox.delete", sandbox="a")
                try:
                    assert "root" not in frames.wait(number)["stdout"], kind
                except Failed:
                    pass


DEFINITIONS = [b"", b"{", b"[]", b"null", b"\xff\xfe", b"{" * 100000, b'{"sandbox": "a", "sandbox": "b"}']


def test_a_damaged_definition_is_kept_and_said():
    for data in DEFINITIONS:
        directory, state = saved_with()
        with directory:
            folder = os.path.join(state, "0", "a")
            with open(os.path.join(folder, "sandbox.json"), "wb") as file:
                file.write(data)
            with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
                assert "definition" in frames.call("sandbox.get", sandbox="a")["saveError"], data[:40]
                assert frames.call("exec", sandbox="a", command="cat f; ls /tmp")["stdout"] == "kept", "its files are there all the same"
                assert open(os.path.join(folder, "sandbox.json.bad"), "rb").read() == data
                frames.call("sandbox.delete", sandbox="a")
                assert os.listdir(os.path.join(state, "0")) == []


ODD = [{"limits": {"pids": -1, "memoryBytes": "x"}}, {"env": {"A": 5}}, {"env": [], "labels": 7, "network": "x"}, {"sessions": [{}, 5, {"session": "x" * 200}, {"session": "s"}, {"session": "t", "cwd": "relative"}]},
       {"ports": [{}, {"port": 99999999, "token": "t"}, {"port": -1, "token": "x" * 500}, {"port": 80}]}, {"idleMs": -5, "createdMs": "now", "savedMs": -1}, {"sandbox": "../../etc"}]


def test_an_odd_definition_brings_nobody_down():
    """Written by another version, or by hand: refused when it starts, or read as far as it has a sense."""
    directory, state = saved_with()
    with directory:
        place = os.path.join(state, "0", "a", "sandbox.json")
        whole = json.load(open(place))
        for odd in ODD:
            with open(place, "w") as file:
                json.dump({**whole, **odd}, file)
            try:
                daemon = Daemon("--state-dir", state)
            except AssertionError as error:
                assert "sandbox" in str(error), error
                continue
            with daemon, daemon.frames() as frames:
                frames.checks_answers = False  # an odd definition shows in answers
                assert [box["sandbox"] for box in frames.call("sandbox.list")["sandboxes"]] == ["a"], odd
                try:
                    frames.call("exec", sandbox="a", command="true")
                except Failed as error:
                    assert error.name, odd
                assert daemon.process.poll() is None and frames.call("exec", sandbox="b", command="echo well")["stdout"] == "well\n", odd
                frames.call("sandbox.delete", sandbox="b")
                daemon.process.kill()
                daemon.process.wait()


def test_saved_now_and_then_and_what_a_crash_leaves():
    with Directory() as directory:
        state = os.path.join(directory, "state")
        with Daemon("--state-dir", state, "--save-every", "1") as daemon, daemon.frames() as frames:
            frames.call("exec", sandbox="a", command="echo now > f; cd /tmp; export WORD=now")
            frames.call("port.expose", sandbox="a", port=8080, token="secret", name="web")
            frames.call("sandbox.update", sandbox="a", labels={"of": "me"}, network={"allow": ["example.test"]})
            wait_for(lambda: os.path.exists(os.path.join(state, "0", "a", "files")))
            assert frames.call("sandbox.get", sandbox="a")["savedAt"]
            frames.call("sandbox.save", sandbox="a")
            frames.call("process.start", sandbox="a", command="sleep 1000", process="p")
            daemon.process.kill()
            daemon.process.wait()
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            box = frames.call("sandbox.get", sandbox="a")
            assert box["state"] == "stopped" and box["labels"] == {"of": "me"} and box["network"]["allow"] == ["example.test"] and box["processes"] == 0, box
            assert frames.call("exec", sandbox="a", command="cat /workspace/f; pwd; echo $WORD")["stdout"] == "now\n/tmp\nnow\n"
            assert [(row["port"], row["token"], row["name"]) for row in frames.call("port.list", sandbox="a")["exposed"]] == [(8080, "secret", "web")]
            assert frames.refused("process.get", sandbox="a", process="p").name == "not_found"


def test_stops_and_starts_that_meet_lose_nothing():
    """Requests that wait for the start have changed nothing yet."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo 1 > f")
        frames.call("sandbox.stop", sandbox="a")
        number = frames.ask("exec", sandbox="a", command="cat f")
        stopped = frames.call("sandbox.stop", sandbox="a")
        assert "lost" not in stopped, stopped
        assert frames.wait(number)["stdout"] == "1\n", "it starts again for them"
        # So it is with those that come while it is saved to be stopped, which takes a while.
        frames.call("exec", sandbox="a", command="head -c 20M /dev/urandom > g")
        number = frames.ask("sandbox.stop", sandbox="a")
        wait_for(lambda: frames.call("sandbox.list")["sandboxes"][0]["state"] == "stopped")
        assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "1\n"
        assert "lost" not in frames.wait(number)
        assert "sandbox-changes-lost" not in daemon.log_text(), daemon.log_text()


def test_a_change_that_cannot_be_written_changes_nothing():
    with Daemon() as daemon, daemon.frames() as frames:
        for command in ("true", None):  # of one that runs, and of one that stands still
            frames.call("sandbox.create", sandbox="a", labels={"of": "me"}, env={"WORD": "before"}, network={"allow": ["before.test"]}, idleMs=1000000)
            if command:
                frames.call("exec", sandbox="a", command=command)
            else:
                frames.call("sandbox.stop", sandbox="a")
            before = frames.call("sandbox.get", sandbox="a")
            change = {"labels": {"large": "x" * (2 << 20)}, "env": {"WORD": "after"}, "network": {"allow": ["after.test"]}, "idleMs": 5000000}
            assert frames.refused("sandbox.update", sandbox="a", **change).name == "too_large"
            after = frames.call("sandbox.get", sandbox="a")
            names = ("labels", "env", "network", "idleMs", "limits")
            assert not [name for name in names if after[name] != before[name]], [name for name in names if after[name] != before[name]]
            change["labels"] = {"small": "x"}
            after = frames.call("sandbox.update", sandbox="a", **change)
            assert after["labels"] == {"small": "x"} and after["network"]["allow"] == ["after.test"], after
            frames.call("sandbox.delete", sandbox="a")


def test_a_directory_that_cannot_be_written():
    """A full disk, or lost permissions: the sandbox goes on and reports why it is not saved, and
    the saved files stay."""
    directory, state = saved_with()
    with directory:
        folder = os.path.join(state, "0", "a")
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            assert frames.call("exec", sandbox="a", command="cat f; echo new > f")["stdout"] == "kept"
            os.chmod(folder, 0o500)
            try:
                error = frames.refused("sandbox.save", sandbox="a")
                assert error.name == "resource" and "denied" in error.message.lower(), error.message
                assert frames.call("sandbox.get", sandbox="a")["saveError"]
                assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "new\n"
            finally:
                os.chmod(folder, 0o700)
            assert "savedAt" in frames.call("sandbox.save", sandbox="a") and "saveError" not in frames.call("sandbox.get", sandbox="a")  # the twin
