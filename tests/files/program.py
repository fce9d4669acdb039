"""cloche-files under test: started in a directory of the host, driven over its channel.

A build with sanitizers has the program a second time, with them (tests/meson.build); that one is taken then.
"""
import ctypes
import json
import os
import shutil
import socket
import stat
import struct
import subprocess
import tempfile

BUILD = os.path.abspath(os.environ["CLOCHE_BUILD"])
CHECKED = os.path.join(BUILD, "tests/cloche-files-checked")
PROGRAM = CHECKED if os.path.exists(CHECKED) else os.path.join(BUILD, "cloche-files")
HANG = 40


class Refused(Exception):
    """An error of the program; name is a row of spec/errors.def."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code, self.name = error["code"], error.get("data", {}).get("name")


class Gone(Exception):
    """The program ended before it answered."""


def encode(value, attachments):
    if isinstance(value, (bytes, bytearray)):
        at = len(attachments)
        attachments += value
        return {"$": "bytes", "at": at, "n": len(value)}
    if isinstance(value, dict):
        return {key: encode(item, attachments) for key, item in value.items()}
    return [encode(item, attachments) for item in value] if isinstance(value, list) else value


def decode(value, attachments):
    if isinstance(value, dict):
        if value.get("$") == "bytes":
            return attachments[value["at"]:value["at"] + value["n"]]
        return {key: decode(item, attachments) for key, item in value.items()}
    return [decode(item, attachments) for item in value] if isinstance(value, list) else value


def start(directory, **options):
    """The program and our end of its channel."""
    ours, theirs = socket.socketpair()
    program = os.open(PROGRAM, os.O_RDONLY)  # an ordinary user may not reach where it is
    process = subprocess.Popen(["/bin/sh", "-c", f'exec 3<&{theirs.fileno()} {theirs.fileno()}<&-; exec /proc/self/fd/{program} "$0"', directory],
                               pass_fds=[theirs.fileno(), program], **options)
    os.close(program)
    theirs.close()
    ours.settimeout(HANG)
    return process, ours


def need_root():
    if os.geteuid() != 0:
        print("needs root", flush=True)
        raise SystemExit(77)  # skipped, for tests/lib/run-tests.py


libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_REC, MS_PRIVATE = 0x20000, 0x4000, 0x40000


def mount_small(path, options):
    """A tmpfs that is gone with the test's process, however it ends."""
    need_root()
    if not os.path.ismount(path) and libc.unshare(CLONE_NEWNS) < 0 or libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None) < 0:
        raise OSError(ctypes.get_errno(), "a mount namespace")
    if libc.mount(b"tmpfs", os.fsencode(path), b"tmpfs", ctypes.c_ulong(0), options.encode()) < 0:
        raise OSError(ctypes.get_errno(), "mount a tmpfs")


class Files:
    """with Files({path: contents}) as f: f.call("file.read", path="a")

    tree: None makes a directory, bytes or str a file, ("link", target) a symbolic link. ordinary: not with the rights of root. small: options
    of a tmpfs that root is.
    """

    def __init__(self, tree=None, ordinary=False, small=None):
        self.root = os.path.realpath(tempfile.mkdtemp(prefix="cloche-files-"))
        self.small = small
        if small:
            mount_small(self.root, small)
        self.data, self.told, self.answers, self.last = bytearray(), [], {}, 0
        for path, what in (tree or {}).items():
            self.make(path, what)
        options = {}
        if ordinary and os.geteuid() == 0:
            subprocess.run(["chown", "-hR", "65534:65534", self.root], check=True)
            options = {"user": 65534, "group": 65534, "extra_groups": []}
        self.process, self.sock = start(self.root, **options)

    def make(self, path, what):
        full = os.path.join(os.fsencode(self.root), os.fsencode(path))
        os.makedirs(full if what is None else os.path.dirname(full), exist_ok=True)
        if isinstance(what, tuple):
            os.symlink(what[1], full)
        elif what is not None:
            with open(full, "wb") as file:
                file.write(what.encode() if isinstance(what, str) else what)

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        self.sock.close()
        code = self.process.wait(HANG)
        subprocess.run(["chmod", "-R", "u+rwX", self.root], check=False)
        if self.small:
            subprocess.run(["umount", self.root], check=True)
        shutil.rmtree(self.root)
        if kind is None:
            assert code == 0, f"cloche-files ended with {code}"

    def path(self, path):
        return os.path.join(self.root, path)

    def read(self, path):
        with open(self.path(path), "rb") as file:
            return file.read()

    def send(self, method, **params):
        attachments = bytearray()
        self.last += 1
        message = {"jsonrpc": "2.0", "id": self.last, "method": method, "params": encode(params, attachments)}
        self.send_text(json.dumps(message).encode(), attachments)
        return self.last

    def send_text(self, text, attachments=b""):
        self.sock.sendall(struct.pack("<II", len(text) + len(attachments) + 4, len(text)) + text + attachments)

    def receive(self):
        while len(self.data) < 4 or len(self.data) < 4 + struct.unpack_from("<I", self.data)[0]:
            try:
                piece = self.sock.recv(1 << 20)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Gone
            self.data += piece
        length, size = struct.unpack_from("<II", self.data)
        message = json.loads(bytes(self.data[8:8 + size]))
        message = decode(message, bytes(self.data[8 + size:4 + length]))
        del self.data[:4 + length]
        return message

    def answer(self, number):
        while number not in self.answers:
            message = self.receive()
            if "method" in message:
                self.told.append(message["params"])
            else:
                self.answers[message["id"]] = message
        message = self.answers.pop(number)
        if "error" in message:
            raise Refused(message["error"])
        return message["result"]

    def call(self, method, **params):
        return self.answer(self.send(method, **params))

    def refused(self, name, method, **params):
        """The message of the error of this name."""
        try:
            result = self.call(method, **params)
        except Refused as error:
            assert error.name == name, (error.name, str(error))
            return str(error)
        raise AssertionError((method, params, "expected", name, "got", result))

    def event(self):
        """The next event; of a request that was refused instead, its error."""
        while not self.told:
            message = self.receive()
            if "method" in message:
                self.told.append(message["params"])
            elif "error" in message:
                raise Refused(message["error"])
            else:
                self.answers[message["id"]] = message
        return self.told.pop(0)

    def snapshot(self, path=""):
        """{relative path: (kind, permissions, contents or target)}"""
        found = {}
        top = self.path(path).rstrip("/")
        for folder, names, files in os.walk(os.fsencode(top)):
            for name in names + files:
                full = os.path.join(folder, name)
                status = os.lstat(full)
                contents = os.readlink(full) if stat.S_ISLNK(status.st_mode) else open(full, "rb").read() if stat.S_ISREG(status.st_mode) else None
                mode = None if stat.S_ISLNK(status.st_mode) else stat.S_IMODE(status.st_mode)
                found[os.fsdecode(full[len(os.fsencode(top)) + 1:])] = (stat.S_IFMT(status.st_mode), mode, contents)
        return found
