"""Requests refused before they reach the container API get its form of error, and a client that is
still sending can read it."""
import hashlib
import os
import socket
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Http, listener, served

MIB = 1 << 20


def is_of_this_api(error, status):
    assert error["httpStatus"] == status and error["context"] == {} and error["timestamp"].endswith("Z"), error
    assert isinstance(error["error"], str) and error["error"] == error["message"], error
    return error["code"]


def connect(http):
    return Http(socket.create_connection(http.socket.getpeername(), 40))


def send_all(http, size):
    """A client that does not look for the answer before it has sent everything."""
    http.send_head("POST", "/api/write", {"Host": "localhost", "Content-Type": "application/json", "Content-Length": str(size)})
    block = b"x" * MIB
    for _ in range(size // MIB):
        http.socket.sendall(block)
    return http.read_head(), http.read_body()


def test_a_body_over_the_limit_is_answered():
    with listener("mine", "--max-request", "4") as (_, http):
        with connect(http) as other:
            status, error = send_all(other, 12 * MIB)
            assert status == 413 and is_of_this_api(error, 413) == "FILE_TOO_LARGE", error
            assert other.headers["access-control-allow-origin"] == "*" and other.headers["connection"] == "close"
        with connect(http) as other:  # a client that reads at once gets the response at once
            other.send_head("POST", "/api/write", {"Host": "localhost", "Content-Length": str(12 * MIB)})
            assert (other.read_head(), other.read_body()["code"]) == (413, "FILE_TOO_LARGE")
        with connect(http) as other:
            other.send_head("POST", "/api/write", {"Host": "localhost", "Transfer-Encoding": "chunked"})
            for _ in range(6):
                other.socket.sendall(b"100000\r\n" + b"x" * MIB + b"\r\n")
            other.socket.sendall(b"0\r\n\r\n")
            assert (other.read_head(), other.read_body()["code"]) == (413, "FILE_TOO_LARGE")
        assert http.get("/api/ping")[0] == 200


def test_what_is_read_of_such_a_body_is_bounded():
    with listener("mine", "--max-request", "1") as (_, http):
        with connect(http) as other:
            try:
                send_all(other, 512 * MIB)
                raise AssertionError("all of it was read")
            except OSError:
                pass  # the connection was closed under it
        assert http.get("/api/ping")[0] == 200


def test_many_who_send_too_much():
    with listener("mine", "--max-request", "1") as (_, http):
        def send():
            with connect(http) as other:
                try:
                    assert send_all(other, 3 * MIB)[0] == 413
                    done.append(1)
                except OSError:
                    pass  # beyond the most that are waited for

        done = []
        threads = [threading.Thread(target=send) for _ in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(done) == 40
        assert http.get("/api/ping")[0] == 200


def test_heads_that_are_too_large():
    with listener("mine") as (_, http):
        for head in (b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\nX-A: " + b"a" * 30000 + b"\r\n\r\n",
                     b"GET /api/ping?" + b"a" * 30000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\n" + b"".join(b"X-%d: a\r\n" % i for i in range(2000)) + b"\r\n",
                     b"GET /api/ping?" + b"a=b&" * 500 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                     b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\nCookie: " + b"a=b; " * 1000 + b"\r\n\r\n",
                     b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\nCookie: a=" + b"b" * 60000 + b"\r\n\r\n"):
            with connect(http) as other:
                other.socket.sendall(head)
                assert other.read_head() == 431
                error = other.read_body()
                assert is_of_this_api(error, 431) == "VALIDATION_FAILED" and "24 KiB" in error["message"], error
        with connect(http) as other:
            assert other.get("/api/ping", **{"X-A": "a" * 20000})[0] == 200
            assert other.get("/api/ping", **{f"X-{i}": "a" for i in range(200)})[0] == 200
            assert other.get("/api/ping?" + "a=b&" * 300, Cookie="a=" + "b" * 1000)[0] == 200
            assert other.get("/api/ping", Cookie="a=b; " * 300)[0] == 200
            assert other.get("/api/ping", Cookie="a=" + "b" * 12000)[0] == 200
        first = b"GET /api/ping HTTP/1.1\r\nHost: localhost\r\n"
        size = 24 * 1024 - len(first) - 64
        for length in range(size - 180, size + 5):  # wherever in a header the last permitted byte is
            with connect(http) as other:
                other.socket.sendall(first + b"X" * length + b": a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
                status, error = other.read_head(), other.read_body()
                assert status == 200 or is_of_this_api(error, status) == "VALIDATION_FAILED", (length, error)


def test_who_may_not_ask():
    with served(tcp=True) as (daemon, _):
        with Http(daemon.connect_tcp()) as stranger:
            status, error = stranger.get(BASE + "/api/ping")
            assert status == 401 and is_of_this_api(error, 401) == "PERMISSION_DENIED", error
            assert stranger.headers["www-authenticate"] == "Bearer"
        with Http(daemon.connect_tcp(), daemon.token) as http:
            status, error = http.get(BASE + "/api/ping", Origin="https://evil.example")
            assert status == 403 and is_of_this_api(error, 403) == "PERMISSION_DENIED", error
            status, error = http.get("/v1/sandboxes", Origin="https://evil.example")
            assert status == 403 and error["error"]["name"] == "forbidden", "elsewhere it is the daemon's shape"


def test_heads_that_cannot_be_read():
    with listener("mine") as (_, http):
        with connect(http) as other:
            other.socket.sendall(b"GET /api/ping HTTP/1.1\r\n\r\n")
            assert other.read_head() == 400
            assert is_of_this_api(other.read_body(), 400) == "VALIDATION_FAILED"


COUNTS = """import http.server, hashlib
class H(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        left, digest = int(self.headers['content-length']), hashlib.sha256()
        while left:
            block = self.rfile.read(min(left, 1 << 20))
            digest.update(block)
            left -= len(block)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)
http.server.HTTPServer(('127.0.0.1', 8600), H).serve_forever()
"""


def test_bodies_of_any_size_are_passed_on_to_a_port():
    with served("--max-request", "1") as (_, http):
        assert http.post(BASE + "/api/write", path="/workspace/s.py", content=COUNTS)[0] == 200
        assert http.post(BASE + "/api/process/start", command="exec python3 /workspace/s.py")[0] == 200
        http.post(BASE + "/api/port-watch", port=8600, mode="tcp")
        assert http.post(BASE + "/api/expose-port", port=8600)[0] == 200
        size, block, digest = 40 * MIB, os.urandom(MIB), hashlib.sha256()
        http.send_head("POST", BASE + "/proxy/8600/up", {"Host": "localhost", "Content-Length": str(size)})
        for _ in range(size // MIB):
            http.socket.sendall(block)
            digest.update(block)
        assert (http.read_head(), http.read_body()) == (200, digest.hexdigest())
