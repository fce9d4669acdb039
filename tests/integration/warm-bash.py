"""Bash as a template: every run sees the state of the set-up, and none sees a sibling's."""
from cloche import equal
from warm import Failed, Warm

SETUP = """
    LIMIT=10
    declare -A map=([key]=value)
    export EXPORTED=yes
    shopt -s nullglob
    help() { echo "<$1>"; }
    drawn="$RANDOM $SRANDOM"
"""


def test_the_set_up_is_there():
    for spares in (0, 2):
        with Warm("bash", SETUP, spares=spares) as warm:
            for _ in range(3):
                equal(warm.value('f() { help "$LIMIT ${map[key]} $(printenv EXPORTED) $(shopt -p nullglob)"; }', pause=30), "<10 value yes shopt -s nullglob>")
            equal(warm.value("echo body"), "body")
            equal(warm.value("help x"), "<x>")


def test_runs_are_clean():
    with Warm("bash", SETUP, spares=2) as warm:
        for _ in range(3):
            equal(warm.value("""
                f() {
                    find /workspace /tmp -mindepth 1 | wc -l
                    LIMIT=20; map[left]=x; help() { echo changed; }; touch /tmp/left left; cd /; trap 'echo trap' EXIT
                }
            """, pause=30), 0)
            equal(warm.value('echo "$LIMIT ${#map[@]} $PWD $(help y)"', pause=30), "10 1 /workspace <y>")


def test_numbers_of_siblings():
    for spares in (0, 3):
        with Warm("bash", SETUP, spares=spares) as warm:
            rows = [warm.value('echo "$RANDOM-$RANDOM-$RANDOM"', pause=30) for _ in range(4)] \
                + [run.value for run in warm.runs('echo "$RANDOM-$RANDOM-$RANDOM"', 3)]
            equal(len(set(rows)), 7, rows)
            rows = [warm.value('echo "$SRANDOM"', pause=30) for _ in range(4)]
            equal(len(set(rows)), 4, rows)


def test_a_run_is_a_shell_of_its_own():
    code = """
        [[ $$ == "$BASHPID" ]] && echo own
        [[ $(bash -c 'echo $PPID') == "$$" ]] && echo parent
        [[ $UID/$EUID == "$(id -u)/$(id -u)" && $UID == 1000 ]] && echo user
        (( SECONDS < 5 )) && echo seconds
        sleep 0 & wait $! && echo "job $? [$(jobs)]"
        trap 'echo got' USR1; kill -USR1 $$
        echo "$(hostname 2>/dev/null || echo "$HOSTNAME") [$BASH_REMATCH$_] $BASH_SUBSHELL"
    """
    with Warm("bash", "x=1") as warm:
        equal(warm.value(code).splitlines()[:6], ["own", "parent", "user", "seconds", "job 0 []", "got"])


def test_host_functions():
    with Warm("bash", "ask() { x=$(hostmodule/deep.echo \"$@\"); }") as warm:
        equal(warm.value('ask a "[1]"; echo "$x $ANSWER"'), '["a",[1]] 42')
        equal(warm.value("host.echo x 1 | cat; host.echo '\"1\"' & wait; echo ."), '["x",1]\n["1"]\n.')
        result = warm.run("f() { fail; }")
        equal((result.status, result.error["type"], result.error["message"]), ("error", "ExitStatus", "f returned 1"), result)
        assert "main.sh: line 1: fail: " in result.stderr, result


def test_what_runs_before_a_run():
    """A child is prepared before the first request: nothing of the set-up's may show from that."""
    setup = "trap 'echo debug >&2' DEBUG; trap 'echo bye >&2' EXIT; printf() { echo mine >&2; }\nset -x"
    with Warm("bash", setup, spares=2) as warm:
        result = warm.run("trap - DEBUG; set +x; f() { echo r; }", pause=200)
        equal((result.status, result.value), ("success", "r"), result)
        assert "mine" not in result.stderr and "__cloche" not in result.stderr, result.stderr
        equal(result.stderr.count("bye"), 1, result.stderr)


def refused(setup, *words):
    try:
        with Warm("bash", setup) as warm:
            warm.run("echo 1")
    except Failed as failure:
        assert failure.code in ("prefix", "template"), failure.code
        for word in words:
            assert word in failure.message, failure.message
        return
    raise AssertionError(setup)


def test_a_set_up_that_fails():
    refused("x=1\nif", "SyntaxError", "line 3")
    refused("exit 3", "exited with 3")
    refused("set -e; false; x=1", "set -e")
    refused("cd /nonexistent", "returned 1")
    refused("kill -9 $$")


def test_what_cannot_be_forked():
    refused("sleep 100 &", "child processes are alive")
    refused("exec 5</etc/passwd", "descriptors are open", "/etc/passwd")


def test_limits_hold():
    with Warm("bash", SETUP) as warm:
        equal(warm.run("f() { while :; do :; done; }", limits={"wallMs": 500}).status, "timeout")
        equal(warm.run("f() { while :; do echo y; done; }", limits={"resultBytes": 100000}).error["type"], "ResultError")
        equal(warm.run("f() { kill -9 $$; }").status, "crash")
        equal(warm.value("echo after"), "after")
