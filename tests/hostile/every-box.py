"""The attempts of lib/attempts.py in every kind of box there is, made by root's daemon and by an ordinary user's; and where they are permitted, which shows that they are real."""
import json
import os
import subprocess
import sys

import attempts
from cloche import SOURCE, descendants, equal, need_ordinary_user, need_root, need_writable_roots
from image_trees import make_store

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import HANG_MS, Daemon, private_of_user  # noqa: E402


PRINTED = attempts.program() + "\nimport json\nprint(json.dumps(FOUND))\n"
# Acts that CAP_SYS_ADMIN permits in a user namespace of its own (decision 0018).
OF_A_TEMPLATE = {"the right to administrate", "groups of its namespace", "attributes of integrity"}
# Acts over its own box that root of a sandbox has the rights for (decision 0043). syncfs(2) is answered, and not done.
OF_ROOT = {"a flush of a file system", "other users", "capabilities", "the box's own programs", "leases on what others use", "attributes of trust"}


def says(frames, **where):
    answer = frames.call("exec", command="python3 -c \"$CODE\"", env={"CODE": PRINTED}, timeoutMs=HANG_MS, **where)
    assert answer["exitCode"] == 0, answer
    return answer["stdout"]


def cell(frames, sandbox, context):
    answer = frames.call("context.run", sandbox=sandbox, context=context, code=PRINTED)
    assert answer["status"] == "ok", answer
    return answer["stdout"]


def returned(frames, **more):
    answer = frames.call("call", function="main", **more)
    assert answer["status"] == "success", answer
    return answer["result"]


def runs(frames):
    code = attempts.program() + "\ndef main(): return FOUND\n"
    yield "a call", returned(frames, language="python", code=code), ()
    prefix = frames.call("prefix.create", language="python", code=attempts.program())["prefix"]
    yield "set-up code", returned(frames, prefix=prefix, code="def main(): return FOUND"), OF_A_TEMPLATE
    yield "a run of a prefix", returned(frames, prefix=prefix, code="def main(): return try_all()"), ()
    frames.call("prefix.dispose", prefix=prefix)


def mounted(frames):
    os.makedirs("mounted", exist_ok=True)
    code = attempts.program() + "\ndef main(): return FOUND\n"
    mount = {"dirs": {"/workspace/m": os.path.abspath("mounted")}}
    yield "a call with a mount", returned(frames, language="python", code=code, mount=mount), ()


def sandboxes(frames):
    frames.call("sandbox.create", sandbox="plain")
    yield "a session", says(frames, sandbox="plain"), ()
    yield "a copy of a session's shell", says(frames, sandbox="plain", fork=True), ()
    frames.call("session.create", sandbox="plain", session="apart", isolation=True)
    yield "a session with processes of its own", says(frames, sandbox="plain", session="apart"), ()
    frames.call("file.write", sandbox="plain", path="/workspace/there", content="x")  # the files' program runs
    yield "a session beside the files' program", says(frames, sandbox="plain"), {"kill by a descriptor's signal"}  # it is of the guest's user: requests to it fail then
    frames.call("sandbox.create", sandbox="connected", network={"allow": ["nowhere.test"]})
    yield "a sandbox with a network", says(frames, sandbox="connected"), {"sockets of others"}  # the egress program listens there


def contexts(frames):
    frames.call("context.create", sandbox="c", context="plain")
    yield "a context", cell(frames, "c", "plain"), ()
    frames.call("context.create", sandbox="c", context="a", forkable=True)
    yield "a forkable context", cell(frames, "c", "a"), OF_A_TEMPLATE
    frames.call("context.checkpoint", sandbox="c", context="a", checkpoint="k")
    fork = frames.call("context.fork", sandbox="c", context="a", forkable=True)["contexts"][0]["context"]
    yield "a fork that can be forked", cell(frames, "c", fork), OF_A_TEMPLATE
    last = frames.call("context.fork", sandbox="c", context=fork)["contexts"][0]["context"]
    yield "a fork of a fork", cell(frames, "c", last), ()
    frames.call("context.rollback", sandbox="c", context="a", checkpoint="k")
    yield "a context that was rolled back", cell(frames, "c", "a"), OF_A_TEMPLATE


def roots(frames, image):
    frames.call("sandbox.create", sandbox="root", image=image, root=True)
    yield "a sandbox with root", says(frames, sandbox="root"), OF_ROOT
    frames.call("session.create", sandbox="root", session="apart", isolation=True)
    yield "a session of root with processes of its own", says(frames, sandbox="root", session="apart"), OF_ROOT


def scores_of_first_processes(daemon):
    """The scores of those that are PID 1 of a pid namespace. Boxes come and go meanwhile."""
    for pid in descendants(daemon):
        try:
            with open(f"/proc/{pid}/status") as status, open(f"/proc/{pid}/oom_score_adj") as score:
                if "\t1\n" in next(line for line in status if line.startswith("NSpid:")):
                    yield int(score.read())
        except (OSError, StopIteration):
            pass


def check_scores(daemon):
    """For the out-of-memory killer: boxes before the daemon, which all of them need."""
    scores = list(scores_of_first_processes(daemon))
    assert scores and min(scores) == 400, scores


def climb(daemon, frames, *kinds):
    count = 0
    for kind in kinds:
        for name, found, permitted in kind(frames):
            attempts.check(name, found, permitted)
            check_scores(daemon)
            count += 1
            print("+", name)
    return count


def test_boxes_of_root():
    need_root()
    with Daemon("--mount-root", os.getcwd()) as daemon, daemon.frames() as frames:
        equal(climb(daemon.process.pid, frames, runs, mounted, sandboxes, contexts), 14)


def test_boxes_of_an_image():
    """Trees of a store, which root owns as the host's own files."""
    need_root()
    store, (one,) = make_store(1)
    with Daemon("--images", store, "--image", one, "--mount-root", os.getcwd()) as daemon, daemon.frames() as frames:
        equal(climb(daemon.process.pid, frames, runs, mounted, sandboxes, contexts), 14)


def test_boxes_with_root():
    need_writable_roots()
    store, (one,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        equal(climb(daemon.process.pid, frames, lambda frames: roots(frames, one)), 2)


def test_boxes_of_an_ordinary_user():
    need_ordinary_user()
    with private_of_user() as (process, frames):
        equal(climb(process.pid, frames, runs, sandboxes, contexts), 13)


# Namespaces of its own, no filter, all rights, another process: all effects of the attempts stay
# there, and all attempts succeed.
OPEN_PLACE = """
import ctypes, os, signal, socket, subprocess, sys
libc = ctypes.CDLL(None, use_errno=True)
def check(value):
    if value < 0: raise OSError(ctypes.get_errno(), "the open place")
    return value
check(libc.unshare(0x20000 | 0x4000000 | 0x8000000 | 0x20000000 | 0x40000000))
check(libc.mount(b"none", b"/", None, (1 << 18) | 0x4000, None))
pid = os.fork()
if pid:
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
libc.prctl(1, signal.SIGKILL)
check(libc.sethostname(b"cloche", 6))
check(libc.mount(b"proc", b"/proc", b"proc", 0, None))
check(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", 0, None))
os.mkdir("/tmp/upper"), os.mkdir("/tmp/work")
check(libc.mount(b"overlay", b"/usr", b"overlay", 0, b"lowerdir=/usr,upperdir=/tmp/upper,workdir=/tmp/work"))
check(libc.shmget(0, 4096, 0o1600))
hidden = socket.socket(socket.AF_UNIX)
hidden.bind("\\0hidden")
victim = os.fork()
if victim == 0: signal.pause()
program = os.fork()
if program == 0:
    near, far = socket.socketpair()
    os.set_inheritable(near.fileno(), True)
    os.set_inheritable(os.open("/", os.O_RDONLY), True)
    import resource
    resource.setrlimit(resource.RLIMIT_CORE, (2, 2)), resource.setrlimit(resource.RLIMIT_NPROC, (1000, 1000)), resource.setrlimit(resource.RLIMIT_MEMLOCK, (1 << 20, 1 << 20))
    code = sys.argv[1].replace("VICTIMS, PLACES = []", f"VICTIMS, PLACES = [{victim}]")
    os.execv(sys.executable, [sys.executable, "-c", code])
os._exit(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))
"""
# Attempts that may show nothing there: one flushes everybody's disks; its namespaces have no owner above; the kernel may lack tables, modules and broken memory, and
# root the right to higher limits.
FLUSHES = {"a flush of every disk", "a flush of a file system"}  # of the host, where everything is permitted
NOT_SHOWN = {*FLUSHES, "who owns the namespaces", "tables of packets", "modules and kernels", "memory that is broken", "higher limits"}


def test_they_are_real():
    """The twin."""
    need_root()
    program = attempts.program(set(attempts.ATTEMPTS) - FLUSHES) + "\nimport json\nprint(json.dumps(FOUND))\n"
    done = subprocess.run([sys.executable, "-c", OPEN_PLACE, program], input=b"", capture_output=True)
    assert done.returncode == 0, done
    found = json.loads(done.stdout)
    print("+", json.dumps(found))
    failed = {name: what for name, what in found.items() if any("the attempt failed" in text for text in what)}
    assert not failed, failed
    equal({name for name in attempts.ATTEMPTS if not found.get(name)} - NOT_SHOWN, set())
