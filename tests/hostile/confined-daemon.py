"""The engine of cloched is taken over by its input: the parts of the host that its code can reach,
and the access of others to it. Calls are made within an engine that serves, by a tracer of root's."""
import ctypes
import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import cloche
from cloche import BUILD, ORDINARY_USER, need_ordinary_user, need_root

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
from rpc import DAEMON, HANG, Daemon, Frames

USER = 12345  # of ORDINARY_USER
AT_FDCWD, READ, WRITE = -100, os.O_RDONLY, os.O_WRONLY | os.O_CREAT
OPENAT, MKDIRAT, UNLINKAT, RENAMEAT, LINKAT, SYMLINKAT = 257, 258, 263, 264, 265, 266
AT_SYMLINK_FOLLOW, AT_EMPTY_PATH = 0x400, 0x1000
SOCKET, MMAP, EXECVE, MOUNT, KILL = 41, 9, 59, 165, 62
PROT_READ, PROT_WRITE, PROT_EXEC, PRIVATE_ANONYMOUS = 1, 2, 4, 0x22
PTRACE_ATTACH, PTRACE_DETACH = 16, 17
libc = ctypes.CDLL(None, use_errno=True)


def within(pid, number, *arguments):
    """The call's outcome in that process: its result, an error's name, or "killed" and a signal."""
    words = [f"s:{a}" if isinstance(a, str) else str(a) for a in arguments]
    said = subprocess.run([os.path.join(BUILD, "tests/call-within"), str(pid), str(number), *words], capture_output=True, text=True, timeout=30)
    assert said.returncode == 0, said
    if said.stdout.startswith("killed"):
        return said.stdout.strip()
    result = int(said.stdout)
    return errno.errorcode[-result] if -4096 < result < 0 else result


class OfUser:
    """The daemon of an ordinary user, with files beside it that are his, too."""

    def __init__(self):
        need_ordinary_user()
        rows = json.loads(cloche.cli("selftest", "--json", under=ORDINARY_USER).stdout)
        missing = ",".join(row["name"] for row in (rows["guards"] if isinstance(rows, dict) else rows) if row["state"] != "enforced")
        self.directory = tempfile.mkdtemp(prefix="cloched-")
        os.chown(self.directory, USER, USER)
        self.path, self.log_path = self.directory + "/socket", self.directory + "/log"
        command = [*ORDINARY_USER, DAEMON, "--socket", self.path, "--state-dir", self.directory + "/state", *(["--optional", missing] if missing else [])]
        self.log = open(self.log_path, "wb")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        cloche.wait_for(self.is_ready, "its socket")

    connect, is_ready, frames, engine_pid, lines, log_text, __enter__, __exit__ = (getattr(Daemon, name) for name in (
        "connect", "is_ready", "frames", "engine_pid", "lines", "log_text", "__enter__", "__exit__"))


def engine_of(daemon):
    daemon.frames().close()  # it serves, so it is confined
    return daemon.engine_pid()


def status_of(path):
    return dict(line.rstrip("\n").split(":\t", 1) for line in open(path) if ":\t" in line)


def check_files(daemon, folder):
    """folder: of the daemon's user, so that nothing but Landlock keeps it from there."""
    pid, state = engine_of(daemon), daemon.directory + "/state"
    with open(folder + "/secret", "w") as file:
        file.write("secret")
    for path in (folder, folder + "/secret"):
        os.chown(path, os.stat(state).st_uid, -1)
    for what in ((OPENAT, AT_FDCWD, folder + "/secret", READ), (OPENAT, AT_FDCWD, folder + "/new", WRITE, 0o600), (MKDIRAT, AT_FDCWD, folder + "/new", 0o700),
                 (UNLINKAT, AT_FDCWD, folder + "/secret", 0), (OPENAT, AT_FDCWD, folder, os.O_RDONLY | os.O_DIRECTORY),
                 (OPENAT, AT_FDCWD, "/tmp/confined-daemon", WRITE, 0o600), (OPENAT, AT_FDCWD, "/proc/self/environ", READ),
                 (OPENAT, AT_FDCWD, "/usr/bin/env", READ), (OPENAT, AT_FDCWD, DAEMON, os.O_RDWR), (OPENAT, AT_FDCWD, "/dev/zero", READ)):
        result = within(pid, *what)
        assert result == "EACCES", (what, result)
    assert within(pid, RENAMEAT, AT_FDCWD, folder + "/secret", AT_FDCWD, state + "/stolen") in ("EACCES", "EXDEV")
    assert within(pid, LINKAT, AT_FDCWD, folder + "/secret", AT_FDCWD, state + "/stolen", 0) in ("EACCES", "EXDEV")
    result = within(pid, LINKAT, AT_FDCWD, "/etc/passwd", AT_FDCWD, state + "/stolen", 0)
    assert result in ("EACCES", "EXDEV", "EPERM"), result  # EPERM: sysctl fs.protected_hardlinks
    for flag in (AT_SYMLINK_FOLLOW, AT_EMPTY_PATH):
        assert within(pid, LINKAT, AT_FDCWD, state + "/x", AT_FDCWD, state + "/y", flag) == "ENOSYS", flag
    assert within(pid, SYMLINKAT, folder, AT_FDCWD, state + "/link") == "ENOSYS"
    for what in ((OPENAT, AT_FDCWD, state + "/new", WRITE, 0o600), (MKDIRAT, AT_FDCWD, state + "/folder", 0o700), (UNLINKAT, AT_FDCWD, state + "/new", 0),
                 (OPENAT, AT_FDCWD, state + "/first", WRITE, 0o600), (LINKAT, AT_FDCWD, state + "/first", AT_FDCWD, state + "/folder/second", 0),
                 (UNLINKAT, AT_FDCWD, state + "/folder/second", 0), (OPENAT, AT_FDCWD, "/dev/null", os.O_RDWR), (OPENAT, AT_FDCWD, "/etc/passwd", READ)):  # the twins
        result = within(pid, *what)
        assert isinstance(result, int) and result >= 0, (what, result)
    os.rmdir(state + "/folder")


def test_it_reaches_no_file():
    with Daemon() as daemon:
        folder = os.path.join(daemon.directory, "other")
        os.mkdir(folder)
        check_files(daemon, folder)


def test_it_reaches_no_file_of_its_user():
    with OfUser() as daemon:
        folder = os.path.join(daemon.directory, "other")
        os.mkdir(folder)
        check_files(daemon, folder)


def is_served(daemon, restarts):
    with daemon.frames() as frames:
        return frames.call("stats")["restarts"] == restarts


def check_calls(daemon):
    pid = engine_of(daemon)
    for family in (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
        assert within(pid, SOCKET, int(family), 1, 0) == "EPERM", family
    assert within(pid, MMAP, 0, 4096, PROT_READ | PROT_EXEC, PRIVATE_ANONYMOUS, -1, 0) == "EPERM"
    assert isinstance(within(pid, MMAP, 0, 4096, PROT_READ | PROT_WRITE, PRIVATE_ANONYMOUS, -1, 0), int)
    with daemon.frames() as frames:
        assert frames.call("call", language="python", code="return 40 + 2")["result"] == 42, "the twin: it serves on"
        before = frames.call("stats")["restarts"]
    for what in ((EXECVE, "/bin/true", 0, 0), (KILL, 1, 0), (MOUNT, "none", "/", "tmpfs", 0, 0)):
        assert within(engine_of(daemon), *what) == f"killed {signal.SIGSYS.value}", what
        cloche.wait_for(lambda: is_served(daemon, before + 1), "the next engine")
        before += 1


def test_it_makes_no_socket_and_no_program():
    with Daemon() as daemon:
        check_calls(daemon)


def test_nor_does_that_of_a_user():
    with OfUser() as daemon:
        check_calls(daemon)


def test_each_call_of_the_filter():
    finished = subprocess.run([os.path.join(BUILD, "tests/try-daemon-calls")], capture_output=True, text=True, timeout=60)
    assert finished.returncode == 0 and not finished.stdout, finished


def check_threads(daemon):
    with daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo saved > file")
        frames.call("sandbox.save", sandbox="a")  # threads of libuv write it
        confinement = frames.call("stats")["confinement"]
    assert confinement["seccomp"] is True and confinement["landlock"] >= 1, confinement
    pid = engine_of(daemon)
    tasks = os.listdir(f"/proc/{pid}/task")
    assert tasks
    for task in tasks:
        status = status_of(f"/proc/{pid}/task/{task}/status")
        assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2" and int(status["CapPrm"], 16) == 0, (task, status)
    assert os.stat(f"/proc/{pid}/fd").st_uid == 0, "of what is not dumpable it is root's (proc_pid(5))"


def test_every_thread():
    with Daemon() as daemon:
        check_threads(daemon)


def test_every_thread_of_a_users():
    with OfUser() as daemon:
        check_threads(daemon)


def as_user(uid, work):
    """Do work in a process of that user; its result."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            libc.prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: it is no more to be feared than a program that was executed so
            os.write(write_end, json.dumps(work()).encode())
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def error_of(function, *arguments):
    try:
        function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "done"


def traced(pid):
    libc.ptrace.argtypes = [ctypes.c_long] * 4
    if libc.ptrace(PTRACE_ATTACH, pid, 0, 0) < 0:
        return errno.errorcode[ctypes.get_errno()]
    os.waitpid(pid, 0)
    libc.ptrace(PTRACE_DETACH, pid, 0, 0)
    return "done"


def tries(pid, state):
    return lambda: {"signal": error_of(os.kill, pid, 0), "trace": traced(pid), "memory": error_of(open, f"/proc/{pid}/mem", "rb"),
                    "descriptors": error_of(os.listdir, f"/proc/{pid}/fd"), "state": error_of(os.listdir, state)}


def test_one_daemon_does_not_reach_another():
    need_root()
    with Daemon() as one, Daemon() as other:
        pid, others_pid = engine_of(one), engine_of(other)
        user = os.stat(f"{other.directory}/state").st_uid
        found = as_user(user, tries(pid, one.directory + "/state"))
        assert found == {"signal": "EPERM", "trace": "EPERM", "memory": "EACCES", "descriptors": "EACCES", "state": "EACCES"}, found
        found = as_user(user, tries(others_pid, other.directory + "/state"))
        assert (found["signal"], found["state"]) == ("done", "done"), found  # the twin


def test_a_users_programs_do_not_trace_his_daemon():
    """They may end it, and no more: a token and callers' files are in its memory."""
    with OfUser() as daemon:
        other = subprocess.Popen([*ORDINARY_USER, "sleep", "1000"])
        try:
            cloche.wait_for(lambda: open(f"/proc/{other.pid}/comm").read() == "sleep\n", "a program of his")
            found = as_user(USER, tries(engine_of(daemon), daemon.directory + "/state"))
            assert found == {"signal": "done", "trace": "EPERM", "memory": "EACCES", "descriptors": "EACCES", "state": "done"}, found
            found = as_user(USER, tries(other.pid, daemon.directory + "/state"))
            assert found == {"signal": "done", "trace": "done", "memory": "done", "descriptors": "done", "state": "done"}, found  # the twin
        finally:
            other.kill()
            other.wait()


# Landlock is unavailable to executed programs, as on a kernel without it: a filter of classic BPF. seccomp(2); x86-64.
WITHOUT_LANDLOCK = r"""
import ctypes, os, struct, sys
rows = [(0x20, 0, 0, 0), (0x15, 0, 1, 444), (0x06, 0, 0, 0x50000 | 38), (0x06, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("HBBI", *row) for row in rows)
room = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(room))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.syscall(317, 1, 0, ctypes.create_string_buffer(program)) == 0, ctypes.get_errno()
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_kernel_without_landlock_is_said():
    need_root()
    directory = tempfile.mkdtemp(prefix="cloched-")
    os.chmod(directory, 0o711)
    log = open(directory + "/log", "w+")
    command = ["/usr/bin/python3", "-c", WITHOUT_LANDLOCK, DAEMON, "--socket", directory + "/socket", "--state-dir", directory + "/state"]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(HANG)
        cloche.wait_for(lambda: sock.connect_ex(directory + "/socket") == 0, "its socket")
        with Frames(sock) as frames:
            assert frames.call("stats")["confinement"] == {"landlock": 0, "seccomp": True}
            assert frames.call("call", language="python", code="return 1")["status"] == "success"
        said = [json.loads(line) for line in open(directory + "/log")]
        assert [(line["level"], line["by"]) for line in said if line["event"] == "not-confined"] == [("warning", "landlock")], said
    finally:
        process.terminate()
        process.wait(20)
        log.close()
        shutil.rmtree(directory)
