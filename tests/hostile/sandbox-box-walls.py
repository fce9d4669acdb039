"""Terminals, and boxes that share with a sandbox: the access they give, and the access they do not."""
import signal
from keeper_boxes import Keeper, Refused
from cloche import ORDINARY_USER, equal, need_ordinary_user

KILL = signal.SIGKILL

# Calls and ioctls by number, without help of a library: the kernel's errors, by name.
TRY = """
import ctypes, errno, fcntl, os, struct, sys, termios
def attempt(f, *a):
    try: f(*a); return 'ok'
    except OSError as e: return errno.errorcode[e.errno]
"""


def test_nothing_is_typed_into_a_terminal():
    with Keeper() as keeper:
        box = keeper.sandbox()
        terminal = box.python(TRY + """
wide = (1 << 32) | termios.TIOCSTI
raw = ctypes.CDLL(None, use_errno=True)
print([attempt(fcntl.ioctl, 0, termios.TIOCSTI, b'x'), attempt(fcntl.ioctl, 0, 0x541C, b'\\x02'), attempt(fcntl.ioctl, 0, termios.TIOCCONS),
       attempt(fcntl.ioctl, 0, termios.TIOCSETD, struct.pack('i', 15)), raw.syscall(16, 0, ctypes.c_ulong(wide), b'x'), ctypes.get_errno() == 1])
print('permitted', attempt(fcntl.ioctl, 0, termios.TIOCGWINSZ, b'12345678'), attempt(termios.tcgetattr, 0), attempt(os.tcgetpgrp, 0))
""", terminal=[80, 24])
        said = terminal.read("permitted ok ok ok")
        equal(said.splitlines()[0], "['EPERM', 'EPERM', 'EPERM', 'EPERM', -1, True]")
        equal(terminal.wait(), 0)


def test_a_terminal_is_the_boxes_own():
    with Keeper() as keeper:
        box, other, plain = keeper.sandbox(), keeper.sandbox(), keeper.box()
        terminal = box.shell("tty; echo secret > /tmp/there; cat", terminal=[80, 24])
        equal(terminal.read("\n").strip(), "/dev/pts/0")
        equal(other.said("ls /dev/pts; cat < /dev/pts/0 2>&1 | head -1; echo hi > /dev/pts/0").splitlines()[0], "ptmx")
        assert "No such file" in other.said("cat /dev/pts/0 2>&1"), "another sandbox reaches it"
        equal(plain.said("ls -d /dev/pts /dev/ptmx 2>/dev/null"), "", "a plain run has no terminals")
        # The twin: processes in the box write to its terminals.
        box.said("echo from within > /dev/pts/0")
        terminal.read("from within")
        first = other.shell("tty", terminal=[80, 24])
        equal(first.read("0").strip(), "/dev/pts/0", "numbers begin anew in each box")


def test_terminals_end():
    with Keeper() as keeper:
        box = keeper.sandbox()
        said = box.python("""
import os, errno
held = []
why = ''
while not why:
    try: held.append(os.openpty())
    except OSError as e: why = errno.errorcode[e.errno]
print(len(held), why)
""")
        equal(said.read().split(), ["64", "ENOSPC"])
        said.wait()
        equal(box.shell("tty", terminal=[80, 24]).read("pts/").strip()[:9], "/dev/pts/")


def test_a_plain_box_refuses_a_terminal():
    with Keeper() as keeper:
        box = keeper.box()
        try:
            box.shell("tty", terminal=[80, 24])
        except Refused as refused:
            assert "only a sandbox" in refused.message, refused
        else:
            raise AssertionError("it has one")
        sandbox = keeper.sandbox()
        for size in [[0, 24], [80, 0], [70000, 24]]:
            try:
                sandbox.shell("tty", terminal=size)
            except Refused as refused:
                equal(refused.code, "invalid_argument")
            else:
                raise AssertionError(f"{size} was taken")


def test_the_hang_up_of_a_terminal_reaches_its_programs():
    with Keeper() as keeper:
        box = keeper.sandbox()
        terminal = box.shell("sleep 1000", terminal=[80, 24])
        terminal.close()
        equal(terminal.wait(), -signal.SIGHUP)


def shares_but_does_not_see(*before):
    with Keeper(*before) as keeper:
        box = keeper.sandbox()
        inside = box.shell("""echo secret > /dev/shm/file; exec python3 -c '
import os, socket
s = socket.socket(); s.bind(("127.0.0.1", 8000)); s.listen(); print("up", flush=True)
while True: c = s.accept()[0]; c.sendall(b"hello"); c.close()'""", env=["TOKEN=do-not-read"])
        inside.read("up")
        beside = box.share()
        sleeper = beside.spawn("sleep", "1000")
        # Files and ports are one.
        equal(beside.said("cat /dev/shm/file; echo mine > /workspace/new"), "secret\n")
        equal(box.said("cat /workspace/new"), "mine\n")
        equal(beside.said("exec 5<>/dev/tcp/127.0.0.1/8000; cat <&5"), "hello")
        equal([port for port, _ in beside.ports()], [8000])
        # Processes are not, on neither side.
        assert "import os, socket" not in beside.said("cat /proc/[1-9]*/cmdline"), "the sandbox's processes are seen"
        assert "do-not-read" not in beside.said("cat /proc/*/environ 2>/dev/null"), "the sandbox's environment is read"
        equal(beside.pids(), {sleeper.pid})
        equal(box.kill(1, KILL, tree=True, below=True) >= 1, True)
        assert sleeper.pid in beside.pids(), "a signal to everybody of the sandbox came over"
        again = box.spawn("sleep", "1000")
        beside.said("kill -KILL -1")
        equal(box.pids(), {again.pid})
        # /proc is masked as everywhere.
        equal(beside.said("cat /proc/interrupts /proc/cmdline /proc/kallsyms; ls /proc/bus"), "")
        equal(beside.said("python3 -c 'import ctypes; l = ctypes.CDLL(None, use_errno=True); print(l.umount2(b\"/proc\", 2), ctypes.get_errno())'"), "-1 1\n")


def test_who_shares_does_not_see_the_others():
    shares_but_does_not_see()


def test_who_shares_does_not_see_the_others_without_privilege():
    need_ordinary_user()
    shares_but_does_not_see(*ORDINARY_USER)


def test_groups_are_shared():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 30, "memoryBytes": 64 << 20})
        beside = box.share()
        crowd = box.shell("for i in $(seq 25); do sleep 1000 & done 2>/dev/null; echo up; wait")
        crowd.read("up")
        said = beside.said("for i in $(seq 20); do sleep 0.1 & done 2>&1; wait")
        assert "retry" in said or "fork" in said, said
        box.kill(crowd.pid, KILL, tree=True)
        program = beside.python("b = bytearray(200 << 20)")
        equal(program.wait(), -KILL)
        assert box.ask("usage")["oomKills"] >= 1
        equal(beside.said("echo alive"), "alive\n")


def test_who_shares_ends_with_the_sandbox():
    with Keeper() as keeper:
        box = keeper.sandbox()
        beside = [box.share() for _ in range(3)]
        for each in beside:
            each.shell("trap '' TERM INT HUP; echo up; while :; do sleep 1000; done").read("up")
        beside[0].drop()
        box.drop()
        beside[1].ask("dead")
        beside[2].ask("dead")
        for what in ["usage", "limit"]:
            try:
                beside[1].ask(what)
            except Refused as refused:
                equal(refused.code, "invalid_state")
        fresh = [keeper.box() for _ in range(3)]
        assert not {b.id for b in fresh} & {b.id for b in beside[1:]}, "a number was given out that its owner still uses"
        beside[1].drop()
        beside[2].drop()
        try:
            beside[2].drop()
        except Refused as refused:
            equal(refused.code, "invalid_state")
        equal(fresh[0].said("echo alive"), "alive\n")


def test_nothing_else_can_be_shared_with():
    with Keeper() as keeper:
        plain, sandbox = keeper.box(), keeper.sandbox()
        beside = sandbox.share()
        sandbox_gone = keeper.sandbox()
        sandbox_gone.drop()
        for shared_id, code in [(plain.id, "invalid_state"), (beside.id, "invalid_state"), (sandbox_gone.id, "invalid_state"), (4000, "invalid_state"),
                                (1 << 20, "invalid_state")]:
            try:
                keeper.box(shared_id=shared_id)
            except Refused as refused:
                equal(refused.code, code)
            else:
                raise AssertionError(f"box {shared_id} was shared with")
        try:
            keeper.sandbox(shared_id=sandbox.id)
        except Refused as refused:
            equal(refused.code, "invalid_argument")
        else:
            raise AssertionError("a sandbox shares with another")
        try:
            beside.ask("limit", limits={"pids": 50})
        except Refused as refused:
            equal(refused.code, "invalid_argument")
        else:
            raise AssertionError("a box has limits in groups of another")


def test_a_bomb_in_the_sandbox_does_not_hold_the_keeper():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 200, "cpuPercent": 5})
        box.python("import os\nprint('up', flush=True)\nwhile True:\n    try: os.fork()\n    except OSError: pass").read("up")
        beside = box.share()
        other = keeper.box()
        equal(other.said("echo alive"), "alive\n")
        other.drop()
        beside.drop()
        box.drop()
