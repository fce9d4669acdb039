"""Shared by the tests of volumes: a daemon with a directory of volumes, and their traces on the host."""
import os
import shutil
import sys
import tempfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import need_root, skip
from rpc import Daemon, PATIENCE

MIB = 1 << 20
SMALL = 16 * MIB


class Volumes:
    """A directory for state and volumes; daemons in it follow each other."""

    def __enter__(self):
        need_root()
        if not os.path.exists("/dev/loop-control"):
            skip("this host has no loop devices")
        self.path = tempfile.mkdtemp(prefix="cloched-volumes-")
        os.chmod(self.path, 0o711)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def daemon(self, *options, **more):
        return Daemon("--state-dir", self.at("state"), "--volumes", self.at("volumes"), *options, **more)

    def images(self):
        return sorted(os.listdir(self.at("volumes"))) if os.path.exists(self.at("volumes")) else []

    def loops(self):
        """The loop devices of these images."""
        found = []
        for device in os.listdir("/sys/block"):
            try:
                with open(f"/sys/block/{device}/loop/backing_file") as file:
                    found += [device] if file.read().startswith(self.path) else []
            except OSError:  # it is no loop device, or not in use any more
                pass
        return found

    def wait_until_unused(self):
        until = time.monotonic() + 20 * PATIENCE
        while self.loops():
            assert time.monotonic() < until, self.loops()
            time.sleep(0.01)


def shell(frames, command, sandbox="s", **more):
    answer = frames.call("exec", sandbox=sandbox, command=command, **more)
    return answer["stdout"] + answer["stderr"]


def at(path, name="data", **more):
    return {"name": name, "path": path, **more}
