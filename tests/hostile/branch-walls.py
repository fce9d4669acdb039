"""Contexts that can be forked run anybody's code with the rights of a template
(docs/decisions/0004). Attacks with these rights, on the socket with the requests to fork, and on
forks; and attacks by a fork on its original, its siblings and everything else."""
import importlib.util
import os

from keeper_boxes import Keeper, Refused, refusal
from cloche import ORDINARY_USER, equal, need_ordinary_user

spec = importlib.util.spec_from_file_location("template_rights", os.path.join(os.path.dirname(os.path.abspath(__file__)), "template-rights.py"))
rights = importlib.util.module_from_spec(spec)
spec.loader.exec_module(rights)

TRY_ALL = rights.SYSCALLS + f"found = {rights.try_all()}\nprint({{name: r for name, r in found.items() if r not in {rights.REFUSED}}})"
CAPS = rights.SYSCALLS + "print([int(status(n), 16) for n in ('CapInh', 'CapPrm', 'CapEff', 'CapAmb')], status('NoNewPrivs'), status('Seccomp'))"
SETNS = rights.SYSCALLS + "print(call(308, os.open('/proc/self/ns/uts', 0), 0x4000000), call(317, 1, 0, 0))"
NONE, ADMIN = "[0, 0, 0, 0] 1 2\n", f"[0, {rights.SYS_ADMIN}, {rights.SYS_ADMIN}, 0] 1 2\n"
# The socket with the requests to fork, found as any code would find it.
FORK_SOCKET = """
import array, os, socket, stat
def is_fork_socket(fd):
    try:
        if not stat.S_ISSOCK(os.fstat(fd).st_mode): return False
    except OSError: return False
    return socket.socket(fileno=os.dup(fd)).type == socket.SOCK_SEQPACKET
orders = next(fd for fd in map(int, os.listdir('/proc/self/fd')) if is_fork_socket(fd))
def take():
    '''The descriptors of an order: 0, 1, 2, the channel, the namespaces (pid, user, mount, ipc, uts, cgroup, net), control groups.'''
    data, control, *_ = socket.socket(fileno=os.dup(orders)).recvmsg(4096, socket.CMSG_SPACE(4 * 64))
    return list(array.array('i', control[0][2]))
"""
HUNT = """
import os, signal
met = []
for pid in range(1, 40000):
    if pid not in (1, os.getpid()):
        try: os.kill(pid, 0); met.append(pid)
        except OSError: pass
print(met)
"""


class Forkable:
    def __init__(self, keeper):
        self.keeper, self.template, self.sandbox = keeper, keeper.template(), keeper.sandbox()
        self.box = self.sandbox.forkable(self.template)
        self.context = self.box.live()

    def fork(self, box):
        return self.context.fork(box)

    def branch(self, **spec):
        return self.fork(self.keeper.box(parent=self.box.name, **spec))


def its_rights(*before):
    with Keeper(*before) as keeper:
        it = Forkable(keeper)
        plain = it.sandbox.context(it.template).ran
        box = keeper.box(parent=it.box.name, template=True)
        branch, last = it.fork(box), it.branch()
        for run, caps, setns in [(it.context.run, ADMIN, "0"), (branch.run, ADMIN, "0"), (plain, NONE, "-1"), (last.run, NONE, "-1")]:
            equal(run(TRY_ALL), "{}\n")
            equal(run(CAPS), caps)
            assert run(SETNS).startswith(setns + " "), caps
            # Programs it starts have no rights, nor has anybody else in its box.
            equal(run("import subprocess\nprint(subprocess.run(['grep', '-c', 'Cap[IPEA][a-z]*:.*[1-9a-f]', '/proc/self/status'], "
                              "capture_output=True, text=True).stdout)"), "0\n\n")
        for other in [it.box, box]:
            equal(other.said("grep -c 'Cap[IPEA][a-z]*:.*[1-9a-f]' /proc/self/status; grep Seccomp: /proc/self/status").split(), ["0", "Seccomp:", "2"])
            assert other.python(SETNS).read("\n").startswith("-1 -1")


def test_its_rights():
    its_rights()


def test_its_rights_without_privilege():
    need_ordinary_user()
    its_rights(*ORDINARY_USER)


def a_fork_reaches_nobody(*before):
    with Keeper(*before) as keeper:
        it = Forkable(keeper)
        it.context.run("import os, signal\nopen('/workspace/of-the-original', 'w').close(); token = 'shared by birth'")
        forks = [it.branch(), it.branch(template=True), it.fork(it.sandbox.context(it.box)), it.fork(it.sandbox.forkable(it.box))]
        for index, fork in enumerate(forks):
            equal(fork.run(HUNT), "[]\n")
            equal(fork.run("print(len([p for p in os.listdir('/proc') if p.isdigit()]), os.getppid())"), "2 0\n")
            fork.run(f"open('/tmp/of-{index}', 'w').close()")
        equal(forks[0].run("print(os.listdir('/workspace'), os.listdir('/tmp'))"), "[] ['of-0']\n")
        equal(forks[1].run("print(os.listdir('/workspace'), os.listdir('/tmp'))"), "[] ['of-1']\n")
        # Boxes that share files share nothing else: a signal to all processes stays in its box.
        for fork in forks:
            equal(fork.run("os.kill(-1, signal.SIGKILL)"), "ProcessLookupError [Errno 3] No such process\n")
        equal(it.context.run("print(token)"), "shared by birth\n")
        # The twin: its own child it reaches.
        equal(forks[0].run("pid = os.fork()\nif not pid: signal.pause()\nos.kill(pid, 9); print(os.waitpid(pid, 0)[1])"), "9\n")


def test_a_fork_reaches_nobody():
    a_fork_reaches_nobody()


def test_a_fork_reaches_nobody_without_privilege():
    need_ordinary_user()
    a_fork_reaches_nobody(*ORDINARY_USER)


def test_the_original_reaches_no_fork_with_files_of_its_own():
    """It sees their numbers, for they live beneath it; those that share its sandbox are of its user, so it can end them, as itself."""
    with Keeper() as keeper:
        it = Forkable(keeper)
        it.context.run("import os, signal, time")
        own, same = it.branch(), it.fork(it.sandbox.context(it.box))
        for fork in [own, same]:
            fork.run("import os; secret = 'since it was forked'")
        said = it.context.run("""
opened = []
for pid in filter(str.isdigit, os.listdir('/proc')):
    if int(pid) in (1, os.getpid()): continue
    for name in ('mem', 'environ', 'maps', 'root/workspace', 'cwd', 'fd/0', 'ns/user', 'ns/mnt', 'ns/pid'):
        try: os.close(os.open(f'/proc/{pid}/{name}', os.O_RDONLY)); opened.append((pid, name))
        except OSError: pass
print(opened)
""")
        equal(said, "[]\n")
        equal(it.context.run("os.kill(-1, signal.SIGKILL)"), "")
        equal(same.read(), "")
        equal(own.run("print(secret)"), "since it was forked\n")


def who_takes_the_orders_himself(*before):
    """It has the box that was made for its fork, which is its own, and no more: not even the first process there."""
    with Keeper(*before) as keeper:
        it = Forkable(keeper)
        it.context.run(FORK_SOCKET)
        box = keeper.box(parent=it.box.name)
        box.said("touch /workspace/of-the-fork")
        lost = box.live()
        it.context.run("fds = take(); print(len(fds))")
        said = it.context.run("""
pid = os.fork()
if pid == 0:
    try:
""" + "".join("        " + line + "\n" for line in rights.SYSCALLS.splitlines()) + """
        for fd in fds[11:]: os.write(fd, b'0')
        print('joined', [call(308, fds[i], 0) for i in (10, 5, 6, 7, 8, 9)], os.listdir('/workspace'))
        for name in ('stat', 'mem', 'environ', 'fd/3'):
            try: os.close(os.open('/proc/1/' + name, os.O_RDONLY)); print('of PID 1', name)
            except OSError: pass
""" + "".join("        " + line + "\n"
            for line in f"found = {rights.try_all()}\nprint({{name: r for name, r in found.items() if r not in {rights.REFUSED}}})".splitlines()) + """
    except BaseException as e: print(repr(e))
    import sys; sys.stdout.flush(); os._exit(0)
os.waitpid(pid, 0)
""")
        joined, *of_init, got = said.splitlines()
        equal(joined, "joined [0, 0, 0, 0, 0, 0] ['of-the-fork']")
        equal(of_init, ["of PID 1 stat"])
        # It has every capability in the namespaces of that box, of which the filter leaves nothing that is anybody else's.
        equal({name for name, r in eval(got).items() if r >= 0}, {"take back a dropped capability"})
        equal(lost.ask("close"), {})
        box.drop()
        equal(it.context.run("print('lives')"), "lives\n")
        equal(keeper.box(parent=it.template.name).ran("print(secret)"), "of the template\n")


def test_who_takes_the_orders_himself():
    who_takes_the_orders_himself()


def test_who_takes_the_orders_himself_without_privilege():
    need_ordinary_user()
    who_takes_the_orders_himself(*ORDINARY_USER)


def who_takes_no_orders_holds_up_nobody(*before):
    with Keeper(*before) as keeper:
        it = Forkable(keeper)
        box = keeper.box(parent=it.box.name)
        orders, refused = 0, None
        while refused is None and orders < 2000:
            try:
                box.live().close()
                orders += 1
            except Refused as error:
                refused = error
        assert refused and refused.code == "invalid_state", refused
        assert orders > 10
        equal(keeper.box(parent=it.template.name).ran("print(secret)"), "of the template\n")
        # An order that waits there makes a fork in vain, for nothing listens any more; then the context goes on.
        equal(it.context.run("print('lives')"), "lives\n")


def test_who_takes_no_orders_holds_up_nobody():
    who_takes_no_orders_holds_up_nobody()


def test_who_takes_no_orders_holds_up_nobody_without_privilege():
    need_ordinary_user()
    who_takes_no_orders_holds_up_nobody(*ORDINARY_USER)


def test_who_closes_the_socket_cannot_be_forked():
    with Keeper() as keeper:
        it = Forkable(keeper)
        box = keeper.box(parent=it.box.name)
        it.context.run(FORK_SOCKET + "os.close(orders)")
        assert "closed or replaced" in it.context.branch()
        it.context.run("pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET); os.dup2(pair[0].fileno(), orders)")
        assert "closed or replaced" in it.context.branch()
        equal(refusal(box.live).code, "invalid_state")
        equal(it.context.run("print('lives')"), "lives\n")
        box.drop()
        equal(keeper.box(parent=it.template.name).ran("print(secret)"), "of the template\n")


def test_what_is_written_to_the_socket_is_read_by_nobody():
    with Keeper() as keeper:
        it = Forkable(keeper)
        it.context.run(FORK_SOCKET + """
s = socket.socket(fileno=os.dup(orders))
s.setblocking(False)
sent = 0
try:
    while sent < 5000: s.send(os.urandom(100)); sent += 1
except OSError: pass
fds = array.array('i', [os.open('/dev/null', 0)] * 200)
try: s.sendmsg([b'x'], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
except OSError: pass
s.close()
os.close(fds[0])
""")
        equal(it.branch().run("print('forked')"), "forked\n")
        equal(keeper.box(parent=it.template.name).ran("print(secret)"), "of the template\n")


def test_two_who_take_orders():
    """It forks itself, and both stand at the socket: each order is one's, and all that comes of it is a fork or none."""
    with Keeper() as keeper:
        it = Forkable(keeper)
        boxes = [keeper.box(parent=it.box.name) for _ in range(4)]
        it.context.run("""
import os
pid = os.fork()
if pid == 0:
    while guest.cloche_guest_wait_for(0) == 1:
        fork = os.fork()
        if fork: guest.cloche_guest_parent(fork)
        else:
            guest.cloche_guest_child()
            print('of the other<end>', flush=True)
            os._exit(0)
    os._exit(0)
""")
        # A process beside it blocks forking, but orders that come all the same are taken.
        assert "child processes are alive" in it.context.branch()
        for box in boxes:
            equal(box.live().read("<end>"), "of the other<end>\n")
        equal(it.context.run("os.kill(pid, 9); os.waitpid(pid, 0); print('lives')"), "lives\n")
        equal(it.branch().run("print('forked')"), "forked\n")


def test_who_does_not_let_go_of_forks_ends_with_them():
    """An ended fork stays until its original, which does not reap it, ends too: then the box of the
    first goes, and nothing else waits."""
    with Keeper() as keeper:
        it = Forkable(keeper)
        box = keeper.box(parent=it.box.name)
        it.fork(box).run("1")
        it.context.begin("import time\nwhile True: time.sleep(1000)")
        box.ask("drop-later")
        equal(keeper.box(parent=it.template.name).ran("print(secret)"), "of the template\n")
        it.box.kill(1, 9, tree=True, below=True)
        equal(it.context.read(), "")
        it.box.drop()  # answered when all that stood on it is gone
