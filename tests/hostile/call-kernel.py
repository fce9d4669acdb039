"""Cases 61-68: the kernel's soft parts do not answer, through any door. Known and refused: EPERM; unknown: ENOSYS."""
import int80
from attempts import REFUSED_CALLS as REFUSED
from cloche import call, equal, guest, guest_value

SIGSYS = 31


def answers_of(numbers):
    return guest_value(f"return {{n: syscall(number, 0, 0, 0, 0, 0, 0) for n, number in {numbers!r}.items()}}")


def all_refused(group):
    equal(answers_of(REFUSED[group]), dict.fromkeys(REFUSED[group], "EPERM"))


def test_process_memory():
    all_refused("process memory")


def test_mounts():
    all_refused("mounts")


def test_namespaces():
    all_refused("namespaces")


def test_keys():
    all_refused("keys")


def test_kernel_code():
    all_refused("kernel code")


def test_handles():
    all_refused("handles")


def test_machine():
    all_refused("machine")


def test_clocks_and_names():
    all_refused("clocks and names")


def test_own_filters():
    all_refused("own filters")


def test_seccomp_through_prctl():
    equal(guest_value("""
        PR_SET_SECCOMP, PR_SET_NAME = 22, 15
        ctypes.set_errno(0)
        answer = libc.prctl(PR_SET_SECCOMP, 1, 0, 0, 0)
        return [answer, errno.errorcode[ctypes.get_errno()], libc.prctl(PR_SET_NAME, b'mine', 0, 0, 0)]
    """), [-1, "EPERM", 0])


def test_memory_map_of_itself():
    """Case 30: PR_SET_MM; with high argument bits set the kernel sees the same option."""
    equal(guest_value("PRCTL, PR_SET_MM = 157, 35\nreturn [syscall(PRCTL, PR_SET_MM, 1, 0, 0, 0), "
                      "syscall(PRCTL, PR_SET_MM | 1 << 32, 1, 0, 0, 0)]"), ["EPERM", "EPERM"])


def test_io_uring_is_unknown():
    equal(answers_of(dict(setup=425, enter=426, register=427)), dict.fromkeys(["setup", "enter", "register"], "ENOSYS"))


def test_calls_newer_than_the_filter_are_unknown():
    """The host's kernel has them and would answer EFAULT or EINVAL: statmount, listmount, lsm_list_modules, mseal."""
    numbers = dict(statmount=457, listmount=458, lsm_list_modules=461, mseal=462, none=1000, last=0x3fffffff)
    equal(answers_of(numbers), dict.fromkeys(numbers, "ENOSYS"))


def test_namespaces_through_clone():
    """Every namespace flag, alone and beside others; the twin is a plain fork."""
    flags = dict(user=0x10000000, pid=0x20000000, net=0x40000000, mount=0x20000, uts=0x4000000, ipc=0x8000000, cgroup=0x2000000,
                 all=0x7e020000)
    answers = guest_value(f"""
        def clone(flags):
            answer = syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0)
            if answer == 0:
                os._exit(0)
            return answer
        return [{{n: clone(f) for n, f in {flags!r}.items()}}, clone(0) > 0]
    """)
    equal(answers, [dict.fromkeys(flags, "EPERM"), True])


def test_namespaces_through_unshare_and_setns():
    answers = guest_value("""
        fd = os.open('/proc/self/ns/user', os.O_RDONLY)
        return [syscall(272, flag) for flag in (0x10000000, 0x20000, 0x40000000, 0x10020000)] + [syscall(308, fd, 0)]
    """)
    equal(answers, ["EPERM"] * 5)


def test_nested_user_namespaces_by_the_tool():
    equal(guest_value("return subprocess.run(['/usr/bin/unshare', '--user', '--map-root-user', 'true'], "
                      "stderr=subprocess.DEVNULL).returncode != 0"), True)


def test_sockets_of_other_families():
    families = dict(packet=17, alg=38, vsock=40, key=15, tipc=30, rds=21, bluetooth=31, can=29, ax25=3, x25=9, xdp=44, nfc=39,
                    appletalk=5, packet_with_high_bits=17 | 1 << 32, last=45)
    equal(guest_value(f"return {{n: syscall(41, family, 3, 0) for n, family in {families!r}.items()}}"),
          dict.fromkeys(families, "EPERM"))


def test_netlink_but_routes():
    """Route is permitted: getifaddrs uses it. Audit, netfilter, crypto, generic and the rest are not."""
    answers = guest_value("return {str(p): syscall(41, 16, 3, p) for p in (0, 4, 5, 6, 9, 10, 12, 15, 16, 20, 21, 1 << 32 | 12)}")
    assert isinstance(answers.pop("0"), int), answers
    equal(set(answers.values()), {"EPERM"}, answers)


def test_internet_sockets_of_rare_kinds():
    kinds = dict(raw=(2, 3, 1), icmp=(2, 2, 1), sctp=(2, 1, 132), dccp=(2, 6, 33), udplite=(2, 2, 136), mptcp=(2, 1, 262), raw6=(10, 3, 58),
                 sctp6=(10, 5, 132))
    equal(guest_value(f"return {{n: syscall(41, *k) for n, k in {kinds!r}.items()}}"), dict.fromkeys(kinds, "EPERM"))


def test_ordinary_sockets_work():
    equal(guest_value("return [isinstance(syscall(41, f, t, 0), int) for f in (1, 2, 10) for t in (1, 2)]"), [True] * 6)


def test_x32_calls_kill():
    """The x32 ABI reaches the kernel through the same gate with bit 30 set."""
    equal(guest_value("X32 = 0x40000000\nreturn [in_child(lambda: syscall(X32 | 39)), in_child(lambda: syscall(X32 | 520)), "
                      "in_child(lambda: syscall(39))]"), [["signal", SIGSYS], ["signal", SIGSYS], ["exit", 0]])


MACHINE_CODE = """
    def machine(code):
        area = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        area.write(code)
        return ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(area)))()
    GETPID_I386 = b'\\xb8\\x14\\x00\\x00\\x00' + b'\\xcd\\x80' + b'\\xc3'  # mov eax, 20; int 0x80; ret
    GETPID_NATIVE = b'\\xb8\\x27\\x00\\x00\\x00' + b'\\x0f\\x05' + b'\\xc3'  # mov eax, 39; syscall; ret
"""


def test_int_0x80_kills():
    equal(guest_value(MACHINE_CODE + "    return [in_child(lambda: machine(GETPID_I386)), machine(GETPID_NATIVE) == os.getpid()]"),
          [["signal", int80.signal_in_a_box()], True])


def test_a_killed_interpreter_is_a_crash():
    result = guest("syscall(0x40000000 | 39)")
    equal(result.status, "crash", result)
    assert "SIGSYS" in str(result.error) or "31" in str(result.error), result.error


def test_filter_survives_exec():
    """A new program is under the same filter."""
    equal(guest_value("""
        code = "import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.unshare(0x10000000), ctypes.get_errno())"
        return subprocess.run([sys.executable, '-c', code], capture_output=True, text=True).stdout
    """), "-1 1\n")


def test_javascript_is_under_the_same_filter():
    code = "function f() { return require('child_process').spawnSync('/usr/bin/unshare', ['-U', 'true']).status; }"
    assert call("javascript", code, "f").value not in (0, None)


def test_privilege_is_gone():
    """Capability sets empty, no_new_privs set, the filter on: the kernel's own word."""
    status = dict(line.split(":\t", 1) for line in guest_value("return open('/proc/self/status').read()").splitlines())
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        equal(int(status[name], 16), 0, name)
    equal((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))
    equal(status["Uid"].split(), ["1000"] * 4)
    equal(status["Gid"].split(), ["1000"] * 4)
    equal([g for g in status["Groups"].split() if g not in ("1000", "65534")], [])


def test_set_user_id_programs_give_nothing():
    equal(guest_value("""
        import shutil
        shutil.copy('/usr/bin/id', 'id')
        os.chmod('id', 0o6755)
        return [subprocess.run([p, '-u'], capture_output=True, text=True).stdout.strip() for p in ('./id', '/usr/bin/id')]
    """), ["1000", "1000"])


def test_becoming_root_is_refused():
    equal(guest_value("return [attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0]), attempt(os.setuid, 1000)]"),
          ["EINVAL", "EINVAL", "EPERM", "ok"])
