#!/usr/bin/python3
"""A sandbox that cannot be saved: it loses nothing, and the caller gets an error."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import BUILD, CLI, SOURCE, need_root
from disk import Disk
from http_client import Http
from life import below, groups, keeper_of
from rpc import Daemon, Failed
from sandbox_client import wait_for

def unsaved(daemon, sandbox="a"):
    return [line for line in daemon.lines() if line["event"] == "sandbox-not-saved" and line["sandbox"] == sandbox]


def begin(frames, command="echo precious > f", sandbox="a"):
    frames.call("exec", sandbox=sandbox, command=command)
    frames.call("process.start", sandbox=sandbox, process="p", command="exec sleep 100000")


PYTHON_STOP = "import cloche, sys\nwith cloche.Cloche(sys.argv[1]) as client: client.sandbox('a').stop()"
PYTHON_ENV = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "clients/python")}


def assert_refused(command):
    finished = subprocess.run(command, capture_output=True, text=True, env=PYTHON_ENV)
    assert finished.returncode == 1 and "goes on running" in finished.stderr, finished


def test_a_stop_on_a_full_disk_fails_and_nothing_is_lost():
    with Disk() as disk:
        with Daemon(*disk.options) as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
            begin(frames)
            disk.fill()
            error = frames.refused("sandbox.stop", sandbox="a")
            assert error.name == "resource" and "No space left" in error.message and "goes on running" in error.message, error.message
            assert frames.call("sandbox.get", sandbox="a")["state"] == "running"
            assert "No space left" in frames.call("sandbox.get", sandbox="a")["saveError"]
            assert frames.call("process.get", sandbox="a", process="p")["status"] == "running", "nothing in it was ended"
            assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"
            status, answer = http.post("/v1/sandboxes/a/stop")
            assert status == 503 and answer["error"]["name"] == "resource", (status, answer)
            assert len(unsaved(daemon)) == 1, daemon.log_text()
            assert_refused([CLI, "sandbox", "stop", "a", "--socket", daemon.path])
            assert_refused([sys.executable, "-c", PYTHON_STOP, daemon.path])
            disk.free()
            assert subprocess.run([sys.executable, "-c", PYTHON_STOP, daemon.path], env=PYTHON_ENV).returncode == 0  # the twins
            assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"
            assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"
            assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"
            assert "saveError" not in frames.call("sandbox.get", sandbox="a")
            assert daemon.stop() == 0
            assert len(unsaved(daemon)) == 1, daemon.log_text()


def test_a_stop_that_does_not_fit_ends_nothing():
    with Disk() as disk:
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            begin(frames, "head -c 3M /dev/urandom > f")
            disk.fill(left=1 << 20)
            error = frames.refused("sandbox.stop", sandbox="a")
            assert error.name == "resource" and "No space left" in error.message, error.message
            assert frames.call("process.get", sandbox="a", process="p")["status"] == "running"
            frames.call("file.remove", sandbox="a", path="f")
            assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"  # the twin: it fits now


def test_a_save_that_fails_late_keeps_the_files():
    """Its programs have ended by then: the files and the sandbox stay."""
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        begin(frames)
        frames.call("session.create", sandbox="a", session="s")
        folder = os.path.join(daemon.directory, "state", "0", "a")
        os.mkdir(os.path.join(folder, "files.new"))
        number = frames.ask("sandbox.events", sandbox="a")
        error = frames.refused("sandbox.stop", sandbox="a")
        assert error.name == "resource" and "goes on running" in error.message, error.message
        assert frames.call("exec", sandbox="a", command="cat f; exit 3")["stdout"] == "precious\n"
        assert frames.call("exec", sandbox="a", session="s", command="cat f")["stdout"] == "precious\n"
        assert frames.call("process.list", sandbox="a")["processes"] == []
        os.rmdir(os.path.join(folder, "files.new"))
        assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"  # the twin
        states = [params["about"]["state"] for method, params, _ in frames.told if params.get("id") == number and params["event"] == "state"]
        assert states == ["running", "stopped"], states
        assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"


def other_is_stopped(frames):
    """From the list of all: a request about one counts as use."""
    return [box["state"] for box in frames.call("sandbox.list")["sandboxes"] if box["sandbox"] == "other"] == ["stopped"]


def test_an_idle_sandbox_that_cannot_be_saved_stays_and_is_logged_once():
    """Another one shows that they were looked at again meanwhile: each time it is idle, it is stopped."""
    need_root()
    with Daemon("--save-every", "1") as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo precious > f")
        in_the_way = os.path.join(daemon.directory, "state", "0", "a", "files.new")
        os.mkdir(in_the_way)
        frames.call("sandbox.update", sandbox="a", idleMs=1)
        wait_for(lambda: unsaved(daemon))
        frames.call("sandbox.create", sandbox="other", idleMs=1)
        for _ in range(2):
            wait_for(lambda: other_is_stopped(frames))
            frames.call("exec", sandbox="other", command="true")
        line, = unsaved(daemon)
        assert line["level"] == "error" and line["principal"] == 0 and "directory" in line["message"], line
        assert frames.call("sandbox.get", sandbox="a")["state"] == "running"
        assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"
        os.rmdir(in_the_way)
        assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"  # the twin


def test_the_end_of_the_daemon_names_what_was_not_saved():
    with Disk() as disk:
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            begin(frames)
            begin(frames, sandbox="b")
            frames.call("sandbox.stop", sandbox="b")
            disk.fill()
            assert daemon.stop() == 1
            line, = unsaved(daemon)
            assert line["level"] == "error" and "No space left" in line["message"] and unsaved(daemon, "b") == [], daemon.log_text()
        disk.free()
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:  # the twin: a smaller one is saved
            assert frames.call("exec", sandbox="b", command="cat f")["stdout"] == "precious\n"
            assert daemon.stop() == 0 and unsaved(daemon, "b") == []


def test_saved_files_that_cannot_be_read_are_an_error():
    """Else the sandbox would begin empty, and be saved so."""
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo precious > f")
        frames.call("sandbox.stop", sandbox="a")
        saved = os.path.join(daemon.directory, "state", "0", "a", "files")
        os.chmod(saved, 0)
        error = frames.refused("exec", sandbox="a", command="ls")
        assert "saved files" in error.message, error.message
        os.chmod(saved, 0o600)
        assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n"  # the twin


def test_saved_means_on_the_disk():
    """The new files before they take their place, then the definition and each directory on the way."""
    shim = os.path.join(BUILD, "tests/log-fsync.so")
    with Daemon(env={"LD_PRELOAD": shim}) as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo precious > f")
        before = len(daemon.log_text())
        frames.call("sandbox.stop", sandbox="a")
        state = os.path.realpath(os.path.join(daemon.directory, "state"))
        principal = str(os.geteuid())
        steps = [line.replace(state, "S").replace("/" + principal, "/P") for line in daemon.log_text()[before:].splitlines() if line.startswith(("fsync", "rename"))]
        wanted = ["fsync S/P/a/files.new", "rename files.new files", "rename sandbox.json.new sandbox.json", "fsync S/P/a/sandbox.json", "fsync S/P/a", "fsync S/P",
                  "fsync S"]
        at = steps.index(wanted[0])
        assert steps[at:at + len(wanted)] == wanted, steps


class Held:
    """A daemon whose fsync(2) waits from hold() until go()."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="cloche-held-", dir="/tmp")
        os.chmod(self.directory, 0o755)
        self.path = os.path.join(self.directory, "held")
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "tests/log-fsync.so"), "HOLD_FSYNC": self.path}

    def hold(self):
        open(self.path, "w").close()

    def go(self):
        os.unlink(self.path)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.directory)


def test_what_changes_while_it_is_saved_is_saved_too():
    """By a save requested at that time, and by a stop: files read earlier are out of date."""
    for method in ("sandbox.save", "sandbox.stop"):
        with Held() as held:
            state = ("--state-dir", os.path.join(held.directory, "state"))
            with Daemon(*state, env=held.env) as daemon, daemon.frames() as frames:
                frames.call("exec", sandbox="a", command="echo before > f")
                held.hold()
                frames.ask("sandbox.save", sandbox="a")
                wait_for(lambda: "fsync waits" in daemon.log_text())
                frames.call("exec", sandbox="a", command="echo precious > f")
                second = frames.ask(method, sandbox="a")
                assert not frames.is_answered(second)
                held.go()
                frames.wait(second)
                daemon.stop(signal.SIGKILL)  # nothing more is saved
            with Daemon(*state) as daemon, daemon.frames() as frames:
                assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "precious\n", method


def test_a_keeper_that_dies_while_a_save_is_flushed():
    """Before the new files have their place, the ones before are told and there; after it, the new ones, though the request failed."""
    for held_of, new in (("files.new", False), ("sandbox.json", True)):
        with Held() as held:
            state = ("--state-dir", os.path.join(held.directory, "state"))
            with Daemon(*state, env={**held.env, "HOLD_FSYNC_OF": held_of}) as daemon, daemon.frames() as frames:
                frames.call("exec", sandbox="a", command="echo before > f")
                before = frames.call("sandbox.save", sandbox="a")["savedAt"]
                frames.call("exec", sandbox="a", command="echo after > f")
                held.hold()
                saving = frames.ask("sandbox.save", sandbox="a")
                wait_for(lambda: "fsync waits" in daemon.log_text())
                keeper = keeper_of(below(daemon.process.pid))
                os.kill(keeper, signal.SIGKILL)
                try:
                    frames.wait(saving)
                    raise AssertionError("it was saved")
                except Failed as error:
                    assert error.name == "sandbox_ended", error
                held.go()
                daemon.stop()
            with Daemon(*state) as daemon, daemon.frames() as frames:
                wait_for(lambda: not groups(keeper))
                assert (frames.call("sandbox.get", sandbox="a")["savedAt"] != before) == new, (held_of, before)
                assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == ("after\n" if new else "before\n"), held_of
