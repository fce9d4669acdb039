"""Commands that need a daemon start one for their user if none is named and none answers; the next
command finds it, as do clients of the shared one, and it ends when unused."""
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from clocks import Clock
from cloche import BUILD, CLI, ORDINARY_USER, PATIENCE, SOURCE, Finished, cli, equal, need_ordinary_user, skip

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import Frames  # noqa: E402

UID = 12345
OTHER_USER = ["setpriv", "--reuid", "12399", "--regid", "12399", "--clear-groups"]
HANG = 30 * PATIENCE
os.environ.pop("CLOCHE_SOCKET", None)


class User:
    """The ordinary user, with directories of this test's own. The daemon that was started is ended at the end."""

    def __init__(self):
        need_ordinary_user()
        if os.path.exists("/run/cloche/socket"):
            skip("a system's daemon runs here")
        self.home, self.run = os.path.abspath("home"), os.path.abspath("run")
        for path in (self.home, self.run):
            os.mkdir(path, 0o700)
            os.chown(path, UID, UID)
        os.chmod(".", 0o755)
        self.env = {"HOME": self.home, "XDG_STATE_HOME": self.home + "/state", "XDG_RUNTIME_DIR": self.run}
        self.socket = self.run + "/cloche/socket"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.cli("daemon", "stop")

    def cli(self, *words, **env):
        return cli(*words, env={**self.env, **env}, under=ORDINARY_USER)

    def ok(self, *words):
        done = self.cli(*words)
        equal(done.code, 0, done)
        return done.stdout.decode()

    def cloched(self, *words, **env):
        done = subprocess.run([*ORDINARY_USER, CLI + "d", *words], env={**os.environ, **self.env, **env}, capture_output=True, timeout=HANG)
        return Finished(done.returncode, done.stdout, done.stderr)

    def daemons(self):
        """The process ids of daemons at this user's place."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                if open(f"/proc/{pid}/comm").read() == "cloched\n" and f"XDG_RUNTIME_DIR={self.run}\0" in open(f"/proc/{pid}/environ").read():
                    found.append(int(pid))
            except OSError:
                pass
        return found


def wait_until(condition, what):
    deadline = time.monotonic() + HANG
    while not condition():
        assert time.monotonic() < deadline, f"it did not come to this: {what}"
        time.sleep(0.02)


def test_the_first_command_starts_it_and_the_next_finds_it():
    with User() as user:
        equal(user.ok("exec", "box", "--", "cd /tmp && export WHO=Ada"), "")
        [daemon] = user.daemons()
        done = user.cli("exec", "box", "--", "echo $WHO in $PWD")
        equal([done.code, done.stdout, done.stderr], [0, b"Ada in /tmp\n", b""])
        equal(user.daemons(), [daemon])
        equal(user.ok("daemon", "start"), user.socket + "\n")


def test_options_of_a_daemon_that_runs_already():
    with User() as user:
        equal(user.cloched("--on-demand", "--profile", "user", "--host-port", "db=5432").stderr, b"")
        equal(user.ok("sandbox", "create", "box", "--allow", "host:db"), "box\n")
        equal(user.cloched("--on-demand", "--profile", "user").stderr, b"")
        done = user.cloched("--on-demand", "--host-port", "web=8080")
        equal([done.code, done.stdout.decode()], [0, user.socket + "\n"])
        assert b"a daemon runs already, and keeps its own options" in done.stderr, done


def test_missing_guards_are_told_of_once():
    with User() as user:
        first, second = user.cli("exec", "a", "--", "true"), user.cli("exec", "a", "--", "true")
        equal([len(first.stderr.splitlines()), second.stderr], [1, b""], first)
        assert b"private-uid" in first.stderr, first


def test_json_has_no_line():
    with User() as user:
        done = user.cli("exec", "a", "--json", "--", "true")
        equal([done.code, done.stderr], [0, b""], done)
        assert b"private-uid" in user.cli("exec", "a", "--", "true").stderr


def test_strict_refuses_a_daemon_that_lacks_guards():
    with User() as user:
        done = user.cli("exec", "a", "--strict", "--", "true")
        equal([done.code, done.stdout], [1, b""], done)
        assert b"private-uid" in done.stderr, done


def test_commands_at_once_end_up_with_one_daemon():
    with User() as user:
        env = {**os.environ, **user.env}
        running = [subprocess.Popen([*ORDINARY_USER, CLI, "exec", "box", "-s", f"s{n}", "--", f"echo {n}"], env=env, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE) for n in range(8)]
        said = [process.communicate(timeout=HANG) + (process.returncode,) for process in running]
        equal([(out, code) for out, _, code in said], [(b"%d\n" % n, 0) for n in range(8)], said)
        equal(len(user.daemons()), 1)
        equal(json.loads(user.ok("daemon", "status", "--json"))["stats"]["sandboxes"]["running"], 1)


IDLE_S = 60


def end_when_idle(user, clock):
    """The daemon looks once a second whether it is idle."""
    def has_ended():
        clock.passed_s += IDLE_S + 1
        clock.jump(0, monotonic=clock.passed_s)
        return not user.daemons()

    wait_until(has_ended, "the daemon ends")


def test_it_ends_when_idle_and_what_is_saved_stays_saved():
    with Clock() as clock, User() as user:
        done = user.cloched("--on-demand", "--profile", "user", "--exit-when-idle", str(IDLE_S), **clock.env)
        equal([done.code, done.stdout.decode()], [0, user.socket + "\n"], done)
        user.ok("exec", "box", "--", "echo kept > file")
        [daemon] = user.daemons()
        clock.jump(0, monotonic=IDLE_S + 1)
        time.sleep(2)  # two looks; but a sandbox runs
        clock.jump(0, monotonic=2 * (IDLE_S + 1))
        time.sleep(2)
        equal(user.daemons(), [daemon])
        clock.passed_s = 2 * (IDLE_S + 1)
        user.ok("sandbox", "stop", "box")
        end_when_idle(user, clock)
        wait_until(lambda: not os.path.exists(user.socket), "its socket goes")
        equal(user.ok("exec", "box", "--", "cat file"), "kept\n")
        assert user.daemons() != [daemon], daemon


def test_a_connection_keeps_it():
    with Clock() as clock, User() as user:
        user.cloched("--on-demand", "--profile", "user", "--exit-when-idle", str(IDLE_S), **clock.env)
        [daemon] = user.daemons()
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(user.socket)
            with Frames(connection) as frames:
                for _ in range(2):
                    clock.let_pass(IDLE_S, frames)
                equal(user.daemons(), [daemon])
        end_when_idle(user, clock)


def test_one_that_was_killed_is_replaced():
    with User() as user:
        user.ok("sandbox", "create", "a")
        [daemon] = user.daemons()
        os.kill(daemon, signal.SIGKILL)
        wait_until(lambda: not user.daemons(), "it is dead")
        equal(user.ok("exec", "a", "--", "echo 1"), "1\n")
        assert user.daemons() != [daemon], daemon
        with open(user.run + "/cloche/log") as log:
            equal(log.read().count('"event":"ready"'), 2, "the log of the first one is kept")


def test_stop_and_status():
    with User() as user:
        equal([user.cli("daemon", "status").code, user.cli("daemon", "stop").code], [1, 1])
        user.ok("exec", "a", "--", "echo 1 > file")
        said = user.ok("daemon", "status")
        assert user.socket in said and "private-uid" in said, said
        user.ok("daemon", "stop")
        equal(user.daemons(), [])
        equal(user.cli("daemon", "status").code, 1)
        equal(user.ok("exec", "a", "--", "cat file"), "1\n")


def test_a_named_socket_that_nobody_listens_at_is_no_daemon():
    with User() as user:
        for words in (["daemon", "status"], ["daemon", "start"]):
            done = user.cli(*words, CLOCHE_SOCKET=user.run + "/nowhere")
            equal([done.code, done.stdout], [1, b""], done)
            assert b"/nowhere" in done.stderr, done
        equal(user.cli("daemon", "status", "--socket", user.run + "/nowhere").code, 1)
        equal(user.daemons(), [])


def test_status_as_json_lists_the_missing_guards():
    with User() as user:
        user.ok("daemon", "start")
        missing = json.loads(user.ok("daemon", "status", "--json"))["missing"]
        assert isinstance(missing, list) and "private-uid" in missing, missing


def test_completion_starts_nothing():
    with User() as user:
        user.ok("__complete", "exec", "")
        equal(user.daemons(), [])


def test_a_daemon_that_cannot_start_says_why():
    with User() as user:
        done = user.cli("exec", "a", "--", "true", CLOCHE_LIBEXEC="/nowhere")
        assert done.code not in (0, 124, 143) and not done.stdout, done
        equal(len(done.stderr.splitlines()), 1, done)
        assert done.stderr.startswith(b"cloched: ") and b"/nowhere" in done.stderr, done
        wait_until(lambda: not user.daemons(), "the daemon is gone")
        user.ok("exec", "a", "--", "true")


def test_another_daemon_of_the_user_that_saves_sandboxes_is_named():
    with User() as user:
        log = open("log", "w")
        other = subprocess.Popen([*ORDINARY_USER, CLI + "d", "--socket", user.run + "/s", "--profile", "user"], env={**os.environ, **user.env}, stderr=log)
        try:
            wait_until(lambda: '"ready"' in open("log").read(), "it is ready")
            done = user.cli("exec", "a", "--", "true")
            assert done.code == 1 and user.home.encode() in done.stderr and b"--socket" in done.stderr, done
            equal(user.cli("exec", "a", "--socket", user.run + "/s", "--", "echo 1").stdout, b"1\n")
        finally:
            other.terminate()
            other.wait(HANG)


# ---- the directory ----

def refused_at(prepare):
    """The answers of two commands when the last place, /tmp/cloche-UID, is not safe. A user id of its own, as there is one such place."""
    need_ordinary_user()
    place = "/tmp/cloche-12399"
    if os.path.lexists(place) or os.path.exists("/run/cloche/socket") or os.path.exists("/run/user/12399"):
        skip("a place of the test is taken")
    env = {"HOME": os.path.abspath("nowhere"), "XDG_RUNTIME_DIR": os.path.abspath("nowhere")}
    try:
        prepare(place)
        return place, cli("exec", "a", "--", "true", env=env, under=OTHER_USER), cli("daemon", "start", env=env, under=OTHER_USER)
    finally:
        os.unlink(place) if os.path.islink(place) else shutil.rmtree(place)


def refuses(prepare):
    place, *both = refused_at(prepare)
    for done in both:
        assert done.code == 1 and not done.stdout and place.encode() in done.stderr, done


def test_a_directory_of_another_user_is_not_trusted():
    refuses(lambda place: os.mkdir(place, 0o777))


def test_a_directory_that_others_may_write_is_not_trusted():
    def prepare(place):
        os.mkdir(place)
        os.chown(place, 12399, 12399)
        os.chmod(place, 0o770)
    refuses(prepare)


def test_a_link_is_not_followed():
    def prepare(place):
        os.mkdir("mine", 0o700)
        os.chown("mine", 12399, 12399)
        os.symlink(os.path.abspath("mine"), place)
    refuses(prepare)


def test_a_directory_of_another_user_at_the_last_place_stops_nobody_with_a_better_one():
    with User() as user:
        place = f"/tmp/cloche-{UID}"
        if os.path.lexists(place):
            skip(place + " is taken")
        os.mkdir(place, 0o777)
        try:
            equal(user.cli("daemon", "status").code, 1)
            equal(user.ok("exec", "box", "--", "echo in it"), "in it\n")
            equal(user.ok("daemon", "start"), user.socket + "\n")
            user.ok("daemon", "stop")
        finally:
            os.rmdir(place)


def test_a_runtime_directory_of_another_user_is_passed_over():
    with User() as user:
        os.chown(user.run, 0, 0)
        os.chmod(user.run, 0o777)
        try:
            said = user.ok("daemon", "start").strip()
            assert not said.startswith(user.run), said
        finally:
            user.cli("daemon", "stop")
            shutil.rmtree("/tmp/cloche-12345", ignore_errors=True)


# ---- the system's, and root's ----

def in_namespace(script):
    """A script of the shell with an empty /run and /var/lib, as root; $cloche, $cloched; $user becomes the ordinary user."""
    need_ordinary_user()
    for path in ("home", "run"):
        os.mkdir(path, 0o700)
        os.chown(path, UID, UID)
    os.chmod(".", 0o755)
    head = f"""
        mount -t tmpfs tmpfs /run; mount -t tmpfs tmpfs /var/lib; mkdir -m 755 /run/cloche
        cloche={CLI} cloched={CLI}d user="{' '.join(ORDINARY_USER)} env HOME={os.path.abspath('home')} XDG_STATE_HOME={os.path.abspath('home/state')} XDG_RUNTIME_DIR={os.path.abspath('run')}"
        serve() {{ $cloched --socket /run/cloche/socket --state-dir '' "$@" 2>log & until grep -q '"ready"' log; do sleep 0.05; done; }}
    """
    done = subprocess.run(["unshare", "-m", "bash", "-c", head + script], capture_output=True, text=True, timeout=HANG + 20)
    print(done.stderr)
    return done.stdout.splitlines()


def test_the_systems_daemon_is_used_by_whom_it_lets_in():
    said = in_namespace(f"""
        serve --allow-uid {UID}
        $user $cloche exec box -- 'echo in it'
        $cloche sandbox ls --json | grep -c '"box"'
        $user $cloche daemon status | sed -n 's/^socket *//p'
        ls run
        $user $cloche daemon stop || echo not stopped
        kill %1; wait
    """)
    equal(said, ["in it", "0", "/run/cloche/socket", "not stopped"])


def test_whom_the_systems_daemon_refuses_gets_one_of_his_own():
    said = in_namespace(f"""
        serve --allow-uid 54321
        $user $cloche exec box -- 'echo in it'
        $user $cloche daemon status | sed -n 's/^socket *//p'
        $user $cloche ps box --socket /run/cloche/socket 2>&1
        $user $cloche daemon stop; kill %1; wait
    """)
    equal(said, ["in it", os.path.abspath("run/cloche/socket"), "cloche: this user may not connect to the daemon at '/run/cloche/socket': Permission denied "
                 "(cloched --allow-uid permits it)"])


def test_whom_the_systems_daemon_refuses_waits_for_no_hung_one():
    """The processes of the system's daemon are stopped. A user who may use it would wait for it: his command has no end by itself."""
    said = in_namespace(f"""
        serve --allow-uid 54321
        kill -STOP %1 $(pgrep -P $(jobs -p %1))
        $user timeout 60 $cloche daemon start
        timeout 0.5 {' '.join(ORDINARY_USER).replace('12345', '54321')} $cloche daemon status; echo $?
        $user $cloche daemon stop; kill -CONT %1 $(pgrep -P $(jobs -p %1)); kill %1; wait
    """)
    equal(said, [os.path.abspath("run/cloche/socket"), "124"])


def test_a_socket_that_nobody_listens_at_is_no_daemon():
    said = in_namespace("""
        python3 -c "import socket; socket.socket(socket.AF_UNIX).bind('/run/cloche/socket')"
        chmod 666 /run/cloche/socket
        $user $cloche daemon stop 2>&1
        $user $cloche exec box -- 'echo in it'
        $user $cloche daemon stop
    """)
    equal(said, ["cloche: no daemon runs for this user (commands that need one start it; so does cloche daemon start)", "in it"])


def test_root_has_one_of_its_own_with_all_guards():
    said = in_namespace("""
        $cloche exec box --strict -- 'echo in it'
        $cloche daemon status | sed -n 's/^socket *//p; s/^missing guards *//p'
        ls /var/lib; stat -c '%a %u' /run/cloche-root
        $user $cloche daemon status 2>/dev/null || echo not the user\\'s
        $cloche daemon stop; ls /run/cloche-root
        $cloche exec box -- 'echo again'; $cloche daemon stop
    """)
    equal(said, ["in it", "/run/cloche-root/socket", "none", "cloche-root", "700 0", "not the user's", "lock", "log", "again"])


def test_roots_daemon_runs_from_a_tree_that_its_user_cannot_reach():
    said = in_namespace(f"""
        mkdir -m 700 closed; mkdir closed/build; mount --bind {BUILD} closed/build
        closed/build/cloche exec box -- 'echo in it'
        closed/build/cloche context run box -c '6 * 7'
        closed/build/cloche daemon stop
    """)
    equal(said, ["in it", "42"])


# ---- finding the program ----

def test_the_program_is_found_where_it_is_installed():
    with User() as user:
        for below in ("sbin", "libexec/cloche"):
            tree = os.path.abspath(below.partition("/")[0] + "-tree")
            os.makedirs(f"{tree}/{below}")
            os.mkdir(f"{tree}/bin")
            shutil.copy(CLI, tree + "/bin/cloche")
            os.symlink(CLI + "d", f"{tree}/{below}/cloched")
            done = subprocess.run([*ORDINARY_USER, "env", "PATH=/bin", tree + "/bin/cloche", "daemon", "start"], env={**os.environ, **user.env}, capture_output=True)
            equal([done.returncode, done.stdout.decode()], [0, user.socket + "\n"], done)
            user.ok("daemon", "stop")


def test_a_program_that_is_nowhere_is_one_clear_error():
    with User() as user:
        if any(os.path.exists(place + "/cloched") for place in ("/usr/local/sbin", "/usr/sbin", "/usr/local/libexec/cloche", "/usr/libexec/cloche")):
            skip("cloched is installed here")
        shutil.copy(CLI, "alone")
        done = subprocess.run([*ORDINARY_USER, "env", "PATH=/bin", os.path.abspath("alone"), "daemon", "start"], env={**os.environ, **user.env}, capture_output=True)
        equal([done.returncode, done.stdout, len(done.stderr.splitlines())], [1, b"", 1], done)
        for place in (b"$PATH", b"sbin beside it", b"/usr/local/sbin", b"/usr/sbin", b"libexec", b"$CLOCHE_DAEMON"):
            assert place in done.stderr, done
        equal(user.cli("daemon", "start", CLOCHE_DAEMON="/nowhere").code, 2)


# ---- clients ----

def test_a_shared_client_of_python_sees_the_sandboxes_of_the_command_line():
    with User() as user:
        if subprocess.run([*ORDINARY_USER, "test", "-r", SOURCE + "/clients/python/cloche/__init__.py"]).returncode:
            skip("the source is closed to other users")
        user.ok("exec", "box", "--", "echo hallo > file")
        code = "import cloche\nwith cloche.Cloche(shared=True) as c: print(c.sandbox('box').read_file('file').data, c.server['missing'], c.daemon_pid)"
        env = {**os.environ, **user.env, "PYTHONPATH": SOURCE + "/clients/python", "CLOCHE_DAEMON": CLI + "d", "PYTHONDONTWRITEBYTECODE": "1"}
        done = subprocess.run([*ORDINARY_USER, sys.executable, "-W", "error", "-c", code], env=env, capture_output=True, text=True, cwd="/")
        assert done.returncode == 0 and "hallo" in done.stdout and "private-uid" in done.stdout and done.stdout.endswith("None\n"), done
        equal(len(user.daemons()), 1)
        user.ok("daemon", "stop")
        done = subprocess.run([*ORDINARY_USER, sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd="/")
        assert "hallo" in done.stdout, done
        equal(user.ok("exec", "box", "--", "cat file"), "hallo\n")


def test_a_client_of_a_daemon_that_refuses_it_says_why():
    said = in_namespace(f"""
        serve --allow-uid 54321
        chmod 666 /run/cloche/socket
        export PYTHONPATH={SOURCE}/clients/python PYTHONDONTWRITEBYTECODE=1
        for n in 1 2 3 4 5 6 7 8; do $user {sys.executable} -c 'import cloche; cloche.Cloche("/run/cloche/socket")' 2>&1 | tail -1; done | sort | uniq -c
        chmod 660 /run/cloche/socket; $user {sys.executable} -c 'import cloche; cloche.Cloche("/run/cloche/socket")' 2>&1 | tail -1 | uniq -c
        kill %1; wait
    """)
    equal([line.split(None, 1) for line in said],
          [["8", f"cloche.errors.ForbiddenError: user {UID} may not use this daemon (cloched --allow-uid permits it)"],
           ["1", "cloche.errors.ForbiddenError: this user may not connect to the daemon at '/run/cloche/socket': Permission denied (cloched --allow-uid permits it)"]])


def test_a_user_mounts_a_directory_of_their_own_in_a_sandbox():
    """Their keeper makes the mount in the sandbox's own namespace, so it is not there for interpreters forked from templates."""
    with User() as user:
        for name in ("mine", "mine/below"):
            os.mkdir(f"home/{name}")
            os.chown(f"home/{name}", UID, UID)
        with open("home/mine/f", "w") as file:
            file.write("f")
        os.chown("home/mine/f", UID, UID)
        os.mknod("fuse", 0o666 | stat.S_IFCHR, os.makedev(10, 229))
        os.chmod("fuse", 0o666)
        subprocess.run(["mount", "--bind", os.path.abspath("fuse"), "/dev/fuse"], check=True)
        try:
            user.ok("sandbox", "create", "box", "--mount", f"/mnt/m={user.home}/mine", "--rule", "**=create")
            equal(user.ok("exec", "box", "--", "cat /mnt/m/f; echo new > /mnt/m/below/new; cat /mnt/m/below/new; id -un; stat -c %U /mnt/m/f; echo 2>/dev/null > /mnt/m/f || echo denied"),
                  "fnew\ncloche\ncloche\ndenied\n")
            done = user.cli("context", "run", "box", "-c", "1")
            assert done.code and b"root's daemon" in done.stderr, done
            user.ok("sandbox", "stop", "box", "--sync")
            equal((open("home/mine/below/new").read(), os.stat("home/mine/below/new").st_uid), ("new\n", UID))
            equal(user.ok("exec", "box", "--", "cat /mnt/m/f /mnt/m/below/new"), "fnew\n")
            user.ok("sandbox", "create", "plain")
            equal(user.ok("context", "run", "plain", "-c", "print(1)"), "1\n")  # the twin
            user.ok("daemon", "stop")
        finally:
            subprocess.run(["umount", "/dev/fuse"], check=True)
