"""The shared vectors of tests/vectors, and values of Ruby's own types."""
import json
import unittest

from harness import AgentCase  # in front: it finds the next
from agent_process import exact, inward, outward, shifted, vectors, wanted

ECHO = "def f(x) = x"
LONG = 70000  # more than the agent parses itself: Ruby's json parses longer texts
# Ruby accepts values that Python refuses (a set of objects, for example).
OTHERWISE = {"regexp": {"$": "regexp", "source": "^a.$", "flags": "ims"}}
SAME_AS_SENT = ("typed array u8c", "empty typed array u8c", "array u8c")


NO_RUBY = {"set in itself", "map in itself, as key", "open array as a key", "key of an array in itself",
           "key that holds one array twice",
           "200 arrays, the innermost in itself",  # and args around them
           "regexp JavaScript does not have",
           "regexp nobody has"}


def wanted_of(vector):
    name = vector["name"]
    if name in OTHERWISE:
        return OTHERWISE[name]
    return vector["value"] if name in SAME_AS_SENT else wanted(vector, "ruby", "python")


class Vectors(AgentCase):
    def echo(self, value, attachments=b"", pad=0):
        self.agent.ids += 1
        message = {"jsonrpc": "2.0", "id": self.agent.ids, "method": "call", "params": {
            "code": ECHO, "filename": "main.rb", "args": [value], "resultBytes": 1 << 26}}
        self.agent.send_raw(json.dumps(message).encode() + b" " * pad, attachments)
        return self.agent.receive()

    def valid(self, pad):
        for vector in vectors("values"):
            with self.subTest(vector["name"]):
                attachments = bytearray()
                answer, attached = self.echo(outward(vector["value"], attachments), bytes(attachments), pad)
                self.assertIn("result", answer, answer)
                self.assertEqual(exact(inward(answer["result"]["value"], attached)), exact(wanted_of(vector)))

    def test_valid(self):
        self.valid(0)

    def test_valid_in_long_text(self):
        self.valid(LONG)

    def test_invalid(self):
        for vector in vectors("invalid", "invalid-rich"):
            for pad in (0, LONG):
                with self.subTest(vector["name"], pad=pad):
                    answer, _ = self.echo(shifted(vector["value"]), pad=pad)
                    self.assertIn("error", answer)
                    self.assertIn(answer["error"]["code"], (-32602, -32700), answer)
        self.assertAlive()

    def test_references_are_decoded(self):
        """As far as Ruby can hold them: a container that is open is no key. They are sent back without references."""
        code = "def f(x) = x.class.name.nil?"
        for vector in vectors("rich"):
            with self.subTest(vector["name"]):
                attachments = bytearray()
                value = outward(shifted(vector["value"]), attachments)
                answer, _ = self.agent.request(bytes(attachments), code=code, filename="main.rb", args=[value])
                if vector["name"] in NO_RUBY:
                    self.assertEqual(answer["error"]["code"], -32602, answer)
                else:
                    self.assertEqual(answer.get("result", answer).get("value"), False)

    def test_identity_of_references(self):
        ref = {"$": "ref", "n": 1}
        self.assertEqual(self.call("def f(x) = [x[0].equal?(x), x[1].equal?(x[2])]", [ref, [1], {"$": "ref", "n": 2}]), [True, True])
        self.assertEqual(self.call("def f(x) = [x['me'].equal?(x), x['s'].first.equal?(x['t'])]",
                                   {"me": ref, "s": {"$": "set", "v": [{"$": "map", "v": []}]}, "t": {"$": "ref", "n": 3}}), [True, True])
        self.assertEqual(self.error(ECHO, [ref])["message"], "$[0]: cycle cannot be sent: return a copy without the way back; returned by f (main.rb, line 1)")


class OwnTypes(AgentCase):
    def test_containers(self):
        self.sent("[[1, [2], {a: [3], 'b' => :c}], {}, []]", [[1, [2], {"a": [3], "b": "c"}], {}, []])
        self.sent("{1 => 'a', 'b' => 2, c: 3}", {"$": "map", "v": [[1, "a"], ["b", 2], ["c", 3]]})
        self.sent("{[1, 2] => 3}", {"$": "map", "v": [[[1, 2], 3]]})
        self.sent("{'$' => 1, x: 2}", {"$": "object", "v": [["$", 1], ["x", 2]]})
        self.sent("{\"a\\0\" => 1}", {"$": "object", "v": [["a\0", 1]]})
        self.sent("require 'set'; [Set[1, :a], SortedSet = 1][0, 1]", [{"$": "set", "v": [1, "a"]}])
        self.refused("{a: 1, 'a' => 2}", "$: the key \"a\" is there twice, as String and Symbol")

    def test_numbers(self):
        self.sent("[1, 1.0, true, -0.0, 2**53 - 1, 2**53, -2**53, 1e20, 1e-7]", [
            1, 1.0, True, {"$": "number", "v": "-0"}, 9007199254740991,
            {"$": "bigint", "v": "9007199254740992"}, {"$": "bigint", "v": "-9007199254740992"}, 1e20, 1e-7])
        self.sent("[0.0 / 0, 1 / 0.0, -1 / 0.0]", [{"$": "number", "v": name} for name in ("NaN", "Infinity", "-Infinity")])

    def test_strings(self):
        self.sent("['é', 'e'.encode('UTF-16LE'), \"\\u00e9\".encode('ISO-8859-1'), 'a'.force_encoding('US-ASCII'), \"\\0\\x01\\\"\\\\\"]",
                  ["é", "e", "é", "a", "\0\x01\"\\"])
        self.sent("['ab'.b, \"\\xff\".b, ''.b]", [{"$": "bytes", "at": 0, "n": 2}, {"$": "bytes", "at": 2, "n": 1},
                                                 {"$": "bytes", "at": 3, "n": 0}], b"ab\xff")
        self.refused("{a: [\"\\xff\"]}", "$.a[0]: String that is no valid UTF-8 cannot be sent")
        self.refused("{\"\\xff\" => 1}", "$[\"\ufffd\"]: String that is no valid UTF-8 cannot be sent")

    def test_typed_arrays_arrive_as_arrays_and_go_back(self):
        typed = {"$": "array", "t": "i16", "b64": "//8CAA=="}
        self.assertEqual(self.call("def f(x) = [x.is_a?(Array), x.map { |i| i + 1 }]", typed), [True, [0, 3]])
        answer, data = self.request(code="def f(x)\n x << 3\n x\nend", args=[typed])
        self.assertEqual((answer["result"]["value"], data), ({"$": "array", "t": "i16", "at": 0, "n": 6}, b"\xff\xff\2\0\3\0"))
        self.assertEqual(self.error("def f(x)\n x << 1.5\nend", typed)["message"],
                         "$[2]: Float that is no i16 cannot be sent in a typed array: return an Array; returned by f (main.rb, line 1)")

    def test_dates(self):
        code = ("require 'date'\n[Time.utc(2026, 11, 21, 10, 20, 30.5r), Time.new(2026, 1, 2, 3, 4, 5, '-03:30'), Date.new(2026, 11, 21),"
                " DateTime.new(2026, 1, 2, 3, 4, 5, '+01:00'), Time.at(0, 1, :nsec).utc, Time.new(2026, 1, 2, 0, 0, 0, '+00:00:30')]")
        dates = ["2026-11-21T10:20:30.500000Z", "2026-01-02T03:04:05-03:30", "2026-11-21", "2026-01-02T03:04:05+01:00",
                 "1970-01-01T00:00:00.000000001Z", "2026-01-01T23:59:30Z"]
        self.sent(code, [{"$": "date", "v": text} for text in dates])
        self.sent("[Time.utc(1), Time.utc(500)]", [{"$": "date", "v": text} for text in ("0001-01-01T00:00:00Z", "0500-01-01T00:00:00Z")])
        self.refused("Time.utc(12026)", "$: a date in the year 12026 cannot be sent")
        self.refused("Time.utc(0)", "$: a date in the year 0 cannot be sent")

    def test_dates_arrive_as_dates(self):
        code = "def f(x) = [x.class.name, x.respond_to?(:hour) ? [x.hour, x.nsec, x.utc_offset] : x.yday]"
        cases = {"2026-02-01": ["Date", 32], "2026-11-21T10:20:30.5+01:30": ["Time", [10, 500000000, 5400]],
                 "2026-11-21T10:20:30": ["Time", [10, 0, 0]]}
        for text, want in cases.items():
            self.assertEqual(self.call(code, {"$": "date", "v": text}), want)
        self.assertEqual(self.call("def f(x) = x + 60", {"$": "date", "v": "2026-11-21T10:20:30"}), {"$": "date", "v": "2026-11-21T10:21:30"})

    def test_objects_with_a_to_h(self):
        self.sent("[Struct.new(:x, :y).new(1, [2]), Struct.new(:k, keyword_init: true).new(k: nil)]", [{"x": 1, "y": [2]}, {"k": None}])
        self.sent("require 'ostruct'\nOpenStruct.new(a: 1, 'b' => 2)", {"a": 1, "b": 2})
        self.sent("class P\n def to_h = {a: self.class.name}\nend\nP.new.freeze", {"a": "P"})
        self.sent("o = Object.new\ndef o.to_h = {one: 1}\no", {"one": 1})
        self.assertEqual(self.error("class Q\n def to_h = raise(IOError, 'mine')\nend\nQ.new")["type"], "IOError")

    def test_subclasses_go_as_their_base(self):
        code = ("class S < String\n def to_s = 'no'\n def encoding = Encoding::BINARY\nend\nclass A < Array\n def each = yield('no')\nend\n"
                "class H < Hash\n def each = yield('no', 1)\n def each_pair = yield('no', 1)\nend\n[S.new('s'), A.new([1]), H.new.merge!('a' => 2)]")
        self.sent(code, ["s", [1], {"a": 2}])

    def test_refusals_name_the_path(self):
        self.refused("{rows: [0, 1, 2, {handler: ->() { 1 }}]}", "$.rows[3].handler: Proc cannot be sent")
        self.refused("[Kernel]", "$[0]: Module cannot be sent")
        message = self.error("\ndef g = [$stdout]")["message"]
        self.assertEqual(message, "$[0]: IO cannot be sent: return its data, or give its class a method to_h; returned by g (main.rb, line 2)")
        for code, name in {"Object.new": "Object", "$stdout": "IO", "Thread.current": "Thread",
                           "Class.new.new": "Object", "/x/x.match('x')": "MatchData", "BasicObject.new": "BasicObject"}.items():
            self.assertIn("%s cannot be sent" % name, self.error(code)["message"])

    def test_evident_forms(self):
        self.sent("require 'bigdecimal'\n[BigDecimal('12.30'), BigDecimal('1e30'), Rational(1, 2), 1 + 2i]",
                  ["12.3", "1000000000000000000000000000000.0", "1/2", {"real": 1, "imag": 2}])
        self.sent("require 'pathname'\nrequire 'uri'\nrequire 'ipaddr'\n[Pathname('/a'), URI('http://x/y'), IPAddr.new('::1')]", ["/a", "http://x/y", "::1"])
        self.sent("[1..3, 'a'...'c', 1.5..2.5, (1..nil).lazy.map { |n| n * n }.first(2), [[1].each], {a: [1, 2].each_slice(1)}]",
                  [[1, 2, 3], ["a", "b"], "1.5..2.5", [1, 4], [[1]], {"a": [[1], [2]]}])
        self.sent("require 'set'\nrequire 'ostruct'\nS = Struct.new(:a)\n[S.new(1), OpenStruct.new(b: 2), Set[3].to_a]", [{"a": 1}, {"b": 2}, [3]])
        self.sent("class P\n def initialize(x) = (@x = x; @_cache = 1)\nend\n[P.new(1), P.new(P.new([2]))]", [{"x": 1}, {"x": {"x": [2]}}])
        self.sent("class L\n include Enumerable\n def initialize = @items = [1, 2]\n def each(&b) = @items.each(&b)\nend\nL.new", [1, 2])
        self.sent("class Bad < StandardError\n def initialize(m, code) = (super(m); @code = code)\nend\n[KeyError.new('k'), Bad.new('m', 7)]",
                  [{"name": "KeyError", "message": "k"}, {"name": "Bad", "message": "m", "code": 7}])
        self.refused("class P\n def initialize = @me = [self]\nend\nP.new", "$.me[0]: cycle cannot be sent")
        self.assertEqual(self.error("{n: [1].each.lazy.map { raise KeyError, 'late' }}")["type"], "KeyError")

    def test_patterns(self):
        # Flag m where it has a meaning: Ruby's ^ and $ are the ends of lines.
        for pattern, flags in (("/a.b/i", "i"), ("/^x$/m", "ms"), ("/x$/", "m"), (r"/[^$]\$\^/", ""), (r"/[^\]$]/", ""), (r"/\\\\$/", "m")):
            with self.subTest(pattern):
                self.assertEqual(self.call(f"def f = {pattern}")["flags"], flags)
        self.refused("/a b/x", "$: Regexp of bytes or with flag x cannot be sent: return its source")
        self.assertEqual(self.call("def f(r) = [r.source, r.options]", {"$": "regexp", "source": "a(?<n>b)", "flags": "gs"}), ["a(?<n>b)", 4])

    def test_errors_arrive_as_exceptions(self):
        code = "def f(e) = [e.class.name, e.message, e.is_a?(StandardError), e.fields, e.code, (e.name if e.respond_to?(:name))]"
        told = {"name": "KeyError", "message": "no", "fields": {"code": 7}}
        self.assertEqual(self.call(code, {"$": "error", "v": told}), ["KeyError", "no", True, {"code": 7}, 7, None])
        answer = self.call(code, {"$": "error", "v": {**told, "name": "HttpError"}})
        self.assertEqual(answer[1:], ["no", True, {"code": 7}, 7, "HttpError"])

    def test_messages_of_errors_are_text(self):
        self.sent("[-> { Integer('x') }, -> { {}.fetch(:k) }, -> { raise 'm' }].map { |f| begin; f.call; rescue => e; e.message; end }",
                  ['invalid value for Integer(): "x"', "key not found: :k", "m"])

    def test_cycles_and_depth(self):
        self.refused("a = {}\na[:x] = [a]\na", "$.x[0]: cycle cannot be sent")
        self.sent("a = [1]\n[a, a]", [[1], [1]])
        code = "x = 1\n%d.times { x = [x] }\nx"
        self.assertIn("result", self.answer(code % 200))
        self.assertRegex(self.error(code % 201)["message"],
                         r"^\$(\[0\])+\[?…0?\]?(\[0\])+: nested deeper than 200: return it as text \(to_json\), or as a flat list")

    def test_limit(self):
        for code in ("'x' * 2000", "['x'] * 2000", "{a: 'x'.b * 2000}", "1.step", "(1..).lazy.map { |i| [i] }",
                     "Enumerator.new { |y| loop { begin; y << 'x'; rescue Exception; end } }"):
            error = self.error(code, resultBytes=1000)
            self.assertEqual(error["type"], "RangeError", code)
            self.assertIn("over the limit of 1000 (resultBytes)", error["message"])
        self.assertEqual(self.call("'x' * 998", resultBytes=1000), "x" * 998)

    def test_enumerators_are_collected(self):
        self.assertEqual(self.call("def f\n return to_enum(:f) unless block_given?\n yield 1\n yield 2, 3\nend"), [1, [2, 3]])
        self.assertEqual(self.call("(1..).lazy.select(&:even?).map { |x| x * x }.first(3)"), [4, 16, 36])
        self.assertEqual(self.error("Enumerator.new { |y| y << 1; raise KeyError, 'late' }")["type"], "KeyError")
        self.assertIn("$[1]: Class cannot be sent", self.error("[1, Object].each")["message"])

    def test_endless_ones_are_refused_by_name(self):
        for code, name in (("[1..]", "Range"), ("[(1..Float::INFINITY).lazy]", "Enumerator::Lazy"), ("[[0].cycle]", "Enumerator")):
            self.refused(code, "$[0]: %s of more than 1000000 items cannot be sent: return an Array of those that are needed" % name)
        self.assertEqual(len(self.call("1..1_000_001")), 1_000_001)


class Incoming(AgentCase):
    def refusal(self, value, attachments=b""):
        answer, _ = self.agent.request(attachments, code=ECHO, filename="main.rb", args=[value])
        self.assertEqual(answer["error"]["code"], -32602, answer)
        return answer["error"]["message"]

    def test_refused_with_the_path(self):
        self.assertEqual(self.refusal({"a": [{"$": "nope"}]}), "$.args[0].a[0]: unknown kind \"nope\"")
        self.assertEqual(self.refusal({"$": "date", "v": "2026-01-01T00:00:00.0000000001Z"}), "$.args[0]: date finer than a nanosecond")

    def test_attachment_ranges(self):
        whole = {"$": "bytes", "at": 0, "n": 4}
        self.assertIn("overlap", self.refusal([whole, {"$": "bytes", "at": 3, "n": 1}], b"abcd"))
        self.assertIn("outside", self.refusal({"$": "bytes", "at": 3, "n": 2}, b"abcd"))
        for at, size in ((-1, 1), (0, -1), (True, 1), ("0", 1), (0.0, 1)):
            self.assertIn("range", self.refusal({"$": "bytes", "at": at, "n": size}, b"abcd"))

    def test_what_ruby_holds_for_equal_is_not_merged(self):
        self.assertIn("twice", self.refusal({"$": "set", "v": [0.0, {"$": "number", "v": "-0"}]}))
        self.assertIn("twice", self.refusal({"$": "map", "v": [[[1], 1], [[1], 2]]}))

    def test_depth(self):
        value = 1
        for _ in range(199):
            value = [value]
        self.assertEqual(self.call(ECHO, value), value)
        self.assertIn("deeper", self.refusal([[value]]))


if __name__ == "__main__":
    unittest.main()
