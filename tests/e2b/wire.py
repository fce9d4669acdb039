"""The E2B API on the wire: details that the genuine clients hide, and requests that nobody may send."""
import base64
import concurrent.futures
import datetime
import gzip
import hashlib
import http.server
import io
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
from urllib.parse import quote, urlencode

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
from genuine import BUILD, free_port, image_store, served
from clocks import Clock
from cloche import cli, equal, wait_for
from rpc import PATIENCE, Frames


class Client:
    """Requests as a client sends them, each on a connection of its own."""

    def __init__(self, env):
        self.address = env["E2B_API_URL"].removeprefix("http://")
        self.key = env["E2B_API_KEY"]
        self.host = self.address

    def send(self, verb, path, headers, body=b""):
        """Status, headers, body; of a stream that broke off the bytes that came."""
        host, _, port = self.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as sock:
            lines = [f"{verb} {path} HTTP/1.1", "Connection: close", f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in {"Host": self.host, **headers}.items())]
            sock.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + body)
            text = b""
            while piece := sock.recv(65536):
                text += piece
        head, _, rest = text.partition(b"\r\n\r\n")
        names = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:])
        if names.get("transfer-encoding") == "chunked":
            whole, rest = rest, b""
            while whole:
                size, _, whole = whole.partition(b"\r\n")
                rest, whole = rest + whole[:int(size, 16)], whole[int(size, 16) + 2:]
        return int(head.split()[1]), names, rest

    def control(self, verb, path, body=None, key=None):
        status, headers, text = self.send(verb, path, {"X-API-KEY": key or self.key}, b"" if body is None else json.dumps(body).encode())
        return status, json.loads(text) if text else None

    def data(self, verb, path, box, body=b"", port=49983, token="", **headers):
        own = {"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": port, "X-Access-Token": token or box["envdAccessToken"], **{name.replace("_", "-"): value for name, value in headers.items()}}
        return self.send(verb, path, {name: value for name, value in own.items() if value is not None}, body)

    def unary(self, method, box, message, **more):
        status, _, text = self.data("POST", method, box, json.dumps(message).encode(), **more)
        return status, json.loads(text)

    def stream(self, method, box, message, **more):
        """The messages, and that of the end; None: the stream broke off."""
        body = json.dumps(message).encode()
        status, _, text = self.data("POST", method, box, struct.pack(">BI", 0, len(body)) + body, **more)
        equal(status, 200)
        messages, end = [], None
        while len(text) >= 5:
            flags, size = struct.unpack(">BI", text[:5])
            if len(text) < 5 + size:
                break  # it broke off within a message
            message, text = json.loads(text[5:5 + size]), text[5 + size:]
            if flags:
                end = message
            else:
                messages.append(message)
        return messages, end

    def box(self, **more):
        status, box = self.control("POST", "/v2/sandboxes", {"templateID": "base", "timeout": 300, **more})
        equal(status, 201)
        return box


def command_line(daemon, env, *words, token="own"):
    """A command of the caller with the token."""
    file = {"CLOCHE_TOKEN_FILE": env["TOKEN_FILE"] if token == "own" else token} if token else {}
    return subprocess.run([os.path.join(BUILD, "cloche"), *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "CLOCHE_SOCKET": daemon.path, **file})


def bash(command):
    return {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": False}


def test_processes_on_the_wire():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        messages, end = client.stream("/process.Process/Start", box, bash("echo out; echo err >&2; exit 3"))
        assert list(messages[0]["event"]) == ["start"] and messages[0]["event"]["start"]["pid"] > 0, messages
        data = [message["event"]["data"] for message in messages[1:-1]]
        equal(b"".join(base64.b64decode(one.get("stdout", "")) for one in data), b"out\n")
        equal(b"".join(base64.b64decode(one.get("stderr", "")) for one in data), b"err\n")
        equal((messages[-1]["event"]["end"], end), ({"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}, {}))
        messages, end = client.stream("/process.Process/Start", box, bash("kill -SEGV $$"))
        equal(messages[-1]["event"]["end"], {"exitCode": -1, "exited": False, "status": "signal: segmentation fault", "error": "signal: segmentation fault"})
        messages, end = client.stream("/process.Process/Start", box, bash("sleep 60"), Connect_Timeout_Ms=200)
        equal(end["error"]["code"], "deadline_exceeded")
        equal(client.stream("/process.Process/Start", box, bash("true"), Connect_Timeout_Ms=10**20, Keepalive_Ping_Interval=10**20)[1], {})  # none
        long = bash("sleep 60")
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            stream = threads.submit(client.stream, "/process.Process/Start", box, {**long, "tag": "long"})
            wait_for(lambda: client.unary("/process.Process/List", box, {})[1]["processes"], "it runs")
            messages, end = client.stream("/process.Process/Connect", box, {"process": {"tag": "long"}}, Connect_Timeout_Ms=100)
            equal((list(messages[0]["event"]), end["error"]["code"]), (["start"], "deadline_exceeded"))
            equal(client.unary("/process.Process/SendSignal", box, {"process": {"tag": "long"}, "signal": "SIGNAL_SIGKILL"})[0], 200)  # it went on
            equal(stream.result()[0][-1]["event"]["end"]["status"], "signal: killed")
        messages, end = client.stream("/process.Process/Start", box, bash("true"), Authorization="Basic " + base64.b64encode(b"root:").decode())
        equal((messages, end["error"]), ([], {"code": "unauthenticated", "message": "invalid username: 'root'"}))
        for name, code in ((b"user", None), (b"", "unauthenticated"), (b"use", "unauthenticated")):  # without a colon
            messages, end = client.stream("/process.Process/Start", box, bash("true"), Authorization="Basic " + base64.b64encode(name).decode())
            equal(end.get("error"), code and {"code": code, "message": f"invalid username: '{name.decode()}'"})
        messages, end = client.stream("/process.Process/Start", box, {"process": {"cmd": "a\0b"}})
        equal((messages, end["error"]["code"]), ([], "invalid_argument"))
        for message, code in (({"process": {"pid": 1}}, "not_found"), ({"process": {"tag": "x"}}, "not_found"), ({}, "not_found")):
            status, error = client.unary("/process.Process/SendSignal", box, {**message, "signal": "SIGNAL_SIGKILL"})
            equal((status, error["code"]), (404, code))


def test_processes_that_ended_take_no_memory():
    with served() as (daemon, env):
        client = Client(env)
        def used_mib():
            with open(f"/proc/{daemon.engine_pid()}/status") as file:
                return next(int(line.split()[1]) >> 10 for line in file if line.startswith("VmRSS"))
        box = client.box()
        for tag in ("x" * 257, {"a": 1}, 1):
            equal(client.stream("/process.Process/Start", box, {**bash("true"), "tag": tag})[1]["error"]["code"], "invalid_argument")
        equal(client.stream("/process.Process/Start", box, {**bash("true"), "tag": "x" * 256})[1], {})
        process = {"process": {"cmd": "/bin/true", "envs": {}, "other": "x" * (4 << 20)}, "stdin": False}
        client.stream("/process.Process/Start", box, process)
        before = used_mib()
        for _ in range(20):
            equal(client.stream("/process.Process/Start", box, process)[1], {})
        assert used_mib() < before + 40, (before, used_mib())


def test_bodies_that_are_no_messages():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        for body in (b"", b"\x01\x00\x00\x00\x02{}", b"\x00\x00\x00\x00\x09{}", b"\x00\xff\xff\xff\xff{}", b"\x00\x00\x00\x00\x02{}\x00", b"{}"):
            status, _, text = client.data("POST", "/process.Process/Start", box, body)
            equal((status, json.loads(text[5:])["error"]["code"]), (200, "invalid_argument"))
        for body in (b"{", b"[]", b'{"a":1,"a":2}', b"[" * 5000):
            status, _, text = client.data("POST", "/filesystem.Filesystem/Stat", box, body)
            equal((status, json.loads(text)["code"]), (400, "invalid_argument"))
            equal(client.send("POST", "/v2/sandboxes", {"X-API-KEY": client.key}, body)[0], 400)
        for message in ({"templateID": "base", "timeout": -1}, {"templateID": "base", "timeout": "1"}, {}, {"templateID": 1}):
            equal(client.control("POST", "/v2/sandboxes", message)[0], 400)
        equal(client.data("POST", "/files?path=x", box, b"x", Content_Type="text/plain")[0], 400)
        equal(client.data("POST", "/files?path=x", box, b"x", Content_Type="multipart/form-data")[0], 400)
        packed = gzip.compress(b"x" * 100000)
        for body, code in ((b"x", 400), (packed[:-1], 400), (packed[:20], 400), (packed + b"x", 400), (packed[:30] + b"xx" + packed[32:], 400), (packed, 200)):
            equal(client.data("POST", "/files?path=x", box, body, Content_Type="application/octet-stream", Content_Encoding="gzip")[0], code)
        equal(client.data("POST", "/files?path=x", box, b"x", Content_Type="application/octet-stream", Content_Encoding="br")[0], 400)
        equal(client.data("POST", "/files?path=empty", box, b"", Content_Type="application/octet-stream")[0], 200)  # the twin
        equal(client.data("GET", "/files?path=empty", box)[::2], (200, b""))


def test_streams_that_are_cut_at_any_byte():
    with served() as (daemon, env):
        client = Client(env)
        box = client.box()
        host, _, port = client.address.rpartition(":")
        message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-c", "echo x >> ~/begun; seq 500"]}, "stdin": False}).encode()
        head = f"POST /process.Process/Start HTTP/1.1\r\nHost: {client.host}\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\nX-Access-Token: {box['envdAccessToken']}\r\nContent-Length: {len(message) + 5}\r\n\r\n".encode()
        request = head + struct.pack(">BI", 0, len(message)) + message
        begun = lambda: client.data("GET", "/files?path=begun", box)
        for size in [*range(0, len(head), 16), *range(len(head) - 4, len(request))]:
            with socket.create_connection((host, int(port)), timeout=60 * PATIENCE) as sock:
                sock.sendall(request[:size])
        equal(begun()[0], 404)  # no part of a request begins a process
        with socket.create_connection((host, int(port)), timeout=60 * PATIENCE) as sock:
            sock.sendall(request)
            whole = b""
            while not whole.endswith(b"0\r\n\r\n"):
                whole += sock.recv(65536)
        cuts = [*range(1, len(whole), max(1, len(whole) // 40))]
        for size in cuts:
            with socket.create_connection((host, int(port)), timeout=60 * PATIENCE) as sock:
                sock.sendall(request)
                sock.recv(size, socket.MSG_WAITALL)
        wait_for(lambda: begun()[2] == b"x\n" * (len(cuts) + 1), "each of them ran")
        wait_for(lambda: client.unary("/process.Process/List", box, {})[1] == {"processes": []}, "and ended")
        assert daemon.process.poll() is None
        messages, end = client.stream("/process.Process/Start", box, bash("echo still"))
        equal((base64.b64decode(messages[1]["event"]["data"]["stdout"]), end), (b"still\n", {}))


def test_nobody_comes_in_without_the_right_secret():
    with served() as (_, env):
        client = Client(env)
        box, other = client.box(), client.box()
        for key in ("e2b_" + "0" * 40, client.key[:-1], client.key + "0", "x"):
            for verb, path in (("GET", "/v2/sandboxes"), ("POST", "/v2/sandboxes"), ("GET", "/sandboxes/" + box["sandboxID"]), ("DELETE", "/sandboxes/" + box["sandboxID"])):
                equal(client.control(verb, path, {} if verb == "POST" else None, key)[0], 401)
        for token in (None, "0" * 40, other["envdAccessToken"], client.key):
            at = {**box, "envdAccessToken": token}
            equal(client.unary("/filesystem.Filesystem/Stat", at, {"path": "/"})[0], 401)
            equal(client.data("GET", "/files?path=/etc/passwd", at)[0], 401)
            equal(client.data("POST", "/execute", at, b'{"code": "1"}', port=49999)[0], 401)
            equal(client.stream("/process.Process/Start", at, bash("true"))[1]["error"]["code"], "unauthenticated")
        equal(client.data("GET", "/files?path=/etc/passwd&signature=v1_x", {**box, "envdAccessToken": None})[0], 401)
        equal(client.data("GET", "/files?path=/etc/passwd", box)[0], 200)  # the twin
        # A name of a file that reads as another signature
        text = f"f:write:x:read:user:{box['envdAccessToken']}"
        signature = quote("v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("="))
        at = {**box, "envdAccessToken": None}
        equal(client.data("POST", f"/files?path=f&username=x:read:user&signature={signature}", at, b"1", Content_Type="application/octet-stream")[0], 401)
        equal(client.data("GET", f"/files?path=f:write:x&username=user&signature={signature}", at)[0], 404)  # the twin
        # A page that a sandbox serves, and that names another one
        page = {"Host": f"49999-{box['sandboxID']}.localhost", "E2b-Sandbox-Port": 49999}
        client.data("POST", "/contexts", other, b"{}", port=49999)
        equal(client.send("GET", "/contexts", {**page, "E2b-Sandbox-Id": other["sandboxID"]})[::2], (200, b"[]"))
        equal(client.send("GET", "/v2/sandboxes", {"X-API-KEY": client.key, "Origin": "https://example.org"})[0], 403)
        client.host = "rebound.example.org"
        equal(client.control("GET", "/v2/sandboxes")[0], 403)
        client.host = f"49983-{box['sandboxID']}.rebound.example.org"
        equal(client.send("GET", "/health", {})[0], 403)
        client.host = f"49983-{box['sandboxID']}.localhost:1"
        equal(client.send("GET", "/health", {})[0], 204)


def test_variables_of_a_cell():
    """Each text is the variable's value, and no code."""
    code = {"python": "import os; print(os.environ['V'], end='')", "bash": "printf %s \"$V\"", "javascript": "process.stdout.write(process.env.V)"}
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        for value in ("\U0001F600 ä", "\u2028\x7f", "%s\\\n\"'$(exit 9)`exit 9`${x}"):
            for language in code:
                _, _, text = client.data("POST", "/execute", box, json.dumps({"code": code[language], "language": language, "env_vars": {"V": value}}).encode(), port=49999)
                lines = [json.loads(line) for line in text.splitlines()]
                equal((language, "".join(line["text"] for line in lines if line["type"] == "stdout")), (language, value), lines)


def test_the_environment_is_told_only_if_the_daemon_accepts_it():
    cloche = os.path.join(BUILD, "cloche")
    with served() as (_, env), open("other", "w") as other:
        other.write("another token of some length")
        other.close()
        address = env["E2B_API_URL"].removeprefix("http://")
        for words, code, told in (([address, "--token-file", "other"], 1, "refuses the key of this token"), (["127.0.0.1:1", "--token-file", "other"], 1, "nothing accepts connections"),
                                  ([address, "--token-file", "none"], 2, "cannot read the daemon's token"), (["x", "--token-file", "other"], 2, "expected HOST:PORT")):
            done = subprocess.run([cloche, "e2b", "env", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            equal((done.returncode, done.stdout), (code, ""))
            assert told in done.stderr, done.stderr


def test_unknown_paths_and_sandboxes():
    with served() as (_, env):
        client = Client(env)
        for verb, path in (("POST", "/templates"), ("POST", "/templates/x"), ("POST", "/templates/x/builds/y"), ("POST", "/v2/templates")):
            status, answer = client.control(verb, path, {})
            assert status == 501 and "not supported" in answer["message"], (verb, path, status, answer)
        box = client.box()
        equal(client.control("GET", "/nothing")[0], 404)
        equal(client.control("PATCH", "/v2/sandboxes")[0], 404)
        equal(client.data("POST", "/init", box, b"{}")[0], 404)
        equal(client.data("GET", "/health", {"sandboxID": "inone", "envdAccessToken": "x"})[0], 502)
        status, _, text = client.data("POST", "/process.Process/List", {"sandboxID": "inone", "envdAccessToken": "x"}, b"{}")
        equal((status, json.loads(text)["code"]), (502, 502))
        equal([one["sandboxID"] for one in client.control("GET", "/v2/sandboxes")[1]], [box["sandboxID"]])  # none was made


def waits(daemon):
    """True if the engine waits longer than from one turn of the API's timer to the next."""
    with open(f"/proc/{daemon.engine_pid()}/syscall") as file:
        number, *args = file.read().split()
    return number in ("22", "232", "281") and not 0 <= struct.unpack("i", struct.pack("I", int(args[3], 16) & 0xffffffff))[0] <= 100  # epoll_wait, epoll_pwait


def test_a_daemon_without_requests_does_not_wake_up():
    with served() as (daemon, env):
        client = Client(env)
        wait_for(lambda: waits(daemon), "nothing has come yet")
        equal(client.control("GET", "/v2/sandboxes"), (200, []))
        wait_for(lambda: waits(daemon), "the request has ended")
        made = client.control("POST", "/v3/templates", {"name": "one"})[1]
        assert not waits(daemon), "a build that nobody begins is forgotten"
        equal(client.control("POST", f"/v2/templates/one/builds/{made['buildID']}", {"steps": [{"type": "NONE", "args": []}]})[0], 202)
        wait_for(lambda: waits(daemon), "the build has ended")


def test_ids_and_metadata_survive_a_crash():
    with served() as (daemon, env):
        client = Client(env)
        box = client.box(metadata={"a": "1"})
        equal(client.data("POST", "/files?path=kept", box, b"kept", Content_Type="application/octet-stream")[0], 200)
        equal(client.control("POST", f"/sandboxes/{box['sandboxID']}/pause", {})[0], 204)
        os.kill(daemon.engine_pid(), signal.SIGKILL)  # the supervisor keeps the socket, and starts another
        status, found = client.control("GET", "/sandboxes/" + box["sandboxID"])
        equal((status, found["metadata"], found["state"], found["envdAccessToken"]), (200, {"a": "1"}, "paused", box["envdAccessToken"]))
        equal(client.data("GET", "/health", box)[0], 502)
        equal(client.control("POST", f"/v2/sandboxes/{box['sandboxID']}/connect", {"timeout": 60})[0], 201)
        equal(client.data("GET", "/files?path=kept", box)[::2], (200, b"kept"))


def test_sandboxes_at_their_end():
    with served() as (_, env):
        client = Client(env)
        for options, on_timeout in (({}, "kill"), ({"autoPause": True}, "pause"), ({"autoPause": True, "autoPauseMemory": False}, "pause")):
            box = client.box(**options)
            detail = client.control("GET", "/sandboxes/" + box["sandboxID"])[1]
            equal(detail["lifecycle"], {"autoResume": False, "onTimeout": on_timeout})
            equal(client.control("POST", f"/sandboxes/{box['sandboxID']}/timeout", {"timeout": 1})[0], 204)
            wait_for(lambda: client.control("GET", "/sandboxes/" + box["sandboxID"])[1].get("state") != "running", "it ends")
            equal(client.control("GET", "/sandboxes/" + box["sandboxID"])[1].get("state"), None if on_timeout == "kill" else "paused")


def test_metrics_of_several_sandboxes():
    with served() as (_, env):
        client = Client(env)
        ids = [client.box()["sandboxID"] for _ in range(2)]
        ask = lambda query: client.control("GET", "/sandboxes/metrics" + query)
        wait_for(lambda: sorted(ask(f"?sandbox_ids={ids[0]},inone,{ids[1]}")[1]["sandboxes"]) == sorted(ids), "each has a sample")
        point = ask("?sandbox_ids=" + ids[0])[1]["sandboxes"][ids[0]]
        assert point["memUsed"] > 0 and point["timestampUnix"] > 0, point
        equal(ask("?sandbox_ids=inone")[1], {"sandboxes": {}})
        equal([ask(query)[0] for query in ("", "?sandbox_ids=" + "a," * 100)], [400, 400])


def test_watchers_that_are_polled():
    with served() as (_, env):
        client = Client(env)
        box, other = client.box(), client.box()
        ask = lambda method, at=box, **message: client.unary("/filesystem.Filesystem/" + method, at, message)
        equal(ask("MakeDir", path="dir")[0], 200)
        status, made = ask("CreateWatcher", path="dir", recursive=True)
        equal(status, 200)
        seen = []

        def poll():
            status, answer = ask("GetWatcherEvents", watcherId=made["watcherId"])
            equal(status, 200)
            seen.extend((one["name"], one["type"]) for one in answer["events"])
            return ("a", "EVENT_TYPE_REMOVE") in seen

        for act in (lambda: client.data("POST", "/files?path=dir/a", box, b"1", Content_Type="application/octet-stream")[0], lambda: ask("Remove", path="dir/a")[0]):
            equal(act(), 200)
        wait_for(poll, "the events")
        equal(seen, [("a", "EVENT_TYPE_CREATE"), ("a", "EVENT_TYPE_WRITE"), ("a", "EVENT_TYPE_REMOVE")])
        equal(ask("GetWatcherEvents", watcherId=made["watcherId"])[1], {"events": []})
        equal([ask("GetWatcherEvents", at=other, watcherId=made["watcherId"])[0], ask("RemoveWatcher", at=other, watcherId=made["watcherId"])[0]], [404, 404])
        equal([ask("RemoveWatcher", watcherId=made["watcherId"])[0], ask("GetWatcherEvents", watcherId=made["watcherId"])[0]], [200, 404])
        equal([ask("CreateWatcher", path=path)[0] for path in ("nope", "/etc/passwd")], [404, 400])


def test_logs_have_a_lowest_level_and_begin_at_either_end():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        client.stream("/process.Process/Start", box, bash("exit 3"))

        def logs(**query):
            return client.control("GET", f"/v2/sandboxes/{box['sandboxID']}/logs?{urlencode(query)}")[1]["logs"]

        started, ended = both = [entry["message"] for entry in logs()]
        equal(both, ["the process started", "the process ended with exit code 3"])
        equal([[entry["message"] for entry in logs(level=level)] for level in ("debug", "info", "warn", "error")], [both, both, [ended], []])
        first, last = (int(datetime.datetime.fromisoformat(entry["timestamp"]).timestamp() * 1000) for entry in logs())
        for direction, cursor, found in (("forward", first, both), ("forward", last + 2, []), ("backward", last + 2, [ended, started]), ("backward", first - 2, [])):
            equal([entry["message"] for entry in logs(direction=direction, cursor=cursor)], found, (direction, cursor))


def test_a_crash_between_two_calls_invents_nothing():
    with served() as (daemon, env):
        client = Client(env)

        def crash():
            os.kill(daemon.engine_pid(), signal.SIGKILL)

        box, woken = client.box(metadata={"a": "1"}, autoPause=True), client.box(autoPause=True, autoResume={"enabled": True})
        crash()  # it was running: 502 until somebody connects
        equal(client.data("GET", "/health", box)[0], 502)
        equal(client.control("POST", f"/v2/sandboxes/{box['sandboxID']}/connect", {"timeout": 300})[0], 201)
        equal([output_of(client, one, "pwd") for one in (box, woken)], ["/home/user\n"] * 2)
        equal(client.control("DELETE", "/sandboxes/" + woken["sandboxID"])[0], 204)
        equal(client.data("POST", "/files?path=kept", box, b"kept", Content_Type="application/octet-stream")[0], 200)
        equal(client.control("POST", f"/sandboxes/{box['sandboxID']}/snapshots", {"name": "one"})[0], 201)
        equal(client.control("POST", "/volumes", {"name": "two"})[0], 201)
        made = client.control("POST", "/v3/templates", {"name": "three"})[1]
        at = f"/templates/three/builds/{made['buildID']}"
        equal(client.control("POST", "/v2" + at, {"steps": [run_step("exec sleep 600")]})[0], 202)
        messages, _ = client.stream("/process.Process/Start", box, bash("true"))
        crash()  # the build is gone, and so are processes
        equal([client.control("GET", at + "/status")[0], client.control("GET", "/templates/aliases/three")[0]], [404, 404])
        [found] = client.control("GET", "/v2/sandboxes")[1]
        equal((found["sandboxID"], found["metadata"]), (box["sandboxID"], {"a": "1"}))
        equal(client.control("GET", "/snapshots")[1], [{"snapshotID": "one", "names": ["one"]}])
        equal([one["name"] for one in client.control("GET", "/volumes")[1]], ["two"])
        equal(client.control("POST", f"/v2/sandboxes/{box['sandboxID']}/connect", {"timeout": 300})[0], 201)
        equal(client.unary("/process.Process/List", box, {})[1], {"processes": []})
        equal(client.unary("/process.Process/SendSignal", box, {"process": {"pid": messages[0]["event"]["start"]["pid"]}, "signal": "SIGNAL_SIGKILL"})[0], 404)
        equal(client.data("GET", "/files?path=kept", client.box(templateID="one"))[::2], (200, b"kept"))
        equal(client.control("DELETE", "/sandboxes/" + box["sandboxID"])[0], 204)
        crash()
        equal(client.control("GET", "/sandboxes/" + box["sandboxID"])[0], 404)


def test_a_hundred_clients_at_once():
    with served() as (_, env), concurrent.futures.ThreadPoolExecutor(100) as threads:
        client = Client(env)
        boxes = [client.box(), client.box()]

        def call(n):
            messages, end = client.stream("/process.Process/Start", boxes[n % 2], {"process": {"cmd": "/bin/echo", "args": [str(n)]}, "stdin": False})
            return b"".join(base64.b64decode(message["event"].get("data", {}).get("stdout", "")) for message in messages), end

        equal(list(threads.map(call, range(100))), [(b"%d\n" % n, {}) for n in range(100)])
        made = [box["sandboxID"] for box in threads.map(lambda n: client.box(metadata={"n": str(n)}), range(20))]
        listed = {row["sandboxID"]: row["metadata"].get("n") for row in client.control("GET", "/v2/sandboxes")[1]}
        equal([listed.get(name) for name in made], [str(n) for n in range(20)])
        killed = list(threads.map(lambda name: client.control("DELETE", "/sandboxes/" + name)[0], made + made))
        assert set(killed) <= {204, 404} and killed.count(204) >= 20, killed
        equal(len(client.control("GET", "/v2/sandboxes")[1]), 2)


def test_a_sandbox_cannot_reach_the_api():
    with served() as (_, env):
        client = Client(env)
        box, other = client.box(), client.box()
        port = int(client.address.rpartition(":")[2])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.connect(("192.0.2.1", 9))  # sends nothing; the address by which this host is known
            own = sock.getsockname()[0]
        code = f"import json, urllib.request as u; from urllib.error import *\nfor host in ('127.0.0.1', 'localhost', '{own}', '[::1]'):\n  for path, headers in (('/v2/sandboxes', {{'X-API-KEY': '{client.key}'}}), ('/files?path=/etc/passwd', {{'E2b-Sandbox-Id': '{other['sandboxID']}', 'X-Access-Token': '{other['envdAccessToken']}'}})):\n    try: print(host, u.urlopen(u.Request(f'http://{{host}}:{port}{{path}}', headers=headers), timeout=5).status)\n    except (URLError, OSError) as error: print('refused')"
        _, _, text = client.data("POST", "/execute", box, json.dumps({"code": code}).encode(), port=49999)
        equal("".join(line["text"] for line in map(json.loads, text.splitlines()) if line["type"] == "stdout").split(), ["refused"] * 8)
        equal(client.send("GET", "/v2/sandboxes", {"X-API-KEY": client.key})[0], 200)  # the twin


def form(*files):
    parts = [b'--part\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\n%s\r\n' % (name.encode(), text) for name, text in files]
    return {"body": b"".join(parts) + b"--part--\r\n", "Content_Type": "multipart/form-data; boundary=part"}


def test_an_empty_file_before_another_one():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        status, _, text = client.data("POST", "/files", box, **form(("/tmp/none", b""), ("/tmp/some", b"some"), ("/tmp/last", b"")))
        equal((status, [one["name"] for one in json.loads(text)] if status == 200 else text), (200, ["none", "some", "last"]))
        equal([client.data("GET", "/files?path=/tmp/" + name, box)[2] for name in ("none", "some", "last")], [b"", b"some", b""])


def test_file_names_that_are_no_text():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        sent = form(("/tmp/na\u00e4me", b"x"))
        equal(client.data("POST", "/files", box, **sent)[0], 200)  # the twin
        status, _, text = client.data("POST", "/files", box, **{**sent, "body": sent["body"].replace("\u00e4".encode(), b"\xff")})
        equal((status, json.loads(text)["message"]), (400, "the file name of a part is not UTF-8"))


def test_parts_of_a_few_bytes_take_little_memory():
    """Each has the path of the query, and metadata; compressed, it has next to no bytes."""
    with served() as (daemon, env):
        client = Client(env)
        box = client.box()

        def send(count, path, **more):
            sent = form(*[("a", b"x")] * count)
            status, _, text = client.data("POST", f"/files?path={path}", box, **{**sent, "body": gzip.compress(sent["body"])}, Content_Encoding="gzip", **more)
            return status, "too large for one request" in text.decode()
        equal(send(1000, "p" * 20000), (400, True))
        equal(send(1000, "/tmp/a", X_Metadata_A="v" * 20000), (400, True))
        equal(send(10, "/tmp/a", X_Metadata_A="v"), (200, False))
        assert daemon.stop() == 0, daemon.log_text()


def test_an_upload_in_many_chunks_waits_for_the_sandbox():
    """Above 4 MiB that the sandbox has not taken the daemon stops to read. Several chunks are in its buffer then."""
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        count = (16 << 20) // 300
        host, _, port = client.address.rpartition(":")
        for turn in range(2):
            with socket.create_connection((host, int(port)), timeout=60 * PATIENCE) as sock:
                sock.sendall(f"POST /files?path=large{turn} HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\nX-Access-Token: {box['envdAccessToken']}\r\n"
                             "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n".encode())
                sock.sendall((b"12c\r\n" + b"0" * 300 + b"\r\n") * count + b"0\r\n\r\n")
                equal(sock.recv(12), b"HTTP/1.1 200")
            equal(client.unary("/filesystem.Filesystem/Stat", box, {"path": f"large{turn}"})[1]["entry"]["size"], str(300 * count))


def test_a_sandbox_that_is_deleted_meanwhile_stays_so():
    """The core makes a sandbox that does not exist: the rest of an upload would make the deleted one anew."""
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        host, _, port = client.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60 * PATIENCE) as sock:
            sock.sendall(f"POST /files?path=part HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\nX-Access-Token: {box['envdAccessToken']}\r\n"
                         "Content-Type: application/octet-stream\r\nTransfer-Encoding: chunked\r\n\r\n3\r\none\r\n".encode())
            wait_for(lambda: client.unary("/filesystem.Filesystem/Stat", box, {"path": "part"})[0] == 200, "the first piece is there")
            equal(client.control("DELETE", "/sandboxes/" + box["sandboxID"])[0], 204)
            sock.sendall(b"3\r\ntwo\r\n0\r\n\r\n")
            equal(sock.recv(12), b"HTTP/1.1 502")
        equal(client.control("GET", "/v2/sandboxes")[1], [])


def test_the_sandbox_of_a_volume_lives_while_it_is_used():
    with served() as (daemon, env):
        client = Client(env)
        token = client.control("POST", "/volumes", {"name": "used"})[1]["token"]
        ends, now = [], datetime.datetime.now(datetime.timezone.utc)
        for _ in range(2):
            equal(client.send("GET", "/volumecontent/used/path?path=/", {"Authorization": f"Bearer {token}"})[0], 200)
            [box] = json.loads(command_line(daemon, env, "sandbox", "ls", "--json").stdout)
            ends.append(box["endsAt"])
        assert ends[0] < ends[1], ends
        for path, status in (("/../etc/passwd", 400), ("..", 400), ("a/../../etc", 400), ("/..a", 404), ("a..", 404)):  # the last two are names
            for place in ("path", "dir", "file"):
                equal((path, client.send("GET", f"/volumecontent/used/{place}?path={quote(path)}", {"Authorization": f"Bearer {token}"})[0]), (path, status))
        for mode, status in (("x", 400), ("", 400), ("384", 201)):
            equal((mode, client.send("PUT", f"/volumecontent/used/file?path=/f&mode={mode}", {"Authorization": f"Bearer {token}", "Content-Type": "application/octet-stream"}, b"1")[0]), (mode, status))
        # a transfer has the time for its bytes, which another request does not cut
        bearer = {"Authorization": f"Bearer {token}"}
        end = lambda: datetime.datetime.fromisoformat(json.loads(command_line(daemon, env, "sandbox", "ls", "--json").stdout)[0]["endsAt"].replace("Z", "+00:00"))
        equal(client.send("PUT", "/volumecontent/used/file?path=/large", {**bearer, "Content-Type": "application/octet-stream"}, bytes(17 << 20))[0], 201)
        uploaded = end()
        equal(client.send("GET", "/volumecontent/used/file?path=/large", bearer)[::2], (200, bytes(17 << 20)))
        downloaded = end()
        equal(client.send("GET", "/volumecontent/used/path?path=/", bearer)[0], 200)
        assert all((one - now).total_seconds() > 600 + 1000 for one in (uploaded, downloaded, end())), (now, uploaded, downloaded, end())


def test_files_of_one_that_become_another():
    with served() as (_, env):
        client = Client(env)
        box = client.box()
        put = lambda path, text, **more: equal(client.data("POST", "/files?" + urlencode({"path": path}), box, text, Content_Type="application/octet-stream", **more)[0], 200)
        compose = lambda **body: (lambda status, _, text: (status, json.loads(text)))(*client.data("POST", "/files/compose", box, json.dumps(body).encode()))
        for name, text in (("it's 1", b"one"), ("two", b"two\n")):
            put(name, text, X_Metadata_Key="v")
        equal(compose(source_paths=["it's 1", "two"], destination="new/all"), (200, {"path": "/home/user/new/all", "name": "all", "type": "file"}))
        equal(client.data("GET", "/files?path=new/all", box)[2], b"onetwo\n")
        put("three", b"3")
        put("new/all", b"onetwo\n", X_Metadata_Key="v")
        equal(client.unary("/filesystem.Filesystem/Stat", box, {"path": "new/all"})[1]["entry"]["metadata"], {"key": "v"})
        equal(client.unary("/filesystem.Filesystem/Stat", box, {"path": "two"})[0], 404)
        equal(compose(source_paths=["new/all", "three"], destination="new/all")[0], 200)  # onto itself
        equal(client.data("GET", "/files?path=new/all", box)[2], b"onetwo\n3")
        equal("metadata" in client.unary("/filesystem.Filesystem/Stat", box, {"path": "new/all"})[1]["entry"], False)
        for body, code in (({"source_paths": ["none"], "destination": "x"}, 404), ({"source_paths": [], "destination": "x"}, 400), ({"source_paths": ["new/all"]}, 400), ({"source_paths": ["new/all", 1], "destination": "x"}, 400),
                           ({"source_paths": ["new/all"], "destination": "x", "username": "root"}, 401), ({"source_paths": ["new/all"], "destination": "new"}, 500), ({"source_paths": ["new"], "destination": "x"}, 404)):
            equal((body, compose(**body)[0]), (body, code))
        equal([entry["name"] for entry in client.unary("/filesystem.Filesystem/ListDir", box, {"path": "", "depth": 2})[1]["entries"]], ["new", "all"])
        wait_for(lambda: client.data("GET", "/metrics", box)[0] == 200, "there is a sample")
        metrics = json.loads(client.data("GET", "/metrics", box)[2])
        assert metrics["mem_used"] > 0 and metrics["mem_total"] > metrics["mem_used"] and metrics["ts"] > 0, metrics
        equal(client.data("GET", "/metrics", {**box, "envdAccessToken": "none"})[0], 401)
        for path, kind in (("/process.Process/Start", "connect+proto"), ("/process.Process/List", "proto")):
            status, names, text = client.data("POST", path, box, b"\0\0\0\0\0", Content_Type="application/" + kind)
            equal((status, json.loads(text)["code"], names["accept-post"]), (415, "unimplemented", "application/json, application/connect+json"))


def test_a_template_that_does_not_come_up_leaves_no_sandbox():
    with served() as (daemon, env):
        client = Client(env)
        for more, why, said in (({"startCmd": "echo broken; exit 3"}, "the start command ended with exit code 3 before the ready command succeeded", "broken"),
                                ({"startCmd": "sleep 600", "readyCmd": "no-such-program"}, "the ready command cannot be run: exit code 127", "no-such-program"),
                                ({"startCmd": "x" * 4097}, "at most 4096 bytes", "")):
            state, log, reason = build(client, "none", [], **more)
            assert (state, reason["step"]) == ("error", "finalize") and why in reason["message"] and said in "\n".join(log), (reason, log)
            equal(log.count(reason["message"]), 1, log)
        state, log, reason = build(client, "once", [], startCmd="[ ! -e ~/first ] || { echo told; exit 3; }; touch ~/first; exec sleep 600", readyCmd="[ -e ~/first ]")
        equal((state, reason), ("ready", None), log)
        equal(build(client, "home", [run_step("rm -r ~; touch ~")])[0], "ready")
        for name, status, why in (("once", 409, "start command ended with status 3"), ("home", 400, "/home/user")):
            answer = client.control("POST", "/v2/sandboxes", {"templateID": name})
            assert (answer[0], answer[1].get("code")) == (status, status) and why in answer[1]["message"], answer
        equal(client.control("GET", "/v2/sandboxes")[1], [])


def output_of(client, box, command, **more):
    messages, _ = client.stream("/process.Process/Start", box, bash(command), **more)
    return b"".join(base64.b64decode(message["event"].get("data", {}).get("stdout", "")) for message in messages).decode()


def test_an_image_with_commands_has_its_sandboxes_made_ahead():
    store = image_store()
    with open("Dockerfile", "w") as file:
        file.write("FROM tools:1\nLABEL cloche.start='echo up > /tmp/up; exec 9<> <(:); read -t 1000 -u 9' cloche.ready='[ -e /tmp/up ]'\n")
    equal(cli("image", "build", ".", *store, "--tag", "served:1").code, 0)
    with served(*store) as (daemon, env), open(env["TOKEN_FILE"]) as file, Frames(daemon.connect(), token=file.read().strip()) as owner:
        client = Client(env)

        def is_ahead():
            box = client.box(templateID="served:1")["sandboxID"]
            equal(output_of(client, {"sandboxID": box, "envdAccessToken": client.control("GET", "/sandboxes/" + box)[1]["envdAccessToken"]}, "cat /tmp/up"), "up\n")
            [process] = [row for row in owner.call("process.list", sandbox=box)["processes"] if row["process"] == "image-start"]
            return process["startedAt"] < owner.call("sandbox.get", sandbox=box)["createdAt"]

        equal([is_ahead(), is_ahead()], [False, False])
        wait_for(is_ahead, "the pool has one")
        # a template that is built on it has commands of its own alone
        equal(build(client, "built", [run_step("true")], fromImage="served:1")[0], "ready")
        equal(owner.call("process.list", sandbox=client.box(templateID="built")["sandboxID"])["processes"], [])


def test_a_template_has_limits_and_its_service_comes_back():
    with served() as (_, env):
        client = Client(env)
        for bad in ({"cpuCount": 0}, {"cpuCount": "2"}, {"memoryMB": 7}, {"memoryMB": 1.5}, {"cpuCount": 1, "memoryMB": 1 << 40}):
            equal((bad, client.control("POST", "/v3/templates", {"name": "one", **bad})[0]), (bad, 400))
        made = {"cpuCount": 3, "memoryMB": 300}
        state, log, reason = build(client, "one", [{"type": "WORKDIR", "args": ["/tmp/w"]}], made, startCmd="echo $PWD $USER > ~/up; exec sleep 600", readyCmd="[ -e ~/up ]")
        equal((state, reason), ("ready", None), log)
        [row] = client.control("GET", "/v2/templates")[1]
        equal((row["cpuCount"], row["memoryMB"]), (3, 300))
        equal({name: client.control("GET", "/templates/one")[1]["builds"][0][name] for name in made}, made)
        box = client.box(templateID="one")
        shown = client.control("GET", "/sandboxes/" + box["sandboxID"])[1]
        equal((shown["cpuCount"], shown["memoryMB"]), (3, 300))
        sleeps = "cat ~/up; pgrep -cx sleep"
        equal(output_of(client, box, sleeps), "/tmp/w user\n1\n")
        equal(client.control("POST", f"/sandboxes/{box['sandboxID']}/pause", {"memory": False})[0], 204)
        equal(client.control("POST", f"/v2/sandboxes/{box['sandboxID']}/connect", {"timeout": 300})[0], 201)
        equal(output_of(client, box, sleeps), "/tmp/w user\n1\n")  # started again, with new processes
        plain = client.control("GET", "/sandboxes/" + client.box()["sandboxID"])[1]
        assert plain["cpuCount"] != 3 and plain["memoryMB"] != 300, plain  # the twin


def test_processes_whose_client_has_gone_make_room():
    port = free_port()
    with served("--listen", f"127.0.0.1:{port}") as (daemon, env):
        client = Client(env)
        box = client.box()
        body = json.dumps({"process": {"cmd": "/bin/true"}, "stdin": False}).encode()
        host, _, own = client.address.rpartition(":")
        for _ in range(220):
            with socket.create_connection((host, int(own)), timeout=60 * PATIENCE) as sock:
                sock.sendall(f"POST /process.Process/Start HTTP/1.1\r\nHost: {client.host}\r\nE2b-Sandbox-Id: {box['sandboxID']}\r\nX-Access-Token: {box['envdAccessToken']}\r\nContent-Length: {len(body) + 5}\r\n\r\n".encode() + struct.pack(">BI", 0, len(body)) + body)
                sock.recv(12)  # it has started
        kept = json.loads(command_line(daemon, env, "ps", box["sandboxID"], "--json").stdout)
        assert 0 < len(kept) < 200, len(kept)


def test_the_command_line_reaches_sandboxes_of_the_token():
    with served() as (daemon, env):
        client = Client(env)
        box = client.box()
        assert box["sandboxID"] in command_line(daemon, env, "sandbox", "ls").stdout
        equal(command_line(daemon, env, "exec", box["sandboxID"], "--", "echo $HOME").stdout, "/home/user\n")
        assert box["sandboxID"] not in command_line(daemon, env, "sandbox", "ls", token=None).stdout  # the user's own
        with tempfile.NamedTemporaryFile("w") as other:
            print("another token of some length", file=other, flush=True)
            done = command_line(daemon, env, "sandbox", "ls", token=other.name)
            equal((done.returncode, done.stdout), (2, ""))
            assert "the token of hello is not this daemon's" in done.stderr, done.stderr


class Heard(http.server.BaseHTTPRequestHandler):
    """Tells the server which headers came."""

    def do_GET(self):
        self.server.heard.append((self.path, self.headers.get_all("X-Key"), self.headers.get_all("Authorization")))
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


class Heards(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """A connection that the network's program cuts is reset."""


def test_a_secret_reaches_its_host_and_never_the_sandbox():
    with Heards(("127.0.0.1", 0), Heard) as one, Heards(("127.0.0.1", 0), Heard) as two:
        for server in (one, two):
            server.heard = []
            threading.Thread(target=server.serve_forever, daemon=True).start()
        at = {name: f"{name}.host.internal:{server.server_port}" for name, server in (("api", one), ("other", two))}
        value, changed, plain = "secret-of-the-test", "secret-after-the-change", "value-of-a-rule"
        with tempfile.TemporaryDirectory() as directory, served("--host-port", f"api={one.server_port}", "--host-port", f"other={two.server_port}", "--state-dir", directory) as (daemon, env):
            os.chmod(directory, 0o711)
            client = Client(env)
            equal(client.control("POST", "/secrets", {"name": "k", "value": value})[0], 201)
            rules = {"api.host.internal": [{"transform": {"headers": {"Authorization": "Bearer ${e2b.secrets.k}"}}}, {"transform": {"headers": {"X-Key": plain}}}]}
            network = {"allowOut": ["host:api", "host:other"], "denyOut": ["0.0.0.0/0"], "rules": rules}
            box = client.box(network=network)
            fetch = lambda host, path="/": output_of(client, box, f"python3 -c \"import urllib.request as u; print(u.urlopen(u.Request('http://{at[host]}{path}', headers={{'Authorization': 'own'}}), timeout=60).read().decode())\" 2>&1 | tail -1")
            equal((fetch("api"), one.heard.pop()), ("ok\n", ("/", [plain], ["Bearer " + value])))
            equal((fetch("other"), two.heard.pop()), ("ok\n", ("/", None, ["own"])))  # the twin
            # Everything that the guest, another caller or the client is shown
            everywhere = "cat /proc/*/environ /proc/*/cmdline 2> /dev/null; env; grep -r secret-of / --include=* -s --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr --exclude-dir=lib"
            shown = [output_of(client, box, everywhere), command_line(daemon, env, "sandbox", "get", box["sandboxID"], "--json").stdout, command_line(daemon, env, "sandbox", "logs", box["sandboxID"]).stdout, daemon.log_text(),
                     json.dumps([client.control("GET", path)[1] for path in ("/secrets", "/secrets/k", "/v2/sandboxes", "/sandboxes/" + box["sandboxID"])])]
            hidden = [text[:2000] for text in shown if value in text or plain in text]
            assert "Authorization" in shown[1] and not hidden, hidden
            for name in os.listdir(directory):
                if name.endswith(".json"):
                    equal(os.stat(os.path.join(directory, name)).st_mode & 0o077, 0)
            # A request to another host that names this one, by the host's own port too
            for host, named in (("other", at["api"]), ("api", at["other"]), ("other", "api.host.internal")):
                name, port = at[host].split(":")
                output_of(client, box, f"exec 3<>/dev/tcp/{name}/{port}; printf 'GET /stolen HTTP/1.1\\r\\nHost: {named}\\r\\n\\r\\n' >&3; timeout 1 cat <&3")
            equal((one.heard, two.heard), ([], []))
            # A change is in force with the next rules, and after a crash they are the same.
            equal(client.control("POST", "/secrets/k", {"value": changed})[1]["currentVersion"], 2)
            equal(client.control("PUT", f"/sandboxes/{box['sandboxID']}/network", network)[0], 204)
            equal(fetch("api"), "ok\n")
            os.kill(daemon.engine_pid(), signal.SIGKILL)
            equal(client.control("POST", f"/v2/sandboxes/{box['sandboxID']}/connect", {"timeout": 300})[0], 201)
            equal(fetch("api"), "ok\n")
            equal([row[2] for row in one.heard], [["Bearer " + changed]] * 2)
            equal(client.control("GET", "/secrets/k")[1]["currentVersion"], 2)
            for rules, why in (({"api.test": [{"transform": {"headers": {"A": "${e2b.secrets.none}"}}}]}, "there is no secret 'none'"), ({"api.test": [{"transform": {"headers": {"A": "${e2b.identity.tokens.x}"}}}]}, "only ${e2b.secrets.NAME}"),
                               ({"10.0.0.0/8": [{"transform": {"headers": {"A": "b"}}}]}, "expected a host's name"), ({"api.test": [{"transform": {"headers": {"Host": "b"}}}]}, "no name of a header"), ({"api.test": [{"transform": {"headers": {"A": "b\r\nC: d"}}}]}, "one line"),
                               ({"api.test": [{"transform": {"headers": {"A": "${e2b.secrets.k"}}}]}, "only ${e2b.secrets.NAME}"), ({"api.test": [{"transform": {"headers": {"A": 1}}}]}, "must be text"), ({"api.test": [{"transform": {"headers": {"A": "x" * 17000}}}]}, "more than 16384 bytes")):
                status, answer = client.control("PUT", f"/sandboxes/{box['sandboxID']}/network", {"rules": rules})
                assert status == 400 and why in answer["message"] and changed not in answer["message"], (rules, answer)
            for body in ({}, {"name": ""}, {"name": "a{b", "value": "x"}, {"name": "a", "value": ""}, {"name": "a", "value": "x\n"}, {"name": "a", "value": "x" * 8193}, {"name": "a", "value": "x", "metadata": {"a": 1}}, {"name": "a", "value": "x", "metadata": {"a": "x" * 9000}}):
                equal((body, client.control("POST", "/secrets", body)[0]), (body, 400))
            for verb, path, key, status in (("GET", "/secrets", "x", 401), ("POST", "/secrets", "x", 401), ("GET", "/secrets/none", None, 404), ("DELETE", "/secrets/none", None, 404), ("GET", "/secrets?limit=0", None, 400)):
                equal((path, client.control(verb, path, {} if verb == "POST" else None, key)[0]), (path, status))


def test_networks_without_denials_are_the_daemons():
    with served("--network", "allowed.example.org") as (daemon, env):
        client = Client(env)
        box = client.box()
        own = {"allow": ["allowed.example.org"], "deny": []}
        for change, code, after in (({}, 204, own), ({"denyOut": ["0.0.0.0/0"], "allowOut": ["1.1.1.1"]}, 204, {"allow": ["1.1.1.1"]}),
                                    ({"denyOut": ["10.0.0.0/8"], "allowOut": ["1.1.1.1"]}, 400, {"allow": ["1.1.1.1"]}), ({"allowOut": ["1.1.1.1"]}, 204, own)):
            equal(client.control("PUT", f"/sandboxes/{box['sandboxID']}/network", change)[0], code)
            equal(json.loads(command_line(daemon, env, "sandbox", "get", box["sandboxID"], "--json").stdout)["network"], after)


def test_a_signature_is_for_a_file_only():
    with served() as (_, env):
        client = Client(env)
        box = client.box(envVars={"SECRET": "s"})
        text = f"/etc/passwd:read:user:{box['envdAccessToken']}"
        signature = "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")
        query = "?" + urlencode({"path": "/etc/passwd", "username": "user", "signature": signature})
        equal(client.data("GET", "/files" + query, {**box, "envdAccessToken": None})[0], 200)  # the twin
        equal(client.data("GET", "/envs" + query, {**box, "envdAccessToken": None})[0], 401)
        other = client.box()
        equal(client.data("GET", "/files" + query, {**other, "envdAccessToken": None})[0], 401)  # signed for another sandbox
        equal(client.send("GET", "/files" + query, {"Host": f"49983-{other['sandboxID']}.localhost"})[0], 401)
        equal(client.send("GET", "/files" + query, {"Host": f"49983-{box['sandboxID']}.localhost"})[0], 200)  # the twin


def test_forks_that_fail_have_an_entry_each():
    with served("--max-saved", "1") as (_, env):
        client = Client(env)
        box = client.box()
        for body, count in (({}, 1), ({"count": None}, 1), ({"count": 2}, 2)):
            status, entries = client.control("POST", f"/sandboxes/{box['sandboxID']}/fork", body)
            equal((status, [list(entry) for entry in entries]), (201, [["error"]] * count))


def test_processes_of_deleted_sandboxes_are_forgotten():
    """The text of their requests is kept as long as their sandbox."""
    with served() as (daemon, env):
        client = Client(env)
        long = {"process": {"cmd": "/bin/true", "note": "x" * (1 << 20)}}

        def turn():
            box = client.box()
            for _ in range(10):
                equal(client.stream("/process.Process/Start", box, long)[1], {})
            equal(client.control("DELETE", "/sandboxes/" + box["sandboxID"])[0], 204)
            return daemon.memory()

        begun = [turn() for _ in range(3)][-1]
        grown = [turn() for _ in range(6)][-1] - begun
        assert grown < 30 << 20, grown


def build(client, name, steps, options=None, **more):
    """The state, the lines of the log and the reason of a build, when it has ended."""
    status, made = client.control("POST", "/v3/templates", {"name": name, **(options or {})})
    equal(status, 202)
    at = f"/templates/{made['templateID']}/builds/{made['buildID']}"
    equal(client.control("POST", "/v2" + at, {"steps": steps, **more})[0], 202)
    wait_for(lambda: client.control("GET", at + "/status")[1]["status"] in ("ready", "error"), "the build ends")
    end = client.control("GET", at + "/status")[1]
    return end["status"], [entry["message"] for entry in end["logEntries"]], end.get("reason")


def archive(name, contents):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.size = len(contents)
        tar.addfile(member, io.BytesIO(contents))
    return out.getvalue()


def test_files_of_a_build_that_are_sent_twice_at_a_time():
    with served() as (_, env):
        client = Client(env)
        made = client.control("POST", "/v3/templates", {"name": "one"})[1]
        path = f"/templates/one/files/{'a' * 64}"
        upload = "/" + client.control("GET", path)[1]["url"].split("/", 3)[3]
        layer = archive("x", b"whole\n")
        host, _, port = client.address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=60) as slow, socket.create_connection((host, int(port)), timeout=60) as lost:
            for sock, size in ((slow, 20), (lost, 40)):
                sock.sendall(f"PUT {upload} HTTP/1.1\r\nHost: {client.host}\r\nConnection: close\r\nContent-Length: {len(layer)}\r\n\r\n".encode() + layer[:size])
                equal(client.control("GET", path)[1]["present"], False)
            slow.sendall(layer[20:])
            equal(slow.recv(4096).split()[1], b"200")
        at = f"/templates/one/builds/{made['buildID']}"
        copy = {"type": "COPY", "args": ["x", "/tmp/x", "", ""], "filesHash": "a" * 64}
        long_line = "printf '%0100000d\\n' 0"
        equal(client.control("POST", "/v2" + at, {"steps": [copy, run_step(f"cat /tmp/x; {long_line}; seq 30000; exit 1")]})[0], 202)
        wait_for(lambda: client.control("GET", at + "/status")[1]["status"] == "error", "the build ends")
        log = [entry["message"] for entry in client.control("GET", at + "/status")[1]["logEntries"]]
        assert "whole" in log, log[:3]
        equal([len(line) for line in log if line.startswith("0")], [65536, 100000 - 65536])
        # The memory of an entry counts, too, so that short lines are fewer.
        equal([bool(client.control("GET", f"{at}/status?logsOffset={offset}")[1]["logEntries"]) for offset in (10000, 20000)], [True, False])


def run_step(command, *user):
    return {"type": "RUN", "args": [command, *user]}


def test_a_template_of_an_image_has_root_if_its_steps_ask():
    with served(*image_store()) as (_, env):
        client = Client(env)
        root, user = ({"Authorization": "Basic " + base64.b64encode(name).decode()} for name in (b"root:", b"user:"))
        for repeats, told in ((1, "ready"), (2, "error")):  # the earlier template stays
            equal(build(client, "plain", [{"type": "ENV", "args": ["LONG", "x" * (repeats * 200_000)]}], fromImage="tools:1")[0], told)
            equal(client.control("GET", "/templates/aliases/plain")[0], 200)
        state, log, reason = build(client, "plain", [run_step("id -u; echo changed > /etc/changed; [ ! -e /etc/none ]")], fromImage="tools:1")
        equal((state, reason), ("ready", None), log)
        state, log, reason = build(client, "rooted", [run_step("id -u", "root"), run_step("id -u"), {"type": "USER", "args": ["root"]}, run_step("id -u; echo 1 > /etc/by-root; chmod 600 /etc/by-root")], fromImage="tools:1")
        equal((state, reason, [line for line in log if line.isdigit()]), ("ready", None, ["0", "1000", "0"]), log)
        for name, who, command, output in (("plain", {}, "cat /etc/changed", "changed\n"), ("rooted", {}, "id -u", "0\n"), ("rooted", user, "id -u; cat /etc/by-root 2>&1; echo mine > ~/file && cat ~/file", "1000\ncat: /etc/by-root: Permission denied\nmine\n"),
                                            ("rooted", root, "id -u; cat /etc/by-root; echo $HOME", "0\n1\n/root\n")):
            box = client.box(templateID=name)
            messages, _ = client.stream("/process.Process/Start", box, bash(command), **who)
            equal(b"".join(base64.b64decode(message["event"].get("data", {}).get("stdout", "")) for message in messages).decode(), output)
        box = client.box(templateID="rooted")
        assert b'"text":"0\\n"' in client.data("POST", "/execute", box, json.dumps({"code": "id -u", "language": "bash"}).encode(), port=49999)[2]
        box = client.box(templateID="plain")  # the twin
        equal(client.stream("/process.Process/Start", box, bash("true"), **root)[1]["error"]["message"], "invalid username: 'root'")


CHANCE = "cat /proc/sys/kernel/random/uuid >> ~/{}"


def test_steps_that_were_built_before_are_not_run_again():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)  # the daemon of root's is another user's
        kept = ["--state-dir", os.path.join(directory, "state")]

        def built(client, name, *steps, options=None, **more):
            """The numbers of the steps that were taken from before, and what the sandbox has."""
            state, log, reason = build(client, name, [run_step(step) if isinstance(step, str) else step for step in steps], options, **more)
            equal((state, reason), ("ready", None), log)
            box = client.box(templateID=name)
            files = output_of(client, box, "cat ~/one ~/two; echo $PWD $A").split("\n")
            client.control("DELETE", "/sandboxes/" + box["sandboxID"])
            return [line.split("]")[0].rsplit("[", 1)[1] for line in log if line.startswith("CACHED")], files

        one, two = CHANCE.format("one"), CHANCE.format("two")
        with served(*kept) as (daemon, env):
            client = Client(env)
            step = {"type": "WORKDIR", "args": ["/tmp/w"]}
            known, first = built(client, "first", one, step, two)
            equal(known, [])
            equal(built(client, "same", one, step, two), (["1/3", "2/3", "3/3"], first))
            equal(built(client, "longer", one, step, two, {"type": "ENV", "args": ["A", "1"]}), (["1/4", "2/4", "3/4"], [*first[:2], "/tmp/w 1", ""]))
            known, other = built(client, "other", one, step, two + "; true")
            equal((known, other[0] == first[0], other[1] == first[1], other[2]), (["1/3"], True, False, "/tmp/w"))
            known, started = built(client, "started", one, step, two, startCmd="echo started >> ~/one; exec sleep 600", readyCmd="grep started ~/one")
            assert (known, started[0], started[1]) == (["1/3", "2/3", "3/3"], first[0], "started"), (known, started)
            equal(built(client, "same", one, step, two)[1], first)  # the file of the start command is in no step
            known, forced = built(client, "forced", one, step, {**run_step(two), "force": True})
            equal((known, forced[0], forced[1] == first[1]), (["1/3"], first[0], False))
            equal(built(client, "same", one, step, two), (["1/3", "2/3", "3/3"], forced))  # the newest result counts
            known, anew = built(client, "forced", one, step, two, force=True)
            equal((known, anew[0] == first[0]), ([], False))
            for name, steps, more in (("limits", (one,), {"options": {"memoryMB": 300}}), ("user", ({"type": "USER", "args": ["user"]}, one), {}), ("env", ({"type": "ENV", "args": ["A", "1"]}, one), {}), ("template", (one,), {"fromTemplate": "first"})):
                equal((name, built(client, name, *steps, **more)[0]), (name, []))
                assert built(client, name, *steps, **more)[0], name  # the twin
            with open(env["TOKEN_FILE"]) as file, Frames(daemon.connect(), token=file.read().strip()) as owner:
                kept_steps = lambda: {row["snapshot"]: row["labels"] for row in owner.call("snapshot.list")["snapshots"] if "e2b.step" in row["labels"]}
                some, labels = next(iter(kept_steps().items()))
                for n in range(64):
                    owner.call("snapshot.copy", snapshot=some, to=f"copy{n}", labels=labels)
                equal(built(client, "first", one, step, two)[0], ["1/3", "2/3", "3/3"])  # the oldest go at its end
                wait_for(lambda: sorted(kept_steps()) == sorted(f"copy{n}" for n in range(64)), "the bound")
                equal(built(client, "first", one, step, two)[0], [])
            # They are nobody's templates or snapshots, and no other caller's either.
            equal(client.control("GET", "/snapshots")[1], [])
            assert not any("step" in row["templateID"] for row in client.control("GET", "/v2/templates")[1])
            with daemon.frames() as frames:
                equal(frames.call("snapshot.list")["snapshots"], [])
                shown = json.loads(command_line(daemon, env, "snapshot", "ls", "--json").stdout)
                steps = [row for row in shown if "e2b.step" in row["labels"]]
                frames.call("exec", sandbox="evil", command="mkdir -p /home/user; echo evil > /home/user/one")
                for row in steps:
                    frames.call("sandbox.snapshot", sandbox="evil", snapshot=row["snapshot"], labels=row["labels"])
                    equal(command_line(daemon, env, "snapshot", "rm", row["snapshot"]).returncode, 0)
                known, own = built(client, "first", one, step, two)
                assert known == [] and "evil" not in own, (known, own)
        with served(*kept, "--network", "example.org") as (_, env):
            equal(built(Client(env), "first", one, step, two)[0], [])  # other rules
        with served(*kept) as (_, env):
            equal(built(Client(env), "first", one, step, two)[0], ["1/3", "2/3", "3/3"])  # the twin


def test_builds_that_nobody_may_make():
    with Clock() as clock, served(env=clock.env) as (daemon, env), daemon.frames() as frames:
        client = Client(env)
        made = client.control("POST", "/v3/templates", {"name": "one"})[1]
        other = client.control("POST", "/v3/templates", {"name": "two"})[1]
        _, layer = client.control("GET", f"/templates/one/files/{'a' * 64}")
        upload = "/" + layer["url"].split("/", 3)[3]
        for path in (upload.replace("/one/", "/two/"), upload.replace("aaaa", "bbbb"), upload[:-1], upload.split("?")[0], upload + "0"):
            equal(client.send("PUT", path, {}, b"x")[0], 401)
        equal(client.send("PUT", upload, {}, b"no archive")[0], 200)  # the twin
        equal(client.control("GET", f"/templates/one/files/{'a' * 64}")[1]["present"], True)
        equal(client.control("GET", f"/templates/one/files/{'a' * 65}")[0], 400)
        copy = {"type": "COPY", "args": ["x", "/tmp/x", "", ""], "filesHash": "a" * 64}
        for steps in ("x", [1], [{"type": 1}], [{"type": "RUN", "args": ["a\0b"]}], [{"type": "RUN", "args": [1]}], [run_step("true")] * 1001):
            equal(client.control("POST", f"/v2/templates/one/builds/{made['buildID']}", {"steps": steps})[0], 400)
        equal(client.control("POST", f"/v2/templates/one/builds/{other['buildID']}", {"steps": []})[0], 404)
        equal(client.control("GET", f"/templates/two/builds/{made['buildID']}/status")[0], 404)
        at = f"/templates/one/builds/{made['buildID']}"
        equal(client.control("POST", "/v2" + at, {"steps": [copy]})[0], 202)
        equal(client.control("POST", "/v2" + at, {"steps": [copy]})[0], 409)
        wait_for(lambda: client.control("GET", at + "/status")[1]["status"] == "error", "an archive that is none ends the build")
        for steps, step, why in (([run_step("true"), {"type": "ADD", "args": []}], "2", "this kind of step"), ([copy], "1", "not uploaded"),
                                 ([run_step("true", "user"), run_step("true", "nobody")], "2", "no user 'nobody'"), ([{"type": "USER", "args": ["nobody"]}], "1", "no user 'nobody'")):
            state, log, reason = build(client, "one", steps)
            assert (state, reason["step"]) == ("error", step) and why in reason["message"], (reason, log)
        later = client.control("POST", "/v3/templates", {"name": "one"})[1]["buildID"]
        equal(client.send("PUT", upload, {}, b"of an earlier build")[0], 401)
        equal(client.control("GET", f"/templates/one/files/{'a' * 64}")[1]["present"], False)
        clock.let_pass(601, frames)
        wait_for(lambda: client.control("GET", f"/templates/one/builds/{later}/status")[0] == 404, "a build that nobody began is forgotten")
        equal(client.control("GET", at + "/status")[0], 200)  # the twin: one that has ended
        for bad in ({"name": "a--b"}, {"name": "a:b:c"}, {"name": "a:"}, {"name": "a/b"}, {"name": "a" * 64}, {"name": "a:" + "." * 30}, {"name": "a", "tags": [1]}, {"name": "a", "tags": ["x/y"]}, {"name": "a", "tags": ["x"] * 17}, {}):
            equal(client.control("POST", "/v3/templates", bad)[0], 400)
        for verb, path, body, code in (("GET", "/templates/none/tags", None, 404), ("POST", "/templates/tags", {"target": "none", "tags": ["x"]}, 404), ("POST", "/templates/tags", {"target": "none"}, 400),
                                       ("DELETE", "/templates/tags", {"name": "none", "tags": ["x"]}, 404), ("DELETE", "/templates/none", None, 404), ("DELETE", "/templates/none%3Adefault", None, 404), ("DELETE", "/templates/%00", None, 400), ("PATCH", "/v2/templates/none", {"public": True}, 404), ("PATCH", "/v2/templates/none", {}, 400)):
            equal((path, client.control(verb, path, body)[0]), (path, code))
        equal(client.control("GET", "/templates/aliases/one")[0], 404)
        equal(client.control("GET", "/v2/sandboxes")[1], [])


def test_one_build_too_many_is_told_when_to_try_again():
    with served() as (_, env):
        client = Client(env)

        def begin(n):
            made = client.control("POST", "/v3/templates", {"name": f"n{n}"})[1]
            status, names, _ = client.send("POST", f"/v2/templates/n{n}/builds/{made['buildID']}", {"X-API-KEY": client.key}, json.dumps({"steps": [run_step("exec sleep 600")]}).encode())
            return status, names.get("retry-after")

        equal([begin(n) for n in range(9)], [(202, None)] * 8 + [(429, "1")])


def test_builds_that_print_and_send_much_take_little_memory():
    with served() as (daemon, env):
        client = Client(env)
        build(client, "first", [run_step("true"), {"type": "NONE", "args": []}])
        before = daemon.memory()
        state, log, _ = build(client, "prints", [run_step("yes | head -c 400000; head -c 100000 /dev/zero | tr '\\0' x; false")])
        assert state == "error" and daemon.memory() - before < 40 << 20, daemon.memory() - before
        for _ in range(5):
            equal(build(client, "sends", [{"type": "NONE", "args": ["x" * (10 << 20)]}])[0], "error")
        assert daemon.memory() - before < 60 << 20, daemon.memory() - before
        # the files of a COPY lie on the disk
        before, layer = daemon.memory(), os.urandom(48 << 20)
        client.control("POST", "/v3/templates", {"name": "large"})
        upload = "/" + client.control("GET", f"/templates/large/files/{'a' * 64}")[1]["url"].split("/", 3)[3]
        equal(client.send("PUT", upload, {}, layer)[0], 200)
        assert daemon.memory() - before < 16 << 20, daemon.memory() - before
        # a line that is longer than one of the log is cut into several
        _, log, _ = build(client, "long", [run_step("head -c 100000 /dev/zero | tr '\\0' x; echo; echo tail; false")])
        equal([len(line) for line in log if line.startswith("x")], [65536, 100000 - 65536])


def test_a_watch_that_missed_changes_is_over():
    """Rather than to leave events out: a burst is more than the core keeps for a watcher."""
    with served() as (_, env), concurrent.futures.ThreadPoolExecutor(1) as threads:
        client = Client(env)
        box = client.box()
        equal(client.unary("/filesystem.Filesystem/MakeDir", box, {"path": "dir"})[0], 200)
        stream = threads.submit(client.stream, "/filesystem.Filesystem/WatchDir", box, {"path": "dir"})
        status, made = client.unary("/filesystem.Filesystem/CreateWatcher", box, {"path": "dir"})
        equal(status, 200)
        burst = bash("cd ~/dir; for i in {1..4000}; do : > $i; done; rm -f *")

        def is_over():
            client.stream("/process.Process/Start", box, burst)
            return client.unary("/filesystem.Filesystem/GetWatcherEvents", box, {"watcherId": made["watcherId"]})[0] == 404 and stream.done()

        wait_for(is_over, "both watches end")
        equal(stream.result()[1], None)  # it broke off


def test_events_that_nobody_fetches_take_little_memory():
    """The watcher with the most of them is over, not that of another sandbox."""
    with served() as (daemon, env):
        client = Client(env)
        box, other = client.box(), client.box()
        deep = "/tmp/" + "/".join(["d" * 200] * 18)
        client.stream("/process.Process/Start", box, bash(f"mkdir -p {deep}"))
        ask = lambda method, at=box, **message: client.unary("/filesystem.Filesystem/" + method, at, message)
        ids = [ask("CreateWatcher", path="/tmp", recursive=True)[1]["watcherId"] for _ in range(30)]
        quiet = ask("CreateWatcher", at=other, path="/tmp")[1]["watcherId"]
        before = daemon.memory()

        def is_over():
            client.stream("/process.Process/Start", box, bash(f"cd {deep}; for i in {{1..200}}; do : > $i; done; rm -f *"))
            assert daemon.memory() - before < 140 << 20, daemon.memory() - before
            return ask("GetWatcherEvents", watcherId=ids.pop())[0] == 404

        wait_for(is_over, "a watcher is over")
        equal(ask("GetWatcherEvents", at=other, watcherId=quiet)[0], 200)
