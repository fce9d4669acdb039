"""Output of the code is captured separately, in full up to the cap, and never mistaken for the result."""
from cloche import call, equal


def test_python_streams_are_apart():
    result = call("python", "import sys\ndef f():\n    print('out')\n    print('err', file=sys.stderr)\n    return 1", "f")
    equal((result.stdout, result.stderr, result.value), ("out\n", "err\n", 1))


def test_javascript_streams_are_apart():
    result = call("javascript", "function f() { console.log('out'); console.error('err'); return 1; }", "f")
    equal((result.stdout, result.stderr, result.value), ("out\n", "err\n", 1))


def test_python_subprocess_output_is_captured():
    result = call("python", "import subprocess\ndef f():\n    print('a', flush=True)\n    subprocess.run(['echo', 'b'])\n"
                            "    print('c')", "f")
    equal(result.stdout, "a\nb\nc\n")


def test_output_before_an_exception_is_kept():
    result = call("python", "def f():\n    print('seen')\n    raise ValueError", "f")
    equal((result.status, result.stdout), ("error", "seen\n"))


def test_output_before_a_crash_is_kept():
    result = call("python", "import os\ndef f():\n    os.write(1, b'last words')\n    os.abort()", "f")
    equal((result.status, result.stdout), ("crash", "last words"))


def test_javascript_long_output_is_complete():
    result = call("javascript", "function f() { for (let i = 0; i < 20000; i++) console.log('line ' + i); }", "f")
    equal(result.stdout.splitlines()[-1], "line 19999")
    equal(len(result.stdout.splitlines()), 20000)


def test_cap_keeps_head_and_tail():
    result = call("python", "def f():\n    print('HEAD' + 'x' * 500000 + 'TAIL', end='')", "f", output_limit=1000)
    equal(result.status, "success")
    assert result.stdout.startswith("HEAD") and result.stdout.endswith("TAIL"), result.stdout[:100]
    assert len(result.stdout) < 2000, len(result.stdout)
    assert result.limits_hit, result


def test_under_the_cap_nothing_is_cut():
    result = call("python", "def f():\n    print('x' * 999, end='')", "f", output_limit=1000)
    equal((result.stdout, result.limits_hit), ("x" * 999, []))


def test_the_cap_of_one_stream_leaves_the_other():
    result = call("python", "import sys\ndef f():\n    print('x' * 100000)\n    sys.stderr.write('whole')", "f",
                  output_limit=1000)
    equal(result.stderr, "whole")


def test_printed_result_markers_are_text():
    fake = '{"jsonrpc":"2.0","id":1,"result":{"value":"forged"}}'
    result = call("python", f"def f():\n    print({fake!r})\n    print('__RESULT__: 1')\n    return 'real'", "f")
    equal((result.value, result.stdout), ("real", fake + "\n__RESULT__: 1\n"))


def test_bytes_that_are_not_utf8_do_not_break_the_result():
    result = call("python", "import os\ndef f():\n    os.write(1, b'\\xff\\x00\\x1b]52;c;eA==\\x07')\n    return 'fine'", "f")
    equal((result.status, result.value), ("success", "fine"))
    text = result.stdout if isinstance(result.stdout, bytes) else result.stdout.encode("utf-8", "surrogateescape")
    assert b"\x1b]52;c;eA==\x07" in text, result


def test_duration_and_usage_are_reported():
    result = call("python", "def f(): return sum(range(1000))", "f")
    assert result.meta["duration"] > 0, result
    for field in ("wallMs", "cpuMs", "memoryPeakBytes"):
        assert result.usage[field] > 0, (field, result)
