"""There is no more memory for the daemon, its keeper and all boxes together: the kernel kills
programs first, then boxes, and never the shared processes."""
import contextlib

from cloche import need_root, skip
from hostile_sandboxes import Box, Daemon, Failed, wait_for
from rpc import Gone
from own_group import bounded

MIB = 1 << 20
EAT = "import sys\ntaken = []\nfor _ in range({}):\n    taken.append(bytearray(b'x') * (1 << 20))\nprint('taken', flush=True)\n"


class Served:
    """A daemon with a tenant. The same processes are there at the end, and all of it works."""

    def __init__(self, daemon, frames):
        self.daemon, self.frames = daemon, frames
        self.tenant = Box(frames, "tenant")
        self.tenant.run("echo precious > f")
        frames.call("sandbox.save", sandbox="tenant")
        self.works(0)
        self.before = self.ours()

    def ours(self):
        engine = self.daemon.engine_pid()
        with open(f"/proc/{engine}/task/{engine}/children") as file:
            return [self.daemon.process.pid, engine, *file.read().split()]

    def works(self, number):
        call = self.frames.call
        assert call("call", language="python", code="return 6 * 7")["result"] == 42
        assert call("call", language="python", code="open('f', 'w').write('x')\nreturn 6 * 7", warm=False)["result"] == 42
        assert call("exec", sandbox="tenant", command="(cat f)")["stdout"] == "precious\n"
        call("exec", sandbox=f"new{number}", command="echo made > f")
        call("context.create", sandbox=f"new{number}", context="c", language="python")
        assert call("context.run", sandbox=f"new{number}", context="c", code="print(6 * 7)")["stdout"] == "42\n"
        call("sandbox.stop", sandbox=f"new{number}")
        assert call("exec", sandbox=f"new{number}", command="cat f")["stdout"] == "made\n"
        call("sandbox.delete", sandbox=f"new{number}")

    def check(self):
        wait_for(self.is_calm)
        self.works(1)
        assert self.ours() == self.before, (self.ours(), self.before)

    def is_calm(self):
        """Killed templates and interpreters are made again on demand."""
        try:
            return self.frames.call("call", language="python", code="return 1")["status"] == "success"
        except Failed:
            return False


@contextlib.contextmanager
def served():
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        all_of_it = Served(daemon, frames)
        yield all_of_it
        all_of_it.check()


# Errors of memory that the host, a template, or a sandbox's own programs lacked, or of a sandbox that is gone.
REFUSED = ("resource", "spawn", "template", "namespace", "mount", "cgroup", "sandbox_ended", "session_ended", "context_ended", "process_ended", "disk_full", "invalid_state")


def attempt(frames, method, **params):
    try:
        frames.call(method, **params)
    except Failed as error:
        assert error.name in REFUSED, (method, error.name, error.message)


def test_a_program_that_takes_all():
    """Its own limit exceeds the available memory. Only this program is killed."""
    with served() as all_of_it:
        evil = Box(all_of_it.frames, "evil")
        with bounded("memory", 200 * MIB):
            for size, code in ((600, 137), (50, 0)):  # the second is the twin
                evil.call("file.write", path="eat.py", content=EAT.format(size))
                result = evil.run("python3 eat.py", fork=True)
                assert result["exitCode"] == code, result
                assert (result["stdout"] == "taken\n") == (code == 0), result
                all_of_it.tenant.is_well()
                evil.is_well()
            for size, status in ((600, "crash"), (50, "success")):
                result = all_of_it.frames.call("call", language="python", code=EAT.format(size) + "return len(taken)", limits={"memoryBytes": 1 << 30}, warm=False)
                assert result["status"] == status, result
                all_of_it.tenant.is_well()


def is_protected():
    """The unit of systemd lowers the daemon's score by this right; some virtual machines keep it from root."""
    try:
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("-1")
            file.flush()
        with open("/proc/self/oom_score_adj", "w") as file:
            file.write("0")
        return True
    except PermissionError:
        return False


def test_files_that_take_all():
    """Files of a box are memory that no program holds: with them goes the box. Others' may go too, and come back as they were saved."""
    try:
        take_all_by_files()
    except Gone:
        # Files go some milliseconds after their box, and there may be nothing else left to kill in between.
        if is_protected():
            raise
        skip("the kernel killed the daemon, which root cannot protect here: CAP_SYS_RESOURCE is missing")


def take_all_by_files():
    with served() as all_of_it:
        evil = Box(all_of_it.frames, "evil")
        with bounded("memory", 100 * MIB):
            evil.run("head -c 40M /dev/zero > /tmp/permitted; rm /tmp/permitted")
            evil.is_well()
            for command in ["for n in $(seq 8); do (head -c 600M /dev/zero > /tmp/f$n); done", *["true"] * 4]:
                attempt(all_of_it.frames, "exec", sandbox="evil", command=command)
                attempt(all_of_it.frames, "call", language="python", code="return 6 * 7")
                attempt(all_of_it.frames, "file.write", sandbox="tenant", path="g", content="x" * (4 << 20))
        all_of_it.frames.call("sandbox.delete", sandbox="evil")


def test_hardly_any():
    """Every request is executed or refused, and a refused one leaves no state."""
    with served() as all_of_it:
        with bounded("memory", 2 * MIB):
            for method, params in (("call", {"language": "python", "code": "return 6 * 7"}), ("call", {"language": "python", "code": "return 6 * 7", "warm": False}),
                                   ("sandbox.create", {"sandbox": "new", "env": {"A": "b"}}), ("exec", {"sandbox": "tenant", "command": "(cat f)"}),
                                   ("context.create", {"sandbox": "tenant", "context": "c", "language": "python"}), ("sandbox.save", {"sandbox": "tenant"})):
                attempt(all_of_it.frames, method, **params)
