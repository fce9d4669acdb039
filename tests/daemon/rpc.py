"""A client of frames for the tests: small, blocking, standard library only."""
import base64
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import answers  # noqa: E402
from cloche import SHIPPED  # noqa: E402
from patience import PATIENCE  # noqa: E402

BUILD = os.environ["CLOCHE_BUILD"]
DAEMON = os.path.join(BUILD, "cloched")
HANG = 40 * PATIENCE  # seconds; nothing in these tests may take that long
LATE = 1000  # messages
HANG_MS = int(30000 * PATIENCE)  # timeout for commands that end on their own: a wedged one fails its test before HANG does


class Failed(Exception):
    """An error of JSON-RPC."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.message, self.data = error["code"], error["message"], error.get("data") or {}
        self.name = self.data.get("name")


class Gone(Exception):
    """The connection ended."""


def frame(message, attachments=b""):
    text = json.dumps(message).encode() if not isinstance(message, bytes) else message
    return struct.pack("<II", 4 + len(text) + len(attachments), len(text)) + text + attachments


class Frames:
    """Frames over a connected stream socket. host: the functions for calls of the host, by target."""

    checks_answers = True  # against spec/answers.def

    def __init__(self, sock, host=None, greeting=True, hello=True, token=None):
        self.socket, self.host, self.buffer = sock, host or {}, b""
        self.next_id, self.answers, self.told, self.methods = 0, {}, [], {}
        sock.settimeout(HANG)
        if greeting:
            sock.sendall(b"CLOCHE1\n")
        if hello:
            self.hello = self.call("hello", protocol=1, client="tests", **({"token": token} if token else {}))

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive_bytes(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise Gone()
        self.buffer += data

    def receive(self):
        while len(self.buffer) < 4 or len(self.buffer) < 4 + struct.unpack("<I", self.buffer[:4])[0]:
            self.receive_bytes()
        size, text_size = struct.unpack("<II", self.buffer[:8])
        whole, self.buffer = self.buffer[:4 + size], self.buffer[4 + size:]
        return json.loads(whole[8:8 + text_size]), whole[8 + text_size:]

    def send(self, message, attachments=b""):
        try:
            self.socket.sendall(frame(message, attachments))
        except ConnectionError:
            raise Gone() from None

    def ask(self, method, attachments=b"", **params):
        self.next_id += 1
        self.methods[self.next_id] = method
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params}, attachments)
        return self.next_id

    def ask_together(self, *requests):
        """The numbers of these, (method, params) each, which the daemon reads before it has done the first."""
        numbers, data = [], b""
        for method, params in requests:
            self.next_id += 1
            self.methods[self.next_id] = method
            numbers.append(self.next_id)
            data += frame({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        self.socket.sendall(data)
        return numbers

    def turn(self):
        """Take one message: a response, a call of a host function, or a notification."""
        message, attachments = self.receive()
        if "method" not in message:
            self.answers[message["id"]] = (message, attachments)
        elif "id" in message:
            self.answer(message, attachments)
        else:
            if message["method"] == "event" and message["params"]["id"] in self.methods:
                answers.check_event(self.methods[message["params"]["id"]], message["params"]["event"], message["params"]["about"])
            self.told.append((message["method"], message["params"], attachments))

    def answer(self, message, attachments):
        steps = tuple(message["params"]["target"])
        try:
            value = self.host[steps](*message["params"]["args"], **message["params"]["kwargs"])
            if value is NotImplemented:
                return
            self.send({"jsonrpc": "2.0", "id": message["id"], "result": {"value": value}})
        except Exception as error:  # the guest's to know
            data = {"name": type(error).__name__, "message": str(error)}
            self.send({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32000, "message": str(error), "data": data}})

    def wait(self, number):
        while number not in self.answers:
            self.turn()
        message, self.attachments = self.answers.pop(number)
        if "error" in message:
            raise Failed(message["error"])
        if self.checks_answers:
            answers.check_answer(self.methods.get(number), message["result"])
        return message["result"]

    def is_answered(self, number, within=0.05):
        """Messages that have arrived by the end of that time count, but for a flood: others may come without end."""
        until, late = time.monotonic() + within, 0
        try:
            while number not in self.answers and late < LATE:
                left = until - time.monotonic()
                late += left <= 0
                self.socket.settimeout(max(left, 0.0001))
                self.turn()
            return number in self.answers
        except TimeoutError:
            return False
        finally:
            self.socket.settimeout(HANG)

    def call(self, method, attachments=b"", **params):
        return self.wait(self.ask(method, attachments, **params))

    def refused(self, method, **params):
        try:
            result = self.call(method, **params)
        except Failed as error:
            return error
        raise AssertionError(f"{method} {params} was not refused: {result}")

    def output(self, stream, run=None):
        return b"".join(attachments[p["data"]["at"]:p["data"]["at"] + p["data"]["n"]] for method, p, attachments in self.told
                        if method == "output" and p["stream"] == stream and (run is None or p["run"] == run))


class Daemon:
    """A cloched of our own, on a unix socket and on TCP; killed at the end, whatever happens.

    has_packages: contexts of Python begin with the usual packages imported, as they are shipped
    (runtimes/python/notebook.py), which costs a daemon 1.4 s of processor time. Without, a cell
    imports those that it uses. listener: a listening socket that it takes over, as from systemd."""

    def __init__(self, *options, tcp=False, level="warning", env=None, limit=None, has_packages=False, listener=None):
        self.directory = tempfile.mkdtemp(prefix="cloched-")
        self.path = os.path.join(self.directory, "socket")
        self.token_file = os.path.join(self.directory, "token")
        self.log_path = os.path.join(self.directory, "log")
        self.log = open(self.log_path, "wb")
        command = [DAEMON, "--socket", self.path, "--log-level", "info" if tcp and level == "warning" else level]
        if "--state-dir" not in options:
            os.chmod(self.directory, 0o711)  # it is another user's when root starts it
            command += ["--state-dir", os.path.join(self.directory, "state")]
        if "--volumes" not in options and os.geteuid() == 0:  # else they stay in the machine's own
            command += ["--volumes", os.path.join(self.directory, "volumes")]
        command += options
        if tcp:
            command += ["--listen", "127.0.0.1:0", "--token-file", self.token_file]
        if limit:  # of descriptors
            command = ["bash", "-c", f'ulimit -n {limit}; exec "$@"', "bash", *command]
        if listener:
            command = ["bash", "-c", f'export LISTEN_PID=$$ LISTEN_FDS=1; exec "$@" 3<&{listener.fileno()}', "bash", *command]
        runtimes = SHIPPED if has_packages else {}
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, **runtimes, **(env or {})},
                                        pass_fds=[listener.fileno()] if listener else [])
        self.port = None
        until = time.monotonic() + 20 * PATIENCE
        while not self.is_ready():
            assert self.process.poll() is None and time.monotonic() < until, self.log_text()
            time.sleep(0.01)
        if tcp:
            while not (ports := [line["port"] for line in self.lines() if line["event"] == "listening"]):  # the last line may be half there
                assert time.monotonic() < until, self.log_text()
                time.sleep(0.01)
            self.port = ports[0]
            self.token = open(self.token_file).read().strip()

    def is_ready(self):
        """It serves; the supervisor takes connections before that."""
        try:
            with self.connect() as sock:
                sock.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                return sock.recv(1) != b""
        except OSError:
            return False

    def log_text(self):
        return open(self.log_path, errors="replace").read()

    def lines(self):
        return [json.loads(line) for line in self.log_text().splitlines(keepends=True) if line.startswith("{") and line.endswith("\n")]

    def connect(self):
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(HANG)
        sock.connect(self.path)
        return sock

    def connect_tcp(self):
        return socket.create_connection(("127.0.0.1", self.port), HANG)

    def frames(self, **options):
        return Frames(self.connect(), **options)

    def engine_pid(self):
        """The pid of the process that serves; self.process is its supervisor."""
        children = open(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read().split()
        return next(int(pid) for pid in children if open(f"/proc/{pid}/comm").read() == "cloched-engine\n")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.engine_pid()}/fd"))

    def memory(self):
        """Resident bytes that are its own."""
        with open(f"/proc/{self.engine_pid()}/statm") as file:
            _, resident, shared = file.read().split()[:3]
        return (int(resident) - int(shared)) * 4096

    def peak_memory(self, is_new=False):
        """The most resident bytes there were, or, if a new measurement begins, those of now."""
        process = f"/proc/{self.engine_pid()}"
        if is_new:
            with open(process + "/clear_refs", "w") as file:
                file.write("5")  # proc(5): VmHWM becomes VmRSS
        with open(process + "/status") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))

    def stop(self, number=signal.SIGTERM, timeout=HANG):
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(timeout)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(15 * PATIENCE)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
        if error[0] and os.path.exists(self.log_path):
            sys.stderr.write(self.log_text()[-4000:])
        # Removes the directory even while a process of the daemon, just ending, removes files in it.
        shutil.rmtree(self.directory, ignore_errors=True)
        assert not os.path.exists(self.directory), os.listdir(self.directory)


def private(*options, process=None, **arguments):
    """A daemon of this process's own: the process, and frames to it. process: more arguments of subprocess.Popen."""
    ours, theirs = socket.socketpair()
    started = subprocess.Popen([DAEMON, "--connect-fd", str(theirs.fileno()), "--log-level", "warning", *options],
                               pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, **(process or {}))
    theirs.close()
    return started, Frames(ours, **arguments)


@contextlib.contextmanager
def private_of_user(*options):
    """A private daemon of an ordinary user, whose directories are all home/, and frames to it."""
    from cloche import ORDINARY_USER  # benches, which use this module too, lack the variables of tests
    home, user = os.path.abspath("home"), int(ORDINARY_USER[2])
    os.makedirs(home, mode=0o700)
    os.chown(home, user, user)
    environment = {**os.environ, **dict.fromkeys(("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_RUNTIME_DIR"), home), "TMPDIR": "/tmp"}
    process, frames = private("--profile", "user", *options, process={"user": user, "group": user, "extra_groups": [], "env": environment})
    try:
        with frames:
            yield process, frames
        process.wait(HANG)
    finally:
        process.kill()
        process.wait()
