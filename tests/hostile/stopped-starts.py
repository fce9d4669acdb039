"""The first process of a box is stopped while the box is being made, while files are placed in it or its program is started; or the server of one of its mounts is. That run waits, and can be cancelled; all others are served. (The test stops the processes from outside, in the role of code that found a way to do it.)"""
import os
import shutil
import signal
import sys
import tempfile
import time

from cloche import SOURCE, command_line, descendants, equal, need_root, process_state, sampled, task_children, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import Daemon, Failed, Frames  # noqa: E402

FILES = {f"/workspace/f{i}": "x" for i in range(400)}  # so that a start takes a while
COLD = {"language": "python", "code": "print('begun', flush=True)\nreturn 6 * 7", "warm": False, "files": FILES, "stream": True,
        "resultOptions": {"includeChanges": False}}
WARM = {"language": "javascript", "code": "return 6 * 7", "warm": True}
ALL = {"default": {"create": True, "modify": True, "delete": True}}
TIMEOUT = 150  # some wait for deadlines of 10 and 20 s


def children(pid):
    return set(task_children(pid))


def turns(pid):
    """How often it has given up a processor."""
    with open(f"/proc/{pid}/status") as file:
        return [line for line in file if "ctxt_switches" in line]


def is_any(pid):
    return True


def is_init(pid):
    return command_line(pid).startswith("box-init")


def is_server(pid):
    return command_line(pid).startswith("cloche-fs")


def stop(pid):
    try:
        os.kill(pid, signal.SIGSTOP)
        return True
    except ProcessLookupError:  # a helper that has come to its end
        return False


class Evil:
    """A daemon, a caller whose next start is held up, and another caller. At its end all stopped processes go on."""

    def __init__(self, *options):
        need_root()
        self.options = options

    def __enter__(self):
        self.daemon = Daemon(*self.options)
        self.evil, self.victim = self.daemon.frames(), self.daemon.frames()
        self.keeper = next(child for child in children(self.daemon.engine_pid()) if "cloche-keeper" in command_line(child))
        self.stopped = []
        self.others_are_served()  # with boxes prewarmed for them
        return self

    def __exit__(self, *error):
        self.go_on()
        self.daemon.__exit__(*error)

    def go_on(self):
        for pid in self.stopped:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass

    def others_are_served(self):
        for i in range(2):
            equal(self.victim.call("exec", sandbox=f"victim{i}", command="echo served")["stdout"], "served\n")
            equal(self.victim.call("call", language="python", code="return 6 * 7", warm=True)["result"], 42)
            equal(self.victim.call("call", language="python", code="return 6 * 7", warm=False)["result"], 42)

    def stop_first(self, number, known, is_wanted):
        """One of the keeper's new children; None: the run is over before."""
        while not self.evil.is_answered(number, 0.001):
            for _ in range(200):
                for pid in children(self.keeper) - known:
                    if is_wanted(pid) and stop(pid):
                        return pid
        return None

    def hold_up(self, is_wanted, method="call", attempts=60, **call):
        """The number of a request whose start is held up; others are served meanwhile."""
        for _ in range(attempts):
            known = self.settled_children()
            self.evil.told.clear()
            number = self.evil.ask(method, **call)
            pid = self.stop_first(number, known, is_wanted)
            if pid:
                self.stopped.append(pid)
                # It may have stopped a box prewarmed for others: then the response comes later.
                if not self.evil.is_answered(number, 0.3) and b"begun" not in self.evil.output("stdout"):
                    self.others_are_served()
                    if not self.evil.is_answered(number, 0.001):
                        return number
                self.go_on()
            self.evil.wait(number)
        raise AssertionError("no process was met in time; the attack must be written anew")

    def settled_children(self):
        """Nothing is being made ahead any more. On a machine that always keeps some program of ours waiting for a processor, that is
        likely after a while."""
        for _ in range(50):
            before = self.at_rest()
            time.sleep(0.2)
            if before and self.at_rest() == before:
                break
        return children(self.keeper)

    def at_rest(self):
        """The keeper's children, and how often the engine and the keeper have run; None while one of all is at work, or waits for
        a processor."""
        engine = self.daemon.engine_pid()
        if any(process_state(pid) in ("R", "D") for pid in [engine, *descendants(engine)]):
            return None
        return children(self.keeper), turns(engine), turns(self.keeper)

    def is_held_up_alone(self, number):
        self.others_are_served()
        assert not self.evil.is_answered(number), "the run that was held up was answered before the others"

    def cancel(self, number):
        self.evil.call("cancel", id=number)
        equal(self.evil.wait(number)["status"], "terminated")
        self.others_are_served()


def test_a_box_that_is_being_made():
    with Evil() as it:
        number = it.hold_up(is_any, **COLD)
        it.cancel(number)


def test_a_box_into_which_files_are_placed():
    with Evil() as it:
        number = it.hold_up(is_init, **COLD)
        it.cancel(number)


def test_a_template_that_is_being_made():
    with Evil() as it:
        number = it.hold_up(is_any, attempts=1, **WARM)
        it.cancel(number)


def test_a_template_whose_interpreter_is_being_started():
    for language in ("javascript", "ruby", "php", "bash") * 3:  # each is a new template
        with Evil() as it:
            try:
                number = it.hold_up(is_init, attempts=1, **{**WARM, "language": language, "code": "true"})
            except (AssertionError, Failed):  # it was too quick
                continue
            it.cancel(number)
            return
    raise AssertionError("no process was met in time; the attack must be written anew")


def stop_waiting_boxes(it):
    known = it.settled_children()
    equal(it.evil.call("call", **WARM)["result"], 42)
    it.stopped += [pid for pid in it.settled_children() - known if is_init(pid) and stop(pid)]


def test_boxes_that_wait_for_a_run():
    with Evil() as it:
        stop_waiting_boxes(it)
        number = it.evil.ask("call", files={"given": "x"}, **WARM)
        it.is_held_up_alone(number)
        it.cancel(number)


def test_boxes_that_are_looked_at_after_a_run():
    """A run without files needs its box's init only at its end: the answer waits for it, or comes without changes."""
    for goes_on in (True, False):
        with Evil() as it:
            stop_waiting_boxes(it)
            number = it.evil.ask("call", **WARM)
            assert not it.evil.is_answered(number, 0.3), "the answer came before the files were looked at"
            it.others_are_served()
            if goes_on:
                it.go_on()
            result = it.evil.wait(number)
            equal((result["status"], result["result"]), ("success", 42), result)
            if not goes_on:
                assert any("did not survive" in warning for warning in result["meta"]["warnings"]), result
            it.others_are_served()


def with_a_mount(work):
    directory = tempfile.mkdtemp(prefix="stopped-mount-")
    try:
        os.chmod(directory, 0o755)
        with open(os.path.join(directory, "there"), "w") as file:
            file.write("there")
        with Evil("--mount-root", directory) as it:
            work(it, {"dirs": {"/workspace/m": directory}, "permissions": ALL})
    finally:
        shutil.rmtree(directory)


def test_a_server_of_a_mount():
    def work(it, mount):
        files = {f"/workspace/m/f{i}": "x" for i in range(400)}
        for is_warm in (False, True):
            number = it.hold_up(is_server, **{**COLD, "files": files, "mount": mount, "warm": is_warm})
            it.cancel(number)

    with_a_mount(work)


def test_a_server_of_a_mount_at_the_end_of_a_run():
    """The guest is in the midst of a call of the mount, and does not die before its server is gone."""
    def work(it, mount):
        known = it.settled_children()
        code = "import time\nprint('runs', flush=True)\nwhile True: open('/workspace/m/there').read(); time.sleep(0.001)"
        number = it.evil.ask("script", language="python", code=code, mount=mount, stream=True)
        while b"runs" not in it.evil.output("stdout"):
            it.evil.turn()
        pid = next(pid for pid in children(it.keeper) - known if is_server(pid))
        it.stopped.append(pid)
        assert stop(pid)
        it.evil.call("cancel", id=number)
        it.is_held_up_alone(number)
        equal(it.evil.wait(number)["status"], "terminated")

    with_a_mount(work)


def test_a_start_that_goes_on_in_time():
    with Evil() as it:
        for is_wanted, call in ((is_any, COLD), (is_init, COLD), (is_any, WARM)):
            number = it.hold_up(is_wanted, **call)
            it.go_on()
            equal(it.evil.wait(number)["result"], 42)


def test_a_start_that_does_not():
    with Evil() as it:
        held_up = [it.hold_up(is_any, **COLD), it.hold_up(is_init, **COLD), it.hold_up(is_any, **WARM)]
        for number in held_up:
            try:
                raise AssertionError(it.evil.wait(number))
            except Failed as error:
                equal(error.name, "timeout", error)
        it.others_are_served()
        equal(it.evil.call("call", **WARM)["result"], 42)  # with another template


def test_a_client_that_leaves_meanwhile():
    with Evil() as it:
        for is_wanted in (is_any, is_init):
            it.hold_up(is_wanted, **COLD)
            it.evil.close()
            it.others_are_served()
            wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in it.stopped), "the box of a client that left")
            it.evil = it.daemon.frames()


def test_a_daemon_that_ends_meanwhile():
    with Evil() as it:
        it.hold_up(is_init, **COLD)
        it.hold_up(is_any, **WARM)
        equal(it.daemon.stop(), 0)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in it.stopped), "the boxes of a daemon that has ended")


def test_many_starts_leave_room_for_others():
    """Here no process is stopped: a caller requests more cold runs than boxes are made at once."""
    need_root()
    with Daemon(tcp=True) as daemon, daemon.frames() as evil, Frames(daemon.connect_tcp(), token=daemon.token) as victim:
        call = {**COLD, "files": {}}
        numbers = [evil.ask("call", **call) for _ in range(sampled(28, 80))]  # seven times as many as begin at once
        equal(victim.call("call", **call)["result"], 42)
        assert not evil.is_answered(numbers[-1], 0.001), "all runs of one caller began before those of another"
        equal({evil.wait(number)["result"] for number in numbers}, {42})
