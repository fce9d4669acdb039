"""Every operation over frames: its results, and its errors by name."""
import json
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon, Failed, Frames, Gone, private


def success(result):
    assert result["status"] == "success", result
    return result


def test_what_is_known():
    process, frames = private()
    with frames:
        assert frames.hello["server"] == "cloche" and frames.hello["protocol"] == 1
        languages = frames.call("languages")["languages"]
        assert {"python", "javascript", "bash", "c"} <= {language["name"] for language in languages}
        guards = frames.call("guards")["guards"]
        assert {"seccomp", "memory"} <= {guard["name"] for guard in guards}
        assert {guard["state"] for guard in guards} <= {"enforced", "degraded", "absent", "off"}
        stats = frames.call("stats")
        assert stats["connections"] == 1 and stats["runs"]["now"] == 0 and stats["requests"] >= 3
    assert process.wait(20) == 0


def test_calls():
    process, frames = private()
    with frames:
        call = dict(language="python", code="def f(a, b=2, *, c=3):\n    print('said')\n    return [a, b, c]")
        result = success(frames.call("call", **call, function="f", args=[1], kwargs={"c": 4}))
        assert result["result"] == [1, 2, 4] and result["stdout"] == "said\n" and result["exitCode"] == 0
        assert frames.call("call", **call, args={"a": 7})["result"] == [7, 2, 3]
        result = frames.call("call", language="python", code="def f():\n    raise KeyError('k')")
        assert (result["status"], result["error"]["type"]) == ("error", "KeyError")
        schema = {"params": [{"name": "n", "type": "integer"}]}
        result = frames.call("call", language="python", code="def f(n):\n    return n", args=["x"], schema=schema)
        assert result["status"] == "error" and "n" in result["error"]["message"]
        assert success(frames.call("call", language="c", code="int twice(int n) { return 2 * n; }", args=[21],
                                   build={"standard": "c17"}))["result"] == 42
        assert frames.call("call", language="python", code="return 1", warm=False)["result"] == 1
        result = frames.call("call", language="python", code="import os\nreturn [os.getcwd(), os.environ['A']]", workdir="/tmp/w",
                             env={"A": "b"})
        assert result["result"] == ["/tmp/w", "b"]
    assert process.wait(20) == 0


def test_values_travel_as_attachments():
    process, frames = private()
    with frames:
        code = "def f(data, text):\n    return {'same': data, 'size': len(data), 'text': text, '$': 1}"
        every = bytes(range(256)) * 100
        args = [{"$": "bytes", "at": 3, "n": len(every)}, {"$": "bigint", "v": "123456789012345678901"}]
        result = success(frames.call("call", b"..." + every + b"..", language="python", code=code, args=args))
        value = dict(result["result"]["v"]) if result["result"].get("$") == "object" else result["result"]
        same = value["same"]
        assert value["size"] == len(every) and value["$"] == 1
        assert frames.attachments[same["at"]:same["at"] + same["n"]] == every
        assert value["text"] == {"$": "bigint", "v": "123456789012345678901"}
        assert frames.refused("call", language="python", code=code, args=[{"$": "bytes", "at": 0, "n": 5}]).name == "invalid_argument"
        result = success(frames.call("script", b"\xff\0x", language="python", stdin={"$": "bytes", "at": 0, "n": 3},
                                     code="import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())"))
        assert result["stdoutBase64"] == "/wB4"
        # Each member is a value of its own: references count from it.
        shared = [{"$": "ref", "n": 0}]
        result = success(frames.call("call", language="python", code="def f(a):\n    return a is a[0]", args=[shared]))
        assert result["result"] is False or result["result"] is True
    assert process.wait(20) == 0


def test_scripts_and_their_output():
    process, frames = private()
    with frames:
        code = "import sys\nprint(sys.argv[1:], sys.stdin.read())\nprint('bad', file=sys.stderr)\nsys.exit(3)"
        number = frames.ask("script", language="python", code=code, argv=["a", "b c"], stdin="input", stream=True)
        result = frames.wait(number)
        assert (result["status"], result["exitCode"]) == ("error", 3)
        assert result["stdout"] == "['a', 'b c'] input\n" and result["stderr"] == "bad\n"
        assert frames.output("stdout", number) == b"['a', 'b c'] input\n" and frames.output("stderr", number) == b"bad\n"
        frames.told.clear()
        assert success(frames.call("script", language="bash", code="echo $1", argv=["x"]))["stdout"] == "x\n"
        assert frames.told == [], "output was told though nobody asked"
        # It comes while the script goes on, not at its end.
        number = frames.ask("script", language="python", code="import time\nprint('first', flush=True)\ntime.sleep(600)", stream=True)
        while not frames.output("stdout", number):
            frames.turn()
        assert frames.call("cancel", id=number) == {"found": True}
        assert frames.wait(number)["status"] == "terminated"
    assert process.wait(20) == 0


def test_modules():
    process, frames = private(host={("global", "host", "add"): lambda a, b: a + b})
    with frames:
        declarations = {"host": {"kind": "object", "members": {"add": {"kind": "function"}}}}
        result = success(frames.call("evaluate", language="javascript", code="console.log('line'); export const n = await host.add(2, 3)",
                                     globals=declarations, stream=True))
        assert result["result"] == {"n": 5} and result["console"]["stdout"] == ["line"]
        assert frames.output("stdout") == b"line\n"
        result = frames.call("evaluate", language="javascript", code="throw new RangeError('no')")
        assert result["error"]["code"] == "ERR_USER_CODE", result["error"]
        assert frames.refused("evaluate", language="python", code="1").name == "invalid_argument"
        # Its file name is a label; a call's and a script's is one of a file (REFUSALS).
        for label in ("dir/user code.js", "file:///x.js", "..", "\u00e9.js"):
            result = frames.call("evaluate", language="javascript", code="\nthrow new RangeError('no')", filename=label)
            assert f"{label}:2:7" in result["error"]["stack"], (label, result["error"])
        for label in ("", "a\nb", "a\x1b[1m", "a\x7f", "a\0b", "x" * 201):
            assert frames.refused("evaluate", language="javascript", code="1", filename=label).name == "invalid_argument", label
    assert process.wait(20) == 0


def test_prefixes():
    process, frames = private()
    with frames:
        prefix = frames.call("prefix.create", language="python", code="n = 40\ndef twice(x):\n    return 2 * x")["prefix"]
        assert frames.call("call", prefix=prefix, code="return n + 2")["result"] == 42
        assert frames.call("call", prefix=prefix, code="def f():\n    return twice(n)")["result"] == 80
        assert frames.refused("call", prefix=prefix, code="1", warm=True).name == "invalid_argument"
        assert frames.refused("call", prefix=prefix, code="1", language="ruby").name == "invalid_argument"
        bare = frames.call("prefix.create", language="javascript", code="globalThis.base = 1", bare=True, name="bare")["prefix"]
        assert frames.call("evaluate", prefix="bare", code="export const n = base + 1")["result"] == {"n": 2}
        listed = {row["prefix"]: row for row in frames.call("prefix.list")["prefixes"]}
        assert listed[prefix]["runs"] == 2 and listed[bare]["name"] == "bare" and listed[bare]["language"] == "javascript", listed
        assert frames.refused("prefix.create", language="python", code="", name="bare").name == "invalid_state"
        assert frames.refused("prefix.create", language="python", code="", name="../x").name == "invalid_argument"
        error = frames.refused("prefix.create", language="python", code="def f(): pass\nraise ValueError('why')")
        assert (error.code, error.name, error.data["failure"]["type"]) == (-32000, "prefix", "ValueError")
        assert frames.call("prefix.dispose", prefix=prefix) == {}
        assert frames.refused("prefix.dispose", prefix=prefix).name == "not_found"
        assert frames.refused("call", prefix=prefix, code="1").name == "not_found"
    assert process.wait(20) == 0


def test_a_set_up_does_not_hold_others_up():
    process, frames = private()
    with frames:
        slow = frames.ask("prefix.create", language="python", code="import time\ntime.sleep(20)")
        begun = time.monotonic()
        assert frames.call("call", language="python", code="return 1")["result"] == 1
        assert slow not in frames.answers and time.monotonic() - begun < 20
        assert frames.call("cancel", id=slow) == {"found": True}
        try:
            frames.wait(slow)
            raise AssertionError("a cancelled set-up was answered with a prefix")
        except Failed as error:
            assert error.name == "invalid_state"
        assert frames.call("prefix.list") == {"prefixes": []}
    assert process.wait(20) == 0


def test_host_functions():
    calls = []

    def thrower():
        raise LookupError("nothing there")

    def never():
        return NotImplemented

    process, frames = private(host={("global", "add"): lambda *values, **more: calls.append(1) or sum(values), ("global", "throws"): thrower,
                                    ("global", "never"): never, ("import", "tools", "echo"): lambda value: value})
    with frames:
        functions = {name: {"kind": "function"} for name in ("add", "throws", "never")}
        code = "total = 0\nfor i in range(50):\n    total = add(total, i)\nreturn total"
        assert frames.call("call", language="python", code=code, globals=functions)["result"] == sum(range(50))
        assert len(calls) == 50
        code = "try:\n    throws()\nexcept Exception as error:\n    return [type(error).__name__, str(error)]"
        assert frames.call("call", language="python", code=code, globals=functions)["result"] == ["LookupError", "nothing there"]
        code = "import { echo } from 'tools';\nexport const all = await Promise.all([1, 2, 3].map(n => echo({n})))"
        imports = {"tools": {"members": {"echo": {"kind": "function"}}}}
        assert frames.call("evaluate", language="javascript", code=code, imports=imports)["result"] == {"all": [{"n": 1}, {"n": 2}, {"n": 3}]}
        # Requests without an answer end with their run; a later answer is dropped.
        result = frames.call("call", language="python", code="never()", globals=functions, limits={"wallMs": 700})
        assert result["status"] == "timeout", result
        for number in range(60):
            frames.send({"jsonrpc": "2.0", "id": number, "result": {"value": 1}})
        frames.send({"jsonrpc": "2.0", "id": "strange", "result": {}})
        result = frames.call("call", language="python", code="while True: add(1)", globals=functions, limits={"bridgeCalls": 5})
        assert result["meta"]["limitsHit"] == ["bridgeCalls"], result
        assert frames.call("stats")["bridgeCalls"] >= 50
    assert process.wait(20) == 0


def test_files():
    process, frames = private()
    with frames:
        files = {"d/a.txt": "text", "b": {"$": "bytes", "at": 0, "n": 2}, "run": {"content": "x", "mode": 0o700}, "e": {"directory": True},
                 "l": {"symlink": "d/a.txt"}}
        code = "import os\nopen('new', 'wb').write(b'\\xff\\xfe')\nos.remove('b')\nopen('run', 'a').write('y')\n" \
               "return [open('l').read(), oct(os.stat('run').st_mode), sorted(os.listdir('.'))]"
        result = success(frames.call("call", b"\xff\0", language="python", code=code, files=files, collect=["d/a.txt", "none"]))
        assert result["result"] == ["text", "0o100700", ["d", "e", "l", "new", "run"]], result
        created = result["files"]["created"][0]
        at = created["content"]
        assert created["path"] == "/workspace/new" and frames.attachments[at["at"]:at["at"] + at["n"]] == b"\xff\xfe"
        assert [change["path"] for change in result["files"]["modified"]] == ["/workspace/run"]
        assert [change["path"] for change in result["files"]["deleted"]] == ["/workspace/b"]
        assert result["files"]["collected"][0]["content"] == "text", result["files"]["collected"]
        result = frames.call("call", language="python", code="open('n', 'w').write('x')", resultOptions={"includeContents": False})
        assert "content" not in result["files"]["created"][0]
    assert process.wait(20) == 0


REFUSALS = [
    ("call", {}, "invalid_argument", '"code"'),
    ("call", {"code": "1"}, "invalid_argument", '"language"'),
    ("call", {"code": 1, "language": "python"}, "invalid_argument", "code must be a string or bytes, not 1"),
    ("call", {"code": "1", "language": "cobol"}, "unknown_language", "cobol"),
    ("call", {"code": "1", "language": "py\0"}, "invalid_argument", "language must be a string without NUL"),
    ("call", {"code": "1", "language": "python", "funktion": "f"}, "invalid_argument", 'call has no field "funktion"'),
    ("call", {"code": "1", "language": "python", "argv": []}, "invalid_argument", 'call has no field "argv"'),
    ("call", {"code": "1", "language": "python", "limits": {"wallMs": "x"}}, "invalid_argument",
     'limits.wallMs must be an integer from 0 to 86400000, not "x"'),
    ("call", {"code": "1", "language": "python", "limits": {"wallMs": -1}}, "invalid_argument", "limits.wallMs"),
    ("call", {"code": "1", "language": "python", "limits": {"memoryBytes": 5}}, "invalid_argument", "limits.memoryBytes must be 0 or an integer from 8388608"),
    ("call", {"code": "1", "language": "python", "limits": {"wall": 1}}, "invalid_argument", "wall"),
    ("call", {"code": "1", "language": "python", "args": 1}, "invalid_argument", "args must be an array or an object"),
    ("call", {"code": "1", "language": "python", "warm": 1}, "invalid_argument", "warm must be true or false, not 1"),
    ("call", {"code": "1", "language": "python", "warm": True, "workdir": "/tmp"}, "invalid_argument", "working directory"),
    ("call", {"code": "1", "language": "python", "env": {"A=": "1"}}, "invalid_argument", "env"),
    ("call", {"code": "1", "language": "python", "env": {"A": 1}}, "invalid_argument", "env.A must be a string"),
    ("call", {"code": "1", "language": "python", "files": {"a": 1}}, "invalid_argument", "files.a"),
    ("call", {"code": "1", "language": "python", "files": {"a": {"content": "x", "mode": 99999}}}, "invalid_argument", "files.a"),
    ("call", {"code": "1", "language": "python", "files": {"../a": "x"}}, "invalid_argument", ".."),
    ("call", {"code": "1", "language": "python", "files": {"a": {"content": "x", "symlink": "y"}}}, "invalid_argument", "files.a"),
    ("call", {"code": "1", "language": "python", "filename": "a/b"}, "invalid_argument", "a/b"),
    ("call", {"code": "1", "language": "python", "resultOptions": {"includeAll": True}}, "invalid_argument", "includeAll"),
    ("call", {"code": "1", "language": "python", "globals": []}, "invalid_argument", "globals must be an object"),
    ("call", {"code": "1", "language": "python", "args": [{"$": "nonsense"}]}, "invalid_argument", "args"),
    ("call", {"code": "1", "prefix": "p99"}, "not_found", "p99"),
    ("call", {"code": "1", "language": "python", "\u00e9" * 101: 1}, "invalid_argument", "call has no field"),
    ("call", {"code": "1", "language": "\u20ac" * 100}, "unknown_language", "unknown language"),
    ("script", {"code": "1", "language": "python", "filename": "a/b"}, "invalid_argument", "a/b"),
    ("script", {"code": "1", "language": "python", "argv": ["a", 1]}, "invalid_argument", "argv[1] must be a string"),
    ("cancel", {}, "invalid_argument", '"id"'),
    ("cancel", {"id": 1.5}, "invalid_argument", "id must be a string or an integer, not 1.5"),
    ("prefix.create", {"code": "1"}, "invalid_argument", '"language"'),
    ("prefix.dispose", {"prefix": "p99"}, "not_found", "p99"),
    ("sync", {}, "invalid_argument", "changeset"),
    ("changeset.drop", {"changeset": "c9"}, "not_found", "c9"),
    ("hello", {"protocol": 1}, "invalid_state", "hello"),
]


def test_refusals_name_what_is_wrong():
    process, frames = private()
    with frames:
        for method, params, name, words in REFUSALS:
            error = frames.refused(method, **params)
            assert error.name == name and words in error.message, (method, params, error.name, error.message)
            caller = name in ("invalid_argument", "unknown_language")
            assert error.code == (-32602 if caller else -32000), (method, params, error.code)
            assert error.data["fault"] == "caller"
        assert frames.refused("nothing").code == -32601
        assert frames.refused("").code == -32601
        assert frames.call("cancel", id="no such") == {"found": False}
        number = frames.ask("call", language="python", code="import time\ntime.sleep(600)")
        frames.send({"jsonrpc": "2.0", "id": number, "method": "call", "params": {"language": "python", "code": "1"}})
        try:
            frames.wait(number)
            raise AssertionError("two runs of one id")
        except Failed as error:
            assert "id" in error.message
        frames.call("cancel", id=number)
        assert frames.wait(number)["status"] == "terminated"
        assert frames.call("call", language="python", code="return 1")["result"] == 1
    assert process.wait(20) == 0


def test_errors_of_json_rpc():
    process, frames = private()
    with frames:
        for text, code in [(b"{", -32700), (b"\xff", -32700), (b"{}", -32600), (b"[]", -32600), (b'{"jsonrpc":"1.0","id":1,"method":"stats"}', -32600),
                           (b'{"jsonrpc":"2.0","id":{},"method":"stats"}', -32600), (b'{"jsonrpc":"2.0","id":1,"method":5}', -32600),
                           (b'{"jsonrpc":"2.0","id":1}', -32600), (b"[" * 100000, -32700)]:
            frames.send(text)
            try:
                frames.wait(None)
                raise AssertionError(text[:40])
            except Failed as error:
                assert error.code == code, (text[:40], error.code, error.message)
        frames.send({"jsonrpc": "2.0", "method": "stats"})  # a notification: no response
        frames.send({"jsonrpc": "2.0", "id": "a", "method": "stats", "params": [1]})
        try:
            frames.wait("a")
            raise AssertionError("params as an array")
        except Failed as error:
            assert error.code == -32602
        assert frames.call("stats")["requests"] > 0
    assert process.wait(20) == 0


def test_hello_comes_first():
    with Daemon() as daemon:
        with Frames(daemon.connect(), hello=False) as frames:
            assert frames.refused("stats").name == "invalid_state"
            assert frames.refused("hello", protocol=2).name == "invalid_argument"
            assert frames.call("hello", protocol=1)["server"] == "cloche"
            assert frames.call("stats")["connections"] == 1


def test_many_at_once():
    process, frames = private()
    with frames:
        numbers = [frames.ask("call", language="python", code="def f(n):\n    return n", args=[n]) for n in range(200)]
        assert [frames.wait(number)["result"] for number in numbers] == list(range(200))
    assert process.wait(20) == 0
