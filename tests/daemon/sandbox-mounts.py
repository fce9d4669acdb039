"""Directories and files of the host in sandboxes, under the rules of runs."""
import io
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import cli, equal, need_root
from http_client import Http
from life import below
from rpc import Daemon, Failed
from sandbox_client import read_raw, wait_for

WRITES = {"default": {"create": True, "modify": True, "delete": True}}


class Host:
    """A directory of the host that may be mounted, and a daemon that may mount it."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="cloched-mounts-")
        os.chmod(self.path, 0o755)
        for name in ("a", "b", "a/below"):
            os.mkdir(self.at(name))
        for name in ("a/f", "a/below/g", "b/f", "a/key.pem"):
            self.write(name, name)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def at(self, name=""):
        return os.path.join(self.path, name)

    def write(self, name, text):
        with open(self.at(name), "w") as file:
            file.write(text)

    def read(self, name):
        with open(self.at(name)) as file:
            return file.read()

    def daemon(self, *options, **more):
        return Daemon("--mount-root", self.path, *options, **more)


def shell(frames, command, sandbox="s", **more):
    answer = frames.call("exec", sandbox=sandbox, command=command, **more)
    return answer["stdout"] + answer["stderr"]


def states(frames, sandbox="s"):
    return {mount["path"]: mount["state"] for mount in frames.call("sandbox.get", sandbox=sandbox).get("mounts", [])}


def test_shells_processes_and_git_see_the_hosts_directory():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        rules = {"rules": [{"pattern": "**/*.pem", "deny": ["*"]}]}
        made = frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a"), "/workspace/b": host.at("b"), "/in.txt": {"path": host.at("a/f"), "kind": "file"}},
                                                                 "permissions": rules})
        equal(made["mounts"], [{"path": "/mnt/a", "source": host.at("a"), "state": "mounted"}, {"path": "/workspace/b", "source": host.at("b"), "state": "mounted"},
                               {"path": "/in.txt", "source": host.at("a/f"), "state": "mounted"}])
        equal(shell(frames, "cat /mnt/a/f /mnt/a/below/g b/f /in.txt"), "a/fa/below/gb/fa/f")
        assert "Permission denied" in shell(frames, "cat /mnt/a/key.pem")
        assert "Permission denied" in shell(frames, "echo x > /mnt/a/new")
        host.write("a/later", "later")
        host.write("a/f", "changed")
        equal(shell(frames, "cat /mnt/a/later /mnt/a/f"), "laterchanged")
        process = frames.call("process.start", sandbox="s", command="cat /mnt/a/f; exit 7")["process"]
        equal(frames.call("process.wait", sandbox="s", process=process)["process"]["exitCode"], 7)
        frames.call("session.create", sandbox="s", session="apart", isolation=True)
        equal(shell(frames, "cat /mnt/a/below/g", session="apart"), "a/below/g")
        equal(shell(frames, "stat -c %U:%G /mnt/a /mnt/a/f /in.txt b | sort -u"), shell(frames, "stat -c %U:%G /workspace"))
        os.system(f"git init -q {host.at('b')} && git -C {host.at('b')} -c user.name=x -c user.email=x add f && git -C {host.at('b')} -c user.name=x -c user.email=x@x commit -qm one")
        assert "one" in shell(frames, "git -C b log --oneline") and shell(frames, "git -C b status --short") == ""


def test_writes_stay_in_the_sandbox_until_it_stops():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/data/a": {"path": host.at("a"), "permissions": WRITES}, "/data/b": host.at("b")}})
        equal(shell(frames, "echo mine > /data/a/f; echo new > /data/a/new; rm /data/a/key.pem; cat /data/a/f; ls /data/a; touch kept"), "mine\nbelow\nf\nnew\n")
        assert "Permission denied" in shell(frames, "echo x > /data/b/f")
        equal((host.read("a/f"), sorted(os.listdir(host.at("a"))), host.read("b/f")), ("a/f", ["below", "f", "key.pem"], "b/f"))
        frames.call("sandbox.save", sandbox="s")
        equal(shell(frames, "cat /data/a/f"), "mine\n")
        equal({mount["state"] for mount in frames.call("sandbox.stop", sandbox="s")["mounts"]}, {"stopped"})
        equal(shell(frames, "cat /data/a/f; ls; ls /data/a"), "a/fkept\nbelow\nf\nkey.pem\n")
        equal(states(frames), {"/data/a": "mounted", "/data/b": "mounted"})


def test_mounts_in_mounts_and_a_place_at_the_top():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/place": host.at("a"), "/place/inner": host.at("b"), "/workspace": host.at("b"), "/tmp/t/deep": host.at("a")}})
        equal(shell(frames, "cat /place/f /place/inner/f f /tmp/t/deep/f"), "a/fb/fb/fa/f")
        assert "busy" in shell(frames, "rmdir /place/inner; mv /place/inner /place/other; rmdir /tmp/t/deep; mv /place /other").lower()
        frames.call("sandbox.stop", sandbox="s")
        equal(shell(frames, "cat /place/f /place/inner/f f /tmp/t/deep/f"), "a/fb/fb/fa/f")


def test_contexts_see_the_same():
    need_root()  # of an ordinary user's daemon: the test below
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}, "/workspace/b": host.at("b"), "/mnt/a/inner": host.at("b"), "/place": host.at("b")}})
        frames.call("context.create", sandbox="s", context="c", language="python")
        run = lambda code: frames.call("context.run", sandbox="s", context="c", code=code)["stdout"]
        equal(run("for p in ('/mnt/a/f', '/workspace/b/f', '/mnt/a/inner/f', '/place/f'): print(open(p).read())"), "a/f\nb/f\nb/f\nb/f\n")
        equal(run("open('/mnt/a/of-the-context', 'w').write('x')\ntry: open('/workspace/b/f', 'w')\nexcept OSError as e: print(type(e).__name__)"), "PermissionError\n")
        equal(shell(frames, "ls /mnt/a; stat -c %U /mnt/a/of-the-context"), "below\nf\ninner\nkey.pem\nof-the-context\n" + shell(frames, "stat -c %U /workspace"))


def test_a_context_whose_mount_was_moved_away_is_refused():
    need_root()
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/deep/a": host.at("a")}})
        for there in ("true", "mkdir -p deep/a", "mkdir deep; ln -s /mnt/moved/a deep/a"):
            shell(frames, f"cd /mnt; mv deep moved; {there}")
            refused = frames.refused("context.create", sandbox="s", context="c", language="python")
            assert "/mnt/deep/a" in refused.message and "renamed a directory above it" in refused.message, refused
            shell(frames, "cd /mnt; rm -rf deep; mv moved deep")
        frames.call("context.create", sandbox="s", context="c", language="python")  # the twin
        equal(frames.call("context.run", sandbox="s", context="c", code="print(open('/mnt/deep/a/f').read())")["stdout"], "a/f\n")


def test_an_archive_has_mounted_files_and_a_save_has_not():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/workspace/d/m": host.at("b")}})
        shell(frames, "echo own > /workspace/d/own")
        equal(http.begin("GET", "/v1/sandboxes/s/tree?path=/workspace/d&format=tar"), 200)
        names = tarfile.open(fileobj=io.BytesIO(read_raw(http))).getnames()
        assert any(name.endswith("m/f") for name in names) and any(name.endswith("own") for name in names), names
        frames.call("sandbox.stop", sandbox="s")
        host.write("b/f", "as it is at the start")
        equal(shell(frames, "cat /workspace/d/own /workspace/d/m/f"), "own\nas it is at the start")


def test_forks_of_a_context_have_a_copy_of_the_workspace_and_no_mounts():
    need_root()
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a"), "/workspace/b": {"path": host.at("b"), "permissions": WRITES}}})
        frames.call("context.create", sandbox="s", context="c", language="python", forkable=True)
        frames.call("context.run", sandbox="s", context="c", code="open('/workspace/own', 'w').write('own'); open('/workspace/b/of-c', 'w').write('x'); kept = 1")
        fork, = frames.call("context.fork", sandbox="s", context="c")["contexts"]
        name = fork["context"]
        equal([(row["context"] == name, row["mounts"]) for row in frames.call("context.list", sandbox="s")["contexts"]], [(False, True), (True, False)])
        equal(cli("context", "fork", "s", "c", "--socket", daemon.path).stderr.decode(), "cloche: a fork has a copy of /workspace, and none of the mounts of its sandbox\n")
        frames.call("sandbox.create", sandbox="plain")
        assert "mounts" not in frames.call("context.create", sandbox="plain", context="c", language="python")
        code = "import os\nprint(kept, open('/workspace/own').read(), os.path.exists('/mnt/a/f'), os.path.exists('/workspace/b/f'))"
        equal(frames.call("context.run", sandbox="s", context=name, code=code)["stdout"], "1 own False False\n")
        equal(frames.call("context.run", sandbox="s", context="c", code=code)["stdout"], "1 own True True\n")


def test_a_stop_that_syncs_writes_to_the_host():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        dirs = {"/data/a": {"path": host.at("a"), "permissions": WRITES}, "/data/b": host.at("b"), "/f": {"path": host.at("b/f"), "kind": "file", "permissions": WRITES}}
        frames.call("sandbox.create", sandbox="s", mount={"dirs": dirs})
        shell(frames, "cd /data/a; echo mine > f; mkdir d; echo new > d/new; rm key.pem; echo one > /f; ln -s /etc/passwd link; touch kept $(printf 'odd\\377'); touch /workspace/kept")
        frames.call("process.start", sandbox="s", command="while :; do echo x >> /data/a/busy; done")
        shell(frames, "until [ -s /data/a/busy ]; do sleep 0.01; done")
        stopped = frames.call("sandbox.stop", sandbox="s", sync={})
        equal((stopped["state"], stopped["sync"]["failed"]), ("stopped", []))
        assert {"/data/a/f", "/data/a/d/new", "/data/a/key.pem", "/f", "/data/a/busy", "(a name that is no text)"} <= set(stopped["sync"]["synced"]), stopped["sync"]
        equal((host.read("a/f"), host.read("a/d/new"), host.read("b/f"), os.path.exists(host.at("a/key.pem"))), ("mine\n", "new\n", "one\n", False))
        equal(os.readlink(host.at("a/link")), "/etc/passwd")
        assert set(host.read("a/busy")) == {"x", "\n"} and host.read("a/busy").endswith("x\n"), "its writer had ended"
        equal(shell(frames, "ls /workspace; cat /data/a/f"), "kept\nmine\n")
        frames.call("sandbox.stop", sandbox="s")
        refused = frames.refused("sandbox.stop", sandbox="s", sync={})
        assert refused.name == "invalid_state" and "does not run" in refused.message, refused
        frames.call("sandbox.create", sandbox="plain")
        assert "no mounts" in frames.refused("sandbox.stop", sandbox="plain", sync={}).message


def test_a_stop_whose_sync_fails_keeps_the_sandbox():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/a": {"path": host.at("a"), "permissions": WRITES}}})
        shell(frames, "echo mine > /a/f; echo new > /a/new")
        for sync, says in (({"conflict": "perhaps"}, "sync.conflict"), ({"mode": "batch"}, "mode"), ({"onError": 1}, "sync.onError")):
            refused = frames.refused("sandbox.stop", sandbox="s", sync=sync)
            assert refused.name == "invalid_argument" and says in refused.message, refused
        host.write("a/f", "of the host, meanwhile")
        refused = frames.refused("sandbox.stop", sandbox="s", sync={})
        assert refused.name == "invalid_state" and "goes on running" in refused.message and "/a/f" in refused.message, refused
        # A pause that this stop overtakes has its outcome.
        pause, stop = frames.ask("sandbox.pause", sandbox="s"), frames.ask("sandbox.stop", sandbox="s", sync={})
        for number in (stop, pause):
            try:
                raise AssertionError(frames.wait(number))
            except Failed as error:
                assert "goes on running" in error.message, error.message
        equal((host.read("a/f"), os.path.exists(host.at("a/new"))), ("of the host, meanwhile", False))
        equal(shell(frames, "cat /a/f /a/new"), "mine\nnew\n", "nothing is lost")
        equal(frames.call("sandbox.stop", sandbox="s", sync={"conflict": "overwrite"})["sync"]["failed"], [])
        equal((host.read("a/f"), host.read("a/new")), ("mine\n", "new\n"))


def resident(pid):
    with open(f"/proc/{pid}/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_syncs_that_fail_again_and_again_cost_no_memory():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/a": {"path": host.at("a"), "permissions": WRITES}}})
        shell(frames, "echo mine > /a/f; cd /a/below; python3 -c 'for i in range(5000): open(f\"{i:0200}\", \"x\")'")
        host.write("a/f", "of the host, meanwhile")
        sizes = []
        for _ in range(8):
            assert "/a/f" in frames.refused("sandbox.stop", sandbox="s", sync={}).message
            sizes.append(resident(daemon.engine_pid()))
        assert sizes[-1] < sizes[3] + (16 << 20), [size >> 20 for size in sizes]
        equal(len(frames.call("sandbox.stop", sandbox="s", sync={"conflict": "overwrite"})["sync"]["synced"]), 5001)


def test_denials_are_events():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames, daemon.frames() as follower:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a")}, "permissions": {"rules": [{"pattern": "**/*.pem", "deny": ["*"]}]}})
        number = follower.ask("sandbox.events", sandbox="s")
        assert not follower.is_answered(number)
        shell(frames, "cat /mnt/a/key.pem; echo > /mnt/a/f; cat /mnt/a/f")
        seen = []
        while len(seen) < 2:
            message, _ = follower.receive()
            if message.get("method") == "event" and message["params"]["event"] == "fileDenied":
                seen.append({name: message["params"]["about"].get(name) for name in ("path", "operation", "rule")})
        equal(seen, [{"path": "/mnt/a/key.pem", "operation": "read", "rule": "**/*.pem"}, {"path": "/mnt/a/f", "operation": "modify", "rule": None}])


# -- what is refused ------------------------------------------------------------------------------------------------

def test_mounts_that_are_refused():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        for mount, says in (({"dirs": {"/m": "/etc"}}, "--mount-root"), ({"dirs": {"/m": host.at("../etc")}}, "cross-device"), ({"dirs": {"m": host.at("a")}}, "absolute"),
                            ({"dirs": {"/m": host.at("a")}, "sync": {"mode": "batch"}}, "mount.sync"), ({"dirs": {"/m": host.at("a")}, "sync": {"mode": "manual"}}, "mount.sync"),
                            ({"dirs": {"/m": host.at("a")}, "events": []}, "events"), ({}, "mount.dirs"), ({"dirs": {"/m": {"path": host.at("a"), "permissions": {"x": 1}}}}, "x"),
                            ({"dirs": {"/m": host.at("missing")}}, "No such file"), ({"dirs": {"/m": host.at("a/f")}}, "kind"), ({"dirs": {"/usr/m": host.at("a")}}, "/usr"),
                            ({"dirs": {"/bin": host.at("a")}}, "/bin"), ({"dirs": {f"/m{i}": host.at("a") for i in range(9)}}, "8")):
            refused = frames.refused("sandbox.create", sandbox="s", mount=mount)
            assert says in refused.message, (mount, refused)
            equal(frames.call("sandbox.list")["sandboxes"], [], "the refused one is not there")
        equal(frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/m": host.at("a")}})["created"], True)  # the twin
    with Host() as host, Daemon() as daemon, daemon.frames() as frames:
        refused = frames.refused("sandbox.create", sandbox="s", mount={"dirs": {"/m": host.at("a")}})
        assert refused.name == "forbidden" and "--mount-root" in refused.message, refused


# -- links and races ------------------------------------------------------------------------------------------------

def test_links_lead_nowhere_out_of_the_box():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        host.write("secret", "secret")
        os.symlink("../secret", host.at("a/relative"))
        os.symlink(host.at("secret"), host.at("a/absolute"))
        os.symlink("f", host.at("a/inside"))
        os.symlink("/etc/shadow", host.at("a/shadow"))
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}}})
        for name in ("relative", "absolute", "shadow"):
            equal(frames.call("exec", sandbox="s", command=f"cat /mnt/a/{name}")["stdout"], "")
        equal(shell(frames, "cat /mnt/a/inside"), "a/f")  # the twin
        shell(frames, f"ln -s {host.at('secret')} /mnt/a/mine; ln -s / /mnt/a/top; echo changed > /mnt/a/mine")
        equal(host.read("secret"), "secret")
        assert "No such file" in shell(frames, f"ls /mnt/a/top{host.path}"), "it is the guest's own root"


EXCHANGE = """
import ctypes, os
libc = ctypes.CDLL(None)
os.write(1, b'!')
while True: libc.renameat2(-100, b'%s', -100, b'%s', 2)
"""


def test_a_directory_of_the_host_that_is_exchanged_for_a_link():
    """Beneath the mount, all the time: nothing of the other place is ever read, and the directory is."""
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        os.mkdir(host.at("outside"))
        host.write("outside/g", "outside")
        os.symlink("../outside", host.at("a/other"))
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a")}})
        racer = subprocess.Popen([sys.executable, "-c", EXCHANGE % (host.at("a/other"), host.at("a/below"))], stdout=subprocess.PIPE)
        try:
            equal(racer.stdout.read(1), b"!")
            said = shell(frames, "for ((i = 0; i < 300 || ! found; i++)); do said=$(cat /mnt/a/below/g /mnt/a/other/g); echo $said; [[ $said == *a/below/g* ]] && found=1; done 2>/dev/null")
        finally:
            racer.kill()
            racer.wait()
            racer.stdout.close()
        assert "outside" not in said and "a/below/g" in said, said[:300]


# -- ends ---------------------------------------------------------------------------------------------------------

def servers(daemon):
    """The pids of cloche-fs beneath this daemon's keeper."""
    return [pid for pid in below(daemon.process.pid) if name_of(pid) == "cloche-fs"]


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except (FileNotFoundError, ProcessLookupError):
        return None


def test_files_in_the_place_of_a_mount_do_not_keep_the_others_from_coming_back():
    """A program may rename the directories above a mount; its files in their place are saved."""
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        for number, there in enumerate(("ln -s /tmp /workspace/m", "echo x > /workspace/m; ln /workspace/m kept/link", "mkdir /workspace/m; echo x > /workspace/m/a; ln /workspace/m/a kept/link", "mkdir /workspace/m; ln -s / /workspace/m/a", "mkdir -p /workspace/m/a/new/deep; echo x > /workspace/m/a/new/deep/x; ln /workspace/m/a/new/deep/x kept/link",
                                        "mkdir -p /workspace/m/a; echo x > /workspace/m/a/f; chmod 700 /workspace/m/a", "mkdir -p /workspace/m/one; echo x > /workspace/m/one/x", "mkdir /workspace/m; echo x > /workspace/m/one; ln /workspace/m/one kept/link; echo x > /workspace/m/other", "mkfifo /workspace/m", "true")):
            name = f"s{number}"
            frames.call("sandbox.create", sandbox=name, mount={"dirs": {"/workspace/m/a": host.at("a"), "/workspace/m/one": {"path": host.at("b/f"), "kind": "file"}}})
            equal(shell(frames, "mkdir kept; mv /workspace/m /workspace/moved; " + there, sandbox=name), "")
            frames.call("sandbox.stop", sandbox=name)
            equal((there, shell(frames, "echo mine > kept/mine; cat kept/mine /workspace/m/one /workspace/m/a/f; ls /workspace/m/a /workspace/moved", sandbox=name)), (there, "mine\nb/fa/f/workspace/m/a:\nbelow\nf\nkey.pem\n\n/workspace/moved:\n"))
            frames.call("sandbox.delete", sandbox=name)
        equal((sorted(os.listdir(host.at("a"))), host.read("a/f"), host.read("b/f")), (["below", "f", "key.pem"], "a/f", "b/f"))


def test_a_killed_server_is_an_error_and_the_next_start_mounts_anew():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}, "/mnt/b": host.at("b")}})
        process = frames.call("process.start", sandbox="s", command="exec 3< /mnt/a/f; until ! ls /mnt/a > /dev/null; do sleep 0.05; done; cat <&3; echo ended")["process"]
        shell(frames, "touch kept")
        first, second = servers(daemon)
        os.kill(first, signal.SIGKILL)
        wait_for(lambda: "lost" in states(frames).values())
        lost = next(path for path, state in states(frames).items() if state == "lost")
        other = next(path for path, state in states(frames).items() if state == "mounted")
        assert "not connected" in shell(frames, f"ls {lost} 2>&1; cat {lost}/f 2>&1")
        if os.geteuid() == 0:
            frames.call("context.create", sandbox="s", context="c", language="python")
            code = f"print(open('{other}/f').read())\ntry: open('{lost}/f')\nexcept OSError as e: print(e.strerror)"
            equal(frames.call("context.run", sandbox="s", context="c", code=code)["stdout"], f"{other[-1]}/f\nTransport endpoint is not connected\n")
        equal(shell(frames, f"cat {other}/f"), other[-1] + "/f")
        if lost == "/mnt/a":
            frames.call("process.wait", sandbox="s", process=process)
        else:
            frames.call("process.kill", sandbox="s", process=process)
        frames.call("sandbox.save", sandbox="s")
        frames.call("sandbox.stop", sandbox="s")
        equal(shell(frames, "ls; cat /mnt/a/f /mnt/b/f"), "kept\na/fb/f")


def test_a_stop_with_a_lost_mount_syncs_the_others():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        dirs = {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}, "/mnt/b": {"path": host.at("b"), "permissions": WRITES}}
        places = {"/mnt/a": "a", "/mnt/b": "b"}
        for kill in (1, 2):
            frames.call("sandbox.create", sandbox="s", mount={"dirs": dirs})
            shell(frames, f"echo {kill} > /mnt/a/new{kill}; echo {kill} > /mnt/b/new{kill}")
            for pid in servers(daemon)[:kill]:
                os.kill(pid, signal.SIGKILL)
            wait_for(lambda: list(states(frames).values()).count("lost") == kill)
            lost = sorted(path for path, state in states(frames).items() if state == "lost")
            sync = frames.call("sandbox.stop", sandbox="s", sync={})["sync"]
            equal((sync["lost"], sync["failed"], sync["synced"]), (lost, [], [f"{path}/new{kill}" for path in dirs if path not in lost]))
            equal([os.path.exists(host.at(f"{places[path]}/new{kill}")) for path in dirs], [path not in lost for path in dirs])
        frames.call("exec", sandbox="s", command="echo 3 > /mnt/a/new3")
        sync = frames.call("sandbox.stop", sandbox="s", sync={})["sync"]  # the twin: all are there again
        equal((sync["synced"], "lost" in sync), (["/mnt/a/new3"], False))
        frames.call("exec", sandbox="s", command="echo 4 > /mnt/a/new4")
        os.kill(servers(daemon)[0], signal.SIGKILL)
        wait_for(lambda: "lost" in states(frames).values())
        lost, = (path for path, state in states(frames).items() if state == "lost")
        told = cli("sandbox", "stop", "s", "--sync", "--socket", daemon.path)
        equal((told.code, told.stderr.decode()), (0, f"cloche: the server of the mount {lost} had ended: what was written there is lost\n"))


def test_a_sync_after_a_collection_that_failed():
    """The server did not answer in time; its late answers belong to no other collection."""
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}}})
        shell(frames, "echo mine > /mnt/a/f; echo new > /mnt/a/new")
        pid, = servers(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            refused = frames.refused("sandbox.stop", sandbox="s", sync={})
            assert "goes on running" in refused.message and "/mnt/a" in refused.message, refused
        finally:
            os.kill(pid, signal.SIGCONT)
        equal(shell(frames, "cat /mnt/a/f /mnt/a/new"), "mine\nnew\n")
        sync = frames.call("sandbox.stop", sandbox="s", sync={})["sync"]
        equal((sorted(sync["synced"]), sync["failed"], host.read("a/f"), host.read("a/new")), (["/mnt/a/f", "/mnt/a/new"], [], "mine\n", "new\n"))


def test_a_guest_killed_in_the_middle_of_a_call_leaves_no_trace():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}}})
        pid, = servers(daemon)
        os.kill(pid, signal.SIGSTOP)
        try:
            process = frames.call("process.start", sandbox="s", command="cat /mnt/a/below/*")["process"]
            number = frames.ask("process.wait", sandbox="s", process=process)
            assert not frames.is_answered(number)
            frames.call("process.kill", sandbox="s", process=process, signal="SIGKILL")
            equal(frames.wait(number)["process"]["status"], "killed")
            stopping = frames.ask("sandbox.delete", sandbox="s")
            frames.wait(stopping)
            wait_for(lambda: not servers(daemon))
        finally:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a")}})
        equal(shell(frames, "cat /mnt/a/f"), "a/f")


def test_a_stopped_server_holds_up_neither_saves_nor_the_end_of_the_daemon():
    """The user as whom it runs may stop it. The kernel has no valid attributes of the mount then: they have just changed."""
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        dirs = {"/workspace/a": {"path": host.at("a"), "permissions": WRITES}, "/mnt/f": {"path": host.at("b/f"), "kind": "file", "permissions": WRITES}}
        frames.call("sandbox.create", sandbox="s", mount={"dirs": dirs})
        stopped = []
        for end in (lambda: frames.call("sandbox.stop", sandbox="s"), lambda: equal(daemon.stop(), 0)):
            equal(shell(frames, "mkdir /workspace/a/d; echo x > /mnt/f; echo x >> kept; wc -l < kept"), f"{len(stopped) // 2 + 1}\n")
            for pid in servers(daemon):
                os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            frames.call("sandbox.save", sandbox="s")
            if os.geteuid() == 0 and len(stopped) == 2:
                frames.call("context.create", sandbox="s", context="c", language="python")
            end()
            wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in stopped))


def test_a_full_layer_is_the_guests_own_trouble():
    with Host() as host, host.daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", limits={"diskBytes": 4 << 20}, mount={"dirs": {"/mnt/a": {"path": host.at("a"), "permissions": WRITES}}})
        assert "No space left" in shell(frames, "head -c 6000000 /dev/zero > /mnt/a/big")
        equal(shell(frames, "rm /mnt/a/big; echo small > /mnt/a/small; cat /mnt/a/small"), "small\n")
        equal(sorted(os.listdir(host.at("a"))), ["below", "f", "key.pem"])


# -- restarts and rights ----------------------------------------------------------------------------------------------

def test_mounts_return_after_a_restart_of_the_daemon():
    state = tempfile.mkdtemp(prefix="cloched-state-")
    os.chmod(state, 0o711)
    try:
        with Host() as host:
            with host.daemon("--state-dir", state + "/s") as daemon, daemon.frames() as frames:
                frames.call("sandbox.create", sandbox="s", mount={"dirs": {"/mnt/a": host.at("a")}})
                shell(frames, "echo mine > file")
                frames.call("sandbox.stop", sandbox="s")
            host.write("a/f", "meanwhile")
            with host.daemon("--state-dir", state + "/s") as daemon, daemon.frames() as frames:
                equal(states(frames), {"/mnt/a": "stopped"})
                equal(shell(frames, "cat file /mnt/a/f"), "mine\nmeanwhile")
                equal(states(frames), {"/mnt/a": "mounted"})
                frames.call("sandbox.stop", sandbox="s")
            with Daemon("--state-dir", state + "/s") as daemon, daemon.frames() as frames:
                refused = frames.refused("exec", sandbox="s", command="true")
                assert "--mount-root" in refused.message, refused
                equal(states(frames), {"/mnt/a": "stopped"})
    finally:
        shutil.rmtree(state)
