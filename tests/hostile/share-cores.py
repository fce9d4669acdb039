"""Core scheduling (PR_SCHED_CORE of prctl(2)): a box with this option has a cookie of its own,
which its code can read and cannot change. If the kernel or the machine lacks it, requesting it is
an error, as with every guard."""
import ctypes
import errno
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
from rpc import Daemon, Failed
from warm import Warm
from cloche import CLI, ORDINARY_USER, cli, equal, guest_value, need_ordinary_user, need_root, wait_for

PRCTL, CORE = 157, 62
GET, CREATE, SHARE_TO, SHARE_FROM, UNKNOWN = 0, 1, 2, 3, 99
libc = ctypes.CDLL(None, use_errno=True)
ADD = ["call", "python", "-c", "def add(a, b): return a + b", "--args", "[40, 2]"]
HERE = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
def change(command): return 0 if libc.prctl(62, command, 0, 0, ctypes.byref(ctypes.c_uint64()) if command == 0 else 0) == 0 else ctypes.get_errno()
"""


def cookie(pid=0):
    value = ctypes.c_uint64()
    if libc.prctl(CORE, GET, pid, 0, ctypes.byref(value)) < 0:
        raise OSError(ctypes.get_errno(), "PR_SCHED_CORE")
    return value.value


def is_supported():
    try:
        cookie()
        return True
    except OSError as e:
        assert e.errno in (errno.EINVAL, errno.ENODEV), e
        return False


def row(*words, **keywords):
    rows = json.loads(cli("selftest", "--json", *words, **keywords).stdout)["guards"]
    return next(row for row in rows if row["name"] == "core-scheduling")


def test_code_of_a_box_cannot_change_its_cookie():
    """The twin: it may read it, where there is one."""
    found = guest_value(f"return [syscall({PRCTL}, {CORE}, command, 0, 0, 0) for command in {[CREATE, SHARE_TO, SHARE_FROM, UNKNOWN, GET]}]")
    equal(found[:4], ["EPERM"] * 4)
    assert found[4] != "EPERM", found


def test_code_that_is_forked_from_set_up_code_cannot_either():
    with Warm(setup=HERE) as warm:
        found = warm.value(f"[change(command) for command in {[CREATE, SHARE_TO, SHARE_FROM, UNKNOWN, GET]}]")
    equal(found[:4], [errno.EPERM] * 4)
    assert found[4] != errno.EPERM, found


def test_set_up_code_makes_and_shares_no_cookie():
    """With core scheduling it may make one, as its forks do when they enter their boxes."""
    with Warm(setup=HERE + f"FOUND = [change(command) for command in {[SHARE_TO, SHARE_FROM, UNKNOWN, CREATE]}]\n") as warm:
        found = warm.value("FOUND")
    equal(found, [errno.EPERM] * 4)


def test_it_is_off_until_it_is_asked_for():
    equal([row()["state"], cli(*ADD).stdout], ["off", b"42\n"])


def refuses(under=()):
    done = cli(*ADD, "--json", "--core-scheduling", under=under)
    equal([done.code, done.stdout, len(done.stderr.splitlines())], [1, b"", 1], done)
    assert b"core-scheduling" in done.stderr, done
    found = row("--core-scheduling", under=under)
    assert found["state"] == "absent" and ("hyperthreads" in found["reason"] or "CONFIG_SCHED_CORE" in found["reason"]), found
    equal(cli("selftest", "--core-scheduling", under=under).code, 1)


def marked():
    """Host pids of the scripts below."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline") as file:
                words = file.read().split("\0")
        except OSError:
            continue
        if words[-2:-1] in (["core-one"], ["core-two"]) and words[0].endswith("python3"):
            found[words[-2]] = int(pid)
    return found


def cookies_of_two(*options):
    """The cookies of processes in two boxes that run at the same time."""
    runs = [subprocess.Popen([CLI, "run", "python", *options, "-c", "import time; time.sleep(60)", "--", name], stdin=subprocess.DEVNULL)
            for name in ("core-one", "core-two")]
    try:
        wait_for(lambda: len(marked()) == 2, "two scripts")
        return [cookie(pid) for pid in marked().values()]
    finally:
        for one in runs:
            one.send_signal(signal.SIGTERM)
            one.wait()


def test_each_box_has_a_cookie_or_there_is_an_error():
    need_root()
    if not is_supported():
        refuses()
        return
    equal(set(cookies_of_two()), {cookie()})
    one, other = cookies_of_two("--core-scheduling")
    assert one and other and one != other and cookie() not in (one, other), (one, other)
    found = row("--core-scheduling")
    equal([found["state"], found["proven"]], ["enforced", True], found)


def test_an_ordinary_user_likewise():
    need_ordinary_user()
    if not is_supported():
        refuses(ORDINARY_USER)
        return
    found = row("--core-scheduling", under=ORDINARY_USER)
    equal([found["state"], found["proven"]], ["enforced", True], found)


def test_it_may_be_named_optional():
    done = cli(*ADD, "--core-scheduling", "--optional", "core-scheduling,memory,pids,cpu,freezer,private-uid")
    equal([done.code, done.stdout], [0, b"42\n"], done)


def test_a_daemon_asks_for_it_too():
    with Daemon("--core-scheduling") as daemon, daemon.frames() as frames:
        equal("core-scheduling" in frames.hello["missing"], not is_supported())
        try:
            equal(frames.call("call", language="python", code="return 42")["result"], 42)
            assert is_supported(), "a run started without the guard"
        except Failed as failed:
            assert failed.name == "guard_missing" and "core-scheduling" in failed.message and not is_supported(), (failed.name, failed)
    with Daemon("--core-scheduling", "--optional", "core-scheduling") as daemon, daemon.frames() as frames:
        equal(frames.call("call", language="python", code="return 42")["result"], 42)
