"""A cancelled run ends as terminated, at any moment, and nothing of it is left. The harness checks the latter:
processes, groups, mounts, files."""
import json
import os
import signal
import subprocess
import time
from cloche import CLI, HANG, alive, descendants, equal, start, value_of, wait_for

ENDS = {signal.SIGINT: -signal.SIGINT, signal.SIGTERM: 143}  # of the former it dies, so that a shell ends the loop it is in
BUSY = "import os, time\ndef f():\n    for _ in range(3): os.fork()\n    print('up', flush=True)\n    time.sleep(1000)"
STUBBORN = "import signal, time\ndef f():\n    for s in range(1, 65):\n        try: signal.signal(s, signal.SIG_IGN)\n" \
           "        except (OSError, ValueError): pass\n    while True: time.sleep(1)"


def started(code):
    return start("call", "python", "f", "-c", code, "--json", "--timeout", "60")


def in_the_box(process):
    """cloche, keeper, init and the interpreter are there, and the latter had a moment to begin."""
    wait_for(lambda: len(descendants(process.pid)) >= 3 or process.poll() is not None, "the box")
    time.sleep(0.4)


def cancelled(process, number):
    process.send_signal(number)
    out, err = process.communicate(timeout=HANG)
    equal(process.returncode, ENDS[number], err)
    return out


def test_sigterm():
    process = started(BUSY)
    in_the_box(process)
    result = json.loads(cancelled(process, signal.SIGTERM))
    equal((result["status"], result["exitCode"]), ("terminated", 143))


def test_sigint():
    process = started(BUSY)
    in_the_box(process)
    cancelled(process, signal.SIGINT)


def test_sigint_to_the_whole_group_as_a_terminal_sends_it():
    process = started(BUSY)
    in_the_box(process)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=HANG)
    equal(process.returncode, -signal.SIGINT)


def test_a_loop_of_a_shell_ends_with_it():
    process = subprocess.Popen(["bash", "-c", "for i in 1 2 3; do echo turn; $0 call python -c 'import time; time.sleep(1000)'; done; echo after", CLI],
                               start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    equal(process.stdout.readline(), b"turn\n")
    wait_for(lambda: len(descendants(process.pid)) >= 4, "the box")
    os.killpg(process.pid, signal.SIGINT)
    equal((process.communicate(timeout=HANG)[0], process.returncode), (b"", -signal.SIGINT))


def interrupt(code, times=1, options=()):
    """How a script ends that prints "up" and is interrupted then. It sleeps for short times only: a signal that comes right before
    Python's system call does not end that one."""
    process = start("run", "python", "-c", code, *options)
    equal(process.stdout.readline(), b"up\n")
    for _ in range(times):
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    out, err = process.communicate(timeout=HANG)
    return process.returncode, out, err


def test_an_interrupt_is_the_scripts():
    code, _, err = interrupt("import time\nprint('up', flush=True)\nwhile True: time.sleep(0.1)")
    equal(code, -signal.SIGINT, err)
    assert b"KeyboardInterrupt" in err and b"cloche:" not in err, err


def test_a_script_may_answer_an_interrupt():
    handled = "import time\ntry:\n  print('up', flush=True)\n  while True: time.sleep(0.1)\nexcept KeyboardInterrupt: print('saved'); raise SystemExit(%d)"
    equal(interrupt(handled % 7), (7, b"saved\n", b""))
    equal(interrupt(handled % 0), (0, b"saved\n", b""))


def test_children_of_a_script_are_interrupted_too():
    # subprocess.run would kill the child a quarter of a second later, which may be too early on a busy machine. The child says
    # that it is up when its parent can be interrupted.
    code, out, _ = interrupt("import subprocess\nchild = subprocess.Popen(['bash', '-c', \"trap 'echo child; exit 3' INT; read; echo up; while :; do sleep 0.1; done\"], stdin=subprocess.PIPE)\n"
                             "try: child.stdin.write(b'\\n'), child.stdin.flush(), child.wait()\nexcept KeyboardInterrupt: child.wait()")
    assert b"child" in out, (code, out)


def test_a_second_interrupt_ends_a_script_that_ignores_it():
    code, _, err = interrupt("import signal, time\nsignal.signal(2, signal.SIG_IGN)\nprint('up', flush=True)\nwhile True: time.sleep(0.1)", times=2)
    equal(code, -signal.SIGINT, err)
    assert b"terminated" in err, err


def test_code_that_ignores_signals():
    process = started(STUBBORN)
    in_the_box(process)
    cancelled(process, signal.SIGTERM)


def test_run_is_cancelled_too():
    process = start("run", "python", "-c", "print('up', flush=True)\nwhile True: pass")
    equal(process.stdout.readline(), b"up\n")
    cancelled(process, signal.SIGTERM)


def test_at_many_moments_of_the_start():
    """Before the program set its handlers the signal's default ends it, whenever that is on a busy machine; afterwards it is 143."""
    for step in range(16):
        process = started(BUSY)
        time.sleep(step * 0.008)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=HANG)
        assert process.returncode in (143, -signal.SIGTERM), (step, process.returncode)


def test_a_second_signal_does_no_harm():
    process = started(STUBBORN)
    in_the_box(process)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGTERM)
    cancelled(process, signal.SIGTERM)


def everything_dies(process, victim):
    family = descendants(process.pid)
    assert len(family) >= 3, family
    os.kill(victim, signal.SIGKILL)
    wait_for(lambda: not any(alive(p) for p in family), "the box to die")


def test_kill_of_the_cli_ends_everything():
    process = started(BUSY)
    in_the_box(process)
    everything_dies(process, process.pid)
    equal(process.wait(HANG), -signal.SIGKILL)
    process.stdout.close()


def test_kill_of_the_cli_at_many_moments():
    for step in range(10):
        process = started(BUSY)
        time.sleep(0.01 + step * 0.012)
        process.kill()
        process.communicate(timeout=HANG)
        equal(process.returncode, -signal.SIGKILL)


def test_kill_of_the_keeper_ends_the_box_and_is_an_error():
    process = started(BUSY)
    in_the_box(process)
    keeper = [p for p in descendants(process.pid) if "keeper" in open(f"/proc/{p}/comm").read()]
    assert keeper, "no process is named keeper"
    family = descendants(process.pid)
    os.kill(keeper[0], signal.SIGKILL)
    process.communicate(timeout=HANG)
    assert process.returncode not in (0, None), process.returncode
    wait_for(lambda: not any(alive(p) for p in family), "the box to die")
    # Its control groups remained; the next keeper removes them.
    equal(value_of("python", "def f(): return 'next'", "f"), "next")
