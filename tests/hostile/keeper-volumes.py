"""An engine that was taken over, which the driver plays, reaches for volumes: it mounts none but those of the
directory, in boxes of sandboxes, and never one that is in use elsewhere."""
import os
import shutil
import tempfile

from cloche import ORDINARY_USER, equal, need_ordinary_user, need_root, skip
from keeper_boxes import Keeper, Refused

MAKE, OPEN, CLOSE, REMOVE = range(4)
SIZE = 16 << 20
ONE, OTHER, LINK, MISSING = (digit * 32 for digit in "0123")


def volume(keeper, action, name, size=0):
    """ "done", or the kind of error."""
    try:
        keeper.ask(do="volume", action=action, id=name, size=size)
    except Refused as refused:
        return refused.code
    return "done"


def box(keeper, name, sandbox=True):
    """The files in it, or the kind of error."""
    try:
        made = keeper.box(sandbox=sandbox, mount="/data", volume=name)
    except Refused as refused:
        return refused.code
    return made.said("ls /data")


class Directory:
    def __enter__(self):
        if not os.path.exists("/dev/loop-control"):
            skip("this host has no loop devices")
        self.path = tempfile.mkdtemp(prefix="keeper-volumes-")
        os.chmod(self.path, 0o755)
        os.environ["BOX_DRIVER_VOLUMES"] = self.path + "/volumes"
        return self

    def __exit__(self, *_):
        del os.environ["BOX_DRIVER_VOLUMES"]
        shutil.rmtree(self.path)


def test_roots_keeper():
    need_root()
    with Directory() as directory, Keeper() as keeper:
        for name in (ONE, OTHER):
            equal(volume(keeper, MAKE, name, SIZE), "done")
        equal((volume(keeper, MAKE, ONE, SIZE), volume(keeper, OPEN, MISSING)), ("resource", "not_found"))
        equal(os.stat(directory.path + "/volumes").st_mode & 0o777, 0o700)
        os.symlink(OTHER + ".img", f"{directory.path}/volumes/{LINK}.img")
        equal(volume(keeper, OPEN, LINK), "mount")
        equal(box(keeper, ONE), "invalid_state")  # it is not open
        equal(volume(keeper, OPEN, ONE), "done")
        equal(keeper.box(sandbox=True, mount="/data", volume=ONE).said("echo x > /data/f; ls /data"), "f\n")
        equal((box(keeper, ONE), box(keeper, OTHER), box(keeper, MISSING)), ("f\n", "invalid_state", "invalid_state"))
        equal(box(keeper, ONE, sandbox=False), "invalid_argument")
        equal((volume(keeper, REMOVE, ONE), volume(keeper, MAKE, ONE, SIZE)), ("invalid_state", "invalid_state"))
        equal((volume(keeper, OPEN, ONE), volume(keeper, CLOSE, ONE), volume(keeper, CLOSE, ONE)), ("done", "done", "done"))
        equal(box(keeper, ONE), "invalid_state")
        # A second keeper waits for the boxes of the first, and gets an error when that takes too long.
        with Keeper() as second:
            equal((volume(second, OPEN, OTHER), box(second, OTHER)), ("done", ""))
            equal(volume(keeper, OPEN, OTHER), "timeout")
        equal((volume(keeper, OPEN, OTHER), box(keeper, OTHER)), ("done", ""))


def test_an_ordinary_users_keeper():
    need_ordinary_user()
    with Directory() as directory, Keeper(*ORDINARY_USER) as keeper:
        for action, size in ((MAKE, SIZE), (OPEN, 0), (CLOSE, 0), (REMOVE, 0)):
            equal(volume(keeper, action, ONE, size), "forbidden")
        equal(box(keeper, ONE), "forbidden")
        equal(keeper.box(sandbox=True).said("echo lives"), "lives\n")
        equal(os.listdir(directory.path), [])
