"""Code in a sandbox stops the processes of Cloche that run as its own user: the session's shell,
and the copy of it that waits for a process; or an interpreter, itself. Each request gets a response
all the same. Or the first process of the box is stopped (from outside, in the role of code that
found a way)."""
import os
import sys

from cloche import SOURCE, descendants, equal, need_root, process_state, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from clocks import Clock  # noqa: E402
from rpc import Daemon, Failed  # noqa: E402

TIMEOUT = 100
ANSWER_S = 30  # of a shell and of an interpreter
TIMEOUT_S = 60

STOP = """exec python3 -c "
import os, signal, time
while True:
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid():
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
    open('/tmp/stopped', 'w').close()
    if %r: break
    time.sleep(0.01)
time.sleep(1000)
" """
ONCE, FOREVER = STOP % True, STOP % False


def is_stopped(frames, name):
    return frames.call("file.exists", sandbox=name, path="/tmp/stopped")["exists"]


def begin(frames, name, command, **how):
    """A process of a sandbox of this name that has stopped all others."""
    frames.call("exec", sandbox=name, command="true")
    frames.call("process.start", sandbox=name, process="p", command=command, **how)
    if "stopped" in command:
        wait_for(lambda: is_stopped(frames, name), "the attack")


def check_kill(command):
    need_root()
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        begin(frames, "kill", command)
        frames.call("process.kill", sandbox="kill", process="p", graceMs=200)
        begin(frames, "all", command)
        frames.call("process.killAll", sandbox="all", graceMs=200)
        begin(frames, "hard", command)
        frames.call("process.kill", sandbox="hard", process="p", signal="KILL")
        begin(frames, "late", command, timeoutMs=TIMEOUT_S * 1000)
        clock.let_pass(TIMEOUT_S, frames)
        for name in ("kill", "all", "hard", "late"):
            equal(frames.call("process.wait", sandbox=name, process="p")["process"]["status"], "killed", name)
        frames.call("exec", sandbox="fork", command="true")
        number = frames.ask("exec", sandbox="fork", command="echo begun; " + command, fork=True, timeoutMs=TIMEOUT_S * 1000, stream=True)
        while not any(params.get("event") == "output" for _, params, _ in frames.told):
            frames.turn()
        if "stopped" in command:
            wait_for(lambda: is_stopped(frames, "fork"), "the attack")
        clock.let_pass(TIMEOUT_S, frames)
        equal(frames.wait(number)["timedOut"], True)


def test_a_process_that_stops_who_waits_for_it_can_be_killed():
    check_kill(ONCE)


def test_so_can_one_that_does_it_again_and_again():
    check_kill(FOREVER)


def test_and_one_that_stops_nobody():
    check_kill("sleep 1000")


def outcome(frames, number):
    try:
        return frames.wait(number)
    except Failed as failed:
        return failed


def test_who_stops_the_shell_of_a_session():
    need_root()
    requests = {"fork": ("exec", {"command": "echo on", "fork": True}), "start": ("process.start", {"command": "true"}), "env": ("session.env", {"env": {"A": "b"}})}
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        for name in requests:
            begin(frames, name, ONCE)
        numbers = {name: frames.ask(method, sandbox=name, **how) for name, (method, how) in requests.items()}
        clock.let_pass(ANSWER_S, frames)
        for name, number in numbers.items():
            print("+", name, outcome(frames, number))
            equal(frames.call("exec", sandbox=name, command="echo served")["stdout"], "served\n")  # by another shell


# After its cell has ended.
STOP_ITSELF = """
import os, signal, threading, time
def stop():
    while not os.path.exists('/workspace/go'): time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGSTOP)
threading.Thread(target=stop).start()
"""


def stopped(daemon):
    return [pid for pid in descendants(daemon.process.pid) if process_state(pid) == "T"]


def test_a_context_that_stops_itself():
    need_root()
    requests = {"fork": {}, "checkpoint": {}, "complete": {"code": "pri"}, "describe": {}}
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        for name in requests:
            frames.call("context.create", sandbox=name, context="c", language="python", forkable=True)
            frames.call("context.run", sandbox=name, context="c", code=STOP_ITSELF)
            frames.call("file.write", sandbox=name, path="go", content="")
        wait_for(lambda: len(stopped(daemon)) == len(requests), "the contexts to stop themselves")
        numbers = {name: frames.ask("context." + name, sandbox=name, context="c", **how) for name, how in requests.items()}
        clock.let_pass(ANSWER_S, frames)
        for name, number in numbers.items():
            print("+", name, outcome(frames, number))
            frames.call("context.restart", sandbox=name, context="c")
            frames.call("context." + name, sandbox=name, context="c", **requests[name])  # the twin
