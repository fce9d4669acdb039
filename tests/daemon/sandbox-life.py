#!/usr/bin/python3
"""Sandboxes and the daemon's own life: where they are saved, whose that is, and how the daemon ends."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import DAEMON, Daemon, Failed, Gone
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
            number = frames.ask("sandbox.events", sandbox="a")  # what is only told about does not hold up the end
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
                                ("--save-every", "x", "whole"), ("--max-sandboxes", "0", "whole"), ("--container-listen", "127.0.0.1:0", "SANDBOX"),
                                ("--container-listen", "127.0.0.1:0=", "SANDBOX"), ("--container-listen", "=a", "SANDBOX"), ("--container-listen", "127.0.0.1:x=a", "port")):
        finished = start(option, value)
        assert finished.returncode == 2 and word in finished.stderr, (option, value, finished.stderr)
    finished = subprocess.run([DAEMON, "--container-listen", "0.0.0.0:0=a", "--state-dir", ""], capture_output=True, text=True, timeout=30)
    assert finished.returncode == 2 and "loopback" in finished.stderr, finished.stderr


def test_a_command_may_end_within_the_grace():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1; echo done")
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        assert frames.wait(number)["stdout"] == "done\n"
        assert daemon.process.wait(40) == 0


def test_grace_is_over():
    with Daemon("--grace", "1") as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1000")
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        try:
            frames.wait(number)
            raise AssertionError("it ended well")
        except (Failed, Gone):
            pass
        assert daemon.process.wait(40) == 0


def test_told_twice_it_ends_at_once():
    with Daemon("--grace", "1000") as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 1000")
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        assert daemon.process.poll() is None, number
        daemon.process.send_signal(signal.SIGTERM)
        assert daemon.process.wait(40) == 0


def test_no_new_work_while_it_ends():
    with Daemon() as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        assert http.get("/health")[0] == 200
        frames.call("exec", sandbox="a", command="true")
        number = frames.ask("exec", sandbox="a", command="sleep 2")
        time.sleep(0.2)
        daemon.process.send_signal(signal.SIGTERM)
        wait_for(lambda: "stopping" in daemon.log_text() or http.get("/health")[0] == 503)
        assert frames.refused("exec", sandbox="a", command="true").name == "stopping"
        assert http.get("/v1/sandboxes/a/raw?path=x")[1]["error"]["name"] == "stopping"
        frames.wait(number)


def test_cycles_leave_nothing():
    with Daemon("--state-dir", "") as daemon, daemon.frames() as frames:
        for i in range(3):
            frames.call("exec", sandbox="a", command="true")
            frames.call("sandbox.delete", sandbox="a")
        before = daemon.descriptors()
        for i in range(20):
            frames.call("exec", sandbox="a", command="true")
            frames.call("sandbox.delete", sandbox="a")
        wait_for(lambda: daemon.descriptors() <= before)


def test_killed_it_leaves_no_process():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("process.start", sandbox="a", command="exec -a killed-daemons-child sleep 1000")
        daemon.process.kill()
        daemon.process.wait()
        wait_for(lambda: subprocess.run(["pgrep", "-f", "^killed-daemons-child"], capture_output=True).returncode == 1)
