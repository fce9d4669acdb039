"""Code of a forkable context keeps the user namespace of its forks: there it has every capability,
CAP_SYS_PTRACE and CAP_KILL too. When a box is made beneath that fork, processes of the keeper work
in this namespace for a moment. They must hold nothing that can be taken, and block no other
request."""
import importlib.util
import json
import os

from context_cells import Daemon, Failed, Notebook
from keeper_boxes import Keeper, Refused
from cloche import ORDINARY_USER, equal, need_ordinary_user, task_children, wait_for

spec = importlib.util.spec_from_file_location("branch_walls", os.path.join(os.path.dirname(os.path.abspath(__file__)), "branch-walls.py"))
walls = importlib.util.module_from_spec(spec)
spec.loader.exec_module(walls)

# In the original, before it is forked: keeps the namespace that comes with the order.
STEAL = """
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
stolen, is_thief = [], True
def steal():
    if not is_thief: return
    own = os.readlink('/proc/self/ns/user')
    for name in os.listdir('/proc/self/fd'):
        try: target = os.readlink('/proc/self/fd/' + name)
        except OSError: continue
        if target.startswith('user:') and target != own: stolen.append(os.dup(int(name)))
os.register_at_fork(before=steal)
"""
# A process with all capabilities in the fork's namespace, which stops every process that appears,
# inspects it, and leaves it or not.
MEET = """
import json, time
def errno_of(act):
    try: return [None, act()]
    except OSError as e: return [e.errno, None]
def trace(pid):
    if libc.ptrace(0x4206, pid, None, None) < 0: raise OSError(ctypes.get_errno(), 'ptrace')
    libc.ptrace(17, pid, None, None)
def read_memory(pid):
    with open(f'/proc/{pid}/mem', 'r+b', 0): return 'open'
def meet(pid, is_for_ever):
    name = open(f'/proc/{pid}/comm').read().strip()
    if is_for_ever and name != 'cloche-keeper': raise OSError('it is to be made, until somebody of ours is met')
    os.kill(pid, signal.SIGSTOP)
    found = {'name': name, 'fds': errno_of(lambda: {fd: os.readlink(f'/proc/{pid}/fd/{fd}') for fd in os.listdir(f'/proc/{pid}/fd')}),
             'mem': errno_of(lambda: read_memory(pid)), 'cwd': errno_of(lambda: os.readlink(f'/proc/{pid}/cwd')), 'maps': errno_of(lambda: open(f'/proc/{pid}/maps').read(1) and 1),
             'map': errno_of(lambda: os.close(os.open(f'/proc/{pid}/uid_map', os.O_WRONLY))), 'pidfd': errno_of(lambda: fetch(pid)), 'trace': errno_of(lambda: trace(pid))}
    found['name after'], found['state'] = open(f'/proc/{pid}/comm').read().strip(), open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1][1]
    if not is_for_ever: os.kill(pid, signal.SIGCONT)
    return found
def fetch(pid):
    pidfd = os.pidfd_open(pid)
    if libc.syscall(438, pidfd, 3, 0) < 0: raise OSError(ctypes.get_errno(), 'pidfd_getfd')
def watch(is_for_ever):
    if libc.setns(stolen[-1], 0x10000000) < 0: os._exit(1)
    known = {name for name in os.listdir('/proc') if name.isdigit()} | {str(os.getpid())}
    out = os.open('/tmp/met', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(out, b'"watching"\\n')
    pause = 0
    while True:
        if pause: time.sleep(pause)
        for name in os.listdir('/proc'):
            if not name.isdigit() or name in known: continue
            try: os.write(out, json.dumps(meet(int(name), is_for_ever)).encode() + b'\\n')
            except OSError: continue  # it has no right over it yet, or it has ended
            known.add(name)
            pause = 0.05 if is_for_ever else 0
def begin(is_for_ever):
    if not os.fork(): watch(is_for_ever)
    while not os.path.exists('/tmp/met'): pass
    print(len(stolen) > 0)
"""
# The same, but every process that appears is stopped and continued, until it has made another: then
# it is killed before it can report that one.
KILL = """
def is_ours(pid):
    try: return open(f'/proc/{pid}/comm').read() == 'cloche-keeper\\n'
    except OSError: return False
def others(known): return [int(name) for name in os.listdir('/proc') if name.isdigit() and name not in known]
def kill(pid, known):
    while True:
        os.kill(pid, signal.SIGSTOP)
        if any(is_ours(other) for other in others(known | {str(pid)})):
            os.kill(pid, signal.SIGKILL)
            return
        os.kill(pid, signal.SIGCONT)
def watch(is_for_ever):
    if libc.setns(stolen[-1], 0x10000000) < 0: os._exit(1)
    known = {name for name in os.listdir('/proc') if name.isdigit()} | {str(os.getpid())}
    os.close(os.open('/tmp/met', os.O_WRONLY | os.O_CREAT))
    while True:
        for pid in others(known):
            try:
                if is_ours(pid): kill(pid, known)
            except OSError: pass
"""
# The same, but the first process of a box goes on a little at a time, until it has become box-init.
STEP = """
def is_first(pid): return '\\t1\\n' in next(line for line in open(f'/proc/{pid}/status') if line.startswith('NSpid:'))
def step(pid, known, out):
    os.kill(pid, signal.SIGSTOP)
    try:
        if is_first(pid) and open(f'/proc/{pid}/comm').read() != 'cloche-keeper\\n':
            files = {name: errno_of(lambda: os.close(os.open(f'/proc/{pid}/{name}', flags))) for name, flags in
                     (('mem', os.O_RDWR), ('environ', 0), ('fd/3', os.O_PATH), ('uid_map', os.O_WRONLY))}
            os.write(out, json.dumps(files).encode() + b'\\n')
            known.add(str(pid))
    finally: os.kill(pid, signal.SIGCONT)
def watch(is_for_ever):
    if libc.setns(stolen[-1], 0x10000000) < 0: os._exit(1)
    known = {name for name in os.listdir('/proc') if name.isdigit()} | {str(os.getpid())}
    out = os.open('/tmp/met', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(out, b'"watching"\\n')
    while True:
        for name in os.listdir('/proc'):
            if not name.isdigit() or name in known: continue
            try: step(int(name), known, out)
            except (OSError, StopIteration): continue
"""
# The same, but all are stopped, as they come.
STOP_ALL = """
def watch(is_for_ever):
    if libc.setns(stolen[-1], 0x10000000) < 0: os._exit(1)
    known = {name for name in os.listdir('/proc') if name.isdigit()} | {str(os.getpid())}
    out = os.open('/tmp/met', os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    while True:
        for name in os.listdir('/proc'):
            if not name.isdigit() or name in known: continue
            try:
                os.kill(int(name), signal.SIGSTOP)
                known.add(name)
                is_ours = open(f'/proc/{name}/comm').read() == 'cloche-keeper\\n'
                if is_ours: os.write(out, b'cloche-keeper\\n')
                else: os.kill(int(name), signal.SIGCONT)
            except OSError: pass
"""
OURS = "cloche-keeper"
AT_ONCE = 8  # boxes that the engine has made (src/engine/box/keeper-client.c)
REFUSED = [1, 13]  # EPERM, EACCES


def evil_file(client, notebook):
    return client.call("file.read", sandbox=notebook.sandbox, path="/tmp/met").get("content", "")


def attacked(keeper, is_for_ever, watcher=MEET):
    """A fork whose user namespace its original has, and the original, with a process that watches."""
    it = walls.Forkable(keeper)
    it.context.run(STEAL)
    box = keeper.box(parent=it.box.name, template=True)
    fork = it.fork(box)
    equal(it.context.run(watcher + f"begin({is_for_ever})"), "True\n")
    return it, box, fork


def met_by(it):
    return [m for m in map(json.loads, it.context.run("print(open('/tmp/met').read())").split("\n")[:-2]) if isinstance(m, dict)]


def helpers_have_nothing(*before):
    with Keeper(*before) as keeper:
        it, box, fork = attacked(keeper, False)
        met = []
        for attempt in range(400):  # a process that ends while it is looked at does not count, and the attack may lack the processor
            made = keeper.box(parent=box.name)
            equal(made.said("echo $((6 * 7))"), "42\n")  # the twin: it is a box all the same
            met = [m for m in met_by(it) if m["name"] == m["name after"] == OURS and m["state"] == "T"]
            if len(met) >= 3 or (met and attempt >= 20):
                break
        assert met, "nobody of ours was met; the attack must be written anew"
        for m in met:
            for what in ("fds", "mem", "cwd", "maps", "map", "pidfd", "trace"):
                assert m[what][0] in REFUSED, (what, m)


def test_helpers_have_nothing():
    helpers_have_nothing()


def test_helpers_have_nothing_without_privilege():
    need_ordinary_user()
    helpers_have_nothing(*ORDINARY_USER)


def first_processes_have_nothing(*before):
    """Each is box-init from a moment on; from that moment it must be as closed as later."""
    with Keeper(*before) as keeper:
        it, box, fork = attacked(keeper, False, MEET + STEP)
        for attempt in range(400):
            made = keeper.box(parent=box.name)
            equal(made.said("echo $((6 * 7))"), "42\n")
            if len(met_by(it)) >= 20:
                break
        met = met_by(it)
        assert len(met) >= 20, "too few of ours were met; the attack must be written anew"
        for m in met:
            equal({name: answer[0] in REFUSED for name, answer in m.items()}, dict.fromkeys(m, True), m)


def test_first_processes_have_nothing():
    first_processes_have_nothing()


def test_first_processes_have_nothing_without_privilege():
    need_ordinary_user()
    first_processes_have_nothing(*ORDINARY_USER)


def untold(keeper_pid):
    """Children that are not box-init, nor will be."""
    stats = []
    for child in task_children(keeper_pid):
        with open(f"/proc/{child}/stat") as file:
            stats.append(file.read())
    return [stat for stat in stats if f"({OURS}) Z" in stat]


def kill_one(keeper, box):
    for attempt in range(500):
        try:
            keeper.box(parent=box.name).drop()
        except Refused as refused:
            if "killed" in refused.message:
                return
    raise AssertionError("nobody was killed in time; the attack must be written anew")


def who_kills_them_leaves_nothing(*before):
    with Keeper(*before) as keeper:
        it, box, fork = attacked(keeper, False, MEET + KILL)
        pid = task_children(keeper.process.pid)[0]
        kill_one(keeper, box)
        wait_for(lambda: not untold(pid), "the child of who was killed")  # it would keep the template's box for ever
        box.drop()
        equal(len(task_children(pid)), 3)  # the template's, the sandbox's and the context's
        equal(it.context.run("print(6 * 7)"), "42\n")


def test_who_kills_them_leaves_nothing():
    who_kills_them_leaves_nothing()


def test_who_kills_them_leaves_nothing_without_privilege():
    need_ordinary_user()
    who_kills_them_leaves_nothing(*ORDINARY_USER)


def others_are_served(victim):
    for i in range(3):
        equal(victim.call("exec", sandbox=f"victim{i}", command="echo served")["stdout"], "served\n")
        equal(victim.call("call", language="python", code="return 6 * 7", warm=True)["result"], 42)


def thief(n, name, hunt):
    """A context that searches for the keeper's processes, and its fork, with the means to stop them."""
    n.create(name, forkable=True)
    equal(n.run(STEAL, name)["status"], "ok")
    fork = n.call("context.fork", context=name, count=1, forkable=True)["contexts"][0]["context"]
    equal(n.run("is_thief = False\nfor fd in stolen: os.close(fd)", fork)["status"], "ok")
    equal(n.run("import os\nif os.path.exists('/tmp/met'): os.unlink('/tmp/met')\n" + hunt + "begin(True)", name)["status"], "ok")
    return fork


def stop_one(evil, victim, n, name):
    """The number of a request that is blocked while others are served; None: the stopped process
    had finished its task before."""
    fork = thief(n, name, MEET)
    for attempt in range(200):
        number = evil.ask("context.fork", sandbox="evil", context=fork, count=2)
        while OURS not in evil_file(victim, n) and not evil.is_answered(number):
            pass
        if OURS in evil_file(victim, n):
            others_are_served(victim)
            if not evil.is_answered(number):
                return number
            n.delete(name)
            return None
        for context in evil.wait(number)["contexts"]:  # it was too quick
            n.delete(context["context"])
    raise AssertionError("nobody of ours was met; the attack must be written anew")


def fails(evil, number):
    """True if the blocked request ends with an error. It may succeed: the process was stopped after its last act."""
    if number is None:
        return False
    try:
        evil.wait(number)
    except Failed as error:
        print("+", error)
        return True
    return False


def test_who_stops_them_holds_up_nobody():
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        n = Notebook(daemon, evil, "evil")
        victim.call("exec", sandbox="victim", command="true")
        assert any(fails(evil, stop_one(evil, victim, n, f"a{attempt}")) for attempt in range(8)), \
            "ours were met too late each time, or who was stopped made a box all the same; the attack must be written anew"
        # The contexts of that tree are gone; its sandbox and everybody else's are well.
        equal(evil.call("exec", sandbox="evil", command="echo served")["stdout"], "served\n")
        equal(victim.call("exec", sandbox="victim", command="echo served")["stdout"], "served\n")


def stop_many(evil, victim, n, name):
    """The number of a request of which as many boxes are held up as are made at once; None: the attack lacked the processor."""
    fork = thief(n, name, MEET + STOP_ALL)
    stopped = evil.ask("context.fork", sandbox="evil", context=fork, count=32)
    while not evil.is_answered(stopped):
        if evil_file(victim, n).count(OURS) >= AT_ONCE:
            return stopped
    evil.answers.pop(stopped)
    n.delete(name)
    return None


def test_who_stops_many_holds_up_nobody():
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        n = Notebook(daemon, evil, "evil")
        victim.call("exec", sandbox="victim", command="true")
        stopped = next(filter(None, (stop_many(evil, victim, n, f"a{attempt}") for attempt in range(8))), None)
        assert stopped, "too few of ours were met; the attack must be written anew"
        equal(victim.call("call", language="python", code="return 6 * 7")["result"], 42)  # of a template that is not there yet
        equal(victim.call("call", language="python", code="return 6 * 7", warm=True)["result"], 42)
        assert not evil.is_answered(stopped), "the forks that were stopped were answered before the others"
