"""Control groups that the keeper may read and the engine may not: the engine requests the usage
from the keeper, and nothing blocks meanwhile."""
import glob
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, need_root, task_children, wait_for
from rpc import Daemon

SPIN = "import time\nbegun = time.process_time()\nwhile time.process_time() - begun < 0.2: pass\nreturn 42"


def close_groups(daemon):
    """Close them to all users but root; the engine is not root."""
    keeper = next(pid for pid in task_children(daemon.engine_pid()) if open(f"/proc/{pid}/comm").read() == "cloche-keeper\n")
    closed = [path for path in glob.glob("/sys/fs/cgroup/**/cloche*", recursive=True) if str(keeper) in os.path.basename(path)]
    assert closed, "no group of this keeper was found"
    for path in closed:
        os.chmod(path, 0o700)


def used(result):
    return result["meta"]["usage"]


def test_what_runs_use():
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        close_groups(daemon)
        for warm in (False, True, True):
            result = frames.call("call", language="python", code=SPIN, warm=warm)
            assert result["result"] == 42 and used(result)["cpuMs"] >= 190 and used(result)["memoryPeakBytes"] > 1 << 20, result
        for options in ({}, {"resultOptions": {"includeChanges": False}}):
            result = frames.call("call", language="python", code="while True: pass", limits={"cpuMs": 300}, **options)
            equal((result["status"], result["meta"]["limitsHit"]), ("timeout", ["cpuMs"]))
        prefix = frames.call("prefix.create", language="python", code="x = 42")["prefix"]
        equal(frames.call("call", prefix=prefix, code="return x")["result"], 42)


def test_what_a_sandbox_uses():
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        close_groups(daemon)
        frames.call("exec", sandbox="box", command="i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done")
        wait_for(lambda: frames.call("sandbox.get", sandbox="box").get("usage", {}).get("cpuMs"), "the usage of the sandbox, from the keeper")
