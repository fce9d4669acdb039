"""Functions, bodies, arguments, errors, set-up, scripts, host functions."""
import json
import unittest

from bash_agent import Agent, AgentCase


NO_NAMES = "argument '%s': Bash has no named parameters: give it by position, or name the positions in a schema"


class Functions(AgentCase):
    def test_the_one_public_function(self):
        self.assertEqual(self.call('_help() { echo "<$1>"; }\ngreet() { _help "$1"; }', "x"), "<x>")

    def test_several_are_listed(self):
        self.fails("a() { :; }\nb() { :; }", "NameError", "the code defines several public functions (a, b): name one")

    def test_named(self):
        code = "a() { echo a; }\nb() { echo b; }\n_c() { echo c; }\nnode:x.y() { echo d; }"
        for name, value in [("a", "a"), ("b", "b"), ("_c", "c"), ("node:x.y", "d")]:
            self.assertEqual(self.call(code, function=name), value)

    def test_named_but_not_there(self):
        self.fails("a() { :; }", "NameError", "function 'z' is not defined in the code; it defines: a", function="z")
        self.fails("", "NameError", "function 'printf' is not defined in the code; it defines: none", function="printf")

    def test_code_as_the_body(self):
        self.assertEqual(self.call('echo "$# $1 $2"; for x; do echo "$x"; done', "a b", 2), "2 a b 2\na b\n2")
        self.assertEqual(self.call("[[ $1 ]] && return 0; echo no", 1), "")
        self.assertEqual(self.call('printf \'{"got": "%s"}\' "$1"', 7), {"got": "7"})
        self.assertEqual(self.call(""), "")

    def test_stdout_of_the_top_level_is_no_result(self):
        self.assertEqual(self.call("echo top\nf() { echo in; }\necho end"), "in")
        self.assertEqual(self.output[1], "top\nend\n")
        self.assertEqual(self.call("echo top\nf() { echo in; }", function="f"), "in")
        self.assertEqual(self.output[1], "top\n")

    def test_stderr_is_stderr(self):
        self.assertEqual(self.call("f() { echo oops >&2; echo fine; }"), "fine")
        self.assertEqual(self.output[2], "oops\n")

    def test_stdin_is_empty(self):
        self.assertEqual(self.call("f() { read -r x; echo \"$? [$x]\"; }"), "1 []")

    def test_signature_source(self):
        self.assertEqual(self.answer("f() { :; }")["result"]["signatureSource"], "convention")
        self.assertEqual(self.answer("f() { :; }", order=[])["result"]["signatureSource"], "schema")

    def test_where_the_code_is(self):
        code = 'f() {\n  echo "$0|${BASH_SOURCE[*]}|${FUNCNAME[*]}|$LINENO|${BASH_LINENO[1]}"\n}\ng() { f; }'
        self.assertEqual(self.call(code, function="g", filename="a/b.sh"), "a/b.sh|a/b.sh a/b.sh a/b.sh|f g main|2|1")
        self.assertEqual(self.call("f() {\n :\n caller 0\n}"), "1 main main.sh")

    def test_it_looks_like_a_script(self):
        self.assertEqual(self.call('f() { echo "$- [$BASH_EXECUTION_STRING] $BASH_SUBSHELL $(( $$ == BASHPID ))"; }'), "hB [] 0 1")
        self.assertEqual(self.call('f() { [[ ${BASH_SOURCE[0]} == "$0" ]] && echo main; }'), "main")

    def test_the_language_works(self):
        self.assertEqual(self.call("""f() {
            local -A seen=([a]=1); local -n ref=seen; local list=(x "y z")
            [[ "abc-12" =~ ^([a-z]+)-([0-9]+)$ ]] && printf '%s,' "${BASH_REMATCH[@]:1}"
            printf '%s,' "${ref[a]}" "${#list[@]}" "${list[1]^^}" "$((2 ** 10))" "$(printf '%03d' 7)" {1..3}
            while read -r line; do printf '<%s>' "$line"; done < <(printf 'p\\nq\\n')
            cat <<< "here"; (exit 3); echo "$?"; false | true; echo "${PIPESTATUS[*]}"
        }"""), "abc,12,1,2,Y Z,1024,007,1,2,3,<p><q>here\n3\n1 0")

    def test_options_of_the_shell_that_change_reading(self):
        self.assertEqual(self.call("shopt -s extglob expand_aliases\nalias hi='echo hi'\nf() { hi; [[ abc == a!(x)c ]] && echo ext; }"), "hi\next")

    def test_jobs_left_behind_are_not_waited_for(self):
        self.assertEqual(self.call("f() { sleep 20 2>/dev/null >/dev/null & sleep 20 2>/dev/null & echo done; kill $!; }"), "done")
        self.assertEqual(self.call("f() { (sleep 0.2; echo late) & echo \"$(wait; echo waited)\"; wait; echo end; }"), "waited\nlate\nend")

    def test_stdout_moved_by_the_code(self):
        self.assertEqual(self.call("f() { exec >file; echo x; exec >&2; }; echo before"), "")
        self.assertEqual(self.call("exec >&-; f() { echo x; }"), "x")
        self.assertEqual(self.call("f() { { echo a; echo b >&2; } 2>&1 | sort -r; }"), "b\na")


class Arguments(AgentCase):
    CODE = 'f() { printf "%s|" "$#" "$@" "${x-unset}"; }'

    def test_positions(self):
        self.assertEqual(self.call(self.CODE), "0|unset|")
        self.assertEqual(self.call(self.CODE, "a b", "", "*"), "3|a b||*|unset|")

    def test_many(self):
        self.assertEqual(self.call('f() { echo "$# ${!#}"; }', *range(5000)), "5000 4999")
        self.assertEqual(self.call('f() { echo "${#1}"; }', "x" * 3000000), 3000000)

    def test_keywords_have_no_place(self):
        for kwargs in ({"x": 1}, {"a-b": 1}, {"UID": 1}, {"IFS": "-", "x": 2}):
            self.fails(self.CODE, "ArgumentError", NO_NAMES % [*kwargs][0], "p", kwargs=kwargs)
        self.assertEqual(self.call(self.CODE, "p"), "1|p|unset|")

    def test_order_names_positions(self):
        self.assertEqual(self.call(self.CODE, 1, order=["a", "b", "c"], kwargs={"c": 3}), "3|1||3|unset|")
        self.assertEqual(self.call(self.CODE, 1, order=["a", "x"], kwargs={"x": 2}), "2|1|2|unset|")
        self.fails(self.CODE, "ArgumentError", NO_NAMES % "x", order=["a"], kwargs={"x": 2})
        self.fails(self.CODE, "ArgumentError", "argument 'a' is given twice", 1, order=["a"], kwargs={"a": 2})

    def test_holes(self):
        code = 'f() { echo "$# ${1:-one} ${2:-two} ${3:-three}"; }'
        self.assertEqual(self.call(code, None, "b", holes=[0]), "2 one b three")
        self.assertEqual(self.call(code, "a", None, None, holes=[1, 2]), "1 a two three")
        self.assertEqual(self.call(code, None, "b", holes=[0], order=["a", "b"], kwargs={"a": "A"}), "2 A b three")

    def test_params_of_another_shape(self):
        for name, value in [("args", {}), ("kwargs", []), ("code", 1), ("function", 1), ("order", "a"), ("resultBytes", "x"), ("holes", [5])]:
            answer = self.answer(**{"code": "f() { :; }", "args": [], name: value})
            self.assertEqual(answer["error"]["code"], -32602, answer)
            self.assertIn("params." + name, answer["error"]["message"])


class Errors(AgentCase):
    def test_a_status(self):
        error = self.fails("f() { echo partly; return 3; }", "ExitStatus", "f returned 3")
        self.assertEqual(error["stack"], "")
        self.assertEqual(self.output[1], "partly\n")
        self.fails("f() { false; }", "ExitStatus", "f returned 1")
        self.fails("echo x; nosuchcommand", "ExitStatus", "main.sh returned 127")
        self.assertIn("main.sh: line 1: nosuchcommand: command not found", self.output[2])

    def test_exit(self):
        error = self.fails("f() {\n  _g\n}\n_g() {\n  exit 4\n}", "ExitStatus", "f exited with 4")
        self.assertEqual(error["stack"], "main.sh: line 5: _g\nmain.sh: line 2: f")
        self.assertEqual(self.call("f() { echo r; exit 0; echo no; }"), "r")
        self.assertEqual(self.call("echo r; exit; echo no"), "r")
        self.fails("exit 5\nf() { :; }", "ExitStatus", "main.sh exited with 5")
        self.fails("exit 0\nf() { :; }", "ExitStatus", "main.sh exited with 0 before f was called", function="f")

    def test_errexit(self):
        error = self.fails("set -e\nf() {\n  echo a\n  false\n  echo b\n}", "ExitStatus", "f ended with status 1 under set -e")
        self.assertEqual((error["stack"], self.output[1]), ("main.sh: line 4: f", "a\n"))
        self.assertEqual(self.call("set -e; f() { false || true; if false; then :; fi; echo ok; }"), "ok")
        self.fails("set -e\n(exit 7)\nf() { :; }", "ExitStatus", "main.sh ended with status 7 under set -e")

    def test_nounset(self):
        error = self.fails("set -u\nf() {\n  echo \"$nope\"\n}", "ExitStatus",
                           "f ended with status 1: main.sh: line 3: nope: unbound variable")
        self.assertEqual(error["stack"], "main.sh: line 3: f")
        self.fails("f() { echo ${1:?is missing}; }", "ExitStatus", "f ended with status 1: main.sh: line 1: 1: is missing")

    def test_what_the_shell_gives_up_on(self):
        self.fails("f() { echo $((1 / 0)); echo after; }", "ExitStatus",
                   'f ended with status 1: main.sh: line 1: 1 / 0: division by 0 (error token is "0")')
        error = self.error("f() { f; }")
        self.assertEqual(error["message"], "f ended with status 1: main.sh: line 1: f: maximum function nesting level exceeded (2000)")
        self.assertLess(len(error["stack"]), 4096)

    def test_syntax(self):
        for code, message in [("echo a\nif true; then\n fi", "main.sh: line 3: syntax error near unexpected token `fi'"),
                              ("f() {\n echo 'a", "main.sh: line 2: unexpected EOF while looking for matching `''"),
                              ("f( {", "main.sh: line 1: syntax error near unexpected token `{'"),
                              ("for x in a; do", "main.sh: line 2: syntax error: unexpected end of file"),
                              ("x=$(", "main.sh: line 2: unexpected EOF while looking for matching `)'"),
                              ("echo 'quoted `backticks`' ;;", "main.sh: line 1: syntax error near unexpected token `;;'")]:
            with self.subTest(code):
                self.fails(code, "SyntaxError", message)

    def test_syntax_of_what_the_code_evaluates(self):
        self.assertEqual(self.call("f() { eval 'if (' 2>/dev/null; echo $?; }"), 2)

    def test_code_with_nul(self):
        self.fails("echo a\0", "SyntaxError", "main.sh: the code has a NUL in it")

    def test_traps(self):
        self.assertEqual(self.call("f() { trap 'echo bye >&2' EXIT; echo r; }"), "r")
        self.assertEqual(self.output[2], "bye\n")
        self.assertEqual(self.call("trap 'echo bye' EXIT\nf() { echo r; }"), "r")
        self.assertEqual(self.output[1], "bye\n")
        self.assertEqual(self.call("trap 'echo bye' EXIT; echo r"), "r\nbye")
        self.fails("trap 'echo bye >&2' EXIT\nf() { exit 3; }", "ExitStatus", "f exited with 3")
        self.assertEqual(self.output[2], "bye\n")
        self.assertEqual(self.call("f() { trap 'echo err' ERR; trap 'echo ret' RETURN; set -E; false; true; }"), "err\nret")
        self.assertEqual(self.call("f() { trap 'echo usr1' USR1; kill -USR1 $$; echo r; }"), "usr1\nr")

    def test_what_a_trap_says_is_not_the_reason(self):
        self.fails("trap 'cd /nonexistent' EXIT; set -u; f() { echo $x; }", "ExitStatus",
                   "f ended with status 1: main.sh: line 1: x: unbound variable")

    def test_messages_that_are_no_utf8(self):
        self.assertIn("\ufffd", self.error("f() { exec 2>/dev/null; local m=$'\\xff'; echo ${x?$m}; }")["message"])


class SetUp(AgentCase):
    def prepare(self, code, **params):
        self.agent = Agent()
        self.addCleanup(self.agent.end)
        return self.agent.ask("prepare", code=code, filename="setup.sh", **{"globals": {}, "imports": {}, **params})[0]

    def value(self, code, **params):
        return self.agent.request(code=code, **params)[0]["result"]["value"]

    def test_functions_variables_and_options_stay(self):
        self.assertIn("result", self.prepare("LIMIT=10; declare -A m=([k]=v); export E=1\nhelp() { echo \"<$1>\"; }\nshopt -s nullglob"))
        self.assertEqual(self.value('f() { help "$LIMIT ${m[k]} $(printenv E) $(shopt -p nullglob)"; }'), "<10 v 1 shopt -s nullglob>")
        self.assertEqual(self.value("help again"), "<again>")

    def test_functions_of_the_set_up_are_not_the_code_s(self):
        self.prepare("one() { echo 1; }\ntwo() { echo 2; }")
        self.assertEqual(self.value("three() { one; two; }"), "1\n2")
        self.assertEqual(self.value("echo body"), "body")
        self.assertEqual(self.value("", function="one"), 1)
        self.assertEqual(self.value("one() { echo new; }"), "new")

    def test_failures(self):
        for code, kind, message in [("x=(", "SyntaxError", "setup.sh: line 1: unexpected EOF while looking for matching `)'"),
                                    ("exit 3", "ExitStatus", "setup.sh exited with 3"),
                                    ("cd /nonexistent", "ExitStatus", "setup.sh returned 1"),
                                    ("set -u; echo $x", "ExitStatus", "setup.sh ended with status 1: setup.sh: line 1: x: unbound variable")]:
            error = self.prepare(code)["error"]["data"]
            self.assertEqual((error["type"], error["message"]), (kind, message))
        self.assertIn("result", self.prepare("exit 0"))

    def test_the_host_cannot_be_asked_meanwhile(self):
        self.assertIn("result", self.prepare("ask 2>m || m=$(<m)", globals={"ask": {"kind": "function"}}))
        self.assertEqual(self.value('echo "$m"'), "setup.sh: line 1: ask: Error: the host cannot be asked while set-up code runs")

    def test_freeze_is_refused_in_a_plain_process(self):
        self.prepare("x=1")
        self.assertEqual(self.agent.ask("freeze")[0]["error"]["code"], -32001)


class Scripts(AgentCase):
    def run_script(self, code, *argv, **params):
        agent = Agent()
        agent.tell("run", code=code, filename="main.sh", argv=list(argv), **{"globals": {}, "imports": {}, **params})
        self.assertIsNone(agent.receive())
        return agent.end()

    def test_streams_and_status(self):
        self.assertEqual(self.run_script('echo "$0 $# $2"; echo e >&2; exit 3', "a", "b c"), (3, "main.sh 2 b c\n", "e\n"))
        self.assertEqual(self.run_script("false"), (1, "", ""))
        self.assertEqual(self.run_script("return 4"), (4, "", ""))

    def test_ends(self):
        self.assertEqual(self.run_script("trap 'echo bye; exit 9' EXIT; echo a; exit 1"), (9, "a\nbye\n", ""))
        self.assertEqual(self.run_script("echo a\nfi")[0:2], (2, "a\n"))
        self.assertEqual(self.run_script("set -e; false; echo no")[0:2], (1, ""))
        self.assertEqual(self.run_script("exec echo replaced"), (0, "replaced\n", ""))
        self.assertEqual(self.run_script("kill -TERM $$; sleep 5")[0], -15)
        self.assertEqual(self.run_script("echo $((1/0))\necho $?")[1], "1\n")

    def test_functions_are_not_called(self):
        self.assertEqual(self.run_script("f() { echo no; }"), (0, "", ""))


class Host(AgentCase):
    """The test is the host."""

    def ask(self, code, answers, globals=None, imports=None, **params):
        """The response to the call, and the requests to the host."""
        agent = Agent()
        asked = []
        agent.tell("call", **agent.call_params(code=code, globals=globals or {}, imports=imports or {}, **params))
        for answer in answers:
            message, attachments = agent.receive()
            self.assertEqual(message.get("method"), "bridge", message)
            asked.append((message["params"]["target"], message["params"]["args"], message["params"]["kwargs"], attachments))
            reply = {"jsonrpc": "2.0", "id": message["id"], **(answer[0] if isinstance(answer, tuple) else answer)}
            agent.send_raw(json.dumps(reply).encode(), answer[1] if isinstance(answer, tuple) else b"")
        message = agent.receive()[0]
        self.output = agent.end()
        return message["result"]["value"] if "result" in message else message["error"], asked

    FUNCTION = {"kind": "function"}

    @staticmethod
    def gives(value):
        return {"result": {"value": value}}

    def test_a_function_is_a_command(self):
        value, asked = self.ask('f() { add 1 "two words"; }', [self.gives(3)], {"add": self.FUNCTION})
        self.assertEqual((value, asked), (3, [(["global", "add"], [1, "two words"], {}, b"")]))

    def test_in_subshells_and_pipes(self):
        code = "f() { local x; x=$(add 1); add 2 | cat; (add 3); echo \"$x\"; }"
        value, asked = self.ask(code, [self.gives("a"), self.gives("b"), self.gives("c")], {"add": self.FUNCTION})
        self.assertEqual((value, [args for _, args, _, _ in asked]), ("b\nc\na", [[1], [2], [3]]))

    def test_at_once(self):
        value, asked = self.ask("f() { add 1 & add 2 & add 3 & wait; }", [self.gives("x")] * 3, {"add": self.FUNCTION})
        self.assertEqual((value, sorted(args for _, args, _, _ in asked)), ("x\nx\nx", [[1], [2], [3]]))

    def test_values_there_and_back(self):
        for given, printed in [("text", "text\n"), (1.5, "1.5\n"), (None, "\n"), ({"a": [1]}, '{"a":[1]}\n'), ([], "[]\n"), (True, "true\n"),
                               ([[1], {"$": "ref", "n": 1}], "[[1],[1]]\n"), ({"$": "date", "v": "2026-11-21"}, "2026-11-21\n")]:
            self.assertEqual(self.ask("f() { local x; x=$(get; echo .); printf '%s' \"<$x\"; }", [self.gives(given)], {"get": self.FUNCTION})[0],
                             "<" + printed + ".")
        value, _ = self.ask("f() { get | od -An -tx1; }", [(self.gives({"$": "bytes", "at": 0, "n": 3}), b"\0a\xff")], {"get": self.FUNCTION})
        self.assertEqual(value, " 00 61 ff")
        _, asked = self.ask("f() { put 1 '{\"k\": [1, 2.5]}' '[1,' $'\\xff' ''; }", [self.gives(None)], {"put": self.FUNCTION})
        self.assertEqual(asked[0][1:], ([1, {"k": [1, 2.5]}, "[1,", {"$": "bytes", "at": 0, "n": 1}, ""], {}, b"\xff"))

    def test_errors(self):
        threw = {"error": {"code": -32000, "message": "m", "data": {"name": "RangeError", "message": "too far", "fields": {}}}}
        value, _ = self.ask("f() { get; echo \"$?\"; }", [threw], {"get": self.FUNCTION})
        self.assertEqual((value, self.output[2]), (1, "main.sh: line 1: get: RangeError: too far\n"))
        value, _ = self.ask("set -e; f() { x=$(get); echo no; }", [threw], {"get": self.FUNCTION})
        self.assertEqual(value["message"], "f ended with status 1 under set -e")
        value, asked = self.ask("f() { get '{\"$\": \"x\"}'; }", [], {"get": self.FUNCTION})
        self.assertEqual(value["message"], "f returned 1")
        self.assertIn('argument 1: $: there is no tag "x"', self.output[2])

    def test_values_and_members(self):
        nested = {"kind": "object", "members": {"get": self.FUNCTION, "limit": {"kind": "value", "value": [1]}}}
        value, asked = self.ask('f() { db.get a; db.limit; echo "$TOP"; }', [self.gives("row")],
                                {"db": nested, "TOP": {"kind": "value", "value": "x y"}})
        self.assertEqual((value, asked[0][0]), ("row\n[1]\nx y", ["global", "db", "get"]))

    def test_imports(self):
        value, asked = self.ask("f() { node:fs/read x; lib/deep.echo; }", [self.gives(1), self.gives(2)],
                                imports={"node:fs": {"members": {"read": self.FUNCTION}},
                                         "lib": {"members": {"deep": {"kind": "object", "members": {"echo": self.FUNCTION}}}}})
        self.assertEqual((value, [target for target, *_ in asked]), ("1\n2", [["import", "node:fs", "read"], ["import", "lib", "deep", "echo"]]))
        error, _ = self.ask("f() { :; }", [], imports={"lib": {"source": "x"}})
        self.assertEqual(error["message"], "the host's 'lib': modules of source text cannot be imported into the shell")

    def test_names_that_the_shell_has_itself(self):
        value, asked = self.ask("f() { echo mine; host.echo x; host.if y; }", [self.gives("his"), self.gives("z")],
                                {"echo": self.FUNCTION, "if": self.FUNCTION})
        self.assertEqual((value, [target for target, *_ in asked]), ("mine\nhis\nz", [["global", "echo"], ["global", "if"]]))

    def test_many_names(self):
        value, asked = self.ask("f() { f499; }", [self.gives("x")], {"f%d" % n: self.FUNCTION for n in range(500)}, function="f")
        self.assertEqual((value, asked[0][0]), ("x", ["global", "f499"]))

    def test_what_cannot_be_declared(self):
        for globals, message in [({"x": {"kind": "expression", "text": "1"}}, "the host's 'x': a declaration of a kind that the shell does not know"),
                                 ({"a-b": {"kind": "value", "value": 1}}, "the host's 'a-b': not a name of a shell variable"),
                                 ({"v": {"kind": "value", "value": "\0"}}, "the host's 'v': a string with NUL in it cannot be held by the shell"),
                                 ({"": self.FUNCTION}, "the host's '': not a name that a command can have")]:
            self.assertEqual(self.ask("f() { :; }", [], globals)[0]["message"], message)

    def test_functions_of_the_code_come_before(self):
        self.assertEqual(self.ask("get() { echo own; }\nf() { get; }", [], {"get": self.FUNCTION}, function="f")[0], "own")

    def test_an_asker_that_was_killed(self):
        code = "f() { get a & sleep 0.3; kill -9 $!; wait $! 2>/dev/null; get b; }"
        agent = Agent()
        agent.tell("call", **agent.call_params(code=code, globals={"get": self.FUNCTION}))
        first = agent.receive()[0]
        second = agent.receive()[0]
        for message, value in [(first, "late"), (second, "right")]:
            agent.send_raw(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {"value": value}}).encode())
        self.assertEqual(agent.receive()[0]["result"]["value"], "right")
        agent.end()


if __name__ == "__main__":
    unittest.main()
