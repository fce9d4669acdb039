"""Functions of C: fitting of arguments, every kind of type, refusals and their messages."""
import unittest

from native_agent import Agent, AgentCase

INF = {"$": "number", "v": "Infinity"}


def big(number):
    return {"$": "bigint", "v": str(number)}


class Arguments(AgentCase):
    CODE = """
#include <stddef.h>
#include <stdarg.h>
#include <stdio.h>
int add(int a, int b) { return a + b; }
long sum(const int *items, size_t n) { long s = 0; for (size_t i = 0; i < n; i++) s += items[i]; return s; }
long nth(const int *items, size_t count, int k) { return items[k] + 1000 * (long)count; }
int repeat(const char *text, int n) { return text[0] * n; }
size_t span(const char *text, size_t len) { return text ? len : 99; }
void sort(int *a, int n)
{
        for (int i = 0; i < n; i++)
                for (int j = i + 1; j < n; j++)
                        if (a[j] < a[i]) { int t = a[i]; a[i] = a[j]; a[j] = t; }
}
int divide(int a, int b, int *quotient, int *rest) { *quotient = a / b; *rest = a % b; return b != 0; }
void halves(int a, int *low, int *high) { *low = a & 0xffff; *high = a >> 16; }
void only(int a, double *out) { *out = a / 2.0; }
int *range(int k, size_t *out_len) { static int a[10]; for (int i = 0; i < k; i++) a[i] = i; *out_len = (size_t)k; return a; }
void greet(const char *name, char *out, size_t size) { snprintf(out, size, "hello %s", name); }
void upper(char *text) { for (; *text; text++) if (*text >= 'a' && *text <= 'z') *text -= 32; }
double total(int n, ...) { va_list l; double s = 0; va_start(l, n); while (n--) s += va_arg(l, double); va_end(l); return s; }
int format(char *out, size_t size, const char *format, ...) { va_list l; int r; va_start(l, format); r = vsnprintf(out, size, format, l); va_end(l); return r; }
int words(const char *const *list, int count) { int n = 0; for (int i = 0; i < count; i++) n += list[i][0]; return n + (list[count] == NULL); }
void nothing(void) {}
static int hidden(int x) { return x + 1; }
int uses(int x) { return hidden(x) + hidden(x * 2); }
"""

    def test_positions_and_names(self):
        self.assertEqual(self.call("add", 40, 2), 42)
        self.assertEqual(self.call("add", 40, kwargs={"b": 2}), 42)
        self.assertEqual(self.call("add", kwargs={"b": 2, "a": 1}), 3)
        self.assertEqual(self.call("add", None, 2, holes=[0], kwargs={"a": 5}), 7)

    def test_signature_source(self):
        self.assertEqual(self.answer("add", 1, 2)["result"]["signatureSource"], "inferred")
        answer = self.answer("add", kwargs={"left": 1, "right": 2}, order=["left", "right"])["result"]
        self.assertEqual((answer["value"], answer["signatureSource"]), (3, "schema"))

    def test_missing_surplus_unknown(self):
        self.refuses("argument 'b' is missing: int add(int a, int b)", "add", 1)
        self.refuses("argument 'a' is missing", "add", None, 2, holes=[0])
        self.refuses("argument 3 is too many: int add(int a, int b)", "add", 1, 2, 3)
        self.refuses("argument 'c' is unknown: int add(int a, int b)", "add", 1, 2, kwargs={"c": 2})
        self.refuses("argument 'a' is given twice", "add", 1, kwargs={"a": 2})
        self.refuses("argument 1 is too many: void nothing(void)", "nothing", 1)
        self.assertIsNone(self.call("nothing"))

    def test_lengths(self):
        self.assertEqual(self.call("sum", [1, 2, 3]), 6)
        self.assertEqual(self.call("sum", [1, 2, 3], 2), 3)
        self.assertEqual(self.call("sum", []), 0)
        self.assertEqual(self.call("sum", None), 0)
        self.assertEqual(self.call("sum", kwargs={"items": [4], "n": 1}), 4)
        self.assertEqual(self.call("nth", [7, 8], 1), 2008)
        self.assertEqual(self.call("nth", [7, 8], 2, 0), 2007)
        self.refuses("argument 'n': more than the 3 elements of 'items'", "sum", [1, 2, 3], 4)
        self.refuses("argument 'n': more than", "sum", [1], kwargs={"n": 1 << 40})
        self.assertEqual(self.call("span", "héllo"), 6)
        self.assertEqual(self.call("span", "a\0b"), 3)
        self.refuses("argument 'n' is missing", "repeat", "x")
        self.assertEqual(self.call("words", ["a", "b"]), ord("a") + ord("b") + 1)

    def test_pointers_bring_back(self):
        self.assertEqual(self.call("sort", [3, 1, 2]), [1, 2, 3])
        self.assertEqual(self.call("divide", 17, 5), {"result": 1, "quotient": 3, "rest": 2})
        self.assertEqual(self.call("halves", 0x30002), {"low": 2, "high": 3})
        self.assertEqual(self.call("only", 5), 2.5)
        self.assertEqual(self.call("range", 3), [0, 1, 2])
        self.assertEqual(self.call("greet", kwargs={"name": "Ada", "size": 64}), "hello Ada")
        self.assertEqual(self.call("greet", kwargs={"name": "Ada", "size": 4}), "hel")
        self.assertEqual(self.call("upper", "abc"), "ABC")

    def test_variadic(self):
        self.assertEqual(self.call("total", 2, 1.5, 2.5), 4.0)
        self.assertEqual(self.call("format", kwargs={"size": 40, "format": "x"}), {"result": 1, "out": "x"})
        self.refuses("behind the dots", "total", 1, [1])

    def test_static_function_by_name(self):
        self.assertEqual(self.call("uses", 1), 5)

    def test_unknown_function(self):
        self.fails("NameError", "no function 'nope'", "nope")


class Types(AgentCase):
    CODE = """
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#define SAME(name, type) type name(type x) { return x; }
SAME(i8, signed char) SAME(u8, unsigned char) SAME(i16, short) SAME(u16, unsigned short) SAME(i32, int) SAME(u32, unsigned)
SAME(i64, long) SAME(u64, unsigned long long) SAME(i128, __int128) SAME(u128, unsigned __int128)
SAME(truth, bool) SAME(single, float) SAME(twice, double) SAME(longest, long double) SAME(letter, char)
enum color { RED, GREEN = 5, BLUE = -1 };
SAME(color, enum color)
typedef struct point { double x, y; } point;
struct tiny { char a; }; struct odd { char a, b, c; }; struct mixed { float f; long n; }; struct pair { float a, b; };
struct big { long v[9]; char name[8]; }; struct three { float a, b, c; }; struct wide { long double d; int n; };
struct bits { unsigned a : 3; int b : 5; unsigned long c : 40; _Bool d : 1; };
struct nested { point p; struct { int left; union { int i; }; }; enum color c; point list[2]; };
struct counted { const int *items; int count; };
struct node { int value; struct node *next; };
SAME(a_point, point) SAME(a_tiny, struct tiny) SAME(an_odd, struct odd) SAME(a_mixed, struct mixed) SAME(a_pair, struct pair)
SAME(a_big, struct big) SAME(a_three, struct three) SAME(a_wide, struct wide) SAME(a_bits, struct bits)
SAME(a_counted, struct counted)
struct __attribute__((packed)) packed { char a; int b; };
struct packed *a_packed(struct packed *x) { return x; }
int packed_value(struct packed x) { return x.b; }
double mixed_up(int a, struct mixed m, double d, struct pair p, struct big b, char c, point q) { return a + m.f + m.n + d + p.a + p.b + b.v[8] + c + q.x + q.y; }
union either { int i; float f; };
float as_float(union either e) { return e.f; }
union either some(void) { return (union either){1}; }
int length(const struct node *list) { int n = 0; for (; list; list = list->next) n++; return n; }
struct node *build(int n) { static struct node nodes[9]; for (int i = 0; i < n; i++) nodes[i] = (struct node){i, i + 1 < n ? &nodes[i + 1] : NULL}; return nodes; }
struct node *ring(void) { static struct node n; n.next = &n; return &n; }
const char *text(const char *x) { return x; }
const char *broken(void) { return "\\xff\\xfe"; }
unsigned crc(const uint8_t *data, size_t len) { unsigned s = 0; while (len--) s = s * 31 + *data++; return s; }
uint8_t *reverse(const uint8_t *data, size_t len, size_t *out_len) { static uint8_t b[99]; for (size_t i = 0; i < len; i++) b[i] = data[len - 1 - i]; *out_len = len; return b; }
double mean(const double *v, int n) { double s = 0; for (int i = 0; i < n; i++) s += v[i]; return n ? s / n : 0; }
int trace(const int (*m)[2], int n) { int s = 0; for (int i = 0; i < n && i < 2; i++) s += m[i][i]; return s; }
double far(point a, const point *b) { return (a.x - b->x) + (a.y - b->y); }
int file(FILE *f) { return f == NULL; }
int callback(int (*f)(int)) { return f == NULL; }
int anything(void *p) { return p == NULL; }
void *give(void) { return (void *)1; }
double _Complex complicated(void) { return 1; }
typedef int (*function)(int);
function giving(void) { return 0; }
"""

    def test_integers_of_every_width(self):
        for name, bits, signed in [("i8", 8, 1), ("u8", 8, 0), ("i16", 16, 1), ("u16", 16, 0), ("i32", 32, 1), ("u32", 32, 0),
                                   ("i64", 64, 1), ("u64", 64, 0), ("i128", 128, 1), ("u128", 128, 0)]:
            low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
            for number in (low, high, 0, 1):
                sent = number if abs(number) < 1 << 53 else big(number)
                self.assertEqual(self.call(name, sent), sent)
            for number in (low - 1, high + 1):
                self.refuses("argument 'x': %d does not fit in" % number, name, number if abs(number) < 1 << 53 else big(number))

    def test_the_message_names_the_type(self):
        self.refuses("argument 'x': 300 does not fit in unsigned char", "u8", 300)
        self.refuses("argument 'x': 2.5 is not an integer (int)", "i32", 2.5)
        self.refuses("argument 'x': \"7\" is not an integer (int)", "i32", "7")
        self.refuses("argument 'x': null is not an integer (int)", "i32", None)
        self.refuses("argument 'x': an array is not a number (double)", "twice", [1])
        self.assertEqual(self.call("i32", 3.0), 3)

    def test_bool_and_char(self):
        self.assertIs(self.call("truth", True), True)
        self.assertIs(self.call("truth", 0), False)
        self.refuses("argument 'x': 2 is not true or false", "truth", 2)
        self.assertEqual(self.call("letter", "a"), "a")
        self.assertEqual(self.call("letter", 0), "\0")
        self.assertEqual(self.call("letter", -1), -1)
        self.refuses("argument 'x': \"ab\" is not one ASCII character", "letter", "ab")

    def test_floats(self):
        for name in ("single", "twice", "longest"):
            for number in (1.5, 0.0, {"$": "number", "v": "NaN"}, INF, {"$": "number", "v": "-Infinity"}, {"$": "number", "v": "-0"}):
                self.assertEqual(self.call(name, number), number)
        self.assertEqual(self.call("twice", 0.1), 0.1)
        self.assertEqual(self.call("longest", 0.1), 0.1)
        self.assertEqual(self.call("twice", 3), 3.0)
        self.refuses("does not fit in float", "single", 1e300)
        self.assertEqual(self.call("twice", big(1 << 64)), float(1 << 64))

    def test_enums(self):
        self.assertEqual([self.call("color", c) for c in ("RED", 5, "BLUE", -1, 77)], ["RED", "GREEN", "BLUE", "BLUE", 77])
        self.refuses("argument 'x': 'PINK' is no enum color, expected one of: RED, GREEN, BLUE", "color", "PINK")

    def test_structs_by_value(self):
        for name, value in [("a_point", {"x": 1.5, "y": -2.0}), ("a_tiny", {"a": "z"}), ("an_odd", {"a": "x", "b": "y", "c": "z"}),
                            ("a_mixed", {"f": 2.5, "n": -7}), ("a_pair", {"a": 1.5, "b": 2.5}), ("a_three", {"a": 1.0, "b": 2.0, "c": 3.0}),
                            ("a_big", {"v": list(range(9)), "name": "seven!!"}), ("a_wide", {"d": 1.25, "n": 3}),
                            ("a_bits", {"a": 7, "b": -16, "c": (1 << 40) - 1, "d": True})]:
            self.assertEqual(self.call(name, value), value)
        big_struct = {"v": [0] * 8 + [100], "name": ""}
        self.assertEqual(self.call("mixed_up", 1, {"f": 2, "n": 3}, 4, {"a": 5, "b": 6}, big_struct, 7, {"x": 8, "y": 9}), 145.0)

    def test_members(self):
        self.refuses("argument 'x': member 'y' of struct point is missing", "a_point", {"x": 1})
        self.refuses("argument 'x': struct point has no member 'z'", "a_point", {"x": 1, "y": 2, "z": 3})
        self.refuses("argument 'x.y': \"a\" is not a number", "a_point", {"x": 1, "y": "a"})
        self.refuses("argument 'x': 1 is not an object", "a_point", 1)
        self.refuses("argument 'x.a': 8 does not fit in a bit-field of 3 bits", "a_bits", {"a": 8, "b": 0, "c": 0, "d": False})
        self.refuses("argument 'x.name': a string of 8 bytes does not fit", "a_big", {"v": [], "name": "x" * 8})
        self.refuses("argument 'x.v[2]': \"a\" is not an integer", "a_big", {"v": [1, 2, "a"], "name": ""})
        self.refuses("argument 'x.v': 10 elements do not fit", "a_big", {"v": [0] * 10, "name": ""})

    def test_counted_members(self):
        self.assertEqual(self.call("a_counted", {"items": [1, 2, 3]}), {"items": [1, 2, 3], "count": 3})
        self.refuses("member 'count' is more than the 1 elements", "a_counted", {"items": [1], "count": 2})

    def test_pointers_to_structs(self):
        self.assertEqual(self.call("far", {"x": 5, "y": 5}, {"x": 1, "y": 2}), 7.0)
        self.assertEqual(self.call("length", {"value": 1, "next": {"value": 2, "next": None}}), 2)
        self.assertEqual(self.call("build", 2), {"value": 0, "next": {"value": 1, "next": None}})
        self.refuses("holds itself", "ring")
        self.assertEqual(self.call("a_packed", {"a": "q", "b": 77}), {"a": "q", "b": 77})
        self.refuses("argument 'x' cannot be passed by value", "packed_value", {"a": "q", "b": 77})

    def test_unions(self):
        self.assertEqual(self.call("as_float", {"f": 1.5}), 1.5)
        self.refuses("one of its members must be given", "as_float", {})
        self.refuses("only one of its members", "as_float", {"f": 1, "i": 2})
        self.refuses("$: union either is a union, which does not say what it holds, and cannot be sent: return the member that it holds; returned by some (main.c, line ", "some")

    def test_text(self):
        for value in ("", "héllo", None, "日本語"):
            self.assertEqual(self.call("text", value), value)
        self.refuses("argument 'x': the string has a NUL in it", "text", "a\0b")
        self.refuses("argument 'x': 5 is not a string (const char *)", "text", 5)
        answer, attachments = self.answer_and_attachments("broken")
        self.assertEqual((answer["result"]["value"], attachments), ({"$": "bytes", "at": 0, "n": 2}, b"\xff\xfe"))

    def test_bytes_and_typed_arrays(self):
        sent = {"$": "bytes", "at": 0, "n": 3}
        plain = self.call("crc", [1, 2, 255])
        answer, _ = self.answer_and_attachments("crc", sent, attachments=b"\x01\x02\xff")
        self.assertEqual(answer["result"]["value"], plain)
        answer, back = self.answer_and_attachments("reverse", sent, attachments=b"abc")
        self.assertEqual(back, b"cba")
        answer, _ = self.answer_and_attachments("mean", {"$": "array", "t": "f32", "at": 0, "n": 8},
                                                attachments=b"\0\0\x80\x3f\0\0\0\x40")
        self.assertEqual(answer["result"]["value"], 1.5)
        self.assertEqual(self.call("trace", [[1, 2], [3, 4]]), 5)

    def test_refused_by_name(self):
        self.refuses("argument 'f': FILE * points to a FILE", "file", 1)
        self.refuses("argument 'f': int (*)(int) points to a function", "callback", 1)
        self.refuses("argument 'p': a pointer to void", "anything", 1)
        for name in ("file", "callback", "anything"):
            self.assertEqual(self.call(name, None), 1)
        message = self.refuses("$: a pointer to void cannot be sent: return a pointer to the type of its data; returned by give (", "give")["message"]
        self.assertRegex(message, r"returned by give \(main\.c, line [1-9]\d*\)$")
        self.refuses("complex", "complicated")

    def test_results_have_a_limit(self):
        self.fails("ValueError", "resultBytes", "text", "x" * 1000, resultBytes=100)


class Programs(AgentCase):
    def test_the_one_public_function(self):
        self.assertEqual(self.call("static int a(int x) { return x; }\nint _b(int x) { return x; }\nint c(int x) { return a(x) + 1; }\nint main(void) { return 1; }", 4), 5)
        self.fails("NameError", "several functions, name one of them: ", "int a(int x) { return x; } int b(int x) { return x; }", 1)

    def test_body(self):
        self.assertEqual(self.call("return argc * 10;", "a", 2), 30)
        code = "#include <stdio.h>\n#include <stdlib.h>\nint n = atoi(argv[1]) * 2;\nprintf(\"%s\\n\", argv[2]);\nreturn n;"
        answer = self.answer(code, 21, {"a": [1.5]})["result"]
        self.assertEqual((answer["value"], answer["signatureSource"]), (42, "convention"))
        self.assertEqual(self.output[1], '{"a":[1.5]}\n')

    def test_main_alone(self):
        self.assertEqual(self.call("int main(int argc, char **argv) { return argc + (argv[argc] == 0); }", "a"), 3)

    def test_compile_error(self):
        error = self.fails("CompileError", "main.c:2:13: error: expected expression before", "int f(int a) {\n  return a +;\n}\n")
        self.assertIn("\n    2 |   return a +;\n", error["stack"])
        self.assertNotIn("cloche", error["stack"])
        error = self.fails("CompileError", "body.c:4:11: error:", "#include <stdio.h>\n\nint n = 1;\nreturn n +;", filename="body.c")
        self.fails("CompileError", "undefined reference to `g'", "int g(int);\nint f(int a) { return g(a); }")
        self.fails("CompileError", "nope.h: No such file", "#include \"nope.h\"\nint f(void) { return 1; }")
        self.fails("CompileError", "NUL", "int f(void) { return 1; }\0")

    def test_warnings_are_on_stderr(self):
        self.assertEqual(self.call("int f(void) { int unused = 3; return 7; }", build={"flags": ["-Wall"]}), 7)
        self.assertIn("main.c:1:19: warning: unused variable", self.output[2])

    def test_build_options(self):
        loop = "int f(void) { int s = 0; for (int i = 0; i < 4; i++) s += i; return s; }"
        self.assertEqual(self.call(loop, build={"standard": "c17", "flags": ["-O3", "-DX=1", "-lm"]}), 6)
        self.fails("CompileError", "only allowed in C99", loop, build={"standard": "c89"})
        for build, message in [({"standard": "c++17"}, "'c++17' is no standard of C"), ({"standard": 17}, "build.standard"),
                               ({"flag": []}, "build has no key 'flag'"), ({"flags": "-O2"}, "build.flags must be"),
                               ({"flags": ["-O2", 3]}, "build.flags[1] must be a string"), ({"sources": []}, "build.sources must be"),
                               ({"sources": {"a.c": 1}}, "'a.c' must be a string"), ({"sources": {"../a.c": ""}}, "'../a.c'"),
                               ({"sources": {"/a.c": ""}}, "'/a.c'"), ({"sources": {"main.c": ""}}, "the code itself"),
                               ({"sources": {"a.cpp": ""}}, "is C++")]:
            self.fails("BuildError", message, loop, build=build)
        for flag in ("-o", "-ox", "-c", "-E", "-S", "-shared", "-fplugin=x", "@file", "x.c", "-x", "-static", "-M", "-wrapper",
                     "-specs=x", "-std=c99", "--version", "-s", "-g0", "-flto", "-dumpversion", "-Wl,-s", "-fsyntax-only"):
            self.fails("BuildError", "build.flags[0]: '%s' cannot be used" % flag, loop, build={"flags": [flag]})

    def test_sources(self):
        build = {"sources": {"lib/util.h": "int util(int);", "lib/util.c": '#include "util.h"\nint util(int a) { return a * 100; }'}}
        self.assertEqual(self.call('#include "lib/util.h"\nint f(int a) { return util(a); }', 3, function="f", build=build), 300)
        self.fails("NameError", "several functions", '#include "lib/util.h"\nint f(int a) { return util(a); }', 3, build=build)
        self.fails("CompileError", "lib/util.c:1:9: error:", "int f(void) { return 1; }", build={"sources": {"lib/util.c": "int x = ;"}})

    def test_no_compiler(self):
        agent = Agent("c", PATH="/nowhere")
        answer, _ = agent.request(code="int f(void) { return 1; }")
        agent.end()
        self.assertEqual(answer["error"]["data"]["message"], "the image has no compiler (gcc, cc or clang; g++ for C++)")

    def test_values_in_values_have_a_limit(self):
        code = "struct n { struct n *next; }; int f(struct n *x) { return 1; }"
        value = None
        for _ in range(190):
            value = {"next": value}
        self.assertEqual(self.call(code, value), 1)


class Hostile(AgentCase):
    def test_signals_end_the_agent(self):
        for code, signal in [("int f(void) { return *(volatile int *)0; }", 11), ("#include <stdlib.h>\nint f(void) { abort(); }", 6),
                             ("int f(int n) { volatile char b[4096]; b[0] = n; return f(n + 1) + b[0]; }", 11)]:
            self.assertIsNone(self.answer_and_attachments(code, *([1] if "int n" in code else []), function="f"))
            self.assertEqual(self.output[0], -signal)

    def test_exit_is_an_error_and_loses_no_output(self):
        self.fails("SystemExit", "exit(3)", "#include <stdio.h>\n#include <stdlib.h>\nint f(void) { printf(\"no newline\"); exit(3); }")
        self.assertEqual(self.output[1], "no newline")
        self.assertIsNone(self.answer_and_attachments("#include <unistd.h>\nint f(void) { _exit(0); }"))

    def test_exit_of_a_child_is_its_own(self):
        code = "#include <stdlib.h>\n#include <unistd.h>\n#include <sys/wait.h>\nint f(void) { int s; if (fork() == 0) exit(5); wait(&s); return WEXITSTATUS(s); }"
        self.assertEqual(self.call(code), 5)

    def test_what_is_printed_never_mixes_with_the_result(self):
        code = "#include <stdio.h>\n#include <unistd.h>\nint f(void) { write(3, \"junk\", 4); printf(\"{}\"); for (int i = 0; i < 3; i++) close(i + 3); return 1; }"
        self.assertEqual(self.call(code), 1)
        self.assertEqual(self.output[1], "{}")

    def test_names_of_the_agent_and_the_library_are_free(self):
        code = """
#include <stddef.h>
long read(int fd, void *data, size_t size) { return 77; }
int json_loads(void) { return 1; }
int ffi_call(void) { return 2; }
int agent_serve(void) { return 3; }
static char arena[1 << 20]; static size_t used;
void *malloc(size_t size) { char *at = arena + used; used += (size + 15) & ~15ul; return at; }
void free(void *p) {}
int f(const char *text) { return text >= arena && text < arena + sizeof(arena) && read(0, NULL, 0) == 77 && json_loads() + ffi_call() + agent_serve() == 6; }
"""
        self.assertEqual(self.call(code, "hello", function="f"), 1)

    def test_constructors_run_once_and_before(self):
        code = "static int n; __attribute__((constructor)) static void first(void) { n++; } int f(void) { return n; }"
        self.assertEqual(self.call(code), 1)

    def test_threads_left_behind(self):
        code = "#include <pthread.h>\n#include <unistd.h>\nstatic void *go(void *x) { pause(); return x; }\nint f(void) { pthread_t t; return pthread_create(&t, 0, go, 0); }"
        self.assertEqual(self.call(code, function="f"), 0)


class Build(AgentCase):
    """The engine stores builds: one is valid while none of its dependencies has changed."""
    SOURCE = "#include <stdio.h>\nint add(int x, int y) { return x + y; }"

    def build(self, artifact=None, code=SOURCE, language="c", **params):
        """(the agent, the answer's artifact or None)"""
        agent = Agent(language)
        self.addCleanup(agent.end)
        given = {"$": "bytes", "at": 0, "n": len(artifact)} if artifact is not None else None
        answer, attachments = agent.ask("build", artifact or b"", **agent.params(code=code, artifact=given, **params))
        self.assertIn("result", answer, answer)
        return agent, attachments if answer["result"]["artifact"] else None

    def test_round_trip(self):
        agent, artifact = self.build()
        self.assertEqual(agent.request(code=self.SOURCE, args=[3, 4])[0]["result"]["value"], 7)
        agent, again = self.build(artifact)
        self.assertIsNone(again)
        self.assertEqual(agent.request(code=self.SOURCE, args=[3, 4])[0]["result"]["value"], 7)

    def test_nothing_runs_while_it_is_built(self):
        code = "#include <stdio.h>\n__attribute__((constructor)) static void first(void) { puts(\"ran\"); fflush(stdout); }\nint f(void) { return 1; }"
        agent = Agent()
        agent.ask("build", **agent.params(code=code, artifact=None))
        self.assertEqual(agent.end()[1], "")

    def test_spoilt_artifacts_are_built_anew(self):
        _, good = self.build()
        for bad in (b"", b"CLOCHEN1", good[:-1], good[:200], good[:-10] + b"0123456789", b"X" + good[1:], good.replace(b"stdio.h", b"stdix.h"),
                    good[:8] + b"\xff" * 8 + good[16:], good[:12] + b"\xff\xff\0\0" + good[16:]):
            agent, again = self.build(bad)
            self.assertIsNotNone(again)
            self.assertEqual(agent.request(code=self.SOURCE, args=[3, 4])[0]["result"]["value"], 7)

    def test_a_body(self):
        code = "return argc;"
        _, artifact = self.build(code=code)
        agent, again = self.build(artifact, code=code)
        self.assertIsNone(again)
        self.assertEqual(agent.request(code=code, args=[3, 4])[0]["result"]["value"], 3)

    def test_errors(self):
        agent = Agent()
        answer, _ = agent.ask("build", **agent.params(code="int f(void) { return 1 +; }", artifact=None))
        agent.end()
        self.assertEqual(answer["error"]["data"]["type"], "CompileError")

    def test_prefix(self):
        agent = Agent()
        self.addCleanup(agent.end)
        setup = "int LIMIT = 5; int twice(int x) { return 2 * x; }"
        self.assertIn("result", agent.ask("prepare", **agent.params(code=setup, globals={}, imports={}))[0])
        code = "extern int LIMIT; int twice(int); int f(int a) { return twice(a) + LIMIT; }"
        self.assertEqual(agent.request(code=code, args=[3])[0]["result"]["value"], 11)
        self.assertEqual(agent.request(code=setup, args=[3])[0]["result"]["value"], 6)
        self.assertEqual(agent.request(code="int other(int a) { return a; }", function="twice", args=[4])[0]["result"]["value"], 8)
        answer, _ = agent.request(code="int nope(int); int f(int a) { return nope(a); }", args=[3])
        self.assertEqual(answer["error"]["data"]["type"], "CompileError")
        self.assertIn("nope", answer["error"]["data"]["message"])

    def test_script_of_a_set_up(self):
        agent = Agent()
        agent.ask("prepare", **agent.params(code="int LIMIT = 5;", globals={}, imports={}))
        code = "#include <stdio.h>\nextern int LIMIT;\nint main(int argc, char **argv) { printf(\"%d %d %s\", LIMIT, argc, argv[1]); return 9; }"
        self.assertIsNone(agent.ask("run", code=code, filename="s.c", argv=["word"], globals={}, imports={}))
        self.assertEqual(agent.end(), (9, "5 2 word", ""))

    def test_declarations_alone_are_a_set_up(self):
        agent = Agent()
        self.addCleanup(agent.end)
        self.assertIn("result", agent.ask("prepare", **agent.params(code="int LIMIT = 5;", globals={}, imports={}))[0])
        self.assertEqual(agent.request(code="extern int LIMIT; int f(void) { return LIMIT; }")[0]["result"]["value"], 5)


if __name__ == "__main__":
    unittest.main()
