"""Leftovers of a run in its box must not reach the next one. A box is reused only if nothing differs (decision 0003); it
is recognized by the host user that its own is mapped to."""
import os

from cloche import skip
from warm import Warm

WHICH = "open('/proc/self/uid_map').read().split()[1]"
SETUP = """
import ctypes, os, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    r = libc.syscall(number, *args)
    return r if r >= 0 else -ctypes.get_errno()
"""


def left(code):
    """The boxes of three runs in a row: two with this code, of which the second has its files compared, and one without."""
    with Warm(setup=SETUP, spares=1, runs_max=1, ahead=0) as warm:
        program = "def main():\n" + "\n".join("    " + line for line in code.strip().splitlines()) + f"\n    return {WHICH}"
        return [warm.value(program, pause=60), warm.value(program, pause=60, changes=True), warm.value(WHICH, pause=60)]


def is_given_up(code):
    first, second, third = left(code)
    assert first != second, "the next run got the box"
    assert second != third, "the next run got the box, whose files had been compared"


def serves_again(code):
    assert len(set(boxes := left(code))) == 1, boxes


def test_an_untouched_box_serves_again():
    serves_again("x = sum(range(1000))")


def test_reading_is_no_touching():
    serves_again("os.listdir('/workspace'); open('/etc/passwd').read(); os.stat('/tmp')")


def test_a_file():
    is_given_up("open('/workspace/secret', 'w').write('x')")


def test_a_file_that_was_removed():
    is_given_up("open('/tmp/secret', 'w').write('x'); os.unlink('/tmp/secret')")


def test_a_file_in_shared_memory():
    is_given_up("open('/dev/shm/secret', 'w').close()")


def test_a_mode_set_and_set_back():
    is_given_up("os.chmod('/workspace', 0o700); os.chmod('/workspace', 0o755)")


def test_times_of_a_directory():
    is_given_up("os.utime('/home/cloche', (1, 1))")


def test_an_extended_attribute():
    if tuple(int(n) for n in os.uname().release.split(".")[:2]) < (6, 6):
        skip("tmpfs has user attributes since Linux 6.6")
    is_given_up("os.setxattr('/tmp', 'user.secret', b'x')")


def test_shared_memory_of_system_v():
    is_given_up("call(29, 0, 4096, 0o1600)  # shmget")


def test_shared_memory_of_system_v_that_was_removed():
    is_given_up("i = call(29, 0, 4096, 0o1600); call(31, i, 0, 0)  # shmctl IPC_RMID")


def test_semaphores_of_system_v():
    is_given_up("call(64, 0, 1, 0o1600)  # semget")


def test_messages_of_system_v():
    is_given_up("call(68, 0, 0o1600)  # msgget")


def test_a_message_queue_of_posix():
    is_given_up("assert call(240, b'secret', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0  # mq_open")


def test_a_connection_over_the_loopback():
    is_given_up("s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); c = socket.create_connection(s.getsockname())")


def attempts(*calls):
    """Makes each of these calls, and ignores the results."""
    return "def tries(f):\n    try: f()\n    except OSError: pass\n" + "\n".join(f"tries(lambda: {call})" for call in calls)


def test_a_connection_that_finds_no_way():
    """No packet leaves, but the network counts it: /proc/net/snmp, OutNoRoutes."""
    is_given_up(attempts("socket.socket().connect(('10.1.2.3', 4))"))


def test_a_datagram_that_finds_no_way():
    is_given_up(attempts("socket.socket(type=socket.SOCK_DGRAM).sendto(b'x', ('10.1.2.3', 4))"))


def test_a_datagram_of_ipv6_that_finds_no_way():
    is_given_up(attempts("socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).sendto(b'x', ('2001:db8::1', 4))"))


def test_sockets_without_traffic_are_no_touching():
    """The twin: names of the box, bound sockets, sockets between processes, and sockets that list interfaces."""
    serves_again("socket.getaddrinfo('localhost', 80); s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()\n"
                 "a, b = socket.socketpair(); a.send(b'x'); b.recv(1); socket.if_nameindex()")


def test_a_multicast_group():
    """A group that was left is spoken of up to a second later: the packet would be the next run's. So none can be joined."""
    with Warm(setup=SETUP) as warm:
        code = "def main():\n    s = socket.socket(type=socket.SOCK_DGRAM)\n    try: s.setsockopt(0, 35, bytes([224, 0, 0, 5, 127, 0, 0, 1]))\n    except OSError as e: return e.errno"
        assert warm.value(code) == 1  # EPERM


def test_a_file_that_never_had_a_name():
    """Its number is missing from those of later files."""
    is_given_up("os.close(os.open('/tmp', os.O_TMPFILE | os.O_RDWR))")


def test_what_the_first_process_reaped():
    """/proc/1/stat has the usage of its children, in numbers that the run chooses."""
    is_given_up("p = subprocess.Popen(['sh', '-c', 'sleep 0.01 &'], start_new_session=True); p.wait(); time.sleep(0.1)")


def test_a_signal_to_the_first_process():
    """/proc/1/status counts how often it woke up."""
    is_given_up("import signal; os.kill(1, signal.SIGCHLD)")


def test_a_process_that_stays_is_killed():
    """Its usage is added to the first process's children, so the box is given up."""
    is_given_up("p = subprocess.Popen(['sleep', '1000'], start_new_session=True)")


def test_the_scheduling_of_the_first_process_stays():
    """The twin is the run's own. lib/attempts.py has all ways to it."""
    serves_again("refused = []\nfor act in (lambda: os.setpriority(os.PRIO_PROCESS, 1, 19), lambda: os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0)), lambda: os.sched_setaffinity(1, [0])):\n"
                 "    try: act()\n    except PermissionError: refused.append(act)\n"
                 "assert len(refused) == 3\nos.setpriority(os.PRIO_PROCESS, 0, 5); os.sched_setaffinity(0, [0]); os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))")


def test_a_box_that_was_short_of_memory_is_given_up():
    with Warm(setup=SETUP, spares=1, runs_max=1, ahead=0) as warm:
        limits = {"memoryBytes": 64 << 20}
        before = warm.value(WHICH, limits=limits, pause=60)
        killed = warm.run("b'x' * (200 << 20)", limits=limits, pause=60)
        assert killed.status == "crash" and killed.error["type"] == "MemoryLimit", killed
        after = warm.value(WHICH, limits=limits, pause=60)
        assert isinstance(before, str) and isinstance(after, str)


# -- boxes that wait for their next child -----------------------------------------------------------------------------

PAUSE_MS = 1500
LATE = 0.5  # seconds: after the check, long before the next child
LOOK = f"""
def _names(path):
    return sorted(os.listdir(path))
def main():
    found = [_names(d) for d in ('/workspace', '/tmp', '/home/cloche', '/dev/shm', '/dev/mqueue')]
    found.append([open('/proc/' + n + '/comm').read() for n in _names('/proc') if n.isdigit()])
    found += [open('/proc/' + n).read() for n in ('net/dev', 'net/snmp', 'net/tcp', 'net/udp', 'net/unix')]
    began = int(open('/proc/self/stat').read().rsplit(')', 1)[1].split()[19]) / os.sysconf('SC_CLK_TCK')
    time.sleep(0.2)
    return [{WHICH}, found, began]
"""


def three_at_once(warm, program, **options):
    """The values of three runs in boxes of their own, {box: the rest}."""
    for _ in range(30):
        results = warm.runs(program, 3, **options)
        assert all(result.status == "success" for result in results), results
        values = [result.value for result in results]
        if len({value[0] for value in values}) == 3:
            return {value[0]: value[1:] for value in values}
    raise AssertionError(f"no three at once: {values}")


def waits(code):
    """Three runs with this code come back at once, and one of their boxes gets a child. The boxes of theirs that serve
    again after the pause, and the fewest seconds from the end of the three to a child in one of those."""
    with Warm(setup=SETUP, spares=1, runs_max=3) as warm:
        fresh = three_at_once(warm, LOOK)
        program = "def main():\n" + "\n".join("    " + line for line in code.strip().splitlines())
        program += f"\n    time.sleep(0.2)\n    return [{WHICH}, time.clock_gettime(time.CLOCK_BOOTTIME)]"
        before = three_at_once(warm, program, changes=True)
        after = three_at_once(warm, LOOK, pause=PAUSE_MS)
        for found, _ in after.values():
            assert found == (want := next(iter(fresh.values()))[0]), (found, want)
        end = max(ended for ended, in before.values())
        return {box: began - end for box, (_, began) in after.items() if box in before}


def test_a_box_that_waits_serves_again():
    """The twin: boxes that nobody touched serve again, and at least one got its child after the pause."""
    kept = waits("pass")
    assert kept and max(kept.values()) > PAUSE_MS / 2000, kept


def test_a_process_that_would_write_while_its_box_waits():
    assert not waits(f"subprocess.Popen(['sh', '-c', 'sleep {LATE}; echo x >/workspace/late'], start_new_session=True)")


def test_a_grandchild_of_nobody_that_would_write_while_its_box_waits():
    assert not waits(f"if os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
                     f"        time.sleep({LATE}); open('/tmp/late', 'w').close()\n    os._exit(0)\nos.wait()")


def test_a_thread_that_would_write_while_its_box_waits():
    """It ends with the run's process, so the box is clean; three_at_once has seen that nothing came late."""
    waits(f"import threading\nthreading.Thread(target=lambda: (time.sleep({LATE}), open('/tmp/late', 'w')), daemon=True).start()")


def test_sockets_that_hold_each_other_while_their_box_waits():
    """The kernel collects such a ring later than the process that made it."""
    waits("import array\na, b = socket.socketpair()\n"
          "for s, o in ((a, b), (b, a)):\n    s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [o.fileno()]))])")
