"""SIGINT to the shell ends the command."""
import os
import signal
import time

from shell import Shell, eventually, is_alive


def begin(s, command, **about):
    """Started, not only requested."""
    mark = os.path.join(s.top, "mark")
    files = s.begin(f"echo >'{mark}'; {command}", **about)
    eventually(lambda: os.path.exists(mark) and os.path.getsize(mark))
    os.unlink(mark)
    time.sleep(0.02)
    return files


def interrupted(s, command, **about):
    files = begin(s, command, **about)
    s.interrupt()
    answer = s.end(files)
    assert (answer.code, answer.interrupted, answer.out, answer.err) == (130, True, "", ""), (command, vars(answer))
    return answer


def name_of(pid):
    with open(f"/proc/{pid}/comm") as file:
        return file.read().removesuffix("\n")


def kill_all_but_sleep(s):
    for pid in s.descendants():
        try:
            name = name_of(pid)
            if name != "sleep":
                os.kill(pid, signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended on its own meanwhile
        if name != "sleep":
            eventually(lambda: not is_alive(pid))


def test_whatever_it_is_at():
    read_fd, write_fd = os.pipe()
    with Shell() as s:
        s.out("mkfifo fifo; f() { while :; do :; done; }; sleep 1000 &")
        eventually(lambda: [name_of(pid) for pid in s.descendants()] == ["sleep"])  # a process that is still a shell would be killed
        for command in ("while :; do :; done; echo not", "until false; do :; done", "for ((;;)); do :; done", "for x in {1..100000000}; do :; done", "f; echo not",
                        "sleep 1000; echo not", "(sleep 1000); echo not", "sleep 1000 | cat; echo not", "echo $(sleep 1000)", "x=$(while :; do :; done)",
                        "while :; do sleep 0.01; done", "wait; echo not", "wait -n; echo not", "wait %1; echo not", "set -m; wait; echo not", "set +m; eval 'eval f'",
                        "x=1 f", "f >/dev/null 2>&1", "{ f; } <fifo", "echo <fifo", "trap 'echo T' INT; f", "sleep 1000; echo not", "trap '' INT; f", "wait",
                        "trap - INT; trap f USR1; kill -USR1 $$", "trap 'sleep 1000' ERR; false", "trap - ERR; set -e; f", "set +e; case $(sleep 1000) in x) ;; esac",
                        "time sleep 1000", "coproc sleep 1000; wait $COPROC_PID", "cat <(sleep 1000)", "printf '%*d' 5 1 >fifo", "mapfile <fifo", "exec 9<fifo"):
            interrupted(s, command)
            kill_all_but_sleep(s)
            assert s.out("echo on") == "on\n", command
        interrupted(s, "read x; echo not", stdin=read_fd)
        interrupted(s, "read -t 1000 x; echo not", stdin=read_fd)
        interrupted(s, "mapfile lines; echo not", stdin=read_fd)
        interrupted(s, "cat; echo not", stdin=read_fd)
        kill_all_but_sleep(s)
        os.write(write_fd, b"line\n")
        assert s.out("read x; echo $x; jobs -p | wc -l", stdin=read_fd).startswith("line\n")
    os.close(read_fd)
    os.close(write_fd)


def test_it_is_noticed_once_and_only_by_the_command_that_ran():
    with Shell() as s:
        for _ in range(5):
            s.interrupt()
        assert s.out("echo idle; sleep 0.05; echo so") == "idle\nso\n"
        files = begin(s, "sleep 1000")
        for _ in range(5):
            s.interrupt()
        assert s.end(files).interrupted
        assert s.out("sleep 0.05; echo next") == "next\n"


def test_the_abandoned_program_lives_on_until_it_is_killed_and_nobody_hears_of_it():
    with Shell() as s:
        answer = interrupted(s, "sleep 1000; echo not")
        (pid,) = answer.jobs
        assert is_alive(pid)
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not os.path.exists(f"/proc/{pid}"))  # reaped
        answer = s.run("jobs; echo on")
        assert (answer.out, answer.err, answer.job_count) == ("on\n", "", 0)


def test_killed_first_then_interrupted():
    with Shell() as s:
        files = begin(s, "while :; do sleep 1000; done")
        eventually(lambda: s.descendants())
        for pid in s.descendants():
            os.kill(pid, signal.SIGKILL)
        s.interrupt()
        answer = s.end(files)
        assert answer.code == 130 and answer.interrupted


def test_of_a_trap_the_guest_hears_only_what_the_guest_sent():
    with Shell() as s:
        s.out("trap 'echo T' INT")
        interrupted(s, "sleep 1000")
        assert s.out("kill -INT $$; echo then") == "T\nthen\n"
        assert s.out("sh -c 'kill -INT $PPID'; while [[ ! $done ]]; do [[ $(trap) ]] && done=1; done; sleep 0.05; echo then") == "T\nthen\n"
        s.out("trap '' INT")
        assert s.out("kill -INT $$; echo then") == "then\n"
        s.out("trap - INT")
        answer = s.run("kill -INT $$; echo then")
        assert (answer.code, answer.out) == (130, "")


def test_programs_take_sigint_as_anywhere():
    with Shell() as s:
        blocked = next(line for line in s.out("cat /proc/self/status").splitlines() if line.startswith("SigBlk"))
        assert int(blocked.split()[1], 16) == 0
        assert s.run("sh -c 'kill -INT $$'; echo $?").out == "130\n"
        assert s.run("(kill -INT $BASHPID; echo not); echo $?").out == "130\n"


def test_variables_and_state_after_it():
    with Shell() as s:
        interrupted(s, "x=5; f() { local y=6; sleep 1000; }; y=1; f")
        assert s.out("echo $x $y ${FUNCNAME[*]} $?; echo $BASH_SUBSHELL") == "5 1 130\n0\n"
        assert s.out("for i in 1 2; do continue; done; g() { return 4; }; g || echo $?") == "4\n"
        assert s.out("echo $(echo sub) | cat; (exit 3) || echo $?") == "sub\n3\n"


def test_one_after_the_other():
    with Shell() as s:
        for _ in range(100):
            files = s.begin("while :; do :; done")
            time.sleep(0.005)
            s.interrupt()
            # One that came before the command began is not its own: say it again.
            while True:
                s.socket.settimeout(0.2)
                try:
                    answer = s.end(files)
                    break
                except TimeoutError:
                    s.interrupt()
            s.socket.settimeout(20)
            assert answer.interrupted
        assert s.out("echo on") == "on\n"
