"""The Perl agent over a socketpair at descriptor 3, without a box. Each call has a process of its own, as each has a box."""
import json
import pathlib
import re
import sys
import unittest

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1]))
import agent_process

RUNTIME = agent_process.ROOT / "runtimes" / "perl"
MANIFEST = agent_process.manifest_of("perl")
NO_FORM = {"array", "buffer", "class", "date", "error", "map", "ref", "regexp", "set"}
ECHO = "sub echo { return $_[0] }"


class Agent(agent_process.Agent):
    def __init__(self):
        super().__init__(agent_process.command_of(MANIFEST, RUNTIME), ".pl", {"LANG": "C.UTF-8"})


class Case(agent_process.AgentCase):
    maxDiff = 2000
    start = Agent

    def answer_and_attachments(self, code, *args, **params):
        answer = super().answer_and_attachments(code, *args, **params)
        self.status, self.out, self.err = self.output
        return answer

    def answer(self, code, *args, **params):
        message = super().answer(code, *args, **params)
        self.source = message.get("result", {}).get("signatureSource")
        return message

    def assertThrows(self, kind, text, code, *args, **params):
        return self.fails(code, kind, text, *args, **params)


class Page(unittest.TestCase):
    """docs/adding-a-language.md shows this runtime; its statements are correct."""

    def test_it_is_under_200_lines(self):
        files = [path for path in RUNTIME.iterdir() if path.name != "README.md"]
        self.assertEqual({path.name for path in files}, {"manifest.json", "agent.pl"})
        lines = [line for path in files for line in path.read_text().splitlines()]
        self.assertLess(len(lines), 200)
        self.assertLessEqual(max(map(len, lines)), 110)

    def test_its_pieces_are_there(self):
        page = (agent_process.ROOT / "docs" / "adding-a-language.md").read_text()
        pieces = re.findall(r"^```(json|perl)\n(.*?)^```$", page, re.M | re.S)
        self.assertGreater(len(pieces), 3)
        for kind, piece in pieces:
            self.assertIn(piece, (RUNTIME / {"json": "manifest.json", "perl": "agent.pl"}[kind]).read_text())

    def test_it_names_every_key_of_the_manifests(self):
        page = (agent_process.ROOT / "docs" / "adding-a-language.md").read_text()
        for manifest in RUNTIME.parent.glob("*/manifest.json"):
            for key in json.loads(manifest.read_text()):
                self.assertRegex(page, r"(?m)^\|[^|]*`%s`[^|]*\|" % key)


# ---- values ---------------------------------------------------------------------------------------------------

def kinds(tree):
    if isinstance(tree, list):
        return set().union(*map(kinds, tree)) if tree else set()
    if not isinstance(tree, dict):
        return set()
    own = {tree["$"]} if isinstance(tree.get("$"), str) else set()
    return own.union(*map(kinds, tree.values()))


def expected(tree):
    """Kinds that Perl cannot distinguish are sent as one: integral floats, null, objects that need no escape."""
    if isinstance(tree, list):
        return [expected(item) for item in tree]
    if isinstance(tree, float):
        return int(tree) if tree.is_integer() and abs(tree) < 1e15 else tree
    if not isinstance(tree, dict):
        return tree
    kind = tree.get("$")
    if kind == "undefined":
        return None
    if kind == "bigint" and abs(int(tree["v"])) < 2**53:
        return int(tree["v"])
    if kind == "object":
        pairs = sorted((key, expected(value)) for key, value in tree["v"])
        if any(key == "$" or "\0" in key for key, _ in pairs):
            return {"$": "object", "v": [list(pair) for pair in pairs]}
        return dict(pairs)
    return {key: expected(value) for key, value in tree.items()}


class Values(Case):
    def test_every_vector_round_trips_or_is_refused_by_name(self):
        seen = set()
        for vector in agent_process.vectors("values"):
            with self.subTest(vector["name"]):
                attachments = bytearray()
                argument = agent_process.outward(vector["value"], attachments)
                message, attached = self.answer_and_attachments(ECHO, argument, attachments=bytes(attachments))
                refused = kinds(vector["value"]) & NO_FORM
                seen |= refused
                if refused:
                    self.assertRegex(message["error"]["message"], r"^args\[0\].*: a value of the kind '(%s)' has no form in Perl$"
                                     % "|".join(refused))
                else:
                    got = json.dumps(agent_process.inward(message["result"]["value"], attached), sort_keys=True)
                    self.assertEqual(got, json.dumps(expected(vector["value"]), sort_keys=True))
        self.assertEqual(seen, NO_FORM - {"ref"})

    def test_what_the_code_sees(self):
        code = "sub f { return [map { ref $_ || (defined $_ ? 'plain' : 'undef') } @_] }"
        args = [None, 1, "a", [], {}, {"$": "bigint", "v": "9" * 20}, {"$": "bytes", "at": 0, "n": 2}, True, {"$": "undefined"}]
        self.assertEqual(self.call(code, *args, attachments=b"\xff\0"),
                         ["undef", "plain", "plain", "ARRAY", "HASH", "Math::BigInt", "Cloche::Bytes", "plain", "undef"])

    def test_numbers_and_strings_stay_apart(self):
        self.assertEqual(self.call("my $n = 5; my $s = '5'; my $t = \"$n\" . ($s + 1); [$n, $s, 1 + $s, '1.0', 0.1 + 0.2, 1e300, '']"),
                         [5, "5", 6, "1.0", 0.1 + 0.2, 1e300, ""])

    def test_comparisons_are_booleans(self):
        self.assertEqual(self.call("use JSON::PP; [1 == 1, 1 == 2, !1, JSON::PP::true, $_[0], !$_[0]]", True),
                         [True, False, False, True, True, False])

    def test_integers_of_64_bits_and_more(self):
        self.assertEqual(self.call("[9007199254740991, 9007199254740992, 18446744073709551615, 2**53, -9223372036854775807]"),
                         [2**53 - 1, {"$": "bigint", "v": str(2**53)}, {"$": "bigint", "v": str(2**64 - 1)}, float(2**53),
                          {"$": "bigint", "v": str(-2**63 + 1)}])
        self.assertEqual(self.call("sub f { $_[0] * 2 }", {"$": "bigint", "v": "9" * 30}),
                         {"$": "bigint", "v": str(2 * int("9" * 30))})
        self.assertEqual(self.call("use Math::BigInt; [Math::BigInt->new(7), Math::BigInt->bnan]"), [7, {"$": "number", "v": "NaN"}])

    def test_odd_numbers(self):
        self.assertEqual(self.call("[9**9**9, -9**9**9, 'nan' * 1, -1e-300 * 1e-300, 1e15, 1e16, 123456789012345680000]"),
                         [{"$": "number", "v": "Infinity"}, {"$": "number", "v": "-Infinity"}, {"$": "number", "v": "NaN"},
                          {"$": "number", "v": "-0"}, 10**15, 1e16, 123456789012345680000.0])

    def test_text_is_text(self):
        self.assertEqual(self.call("sub f { my $s = shift; return [length $s, ucfirst $s, 'é', \"\\x{e9}\"] }", "ünï"), [3, "Ünï", "é", "é"])

    def test_bytes(self):
        message, attached = self.answer_and_attachments("sub f { return [length $_[0], Cloche::Bytes->new(\"<$_[0]>\"), $_[0] eq \"\\xff\\0\"] }",
                                        {"$": "bytes", "at": 0, "n": 2}, attachments=b"\xff\0")
        self.assertEqual(agent_process.inward(message["result"]["value"], attached), [2, {"$": "bytes", "b64": "PP8APg=="}, True])
        self.assertThrows("TypeError", "$: bytes with characters over 255 cannot be sent", "Cloche::Bytes->new('日')")

    def test_keys_are_sorted(self):
        message, _ = self.answer_and_attachments("return {map { $_ => 1 } 'a' .. 'z'}")
        self.assertEqual(list(message["result"]["value"]), [chr(97 + i) for i in range(26)])

    def test_what_cannot_be_sent_is_named(self):
        for code, text in [("{rows => [1, {handler => sub { 1 }}]}", "$.rows[1].handler: CODE cannot be sent"),
                           ("[*STDOUT]", "$[0]: GLOB cannot be sent"), ("[\\*STDOUT]", "$[0]: GLOB cannot be sent"),
                           ("[\\1]", "$[0]: SCALAR cannot be sent"), ("[qr/a/]", "$[0]: Regexp cannot be sent"),
                           ("[bless {}, 'Some::Class']", "$[0]: Some::Class cannot be sent"),
                           ("[chr 0xD800]", "$[0]: string that is not Unicode cannot be sent"),
                           ("{chr(0xD800) => 1}", None),
                           ("my @a; $a[0] = {me => \\@a}; \\@a", "$[0].me: cycle cannot be sent")]:
            with self.subTest(code):
                error = self.error("return " + code if code[0] != "m" else code)
                self.assertEqual(error["type"], "TypeError")
                self.assertIn(text or "not Unicode", error["message"])

    def test_shared_values_are_no_cycle(self):
        self.assertEqual(self.call("my $a = [1]; return [$a, $a]"), [[1], [1]])

    def test_depth(self):
        code = "my $v = []; $v = [$v] for 2 .. %d; return $v"
        self.call(code % 200)
        self.assertRegex(self.error(code % 201)["message"], r"^\$(\[0\])+\.\.: nested deeper than 200: flatten it$")

    def test_result_bytes(self):
        for code, size in [("'x' x 98", 100), ("[1, 22, 333]", 10), ("Cloche::Bytes->new('x' x 60)", 60 + 27)]:
            with self.subTest(code):
                self.answer_and_attachments("return " + code)
                self.assertIn("result", self.answer_and_attachments("return " + code, resultBytes=size)[0])
                self.assertThrows("ValueError", "result over resultBytes", "return " + code, resultBytes=size - 1)

    def test_large_values(self):
        self.assertEqual(self.call("sub f { return [scalar @{$_[0]}, 'y' x 3_000_000] }", list(range(20000))), [20000, "y" * 3000000])


# ---- functions and arguments ------------------------------------------------------------------------------------

class Calls(Case):
    def test_named_function(self):
        self.assertEqual(self.call("sub f { 1 } sub g { $_[0] + $_[1] }", 40, 2, function="g"), 42)
        self.assertEqual(self.source, "convention")
        self.assertEqual(self.call("package Geo::Area; sub of { $_[0] ** 2 }", 3, function="Geo::Area::of"), 9)
        self.assertEqual(self.call("*late = sub { 'late' };", function="late"), "late")

    def test_function_that_is_not_there(self):
        self.assertThrows("NameError", "function 'h' is not in the code, which has: _g f",
                          "use List::Util 'sum'; use constant PI => 3; sub f { sum(PI) } sub _g { }", function="h")

    def test_the_one_public_function(self):
        self.assertEqual(self.call("use List::Util 'sum'; use constant TWO => 2; sub _help { sum(@_) * TWO } sub f { _help(@_) }", 1, 2), 6)

    def test_several_functions_run_nothing(self):
        self.assertThrows("TypeError", "code defines several public functions (f g): name one", "print 'ran'; sub g { 1 } sub f { 2 }")
        self.assertEqual(self.out, "")

    def test_code_as_body(self):
        self.assertEqual(self.call("my ($x, $y) = @_;\n$x * $y", 6, 7), 42)
        self.assertEqual(self.call("return 'early' if @_ == 1;\n'late'", 1), "early")
        self.assertEqual(self.call("sub _twice { 2 * shift }\n_twice(21)"), 42)
        self.assertIsNone(self.call(""))
        self.assertEqual(self.call("7\n__END__\nnot code ("), 7)

    def test_context_is_list(self):
        self.assertEqual(self.call("sub f { return wantarray ? 'list' : 'scalar' }"), "list")
        self.assertEqual(self.call("sub f { return (1, 2) }"), [1, 2])
        self.assertEqual(self.call("sub f { return (1) }"), 1)
        self.assertIsNone(self.call("sub f { return }"))
        self.assertEqual(self.call("sub f { return [5] }"), [5])

    def test_keywords_are_pairs(self):
        code = "use v5.36; sub f ($name, %options) { return [$name, map { \"$_=$options{$_}\" } sort keys %options] }"
        self.assertEqual(self.call(code, "Ada", kwargs={"mark": "!", "$": 2}), ["Ada", "$=2", "mark=!"])
        self.assertEqual(self.call("return [@_]", kwargs={"b": 1, "a": [2]}), ["a", [2], "b", 1])

    def test_order_maps_names_to_positions(self):
        self.assertEqual(self.call("return [@_]", 1, kwargs={"c": 3, "b": 2}, order=["a", "b", "c"]), [1, 2, 3])
        self.assertEqual(self.source, "schema")
        self.assertEqual(self.call("return [@_]", 1, kwargs={"b": 2, "z": 26}, order=["a", "b"]), [1, 2, "z", 26])
        self.assertThrows("TypeError", "argument 'a' is given twice", "1", 1, kwargs={"a": 3}, order=["a"])

    def test_holes(self):
        self.assertEqual(self.call("sub f { my ($x, $y) = @_; return [scalar @_, $x, $y // 'default'] }", 1, None, holes=[1]),
                         [1, 1, "default"])
        missing = "argument at position %s is missing, and others stand behind it"
        self.assertThrows("TypeError", missing % 0, "1", None, 2, holes=[0])
        self.assertThrows("TypeError", missing % "1 ('b')", "1", 1, kwargs={"c": 3}, order=["a", "b", "c"])
        self.assertThrows("TypeError", missing % "1 ('b')", "1", 1, kwargs={"z": 3}, order=["a", "b"])
        self.assertThrows("TypeError", missing % 1, "1", 1, None, kwargs={"z": 3}, holes=[1])

    def test_signatures_of_the_language_count_arguments(self):
        error = self.error("use v5.36;\nsub f ($x, $y) { }", 1)
        self.assertRegex(error["message"], r"^Too few arguments for subroutine 'main::f' \(got 1; expected 2\)")

    def test_source_is_text_and_the_environment_plain(self):
        self.assertEqual(self.call("use utf8; my $ü = 'ß'; $undeclared = 1; return [$ü, __FILE__, 0 + __LINE__, $0, __PACKAGE__]"),
                         ["ß", "main.pl", 1, "main.pl", "main"])

    def test_filename_cannot_be_code(self):
        self.assertEqual(self.call("__FILE__", filename='a"\nprint 1;\n#.pl'), "a__print 1;_#.pl")

    def test_host_names_are_refused(self):
        self.assertThrows("TypeError", "Perl takes no globals or imports", "1", globals={"g": {"kind": "function"}})
        self.assertThrows("TypeError", "Perl takes no globals or imports", "1", imports={"m": {"source": ""}})

    def test_other_methods(self):
        with Agent() as one:
            for method in ("prepare", "freeze", "run", "evaluate"):
                self.assertEqual(one.ask(method, **one.call_params(code="1"))[0]["error"], {"code": -32601, "message": f"no method '{method}'"})
            self.assertEqual(one.request(code="42")[0]["result"]["value"], 42)


# ---- errors -----------------------------------------------------------------------------------------------------

class Errors(Case):
    def test_die_with_a_string(self):
        error = self.assertThrows("Error", "boom", "sub inner {\n    die 'boom'\n}\nsub f {\n    inner(1)\n}\n", function="f")
        self.assertEqual(error["stack"], "Error: boom\n at main.pl line 2.\n\tmain::inner(1) called at main.pl line 5\n")
        self.assertThrows("Error", "boom\n", "die \"boom\\n\"")

    def test_errors_of_the_language(self):
        self.assertThrows("Error", "Illegal division by zero", "sub f { return 1 / $_[0] }", 0)
        self.assertThrows("Error", "Can't locate object method \"go\" via package \"Nowhere\" (perhaps you forgot to load \"Nowhere\"?)",
                          "Nowhere->go")
        open_file = "open my $in, '<', \\'a'; my $line = <$in>; die 'late'"
        self.assertThrows("Error", "late", open_file)

    def test_die_with_an_object(self):
        self.assertThrows("Odd", "three", "package Odd { sub message { 'three' } } die bless {}, 'Odd'")
        self.assertThrows("Odd", "four", "package Odd { use overload '\"\"' => sub { 'four' } } die bless {}, 'Odd'")
        self.assertThrows("Odd", "Odd", "package Odd { sub message { die 'again' } } die bless {}, 'Odd'")
        self.assertEqual(self.error("die {code => 5}")["type"], "HASH")

    def test_caught_errors_are_none(self):
        self.assertEqual(self.call("sub f { eval { die 'x' }; return 'fine' }"), "fine")

    def test_message_that_is_not_unicode(self):
        self.assertThrows("Error", "a\ufffdb", "die 'a', chr(0xD800), 'b'")
        self.assertEqual(len(self.error("die 'x' x 1_000_000")["message"]), 1 << 16)

    def test_syntax_error_has_the_users_line(self):
        error = self.error("my $x = 1;\nsub f {\n  my $y = ;\n}\n")
        self.assertEqual(error["type"], "SyntaxError")
        self.assertIn("syntax error at main.pl line 3", error["message"])
        self.assertEqual(self.error("use No::Such::Module;")["type"], "SyntaxError")
        self.assertIn("Global symbol \"$y\"", self.error("use strict; $y = 1")["message"])

    def test_no_frame_of_the_agent(self):
        for code in ("die 'x'", "sub f { die 'x' }", "use No::Such;", "exit 3", "eval { die 1 }; [\\1]", "sub f { [sub {}] }", "1 +"):
            stack = self.error(code)["stack"]
            self.assertNotIn("agent", stack)
            self.assertNotIn("Cloche", stack)

    def test_exit(self):
        self.assertThrows("SystemExit", "3", "sub f { exit 3 }")
        error = self.assertThrows("SystemExit", "0", "1;\nexit")
        self.assertIn("exit() called at main.pl line 2", error["stack"])
        self.assertEqual(self.call("eval { exit 2 }; \"$@\""), "2")
        self.assertEqual(self.error("BEGIN { exit 4 }")["type"], "SyntaxError")

    def test_hard_exit_closes_the_channel(self):
        self.assertIsNone(self.answer_and_attachments("require POSIX; POSIX::_exit(7)"))
        self.assertEqual(self.status, 7)
        self.assertIsNone(self.answer_and_attachments("kill 'KILL', $$; sleep 9"))

    def test_warnings_go_to_stderr(self):
        self.assertEqual(self.call("use warnings; my $x; my $y = \"$x\"; warn \"mind\\n\"; 1"), 1)
        self.assertEqual(self.err, "Use of uninitialized value $x in string at main.pl line 1.\nmind\n")


# ---- code that, meaning to or not, gets in the way ----------------------------------------------------------------

class Hostile(Case):
    def test_output_never_mixes_with_the_result(self):
        self.assertEqual(self.call("print 'no newline, ü'; printf STDERR 'x'; print {*STDOUT} \"\\x08\\0\\0\\0null\"; 1"
                                   ), 1)
        self.assertEqual((self.out, self.err), ("no newline, ü\x08\0\0\0null", "x"))

    def test_output_is_flushed_before_the_answer(self):
        with Agent() as one:
            one.request(code="$| = 0; print 'kept'; open my $o, '>', 'other'; select $o; 1")
            self.assertEqual(one.process.stdout.read(4), b"kept")

    def test_changed_variables(self):
        code = "$, = '-'; $\\ = '!'; $\" = '+'; $/ = undef; $; = 'x'; $_ = 5; local $@ = 'old'; sub f { [1, {a => 2}] }"
        self.assertEqual(self.call(code), [1, {"a": 2}])

    def test_overridden_builtins_and_handlers(self):
        code = ("BEGIN { *CORE::GLOBAL::die = sub { CORE::die('mine') }; *CORE::GLOBAL::sprintf = sub { 'x' } }\n"
                "$SIG{__DIE__} = sub { print 'handled' }; $SIG{__WARN__} = sub {}; sub f { die 'plain' }")
        self.assertThrows("Error", "mine", code)

    def test_closed_streams(self):
        self.assertEqual(self.call("close STDIN; close STDOUT; close STDERR; 3"), 3)

    def test_descriptor_3_is_free_and_children_have_no_channel(self):
        self.assertEqual(self.call("pipe my $r, my $w; return fileno $r"), 3)
        self.assertEqual(self.call("my $n = `ls /proc/self/fd | wc -l`; return 0 + $n"), 4)

    def test_channel_closed_or_replaced(self):
        self.assertIsNone(self.answer_and_attachments("require POSIX; POSIX::close($_) for 3 .. 1100; 1"))
        with Agent() as one:
            self.assertIsNone(one.request(code=(
                "require POSIX; open my $v, '+>', 'victim'; POSIX::dup2(fileno $v, $_) for 3 .. 20; 1")))
            self.assertEqual((pathlib.Path(one.workdir) / "victim").read_bytes(), b"")

    def test_forked_children(self):
        fork = "$| = 1; sub f { my $pid = fork; if ($pid) { waitpid $pid, 0; return ['parent', $? >> 8] } print 'child'; %s }"
        for ending, status in [("return 1", 0), ("exit 5", 5), ("die \"gone\\n\"", 1)]:
            with self.subTest(ending):
                self.assertEqual(self.call(fork % ending), ["parent", status])
                self.assertEqual(self.out, "child")
        self.assertEqual(self.err, "gone\n")

    def test_end_blocks_run_at_the_end(self):
        self.assertEqual(self.call("END { print 'bye'; exit 4 } 1"), 1)
        self.assertEqual((self.out, self.status), ("bye", 4))

    def test_redefined_parts_of_main(self):
        self.assertEqual(self.call("package Cloche; my $json; package main; sub encode { 'mine' } sub _x {}"), "mine")


if __name__ == "__main__":
    unittest.main()
