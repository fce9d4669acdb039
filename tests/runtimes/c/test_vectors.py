"""The shared vectors of tests/vectors: values that a type of C or C++ can hold come back unchanged;
others are refused by name."""
import unittest

from native_agent import AgentCase  # in front: it finds the next
from agent_process import exact, inward, outward, vectors

KINDS = ["nothing", "truth", "integer", "real", "text", "bytes", "integers", "reals", "texts", "set_of_integers", "object", "pairs"]


class Vectors(AgentCase):
    language = "cpp"
    CODE = """
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>
std::variant<std::monostate> nothing(std::variant<std::monostate> x) { return x; }
bool truth(bool x) { return x; }
__int128 integer(__int128 x) { return x; }
double real(double x) { return x; }
std::string text(const std::string &x) { return x; }
std::vector<unsigned char> bytes(std::vector<unsigned char> x) { return x; }
std::vector<long> integers(std::vector<long> x) { return x; }
std::vector<double> reals(std::vector<double> x) { return x; }
std::vector<std::string> texts(std::vector<std::string> x) { return x; }
std::set<long> set_of_integers(std::set<long> x) { return x; }
std::map<std::string, std::string> object(std::map<std::string, std::string> x) { return x; }
std::map<long, std::string> pairs(std::map<long, std::string> x) { return x; }
"""

    def kind_of(self, value):
        """The function whose type can hold this value; None: no type of these can."""
        tag = value.get("$") if isinstance(value, dict) else None
        if value is None or isinstance(value, bool):
            return "nothing" if value is None else "truth"
        if tag == "bigint" and len(value["v"]) < 38 or isinstance(value, int):
            return "integer"
        if isinstance(value, float) or tag == "number":
            return "real"
        if isinstance(value, str):
            return "text"
        if isinstance(value, list) and value:
            for kind, name in ((int, "integers"), (float, "reals"), (str, "texts")):
                if all(type(item) is kind for item in value):
                    return name
        if isinstance(value, dict) and tag is None and value and all(type(v) is str for v in value.values()):
            return "object"
        return {"bytes": "bytes"}.get(tag)

    def same_number(self, value):
        return {"$": "bigint", "v": value["v"]} if isinstance(value, dict) and abs(int(value["v"])) >= 1 << 53 else \
            int(value["v"]) if isinstance(value, dict) else value

    def test_valid(self):
        held = 0
        for vector in vectors("values"):
            attachments = bytearray()
            value = vector["value"]
            argument = outward(value, attachments)
            kind = self.kind_of(value)
            with self.subTest(vector["name"], kind=kind):
                for name in [kind] if kind else KINDS:
                    answer, back = self.answer_and_attachments(name, argument, attachments=bytes(attachments))
                    if kind:
                        held += 1
                        expected = self.same_number(value) if kind == "integer" else value
                        self.assertIn("result", answer, answer)
                        if kind == "object":  # a map is sorted
                            expected = dict(sorted(value.items()))
                        self.assertEqual(exact(inward(answer["result"]["value"], back)), exact(expected))
                    elif "error" in answer:
                        self.assertTrue(answer["error"]["message"].startswith("argument 'x"), answer)
        self.assertGreater(held, 40)

    def test_what_no_type_holds(self):
        for value in ({"$": "bigint", "v": "9" * 50}, {"$": "date", "v": "2026-11-21"}, {"$": "regexp", "source": "a", "flags": ""},
                      {"$": "error", "v": {"name": "Error", "message": "m"}}, {"$": "undefined"}):
            for kind in KINDS:
                if value["$"] == "bigint" and kind == "real":
                    continue
                self.refuses("argument 'x", kind, value)

    def test_invalid(self):
        for vector in vectors("invalid"):
            with self.subTest(vector["name"]):
                self.assertIn("error", self.answer("text", vector["value"]))

    def test_references(self):
        """Shared values are repeated; cyclic ones are refused."""
        shared = [["a"], {"$": "ref", "n": 2}]
        answer = self.program.request(code="#include <string>\n#include <vector>\nstd::vector<std::vector<std::string>> f(std::vector<std::vector<std::string>> x) { x[0][0] = \"b\"; return x; }", args=[shared])
        self.assertEqual(answer[0]["result"]["value"], [["b"], ["a"]])
        self.assertIn("error", self.answer("texts", [{"$": "ref", "n": 1}]))


if __name__ == "__main__":
    unittest.main()
