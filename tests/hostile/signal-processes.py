"""Cases 25-28, 31: nothing outside can be signalled, traced or read; nothing inside gets more weight."""
import os
import pty
import subprocess
from cloche import HANG, equal, guest_value, one_of, guest, start


def test_kill_everything_hits_the_box_only():
    sleeper = subprocess.Popen(["sleep", "1000"])
    result = guest("""
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        os.kill(-1, signal.SIGKILL)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    """)
    equal(result.value, -9, result)
    equal(sleeper.poll(), None)
    sleeper.kill()
    sleeper.wait()


def test_a_process_of_the_host_does_not_exist():
    outside = os.getpid()
    answers = guest_value(f"return [attempt(os.kill, {outside}, 0), attempt(os.kill, 1 << 21, 9), attempt(os.kill, os.getpid(), 0)]")
    equal(answers, ["ESRCH", "ESRCH", "ok"])


def test_the_boxes_init_cannot_be_killed():
    equal(guest_value("""
        attempt(os.kill, 1, signal.SIGKILL)
        attempt(os.kill, 1, signal.SIGSTOP)
        attempt(os.kill, 1, signal.SIGTERM)
        time.sleep(0.2)
        return subprocess.run(['/bin/true']).returncode
    """), 0)


def test_ptrace_is_refused():
    answers = guest_value("""
        PTRACE, TRACEME, ATTACH, SEIZE = 101, 0, 16, 0x4206
        child = os.fork()
        if child == 0:
            time.sleep(1000)
        return [syscall(PTRACE, TRACEME, 0, 0, 0), syscall(PTRACE, ATTACH, child, 0, 0), syscall(PTRACE, ATTACH, 1, 0, 0),
                syscall(PTRACE, SEIZE, child, 0, 0), attempt(os.kill, child, signal.SIGKILL)]
    """)
    equal(answers, ["EPERM"] * 4 + ["ok"])


def test_reaching_into_another_process_is_refused():
    answers = guest_value("""
        READV, WRITEV, KCMP, PIDFD_OPEN, PIDFD_GETFD = 310, 311, 312, 434, 438
        own = syscall(PIDFD_OPEN, os.getpid(), 0)
        return [syscall(READV, 1, 0, 0, 0, 0, 0), syscall(WRITEV, 1, 0, 0, 0, 0, 0),
                syscall(KCMP, os.getpid(), 1, 0, 0, 0), syscall(PIDFD_GETFD, own, 0, 0), own >= 0]
    """)
    equal(answers, ["EPERM"] * 4 + [True])


def test_memory_of_init_is_closed():
    for name in ("mem", "maps", "environ", "fd", "cwd", "root", "exe"):
        answer = guest_value(f"""
            path = '/proc/1/{name}'
            if os.path.islink(path):
                return attempt(os.readlink, path)
            return attempt(os.listdir if '{name}' == 'fd' else lambda p: open(p, 'rb').read(16), path)
        """)
        one_of(answer, "EACCES", "EPERM")


def test_own_memory_is_open():
    equal(guest_value("return attempt(lambda: open('/proc/self/maps').read()), len(os.listdir('/proc/self/fd')) > 0"), ["ok", True])


def test_out_of_memory_score_cannot_sink():
    """The twin: making oneself a likelier victim is anyone's right."""
    answers = guest_value("""
        def write(value):
            with open('/proc/self/oom_score_adj', 'w') as file:
                file.write(value)
        return [attempt(write, '-1000'), attempt(write, '1000')]
    """)
    one_of(answers[0], "EACCES", "EPERM")
    equal(answers[1], "ok")


def test_priority_cannot_rise():
    answers = guest_value("""
        return [attempt(os.nice, -20), attempt(os.setpriority, os.PRIO_PROCESS, 0, -20), attempt(os.nice, 5)]
    """)
    one_of(answers[0], "EPERM", "EACCES")
    one_of(answers[1], "EPERM", "EACCES")
    equal(answers[2], "ok")


def test_realtime_scheduling_is_refused():
    equal(guest_value("""
        return [attempt(os.sched_setscheduler, 0, policy, os.sched_param(50)) for policy in (os.SCHED_FIFO, os.SCHED_RR)] + \\
               [attempt(os.sched_setscheduler, 0, os.SCHED_BATCH, os.sched_param(0))]
    """), ["EPERM", "EPERM", "ok"])


def test_typing_into_the_callers_terminal():
    """TIOCSTI and TIOCLINUX, on the terminal the caller's own stdin is; with high argument bits set too."""
    master, slave = pty.openpty()
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def ioctl(request):
    ctypes.set_errno(0)
    return 'ok' if libc.syscall(ctypes.c_long(16), ctypes.c_long(0), ctypes.c_long(request), b'x') == 0 else errno.errorcode[ctypes.get_errno()]
print([ioctl(r) for r in (0x5412, 0x541C, 0x5412 | 1 << 32)], os.isatty(0), flush=True)
"""
    process = start("run", "python", "-c", code, stdin=slave)
    out, err = process.communicate(timeout=HANG)
    os.close(slave)
    equal(out, b"['EPERM', 'EPERM', 'EPERM'] False\n", err)
    os.set_blocking(master, False)
    try:
        equal(os.read(master, 100), b"")
    except (BlockingIOError, OSError):
        pass
    os.close(master)


def test_reading_the_terminal_works():
    master, slave = pty.openpty()
    process = start("run", "python", "-c", "print(input())", stdin=slave)
    os.write(master, b"typed\n")
    out, err = process.communicate(timeout=HANG)
    equal(out, b"typed\n", err)
    os.close(slave)
    os.close(master)
