#!/usr/bin/python3
"""Random acts on sandboxes, and a model of them: after each the state that is told is that of the model, and a sandbox that runs
again has the files, pids, variables and memory that the model has. Hours pass, the real time jumps, and the daemon and its keeper
are killed, between acts and in the middle of them; they leave no process, group, mount and file.

CLOCHE_TEST_SEED=N repeats a run; CLOCHE_TEST_ALL=1 does 1000 acts, and lets a day pass in steps of ten minutes."""
import collections
import hashlib
import os
import random
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from clocks import Clock
from cloche import possible_layers, sampled
from image_trees import copy_programs, make_store
from life import alive, below, gone, groups, keeper_of
from rpc import Daemon, Failed
from sandbox_client import wait_for

TIMEOUT = 900
ACTS = 40
ALL_ACTS = 1000
DAY_S = 86400
NAMES = ("a", "b", "c", "d")
SNAPSHOTS = ("s", "t")
FILES = ("/workspace/f0", "/workspace/f1", "/tmp/f2")
ROOT_FILES = ("/etc/f3", "/opt/f4")  # of sandboxes whose root can be written to
PROGRAMS = ("/usr/bin/sha256sum", "/usr/bin/rm")
ADDER = "sum=0; while read -r n; do sum=$((sum + n)); echo \"sum $sum.\"; done"


class Context:
    """A context of Python that can be forked. It ends with the one that it was forked from."""

    def __init__(self, value=0):
        self.value, self.copies, self.is_ended = value, [], False

    def copy(self):
        self.copies.append(Context(self.value))
        return self.copies[-1]

    def end(self):
        self.is_ended = True
        for copy in self.copies:
            copy.end()
        self.copies = []

    def has_copies(self):
        return any(not copy.is_ended for copy in self.copies)


class Box:
    """A sandbox as it must be. saved: contents of its files that a start after a kill may find. kind_of: options of its creation."""

    def __init__(self, kind_of, saved=({},), saved_at=None):
        self.kind_of, self.paths = kind_of, FILES + (ROOT_FILES if kind_of else ())
        self.state, self.kind = "running", None
        self.files, self.saved, self.saved_at = dict(saved[0]), list(saved), saved_at
        self.context = None
        self.idle_s = self.ends_s = None
        self.idle_action, self.end_action, self.used_s = "stop", "stop", 0
        self.may_be_new = False  # it ran since saved, so that a kill loses something, or nothing
        self.forget()

    def forget(self):
        """Its memory."""
        self.variable, self.cells, self.processes = "", 0, {}
        if self.context:
            self.context.end()
        self.context = None

    def copy(self, saved):
        """Another with the same definition, that begins with these files."""
        box = Box(self.kind_of, saved)
        box.idle_s, box.idle_action, box.end_action = self.idle_s, self.idle_action, self.end_action
        return box

    def told(self):
        return self.state, self.kind


class Snapshot:
    def __init__(self, box, saved):
        self.box, self.saved = box.copy(saved), list(saved)


class Sums:
    def __init__(self, pid):
        self.pid, self.sum = pid, 0


class Life:
    """The daemon, a client and the model. step_s: time that passes at once."""

    def __init__(self, state, seed, clock, images, step_s):
        self.random, self.state, self.clock, self.step_s = random.Random(seed), state, clock, step_s
        self.images, self.kinds = images
        self.boxes, self.snapshots, self.counts, self.done = {}, {}, collections.Counter(), []
        self.mounts = len(open("/proc/self/mounts").readlines())
        self.daemon = self.frames = None
        self.real_s, self.is_real_stepped = 0, False
        self.open()

    # -- the daemon ----------------------------------------------------------------------------------------

    def open(self):
        self.daemon = Daemon("--state-dir", self.state, "--save-every", "0", *self.images, env=self.clock.env)
        self.frames = self.daemon.frames()
        self.family = below(self.daemon.process.pid)
        self.keeper = keeper_of(self.family)

    def close(self):
        self.frames.close()
        self.daemon.__exit__(None, None, None)

    def lose_all(self, is_orderly):
        for box in self.boxes.values():
            was_memory = box.told() == ("paused", "memory")
            if is_orderly and (box.state == "running" or was_memory):
                box.saved = [dict(box.files)]
                box.state, box.kind = ("paused", "files") if was_memory else ("stopped", None)
            elif was_memory:
                box.state, box.kind = "paused", "files"
                if box.saved_at is None and box.may_be_new:
                    box.state, box.kind = "stopped", None
            elif box.state == "running":
                box.state = "stopped"
            box.forget()

    def end_daemon(self):
        how = self.random.choice(("stop", "kill", "kill", "keeper"))
        is_long = self.random.random() < 0.3
        self.note(f"daemon {how}, {self.step_s if is_long else 0} s")
        self.end_by(how, is_long)
        for name, box in self.boxes.items():
            found = self.call(name, "sandbox.get")
            if box.files not in box.saved:
                assert found["lost"]["from"] < found["lost"]["to"] or self.is_real_stepped, found
            assert found.get("savedAt") == box.saved_at or how == "stop", (found, box.saved_at)
            box.saved_at = found.get("savedAt")
        self.check_files()

    def end_by(self, how, is_long=False):
        """is_long: a step of time passes before the next daemon begins."""
        family = {*self.family, *below(self.daemon.process.pid)}
        running = [box for box in self.boxes.values() if box.state == "running"]
        if how == "keeper":
            os.kill(self.keeper, signal.SIGKILL)
            wait_for(lambda: not groups(self.keeper))
        if how == "kill":
            self.daemon.process.kill()
            self.daemon.process.wait()
        else:
            assert self.daemon.stop() == 0 or how == "keeper"
        gone(family, "after its end: " + how)
        self.close()
        self.lose_all(how == "stop")
        if is_long:
            self.let_pass()
        wait_for(lambda: not groups(self.keeper))
        self.open()
        if how == "keeper":
            self.take_last_saves(running)
        if is_long:
            self.end_times()
        assert len(open("/proc/self/mounts").readlines()) == self.mounts, open("/proc/self/mounts").read()

    def take_last_saves(self, running):
        """An engine without its keeper ends in order, and may save a sandbox before its processes have died."""
        for row in self.frames.call("sandbox.list")["sandboxes"]:
            box = self.boxes.get(row["sandbox"])
            if box in running and row.get("savedAt") != box.saved_at:
                box.saved, box.saved_at = [dict(box.files)], row["savedAt"]

    def check_files(self):
        """Nothing is left but what is told."""
        place = os.path.join(self.state, str(os.geteuid()))
        found = set(os.listdir(place)) if os.path.exists(place) else set()
        assert {name for name in found if name[0] != "."} == set(self.boxes), (found, set(self.boxes))
        for name in self.boxes:
            assert set(os.listdir(os.path.join(place, name))) <= {"sandbox.json", "files", "log"}, name
        if ".snapshots" in found:
            assert set(os.listdir(os.path.join(place, ".snapshots"))) == set(self.snapshots), self.snapshots

    # -- a kill in the middle of a request: it is done then, or it is not ----------------------------------

    def choose_request(self, name):
        """The request, and the name of the sandbox or the snapshot that it makes or removes."""
        box = self.boxes.get(name)
        requests = [("sandbox.pause", {}, None), ("sandbox.pause", {"save": False}, None), ("sandbox.pause", {"memory": False}, None), ("sandbox.stop", {}, None),
                    ("sandbox.save", {}, None), ("sandbox.resume", {}, None), ("sandbox.delete", {}, name)]
        new = self.unused_name()
        if new:
            requests += [("sandbox.fork", {"names": [new]}, new)] * 3
        for snapshot in SNAPSHOTS:
            requests.append(("snapshot.delete" if snapshot in self.snapshots else "sandbox.snapshot", {"snapshot": snapshot}, snapshot))
        if new and self.snapshots:
            snapshot = self.random.choice(sorted(self.snapshots))
            requests.append(("sandbox.create", {"sandbox": new, "snapshot": snapshot}, new))
        method, params, about = self.random.choice(requests)
        return method, params, about, box

    def interrupt(self, name):
        if name not in self.boxes:
            return self.variable(name)
        method, params, about, box = self.choose_request(name)
        how, steps = self.random.choice(("kill", "keeper")), self.random.choice((0, 1, 2, 3, 4, 5, 6, 8, 12, 20, 40))
        self.note(f"interrupt {name} {how} {method} {params} {steps} {box.told()}")
        before = box.told()
        files = dict(box.files)
        self.frames.ask(method, **{"sandbox": name, **params} if method != "snapshot.delete" else params)
        for _ in range(steps):
            self.frames.call("sandbox.list")
        is_ended = {"sandbox.delete": self.boxes, "snapshot.delete": self.snapshots}
        self.end_by(how)
        saved = [files] if before[0] == "running" or before[1] == "memory" else list(box.saved)
        if about in self.listed("snapshot" if about in SNAPSHOTS else "sandbox"):
            self.take_made(method, params, about, box, saved)
        elif method in is_ended:
            del is_ended[method][about]
        if name in self.boxes:
            self.take_interrupted(name, method, params, before, files)
        self.check_files()
        return None

    def take_made(self, method, params, about, box, saved):
        if method == "sandbox.snapshot":
            self.snapshots[about] = Snapshot(box, saved)
        elif method == "sandbox.fork":
            self.boxes[about] = box.copy(saved)
        elif method == "sandbox.create":
            self.boxes[about] = self.snapshots[params["snapshot"]].box.copy(self.snapshots[params["snapshot"]].saved)
        if method in ("sandbox.fork", "sandbox.create"):
            self.boxes[about].state, self.boxes[about].saved_at = "stopped", self.call(about, "sandbox.get").get("savedAt")

    def take_interrupted(self, name, method, params, before, files):
        box = self.boxes[name]
        found = self.call(name, "sandbox.get")
        told = found["state"], found.get("pauseKind")
        is_live = before[0] == "running" or before[1] == "memory"
        allowed = {box.told()}
        if method == "sandbox.pause" and (before[0] == "running" or before[1] == "memory" and "memory" in params):
            allowed |= {("paused", "files"), ("stopped", None)}
        if method in ("sandbox.stop", "sandbox.resume", "sandbox.fork", "sandbox.snapshot", "sandbox.delete") and before != ("paused", "files"):
            allowed.add(("stopped", None))
        if method in ("sandbox.stop", "sandbox.resume"):
            allowed.add(("stopped", None))
        assert told in allowed, (told, allowed)
        if found.get("savedAt") != box.saved_at:
            assert is_live and method != "sandbox.resume" and "save" not in params, (found, box.saved_at)
            box.saved, box.saved_at = [files], found["savedAt"]
        box.state, box.kind = told

    # -- time ----------------------------------------------------------------------------------------------

    def let_pass(self):
        """A step of the time that no clock sets, and perhaps of the real time."""
        self.clock.passed_s += self.step_s
        if self.random.random() < 0.4:
            self.real_s, self.is_real_stepped = self.random.choice((0, -DAY_S, DAY_S, 9000 * DAY_S, -9000 * DAY_S)), True
        self.clock.jump(self.real_s + self.clock.passed_s, monotonic=self.clock.passed_s)

    def passing(self, _name=None):
        self.let_pass()
        self.note(f"pass {self.clock.passed_s} s, the real time {self.real_s} s beside")
        self.end_times()

    def end_times(self):
        """All whose time is over."""
        changed = set()
        while due := [(name, action) for name, box in self.boxes.items() if (action := self.due(box))]:
            for name, action in due:
                self.end_time(name, self.boxes[name], action)
                changed.add(name)
        wait_for(lambda: self.listed("sandbox") == {name: box.told() for name, box in self.boxes.items()})
        for name in changed & set(self.boxes):
            self.take_save(name, self.call(name, "sandbox.get"), [dict(self.boxes[name].files)])

    def due(self, box):
        """The action, or None."""
        now = self.clock.passed_s
        is_over = box.ends_s is not None and now >= box.ends_s
        if is_over and (box.end_action == "delete" or box.state == "running"):
            return box.end_action
        if is_over:
            box.ends_s = None
        is_busy = box.processes or box.context and box.context.has_copies()
        is_idle = box.state == "running" and box.idle_s is not None and now - box.used_s > box.idle_s and not is_busy
        return box.idle_action if is_idle else None

    def end_time(self, name, box, action):
        if action == "delete":
            box.forget()
            del self.boxes[name]
        elif action == "stop":
            box.state, box.kind = "stopped", None
            box.forget()
        else:
            box.state, box.kind = "paused", "memory"
        if box.ends_s is not None and self.clock.passed_s >= box.ends_s:
            box.ends_s = None

    def limit_time(self, name):
        if name not in self.boxes:
            return self.refused("sandbox.update", "not_found", sandbox=name, idleMs=1)
        box, halves = self.boxes[name], self.random.choice((0, 1, 1, 3))  # of steps: what the acts take themselves does not decide
        span_ms = halves * self.step_s * 500
        if self.random.random() < 0.5:
            box.idle_s, box.idle_action = span_ms / 1000 if halves else None, self.random.choice(("stop", "pause"))
            params = {"idleMs": span_ms, "idleAction": box.idle_action}
        elif halves:
            box.ends_s, box.end_action = self.clock.passed_s + span_ms / 1000, self.random.choice(("stop", "pause", "delete"))
            params = {"lifetimeMs": span_ms, "endAction": box.end_action}
        else:
            box.ends_s, params = None, {"lifetimeMs": 0}
        self.note(f"time {name} {params}")
        answer = self.call(name, "sandbox.update", **params)
        assert ("endsAt" in answer) == (box.ends_s is not None), answer

    # -- the model -----------------------------------------------------------------------------------------

    def note(self, act):
        self.done.append(act)
        self.counts[act.split()[0]] += 1

    def check_states(self):
        """No look wakes a sandbox."""
        listed = self.listed("sandbox")
        wanted = {name: box.told() for name, box in self.boxes.items()}
        assert listed == wanted, (listed, wanted)
        listed = self.listed("snapshot")
        assert set(listed) == set(self.snapshots), (listed, self.snapshots)

    def listed(self, noun):
        rows = self.frames.call(noun + ".list")["sandboxes" if noun == "sandbox" else "snapshots"]
        return {row[noun]: (row.get("state"), row.get("pauseKind")) for row in rows}

    def unused_name(self):
        names = [name for name in (*NAMES, *self.kinds) if name not in self.boxes]
        return self.random.choice(names) if names else None

    def refused(self, method, *names, **params):
        try:
            answer = self.frames.call(method, **params)
        except Failed as error:
            assert error.name in names, error.name
            return
        raise AssertionError(f"{method} {params}: {answer}")

    def wake(self, name):
        """A request that needs it starts it, or lets it go on."""
        if name not in self.boxes:
            kind_of = self.kinds.get(name, {})
            self.call(name, "sandbox.create", idleMs=0, **kind_of)
            self.boxes[name] = Box(kind_of)
        box = self.boxes[name]
        if box.kind == "files" or box.state == "stopped":
            found = self.look(name)
            assert found in box.saved, (found, box.saved)
            box.files = dict(found)
        box.state, box.kind, box.may_be_new = "running", None, True
        return box

    def call(self, name, method, attachments=b"", **params):
        answer = self.frames.call(method, attachments, sandbox=name, **params)
        if name in self.boxes:
            self.boxes[name].used_s = self.clock.passed_s
        return answer

    def run(self, name, command):
        answer = self.call(name, "exec", command=command)
        assert answer["exitCode"] == 0, answer
        return answer["stdout"]

    def look(self, name):
        """The digests of its files."""
        lines = self.run(name, f"for f in {' '.join(self.boxes[name].paths)}; do [ -e $f ] && sha256sum $f; done; true").splitlines()
        return {line.split()[1]: line.split()[0] for line in lines}

    def check(self, name):
        """All that it has."""
        box = self.wake(name)
        assert self.look(name) == box.files, (self.look(name), box.files)
        assert self.run(name, 'echo "$X"') == box.variable + "\n"
        running = {row["process"]: row["pid"] for row in self.call(name, "process.list")["processes"] if row["status"] == "running"}
        assert running == {process: sums.pid for process, sums in box.processes.items()}, (running, box.processes)
        for process in box.processes:
            self.add(name, process, 0)
        if box.cells:
            self.cell(name, 0)
        if box.context:
            self.context_cell(name, 0)
        assert self.call(name, "sandbox.get")["processes"] == len(box.processes)

    # -- acts ----------------------------------------------------------------------------------------------

    def write(self, name):
        box = self.wake(name)
        path = self.random.choice(box.paths)
        content = self.random.randbytes(self.random.choice((0, 1, 100, 70000)))
        self.note(f"write {name} {path} {len(content)}")
        self.call(name, "file.write", content, path=path, content={"$": "bytes", "at": 0, "n": len(content)})
        box.files[path] = hashlib.sha256(content).hexdigest()

    def remove(self, name):
        box = self.wake(name)
        self.note(f"remove {name}")
        self.run(name, "rm -f " + " ".join(box.paths))
        box.files = {}

    def variable(self, name):
        box, value = self.wake(name), str(self.random.randrange(1000))
        self.note(f"variable {name} {value}")
        self.run(name, f"X={value}")
        box.variable = value

    def start(self, name):
        if len(self.processes(name)) >= 3:
            return self.end_process(name)
        box = self.wake(name)
        process = f"p{self.random.randrange(1 << 30)}"
        self.note(f"start {name} {process}")
        box.processes[process] = Sums(self.call(name, "process.start", command=ADDER, process=process, stdin=True)["pid"])

    def end_process(self, name):
        if not self.processes(name):
            return self.variable(name)
        box, process = self.wake(name), self.random.choice(sorted(self.processes(name)))
        self.note(f"kill {name} {process}")
        self.call(name, "process.kill", process=process, graceMs=0)
        del box.processes[process]

    def processes(self, name):
        return self.boxes[name].processes if name in self.boxes else {}

    def add(self, name, process, number):
        sums = self.boxes[name].processes[process]
        sums.sum += number
        self.call(name, "process.input", process=process, data=f"{number}\n")
        self.call(name, "process.wait", process=process, text=f"sum {sums.sum}.", timeoutMs=20000)

    def add_some(self, name):
        if not self.processes(name):
            return self.variable(name)
        for process in self.wake(name).processes:
            number = self.random.randrange(1, 1000)
            self.note(f"add {name} {process} {number}")
            self.add(name, process, number)

    def cell(self, name, number):
        box = self.boxes[name]
        box.cells += number
        answer = self.call(name, "context.run", language="bash", code=f"v=$((v + {number})); echo $v")
        assert answer["stdout"] == f"{box.cells}\n", (answer, box.cells)

    def context_cell(self, name, number):
        box = self.boxes[name]
        if box.context.is_ended:
            self.refused("context.run", "context_ended", sandbox=name, context="py", code="v")
            return
        box.context.value += number
        answer = self.call(name, "context.run", context="py", code=f"v += {number}; print(v)")
        assert answer["stdout"] == f"{box.context.value}\n", (answer, box.context.value)

    def some_context(self, name):
        """One that can be forked; it is made, used, or deleted after its end."""
        box = self.wake(name)
        if box.kind_of:
            return self.variable(name)
        number = self.random.randrange(1, 1000)
        self.note(f"context {name} {number} {box.context and box.context.is_ended}")
        if box.context and (box.context.is_ended or number < 100):
            box.context.end()
            box.context = None
            self.call(name, "context.delete", context="py")
            return None
        if not box.context:
            box.context = Context()
            self.call(name, "context.create", context="py", language="python", forkable=True)
            self.call(name, "context.run", context="py", code="v = 0")
        return self.context_cell(name, number)

    def some_cell(self, name):
        if self.wake(name).kind_of:
            return self.variable(name)
        number = self.random.randrange(1, 1000)
        self.note(f"cell {name} {number}")
        return self.cell(name, number)

    def take_save(self, name, answer, contents):
        """It has these contents if it was saved at all: that is omitted if nothing changed."""
        box = self.boxes[name]
        if answer.get("savedAt") != box.saved_at:
            box.saved, box.saved_at, box.may_be_new = contents, answer["savedAt"], True
        else:
            assert box.files in box.saved, "it changed, and was not saved"

    def save(self, name):
        if name not in self.boxes:
            return self.refused("sandbox.save", "not_found", sandbox=name)
        box = self.boxes[name]
        self.note(f"save {name}")
        try:
            answer = self.call(name, "sandbox.save")
        except Failed as error:
            assert error.name == "invalid_state" and box.kind == "memory", error
            return None
        if box.told() in (("stopped", None), ("paused", "files")):  # after a kill its files are not known before it runs
            assert answer.get("savedAt") == box.saved_at, answer
        else:
            self.take_save(name, answer, [dict(box.files)] if box.state == "running" else box.saved)

    def pause(self, name):
        kind = self.random.choice(("saved", "saved", "unsaved", "files"))
        params = {"saved": {}, "unsaved": {"save": False}, "files": {"memory": False}}[kind]
        self.note(f"pause {name} {kind}")
        if name not in self.boxes:
            return self.refused("sandbox.pause", "not_found", sandbox=name, **params)
        box = self.boxes[name]
        if box.state == "stopped" or box.kind == "files" or (box.kind == "memory" and kind != "files"):
            return self.refused("sandbox.pause", "invalid_state", sandbox=name, **params)
        answer = self.call(name, "sandbox.pause", **params)
        box.state, box.kind = "paused", "files" if kind == "files" else "memory"
        assert (answer["state"], answer["pauseKind"]) == box.told(), answer
        if kind != "unsaved":
            self.take_save(name, answer, [dict(box.files)])
        if kind == "files":
            box.forget()

    def resume(self, name):
        self.note(f"resume {name}")
        if name not in self.boxes:
            return self.refused("sandbox.resume", "not_found", sandbox=name)
        wanted = {("running", None): "running", ("paused", "memory"): "memory"}.get(self.boxes[name].told(), "files")
        assert self.call(name, "sandbox.resume")["resumed"] == wanted
        self.wake(name)

    def stop(self, name):
        self.note(f"stop {name}")
        if name not in self.boxes:
            return self.refused("sandbox.stop", "not_found", sandbox=name)
        box = self.boxes[name]
        answer = self.call(name, "sandbox.stop")
        assert (answer["state"], answer["processes"], answer["contexts"]) == ("stopped", 0, 0), answer
        if box.state == "running" or box.kind == "memory":
            self.take_save(name, answer, [dict(box.files)])
        box.state, box.kind = "stopped", None
        box.forget()

    def delete(self, name):
        self.note(f"delete {name}")
        self.call(name, "sandbox.delete")
        if name in self.boxes:
            self.boxes.pop(name).forget()
        wait_for(lambda: name not in [row["sandbox"] for row in self.frames.call("sandbox.list")["sandboxes"]])

    def fork(self, name):
        if name not in self.boxes:
            return self.refused("sandbox.fork", "not_found", sandbox=name)
        box, new = self.boxes[name], self.unused_name()
        self.note(f"fork {name} {new} {box.told()}")
        if not new:
            self.refused("sandbox.fork", "invalid_state", sandbox=name, names=[name])
        else:
            answer = self.call(name, "sandbox.fork", names=[new])
        if box.kind == "memory":
            self.wake(name)
        if not new:
            box.used_s = self.clock.passed_s
            return None
        omitted = [row["name"] for row in answer["omitted"] if row["kind"] == "process"]
        assert sorted(omitted) == sorted(box.processes), (answer, box.processes)
        if box.state == "running":
            box.saved, box.saved_at, box.may_be_new = [dict(box.files)], self.call(name, "sandbox.get")["savedAt"], True
        copy = self.boxes[new] = box.copy(box.saved)
        row = answer["sandboxes"][0]
        copy.state, copy.saved_at, copy.used_s = "running" if box.state == "running" else "stopped", row.get("savedAt"), self.clock.passed_s
        if box.state == "running" and box.context and not box.context.is_ended:
            copy.context = box.context.copy()
        assert ["py"] * bool(copy.context) == [context["context"] for context in self.call(new, "context.list")["contexts"]] or copy.state == "stopped", answer

    def snapshot(self, name):
        snapshot = self.random.choice(SNAPSHOTS)
        box = self.boxes.get(name)
        self.note(f"snapshot {name} {snapshot} {box and box.told()}")
        if not box:
            return self.refused("sandbox.snapshot", "not_found", sandbox=name, snapshot=snapshot)
        if snapshot in self.snapshots:
            return self.refused("sandbox.snapshot", "invalid_state", sandbox=name, snapshot=snapshot)
        taken = self.call(name, "sandbox.snapshot", snapshot=snapshot)
        found = self.call(name, "sandbox.get")
        if box.kind == "memory" and found["state"] == "running":  # it had to be saved
            self.wake(name)
        if box.state == "running":
            box.saved, box.saved_at, box.may_be_new = [dict(box.files)], found["savedAt"], True
        assert box.kind != "memory" or box.files in box.saved, box.files
        self.snapshots[snapshot] = Snapshot(box, box.saved)
        assert taken["sandbox"] == name, taken
        return None

    def drop_snapshot(self, _name):
        snapshot = self.random.choice(SNAPSHOTS)
        self.note("unsnapshot " + snapshot)
        if snapshot not in self.snapshots:
            return self.refused("snapshot.delete", "not_found", snapshot=snapshot)
        self.frames.call("snapshot.delete", snapshot=snapshot)
        del self.snapshots[snapshot]
        return None

    def begin_with_snapshot(self, name):
        new, snapshot = self.unused_name(), self.random.choice(SNAPSHOTS)
        if not new:
            return self.variable(name)
        self.note(f"begin {new} {snapshot}")
        if snapshot not in self.snapshots:
            return self.refused("sandbox.create", "not_found", sandbox=new, snapshot=snapshot)
        taken = self.snapshots[snapshot]
        answer = self.call(new, "sandbox.create", snapshot=snapshot)
        box = self.boxes[new] = taken.box.copy(taken.saved)
        box.saved_at, box.may_be_new, box.used_s = answer.get("savedAt"), True, self.clock.passed_s
        box.files = self.look(new)
        assert box.files in taken.saved, (box.files, taken.saved)
        return None

    def race(self, name):
        """A pause and a command at once: either may be first."""
        box, value = self.wake(name), str(self.random.randrange(1000))
        self.run(name, "true")
        params = self.random.choice(({}, {"save": False}, {"memory": False}))
        self.note(f"race {name} {params}")
        before = dict(box.files)
        requests = [("sandbox.pause", params), ("exec", {"command": f"X={value}; echo {value} > {FILES[0]}"})]
        self.random.shuffle(requests)
        numbers = {method: self.frames.ask(method, sandbox=name, **given) for method, given in requests}
        assert self.frames.wait(numbers["sandbox.pause"])["state"] == "paused"
        if not self.frames.is_answered(numbers["exec"]):  # it was frozen on its way
            self.call(name, "sandbox.resume")
        box.files[FILES[0]] = hashlib.sha256(f"{value}\n".encode()).hexdigest()
        try:
            self.frames.wait(numbers["exec"])
            box.variable = value
        except Failed as error:  # the command was ended by the pause that keeps files only: before or after its line
            assert "memory" in params and error.name == "sandbox_ended", error
        found = self.call(name, "sandbox.get")
        box.state, box.kind = found["state"], found.get("pauseKind")
        assert box.told() in (("running", None), ("paused", "memory"), ("paused", "files")), box.told()
        if found.get("savedAt") != box.saved_at:
            box.saved, box.saved_at = [before, dict(box.files)], found["savedAt"]
        if "memory" not in params:
            return
        was = box.told()
        box.forget()
        box.variable = None
        found = self.look(name)
        assert found in (before, box.files), found
        if was == ("running", None):  # the command started it again, or came before the pause
            assert box.files == found or found == before
        box.files = found
        box.state, box.kind = "running", None
        box.variable = self.run(name, 'echo "$X"').rstrip("\n")
        assert box.variable in ("", value)

    # -- a run ---------------------------------------------------------------------------------------------

    def act(self):
        acts = ((self.write, 10), (self.variable, 6), (self.start, 6), (self.add_some, 6), (self.end_process, 2), (self.some_cell, 6), (self.remove, 2),
                (self.save, 6), (self.pause, 14), (self.resume, 8), (self.stop, 4), (self.delete, 3), (self.race, 5), (self.check, 6),
                (self.some_context, 6), (self.fork, 8), (self.snapshot, 5), (self.drop_snapshot, 2), (self.begin_with_snapshot, 4), (self.limit_time, 8), (self.passing, 3))
        act = self.random.choices([row[0] for row in acts], [row[1] for row in acts])[0]
        kind, name = self.random.random(), self.random.choice((*NAMES, *self.kinds))
        if kind < 0.03:
            self.end_daemon()
        elif kind < 0.09:
            self.interrupt(name)
        else:
            act(name)
        self.check_states()

    def end(self):
        """All that is left, once more, then nothing."""
        self.end_daemon()
        for name in list(self.boxes):
            self.check(name)
        for name in list(self.boxes):
            self.delete(name)
        for snapshot in self.snapshots:
            self.frames.call("snapshot.delete", snapshot=snapshot)
        self.snapshots = {}
        self.check_files()


def images():
    """Options of a daemon, and options of sandboxes whose root can be written to, by name."""
    if os.geteuid() != 0 or not possible_layers():
        return (), {}
    store, (digest,) = make_store(1)
    tree = f"{store}/trees/{digest}"
    copy_programs(tree, *PROGRAMS)
    os.makedirs(tree + "/opt")
    small = {"diskBytes": 64 << 20}  # reserved, where it lies on the disk
    return ("--images", store, "--volumes", os.path.abspath("volumes")), {"w": {"image": digest, "writableRoot": True, "limits": small}, "r": {"image": digest, "root": True, "limits": small}}


def live(step_s, acts, is_day=False):
    """is_day: steps of time with a few acts between them."""
    seed = int(os.environ.get("CLOCHE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"CLOCHE_TEST_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory, Clock() as clock:
        os.chmod(directory, 0o711)
        life = Life(os.path.join(directory, "state"), seed, clock, images(), step_s)
        try:
            for i in range(acts):
                life.act()
                if is_day and i % 3 == 2:
                    life.passing()
                    life.check_states()
            life.end()
        except BaseException:
            print(f"CLOCHE_TEST_SEED={seed}: after {len(life.done)} acts: {life.done[-40:]}", file=sys.stderr, flush=True)
            raise
        finally:
            life.close()
        assert not alive(life.family) and not groups(life.keeper)
        print(dict(life.counts))


def test_random_lives():
    live(4 * 3600, sampled(ACTS, ALL_ACTS))


def test_a_day():
    steps = sampled(6, 144)
    live(DAY_S // steps, 3 * steps, is_day=True)
