"""Limits of a run that is forked from a prefix give the verdicts of a cold one."""
import os
import re
from cloche import call, cli, equal

os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
SPIN = "def f():\n    while True: pass"
SLEEP = "import time\ndef f(s):\n    time.sleep(s)\n    return 'slept'"
TOUCH = "def f(mib):\n    data = bytearray(mib << 20)\n    data[::4096] = b'x' * len(data[::4096])\n    return len(data) >> 20"
WRITE = "import errno\ndef f(mib):\n    try:\n        with open('big', 'wb', 0) as o:\n            for _ in range(mib): " \
        "assert o.write(bytes(1 << 20)) == 1 << 20\n        return 'ok'\n    except OSError as e:\n        return errno.errorcode[e.errno]"
FORKS = """
import errno, os, time
def f(n):
    made = 0
    try:
        for made in range(n):
            if os.fork() == 0:
                time.sleep(100)
                os._exit(0)
        return [True, 'ok']
    except OSError as e:
        return [0 < made < n, errno.errorcode[e.errno]]
"""
FILES = """
import errno
def f(n):
    try:
        for i in range(n): open(f'file-{i}', 'w').close()
        return 'ok'
    except OSError as e:
        return errno.errorcode[e.errno]
"""
OPEN = FILES.replace("open(f'file-{i}', 'w').close()", "kept.append(open('/dev/null'))").replace("    try:", "    kept = []\n    try:")


def verdict(result):
    """Without the usage, which is never the same twice."""
    message = re.sub(r"after [\d.]+ m?s( \(\d+ ms\))?", "after N ms", result.error.get("message") or "")
    return result.status, result.error.get("type"), message, result.value, result.limits_hit, result.exit_code


def alike(code, **options):
    """The verdict, the same cold and warm."""
    if not os.path.exists("data"):
        equal(cli("prefix", "create", "empty", "python", "-c", "", "--timeout", "20").code, 0)
    cold, warm = call("python", code, "f", **options), call("python", code, "f", prefix="empty", **options)
    equal(verdict(warm), verdict(cold), (cold, warm))
    equal(sorted(warm.usage), sorted(cold.usage))
    return warm


def test_wall():
    result = alike(SLEEP, args=[100], timeout=0.6)
    equal((result.status, result.error["type"]), ("timeout", "WallTimeLimit"))
    assert 598 <= result.usage["wallMs"] < 2000, result.usage


def test_wall_permits():
    equal(alike(SLEEP, args=[0.1], timeout=10).value, "slept")


def test_cpu():
    result = alike(SPIN, cpu_time=0.5, timeout=30)
    equal((result.status, result.error["type"]), ("timeout", "CpuTimeLimit"))
    assert result.usage["cpuMs"] >= 450, result.usage


def test_cpu_of_all_processes_together():
    equal(alike("import os\ndef f():\n    for _ in range(3): os.fork()\n    while True: pass", cpu_time=1, timeout=30).status, "timeout")


def test_cpu_does_not_charge_sleep_or_the_set_up():
    equal(cli("prefix", "create", "busy", "python", "-c", "import time\nend = time.time() + 1\nwhile time.time() < end: pass").code, 0)
    result = call("python", SLEEP, "f", args=[0.7], cpu_time=0.5, timeout=20, prefix="busy")
    equal(result.value, "slept", result)


def test_memory():
    result = alike(TOUCH, args=[300], memory=96)
    equal((result.status, result.error["type"]), ("crash", "MemoryLimit"))
    assert result.usage["memoryPeakBytes"] > 48 << 20, result.usage


def test_memory_permits():
    result = alike(TOUCH, args=[50], memory=96)
    equal(result.value, 50)
    assert result.usage["memoryPeakBytes"] >= 50 << 20, result.usage


def test_memory_of_the_set_up_is_not_the_runs():
    equal(cli("prefix", "create", "large", "python", "-c", "data = bytearray(b'x') * (100 << 20)").code, 0)
    result = call("python", "def f(): return data[5000] + len(bytearray(10 << 20))", "f", prefix="large", memory=48)
    equal(result.status, "success", result)
    result = call("python", "def f():\n    for i in range(0, len(data), 4096): data[i] = 1", "f", prefix="large", memory=48)
    equal((result.status, result.error["type"]), ("crash", "MemoryLimit"), "(pages of the set-up that are written)")


def test_pids():
    result = alike(FORKS, args=[100], pids=20)
    equal(result.value, [True, "EAGAIN"])
    assert result.limits_hit, result
    equal(alike(FORKS, args=[10], pids=20).value, [True, "ok"])


def test_disk():
    equal(alike(WRITE, args=[40], disk=10).value, "ENOSPC")
    result = alike(WRITE, args=[5], disk=10)
    equal(result.value, "ok")
    assert result.usage["diskBytes"] >= 5 << 20, result.usage


def test_inodes():
    equal(alike(FILES, args=[500], inodes=100).value, "ENOSPC")
    equal(alike(FILES, args=[50], inodes=100).value, "ok")


def test_size_of_one_file():
    equal(alike(WRITE, args=[8], file_size=4).value, "EFBIG")


def test_open_files():
    equal(alike(OPEN, args=[200], open_files=64).value, "EMFILE")
    equal(alike(OPEN, args=[20], open_files=64).value, "ok")


def test_output():
    result = alike("def f(n): print('x' * n, end='')", args=[100000], output_limit=2000)
    assert result.limits_hit and len(result.stdout) < 4000, result


def test_errors():
    result = alike("def f():\n    x = {}\n    return x['k']")
    equal((result.status, result.error["type"]), ("error", "KeyError"))


def test_crashes():
    for how in ("os.abort()", "os.kill(os.getpid(), 9)", "os._exit(3)"):
        equal(alike(f"import os\ndef f(): {how}").status, "crash")


def test_what_is_called_and_how():
    alike("def f(a, b=2, *rest, **more): return [a, b, rest, more]", args=[1, 2, 3, {"$": "bytes", "b64": "AAE="}], kwargs={"z": 1})
    alike("def f(a): return a", args=[])
    alike("def f(n): return n", args=["x"], schema={"params": [{"name": "n", "type": "integer"}]})
