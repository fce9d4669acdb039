#!/usr/bin/python3
"""Snapshots: their contents, sandboxes that begin with them, and that a killed daemon leaves whole ones or none."""
import hashlib
import os
import signal
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, need_writable_roots
from http_client import Http
from image_trees import make_store
from rpc import Daemon
from sandbox_client import wait_for


def shell(frames, name, command):
    return frames.call("exec", sandbox=name, command=command)["stdout"]


def listed(frames):
    return [row["snapshot"] for row in frames.call("snapshot.list")["snapshots"]]


def folder(daemon, *words):
    return os.path.join(daemon.directory, "state", str(os.geteuid()), ".snapshots", *words)


def test_a_sandbox_begins_with_one():
    with Daemon() as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        frames.call("sandbox.create", sandbox="a", limits={"pids": 99}, env={"E": "env"}, labels={"of": "a"})
        shell(frames, "a", "echo one > f; ln f g; mkdir d; cd d; export WHO=Ada")
        taken = frames.call("sandbox.snapshot", sandbox="a", snapshot="s", labels={"l": "1"})
        equal((taken["snapshot"], taken["sandbox"], taken["labels"]), ("s", "a", {"l": "1"}))
        with open(folder(daemon, "s", "files"), "rb") as file:
            archive = file.read()
        equal((taken["bytes"], taken["digest"]), (len(archive), "sha256-" + hashlib.sha256(archive).hexdigest()))
        shell(frames, "a", "echo two > /workspace/f")
        frames.call("sandbox.delete", sandbox="a")
        made = frames.call("sandbox.create", sandbox="b", snapshot="s")
        equal((made["state"], made["limits"]["pids"], made["env"], made["labels"], made["created"]), ("running", 99, {"E": "env"}, {"of": "a"}, True))
        equal(shell(frames, "b", "cat /workspace/f; stat -c %h /workspace/g; echo $WHO $PWD $E"), "one\n2\nAda /workspace/d env\n")
        made = frames.call("sandbox.create", sandbox="c", snapshot="s", limits={"pids": 50}, env={"E": "other"})
        equal((made["limits"]["pids"], made["env"], made["labels"]), (50, {"E": "other"}, {"of": "a"}))
        shell(frames, "b", "rm /workspace/f; echo mine > /workspace/f")
        frames.call("sandbox.save", sandbox="b")
        equal(shell(frames, "c", "cat /workspace/f"), "one\n")
        with open(folder(daemon, "s", "files"), "rb") as file:
            equal(file.read(), archive, "nothing changes it")
        equal(http.get("/v1/snapshots/s"), (200, taken))
        equal(http.get("/v1/snapshots"), (200, {"snapshots": [taken]}))
        equal(http.request("DELETE", "/v1/snapshots/s")[0], 200)
        equal((listed(frames), os.listdir(folder(daemon)), frames.refused("snapshot.get", snapshot="s").name), ([], [], "not_found"))
        equal(shell(frames, "c", "cat /workspace/f"), "one\n")
        frames.call("sandbox.stop", sandbox="c")
        equal(shell(frames, "c", "cat /workspace/f"), "one\n")


def test_one_that_is_replaced_keeps_its_files_until_then():
    """On the disk the new one has the name before the daemon knows of it."""
    with Daemon() as daemon, daemon.frames() as frames:
        for name in ("one", "two"):
            shell(frames, name, f"echo {name} > f")
            frames.call("sandbox.snapshot", sandbox=name, snapshot=name)
        os.rename(folder(daemon, "one"), folder(daemon, "one.new"))
        os.rename(folder(daemon, "two"), folder(daemon, "one"))
        frames.call("sandbox.create", sandbox="of-one", snapshot="one")
        equal(shell(frames, "of-one", "cat f"), "one\n")
        frames.call("snapshot.copy", snapshot="one", to="copy")
        frames.call("sandbox.create", sandbox="of-copy", snapshot="copy")
        equal(shell(frames, "of-copy", "cat f"), "one\n")
        equal(frames.refused("sandbox.create", sandbox="of-two", snapshot="two").name, "invalid_state")


def test_states_of_the_original():
    with Daemon() as daemon, daemon.frames() as frames:
        shell(frames, "a", "echo 1 > f")
        frames.call("sandbox.pause", sandbox="a")
        frames.call("sandbox.snapshot", sandbox="a", snapshot="paused")
        equal(frames.call("sandbox.list")["sandboxes"][0]["state"], "paused", "its saved files are those that it has")
        frames.call("sandbox.resume", sandbox="a")
        shell(frames, "a", "echo 2 > f")
        frames.call("sandbox.pause", sandbox="a", save=False)
        frames.call("sandbox.snapshot", sandbox="a", snapshot="woken")
        frames.call("sandbox.stop", sandbox="a")
        frames.call("sandbox.snapshot", sandbox="a", snapshot="stopped")
        frames.call("sandbox.create", sandbox="new")
        frames.call("sandbox.stop", sandbox="new")
        empty = frames.call("sandbox.snapshot", sandbox="new")
        for snapshot, content in (("paused", "1\n"), ("woken", "2\n"), ("stopped", "2\n")):
            frames.call("sandbox.create", sandbox="of-" + snapshot, snapshot=snapshot)
            equal(shell(frames, "of-" + snapshot, "cat f"), content, snapshot)
        frames.call("sandbox.create", sandbox="of-new", snapshot=empty["snapshot"])
        equal(shell(frames, "of-new", "ls"), "")


def test_bad_requests():
    with Daemon("--max-saved", "3") as daemon, daemon.frames() as frames:
        equal(frames.refused("sandbox.snapshot", sandbox="none").name, "not_found")
        shell(frames, "a", "true")
        for name in ("", "-", "a/b", "..", "x" * 64):
            equal(frames.refused("sandbox.snapshot", sandbox="a", snapshot=name).name, "invalid_argument", name)
            equal(frames.refused("snapshot.get", snapshot=name).name, "invalid_argument", name)
        frames.call("sandbox.snapshot", sandbox="a", snapshot="s")
        error = frames.refused("sandbox.snapshot", sandbox="a", snapshot="s")
        assert error.name == "invalid_state" and "already" in error.message, error.message
        equal(frames.refused("sandbox.snapshot", sandbox="a", snapshot="large", labels={"l": "x" * (513 << 10)}).name, "too_large", "the next daemon would not read them")
        equal(frames.refused("sandbox.create", sandbox="b", snapshot="none").name, "not_found")
        for name, value in (("image", "sha256-" + 64 * "0"), ("packages", {"pip": ["x"]}), ("writableRoot", True)):
            assert "snapshot" in frames.refused("sandbox.create", sandbox="b", snapshot="s", **{name: value}).message, name
        equal(frames.refused("sandbox.create", sandbox="b", snapshot="s", limits={"none": 1}).name, "invalid_argument")
        frames.call("sandbox.snapshot", sandbox="a", snapshot="t")
        equal(frames.refused("sandbox.snapshot", sandbox="a", snapshot="u").name, "queue_full", "they count as sandboxes")
        equal(frames.refused("sandbox.create", sandbox="b", snapshot="s").name, "queue_full")
        equal(frames.refused("snapshot.copy", snapshot="s", to="u").name, "queue_full")
        equal(frames.call("sandbox.snapshot", sandbox="a", snapshot="t", replace=True)["snapshot"], "t", "it takes no room of its own")
        for name, code in (("..", "invalid_argument"), ("s", "invalid_state"), ("t", "invalid_state")):
            equal(frames.refused("snapshot.copy", snapshot="s", to=name).name, code)
        equal(frames.refused("snapshot.copy", snapshot="none", to="u").name, "not_found")
        frames.call("snapshot.delete", snapshot="t")
        equal([row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]], ["a"])
        frames.call("sandbox.create", sandbox="b", snapshot="s")


def test_a_killed_daemon_leaves_whole_ones():
    """Killed at any moment of a series of snapshots and deletions: each that is listed begins a sandbox, and no other entry is left."""
    with Daemon() as daemon:
        with daemon.frames() as frames:
            shell(frames, "a", "echo one > f; head -c 5M /dev/urandom > g")
            digest = frames.call("sandbox.snapshot", sandbox="a", snapshot="first")["digest"]
            for i in range(4):
                frames.ask("sandbox.snapshot", sandbox="a", snapshot=f"s{i}")
            wait_for(lambda: os.path.exists(folder(daemon, "s0")) or os.path.exists(folder(daemon, "s0.new")))
        os.kill(daemon.engine_pid(), signal.SIGKILL)
        daemon.process.kill()
        daemon.process.wait()
        os.makedirs(folder(daemon, "torn.new"), exist_ok=True)
        with Daemon("--state-dir", os.path.join(daemon.directory, "state")) as later, later.frames() as frames:
            found = listed(frames)
            equal(sorted(os.listdir(folder(daemon))), sorted(found))
            assert "first" in found
            for name in found:
                equal(frames.call("snapshot.get", snapshot=name)["snapshot"], name)
                with open(folder(daemon, name, "files"), "rb") as file:
                    equal("sha256-" + hashlib.sha256(file.read()).hexdigest(), frames.call("snapshot.get", snapshot=name)["digest"])
            equal(frames.call("snapshot.get", snapshot="first")["digest"], digest)
            frames.call("sandbox.create", sandbox="b", snapshot="first")
            equal(shell(frames, "b", "cat f; stat -c %s g"), f"one\n{5 << 20}\n")


def test_one_takes_the_place_of_another():
    with Daemon() as daemon, daemon.frames() as frames:
        shell(frames, "a", "echo one > f")
        first = frames.call("sandbox.snapshot", sandbox="a", snapshot="s", labels={"l": "1"})
        equal(frames.call("snapshot.copy", snapshot="s", to="t"), {**first, "snapshot": "t", "createdAt": frames.call("snapshot.get", snapshot="t")["createdAt"]})
        equal(os.stat(folder(daemon, "s", "files")).st_ino, os.stat(folder(daemon, "t", "files")).st_ino)
        shell(frames, "a", "echo two > f")
        second = frames.call("sandbox.snapshot", sandbox="a", snapshot="s", replace=True)
        assert second["digest"] != first["digest"] and second["labels"] == {}, second
        equal(frames.call("snapshot.copy", snapshot="s", to="s", replace=True, labels={"l": "2"})["labels"], {"l": "2"})
        equal((sorted(listed(frames)), sorted(os.listdir(folder(daemon)))), (["s", "t"], ["s", "t"]))
        for name, content in (("s", "two\n"), ("t", "one\n")):
            frames.call("sandbox.create", sandbox="of-" + name, snapshot=name)
            equal(shell(frames, "of-" + name, "cat f"), content)
        os.mkdir(folder(daemon, "s.new"))  # so that the new one cannot be written: the earlier stays
        os.mkdir(folder(daemon, "s.new", "snapshot.json"))
        equal(frames.refused("snapshot.copy", snapshot="t", to="s", replace=True).name, "resource")
        equal(frames.call("snapshot.get", snapshot="s")["digest"], second["digest"])
        frames.call("sandbox.create", sandbox="later", snapshot="s")
        equal(shell(frames, "later", "cat f"), "two\n")


def test_a_killed_daemon_leaves_the_earlier_one_or_the_new():
    with Daemon() as daemon:
        with daemon.frames() as frames:
            shell(frames, "a", "echo one > f; head -c 3M /dev/urandom > g")
            digests = [frames.call("sandbox.snapshot", sandbox="a", snapshot="s")["digest"]]
            shell(frames, "a", "echo two > f")
            digests.append(frames.call("sandbox.snapshot", sandbox="a", snapshot="t")["digest"])
            inode = os.stat(folder(daemon, "s")).st_ino
            frames.ask("snapshot.copy", snapshot="t", to="s", replace=True)
            wait_for(lambda: os.path.exists(folder(daemon, "s.new")) or os.stat(folder(daemon, "s")).st_ino != inode)
        os.kill(daemon.engine_pid(), signal.SIGKILL)
        daemon.process.kill()
        daemon.process.wait()
        with Daemon("--state-dir", os.path.join(daemon.directory, "state")) as later, later.frames() as frames:
            equal((sorted(listed(frames)), sorted(os.listdir(folder(daemon)))), (["s", "t"], ["s", "t"]))
            content = ["one\n", "two\n"][digests.index(frames.call("snapshot.get", snapshot="s")["digest"])]
            frames.call("sandbox.create", sandbox="b", snapshot="s")
            equal(shell(frames, "b", "cat f"), content)


def test_of_another_caller_there_is_none():
    with Daemon(tcp=True) as daemon, daemon.frames() as frames, daemon.frames() as same, Http(daemon.connect_tcp(), daemon.token) as other:
        shell(frames, "a", "true")
        frames.call("sandbox.snapshot", sandbox="a", snapshot="s")
        equal(listed(same), ["s"])
        equal(other.get("/v1/snapshots"), (200, {"snapshots": []}))
        equal([other.get("/v1/snapshots/s")[0], other.request("DELETE", "/v1/snapshots/s")[0], other.post("/v1/sandboxes", sandbox="b", snapshot="s")[0]], [404, 404, 404])


def test_a_writable_root_comes_along():
    need_writable_roots()
    store, (digest,) = make_store(1)
    look = "read a < /etc/marker; read b < /etc/added; echo $a $b"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", image=digest, writableRoot=True)
        shell(frames, "a", "echo changed > /etc/marker; echo new > /etc/added")
        taken = frames.call("sandbox.snapshot", sandbox="a", snapshot="s")
        equal((taken["image"], taken["writableRoot"]), (digest, True))
        equal([row["writableRoot"] for row in frames.call("sandbox.fork", sandbox="a", names=["b"])["sandboxes"]], [True])
        shell(frames, "a", "echo later > /etc/marker")
        frames.call("sandbox.create", sandbox="c", snapshot="s")
        equal([shell(frames, name, look) for name in ("a", "b", "c")], ["later new\n", "changed new\n", "changed new\n"])
        shell(frames, "c", "echo mine > /etc/marker")
        equal([shell(frames, name, look) for name in ("b", "c")], ["changed new\n", "mine new\n"])
        for name in "abc":
            frames.call("sandbox.delete", sandbox=name)
