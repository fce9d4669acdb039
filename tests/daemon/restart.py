"""The supervisor restarts the engine and the keeper after a crash or a hang of either, and reports the losses."""
import ctypes
import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import cli, process_state
from life import below, gone, groups, keeper_of
from rpc import DAEMON, HANG, Daemon, Failed, Frames, Gone


libc = ctypes.CDLL(None, use_errno=True)


def lines_of(daemon, event):
    return [line for line in daemon.lines() if line["event"] == event]


def wait_until(condition, what):
    until = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.02)


def listener_of(daemon):
    with daemon.connect() as sock:
        return struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def fill(frames):
    """A sandbox that is saved, and changed after that; one that was never saved; one that stands still."""
    for name in ("a", "never", "still"):
        frames.call("exec", sandbox=name, command="echo one > file")
    frames.call("sandbox.save", sandbox="a")
    frames.call("sandbox.stop", sandbox="still")
    frames.call("exec", sandbox="a", command="echo two > file; sleep 1000 &")


def check_the_line(daemon):
    """The command line reports it at the first use, once."""
    def said(name, *more):
        finished = cli("exec", name, "--socket", daemon.path, *more, "--", "true", env={"XDG_STATE_HOME": os.path.abspath("state")})
        assert finished.code == 0, finished
        return finished.stderr
    assert said("a", "--json") == b""
    told = said("a")
    assert told.startswith(b"cloche: a: changes from ") and told.count(b"\n") == 1, told
    assert b"never: changes from" in said("never"), "each of them"
    assert said("a") == said("never") == said("still") == b""
    for number, words in enumerate((("cp", "a:/workspace/file", "-"), ("context", "list", "a"), ("context", "run", "a", "-c", "1"), ("repl", "--sandbox", "a", "python"))):
        for first in (True, False):
            finished = cli(*words, "--socket", daemon.path, stdin=b"", env={"XDG_STATE_HOME": os.path.abspath(f"state{number}")})
            assert finished.code == 0 and finished.stderr.startswith(b"cloche: a: changes from ") == first, (words, finished)


def check_again(daemon, family, restarts):
    wait_until(lambda: lines_of(daemon, "engine-ended"), "the engine has not ended")
    with daemon.frames() as frames:  # new connections wait in the kernel meanwhile
        assert frames.call("call", language="python", code="return 40 + 2")["result"] == 42
        gone(family, "the engine before")
        stats = frames.call("stats")
        assert stats["restarts"] == restarts and stats["sandboxes"]["running"] == 0
        found = {sandbox["sandbox"]: sandbox for sandbox in frames.call("sandbox.list")["sandboxes"]}
        assert found["a"]["lost"]["from"] == found["a"]["savedAt"] < found["a"]["lost"]["to"], found["a"]
        assert found["never"]["lost"]["from"] == found["never"]["createdAt"], found["never"]
        assert "lost" not in found["still"], "the twin"
        assert frames.call("exec", sandbox="a", command="cat file; jobs")["stdout"] == "one\n"
        assert frames.call("exec", sandbox="still", command="cat file")["stdout"] == "one\n"
        assert frames.call("sandbox.get", sandbox="a")["lost"] == found["a"]["lost"], "it goes on being said"
    check_the_line(daemon)
    assert {line["sandbox"] for line in lines_of(daemon, "sandbox-changes-lost")} == {"a", "never"}


def test_an_engine_that_dies():
    for number in (signal.SIGKILL, signal.SIGSEGV):
        with Daemon(level="info") as daemon, daemon.frames() as held:
            fill(held)
            family = below(daemon.process.pid)
            os.kill(daemon.engine_pid(), number)
            check_again(daemon, family, 1)
            assert [(line["how"], line["number"]) for line in lines_of(daemon, "engine-ended")] == [("signal", number)]
            try:
                held.call("stats")
                raise AssertionError("the connection to the engine that died lives")
            except (Gone, OSError):
                pass
            assert daemon.stop() == 0 and not os.path.exists(daemon.path)


def test_a_keeper_that_dies():
    with Daemon(level="info") as daemon, daemon.frames() as held:
        fill(held)
        family = below(daemon.process.pid)
        keeper = keeper_of(family)
        os.kill(keeper, signal.SIGKILL)
        check_again(daemon, family, 1)
        assert not groups(keeper), "the next keeper removes them"
        assert daemon.stop() == 0


def test_an_engine_that_hangs():
    with Daemon("--hang-timeout", "3", level="info") as daemon, daemon.frames() as held:
        fill(held)
        family = below(daemon.process.pid)
        engine = daemon.engine_pid()
        os.kill(engine, signal.SIGSTOP)
        check_again(daemon, family, 1)
        assert [line["pid"] for line in lines_of(daemon, "engine-hangs")] == [engine]


def link_of(engine):
    """A copy of the socket by which it talks to its supervisor (supervised.c, LINK_FD)."""
    pidfd = os.pidfd_open(engine)
    try:
        fd = libc.syscall(438, pidfd, 3, 0)  # pidfd_getfd(2)
    finally:
        os.close(pidfd)
    assert fd >= 0, os.strerror(ctypes.get_errno())
    return socket.socket(fileno=fd)


def test_an_engine_that_sends_descriptors():
    """It was taken over: it is killed, and its supervisor goes on, also when it has ended before the message is read."""
    for is_dead in (False, True):
        with Daemon(level="info") as daemon, daemon.frames() as held:
            fill(held)
            family, engine = below(daemon.process.pid), daemon.engine_pid()
            with link_of(engine) as link:
                os.kill(daemon.process.pid, signal.SIGSTOP)
                link.send(b"x")  # the next one is read after the engine's end
                socket.send_fds(link, [b"x"], [0])
                if is_dead:
                    os.kill(engine, signal.SIGKILL)
                    wait_until(lambda: process_state(engine) == "Z", "it did not end")
            os.kill(daemon.process.pid, signal.SIGCONT)
            check_again(daemon, family, 1)
            assert [line["pid"] for line in lines_of(daemon, "engine-sends-descriptors")] in ([engine], [0])


def test_one_that_pauses_goes_on():
    with Daemon("--hang-timeout", "60") as daemon, daemon.frames() as held:
        fill(held)
        os.kill(daemon.engine_pid(), signal.SIGSTOP)
        time.sleep(2)
        os.kill(daemon.engine_pid(), signal.SIGCONT)
        assert held.call("exec", sandbox="a", command="cat file")["stdout"] == "two\n" and held.call("stats")["restarts"] == 0


def test_one_that_cannot_start_again_is_tried_until_it_can():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        parent = os.path.join(directory, "parent")
        os.mkdir(parent, 0o711)
        with Daemon("--state-dir", os.path.join(parent, "state"), level="info") as daemon:
            with daemon.frames() as frames:
                fill(frames)
            family = below(daemon.process.pid)
            os.rename(parent, parent + ".away")
            os.kill(daemon.engine_pid(), signal.SIGKILL)
            wait_until(lambda: len(lines_of(daemon, "cannot-start")) >= 2, "it is not tried again")
            assert daemon.process.poll() is None
            os.rename(parent + ".away", parent)
            with daemon.frames() as frames:
                restarts = frames.call("stats")["restarts"]
            assert restarts >= 3
            check_again(daemon, family, restarts)


def test_one_that_never_started_is_not_tried_again():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "socket")
        finished = subprocess.run([DAEMON, "--socket", path, "--state-dir", os.path.join(directory, "no/such")], capture_output=True, text=True, timeout=HANG)
        assert finished.returncode == 2 and finished.stderr.count("cannot-start") == 1, finished
        assert not os.path.exists(path)


def test_a_signal_reaches_the_engine_once():
    """pkill(1) sends it to both."""
    with Daemon(level="info") as daemon:
        with daemon.frames() as frames:
            fill(frames)
        for pid in (daemon.engine_pid(), daemon.process.pid, daemon.engine_pid()):
            os.kill(pid, signal.SIGTERM)
        assert daemon.process.wait(HANG) == 0 and len(lines_of(daemon, "stopping")) == 1
        with Daemon("--state-dir", os.path.join(daemon.directory, "state")) as again, again.frames() as frames:
            assert frames.call("exec", sandbox="a", command="cat file")["stdout"] == "two\n", "it was told twice, and did not save"
            assert "lost" not in frames.call("sandbox.get", sandbox="a")


def test_told_to_end_between_two_engines():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        parent = os.path.join(directory, "parent")
        os.mkdir(parent, 0o711)
        with Daemon("--state-dir", os.path.join(parent, "state"), level="info") as daemon:
            daemon.frames().close()
            wait_until(lambda: lines_of(daemon, "ready"), "it is not ready")
            os.rename(parent, parent + ".away")
            os.kill(daemon.engine_pid(), signal.SIGKILL)
            wait_until(lambda: lines_of(daemon, "cannot-start"), "it starts all the same")
            daemon.process.terminate()
            assert daemon.process.wait(HANG) != 0 and not os.path.exists(daemon.path)


def test_without_its_supervisor_nothing_goes_on():
    with Daemon() as daemon:
        with daemon.frames() as frames:
            fill(frames)
        family = below(daemon.process.pid)
        daemon.process.kill()
        daemon.process.wait()
        assert os.path.exists(daemon.path), "nobody has removed it; the next daemon takes it"
        process = subprocess.Popen([DAEMON, "--socket", daemon.path, "--state-dir", os.path.join(daemon.directory, "state")], stdin=subprocess.DEVNULL, stderr=daemon.log)
        try:
            wait_until(lambda: daemon.is_ready() and listener_of(daemon) == process.pid, "the next daemon does not serve")
            with daemon.frames() as frames:
                assert frames.call("sandbox.get", sandbox="a")["lost"]
        finally:
            process.terminate()
            assert process.wait(HANG) == 0
        gone(family, "the daemon before")


def test_the_box_of_a_sandbox_that_dies():
    with Daemon(level="info") as daemon, daemon.frames() as frames:
        fill(frames)
        before = frames.call("sandbox.get", sandbox="a")
        inits = [pid for pid, name in below(daemon.process.pid).items() if name == "memfd:box-init"]
        assert inits
        for pid in inits:
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: "lost" in frames.call("sandbox.get", sandbox="a"), "its end is not told")
        lost = frames.call("sandbox.get", sandbox="a")["lost"]
        assert lost["from"] == before["savedAt"] and frames.call("exec", sandbox="a", command="cat file")["stdout"] == "one\n"
        wait_until(lambda: {line["sandbox"] for line in lines_of(daemon, "sandbox-changes-lost")} == {"a", "never"}, "the log does not name both")


def test_sockets_that_the_engine_shut_down():
    """It shares them with the supervisor."""
    with Daemon(tcp=True, level="info") as daemon:
        daemon.frames().close()
        directory = f"/proc/{daemon.engine_pid()}/fd"
        pidfd = os.pidfd_open(daemon.engine_pid())
        for name in os.listdir(directory):
            try:
                is_socket = os.readlink(f"{directory}/{name}").startswith("socket:")
            except OSError:
                continue  # it was closed meanwhile
            if not is_socket:
                continue
            fd = libc.syscall(438, pidfd, int(name), 0)  # pidfd_getfd(2)
            if fd < 0:
                continue
            with socket.socket(fileno=fd) as one:
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    one.shutdown(socket.SHUT_RDWR)
        os.close(pidfd)
        os.kill(daemon.engine_pid(), signal.SIGKILL)
        wait_until(lambda: len(lines_of(daemon, "ready")) == 2, "it does not start again")
        daemon.port = lines_of(daemon, "listening")[-1]["port"]  # any port: none was requested
        with daemon.frames() as frames, Frames(daemon.connect_tcp(), token=daemon.token) as other:
            assert frames.call("stats")["restarts"] == other.call("stats")["restarts"] == 1
        assert len(lines_of(daemon, "sockets-broken")) == 1


def test_a_definition_has_a_bound():
    """A daemon reads all of them before it serves."""
    with Daemon() as daemon, daemon.frames() as frames:
        assert frames.refused("sandbox.create", sandbox="a", env={f"V{i}": "x" * 4000 for i in range(300)}).name == "too_large"
        assert frames.call("sandbox.list")["sandboxes"] == []
        frames.call("sandbox.create", sandbox="a", env={f"V{i}": "x" * 4000 for i in range(200)})


def test_another_daemon_takes_the_directory_between_two_engines():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        state = os.path.join(directory, "sandboxes")
        with Daemon("--state-dir", state, level="info") as daemon:
            with daemon.frames() as frames:
                fill(frames)
            os.kill(daemon.process.pid, signal.SIGSTOP)  # which does not start the next one yet
            os.kill(daemon.engine_pid(), signal.SIGKILL)
            with Daemon("--state-dir", state) as other, other.frames() as frames:
                assert frames.call("exec", sandbox="a", command="cat file")["stdout"] == "one\n"
                os.kill(daemon.process.pid, signal.SIGCONT)
                wait_until(lambda: lines_of(daemon, "cannot-start"), "it serves without its sandboxes")
            with daemon.frames() as frames:
                assert frames.call("exec", sandbox="a", command="cat file")["stdout"] == "one\n"


def test_what_is_looked_at_while_it_stops_is_not_lost():
    with Daemon(level="info") as daemon, daemon.frames() as frames, daemon.frames() as other:
        for i in range(5):
            frames.call("exec", sandbox="a", command=f"echo {i} > file")
            number = frames.ask("sandbox.stop", sandbox="a")
            while not frames.is_answered(number):
                other.call("sandbox.get", sandbox="a")
        assert "lost" not in frames.call("sandbox.get", sandbox="a") and not lines_of(daemon, "sandbox-changes-lost")
        assert frames.call("exec", sandbox="a", command="cat file")["stdout"] == "4\n"


def test_told_to_end_while_it_starts():
    """It waits for the lock of its state directory, which we hold."""
    with tempfile.TemporaryDirectory() as directory:
        state = os.path.join(directory, "state")
        os.mkdir(state)
        lock = os.open(state, os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen([DAEMON, "--socket", os.path.join(directory, "socket"), "--state-dir", state], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            wait_until(lambda: "cloched-engine" in below(process.pid).values(), "there is no engine")
            process.terminate()
            assert process.wait(HANG) == 1 and b"cannot-start" not in process.stderr.read(), "it went on until the lock could not be had"
        finally:
            process.kill()
            os.close(lock)
        assert not os.path.exists(os.path.join(directory, "socket"))


def test_the_supervisor_is_confined_to_its_work():
    with Daemon("--listen", "127.0.0.1:0") as daemon:
        daemon.frames().close()
        pid = daemon.process.pid
        held = sorted(os.readlink(f"/proc/{pid}/fd/{name}").split(":")[0] for name in os.listdir(f"/proc/{pid}/fd"))
        kinds = {name.split("[")[0] for name in held}
        assert kinds <= {"/dev/null", daemon.log_path, "socket", "anon_inode", daemon.path}, held
        assert held.count("socket") == 3, "two sockets to take connections on, one to the engine"
