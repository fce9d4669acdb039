"""Processes of a run with a mounted directory die at bad moments: after any of these deaths the
others leave nothing, no process waits forever, and the host's directory is unchanged."""
import os
import signal
import subprocess
import time

from cloche import alive, call_words, descendants, equal, start, wait_for

BUSY = """
import os, time
def f():
    print('begun', flush=True)
    while True:
        with open('/workspace/m/file', 'w') as file: file.write('new')
        os.listdir('/workspace/m')
"""


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""


def first_word(pid):
    with open(f"/proc/{pid}/cmdline") as file:
        return file.read().split("\0")[0]


class Busy:
    """A run that writes in its mount all the time."""

    def __enter__(self):
        self.host = os.path.abspath("host")
        os.makedirs(self.host)
        with open(self.host + "/file", "w") as file:
            file.write("old")
        self.cloche = start(*call_words("python", BUSY, mount=f"/workspace/m={self.host}", rule="**=*", timeout=40))
        wait_for(lambda: self.find("cloche-fs") and self.find("python3"), "the run to begin")
        time.sleep(0.3)
        self.all = descendants(self.cloche.pid)
        return self

    def find(self, name):
        return [pid for pid in descendants(self.cloche.pid) if name_of(pid) == name]

    def __exit__(self, *_):
        self.cloche.kill()
        self.cloche.wait()

    def ends(self):
        self.output, _ = self.cloche.communicate(timeout=30)
        wait_for(lambda: not any(alive(pid) for pid in self.all), "all of them to be gone")
        with open(self.host + "/file") as file:
            equal(file.read(), "old")
        equal(os.listdir(self.host), ["file"])


def test_the_server_is_killed():
    with Busy() as busy:
        os.kill(busy.find("cloche-fs")[0], signal.SIGKILL)
        busy.ends()
        assert busy.cloche.returncode == 1, busy.output


def test_the_server_is_stopped():
    """The run ends by its time limit all the same: processes that wait for a server die with it."""
    host = os.path.abspath("host")
    os.makedirs(host)
    cloche = start(*call_words("python", BUSY, mount=f"/workspace/m={host}", rule="**=*", timeout=2))
    wait_for(lambda: [pid for pid in descendants(cloche.pid) if name_of(pid) == "cloche-fs"], "the run to begin")
    time.sleep(0.5)
    everybody = descendants(cloche.pid)
    os.kill([pid for pid in everybody if name_of(pid) == "cloche-fs"][0], signal.SIGSTOP)
    try:
        cloche.send_signal(signal.SIGINT)
        cloche.wait(timeout=90)
    finally:
        cloche.kill()
        cloche.wait()
    wait_for(lambda: not any(alive(pid) for pid in everybody), "all of them to be gone")


def test_the_keeper_is_killed():
    with Busy() as busy:
        os.kill(busy.find("cloche-keeper")[0], signal.SIGKILL)
        busy.ends()
    clean_after_killed_keeper()


def test_the_engine_is_killed():
    with Busy() as busy:
        busy.cloche.kill()
        busy.ends()


def test_the_caller_cancels():
    with Busy() as busy:
        busy.cloche.send_signal(signal.SIGTERM)
        busy.ends()
        equal(busy.cloche.returncode, 143)


def test_the_box_is_killed():
    with Busy() as busy:
        os.kill([pid for pid in busy.all if first_word(pid) == "box-init"][0], signal.SIGKILL)
        busy.ends()
        equal(busy.cloche.returncode, 1)


def clean_after_killed_keeper():
    """A keeper that was killed leaves its groups; the next one removes them."""
    subprocess.run([os.path.join(os.environ["CLOCHE_BUILD"], "cloche"), "call", "python", "-c", "return 1"], check=True, capture_output=True, timeout=30)
