"""C and C++ as templates: the loaded program is forked; siblings share nothing they write; other code sees a set-up's names."""
from cloche import equal
from warm import Failed, Warm

SETUP = """
#include <stdio.h>
int count = 10;
char text[32] = "set up";
__attribute__((constructor)) static void once(void) { count++; }
int next(int by) { count += by; snprintf(text, sizeof(text), "%d", count); return count; }
"""
USER = "extern int count; extern char text[32]; int next(int by);\n"


def test_clean_siblings():
    for spares in (0, 3):
        with Warm("c", SETUP, spares=spares) as warm:
            for by in (1, 2, 3):
                equal(warm.value(USER + "int f(int by) { return next(by); }", args=[by]), 11 + by)
            equal([r.value for r in warm.runs(USER + "const char *f(void) { return text; }", 4)], ["set up"] * 4)


def test_the_set_up_itself_is_called_without_compiling():
    with Warm("c", SETUP, spares=2) as warm:
        for by in (1, 2, 3):
            equal(warm.value(SETUP, args=[by], function="next"), 11 + by)
        result = warm.run(SETUP, args=["x"], function="next")
        equal((result.error["type"], result.error["message"]), ("TypeError", "argument 'by': \"x\" is not an integer (int)"))


def test_other_code_that_does_not_fit():
    with Warm("c", SETUP) as warm:
        result = warm.run("int nope(void); int f(void) { return nope(); }")
        equal(result.error["type"], "CompileError", result)
        assert "nope" in result.error["message"], result
        equal(warm.value(USER + "int f(void) { return count; }"), 11)


def test_crash_of_a_sibling():
    with Warm("c", SETUP) as warm:
        equal(warm.run(USER + "int f(void) { return *(volatile int *)0; }").status, "crash")
        equal(warm.value(USER + "int f(void) { return count; }"), 11)


def test_error_in_a_set_up():
    for setup, says in [("int f(void) { return 1 +; }", "error: expected expression"), ("int g(void); int f(void) { return g(); }", "undefined reference"),
                        ("#include <stdlib.h>\n__attribute__((constructor)) static void no(void) { exit(4); }\nint f(void) { return 1; }", "exit(4)")]:
        try:
            with Warm("c", setup) as warm:
                warm.run("int f(void) { return 1; }")
        except Failed as failed:
            assert says in failed.message, failed
        else:
            raise AssertionError("the set-up was taken")


def test_cpp():
    setup = "#include <map>\n#include <string>\nstd::map<std::string, int> table = {{\"a\", 1}};\nint look(const std::string &key) { return table.at(key); }\n"
    with Warm("cpp", setup, spares=1) as warm:
        equal(warm.value(setup, args=["a"], function="look"), 1)
        result = warm.run(setup, args=["b"], function="look")
        equal((result.error["type"], result.error["message"]), ("std::out_of_range", "map::at"))
        equal(warm.value("#include <string>\nint look(const std::string &key);\nint f() { return look(\"a\") + 1; }"), 2)
