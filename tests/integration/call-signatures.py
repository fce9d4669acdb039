"""A call that does not fit the function is the code's error and names the parameter; where the signature came from
is reported."""
from cloche import call, equal

SCHEMA = {"params": [{"name": "count", "type": "integer", "required": True},
                     {"name": "label", "type": "string", "required": False, "default": "none"}]}


def refused(result, type_name, word):
    equal(result.status, "error", result)
    equal(result.error["type"], type_name)
    assert word in result.error["message"], result


def test_python_signature_is_inferred():
    equal(call("python", "def f(a): return a", "f", args=[1]).meta["signatureSource"], "inferred")


def test_javascript_signature_is_inferred():
    equal(call("javascript", "function f(a) { return a; }", "f", args=[1]).meta["signatureSource"], "inferred")


def test_schema_is_reported():
    result = call("python", "def f(count, label): return [count, label]", "f", kwargs={"count": 2}, schema=SCHEMA)
    equal(result.value, [2, "none"], result)
    equal(result.meta["signatureSource"], "schema")


def test_schema_orders_javascript_keywords():
    result = call("javascript", "function f(n, l) { return [n, l]; }", "f", kwargs={"label": "x", "count": 2},
                  schema=SCHEMA)
    equal(result.value, [2, "x"], result)


def test_schema_refuses_a_wrong_type():
    for language, code in [("python", "def f(count, label='x'): return 1"), ("javascript", "function f(a, b) { return 1; }")]:
        refused(call(language, code, "f", args=["two"], schema=SCHEMA), "TypeError", "count")


def test_schema_refuses_a_missing_argument():
    for language, code in [("python", "def f(count, label='x'): return 1"), ("javascript", "function f(a, b) { return 1; }")]:
        refused(call(language, code, "f", schema=SCHEMA), "TypeError", "count")


def test_python_missing_argument():
    refused(call("python", "def f(first, second): return 1", "f", args=[1]), "TypeError", "second")


def test_python_unknown_keyword():
    refused(call("python", "def f(first): return 1", "f", args=[1], kwargs={"colour": 1}), "TypeError", "colour")


def test_javascript_unknown_keyword():
    refused(call("javascript", "function f(first) { return 1; }", "f", kwargs={"colour": 1}), "TypeError", "colour")


def test_python_no_such_function():
    refused(call("python", "def f(): return 1", "absent"), "NameError", "absent")


def test_javascript_no_such_function():
    refused(call("javascript", "function f() { return 1; }", "absent"), "ReferenceError", "absent")
