"""Functions of C++: classes of its library both ways, how objects are passed, overloads, exceptions."""
import unittest

from native_agent import AgentCase

HEAD = """
#include <algorithm>
#include <array>
#include <deque>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <variant>
#include <vector>
using namespace std;
"""


class Evident(AgentCase):
    """Classes that have no kind of their own on the wire, but one form that everybody would give them."""
    language = "cpp"
    CODE = """
#include <chrono>
#include <complex>
#include <filesystem>
#include <map>
#include <queue>
#include <set>
#include <stack>
#include <string>
#include <unordered_map>
#include <vector>
using namespace std;
complex<double> root(double x) { return sqrt(complex<double>(x)); }
complex<float> twice(complex<float> z) { return z * 2.0f; }
complex<long double> same(complex<long double> z) { return z; }
vector<complex<double>> squares(const vector<complex<double>> &v) { vector<complex<double>> r; for (auto &z : v) r.push_back(z * z); return r; }
chrono::milliseconds thrice(chrono::milliseconds d) { return d * 3; }
chrono::duration<float> half(chrono::duration<double, ratio<60>> d) { return d / 2; }
chrono::hours hours_of(chrono::minutes m) { return chrono::duration_cast<chrono::hours>(m); }
chrono::system_clock::time_point next(chrono::system_clock::time_point t) { return t + chrono::hours(24); }
chrono::system_clock::time_point finer(chrono::system_clock::time_point t) { return t + chrono::nanoseconds(7); }
chrono::sys_days day_after(chrono::sys_days t) { return t + chrono::days(1); }
chrono::seconds whole(chrono::seconds d) { return d; }
chrono::nanoseconds finest(chrono::nanoseconds d) { return d; }
chrono::sys_seconds second(chrono::sys_seconds t) { return t; }
using real_time = chrono::time_point<chrono::system_clock, chrono::duration<double>>;
real_time real(real_time t) { return t; }
using pico_time = chrono::time_point<chrono::system_clock, chrono::duration<long, pico>>;
pico_time earlier(pico_time t) { return t - chrono::duration<long, pico>(1); }
chrono::sys_days far() { return chrono::sys_days(chrono::days(9999999)); }
chrono::steady_clock::time_point steady() { return chrono::steady_clock::now(); }
filesystem::path joined(const filesystem::path &a, filesystem::path b) { return (a / b).lexically_normal(); }
stack<int> pushed(stack<int> s) { s.push(9); return s; }
queue<string> popped(queue<string> q) { q.pop(); q.push("longer than sixteen letters"); return q; }
stack<int, vector<int>> on_vector(stack<int, vector<int>> s) { s.push(9); return s; }
multimap<string, int> added(multimap<string, int> m) { m.emplace("a", 7); return m; }
multiset<int> twice_one(multiset<int> s) { s.insert(1); s.insert(1); return s; }
unordered_multimap<int, int> hashed() { return {{1, 2}}; }
int hashed_in(unordered_multimap<int, int> m) { return m.size(); }
priority_queue<int> heap() { return {}; }
void fill(chrono::seconds *d, filesystem::path *p, chrono::system_clock::time_point *t) { *d = chrono::seconds(5); *p = "a/b"; *t += chrono::milliseconds(1500); }
struct job { string name; chrono::milliseconds took; filesystem::path file; complex<float> z; };
job slower(job j) { j.took *= 2; j.file += ".old"; return j; }
int which(chrono::milliseconds) { return 1; }
int which(chrono::system_clock::time_point) { return 2; }
int which(filesystem::path) { return 3; }
int which(multimap<string, int>) { return 4; }
"""

    def test_numbers_and_times(self):
        def date(text):
            return {"$": "date", "v": text}
        for function, given, expected in [
            ("root", -4, {"real": 0.0, "imag": 2.0}), ("twice", {"real": 1, "imag": 2.5}, {"real": 2.0, "imag": 5.0}),
            ("same", {"real": -1, "imag": 0.5}, {"real": -1.0, "imag": 0.5}), ("squares", [{"real": 0, "imag": 1}], [{"real": -1.0, "imag": 0.0}]),
            ("thrice", 1.5, 4.5), ("thrice", -0.0015 * 2, -0.009), ("thrice", 0.1 + 0.2, 0.9), ("half", 90, 45.0), ("hours_of", 7200, 7200.0),
            ("next", date("2026-01-31T10:00:00.5Z"), date("2026-02-01T10:00:00.500000Z")), ("next", date("2026-01-31"), date("2026-02-01T00:00:00Z")),
            ("next", date("1969-12-30T10:00:00.25+02:00"), date("1969-12-31T08:00:00.250000Z")),
            ("finer", date("2026-01-31T10:00:00"), date("2026-01-31T10:00:00.000000007Z")),
            ("day_after", date("2026-02-28"), date("2026-03-01T00:00:00Z")), ("day_after", date("2026-02-28T02:00:00+02:00"), date("2026-03-01T00:00:00Z")),
            ("whole", 2, 2.0), ("whole", -2.0, -2.0), ("finest", 1.000000001, 1.000000001), ("finest", 1e9 + 0.1, 1e9 + 0.1),
            ("earlier", date("1970-01-01"), date("1969-12-31T23:59:59.999999999Z")),
            ("second", date("1969-12-31T23:59:59.000"), date("1969-12-31T23:59:59Z")),
            ("real", date("1969-12-31T23:59:59.5Z"), date("1969-12-31T23:59:59.500000Z")), ("real", date("1970-01-01T00:00:00.57"), date("1970-01-01T00:00:00.570000Z")),
            ("real", date("0500-06-01T00:00:00.5Z"), date("0500-06-01T00:00:00.500000Z")),
            ("second", date("0500-02-28T01:02:03Z"), date("0500-02-28T01:02:03Z")), ("day_after", date("0099-12-31"), date("0100-01-01T00:00:00Z")),
            ("second", date("0001-01-01T00:00:00Z"), date("0001-01-01T00:00:00Z")), ("second", date("9999-12-31T23:59:59Z"), date("9999-12-31T23:59:59Z")),
        ]:
            with self.subTest(function, given=given):
                self.assertEqual(self.call(function, given), expected)
        self.refuses("is not a date", "next", "2026-01-31")
        self.refuses("is not a date", "next", date(None))
        self.refuses("does not fit in", "next", date("9999-01-01"))
        self.refuses("do not fit in", "thrice", 1e300)
        self.refuses("is not a number", "thrice", "1s")
        self.refuses("does not fit in", "earlier", date("9999-01-01"))
        self.refuses("outside the years 1 to 9999", "far")
        self.refuses("outside the years 1 to 9999", "day_after", date("9999-12-31"))
        self.refuses("outside the years 1 to 9999", "second", date("0001-01-01T00:00:00+00:01"))
        self.refuses("a time of another clock than system_clock (give its time_since_epoch())", "steady")

    def test_what_is_no_whole_number_of_ticks_is_refused(self):
        for function, given, words in [
            ("whole", 1.6, "1.6 seconds is not a whole number of ticks ("), ("whole", -0.5, "-0.5 seconds is not"), ("thrice", -0.0015, "-0.0015 seconds is not"),
            ("hours_of", 90, "90 seconds is not"), ("finest", 1e-10, "1e-10 seconds is not"), ("finest", 5e-324, "seconds is not"),
            ("second", {"$": "date", "v": "1969-12-31T23:59:59.5Z"}, "1969-12-31T23:59:59.5Z is not a whole number of ticks ("),
            ("day_after", {"$": "date", "v": "2026-02-28T18:30:00Z"}, "2026-02-28T18:30:00Z is not"),
            ("day_after", {"$": "date", "v": "2026-02-28T00:00:00+02:00"}, "2026-02-28T00:00:00+02:00 is not"),
        ]:
            with self.subTest(function, given=given):
                self.refuses(words, function, given)

    def test_containers_and_paths(self):
        for function, given, expected in [
            ("joined", ["/tmp/x", "../a b/" + "c" * 20], "/tmp/a b/" + "c" * 20), ("joined", ["", "y"], "y"),
            ("pushed", [[1, 2]], [1, 2, 9]), ("popped", [["x", "y"]], ["y", "longer than sixteen letters"]), ("on_vector", [[]], [9]),
            ("added", [[["a", 1], ["a", 2], ["b", 3]]], [["a", 1], ["a", 2], ["a", 7], ["b", 3]]), ("added", [{"c": 1}], [["a", 7], ["c", 1]]),
            ("twice_one", [[3, 1]], [1, 1, 1, 3]), ("hashed", [], [[1, 2]]), ("fill", [], {"d": 5.0, "p": "a/b", "t": {"$": "date", "v": "1970-01-01T00:00:01.500000Z"}}),
            ("slower", [{"name": "j", "took": 1, "file": "/l", "z": {"real": 1, "imag": 2}}],
             {"name": "j", "took": 2.0, "file": "/l.old", "z": {"real": 1.0, "imag": 2.0}}),
        ]:
            with self.subTest(function, given=given):
                self.assertEqual(self.call(function, *given), expected)
        self.refuses("is not a pair", "added", [[1]])
        self.refuses("cannot be made: take a std::multimap", "hashed_in", [[1, 2]])
        self.refuses("std::priority_queue<int", "heap")

    def test_overloads(self):
        for given, expected in [(5, 1), (2.5, 1), ({"$": "date", "v": "2026-01-01"}, 2), ("a", 3), ([["a", 1]], 4), ({"a": 1}, 4)]:
            with self.subTest(given=given):
                self.assertEqual(self.call("which", given), expected)


class Library(AgentCase):
    """Each function changes its argument, so that objects made here are used, grown and freed by
    the library's own code."""
    language = "cpp"
    CODE = HEAD + """
string joined(string a, const string &b, string_view c) { a += b; a += c; return a; }
vector<int> grown(vector<int> v) { for (int i = 0; i < 100; i++) v.push_back(i); v.resize(v.size() - 99); return v; }
vector<vector<double>> nested(vector<vector<double>> v) { v.push_back({1, 2}); v[0].push_back(3); return v; }
vector<string> sorted(vector<string> v) { sort(v.begin(), v.end()); return v; }
vector<bool> flipped(vector<bool> v) { v.push_back(true); v.flip(); return v; }
vector<unsigned char> more(vector<unsigned char> v) { v.push_back(0); return v; }
array<int, 3> turned(array<int, 3> a) { reverse(a.begin(), a.end()); return a; }
list<string> front(list<string> l) { l.push_front("x"); l.sort(); return l; }
deque<long> last(deque<long> d) { for (long i = 0; i < 300; i++) { d.push_front(i); d.push_back(i); } while (d.size() > 3) d.pop_front(); return d; }
map<string, int> counted(map<string, int> m, const string &k) { m[k] += 5; m.erase("gone"); for (int i = 0; i < 99; i++) m["n" + to_string(i)] = i; for (int i = 0; i < 99; i++) m.erase("n" + to_string(i)); return m; }
map<int, double, greater<int>> falling(map<int, double, greater<int>> m) { m[2] = 0.5; return m; }
unordered_map<string, double> hashed(unordered_map<string, double> m) { m["sum"] = m.at("a") + m.at("b"); for (int i = 0; i < 99; i++) m[to_string(i)] = i; for (int i = 0; i < 99; i++) m.erase(to_string(i)); return m; }
unordered_map<int, string> numbered(unordered_map<int, string> m) { m.erase(1); for (int i = 9; i < 99; i++) m[i] = "x"; for (int i = 9; i < 99; i++) m.erase(i); return m; }
unordered_map<double, int> by_real(unordered_map<double, int> m) { return m.at(1.5) == 1 && m.at(-0.0) == 2 ? m : unordered_map<double, int>(); }
set<int> inserted(set<int> s) { s.insert(3); s.erase(1); return s; }
unordered_set<string> known(unordered_set<string> s) { s.insert("n"); s.erase("a"); return s; }
struct by_length { bool operator()(const string &a, const string &b) const { return a.size() < b.size(); } };
set<string, by_length> own_order(set<string, by_length> s) { return s; }
set<string, by_length> make_own_order() { return {"ccc", "a", "bb"}; }
map<vector<int>, int> odd_key(map<vector<int>, int> m) { return m; }
optional<int> next(optional<int> x) { return x ? optional<int>(*x + 1) : nullopt; }
optional<string> shout(const optional<string> &x) { return x ? optional<string>(*x + "!") : nullopt; }
pair<int, int> swapped(pair<int, int> p) { return {p.second, p.first}; }
tuple<int, string, double> about(tuple<double, string, int> t) { return {get<2>(t), get<1>(t), get<0>(t)}; }
tuple<char, long> small(tuple<long, char> t) { return {get<1>(t), get<0>(t)}; }
variant<int, string, vector<int>, monostate> other(variant<int, string, vector<int>, monostate> v) { switch (v.index()) { case 0: return to_string(get<0>(v)); case 1: return vector<int>{1, (int)get<1>(v).size()}; case 2: return monostate{}; default: return 5; } }
unique_ptr<string> owned(unique_ptr<string> p) { if (p) *p += "x"; return p; }
shared_ptr<int> shared(shared_ptr<int> p) { auto q = p; return make_shared<int>(*q + 1); }
void push(vector<int> &v) { v.push_back(4); }
void fill(map<string, int> &m, string &s) { m["a"] = 1; s += "end"; }
string bad() { return "\\xff"; }
string zero(string s) { s += '\\0'; return s; }
map<string, int> dollar() { return {{"$", 1}}; }
struct person { string name; int age; vector<string> tags; optional<double> size; };
person older(person p) { p.age++; p.tags.push_back("older"); return p; }
struct base { int a; }; struct derived : base { short b; };
derived both(derived d) { d.a++; d.b--; return d; }
enum class color : unsigned char { red, green };
color changed(color c) { return c == color::red ? color::green : color::red; }
map<color, int> palette(map<color, int> m) { m[color::green] = 2; return m; }
struct keeper { int x; keeper(const keeper &o) : x(o.x + 100) {} };
int kept(keeper k) { return k.x; }
struct closed { closed(); private: int x; };
int shut(const closed &c) { return 1; }
struct virtually { virtual ~virtually() {} int x; };
int virtual_one(const virtually &v) { return v.x; }
int later(const map<string, int> *m = nullptr) { return m ? 1 : 0; }
"""

    def same(self, function, *args):
        expected = args[-1]
        self.assertEqual(self.call(function, *args[:-1]), expected)

    def test_text(self):
        self.same("joined", "a", "b" * 40, "cc", "a" + "b" * 40 + "cc")
        self.same("joined", "", "", "", "")
        self.same("zero", "a\0b", "a\0b\0")
        answer, attachments = self.answer_and_attachments("bad")
        self.assertEqual(attachments, b"\xff")
        self.refuses("argument 'a': 5 is not a string (std::string)", "joined", 5, "", "")

    def test_sequences(self):
        self.same("grown", [7], [7, 0])
        self.same("nested", [[1.5], []], [[1.5, 3.0], [], [1.0, 2.0]])
        self.same("sorted", ["b" * 30, "a", "c" * 20], ["a", "b" * 30, "c" * 20])
        self.same("flipped", [True, False] * 40, [False, True] * 40 + [False])
        self.same("turned", [1, 2, 3], [3, 2, 1])
        self.same("front", ["z" * 30, "b"], ["b", "x", "z" * 30])
        self.same("last", list(range(1000)), [297, 298, 299])
        self.same("last", [], [297, 298, 299])
        answer, attachments = self.answer_and_attachments("more", {"$": "bytes", "at": 0, "n": 2}, attachments=b"ab")
        self.assertEqual(attachments, b"ab\0")
        self.refuses("argument 'v[1][0]': \"a\" is not a number", "nested", [[1], ["a"]])
        self.refuses("argument 'v': 5 is not an array", "grown", 5)
        self.refuses("4 elements do not fit", "turned", [1, 2, 3, 4])

    def test_maps_and_sets(self):
        self.same("counted", {"z": 1, "gone": 2, "b": 3, "k" * 30: 4}, "b", {"b": 8, "k" * 30: 4, "z": 1})
        self.same("falling", {"1": 1, "3": 3}, {"$": "map", "v": [[3, 3.0], [2, 0.5], [1, 1.0]]})
        self.same("hashed", {"a": 1.5, "b": 2}, {"a": 1.5, "b": 2.0, "sum": 3.5})
        self.same("numbered", {"1": "a", "-2": "b"}, {"$": "map", "v": [[-2, "b"]]})
        value = self.call("by_real", {"$": "map", "v": [[1.5, 1], [0.0, 2]]})["v"]
        self.assertEqual(sorted(value), [[0.0, 2], [1.5, 1]])
        self.same("inserted", [5, 1, 9], {"$": "set", "v": [3, 5, 9]})
        self.assertEqual(sorted(self.call("known", {"$": "set", "v": ["a", "b" * 30]})["v"]), ["b" * 30, "n"])
        self.same("dollar", {"$": "object", "v": [["$", 1]]})
        self.same("palette", {"red": 1}, {"red": 1, "green": 2})
        self.same("make_own_order", {"$": "set", "v": ["a", "bb", "ccc"]})
        self.refuses("a key is there twice", "inserted", [1, 1])
        self.refuses("a key is there twice", "numbered", {"$": "map", "v": [[1, "a"], [True, "b"]]})
        self.refuses("has an order or a hash of its own", "own_order", ["a"])
        self.refuses("keys of the type", "odd_key", {"$": "map", "v": [[[1], 1]]})
        self.refuses("is not an object or a map", "counted", [1], "a")

    def test_optional_pair_tuple_variant(self):
        self.same("next", 4, 5)
        self.same("next", None, None)
        self.same("shout", "a", "a!")
        self.same("shout", None, None)
        self.same("swapped", [1, 2], [2, 1])
        self.same("about", [1.5, "x" * 20, 9], [9, "x" * 20, 1.5])
        self.same("small", [1 << 40, "c"], ["c", 1 << 40])
        self.same("other", 7, "7")
        self.same("other", "abc", [1, 3])
        self.same("other", [1], None)
        self.same("other", None, 5)
        self.refuses("is not an array of 2", "swapped", [1])
        self.refuses("is none of the alternatives", "other", {"a": 1})

    def test_pointers_and_references(self):
        self.same("owned", "a", "ax")
        self.same("owned", None, None)
        self.same("shared", 4, 5)
        self.same("push", [1], [1, 4])
        self.same("push", [4])
        self.assertEqual(self.call("fill", {"b": 2}, "the "), {"m": {"a": 1, "b": 2}, "s": "the end"})
        self.assertEqual(self.call("fill"), {"m": {"a": 1}, "s": "end"})

    def test_classes(self):
        person = {"name": "Ada", "age": 36, "tags": ["x" * 30], "size": 1.7}
        self.assertEqual(self.call("older", person), {**person, "age": 37, "tags": ["x" * 30, "older"]})
        self.same("both", {"a": 1, "b": 2}, {"a": 2, "b": 1})
        self.same("changed", "color::red", "green")
        self.same("kept", {"x": 1}, 1)
        self.refuses("a class with members that are not public", "shut", {"x": 1})
        self.refuses("virtual functions", "virtual_one", {"x": 1})
        self.refuses("std::vector", "older", {**person, "tags": 5})


class Overloads(AgentCase):
    """Each function returns its own name."""
    language = "cpp"
    CODE = HEAD + """
#define IS(name, text, ...) string name(__VA_ARGS__) { return text; }
struct point { int x, y; };
struct sized { const int *items; int items_count; };
enum class color { red, green };

IS(number, "int", int) IS(number, "double", double) IS(number, "bool", bool) IS(number, "string", const string &)
IS(real, "float", float) IS(real, "string", string_view)
IS(whole, "int", int) IS(whole, "string", string)
IS(text, "char *", const char *) IS(text, "vector", const vector<int> &) IS(text, "char", char)
IS(texts, "string", string) IS(texts, "char *", const char *)
IS(many, "ints", vector<int>) IS(many, "strings", vector<string>) IS(many, "map", map<string, int>) IS(many, "point", point)
IS(nested, "ints", vector<vector<int>>) IS(nested, "doubles", vector<vector<double>>)
IS(bytes, "bytes", vector<unsigned char>) IS(bytes, "ints", vector<int>) IS(bytes, "doubles", vector<double>)
IS(lists, "vector", vector<int>) IS(lists, "set", set<int>)
IS(pairs, "two", pair<int, int>) IS(pairs, "three", tuple<int, int, int>)
IS(objects, "point", const point &) IS(objects, "map", unordered_map<string, string>) IS(objects, "sized", sized)
IS(keyed, "by text", map<string, int>) IS(keyed, "by number", map<int, int>)
IS(maybe, "int", int) IS(maybe, "optional", optional<int>)
IS(nothing, "pointer", const point *) IS(nothing, "string", string)
IS(nothings, "pointer", const point *) IS(nothings, "optional", optional<int>)
IS(pointed, "int", int) IS(pointed, "pointer", const int *)
IS(named, "color", color) IS(named, "int", int)
IS(either, "variant", variant<int, string>) IS(either, "double", double)
IS(two, "int, double", int, double) IS(two, "double, int", double, int)
IS(mixed, "int, string", int, string) IS(mixed, "string, int", string, int)
IS(keywords, "width", int width) IS(keywords, "height", long height)
IS(dots, "dots", int, ...) IS(dots, "two", int, int)
struct M { static string one(int); string one(const int &) const; };
string M::one(int) { return "static"; }
string M::one(const int &) const { return "member"; }
"""
    BYTES = {"$": "bytes", "at": 0, "n": 2}

    def chooses(self, function, *cases):
        for value, expected in cases:
            self.assertEqual(self.call(function, value), expected, value)

    def test_scalars(self):
        self.chooses("number", (3, "int"), (-3, "int"), (2.5, "double"),
                     (3.0, "double"), ({"$": "number", "v": "NaN"}, "double"), (True, "bool"), ("3", "string"))
        self.chooses("real", (3, "float"), (2.5, "float"), ("a", "string"))
        self.chooses("named", ("green", "color"), ("color::red", "color"), (1, "int"))
        self.refuses("none of the functions called 'named' takes such arguments: ", "named", "blue")
        self.refuses("none of the functions called 'whole' takes such arguments: ", "whole", 3.0)
        self.refuses("argument '#1': 3000000000 does not fit in int", "number", 3000000000)

    def test_text(self):
        self.chooses("text", ("abc", "char *"), ("a", "char *"), ([1], "vector"), (65, "char"))
        self.refuses("several of the functions called 'texts' can be called with 1 argument: ", "texts", "a")
        self.refuses("std::string texts(const char *)", "texts", "a")

    def test_lists(self):
        self.chooses("many", ([1], "ints"), (["a"], "strings"), ({"a": 1}, "map"))
        self.chooses("nested", ([[1]], "ints"), ([[1.5], [1]], "doubles"), ([[1, 2], []], "ints"))
        self.chooses("pairs", ([1, 2], "two"), ([1, 2, 3], "three"))
        self.chooses("lists", ({"$": "set", "v": [1]}, "set"))
        for function, value in (("many", []), ("lists", [1]), ("nested", [[]])):
            self.refuses("several of the functions called '%s'" % function, function, value)
        self.refuses("takes such arguments", "nested", [[1], ["a"]])

    def test_bytes_and_typed_arrays(self):
        for value, expected in ((self.BYTES, "bytes"), ({"$": "array", "t": "f32", "at": 0, "n": 4}, "doubles")):
            answer, _ = self.answer_and_attachments("bytes", value, attachments=b"\0" * value["n"])
            self.assertEqual(answer["result"]["value"], expected)

    def test_objects(self):
        self.chooses("objects", ({"x": 1, "y": 2}, "point"), ({"x": "1", "y": "2"}, "map"), ({"items": [1]}, "sized"), ({}, "map"))
        self.chooses("keyed", ({"a": 1}, "by text"), ({"1": 1}, "by text"), ({"$": "map", "v": [[1, 1]]}, "by number"))
        self.refuses("several of the functions called 'many'", "many", {"x": 1, "y": 2})

    def test_null_and_pointers(self):
        self.chooses("maybe", (3, "int"), (None, "optional"))
        self.chooses("nothing", (None, "pointer"), ({"x": 1, "y": 2}, "pointer"), ("a", "string"))
        self.chooses("pointed", (3, "int"), (None, "pointer"), ([3, 4], "pointer"))
        self.chooses("either", ("a", "variant"), (2.5, "double"))
        self.refuses("several of the functions called 'nothings'", "nothings", None)

    def test_several_arguments(self):
        self.assertEqual(self.call("two", 1, 2.5), "int, double")
        self.assertEqual(self.call("two", 1.5, 2), "double, int")
        self.refuses("several of the functions called 'two' can be called with 2 arguments: ", "two", 1, 2)
        self.refuses("takes such arguments", "two", 1.5, 2.5)
        self.assertEqual(self.call("mixed", "a", 1), "string, int")
        self.refuses("takes such arguments", "mixed", "a", "b")
        self.assertEqual(self.call("dots", 1, 2), "two")

    def test_keywords_and_members(self):
        self.assertEqual(self.call("keywords", kwargs={"height": 1}), "height")
        self.refuses("several of the functions called 'keywords'", "keywords", 1)
        self.refuses("takes such arguments", "keywords", kwargs={"depth": 1})
        self.assertEqual(self.call("M::one", 1), "static")


class Programs(AgentCase):
    language = "cpp"

    def test_names_and_overloads(self):
        code = ("#include <string>\nnamespace geo { int area(int w, int h) { return w * h; } }\nstruct M { static int twice(int x); int plain(int x); };\n"
                "int M::twice(int x) { return 2 * x; }\nint M::plain(int x) { return x; }\n"
                "int f(int a) { return a; }\nint f(int a, int b) { return a + b; }\nint g(int a) { return a; }\nint g(const long &a) { return 1; }\n"
                "template <class T> T t(T x) { return x; }\nint uses(int x) { return t(x); }\nnamespace { int hidden() { return 1; } }\nint uses_too() { return hidden(); }\n")
        for function, args, value in [("geo::area", [3, 4], 12), ("area", [3, 4], 12), ("M::twice", [4], 8), ("f", [3], 3), ("f", [3, 4], 7)]:
            self.assertEqual(self.call(code, *args, function=function), value)
        self.refuses("several of the functions called 'g' can be called with 1 argument: ", code, 3, function="g")
        self.refuses("int g(const long int &a)", code, 3, function="g")
        self.refuses("none of the functions called 'f' can be called with 3 arguments", code, 1, 2, 3, function="f")
        self.refuses("a member function needs an object", code, 3, function="M::plain")
        self.fails("NameError", "no function 'h'", code, 3, function="h")
        self.fails("NameError", "several functions, name one of them: ", code, 3)

    def test_too_many_parameters(self):
        names = ["a%d" % i for i in range(200)]
        code = "int f(%s) { return a0; }\nint f(int a) { return a; }" % ", ".join("int " + name for name in names)
        self.assertEqual(self.call(code, 3), 3)
        self.refuses("the function has too many parameters", code, *range(200))

    def test_overloads_alone_are_one_name(self):
        self.assertEqual(self.call("int f(int a) { return a; } int f(int a, int b) { return a + b; }", 3, 4), 7)
        code = "#include <string>\nint f(long a) { return 1; }\nint f(const std::string &a) { return 2; }"
        for value, which in ((3, 1), ({"$": "bigint", "v": "9007199254740993"}, 1), ("a", 2)):
            self.assertEqual(self.call(code, value), which)

    def test_template_that_is_not_there(self):
        self.fails("NameError", "no function", "template <class T> T t(T x) { return x; }", 1)

    def test_default_arguments(self):
        code = ("#include <iostream>\n#include <string>\n#include <vector>\nstruct S { S() { std::cout << 'c'; } } once;\n"
                "namespace geo { std::string join(const std::vector<std::string> &parts, std::string with = \", \", int times = 1) noexcept {\n"
                "  std::string s; for (int i = 0; i < times; i++) for (auto &p : parts) s += s.empty() ? p : with + p; return s; } }\n")
        for args, kwargs, value in [([["a", "b"]], {}, "a, b"), ([["a", "b"], "-"], {}, "a-b"), ([["a"], "-", 2], {}, "a-a"),
                                    ([], {"with": "+", "parts": ["a", "b"]}, "a+b")]:
            self.assertEqual(self.call(code, *args, kwargs=kwargs), value)
            self.assertEqual(self.output[1], "c")
        self.refuses("argument 'parts' is missing: ", code)
        self.refuses("argument 'with' is missing: ", code, ["a"], kwargs={"times": 2})
        self.refuses("argument 'b' is missing: int f(int a, int b)", "int f(int a, int b) { return a + b; }", 1)
        self.assertEqual(self.call("int f(int a = 40, int b = 2) { return a + b; }"), 42)
        self.refuses("argument 'a': \"x\" is not an integer", "int f(int a, int b = 2) { return a + b; }", "x")

    def test_exceptions(self):
        for thrown, kind, message in [("std::out_of_range(\"far\")", "std::out_of_range", "far"), ("Odd(\"three\")", "Odd", "three"),
                                      ("geo::Far{}", "geo::Far", ""), ("42", "int", "42"), ("\"text\"", "char const*", "text"),
                                      ("std::string(\"s\")", "std::string", "s"), ("2.5", "double", "2.5")]:
            code = ("#include <stdexcept>\n#include <string>\nstruct Odd : std::runtime_error { using std::runtime_error::runtime_error; };\n"
                    "namespace geo { struct Far {}; }\nint f(int x) { if (x) throw %s; return 1; }" % thrown)
            self.fails(kind, message, code, 1)

    def test_exceptions_run_destructors(self):
        code = "#include <iostream>\nstruct A { ~A() { std::cout << \"gone\"; } };\nint f() { A a; throw 1; }"
        self.fails("int", "1", code)
        self.assertEqual(self.output[1], "gone")

    def test_noexcept_is_a_crash(self):
        self.assertIsNone(self.answer_and_attachments("int f() noexcept { throw 1; }"))
        self.assertEqual(self.output[0], -6)

    def test_body(self):
        code = "#include <iostream>\n#include <string>\nstd::ios::sync_with_stdio(false);\nstd::cout << \"hi\";\nreturn std::string(\"body \") + argv[1];"
        answer = self.answer(code, "arg")["result"]
        self.assertEqual((answer["value"], answer["signatureSource"]), ("body arg", "convention"))
        self.assertEqual(self.output[1], "hi")
        self.assertIsNone(self.call("#include <cstdio>\nif (argc > 5) std::puts(\"x\");"))

    def test_operator_new_of_its_own(self):
        code = ("#include <cstdlib>\n#include <new>\n#include <string>\nstatic long made, freed;\n"
                "void *operator new(std::size_t n) { made++; char *p = (char *)std::malloc(n + 16); return p + 16; }\n"
                "void operator delete(void *p) noexcept { if (p) { freed++; std::free((char *)p - 16); } }\n"
                "void operator delete(void *p, std::size_t) noexcept { if (p) { freed++; std::free((char *)p - 16); } }\n"
                "std::string f(std::string a) { a += a; a += std::to_string(made > 0 && freed > 0); return a; }")
        self.assertEqual(self.call(code, "x" * 50, function="f"), "x" * 100 + "1")

    def test_standard_and_compile_error(self):
        code = "#include <concepts>\ntemplate <std::integral T> T half(T x) { return x / 2; }\nint f(int x) { return half(x); }"
        self.assertEqual(self.call(code, 8, function="f", build={"standard": "c++20"}), 4)
        self.fails("CompileError", "main.cpp:2:", code, 8, function="f", build={"standard": "c++17"})
        self.fails("BuildError", "'c17' is no standard of C++", code, 8, build={"standard": "c17"})

    def test_sources_of_both_languages(self):
        build = {"sources": {"c.c": "int c(int x) { return x * 3; }", "p.cc": "#include <string>\nint p(std::string s) { return (int)s.size(); }"}}
        code = "#include <string>\nextern \"C\" int c(int);\nint p(std::string);\nint f(std::string s) { return c(p(s)); }"
        self.assertEqual(self.call(code, "abc", function="f", build=build), 9)


if __name__ == "__main__":
    unittest.main()
