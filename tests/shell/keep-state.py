"""State that one command of a session leaves to the next."""
import os

from shell import Shell, eventually


def test_directory_variables_functions_aliases():
    with Shell() as s:
        assert s.ready.cwd == s.top and s.ready.env is None
        assert s.run("cd /usr; x=5; y=(a 'b c'); declare -A z=([k]=v)").cwd == "/usr"
        assert s.out("echo $PWD $OLDPWD $x ${y[1]} ${z[k]}") == f"/usr {s.top} 5 b c v\n"
        s.out("f() { echo \"f $1\"; return 3; }; alias hello='echo hello'")
        answer = s.run("f x")
        assert (answer.code, answer.out) == (3, "f x\n")
        assert s.out("hello world") == "hello world\n"
        assert s.out("unset -f f; unalias hello; unset x; type f 2>/dev/null || echo ${x-gone}") == "gone\n"


def test_the_last_status_is_seen():
    with Shell() as s:
        assert s.run("false").code == 1
        assert s.out("echo $? ${PIPESTATUS[*]}") == "1 1\n"
        s.run("true | (exit 7)")
        assert s.out("echo $?") == "7\n"
        assert s.run("if").code == 2
        assert s.out("echo $?") == "2\n"


def test_options_and_umask():
    with Shell() as s:
        s.out("set -o pipefail; shopt -s extglob nullglob; umask 077")
        assert s.run("false | true").code == 1
        assert s.out("umask; echo /nowhere/*; [[ abc == a!(x)c ]] && echo ext; touch f; stat -c %a f") == "0077\n\next\n600\n"
        s.out("ulimit -c 0")
        assert s.out("ulimit -c") == "0\n"


def test_errexit_abandons_the_command_not_the_session():
    with Shell() as s:
        answer = s.run("set -e; f() { false; echo not; }; f; echo not")
        assert (answer.code, answer.out, answer.err) == (1, "", "")
        assert s.out("echo $- ${FUNCNAME[*]}").startswith("e")
        answer = s.run("(exit 9)\necho not")
        assert (answer.code, answer.out) == (9, "")
        assert s.out("set +e; false; echo on") == "on\n"


def test_unset_and_failed_expansions_abandon_the_command():
    with Shell() as s:
        for command in ("set -u; echo $nothing; echo not", "echo ${nothing?is not set}; echo not", "echo $((1 / 0)); echo not", "readonly r=1; r=2; echo not"):
            answer = s.run(command)
            assert answer.code == 1 and "not\n" not in answer.out and answer.err.startswith("bash: line 1: "), (command, vars(answer))
        assert s.out("set +u; echo on") == "on\n"


def test_jobs_persist_and_do_not_hold_the_answer():
    with Shell() as s:
        first = s.run("sleep 1000 & echo $!")
        job = int(first.out)
        assert first.jobs == [job] and first.job_count == 1
        second = s.run("sleep 1001 & jobs; echo $!; kill -0 %1 && echo there")
        assert "sleep 1000" in second.out and second.out.endswith("there\n") and len(second.jobs) == 2
        answer = s.run("pids=$(jobs -p); kill $pids; wait $pids; echo $?")
        assert (answer.out, answer.job_count) == ("143\n", 0), vars(answer)
        # Nothing is printed about jobs that end, now or later.
        s.out("sleep 0.01 &")
        assert s.out("sleep 0.1") == "" and s.out("") == ""
        (job,) = s.run("sleep 1000 &").jobs
        os.kill(job, 9)
        eventually(lambda: not os.path.exists(f"/proc/{job}"))
        answer = s.run("echo on; wait $!; echo $?; jobs")
        assert (answer.out, answer.err) == ("on\n137\n", ""), vars(answer)


def test_what_is_reparented_is_a_job_too_and_reaped():
    with Shell() as s:
        answer = s.run("(sleep 1000 & echo $!)")
        assert answer.jobs == [int(answer.out)]
        answer = s.run(f"kill {answer.jobs[0]}; while kill -0 {answer.jobs[0]} 2>/dev/null; do :; done")
        assert answer.job_count == 0 and not s.descendants()


def test_more_jobs_than_fit():
    with Shell() as s:
        answer = s.run("for i in {1..70}; do sleep 1000 & done")
        assert answer.job_count == 70 and len(set(answer.jobs)) == 64
        assert s.run("kill $(jobs -p); wait").job_count == 0


def test_traps():
    with Shell() as s:
        s.out("trap 'echo D' DEBUG")
        assert s.out("echo 1; echo 2") == "D\n1\nD\n2\n"
        s.out("trap - DEBUG; trap 'echo E $?' ERR")
        assert s.run("false").out == "E 1\n"
        s.out("trap - ERR; trap 'echo usr' USR1")
        assert s.out("kill -USR1 $$; echo then") == "usr\nthen\n"
        s.out("trap 'echo int' INT")
        assert s.out("kill -INT $$; echo then") == "int\nthen\n"
        s.out("trap 'echo bye $x >>bye' EXIT; x=5")
        assert not os.path.exists(s.top + "/bye")
        assert s.ends("exit 3")[0] == 3
        with open(s.top + "/bye") as file:
            assert file.read() == "bye 5\n"


def test_the_end_of_the_session_runs_the_trap_on_exit():
    for end in (lambda s: s.socket.close(), lambda s: s.process.terminate()):
        with Shell() as s:
            s.out("trap 'echo bye >bye' EXIT")
            end(s)
            s.process.wait(20)
            with open(s.top + "/bye") as file:
                assert file.read() == "bye\n"


def test_exported_variables_are_told_when_they_change():
    with Shell(env={"GIVEN": "1"}) as s:
        assert s.run(":").env is None
        env = s.run("export NEW='a\nb' HIDDEN=1; local=2").env
        assert (env["NEW"], env["GIVEN"], "local" in env, "_" in env, "PWD" in env) == ("a\nb", "1", False, False, False)
        assert s.run("cd /; echo $NEW; /bin/true").env is None
        env = s.run("unset GIVEN; export -n HIDDEN; f() { :; }; export -f f").env
        assert "GIVEN" not in env and "HIDDEN" not in env and env["BASH_FUNC_f%%"] == "() {  :\n}"


def test_export_request():
    with Shell() as s:
        answer = s.export({"A": "1", "B": "x=y z", "LANG": None})
        assert answer.code == 0 and answer.env["B"] == "x=y z" and "LANG" not in answer.env
        assert s.out("printenv A B; echo ${LANG-unset}; A=2; printenv A") == "1\nx=y z\nunset\n2\n"
        s.out("readonly A; mkdir bin; echo 'echo mine' >bin/mine; chmod +x bin/mine")
        answer = s.export({"A": "3", "PATH": f"{s.top}/bin:/usr/bin:/bin", "bad-name": "1"})
        assert answer.code == 1
        assert s.out("echo $A; mine") == "2\nmine\n"


def test_descriptors_of_the_user_persist_those_of_a_command_do_not():
    with Shell() as s:
        s.out("echo line >f; exec 5<f 1>g 2>&1; echo into g")
        assert s.out("echo mine; read -u 5 x; echo $x") == "mine\nline\n"
        assert s.out("cat g; exec 5<&-") == "into g\n"
        ours = os.listdir(f"/proc/{s.process.pid}/fd")
        assert len(ours) == 6, ours  # 0, 1, 2, and three that programs do not get
        assert s.out("ls /proc/self/fd").split() == ["0", "1", "2", "3"]  # the last is its own
        assert [os.readlink(f"/proc/{s.process.pid}/fd/{n}") for n in range(3)] == ["/dev/null"] * 3
