"""cloche-fs under test: a directory mounted in a namespace of its own, a guest to use it, and the control socket.

The test's process leaves the host's mount namespace first, so nothing of a mount is left when it ends, however it ends. The server
runs as the directory's owner; so does the guest, in a forked child that is killed when it takes too long. The server goes first: then
nothing can wait for it.
"""
import array
import ctypes
import json
import os
import pickle
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import time

from patience import PATIENCE

BUILD = os.path.abspath(os.environ["CLOCHE_BUILD"])
OWNER = 12345
HANG = int(40 * PATIENCE)

libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE, MNT_DETACH = 0x20000, 2, 4, 0x4000, 0x40000, 2


def check(result):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def mount(source, target, kind, flags, options=None):
    check(libc.mount(source.encode(), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags),
                     options.encode() if options else None))


private = False


def leave_namespace():
    global private
    if not private:
        check(libc.unshare(CLONE_NEWNS))
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        private = True


class Refused(Exception):
    """An error of the control socket."""


class Control:
    def __init__(self, sock):
        self.sock, self.data, self.fds, self.told, self.last = sock, b"", [], [], 0
        sock.settimeout(HANG)

    def send(self, method, params=None, fd=None):
        self.last += 1
        text = json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}).encode()
        data = struct.pack("<II", len(text) + 4, len(text)) + text
        if fd is not None:
            data = data[socket.send_fds(self.sock, [data], [fd]):]
        self.sock.sendall(data)
        return self.last

    def receive(self):
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack_from("<I", self.data)[0]:
            data, ancillary, _, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(64))
            for level, kind, value in ancillary:
                if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                    self.fds += list(array.array("i", value))
            if not data:
                raise EOFError("the server is gone")
            self.data += data
        length, size = struct.unpack_from("<II", self.data)
        message = json.loads(self.data[8:8 + size])
        self.attached = self.data[8 + size:4 + length]
        self.data = self.data[4 + length:]
        return message

    def drain(self, seconds=0.2):
        """Notifications that have come meanwhile."""
        self.sock.settimeout(seconds)
        try:
            while True:
                self.told.append(self.receive())
        except (TimeoutError, BlockingIOError):
            pass
        self.sock.settimeout(HANG)
        return self.told

    def answer(self, number):
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise Refused(message["error"]["message"])
                return message["result"]
            self.told.append(message)

    def call(self, method, **params):
        return self.answer(self.send(method, params))


class Mounted:
    """with Mounted({path: contents}, permissions=…) as m: m.guest(lambda: open("a").read())

    keeper: True gives the server a keeper for passthrough.
    tree: None makes a directory, bytes or str a file, ("link", target) a symbolic link, a callable is given the host's path.
    """

    def __init__(self, tree=None, keeper=False, **settings):
        leave_namespace()
        self.folder = tempfile.mkdtemp(prefix="cloche-fs-")
        os.chmod(self.folder, 0o755)
        self.lower, self.upper, self.at = (os.path.join(self.folder, name) for name in ("lower", "upper", "at"))
        for path in (self.lower, self.upper, self.at):
            os.mkdir(path)
        os.chmod(self.upper, 0o700)
        self.make(tree or {})
        os.chown(self.upper, OWNER, OWNER)
        self.settings, self.server, self.pids = settings, None, []
        self.landlock = None
        self.wants_keeper, self.keeper = keeper, None

    def make(self, tree):
        for path, what in tree.items():
            full = os.path.join(os.fsencode(self.lower), os.fsencode(path))
            os.makedirs(os.path.dirname(full), exist_ok=True)
            if what is None:
                os.makedirs(full, exist_ok=True)
            elif isinstance(what, tuple):
                os.symlink(what[1], full)
            elif callable(what):
                what(full)
            else:
                with open(full, "wb") as file:
                    file.write(what.encode() if isinstance(what, str) else what)
        for top, _, names in os.walk(os.fsencode(self.lower)):
            os.lchown(top, OWNER, OWNER)
            for name in names:
                os.lchown(os.path.join(top, name), OWNER, OWNER)

    def __enter__(self):
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            print("needs root and /dev/fuse", flush=True)
            raise SystemExit(77)  # skipped, for tests/lib/run-tests.py
        try:
            return self.start()
        except BaseException:
            self.stop()
            raise

    def __exit__(self, *_):
        self.stop()

    def start(self, configure=True):
        mount("tmpfs", self.upper, "tmpfs", MS_NOSUID | MS_NODEV, f"size={self.settings.pop('upper', '512m')},uid={OWNER},gid={OWNER},mode=700")
        fuse = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={fuse},rootmode=40000,user_id={OWNER},group_id={OWNER},allow_other,default_permissions,max_read=1048576"
        mount("cloche-fs", self.at, "fuse", MS_NOSUID | MS_NODEV, options)
        lower, upper = os.open(self.lower, os.O_PATH | os.O_DIRECTORY), os.open(self.upper, os.O_RDONLY | os.O_DIRECTORY)
        ours, theirs = socket.socketpair()
        fds = (fuse, lower, upper, theirs.fileno(), *self.start_keeper())
        self.server = subprocess.Popen([os.path.join(BUILD, "cloche-fs"), *map(str, fds)], pass_fds=fds, user=OWNER, group=OWNER,
                                       extra_groups=[], stdin=subprocess.DEVNULL, cwd="/")
        for fd in (fuse, lower, upper, *fds[4:]):
            os.close(fd)
        theirs.close()
        self.control = Control(ours)
        if configure:
            self.guards = self.control.call("configure", **{"uid": OWNER, "gid": OWNER, **self.settings})
        return self

    def start_keeper(self):
        """The server's end of its socket, if there is to be one."""
        if not self.wants_keeper:
            return ()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with ours:
            self.keeper = subprocess.Popen([os.path.join(BUILD, "tests", "passthrough-keeper"), str(ours.fileno())], pass_fds=[ours.fileno()])
        return (theirs.detach(),)

    def stop(self):
        for process in (self.server, self.keeper):
            if process:
                process.kill()
                process.wait()
        for pid in self.pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for path in (self.at, self.upper):
            libc.umount2(os.fsencode(path), MNT_DETACH)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- the guest's side --------------------------------------------------------------------------------------

    def begin(self, function):
        """In a child, below the mount, as the owner. The handle is for finish()."""
        out, into = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                os.close(out)
                self.control.sock.close()
                os.setgroups([])
                os.setresgid(OWNER, OWNER, OWNER)
                os.setresuid(OWNER, OWNER, OWNER)
                try:
                    os.chdir(self.at)
                    result = (True, function())
                except OSError as error:
                    result = (False, error.errno)
                except BaseException as error:
                    result = (None, repr(error))
                with os.fdopen(into, "wb") as file:
                    pickle.dump(result, file)
            finally:
                os._exit(0)
        os.close(into)
        self.pids.append(pid)
        return pid, out

    def finish(self, handle, timeout=HANG):
        pid, out = handle
        signal.signal(signal.SIGALRM, lambda *_: self.give_up())
        signal.alarm(timeout)
        try:
            with os.fdopen(out, "rb") as file:
                data = file.read()
            os.waitpid(pid, 0)
        finally:
            signal.alarm(0)
        self.pids.remove(pid)
        fine, value = pickle.loads(data) if data else (None, "the guest died")
        if fine is None:
            raise AssertionError(value)
        if not fine:
            raise OSError(value, os.strerror(value))
        return value

    def give_up(self):
        self.server.kill()
        raise AssertionError("the guest takes too long")

    def guest(self, function, timeout=HANG):
        return self.finish(self.begin(function), timeout)

    def fails(self, number, function):
        """The guest's call must fail so."""
        try:
            value = self.guest(function)
        except OSError as error:
            assert error.errno == number, f"{os.strerror(error.errno)}, not {os.strerror(number)}"
        else:
            raise AssertionError(f"{value!r} where {os.strerror(number)} was expected")

    # ---- the engine's side -------------------------------------------------------------------------------------

    def changes(self, limit=None):
        """All of it, page by page."""
        answer = self.control.call("changes", limit=limit)
        while answer["more"]:
            page = self.control.call("changes", after=len(answer["changes"]), limit=limit)
            answer["changes"] += page["changes"]
            answer["more"] = page["more"]
        assert len(answer["changes"]) == answer["total"]
        return answer

    def place(self, path, contents="", **params):
        """contents: bytes or str of a file; None: it has none."""
        if contents is None:
            return self.control.call("place", path=path, **params)
        fd = os.memfd_create("placed")
        try:
            os.write(fd, contents.encode() if isinstance(contents, str) else contents)
            return self.control.answer(self.control.send("place", {"path": path, "kind": "file", **params}, fd))
        finally:
            os.close(fd)

    def summary(self):
        """{path: type}, with "!" after virtual ones."""
        rows = {}
        for change in self.changes()["changes"]:
            path = change["path"] if isinstance(change["path"], str) else repr(change["path"])
            text = change["type"] + ("!" if change.get("virtual") else "") + (f" {change['from']}" if "from" in change else "")
            rows[path] = f"{rows[path]}, {text}" if path in rows else text
        return rows

    def denials(self):
        return [(d["path"], d["operation"], d["rule"]) for d in self.changes()["denials"]]

    def contents_fd(self):
        self.control.call("contents")
        return self.control.fds.pop()

    def contents_of(self, row):
        """The contents of a row of changes, read as the engine does: by number, through the directory's descriptor."""
        directory = self.contents_fd()
        try:
            with os.fdopen(os.open(row["contents"], os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory), "rb") as file:
                assert stat.S_IMODE(os.fstat(file.fileno()).st_mode) == 0o644
                return file.read()
        finally:
            os.close(directory)

    def contents(self, path):
        [row] = [row for row in self.changes()["changes"] if row["path"] == path and "contents" in row]
        return self.contents_of(row)

    def usage(self):
        return self.control.call("usage")

    def settled(self):
        """The usage once all handles are gone: the kernel reports a file's end after close(2) has
        returned (FUSE_RELEASE)."""
        until = time.monotonic() + HANG
        while (usage := self.usage())["handles"] and time.monotonic() < until:
            time.sleep(0.01)
        assert usage["handles"] == 0, usage
        return usage


ALL = {"read": True, "list": True, "create": True, "modify": True, "delete": True}


RENAME_NOREPLACE, RENAME_EXCHANGE = 1, 2
AT_FDCWD, AT_SYMLINK_FOLLOW = -100, 0x400


def rename(one, other, flags):
    check(libc.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), flags))


def write(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)


def read(path):
    with open(path) as file:
        return file.read()
