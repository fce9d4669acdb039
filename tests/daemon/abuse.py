#!/usr/bin/python3
"""Bytes no honest caller sends, callers that are slow, and callers that go: the daemon answers with errors, stays well, and keeps
neither descriptors nor memory."""
import json
import os
import random
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, WebSocket
from rpc import Daemon, Failed, Frames, Gone, PATIENCE, frame

ROUNDS = 400


def drain(sock, most=1 << 20):
    """Bytes until the end, or until none arrive for a while."""
    data = b""
    sock.settimeout(5)
    try:
        while len(data) < most:
            part = sock.recv(1 << 16)
            if not part:
                break
            data += part
    except (ConnectionError, TimeoutError):
        pass
    return data


def is_well(daemon):
    with daemon.frames() as frames:
        assert frames.call("call", language="python", code="return 1")["result"] == 1
        return frames.call("stats")


def settled(daemon, descriptors):
    """True if the number of descriptors returns to its former value (pooled boxes have some)."""
    until = time.monotonic() + 15 * PATIENCE
    while daemon.descriptors() > descriptors and time.monotonic() < until:
        time.sleep(0.1)
    return daemon.descriptors()


BAD_STREAMS = [
    b"C", b"CLOCHE2\n", b"CLOCHE1", b"CLOCHE1\n", b"CLOCHE1\n\0", b"CLOCHE1\n" + bytes(4), b"CLOCHE1\n" + struct.pack("<II", 3, 0),
    b"CLOCHE1\n" + struct.pack("<II", 0xffffffff, 5), b"CLOCHE1\n" + struct.pack("<II", 70000, 5), b"CLOCHE1\n" + struct.pack("<II", 8, 5) + b"{}{}",
    b"CLOCHE1\n" + frame(b"\0" * 20), b"CLOCHE1\n" + frame({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}})[:-3],
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\0" * 100, b"\xff" * 100, b"HELO mail\r\n", b"\r\n\r\n\r\n",
]
BAD_REQUESTS = [
    b"GET / HTTP/9.9\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n", b"GET\r\n\r\n", b"get /health http/1.1\r\nHost: x\r\n\r\n", b"GET /health\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nno colon here\r\n\r\n",
    b"GET /" + b"a" * 100000 + b" HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /health HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * 100000 + b"\r\n",
    b"GET /health HTTP/1.1\r\nHost: a\r\nX: " + b"y" * 1000000 + b"\r\n\r\n",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: -1\r\n\r\n{}",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 99999999999999999999\r\n\r\n{}",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{}",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n0\r\n\r\n",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n{}",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2;" + b"x" * 200000 + b"\r\n{}\r\n0\r\n\r\n",
    b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip\r\n\r\n{}",
]


def test_malformed_bytes():
    with Daemon("--max-request", "1") as daemon:
        is_well(daemon)
        for data in BAD_STREAMS + BAD_REQUESTS:
            with daemon.connect() as sock:
                try:
                    sock.sendall(data)
                except ConnectionError:
                    pass
                try:
                    sock.shutdown(socket.SHUT_WR)
                except OSError:
                    pass
                answer = drain(sock)
                assert b" 200 " not in answer.split(b"\r\n")[0], (data[:80], answer[:100])
        assert is_well(daemon)["connections"] == 1


PATHS = ["/v1/prefixes/../../health", "/v1/prefixes/%2e%2e%2fhealth", "/v1/prefixes/a%00b", "/v1/prefixes/a%2fb", "/v1/prefixes/", "/v1//call",
         "/health/", "//health", "/HEALTH", "/v1/prefixes/" + "x" * 5000, "/v1/changesets/%00", "/v1/prefixes/\xe9", "http://localhost/health", "*"]


def test_paths_are_taken_as_they_are():
    with Daemon() as daemon:
        for path in PATHS:
            with Http(daemon.connect()) as http:
                for verb in ("GET", "DELETE"):
                    http.socket.sendall(f"{verb} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode("latin-1"))
                    try:
                        status = http.read_head()
                        http.read_body()
                    except Gone:
                        break
                    assert status in (400, 404, 405), (verb, path, status)
        with Http(daemon.connect()) as http:
            assert http.get("/health?a=b%00")[0] == 200


def test_pipelining_and_pieces():
    request = b"GET /health HTTP/1.1\r\nHost: a\r\n\r\n"
    body = json.dumps({"language": "python", "code": "def f():\n    return 'x'"}).encode()
    with Daemon() as daemon:
        with Http(daemon.connect()) as http:
            http.socket.sendall(request * 200)
            assert all(http.read_head() == 200 and http.read_body() == {"status": "ok"} for _ in range(200))
        with Http(daemon.connect()) as http:  # a run between two others' requests; answers in the order of the questions
            head = b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
            http.socket.sendall(request + head + body + request)
            assert [(http.read_head(), http.read_body().get("result")) for _ in range(3)] == [(200, None), (200, "x"), (200, None)]
        with Http(daemon.connect()) as http:
            head = b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            chunks = b"".join(b"1;name=value\r\n" + bytes([byte]) + b"\r\n" for byte in body) + b"0\r\nTrailer: x\r\n\r\n"
            for byte in head:
                http.socket.sendall(bytes([byte]))
            http.socket.sendall(chunks)
            assert http.read_head() == 200 and http.read_body()["result"] == "x"
        with Http(daemon.connect()) as http:
            http.socket.sendall(b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n"
                                % len(body))
            assert http.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
            http.socket.sendall(body)
            assert http.read_head() == 200 and http.read_body()["result"] == "x"
        with daemon.connect() as sock:  # frames, a byte at a time
            data = b"CLOCHE1\n" + frame({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}})
            for byte in data:
                sock.sendall(bytes([byte]))
            assert b'"protocol":1' in sock.recv(1000)


def test_what_is_too_large_is_said_so():
    with Daemon("--max-request", "1") as daemon:
        with Http(daemon.connect()) as http:
            assert http.begin("POST", "/v1/call", headers={"Content-Type": "application/json", "Content-Length": str(2 << 20)}) == 413
            assert http.read_body()["error"]["name"] == "too_large"
        with Http(daemon.connect()) as http:
            http.send_head("POST", "/v1/call", {"Host": "a", "Content-Type": "application/json", "Transfer-Encoding": "chunked"})
            for _ in range(32):
                http.socket.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            http.socket.sendall(b"0\r\n\r\n")
            assert http.read_head() == 413 and http.read_body()["error"]["name"] == "too_large"
        with Http(daemon.connect()) as http:
            for text in (b"{", b"[]", b"1", b"", b"{}x", b"\xff", b'{"code":"\\ud800"}', b"[" * 5000, b'{"a":1,"a":2}'):
                status, error = http.request("POST", "/v1/call", text)
                assert status == 400 and error["error"]["fault"] == "caller", (text, error)
        with daemon.frames() as frames:
            frames.socket.sendall(struct.pack("<II", 3 << 20, 5))
            try:
                frames.wait(None)
                raise AssertionError("a frame of 3 MiB")
            except Failed as error:
                assert error.name == "too_large", error.message
        with daemon.connect() as sock:  # before hello even less
            sock.sendall(b"CLOCHE1\n" + struct.pack("<II", 100000, 5))
            assert b"too_large" in drain(sock)


def abuse_once(daemon, number, dice):
    """One connection that goes wrong somewhere."""
    call = {"language": "python", "code": "import time\ntime.sleep(100)", "limits": {"wallMs": 60000}}
    kind = number % 8
    if kind == 0:
        with daemon.connect() as sock:
            sock.sendall(dice.choice(BAD_STREAMS))
    elif kind == 1:
        with daemon.connect() as sock:
            try:
                sock.sendall(dice.choice(BAD_REQUESTS)[:5000])
            except ConnectionError:
                pass
    elif kind == 2:  # gone in the middle of a frame
        with daemon.frames() as frames:
            data = frame({"jsonrpc": "2.0", "id": 1, "method": "call", "params": {"language": "nothing", "code": "x" * 1000}})
            frames.socket.sendall(data[:dice.randrange(len(data))])
    elif kind == 3:  # gone in the middle of a request
        with daemon.connect() as sock:
            body = json.dumps({"language": "nothing", "code": "x" * 1000}).encode()
            data = b"POST /v1/call HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body
            sock.sendall(data[:dice.randrange(len(data))])
    elif kind == 4:
        with daemon.frames() as frames:
            frames.refused("call", language="nothing", code="1")
            frames.send({"jsonrpc": "2.0", "id": 1, "result": {}})
    elif kind == 5:
        with WebSocket(daemon.connect()) as web:
            web.send_raw(dice.choice([0x82, 0x81, 0x02, 0x89, 0x88, 0xff]), os.urandom(dice.randrange(1, 200)))
    elif kind == 6 and number % 80 == 6:  # gone while a run is under way, every now and then
        with daemon.frames() as frames:
            frames.ask("call", **call)
            if number % 160 == 6:
                frames.call("stats")
    elif kind == 7 and number % 80 == 7:
        with Http(daemon.connect()) as http:
            data = json.dumps(call).encode()
            http.send_head("POST", "/v1/call", {"Host": "a", "Content-Type": "application/json", "Content-Length": str(len(data))})
            http.socket.sendall(data)
            time.sleep(0.01 * dice.randrange(3))
    else:
        with Http(daemon.connect()) as http:
            assert http.request("POST", "/v1/call", b"nonsense")[0] == 400


TIMEOUT = 120


def test_thousands_of_bad_callers_leave_nothing(rounds=ROUNDS):
    """A memory that grows with them shows from some hundreds on; `CLOCHE_BUILD=build tests/daemon/abuse.py 10000` takes longer."""
    dice = random.Random(20261121)
    with Daemon("--max-request", "1", level="error") as daemon:
        is_well(daemon)
        for number in range(rounds // 4):  # one-time allocations
            abuse_once(daemon, number, dice)
        until = time.monotonic() + 20 * PATIENCE
        while is_well(daemon)["runs"]["now"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        descriptors, memory = settled(daemon, 0), daemon.memory()
        for number in range(rounds):
            abuse_once(daemon, number, dice)
        until = time.monotonic() + 20 * PATIENCE
        while is_well(daemon)["runs"]["now"]:
            assert time.monotonic() < until, "runs whose callers went are still there"
            time.sleep(0.1)
        stats = is_well(daemon)
        assert stats["connections"] == 1 and stats["prefixes"] == 0, stats
        assert settled(daemon, descriptors) <= descriptors, (descriptors, daemon.descriptors())
        grown = daemon.memory() - memory
        print(f"{rounds} rounds: {descriptors} descriptors, {memory >> 10} KiB, {grown >> 10} KiB more")
        assert grown < 2 << 20, f"{grown} bytes more after {rounds} bad callers"


def read_nothing(daemon, ask, limits):
    """The daemon's memory while a run floods a caller that does not read, before and after."""
    before = daemon.memory()
    ask({"language": "python", "code": "import sys\nline = 'x' * 65536\nwhile True: print(line)", "limits": limits})
    most, until = 0, time.monotonic() + 2.5
    while time.monotonic() < until:
        most = max(most, daemon.memory() - before)
        time.sleep(0.05)
    return most


def test_a_caller_that_does_not_read():
    limits = {"wallMs": 20000, "outputBytes": 4096}
    with Daemon(level="error") as daemon:
        is_well(daemon)
        with daemon.frames() as frames:
            grown = read_nothing(daemon, lambda params: frames.ask("script", **params, stream=True), limits)
            assert grown < 16 << 20, grown
            assert is_well(daemon)["runs"]["now"] >= 1, "the run waits, it is not ended"
            with daemon.frames() as other:
                assert other.call("call", language="python", code="return 2")["result"] == 2
            # It goes on when he reads again.
            count = 0
            while count < 8 << 20:
                frames.turn()
                count += sum(len(attachments) for _, _, attachments in frames.told)
                frames.told.clear()
        with Http(daemon.connect()) as http:
            grown = read_nothing(daemon, lambda params: http.begin("POST", "/v1/script", params, accept="text/event-stream"), limits)
            assert grown < 16 << 20, grown
            assert is_well(daemon)["runs"]["now"] >= 1
        with WebSocket(daemon.connect()) as web:
            grown = read_nothing(daemon, lambda params: web.ask("script", **params, stream=True), limits)
            assert grown < 16 << 20, grown
        # A client that sends requests and reads no response: the daemon stops reading from it.
        with daemon.frames() as frames:
            before, sent = daemon.memory(), 0
            frames.socket.settimeout(1)
            data = frame({"jsonrpc": "2.0", "id": 1, "method": "languages", "params": {}}) * 100
            try:
                while sent < 64 << 20:
                    sent += frames.socket.send(data)
                raise AssertionError("64 MiB of requests were taken")
            except TimeoutError:
                pass
            assert daemon.memory() - before < 16 << 20
        assert is_well(daemon)["connections"] == 1


HELLO = b"CLOCHE1\n" + frame({"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"protocol": 1}})


def test_connections_have_a_bound():
    with Daemon("--max-connections", "20", level="error") as daemon:
        with daemon.frames() as frames:
            greeted = [daemon.frames() for _ in range(19)]
            assert frames.call("stats")["connections"] == 20
            with daemon.connect() as late:
                assert b"503 Service Unavailable" in drain(late)
            for other in greeted:
                assert other.call("stats")["connections"] <= 20
                other.close()
            until = time.monotonic() + 10 * PATIENCE
            while frames.call("stats")["connections"] > 1:
                assert time.monotonic() < until
                time.sleep(0.02)
        assert is_well(daemon)


def test_without_descriptors_callers_wait():
    with Daemon(level="warning", limit=64) as daemon:
        with daemon.frames() as frames:
            socks, until = [], time.monotonic() + 20 * PATIENCE
            while not any(line["event"] == "cannot-accept" for line in daemon.lines()):
                assert time.monotonic() < until
                sock = daemon.connect()
                sock.sendall(HELLO)  # greeted clients are not dropped for others
                socks.append(sock)
                frames.call("stats")
            late = daemon.connect()
            for sock in socks:
                sock.close()
            with Frames(late) as other:
                assert other.call("stats")["connections"] >= 1
            assert sum(line["event"] == "cannot-accept" for line in daemon.lines()) < 30, "it does not try without end"


def test_a_run_that_calls_a_host_too_often():
    """Pending calls have a bound, and a host that responds slowly, one by one, still gets through."""
    with Daemon(level="error") as daemon:
        is_well(daemon)
        before = daemon.memory()
        functions, limits = {"host": {"kind": "function"}}, {"bridgeCalls": 0, "wallMs": 20000}
        with daemon.frames(host={("global", "host"): lambda text: NotImplemented}) as frames:
            code = "await Promise.all(Array.from({length: 20000}, (_, i) => host('x'.repeat(1000))))"
            number = frames.ask("call", language="javascript", code=code, globals=functions, limits=limits)
            result = frames.wait(number)
            assert result["status"] == "error" and "wait for their answers" in result["error"]["message"], result
            assert daemon.memory() - before < 64 << 20, daemon.memory() - before
        with daemon.frames(host={("global", "host"): len}) as frames:
            code = "return (await Promise.all(Array.from({length: 2000}, (_, i) => host('x'.repeat(1000))))).length"
            result = frames.call("call", language="javascript", code=code, globals=functions, limits=limits)
            assert result["result"] == 2000, result
        assert is_well(daemon)["runs"]["now"] == 0


if __name__ == "__main__":
    test_thousands_of_bad_callers_leave_nothing(int(sys.argv[1]))
