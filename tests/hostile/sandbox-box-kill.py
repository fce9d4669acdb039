"""A sandbox's processes end when they are to, whatever they do against it; and only they."""
import signal
import time
from keeper_boxes import Keeper, Refused
from cloche import equal, wait_for

KILL, TERM, STOP, CONT = signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP, signal.SIGCONT


def until_nobody(box, spared=()):
    """Killed processes may take a moment to disappear; no new ones appear."""
    for _ in range(100):
        left = box.pids() - set(spared)
        if not left:
            return
        time.sleep(0.02)
    raise AssertionError(f"{left} live on")


def killed(box, program, **how):
    count = box.kill(program.pid, KILL, tree=True, **how)
    assert count > 0, count
    return count


def test_daemons_that_forked_twice_die_with_their_tree():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("for i in 1 2 3; do (setsid sh -c 'setsid sleep 1000 & sleep 1000' &) ; done; exec sleep 1000", reaps=True)
        wait_for(lambda: box.said("ps -eo comm= | grep -c sleep") == "7\n", "all of them")
        equal(killed(box, program), 10)
        equal(program.wait(), -KILL)
        equal(box.pids(), set())


def test_without_reaping_a_daemon_is_nobodys():
    """The twin: double-forked processes stay beneath a program only if it reaps."""
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("(setsid sleep 1000 &); echo up; exec sleep 1000")
        program.read("up")
        equal(killed(box, program), 1)
        equal(len(box.pids()), 1)
        equal(box.kill(1, KILL, tree=True, below=True) > 0, True)
        until_nobody(box)


# Each process prints once that there is no room for another.
BOMB = """
import os
print('up', flush=True)
is_told = False
while True:
    try: os.fork()
    except OSError:
        if not is_told: print('full', flush=True)
        is_told = True
"""
# Each child forks twice and its parent dies: every process has a new parent a moment later.
RUNNERS = """
import os
print('up', flush=True)
for _ in range(20):
    try:
        if os.fork() == 0: break
    except OSError: pass
else:
    while True:
        try: os.wait()
        except OSError: pass
while True:
    try:
        if os.fork() > 0: os._exit(0)
        os.setsid()
    except OSError: pass
"""

# It forks nothing: a shell whose fork is refused, because the runners have every process, waits seconds.
COUNTS = """
import itertools, os, time
for i in itertools.count():
    with open('/tmp/next', 'w') as file: file.write(str(i))
    os.replace('/tmp/next', '/tmp/count')
    time.sleep(0.01)
"""


def test_a_fork_bomb_does_not_outrun_the_signal():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 200})
        bystander = box.spawn("sleep", "1000")
        program = box.python(BOMB, reaps=True)
        program.read("up")
        time.sleep(0.5)
        killed(box, program)
        equal(program.wait(), -KILL)
        until_nobody(box, {bystander.pid})
        equal(box.pids(), {bystander.pid})


def test_processes_that_change_their_parent_all_the_time_are_met():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 200})
        for _ in range(5):
            program = box.python(RUNNERS, reaps=True)
            program.read("up")
            time.sleep(0.2)
            killed(box, program)
            equal(program.wait(), -KILL)
            until_nobody(box)


def test_who_wakes_the_stopped_does_not_save_them():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 200})
        bystander = box.python(COUNTS)
        friends = [box.python("import os\nprint('up', flush=True)\nwhile True: os.kill(-1, 18)") for _ in range(3)]
        for friend in friends:
            friend.read("up")
        for _ in range(2):
            program = box.python(RUNNERS, reaps=True)
            program.read("up")
            time.sleep(0.3)
            killed(box, program)
            equal(program.wait(), -KILL)
        # Other processes go on.
        before = int(box.said("cat /tmp/count"))
        for _ in range(100):
            if int(box.said("cat /tmp/count")) > before:
                break
            time.sleep(0.1)
        else:
            raise AssertionError(f"{bystander.pid} counts no longer")
        for friend in friends:
            killed(box, friend)


def test_threads_that_fork_are_met():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 200})
        program = box.python("""
import os, subprocess, threading, time
all_started = threading.Event()  # what the first ones start would else leave no room for the others
def spawn():
    all_started.wait()
    while True:
        try: subprocess.Popen(['setsid', 'sleep', '1000'], stderr=subprocess.DEVNULL)
        except OSError: time.sleep(0.01)
for _ in range(8): threading.Thread(target=spawn).start()
print('up', flush=True)
all_started.set()
""", reaps=True)
        program.read("up")
        time.sleep(0.5)
        killed(box, program)
        equal(program.wait(), -KILL)
        until_nobody(box)


def test_a_process_whose_first_thread_ended_is_killed():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("""python3 -c '
import ctypes, threading, time
threading.Thread(target=lambda: (time.sleep(0.2), print("up", flush=True), time.sleep(1000))).start()
ctypes.CDLL(None).pthread_exit(None)' & wait""", reaps=True)
        program.read("up")
        equal(killed(box, program), 2)
        until_nobody(box)


def test_the_stopped_and_the_deaf_are_killed():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("trap '' TERM INT HUP; (trap '' TERM; sleep 1000) & kill -STOP $!; echo up; while :; do sleep 1000; done")
        program.read("up")
        assert box.kill(program.pid, TERM, tree=True) >= 2
        time.sleep(0.2)
        assert program.pid in box.pids(), "it ignores SIGTERM"
        killed(box, program)
        equal(program.wait(), -KILL)
        until_nobody(box)


def test_the_spared_live_on_with_what_is_beneath_them():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("sh -c 'sleep 1000 & wait' & echo $!; sh -c 'sleep 1000 & wait' & wait", reaps=True)
        spared = int(program.read("\n"))
        wait_for(lambda: box.said("ps -eo comm= | grep -c sleep") == "2\n", "all of them")
        equal(killed(box, program, below=True, spared=[spared]), 2)
        equal(len(box.pids()), 3)
        assert {program.pid, spared} <= box.pids()
        equal(killed(box, program, below=True), 2)
        program.wait()
        until_nobody(box)


def test_below_leaves_the_root_as_it_was():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("sleep 1000 & echo up; wait; echo again; read line; echo $line")
        program.read("up")
        equal(killed(box, program, below=True), 1)
        program.read("again")
        program.write("it runs\n")
        program.read("it runs")
        equal(program.wait(), 0)
        stopped = box.shell("sleep 1000 & echo up; kill -STOP $$; echo on")
        stopped.read("up")
        wait_for(lambda: box.state(stopped) == "T", "the shell to stop itself")
        killed(box, stopped, below=True)
        equal(box.state(stopped), "T", "what was stopped before is stopped after")
        equal(box.kill(stopped.pid, CONT), 1)
        equal(stopped.wait(), 0)


def test_one_process_or_its_tree():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.shell("trap 'echo heard' USR1; sleep 1000 & echo up; while :; do wait; done")
        program.read("up")
        equal(box.kill(program.pid, signal.SIGUSR1), 1)
        program.read("heard")
        equal(box.kill(program.pid, STOP, tree=True), 2)
        wait_for(lambda: box.state(program) == "T", "the program to stop")
        equal(box.kill(program.pid, CONT, tree=True), 2)
        equal(killed(box, program), 2)


def test_the_init_is_nobodys_to_kill():
    with Keeper() as keeper:
        box = keeper.sandbox()
        said = box.said("""python3 -c '
import ctypes, os, signal
libc = ctypes.CDLL(None, use_errno=True)
for number in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM, signal.SIGSEGV, signal.SIGCHLD):
    os.kill(1, number)
print([libc.ptrace(request, 1, 0, 0) for request in (16, 0x4206)], ctypes.get_errno() == 1)
for name in ("mem", "environ", "maps", "root", "cwd", "exe", "fd", "ns"):
    try: os.listdir(f"/proc/1/{name}") if name in ("fd", "ns") else os.readlink(f"/proc/1/{name}") if name in ("root", "cwd", "exe") else open(f"/proc/1/{name}").read(1)
    except OSError as e: print(name, e.errno)
'""")
        lines = said.split("\n")
        equal(lines[0], "[-1, -1] True")
        equal([line.split()[0] for line in lines[1:] if line], ["mem", "environ", "maps", "root", "cwd", "exe", "fd", "ns"])
        equal(box.said("echo alive"), "alive\n")


def test_what_cannot_be_killed_is_said():
    with Keeper() as keeper:
        box = keeper.sandbox()
        for bad, code in [({"pid": 1, "signal": 9}, "invalid_argument"), ({"pid": 1, "signal": 9, "tree": True}, "invalid_argument"),
                          ({"pid": 0, "signal": 9}, "invalid_argument"), ({"pid": -1, "signal": 9, "tree": True}, "invalid_argument"),
                          ({"pid": 2, "signal": 0}, "invalid_argument"), ({"pid": 2, "signal": 65}, "invalid_argument"),
                          ({"pid": 2, "signal": 9, "below": True}, "protocol")]:
            try:
                box.ask("kill", **bad)
            except Refused as refused:
                equal(refused.code, code)
            else:
                raise AssertionError(f"{bad} was done")
        equal(box.kill(4000, KILL), 0)
        equal(box.kill(4000, KILL, tree=True), 0)


def test_the_init_answers_in_a_full_box():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 300, "cpuPercent": 100})
        program = box.python(BOMB, reaps=True)
        program.read("full")
        equal(box.ports(), [])
        try:
            box.spawn("true")
        except Refused as refused:
            equal(refused.code, "resource")
        else:
            raise AssertionError("there was room for a process")
        killed(box, program)
        until_nobody(box)


def test_a_child_that_is_stopped_before_its_exec_is_let_go_on():
    with Keeper() as keeper:
        box = keeper.sandbox()
        stopper = box.python("import os, signal\nprint('up', flush=True)\nwhile True:\n    for p in os.listdir('/proc'):\n"
                             "        if p.isdigit() and int(p) > os.getpid():\n            try: os.kill(int(p), signal.SIGSTOP)\n            except OSError: pass")
        stopper.read("up")
        for _ in range(3):
            started = box.spawn("true")
            box.kill(started.pid, CONT)
        killed(box, stopper)
