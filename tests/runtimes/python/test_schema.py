import unittest

from harness import AgentCase

CODE = "def f(a, b=10, **k): return [a, b, k]"


class OldForm(AgentCase):
    def with_params(self, *params, **more):
        return {"params": list(params), **more}

    def test_source_and_defaults(self):
        schema = self.with_params({"name": "a", "type": "number", "required": True}, {"name": "b", "type": "string", "default": "d"})
        answer = self.answer(CODE, 1, schema=schema)
        self.assertEqual(answer["result"], {"signatureSource": "schema", "value": [1, "d", {}]})

    def test_the_languages_own_default(self):
        self.assertEqual(self.call(CODE, 1, schema=self.with_params({"name": "a"}, {"name": "b"})), [1, 10, {}])

    def test_errors_name_the_parameter(self):
        schema = self.with_params({"name": "a", "type": "integer", "required": True})
        cases = [
            ([], {}, "missing required argument 'a'"),
            (["x"], {}, "argument 'a': expected integer, got string"),
            ([True], {}, "argument 'a': expected integer, got boolean"),
            ([1.5], {}, "argument 'a': expected integer, got number"),
            ([1], {"z": 1}, "unknown argument 'z'; the schema has: a"),
            ([1], {"a": 1}, "argument 'a' is given twice"),
            ([1, 2], {}, "argument 2 is too many: the schema has 1 (a)"),
        ]
        for args, kwargs, message in cases:
            error = self.error("raise SystemExit('ran')\n" + CODE, args=args, kwargs=kwargs, schema=schema)
            self.assertEqual((error["type"], error["message"]), ("TypeError", message))

    def test_variadic_and_keywords(self):
        schema = self.with_params({"name": "a"}, variadic=True, acceptsKwargs=True)
        self.assertEqual(self.call(CODE, 1, 2, kwargs={"z": 3}, schema=schema), [1, 2, {"z": 3}])

    def test_names_other_than_the_functions(self):
        schema = self.with_params({"name": "x"}, {"name": "y", "default": 5})
        self.assertEqual(self.call("def f(a, b): return [a, b]", kwargs={"x": 1}, schema=schema), [1, 5])

    def test_every_type(self):
        good = {"string": "s", "number": 1.5, "integer": 2, "boolean": True, "array": [1], "object": {}, "null": None,
                "any": 1}
        for name, value in good.items():
            schema = self.with_params({"name": "a", "type": name})
            self.assertEqual(self.call("def f(a): return a", value, schema=schema), value)
            if name != "any":
                wrong = 1 if name in ("null", "string") else None
                self.assertIn("expected " + name, self.error("def f(a): return a", wrong, schema=schema)["message"])
        answer, _ = self.agent.request(b"xy", code="def f(a): return len(a)", args=[{"$": "bytes", "at": 0, "n": 2}],
                                       schema=self.with_params({"name": "a", "type": "bytes"}))
        self.assertEqual(answer["result"]["value"], 2)

    def test_type_lists(self):
        schema = self.with_params({"name": "a", "type": ["string", "null"]})
        self.assertIsNone(self.call("def f(a): return a", None, schema=schema))
        self.assertIn("expected string or null, got integer", self.error("def f(a): return a", 1, schema=schema)["message"])


class NewForm(AgentCase):
    def check(self, schema, value):
        return self.answer("def f(a): return a", value, schema={"input": {"a": schema}})

    def test_accepts_and_refuses(self):
        cases = [
            ({"enum": [1, "x"]}, 1, 2, "one of"),
            ({"enum": [1]}, 1, True, "one of"),
            ({"minimum": 2}, 2, 1, "at least 2"),
            ({"maximum": 2}, 2, 3, "at most 2"),
            ({"minLength": 2}, "ab", "a", "at least 2 characters"),
            ({"maxLength": 2}, "ab", "abc", "at most 2 characters"),
            ({"pattern": "^a+$"}, "aa", "b", "does not match"),
            ({"items": {"type": "string"}}, ["a"], ["a", 1], "'a'[1]: expected string, got integer"),
            ({"properties": {"p": {"type": "null"}}}, {"p": None}, {"p": 1}, "'a'.p: expected null, got integer"),
            ({"required": ["p"]}, {"p": 1}, {}, "'p' is missing"),
            ({"properties": {"p": {}}, "additionalProperties": False}, {"p": 1}, {"q": 1}, "unknown property 'q'"),
        ]
        for schema, good, bad, message in cases:
            self.assertEqual(self.check(schema, good)["result"]["value"], good)
            self.assertIn(message, self.check(schema, bad)["error"]["message"])

    def test_what_it_does_not_know_is_refused_by_name(self):
        for schema, name in (({"oneOf": []}, "'oneOf'"), ({"type": "int"}, "'int'"), ({"minimum": "x"}, "'minimum'"),
                             ({"items": {"not": {}}}, "'not'")):
            answer = self.check(schema, 1)
            self.assertIn(name, answer["error"]["message"])
            self.assertEqual(answer["error"]["data"]["type"], "ValueError")
        self.assertIn("result", self.check({"title": "t", "examples": [1], "description": "d", "format": "f"}, 1))

    def test_array_form_order_and_strictness(self):
        schema = {"input": [{"name": "a", "type": "number", "required": True}, {"name": "b", "type": "number"}]}
        self.assertEqual(self.call(CODE, 1, 2, kwargs={"z": 3}, schema=schema), [1, 2, {"z": 3}])
        self.assertIn("'z'", self.error(CODE, 1, 2, kwargs={"z": 3}, schema={**schema, "strict": True})["message"])
        self.assertIn("'a'", self.error(CODE, schema=schema)["message"])

    def test_index_gives_the_order(self):
        schema = {"input": {"b": {"index": 1, "type": "string"}, "a": {"index": 0, "type": "number"}}}
        self.assertEqual(self.call(CODE, 1, "x", schema=schema), [1, "x", {}])
        self.assertIn("'a'", self.error(CODE, "x", 1, schema=schema)["message"])

    def test_output(self):
        schema = {"output": {"type": "string"}}
        self.assertEqual(self.call("def f(): return 's'", schema=schema), "s")
        error = self.error("def f(): return 1", schema=schema)
        self.assertEqual((error["type"], error["message"]), ("TypeError", "result: expected string, got integer"))


if __name__ == "__main__":
    unittest.main()
