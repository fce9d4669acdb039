"""There are no more processes for the daemon, its keeper and all boxes together: operations that
need one fail by name and leave nothing behind, and all others go on."""
from hostile_sandboxes import Box, Daemon, Failed, Host, wait_for
from own_group import bounded, used

REFUSED = ("resource", "spawn", "template")  # the host had no process for us; the box had none for a program, or a template for its child
PYTHON = {"language": "python", "code": "return 6 * 7"}
# Fork up to the box's own limit, and hold all processes.
HOLD = "python3 -c 'import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(1000)\nexcept OSError: print(\"full\", flush=True)\ntime.sleep(1000)'"


class Tenant:
    """One that has all it needs: a sandbox with a session, a context, and a file."""

    def __init__(self, frames, name="tenant"):
        self.box = Box(frames, name)
        self.box.run("echo precious > f", session="other")
        self.box.call("context.create", context="c", language="python")
        self.box.call("file.write", path="g", content="written\n")

    def is_served(self):
        box = self.box
        assert box.says("read word < f; echo $word") == b"precious\n"
        assert box.says("echo $((6 * 7))", session="other") == b"42\n"
        assert box.call("context.run", context="c", code="print(6 * 7)")["stdout"] == "42\n"
        assert box.call("file.read", path="g")["content"] == "written\n"
        assert box.call("process.get", process=box.witness)["status"] == "running"


def attempt(frames, method, **params):
    """1 if it succeeded; an error names the missing resource."""
    try:
        result = frames.call(method, **params)
    except Failed as error:
        assert error.name in REFUSED and (error.name == "spawn" or "Resource temporarily unavailable" in error.message), (method, params, error.name, error.message)
        return 0
    assert method != "call" or (result["status"], result.get("result")) == ("success", 42), result
    return 1


def attempts(frames, round_number):
    done = [attempt(frames, "call", **PYTHON), attempt(frames, "call", **PYTHON, warm=False),
            attempt(frames, "call", language="python", code=f"return 42 # {round_number}", limits={"memoryBytes": 64 << 20})]
    for name, more in (("new", {}), ("unusual", {"env": {"A": "b"}})):
        done.append(attempt(frames, "sandbox.create", sandbox=name, **more))
        done.append(attempt(frames, "exec", sandbox=name, command="echo made > f"))
    done.append(attempt(frames, "sandbox.save", sandbox="saved"))
    done.append(attempt(frames, "exec", sandbox="rests", command="read word < f"))
    done.append(attempt(frames, "context.create", sandbox="new", context="c", language="python"))
    return done


def works_again(box):
    """False while killed processes still hold their places, and a shell finds none."""
    try:
        box.is_well()
    except Failed as error:
        print("+", error)
        return False
    return True


def clear(frames):
    for row in frames.call("sandbox.list")["sandboxes"]:
        if row["sandbox"] in ("new", "unusual"):
            frames.call("sandbox.delete", sandbox=row["sandbox"])
    frames.call("sandbox.stop", sandbox="rests")


def works(frames, number):
    """All of it, as if nothing had been."""
    assert all(attempts(frames, number)), "something does not work again"
    assert frames.call("call", language="c", code=f"int twice(int n) {{ return {number} + 2 * n; }}", args=[21])["result"] == 42 + number
    assert frames.call("exec", sandbox="new", command="cat f")["stdout"] == "made\n"
    assert frames.call("exec", sandbox="rests", command="(cat f)")["stdout"] == "saved\n"
    frames.call("sandbox.stop", sandbox="new")
    assert frames.call("exec", sandbox="new", command="cat f")["stdout"] == "made\n"
    clear(frames)


def begin(frames):
    for name in ("saved", "rests"):
        frames.call("exec", sandbox=name, command="echo saved > f")
    frames.call("sandbox.stop", sandbox="rests")
    return Tenant(frames)


def test_each_process_is_the_last_one():
    """Leaves so many processes, one more each time: each step of making boxes fails once."""
    with Daemon() as daemon, daemon.frames() as frames:
        tenant, host, refused = begin(frames), Host(daemon), 0
        works(frames, 0)
        engine, keepers = daemon.engine_pid(), host.keepers
        for room in (0, 1, 2, 3, 5, 8):
            with bounded("pids", room):
                refused += attempts(frames, room).count(0)
                tenant.is_served()
            clear(frames)
        assert refused >= 10, refused
        works(frames, 1)
        tenant.is_served()
        assert daemon.engine_pid() == engine and set(keepers[:2]) <= set(Host(daemon).keepers), "nothing was started again"
        lost = [line for line in daemon.lines() if line["event"] == "sandbox-changes-lost"]
        assert not lost, lost
        wait_for(lambda: host.now()["processes"] < 60)


def test_boxes_that_take_all():
    """Two fork to their own limits, which are more than there is. The twin: with room for both they only have their own."""
    with Daemon() as daemon, daemon.frames() as frames:
        tenant = begin(frames)
        evil = [Box(frames, f"evil{number}", limits={"pids": 100}) for number in range(2)]
        for room in (120, 300):
            before = used("pids")
            with bounded("pids", room):
                for box in evil:
                    box.call("process.start", process=f"hold{room}", command=HOLD)
                    box.call("process.wait", process=f"hold{room}", text="full", timeoutMs=20000)
                assert used("pids") - before > (115 if room == 120 else 150)
                tenant.is_served()
                if room == 120:
                    attempts(frames, room)
                else:
                    works(frames, room)
                for box in evil:
                    box.call("process.kill", process=f"hold{room}", signal="KILL")
                    box.call("process.wait", process=f"hold{room}", timeoutMs=20000)
            clear(frames)
            for box in evil:
                wait_for(lambda: works_again(box))
        works(frames, 2)
        tenant.is_served()


def test_sandboxes_until_there_are_no_more_processes():
    """A caller makes one after the other. Confirmed ones go on, and a deleted one makes room for the next."""
    with Daemon() as daemon, daemon.frames() as frames:
        tenant, made = begin(frames), []
        with bounded("pids", 60):
            for number in range(60):
                if not attempt(frames, "exec", sandbox=f"box{number}", command=f"echo {number} > f"):
                    break
                made.append(number)
            assert 5 < len(made) < 60, made
            tenant.is_served()
            for number in made:
                assert frames.call("exec", sandbox=f"box{number}", command="read n < f; echo $n")["stdout"] == f"{number}\n"
            for number in made[:5]:
                frames.call("sandbox.delete", sandbox=f"box{number}")
            wait_for(lambda: attempt(frames, "exec", sandbox="again", command="echo served"))
        works(frames, 3)
