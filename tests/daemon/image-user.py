"""The `User` of an image: code runs as it, in runs, prefixes, sandboxes, contexts and their forks, and it is one user all the same."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounts import ALL, Directory, mount
from rpc import Daemon
from volume_client import SMALL, Volumes, at
from image_trees import make_store
from cloche import equal, need_root, need_writable_roots

APP = {"runsAs": {"uid": 1001, "gid": 50, "name": "app", "home": "/home/app"}}
IDS = """import getpass, os, pwd, grp
def ids():
    row = pwd.getpwuid(os.getuid())
    open(os.path.expanduser('~/x'), 'w').close()
    made = os.stat('/home/cloche/x')
    return [list(os.getresuid()), list(os.getresgid()), row.pw_name, row.pw_dir, grp.getgrgid(os.getgid()).gr_name, os.environ['HOME'], os.environ['USER'], getpass.getuser(), made.st_uid, made.st_gid]
"""
CALL = {"language": "python", "code": IDS, "function": "ids"}
EXPECTED = [[1001] * 3, [50] * 3, "app", "/home/app", "app", "/home/app", "app", "app", 1001, 50]
OWN = [[1000] * 3, [1000] * 3, "cloche", "/home/cloche", "cloche", "/home/cloche", "cloche", "cloche", 1000, 1000]


def shell(frames, command, sandbox="s", **more):
    done = frames.call("exec", sandbox=sandbox, command=command, **more)
    return done["stdout"] + done["stderr"]


def test_runs_and_prefixes():
    store, (one,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for warm in (True, False, True):
            equal(frames.call("call", image=one, imageSettings=APP, warm=warm, **CALL)["result"], EXPECTED)
            equal(frames.call("call", image=one, warm=warm, **CALL)["result"], OWN)
        prefix = frames.call("prefix.create", image=one, imageSettings=APP, language="python", code=IDS + "first = ids()")["prefix"]
        equal(frames.call("call", prefix=prefix, language="python", code="def f(): return [first, ids()]", function="f")["result"], [EXPECTED, EXPECTED])
        equal(frames.call("script", image=one, imageSettings=APP, language="bash", code="echo $UID $HOME $USER; cd; pwd -P")["stdout"], "1001 /home/app app\n/home/cloche\n")


def test_sandboxes_and_contexts():
    store, (one,) = make_store(1)
    state = os.path.abspath("state")
    os.mkdir(state)
    options = ("--images", store, "--state-dir", state)
    cell = IDS + "print(ids())"
    with Daemon(*options) as daemon, daemon.frames() as frames:
        for name in ("s", "pooled"):
            frames.call("sandbox.create", sandbox=name, image=one, imageSettings=APP)
            equal(shell(frames, "echo $UID $GROUPS $HOME $USER $LOGNAME; echo x > ~/kept; python3 -c 'import os; print(os.stat(\"/home/cloche/kept\").st_uid)'", name), "1001 50 /home/app app app\n1001\n")
        frames.call("session.create", sandbox="s", session="apart", isolation=True)
        equal(shell(frames, "echo $UID $(<~/kept)", session="apart"), "1001 x\n")
        frames.call("context.create", sandbox="s", context="c", language="python", forkable=True)
        equal(frames.call("context.run", sandbox="s", context="c", code=cell)["stdout"], f"{EXPECTED}\n")
        (fork,) = frames.call("context.fork", sandbox="s", context="c")["contexts"]
        equal(frames.call("context.run", sandbox="s", context=fork["context"], code="print(ids())")["stdout"], f"{EXPECTED}\n")
        frames.call("file.write", sandbox="s", path="/home/app/written", content="y")
        equal(shell(frames, "echo $(</home/cloche/written); [ -O ~/written ] && echo mine"), "y\nmine\n")
        frames.call("sandbox.stop", sandbox="s")
        equal(shell(frames, "echo $(<~/kept); [ -O ~/kept ] && echo mine; echo $UID"), "x\nmine\n1001\n")
        daemon.stop()
    with Daemon(*options) as daemon, daemon.frames() as frames:
        equal(shell(frames, "echo $(<~/kept); echo $UID $HOME"), "x\n1001 /home/app\n", "it is saved")


# The calls by number, which no C library can refuse first; those that are permitted.
CLIMB = """import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def done(number, *args): return libc.syscall(number, *args) == 0
def climb():
    open('/tmp/f', 'w').close()
    found = {}
    for number in (0, 1, 50, 1000, 65534, 0x70000000, 0x70000001, 4294967294):
        found['user %d' % number] = done(117, number, -1, -1) or done(117, -1, -1, number) or done(105, number) or done(122, number) not in (0, False)
        found['group %d' % number] = number != 50 and (done(119, number, -1, -1) or done(106, number))
        found['owner %d' % number] = done(92, b'/tmp/f', number, -1)
        found['group of a file %d' % number] = number != 50 and done(92, b'/tmp/f', -1, number)
    found['groups'] = done(116, 1, (ctypes.c_uint * 1)(0))
    found['itself'] = done(117, 1001, 1001, 1001) and done(119, 50, 50, 50) and done(92, b'/tmp/f', 1001, 50)
    return [name for name in found if found[name]]
"""


def test_other_users_are_out_of_reach():
    """A run, set-up code and a forkable context try: the box has one user, whichever number it shows."""
    store, (one,) = make_store(1)
    climb = {"language": "python", "code": CLIMB, "function": "climb"}
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for warm in (True, False):
            equal(frames.call("call", image=one, imageSettings=APP, warm=warm, **climb)["result"], ["itself"])
        prefix = frames.call("prefix.create", image=one, imageSettings=APP, language="python", code=CLIMB + "first = climb(); os.remove('/tmp/f')")["prefix"]
        equal(frames.call("call", prefix=prefix, language="python", code="def f(): return [first, climb()]", function="f")["result"], [["itself"], ["itself"]])
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=APP)
        frames.call("context.create", sandbox="s", context="c", language="python", forkable=True)
        equal(frames.call("context.run", sandbox="s", context="c", code=CLIMB + "print(climb())")["stdout"], "['itself']\n")
        (fork,) = frames.call("context.fork", sandbox="s", context="c")["contexts"]
        equal(frames.call("context.run", sandbox="s", context=fork["context"], code="print(climb())")["stdout"], "['itself']\n")
        for user in ({"uid": 0, "gid": 0}, {"uid": 0x70000000, "gid": 1}, {"uid": 1, "gid": -1}, {"uid": "1", "gid": 1}, {"uid": 1.0, "gid": 1}, {"name": "a:b"}, {"name": "a\nroot:x:0:0::/:"},
                     {"name": ""}, {"name": "x" * 33}, {"name": ".."}, {"home": "/"}, {"home": "/root"}, {"home": "/home/../etc"}, {"home": "/home/a/b"}, {"shell": "/bin/sh"}):
            refused = frames.refused("call", image=one, imageSettings={"runsAs": {**APP["runsAs"], **user}}, **CALL)
            assert refused.name == "invalid_argument" and "imageSettings: runsAs" in refused.message, (user, refused.message)
        for user in ({}, 1, [], "app", {"uid": 1}):
            assert "imageSettings: runsAs" in frames.refused("call", image=one, imageSettings={"runsAs": user}, **CALL).message


def test_numbers_at_the_edges():
    """They are those of nobody, a group 0, which gives no right, and the highest."""
    store, (one,) = make_store(1)
    look = "echo $UID $GROUPS; python3 -c 'import os, grp, pwd; s = os.stat(\"/usr\"); print(pwd.getpwuid(os.getuid()).pw_name, grp.getgrgid(os.getgid()).gr_name, pwd.getpwuid(65534).pw_name, grp.getgrgid(65534).gr_name, os.access(\"/usr\", os.W_OK))'"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for uid, gid, names in ((65534, 65534, "x x x x"), (7, 0, "x root nobody nogroup"), (0x6fffffff, 0x6fffffff, "x x nobody nogroup")):
            settings = {"runsAs": {"uid": uid, "gid": gid, "name": "x", "home": "/home/cloche"}}
            for method, more in (("script", {"language": "bash", "code": look, "image": one, "imageSettings": settings}), ("exec", {"sandbox": f"u{uid}", "command": look})):
                if method == "exec":
                    frames.call("sandbox.create", sandbox=f"u{uid}", image=one, imageSettings=settings)
                equal(frames.call(method, **more)["stdout"], f"{uid} {gid}\n{names} False\n")


def test_files_of_the_image():
    """In a sandbox of root's daemon those of its user are its own; in a run, whose mounts are its template's, they are nobody's."""
    need_root()
    store, (one,) = make_store(1)
    tree = f"{store}/trees/{one}"
    for path, mode, ids in (("srv/own", 0o600, (1001, 50)), ("srv/group", 0o640, (0, 50)), ("srv/roots", 0o600, (0, 0)), ("srv/all", 0o644, (7, 7))):
        os.makedirs(f"{tree}/srv", exist_ok=True)
        with open(f"{tree}/{path}", "w") as file:
            file.write(path)
        os.chmod(f"{tree}/{path}", mode)
        os.chown(f"{tree}/{path}", *ids)
    look = "import os\nfor name in sorted(os.listdir('/srv')):\n s = os.stat('/srv/' + name); print(name, s.st_uid, s.st_gid, os.access('/srv/' + name, os.R_OK), os.access('/srv/' + name, os.W_OK))"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=APP)
        equal(shell(frames, f"python3 -c \"{look}\""), "all 65534 65534 True False\ngroup 65534 50 True False\nown 1001 50 True False\nroots 65534 65534 False False\n")
        frames.call("sandbox.create", sandbox="plain", image=one)
        nobodys = "all 65534 65534 True False\ngroup 65534 65534 False False\nown 65534 65534 False False\nroots 65534 65534 False False\n"
        equal(shell(frames, f"python3 -c \"{look}\"", "plain"), nobodys)
        equal(frames.call("script", image=one, imageSettings=APP, language="python", code=look)["stdout"], nobodys)


def test_a_file_system_that_maps_no_owners():
    """Its files are nobody's in a sandbox, too, and no mount of a box appears on the host."""
    need_root()
    os.mkdir("memory")
    subprocess.run(["mount", "-t", "ramfs", "none", "memory"], check=True)
    os.chdir("memory")
    try:
        store, (one,) = make_store(1)
        path = f"{store}/trees/{one}/own"
        with open(path, "w") as file:
            file.write("x")
        os.chown(path, 1001, 50)
        with open("/proc/self/mountinfo") as mounts:
            before = mounts.read()
        with Daemon("--images", store) as daemon, daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="s", image=one, imageSettings=APP)
            equal(shell(frames, "echo $UID $(</own); [ -O /own ] || echo nobodys"), "1001 x\nnobodys\n")
            with open("/proc/self/mountinfo") as mounts:
                equal(mounts.read(), before)
    finally:
        os.chdir("..")
        subprocess.run(["umount", "memory"], check=True)


def test_volumes_belong_to_the_user_of_each_box():
    """Two sandboxes that show different numbers share one."""
    with Volumes() as volumes:
        store, (one,) = make_store(1)
        with volumes.daemon("--images", store) as daemon, daemon.frames() as frames:
            frames.call("volume.create", volume="data", sizeBytes=SMALL)
            for sandbox, more in (("app", {"imageSettings": APP}), ("own", {})):
                frames.call("sandbox.create", sandbox=sandbox, image=one, volumes=[at("/data")], **more)
            look = "for f in /data /data/*; do [ -O $f ] && [ -w $f ] && echo $f; done"
            equal(shell(frames, f"echo app > /data/app; {look}", "app"), "/data\n/data/app\n")
            equal(shell(frames, f"echo own >> /data/app; echo own > /data/own; {look}", "own"), "/data\n/data/app\n/data/own\n")
            frames.call("context.create", sandbox="app", context="c", language="bash")
            equal(frames.call("context.run", sandbox="app", context="c", code=f"{look}; echo $(</data/app) $UID")["stdout"], "/data\n/data/app\n/data/own\napp own 1001\n")


def test_mounts_show_the_user_of_the_box():
    store, (one,) = make_store(1)
    look = {"language": "python", "code": "import os\nos.chdir('/workspace/m'); open('new', 'w').close()\nprint([(s.st_uid, s.st_gid) for s in map(os.stat, ('.', 'a', 'new'))])"}
    with Directory() as directory, Daemon("--images", store, "--mount-root", directory.path) as daemon, daemon.frames() as frames:
        for settings, ids in ((APP, (1001, 50)), ({}, (1000, 1000))):
            equal(frames.call("script", image=one, imageSettings=settings, mount=mount(directory), **look)["stdout"], f"{[ids] * 3}\n")
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=APP, mount={"dirs": {"/workspace/m": directory.path}, "permissions": ALL})
        equal(shell(frames, "cd m; echo x > made; [ -O a ] && [ -O made ] && [ -w a ] && echo mine"), "mine\n")


def test_a_writable_root():
    """Its files of the image's root belong to the user, whichever number it shows."""
    need_writable_roots()
    store, (one,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=APP, writableRoot=True)
        equal(shell(frames, "echo changed > /etc/marker; echo $(</etc/marker) $UID; [ -O /etc/marker ] && echo mine; python3 -c 'import os; print(os.stat(\"/usr/bin/env\").st_uid)'"), "changed 1001\nmine\n1001\n")
