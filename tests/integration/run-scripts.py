"""cloche run passes stdin, argv, environment and exit code through."""
import json
from cloche import cli, equal, run, write_file


def test_python_exit_codes_pass_through():
    for code in (0, 1, 3, 42, 255):
        equal(run("python", f"import sys; sys.exit({code})").code, code)


def test_javascript_exit_codes_pass_through():
    for code in (0, 7):
        equal(run("javascript", f"process.exit({code})").code, code)


def test_python_arguments():
    finished = run("python", "import sys, json; print(json.dumps(sys.argv[1:]))", "a b", "", "--timeout", "é")
    equal(json.loads(finished.stdout), ["a b", "", "--timeout", "é"], finished)


def test_javascript_arguments():
    finished = run("javascript", "console.log(JSON.stringify(process.argv.slice(2)))", "a b", "--x")
    equal(json.loads(finished.stdout), ["a b", "--x"], finished)


def test_environment():
    finished = cli("run", "python", "-c", "import os; print(os.environ['COLOUR'], os.environ['EMPTY'] == '')",
                   "--env", "COLOUR=blue=green", "--env", "EMPTY=")
    equal(finished.stdout, b"blue=green True\n", finished)


def test_environment_of_the_caller_stays_outside():
    finished = run("python", "import os; print(sorted(os.environ))", env={"CLOCHE_TEST_SECRET": "hunter2"})
    assert b"SECRET" not in finished.stdout and b"PATH" in finished.stdout, finished


def test_stdin_reaches_the_script():
    equal(run("python", "import sys; print(sys.stdin.read().upper(), end='')", stdin=b"hello\n").stdout, b"HELLO\n")
    equal(run("javascript", "process.stdin.pipe(process.stdout)", stdin=b"hello\n").stdout, b"hello\n")


def test_streams_are_apart():
    finished = run("python", "import sys; print('o'); print('e', file=sys.stderr)")
    equal((finished.stdout, finished.stderr), (b"o\n", b"e\n"))


def test_uncaught_python_exception():
    finished = run("python", "x = 1\nraise KeyError('absent')")
    equal(finished.code, 1)
    assert b"KeyError: 'absent'" in finished.stderr and b"line 2" in finished.stderr, finished


def test_uncaught_javascript_exception():
    finished = run("javascript", "throw new RangeError('far')")
    equal(finished.code, 1)
    assert b"RangeError: far" in finished.stderr, finished


def test_script_from_a_file():
    path = write_file("hello.py", "print('hello')")
    equal(cli("run", "python", "-f", path).stdout, b"hello\n")


def test_script_from_stdin():
    equal(cli("run", "python", "-", stdin=b"print('hello')").stdout, b"hello\n")


def test_script_sees_files():
    path = write_file("data", "given")
    equal(cli("run", "python", "-c", "print(open('data').read())", "--file", f"data={path}").stdout, b"given\n")


def test_javascript_modules_and_timers():
    finished = run("javascript", "const p = require('path'); setTimeout(() => console.log(p.join('a', 'b')), 5)")
    equal(finished.stdout, b"a/b\n", finished)


def test_timeout_of_a_script():
    equal(run("python", "while True: pass", timeout=1).code, 124)


def test_python_script_is_main():
    equal(run("python", "if __name__ == '__main__': print('main')").stdout, b"main\n")


def test_code_that_does_not_compile_is_told_from_a_program_that_exits():
    for language, bad in (("c", "int main( {"), ("cpp", "int main() { return x; }")):
        finished = run(language, bad)
        equal(finished.code, 65, finished)
        assert b"CompileError" in finished.stderr and b"error:" in finished.stderr, finished
        for code in (0, 1, 65):
            finished = run(language, f"int main() {{ return {code}; }}")
            equal((finished.code, finished.stderr), (code, b""), language)


def test_typescript_that_does_not_compile_is_told_from_a_program_that_fails():
    for bad in ("let x: = 5", "enum {", "@d class"):
        finished = run("typescript", bad)
        equal(finished.code, 65, finished)
        assert b"SyntaxError" in finished.stderr, finished
    for code, exit_code in (("throw 1", 1), ("process.exit(65 as number)", 65), ("new Function('(')", 1), ("const n: number = 5", 0)):
        equal(run("typescript", code).code, exit_code, code)
    equal(run("javascript", "let x: = 5").code, 1)


def test_a_compiled_program_has_no_descriptor_of_the_compiler():
    finished = run("c", "#include <fcntl.h>\n#include <stdio.h>\nint main() { for (int i = 3; i < 64; i++) if (fcntl(i, F_GETFD) >= 0) printf(\"%d \", i); }")
    equal((finished.code, finished.stdout), (0, b""), finished)
