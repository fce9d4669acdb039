"""Bash functions and scripts through the command line: words in, text or JSON out."""
import json
from cloche import call, cli, equal, write_file


def value(code, function=None, **options):
    result = call("bash", code, function, **options)
    equal(result.status, "success", result)
    return result.raw["result"]


def error(code, function=None, **options):
    result = call("bash", code, function, **options)
    equal(result.status, "error", result)
    return result.error["type"], result.error["message"]


def test_positions():
    equal(value('greet() { echo "$2, $1"; }', args=["Ada", "Hi"]), "Hi, Ada")
    equal(value('echo "$# $*"', args=[1, None, [2]]), "3 1  [2]")
    equal(value('f() { echo "${1:-a} $2"; }', args=[{"index": 1, "value": "b"}]), "a b")


def test_results():
    equal(value("f() { echo $(( $1 + $2 )); }", args=[40, 2]), 42)
    equal(value("""f() { printf '{"n": %d, "list": [1, 2.5]}' "$1"; }""", args=[7]), {"n": 7, "list": [1, 2.5]})
    equal(value("f() { printf '\\xff\\x00'; }"), {"$": "bytes", "b64": "/wA="})
    equal(value("f() { printf '%s' \"$1\"; }", args=[{"a": {"$": "bytes", "b64": "AAE="}}]), {"a": {"$": "bytes", "b64": "AAE="}})


def test_streams():
    result = call("bash", "echo top\nf() { echo result; echo note >&2; }")
    equal((result.value, result.stdout, result.stderr), ("result", "top\n", "note\n"))


def test_schema_names_positions():
    schema = {"input": {"first": {"index": 0, "type": "integer"}, "second": {"index": 1, "type": "string", "default": "dflt"}}}
    result = call("bash", 'f() { echo "$1 $2"; }', args={"first": 1}, schema=schema)
    equal((result.status, result.value, result.raw["meta"]["signatureSource"]), ("success", "1 dflt", "schema"), result)


def test_errors():
    equal(error("f() { return 3; }"), ("ExitStatus", "f returned 3"))
    equal(error("set -u\nf() {\n  echo $nope\n}"), ("ExitStatus", "f ended with status 1: main.sh: line 3: nope: unbound variable"))
    equal(error("f() {\n  if\n}"), ("SyntaxError", "main.sh: line 3: syntax error near unexpected token `}'"))
    equal(error("a() { :; }\nb() { :; }"), ("NameError", "the code defines several public functions (a, b): name one"))
    equal(error("f() { :; }", args=["a\0b"]), ("ArgumentError", "argument 1: a string with NUL in it cannot be held by the shell"))
    equal(error("f() { :; }", kwargs={"a-b": 1}), ("ArgumentError", "argument 'a-b': Bash has no named parameters: give it by position, or name the positions in a schema"))


def test_what_is_printed_is_bounded():
    equal(error("f() { yes; }"), ("ResultError", "the function has printed more than the limit of 67108864 bytes (resultBytes)"))


def test_the_process_gone():
    equal(call("bash", "f() { kill -9 $$; }").status, "crash")
    equal(call("bash", "f() { exec true; }").status, "crash")


def test_an_endless_loop_and_job():
    equal(call("bash", "f() { while :; do :; done; }", timeout=1).status, "timeout")
    equal(value("f() { sleep 60 & echo done; }"), "done")


def test_files():
    write_file("in.txt", "one\ntwo\n")
    result = call("bash", 'f() { wc -l < "$1"; echo new > out.txt; }', args=["in.txt"], file=["in.txt=in.txt"])
    equal((result.value, result.paths("created")), (2, ["/workspace/out.txt"]), result)


def test_a_script():
    finished = cli("run", "bash", "-c", 'read -r x; echo "$x $#:$1"; echo e >&2; exit 3', "--", "a b", stdin=b"in\n")
    equal((finished.code, finished.stdout, finished.stderr), (3, b"in 1:a b\n", b"e\n"))
    equal(cli("run", "bash", "-c", "exec cat", stdin=b"through").stdout, b"through")


def test_by_extension():
    write_file("add.sh", 'add() { echo "$(($1 + $2))"; }\n')
    finished = cli("call", "bash", "-f", "add.sh", "--args", "[1, 2]")
    equal((finished.code, json.loads(finished.stdout)), (0, 3), finished)
