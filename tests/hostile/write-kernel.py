"""Cases 69-71: kernel knobs are out of reach; /dev holds nothing with a driver behind it; mounts do not multiply."""
from cloche import equal, guest_value, one_of

KNOBS = ["sys/kernel/core_pattern", "sys/kernel/modprobe", "sys/kernel/hotplug", "sys/kernel/hostname", "sys/kernel/sysrq",
         "sys/kernel/randomize_va_space", "sys/kernel/ns_last_pid", "sys/kernel/yama/ptrace_scope", "sys/vm/overcommit_memory",
         "sys/vm/drop_caches", "sys/net/ipv4/ip_forward", "sys/fs/file-max", "sys/fs/binfmt_misc/register",
         "sys/kernel/usermodehelper/bset", "sys/kernel/shmmax", "sys/user/max_user_namespaces"]
NULL_DEVICE = "the null device"


def test_sysctls_cannot_be_opened_for_writing():
    """Opening is refused already; nothing is ever written, so that a box with a hole costs a test and not the host."""
    answers = guest_value(f"""
        null = os.stat('/dev/null').st_rdev
        def open_to_write(path):
            if os.path.exists(path) and os.stat(path).st_rdev == null:
                return {NULL_DEVICE!r}
            return attempt(os.open, path, os.O_WRONLY)
        return {{k: open_to_write('/proc/' + k) for k in {KNOBS!r}}}
    """)
    for name, answer in answers.items():
        assert answer in ("EROFS", "EACCES", "EPERM", "ENOENT", NULL_DEVICE), (name, answer)


def test_harmless_sysctls_are_readable():
    equal(guest_value("return [len(open('/proc/sys/' + p).read()) > 0 for p in ('kernel/osrelease', 'vm/overcommit_memory', "
                      "'kernel/ngroups_max')]"), [True] * 3)


def test_release_agent_and_uevent_helper_are_absent():
    equal(guest_value("return [os.path.exists(p) for p in ('/sys/fs/cgroup', '/sys/kernel/uevent_helper', "
                      "'/proc/sys/fs/binfmt_misc/register')]"), [False] * 3)


def test_clock_and_host_name():
    equal(guest_value("""
        CLOCK_SETTIME, SETHOSTNAME = 227, 170
        invalid = struct.pack('qq', 0, -1)  # EINVAL if it got through, never a new time
        return [syscall(CLOCK_SETTIME, 0, invalid), syscall(SETHOSTNAME, b'mine', 4), time.time() > 10 ** 9]
    """), ["EPERM", "EPERM", True])


def test_devices_are_the_harmless_five():
    found = guest_value("""
        import stat
        nodes = {}
        for directory, _, names in os.walk('/dev'):
            for name in names:
                path = os.path.join(directory, name)
                mode = os.lstat(path).st_mode
                if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
                    nodes[path] = [os.major(os.stat(path).st_rdev), os.minor(os.stat(path).st_rdev)]
        return nodes
    """)
    equal(found, {"/dev/null": [1, 3], "/dev/zero": [1, 5], "/dev/full": [1, 7], "/dev/random": [1, 8], "/dev/urandom": [1, 9]})


def test_devices_work():
    equal(guest_value("""
        return [open('/dev/zero', 'rb').read(2), len(open('/dev/urandom', 'rb').read(8)), attempt(lambda: open('/dev/null', 'w').write('x')),
                attempt(lambda: os.write(os.open('/dev/full', os.O_WRONLY), b'x'))]
    """), [b"\0\0", 8, "ok", "ENOSPC"])


def test_device_nodes_cannot_be_made():
    """The twin: a FIFO may be made."""
    equal(guest_value("""
        import stat
        def node(kind, major, minor):
            return attempt(os.mknod, f'/tmp/{kind}{major}{minor}', kind | 0o666, os.makedev(major, minor))
        return [node(stat.S_IFBLK, 8, 0), node(stat.S_IFCHR, 1, 1), node(stat.S_IFCHR, 10, 232), attempt(os.mkfifo, '/tmp/fifo')]
    """), ["EPERM", "EPERM", "EPERM", "ok"])


def test_mount_table_flood():
    answers = guest_value("""
        MOUNT, MS_BIND = 165, 4096
        before = len(open('/proc/self/mountinfo').readlines())
        answers = {syscall(MOUNT, b'/tmp', b'/workspace', b'', MS_BIND, 0) for _ in range(1000)}
        return [sorted(answers), len(open('/proc/self/mountinfo').readlines()) == before]
    """)
    equal(answers, [["EPERM"], True])


def test_masks_hold_against_renaming():
    answers = guest_value("return [attempt(os.rename, '/dev/null', '/dev/full2'), attempt(os.unlink, '/dev/null'), "
                          "attempt(os.symlink, '/tmp', '/dev/mine'), attempt(os.rmdir, '/proc/sys')]")
    for answer in answers:
        one_of(answer, "EROFS", "EACCES", "EPERM", "ENOTDIR", "EXDEV", "EBUSY")
