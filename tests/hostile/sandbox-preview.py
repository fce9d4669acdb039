"""A guest whose server attacks its viewers: endless responses, missing responses, attempts to reach
the daemon's own origin. The viewer gets an error or the bytes unchanged; the daemon buffers little
of it and goes on for all others."""
import socket
import time

from hostile_sandboxes import Box, Daemon, Frames, IS_SANITIZED, wait_for
from http_client import Http
from rpc import Gone
from sandbox_client import Socket, read_raw

BASE = "preview.test"
HOST = "8080-a-secret." + BASE
ROOM = 30 << 20
# Responds according to its path, endlessly if possible.
GUEST = r"""
import socket, threading, time
def forever(sock, head, piece):
    sock.sendall(head)
    while True:
        sock.sendall(piece)
def serve(sock):
    try:
        data = b""
        while b"\r\n\r\n" not in data:
            part = sock.recv(65536)
            if not part:
                return
            data += part
        path = data.split(b" ", 2)[1].decode()
        ok = b"HTTP/1.1 200 OK\r\n"
        if path == "/headers": forever(sock, ok, b"X-More: " + b"y" * 1000 + b"\r\n")
        if path == "/header": forever(sock, ok + b"X-Long: ", b"y" * 1000)
        if path == "/status": forever(sock, b"HTTP/1.1 200 ", b"y" * 1000)
        if path == "/hints": forever(sock, b"", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n")
        if path == "/body": forever(sock, ok + b"Content-Length: 9000000000000000000\r\n\r\n", bytes(65536))
        if path == "/until-end": forever(sock, ok + b"\r\n", bytes(65536))
        if path == "/chunks": forever(sock, ok + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 1000)
        if path == "/extension": forever(sock, ok + b"Transfer-Encoding: chunked\r\n\r\n5;", b"x" * 1000)
        if path == "/size": forever(sock, ok + b"Transfer-Encoding: chunked\r\n\r\n", b"0" * 1000)
        if path == "/huge-chunk": forever(sock, ok + b"Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n", bytes(65536))
        if path == "/trailers": forever(sock, ok + b"Transfer-Encoding: chunked\r\n\r\n0\r\n", b"X-More: y\r\n")
        if path == "/silent": time.sleep(1000)
        if path == "/half": sock.sendall(ok + b"Content-"); time.sleep(1000)
        if path == "/deaf": sock.sendall(b""); time.sleep(1000)
        if path.startswith("/say"):
            answers = {"negative": b"Content-Length: -1\r\n\r\nx", "plus": b"Content-Length: +5\r\n\r\nhello", "overflow": b"Content-Length: 99999999999999999999\r\n\r\nx", "hex": b"Content-Length: 0x5\r\n\r\nhello",
                       "list": b"Content-Length: 5, 5\r\n\r\nhello", "te-odd": b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n", "te-twice": b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
                       "minus-chunk": b"Transfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n", "big-chunk": b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\nhello", "short-chunk": b"Transfer-Encoding: chunked\r\n\r\n3\r\nhello\r\n0\r\n\r\n",
                       "nul": b"X: a\0b\r\nContent-Length: 0\r\n\r\n", "fold": b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", "no-colon": b"X\r\nContent-Length: 0\r\n\r\n", "space": b"Content-Length : 5\r\n\r\nhello", "bare": b"X: y\nContent-Length: 0\n\n",
                       "two-lengths": b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", "both": b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "blank-chunk": b"Transfer-Encoding: chunked\r\n\r\n5 \r\nhello\r\n0\r\n\r\n",
                       "bare-chunk": b"Transfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n", "bare-extension": b"Transfer-Encoding: chunked\r\n\r\n5;a\nb\r\nhello\r\n0\r\n\r\n", "bare-cr": b"X: y\rContent-Length: 0\r\n\r\n",
                       "name-blank": b"X y: z\r\nContent-Length: 0\r\n\r\n", "length-trailer": b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nContent-Length: 9\r\n\r\n",
                       "right": b"content-length: \t5 \r\nX:\r\n\r\nhello", "right-chunks": b"Transfer-Encoding: Chunked \r\n\r\n2;a=b\r\nhe\r\n03\r\nllo\r\n0;c\r\nX-Sum: 1\r\n\r\n",
                       "empty-name": b": x\r\nContent-Length: 0\r\n\r\n", "high": b"X-\xff: \xff\xfe\r\nContent-Length: 0\r\n\r\n"}
            sock.sendall(ok + answers[path[5:]])
        elif path == "/origin":
            sock.sendall(b"HTTP/1.1 302 Found\r\nLocation: http://localhost/v1/sandboxes\r\nRefresh: 0; url=http://localhost/\r\nSet-Cookie: a=1; Domain=localhost\r\nSet-Cookie: b=2; Domain=.preview.test\r\n"
                         b"Set-Cookie: __Host-c=3; Path=/; Secure\r\nSet-Cookie: d=4; dOmAiN = test\r\nSet-Cookie: e=5; Domain=\tlocalhost\r\nSet-Cookie: f=6;;Domain=.preview.test;\r\n"
                         b"Access-Control-Allow-Origin: *\r\nAlt-Svc: h2=\"localhost:1\"\r\nContent-Length: 0\r\n\r\n")
        else:
            sock.sendall(ok + b"Content-Length: 5\r\n\r\nhello")
    except OSError:
        pass
    finally:
        sock.close()
listener = socket.create_server(("127.0.0.1", 8080), backlog=200)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


def start_guest(frames):
    box = Box(frames)
    box.call("file.write", path="/tmp/guest.py", content=GUEST)
    box.call("process.start", command="exec python3 /tmp/guest.py")
    box.call("port.wait", port=8080, timeoutMs=20000)
    box.call("port.expose", port=8080, token="secret")
    return box


def is_served(daemon):
    with Http(daemon.connect(), host=HOST) as http:
        return http.begin("GET", "/") == 200 and read_raw(http) == b"hello"


def begin(daemon, path):
    http = Http(daemon.connect(), host=HOST)
    http.socket.settimeout(20)
    http.send_head("GET", path, {"Host": HOST})
    return http


HEADS = ["/headers", "/header", "/status", "/hints"]
BODIES = ["/body", "/until-end", "/chunks", "/huge-chunk"]
LINES = ["/extension", "/size", "/trailers"]


def test_answers_that_never_end():
    with Daemon("--preview-host", BASE) as daemon, daemon.frames() as frames:
        box = start_guest(frames)
        before = daemon.memory()
        for path in HEADS:
            with begin(daemon, path) as http:
                assert http.read_head() == 502, path
                assert b"protocol" in read_raw(http)
        for path in LINES:  # the head was out: it is cut
            with begin(daemon, path) as http:
                try:
                    status = http.read_head()
                    assert status in (200, 502)
                    read_raw(http)
                    assert status == 502, path
                except Gone:
                    pass
        slow = [begin(daemon, path) for path in BODIES for _ in range(3)]
        for _ in range(15):
            time.sleep(0.1)
            assert is_served(daemon), "who does not read holds up nobody"
            assert IS_SANITIZED or daemon.memory() - before < ROOM, daemon.memory() - before
        for http in slow:
            assert http.read_head() == 200
            http.close()
        assert box.says("echo beside") == b"beside\n" and is_served(daemon)
        box.is_well()


def test_guests_that_say_nothing():
    with Daemon("--preview-host", BASE) as daemon, daemon.frames() as frames:
        box = start_guest(frames)
        before = daemon.descriptors()
        silent = [begin(daemon, path) for path in ("/silent", "/half") * 20]
        uploads = []
        for _ in range(5):
            http = Http(daemon.connect(), host=HOST)
            http.socket.setblocking(False)
            http.socket.send(b"POST /deaf HTTP/1.1\r\nHost: " + HOST.encode() + b"\r\nContent-Length: 900000000\r\n\r\n")
            sent = 0
            try:
                while sent < 100 << 20:
                    sent += http.socket.send(bytes(1 << 16))
            except BlockingIOError:
                pass
            assert sent < 100 << 20
            uploads.append(http)
        assert is_served(daemon) and box.says("echo beside") == b"beside\n"
        for http in silent + uploads:
            http.close()
        # Forty-five connections; sandboxes that are kept ready have some descriptors too, and may not have been there before.
        wait_for(lambda: daemon.descriptors() < before + 10)
        again = [begin(daemon, "/silent") for _ in range(5)]
        box.call("port.unexpose", port=8080)
        for http in again:
            try:
                assert http.read_head() in (404, 502)
            except Gone:
                pass
            http.close()
        box.call("port.expose", port=8080, token="secret")
        assert is_served(daemon)
        again = [begin(daemon, "/silent") for _ in range(5)]
        box.call("sandbox.delete")
        for http in again:
            try:
                assert http.read_head() in (404, 410, 502)
            except Gone:
                pass
            http.close()


WRONG = ("negative", "plus", "overflow", "hex", "minus-chunk", "big-chunk", "short-chunk", "nul", "no-colon", "empty-name", "te-odd", "te-twice", "space", "list",
         "fold", "bare", "high", "two-lengths", "both", "blank-chunk", "bare-chunk", "bare-extension", "bare-cr", "name-blank", "length-trailer")


def test_answers_that_could_be_taken_for_others():
    with Daemon("--preview-host", BASE) as daemon, daemon.frames() as frames:
        box = start_guest(frames)
        for kind in WRONG:
            with begin(daemon, "/say/" + kind) as http:
                try:
                    assert http.read_head() == 502, (kind, http.headers)
                    assert b"protocol" in read_raw(http), kind
                except Gone:
                    continue  # the head was out: it is cut
            assert is_served(daemon), kind
        for kind in ("right", "right-chunks"):
            with begin(daemon, "/say/" + kind) as http:
                assert http.read_head() == 200 and read_raw(http) == b"hello", (kind, http.headers)
                assert http.begin("GET", "/next") == 200 and read_raw(http) == b"hello", "the connection is not out of step"
        box.is_well()


def test_nothing_is_set_for_the_daemons_origin():
    with Daemon("--preview-host", BASE, tcp=True) as daemon, Frames(daemon.connect_tcp(), token=daemon.token) as frames:
        box = start_guest(frames)
        with Http(daemon.connect_tcp(), daemon.token, host=HOST) as http:
            http.send_head("GET", "/origin", {"Host": HOST, "Authorization": "Bearer " + daemon.token, "Cookie": "session=1"})
            head = http.until(b"\r\n\r\n").decode("latin-1")
        cookies = [line.split(":", 1)[1].strip() for line in head.split("\r\n") if line.lower().startswith("set-cookie")]
        assert [cookie.split("=")[0] for cookie in cookies] == ["__Host-c"], cookies
        assert "302" in head.split("\r\n")[0] and "alt-svc" not in head.lower() and daemon.token not in head, head
        for origin in (f"http://{HOST}", f"http://{HOST}:{daemon.port}", "null"):  # a page of the guest's sends requests to the daemon
            with Http(daemon.connect_tcp(), daemon.token) as http:
                assert http.get("/v1/sandboxes", Origin=origin)[0] == 403, origin
            with Socket(daemon.connect_tcp(), "/v1/sandboxes/a/terminal", daemon.token, {"Origin": origin}) as refused:
                assert refused.status == 403, origin
        with Http(daemon.connect_tcp(), daemon.token) as http:
            assert http.get("/v1/sandboxes")[0] == 200  # the twin
        box.is_well()


def test_a_flood_of_viewers():
    with Daemon("--preview-host", BASE) as daemon, daemon.frames() as frames:
        box = start_guest(frames)
        before, descriptors = daemon.memory(), daemon.descriptors()
        viewers = [begin(daemon, "/until-end" if n % 3 else "/silent") for n in range(150)]
        wait_for(lambda: daemon.descriptors() >= descriptors + 150)
        assert box.says("echo beside") == b"beside\n"
        assert IS_SANITIZED or daemon.memory() - before < 150 << 20, daemon.memory() - before
        for http in viewers:
            http.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            http.close()
        # A hundred and fifty connections, and as many to the guest; a sandbox that is made ready meanwhile has some descriptors too.
        wait_for(lambda: daemon.descriptors() < descriptors + 10)
        assert is_served(daemon)
        box.is_well()
