"""Every right, operation by operation, as three languages meet it: an act works with the rights it needs and with no others, and fails
as the language reports it when one of them is missing."""
import os
from cloche import call, equal
from mounts import EVERYTHING, PYTHON_PRELUDE, allow, at, bash, make, state, tree

state()

# The rights that an act needs (src/helpers/fs/README.md); its name is that of its own file or directory on the host.
NEEDS = {
    "stat": [], "read": ["read"], "map": ["read"], "readlink": ["read"], "execute": ["read"], "list": ["list"],
    "create": ["create"], "mkdir": ["create"], "symlink": ["create"], "link": ["read", "create"],
    "append": ["modify"], "overwrite": ["modify"], "truncate": ["modify"], "open-truncate": ["modify"], "chmod": ["modify"],
    "utimes": ["modify"], "map-write": ["read", "modify"], "allocate": ["modify"], "attribute": ["modify"],
    "unlink": ["delete"], "rmdir": ["delete"], "rename": ["delete", "create"], "rename-directory": ["delete", "create"],
    "replace": ["delete", "modify"],
}
PYTHON = PYTHON_PRELUDE + '''
def shared(path, flags, protection):
    fd = os.open(path, flags)
    try:
        with mmap.mmap(fd, 4, mmap.MAP_SHARED, protection) as view:
            if protection & mmap.PROT_WRITE:
                view[0:1] = b"X"
            return view[0]
    finally:
        os.close(fd)

def fd_do(path, flags, function):
    fd = os.open(path, flags)
    try:
        function(fd)
    finally:
        os.close(fd)

def f():
    os.chdir("/data")
    return {
        "stat": attempt(os.stat, "stat"), "read": attempt(get, "read"), "map": attempt(shared, "map", os.O_RDONLY, mmap.PROT_READ),
        "readlink": attempt(os.readlink, "readlink"), "execute": attempt(os.posix_spawn, "execute", ["execute"], {}),
        "list": attempt(os.listdir, "list"), "create": attempt(put, "created", "x"), "mkdir": attempt(os.mkdir, "made"),
        "symlink": attempt(os.symlink, "to", "linked"), "link": attempt(os.link, "link", "other"),
        "append": attempt(put, "append", "x", "a"), "overwrite": attempt(fd_do, "overwrite", os.O_WRONLY, lambda fd: os.write(fd, b"x")),
        "truncate": attempt(os.truncate, "truncate", 1), "open-truncate": attempt(put, "open-truncate", ""),
        "chmod": attempt(os.chmod, "chmod", 0o600), "utimes": attempt(os.utime, "utimes", (1, 1)),
        "map-write": attempt(shared, "map-write", os.O_RDWR, mmap.PROT_READ | mmap.PROT_WRITE),
        "allocate": attempt(fd_do, "allocate", os.O_WRONLY, lambda fd: os.posix_fallocate(fd, 0, 100)),
        "attribute": attempt(os.setxattr, "attribute", "user.x", b"1"), "unlink": attempt(os.unlink, "unlink"),
        "rmdir": attempt(os.rmdir, "rmdir"), "rename": attempt(os.rename, "rename", "renamed"),
        "rename-directory": attempt(os.rename, "rename-directory", "renamed-directory"), "replace": attempt(os.replace, "replace", "replaced"),
    }
'''
NODE = '''
const fs = require('fs');
function attempt(act) { try { act(); return 'ok'; } catch (e) { if (!e.code) throw e; return e.code; } }
function f() {
  process.chdir('/data');
  return {
    stat: attempt(() => fs.statSync('stat')), read: attempt(() => fs.readFileSync('read')), readlink: attempt(() => fs.readlinkSync('readlink')),
    list: attempt(() => fs.readdirSync('list')), create: attempt(() => fs.writeFileSync('created', 'x')), mkdir: attempt(() => fs.mkdirSync('made')),
    symlink: attempt(() => fs.symlinkSync('to', 'linked')), link: attempt(() => fs.linkSync('link', 'other')),
    append: attempt(() => fs.appendFileSync('append', 'x')), overwrite: attempt(() => fs.writeFileSync('overwrite', 'x', {flag: fs.constants.O_WRONLY})),
    truncate: attempt(() => fs.ftruncateSync(fs.openSync('truncate', fs.constants.O_WRONLY), 1)),
    'open-truncate': attempt(() => fs.writeFileSync('open-truncate', '')),
    chmod: attempt(() => fs.chmodSync('chmod', 0o600)), utimes: attempt(() => fs.utimesSync('utimes', 1, 1)),
    unlink: attempt(() => fs.unlinkSync('unlink')), rmdir: attempt(() => fs.rmdirSync('rmdir')), rename: attempt(() => fs.renameSync('rename', 'renamed')),
    'rename-directory': attempt(() => fs.renameSync('rename-directory', 'renamed-directory')), replace: attempt(() => fs.renameSync('replace', 'replaced')),
  };
}
'''
BASH = '''
cd /data
attempt() {
        local name=$1; shift
        if said=$(LC_ALL=C "$@" 2>&1 >/dev/null); then echo "$name ok"; else case $said in *"Permission denied"*) echo "$name EACCES";; *) echo "$name $said";; esac; fi
}
attempt stat stat -c %F stat; attempt read cat read; attempt readlink readlink -v readlink; attempt list ls list
attempt create bash -c ': > created'; attempt mkdir mkdir made; attempt symlink ln -s to linked; attempt link ln link other
attempt append bash -c 'echo x >> append'; attempt overwrite dd if=/dev/zero of=overwrite bs=1 count=1 conv=notrunc status=none
attempt truncate truncate -s 1 truncate; attempt open-truncate bash -c ': > open-truncate'; attempt chmod chmod 600 chmod; attempt utimes touch -d @1 utimes
attempt unlink rm -f unlink; attempt rmdir rmdir rmdir; attempt rename mv -n rename renamed; attempt rename-directory mv -n rename-directory renamed-directory
attempt replace mv -f replace replaced
'''


def host():
    directories = {"list/x": "x", "rmdir/": None, "rename-directory/x": "x", "readlink": ("to",)}
    files = {name: "text" for name in [*NEEDS, "replaced"] if name not in ("list", "rmdir", "rename-directory", "readlink")}
    source = make({**directories, **files, "execute": "#!/bin/true\n"})
    os.chmod(f"{source}/execute", 0o755)
    return source


def expected(rights, acts):
    return {act: "ok" if set(NEEDS[act]) <= set(rights) else "EACCES" for act in acts}


def matrix(acts_with):
    """With all, with none, and with all but each: the host is as it was, for nothing is synced."""
    host()
    before = tree()
    for rights in [list(EVERYTHING), []] + [[r for r in EVERYTHING if r != missing] for missing in EVERYTHING]:
        found = acts_with(at(rules=allow(**dict.fromkeys(rights, True))))
        equal(found, expected(rights, found), f"with {rights}")
        equal(tree(), before)


def in_python(mount):
    result = call("python", PYTHON, "f", mount=mount, sync="manual")
    equal(result.status, "success", result)
    assert set(result.value) == set(NEEDS)
    return result.value


def in_node(mount):
    result = call("javascript", NODE, "f", mount=mount, sync="manual")
    equal(result.status, "success", result)
    return result.value


def in_bash(mount):
    finished = bash(BASH, mount, sync="manual")
    equal(finished.code, 0, finished)
    return dict(line.split(" ", 1) for line in finished.stdout.decode().splitlines())


def test_python():
    matrix(in_python)


def test_node():
    matrix(in_node)


def test_bash():
    matrix(in_bash)


def test_the_default_is_to_look_only():
    host()
    equal(in_python(at()), expected(["read", "list"], NEEDS))


def test_denials_of_a_language_name_the_path():
    make({"a": "text"})
    equal(call("python", "def f(): open('/data/a', 'w')", "f", mount=at()).error["type"], "PermissionError")
    error = call("javascript", "function f() { require('fs').writeFileSync('/data/a', '') }", "f", mount=at()).error
    assert "EACCES" in error["message"] and "/data/a" in error["message"], error
    assert b"/data/a: Permission denied" in bash("echo x > /data/a").stderr


def test_rights_hold_for_children_and_reopened_descriptors():
    make({"a": "text"})
    result = call("python", PYTHON_PRELUDE + """
import subprocess
def f():
    fd = os.open("/data/a", os.O_RDONLY)
    return [attempt(os.open, f"/proc/self/fd/{fd}", os.O_WRONLY), attempt(os.ftruncate, fd, 0), attempt(os.fchmod, fd, 0o777),
            subprocess.run(["sh", "-c", "echo x > /data/a"], stderr=subprocess.DEVNULL).returncode != 0, get("/data/a")]
""", "f", mount=at())
    equal(result.value, ["EACCES", "EINVAL", "EACCES", True, "text"], result)
    equal(tree(), {"a": b"text"})
