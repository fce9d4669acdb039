"""Thousands of idle or slow connections: they hinder each other, and no other client. Known callers stay."""
import contextlib
import os
import resource
import socket
import ssl
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../daemon"))
from http_client import Http, WebSocket, make_certificate
from rpc import Daemon, Frames, HANG, PATIENCE, frame
from sandbox_client import IS_SANITIZED

FLOOD = 5000  # more than --max-connections
STRANGER = 54321
HELLO = b"CLOCHE1\n" + frame({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}})

soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connect_from(daemon, address):
    return socket.create_connection(("127.0.0.1", daemon.port), HANG, (address, 0))


def connect_unix(daemon):
    """It waits for its turn in the kernel's queue."""
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(daemon.path)
    sock.settimeout(HANG)
    return sock


def is_cut(sock):
    try:
        while sock.recv(1 << 16):
            pass
    except ConnectionError:
        pass
    return True


def received_until(sock, text):
    """An answer may come in pieces."""
    data = b""
    while text not in data:
        piece = sock.recv(1000)
        assert piece, f"the connection ended after {data!r}"
        data += piece
    return data


def is_well(daemon):
    """Every way in, with its prerequisites."""
    with Frames(connect_unix(daemon)) as frames:
        assert frames.call("stats")["connections"] > 0
    with Http(connect_unix(daemon)) as http:
        assert http.get("/v1/stats")[0] == 200
    if daemon.port:
        with Frames(daemon.connect_tcp(), token=daemon.token) as frames:
            assert frames.call("stats")
        with Http(daemon.connect_tcp(), daemon.token) as http:
            assert http.get("/v1/stats")[0] == 200
        with WebSocket(daemon.connect_tcp(), token=daemon.token) as web:
            assert web.call("stats")


def processor_seconds(daemon):
    with open(f"/proc/{daemon.engine_pid()}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def flooded(connect, first=b"", count=FLOOD):
    socks = []
    try:
        for _ in range(count):
            sock = connect()
            socks.append(sock)
            if first:
                try:
                    sock.sendall(first)
                except ConnectionError:
                    pass
        yield socks
    finally:
        for sock in socks:
            sock.close()


def test_silence_on_tcp_and_clients_that_are_idle():
    with Daemon(tcp=True, level="warning") as daemon, contextlib.ExitStack() as stack:
        idle = [stack.enter_context(Frames(daemon.connect_tcp(), token=daemon.token) if i % 2 else daemon.frames()) for i in range(200)]
        with flooded(daemon.connect_tcp):
            is_well(daemon)
            with flooded(lambda: connect_from(daemon, "127.0.%d.%d" % (os.urandom(1)[0], os.urandom(1)[0] % 254 + 1)), b"GET /health HT"):
                is_well(daemon)
                for frames in idle:
                    assert frames.call("stats")["connections"] < 4096, "strangers are bound to a share"


def test_silence_on_the_unix_socket():
    with Daemon(tcp=True) as daemon, daemon.frames() as frames:
        for first in (b"", b"C", b"CLOCHE1\n", b"GET / HTTP/1.1\r\n"):
            with flooded(lambda: connect_unix(daemon), first, FLOOD if not first else FLOOD // 4):
                is_well(daemon)
        assert frames.call("stats")


def flood_as(uid, daemon, ready):
    """Another user's connections, some of which are greeted; until the signal to end."""
    reader, writer = ready
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            socks = []
            for i in range(200):
                sock = connect_unix(daemon)
                with contextlib.suppress(ConnectionError):  # it may have been dropped for one of the next
                    sock.sendall(HELLO if i % 2 else b"")
                socks.append(sock)
            os.write(writer[1], b".")
            os.read(reader[0], 1)
        finally:
            os._exit(0)
    os.close(writer[1])
    assert os.read(writer[0], 1), "the flood ended before its time"
    return pid


def test_root_is_not_behind_other_users():
    with Daemon("--allow-uid", str(STRANGER), "--max-connections", "20") as daemon:
        os.chmod(daemon.directory, 0o755)
        reader, writer = os.pipe(), os.pipe()
        pid = flood_as(STRANGER, daemon, (reader, writer))
        try:
            is_well(daemon)
            with contextlib.ExitStack() as stack:
                for _ in range(10):
                    assert stack.enter_context(daemon.frames()).call("stats")["connections"] > 20, "the others are there"
        finally:
            os.write(reader[1], b".")
            os.waitpid(pid, 0)


def test_one_address_does_not_push_another_out():
    with Daemon("--max-connections", "160", "--auth-timeout", "60", tcp=True) as daemon:
        other = connect_from(daemon, "127.0.0.2")  # the oldest of all, and never too slow
        with flooded(lambda: connect_from(daemon, "127.0.0.1"), count=500) as socks:
            assert is_cut(socks[0])
            hello = frame({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1, "token": daemon.token}})
            other.sendall(b"CLOCHE1\n" + hello)
            received_until(other, b'"protocol":1')
        other.close()


def test_the_slow_are_cut_and_the_known_are_not():
    with Daemon("--auth-timeout", "1", tcp=True) as daemon, contextlib.ExitStack() as stack:
        known = [daemon.frames(), Frames(daemon.connect_tcp(), token=daemon.token)]
        http = stack.enter_context(Http(daemon.connect_tcp(), daemon.token))
        assert http.get("/v1/stats")[0] == 200
        slow = [stack.enter_context(contextlib.closing(daemon.connect_tcp())) for _ in range(5)]
        slow += [stack.enter_context(contextlib.closing(daemon.connect())) for _ in range(3)]
        trickles = {
            slow[1]: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 10000,
            slow[2]: b"POST /v1/call HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b" " * 10000,
            slow[3]: b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + b" " * 10000,
            slow[4]: b"CLOCHE1\n" + frame(b" " * 10000),
            slow[6]: b"GET /health HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 10000,
            slow[7]: b"CLOCHE1\n" + frame(b" " * 10000),
        }
        sent = {sock: data.rfind(b"\r\n") + 2 if b"Length" in data else 1 for sock, data in trickles.items()}
        for sock, data in trickles.items():
            sock.sendall(data[:sent[sock]])
        open_ones = set(trickles)
        while open_ones:  # a byte each until it is cut
            for sock in list(open_ones):
                sock.settimeout(0.05 / len(open_ones))
                try:
                    sock.sendall(trickles[sock][sent[sock]:sent[sock] + 1])
                    sent[sock] += 1
                    assert sent[sock] < len(trickles[sock]), "it may take as long as it likes"
                    if sock.recv(1 << 16) == b"":
                        open_ones.remove(sock)
                except TimeoutError:
                    pass
                except ConnectionError:
                    open_ones.remove(sock)
        assert is_cut(slow[0]) and is_cut(slow[5]), "who says nothing"
        for frames in known:
            assert frames.call("stats")
            frames.close()
        assert http.get("/v1/stats")[0] == 200


def test_bodies_nobody_asked_for():
    """Health needs no token, and no body."""
    with Daemon(tcp=True) as daemon:
        for size, status in ((1000, 200), (1 << 20, 413)):
            with Http(daemon.connect_tcp()) as http:
                assert http.begin("GET", "/health", b" " * size) == status, size
            with Http(daemon.connect_tcp()) as http:
                http.send_head("GET", "/health", {"Host": "localhost", "Transfer-Encoding": "chunked"})
                http.socket.sendall(b"%x\r\n%s\r\n0\r\n\r\n" % (size, b" " * size))
                assert http.read_head() == status, size


def test_a_handshake_that_does_not_end():
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = make_certificate(directory)
        context = ssl.create_default_context(cafile=certificate)
        with Daemon("--auth-timeout", "1", "--tls-key", key, "--tls-certificate", certificate, tcp=True) as daemon:
            def connect():
                return context.wrap_socket(daemon.connect_tcp(), server_hostname="localhost")

            known = Http(connect(), daemon.token)
            assert known.get("/v1/stats")[0] == 200
            before = processor_seconds(daemon)
            with flooded(daemon.connect_tcp, b"\x16\x03\x01\x02\x00\x01", 500) as half:
                with Http(connect(), daemon.token) as http:
                    assert http.get("/v1/stats")[0] == 200
                whole = connect()  # and then nothing
                assert is_cut(half[-1]) and is_cut(whole)
                whole.close()
            # A second at least; a client that stops in the middle of a handshake causes no work.
            assert processor_seconds(daemon) - before < 0.6 or IS_SANITIZED or PATIENCE >= 5  # emulated, a handshake alone costs more
            assert known.get("/v1/stats")[0] == 200
            known.close()
