"""Volumes when something ends: nothing of the kernel's stays, and each volume is whole or gone."""
import json
import os
import signal
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from life import below, gone, groups, keeper_of
from rpc import Failed, Gone, PATIENCE
from volume_client import SMALL, Volumes, at, shell


def kill_all(daemon):
    """At once, in an order that leaves nobody to clean up."""
    family = below(daemon.process.pid)
    for pid in [daemon.process.pid, *family]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    daemon.process.wait()
    gone(family, "kill_all")
    remove_groups(keeper_of(family))


def remove_groups(keeper):
    """A killed keeper cannot remove its own."""
    until = time.monotonic() + 15 * PATIENCE
    while left := groups(keeper):
        for group in left:
            try:
                os.rmdir(group)
            except OSError:  # a process in it is dying
                assert time.monotonic() < until, group


def test_killed_with_a_volume_in_use():
    with Volumes() as volumes:
        with volumes.daemon() as daemon, daemon.frames() as frames:
            frames.call("volume.create", volume="data", sizeBytes=SMALL)
            frames.call("sandbox.create", sandbox="s", volumes=[at("/data")])
            frames.call("sandbox.create", sandbox="other", volumes=[at("/data", readOnly=True)])
            shell(frames, "echo kept > /data/f; echo lost > f")
            frames.call("process.start", sandbox="s", command="while :; do date > /data/g; done")
            equal(len(volumes.loops()), 1)
            kill_all(daemon)
        volumes.wait_until_unused()
        with open("/proc/self/mounts") as file:
            assert volumes.path not in file.read()
        with volumes.daemon() as daemon, daemon.frames() as frames:
            equal(shell(frames, "cat /data/f"), "kept\n")
            # The engine alone, then the keeper alone: the next ones wait for dying boxes.
            for find in (daemon.engine_pid, lambda: keeper_of(below(daemon.process.pid))):
                keeper, victim = keeper_of(below(daemon.process.pid)), find()
                os.kill(victim, signal.SIGKILL)
                until = time.monotonic() + 30 * PATIENCE
                while True:
                    try:
                        with daemon.frames() as later:
                            equal(shell(later, "cat /data/f; echo x > /data/h && echo ok"), "kept\nok\n")
                        break
                    except (Failed, Gone, OSError):  # it was under way, or came while nothing served
                        assert time.monotonic() < until
                remove_groups(keeper)
        volumes.wait_until_unused()


def test_killed_while_one_is_made_or_removed():
    """Each that is listed afterwards is whole, and of the others nothing is left."""
    with Volumes() as volumes:
        for turn, method in enumerate(["volume.create", "volume.create", "volume.delete", "volume.create", "volume.delete"]):
            with volumes.daemon() as daemon, daemon.frames() as frames:
                names = wait_for_the_rest(volumes, frames)
                if method == "volume.delete" and "data" not in names:
                    frames.call("volume.create", volume="data", sizeBytes=SMALL)
                if method == "volume.create" and "data" in names:
                    frames.call("volume.delete", volume="data")
                frames.ask(method, volume="data", **({"sizeBytes": SMALL} if method == "volume.create" else {}))
                if turn % 2:  # let it be begun
                    frames.call("stats")
                kill_all(daemon)
        with volumes.daemon() as daemon, daemon.frames() as frames:
            names = wait_for_the_rest(volumes, frames)
            for name in names:
                frames.call("sandbox.create", sandbox="s", volumes=[at("/data", name)])
                equal(shell(frames, "echo whole > /data/f; cat /data/f"), "whole\n")


def wait_for_the_rest(volumes, frames):
    """The daemon removes unfinished ones beside its first requests."""
    until = time.monotonic() + 20 * PATIENCE
    while True:
        names = [row["volume"] for row in frames.call("volume.list")["volumes"]]
        left = os.listdir(volumes.at("state/0/.volumes")) if os.path.exists(volumes.at("state/0/.volumes")) else []
        if len(volumes.images()) == len(names) == len(left):
            return names
        assert time.monotonic() < until, (names, left, volumes.images())


def test_an_unfinished_one_is_removed_by_the_next_daemon():
    with Volumes() as volumes:
        with volumes.daemon() as daemon, daemon.frames() as frames:
            for name in ("kept", "unfinished", "never-begun"):
                frames.call("volume.create", volume=name, sizeBytes=SMALL)
        for name in ("unfinished", "never-begun"):
            path = volumes.at(f"state/0/.volumes/{name}.json")
            with open(path) as file:
                definition = json.load(file)
            with open(path, "w") as file:
                json.dump({**definition, "ready": False}, file)
            if name == "never-begun":
                os.unlink(volumes.at(f"volumes/{definition['id']}.img"))
        with open(volumes.at("state/0/.volumes/other.json.new"), "w") as file:
            file.write("{")  # killed while it was written
        with volumes.daemon() as daemon, daemon.frames() as frames:
            equal(wait_for_the_rest(volumes, frames), ["kept"])
            frames.call("volume.create", volume="unfinished", sizeBytes=SMALL)


def test_an_image_that_is_gone_is_an_error_and_the_next_start_works():
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        frames.call("volume.create", volume="data", sizeBytes=SMALL)
        frames.call("sandbox.create", sandbox="s", volumes=[at("/data")])
        frames.call("sandbox.stop", sandbox="s")
        volumes.wait_until_unused()
        image = volumes.at("volumes/" + volumes.images()[0])
        os.rename(image, image + ".away")
        refused = frames.refused("exec", sandbox="s", command="true")
        assert refused.name == "not_found" and ".img" in refused.message, refused.message
        equal(frames.refused("volume.get", volume="data").name, "not_found")
        os.rename(image + ".away", image)
        equal(shell(frames, "ls -A /data; echo ok"), "ok\n")


def test_many_start_and_stop_at_the_same_time():
    with Volumes() as volumes, volumes.daemon() as daemon, daemon.frames() as frames:
        for name in ("a", "b"):
            frames.call("volume.create", volume=name, sizeBytes=SMALL)
        boxes = [f"s{i}" for i in range(6)]
        for number in [frames.ask("sandbox.create", sandbox=box, volumes=[at("/a", "a"), at("/b", "b", readOnly=i % 2 == 0)]) for i, box in enumerate(boxes)]:
            frames.wait(number)
        for _ in range(2):
            numbers = [frames.ask("exec", sandbox=box, command=f"echo {box} > /a/{box}") for box in boxes]
            numbers += [frames.ask("volume.get", volume="a") for _ in range(3)]
            for number in numbers:
                frames.wait(number)
            for number in [frames.ask("sandbox.stop", sandbox=box) for box in boxes]:
                frames.wait(number)
        equal(shell(frames, "ls /a", "s0").split(), boxes)
        for number in [frames.ask("sandbox.delete", sandbox=box) for box in boxes]:
            frames.wait(number)
        volumes.wait_until_unused()
        for name in ("a", "b"):
            frames.call("volume.delete", volume=name)
