"""The vocabulary of the tests: call(), run(), guest(), and a few assertions. Standard library only.

Every cloche command is printed as a shell line beginning with "+ ", so that a failed test's log can be replayed.
"""
import json
import os
import re
import shlex
import subprocess
import sys
import textwrap
import time

from patience import PATIENCE

BUILD = os.environ["CLOCHE_BUILD"]
SOURCE = os.environ["CLOCHE_SOURCE"]
CLI = os.path.join(BUILD, "cloche")
SHIPPED = {"CLOCHE_RUNTIMES": os.path.join(BUILD, "runtimes")}  # for tests of templates as users have them (runtimes.py has the others)
HANG = 50 * PATIENCE  # seconds; the time limit of a cloche command in tests

F_ADD = "def add(a, b): return a + b"
EXIT_CODES = {"success": 0, "error": 1, "crash": 1, "timeout": 124, "terminated": 143}


def spec_rows(macro):
    """Return the rows of a table of spec/*.def, dicts by column."""
    import answers
    return answers.ROWS[macro]


class Result:
    """The result object of the contract, its values converted back from tagged JSON (spec/values.md)."""

    def __init__(self, raw, finished):
        self.raw = raw
        self.status = raw["status"]
        self.value = untag(raw.get("result"))
        self.error = raw.get("error") or {}
        self.stdout, self.stderr = untag(raw["stdout"]), untag(raw["stderr"])
        self.exit_code = raw["exitCode"]
        self.files, self.meta = raw.get("files"), raw["meta"]
        self.usage, self.limits_hit = raw["meta"].get("usage") or {}, raw["meta"].get("limitsHit") or []
        self.cli = finished

    def __repr__(self):
        return json.dumps(self.raw)[:3000]

    def paths(self, kind):
        return sorted(change["path"] for change in self.files[kind])


class Finished:
    """The end of a process. stdout and stderr are bytes."""

    def __init__(self, code, stdout, stderr):
        self.code, self.stdout, self.stderr = code, stdout, stderr

    def __repr__(self):
        return f"exit {self.code}, stdout {self.stdout[:500]!r}, stderr {self.stderr[:1500]!r}"


def untag(value):
    """Decodes the tags that the tests use; anything else stays unchanged."""
    import base64
    if isinstance(value, list):
        return [untag(v) for v in value]
    if not isinstance(value, dict):
        return value
    kind = value.get("$")
    if kind is None:
        return {k: untag(v) for k, v in value.items()}
    if kind == "bytes":
        return base64.b64decode(value["b64"])
    if kind == "bigint":
        return int(value["v"])
    if kind == "undefined":
        return None
    return value


def sampled(part, whole):
    """A count or size: the part in an ordinary run of the tests, the whole with CLOCHE_TEST_ALL=1."""
    return whole if os.environ.get("CLOCHE_TEST_ALL") == "1" else part


def keep_builds():
    """For tests of programs, not of how they are compiled: what calls compile from now on is kept in a directory of the
    user's, for all tests and later runs of them, one for each version of the agent's sources."""
    import glob
    import npm_cache
    version = npm_cache.version_of(sorted(glob.glob(f"{SOURCE}/runtimes/c/*")))
    with npm_cache.made_once("test-builds-" + version) as (place, _):
        os.environ["XDG_CACHE_HOME"] = place


# ---- running the CLI ------------------------------------------------------------------------------------------

def argv_options(options):
    """{"timeout": 1, "file": ["a=b"]} -> ["--timeout", "1", "--file", "a=b"]"""
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
        for one in value if isinstance(value, list) else [value]:
            words += [option] if one is True else [option, str(one)]
    return words


def cli(*words, stdin=b"", bound=HANG, env=None, under=()):
    """Run cloche until it exits, for any reason; under: a command that starts it."""
    command = [*under, CLI, *map(str, words)]
    print("+ " + shlex.join(command), flush=True)
    finished = subprocess.run(command, input=stdin, capture_output=True, timeout=bound,
                              env=None if env is None else {**os.environ, **env})
    return Finished(finished.returncode, finished.stdout, finished.stderr)


def start(*words, **popen):
    """Start cloche in its own session and return the Popen. The harness kills leftovers of a test, and reports them."""
    command = [CLI, *map(str, words)]
    print("+ " + shlex.join(command), "&", flush=True)
    popen.setdefault("stdin", subprocess.DEVNULL)
    popen.setdefault("stdout", subprocess.PIPE)
    popen.setdefault("stderr", subprocess.PIPE)
    return subprocess.Popen(command, start_new_session=True, **popen)


def call_words(language, code, function=None, args=None, kwargs=None, schema=None, **options):
    words = ["call", language] + ([function] if function else []) + ["-c", textwrap.dedent(code), "--json"]
    for name, value in [("--args", args), ("--kwargs", kwargs), ("--schema", schema)]:
        if value is not None:
            words += [name, json.dumps(value)]
    return words + argv_options(options)


def parse_result(finished):
    """The JSON on stdout; the process' exit code always follows from the status."""
    try:
        result = Result(json.loads(finished.stdout), finished)
    except (ValueError, KeyError) as e:
        raise AssertionError(f"no result object ({e!r}): {finished}") from None
    assert finished.code == EXIT_CODES[result.status], (finished.code, result)
    return result


def call(language, code, function=None, *, stdin=b"", env=None, under=(), **options):
    """cloche call … --json -> Result. Options are named as on the command line, with _ for -."""
    words = call_words(language, code, function, **options)
    return parse_result(cli(*words, stdin=stdin, env=env, under=under))


def value_of(language, code, function=None, **options):
    """The value of a call that must succeed."""
    result = call(language, code, function, **options)
    assert result.status == "success", result
    return result.value


def run(language, code, *arguments, stdin=b"", bound=HANG, env=None, **options):
    """cloche run … -> Finished"""
    words = ["run", language, "-c", textwrap.dedent(code)] + argv_options(options)
    return cli(*words, *(["--", *arguments] if arguments else []), stdin=stdin, bound=bound, env=env)


# Attacks must be harmless if they succeed: open for writing but do not write, pass values that the kernel rejects as
# invalid. A box with a hole, or a stand-in for it, then costs a failed test and not the host.
# ---- hostile guests -------------------------------------------------------------------------------------------

GUEST_PRELUDE = '''
import ctypes, errno, mmap, os, resource, signal, stat, struct, subprocess, sys, threading, time
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def syscall(number, *arguments):
    """The call's value when it succeeds, else the name of its errno."""
    ctypes.set_errno(0)
    words = [a if isinstance(a, (bytes, ctypes.Array, ctypes._SimpleCData, ctypes._Pointer)) or a is None
             else ctypes.c_long(a) for a in arguments]
    value = libc.syscall(ctypes.c_long(number), *words)
    return value if value >= 0 else errno.errorcode[ctypes.get_errno()]

def attempt(function, *arguments, **keywords):
    """ "ok", or the name of the errno of the OSError it raised."""
    try:
        function(*arguments, **keywords)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))

def channel():
    """The agent's descriptor, wherever it keeps it: the one socket above 2."""
    for name in os.listdir('/proc/self/fd'):
        if int(name) > 2 and os.path.exists('/proc/self/fd/' + name) and stat.S_ISSOCK(os.fstat(int(name)).st_mode):
            return int(name)

def in_child(function):
    """How a child ends that runs it: ("exit", code) or ("signal", number)."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            os._exit(99)
    status = os.waitpid(pid, 0)[1]
    return ["signal", os.WTERMSIG(status)] if os.WIFSIGNALED(status) else ["exit", os.WEXITSTATUS(status)]
'''


def guest_code(body):
    return GUEST_PRELUDE + "\ndef attack(*args):\n" + textwrap.indent(textwrap.dedent(body), "    ")


def guest(body, **options):
    """Run body in a box as a Python function with the prelude above -> Result, with any status."""
    return call("python", guest_code(body), "attack", **options)


def guest_value(body, **options):
    """The value returned by a body that must succeed."""
    result = guest(body, **options)
    assert result.status == "success", result
    return result.value


# ---- assertions and probes ------------------------------------------------------------------------------------

def equal(actual, expected, context=""):
    assert actual == expected, f"{actual!r} is not {expected!r} {context}"


def one_of(actual, *expected):
    assert actual in expected, f"{actual!r} is none of {expected!r}"


def bad_input(*words, says, stdin=b""):
    """Refused before anything runs: exit 2, nothing on stdout, one line on stderr with the reason."""
    finished = cli(*words, stdin=stdin)
    equal(finished.code, 2, finished)
    equal(finished.stdout, b"")
    lines = finished.stderr.decode().splitlines()
    equal(len(lines), 1, finished)
    assert re.search(says, lines[0], re.I), f"{lines[0]!r} does not say {says!r}"


def limit_hit(result, status, error_type):
    equal(result.status, status, result)
    equal(result.error.get("type"), error_type, result)
    assert result.limits_hit, result


def group_memory(group):
    """The memory of the processes in this control group, or below it, with the kernel's memory for
    them; without the page cache of files."""
    with open(group + "/memory.stat") as file:
        stat = dict(line.split() for line in file)
    is_first = os.path.exists(group + "/memory.usage_in_bytes")  # version 1
    with open(group + ("/memory.usage_in_bytes" if is_first else "/memory.current")) as file:
        used = int(file.read())
    cached, shared = ("total_cache", "total_shmem") if is_first else ("file", "shmem")
    return used - int(stat[cached]) + int(stat[shared])


def memory_used():
    """Memory used by this test and its children, if it has a control group that counts; by the whole host otherwise."""
    for group in os.environ.get("CLOCHE_TEST_GROUPS", "").split(":"):
        if os.path.exists(group + "/memory.stat"):
            return group_memory(group)
    with open("/proc/meminfo") as file:
        sizes = dict(line.split()[:2] for line in file)
    return int(sizes["MemTotal:"]) - int(sizes["MemAvailable:"]) << 10


def disk_used():
    """Places where this test and its children may write on the host: its directory, and /tmp, which
    is its own if root runs it. A file that was removed and is still open has a process, which
    tests/lib/run-tests.py finds."""
    used = 0
    for top in (os.environ["TMPDIR"], *(["/tmp"] if os.geteuid() == 0 else [])):
        for directory, folders, names in os.walk(top):
            folders[:] = [name for name in folders if os.path.join(directory, name) not in (SOURCE, BUILD)]
            for name in names:
                try:
                    used += os.lstat(os.path.join(directory, name)).st_blocks * 512
                except FileNotFoundError:
                    pass
    return used


class HostStaysWell:
    """After an attack a neighbour still runs and the host has its memory and disk back. Only the
    test's own share is measured: others use the host too. The slack is for memory that the test
    keeps; the attacks take far more."""
    SLACK = 512 << 20

    def __enter__(self):
        self.memory, self.disk = memory_used(), disk_used()

    def __exit__(self, kind, *_):
        if kind:
            return
        equal(value_of("python", "def f(): return 6 * 7"), 42, "(a neighbour after the attack)")
        wait_for(lambda: memory_used() < self.memory + self.SLACK, "the host's memory to come back")
        wait_for(lambda: disk_used() < self.disk + self.SLACK, "the host's disk space to come back")


def wait_for(condition, what, bound=20):
    deadline, pause = time.monotonic() + bound * PATIENCE, 0.01
    while not condition():
        assert time.monotonic() < deadline, f"waited {bound} s for {what}"
        time.sleep(pause)
        pause = min(pause * 1.5, 0.2)


def descendants(pid):
    """Every process below pid on the host, pid namespaces or not."""
    found, todo = [], [pid]
    while todo:
        for task in task_children(todo.pop()):
            found.append(task)
            todo.append(task)
    return found


def task_children(pid):
    try:
        return [int(c) for t in os.listdir(f"/proc/{pid}/task")
                for c in open(f"/proc/{pid}/task/{t}/children").read().split()]
    except OSError:
        return []


def process_state(pid):
    """The state letter of proc(5); "" for a process that has ended."""
    try:
        return open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()[0]
    except (OSError, IndexError):
        return ""


def alive(pid):
    return process_state(pid) not in ("", "Z", "X")


def command_line(pid):
    """Its arguments, each followed by NUL; "" for a process that has ended."""
    try:
        with open(f"/proc/{pid}/cmdline", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


def write_file(name, data):
    """A file in the test's own directory -> its absolute path."""
    path = os.path.abspath(name)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())
    return path


def need_root():
    if os.geteuid() != 0:
        skip("needs root")


ORDINARY_USER = ["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"]


def need_ordinary_user():
    """For root: drop to an ordinary user, with a build directory which that user can reach."""
    need_root()
    if subprocess.run([*ORDINARY_USER, "test", "-x", CLI]).returncode:
        skip("the build directory is closed to other users")


def kernel():
    return tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))


def possible_layers():
    """Where the changes of writable roots can lie. User attributes of tmpfs came with Linux 6.6, layers with mapped owners with 5.19."""
    return ["memory"] * (kernel() >= (6, 6)) + ["disk"] * (kernel() >= (5, 19) and os.path.exists("/dev/loop-control"))


def need_writable_roots():
    need_root()
    if not possible_layers():
        skip("writable roots need Linux 6.6, or Linux 5.19 and loop devices")


def layer_places():
    need_writable_roots()
    return possible_layers()


def skip(reason):
    print(reason, flush=True)
    sys.exit(77)
