"""Promises that hold in every language: one table of programs, one test a promise. Promises of a
single language are in call-<language>.py."""
from cloche import call, equal, run, value_of
from warm import Warm

# Programs that do the same in each language. add: a + b with b 2 when it is left out; fail: throws with "boom" in line 3.
PYTHON = dict(
    identity="def same(v): return v", add="def add(a, b=2): return a + b",
    fail="def fail():\n    x = 1\n    raise ValueError('boom')", failure="ValueError", broken="def f(:\n", name="NameError",
    noisy="import sys\ndef noisy():\n    print('{\"result\": 1}'); sys.stderr.write('warned\\n'); sys.stdout.write('no newline'); return 7",
    spin="def spin():\n    while True: pass", hoard="def hoard():\n    a = []\n    while True: a.append('x' * 1000000)",
    die="import os, signal\ndef die(): os.kill(os.getpid(), signal.SIGSEGV)",
    leave="import sys\ndef leave(): sys.exit(3)",
    write="def write():\n    open('made.txt', 'w').write('hello'); return open('given.txt').read()",
    body="return args[0] * 2", two="def one(): pass\ndef two(): pass\n", script="import sys\nprint(sys.argv[1:], sys.stdin.read())\nsys.exit(3)",
    setup="kept = [1]\ndef grow():\n    kept.append(1)\n    return len(kept)\n", use="return grow()")
JAVASCRIPT = dict(
    identity="function same(v) { return v }", add="function add(a, b = 2) { return a + b }",
    fail="function fail() {\n  const x = 1\n  throw new RangeError('boom')\n}", failure="RangeError", broken="function f( {\n", name="ReferenceError",
    noisy="function noisy() { console.log('{\"result\": 1}'); console.error('warned'); process.stdout.write('no newline'); return 7 }",
    spin="function spin() { for (;;); }", hoard="function hoard() { const a = []; for (;;) a.push(Buffer.alloc(1e6, 1)) }",
    die="function die() { process.kill(process.pid, 'SIGSEGV'); for (;;); }", leave="function leave() { process.exit(3) }",
    write="const fs = require('fs')\nfunction write() { fs.writeFileSync('made.txt', 'hello'); return fs.readFileSync('given.txt', 'utf8') }",
    body="return args[0] * 2", two="function one() {}\nfunction two() {}\n",
    script="console.log(process.argv.slice(2), require('fs').readFileSync(0, 'utf8')); process.exitCode = 3",
    setup="globalThis.kept = [1]\nfunction grow() { kept.push(1); return kept.length }\nglobalThis.grow = grow", use="return grow()")
TYPESCRIPT = {**JAVASCRIPT, **dict(
    identity="function same<T>(v: T): T { return v }", add="function add(a: number, b: number = 2): number { return a + b }",
    fail="function fail(): never {\n  const x: number = 1\n  throw new RangeError('boom')\n}", broken="function f(: string {\n",
    body="return (args[0] as number) * 2", script="const words: string[] = process.argv.slice(2)\nconsole.log(words, require('fs').readFileSync(0, 'utf8')); process.exitCode = 3",
    setup="globalThis.kept = [1] as number[]\nfunction grow(): number { kept.push(1); return kept.length }\nglobalThis.grow = grow")}
RUBY = dict(
    identity="def same(v) = v", add="def add(a, b = 2) = a + b",
    fail="def fail\n  x = 1\n  raise ArgumentError, 'boom'\nend", failure="ArgumentError", broken="def f(\n", name="NoMethodError|NameError",
    noisy="def noisy\n  puts '{\"result\": 1}'; warn 'warned'; print 'no newline'; 7\nend",
    spin="def spin\n  loop {}\nend", hoard="def hoard\n  a = []\n  loop { a << 'x' * 1_000_000 }\nend",
    die="def die\n  Process.kill(:KILL, Process.pid)\n  sleep\nend", leave="def leave = exit(3)",
    write="def write\n  File.write('made.txt', 'hello'); File.read('given.txt')\nend",
    body="args[0] * 2", two="def one; end\ndef two; end\n", script="p ARGV, STDIN.read\nexit 3",
    setup="$kept = [1]\ndef grow\n  $kept << 1\n  $kept.size\nend\n", use="grow")
PHP = dict(
    identity="function same($v) { return $v; }", add="function add($a, $b = 2) { return $a + $b; }",
    fail="function fail() {\n  $x = 1;\n  throw new DomainException('boom');\n}", failure="DomainException", broken="function f( {\n", name="Error",
    noisy="function noisy() { echo '{\"result\": 1}', \"\\n\"; fwrite(STDERR, \"warned\\n\"); echo 'no newline'; return 7; }",
    spin="function spin() { for (;;); }", hoard="function hoard() { $a = []; for (;;) $a[] = str_repeat('x', 1000000); }",
    die="function die_() { posix_kill(getmypid(), 9); sleep(9); }", leave="function leave() { exit(3); }",
    write="function write() { file_put_contents('made.txt', 'hello'); return file_get_contents('given.txt'); }",
    body="return $args[0] * 2;", two="function one() {}\nfunction two() {}\n",
    script="print_r(array_slice($argv, 1)); echo stream_get_contents(STDIN); exit(3);",
    setup="$kept = [1];\nfunction grow() { global $kept; $kept[] = 1; return count($kept); }\n", use="return grow();")
BASH = dict(
    identity="same() { printf '%s' \"$1\"; }", add="add() { echo $(($1 + ${2:-2})); }",
    fail="fail() {\n  x=1\n  return 3\n}", failure="ExitStatus", broken="f() {\n", name=".",
    noisy=None, spin="spin() { while :; do :; done; }", hoard="hoard() { a=x; while :; do a=$a$a; done; }",
    die="die() { kill -9 $BASHPID; sleep 9; }", leave="leave() { exit 3; }",
    write="write() { printf hello > made.txt; cat given.txt; }",
    body="echo $(($1 * 2))", two="one() { :; }\ntwo() { :; }\n", script="echo \"$@\"; cat; exit 3",
    setup="kept=1\ngrow() { kept=$((kept + 1)); printf %s $kept; }\n", use="grow")
C = dict(
    identity=None, add=None,
    fail=None, failure=None, broken="int f( {\n", name=".",
    noisy="#include <stdio.h>\nint noisy(void) { puts(\"{\\\"result\\\": 1}\"); fputs(\"warned\\n\", stderr); printf(\"no newline\"); return 7; }",
    spin="void spin(void) { for (volatile int i = 0;; i++); }",
    hoard="#include <stdlib.h>\n#include <string.h>\nvoid hoard(void) { for (;;) { char *p = malloc(1 << 20); if (p) memset(p, 1, 1 << 20); } }",
    die="int die(void) { return *(volatile int *)8; }", leave="#include <stdlib.h>\nvoid leave(void) { exit(3); }",
    write="""#include <stdio.h>
char *write_(void) {
    static char text[100];
    FILE *f = fopen("made.txt", "w"); fputs("hello", f); fclose(f);
    f = fopen("given.txt", "r"); fgets(text, sizeof text, f); fclose(f);
    return text;
}""",
    body=None, two="int one(void) { return 1; }\nint two(void) { return 2; }\n",
    script="#include <stdio.h>\nint main(int c, char **v) { for (int i = 1; i < c; i++) puts(v[i]); int b; while ((b = getchar()) != EOF) putchar(b); return 3; }",
    setup="static int kept = 1;\nint grow(void) { return ++kept; }\n", use="int grow(void);\nint use(void) { return grow(); }")
CPP = {**C, **dict(
    fail="#include <stdexcept>\nint fail() {\n    throw std::out_of_range(\"boom\");\n}", failure="std::out_of_range",
    add="int add(int a, int b = 2) { return a + b; }", setup="static int kept = 1;\nint grow() { return ++kept; }\n",
    use="int grow();\nint use() { return grow(); }")}
PERL = dict(
    identity="sub same { $_[0] }", add="sub add { my ($a, $b) = @_; $a + ($b // 2) }",
    fail="sub fail {\n  my $x = 1;\n  die 'boom'\n}", failure="Error", broken="sub f {\n", name=".",
    noisy="sub noisy { print qq({\"result\": 1}\\n); print STDERR \"warned\\n\"; print 'no newline'; 7 }",
    spin="sub spin { 1 while 1 }", hoard="sub hoard { my @a; push @a, 'x' x 1000000 while 1 }",
    die="sub die_ { kill 9, $$; sleep 9 }", leave="sub leave { exit 3 }",
    write="sub write_ { open my $o, '>', 'made.txt'; print $o 'hello'; close $o; open my $i, '<', 'given.txt'; scalar <$i> }",
    body="$_[0] * 2", two="sub one {}\nsub two {}\n", script="print \"@ARGV\", <STDIN>; exit 3", setup=None, use=None)
LANGUAGES = {"python": PYTHON, "javascript": JAVASCRIPT, "typescript": TYPESCRIPT, "ruby": RUBY, "php": PHP, "bash": BASH, "c": C, "cpp": CPP,
             "perl": PERL}
TIMEOUT = 200


def programs(name):
    return [(language, rows[name]) for language, rows in LANGUAGES.items() if rows[name] is not None]


def test_plain_values_come_back_as_they_went():
    """Each kind on its own, and the others in it: a cold call of each language takes 0.4 s of processor time."""
    for value in [-7, 2.5, "grüße 🙂 \"'\\$`\n\t", "", True, None, [1, "two", [3.5, None], []], {"a": {"b": [1]}, "c": ""}]:
        for language, code in programs("identity"):
            expected = {None: "", True: True}.get(value, value) if language == "bash" and not isinstance(value, (list, dict)) else value
            equal(value_of(language, code, "same", args=[value]), expected, (language, value))


def test_the_one_function_need_not_be_named():
    for language, code in programs("add"):
        equal(value_of(language, code, args=[40]), 42, language)


def test_a_byte_order_mark_is_no_part_of_the_code():
    mark = "\ufeff"
    for language, code in programs("add"):
        equal(value_of(language, mark + code, "add", args=[40]), 42, language)
    for language, code in programs("body"):
        equal(value_of(language, mark + code, args=[21]), 42, language)
    for language, code in programs("script"):
        finished, plain = run(language, mark + code, "a", stdin=b"in"), run(language, code, "a", stdin=b"in")
        equal((finished.code, finished.stdout, finished.stderr), (plain.code, plain.stdout, plain.stderr), language)
    for language, code in programs("setup"):
        if language in ("python", "php", "bash"):
            with Warm(language, mark + code) as warm:
                equal(int(warm.value(mark + LANGUAGES[language]["use"])), 2, language)


def test_of_several_functions_one_must_be_named():
    for language, code in programs("two"):
        result = call(language, code)
        equal(result.status, "error", (language, result))
        assert "one" in result.error["message"] and "two" in result.error["message"], (language, result)


def test_a_function_that_is_not_there():
    for language, code in programs("two"):
        result = call(language, code, "absent")
        equal(result.status, "error", (language, result))
        assert "absent" in result.error["message"], (language, result)


def test_code_without_a_function_is_the_body():
    for language, code in programs("body"):
        equal(value_of(language, code, args=[21]), 42, language)


def test_defaults_and_keywords():
    for language, code in programs("add"):
        equal(value_of(language, code, "add", args=[1]), 3, language)
        equal(value_of(language, code, "add", args=[1, 5]), 6, language)
        if language not in ("bash", "perl"):  # they have no names
            equal(value_of(language, code, "add", args={"b": 5, "a": 1}), 6, language)
            equal(value_of(language, code, "add", args=[1], kwargs={"b": 5}), 6, language)
            equal(value_of(language, code, "add", args=[{"index": 1, "value": 5}, {"index": 0, "value": 1}]), 6, language)


def test_a_missing_and_an_unknown_argument_are_named():
    for language, code in programs("add"):
        if language in ("bash", "perl"):
            continue
        unknown = call(language, code, "add", args=[1], kwargs={"colour": 1})
        equal(unknown.status, "error", (language, unknown))
        assert "colour" in unknown.error["message"], (language, unknown)
        if language not in ("javascript", "typescript"):  # where a missing argument is undefined
            missing = call(language, code, "add")
            equal(missing.status, "error", (language, missing))
            assert "a" in missing.error["message"].replace("'", " ").replace("$", " ").split(), (language, missing)


SCHEMA = {"params": [{"name": "x", "type": "integer", "required": True}, {"name": "y", "type": "integer", "default": 10}]}


def test_a_schema_names_places():
    for language, code in programs("add"):
        result = call(language, code, "add", kwargs={"x": 1}, schema=SCHEMA)
        equal((result.status, result.value, result.meta["signatureSource"]), ("success", 11, "schema"), (language, result))
        refused = call(language, code, "add", args=["one"], schema=SCHEMA)
        equal(refused.status, "error", (language, refused))
        assert "x" in refused.error["message"] and "integer" in refused.error["message"], (language, refused)


def test_what_the_code_throws():
    for language, code in programs("fail"):
        result = call(language, code, "fail")
        equal((result.status, result.exit_code, result.error["type"]), ("error", 1, LANGUAGES[language]["failure"]), (language, result))
        if language != "bash":
            assert "boom" in result.error["message"], (language, result)
        if language not in ("bash", "cpp"):
            stack = result.error["stack"]
            assert "main." in stack and "3" in stack and "/run/cloche" not in stack, (language, stack)


def test_code_that_is_none():
    for language, code in programs("broken"):
        result = call(language, code, "f")
        equal(result.status, "error", (language, result))
        assert result.error["message"], (language, result)


def test_output_is_no_result():
    for language, code in programs("noisy"):
        result = call(language, code, "noisy")
        equal((result.value, result.stdout, result.stderr), (7, '{"result": 1}\nno newline', "warned\n"), (language, result))


def test_time_runs_out():
    for language, code in programs("spin"):
        result = call(language, code, "spin", timeout=0.8)
        equal((result.status, result.exit_code), ("timeout", 124), (language, result))


def test_memory_runs_out():
    for language, code in programs("hoard"):
        result = call(language, code, "hoard", memory=96, timeout=40)
        assert result.status in ("crash", "error"), (language, result)
        assert result.status == "error" or result.error["type"] == "MemoryLimit", (language, result)


def test_a_signal_is_named():
    for language, code in programs("die"):
        result = call(language, code)
        equal((result.status, result.exit_code, result.error["type"]), ("crash", 1, "Signal"), (language, result))
        assert "SIG" in result.error["message"], (language, result)


def test_leaving_is_no_result():
    for language, code in programs("leave"):
        result = call(language, code, "leave")
        equal((result.status, result.exit_code), ("error", 1), (language, result))


def test_files_go_in_and_changes_come_out():
    import tempfile
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as given:
        given.write("given")
        given.flush()
        for language, code in programs("write"):
            result = call(language, code, file=f"given.txt={given.name}")
            equal((result.status, result.value), ("success", "given"), (language, result))
            equal(result.paths("created"), ["/workspace/made.txt"], (language, result))


def test_scripts_have_arguments_streams_and_an_exit_code():
    for language, code in programs("script"):
        finished = run(language, code, "one", "two words", stdin=b"typed")
        equal(finished.code, 3, (language, finished))
        for word in (b"one", b"two words", b"typed"):
            assert word in finished.stdout, (language, finished)


def test_runs_of_a_prefix_do_not_meet():
    for language, code in programs("use"):
        with Warm(language, LANGUAGES[language]["setup"], spares=1) as warm:
            for _ in range(3):
                equal(warm.value(code), 2, language)


def test_a_large_value():
    text = "ä" * 300000  # more than a command line takes
    for language, code in programs("identity"):
        if language != "perl":
            with Warm(language) as warm:
                equal(warm.value(code, function="same", args=[text]), text, language)
