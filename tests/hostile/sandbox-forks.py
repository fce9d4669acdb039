#!/usr/bin/python3
"""A fork of a sandbox reaches neither its original nor another fork; its own processes and files it does."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "lib"))
from cloche import equal
from rpc import Daemon

GUARD = "import os\nif not os.uname().nodename.startswith('cloche') or os.getuid() != 1000: raise SystemExit('not in a box')\n"
# It ends all processes that it may signal, itself spared, and says whom it saw before.
KILL = GUARD + """import signal
child = os.fork()
if child == 0:
    signal.pause()
others = sorted({int(name) for name in os.listdir('/proc') if name.isdigit()} - {1, os.getpid()})
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    pass
print(others == [child], os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
REACH = GUARD + """found = []
for top in ('/proc/1/root', '/proc/1/cwd', '/proc/self/root', '/'):
    for folder, folders, files in os.walk(top + '/workspace'):
        found += files
print(sorted(set(found)), os.getppid())
try:
    os.setns(os.open('/proc/1/ns/mnt', os.O_RDONLY), 0)
except (OSError, AttributeError) as error:
    print(type(error).__name__)
"""


def run(frames, name, code):
    return frames.call("context.run", sandbox=name, context="c", code=code)


def test_a_fork_reaches_nobody():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
        equal(run(frames, "a", "x = 1; open('/workspace/before', 'w').close()")["status"], "ok")
        frames.call("sandbox.fork", sandbox="a", names=["b", "other"])
        for name in ("a", "other"):
            run(frames, name, f"open('/workspace/of-{name}', 'w').close()")
        said = run(frames, "b", REACH)["stdout"].splitlines()
        equal(said[0].split("]")[0] + "]", "['before']")
        equal(run(frames, "b", KILL)["stdout"], "True -9\n")
        for name in ("a", "other"):
            equal(run(frames, name, "print(x)")["stdout"], "1\n", name)
        equal(frames.call("exec", sandbox="b", command="ls")["stdout"], "before\n")
        frames.call("sandbox.delete", sandbox="b")
        for name in ("a", "other"):
            equal(run(frames, name, "print(x)")["stdout"], "1\n", "the end of a fork is that of nobody else")
