"""PHP through the command line: results, values, errors, limits, files."""
from cloche import call, equal, limit_hit, run, value_of, write_file


def tag(kind, **rest):
    return {"$": kind, **rest}


def test_function_and_body():
    equal(value_of("php", "function add($a, $b = 2) { return $a + $b; }", args=[40]), 42)
    equal(value_of("php", "<?php\nreturn $args[0] . $kwargs['k'];", args=["a"], kwargs={"k": "b"}), "ab")
    equal(value_of("php", "function f($a, ...$rest) { return [$a, $rest]; }", "f", args=[1, 2], kwargs={"k": 3}), [1, {"0": 2, "k": 3}])


# By extension: the package that has it, code that uses it, its value.
EXTENSIONS = {
    "mbstring": ("php-mbstring", "function f() { return [mb_strlen('héé'), mb_strtoupper('é')]; }", [3, "É"]),
    "sqlite3": ("php-sqlite3", "function f() { $d = new SQLite3(':memory:'); $d->exec('create table t (a)'); $d->exec('insert into t values (5)'); return $d->querySingle('select a from t'); }", 5),
    "pdo_sqlite": ("php-sqlite3", "function f() { return (new PDO('sqlite::memory:'))->query('select 1 + 1')->fetchColumn(); }", 2),
    "dom": ("php-xml", "function f() { $d = new DOMDocument(); $d->loadXML('<a><b>x</b></a>'); return $d->textContent; }", "x"),
    "xml": ("php-xml", "function f() { return simplexml_load_string('<a><b>1</b><b>2</b><c k=\"v\"><d/></c></a>'); }", {"b": ["1", "2"], "c": {"@attributes": {"k": "v"}, "d": ""}}),
    "simplexml": ("php-xml", "function f() { return (string) simplexml_load_string('<a><b>y</b></a>')->b; }", "y"),
    "intl": ("php-intl", "function f() { return (new NumberFormatter('de_DE', NumberFormatter::DECIMAL))->format(1234.5); }", "1.234,5")}


def test_extensions_work_or_are_named():
    for name, (package, code, expected) in EXTENSIONS.items():
        result = call("php", code)
        if value_of("php", f"return extension_loaded('{name}');"):
            equal((result.status, result.value), ("success", expected), result)
        else:
            equal(result.status, "error", result)
            assert result.error["message"].endswith(f"the image's PHP has no {name} (Debian: {package})"), result
            assert package in result.error["stack"], result
    equal(call("php", "mb_own();").error["message"].startswith("Call to undefined function mb_own()"), True)
    equal(call("php", "new Own();").error["message"], 'Class "Own" not found')


def test_keys_that_repeat():
    equal(value_of("php", "function f() { yield 'a' => 1; yield 'a' => 2; }"), [["a", 1], ["a", 2]])


def test_arguments_in_other_forms():
    code = "function f($a = 1, $b = 2, $c = 3) { return [$a, $b, $c]; }"
    equal(value_of("php", code, args={"b": 5}), [1, 5, 3])
    equal(value_of("php", code, args=[{"index": 2, "value": 9}]), [1, 2, 9])


def test_signature_sources():
    schema = {"params": [{"name": "a", "type": "integer", "required": True}, {"name": "b", "type": "integer", "default": 7}]}
    result = call("php", "function f($a, $b) { return [$a, $b]; }", "f", args=[1], schema=schema)
    equal((result.value, result.meta["signatureSource"]), ([1, 7], "schema"))
    result = call("php", "function f($a) {}", "f", args=["x"], schema=schema)
    equal(result.status, "error")
    assert "a" in result.error["message"], result
    equal(call("php", "function f() {}").meta["signatureSource"], "inferred")
    equal(call("php", "return 1;").meta["signatureSource"], "convention")


def test_errors_name_the_parameter():
    result = call("php", "function f($left, $right) {}", args=[1])
    equal((result.error["type"], result.error["message"]), ("ArgumentCountError", "f($left, $right) is missing its argument $right (position 1)"))
    result = call("php", "function f($left) {}", args=[1], kwargs={"wrong": 1})
    equal((result.error["type"], result.error["message"]), ("Error", "Unknown named parameter $wrong of f($left)"))


def test_forms_round_trip():
    for value, seen in [(tag("bytes", b64="AP8Q"), "Cloche\\Bytes"), (tag("bigint", v="-123456789012345678901"), "Cloche\\BigInt"),
                        (tag("number", v="NaN"), "float"), (tag("number", v="-0"), "float"), (tag("date", v="2026-11-21T10:20:30.123456Z"), "DateTimeImmutable"),
                        (tag("set", v=[1, 2]), "Cloche\\Set"), (tag("map", v=[[1, "a"], ["1", [2]]]), "Cloche\\Map"),
                        (tag("object", v=[["$", "bytes"], ["x", 1]]), "array"), (tag("array", t="f64", b64="AAAAAAAA8D8AAAAAAAAAQA=="), "Cloche\\TypedArray"),
                        ({}, "ArrayObject"), ([], "array"), ({"0": 1}, "ArrayObject"), ({"a": [1, -2.5, "\u00e9\n", True, None, {}, []]}, "array")]:
        result = call("php", "function f($x) { return [get_debug_type($x), $x]; }", "f", args=[value])
        equal(result.status, "success", result)
        equal(result.raw["result"], [seen, value])


def test_user_data_cannot_forge_a_tag():
    equal(call("php", "return ['$' => 'bytes', 'b64' => 'AAAA'];").raw["result"], tag("object", v=[["$", "bytes"], ["b64", "AAAA"]]))


def test_errors():
    result = call("php", "function f($x) {\n    $y = $x;\n    return 1 % $y;\n}\n", "f", args=[0])
    equal((result.status, result.error["type"], result.error["message"]), ("error", "DivisionByZeroError", "Modulo by zero"))
    equal(result.error["stack"], "DivisionByZeroError: Modulo by zero in main.php:3\nStack trace:\n#0 [internal function]: f()\n#1 {main}")
    result = call("php", "\n$x = ;")
    equal(result.error["type"], "ParseError")
    assert "main.php:2" in result.error["stack"], result
    result = call("php", "return ['rows' => [1, ['handler' => fn () => 1]]];")
    equal((result.error["type"], result.error["message"]), ("TypeError", "$.rows[1].handler: Closure cannot be sent: return its data, "
          "or let its class be JsonSerializable; returned by main.php"))


def test_ends_before_the_result():
    for code, kind in [("exit(0);", "ExitException"), ("function f() { die('x'); }", "ExitException"), ("class A { function x() {} function x() {} }", "CompileError")]:
        result = call("php", code)
        equal((result.status, result.error["type"]), ("error", kind), result)
    equal(call("php", "posix_kill(getmypid(), 9);").status, "crash")


def test_streams():
    result = call("php", "echo 'out'; ob_start(); echo ' kept'; fwrite(STDERR, 'err '); echo $undefined; return 1;")
    equal((result.value, result.stdout), (1, "out kept"))
    assert result.stderr.startswith("err ") and "Warning: Undefined variable $undefined in main.php on line 1" in result.stderr, result


def test_memory():
    limit_hit(call("php", "$x = []; while (true) $x[] = str_repeat('x', 1 << 20);", memory="64"), "crash", "MemoryLimit")


def test_endless_recursion():
    limit_hit(call("php", "function f() { return f(); }", "f", memory="64"), "crash", "MemoryLimit")


def test_time():
    equal(call("php", "while (true);", timeout="0.5").status, "timeout")


def test_files():
    result = call("php", "file_put_contents('new', strtoupper(file_get_contents('given'))); return is_writable('/usr');", file=["given=" + write_file("g", "text")])
    equal((result.value, result.paths("created")), (False, ["/workspace/new"]))


def test_programs():
    equal(value_of("php", "return trim(shell_exec('echo from the shell'));"), "from the shell")


def test_scripts():
    finished = run("php", "<?php\necho strtoupper(stream_get_contents(STDIN)), $argv[1]; exit(3);", "x", stdin=b"data ")
    equal((finished.code, finished.stdout, finished.stderr), (3, b"DATA x", b""))
    finished = run("php", "echo __LINE__, $undefined;")
    equal((finished.code, finished.stdout), (0, b"1"))
    assert b"Warning: Undefined variable $undefined" in finished.stderr, finished
    finished = run("php", "<?php\n\nthrow new Exception('no');")
    equal(finished.code, 255)
    assert b"Uncaught Exception: no in" in finished.stderr, finished
