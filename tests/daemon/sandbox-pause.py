#!/usr/bin/python3
"""Pause with memory: processes are frozen and go on, no timeout ends meanwhile, and each state that is told is true."""
import os
import signal
import sys
import tempfile
from datetime import datetime

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from clocks import Clock
from cloche import descendants, need_ordinary_user
from life import below, groups, keeper_of
from rpc import Daemon, Failed, private_of_user
from sandbox_client import wait_for

YEAR_MS = 365 * 24 * 3600 * 1000
COUNTER = "import itertools, time\nfor n in itertools.count():\n    open('/workspace/n', 'w').write(str(n)); time.sleep(0.005)"


def refused(frames, word, method, **params):
    try:
        frames.call(method, **params)
    except Failed as error:
        assert word in error.message, error.message
        return error
    raise AssertionError(f"{method} was not refused")


def state_of(frames, name):
    return frames.call("sandbox.get", sandbox=name)["state"]


def listed(frames):
    """Unlike sandbox.get this is no use of a sandbox."""
    return {s["sandbox"]: s["state"] for s in frames.call("sandbox.list")["sandboxes"]}


def count(frames, name):
    text = frames.call("exec", sandbox=name, command="cat /workspace/n", fork=True)["stdout"]
    return int(text) if text else -1


def processor_ms(frames, name):
    return frames.call("sandbox.get", sandbox=name)["usage"]["cpuMs"]


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""


def pids_on_host(daemon, words):
    return [pid for pid in descendants(daemon.process.pid) if words in read(f"/proc/{pid}/cmdline")]


def pid_on_host(daemon, words):
    [pid] = pids_on_host(daemon, words)
    return pid


def is_frozen(pid):
    """By its group: version 1 or 2."""
    for line in read(f"/proc/{pid}/cgroup").decode().splitlines():
        _, controllers, path = line.split(":", 2)
        for file, value in ((f"/sys/fs/cgroup/freezer{path}/freezer.state", b"FROZEN\n"), (f"/sys/fs/cgroup{path}/cgroup.events", b"frozen 1\n")):
            if (controllers in ("", "freezer")) and value in read(file):
                return True
    return False


def test_processes_stop_and_go_on():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("file.write", sandbox="a", path="count.py", content=COUNTER)
        frames.call("exec", sandbox="a", command="VARIABLE=kept; cd /tmp")
        pid = frames.call("process.start", sandbox="a", command="exec python3 /workspace/count.py", process="p")["pid"]
        wait_for(lambda: count(frames, "a") > 2)
        assert frames.call("sandbox.pause", sandbox="a")["state"] == "paused"
        assert state_of(frames, "a") == "paused", "a look does not wake it"
        before = processor_ms(frames, "a")
        assert [s["state"] for s in frames.call("sandbox.list")["sandboxes"]] == ["paused"]
        assert is_frozen(pid_on_host(daemon, b"/workspace/count.py")), "the kernel says so too"
        assert processor_ms(frames, "a") == before
        answer = frames.call("sandbox.resume", sandbox="a")
        assert (answer["state"], answer["resumed"]) == ("running", "memory")
        after = count(frames, "a")
        wait_for(lambda: count(frames, "a") > after)
        assert frames.call("process.get", sandbox="a", process="p")["pid"] == pid
        assert frames.call("exec", sandbox="a", command="echo $VARIABLE $PWD")["stdout"] == "kept /tmp\n"
        assert frames.call("sandbox.resume", sandbox="a")["resumed"] == "running"


def test_a_request_wakes_it():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="X=1")
        frames.call("sandbox.pause", sandbox="a")
        assert frames.call("exec", sandbox="a", command="echo $X")["stdout"] == "1\n"
        assert state_of(frames, "a") == "running"


def test_a_command_goes_on_and_has_its_whole_time():
    """A pause longer than each timeout ends nothing: of a command, a cell, a process, and of answers of a shell."""
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        frames.call("context.create", sandbox="a", language="python", context="c")
        until_go = "touch begun-{0}; until [ -e go ]; do sleep 0.05; done; echo {0} >> ended"
        command = frames.ask("exec", sandbox="a", command=until_go.format("command"), timeoutMs=60000)
        cell = frames.ask("context.run", sandbox="a", context="c", code=f"import subprocess; subprocess.run({until_go.format('cell')!r}, shell=True, cwd='/workspace'); print(7)", timeoutMs=60000)
        frames.call("session.create", sandbox="a", session="other")
        frames.call("process.start", sandbox="a", command=until_go.format("process"), process="p", session="other", timeoutMs=60000)
        wait_for(lambda: frames.call("exec", sandbox="a", command="ls begun-command begun-cell begun-process", fork=True)["exitCode"] == 0)
        frames.call("sandbox.pause", sandbox="a", save=False)
        clock.let_pass(3600, frames)
        assert state_of(frames, "a") == "paused"
        frames.call("exec", sandbox="a", command="touch go", fork=True)
        assert frames.wait(command)["exitCode"] == 0
        assert frames.wait(cell)["stdout"] == "7\n"
        assert frames.call("process.wait", sandbox="a", process="p")["process"]["exitCode"] == 0
        # The twin: time in which it runs counts.
        command = frames.ask("exec", sandbox="a", command="sleep 1000", timeoutMs=60000)
        clock.let_pass(3600, frames)
        assert frames.wait(command)["timedOut"]


def test_contexts_keep_their_variables():
    with Daemon() as daemon, daemon.frames() as frames:
        for language, code in (("python", "x = 41"), ("javascript", "let x = 41")):
            frames.call("context.create", sandbox="a", language=language, context=language)
            frames.call("context.run", sandbox="a", context=language, code=code)
        frames.call("context.create", sandbox="a", language="python", context="original", forkable=True)
        frames.call("context.run", sandbox="a", context="original", code="x = 41")
        copy = frames.call("context.fork", sandbox="a", context="original")["contexts"][0]["context"]
        frames.call("sandbox.pause", sandbox="a")
        for context in ("python", "javascript", "original", copy):
            assert frames.call("context.run", sandbox="a", context=context, code="console.log(x + 1)" if context == "javascript" else "print(x + 1)")["stdout"] == "42\n"


def test_states_are_events():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as watcher:
        frames.call("exec", sandbox="a", command="true")
        watcher.ask("sandbox.events", sandbox="a")
        watcher.call("sandbox.get", sandbox="a")  # by then it is told of events
        frames.call("sandbox.pause", sandbox="a")
        frames.call("sandbox.resume", sandbox="a")
        seen = []
        while seen != ["paused", "running"]:
            if not watcher.told:
                watcher.turn()
            method, params, _ = watcher.told.pop(0)
            if params.get("event") == "state":
                seen.append(params["about"]["state"])


def test_states_in_which_nothing_can_be_paused():
    with Daemon() as daemon, daemon.frames() as frames:
        refused(frames, "no sandbox", "sandbox.pause", sandbox="nobody")
        refused(frames, "no sandbox", "sandbox.resume", sandbox="nobody")
        frames.call("exec", sandbox="a", command="echo kept > f")
        frames.call("sandbox.pause", sandbox="a")
        refused(frames, "paused already", "sandbox.pause", sandbox="a")
        refused(frames, "no network yet", "sandbox.update", sandbox="a", network={"allow": ["example.org"]})
        frames.call("sandbox.create", sandbox="connected", network={"allow": ["example.org"]})
        frames.call("sandbox.pause", sandbox="connected")
        assert frames.call("sandbox.update", sandbox="connected", network={"allow": ["example.net"]})["network"]["allow"] == ["example.net"]
        assert frames.call("sandbox.update", sandbox="a", labels={"x": "y"})["labels"] == {"x": "y"}
        assert frames.call("sandbox.update", sandbox="a", limits={"memoryBytes": 1 << 28})["limits"]["memoryBytes"] == 1 << 28
        frames.call("sandbox.stop", sandbox="a")
        refused(frames, "stopped", "sandbox.pause", sandbox="a")
        answer = frames.call("sandbox.resume", sandbox="a")
        assert answer["resumed"] == "files", "its processes are gone, and nobody claims else"
        assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "kept\n"


def test_the_end_of_a_paused_one():
    with Daemon() as daemon, daemon.frames() as frames:
        for name in ("stopped", "deleted"):
            frames.call("exec", sandbox=name, command="echo kept > f")
            frames.call("process.start", sandbox=name, command="sleep 1000")
            frames.call("sandbox.pause", sandbox=name, save=False)
        assert frames.call("sandbox.stop", sandbox="stopped")["state"] == "stopped"
        assert frames.call("exec", sandbox="stopped", command="cat f")["stdout"] == "kept\n"
        frames.call("sandbox.delete", sandbox="deleted")
        refused(frames, "no sandbox", "sandbox.resume", sandbox="deleted")
        refused(frames, "no sandbox", "sandbox.pause", sandbox="deleted")
        wait_for(lambda: [s["sandbox"] for s in frames.call("sandbox.list")["sandboxes"]] == ["stopped"])
        frames.call("sandbox.pause", sandbox="stopped")
        assert daemon.stop() == 0, "the daemon ends with paused sandboxes too"


def test_it_is_saved_first():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        state = os.path.join(directory, "state")
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            frames.call("exec", sandbox="a", command="echo kept > f")
            assert frames.call("sandbox.pause", sandbox="a")["savedAt"]
            assert frames.call("sandbox.save", sandbox="a")["state"] == "paused", "it is saved: nothing wakes it"
            frames.call("exec", sandbox="b", command="echo kept > f")
            assert "savedAt" not in frames.call("sandbox.pause", sandbox="b", save=False)
            refused(frames, "resume it", "sandbox.save", sandbox="b")
            frames.call("exec", sandbox="c", command="head -c 8M /dev/urandom > f")
            pause, stop = frames.ask("sandbox.pause", sandbox="c"), frames.ask("sandbox.stop", sandbox="c")
            assert frames.wait(stop)["state"] == "stopped"
            try:
                frames.wait(pause)  # the stop comes while the files are being saved for the pause
            except Failed as error:
                assert error.name == "sandbox_ended", error
            daemon.process.kill()
            daemon.process.wait()
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            assert kinds(frames) == {"a": ("paused", "files"), "b": ("stopped", None), "c": ("stopped", None)}, "memory does not outlive the processes"
            assert "lost" not in frames.call("sandbox.get", sandbox="a"), "nothing changed after the save"
            assert frames.call("sandbox.get", sandbox="b")["lost"], "it was never saved"
            assert frames.call("sandbox.resume", sandbox="a")["resumed"] == "files"
            assert frames.call("exec", sandbox="a", command="cat f")["stdout"] == "kept\n"


def kinds(frames):
    return {s["sandbox"]: (s["state"], s.get("pauseKind")) for s in frames.call("sandbox.list")["sandboxes"]}


def next_states(watcher, count):
    seen = []
    while len(seen) < count:
        if not watcher.told:
            watcher.turn()
        _, params, _ = watcher.told.pop(0)
        if params.get("event") == "state":
            seen.append((params["about"]["state"], params["about"].get("pauseKind")))
    return seen


def test_files_only():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as watcher:
        frames.call("exec", sandbox="a", command="echo kept > f; cd /tmp")
        watcher.ask("sandbox.events", sandbox="a")
        watcher.call("sandbox.get", sandbox="a")
        frames.call("process.start", sandbox="a", command="exec sleep 7656")
        wait_for(lambda: pids_on_host(daemon, b"sleep\x007656"))
        answer = frames.call("sandbox.pause", sandbox="a", memory=False)
        assert (answer["state"], answer["pauseKind"], answer["processes"]) == ("paused", "files", 0) and answer["savedAt"] and answer["pausedAt"]
        assert not pids_on_host(daemon, b"sleep\x007656"), "its processes have ended"
        assert kinds(frames) == {"a": ("paused", "files")}
        refused(frames, "paused already", "sandbox.pause", sandbox="a")
        refused(frames, "paused already", "sandbox.pause", sandbox="a", memory=False)
        assert frames.call("sandbox.save", sandbox="a")["state"] == "paused"
        assert frames.call("exec", sandbox="a", command="cat /workspace/f; pwd")["stdout"] == "kept\n/tmp\n", "a request wakes it"
        found = frames.call("sandbox.get", sandbox="a")
        assert found["state"] == "running" and "pauseKind" not in found and "pausedAt" not in found
        assert next_states(watcher, 2) == [("paused", "files"), ("running", None)]
        assert frames.call("sandbox.pause", sandbox="a")["pauseKind"] == "memory"
        assert frames.call("sandbox.pause", sandbox="a", memory=False)["pauseKind"] == "files", "its memory is given back"
        assert frames.call("sandbox.resume", sandbox="a")["resumed"] == "files"
        frames.call("sandbox.pause", sandbox="a", memory=False)
        assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"
        assert kinds(frames) == {"a": ("stopped", None)}
        refused(frames, "stopped", "sandbox.pause", sandbox="a", memory=False)
        refused(frames, "would keep nothing", "sandbox.pause", sandbox="a", memory=False, save=False)
        seen = next_states(watcher, 6)
        assert seen[0] == ("paused", "memory") and seen[-2:] == [("paused", "files"), ("stopped", None)], seen


def test_kinds_of_many_pauses_at_once():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo kept > f")
        memory, files = frames.ask("sandbox.pause", sandbox="a", save=False), frames.ask("sandbox.pause", sandbox="a", memory=False)
        assert frames.wait(files)["pauseKind"] == "files"
        assert frames.wait(memory)["state"] == "paused"
        frames.call("exec", sandbox="a", command="true")
        files, stop = frames.ask("sandbox.pause", sandbox="a", memory=False), frames.ask("sandbox.stop", sandbox="a")
        assert frames.wait(stop)["state"] == "stopped"
        try:
            frames.wait(files)
            raise AssertionError("it was stopped instead")
        except Failed as error:
            assert "was stopped" in error.message, error.message
        files, delete = frames.ask("sandbox.pause", sandbox="a", memory=False), frames.ask("sandbox.delete", sandbox="a")
        frames.wait(delete)
        try:
            frames.wait(files)
            raise AssertionError("it was deleted")
        except Failed as error:
            assert error.name in ("invalid_state", "sandbox_ended"), error


def test_a_paused_one_outlives_its_memory():
    """After a stop of the daemon, kill -9 of the daemon and of its keeper; told by events too."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        state = os.path.join(directory, "state")
        for end in ("stop", "kill", "keeper"):
            with Daemon("--state-dir", state) as daemon, daemon.frames() as frames, daemon.frames() as watcher:
                frames.call("exec", sandbox=end, command="echo kept > f")
                frames.call("exec", sandbox=end + "-dirty", command="echo kept > f; (while :; do date > g; sleep 0.01; done) > /dev/null 2>&1 &")
                for name in (end, end + "-dirty"):
                    frames.call("sandbox.pause", sandbox=name)
                frames.call("sandbox.create", sandbox=end + "-woken")
                frames.call("sandbox.pause", sandbox=end + "-woken")
                frames.call("exec", sandbox=end + "-woken", command="echo lost > f")
                if end == "stop":
                    assert daemon.stop() == 0
                elif end == "kill":
                    daemon.process.kill()
                    daemon.process.wait()
                else:
                    keeper = keeper_of(below(daemon.process.pid))
                    os.kill(keeper, signal.SIGKILL)
                    wait_for(lambda: not groups(keeper))
                    daemon.stop()
            with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
                told = kinds(frames)
                assert told[end] == told[end + "-dirty"] == ("paused", "files"), (end, told)
                assert told[end + "-woken"] == ("stopped", None), (end, told)
                found = frames.call("sandbox.get", sandbox=end)
                assert "lost" not in found and found["savedAt"] and found["pausedAt"], found
                found = frames.call("sandbox.get", sandbox=end + "-dirty")
                assert end == "stop" or found["lost"]["to"] >= found["pausedAt"] >= found["lost"]["from"] == found["savedAt"], found
                assert frames.call("exec", sandbox=end, command="cat f")["stdout"] == "kept\n"
                assert frames.call("exec", sandbox=end + "-dirty", command="cat f")["stdout"] == "kept\n"


def test_many_at_once():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        pause = "sandbox.pause", {"sandbox": "a", "save": False}
        *both, run = frames.ask_together(pause, pause, ("exec", {"sandbox": "a", "command": "echo x"}))
        assert [frames.wait(number)["state"] for number in both] == ["paused"] * 2
        assert frames.wait(run)["stdout"] == "x\n"
        for _ in range(30):
            pause, command = frames.ask("sandbox.pause", sandbox="a", save=False), frames.ask("exec", sandbox="a", command="echo y")
            frames.wait(pause)
            assert frames.wait(command)["stdout"] == "y\n"


def test_a_guest_that_is_killed_while_it_is_frozen():
    """As the kernel does for memory: the sandbox ends, and says so."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("process.start", sandbox="a", command="exec sleep 7654", process="p")
        wait_for(lambda: pids_on_host(daemon, b"sleep\x007654"))
        frames.call("sandbox.pause", sandbox="a")
        os.kill(pid_on_host(daemon, b"sleep\x007654"), signal.SIGKILL)
        frames.call("sandbox.resume", sandbox="a")
        assert frames.call("process.wait", sandbox="a", process="p")["process"]["exitCode"] == 137


def test_a_pause_that_the_end_overtakes():
    """It is answered, whichever comes first: the sandbox could not be freed else."""
    with Daemon() as daemon, daemon.frames() as frames:
        for method in ("sandbox.stop", "sandbox.delete"):
            frames.call("exec", sandbox="a", command="echo x > f")
            pause, end = frames.ask("sandbox.pause", sandbox="a"), frames.ask(method, sandbox="a")
            frames.wait(end)
            try:
                assert frames.wait(pause)["state"] == "paused"
            except Failed as error:
                assert "the sandbox was" in error.message, error.message


def test_a_killed_keeper_leaves_no_frozen_process():
    """A frozen task of version 1 takes no signal, also not that of its keeper's end."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("process.start", sandbox="a", command="exec sleep 7655")
        wait_for(lambda: pids_on_host(daemon, b"sleep\x007655"))
        pid, keeper = pid_on_host(daemon, b"sleep\x007655"), keeper_of(below(daemon.process.pid))
        frames.call("sandbox.pause", sandbox="a", save=False)
        assert is_frozen(pid)
        os.kill(keeper, signal.SIGKILL)
        wait_for(lambda: not groups(keeper))
        assert not read(f"/proc/{pid}/cmdline") and daemon.stop() == 0


def test_an_isolated_session_that_starts_meanwhile():
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="true")
        for name in ("s", "t", "u"):
            frames.ask("session.create", sandbox="a", session=name, isolation=True)
            command, pause = frames.ask("exec", sandbox="a", session=name, command="echo x"), frames.ask("sandbox.pause", sandbox="a", save=False)
            assert frames.wait(pause)["state"] == "paused"
            frames.call("sandbox.resume", sandbox="a")
            assert frames.wait(command)["stdout"] == "x\n"


def test_without_use_it_is_paused():
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        made = frames.call("sandbox.create", sandbox="a", idleMs=60000, idleAction="pause")
        assert (made["idleAction"], made["endAction"]) == ("pause", "stop") and "endsAt" not in made
        frames.call("exec", sandbox="a", command="X=1")
        frames.call("process.start", sandbox="a", command="sleep 1000", process="p")
        clock.let_pass(120, frames)
        assert listed(frames) == {"a": "running"}, "its process keeps it"
        frames.call("process.kill", sandbox="a", process="p", signal="SIGKILL")
        clock.let_pass(120, frames)
        wait_for(lambda: listed(frames) == {"a": "paused"})
        assert frames.call("exec", sandbox="a", command="echo $X")["stdout"] == "1\n"


def test_the_end_of_its_time():
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        for action in ("stop", "pause", "delete"):
            made = frames.call("sandbox.create", sandbox=action, lifetimeMs=60000, endAction=action)
            assert made["endAction"] == action and made["endsAt"] > made["createdAt"]
            frames.call("process.start", sandbox=action, command="sleep 1000")
        frames.call("sandbox.create", sandbox="longer", lifetimeMs=60000, endAction="delete")
        assert frames.call("sandbox.update", sandbox="longer", lifetimeMs=3600000)["endsAt"]
        frames.call("sandbox.create", sandbox="endless", lifetimeMs=60000, endAction="delete")
        assert "endsAt" not in frames.call("sandbox.update", sandbox="endless", lifetimeMs=0)
        clock.let_pass(120, frames)
        wait_for(lambda: listed(frames) == {
            "stop": "stopped", "pause": "paused", "longer": "running", "endless": "running"})
        for name in ("pause", "stop"):  # at once: their time was over once
            frames.call("exec", sandbox=name, command="true")
            assert "endsAt" not in frames.call("sandbox.get", sandbox=name)
        clock.let_pass(120, frames)
        assert (state_of(frames, "pause"), state_of(frames, "stop")) == ("running", "running")


def test_a_lifetime_outlives_the_daemon():
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        state = os.path.join(directory, "state")
        with Daemon("--state-dir", state) as daemon, daemon.frames() as frames:
            ends = frames.call("sandbox.create", sandbox="a", lifetimeMs=3600000, endAction="delete", idleAction="pause")["endsAt"]
        with Clock() as clock, Daemon("--state-dir", state, env=clock.env) as daemon, daemon.frames() as frames:
            found = frames.call("sandbox.get", sandbox="a")
            assert (found["endAction"], found["idleAction"]) == ("delete", "pause")
            assert abs(datetime.fromisoformat(found["endsAt"]) - datetime.fromisoformat(ends)).total_seconds() < 60, (found, ends)
            clock.let_pass(7200, frames)
            wait_for(lambda: frames.call("sandbox.list")["sandboxes"] == [])


def test_a_clock_that_is_set_ends_no_lifetime():
    """Neither while the daemon runs, nor between two daemons of one boot."""
    with tempfile.TemporaryDirectory() as directory, Clock() as clock:
        os.chmod(directory, 0o711)
        state = os.path.join(directory, "state")
        for jump in (-YEAR_MS // 1000, YEAR_MS // 1000, 0):
            with Daemon("--state-dir", state, env=clock.env) as daemon, daemon.frames() as frames:
                if not listed(frames):
                    frames.call("sandbox.create", sandbox="a", lifetimeMs=3600000, endAction="delete")
                    frames.call("sandbox.create", sandbox="b", lifetimeMs=3600000, endAction="stop", idleMs=0)
                    frames.call("sandbox.create", sandbox="short", lifetimeMs=60000, endAction="delete")
                assert sorted(listed(frames)) == ["a", "b", "short"]
                clock.jump(jump)
                for _ in range(2):
                    frames.call("exec", sandbox="b", command="true")
                assert sorted(listed(frames)) == ["a", "b", "short"] and listed(frames)["b"] == "running"
        with Daemon("--state-dir", state, env=clock.env) as daemon, daemon.frames() as frames:
            clock.let_pass(120, frames)
            wait_for(lambda: sorted(listed(frames)) == ["a", "b"])


def test_actions_that_there_are_not():
    with Daemon() as daemon, daemon.frames() as frames:
        refused(frames, "expected stop or pause", "sandbox.create", sandbox="a", idleAction="delete")
        refused(frames, "expected stop, pause or delete", "sandbox.create", sandbox="a", endAction="explode")
        for time_ms in (YEAR_MS + 1, (1 << 53) - 1, -1):
            refused(frames, "lifetimeMs must be", "sandbox.create", sandbox="a", lifetimeMs=time_ms)
        refused(frames, "give it a lifetimeMs", "sandbox.create", sandbox="a", endAction="delete")
        assert frames.call("sandbox.list")["sandboxes"] == []
        assert frames.call("sandbox.create", sandbox="a", lifetimeMs=YEAR_MS)["endsAt"]
        assert frames.call("sandbox.update", sandbox="a", endAction="pause")["endAction"] == "pause"
        refused(frames, "give it a lifetimeMs", "sandbox.update", sandbox="a", endAction="stop", lifetimeMs=0)
        frames.call("sandbox.update", sandbox="a", lifetimeMs=0)
        refused(frames, "give it a lifetimeMs", "sandbox.update", sandbox="a", endAction="stop")


def test_a_look_wakes_nobody():
    with Daemon() as daemon, daemon.frames() as frames, daemon.frames() as watcher:
        frames.call("process.start", sandbox="a", command="echo line; exec sleep 1000", process="p")
        frames.call("process.wait", sandbox="a", process="p", text="line")
        frames.call("context.create", sandbox="a", language="bash", context="c")
        output = frames.call("exec", sandbox="a", command="echo out")["output"]
        looks = (("sandbox.get", {}), ("process.list", {}), ("process.get", {"process": "p"}), ("process.logs", {"process": "p"}), ("session.list", {}),
                 ("context.list", {}), ("context.get", {"context": "c"}), ("context.history", {"context": "c"}), ("output.read", {"output": output, "stream": "stdout"}), ("network.log", {}))
        for kind in ("memory", "files", "stopped"):
            if kind == "stopped":
                frames.call("sandbox.stop", sandbox="a")
            else:
                frames.call("sandbox.pause", sandbox="a", memory=kind == "memory")
            told = kinds(frames)
            follow = watcher.ask("process.follow", sandbox="a", process="p")
            events = watcher.ask("sandbox.events", sandbox="a")
            for method, params in looks:
                try:
                    answer = frames.call(method, sandbox="a", **params)
                    assert kind == "memory" or answer.get("processes", []) in ([], 0), (method, answer)
                except Failed as error:
                    assert kind != "memory" and error.name == "not_found", (method, error)
            assert kinds(frames) == told, "no look wakes it"
            assert not watcher.is_answered(events)
            if kind == "memory":
                assert not watcher.is_answered(follow), "it goes on with its process"
            while kind != "memory" and follow not in watcher.answers:
                watcher.turn()
        frames.call("process.list", sandbox="new")
        assert kinds(frames)["new"] == ("running", None), "one that is not there is made, as ever"


VFORK = r"""
#include <unistd.h>
#include <fcntl.h>
int main(void) { if (vfork() == 0) { for (;;) pause(); } return 0; }
"""


def test_guests_that_make_it_hard_to_freeze():
    """A parent in vfork(2) waits in the kernel; a stopped process and a tracer wait too; a file of a mount waits for its server."""
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o755)
        with open(os.path.join(directory, "data"), "wb") as file:
            file.write(b"x" * (8 << 20))
        with Daemon("--mount-root", directory) as daemon, daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="a", mount={"dirs": {"/m": directory}})
            frames.call("file.write", sandbox="a", path="v.c", content=VFORK)
            assert frames.call("exec", sandbox="a", command="cc -o v v.c")["exitCode"] == 0
            programs = ("exec ./v", "exec sh -c 'kill -STOP $$'", "while :; do cat /m/data > /dev/null; done", "while :; do echo 3 > f; rm f; done")
            for i, program in enumerate(programs):
                frames.call("process.start", sandbox="a", command=program, process=f"p{i}")
            for _ in range(10):
                assert frames.call("sandbox.pause", sandbox="a", save=False)["state"] == "paused"
                before = processor_ms(frames, "a")
                assert processor_ms(frames, "a") == before
                assert frames.call("sandbox.resume", sandbox="a")["resumed"] == "memory"
            assert frames.call("exec", sandbox="a", command="wc -c < /m/data")["stdout"].strip() == str(8 << 20)
            assert frames.call("sandbox.pause", sandbox="a", save=False)["state"] == "paused"
            assert frames.call("sandbox.stop", sandbox="a")["state"] == "stopped"


def test_a_host_that_cannot_freeze():
    """An ordinary user's keeper without groups of its own: the pause is refused, and nothing is lost."""
    need_ordinary_user()
    with private_of_user() as (_, frames):
        frames.call("exec", sandbox="a", command="X=1")
        if "freezer" in frames.hello["missing"]:
            assert refused(frames, "stop the sandbox instead", "sandbox.pause", sandbox="a").name == "guard_missing"
            for option in ("idleAction", "endAction"):
                assert refused(frames, "use stop", "sandbox.update", sandbox="a", lifetimeMs=YEAR_MS, **{option: "pause"}).name == "guard_missing"
        else:
            assert frames.call("sandbox.pause", sandbox="a")["state"] == "paused"
        assert frames.call("exec", sandbox="a", command="echo $X")["stdout"] == "1\n"
