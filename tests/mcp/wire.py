"""The Model Context Protocol on the wire: both eras, over HTTP and over standard input and output."""
import base64
import json
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from messages import CLI, META, MODERN, Http, Stdio, call, modern, request
from cloche import SOURCE, cli, equal
from image_trees import copy_programs, make_shell
from rpc import HANG, Daemon

LEGACY = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]
TOOLS = ["run_code", "call_function", "run_command", "read_output", "send_input", "stop_process", "list_processes", "read_file", "write_file", "edit_file", "list_directory", "search_files",
         "create_sandbox", "list_sandboxes", "delete_sandbox", "fork_sandbox", "checkpoint", "rollback", "expose_port", "set_network", "explain_denial"]
PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def code_of(answer):
    return answer["error"]["code"]


def structured(answer, is_error=False):
    result = answer["result"]
    assert result["isError"] == is_error, result
    return result["structuredContent"]


def texts(answer):
    return [block["text"] for block in answer["result"]["content"] if block["type"] == "text"]


def check_eras(http):
    started = http.ask(request("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "x", "version": "1"}))["result"]
    equal((started["protocolVersion"], started["capabilities"], started["serverInfo"]["name"]), ("2025-06-18", {"completions": {}, "logging": {}, "prompts": {"listChanged": False}, "resources": {"subscribe": True}, "tools": {"listChanged": False}}, "cloche"))
    equal(http.ask(request("initialize", protocolVersion="1.0"))["result"]["protocolVersion"], "2025-11-25")
    equal(http.send({"jsonrpc": "2.0", "method": "notifications/initialized"})[0::2], (202, None))
    equal(http.ask(request("ping", "text"), MCP_Protocol_Version="2025-11-25"), {"jsonrpc": "2.0", "id": "text", "result": {}})
    status, answer = http.ask_modern(modern("server/discover"))
    found = answer["result"]
    equal((status, found["supportedVersions"], found["resultType"], found["cacheScope"]), (200, [MODERN, *LEGACY], "complete", "private"))
    assert found["ttlMs"] >= 0 and found["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "cloche", found
    status, answer = http.ask_modern(modern("ping"))
    equal((status, code_of(answer), answer["id"]), (404, -32601, 1))  # it is gone in this era
    equal(http.ask_modern(modern("initialize", protocolVersion=MODERN))[0], 404)
    listed = http.ask(request("tools/list"))["result"]
    equal([tool["name"] for tool in listed["tools"]], TOOLS)
    assert "ttlMs" not in listed
    equal(http.ask_modern(modern("tools/list"))[1]["result"]["tools"], listed["tools"])


def check_refusals(http):
    for headers, status in (({"Authorization": None}, 401), ({"Authorization": "Bearer no"}, 401), ({"Host": "evil.example"}, 403), ({"Origin": "http://evil.example"}, 403), ({"Content-Type": "text/plain"}, 415)):
        got, names, answer = http.send(request("ping"), **headers)
        equal((got, "id" in answer), (status, False), headers)
        assert status != 401 or names["www-authenticate"] == "Bearer"
    for verb, headers, status in (("GET", {}, 400), ("GET", {"Accept": "application/json"}, 406), ("GET", {"MCP-Protocol-Version": MODERN}, 405), ("GET", {"Last-Event-ID": "x-1"}, 404),
                                  ("GET", {"Mcp-Session-Id": "x"}, 400), ("DELETE", {}, 404), ("PUT", {}, 405)):
        equal(http.send(None, verb, **headers)[0], status, (verb, headers))
    for body in (b"{", b"[1", b"\xff", b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"\xff"}}', b"[" * 2000 + b"]" * 2000, b'{"a":1,"a":2}'):
        status, _, answer = http.send(body)
        equal((status, code_of(answer)), (400, -32700), body[:40])
    for message in ([request("ping")], 7, {"id": 1, "method": "ping"}, {**request("ping"), "id": None}, {**request("ping"), "id": 1.5}, {**request("ping"), "params": []}, {"jsonrpc": "2.0", "id": 1}, request("ping", _meta=3)):
        status, _, answer = http.send(message)
        equal((status, code_of(answer)), (400, -32600), message)
    equal(code_of(http.ask(request("no/such"))), -32601)
    equal(http.send(request("ping\0"))[0], 400)
    equal(code_of(http.ask(request("tools/call", name="list_directory\0"))), -32602)
    equal(http.send({"jsonrpc": "2.0", "id": 1, "result": {}})[0], 202)  # an answer, to nothing


def check_headers(http):
    message = modern("tools/call", name="list_directory", arguments={"sandbox": "box"})
    equal(http.ask_modern(message)[0], 200)
    encoded = f"=?base64?{base64.b64encode(b'list_directory').decode()}?="
    equal(http.ask_modern(message, Mcp_Name=encoded)[0], 200)
    equal(http.ask_modern(message, Mcp_Name="  list_directory\t ")[0], 200)
    for headers in ({"Mcp_Name": "run_code"}, {"Mcp_Name": None}, {"Mcp_Name": "=?base64?!?="}, {"Mcp_Method": "tools/list"}, {"Mcp_Method": None}, {"MCP_Protocol_Version": None}, {"MCP_Protocol_Version": "2025-11-25"}, {"Mcp_Param_Sandbox": "other"}, {"Mcp_Param_Sandbox": None}):
        status, answer = http.ask_modern(message, **headers)
        equal((status, code_of(answer), answer["id"]), (400, -32020, 1), headers)
    status, answer = http.ask_modern(request("tools/list", _meta={}))
    equal((status, code_of(answer)), (400, -32602))
    status, answer = http.ask_modern(request("tools/list", _meta={"io.modelcontextprotocol/clientCapabilities": {}}))
    equal((status, code_of(answer)), (400, -32602))
    for meta, header in (({**META, "io.modelcontextprotocol/protocolVersion": "2031-01-01"}, "2031-01-01"), (META, "1")):
        status, answer = http.ask_modern(request("tools/list", _meta=meta), MCP_Protocol_Version=header)
        equal((status, code_of(answer)), (400, -32022 if header != "1" else -32020))
    equal(http.ask_modern(request("tools/list", _meta={**META, "io.modelcontextprotocol/protocolVersion": "9"}), MCP_Protocol_Version="9")[1]["error"]["data"], {"supported": [MODERN, *LEGACY], "requested": "9"})


def check_tools(http):
    for tool in http.ask(request("tools/list"))["result"]["tools"]:
        schema = tool["inputSchema"]
        equal((schema["additionalProperties"], schema["properties"]["sandbox"]["x-mcp-header"]), (False, "Sandbox"))
        assert tool["title"] and tool["description"] and all(part["description"] for part in schema["properties"].values()), tool
        assert set(tool["annotations"]) == {"readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"}
    for message in (call("no_such"), call("run_command"), call("run_command", command=1), call("run_command", command="true", timeout_s=0), call("run_command", command="true", more=1), call("run_command", command="a\0b"),
                    call("run_command", command="true", sandbox="A"), call("run_command", command="true", sandbox=""), call("run_command", command="true", env={"A": 1}), call("run_code", code="1", language="cobol"), call("run_code", code="1", context="no/name"),
                    call("write_file", path="x"), call("write_file", path="x", text="a", base64="YQ=="), call("write_file", path="x", base64="a"), call("list_directory", glob="[" * 30), request("tools/call", name="read_file", arguments=[]), request("tools/call")):
        equal(code_of(http.ask(message)), -32602, message)


def check_commands(http):
    answer = http.ask(call("run_command", command="cd /tmp; echo out; echo err >&2; exit 3"))
    got = structured(answer, is_error=True)
    equal((got["exit_code"], got["stdout"], got["stderr"], got["timed_out"], got["truncated"]), (3, "out\n", "err\n", False, False))
    equal(texts(answer), ["out\n", "err\n", "[exit code 3]"])
    equal(structured(http.ask(call("run_command", command="cd /tmp; x=5")))["cwd"], "/tmp")
    equal(structured(http.ask(call("run_command", command='pwd; echo $x$Y; cat', env={"Y": "6"}, stdin="in")))["stdout"], "/tmp\n56\nin")
    equal(structured(http.ask(call("run_command", command='echo "<$x>"', session="other")))["stdout"], "<>\n")
    equal(structured(http.ask(call("run_command", command='echo "<$x>"', sandbox="other")))["stdout"], "<>\n")
    got = structured(http.ask(call("run_command", command="sleep 600", timeout_s=1)), is_error=True)
    equal((got["exit_code"], got["timed_out"]), (124, True))
    got = structured(http.ask(call("run_command", command="seq 100000; printf 'é%.0s' {1..40000} >&2")))
    out, err = got["stdout"], got["stderr"]
    assert got["truncated"] and len(out) < 66000 and out.startswith("1\n2\n") and out.endswith("\n100000\n") and "bytes are left out" in out
    assert set(err) - set("\n[... 0123456789 bytes are left out here ...]") == {"é"}, set(err)  # no character is cut
    hostile = '\x1b[2J{"jsonrpc":"2.0","id":1,"result":{}}\n\x00\xff'
    equal(structured(http.ask(call("run_command", command="printf '\\033[2J{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\\n\\0\\377'")))["stdout"], hostile.replace("\xff", "\ufffd"))


def check_code(http):
    equal(structured(http.ask(call("run_code", code="x = 20\nprint('p')\nx + 1")))["result"], "21")
    got = structured(http.ask(call("run_code", code="x * 2 + 1")))
    equal((got["status"], got["stdout"], got["result"], got["execution_count"]), ("ok", "", "41", 2))
    http.ask(call("write_file", path="kept", text="before"))
    fresh = structured(http.ask(call("run_code", code="open('kept', 'w').write('after')\ny = 1\n'x' in globals()", fresh=True)))
    equal((fresh["result"], fresh["execution_count"]), ("False", 1))
    equal(structured(http.ask(call("run_code", code="open('kept').read(), 'y' in globals()")))["result"], "('before', False)")
    equal([row["context"] for row in http.ask(request("completion/complete", ref={"type": "ref/prompt", "name": "x"}, argument={"name": "context", "value": "fresh"}))["result"]["completion"]["values"]], [])  # nothing stays
    refused = http.ask(call("run_code", code="1", fresh=True, language="bash"))
    assert refused["result"]["isError"] if "result" in refused else code_of(refused) == -32602, refused
    answer = http.ask(call("run_code", code="1/0"))
    got = structured(answer, is_error=True)
    equal((got["status"], got["error"]["name"]), ("error", "ZeroDivisionError"))
    assert "division by zero" in texts(answer)[-1]
    much = structured(http.ask(call("run_code", code="print('x' * 100000, end='')")))
    equal((structured(http.ask(call("read_output", output=much["output"], offset=99990)))["data"], len(much["stdout"]) < 70000), ("x" * 10, True))
    equal(structured(http.ask(call("run_code", code="import time; time.sleep(600)", timeout_s=1)), is_error=True)["status"], "timeout")
    equal(structured(http.ask(call("run_code", code="x", context="own")), is_error=True)["error"]["name"], "NameError")
    equal(code_of(http.ask(call("run_code", code="1", context="own", language="bash"))), -32602)
    equal(structured(http.ask(call("run_code", code="y=5; echo $y", context="shell", language="bash")))["stdout"], "5\n")
    shown = http.ask(call("run_code", code=f"from IPython.display import display, Image, SVG\nfor i in range(6): display(Image(data={PNG!r}, format='png'))\ndisplay(SVG(data='<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))\n7"))
    blocks = shown["result"]["content"]
    equal([block["type"] for block in blocks], ["text", *["image"] * 4, "text", "text", "text"])
    equal((base64.b64decode(blocks[1]["data"]), blocks[1]["mimeType"], structured(shown)["truncated"]), (PNG, "image/png", True))
    updates = f"display({{'image/png': {base64.b64encode(PNG).decode()!r}}}, raw=True, display_id='one')\nfor i in range(2): display({{'text/none': ''}}, raw=True, display_id='one', update=True)\nfor i in range(6): display(Image(data={PNG!r}, format='png'))"
    blocks = http.ask(call("run_code", code=updates))["result"]["content"]
    equal([block["type"] for block in blocks if block["type"] == "image"], ["image"] * 4)  # an update that shows nothing changes no count
    svg = http.ask(call("run_code", code="display(SVG(data='<svg xmlns=\"http://www.w3.org/2000/svg\"/>'))"))["result"]["content"][0]
    equal((svg["type"], svg["resource"]["mimeType"], "<svg" in svg["resource"]["text"]), ("resource", "image/svg+xml", True))


def check_functions(http):
    def ask(is_error=False, **arguments):
        return structured(http.ask(call("call_function", **arguments)), is_error)

    got = ask(language="python", code="def add(a, b):\n    print('p')\n    open('made', 'w').write(open('in.txt').read())\n    return {'sum': a + b}", kwargs={"a": 1, "b": 2}, files={"in.txt": "text"})
    equal((got["value"], got["stdout"], [(row["type"], os.path.basename(row["path"])) for row in got["changes"]]), ({"sum": 3}, "p\n", [("created", "made")]))
    uri = f"cloche://runs/{got['run']}/changes.diff"
    equal(http.ask(request("resources/read", uri=uri))["result"]["contents"][0]["text"], "--- a/workspace/made\n+++ b/workspace/made\n@@ -0,0 +1,1 @@\n+text\n\\ No newline at end of file\n")
    equal(code_of(http.ask(request("resources/read", uri=uri.replace(got["run"], "0" * 32)))), -32002)
    assert "run" not in ask(language="python", code="return 1")
    equal(ask(language="javascript", code="export const twice = (x) => x * 2", function="twice", args=[21])["value"], 42)
    failed = http.ask(call("call_function", language="python", code="raise ValueError('no')"))
    assert failed["result"]["isError"] and "no" in texts(failed)[0], failed
    ask(is_error=True, language="python", code="import time; time.sleep(600)", timeout_s=1)
    for arguments in ({"language": "python"}, {"language": "cobol", "code": ""}, {"language": "python", "code": "", "args": {}}, {"language": "python", "code": "", "kwargs": []}):
        equal(code_of(http.ask(call("call_function", **arguments))), -32602, arguments)


def check_processes(http):
    def ask(tool, **arguments):
        return structured(http.ask(call(tool, **arguments)))

    started = ask("run_command", command="read line; echo got $line; echo err >&2; read line; exit 7", background=True)
    process = started["process"]
    assert "exit_code" not in started, started
    got = ask("read_output", process=process)
    equal((got["data"], got["next"], got["end"], got["status"]), ("", 0, False, "running"))
    ask("send_input", process=process, data="one\n")
    got = ask("read_output", process=process, wait_s=60)
    equal((got["data"], got["next"], got["end"]), ("got one\n", 8, False))
    equal(ask("read_output", process=process, offset=4, limit=3)["data"], "one")
    equal(ask("read_output", process=process, stream="stderr", wait_s=60)["data"], "err\n")
    equal(ask("read_output", process=process, offset=8, wait_s=1)["data"], "")  # nothing comes
    ask("send_input", process=process, end=True)
    got = ask("read_output", process=process, offset=8, wait_s=60)
    equal((got["end"], got["status"], got["exit_code"]), (True, "failed", 7))
    other = ask("run_command", command="cat; exec sleep 600", background=True, stdin="all of it")["process"]
    equal(ask("read_output", process=other, wait_s=60)["data"], "all of it")
    states = {row["process"]: row["status"] for row in ask("list_processes")["processes"]}
    equal((states[process], states[other]), ("failed", "running"))
    equal(ask("stop_process", process=other)["process"]["status"], "killed")
    assert "list_processes" in http.ask(call("stop_process", process="none"))["error"]["message"]  # agents have tools
    for message in (call("read_output"), call("read_output", process="none"), call("read_output", process=other, output="x"), call("read_output", process=other, stream="x"), call("stop_process", process="none"), call("send_input", process="none")):
        equal(code_of(http.ask(message)), -32602, message)
    short = ask("run_command", command="seq 100000")
    page = ask("read_output", output=short["output"], offset=100000, limit=1000)
    equal((page["data"], page["next"]), ("".join(f"{n}\n" for n in range(1, 100001))[100000:101000], 101000))
    assert "output" not in ask("run_command", command="echo")


def progress_of(events):
    return [event["params"] for event in events if event.get("method") == "notifications/progress"]


def check_progress(http):
    message = call("run_command", command="for i in 1 2 3 4; do echo line $i; sleep 0.3; done")
    message["params"]["_meta"] = {"progressToken": "t"}
    connection = http.open(message)
    answer = connection.getresponse()
    equal((answer.status, answer.headers["Content-Type"], answer.headers["X-Accel-Buffering"]), (200, "text/event-stream", "no"))
    events = [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: ")]
    connection.close()
    told = progress_of(events)
    equal(([one["progress"] for one in told], {one["progressToken"] for one in told}), (list(range(1, len(told) + 1)), {"t"}))
    assert 1 <= len(told) <= 5 and told[0]["message"] in {f"line {i}" for i in range(1, 5)}, told  # a busy machine may take several at once
    equal(structured(events[-1])["stdout"], "line 1\nline 2\nline 3\nline 4\n")
    equal(structured(http.ask(message, Accept="application/json"))["exit_code"], 0)  # one answer, not a stream


def check_files(http):
    equal(structured(http.ask(call("write_file", path="a/b.txt", text="one\ntwo\nthree"))), {"path": "/workspace/a/b.txt", "bytes": 13})
    equal(structured(http.ask(call("write_file", path="a/b.txt", text="\nfour\n", append=True)))["bytes"], 6)
    got = structured(http.ask(call("read_file", path="a/b.txt", offset_line=2, limit_lines=2)))
    equal((got["text"], got["lines"], got["bytes"], got["truncated"]), ("two\nthree\n", 2, 19, True))
    equal(structured(http.ask(call("read_file", path="a/b.txt", offset_line=4)))["truncated"], False)
    http.ask(call("write_file", path="a/p.png", base64=base64.b64encode(PNG).decode()))
    block = http.ask(call("read_file", path="a/p.png"))["result"]["content"][0]
    equal((block["type"], block["mimeType"], base64.b64decode(block["data"])), ("image", "image/png", PNG))
    http.ask(call("write_file", path="a/x.bin", base64=base64.b64encode(bytes(range(256))).decode()))
    binary = http.ask(call("read_file", path="a/x.bin"))
    got, [link] = structured(binary), binary["result"]["content"]
    equal((got["bytes"], "text" in got, link["type"], link["uri"]), (256, False, "resource_link", "cloche://default/files/workspace/a/x.bin"))
    [read] = http.ask(request("resources/read", uri=link["uri"]))["result"]["contents"]
    equal(base64.b64decode(read["blob"]), bytes(range(256)))
    http.ask(call("run_command", command="yes 'a line of text' | head -c 200000 > big; mkdir -p deep/er; touch deep/er/$'n\\377'; head -c 100000 /dev/zero | tr '\\0' x > long", cwd="/workspace"))
    got = structured(http.ask(call("read_file", path="big")))
    assert got["truncated"] and 64000 < len(got["text"]) <= 65536 and got["text"].endswith("text\n"), got["lines"]
    equal(len(structured(http.ask(call("read_file", path="long")))["text"]), 65536)
    missing = http.ask(call("read_file", path="none"))
    assert code_of(missing) == -32602 and "none" in missing["error"]["message"], missing
    got = structured(http.ask(call("list_directory", path="a")))
    equal([(entry["path"], entry["type"], entry["bytes"]) for entry in got["entries"]], [("b.txt", "file", 19), ("p.png", "file", len(PNG)), ("x.bin", "file", 256)])
    deep = [entry["path"] for entry in structured(http.ask(call("list_directory", depth=3)))["entries"]]
    assert "a/p.png" in deep and "deep/er/n\ufffd" in deep, deep
    equal([entry["path"] for entry in structured(http.ask(call("list_directory", depth=3, glob="a/**/*.txt")))["entries"]], ["a/b.txt"])
    http.ask(call("run_command", command="mkdir many; cd many; touch $(seq 1200); cd ..", cwd="/workspace"))
    got = structured(http.ask(call("list_directory", path="many")))
    equal((len(got["entries"]), got["truncated"]), (1000, True))


def check_edits(http):
    def edit(*edits, is_error=False, **more):
        answer = http.ask(call("edit_file", path="e.txt", edits=list(edits), **more))
        return texts(answer)[0] if is_error else structured(answer)

    def content():
        return structured(http.ask(call("read_file", path="e.txt")))["text"]

    http.ask(call("write_file", path="e.txt", text="def first():\n    return 1\n\ndef second():\n    return 1\n"))
    got = edit({"old": "first():\n    return 1", "new": "first():\n    return 11"}, {"old": "second", "new": "later"}, dry_run=True)
    equal(got, {"diff": "@@ line 1 @@\n-def first():\n-    return 1\n+def first():\n+    return 11\n@@ line 4 @@\n-def second():\n+def later():\n", "replaced": 2})
    assert "first" in content() and "later" not in content()
    edit({"old": "second", "new": "later"})
    assert "def later():" in content()
    text = edit({"old": "first", "new": "x"}, {"old": "return 1", "new": "return 2"}, is_error=True)
    assert "edit 2 is there 2 times, at the lines 2 5" in text and "first" in content(), text
    equal(edit({"old": "return 1", "new": "return 2", "all": True})["replaced"], 2)
    text = edit({"old": "def latter():\n", "new": ""}, is_error=True)
    assert "is not in the file" in text and "4: def later():" in text, text
    http.ask(call("write_file", path="e.txt", text="x = 1\n" * 50000 + "a" * 90000))
    got = edit({"old": "1", "new": "2", "all": True})
    assert got["replaced"] == 50000 and len(got["diff"]) < 66000 and got["diff"].startswith("@@ line 1 @@\n-x = 1\n+x = 2\n@@ line 2 @@\n") and "bytes are left out" in got["diff"], got["replaced"]
    got = edit({"old": "a", "new": "b", "all": True})
    assert got["replaced"] == 90000 and got["diff"].startswith("@@ line 50001 @@\n-aaaa"), got["replaced"]
    http.ask(call("write_file", path="e.txt", text="def first():\n    return 2\n\ndef later():\n    return 2\n"))
    http.ask(call("write_file", path="raw", base64="/wA="))
    assert http.ask(call("edit_file", path="raw", edits=[{"old": "a", "new": "b"}]))["result"]["isError"]
    for edits in ([], [{"old": "", "new": ""}], [{"old": "a"}], [{"old": "a", "new": "b", "more": 1}], {}, [7]):
        equal(code_of(http.ask(call("edit_file", path="e.txt", edits=edits))), -32602)
    got = structured(http.ask(call("search_files", pattern="def (first|later)", glob="*.txt")))
    equal(([(row["line"], row["text"]) for row in got["matches"]], got["truncated"]), ([(1, "def first():"), (4, "def later():")], False))
    equal(structured(http.ask(call("search_files", pattern="return", limit=1)))["truncated"], True)
    equal(structured(http.ask(call("search_files", pattern="(first|later)", literal=True)))["matches"], [])
    equal(code_of(http.ask(call("search_files", pattern="("))), -32602)
    # as many places as a guest likes, in lines as long as it likes
    http.ask(call("run_command", command="printf 'a%.0s' {1..50000} > e.txt; head -c 4000000 /dev/zero | tr '\\0' b >> e.txt", cwd="/workspace"))
    got = edit({"old": "a", "new": "c", "all": True}, dry_run=True)
    equal((got["replaced"], got["diff"].startswith("@@ line 1 @@\n-aaa"), len(got["diff"]) < 70000), (50000, True, True))
    assert "more than 100000 places" in edit({"old": "b", "new": "c", "all": True}, is_error=True)
    assert "is there more than 100000 times, at the lines 1 1 " in edit({"old": "b", "new": "c"}, is_error=True)
    assert "fewer edits" in edit(*[{"old": "ab", "new": "cb"}, {"old": "cb", "new": "ab"}] * 10, is_error=True)


def check_sandboxes(http):
    def ask(tool, **arguments):
        return structured(http.ask(call(tool, **arguments)))

    made = ask("create_sandbox", sandbox="made", env={"A": "b"}, memory_mb=256, timeout_s=3600)
    equal((made["sandbox"], made["created"], "ends_at" in made), ("made", True, True))
    equal(ask("create_sandbox", sandbox="made")["created"], False)
    ask("create_sandbox", sandbox="shell", image="tools:1")
    equal(ask("run_command", sandbox="shell", command="cat /etc/of-the-image")["stdout"], "yes\n")
    equal(code_of(http.ask(call("create_sandbox", image="no-such:1"))), -32602)
    equal(ask("run_command", command="echo $A; echo one > f; mkdir d; cd d", sandbox="made")["stdout"], "b\n")
    name = ask("create_sandbox")["sandbox"]
    [copy] = ask("fork_sandbox", sandbox="made")["sandboxes"]
    equal(ask("run_command", command="pwd; cat ../f; echo two > ../f", sandbox=copy["sandbox"])["stdout"], "/workspace/d\none\n")
    kept = ask("checkpoint", sandbox="made", checkpoint="kept")["checkpoint"]
    ask("run_command", command="echo three > /workspace/f", sandbox="made")
    equal(ask("rollback", sandbox="made", checkpoint=kept)["sandbox"], "made")
    equal(ask("run_command", command="cat /workspace/f; echo $A", sandbox="made")["stdout"], "one\nb\n")
    equal(code_of(http.ask(call("rollback", sandbox="made", checkpoint="none"))), -32602)
    equal(ask("run_command", command="cat /workspace/f", sandbox="made")["stdout"], "one\n")  # the one that could not be replaced
    names = [box["sandbox"] for box in ask("list_sandboxes")["sandboxes"]]
    assert {"made", name, copy["sandbox"], "default"} <= set(names), names
    for box in ("made", name, copy["sandbox"], "never-made"):
        ask("delete_sandbox", sandbox=box)
    assert not {"made", name, copy["sandbox"]} & {box["sandbox"] for box in ask("list_sandboxes")["sandboxes"]}
    assert re.match("http://8000-default-[a-z0-9_]+[.]preview.test", ask("expose_port", port=8000)["url"])


def check_denials(http):
    def ask(**arguments):
        return structured(http.ask(call("explain_denial", **arguments)))

    got = ask(host="example.com")
    equal((got["allowed"], got["why"]), (False, "the sandbox has no network"))
    assert "--network" in got["remedy"] or "addNetwork" in got["remedy"], got
    got = ask(host="other.example", sandbox="net")
    assert not got["allowed"] and got["why"] and "other.example" in got["remedy"], got
    refused = texts(http.ask(call("run_code", code="import urllib.request\ntry: urllib.request.urlopen('http://other.example')\nexcept OSError: pass", sandbox="net")))
    assert any("other.example" in text and text.startswith("[refused: ") for text in refused), refused
    got = ask(host="192.0.2.1", port=81, sandbox="net")
    assert not got["allowed"], got
    got = ask(host="127.0.0.1", port=9, sandbox="net")  # its own, where nothing listens
    assert got["allowed"] and "refused" in got["why"], got
    equal(ask(path="/etc/shadow-of-none")["allowed"], False)
    http.ask(call("run_command", command="touch closed; chmod 0 closed", cwd="/workspace"))
    closed = ask(path="closed")
    assert not closed["allowed"] and "Permission denied" in closed["why"], closed
    for rule in ("secret", "secret", None):  # the third is told of no decision, because such are told ever more seldom
        ruled = ask(path="/workspace/m/secret", sandbox="mounted")
        equal((ruled["allowed"], ruled.get("rule"), "mount /workspace/m" in ruled["why"]), (False, rule, True))
    assert "mount /workspace/m/in" in ask(path="m/in/secret", sandbox="mounted")["why"]
    equal(ask(path="m/open", sandbox="mounted")["allowed"], True)
    equal((ask(path="/workspace")["allowed"], ask(path="$(touch x)")["allowed"]), (True, False))
    for arguments in ({}, {"host": ""}, {"host": "$(touch x)"}, {"host": "a", "port": 0}, {"host": "a", "path": "b"}):
        equal(code_of(http.ask(call("explain_denial", **arguments))), -32602)


def check_resources(http):
    equal(http.ask(request("resources/list"))["result"], {"resources": []})  # nothing is made for it
    assert "default" not in [box["sandbox"] for box in structured(http.ask(call("list_sandboxes")))["sandboxes"]]
    http.ask(call("write_file", path="sub dir/ä%.txt", text="text\n"))
    http.ask(call("write_file", path="later", text="x"))
    http.ask(call("run_command", command="touch -d '2020-01-01' 'sub dir/ä%.txt'; printf x > $'sub dir/\\377'", cwd="/workspace"))
    listed = http.ask(request("resources/list"))["result"]["resources"]
    equal([(row["name"], row["uri"], row["size"]) for row in listed], [("later", "cloche://default/files/workspace/later", 1), ("sub dir/ä%.txt", "cloche://default/files/workspace/sub%20dir/%c3%a4%25.txt", 5)])
    [read] = http.ask(request("resources/read", uri=listed[1]["uri"]))["result"]["contents"]
    equal((read["text"], read["uri"]), ("text\n", listed[1]["uri"]))
    equal(len(http.ask(request("resources/templates/list"))["result"]["resourceTemplates"]), 4)
    process = structured(http.ask(call("run_command", command="echo printed", background=True)))["process"]
    structured(http.ask(call("read_output", process=process, wait_s=60)))
    equal(http.ask(request("resources/read", uri=f"cloche://default/processes/{process}/stdout"))["result"]["contents"][0]["text"], "printed\n")
    structured(http.ask(call("run_code", code="answer = 42", context="vars")))
    assert "answer" in http.ask(request("resources/read", uri="cloche://default/contexts/vars/variables"))["result"]["contents"][0]["text"]
    for uri in ("cloche://default/files/workspace/none", "cloche://nobody/files/etc/passwd", "cloche://default/files/", "cloche://default/files/%00", "cloche://default/files/%ff", "cloche://default/files/%4", "cloche://default/x", "file:///etc/passwd", "cloche://", "cloche://default/processes/none/stdout"):
        answer = http.ask(request("resources/read", uri=uri))
        equal((code_of(answer), answer["error"]["data"], "memory" in answer["error"]["message"]), (-32002, {"uri": uri}, False))
        equal(code_of(http.ask_modern(modern("resources/read", uri=uri))[1]), -32602)
    assert http.ask_modern(modern("resources/list"))[1]["result"]["ttlMs"] == 0
    # a guest's time beyond year 9999 has no text
    http.ask(call("run_command", command="touch -d @253402300800 far further", cwd="/workspace"))
    equal([("lastModified" in row["annotations"], row["name"]) for row in http.ask(request("resources/list"))["result"]["resources"]][:1], [(True, "later")])
    equal(["modified_at" in row for row in structured(http.ask(call("list_directory", glob="[fl]*")))["entries"]], [False, False, True])
    http.ask(call("run_command", command="rm far further", cwd="/workspace"))
    http.ask(call("run_command", command="chmod 0 /workspace"))
    equal(code_of(http.ask(request("resources/list"))), -32603)
    http.ask(call("run_command", command="chmod 755 /workspace"))


def check_prompts(http):
    def complete(name, value, **more):
        return http.ask(request("completion/complete", ref={"type": "ref/prompt", "name": "analyze-data"}, argument={"name": name, "value": value}, **more))["result"]["completion"]

    listed = http.ask(request("prompts/list"))["result"]["prompts"]
    equal([prompt["name"] for prompt in listed], ["analyze-data", "debug-program", "review-changes"])
    got = http.ask(request("prompts/get", name="analyze-data", arguments={"path": "a.csv", "question": "Why?"}))["result"]
    text = got["messages"][0]["content"]["text"]
    assert "the file a.csv of" in text and "Why?" in text, text
    for params in ({}, {"name": "none"}, {"name": "analyze-data"}, {"name": "analyze-data", "arguments": {"path": 1}}):
        equal(code_of(http.ask(request("prompts/get", **params))), -32602)
    equal(complete("sandbox", "defau"), {"values": ["default"], "total": 1, "hasMore": False})
    equal(complete("path", "/workspace/la")["values"], ["/workspace/later"])
    equal(complete("path", "workspace/la")["values"], ["workspace/later"])
    equal(complete("context", "", context={"arguments": {"sandbox": "default"}})["values"], ["vars"])
    equal(complete("context", "", context={"arguments": {"sandbox": "nobody"}})["values"], [])
    equal(complete("language", "ty")["values"], ["typescript"])
    equal(complete("question", "w")["values"], [])
    equal(code_of(http.ask(request("completion/complete", ref={"type": "x"}, argument={"name": "a", "value": ""}))), -32602)


def test_messages_over_http():
    root = make_shell()
    with open(os.path.join(root, "etc/of-the-image"), "w") as file:
        file.write("yes\n")
    copy_programs(root, "/bin/cat")
    equal(cli("image", "import", "--images", "images", root, "tools:1").code, 0)
    os.mkdir("m")
    for name in ("secret", "open"):
        with open(f"m/{name}", "w") as file:
            file.write("x")
    with Daemon("--mcp", "--mount-root", os.path.abspath("m"), "--preview-host", "preview.test", "--images", os.path.abspath("images"), tcp=True) as daemon:
        http = Http(daemon)
        with daemon.frames(token=daemon.token) as frames:
            frames.call("sandbox.create", sandbox="net", network={"allow": ["permitted.example"]})
            frames.call("sandbox.create", sandbox="mounted", mount={"dirs": {"/workspace/m": os.path.abspath("m"), "/workspace/m/in": os.path.abspath("m")}, "permissions": {"exclude": ["secret"]}})
        for check in (check_eras, check_refusals, check_headers, check_resources, check_prompts, check_tools, check_commands, check_code, check_functions, check_processes, check_progress, check_files, check_edits, check_sandboxes, check_denials):
            check(http)
        assert daemon.stop() == 0, daemon.log_text()


def test_a_daemon_without_the_option_has_no_such_path():
    with Daemon(tcp=True) as daemon:
        equal(Http(daemon).send(request("ping"))[0], 404)
        with Stdio("--socket", daemon.path) as stdio:  # the command line needs no option
            equal(stdio.ask(request("ping"))["result"], {})


def check_lines(stdio):
    equal(stdio.ask(request("ping"))["result"], {})
    for line in (b"{", b"\xff\xfe", b"[" * 5000, b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"x"}'):
        equal(code_of(stdio.ask(line)), -32700)
    equal(code_of(stdio.ask([request("ping")])), -32600)
    equal(stdio.ask(modern("server/discover"))["result"]["resultType"], "complete")
    equal(code_of(stdio.ask(request("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": MODERN}))), -32602)
    equal(code_of(stdio.ask(request("tools/list", _meta={"io.modelcontextprotocol/protocolVersion": "9"}))), -32022)
    stdio.write({"jsonrpc": "2.0", "method": "notifications/initialized"})  # has no answer
    stdio.write(b"")
    equal(structured(stdio.ask(call("call_function", language="python", code="return 7")))["value"], 7)
    large = "x" * (10 << 20)
    equal(structured(stdio.ask(call("write_file", path="large", text=large)))["bytes"], len(large))
    equal(structured(stdio.ask(call("run_command", command="wc -c < large")))["stdout"], f"{len(large)}\n")


def check_cancel(stdio):
    stdio.write(call("run_command", 10, command="echo $BASHPID > pid; sleep 600"))
    pid = stdio.ask(call("run_command", 11, command="until [ -s pid ]; do sleep 0.01; done; cat pid", session="watch"))
    stdio.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 10}})
    gone = stdio.ask(call("run_command", 12, command="until ! pgrep -x sleep; do :; done", session="watch"))
    equal((pid["id"], gone["id"], structured(gone)["exit_code"]), (11, 12, 0))  # the cancelled one has no answer
    equal(structured(stdio.ask(call("run_command", 13, command="echo next")))["stdout"], "next\n")
    message = call("run_code", 14, code="print('told')\n1")
    message["params"]["_meta"] = {"progressToken": 5}
    stdio.write(message)
    equal(stdio.read()["params"], {"progressToken": 5, "progress": 1, "message": "told"})
    equal(structured(stdio.read())["result"], "1")
    stdio.write(call("run_code", 20, code="open('begun', 'w').close()\nimport time; time.sleep(600)"))
    stdio.ask(call("run_command", 21, command="until [ -e begun ]; do sleep 0.01; done"))
    stdio.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 20}})
    equal(structured(stdio.ask(call("run_code", 22, code="1 + 1")))["result"], "2")


def test_lines_of_a_private_daemon():
    os.mkdir("temporary")
    os.chmod("temporary", 0o1777)
    with Stdio(env={"TMPDIR": os.path.abspath("temporary")}) as stdio:
        check_lines(stdio)
        check_cancel(stdio)
        [child] = open(f"/proc/{stdio.process.pid}/task/{stdio.process.pid}/children").read().split()
        denied = structured(stdio.ask(call("explain_denial", host="other.example", port=80)))
        equal((denied["allowed"], denied["remedy"]), (False, "add other.example:80 to the rules of cloche mcp --network"))
        structured(stdio.ask(call("write_file", path="f", text="kept")))
        structured(stdio.ask(call("checkpoint", checkpoint="one")))
        structured(stdio.ask(call("write_file", path="f", text="later")))
        equal(structured(stdio.ask(call("rollback", checkpoint="one")))["sandbox"], "default")
        equal(structured(stdio.ask(call("read_file", path="f")))["text"], "kept")
        stdio.write(call("run_command", 30, command="sleep 600"))
        os.kill(int(child), 9)  # the daemon
        lost = stdio.read()
        equal((lost["id"], code_of(lost)), (30, -32603))
        assert "its sandboxes are gone" in lost["error"]["message"], lost
        equal(structured(stdio.ask(call("run_command", 31, command="ls")))["stdout"], "")  # a new one
        structured(stdio.ask(call("checkpoint")))
        left = set(os.listdir("temporary"))
        equal(len(left), 2)  # that of the one that was killed too
        stdio.write(call("run_command", 32, command="echo end"))
        code, [last] = stdio.end()
        equal((code, structured(last)["stdout"], len(left & set(os.listdir("temporary")))), (0, "end\n", 1))


def test_a_last_line_without_an_end():
    done = cli("mcp", stdin=json.dumps(request("ping")).encode())
    equal((done.code, json.loads(done.stdout)["result"]), (0, {}))


def test_words_of_a_private_daemon_that_does_not_start():
    for option, value, words in (("--network", "a.example:no", "expected a port"), ("--image", "none:1", "there is no image 'none:1'")):
        done = cli("mcp", option, value)
        equal((done.code, done.stdout), (2, b""))
        assert done.stderr.startswith(f"cloche: {option}: ".encode()) and words.encode() in done.stderr, done.stderr


def test_options_of_the_command():
    with Daemon() as daemon:
        with Stdio("--socket", daemon.path, "--sandbox", "mine", "--read-only") as stdio:
            equal([tool["name"] for tool in stdio.ask(request("tools/list"))["result"]["tools"]], ["call_function", "read_output", "list_processes", "read_file", "list_directory", "search_files", "list_sandboxes", "explain_denial"])
            equal(code_of(stdio.ask(call("write_file", path="x", text=""))), -32602)
            structured(stdio.ask(call("list_directory")))
        unended = subprocess.run([CLI, "mcp", "--socket", daemon.path], input=json.dumps(request("ping")), capture_output=True, text=True, timeout=HANG)  # the last line has no end
        equal((unended.returncode, json.loads(unended.stdout)["result"]), (0, {}))
        with Stdio("--socket", daemon.path, "--tools", "run_command,read_file") as stdio:
            equal([tool["name"] for tool in stdio.ask(request("tools/list"))["result"]["tools"]], ["run_command", "read_file"])
        for tools, words in (("run_command,no_such", "no tool 'no_such'"), ("", "at least one")):
            with Stdio("--socket", daemon.path, "--tools", tools) as stdio:
                refused = stdio.ask(request("initialize", protocolVersion="2025-11-25"))
                assert code_of(refused) == -32603 and words in refused["error"]["message"], refused
        with Stdio("--socket", daemon.path, "--sandbox", "mine") as one, Stdio("--socket", daemon.path, "--sandbox", "mine") as other:
            one.write(call("run_command", 7, command="until [ -e there ]; do sleep 0.01; done; cat there"))
            structured(other.ask(call("write_file", 7, path="there", text="by the other")))
            equal(structured(one.read())["stdout"], "by the other")
            one.write(call("run_command", 8, command="sleep 600"))
            structured(other.ask(call("run_command", 8, command="until pgrep -x sleep; do :; done", session="watch")))
            other.write({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 8}})  # its own, which is answered
            equal(structured(other.ask(call("run_command", 9, command="pgrep -xc sleep", session="watch")))["stdout"], "1\n")
        with daemon.frames() as frames:
            equal([box["sandbox"] for box in frames.call("sandbox.list")["sandboxes"]], ["mine"])
        assert daemon.stop() == 0, daemon.log_text()


with open(os.path.join(SOURCE, "docs/mcp.md")) as page:
    PAGE = page.read()
COMMANDS = re.findall(r"^    (\S.+)$", PAGE, re.M)


def test_the_commands_of_the_page():
    configuration, *commands, connected, served, curl = COMMANDS
    equal(json.loads(configuration), {"mcpServers": {"cloche": {"command": "cloche", "args": ["mcp"]}}})
    with Daemon() as daemon:
        for line in commands:
            words = shlex.split(line)
            equal(words[:2], ["cloche", "mcp"])
            with Stdio(*[daemon.path if word == "s" else word for word in words[2:]]) as stdio:
                listed = [tool["name"] for tool in stdio.ask(request("tools/list"))["result"]["tools"]]
                assert set(listed) <= set(TOOLS) and listed, line
    with Daemon("--mcp", tcp=True) as daemon:
        assert shlex.split(served)[0] == "cloched" and "--mcp" in served
        assignment, *words = shlex.split(connected.replace(":7070", f":{daemon.port}"))
        equal((assignment, words[:3]), ("CLOCHE_TOKEN_FILE=token", ["cloche", "mcp", "--connect"]))
        with Stdio(*words[2:], env={"CLOCHE_TOKEN_FILE": daemon.token_file}) as stdio:
            equal(structured(stdio.ask(call("run_code", code="6 * 7")))["result"], "42")
        for url, env, words in (("https://a:1", {}, "expected http://HOST:PORT"), ("http://a", {}, "expected http://"), ("http://127.0.0.1:1", {}, "connect to the daemon"), (f"http://127.0.0.1:{daemon.port}/mcp/", {}, "token")):
            done = cli("mcp", "--connect", url, env=env)
            assert done.code != 0 and done.stdout == b"" and words.encode() in done.stderr, (url, done.stderr)
        done = subprocess.run(["sh", "-c", curl.replace(":7070", f":{daemon.port}")], cwd=daemon.directory, capture_output=True, text=True, timeout=HANG)
        equal(json.loads(done.stdout)["result"]["structuredContent"]["result"], "42")


def test_the_table_of_tools_on_the_page():
    with Stdio() as stdio:
        tools = stdio.ask(request("tools/list"))["result"]["tools"]
    rows = [[re.findall(r"`(\w+)`", cell) for cell in line.split("|")[1:4]] for line in PAGE.splitlines() if re.match(r"\| `\w+` \|.+\|.+\|$", line)]
    equal(rows, [[[tool["name"]], [name for name in tool["inputSchema"]["properties"] if name != "sandbox"], list(tool["outputSchema"]["properties"])] for tool in tools])
