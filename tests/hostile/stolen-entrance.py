"""A template holds the entrance to a box's control groups for the time of a fork. Set-up code that
keeps it can send processes of its own in, and keep the groups from being removed: that must not
lead into any other group, nor block another request."""
import glob
import os

from cloche import SOURCE, need_root, wait_for

import sys
sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import Daemon  # noqa: E402

MARK = "987654"  # how long a victim's command sleeps: by that it is found among the host's processes
STEAL = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
held = []
def entrances():
    for name in os.listdir('/proc/self/fd'):
        try: target = os.readlink('/proc/self/fd/' + name)
        except OSError: continue
        if target.endswith(('/tasks', '/cgroup.procs')): yield int(name)
def namespaces():
    for name in os.listdir('/proc/self/fd'):
        try: target = os.readlink('/proc/self/fd/' + name)
        except OSError: continue
        if target.startswith('pid:'): yield int(name), target
def enter_for_ever():
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        child = libc.syscall(57)
        if child == 0:
            for fd in held:
                try: os.write(fd, b'0')
                except OSError: pass
            while True: time.sleep(1000)
        if child < 0: time.sleep(0.01)
        else: os.waitpid(child, 0)
def steal():
    if held: return
    own = os.readlink('/proc/self/ns/pid')
    held.extend(os.dup(fd) for fd in entrances())
    all_namespaces = list(namespaces())
    mine = [fd for fd, target in all_namespaces if target == own]
    other = [fd for fd, target in all_namespaces if target != own]
    if not (held and mine and other): return
    libc.setns(mine[0], 0x20000000)
    if libc.syscall(57) == 0: enter_for_ever()
    libc.setns(other[0], 0x20000000)
os.register_at_fork(before=steal)
"""


def processes(group):
    """A box that is gone by now has none."""
    try:
        with open(f"{group}/cgroup.procs") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:
        return []


def read(pid, name):
    try:
        with open(f"/proc/{pid}/{name}") as file:
            return file.read()
    except OSError:
        return ""


def users_beside_victims(keeper):
    """For each group with a victim's command in it: the host users of all processes there."""
    found = {}
    for group in glob.glob(f"/sys/fs/cgroup/**/cloche-{keeper}/box*", recursive=True):
        pids = processes(group)
        if any(MARK in read(pid, "cmdline") for pid in pids):
            users = {line.split()[1] for pid in pids for line in read(pid, "status").splitlines() if line.startswith("Uid:")}
            found[group] = users
    return found


def test_a_stolen_entrance_leads_into_nobody_elses_group():
    need_root()
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        prefix = evil.call("prefix.create", language="python", code=STEAL)["prefix"]
        stolen = evil.call("call", prefix=prefix, code="return len(held)")
        assert stolen["result"] > 0, f"nothing could be stolen; the attack must be written anew: {stolen}"
        for i in range(6):  # a box that was written to is dropped, and its number is given out again
            assert evil.call("call", prefix=prefix, code="open('/tmp/x', 'w').write('x'); return 1")["result"] == 1
        for i in range(4):
            victim.call("exec", sandbox=f"v{i}", command=f"sleep {MARK} & true")
            assert victim.call("exec", sandbox=f"v{i}", command="echo served")["stdout"] == "served\n"
        keeper = next(int(pid) for pid in os.listdir("/proc") if pid.isdigit() and read(pid, "comm") == "cloche-keeper\n" and
                      f"PPid:\t{daemon.engine_pid()}\n" in read(pid, "status"))
        wait_for(lambda: len(users_beside_victims(keeper)) >= 4, "the victims' commands")
        for group, users in users_beside_victims(keeper).items():
            assert len(users) == 1, f"{group} has processes of {users}"
        evil.call("prefix.dispose", prefix=prefix)
        for i in range(4):
            victim.call("sandbox.delete", sandbox=f"v{i}")
