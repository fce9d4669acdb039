"""A sandbox whose programs are root of 65,536 ids: what that root can do to its own box, and nothing beyond. The driver plays the engine."""
import os
import shutil
import subprocess

import guest_acts
from cloche import equal, need_writable_roots, possible_layers
from guest_acts import run_acts
from image_trees import make_image
from lent_ids import LENT, PROGRAMS, as_user, need_lent_ids
from keeper_boxes import Keeper, refusal

TREE = "sha256-" + "6" * 64
LEASES = "/run/cloche-ids"
os.environ["BOX_DRIVER_VOLUMES"] = os.path.abspath("volumes")

ACTS = guest_acts.ACTS + r"""
import shutil, signal, socket
def get(path):
    with open(path, 'rb') as file: return file.read()
def as_user(do, uid=1000):
    '''The word that do returns in a child that is this user.'''
    ours, theirs = os.pipe()
    if os.fork() == 0:
        os.setgroups([]); os.setgid(uid); os.setuid(uid)
        try: said = do()
        except OSError as e: said = errno.errorcode[e.errno]
        os.write(theirs, str(said).encode()); os._exit(0)
    os.close(theirs)
    with os.fdopen(ours) as file: said = file.read()
    os.wait()
    return said
"""


def make_store():
    """A tree with files of several users, and one with every bit that could give rights."""
    trees = os.path.abspath("store/trees")
    os.makedirs(trees)
    os.chmod(trees, 0o700)
    tree = f"{trees}/{TREE}"
    shutil.copytree(make_image(), tree, symlinks=True, copy_function=os.link)
    for path in ("boot", "home", "opt", "root"):
        os.makedirs(f"{tree}/{path}")
    for name, owner, mode in (("mine", 0, 0o600), ("others", 33, 0o600), ("high", 70000, 0o600)):
        with open(f"{tree}/opt/{name}", "w") as file:
            file.write("image")
        os.chmod(f"{tree}/opt/{name}", mode)
        os.chown(f"{tree}/opt/{name}", owner, owner)
    python = os.path.realpath(f"{tree}/usr/bin/python3")
    shutil.copy(python, f"{tree}/opt/setid")
    os.chmod(f"{tree}/opt/setid", 0o6755)
    with open(f"{tree}/etc/passwd", "w") as file:
        file.write("root:x:0:0:root:/root:/bin/bash\nwww-data:x:33:33::/var/www:/bin/false")  # without its end of line
    return trees


def run(box, script, **how):
    return run_acts(box, ACTS + script, **how)


def sandbox(keeper, **more):
    """Its layers lie in memory, or where the kernel cannot have them there, on the disk; hostile/writable-root tries both."""
    return keeper.sandbox_on(possible_layers()[0], image=TREE, root=True, **{"limits": {"diskBytes": 48 << 20, "diskInodes": 2000, "pids": 40, "memoryBytes": 200 << 20}, **more})


# ---- the permitted ----------------------------------------------------------------------------------------------------

PERMITTED = r"""
act('ids', lambda: str((os.getresuid(), os.getresgid(), os.getgroups())))
put('/opt/made', 'x')
act('chown', lambda: os.chown('/opt/made', 33, 33)); act('owner', lambda: str(os.stat('/opt/made').st_uid))
act('owners', lambda: str([os.stat('/opt/' + name).st_uid for name in ('mine', 'others', 'high')]))
act('dac', lambda: put('/opt/others', '+')); act('fowner', lambda: os.chmod('/opt/others', 0o640))
act('last', lambda: os.chown('/opt/made', 65535, 65535))
act('setgroups', lambda: as_user(lambda: os.getresuid(), 65535))
def kill_other():
    pid = os.fork()
    if pid == 0: os.setuid(33); signal.pause()
    os.kill(pid, signal.SIGKILL); return str(os.waitpid(pid, 0)[1])
act('kill', kill_other)
def bind(port):
    with socket.socket() as s: s.bind(('127.0.0.1', port))
act('port', lambda: bind(80)); act('port-of-user', lambda: as_user(lambda: bind(80)))
act('fsetid', lambda: (os.chmod('/opt/made', 0o4755), oct(os.stat('/opt/made').st_mode & 0o7777))[1])
act('run', lambda: put('/run/service.pid', '1')); act('etc', lambda: put('/etc/added', '1'))
act('passwd', lambda: str(get('/etc/passwd').decode().split('\n')[1:]))
act('home', lambda: str(os.stat('/home/user').st_uid))
act('user', lambda: as_user(lambda: put('/home/user/x', '1'))); act('user-of-root', lambda: as_user(lambda: put('/root/x', '1')))
act('mkfifo', lambda: os.mkfifo('/opt/pipe'))
act('sudo', lambda: os.popen('/run/bin/sudo -n A=1 bash -c "echo \\$A \\$EUID"').read().strip())
act('sudo-of-user', lambda: as_user(lambda: os.waitstatus_to_exitcode(os.system('/run/bin/sudo bash -c : 2> /dev/null'))))
"""
PERMITTED_SAID = {
    "ids": "((0, 0, 0), (0, 0, 0), [])", "chown": "done", "owner": "33", "owners": "[0, 33, 65534]", "dac": "done", "fowner": "done", "last": "done",
    "setgroups": "(65535, 65535, 65535)", "kill": "9", "port": "done", "port-of-user": "EACCES", "fsetid": "0o4755", "run": "done", "etc": "done",
    "passwd": "['www-data:x:33:33::/var/www:/bin/false', 'user:*:1000:1000:user:/home/user:/bin/sh', '']", "home": "1000", "user": "None",
    "user-of-root": "EACCES", "mkfifo": "done", "sudo": "1 0", "sudo-of-user": "1"}


def test_the_permitted():
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        box = sandbox(keeper)
        equal(run(box, PERMITTED), PERMITTED_SAID)
        shared = box.share()  # an isolated session
        equal(run(shared, "act('uid', lambda: str(os.getuid())); act('chown', lambda: os.chown('/opt/made', 7, 7)); act('pid', lambda: str(os.getpid() < 10)); act('setgroups', lambda: os.setgroups([5]))"),
              {"uid": "0", "chown": "done", "pid": "True", "setgroups": "done"})
        equal(run(sandbox(keeper), "act('others', lambda: get('/opt/others').decode())"), {"others": "image"})


# ---- the walls ----------------------------------------------------------------------------------------------------------

RIGHTS = r"""
act('caps', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('CapBnd')][0])
act('no-new-privs', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('NoNewPrivs')][0])
class Header(ctypes.Structure): _fields_ = [('version', ctypes.c_uint32), ('pid', ctypes.c_int)]
def capset(low, high):
    sets = (ctypes.c_uint32 * 6)(low, low, 0, high, high, 0)  # effective, permitted, inheritable; 0 to 31 and 32 on
    if libc.capset(ctypes.byref(Header(0x20080522, 0)), sets) < 0: raise OSError(ctypes.get_errno(), 'capset')
act('capset', lambda: capset(0xffffffff, 0xffffffff))
def can_take(cap):
    if os.fork() == 0:
        try: capset(1 << cap & 0xffffffff, 1 << cap >> 32)
        except OSError: os._exit(1)
        os._exit(0)
    return os.wait()[1] == 0
act('each', lambda: str([cap for cap in range(41) if can_take(cap)])); act('bounding', lambda: str([cap for cap in range(41) if libc.prctl(23, cap, 0, 0, 0) == 1]))
act('drop', lambda: libc.prctl(24, 0, 0, 0, 0) and ctypes.get_errno() and 'EPERM')
def by_exec(cap):  # the rights after an exec of root, also of a set-user-id file
    return [line.split()[1] for line in os.popen('/opt/setid -c "print(open(\'/proc/self/status\').read())"') if line.startswith(('CapPrm', 'CapEff'))]
act('exec', lambda: str(by_exec(0)))
for uid in (0, 1000, 65535):
    act(f'namespace-{uid}', lambda: as_user(lambda: call(272, 0x10000000), uid)); act(f'clone-{uid}', lambda: as_user(lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0), uid))
act('ambient', lambda: libc.prctl(47, 2, 0, 0, 0) and ctypes.get_errno() and 'EPERM')
act('securebits', lambda: libc.prctl(28, 1, 0, 0, 0) and ctypes.get_errno() and 'EPERM')
for name, number, arguments in (('mount', 165, (b'x', b'/mnt', b'tmpfs', 0, 0)), ('umount', 166, (b'/proc', 2)), ('chroot', 161, (b'/opt',)), ('unshare', 272, (0x10000000,)),
        ('setns', 308, (0, 0)), ('clone', 56, (0x10000000 | 17, 0, 0, 0, 0)), ('open_tree', 428, (-100, b'/', 1)), ('move_mount', 429, (0, b'', -100, b'/mnt', 4)),
        ('open_by_handle_at', 304, (0, 0, 0)), ('sethostname', 170, (b'x', 1)), ('bpf', 321, (0, 0, 0)), ('reboot', 169, (0, 0, 0, 0)), ('swapon', 167, (b'/opt/mine', 0)),
        ('settimeofday', 164, (0, 0)), ('init_module', 175, (0, 0, b'')), ('keyctl', 250, (0, 0)), ('quotactl', 179, (0, 0, 0, 0)), ('pivot_root', 155, (b'/', b'/'))):
    act(name, lambda: call(number, *arguments))
act('sync', lambda: call(162)); act('syncfs', lambda: call(306, 12345))  # not done: there is no such descriptor
act('fsync', lambda: os.fsync(1 << 20)); act('fsync-of-file', lambda: os.fsync(os.open('/opt', os.O_RDONLY)))
act('raw-socket', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1) and None)
act('packet-socket', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) and None)
"""
DEEDS = r"""
import fcntl, mmap, resource, struct, time
def option(level, name, value, family=socket.AF_INET, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as s: s.setsockopt(level, name, value)
def flags(path, value):
    fd = os.open(path, os.O_RDONLY)
    try: fcntl.ioctl(fd, 0x40086602, struct.pack('l', value))  # FS_IOC_SETFLAGS
    finally: os.close(fd)
def interface(up):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s: fcntl.ioctl(s, 0x8914, struct.pack('16sH14x', b'lo', up))  # SIOCSIFFLAGS
def limit(more):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    call(302, 0, 7, struct.pack('QQ', min(soft, hard + more), hard + more), None)  # prlimit64
def lock(size):
    place = ctypes.c_char.from_buffer(mmap.mmap(-1, size))
    call(149, ctypes.c_void_p(ctypes.addressof(place)), ctypes.c_size_t(size))
def timer(clock):
    call(283, clock, 0)
def prctl(*arguments):
    if libc.prctl(*arguments) < 0: raise OSError(ctypes.get_errno(), 'prctl')
act('nice', lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) - 1)); act('nicer', lambda: os.setpriority(os.PRIO_PROCESS, 0, os.getpriority(os.PRIO_PROCESS, 0) + 1))
act('real-time', lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))); act('batch', lambda: os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
act('limit', lambda: limit(1)); act('lower-limit', lambda: limit(-1)); act('lock', lambda: lock(64 << 20)); act('small-lock', lambda: lock(4096))
act('immutable', lambda: flags('/opt/mine', 0x10)); act('append-only', lambda: flags('/opt/mine', 0x20))
act('interface', lambda: interface(0)); act('mark', lambda: option(socket.SOL_SOCKET, 36, 1)); act('transparent', lambda: option(socket.SOL_IP, 19, 1)); act('priority', lambda: option(socket.SOL_SOCKET, 12, 7)); act('low-priority', lambda: option(socket.SOL_SOCKET, 12, 6))
act('forced-buffer', lambda: option(socket.SOL_SOCKET, 33, 1 << 24)); act('debug', lambda: option(socket.SOL_SOCKET, 1, 1)); act('buffer', lambda: option(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16))
act('alarm', lambda: timer(8)); act('clock', lambda: timer(1)); act('set-clock', lambda: time.clock_settime(time.CLOCK_REALTIME, 1e9))
act('hang-up', lambda: call(153)); act('subreaper', lambda: prctl(36, 1, 0, 0, 0)); act('memory-policy', lambda: prctl(35, 8, 0, 0, 0))
act('lease-others', lambda: fcntl.fcntl(os.open('/opt/others', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK) and 'done')
put('/opt/own', 'x'); act('lease-own', lambda: fcntl.fcntl(os.open('/opt/own', os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK) and 'done')
first = int(open('/proc/self/uid_map').read().split()[-2])  # of the host, of the last row
for name, uid in (('own-number', first), ('next-range', first + 65536), ('range-before', first - 65536), ('host-root', 4294967294)):
    act(name, lambda: os.chown('/opt/own', uid, uid)); act('become-' + name, lambda: os.setresuid(uid, uid, uid))
def credentials(uid):
    one, two = socket.socketpair()
    with one, two:
        two.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        one.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_CREDENTIALS, struct.pack('iII', os.getpid(), uid, uid))])
        return str(struct.unpack('iII', two.recvmsg(1, 64)[1][0][2])[1])
act('credentials', lambda: credentials(33)); act('credentials-outside', lambda: credentials(first))
act('sys', lambda: str(sorted(os.path.join(d, n) for d, _, names in os.walk('/sys') for n in names)))
cpu = '/sys/devices/system/cpu/online'
act('sys-write', lambda: put(cpu, '0')); act('sys-mode', lambda: os.chmod(cpu, 0o666)); act('sys-new', lambda: os.mkdir('/sys/fs')); act('sys-gone', lambda: os.unlink(cpu)); act('sys-moved', lambda: os.rename('/sys', '/away'))
for top in ('boot', 'home', 'root'):
    act(top, lambda: put(f'/{top}/own', 'x')); act(top + '-moved', lambda: os.rename('/' + top, '/away')); act(top + '-forged', lambda: os.setxattr('/' + top, 'trusted.overlay.opaque', b'y'))
def instances():
    count = 0
    for uid in range(2000, 2300):
        os.seteuid(uid)
        while libc.inotify_init() >= 0: count += 1
        os.seteuid(0)
    return count
act('instances', lambda: str(0 < instances() <= 128))
"""
EIGHT = "[0, 1, 3, 4, 5, 6, 7, 10]"  # CHOWN, DAC_OVERRIDE, FOWNER, FSETID, KILL, SETGID, SETUID, NET_BIND_SERVICE
REFUSED = ("mount", "umount", "chroot", "unshare", "setns", "clone", "open_tree", "move_mount", "open_by_handle_at", "sethostname", "bpf", "reboot", "swapon", "settimeofday",
           "init_module", "keyctl", "quotactl", "pivot_root", "sync", "raw-socket", "packet-socket", "capset", "ambient", "securebits")

FILES = r"""
for name, kind, device in (('null', stat.S_IFCHR, os.makedev(1, 3)), ('kmsg', stat.S_IFCHR, os.makedev(1, 11)), ('disk', stat.S_IFBLK, os.makedev(8, 0))):
    act(name, lambda: os.mknod('/opt/' + name, kind | 0o666, device)); act(name + '-in-tmp', lambda: os.mknod('/tmp/' + name, kind | 0o666, device))
act('chmod-null', lambda: os.chmod('/dev/null', 0o777)); act('chown-null', lambda: os.chown('/dev/null', 0, 0)); act('write-null', lambda: put('/dev/null', 'x'))
act('remove-null', lambda: os.unlink('/dev/null'))
act('capability', lambda: os.setxattr('/opt/setid', 'security.capability', b'\x01\0\0\x02\xff\xff\xff\xff' + bytes(12)))
act('user-attribute', lambda: os.setxattr('/opt/setid', 'user.mine', b'1'))
act('trusted', lambda: os.setxattr('/opt', 'trusted.overlay.opaque', b'y'))
try: os.setxattr('/opt', 'user.overlay.opaque', b'y')
except OSError: pass  # Linux 6.6 refuses it, a later one keeps it under another name
act('not-opaque', lambda: get('/opt/others').decode())
act('whiteout', lambda: os.mknod('/opt/w', stat.S_IFCHR, 0))
act('changes', lambda: put('/run/.changes/opt/x', 'x'))
act('high', lambda: put('/opt/high', '+')); act('chown-high', lambda: os.chown('/opt/high', 0, 0)); act('read-high', lambda: get('/opt/high').decode())
act('beyond', lambda: os.chown('/opt/mine', 65536, 65536)); act('setuid-beyond', lambda: os.setuid(65536))
act('own-sudo', lambda: put('/run/bin/sudo', 'x')); act('hidden-sudo', lambda: os.unlink('/run/bin/sudo'))
act('mask', lambda: os.unlink('/run/.null')); act('moved-mask', lambda: os.rename('/run/.nothing', '/run/nothing')); act('in-mask', lambda: put('/run/.nothing/x', 'x'))
act('beside-mask', lambda: put('/run/own', 'x')); act('masked', lambda: str([os.stat('/proc/keys').st_rdev == os.makedev(1, 3), os.listdir('/proc/fs')]))
act('in-masked', lambda: put('/proc/fs/x', 'x'))
USER_OF = ' -c "import os; print(os.geteuid(), os.getegid())"'
act('old', lambda: as_user(lambda: os.popen('/opt/setid' + USER_OF).read().strip()))
shutil.copy('/opt/setid', '/opt/new'); os.chmod('/opt/new', 0o6755)
act('new', lambda: as_user(lambda: os.popen('/opt/new' + USER_OF).read().strip()))
act('as-root', lambda: os.popen('/opt/new' + USER_OF).read().strip())
"""

SYSTEM = r"""
for path in ('net/ipv4/ip_unprivileged_port_start', 'net/core/somaxconn', 'user/max_user_namespaces', 'kernel/ns_last_pid', 'kernel/hostname', 'fs/mqueue/queues_max'):
    act(path, lambda: put('/proc/sys/' + path, '1'))
act('read', lambda: get('/proc/sys/net/ipv4/ip_unprivileged_port_start') and 'done')
act('chmod-sysctl', lambda: os.chmod('/proc/sys/net/ipv4/ip_unprivileged_port_start', 0o777))
for path in ('kcore', 'kmsg', 'kallsyms', 'sysrq-trigger', 'slabinfo', 'vmallocinfo', 'timer_list', 'keys', 'kpagecount', 'iomem'):
    try: text = get('/proc/' + path)[:10] if path != 'kmsg' else os.read(os.open('/proc/kmsg', os.O_RDONLY | os.O_NONBLOCK), 10)
    except OSError as e: text = b''
    act(path, lambda: 'nothing' if not text else repr(text))
for name in ('mem', 'environ', 'maps', 'auxv', 'syscall', 'stack', 'ns/user', 'fd', 'root/etc', 'cwd', 'exe'):
    act('1/' + name, lambda: (os.listdir if name in ('fd', 'root/etc') else os.readlink if name in ('exe', 'cwd', 'ns/user') else get)('/proc/1/' + name) and 'done')
for name in ('oom_score_adj', 'coredump_filter', 'clear_refs', 'sched', 'mem'):
    act('write-1/' + name, lambda: put('/proc/1/' + name, '1'))
for number, name, arguments in ((101, 'ptrace', (16, 1, 0, 0)), (310, 'process_vm_readv', (1, 0, 0, 0, 0, 0)), (438, 'pidfd_getfd', (os.pidfd_open(1), 3, 0)), (312, 'kcmp', (1, 1, 0, 0, 0))):
    act(name, lambda: call(number, *arguments))
for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGSEGV, signal.SIGCHLD):
    os.kill(1, number)
act('alive', lambda: str([line.split()[1] for line in open('/proc/1/status') if line.startswith('State')][0] in 'SRD'))
act('own-child', lambda: get('/proc/self/maps') and 'done')
act('lease', lambda: str(os.path.exists('/run/cloche-ids') or any('cloche-ids' in os.readlink('/proc/self/fd/' + fd) for fd in ('0', '1', '2'))) + str(6 in map(int, os.listdir('/proc/self/fd'))))
"""


NOT_WRITTEN = ("net/ipv4/ip_unprivileged_port_start", "user/max_user_namespaces", "kernel/ns_last_pid", "kernel/hostname", "fs/mqueue/queues_max", "chmod-sysctl")
SHOW_NOTHING = ("kcore", "kmsg", "kallsyms", "sysrq-trigger", "slabinfo", "vmallocinfo", "timer_list", "keys", "kpagecount", "iomem")
OF_PID_1 = [*(f"1/{name}" for name in ("mem", "environ", "maps", "auxv", "syscall", "stack", "ns/user", "fd", "root/etc", "cwd", "exe")),
            *(f"write-1/{name}" for name in ("oom_score_adj", "coredump_filter", "clear_refs", "sched", "mem"))]
RIGHTS_SAID = {"syncfs": "done", "fsync": "EBADF", "fsync-of-file": "done", "caps": "00000000000004fb", "no-new-privs": "1", "each": EIGHT, "bounding": EIGHT, "drop": "EPERM", "exec": "['00000000000004fb', '00000000000004fb']",
               **{f"{act}-{uid}": "EPERM" for act in ("namespace", "clone") for uid in (0, 1000, 65535)}, **dict.fromkeys(REFUSED, "EPERM")}
DEEDS_SAID = {
    **dict.fromkeys(("real-time", "limit", "immutable", "append-only", "interface", "mark", "transparent", "priority", "forced-buffer", "alarm", "set-clock", "hang-up", "memory-policy"), "EPERM"),
    **dict.fromkeys(("nicer", "batch", "lower-limit", "small-lock", "low-priority", "buffer", "clock", "subreaper", "lease-own"), "done"), "nice": "EACCES", "lock": "ENOMEM", "debug": "EACCES", "lease-others": "EACCES",
    **{f"{act}{name}": "EINVAL" for act in ("", "become-") for name in ("own-number", "next-range", "range-before", "host-root")}, "credentials": "33", "credentials-outside": "EINVAL",
    "sys": str([f"/sys/devices/system/cpu/{name}" for name in ("online", "possible", "present")]), **dict.fromkeys(("sys-write", "sys-mode", "sys-new", "sys-gone"), "EROFS"), "sys-moved": "EBUSY",
    **{f"{top}{act}": said for top in ("boot", "home", "root") for act, said in (("", "done"), ("-moved", "EBUSY"), ("-forged", "EPERM"))}, "instances": "True"}
FILES_SAID = {
    **dict.fromkeys(("null", "null-in-tmp", "kmsg", "kmsg-in-tmp", "disk", "disk-in-tmp", "chmod-null", "chown-null", "capability", "trusted", "whiteout"), "EPERM"),
    "write-null": "done", "remove-null": "EROFS", "user-attribute": "done", "not-opaque": "image", "changes": "EROFS",
    "high": "EACCES", "chown-high": "EOVERFLOW", "read-high": "EACCES", "beyond": "EINVAL", "setuid-beyond": "EINVAL",
    "own-sudo": "EROFS", "hidden-sudo": "EROFS", "mask": "EBUSY", "moved-mask": "EBUSY", "in-mask": "EROFS", "beside-mask": "done", "masked": "[True, []]", "in-masked": "EROFS", "old": "1000 1000", "new": "1000 1000", "as-root": "0 0"}


def try_the_system(box, **differing):
    said = run(box, SYSTEM)
    assert {said.pop(name) for name in NOT_WRITTEN} <= {"EACCES", "EROFS"}, said
    assert said.pop("net/core/somaxconn") in ("EACCES", "EROFS", "ENOENT"), "older kernels, such as 6.1, do not show it in a box's network"
    equal(said, {**dict.fromkeys(SHOW_NOTHING, "nothing"), **dict.fromkeys(OF_PID_1, "EACCES"), **dict.fromkeys(("ptrace", "process_vm_readv", "pidfd_getfd", "kcmp"), "EPERM"),
                 "read": "done", "own-child": "done", "alive": "True", "lease": "FalseFalse", **differing})


def test_rights_and_calls():
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        box = sandbox(keeper)
        for place in (box, box.share()):
            equal(run(place, RIGHTS), RIGHTS_SAID)


def test_deeds_of_other_capabilities():
    """Each beside the like that needs none, other boxes' ids, /sys, and resources that count for each user."""
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        equal(run(sandbox(keeper), DEEDS), DEEDS_SAID)
        equal(run(sandbox(keeper), "act('others', lambda: str([os.path.exists(f'/{top}/own') for top in ('boot', 'home', 'root')]))"), {"others": "[False, False, False]"})


LINKED = r"""
act('kinds', lambda: str([stat.S_ISDIR(os.lstat('/' + top).st_mode) for top in ('boot', 'home', 'root')]))
act('etc', lambda: str([os.path.exists('/etc/' + name) for name in ('cloche', 'user')])); act('homes', lambda: str(sorted(os.listdir('/home'))))
act('user', lambda: as_user(lambda: put('/home/user/x', '1'))); act('root', lambda: put('/root/x', '1'))
"""


def test_an_image_whose_homes_lead_elsewhere():
    """It has links in their places, and in the place of a home."""
    need_writable_roots()
    trees = make_store()
    for top, target in (("boot", "/"), ("home", "/etc"), ("root", "../..")):
        os.rmdir(f"{trees}/{TREE}/{top}")
        os.symlink(target, f"{trees}/{TREE}/{top}")
    with Keeper(trees=trees) as keeper:
        equal(run(sandbox(keeper), LINKED), {"kinds": "[True, True, True]", "etc": "[False, False]", "homes": "['cloche', 'user']", "user": "None", "root": "done"})
        os.remove(f"{trees}/{TREE}/home")
        os.mkdir(f"{trees}/{TREE}/home")
        os.symlink("/etc/marker", f"{trees}/{TREE}/home/user")
        equal(run(sandbox(keeper), "act('owner', lambda: str(os.stat('/etc/marker').st_uid)); act('link', lambda: os.readlink('/home/user'))"), {"owner": "0", "link": "/etc/marker"})


def test_devices_attributes_and_set_ids():
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        box = sandbox(keeper)
        equal(run(box, FILES), FILES_SAID)
        equal(run(box.share(), "act('masked', lambda: str(os.stat('/proc/keys').st_rdev == os.makedev(1, 3)))"), {"masked": "True"})


def test_the_system_and_our_programs():
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        box = sandbox(keeper)
        try_the_system(box)
        equal(box.said("echo lives"), "lives\n")


FILL = r"""
def fill(path):
    with open(path, 'wb', buffering=0) as file:
        for _ in range(64): file.write(bytes(1 << 20))
    return 'full'
def many(path):
    os.mkdir(path)
    for number in range(4000): open(f'{path}/{number}', 'w').close()
for top in ('/opt', '/root', '/run', '/etc'):
    act(top, lambda: fill(top + '/big')); os.unlink(top + '/big')
    act(top + '-inodes', lambda: many(top + '/many')); shutil.rmtree(top + '/many')
act('small', lambda: put('/root/small', 'x' * 100000))
def memory():
    for uid in range(3000, 3004):
        if os.fork() == 0: os.close(held); os.setuid(uid); kept = b'x' * (80 << 20); os.read(gate, 1); os._exit(0)
    first = os.waitpid(-1, 0)[1]  # of one that is killed, for the others wait
    os.close(held)
    return str([first, *(os.waitpid(-1, 0)[1] for _ in range(3))][0])
gate, held = os.pipe()
act('memory', memory)
def forks():
    for uid in range(2000, 2100):
        if os.fork() == 0: os.closerange(0, 3); os.setuid(uid); signal.pause()
act('forks', forks)
"""
FILL_SAID = {**{top + what: "ENOSPC" for top in ("/opt", "/root", "/run", "/etc") for what in ("", "-inodes")}, "small": "done", "memory": "9", "forks": "EAGAIN"}


def test_quotas():
    """They hold the whole box, whatever user its programs become."""
    need_writable_roots()
    with Keeper(trees=make_store()) as keeper:
        equal(run(sandbox(keeper), FILL), FILL_SAID)


# ---- leases of ids ------------------------------------------------------------------------------------------------------

def first_of(box):
    return int(box.said("read -r zero first count < /proc/self/uid_map; echo $first").strip())


def is_leased(first):
    """As a keeper would find it."""
    import fcntl
    try:
        with open(f"{LEASES}/{first}") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def test_no_two_boxes_share_ids():
    need_writable_roots()
    trees = make_store()
    with Keeper(trees=trees) as keeper, Keeper(trees=trees) as beside:
        boxes = [sandbox(keeper), sandbox(keeper), sandbox(beside)]
        firsts = [first_of(box) for box in boxes]
        assert all(abs(a - b) >= 65536 for i, a in enumerate(firsts) for b in firsts[:i]), firsts
        assert all(0x70400000 <= first <= 0x78000000 - 65536 for first in firsts), firsts
        equal([is_leased(first) for first in firsts], [True] * 3)
        boxes[0].drop()
        equal([is_leased(first) for first in firsts], [False, True, True])
    equal([is_leased(first) for first in firsts], [False] * 3)


def has_ended(pid):
    """It may stay as a zombie, which has no mounts."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return any(line.startswith("State:\tZ") for line in status)
    except FileNotFoundError:
        return True


def test_a_killed_keeper_leaves_no_range_to_others_while_its_box_lives():
    need_writable_roots()
    from cloche import wait_for
    trees = make_store()
    keeper = Keeper(trees=trees)
    box = sandbox(keeper)
    first = first_of(box)
    program = keeper.ask(do="keeper")["pid"]
    holder = next(pid for pid in subprocess.run(["pgrep", "-P", str(program)], stdout=subprocess.PIPE, text=True).stdout.split() if os.path.exists(f"/proc/{pid}/fd/6"))
    equal(os.readlink(f"/proc/{holder}/fd/6"), f"{LEASES}/{first}")  # of PID 1, which ends last
    os.kill(program, 9)
    wait_for(lambda: not is_leased(first), "the end of the box's files and its lease")
    wait_for(lambda: has_ended(holder), "the end of its mounts, which is later")
    os.remove(f"{LEASES}/{first}")
    keeper.process.stdin.close()
    keeper.process.wait()
    keeper.process.stdout.close()
    with Keeper(trees=trees) as again:  # removes the groups of the killed one
        equal(sandbox(again).said("echo $EUID"), "0\n")


def test_requests_that_are_refused():
    need_writable_roots()
    trees = make_store()
    with Keeper(trees=trees) as keeper:
        for spec in ({"image": TREE}, {"sandbox": True}):
            equal(refusal(keeper.box, root=True, **spec).code, "invalid_argument")
        refused = refusal(sandbox(keeper).context, keeper.template())
        assert refused.code == "invalid_state" and "has root" in refused.message, refused


def test_without_control_groups():
    need_writable_roots()
    trees = make_store()
    hidden = ["unshare", "-m", "sh", "-ec", 'mount -t tmpfs none /sys/fs/cgroup; exec "$@"', "sh"]
    with Keeper(*hidden, trees=trees) as keeper:
        refused = refusal(sandbox, keeper)
        assert refused.code == "guard_missing" and "needs the memory control group" in refused.message, refused
        equal(keeper.sandbox(image=TREE).said("echo $EUID"), "1000\n")



# ---- an ordinary user's keeper -----------------------------------------------------------------------------------------

# The image's files are all the user's, and so root's.
OF_PID_1_AS_USER = {"1/fd": "done", "1/syscall": "EPERM", **{name: "EROFS" for name in OF_PID_1 if name.startswith("write-")}}


def test_the_same_of_an_ordinary_user():
    """With ids that the host lends it. Root of the box is the user itself, as the one user of other boxes is."""
    need_lent_ids()
    need_writable_roots()
    trees = make_store()
    as_user(lambda: try_as_user(trees))


def try_as_user(trees):
    with Keeper(trees=trees) as keeper:
        box = sandbox(keeper)
        equal(box.said("echo $(</proc/self/uid_map) $(</proc/self/gid_map)").split(), ["0", "12345", "1", "1", "200000", "65535", "0", "12345", "1", "1", "300000", "65535"])
        equal(run(box, PERMITTED), {**PERMITTED_SAID, "owners": "[0, 0, 0]"})
        for place in (box, box.share()):
            equal(run(place, RIGHTS), RIGHTS_SAID)
            try_the_system(place, **OF_PID_1_AS_USER)
        equal(run(sandbox(keeper), DEEDS), {**DEEDS_SAID, "lease-others": "done"})
        equal(run(sandbox(keeper), FILES), {**FILES_SAID, "high": "done", "chown-high": "done", "read-high": "image+"})
        equal(run(sandbox(keeper), FILL), FILL_SAID)
        equal(run(sandbox(keeper), "act('others', lambda: get('/opt/others').decode())"), {"others": "image"})


def refused_as_user(trees, code, *words):
    with Keeper(trees=trees) as keeper:
        refused = refusal(sandbox, keeper)
        assert refused.code == code and all(word in refused.message for word in words), refused
        equal(keeper.sandbox(image=TREE).said("echo $EUID"), "1000\n")


def test_what_an_ordinary_user_lacks():
    need_lent_ids()
    need_writable_roots()
    trees = make_store()
    few = "tester:200000:65535\nother:300000:65536\n12345:4294967295:65536\ntester:x:65536\n\n:\n"
    as_user(lambda: refused_as_user(trees, "guard_missing", "needs the memory control group"), has_groups=False)
    for name, option in (("subuid", "--add-subuids"), ("subgid", "--add-subgids")):
        for text, words in (("", ("has none", "100000-165535 tester")), (few, ("has fewer, or no numbers, in line 4", "FIRST-LAST tester")), ("other:100000:65536\ntester:9:9\n", ("has fewer, or no numbers, in line 2", "165536-231071 tester"))):
            as_user(lambda: refused_as_user(trees, "privilege", f"/etc/{name} {words[0]}", f"usermod {option} {words[1]}", "or start it with writableRoot"), **{name: text})
    for name in PROGRAMS:
        as_user(lambda: refused_as_user(trees, "privilege", name, "apt install uidmap"), hidden=[name])
