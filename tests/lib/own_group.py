"""The control groups of a test itself, as made by tests/lib/run-tests.py: limits for all its
processes, in either version."""
import contextlib
import os

from cloche import skip

FILES = {"memory": (("memory.limit_in_bytes", "memory.usage_in_bytes"), ("memory.max", "memory.current")), "pids": (("pids.max", "pids.current"),)}


def files_of(resource):
    for group in os.environ.get("CLOCHE_TEST_GROUPS", "").split(":"):
        for limit, usage in FILES[resource]:
            if os.path.exists(f"{group}/{usage}"):
                return f"{group}/{limit}", f"{group}/{usage}"
    return skip(f"no control group of the test's own counts {resource}")


def used(resource):
    with open(files_of(resource)[1]) as file:
        return int(file.read())


def write(path, text):
    with open(path, "w") as file:
        file.write(text)


@contextlib.contextmanager
def outside(group):
    """The test's own process is in the group above meanwhile: when the kernel kills for memory, it is not among the candidates. In
    version 2 no process can be there; then it stays."""
    try:
        write(f"{os.path.dirname(group)}/cgroup.procs", str(os.getpid()))
    except OSError:
        yield
        return
    try:
        yield
    finally:
        write(f"{group}/cgroup.procs", str(os.getpid()))


@contextlib.contextmanager
def bounded(resource, room):
    """Limits the processes that the test has started to this much more than all use now."""
    path = files_of(resource)[0]
    with open(path) as file:
        before = file.read()
    with outside(os.path.dirname(path)):
        write(path, str(used(resource) + room))
        try:
            yield
        finally:
            write(path, before)
