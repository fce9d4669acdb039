"""Two callers of one daemon: objects of one do not exist for the other, in all requests, and no
response reveals them."""
import json
import os

from hostile_sandboxes import Daemon, Frames, OTHER_UID, as_another
from cloche import equal, skip
from http_client import Http
from sandbox_client import Socket, read_raw, serve_in, wait_for

BASE = "preview.test"
PARAMS = {"session": "s", "process": "p", "command": "true", "path": "/workspace/secret", "content": "stolen", "from": "secret", "to": "x", "text": "s", "pattern": "s", "replacement": "t", "port": 8080, "env": {}, "output": "output-1",
          "stream": "stdout", "url": "https://nowhere.invalid/x", "cols": 80, "rows": 24, "data": "x", "signal": "KILL", "token": "guess"}


def need_root():
    if os.geteuid() != 0:
        skip("another user's connection is made by root")


def start(*more):
    return Daemon("--allow-uid", str(OTHER_UID), "--preview-host", BASE, *more, tcp=True)


def operations(http):
    """All operations on a sandbox: method as in HTTP, path, and required params."""
    for path, item in http.get("/openapi.json")[1]["paths"].items():
        for verb, operation in item.items():
            if path.startswith("/v1/sandboxes/{sandbox}"):
                schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
                yield verb.upper(), path, schema.get("required", []), schema.get("properties", {})


def make_mine(frames):
    frames.call("sandbox.create", sandbox="mine", labels={"secret": "label"})
    frames.call("session.create", sandbox="mine", session="s")
    frames.call("file.write", sandbox="mine", path="secret", content="secret text")
    frames.call("exec", sandbox="mine", command="echo secret output")
    frames.call("process.start", sandbox="mine", process="p", command="echo secret line; exec sleep 1000")
    serve_in(frames, "mine")
    return frames.call("port.expose", sandbox="mine", port=8080)


def test_what_is_one_callers_is_nobody_elses():
    need_root()
    with start() as daemon, daemon.frames() as mine, Frames(as_another(daemon)) as other, Frames(daemon.connect_tcp(), token=daemon.token) as third:
        exposed = make_mine(mine)
        for name, client, http in (("another user", other, lambda: Http(as_another(daemon))), ("who has the token", third, lambda: Http(daemon.connect_tcp(), daemon.token))):
            http, count = http(), 0
            for verb, path, required, properties in operations(http):
                if path.endswith(("/terminal", "/events", "/watch", "/raw", "/tree")) or verb == "DELETE":
                    continue
                body = {field: PARAMS.get(field, "x") for field in required}
                body.update({"timeoutMs": 2000} if "timeoutMs" in properties else {})
                status, said = http.request(verb, path.replace("{sandbox}", "mine"), body if verb != "GET" else None)
                text = json.dumps(said)
                assert "secret text" not in text and "secret output" not in text and "secret line" not in text and '"label"' not in text and exposed["token"] not in text, (name, path, said)
                count += 1
            assert count > 35, count
            status, own = http.get("/v1/sandboxes/mine")
            assert status in (200, 404) and (status == 404 or own["labels"] == {}), "if it is there, it is his own"
            assert http.begin("GET", "/v1/sandboxes/mine/raw?path=secret") in (200, 404) and b"secret text" not in read_raw(http)
            assert http.begin("GET", "/v1/sandboxes/mine/tree?path=/workspace&format=tar") == 200 and b"secret text" not in read_raw(http)
            with Socket(http.socket, "/v1/sandboxes/mine/process/follow", http.token) as stream:
                stream.say(process="process-1")
                assert all("secret" not in json.dumps(message) for message in stream.messages())
            own = [box["sandbox"] for box in client.call("sandbox.list")["sandboxes"]]
            assert "mine" in own and len(own) == 3, own  # its fork, and one that was renamed
            for box in own:
                equal(client.call("sandbox.delete", sandbox=box), {})
            equal(client.call("sandbox.list"), {"sandboxes": []})
            for snapshot in client.call("snapshot.list")["snapshots"]:
                equal(client.call("snapshot.delete", snapshot=snapshot["snapshot"]), {})
        assert mine.call("file.read", sandbox="mine", path="secret")["content"] == "secret text"
        assert mine.call("process.get", sandbox="mine", process="p")["status"] == "running" and len(mine.call("port.list", sandbox="mine")["exposed"]) == 1
        assert mine.call("sandbox.get", sandbox="mine")["labels"] == {"secret": "label"}


def test_there_or_not_it_is_refused_alike():
    need_root()
    with start() as daemon, daemon.frames() as mine, Frames(as_another(daemon)) as other:
        make_mine(mine)
        for method, params in (("sandbox.get", {}), ("sandbox.update", {"labels": {}}), ("sandbox.stop", {}), ("sandbox.save", {})):
            errors = [other.refused(method, sandbox=name, **params) for name in ("mine", "none")]
            assert errors[0].name == errors[1].name == "not_found" and errors[0].message.replace("mine", "none") == errors[1].message, (method, errors)
        assert other.call("sandbox.delete", sandbox="mine") == other.call("sandbox.delete", sandbox="none") == {}
        assert other.call("sandbox.create", sandbox="mine")["created"] is True
        assert mine.call("sandbox.get", sandbox="mine")["labels"] == {"secret": "label"}  # the twin
        number = mine.ask("exec", sandbox="mine", command="sleep 1000")
        assert other.call("cancel", id=number) == {"found": False} and mine.call("cancel", id=number) == {"found": True}


def test_only_who_may_connects():
    need_root()
    with Daemon(tcp=True) as daemon:
        assert as_another(daemon) is None
    with start() as daemon, Http(as_another(daemon)) as http:
        assert http.get("/health")[0] == 200  # the twin


def test_previews_are_by_token_alone():
    need_root()
    with start() as daemon, daemon.frames() as mine, Frames(as_another(daemon)) as other:
        token = make_mine(mine)["token"]
        assert len(token) >= 16
        other.call("sandbox.create", sandbox="mine")
        serve_in(other, "mine")
        his = other.call("port.expose", sandbox="mine", port=8080)["token"]
        assert his != token

        def ask(words, connect=daemon.connect_tcp, **headers):
            with Http(connect(), host=f"{words}.{BASE}") as http:
                status = http.begin("GET", "/", headers=headers)
                return status, read_raw(http)
        assert ask(f"8080-mine-{token}")[0] == ask(f"8080-mine-{token}", lambda: as_another(daemon))[0] == 200, "who has the token may be anybody"
        assert ask(f"8080-mine-{his}")[0] == 200
        refusals = {ask(words)[1]: words for words in (f"8080-mine-{token[:-1]}", f"8080-none-{token}", f"8081-mine-{token}", "8080-mine-guess", f"8080-mine-{'a' * len(token)}")}
        assert len(refusals) == 1 and ask("8080-mine-guess")[0] == 404, refusals
        for host in (f"8080-mine-{token}",):  # a preview's token opens nothing else
            with Http(daemon.connect_tcp(), token) as http:
                assert http.get("/v1/sandboxes")[0] == 401
        mine.call("port.unexpose", sandbox="mine", port=8080)
        assert ask(f"8080-mine-{token}")[0] == 404 and ask(f"8080-mine-{his}")[0] == 200
        again = mine.call("port.expose", sandbox="mine", port=8080)["token"]
        assert again != token and ask(f"8080-mine-{token}")[0] == 404 and ask(f"8080-mine-{again}")[0] == 200, "a token that was taken back stays so"
        mine.call("sandbox.delete", sandbox="mine")
        assert ask(f"8080-mine-{again}")[0] == 404 and ask(f"8080-mine-{his}")[0] == 200


# Runs forked from one interpreter share the places of its libraries, and the seed of its hashes.
SECRETS = "return [hash('a text'), sorted({line.split('-')[0] for line in open('/proc/self/maps') if 'libc.so' in line or '[stack]' in line or '[heap]' in line})]"


def test_tenants_share_no_interpreter():
    """Code that reads its own addresses and hash seed reads its own tenant's. The twin: one tenant's calls are forked from one interpreter."""
    need_root()
    with start() as daemon, daemon.frames() as one:
        other = Frames(as_another(daemon))

        def called(frames):
            return frames.call("call", language="python", code=SECRETS, warm=True)["result"]

        def cell(frames):
            frames.call("sandbox.create", sandbox="box")
            frames.call("context.create", sandbox="box", context="c")
            answer = frames.call("context.run", sandbox="box", context="c", code=SECRETS.replace("return", "print(", 1) + ")")
            return answer["stdout"]

        ours, theirs = called(one), called(other)
        assert called(one) == ours, "a tenant's second call is forked from the same interpreter"
        assert ours[0] != theirs[0] and not set(ours[1]) & set(theirs[1]), (ours, theirs)
        assert cell(one) != cell(other)
        built = [frames.call("call", language="c", code="int add(int a, int b) { return a + b; }", args=[40, 2])["result"] for frames in (one, other)]
        assert built == [42, 42], built
        other.close()


def test_an_interpreter_does_not_last_for_ever():
    """After enough forks another one takes its place, whose secrets are others. The twin: a prefix keeps its own, whose set-up is not run again."""
    with Daemon("--base-forks", "3") as daemon, daemon.frames() as frames:
        prefix = frames.call("prefix.create", language="python", code="import random; born = random.random()")["prefix"]
        born = frames.call("call", prefix=prefix, code="return born")["result"]

        def called():
            return frames.call("call", language="python", code=SECRETS, warm=True)["result"][0]

        first = called()
        wait_for(lambda: called() != first, 40)
        assert frames.call("call", prefix=prefix, code="return born")["result"] == born
