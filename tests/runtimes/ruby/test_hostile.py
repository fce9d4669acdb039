"""Code that, meaning to or not, gets in the way of the agent."""
import pathlib
import unittest

from harness import AgentCase


class Hostile(AgentCase):
    def test_text_that_looks_like_a_frame_is_only_text(self):
        self.assertEqual(self.call("def f\n STDOUT.write(\"\\x08\\0\\0\\0\\4\\0\\0\\0null\")\n 1\nend"), 1)

    def test_replaced_streams(self):
        self.assertEqual(self.call("def f\n $stdout = Class.new { def write(*) = 0; def flush = raise(SystemExit) }.new\n puts 'x'\n 1\nend"), 1)
        self.assertEqual(self.call("$stdout = STDERR\n$stderr = STDERR\n2"), 2)

    def test_closed_streams(self):
        self.assertEqual(self.call("def f\n STDOUT.close\n STDERR.close\n STDIN.close\n 3\nend"), 3)
        self.assertAlive()

    def test_descriptor_3_is_free(self):
        self.assertEqual(self.call("def f\n r, w = IO.pipe\n w.write('a')\n w.close\n [r.fileno, r.read]\nend"), [3, "a"])

    def test_children_do_not_inherit_the_channel(self):
        code = "IO.popen(['ruby', '--disable-gems', '-e', 'p Dir.children(\"/proc/self/fd\").map(&:to_i).select { |n| n > 2 && File.socket?(\"/proc/self/fd/#{n}\") }'], close_others: false).read"
        self.assertEqual(self.call(code), "[]\n")
        self.assertEqual(self.call("`echo hi`"), "hi\n")
        self.assertEqual(self.call("[system('exit 3'), $?.exitstatus]"), [False, 3])

    def test_hard_exit_closes_the_channel(self):
        self.assertIsNone(self.request(code="def f = exit!(7)"))
        self.assertEqual(self.end()[0], 7)

    def test_all_descriptors_closed(self):
        self.assertIsNone(self.request(code="def f = ObjectSpace.each_object(IO) { |io| io.close unless io.closed? || io.fileno < 3 }"))
        self.assertEqual(self.end()[0], 1)

    def test_number_of_the_channel_taken_by_another_file(self):
        code = ("def f\n v = File.open('victim', 'w+')\n ObjectSpace.each_object(IO) { |io| io.reopen(v) rescue nil unless io.closed? || io.fileno < 3 || io.equal?(v) }\n 1\nend")
        self.assertIsNone(self.request(code=code))
        with open(self.agent.workdir + "/victim") as file:
            victim = file.read()
        self.assertEqual((victim, self.end()[0]), ("", 1))

    def test_forked_child_that_returns(self):
        code = "def f\n pid = fork\n Process.wait(pid) if pid\n puts(pid ? 'in parent' : 'in child')\n pid ? 'parent' : 'child'\nend"
        self.assertEqual(self.call(code), "parent")
        self.assertAlive()
        status, out, _ = self.end()
        self.assertEqual((status, sorted(out.splitlines())), (0, ["in child", "in parent"]))

    def test_forked_child_that_throws(self):
        code = "def f\n pid = fork or raise KeyError, 'child'\n Process.wait(pid)\n $?.exitstatus\nend"
        self.assertEqual(self.call(code), 1)
        self.assertIn("main.rb:2:in `f': child (KeyError)", self.end()[2])

    def test_forked_child_that_exits(self):
        self.assertEqual(self.call("def f\n pid = fork or exit(5)\n Process.wait(pid)\n $?.exitstatus\nend"), 5)

    def test_channel_closes_although_a_child_lives_on(self):
        alive = pathlib.Path(self.agent.workdir, "alive")
        alive.touch()
        self.addCleanup(alive.unlink)  # before the agent's end, which waits for the child
        code = "def f\n fork { STDOUT.close; STDERR.close; sleep 0.01 while File.exist?('%s') }\n exit!(0)\nend" % alive
        self.assertIsNone(self.request(code=code))

    def test_threads_left_running(self):
        self.assertEqual(self.call("def f\n Thread.new { sleep 60 }\n 1\nend"), 1)
        self.assertEqual(self.end()[0], 0)

    def test_at_exit_runs_at_the_end(self):
        self.assertEqual(self.call("def f\n at_exit { puts 'bye' }\n 1\nend"), 1)
        self.assertEqual(self.end()[1], "bye\n")

    def test_at_exit_that_throws(self):
        self.call("at_exit { exit 4 }\n1")
        self.assertEqual(self.end()[0], 4)

    def test_deep_recursion(self):
        error = self.error("def f = f()")
        self.assertEqual(error["type"], "SystemStackError")
        self.assertLess(len(error["stack"]), 300000)
        self.assertAlive()

    def test_deep_recursion_in_encoding(self):
        self.assertEqual(self.error("class R\n def to_h = to_h()\nend\nR.new")["type"], "SystemStackError")
        self.assertIn("deeper", self.error("class D\n def to_h = {d: D.new}\nend\nD.new")["message"])
        self.assertAlive()

    def test_out_of_memory(self):
        self.assertEqual(self.error("def f = raise(NoMemoryError, 'm')")["type"], "NoMemoryError")
        self.assertIn(self.error("'x' * (1 << 62)")["type"], ("ArgumentError", "NoMemoryError"))

    def test_operators_changed(self):
        code = ("class Integer\n %i[+ - * < > <= >= == <=> to_s & <<].each { |n| define_method(n) { |*a| raise 'changed' } }\nend\n"
                "class String\n %i[== << bytesize byteslice encoding valid_encoding? gsub match? + to_s size unpack b].each { |n| define_method(n) { |*a| 'changed' } }\nend\n"
                "class Array\n %i[each << [] size map pack join include? any? first each_with_index].each { |n| define_method(n) { |*a| nil } }\nend\n"
                "class Hash\n %i[[] []= each key? each_pair map any? delete to_h].each { |n| define_method(n) { |*a| nil } }\nend\n"
                "class Float\n def to_s = 'changed'\n def nan? = true\nend\nclass Symbol\n def name = 'changed'\n def to_s = 'changed'\nend\n"
                "{a: [1, 2.5, 'x\"y', :z, nil, true], 'b' => {c: 2 ** 60}}")
        want = {"a": [1, 2.5, 'x"y', "z", None, True], "b": {"c": {"$": "bigint", "v": str(2 ** 60)}}}
        self.assertEqual(self.call(code), want)
        self.assertEqual(self.error("class Integer\n def /(o) = raise(KeyError, 'mine')\nend\n1 / 2")["message"], "mine")

    def test_modules_prepended_and_methods_removed(self):
        code = ("module Bad\n def each(*) = raise('bad')\n def size = -1\n def to_s = 'bad'\n def ==(o) = true\n def encoding = Encoding::BINARY\nend\n"
                "[Array, Integer, String, Hash].each { |k| k.prepend(Bad) }\n[[1], 'x', {a: 1}]")
        self.assertEqual(self.call(code), [[1], "x", {"a": 1}])
        self.assertAlive()

    def test_methods_undefined(self):
        self.assertEqual(self.call("class String\n undef_method :gsub, :bytesize\nend\nclass Array\n remove_method :each\nend\n['a\"', {b: [1]}]"),
                         ['a"', {"b": [1]}])
        self.assertEqual(self.error("'x'.gsub('x', 'y')")["type"], "NoMethodError")

    def test_changes_stay_for_the_users_next_code(self):
        self.assertEqual(self.call("class Integer\n def +(o) = 42\nend\n1 + 1"), 42)
        self.assertEqual(self.call("2 + 2"), 42)

    def test_kernel_changed(self):
        code = ("module Kernel\n %i[puts p raise loop format eval binding block_given? lambda proc require catch throw].each { |n| define_method(n) { |*a| nil } }\nend\n"
                "class IO\n def write(*) = 0\nend\nmodule Process\n def self.pid = 1\nend if false\n{a: 1}")
        self.assertEqual(self.call(code), {"a": 1})
        self.assertIn("error", self.answer("1 / 0"))
        self.assertIn("$[0]: Class cannot be sent", self.error("[Object]")["message"])

    def test_json_changed(self):
        code = "require 'json'\nmodule JSON\n def self.generate(*) = 'no'\n def self.parse(*) = 'no'\nend\nclass String\n def to_json(*) = 'no'\nend\n"
        self.assertEqual(self.call(code + "['x']"), ["x"])
        self.assertEqual(self.call("def f(x) = x", {"long": "y" * 100000}), {"long": "y" * 100000})

    def test_constants_taken(self):
        code = "%i[String Array Hash Set Comparable Encoding Process Thread].each { |n| Object.send(:remove_const, n) if Object.const_defined?(n) }\n[1, 'x']"
        self.assertEqual(self.call(code), [1, "x"])

    def test_hooks_and_tracing(self):
        self.assertEqual(self.call("set_trace_func(proc { |*a| })\nclass Object\n def self.method_added(n) = super\n def self.const_missing(n) = 1\nend\n1"), 1)
        self.assertAlive()

    def test_interrupts_from_threads(self):
        code = "def f\n m = Thread.current\n Thread.new { loop { sleep 0.0003; m.raise('late') } }\n 'x' * 3_000_000\nend"
        for _ in range(10):
            answer = self.answer(code, function="f")
            if "result" in answer:
                self.assertEqual(len(answer["result"]["value"]), 3000000)
            else:
                self.assertEqual(answer["error"]["data"]["message"], "late")

    def test_handlers_of_the_user_stay_for_the_next_call(self):
        self.call("trap('USR1') { puts 'no' }\ntrap(:SIGUSR1) { puts 'usr1' }\n1")
        self.call("Process.kill('USR1', $$)\nsleep 0.01")
        self.assertEqual(self.error("trap('NONE') {}")["type"], "ArgumentError")
        self.assertEqual(self.end()[1], "usr1\n")

    def test_handlers_do_not_run_in_the_agent(self):
        code = "def f\n pid = $$\n trap('USR2') { raise 'late' }\n fork { 200.times { Process.kill('USR2', pid); sleep 0.0002 } }\n 'x' * 3_000_000\nend"
        for _ in range(5):
            answer = self.answer(code, function="f")
            if "result" in answer:
                self.assertEqual(len(answer["result"]["value"]), 3000000)
            else:
                self.assertEqual(answer["error"]["data"]["message"], "late")

    def test_deadlock(self):
        self.assertEqual(self.error("Queue.new.pop")["type"], "fatal")
        self.assertAlive()

    def test_exceptions_that_fight(self):
        code = ("class E < StandardError\n %i[message to_s backtrace cause full_message class inspect is_a? exception].each { |n| define_method(n) { |*a| Kernel.raise SystemExit } unless n == :exception }\nend\n"
                "def f = raise(E)")
        self.assertEqual(self.error(code, function="f")["type"], "E")
        self.assertAlive()

    def test_values_that_fight(self):
        code = "class B < BasicObject\n def method_missing(n, *a) = ::Kernel.raise(::SystemExit)\nend\n[B.new]"
        self.assertIn("cannot be sent", self.error(code)["message"])
        code = "class O\n %i[class is_a? instance_of? respond_to? method public_method equal? == hash object_id].each { |n| define_method(n) { |*a| raise 'fight' } }\nend\n[O.new]"
        self.assertIn("$[0]: O cannot be sent", self.error(code)["message"])

    def test_working_directory_gone(self):
        self.assertEqual(self.call("def f\n Dir.rmdir(Dir.pwd)\n $0 = 'x' * 1000\n $PROGRAM_NAME = 'y'\n ENV.clear\n 1\nend"), 1)
        self.assertAlive()

    def test_descriptors_used_up(self):
        code = "def f\n Process.setrlimit(:NOFILE, 64) \n a = []\n begin; loop { a << File.open('/dev/null') }; rescue SystemCallError; end\n raise KeyError, 'k'\nend"
        self.assertEqual(self.error(code)["type"], "KeyError")


if __name__ == "__main__":
    unittest.main()
