"""Each limit has its own status, reports the usage, and lets the permitted twin pass."""
from cloche import call, cli, equal, limit_hit, run

SPIN = "def f():\n    while True: pass"
SLEEP = "import time\ndef f(s):\n    time.sleep(s)\n    return 'slept'"
TOUCH = "def f(mib):\n    data = bytearray(mib << 20)\n    data[::4096] = b'x' * len(data[::4096])\n    return len(data) >> 20"
WRITE = "import errno\ndef f(mib):\n    try:\n        with open('big', 'wb', 0) as o:\n            for _ in range(mib): " \
        "assert o.write(bytes(1 << 20)) == 1 << 20\n        return 'ok'\n    except OSError as e:\n        return errno.errorcode[e.errno]"


def test_wall():
    result = call("python", SLEEP, "f", args=[100], timeout=1)
    limit_hit(result, "timeout", "WallTimeLimit")
    assert result.usage["wallMs"] >= 1000 and result.usage["cpuMs"] < 900, result.usage


def test_limits_are_told_in_units_and_exactly():
    for limit, text in (("1500ms", "1.5 s (1500 ms)"), ("300ms", "the limit is 300 ms")):
        told = call("python", SLEEP, "f", args=[100], timeout=limit).error["message"]
        assert told.startswith("stopped after ") and text in told, told
    told = call("python", TOUCH, "f", args=[400], memory="128M").error["message"]
    assert "the limit is 128 MiB (134217728 bytes)" in told, told


def test_wall_permits():
    equal(call("python", SLEEP, "f", args=[0.2], timeout=20).value, "slept")


def test_wall_of_a_fraction_of_a_second():
    limit_hit(call("python", SLEEP, "f", args=[100], timeout=0.5), "timeout", "WallTimeLimit")


def test_wall_javascript():
    limit_hit(call("javascript", "function f() { for (;;); }", "f", timeout=1), "timeout", "WallTimeLimit")


def test_cpu():
    result = call("python", SPIN, "f", cpu_time=1, timeout=30)
    limit_hit(result, "timeout", "CpuTimeLimit")
    assert result.usage["cpuMs"] >= 900, result.usage


def test_cpu_counts_all_processes_together():
    code = "import os\ndef f():\n    for _ in range(3): os.fork()\n    while True: pass"
    result = call("python", code, "f", cpu_time=1, timeout=30)
    limit_hit(result, "timeout", "CpuTimeLimit")


def test_cpu_does_not_charge_sleep():
    equal(call("python", SLEEP, "f", args=[1.5], cpu_time=1, timeout=20).value, "slept")


def test_memory():
    result = call("python", TOUCH, "f", args=[400], memory=128)
    limit_hit(result, "crash", "MemoryLimit")
    assert result.usage["memoryPeakBytes"] > 64 << 20, result.usage


def test_memory_permits():
    result = call("python", TOUCH, "f", args=[60], memory=128)
    equal(result.value, 60, result)
    assert result.usage["memoryPeakBytes"] >= 60 << 20, result.usage


def test_memory_javascript_buffers():
    code = "function f(mib) { const all = []; for (let i = 0; i < mib; i++) all.push(new Uint8Array(1 << 20).fill(1)); return all.length; }"
    limit_hit(call("javascript", code, "f", args=[600], memory=256), "crash", "MemoryLimit")
    equal(call("javascript", code, "f", args=[50], memory=256).value, 50)


def test_pids():
    code = """
        import errno, os, time
        def f(n):
            made = 0
            try:
                for made in range(n):
                    if os.fork() == 0:
                        time.sleep(100)
                        os._exit(0)
                return [n, 'ok']
            except OSError as e:
                return [made, errno.errorcode[e.errno]]
    """
    result = call("python", code, "f", args=[100], pids=20)
    equal(result.value[1], "EAGAIN", result)
    assert result.value[0] < 20, result
    assert result.limits_hit, result
    equal(call("python", code, "f", args=[10], pids=20).value, [10, "ok"])


def test_output():
    code = "def f(n): print('x' * n, end='')"
    result = call("python", code, "f", args=[100000], output_limit=2000)
    equal(result.status, "success")
    assert result.limits_hit and len(result.stdout) < 4000, result
    equal(call("python", code, "f", args=[1500], output_limit=2000).limits_hit, [])


def test_disk():
    result = call("python", WRITE, "f", args=[40], disk=10)
    equal(result.value, "ENOSPC", result)
    assert result.limits_hit, result
    result = call("python", WRITE, "f", args=[5], disk=10)
    equal((result.value, result.limits_hit), ("ok", []))
    assert result.usage["diskBytes"] >= 5 << 20, result.usage


def test_disk_is_one_quota_for_all_writable_places():
    code = WRITE.replace("'big'", "place").replace("f(mib)", "one(place, mib)") + \
        "\ndef f(): return [one(d + '/big', 4) for d in ('/workspace', '/tmp', '/dev/shm', '/home/cloche')]"
    equal(call("python", code, "f", disk=10).value[2:], ["ENOSPC", "ENOSPC"])


def test_zero_asks_for_no_limit():
    equal(call("python", SLEEP, "f", args=[0.1], timeout=0, cpu_time=0, memory=0, pids=0, output_limit=0).value, "slept")


def test_defaults_are_armed():
    result = call("python", TOUCH, "f", args=[900])
    limit_hit(result, "crash", "MemoryLimit")


def test_run_reports_its_verdicts_by_exit_code():
    equal(run("python", "import time; time.sleep(100)", timeout=1).code, 124)
    equal(run("python", "while True: pass", cpu_time=1).code, 124)
    equal(run("python", "x = bytearray(900 << 20)", memory=64).code, 1)


def test_a_limit_is_named_on_stderr():
    finished = cli("call", "python", "f", "-c", SPIN, "--timeout", "1")
    equal(finished.code, 124)
    assert finished.stderr.strip() and len(finished.stderr.splitlines()) <= 3, finished
