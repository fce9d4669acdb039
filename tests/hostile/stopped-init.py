"""Set-up code keeps the user namespace of a box that its template forks into, and stops the first
process of that box. Its own runs wait in vain, and no others do."""
import os
import signal
import sys

from cloche import SOURCE, command_line, equal, need_root, process_state, wait_for

TIMEOUT = 120
ANSWER_S = 30  # of the first process
sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from clocks import Clock  # noqa: E402
from rpc import Daemon, Failed  # noqa: E402

# Before each fork: a process beside the template, which joins the user namespace of the order and stops the box's first process.
STOP = """
import ctypes, os, signal, time
libc = ctypes.CDLL(None, use_errno=True)
met = 0
def others_user_namespaces():
    own = os.readlink('/proc/self/ns/user')
    for name in os.listdir('/proc/self/fd'):
        try: target = os.readlink('/proc/self/fd/' + name)
        except OSError: continue
        if target.startswith('user:') and target != own: yield int(name)
def fork_here(fds):
    own, other = os.open('/proc/self/ns/pid', os.O_RDONLY), [fd for fd in fds if os.readlink(f'/proc/self/fd/{fd}').startswith('pid:')]
    libc.setns(own, 0x20000000)
    pid = libc.syscall(57)
    if pid and other: libc.setns(other[-1], 0x20000000)
    os.close(own)
    return pid
def stop():
    global met
    held = list(others_user_namespaces())
    if not held or met or not os.path.exists('/tmp/armed'): return
    met = 1
    own = os.readlink('/proc/self/ns/pid')
    boxes = [int(fd) for fd in os.listdir('/proc/self/fd') if link(fd).startswith('pid:') and link(fd) != own]
    if fork_here(boxes): return
    libc.setns(held[-1], 0x10000000)
    for name in os.listdir('/proc'):
        if name.isdigit() and int(name) != os.getpid() and 'python' not in open(f'/proc/{name}/comm').read():
            try: os.kill(int(name), signal.SIGSTOP)
            except OSError: pass
    while True: time.sleep(1000)
def link(fd):
    try: return os.readlink(f'/proc/self/fd/{fd}')
    except OSError: return ''
os.register_at_fork(before=stop)
"""


def stopped(processes_of):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and process_state(pid) == "T" and processes_of in command_line(pid)]


def attack(evil, victim, attempt):
    """The number of a run that is held up while others are served; None: it was answered before, as the order was for another box than the one that was stopped."""
    prefix = evil.call("prefix.create", language="python", code=STOP + f"# {attempt}\nopen('/tmp/armed', 'w').close()\n")["prefix"]
    number = evil.ask("call", prefix=prefix, code="open('/workspace/written', 'w').close(); return 6 * 7")
    wait_for(lambda: stopped("box-init"), "the attack")
    for i in range(3):
        equal(victim.call("exec", sandbox=f"victim{i}", command="echo served")["stdout"], "served\n")
        equal(victim.call("call", language="python", code="return 6 * 7", warm=True)["result"], 42)
    if not evil.is_answered(number):
        return number
    evil.answers.pop(number)
    evil.call("prefix.dispose", prefix=prefix)
    return None


def test_who_stops_a_boxes_init_holds_up_nobody():
    need_root()
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        number = next(filter(None, (attack(evil, victim, attempt) for attempt in range(8))), None)
        assert number, "the run that was held up was answered before the others"
        try:
            print("+", evil.wait(number))
        except Failed as error:  # it was stopped before the run had begun
            print("+", error)
        equal(victim.call("exec", sandbox="victim0", command="echo served")["stdout"], "served\n")


def test_who_stops_nothing_is_served():
    need_root()
    with Daemon() as daemon, daemon.frames() as frames:
        prefix = frames.call("prefix.create", language="python", code=STOP)["prefix"]
        result = frames.call("call", prefix=prefix, code="open('/workspace/written', 'w').close(); return 6 * 7")
        equal((result["result"], [change["path"] for change in result["files"]["created"]]), (42, ["/workspace/written"]))


def box_init_of(frames, sandbox):
    """On the host: the parent of a process that a command of that sandbox started."""
    marker = f"stopped-init-{os.getpid()}-"  # of this test alone
    frames.call("process.start", sandbox=sandbox, command=f"exec -a {marker} sleep 1000")
    wait_for(lambda: found(marker), "the program")
    return next(pid for pid in ancestors(found(marker)[0]) if command_line(pid).startswith("box-init"))


def found(word):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and command_line(pid).startswith(word)]


def ancestors(pid):
    while pid != "0":
        with open(f"/proc/{pid}/stat") as file:
            pid = file.read().rsplit(")", 1)[1].split()[1]
        yield pid


def test_a_sandbox_that_cannot_be_stopped_is_deleted():
    """Its init is stopped, from outside, while the sandbox is: deleting it does not wait for that."""
    need_root()
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as other:
        init = int(box_init_of(evil, "evil"))
        os.kill(init, signal.SIGSTOP)
        number = evil.ask("sandbox.stop", sandbox="evil")
        equal(other.call("exec", sandbox="other", command="echo served")["stdout"], "served\n")
        assert not evil.is_answered(number), "it was stopped without its init"
        other.call("sandbox.delete", sandbox="evil")
        wait_for(lambda: not os.path.exists(f"/proc/{init}"), "the box's end")
        try:
            evil.wait(number)
        except Failed as error:
            print("+", error)
        equal(other.call("exec", sandbox="evil", command="echo anew")["stdout"], "anew\n")


def test_requests_to_a_sandbox_whose_init_is_stopped_fail():
    """And it goes on when its init does."""
    need_root()
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as evil, daemon.frames() as other:
        init = int(box_init_of(evil, "evil"))
        evil.call("exec", sandbox="evil", command="echo kept > file")
        os.kill(init, signal.SIGSTOP)
        numbers = [evil.ask(method, sandbox="evil") for method in ("sandbox.save", "port.list", "process.killAll")]
        equal(other.call("exec", sandbox="other", command="echo served")["stdout"], "served\n")
        clock.let_pass(ANSWER_S, evil)
        for number in numbers:
            try:
                print("+", evil.wait(number))
            except Failed as error:
                print("+", error)
        os.kill(init, signal.SIGCONT)
        equal(evil.call("exec", sandbox="evil", command="cat file")["stdout"], "kept\n")
        evil.call("sandbox.save", sandbox="evil")


def test_one_that_answers_is_saved():
    """The twin."""
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="echo kept > kept")
        equal(frames.call("sandbox.stop", sandbox="a")["state"], "stopped")
        equal(frames.call("exec", sandbox="a", command="cat kept")["stdout"], "kept\n")
