"""Code that, meaning to or not, gets in the way of the agent: it runs in the very shell that is the agent."""
import os
import unittest

from bash_agent import Agent, AgentCase


class Hostile(AgentCase):
    def survives(self, code, value="ok", **params):
        """The call gives this value, and the shell serves another one."""
        agent = Agent()
        try:
            answer = agent.request(code=code, **params)
            self.assertIsNotNone(answer, "the agent died")
            self.assertEqual(answer[0].get("result", answer[0].get("error"))["value"], value)
            again = agent.request(code="g() { command printf '%s' \"$1\"; }", args=["again"], function="g")
            self.assertEqual(again[0]["result"]["value"], "again")
        finally:
            self.output = agent.end()

    def test_text_that_looks_like_a_frame_is_only_text(self):
        self.survives("f() { printf '\\x08\\0\\0\\0\\4\\0\\0\\0null'; }", "\b\0\0\0\4\0\0\0null")

    def test_builtins_and_words_redefined(self):
        self.survives("echo() { builtin echo mine; }\nexit() { builtin echo no; }\nf() { echo; exit; }", "mine\nno", function="f")
        self.survives("enable -n echo; f() { builtin printf ok; }")
        self.survives("f() { enable -d cloche_agent; echo ok; }")
        self.survives("f() { cloche_agent 2>/dev/null; echo $?; }", 1)

    def test_variables_of_the_shell_changed(self):
        self.survives("unset BASH_SOURCE FUNCNAME BASH_LINENO BASH_ARGV PATH IFS PWD; f() { echo ok; }")
        self.survives("PATH= IFS=aeiou PS4='$(exit 3)' LC_ALL=C LANG= TMPDIR=/nonexistent BASH_ENV=x; f() { echo ok; }")
        self.survives("readonly _ BASH_ENV ok x; declare -r f; f() { echo ok; }")
        self.survives("f() { set -- a b; BASH_ARGV0=other; echo ok; }")

    def test_options_changed(self):
        for options in ("-f", "-k", "-u", "-e", "-x", "-v", "-T", "-E", "-m", "-b", "-B", "-P", "-o posix", "-o pipefail", "-n", "-h", "+h"):
            with self.subTest(options):
                agent = Agent()
                answer = agent.request(code="set %s; f() { builtin echo ok; }" % options, function="f" if options != "-n" else None)
                self.assertEqual(answer[0]["result"]["value"], "" if options == "-n" else "ok")
                self.assertEqual(agent.end()[0], 0)

    def test_traps_on_everything(self):
        self.survives("trap 'builtin :' DEBUG RETURN ERR; f() { echo ok; }")
        self.survives("for i in {1..64}; do trap '' $i 2>/dev/null; done; f() { echo ok; }")
        self.survives("trap 'echo chld >&2' CHLD; f() { (exit 1); echo \"$(echo ok)\"; }")

    def test_a_trap_on_exit_that_exits(self):
        self.assertEqual(self.call("f() { trap 'exit 7' EXIT; echo ok; }"), "ok")
        self.assertEqual(self.call("f() { trap 'nosuch' EXIT; echo ok; exit 0; }"), "ok")

    def test_return_and_loops_out_of_place(self):
        self.survives("break; continue 3; f() { break 5; continue; echo ok; }")
        self.survives("f() { echo ok; while :; do return 0; done; }")
        self.survives("f() { eval 'eval \"return 0\"'; echo no; }", "")

    def test_descriptor_3_is_free(self):
        self.survives("f() { exec 3>file; echo x >&3; exec 3>&-; cat file; }", "x")

    def test_children_do_not_inherit_the_channel(self):
        self.survives("f() { ls /proc/self/fd | tr '\\n' ' '; }", "0 1 2 3 ")

    def test_all_descriptors_closed(self):
        agent = Agent()
        self.assertIsNone(agent.request(code="f() { for i in {3..1100}; do eval \"exec $i>&-\"; done; echo x; }"))
        self.assertNotEqual(agent.end()[0], 0)

    def test_number_of_the_channel_taken_by_another_file(self):
        agent = Agent()
        self.assertIsNone(agent.request(code="f() { for i in {900..1100}; do eval \"exec $i>&-; exec $i<>victim\"; done; echo x; }"))
        self.assertEqual(os.path.getsize(agent.workdir + "/victim"), 0)
        self.assertEqual(agent.end()[0], 1)

    def test_the_shell_keeps_the_channel_where_it_is(self):
        self.survives("f() { for i in {900..1100}; do eval \"exec $i<>victim\"; done; cat victim; }", "")

    def test_the_process_ended_or_replaced(self):
        for code in ("f() { kill -9 $$; }", "f() { exec true; }", "kill -SEGV $$", "exec nosuchprogram"):
            with self.subTest(code):
                agent = Agent()
                self.assertIsNone(agent.request(code=code))
                self.assertNotEqual(agent.end()[0], None)

    def test_subshells_that_return_do_not_answer(self):
        self.survives("f() { (return 0; echo no); (exit 3) & wait; echo ok; }")
        self.survives("f() { { echo a; exit 0; } | cat; echo b; }", "a\nb")

    def test_recursion(self):
        self.assertIn("maximum function nesting level", self.error("f() { local x=1; g; }\n_() { :; }\ng() { f; }", function="f")["message"])

    def test_printing_for_ever(self):
        for code in ("f() { while :; do echo y; done; }", "f() { yes; }", "f() { cat /dev/zero; }", "while :; do printf y; done",
                     "f() { yes 2>/dev/null & sleep 5 >&- 2>&-; }"):
            with self.subTest(code):
                error = self.error(code, resultBytes=100000)
                self.assertEqual((error["type"], error["message"]),
                                 ("ResultError", "the function has printed more than the limit of 100000 bytes (resultBytes)"))

    def test_a_job_that_prints_on(self):
        agent = Agent()
        answer = agent.request(code="f() { while sleep 0.01; do echo late; done 2>/dev/null & echo ok; }")
        self.assertTrue(answer[0]["result"]["value"].endswith("ok"), answer)
        agent.request(code="kill %1")
        agent.end()

    def test_few_descriptors(self):
        self.assertIn(self.answer("ulimit -n 12; f() { echo ok; }").get("result", {"value": "refused"})["value"], ("ok", "refused"))

    def test_user_text_is_no_code(self):
        self.survives('f() { printf "%s" "$1"; }', "$(touch x)`touch x`'; touch x; '", args=["$(touch x)`touch x`'; touch x; '"])
        self.assertEqual(self.call('f() { echo "$1"; }', order=["x"], kwargs={"x": "a[$(touch x)]"}), "a[$(touch x)]")

    def test_wrong_frames(self):
        agent = Agent()
        agent.socket.sendall(b"\xff\xff\xff\xff\0\0\0\0")
        self.assertEqual(agent.receive()[0]["error"]["code"], -32700)
        self.assertEqual(agent.end()[0], 1)


if __name__ == "__main__":
    unittest.main()
