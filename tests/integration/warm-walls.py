"""The walls of a run that is forked from a template, seen from inside by a hostile guest."""
import textwrap

import int80
from cloche import GUEST_PRELUDE, equal
from warm import Warm

REFUSED = dict(setns=308, seccomp=317, unshare=272, mount=165, umount2=166, pivot_root=155, chroot=161, open_tree=428, move_mount=429,
               fsopen=430, mount_setattr=442, ptrace=101, process_vm_readv=310, pidfd_getfd=438, bpf=321, userfaultfd=323, keyctl=250,
               perf_event_open=298, init_module=175, open_by_handle_at=304, reboot=169, personality=135)


def inside(body, **options):
    """The value of a body in a warm run, the prelude being the set-up."""
    with Warm(setup=GUEST_PRELUDE.replace("raise SystemExit", "raise RuntimeError"), **options) as warm:
        code = "def attack():\n" + textwrap.indent(textwrap.dedent(body), "    ")
        values = [warm.value(code, function="attack", pause=50) for _ in range(2)]
    equal(values[0], values[1], "(of the first run and the second)")
    return values[0]


def test_no_capability_in_any_set():
    status = inside("return dict(l.rstrip('\\n').split(':\\t') for l in open('/proc/self/status') if l.startswith(('Cap', 'NoNew', 'Uid', 'Gid', 'Groups')))")
    for row in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        equal(status[row], "0000000000000000", row)
    equal((status["NoNewPrivs"], status["Uid"].split(), status["Gid"].split()), ("1", ["1000"] * 4, ["1000"] * 4))


def test_securebits_are_locked():
    equal(inside("return [libc.prctl(27, 0, 0, 0, 0), [libc.prctl(23, n, 0, 0, 0) for n in range(41)]]")[1], [0] * 41)


def test_calls_are_refused():
    equal(inside(f"return {{n: syscall(number, 0, 0, 0, 0, 0, 0) for n, number in {REFUSED!r}.items()}}"), dict.fromkeys(REFUSED, "EPERM"))


def test_namespaces_cannot_be_joined():
    equal(inside("""
        kinds = ('user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup')
        fds = [os.open('/proc/1/ns/' + k, os.O_RDONLY) if os.access('/proc/1/ns/' + k, os.R_OK) else os.open('/proc/self/ns/' + k, os.O_RDONLY) for k in kinds]
        return [syscall(308, fd, 0) for fd in fds] + [syscall(272, 0x10000000), syscall(56, 0x10000000 | 17, 0, 0, 0, 0)]
    """), ["EPERM"] * 9)


def test_clone3_does_not_exist():
    equal(inside("return syscall(435, bytes(88), 88)"), "ENOSYS")


def test_capabilities_cannot_be_taken():
    equal(inside("""
        header = struct.pack('Ii', 0x20080522, 0)
        return [syscall(126, header, struct.pack('6I', *[0xffffffff] * 6)), attempt(os.setuid, 0), attempt(os.setgid, 0),
                attempt(os.setgroups, [0])]
    """), ["EPERM"] * 4)


def test_other_architectures_are_killed():
    """int 0x80 in a child of the run."""
    equal(inside("""
        def old():
            code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            code.write(%r)
            ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
        return in_child(old)
    """ % int80.GETPID), ["signal", int80.signal_in_a_box()])


def test_descriptors():
    """Three pipes and the channel: with its template's fork socket a run could be forked into boxes of its choice."""
    value = inside("""
        held = {}
        for name in sorted(os.listdir('/proc/self/fd'), key=int):
            try:
                held[name] = os.readlink('/proc/self/fd/' + name).split(':')[0]
            except OSError:
                pass
        return held
    """)
    channel = max(value, key=int)
    equal(value, {"0": "pipe", "1": "pipe", "2": "pipe", channel: "socket"})


def test_namespaces_are_the_runs_own():
    with Warm(setup="import os\nkinds = ('user', 'pid', 'mnt', 'net', 'ipc', 'uts', 'cgroup')\nof_the_set_up = {k: os.readlink('/proc/self/ns/' + k) for k in kinds}",
              runs_max=2) as warm:
        one, other = warm.runs("import time\ntime.sleep(0.3)\nreturn [of_the_set_up, {k: os.readlink('/proc/self/ns/' + k) for k in kinds}]", 2)
    for kind in one.value[1]:
        assert len({one.value[0][kind], one.value[1][kind], other.value[1][kind]}) == 3, (kind, one.value, other.value)


def test_the_template_is_out_of_sight():
    """Neither its processes nor its files nor its groups."""
    value = inside("""
        return [sorted(int(n) for n in os.listdir('/proc') if n.isdigit())[0], attempt(os.kill, os.getppid() or 999999, 0),
                open('/proc/self/cgroup').read().count('cloche'), [l.split()[4] for l in open('/proc/self/mountinfo') if ' - cgroup' in l],
                os.path.exists('/sys/kernel')]
    """)
    equal(value, [1, "ESRCH", 0, [], False])


def test_the_image_is_read_only():
    equal(inside("return [attempt(open, p, 'w') for p in ('/usr/x', '/etc/x', '/x', '/run/cloche/agent.py')]"), ["EROFS"] * 4)


def test_memory_of_others_is_out_of_reach():
    equal(inside("return [attempt(open, '/proc/1/' + n) for n in ('mem', 'environ', 'maps')]"), ["EACCES"] * 3)
