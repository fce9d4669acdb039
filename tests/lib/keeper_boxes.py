"""Boxes of a keeper without an engine, through box-driver: Keeper(), Box, Program. Standard library only."""
import json
import os
import signal
import subprocess

from cloche import descendants, wait_for

BUILD = os.environ["CLOCHE_BUILD"]
DRIVER = os.path.join(BUILD, "tests", "box-driver")

SCRATCH = 4  # the action of volumes (proto/keeper.h)
NOBODY = (1 << 31) - 1  # no process has this number

TEMPLATE = """
import ctypes, os, sys
guest = ctypes.CDLL('/run/cloche/libcloche-guest.so')
why = ctypes.create_string_buffer(200)
secret = 'of the template'
guest.cloche_guest_start()
if guest.cloche_guest_freeze(3, why, 200): sys.exit(why.value)
print('frozen', flush=True)
while guest.cloche_guest_wait():
    pid = os.fork()
    if pid:
        guest.cloche_guest_parent(pid)
        continue
    if guest.cloche_guest_child(): break
    exec(compile(open(0, closefd=False).read(), 'script', 'exec'), {'__name__': '__main__', 'secret': secret})
    sys.stdout.flush()
    os._exit(0)

# A context: lines of JSON on the channel, each a piece of code, or None for `branch`; said is ended by a mark.
import json
names = {'__name__': '__main__', 'secret': secret, 'guest': guest}

def stand_to_be_forked():
    if guest.cloche_guest_freeze(3, why, 200): return why.value.decode()
    print('frozen<end>', flush=True)
    while guest.cloche_guest_wait_for(3) == 1:
        pid = os.fork()
        if pid: guest.cloche_guest_parent(pid)
        else: guest.cloche_guest_child()
        if not pid: return

while True:
    while not guest.cloche_guest_idle(3): guest.cloche_guest_reap()
    line = b''
    while not line.endswith(b'\\n'):
        byte = os.read(3, 1)
        if not byte: os._exit(0)
        line += byte
    code = json.loads(line)
    if code is None:
        said = stand_to_be_forked()
        if said: print(said, end='<end>\\n', flush=True)
        continue
    try: exec(code, names)
    except BaseException as e: print(type(e).__name__, e)
    print('<end>', flush=True)
"""


class Refused(Exception):
    """An error from the keeper or from a box's init."""

    def __init__(self, answer):
        super().__init__(f"{answer['error']}: {answer['message']}")
        self.code, self.message = answer["error"], answer["message"]


def refusal(act, *arguments, **named):
    try:
        act(*arguments, **named)
    except Refused as refused:
        return refused
    raise AssertionError("it was done")


class Keeper:
    def __init__(self, *before, trees=None, written=False):
        """before: a command that starts the driver, to drop privilege, for example."""
        self.process = subprocess.Popen([*before, DRIVER, BUILD, RUNTIMES, *([trees] if trees else []), *(["written"] if written else [])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.names = 0

    def ask(self, **what):
        print("+", json.dumps(what)[:1000], flush=True)
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        print(" ", json.dumps(answer)[:400], flush=True)
        if "error" in answer:
            raise Refused(answer)
        return answer

    def template(self, **spec):
        """A box with an interpreter that is forked on demand; a child runs the Python code from its standard input."""
        box = self.box(template=True, **spec)
        program = box.python(TEMPLATE, template=True)
        program.read("frozen")
        return box

    def box(self, **spec):
        self.names += 1
        name = f"box{self.names}"
        return Box(self, name, self.ask(do="make", box=name, **spec)["id"])

    def sandbox(self, **spec):
        return self.box(sandbox=True, **spec)

    def sandbox_on(self, place, **spec):
        """One whose writable root lies there, in memory or on the disk, where BOX_DRIVER_VOLUMES names a directory."""
        if place == "disk":
            self.names += 1
            limits, spec["scratch"] = spec["limits"], f"{self.names:032x}"
            self.ask(do="volume", action=SCRATCH, id=spec["scratch"], size=limits["diskBytes"], entries=limits["diskInodes"])
        return self.sandbox(**spec)

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        self.process.stdin.close()
        code = self.process.wait()
        self.process.stdout.close()
        assert failure or code == 0, f"the driver ended with {code}"


class Box:
    def __init__(self, keeper, name, number):
        self.keeper, self.name, self.id = keeper, name, number

    def ask(self, do, **what):
        return self.keeper.ask(do=do, box=self.name, **what)

    def spawn(self, *argv, cwd="/workspace", env=(), **how):
        env = ["PATH=/usr/bin:/bin", "HOME=/home/cloche", *env]
        return Program(self, self.ask("spawn", argv=list(argv), cwd=cwd, env=env, **how)["pid"])

    def shell(self, script, **how):
        return self.spawn("bash", "-c", script, **how)

    def python(self, script, **how):
        return self.spawn("python3", "-c", script, **how)

    def said(self, script, **how):
        """The output of a shell script, until its end."""
        program = self.shell(script, **how)
        said = program.read()
        program.wait()
        program.close()
        return said

    def kill(self, pid, signal, **how):
        return self.ask("kill", pid=int(pid), signal=int(signal), **how)["count"]

    def share(self, **spec):
        return self.keeper.box(shared=self.name, **spec)

    def context(self, template, **spec):
        """A box beneath the template, with the files of this sandbox."""
        return self.keeper.box(shared=self.name, parent=template.name, **spec)

    def forkable(self, template, **spec):
        """The same, but others can be forked from it."""
        return self.keeper.box(shared=self.name, parent=template.name, template=True, **spec)

    def forked(self, script):
        """A child of the template above, which runs this. Its init has to respond before the next
        fork into a box that shares."""
        self.kill(NOBODY, signal.SIGCONT)
        program = Program(self, self.ask("fork")["pid"])
        program.write(script)
        program.ask("close-input")
        return program

    def live(self):
        """A persistent child of the template or context above: a context. If it is in the box of a
        template others can be forked from it in turn."""
        self.kill(NOBODY, signal.SIGCONT)
        return Live(self, self.ask("fork", context=True)["pid"])

    def agent(self):
        """Like live, for a real agent."""
        self.kill(NOBODY, signal.SIGCONT)
        return Agent(self, self.ask("fork", context=True)["pid"])

    def forked_in_vain(self):
        """The message of a child that does not arrive in its box."""
        self.kill(NOBODY, signal.SIGCONT)
        program = Program(self, self.ask("fork")["pid"])
        said = program.read()
        program.close()
        return said

    def ran(self, script):
        program = self.forked(script)
        said = program.read()
        program.close()
        return said

    def ports(self):
        return self.ask("ports")["ports"]

    def pids(self):
        """Pids of all processes in it except PID 1 and the observers."""
        script = "import os\nfor p in os.listdir('/proc'):\n    if p.isdigit() and p != '1' and int(p) != os.getpid():\n" \
                 "        try: line = open(f'/proc/{p}/stat').read()\n        except OSError: continue\n" \
                 "        if line.rsplit(')', 1)[1].split()[0] not in 'ZX': print(p)"
        program = self.python(script)
        said = program.read()
        program.wait()
        return {int(line) for line in said.split()}

    def state(self, program):
        """Its letter, of proc(5)."""
        return self.said(f"cut -d' ' -f3 /proc/{program.pid}/stat").strip()

    def drop(self):
        return self.ask("drop")

    def freeze(self, thaws=False):
        """Stop every process in the box's groups, from the host. They have stopped when this returns; a drop continues them to end them."""
        for pid in descendants(self.keeper.ask(do="keeper")["pid"]):
            for line in open(f"/proc/{pid}/cgroup"):
                _, controllers, group = line.rstrip("\n").split(":", 2)
                if not group.endswith(f"/box{self.id}") or controllers not in ("freezer", ""):
                    continue
                directory = "/sys/fs/cgroup" + ("/freezer" if controllers else "") + group
                with open(directory + ("/freezer.state" if controllers else "/cgroup.freeze"), "w") as file:
                    file.write(("THAWED" if thaws else "FROZEN") if controllers else str(int(not thaws)))
                state, stopped = ("/freezer.state", "FROZEN\n") if controllers else ("/cgroup.events", "frozen 1\n")
                wait_for(lambda: (stopped in open(directory + state).read()) != thaws, f"the freezing of {directory}")
                return
        raise AssertionError(f"no process is in the groups of box {self.id}")


class Program:
    def __init__(self, box, pid):
        self.box, self.pid = box, pid

    def ask(self, do, **what):
        return self.box.ask(do, pid=self.pid, **what)

    def read(self, until=""):
        return self.ask("read", until=until)["data"]

    def write(self, data):
        return self.ask("write", data=data)

    def resize(self, cols, rows):
        return self.ask("resize", cols=cols, rows=rows)

    def wait(self):
        """As from subprocess: the exit code, or minus the signal."""
        return os.waitstatus_to_exitcode(self.ask("wait")["waitStatus"])

    def close(self):
        return self.ask("close")


RUNTIMES = os.path.join(BUILD, "runtimes")


class Agent(Program):
    """The real agent of a language (spec/agent.md), as a template or a context."""

    def __init__(self, box, pid):
        super().__init__(box, pid)
        self.number, self.count, self.displays = 0, 0, []

    def told(self, method, **params):
        """The whole response. Displays are collected meanwhile, requests are answered."""
        self.number += 1
        self.ask("send", message={"jsonrpc": "2.0", "id": self.number, "method": method, "params": params})
        while True:
            message = self.ask("receive")["message"]
            if "method" not in message:
                assert message["id"] == self.number, message
                return message
            if message["method"] == "display":
                self.displays.append(message["params"]["data"].get("text/plain"))
            if "id" in message:
                self.ask("send", message={"jsonrpc": "2.0", "id": message["id"], "result": {}})

    def done(self, method, **params):
        answer = self.told(method, **params)
        assert "result" in answer, answer
        return answer["result"]

    def cell(self, code):
        """Its displayed value, as text."""
        self.count += 1
        self.displays = []
        said = self.done("cell", code=code, count=self.count)
        assert said["status"] == "ok", said
        return self.displays[-1] if self.displays else None

    def hindrance(self):
        """The fork blocker, or None: then it can be forked until the next request."""
        answer = self.told("branch")
        assert "result" in answer or answer["error"]["code"] == -32001, answer
        return answer["error"]["message"] if "error" in answer else None

    def fork(self, box):
        """box: one beneath its own. Returns the fork, and its number in there."""
        assert (said := self.hindrance()) is None, said
        child = box.agent()
        child.count = self.count
        return child, child.done("enter")["pid"]


def notebook(keeper, language):
    """The box of a prefix from which contexts of the language can be forked, as the engine makes it."""
    folder = os.path.join(RUNTIMES, language)
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    base = keeper.box(template=True, runtime=folder)
    env = [f"{name}={value}" for name, value in manifest["env"].items()]
    Agent(base, base.spawn(*manifest["agent"], env=env, template=True).pid).done("freeze")
    prefix = keeper.box(parent=base.name, template=True)
    agent = Agent(prefix, prefix.ask("fork", context=True)["pid"])
    name = manifest["notebook"]
    with open(os.path.join(folder, name)) as file:
        agent.done("prepare", code=file.read(), filename=name, function=None, globals={}, imports={})
    agent.done("freeze")
    return prefix


def opened(keeper, prefix, language):
    """A sandbox, and in it a context of a notebook's prefix, with its box."""
    sandbox = keeper.sandbox()
    box = sandbox.forkable(prefix)
    context = box.agent()
    assert context.done("open", cwd="/workspace/here", env={"OWN": "set"}, language=language)["pid"] > 1
    return sandbox, box, context


class Live(Program):
    def begin(self, code):
        self.ask("tell", data=json.dumps(code) + "\n")

    def finish(self):
        said = self.read("<end>\n")
        assert said.endswith("<end>\n"), said
        return said[:-len("<end>\n")]

    def run(self, code):
        """The output of the code."""
        self.begin(code)
        return self.finish()

    def branch(self):
        """From now on until the next request it can be forked. Returns the fork blocker, or None."""
        said = self.run(None)
        return None if said == "frozen" else said

    def fork(self, box):
        """box: one beneath its own."""
        assert (said := self.branch()) is None, said
        return box.live()

    def hear(self, until):
        """Notifications of the guest library, in their wire form."""
        return self.ask("hear", until=until)["data"]
