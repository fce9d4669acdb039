"""Changes of runs from a set-up with files: boxes that serve again show the same files to the next
run, and each run's changes are told, whether the clean-check of its box passes or not."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from rpc import Daemon

FILES = {"given": "as it was", "dir/gone": "x"}
CASES = [  # code, then what is created, modified, deleted
    ("return open('given').read()", [], [], []),
    ("open('new', 'w').write('n')\nreturn 1", ["new"], [], []),
    ("open('given', 'a').write('!')\nreturn 1", [], ["given"], []),
    ("os.chmod('given', 0o600)\nreturn 1", [], ["given"], []),
    ("os.unlink('dir/gone')\nreturn 1", [], [], ["dir/gone"]),
    ("os.rename('given', 'other')\nreturn 1", ["other"], [], ["given"]),
    ("open('short', 'w').close()\nos.unlink('short')\nreturn 1", [], [], []),
    ("open('/tmp/elsewhere', 'w').write('e')\nreturn 1", [], [], []),
    ("if os.fork() == 0:\n    while True: time.sleep(1)\nopen('before', 'w').close()\nreturn 1", ["before"], [], []),
]


def changed(result):
    return [[change["path"].removeprefix("/workspace/") for change in result["files"][kind]] for kind in ("created", "modified", "deleted")]


def check(frames, prefix, cases):
    for code, *lists in cases:
        result = frames.call("call", prefix=prefix, code=code)
        equal((result["status"], changed(result)), ("success", lists), (code, result))
        still = frames.call("call", prefix=prefix, code="return [open('given').read(), sorted(os.listdir('/tmp')), sorted(os.listdir('.'))]")
        equal((still["result"], changed(still)), (["as it was", [], ["dir", "given"]], [[], [], []]), still)


def test_with_files_of_the_set_up():
    with Daemon() as daemon, daemon.frames() as frames:
        prefix = frames.call("prefix.create", language="python", code="import os, time", files=FILES)["prefix"]
        check(frames, prefix, CASES)


def test_a_shared_mapping():
    """tmpfs maps a page that is read first as writable, and stamps no time on later writes: only the contents show them."""
    with Daemon() as daemon, daemon.frames() as frames:
        prefix = frames.call("prefix.create", language="python", code="import mmap, os", files=FILES | {"larger": "x" * 100000})["prefix"]
        for name, at in (("given", 0), ("larger", 90000)):
            code = f"m = mmap.mmap(os.open({name!r}, os.O_RDWR), 0)\nbefore = m[{at}]\nm[{at}] = before ^ 1\nreturn 1"
            equal(frames.call("call", prefix=prefix, code=code)["status"], "success")
            still = frames.call("call", prefix=prefix, code="return [open('given').read(), open('larger').read() == 'x' * 100000]")
            equal(still["result"], ["as it was", True])


def test_set_ups_that_no_box_serves_again():
    """Too many files, too many bytes, too deep."""
    with Daemon() as daemon, daemon.frames() as frames:
        for files in ({f"f{i}": "x" for i in range(100)}, {"big": "x" * (3 << 20)}, {"a/" * 12 + "f": "x"}):
            prefix = frames.call("prefix.create", language="python", code="import os", files=files)["prefix"]
            for _ in range(2):
                result = frames.call("call", prefix=prefix, code="before = os.path.exists('new')\nopen('new', 'w').close()\nreturn before")
                equal((result["result"], changed(result)), (False, [["new"], [], []]), result)


def test_an_empty_box():
    with Daemon() as daemon, daemon.frames() as frames:
        for _ in range(3):
            result = frames.call("call", language="python", code="return 1", warm=True)
            equal(changed(result), [[], [], []])
            assert result["meta"]["usage"]["diskInodes"] > 0, result
            result = frames.call("call", language="python", code="open('new', 'w').write('n')\nreturn 1", warm=True)
            equal(changed(result), [["new"], [], []])
            equal(result["files"]["created"][0]["content"], "n")


def test_a_run_that_fails():
    with Daemon() as daemon, daemon.frames() as frames:
        for code, status in (("open('new', 'w').close()\nraise ValueError('no')", "error"),
                             ("import os\nopen('new', 'w').close()\nos._exit(3)", "crash")):
            result = frames.call("call", language="python", code=code, warm=True)
            equal((result["status"], changed(result)), (status, [["new"], [], []]), result)
