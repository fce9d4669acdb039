"""The shared vectors of tests/vectors, and values of PHP's own types."""
import json
import sys
import unittest

from php_agent import Agent, AgentCase  # in front: it finds the next
from agent_process import exact, inward, outward, shifted, vectors, wanted

ECHO = "return $args[0];"
# Values that PHP sends back in another form, as Python does.
AS_PYTHON = {"undefined", "undefined in containers", "undefined in an array", "map with undefined as key", "sparse array's holes",
             "bigint in the safe range", "bigint zero", "bigint at the safe maximum", "bigint small",
             "escaped object without a key $", "escaped empty object", "time with milliseconds", "time before 1970", "invalid date",
             "kinds in containers", "tags at the greatest depth", "buffer", "empty buffer", "class", "class nobody knows",
             "class of the longest name", "class of JavaScript's prototype", "class that carries a leaf, twice"}
# PHP's arrays are values: one that is there twice is two, and none is in itself.
HOLDS_ITSELF = {"array in itself", "object in itself", "cycle of three", "cycle in the middle", "escaped object in itself",
                "open array as a key", "key of an array in itself", "key __proto__", "inside of an open class", "class that carries what holds it",
                "key with NUL, and $", "what looks like an index"}
TOO_DEEP_IN_ARGS = {"200 arrays, the innermost in itself"}
REFUSED_BACK = {"set in itself", "map in itself, as key", "map in itself, as value", "error in itself"}


def numbered(tree, found):
    """Every container of the text form in the order in which it opens."""
    if isinstance(tree, list):
        found.append(tree)
        for item in tree:
            numbered(item, found)
    elif isinstance(tree, dict):
        kind = tree.get("$")
        if kind in (None, "map", "set", "object", "class", "error"):
            found.append(tree)
        if kind in ("map", "object"):
            for pair in tree["v"]:
                for item in pair:
                    numbered(item, found)
        elif kind == "set":
            for item in tree["v"]:
                numbered(item, found)
        elif kind == "class":
            numbered(tree["v"], found)
        elif kind == "error":
            for item in tree["v"].get("fields", {}).values():
                numbered(item, found)
        elif kind is None:
            for item in tree.values():
                numbered(item, found)
    return found


def copied(tree, containers):
    """The value in PHP: references as copies of their targets, no undefined, classes as their content."""
    if isinstance(tree, list):
        return [copied(item, containers) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if tree.get("$") == "ref":
        return copied(containers[tree["n"]], containers)
    if tree.get("$") == "class":
        return copied(tree["v"], containers)
    if tree.get("$") == "undefined":
        return None
    if tree.get("$") == "object" and not any(key == "$" or "\0" in key for key, _ in tree["v"]):
        return {key: copied(item, containers) for key, item in tree["v"]}
    return {key: copied(item, containers) for key, item in tree.items()}


class Vectors(unittest.TestCase):
    def setUp(self):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(5000)
        self.addCleanup(sys.setrecursionlimit, limit)
        self.agent = Agent()
        self.addCleanup(self.agent.end)

    def echo(self, value):
        """(value in the text form, None) or (None, error)"""
        attachments = bytearray()
        argument = outward(value, attachments)
        answer, attached = self.agent.request(bytes(attachments), code=ECHO, args=[argument])
        if "error" in answer:
            return None, answer["error"]
        return inward(answer["result"]["value"], attached), None

    def test_valid(self):
        for vector in vectors("values"):
            with self.subTest(vector["name"]):
                value, error = self.echo(vector["value"])
                self.assertIsNone(error)
                self.assertEqual(exact(value), exact(wanted(vector, "php", *["python"] * (vector["name"] in AS_PYTHON))))

    def test_rich(self):
        for vector in vectors("rich"):
            with self.subTest(vector["name"]):
                value, error = self.echo(shifted(vector["value"]))
                if vector["name"] == "regexp nobody has":
                    self.assertEqual(error["message"], "$.args[0]: regexp is none in PHP")
                elif vector["name"] in REFUSED_BACK:
                    self.assertIn("cycle cannot be sent", error["message"])
                elif vector["name"] in TOO_DEEP_IN_ARGS:
                    self.assertIn("nested deeper than 200", error["message"])
                elif vector["name"] in HOLDS_ITSELF:
                    self.assertIn("an array that holds itself cannot be held in PHP", error["message"])
                else:
                    self.assertIsNone(error)
                    whole = copied(vector["value"], numbered(vector["value"], []))
                    want = copied(vector["python"], numbered(vector["python"], [])) if vector["name"] in AS_PYTHON else whole
                    self.assertEqual(exact(value).replace("000Z", "Z"), exact(want).replace("000Z", "Z"))

    def test_invalid(self):
        for vector in vectors("invalid", "invalid-rich", "invalid-text"):
            with self.subTest(vector["name"]):
                answer, _ = self.agent.request(code=ECHO, args=[shifted(vector["value"])])
                self.assertIn("error", answer)


class OwnTypesCase(AgentCase):
    def sent(self, expression, want, attachment=None, head=""):
        super().sent("%s return %s;" % (head, expression), want, attachment)

    def refused(self, expression, message, head=""):
        super().refused("%s return %s;" % (head, expression), message)


class Outgoing(OwnTypesCase):
    def test_arrays(self):
        self.sent("[[], [1, 'a'], ['a' => 1], [1 => 'x'], ['0' => 'l'], [0 => 1, 2 => 3]]",
                  [[], [1, "a"], {"a": 1}, {"1": "x"}, ["l"], {"0": 1, "2": 3}])
        self.sent("['$' => 1, 'x' => [\"a\\0b\" => 2]]", {"$": "object", "v": [["$", 1], ["x", {"$": "object", "v": [["a\0b", 2]]}]]})

    def test_numbers(self):
        self.sent("[1, 1.0, 1e25, 0.1, -0.0, NAN, INF, -INF, PHP_INT_MAX, 9007199254740991, 9007199254740992]", [
            1, 1.0, 1e25, 0.1, {"$": "number", "v": "-0"}, {"$": "number", "v": "NaN"}, {"$": "number", "v": "Infinity"},
            {"$": "number", "v": "-Infinity"}, {"$": "bigint", "v": "9223372036854775807"}, 9007199254740991,
            {"$": "bigint", "v": "9007199254740992"}])

    def test_settings_of_the_user_do_not_round(self):
        self.sent("0.1 + 0.2", 0.30000000000000004, head="ini_set('serialize_precision', 3);")

    def test_strings(self):
        self.sent(r'''["\xC3\xA4", "\0", "\xFF\x00"]''', ["\u00e4", "\0", {"$": "bytes", "at": 0, "n": 2}], b"\xff\0")
        self.sent("new Cloche\\Bytes('text')", {"$": "bytes", "at": 0, "n": 4}, b"text")
        self.refused(r'["a" => ["\xFF" => 1]]', "$.a['\ufffd']: a key that is not UTF-8 cannot be sent")

    def test_objects(self):
        head = "class P { public $a = 1; protected $b = 2; private $c = 3; public ?P $p = null; public int $none; }"
        self.sent("[new P, new stdClass, (object) ['x' => 1, '1' => 2]]", [{"a": 1, "p": None}, {}, {"x": 1, "1": 2}], head=head)
        self.sent("new class { public $x = 1; }", {"x": 1})

    def test_enums_and_json(self):
        head = ("enum S: string { case A = 'a'; } enum U { case B; } class J implements JsonSerializable {"
                " public function __construct(private $v) {} public function jsonSerialize(): mixed { return $this->v; } }")
        self.sent("[S::A, U::B, new J([1]), new J(new J(null))]", ["a", "B", [1], None], head=head)

    def test_collections(self):
        self.sent("[new ArrayObject([1, 2]), new ArrayObject(['a' => 1]), new ArrayIterator([1, 2]), SplFixedArray::fromArray([1, 2])]",
                  [{"0": 1, "1": 2}, {"a": 1}, [1, 2], [1, 2]])
        self.sent("(function () { $a = new stdClass; $s = new SplObjectStorage; $s->attach($a); $t = new SplObjectStorage;"
                  " $t->attach($a, 5); return [$s, $t]; })()",
                  [{"$": "set", "v": [{}]}, {"$": "map", "v": [[{}, 5]]}])

    def test_generators_are_collected(self):
        self.sent("(function () { yield 1; yield from [2, 3]; })()", [1, 2, 3])
        self.sent("(function () { yield 'a' => 1; yield 'b' => 2; })()", {"a": 1, "b": 2})
        self.sent("(function () { yield 'a' => 1; yield 'a' => 2; })()", [["a", 1], ["a", 2]])
        self.sent("(function () { yield 0.5 => 1; yield null => 2; })()", {"$": "map", "v": [[0.5, 1], [None, 2]]})

    def test_generator_without_end_stops_at_the_limit(self):
        error = self.error("return (function () { while (true) yield 'x'; })();", resultBytes=10000)
        self.assertEqual((error["type"], error["message"]), ("ValueError", "what is to be sent is over the limit of 10000 bytes"))

    def test_dates(self):
        self.sent("[new DateTime('2026-11-21T10:20:30.5Z'), new DateTimeImmutable('2026-11-21T10:20:30+02:00'),"
                  " new DateTimeImmutable('2026-07-01', new DateTimeZone('Europe/Berlin')), new Cloche\\Day('2026-11-21'),"
                  " new Cloche\\LocalTime('2026-11-21 10:00'), new DateTimeImmutable('1850-01-01', new DateTimeZone('Europe/Berlin'))]",
                  [{"$": "date", "v": text} for text in ("2026-11-21T10:20:30.500000Z", "2026-11-21T10:20:30+02:00",
                   "2026-07-01T00:00:00+02:00", "2026-11-21", "2026-11-21T10:00:00", "1849-12-31T23:06:32Z")])
        self.refused("new DateTime('@253402300800')", "$: a date outside the years 1 to 9999 cannot be sent")
        self.sent("[new DateInterval('P1Y2M3DT4H5M6S'), new DateInterval('PT0S'), new DateTimeZone('UTC'),"
                  " (new DateTime('2026-01-03'))->diff(new DateTime('2026-01-01T12:00'))]", ["P1Y2M3DT4H5M6S", "PT0S", "UTC", "-P1DT12H"])

    def test_evident_forms(self):
        self.sent("[new Bad('m', 7), new Exception('x')]", [{"name": "Bad", "message": "m", "detail": 7}, {"name": "Exception", "message": "x"}],
                  head="class Bad extends Exception { function __construct(string $m, public int $detail) { parent::__construct($m); } }")
        self.sent("[Suit::Hearts, Size::Small]", ["Hearts", "s"], head="enum Suit { case Hearts; } enum Size: string { case Small = 's'; }")
        self.sent("[new ArrayObject(['a' => 1]), new ArrayIterator([1]), new SplStack(), (fn () => yield 1)()]", [{"a": 1}, [1], [], [1]])
        self.sent("[new Hidden, new Shown]", [{"x": 1}, {"x": 1, "y": [2]}],
                  head="class Hidden { private $x = 1; function toArray() { return ['x' => $this->x]; } } class Shown { public $x = 1; public $y = [2]; private $z = 3; }")

    def test_own_classes(self):
        self.sent("[new Cloche\\Map([[1, 'a'], ['1', 'b']]), new Cloche\\Set([1, '1', 1]), new Cloche\\BigInt('12345678901234567890'),"
                  " new Cloche\\TypedArray('i16', [1, -2]), new Cloche\\Pattern('a/~', 'i')]",
                  [{"$": "map", "v": [[1, "a"], ["1", "b"]]}, {"$": "set", "v": [1, "1"]}, {"$": "bigint", "v": "12345678901234567890"},
                   {"$": "array", "t": "i16", "at": 0, "n": 4}, {"$": "regexp", "source": "a/~", "flags": "i"}], b"\1\0\xfe\xff")

    def test_refusals_name_the_path(self):
        self.refused("['rows' => [0, 1, 2, ['handler' => fn () => 1]]]", "$.rows[3].handler: Closure cannot be sent")
        self.refused("['a b' => STDIN]", "$['a b']: resource (stream) cannot be sent")
        self.refused("[new ReflectionClass('stdClass')]", "$[0]: ReflectionClass cannot be sent")
        message = self.error("\nfunction g() { return [STDIN]; }", function="g")["message"]
        self.assertEqual(message, "$[0]: resource (stream) cannot be sent: return its data; returned by g (main.php, line 2)")
        self.refused("new C", "$.inner: Closure cannot be sent", head="class C { public $inner; function __construct() { $this->inner = strlen(...); } }")
        self.refused("(function () { yield 'k' => STDIN; })()", "$.k: resource (stream) cannot be sent")

    def test_cycles_and_depth(self):
        self.refused("$a", "$.x[0]: cycle cannot be sent", head="$a = new stdClass; $a->x = [$a];")
        self.sent("[$a, $a]", [{"x": 1}, {"x": 1}], head="$a = new stdClass; $a->x = 1;")
        self.assertIn("nested deeper than 200", self.error("$a = []; $a[0] = &$a; return $a;")["message"])
        code = "$x = 1; for ($i = 0; $i < %d; $i++) $x = [$x]; return $x;"
        self.assertIn("result", self.answer(code % 200))
        self.assertRegex(self.error(code % 201)["message"],
                         r"^\$(\[0\])+\[?…0?\]?(\[0\])+: nested deeper than 200: return it as text \(json_encode\), or as a flat list")

    def test_too_large(self):
        for code in ("return str_repeat('x', 5000);", "return [new Cloche\\Bytes(str_repeat('x', 1500)), new Cloche\\Bytes(str_repeat('y', 1500))];",
                     "return array_fill(0, 1000, 1);"):
            error = self.error(code, resultBytes=1500)
            self.assertEqual(error["type"], "ValueError")
            self.assertIn("limit of 1500 bytes", error["message"])
        self.assertEqual(self.call("return str_repeat('x', 1000);", resultBytes=1500), "x" * 1000)


class Incoming(AgentCase):
    def seen(self, expression, value, attachments=b""):
        answer = self.answer_and_attachments("$x = $args[0]; return %s;" % expression, value, attachments=attachments)[0]
        self.assertIn("result", answer, answer)
        return answer["result"]["value"]

    def test_kinds(self):
        kinds = [({"a": 1}, "array"), ({}, "ArrayObject"), ({"0": 1}, "ArrayObject"), ({"1": 1}, "array"), ([], "array"), (1, "int"),
                 (1.0, "float"), ({"$": "bytes", "b64": ""}, "Cloche\\Bytes"), ({"$": "bigint", "v": "9007199254740993"}, "int"),
                 ({"$": "bigint", "v": "9223372036854775808"}, "Cloche\\BigInt"), ({"$": "date", "v": "2026-11-21"}, "Cloche\\Day"),
                 ({"$": "date", "v": "2026-11-21T01:02:03"}, "Cloche\\LocalTime"),
                 ({"$": "date", "v": "2026-11-21T01:02:03Z"}, "DateTimeImmutable"), ({"$": "map", "v": []}, "Cloche\\Map"),
                 ({"$": "set", "v": []}, "Cloche\\Set"), ({"$": "array", "t": "f32", "b64": ""}, "Cloche\\TypedArray"),
                 ({"$": "regexp", "source": "a", "flags": ""}, "Cloche\\Pattern"), ({"$": "undefined"}, "null"),
                 ({"$": "error", "v": {"name": "E", "message": "m"}}, "Cloche\\HostError")]
        seen = self.call("return array_map('get_debug_type', $args);", *[value for value, _ in kinds])
        self.assertEqual(seen, [kind for _, kind in kinds])

    def test_an_empty_object_is_of_use(self):
        self.assertEqual(self.seen("[$x['a'] ?? 'none', count($x), $x->b ?? 'none', iterator_to_array($x)]", {}), ["none", 0, "none", []])

    def test_numeric_keys_keep_their_form(self):
        self.assertEqual(self.seen("[$x['7'], $x]", {"7": "a", "x": "b"}), ["a", {"7": "a", "x": "b"}])

    def test_map_and_set(self):
        self.assertEqual(self.seen("[$x[1], $x['1'], $x[null], $x[[2]], count($x), isset($x[2]), $x->has(null)]",
                                   {"$": "map", "v": [[1, "a"], ["1", "b"], [None, "c"], [[2], "d"]]}), ["a", "b", "c", "d", 4, False, True])
        value = {"$": "map", "v": [[True, 1], [False, 2], [None, 3], ["", 4], [0, 5], [0.0, 6], [{"$": "number", "v": "-0"}, 7], [[], 8], [{"a": 1}, 9]]}
        self.assertEqual(self.seen("[$x[true], $x[false], $x[null], $x[''], $x[0], $x[0.0], $x[-0.0], $x[[]], $x[['a' => 1]], $x]", value), [*range(1, 10), value])
        self.assertEqual(self.seen("(function () use ($x) { unset($x[[1]]); $x[[3]] = 'c'; $x[[2]] = 'd'; return $x; })()",
                                   {"$": "map", "v": [[[1], "a"], [[2], "b"]]}), {"$": "map", "v": [[[2], "d"], [[3], "c"]]})
        self.assertEqual(self.seen("[$x->has(1), $x->has('1'), iterator_to_array($x)]", {"$": "set", "v": [1, 2.5]}), [True, False, [1, 2.5]])

    def test_typed_arrays(self):
        for kind, data, numbers in [("i8", b"\xff\x01", [-1, 1]), ("u8c", b"\xff", [255]), ("i16", b"\xfe\xff", [-2]), ("i32", b"\xff\xff\xff\xff", [-1]),
                                    ("u32", b"\xff\xff\xff\xff", [2**32 - 1]), ("i64", b"\xff" * 8, [-1]), ("f32", b"\0\0\x80\x3f", [1.0]),
                                    ("u64", b"\xff" * 8, [{"$": "bigint", "v": str(2**64 - 1)}])]:
            value = {"$": "array", "t": kind, "at": 0, "n": len(data)}
            self.assertEqual(self.seen("[$x->toArray(), count($x), $x[0] == $x->toArray()[0]]", value, data), [numbers, len(numbers), True])

    def test_typed_arrays_hold_what_fits(self):
        code = ("$a = new Cloche\\TypedArray('u64', [new Cloche\\BigInt('18446744073709551615')]); $a[] = 7; $a[1] = 8;"
                "foreach ([['u8', 256], ['i16', -32769], ['u64', -1], ['u32', 1.5], ['i64', new Cloche\\BigInt('9223372036854775808')]] as [$t, $n])"
                " try { new Cloche\\TypedArray($t, [$n]); $ok[] = $t; } catch (RangeException) {} return [$a, $ok ?? []];")
        answer, attached = self.answer_and_attachments(code)
        self.assertEqual(answer["result"]["value"][1], [])
        self.assertEqual(attached, b"\xff" * 8 + b"\x08" + bytes(7))

    def test_patterns_match(self):
        self.assertEqual(self.seen("[preg_match($x, 'A/~\u00e4'), (string) $x]", {"$": "regexp", "source": "^a/~\\~?.$", "flags": "gi"}),
                         [1, "~^a/\\~\\~?.$~ui"])

    def test_bytes_are_strings_where_strings_are_wanted(self):
        self.assertEqual(self.seen("(function (string $s) { return [$s === 'ab', strlen($s)]; })($x)", {"$": "bytes", "b64": "YWI="}), [True, 2])

    def refusal(self, value, attachments=b""):
        answer, _ = self.answer_and_attachments(ECHO, value, attachments=attachments)
        self.assertEqual(answer["error"]["code"], -32602, answer)
        return answer["error"]["message"]

    def test_refused_with_the_path(self):
        self.assertEqual(self.refusal({"a": [{"$": "nope"}]}), "$.args[0].a[0]: unknown kind 'nope'")
        self.assertIn("safe range", self.refusal(2**53))
        self.assertIn("deeper", self.refusal(json.loads("[" * 201 + "]" * 201)))
        self.assertIn("twice", self.refusal({"$": "set", "v": [1, 1]}))

    def test_attachment_ranges(self):
        whole = {"$": "bytes", "at": 0, "n": 4}
        self.assertIn("overlap", self.refusal([whole, {"$": "bytes", "at": 3, "n": 1}], b"abcd"))
        self.assertIn("outside", self.refusal({"$": "bytes", "at": 3, "n": 2}, b"abcd"))

    def test_large_both_ways(self):
        blob = bytes(range(256)) * 20000
        answer, attached = self.answer_and_attachments("function f($x) { return strrev($x); }", {"$": "bytes", "at": 0, "n": len(blob)}, attachments=blob)
        self.assertEqual(answer["result"]["value"], {"$": "bytes", "at": 0, "n": len(blob)})
        self.assertEqual(attached, blob[::-1])


if __name__ == "__main__":
    unittest.main()
