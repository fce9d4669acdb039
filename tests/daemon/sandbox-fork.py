#!/usr/bin/python3
"""sandbox.fork: files, sessions and contexts are copied, an entry says why for all that is not, and a failure leaves nothing."""
import os
import signal
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import descendants, equal, need_ordinary_user, process_state
from clocks import Clock
from disk import Disk
from http_client import Http
from rpc import DAEMON, HANG, Daemon, Failed, Frames
from sandbox_client import wait_for

USER = 12345  # of ORDINARY_USER


def shell(frames, name, command):
    return frames.call("exec", sandbox=name, command=command)["stdout"]


def names(frames):
    return {row["sandbox"]: row["state"] for row in frames.call("sandbox.list")["sandboxes"]}


def forked(answer):
    return [row["sandbox"] for row in answer["sandboxes"]]


def kept(daemon):
    """Entries of the state directory that are of sandboxes, as the next daemon would find them."""
    state = os.path.join(daemon.directory, "state", str(os.geteuid()))
    return sorted(name for name in os.listdir(state) if not name.startswith("."))


def test_a_fork_has_all_and_goes_its_own_way():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as watcher:
        frames.call("sandbox.create", sandbox="a", limits={"pids": 99}, env={"E": "env"}, labels={"of": "a"}, idleMs=5000000, lifetimeMs=9000000, endAction="delete")
        shell(frames, "a", "echo one > f; echo home > ~/h; mkdir -p /tmp/d; cd /tmp/d; export WHO=Ada; HIDDEN=1")
        frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
        frames.call("context.run", sandbox="a", context="c", code="x = 41")
        watcher.ask("sandbox.events", sandbox="a")
        answer = frames.call("sandbox.fork", sandbox="a", names=["b", "c"])
        equal((forked(answer), answer["omitted"]), (["b", "c"], []))
        b = answer["sandboxes"][0]
        equal((b["state"], b["limits"]["pids"], b["env"], b["labels"], b["idleMs"], b["endAction"], "endsAt" in b), ("running", 99, {"E": "env"}, {"of": "a"}, 5000000, "delete", False))
        for name in ("b", "c"):
            equal(shell(frames, name, "cat /workspace/f ~/h; echo $WHO $PWD $E $HIDDEN"), "one\nhome\nAda /tmp/d env\n")
            equal(frames.call("context.run", sandbox=name, context="c", code="x += 1; print(x, open('/workspace/f').read().strip())")["stdout"], "42 one\n")
        frames.call("context.run", sandbox="b", context="c", code="open('/workspace/f', 'w').write('two\\n')")
        shell(frames, "c", "echo three > /workspace/f")
        equal([shell(frames, name, "cat /workspace/f") for name in "abc"], ["one\n", "two\n", "three\n"])
        equal(frames.call("context.run", sandbox="a", context="c", code="print(x)")["stdout"], "41\n")
        # A fork of a fork.
        d, = forked(frames.call("sandbox.fork", sandbox="b"))
        equal(frames.call("context.run", sandbox=d, context="c", code="print(x, open('/workspace/f').read().strip())")["stdout"], "42 two\n")
        while not any(params["event"] == "forked" for method, params, _ in watcher.told):
            watcher.turn()
        equal(next(params["about"] for method, params, _ in watcher.told if params["event"] == "forked"), {"sandboxes": ["b", "c"]})


def test_chance_is_not_shared():
    """Numbers that the interpreters make up after a fork are others in each copy."""
    codes = {"python": ("import random, uuid, secrets", "print(random.random(), uuid.uuid4(), secrets.token_hex(8))"),
             "javascript": ("const crypto = require('crypto')", "console.log(crypto.randomUUID(), crypto.randomBytes(8).toString('hex'))"),
             "ruby": ("require 'securerandom'; rand", "puts rand, Random.new.seed, SecureRandom.hex(8)")}
    with Daemon() as daemon, daemon.frames() as frames:
        for language, (before, _) in codes.items():
            frames.call("context.create", sandbox="a", language=language, context=language, forkable=True)
            equal(frames.call("context.run", sandbox="a", context=language, code=before)["status"], "ok")
        copies = forked(frames.call("sandbox.fork", sandbox="a", count=2))
        for language, (_, code) in codes.items():
            said = [frames.call("context.run", sandbox=name, context=language, code=code)["stdout"].split() for name in ("a", *copies)]
            assert all(said) and all(len(set(column)) == 3 for column in zip(*said)), (language, said)


def test_all_that_does_not_come_along_is_named():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        for context, options in (("plain", {}), ("busy", {"forkable": True}), ("threads", {"forkable": True}), ("good", {"forkable": True})):
            frames.call("context.create", sandbox="a", language="python", context=context, **options)
        frames.call("context.run", sandbox="a", context="threads", code="import threading\nstop = threading.Event()\nthreading.Thread(target=stop.wait).start()")
        cell = frames.ask("context.run", sandbox="a", context="busy", code="import os, time\nopen('/workspace/begun', 'w')\nwhile not os.path.exists('/workspace/go'): time.sleep(0.01)")
        frames.call("context.checkpoint", sandbox="a", context="good", checkpoint="k")
        frames.call("process.start", sandbox="a", process="p", command="exec sleep 1000")
        frames.call("session.create", sandbox="a", session="s")
        command = frames.ask("exec", sandbox="a", session="s", command="touch at-work; until [ -e go ]; do sleep 0.05; done")
        frames.call("port.expose", sandbox="a", port=8080)
        wait_for(lambda: frames.call("exec", sandbox="a", command="ls begun at-work", fork=True)["exitCode"] == 0)
        answer = frames.call("sandbox.fork", sandbox="a", names=["b"])
        found = {(row["kind"], row["name"]): row["reason"] for row in answer["omitted"]}
        equal(set(found), {("context", "plain"), ("context", "busy"), ("context", "threads"), ("checkpoint", "k"), ("process", "p"), ("session", "s"), ("port", "8080")})
        assert "forkable" in found["context", "plain"] and "cell" in found["context", "busy"] and "thread" in found["context", "threads"], found
        equal([row["context"] for row in frames.call("context.list", sandbox="b")["contexts"]], ["good"])
        equal(frames.call("process.list", sandbox="b")["processes"], [])
        shell(frames, "a", "touch go")
        equal((frames.wait(cell)["status"], frames.wait(command)["exitCode"]), ("ok", 0))
        equal(frames.call("context.run", sandbox="a", context="threads", code="stop.set(); print(1)")["stdout"], "1\n", "it goes on")


def test_states_of_the_original():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
        frames.call("context.run", sandbox="a", context="c", code="x = 1; open('f', 'w').write('1')")
        frames.call("sandbox.pause", sandbox="a")
        frames.call("sandbox.fork", sandbox="a", names=["b"])  # it goes on for that, as for each request
        equal((names(frames), frames.call("context.run", sandbox="b", context="c", code="print(x)")["stdout"]), ({"a": "running", "b": "running"}, "1\n"))
        # Either may be paused while the other works.
        frames.call("sandbox.pause", sandbox="a")
        equal(frames.call("context.run", sandbox="b", context="c", code="print(x)")["stdout"], "1\n")
        frames.call("sandbox.stop", sandbox="b")
        equal(names(frames), {"a": "paused", "b": "stopped"})
        equal(forked(frames.call("sandbox.fork", sandbox="b", names=["d", "e"])), ["d", "e"])
        equal(names(frames), {"a": "paused", "b": "stopped", "d": "stopped", "e": "stopped"})
        equal(shell(frames, "d", "cat f"), "1")
        frames.call("sandbox.create", sandbox="new")
        frames.call("sandbox.stop", sandbox="new")
        equal(shell(frames, forked(frames.call("sandbox.fork", sandbox="new"))[0], "ls"), "", "it was never saved")


def test_contexts_end_with_the_box_that_they_were_forked_from():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
        frames.call("context.run", sandbox="a", context="c", code="x = 1")
        for origin, copy, later in (("a", "b", "d"), ("d", "e", "f")):
            frames.call("sandbox.fork", sandbox=origin, names=[copy])
            frames.call("sandbox.fork", sandbox=copy, names=[later])
        # The original's code is busy: the forks end all the same.
        cell = frames.ask("context.run", sandbox="a", context="c", code="import os\nopen('/workspace/begun', 'w')\nwhile not os.path.exists('/workspace/go'): pass")
        wait_for(lambda: frames.call("exec", sandbox="a", command="ls begun", fork=True)["exitCode"] == 0)
        frames.call("sandbox.stop", sandbox="f")
        frames.call("sandbox.delete", sandbox="e")
        frames.call("sandbox.pause", sandbox="d")
        frames.call("sandbox.stop", sandbox="b")
        error = frames.refused("context.run", sandbox="d", context="c", code="x")
        assert error.name == "context_ended" and '"b"' in error.message, error.message
        shell(frames, "a", "touch go")
        equal(frames.wait(cell)["status"], "ok")
        equal(frames.call("context.run", sandbox="d", context="c", code="print('x' in globals())", restart=True)["stdout"], "False\n")
        equal(frames.call("context.run", sandbox="a", context="c", code="print(x)")["stdout"], "1\n")
        frames.call("sandbox.delete", sandbox="a")
        equal(frames.call("context.run", sandbox="d", context="c", code="print(2)")["stdout"], "2\n", "it began anew, and has no origin any more")


def test_what_cannot_be_forked_leaves_nothing():
    with Daemon("--max-saved", "5") as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        equal(frames.refused("sandbox.fork", sandbox="none").name, "not_found")
        shell(frames, "a", "true")
        for options in ({"count": 0}, {"count": 101}, {"names": []}, {"names": ["b", "b"]}, {"names": ["b"], "count": 2}, {"names": ["-"]}, {"names": [1]}):
            equal(frames.refused("sandbox.fork", sandbox="a", **options).name, "invalid_argument", options)
        equal(frames.refused("sandbox.fork", sandbox="a", names=["b", "a"]).name, "invalid_state")
        equal(frames.refused("sandbox.fork", sandbox="a", count=5).name, "queue_full")
        equal(names(frames), {"a": "running"})
        status, answer = http.post("/v1/sandboxes/a/fork", names=["b"])
        equal((status, answer["sandboxes"][0]["sandbox"]), (201, "b"))
        # A client that leaves meanwhile, and an original that is deleted.
        shell(frames, "a", "head -c 30M /dev/urandom > big")
        with daemon.frames() as other:
            number = other.ask("sandbox.fork", sandbox="a", names=["left"])
            wait_for(lambda: "left" in names(frames) or other.is_answered(number))
        with daemon.frames() as other:
            number = other.ask("sandbox.fork", sandbox="a", names=["ended"])
            wait_for(lambda: "ended" in names(frames) or other.is_answered(number))
            frames.call("sandbox.delete", sandbox="a")
            try:
                other.wait(number)
            except Failed as error:
                equal(error.name, "sandbox_ended")
                assert "ended" not in names(frames)
        for name in set(names(frames)) - {"b"}:  # it was made before that came
            equal(shell(frames, name, "stat -c %s big"), f"{30 << 20}\n")
        wait_for(lambda: set(kept(daemon)) == set(names(frames)))


def test_a_full_disk():
    with Disk() as disk:
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            shell(frames, "a", "head -c 3M /dev/urandom > f")
            disk.fill(left=1 << 20)
            for method in ("sandbox.fork", "sandbox.snapshot"):
                error = frames.refused(method, sandbox="a")
                assert error.name == "resource" and "No space left" in error.message, error.message
            error = frames.refused("sandbox.pause", sandbox="a")
            assert "is not paused, as it cannot be saved" in error.message, error.message
            equal((names(frames), frames.call("snapshot.list")), ({"a": "running"}, {"snapshots": []}))
            equal(frames.call("sandbox.pause", sandbox="a", save=False)["state"], "paused")  # the twin
            frames.call("sandbox.resume", sandbox="a")
            disk.free()
            equal(len(forked(frames.call("sandbox.fork", sandbox="a", count=3))), 3)  # the twin: they share one archive


STOPPER = "read; while :; do kill -STOP -1; read -t 0.002; done"  # all but the caller and PID 1: kill(2)


def held_up(daemon, frames, method, **params):
    """A request whose program the guest has stopped: it may come too late at first."""
    while True:
        known = descendants(daemon.process.pid)
        number = frames.ask(method, **params)
        while not frames.is_answered(number, within=0.01):
            if any(process_state(pid) == "T" for pid in descendants(daemon.process.pid) if pid not in known):
                frames.call("port.list", sandbox="a")  # by then its first process has answered that the program was started
                if not frames.is_answered(number, within=0):
                    return number
        for row in frames.wait(number).get("sandboxes", []):
            frames.call("sandbox.delete", sandbox=row["sandbox"])


def test_a_guest_that_stops_the_packing_program():
    """The request fails after its time, and the sandbox is as before; without a state directory too."""
    for options in ((), ("--state-dir", "")):
        with Clock() as clock, Daemon(*options, env=clock.env) as daemon, daemon.frames() as frames:
            shell(frames, "a", "mkdir d; for ((i = 0; i < 2000; i++)); do echo $i > d/$i; done")
            frames.call("process.start", sandbox="a", process="p", command=STOPPER, stdin=True)
            frames.call("process.input", sandbox="a", process="p", data="\n")  # its start was answered: it stops nobody who reports it
            number = held_up(daemon, frames, "sandbox.fork", sandbox="a")
            clock.let_pass(300, frames)
            assert not frames.is_answered(number, within=0.2), "a jump of the time is no sign that it was stopped"
            for _ in range(31):
                clock.let_pass(1, frames)
            try:
                raise AssertionError(frames.wait(number))
            except Failed as error:
                assert error.name == "resource" and "no byte came for 30 s" in error.message, error.message
            equal(names(frames), {"a": "running"})
            frames.call("process.kill", sandbox="a", process="p", graceMs=0)
            equal(len(forked(frames.call("sandbox.fork", sandbox="a"))), 1)  # the twin


def test_they_outlive_a_killed_daemon():
    with Daemon() as daemon:
        with daemon.frames() as frames:
            shell(frames, "a", "echo one > f")
            frames.call("sandbox.fork", sandbox="a", names=["b"])
            shell(frames, "b", "echo lost > f")
        options = ("--state-dir", os.path.join(daemon.directory, "state"))
        os.kill(daemon.engine_pid(), signal.SIGKILL)
        daemon.process.kill()
        daemon.process.wait()
        with Daemon(*options) as later, later.frames() as frames:
            equal(names(frames), {"a": "stopped", "b": "stopped"})
            equal(shell(frames, "b", "cat f"), "one\n")


def test_without_a_state_directory():
    with Daemon("--state-dir", "") as daemon, daemon.frames() as frames:
        shell(frames, "a", "echo one > f")
        frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
        frames.call("context.run", sandbox="a", context="c", code="x = 1")
        for name in forked(frames.call("sandbox.fork", sandbox="a", count=2)):
            equal(shell(frames, name, "cat f"), "one\n")
            equal(frames.call("context.run", sandbox=name, context="c", code="print(x)")["stdout"], "1\n")
        error = frames.refused("sandbox.snapshot", sandbox="a")
        assert error.name == "invalid_state" and "--state-dir" in error.message, error.message



def test_of_an_ordinary_user():
    """Without groups of its own, and with one user for all boxes."""
    need_ordinary_user()
    with tempfile.TemporaryDirectory() as home:
        os.chown(home, USER, USER)
        ours, theirs = socket.socketpair()
        process = subprocess.Popen([DAEMON, "--connect-fd", str(theirs.fileno()), "--log-level", "error", "--profile", "user", "--state-dir", home + "/state"],
                                   pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, user=USER, group=USER, extra_groups=[], env={"HOME": home, "PATH": os.environ["PATH"]})
        theirs.close()
        with Frames(ours) as frames:
            shell(frames, "a", "echo one > f")
            frames.call("context.create", sandbox="a", language="python", context="c", forkable=True)
            frames.call("context.run", sandbox="a", context="c", code="x = 1")
            b, = forked(frames.call("sandbox.fork", sandbox="a"))
            c, = forked(frames.call("sandbox.fork", sandbox=b))
            for name in (b, c):
                equal((shell(frames, name, "cat f"), frames.call("context.run", sandbox=name, context="c", code="print(x)")["stdout"]), ("one\n", "1\n"))
            frames.call("sandbox.snapshot", sandbox=b, snapshot="s")
            frames.call("sandbox.delete", sandbox="a")
            equal(frames.refused("context.run", sandbox=c, context="c", code="x").name, "context_ended")
            frames.call("sandbox.create", sandbox="d", snapshot="s")
            equal(shell(frames, "d", "cat f; hostname"), "one\n" + frames.call("sandbox.get", sandbox="d")["hostName"] + "\n")
        equal(process.wait(HANG), 0)


LOOK = "import socket; name = socket.gethostname(); print(open('/proc/sys/kernel/random/boot_id').read().strip(), name, open('/etc/hostname').read().strip(), socket.gethostbyname(name))"


def test_host_name_and_boot_id():
    """A sandbox has its own, in all its boxes; the boot id is another at each start and in each fork."""
    with open("/proc/sys/kernel/random/boot_id") as file:
        of_host = file.read().strip()
    with Daemon() as daemon, daemon.frames() as frames:
        def seen(name):
            """In its shell, an isolated session and a context."""
            frames.call("session.create", sandbox=name, session="apart", isolation=True)
            if "c" not in [row["context"] for row in frames.call("context.list", sandbox=name)["contexts"]]:
                frames.call("context.create", sandbox=name, language="python", context="c", forkable=True)
            said = [frames.call("exec", sandbox=name, session=session, command=f'python3 -c "{LOOK}"')["stdout"].split() for session in ("default", "apart")]
            said.append(frames.call("context.run", sandbox=name, context="c", code=LOOK)["stdout"].split())
            about = frames.call("sandbox.get", sandbox=name)
            equal(said, [[about["bootId"], about["hostName"], about["hostName"], "127.0.0.1"]] * 3)
            return about["bootId"], about["hostName"]

        boot, host = seen("a")
        equal(frames.call("exec", sandbox="a", command="(echo x > /proc/sys/kernel/random/boot_id) 2>/dev/null || rm -f /run/.self/boot_id 2>/dev/null || echo closed")["stdout"], "closed\n")
        fork, = forked(frames.call("sandbox.fork", sandbox="a"))
        boot_of_fork, host_of_fork = seen(fork)
        frames.call("sandbox.stop", sandbox="a")
        assert "bootId" not in frames.call("sandbox.get", sandbox="a")
        later, host_later = seen("a")
        equal(host_later, host)
        assert len({boot, boot_of_fork, later, of_host}) == 4 and host != host_of_fork, (boot, boot_of_fork, later, of_host, host, host_of_fork)
