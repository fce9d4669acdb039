"""Cells in a live shell: their view, output, displays and input, and their failures."""
import json
import os
import pathlib
import tempfile
import unittest

from bash_agent import Agent
from context_process import Context, SharedContextCase


class BashCase(SharedContextCase):
    @staticmethod
    def start():
        return Context(Agent())

    def printed(self, code, lines=(), **params):
        """The output of a cell that succeeds; its displays are in the context."""
        self.run_cell(code, lines, **params)
        self.run_cell("echo '<end>'")
        return self.context.printed("<end>\n")[:-len("<end>\n")]

    def fails(self, code, name, message, **params):
        self.assertEqual(self.error(code, **params), {"name": name, "message": message, "traceback": []})


class Cells(BashCase):
    def test_what_a_cell_leaves_is_there_for_the_next(self):
        self.run_cell("v=5; f() { echo \"f $1\"; }; alias say='echo said'; cd /; shopt -s extglob; exec 7</dev/null")
        self.assertEqual(self.printed("f $v; say; pwd; shopt extglob; [ -e /proc/self/fd/7 ] && echo seven; cd ~-; exec 7<&-"),
                         "f 5\nsaid\n/\nextglob        \ton\nseven\n")

    def test_status_of_the_last_command(self):
        self.fails("true; false", "ExitStatus", "1")
        self.fails("return 7", "ExitStatus", "7")
        self.fails("nosuchcommand", "ExitStatus", "127")
        self.context.printed("line 1: nosuchcommand: command not found\n", "stderr")
        self.assertEqual(self.run_cell("false; true"), [])
        self.assertEqual(self.run_cell(""), [])
        self.assertEqual(self.run_cell("# nothing"), [])

    def test_a_status_is_there_in_the_next_cell(self):
        self.error("(exit 9)")
        self.assertEqual(self.printed("echo $?"), "9\n")

    def test_syntax_errors(self):
        for code, message in [("\nif then", "Cell In[%d]: line 2: syntax error near unexpected token `then'"),
                              ("echo 'abc", "Cell In[%d]: line 1: unexpected EOF while looking for matching `''"),
                              ("for i in 1; do", "Cell In[%d]: line 2: syntax error: unexpected end of file")]:
            self.fails(code, "SyntaxError", message % (self.context.count + 1))
        self.fails("echo )", "SyntaxError", "mine.sh: line 1: syntax error near unexpected token `)'", filename="mine.sh")
        self.fails("echo a\0b", "SyntaxError", "the code has a NUL in it")

    def test_messages_are_in_the_coordinates_of_the_cell_that_said_them(self):
        self.run_cell("there() {\n nosuch_there\n}")
        where = self.context.count
        self.error("there")
        self.context.printed("Cell In[%d]: line 2: nosuch_there: command not found\n" % where, "stderr")

    def test_leaving_the_shell_is_an_error_of_the_cell(self):
        self.fails("left=1; exit 3; left=2", "ExitStatus", "exit 3")
        self.fails("exit", "ExitStatus", "exit 3")
        self.assertEqual(self.printed("echo $left"), "1\n")

    def test_options_that_end_a_script_end_the_cell(self):
        self.fails("set -e; false; echo no", "ExitStatus", "1 under set -e")
        self.fails("set +e; set -u; echo $nope", "ExitStatus", "1: Cell In[%d]: line 1: nope: unbound variable" % (self.context.count + 1))
        self.run_cell("set +u")
        self.run_cell("set -n")
        self.assertEqual(self.printed("echo again"), "again\n")

    def test_exec_of_what_is_not_there(self):
        self.fails("exec nosuchprogram", "ExitStatus", "127")
        self.assertEqual(self.printed("echo on"), "on\n")

    def test_standard_input_is_empty(self):
        self.assertEqual(self.printed("read x; echo \"$? [$x]\"; cat"), "1 []\n")

    def test_what_is_printed_comes_before_the_answer(self):
        self.run_cell("printf here; printf there >&2")
        self.assertEqual(os.read(self.context.agent.process.stdout.fileno(), 100), b"here")
        self.assertTrue(self.context.printed("there", "stderr").endswith("there"))

    def test_functions_without_end(self):
        self.assertEqual(self.error("deep() { deep; }; deep")["name"], "ExitStatus")
        self.run_cell("unset -f deep")

    def test_words_redefined(self):
        self.run_cell("echo() { builtin echo mine; }; exit() { :; }")
        self.assertEqual(self.context.cell("exit 3; echo"), {"status": "ok"})
        self.run_cell("unset -f echo exit")
        self.assertIn("mine\n", self.printed(":"))


class Interrupts(BashCase):
    def interrupted(self, code, started="<started>\n"):
        self.context.begin("echo '<started>'; " + code)
        self.context.printed(started)
        self.context.interrupt()
        self.assertEqual(self.context.finish(), {"status": "error", "error": {
            "name": "Interrupt", "message": "the cell was interrupted", "traceback": []}})

    def test_loops_programs_and_waiting(self):
        for code in ("while :; do :; done", "sleep 100", "x=$(sleep 100)", "sleep 100 | cat", "read x < <(sleep 100)", "display --text < <(sleep 100)"):
            with self.subTest(code):
                self.interrupted(code)
        self.assertEqual(self.printed("echo $?"), "130\n")

    def test_a_trap_does_not_prevent_it(self):
        self.interrupted("trap : INT; sleep 100")
        self.run_cell("trap - INT")

    def test_programs_end_and_jobs_stay(self):
        self.run_cell("sleep 101 & sleep 0.1")
        self.interrupted("sleep 102")
        self.assertEqual(self.printed("kill $! && echo there; wait $!; pgrep -s 0 -f 'sleep 102'; true"), "there\n")

    def test_between_cells_it_is_ignored(self):
        self.context.interrupt()
        self.assertEqual(self.printed("echo fine"), "fine\n")

    def test_while_input_is_awaited(self):
        for code in ("input who", "x=$(input who)", "input who | cat"):
            with self.subTest(code):
                self.interrupt_while_it_asks(code, "Interrupt")
                self.assertEqual(self.printed("input again", ["line"]), "line\n")


class Input(BashCase):
    def test_it_prints_what_the_host_answers(self):
        self.assertEqual(self.printed("input 'Who? '; x=$(input -s); input | cat; echo \"$x\"", ["me", "it", "ü"]), "me\nü\nit\n")
        self.run_cell("x=$(input -s 'pass')", ["word"])
        self.assertEqual(self.context.asked, [("pass", True)])

    def test_without_an_answer_it_fails(self):
        self.assertEqual(self.error("input", [("nobody is there",)])["message"], "1")
        self.context.printed("input: nobody is there\n", "stderr")
        self.assertEqual(self.error("input a b")["message"], "2")

    def test_a_process_that_outlives_its_cell_is_not_heard(self):
        self.context.begin("mkfifo go; { read < go; input; display --text late; echo '<gone>'; } &")
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.assertEqual(self.run_cell("echo > go; wait $!"), [])
        self.assertEqual(self.context.asked, [])
        self.context.printed("<gone>\n")
        self.context.printed("display: only a running cell can do that\n", "stderr")

    def test_one_that_waits_when_the_cell_ends_gives_up(self):
        self.context.begin("{ input early; echo \"<$?>\"; } & sleep 0.1 & wait $!")
        self.assertEqual(self.context.finish(["x"]), {"status": "ok"})
        self.context.begin("mkfifo asked; input early & read < asked; true")
        number = self.context.next()[0]["id"]
        with open(os.path.join(self.context.agent.workdir, "asked"), "w"):
            pass
        self.assertEqual(self.context.finish(), {"status": "ok"})
        self.context.answer_input(number, "late")
        self.assertEqual(self.run_cell(":"), [])


class Displays(BashCase):
    def test_kinds(self):
        pathlib.Path(self.context.agent.workdir, "picture.PNG").write_bytes(b"\x89PNG\0\xff")
        pathlib.Path(self.context.agent.workdir, "page.html").write_text("<p>ü")
        for code, mime, content in [
                ("display --html '<b>'", "text/html", "<b>"), ("echo '# x' | display --markdown", "text/markdown", "# x\n"),
                ("display --latex 'x^2'", "text/latex", "x^2"), ("display --svg - <<< '<svg/>'", "image/svg+xml", "<svg/>\n"),
                ("display --json '{\"a\": [1, 2.5, null]}'", "application/json", {"a": [1, 2.5, None]}),
                ("display --chart '{\"type\": \"line\"}'", "application/vnd.cloche.chart+json", {"type": "line"}),
                ("display --javascript 'x()'", "application/javascript", "x()"), ("display --text plain", "text/plain", "plain"),
                ("echo plain | display", "text/plain", "plain\n"), ("display picture.PNG", "image/png", b"\x89PNG\0\xff"),
                ("display --jpeg picture.PNG", "image/jpeg", b"\x89PNG\0\xff"), ("display --gif < picture.PNG", "image/gif", b"\x89PNG\0\xff"),
                ("display --pdf picture.PNG", "application/pdf", b"\x89PNG\0\xff"), ("display page.html", "text/html", "<p>ü"),
                ("display --type text/x-mine page.html", "text/x-mine", "<p>ü"), ("display --text -- --text", "text/plain", "--text"),
                ("printf 'a\\xffb' | display --text", "text/plain", "a\ufffdb")]:
            with self.subTest(code):
                self.assertEqual(self.display(code), {"data": {mime: content}, "metadata": {}, "isResult": False})

    def test_in_order_and_from_processes_of_the_cell(self):
        displays = self.run_cell("display --text 1; (display --text 2); echo | display --text 3; x=$(display --text 4)")
        self.assertEqual([display["data"]["text/plain"] for display in displays], ["1", "2", "3", "4"])

    def test_an_id_and_its_update(self):
        self.run_cell("display --text a --id one; display --id one --update --text b")
        first, second = self.context.displays
        self.assertEqual((first["displayId"], second["displayId"], second["isUpdate"]), ("one", "one", True))

    def test_clear(self):
        self.run_cell("display --clear; display --clear --wait")
        self.assertEqual(self.context.cleared, [(False, 0), (True, 0)])

    def test_what_cannot_be_shown(self):
        for code, message in [("display nosuch.html", "display: nosuch.html: No such file or directory"),
                              ("display what.ever", "display: what.ever: its ending tells no kind; say --type MIME"),
                              ("display --json '{'", "display: what is to be displayed is not JSON: "),
                              ("display --type html x", "display: --type: 'html' is no MIME type"),
                              ("display --nosuch", "display: --nosuch: no such option"),
                              ("display --text a b", "display: one thing at a time: 'b' is too much"),
                              ("display --text a --update", "display: --update: of which display? Say --id"),
                              ("display --type", "display: --type: what belongs to it is missing"),
                              ("display .", "display: .: its ending tells no kind; say --type MIME"),
                              ("display --type text/plain .", "display: what is to be displayed: Is a directory")]:
            with self.subTest(code):
                self.error(code)
                self.assertEqual(self.context.displays, [])
                self.context.printed(message, "stderr")

    def test_what_is_too_large_lies_in_a_file(self):
        for code, mime, content in [("head -c 5000 /dev/zero | tr '\\0' x | display --html", "text/html", b"x" * 5000),
                                    ("display --text %s" % ("y" * 200), "text/plain", b"y" * 200)]:
            display = self.display(code, storeBytes=100)
            self.assertStored(display, mime, content)
            self.assertEqual(display["data"], {"text/plain": "<%s of %d bytes>" % (mime, len(content))})
        self.assertEqual(self.display("display --text %s" % ("z" * 100), storeBytes=100)["metadata"], {})


class Names(BashCase):
    def described(self):
        return {row["name"]: (row["type"], row["summary"]) for row in self.result("describe")["variables"]}

    def test_what_the_cells_made(self):
        self.run_cell("s=text; declare -a list=(1 2); declare -A map=([a]=1); declare -i n=4; f() { :; }; long=$(printf 'ü%.0s' {1..300}); [[ a =~ a ]]; read x < /etc/hostname")
        rows = self.described()
        self.assertEqual({name: rows[name] for name in ("s", "list", "map", "n", "f")}, {
            "s": ("string", "text"), "list": ("array", "2 items"), "map": ("associative array", "1 item"), "n": ("integer", "4"), "f": ("function", "f ()")})
        self.assertEqual(rows["long"][1], "ü" * 100)
        self.assertEqual({name for name in rows if not name.startswith("given_")}, {"s", "list", "map", "n", "f", "long", "x"})

    def test_completions(self):
        self.run_cell("given_name=1; given_function() { :; }; mkdir -p folder 'a b'; touch folder/file")
        for code, expected in [("echo $given_n", (["$given_name"], 5, 13)), ("echo ${given_n", (["given_name"], 7, 14)),
                               ("given_f", (["given_function"], 0, 7)), ("ü; if given_f", (["given_function"], 6, 13)),
                               ("ls fol", (["folder/"], 3, 6)), ("ls folder/f", (["folder/file"], 3, 11)), ("ls a", (["a\\ b/"], 3, 4)),
                               ("x=fol", (["folder/"], 2, 5)), ("nosuchthing", ([], 0, 11)), ("", ([], 0, 0))]:
            with self.subTest(code):
                result = self.result("complete", code=code + " behind", at=len(code))
                self.assertEqual((result["matches"], result["from"], result["to"]), expected)
        self.assertIn("printf", self.result("complete", code="pri", at=99)["matches"])

    def test_no_code_of_the_users_runs(self):
        self.run_cell("compgen() { echo no; }; printf() { echo no; }; complete -F given ls; enable -n compgen")
        self.assertEqual(self.result("complete", code="given_v=1 $HOSTN", at=16)["matches"], ["$HOSTNAME"])
        self.run_cell("unset -f compgen printf; enable compgen")


class Looks(BashCase):
    """`inspect` and `isComplete`: nothing of the cells runs."""

    def inspected(self, code, at=None, detail=0):
        data = self.result("inspect", code=code, at=len(code) if at is None else at, detail=detail)["data"]
        return data["text/plain"] if data else None

    def test_inspect(self):
        self.run_cell("word=lemon; declare -ax list=(1 'a b'); declare -A map=([k]=v); declare -i n=4; add_() { echo $(($1 + $2)); }; alias say_='echo said'; huge=$(head -c 100000 /dev/zero | tr '\\0' x); RANDOM=7")
        self.assertEqual(self.inspected("echo $word"), "Value: lemon\nType: variable")
        for code, at in (("echo ${word}", 8), ("word=1", 2), ("ü; echo \"$word\"", 12), ("word", 4)):
            self.assertEqual(self.inspected(code, at), "Value: lemon\nType: variable", code)
        self.assertEqual(self.inspected("$list"), 'Value: 2 items: ([0]="1" [1]="a b")\nType: variable, array, exported')
        self.assertIn("1 item: ([k]=", self.inspected("$map"))
        self.assertIn("Type: variable, integer", self.inspected("$n"))
        self.assertEqual(self.inspected("add_ 1 2", 2), "Type: function")
        self.assertEqual(self.inspected("add_", detail=1), "Type: function\nSource:\nadd_ () \n{ \n    echo $(($1 + $2))\n}")
        self.assertEqual(self.inspected("say_"), "Value: echo said\nType: alias")
        self.assertEqual(self.inspected("while"), "Type: keyword")
        self.assertTrue(self.inspected("cd /tmp", 1).startswith("Usage: cd ["))
        self.assertEqual(self.inspected("true | cat"), "File: %s\nType: program" % self.printed("type -P cat").strip())
        self.assertIn("Type: builtin", self.inspected("x=$(printf", 10))
        for code, at in (("nosuchthing", 11), ("$nosuchthing", 12), ("", 0), ("a ", 2), ("x" * 300, 10)):
            self.assertIsNone(self.inspected(code, at), code)
        self.assertLess(len(self.inspected("$huge")), 3000)
        self.assertIn("lemon", self.inspected("$word", 10 ** 9))

    def test_nothing_runs_or_changes(self):
        self.run_cell("RANDOM=7; kept=$RANDOM; RANDOM=7; printf() { echo no; }; type() { echo no; }; trap 'hits+=x' DEBUG")
        self.assertIn("computed when it is read", self.inspected("$RANDOM"))
        self.inspected("printf", detail=1)
        for code in ("touch ran; echo no", "x=$(touch ran)", "f_() { :; }", "alias a_=b", "exit 3", "kept=2", "((", "if", "'", "cd /", "set -e"):
            self.result("isComplete", code=code)
        self.assertEqual(self.printed("trap - DEBUG; unset -f printf type; echo $hits"), "x\n", "the first command of this cell")
        self.assertEqual(self.printed("[[ $RANDOM == $kept ]] && echo same; [[ -e ran ]] && echo ran; declare -F f_; echo $-"), "same\n" + self.printed("echo $-"))
        self.assertEqual(self.context.cell("(exit 5)")["status"], "error")
        self.result("isComplete", code="fi")
        self.assertEqual(self.printed("echo $?"), "5\n")

    def test_is_complete(self):
        judged = {"complete": ["echo 1", "", "# a", "f_() { :; }", "if true; then echo; fi", "cat <<E\na\nE\n", "echo a &", "echo '\\'", "# \\"],
                  "incomplete": ["if true; then", "while :; do", "f_() {", "echo 'a", 'echo "a', "cat <<E\na", "echo a |", "echo a &&", "echo a \\", "(", "case x in", "x=(1", "echo $(ls", "echo ${a", "for i in 1; do\n  echo"],
                  "invalid": ["fi", "echo )", "if; then", "| cat", "done", "f_() { }"]}
        for status, codes in judged.items():
            for code in codes:
                self.assertEqual(self.result("isComplete", code=code)["status"], status, code)
        self.assertIn(self.result("isComplete", code="(" * 5000)["status"], ("incomplete", "invalid", "unknown"))
        self.assertEqual(self.result("isComplete", code="if true; then\n" + "echo\n" * 500)["status"], "incomplete")
        self.assertEqual(self.result("isComplete", code="for i in 1; do\n  echo '")["indent"], "  ")


    def test_deep_code_does_not_end_the_context(self):
        self.run_cell("kept=2; ends=; trap 'ends+=x' CHLD")
        for code in ("echo " + "$(" * 20000, "<(" * 20000, '"$(' * 20000, "[[ " + "(" * 400000):
            self.assertEqual(self.result("isComplete", code=code)["status"], "unknown", code[:10])
        self.assertEqual(self.printed("echo $kept $ends; trap - CHLD; jobs; (exit 3) & wait $!; echo $?"), "2\n3\n")


class Opening(unittest.TestCase):
    def start(self):
        agent = Agent()
        self.addCleanup(agent.end)
        return agent

    def test_place_and_environment(self):
        with tempfile.TemporaryDirectory() as folder:
            context = Context(self.start()).opened(cwd=os.path.join(folder, "a", "b"), env={"COLOUR": "blue", "IFS": "-"}, language="bash")
            self.assertEqual(context.ask("describe")["result"], {"variables": []})
            context.cell("x=1-2; echo $COLOUR $x \"$PWD\"; printenv COLOUR")
            self.assertEqual(context.printed("b\nblue\n"), "blue 1 2 %s/a/b\nblue\n" % folder)

    def test_what_is_refused(self):
        agent = self.start()
        cases = [("cell", {"code": "", "count": 1}, -32600, "no context is open here: `open` comes before `cell`"),
                 ("describe", {}, -32600, "no context is open here: `open` comes before `describe`"),
                 ("open", {"language": "php"}, -32602, "params.language is 'php': this is the agent of bash"),
                 ("open", {"env": {"a b": "c"}}, -32602, "params.env: 'a b' is no variable of a shell, with text without NUL"),
                 ("open", {"env": {"UID": "0"}}, -32602, "params.env: the variable UID is the shell's own, and read-only"),
                 ("open", {"cwd": 1}, -32602, "params.cwd must be null or a path without NUL"),
                 ("open", {"cwd": "/dev/null/x"}, -32000, None),
                 ("open", {}, None, None),
                 ("open", {}, -32600, "a context is open here already"),
                 ("cell", {"code": 1, "count": 1}, -32602, "params.code must be a string"),
                 ("cell", {"code": "", "count": -1}, -32602, "params.count must be an integer from 0"),
                 ("cell", {"code": "", "count": 1, "storeBytes": "x"}, -32602, "params.storeBytes must be an integer from 0"),
                 ("complete", {"code": "", "at": -1}, -32602, "params.at must be an integer from 0"),
                 ("branch", {}, -32001, "contexts of Bash cannot be forked: this agent has no way to do that"),
                 ("nosuch", {}, -32601, "unknown method 'nosuch'")]
        for method, params, code, message in cases:
            with self.subTest(method, params=params):
                error = agent.ask(method, **params)[0].get("error", {})
                self.assertEqual(error.get("code"), code)
                if message is not None:
                    self.assertEqual(error["message"], message)
        self.assertEqual(agent.ask("cell", code=":", count=1)[0]["result"], {"status": "ok"})

    def test_exec_ends_the_context(self):
        agent = self.start()
        Context(agent).opened()
        self.assertIsNone(agent.ask("cell", code="exec true", count=1))

    def test_a_trap_on_exit_runs_when_the_context_ends(self):
        agent = self.start()
        context = Context(agent).opened()
        self.assertEqual(context.cell("trap 'echo bye' EXIT"), {"status": "ok"})
        self.assertEqual(context.cell("exit 3")["error"]["message"], "exit 3")
        self.assertEqual(agent.end()[:2], (3, "bye\n"))

    def test_hostile_frames(self):
        agent = self.start()
        Context(agent).opened()
        for text in (b'{"jsonrpc":"2.0","id":1,"method":"cell"}', b'{"jsonrpc":"2.0","id":1,"method":"cell","params":[1]}',
                     b'{"jsonrpc":"2.0","id":1,"method":"complete","params":{"code":"\\u0000","at":99999999999}}'):
            agent.send_raw(text)
            self.assertEqual(agent.receive()[0]["error"]["code"], -32602)
        self.assertEqual(json.dumps(agent.ask("cell", code=":", count=1)[0]["result"]), '{"status": "ok"}')


if __name__ == "__main__":
    unittest.main()
