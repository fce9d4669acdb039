"""Start and end of the daemon: activation, grace, kill, and no leftovers."""
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from cloche import CLI, need_root
from rpc import DAEMON, HANG, PATIENCE, Daemon, Failed, Frames, Gone, private

SLEEP = {"language": "python", "code": "import time\ntime.sleep(600)", "limits": {"wallMs": 0}}


def below(pid):
    """All processes under pid, with their command names."""
    parents, found = {}, {}
    for name in os.listdir("/proc"):
        try:
            text = open(f"/proc/{name}/stat").read()
            parents[int(name)] = (int(text.rsplit(")", 1)[1].split()[1]), text.split("(", 1)[1].rsplit(")", 1)[0])
        except (OSError, ValueError):
            continue
    wanted = [pid]
    while wanted:
        one = wanted.pop()
        for child, (parent, name) in parents.items():
            if parent == one and child not in found:
                found[child] = name
                wanted.append(child)
    return found


def alive(pids):
    left = []
    for pid in pids:
        try:
            if open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] != "Z":
                left.append(pid)
        except OSError:
            pass
    return left


def gone(pids, what):
    until = time.monotonic() + 15 * PATIENCE
    while alive(pids):
        assert time.monotonic() < until, f"{what}: {[(pid, open(f'/proc/{pid}/comm').read()) for pid in alive(pids)]} live on"
        time.sleep(0.02)


def keeper_of(family):
    return next(pid for pid, name in family.items() if name == "cloche-keeper")


def groups(keeper):
    """Control groups of that keeper's engine, the innermost first."""
    return [root for root, _, _ in os.walk("/sys/fs/cgroup", topdown=False) if f"/cloche-{keeper}" in root]


def stop(daemon):
    """SIGTERM, of which it has taken note: a second one is another."""
    daemon.process.send_signal(signal.SIGTERM)
    until = time.monotonic() + HANG
    while not any(line["event"] == "stopping" for line in daemon.lines()):
        assert time.monotonic() < until, daemon.log_text()
        time.sleep(0.01)


def no_new_connections(daemon):
    """The supervisor closes its sockets when the engine has told it; a connection of that moment is closed too."""
    until = time.monotonic() + HANG
    while True:
        try:
            with daemon.connect() as connection:
                connection.settimeout(HANG)
                assert connection.recv(1) == b""
        except ConnectionResetError:
            pass
        except (ConnectionRefusedError, FileNotFoundError):
            return
        assert time.monotonic() < until, "a new connection was taken"


def test_sigterm_lets_runs_end():
    with Daemon("--grace", "20", level="info") as daemon:
        # The run ends after the response of its host function, which comes when a client waits for it.
        frames, other = daemon.frames(host={("global", "host"): lambda: "done"}), daemon.frames()
        number = frames.ask("call", language="python", code="return host()", globals={"host": {"kind": "function"}})
        while other.call("stats")["bridgeCalls"] == 0:
            time.sleep(0.01)
        stop(daemon)
        assert other.refused("prefix.create", language="python", code="").name == "stopping"
        no_new_connections(daemon)
        assert frames.wait(number)["result"] == "done"
        assert daemon.process.wait(20) == 0
        until = time.monotonic() + 5 * PATIENCE
        while os.path.exists(daemon.path):
            assert time.monotonic() < until, "the socket is still there"
            time.sleep(0.02)


def test_after_the_grace_runs_are_cancelled():
    with Daemon("--grace", "1") as daemon:
        with daemon.frames() as frames, Http(daemon.connect()) as http:
            number = frames.ask("call", **SLEEP)
            body = json.dumps(SLEEP).encode()
            http.send_head("POST", "/v1/call", {"Host": "a", "Content-Type": "application/json", "Content-Length": str(len(body))})
            http.socket.sendall(body)
            while frames.call("stats")["runs"]["now"] < 2:
                time.sleep(0.01)
            daemon.process.send_signal(signal.SIGTERM)
            assert frames.wait(number)["status"] == "terminated"
            assert http.read_head() == 200 and http.read_body()["status"] == "terminated"
        assert daemon.process.wait(20) == 0


def test_twice_sigterm_is_at_once():
    with Daemon("--grace", "600", level="info") as daemon:
        with daemon.frames() as frames:
            number = frames.ask("call", **SLEEP)
            frames.call("stats")
            stop(daemon)
            daemon.process.send_signal(signal.SIGTERM)
            assert frames.wait(number)["status"] == "terminated"
        assert daemon.process.wait(20) == 0


def stage_idle(daemon):
    return [daemon.frames()]


def stage_warm(daemon):
    frames = daemon.frames()
    frames.call("call", language="python", code="return 1")
    return [frames]


def stage_starting(daemon):
    frames = daemon.frames()
    frames.ask("call", language="javascript", code="return 1")
    return [frames]


def stage_running(daemon):
    frames = daemon.frames()
    frames.call("prefix.create", language="python", code="x = 1")
    for code in ("import time\ntime.sleep(600)", "import os\nos.fork(); os.fork()\nwhile True: pass", "while True: print('x' * 1000)"):
        frames.ask("call", language="python", code=code, stream=True)
    frames.ask("script", language="bash", code="trap '' TERM; while :; do sleep 1; done", warm=False)
    frames.ask("prefix.create", language="ruby", code="sleep 100")
    frames.call("stats")
    time.sleep(0.5)
    return [frames]


def stage_asking(daemon):
    frames = daemon.frames(host={("global", "host"): lambda: NotImplemented})
    number = frames.ask("call", language="python", code="host()", globals={"host": {"kind": "function"}})
    while frames.call("stats")["bridgeCalls"] == 0:
        assert number not in frames.answers
    return [frames]


def test_killed_at_any_stage_nothing_is_left():
    for stage in (stage_idle, stage_starting, stage_warm, stage_running, stage_asking):
        with Daemon() as daemon:
            held = stage(daemon)
            family = below(daemon.process.pid)
            keeper = keeper_of(family)
            assert groups(keeper) or stage is stage_idle, "there are none to be left"
            daemon.process.kill()
            daemon.process.wait()
            gone(family, stage.__name__)
            until = time.monotonic() + 15 * PATIENCE
            while groups(keeper):
                assert time.monotonic() < until, (stage.__name__, groups(keeper))
                time.sleep(0.05)
            for frames in held:
                frames.close()


def test_a_socket_left_over_is_taken_and_one_in_use_is_not():
    directory = tempfile.mkdtemp()
    path = os.path.join(directory, "socket")
    try:
        left = socket.socket(socket.AF_UNIX)
        left.bind(path)
        left.close()  # as after a crash of the machine: the name exists without a listener
        process = subprocess.Popen([DAEMON, "--socket", path, "--log-level", "error"], stdin=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 15 * PATIENCE
            while True:
                try:
                    client = socket.socket(socket.AF_UNIX)
                    client.connect(path)
                    break
                except OSError:
                    assert time.monotonic() < until and process.poll() is None
                    time.sleep(0.02)
            with Frames(client) as frames:
                assert frames.call("stats")
            second = subprocess.run([DAEMON, "--socket", path], capture_output=True, text=True, timeout=20)
            assert second.returncode == 2 and "already" in second.stderr, second.stderr
        finally:
            process.terminate()
            process.wait(20)
        until = time.monotonic() + 5 * PATIENCE
        while os.path.exists(path) and time.monotonic() < until:
            time.sleep(0.02)
        with open(path, "w"):
            pass
        second = subprocess.run([DAEMON, "--socket", path], capture_output=True, text=True, timeout=20)
        assert second.returncode == 2 and "is not a socket" in second.stderr, second.stderr
    finally:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def test_systemd():
    """Sockets from systemd, and readiness notification."""
    directory = tempfile.mkdtemp()
    path, notify_path = os.path.join(directory, "socket"), os.path.join(directory, "notify")
    try:
        listener, told = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listener.bind(path)
        os.chmod(path, 0o666)
        listener.listen()
        told.bind(notify_path)
        told.settimeout(20)
        command = 'export LISTEN_PID=$$; exec "$0" --log-level error 3<&%d' % listener.fileno()
        process = subprocess.Popen(["bash", "-c", command, DAEMON], pass_fds=[listener.fileno()], stdin=subprocess.DEVNULL,
                                   env={**os.environ, "LISTEN_FDS": "1", "NOTIFY_SOCKET": notify_path, "HOME": directory,
                                        "XDG_STATE_HOME": directory})
        try:
            assert told.recv(100) == b"READY=1"
            assert os.stat(path).st_mode & 0o777 == 0o600, "open to those whom the daemon serves"
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            with Frames(client) as frames:
                code = "import os\nreturn [name for name in os.environ if name.startswith(('LISTEN', 'NOTIFY'))]"
                assert frames.call("call", language="python", code=code)["result"] == []
            process.terminate()
            assert told.recv(100) == b"STOPPING=1"
            assert process.wait(20) == 0
            assert os.path.exists(path), "a socket that was handed over is its owner's"
        finally:
            process.kill()
            process.wait()
            listener.close()
            told.close()
    finally:
        for name in os.listdir(directory):
            os.unlink(os.path.join(directory, name))
        os.rmdir(directory)


def test_a_private_daemon_ends_with_its_caller():
    for end in ("close", "kill"):
        ours, theirs = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                theirs.close()
                process, frames = private()
                frames.ask("call", **SLEEP)
                frames.call("stats")
                ours.sendall(str(process.pid).encode())
                if end == "close":
                    frames.close()
                    os._exit(process.wait(20))
                time.sleep(600)
            finally:
                os._exit(1)
        ours.close()
        daemon = int(theirs.recv(20))
        family = {daemon, *below(daemon)}
        if end == "kill":
            os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert end == "kill" or status == 0
        gone(family, end)
        theirs.close()


def test_a_key_pressed_is_the_callers_affair():
    process, frames = private()
    with frames:
        assert os.getpgid(process.pid) != os.getpgid(0), "the terminal's signals do not reach it"
        process.send_signal(signal.SIGHUP)
        assert process.wait(20) == 0


def test_when_the_keeper_dies_a_private_daemon_ends():
    process, frames = private()
    with frames:
        frames.call("call", language="python", code="return 1")
        keeper = keeper_of(below(process.pid))
        os.kill(keeper, signal.SIGKILL)
        try:
            for _ in range(50):
                error = frames.refused("call", language="ruby", code="1")
                assert error.data["fault"] == "host", error.data
        except (Gone, AssertionError):
            pass
        assert process.wait(20) == 1
        until = time.monotonic() + 10 * PATIENCE
        for group in groups(keeper):  # the keeper's to remove, and it was killed
            while os.path.isdir(group):
                assert time.monotonic() < until, group
                try:
                    os.rmdir(group)
                except OSError:
                    time.sleep(0.02)


def test_others_with_the_same_pids():
    """In pid namespaces of their own, and with the same control groups: nobody's are taken for those of a process that has ended."""
    need_root()
    words = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", CLI, "run", "python", "-c"]
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("process.start", sandbox="a", command="sleep 1000")
        frames.call("sandbox.pause", sandbox="a")
        keeper = keeper_of(below(daemon.process.pid))
        before = groups(keeper)
        files = [os.path.join(group, name) for group in before for name in ("freezer.state", "cgroup.freeze") if os.path.exists(os.path.join(group, name))]
        states = [open(file).read() for file in files]
        assert {"FROZEN\n", "1\n"} & set(states), states
        first = subprocess.Popen([*words, "print('up', flush=True); print(input())"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert first.stdout.readline() == "up\n"
        second = subprocess.run([*words, "print('second')"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG)
        assert (second.returncode, second.stdout, second.stderr) == (0, "second\n", ""), second
        assert first.communicate("first\n", timeout=HANG)[0] == "first\n" and first.returncode == 0
        assert set(before) <= set(groups(keeper)) and states == [open(file).read() for file in files]


def test_it_has_no_privilege():
    with Daemon() as daemon:
        daemon.frames().close()  # served, so it has come to that
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{daemon.engine_pid()}/status").read().splitlines() if ":\t" in line)
        users = set(status["Uid"].split())
        assert len(users) == 1 and 0x6fff0000 <= int(min(users)) < 0x6fffff00 and set(status["Gid"].split()) == users
        assert int(status["CapEff"], 16) == int(status["CapPrm"], 16) == 0 and status["Groups"].strip() == "" and status["NoNewPrivs"] == "1"


def test_options():
    for arguments, words in ([[], "--socket"], [["--sock"], "--sock"], [["--socket"], "needs PATH"], [["--listen", "x"], "HOST:PORT"],
                             [["--listen", "localhost:99999"], "65535"], [["--socket", "/x", "--connect-fd", "3"], "--connect-fd"],
                             [["--socket", "/x", "--grace", "-1"], "whole number"], [["--socket", "/x", "--log-level", "loud"], "debug"],
                             [["--listen", "localhost:0", "--tls-key", "/x"], "need each other"], [["--socket", "x" * 200], "107"],
                             [["--socket", "/x", "--optional", "wall"], "'wall'"], [["--connect-fd", "99"], "99"],
                             [["--bogus"], "there is no option '--bogus' (cloched --help lists the options)\n"],
                             [["--socket", "x", "--state-dir", "", "--mount-root", "/nope"], '"--mount-root: open'], [["--socket", "x", "--state-dir", "", "--images", "", "--image", "nope"], '"--image: ']):
        finished = subprocess.run([DAEMON, *arguments], capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
        assert finished.returncode == 2 and words in finished.stderr, (arguments, finished)
    shown = subprocess.run([DAEMON, "--help"], capture_output=True, text=True, timeout=20).stdout
    assert "--socket" in shown
    begins = {next(line.index(text) for line in shown.splitlines() if text in line) for text in ("set up contexts", "network of sandboxes", "permit policies")}
    assert len(begins) == 1, shown  # one column, also after "RULE,…"
    assert "cloched 0" in subprocess.run([DAEMON, "--version"], capture_output=True, text=True, timeout=20).stdout


def test_the_log_is_json_and_holds_no_guest_bytes():
    with Daemon(level="debug") as daemon:
        with daemon.frames() as frames:
            frames.call("call", language="python", code="print('s3cret-output')\nraise ValueError('s3cret-error')")
            frames.refused("call", language="s3cret\n\x1b[31m", code="1")
        daemon.stop()
        lines = daemon.log_text().splitlines()
        assert all(json.loads(line)["time"] and json.loads(line)["level"] and json.loads(line)["event"] for line in lines)
        assert not any("s3cret" in line or "\x1b" in line for line in lines)
        run = next(line for line in map(json.loads, lines) if line["event"] == "run")
        assert (run["status"], run["operation"]) == ("error", "call") and run["ms"] > 0
