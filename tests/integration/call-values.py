"""Values JSON lacks keep their form both ways (spec/values.md)."""
from cloche import call, equal


def tag(kind, **rest):
    return {"$": kind, **rest}


BYTES = tag("bytes", b64="AP8Q")
BIG = tag("bigint", v="-123456789012345678901")
NAN = tag("number", v="NaN")
MINUS_ZERO = tag("number", v="-0")
DATE = tag("date", v="2026-11-21T10:20:30.123456Z")
SET = tag("set", v=[1, 2])
MAP = tag("map", v=[[1, "a"], ["b", [2]]])
ESCAPED = tag("object", v=[["$", "bytes"], ["x", 1]])
F64 = tag("array", t="f64", b64="AAAAAAAA8D8AAAAAAAAAQA==")


def echo(language, value):
    """The returned value, as raw JSON, and the type that the code saw."""
    code = {"python": "def f(x): return [type(x).__name__, x]",
            "javascript": "function f(x) { return [x === undefined ? 'undefined' : x === null ? 'null' : "
                          "typeof x === 'object' ? x.constructor.name : typeof x, x]; }"}[language]
    result = call(language, code, "f", args=[value])
    equal(result.status, "success", result)
    return result.raw["result"]


def test_python_forms_round_trip():
    for value, seen in [(BYTES, "bytes"), (BIG, "int"), (NAN, "float"), (MINUS_ZERO, "float"), (DATE, "datetime"),
                        (SET, "set"), (MAP, "dict"), (ESCAPED, "dict"), (F64, "array"),
                        (tag("date", v="2026-11-21"), "date")]:
        equal(echo("python", value), [seen, value])


def test_javascript_forms_round_trip():
    for value, seen in [(BYTES, "Uint8Array"), (BIG, "bigint"), (NAN, "number"), (MINUS_ZERO, "number"),
                        (SET, "Set"), (MAP, "Map"), (ESCAPED, "Object"), (F64, "Float64Array"),
                        (tag("undefined"), "undefined")]:
        equal(echo("javascript", value), [seen, value])


def test_javascript_date_keeps_milliseconds():
    kind, value = echo("javascript", DATE)
    equal(kind, "Date")
    equal(value["$"], "date")
    assert value["v"].startswith("2026-11-21T10:20:30.123"), value


def test_plain_json_stands_for_itself():
    value = {"a": [1, -2.5, "é\n", True, False, None, {}, []], "": {"deep": [[[]]]}}
    for language, kind in [("python", "dict"), ("javascript", "Object")]:
        equal(echo(language, value), [kind, value])


def test_python_integer_and_float_stay_apart():
    equal(echo("python", 3)[0], "int")
    equal(echo("python", 3.0)[0], "float")


def test_python_infinity():
    equal(call("python", "def f(): return [float('inf'), -float('inf')]", "f").raw["result"],
          [tag("number", v="Infinity"), tag("number", v="-Infinity")])


def test_python_integer_beyond_the_safe_range_is_big():
    equal(call("python", "def f(): return [2**53 - 1, 2**53]", "f").raw["result"],
          [2**53 - 1, tag("bigint", v=str(2**53))])


def test_python_tuple_and_dataclass():
    code = """
        import dataclasses, enum
        class Colour(enum.Enum): RED = 'red'
        @dataclasses.dataclass
        class Point: x: int; y: int
        def f(): return [(1, 2), Point(3, 4), Colour.RED]
    """
    equal(call("python", code, "f").value, [[1, 2], {"x": 3, "y": 4}, "red"])


def test_user_data_cannot_forge_a_tag():
    forged = {"$": "bytes", "b64": "AAAA"}
    for language, code in [("python", "def f(): return {'$': 'bytes', 'b64': 'AAAA'}"),
                           ("javascript", "function f() { return {$: 'bytes', b64: 'AAAA'}; }")]:
        equal(call(language, code, "f").raw["result"], tag("object", v=[[k, v] for k, v in forged.items()]))


def test_javascript_undefined_result():
    equal(call("javascript", "function f() {}", "f").raw["result"], tag("undefined"))


def test_python_none_result():
    result = call("python", "def f(): pass", "f")
    equal((result.status, result.raw["result"]), ("success", None))
