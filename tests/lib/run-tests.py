#!/usr/bin/python3
"""Run the tests below tests/integration, tests/hostile, tests/fs, tests/sync, tests/files,
tests/shell, tests/egress, tests/daemon, tests/container, tests/e2b, tests/mcp, tests/ssh, tests/jupyter, tests/machine and
tests/openapi.

    run-tests.py [--build DIR] [--jobs N] [--again N] [--busy K] [--list] [--skip PATTERN]… [pattern…]

A test is a function `test_*` of a Python file there; the path is its name and nothing registers it.
Each runs in its own process, directory and control groups, with a wall-clock bound (a file may say
TIMEOUT = seconds). It passes when it returns, is skipped when it calls cloche.skip(), and fails
otherwise, or if it leaves something behind: a process, a mount, a control group, a file in /tmp
(root's tests have mounts and a /tmp of their own). Failed ones leave repro.sh and their output in
BUILD/test-failures/. CLOCHE_MUST_WORK=1 turns skips into failures. Time limits are
multiplied by CLOCHE_TEST_PATIENCE; without it by a factor that is measured (lib/patience.py). --again N runs each test N
times, and ends with the tests that failed at least once; --busy K runs K busy loops beside the
tests.

Processes: harness ─ starter (imports once, forks) ─ shim (child subreaper, sees every orphan) ─
test (in its control groups)"""
import argparse
import ast
import collections
import concurrent.futures
import contextlib
import ctypes
import fnmatch
import gc
import importlib.util
import json
import os
import re
import select
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback

import again
import busy
import patience
import runtimes
import scratch_disk
from scratch_disk import MS_BIND, MS_REC, mount, own_namespace

LIB = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(LIB)
SOURCE = os.path.dirname(TESTS)
FOLDERS = ["egress", "container", "e2b", "mcp", "ssh", "jupyter", "openapi", "daemon", "integration", "hostile", "fs", "sync", "files", "image", "shell"]  # the ones that wait longest first
NAMED_FOLDERS = ["machine"]  # run only if named: they change the machine
SKIPPED = 77
DEFAULT_TIMEOUT = 60
GROUP_MEMORY = 6 << 30       # a bomb that escapes its box must not take the machine down
GROUP_PIDS = 4000
V1_CONTROLLERS = ["memory", "pids", "freezer", "cpuacct"]
CALLERS = "cloche-callers"   # the group of processes beneath a delegated version 2 group (src/jail/cgroup/home.h)
PATIENCE = patience.measure()
GRACE = 3.0 * PATIENCE       # seconds in which a test's leftovers may still end on their own


# ---- control groups -------------------------------------------------------------------------------------------

def cgroup_parents():
    """Directories in which this process may make groups: one for each v1 hierarchy, one for v2 if
    it has controllers."""
    own = {}
    for line in open("/proc/self/cgroup"):
        _, names, path = line.rstrip("\n").split(":", 2)
        for name in names.split(","):
            own[name] = path
    parents = []
    for line in open("/proc/mounts"):
        _, where, kind, options = line.split()[:4]
        if kind == "cgroup":
            name = next((c for c in V1_CONTROLLERS if c in options.split(",")), None)
            if name and name in own:
                parents.append(where + own[name])
        elif kind == "cgroup2" and "" in own and has_controllers(where):
            parents.append(open_home(where + own[""].removesuffix("/" + CALLERS)))
    return sorted({os.path.normpath(p) for p in parents if os.access(p, os.W_OK)})


def has_controllers(group):
    with open(group + "/cgroup.controllers") as file:
        return {"memory", "pids"} <= set(file.read().split())


def is_delegated(group):
    try:
        return os.getxattr(group, "user.delegate") == b"1"
    except OSError:
        return False


def open_home(group):
    """A version 2 group whose processes are moved so that it can have controllers, like src/jail/cgroup/home.c does."""
    os.makedirs(f"{group}/{CALLERS}", exist_ok=True)
    for pid in open(group + "/cgroup.procs").read().split():
        write_quietly(f"{group}/{CALLERS}/cgroup.procs", pid)
    for controller in open(group + "/cgroup.controllers").read().split():
        write_quietly(group + "/cgroup.subtree_control", "+" + controller)
    return group


def enter_delegated_group():
    """On a host with version 2 groups and systemd: restart in a scope that is delegated to the tests."""
    own = next((line.rstrip("\n").split("::")[1] for line in open("/proc/self/cgroup") if line.startswith("0::")), None)
    where = next((line.split()[1] for line in open("/proc/mounts") if line.split()[2] == "cgroup2"), None)
    if own is None or where is None or not has_controllers(where) or is_delegated(where + own.removesuffix("/" + CALLERS)):
        return
    if os.geteuid() == 0 and os.path.isdir("/run/systemd/system"):
        os.execvp("systemd-run", ["systemd-run", "--quiet", "--scope", "--property=Delegate=yes", sys.executable, *sys.argv])


def write_quietly(path, text):
    try:
        with open(path, "w") as file:
            file.write(text)
        return True
    except OSError:
        return False


def groups_make(parents, name):
    made = []
    for parent in parents:
        group = f"{parent}/{name}"
        try:
            os.mkdir(group)
        except OSError:
            continue
        made.append(group)
        write_quietly(group + "/memory.limit_in_bytes", str(GROUP_MEMORY))
        write_quietly(group + "/memory.max", str(GROUP_MEMORY))
        write_quietly(group + "/pids.max", str(GROUP_PIDS))
        if os.path.exists(group + "/cgroup.subtree_control"):
            os.setxattr(group, "user.delegate", b"1")  # systemd marks delegated groups like this
    return made


def group_children(group):
    """The names of the groups in a group. Most have none, which the number of links shows without a listing."""
    try:
        if os.stat(group).st_nlink == 2:
            return []
        with os.scandir(group) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # removed meanwhile


def group_tree(group):
    """The paths of a group and of all below it, parents first."""
    yield group
    for name in group_children(group):
        yield from group_tree(f"{group}/{name}")


def groups_members(groups):
    pids = set()
    for group in groups:
        for directory in group_tree(group):
            try:
                pids.update(int(p) for p in open(directory + "/cgroup.procs").read().split())
            except (OSError, ValueError):
                pass
    return {p for p in pids if p > 0 and not is_zombie(p)}


def groups_subdirectories(groups):
    return [d for group in groups for d in group_tree(group) if d != group and os.path.basename(d) != CALLERS]


def groups_processor(groups):
    """Processor seconds of all members, if a group counts them."""
    for group in groups:
        for name, pattern, unit in (("cpuacct.usage", r"(\d+)", 1e-9), ("cpu.stat", r"usage_usec (\d+)", 1e-6)):
            try:
                with open(f"{group}/{name}") as file:
                    return int(re.search(pattern, file.read())[1]) * unit
            except OSError:
                pass
    return None


def groups_remove(groups):
    """Kill and remove the group. True if nothing is left."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        for group in groups:
            for directory in group_tree(group):
                write_quietly(directory + "/freezer.state", "THAWED")
        for pid in groups_members(groups):
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        for group in groups:
            for directory in reversed(list(group_tree(group))):
                try:
                    os.rmdir(directory)
                except OSError:
                    pass
        if not any(os.path.isdir(g) for g in groups):
            return True
        time.sleep(0.02)
    return False


def is_zombie(pid):
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0] in "ZX"
    except (OSError, IndexError):
        return True


# ---- leftovers of a test -------------------------------------------------------------------------------------

TEST_GROUP = re.compile(r"test-\d+-\d+$")


def host_groups():
    """Groups of Cloche on the host, with names that are never reused, and True if the owner has ended."""
    groups, directories = {}, ["/sys/fs/cgroup"]
    while directories:
        directory = directories.pop()
        for name in group_children(directory):
            if TEST_GROUP.match(name):
                continue  # one of a test's, which checks it itself
            path = f"{directory}/{name}"
            directories.append(path)
            if not name.startswith("cloche") or name == CALLERS:
                continue
            # Groups of an engine without boxes belong to its keeper: another test's daemon.
            is_owned = os.path.isdir("/proc/" + name.rpartition("-")[2]) or groups_members([path])
            with contextlib.suppress(FileNotFoundError):
                groups[f"control group {path}", os.stat(path).st_ino] = not is_owned
    return groups


def host_state():
    """Resources on the host that a test may see at its start: groups, and, if tests have no mounts
    and no /tmp of their own, those."""
    return set(host_groups()) | host_things()


def host_things():
    return {f"file {path}" for path in temporary_files("/tmp")} | set(mounts_now().values()) if os.geteuid() else set()


def host_leaks(before):
    """New resources without an owner. A group that was there before does not count: pids are
    reused, so that one without an owner gets one for a while."""
    return {key[0] for key, is_left in host_groups().items() if is_left and key not in before} | (host_things() - before)


def mounts_now():
    """By their number in the kernel: the path of one changes when another user renames a directory above it."""
    with open("/proc/self/mountinfo") as file:
        lines = [line.split() for line in file]
    return {fields[0]: "mount " + " ".join((fields[4], *fields[fields.index("-") + 1:][:2])) for fields in lines}


def temporary_files(directory):
    return {f"{directory}/{name}" for name in os.listdir(directory) if "cloche" in name}


def settled_leaks(before, groups, temporary):
    """New resources that do not disappear within the grace period. Groups elsewhere may be those of
    a test that ran beside this one: then both are blamed."""
    deadline = time.monotonic() + GRACE
    while True:
        is_late = time.monotonic() > deadline
        leaks = {f"process {p}: {command_line(p)}" for p in groups_members(groups)}
        leaks |= {f"control group {d}" for d in groups_subdirectories(groups)}
        leaks |= {f"file {path} (its /tmp)" for path in temporary_files(temporary)}
        if not leaks or is_late:  # the search of the host costs more
            leaks |= host_leaks(before)
        if not leaks or is_late:
            return sorted(leaks)
        time.sleep(0.05)


# ---- a test's own view of the host ----------------------------------------------------------------------------

def own_mounts(temporary, visible):
    """Root only. Make this process's mounts private, so that others are not taken for a test's;
    /tmp becomes `temporary`, in which the paths `visible` are preserved."""
    own_namespace()
    kept = [(path, os.open(path, os.O_PATH | os.O_CLOEXEC)) for path in visible if path.startswith("/tmp/")]
    mount(temporary, "/tmp", MS_BIND)
    for path, descriptor in kept:
        os.makedirs(path, exist_ok=True)
        mount(f"/proc/self/fd/{descriptor}", path, MS_BIND | MS_REC)
        os.close(descriptor)


def mounts_left(before):
    deadline = time.monotonic() + GRACE
    while True:
        left = [text for number, text in mounts_now().items() if number not in before]
        if not left or time.monotonic() > deadline:
            return sorted(left)
        time.sleep(0.02)


def command_line(pid):
    try:
        return open(f"/proc/{pid}/cmdline", "rb").read().replace(b"\0", b" ").decode(errors="replace").strip() or "?"
    except OSError:
        return "?"


# ---- one test -------------------------------------------------------------------------------------------------

def children_of(parent):
    try:
        return [int(p) for p in open(f"/proc/{parent}/task/{parent}/children").read().split()]
    except OSError:
        return []


def reap():
    """Reap all ended children; True if none is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return True
    return False


class Starter:
    """A process that forks a shim for each test on demand. It has one thread, and has imported the
    modules of nearly every test: an interpreter for each test would cost more than many of the
    tests, and so would reading spec/*.def, which the module `answers` does."""
    IMPORTED = ("answers", "cloche", "errno", "fcntl", "grp", "hashlib", "mmap", "pathlib", "pickle", "pty", "pwd", "queue", "random", "socketserver",
                "ssl", "stat", "subprocess", "tarfile", "tempfile", "textwrap", "urllib.parse", "zipfile")

    def __init__(self, build):
        self.build = build
        self.lock = threading.Lock()
        self.socket, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self.socket.close()
            self.serve(far)
        far.close()

    def serve(self, asked):
        """Never returns: exits with the harness."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        sys.path.insert(0, LIB)
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.path.join(self.build, "test-modules")
        os.environ.update(CLOCHE_BUILD=self.build, CLOCHE_SOURCE=SOURCE)
        for name in self.IMPORTED:
            __import__(name)
        gc.freeze()  # a collection in a child would copy the pages of all these modules
        while True:
            message, descriptors, _, _ = socket.recv_fds(asked, 65536, 2)
            if not message:
                os._exit(0)
            pid = os.fork()
            if pid == 0:
                self.become_shim(json.loads(message), *descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            reap()

    @staticmethod
    def become_shim(test, log, report):
        """Never returns."""
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)  # a shell that starts the suite in the background has it ignored
        for source, place in ((os.open(os.devnull, os.O_RDONLY), 0), (log, 1), (log, 2), (report, 3)):
            os.dup2(source, place, inheritable=place < 3)
        os.closerange(4, max(map(int, os.listdir("/proc/self/fd"))) + 1)
        if os.geteuid() == 0:
            own_mounts(test["temporary"], test["visible"])
        os.chdir(test["directory"])
        os.environ.update(test["environment"])
        try:
            shim(test["path"], test["function"], test["bound"], 3)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)

    def start(self, test, directory, environment, log):
        """The shim's pid and its future report: a file that ends with it."""
        near, far = os.pipe()
        message = {"path": test.path, "function": test.function, "bound": test.bound, "directory": directory, "environment": environment,
                   "temporary": temporary_of(directory), "visible": [SOURCE, self.build]}
        with self.lock:
            socket.send_fds(self.socket, [json.dumps(message).encode()], [log, far])
        os.close(far)
        return os.fdopen(near, "rb")

    def end(self):
        self.socket.close()
        os.waitpid(self.pid, 0)


def shim(path, function, bound, report):
    """In its own process: fork the test, wait for it, list the orphans it left. Reports its pid, then JSON."""
    PR_SET_CHILD_SUBREAPER = 36
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.write(report, f"{os.getpid()}\n".encode())
    before = mounts_now()
    groups = [g for g in os.environ.get("CLOCHE_TEST_GROUPS", "").split(":") if g]
    child = os.fork()
    if child == 0:
        os.setsid()
        os.close(report)
        for group in groups:
            write_quietly(group + "/cgroup.procs", str(os.getpid()))
        run_function(path, function)
    status, late = wait_bounded(child, bound)
    left = orphans_left() + mounts_left(before)
    os.write(report, json.dumps({"status": status, "late": late, "left": left}).encode())


def wait_bounded(child, bound):
    """Exit status of the child, or None after the timeout; other inherited children are reaped meanwhile."""
    pidfd = os.pidfd_open(child)
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    if not poll.poll(bound * 1000):
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return None, True
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), False


def orphans_left():
    deadline = time.monotonic() + GRACE
    while True:
        if reap():
            return []
        left = children_of(os.getpid())
        if time.monotonic() > deadline:
            names = [f"process {p}: {command_line(p)}" for p in left]
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            return names
        time.sleep(0.02)


def run_function(path, function):
    """Never returns: the process exits with the test's result."""
    code = 1
    try:
        spec = importlib.util.spec_from_file_location("test", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        getattr(module, function)()
        code = 0
    except SystemExit as e:
        code = e.code if isinstance(e.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def remove_tree(directory):
    """The tree of a test that failed may be deeper than Python's stack."""
    try:
        shutil.rmtree(directory, ignore_errors=True)
    except RecursionError:
        subprocess.run(["rm", "-rf", "--", directory], check=False)


def temporary_of(directory):
    """/tmp of the test that runs in the directory."""
    return directory + ".tmp"


class Test:
    def __init__(self, path, function, bound):
        self.path, self.function, self.bound = path, function, bound * PATIENCE
        self.name = f"{os.path.relpath(path, TESTS)}::{function}"


class Runner:
    def __init__(self, build, jobs):
        self.build, self.jobs = build, jobs
        self.failures = os.path.join(build, "test-failures")
        self.scratch = os.path.join(build, "test-scratch", str(os.getpid()))
        self.parents = cgroup_parents()
        self.starter = Starter(build)
        self.lock = threading.Lock()
        self.count = {"passed": 0, "failed": 0, "skipped": 0}
        self.failed = collections.Counter()  # by the test's name
        self.number = 0

    def run(self, test):
        with self.lock:
            self.number += 1
            number = self.number
        directory = f"{self.scratch}/{number}"
        os.makedirs(directory)
        # Tests of ordinary users drop their uid in this directory.
        os.chmod(directory, 0o755)
        os.mkdir(temporary_of(directory))
        os.chmod(temporary_of(directory), 0o1777)
        groups = groups_make(self.parents, f"test-{os.getpid()}-{number}")
        before = host_state()
        started = time.monotonic()
        report, log = self.shim(test, directory, groups)
        duration = time.monotonic() - started
        problems = report["left"]
        problems = problems + [x for x in settled_leaks(before, groups, temporary_of(directory)) if x not in problems]
        processor = groups_processor(groups)
        if not groups_remove(groups):
            problems.append("control groups of the test cannot be removed")
        self.verdict(test, report, problems, duration, processor, log)
        remove_tree(directory)
        remove_tree(temporary_of(directory))

    def shim(self, test, directory, groups):
        """The report of the test's shim, and its output."""
        environment = {"TMPDIR": directory, "XDG_CACHE_HOME": os.path.join(directory, "cache"), "XDG_STATE_HOME": os.path.join(directory, "state"),
                       "CLOCHE_TEST_GROUPS": ":".join(groups), "CLOCHE_RUNTIMES": self.runtimes}
        # A new file in a directory of which thousands were removed costs ext4 without a journal 30 ms: it looks at each.
        with open(os.memfd_create("log"), "w+", errors="replace") as log:
            with self.starter.start(test, directory, environment, log.fileno()) as report:
                said, is_late = self.read_to_end(report, test.bound + GRACE + 10)
            log.seek(0)
            output = log.read()
        try:
            return json.loads(said.partition(b"\n")[2]), output
        except ValueError:
            return {"status": None, "late": is_late, "left": []}, output

    @staticmethod
    def read_to_end(report, bound):
        """The shim's report, and True if it had to be killed."""
        said, is_late, deadline = b"", False, time.monotonic() + bound
        while True:
            ready, _, _ = select.select([report], [], [], max(0, deadline - time.monotonic()))
            if not ready:
                is_late, deadline = True, time.monotonic() + GRACE
                os.kill(int(said.partition(b"\n")[0]), signal.SIGKILL)
                continue
            piece = os.read(report.fileno(), 65536)
            if not piece:
                return said, is_late
            said += piece

    def verdict(self, test, report, leaks, duration, processor, log):
        status = report["status"]
        times = f"({duration:.2f} s" + ("" if processor is None else f", {processor:.2f} s of processor") + ")"
        must_work = os.environ.get("CLOCHE_MUST_WORK") == "1"
        reason = None
        if report["late"]:
            reason = f"still running after {test.bound} s"
        elif status == SKIPPED and not leaks:
            why = log.strip().splitlines()[-1] if log.strip() else "no reason"
            if must_work:
                reason = f"skipped although CLOCHE_MUST_WORK=1: {why}"
            else:
                return self.say("skipped", f"ok {test.name} {times} # SKIP {why}")
        elif status != 0:
            reason = f"killed by signal {-status}" if (status or 0) < 0 else "assertion or exception"
        if leaks:
            reason = (reason + "; " if reason else "") + "left behind:\n" + "\n".join("  " + x for x in leaks)
        if reason is None:
            return self.say("passed", f"ok {test.name} {times}")
        self.keep(test, log, reason)
        text = "".join(f"    {line}\n" for line in (reason + "\n" + log).rstrip().splitlines()[-60:])
        self.say("failed", f"not ok {test.name} {times}\n{text.rstrip()}")

    def say(self, kind, line):
        with self.lock:
            self.count[kind] += 1
            print(line, flush=True)

    def keep(self, test, log, reason):
        """Leave the means to repeat it: the command, the log, the cloche commands of the test."""
        with self.lock:
            self.failed[test.name] += 1
            number = self.failed[test.name]
        directory = os.path.join(self.failures, test.name.replace("/", ".").replace("::", ".") + (f".{number}" if number > 1 else ""))
        os.makedirs(directory)
        with open(directory + "/log", "w") as file:
            file.write(f"{reason}\n\n{log}")
        commands = [line[2:] for line in log.splitlines() if line.startswith("+ ")]
        with open(directory + "/repro.sh", "w") as file:
            file.write("#!/bin/sh\n# The whole test:\n")
            file.write(f"cd {shlex.quote(SOURCE)} && exec /usr/bin/python3 tests/lib/run-tests.py --build "
                       f"{shlex.quote(self.build)} {shlex.quote(test.name)}\n")
            file.write("# What it ran:\n" + "".join(f"# {c}\n" for c in commands))
        os.chmod(directory + "/repro.sh", 0o755)

    def all(self, tests, times):
        shutil.rmtree(self.failures, ignore_errors=True)
        os.makedirs(self.scratch, exist_ok=True)
        try:
            self.runtimes = runtimes.make_bare(self.build, f"{self.scratch}/runtimes")
            with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
                try:
                    for future in [pool.submit(self.run, t) for _ in range(times) for t in tests]:
                        future.result()
                except BaseException:  # Ctrl-C: finish running tests, start nothing more
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise
        finally:
            self.starter.end()
            remove_tree(self.scratch)
            try:
                os.rmdir(os.path.dirname(self.scratch))
            except OSError:
                pass
        print("".join(f"{line}\n" for line in again.share_lines(self.failed, times)), end="")
        passed, failed, skipped = (self.count[k] for k in ("passed", "failed", "skipped"))
        print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
        return 1 if failed or not tests else 0


# ---- selection of tests ---------------------------------------------------------------------------------------

def find_files(folders):
    for folder in folders:
        for directory, _, files in os.walk(os.path.join(TESTS, folder)):
            for name in sorted(files):
                if name.endswith(".py") and not name.startswith("_"):
                    yield os.path.join(directory, name)


def find_tests(patterns):
    named = [f for f in NAMED_FOLDERS if any(p.removeprefix("tests/").startswith(f + "/") for p in patterns)]
    tests = [test for path in find_files(FOLDERS + named) for test in tests_of(path)]
    return [t for t in tests if not patterns or any(matches(t.name, p) for p in patterns)]


def tests_of(path):
    """Parsed, not imported: listing tests runs none of their code."""
    with open(path) as file:
        body = ast.parse(file.read(), path).body
    bound = DEFAULT_TIMEOUT
    for node in body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "TIMEOUT":
            bound = ast.literal_eval(node.value)
    return [Test(path, n.name, bound) for n in body if isinstance(n, ast.FunctionDef) and n.name.startswith("test_")]


def matches(name, pattern):
    pattern = pattern.removeprefix("tests/")
    return pattern in name or fnmatch.fnmatch(name, pattern)


def main():
    parser = argparse.ArgumentParser(description="Run Cloche's integration and hostile tests.")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"), help="build directory (default: build)")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", type=int, default=1, metavar="N", help="run each test N times")
    parser.add_argument("--busy", type=int, default=0, metavar="K", help="have K busy loops beside the tests")
    parser.add_argument("--list", action="store_true", help="print the names and stop")
    parser.add_argument("--list-files", action="store_true", help="print the names of the files, without .py, and stop")
    parser.add_argument("--skip", action="append", default=[], metavar="PATTERN", help="leave these out; may be repeated")
    parser.add_argument("patterns", nargs="*", help="substring or glob of a test's name")
    options = parser.parse_args()
    if options.list_files:
        print("\n".join(os.path.relpath(path, TESTS).removesuffix(".py") for path in find_files(FOLDERS)))
        return 0
    tests = [test for test in find_tests(options.patterns) if not any(matches(test.name, pattern) for pattern in options.skip)]
    if options.list:
        print("\n".join(t.name for t in tests))
        return 0
    enter_delegated_group()
    build = os.path.abspath(options.build)
    if not os.access(os.path.join(build, "cloche"), os.X_OK):
        print(f"run-tests.py: {build}/cloche is not built", file=sys.stderr)
        return 2
    # A terminated harness still unwinds: groups killed, directories removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    scratch_disk.enter(build, os.path.join(build, "test-scratch"))
    with busy.loops(options.busy):
        return Runner(build, options.jobs).all(tests, options.again)


if __name__ == "__main__":
    sys.exit(main())
