"""A template keeps one capability in its own user namespace, for joining the boxes beneath it.
Attacks by the host's set-up code with that, and its remains in a run."""
from warm import Failed, Warm

SYSCALLS = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *args):
    r = libc.syscall(number, *args)
    return r if r >= 0 else -ctypes.get_errno()
def status(name):
    for line in open("/proc/self/status"):
        if line.startswith(name + ":"):
            return line.split()[1]
"""
SYS_ADMIN = 1 << 21
ATTACKS = {
    "mount": "call(165, b'none', b'/tmp', b'tmpfs', 0, None)",
    "bind mount": "call(165, b'/usr', b'/tmp', None, 4096, None)",
    "remount": "call(165, None, b'/usr', None, 32, None)",
    "umount2": "call(166, b'/proc/sys', 2)",
    "pivot_root": "call(155, b'/tmp', b'/tmp')",
    "chroot": "call(161, b'/tmp')",
    "unshare a user namespace": "call(272, 0x10000000)",
    "unshare a mount namespace": "call(272, 0x20000)",
    "clone with a user namespace": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "open_tree": "call(428, -100, b'/usr', 1)",
    "move_mount": "call(429, -100, b'/usr', -100, b'/tmp', 0)",
    "fsopen": "call(430, b'tmpfs', 0)",
    "mount_setattr": "call(442, -100, b'/usr', 0, None, 0)",
    "sethostname": "call(170, b'x', 1)",
    "ptrace": "call(101, 16, 1, 0, 0)",
    "bpf": "call(321, 0, 0, 0)",
    "keyctl": "call(250, 0, -3, 0)",
    "perf_event_open": "call(298, 0, 0, -1, -1, 0)",
    "open_by_handle_at": "call(304, -100, 0, 0)",
    "mknod of a device": "call(133, b'/tmp/null', 0o020666, 0x103)",
    "setting the clock": "call(227, 0, ctypes.byref((ctypes.c_long * 2)(0, 0)))",
    "take back a dropped capability": "call(126, ctypes.byref((ctypes.c_uint32 * 2)(0x20080522, 0)),"
                                      " ctypes.byref((ctypes.c_uint32 * 6)(0xffffffff, 0xffffffff, 0, 0x1ff, 0x1ff, 0)))",
}
REFUSED = {-1, -22, -38}  # EPERM, EINVAL, ENOSYS


def try_all():
    return "{" + ", ".join(f"{name!r}: {attack}" for name, attack in ATTACKS.items()) + "}"


def check(found):
    held = {name: found[name] for name in ATTACKS if found[name] not in REFUSED}
    assert not held, held


def test_set_up_code_cannot_use_its_capability():
    setup = SYSCALLS + f"FOUND = {try_all()}\n"
    with Warm(setup=setup) as warm:
        check(warm.value("FOUND"))


def test_a_run_can_do_as_little():
    with Warm(setup=SYSCALLS) as warm:
        check(warm.value(f"def main():\n    return {try_all()}"))


def test_the_template_has_one_capability_and_the_run_none():
    names = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
    with Warm(setup=SYSCALLS + f"CAPS = [int(status(n), 16) for n in {names}]\n") as warm:
        inherited, permitted, effective, _, ambient = warm.value("CAPS")
        assert permitted == effective == SYS_ADMIN and inherited & ~SYS_ADMIN == 0 and ambient == 0, warm.value("CAPS")
        assert warm.value(f"[int(status(n), 16) for n in {names}]") == [0] * 5
        assert warm.value("[status('NoNewPrivs'), status('Seccomp'), int(status('Seccomp_filters'))]") == ["1", "2", 3]  # the template's two, and the one that a child takes back


def test_programs_of_the_set_up_code_have_no_capability():
    setup = "import subprocess\nOUT = subprocess.run(['grep', 'Cap[PE]', '/proc/self/status'], capture_output=True, text=True).stdout\n"
    with Warm(setup=setup) as warm:
        assert [line.split()[1] for line in warm.value("OUT").splitlines()] == ["0" * 16] * 2


def test_setns_is_the_templates_alone():
    """The twin: the template may call it (into its own namespace, which changes nothing), a run may not."""
    attempt = "(lambda f: call(308, f.fileno(), 0x4000000))(open('/proc/self/ns/uts'))"
    with Warm(setup=SYSCALLS + f"OWN = {attempt}\n") as warm:
        assert warm.value("OWN") == 0
        assert warm.value(f"{attempt}") == -1


def test_a_run_may_not_install_filters():
    with Warm(setup=SYSCALLS) as warm:
        assert warm.value("[call(317, 1, 0, 0), call(157, 22, 2, 0)]") == [-1, -1]


def test_a_template_sees_neither_host_nor_other_templates():
    setup = "import os\nPIDS = sorted(int(p) for p in os.listdir('/proc') if p.isdigit())\n"
    with Warm(setup=setup) as one, Warm(setup=setup + "OTHER = 1\n") as two:
        for warm in (one, two):
            pids = warm.value("PIDS")
            assert pids[0] == 1 and len(pids) == 2, pids


def test_a_run_sees_only_itself():
    with Warm(setup="import os", spares=3) as warm:
        for result in warm.runs("sorted(int(p) for p in os.listdir('/proc') if p.isdigit())", times=3):
            assert len(result.value) == 2 and result.value[0] == 1, result


def test_a_template_cannot_signal_its_runs():
    """They are other users, in namespaces beneath its own. (Its own child it can, until that has joined its box.)"""
    setup = """
import os, time
def hunt():
    time.sleep(0.3)
    hits = []
    for pid in range(2, 29000):
        if pid != os.getpid():
            try:
                os.kill(pid, 0)
                hits.append(pid)
            except OSError:
                pass
    return hits
os.register_at_fork(after_in_parent=lambda: HITS.append(len(hunt())))
HITS = []
"""
    with Warm(setup=setup, spares=1) as warm:
        hits = [warm.value("import time\ntime.sleep(1)\nHITS", pause=1500) for _ in range(3)][-1]
    assert hits and set(hits) == {0}, hits


def test_random_numbers_differ_between_siblings():
    code = """
import os, random, secrets, tempfile, uuid, ssl
[random.random(), secrets.token_hex(8), uuid.uuid4().hex, next(tempfile._get_candidate_names()), ssl.RAND_bytes(8).hex(), os.urandom(8).hex(),
 tempfile.mkdtemp()]
"""
    with Warm(setup="import random, ssl, tempfile, uuid, secrets\nrandom.random(); ssl.RAND_bytes(8); tempfile.mkdtemp()", spares=2) as warm:
        seen = [result.value for result in warm.runs(code, times=6)] + [warm.value(code) for _ in range(4)]
    for column in zip(*seen):
        assert len(set(column)) == len(seen), column


def test_what_cannot_be_forked_is_refused_with_the_reason():
    for setup, reason in [("import threading, time\nthreading.Thread(target=time.sleep, args=(100,), daemon=True).start()", "thread"),
                          ("F = open('/etc/passwd')", "/etc/passwd"),
                          ("import subprocess\nP = subprocess.Popen(['sleep', '100'])", "child process")]:
        try:
            with Warm(setup=setup) as warm:
                warm.run("1")
        except Failed as failed:
            assert failed.code == "prefix" and reason in failed.message, failed
        else:
            raise AssertionError(setup)


def test_a_template_that_dies_is_made_again():
    """os._exit in the template's own process, after the fork that made a run."""
    setup = "import os\nos.register_at_fork(after_in_parent=lambda: os._exit(3) if os.path.exists('/tmp/die') else None)\n"
    with Warm(setup=setup + "open('/tmp/die', 'w').close()\n", spares=0) as warm:
        for _ in range(2):
            assert warm.value("40 + 2") == 42


def test_a_template_that_hangs_holds_nobody():
    """Its child runs; the next one never comes to be, which the wall limit ends; and the engine ends as ever."""
    setup = "import os, time\nos.register_at_fork(after_in_parent=lambda: time.sleep(1000))\n"
    with Warm(setup=setup) as warm:
        assert warm.value("40 + 2", limits={"wallMs": 3000}) == 42
        second = warm.run("1", limits={"wallMs": 500})
        assert second.status == "timeout" and second.limits_hit == ["wallMs"], second
