"""Commands that would block a session forever, or end it: it responds, and the next command works;
processes beside it are spared."""
from hostile_sandboxes import Box, Daemon, Failed, IS_SANITIZED, wait_for

# command, exit code (None: any), output (None: any)
ANSWERED = [
    ("cat", 0, ""), ("read word; echo $?", 0, "1\n"), ("python3 -c 'print(len(open(0).read()))'", 0, "0\n"), ("cat; cat <&0; read -t 100 x; echo on", 0, "on\n"),
    ("exec 7<&0; cat <&7", 0, ""), ("ssh-keygen -f /nowhere/key < /dev/null", None, None), ("select x in a b; do :; done", None, None),
    ("cat <<END\nhello\nEND", 0, "hello\n"), ("cat <<END\nnever ends", 0, "never ends\n"), ("cat <<A <<B\n1\nA\n2\nB", 0, "2\n"), ("cat <<'' \nx\n\necho on", 0, "x\non\n"),
    ("cat <<END", 0, ""), ("cat <<-\tEND\n\tx\n\tEND\necho on", 0, "x\non\n"), ("cat <<END\n$(cat <<IN\nx\nIN\n)\nEND", 0, "x\n"),
    ("echo 'never closed", 2, ""), ('echo "never closed', 2, ""), ("echo `never closed", 2, ""), ("echo $(never closed", 2, ""), ("echo ${never", None, ""), ("if true; then", 2, ""),
    ("{", 2, ""), ("(", 2, ""), (")", 2, ""), ("}", 2, ""), ("fi", 2, ""), ("case x in", 2, ""), ("for", 2, ""), ("while", 2, ""), ("true |", 2, ""), ("true &&", 2, ""), ("f() {", 2, ""),
    ("<<", 2, ""), (";;", 2, ""), ("&", 2, ""), ("true \\", 0, ""), ("\\", None, None), ("", 0, ""), ("\n\n", 0, ""), ("# only a comment", 0, ""), ("\0", None, ""), ("echo a\0b", None, None),
    ("return 5", None, None), ("break; continue; echo on", 0, "on\n"), ("eval 'eval \"'", None, None), ("source /dev/stdin", 0, ""), (". /dev/fd/0", 0, ""),
    ("! ! ! true", None, None), ("[[ x", 2, ""), ("echo $((", 2, ""), ("((1/0))", 1, ""), ("echo $((1/0)); echo on", None, None), ("fg; bg; echo on", 0, "on\n"),
    ("set -m; sleep 1000 & disown -a; set +m; echo on", 0, "on\n"), ("sleep 1000 & sleep 1000 & echo on", 0, "on\n"), ("coproc cat; echo on", 0, "on\n"),
    ("(trap '' HUP INT TERM; exec setsid sleep 1000) & echo on", 0, "on\n"), ("sleep 1000 <&0 >&1 2>&2 & exec 9>&1", 0, ""), ("exec 9>&-; echo on", 0, "on\n"),
    ("kill -INT $$; kill -TERM $$ 2> /dev/null; :", None, None), ("set -o pipefail; false | true", 1, ""), ("set +o pipefail", 0, ""), ("set -e; false; echo never", 1, ""), ("set +e", None, ""),
    ("set -v; set -x; true; set +vx", 0, ""), ("stty -a; stty raw", None, ""), ("tty; reset; clear", None, None), ("less /etc/passwd | head -c 0", None, ""),
    ("history -c; fc -l; logout", None, None), ("suspend", None, None), ("times > /dev/null; umask 077; umask 022", 0, ""), ("bash -i -c 'echo inner' 2> /dev/null", 0, "inner\n"),
    ("bash", 0, ""), ("python3", 0, ""), ("script -qc cat /dev/null < /dev/null", None, None), ("sudo -n true", None, None), ("su -c true", None, None),
]


def test_what_is_answered():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        for command, code, out in ANSWERED:
            result = box.run(command)
            assert (code is None or result["exitCode"] == code) and (out is None or box.bytes(result["stdout"]) == out.encode()), (command, result)
            assert not result["timedOut"] and box.says("echo next") == b"next\n", (command, result)
        box.is_well()


# Commands that end the shell; the next command has a new one.
ENDS = [
    ("exit 3", 3), ("exit", 0), ("exit 256", 0), ("(exit 4); exit", 4), ("exec true", 0), ("exec false", 1), ("exec /bin/sh -c 'exit 9'", 9), ("kill -9 $$", 137),
    ("kill -SEGV $$", 139), ("kill -ABRT $$; sleep 1", 134), ("kill -9 $BASHPID", 137), ("trap 'exit 6' EXIT; exit 5", 6), ("trap 'exit 8' DEBUG; true", 8),
    ("trap 'exit 11' ERR; false", 11), ("exec bash -c 'kill -9 $$'", 137), ("exec cat", 0),
]


def test_what_ends_the_shell():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        for command, code in ENDS:
            assert box.run("cd /tmp; WORD=mine; f() { :; }")["exitCode"] == 0
            result = box.run(command)
            assert result["sessionEnded"] and (code is None or result["exitCode"] == code), (command, result)
            assert box.says("pwd; echo .$WORD; type -t f") == b"/workspace\n.\n", command  # a new shell, where its session begins
        box.is_well(spared=False)
        assert not box.run("WORD=mine; (exit 3)")["sessionEnded"] and box.says("echo $WORD") == b"mine\n"  # the twin


STAY_FOREVER = [
    "while :; do :; done", "sleep 1000", "cat /dev/zero > /dev/null", "trap '' INT TERM HUP QUIT ALRM; sleep 1000; sleep 1000", "trap 'sleep 1000' INT; sleep 1000",
    "trap 'while :; do :; done' INT TERM EXIT; while :; do :; done", "read < <(sleep 1000)", "wait < <(:) & sleep 1000 & wait", "echo $(sleep 1000)", "f() { while :; do f2; done; }; f2() { :; }; f",
    "sleep 1000 | sleep 1000 | cat", "(setsid sleep 1000; sleep 1000)", "until false; do sleep 0.01; done", "kill -STOP $$; echo on", "exec sleep 1000", "trap 'sleep 1000' EXIT; exit",
    "mkfifo /tmp/pipe$$; cat /tmp/pipe$$", "coproc sleep 1000; wait", "python3 -c 'import signal; signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65)); signal.pause()'", "printf %s {1..100000000}",
    "trap 'kill -STOP $$' DEBUG; true", "trap : DEBUG; while :; do :; done", "python3 -c 'import os, signal; os.kill(os.getppid(), signal.SIGSTOP); signal.pause()'", "select x in a; do :; done < <(sleep 1000)",
    "sleep 1000 & kill -STOP $!; wait", "[[ aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab =~ ^(a|aa|a*)*(a|aa|a*)*(a|aa)*c$ ]]; while :; do :; done",
]


def test_timeouts_end_whatever_it_is():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.says("sleep 100000 & disown; echo $! > /tmp/spared")
        for command in STAY_FOREVER:
            result = box.run(command, timeoutMs=150)
            assert result["timedOut"] and result["exitCode"] == 124, (command, result)
            assert box.says("echo next") == b"next\n", command
        left = box.says("ps -eo args= | grep -v 'ps -eo\\|grep\\|bash\\|sleep 100000\\|cloche\\|box-init'", session="other").decode().split("\n")
        assert [line for line in left if line.strip()] == [], left
        assert not box.run("sleep 0.1", timeoutMs=20000)["timedOut"]  # the twin
        box.is_well()


DAEMONS = [
    "(setsid sleep 5555 &)", "setsid sh -c 'setsid sleep 5555 & setsid sleep 5555 & exec sleep 5555' &", "nohup sleep 5555 > /dev/null 2>&1 & disown",
    "python3 -c 'import os\nfor _ in range(3):\n  if os.fork(): os._exit(0)\n  os.setsid()\nos.execvp(\"sleep\", [\"sleep\", \"5555\"])'",
    "(trap '' TERM HUP INT; while :; do sleep 5555; done) &", "set -m; sleep 5555 & set +m; disown -a", "exec 9> >(sleep 5555)",
]


def test_timeouts_find_daemons_that_forked_twice():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)

        def sleepers():
            return box.says("ps -eo args= | grep -c '^sleep 5555'", session="other")
        box.run(DAEMONS[0], session="before")
        wait_for(lambda: sleepers() == b"1\n")
        for command in DAEMONS:
            result = box.run(command + "\nsleep 0.3; sleep 1000", timeoutMs=600)
            assert result["timedOut"], command
            assert sleepers() == b"1\n", command
        box.run(DAEMONS[0])  # the twin: without a timeout it lives on
        wait_for(lambda: sleepers() == b"2\n")
        box.is_well()


def test_grandchildren_that_hold_the_pipes():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        for command in ("sleep 100000 & echo on", "setsid sleep 100000 & echo on", "(sleep 100000 &) ; echo on", "yes > /dev/null & echo on", "exec 8>&1; sleep 100000 >&8 & echo on; exec 8>&-",
                        "{ while :; do echo late; sleep 0.01; done; } & disown; echo on"):
            result = box.run(command)
            assert result["exitCode"] == 0 and not result["timedOut"] and "on" in result["stdout"], (command, str(result)[:300])
            streamed = box.run(command, stream=True)
            assert streamed["exitCode"] == 0, command
            forked = box.run(command, fork=True)
            assert forked["exitCode"] == 0, command
            assert box.says("echo next") == b"next\n", "and what is printed late is nobody else's"
        started = box.call("process.start", command="sleep 100000 & echo on")["process"]
        assert box.call("process.wait", process=started, timeoutMs=20000)["process"]["exitCode"] == 0
        box.is_well()


# Settings that stay in a shell and could spoil it for later commands; ending the shell undoes each.
SPOILT = [
    "exec > /dev/null 2>&1", "exec >&- 2>&- <&-", "set -n", "set -f; set -o posix; set -k; set -t", "PATH=/nowhere; hash -r", "readonly PATH=/nowhere", "IFS=abcdefghij; POSIXLY_CORRECT=1", "BASH_ENV=/workspace/exits; export BASH_ENV",
    "export ENV=/workspace/exits BASH_ENV=/workspace/sleeps", "export LD_PRELOAD=/nowhere/x.so LD_LIBRARY_PATH=/workspace", "export LANG=xx LC_ALL=yy TERM=zz HOME=/nowhere SHELL=/nowhere TMPDIR=/nowhere", "PS4='$(sleep 1000)'; set -x",
    "PROMPT_COMMAND='sleep 1000'; PS1='$(sleep 1000)'; PS0='$(sleep 1000)'", "TMOUT=1; export TMOUT", "trap '' INT TERM CHLD HUP PIPE; trap 'echo trapped' CHLD", "trap 'read x' DEBUG", "trap 'return 1' DEBUG; shopt -s extdebug",
    "shopt -s execfail failglob nullglob extglob lastpipe; shopt -u sourcepath", "ulimit -n 10", "ulimit -n 3", "ulimit -f 0", "ulimit -v 100000", "ulimit -s 64", "ulimit -u 1", "ulimit -c 0; ulimit -t 1; while :; do :; done",
    "for fd in /proc/$$/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && eval \"exec $n>&-\"; done", "for fd in /proc/$$/fd/*; do n=${fd##*/}; [ $n -gt 2 ] && printf garbage >&$n; done 2> /dev/null",
    "for n in {3..300}; do eval \"exec $n< /dev/null\"; done", "export BIG=$(printf %200000s); for n in {1..30}; do export BIG$n=$BIG; done", "mkdir -p gone; cd gone; rmdir ../gone", "cd /proc/self/fd; cd /proc/$$/task",
    "for i in {1..300}; do mkdir -p d23456789012345678901234; cd d23456789012345678901234; done", "mkdir -p $'new\\nline'; cd $'new\\nline'", "mkdir -p $'\\xff\\xfe'; cd $'\\xff\\xfe'", "export WORD=$'\\xff\\xfe' NL=$'a\\nb' EMPTY=",
    "mkdir -p shut; cd shut; chmod 0 .", "chmod 0 /workspace", "chmod 0 /tmp", "chmod 0 /home/cloche", "export -f $(f() { :; }; echo f)", "f() { echo x; }; export -f f", "export 'BASH_FUNC_echo%%=() { sleep 1000; }'", "bash() { sleep 1000; }; export -f bash",
    "enable -n echo cd exit eval; enable -a > /dev/null", "for b in $(enable | cut -d' ' -f2); do enable -n $b; done 2> /dev/null", "for b in $(compgen -b); do enable -d $b; done 2> /dev/null", "eval() { sleep 1000; }; builtin() { sleep 1000; }; exit() { sleep 1000; }; cd() { sleep 1000; }",
    "alias echo='sleep 1000'; shopt -s expand_aliases", "set -o noclobber; set -o onecmd", "command_not_found_handle() { sleep 1000; }; no-such-command & echo on", "exec -c -a x bash", "exec 0<> /dev/zero", "exec 255>&- 63>&-",
    "kill -STOP $PPID", "kill -9 $PPID 1", "set -r; echo on", "declare -r EUID2=1; declare -i WORD; nameref=1; declare -n PATH=PATH", "umask 777", "mapfile -t x < /dev/null; printf '%s' {1..300000} > /dev/null",
    "rm -rf /workspace/* /tmp/* /home/cloche/*; rmdir /workspace /tmp",
]


def test_what_stays_in_a_shell_spoils_no_other():
    with Daemon() as daemon, daemon.frames() as frames:
        for number, command in enumerate(SPOILT):
            if number % 20 == 0:
                box = Box(frames, f"s{number}")
                box.call("file.write", path="exits", content="exit 7\n")
                box.call("file.write", path="sleeps", content="sleep 1000\n")
            box.run(command, session="x", timeoutMs=700)
            box.run("echo next", session="x", timeoutMs=700)
            box.run("exit", session="x", timeoutMs=700)
            again = box.run("echo again", session="x", timeoutMs=5000)
            assert not again["timedOut"], (command, again)
            box.run("chmod 755 /workspace /tmp /home/cloche; cd /workspace; mkdir -p /workspace; chmod 755 shut")
            alive = box.run("echo alive")
            assert alive["stdout"] == "alive\n" and not alive["sessionEnded"], (command, alive)
            assert box.call("file.exists", path="/tmp")["exists"], command
            box.end_session("x")
            assert box.says("echo $((6 * 7))", session="x") == b"42\n", command
            box.end_session("x")
        box.is_well()


def content(box, path):
    """The content of a file. None: the process that was about to read it was killed."""
    try:
        return box.call("file.read", path=path)["content"]
    except Failed as error:
        assert error.name in ("sandbox_ended", "resource"), error.name
        return None


def test_everything_else_is_stopped_or_killed():
    """Attacks of a guest on all its own processes: the sandbox restarts them."""
    with Daemon() as daemon, daemon.frames() as frames:
        for number in ("KILL", "TERM", "SEGV", "INT", "STOP"):
            box = Box(frames, "box" + number)
            box.call("file.write", path="f", content="kept")
            box.run(f"kill -{number} -1", session="bad", timeoutMs=1000)
            wait_for(lambda: content(box, "f") == "kept")
            assert not box.run("true", timeoutMs=20000, session="new")["timedOut"], number
            box.run("true", timeoutMs=1000)
            box.run("true", session="other", timeoutMs=1000)
            box.is_well(spared=False)
            box.call("sandbox.delete")


def test_a_long_script_and_many_lines():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        lines = 5000 if not IS_SANITIZED else 2000
        assert box.says("\n".join("x=$((x + 1))" for _ in range(lines)) + "\necho $x") == b"%d\n" % lines
        assert box.says("echo " + "a" * 1000000 + " | wc -c") == b"1000001\n"
        assert box.says("cat <<'END' | wc -c\n" + "b" * 3000000 + "\nEND") == b"3000001\n"
        assert box.run("(" * 500 + "true" + ")" * 500) is not None
        assert box.run("$(" * 60 + "true" + ")" * 60) is not None
        box.is_well()
