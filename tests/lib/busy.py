"""Busy loops beside the tests, to simulate a machine with many users."""
import contextlib
import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)


def end_with_parent(parent):
    """Runs in the child, before it starts its program. The kernel kills it when the parent ends, even by SIGKILL."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


@contextlib.contextmanager
def loops(count):
    """Runs this many processes that compute forever, until the block ends. Enter it in the main
    thread: for the kernel the thread is the parent."""
    parent = os.getpid()
    processes = []
    try:
        for _ in range(count):
            processes.append(subprocess.Popen([sys.executable, "-c", "while True: pass"], stdin=subprocess.DEVNULL,
                                              preexec_fn=lambda: end_with_parent(parent)))
        yield
    finally:
        for process in processes:
            process.kill()
        for process in processes:
            process.wait()
