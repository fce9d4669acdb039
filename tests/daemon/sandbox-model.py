#!/usr/bin/python3
"""Random acts on sandboxes, and a model of them: after each the state that is told is that of the model, and a sandbox that runs
again has the files, pids, variables and memory that the model has. The daemon and its keeper are killed now and then.

CLOCHE_TEST_SEED=N repeats a run; CLOCHE_TEST_ALL=1 does 1000 acts."""
import collections
import hashlib
import os
import random
import signal
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from cloche import sampled
from life import below, gone, groups, keeper_of
from rpc import Daemon, Failed
from sandbox_client import wait_for

TIMEOUT = 900
ACTS = 60
ALL_ACTS = 1000
NAMES = ("a", "b", "c")
FILES = ("f0", "f1", "f2")
ADDER = "sum=0; while read -r n; do sum=$((sum + n)); echo \"sum $sum.\"; done"


class Box:
    """A sandbox as it must be. saved: contents of its files that a start after a kill may find."""

    def __init__(self):
        self.state, self.kind = "running", None
        self.files, self.saved, self.saved_at = {}, [{}], None
        self.may_be_new = False  # it ran since saved, so that a kill loses something, or nothing
        self.forget()

    def forget(self):
        """Its memory."""
        self.variable, self.cells, self.processes = "", 0, {}

    def told(self):
        return self.state, self.kind


class Sums:
    def __init__(self, pid):
        self.pid, self.sum = pid, 0


class Life:
    """The daemon, a client and the model."""

    def __init__(self, state, seed):
        self.random, self.state = random.Random(seed), state
        self.boxes, self.counts, self.done = {}, collections.Counter(), []
        self.daemon = self.frames = None
        self.open()

    # -- the daemon ----------------------------------------------------------------------------------------

    def open(self):
        self.daemon = Daemon("--state-dir", self.state, "--save-every", "0")
        self.frames = self.daemon.frames()

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
        self.note("daemon " + how)
        self.end_by(how)
        for name, box in self.boxes.items():
            found = self.frames.call("sandbox.get", sandbox=name)
            if box.files not in box.saved:
                assert found["lost"]["from"] < found["lost"]["to"], found
            assert found.get("savedAt") == box.saved_at or how == "stop", (found, box.saved_at)
            box.saved_at = found.get("savedAt")

    def end_by(self, how):
        family = below(self.daemon.process.pid)
        if how == "keeper":
            keeper = keeper_of(family)
            os.kill(keeper, signal.SIGKILL)
            wait_for(lambda: not groups(keeper))
        if how == "kill":
            self.daemon.process.kill()
            self.daemon.process.wait()
            gone(family, "after a kill")
        else:
            assert self.daemon.stop() == 0 or how == "keeper"
        self.close()
        self.lose_all(how == "stop")
        self.open()

    def interrupt(self, name):
        """A kill in the middle of a request: it is done then, or it is not."""
        if name not in self.boxes:
            return self.variable(name)
        how, box = self.random.choice(("kill", "keeper")), self.boxes[name]
        method, params = self.random.choice((("sandbox.pause", {}), ("sandbox.pause", {"save": False}), ("sandbox.pause", {"memory": False}),
                                             ("sandbox.stop", {}), ("sandbox.save", {}), ("sandbox.resume", {})))
        steps = self.random.randrange(8)
        self.note(f"interrupt {name} {how} {method} {params} {steps} {box.told()}")
        is_live, files = box.state == "running" or box.kind == "memory", dict(box.files)
        can_pause = box.state == "running" or box.kind == "memory" and "memory" in params
        self.frames.ask(method, sandbox=name, **params)
        for _ in range(steps):
            self.frames.call("sandbox.list")
        self.end_by(how)
        found = self.call(name, "sandbox.get")
        told = found["state"], found.get("pauseKind")
        allowed = {box.told()}
        if method == "sandbox.pause" and can_pause:
            allowed |= {("paused", "files"), ("stopped", None)}
        if method in ("sandbox.stop", "sandbox.resume"):
            allowed.add(("stopped", None))
        assert told in allowed, (told, allowed)
        if found.get("savedAt") != box.saved_at:
            assert is_live and method != "sandbox.resume" and "save" not in params, found
            box.saved, box.saved_at = [files], found["savedAt"]
        box.state, box.kind = told
        return None

    # -- the model -----------------------------------------------------------------------------------------

    def note(self, act):
        self.done.append(act)
        self.counts[act.split()[0]] += 1

    def check_states(self):
        """No look wakes a sandbox."""
        listed = {row["sandbox"]: (row["state"], row.get("pauseKind")) for row in self.frames.call("sandbox.list")["sandboxes"]}
        wanted = {name: box.told() for name, box in self.boxes.items()}
        assert listed == wanted, (listed, wanted)

    def refused(self, method, *names, **params):
        try:
            answer = self.frames.call(method, **params)
        except Failed as error:
            assert error.name in names, error.name
            return
        raise AssertionError(f"{method} {params}: {answer}")

    def wake(self, name):
        """A request that needs it starts it, or lets it go on."""
        box = self.boxes.setdefault(name, Box())
        if box.kind == "files" or box.state == "stopped":
            found = self.look(name)
            assert found in box.saved, (found, box.saved)
            box.files = dict(found)
        box.state, box.kind, box.may_be_new = "running", None, True
        return box

    def call(self, name, method, **params):
        return self.frames.call(method, sandbox=name, **params)

    def run(self, name, command):
        answer = self.call(name, "exec", command=command)
        assert answer["exitCode"] == 0, answer
        return answer["stdout"]

    def look(self, name):
        """The digests of its files."""
        lines = self.run(name, "cd /workspace; for f in f?; do [ -e $f ] && sha256sum $f; done; true").splitlines()
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
        assert self.call(name, "sandbox.get")["processes"] == len(box.processes)

    # -- acts ----------------------------------------------------------------------------------------------

    def write(self, name):
        box, path = self.wake(name), self.random.choice(FILES)
        content = self.random.randbytes(self.random.choice((0, 1, 100, 70000)))
        self.note(f"write {name} {path} {len(content)}")
        self.frames.call("file.write", content, sandbox=name, path=path, content={"$": "bytes", "at": 0, "n": len(content)})
        box.files[path] = hashlib.sha256(content).hexdigest()

    def remove(self, name):
        box = self.wake(name)
        self.note(f"remove {name}")
        self.run(name, "rm -f /workspace/f?")
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

    def some_cell(self, name):
        self.wake(name)
        number = self.random.randrange(1, 1000)
        self.note(f"cell {name} {number}")
        self.cell(name, number)

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
        self.boxes.pop(name, None)
        wait_for(lambda: name not in [row["sandbox"] for row in self.frames.call("sandbox.list")["sandboxes"]])

    def race(self, name):
        """A pause and a command at once: either may be first."""
        box, value = self.wake(name), str(self.random.randrange(1000))
        self.run(name, "true")
        params = self.random.choice(({}, {"save": False}, {"memory": False}))
        self.note(f"race {name} {params}")
        before = dict(box.files)
        requests = [("sandbox.pause", params), ("exec", {"command": f"X={value}; echo {value} > /workspace/f0"})]
        self.random.shuffle(requests)
        numbers = {method: self.frames.ask(method, sandbox=name, **given) for method, given in requests}
        assert self.frames.wait(numbers["sandbox.pause"])["state"] == "paused"
        if not self.frames.is_answered(numbers["exec"]):  # it was frozen on its way
            self.call(name, "sandbox.resume")
        box.files["f0"] = hashlib.sha256(f"{value}\n".encode()).hexdigest()
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
                (self.save, 6), (self.pause, 14), (self.resume, 8), (self.stop, 4), (self.delete, 2), (self.race, 5), (self.check, 6))
        act = self.random.choices([row[0] for row in acts], [row[1] for row in acts])[0]
        kind = self.random.random()
        if kind < 0.03:
            self.end_daemon()
        elif kind < 0.07:
            self.interrupt(self.random.choice(NAMES))
        else:
            act(self.random.choice(NAMES))
        self.check_states()


def test_random_lives():
    seed = int(os.environ.get("CLOCHE_TEST_SEED") or random.SystemRandom().randrange(1 << 32))
    print(f"CLOCHE_TEST_SEED={seed}", flush=True)
    with tempfile.TemporaryDirectory() as directory:
        os.chmod(directory, 0o711)
        life = Life(os.path.join(directory, "state"), seed)
        try:
            for _ in range(sampled(ACTS, ALL_ACTS)):
                life.act()
            life.end_daemon()
            for name in NAMES:
                life.check(name)
        except BaseException:
            print(f"CLOCHE_TEST_SEED={seed}: after {len(life.done)} acts: {life.done[-40:]}", file=sys.stderr, flush=True)
            raise
        finally:
            life.close()
        print(dict(life.counts))
