"""The same operations over HTTP, as streams of events and over a WebSocket; the OpenAPI document against the server."""
import base64
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, WebSocket, read_events
from rpc import Daemon, Gone, PATIENCE


def test_operations():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        assert http.get("/health") == (200, {"status": "ok"})
        assert "python" in {language["name"] for language in http.get("/v1/languages")[1]["languages"]}
        assert "seccomp" in {guard["name"] for guard in http.get("/v1/guards")[1]["guards"]}
        status, result = http.post("/v1/call", language="python", code="def f(a):\n    print(a)\n    return [a, b'\\xff', 2**70]", args=[1])
        assert status == 200 and result["stdout"] == "1\n", result
        assert result["result"] == [1, {"$": "bytes", "b64": "/w=="}, {"$": "bigint", "v": str(2 ** 70)}]
        status, result = http.post("/v1/call", language="python", code="def f(a, b):\n    return [len(a), b]",
                                   args=[{"$": "bytes", "b64": base64.b64encode(bytes(1000)).decode()}, 2 ** 60])
        assert result["result"] == [1000, {"$": "bigint", "v": str(2 ** 60)}], result
        assert http.post("/v1/script", language="bash", code="cat", stdin="in")[1]["stdout"] == "in"
        assert http.post("/v1/evaluate", language="javascript", code="export const a = 1")[1]["result"] == {"a": 1}
        status, result = http.post("/v1/call", language="python", code="def f():\n    raise ValueError('no')")
        assert (status, result["status"]) == (200, "error"), "a failure of the guest is a result"
        status, error = http.post("/v1/prefixes", language="python", code="raise ValueError('no')")
        assert status == 422 and error["error"]["name"] == "prefix" and error["error"]["failure"]["type"] == "ValueError"
        status, made = http.post("/v1/prefixes", language="python", code="n = 1", name="mine")
        assert status == 201
        assert http.post("/v1/call", prefix="mine", code="return n + 1")[1]["result"] == 2
        with daemon.frames() as frames:  # the same user's: it is his, whichever way he comes
            assert frames.call("call", prefix="mine", code="return n")["result"] == 1
        assert http.get("/v1/prefixes")[1]["prefixes"][0]["runs"] == 2
        assert http.request("DELETE", "/v1/prefixes/" + made["prefix"]) == (200, {})
        assert http.request("DELETE", "/v1/prefixes/" + made["prefix"])[0] == 404
        assert http.request("DELETE", "/v1/changesets/c1")[1]["error"]["name"] == "not_found"
        assert http.get("/v1/stats")[1]["runs"]["total"] >= 7
        code = "host()"
        status, result = http.post("/v1/call", language="python", code=code, globals={"host": {"kind": "function"}})
        assert result["status"] == "error" and "frames" in result["error"]["message"]


def test_errors_that_quote_what_is_no_whole_character():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        for body in ({"language": "python", "code": "1", "\u00e9" * 101: 1}, {"language": "\u20ac" * 100, "code": "1"}):
            status, error = http.post("/v1/call", **body)
            assert status == 400 and error["error"]["message"], error


def test_prefixes_of_http_go_when_they_are_idle():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        assert http.post("/v1/prefixes", language="python", code="", name="short", idleMs=500)[0] == 201
        assert http.post("/v1/prefixes", language="python", code="", name="long", idleMs=0)[0] == 201
        until = time.monotonic() + 20 * PATIENCE
        while len(http.get("/v1/prefixes")[1]["prefixes"]) > 1:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert http.get("/v1/prefixes")[1]["prefixes"][0]["name"] == "long"


def test_metrics():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.post("/v1/call", language="python", code="return 1")
        http.post("/v1/call", language="python", code="raise ValueError(1)")
        http.post("/v1/call", language="python")
        status, text = http.get("/metrics")
        assert status == 200 and http.headers["content-type"].startswith("text/plain; version=0.0.4")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert values['cloche_runs_total{status="success"}'] == "1" and values['cloche_runs_total{status="error"}'] == "1"
        assert values["cloche_run_duration_seconds_count"] == "2" and values['cloche_run_duration_seconds_bucket{le="+Inf"}'] == "2"
        assert values["cloche_request_errors_total"] == "1" and values["cloche_connections"] == "1"
        assert float(values["cloche_memory_bytes"]) > 1e6 and float(values["cloche_run_duration_seconds_sum"]) > 0
        types = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
        assert all(any(name.startswith(kind) for kind in types) for name in values)


def test_streams_of_events():
    with Daemon() as daemon:
        with Http(daemon.connect()) as http:
            code = "print('first')\nprint('x' * (1 << 20))\nprint('second')"  # more than one event holds
            http.begin("POST", "/v1/script", {"language": "python", "code": code}, accept="text/event-stream")
            assert http.headers["content-type"] == "text/event-stream" and http.headers["transfer-encoding"] == "chunked"
            events = list(read_events(http))
            out = b"".join(base64.b64decode(data["data"]["b64"]) for name, data in events if name == "output")
            assert out == b"first\n" + b"x" * (1 << 20) + b"\nsecond\n" and len(events) >= 3, events
            assert events[-1][0] == "result" and events[-1][1]["stdout"].startswith("first\nxxx")
            assert http.get("/health")[0] == 200, "the connection goes on"
            status, error = http.post("/v1/script", {"Accept": "text/event-stream"}, language="python")
            assert status == 400, "what is refused at once has a status"
        with Http(daemon.connect()) as http:
            http.begin("POST", "/v1/script", {"language": "python", "code": "while True: print('x' * 1000)"}, accept="text/event-stream")
            next(read_events(http))
        with daemon.frames() as frames:  # a client that disconnects ends its run
            until = time.monotonic() + 10 * PATIENCE
            while frames.call("stats")["runs"]["now"]:
                assert time.monotonic() < until
                time.sleep(0.05)
            assert frames.call("stats")["runs"]["byStatus"]["terminated"] == 1


def test_web_socket():
    with Daemon() as daemon:
        host = {("global", "add"): lambda a, b: a + b}
        with WebSocket(daemon.connect(), host=host) as socket:
            functions = {"add": {"kind": "function"}}
            assert socket.call("call", language="python", code="return add(1, 2)", globals=functions)["result"] == 3
            big = os.urandom(3 << 20)
            args = [{"$": "bytes", "at": 0, "n": len(big)}]
            result = socket.call("call", big, language="python", code="def f(a):\n    return a", args=args)
            at = result["result"]
            assert socket.attachments[at["at"]:at["at"] + at["n"]] == big
            number = socket.ask("script", language="python", code="print('x')", stream=True)
            socket.wait(number)
            assert socket.output("stdout", number) == b"x\n"
            numbers = [socket.ask("call", language="python", code="def f(n):\n    return n", args=[n]) for n in range(50)]
            assert [socket.wait(number)["result"] for number in numbers] == list(range(50))
            socket.ping(b"are you there")
            assert socket.call("stats")["connections"] == 1 and socket.pongs == [b"are you there"]
            socket.send_split({"jsonrpc": "2.0", "id": "split", "method": "stats"}, 7)
            assert socket.wait("split")["connections"] == 1
            prefix = socket.call("prefix.create", language="python", code="")["prefix"]
            with daemon.frames() as other:
                assert other.call("prefix.list") == {"prefixes": []}
        with daemon.frames() as frames:
            assert frames.refused("call", prefix=prefix, code="1").name == "not_found"


def test_web_sockets_that_break_the_rules():
    with Daemon() as daemon:
        for headers in ({"Sec-WebSocket-Version": "12"}, {"Sec-WebSocket-Key": "short"}, {"Upgrade": "h2c"}):
            with Http(daemon.connect()) as http:
                wanted = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Key": "A" * 22 + "==", "Sec-WebSocket-Version": "13"}
                assert http.request("GET", "/v1/rpc", headers={**wanted, **headers})[0] == 400, headers
        for break_it in (lambda s: s.send_raw(0x81, b"text"), lambda s: s.send_raw(0x82, b"\x05\0\0\0"), lambda s: s.send_raw(0x82, b"x" * 70),
                         lambda s: s.send_raw(0x82, b"{}", mask=False), lambda s: s.send_raw(0x8b, b""), lambda s: s.send_raw(0xf2, b"x"),
                         lambda s: s.socket.sendall(b"\x82\xff" + b"\xff" * 8 + bytes(4)), lambda s: s.send_raw(0x88, b"")):
            with WebSocket(daemon.connect()) as socket:
                break_it(socket)
                try:
                    for _ in range(10):
                        socket.turn()
                    raise AssertionError("it was taken")
                except Gone:
                    pass
        with WebSocket(daemon.connect()) as socket:
            assert socket.call("stats")["connections"] == 1


def check_schema(schema, value):
    """A little of JSON Schema: as much as the document uses. True: it fits."""
    kinds = {"string": str, "object": dict, "array": list, "boolean": bool, "integer": int}
    if "const" in schema:
        return value == schema["const"] and type(value) is type(schema["const"])
    if "enum" in schema:
        return value in schema["enum"]
    if "anyOf" in schema:
        return any(check_schema(one, value) for one in schema["anyOf"])
    if "type" in schema:
        names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        if not any(isinstance(value, kinds[name]) and (name == "boolean" or not isinstance(value, bool)) for name in names):
            return False
    if isinstance(value, int) and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return False
    if isinstance(value, list):
        return all(check_schema(schema.get("items", {}), item) for item in value)
    if not isinstance(value, dict):
        return True
    more = schema.get("additionalProperties", {})
    return all(name in value for name in schema.get("required", [])) and all(
        check_schema(schema["properties"][name], member) if name in schema.get("properties", {}) else
        more is not False and check_schema(more if isinstance(more, dict) else {}, member) for name, member in value.items())


SAMPLES = [None, True, -1, 0, 1, 5, 10 ** 15, "x", "", [], ["a"], [1], {}, {"a": 1}, {"a": "b"}, {"wallMs": 5}, {"wallMs": "x"}, {"wallMs": -1}, {"memoryBytes": 3},
           {"a": {"content": "x"}}, {"a": {"content": "x", "mode": 0}}, {"a": {"directory": False}}, {"a": {"symlink": "b"}}, {"includeChanges": True},
           {"includeChanges": 1}, {"$": "bytes", "b64": "AA=="}, {"$": "bytes"}]
WHOLE = {"/v1/call": {"language": "python", "code": "return 1"}, "/v1/script": {"language": "python", "code": "1"},
         "/v1/evaluate": {"language": "javascript", "code": "1"}, "/v1/prefixes": {"language": "python", "code": "1"}, "/v1/sync": {}, "/v1/images/{image}/verify": {}, "/v1/images/prune": {},
         "/v1/images/{image}/warm": {"languages": ["python"]}, "/v1/snapshots/{snapshot}/copy": {"to": "b"},
         "/v1/volumes": {"volume": "data", "sizeBytes": 16777216}}


def test_the_openapi_document_says_what_the_server_does():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        status, document = http.get("/openapi.json")
        assert status == 200 and document["openapi"] == "3.1.0"
        names = [operation["operationId"] for item in document["paths"].values() for operation in item.values()]
        assert len(set(names)) == len(names)
        document["paths"] = {path: item for path, item in document["paths"].items() if not path.startswith("/v1/sandboxes")}  # sandbox-web.py
        verbs = {(path, verb.upper()) for path, item in document["paths"].items() for verb in item}
        assert len(verbs) == 32, verbs
        for path, verb in sorted(verbs):
            answer, _ = http.request(verb, path.replace("{", "x").replace("}", ""), body={} if verb == "POST" else None)
            assert answer in (200, 400, 404) or (answer == 403 and path.startswith("/v1/images")), (path, verb, answer)
            assert http.request("PATCH", path.replace("{", "x").replace("}", ""))[0] == 405
        refused = 0
        for path, item in document["paths"].items():
            if "post" not in item:
                continue
            schema = item["post"]["requestBody"]["content"]["application/json"]["schema"]
            assert check_schema(schema, WHOLE[path])
            assert not check_schema(schema, {**WHOLE[path], "unknown": 1})
            for name in [*schema["properties"], "unknown"]:
                for sample in SAMPLES:
                    body = {**WHOLE[path], name: sample}
                    if not check_schema(schema, body):
                        answer, error = http.request("POST", path, body=body)
                        assert answer == 400 and error["error"]["name"] == "invalid_argument", (path, name, sample, answer, error)
                        refused += 1
            for name in schema.get("required", []):
                body = {key: value for key, value in WHOLE[path].items() if key != name}
                assert not check_schema(schema, body) and http.request("POST", path, body=body)[0] == 400
        assert refused > 1000, refused
        # Values that the schema permits are not refused for their shape.
        schema = document["paths"]["/v1/call"]["post"]["requestBody"]["content"]["application/json"]["schema"]
        for more in ({"args": []}, {"kwargs": {}}, {"limits": {"wallMs": 5000, "pids": 0}}, {"files": {"a": {"content": "x", "mode": 384}}},
                     {"resultOptions": {"includeChanges": False}}, {"filename": "x.py"}, {"stream": False}, {"warm": False}):
            body = {**WHOLE["/v1/call"], **more}
            assert check_schema(schema, body) and http.request("POST", "/v1/call", body=body)[0] == 200, more
