"""The egress program of a sandbox's network is stopped, while it serves or before it begins. That sandbox waits or does without; all others are served. Deadlines come by a jump of the daemon's clock. (The test stops it from outside, in the role of code that found a way to do it.)"""
import os
import signal
import sys

from cloche import SOURCE, command_line, descendants, equal, need_root, process_state, task_children, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
import egress  # noqa: E402
from clocks import Clock  # noqa: E402
from rpc import Daemon, Failed  # noqa: E402

TIMEOUT = 120
SETTLE_S, OPEN_S = 10, 60  # deadlines of a new policy, and of a context with its network
LOOK_S, LOOKS = 5, 4  # a network that has not begun at the fourth look is given up
NETWORK = {"allow": ["allowed.test"]}


def network_of(name):
    """Two sandboxes in sequence with the same network are followed by others made ahead, whose egress programs are nobody's yet."""
    return {"allow": ["allowed.test", f"{name}.test"]}


SAID = "allowed.test / 0\n"
ASK = "curl -sS -m 30 --retry 20 --retry-all-errors http://allowed.test/"


# A forkable context whose copies stop themselves before they answer.
STOP_COPIES = r"""
import os, signal, sys
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
pid = os.getpid()
below = sys._getframe()
while "State" not in below.f_globals or getattr(below.f_globals["State"], "template", None) is None:
    below = below.f_back
taken = type(below.f_globals["State"].template)
stand = taken.stand
def attack(agent, channel):
    made = stand(agent, channel)
    if os.getpid() != pid:
        os.kill(os.getpid(), signal.SIGSTOP)
    return made
taken.stand = attack
"""


class Evil:
    """A daemon, a caller with a stopped egress, and another caller, with a network too. All egress programs are
    continued at the end."""

    def __init__(self):
        need_root()
        egress.World({"allowed.test": ["93.184.216.34"]})
        egress.use_name_servers(egress.NAMES)

    def __enter__(self):
        self.clock = Clock()
        self.daemon = Daemon(env=self.clock.env)
        self.evil, self.victim = self.daemon.frames(), self.daemon.frames()
        self.keeper = task_children(self.daemon.engine_pid())[0]
        self.stopped = []
        return self

    def __exit__(self, *error):
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.daemon.__exit__(*error)
        self.clock.__exit__()

    def egress_programs(self):
        return {pid for pid in task_children(self.keeper) if command_line(pid).startswith("cloche-egress")}

    def stop(self, pid):
        self.stopped.append(pid)
        os.kill(pid, signal.SIGSTOP)

    def let_pass(self, seconds):
        self.clock.let_pass(seconds, self.evil)

    def refuse_policy(self, **policy):
        """An update that is not in force is not said to be: it fails at its deadline."""
        number = self.evil.ask("sandbox.update", sandbox="evil", **policy)
        equal(self.evil.call("sandbox.get", sandbox="evil")["network"], policy["network"], "the update waits")
        assert not self.evil.is_answered(number, 0), self.evil.answers
        self.let_pass(SETTLE_S)
        try:
            raise AssertionError(self.evil.wait(number))
        except Failed as error:
            equal(error.name, "timeout", error)

    def others_are_served(self, name):
        """A network of their own is made, and used."""
        self.victim.call("sandbox.create", sandbox=name, network=network_of(name))
        equal(self.victim.call("exec", sandbox=name, command=ASK)["stdout"], SAID)
        equal(self.victim.call("call", language="python", code="return 6 * 7", warm=True)["result"], 42)


def test_an_egress_program_that_serves():
    with Evil() as it:
        it.evil.call("sandbox.create", sandbox="evil", network=NETWORK)
        equal(it.evil.call("exec", sandbox="evil", command=ASK)["stdout"], SAID)
        it.stop(it.egress_programs().pop())
        number = it.evil.ask("exec", sandbox="evil", command=ASK)
        it.others_are_served("victim")
        assert not it.evil.is_answered(number, 0.2), it.evil.answers
        it.evil.call("session.create", sandbox="evil", session="other")
        equal(it.evil.call("exec", sandbox="evil", command="echo here", session="other")["stdout"], "here\n")
        equal(it.evil.call("sandbox.get", sandbox="evil")["state"], "running")
        it.refuse_policy(network={"allow": []})
        pid = it.stopped[0]
        it.evil.call("sandbox.delete", sandbox="evil")
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"), "the egress program of a sandbox that was deleted")
        it.others_are_served("next")


def test_an_egress_program_that_goes_on():
    with Evil() as it:
        it.evil.call("sandbox.create", sandbox="evil", network=NETWORK)
        it.stop(it.egress_programs().pop())
        number = it.evil.ask("exec", sandbox="evil", command=ASK)
        it.others_are_served("victim")
        assert not it.evil.is_answered(number, 0.2), it.evil.answers
        os.kill(it.stopped.pop(), signal.SIGCONT)
        equal(it.evil.wait(number)["stdout"], SAID)


def hold_up(it):
    """The number of a request whose sandbox's egress program is stopped before it begins."""
    for attempt in range(40):
        known = it.egress_programs()
        it.evil.ask("sandbox.create", sandbox=f"evil{attempt}", network=network_of(f"evil{attempt}"))
        number = it.evil.ask("exec", sandbox=f"evil{attempt}", command="echo late")
        while not it.evil.is_answered(number, 0.0005):
            for pid in it.egress_programs() - known:
                it.stop(pid)
                it.others_are_served(f"victim{attempt}")
                if it.evil.is_answered(number, 0):  # it had begun already
                    break
                return number, f"evil{attempt}"
        it.evil.wait(number)
    raise AssertionError("no egress program was met in time; the attack must be written anew")


def test_an_egress_program_that_does_not_begin():
    with Evil() as it:
        number, name = hold_up(it)
        for _ in range(LOOKS):
            it.let_pass(LOOK_S)
        try:
            raise AssertionError(it.evil.wait(number))
        except Failed as error:
            equal(error.name, "timeout", error)
        equal(it.evil.call("exec", sandbox=name, command="echo again")["stdout"], "again\n")


def test_an_egress_program_that_a_context_waits_for():
    """The copy of a context has answered; its network has not."""
    with Evil() as it:
        it.evil.call("sandbox.create", sandbox="evil", network=NETWORK)
        it.evil.call("context.create", sandbox="evil", context="c", forkable=True)
        equal(it.evil.call("context.run", sandbox="evil", context="c", code=STOP_COPIES)["status"], "ok")
        known = it.egress_programs()
        number = it.evil.ask("context.fork", sandbox="evil", context="c", count=1)
        wait_for(lambda: [pid for pid in descendants(it.keeper) if process_state(pid) == "T"], "a copy that has stopped itself")
        [copy] = [pid for pid in descendants(it.keeper) if process_state(pid) == "T"]
        wait_for(lambda: it.egress_programs() - known, "the copy's network")
        it.evil.call("sandbox.update", sandbox="evil", network=NETWORK)  # in force everywhere
        [egress_pid] = it.egress_programs() - known
        it.stop(egress_pid)
        it.refuse_policy(network=NETWORK)
        os.kill(copy, signal.SIGCONT)
        it.others_are_served("victim")
        wait_for(lambda: any(row["state"] == "starting" and "pid" in row for row in it.evil.call("context.list", sandbox="evil")["contexts"]), "the copy's answer")
        assert not it.evil.is_answered(number, 0), it.evil.answers
        it.let_pass(OPEN_S)
        try:
            raise AssertionError(it.evil.wait(number))
        except Failed as error:
            assert error.name == "context_ended" and "the network of the context was not in force within 60 s" in str(error), error
        equal(it.evil.call("context.run", sandbox="evil", context="c", code="6 * 7")["status"], "ok")
