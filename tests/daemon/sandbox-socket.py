#!/usr/bin/python3
"""WebSockets of sandboxes: terminals, and requests whose parameters are the first message."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import Daemon
from sandbox_client import IS_SANITIZED, Socket, wait_for

A = "/v1/sandboxes/a"


def test_exec_and_follow():
    with Daemon() as daemon, daemon.frames() as frames:
        with Socket(daemon.connect(), A + "/exec") as s:
            assert s.status == 101
            s.say(command="echo one; sleep 0.1; printf '\\xff'; echo two >&2")
            messages = list(s.messages())
            assert messages[-1]["result"]["exitCode"] == 0 and s.closed == 1000
            assert {"event": "output", "about": {"stream": "stdout", "data": "one\n"}} in messages, messages
            assert {"event": "output", "about": {"stream": "stderr", "data": "two\n"}} in messages
            assert {"event": "output", "about": {"stream": "stdout", "data": {"$": "bytes", "b64": "/w=="}}} in messages
        with Socket(daemon.connect(), A + "/exec") as s:
            s.say(command="cat", stdin={"$": "bytes", "b64": "aGk="}, stream=False)
            assert [message["result"]["stdout"] for message in s.messages()] == ["hi"]
        frames.call("process.start", sandbox="a", process="p", command="echo started; sleep 0.2; exit 4")
        with Socket(daemon.connect(), A + "/process/follow") as s:
            s.say(process="p")
            assert list(s.messages())[-1]["result"]["exitCode"] == 4
        for path, text in ((A + "/exec", "{"), (A + "/exec", "[]"), (A + "/exec", "{}"), (A + "/exec", '{"command": "x", "sandbox": "b"}'),
                           (A + "/exec", '{"command": 1}'), (A + "/process/follow", '{"process": "none"}'), (A + "/exec", '{"command": "x", "what": 1}')):
            with Socket(daemon.connect(), path) as s:
                s.send(text)
                messages = list(s.messages())
                assert list(messages[0]) == ["error"] and len(messages) == 1, (text, messages)
        with Socket(daemon.connect(), A + "/exec") as s:
            s.say(command="sleep 1000")
            s.say(command="true")
            assert s.receive() is None and s.closed == 1008
        with Socket(daemon.connect(), A + "/exec") as s:
            s.send(b"bytes")
            assert s.receive() is None and s.closed == 1003
        with Http(daemon.connect()) as http:
            assert http.get(A + "/exec")[0] == 400, "a WebSocket must be asked for"


def test_a_large_output_and_a_slow_reader():
    with Daemon() as daemon:
        with Socket(daemon.connect(), A + "/exec") as s:
            s.say(command="yes | head -c 20000000", outputBytes=10)
            before = daemon.memory()
            time.sleep(0.5)
            assert daemon.memory() - before < 30 << 20 or IS_SANITIZED
            messages = list(s.messages())
            assert sum(len(message["about"]["data"]) for message in messages[:-1]) == 20000000 and "result" in messages[-1]


def test_who_closes_it_cancels():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("session.create", sandbox="a", session="other")
        with Socket(daemon.connect(), A + "/exec") as s:
            s.say(command="echo go; sleep 1000")
            assert json.loads(s.receive())["event"] == "output"
        wait_for(lambda: frames.call("exec", sandbox="a", session="other", command="ps ax | grep -c '[s]leep 1000'")["stdout"] == "0\n")


def test_terminals():
    with Daemon() as daemon, daemon.frames() as frames:
        with Socket(daemon.connect(), A + "/terminal?cols=100&rows=30") as s:
            ready = json.loads(s.receive())
            assert ready["type"] == "ready" and ready["process"]["status"] == "running", ready
            s.send(b"stty size; tty | grep -c pts; A=5\n")
            assert b"30 100" in s.until(b"1\r\n")
            s.say(type="resize", cols=70, rows=20)
            s.send(b"sleep 0.2; stty size\n")
            s.until(b"20 70\r\n")
            with Socket(daemon.connect(), A + "/terminal") as other:  # the same one
                assert json.loads(other.receive())["process"]["process"] == ready["process"]["process"]
                other.until(b"20 70\r\n")
                other.send(b"echo both $((A + 1))\n")
                other.until(b"both 6\r\n")
                s.until(b"both 6\r\n")
            s.send(b"exit 7\n")
            last = [message for message in s.messages() if isinstance(message, dict)][-1]
            assert last["type"] == "exit" and last["exitCode"] == 7 and s.closed == 1000, last
        with Socket(daemon.connect(), A + "/terminal?shell=" + "cat") as s:  # it has ended: a new one is made
            s.receive()
            s.send(b"echoed\n")
            s.until(b"echoed\r\nechoed\r\n")
        assert [process["status"] for process in frames.call("process.list", sandbox="a")["processes"]] == ["running"], "it stays when its viewers go"


def test_what_terminals_refuse():
    with Daemon() as daemon:
        with Http(daemon.connect()) as http:
            upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "x" * 22 + "=="}
            for query in ("cols=0", "cols=1001", "rows=x", "what=1", "cols=1&cols=2", "session=%ff", "session=%00"):
                assert http.request("GET", A + "/terminal?" + query, headers=upgrade)[0] == 400, query
            assert http.get(A + "/terminal")[0] == 400
        for text in ("{", "{}", '{"type": "resize"}', '{"type": "resize", "cols": 0, "rows": 5}', '{"type": "what"}'):
            with Socket(daemon.connect(), A + "/terminal") as s:
                s.receive()
                s.send(text)
                assert any(isinstance(message, dict) and message["type"] == "error" for message in s.messages()), text
        with Socket(daemon.connect(), A + "/terminal?session=none") as s:
            assert json.loads(s.receive())["type"] == "error", "its session must be there"


def test_tokens_and_origins():
    with Daemon("--allow-origin", "https://good.example", tcp=True) as daemon:
        for path in (A + "/exec", A + "/terminal"):
            for protocols, status, chosen in ((None, 401, None), ("cloche", 401, None), ("cloche, cloche.token.wrong", 401, None), (f"cloche.token.{daemon.token}x", 401, None),
                                              (f"cloche, cloche.token.{daemon.token}", 101, "cloche"), (f"cloche.token.{daemon.token}", 101, f"cloche.token.{daemon.token}")):
                with Socket(daemon.connect_tcp(), path, headers={"Sec-WebSocket-Protocol": protocols, "Origin": "https://good.example"}) as s:
                    assert s.status == status and s.headers.get("sec-websocket-protocol") == chosen, (path, protocols, s.status, s.headers)
            with Socket(daemon.connect_tcp(), path, headers={"Sec-WebSocket-Protocol": f"cloche.token.{daemon.token}", "Origin": "https://evil.example"}) as s:
                assert s.status == 403
            with Socket(daemon.connect_tcp(), path, host="evil.example", headers={"Sec-WebSocket-Protocol": f"cloche.token.{daemon.token}"}) as s:
                assert s.status == 403
            with Socket(daemon.connect_tcp(), path, token=daemon.token) as s:
                assert s.status == 101
        with Http(daemon.connect_tcp()) as http:  # of a WebSocket only
            assert http.get(A, **{"Sec-WebSocket-Protocol": "cloche.token." + daemon.token})[0] == 401
