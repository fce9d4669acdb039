"""Clocks of a daemon that jump (shift-clock.c). Standard library only."""
import os
import struct
import tempfile

from cloche import BUILD


class Clock:
    """A daemon's time, in seconds beside the machine's."""

    def __init__(self):
        descriptor, self.path = tempfile.mkstemp(prefix="cloche-clock-", dir="/tmp")
        os.chmod(self.path, 0o644)
        self.file = os.fdopen(descriptor, "r+b", buffering=0)
        self.env = {"LD_PRELOAD": os.path.join(BUILD, "tests/shift-clock.so"), "SHIFT_CLOCK": self.path}
        self.passed_s = 0
        self.jump(0)

    def let_pass(self, seconds, frames):
        """For the deadlines of requests that were sent over these frames: they have begun before the first answer, and timers have
        run before the third."""
        frames.call("sandbox.list")
        self.passed_s += seconds + 1
        self.jump(0, monotonic=self.passed_s)
        for _ in range(2):
            frames.call("sandbox.list")

    def jump(self, seconds, monotonic=0):
        self.file.seek(0)
        self.file.write(struct.pack("qq", int(seconds), int(monotonic)))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        os.unlink(self.path)
