"""System calls of a daemon's engine between a request and its answer, counted with strace(1)."""
import collections
import os
import re
import subprocess
import tempfile
import time

CALL = re.compile(r"(?:\d+ +)?(\w+)\((\d*)(.*)")
ANSWERS = ("sendto", "sendmsg", "write", "writev")


ATTACH_S = 60
QUIET_S = 0.05


def is_traced(pid):
    with open(f"/proc/{pid}/status") as file:
        return any(line.startswith("TracerPid:") and line.split()[1] != "0" for line in file)


def wait_for_tracer(tracer, pid):
    until = time.monotonic() + ATTACH_S
    while not is_traced(pid):
        assert tracer.poll() is None and time.monotonic() < until, "strace does not attach"
        time.sleep(0.01)


def wait_for_quiet(path):
    """Until the engine has made no call for a moment: the spares of the last run are made."""
    size = -1
    while size != (now := os.path.getsize(path)):
        size = now
        time.sleep(QUIET_S)


def traced(pid, work, times):
    """The lines of strace while work() runs so many times, with a rest before each."""
    with tempfile.NamedTemporaryFile("r", prefix="calls-") as lines:
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-s", "300", "-o", lines.name, "-p", str(pid)], stdin=subprocess.DEVNULL)
        try:
            wait_for_tracer(tracer, pid)
            for _ in range(times):
                wait_for_quiet(lines.name)
                work()
        finally:
            tracer.terminate()  # it detaches
            tracer.wait()
        return lines.read().splitlines()


def between(lines, method):
    """For each request of this method the names of the calls that the engine made, from the first that
    received it to the one that sent the answer. Calls of its threads count too."""
    found, names, connection = [], None, None
    for line in lines:
        call = CALL.match(line)
        if not call:
            continue  # the rest of a call that another thread interrupted, or an exit
        name, descriptor, rest = call.groups()
        if names is None and name == "recvmsg" and f'\\"method\\": \\"{method}\\"' in rest:
            names, connection = [], descriptor
        if names is None:
            continue
        names.append(name)
        if name in ANSWERS and descriptor == connection:
            found.append(names)
            names = None
    return found


def counted(daemon, frames, times, **params):
    """The names of the system calls of each of so many runs."""
    frames.call("call", **params)
    lines = traced(daemon.engine_pid(), lambda: frames.call("call", **params), times)
    runs = between(lines, "call")
    assert len(runs) == times, (len(runs), lines[-20:])
    return runs


def fewest(daemon, frames, times, **params):
    """{name: count} of the run with the fewest system calls. The others had company: a timer, a spare
    that was made, a wake-up more."""
    return collections.Counter(min(counted(daemon, frames, times, **params), key=len))
