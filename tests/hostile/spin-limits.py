"""Cases 8-10, 30: code that never ends, whatever it ignores, ends."""
from cloche import equal, guest, limit_hit, call, guest_value

IGNORE_ALL = """
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
"""


def test_endless_loop_meets_the_cpu_limit():
    limit_hit(guest("while True: pass", cpu_time=1, timeout=30), "timeout", "CpuTimeLimit")


def test_endless_loop_meets_the_wall_limit():
    limit_hit(guest("while True: pass", cpu_time=30, timeout=1), "timeout", "WallTimeLimit")


def test_ignored_signals_do_not_help_against_cpu():
    limit_hit(guest(IGNORE_ALL + "while True: pass", cpu_time=1, timeout=30), "timeout", "CpuTimeLimit")


def test_ignored_signals_do_not_help_against_wall():
    limit_hit(guest(IGNORE_ALL + "while True: time.sleep(1)", timeout=1), "timeout", "WallTimeLimit")


def test_many_threads_share_the_cpu_limit():
    result = guest("""
        for _ in range(3):
            if os.fork() == 0:
                while True: pass
        while True: pass
    """, cpu_time=1, timeout=30)
    limit_hit(result, "timeout", "CpuTimeLimit")


def test_children_one_after_another_are_summed():
    """Each child stays below the limit; together they pass it."""
    result = guest("""
        def burn():
            end = time.process_time() + 0.3
            while time.process_time() < end: pass
        while True: in_child(burn)
    """, cpu_time=1, timeout=30)
    limit_hit(result, "timeout", "CpuTimeLimit")


def test_sleep_is_not_charged():
    result = guest("time.sleep(1000)", timeout=1)
    limit_hit(result, "timeout", "WallTimeLimit")
    assert result.usage["cpuMs"] < 900, result.usage


def test_stopped_process_ends_too():
    limit_hit(guest("os.kill(os.getpid(), signal.SIGSTOP)", timeout=1), "timeout", "WallTimeLimit")


def test_javascript_blocked_event_loop():
    limit_hit(call("javascript", "function f() { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0); }", "f",
                   timeout=1), "timeout", "WallTimeLimit")


def test_catastrophic_regular_expression():
    limit_hit(call("javascript", "function f() { return /^(a+)+$/.test('a'.repeat(60) + '!'); }", "f", timeout=1),
              "timeout", "WallTimeLimit")


def test_cleared_death_signal_does_not_outlive_the_box():
    """Case 30: the harness finds the grandchild if it lives on."""
    equal(guest_value("""
        PR_SET_PDEATHSIG = 1
        if os.fork() == 0:
            libc.prctl(PR_SET_PDEATHSIG, 0)
            os.setsid()
            for number in range(1, 32):
                attempt(signal.signal, number, signal.SIG_IGN)
            time.sleep(1000)
        time.sleep(0.2)
        return 'done'
    """), "done")


def test_work_below_both_limits_is_done():
    equal(guest_value("return sum(range(10 ** 6))", cpu_time=20, timeout=20), 499999500000)
