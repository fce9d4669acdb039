"""The keeper is stopped. Requests that need it wait, for a time; others are served."""
import os
import shutil
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clocks import Clock
from cloche import alive, equal, need_root, task_children, wait_for
from rpc import Daemon, Failed

BOUND = 120
TIMEOUT = 150
TICK_S, TICKS = 10, 4  # the engine gives the keeper up at the third tick after that of its request
NEEDS = (  # the keeper
    ("call", {"language": "python", "code": "return 6 * 7", "warm": False}),
    ("call", {"language": "javascript", "code": "return 6 * 7", "warm": True}),
    ("prefix.create", {"language": "python", "code": "x = 42"}),
    ("sandbox.create", {"sandbox": "new", "limits": {"diskBytes": 1 << 24}}),  # of no kind that is made ahead
)


class Stopped:
    """The keeper of a daemon with a sandbox, in which there is a file."""

    def __init__(self, daemon):
        self.keeper = next(pid for pid in task_children(daemon.engine_pid()) if open(f"/proc/{pid}/comm").read() == "cloche-keeper\n")

    def __enter__(self):
        os.kill(self.keeper, signal.SIGSTOP)
        return self

    def __exit__(self, *_):
        try:
            os.kill(self.keeper, signal.SIGCONT)
        except ProcessLookupError:
            pass


def is_served(frames):
    equal(frames.call("exec", sandbox="there", command="cat file")["stdout"], "kept")


def prepare(frames):
    frames.call("exec", sandbox="there", command="printf kept > file")


def test_one_that_goes_on_in_time():
    need_root()
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        prepare(victim)
        with Stopped(daemon):
            numbers = [evil.ask(method, **params) for method, params in NEEDS]
            for number in numbers:
                is_served(victim)
                assert not evil.is_answered(number), "without the keeper"
        results = [evil.wait(number) for number in numbers]
        equal([result["result"] for result in results[:2]], [42, 42])
        equal(evil.call("call", prefix=results[2]["prefix"], code="return x")["result"], 42)


def test_one_that_does_not():
    need_root()
    state = tempfile.mkdtemp(prefix="silent-state-")
    os.chmod(state, 0o711)
    try:
        gives_the_keeper_up(state)
        with Daemon("--state-dir", os.path.join(state, "state")) as daemon, daemon.frames() as frames:
            is_served(frames)  # it was saved while the keeper was stopped
    finally:
        shutil.rmtree(state)


def gives_the_keeper_up(state):
    with Clock() as clock, Daemon("--state-dir", os.path.join(state, "state"), env=clock.env) as daemon, daemon.frames() as evil, daemon.frames() as victim:
        prepare(victim)
        with Stopped(daemon) as stopped:
            numbers = [evil.ask(method, **params) for method, params in NEEDS]
            is_served(victim)
            for _ in range(TICKS - 1):
                clock.let_pass(TICK_S, evil)
            clock.jump(0, monotonic=TICKS * (TICK_S + 1))
            evil.socket.settimeout(BOUND)
            for number in numbers:
                try:
                    raise AssertionError(evil.wait(number))
                except Failed as error:
                    equal(error.name, "keeper", error)
                    assert "has not answered for" in error.message, error
            wait_for(lambda: any(line["event"] == "engine-ended" for line in daemon.lines()), "the engine's end")
        wait_for(lambda: not alive(stopped.keeper), "the keeper's end, once it goes on")
