"""Much of each over one pipe of cloche mcp: calls, output, hostile lines. CLOCHE_TEST_ALL=1 makes 1000 calls instead of 200."""
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
from messages import Stdio, call, request
from cloche import equal
from rpc import Daemon

CALLS = 1000 if os.environ.get("CLOCHE_TEST_ALL") else 200
MIB = 1 << 20


def structured(answer):
    return answer["result"]["structuredContent"]


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        _, pages, shared = file.read().split()[:3]
    return (int(pages) - int(shared)) * 4096


def run_cells(stdio, count):
    for number in range(count):
        equal(structured(stdio.ask(call("run_code", number, code="1+1")))["result"], "2")


def check_calls(stdio, memory):
    run_cells(stdio, 50)  # these make all that is made once
    before = memory()
    run_cells(stdio, CALLS)
    grown = [now - then for now, then in zip(memory(), before)]
    assert max(grown) < 2 * MIB, grown


def check_output(stdio, memory):
    stdio.ask(call("run_command", command="printf x"))
    before = memory()
    got = structured(stdio.ask(call("run_command", command="head -c 67108860 /dev/zero | tr '\\0' y; echo end")))
    assert got["truncated"] and len(got["stdout"]) < 70000 and got["stdout"].endswith("end\n"), len(got["stdout"])
    page = structured(stdio.ask(call("read_output", output=got["output"], offset=(64 << 20) - 8)))
    equal((page["data"], page["end"]), ("yyyyend\n", True))
    grown = [now - then for now, then in zip(memory(), before)]
    assert max(grown) < 16 * MIB, grown
    got = structured(stdio.ask(call("run_code", code="import sys\nfor i in range(1024): sys.stdout.write('z' * 65536)\nprint('end')")))
    assert got["truncated"] and len(got["stdout"]) < 70000 and got["stdout"].endswith("end\n"), len(got["stdout"])


def check_slow_reader(stdio, memory):
    """Answers that the client does not read wait in the daemon, which has bounds for them."""
    structured(stdio.ask(call("run_command", command="head -c 4194304 /dev/zero | tr '\\0' y > large")))
    before, _ = memory()
    for number in range(16):
        stdio.write(request("resources/read", number, uri="cloche://default/files/workspace/large"))
    while (now := memory())[0] - before < 32 * MIB:
        assert now[1] < 56 * MIB, now
        time.sleep(0.01)
    for _ in range(16):
        equal(len(stdio.read()["result"]["contents"][0]["text"]), 4 * MIB)


def check_hostile_output(stdio):
    """A guest's lines are text of one message."""
    fake = '\n{"jsonrpc":"2.0","id":1,"result":{}}\n'
    escapes = "\x1b[2J\x1b]0;title\x07\r\n"
    for tool, code in (("run_code", f"print({fake + escapes!r})"), ("run_command", "printf '\\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\\n\\033[2J\\033]0;title\\007\\r\\n\\n'")):
        stdio.write(call(tool, 77, **{"code" if tool == "run_code" else "command": code}))
        line = stdio.process.stdout.readline()
        assert b"\x1b" not in line and b"\x07" not in line and line.count(b"\n") == 1, line
        answer = json.loads(line)
        equal((answer["id"], structured(answer)["stdout"]), (77, fake + escapes + "\n"))
    for line, code in ((b"[" * 1000 + b"]" * 1000, -32600), (b"[" * 100000, -32700), (b'{"jsonrpc":"2.0","id":1,"method":"ping\\u0000"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":"pi\xffng"}', -32700), (b"\0", -32700),
                       (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b'{"a":' * 1000 + b"1" + b"}" * 1000 + b"}", -32602)):
        answer = stdio.ask(line)
        assert answer["error"]["code"] in (code, -32600, -32700), (line[:60], answer)
    equal(stdio.ask(request("ping", 2))["result"], {})


def test_one_pipe():
    with Daemon() as daemon, Stdio("--socket", daemon.path) as stdio:
        def memory():
            return daemon.memory(), resident(stdio.process.pid)

        for check in (check_calls, check_output):
            check(stdio, memory)
        check_hostile_output(stdio)
        check_slow_reader(stdio, memory)
        code, rest = stdio.end()
        equal((code, rest), (0, []))
        assert daemon.stop() == 0, daemon.log_text()
