"""cloche-sync under test: a directory of the host, numbered contents, and the control socket.

apply_plainly() is the oracle: the same list done with ordinary calls, in the order of
helpers/fs/tree/change.h, by a process that is never killed."""
import base64
import copy
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
OWNER = 12345
HANG = 40
ALL = {"read": True, "list": True, "create": True, "modify": True, "delete": True}
FREE = {"default": ALL}
STAGE = b".cloche-sync"


libc = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x20000, 2, 4, 0x4000, 0x40000
private = False


def mount(source, target, kind, flags, options=None):
    if libc.mount(source.encode(), os.fsencode(target), kind.encode() if kind else None, ctypes.c_ulong(flags),
                  options.encode() if options else None) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def leave_namespace():
    """Mounts made afterwards disappear with the test's process, for any end."""
    global private
    if not private:
        if libc.unshare(CLONE_NEWNS) < 0:
            raise OSError(ctypes.get_errno(), "unshare")
        mount("none", "/", None, MS_REC | MS_PRIVATE)
        private = True


class Refused(Exception):
    """An error of the control socket."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.data = error.get("data", {})


class Gone(Exception):
    """The process ended before it answered."""


class Control:
    def __init__(self, sock):
        self.sock, self.data, self.at, self.told, self.last = sock, bytearray(), 0, [], 0
        sock.settimeout(HANG)

    def frame(self, method, params=None):
        self.last += 1
        text = json.dumps({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params or {}}).encode()
        return struct.pack("<II", len(text) + 4, len(text)) + text

    def send(self, method, params=None):
        return self.send_frame(self.frame(method, params))

    def send_frame(self, frame):
        try:
            self.sock.sendall(frame)
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None
        return self.last

    def receive(self):
        while len(self.data) - self.at < 4 or len(self.data) - self.at < 4 + struct.unpack_from("<I", self.data, self.at)[0]:
            del self.data[:self.at]
            self.at = 0
            try:
                piece = self.sock.recv(1 << 20)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise Gone
            self.data += piece
        length, size = struct.unpack_from("<II", self.data, self.at)
        text = bytes(self.data[self.at + 8:self.at + 8 + size])
        self.at += 4 + length
        return json.loads(text)

    def answer(self, number):
        while True:
            message = self.receive()
            if message.get("id") == number:
                if "error" in message:
                    raise Refused(message["error"])
                return message["result"]
            self.told.append(message)

    def call(self, method, **params):
        return self.answer(self.send(method, params))


class Synced:
    """with Synced({path: contents}) as s: …; s.begin(); s.call("apply", changes=[…])

    tree: None makes a directory, bytes or str a file, ("link", target) a symbolic link, ("mode", mode, contents) a file or, without
    contents, a directory; a callable is given the path.
    """

    def __init__(self, tree=None, memory=None, folder=None):
        if os.geteuid() != 0:
            print("needs root", flush=True)
            raise SystemExit(77)  # skipped, for tests/lib/run-tests.py
        self.folder = folder or tempfile.mkdtemp(prefix="cloche-sync-")
        self.memory = memory
        if memory:  # a tmpfs of this size, on which nothing waits for a disk
            leave_namespace()
            mount("tmpfs", self.folder, "tmpfs", MS_NOSUID | MS_NODEV, f"size={memory}")
        os.makedirs(self.folder, exist_ok=True)
        os.chmod(self.folder, 0o755)
        self.root, self.contents = os.path.join(self.folder, "root"), os.path.join(self.folder, "contents")
        os.makedirs(self.root)
        os.makedirs(self.contents)
        self.last, self.processes, self.control = 0, [], None
        self.whole = None  # a file: all contents are in it
        self.make(tree or {})
        os.chown(self.contents, OWNER, OWNER)

    def make(self, tree):
        for path, what in tree.items():
            full = os.path.join(os.fsencode(self.root), os.fsencode(path))
            os.makedirs(os.path.dirname(full), exist_ok=True)
            make_entry(full, what)
        own(self.root)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        if self.memory:
            libc.umount2(os.fsencode(self.folder), 2)
        shutil.rmtree(self.folder, ignore_errors=True)

    def stop(self):
        if self.control:
            self.control.sock.close()
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes, self.control = [], None

    # ---- the program ----------------------------------------------------------------------------------------------

    def start(self, crash=None, fail=None, program=None, user=OWNER):
        """A process of its own; its control."""
        root, contents = (os.open(path, os.O_RDONLY) for path in (self.root, self.whole or self.contents))
        ours, theirs = socket.socketpair()
        fds = (root, contents, theirs.fileno())
        name = program or ("tests/cloche-sync-crash" if crash or fail else "cloche-sync")
        env = {key: str(value) for key, value in (("CLOCHE_SYNC_CRASH", crash), ("CLOCHE_SYNC_FAIL", fail)) if value}
        env["ASAN_OPTIONS"] = "detect_leaks=0"  # untraceable processes cannot be checked for leaks
        process = subprocess.Popen([os.path.join(BUILD, name), *map(str, fds)], pass_fds=fds, user=user, group=user, extra_groups=[],
                                   stdin=subprocess.DEVNULL, cwd="/", env=env)
        theirs.close()
        os.close(root)
        os.close(contents)
        self.processes.append(process)
        control = Control(ours)
        control.process = process
        return control

    def settle(self):
        """The process before is done, of itself."""
        if self.control:
            self.control.sock.close()
        for process in self.processes:
            process.wait(timeout=HANG)
        self.processes, self.control = [], None

    def begin(self, crash=None, fail=None, **settings):
        self.settle()
        self.control = self.start(crash, fail)
        return self.control.call("configure", **{"permissions": FREE, **settings})

    def call(self, method, **params):
        return self.control.call(method, **params)

    def apply(self, changes, **params):
        return self.control.call("apply", changes=changes, **params)

    def run(self, changes, **settings):
        self.begin(**settings)
        return self.apply(changes)

    # ---- changes --------------------------------------------------------------------------------------------------

    def put(self, data):
        """Contents; their number."""
        if self.whole:
            with open(self.whole, "ab") as file:
                number = f"{file.tell() + 1:x}"
                file.write(data.encode() if isinstance(data, str) else data)
            return number
        self.last += 1
        path = os.path.join(self.contents, f"{self.last:x}")
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        os.chown(path, OWNER, OWNER)
        return f"{self.last:x}"

    def origin(self, path):
        return identity(os.path.join(os.fsencode(self.root), os.fsencode(path)))

    def created(self, path, data=b"new", mode=0o644, **more):
        data = data.encode() if isinstance(data, str) else data
        return {"type": "created", "path": text(path), "kind": "file", "mode": mode, "size": len(data), "mtimeNs": MTIME,
                "contents": self.put(data), "origin": None, **more}

    def directory(self, path, mode=0o755, **more):
        return {"type": "created", "path": text(path), "kind": "directory", "mode": mode, "size": 0, "mtimeNs": MTIME, "origin": None, **more}

    def symlink(self, path, target, **more):
        return {"type": "created", "path": text(path), "kind": "symlink", "mode": 0o777, "size": 0, "mtimeNs": MTIME, "target": text(target),
                "origin": None, **more}

    def modified(self, path, data=b"changed", mode=0o644, at=None, **more):
        data = data.encode() if isinstance(data, str) else data
        return {"type": "modified", "path": text(path), "kind": "file", "mode": mode, "size": len(data), "mtimeNs": MTIME, "content": True,
                "contents": self.put(data), "origin": self.origin(at or path), **more}

    def chmod(self, path, mode, at=None, **more):
        st = os.lstat(os.path.join(os.fsencode(self.root), os.fsencode(at or path)))
        kind = "directory" if stat.S_ISDIR(st.st_mode) else "file"
        return {"type": "modified", "path": text(path), "kind": kind, "mode": mode, "size": 0 if kind == "directory" else st.st_size,
                "mtimeNs": MTIME, **({"content": False} if kind == "file" else {}), "origin": self.origin(at or path), **more}

    def deleted(self, path, **more):
        st = os.lstat(os.path.join(os.fsencode(self.root), os.fsencode(path)))
        return {"type": "deleted", "path": text(path), "kind": kind_of(st), "mode": stat.S_IMODE(st.st_mode) & 0o777, "size": 0,
                "mtimeNs": st.st_mtime_ns, "origin": self.origin(path), **more}

    def renamed(self, source, path, **more):
        st = os.lstat(os.path.join(os.fsencode(self.root), os.fsencode(source)))
        return {"type": "renamed", "path": text(path), "from": text(source), "kind": kind_of(st), "mode": stat.S_IMODE(st.st_mode) & 0o777,
                "size": st.st_size if stat.S_ISREG(st.st_mode) else 0, "mtimeNs": st.st_mtime_ns, "origin": self.origin(source), **more}

    def link(self, path, other, **more):
        return {"type": "created", "path": text(path), "kind": "file", "mode": 0o644, "size": 0, "mtimeNs": MTIME, "link": text(other),
                "origin": None, **more}

    def snapshot(self, **options):
        return snapshot(self.root, **options)


MTIME = 1_700_000_000_123_456_789


def text(path):
    """A path as the wire has it."""
    try:
        return path if isinstance(path, str) and path.encode() else path.decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        return {"$": "bytes", "b64": base64.b64encode(os.fsencode(path)).decode()}


def raw(value):
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def kind_of(st):
    return "directory" if stat.S_ISDIR(st.st_mode) else "symlink" if stat.S_ISLNK(st.st_mode) else "file"


def identity(path):
    st = os.lstat(path)
    return {"dev": st.st_dev, "ino": st.st_ino, "size": st.st_size, "mtimeNs": st.st_mtime_ns, "ctimeNs": st.st_ctime_ns}


def make_entry(full, what):
    if what is None:
        os.makedirs(full, exist_ok=True)
    elif callable(what):
        what(full)
    elif isinstance(what, tuple) and what[0] == "link":
        os.symlink(what[1], full)
    elif isinstance(what, tuple):
        if len(what) == 2:
            os.makedirs(full, exist_ok=True)
        else:
            make_entry(full, what[2])
        os.chmod(full, what[1])
    else:
        with open(full, "wb") as file:
            file.write(what.encode() if isinstance(what, str) else what)


def own(root):
    for top, folders, names in os.walk(os.fsencode(root)):
        os.lchown(top, OWNER, OWNER)
        for name in names + folders:
            os.lchown(os.path.join(top, name), OWNER, OWNER)


def snapshot(root, times=True):
    """{path: state}, with everything visible: kind, mode, owner, time, contents, and hard links."""
    rows, twins = {}, {}
    root = os.fsencode(root)
    for top, folders, names in os.walk(root):
        for name in folders + names + ([b""] if top == root else []):
            full = os.path.join(top, name)
            st = os.lstat(full)
            what = None
            if stat.S_ISREG(st.st_mode):
                with open(full, "rb") as file:
                    what = file.read()
            elif stat.S_ISLNK(st.st_mode):
                what = os.readlink(full)
            path = os.path.relpath(full, root)
            when = st.st_mtime_ns if times or not stat.S_ISDIR(st.st_mode) else 0
            twins.setdefault(st.st_ino, []).append(path)
            rows[path] = (stat.S_IFMT(st.st_mode), st.st_mode & 0o7777, st.st_uid, st.st_gid, when, what, st.st_ino)
    return {path: row[:6] + (tuple(sorted(twins[row[6]])),) for path, row in rows.items()}


def difference(a, b):
    """The difference of two snapshots, in short."""
    return {path: (a.get(path), b.get(path)) for path in sorted(set(a) | set(b)) if a.get(path) != b.get(path)}


def apply_plainly(root, contents, changes):
    root = os.fsencode(root)
    at = lambda value: os.path.join(root, raw(value))
    aside = os.fsencode(tempfile.mkdtemp(dir=os.path.dirname(root)))
    leaving = sorted([raw(c["path"]) if c["type"] == "deleted" else raw(c["from"]) for c in changes if c["type"] in ("deleted", "renamed")],
                     reverse=True)
    renamed = {raw(c["from"]): c for c in changes if c["type"] == "renamed"}
    for i, path in enumerate(leaving):
        if path in renamed:
            renamed[path]["aside"] = os.path.join(aside, b"%d" % i)
            os.rename(os.path.join(root, path), renamed[path]["aside"])
        elif os.path.isdir(os.path.join(root, path)) and not os.path.islink(os.path.join(root, path)):
            os.rmdir(os.path.join(root, path))
        else:
            os.unlink(os.path.join(root, path))
    order = {"created": 0, "renamed": 1, "modified": 2}
    rest = sorted((c for c in changes if c["type"] != "deleted"), key=lambda c: (raw(c["path"]), order[c["type"]]))
    late, links = [], []
    for c in rest:
        path = at(c["path"])
        if c["type"] == "renamed":
            os.rename(c.pop("aside"), path)
        elif "link" in c:
            links.append(c)
        elif c["kind"] == "directory":
            os.makedirs(path, 0o700, exist_ok=True)
            late.append(c)
        elif c["kind"] == "symlink":
            if os.path.lexists(path):
                os.unlink(path)
            os.symlink(raw(c["target"]), path)
            os.utime(path, ns=(0, c["mtimeNs"]), follow_symlinks=False)
        else:
            if "contents" in c:
                with open(os.path.join(contents, c["contents"]), "rb") as source, open(path + b".new", "wb") as to:
                    to.write(source.read())
                os.rename(path + b".new", path)
            os.chmod(path, c["mode"])
            os.utime(path, ns=(0, c["mtimeNs"]))
    for c in links:
        if os.path.lexists(at(c["path"])):
            os.unlink(at(c["path"]))
        os.link(at(c["link"]), at(c["path"]))
    for c in reversed(late):
        os.chmod(at(c["path"]), c["mode"])
        os.utime(at(c["path"]), ns=(0, c["mtimeNs"]))
    os.rmdir(aside)
    own(root)


def copy_tree(source, to):
    """With times and links."""
    subprocess.run(["cp", "-a", source, to], check=True)


# ---- one change list with everything in it ----------------------------------------------------------------------------

ODD = ["späce né", b"\xff\xfe", "-rf", "new\nline", "a" * 255, " ", "\"quoted\\", "x.cloche-sync"]


def every_kind_tree():
    tree = {
        "same.txt": "same", "m.txt": "to be modified", "mode.txt": "mode only", "del.txt": "deleted", "r1.txt": "renamed",
        "swap1": "one", "swap2": "two", "sd1/f": "in one", "sd2/g": "in two",
        "d/x": "x", "d/y": "y", "d/z": "z", "d/deep/q": "q", "dd/1": "1", "dd/2": "2", "dd/in/3": "3",
        "dirfile/a": "a", "dirfile/b": "b", "filedir": "a file", "l1": "linked", "s": ("link", "same.txt"), "sdel": ("link", "nowhere"),
        "rm1": "renamed and modified", "ov1": "goes over", "ov2": "is covered", "modedir": None, "out/of": "moved out", "out/stay": "stays",
        "big": os.urandom(300000), "empty": "x", "ro": ("mode", 0o700),
    }
    for i, name in enumerate(ODD):
        tree[os.path.join(b"odd", os.fsencode(name))] = f"odd {i}"
    return tree


def every_kind(s):
    """The list for every_kind_tree()."""
    rows = [
        s.modified("m.txt", "modified"), s.chmod("mode.txt", 0o600), s.deleted("del.txt"), s.renamed("r1.txt", "r2.txt"),
        s.renamed("swap1", "swap2"), s.renamed("swap2", "swap1"), s.renamed("sd1", "sd2"), s.renamed("sd2", "sd1"),
        s.renamed("d", "e"), s.modified("e/y", "new y", at="d/y"), s.deleted("d/z"), s.created("e/w", "w"), s.renamed("d/deep/q", "q"),
        s.deleted("dd/1"), s.deleted("dd/2"), s.deleted("dd/in/3"), s.deleted("dd/in"), s.deleted("dd"),
        s.deleted("dirfile/a"), s.deleted("dirfile/b"), s.deleted("dirfile"), s.created("dirfile", "now a file"),
        s.deleted("filedir"), s.directory("filedir"), s.created("filedir/inner", "inner"),
        s.link("l2", "l1"), s.created("n1", "new and linked"), s.link("a-link", "n1"),
        {**s.symlink("s", "m.txt"), "type": "modified", "origin": s.origin("s")}, s.deleted("sdel"), s.symlink("snew", b"\xff/../.."),
        s.renamed("rm1", "rm2"), s.modified("rm2", "renamed, then modified", at="rm1"),
        {**s.renamed("ov1", "ov2"), "over": True, "overOrigin": s.origin("ov2")},
        s.chmod("modedir", 0o511), s.renamed("out/of", "n/a/b/of"), s.directory("n"), s.directory("n/a"), s.directory("n/a/b", 0o555),
        s.created("n/a/b/c", "deep", 0o400), s.modified("big", os.urandom(200000)), s.modified("empty", b""),
        s.chmod("ro", 0o500), s.created("ro/new", "in what is read-only then"), s.created("exec", "#!/bin/sh\n", 0o755), s.created("nothing", b""),
    ]
    for i, name in enumerate(ODD):
        path = os.path.join(b"odd", os.fsencode(name))
        rows.append([s.modified(path, f"changed {i}"), s.deleted(path), s.renamed(path, os.path.join(b"odd", b"r%d" % i))][i % 3])
        if i % 2:
            rows.append(s.created(os.path.join(b"odd2", os.fsencode(name)), f"new {i}"))
    rows.append(s.directory("odd2"))
    return rows


class Trees:
    """The tree of every_kind() and its planned changes; rebuilt after a completed run."""

    def __init__(self, s):
        self.s = s
        os.rename(s.root, s.folder + "/master")
        self.renew()

    def renew(self):
        for number in os.listdir(self.s.contents):
            os.unlink(os.path.join(self.s.contents, number))
        for name in ("/root", "/expected"):
            shutil.rmtree(self.s.folder + name, ignore_errors=True)
        copy_tree(self.s.folder + "/master", self.s.root)
        copy_tree(self.s.folder + "/master", self.s.folder + "/expected")
        self.old = self.s.snapshot()
        self.changes = every_kind(self.s)
        apply_plainly(self.s.folder + "/expected", self.s.contents, copy.deepcopy(self.changes))
        self.new = snapshot(self.s.folder + "/expected", times=False)

    def state(self):
        """old or new; any other state is a failure."""
        now = self.s.snapshot()
        assert STAGE not in now, "the journal is still there"
        # The times of the root are the one thing that a killed process cannot have put back, for it was not known yet.
        if not difference({k: v for k, v in now.items() if k != b"."}, {k: v for k, v in self.old.items() if k != b"."}):
            return "old"
        now = self.s.snapshot(times=False)
        assert not difference(now, self.new), difference(now, self.new)
        self.renew()
        return "new"
