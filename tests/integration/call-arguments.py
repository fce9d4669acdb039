"""Arguments reach a function as its language means them."""
from cloche import equal, value_of, write_file, cli
import json


def test_python_positional():
    equal(value_of("python", "def add(a, b):\n    return a + b", "add", args=[40, 2]), 42)


def test_python_keywords():
    equal(value_of("python", "def f(a, *, b=2, **rest):\n    return [a, b, rest]", "f", args=[1], kwargs={"c": 3}),
          [1, 2, {"c": 3}])


def test_python_variadic():
    equal(value_of("python", "def f(*a):\n    return list(a)", "f", args=[1, "x", None, True]), [1, "x", None, True])


def test_python_default_is_the_languages_own():
    equal(value_of("python", "def f(a, b=[1, 2]):\n    return b", "f", args=[0]), [1, 2])


def test_python_async_function_is_awaited():
    code = """
        import asyncio
        async def f(x):
            await asyncio.sleep(0.01)
            return x * 2
    """
    equal(value_of("python", code, "f", args=[21]), 42)


def test_python_generator_is_collected():
    equal(value_of("python", "def f(n):\n    yield from range(n)", "f", args=[3]), [0, 1, 2])


def test_python_one_public_function_needs_no_name():
    equal(value_of("python", "def _helper():\n    return 7\ndef f():\n    return _helper()"), 7)


def test_python_code_is_the_body_when_it_has_no_function():
    equal(value_of("python", "x = 6\nreturn x * 7"), 42)


def test_javascript_positional():
    equal(value_of("javascript", "function add(a, b) { return a + b; }", "add", args=[40, 2]), 42)


def test_javascript_keywords_of_a_destructuring_parameter():
    equal(value_of("javascript", "function f(a, {b = 2, c}) { return [a, b, c]; }", "f", args=[1], kwargs={"c": 3}),
          [1, 2, 3])


def test_javascript_keywords_map_to_positions():
    equal(value_of("javascript", "function f(a, b) { return a - b; }", "f", kwargs={"b": 1, "a": 10}), 9)


def test_javascript_async_function_is_awaited():
    code = "const later = ms => new Promise(r => setTimeout(r, ms)); async function f(x) { await later(5); return x; }"
    equal(value_of("javascript", code, "f", args=["late"]), "late")


def test_javascript_generator_is_collected():
    equal(value_of("javascript", "function* f(n) { for (let i = 0; i < n; i++) yield i; }", "f", args=[3]), [0, 1, 2])


def test_javascript_arrow_function_by_name():
    equal(value_of("javascript", "const double = x => x * 2;", "double", args=[4]), 8)


def test_javascript_one_function_needs_no_name():
    equal(value_of("javascript", "function only() { return 'one'; }"), "one")


def test_javascript_code_is_the_body_when_it_has_no_function():
    equal(value_of("javascript", "const x = 6; return x * 7;"), 42)


def test_javascript_alias_js():
    equal(value_of("js", "function f() { return 1; }", "f"), 1)


def test_arguments_are_never_spliced_into_the_source():
    nasty = "\"'`${1+1}\\\n\x00</script>‮é"
    for language, code in [("python", "def f(x): return x"), ("javascript", "function f(x) { return x; }")]:
        equal(value_of(language, code, "f", args=[nasty]), nasty)


def test_code_from_a_file():
    path = write_file("code.py", "def f(x):\n    return x")
    finished = cli("call", "python", "f", "-f", path, "--args", "[5]", "--json")
    equal(json.loads(finished.stdout)["result"], 5)


def test_code_from_stdin():
    finished = cli("call", "python", "f", "-", "--args", "[5]", "--json", stdin=b"def f(x):\n    return x")
    equal(json.loads(finished.stdout)["result"], 5)


def test_without_json_the_value_alone_is_printed():
    finished = cli("call", "python", "f", "-c", "def f(): return {'a': [1, 2.5]}")
    equal(json.loads(finished.stdout), {"a": [1, 2.5]})
    equal(finished.code, 0)


def test_a_large_argument_and_result():
    code = write_file("code.py", "def f(n): return 'x' * n")
    finished = cli("call", "python", "f", "-f", code, "--args", "[5000000]", "--json")
    equal(len(json.loads(finished.stdout)["result"]), 5000000)
