"""Boxes of interpreters that are started beside a sandbox's: its guest, root or not, and the interpreter's own code. The driver plays the
engine; then an interpreter of the guest's own making is the engine's peer."""
import os
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import guest_acts
from cloche import equal, layer_places, need_writable_roots
from guest_acts import run_acts
from image_trees import copy_programs, make_image, make_store
from keeper_boxes import RUNTIMES, Keeper, refusal
from rpc import Daemon, Failed

TREE = "sha256-" + "6" * 64
PYTHON = os.path.join(RUNTIMES, "python")
SCRATCH = 4  # an action of volumes
LIMITS = {"diskBytes": 48 << 20, "diskInodes": 3000, "pids": 60, "memoryBytes": 200 << 20}
ACTS = guest_acts.ACTS + r"""
import shutil, signal
def put(path):
    with open(path, 'w') as file: file.write('x')
def pids(): return [int(p) for p in os.listdir('/proc') if p.isdigit()]
"""
# In the sandbox, before the other box is made: the places of the runtime and of its /proc.
PREPARE = r"""
act('run', lambda: os.rename('/run', '/moved')); act('place', lambda: os.rename('/run/cloche', '/run/moved')); act('remove', lambda: os.rmdir('/run/cloche'))
act('write', lambda: put('/run/cloche/agent.py')); act('link', lambda: os.symlink('/etc', '/run/cloche/x')); act('proc', lambda: os.rename('/proc', '/moved'))
act('masks', lambda: os.rename('/run/.null', '/run/null'))
"""
PREPARED = {"run": "EBUSY", "place": "EBUSY", "remove": "EBUSY", "write": "EROFS", "link": "EROFS", "proc": "EBUSY", "masks": "EBUSY"}
PREPARED_BY_USER = {**PREPARED, "place": "EROFS", "remove": "EROFS", "masks": "EROFS"}
# In the box of the interpreter.
INSIDE = r"""
act('write', lambda: put('/run/cloche/agent.py')); act('remove', lambda: os.unlink('/run/cloche/agent.py')); act('unmount', lambda: call(166, b'/run/cloche', 2))
act('mount', lambda: call(165, b'none', b'/run/cloche', b'tmpfs', 0, 0)); act('chmod', lambda: os.chmod('/run/cloche', 0o777))
act('sees', lambda: str([p for p in pids() if p not in (1, os.getpid())])); act('descriptors', lambda: str(sorted(map(int, os.listdir('/proc/self/fd')))[3:-1]))
act('first', lambda: os.kill(1, 9)); act('first-fds', lambda: str(os.listdir('/proc/1/fd'))); act('first-mem', lambda: open('/proc/1/mem', 'wb').close())
act('trace', lambda: call(101, 16, 1, 0, 0)); act('setns', lambda: call(308, os.open('/proc/self/ns/pid', 0), 0)); act('unshare', lambda: call(272, 0x20000000))
act('caps', lambda: [line.split()[1] for line in open('/proc/self/status') if line.startswith('CapEff')][0])
act('template', lambda: str(os.path.exists('/run/cloche/libcloche-guest.so'))); act('proc-sys', lambda: put('/proc/sys/kernel/hostname'))
"""
SHUT = {"write": "EROFS", "remove": "EROFS", "unmount": "EPERM", "mount": "EPERM", "chmod": "EROFS", "sees": "[]", "descriptors": "[]", "first": "done", "first-fds": "EACCES",
        "first-mem": "EACCES", "trace": "EPERM", "setns": "EPERM", "unshare": "EPERM", "template": "False", "proc-sys": "EROFS"}
KINDS = (({"root": True}, "00000000000004fb", PREPARED), ({"writable_root": True}, "0000000000000000", PREPARED_BY_USER))


def make_trees():
    trees = os.path.abspath("store/trees")
    os.makedirs(trees)
    os.chmod(trees, 0o700)
    os.rename(make_image(), f"{trees}/{TREE}")
    return trees


def sandbox(keeper, **more):
    """One of the tree, with its layers in memory where the kernel can."""
    more["limits"] = {**LIMITS, **more.get("limits", {})}
    if layer_places()[0] == "disk":
        keeper.scratches = getattr(keeper, "scratches", 0) + 1
        more["scratch"] = f"{keeper.scratches:032x}"
        keeper.ask(do="volume", action=SCRATCH, id=more["scratch"], size=LIMITS["diskBytes"], entries=LIMITS["diskInodes"])
    return keeper.sandbox(image=TREE, **more)


def run(box, script):
    return run_acts(box, ACTS + script)


def test_the_box():
    need_writable_roots()
    with Keeper(trees=make_trees()) as keeper:
        for kind, rights, prepared in KINDS:
            box = sandbox(keeper, **kind)
            equal(run(box, PREPARE), prepared)
            waiting = box.python("import signal; print('there', flush=True); signal.pause()")
            waiting.read("there")
            one, other = box.share(runtime=PYTHON), box.share(runtime=PYTHON)
            equal(run(one, INSIDE), {**SHUT, "caps": rights})
            # The twins: the runtime is there, and both have the files of the sandbox.
            equal(run(one, "act('agent', lambda: str('agent.py' in os.listdir('/run/cloche'))); put('/opt-or-workspace' if os.access('/', os.W_OK) else '/workspace/x'); put('/usr/made')"), {"agent": "True"})
            equal(run(other, "act('made', lambda: str(os.path.exists('/usr/made')))"), {"made": "True"})
            equal(run(box, "act('here', lambda: str(os.listdir('/run/cloche'))); act('made', lambda: str(os.path.exists('/usr/made')))"), {"here": "[]", "made": "True"})
            # A guest cannot reach the other boxes' processes by their numbers, and all end with the sandbox.
            equal(run(one, "act('kill', lambda: os.kill(-1, 9))")["kill"], "ESRCH")
            equal(run(other, "act('alive', lambda: 'yes')"), {"alive": "yes"})
            waiting.ask("close-input")
            box.drop()


def test_the_runtime_counts_for_the_sandbox():
    """Its files lie in memory: of the sandbox's limit, not of ours. And a sandbox whose processes stand still delays no keeper."""
    need_writable_roots()
    with Keeper(trees=make_trees()) as keeper:
        small = sandbox(keeper, root=True, limits={"memoryBytes": 12 << 20})
        boxes, size = 0, sum(entry.stat().st_size for entry in os.scandir(PYTHON))
        while True:
            box = small.share(runtime=PYTHON)
            try:
                if "agent.py" not in box.said("echo /run/cloche/*"):
                    break
            except Exception:
                break
            boxes += 1
            assert boxes * size < 2 * (12 << 20), "more runtimes than the memory of the sandbox"
        assert boxes > 1, boxes
        frozen, beside = sandbox(keeper, root=True), keeper.sandbox()
        frozen.freeze()
        stopped = frozen.share(runtime=PYTHON)  # answered, though it stands still
        equal(beside.said("echo here"), "here\n")
        frozen.freeze(thaws=True)
        assert "agent.py" in stopped.said("echo /run/cloche/*")


def test_templates_stay_away_from_root():
    """The users of such a sandbox are in no template's map."""
    need_writable_roots()
    with Keeper(trees=make_trees()) as keeper:
        box, template = sandbox(keeper, root=True), keeper.template()
        for make in (box.context, box.forkable):
            refused = refusal(make, template)
            assert refused.code == "invalid_state" and "has root" in refused.message, refused
        equal(refusal(box.share, template=True, runtime=PYTHON).code, "invalid_argument")
        equal(refusal(box.share, runtime=PYTHON, sandbox=True).code, "invalid_argument")
        assert "agent.py" in box.share(runtime=PYTHON).said("echo /run/cloche/*")


FRAME = "import os, struct, sys, time, json\ndef send(text, extra=0):\n    data = text.encode(); os.write(3, struct.pack('<II', len(data) + 4 + extra, len(data)) + data)\n" \
        "def read():\n    head = os.read(3, 8)\n    size = struct.unpack('<I', head[:4])[0] - 4\n    while size > 0: size -= len(os.read(3, size))\n"
ANSWER = "read(); send('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'); "
LIARS = {  # the lie of an interpreter of the guest's making, and a part of the caller's error
    "garbage": ("os.write(3, b'x' * 100)", "invalid message"),
    "flood": ("send('{', 200 << 20); os.write(3, b'y' * (1 << 20)); time.sleep(100)", "invalid message"),
    "deep": ("send('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":' + '[' * 3000 + ']' * 3000 + '}')", "invalid message"),
    "asks": ("send('{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"bridge\",\"params\":{\"target\":[\"global\",\"x\"]}}')", "between cells"),
    "fails": ("read(); send('{\"jsonrpc\":\"2.0\",\"id\":1,\"error\":{\"code\":-32000,\"message\":\"no\"}}')", "the set-up of contexts of python"),
    "closes": ("os.close(3); time.sleep(100)", "closed its connection"),
    "answers-twice": (ANSWER + "send('{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}'); time.sleep(100)", "nobody made"),
    "no-pid": (ANSWER + "read(); send('{\"jsonrpc\":\"2.0\",\"id\":4,\"result\":{\"pid\":1}}'); time.sleep(100)", "no valid process id"),
    "prints": ("sys.stderr.write('\\x1b]0;x\\x07' + 'z' * 100000 + '\\n'); sys.stderr.flush(); os._exit(7)", "ended before it was ready"),
}


def test_interpreters_of_the_guest():
    """Root replaces the interpreter: each lie is one clear error of its own context, and the rest goes on."""
    need_writable_roots()
    store, (digest,) = make_store(1)
    copy_programs(f"{store}/trees/{digest}", "/usr/bin/mv")
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=digest, root=True, limits={"memoryBytes": 300 << 20})
        frames.call("context.create", sandbox="s", context="before", language="python")
        moved = frames.call("exec", sandbox="s", command="mv /usr/bin/python3 /usr/bin/real; printf '#!/usr/bin/real\\nimport runpy; runpy.run_path(\"/opt.py\")\\n' > /usr/bin/python3; real -c 'import os; os.chmod(\"/usr/bin/python3\", 0o755)'")
        equal((moved["exitCode"], moved["stderr"]), (0, ""))
        for name, (lie, told) in LIARS.items():
            frames.call("file.write", sandbox="s", path="/opt.py", content=FRAME + lie + "\n")
            refused = frames.refused("context.create", sandbox="s", context="c", language="python")
            assert told in refused.message and "\x1b" not in refused.message and len(refused.message) < 600, (name, refused.message)
        equal(frames.call("context.run", sandbox="s", context="before", code="print(6 * 7)")["stdout"], "42\n")
        equal([context["context"] for context in frames.call("context.list", sandbox="s")["contexts"]], ["before"])
        frames.call("exec", sandbox="s", command="mv /usr/bin/real /usr/bin/python3")
        equal(frames.call("context.create", sandbox="s", context="c", language="python")["start"], "cold")
        for limits, told in (({"memoryBytes": 9 << 20}, "for want of memory; the limit of the sandbox is 9 MiB"), ({"pids": 8}, "fork in the box")):
            frames.call("sandbox.create", sandbox="small", image=digest, root=True, limits=limits)
            refusals = []
            while not refusals:
                try:
                    frames.call("context.create", sandbox="small", language="python")
                except Failed as error:
                    refusals.append(error.message)
            assert told in refusals[0], refusals
            equal(frames.call("exec", sandbox="s", command="echo here")["stdout"], "here\n")
            frames.call("sandbox.delete", sandbox="small")
