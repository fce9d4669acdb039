"""The container API on the wire: details that the genuine clients hide."""
import base64
import json
import os
import socket
import struct
import sys
import threading
import time
from contextlib import contextmanager

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "daemon"))
from http_client import Http, WebSocket
from rpc import Daemon, Gone, PATIENCE

BASE = "/v1/sandboxes/wire/container"


def of_events(http):
    """The events of a stream as it comes; comments are passed over."""
    text = b""
    for chunk in http.chunks():
        text += chunk
        while b"\n\n" in text:
            event, text = text.split(b"\n\n", 1)
            if not event.startswith(b":"):
                assert event.startswith(b"data: "), event
                yield json.loads(event[6:])


@contextmanager
def served(*options, **settings):
    with Daemon(*options, **settings) as daemon:
        with Http(daemon.connect()) as http:
            yield daemon, http
        assert daemon.stop() == 0, daemon.log_text()


def test_paths_and_verbs():
    with served() as (_, http):
        status, text = http.get(BASE + "/")
        assert status == 200 and "Cloche" in text
        assert http.get(BASE)[0] == 200
        assert http.get(BASE + "/api/nothing") == (404, "Not Found")
        assert http.get(BASE + "/api/process/a/b") == (404, "Not Found")
        assert http.get(BASE + "/api/process/") == (404, "Not Found")
        status, error = http.get(BASE + "/api/execute")
        assert status == 405 and error["code"] == "METHOD_NOT_ALLOWED" and error["error"], error
        status = http.begin("OPTIONS", BASE + "/api/execute")
        assert (status, http.read_body()) == (200, "")
        assert http.headers["access-control-allow-origin"] == "*" and "DELETE" in http.headers["access-control-allow-methods"]
        assert http.get(BASE + "/api/ping")[1]["message"] == "pong"
        assert http.headers["access-control-allow-origin"] == "*"
        assert http.get(BASE + "/health")[1]["status"] == "healthy"
        for verb, path, code in (("GET", "/rpc", "CONTAINER_UNAVAILABLE"), ("POST", "/api/backup/upload-parts", "NOT_IMPLEMENTED")):
            status, error = http.request(verb, BASE + path, {} if verb == "POST" else None)
            assert status == 501 and error["code"] == code, (path, error)


def test_bad_requests():
    with served() as (_, http):
        for body, expected in ((b"{", "Invalid JSON"), (b"[]", "Session ID and command are required"), (b"{}", "Session ID and command are required"),
                               (b'{"command": 7}', "Session ID and command are required"), (b'{"command": " \\n"}', "Session ID and command are required"),
                               (b'{"command": "true", "env": {"A": 1}}', "'env' must be an object of strings"),
                               (b'{"command": "true", "timeoutMs": -1}', "'timeoutMs' must be a whole number, 0 or more"),
                               (b'{"command": "true", "cwd": []}', "'cwd' must be a string")):
            status, error = http.request("POST", BASE + "/api/execute", body)
            assert status == 400 and error["error"].startswith(expected), (body, error)
            assert error["message"] and error["httpStatus"] == 400 and error["timestamp"], error
        for path, body, expected in (("/api/read", {}, "Path is required and must be a string"), ("/api/write", {"path": "/tmp/x"}, "Path is required"),
                                     ("/api/read", {"path": "/tmp/x", "encoding": "latin1"}, "'encoding' must be"),
                                     ("/api/expose-port", {}, "Port is required and must be a number"),
                                     ("/api/expose-port", {"port": 0}, "Port must be between 1 and 65535"),
                                     ("/api/port-watch", {"port": 8000, "mode": "udp"}, "'mode' must be"),
                                     ("/api/process/start", {"command": "true", "options": {"env": []}}, "'options.env' must be"),
                                     ("/api/watch", {"path": "/tmp", "include": ["a"], "exclude": ["b"]}, "'include' and 'exclude'"),
                                     ("/api/session/create", {"id": ""}, "Session ID is required"),
                                     ("/api/session/create", {"id": "x", "cwd": "relative"}, "Failed to create session")):
            status, error = http.post(BASE + path, **body)
            assert status == 400 and error["error"].startswith(expected), (path, body, error)
        assert http.post("/v1/sandboxes/-bad-/container/api/execute", command="true")[0] in (400, 404)


def test_bad_requests_of_the_interpreter():
    with served() as (_, http):
        for path, body, status, expected in (("execute/code", {}, 400, "Code is required"), ("execute/code", {"code": 1}, 400, "Code is required"),
                                             ("execute/code", {"code": "1", "env_vars": {"A": "1"}}, 400, "'env_vars' are given when"),
                                             ("execute/code", {"code": "1", "timeout_ms": -1}, 400, "'timeout_ms' must be"),
                                             ("execute/code", {"code": "1", "context_id": "none"}, 404, "Context none not found"),
                                             ("execute/code", {"code": "1", "language": "cobol"}, 400, "Failed to execute code"),
                                             ("contexts", {"env_vars": []}, 400, "'env_vars' must be"), ("contexts", {"cwd": 7}, 400, "'cwd' must be")):
            found, error = http.post(BASE + "/api/" + path, **body)
            assert found == status and error["error"].startswith(expected), (path, body, error)
        status, error = http.request("DELETE", BASE + "/api/contexts/none")
        assert status == 404 and error["code"] == "CONTEXT_NOT_FOUND" and error["context"] == {"contextId": "none"}, error
        assert http.get(BASE + "/api/contexts")[1]["contexts"] == []


def test_texts_of_odd_characters():
    with served() as (_, http):
        for path, body in (("execute", {"command": "echo a\0b"}), ("execute", {"command": "true", "sessionId": "a\0b"}), ("read", {"path": "/tmp/\0"})):
            status, error = http.post(f"{BASE}/api/{path}", **body)
            assert status == 400 and "NUL" in error["message"], error
        status, error = http.post(BASE + "/api/read", path="/workspace" + ("/" + "\u20ac" * 40) * 6)
        assert status == 404 and error["code"] == "FILE_NOT_FOUND" and error["message"], "a message that is cut in a character is one all the same"
        status, result = http.post(BASE + "/api/write", path="/workspace/nul", content="a\0b", encoding="utf-8")
        assert http.post(BASE + "/api/read", path="/workspace/nul")[1]["content"] == "a\0b"
        result = http.post(BASE + "/api/execute", command="touch $'/workspace/\\377\\303'; printf 'a\\0b'")[1]
        assert result["stdout"] == "a\0b", result
        names = [file["name"] for file in http.post(BASE + "/api/list-files", path="/workspace")[1]["files"]]
        assert "\ufffd\ufffd" in names, names


def test_null_is_absent():
    with served() as (_, http):
        status, result = http.post(BASE + "/api/execute", command="echo ok", sessionId=None, timeoutMs=None, env={"A": None}, cwd=None)
        assert status == 200 and result["stdout"] == "ok\n", result


def test_who_may_ask():
    with served(tcp=True) as (daemon, _):
        with Http(daemon.connect_tcp()) as stranger:
            assert stranger.get(BASE + "/api/ping")[0] == 401
        with Http(daemon.connect_tcp(), daemon.token) as http:
            assert http.get(BASE + "/api/ping")[0] == 200
            assert http.get(BASE + "/api/ping", Origin="https://evil.example")[0] == 403
            assert http.get(BASE + "/api/ping", Host="evil.example")[0] == 403


@contextmanager
def listener(name, *options, tcp=True, ahead=False):
    """ahead: contexts are set up before the first request, as they are without --contexts, which costs 1.3 s of processor time."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with Daemon("--container-listen", f"127.0.0.1:{port}={name}", *(() if ahead else ("--contexts", "")), *options, tcp=tcp) as daemon:
        with Http(socket.create_connection(("127.0.0.1", port), 40)) as http:
            yield daemon, http


def test_a_port_of_its_own():
    with listener("mine") as (daemon, http):
        assert http.post("/api/execute", command="echo $((6 * 7)) > /workspace/f")[0] == 200
        assert http.get("/v1/sandboxes") == (404, "Not Found"), "nothing else is served there"
        assert http.get("/health")[1]["status"] == "healthy"
        assert http.get("/api/ping", Origin="https://evil.example")[0] == 403
        assert http.get("/api/ping", Host="evil.example")[0] == 403
        with Http(daemon.connect_tcp(), daemon.token) as owner:
            assert owner.post("/v1/sandboxes/mine/container/api/read", path="/workspace/f")[1]["content"] == "42\n"


def test_ages_are_told_apart():
    with served() as (_, http):
        missing = "/workspace/missing"
        for path, old, new in (("read", {"encoding": "utf-8", "path": missing}, {"path": missing}),
                               ("mkdir", {"path": missing + "/x", "recursive": False, "sessionId": "s"}, {"path": missing + "/x", "sessionId": "s", "recursive": False}),
                               ("rename", {"newPath": "/tmp/x", "oldPath": missing}, {"oldPath": missing, "newPath": "/tmp/x"}),
                               ("move", {"destinationPath": "/tmp/x", "sourcePath": missing}, {"sourcePath": missing, "destinationPath": "/tmp/x"}),
                               ("list-files", {"path": missing, "options": {}, "sessionId": "s"}, {"path": missing, "sessionId": "s", "options": {}}),
                               ("delete", {"path": missing}, None)):
            status, result = http.post(f"{BASE}/api/{path}", **old)
            assert status == 200 and result["success"] is False and result["exitCode"] == 1, (path, result)
            status, error = http.post(f"{BASE}/api/{path}", {"X-Sandbox-Id": "x"}, **old)
            assert status in (404, 500) and error["code"] in ("FILE_NOT_FOUND", "FILESYSTEM_ERROR"), (path, error)
            if new:
                status, error = http.post(f"{BASE}/api/{path}", **new)
                assert status in (404, 500) and error["code"] in ("FILE_NOT_FOUND", "FILESYSTEM_ERROR"), (path, error)
        assert http.post(BASE + "/api/session/create", id="s2")[1]["success"] is True
        assert http.post(BASE + "/api/session/create", id="s2")[0] == 200
        assert http.post(BASE + "/api/session/create", {"X-Sandbox-Id": "x"}, id="s2")[0] == 409
        status, listed = http.get(BASE + "/api/session/list")
        assert listed["count"] == len(listed["sessions"]) and "s2" in listed["sessions"]
        status, error = http.post(BASE + "/api/execute", id="none", command="true")
        assert status == 404 and error["error"] == "Session 'none' not found" and "s2" in error["availableSessions"], error


def test_streams_have_no_names_of_events():
    with served() as (_, http):
        assert http.begin("POST", BASE + "/api/execute/stream", {"command": "echo a; echo b >&2"}) == 200
        assert http.headers["content-type"] == "text/event-stream"
        events = list(of_events(http))
        assert [event["type"] for event in events].count("start") == 1
        assert events[-1]["type"] == "complete" and events[-1]["exitCode"] == 0
        assert {event["type"] for event in events} == {"start", "stdout", "stderr", "complete"}


def runs(http, word):
    """True if a program of that name runs in the sandbox."""
    status, result = http.post(BASE + "/api/execute", command=f"ps ax -o args | grep '^[{word[0]}]{word[1:]}'; true")
    assert status == 200 and result["stderr"] == "", result
    return word in result["stdout"]


def ends(http, word):
    until = time.monotonic() + 30 * PATIENCE
    while runs(http, word):
        assert time.monotonic() < until, "it goes on"
        time.sleep(0.1)


def test_a_closed_stream_ends_its_command():
    with served() as (daemon, http):
        with Http(daemon.connect()) as other:
            assert other.begin("POST", BASE + "/api/execute/stream", {"command": "echo up; exec -a marked sleep 1000"}) == 200
            for event in of_events(other):
                if event["type"] == "stdout":
                    break
            while not runs(http, "marked"):  # it becomes it behind the word
                pass
        ends(http, "marked")


def test_a_slow_reader_holds_only_his_stream():
    with served() as (daemon, http):
        with Http(daemon.connect()) as slow:
            assert slow.begin("POST", BASE + "/api/execute/stream", {"command": "head -c 60000000 /dev/zero | tr '\\0' x; touch /workspace/written"}) == 200
            wait = "until [ -e /workspace/written ]; do sleep 0.01; done; echo next"  # now all of it is in the engine
            before = daemon.peak_memory(is_new=True)
            assert http.post(BASE + "/api/execute", command=wait)[1]["stdout"] == "next\n"
            size = sum(len(event["data"]) for event in of_events(slow) if event["type"] == "stdout")
            assert size == 60000000
        with open(f"/proc/{daemon.process.pid}/maps") as maps:
            if "libasan" not in maps.read():  # it keeps freed memory
                assert daemon.peak_memory() - before < 10 << 20, (daemon.peak_memory(), before)


def test_memory_of_large_answers_is_returned():
    with served() as (daemon, http):
        http.post(BASE + "/api/write", path="/workspace/large", content="x" * 20_000_000)
        assert len(http.post(BASE + "/api/read", path="/workspace/large")[1]["content"]) == 20_000_000
        with open(f"/proc/{daemon.engine_pid()}/maps") as maps:
            if "libasan" in maps.read():  # it keeps freed memory
                return
        until = time.monotonic() + 30 * PATIENCE
        while daemon.memory() > 16 << 20:
            assert time.monotonic() < until, daemon.memory()
            time.sleep(0.1)


def test_processes_by_odd_names():
    with served() as (_, http):
        status, started = http.post(BASE + "/api/process/start", command="echo hi", processId="a b%c")
        assert status == 200 and started["process"]["id"] == "a b%c"
        assert http.get(BASE + "/api/process/a%20b%25c")[1]["process"]["id"] == "a b%c"
        for bad in ("a%2", "a%zz", "a%00b", "%ff", "%e2%82"):
            assert http.get(BASE + "/api/process/" + bad) == (404, "Not Found")
            assert http.get(BASE + "/api/process/list?session=" + bad)[0] == 400
        assert http.get(BASE + "/api/process/list?session=none")[0] == 404
        assert http.get(BASE + "/api/process/list?other=1&session=default")[1]["count"] == 1


def test_proxied_requests():
    code = "import http.server as h\nclass H(h.BaseHTTPRequestHandler):\n    def do_POST(s):\n        b = s.rfile.read(int(s.headers['content-length']))\n" \
           "        s.send_response(201); s.send_header('X-Mine', s.headers['X-Sent']); s.send_header('Content-Length', str(len(b))); s.end_headers(); s.wfile.write(b)\n" \
           "h.HTTPServer(('127.0.0.1', 8500), H).serve_forever()\n"
    with served() as (_, http):
        http.post(BASE + "/api/write", path="/workspace/s.py", content=code)
        http.post(BASE + "/api/process/start", command="exec python3 /workspace/s.py", processId="web")
        http.request("POST", BASE + "/api/port-watch", {"port": 8500, "mode": "tcp"})
        assert http.request("POST", BASE + "/proxy/8500/x", b"body")[0] == 404, "it is not exposed"
        http.post(BASE + "/api/expose-port", port=8500)
        status = http.begin("POST", BASE + "/proxy/8500/x", b"body", {"X-Sent": "1"})
        assert (status, http.headers["x-mine"], http.read_body()) == (201, "1", "body")
        for path in ("/proxy/", "/proxy/x/", "/proxy/0/", "/proxy/99999/", "/proxy/8500x/"):
            assert http.get(BASE + path)[0] in (400, 404), path


def test_a_proxied_websocket():
    code = "import socket\ns = socket.create_server(('127.0.0.1', 8501))\nwhile True:\n    c, _ = s.accept()\n    head = b''\n    while b'\\r\\n\\r\\n' not in head and (data := c.recv(4096)): head += data\n    if not head: continue\n" \
           "    c.sendall(b'HTTP/1.1 101 Switching Protocols\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\nSec-WebSocket-Accept: x\\r\\n\\r\\n' + head.split(b' ')[1])\n" \
           "    while data := c.recv(65536): c.sendall(data)\n    c.close()\n"
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(), "Sec-WebSocket-Version": "13"}
    with served() as (daemon, http):
        http.post(BASE + "/api/write", path="/workspace/s.py", content=code)
        http.post(BASE + "/api/process/start", command="exec python3 /workspace/s.py", processId="socket")
        http.request("POST", BASE + "/api/port-watch", {"port": 8501, "mode": "tcp"})
        with Http(daemon.connect()) as closed:
            assert closed.begin("GET", BASE + "/proxy/8501/chat", headers=upgrade) == 404, "it is not exposed"
        http.post(BASE + "/api/expose-port", port=8501)
        with Http(daemon.connect()) as ws:
            assert ws.begin("GET", BASE + "/proxy/8501/chat?x=1", headers=upgrade) == 101
            assert ws.exactly(9) == b"/chat?x=1"
            for piece in (b"a", b"\x00\xff", os.urandom(1 << 20)):
                threading.Thread(target=ws.socket.sendall, args=(piece,)).start()
                assert ws.exactly(len(piece)) == piece
        assert http.get(BASE + "/api/ping")[0] == 200


class Texts(WebSocket):
    """Text messages of JSON at BASE/ws."""

    def __init__(self, sock, base=BASE):
        http = Http(sock)
        key = base64.b64encode(os.urandom(16)).decode()
        assert http.begin("GET", base + "/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": key, "Sec-WebSocket-Version": "13"}) == 101
        self.socket, self.raw, self.pongs, self.buffer = sock, http.buffer, [], b""

    def say(self, message):
        self.send_raw(0x81, message if isinstance(message, bytes) else json.dumps(message).encode())

    def hear(self):
        head, size = self.raw_exactly(2)
        size = struct.unpack(">H", self.raw_exactly(2))[0] if size == 126 else struct.unpack(">Q", self.raw_exactly(8))[0] if size == 127 else size
        data = self.raw_exactly(size)
        if head & 15 == 8:
            raise Gone()
        return json.loads(data)

    def request(self, number, method, path, **body):
        self.say({"type": "request", "id": number, "method": method, "path": path, **({"body": body} if body else {})})


def test_requests_over_a_websocket():
    with served() as (daemon, http), Texts(daemon.connect()) as ws:
        ws.request("1", "POST", "/api/execute", command="echo ws")
        answer = ws.hear()
        assert (answer["type"], answer["id"], answer["status"], answer["done"], answer["body"]["stdout"]) == ("response", "1", 200, True, "ws\n"), answer
        ws.request("2", "GET", "/api/process/list?session=none")
        assert ws.hear()["status"] == 404
        ws.request("3", "GET", "/api/nothing")
        assert ws.hear()["body"] == "Not Found"
        ws.request("4", "GET", "/ws/pty")
        assert ws.hear()["status"] == 400
        ws.request("5", "GET", "/proxy/8000/")
        assert ws.hear()["status"] == 400
        ws.request("6", "POST", "/api/execute/stream", command="echo up; exec -a socketed sleep 1000")
        assert json.loads(ws.hear()["data"])["type"] == "start"
        told = ws.hear()
        assert (told["type"], told["id"], json.loads(told["data"])["data"]) == ("stream", "6", "up\n")
        ws.request("6", "GET", "/api/ping")
        assert ws.hear()["type"] == "error", "that id is under way"
        while not runs(http, "socketed"):
            pass
        ws.say({"type": "cancel", "id": "6"})
        ends(http, "socketed")
        ws.request("6", "GET", "/api/ping")
        assert ws.hear()["status"] == 200
        for bad in (b"{", b"[]", b"{}", b'{"type": "request"}', b'{"type": "other", "id": "x"}', b'{"type": "request", "id": "x", "method": 1, "path": "/"}'):
            ws.say(bad)
            assert ws.hear()["type"] == "error", bad
        ws.request("7", "GET", "/api/ping")
        assert ws.hear()["id"] == "7"
        ws.send_raw(0x82, b"binary")
        try:
            ws.hear()
            raise AssertionError("binary was taken")
        except Gone:
            pass


def test_bodies_over_a_websocket():
    with served() as (daemon, http), Texts(daemon.connect()) as ws:
        content = "x\0\"\u20ac\U0001f600" * 300_000
        ws.say({"type": "request", "id": "1", "method": "POST", "path": "/api/write", "body": {"path": "/workspace/large", "content": content}})
        assert ws.hear()["status"] == 200
        ws.say({"type": "request", "id": "2", "method": "POST", "path": "/api/read", "body": {"path": "/workspace/large"}})
        answer = ws.hear()
        assert (answer["type"], answer["id"], answer["done"], answer["body"]["content"]) == ("response", "2", True, content)
        for number, (body, words) in enumerate((([], "must be a JSON object"), ("text", "must be a JSON object"), (None, "Invalid JSON"), ({}, "Path is required"), ({"path": None, "content": ""}, "Path is required"))):
            ws.say({"type": "request", "id": f"b{number}", "method": "POST", "path": "/api/write", "body": body})
            answer = ws.hear()
            assert answer["status"] == 400 and words in answer["body"]["error"] + answer["body"]["message"], (body, answer)
        ws.say({"type": "request", "id": "g", "method": "GET", "path": "/api/ping", "body": {"id": "none", "path": "x"}})
        assert ws.hear()["status"] == 200


def test_a_message_over_the_limit():
    """The client is still sending it when it is refused, and reads why afterwards."""
    with listener("mine", "--max-request", "1") as (_, http):
        for size in (3 << 20, 6 << 20):
            with socket.create_connection(http.socket.getpeername(), 40) as sock, Texts(sock, "") as ws:
                ws.say(b"x" * size)
                head, length = ws.raw_exactly(2)
                assert (head, struct.unpack(">H", ws.raw_exactly(length)[:2])[0]) == (0x88, 1009)
        with socket.create_connection(http.socket.getpeername(), 40) as sock, Texts(sock, "") as ws:
            ws.request("1", "GET", "/api/ping", more="x" * 900_000)
            assert ws.hear()["status"] == 200


def test_a_websocket_that_goes_takes_its_commands_along():
    with served() as (daemon, http):
        with Texts(daemon.connect()) as ws:
            ws.request("1", "POST", "/api/execute/stream", command="echo up; exec -a orphaned sleep 1000")
            while not runs(http, "orphaned"):
                pass
        ends(http, "orphaned")
