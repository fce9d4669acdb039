"""The shared vectors of tests/vectors, Python's own types, and hostile values."""
import array
import base64
import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import pathlib
import pickle
import re
import sys
import typing
import unittest

from cloche import _base_errors, _frames, _values

VECTORS = pathlib.Path(__file__).resolve().parents[3] / "tests" / "vectors"
Refused = _base_errors.ValueRefusedError


def vectors(*names):
    return [vector for name in names for vector in json.loads((VECTORS / (name + ".json")).read_text())]


def roomy(convert, *args):
    """The tests' own helpers recurse more deeply than the client's code, which must work within Python's limit."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(5000)
    try:
        return convert(*args)
    finally:
        sys.setrecursionlimit(before)


def outward(tree, attachments):
    """Converts the text form to the framed form: bytes move into the attachments."""
    if isinstance(tree, list):
        return [outward(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$" in tree and isinstance(tree.get("b64"), str):
        try:
            data = base64.b64decode(tree["b64"], validate=True)
        except ValueError:
            return tree
        rest = {key: item for key, item in tree.items() if key != "b64"}
        rest.update(at=len(attachments), n=len(data))
        attachments += data
        return rest
    return {key: outward(item, attachments) for key, item in tree.items()}


def inward(tree, attachments):
    """Converts the framed form to the text form."""
    if isinstance(tree, list):
        return [inward(item, attachments) for item in tree]
    if not isinstance(tree, dict):
        return tree
    if "$" in tree and "at" in tree:
        data = attachments[tree["at"]:tree["at"] + tree["n"]]
        rest = {key: item for key, item in tree.items() if key not in ("at", "n")}
        return {**rest, "b64": base64.b64encode(data).decode()}
    return {key: inward(item, attachments) for key, item in tree.items()}


def decode(tree):
    attachments = bytearray()
    framed = roomy(outward, tree, attachments)
    decoder = _values.Decoder(bytes(attachments))
    value = decoder.value(_frames.parse_json(json.dumps(framed).encode()), "$")
    decoder.finish()
    return value


def encode(value, references=False):
    encoder = _values.make_encoder(references)
    text = _frames.write_json(encoder.value(value, "$"))
    return roomy(inward, json.loads(text), b"".join(encoder.parts))


def rich(value):
    return encode(value, references=True)


def exact(tree):
    """1 and 1.0 differ here, and the order of keys does not count."""
    return json.dumps(tree, sort_keys=True)


def ref(number):
    return {"$": "ref", "n": number}


def nest(value, depth):
    for _ in range(depth):
        value = [value]
    return value


class Vectors(unittest.TestCase):
    def test_values(self):
        for vector in vectors("values"):
            with self.subTest(vector["name"]):
                if "python" in vector.get("unsupported", []):
                    self.assertRaises(Refused, lambda: encode(decode(vector["value"])))
                    continue
                self.assertEqual(exact(encode(decode(vector["value"]))), exact(vector.get("python", vector["value"])))

    def test_rich(self):
        for vector in vectors("rich"):
            with self.subTest(vector["name"]):
                if "python" in vector.get("unsupported", []):
                    self.assertRaises(Refused, lambda: rich(decode(vector["value"])))
                    continue
                value = decode(vector["value"])
                if "python" not in vector.get("decodesOnly", []):
                    self.assertEqual(json.dumps(rich(value)), json.dumps(vector.get("python", vector["value"])))

    def test_invalid(self):
        for vector in vectors("invalid", "invalid-rich"):
            with self.subTest(vector["name"]):
                self.assertRaises(Refused, decode, vector["value"])

    def test_invalid_text(self):
        for vector in vectors("invalid-text"):
            with self.subTest(vector["name"]):
                self.assertRaises(Refused, _values.Decoder(b"").value, vector["value"], "$")


class OwnTypes(unittest.TestCase):
    def sent(self, value, want):
        self.assertEqual(exact(encode(value)), exact(want))

    def refused(self, value, message):
        with self.assertRaises(Refused) as caught:
            encode(value)
        self.assertEqual(str(caught.exception), message)

    def test_containers(self):
        self.sent((1, [2], {"a": (3,)}), [1, [2], {"a": [3]}])
        self.sent({1: "a", "b": 2}, {"$": "map", "v": [[1, "a"], ["b", 2]]})
        self.sent({(1, 2): 3}, {"$": "map", "v": [[[1, 2], 3]]})
        self.sent({"$": 1}, {"$": "object", "v": [["$", 1]]})
        self.sent({"a\0": 1}, {"$": "object", "v": [["a\0", 1]]})
        self.sent(frozenset([1]), {"$": "set", "v": [1]})

    def test_numbers(self):
        self.sent([1, 1.0, True, -0.0, 2**53 - 1, 2**53, -2**53], [
            1, 1.0, True, {"$": "number", "v": "-0"}, 9007199254740991, {"$": "bigint", "v": "9007199254740992"},
            {"$": "bigint", "v": "-9007199254740992"}])
        self.sent([math.nan, math.inf, -math.inf], [{"$": "number", "v": name} for name in ("NaN", "Infinity", "-Infinity")])

    def test_bytes_and_arrays(self):
        def b64(data, **more):
            return {"$": "array" if more else "bytes", **more, "b64": base64.b64encode(data).decode()}
        self.sent([b"ab", bytearray(b"c"), memoryview(b"def")[::2], b""], [b64(b"ab"), b64(b"c"), b64(b"df"), b64(b"")])
        self.sent(array.array("h", [1, -1]), b64(b"\1\0\xff\xff", t="i16"))
        self.sent(array.array("l", [1]), b64(b"\1" + bytes(7), t="i64"))
        self.refused(array.array("u", "a"), "$: array of type 'u' cannot be sent: pass its list, tolist()")

    def test_dates(self):
        zone = datetime.timezone
        dates = [(datetime.datetime(2026, 11, 21, 10, 20, 30, 123456, zone.utc), "2026-11-21T10:20:30.123456Z"),
                 (datetime.datetime(2026, 1, 2, 3, 4, 5), "2026-01-02T03:04:05"),
                 (datetime.date(2026, 11, 21), "2026-11-21"),
                 (datetime.datetime(2026, 1, 2, tzinfo=zone(-datetime.timedelta(hours=3, minutes=30))), "2026-01-02T00:00:00-03:30")]
        for value, text in dates:
            self.sent(value, {"$": "date", "v": text})
            self.assertEqual(decode({"$": "date", "v": text}), value)
        self.sent(datetime.datetime(2026, 1, 2, tzinfo=zone(datetime.timedelta(seconds=30))), {"$": "date", "v": "2026-01-01T23:59:30Z"})
        self.refused(datetime.time(1), "$: time cannot be sent")

    def test_dates_finer_than_a_microsecond(self):
        for text, micros in [("2026-11-21T10:20:30.123456789Z", 123456), ("2026-11-21T10:20:30.0000009Z", 0), ("2026-11-21T10:20:30.999999999Z", 999999)]:
            self.assertEqual(decode({"$": "date", "v": text}), datetime.datetime(2026, 11, 21, 10, 20, 30, micros, datetime.timezone.utc))
        for wrong in ("2026-11-21T10:20:30.1234567891Z", "2026-11-21T10:20:30.ZZ", list("2026-11-21"), 20261121):
            self.assertRaises(Refused, decode, {"$": "date", "v": wrong})

    def test_classes(self):
        @dataclasses.dataclass
        class D:
            a: int
            k: typing.ClassVar[int] = 5
            b: list = dataclasses.field(default_factory=list)

        class E(enum.Enum):
            A = "a"

        class I(enum.IntEnum):
            B = 2
        self.sent(collections.namedtuple("P", "x y")(1, 2), {"x": 1, "y": 2})
        self.sent(D(1), {"a": 1, "b": []})
        self.sent([E.A, I.B], ["a", 2])

    def test_subclasses_go_as_their_base(self):
        class S(str):
            def __str__(self):
                return "no"

            def encode(self, *a):
                return b"no"

        class L(list):
            def __iter__(self):
                return iter(["no"])

        class D(dict):
            def items(self):
                return [("no", "no")]

        class B(bytes):
            def __bytes__(self):
                return b"no"
        self.sent([S("s"), L([1]), D(a=1), B(b"x")], ["s", [1], {"a": 1}, {"$": "bytes", "b64": "eA=="}])

    def test_ordered_dict_keeps_its_order(self):
        ordered = collections.OrderedDict(a=1, b=2)
        ordered.move_to_end("a")
        self.assertEqual(list(encode(ordered)), ["b", "a"])

    def test_refusals_name_the_path(self):
        self.refused({"rows": [0, 1, 2, {"handler": lambda: 1}]}, "$.rows[3].handler: function cannot be sent")
        self.refused([json], "$[0]: module cannot be sent")
        self.refused({"a b": decimal.Decimal(1)}, "$['a b']: Decimal cannot be sent")
        self.refused(1j, "$: complex cannot be sent")
        self.refused([int], "$[0]: type cannot be sent")

    def test_strings_that_are_not_unicode(self):
        tag = {"$": "utf16", "b64": "YQA92A=="}
        self.assertEqual(decode(tag), "a\ud83d")
        self.assertEqual(decode([tag, {"$": "hole"}]), ["a\ud83d", None])
        error = decode({"$": "error", "v": {"name": "ValueError", "message": tag, "stack": tag}})
        self.assertEqual((type(error), error.args, error.stack), (ValueError, ("a\ud83d",), "a\ud83d"))
        self.assertEqual(encode("a\ud83d"), tag)
        self.assertEqual(encode({"a\ud83d": 1}), {"$": "object", "v": [[tag, 1]]})

    def test_cycles(self):
        value = {}
        value["x"] = [value]
        self.refused(value, "$.x[0]: cycle cannot be sent: pass a copy without the way back")
        self.assertEqual(rich(value), {"x": [ref(0)]})
        shared = [1]
        self.sent([shared, shared], [[1], [1]])

    def test_depth(self):
        encode(nest(1, 200))
        self.assertRaisesRegex(Refused, "nested deeper than 200", encode, nest(1, 201))
        decode(nest(1, 200))
        self.assertRaisesRegex(Refused, "nested deeper than 200", decode, nest(1, 201))

    def test_a_stack_that_is_nearly_used_up(self):
        def deeper(left):
            return deeper(left - 1) if left else encode(nest(1, 190))
        with self.assertRaisesRegex(Refused, "Python's stack"):
            deeper(sys.getrecursionlimit() - 150)

    def test_identity(self):
        shared = {"a": 1}
        value = {"list": [shared, shared], 1: {"x": shared}}
        value["self"] = value
        back = decode(rich(value))
        self.assertIs(back["self"], back)
        self.assertIs(back["list"][0], back["list"][1])
        self.assertIs(back[1]["x"], back["list"][0])

    def test_errors_pickle(self):
        with self.assertRaises(Refused) as caught:
            encode([int])
        back = pickle.loads(pickle.dumps(caught.exception))
        self.assertEqual((type(back), str(back), back.name), (Refused, "$[0]: type cannot be sent", "value_refused"))


class Numpy(unittest.TestCase):
    """By the names of its classes: numpy itself need not be installed."""

    def fake(self, name, **fields):
        return type(name, (), {"__module__": "numpy", **fields})()

    def test_arrays_of_more_dimensions_are_lists(self):
        kind = type("T", (), {"kind": "i", "itemsize": 8})
        self.assertEqual(encode(self.fake("ndarray", ndim=2, dtype=kind, tolist=lambda self: [[1], [2]])), [[1], [2]])

    def test_scalars_are_numbers(self):
        kind = type("T", (), {"kind": "f", "itemsize": 8})
        self.assertEqual(encode(self.fake("generic", dtype=kind, item=lambda self: 2.5)), 2.5)

    def test_masked_arrays_are_refused(self):
        kind = type("T", (), {"kind": "f", "itemsize": 8})
        with self.assertRaisesRegex(Refused, "cannot be sent"):
            encode(self.fake("ndarray", ndim=1, dtype=kind, mask=[1]))


class Hostile(unittest.TestCase):
    def refused(self, tree, message):
        with self.assertRaises(Refused) as caught:
            decode(tree)
        self.assertRegex(str(caught.exception), message)

    def test_figures_without_end(self):
        self.refused({"$": "bigint", "v": "9" * 100_000}, r"bigint of 100000 figures")
        self.assertEqual(decode({"$": "bigint", "v": "9" * 4000}), int("9" * 4000))

    def test_keys_of_one_hash(self):
        prime = sys.hash_info.modulus
        colliding = [{"$": "bigint", "v": str(prime * n)} for n in range(1, 20_000)]
        self.refused({"$": "set", "v": colliding}, "19999 keys have but few hashes")
        self.refused({"$": "map", "v": [[key, 0] for key in colliding]}, "few hashes")
        self.assertEqual(decode({"$": "set", "v": list(range(20_000))}), set(range(20_000)))

    def test_attachments_are_used_once_and_lie_in_the_frame(self):
        decoder = _values.Decoder(b"abcd")
        decoder.value([{"$": "bytes", "at": 0, "n": 4}, {"$": "bytes", "at": 3, "n": 1}], "$")
        self.assertRaisesRegex(Refused, "overlap", decoder.finish)
        for at, size in ((3, 2), (5, 0), (-1, 1), (0, -1), (True, 1), ("0", 1), (0.0, 1)):
            self.assertRaises(Refused, _values.Decoder(b"abcd").value, {"$": "bytes", "at": at, "n": size}, "$")

    def test_fields_of_errors_change_no_classes(self):
        self.refused({"$": "error", "v": {"name": "E", "message": "", "fields": {"__class__": 1}}}, "cannot be a field")
        error = decode({"$": "error", "v": {"name": "ValueError", "message": "m", "fields": {"status": 4, "message": "no"}}})
        self.assertEqual((type(error), str(error), error.status), (ValueError, "m", 4))

    def test_only_exceptions_are_made(self):
        for name in ("exit", "eval", "SystemExit", "KeyboardInterrupt", "BaseException", "ExceptionGroup", "UnicodeDecodeError"):
            error = decode({"$": "error", "v": {"name": name, "message": "m"}})
            self.assertEqual((type(error), error.name), (Exception, name))

    def test_shared_keys_are_not_visited_without_end(self):
        doubled = [[1]]
        for number in range(1, 100):
            doubled.append([ref(number), ref(number)])
        self.refused([*doubled, {"$": "set", "v": [ref(100)]}], "twice in one item or key")

    def test_patterns(self):
        self.assertEqual(decode({"$": "regexp", "source": "a.b", "flags": "gi"}), re.compile("a.b", re.I))
        self.refused({"$": "regexp", "source": "(" * 3000, "flags": ""}, "regexp is none in Python")
        long = {"$": "regexp", "source": "a" * 2048, "flags": ""}
        self.assertEqual(len(decode([long, long])), 2)
        self.refused([long, long, {"$": "regexp", "source": "a", "flags": ""}], "4096 characters that all patterns")


if __name__ == "__main__":
    unittest.main()
