"""The sides of bench/sandbox.py: Cloche over HTTP, Cloche over frames, the container server of
peers/upstream.py. Each has connect(), and functions of such a connection: nothing(), execute(),
stream(), start(), session(), drop_session(). Unexpected responses raise Refused. Import with
tests/daemon in the path and CLOCHE_BUILD set."""
import json
import os
import socket
import time

import rpc

HANG_S = 120


class Refused(Exception):
    """An unexpected response."""


class Http:
    """One kept connection; measures when the first bytes of a response that contain a mark arrive."""

    def __init__(self, port, token=None):
        self.socket = socket.create_connection(("127.0.0.1", port), HANG_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb", 1 << 20)
        self.fixed = f"Host: localhost:{port}\r\n" + (f"Authorization: Bearer {token}\r\n" if token else "")

    def close(self):
        self.file.close()
        self.socket.close()

    def begin(self, verb, path, body=b"", kind="application/json", accept="application/json"):
        head = f"{verb} {path} HTTP/1.1\r\n{self.fixed}Accept: {accept}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        self.socket.sendall(head + body if len(body) < 65536 else head)
        if len(body) >= 65536:
            self.socket.sendall(body)
        status = int(self.file.readline().split()[1])
        headers = {}
        while (line := self.file.readline().strip()):
            name, _, value = line.partition(b":")
            headers[name.lower()] = value.strip()
        if status >= 300:
            raise Refused(f"{verb} {path}: {status} {b''.join(self.pieces(headers))[:300]!r}")
        return headers

    def pieces(self, headers):
        if b"content-length" in headers:
            left = int(headers[b"content-length"])
            while left and (data := self.file.read(min(left, 1 << 20))):
                left -= len(data)
                yield data
            return
        while (size := int(self.file.readline(), 16)):
            yield self.file.read(size)
            self.file.readline()
        self.file.readline()

    def ask(self, verb, path, params=None):
        body = b"" if params is None else json.dumps(params).encode()
        return json.loads(b"".join(self.pieces(self.begin(verb, path, body))) or b"null")

    def stream(self, path, params, mark):
        """ms until a piece with MARK arrived, and until the whole response did."""
        begun, first, all_of_it = time.perf_counter(), None, []
        for piece in self.pieces(self.begin("POST", path, json.dumps(params).encode(), accept="text/event-stream")):
            all_of_it.append(piece)
            if first is None and mark in piece:
                first = (time.perf_counter() - begun) * 1e3
        return first, b"".join(all_of_it)


def expect(is_so, what):
    if not is_so:
        raise Refused(f"unexpected: {str(what)[:300]}")


class Cloche:
    name = "cloche"

    def __init__(self, daemon):
        self.daemon, self.made = daemon, 0

    def connect(self):
        return Http(self.daemon.port, self.daemon.token)

    def nothing(self, http):
        http.ask("GET", "/health")

    def execute(self, http, session, command, sandbox="bench"):
        answer = http.ask("POST", f"/v1/sandboxes/{sandbox}/exec", {"command": command, "session": session})
        expect(answer["exitCode"] == 0, answer)
        return answer["stdout"]

    def stream(self, http, session, command):
        first, text = http.stream("/v1/sandboxes/bench/exec", {"command": command, "session": session}, b"event: output")
        expect(b"event: result" in text and b'"exitCode":0' in text.replace(b" ", b""), text)
        return first

    def start(self, http, session, command):
        expect(http.ask("POST", "/v1/sandboxes/bench/process/start", {"command": command, "session": session})["status"] == "running", command)

    def session(self, http):
        self.made += 1
        return http.ask("POST", "/v1/sandboxes/bench/session/create", {"session": f"s{self.made}"})["session"]

    def drop_session(self, http, session):
        http.ask("POST", "/v1/sandboxes/bench/session/delete", {"session": session})

    def memory_roots(self):
        return [self.daemon.process.pid]


class Frames:
    """Cloche's own carrier: that of a client library."""

    name = "cloche, frames"

    def __init__(self, daemon):
        self.daemon = daemon

    def connect(self):
        return Buffered(self.daemon)

    def nothing(self, frames):
        frames.call("languages")

    def execute(self, frames, session, command, sandbox="bench"):
        answer = frames.call("exec", sandbox=sandbox, session=session, command=command)
        expect(answer["exitCode"] == 0, answer)
        return answer["stdout"]

    def stream(self, frames, session, command):
        frames.told.clear()
        begun, first = time.perf_counter(), None
        number = frames.ask("exec", sandbox="bench", session=session, command=command, stream=True)
        while number not in frames.answers:
            frames.turn()
            if first is None and frames.told:
                first = (time.perf_counter() - begun) * 1e3
        expect(frames.wait(number)["exitCode"] == 0, command)
        return first

    def start(self, frames, session, command):
        expect(frames.call("process.start", sandbox="bench", session=session, command=command)["status"] == "running", command)

    def session(self, frames):
        return frames.call("session.create", sandbox="bench")["session"]

    def drop_session(self, frames, session):
        frames.call("session.delete", sandbox="bench", session=session)


class Buffered(rpc.Frames):
    """The tests' client, but fast with long attachments."""

    def __init__(self, daemon):
        sock = daemon.connect()
        self.file = sock.makefile("rb", 1 << 20)
        super().__init__(sock)

    def receive(self):
        whole = self.exactly(int.from_bytes(self.exactly(4), "little"))
        text = int.from_bytes(whole[:4], "little")
        return json.loads(whole[4:4 + text]), whole[4 + text:]

    def exactly(self, size):
        data = self.file.read(size)
        if len(data) < size:
            raise rpc.Gone()
        return data

    def close(self):
        self.file.close()
        super().close()


class Upstream:
    name = "upstream"

    def __init__(self, server):
        self.server, self.made = server, 0

    def connect(self):
        return Http(self.server.port)

    def nothing(self, http):
        http.ask("GET", "/api/ping")

    def execute(self, http, session, command):
        answer = http.ask("POST", "/api/execute", {"id": session, "command": command})
        expect(answer["exitCode"] == 0, answer)
        return answer["stdout"]

    def stream(self, http, session, command):
        first, text = http.stream("/api/execute/stream", {"id": session, "command": command}, b'"type":"stdout"')
        expect(b'"type":"complete"' in text and b'"exitCode":0' in text, text)
        return first

    def start(self, http, session, command):
        expect(http.ask("POST", "/api/process/start", {"command": command, "sessionId": session})["process"]["status"] == "running", command)

    def session(self, http):
        self.made += 1
        return http.ask("POST", "/api/session/create", {"id": f"s{self.made}", "cwd": self.server.directory})["id"]

    def drop_session(self, http, session):
        """It cannot be deleted; it stays until the server ends."""

    def memory_roots(self):
        return [self.server.process.pid]
