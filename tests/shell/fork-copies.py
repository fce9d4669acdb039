"""SHELL_FORK: commands beside the shell."""
import os
import signal

from shell import Shell, eventually, is_alive, read


def is_closed(write_fd):
    try:
        os.write(write_fd, b"x")
        return False
    except BrokenPipeError:
        return True


def test_it_is_a_copy():
    with Shell() as s:
        s.out("x=5; f() { echo f $x; }; cd /usr; set -o pipefail; alias hi='echo hi'")
        copy = s.fork("f; pwd; false | true; echo $?; hi; x=6; cd /; echo $$ $BASHPID $BASH_SUBSHELL; exit 4")
        status, out, err = copy.wait()
        assert os.waitstatus_to_exitcode(status) == 4 and err == ""
        assert out == f"f 5\n/usr\n1\nhi\n{s.process.pid} {copy.pid} 1\n"
        answer = s.run("echo $x $!")
        assert (answer.out, answer.cwd) == ("5\n", "/usr")
        assert copy.usage[2] > 1 << 20


def test_statuses():
    with Shell() as s:
        for command, code in [("true", 0), ("false", 1), ("(exit 9)", 9), ("if", 2), ("set -e; false; echo not", 1), ("nosuch", 127), ("exec sh -c 'exit 7'", 7),
                              ("echo ${x?gone}", 1), ("kill -TERM $BASHPID", -15), ("kill -INT $BASHPID", -2), ("exec nosuch", 127), ("exit 300", 44), ("a\0b", 2)]:
            assert s.fork(command).code() == code, command


def test_directory_variables_stdin():
    with Shell() as s:
        status, out, _ = s.fork("pwd; printenv A; cat", cwd="/usr", env={"A": "1"}, stdin=b"in").wait()
        assert (status, out) == (0, "/usr\n1\nin")
        assert s.out("echo $PWD ${A-gone}") == f"{s.top} gone\n"
        status, out, err = s.fork("echo not", cwd="/nope").wait()
        assert os.waitstatus_to_exitcode(status) == 1 and out == "" and "cd: /nope: No such file or directory" in err


def test_it_is_answered_at_once_and_beside_the_shell():
    with Shell() as s:
        first = s.fork("read x; echo $x; sleep 1000")
        assert is_alive(first.pid) and s.out("echo on") == "on\n"
        files = s.begin("sleep 1000")
        s.interrupt()
        os.kill(first.pid, signal.SIGTERM)
        assert first.code() == -15
        s.interrupt()
        del files


def test_session_group_and_descriptors_of_its_own():
    with Shell() as s:
        s.out("exec 9</dev/null")
        copy = s.fork("read pid _ _ _ group session _ </proc/$BASHPID/stat; echo $(( pid == BASHPID && group == pid && session == pid )); echo /proc/$BASHPID/fd/*")
        _, out, _ = copy.wait()
        assert out.splitlines()[0] == "1" and [path.rsplit("/", 1)[1] for path in out.splitlines()[1].split()][:4] in (["0", "1", "2", "3"], ["0", "1", "2", "9"]), out
        s.out("exec 9<&-")
        read_fd, write_fd = os.pipe()
        copy = s.fork("sleep 1000 </dev/null >/dev/null 2>&1 & :", stdin=read_fd)
        os.close(read_fd)
        assert copy.code() == 0
        eventually(lambda: is_closed(write_fd))
        os.close(write_fd)


def test_it_does_not_hold_the_sessions_socket():
    with Shell() as s:
        copy = s.fork("while :; do read -t 1 x </dev/zero; done")
        assert s.ends("exit 0")[0] == 0
        assert is_alive(copy.pid)
        os.kill(copy.pid, signal.SIGKILL)
        assert copy.code() == -9  # reported though the shell is gone


def test_traps_and_jobs_of_the_shell_are_not_its_own():
    with Shell() as s:
        s.out("trap 'echo shell >>traps' EXIT; trap 'echo usr >>traps' USR1; sleep 1000 &")
        status, out, _ = s.fork("jobs; kill -USR1 $BASHPID").wait()
        assert out == "" and os.waitstatus_to_exitcode(status) == -10
        status, out, _ = s.fork("wait; trap 'echo copy' EXIT; echo end").wait()
        assert (status, out) == (0, "end\ncopy\n")
        answer = s.run("jobs | wc -l; kill %1")
        assert answer.out == "1\n" and not os.path.exists(s.top + "/traps")


def test_however_it_is_killed():
    with Shell() as s:
        copy = s.fork("sleep 1000")
        os.kill(copy.pid, signal.SIGKILL)
        assert copy.code() == -9
        copy = s.fork("kill -9 0")
        assert copy.code() == -9
        copy = s.fork("trap 'echo bye; exit 3' TERM; sleep 1000 & wait")
        eventually(lambda: len(s.descendants(copy.pid)) == 1)
        supervisor = next(pid for pid in s.descendants() if copy.pid in s.descendants(pid))
        for pid in (supervisor, copy.pid, *s.descendants(copy.pid)):
            os.kill(pid, signal.SIGTERM)  # the whole tree, as an orderly end does
        status, out, _ = copy.wait()
        assert (os.waitstatus_to_exitcode(status), out) == (3, "bye\n")
        copy = s.fork("exec sleep 1000")
        supervisor = next(pid for pid in s.descendants() if copy.pid in s.descendants(pid))
        os.kill(supervisor, signal.SIGKILL)
        assert copy.wait()[0] is None
        os.kill(copy.pid, signal.SIGKILL)


def test_what_it_leaves_behind_stays_beneath():
    with Shell() as s:
        copy = s.fork("(setsid sleep 1000 & echo $!); sleep 0.1; echo waiting; read x < <(sleep 1000)")
        eventually(lambda: "waiting" in read(copy.files[0]))
        # The orphan, and the substitution that comes after the line.
        eventually(lambda: len(s.children(copy.pid)) >= 2)
        daemon = s.children(copy.pid)
        os.kill(copy.pid, signal.SIGKILL)
        assert copy.code() == -9
        answer = s.run(":")
        assert len(answer.jobs) == 1 and set(s.descendants(answer.jobs[0])) >= set(daemon)  # of the supervisor's now
        for pid in s.descendants(answer.jobs[0]):
            os.kill(pid, signal.SIGKILL)
        eventually(lambda: not s.descendants())
        assert s.run(":").job_count == 0


def test_it_reaps_what_it_started():
    with Shell() as s:
        copy = s.fork("for i in {1..50}; do (sleep 0 &); done; sleep 0.3; echo ready; sleep 1000")
        eventually(lambda: "ready" in read(copy.files[0]))
        assert len(s.descendants(copy.pid)) == 1
        os.kill(copy.pid, signal.SIGKILL)
        copy.wait()
