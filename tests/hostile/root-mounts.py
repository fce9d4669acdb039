"""Directories of the host and volumes in sandboxes with root: rules, owners and other sandboxes stay as they are, and the host too. Each wall has its twin."""
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import guest_acts
from cloche import equal, need_writable_roots
from image_trees import make_store
from rpc import HANG_MS, Daemon

ACTS = guest_acts.ACTS + r"""
import subprocess
def get(path):
    with open(path) as file: return file.read()
def owner(path): return str((os.stat(path).st_uid, os.stat(path).st_gid))
def as_user(do, uid=1000):
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        try: said = do() or 'done'
        except OSError as e: said = errno.errorcode[e.errno]
        os.write(theirs, str(said).encode()); os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file: said = file.read()
    os.wait()
    return said
"""
# /host is a directory under rules: modify is permitted, create is not, *.key is hidden; /read is read-only.
MOUNTED = r"""
act('owner', lambda: owner('/host/f')); act('modify', lambda: put('/host/f', '+')); act('read', lambda: get('/host/f'))
act('shut', lambda: get('/host/shut')); act('hidden', lambda: get('/host/x.key')); act('lists', lambda: str('x.key' in os.listdir('/host')))
act('create', lambda: put('/host/new', 'x')); act('delete', lambda: os.unlink('/host/f')); act('link', lambda: os.link('/host/f', '/host/linked'))
act('chown', lambda: os.chown('/host/f', 33, 33)); act('chown-beyond', lambda: os.chown('/host/f', 65535, 65535))
act('setid', lambda: (os.chmod('/host/f', 0o6755), oct(os.stat('/host/f').st_mode & 0o7777))[1])
act('device', lambda: os.mknod('/host/f2', stat.S_IFCHR | 0o666, os.makedev(1, 3))); act('capability', lambda: os.setxattr('/host/f', 'security.capability', b'\1\0\0\2' + bytes(16)))
act('trusted', lambda: os.setxattr('/host/f', 'trusted.overlay.opaque', b'y'))
act('read-only', lambda: put('/read/f', 'x')); act('read-only-new', lambda: put('/read/new', 'x')); act('read-only-mode', lambda: os.chmod('/read/f', 0o777)); act('read-only-read', lambda: get('/read/f'))
act('unmount', lambda: call(166, b'/host', 2)); act('move', lambda: os.rename('/host', '/moved')); act('remove', lambda: os.rmdir('/host'))
act('user', lambda: as_user(lambda: get('/host/f'))); act('user-writes', lambda: as_user(lambda: put('/host/g', 'x')))
act('control', lambda: open('/dev/fuse', 'r+b').close())
"""
SHOWN = {"owner": "(0, 0)", "modify": "done", "read": "host+", "shut": "EACCES", "hidden": "EACCES", "lists": "False", "create": "EACCES", "delete": "EACCES", "link": "EACCES",
         "chown": "EPERM", "chown-beyond": "EPERM", "setid": "0o755", "device": "EPERM", "capability": "EPERM", "trusted": "EPERM", "read-only": "EACCES", "read-only-new": "EACCES",
         "read-only-mode": "EACCES", "read-only-read": "read", "unmount": "EPERM", "move": "EBUSY", "remove": "EBUSY", "user": "host+", "user-writes": "EACCES", "control": "ENOENT"}
VOLUME = r"""
act('put', lambda: put('/data/root', 'r')); act('owner', lambda: owner('/data/root')); act('chown', lambda: os.chown('/data/root', 33, 33)); act('owned', lambda: owner('/data/root'))
act('chown-beyond', lambda: os.chown('/data/root', 70000, 70000)); act('user', lambda: as_user(lambda: put('/data/user', 'u'))); act('users', lambda: owner('/data/user'))
act('setid', lambda: (os.chmod('/data/root', 0o6755), oct(os.stat('/data/root').st_mode & 0o7777))[1])
act('device', lambda: os.mknod('/data/null', stat.S_IFCHR | 0o666, os.makedev(1, 3))); act('capability', lambda: os.setxattr('/data/root', 'security.capability', b'\1\0\0\2' + bytes(16)))
act('trusted', lambda: os.setxattr('/data/root', 'trusted.x', b'y')); act('unmount', lambda: call(166, b'/data', 2)); act('move', lambda: os.rename('/data', '/moved'))
act('immutable', lambda: __import__('fcntl').ioctl(os.open('/data/root', os.O_RDONLY), 0x40086602, (0x10).to_bytes(8, 'little')) and 'done')
act('others', lambda: put('/data/plain', '+')); act('plain', lambda: owner('/data/plain'))
"""
IN_VOLUME = {"put": "done", "owner": "(0, 0)", "chown": "done", "owned": "(33, 33)", "chown-beyond": "EINVAL", "user": "done", "users": "(1000, 1000)", "setid": "0o6755", "device": "EPERM",
             "capability": "EPERM", "trusted": "EPERM", "unmount": "EPERM", "move": "EBUSY", "immutable": "EPERM", "others": "done", "plain": "(1000, 1000)"}
# In a sandbox without root, which has the same volume: root's files are nobody's, and its own are its.
BESIDE = r"""
act('owner', lambda: owner('/data/root')); act('read', lambda: get('/data/root')); act('write', lambda: put('/data/root', 'x')); act('remove', lambda: os.unlink('/data/root')); act('chmod', lambda: os.chmod('/data/root', 0o777))
act('run', lambda: subprocess.run(['/data/setid', '-c', 'import os; print(os.geteuid())'], stdout=subprocess.PIPE, text=True).stdout.strip())
act('own', lambda: put('/data/plain', '-')); act('own-owner', lambda: owner('/data/plain'))
"""
SEEN_BESIDE = {"owner": "(65534, 65534)", "read": "r", "write": "refused", "remove": "refused", "chmod": "refused", "run": "1000", "own": "done", "own-owner": "(1000, 1000)"}


def run(frames, sandbox, script):
    frames.call("file.write", sandbox=sandbox, path="/tmp/acts.py", content=ACTS + script)
    said = frames.call("exec", sandbox=sandbox, command="python3 /tmp/acts.py", timeoutMs=HANG_MS)
    assert said["exitCode"] == 0, said
    return guest_acts.words_of(said["stdout"])


def make_host():
    host = tempfile.mkdtemp(prefix="cloched-root-mounts-")
    os.chmod(host, 0o755)
    for folder in ("host", "read"):
        os.mkdir(f"{host}/{folder}")
    for name, text, mode in (("host/f", "host", 0o644), ("host/g", "g", 0o644), ("host/shut", "secret", 0o000), ("host/x.key", "secret", 0o644), ("read/f", "read", 0o644)):
        with open(f"{host}/{name}", "w") as file:
            file.write(text)
        os.chmod(f"{host}/{name}", mode)
        os.chown(f"{host}/{name}", 4321, 4321)
    for folder in ("host", "read"):
        os.chown(f"{host}/{folder}", 4321, 4321)
    return host


def facts(host):
    return sorted((path, os.lstat(f"{here}/{path}").st_mode, os.lstat(f"{here}/{path}").st_uid, os.lstat(f"{here}/{path}").st_mtime_ns) for here, folders, names in os.walk(host) for path in folders + names)


def test_mounts():
    need_writable_roots()
    store, (digest,) = make_store(1)
    host = make_host()
    before = facts(host)
    mounts = {"dirs": {"/host": {"path": f"{host}/host", "permissions": {"default": {"modify": True}, "rules": [{"pattern": "*.key", "deny": ["*"]}]}}, "/read": f"{host}/read"}}
    try:
        with Daemon("--images", store, "--mount-root", host) as daemon, daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="s", image=digest, root=True, mount=mounts)
            equal(run(frames, "s", MOUNTED), SHOWN)
            frames.call("context.create", sandbox="s", context="c", language="python")
            equal(frames.call("context.run", sandbox="s", context="c", code="print(open('/host/f').read(), open('/host/g', 'a').write('cell'))")["stdout"], "host+ 4\n")
            equal(frames.call("exec", sandbox="s", command="echo $(</host/g)")["stdout"], "gcell\n")
            equal(facts(host), before)
    finally:
        shutil.rmtree(host)


def test_volumes():
    need_writable_roots()
    store, (digest,) = make_store(1)
    shutil.copy(os.path.realpath(f"{store}/trees/{digest}/usr/bin/python3"), f"{store}/trees/{digest}/usr/bin/copied")
    with Daemon("--images", store, "--volumes", os.path.abspath("volumes")) as daemon, daemon.frames() as frames:
        frames.call("volume.create", volume="data", sizeBytes=64 << 20)
        at = [{"name": "data", "path": "/data"}]
        frames.call("sandbox.create", sandbox="plain", image=digest, volumes=at)
        equal(run(frames, "plain", "act('put', lambda: put('/data/plain', 'p'))"), {"put": "done"})
        frames.call("sandbox.create", sandbox="s", image=digest, root=True, volumes=at)
        run(frames, "s", "import shutil; shutil.copy('/usr/bin/copied', '/data/setid'); os.chmod('/data/setid', 0o6755)")
        equal(run(frames, "s", VOLUME), IN_VOLUME)
        equal({name: "refused" if said in ("EPERM", "EACCES", "EOVERFLOW") else said for name, said in run(frames, "plain", BESIDE).items()}, SEEN_BESIDE)
        # Owners are kept for the next sandbox with root; a context sees the same.
        frames.call("sandbox.delete", sandbox="s")
        frames.call("sandbox.create", sandbox="t", image=digest, root=True, volumes=at)
        frames.call("context.create", sandbox="t", context="c", language="python")
        equal(frames.call("context.run", sandbox="t", context="c", code="import os; s = os.stat('/data/root'); print(s.st_uid, s.st_gid, open('/data/plain').read())")["stdout"], "33 33 p+-\n")


def test_links_of_an_image_lead_no_mount_to_the_host():
    """The places of mounts are made while the host's root is still there."""
    need_writable_roots()
    store, (digest,) = make_store(1)
    tree, host = f"{store}/trees/{digest}", tempfile.mkdtemp(prefix="cloched-root-mounts-", dir=os.getcwd())
    os.chmod(host, 0o777)
    os.makedirs(f"{tree}/home/real")
    for name, target in (("home/link", host), ("home/up", "../" * 20 + host[1:]), ("data", host), ("srv", f"{host}/none")):
        os.symlink(target, f"{tree}/{name}")
    with Daemon("--images", store, "--volumes", os.path.abspath("volumes")) as daemon, daemon.frames() as frames:
        frames.call("volume.create", volume="v", sizeBytes=64 << 20)
        at = lambda path: {"sandbox": "s", "image": digest, "root": True, "volumes": [{"name": "v", "path": path}]}
        for path, said in (("/home/link/new", "a link of the image"), ("/home/link/new/deep", "a link of the image"), ("/home/up/new", "a link of the image"), ("/home/link", "a link of the image"),
                           ("/data", "would cover"), ("/data/new", "would cover"), ("/srv", "would cover"), ("/srv/new", "would cover")):
            refused = frames.refused("sandbox.create", **at(path))
            assert (refused.name, said in refused.message) == ("invalid_argument", True), (path, refused.message)
        equal(os.listdir(host), [])
        frames.call("sandbox.create", **at("/home/real"))  # the twin
