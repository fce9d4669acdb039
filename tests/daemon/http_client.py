"""HTTP and WebSockets for the tests: nothing is hidden, so that anything can be sent. Standard library only."""
import base64
import hashlib
import json
import os
import struct
import subprocess

from rpc import Frames, Gone, answers, frame


def make_certificate(directory, kind="ec"):
    key, certificate = os.path.join(directory, "key.pem"), os.path.join(directory, "certificate.pem")
    curve = ["-pkeyopt", "ec_paramgen_curve:prime256v1"] if kind == "ec" else []
    subprocess.run(["openssl", "req", "-x509", "-newkey", kind, *curve, "-nodes", "-keyout", key, "-out", certificate,
                    "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True,
                   capture_output=True, timeout=30)
    return key, certificate


class Http:
    """One connection, kept alive."""

    def __init__(self, sock, token=None, host="localhost"):
        self.socket, self.token, self.host, self.buffer = sock, token, host, b""

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def more(self):
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionError:
            data = b""
        if not data:
            raise Gone()
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        text, self.buffer = self.buffer.split(mark, 1)
        return text

    def exactly(self, size):
        while len(self.buffer) < size:
            self.more()
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        return data

    def send_head(self, verb, path, headers):
        lines = [f"{verb} {path} HTTP/1.1"] + [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join(lines).encode() + b"\r\n\r\n")

    def read_head(self):
        lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        self.headers = {name.lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        status = int(lines[0].split()[1])
        return self.read_head() if status == 100 else status

    def chunks(self):
        while True:
            size = int(self.until(b"\r\n").split(b";")[0], 16)
            data = self.exactly(size)
            self.exactly(2)
            if size == 0:
                return
            yield data

    def read_body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            data = b"".join(self.chunks())
        else:
            data = self.exactly(int(self.headers.get("content-length", 0)))
        if self.headers.get("content-type") == "application/json":
            return json.loads(data)
        return data.decode()

    def begin(self, verb, path, body=None, headers=None, accept=None):
        head = {"Host": self.host}
        if self.token:
            head["Authorization"] = "Bearer " + self.token
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            head.update({"Content-Type": "application/json", "Content-Length": str(len(data))})
        if accept:
            head["Accept"] = accept
        head.update(headers or {})
        self.send_head(verb, path, {name: value for name, value in head.items() if value is not None})
        try:
            self.socket.sendall(data)
        except ConnectionError:
            pass  # it was refused for its head; why is there to be read
        return self.read_head()

    def request(self, verb, path, body=None, headers=None):
        status = self.begin(verb, path, body, headers)
        answer = self.read_body()
        answers.check_http(verb, path, status, answer)
        return status, answer

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, path, headers=None, /, **body):
        return self.request("POST", path, body, headers)


def read_events(http):
    """Pairs of name and data of a stream of events, as it comes."""
    text = ""
    for chunk in http.chunks():
        text += chunk.decode()
        while "\n\n" in text:
            event, text = text.split("\n\n", 1)
            name, data = event.split("\n", 1)
            assert name.startswith("event: ") and data.startswith("data: "), event
            yield name[7:], json.loads(data[6:])


class WebSocket(Frames):
    """Frames in the messages of a WebSocket."""

    def __init__(self, sock, host=None, hello=True, token=None, headers=None, hello_token=None):
        http = Http(sock, token)
        key = base64.b64encode(os.urandom(16)).decode()
        status = http.begin("GET", "/v1/rpc", headers={"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key,
                                                       "Sec-WebSocket-Version": "13", **(headers or {})})
        assert status == 101, (status, http.headers)
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert http.headers["sec-websocket-accept"] == accept
        self.raw, self.pongs = http.buffer, []
        super().__init__(sock, host, greeting=False, hello=hello, token=hello_token)

    def send_raw(self, head, data, mask=True):
        size = len(data)
        bit = 0x80 if mask else 0
        length = bytes([bit | size]) if size < 126 else struct.pack(">BH", bit | 126, size) if size < 65536 else struct.pack(">BQ", bit | 127, size)
        key = os.urandom(4) if mask else b""
        if mask:
            whole = (key * (size // 4 + 1))[:size]
            data = (int.from_bytes(data, "big") ^ int.from_bytes(whole, "big")).to_bytes(size, "big")
        self.socket.sendall(bytes([head]) + length + key + data)

    def send(self, message, attachments=b""):
        self.send_raw(0x82, frame(message, attachments))

    def send_split(self, message, size):
        data = frame(message)
        parts = [data[at:at + size] for at in range(0, len(data), size)]
        for i, part in enumerate(parts):
            self.send_raw((0x80 if i == len(parts) - 1 else 0) | (0 if i else 2), part)

    def ping(self, data):
        self.send_raw(0x89, data)

    def raw_exactly(self, size):
        while len(self.raw) < size:
            data = self.socket.recv(1 << 16)
            if not data:
                raise Gone()
            self.raw += data
        data, self.raw = self.raw[:size], self.raw[size:]
        return data

    def receive_bytes(self):
        try:
            head, size = self.raw_exactly(2)
            if size == 126:
                size = struct.unpack(">H", self.raw_exactly(2))[0]
            elif size == 127:
                size = struct.unpack(">Q", self.raw_exactly(8))[0]
            data = self.raw_exactly(size)
        except ConnectionError:
            raise Gone() from None
        if head & 15 == 2:
            self.buffer += data
        elif head & 15 == 10:
            self.pongs.append(data)
        elif head & 15 == 8:
            raise Gone()
