"""Code in a context that finds its agent's channel and writes to it: invalid messages end that
context, with the reason; nothing else is affected."""
import json

from cloche import HostStaysWell
from context_cells import together
from hostile_sandboxes import wait_for

TIMEOUT = 120
PRELUDE = r"""
import json, os, stat, struct, threading, time
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
def sockets():
    return [fd for fd in range(3, 1100) if is_socket(fd)]
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
def frame(message, attachments=b""):
    text = message if isinstance(message, bytes) else json.dumps(message).encode()
    return struct.pack("<II", 4 + len(text) + len(attachments), len(text)) + text + attachments
def write(data):
    for fd in sockets():
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view):]
def say(message, attachments=b""):
    write(frame({"jsonrpc": "2.0", **message} if isinstance(message, dict) else message, attachments))
def display(attachments=b"", **params):
    say({"method": "display", "params": {"data": {"text/plain": "x"}, "metadata": {}, "isResult": False, **params}}, attachments)
"""
FIRST_CELL = 2  # the number of the request that is the first cell of a context: `open` came before


attacks = []


def attacked(n, code, context, **more):
    """The response of a cell that sent messages for its agent; afterwards everything else works,
    and (checked for every eighth, because it is slow) that context too, at most after a restart."""
    answer = n.run(PRELUDE + code, context, **{"timeoutMs": 10000, **more})
    if n.get(context)["state"] == "ended":
        assert n.get(context)["endedWhy"], answer
    assert n.value("6 * 7", "beside") == "42", code
    if len(attacks) % 8 == 0:
        again = n.outcome(n.ask("6 * 7", context, restart=True))
        if again == "context_ended" or again["ended"]:  # by the agent's own answer, which nobody waits for any more
            again = n.run("6 * 7", context, restart=True)
        assert again["status"] == "ok", (code, again)
    attacks.append(code)
    n.delete(context)
    return answer


def the_channel_is_found(n):
    """The twin of all: valid messages are processed, so the others are not refused for another reason."""
    answer = n.run(PRELUDE + "assert sockets()\ndisplay(b'\\x89', data={'image/png': {'$': 'bytes', 'at': 0, 'n': 1}}, displayId='mine')")
    assert answer["status"] == "ok" and answer["displays"][0]["data"] == {"image/png": b"\x89"} and answer["displays"][0]["displayId"] == "mine", answer
    n.is_well()


# Each ends the context; words of the reason.
BROKEN = [
    ("write(b'\\xff' * 64)", "frame"), ("write(struct.pack('<II', (64 << 20) + 5, 10))", "frame"), ("write(struct.pack('<II', 3, 0) + b'xxx')", "frame"),
    ("write(struct.pack('<II', 10, 7) + b'{}    ')", "frame"), ("say(b'')", ""), ("say(b'{')", ""), ("say(b'[]')", ""), ("say(b'null')", ""),
    ("say(b'{\"jsonrpc\": \"1.0\"}')", ""),
    ("say(b'{}' * 10)", ""), ("say(b'[' * 100000)", ""), ("say(b'{\"a\":' * 100000 + b'1' + b'}' * 100000)", ""), ("say(b'\\xff\\xfe')", ""),
    ("say(b'{\"jsonrpc\": \"2.0\", \"method\": \"\\\\ud800\"}')", ""),
    ("say(b'{\"jsonrpc\": \"2.0\", \"method\": 5, \"params\": {}}')", ""),
    ("say(b'{\"jsonrpc\": \"2.0\", \"method\": \"display\", \"params\": {\"data\": {\"a\": 1e999}}}')", ""),
    ("say({'method': 'unknown', 'id': 1, 'params': {}})", "unknown"),
    ("say({'method': 'bridge', 'id': 1, 'params': {'target': ['global', 'x'], 'args': [], 'kwargs': {}}})", "bridge"),
    ("say({'id': 999, 'result': {'status': 'ok'}})", "nobody made"), ("say({'id': 1, 'result': {'pid': 1}})", "nobody made"), ("say({'id': None, 'result': 1})", ""),
    ("say({'id': '2', 'result': {'status': 'ok'}})", "nobody made"), ("say({'id': 2.0, 'result': {}})", ""), ("say({'id': 2 ** 64, 'result': {}})", ""),
    ("say({'id': [2], 'result': {}})", ""),
    ("display(data=[])", "display"), ("display(data='x')", "display"), ("display(data=None)", "display"), ("display(metadata=[])", "display"),
    ("display(displayId=5)", "display"),
    ("say({'method': 'display', 'params': []})", ""), ("say({'method': 'display'})", ""), ("say({'method': 'display', 'params': {}})", "display"),
    *((f"display(b'abc', data={{'a/b': {form}}})", "") for form in (
        "{'$': 'bytes', 'at': 0, 'n': 4}", "{'$': 'bytes', 'at': 3, 'n': 1}", "{'$': 'bytes', 'at': -1, 'n': 1}", "{'$': 'bytes', 'at': 1, 'n': -1}",
        "{'$': 'bytes', 'at': 2 ** 63 - 1, 'n': 2}", "{'$': 'bytes', 'at': 10 ** 12, 'n': 5}", "{'$': 'bytes', 'at': 'x', 'n': 1}", "{'$': 'bytes'}", "{'$': 'no-such'}", "{'$': 5}")),
]


def what_is_broken_ends_the_context(n):
    for i, (code, word) in enumerate(BROKEN):
        answer = attacked(n, code + "\ntime.sleep(1000)", f"c{i}")
        assert answer["ended"] and answer["error"]["name"] == "ContextEnded", (code, answer)
        assert "invalid message" in answer["error"]["message"] and word in answer["error"]["message"], (code, answer["error"])


# Messages sent in the agent's place, and the answer to each.
ANSWERS = [
    ({"result": {"status": "ok"}}, "ok"), ({"result": {"status": 5}}, "error"), ({"result": None}, "error"), ({"result": []}, "error"),
    ({"result": {"status": "error"}}, "error"),
    ({"result": {"status": "error", "error": 5}}, "error"), ({"result": {"status": "error", "error": {"name": 5, "message": [], "traceback": "x"}}}, "error"),
    ({"result": {"status": "error", "error": {"name": "N\0ame" * 1000, "message": "\u202e" * 100000, "traceback": [1, None, "line"] * 10000}}}, "error"),
    ({"error": {"code": -1, "message": "m", "data": {"type": "missing_runtime"}}}, "error"), ({"error": {"code": 1, "message": "m", "data": 5}}, "error"),
]


def answers_in_the_agents_place(n):
    for i, (answer, status) in enumerate(ANSWERS):
        said = attacked(n, f"say({{'id': {FIRST_CELL}, **json.loads({json.dumps(answer)!r})}})\ntime.sleep(0.05)", f"c{i}")
        assert said["status"] == status, (answer, said)
        if status == "error" and not said["ended"]:
            error = said["error"]
            assert isinstance(error["name"], str) and isinstance(error["message"], str) and all(isinstance(line, str) for line in error["traceback"]), error


# A key of the namespace that compares itself: code of the guest in the middle of context.inspect. `answer` is said in the agent's place.
LOOKED_AT = """
class Key:
    def __hash__(self): return hash('lemon')
    def __eq__(self, other):
        %s
        open('/workspace/looked-at', 'w').close()
        time.sleep(1000)
globals()[Key()] = 1
"""
LOOK = FIRST_CELL + 1
INSPECTIONS = [
    ({"data": {"text/plain": 5, "text/html": "<b>", "x/y": "z", "": None}}, {"text/html": "<b>"}), ({"data": []}, {}), ({"data": "x"}, {}), ({}, {}), (None, {}), ([], {}),
    ({"data": {"text/plain": "a" + "\u00e9" * 100000}}, {"text/plain": "a" + "\u00e9" * 65535}), ({"found": 5, "data": {"text/plain": "\x1b[2J"}}, {"text/plain": "\x1b[2J"}),
]
JUDGEMENTS = [
    ({"status": "\x1b[2J", "indent": "  x"}, {"status": "unknown", "indent": "  "}), ({"status": 5, "indent": 5}, {"status": "unknown", "indent": ""}), (None, {"status": "unknown", "indent": ""}),
    ({"status": "incomplete", "indent": " \t" * 1000}, {"status": "incomplete", "indent": " \t" * 128}), ({"status": "complete", "indent": "\x1b[2J"}, {"status": "complete", "indent": ""}),
]


def looks_answered_in_the_agents_place(n):
    for i, (answer, data) in enumerate(INSPECTIONS):
        n.run(PRELUDE + LOOKED_AT % f"say({{'id': {LOOK}, 'result': json.loads({json.dumps(answer)!r})}})", f"c{i}")
        assert n.call("context.inspect", context=f"c{i}", code="lemon") == {"found": bool(data), "data": data}, answer
        n.delete(f"c{i}")
    for i, (answer, judged) in enumerate(JUDGEMENTS):
        n.run(PRELUDE + "from IPython.core.inputtransformer2 import TransformerManager\n"
              f"def check_complete(self, code):\n    say({{'id': {LOOK}, 'result': json.loads({json.dumps(answer)!r})}})\n    time.sleep(1000)\n"
              "TransformerManager.check_complete = check_complete", f"d{i}")
        assert n.call("context.isComplete", context=f"d{i}", code="%time") == judged, answer
        n.delete(f"d{i}")
    assert n.value("6 * 7", "beside") == "42"


def a_look_that_never_ends(n):
    """It is interrupted after 5 s; by a caller at once. A cell that comes meanwhile waits."""
    n.run(PRELUDE + LOOKED_AT % "pass")
    for is_asked in (True, False):
        n.shell("rm -f /workspace/looked-at")
        number = n.frames.ask("context.inspect", sandbox=n.sandbox, context="c", code="lemon")
        wait_for(lambda: n.call("file.exists", path="looked-at")["exists"])
        cell = n.ask("6 * 7")
        if is_asked:
            assert n.call("context.interrupt", context="c")["interrupted"] is True
        assert n.outcome(number) == "invalid_state"
        assert n.wait(cell)["displays"][0]["data"]["text/plain"] == b"42"
    assert n.call("context.interrupt", context="c")["interrupted"] is False


def half_a_frame(n):
    """Nothing comes after it: the cell is late, and so is its end. On a busy machine a cell may be late before it has written."""
    for timeout_ms in (200, 1000, 5000, 25000):
        answer = attacked(n, "write(struct.pack('<II', 1 << 20, 100) + b'{')\nprint('written', flush=True)", "c", timeoutMs=timeout_ms)
        assert answer["timedOut"], answer
        if b"written" in answer["stdout"]:
            break
    assert answer["ended"] and b"written" in answer["stdout"], answer
    answer = attacked(n, "[os.close(fd) for fd in sockets()]\ntime.sleep(1000)", "c")
    assert answer["ended"] and answer["error"]["name"] == "ContextEnded", answer


def between_cells(n):
    for i, late in enumerate(("display()", "say({'method': 'clear', 'params': {'wait': False}})", "say({'method': 'exited', 'params': {'fork': 1, 'status': 0}})",
                              "say({'method': 'failed', 'params': {'fork': 1, 'errno': 1, 'message': 'x'}})", "say({'method': 'x' * 1000000, 'params': {}})",
                              "say({'method': 'display', 'id': 'mine', 'params': {}})", "say({'method': 'input', 'id': 1, 'params': {'prompt': ''}})", "say({'id': 5, 'result': {}})")):
        done = f"done{i}"
        n.run(PRELUDE + f"def late():\n    time.sleep(0.05)\n    {late}\n    open('/workspace/{done}', 'w').close()\nthreading.Thread(target=late).start()", f"c{i}")
        wait_for(lambda: n.call("file.exists", path=done)["exists"] or n.get(f"c{i}")["state"] == "ended")
        answer = n.run("6 * 7", f"c{i}", restart=True)
        assert answer["status"] == "ok" and [d["data"]["text/plain"] for d in answer["displays"]] == [b"42"], (late, answer)
        assert n.value("6 * 7", "beside") == "42"


def questions_of_all_kinds(n):
    """Without a caller to answer them all are refused; with one their number is bounded."""
    for i, number in enumerate(("1", "'x' * 1000", "[1]", "{}", "1.5", "None", "True", "-1")):
        attacked(n, f"say({{'method': 'input', 'id': {number}, 'params': {{'prompt': 'x'}}}})\ntime.sleep(0.05)", f"c{i}")
    for i, params in enumerate(("{}", "{'prompt': 5}", "{'prompt': 'x' * 5000000}", "{'prompt': None, 'password': 'x'}", "[]", "5")):
        number = n.begin(PRELUDE + f"say({{'method': 'input', 'id': 77, 'params': {params}}})\ntime.sleep(1000)", f"d{i}", input=True, timeoutMs=10000)
        while number not in n.frames.answers and "input" not in [name for name, _ in n.events(number)]:
            n.frames.turn()
        if number not in n.frames.answers:
            n.call("context.input", context=f"d{i}", input=n.until(number, "input")["input"], value="x" * 1000000)
            n.cancel(number)
        else:
            n.wait(number)
    number = n.begin(PRELUDE + "for i in range(100): say({'method': 'input', 'id': i, 'params': {'prompt': ''}})\ntime.sleep(1000)", "many", input=True, timeoutMs=60000)
    asked = n.until(number, "input", 10)
    n.call("context.input", context="many", input=asked["input"], value="x")
    n.call("context.list")
    assert sum(name == "input" for name, _ in n.events(number)) <= 17
    n.cancel(number)
    n.is_well("beside")


def test_channel():
    with HostStaysWell():
        together(the_channel_is_found, what_is_broken_ends_the_context, answers_in_the_agents_place, looks_answered_in_the_agents_place, a_look_that_never_ends, half_a_frame, between_cells, questions_of_all_kinds)
