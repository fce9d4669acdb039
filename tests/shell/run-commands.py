"""A single command: its text, its descriptors, its status; and its effects on the shell that runs it."""
import os
import socket
import tempfile

from cloche import sampled
from shell import RUN, Ended, Shell, eventually, is_alive, memory_file


def goes_on(s):
    assert s.out("echo on") == "on\n"
    return True


def test_syntax_errors():
    with Shell() as s:
        for command, words in [("echo 'x", "unexpected EOF while looking for matching"), ("if true; then", "unexpected end of file"), ("fi", "near unexpected token"),
                               ("echo $(", "unexpected EOF"), ("f() {", "unexpected end of file"), ("case x in", "unexpected end of file"),
                               ("echo ok\n)", "near unexpected token"), ('echo "${x', "unexpected EOF"), ("[[ a", "unexpected"), ("for", "unexpected")]:
            answer = s.run(command)
            assert answer.code == 2 and words in answer.err and answer.err.startswith("bash: "), (command, vars(answer))
            assert goes_on(s)


def test_text_of_every_kind():
    with Shell() as s:
        for empty in ("", " ", "\n\n", "# a comment", "\t# another\n"):
            s.run("false")
            assert vars(s.run(empty))["code"] == 0
        assert s.out("cat <<'E'\n$x \"\nE\ncat <<< here") == '$x "\nhere\n'
        answer = s.run("cat <<E\nno end")
        assert (answer.code, answer.out) == (0, "no end\n") and "here-document" in answer.err  # as bash takes it
        assert s.out("echo a\necho b\n\nfor x in 1 2\ndo\necho $x\ndone") == "a\nb\n1\n2\n"
        assert s.out("echo a\r") == "a\r\n"
        assert s.out("echo '!!' \"!x\" !$") == "!! !x !$\n"
        assert s.out("printf '\\377' | od -An -tx1; echo Grüße") == " ff\nGrüße\n"
        answer = s.run("echo a\0echo b")
        assert answer.code == 2 and "byte 6 of the command is NUL" in answer.err and goes_on(s)


def test_very_large_commands():
    with Shell() as s:
        kib = sampled(8191, 65535)
        answer = s.run("wc -c <<'E'\n" + ("x" * 1023 + "\n") * kib + "E\n")
        assert (answer.code, answer.out) == (0, f"{kib * 1024}\n"), vars(answer)
        assert s.run(b"echo \xff'" + b"y" * (sampled(15, 63) << 20) + b"'\nexit 4 2>/dev/null | false").code == 1
        assert goes_on(s)


def test_statuses():
    with Shell() as s:
        for command, code in [("(exit 255)", 255), ("sh -c 'kill -9 $$'", 137), ("nosuch", 127), ("/etc", 126), ("return 3", 2), ("break", 0), ("exec nosuch", 127)]:
            assert s.run(command).code == code, command
        assert goes_on(s)


def test_stdin():
    with Shell() as s:
        assert s.out("cat", stdin=b"all of it") == "all of it"
        assert s.out("read a b; echo \"$b\"; cat; read c; echo $? [$c]", stdin=b"1 2 3\nrest\n") == "2 3\nrest\n1 []\n"
        assert s.run("read x").code == 1
        read_fd, write_fd = os.pipe()
        os.write(write_fd, b"one\ntwo\n")
        os.close(write_fd)
        assert s.out("read x; echo $x", stdin=read_fd) == "one\n"
        assert s.out("read x; echo $x", stdin=b"other\n") == "other\n"
        os.close(read_fd)


def test_streams_are_the_commands_own():
    with Shell() as s:
        first = s.begin("echo out; echo err >&2; (sleep 0.3; echo late) &")
        answer = s.receive()
        assert answer.job_count == 1 and os.pread(first[0].fileno(), 99, 0) == b"out\n" and os.pread(first[1].fileno(), 99, 0) == b"err\n"
        assert s.out("echo second") == "second\n"
        eventually(lambda: os.pread(first[0].fileno(), 99, 0) == b"out\nlate\n")
        theirs = os.pipe()
        s.send(RUN, "echo x", fds=[theirs[0], theirs[1], theirs[1]])
        s.receive()
        os.close(theirs[1])
        assert os.read(theirs[0], 9) == b"x\n" and os.read(theirs[0], 9) == b""  # no other process has it open
        os.close(theirs[0])


def test_a_closed_pipe_ends_the_command_only():
    with Shell() as s, tempfile.TemporaryFile() as err:
        for command in ("echo a; echo b; echo c", "while :; do echo x; done", "printf %s y; printf %s y", "yes"):
            read_fd, write_fd = os.pipe()
            os.close(read_fd)
            null_fd = os.open("/dev/null", os.O_RDWR)
            s.send(RUN, command, fds=[null_fd, write_fd, err.fileno()])
            answer = s.receive()
            assert (answer.code, answer.interrupted) == (141, False), (command, answer.code)
            assert goes_on(s)
            os.close(write_fd)
            os.close(null_fd)
        assert s.out("while :; do echo y; done | head -1") == "y\n"
        assert s.out("(while :; do echo y; done) | head -1; echo ${PIPESTATUS[0]}") == "y\n141\n"
        assert s.out("trap '' PIPE; trap - PIPE; while :; do echo y; done | head -1") == "y\n"
        assert s.out("grep SigIgn /proc/self/status").split()[1][-4:-2] == "00"


def test_what_would_wedge_it_does_not():
    with Shell() as s:
        for command in ("set -n", "set -t; echo a", "set -v", "set -o posix; set +o posix", "enable -d cloche_session", "enable -n builtin cd kill enable", "exec >&- 2>&- <&-",
                        "cloche_session() { echo mine; }; builtin() { :; }; exit() { echo fake; }; cd() { :; }; kill() { :; }; trap() { :; }; return() { :; }",
                        "exit", "cloche_session", "unset PATH IFS PWD HOME", "f() { f; }; f", "stty raw", "set -m; set +m", "IFS=x; PS4='$(exit 9)'; set -x", "set +x",
                        "shopt -s nocasematch failglob huponexit lastpipe; shopt -u expand_aliases", "eval 'eval \"break 9; continue 9\"'", "coproc cat", "suspend",
                        "ulimit -n 40", "POSIXLY_CORRECT=1; unset POSIXLY_CORRECT", "bind -x x", "history -a; fc -l", "set -o history -o histexpand", "wait -n", "disown -a", "set --"):
            if command != "suspend":  # of a shell that is no terminal's it would stop it
                s.run(command)
            assert s.run("/bin/echo still", cwd="/", env={"X": "1"}).out == "still\n", command


def test_loading_it_again_is_refused():
    with Shell() as s:
        answer = s.run("cloche_session")
        assert answer.code == 1 and "the session is at work" in answer.err and goes_on(s)


def test_ends_of_the_shell():
    for command, status, out in [("echo x; exit 7; echo y", 7, "x\n"), ("f() { exit 300; }; f", 44, ""), ("exit abc 2>/dev/null", 2, ""), ("kill -9 $$", -9, ""),
                                 ("exec echo instead", 0, "instead\n"), ("kill $$", -15, ""), ("exec -a name sh -c 'exit 9'", 9, ""), ("trap 'exit 6' EXIT; exit 2", 6, "")]:
        with Shell() as s:
            assert s.ends(command)[:2] == (status, out), command


def test_what_is_left_behind_does_not_hold_the_socket():
    with Shell() as s:
        answer = s.run("(while :; do read -t 0.05 x </dev/zero; done) & while :; do sleep 0.05; done & coproc cat; :")
        assert answer.job_count == 3
        assert s.ends("exit 0")[0] == 0  # the end of the socket is seen though they live
        loops = answer.jobs[:2]
        assert all(map(is_alive, loops))
        for pid in loops:
            os.kill(pid, 9)


def test_environment_files_are_not_read():
    with tempfile.TemporaryDirectory(prefix="shell-") as folder:
        with open(folder + "/.bashrc", "w") as file:
            file.write("echo rc; x=rc\n")
        with Shell(env={"ENV": folder + "/.bashrc", "HOME": folder, "PROMPT_COMMAND": "echo prompt", "PS1": "> "}) as s:
            assert s.out("echo [$x]") == "[]\n"


def test_bad_requests_end_the_session():
    for head, fds in [(b"x", 1), (b"\x09" + bytes(23), 4), (b"\x02" + bytes(23), 2), (b"\x02" + bytes(7) + b"\x09" + bytes(15), 4),
                      (b"\x02" + bytes(15) + b"\x05" + bytes(7), 4), (b"\x02" + bytes(7) + b"\xff\xff\xff\xff" + bytes(12), 4)]:
        with Shell() as s:
            null_fd = os.open("/dev/null", os.O_RDWR)
            strings_fd = memory_file(b"")
            socket.send_fds(s.socket, [head], [strings_fd] + [null_fd] * (fds - 1))
            try:
                answer = s.receive()
                raise AssertionError(f"{head} was answered: {vars(answer)}")
            except Ended:
                pass
            finally:
                os.close(null_fd)
                os.close(strings_fd)


def test_it_says_why_it_does_not_start():
    for init, why in [("exec 3</dev/null; ", "descriptor 3 is not a SOCK_SEQPACKET socket")]:
        try:
            Shell(init=init)
            raise AssertionError("it started")
        except AssertionError as error:
            assert why in str(error), error
