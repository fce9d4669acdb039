#!/usr/bin/python3
"""sandbox.metrics: samples while a sandbox runs, none of pauses."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
import egress
from clocks import Clock
from cloche import equal, need_root
from rpc import Daemon
from sandbox_client import wait_for


def samples(frames, **params):
    return frames.call("sandbox.metrics", sandbox="a", **params)["samples"]


def test_a_history():
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        frames.call("exec", sandbox="a", command="head -c 3000000 /dev/zero > f")
        frames.call("process.start", sandbox="a", command="while :; do :; done", process="p")
        assert samples(frames), "also of one that is young"
        for _ in range(2):
            count = len(samples(frames))
            clock.let_pass(6, frames)
            wait_for(lambda: len(samples(frames)) > count)
        wait_for(lambda: "diskBytes" in samples(frames)[-1])
        # The machine's clock goes on by itself: there may be more of them, and two may be of one millisecond.
        rows = samples(frames)
        first, second, third = rows[0], rows[1], rows[-1]
        assert first["cpuMs"] <= second["cpuMs"] <= third["cpuMs"] and first["time"] <= second["time"] <= third["time"], (first, third)
        assert third["diskBytes"] > 3000000 and third["memoryBytes"] > 3000000 and third["pids"] >= 3, third
        equal(frames.call("sandbox.metrics", sandbox="a")["intervalMs"], 5000)
        equal(samples(frames, **{"from": second["time"], "to": second["time"]}), [row for row in rows if row["time"] == second["time"]])
        equal(samples(frames, to=third["time"][:4])[:len(rows)], rows)
        equal(samples(frames, **{"from": "2100"}), [])
        assert "expected a time" in frames.refused("sandbox.metrics", sandbox="a", to="now").message
        equal(frames.refused("sandbox.metrics", sandbox="b").name, "not_found")
        frames.call("sandbox.pause", sandbox="a")
        rows = samples(frames)
        for _ in range(3):
            clock.let_pass(6, frames)
        equal(samples(frames), rows, "none of a pause")
        equal([row["sample"] for row in frames.call("sandbox.list", sample=True)["sandboxes"]], rows[-1:])
        assert "sample" not in frames.call("sandbox.list")["sandboxes"][0]
        equal(frames.call("sandbox.get", sandbox="a")["state"], "paused")


def test_bytes_of_its_network():
    """Bytes of connections to hosts, since it was started."""
    need_root()
    egress.World({"allowed.test": ["93.184.216.34"]})
    egress.use_name_servers(egress.NAMES)
    ask = "curl -sS -i --http1.0 -H \"X-Long: $(printf %010000d 1)\" http://allowed.test/ | wc -c"
    with Clock() as clock, Daemon(env=clock.env) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", network={"allow": ["allowed.test"]})
        def traffic():
            clock.let_pass(6, frames)
            return [samples(frames)[-1][name] for name in ("networkSentBytes", "networkReceivedBytes")]
        equal(traffic(), [0, 0])
        done = frames.call("exec", sandbox="a", command=ask)
        received = int(done["stdout"])
        assert received > 0, done
        wait_for(lambda: traffic()[0] >= 10000 and traffic()[1] == received)
        before = traffic()
        assert before[0] < 10200, before
        frames.call("exec", sandbox="a", command="exec 3<>/dev/tcp/denied.test/80")
        equal(traffic(), before)
        frames.call("sandbox.stop", sandbox="a")
        frames.call("exec", sandbox="a", command="true")
        equal(traffic(), [0, 0])
