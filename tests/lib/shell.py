"""Drive the shell of a session without a box: bash with cloche-session.so, on a SEQPACKET socketpair (src/proto/shell.h)."""
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time

import cloche

READY, RUN, FORK, EXPORT = 1, 2, 3, 4
ENVIRONMENT, INTERRUPTED = 1, 2
JOBS_MAX, CWD_MAX = 64, 4096
ANSWER = struct.Struct(f"<IIiiII{JOBS_MAX}i{CWD_MAX}s")
REQUEST = struct.Struct("<6I")
STATUS = struct.Struct("<iIQQQ")
PATIENCE = 20 * cloche.PATIENCE


def memory_file(data):
    fd = os.memfd_create("strings", os.MFD_CLOEXEC)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
    return fd


def encode(text):
    return os.fsencode(text) if isinstance(text, str) else text


class Ended(Exception):
    """The shell has closed its socket."""


class Answer:
    def __init__(self, data, fds):
        self.op, self.serial, self.code, self.pid, self.flags, self.job_count, *rest = ANSWER.unpack(data)
        self.jobs = list(rest[:min(self.job_count, JOBS_MAX)])
        self.cwd = os.fsdecode(rest[JOBS_MAX].split(b"\0", 1)[0])
        self.env = None
        assert len(fds) == bool(self.flags & ENVIRONMENT), (fds, self.flags)
        if fds:
            with os.fdopen(fds[0], "rb") as file:
                self.env = dict(os.fsdecode(item).split("=", 1) for item in file.read().split(b"\0")[:-1])

    @property
    def interrupted(self):
        return bool(self.flags & INTERRUPTED)


class Shell:
    def __init__(self, cwd=None, env=None, init="", umask=0o022):
        self.top = tempfile.mkdtemp(prefix="shell-")
        self.cwd = cwd or self.top
        self.serial, self.files = 0, []
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.settimeout(PATIENCE)
        with open(os.path.join(cloche.BUILD, "cloche-session.so"), "rb") as file:
            program_fd = memory_file(file.read())

        def arrange():
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            high = [os.dup(fd) for fd in (theirs.fileno(), program_fd)]
            high = [os.dup2(fd, 900 + i, inheritable=False) for i, fd in enumerate(high)]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)
            os.closerange(5, 1024)
            os.umask(umask)

        with tempfile.TemporaryFile() as self_said:
            self.process = subprocess.Popen(
                ["bash", "--norc", "--noprofile", "-c", f"{init}enable -f /proc/self/fd/4 cloche_session && cloche_session"],
                executable="/usr/bin/bash", cwd=self.cwd, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self_said,
                env={"PATH": "/usr/bin:/bin", "HOME": self.top, "LANG": "C.UTF-8", **(env or {})}, close_fds=False, preexec_fn=arrange)
            theirs.close()
            os.close(program_fd)
            try:
                self.ready = self.receive()
            except Ended:
                self_said.seek(0)
                raise AssertionError(self_said.read().decode())
        assert self.ready.op == READY

    def __enter__(self):
        return self

    def __exit__(self, *_):
        below = self.descendants()  # while it still is their parent
        self.process.kill()
        self.process.wait()
        self.socket.close()
        for pid in below:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for file in self.files:
            file.close()
        shutil.rmtree(self.top, ignore_errors=True)

    def children(self, pid):
        try:
            with open(f"/proc/{pid}/task/{pid}/children") as file:
                return list(map(int, file.read().split()))
        except OSError:
            return []

    def descendants(self, pid=None):
        return [each for child in self.children(pid or self.process.pid) for each in [child, *self.descendants(child)]]

    # -- requests --------------------------------------------------------------------------------------------------

    def send(self, op, command="", env=(), cwd=None, fds=(), head=None):
        command = encode(command)
        strings = [encode(cwd)] if cwd is not None else []
        strings += [encode(f"{k}={v}" if v is not None else k) for k, v in (env.items() if isinstance(env, dict) else env)]
        self.serial += 1
        strings_fd = memory_file(command + b"".join(string + b"\0" for string in strings))
        try:
            socket.send_fds(self.socket, [head or REQUEST.pack(op, self.serial, len(command), cwd is not None, len(env), 0)], [strings_fd, *fds])
        except BrokenPipeError:
            raise Ended(self.process.wait(PATIENCE))
        finally:
            os.close(strings_fd)

    def receive(self):
        try:
            data, fds, _, _ = socket.recv_fds(self.socket, ANSWER.size + 1, 4)
        except ConnectionResetError:
            data = b""
        if not data:
            raise Ended(self.process.wait(PATIENCE))
        return Answer(data, fds)

    def begin(self, command, stdin=b"", op=RUN, extra=(), **about):
        """Its stdout and stderr go to files."""
        out, err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        in_fd = memory_file(stdin) if isinstance(stdin, bytes) else stdin
        if isinstance(stdin, bytes):
            os.lseek(in_fd, 0, os.SEEK_SET)
        try:
            self.send(op, command, fds=[in_fd, out.fileno(), err.fileno(), *extra], **about)
        finally:
            if isinstance(stdin, bytes):
                os.close(in_fd)
        self.files += [out, err]
        return out, err

    def end(self, files):
        answer = self.receive()
        assert answer.serial == self.serial, (answer.serial, self.serial)
        answer.out, answer.err = (read(file) for file in files)
        for file in files:
            self.files.remove(file)
            file.close()
        return answer

    def run(self, command, stdin=b"", **about):
        return self.end(self.begin(command, stdin, **about))

    def out(self, command, **about):
        """Its output, if it exited with 0 and without errors."""
        answer = self.run(command, **about)
        assert (answer.code, answer.err) == (0, ""), (answer.code, answer.out, answer.err)
        return answer.out

    def ends(self, command, **about):
        """The status with which the shell ended, and its output."""
        files = self.begin(command, **about)
        try:
            answer = self.receive()
        except Ended as ended:
            return ended.args[0], *(read(file) for file in files)
        raise AssertionError(f"it answered {answer.code}")

    def export(self, env):
        self.send(EXPORT, env=env)
        return self.receive()

    def fork(self, command, stdin=b"", **about):
        status_fd, theirs_fd = os.pipe()
        try:
            files = self.begin(command, stdin, FORK, [theirs_fd], **about)
        finally:
            os.close(theirs_fd)
        return Copy(self.receive(), status_fd, files)

    def interrupt(self):
        os.kill(self.process.pid, signal.SIGINT)


class Copy:
    def __init__(self, answer, status_fd, files):
        self.answer, self.pid, self.status_fd, self.files = answer, answer.pid, status_fd, files
        assert self.pid > 0, self.pid

    def wait(self):
        """(status, stdout, stderr); None instead of a status if the pipe closed without one."""
        assert select.select([self.status_fd], [], [], PATIENCE)[0], "no status"
        data = os.read(self.status_fd, STATUS.size + 1)
        assert not data or os.read(self.status_fd, 1) == b""
        os.close(self.status_fd)
        self.usage = STATUS.unpack(data)[2:] if data else None
        return (STATUS.unpack(data)[0] if data else None), *(read(file) for file in self.files)

    def code(self):
        return os.waitstatus_to_exitcode(self.wait()[0])


def read(file):
    return os.pread(file.fileno(), 1 << 26, 0).decode(errors="surrogateescape")


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it did not come true"
        time.sleep(0.005)


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False
