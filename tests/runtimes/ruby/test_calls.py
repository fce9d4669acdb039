"""Finding functions, binding arguments, reporting errors, and calling the host."""
import json
import unittest

from harness import AgentCase


class FindsTheFunction(AgentCase):
    def test_the_one_public_function(self):
        code = "require 'json'\nclass K\n def x = 1\nend\ndef _helper = 1\ndef add(a, b) = a + b + _helper"
        self.assertEqual(self.call(code, 2, 3), 6)

    def test_names_of_rubys_own_functions(self):
        for name in ("format", "test", "select", "p", "open", "raise", "loop", "lambda", "read", "call", "send_", "text", "eval"):
            self.assertEqual(self.call("def %s(x) = x * 2" % name, 21), 42, name)

    def test_several_need_a_name(self):
        code = "def b = 1\ndef a = 2"
        self.assertEqual(self.error(code)["message"], "code defines several public functions (b, a): name one")
        self.assertEqual(self.call(code, function="a"), 2)

    def test_a_missing_name_lists_what_there_is(self):
        error = self.error("def a; end\nc = ->() { 1 }", function="x")
        self.assertEqual((error["type"], error["message"]), ("NameError", "function 'x' is not defined in the code; it defines: a, c"))
        for name in ("puts", "system", "a.b", "Object.x", "..", "A::", "`", "@x", "args", "$nope", "Kernel.nope"):
            self.assertEqual(self.error("def a; end", function=name)["type"], "NameError", name)

    def test_dotted_names(self):
        code = """
            module Shop
              class Cart
                def self.total(x) = x * 2
                TAX = ->(x) { x + 1 }
                def add(x) = x
              end
            end
            $cart = cart = BOX = Shop::Cart.new
            def made = BOX"""
        for name, want in {"Shop::Cart.total": 8, "Shop.Cart.total": 8, "Shop::Cart::TAX": 5, "$cart.add": 4, "cart.add": 4, "BOX.add": 4,
                           "made.add": 4}.items():
            self.assertEqual(self.call(code, 4, function=name), want, name)
        self.assertEqual(self.call("", 16, function="Math.sqrt"), 4.0)

    def test_functions_as_values(self):
        for code, name in (("H = ->(x) { x + 1 }", "H"), ("$h = proc { |x| x + 1 }", "$h"), ("h = 1.method(:+)", "h"), ("def self.h(x) = x + 1", "h")):
            self.assertEqual(self.call(code, 1, function=name), 2)
        error = self.error("X = 3", function="X")
        self.assertEqual((error["type"], error["message"]), ("TypeError", "'X' is not a function but Integer"))

    def test_required_and_included(self):
        self.assertEqual(self.call("include Math", 16, function="sqrt"), 4.0)
        with open(self.agent.workdir + "/tool.rb", "w") as file:
            file.write("def tool(x) = x + 1")
        self.assertEqual(self.call("require_relative 'tool'", 16, function="tool"), 17)


class CodeAsBody(AgentCase):
    def test_final_expression_is_the_result(self):
        self.assertEqual(self.call("x = 20\nx + args[0] + kwargs[:k]", 1, kwargs={"k": 2}), 23)
        self.assertIsNone(self.call(""))
        self.assertIsNone(self.call("# nothing"))

    def test_code_that_would_drop_its_arguments_says_so(self):
        for code, named in (("class A\n  def initialize(*args) = @a = args\n  def total = 1\nend", "the class A: name A.new as the function"),
                            ("require 'set'\nX = 1\nmodule Shop\n  def self.total(a) = a\nend\ndef _helper = 1", "the module Shop: name one of its functions, Shop.NAME"),
                            ("module M; end\nclass M::B < String\nend", "the class M::B: ")):
            for params in ({}, {"kwargs": {"a": 1}}):
                error = self.error(code, *([] if params else [1]), **params)
                self.assertEqual(error["type"], "ArgumentError", code)
                self.assertIn("the code defines no function that could take the arguments, but " + named, error["message"])
                self.assertNotIn("runtimes/ruby", error["stack"])

    def test_code_that_looks_at_its_arguments_or_gets_none_has_classes(self):
        for code, args, value in (("class A\n def a = 1\nend", [], "a"), ("class A; end\nx = args[0]", [4], 4), ("class A\n attr_reader :a\nend\nargs[0] + 1", [4], 5),
                                  ("class A; end\n7", [4], 7)):
            self.assertEqual(self.call(code, *args), value, code)
        self.assertEqual(self.call("class A\n attr_reader :x\n def initialize(x) = @x = x\nend", 4, function="A.new"), {"x": 4})

    def test_return(self):
        self.assertEqual(self.call("return 'yes' if args[0]\n'no'", True), "yes")
        self.assertEqual(self.call("[1, 2].each { |x| return x + 9 }"), 10)

    def test_the_top_level_is_rubys(self):
        self.assertEqual(self.call("[equal?(TOPLEVEL_BINDING.receiver), __FILE__, $0, $PROGRAM_NAME, __method__, ARGV, block_given?, local_variables.sort - [:_]]"),
                         [True, "main.rb", "main.rb", "main.rb", None, [], False, ["args", "kwargs"]])
        self.assertEqual(self.call("class Point\n X = 1\nend\nmodule R\n refine(Integer) { def twice = self * 2 }\nend\nusing R\nPoint::X.twice"), 2)
        self.assertEqual(self.call("Object.constants.grep(/cloche/i) + global_variables.grep(/cloche/i) + methods.grep(/cloche/i)"), [])
        self.assertEqual(self.call("DATA.read\n__END__\none\n"), "one\n")
        self.assertEqual(self.call("# frozen_string_literal: true\n'x'.frozen?"), True)

    def test_source_is_convention(self):
        self.assertEqual(self.answer("1")["result"]["signatureSource"], "convention")
        self.assertEqual(self.answer("1", order=["x"])["result"]["signatureSource"], "schema")


class Arguments(AgentCase):
    def wrong(self, code, message, *args, **params):
        error = self.error(code, *args, **params)
        self.assertEqual((error["type"], error["message"]), ("ArgumentError", message))
        self.assertNotIn("runtimes/ruby", error["stack"])

    def test_kinds_of_parameters(self):
        code = "def f(a, b = 2, *r, z, k:, o: a + 1, **m, &blk) = [a, b, r, z, k, o, m, blk]"
        self.assertEqual(self.call(code, 1, 9, kwargs={"k": 3}), [1, 2, [], 9, 3, 2, {}, None])
        self.assertEqual(self.call(code, 1, 5, 6, 7, 9, kwargs={"k": 3, "o": 4, "x": 5}), [1, 5, [6, 7], 9, 3, 4, {"x": 5}, None])
        self.assertEqual(self.answer(code, 1, 2, kwargs={"k": 1})["result"]["signatureSource"], "inferred")

    def test_new_takes_what_initialize_takes(self):
        code = "class P; def initialize(x, y: 2) = (@x, @y = x, y); def to_h = {x: @x, y: @y}; end"
        self.assertEqual(self.answer(code, 1, kwargs={"y": 5}, function="P.new")["result"]["signatureSource"], "inferred")
        for args, kwargs, made in (([1], {"y": 5}, {"x": 1, "y": 5}), ([1], {}, {"x": 1, "y": 2}), ([], {"x": 3}, {"x": 3, "y": 2})):
            self.assertEqual(self.call(code, *args, kwargs=kwargs, function="P.new"), made)
        self.wrong(code, "P.new(x, y: default): argument 2 is too many", 1, 2, function="P.new")
        self.assertEqual(self.call("class Q; def self.new(z) = z; end", kwargs={"z": 9}, function="Q.new"), 9)
        self.assertEqual(self.call("S = Struct.new(:a, :b)", 1, 2, function="S.new"), {"a": 1, "b": 2})

    def test_what_is_missing_or_too_many(self):
        self.wrong("def f(a, b) = 1", "f(a, b): missing argument 'b'", 1)
        self.wrong("def f(a, b = 1, c) = 1", "f(a, b = default, c): missing argument 'c'", 1)
        self.wrong("def f(a) = 1", "f(a): argument 2 is too many", 1, 2)
        self.wrong("def f() = 1", "f(): argument 1 is too many", 1)
        self.wrong("def f(k:) = 1", "f(k:): missing keyword 'k'")
        self.wrong("def f(k: 1) = 1", "f(k: default): unknown keyword 'z'", kwargs={"z": 1})
        self.wrong("def f(a, b = 2) = 1", "f(a, b = default): unknown keyword 'z'", 1, kwargs={"z": 1})
        self.wrong("def f((a, b)) = 1", "f(_): missing argument at position 0")

    def test_checked_before_the_call(self):
        self.error("def f(a)\n puts 'ran'\nend")
        self.assertEqual(self.end()[1], "")

    def test_positional_parameters_by_name(self):
        code = "def f(a, b = 2, c = 3, *r, z) = [a, b, c, r, z]"
        self.assertEqual(self.call(code, kwargs={"a": 1, "z": 9}), [1, 2, 3, [], 9])
        self.assertEqual(self.call(code, 1, kwargs={"b": 5, "z": 9}), [1, 5, 3, [], 9])
        self.wrong(code, "f(a, b = default, c = default, *r, z): Ruby cannot leave out 'b' and take 'c'", 1, kwargs={"c": 5, "z": 9})
        self.wrong(code, "f(a, b = default, c = default, *r, z): argument 'a' is given twice", 1, kwargs={"a": 5, "z": 9})
        self.assertEqual(self.call("def f(a, **m) = [a, m]", 1, kwargs={"a": 2}), [1, {"a": 2}])
        self.assertEqual(self.call("def f(a, **m) = [a, m]", kwargs={"a": 2, "b": 3}), [2, {"b": 3}])

    def test_holes(self):
        code = "def f(a, b = 2, c = 3) = [a, b, c]"
        self.assertEqual(self.call(code, 1, None, None, holes=[1, 2]), [1, 2, 3])
        self.assertEqual(self.call(code, 1, 5, None, holes=[2]), [1, 5, 3])
        self.assertEqual(self.call("def f(a, b = 2, c) = [a, b, c]", 1, None, 3, holes=[1]), [1, 2, 3])
        self.wrong(code, "f(a, b = default, c = default): Ruby cannot leave out 'b' and take 'c'", 1, None, 5, holes=[1])
        self.wrong(code, "f(a, b = default, c = default): missing argument 'a'", None, 2, holes=[0])

    def test_order_of_a_schema(self):
        self.assertEqual(self.call("def f(a, b) = [a, b]", kwargs={"y": 2, "x": 1}, order=["x", "y"]), [1, 2])
        self.assertEqual(self.call("def f(a, b:) = [a, b]", kwargs={"b": 2, "x": 1}, order=["x", "b"]), [1, 2])
        self.assertEqual(self.call("def f(a, **m) = [a, m]", kwargs={"b": 2, "a": 1}, order=["a", "b"]), [1, {"b": 2}])
        self.assertEqual(self.answer("def f(a) = a", 1, order=["x"])["result"]["signatureSource"], "schema")
        self.wrong("def f(a) = a", "f(a): argument 'x' is given twice", 1, kwargs={"x": 2}, order=["x"])

    def test_options_at_the_end(self):
        self.assertEqual(self.call("def f(a, options = {}) = [a, options]", 1, kwargs={"deep": True}), [1, {"deep": True}])
        self.assertEqual(self.call("def f(a, opts = {}) = [a, opts[:x]]", 1, kwargs={"x": 3}), [1, 3])

    def test_blocks_and_procs(self):
        self.assertEqual(self.call("def f(a, &b) = b.nil?", 1), True)
        self.assertEqual(self.call("f = proc { |a, b| [a, b] }", 1, function="f"), [1, None])

    def test_values_that_look_like_keywords(self):
        self.assertEqual(self.call("def f(a, k: 1) = [a, k]", {"k": 5}), [{"k": 5}, 1])
        self.assertEqual(self.call("def f(*a, **k) = [a, k]", {"k": 5}), [[{"k": 5}], {}])


class Errors(AgentCase):
    def test_stack(self):
        error = self.error("""\
def f
  [1].each do |x|
    g(x)
  end
end

def _g = 1
def self.g(x)
  Integer('no')
rescue ArgumentError
  raise KeyError, "two\\nlines"
end
""")
        self.assertEqual((error["type"], error["message"]), ("KeyError", "two\nlines"))
        self.assertEqual(error["stack"], "main.rb:11:in `rescue in g': two (KeyError)\nlines\n\tfrom main.rb:8:in `g'\n\tfrom main.rb:3:in `block in f'\n"
                         "\tfrom main.rb:2:in `each'\n\tfrom main.rb:2:in `f'\n"
                         "main.rb:9:in `Integer': invalid value for Integer(): \"no\" (ArgumentError)\n\tfrom main.rb:9:in `g'\n\tfrom main.rb:3:in `block in f'\n"
                         "\tfrom main.rb:2:in `each'\n\tfrom main.rb:2:in `f'\n")

    def test_top_level(self):
        self.assertEqual(self.error("x = 1\n[x].map { |y| y / 0 }")["stack"],
                         "main.rb:2:in `/': divided by 0 (ZeroDivisionError)\n\tfrom main.rb:2:in `block in <main>'\n\tfrom main.rb:2:in `map'\n\tfrom main.rb:2:in `<main>'\n")
        self.assertIn("main.rb:2: syntax error", self.error("x = 1\ndef f(:\n")["message"])
        self.assertEqual(self.error("no_such_thing")["type"], "NameError")

    def test_ends_of_the_process(self):
        for code, message in (("exit", "exit 0"), ("exit 3", "exit 3"), ("abort 'no'", "no"), ("Thread.current.kill", "exit 0")):
            error = self.error("def f = (%s)" % code)
            self.assertEqual((error["type"], error["message"]), ("SystemExit", message))
        self.assertAlive()

    def test_odd_throws(self):
        self.assertEqual(self.error("throw :x")["type"], "UncaughtThrowError")
        self.assertEqual(self.error("raise Exception, 'e'")["type"], "Exception")
        self.assertEqual(self.error("raise Class.new(KeyError), 'anonymous'")["type"], "KeyError")
        self.assertEqual(self.error("class E < StandardError\n def message = raise('no')\nend\nraise E")["type"], "E")
        self.assertEqual(self.error("class N < StandardError\n def message = 5\n def backtrace = 7\n def self.name = 'Liar'\nend\nraise N")["type"], "N")
        self.assertEqual(self.error("raise \"\\xff\\u0000\".b")["message"], "\ufffd\0")
        self.assertEqual(self.error("Fiber.yield")["type"], "FiberError")
        self.assertAlive()

    def test_not_json_and_not_a_request(self):
        for text, code in ((b"{", -32700), (b"[1]", -32600), (b'{"jsonrpc":"2.0","id":1,"method":"fly"}', -32601), (b'{"jsonrpc":"2.0","id":[],"method":"call"}', -32600),
                           (b'{"jsonrpc":"2.0","id":1,"method":"call","params":[]}', -32602), (b'{"jsonrpc":"2.0","id":1,"method":"freeze"}', -32001),
                           (b'{"a":1,"a":2}', -32700), (b'"\\ud800"', -32700), (b"\xff", -32700)):
            self.agent.send_raw(text)
            self.assertEqual(self.agent.receive()[0]["error"]["code"], code, text)
        self.agent.send_raw(b'{"jsonrpc":"2.0","method":"call"}')
        self.assertAlive()
        self.agent.socket.sendall(b"\xff" * 8)
        self.assertEqual(self.agent.receive()[0]["error"]["code"], -32700)
        self.assertIsNone(self.agent.receive())


class Libraries(AgentCase):
    def test_gems_are_loaded_when_asked_for(self):
        self.assertEqual(self.call("[$LOADED_FEATURES.grep(/rubygems/).size, defined?(Gem), (Gem::VERSION.size > 2), $LOADED_FEATURES.grep(/rubygems/).any?]"),
                         [0, "constant", True, True])

    def test_a_require_that_finds_nothing(self):
        error = self.error("require 'no/such'")
        self.assertEqual((error["type"], error["message"]), ("LoadError", "cannot load such file -- no/such"))
        self.assertIn("from main.rb:1:in `<main>'", error["stack"])
        self.assertEqual(self.call("gem 'json'\nrequire 'set'\nrequire 'json'\nJSON.generate([Set.new.size])"), "[0]")

    def test_require_in_a_loaded_file(self):
        with open(self.agent.workdir + "/a.rb", "w") as file:
            file.write("require_relative 'b'\nA_ = B_ + 1")
        with open(self.agent.workdir + "/b.rb", "w") as file:
            file.write("B_ = 1")
        self.assertEqual(self.call("require './a'\nA_"), 2)


class SetUp(AgentCase):
    def ask(self, method, **params):
        self.agent.ids += 1
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.agent.ids, "method": method, "params": params}).encode())
        return self.agent.receive()[0]

    def test_what_it_leaves(self):
        code = """
            LIMIT = 10
            limit = 5
            $shared = [1]
            def helper(x) = x * LIMIT
            class Integer
              def +(other) = 7
            end
            module Tools
              def self.go = helper(2)
            end"""
        self.assertIn("result", self.ask("prepare", code=code, filename="setup.rb", globals={}, imports={}))
        self.assertEqual(self.call("[limit, LIMIT, helper(3), $shared, 1 + 1]"), [5, 10, 30, [1], 7])
        self.assertEqual(self.call("def f = helper(1)"), 10)
        self.assertEqual(self.call("nil", 4, function="helper"), 40)
        self.assertEqual(self.call("", function="Tools.go"), 20)

    def test_error(self):
        answer = self.ask("prepare", code="x = 1\nraise KeyError, 'k'", filename="setup.rb", globals={}, imports={})
        self.assertEqual(answer["error"]["data"], {"type": "KeyError", "message": "k", "stack": "setup.rb:2:in `<main>': k (KeyError)\n"})

    def test_run(self):
        for code, want in (("puts ARGV.inspect\nexit 3", (3, '["a", "b"]\n', "")),
                           ("at_exit { puts 'bye' }\nputs 1\nreturn\nputs 2", (0, "1\nbye\n", "")),
                           ("puts __FILE__ == $0\nraise 'x'", (1, "true\n", "main.rb:2:in `<main>': x (RuntimeError)\n")),
                           ("abort 'no'", (1, "", "no\n"))):
            params = {"code": code, "filename": "main.rb", "argv": ["a", "b"]}
            self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "run", "params": params}).encode())
            self.assertIsNone(self.agent.receive())
            self.assertEqual(self.end(), want)
            self.setUp()


class Host(AgentCase):
    """The test is the host."""

    def converse(self, code, answers, globals={}, imports={}, **params):
        self.agent.ids += 1
        self.agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": self.agent.ids, "method": "call", "params": {
            "code": code, "filename": "main.rb", "resultBytes": 1 << 20, "globals": globals, "imports": imports, **params}}).encode())
        asked, held = [], []
        while True:
            message, attachments = self.agent.receive()
            if message.get("method") != "bridge":
                return message, asked
            asked.append(message["params"])
            reply = answers(message["params"])
            held.append({"jsonrpc": "2.0", "id": message["id"], **reply})
            if not reply.get("hold"):
                for one in reversed(held):
                    one.pop("hold", None)
                    self.agent.send_raw(json.dumps(one).encode())
                held = []

    def test_functions_values_and_objects(self):
        function = {"kind": "function"}
        inner = {"kind": "object", "members": {"n": {"kind": "value", "value": 3}}}
        declared = {"fetch": function, "Up": function, "$warm": function, "hash": function, "name": {"kind": "value", "value": "n"},
                    "LIMIT": {"kind": "value", "value": [1, {"$": "bigint", "v": "5"}]},
                    "db": {"kind": "object", "members": {"get": function, "inner": inner}}}
        code = """
            class A
              def go = fetch(2, k: :v)
            end
            [fetch(1), A.new.go, LIMIT, name, db.get('x'), db.inner.n, Up(5), $warm.call(6), hash(7), {}.hash.class.name]"""
        answer, asked = self.converse(code, lambda p: {"result": {"value": p["args"]}}, declared)
        self.assertEqual(answer["result"]["value"], [[1], [2], [1, 5], "n", ["x"], 3, [5], [6], [7], "Integer"])
        self.assertEqual(asked[1], {"target": ["global", "fetch"], "args": [2], "kwargs": {"k": "v"}})
        self.assertEqual(asked[2]["target"], ["global", "db", "get"])

    def test_errors_of_the_host(self):
        def answers(params):
            return {"error": {"code": -32000, "message": "m", "data": {"name": params["args"][0], "message": "told", "fields": {"code": 404, "class": 1}}}}
        code = """
            def f
              ask('KeyError')
            rescue KeyError => e
              begin
                ask('HttpError')
              rescue StandardError => h
                [e.message, e.fields, e.code, h.name, h.code, h.class.name]
              end
            end"""
        answer, _ = self.converse(code, answers, {"ask": {"kind": "function"}})
        self.assertEqual(answer["result"]["value"], ["told", {"code": 404, "class": 1}, 404, "HttpError", 404, "HostError"])
        answer, _ = self.converse("ask('HttpError')", answers)
        self.assertEqual(answer["error"]["data"]["type"], "HttpError")
        self.assertEqual(answer["error"]["data"]["stack"], "main.rb:1:in `<main>': told (HttpError)\n")

    def test_arguments_that_cannot_be_sent(self):
        answer, asked = self.converse("ask(1, [->() {}])", None, {"ask": {"kind": "function"}})
        self.assertEqual((answer["error"]["data"]["type"], answer["error"]["message"]), ("TypeError", "ask: $.args[1][0]: Proc cannot be sent: return its data, or give its class a method to_h"))
        self.assertEqual(asked, [])

    def test_several_in_flight(self):
        count = []

        def answers(params):
            count.append(params)
            return {"result": {"value": params["args"][0] * 10}, "hold": len(count) < 5}
        answer, _ = self.converse("(1..5).map { |i| Thread.new { ask(i) } }.map(&:value)", answers, {"ask": {"kind": "function"}})
        self.assertEqual(answer["result"]["value"], [10, 20, 30, 40, 50])

    def test_a_timeout_around_a_call(self):
        def answers(params):
            return {"result": {"value": params["args"][0]}, "hold": params["args"][0] == 1}
        code = """
            require 'timeout'
            first = begin
              Timeout.timeout(0.05) { ask(1) }
            rescue Timeout::Error
              'late'
            end
            [first, ask(2), ask(3)]"""
        answer, _ = self.converse(code, answers, {"ask": {"kind": "function"}})
        self.assertEqual(answer["result"]["value"], ["late", 2, 3])

    def test_not_from_a_forked_child(self):
        code = """
            r, w = IO.pipe
            pid = fork { w.write((ask(1) rescue $!.class.name)); exit!(0) }
            w.close
            Process.wait(pid)
            [r.read, ask(2)]"""
        answer, _ = self.converse(code, lambda p: {"result": {"value": p["args"][0]}}, {"ask": {"kind": "function"}})
        self.assertEqual(answer["result"]["value"], ["IOError", 2])

    def test_imports(self):
        imports = {"weather": {"members": {"today": {"kind": "function"}, "UNIT": {"kind": "value", "value": "C"}}},
                   "geo/way-point": {"members": {"near": {"kind": "function"}}}, "own": {"source": "def own = 5\nOWN = __FILE__"}}
        code = """
            a = require 'weather'
            b = require 'weather'
            %w[geo/way-point own set].each { |name| require name }
            [a, b, Weather.today(1), Weather::UNIT, Geo::WayPoint.near, own, OWN]"""
        answer, asked = self.converse(code, lambda p: {"result": {"value": p["target"]}}, {}, imports)
        self.assertEqual(answer["result"]["value"], [True, False, ["import", "weather", "today"], "C", ["import", "geo/way-point", "near"], 5, "<own>"])


if __name__ == "__main__":
    unittest.main()
