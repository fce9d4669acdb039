"""Requests that two parsers can read differently: refused with 400 on every listener and every
route, and the connection is closed, so that following bytes are never parsed as a request of their
own. Each has a permitted twin."""
import contextlib
import os
import socket
import ssl
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, make_certificate
from rpc import Daemon, HANG
from sandbox_client import read_raw, serve_in

BASE = "preview.test"
JSON = b"Content-Type: application/json\r\n"
SMUGGLED = b"GET /health?smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Heads: after the first line, {host} is a sound line Host. Bodies follow.
LINE = b"POST {path} HTTP/1.1\r\n"
POST = LINE + b"{host}"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
BAD = {
    "two lengths": POST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    "same length twice": POST + b"Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
    "list of lengths": POST + b"Content-Length: 2, 2\r\n\r\n{}",
    "length with plus": POST + b"Content-Length: +2\r\n\r\n{}",
    "length with minus": POST + b"Content-Length: -2\r\n\r\n{}",
    "length in hexadecimal": POST + b"Content-Length: 0x2\r\n\r\n{}",
    "length with text": POST + b"Content-Length: 2a\r\n\r\n{}",
    "length with a blank": POST + b"Content-Length: 2 2\r\n\r\n{}",
    "no length": POST + b"Content-Length:\r\n\r\n",
    "length beyond 64 bits": POST + b"Content-Length: 18446744073709551618\r\n\r\n{}",
    "length beyond 63 bits": POST + b"Content-Length: 9223372036854775808\r\n\r\n{}",
    "length and chunks": POST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and length": POST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n0\r\n\r\n",
    "chunked twice": POST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunked, chunked": POST + b"Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "another encoding": POST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "identity": POST + b"Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n",
    "almost chunked": POST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunked in 1.0": b"POST {path} HTTP/1.0\r\n{host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "blank before the colon": POST + b"Content-Length : 2\r\n\r\n{}",
    "tab before the colon": POST + b"Transfer-Encoding\t: chunked\r\n\r\n0\r\n\r\n",
    "blank in a name": POST + b"X Y: z\r\n\r\n",
    "no name": POST + b": z\r\n\r\n",
    "no colon": POST + b"X\r\n\r\n",
    "high byte in a name": POST + b"X\xe9: z\r\n\r\n",
    "continued line": POST + b"X: a\r\n b\r\n\r\n",
    "continued with a tab": POST + b"X: a\r\n\tContent-Length: 5\r\n\r\n",
    "continued first line": LINE + b" X: a\r\n{host}\r\n",
    "host twice": POST + b"{host}\r\n",
    "another host": POST + b"Host: other\r\n\r\n",
    "no host": LINE + b"\r\n",
    "two hosts in one": LINE + b"Host: a b\r\n\r\n",
    "host with a path": LINE + b"Host: a/b\r\n\r\n",
    "LF alone": POST.replace(b"\r\n", b"\n") + b"\n",
    "LF alone behind a header": POST + b"X: y\nContent-Length: 0\r\n\r\n",
    "LF alone at the end": POST + b"X: y\r\n\n",
    "CR alone in a value": POST + b"X: y\rContent-Length: 5\r\n\r\n",
    "CR alone for an end": POST + b"X: y\r\rZ",
    "NUL in a value": POST + b"X: a\0b\r\n\r\n",
    "NUL in a name": POST + b"X\0: b\r\n\r\n",
    "NUL in the target": b"POST {path}\0 HTTP/1.1\r\n{host}\r\n",
    "control in a value": POST + b"X: a\x01b\r\n\r\n",
    "two blanks in the first line": b"POST  {path} HTTP/1.1\r\n{host}\r\n",
    "tab in the first line": b"POST\t{path} HTTP/1.1\r\n{host}\r\n",
    "more behind the version": b"POST {path} HTTP/1.1 x\r\n{host}\r\n",
    "no version": b"POST {path}\r\n{host}\r\n",
    "another version": b"POST {path} HTTP/1.2\r\n{host}\r\n",
    "blank before the verb": b" POST {path} HTTP/1.1\r\n{host}\r\n",
    "chunk with plus": CHUNKED + b"+2\r\n{}\r\n0\r\n\r\n",
    "chunk with 0x": CHUNKED + b"0x2\r\n{}\r\n0\r\n\r\n",
    "chunk with a blank": CHUNKED + b"2 \r\n{}\r\n0\r\n\r\n",
    "chunk behind a blank": CHUNKED + b" 2\r\n{}\r\n0\r\n\r\n",
    "chunk without a size": CHUNKED + b"\r\n{}\r\n0\r\n\r\n",
    "chunk beyond 64 bits": CHUNKED + b"10000000000000002\r\n{}\r\n0\r\n\r\n",
    "chunk behind LF alone": CHUNKED + b"2\n{}\r\n0\r\n\r\n",
    "chunk behind CR alone": CHUNKED + b"2\r{}\r\n0\r\n\r\n",
    "chunk before LF alone": CHUNKED + b"2\r\n{}\n0\r\n\r\n",
    "longer than its chunk": CHUNKED + b"1\r\n{}\r\n0\r\n\r\n",
    "extension with LF alone": CHUNKED + b"2;a\nb\r\n{}\r\n0\r\n\r\n",
    "extension with CR alone": CHUNKED + b"2;a\rb\r\n{}\r\n0\r\n\r\n",
    "extension with NUL": CHUNKED + b"2;a\0\r\n{}\r\n0\r\n\r\n",
    "long extension": CHUNKED + b"2;" + b"x" * 300 + b"\r\n{}\r\n0\r\n\r\n",
    "end behind LF alone": CHUNKED + b"2\r\n{}\r\n0\n\r\n",
    "length as a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n",
    "encoding as a trailer": CHUNKED + b"2\r\n{}\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
    "trailer with LF alone": CHUNKED + b"2\r\n{}\r\n0\r\nX: y\n\r\n",
    "continued trailer": CHUNKED + b"2\r\n{}\r\n0\r\nX: y\r\n z\r\n\r\n",
    "endless trailers": CHUNKED + b"2\r\n{}\r\n0\r\n" + b"X: y\r\n" * 2000 + b"\r\n",
}
# These libmicrohttpd answers itself: a body's faults always, others in some of its versions.
LIBRARY = ("another version", "more behind the version", *(name for name, text in BAD.items() if text.startswith(CHUNKED)))
IN_TLS = ("two lengths", "extension with CR alone", "LF alone", "chunks and length", "continued line", "NUL in a value", "no host", "chunk behind CR alone")
GOOD = {
    "a length": POST + b"Content-Length: 2\r\n\r\n{}",
    "blanks around a length": POST + b"content-length: \t 2 \t\r\n\r\n{}",
    "no blank behind the colon": POST + b"Content-Length:2\r\n\r\n{}",
    "no body": POST + b"\r\n",
    "chunks": CHUNKED + b"1\r\n{\r\n01\r\n}\r\n0\r\n\r\n",
    "Chunked, with blanks": POST + b"transfer-encoding: \tChunked \t\r\n\r\n0\r\n\r\n",
    "extensions": CHUNKED + b"2;a=b;c=\"d e\"\r\n{}\r\n0;last\r\n\r\n",
    "trailers": CHUNKED + b"2\r\n{}\r\n0\r\nX-Sum: 1\r\nY: 2\r\n\r\n",
    "empty lines before": b"\r\n\r\n" + POST + b"\r\n",
    "many headers": POST + b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(50)) + b"\r\n",
    "an empty header": POST + b"X:\r\n\r\n",
    "tab and high bytes in a value": POST + b"X: a\tb\xc3\xa4\r\n\r\n",
    "1.0": b"POST {path} HTTP/1.0\r\n{host}Connection: keep-alive\r\n\r\n",
}


def fill(text, host, path, more=b""):
    return text.replace(b"{host}", b"Host: " + host.encode() + b"\r\n" + more).replace(b"{path}", path.encode())


def everything(sock):
    """All bytes until the end."""
    data = b""
    try:
        while part := sock.recv(1 << 16):
            data += part
    except ConnectionError:
        pass
    return data


def send(sock, data, in_pieces):
    """In pieces: each byte its own segment, as far as the system goes along."""
    try:
        for piece in (data[i:i + 1] for i in range(len(data))) if in_pieces else [data]:
            sock.sendall(piece)
    except ConnectionError:
        pass


def assert_refused(connect, name, data, statuses, in_pieces=False):
    with contextlib.closing(connect()) as sock:
        send(sock, data, in_pieces)
        answer = everything(sock)
        assert answer.startswith(b"HTTP/1.1 ") and int(answer[9:12]) in statuses, (name, data[:200], answer[:300])
        assert answer.count(b"HTTP/1.1 ") == 1, (name, "more than one answer", answer)
        assert b"<html>" not in answer or name in LIBRARY, (name, "the library's own answer", answer)


def assert_taken(connect, name, data, statuses):
    """Twice on one connection: the second request begins at the expected place."""
    with Http(connect()) as http:
        http.socket.sendall(data + data)
        for _ in range(2):
            status = http.read_head()
            assert status in statuses, (name, data[:200], status, http.headers)
            read_raw(http)


def try_rows(connect, host, path, statuses, more=b"", pieces=(), bad=BAD):
    for name, text in BAD.items():
        if name not in bad:
            continue
        data = fill(text, host, path, more)
        if not data.endswith(b"Z"):  # a second message after one of ambiguous length
            data += SMUGGLED
        # A request that is refused for its head closes before its chunks are read.
        refusals = (400, *(status for status in statuses if status != 200)) if text.startswith(CHUNKED) else (400,)
        assert_refused(connect, name, data, refusals)
        if name in pieces:
            assert_refused(connect, name, data, refusals, True)
    for name, text in GOOD.items():
        assert_taken(connect, name, fill(text, host, path, more), statuses)


def test_native_on_the_unix_socket():
    with Daemon(level="error") as daemon:
        # An empty object is read whole, and refused for missing members.
        try_rows(daemon.connect, "localhost", "/v1/prefixes", (400,), JSON, pieces=BAD)


def test_native_on_tcp_with_the_token():
    with Daemon(level="warning", tcp=True) as daemon:
        token = b"Authorization: Bearer " + daemon.token.encode() + b"\r\n"
        try_rows(daemon.connect_tcp, "localhost", "/v1/prefixes", (400,), JSON + token)


def test_in_tls():
    with tempfile.TemporaryDirectory() as directory:
        key, certificate = make_certificate(directory)
        context = ssl.create_default_context(cafile=certificate)
        with Daemon("--tls-key", key, "--tls-certificate", certificate, tcp=True) as daemon:
            token = b"Authorization: Bearer " + daemon.token.encode() + b"\r\n"
            try_rows(lambda: context.wrap_socket(daemon.connect_tcp(), server_hostname="localhost"), "localhost", "/v1/prefixes", (400,), JSON + token,
                     IN_TLS[:2], IN_TLS)


def test_the_container_api():
    with Daemon(level="error") as daemon:
        try_rows(daemon.connect, "localhost", "/v1/sandboxes/a/container/api/nothing", (404,), JSON)
    with Daemon("--container-listen", "127.0.0.1:0=a", "--contexts", "", level="info") as daemon:
        port = next(line["port"] for line in daemon.lines() if line["event"] == "container-listening")
        try_rows(lambda: socket.create_connection(("127.0.0.1", port), HANG), "127.0.0.1", "/api/nothing", (404,), JSON)


def test_requests_to_previews():
    with Daemon("--preview-host", BASE, level="error") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a")
        serve_in(frames, "a", 8080)
        frames.call("port.expose", sandbox="a", port=8080, token="secret")
        try_rows(daemon.connect, "8080-a-secret." + BASE, "/", (200,))


def test_a_request_before_a_bad_one_is_answered():
    with Daemon(level="error") as daemon, contextlib.closing(daemon.connect()) as sock:
        sock.sendall(SMUGGLED + fill(BAD["two lengths"], "localhost", "/health") + SMUGGLED)
        answer = everything(sock)
        assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"400"], answer


def test_bodies_that_were_refused_half_way_are_not_written():
    """A chunk of which the end is in doubt: nothing that was made up in its place gets into a file."""
    with Daemon(level="error") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a")
        head = b"PUT /v1/sandboxes/a/raw?path=/tmp/raw HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        for bad in (b"5\r\nhello\r\n5\rworld\r\n0\r\n\r\n", b"5\r\nhelloworld\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\nContent-Length: 1\r\n\r\n"):
            with contextlib.closing(daemon.connect()) as sock:
                sock.sendall(head + bad)
                assert b" 200 " not in everything(sock), bad
            said = frames.call("exec", sandbox="a", command="cat /tmp/raw 2>/dev/null || true")["stdout"]
            assert said == "", (bad, said)
        with Http(daemon.connect()) as http:
            http.socket.sendall(head + b"5\r\nhello\r\n5;x\r\nworld\r\n0\r\nX: y\r\n\r\n")
            assert http.read_head() == 200
            read_raw(http)
        assert frames.call("exec", sandbox="a", command="cat /tmp/raw")["stdout"] == "helloworld"


def test_large_bodies_in_small_chunks():
    """Chunks of every size across every border of a read."""
    with Daemon(level="error") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a")
        data = bytes(range(256)) * 2000
        with Http(daemon.connect()) as http:
            http.send_head("PUT", "/v1/sandboxes/a/raw?path=/tmp/raw", {"Host": "localhost", "Transfer-Encoding": "chunked"})
            at, size, body = 0, 1, b""
            while at < len(data):
                part = data[at:at + size]
                body += b"%x%s\r\n%s\r\n" % (len(part), b";x" * (size % 3), part)
                at, size = at + size, size % 2000 + 1
            http.socket.sendall(body + b"0\r\n\r\n")
            assert http.read_head() == 200
            read_raw(http)
        with Http(daemon.connect()) as http:
            assert http.begin("GET", "/v1/sandboxes/a/raw?path=/tmp/raw") == 200
            assert http.exactly(int(http.headers["content-length"])) == data


def test_an_upgrade_that_is_refused_closes():
    """Bytes behind the head of an upgrade are not looked at, so they are no request either. Where there are none, the connection stays."""
    head = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    with Daemon(level="error") as daemon:
        with contextlib.closing(daemon.connect()) as sock:
            sock.sendall(head + b"GET /health HTTP/1.1\nHost: localhost\n\n")
            answer = everything(sock)
            assert answer.count(b"HTTP/1.1 ") == 1, answer
        with Http(daemon.connect()) as http:
            for protocol in (b"websocket", b"h2c", b"websocket"):
                http.socket.sendall(head.replace(b"websocket", protocol))
                assert http.read_head() == 200 and http.read_body() == {"status": "ok"}
