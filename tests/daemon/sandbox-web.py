#!/usr/bin/python3
"""Sandboxes over HTTP: JSON, streams of events, paths and verbs of the table, and refusals."""
import base64
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import Daemon, Gone
from sandbox_client import read_events, wait_for

A = "/v1/sandboxes/a"


def test_operations():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        status, made = http.post("/v1/sandboxes", sandbox="a", env={"WORD": "x"}, labels={"of": "me"})
        assert status == 201 and made["created"] is True and made["labels"] == {"of": "me"}
        assert http.post("/v1/sandboxes", sandbox="a")[1]["created"] is False
        assert http.post(A + "/exec", command="echo $WORD")[1]["stdout"] == "x\n"
        assert http.post(A + "/exec", command="printf '\\xff'")[1]["stdout"] == {"$": "bytes", "b64": "/w=="}
        assert http.post(A + "/file/write", path="f", content={"$": "bytes", "b64": "AP8="})[1]["bytes"] == 2
        assert http.post(A + "/file/read", path="f")[1]["content"] == {"$": "bytes", "b64": "AP8="}
        assert http.request("PATCH", A, {"labels": {"of": "you"}})[1]["labels"] == {"of": "you"}
        assert http.get(A)[1]["state"] == "running"
        assert [box["sandbox"] for box in http.get("/v1/sandboxes")[1]["sandboxes"]] == ["a"]
        status, process = http.post(A + "/process/start", process="p", command="sleep 1000")
        assert status == 201 and process["status"] == "running"
        assert http.post(A + "/process/kill", process="p", signal="KILL")[0] == 200
        assert http.post(A + "/session/list")[0] == 200
        assert http.begin("POST", A + "/session/list", headers={"Content-Type": "application/json", "Content-Length": "0"}) == 200 and http.read_body()
        assert http.request("DELETE", A) == (200, {}) and http.get(A)[0] == 404


def test_errors_have_a_status():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        for verb, path, body, status, name in (
                ("POST", A + "/exec", {}, 400, "invalid_argument"), ("POST", A + "/exec", {"command": "x", "sandbox": "b"}, 400, "invalid_argument"),
                ("POST", A + "/exec", {"command": {"$": "bytes", "b64": "?"}}, 400, None), ("POST", A + "/exec", {"command": {"$": "bytes", "at": 0, "n": 0}}, 400, None),
                ("POST", A + "/exec", b"[]", 400, "invalid_json"), ("POST", A + "/exec", b"{", 400, "invalid_json"), ("GET", A, {}, 400, "invalid_argument"),
                ("POST", A + "/file/read", {"path": "none"}, 404, "file_not_found"), ("POST", A + "/process/get", {"process": "p"}, 404, "not_found"),
                ("PUT", A + "/exec", None, 405, "invalid_argument"), ("DELETE", "/v1/sandboxes", None, 405, "invalid_argument"),
                ("GET", "/v1/sandboxes/", None, 404, "not_found"), ("GET", "/v1/sandboxes//exec", None, 404, "not_found"),
                ("POST", "/v1/sandboxes/a/exec/", {}, 404, "not_found"), ("POST", "/v1/sandboxes/a/b/exec", {}, 404, "not_found"),
                ("GET", "/v1/sandboxes/" + "x" * 64, None, 400, "invalid_argument"), ("GET", "/v1/sandboxes/none", None, 404, "not_found")):
            answer, error = http.request(verb, path, body)
            assert answer == status and (name is None or error["error"]["name"] == name), (verb, path, body, answer, error)
        assert http.request("PUT", A + "/exec")[0] == 405 and set(http.headers["allow"].split(", ")) == {"POST", "GET"}
        assert http.begin("POST", A + "/exec", b'{"command": "true"}', {"Content-Type": "text/plain"}) == 400 and http.read_body()
        assert http.begin("PATCH", A, b"{}", {"Content-Type": "text/plain"}) == 400 and http.read_body()


NAMES = ["..", "%2e%2e", "a%2fb", "a%00", "-a", "a-", "a b", "a%20b", "\xe9", "a.b", "a_b", "~", "a;b", "a\\b", "a:1", "x" * 5000]


def test_names_are_taken_as_they_are():
    with Daemon() as daemon:
        for name in NAMES:
            for path in ("", "/exec", "/raw?path=x", "/terminal", "/container/api/ping"):
                with Http(daemon.connect()) as http:
                    body = b'{"command":"true"}'
                    verb = "POST" if path == "/exec" else "GET"
                    http.socket.sendall(f"{verb} /v1/sandboxes/{name}{path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                                        f"Content-Length: {len(body) if verb == 'POST' else 0}\r\n\r\n".encode("latin-1") + (body if verb == "POST" else b""))
                    try:
                        status = http.read_head()
                    except Gone:
                        continue  # that was no request at all
                    assert status in (400, 404, 405, 414, 431), (name, path, status)
        with Http(daemon.connect()) as http:
            assert http.get("/v1/sandboxes")[1] == {"sandboxes": []}, "and none of them made anything"


def test_streams_of_events():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.begin("POST", A + "/exec", {"command": "echo one; sleep 0.2; echo two >&2; printf '\\xff'; exit 3"}, accept="text/event-stream")
        assert http.headers["content-type"] == "text/event-stream"
        events = list(read_events(http))
        assert events[-1][0] == "result" and events[-1][1]["exitCode"] == 3
        said = {(about["stream"], about["data"] if isinstance(about["data"], str) else base64.b64decode(about["data"]["b64"]))
                for name, about in events if name == "output"}
        assert said == {("stdout", "one\n"), ("stderr", "two\n"), ("stdout", b"\xff")}, said
        assert http.post(A + "/exec", {"Accept": "text/event-stream"})[0] == 400, "what is refused at once has a status"
        status, error = http.post(A + "/process/follow", {"Accept": "text/event-stream"}, process="none")
        assert status == 404 and error["error"]["name"] == "not_found", error
        http.begin("POST", A + "/git/checkout", {"url": "file:///none"}, accept="text/event-stream")
        events = list(read_events(http))
        assert events[-1][0] == "error" and events[-1][1]["error"]["name"].startswith("git"), events
        assert http.get("/health")[0] == 200, "the connection goes on"


def test_who_closes_the_connection_cancels():
    with Daemon() as daemon:
        with daemon.frames() as frames:
            frames.call("session.create", sandbox="a", session="other")
        for accept in ("text/event-stream", None):
            with Http(daemon.connect()) as http:
                body = json.dumps({"command": "echo go; sleep 1000"}).encode()
                http.send_head("POST", A + "/exec", {"Host": "a", "Content-Type": "application/json", "Content-Length": str(len(body)),
                                                     **({"Accept": accept} if accept else {})})
                http.socket.sendall(body)
                if accept:
                    http.read_head()
                    next(read_events(http))
                else:
                    with daemon.frames() as frames:
                        wait_for(lambda: frames.call("exec", sandbox="a", command="ps ax | grep -c '[s]leep 1000'", session="other")["stdout"] == "1\n")
            with daemon.frames() as frames:
                wait_for(lambda: frames.call("exec", sandbox="a", command="ps ax | grep -c '[s]leep 1000'", session="other")["stdout"] == "0\n")


def test_an_idle_stream_is_kept_awake():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.begin("POST", A + "/events", {}, accept="text/event-stream")
        for name, _ in read_events(http):
            if name == "":
                break  # a comment came, though nothing happened


SAMPLES = [None, True, -1, 1, 10 ** 17, "x", [], ["a"], [1], {}, {"a": 1}, {"a": "b"}, {"$": "bytes", "b64": "AA=="}, {"$": "bytes"}]


def test_every_row_refuses_what_it_does_not_have():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        document = http.get("/openapi.json")[1]["paths"]
        count = 0
        for path, item in document.items():
            for verb, operation in item.items():
                if not path.startswith("/v1/sandboxes") or "application/json" not in operation.get("requestBody", {}).get("content", {}):
                    continue
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                status, error = http.request(verb.upper(), path.replace("{sandbox}", "a"), {"no-such": 1})
                assert status == 400 and "no-such" in error["error"]["message"], (path, error)
                for name, kind in schema["properties"].items():
                    for sample in SAMPLES:
                        if kind.get("type") in ("string", "boolean", "integer", "array") and type(sample).__name__ != {
                                "string": "str", "boolean": "bool", "integer": "int", "array": "list"}[kind["type"]]:
                            status, error = http.request(verb.upper(), path.replace("{sandbox}", "a"), {name: sample})
                            assert status == 400 and error["error"]["name"] in ("invalid_argument", "invalid_json"), (path, name, sample, error)
                            count += 1
        assert count > 500 and len([path for path in document if path.startswith("/v1/sandboxes")]) > 40, count
        assert http.get("/v1/sandboxes")[1] == {"sandboxes": []}


def test_metrics_count_sandboxes():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.post(A + "/process/start", command="sleep 1000")
        text = http.get("/metrics")[1]
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        assert values["cloche_sandboxes"] == values["cloche_sandboxes_running"] == values["cloche_sandbox_processes"] == "1", values
