"""Contexts that can be forked: state that a fork shares with its original, its own state, the depth
of forks, and the ends of both."""
import re

from keeper_boxes import Keeper, refusal
from cloche import ORDINARY_USER, equal, need_ordinary_user

LOOK = "import os; print(x, os.getcwd(), sorted(os.listdir('/workspace')))"


def forks_have_what_there_was(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        original = sandbox.forkable(template)
        context = original.live()
        equal(context.run("x = [1, secret]; open('/workspace/file', 'w').write('of the original')"), "")
        # Files of its own, the same files, another sandbox's.
        other = keeper.sandbox()
        other.said("touch /workspace/of-the-other")
        own = keeper.box(parent=original.name)
        branch = context.fork(own)
        same = context.fork(sandbox.context(original))
        elsewhere = context.fork(other.context(original))
        equal(context.run("x.append(2)"), "")
        equal(branch.run(LOOK), "[1, 'of the template'] /workspace []\n")
        equal(same.run(LOOK), "[1, 'of the template'] /workspace ['file']\n")
        equal(elsewhere.run(LOOK), "[1, 'of the template'] /workspace ['of-the-other']\n")
        equal(context.run(LOOK), "[1, 'of the template', 2] /workspace ['file']\n")
        equal(branch.run("x.append('branch'); open('/workspace/mine', 'w').close(); print(x)"), "[1, 'of the template', 'branch']\n")
        equal(own.said("ls /workspace"), "mine\n")
        equal(sandbox.said("ls /workspace"), "file\n")
        equal(context.run("print(x)"), "[1, 'of the template', 2]\n")
        # Several at once, while it is frozen there; and again after a request to it.
        boxes = [keeper.box(parent=original.name) for _ in range(3)]
        equal(context.branch(), None)
        equal([box.live().run("print(x)") for box in boxes], ["[1, 'of the template', 2]\n"] * 3)
        equal(context.run("print('goes on')"), "goes on\n")


def test_forks_have_what_there_was():
    forks_have_what_there_was()


def test_forks_have_what_there_was_without_privilege():
    need_ordinary_user()
    forks_have_what_there_was(*ORDINARY_USER)


def forks_of_forks(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        boxes = [sandbox.forkable(template)]
        contexts = [boxes[0].live()]
        contexts[0].run("x = [0]; open('/workspace/file', 'w').close()")
        for depth in range(1, 4):
            boxes.append(sandbox.forkable(boxes[-1]))
            contexts.append(contexts[-1].fork(boxes[-1]))
            equal(contexts[-1].run(f"x.append({depth}); print(x)"), str(list(range(depth + 1))) + "\n")
        own = contexts[-1].fork(keeper.box(parent=boxes[-1].name, template=True))
        equal(own.run(LOOK), "[0, 1, 2, 3] /workspace []\n")
        equal(contexts[1].run(LOOK), "[0, 1] /workspace ['file']\n")
        # The first ends, and its forks go on; its box has to stay for them.
        contexts[0].begin("import os; os._exit(7)")
        equal(contexts[0].read(), "")
        for context, has in zip([*contexts[1:], own], [2, 3, 4, 4]):
            equal(context.run("import os; print(len(x), os.system('true'))"), f"{has} 0\n")
        equal(boxes[0].kill(1, 9, tree=True, below=True), 0)
        equal(contexts[2].run("print(x)"), "[0, 1, 2]\n")


def test_forks_of_forks():
    forks_of_forks()


def test_forks_of_forks_without_privilege():
    need_ordinary_user()
    forks_of_forks(*ORDINARY_USER)


def what_ends_spares_those_above(*before):
    with Keeper(*before) as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        original = sandbox.forkable(template)
        context = original.live()
        context.run("import os, subprocess, time")
        own, same = context.fork(keeper.box(parent=original.name)), context.fork(sandbox.context(original))
        child = re.search(r"\d+", context.run("p = subprocess.Popen(['sleep', '1000']); print(p.pid)"))[0]
        # Everything in its box is killed, its interpreter with all children, but not processes in boxes beneath.
        assert original.kill(1, 9, tree=True, below=True) == 2
        equal(context.read(), "")
        assert int(child) not in original.pids()
        for fork_ in [own, same]:
            equal(fork_.run("print(os.system('true'))"), "0\n")
        # The twin: the box itself cannot go without them.
        original.ask("drop-later")
        equal([own.read(), same.read()], ["", ""])


def test_what_ends_spares_those_above():
    what_ends_spares_those_above()


def test_what_ends_spares_those_above_without_privilege():
    need_ordinary_user()
    what_ends_spares_those_above(*ORDINARY_USER)


def test_a_fork_that_is_dropped_is_let_go_of():
    """Its original waits for its next request, runs a cell, or is frozen to be forked again: no
    request to it is needed for the box to go."""
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        original = sandbox.forkable(template)
        context = original.live()
        boxes = [keeper.box(parent=original.name) for _ in range(3)]
        forks = [context.fork(box) for box in boxes]
        boxes[0].drop()  # answered when it is gone
        assert '"method":"exited"' in context.hear("}}")
        equal(context.run("1"), "")
        boxes[1].drop()
        assert '"status":9' in context.hear("}}")
        forks[2].begin("import os; os._exit(5)")
        assert '"status":1280' in context.hear("}}")
        boxes[2].drop()
        equal(context.branch(), None)


def test_children_of_the_code_are_its_own():
    """Children it started in the meantime: its code can wait for them, and forking neither waits
    for them nor learns about them."""
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        original = sandbox.forkable(template)
        context = original.live()
        context.run("import os, signal, subprocess, time\nseen = []\nsignal.signal(signal.SIGCHLD, lambda *_: seen.append(1))")
        context.run("p = subprocess.Popen(['sh', '-c', 'exit 3'])\nos.waitid(os.P_PID, p.pid, os.WEXITED | os.WNOWAIT)")
        box = keeper.box(parent=original.name)
        branch = context.fork(box)
        equal(context.run("print(p.wait(), bool(seen), signal.getsignal(signal.SIGCHLD) is not None, signal.pthread_sigmask(signal.SIG_BLOCK, []))"),
              "3 True True set()\n")
        equal(branch.run("print(signal.pthread_sigmask(signal.SIG_BLOCK, []))"), "set()\n")
        # A living one stands in the way, by name; a fork that lives does not.
        equal(re.sub(r"\d+", "N", context.run("q = subprocess.Popen(['sleep', '1000'])") + context.branch()), "child processes are alive: N (sleep)")
        equal(context.run("q.kill(); q.wait()\nprint(len(seen) >= 2)"), "True\n")
        equal(context.branch(), None)
        # Code that waits for any child may reap a fork: then the status of that is lost, without other effects.
        context.begin("print('waits', flush=True); print(os.wait()[1])")
        context.read("waits\n")
        branch.begin("import os; os._exit(4)")
        equal(context.finish(), "1024\n")
        assert '"status":-1' in context.hear("}}")
        equal(context.branch(), None)


def test_what_stands_in_the_way_is_named_each_time():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        original = sandbox.forkable(template)
        context = original.live()
        context.run("import os, socket, threading, time\nopen('/workspace/data', 'w').write('x')\nbefore = sorted(map(int, os.listdir('/proc/self/fd')))")
        for make, unmake, named in [
                ("f = open('/workspace/data')", "f.close()", "descriptors are open: {} (/workspace/data)"),
                ("f = os.open('/workspace', os.O_RDONLY)", "os.close(f)", "descriptors are open: {} (/workspace)"),
                ("f, g = socket.socketpair()", "f.close(); g.close()", "descriptors are open: {} (socket:"),
                ("e = threading.Event(); t = threading.Thread(target=e.wait); t.start()", "e.set(); t.join()", "1 thread is alive")]:
            context.run(make)
            said = context.branch()
            number = re.search(r": (\d+)", said)
            assert said.startswith(named.format(number and number[1])), (make, said)
            context.run(unmake)
            equal(context.branch(), None)
        # In a fork as in its original, and where the number was the interpreter's before.
        box = keeper.box(parent=original.name, template=True)
        branch = context.fork(box)
        equal(branch.branch(), None)
        branch.run("import os\nf = os.open('/workspace', os.O_RDONLY)")
        assert "(/workspace)" in branch.branch()
        branch.run("os.close(f)")
        again = branch.fork(keeper.box(parent=box.name))
        equal(again.run("print(before == sorted(map(int, os.listdir('/proc/self/fd'))), secret)").split(" ", 1)[1], "of the template\n")
        context.run("os.dup2(os.open('/workspace/data', os.O_RDONLY), 2)")
        context.run("for fd in map(int, os.listdir('/proc/self/fd')):\n    if 2 < fd < 900 and fd != 3:\n        try: os.close(fd)\n        except OSError: pass")
        equal(context.branch(), None)


def test_who_cannot_be_forked():
    with Keeper() as keeper:
        template, sandbox = keeper.template(), keeper.sandbox()
        plain, original = sandbox.context(template), sandbox.forkable(template)
        other = keeper.sandbox()
        equal(refusal(keeper.box, parent=plain.name).code, "invalid_state")
        equal(refusal(keeper.box, shared=sandbox.name, template=True).code, "invalid_argument")
        equal(refusal(keeper.box, parent=original.name, mount="/workspace/m", template=True).code, "invalid_argument")
        # From another sandbox's files there is no way back to the first one's.
        away = other.forkable(original)
        assert "cannot return" in refusal(sandbox.context, away).message
        other.context(away)
        # A fork that does not arrive reports the reason, on its original's channel; that one goes on.
        context = original.live()
        box = sandbox.context(original)
        equal(context.branch(), None)
        sandbox.said("chmod 000 /workspace")
        equal(box.forked_in_vain(), "")
        said = context.hear("}}")
        assert '"method":"failed"' in said and "enter the working directory" in said, said
        sandbox.said("chmod 755 /workspace", cwd="/dev/shm")
        equal(context.run("print(secret)"), "of the template\n")


def depth(*before):
    with Keeper(*before) as keeper:
        boxes = [keeper.box(template=True)]
        while len(boxes) < 30:
            boxes.append(keeper.box(parent=boxes[-1].name, template=True))
        refused = refusal(keeper.box, parent=boxes[-1].name)
        equal(refused.code, "invalid_state")
        assert "at most 30" in refused.message, refused
        equal(boxes[-1].said("id -u; ls /workspace; echo $$").split()[0], "1000")


def test_how_deep_it_goes():
    depth()


def test_how_deep_it_goes_without_privilege():
    need_ordinary_user()
    depth(*ORDINARY_USER)
