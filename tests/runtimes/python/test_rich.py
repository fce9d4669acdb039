"""values.py and wire.py with references, patterns, errors and classes, loaded as agent.py loads its parts, without an agent around it."""
import ast
import builtins
import json
import re
import sys
import unittest

from harness import RUNTIME  # in front: it finds the next
from agent_process import exact, inward, outward, vectors, wanted

SPACES = {}


def part(name):
    if name not in SPACES:
        SPACES[name] = {"__name__": "cloche_" + name, "__builtins__": dict(vars(builtins)), "part": part}
        source = (RUNTIME / (name + ".py")).read_text()
        exec(compile(source, name + ".py", "exec", dont_inherit=True), SPACES[name])
    return SPACES[name]


values = part("values")
Refused = values["Refused"]


def roomy(convert, *args):
    """The tests' own helpers nest deeper than the agent's code, which must do with Python's limit."""
    sys.setrecursionlimit(5000)
    try:
        return convert(*args)
    finally:
        sys.setrecursionlimit(1000)


def decode(tree):
    attachments = bytearray()
    framed = roomy(outward, tree, attachments)
    decoder = values["Decoder"](bytes(attachments))
    # As the agent reads it: the order of keys is the text's.
    value = decoder.decode(values["parse_json"](json.dumps(framed).encode()))
    decoder.finish()
    return value


def encode(value, **how):
    text, parts, _ = values["encode"](value, **how)
    return roomy(inward, json.loads(text), b"".join(parts))


def rich(value):
    return encode(value, references=True)


def ref(number):
    return {"$": "ref", "n": number}


def nest(value, depth):
    for _ in range(depth):
        value = [value]
    return value


class Shared(unittest.TestCase):
    """wire.py is the client's file too, and a cold call executes it: its imports would be paid for by each."""

    def test_it_is_the_clients(self):
        self.assertTrue((RUNTIME / "wire.py").samefile(RUNTIME.parents[1] / "clients/python/cloche/_wire.py"))

    def test_it_imports_nothing_that_is_not_there_already(self):
        tree = ast.parse((RUNTIME / "wire.py").read_text(), feature_version=(3, 9))
        top = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        self.assertEqual([ast.unparse(node) for node in top], ["import builtins", "import sys"])


class Vectors(unittest.TestCase):
    def test_rich(self):
        for vector in vectors("rich"):
            with self.subTest(vector["name"]):
                if "python" in vector.get("unsupported", []):
                    self.assertRaises(Refused, lambda: rich(decode(vector["value"])))
                    continue
                value = decode(vector["value"])
                if "python" not in vector.get("decodesOnly", []):
                    self.assertEqual(json.dumps(rich(value)), json.dumps(wanted(vector, "python")))

    def test_invalid(self):
        for vector in vectors("invalid", "invalid-rich"):
            with self.subTest(vector["name"]):
                self.assertRaises(Refused, decode, vector["value"])

    def test_without_references_nothing_changes(self):
        for vector in vectors("values"):
            if "python" not in vector.get("unsupported", []):
                self.assertEqual(exact(encode(decode(vector["value"]))), exact(wanted(vector, "python")))


class References(unittest.TestCase):
    def refused(self, tree, message):
        with self.assertRaises(Refused) as caught:
            decode(tree)
        self.assertEqual(str(caught.exception), message)

    def test_identity(self):
        shared = {"a": 1}
        value = {"list": [shared, shared], 1: {"x": shared}}
        value["self"] = value
        back = decode(rich(value))
        self.assertIs(back["self"], back)
        self.assertIs(back["list"][0], back["list"][1])
        self.assertIs(back[1]["x"], back["list"][0])

    def test_off_unless_asked_for(self):
        shared = [1]
        self.assertEqual(encode([shared, shared]), [[1], [1]])
        shared.append(shared)
        self.assertRaisesRegex(Refused, r"^\$\[1\]: cycle cannot be sent: return a copy without the way back$", encode, shared)

    def test_objects_that_go_as_other_kinds(self):
        from dataclasses import make_dataclass
        one = make_dataclass("D", ["a"])([])
        self.assertEqual(rich([one, one, one.a]), [{"a": []}, ref(1), ref(2)])

    def test_what_is_gone_gives_its_id_to_nothing(self):
        kind = type("T", (), {"kind": "i", "itemsize": 8})
        matrix = {"__module__": "numpy", "ndim": 2, "dtype": kind, "tolist": lambda self: [[1], [2]]}
        self.assertEqual(rich([type("ndarray", (), matrix)() for _ in range(50)]), [[[1], [2]]] * 50)

    def test_order_of_keys(self):
        self.assertEqual(rich({"a": 1, "1": 2}), {"$": "object", "v": [["a", 1], ["1", 2]]})
        self.assertEqual(list(rich({"1": 2, "10": 3, "a": 1, "01": 0})), ["1", "10", "a", "01"])
        self.assertEqual(encode({"a": 1, "1": 2}), {"a": 1, "1": 2})
        order = "an object in a value with references must have its keys in JavaScript's order"
        self.refused({"x": [{"a": 1, "1": 2}, ref(0)]}, "$.x[0]: " + order)
        self.refused([ref(0), {"$": "error", "v": {"name": "E", "message": "", "fields": {"a": 1, "1": 2}}}], "$[1]: " + order)
        self.assertEqual(decode({"a": 1, "1": 2}), {"a": 1, "1": 2})

    def test_keys_and_items_must_be_finished_trees(self):
        self.refused([1, {"$": "set", "v": [ref(0)]}, 2],
                     "$[1][0]: an array that is in itself, or twice in one item or key, cannot be hashed in Python")
        self.refused([{}, {"$": "set", "v": [ref(1)]}], "$[1][0]: dict cannot be a set item or map key in Python")
        doubled = [[1]]
        for number in range(1, 100):
            doubled.append([ref(number), ref(number)])
        self.refused([*doubled, {"$": "set", "v": [ref(100)]}],
                     "$[100][0]: an array that is in itself, or twice in one item or key, cannot be hashed in Python")
        deep = [[nest(1, 150), nest(ref(2), 150), {"$": "set", "v": [ref(152)]}]]
        self.refused(deep, "$[0][2][0]: nested deeper than 200")

    def test_paths(self):
        self.refused([0, {"a": ref(7)}], "$[1].a: reference to what is not opened before it")

    def test_ranges_count_once(self):
        back = decode([{"$": "bytes", "b64": "AAE="}, [], ref(1)])
        self.assertEqual(back[0], b"\0\1")
        self.assertIs(back[1], back[2])

    def test_depth(self):
        for head, tail in (("[", "]"), ('{"a":', "}"), ('{"$":"object","v":[["$",', "]]}"), ('{"$":"map","v":[[1,', "]]}"),
                           ('{"$":"object","v":[["\\u0000",', "]]}"), ('{"$":"class","t":"A","v":', "}"),
                           ('{"$":"error","v":{"name":"","message":"","fields":{"a":', "}}}")):
            with self.subTest(head):
                for inner in ('{"$":"ref","n":0}', '{"$":"undefined"}'):
                    if "class" in head and "ref" in inner:
                        continue
                    value = values["Decoder"](b"").decode(values["parse_json"]((head * 200 + inner + tail * 200).encode()))
                    if "error" not in head:
                        rich(value)
                tree = json.loads(head * 201 + "1" + tail * 201)
                self.assertRaisesRegex(Refused, "nested deeper than 200", values["Decoder"](b"").decode, tree)


class Kinds(unittest.TestCase):
    def refused(self, value, message):
        with self.assertRaises(Refused) as caught:
            encode(value)
        self.assertEqual(str(caught.exception), message)

    def test_patterns(self):
        self.assertEqual(encode([re.compile("a", re.S | re.I), re.compile("b", re.M)]),
                         [{"$": "regexp", "source": "a", "flags": "is"}, {"$": "regexp", "source": "b", "flags": "m"}])
        back = decode({"$": "regexp", "source": "^a.", "flags": "gims"})
        self.assertEqual((back.pattern, back.flags), ("^a.", re.I | re.M | re.S | re.U))
        message = "$[0]: Pattern of bytes or with flags other than I, M and S cannot be sent: return its pattern"
        for pattern in (re.compile(b"a"), re.compile("a", re.X), re.compile("a", re.A), re.compile("(?x)a")):
            self.refused([pattern], message)
        with self.assertRaisesRegex(Refused, r"^\$\.x: regexp is none in Python: "):
            decode({"x": {"$": "regexp", "source": "(", "flags": ""}})

    def error(self, name, **more):
        return decode({"$": "error", "v": {"name": name, "message": "no", **more}})

    def test_errors(self):
        for name in ("ValueError", "TypeError", "OSError", "KeyError", "SyntaxError", "Exception", "StopIteration"):
            error = self.error(name)
            self.assertEqual((type(error).__name__, error.args, vars(error)), (name, ("no",), {}))
        for name in ("HttpError", "UnicodeDecodeError", "ExceptionGroup", "KeyboardInterrupt", "BaseException", "int", "open", ""):
            error = self.error(name)
            self.assertEqual((type(error), str(error), vars(error)), (Exception, "no", {"name": name}))

    def test_fields(self):
        error = self.error("OSError", stack="s", fields={"code": [1], "errno": 5, "message": "x", "args": []})
        self.assertEqual((error.code, error.errno, error.stack, error.args), ([1], None, "s", ("no",)))
        self.assertEqual(vars(error), {"stack": "s", "code": [1], "errno": 5, "args": []})
        for name in ("__class__", "__dict__", "__cause__", "__proto__"):
            with self.assertRaisesRegex(Refused, r"^\$\.%s: this name cannot be a field" % name):
                self.error("Exception", fields={name: 1})
        error = self.error("Exception", fields={"self": ref(0), "list": [ref(0)], "same": ref(1)})
        self.assertIs(error.self, error)
        self.assertIs(error.list, error.same)
        self.assertEqual(encode(ValueError("no")), {"name": "ValueError", "message": "no"})

    def test_classes_and_buffers(self):
        self.assertEqual(decode({"$": "class", "t": "Headers", "v": [["a", "b"]]}), [["a", "b"]])
        self.assertEqual(decode({"$": "buffer", "b64": "AAE="}), b"\0\1")
        back = decode([{"$": "class", "t": "A", "v": [1]}, ref(1), ref(2)])
        self.assertTrue(back[0] is back[1] is back[2])

    def test_keys_with_nul(self):
        value = {"a\0": {"b": [{"\0": 1}, {"$": {"\0": "\0"}}]}, "c": "x\0"}
        self.assertEqual(decode(encode(value)), value)
        self.assertEqual(encode({"a\0": 1, "b": 2}), {"$": "object", "v": [["a\0", 1], ["b", 2]]})
        self.assertEqual(encode({"a": "\0", "b": "\\u0000", 1: "\0"}), {"$": "map", "v": [["a", "\0"], ["b", "\\u0000"], [1, "\0"]]})
        deep = {"\0": 1}
        for _ in range(199):
            deep = {1: deep}
        self.assertEqual(decode(encode(deep)), deep)


if __name__ == "__main__":
    unittest.main()
