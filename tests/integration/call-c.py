"""C through the command line: calls, compile errors, crashes, build options, scripts, and stored builds."""
import os
import tempfile

from cloche import bad_input, call, cli, equal, run, value_of

POINT = "#include <math.h>\nstruct point { double x, y; };\ndouble norm(struct point p) { return hypot(p.x, p.y); }"


def test_call():
    equal(value_of("c", "int add(int a, int b) { return a + b; }", args=[40, 2]), 42)
    equal(value_of("c", "int add(int a, int b) { return a + b; }", kwargs={"b": 2, "a": 1}), 3)
    equal(value_of("c", POINT, args=[{"x": 3, "y": 4}]), 5.0)
    equal(value_of("c", "long sum(const int *v, int n) { long s = 0; while (n--) s += *v++; return s; }", args=[[1, 2, 3]]), 6)
    equal(value_of("c", "return argc * 21;", args=["x"]), 42)
    equal(value_of("gcc", "unsigned long f(void) { return -1ul; }"), (1 << 64) - 1)


def test_signature_source():
    equal(call("c", "int f(int a) { return a; }", args=[1]).meta["signatureSource"], "inferred")
    equal(call("c", "return 1;").meta["signatureSource"], "convention")
    result = call("c", "int f(int a, int b) { return a - b; }", kwargs={"right": 1, "left": 5},
                  schema={"params": [{"name": "left", "type": "integer", "required": True}, {"name": "right", "type": "integer"}]})
    equal((result.value, result.meta["signatureSource"]), (4, "schema"))


def test_holes():
    equal(value_of("c", "int f(int a, int b) { return a - b; }", args=[{"index": 1, "value": 1}, {"index": 0, "value": 5}]), 4)
    result = call("c", "int f(int a, int b) { return a - b; }", args=[{"index": 1, "value": 1}])
    equal((result.status, result.error["message"]), ("error", "argument 'a' is missing: int f(int a, int b)"))


def test_errors_name_the_parameter():
    result = call("c", "int f(unsigned char n) { return n; }", args=[300])
    equal((result.status, result.error["type"], result.error["message"]),
          ("error", "TypeError", "argument 'n': 300 does not fit in unsigned char"))
    result = call("c", "int f(int a, int b) { return a; }", args=[1, 2, 3])
    equal(result.error["message"], "argument 3 is too many: int f(int a, int b)")


def test_compile_error():
    result = call("c", "int f(int a) {\n    return a +;\n}\n")
    equal((result.status, result.error["type"]), ("error", "CompileError"), result)
    assert result.error["message"].startswith("main.c:2:15: error: "), result
    assert "    return a +;\n" in result.error["stack"], result


def test_crashes_name_the_signal():
    for code, signal in [("int f(void) { return *(volatile int *)0; }", "SIGSEGV"), ("#include <stdlib.h>\nint f(void) { abort(); }", "SIGABRT"),
                         ("int f(int n) { volatile int z = 0; return n / z; }", "SIGFPE"),
                         ("int f(int n) { volatile char b[4096]; b[0] = 1; return f(n + b[0]) + b[0]; }", "SIGSEGV")]:
        result = call("c", code, "f", args=[1] if "int n" in code else [])
        equal((result.status, signal in result.error["message"]), ("crash", True), result)


def test_what_is_printed():
    result = call("c", "#include <stdio.h>\nint f(void) { printf(\"no newline\"); fprintf(stderr, \"err\\n\"); return 1; }")
    equal((result.value, result.stdout, result.stderr), (1, "no newline", "err\n"))
    result = call("c", "#include <stdio.h>\n#include <stdlib.h>\nint f(void) { printf(\"before\"); exit(3); }")
    equal((result.status, result.error["type"], result.error["message"], result.stdout), ("error", "SystemExit", "exit(3)", "before"))


def test_build_options():
    code = '#include "util.h"\nint f(int a) { return util(a) + FOUR; }'
    build = '{"standard": "c11", "flags": ["-O3", "-DFOUR=4"], "sources": {"util.h": "int util(int);", "util.c": "int util(int a) { return a * 10; }"}}'
    equal(value_of("c", code, "f", args=[3], build=build), 34)
    result = call("c", code, "f", args=[3], build='{"flags": ["-o"]}')
    equal((result.error["type"], result.error["message"]), ("BuildError", "build.flags[0]: '-o' cannot be used"))
    bad_input("call", "python", "-c", "return 1", "--build", "{}", says="compiled")


def test_files_of_the_box_are_seen():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "answer.h")
        for answer in (42, 43):  # other content is compiled again
            with open(path, "w") as file:
                file.write("#define ANSWER %d\n" % answer)
            equal(value_of("c", '#include "answer.h"\nint f(void) { return ANSWER; }', file=["answer.h=" + path]), answer)


def test_again():
    code = "#include <stdio.h>\nint f(int a) { return a + 1000; } // %s" % os.urandom(8).hex()
    for number in (1, 2, 3):
        equal(value_of("c", code, args=[number]), 1000 + number)
    result = call("c", code + "\nint g(void) { return 1 +; }", "g")
    equal(result.error["type"], "CompileError")


def test_scripts():
    code = '#include <stdio.h>\nint main(int argc, char **argv) { char b[100]; if (fgets(b, 100, stdin)) printf("%d %s %s", argc, argv[1], b); return 7; }'
    finished = run("c", code, "word", stdin=b"data\n")
    equal((finished.code, finished.stdout), (7, b"2 word data\n"), finished)
    finished = run("c", "int main(void) {\n  return 1 +;\n}")
    equal(finished.code, 65, finished)
    assert b":2:13: error: " in finished.stderr, finished
    finished = run("c", "#include <stdio.h>\nputs(\"body\");\nreturn 3;")
    equal((finished.code, finished.stdout), (3, b"body\n"), finished)
    finished = run("c", "int main(void) { return *(volatile int *)0; }")
    equal(finished.code, 128 + 11, finished)


def test_limits():
    result = call("c", "int f(void) { for (;;); }", timeout=1)
    equal(result.status, "timeout", result)


def test_without_json():
    finished = cli("call", "c", "-c", "int f(int a) { return a +; }")
    equal((finished.code, finished.stdout), (1, b""), finished)
    assert b"main.c:1:26: error:" in finished.stderr, finished
