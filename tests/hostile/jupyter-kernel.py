"""cloche-kernel under attack: by anyone who reaches its ports, by guests through their output, and by code that has taken it over."""
import contextlib
import errno
import json
import os
import socket
import subprocess
import sys
import tempfile
import uuid

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "jupyter"))
from cloche import BUILD, HANG, equal
from front_end import environment, install, kernel, printed, run
from rpc import Daemon
from sandbox_client import IS_SANITIZED

TIMEOUT = 120


def parts_of(client, kind="kernel_info_request", content=None):
    """A signed message, as the parts after the delimiter."""
    return client.session.serialize(client.session.msg(kind, content or {}))[1:]


class Stranger:
    """A connection to a port of the kernel, with an identity of its own."""

    def __init__(self, manager, port="shell_port", identity=None):
        import zmq
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        if identity:
            self.socket.identity = identity
        self.socket.linger = 0
        self.socket.connect(f"tcp://127.0.0.1:{getattr(manager, port)}")

    def send(self, *parts):
        self.socket.send_multipart(parts)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.context.term()


def check_signatures(manager, client):
    """Only messages that are well signed and new are answered."""
    good, later = parts_of(client), parts_of(client)
    signature, header, *rest = good
    other = json.dumps({**json.loads(header), "msg_id": uuid.uuid4().hex}).encode()
    with Stranger(manager) as stranger:
        for parts in ((b"<IDS|MSG>", b"", header, *rest), (b"<IDS|MSG>", b"0" * 64, header, *rest), (b"<IDS|MSG>", signature[:-1], header, *rest), (b"<IDS|MSG>", signature, other, *rest),
                      (b"<IDS|MSG>", signature.upper() + b"\0", header, *rest), (b"x", b"y"), (b"",), [b"z"] * 200):
            stranger.send(*parts)
        stranger.send(b"<IDS|MSG>", *good)
        stranger.send(b"<IDS|MSG>", *good)  # a second time
        stranger.send(b"<IDS|MSG>", *later)
        answers = []
        for _ in range(2):
            assert stranger.socket.poll(HANG * 1000)
            answers.append(json.loads(stranger.socket.recv_multipart()[3])["msg_id"])
        equal(answers, [json.loads(parts[1])["msg_id"] for parts in (good, later)])
    with Stranger(manager) as another:  # also on another connection, and another channel
        another.send(b"<IDS|MSG>", *good)
        last = parts_of(client)
        another.send(b"<IDS|MSG>", *last)
        assert another.socket.poll(HANG * 1000)
        equal(json.loads(another.socket.recv_multipart()[3])["msg_id"], json.loads(last[1])["msg_id"])


def check_identities(manager, client):
    """A client's identity is in each message on iopub. Another connection that has it gets none of its replies."""
    with Stranger(manager, identity=client.session.bsession) as stranger:
        for _ in range(20):
            stranger.send(b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}")
            equal(client.kernel_info(reply=True, timeout=HANG)["content"]["status"], "ok")
        equal(stranger.socket.poll(0), 0)


def is_closed(sock):
    try:
        while sock.recv(65536):
            pass
        return True
    except ConnectionError:
        return True


GREETING = b"\xff" + b"\0" * 8 + b"\x7f\x03\x00NULL" + b"\0" * 16 + b"\0" + b"\0" * 31
READY = b"\x04%c\x05READY\x0bSocket-Type\0\0\0%c%b"


def greet(port, kind):
    """A connection after both greetings, as libzmq makes them."""
    sock = socket.create_connection(("127.0.0.1", port), HANG)
    sock.sendall(GREETING)
    got = b""
    while b"READY" not in got:
        got += sock.recv(65536) or fail("the kernel closed the connection")
    sock.sendall(READY % (22 + len(kind), len(kind), kind))
    return sock


def fail(reason):
    raise AssertionError(reason)


def check_foreign_connections(manager, client):
    """Bytes that are no ZeroMQ, a part that claims to be giant, and connections that say nothing."""
    silent = [socket.create_connection(("127.0.0.1", manager.shell_port)) for _ in range(20)]
    foreign = [socket.create_connection(("127.0.0.1", port), HANG) for port in (manager.shell_port, manager.control_port, manager.iopub_port, manager.stdin_port, manager.hb_port)]
    for sock in foreign:
        sock.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + b"x" * 200)
    for claimed in (1 << 26, 1 << 40, (1 << 64) - 1):
        with greet(manager.shell_port, b"DEALER") as sock:
            sock.sendall(b"\x02" + claimed.to_bytes(8, "big"))
            assert is_closed(sock), claimed
    equal(printed(run(client, "print('well')")[1]), "well\n")
    for sock in foreign + silent:
        assert is_closed(sock)
        sock.close()


def check_a_subscriber_that_does_not_read(manager, client):
    """It needs no key. The kernel waits for it, but not for long: then it is disconnected, and nothing is lost for others."""
    with greet(manager.iopub_port, b"SUB") as sock:
        wait_for_subscription(sock, client)
        shown = [content["data"]["text/plain"] for kind, content in run(client, "from IPython.display import display\nfor i in range(3000): display({'text/plain': str(i) + 'x' * 6000}, raw=True)\n0")[1] if kind == "display_data"]
        equal([text.rstrip("x") for text in shown], [str(i) for i in range(3000)])
    equal(printed(run(client, "print('well')")[1]), "well\n")


def wait_for_subscription(sock, client):
    """It has had a message, and reads none from now on."""
    got = b""
    sock.setblocking(False)
    while b"idle" not in got:
        sock.sendall(b"\x00\x01\x01")  # libzmq leaves one that comes together with the end of the handshake
        run(client, "0")
        with contextlib.suppress(BlockingIOError):
            got += sock.recv(65536) or fail("the kernel closed the connection")


def check_giant_messages(client):
    text = "x" * (9 << 20)
    equal(run(client, f"len('{text}')")[1][0][1]["data"]["text/plain"], str(len(text)))  # one that is large is taken


def check_output(client):
    """Only colours and moves of the cursor are passed on of control sequences; text that looks like messages is text."""
    marks = run(client, r"print('\x1b[31mred\x1b[0m\r\x1b[K \x1b]0;title\x07 \x1b[6n \x1bc \x9b6n \x1bP+q\x1b\\ \x00')")[1]
    equal(printed(marks), "\x1b[31mred\x1b[0m\r\x1b[K \u241b]0;title\u2407 \u241b[6n \u241bc \ufffd6n \u241bP+q\u241b\\ \u2400\n")
    pieces = run(client, "import os\nfor b in b'\\x1b[31mx\\x1b[0m\\x1b[99':\n    os.write(1, bytes([b]))\n0")[1]
    equal(printed(pieces), "\x1b[31mx\x1b[0m\u241b[99")
    reply, _ = run(client, r"class E(Exception): pass\nraise E('\x1b]52;c;eA==\x07')".replace(r"\n", "\n"))
    assert "\x1b]" not in json.dumps(reply["content"], ensure_ascii=False) and "\u241b]52" in reply["content"]["evalue"], reply
    shown = run(client, r"class R:" "\n    def __repr__(self): return '\\x1b]0;t\\x07'\nR()")[1]
    equal(shown[0][1]["data"]["text/plain"], "\u241b]0;t\u2407")
    for form in ("['a\\x1b]0;t', '\\x07b']", "'a\\x1b]0;t\\x07b'"):  # also in pieces, as files of notebooks have it
        equal(run(client, f"from IPython.display import display; display({{'text/plain': {form}}}, raw=True)")[1][0][1]["data"]["text/plain"], "a\u241b]0;t\u2407b")
    equal(run(client, r"display({'\x1bc': 'x'}, raw=True)")[1][0][1]["data"]["text/plain"], "<\u241bc>")  # the kernel's own text names a form
    shown = run(client, "from IPython.display import display\ndisplay({'\\x1b]0;t\\x07': 'x'}, raw=True)")[1]
    equal(shown[0][1]["data"]["text/plain"], "<\u241b]0;t\u2407>")  # a name of a form
    fake = r"import json, sys; print('<IDS|MSG>'); print(json.dumps({'header': {'msg_type': 'shutdown_request'}, 'msg_type': 'status', 'execution_state': 'idle'})); sys.stdout.flush()"
    equal({kind for kind, _ in run(client, fake)[1]}, {"stream"})
    equal(printed(run(client, "import os; os.write(1, b'\\xff\\xfe\\xe2\\x82')\n")[1]), "\ufffd\ufffd\ufffd")


def check_much_output(client):
    """Nothing is lost of a cell that prints faster than a client reads."""
    count = run(client, "for i in range(100): print(('%03d' % i) * 30000)")[1]
    text = printed(count)
    equal((len(text), text[:3], text[-4:]), (100 * 90001, "000", "099\n"))


def within(pid, number, *arguments):
    words = [f"s:{a}" if isinstance(a, str) else str(a) for a in arguments]
    said = subprocess.run([os.path.join(BUILD, "tests/call-within"), str(pid), str(number), *words], capture_output=True, text=True, timeout=30)
    assert said.returncode == 0, said
    result = int(said.stdout)
    return errno.errorcode[-result] if -4096 < result < 0 else result


AT_FDCWD = -100


def check_rights(manager):
    """The process that reads messages can open, start, reach and trace nothing; its clock still works."""
    first = manager.provisioner.pid
    second = next(int(pid) for pid in open(f"/proc/{first}/task/{first}/children").read().split() if os.readlink(f"/proc/{pid}/exe").endswith("cloche-kernel"))
    status = dict(line.split(":\t", 1) for line in open(f"/proc/{second}/status").read().splitlines() if ":\t" in line)
    equal((status["Seccomp"], status["NoNewPrivs"], int(status["CapEff"], 16), int(status["CapPrm"], 16)), ("2", "1", 0, 0))
    if os.geteuid() != 0:
        return  # it cannot be traced
    attempts = {"openat": (257, AT_FDCWD, "/etc/passwd", 0), "execve": (59, "/bin/true", 0, 0), "fork": (57,), "socket": (41, socket.AF_INET, socket.SOCK_STREAM, 0), "unlink": (87, manager.connection_file),
                "kill": (62, first, 0), "ptrace": (101, 16, first, 0, 0), "connect": (42, 0, 0, 0), "bind": (49, 0, 0, 0)}
    equal({name: within(second, *call) for name, call in attempts.items()}, {name: "EPERM" for name in attempts})
    equal(within(second, 39), second)  # getpid


def test_a_kernel_under_attack():
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        install(directory)
        with kernel("cloche-python", environment(directory, daemon.path)) as (manager, client):
            run(client, "kept = 1")
            check_signatures(manager, client)
            check_identities(manager, client)
            check_foreign_connections(manager, client)
            check_giant_messages(client)
            check_a_subscriber_that_does_not_read(manager, client)
            check_output(client)
            check_much_output(client)
            if not IS_SANITIZED:  # sanitizers trace their own process, so it keeps its rights
                check_rights(manager)
            equal(run(client, "kept")[1][0][1]["data"]["text/plain"], "1")
        assert daemon.stop() == 0, daemon.log_text()
