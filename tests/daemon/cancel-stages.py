"""Cancelled, or abandoned, at every stage of a request: its response says so, and nothing is left of it."""
import os
import random
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from http_client import Http, WebSocket
from rpc import Daemon, Failed, Gone, PATIENCE

TIMEOUT = 120


def quiet(daemon):
    """No run is under way any more, and the boxes and descriptors of those there were are gone."""
    with daemon.frames() as frames:
        until = time.monotonic() + 20 * PATIENCE
        while frames.call("stats")["runs"]["now"]:
            assert time.monotonic() < until, frames.call("stats")
            time.sleep(0.02)
        return frames.call("stats")


def outcome(frames, number):
    try:
        return frames.wait(number)["status"]
    except Failed as error:
        return error.name


LOOP = {"language": "python", "code": "while True: pass"}
STAGES = {
    "at once": (LOOP, 0),
    "while the template starts": ({"language": "javascript", "code": "while (true) {}"}, 0.02),
    "cold, while the box is made": ({**LOOP, "warm": False}, 0.01),
    "running": (LOOP, 0.4),
    "printing": ({"language": "python", "code": "while True: print('x' * 1000)", "stream": True}, 0.4),
    "compiling": ({"language": "c", "code": "int f(void) { for (;;); }"}, 0.1),
    "asking the host": ({"language": "python", "code": "host()", "globals": {"host": {"kind": "function"}}}, 0.4),
}


def test_cancel():
    with Daemon() as daemon:
        with daemon.frames(host={("global", "host"): lambda: NotImplemented}) as frames:
            for stage, (call, after) in STAGES.items():
                number = frames.ask("call", **call)
                time.sleep(after)
                assert frames.call("cancel", id=number) == {"found": True}, stage
                assert outcome(frames, number) == "terminated", stage
            assert frames.call("call", language="python", code="return 1")["result"] == 1
            stats = frames.call("stats")
            assert stats["runs"]["now"] == 0 and stats["runs"]["byStatus"]["terminated"] == len(STAGES), stats


def test_those_that_wait_for_their_turn():
    with Daemon("--runs", "1", "--queue", "3") as daemon:
        with daemon.frames() as frames:
            first = frames.ask("call", **LOOP)
            while frames.call("stats")["runs"]["waiting"] or not frames.call("stats")["runs"]["now"]:
                time.sleep(0.02)
            waiting = [frames.ask("call", language="python", code="return %d" % n) for n in range(3)]
            assert frames.refused("call", language="python", code="return 9").name == "queue_full"
            assert frames.call("stats")["runs"]["waiting"] == 3
            assert frames.call("cancel", id=waiting[1]) == {"found": True}
            assert outcome(frames, waiting[1]) == "terminated"
            assert frames.call("cancel", id=first) == {"found": True}
            assert outcome(frames, first) == "terminated"
            assert [frames.wait(waiting[n])["result"] for n in (0, 2)] == [0, 2]


def test_those_that_wait_while_instances_come():
    """A cancel and an instance may arrive in one turn of the engine's loop: the ended run gets no instance."""
    dice = random.Random(5)
    with Daemon() as daemon, daemon.frames() as frames:
        engine = daemon.engine_pid()
        for _ in range(sampled(25, 250)):
            numbers = [frames.ask("call", language="python", code="return 1", warm=True) for _ in range(20)]
            time.sleep(dice.random() * 0.03)
            for number in numbers:
                frames.ask("cancel", id=number)
            assert {outcome(frames, number) for number in numbers} <= {"success", "terminated"}
        assert daemon.engine_pid() == engine


def test_gone_at_every_stage():
    with Daemon() as daemon:
        quiet(daemon)
        for stage, (call, after) in STAGES.items():
            for open_one in (daemon.frames, lambda: WebSocket(daemon.connect())):
                frames = open_one()
                frames.ask("call", **call)
                time.sleep(after)
                frames.close()
            if "globals" in call:
                continue
            http = Http(daemon.connect())
            http.socket.sendall(b"")
            body = {key: value for key, value in call.items() if key != "stream"}
            thread = threading.Thread(target=lambda: ignore(lambda: http.post("/v1/call", **body)))
            thread.start()
            time.sleep(after + 0.02)
            http.socket.shutdown(2)
            thread.join()
            http.close()
        for code in ("import time\ntime.sleep(100)", "while True: pass"):
            frames = daemon.frames()
            frames.ask("prefix.create", language="python", code=code, name="slow")
            time.sleep(0.1)
            frames.close()
        stats = quiet(daemon)
        assert stats["prefixes"] == 0 and stats["connections"] == 1, stats


def ignore(work):
    try:
        work()
    except (Gone, OSError):
        pass


def test_use_and_disposal_of_one_prefix_at_the_same_time():
    dice = random.Random(7)
    with Daemon() as daemon:
        with daemon.frames() as one, daemon.frames() as other:
            for _ in range(15):
                prefix = one.call("prefix.create", language="python", code="n = 5", name="shared")["prefix"]
                runs = [frames.ask("call", prefix="shared", code="return n") for frames in (one, other, one, other)]
                time.sleep(dice.random() * 0.02)
                gone = [frames.ask("prefix.dispose", prefix=prefix) for frames in (one, other)]
                late = other.ask("call", prefix=prefix, code="return n")
                results = []
                for frames, number in zip((one, other, one, other), runs):
                    try:
                        results.append(frames.wait(number)["result"])
                    except Failed as error:
                        results.append(error.name)
                assert set(results) <= {5, "not_found"} and results[0] == 5, results
                ends = []
                for frames, number in zip((one, other), gone):
                    try:
                        ends.append(frames.wait(number))
                    except Failed as error:
                        ends.append(error.name)
                assert sorted(map(str, ends)) == ["not_found", "{}"], "one of both disposed of it"
                try:
                    assert other.wait(late)["result"] == 5 and ends[1] == "not_found"
                except Failed as error:
                    assert error.name == "not_found"
        assert quiet(daemon)["prefixes"] == 0
