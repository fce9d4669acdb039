"""Exceptions of the code are reported with their language's type, their message and the user's own line numbers."""
from cloche import call, cli, equal


def test_python_exception():
    result = call("python", "def f(x):\n    y = x\n    return 1 / y\n", "f", args=[0])
    equal(result.status, "error")
    equal(result.error["type"], "ZeroDivisionError")
    equal(result.error["message"], "division by zero")
    assert "line 3" in result.error["stack"], result


def test_python_stack_has_no_frame_of_the_agent():
    stack = call("python", "def f():\n    raise ValueError('x')", "f").error["stack"]
    assert "agent" not in stack and "/run/cloche" not in stack, stack


def test_python_own_exception_class():
    result = call("python", "class Odd(Exception): pass\ndef f():\n    raise Odd('three')", "f")
    equal((result.error["type"], result.error["message"]), ("Odd", "three"))


def test_python_syntax_error_names_its_line():
    result = call("python", "x = 1\ndef f(:\n    pass", "f")
    equal(result.error["type"], "SyntaxError", result)
    assert "line 2" in result.error["stack"] + result.error["message"], result


def test_python_sys_exit_is_not_a_success_of_the_function():
    result = call("python", "import sys\ndef f():\n    sys.exit(3)", "f")
    equal((result.status, result.error.get("type")), ("error", "SystemExit"), result)


def test_python_hard_exit_is_a_crash():
    equal(call("python", "import os\ndef f():\n    os._exit(0)", "f").status, "crash")


def test_python_abort_is_a_crash():
    equal(call("python", "import os\ndef f():\n    os.abort()", "f").status, "crash")


def test_javascript_exception():
    result = call("javascript", "function f(x) {\n  const y = x;\n  return y.a.b;\n}", "f", args=[{}])
    equal(result.status, "error")
    equal(result.error["type"], "TypeError")
    assert "undefined" in result.error["message"], result
    assert ":3" in result.error["stack"], result


def test_javascript_own_error_class():
    result = call("javascript", "class Odd extends Error {}\nfunction f() { throw new Odd('three'); }", "f")
    equal((result.error["type"], result.error["message"]), ("Odd", "three"))


def test_javascript_rejected_promise():
    result = call("javascript", "async function f() { throw new RangeError('far'); }", "f")
    equal((result.status, result.error["type"], result.error["message"]), ("error", "RangeError", "far"))


def test_javascript_thrown_string():
    result = call("javascript", "function f() { throw 'plain'; }", "f")
    equal(result.status, "error")
    assert "plain" in result.error["message"], result


def test_javascript_syntax_error():
    equal(call("javascript", "function f( {", "f").error["type"], "SyntaxError")
    for code in ["const f = () => <b>hi</b>", "export const f = () => <><i/></>", "const x = 1\nreturn <b a={x}/>"]:
        error = call("javascript", code).error
        equal((error["type"], error["message"]), ("SyntaxError", "JSX is not JavaScript: give the code as typescript, which compiles it (Unexpected token '<')"), code)
    equal(call("javascript", "const a = '<b>hi</b>'\nreturn < 1").error["message"], "Unexpected token '<'")


def test_javascript_process_exit_is_no_success():
    assert call("javascript", "function f() { process.exit(0); }", "f").status in ("crash", "error")


def test_javascript_promise_that_never_settles_ends():
    result = call("javascript", "function f() { return new Promise(() => {}); }", "f", timeout=3)
    assert result.status in ("error", "crash", "timeout"), result


def test_values_that_cannot_be_sent_are_named():
    for language, code in [("python", "def f(): return {'rows': [1, {'handler': print}]}"),
                           ("javascript", "function f() { return {rows: [1, {handler: new WeakMap()}]}; }")]:
        result = call(language, code, "f")
        equal((result.status, result.error["type"]), ("error", "TypeError"), result)
        assert "$.rows[1].handler" in result.error["message"], result


def test_a_cycle_is_refused():
    for language, code in [("python", "def f():\n    a = []\n    a.append(a)\n    return a"),
                           ("javascript", "function f() { const a = []; a.push(a); return a; }")]:
        equal(call(language, code, "f").status, "error")


def test_without_json_the_error_is_on_stderr():
    finished = cli("call", "python", "f", "-c", "def f():\n    raise KeyError('k')")
    equal((finished.code, finished.stdout), (1, b""), finished)
    assert b"KeyError" in finished.stderr, finished


def test_names_and_texts_are_cut_between_characters():
    result = call("python", "class X(Exception): pass\nX.__name__ = 'a' + 'é' * 60\ndef f(): raise X('b' + 'ä' * 4000)", "f")
    equal(result.status, "error")
    assert result.error["type"].startswith("aéé") and result.error["message"].startswith("bää"), result
