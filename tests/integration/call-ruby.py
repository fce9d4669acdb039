"""Ruby through the command line: calls, values, errors, scripts, files."""
import json

from cloche import EXIT_CODES, call, cli, equal, run, value_of, write_file


def tag(kind, **rest):
    return {"$": kind, **rest}


def test_functions_and_bodies():
    equal(value_of("ruby", "def add(a, b) = a + b", args=[40, 2]), 42)
    equal(value_of("rb", "args.sum + kwargs[:more]", args=[1, 2], kwargs={"more": 3}), 6)
    equal(value_of("ruby", "module Tools\n def self.twice(x) = x * 2\nend", "Tools.twice", args=[4]), 8)
    equal(value_of("ruby", "return 'early' if args.empty?\n'late'"), "early")


def test_arguments():
    code = "def f(a, b = 2, *rest, k: 1, **more) = [a, b, rest, k, more]"
    equal(value_of("ruby", code, args=[1], kwargs={"k": 5, "z": 6}), [1, 2, [], 5, {"z": 6}])
    equal(value_of("ruby", "def f(a, b = 2, c = 3) = [a, b, c]", args={"a": 1, "b": 9}), [1, 9, 3])
    equal(value_of("ruby", "def f(a, b = 2, c) = [a, b, c]", args=[{"index": 0, "value": 1}, {"index": 2, "value": 3}]), [1, 2, 3])
    for code, args, message in (("def f(a, b) = 1", [1], "missing argument 'b'"), ("def f(a) = 1", [1, 2], "argument 2 is too many")):
        result = call("ruby", code, "f", args=args)
        equal((result.status, result.error["type"]), ("error", "ArgumentError"), result)
        assert message in result.error["message"], result


def test_signature_sources():
    schema = json.loads('{"params":[{"name":"x","type":"integer","required":true},{"name":"y","type":"integer","default":5}]}')
    for code, options, want in (("def f(a) = a", {"args": [1]}, "inferred"), ("1", {}, "convention"),
                                ("def f(a, b) = a + b", {"args": [1], "schema": schema}, "schema")):
        equal(call("ruby", code, **options).meta["signatureSource"], want)
    equal(value_of("ruby", "def f(a, b) = a + b", kwargs={"x": 1}, schema=schema), 6)
    equal(call("ruby", "def f(a, b) = a + b", args=["no"], schema=schema).status, "error")


def test_forms_round_trip():
    code = "def f(x) = [x.class.name, x]"
    for value, seen in ((tag("bytes", b64="AP8Q"), "String"), (tag("bigint", v="-123456789012345678901"), "Integer"), (tag("number", v="NaN"), "Float"),
                        (tag("number", v="-0"), "Float"), (tag("date", v="2026-11-21T10:20:30.123456Z"), "Time"), (tag("date", v="2026-11-21"), "Date"),
                        (tag("date", v="2026-11-21T10:20:30"), "Time"), (tag("set", v=[1, 2]), "Set"), (tag("map", v=[[1, "a"], ["b", [2]]]), "Hash"),
                        (tag("object", v=[["$", "bytes"], ["x", 1]]), "Hash"), (tag("array", t="f64", b64="AAAAAAAA8D8AAAAAAAAAQA=="), "TypedArray"),
                        ({"a": [1, -2.5, "é\n", True, None, {}, []]}, "Hash"), (3, "Integer"), (3.0, "Float")):
        result = call("ruby", code, "f", args=[value])
        equal(result.status, "success", result)
        equal(result.raw["result"], [seen, value])


def test_errors():
    result = call("ruby", "def f(x)\n  y = x\n  1 / y\nend", "f", args=[0])
    equal((result.status, result.error["type"], result.error["message"]), ("error", "ZeroDivisionError", "divided by 0"))
    equal(result.error["stack"].count("\n"), 2)
    assert ":3:in" in result.error["stack"] and "/run/cloche" not in result.error["stack"], result
    equal(call("ruby", "def f(").error["type"], "SyntaxError")
    equal(call("ruby", "exit 3").error["type"], "SystemExit")
    equal(call("ruby", "exit! 0").status, "crash")
    equal(call("ruby", "Process.kill(:SEGV, $$); sleep 5").status, "crash")
    equal(call("ruby", "def f = {rows: [0, {h: method(:puts)}]}").error["message"], "$.rows[1].h: Method cannot be sent: return its data, or give its class a method to_h; "
          "returned by f (main.rb, line 1)")


def test_limits():
    equal(call("ruby", "loop {}", timeout=1).status, "timeout")
    equal(value_of("ruby", "(1..).lazy.map { |x| x * x }.first(3)"), [1, 4, 9])


def test_output_is_not_the_result():
    result = call("ruby", "puts '{\"result\": 1}'\nwarn 'w'\nprint 'no newline'\n2")
    equal((result.value, result.stdout, result.stderr), (2, '{"result": 1}\nno newline', "w\n"))


def test_libraries_and_files():
    equal(value_of("ruby", "require 'csv'\nrequire 'json'\nrequire 'digest'\nrequire 'yaml'\n[CSV.parse('a,b'), JSON.parse('[1]'), Digest::SHA256.hexdigest('x')[0, 4], YAML.load('a: 1')]"),
          [[["a", "b"]], [1], "2d71", {"a": 1}])
    path = write_file("tool.rb", "def tool(x) = x + 1")
    equal(value_of("ruby", "require_relative 'tool'\ntool(args[0])", args=[1], file=["tool.rb=" + path]), 2)
    result = call("ruby", "File.write('out.txt', 'x')\nnil")
    equal(result.paths("created"), ["/workspace/out.txt"])


def test_threads_and_children():
    equal(value_of("ruby", "[`echo hi`, Thread.new { 5 }.value, (pid = fork { exit!(3) }; Process.wait(pid); $?.exitstatus)]"), ["hi\n", 5, 3])


def test_scripts():
    finished = run("ruby", "puts ARGV.inspect, $stdin.read, __FILE__ == $0\nexit 3", "a", "b", stdin=b"in")
    equal((finished.code, finished.stdout), (3, b'["a", "b"]\nin\ntrue\n'))


def test_aliases():
    equal(cli("call", "ruby", "-c", "1 + 1").stdout, b"2\n")
    equal(EXIT_CODES["success"], 0)
