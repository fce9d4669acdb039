"""Reach of code in a context: its own interpreter, without limits; and nothing of its agent's
keepers, other contexts, the sandbox's shell, other sandboxes, the daemon."""
from cloche import HostStaysWell
from context_cells import together
from hostile_sandboxes import Host, wait_for

TIMEOUT = 120
PRELUDE = r"""
import ctypes, errno, os, signal, socket, stat, subprocess, sys, threading, time
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
def call(*arguments):
    ctypes.set_errno(0)
    return "ok" if libc.syscall(*[ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]) >= 0 else errno.errorcode[ctypes.get_errno()]
def attempt(function, *arguments):
    try:
        return function(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
def others():
    return sorted(int(p) for p in os.listdir('/proc') if p.isdigit() and int(p) != os.getpid())
"""
CALLS = {"mount": (165, "b'tmpfs', b'/tmp', b'tmpfs', 0, None"), "umount2": (166, "b'/workspace', 2"), "unshare": (272, "0x10000000"), "chroot": (161, "b'/tmp'"),
         "setns": (308, "os.open('/proc/self/ns/mnt', 0), 0"), "ptrace attach init": (101, "16, 1, 0, 0"), "ptrace seize init": (101, "0x4206, 1, 0, 0"), "pidfd_getfd": (438, "0, 0, 0"),
         "process_vm_readv": (310, "1, None, 0, None, 0, 0"), "bpf": (321, "0, None, 0"), "perf_event_open": (298, "None, 0, 0, 0, 0"), "keyctl": (250, "0, 0, 0, 0, 0"),
         "kexec_load": (246, "0, 0, None, 0"), "open_tree": (428, "-100, b'/workspace', 1"), "userfaultfd": (323, "0"), "io_uring_setup": (425, "8, None")}


def two(n):
    n.run(PRELUDE)
    n.run(PRELUDE + "kept = 'beside'", "beside")
    n.witness = n.call("process.start", command="exec sleep 100000")["process"]


def beside_is_well(n):
    assert n.value("kept", "beside") == "'beside'" and n.shell("echo alive") == "alive\n"
    assert n.call("process.get", process=n.witness)["status"] == "running"


def system_calls(n):
    """The same in a forkable one, whose interpreter has a template's rights."""
    two(n)
    n.create("forkable", forkable=True)
    n.run(PRELUDE, "forkable")
    for context in ("c", "forkable"):
        for what, (number, arguments) in CALLS.items():
            if context == "forkable" and what == "setns":
                continue  # a template does this, with descriptors that it is sent
            assert n.value(f"call({number}, {arguments})", context) not in ("'ok'", "'EFAULT'"), (context, what)
        assert n.value("call(39)", context) == "'ok'", "the twin: getpid"
    rights = "{line.split()[0]: line.split()[1] for line in open('/proc/self/status') if line.startswith(('CapEff', 'CapPrm', 'CapAmb', 'NoNewPrivs'))}"
    assert eval(n.value(rights)) == {"CapPrm:": "0" * 16, "CapEff:": "0" * 16, "CapAmb:": "0" * 16, "NoNewPrivs:": "1"}
    beside_is_well(n)


def processes_of_others(n):
    two(n)
    assert n.value("others()") == n.value("others()", "beside") == "[1]", "each sees its own"
    theirs = {*n.pids(), str(n.get("beside")["pid"])} - {"1", str(n.get()["pid"])}
    assert all(n.value(f"attempt(os.kill, {pid}, 9)") == "'ESRCH'" for pid in theirs) and len(theirs) > 1, theirs
    for code in ("os.kill(-1, 9)", "os.killpg(0, 9)"):
        answer = n.run(PRELUDE + code + "\ntime.sleep(0.2)", restart=True, timeoutMs=10000)
        assert answer["ended"] or answer["error"]["name"] == "ProcessLookupError", answer
        beside_is_well(n)
    n.run(PRELUDE, restart=True)
    assert n.value("child = subprocess.Popen(['sleep', '1000']); child.kill(); child.wait()") == "-9", "the twin"
    n.run("kept = 'mine'\nfor s in range(1, 65):\n    try: os.kill(1, s)\n    except OSError: pass")
    assert n.value("kept, others()") == "('mine', [1])", "the first process of its box is not ended from within"
    beside_is_well(n)


def files_of_the_kernel(n):
    two(n)
    n.run("def take(path):\n    try: return open(path, 'rb').read(100)\n    except OSError as error: return errno.errorcode[error.errno]")
    for path in ("/proc/1/environ", "/proc/1/mem", "/proc/1/maps", "/proc/1/root/etc/shadow", "/proc/kcore", "/proc/kmsg", "/etc/shadow", "/dev/mem", "/proc/1/fd/0", "/sys/fs/cgroup/cgroup.procs"):
        assert n.value(f"take({path!r})") in ("'EACCES'", "'EPERM'", "'ENOENT'", "'ESRCH'", "'EIO'", "b''", "'ENXIO'"), (path, n.value(f"take({path!r})"))
    assert n.value("os.stat('/proc/sys/kernel/core_pattern').st_rdev == os.makedev(1, 3)") == "True", "nothing is behind it"
    for path in ("/proc/sysrq-trigger", "/proc/1/oom_score_adj", "/sys/kernel/uevent_helper", "/run/cloche/agent.py", "/usr/bin/python3", "/etc/passwd"):
        assert n.value(f"attempt(os.open, {path!r}, os.O_WRONLY)") in ("'EACCES'", "'EPERM'", "'EROFS'", "'ENOENT'", "'ETXTBSY'"), path
    assert n.value("take('/proc/self/environ') != b'' and isinstance(attempt(os.open, '/workspace/f', os.O_WRONLY | os.O_CREAT), int)") == "True", "the twin"


# Texts that follow the mark, wherever it lies: files, environments, command lines, its own memory. The mark is spelt so that looking for it does not put it there.
LOOK = PRELUDE + r"""
import re
MARK = re.compile(rb'Z[q]7secret-of-([a-z]+)')
def contents():
    for root in ('/workspace', '/tmp', '/home', '/dev/shm', '/run'):
        for directory, _, names in os.walk(root):
            yield from (os.path.join(directory, name) for name in names if stat.S_ISREG(os.lstat(os.path.join(directory, name)).st_mode))
    yield from (f'/proc/{pid}/{name}' for pid in os.listdir('/proc') if pid.isdigit() for name in ('environ', 'cmdline'))
def regions():
    for line in open('/proc/self/maps'):
        span, rights, _, _, inode = line.split()[:5]
        if rights[0] == 'r' and inode == '0':
            yield (int(end, 16) for end in span.split('-'))
def found():
    seen = set()
    for path in contents():
        try: seen.update(MARK.findall(open(path, 'rb').read()))
        except OSError: pass
    with open('/proc/self/mem', 'rb', 0) as memory:
        for first, last in regions():
            try:
                memory.seek(first)
                seen.update(MARK.findall(memory.read(last - first)))
            except (OSError, ValueError, OverflowError): pass
    return sorted(word.decode() for word in seen)
"""
MARK = "Zq7secret-of-"


def secrets(n):
    """Secrets of the daemon's environment, of another sandbox, of an ended context: none can be found."""
    n.frames.call("sandbox.create", sandbox="holder", env={"HELD": MARK + "environments"})
    hold = f"word = '{MARK}' + 'variables'\nfor d in ('/workspace', '/tmp', '/dev/shm'): open(d + '/held', 'w').write('{MARK}' + 'files')\nprint(word)"
    assert n.frames.call("context.run", sandbox="holder", code=hold)["stdout"] == MARK + "variables\n"
    n.create("gone", env={"GONE": MARK + "one"})
    n.run("import os\nkept = os.environ['GONE']", "gone")
    n.delete("gone")
    n.run(LOOK)
    assert n.value("found()") == "[]"
    n.run("mine = bytes(reversed(b'enim-fo-terces7qZ')).replace(b'of-mine', b'of-memory')\nopen('/workspace/f', 'wb').write(mine.replace(b'memory', b'disk'))")
    assert {"disk", "memory"} <= set(eval(n.value("found()"))) <= {"disk", "memory", "mine"}, "the twin"
    n.frames.call("sandbox.delete", sandbox="holder")


def nobody_listens(n):
    """The daemon's own ports and sockets, and those of other contexts."""
    two(n)
    port = n.daemon.port
    assert n.value(f"attempt(socket.create_connection, ('127.0.0.1', {port}))") == "'ECONNREFUSED'"
    assert n.value(f"attempt(socket.socket(socket.AF_UNIX).connect, {n.daemon.path!r})") == "'ENOENT'"
    n.run("server = socket.create_server(('127.0.0.1', 9000))\nhidden = socket.socket(socket.AF_UNIX)\nhidden.bind('\\0hidden')\nhidden.listen()")
    assert n.value("attempt(socket.create_connection, ('127.0.0.1', 9000))", "beside") == "'ECONNREFUSED'"
    assert n.value("attempt(socket.socket(socket.AF_UNIX).connect, '\\0hidden')", "beside") == "'ECONNREFUSED'"
    assert n.value("type(attempt(socket.create_connection, ('127.0.0.1', 9000))).__name__, attempt(socket.socket(socket.AF_UNIX).connect, '\\0hidden')") == "('socket', None)", "the twin"
    assert n.value("attempt(socket.create_connection, ('192.0.2.1', 80), 2)") in ("'ENETUNREACH'", "'EHOSTUNREACH'", "'EACCES'", "'EPERM'"), "and there is no other network"


# Acts of a cell on its own interpreter, and True if it survives (None: either).
DOES = [
    ("os.close(0); os.close(1); os.close(2)", True), ("for fd in range(3, 1024):\n    try: os.close(fd)\n    except OSError: pass", False),
    ("os.closerange(0, 70000)", False),
    ("os.kill(os.getpid(), signal.SIGSTOP)", False), ("signal.pthread_sigmask(signal.SIG_BLOCK, range(1, 65))\nwhile True: time.sleep(0.01)", False),
    ("signal.signal(signal.SIGINT, lambda *_: None)\nwhile True: time.sleep(0.01)", False),
    ("def again(*_):\n    while True: time.sleep(0.01)\nsignal.signal(signal.SIGINT, again)\nwhile True: time.sleep(0.01)", False),
    ("libc.prctl(15, b'cloche-keeper\\n(x) ', 0, 0, 0)\nopen('/proc/self/comm', 'w').write(') R 1 1')", True),
    ("os.setsid() if os.getpid() != os.getsid(0) else None", True),
    ("os.nice(19)\nimport resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))", None),
    ("nested = []\nfor _ in range(10 ** 6): nested = [nested]\nsys.setrecursionlimit(10 ** 9)\nrepr(nested)", None),
    ("sys.stdout = sys.stderr = None", True), ("import builtins\nbuiltins.print = builtins.compile = builtins.exec = builtins.len = None", None),
    ("import json\njson.dumps = json.loads = None", True),
    ("os.getpid = os.write = os.read = time.sleep = None", None), ("sys.modules.clear()", None),
    ("import gc\nfor o in gc.get_objects():\n    if type(o) is dict and o is not globals():\n        try: o.clear()\n        except BaseException: pass", None),
    ("ctypes.memset(id(None), 0, 16)", None), ("threading.Thread(target=lambda: os._exit(0)).start()\ntime.sleep(10)", False),
    ("os.dup2(os.open('/dev/null', os.O_RDWR), 1)", True), ("if os.fork() == 0:\n    time.sleep(1000)\nos._exit(0)", False),
    ("if os.fork() == 0: raise ValueError('in the child')", True),
    ("os.setpgid(0, 0) if os.getpgid(0) != os.getpid() else None\nos.umask(0o777)\nos.chdir('/proc')", True),
]


def what_it_does_to_itself(n):
    n.run(PRELUDE + "kept = 'beside'", "beside")
    host = Host(n.daemon)
    n.create("first"), n.delete("first")
    before = host.now()
    for i, (code, lives) in enumerate(DOES):
        context = f"c{i}"
        is_endless = "while True: time" in code or "STOP" in code
        for timeout_ms in (300, 3000, 30000) if is_endless else (10000,):  # a cell may be late before it is deaf
            answer = n.run(PRELUDE + code, context, timeoutMs=timeout_ms)
            if n.get(context)["state"] == "ended":
                break
        if lives is False:
            wait_for(lambda: n.get(context)["state"] == "ended")
        assert lives is not True or n.value("6 * 7", context) == "42", (code, answer)
        assert n.run("6 * 7", context, restart=True, timeoutMs=5000) and n.value("kept", "beside") == "'beside'", code
        n.call("context.restart", context=context)
        assert n.value("6 * 7", context) == "42", code
        n.delete(context)
    host.comes_back_to(before)


def test_walls():
    with HostStaysWell():
        together(system_calls, processes_of_others, files_of_the_kernel, secrets, nobody_listens, what_it_does_to_itself, tcp=True, env={"DAEMONS": MARK + "daemons"})
