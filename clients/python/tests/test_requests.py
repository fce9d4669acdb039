"""Requests as sent, and arguments refused before sending: the message names the fault and the expected value."""
import pathlib
import tempfile
import unittest

import cloche
from cloche import _daemon, _requests, _schema
from cloche._schema import Misfit, compile_schema


class Sent(unittest.TestCase):
    def params(self, *args, **kwargs):
        return _requests.call("python", "code", *args, **kwargs).params

    def test_only_what_is_said(self):
        self.assertEqual(self.params(), {"language": "python", "code": "code"})

    def test_arguments(self):
        request = _requests.call("python", "c", "f", [1, b"ab", float("nan")], {"k": {1: 2}})
        self.assertEqual(request.params["args"], [1, {"$": "bytes", "at": 0, "n": 2}, {"$": "number", "v": "NaN"}])
        self.assertEqual(request.params["kwargs"], {"k": {"$": "map", "v": [[1, 2]]}})
        self.assertEqual(request.parts, [b"ab"])

    def test_attachments_of_all_values_stand_behind_one_another(self):
        request = _requests.script("bash", "cat", stdin=b"abc", files={"a": b"de", "b": b"f"})
        self.assertEqual((request.params["stdin"], request.params["files"]),
                         ({"$": "bytes", "at": 0, "n": 3}, {"a": {"$": "bytes", "at": 3, "n": 2}, "b": {"$": "bytes", "at": 5, "n": 1}}))
        self.assertEqual(b"".join(request.parts), b"abcdef")

    def test_limits_of_either_spelling(self):
        want = {"wallMs": 5, "pids": 0}
        self.assertEqual(self.params(limits={"wall_ms": 5, "pids": 0})["limits"], want)
        self.assertEqual(self.params(limits={"wallMs": 5, "pids": 0})["limits"], want)
        self.assertEqual(self.params(limits=cloche.Limits(wall_ms=5, pids=0))["limits"], want)

    def test_globals(self):
        def f():
            pass
        request = _requests.call("javascript", "c", globals={
            "f": f, "n": 1, "data": {"a": [1]}, "db": {"users": {"create": f}, "version": 3}, "e": cloche.Expression("1 + 1"),
            "s": cloche.Shim(f, "r => r.text"), "hidden": cloche.Function(f, enumerable=False), "v": cloche.Value({"a": 1})},
            imports={"m": "export default 1", "host": {"g": f, "k": 2}})
        self.assertEqual(request.params["globals"], {
            "f": {"kind": "function"}, "n": {"kind": "value", "value": 1}, "data": {"kind": "value", "value": {"a": [1]}},
            "db": {"kind": "object", "members": {"users": {"kind": "object", "members": {"create": {"kind": "function"}}},
                                                 "version": {"kind": "value", "value": 3}}},
            "e": {"kind": "expression", "text": "1 + 1"}, "s": {"kind": "shim", "text": "r => r.text"},
            "hidden": {"kind": "function", "enumerable": False}, "v": {"kind": "value", "value": {"a": 1}}})
        self.assertEqual(request.params["imports"], {
            "m": {"source": "export default 1"}, "host": {"members": {"g": {"kind": "function"}, "k": {"kind": "value", "value": 2}}}})
        self.assertEqual(set(request.handlers.functions), {("global", "f"), ("global", "db", "users", "create"), ("global", "s"),
                                                           ("global", "hidden"), ("import", "host", "g")})

    def test_files(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "x")
            path.write_bytes(b"\0x")
            request = _requests.call("python", "c", files={
                "t": "text", "h": path, "m": cloche.File("#!", 0o755), "d": cloche.Directory(0o700), "l": cloche.Symlink("t")})
        self.assertEqual(request.params["files"], {
            "t": "text", "h": {"$": "bytes", "at": 0, "n": 2}, "m": {"content": "#!", "mode": 0o755},
            "d": {"directory": True, "mode": 0o700}, "l": {"symlink": "t"}})

    def test_mount_in_the_words_of_the_contract(self):
        mount = cloche.Mount({"/workspace/data": pathlib.Path("/srv/data")}, follow_symlinks="restricted", permissions=cloche.Permissions(
            {"create": True}, [cloche.Rule("**/*.csv", allow=["modify"], priority=5)], exclude=[".git"]),
            loading=cloche.Loading("explicit", ["a"], 10), sync=cloche.Sync("manual", "abort"), on_permission_denied="ignore")
        params = self.params(mount=mount, before_sync=lambda change: None, on_permission_denied=lambda denial: None)
        self.assertEqual(params["mount"], {
            "dirs": {"/workspace/data": "/srv/data"}, "security": {"followSymlinks": "restricted"}, "onPermissionDenied": "ignore",
            "permissions": {"default": {"create": True}, "exclude": [".git"],
                            "rules": [{"pattern": "**/*.csv", "allow": ["modify"], "deny": [], "priority": 5}]},
            "loading": {"mode": "explicit", "include": ["a"], "maxFileSize": 10}, "sync": {"mode": "manual", "onError": "abort"},
            "events": ["beforeSync", "permissionDenied"]})
        self.assertEqual(self.params(mount={"dirs": {"/a": "/b"}})["mount"], {"dirs": {"/a": "/b"}})

    def test_one_name_stands_for_a_list_of_it(self):
        rules = [cloche.Rule("*", allow="create", deny="*"), cloche.Rule("*", allow=("read", "list"))]
        permissions = cloche.Permissions(rules=rules, exclude=".git").tree()
        self.assertEqual([(rule["allow"], rule["deny"]) for rule in permissions["rules"]], [(["create"], ["*"]), (["read", "list"], [])])
        self.assertEqual((permissions["exclude"], cloche.Loading(include="*.csv").tree()["include"]), ([".git"], ["*.csv"]))

    def test_parts_of_a_mount_of_another_type_are_refused(self):
        for name, kind, given in ("loading", "Loading", {"mode": "eager"}), ("sync", "Sync", "manual"), ("sync", "Sync", None), ("permissions", "Permissions", {}):
            with self.assertRaisesRegex(TypeError, rf"^Mount\.{name}: a {kind} is expected, not a {type(given).__name__}; use {kind}\("):
                cloche.Mount({"/a": "/b"}, **{name: given})
        with self.assertRaisesRegex(TypeError, r"^Permissions\.rules: a Rule is expected, not a dict"):
            cloche.Permissions(rules=[{"pattern": "*"}])

    def test_output_is_streamed_when_somebody_listens(self):
        self.assertIs(self.params(on_output=print)["stream"], True)

    def test_sync(self):
        change = cloche.Change.read({"type": "created", "path": "/a", "content": b"x"})
        request = _requests.sync([change], {"dirs": {}}, on_error="continue", conflict="overwrite")
        self.assertEqual(request.params, {"changes": [{"type": "created", "path": "/a", "content": {"$": "bytes", "at": 0, "n": 1}}],
                                          "mount": {"dirs": {}}, "onError": "continue", "conflict": "overwrite"})
        self.assertEqual(_requests.plan_sync("c1").params, {"changeset": "c1", "dryRun": True})
        self.assertEqual(_requests.drop_changes("c1").params, {"changeset": "c1"})


class Refused(unittest.TestCase):
    def refused(self, message, *args, kind=cloche.InvalidArgumentError, build=_requests.call, **kwargs):
        with self.assertRaises(kind) as caught:
            build(*args, **kwargs)
        self.assertRegex(str(caught.exception), message)

    def test_wrong_types_are_named(self):
        call = ("python", "code")
        self.refused("language must be text, not a int", 1, "code")
        self.refused("code must be text or bytes, not a list", "python", [])
        self.refused("args must be a sequence or a mapping, not a str", *call, args="abc")
        self.refused("kwargs must be a mapping, not a list", *call, kwargs=[1])
        self.refused("files must be a mapping of paths, not a list", *call, files=["a"])
        self.refused(r"files\['a'\] must be text, bytes.* not a int", *call, files={"a": 1})
        self.refused(r"files\['a'\]: mode must be .* not -1", *call, files={"a": cloche.File("", -1)})
        self.refused("is no path", *call, files={"a\0b": ""})
        self.refused("env must be a mapping, not a list", *call, env=["A=1"])
        self.refused("env: 'A=B' cannot be a variable", *call, env={"A=B": ""})
        self.refused("env: 'A' and its value must be texts", *call, env={"A": 1})
        self.refused("mount must be a Mount or a mapping, not a str", *call, mount="/x")
        self.refused("timeout must be a number of seconds greater than 0, not 0", *call, timeout=0)
        self.refused("timeout must be .* not nan", *call, timeout=float("nan"))
        self.refused("globals must be a mapping of names, not a list", *call, globals=[len])
        self.refused("globals has a name of type int", *call, globals={1: len})
        self.refused("globals has a name with NUL", *call, globals={"a\0": len})
        self.refused(r"globals\['s'\] must be a function, not a int", *call, globals={"s": cloche.Shim(1, "")})
        self.refused(r"imports\['m'\] must be the text of a module", *call, imports={"m": 1})
        self.refused("argv must be a sequence of texts, not a str", "bash", "x", "-c", build=_requests.script)
        self.refused(r"argv\[1\] must be text, not a int", "bash", "x", ["a", 1], build=_requests.script)
        self.refused("stdin must be text or bytes, not a int", "bash", "x", stdin=1, build=_requests.script)

    def test_limits(self):
        self.refused("there is no 'wall'; there are: wall_ms, cpu_ms", "python", "", limits={"wall": 1})
        self.refused("wall_ms must be an integer, not 1.5", "python", "", limits={"wall_ms": 1.5})
        self.refused("pids must be an integer, not True", "python", "", limits={"pids": True})

    def test_values_are_named_by_their_path(self):
        refused = cloche.ValueRefusedError
        self.refused(r"^args\[1\]\.handler: function cannot be sent$", "python", "", args=[0, {"handler": lambda: 1}], kind=refused)
        self.refused(r"^kwargs\.x: object cannot be sent$", "python", "", kwargs={"x": object()}, kind=refused)
        self.refused(r"^globals\['o'\]: object cannot be sent$", "python", "", globals={"o": object()}, kind=refused)
        self.refused(r"^code: string with a lone surrogate", "python", "\ud800", kind=cloche.ValueRefusedError)

    def test_files_of_the_host(self):
        unreadable = cloche.UnreadableFileError
        self.refused("files: /nowhere/x: No such file", "python", "", files={"a": pathlib.Path("/nowhere/x")}, kind=unreadable)
        self.refused("Is a directory", "python", "", files={"a": pathlib.Path("/")}, kind=unreadable)

    def test_changes(self):
        self.refused("say of which mount they are", [], build=_requests.sync)
        self.refused("changes must be those of a result", [1], {"dirs": {}}, build=_requests.sync)
        self.refused("belong to no change set", cloche.Changes([], [], [], []), build=_requests.drop_changes)

    def test_functions_of_a_prefix(self):
        data = _requests.PrefixData("p1", "python", False, {("global", "f"): len, ("global", "db", "get"): len})
        self.refused("the prefix declares no function g; it declares: f, db.get", data, "c", globals={"g": len},
                     build=_requests.prefix_call)
        self.refused("f must be a function, not a int", data, "c", globals={"f": 1}, build=_requests.prefix_call)
        request = _requests.prefix_call(data, "c", globals={"db": {"get": print}})
        self.assertEqual(request.handlers.functions, {("global", "f"): len, ("global", "db", "get"): print})
        self.assertEqual(request.params, {"language": "python", "prefix": "p1", "code": "c"})


class Addresses(unittest.TestCase):
    def test_forms(self):
        for text, want in {"/run/c.sock": ("/run/c.sock", "", 0), "unix:/run/c": ("/run/c", "", 0), "unix:///run/c": ("/run/c", "", 0),
                           "./c": ("./c", "", 0), "localhost:80": (None, "localhost", 80), "tcp://h:1": (None, "h", 1),
                           "[::1]:8080": (None, "::1", 8080)}.items():
            self.assertEqual(tuple(_daemon.parse_address(text)), want)
        self.assertEqual(_daemon.parse_address(pathlib.Path("/a")).path, "/a")

    def test_refused(self):
        for text in ("", "host", "host:", ":80", "host:0", "host:65536", "host:8o", "a\0b/c"):
            with self.subTest(text), self.assertRaisesRegex(cloche.InvalidArgumentError, "is no address"):
                _daemon.parse_address(text)

    def test_nobody_there(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(cloche.DaemonNotFoundError, "No such file"):
            cloche.Cloche(folder + "/socket")

    def test_no_program(self):
        with self.assertRaisesRegex(cloche.DaemonNotFoundError, "the option daemon names '/nowhere/cloched', which is no program"):
            cloche.Cloche(daemon="/nowhere/cloched")
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "exclude each other"):
            cloche.Cloche("/a", daemon="/b")


class Schemas(unittest.TestCase):
    def fits(self, schema, *values):
        for value in values:
            compile_schema(schema, "s")(value, "v")

    def misfits(self, schema, value, message):
        with self.assertRaises(Misfit) as caught:
            compile_schema(schema, "s")(value, "v")
        self.assertRegex(str(caught.exception), message)

    def test_types(self):
        self.fits({"type": ["string", "null"]}, "a", None)
        self.fits({"type": "integer"}, 1, 1.0, 2**70)
        self.fits({"type": "number"}, 1, 1.5, float("nan"))
        self.misfits({"type": "integer"}, True, "v must be integer, not boolean")
        self.misfits({"type": "integer"}, float("inf"), "v must be integer, not number")
        self.misfits({"type": "object"}, [], "v must be object, not array")
        self.misfits({"type": "number"}, "1", "v must be number, not string")

    def test_bounds(self):
        self.fits({"minimum": 1, "maximum": 2}, 1, 2, "text")
        self.misfits({"exclusiveMaximum": 2}, 2, "v must be less than 2")
        self.misfits({"minimum": 1}, float("nan"), "v must not be less than 1")
        self.misfits({"maxLength": 2}, "abc", "v must not be longer than 2")
        self.misfits({"minItems": 1}, [], "fewer items than 1")

    def test_objects_and_arrays(self):
        schema = {"type": "object", "properties": {"q": {"type": "string"}, "n": {"type": "array", "items": {"type": "integer"}}},
                  "required": ["q"], "additionalProperties": False}
        self.fits(schema, {"q": "a"}, {"q": "a", "n": [1]})
        self.misfits(schema, {}, "v.q is required")
        self.misfits(schema, {"q": 1}, "v.q must be string")
        self.misfits(schema, {"q": "a", "n": [1, "2"]}, r"v.n\[1\] must be integer")
        self.misfits(schema, {"q": "a", "__proto__": 1}, "v has no '__proto__'; it has: n, q")

    def test_choices(self):
        self.fits({"enum": [1, "a"]}, 1, 1.0, "a")
        self.misfits({"enum": [1]}, True, "must be one of: 1")
        self.misfits({"const": None}, 0, "must be one of: None")
        self.fits({"anyOf": [{"type": "string"}, {"minimum": 3}]}, "a", 3)
        self.misfits({"oneOf": [{"type": "integer"}, {"minimum": 3}]}, 3, "fits 2 of the 2")
        self.misfits({"allOf": [{"type": "integer"}, {"minimum": 3}]}, 2, "fits 1 of the 2")

    def test_patterns(self):
        self.fits({"pattern": r"^[a-z0-9_-]+$"}, "abc-1", 5)
        self.fits({"pattern": r"^[^@]+@[^@]+\.[^@]+$"}, "a@b.c")
        self.misfits({"pattern": "^a+$"}, "b", r"must match the pattern \^a\+\$")
        self.misfits({"pattern": "a"}, "a" * 257, "at most 256")

    def test_patterns_that_take_for_ever_are_refused(self):
        for pattern in (r"(a+)+$", r"(a|b*)*", r"((a{1,9}){1,9})", r"(a)\1", r"a*a*a*a*b", r"(?:x+x+)+y"):
            with self.subTest(pattern), self.assertRaisesRegex(cloche.InvalidArgumentError, "may take long"):
                compile_schema({"pattern": pattern}, "s")

    def test_what_is_no_schema(self):
        for schema, message in ((1, "must be an object"), ({"type": "str"}, "expected one or more of"), ({"$ref": "#/x"}, "is not known"),
                                ({"enum": []}, "not empty"), ({"pattern": "("}, "is no pattern"), ({"minimum": "1"}, "must be a number"),
                                ({"properties": {"a": {"typ": 1}}}, r"s.properties.a has the keyword 'typ'")):
            with self.subTest(schema), self.assertRaisesRegex(cloche.InvalidArgumentError, message):
                compile_schema(schema, "s")

    def test_depth(self):
        schema = {"type": "object"}
        for _ in range(_schema.MAX_DEPTH + 1):
            schema = {"items": schema}
        with self.assertRaisesRegex(cloche.InvalidArgumentError, "nested deeper"):
            compile_schema(schema, "s")


if __name__ == "__main__":
    unittest.main()
