"""Cases 44, 53-56: a box sees nothing of the host that was not given to it."""
import json
import os
import socket
from cloche import BUILD, SOURCE, call, equal, guest_code, guest_value, one_of, run


def test_only_the_boxes_processes():
    listing = guest_value("""
        out = {}
        for pid in os.listdir('/proc'):
            if pid.isdigit():
                out[pid] = open(f'/proc/{pid}/cmdline').read()
        return out
    """)
    assert len(listing) <= 3 and "1" in listing, listing
    assert not any("keeper" in c or "run-tests" in c for c in listing.values()), listing


def test_kernel_files_are_masked():
    """Each is absent, refused, or empty: the mask is /dev/null or an empty directory."""
    answers = guest_value("""
        def seen(path):
            try:
                data = b''.join(n.encode() for n in os.listdir(path)) if os.path.isdir(path) else open(path, 'rb').read(64)
                return 'empty' if not data else 'data'
            except OSError as e:
                return errno.errorcode[e.errno]
        return {p: seen('/proc/' + p) for p in ('kcore', 'kallsyms', 'kmsg', 'keys', 'key-users', 'timer_list', 'sched_debug',
                'modules', 'iomem', 'ioports', 'slabinfo', 'vmallocinfo', 'config.gz', 'partitions', 'diskstats', 'interrupts',
                'kpageflags', 'kpagecount', 'bus', 'irq', 'scsi', 'acpi', 'fs', 'tty', 'driver', 'latency_stats', 'cmdline')}
    """)
    for name, answer in answers.items():
        assert answer in ("empty", "ENOENT", "EACCES", "EPERM"), (name, answer)


def test_ordinary_proc_files_are_there():
    equal(guest_value("return [len(open('/proc/' + p).read(64)) > 0 for p in ('self/status', 'meminfo', 'cpuinfo', 'stat', "
                      "'uptime', 'self/mountinfo', 'sys/kernel/osrelease')]"), [True] * 7)


def test_sysrq_trigger_does_nothing():
    answer = guest_value("""
        path = '/proc/sysrq-trigger'
        if os.path.exists(path) and os.stat(path).st_rdev == os.stat('/dev/null').st_rdev:
            return 'null device'
        return attempt(os.open, path, os.O_WRONLY)
    """)
    one_of(answer, "null device", "EACCES", "EROFS", "ENOENT", "EPERM")


def test_mounts_name_no_host_path():
    text = guest_value("return open('/proc/self/mountinfo').read() + open('/proc/mounts').read()")
    for path in (BUILD, SOURCE, os.getcwd()):
        assert path not in text, path


def test_no_sys():
    equal(guest_value("return [os.path.exists('/sys/' + p) for p in ('', 'class', 'firmware', 'devices', 'fs/cgroup')]"),
          [False] * 5)


def test_cgroup_paths_are_the_boxes_own():
    text = guest_value("return open('/proc/self/cgroup').read()")
    assert "cloche" not in text and "test-" not in text, text


def test_host_name_is_not_told():
    name, file = guest_value("import socket; return [socket.gethostname(), open('/etc/hostname').read().strip()]")
    assert name and name != socket.gethostname(), name
    equal(file, name)


def test_host_users_are_not_told():
    equal(guest_value("import pwd; return [[u.pw_name for u in pwd.getpwall()], pwd.getpwuid(os.getuid()).pw_dir, "
                      "attempt(open, '/etc/shadow')]"), [["cloche", "nobody"], "/home/cloche", "ENOENT"])


def test_host_files_are_absent():
    marker = os.path.abspath("marker")
    open(marker, "w").close()
    equal(guest_value(f"return [os.path.exists(p) for p in ({marker!r}, '/proc/1/root' + {marker!r}, '/root', '/var', '/work', "
                      "'/etc/ssh', '/etc/fstab', '/etc/machine-id', '/boot/config', '/old_root', '/mnt', '/srv')]"), [False] * 12)


def test_the_callers_environment_and_arguments_stay_outside():
    secret = "sk-live-4242"
    code = guest_code("""
        found = []
        for pid in ['self'] + [p for p in os.listdir('/proc') if p.isdigit()]:
            for name in ('environ', 'cmdline'):
                try:
                    found.append(open(f'/proc/{pid}/{name}', 'rb').read().decode(errors='replace'))
                except OSError:
                    pass
        return [found, dict(os.environ)]
    """)
    seen = call("python", code, "attack", env={"API_KEY": secret}).value
    assert secret not in json.dumps(seen), seen
    assert seen[1].get("PATH") and seen[1].get("HOME"), seen


def test_only_the_documented_descriptors():
    """0, 1, 2 and the channel; nothing else is open in the agent's process."""
    equal(guest_value("""
        numbers = [int(n) for n in os.listdir('/proc/self/fd')]
        return sorted(n for n in numbers if attempt(os.fstat, n) == 'ok' and n != channel())
    """), [0, 1, 2])


def test_a_script_has_no_channel():
    finished = run("python", "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd'))[:3], len(os.listdir('/proc/self/fd')))")
    equal(finished.stdout, b"[0, 1, 2] 4\n", finished)


def test_a_descriptor_left_open_by_the_caller_does_not_leak():
    import subprocess
    from cloche import CLI
    fd = os.open("/", os.O_RDONLY)
    os.set_inheritable(fd, True)
    finished = subprocess.run([CLI, "run", "python", "-c", "import os; print(len(os.listdir('/proc/self/fd')))"],
                              capture_output=True, pass_fds=[fd], timeout=50)
    equal(finished.stdout, b"4\n", finished)


def test_the_working_directory_through_a_descriptor_stays_inside():
    """CVE-2024-21626: no descriptor leads to a directory of the host."""
    equal(guest_value("""
        outside = []
        for fd in range(64):
            if attempt(os.chdir, f'/proc/self/fd/{fd}') == 'ok':
                outside.append(os.getcwd())
        os.chdir('/')
        os.chdir('/'.join(['..'] * 40))
        return [outside, os.path.exists('workspace'), os.path.exists('root/.bashrc')]
    """), [[], True, False])


def test_kernel_log_and_tracing_are_refused():
    equal(guest_value("""
        SYSLOG, PERF_EVENT_OPEN, BPF = 103, 298, 321
        return [syscall(SYSLOG, 3, ctypes.create_string_buffer(64), 64), syscall(PERF_EVENT_OPEN, bytes(128), 0, -1, -1, 0),
                syscall(BPF, 0, bytes(128), 128), attempt(open, '/dev/kmsg')]
    """), ["EPERM", "EPERM", "EPERM", "ENOENT"])


def test_the_runtime_cannot_be_overwritten():
    """Case 43, CVE-2019-5736: neither the interpreter that runs nor the agent, and through no name of it."""
    before = os.stat("/usr/bin/python3").st_mtime_ns
    answers = guest_value("""
        agent = [os.path.join('/run/cloche', n) for n in sorted(os.listdir('/run/cloche'))][0]
        return [attempt(open, p, 'r+b') for p in ('/proc/self/exe', '/proc/1/exe', os.path.realpath('/usr/bin/python3'), agent)] + \\
               [attempt(os.rename, agent, agent), attempt(os.rename, '/usr/bin', '/usr/bin'), attempt(os.chmod, '/usr/bin', 0o755)]
    """)
    for answer in answers:
        assert answer in ("ETXTBSY", "EROFS", "EACCES", "EPERM", "EXDEV"), answers
    equal(os.stat("/usr/bin/python3").st_mtime_ns, before)


def test_own_programs_run():
    """The twin: the guest may execute and overwrite its own files."""
    equal(guest_value("""
        with open('tool', 'w') as file:
            file.write('#!/bin/sh\\necho ran\\n')
        os.chmod('tool', 0o755)
        return subprocess.run(['./tool'], capture_output=True, text=True).stdout
    """), "ran\n")
