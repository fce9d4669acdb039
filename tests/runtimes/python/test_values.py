"""The shared vectors of tests/vectors, and values of Python's own types."""
import json
import subprocess
import unittest

from harness import PYTHON, AgentCase  # in front: it finds the next
from agent_process import exact, inward, outward, vectors, wanted

ECHO = "def f(x): return x"


class Vectors(AgentCase):
    def test_valid(self):
        for vector in vectors("values"):
            with self.subTest(vector["name"]):
                attachments = bytearray()
                argument = outward(vector["value"], attachments)
                answer, attached = self.agent.request(bytes(attachments), code=ECHO, args=[argument])
                if "python" in vector.get("unsupported", []):
                    self.assertIn("error", answer)
                    continue
                self.assertIn("result", answer, answer)
                self.assertEqual(exact(inward(answer["result"]["value"], attached)), exact(wanted(vector, "python")))

    def test_invalid(self):
        for vector in vectors("invalid"):
            with self.subTest(vector["name"]):
                answer, _ = self.agent.request(code=ECHO, args=[vector["value"]])
                self.assertIn("error", answer)
        self.assertAlive()


class OwnTypes(AgentCase):
    def test_containers(self):
        self.sent("(1, [2], {'a': (3,)})", [1, [2], {"a": [3]}])
        self.sent("{1: 'a', 'b': 2}", {"$": "map", "v": [[1, "a"], ["b", 2]]})
        self.sent("{(1, 2): 3}", {"$": "map", "v": [[[1, 2], 3]]})
        self.sent("{'$': 1}", {"$": "object", "v": [["$", 1]]})
        self.sent("frozenset([1])", {"$": "set", "v": [1]})
        self.sent("{}", {})

    def test_numbers(self):
        self.sent("[1, 1.0, True, -0.0, 2**53 - 1, 2**53, -2**53]", [
            1, 1.0, True, {"$": "number", "v": "-0"}, 9007199254740991,
            {"$": "bigint", "v": "9007199254740992"}, {"$": "bigint", "v": "-9007199254740992"}])
        self.sent("[float('nan'), float('inf'), -float('inf')]",
                  [{"$": "number", "v": name} for name in ("NaN", "Infinity", "-Infinity")])

    def test_integers_of_any_size(self):
        figures = "9" * 10000
        self.assertEqual(self.call(ECHO, {"$": "bigint", "v": figures}), {"$": "bigint", "v": figures})

    def test_bytes_and_arrays(self):
        self.sent("[b'ab', bytearray(b'c'), memoryview(b'def')[::2], b'']", [
            {"$": "bytes", "at": 0, "n": 2}, {"$": "bytes", "at": 2, "n": 1}, {"$": "bytes", "at": 3, "n": 2},
            {"$": "bytes", "at": 5, "n": 0}], b"abcdf")
        self.sent("from array import array\narray('h', [1, -1])", {"$": "array", "t": "i16", "at": 0, "n": 4}, b"\1\0\xff\xff")
        self.sent("from array import array\narray('l', [1])", {"$": "array", "t": "i64", "at": 0, "n": 8}, b"\1" + bytes(7))

    def test_arrays_arrive_as_arrays(self):
        code = "def f(x): return [type(x).__name__, x.typecode, x.tolist()]"
        answer, _ = self.agent.request(b"\0\0\x80\x3f", code=code, args=[{"$": "array", "t": "f32", "at": 0, "n": 4}])
        self.assertEqual(answer["result"]["value"], ["array", "f", [1.0]])

    def test_dates(self):
        code = ("from datetime import *\n[datetime(2026, 11, 21, 10, 20, 30, 123456, timezone.utc),"
                " datetime(2026, 1, 2, 3, 4, 5), date(2026, 11, 21),"
                " datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=-3, minutes=-30))),"
                " datetime(2026, 1, 2, tzinfo=timezone(timedelta(seconds=30)))]")
        dates = ["2026-11-21T10:20:30.123456Z", "2026-01-02T03:04:05", "2026-11-21", "2026-01-02T00:00:00-03:30",
                 "2026-01-01T23:59:30Z"]
        self.sent(code, [{"$": "date", "v": text} for text in dates])

    def test_dates_arrive_as_dates(self):
        code = "def f(x): return repr(x)"
        cases = {"2026-11-21": "datetime.date(2026, 11, 21)",
                 "2026-11-21T10:20:30.5+01:30": "datetime.datetime(2026, 11, 21, 10, 20, 30, 500000, "
                                                "tzinfo=datetime.timezone(datetime.timedelta(seconds=5400)))",
                 "2026-11-21T10:20:30": "datetime.datetime(2026, 11, 21, 10, 20, 30)"}
        for text, want in cases.items():
            self.assertEqual(self.call(code, {"$": "date", "v": text}), want)

    def test_classes(self):
        self.sent("from collections import namedtuple\nnamedtuple('P', 'x y')(1, 2)", {"x": 1, "y": 2})
        self.sent("from dataclasses import *\nfrom typing import ClassVar\n@dataclass\nclass D:\n a: int\n k: ClassVar[int] = 5\n b: list = field(default_factory=list)\nD(1)",
                  {"a": 1, "b": []})
        self.sent("import enum\nclass E(enum.Enum):\n A = 'a'\nclass I(enum.IntEnum):\n B = 2\n[E.A, I.B]", ["a", 2])

    def test_subclasses_go_as_their_base(self):
        code = ("class S(str):\n def __str__(self): return 'no'\n def encode(self, *a): return b'no'\n"
                "class I(int):\n def __repr__(self): return 'no'\n __index__ = None\n"
                "class F(float):\n def __repr__(self): return 'no'\n"
                "class L(list):\n def __iter__(self): return iter(['no'])\n"
                "class D(dict):\n def items(self): return [('no', 'no')]\n"
                "class T(tuple):\n def __iter__(self): return iter(['no'])\n"
                "[S('s'), I(5), F(1.5), L([1]), D(a=1), T((2,))]")
        self.sent(code, ["s", 5, 1.5, [1], {"a": 1}, [2]])

    def test_ordered_dict_keeps_its_order(self):
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "call", "params": {
            "code": "from collections import OrderedDict\nd = OrderedDict(a=1, b=2)\nd.move_to_end('a')\nd"}}).encode())
        self.assertEqual(list(self.agent.receive()[0]["result"]["value"]), ["b", "a"])

    def test_refusals_name_the_path(self):
        self.refused("{'rows': [0, 1, 2, {'handler': lambda: 1}]}", "$.rows[3].handler: function cannot be sent")
        self.refused("import os\n[os]", "$[0]: module cannot be sent")
        self.refused("{'a b': object()}", "$['a b']: object cannot be sent: return its data, or give its class a method to_dict()")
        self.refused("import threading\n[threading.Lock()]", "$[0]: lock cannot be sent")
        self.refused("[open('/dev/null')]", "$[0]: TextIOWrapper cannot be sent")
        self.refused("import itertools\n{'n': itertools.count()}", "$.n: count of more than 1000000 items cannot be sent")
        self.refused("[range(10 ** 12)]", "$[0]: range of more than 1000000 items cannot be sent")
        self.refused("class A:\n    def __init__(self): self._x = 1\nA()", "$: A cannot be sent: it has no public attributes; return its data")
        self.refused("class A: pass\na = A()\na.me = [a]\na", "$.me[0]: cycle cannot be sent")
        message = self.error("\n\ndef g(): return {'f': print}")["message"]
        self.assertEqual(message, "$.f: builtin_function_or_method cannot be sent: return its data, or give its class a method to_dict(); "
                         "returned by g (main.py, line 3)")
        self.assertIn("; returned by main.py", self.error("[print]")["message"])

    def test_strings_that_are_not_unicode(self):
        self.sent("'a\\ud800'", {"$": "utf16", "at": 0, "n": 4}, b"a\0\0\xd8")
        self.sent("['\\ud83d', {1: '\\udc00'}]", [{"$": "utf16", "at": 0, "n": 2}, {"$": "map", "v": [[1, {"$": "utf16", "at": 2, "n": 2}]]}], b"\x3d\xd8\0\xdc")
        self.sent("{'\\ud800': 1}", {"$": "object", "v": [[{"$": "utf16", "at": 0, "n": 2}, 1]]}, b"\0\xd8")

    def test_cycles(self):
        self.refused("a = {}\na['x'] = [a]\na", "$.x[0]: cycle cannot be sent")
        self.sent("a = [1]\n[a, a]", [[1], [1]])

    def test_depth(self):
        code = "x = 1\nfor _ in range(%d): x = [x]\nx"
        self.assertIn("result", self.answer(code % 200))
        self.assertRegex(self.error(code % 201)["message"],
                         r"^\$(\[0\])+\[?…0?\]?(\[0\])+: nested deeper than 200: return it as text \(json.dumps\), or as a flat list")


@unittest.skipIf(subprocess.run([PYTHON, "-c", "import numpy"], stderr=subprocess.DEVNULL).returncode, "no numpy")
class Numpy(AgentCase):
    def test_numpy(self):
        head = "import numpy as np\n"
        self.sent(head + "np.arange(3, dtype='>i2')[::-1]", {"$": "array", "t": "i16", "at": 0, "n": 6}, b"\2\0\1\0\0\0")
        self.sent(head + "np.arange(4).reshape(2, 2)", [[0, 1], [2, 3]])
        self.sent(head + "[np.float64(2), np.int8(3), np.bool_(True), np.array([True])]", [2.0, 3, True, [True]])
        dates = ["2020-01-01", "2020-01-01", "2020-01-01T10:00:00", "2020-01-01T00:00:00.120000", "2020-01-01T00:00:00.123456789", None]
        self.sent(head + "[np.datetime64(t) for t in ('2020', '2020-01-01', '2020-01-01T10', '2020-01-01T00:00:00.12', "
                  "'2020-01-01T00:00:00.123456789', 'NaT')]", [{"$": "date", "v": text} for text in dates])
        self.sent(head + "np.array(['2020-01-01', 'NaT'], dtype='M8[ns]')", [{"$": "date", "v": text} for text in ("2020-01-01T00:00:00", None)])
        self.sent(head + "[np.timedelta64(90, 'm'), np.timedelta64('NaT'), np.array([1500], dtype='m8[ms]')]", [5400.0, None, [1.5]])
        self.sent(head + "[np.complex128(1 + 2j), np.array([1j]), np.longdouble(1.5), np.float16(0.5)]",
                  [{"real": 1.0, "imag": 2.0}, [{"real": 0.0, "imag": 1.0}], 1.5, 0.5])
        self.sent(head + "np.ma.array([1, 2], mask=[1, 0])", [None, 2])
        self.sent(head + "np.array([(1, 'a')], dtype=[('n', 'i4'), ('s', 'U1')])", [{"n": 1, "s": "a"}])
        self.sent(head + "[np.array(5), np.array(['a', 'b']), np.array([None, 'x'], dtype=object)]", [5, ["a", "b"], [None, "x"]])
        self.refused(head + "np.timedelta64(1, 'M')", "$: timedelta64 of months or years")
        self.refused(head + "np.datetime64('0000-12-31')", "$: datetime64 outside the years 1 to 9999")


@unittest.skipIf(subprocess.run([PYTHON, "-c", "import pandas"], stderr=subprocess.DEVNULL).returncode, "no pandas")
class Pandas(AgentCase):
    def test_pandas(self):
        head = "import pandas as pd, warnings\n"
        frame = "pd.DataFrame({'n': [1, 2], 's': ['a', None], 't': pd.to_datetime(['2020-01-01', None])})"
        rows = [{"n": 1, "s": "a", "t": {"$": "date", "v": "2020-01-01T00:00:00"}}, {"n": 2, "s": None, "t": {"$": "date", "v": None}}]
        self.sent(head + frame, rows)
        self.sent(head + frame + ".iloc[:0]", [])
        self.sent(head + "pd.DataFrame([[1, 2]], columns=['a', 'b']).to_dict('split')", {"index": [0], "columns": ["a", "b"], "data": [[1, 2]]})
        self.sent(head + "pd.DataFrame([[1]])", [{"$": "map", "v": [[0, 1]]}])
        self.refused(head + "pd.DataFrame([[1, 2]], columns=['a', 'a'])", "$: DataFrame in which two columns have one name cannot be sent: return its to_dict('split')")
        self.sent(head + "[pd.Series([1, 2]), pd.Series(['x']), pd.Series([1.5], index=['k']), pd.Series(['a', 'a', 'b']).value_counts()]",
                  [[1, 2], ["x"], {"k": 1.5}, {"a": 2, "b": 1}])
        self.sent(head + "pd.Series([1, 2], index=['k', 'k'])", [["k", 1], ["k", 2]])
        self.sent(head + "[pd.Index(['a', 'b']), pd.RangeIndex(2), pd.MultiIndex.from_tuples([(1, 'a')]), pd.Categorical(['x']), pd.array([1, None])]",
                  [["a", "b"], [0, 1], [[1, "a"]], ["x"], [1, None]])
        self.sent(head + "[pd.Timestamp('2020-01-01T00:00:00.123456789', tz='UTC'), pd.NaT, pd.NA, pd.Timedelta('90s'), pd.Period('2020-01')]",
                  [{"$": "date", "v": "2020-01-01T00:00:00.123456789Z"}, {"$": "date", "v": None}, None, 90.0, "2020-01"])


class Evident(AgentCase):
    """Values without a kind of their own (the table in spec/values.md)."""

    def test_numbers_and_texts(self):
        self.sent("from decimal import Decimal\nfrom fractions import Fraction\n[Decimal('12.30'), Decimal('NaN'), Fraction(1, 3), 1 + 2j]",
                  ["12.30", "NaN", "1/3", {"real": 1.0, "imag": 2.0}])
        self.sent("import uuid, pathlib, ipaddress, datetime as d\n[uuid.UUID(int=1), pathlib.Path('/a/b'), pathlib.PureWindowsPath('c:/x'), "
                  "ipaddress.ip_address('::1'), d.timedelta(days=1, milliseconds=1500), d.time(1), d.timezone.utc]",
                  ["00000000-0000-0000-0000-000000000001", "/a/b", "c:\\x", "::1", 86401.5, "01:00:00", "UTC"])

    def test_collections(self):
        self.sent("from collections import *\n[deque([1, 2]), ChainMap({'a': 1}), UserDict(b=2), UserList([3]), UserString('s'), "
                  "Counter('aab'), defaultdict(list, x=[1]), OrderedDict(z=1)]",
                  [[1, 2], {"a": 1}, {"b": 2}, [3], "s", {"a": 2, "b": 1}, {"x": [1]}, {"z": 1}])
        self.sent("d = {'a': 1, 2: 'b'}\n[range(3), d.keys(), d.values(), d.items()]", [[0, 1, 2], ["a", 2], [1, "b"], [["a", 1], [2, "b"]]])
        self.sent("import types\ntypes.MappingProxyType({'a': types.SimpleNamespace(b=1, _c=2)})", {"a": {"b": 1}})

    def test_iterators(self):
        self.sent("import csv\n[map(str, [1]), zip([1], 'a'), filter(None, [0, 1]), enumerate('x'), reversed([1, 2]), (n for n in [1]), iter('ab'), csv.reader(['a,b'])]",
                  [["1"], [[1, "a"]], [1], [[0, "x"]], [2, 1], [1], ["a", "b"], [["a", "b"]]])
        error = self.error("def f(): return {'rows': (1 // n for n in [1, 0])}")
        self.assertEqual((error["type"], error["message"]), ("ZeroDivisionError", "integer division or modulo by zero"))
        self.assertIn("line 1", error["stack"])

    def test_objects(self):
        head = "class A:\n    def __init__(self, x): self.x = x; self._hidden = 1\n    @property\n    def y(self): return 5\n"
        self.sent(head + "[A(1), A(A([2]))]", [{"x": 1}, {"x": {"x": [2]}}])
        self.sent("class S:\n    __slots__ = ('a', 'b')\n    def __init__(self): self.a = 1\nclass T(S):\n    pass\nt = T()\nt.c = 2\n[S(), t]", [{"a": 1}, {"a": 1, "c": 2}])
        self.sent("class P:\n    def __init__(self): self._x = 1\n    def to_dict(self): return {'x': self._x}\nP()", {"x": 1})
        self.sent("class P:\n    def __init__(self): self._x = 1\n    def __json__(self): return [self._x]\nP()", [1])
        self.sent("class E: pass\nE()", {})
        self.sent("import enum, dataclasses as d\nclass C(enum.Enum): RED = 'r'\n@d.dataclass\nclass D:\n    c: C\n    m: map\nD(C.RED, map(abs, [-1]))", {"c": "r", "m": [1]})
        self.sent("import sqlite3\nc = sqlite3.connect(':memory:')\nc.row_factory = sqlite3.Row\nc.execute('select 1 a, 2 b').fetchall()", [{"a": 1, "b": 2}])
        self.sent("class Bad(Exception):\n    def __init__(self, m, code):\n        super().__init__(m); self.code = code\n[KeyError('k'), Bad('m', 7)]",
                  [{"name": "KeyError", "message": "'k'"}, {"name": "Bad", "message": "m", "code": 7}])


class Incoming(AgentCase):
    def refusal(self, value, attachments=b"", **params):
        answer, _ = self.agent.request(attachments, code=ECHO, args=[value], **params)
        self.assertEqual(answer["error"]["code"], -32602, answer)
        return answer["error"]["message"]

    def test_refused_with_the_path(self):
        self.assertEqual(self.refusal({"a": [{"$": "nope"}]}), "$.args[0].a[0]: unknown kind 'nope'")

    def test_attachment_ranges(self):
        whole = {"$": "bytes", "at": 0, "n": 4}
        self.assertIn("overlap", self.refusal([whole, {"$": "bytes", "at": 3, "n": 1}], b"abcd"))
        self.assertIn("outside", self.refusal({"$": "bytes", "at": 3, "n": 2}, b"abcd"))
        self.assertIn("outside", self.refusal({"$": "bytes", "at": 5, "n": 0}, b"abcd"))
        for at, size in ((-1, 1), (0, -1), (True, 1), ("0", 1), (0.0, 1)):
            self.assertIn("range", self.refusal({"$": "bytes", "at": at, "n": size}, b"abcd"))
        answer, _ = self.agent.request(b"abcd", code="def f(x): return len(x)", args=[whole])
        self.assertEqual(answer["result"]["value"], 4)

    def test_malformed(self):
        for value in (2**53, {"$": 1}, {"$": "number", "v": "1"}, {"$": "bigint", "v": "1_0"}, {"$": "bigint", "v": "-"},
                      {"$": "bigint", "v": "01"}, {"$": "undefined", "v": 1}, {"$": "date", "v": "2026-13-01"},
                      {"$": "date", "v": "2026-01-01 00:00:00"}, {"$": "date", "v": "2026-01-01T00:00:00+0100"},
                      {"$": "set", "v": [1, True]}, {"$": "set", "v": [{}]}, {"$": "map", "v": [[1]]},
                      {"$": "object", "v": [["a", 1], ["a", 2]]}, {"$": "object", "v": [[1, 1]]},
                      {"$": "array", "t": "f16", "b64": ""}, {"$": "array", "t": "u16", "b64": "AA=="},
                      {"$": "bytes", "b64": "!"}, {"$": "bytes"}, "\ud800", {"\ud800": 1}):
            with self.subTest(value):
                self.refusal(value)
        self.assertAlive()

    def test_depth(self):
        value = 1
        for _ in range(199):
            value = [value]
        self.assertEqual(self.call(ECHO, value), value)
        self.assertIn("deeper", self.refusal([[value]]))


if __name__ == "__main__":
    unittest.main()
