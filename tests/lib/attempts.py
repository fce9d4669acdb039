"""Attempts to break out of a box of any kind. One table, for every kind of box (tests/hostile/every-box.py), and for an
environment where all of it is permitted, which proves that the attempts work.

An attempt is the body of a function in Python. It returns its successes: a list of texts, empty if everything
was refused. It must be harmless if it succeeds: descriptors are opened and not written to, arguments are invalid, which
the kernel reports only after it has checked the right to the call."""
import json
import textwrap

# By number: refused in every box with EPERM, for all arguments.
REFUSED_CALLS = {
    "process memory": dict(ptrace=101, process_vm_readv=310, process_vm_writev=311, kcmp=312, pidfd_getfd=438,
                           process_madvise=440),
    "mounts": dict(mount=165, umount2=166, pivot_root=155, chroot=161, open_tree=428, move_mount=429, fsopen=430,
                   fsconfig=431, fsmount=432, fspick=433, mount_setattr=442),
    "namespaces": dict(unshare=272, setns=308),
    "keys": dict(add_key=248, request_key=249, keyctl=250),
    "kernel code": dict(init_module=175, delete_module=176, finit_module=313, kexec_load=246, kexec_file_load=320, bpf=321,
                        perf_event_open=298, userfaultfd=323),
    "handles": dict(name_to_handle_at=303, open_by_handle_at=304),
    "machine": dict(reboot=169, swapon=167, swapoff=168, acct=163, quotactl=179, syslog=103, iopl=172, ioperm=173,
                    modify_ldt=154, personality=135, sync=162, syncfs=306),
    "clocks and names": dict(settimeofday=164, adjtimex=159, clock_settime=227, clock_adjtime=305, sethostname=170,
                             setdomainname=171),
    "own filters": dict(seccomp=317, landlock_create_ruleset=444, fanotify_init=300),
}

PRELUDE = r'''
import ctypes, errno, fcntl, mmap, os, resource, signal, socket, stat, struct, sys, time
if not os.uname().nodename.startswith("cloche"):
    raise SystemExit("an attack that is not in a box would be one on the host")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
REFUSED = {errno.EPERM, errno.EACCES, errno.ENOSYS}

def call(number, *arguments):
    """The value, or minus the errno."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    value = libc.syscall(ctypes.c_long(number), *words)
    return value if value >= 0 else -ctypes.get_errno()

def got(what, value, *refused):
    """Of a call: nothing when it was refused, else how it went on; refused: other errnos that say so."""
    return [] if value < 0 and (-value in REFUSED or -value in refused) else [f"{what}: {errno.errorcode.get(-value, value) if value < 0 else 'done'}"]

def made(what, function, *arguments, refused=()):
    """The same of a function of Python's."""
    try:
        function(*arguments)
        return [f"{what}: done"]
    except OSError as error:
        return got(what, -error.errno, *refused)

def opened(paths, flags, *refused):
    found = []
    for path in paths:
        try: fd = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            if error.errno not in REFUSED | {errno.EROFS, errno.ENOENT, errno.ESRCH, errno.EINVAL, errno.EISDIR, errno.ENXIO, *refused}: found.append(f"{path}: {errno.errorcode[error.errno]}")
            continue
        if os.fstat(fd).st_rdev != os.makedev(1, 3) or path.startswith("/dev"): found.append(path)  # /dev/null stands before what is masked
        os.close(fd)
    return found

def in_child(function):
    """What a forked child got, or the signal that ended it. By the system call: hooks around a fork are for forks that are none of ours."""
    back, out = os.pipe()
    pid = call(57)
    if pid == 0:
        try: said = function()
        except BaseException as error: said = [repr(error)]
        os.write(out, repr(said).encode()[:4000])
        os._exit(0)
    os.close(out)
    said = os.read(back, 4096)
    os.close(back)
    status = os.waitpid(pid, 0)[1]
    return eval(said) if said else [f"the child ended with {status}"]

def others():
    """Processes in sight that are not a guest's: the first one, and whoever shows nothing of himself to his own user; or those that are to be climbed."""
    def is_closed(pid):
        try:
            with open(f"/proc/{pid}/environ") as file: return file.read(0) != ""
        except OSError: return True
    return VICTIMS or [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc"))) if pid == 1 or (pid != os.getpid() and is_closed(pid))]

def pidfds():
    return [(pid, fd) for pid, fd in ((pid, call(434, pid, 0)) for pid in others()) if fd >= 0]

def peer_pidfd():
    """Of whoever made the other end of a socket that came from outside."""
    found = []
    for fd in map(int, os.listdir("/proc/self/fd")):
        try:
            if fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode):
                with socket.socket(fileno=os.dup(fd)) as s: found.append(struct.unpack("i", s.getsockopt(socket.SOL_SOCKET, 77, 4))[0])  # SO_PEERPIDFD
        except OSError: pass
    return found

def top_of_proc():
    for directory, names, files in os.walk("/proc"):
        if directory == "/proc": names[:] = [name for name in names if not name.isdigit() and name not in ("self", "thread-self")]
        for name in files:
            if not os.path.islink(os.path.join(directory, name)): yield os.path.join(directory, name)

def places():
    """Of the descriptors there are, before anything is tried."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try: found.append(os.readlink("/proc/self/fd/" + name))
        except OSError: pass
    return found

def take_capability(cap):
    sets = struct.pack("6I", 1 << cap, 1 << cap, 1 << cap, 0, 0, 0)
    return in_child(lambda: got(f"capability {cap}", call(126, struct.pack("Ii", 0x20080522, 0), sets)) + got(f"ambient {cap}", libc.prctl(47, 2, cap, 0, 0) and -ctypes.get_errno()))

VICTIMS, PLACES = [], places()
SCRATCH = "/tmp/attempts"
'''

# Attempts by subject. Operations that a box must permit, so that its programs work, are not included.
ATTEMPTS = {
    # -- visible processes
    "trace": """
        return [found for pid in others() for found in got(f"seize {pid}", call(101, 0x4206, pid, 0, 0)) + got(f"attach {pid}", call(101, 16, pid, 0, 0))]
    """,
    "be traced": "return in_child(lambda: got('traceme', call(101, 0, 0, 0, 0)))",
    "read the memory of another": """
        place = ctypes.create_string_buffer(8)
        vector = (ctypes.c_uint64 * 2)(ctypes.addressof(place), 8)
        return [found for pid in [*others(), os.getpid()] for number in (310, 311)
                for found in got(f"process_vm {pid}", call(number, pid, ctypes.byref(vector), 1, ctypes.byref(vector), 1, 0))]
    """,
    "take a descriptor of another": """
        own = call(434, os.getpid(), 0)
        return [found for pid, fd in [*pidfds(), (0, own)] for found in got(f"getfd {pid}", call(438, fd, 0, 0))]
    """,
    "take a descriptor of who started it": """
        return [found for fd in peer_pidfd() for found in got("getfd", call(438, fd, 3, 0)) + got("signal", call(424, fd, 0, None, 0), 22)] + [
            found for fd in peer_pidfd() for kind in range(0xff01, 0xff0b) for found in got(f"namespace {kind:x}", call(16, fd, kind, 0), 25, 22, 3)]
    """,
    "namespaces of another, by its pidfd": """
        return [found for pid, fd in pidfds() for kind in range(0xff01, 0xff0b) for found in got(f"{pid} {kind:x}", call(16, fd, kind, 0), 25, 22)]
    """,
    "join another by its pidfd": "return [found for pid, fd in pidfds() for found in got(f'join {pid}', call(308, fd, 0x20000), 22)]",
    "files of another": """
        names = ("mem", "environ", "maps", "smaps", "auxv", "io", "stack", "syscall", "pagemap", "map_files", "fd/0", "root/tmp", "cwd/tmp", "exe", "ns/mnt", "ns/user",
                 "ns/net", "ns/pid", "timers", "personality", "fdinfo/0", "stack")
        def is_read(path):
            try: fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            except OSError: return False
            try: return path.rsplit("/")[-1] in ("mem", "pagemap", "map_files", "0", "tmp", "exe") or "/ns/" in path or os.read(fd, 64) != b""
            except OSError: return False
            finally: os.close(fd)
        return [path for path in (f"/proc/{pid}/{name}" for pid in others() for name in names) if is_read(path)]
    """,
    "settings of another": """
        names = ("oom_score_adj", "comm", "coredump_filter", "clear_refs", "uid_map", "gid_map", "projid_map", "setgroups", "loginuid", "mem")
        def slack(pid):
            with open(f"/proc/{pid}/timerslack_ns", "wb", 0) as file: file.write(b"50000")
        return opened([f"/proc/{pid}/{name}" for pid in others() for name in names], os.O_WRONLY) + [f for pid in others() for f in made(f"slack of {pid}", slack, pid)]
    """,
    "compare descriptors": "return [found for pid in [*others(), os.getpid()] for found in got(f'kcmp {pid}', call(312, pid, pid, 0, 0, 0))]",
    "memory of another, by advice": "return [found for pid, fd in [*pidfds(), (0, call(434, os.getpid(), 0))] for found in got(f'advise {pid}', call(440, fd, None, 0, 4, 0))]",
    "pages of another": "return [found for pid in [*others(), os.getpid()] for number in (279, 256) for found in got(f'{number} {pid}', call(number, pid, 0, None, None, None, 0))]",
    "futexes of another": """
        head, size = ctypes.c_uint64(), ctypes.c_uint64()
        return [found for pid in others() for found in got(f"robust list of {pid}", call(274, pid, ctypes.byref(head), ctypes.byref(size)))]
    """,
    "forge a message's sender": """
        one, other = socket.socketpair()
        other.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        return made("as root", one.sendmsg, [b"x"], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack("iii", 1, 0, 0))], refused=(22,))
    """,
    # -- namespaces, mounts, rights
    "new namespaces": """
        return [found for flag in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
                for found in in_child(lambda: got(f"unshare {flag:x}", call(272, flag)))]
    """,
    "children in new namespaces": """
        def child(number, *arguments):
            pid = call(number, *arguments)
            if pid == 0: os._exit(0)
            return pid
        def clone3(flags):
            room = (ctypes.c_uint64 * 8)(flags, 0, 0, 0, 17)
            return child(435, ctypes.byref(room), 64)
        return [found for flag in (0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000)
                for found in got(f"clone {flag:x}", child(56, flag | 17, 0, 0, 0, 0)) + got(f"clone3 {flag:x}", clone3(flag))]
    """,
    "maps of users": """
        def write(name, text):
            fd = os.open("/proc/self/" + name, os.O_WRONLY)
            try: os.write(fd, text)
            finally: os.close(fd)
        def tries():
            call(272, 0x10000000)  # where it may have a namespace of its own, it is its master there
            return [f for name, text in (("uid_map", b"0 0 1"), ("gid_map", b"0 0 1")) for f in made(name, write, name, text, refused=(22,))]
        return in_child(tries)
    """,
    "groups of its namespace": "return made('setgroups', lambda: os.write(os.open('/proc/self/setgroups', os.O_WRONLY), b'allow'))",
    "other users": "return [found for id in (0, 1, 65534, 1001) for found in in_child(lambda: got(f'user {id}', call(117, id, id, id), 22) + got(f'group {id}', call(119, id, id, id), 22) + got('groups', call(116, 1, struct.pack('I', id)), 22))]",
    "capabilities": "return [found for cap in (0, 1, 5, 7, 12, 19) for found in take_capability(cap)]",
    "the right to administrate": "return take_capability(21)",
    "new mounts": """
        return (got("fsopen", call(430, b"tmpfs", 0)) + got("open_tree", call(428, -100, b"/tmp", 0x80001)) + got("open_tree of a part", call(428, -100, b"/tmp", 0))
                + got("mount", call(165, b"none", SCRATCH.encode(), b"tmpfs", 0, None)) + got("bind", call(165, b"/proc", SCRATCH.encode(), None, 4096, None)))
    """,
    "other mounts": """
        attributes = struct.pack("4Q", 0, 1, 0, 0)  # away with read-only
        return (got("mount_setattr", call(442, -100, b"/proc", 0, attributes, 32)) + got("move", call(429, -100, b"/none", -100, b"/none", 0))
                + got("umount", call(166, SCRATCH.encode(), 2)) + got("remount", call(165, None, b"/tmp", None, 0x1020, None)) + got("pivot_root", call(155, b"/none", b"/none"))
                + got("chroot", in_child(lambda: [call(161, b"/tmp")])[0]) + got("fspick", call(433, -100, b"/tmp", 0)) + got("share", call(165, None, b"/", None, 1 << 20, None)))
    """,
    "who owns the namespaces": """
        found, own = [], os.stat("/proc/self/ns/user")
        for kind in os.listdir("/proc/self/ns"):
            fd = os.open("/proc/self/ns/" + kind, os.O_RDONLY)
            for request in (0xb701, 0xb702):  # NS_GET_USERNS, NS_GET_PARENT
                above = call(16, fd, request, 0)
                if above >= 0 and not os.path.samestat(os.fstat(above), own): found.append(f"{kind} {request:x}")
        return found
    """,
    "next mounts": "return got('next', call(16, os.open('/proc/self/ns/mnt', 0), 0x8010b70b, ctypes.create_string_buffer(64)), 25, 22) + got('listmount', call(458, struct.pack('QQQQ', 24, (1 << 64) - 1, 0, 0)[:32], ctypes.create_string_buffer(64), 8, 0), 22)",
    "handles of files": """
        room = ctypes.create_string_buffer(struct.pack("Ii", 120, 0), 128)
        return got("name", call(303, -100, b"/tmp", room, ctypes.byref(ctypes.c_int()), 0)) + got("open", call(304, -100, room, 0), 9, 116)
    """,
    # -- the kernel's soft parts
    "keys": "return got('add_key', call(248, b'user', b'cloche', b'x', 1, -2)) + got('session', call(250, 1, None)) + got('request_key', call(249, b'user', b'cloche', None, -2)) + got('read', call(250, 11, -4, None, 0))",
    "BPF": """
        step = ctypes.create_string_buffer(struct.pack("BBhiBBhi", 0xb7, 0, 0, 0, 0x95, 0, 0, 0))
        licence = ctypes.create_string_buffer(b"GPL")
        load = struct.pack("IIQQ", 1, 2, ctypes.addressof(step), ctypes.addressof(licence)) + bytes(96)
        return got("program", call(321, 5, load, 120)) + got("map", call(321, 0, struct.pack("5I", 2, 4, 4, 1, 0) + bytes(100), 120))
    """,
    "performance events": "return got('perf', call(298, struct.pack('IIQ', 1, 128, 1) + bytes(112), 0, -1, -1, 0), 2)",
    "page faults": "return got('userfaultfd', call(323, 1)) + opened(['/dev/userfaultfd'], os.O_RDWR)",
    "rings": "return got('io_uring', call(425, 8, ctypes.create_string_buffer(120)))",
    "listeners of calls": """
        step = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0x7fff0000), 8)
        program = struct.pack("Q", 1) + struct.pack("Q", ctypes.addressof(step))
        return in_child(lambda: got("listener", call(317, 1, 8, program)) + got("sizes", call(317, 3, 0, ctypes.create_string_buffer(16))) + got("strict", libc.prctl(22, 9, 0, 0, 0) and -ctypes.get_errno()))
    """,
    "watching the file system": "return got('fanotify', call(300, 0x200, 0))",
    "modules and kernels": "return got('init_module', call(175, 1, 1, 1)) + got('kexec', call(246, 0, 17, 1, 0)) + got('finit_module', call(313, -1, 1, 0)) + got('delete', call(176, b'none', 0))",
    "machine": "return got('iopl', in_child(lambda: [call(172, 3)])[0]) + got('syslog', call(103, 10, None, 0)) + got('reboot', call(169, 0, 0, 0, 0)) + got('swapon', call(167, b'/none', 0)) + got('acct', call(163, 1)) + got('quota', call(179, 0, 0, 0, 0)) + got('local table', call(154, 0, None, 0)) + got('personality', call(135, 0xffffffff))",
    "clocks": """
        wrong = struct.pack("qq", -1, -1)
        return got("settimeofday", call(164, wrong, None)) + got("clock_settime", call(227, 0, wrong)) + got("adjtimex", call(159, ctypes.create_string_buffer(208))) + got(
            "adjust", call(305, 0, ctypes.create_string_buffer(208))) + [f for clock in (8, 9) for f in got(f"alarm {clock}", call(283, clock, 0), 22)]
    """,
    "names of the machine": "return got('host name', call(170, b'cloche', 6)) + got('domain', call(171, b'', 0))",
    "a flush of every disk": "return got('sync', call(162))",
    "a flush of a file system": "return got('syncfs', call(306, os.open('/tmp', 0)))",
    "memory that is broken": "return [f for advice in (100, 101) for f in got(f'advice {advice}', call(28, 4096, 4096, advice), 22)]  # where nothing is",
    "the first page": "return got('map', call(9, 0, 4096, 3, 0x32, -1, 0), 22)",
    "huge or secret pages": "return got('secret', call(447, 0)) + got('memory policy', call(238, 0, None, 0)) + got('place', call(237, 0, 0, 0, None, 0, 0))",
    # -- privileges over others
    "real time": """
        def tries():
            found = []
            for policy in (1, 2):
                try: os.sched_setscheduler(0, policy, os.sched_param(1)); found.append(f"policy {policy}")
                except OSError: pass
            return found + got("deadline", call(314, 0, struct.pack("IIQiIQQQ", 48, 6, 0, 0, 0, 10**6, 10**7, 10**7), 0))
        return in_child(tries)
    """,
    "a better priority": "return in_child(lambda: made('nice', os.setpriority, 0, 0, os.getpriority(0, 0) - 1) + got('disk', call(251, 1, 0, 1 << 13)) + got('all of a user', call(251, 3, 0, 1 << 13), 3))",
    "priority and processors of the first process": """
        # It answers all requests to its box. A process's group and user are others' too.
        first, own = VICTIMS or [1], os.getuid()
        one, none = struct.pack("Q", 1), struct.pack("i", 0)
        batch = struct.pack("IIQiIQQQ", 48, 3, 0, 19, 0, 0, 0, 0)
        return [f for pid in first for which, number, arguments in (
                    ("process", 141, (0, pid, 19)), ("group", 141, (1, pid, 19)), ("user", 141, (2, own, 19)), ("processors", 203, (pid, 8, one)), ("scheduler", 144, (pid, 3, none)),
                    ("parameters", 142, (pid, none)), ("attributes", 314, (pid, batch, 0)), ("disk", 251, (1, pid, 0x6000)), ("disk of a group", 251, (2, pid, 0x6000)), ("disk of a user", 251, (3, own, 0x6000)))
                for f in got(which, call(number, *arguments), *([3] if VICTIMS else []))]
    """,
    "higher limits": """
        def raised(which):
            soft, hard = resource.getrlimit(which)
            return [] if hard < 0 else made(f"limit {which}", lambda: resource.prlimit(0, which, (hard + 1, hard + 1)))
        def guarded(which):
            try: return raised(which)
            except ValueError: return []
        return in_child(lambda: [found for which in (6, 7, 8, 11, 12, 13, 14) for found in guarded(which)])
    """,
    "a processor for itself": "return in_child(lambda: got('core scheduling', libc.prctl(62, 1, 0, 0, 0) and -ctypes.get_errno()))",
    "larger pipes": """
        # A pipe that came from outside is on its maker's account.
        found = []
        for fd in (0, 1, 2):
            if stat.S_ISFIFO(os.fstat(fd).st_mode):
                found += made(f"pipe {fd}", fcntl.fcntl, fd, 1031, 1 << 18)
        r, w = os.pipe()
        return found + made("own pipe", fcntl.fcntl, r, 1031, 1 << 18)
    """,
    "settings of its memory map": "return [f for option in range(1, 15) for f in got(f'memory map {option}', libc.prctl(35, option, 0, 0, 0) and -ctypes.get_errno())]",
    "who may trace it": "return in_child(lambda: got('tracer', libc.prctl(0x59616d61, -1, 0, 0, 0) and -ctypes.get_errno()) + got('flusher', libc.prctl(57, 1, 0, 0, 0) and -ctypes.get_errno()))",
    "memory merged with others'": "return in_child(lambda: got('merge', libc.prctl(67, 1, 0, 0, 0) and -ctypes.get_errno()) + got('advice', call(28, 0, 0, 12)))",
    # -- files of the kernel
    "settings of the kernel": "return opened((os.path.join(d, n) for d, _, names in os.walk('/proc/sys') for n in names), os.O_WRONLY)",
    "the rest of /proc": "return opened((path for path in top_of_proc() if not path.startswith('/proc/sys/')), os.O_WRONLY, errno.EIO)",
    "a handler of crashes": """
        # A core is written to a program of the host's (core(5)), also by who has no room for one, unless the limit is 1.
        return [] if resource.getrlimit(resource.RLIMIT_CORE) == (1, 1) else [f"limit {resource.getrlimit(resource.RLIMIT_CORE)}"]
    """,
    "an end of the limit of crashes": """
        def tries():
            limit = resource.getrlimit(resource.RLIMIT_CORE)
            for act in (lambda: resource.setrlimit(resource.RLIMIT_CORE, (0, 0)), lambda: call(302, 0, 4, struct.pack("QQ", 0, 0), None), lambda: call(160, 4, struct.pack("QQ", 0, 0))):
                try: act()
                except OSError: pass
            return [] if resource.getrlimit(resource.RLIMIT_CORE) == limit else ["lowered"]
        return in_child(tries)
    """,
    "devices": """
        found = []
        for name, kind, device in (("mem", 0o020600, (1, 1)), ("disk", 0o060600, (254, 0)), ("fuse", 0o020600, (10, 229)), ("tun", 0o020600, (10, 200)), ("kmsg", 0o020600, (1, 11))):
            path = os.path.join(SCRATCH, name)
            try: os.mknod(path, kind, os.makedev(*device)); found.append(f"made {name}"); os.unlink(path)
            except OSError: pass
        return found + opened(["/dev/mem", "/dev/kmsg", "/dev/fuse", "/dev/kvm", "/dev/net/tun", "/dev/vda", "/dev/loop0", "/dev/loop-control", "/dev/mapper/control", "/dev/vhost-net"], os.O_RDONLY)
    """,
    "the box's own programs": """
        paths = ["/usr/bin/env", "/etc/passwd", "/proc/self/exe", "/run/cloche", "/usr/lib", "/lib64", "/dev"]
        paths += [os.path.join(d, n) for d, _, names in os.walk("/run/cloche") for n in names][:20]
        def reopened(path):
            try: fd = os.open(path, os.O_PATH)
            except OSError: return []
            try: return opened([f"/proc/self/fd/{fd}"], os.O_WRONLY, errno.ETXTBSY, errno.ELOOP)
            finally: os.close(fd)
        return opened(paths, os.O_WRONLY, errno.ETXTBSY) + [f for path in paths for f in reopened(path)] + made("a file in /usr", os.mknod, "/usr/attempt", refused=(30,)) + made(
            "time", os.utime, "/usr/bin/env", refused=(30,)) + made("mode", os.chmod, "/usr/bin/env", 0o755, refused=(30,)) + made("link", os.link, "/usr/bin/env", SCRATCH + "/env", refused=(18, 30))
    """,
    "leases on what others use": "return made('lease', fcntl.fcntl, os.open('/usr/bin/env', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK, refused=(11,))",
    "attributes of trust": """
        path = os.path.join(SCRATCH, "own")
        open(path, "w").close()
        return [f for name in ("security.capability", "trusted.overlay.opaque") for f in made(name, os.setxattr, path, name, b"x" * 20, refused=(95, 22))] + made(
            "owner", os.chown, path, 0, 0, refused=(22,)) + made("owner of others", os.chown, path, 1, -1, refused=(22,))
    """,
    "attributes of integrity": "return made('security.ima', os.setxattr, SCRATCH, 'security.ima', b'x' * 20, refused=(95, 22))",
    "flags of files": "fd = os.open(SCRATCH, 0)\nreturn got('freeze', call(16, fd, 0xc0045878, 0), 25, 95) + got('append only', call(16, fd, 0x40086602, struct.pack('q', 0x20)), 25, 95) + got('trim', call(16, os.open('/usr', 0), 0xc0185879, ctypes.create_string_buffer(24)), 25, 95)",
    "what is above": "return [path for path in ('/proc/1/root/etc/shadow', '/proc/self/root/../../etc/shadow', '/../etc/shadow', '/sys/kernel', '/sys/fs/cgroup/cgroup.procs', '/boot/vmlinuz', '/root/.ssh', '/home/cloche/../../root/.profile') if os.access(path, os.R_OK) and os.path.exists(path)]",
    "groups of the host": "return [line for line in open('/proc/self/cgroup').read().splitlines() if not line.endswith(':/')] + opened(['/sys/fs/cgroup/tasks', '/sys/fs/cgroup/memory/tasks', '/sys/fs/cgroup/cgroup.procs'], os.O_RDONLY)",
    # -- sockets
    "sockets of other families": "return [f for family in range(46) if family not in (1, 2, 10, 16) for kind in (1, 2, 3, 5) for f in got(f'family {family} {kind}', call(41, family, kind, 0), 97, 94, 93)]",
    "raw sockets": "return [f for family in (2, 10) for kind, protocol in ((3, 1), (3, 255), (2, 1), (2, 58), (1, 132), (1, 262), (6, 33)) for f in got(f'{family} {kind} {protocol}', call(41, family, kind, protocol), 94, 93)] + got('packets', call(41, 17, 3, 768))",
    "messages of the kernel": "return [f for protocol in range(1, 23) for f in got(f'netlink {protocol}', call(41, 16, 3, protocol), 93)]",
    "marks and devices": """
        with socket.socket(type=socket.SOCK_DGRAM) as s:
            number, yes = s.fileno(), struct.pack("i", 1)
            return [f for level, name, value in ((1, 36, yes), (1, 32, yes), (1, 33, yes), (1, 1, yes), (1, 12, struct.pack("i", 7)), (0, 19, yes), (0, 35, b"\\xe0\\0\\0\\x05\\x7f\\0\\0\\1"))
                    if not (level == 0 and name == 35) for f in got(f"option {level} {name}", call(54, number, level, name, value, len(value)), 92)]
    """,
    "tables of packets": "with socket.socket() as s: return [f for name in (64, 65, 66, 1153) for f in got(f'option {name}', call(55, s.fileno(), 0, name, ctypes.create_string_buffer(128), ctypes.byref(ctypes.c_int(84))), 92, 22, 2)]",
    "sockets of others": "return [line.split()[-1] for path in ('/proc/net/unix', '/proc/net/tcp', '/proc/net/udp') for line in open(path).read().splitlines()[1:] if '@' in line or ' 0A ' in line]",
    # -- leftovers of others
    "messages of others": """
        lists = [f"/proc/sysvipc/{name}" for name in ("shm", "sem", "msg") if os.path.exists(f"/proc/sysvipc/{name}")]
        return [line for path in lists for line in open(path).read().splitlines()[1:]] + (os.listdir("/dev/mqueue") if os.path.isdir("/dev/mqueue") else [])
    """,
    "descriptors that were left open": """
        return [place for place in PLACES if place.startswith("/") and not place.startswith(("/proc/self/fd", "/dev/null", "/dev/pts/", "/workspace", "/tmp", "/memfd:"))]
    """,
    # -- last, because it kills every process it can reach
    "kill by a descriptor's signal": """
        # The signal that a pipe sends to its owner can be any, SIGKILL too (fcntl(2), F_SETSIG): checked with the rights of who set it.
        def is_gone(pid):
            try:
                with open(f"/proc/{pid}/stat") as file: return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
            except OSError: return True
        found, met = [], []
        for pid in others():
            r, w = os.pipe()
            try:
                fcntl.fcntl(r, fcntl.F_SETOWN, pid), fcntl.fcntl(r, 10, 9), fcntl.fcntl(r, fcntl.F_SETFL, os.O_ASYNC)
                os.write(w, b"x")
            except OSError: pass
            os.close(r), os.close(w)
            met.append(pid)
        until = time.monotonic() + 0.5
        while not found and time.monotonic() < until:  # it dies when it runs next
            time.sleep(0.01)
            found = [f"{pid} is gone" for pid in met if is_gone(pid)]
        return found
    """,
}


def program(names=None, result="FOUND"):
    """Python code that makes all attempts, and stores each result in a variable of that name."""
    lines = [PRELUDE, "ATTEMPTS = {}"]
    for name, body in ATTEMPTS.items():
        if names is None or name in names:
            lines += ["def attempt():", textwrap.indent(textwrap.dedent(body).strip(), "    "), f"ATTEMPTS[{name!r}] = attempt"]
    lines.append(f"""
def descriptors():
    listed = os.listdir("/proc/self/fd")
    return {{int(name) for name in listed if os.path.lexists("/proc/self/fd/" + name)}}

def try_all():
    os.makedirs(SCRATCH, exist_ok=True)
    found, before = {{}}, descriptors()
    for name, attempt in ATTEMPTS.items():
        try: found[name] = attempt()
        except Exception as error: found[name] = [f"the attempt failed: {{error!r}}"]
        for fd in descriptors() - before:
            try: os.close(fd)
            except OSError: pass
    return found
""")
    return "\n".join(lines) + (f"\n{result} = try_all()\n" if result else "")


def check(kind, found, permitted=()):
    """found: the results, as an object or as JSON. permitted: names of attempts that a box of this
    kind has to permit."""
    found = json.loads(found) if isinstance(found, str) else found
    missing = set(ATTEMPTS) - set(found)
    assert not missing, f"{kind}: not tried: {missing}"
    broken = {name: what for name, what in found.items() if what and name not in permitted}
    assert not broken, f"{kind}: " + "; ".join(f"{name}: {what}" for name, what in broken.items())
