"""Code that, meaning to or not, gets in the way of the agent."""
import unittest

from php_agent import OneAgentCase

LIBC = "$c = FFI::cdef('int close(int); int dup2(int, int); int open(const char *, int, ...);'); "


class Hostile(OneAgentCase):
    """Calls of one test share an agent, to see that it lives on."""

    def assertAlive(self):
        self.assertEqual(self.call("return $args[0] + 1;", 41), 42)

    def dies(self, code):
        self.assertIsNone(self.agent.request(code=code))

    def test_text_that_looks_like_a_frame_is_only_text(self):
        self.assertEqual(self.call(r'echo "\x08\0\0\0\4\0\0\0null"; return 1;'), 1)
        self.assertAlive()

    def test_closed_streams(self):
        self.assertEqual(self.call("fclose(STDIN); fclose(STDOUT); fclose(STDERR); echo 'x'; return $undefined;"), None)
        self.assertAlive()

    def test_every_resource_closed(self):
        self.assertEqual(self.call("foreach (get_resources() as $r) { try { fclose($r); } catch (Throwable) {} } return 1;"), 1)
        self.assertAlive()

    def test_programs_do_not_inherit_the_channel(self):
        out = self.call("return shell_exec('for f in /proc/self/fd/*; do readlink $f; done');")
        self.assertNotIn("socket:", out)

    def test_descriptors_closed(self):
        self.dies(LIBC + "for ($i = 3; $i < 2000; $i++) $c->close($i);")
        self.assertEqual(self.end()[0], 1)

    def test_number_of_the_channel_taken_by_another_file(self):
        self.dies(LIBC + "$n = $c->open('victim', 0102, 0600); for ($i = $n + 1; $i < 1024; $i++) if (@readlink(\"/proc/self/fd/$i\")) $c->dup2($n, $i);")
        with open(self.agent.workdir + "/victim") as file:
            victim = file.read()
        self.assertEqual((victim, self.end()[0]), ("", 1))

    def test_killed(self):
        self.dies("posix_kill(getmypid(), 9);")
        self.assertEqual(self.end()[0], -9)

    def test_forked_child_that_returns(self):
        code = "$pid = pcntl_fork(); if ($pid) pcntl_waitpid($pid, $s); echo $pid ? 'parent ' : 'child '; return $pid ? pcntl_wexitstatus($s) : 'child';"
        self.assertEqual(self.call(code), 0)
        self.assertAlive()
        self.assertEqual(self.end()[:2], (0, "child parent "))

    def test_forked_child_that_throws(self):
        code = "$pid = pcntl_fork();\nif (!$pid) throw new LogicException('child'); pcntl_waitpid($pid, $s); return pcntl_wexitstatus($s);"
        self.assertEqual(self.call(code), 255)
        self.assertAlive()
        self.assertIn("Uncaught LogicException: child in main.php:2\nStack trace:\n#0 {main}", self.end()[2])

    def test_forked_child_that_exits(self):
        code = "function f() { $pid = pcntl_fork(); if (!$pid) exit(7); pcntl_waitpid($pid, $s); return pcntl_wexitstatus($s); }"
        self.assertEqual(self.call(code), 7)
        self.assertAlive()

    def test_alarms_left_armed(self):
        code = ("pcntl_async_signals(true); pcntl_signal(SIGALRM, function () { throw new Exception('late'); });"
                " $c = FFI::cdef('unsigned ualarm(unsigned, unsigned);'); $c->ualarm(500, 500); return str_repeat('x', 3000000);")
        for _ in range(10):
            answer = self.answer(code)
            if "result" in answer:
                self.assertEqual(len(answer["result"]["value"]), 3000000)
            else:
                self.assertEqual(answer["error"]["data"]["message"], "late")

    def test_handlers_left_behind(self):
        self.call("set_error_handler(function ($n, $m) { throw new Exception('handled ' . $m); }); set_exception_handler(function () { exit(9); }); return 1;")
        self.assertEqual(self.error("return $undefined;")["message"], "handled Undefined variable $undefined")
        self.assertEqual(self.call("return [1.5, ['a' => new ArrayObject([1])]];"), [1.5, {"a": {"0": 1}}])
        self.assertEqual(self.error("throw new DomainException('x');")["type"], "DomainException")

    def test_output_callbacks(self):
        error = self.error("ob_start(function () { throw new Exception('from the callback'); }); echo 'x'; return 1;")
        self.assertEqual(error["message"], "from the callback")

    def test_output_callback_that_exits(self):
        self.assertEqual(self.error("ob_start(function () { exit(5); }); echo 'x'; return 1;")["type"], "ExitException")

    def test_buffer_that_cannot_be_removed(self):
        self.assertEqual(self.call("set_error_handler(function () { throw new Exception('handler'); }); ob_start(null, 0, 0); echo 'kept'; return 1;"), 1)
        self.assertEqual(self.end()[1], "kept")

    def test_shutdown_functions_that_exit(self):
        self.assertEqual(self.error("register_shutdown_function(function () { exit(4); }); exit(3);")["type"], "ExitException")
        self.assertEqual(self.end()[0], 4)

    def test_shutdown_functions_that_exit_after_a_fatal_error(self):
        error = self.error("register_shutdown_function(function () { echo error_get_last()['message']; exit(4); }); function strlen() {}", function="x")
        self.assertEqual(error["type"], "CompileError")

    def test_destructors_that_throw(self):
        self.assertEqual(self.call("class D { function __destruct() { throw new Exception('late'); } } $d = new D; return 1;"), 1)
        self.assertIn("late", self.end()[2])

    def test_wrappers_taken_away(self):
        self.assertEqual(self.call("foreach (stream_get_wrappers() as $w) stream_wrapper_unregister($w); return 1;"), 1)
        self.assertAlive()
        self.assertEqual(self.error("\nthrow new Exception('x');")["stack"], "Exception: x in main.php:2\nStack trace:\n#0 {main}")

    def test_source_is_nobody_elses(self):
        self.assertIs(self.call("return @file_get_contents('cloche://code');"), False)

    def test_settings(self):
        self.assertEqual(self.call("ini_set('open_basedir', '/tmp'); ini_set('serialize_precision', '2'); ini_set('precision', '1');"
                                   " set_time_limit(1); error_reporting(0); return 0.1 + 0.2;"), 0.30000000000000004)
        self.assertEqual(self.error("return 1 % 0;")["type"], "DivisionByZeroError")

    def test_functions_in_the_agents_namespace(self):
        code = "namespace Cloche\\Agent; function strlen($x) { return 0; } function ob_get_level() { return 0; }"
        self.call(code, function="strlen", args=["x"])
        self.assertAlive()

    def test_deep_data(self):
        self.assertIn("nested deeper", self.error("class J implements JsonSerializable { function jsonSerialize(): mixed { return new J; } } return new J;")["message"])
        self.assertIn("nested deeper", self.error("class I implements IteratorAggregate { function getIterator(): Iterator { return new ArrayIterator([new I]); } } return new I;")["message"])
        self.assertAlive()

    def test_endless_recursion_within_a_limit(self):
        self.assertEqual(self.error("ini_set('memory_limit', '32M'); function _f() { return _f(); } _f();")["type"], "FatalError")

    def test_working_directory_gone(self):
        self.assertEqual(self.call("rmdir(getcwd()); return 1;"), 1)
        self.assertAlive()

    def test_server_variables_spoilt(self):
        self.assertEqual(self.call("$_SERVER = null; $argv = 5; foreach (array_keys($GLOBALS) as $k) unset($GLOBALS[$k]); return 1;"), 1)
        self.assertAlive()


if __name__ == "__main__":
    unittest.main()
