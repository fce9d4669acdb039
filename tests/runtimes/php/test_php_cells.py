"""Cells in the global scope of a persistent PHP: their view, displays, output and input, and their failures."""
import os
import pathlib
import subprocess
import tempfile
import unittest

from php_agent import PHP, Agent
from context_process import Context, SharedContextCase


class PhpCase(SharedContextCase):
    @staticmethod
    def start():
        return Context(Agent())

    def text(self, code, lines=(), **params):
        """The text of the result, which is the cell's only display."""
        display = self.display(code, lines, **params)
        self.assertEqual((display["isResult"], display["metadata"]), (True, {}))
        return display["data"]["text/plain"]

    def printed(self, code):
        self.run_cell(code + "\necho '<end>';")
        return self.context.printed("<end>").partition("<end>")[0]

    def file(self):
        return "Cell In[%d]" % self.context.count

    def fails(self, code, name, message, line=None, **params):
        error = self.error(code, **params)
        self.assertEqual((error["name"], error["message"]), (name, message))
        if line is not None:
            self.assertEqual(error["traceback"][0], "%s: %s in %s:%d" % (name, message, params.get("filename", self.file()), line))
        return error


class Cells(PhpCase):
    def test_what_a_cell_leaves_is_there_for_the_next(self):
        self.run_cell("$v = 5; function twice($x) { global $v; return 2 * $x + $v; } class Kept { const C = 3; } const WORD = 'w'; define('OTHER', 1);")
        self.assertEqual(self.text("[twice(10), Kept::C, WORD, OTHER]"), "[25, 3, 'w', 1]")
        self.run_cell("$v = 6;")
        self.assertEqual(self.text("twice(0)"), "6")

    def test_with_and_without_a_tag(self):
        self.assertEqual(self.text("<?php\n1 + 1;"), "2")
        self.assertEqual(self.text("<?php 1 + 1 ?>"), "2")
        self.assertEqual(self.printed("?><b><?= 1 + 1 ?></b><?php "), "<b>2</b>")
        self.assertEqual(self.run_cell("<p>text</p>"), [])
        self.context.printed("<p>text</p>")

    def test_the_last_expression(self):
        for code, text in [("1; 2; 3;;", "3"), ("'a'; // behind", "'a'"), ("$x = 4; $x", "4"), ("if (1) { $x = 5; } $x + 1", "6"),
                           ("match(true) { true => 5 }", "5"), ("match(true) { true => 5 } . 'x'", "'5x'"), ("(function () { return 3; })();", "3"),
                           ("$s = <<<END\n  a;\n  END;\n$s", "'a;'"), ("fn($a, ...$b) => 1;", "Closure($a, ...$b)"), ("new class(3) { function __construct(public $x) {} }", "class@anonymous {x: 3}"),
                           ("namespace In\\It; function f() { return __FUNCTION__; } f()", "'In\\\\It\\\\f'"), ("use ArrayObject as AO; count(new AO([1]))", "1"),
                           ("return 7;", "7"), ("declare(strict_types=1);\nstrlen('abc')", "3"), ("for ($i = 0; $i < 3; $i++): endfor; $i", "3"),
                           ("\"{$x}b\" // c", "'5b'"), ("[1, 2][1]", "2"), ("#[A]\nfn() => 1", "Closure()"), ("'exit; readline(); }'", "'exit; readline(); }'")]:
            with self.subTest(code):
                self.assertEqual(self.text(code), text)
        self.assertEqual(self.text("\"\\u{e9};\""), "'é;'")

    def test_what_has_no_value(self):
        for code in ("", " \n", "# nothing", "$x = 1", "$x += 1; ", "$x ??= 2;", "$x++", "[$a, $b] = [1, 2]", "null", "echo '';", "foreach ([1] as $x) { $x; }", "print ''",
                     "function nothing() {} nothing()", "while (false) { 1; }", "namespace Braced { 1; }", "unset($x)", "if (true): 1; endif", "1; __halt_compiler(); not code"):
            with self.subTest(code):
                self.assertEqual(self.run_cell(code), [])

    def test_the_last_result(self):
        self.text("[1]")
        self.run_cell("$nothing = null; null")
        self.assertEqual(self.text("$_[0] + 1"), "2")

    def test_silent(self):
        self.run_cell("'before'")
        self.assertEqual(self.run_cell("8", silent=True), [])
        self.assertEqual(len(self.run_cell("Cloche\\display(9)", silent=True)), 1)
        self.assertEqual(self.text("$_"), "'before'")

    def test_a_cell_that_runs_again_finds_what_it_declared(self):
        code = "/** text */\nfunction again() { return 1; }\n#[Attribute]\nfinal class Again { public $p = '}'; }\nenum Kind { case One; }\ninterface Face {}\ntrait Bit {}\n%s"
        self.run_cell(code % "again();" + "Kind::One")
        self.assertEqual(self.text(code % "\n__LINE__"), "9")
        self.assertEqual(self.error(code % "nosuch()")["traceback"][0], "Error: Call to undefined function nosuch() in %s:8" % self.file())

    def test_a_name_cannot_be_declared_anew(self):
        self.run_cell("function once() {}\nclass Once {}")
        where = self.file()
        self.fails("1;\nfunction once() { return 2; }", "Error", "Cannot redeclare once() (previously declared in %s:1)" % where, 2)
        self.fails("abstract\nclass ONCE {}", "Error", "Cannot declare class ONCE, because the name is already in use (previously declared in %s:2)" % where, 1)
        self.fails("function strlen() {}", "Error", "Cannot redeclare strlen() (previously declared in PHP)", 1)
        self.assertIn("Cannot redeclare two()", self.error("function two() {} function two() {}")["message"])
        self.assertEqual(self.run_cell("if (!function_exists('once')) { function once() {} }"), [])

    def test_place_of_the_code(self):
        self.assertEqual(self.text("[__DIR__ === getcwd(), __LINE__]"), "[true, 1]")
        self.assertEqual(self.text("__FILE__"), "'%s'" % self.file())
        self.assertEqual(self.text("\n__FILE__ . __LINE__", filename="mine.php"), "'mine.php2'")


class Failures(PhpCase):
    def test_in_the_coordinates_of_the_cell(self):
        self.fails("\n\nnosuch();", "Error", "Call to undefined function nosuch()", 3)
        self.run_cell("function bad() {\n throw new RuntimeException('bad');\n}")
        where = self.file()
        self.assertEqual(self.error("1;\nbad();")["traceback"], [
            "RuntimeException: bad in %s:2" % where, "Stack trace:", "#0 %s(2): bad()" % self.file(), "#1 {main}"])
        self.fails("throw new LogicException('x')", "LogicException", "x", 1, filename="mine.php")

    def test_syntax(self):
        self.fails("\n$x = = 1;", "ParseError", "syntax error, unexpected token \"=\"", 2)
        self.assertEqual(self.error("if (1) {")["name"], "ParseError")
        self.assertEqual(self.error("1 +")["name"], "ParseError")

    def test_what_ran_before_stays(self):
        self.error("$kept = 1; nosuch();")
        self.assertEqual(self.text("$kept"), "1")

    def test_exit_is_an_error_of_the_cell(self):
        for code, message, text in [("$left = 1; exit; $left = 2;", "exit(0) was called", ""), ("exit(3);", "exit(3) was called", ""),
                                    ("DIE('bye')", "exit() was called", "bye"), ("true or die();", "", ""), ("false or die;", "exit(0) was called", "")]:
            with self.subTest(code):
                if message:
                    self.assertEqual(self.error(code), {"name": "ExitException", "message": message, "traceback": []})
                else:
                    self.run_cell(code)
                self.assertEqual(self.printed(""), text)
        self.assertEqual(self.text("class Door { const exit = 4; function exit() { return 5; } }\n[$left, Door::exit, (new Door)->exit()]"), "[1, 4, 5]")

    def test_what_the_compiler_refuses(self):
        self.run_cell("$kept = 1; function ran() { echo 'ran'; } spl_autoload_register(function ($name) { echo \"auto $name\"; });")
        for code, name, message, line in [
                ("\nclass Lacks implements Countable {}", "FatalError", "Class Lacks contains 1 abstract method and must therefore be declared abstract or implement the remaining"
                                                                       " methods (Countable::count)", 2),
                ("use ArrayObject as AO;\nclass Half extends AO implements JsonSerializable {} ran();", "FatalError", "Class Half contains 1 abstract method and must therefore be declared"
                                                                                                                      " abstract or implement the remaining methods (JsonSerializable::jsonSerialize)", 2),
                ("abstract class Base { abstract function x(); }\nclass Derived extends Base {}", "FatalError", "Class Derived contains 1 abstract method and must therefore be declared"
                                                                                                                " abstract or implement the remaining methods (Base::x)", 2),
                ("ran(); break;", "CompileError", "'break' not in the 'loop' or 'switch' context", 1), ("function f($a, $a) {}", "CompileError", "Redefinition of parameter $a", 1),
                ("$this = 1;", "CompileError", "Cannot re-assign $this", 1), ("namespace In; ran(); const A = 1; const A = 2; yield 1;", "CompileError",
                                                                               "The \"yield\" expression can only be used inside a function", 1)]:
            with self.subTest(code):
                self.fails(code, name, message, line)
        self.assertEqual(self.printed(""), "")
        self.assertEqual(self.text("class Lacks implements Countable { function count(): int { return 4; } }\nreturn [count(new Lacks), $kept, ran()];"), "[4, 1, null]")
        self.context.printed("ran")
        self.fails("class Orphan extends Nowhere {}", "Error", 'Class "Nowhere" not found', 1)
        self.context.printed("auto Nowhere")
        self.run_cell("spl_autoload_unregister(spl_autoload_functions()[0])")

    def test_warnings_name_the_cell(self):
        self.run_cell("\n$nosuch;")
        self.context.printed("Undefined variable $nosuch in %s on line 2" % self.file(), "stderr")

    def test_handlers_of_the_users(self):
        self.run_cell("set_error_handler(fn($n, $text) => throw new Exception($text)); set_exception_handler(fn() => print('no'));")
        self.assertEqual(self.error("$nosuch . ''")["message"], "Undefined variable $nosuch")
        self.run_cell("restore_error_handler(); ob_start(); echo 'buffered';")
        self.context.printed("buffered")

    def test_a_forked_child_answers_nothing(self):
        self.assertEqual(self.text("$pid = pcntl_fork(); if ($pid) { pcntl_waitpid($pid, $s); } else { Cloche\\html('no'); } $pid ? pcntl_wexitstatus($s) : 'child'"), "0")
        self.context.printed("'child'\n")


class Ending(unittest.TestCase):
    """Errors that PHP does not survive: the cell's response comes first."""

    def ends(self, code, name, message, **params):
        agent = Agent()
        self.addCleanup(agent.end)
        context = Context(agent).opened()
        answer = context.cell("\n" + code, **params)
        self.assertEqual((answer["status"], answer["error"]["name"], answer["error"]["message"]), ("error", name, message))
        self.assertEqual(answer["error"]["traceback"][-1], "PHP has ended: what the cells had made is gone")
        self.assertIsNone(agent.receive())
        return answer["error"]

    def test_fatal_errors(self):
        self.assertIn("in Cell In[1]:2", self.ends("namespace A { class C implements \\Countable {} }", "FatalError", "Class A\\C contains 1 abstract method and must therefore be"
                                                   " declared abstract or implement the remaining methods (Countable::count)")["traceback"][0])

    def test_exit_that_stands_in_no_cell(self):
        self.ends("eval('exit;');", "ExitException", "exit() was called before the cell ended")

    def test_the_end_of_the_channel(self):
        agent = Agent()
        context = Context(agent).opened()
        self.assertEqual(context.cell("register_shutdown_function(fn() => print('down')); class D { function __destruct() { echo 'gone'; } } $d = new D;")["status"], "ok")
        self.assertEqual(agent.end()[:2], (0, "downgone"))


class Interrupts(PhpCase):
    def interrupted(self, code):
        self.context.begin("echo '<started>';\n" + code)
        self.context.printed("<started>")
        self.context.interrupt()
        error = self.context.finish()["error"]
        self.assertEqual((error["name"], error["message"]), ("Cloche\\Interrupt", "the cell was interrupted"))
        self.assertEqual(error["traceback"][0], "Cloche\\Interrupt: the cell was interrupted in %s:2" % self.file())

    def test_loops_and_waiting(self):
        for code in ("while (true) {}", "while (true) { sleep(100); }", "try { while (true) { usleep(100000); } } catch (Exception) {}",
                     "set_error_handler(null); for (;;) { strlen('a'); }"):
            with self.subTest(code):
                self.interrupted(code)
        self.assertEqual(self.text("'usable'"), "'usable'")

    def test_it_may_be_caught(self):
        self.context.begin("try { echo '<started>'; while (true) {} } catch (Cloche\\Interrupt $i) { 'caught'; } 5")
        self.context.printed("<started>")
        self.context.interrupt()
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.interrupted("while (true) {}")

    def test_a_handler_of_the_users_lasts_as_long_as_its_cell(self):
        self.context.begin("$n = 0; pcntl_signal(SIGINT, function () use (&$n) { $n = 3; }); echo '<started>'; while (!$n) {} $n")
        self.context.printed("<started>")
        self.context.interrupt()
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.interrupted("while (true) {}")

    def test_between_cells_it_is_ignored(self):
        self.context.interrupt()
        self.assertEqual(self.text("'fine'"), "'fine'")

    def test_while_input_is_awaited(self):
        self.interrupt_while_it_asks("input('who')", "Cloche\\Interrupt")
        self.assertEqual(self.text("input()", ["line"]), "'line'")


class Input(PhpCase):
    def test_what_the_host_answers(self):
        self.assertEqual(self.text("[input('Who? '), Cloche\\input('Pass', true), readline('line '), \\readLine()]", ["a", "ü", "c", ""]), "['a', 'ü', 'c', '']")
        self.assertEqual(self.context.asked, [("Who? ", False), ("Pass", True), ("line ", False), ("", False)])

    def test_without_an_answer(self):
        error = self.error("input()", [("nobody is there",)])
        self.assertEqual((error["name"], error["message"]), ("Cloche\\EndOfInput", "nobody is there"))
        self.assertEqual(self.text("readline()", [("nobody",)]), "false")
        self.assertEqual(self.text("fgets(STDIN)"), "false")

    def test_what_is_printed_comes_before(self):
        self.context.begin("echo 'a'; input();")
        number = self.context.next()[0]["id"]
        self.assertEqual(os.read(self.context.agent.process.stdout.fileno(), 100), b"a")
        self.context.answer_input(number, "")
        self.assertEqual(self.context.finish(), {"status": "ok"})


class Displays(PhpCase):
    def test_kinds(self):
        for code, data in [
                ("html('<b>ü')", {"text/html": "<b>ü"}), ("markdown('# x')", {"text/markdown": "# x", "text/plain": "# x"}),
                ("latex('x^2')", {"text/latex": "x^2", "text/plain": "x^2"}), ("svg('<svg/>')", {"image/svg+xml": "<svg/>"}),
                (r'png("\x89PNG\xff")', {"image/png": b"\x89PNG\xff"}), ("png(base64_encode('PNG'))", {"image/png": b"PNG"}),
                (r'jpeg("\xff\xd8")', {"image/jpeg": b"\xff\xd8"}), ("pdf('%PDF-1')", {"application/pdf": b"%PDF-1"}),
                ("json(['a' => [1, 2.0, null], 'b' => []])", {"application/json": {"a": [1, 2.0, None], "b": []}}), ("javascript('x()')", {"application/javascript": "x()"}),
                ("chart(['type' => 'line'])", {"application/vnd.cloche.chart+json": {"type": "line"}}), (r'html("a\xff")', {"text/html": "a\ufffd"})]:
            with self.subTest(code):
                self.assertEqual(self.display("Cloche\\" + code), {"data": data, "metadata": {}, "isResult": False})

    def test_in_order_with_ids(self):
        displays = self.run_cell("display(1, id: 'one'); Cloche\\display(2, 'one', true, ['m' => 1]); 3")
        self.assertEqual(displays, [
            {"data": {"text/plain": "1"}, "metadata": {}, "isResult": False, "displayId": "one"},
            {"data": {"text/plain": "2"}, "metadata": {"m": 1}, "isResult": False, "displayId": "one", "isUpdate": True},
            {"data": {"text/plain": "3"}, "metadata": {}, "isResult": True}])

    def test_clear(self):
        self.run_cell("Cloche\\clear(); Cloche\\clear(true); Cloche\\clear(wait: true);")
        self.assertEqual(self.context.cleared, [(False, 0), (True, 0), (True, 0)])

    def test_objects_that_say_what_they_look_like(self):
        self.run_cell("class Looks implements Cloche\\Displayable { public $x = 1; function __construct(public array $data) {} function display(): array { return $this->data; } }")
        data = self.shown(r'new Looks(["text/html" => "<p>", "image/png" => "\x89", "application/json" => [1]])')
        self.assertEqual((data["text/html"], data["image/png"], data["application/json"]), ("<p>", b"\x89", [1]))
        self.assertTrue(data["text/plain"].startswith("Looks {x: 1, data: ["), data)
        self.assertEqual(self.shown("display(new Looks(['text/plain' => 'own']));"), {"text/plain": "own"})
        self.assertEqual(self.error("new Looks(['html' => 1])")["message"], "Looks::display() has the key 'html', which is no MIME type")

    def test_plain_data_comes_as_json_too(self):
        self.assertEqual(self.shown("['a' => [1, 'ü', 1.5, true, null], 'e' => []]")["application/json"], {"a": [1, "ü", 1.5, True, None], "e": []})
        self.assertEqual(self.shown("(object) ['a' => 1]"), {"text/plain": "stdClass {a: 1}", "application/json": {"a": 1}})
        for code in ("[1, NAN]", "['a' => fn() => 1]", r'["\xff"]', "[PHP_INT_MAX]", "[new ArrayObject([1])]", "range(1, 10001)", "$loop = []; $loop[] = &$loop; $loop", "'text'", "1"):
            with self.subTest(code):
                self.assertEqual(set(self.shown(code)), {"text/plain"})

    def test_what_cannot_be_sent(self):
        self.assertEqual(self.display("Cloche\\json(fopen('/dev/null', 'r'))"), {
            "data": {}, "metadata": {"application/json": {"error": "$: resource (stream) cannot be sent: return its data"}}, "isResult": False})

    def test_what_is_too_large_lies_in_a_file(self):
        display = self.display("Cloche\\html(str_repeat('a', 3000))", storeBytes=1000)
        self.assertStored(display, "text/html", b"a" * 3000)
        self.assertEqual(display["data"], {"text/plain": "<text/html of 3000 bytes>"})

    def test_text_is_short(self):
        for code, limit in [("str_repeat('x', 1000000)", 11000), ("range(1, 1000000)", 1000), ("array_fill(0, 90, str_repeat('y', 1000))", 13000),
                            ("$deep = 1; for ($i = 0; $i < 5000; $i++) { $deep = [$deep]; } $deep", 200)]:
            with self.subTest(code):
                self.assertLess(len(self.text(code)), limit)
        self.run_cell("$deep = null;")

    def test_text_of_values(self):
        self.run_cell("enum Suit: string { case Hearts = 'H'; } class Node { private $secret = 1; protected $next; public $list = ['k' => 2.0]; function loop() { $this->next = $this; return $this; } }")
        for code, text in [("true", "true"), ("1.0", "1.0"), ("-0.5e-30", "-5.0E-31"), ("NAN", "NAN"), ('"it\'s\\n"', "'it\\'s\n'"), (r'"\0\x01"', '"\\000\\001"'), (r'"\xff"', '"\\377"'), ("[]", "[]"),
                           ("[1, [2, 'k' => null]]", "[1, [0 => 2, 'k' => null]]"), ("Suit::Hearts", "Suit::Hearts"), ("(new Node)->loop()", "Node {secret: 1, next: Node {...}, list: ['k' => 2.0]}"),
                           ("new DateTime('2026-01-02 03:04:05 UTC')", "DateTime(2026-01-02T03:04:05.000000+00:00)"), ("new Exception('no')", "Exception('no')"),
                           ("new Cloche\\Bytes('abc')", "Cloche\\Bytes(3 bytes)")]:
            with self.subTest(code):
                self.assertEqual(self.text(code), text)


class Names(PhpCase):
    def test_what_the_cells_made(self):
        self.run_cell("$text = str_repeat('ü', 300); $list = [1, 2]; $none = null; $made = new ArrayObject(); $call = fn($x) => 1; function described(int $a, ...$b) {} class Described extends ArrayObject {} 1")
        rows = {row["name"]: (row["type"], row["summary"]) for row in self.result("describe")["variables"]}
        self.assertLessEqual(len(rows["text"][1]), 200)
        self.assertEqual({name: row for name, row in rows.items() if name not in ("text", "object")}, {
            "list": ("array", "2 items"), "none": ("null", "null"), "made": ("ArrayObject", "ArrayObject"), "call": ("Closure", "Closure($x)"),
            "described": ("function", "described($a, ...$b)"), "Described": ("class", "class Described extends ArrayObject"), "Lazy": ("class", "class Lazy")})

    def test_completions(self):
        self.run_cell("class Lazy { public $open_one = 1; private $open_two; static $shared; const CON = 1; function open_door() {} function __get($n) { echo 'ran'; } static function make() {} } $object = new Lazy;")
        for code, expected in [("$obj", (["$object"], 0, 4)), ("é; $object->open", (["open_door", "open_one"], 12, 16)), ("Lazy::C", (["CON", "class"], 6, 7)), ("Lazy::$", (["$shared"], 6, 7)),
                               ("array_su", (["array_sum"], 0, 8)), ("$nothing->x", ([], 10, 11)), ("1 + ", ([], 4, 4))]:
            with self.subTest(code):
                result = self.result("complete", code=code + " behind", at=len(code))
                self.assertEqual((result["matches"], result["from"], result["to"]), expected)
        self.assertIn("foreach", self.result("complete", code="forea", at=99)["matches"])
        self.assertEqual(self.printed(""), "")


class Looks(PhpCase):
    """`inspect` and `isComplete`: nothing of the cells runs."""

    def inspected(self, code, at=None, detail=0):
        data = self.result("inspect", code=code, at=len(code) if at is None else at, detail=detail)["data"]
        return data["text/plain"] if data else None

    def test_inspect(self):
        self.run_cell("""
/**
 * Adds.
 *
 * @return int
 */
function add_(int $a, $b = 2, ...$more): int
{
    return $a + $b;
}
/** Of a shop. */
class Shop_ extends ArrayObject {
    /** The rate. */
    const RATE = 5;
    static $shared = 1;
    public $rate = 3;
    function __construct(int $rate = self::RATE + 1) {}
    /** Of total. */
    function total(?string $x = null, $y = new Never_()) {}
    static function make() {}
}
$shop = new Shop_; $colour = 'red'; define('LIMIT_', 7); 1""".strip())
        self.assertEqual(self.inspected("echo $colour"), "Value: 'red'\nType: string")
        self.assertEqual(self.inspected("add_", 2), "Signature: add_(int $a, $b = 2, ...$more): int\nDocumentation: Adds.\n\n@return int\nType: function")
        self.assertEqual(self.inspected("1 + add_(1, [2], "), self.inspected("add_"))
        self.assertIn("Source:\nfunction add_(int $a, $b = 2, ...$more): int\n{\n    return $a + $b;\n}", self.inspected("add_", detail=1))
        self.assertIn("Signature: total(?string $x = NULL, $y = new \\Never_())\nDocumentation: Of total.\nOwner: Shop_\nType: method", self.inspected("$shop->total"))
        self.assertIn("Signature: new Shop_(int $rate = self::RATE + 1)\nDocumentation: Of a shop.\nDeclared as: class Shop_ extends ArrayObject", self.inspected("new Shop_"))
        self.assertIn("Source:\nclass Shop_", self.inspected("Shop_", detail=1))
        self.assertEqual(self.inspected("Shop_::RATE"), "Documentation: The rate.\nOwner: Shop_\nType: constant")
        self.assertIn("Signature: static make()", self.inspected("Shop_::make"))
        self.assertIn("Type: property", self.inspected("Shop_::$shared"))
        self.assertEqual(self.inspected("LIMIT_"), "Value: 7\nType: int")
        self.assertIn("Signature: strlen(string $string): int", self.inspected("strlen("))
        self.assertIn("Type: ", self.inspected("é; $shop"))
        for code, at in (("nosuch", 6), ("$nosuch", 7), ("$shop->nosuch", 13), ("Shop_::NOSUCH", 13), ("Nosuch_::A", 10), ("", 0), ("1 + ", 4), (")", 1), ("f()->total", 10), ("Cloche\\Agent\\Server", 19)):
            self.assertIsNone(self.inspected(code, at), code)
        self.assertIn("red", self.inspected("$colour", 10 ** 9))

    def test_liars_are_not_asked(self):
        self.run_cell("""
class Liar_ implements Countable, IteratorAggregate {
    private $own = 1;
    function __get($n) { echo 'ran'; while (true); }
    function __isset($n) { echo 'ran'; while (true); }
    function __call($n, $a) { echo 'ran'; while (true); }
    static function __callStatic($n, $a) { echo 'ran'; while (true); }
    function __toString(): string { echo 'ran'; while (true); }
    function __debugInfo() { echo 'ran'; while (true); }
    function count(): int { echo 'ran'; while (true); }
    function getIterator(): Iterator { echo 'ran'; while (true); }
}
class Day_ extends DateTime { function format($f): string { echo 'ran'; return 'x'; } }
spl_autoload_register(function ($name) { echo 'ran'; });
set_error_handler(function () { echo 'ran'; });
$liar = new Liar_; $day = new Day_; $huge = str_repeat('x', 1000000); $broken = "\\xff\\xfe"; $self = [&$self]; 1""".strip())
        self.assertEqual(self.inspected("$liar", detail=1), "Value: Liar_\nType: Liar_")
        for code in ("$liar->own", "$liar->nosuch", "Nosuch_", "Nosuch_::A", "Liar_::nosuch"):
            self.inspected(code, detail=1)
        self.assertIn("Type: Day_", self.inspected("$day"))
        self.assertLess(len(self.inspected("$huge")), 1000)
        self.assertIn("Type: string", self.inspected("$broken"))
        self.assertIn("Value: 1 item", self.inspected("$self"))
        self.assertEqual(self.result("isComplete", code="/* abc")["status"], "incomplete")
        self.run_cell("restore_error_handler(); array_map('spl_autoload_unregister', spl_autoload_functions()); 1")
        self.assertEqual(self.printed(""), "")

    def test_is_complete(self):
        judged = {"complete": ["$x = 1;", "1 + 1", "", "function f_() {\n}", "// a", "foreach ([1] as $x) {}", "f_(1)", "do {} while ($x)", "if ($x) f_()", "echo 'a' ?> html", "<<<A\nabc\nA"],
                  "incomplete": ["function f_() {", "function f_()", "[1,", "f_(", "'abc", '"abc', "<<<A\nabc", "/* a", "1 +", "$x->", "$a ? $b", "if ($x)", "foreach ($a as $b)", "class A", "if ($x) {} else", "while (f_(1))"],
                  "invalid": ["$x = );", "}", "f_(1))", "1 1", "class A { 5 }", "$x = (]"]}
        for status, codes in judged.items():
            for code in codes:
                self.assertEqual(self.result("isComplete", code=code)["status"], status, code)
        self.assertIn(self.result("isComplete", code="(" * 100000)["status"], ("incomplete", "invalid"))
        self.assertEqual(self.result("isComplete", code="  if ($x) {")["indent"], "      ")


class Opening(unittest.TestCase):
    def start(self):
        agent = Agent()
        self.addCleanup(agent.end)
        return agent

    def test_place_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            where = os.path.join(folder, "a", "b")
            context = Context(self.start()).opened(cwd=where, env={"COLOUR": "blue"}, language="php")
            pathlib.Path(where, "mine.php").write_text("<?php return 5;")
            context.cell("[getcwd(), getenv('COLOUR'), $_SERVER['COLOUR'], include 'mine.php', trim(shell_exec('echo $COLOUR'))]")
            self.assertEqual(context.displays[0]["data"]["application/json"], [where, "blue", "blue", 5, "blue"])

    def test_what_is_refused(self):
        agent = self.start()
        cases = [("cell", {"code": "", "count": 1}, -32600, "no context is open here: `open` comes before `cell`"),
                 ("open", {"language": "bash"}, -32602, "params.language is 'bash': this is the agent of php"),
                 ("open", {"env": {"a=b": "c"}}, -32602, "params.env['a=b'] is no variable of an environment: a name without =, and text, neither with NUL"),
                 ("open", {"cwd": 1}, -32602, "params.cwd is of the wrong type: int"),
                 ("open", {"cwd": "/dev/null/x"}, -32000, None),
                 ("open", {}, None, None),
                 ("open", {}, -32600, "a context is open here already"),
                 ("cell", {"code": 1, "count": 1}, -32602, "params.code is missing or of the wrong type"),
                 ("cell", {"code": "", "count": -1}, -32602, "params.count is -1: less than 0"),
                 ("complete", {"code": ""}, -32602, "params.at is missing or of the wrong type"),
                 ("branch", {}, -32001, "contexts of PHP cannot be forked: this agent has no way to do that")]
        for method, params, code, message in cases:
            with self.subTest(method, params=params):
                error = agent.ask(method, **params)[0].get("error", {})
                self.assertEqual(error.get("code"), code)
                if message is not None:
                    self.assertEqual(error["message"], message)
        agent.send_raw(b'{"jsonrpc":"2.0","id":1,"method":"cell"}')
        self.assertEqual(agent.receive()[0]["error"]["code"], -32602)
        self.assertEqual(agent.ask("cell", code="", count=1)[0]["result"], {"status": "ok"})

    def test_without_the_tokenizer(self):
        with Agent("-n") as agent:
            if "tokenizer" in subprocess.run([PHP, "-n", "-m"], capture_output=True, text=True).stdout:
                self.skipTest("the tokenizer is compiled into this PHP")
            self.assertEqual(agent.ask("open")[0]["error"]["data"]["type"], "missing_runtime")


if __name__ == "__main__":
    unittest.main()
