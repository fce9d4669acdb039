"""Messages of MCP to the client: questions, log messages, changes of files, and streams that are fetched again."""
import json
import os
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from messages import META, MODERN, Http, OtherHttp, Stdio, call, modern, request
from cloche import equal
from rpc import Daemon
from sandbox_client import IS_SANITIZED

VERSION = "2025-11-25"
ASKED = {**META, "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}}


def hello(**capabilities):
    return request("initialize", protocolVersion=VERSION, capabilities=capabilities, clientInfo={"name": "x", "version": "1"})


class Stream:
    """Events of one answer."""

    def __init__(self, http, body, verb="POST", **headers):
        self.connection = http.open(body, verb, **headers)
        self.answer = self.connection.getresponse()
        equal((self.answer.status, self.answer.headers["Content-Type"]), (200, "text/event-stream"))
        self.last = None

    def event(self):
        """Id and text of the next one; None: the stream has ended."""
        fields = {}
        while (line := self.answer.readline()) not in (b"\n", b""):
            name, _, value = line.decode().rstrip("\n").partition(": ")
            fields[name] = value
        if not line:
            return None
        if "data" not in fields:  # a comment
            return self.event()
        self.last = fields.get("id", self.last)
        return fields["data"]

    def message(self):
        text = self.event()
        return json.loads(text) if text else text if text is None else self.message()  # the first may be empty

    def close(self):
        self.answer.close()
        self.connection.close()


class Session:
    """A client of the earlier era over HTTP."""

    def __init__(self, http, **capabilities):
        self.http = http
        _, names, self.started = http.send(hello(**capabilities))
        self.headers = {"Mcp-Session-Id": names["mcp-session-id"], "MCP-Protocol-Version": VERSION}

    def ask(self, message):
        return self.http.ask(message, **self.headers)

    def stream(self, message, verb="POST", **headers):
        return Stream(self.http, message, verb, **self.headers, **headers)

    def send(self, message, verb="POST", **headers):
        return self.http.send(message, verb, **self.headers, **headers)[0]


def code_of(answer):
    return answer["error"]["code"]


def check_watches(http):
    session = Session(http)
    session.ask(call("run_command", command="mkdir -p dir; echo one > dir/file"))
    uri = "cloche://default/files/workspace/dir/file"
    listener = session.stream(None, "GET")
    equal(listener.event(), "")  # the point from which the stream can be resumed
    equal(session.ask(request("resources/subscribe", uri=uri))["result"], {})
    equal(session.ask(request("resources/subscribe", uri=uri))["result"], {})  # again: the same
    session.ask(call("run_command", command="echo other > dir/other; echo two > dir/new; mv dir/new dir/file"))
    told = listener.message()
    equal((told["method"], told["params"]), ("notifications/resources/updated", {"uri": uri}))
    session.ask(call("run_command", command="for i in {1..1000}; do echo $i > dir/file; done; echo end > dir/last"))
    last = "cloche://default/files/workspace/dir/last"
    equal(session.ask(request("resources/subscribe", uri=last))["result"], {})
    session.ask(call("write_file", path="dir/last", text=""))
    told = []
    while not {uri, last} <= set(told):
        told.append(listener.message()["params"]["uri"])
    assert len(told) < 200, told  # four a second of each
    for bad in ("cloche://nobody/files/etc/passwd", "cloche://default/files/workspace/none/file", "cloche://default/processes/x/stdout", "file:///etc"):
        equal(code_of(session.ask(request("resources/subscribe", uri=bad))), -32602, bad)
    equal(session.ask(request("resources/unsubscribe", uri=uri))["result"], {})
    again = session.stream(None, "GET")  # takes the place of the first
    equal(again.event(), "")
    while listener.event() is not None:  # changes until it was unsubscribed
        pass
    equal(session.send(None, "DELETE"), 204)
    equal(again.event(), None)
    equal([session.send(request("ping")), session.send(None, "DELETE"), session.send(None, "GET")], [404, 404, 404])
    equal(code_of(http.ask(request("resources/subscribe", uri=uri))), -32602)  # it has no session


def check_ended_watches(http, daemon):
    """The client may end a watch before it has begun, and begin it again when its sandbox is another one."""
    with Stdio("--socket", daemon.path, "--sandbox", "ended") as stdio:
        uri = "cloche://ended/files/workspace/file"
        stdio.ask(hello())
        stdio.ask(call("write_file", path="file", text=""))
        stdio.write("\n".join(json.dumps(request(f"resources/{verb}", number, uri=uri)) for number, verb in enumerate(("subscribe", "unsubscribe"))).encode())
        equal({stdio.read()["id"], stdio.read()["id"]}, {0, 1})
        equal(stdio.ask(request("resources/subscribe", uri=uri))["result"], {})
        for message in (call("delete_sandbox", 2), call("write_file", 3, path="file", text=""), request("resources/subscribe", 4, uri=uri)):  # a watch ends with its sandbox
            stdio.write(message)
            while stdio.read().get("id") != message["id"]:
                pass
        stdio.write(call("write_file", 5, path="file", text="again"))
        answers = [stdio.read(), stdio.read()]
        while not any(one.get("id") == 5 for one in answers) or not any(one.get("method") for one in answers):
            answers.append(stdio.read())
    session = Session(http)
    asking = session.http.open(request("resources/subscribe", uri=uri), **session.headers)
    equal(session.send(None, "DELETE"), 204)
    assert json.loads(asking.getresponse().read()).keys() & {"result", "error"}


def check_watches_that_end_before_they_begin(http):
    """Their client does not wait for an answer."""
    uri = "cloche://default/files/workspace/dir/file"
    for message, verb in ((None, "DELETE"), (request("resources/unsubscribe", uri=uri), "POST")):
        for _ in range(5):
            session = Session(http)
            asker, ender = http.open(request("resources/subscribe", uri=uri), **session.headers), http.open(message, verb, **session.headers)
            equal(ender.getresponse().status, 200 if message else 204)
            answer = json.loads(asker.getresponse().read())
            assert answer.get("result") == {} or code_of(answer) == -32602, answer
    equal(http.ask(request("ping"))["result"], {})


def check_later_watches(http):
    uri = "cloche://default/files/workspace/dir/file"
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [uri, "cloche://nobody/files/x"], "unknown": True}
    listener = Stream(http, modern("subscriptions/listen", "listen", notifications=wanted), **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"})
    tag = {"io.modelcontextprotocol/subscriptionId": "listen"}
    told = listener.message()
    equal((told["method"], told["params"]), ("notifications/subscriptions/acknowledged", {"notifications": {"toolsListChanged": True, "resourceSubscriptions": [uri]}, "_meta": tag}))
    http.ask(call("run_command", command="echo three > dir/file"))
    told = listener.message()
    equal((told["method"], told["params"]), ("notifications/resources/updated", {"uri": uri, "_meta": tag}))
    equal(code_of(http.ask_modern(modern("subscriptions/listen", notifications={}), Accept="application/json")[1]), -32602)  # not a stream
    for bad in ({}, {"notifications": 1}, {"notifications": {"resourceSubscriptions": [1]}}):
        equal(code_of(http.ask_modern(modern("subscriptions/listen", **bad))[1]), -32602)
    return listener  # it ends with the daemon


def check_resumption(http):
    session, other = Session(http), Session(http)
    message = call("run_command", 7, command="echo begun; until [ -e go ]; do sleep 0.01; done; echo on; exit 3")
    message["params"]["_meta"] = {"progressToken": 1}
    stream = session.stream(message)
    equal(stream.event(), "")
    equal(stream.message()["params"]["message"], "begun")
    last = stream.last
    stream.close()  # the client loses its connection
    equal(other.send(None, "GET", Last_Event_ID=last), 404)
    resumed = session.stream(None, "GET", Last_Event_ID=last)
    session.ask(call("run_command", command="touch go", session="side"))
    answers = []
    while (told := resumed.message()) is not None:
        answers.append(told)
    equal((answers[-1]["id"], answers[-1]["result"]["structuredContent"]["exit_code"]), (7, 3))
    equal(session.send(None, "GET", Last_Event_ID=last), 404)  # it was fetched


def answer_to(asked, **result):
    return {"jsonrpc": "2.0", "id": asked["id"], "result": result}


def check_questions(http):
    session = Session(http, elicitation={})
    http.ask(call("create_sandbox", sandbox="asked"))

    def ask(**result):
        stream = session.stream(call("set_network", allow=["a.example:443"], sandbox="asked"))
        asked = stream.message()
        equal(asked["method"], "elicitation/create")
        assert '["a.example:443"]' in asked["params"]["message"] and "asked" in asked["params"]["message"], asked
        equal(session.send({"jsonrpc": "2.0", "id": "no-such", "result": {}}), 202)  # to nothing
        equal(session.send(answer_to(asked, **result)), 202)
        return stream.message()

    equal(ask(action="accept", content={"permit": True})["result"]["structuredContent"]["network"]["allow"], ["a.example:443"])
    for refusal in ({"action": "decline"}, {"action": "cancel"}, {"action": "accept", "content": {"permit": False}}, {"action": "accept"}):
        assert ask(**refusal)["result"]["isError"], refusal
    stream = session.stream(call("set_network", allow=[], sandbox="asked"))
    session.send({"jsonrpc": "2.0", "id": stream.message()["id"], "error": {"code": 1, "message": "not now"}})
    assert "not now" in stream.message()["error"]["message"]
    for client in (Session(http).ask, http.ask):  # without the capability, and without a session
        refused = client(call("set_network", allow=["b.example"], sandbox="asked"))["result"]
        assert refused["isError"] and "elicitation" in refused["content"][0]["text"], refused
    equal(code_of(session.ask(call("set_network", allow=[], sandbox="never-made"))), -32602)
    stream = session.stream(call("create_sandbox", sandbox="with-network", network={"allow": ["c.example"]}))
    session.send(answer_to(stream.message(), action="decline"))
    assert stream.message()["result"]["isError"]
    assert "with-network" not in [box["sandbox"] for box in http.ask(call("list_sandboxes"))["result"]["structuredContent"]["sandboxes"]]
    denied = session.ask(call("explain_denial", host="d.example", sandbox="asked"))["result"]["structuredContent"]
    assert "set_network" in denied["remedy"], denied


def check_later_questions(http):
    def ask(allow, **more):
        message = call("set_network", allow=allow, sandbox="asked")
        message["params"].update(_meta=ASKED, **more)
        return http.ask_modern(message)

    yes = {"network": {"action": "accept", "content": {"permit": True}}}
    first = ask(["e.example"])[1]["result"]
    equal((first["resultType"], list(first["inputRequests"])), ("input_required", ["network"]))
    state = first["requestState"]
    for more in ({"inputResponses": yes}, {"requestState": state}, {"requestState": state, "inputResponses": {"network": 1}}, {"requestState": state, "inputResponses": {"network": {"action": "perhaps"}}}):
        equal(ask(["e.example"], **more)[1]["result"]["resultType"], "input_required", more)
    for allow, more in ((["f.example"], {"requestState": state}), (["e.example"], {"requestState": state + "A"}), (["e.example"], {"requestState": f"{int(state[0], 16) ^ 1:x}{state[1:]}"}), (["e.example"], {"requestState": 1}), (["e.example"], {"requestState": state, "inputResponses": []})):
        equal(code_of(ask(allow, **{"inputResponses": yes, **more})[1]), -32602, (allow, more))
    done = ask(["e.example"], requestState=state, inputResponses=yes)[1]["result"]
    equal((done["resultType"], done["structuredContent"]["network"]["allow"]), ("complete", ["e.example"]))
    status, refused = http.ask_modern({**(message := call("set_network", allow=[], sandbox="asked")), "params": {**message["params"], "_meta": META}})
    equal((status, code_of(refused), refused["error"]["data"]), (400, -32021, {"requiredCapabilities": {"elicitation": {}}}))


def check_rollback_without_a_client(http):
    """The client goes at once: the sandbox is replaced all the same, and no other one stays."""
    def boxes():
        return {box["sandbox"]: box["created_at"] for box in http.ask(call("list_sandboxes"))["result"]["structuredContent"]["sandboxes"]}

    http.ask(call("write_file", path="f", text="kept", sandbox="rolled"))
    http.ask(call("checkpoint", checkpoint="one", sandbox="rolled"))
    http.ask(call("write_file", path="f", text="later", sandbox="rolled"))
    before = boxes()
    http.open(call("rollback", checkpoint="one", sandbox="rolled")).close()
    while (after := boxes()).keys() != before.keys() or after["rolled"] == before["rolled"]:  # the runner ends what hangs
        time.sleep(0.01)
    equal(http.ask(call("read_file", path="f", sandbox="rolled"))["result"]["structuredContent"]["text"], "kept")
    equal(code_of(http.ask(call("rollback", checkpoint="none", sandbox="rolled"))), -32602)
    equal(set(boxes()), set(before))


def check_other_callers(http, other):
    """Ids of sessions, streams, questions and states are of use to nobody else."""
    session = Session(http, elicitation={})
    stolen = Session(other)
    stolen.headers = session.headers
    equal(stolen.send(None, "DELETE"), 404)
    assert stolen.ask(call("set_network", allow=[], sandbox="default"))["error"]["code"] == -32602  # it has no such sandbox
    other.ask(call("create_sandbox", sandbox="asked"))
    assert stolen.ask(call("set_network", allow=[], sandbox="asked"))["result"]["isError"]  # nor the capability
    stream = session.stream(call("set_network", allow=["h.example"], sandbox="asked"))
    asked = stream.message()
    equal(stolen.send(answer_to(asked, action="accept", content={"permit": True})), 202)  # to nothing
    equal(stolen.send(None, "GET", Last_Event_ID=stream.last), 404)
    session.send(answer_to(asked, action="decline"))
    assert stream.message()["result"]["isError"]
    message = with_meta(call("set_network", allow=["h.example"], sandbox="asked"), ASKED)
    state = http.ask_modern(message)[1]["result"]["requestState"]
    message["params"].update(requestState=state, inputResponses={"network": {"action": "accept", "content": {"permit": True}}})
    equal(code_of(other.ask_modern(message)[1]), -32602)
    equal(http.ask_modern(message)[1]["result"]["isError"], False)  # its own


def check_crowds(http, other):
    """Sessions and runs of one caller leave those of another one."""
    session = Session(other, elicitation={})
    function = dict(language="bash", code="f() { echo x > made; }", function="f")
    kept = other.ask(call("call_function", **function))["result"]["structuredContent"]["run"]
    for _ in range(65):
        http.ask(call("call_function", **function))
    assert "made" in other.ask(request("resources/read", uri=f"cloche://runs/{kept}/changes.diff"))["result"]["contents"][0]["text"]
    body = json.dumps(request("logging/setLevel", level="error"))
    lines = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {http.token}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\nMcp-Session-Id: "
    crowd = [socket.create_connection(("127.0.0.1", http.port)) for _ in range(72)]
    for place, sock in enumerate(crowd):
        sock.sendall("".join(f"{lines}{place:016x}{number:016x}\r\n\r\n{body}" for number in range(14)).encode())
    for sock in crowd:
        with sock, sock.makefile("rb") as answers:
            for _ in range(14):
                while b"HTTP/1.1 200" not in answers.readline():
                    pass
    other.ask(call("create_sandbox", sandbox="crowd"))
    equal(session.stream(call("set_network", allow=[], sandbox="crowd")).message()["method"], "elicitation/create")


def check_streams_that_nobody_reads(http, daemon):
    """Each fetch of the rest ends the one before, with all that it still had."""
    session = Session(http)
    shown = "class Image:\n    def _repr_png_(self): return b'\\x89PNG' + b'x' * (2 << 20)\nprint('on', flush=True)\nfor i in range(3): display(Image())"
    message = call("run_code", code=shown)
    message["params"]["_meta"] = {"progressToken": 1}
    stream = session.stream(message)
    equal(stream.message()["params"]["message"], "on")
    last = stream.last
    session.ask(call("run_code", code="1"))  # it waits for the first one
    unread = [session.stream(None, "GET", Last_Event_ID=last)]
    before = daemon.memory()
    unread += [session.stream(None, "GET", Last_Event_ID=last) for _ in range(8)]
    grown = daemon.memory() - before
    assert grown < 32 << 20 or IS_SANITIZED, grown
    equal(unread[-1].message()["id"], 1)
    # The id of a subscription is in each of its messages.
    files = [f"cloche://default/files/workspace/dir/{number}" for number in range(30)]
    streams = [Stream(http, modern("subscriptions/listen", name, notifications={"resourceSubscriptions": files}), **{"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"}) for name in ("x" * (1 << 20), "other")]
    streams[1].message()
    before = daemon.memory()
    for _ in range(4):
        http.ask(call("run_command", command="mkdir -p dir; touch dir/{0..29}"))
        told = set()
        while len(told) < len(files):
            told.add(streams[1].message()["params"]["uri"])
    grown = daemon.memory() - before
    assert grown < 64 << 20 or IS_SANITIZED, grown


def check_cancelled_function(http, daemon):
    with daemon.frames() as frames:
        connection = http.open(call("call_function", language="python", code="import time; time.sleep(600)"))
        while frames.call("stats")["runs"]["now"] == 0:
            time.sleep(0.01)
        connection.close()
        while frames.call("stats")["runs"]["now"] != 0:  # it was killed
            time.sleep(0.01)


def check_log(http):
    session = Session(http)
    equal(code_of(session.ask(request("logging/setLevel", level="loud"))), -32602)
    for level, count in (("error", 0), ("debug", 1)):
        equal(session.ask(request("logging/setLevel", level=level))["result"], {})
        message = call("run_command", command="exec 3<>/dev/tcp/refused.example/443", session=f"log-{level}", sandbox="asked")
        if count:
            stream = session.stream(message)
            told = stream.message()
            equal((told["method"], told["params"]["level"], told["params"]["logger"]), ("notifications/message", "warning", "network"))
            assert "refused.example" in told["params"]["data"], told
            equal(stream.message()["result"]["isError"], True)
        else:
            assert session.ask(message)["result"]["isError"]


def check_lines(daemon):
    with Stdio("--socket", daemon.path, "--sandbox", "lines") as stdio:
        stdio.ask(hello(elicitation={}))
        stdio.ask(call("write_file", path="file", text=""))
        asked = stdio.ask(call("set_network", 9, allow=["g.example"]))
        equal(asked["method"], "elicitation/create")
        done = stdio.ask(answer_to(asked, action="accept", content={"permit": True}))
        equal((done["id"], done["result"]["structuredContent"]["network"]["allow"]), (9, ["g.example"]))
        uri = "cloche://lines/files/workspace/file"
        equal(stdio.ask(request("resources/subscribe", uri=uri))["result"], {})
        stdio.write(call("write_file", 5, path="file", text="x"))
        told = [stdio.read(), stdio.read()]  # in any order
        while not {5, uri} <= {one.get("id") or one["params"]["uri"] for one in told}:
            told.append(stdio.read())


TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def with_meta(message, meta):
    message["params"]["_meta"] = meta
    return message


def begin_tasks(http):
    """Calls that become tasks when they have run for ten seconds."""
    def begin(sandbox, command):
        message = with_meta(call("run_command", command=command, sandbox=sandbox), TASKS)
        return http.open(message, MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="run_command", Mcp_Param_Sandbox=sandbox)

    return [begin("tasked", "until [ -e go ]; do sleep 0.1; done; exit 4"), begin("killed", "echo $BASHPID > pid; exec sleep 600"), begin("failed", "exec sleep 600")]


def begin_large_tasks(http):
    """Tasks whose results do not fit together."""
    shown = "class Image:\n    def _repr_png_(self): return b'\\x89PNG' + b'x' * ((2 << 20) - 100)\nimport time\ntime.sleep(11)\nfor i in range(4): display(Image())"
    headers = dict(MCP_Protocol_Version=MODERN, Mcp_Method="tools/call", Mcp_Name="run_code", Mcp_Param_Sandbox="large")
    return [http.open(with_meta(call("run_code", code=shown, context=f"c{number}", sandbox="large"), TASKS), **headers) for number in range(4)]


def check_large_tasks(http, begun):
    tasks = [json.loads(connection.getresponse().read())["result"]["taskId"] for connection in begun]

    def statuses():
        told = [http.ask_modern(with_meta(request("tasks/get", taskId=task), TASKS), Mcp_Name=task)[1] for task in tasks]
        return [answer["result"]["status"] if "result" in answer else code_of(answer) for answer in told]

    while "working" in statuses():
        time.sleep(0.1)
    equal(sorted(statuses(), key=str), [-32602, "completed", "completed", "completed"])


def check_tasks(http, other, begun):
    def ask(method, task, **more):
        return http.ask_modern(with_meta(request(method, taskId=task, **more), TASKS), Mcp_Name=task)

    def wait(task):
        while (told := ask("tasks/get", task)[1]["result"])["status"] == "working":
            pass
        return told

    made = [json.loads(connection.getresponse().read())["result"] for connection in begun]
    for task in made:
        equal((task["resultType"], task["status"], "result" in task, "requestState" in task), ("task", "working", False, False))
        assert task["ttlMs"] > 0 and task["pollIntervalMs"] > 0 and task["createdAt"] <= task["lastUpdatedAt"], task
    first, killed, failed = [task["taskId"] for task in made]
    for method in ("tasks/get", "tasks/cancel"):
        equal(code_of(other.ask_modern(with_meta(request(method, taskId=first), TASKS), Mcp_Name=first)[1]), -32602)
    equal(ask("tasks/get", first)[1]["result"]["status"], "working")
    http.ask(call("write_file", path="go", text="", sandbox="tasked"))
    done = wait(first)
    equal((done["status"], done["result"]["isError"], done["result"]["structuredContent"]["exit_code"]), ("completed", True, 4))
    pid = http.ask(call("read_file", path="pid", sandbox="killed"))["result"]["structuredContent"]["text"].strip()
    equal(set(ask("tasks/cancel", killed)[1]["result"]), {"resultType", "_meta"})
    gone = http.ask(call("run_command", command=f"while [ -e /proc/{pid} ]; do :; done", session="watch", sandbox="killed"))  # it ends only when the command was killed
    equal((gone["result"]["isError"], ask("tasks/get", killed)[1]["result"]["status"], ask("tasks/cancel", killed)[0]), (False, "cancelled", 200))
    http.ask(call("delete_sandbox", sandbox="failed"))
    ended = wait(failed)
    assert ended["status"] in ("failed", "completed") and ("error" in ended or ended["result"]["isError"]), ended
    equal(ask("tasks/update", first, inputResponses={})[1]["result"]["resultType"], "complete")
    equal(code_of(ask("tasks/get", "none")[1]), -32602)
    status, refused = http.ask_modern(with_meta(request("tasks/get", taskId=first), META), Mcp_Name=first)
    equal((status, code_of(refused)), (400, -32021))
    equal(list(http.ask_modern(modern("server/discover"))[1]["result"]["capabilities"]["extensions"]), ["io.modelcontextprotocol/tasks"])


def test_messages_to_the_client():
    with Daemon("--mcp", "--mcp-ask", tcp=True) as daemon:
        http, other = Http(daemon), OtherHttp(daemon)
        begun, large = begin_tasks(http), begin_large_tasks(other)  # of another caller, whose results do not push out these
        check_watches(http)
        check_watches_that_end_before_they_begin(http)
        listener = check_later_watches(http)
        for check in (check_resumption, check_questions, check_later_questions, check_log, check_rollback_without_a_client):
            check(http)
        check_lines(daemon)
        check_ended_watches(http, daemon)
        check_other_callers(http, other)
        check_crowds(http, other)
        check_streams_that_nobody_reads(http, daemon)
        check_cancelled_function(http, daemon)
        check_tasks(http, other, begun)
        check_large_tasks(other, large)
        assert daemon.stop() == 0, daemon.log_text()
        while (told := listener.message())["method" if "method" in told else "id"] == "notifications/resources/updated":
            pass
        equal((told["id"], told["result"]["resultType"], listener.event()), ("listen", "complete", None))
