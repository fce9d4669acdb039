"""Abandoned at every stage, created and deleted repeatedly, flooded with requests: a sandbox leaves
nothing behind, on the host or in the daemon."""
import json
import os
import random
import threading
import time

from clocks import Clock
from hostile_sandboxes import Box, Daemon, Failed, Gone, Host, IS_SANITIZED, wait_for
from http_client import Http
from sandbox_client import Socket, put

TIMEOUT = 90
KEPT_S = 60  # KEPT_NS of src/sandbox/core/pool.c
ERRORS = {"sandbox_ended", "session_ended", "not_found", "cancelled", "process_ended", "invalid_state", "file_not_found", "queue_full", "resource", "spawn", "port_closed", "stopping"}


def asked(path, body, accept="application/json"):
    data = json.dumps(body).encode()
    return f"POST /v1/sandboxes{path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nAccept: {accept}\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data


def stages(name):
    """The bytes sent before the connection is closed: any part of each, then at any moment."""
    put_head = f"PUT /v1/sandboxes/{name}/raw?path=f HTTP/1.1\r\nHost: a\r\nContent-Length: 50000000\r\n\r\n".encode()
    tree_head = f"PUT /v1/sandboxes/{name}/tree?path=t&format=tar HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n100000\r\n".encode()
    return [asked("", {"sandbox": name, "network": {"allow": ["example.test"]}}), asked(f"/{name}/exec", {"command": "sleep 1000"}), asked(f"/{name}/exec", {"command": "yes"}, "text/event-stream"),
            asked(f"/{name}/exec", {"command": "sleep 1000", "fork": True}), asked(f"/{name}/session/create", {"session": "s", "isolation": True}), asked(f"/{name}/file/list", {"path": "/", "recursive": True}),
            asked(f"/{name}/file/watch", {"path": "/workspace"}, "text/event-stream"), asked(f"/{name}/events", {}, "text/event-stream"), asked(f"/{name}/git/checkout", {"url": "https://nowhere.invalid/x"}),
            asked(f"/{name}/process/start", {"command": "sleep 1000"}), asked(f"/{name}/port/wait", {"port": 1}), asked(f"/{name}/stop", {}), put_head + bytes(3 << 20), tree_head + bytes(1 << 19),
            f"GET /v1/sandboxes/{name}/tree?path=/usr/share/doc HTTP/1.1\r\nHost: a\r\n\r\n".encode(), f"GET /v1/sandboxes/{name}/raw?path=/dev/zero HTTP/1.1\r\nHost: a\r\n\r\n".encode()]


class Clean:
    """A daemon whose resources on the host are the same at the end as after its first sandboxes."""

    def __init__(self, *options):
        self.clock = Clock()
        self.daemon = Daemon(*options, env=self.clock.env)

    def __enter__(self):
        self.daemon.__enter__()
        self.host = Host(self.daemon)
        with self.daemon.frames() as frames:
            for _ in range(2):
                Box(frames, "warm").is_well()
                frames.call("sandbox.delete", sandbox="warm")
            self.end_spares(frames)
        processes = len(self.host.keepers)
        wait_for(lambda: self.host.now()["processes"] == processes)
        self.before = self.host.now()
        return self.daemon

    def end_spares(self, frames):
        """Each pool ends a minute after the last request for a sandbox that it could have had."""
        wait_for(lambda: not frames.call("stats")["sandboxes"]["asks"])
        self.clock.let_pass(KEPT_S, frames)

    def is_empty(self, frames):
        """Requests whose connections were closed may still begin, and make sandboxes."""
        for box in frames.call("sandbox.list")["sandboxes"]:
            frames.call("sandbox.delete", sandbox=box["sandbox"])
        return frames.call("stats")["sandboxes"] == {"known": 0, "running": 0, "sessions": 0, "processes": 0, "asks": 0}

    def __exit__(self, *error):
        try:
            if not error[0]:
                with self.daemon.frames() as frames:
                    wait_for(lambda: self.is_empty(frames))
                    self.end_spares(frames)
                self.host.comes_back_to(self.before, spares=0)
        finally:
            self.daemon.__exit__(*error)
            self.clock.__exit__()


def test_connections_that_close_at_any_moment():
    dice = random.Random(7)
    with Clean() as daemon:
        for turn in range(4):
            for n, data in enumerate(stages(f"box{turn % 2}-{turn}")):
                with daemon.connect() as sock:
                    try:
                        sock.sendall(data[:dice.randrange(len(data))] if dice.random() < 0.2 else data)
                        if dice.random() < 0.3:
                            sock.settimeout(0.2)
                            sock.recv(dice.choice((1, 100, 100000)))
                    except (ConnectionError, TimeoutError):
                        pass
                    time.sleep(dice.choice((0, 0, 0.001, 0.01, 0.05)))
        with daemon.frames() as frames:
            Box(frames, "box0-0").is_well()  # the twin


def test_frames_that_close_or_cancel_at_any_moment():
    dice = random.Random(8)
    kinds = [("exec", {"command": "sleep 1000"}), ("exec", {"command": "yes", "stream": True}), ("process.follow", {"process": "p"}), ("process.wait", {"process": "p"}), ("file.search", {"path": "/usr", "text": "nowhere to be found"}),
             ("session.create", {"session": "s", "isolation": True}), ("sandbox.save", {}), ("archive.create", {"path": "/usr/share", "to": "/tmp/x.tar.gz"}), ("port.wait", {"port": 1}), ("sandbox.create", {})]
    with Clean() as daemon:
        for turn in range(12):
            with daemon.frames() as frames:
                if turn % 2:
                    frames.call("process.start", sandbox=f"b{turn % 4}", command="sleep 1000", process="p") if turn < 4 else None
                numbers = [frames.ask(method, sandbox=f"b{turn % 4}", **params) for method, params in dice.sample(kinds, 6)]
                time.sleep(dice.choice((0, 0.001, 0.02, 0.1)))
                if turn % 3:
                    for number in numbers:
                        frames.call("cancel", id=number)
                    for number in numbers:
                        try:
                            frames.wait(number)
                        except Failed as error:
                            assert error.name in ERRORS, error.name


def test_sockets_that_close_at_any_moment():
    dice = random.Random(9)
    with Clean() as daemon:
        for turn in range(20):
            path = dice.choice(("/exec", "/terminal?cols=80&rows=24", "/process/follow"))
            with Socket(daemon.connect(), f"/v1/sandboxes/w{turn % 3}" + path) as sock:
                if path == "/exec":
                    sock.say(command=dice.choice(("yes", "sleep 1000")))
                elif sock.status == 101 and path != "/process/follow":
                    sock.send(b"yes\n")
                time.sleep(dice.choice((0, 0.001, 0.02, 0.1)))


def test_two_hundred_made_and_deleted():
    with Clean("--state-dir", "") as daemon, daemon.frames() as frames:
        memory = 0
        for n in range(200):
            name = f"cycle{n}"
            frames.call("sandbox.create", sandbox=name, env={"N": str(n)}, labels={"n": str(n)})
            if n % 4 == 0:
                assert frames.call("exec", sandbox=name, command="echo $N")["stdout"] == f"{n}\n"
                frames.call("file.write", sandbox=name, path="f", content="x" * 10000)
                frames.call("process.start", sandbox=name, command="sleep 1000")
                frames.call("port.expose", sandbox=name, port=8080)
            frames.call("sandbox.delete", sandbox=name)
            if n == 60:
                memory = daemon.memory()
        assert IS_SANITIZED or daemon.memory() - memory < 4 << 20, daemon.memory() - memory


def outcome(frames, number):
    try:
        frames.wait(number)
        return "done"
    except Failed as error:
        return error.name


def test_one_sandbox_started_used_and_deleted_at_the_same_time():
    dice = random.Random(10)
    with Clean() as daemon:
        many = [daemon.frames() for _ in range(4)]
        for turn in range(25):
            numbers = []
            kinds = [("exec", {"command": "echo $((6 * 7)) > f; cat f"}), ("exec", {"command": "sleep 0.01", "fork": True}), ("process.start", {"command": "sleep 1000"}), ("session.create", {"session": f"s{turn}"}),
                     ("file.write", {"path": "f", "content": "x"}), ("sandbox.delete", {}), ("sandbox.stop", {}), ("sandbox.save", {}), ("sandbox.delete", {}), ("exec", {"command": "echo x", "stream": True}), ("port.list", {}),
                     ("sandbox.update", {"limits": {"pids": 100}}), ("session.create", {"session": "i", "isolation": True}), ("file.list", {"path": "/usr/bin"}), ("process.killAll", {})]
            dice.shuffle(kinds)
            for n, (method, params) in enumerate(kinds):
                numbers.append((method, many[n % 4], many[n % 4].ask(method, sandbox="one", **params)))
                time.sleep(dice.choice((0, 0, 0, 0.002, 0.01)))
            for method, frames, number in numbers:
                said = outcome(frames, number)
                assert said == "done" or said in ERRORS, (method, said)
                assert method != "sandbox.delete" or said == "done", said
            assert many[0].call("exec", sandbox="one", command="echo well")["stdout"] == "well\n"
        for frames in many:
            frames.close()


def test_the_daemon_is_killed_at_any_moment():
    """Processes of the old one have ended, and the next one has the saved files."""
    dice = random.Random(11)
    state = os.path.join(os.environ["TMPDIR"], "state-kept")
    os.chmod(os.environ["TMPDIR"], 0o711)
    with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="kept", command="echo first > f; exit 0")
        frames.call("sandbox.save", sandbox="kept")
        daemon.stop()
    for turn in range(10):
        with Daemon("--state-dir", state) as daemon:
            keepers = Host(daemon)
            with daemon.frames() as frames:
                assert frames.call("exec", sandbox="kept", command="cat f")["stdout"] in ("first\n", "second\n"), turn
                frames.call("process.start", sandbox="kept", command="exec -a killed-at-any-moment sleep 1000")
                frames.call("file.write", sandbox="kept", path="f", content="second\n")
                for n in range(turn % 3):
                    frames.call("exec", sandbox=f"more{turn}-{n}", command="head -c 3000000 /dev/urandom > big")
                for name, method, params in (("kept", "sandbox.save", {}), (f"new{turn}", "sandbox.create", {}), (f"new{turn}", "exec", {"command": "true"}), (f"more{turn}-0", "sandbox.stop", {}), ("kept", "sandbox.save", {})):
                    frames.ask(method, sandbox=name, **params)
                time.sleep(dice.choice((0, 0.001, 0.005, 0.02, 0.05, 0.1)))
                below = [f"/proc/{pid}/stat" for pid in set(keepers.keepers) | set(Host(daemon).keepers)]
                daemon.process.kill()
                daemon.process.wait()
            wait_for(lambda: not any(is_alive(path) for path in below))
    with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
        names = [box["sandbox"] for box in frames.call("sandbox.list")["sandboxes"]]
        assert "kept" in names
        for name in names:
            assert frames.call("exec", sandbox=name, command="echo well")["stdout"] == "well\n", name
            frames.call("sandbox.delete", sandbox=name)
        daemon.stop()
    left = [os.path.join(directory, name) for directory, _, files in os.walk(state) for name in files if "lock" not in name]
    assert left == [], left


def is_alive(path):
    try:
        with open(path) as file:
            return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except OSError:
        return False


def test_many_uploads_at_once_that_end_early():
    with Clean() as daemon:
        def upload(n):
            try:
                with Http(daemon.connect()) as http:
                    http.send_head("PUT", f"/v1/sandboxes/u/raw?path=f{n}", {"Host": "a", "Content-Length": "9000000"})
                    for _ in range(n % 8):
                        http.socket.sendall(bytes(1 << 20))
            except (ConnectionError, OSError):
                pass
        threads = [threading.Thread(target=upload, args=[n]) for n in range(24)]
        [thread.start() for thread in threads], [thread.join() for thread in threads]
        with daemon.frames() as frames, Http(daemon.connect()) as http:
            wait_for(lambda: frames.call("file.list", sandbox="u", path="/workspace", hidden=True)["entries"] == [])
            assert put(http, "/v1/sandboxes/u/raw?path=f", bytes(2 << 20))[0] == 200  # the twin


def test_killed_amid_requests_clients_hear_of_it():
    with Daemon() as daemon, daemon.frames() as frames:
        Box(frames)
        frames.ask("exec", sandbox="a", command="sleep 1000")
        daemon.process.kill()
        daemon.process.wait()
        try:
            frames.turn()
            raise AssertionError("an answer")
        except Gone:
            pass
