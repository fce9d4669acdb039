"""Cells in a context: their view, displays, output and input, and their failures."""
import os
import pathlib
import select
import signal
import tempfile
import unittest

from contexts import Context, ContextCase
from context_process import CHART


class Namespace(ContextCase):
    def test_what_stays(self):
        self.run_cell("x = 20\n@kept = 1\n$kept = 2\ndef f(a) = a + 1\nclass Kept; def n = 3; end\nLIMIT = 4;")
        self.assertEqual(self.text("[x, @kept, $kept, f(1), Kept.new.n, LIMIT]"), "[20, 1, 2, 2, 3, 4]")
        self.assertEqual(self.text("[1].each { x += 1 }; x"), "21")
        self.assertEqual(self.text("counter = -> { x += 1 }; x = 50; counter.call"), "51")

    def test_the_last_result(self):
        self.run_cell("40 + 2")
        self.assertEqual(self.text("_ + 1"), "43")
        self.run_cell("9", silent=True)
        self.assertEqual(self.text("_"), "43")

    def test_where_cells_run(self):
        self.assertEqual(self.text("[self.to_s, __FILE__, __LINE__, __method__]"), '["main", "Cell In[%d]", 1, nil]' % self.context.count)
        self.assertEqual(self.text("binding.local_variable_defined?(:request)"), "false")
        self.assertEqual(self.text("\n\n__LINE__", filename="mine.rb"), "3")
        self.assertEqual(self.text("DATA.read\n__END__\nbelow"), '"below"')
        self.assertEqual(self.text("defined?(ClocheAgent).inspect"), '"nil"')

    def test_place_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            context = Context()
            self.addCleanup(context.end)
            where = os.path.join(folder, "a", "b")
            context.opened(cwd=where, env={"COLOUR": "blue"})
            pathlib.Path(where, "mine.rb").write_text("def mine = 5")
            context.cell("require_relative 'mine'\n[Dir.pwd, ENV['COLOUR'], mine]")
            self.assertEqual(context.displays[0]["data"]["application/json"], [where, "blue", 5])


class Results(ContextCase):
    def test_the_last_expression(self):
        self.assertEqual(self.run_cell("1 + 1")[0], {"data": {"text/plain": "2"}, "metadata": {}, "isResult": True})
        for code in ("nil", "x = 5;", "5 ;\n", "", "# nothing", "\n\n", "puts 1", "[1].each { |i| i } && nil"):
            self.assertEqual(self.run_cell(code), [], code)
        self.assertEqual(self.text("x = 3"), "3")
        self.assertEqual(self.text("def named; end"), ":named")
        self.assertEqual(self.text("false"), "false")

    def test_silent(self):
        self.assertEqual(self.run_cell("8", silent=True), [])
        self.assertEqual(self.run_cell("display(9)", silent=True)[0]["data"], {"text/plain": "9"})

    def test_plain_data_is_json_too(self):
        for code, json in (('{"a" => [1, 2.5, nil, true, "x"]}', {"a": [1, 2.5, None, True, "x"]}), ("{a: 1}", {"a": 1}), ("[]", [])):
            self.assertEqual(self.shown(code)["application/json"], json, code)
        for code in ("{1 => 2}", "{a: 1, 'b' => 2}", "[:a]", "[Float::NAN]", "[-0.0]", "[1 << 60]", "[Object]", "[0] * 20000", "x = []; x << x",
                     "'text'", "[\"\\xff\"]", "[\"\\xff\".b]", "Class.new(Array).new", "{}.compare_by_identity", "[1].to_enum"):
            self.assertNotIn("application/json", self.shown(code), code)

    def test_long_ones_are_cut(self):
        self.assertEqual(self.text("[7] * 3000"), "[%s, ... 2000 more]" % ", ".join(["7"] * 1000))
        self.assertTrue(self.text("(1..1500).to_h { |i| [i, i] }").endswith("1000=>1000, ... 500 more}"))

    def test_an_inspect_that_fails(self):
        display = self.run_cell("class Bad; def inspect = raise('no'); end; Bad.new")[0]
        self.assertEqual((display["data"], display["metadata"]), ({"text/plain": "#<Bad>"}, {"text/plain": {"error": "RuntimeError: no"}}))
        self.assertEqual(self.run_cell("class Odd; def inspect = 5; end; Odd.new")[0]["data"], {"text/plain": "#<Odd>"})
        self.assertEqual(self.text("BasicObject.new")[:14], "#<BasicObject:")
        self.assertEqual(self.error("class Out; def inspect = exit(1); end; Out.new")["name"], "SystemExit")
        self.assertEqual(self.text('"\\xff\\u00e9"'), '"\\xFFé"')


class Displays(ContextCase):
    def test_several_and_the_result(self):
        displays = self.run_cell("display('a')\ndisplay(1, nil)\n[1].each { |i| Cloche.display(i) }\n3")
        self.assertEqual([(d["data"]["text/plain"], d["isResult"]) for d in displays],
                         [('"a"', False), ("1", False), ("nil", False), ("1", False), ("3", True)])

    def test_rubys_own_display(self):
        self.run_cell("5.display\ndisplay\ndisplay($stdout)\n'<end>'.display\nnil")
        self.assertEqual(self.context.printed("<end>"), "5mainmain<end>")

    def test_kinds(self):
        for code, kind, value in [
            ("html('<b>')", "text/html", "<b>"), ("markdown('# a')", "text/markdown", "# a"), ("latex('$x$')", "text/latex", "$x$"),
            ("svg('<svg/>')", "image/svg+xml", "<svg/>"), ("json({a: [1]})", "application/json", {"a": [1]}), ("javascript('1')", "application/javascript", "1"),
            ("png(\"\\x89PNG\")", "image/png", b"\x89PNG"), ("jpeg(\"\\xff\\xd8\")", "image/jpeg", b"\xff\xd8"), ("pdf('%PDF')", "application/pdf", b"%PDF"),
            ("chart({type: 'line', elements: []})", CHART, {"type": "line", "elements": []}),
        ]:
            display = self.run_cell("Cloche." + code)[0]
            self.assertEqual((display["data"], display["isResult"]), ({kind: value}, False), code)
        error = self.error("Cloche.html(5)")
        self.assertEqual((error["name"], error["message"]), ("TypeError", "Cloche.html takes a String, not Integer"))
        self.assertEqual(error["traceback"], ["%s, in `<main>': %s (TypeError)" % (self.place(1), error["message"])])

    def test_what_objects_say(self):
        self.run_cell("class Look\n def to_html = '<i>'\n def to_svg = nil\n def to_latex = 5\n def to_png = \"\\x89PNG\"\n def to_markdown(title) = title\n"
                      " def to_jpeg = raise('no picture')\n def to_iruby = ['application/pdf', '%PDF']\n def inspect = 'L!'\nend;")
        display = self.run_cell("Look.new")[0]
        self.assertEqual(display["data"], {"text/plain": "L!", "text/html": "<i>", "image/png": b"\x89PNG", "application/pdf": b"%PDF"})
        self.assertEqual(display["metadata"], {"text/latex": {"error": "TypeError: to_latex gave Integer where text was expected"},
                                               "image/jpeg": {"error": "RuntimeError: no picture"}})
        self.assertEqual(self.shown("def (o = Object.new).to_html = '<o>'\no")["text/html"], "<o>")

    def test_rubys_own_classes_are_not_asked(self):
        self.own_context()
        self.run_cell("[String, Array, Hash, Integer, Class].each { |c| c.define_method(:to_html) { raise 'asked' } };")
        for code in ("'a'", "[1]", "{}", "5", "String", "Class.new { def self.to_html = raise('asked') }"):
            self.assertNotIn("text/html", self.shown(code))

    def test_updates(self):
        self.run_cell("place = Cloche.display('a', id: 'spot');")
        self.assertEqual(self.context.displays[0]["displayId"], "spot")
        want = {"data": {"text/plain": '"b"'}, "metadata": {}, "isResult": False, "displayId": "spot", "isUpdate": True}
        self.assertEqual(self.run_cell("place.update('b')"), [want])
        self.assertEqual(self.run_cell("Cloche.display('b', id: :spot, update: true)"), [want])
        display = self.run_cell("Cloche.html('<b>', id: true, metadata: {wide: 1}).id;")[0]
        self.assertRegex(display["displayId"], "^[0-9a-f]{16}$")
        self.assertEqual(display["metadata"], {"wide": 1})

    def test_clear(self):
        self.run_cell("display 1\nCloche.clear\nCloche.clear(wait: true)\ndisplay 2")
        self.assertEqual(self.context.cleared, [(False, 1), (True, 1)])

    def test_what_cannot_be_sent_is_named(self):
        display = self.run_cell("Cloche.json([Object])")[0]
        self.assertEqual((display["data"], display["metadata"]), ({}, {"application/json": {"error": "$[0]: Class cannot be sent: return its data, or give its class a method to_h"}}))
        self.assertEqual(self.shown("Cloche.html(\"\\xff\")"), {"text/html": "\ufffd"})

    def test_large_ones_are_kept_in_files(self):
        displays = self.run_cell("Cloche.html('é' * 5000)\n'x' * 3000", storeBytes=2000)
        for display, kind, content in zip(displays, ("text/html", "text/plain"), ("é" * 5000, '"%s"' % ("x" * 3000))):
            self.assertStored(display, kind, content.encode())
            self.assertEqual(list(display["data"]), ["text/plain"])
            self.assertLess(len(display["data"]["text/plain"]), 1100)
        self.assertEqual(self.text("'x' * 1000", storeBytes=2000), '"%s"' % ("x" * 1000))


class Output(ContextCase):
    def test_a_print_is_seen_before_what_follows(self):
        self.context.begin("print 'a', 'b'\n$stdout.sync = false\nprint 'c'\ngets")
        message, _ = self.context.next()
        self.assertEqual(message["method"], "input")
        self.assertEqual(self.context.printed("c"), "abc")
        self.context.answer_input(message["id"], "")
        self.context.finish()
        self.run_cell("print 'd'")
        self.assertEqual(self.context.printed("d"), "d")
        self.run_cell("$stdout.sync = true")

    def test_order_of_streams(self):
        self.run_cell("puts '1'\nsystem('echo 2')\nSTDOUT.syswrite(\"3\\n\")\n$stdout << \"4\\n\"\nprint `echo 5`\np 6\nprint '<end>'")
        self.assertEqual(self.context.printed("<end>"), "1\n2\n3\n4\n5\n6\n<end>")
        self.run_cell("warn 'err'\n$stderr.puts '<end>'")
        self.assertEqual(self.context.printed("<end>\n", "stderr"), "err\n<end>\n")

    def test_commands(self):
        self.assertEqual(self.text("[system('exit 3'), $?.exitstatus, system('true'), system('/nowhere'), `exit 4`, $?.exitstatus, `echo hi`]"),
                         '[false, 3, true, nil, "", 4, "hi\\n"]')
        self.assertEqual(self.text("r, w = IO.pipe\nsystem({'A' => 'b'}, 'echo $A', out: w)\nw.close\nr.read"), '"b\\n"')
        self.assertEqual(self.error("system('exit 3', exception: true)")["message"], "Command failed with exit 3: exit 3")
        self.assertEqual(self.error("`/nowhere/at/all`")["name"], "Errno::ENOENT")

    def test_redirected(self):
        self.assertEqual(self.text("require 'stringio'\nkept, $stdout = $stdout, StringIO.new\nputs 'x'\ntext, $stdout = $stdout.string, kept\ntext"), '"x\\n"')

    def test_threads_go_on(self):
        self.run_cell("waiter = Thread.new { sleep 0.05; print 'thread' };")
        self.assertEqual(self.context.printed("thread"), "thread")
        self.assertEqual(self.text("waiter.join; 1"), "1")

    def test_a_display_between_cells_is_printed(self):
        self.run_until_answered("waiter = Thread.new { sleep 0.001 until File.exist?(GO); Cloche.display('late') };")
        self.assertEqual(self.context.printed('late"\n'), '"late"\n')
        self.assertEqual(self.text("1"), "1")

    def test_displays_of_threads(self):
        self.run_cell("4.times.map { |i| Thread.new { 50.times { |j| Cloche.display(i * 50 + j) } } }.each(&:join)\nnil")
        self.assertEqual(sorted(int(d["data"]["text/plain"]) for d in self.context.displays), list(range(200)))

    def test_forked_children(self):
        self.run_cell("pid = fork\npid ? Process.wait(pid) : display('child')\nnil")
        self.assertEqual(self.context.printed('child"\n'), '"child"\n')
        self.run_cell("pid = fork or raise 'in the child'\nProcess.wait(pid)\nnil")
        self.assertIn("in the child (RuntimeError)", self.context.printed("RuntimeError)", "stderr"))
        self.assertEqual(self.text("pid = fork { exit 3 }; Process.wait(pid); $?.exitstatus"), "3")


class Errors(ContextCase):
    def test_in_the_cells_coordinates(self):
        self.run_cell("def f(a)\n  1 / a\nend;")
        first = self.place(2)
        error = self.error("x = 1\n[0].each { |i| f(i) }")
        self.assertEqual((error["name"], error["message"]), ("ZeroDivisionError", "divided by 0"))
        self.assertEqual(error["traceback"], [
            "%s, in `/': divided by 0 (ZeroDivisionError)" % first, "\tfrom %s, in `f'" % first,
            "\tfrom %s, in `block in <main>'" % self.place(2), "\tfrom %s, in `each'" % self.place(2), "\tfrom %s, in `<main>'" % self.place(2)])

    def test_syntax(self):
        error = self.error("x = 1\ny = = 2")
        self.assertEqual(error["name"], "SyntaxError")
        self.assertEqual(error["traceback"][0], "%s: syntax error, unexpected '=' (SyntaxError)" % self.place(2))
        self.assertEqual(error["message"].split("\n")[1], "y = = 2")
        self.assertEqual(self.error("if x\n1")["traceback"][0].split(":")[0], self.place(2))

    def test_causes_and_files(self):
        lines = self.error("begin\n {}.fetch(1)\nrescue KeyError\n raise TypeError, 'two'\nend")["traceback"]
        self.assertIn("two (TypeError)", lines[0])
        self.assertIn("key not found: 1 (KeyError)", "\n".join(lines[1:]))
        lines = self.error("require 'json'\nJSON.parse('{')")["traceback"]
        self.assertRegex("\n".join(lines), r"/json/common\.rb:\d+:in [`']")
        self.assertNotIn("runtimes/ruby", "\n".join(lines))

    def test_a_name_of_its_own(self):
        self.assertEqual(self.error("1/0", filename="sums.rb")["traceback"][-1], "\tfrom sums.rb, line 1, in `<main>'")

    def test_exit_is_an_error_and_the_context_lives(self):
        self.run_cell("kept = 1")
        for code, message in (("exit", "exit 0"), ("exit 3", "exit 3"), ("raise SystemExit", "SystemExit"), ("Thread.main.kill", "exit 0")):
            error = self.error(code)
            self.assertEqual((error["name"], error["message"]), ("SystemExit", message))
        self.assertEqual(self.error("abort 'why'")["message"], "why")
        self.assertEqual(self.text("kept"), "1")

    def test_what_is_no_error_elsewhere(self):
        self.assertEqual(self.error("throw :nowhere")["name"], "UncaughtThrowError")
        self.assertEqual(self.error("break")["name"], "SyntaxError")
        self.assertEqual(self.error("return 5")["name"], "LocalJumpError")
        self.assertEqual(self.error("raise Class.new(StandardError)")["name"], "StandardError")

    def test_deep_ones_are_cut(self):
        error = self.error("def down = down\ndown")
        self.assertEqual(error["name"], "SystemStackError")
        self.assertIn(" levels...", "\n".join(error["traceback"]))
        self.assertLess(len(error["traceback"]), 450)

    def test_exceptions_that_fight(self):
        for code in ("class Fight < Exception; def message = raise(self); end\nraise Fight",
                     "class Fight2 < Exception; def backtrace = 5; def message = 5; def class = exit!; def is_a?(*) = exit!; end\nraise Fight2"):
            self.assertEqual(self.error(code)["name"][:5], "Fight")
        self.assertEqual(self.text("1"), "1")

    def test_any_text_is_code(self):
        for code in ("\0", "(" * 1000, "x" * 100000, "%%", "`", "?", "=begin", "'" * 3, "\f\n\t", "[" * 300 + "]" * 300, "@", "$", "BEGIN { 1 }", "\u2028"):
            self.assertIn(self.context.cell(code).get("status"), ("ok", "error"), repr(code[:20]))
        self.assertEqual(self.text("1"), "1")


class Input(ContextCase):
    def test_lines(self):
        self.assertEqual(self.text("gets + $stdin.gets(chomp: true) + STDIN.readline + readline(chomp: true)", lines=["a", "b", "c", "d"]), '"a\\nbc\\nd"')
        self.assertEqual(self.context.asked, [("", False)] * 4)
        self.assertEqual(self.text("Cloche.input('name? ')", lines=["Ada"]), '"Ada"')
        self.assertEqual(self.context.asked, [("name? ", False)])

    def test_passwords(self):
        self.assertEqual(self.text("[$stdin.getpass('Key: '), $stdin.noecho(&:gets), Cloche.input('k', password: true), gets]", lines=["a", "b", "c", "d"]),
                         '["a", "b\\n", "c", "d\\n"]')
        self.assertEqual(self.context.asked, [("Key: ", True), ("", True), ("k", True), ("", False)])

    def test_none_to_be_had(self):
        error = self.error("gets", lines=[("no input is to be had",)])
        self.assertEqual((error["name"], error["message"]), ("EOFError", "no input is to be had"))
        self.assertEqual(self.text("$stdin.read"), '""')

    def test_from_a_string(self):
        self.assertEqual(self.text("require 'stringio'\nkept, $stdin = $stdin, StringIO.new(\"x\\n\")\nline, $stdin = gets, kept\nline"), '"x\\n"')

    def test_in_threads(self):
        self.assertEqual(self.text("3.times.map { Thread.new { gets.to_i } }.map(&:value).sort", lines=["1", "2", "3"]), "[1, 2, 3]")

    def test_between_cells_there_is_nobody_to_ask(self):
        self.run_until_answered("Thread.new { sleep 0.001 until File.exist?(GO)\n begin\n gets\n rescue EOFError => e\n puts e.message\n end };")
        self.assertIn("only be asked for while a cell runs", self.context.printed("\n"))

    def test_an_answer_that_comes_between_cells(self):
        context = self.own_context()
        context.begin("late = Thread.new { gets }\nThread.pass until late.stop?\nnil")
        question, _ = context.next()
        self.assertEqual((question["method"], context.finish()), ("input", {"status": "ok"}))
        self.assertEqual(self.text("1"), "1")
        context.answer_input(question["id"], "now")
        self.assertEqual(self.text("late.value"), '"now\\n"')


class Waiting(ContextCase):
    def test_what_is_printed_after_a_display_waits_for_it(self):
        self.context.begin("puts 'before'\ndisplay 1\nputs 'after'")
        display = self.context.next()
        self.assertEqual(self.context.printed("before\n"), "before\n")
        self.assertEqual(select.select([self.context.agent.process.stdout], [], [], 0.05)[0], [])
        self.context.hear(*display)
        self.assertEqual((self.context.finish(), self.context.printed("\n")), ({"status": "ok"}, "after\n"))

    def test_an_error_for_an_answer_counts_for_nothing(self):
        self.context.begin("display 1\n2")
        self.context.answer_input(self.context.next()[0]["id"], ("no",))
        self.assertEqual((self.context.finish(), len(self.context.displays)), ({"status": "ok"}, 1))

    def test_an_interrupt_while_it_waits(self):
        self.interrupt_while_it_asks("display 1", "Interrupt")
        self.assertEqual(self.text("2"), "2")


class Interrupts(ContextCase):
    def interrupted(self, code, lines=()):
        """A cell that prints `on` and is then interrupted."""
        self.context.begin("x = 5\nputs 'on'\n" + code)
        self.context.printed("on\n")
        self.context.interrupt()
        answer = self.context.finish(lines)
        self.assertEqual(answer["status"], "error", answer)
        self.assertEqual((answer["error"]["name"], answer["error"]["message"]), ("Interrupt", ""))
        self.assertEqual(self.text("x"), "5")
        return answer["error"]["traceback"]

    def test_a_loop(self):
        self.context.count = 70
        self.assertRegex("\n".join(self.interrupted("while true do end")), r"^Cell In\[71\], line [23], in .*: Interrupt\n?")

    def test_waits(self):
        for code in ("sleep", "Thread.new { sleep }.join", "IO.pipe[0].read"):
            self.interrupted(code)

    def test_commands_and_what_they_started(self):
        for code in ("system('sleep 1000 & echo $!; wait')", "`trap '' INT; sleep 1000 & echo $! >&2; wait`"):
            stream = "stderr" if "2;" in code else "stdout"
            self.context.begin(code)
            pid = self.context.printed("\n", stream)
            self.context.interrupt()
            self.assertEqual(self.context.finish()["error"]["name"], "Interrupt")
            # It may stay for a moment, until its parent has reaped it.
            self.run_cell("path = '/proc/%s/stat'\nsleep 0.01 while File.exist?(path) && File.read(path) !~ /\\) Z/" % pid.strip())

    def test_an_inspect_without_end(self):
        self.interrupted("class Long; def inspect = loop { }; end; Long.new")

    def test_a_message_without_end(self):
        self.context.begin("class Endless < StandardError; def message = (puts 'on'; loop { }); end\nraise Endless")
        self.context.printed("on\n")
        self.context.interrupt()
        self.assertEqual(self.context.finish()["error"], {"name": "Endless", "message": "", "traceback": ["Endless"]})

    def test_waiting_for_input(self):
        self.interrupt_while_it_asks("begin\n  gets\nrescue Interrupt\n  y = 6\n  raise\nend", "Interrupt")
        self.assertEqual(self.text("y"), "6")

    def test_what_the_user_rescues(self):
        self.context.begin("begin\n puts 'on'\n sleep\nrescue Interrupt\n 7\nend")
        self.context.printed("on\n")
        self.context.interrupt()
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.assertEqual(self.context.displays[0]["data"]["text/plain"], "7")

    def test_while_displays_are_on_their_way(self):
        self.context.begin("loop { display('y' * 5000) }")
        for _ in range(3):
            self.context.hear(*self.context.next())
        self.context.interrupt()
        self.assertEqual(self.context.finish()["error"]["name"], "Interrupt")
        self.assertEqual({display["data"]["text/plain"] for display in self.context.displays}, {'"%s"' % ("y" * 5000)})

    def test_a_handler_of_the_users_lasts_one_cell(self):
        self.context.begin("trap('INT') { puts 'mine'; @done = true }\nputs 'on'\nsleep 0.01 until @done")
        self.context.printed("on\n")
        self.context.interrupt()
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.context.printed("mine\n")
        self.run_cell("trap('INT', 'IGNORE');")
        self.interrupted("sleep")

    def test_between_cells_nothing_happens(self):
        self.run_cell("x = 1")
        for _ in range(20):
            self.context.interrupt()
        self.assertEqual(self.text("x"), "1")
        ignored = int(self.text("`grep SigIgn /proc/self/status`.split[1]").strip('"'), 16)
        self.assertEqual(ignored & 1 << signal.SIGINT - 1, 0, "programs do not ignore it")

    def test_many_at_any_time(self):
        self.interrupt_at_any_time("100.times { |i| display(i) }", 40)
        self.assertEqual(self.text("1"), "1")


class Tools(ContextCase):
    def complete(self, code, at=None):
        found = self.result("complete", code=code, at=len(code) if at is None else at)
        return found["matches"], code[found["from"]:found["to"]]

    def test_describe(self):
        self.own_context()
        self.run_cell("require 'tempfile'\na = 1\nbig = 1 << 5000\ns = 'x' * 500\nl = [1]\nh = {a: 1, b: 2}\nr = (1..)\nq = ->(u, v = 1, *w, k:) {}\n"
                      "class Bad; def inspect = exit!; def class = exit!; end\nb = Bad.new\nBAD = Bad\n$g = :sym\n@i = 2.5\ndef f(p, *, q: 1, &z) = 1\n_hidden = 1")
        told = {row["name"]: (row["type"], row["summary"]) for row in self.result("describe")["variables"]}
        self.assertEqual(told.pop("s")[1][-5:], "(500)")
        self.assertEqual(told, {
            "a": ("Integer", "1"), "big": ("Integer", "5001 bits"), "l": ("Array", "1 item"), "h": ("Hash", "2 items"), "r": ("Range", "1.."),
            "q": ("Proc", "lambda(u, v = ..., *w, k:)"), "b": ("Bad", "Bad"), "Bad": ("Class", "Bad"), "BAD": ("Class", "Bad"),
            "$g": ("Symbol", ":sym"), "@i": ("Float", "2.5"), "f": ("Method", "f(p, *, q: ..., &z)")})

    def test_complete(self):
        self.run_cell("colour = 'red'; colours = [1]\ndef coloured = 1\nmodule Shop; class Cart; end; RATE = 1; def self.total = 1; end\n$colour = 1; @colour = 2;")
        self.assertEqual(self.complete("puts colo"), (["colour", "coloured", "colours"], "colo"))
        self.assertEqual(self.complete("x = colour.upca + 1", at=15), (["upcase", "upcase!"], "upca"))
        self.assertEqual(self.complete("[1, 2].each_wi")[0], ["each_with_index", "each_with_object"])
        self.assertEqual(self.complete("'é'.swapc"), (["swapcase", "swapcase!"], "swapc"))
        self.assertEqual(self.complete("Shop::C")[0], ["Cart"])
        self.assertEqual(self.complete("Shop.to")[0], ["to_enum", "to_s", "total"])
        self.assertEqual(self.complete("Shop::Cart.ne")[0], ["new"])
        self.assertEqual(self.complete("$colo")[0], ["$colour"])
        self.assertEqual(self.complete("@col")[0], ["@colour"])
        self.assertEqual(self.complete("whi")[0], ["while"])
        self.assertIn("String", self.complete("Stri")[0])
        for code in ("colour.upcase.", "nowhere.", "nowhere::X", "5.", "exit!.x"):
            self.assertEqual(self.complete(code), ([], ""), code)

    def test_complete_runs_nothing(self):
        self.run_cell("class Trap; def methods(*) = exit!; def method_missing(*) = exit!; def respond_to_missing?(*) = exit!; def own = 1; end\ntrap_ = Trap.new;")
        self.assertEqual(self.complete("trap_.ow")[0], ["own"])
        self.run_cell("autoload :Lazily, '/nowhere.rb'")
        self.assertEqual(self.complete("Lazily::X")[0], [])
        self.assertNotIn("Lazily", [row["name"] for row in self.result("describe")["variables"]])

    def test_any_place(self):
        for code in ("", "é" * 3, "a.b.c", "(", "::", "@", "$", "\0", "..", "&."):
            for at in (0, 1, 2, 100):
                self.assertIn("matches", self.result("complete", code=code, at=at))


class Hostile(ContextCase):
    """Each cell of these spoils its context."""

    def spoilt(self, code):
        """The cell goes well, and the context does afterwards."""
        self.own_context()
        self.run_cell(code)
        self.assertEqual(self.text("1.5"), "1.5", code)
        self.assertEqual(self.error("nil.nowhere")["name"], "NoMethodError")
        self.assertEqual(self.run_cell("display :a")[0]["data"], {"text/plain": ":a"})
        self.assertIn("result", self.context.ask("describe"))
        self.assertIn("String", self.context.ask("complete", code="Stri", at=4)["result"]["matches"])

    def test_operators_changed(self):
        self.spoilt("class Integer\n %i[+ - * < > <= >= == to_s &].each { |n| define_method(n) { |*a| raise 'changed' } }\nend\n"
                    "class String\n %i[== << bytesize byteslice gsub match? + size [] rstrip].each { |n| define_method(n) { |*a| raise 'changed' } }\nend;")
        self.spoilt("class Hash\n %i[[] []= each key? each_pair map to_h].each { |n| define_method(n) { |*a| nil } }\nend\n"
                    "class Array\n %i[each << map join include? any? first].each { |n| define_method(n) { |*a| nil } }\nend;")

    def test_functions_changed(self):
        self.spoilt("module Kernel\n %i[raise loop format eval lambda proc catch sleep].each { |n| define_method(n) { |*a| nil } }\nend\ndef display_text = 1;")
        self.spoilt("class Binding; def eval(*) = 1; def local_variable_set(*) = 1; end\nclass Class; def new(*) = nil; end\nclass Module; def ===(o) = false; end;")
        self.spoilt("Object.send(:remove_const, :Cloche)\nset_trace_func(proc { |*a| 1 + 1 })\n$, = 'x'; $; = 'y'; nil")

    def test_changes_stay_for_the_users_code(self):
        self.own_context()
        self.run_cell("class Integer; def +(o) = 42; end\nwaiter = Thread.new { sleep 0.05; print 1 + 1 };")
        # Between cells too, for threads.
        self.assertEqual(self.context.printed("42"), "42")
        self.assertEqual(self.text("1 + 1"), "42")
        self.assertEqual(self.text("class Shown; def inspect = (2 + 2).to_s; end\nShown.new"), "42")

    def test_streams_replaced(self):
        self.own_context()
        self.run_cell("$stdout = Class.new { def write(*) = 0; def flush = raise(SystemExit) }.new\nputs 'x';")
        self.assertEqual(self.run_cell("display 1\n2")[1]["data"], {"text/plain": "2"})
        self.run_cell("[STDIN, STDOUT, STDERR].each(&:close);")
        self.assertEqual(self.text("3"), "3")

    def test_hard_ends(self):
        for code, status in (("exit!(7)", 7), ("Process.kill(:KILL, $$)", -9)):
            context = self.own_context()
            context.begin(code)
            self.assertIsNone(context.agent.receive())
            self.assertEqual(context.end()[0], status)

    def test_exceptions_from_threads(self):
        self.own_context()
        self.run_cell("main = Thread.current\npest = Thread.new { 200.times { sleep 0.001; main.raise('late') } };")
        for _ in range(100):
            self.assertIn(self.context.cell("5.times { display 1 }\n2").get("status"), ("ok", "error"))
        # An exception raised between cells ends the next cell.
        self.assertTrue(any(self.context.cell("pest.join;") == {"status": "ok"} for _ in range(201)))
        self.assertEqual(self.text("1"), "1")


class Requests(ContextCase):
    def answer(self, method, **params):
        return self.context.ask(method, **params)["error"]

    def test_wrong_ones(self):
        for method, params, said in (
            ("cell", {"code": 5, "count": 1}, "params.code"), ("cell", {"code": "1", "count": -1}, "params.count is -1"),
            ("cell", {"code": "1", "count": 1, "silent": 1}, "params.silent"), ("complete", {"code": "a", "at": -2}, "params.at is -2"),
            ("cell", {"code": "1"}, "params.count"),
        ):
            error = self.answer(method, **params)
            self.assertEqual((error["code"], said in error["message"]), (-32602, True), error)
        self.assertEqual(self.answer("open", cwd=None, env={}, language="ruby")["code"], -32600)
        self.assertEqual(self.answer("enter")["code"], -32600)
        self.assertEqual(self.answer("branch")["code"], -32001)
        self.assertEqual(self.text("1"), "1")

    def test_before_open(self):
        context = Context()
        self.addCleanup(context.end)
        self.assertEqual(context.ask("cell", code="1", count=1)["error"]["code"], -32600)
        for params, code in (({"language": "python"}, -32602), ({"env": {"A=": "1"}}, -32602), ({"env": {"A": 1}}, -32602), ({"cwd": "/proc/nowhere"}, -32000)):
            self.assertEqual(context.open(**params)["error"]["code"], code, params)
        context.opened()

    def test_the_end(self):
        context = self.own_context()
        context.begin("at_exit { puts 'bye' }\nt = Thread.new { gets }\nThread.pass until t.stop?;")
        self.assertEqual((context.next()[0]["method"], context.finish()), ("input", {"status": "ok"}))
        self.assertEqual(context.end(), (0, "bye\n", ""))


class Looks(ContextCase):
    """`inspect` and `isComplete`: nothing of the cells runs."""

    def inspected(self, code, at=None, detail=0):
        data = self.result("inspect", code=code, at=len(code) if at is None else at, detail=detail)["data"]
        return data["text/plain"] if data else None

    def test_inspect(self):
        self.run_cell("colour = 'red'\n$colour = 1\n# Adds.\n# Well.\ndef add_(a, b = 2, *c, k:, &z)\n  a + b\nend\n"
                      "# Of a shop.\nclass Shop_\n  RATE = 1\n  def initialize(rate) = @rate = rate\n  def self.total(x) = x\n  def own?(y) = y\nend\nshop = Shop_.new(1)\n"
                      "class Shop2_ < Shop_; end;")
        self.assertEqual(self.inspected("puts colour"), "Value: \"red\"\nType: String")
        self.assertEqual(self.inspected("$colour"), "Value: 1\nType: Integer")
        self.assertEqual(self.inspected("add_", 2), "Signature: add_(a, b = ..., *c, k:, &z)\nDocumentation: Adds.\nWell.\nOwner: Object\nType: Method")
        self.assertEqual(self.inspected("1 + add_(1, [2], "), self.inspected("add_"))
        self.assertEqual(self.inspected("add_", detail=1).partition("Source:\n")[2], "def add_(a, b = 2, *c, k:, &z)\n  a + b\nend")
        self.assertIn("Signature: own?(y)\nOwner: Shop_", self.inspected("x = shop.own?"))
        self.assertIn("Signature: Shop_.new(rate)\nDocumentation: Of a shop.\nSuperclass: Object\nType: Class", self.inspected("Shop_", detail=1))
        self.assertIn("Source:\nclass Shop_\n  RATE = 1\n", self.inspected("Shop_", detail=1))
        self.assertIn("Signature: new(rate)", self.inspected("Shop2_.new"))
        self.assertIn("Signature: total(x)", self.inspected("Shop2_.total"))
        self.assertIn("Value: 1\n", self.inspected("Shop_::RATE"))
        self.assertIn("Owner: Kernel", self.inspected("puts"))
        self.assertIn("Owner: String", self.inspected("'\u00e9'.upcase"))
        for code, at in (("nosuch", 6), ("shop.nosuch", 11), ("Shop_::Nosuch", 13), ("", 0), ("1 + ", 4), ("colour.upcase.size", 18), (")", 1)):
            self.assertIsNone(self.inspected(code, at), code)
        self.assertIn("red", self.inspected("colour", 10 ** 9))
        self.run_cell("kind = Shop_\n$kind = Comparable;")
        self.assertEqual(self.inspected("kind", detail=1), "Signature: kind.new(rate)\nSuperclass: Object\nType: Class")
        self.assertEqual(self.inspected("$kind"), "Type: Module")

    def test_liars_are_not_asked(self):
        self.run_cell("""
class Liar_ < BasicObject
  def self.own_ = 1
  def method_missing(*) = ::Kernel.exit!
  def respond_to_missing?(*) = ::Kernel.exit!
  %i[== ! inspect to_s class methods singleton_methods respond_to? is_a? hash method].each { |name| define_method(name) { |*| ::Kernel.exit! } }
end
class << Liar_
  %i[name inspect to_s instance_method superclass const_missing method_missing respond_to_missing? === == hash eql? equal? const_source_location].each { |name| define_method(name) { |*| exit! } }
end
liar_ = Liar_.allocate
lying_ = Object.new
def lying_.singleton_methods(*) = exit!
def lying_.it_(a = exit!) = exit!
autoload :Lazily_, '/nowhere.rb'
class String; def match?(*) = Kernel.exit!; end
class Method; alias_method :kept_, :source_location; def source_location = Kernel.exit!; end
class SyntaxError; def message = Kernel.exit!; end
class << File; alias_method :kept_, :read; def read(*) = exit!; end
huge_ = 'x' * 1_000_000
broken_ = "\\xff" * 10
nil
""".strip())
        self.addCleanup(self.run_cell, "class String; remove_method :match?; end\nclass Method; alias_method :source_location, :kept_; end\n"
                        "class SyntaxError; remove_method :message; end\nclass << File; alias_method :read, :kept_; end\nnil")
        self.assertEqual(self.inspected("liar_", detail=1), "Value: Liar_\nType: Liar_")
        self.assertIsNone(self.inspected("liar_.nosuch"))
        self.assertIn("Signature: inspect(*)", self.inspected("liar_.inspect"))
        self.assertIn("Type: Class", self.inspected("Liar_", detail=1))
        self.assertIn("own_()", self.inspected("Liar_.own_"))
        self.assertIn("it_(a = ...)", self.inspected("lying_.it_", detail=1))
        self.assertIsNone(self.inspected("Lazily_"))
        self.assertLess(len(self.inspected("huge_")), 1000)
        self.assertIn("Type: String", self.inspected("broken_"))
        self.inspected("require_relative", detail=1)
        self.assertEqual(self.result("isComplete", code="x = )")["status"], "invalid")
        self.assertIn("liar_", str(self.result("describe")))

    def test_is_complete(self):
        self.run_cell("n = 1;")
        judged = {"complete": ["x = 1", "", "def f_\n  1\nend", "puts 'a'", "# a", "[1].each { |i| i }", "n /1", "exit!", "a = <<E\nE\n", "return 1"],
                  "incomplete": ["def f_", "x = [", "x = (", "'abc", "<<E\nabc", "[1].each do |i|", "1 +", "n.", "a ? b", "=begin\nx", "if n", "%w[a", "x = 1 +\\", "class A"],
                  "invalid": ["x = )", "end", "def f_\n  x = )", "1 1", "x = 1]", "@"]}
        for status, codes in judged.items():
            for code in codes:
                self.assertEqual(self.result("isComplete", code=code)["status"], status, code)
        self.assertIn(self.result("isComplete", code="(" * 100000)["status"], ("incomplete", "invalid", "unknown"))
        self.assertEqual(self.result("isComplete", code="  def f_")["indent"], "    ")
        self.assertEqual(self.text("n"), "1")



if __name__ == "__main__":
    unittest.main()
