"""For tests of cloche's sandbox commands: a private daemon, and the command line as its client."""
import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time

import cloche

sys.path.insert(0, os.path.join(cloche.SOURCE, "tests/daemon"))
from rpc import Daemon, frame  # noqa: E402, F401

HANG = 40 * cloche.PATIENCE


@contextlib.contextmanager
def daemon(*options):
    """A daemon, and CLOCHE_SOCKET with its path."""
    state = os.path.abspath("state")
    with Daemon("--state-dir", state, *options) as running:
        os.environ["CLOCHE_SOCKET"] = running.path
        yield running


def ok(*words, stdin=b""):
    """The standard output of a command that must succeed."""
    finished = cloche.cli(*words, stdin=stdin)
    cloche.equal(finished.code, 0, finished)
    return finished.stdout


END = b"<nothing follows>"


class Terminal:
    """Runs cloche, or another program, on a terminal of its own, of 101 columns and 33 rows."""

    def __init__(self, *words, program=cloche.CLI):
        self.master, self.slave = pty.openpty()
        self.resize(101, 33)
        self.before = termios.tcgetattr(self.slave)
        self.said = b""
        print("+", program, *words, "(on a terminal)", flush=True)
        self.process = subprocess.Popen([program, *words], stdin=self.slave, stdout=self.slave, stderr=self.slave, start_new_session=True,
                                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, cols, rows):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def read(self, patience):
        ready, _, _ = select.select([self.master], [], [], patience)
        if ready:
            self.said += os.read(self.master, 65536)

    def until(self, text):
        deadline = time.monotonic() + HANG
        while text not in self.said:
            assert time.monotonic() < deadline, (text, self.said)
            self.read(0.2)
        self.said = self.said.partition(text)[2]

    def type(self, text):
        os.write(self.master, text)

    def is_raw(self):
        return not termios.tcgetattr(self.slave)[3] & termios.ICANON

    def end(self):
        """Return the exit code; the terminal's settings must be unchanged."""
        deadline = time.monotonic() + HANG
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.said
            self.read(0.1)
        while termios.tcgetattr(self.slave) != self.before:
            assert time.monotonic() < deadline, "the terminal's mode was not put back"
            time.sleep(0.05)
        os.write(self.slave, END)  # the kernel delivers earlier output later (flush_to_ldisc)
        while END not in self.said:
            assert time.monotonic() < deadline, self.said
            self.read(0.1)
        self.said = self.said.replace(END, b"")
        return self.process.returncode

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)
