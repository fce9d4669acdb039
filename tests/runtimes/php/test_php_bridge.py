"""The host's declarations, with the test as the host."""
import json
import subprocess
import unittest

from php_agent import PHP, RUNTIME, Agent

FUNCTION = {"kind": "function"}


class Bridge(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.end)

    def run_code(self, code, answers=(), **params):
        """(requests to the host, the response to the call)"""
        self.agent.ids += 1
        params = {"code": code, "filename": "main.php", "resultBytes": 1 << 20, **params}
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.agent.ids, "method": "call", "params": params}).encode())
        asked = []
        for answer in [*answers, None]:
            message, attached = self.agent.receive()
            if message.get("method") != "bridge":
                return asked, message
            asked.append({**message["params"], "attached": attached} if attached else message["params"])
            self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}).encode())
        raise AssertionError("the host was asked more often than expected")

    def value(self, *args, **params):
        asked, message = self.run_code(*args, **params)
        self.assertIn("result", message, message)
        return asked, message["result"]["value"]

    def test_functions(self):
        asked, value = self.value("function f() { return [add(1, b: ['x' => 2]), ($GLOBALS['add'])()]; }",
                                  [{"result": {"value": {"a": 3}}}, {"result": {"value": None}}], globals={"add": FUNCTION})
        self.assertEqual(asked, [{"target": ["global", "add"], "args": [1], "kwargs": {"b": {"x": 2}}}, {"target": ["global", "add"], "args": [], "kwargs": {}}])
        self.assertEqual(value, [{"a": 3}, None])

    def test_names_that_php_does_not_give_away(self):
        names = {name: FUNCTION for name in ("strlen", "list", "exit", "a-b", "f\u00e4")}
        asked, value = self.value("return [strlen('abc'), $strlen(1), $list(2), $exit(3), ${'a-b'}(4), f\u00e4(5)];",
                                  [{"result": {"value": n}} for n in range(1, 6)], globals=names)
        self.assertEqual([one["target"][1] for one in asked], ["strlen", "list", "exit", "a-b", "f\u00e4"])
        self.assertEqual(value, [3, 1, 2, 3, 4, 5])

    def test_values_and_objects(self):
        declared = {"LIMIT": {"kind": "value", "value": {"$": "bigint", "v": "9007199254740993"}},
                    "api": {"kind": "object", "members": {"version": {"kind": "value", "value": [1]}, "v2": {"kind": "object", "members": {"get": FUNCTION}}}}}
        asked, value = self.value("function f() { return [LIMIT, api->version, api->v2->get('x'), isset(api->nothing)]; }",
                                  [{"result": {"value": 7}}], globals=declared)
        self.assertEqual(asked, [{"target": ["global", "api", "v2", "get"], "args": ["x"], "kwargs": {}}])
        self.assertEqual(value, [{"$": "bigint", "v": "9007199254740993"}, [1], 7, False])

    def test_imports(self):
        imports = {"tools/text": {"members": {"shout": FUNCTION, "MARK": {"kind": "value", "value": "!"}}},
                   "helpers": {"source": "namespace Helpers; use function tools\\text\\shout;\nfunction twice($x) { return shout($x) . shout($x); }"}}
        asked, value = self.value("use tools\\text; return [text\\shout('a'), text\\MARK, Helpers\\twice('b')];",
                                  [{"result": {"value": v}} for v in "ABB"], imports=imports)
        self.assertEqual(asked[0], {"target": ["import", "tools/text", "shout"], "args": ["a"], "kwargs": {}})
        self.assertEqual(value, ["A", "!", "BB"])

    def test_source_that_fails(self):
        _, message = self.run_code("return 1;", imports={"helpers": {"source": "\nintdiv(1, 0);"}})
        self.assertEqual(message["error"]["data"]["stack"], "DivisionByZeroError: Division by zero in helpers:2\nStack trace:\n#0 helpers(2): intdiv()\n#1 {main}")

    def test_what_has_no_meaning(self):
        for params, said in [({"imports": {"node:fs": {"members": {"a": FUNCTION}}}}, "the import 'node:fs' has no name that a namespace of PHP can have"),
                             ({"imports": {"a": {"members": {"b-c": FUNCTION}}}}, "the member 'b-c' of the import 'a' has no name that PHP can have"),
                             ({"globals": {"a": {"kind": "expression", "text": "1"}}}, "the declaration of a has no meaning in PHP")]:
            _, message = self.run_code("return 1;", **params)
            self.assertEqual((message["error"]["data"]["type"], message["error"]["message"]), ("TypeError", said))

    def test_errors_of_the_host(self):
        thrown = {"error": {"code": -32000, "message": "no", "data": {"name": "HttpError", "message": "no", "fields": {"status": 404, "at": {"$": "date", "v": "2026-11-21"}}}}}
        code = "function f() {\n try { return get(); } catch (Cloche\\HostError $e) { return [$e->name, $e->getMessage(), $e->fields, $e->getLine(), $e]; } }"
        _, value = self.value(code, [thrown], globals={"get": FUNCTION})
        fields = {"status": 404, "at": {"$": "date", "v": "2026-11-21"}}
        self.assertEqual(value, ["HttpError", "no", fields, 2, {"$": "error", "v": {"name": "HttpError", "message": "no", "fields": fields}}])

    def test_arguments_that_cannot_be_sent(self):
        asked, message = self.run_code("\n$get(['a' => STDIN]);", globals={"get": FUNCTION})
        self.assertEqual(asked, [])
        self.assertEqual(message["error"]["data"]["stack"].split("\n")[0], "TypeError: get: $[0].a: resource (stream) cannot be sent: return its data in main.php:2")

    def test_bytes_and_late_answers(self):
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": 9, "method": "call", "params": {
            "code": "return $get(\"\\xff\");", "resultBytes": 1000, "globals": {"get": FUNCTION}}}).encode())
        message, attached = self.agent.receive()
        self.assertEqual((message["params"]["args"], attached), ([{"$": "bytes", "at": 0, "n": 1}], b"\xff"))
        self.agent.send_raw(b'{"jsonrpc":"2.0","id":77,"result":{"value":0}}')
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": {"$": "bytes", "at": 0, "n": 2}}}).encode(), b"\xfe\xfd")
        self.assertEqual(self.agent.receive()[1], b"\xfe\xfd")

    def test_host_goes_away(self):
        agent = Agent()
        agent.send_raw(b'{"jsonrpc":"2.0","id":9,"method":"call","params":{"code":"$get();","globals":{"get":{"kind":"function"}}}}')
        self.assertEqual(agent.receive()[0]["method"], "bridge")
        self.assertEqual(agent.end()[0], 1)

    def test_set_up_cannot_ask(self):
        message, _ = self.agent.ask("prepare", code="$get();", filename="set-up.php", globals={"get": FUNCTION})
        self.assertEqual(message["error"]["message"], "the host cannot be called while the set-up runs")


class Source(unittest.TestCase):
    def test_functions_of_php_are_imported(self):
        files = sorted(map(str, RUNTIME.glob("*.php")))
        found = subprocess.run([PHP, str(RUNTIME.parents[1] / "tests" / "runtimes" / "php" / "unimported.php"), *files],
                               capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20, check=True)
        self.assertEqual(found.stdout, "")


class WithoutFfi(unittest.TestCase):
    """php -n has no FFI: the channel is a stream then."""

    def test_frames(self):
        agent = Agent("-n")
        try:
            blob = bytes(range(256)) * 10000
            answer, attached = agent.request(blob, code="function f($x) { return strrev($x); }", function="f", args=[{"$": "bytes", "at": 0, "n": len(blob)}])
            self.assertEqual((answer["result"]["signatureSource"], attached), ("inferred", blob[::-1]))
            self.assertEqual(agent.request(code="function g() { exit; }", function="g")[0]["error"]["data"]["type"], "ExitException")
            self.assertIsNone(agent.receive())
        finally:
            agent.end()


if __name__ == "__main__":
    unittest.main()
