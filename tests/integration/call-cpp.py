"""C++ through the command line: the library's classes, exceptions, compile errors, scripts."""
from cloche import call, equal, keep_builds, run, value_of

COUNT = """
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>
std::map<std::string, int> count(const std::vector<std::string> &words, std::optional<int> least)
{
        std::map<std::string, int> found;
        if (words.empty())
                throw std::out_of_range("no words");
        for (auto &word : words)
                found[word]++;
        std::erase_if(found, [&](auto &row) { return row.second < least.value_or(1); });
        return found;
}
"""
BUILD = '{"standard": "c++20"}'


def test_library_classes():
    for _ in range(2):  # the second one from the stored build
        equal(value_of("cpp", COUNT, args=[["a", "b", "a"], None], build=BUILD), {"a": 2, "b": 1})
    equal(value_of("c++", COUNT, args=[["a", "b", "a"]], kwargs={"least": 2}, build=BUILD), {"a": 2})


def test_the_standard():
    keep_builds()
    ranges = "#include <compare>\n#include <ranges>\n#include <string>\n#include <vector>\nstruct P { int x; auto operator<=>(const P &) const = default; };\n" \
             "int f(std::vector<int> all) { int n = P{1} < P{2}; for (int one : all | std::views::filter([](auto i) { return i > 1; })) n += one; return n; }"
    equal(value_of("cpp", ranges, args=[[1, 2, 3]]), 6)
    equal(value_of("cpp", "long f() { return __cplusplus; }", build='{"standard": "c++17"}'), 201703)
    equal(value_of("cpp", "extern \"C\" int c(int);\nint f() { return c(2); }", "f", build='{"sources": {"c.c": "int c(int x) { return x * 3; }"}}'), 6)
    finished = run("cpp", "#include <cstdio>\nint main() { std::printf(\"%d\", __cplusplus > 201703L); }")
    equal((finished.code, finished.stdout, finished.stderr), (0, b"1", b""), finished)


def test_times():
    keep_builds()
    code = "#include <chrono>\nusing namespace std::chrono;\nsys_seconds f(sys_seconds t, seconds d) { return t + d; }"
    for year in ("0001", "0500", "9999"):
        result = call("cpp", code, args=[{"$": "date", "v": year + "-01-01T00:00:00Z"}, 3])
        equal(result.value, {"$": "date", "v": year + "-01-01T00:00:03Z"}, result)
    result = call("cpp", code, args=[{"$": "date", "v": "2026-01-01T00:00:00Z"}, 1.6])
    equal(result.error["type"], "TypeError", result)
    assert result.error["message"].startswith("argument 'd': 1.6 seconds is not a whole number of ticks ("), result


def test_results_without_a_form_name_the_way_out_and_the_line():
    keep_builds()
    queue = "#include <queue>\n#include <vector>\n"
    private = "class P { int x = 1; public: int n = 2; };\n\nP f(int n = 1) { return P(); }"
    for code, words in {
        queue + "std::vector<std::priority_queue<int>> f() { return {{}}; }": ["$[0]: std::priority_queue<int", "; returned by f (main.cpp, line 3)"],
        queue + "std::priority_queue<int> q; return q;": ["$: std::priority_queue<int", "; returned by main.cpp"],
        private: ["$: P is a class with members that are not public", "; returned by f (main.cpp, line 3)"],
        "#include <chrono>\nauto f() { return std::chrono::steady_clock::now(); }": ["give its time_since_epoch()", "; returned by f (main.cpp, line 2)"],
    }.items():
        error = call("cpp", code).error
        assert error["type"] == "TypeError" and "which cannot be sent: return its data in a struct of public members, an array or a string" in error["message"], error
        assert all(word in error["message"] for word in words) and error["message"].endswith(words[1]), error


def test_exception():
    keep_builds()
    result = call("cpp", COUNT, args=[[], None], build=BUILD)
    equal((result.status, result.error["type"], result.error["message"]), ("error", "std::out_of_range", "no words"), result)


def test_mistyped_argument():
    keep_builds()
    result = call("cpp", COUNT, args=[["a", 5], None], build=BUILD)
    equal((result.error["type"], result.error["message"]), ("TypeError", "argument 'words[1]': 5 is not a string (std::string)"), result)


def test_compile_error():
    result = call("cpp", COUNT, args=[[], None], build='{"standard": "c++17"}')
    equal(result.error["type"], "CompileError", result)
    assert result.error["message"].startswith("main.cpp:14:14: error: "), result


def test_crash():
    keep_builds()
    result = call("cpp", "#include <cstdlib>\nint f() noexcept { throw 1; }")
    equal((result.status, "SIGABRT" in result.error["message"]), ("crash", True), result)
    assert "terminate called" in result.stderr, result


def test_body_and_script():
    keep_builds()
    equal(value_of("cpp", "#include <string>\nreturn std::string(\"a\") + argv[1];", args=["b"]), "ab")
    finished = run("cpp", "#include <iostream>\nint main(int argc, char **argv) { std::cout << argv[1] << argc; return 4; }", "x")
    equal((finished.code, finished.stdout), (4, b"x2"), finished)
