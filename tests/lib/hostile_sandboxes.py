"""Shared by tests/hostile/sandbox-*.py: a cloched, sandboxes driven over frames, and the host's resources for them."""
import array
import contextlib
import os
import socket
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
from cloche import descendants
from rpc import Daemon, Failed, Frames, Gone
from sandbox_client import IS_SANITIZED, wait_for

CGROUPS = "/sys/fs/cgroup"
OTHER_UID = 12345
HANG_MS = 30000  # timeout for commands that end on their own: a wedged one fails the test, and does not block it


def as_another(daemon):
    """A connection that another user made; the socket is passed over. None: he could not."""
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(OTHER_UID, OTHER_UID, OTHER_UID)
            os.setresuid(OTHER_UID, OTHER_UID, OTHER_UID)
            made = socket.socket(socket.AF_UNIX)
            made.connect(daemon.path)
            theirs.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))])
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    theirs.close()
    ours.settimeout(10)
    _, control, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(4))
    ours.close()
    if not control:
        return None
    made = socket.socket(fileno=array.array("i", control[0][2])[0])
    made.settimeout(40)
    return made


class Box:
    """One sandbox, from its owner's side. made: further params of sandbox.create."""

    def __init__(self, frames, name="a", **made):
        self.frames, self.name = frames, name
        self.sessions = {"default"}
        frames.call("sandbox.create", sandbox=name, **made)
        self.witness = self.call("process.start", command="exec sleep 100000")["process"]

    def call(self, method, **params):
        return self.frames.call(method, sandbox=self.name, **params)

    def ask(self, method, **params):
        return self.frames.ask(method, sandbox=self.name, **params)

    def refused(self, method, **params):
        return self.frames.refused(method, sandbox=self.name, **params)

    def run(self, command, **more):
        session = more.get("session", "default")
        if session not in self.sessions:
            self.call("session.create", session=session)
            self.sessions.add(session)
        return self.call("exec", command=command, **{"timeoutMs": HANG_MS, **more})

    def end_session(self, session):
        self.sessions.discard(session)
        self.call("session.delete", session=session)

    def says(self, command, **more):
        """Its output, as bytes, with any status."""
        result = self.run(command, **more)
        return self.bytes(result["stdout"])

    def bytes(self, value):
        if isinstance(value, str):
            return value.encode()
        return self.frames.attachments[value["at"]:value["at"] + value["n"]]

    def python(self, code, **more):
        return self.says("exec /usr/bin/python3 -c \"$CODE\"", env={"CODE": code}, fork=True, **more).decode()

    def is_well(self, spared=True):
        """Its shell, its files and its first process work as before; spared: earlier processes still run."""
        assert self.says("echo alive") == b"alive\n"
        assert self.says("echo other", session="other") == b"other\n"
        assert self.call("file.write", path="/tmp/.well", content="x")["bytes"] == 1
        assert self.call("file.read", path="/tmp/.well")["content"] == "x"
        self.call("file.remove", path="/tmp/.well")
        assert not spared or self.call("process.get", process=self.witness)["status"] == "running"
        assert self.call("sandbox.get")["state"] == "running"


class Memory:
    """The daemon's own memory grows by no more than `room` bytes meanwhile."""

    def __init__(self, daemon, room):
        self.daemon, self.room = daemon, room

    def __enter__(self):
        self.before = self.most = self.daemon.memory()
        return self

    def look(self):
        self.most = max(self.most, self.daemon.memory())

    def __exit__(self, kind, *_):
        self.look()
        assert kind or IS_SANITIZED or self.most - self.before < self.room, f"it grew by {self.most - self.before} bytes"


def groups_of(owners, directory=CGROUPS, is_one=False):
    """How many control groups have the names of these keepers, or lie below one. The number of links
    shows that a group has none below it, without a listing of its files."""
    count = 0
    try:
        if os.stat(directory).st_nlink == 2:
            return 0
        with os.scandir(directory) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return 0  # removed meanwhile
    for name in names:
        is_below = is_one or name.startswith("cloche") and name.rpartition("-")[2] in owners
        count += is_below + groups_of(owners, f"{directory}/{name}", is_below)
    return count


class Host:
    """The host's present resources for a daemon, in numbers that return to the same values if
    nothing is left behind."""

    def __init__(self, daemon):
        self.pid = daemon.process.pid
        self.keepers = descendants(self.pid)

    def now(self):
        """Asked again and again: all four are counted in one pass over its processes."""
        below = descendants(self.pid)
        descriptors = mounts = 0
        for pid in [self.pid, *below]:
            with contextlib.suppress(OSError):
                descriptors += len(os.listdir(f"/proc/{pid}/fd"))
                with open(f"/proc/{pid}/mountinfo", "rb") as file:
                    mounts += file.read().count(b"\n")
        return {"processes": len(below), "descriptors": descriptors, "groups": groups_of({str(pid) for pid in below}), "mounts": mounts}

    def comes_back_to(self, before, spares=2):
        """All numbers return soon. spares: sandboxes of the usual kind that the daemon may keep ready for the next request, which
        it did not before; a sandbox with a network of its own has more processes."""
        room = {"processes": 2, "descriptors": 20, "groups": 12, "mounts": 180}
        try:
            wait_for(lambda: all(count <= before[name] + spares * room[name] for name, count in self.now().items()))
        except AssertionError:
            raise AssertionError(f"left behind: {self.now()}, before: {before}") from None
