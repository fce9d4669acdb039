"""Functions, bodies, arguments, errors: the views of the code and of its caller."""
import json
import os
import unittest

from php_agent import Agent, AgentCase, Old


class FindsTheFunction(AgentCase):
    def test_the_one_public_function(self):
        code = ("use function strlen as len; class K { function m() {} } function _helper() { return 1; }\n"
                "if (true) { function inner() {} }\n$c = function () {}; function add($a, $b) { return $a + $b + _helper(); }")
        self.assertEqual(self.call(code, 2, 3), 6)

    def test_several_need_a_name(self):
        code = "function b() { return 1; } function &a() { static $x = 2; return $x; }"
        self.fails(code, "Error", "the code defines several public functions (b, a): name one")
        self.assertEqual(self.call(code, function="a"), 2)

    def test_a_missing_name_lists_what_there_is(self):
        self.fails("function a() {} function b() {}", "Error", "Call to undefined function x(): the code defines a, b", function="x")
        self.fails("", "Error", "Call to undefined function $x(): the code defines none", function="$x")

    def test_kinds_of_names(self):
        code = ("namespace App\\Deep; function f($x) { return $x + 1; } class K { static function twice($x) { return 2 * $x; }"
                " function thrice($x) { return 3 * $x; } function __invoke($x) { return 4 * $x; } }"
                " $closure = fn ($x) => $x + 5; $object = new K; $callable = 'strrev';")
        for name, want in [("App\\Deep\\f", 8), ("f", 8), ("App\\Deep\\K::twice", 14), ("$closure", 12), ("closure", 12),
                           ("$object->thrice", 21), ("$object", 28), ("$callable", "7"), ("sqrt", 7**0.5)]:
            with self.subTest(name):
                self.assertEqual(self.call(code, 7, function=name), want)

    def test_what_cannot_be_called(self):
        self.fails("$x = 3;", "Error", "'$x' cannot be called: no array or string given", function="$x")
        self.fails("class K { function m() {} }", "Error", "'K::m' cannot be called: non-static method K::m() cannot be called statically", function="K::m")
        self.fails("class K { private static function m() {} }", "Error", "'K::m' cannot be called: cannot access private method K::m()", function="K::m")
        self.fails("", "Error", "'No::m' cannot be called: class \"No\" not found", function="No::m")


class CodeAsBody(AgentCase):
    def test_return(self):
        self.assertEqual(self.call("return $args[0] + $kwargs['k'];", 1, kwargs={"k": 2}), 3)
        self.assertEqual(self.call("if ($args[0]) { return 'yes'; } return 'no';", True), "yes")

    def test_nothing_returned_is_null(self):
        for code in ("$x = 1;", "", "if (false) return 1;", "$x = 1; // end", "# end", "<?php $x = 1; ?>", "<?php $x = 1; ?>\n", "<b>html</b>",
                     "namespace A { class B {} } namespace { $x = new A\\B; }", "namespace A; $x = 1;", "declare(strict_types=1); $x = 1;",
                     "$x = <<<END\ntext\nEND;", "echo 1 ?>", "return;"):
            with self.subTest(code):
                self.assertIsNone(self.call(code))

    def test_one_is_one(self):
        self.assertEqual(self.call("return 1;"), 1)
        self.assertEqual(self.call("namespace A { return 1; }"), 1)

    def test_scope_is_the_global_one(self):
        self.assertEqual(self.call("$n = 1; function _up() { global $n; $n++; } _up(); return [$n, $GLOBALS['n'], array_keys(get_defined_vars())];"),
                         [2, 2, ["_GET", "_POST", "_COOKIE", "_FILES", "argv", "argc", "_SERVER", "args", "kwargs", "n"]])
        self.assertEqual(self.call("$seen = array_keys($GLOBALS); function f() { global $seen; return $seen; }"),
                         ["_GET", "_POST", "_COOKIE", "_FILES", "argv", "argc", "_SERVER"])

    def test_code_that_would_drop_its_arguments_says_so(self):
        for code, named in (("class A { public function __construct(public array $args) {} function f() { return 1; } }", "the class A"),
                            ("<?php\ndeclare(strict_types=1);\nnamespace App;\nuse DateTime;\n#[Attr] final class B extends \\ArrayObject {}", "the class B"),
                            ("abstract class A {} final class C extends A {} function _helper() { return new class {}; }", "the class C"),
                            ("enum Suit { case Hearts; }\nconst X = 1;", "the enum Suit"), ("readonly class R { function __construct(public int $x) {} }", "the class R"),
                            ("fn ($x) => $x * 2;", "a closure: write it as a function with a name"), ("static function (int $x) { return $x; };", "a closure: write it as a function with a name"),
                            ("$n = [1, 2];\n$double = fn ($x) => $x * 2;", "the closure $double: name $double as the function")):
            with self.subTest(code):
                named += "" if ":" in named else ": define a function that uses it"
                for params in ({}, {"kwargs": {"a": 1}}):
                    self.fails(code, "Error", "the code defines no function that could take the arguments, but " + named, *([] if params else [1]), **params)

    def test_code_that_looks_at_its_arguments_or_gets_none_has_classes(self):
        for code, args, value in (("class A {}", [], None), ("class A {} $x = $args[0]; return $x;", [4], 4), ("$double = fn ($x) => $x * 2; return $double($args[0]);", [4], 8),
                                  ("class A {} return 7;", [4], 7), ("class A {} $x = $GLOBALS['args'];", [4], None), ("if (true) { class A {} }", [4], None)):
            self.assertEqual(self.call(code, *args), value, code)
        self.assertEqual(self.call("$double = fn ($x) => $x * 2;", 4, function="$double"), 8)

    def test_source_is_convention(self):
        self.assertEqual(self.answer("return 5;")["result"], {"value": 5, "signatureSource": "convention"})
        self.assertEqual(self.answer("return 5;", order=["a"])["result"], {"value": 5, "signatureSource": "schema"})

    def test_body_needs_no_tokenizer_when_a_function_is_named(self):
        agent = Agent("-n")
        try:
            self.assertEqual(agent.request(code="function f() { return 1; }", function="f")[0]["result"]["value"], 1)
            self.assertIn("lacks the extension tokenizer", agent.request(code="return 1;")[0]["error"]["message"])
        finally:
            agent.end()


class Tags(AgentCase):
    def test_an_opening_tag_where_none_is(self):
        for code in ("return __LINE__;", "<?php return __LINE__;", "<?PHP\treturn __LINE__;", "#!/usr/bin/php\n<?php return __LINE__ - 1;",
                     "\n\n<?php return __LINE__ - 2;", "\ufeff<?php return __LINE__;", "\n  declare(strict_types=1); return __LINE__ - 1;",
                     "  \n<?php declare(strict_types=1); return __LINE__ - 1;", "<<<X\nX; return __LINE__ - 1;"):
            with self.subTest(code):
                self.assertEqual(self.call(code), 1)
                self.assertEqual(self.output, (0, "", ""))

    def test_html_stays_html(self):
        for code in ("<p><?= $args[0] ?></p>", "<?= '<p>', $args[0], '</p>' ?>"):
            self.call(code, "x")
            self.assertEqual(self.output, (0, "<p>x</p>", ""))


class Arguments(AgentCase):
    CODE = "function f($a, $b = 10, ...$c) { return [$a, $b, $c]; }"

    def test_forms(self):
        self.assertEqual(self.call(self.CODE, 1), [1, 10, []])
        self.assertEqual(self.call(self.CODE, 1, 2, 3, 4), [1, 2, [3, 4]])
        self.assertEqual(self.call(self.CODE, kwargs={"b": 2, "a": 1, "z": 3}), [1, 2, {"z": 3}])
        self.assertEqual(self.call(self.CODE, 1, 2, 3, kwargs={"z": 4}), [1, 2, {"0": 3, "z": 4}])

    def test_holes_take_defaults(self):
        code = "class D { public $v = 5; } function f($a = 1, $b = new D, ?int $c = null, $d = PHP_INT_SIZE) { return [$a, $b, $c, $d]; }"
        self.assertEqual(self.call(code, None, None, None, 4, holes=[0, 1, 2]), [1, {"v": 5}, None, 4])
        self.assertEqual(self.call(code, 2, None, holes=[1]), [2, {"v": 5}, None, 8])
        self.assertEqual(self.call(self.CODE, 1, None, 3, holes=[1]), [1, 10, [3]])
        self.assertEqual(self.call("", "a,b", None, function="str_getcsv", holes=[1]), ["a", "b"])

    def test_errors_name_the_parameter(self):
        code = "\nfunction f($a, $b = 1) {}"
        for args, options, kind, message in [
                ([], {}, "ArgumentCountError", "f($a, $b) is missing its argument $a (position 0)"),
                ([None], {"holes": [0]}, "ArgumentCountError", "f($a, $b) is missing its argument $a (position 0)"),
                ([1, 2, 3], {}, "ArgumentCountError", "f($a, $b) takes 2 arguments, 3 are given"),
                ([1], {"kwargs": {"z": 1}}, "Error", "Unknown named parameter $z of f($a, $b)"),
                ([1], {"kwargs": {"a": 1}}, "Error", "Named parameter $a of f($a, $b) overwrites previous argument"),
                ([1], {"kwargs": {"x": 1}, "order": ["x", "b"]}, "Error", "Named parameter $x of f($a, $b) overwrites previous argument")]:
            with self.subTest(message):
                error = self.fails(code, kind, message, *args, **options)
                self.assertEqual(error["stack"], "%s: %s in main.php:2\nStack trace:\n#0 {main}" % (kind, message))
        self.fails(self.CODE, "ArgumentCountError", "f($a, $b, ...$c) is missing the argument at position 2", 1, 2, None, 4, holes=[2])

    def test_order_of_a_schema(self):
        code = "function f($a, $b = 10) { return [$a, $b]; }"
        answer = self.answer(code, kwargs={"second": 2, "first": 1}, order=["first", "second"])
        self.assertEqual(answer["result"], {"value": [1, 2], "signatureSource": "schema"})
        self.assertEqual(self.call(code, kwargs={"b": 2, "first": 1}, order=["first", "second"]), [1, 2])
        self.assertEqual(self.call(self.CODE, 1, kwargs={"x": 2}, order=["a", "x"]), [1, 10, {"x": 2}])

    def test_sources(self):
        self.assertEqual(self.answer("function f() {}")["result"]["signatureSource"], "inferred")
        self.assertEqual(self.answer("", "x", function="strtoupper")["result"], {"value": "X", "signatureSource": "inferred"})

    def test_types_convert_as_in_a_plain_file(self):
        self.assertEqual(self.call("function f(int $i, string $s, float $x, bool $b, ?int $n) { return [$i, $s, $x, $b, $n]; }", "5", 6, 7, 1, None),
                         [5, "6", 7.0, True, None])
        self.assertEqual(self.call("function f(int|string $x) { return $x; }", 5.0), 5)
        error = self.fails("function f(int $i) {}", "TypeError", "f(): Argument #1 ($i) must be of type int, string given", "x")
        self.assertNotIn("call.php", error["stack"])

    def test_by_reference(self):
        self.assertEqual(self.call("function f(array &$a) { $a[] = 3; return $a; }", [1]), [1, 3])
        self.assertEqual(self.call("function f(&$a, &...$b) { $a++; $b['x']++; return [$a, $b]; }", 1, kwargs={"x": 5}), [2, {"x": 6}])
        self.assertEqual(self.output[2], "")

    def test_objects_fit_types(self):
        for kind, value, seen in [("array", {}, "array"), ("array", {"0": 1}, "array"), ("?array", {}, "array"), ("stdClass", {"a": 1}, "stdClass"),
                                  ("stdClass", {}, "stdClass"), ("object", {"a": 1}, "stdClass"), ("object", {}, "ArrayObject"), ("iterable", {}, "ArrayObject"),
                                  ("array|stdClass", {"a": 1}, "array"), ("DateTime", {"$": "date", "v": "2026-11-21"}, "DateTime"),
                                  ("DateTimeInterface", {"$": "date", "v": "2026-11-21"}, "Cloche\\Day"), ("string", {"$": "bytes", "b64": ""}, "string")]:
            with self.subTest(kind):
                self.assertEqual(self.call("function f(%s $x) { return get_debug_type($x); }" % kind, value), seen)

    def test_enums(self):
        code = "enum S: int { case A = 1; } enum U { case B; } function f(S $s, ?U $u = null) { return [$s->name, $u?->name]; }"
        self.assertEqual(self.call(code, 1, "B"), ["A", "B"])
        self.fails(code, "ValueError", '7 is not a valid value of enum S', 7)


class Errors(AgentCase):
    def test_stack_as_php_writes_it(self):
        error = self.error("function f($x) {\n  g($x);\n}\nfunction g($x) {\n  throw new LogicException('no', 3, new RuntimeException('inner'));\n}",
                           1, function="f", filename="job.php")
        self.assertEqual((error["type"], error["message"]), ("LogicException", "no"))
        trace = " in job.php:5\nStack trace:\n#0 job.php(2): g()\n#1 [internal function]: f()\n#2 {main}"
        self.assertEqual(error["stack"], "RuntimeException: inner%s\n\nNext LogicException: no%s" % (trace, trace))

    def test_body(self):
        self.assertEqual(self.error("$x = 1;\n\nintdiv($x, 0);")["stack"],
                         "DivisionByZeroError: Division by zero in main.php:3\nStack trace:\n#0 main.php(3): intdiv()\n#1 {main}")

    def test_through_the_standard_library(self):
        stack = self.error("function f() { return array_map(function ($x) {\n throw new Error('x'); }, [1]); }")["stack"]
        self.assertIn("#0 [internal function]: {closure}()\n#1 main.php(1): array_map()\n#2 [internal function]: f()\n#3 {main}", stack)

    def test_while_the_result_is_encoded(self):
        error = self.error("class J implements JsonSerializable {\n function jsonSerialize(): mixed { throw new DomainException('j'); } } return [new J];")
        self.assertEqual(error["stack"], "DomainException: j in main.php:2\nStack trace:\n#0 [internal function]: J->jsonSerialize()\n#1 {main}")

    def test_in_a_class_of_ours(self):
        self.assertEqual(self.error("\n$m = new Cloche\\Map();\n$m['x'];")["stack"],
                         "OutOfBoundsException: no such key in the map in main.php:3\nStack trace:\n#0 main.php(3): Cloche\\Map->offsetGet()\n#1 {main}")

    def test_syntax(self):
        for function in (None, "f"):
            error = self.fails("$x = 1;\nfunction f( {", "ParseError", 'syntax error, unexpected token "{", expecting variable', function=function)
            self.assertEqual(error["stack"].split("\n")[0], 'ParseError: syntax error, unexpected token "{", expecting variable in main.php:2')
        self.assertIn("unexpected end of file", self.error("$x = 1 +")["message"])
        self.assertIn("Unclosed '{'", self.error("if (1) {")["message"])

    def test_what_php_does_not_let_anybody_catch(self):
        for code, kind, message in [("function strlen() {}", "CompileError", "Cannot redeclare strlen()"),
                                    ("trigger_error('mine', E_USER_ERROR);", "FatalError", "mine"),
                                    ("class A extends A {}", "Error", 'Class "A" not found'),
                                    ("break;", "CompileError", "'break' not in the 'loop' or 'switch' context"),
                                    ("abstract class B { abstract function f() {} }", "CompileError", "Abstract function B::f() cannot contain body"),
                                    ("ini_set('memory_limit', '8M'); str_repeat('x', 1 << 24);", "FatalError", None)]:
            with self.subTest(code):
                error = self.error("\n" + code)
                self.assertEqual(error["type"], kind)
                self.assertEqual(error["message"], message or error["message"])
                self.assertIn("main.php:2", error["stack"])
        self.assertIn("Allowed memory size of 8388608 bytes exhausted", error["message"])

    def test_exit(self):
        for code in ("exit;", "exit(3);", "die('bye');"):
            for whole in (code, "function f() { try { %s } finally { echo 'not here'; } }" % code, "class D { function __destruct() { echo 'gone'; } } $d = new D; " + code):
                with self.subTest(whole):
                    self.fails(whole, "ExitException", "exit() was called before the function ended")
                    self.assertEqual(self.output, (3 if "3" in code else 0, "bye" * ("bye" in code) + "gone" * ("gone" in whole), ""))

    def test_messages(self):
        self.assertLess(len(self.error("throw new Exception(str_repeat('x', 10**7));")["message"]), 100000)
        self.assertEqual(self.error(r'throw new Exception("a\xFF");')["message"], "a\ufffd")

    def test_classes(self):
        self.assertEqual(self.error("namespace A; class E extends \\Exception { function __toString(): string { exit(9); } } throw new E('m');")["type"], "A\\E")
        self.assertEqual(self.error("throw new class('m') extends Exception {};")["type"], "Exception@anonymous")


class Environment(AgentCase):
    def test_warnings_go_to_stderr(self):
        code = "function f() {\n echo 'out'; echo $undefined; trigger_error('old', E_USER_DEPRECATED); return 1 . ''; }"
        self.assertEqual(self.call(code), "1")
        status, out, err = self.output
        self.assertEqual((status, out), (0, "out"))
        self.assertIn("Warning: Undefined variable $undefined in main.php on line 2", err)
        self.assertIn("Deprecated: old in main.php on line 2", err)

    def test_output_buffers_are_flushed(self):
        self.assertEqual(self.call("ob_start(); echo 'a'; ob_start(fn ($x) => strtoupper($x)); echo 'b'; return 1;"), 1)
        self.assertEqual(self.output[1], "aB")

    def test_error_handler_of_the_user(self):
        code = "set_error_handler(function ($n, $m) { throw new ErrorException($m); }); function f() { return $undefined; }"
        self.fails(code, "ErrorException", "Undefined variable $undefined")

    def test_file_and_directory(self):
        value = self.call("return [__FILE__, __DIR__ === getcwd(), $argv, $argc, $_SERVER['argv'], $_SERVER['SCRIPT_FILENAME']];", filename="job.php")
        self.assertEqual(value, ["job.php", True, ["job.php"], 1, ["job.php"], "job.php"])

    def test_files_of_the_working_directory(self):
        code = "file_put_contents('lib.php', '<?php return __FILE__;'); return [basename(include 'lib.php'), basename(require __DIR__ . '/lib.php')];"
        self.assertEqual(self.call(code), ["lib.php", "lib.php"])

    def test_shutdown_functions_and_destructors_run_at_the_end(self):
        code = "class D { function __destruct() { echo 'destroyed'; } } $d = new D; register_shutdown_function(function () { echo 'bye '; }); return 1;"
        self.assertEqual(self.call(code), 1)
        self.assertEqual(self.output, (0, "bye destroyed", ""))

    def test_no_limit_of_php(self):
        self.assertEqual(self.call("return [ini_get('memory_limit'), ini_get('max_execution_time')];"), ["-1", "0"])


class Scripts(unittest.TestCase):
    def run_script(self, code, *argv):
        agent = Agent()
        agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "run", "params": {
            "code": code, "filename": "job.php", "argv": list(argv), "globals": {}, "imports": {}}}).encode())
        self.assertIsNone(agent.receive())
        return agent.end()

    def test_streams_and_status(self):
        self.assertEqual(self.run_script("echo implode(',', $argv), $argc; fwrite(STDERR, 'err'); exit(3);", "a", "b"), (3, "job.php,a,b3", "err"))
        self.assertEqual(self.run_script("echo 1;"), (0, "1", ""))

    def test_uncaught(self):
        status, out, err = self.run_script("\nfunction f() { throw new Exception('no'); } echo 'x'; f();")
        self.assertEqual((status, out), (255, "x"))
        self.assertIn("Fatal error: Uncaught Exception: no in job.php:2\nStack trace:\n#0 job.php(2): f()\n#1 {main}\n  thrown in job.php on line 2", err)
        self.assertNotIn("agent.php", err)

    def test_exception_handler_of_the_user(self):
        self.assertEqual(self.run_script("set_exception_handler(function ($e) { echo get_class($e); }); throw new LogicException('no');"),
                         (0, "LogicException", ""))

    def test_shutdown_functions(self):
        self.assertEqual(self.run_script("register_shutdown_function(function () { echo 'bye'; exit(4); }); echo 'x';"), (4, "xbye", ""))

    def test_cold_script_without_a_tag(self):
        import subprocess
        import tempfile
        from php_agent import MANIFEST, PHP, RUNTIME
        with tempfile.TemporaryDirectory() as folder:
            for code, out in [("echo __LINE__, basename(__FILE__), $argv[1];", "1s.phpx"), ("<?php\necho __LINE__, basename(__FILE__), $argv[1]; exit(3);", "2s.phpx"), ("<b><?= 1 ?></b>", "<b>1</b>")]:
                path = os.path.join(folder, "s.php")
                with open(path, "w") as file:
                    file.write(code)
                command = [word.replace("/run/cloche", str(RUNTIME)).replace("{script}", path) for word in MANIFEST["script"]]
                finished = subprocess.run([PHP, *command[1:], "x"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
                self.assertEqual((finished.stdout, finished.stderr, finished.returncode), (out, "", 3 if "exit" in code else 0))


class Protocol(unittest.TestCase):
    def setUp(self):
        self.agent = Agent()
        self.addCleanup(self.agent.end)

    def bad(self, text, code):
        self.agent.send_raw(text)
        self.assertEqual(self.agent.receive()[0]["error"]["code"], code)

    def test_bad_messages_are_answered(self):
        for text in (b"", b"{", b"nonsense", b'{"a": NaN}', b"\xff", b"[" * 100000, b"{} {}", b'{"a":"\\ud800"}'):
            self.bad(text, -32700)
        for text in (b"[]", b"{}", b"1", b'{"jsonrpc":"2.0","id":[],"method":"call"}'):
            self.bad(text, -32600)
        self.bad(b'{"jsonrpc":"2.0","id":1,"method":"nope"}', -32601)
        for params in (b"", b',"params":[]', b',"params":{"code":5}', b',"params":{"code":"","args":{}}', b',"params":{"code":"","function":""}',
                       b',"params":{"code":"","kwargs":[1],"args":5}', b',"params":{"code":"","order":5}'):
            self.bad(b'{"jsonrpc":"2.0","id":1,"method":"call"%s}' % params, -32602)
        self.assertEqual(self.agent.request(code="return 42;")[0]["result"]["value"], 42)

    def test_notifications_and_string_ids(self):
        self.agent.send_raw(b'{"jsonrpc":"2.0","method":"call","params":{"code":"echo 1;"}}')
        self.agent.send_raw(b'{"jsonrpc":"2.0","id":"\\u00e9","method":"call","params":{"code":"return 5;"}}')
        self.assertEqual(self.agent.receive()[0]["id"], "\u00e9")

    def test_impossible_lengths_end_the_agent(self):
        self.agent.socket.sendall((8).to_bytes(4, "little") + (9).to_bytes(4, "little"))
        self.assertEqual(self.agent.receive()[0]["error"]["code"], -32700)
        self.assertIsNone(self.agent.receive())

    def test_frame_in_single_bytes(self):
        text = b'{"jsonrpc":"2.0","id":1,"method":"call","params":{"code":"return 6*7;"}}'
        for byte in (4 + len(text)).to_bytes(4, "little") + len(text).to_bytes(4, "little") + text:
            self.agent.socket.send(bytes([byte]))
        self.assertEqual(self.agent.receive()[0]["result"]["value"], 42)

    def test_prepare_and_then_a_call(self):
        self.assertEqual(self.agent.ask("prepare", code="const LIMIT = 10; $seen = 1; function helper($x) { return $x * LIMIT; } class K {}", filename="set-up.php")[0]["result"], {})
        self.assertEqual(self.agent.request(code="function f() { global $seen; return [helper(2), $seen, class_exists('K')]; }")[0]["result"]["value"], [20, 1, True])

    def test_signal_handlers_of_a_set_up(self):
        self.agent.ask("prepare", code="pcntl_async_signals(true); pcntl_signal(SIGUSR1, function () { $GLOBALS['got'] = 1; });", filename="set-up.php")
        self.assertEqual(self.agent.request(code="posix_kill(getmypid(), SIGUSR1); return $got ?? 0;")[0]["result"]["value"], 1)

    def test_prepare_that_throws_or_exits(self):
        self.assertEqual(self.agent.ask("prepare", code="\nthrow new Exception('no');", filename="set-up.php")[0]["error"]["data"]["stack"],
                         "Exception: no in set-up.php:2\nStack trace:\n#0 {main}")
        self.assertEqual(self.agent.ask("prepare", code="exit;", filename="set-up.php")[0]["error"]["message"], "exit() was called before the set-up ended")

    def test_no_template(self):
        self.assertEqual(self.agent.ask("freeze")[0]["error"], {"code": -32001, "message": "this process was not started as a template"})


class TooOld(unittest.TestCase):
    def test_every_request_is_refused_by_name(self):
        with Old() as agent:
            for method in ("call", "freeze", "open"):
                error = agent.ask(method, code="x" * 200000)[0]["error"]
                self.assertRegex(error["message"], r"^this image has PHP [\d.]+\S*, and the agent needs PHP 8\.1 or later: use an image with one")
                self.assertEqual((error["code"], error["data"]["type"]), (-32000, "UnsupportedVersion"))
            self.assertEqual(agent.end(), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
