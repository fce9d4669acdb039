"""Shared by tests of sandboxes over the daemon: WebSockets of text, bodies in pieces, and a
scriptable server inside of a sandbox."""
import base64
import json
import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import DAEMON, Gone, PATIENCE


IS_SANITIZED = b"__asan_init" in open(DAEMON, "rb").read()  # then freed memory is kept, and the figures mean nothing


class Socket:
    """A WebSocket as it is: messages of text and bytes."""

    def __init__(self, sock, path, token=None, headers=None, host="localhost"):
        self.http = Http(sock, token, host)
        key = base64.b64encode(os.urandom(16)).decode()
        self.status = self.http.begin("GET", path, headers={"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
                                                            "Sec-WebSocket-Version": "13", **(headers or {})})
        self.headers, self.closed = self.http.headers, None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.http.close()

    def send(self, data):
        head = 0x81 if isinstance(data, str) else 0x82
        data = data.encode() if isinstance(data, str) else data
        size, key = len(data), os.urandom(4)
        length = bytes([0x80 | size]) if size < 126 else struct.pack(">BH", 0xfe, size) if size < 65536 else struct.pack(">BQ", 0xff, size)
        self.http.socket.sendall(bytes([head]) + length + key + bytes(byte ^ key[i % 4] for i, byte in enumerate(data)))

    def say(self, **message):
        self.send(json.dumps(message))

    def receive(self):
        """A text (str) or bytes; None: it was closed in order."""
        while True:
            try:
                head, size = self.http.exactly(2)
                if size == 126:
                    size = struct.unpack(">H", self.http.exactly(2))[0]
                elif size == 127:
                    size = struct.unpack(">Q", self.http.exactly(8))[0]
                data = self.http.exactly(size)
            except Gone:
                return None
            if head & 15 == 8:
                self.closed = struct.unpack(">H", data[:2])[0] if data else 1005
                return None
            if head & 15 in (1, 2):
                return data.decode() if head & 15 == 1 else data

    def messages(self):
        while (message := self.receive()) is not None:
            yield json.loads(message) if isinstance(message, str) else message

    def until(self, text):
        """Bytes of a terminal up to some that are waited for."""
        data = b""
        while text not in data:
            message = self.receive()
            assert message is not None, data
            data += message if isinstance(message, bytes) else b""
        return data


def read_events(http):
    """Pairs of name and data of a stream of events; ("", None) for a comment."""
    text = ""
    for chunk in http.chunks():
        text += chunk.decode()
        while "\n\n" in text:
            event, text = text.split("\n\n", 1)
            if event.startswith(":"):
                yield "", None
                continue
            name, data = event.split("\n", 1)
            yield name[7:], json.loads(data[6:])


def read_raw(http):
    """The body as bytes, for any type."""
    if http.headers.get("transfer-encoding") == "chunked":
        return b"".join(http.chunks())
    size = int(http.headers.get("content-length", 0))
    parts, http.buffer = [http.buffer[:size]], http.buffer[size:]
    size -= len(parts[0])
    while size > 0:
        parts.append(http.socket.recv(min(size, 1 << 20)))
        if not parts[-1]:
            raise Gone()
        size -= len(parts[-1])
    return b"".join(parts)


def put(http, path, data, chunk=None):
    """The status and the answer; with chunk: in chunks of that size."""
    head = {"Host": http.host, "Content-Type": "application/octet-stream"}
    if http.token:
        head["Authorization"] = "Bearer " + http.token
    head.update({"Transfer-Encoding": "chunked"} if chunk else {"Content-Length": str(len(data))})
    http.send_head("PUT", path, head)
    try:
        if chunk:
            for at in range(0, len(data), chunk):
                piece = data[at:at + chunk]
                http.socket.sendall(b"%x\r\n" % len(piece) + piece + b"\r\n")
            http.socket.sendall(b"0\r\n\r\n")
        else:
            http.socket.sendall(data)
    except ConnectionError:
        pass  # it was refused in the middle; why is there to be read
    status = http.read_head()
    return status, http.read_body()


def wait_for(what, seconds=20):
    """Longer and longer pauses: some questions cost more than the answer's delay."""
    until, pause = time.monotonic() + seconds * PATIENCE, 0.03
    while not what():
        assert time.monotonic() < until, "it does not come"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)


# Responds to a path with the bytes given at start-up, else with the request, as JSON.
SERVER = r"""
import base64, json, socket, sys, threading
answers = {path: base64.b64decode(text) for path, text in json.loads(sys.argv[2]).items()}
def serve(sock):
    data = b""
    while b"\r\n\r\n" not in data:
        part = sock.recv(65536)
        if not part:
            return
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").split("\r\n")
    verb, target, _ = lines[0].split(" ", 2)
    names = [line.split(":", 1)[0].lower() for line in lines[1:]]
    values = {line.split(":", 1)[0].lower(): line.split(":", 1)[1].strip() for line in lines[1:]}
    if target.split("?")[0] in answers:
        sock.sendall(answers[target.split("?")[0]])
        if target.startswith("/open"):
            while True:
                data = sock.recv(65536)
                if not data:
                    break
                sock.sendall(data)
        sock.close()
        return
    length = int(values.get("content-length", 0))
    count = 0
    if "chunked" in values.get("transfer-encoding", ""):
        while not body.endswith(b"0\r\n\r\n"):
            body += sock.recv(65536)
        raw, body = body, b""
        while raw:
            size, raw = raw.split(b"\r\n", 1)
            body, raw = body + raw[:int(size, 16)], raw[int(size, 16) + 2:]
        count = len(body)
    else:
        count = len(body)
        while count < length:
            part = sock.recv(1 << 20)
            if not part:
                break
            count += len(part)
    text = json.dumps({"line": lines[0], "names": names, "headers": values, "bytes": count, "body": body[:1000].decode("latin-1")}).encode()
    if target.startswith("/big"):
        text = b"x" * int(target.split("=")[1])
    sock.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(text) + (b"" if verb == "HEAD" else text))
    sock.close()
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    sock, _ = listener.accept()
    threading.Thread(target=serve, args=(sock,), daemon=True).start()
"""


def serve_in(frames, sandbox, port=8080, answers=None):
    """Start the server; answers: path to bytes."""
    frames.call("file.write", sandbox=sandbox, path="/tmp/server.py", content=SERVER)
    coded = json.dumps({path: base64.b64encode(data).decode() for path, data in (answers or {}).items()})
    frames.call("file.write", sandbox=sandbox, path="/tmp/answers", content=coded)
    started = frames.call("process.start", sandbox=sandbox, command=f'exec /usr/bin/python3 /tmp/server.py {port} "$(cat /tmp/answers)"')
    frames.call("port.wait", sandbox=sandbox, port=port, timeoutMs=20000)
    return started
