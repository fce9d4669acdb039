"""Perl, the language of docs/adding-a-language.md, through the CLI: cold only, its own values, arguments and errors."""
import os
import re
import shlex

from cloche import SOURCE, call, cli, equal, run, value_of


def test_the_call_of_the_page():
    page = open(os.path.join(SOURCE, "docs", "adding-a-language.md")).read()
    shown = re.search(r"^    \$ build/cloche (.*)\n    (.*)$", page, re.M)
    finished = cli(*shlex.split(shown[1]))
    equal((finished.code, finished.stdout.decode()), (0, shown[2] + "\n"), finished)


def test_aliases():
    equal(value_of("pl", "my ($x, $y) = @_; $x + $y", args=[40, 2]), 42)
    equal(value_of("perl5", "$0"), "main.pl")


def test_values_keep_their_kind():
    value = {"a": [1, -2.5, "5", "é\n", True, False, None, {}, []], "": {"deep": [[[]]]}}
    result = call("perl", "sub f { return [ref $_[0], $_[0]] }", args=[value])
    equal(result.raw["result"], ["HASH", value])
    for form, seen in [({"$": "bytes", "b64": "AP8Q"}, "Cloche::Bytes"), ({"$": "bigint", "v": "-123456789012345678901"}, "Math::BigInt"),
                       ({"$": "number", "v": "NaN"}, False), ({"$": "number", "v": "-0"}, False),
                       ({"$": "object", "v": [["$", "bytes"], ["x", 1]]}, "HASH")]:
        equal(call("perl", "sub f { return [ref $_[0], $_[0]] }", args=[form]).raw["result"], [seen, form])


def test_what_perl_cannot_hold_is_named():
    for form in ({"$": "set", "v": [1]}, {"$": "map", "v": [[1, 2]]}, {"$": "date", "v": "2026-11-21"}):
        result = call("perl", "sub f { 1 }", args=[{"x": form}])
        equal(result.error["message"], f"args[0].x: a value of the kind '{form['$']}' has no form in Perl", result)
    result = call("perl", "return {rows => [1, {handler => sub { 1 }}]}")
    equal((result.error["type"], result.error["message"]), ("TypeError", "$.rows[1].handler: CODE cannot be sent: return its data"))


def test_schema():
    schema = {"params": [{"name": "base", "type": "number", "required": True},
                         {"name": "power", "type": "integer", "required": False, "default": 2}]}
    code = "sub raise { my ($base, $power) = @_; return $base ** $power }"
    result = call("perl", code, kwargs={"base": 3}, schema=schema)
    equal((result.status, result.value, result.meta["signatureSource"]), ("success", 9, "schema"), result)
    equal(value_of("perl", code, args=[2], kwargs={"power": 10}, schema=schema), 1024)
    result = call("perl", code, kwargs={"base": "x"}, schema=schema)
    equal((result.error["type"], result.error["message"]), ("TypeError", "argument 'base': expected number, got string"))


def test_holes():
    code = "sub f { my ($x, $y) = @_; return [$x, $y // 'default'] }"
    equal(value_of("perl", code, args=[{"index": 0, "value": 1}]), [1, "default"])
    result = call("perl", code, args=[{"index": 1, "value": 1}])
    equal(result.error["message"], "argument at position 0 is missing, and others stand behind it")


def test_errors_have_the_users_lines():
    result = call("perl", "sub f {\n    my $y = shift;\n    return 1 / $y\n}\n", "f", args=[0])
    equal((result.status, result.error["type"], result.error["message"]), ("error", "Error", "Illegal division by zero"))
    assert "main.pl line 3" in result.error["stack"] and "cloche" not in result.error["stack"].lower(), result
    result = call("perl", "my $x = 1;\nsub f (\n")
    equal(result.error["type"], "SyntaxError", result)
    assert "main.pl line 2" in result.error["message"], result


def test_exit_is_no_success():
    result = call("perl", "sub f { exit 3 }")
    equal((result.status, result.error["type"], result.error["message"]), ("error", "SystemExit", "3"))
    equal(call("perl", "require POSIX; POSIX::_exit(0)").status, "crash")
    equal(call("perl", "kill ABRT => $$; sleep 9").status, "crash")


def test_output_and_warnings():
    result = call("perl", "print 'ü'; warn \"mind\\n\"; sub f { print 'no newline'; return 5 }")
    equal((result.value, result.stdout, result.stderr), (5, "üno newline", "mind\n"))


def test_limits():
    equal(call("perl", "1 while 1", timeout=1).status, "timeout")
    result = call("perl", "'x' x (65 << 20)")
    equal((result.status, result.error["type"], result.error["message"]), ("error", "ValueError", "result over resultBytes"), result)


def test_files():
    result = call("perl", "open my $out, '>', 'made.txt' or die $!; print $out 'made'; close $out; opendir my $d, '.'; [sort grep { !/^\\./ } readdir $d]")
    assert "made.txt" in result.value, result
    equal(result.paths("created"), ["/workspace/made.txt"])


def test_script():
    finished = run("perl", "print \"$0 @ARGV\\n\"; print STDERR 'warned'; print while <STDIN>; exit 7", "a", "b c", stdin=b"data")
    equal((finished.code, finished.stdout, finished.stderr), (7, b"/workspace/main.pl a b c\ndata", b"warned"))


def test_perl_is_cold_only():
    finished = cli("prefix", "create", "of-perl", "perl", "-c", "1;")
    assert finished.code != 0 and b"perl" in finished.stderr, finished
