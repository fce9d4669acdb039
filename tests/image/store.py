"""cloche-image under test: a store, archives that Python's tarfile makes, and the control socket.

with Store() as s: s.load(tar([file("a", "1")])); s.tree("x") is the imported tree's directory."""
import contextlib
import gzip
import hashlib
import io
import json
import os
import socket
import stat
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sync"))
from synced import Control, Gone, Refused, leave_namespace, mount  # noqa: F401

BUILD = os.path.abspath(os.environ["CLOCHE_BUILD"])
MACHINE = {"x86_64": "amd64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
LAYER, CONFIG = "application/vnd.oci.image.layer.v1.tar", "application/vnd.oci.image.config.v1+json"
MANIFEST, INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"


def sha(data):
    return hashlib.sha256(data).hexdigest()


# ---- members ----------------------------------------------------------------------------------------------------------

def member(name, kind=tarfile.REGTYPE, data=b"", link="", mode=None, uid=0, gid=0, mtime=1_600_000_000, pax=None, size=None):
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.uid, info.gid, info.mtime = kind, link, uid, gid, mtime
    info.mode = mode if mode is not None else 0o755 if kind == tarfile.DIRTYPE else 0o644
    info.size = len(data) if size is None else size
    info.pax_headers = pax or {}
    return info, data


def file(name, data="", **options):
    return member(name, data=data.encode() if isinstance(data, str) else data, **options)


def directory(name, **options):
    return member(name, tarfile.DIRTYPE, **options)


def link(name, to, **options):
    return member(name, tarfile.SYMTYPE, link=to, **options)


def hard(name, to, **options):
    return member(name, tarfile.LNKTYPE, link=to, **options)


def xattr(**names):
    """Records of pax headers; __ stands for a dot."""
    return {"SCHILY.xattr." + name.replace("__", "."): value for name, value in names.items()}


def tar(members):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data) if data else None)
    return out.getvalue()


# ---- images -----------------------------------------------------------------------------------------------------------

def config_of(layers, config=None, **changes):
    return {"architecture": MACHINE, "os": "linux", "config": config or {}, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + sha(layer) for layer in layers]}, **changes}


def descriptor(data, kind, **more):
    return {"mediaType": kind, "digest": "sha256:" + sha(data), "size": len(data), **more}


class Image:
    """An OCI layout or docker archive of plain layers: files by name. change it before it is packed."""

    def __init__(self, layers, config=None, tag="v1", compress=None, config_changes=None):
        self.layers = layers
        blobs = [compress(layer) if compress else layer for layer in layers]
        self.config = json.dumps(config_of(layers, config, **(config_changes or {}))).encode()
        self.manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": descriptor(self.config, CONFIG),
                         "layers": [descriptor(blob, LAYER + ("+gzip" if compress else "")) for blob in blobs]}
        self.files = {"blobs/sha256/" + sha(data): data for data in [self.config, *blobs]}
        self.tag = tag
        self.seal()

    def seal(self):
        """Write manifest and index anew."""
        manifest = json.dumps(self.manifest).encode()
        self.files["blobs/sha256/" + sha(manifest)] = manifest
        self.row = descriptor(manifest, MANIFEST, annotations={"org.opencontainers.image.ref.name": self.tag})
        self.set_index([self.row])
        self.files["oci-layout"] = b'{"imageLayoutVersion": "1.0.0"}'

    def set_index(self, rows):
        self.files["index.json"] = json.dumps({"schemaVersion": 2, "manifests": rows}).encode()

    def pack(self, order=sorted):
        return tar([file(name, self.files[name]) for name in order(self.files)])

    def write(self, path):
        for name, data in self.files.items():
            os.makedirs(os.path.dirname(os.path.join(path, name)), exist_ok=True)
            with open(os.path.join(path, name), "wb") as out:
                out.write(data)
        return path


def docker(layers, config=None, tags=("x:v1",), names=None):
    """The files of `docker save` before it wrote OCI layouts."""
    text = json.dumps(config_of(layers, config)).encode()
    names = names or [sha(layer) + "/layer.tar" for layer in layers]
    files = {sha(text) + ".json": text, **dict(zip(names, layers))}
    files["manifest.json"] = json.dumps([{"Config": sha(text) + ".json", "RepoTags": list(tags), "Layers": names}]).encode()
    return files


# ---- the store --------------------------------------------------------------------------------------------------------

class Store:
    """size: of a tmpfs for the store."""

    def __init__(self, size=None, program="cloche-image", user=None):
        self.folder = tempfile.mkdtemp(prefix="cloche-image-")
        self.path = os.path.join(self.folder, "store")
        self.program, self.user, self.is_mounted = program, user, bool(size)
        os.mkdir(self.path, 0o700)
        if size:
            leave_namespace()
            mount("tmpfs", self.path, "tmpfs", 6, f"size={size},mode=700")
        if user:
            os.chmod(self.folder, 0o755)
            os.chown(self.path, user, user)

    @contextlib.contextmanager
    def process(self, data=os.devnull, crash=None, words=()):
        """data: a path, an open file, or bytes that are sent through a pipe."""
        pipe, sender = None, None
        if isinstance(data, bytes):
            pipe, to = os.pipe()
            sender = os.fork()
            if sender == 0:
                os.close(pipe)
                try:
                    with open(to, "wb") as out:
                        out.write(data)
                except BrokenPipeError:
                    pass
                os._exit(0)
            os.close(to)
        opened = None if pipe is not None or hasattr(data, "fileno") else os.open(data, os.O_RDONLY)
        fd = pipe if pipe is not None else opened if opened is not None else data.fileno()
        store, (near, far) = os.open(self.path, os.O_RDONLY), socket.socketpair()
        command = [os.path.join(BUILD, self.program), str(store), str(fd), str(far.fileno()), *words]
        environment = {**os.environ, **({"CLOCHE_SYNC_CRASH": str(crash)} if crash else {})}
        process = subprocess.Popen(command, pass_fds=[store, fd, far.fileno()], env=environment,
                                   **({"user": self.user, "group": self.user, "extra_groups": []} if self.user else {}))
        for each in [store, *([pipe] if pipe is not None else []), *([opened] if opened is not None else [])]:
            os.close(each)
        far.close()
        control = Control(near)
        control.process = process
        try:
            yield control
        finally:
            near.close()
            process.wait()
            if sender:
                os.waitpid(sender, 0)

    def ask(self, method, data=os.devnull, crash=None, **params):
        with self.process(data, crash) as control:
            control.call("open")
            return control.call(method, **params)

    def load(self, data, name="x", tag=None, crash=None):
        """Import bytes (through a pipe), a path, or an Image (as a file)."""
        if isinstance(data, Image):
            data = self.write("source.tar", data.pack())
        return self.ask("import", data, crash, source="the source", name=name, tag=tag)

    def refused(self, data, *words, name="x", tag=None):
        """The import is refused with these words, and leaves the store as it was."""
        before = self.everything()
        try:
            self.load(data, name, tag)
        except Refused as e:
            for word in words:
                assert word in str(e), (word, str(e))
            assert self.everything() == before, (before, self.everything())
            return str(e)
        raise AssertionError("it was imported")

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as out:
            out.write(data)
        return path

    def tree(self, name="x"):
        return os.path.join(self.path, "trees", self.ask("inspect", name=name)["tree"].replace(":", "-"))

    def everything(self):
        """All paths of the store, without the folders that each store has."""
        found = []
        for top, folders, names in os.walk(os.fsencode(self.path)):
            found += [os.path.relpath(os.path.join(top, name), os.fsencode(self.path)) for name in folders + names]
        return sorted(set(found) - {b"trees", b"images", b"incoming", b"lock"})

    def leftovers(self):
        """True if something is there that no image names."""
        return bool(os.listdir(self.path + "/incoming")) or any(name.endswith(".new") for name in os.listdir(self.path + "/images") + os.listdir(self.path))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.is_mounted:
            subprocess.run(["umount", "-l", self.path], check=True)
        subprocess.run(["rm", "-rf", self.folder], check=True)  # of any depth


def feed(sink, data):
    """Write an archive without an end, until its reader is gone."""
    try:
        while True:  # more members than there is room for
            sink.write(data[:-10240])
    except BrokenPipeError:
        pass


def describe(tree):
    """Path to (kind, mode, contents or target) of each entry below a tree."""
    found = {}
    for top, folders, names in os.walk(os.fsencode(tree)):
        for name in folders + names:
            path = os.path.join(top, name)
            status = os.lstat(path)
            kind = {stat.S_IFDIR: "d", stat.S_IFREG: "f", stat.S_IFLNK: "l"}.get(stat.S_IFMT(status.st_mode), "?")
            with contextlib.ExitStack() as stack:
                contents = os.readlink(path) if kind == "l" else stack.enter_context(open(path, "rb")).read() if kind == "f" else None
            found[os.fsdecode(os.path.relpath(path, os.fsencode(tree)))] = (kind, stat.S_IMODE(status.st_mode), contents)
    return found


def paths(tree):
    return sorted(describe(tree))


def gz(data):
    return gzip.compress(data, mtime=0)
