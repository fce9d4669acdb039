"""Sandboxes with root of an ordinary user's daemon, to whom the host lends ids: owners over saves, and the end of a killed keeper. The walls are
those of hostile/root."""
import os
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import cli, descendants, equal, need_writable_roots, possible_layers, skip, wait_for
from image_trees import copy_programs, make_image
from lent_ids import FIRST, as_user, need_lent_ids, show
from rpc import Daemon

CHANGE = """mkdir -p /opt/data; echo 1 > /opt/data/file; chown 33:44 /opt/data/file; chmod 600 /opt/data/file; chown 65535 /opt/data
setpriv --reuid 1000 --regid 1000 --clear-groups sh -c 'echo mine > /home/user/x; cat /opt/data/file'
setpriv --reuid 33 --regid 44 --clear-groups cat /opt/data/file"""
LOOK = "stat -c '%u %g %a %n' /opt/data /opt/data/file /home/user/x"
OWNERS = "65535 0 755 /opt/data\n33 44 600 /opt/data/file\n1000 1000 644 /home/user/x\n"


def make_home():
    """The image, and a place where the user has a daemon; /dev/fuse is open to it."""
    tree = make_image()
    copy_programs(tree, *("/usr/bin/" + name for name in "cat chmod chown mkdir setpriv sleep stat".split()))
    for path in ("opt", "home", "root"):
        os.makedirs(f"{tree}/{path}", exist_ok=True)
    os.mkdir("home")
    os.mknod("fuse", 0o20666, os.stat("/dev/fuse").st_rdev)
    os.chmod("fuse", 0o666)
    return tree


def test_root_of_a_user():
    need_lent_ids()
    need_writable_roots()
    if "memory" not in possible_layers():
        skip("this kernel has no layers in memory")
    tree = make_home()
    as_user(lambda: try_as_user(tree), before=lambda: show("fuse", "/dev/fuse"))


def try_as_user(tree):
    home = os.path.abspath("home")
    os.environ.update(TMPDIR=home, XDG_CACHE_HOME=home, XDG_STATE_HOME=home, XDG_RUNTIME_DIR=home, HOME=home)
    tempfile.tempdir = home
    equal(cli("image", "import", "--images", home + "/images", tree, "base:1").code, 0)
    os.mkdir(home + "/state")
    os.mkdir(home + "/mount")
    options = ("--images", home + "/images", "--image-changes", "owner", "--profile", "user", "--state-dir", home + "/state", "--mount-root", home)
    with Daemon(*options) as daemon, daemon.frames() as frames:
        mount = {"dirs": {"/data": {"path": home + "/mount", "permissions": {"default": {"create": True, "modify": True}}}}}
        frames.call("sandbox.create", sandbox="s", image="base:1", root=True, mount=mount)
        frames.call("sandbox.create", sandbox="t", image="base:1", root=True)  # both have the user's ids
        done = frames.call("exec", sandbox="s", command=CHANGE)
        equal((done["stdout"], done["exitCode"]), ("1\n", 0))
        assert "Permission denied" in done["stderr"], done
        equal(frames.call("exec", sandbox="s", command="echo x > /data/new; stat -c '%u' /data /data/new; chown 33 /data/new || echo refused")["stdout"], "0\n0\nrefused\n")
        frames.call("sandbox.stop", sandbox="s", sync={})
        equal((os.stat("home/mount/new").st_uid, open("home/mount/new").read()), (os.geteuid(), "x\n"))
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], OWNERS)
        frames.call("context.create", sandbox="s", context="c", language="python")
        equal(frames.call("context.run", sandbox="s", context="c", code="import os; print(os.getuid(), os.stat('/opt/data/file').st_uid)")["stdout"], "0 33\n")
        # an image of the user's store has one owner
        equal(frames.call("sandbox.commit", sandbox="s", image="made:1")["dropped"]["owners"], 3)
        told = cli("sandbox", "commit", "s", "made:2", "--socket", daemon.path)
        equal((told.code, told.stdout, told.stderr[told.stderr.index(b"cloche: 3 "):]), (0, b"made:2\n", b"cloche: 3 files of other users belong to root in the image: the store of an ordinary user keeps no owners\n"))
        frames.call("sandbox.create", sandbox="u", image="made:1", root=True)
        equal(frames.call("exec", sandbox="u", command=LOOK.replace("/home/user/x", "/home/user"))["stdout"], "0 0 755 /opt/data\n0 0 600 /opt/data/file\n0 0 755 /home/user\n")
        frames.call("sandbox.stop", sandbox="s")
        frames.call("process.start", sandbox="s", command="exec setpriv --reuid 33 --regid 44 --clear-groups sleep 1000")
        wait_for(lambda: lent_processes(), "the process of a lent id")
        keeper = next(pid for pid in descendants(daemon.process.pid) if comm(pid) == "cloche-keeper\n")
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: not lent_processes(), "the end of the box")
    with Daemon(*options) as daemon, daemon.frames() as frames:
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], OWNERS)


def comm(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read()
    except OSError:
        return ""


def lent_processes():
    """Processes of user 33 of a box, on the host."""
    return subprocess.run(["pgrep", "-u", str(FIRST + 32)], stdout=subprocess.PIPE).stdout.split()
