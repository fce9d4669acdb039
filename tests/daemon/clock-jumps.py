#!/usr/bin/python3
"""The real time jumps by years, to and fro, under a daemon at work: nothing ends early, hangs, or is never saved. Only the daemon's time is another; the machine's stays."""
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from clocks import Clock
from cloche import equal, need_root
from http_client import Http
from rpc import Daemon, Failed
from sandbox_client import read_raw, serve_in, wait_for

YEAR_S = 365 * 86400


BEGINNING = 1 - time.time()  # of 1970, where a machine without a battery begins
JUMPS = [10 * YEAR_S, -20 * YEAR_S, 200 * YEAR_S, BEGINNING, 0]
SLOW = {BEGINNING}  # jumps of a second each are tried after this one alone: no clock was ever so far back


def saved(sandbox):
    return os.stat(os.path.join("state", "0", sandbox, "files")).st_ino


def is_stopped(frames, sandbox):
    """From the list of all: a request about one counts as use."""
    return [box["state"] for box in frames.call("sandbox.list")["sandboxes"] if box["sandbox"] == sandbox] == ["stopped"]


def what_is_slow(frames, jump):
    """Saved now and then, and stopped when it is idle."""
    before = saved("saved")
    frames.call("exec", sandbox="saved", command=f"echo {jump} > f")
    frames.call("exec", sandbox="idle", command="true")
    wait_for(lambda: saved("saved") != before)
    wait_for(lambda: is_stopped(frames, "idle"))


def goes_on(daemon, frames, clock, jump, preview):
    frames.call("file.remove", sandbox="lasts", path="/tmp/go", force=True)
    number = frames.ask("exec", sandbox="lasts", command="until test -e /tmp/go; do sleep 0.01; done; echo ended", timeoutMs=300000)
    call = frames.ask("call", language="python", code="import time\ntime.sleep(0.1)\nreturn 42", limits={"wallMs": 60000}, warm=True)
    wait = frames.ask("process.wait", sandbox="lasts", process="p", text="never", timeoutMs=200)
    clock.jump(jump)
    # A request whose time is over ends; one without a limit goes on.
    equal(frames.wait(call)["result"], 42)
    equal(failure(frames, wait), "timeout")
    equal(failure(frames, frames.ask("exec", sandbox="lasts", session="other", command="sleep 100", timeoutMs=50)), "timeout")
    equal(frames.call("call", language="python", code="while True: pass", limits={"wallMs": 50}, warm=True)["status"], "timeout")
    if jump in SLOW:
        what_is_slow(frames, jump)
    assert not is_stopped(frames, "lasts") and number not in frames.answers, f"it ended when the clock went {jump} s on"
    frames.call("file.write", sandbox="lasts", path="/tmp/go", content="")
    equal(frames.wait(number)["stdout"], "ended\n")
    with Http(daemon.connect_tcp(), host=preview) as http:
        equal((http.begin("GET", "/"), read_raw(http) != b""), (200, True))


def failure(frames, number):
    try:
        result = frames.wait(number)
    except Failed as error:
        return error.name
    return "timeout" if result.get("timedOut") else f"it was answered: {result}"


def jumps(daemon, frames, clock):
    frames.call("sandbox.create", sandbox="lasts", idleMs=3600000)
    frames.call("session.create", sandbox="lasts", session="other")
    frames.call("sandbox.create", sandbox="idle", idleMs=1)
    frames.call("process.start", sandbox="lasts", process="p", command="exec sleep 100000")
    serve_in(frames, "lasts")
    token = frames.call("port.expose", sandbox="lasts", port=8080)["token"]
    for jump in JUMPS:
        goes_on(daemon, frames, clock, jump, f"8080-lasts-{token}.preview.test")
    clock.jump(10 * YEAR_S)
    frames.call("exec", sandbox="lasts", command="true")
    year = frames.call("sandbox.get", sandbox="lasts")["lastUsedAt"][:4]
    assert int(year) - time.gmtime().tm_year in (9, 10), "the twin: the daemon's time is another"


def test_jumps():
    need_root()  # to read the saved files
    state = ("--state-dir", os.path.abspath("state"))
    os.chmod(".", 0o711)
    with Clock() as clock:
        clock.jump(300 * YEAR_S)
        with Daemon(*state, env=clock.env) as daemon, daemon.frames() as frames:
            frames.call("exec", sandbox="saved", command="echo of the future > f")
            equal(daemon.stop(), 0)
        clock.jump(0)
        with Daemon(*state, "--save-every", "1", "--base-forks", "4", "--preview-host", "preview.test", tcp=True, env=clock.env) as daemon, daemon.frames() as frames:
            equal(frames.call("exec", sandbox="saved", command="cat f")["stdout"], "of the future\n")
            jumps(daemon, frames, clock)
