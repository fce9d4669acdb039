"""A call that does not fit the function, or the caller's schema, is an error that names the parameter; where the signature came
from is reported."""
from cloche import call, cli, equal

SCHEMA = {"params": [{"name": "count", "type": "integer", "required": True},
                     {"name": "label", "type": "string", "required": False, "default": "none"}]}
STRICT = {"input": {"label": {"index": 1, "type": "string", "default": "none"}, "count": {"type": "integer", "required": True}},
          "strict": True}
PAIR = {"python": "def f(count, label=None): return [count, label]", "javascript": "function f(count, label = null) { return [count, label]; }"}
OTHER_NAMES = {"python": "def f(a, b='own'): return [a, b]", "javascript": "function f(a, b = 'own') { return [a, b]; }"}
NEVER = {"python": "raise SystemExit('ran')", "javascript": "process.exit(7)"}
CLASSES = {"python": ("TypeError", "ValueError"), "javascript": ("TypeError", "TypeError")}

# The arguments given, and those that the function then gets.
FITS = [
    ({"args": [2]}, [2, "none"]),
    ({"args": [2, "x"]}, [2, "x"]),
    ({"kwargs": {"label": "x", "count": 2}}, [2, "x"]),
    ({"args": {"label": "x", "count": 2}}, [2, "x"]),
    ({"args": {"count": 2}, "kwargs": {"label": "x"}}, [2, "x"]),
    ({"args": [{"index": 1, "value": "x"}, {"index": 0, "value": 2}]}, [2, "x"]),
    ({"args": [{"index": 0, "value": 2}], "kwargs": {"label": "x"}}, [2, "x"]),
    ({"args": [{"index": 1, "value": "x"}], "kwargs": {"count": 2}}, [2, "x"]),
]

# The arguments, True if the value is at fault, and the text of the error.
MISFITS = [
    ({}, 0, "missing required argument 'count'"),
    ({"args": ["two"]}, 0, "argument 'count': expected integer, got string"),
    ({"args": [2.5]}, 0, "argument 'count': expected integer, got number"),
    ({"args": [True]}, 0, "argument 'count': expected integer, got boolean"),
    ({"args": {"count": None}}, 0, "argument 'count': expected integer, got null"),
    ({"args": [2, "x", 3]}, 0, "argument 3 is too many: the schema has 2 (count, label)"),
    ({"args": [2], "kwargs": {"colour": 1}}, 0, "unknown argument 'colour'; the schema has: count, label"),
    ({"args": [2], "kwargs": {"count": 3}}, 0, "argument 'count' is given twice"),
    ({"args": {"count": 2}, "kwargs": {"count": 3}}, 0, "argument 'count' is given twice, in args and in kwargs"),
    ({"args": [{"index": 0, "value": 1}, {"index": 0, "value": 2}]}, 0, "argument index 0 is given twice"),
    ({"args": [{"index": -1, "value": 1}]}, 0, "argument index -1 is not a position"),
    ({"args": [{"index": "0", "value": 1}]}, 0, "argument index \"0\" is not a position"),
]

# A parameter's schema, an argument that fits, one that does not, and the error.
KEYWORDS = [
    ({"enum": [1, "x"]}, "x", 2, 1, 'expected one of [1, "x"], got 2'),
    ({"minimum": 2}, 2, 1, 1, "expected at least 2, got 1"),
    ({"pattern": "^[a-z]+$"}, "abc", "a1", 1, '"a1" does not match ^[a-z]+$'),
    ({"maxLength": 2}, "😀😀", "abc", 1, "expected at most 2 characters, got 3"),
    ({"type": "bytes"}, {"$": "bytes", "b64": "AAE="}, "x", 0, "expected bytes, got string"),
    ({"items": {"type": "string"}}, ["a"], ["a", 1], 0, "argument 'a'[1]: expected string, got integer"),
    ({"properties": {"p": {"items": {"type": "null"}}}}, {"p": [None]}, {"p": [1]}, 0, "argument 'a'.p[0]: expected null, got integer"),
    ({"required": ["p"]}, {"p": 1}, {}, 0, "property 'p' is missing"),
    ({"properties": {"p": {}}, "additionalProperties": False}, {"p": 1}, {"q": 1}, 0, "unknown property 'q'"),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None, 1, 0, "fits none of anyOf, for the last: expected null, got integer"),
    ({"type": "integer"}, {"$": "bigint", "v": "123456789012345678901234567890"}, 1.5, 0, "expected integer, got number"),
]

BROKEN = [
    ({"params": {}}, "schema: params must be an array of objects"),
    ({"input": {"a": {"type": "int"}}}, "schema of 'a': unknown type 'int'"),
    ({"input": [{"name": "a", "items": {"not": {}}}]}, "schema of 'a'.items: keyword 'not' is not supported"),
    ({"input": {"a": {"minimum": "x"}}}, "schema of 'a': keyword 'minimum' has a wrong value"),
    ({"output": {"pattern": "("}}, "schema of the output: keyword 'pattern' has a wrong value"),
    ({"type": "object"}, "schema: 'type' is not supported"),
]


def refused(result, type_name, message):
    equal(result.status, "error", result)
    equal(result.exit_code, 1)
    equal((result.error["type"], result.error["message"]), (type_name, message), result)


def refused_by_schema(language, result, is_value, message):
    refused(result, CLASSES[language][is_value], message)
    equal(result.meta["signatureSource"], "schema")
    equal(result.files, {"created": [], "modified": [], "deleted": [], "denied": []})
    equal((result.stdout, result.stderr), ("", ""))


def test_where_the_signature_is_from():
    for language, code in PAIR.items():
        equal(call(language, code, "f", args=[1]).meta["signatureSource"], "inferred")
        equal(call(language, code, "f", args=[1], schema=SCHEMA).meta["signatureSource"], "schema")
        equal(call(language, "args.length" if language == "javascript" else "len(args)", args=[1]).meta["signatureSource"], "convention")


def test_what_fits():
    for language, code in PAIR.items():
        for given, expected in FITS:
            for schema in (SCHEMA, STRICT):
                equal(call(language, code, "f", schema=schema, **given).value, expected, (language, given, schema))


def test_names_of_the_schema_are_places_of_the_function():
    for language, code in OTHER_NAMES.items():
        for given, expected in FITS:
            equal(call(language, code, "f", schema=SCHEMA, **given).value, expected, (language, given))


def test_what_does_not_fit_runs_nothing():
    for language, code in NEVER.items():
        for given, is_value, message in MISFITS:
            refused_by_schema(language, call(language, code, "f", schema=SCHEMA, **given), is_value, message)


def test_keywords_of_schemas():
    identity = {"python": "def f(a): return 'ran'", "javascript": "function f(a) { return 'ran'; }"}
    for language, code in identity.items():
        for keywords, good, bad, is_value, message in KEYWORDS:
            schema = {"input": {"a": keywords}}
            equal(call(language, code, "f", args=[good], schema=schema).value, "ran", (language, keywords))
            message = message if message.startswith("argument") else "argument 'a': " + message
            refused_by_schema(language, call(language, NEVER[language], "f", args=[bad], schema=schema), is_value, message)


def test_broken_schemas():
    for language, code in NEVER.items():
        for schema, message in BROKEN:
            refused_by_schema(language, call(language, code, "f", schema=schema), 1, message)


def test_a_hole_keeps_the_languages_own_default():
    codes = {"python": "def f(a=1, b=2, c=3): return [a, b, c]", "javascript": "function f(a = 1, b = 2, c = 3) { return [a, b, c]; }"}
    for language, code in codes.items():
        equal(call(language, code, "f", args=[{"index": 2, "value": 9}]).value, [1, 2, 9])
        equal(call(language, code, "f", args=[{"index": 2, "value": 9}], schema={"input": [{"name": "x", "default": 0}]}).value, [0, 2, 9])


def test_mistakes_without_a_schema():
    for language, code in PAIR.items():
        result = call(language, code, "f", args={"count": 2}, kwargs={"count": 3})
        refused(result, "TypeError", "argument 'count' is given twice, in args and in kwargs")
        equal(result.meta["signatureSource"], None)
        refused(call(language, code, "f", args=[{"index": 1 << 16, "value": 1}]), "TypeError", "argument index 65536 is not a position")


def test_variadic_and_keywords():
    code = "def f(a, *rest, **more): return [a, rest, more]"
    schema = {"params": [{"name": "a", "type": "integer"}], "variadic": True, "acceptsKwargs": True}
    equal(call("python", code, "f", args=[1, "x"], kwargs={"z": None}, schema=schema).value, [1, ["x"], {"z": None}])
    code = "function f(a, ...rest) { return [a, rest]; }"
    equal(call("javascript", code, "f", args=[1, "x"], schema={"input": [{"name": "a", "type": "integer"}]}).value, [1, ["x"]])


def test_options_of_javascript():
    code = "function f(name, {mark = '.', size} = {}) { return [name, mark, size]; }"
    schema = {"params": [{"name": "name"}, {"name": "mark", "default": "!"}, {"name": "size", "type": "integer"}]}
    equal(call("javascript", code, "f", args=["n"], kwargs={"size": 2}, schema=schema).value, ["n", "!", 2])


def test_output():
    codes = {"python": "def f(x): return x", "javascript": "function f(x) { return x; }"}
    schema = {"input": [{"name": "x"}], "output": {"type": ["array", "bytes"], "items": {"type": "integer", "maximum": 9}}}
    for language, code in codes.items():
        equal(call(language, code, "f", args=[[1, 9.0]], schema=schema).value, [1, 9])
        equal(call(language, code, "f", args=[{"$": "bytes", "b64": "AA=="}], schema=schema).value, b"\0")
        typed = {"$": "array", "t": "u16", "b64": "CQAJAA=="}
        equal(call(language, code, "f", args=[typed], schema=schema).value, typed)
        refused_by_schema(language, call(language, code, "f", args=["no"], schema=schema), 0, "result: expected array or bytes, got string")
        refused_by_schema(language, call(language, code, "f", args=[[1, 10]], schema=schema), 1, "result[1]: expected at most 9, got 10")
        bigger = {"$": "array", "t": "u16", "b64": "CQAKAA=="}
        refused_by_schema(language, call(language, code, "f", args=[bigger], schema=schema), 1, "result[1]: expected at most 9, got 10")


def test_what_was_printed_is_kept_when_the_output_does_not_fit():
    result = call("python", "def f():\n    print('seen')\n    open('made', 'w').close()\n    return 1", "f", schema={"output": {"type": "string"}})
    refused(result, "TypeError", "result: expected string, got integer")
    equal((result.stdout, [change["path"] for change in result.files["created"]]), ("seen\n", ["/workspace/made"]))


def test_errors_of_the_code_stay_its_own():
    result = call("python", "def f(count, label): return 1 / 0", "f", args=[1], schema=SCHEMA)
    equal((result.error["type"], result.meta["signatureSource"]), ("ZeroDivisionError", "schema"))


def test_without_json_the_message_is_told():
    finished = cli("call", "python", "f", "-c", PAIR["python"], "--args", "[\"x\"]", "--schema", '{"input": {"count": {"type": "integer"}}}')
    equal(finished.code, 1)
    assert b"argument 'count': expected integer, got string" in finished.stderr, finished.stderr


def test_the_functions_own_mistakes():
    for language, code, given, type_name, word in [
        ("python", "def f(first, second): return 1", {"args": [1]}, "TypeError", "second"),
        ("python", "def f(first): return 1", {"args": [1], "kwargs": {"colour": 1}}, "TypeError", "colour"),
        ("javascript", "function f(first) { return 1; }", {"kwargs": {"colour": 1}}, "TypeError", "colour"),
        ("javascript", "function f(first, second) { return 1; }", {"kwargs": {"second": 1}}, "TypeError", "first"),
        ("javascript", "function f(first, second) { return 1; }", {"args": [{"index": 1, "value": 1}]}, "TypeError", "first"),
    ]:
        result = call(language, code, "f", **given)
        equal((result.status, result.error["type"]), ("error", type_name), result)
        assert word in result.error["message"], result


def test_no_such_function():
    for language, code, type_name in [("python", "def f(): return 1", "NameError"), ("javascript", "function f() { return 1; }", "ReferenceError")]:
        result = call(language, code, "absent")
        equal(result.error["type"], type_name)
        assert "absent" in result.error["message"], result


def test_a_call_that_failed_says_where_its_signature_is_from():
    for language, code, args, source in [
        ("python", "def f(a): return 1 / a", [0], "inferred"), ("python", "return 1 / args[0]", [0], "convention"),
        ("python", "def f(a): return a", [], "inferred"), ("python", "def f(a): return f", [1], "inferred"), ("python", "def f(:", [], None),
        ("javascript", "const f = async (a) => { throw new Error('no') }", [1], "inferred"),
        ("javascript", "throw new Error('no')", [1], "convention"), ("javascript", "return await Promise.reject(new Error('no'))", [1], "convention"),
        ("typescript", "const x: number = args[0]\nthrow new Error('no')", [1], "convention"), ("javascript", "throw new Error('no')\nfunction f (a) {}", [1], None),
        ("javascript", "const f = (a) => [() => a]", [1], "inferred"), ("javascript", "const f = (a) => process.exit(3)", [1], "inferred"),
        ("typescript", "export function f<T>(a: T): never { throw new Error('no') }", [1], "inferred"),
        ("ruby", "def f(a) = raise('no')", [1], "inferred"), ("ruby", "def f(a) = a", [], "inferred"),
        ("php", "function f($a) { throw new Exception('no'); }", [1], "inferred"), ("php", "function f($a) { exit(3); }", [1], "inferred"),
        ("bash", "f() { return 3; }", [], "convention"), ("perl", "sub f { die 'no' }", [], "convention"),
        ("c", "int f(int a) { return a; }", ["x"], "inferred"), ("cpp", "#include <stdexcept>\nint f(int a) { throw std::runtime_error(\"no\"); }", [1], "inferred"),
    ]:
        result = call(language, code, args=args)
        equal((result.status, result.meta["signatureSource"]), ("error", source), (language, code, result))
