"""Boxes beneath a template that share a sandbox's files, and walls that remain: between context and
sandbox, and towards the template."""
import signal

from keeper_boxes import Keeper
from cloche import ORDINARY_USER, equal, need_ordinary_user, wait_for

RIGHTS = """
import ctypes, errno, os
status = dict(line.split(':\\t', 1) for line in open('/proc/self/status').read().splitlines())
print([status[name].strip() for name in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb', 'NoNewPrivs', 'Seccomp', 'Groups')])
call = ctypes.CDLL(None, use_errno=True).syscall
def attempt(*a): return 'ok' if call(*a) >= 0 else errno.errorcode[ctypes.get_errno()]
print('mount', attempt(165, b'tmpfs', b'/tmp', b'tmpfs', 0, None), 'umount', attempt(166, b'/workspace', 2),
      'open_tree', attempt(428, -100, b'/workspace', 1), 'move_mount', attempt(429, -100, b'/tmp', -100, b'/workspace', 0),
      'mount_setattr', attempt(442, -100, b'/tmp', 0, bytes(32), 32), 'unshare', attempt(272, 0x10000000), 'setns', attempt(308, os.open('/proc/self/ns/mnt', 0), 0),
      'chroot', attempt(161, b'/tmp'), 'pidfd_getfd', attempt(438, 0, 0, 0), 'ptrace', attempt(101, 16, 1, 0, 0))
print(sorted(line.split(' - ')[0].split()[3:] for line in open('/proc/self/mountinfo') if line.split()[4] in ('/', '/workspace', '/tmp', '/home/cloche', '/dev/shm')))
for text in ('/proc/self/cgroup', '/proc/self/uid_map', '/proc/1/environ'):
    try: print(text, {line.rsplit(':')[-1] for line in open(text).read().splitlines()} if 'map' not in text else open(text).read().split()[::2])
    except OSError as e: print(text, errno.errorcode[e.errno])
for path in ('/workspace/device', ):
    try: os.mknod(path, 0o20666, os.makedev(1, 3)); print('made')
    except OSError as e: print(errno.errorcode[e.errno])
"""


def walls_are_as_everywhere(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        context, plain = sandbox.context(template), keeper.box(parent=template.name)
        (rights, calls, mounts, *rest), (others_rights, others_calls, _, *others_rest) = context.ran(RIGHTS).splitlines(), plain.ran(RIGHTS).splitlines()
        equal([rights, calls, rest], [others_rights, others_calls, others_rest])
        equal(rights, "['0000000000000000', '0000000000000000', '0000000000000000', '0000000000000000', '1', '2', '']")
        assert " ok" not in calls, calls
        equal(mounts, str([[source, target, "rw,nosuid,nodev,noatime"] for source, target in
                           [("/root", "/"), ("/shm", "/dev/shm"), ("/tmp", "/tmp"), ("/workspace", "/workspace")]]))
        equal(rest[0], "/proc/self/cgroup {'/'}")
        # They share the root, but neither owns the mounts in it.
        equal(sandbox.said("echo made > /x; mkdir /y; mv /data /y/data; ln -s /usr /data; ls -d /x /y/data; for name in usr etc proc dev run tmp workspace; do mv /$name /y 2>/dev/null && echo $name; rmdir /$name 2>/dev/null && echo $name; done; touch /usr/x /etc/x /run/x /proc/x /dev/x 2>/dev/null && echo written"), "/x\n/y/data\n")
        late = sandbox.context(template)
        for one in (context, late):
            equal(one.ran("import os\nprint(open('/x').read(), os.readlink('/data'))\nfor name in ('usr', 'etc', 'proc', 'dev', 'run', 'tmp', 'workspace'):\n    for act in (lambda: os.rename('/' + name, '/y/' + name), lambda: os.rmdir('/' + name), lambda: open('/' + name + '/./x/', 'w')):\n        try: act(); print(name)\n        except OSError: pass"), "made\n /usr\n")
        # A program that would give its user's rights away does not.
        sandbox.said("cp /usr/bin/id /workspace/id; chmod 6755 /workspace/id")
        equal(context.ran("import os, subprocess; print(subprocess.run(['/workspace/id', '-u'], capture_output=True, text=True).stdout)"), "1000\n\n")


def test_walls_are_as_everywhere():
    walls_are_as_everywhere()


def test_walls_are_as_everywhere_without_privilege():
    need_ordinary_user()
    walls_are_as_everywhere(*ORDINARY_USER)


SLEEPS = "import os, time\nprint('up', os.getpid(), flush=True)\ntime.sleep(1000)"


def neither_sees_the_other(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        inside = sandbox.shell("echo up; exec sleep 1000", env=["TOKEN=do-not-read"])
        inside.read("up")
        context = sandbox.context(template)
        stays = context.forked(SLEEPS)
        number = int(stays.read("\n").split()[1])
        equal(context.ran("""
import os
pids = [p for p in os.listdir('/proc') if p.isdigit()]
print(len(pids), any('sleep' in open(f'/proc/{p}/comm').read() for p in pids), os.getppid())
"""), "3 False 0\n")
        assert str(number) not in sandbox.said("echo /proc/[0-9]*").replace("/proc/", "").split()
        # Signals to everybody stay on their side, and those to a group of processes that began in the template too.
        sandbox.said("kill -KILL -1")
        equal(context.ran("import os; print(os.path.exists('/proc/%d'))" % number), "True\n")
        again = sandbox.spawn("sleep", "1000")
        context.ran("import os, signal\nos.kill(-1, signal.SIGKILL)")
        equal(stays.read(), "")
        context.ran("import os, signal\nos.kill(0, signal.SIGKILL)")
        wait_for(lambda: sandbox.pids() == {again.pid}, "the end of who was killed")
        equal(context.ran("print(secret)"), "of the template\n")
        # Messages and semaphores of the one are not the other's.
        sandbox.python("import ctypes; print(ctypes.CDLL(None).shmget(77, 4096, 0o1666))").read("\n")
        equal(context.ran("import ctypes; print(ctypes.CDLL(None).shmget(77, 4096, 0))"), "-1\n")


def test_neither_sees_the_other():
    neither_sees_the_other()


def test_neither_sees_the_other_without_privilege():
    need_ordinary_user()
    neither_sees_the_other(*ORDINARY_USER)


# A socket in /tmp connects the two, like any file. Even with descriptors of a process on the other
# side a process opens nothing.
TAKES = """
import array, ctypes, errno, os, signal, socket
s = socket.socket(socket.AF_UNIX); s.bind('/tmp/door'); s.listen(); print('up', flush=True)
message, control, *_ = s.accept()[0].recvmsg(10, 1000)
fds = array.array('i', control[0][2])
raw = ctypes.CDLL(None, use_errno=True)
def attempt(f, *a, **k):
    try: r = f(*a, **k); return 'ok' if r is None or not isinstance(r, int) or r >= 0 else errno.errorcode[ctypes.get_errno()]
    except OSError as e: return errno.errorcode[e.errno]
process, pidfd, file = fds
print('file', os.pread(file, 10, 0))
for name in ('environ', 'mem', 'maps', 'fd/0', 'root/workspace', 'cwd'):
    print(name, attempt(os.open, name, os.O_RDONLY, dir_fd=process))
print('signal', attempt(signal.pidfd_send_signal, pidfd, signal.SIGKILL), 'getfd', attempt(raw.syscall, 438, pidfd, 0, 0), flush=True)
"""
GIVES = """
import array, os, socket, time
s = socket.socket(socket.AF_UNIX); s.connect('/tmp/door')
open('/tmp/file', 'w').write('permitted')
fds = array.array('i', [os.open('/proc/self', os.O_RDONLY), os.pidfd_open(os.getpid()), os.open('/tmp/file', os.O_RDONLY)])
s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
print('given', flush=True)
time.sleep(1000)
"""


def keys_that_are_handed_over_open_nothing(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        context = sandbox.context(template)
        takes = sandbox.python(TAKES)
        takes.read("up")
        gives = context.forked(GIVES)
        gives.read("given")
        said = takes.read("getfd").splitlines()
        takes.wait()
        assert "file b'permitted'" in said, said
        for line in said:
            assert not line.startswith(("environ", "mem", "maps", "fd", "root", "cwd", "signal")) or " ok" not in line, said
        equal(context.ran("import os; print(len([p for p in os.listdir('/proc') if p.isdigit()]))"), "3\n")


def test_keys_that_are_handed_over_open_nothing():
    keys_that_are_handed_over_open_nothing()


def test_keys_that_are_handed_over_open_nothing_without_privilege():
    need_ordinary_user()
    keys_that_are_handed_over_open_nothing(*ORDINARY_USER)


def test_places_that_were_taken_away_are_an_error_of_the_sandbox():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        sandbox.said("chmod 000 /workspace /tmp")
        context = sandbox.context(template)
        equal(context.forked_in_vain(), "")
        sandbox.said("chmod 755 /workspace; chmod 1777 /tmp", cwd="/dev/shm")
        equal(context.ran("print('lives')"), "lives\n")


def test_the_sandbox_reaches_no_template():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        context = sandbox.context(template)
        stays = context.forked(SLEEPS)
        stays.read("up")
        equal(sandbox.python("""
import os, signal
met = 0
for pid in range(2, 40000):
    if pid == os.getpid(): continue
    try: os.kill(pid, signal.SIGKILL); met += 1
    except ProcessLookupError: pass
print(met)
""").read("\n"), "0\n")
        equal(sandbox.said("cat /proc/net/unix | tail -n +2"), "")
        sandbox.said("rm -rf /workspace/* /tmp/* /dev/shm/* 2>/dev/null; mkdir -p /workspace/ctypes; echo 'raise SystemExit' > /workspace/sitecustomize.py")
        equal(context.ran("print(secret)"), "of the template\n")
        equal(keeper.box(parent=template.name).ran("print(secret)"), "of the template\n")
