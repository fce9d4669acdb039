"""The shared vectors of tests/vectors, and the form of values in the shell."""
import json
import unittest

from bash_agent import Agent, AgentCase  # in front: it finds the next
from agent_process import exact, inward, outward, vectors

ECHO = "f() { printf '%s' \"$1\"; }"


class Vectors(unittest.TestCase):
    """In an array every value is JSON to the shell, and so comes back as it was."""

    @classmethod
    def setUpClass(cls):
        cls.agent = Agent()

    @classmethod
    def tearDownClass(cls):
        assert cls.agent.end()[0] == 0

    def echo(self, value):
        attachments = bytearray()
        argument = outward(value, attachments)
        return self.agent.request(bytes(attachments), code=ECHO, args=[argument])

    def test_valid(self):
        for vector in vectors("values"):
            value = vector["value"]
            with self.subTest(vector["name"]):
                sent = value if isinstance(value, (list, dict)) and "$" not in value else [value]
                answer, attached = self.echo(sent)
                self.assertIn("result", answer, answer)
                self.assertEqual(exact(inward(answer["result"]["value"], attached)), exact(sent))

    def test_invalid(self):
        for vector in vectors("invalid"):
            with self.subTest(vector["name"]):
                answer, _ = self.agent.request(code=ECHO, args=[vector["value"]])
                self.assertIn("error", answer)

    def test_printed_tags_that_are_none_are_refused(self):
        for vector in vectors("invalid-text"):
            value = vector["value"]
            if not isinstance(value, (list, dict)):
                continue
            with self.subTest(vector["name"]):
                answer, _ = self.agent.request(code="f() { cat <<'END'\n" + json.dumps(value) + "\nEND\n}")
                self.assertEqual(answer["error"]["data"]["type"], "ResultError", answer)

    def test_rich(self):
        """Shared containers are repeated; cyclic ones are refused."""
        for vector in vectors("rich"):
            with self.subTest(vector["name"]):
                answer, _ = self.echo([vector["value"]])
                self.assertTrue("result" in answer or answer["error"]["code"] == -32602, answer)
                self.assertNotIn('"$": "ref"', json.dumps(answer.get("result", {})))

    def test_invalid_rich(self):
        for vector in vectors("invalid-rich"):
            with self.subTest(vector["name"]):
                answer, _ = self.agent.request(code=ECHO, args=[vector["value"]])
                self.assertIn("error", answer)


class Words(AgentCase):
    def word(self, value, attachments=b""):
        """The function's view of the value."""
        answer, _ = self.answer_and_attachments("f() { printf '<%s>' \"$1\"; }", value, attachments=attachments)
        return answer["result"]["value"][1:-1] if "result" in answer else answer["error"]["message"]

    def test_text(self):
        for text in ("", "plain", "two words", "$(echo no) `x` ; * ' \" \\", "a\nb", "\n", "é 😀", "\x01\x7f\x02", "-n", "=", "~", "{1,2}"):
            with self.subTest(text):
                self.assertEqual(self.call("f() { printf '%s.' \"$1\"; }", text), text + ".")

    def test_numbers(self):
        for value, text in [(0, "0"), (-7, "-7"), (9007199254740991, "9007199254740991"), (0.1, "0.1"), (2.5, "2.5"), (3.0, "3.0"),
                            (1e300, "1e+300"), (100.0, "100.0"), (1e-7, "1e-07")]:
            self.assertEqual(self.word(value), text)

    def test_other_scalars(self):
        for value, text in [(True, "true"), (False, "false"), (None, ""), ({"$": "undefined"}, ""), ({"$": "number", "v": "NaN"}, "NaN"),
                            ({"$": "number", "v": "-0"}, "-0"), ({"$": "bigint", "v": "-123456789012345678901"}, "-123456789012345678901"),
                            ({"$": "date", "v": "2026-11-21"}, "2026-11-21"), ({"$": "date", "v": None}, "")]:
            self.assertEqual(self.word(value), text)

    def test_bytes(self):
        self.assertEqual(self.word({"$": "bytes", "at": 1, "n": 2}, b"abc"), "bc")
        answer, attached = self.answer_and_attachments(ECHO, {"$": "bytes", "at": 0, "n": 2}, attachments=b"\xff\xfe")
        self.assertEqual((answer["result"]["value"], attached), ({"$": "bytes", "at": 0, "n": 2}, b"\xff\xfe"))
        self.assertEqual(self.word({"$": "buffer", "at": 0, "n": 1}, b"x"), "x")
        self.assertEqual(self.word({"$": "bytes", "at": 0, "n": 3}, b"a\0b"), "argument 1: bytes with a NUL among them cannot be held by the shell")

    def test_containers_are_json_on_one_line(self):
        code = "f() { printf '<%s>' \"$1\"; }"
        for value, text in [([1, "a b", None], '<[1,"a b",null]>'), ({"k": {"é": [1.0]}}, '<{"k":{"é":[1.0]}}>'), ([], "<[]>"),
                            ({"$": "set", "v": [1]}, '<{"$":"set","v":[1]}>'), (["\n"], '<["\\n"]>')]:
            self.assertEqual(self.call(code, value), text)

    def test_bytes_in_containers_are_base64(self):
        answer, _ = self.answer_and_attachments("f() { printf '<%s>' \"$1\"; }", [{"$": "bytes", "at": 0, "n": 2}], attachments=b"\0\1")
        self.assertEqual(answer["result"]["value"], '<[{"$":"bytes","b64":"AAE="}]>')

    def test_strings_with_nul_are_refused_by_position_and_name(self):
        self.fails(ECHO, "ArgumentError", "argument 2: a string with NUL in it cannot be held by the shell", 1, "a\0")
        self.fails(ECHO, "ArgumentError", "argument 1: a string with NUL in it cannot be held by the shell", order=["k"], kwargs={"k": "\0"})

    def test_a_value_that_holds_itself(self):
        answer = self.answer(ECHO, [{"$": "ref", "n": 1}])
        self.assertEqual(answer["error"]["message"], "params.args: a value that holds itself cannot be held here")


class Results(AgentCase):
    def printed(self, text):
        return self.call("f() { printf '%b' \"$1\"; }", text)

    def test_text_loses_one_newline(self):
        for text, value in [("", ""), ("x", "x"), ("x\n", "x"), ("x\n\n", "x\n"), ("\n", ""), ("a\nb\n", "a\nb"), (" x ", " x ")]:
            self.assertEqual(self.printed(text), value)

    def test_scalars(self):
        for text, value in [("42", 42), (" -7\n", -7), ("2.50", 2.5), ("true", True), ("false\n", False), ("null", None), ('"two\\\\nlines"', "two\nlines"),
                            ("9007199254740993", {"$": "bigint", "v": "9007199254740993"}), ("1e3", 1000.0)]:
            got = self.printed(text)
            self.assertEqual((got, type(got)), (value, type(value)))

    def test_objects_and_arrays(self):
        for text, value in [('{"a": 1}', {"a": 1}), ("[1, 2.5, null]\n", [1, 2.5, None]), ("  \n[ ]\n\n", []), ("{}", {}), ("[\"\\\\u0000\"]", ["\0"]),
                            ('{\n  "a": [\n 1 ]\n}\n', {"a": [1]}),
                            ("[9007199254740993]", [{"$": "bigint", "v": "9007199254740993"}])]:
            self.assertEqual(self.printed(text), value)

    def test_what_only_looks_like_json_is_text(self):
        for text in ("[1, 2", "{a: 1}", "[1] [2]", '{"a": 1}}', "[test] done]", '{"a": 1, "a": 2}', "[1,]", "007", "1.", ".5", "+1", "1 2",
                     "0x10", "True", "NaN", "nothing", "12:30", "2026-11-21", "-", "1e999", "'a'", '"a" b'):
            self.assertEqual(self.printed(text), text)

    def test_tags(self):
        answer, attached = self.answer_and_attachments("""f() { echo '{"x": {"$": "bytes", "b64": "AAE="}, "y": {"$": "set", "v": [1]}}'; }""")
        self.assertEqual((answer["result"]["value"], attached),
                         ({"x": {"$": "bytes", "at": 0, "n": 2}, "y": {"$": "set", "v": [1]}}, b"\0\1"))
        self.fails("""f() { echo '{"rows": [1, {"$": "nope"}]}'; }""", "ResultError", '$.rows[1]: there is no tag "nope"; a key "$" of your own: {"$":"object","v":[["$",VALUE]]}')

    def test_bytes(self):
        answer, attached = self.answer_and_attachments("f() { printf '\\xff\\x00a\\n'; }")
        self.assertEqual((answer["result"]["value"], attached), ({"$": "bytes", "at": 0, "n": 4}, b"\xff\0a\n"))

    def test_nul_in_text(self):
        self.assertEqual(self.printed("a\\0000b"), "a\0b")

    def test_limit(self):
        for size, fits in [(98, True), (99, False)]:
            answer = self.answer("f() { printf '%%0%dd' 0; }" % size, resultBytes=100)
            self.assertEqual("result" in answer, fits, answer)
        self.fails("f() { printf '%0101d\\n' 0; }", "ResultError",
                   "the function has printed more than the limit of 100 bytes (resultBytes)", resultBytes=100)
        self.fails("f() { printf '\"%0.s' {1..60}; }", "ResultError", "the result is over the limit of 100 bytes (resultBytes)", resultBytes=100)

    def test_large(self):
        self.assertEqual(len(self.call("f() { head -c 5000000 /dev/zero | tr '\\0' x; }", resultBytes=6000000)), 5000000)
        self.assertEqual(len(self.call("f() { printf '%05000000d' 0; }", resultBytes=6000000)), 5000000)

    def test_depth(self):
        error = self.error("f() { printf '%s' \"$1\"; }", "[" * 202 + "]" * 202)
        self.assertEqual(error["type"], "ResultError")
        self.assertIn("nested deeper than 200", error["message"])


if __name__ == "__main__":
    unittest.main()
