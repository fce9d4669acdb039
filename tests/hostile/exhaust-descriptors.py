"""Case 15-17: descriptors, watches, stacks and core files are bounded; a neighbour keeps its own share."""
import errno
import json
import time
from keeper_boxes import Keeper
from cloche import HANG, ORDINARY_USER, call, call_words, equal, guest_code, guest_value, need_ordinary_user, start, value_of


def flood(opener):
    return guest_value(f"""
        import select
        kept = []
        for made in range(100000):
            try:
                {opener}
            except OSError as e:
                return [made, errno.errorcode[e.errno]]
    """)


def test_descriptors():
    made, answer = flood("os.open('/dev/null', os.O_RDONLY)")
    equal(answer, "EMFILE")
    assert 900 < made < 1024, made


def test_epoll_flood():
    made, answer = flood("kept.append(select.epoll())")
    equal(answer, "EMFILE")
    assert made < 1024, made


def test_eventfd_flood():
    made, answer = flood("os.eventfd(0)")
    equal(answer, "EMFILE")


def neighbour_beside(hoard, ask):
    """The result of ask in one box while another, in which hoard ran to its end, still lives."""
    code = guest_code(hoard + "\nos.write(1, b'full')\ntime.sleep(3)\nreturn made")
    hog = start(*call_words("python", code, "attack", timeout=30))
    time.sleep(1)
    answer = guest_value(ask)
    out, err = hog.communicate(timeout=HANG)
    equal(hog.returncode, 0, err)
    result = json.loads(out)
    equal(result["stdout"], "full")
    assert 0 < result["result"] < 100000, result
    return answer


def test_inotify_flood_leaves_the_neighbour_its_own():
    """The kernel charges an instance to the box's user and to the creator of its user namespace, and so on upwards."""
    equal(neighbour_beside("made = 0\nwhile libc.inotify_init1(0) >= 0: made += 1", "return libc.inotify_init1(0) >= 0"), True)


def test_message_queues_leave_the_neighbour_its_own():
    """Their bytes are charged in the same way."""
    hoard = "made = 0\nwhile libc.mq_open(b'/q%d' % made, os.O_CREAT | os.O_RDWR, 0o600, None) >= 0: made += 1"
    equal(neighbour_beside(hoard, "return libc.mq_open(b'/mine', os.O_CREAT | os.O_RDWR, 0o600, None) >= 0"), True)


def test_locked_memory_leaves_the_neighbour_its_own():
    lock = "def lock(size):\n    area = mmap.mmap(-1, size)\n    kept.append(area)\n" \
           "    return syscall(149, ctypes.addressof(ctypes.c_char.from_buffer(area)), size)\nkept = []\n"
    equal(neighbour_beside(lock + "made = 0\nwhile lock(1 << 20) == 0: made += 1", lock + "return lock(1 << 20)"), 0)


def test_pending_signals_leave_the_neighbour_their_own():
    queue = "signal.pthread_sigmask(signal.SIG_BLOCK, [40])\n" \
            "info = struct.pack('iiiiii', 40, 0, -1, 0, os.getpid(), 1000) + bytes(104)\n"
    equal(neighbour_beside(queue + "made = 0\nwhile syscall(129, os.getpid(), 40, info) == 0: made += 1",
                           queue + "return syscall(129, os.getpid(), 40, info)"), 0)


# Descriptors in flight count for the sender's user, which is the same in all boxes of an ordinary user.
SEND = """
import array, os, socket, time
held, sent, fd = [], 0, os.open('/dev/null', os.O_RDONLY)
try:
    while True:
        held.append(socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM))
        held[-1][0].setblocking(False)
        try:
            while True: sent += 250 * held[-1][0].sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd] * 250))])
        except BlockingIOError: pass
except OSError as e: print(e.errno, sent > 1000, flush=True)
time.sleep(1000)
"""


def descriptors_under_way(*before, **limits):
    with Keeper(*before) as keeper:
        evil, neighbour = (keeper.sandbox(limits=limits) for _ in range(2))
        equal(evil.python(SEND).read("\n"), f"{errno.ETOOMANYREFS} True\n")
        # Requests that cost a descriptor: a terminal, a list of ports, programs, boxes.
        neighbour.shell("tty", terminal=[80, 24]).read("/dev/pts/0")
        equal(neighbour.ports(), [])
        equal(neighbour.said("echo served"), "served\n")
        equal(keeper.box(limits=limits).said("echo served"), "served\n")
        equal(evil.ports(), [])


def test_descriptors_under_way_leave_the_neighbour_its_own():
    descriptors_under_way(openFiles=1024)


def test_descriptors_under_way_leave_an_ordinary_users_boxes_their_own():
    need_ordinary_user()
    descriptors_under_way("setpriv", "--reuid", "12349", "--regid", "12349", "--clear-groups", openFiles=1024)  # no other test's user, for it is his count


def test_descriptors_under_way_without_a_limit():
    need_ordinary_user()
    descriptors_under_way(*ORDINARY_USER)


def test_raising_a_limit_is_refused():
    """Case 29. The twin: lowering works, and raising back to the hard limit too."""
    equal(guest_value("""
        def raised(which):
            soft, hard = resource.getrlimit(which)
            return attempt_limit(which, hard + 1)
        def attempt_limit(which, value):
            try:
                resource.setrlimit(which, (value, value))
                return 'ok'
            except (OSError, ValueError) as e:
                return 'refused'
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return [raised(w) for w in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC, resource.RLIMIT_MEMLOCK)]
    """), ["refused"] * 4)


def test_raising_with_prlimit_is_eperm():
    equal(guest_value("""
        PRLIMIT64 = 302
        wanted = struct.pack('QQ', 1 << 40, 1 << 40)
        return syscall(PRLIMIT64, 0, resource.RLIMIT_NOFILE, wanted, None)
    """), "EPERM")


def test_limits_of_the_first_process_stay():
    """With fewer descriptors it could not save its sandbox."""
    equal(guest_value("""
        PRLIMIT64 = 302
        few = struct.pack('QQ', 3, 3)
        own = resource.getrlimit(resource.RLIMIT_NOFILE)
        return [syscall(PRLIMIT64, 1, resource.RLIMIT_NOFILE, few, None), syscall(PRLIMIT64, 0, resource.RLIMIT_NOFILE, struct.pack('QQ', 64, own[1]), None)]
    """), ["EPERM", 0])


def test_no_core_file():
    result = call("python", guest_code("open('kept', 'w').close(); return in_child(lambda: os.abort())"), "attack")
    equal(result.value, ["signal", 6], result)
    equal([p.rsplit("/", 1)[-1] for p in result.paths("created")], ["kept"])
    # 1: no core, and no handler of the host's is started (core(5)); it stays so whatever a guest sets.
    equal(guest_value("""
        before = resource.getrlimit(resource.RLIMIT_CORE)
        for limit in ((0, 0), (1 << 30, 1 << 30), (resource.RLIM_INFINITY, resource.RLIM_INFINITY)):
            resource.setrlimit(resource.RLIMIT_CORE, limit)
        return [before, resource.getrlimit(resource.RLIMIT_CORE)]
    """), [[1, 1], [1, 1]])


def test_stack_overflow_is_a_segfault_of_the_box_alone():
    equal(call("python", "import faulthandler\ndef f(): faulthandler._stack_overflow()", "f").status, "crash")
    equal(value_of("python", "def f(): return 1", "f"), 1)


def test_javascript_recursion_is_a_range_error():
    result = call("javascript", "function f() { return f() + 1; }", "f")
    equal((result.status, result.error["type"]), ("error", "RangeError"), result)


def test_moderate_recursion_works():
    equal(value_of("python", "def f(n): return n and 1 + f(n - 1)", "f", args=[500]), 500)
