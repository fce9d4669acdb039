"""Cloche as it is installed, on a stock machine with systemd and version 2 groups: every way in which people start it.

Run by tools/test-machine in a machine of its own, as root: these tests add users, units and cron jobs, and change kernel settings.
"""
import contextlib
import glob
import json
import os
import pwd
import shutil
import subprocess
import time

from cloche import F_ADD, PATIENCE, equal, skip, wait_for

TIMEOUT = 300

os.environ.pop("CLOCHE_RUNTIMES", None)  # the installed ones
CLI = "/usr/local/bin/cloche"
SOCKET = "/run/cloche/socket"
CALL = [CLI, "call", "python", "add", "-c", F_ADD, "--args", "[40, 2]"]
GROUPS = {"memory", "pids", "cpu", "freezer"}
HOST_GROUPS = "/sys/fs/cgroup"


def run(*command, bound=60, check=None, **popen):
    """A command's (exit code, standard output, standard error); check: the code it must have."""
    print("+", *command, flush=True)
    finished = subprocess.run(command, capture_output=True, text=True, timeout=bound * PATIENCE, stdin=subprocess.DEVNULL, **popen)
    print(finished.stdout, finished.stderr, sep="", flush=True)
    assert check is None or finished.returncode == check, f"exit {finished.returncode}, not {check}"
    return finished.returncode, finished.stdout, finished.stderr


def service(*command, properties=(), user=None, check=None, **options):
    """As a service started by systemd, like a cron job or a daemon's child."""
    words = [word for p in properties for word in ("--property", p)] + (["--uid", user] if user else [])
    return run("systemd-run", "--quiet", "--wait", "--pipe", *words, "--setenv=HOME=" + (pwd.getpwnam(user).pw_dir if user else "/root"), *command,
               check=check, **options)


def login(user, *command, **options):
    """As a logged-in user: PAM makes a session, and with it the user's own service manager. Returns
    after both have ended."""
    finished = service(*command, properties=["PAMName=login"], user=user, **options)
    run("loginctl", "terminate-user", user)
    wait_for(lambda: not os.path.exists(f"/run/user/{pwd.getpwnam(user).pw_uid}"), "the end of the session", bound=60)
    return finished


def ordinary_user():
    if not any(p.pw_name == "ada" for p in pwd.getpwall()):
        subprocess.run(["useradd", "--create-home", "--shell", "/bin/bash", "ada"], check=True)
    return "ada"


def missing(selftest_output):
    """Guards that are absent or degraded."""
    return {row["name"] for row in json.loads(selftest_output)["guards"] if row["state"] not in ("enforced", "off")}


def our_groups():
    return {d for d, _, _ in os.walk(HOST_GROUPS) if os.path.basename(d).startswith("cloche-")}


@contextlib.contextmanager
def nothing_left():
    """No group, no unit, no process of Cloche's stays."""
    before = our_groups()
    yield
    wait_for(lambda: not our_groups() - before, "the groups to be removed")
    assert "cloche-" not in run("systemctl", "list-units", "--all", "--plain", "--no-legend", "cloche-*.scope")[1]
    assert run("pgrep", "-f", "cloche-box-init")[0] == 1 or before, "a keeper is left"


@contextlib.contextmanager
def kernel_setting(name, value):
    before = run("sysctl", "-n", name, check=0)[1].strip()
    run("sysctl", "-w", f"{name}={value}", check=0)
    try:
        yield
    finally:
        run("sysctl", "-w", f"{name}={before}", check=0)


# ---- parents of the daemon ------------------------------------------------------------------------------------------

def test_root_after_a_login():
    with nothing_left():
        equal(run("systemd-run", "--quiet", "--scope", "--slice=user.slice", *CALL, check=0)[1], "42\n")
        equal(missing(run("systemd-run", "--quiet", "--scope", "--slice=user.slice", CLI, "selftest", "--json", check=0)[1]), set())


def test_the_host_is_described():
    rows = {row["name"]: row for row in json.loads(run(CLI, "selftest", "--json", check=0)[1])["host"]}
    assert rows["control-groups"]["present"] and rows["control-groups"]["detail"].startswith("version 2, in /sys/fs/cgroup/"), rows
    if os.uname().release.startswith("6.1."):  # Debian 12's
        equal({name for name, row in rows.items() if row["present"]}, {"control-groups", "landlock", "fuse", "sandbox-root"})


def test_root_in_a_service():
    with nothing_left():
        equal(service(*CALL, check=0)[1], "42\n")
        equal(missing(service(CLI, "selftest", "--json", check=0)[1]), set())


def test_root_in_a_delegated_service_uses_its_group():
    with nothing_left():
        code, said, _ = service("bash", "-c", f"{CLI} call python -c 'return 7' && cut -d: -f3 /proc/self/cgroup && {CLI} selftest --json", properties=["Delegate=yes"])
        equal(code, 0)
        lines = said.splitlines()
        equal(lines[0], "7")
        assert lines[1].endswith(".service/cloche-callers"), lines[1]
        equal(missing(lines[2]), set())


def test_a_half_delegated_service_names_what_is_missing():
    half = ["Delegate=pids memory", "Slice=half.slice"]  # where no neighbour has requested more
    with nothing_left(), contextlib.ExitStack() as stack:
        stack.callback(run, "systemctl", "stop", "half.slice")
        code, _, said = service(*CALL, properties=half)
        equal((code, len(said.strip().splitlines())), (1, 1))
        assert "guards missing: cpu" in said, said
        reason = next(row["reason"] for row in json.loads(service(CLI, "selftest", "--json", properties=half)[1])["guards"] if row["name"] == "cpu")
        assert "cpu controller is not delegated" in reason and "Delegate=" in reason, reason
        equal(service(*CALL, "--optional", "cpu", properties=half, check=0)[1], "42\n")


def test_root_from_cron():
    if not shutil.which("cron"):
        skip("cron is not installed")
    with open("/etc/cron.d/cloche-test", "w") as file:
        file.write(f"PATH=/usr/local/bin:/usr/bin:/bin\n* * * * * root {CLI} call python -c 'return 7' > /root/cron.out.part 2>&1; mv /root/cron.out.part /root/cron.out\n")
    try:
        wait_for(lambda: os.path.exists("/root/cron.out"), "the next minute", bound=130)
        with open("/root/cron.out") as file:
            equal(file.read(), "7\n")
    finally:
        os.unlink("/etc/cron.d/cloche-test")
        with contextlib.suppress(FileNotFoundError):
            os.unlink("/root/cron.out")


def test_a_user_after_a_login_has_groups():
    user = ordinary_user()
    with nothing_left():
        equal(missing(login(user, CLI, "selftest", "--json")[1]), {"private-uid"})
        equal(login(user, *CALL, "--optional", "private-uid", check=0)[1], "42\n")


def test_a_user_without_a_session_is_told_what_is_missing():
    user = ordinary_user()
    rows = {row["name"]: row["reason"] for row in json.loads(service(CLI, "selftest", "--json", user=user)[1])["guards"] if row["state"] not in ("enforced", "off")}
    equal(set(rows), {"private-uid"} | GROUPS)
    assert "Delegate=yes" in rows["memory"], rows
    equal(service(*CALL, "--optional", ",".join(sorted(rows)), user=user, check=0)[1], "42\n")


def test_a_user_in_a_delegated_service_has_groups():
    user = ordinary_user()
    with nothing_left():
        equal(missing(service(CLI, "selftest", "--json", properties=["Delegate=yes"], user=user)[1]), {"private-uid"})


# ---- the tests on it ---------------------------------------------------------------------------------------------

ADD = {
    "python": F_ADD,
    "javascript": "function add(a, b) { return a + b }",
    "typescript": "const add = (a: number, b: number): number => a + b",
    "ruby": "def add(a, b) = a + b",
    "php": "function add($a, $b) { return $a + $b; }",
    "bash": 'add() { printf %s $(($1 + $2)); }',
    "c": "int add(int a, int b) { return a + b; }",
    "cpp": "int add(int a, int b) { return a + b; }",
}
PATIENT = ["--timeout", "300", "--cpu-time", "300"]  # translators and compilers are slow under emulation


def test_every_language_answers_cold_and_warm():
    for language, code in ADD.items():
        equal(run(CLI, "call", language, "add", "-c", code, "--args", "[40, 2]", *PATIENT, bound=90, check=0)[1], "42\n", language)
    run(CLI, "prefix", "create", "kept", "python", "-c", "KEPT = 40", check=0)
    equal(run(CLI, "call", "python", "--prefix", "kept", "-c", "return KEPT + args[0]", "--args", "[2]", check=0)[1], "42\n")
    run(CLI, "prefix", "drop", "kept", check=0)


# ---- how it ends ------------------------------------------------------------------------------------------------

def start_looping():
    """A run that goes on, in a service. Returns once its box is there."""
    run("systemd-run", "--quiet", "--unit=cloche-test-loop", "--property=CollectMode=inactive-or-failed", CLI, "call", "python", "-c", "while True: pass", "--timeout", "600", check=0)
    wait_for(lambda: any(glob.glob(d + "/box*") for d in our_groups()), "a box")


def test_nothing_is_left_after_a_kill_of_the_command():
    with nothing_left():
        start_looping()
        run("systemctl", "kill", "--signal=KILL", "cloche-test-loop", check=0)


def test_nothing_is_left_after_a_kill_of_the_keeper():
    with nothing_left():
        start_looping()
        run("pkill", "-KILL", "-x", "cloche-keeper", check=0)
        wait_for(lambda: run("systemctl", "is-active", "cloche-test-loop")[1].strip() != "active", "the command to notice")


# ---- the units ---------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def units():
    run("systemctl", "enable", "--now", "cloched.socket", check=0)
    try:
        yield
    finally:
        run("systemctl", "disable", "--now", "cloched.socket", "cloched.service")
        run("systemctl", "reset-failed")


def main_pid():
    pid = run("systemctl", "show", "--property=MainPID", "--value", "cloched.service", check=0)[1].strip()
    assert int(pid) > 0, "the daemon does not run"
    return pid


def in_box(command, check=0):
    return run(CLI, "exec", "box", "--", command, check=check, env={**os.environ, "CLOCHE_SOCKET": SOCKET})[1]


def test_socket_activation_starts_the_daemon():
    with nothing_left(), units():
        assert run("systemctl", "is-active", "cloched.service")[1].strip() != "active"
        equal(in_box("echo hi; cat /proc/self/cgroup"), "hi\n0::/\n")
        equal(run("systemctl", "is-active", "cloched.service")[1].strip(), "active")


def test_files_of_a_sandbox_survive_restarts_of_the_daemon():
    with nothing_left(), units():
        in_box("echo kept > note")
        run("systemctl", "restart", "cloched.service", check=0)
        equal(in_box("cat note"), "kept\n")
        run("systemctl", "kill", "--signal=KILL", "cloched.service", check=0)  # all of it: daemon, keeper, boxes
        wait_for(lambda: run("systemctl", "is-active", "cloched.service")[1].strip() == "active", "systemd to start it again")
        equal(in_box("cat note"), "kept\n")
        run(CLI, "sandbox", "rm", "box", check=0, env={**os.environ, "CLOCHE_SOCKET": SOCKET})


def test_the_daemon_stays_when_a_box_is_out_of_memory():
    with nothing_left(), units():
        environment = {**os.environ, "CLOCHE_SOCKET": SOCKET}
        run(CLI, "sandbox", "create", "box", "--memory", "64", check=0, env=environment)
        before = main_pid()
        equal(run(CLI, "exec", "box", "--", "python3 -c 'x = bytearray(1 << 30)'; echo after", check=0, env=environment)[1], "after\n")
        run(CLI, "sandbox", "rm", "box", check=0, env=environment)
        equal(main_pid(), before)


@contextlib.contextmanager
def options_of_the_daemon(*options):
    directory = "/run/systemd/system/cloched.service.d"
    os.makedirs(directory)
    with open(f"{directory}/options.conf", "w") as file:
        file.write(f"[Service]\nExecStart=\nExecStart=/usr/local/sbin/cloched {' '.join(options)}\n")
    run("systemctl", "daemon-reload", check=0)
    try:
        yield
    finally:
        shutil.rmtree(directory)
        run("systemctl", "daemon-reload", check=0)


def connects(uid):
    code = "import socket; socket.socket(socket.AF_UNIX).connect(" + repr(SOCKET) + ")"
    return run("python3", "-c", code, user=uid, group=uid, extra_groups=[])[0] == 0


def test_only_users_whom_the_daemon_serves_connect():
    with nothing_left(), options_of_the_daemon("--allow-uid", "4242"), units():
        assert connects(4243)  # the daemon is started for anybody
        for step in ("start", "restart", "stop"):
            run("systemctl", step, "cloched.service", check=0)
            equal([connects(uid) for uid in (0, 4242, 4243)], [True, True, False])
    assert not os.path.exists(SOCKET)


# ---- hosts that refuse -------------------------------------------------------------------------------------------

def one_line(finished, *words):
    code, said, error = finished
    assert code == 1 and not said and len(error.strip().splitlines()) == 1, finished
    for word in words:
        assert word in error, f"{word} is not named: {error!r}"


def test_a_read_only_hierarchy_is_named():
    mounted_read_only = ["unshare", "--mount", "sh", "-c", 'mount -o remount,ro,bind /sys/fs/cgroup && exec "$@"', "sh"]
    reasons = {row["name"]: row["reason"] for row in json.loads(service(*mounted_read_only, CLI, "selftest", "--json", properties=["Delegate=yes"])[1])["guards"]}
    assert "Read-only file system" in reasons["memory"], reasons["memory"]
    one_line(service(*mounted_read_only, *CALL, properties=["Delegate=yes"]), "guards missing", "memory")


def test_no_user_namespaces_are_named():
    with kernel_setting("user.max_user_namespaces", 0):
        one_line(run(*CALL), "sysctl -w user.max_user_namespaces=")
    with kernel_setting("kernel.unprivileged_userns_clone", 0):
        one_line(run(*CALL), "sysctl -w kernel.unprivileged_userns_clone=1")
        one_line(login(ordinary_user(), *CALL, "--optional", "private-uid"), "sysctl -w kernel.unprivileged_userns_clone=1")
    equal(run(*CALL, check=0)[1], "42\n")


# ---- in containers ------------------------------------------------------------------------------------------------

def podman(*words):
    if not shutil.which("podman"):
        skip("podman is not installed")
    return run("podman", "run", "--rm", "--network=none", "--tmpfs=/tmp", *words, bound=120)


def test_in_a_podman_container():
    mounted = ["--rootfs", "/:O"]
    one_line(podman(*mounted, *CALL, "--optional", "memory,pids,cpu,freezer,private-uid"), "unmask=ALL")


def test_in_a_podman_container_with_rights():
    equal(podman("--privileged", "--cgroupns=private", "--rootfs", "/:O", *CALL)[:2], (0, "42\n"))
