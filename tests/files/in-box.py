"""The same program where it belongs: in a sandbox's box, under its filter, as its user."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
from program import need_root
from rpc import Daemon

TIMEOUT = 120


def sandbox(frames, **params):
    return frames.call("sandbox.create", sandbox="box", **params)


def shell(frames, command):
    return frames.call("exec", sandbox="box", command=command)


def test_every_operation_passes_the_filter():
    need_root()
    with Daemon() as d, d.frames() as frames:
        def call(method, **params):
            return frames.call(method, sandbox="box", **params)

        sandbox(frames)
        assert call("file.write", path="t/a", content="one\n", mode=0o600)["path"] == "/workspace/t/a"
        call("file.write", path="t/a", content="two\n", append=True)
        call("file.write", path="t/a", content="ONE", offset=0)
        assert call("file.read", path="t/a")["content"] == "ONE\ntwo\n"
        assert call("file.stat", path="t/a")["mode"] == 0o600 and call("file.exists", path="t")["type"] == "directory"
        call("file.mkdir", path="t/d/e", recursive=True)
        call("file.copy", **{"from": "t", "to": "/tmp/copy"})
        call("file.move", **{"from": "/tmp/copy", "to": "moved"})
        assert [e["relativePath"] for e in call("file.list", path=".", recursive=True)["entries"]] == ["moved", "moved/a", "moved/d", "moved/d/e", "t", "t/a", "t/d", "t/d/e"]
        assert call("file.search", path=".", pattern="^t.o$")["files"] == 2
        assert call("file.replace", path="t", text="two", replacement="2")["count"] == 1
        for name in ("tar", "tar.gz", "tar.zst", "zip"):
            assert call("archive.create", path="t", to=f"/tmp/x.{name}")["files"] == 1
            assert call("archive.extract", path=f"/tmp/x.{name}", to=f"u-{name}")["files"] == 1
            assert call("file.read", path=f"u-{name}/a")["content"] == "ONE\n2\n"
        watch = frames.ask("file.watch", sandbox="box", path="t")
        while not any(p.get("event") == "ready" for _, p, _ in frames.told):
            frames.turn()
        shell(frames, "echo 3 > t/new")
        while not any(p.get("event") == "change" and p["about"]["path"] == "/workspace/t/new" for _, p, _ in frames.told):
            frames.turn()
        frames.call("cancel", id=watch)
        assert call("file.remove", path="t", recursive=True)["count"] == 5
        call("sandbox.delete")


def test_it_has_the_rights_of_the_guest_and_the_guest_none_over_it():
    need_root()
    with Daemon() as d, d.frames() as frames:
        def refused(name, method, **params):
            error = frames.refused(method, sandbox="box", **params)
            assert error.name == name, (method, params, error.name, error.message)

        sandbox(frames)
        shell(frames, "mkdir t; ln -s / up; ln -s /etc/shadow shadow; mkfifo pipe; head -c 100 /dev/zero > zeros")
        refused("file_denied", "file.write", path="/usr/bin/evil", content="")
        refused("file_denied", "file.write", path="up/usr/evil", content="")
        refused("file_kind", "file.read", path="pipe")
        refused("file_kind", "file.read", path="/dev/zero")
        for path in ("/", "/workspace", "/tmp", "/home", "up/tmp", "t/.."):
            refused("file_denied", "file.remove", path=path, recursive=True)
        assert frames.call("file.read", sandbox="box", path="zeros")["bytes"] == 100
        peek = shell(frames, "for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline | grep -q '^cloche-files' && { cat $p/environ $p/maps; ls $p/fd; }; done 2>&1")
        assert peek["stdout"].count("denied") >= 3, peek
        frames.call("sandbox.delete", sandbox="box")


def test_what_was_stopped_comes_back():
    need_root()
    with Daemon() as d, d.frames() as frames:
        sandbox(frames)
        made = shell(frames, "mkdir -p t/ro && echo 1 > t/ro/x && ln t/ro/x t/hard && ln -s /usr/bin/env t/env && chmod 555 t/ro && echo 2 > /tmp/y && truncate -s 50M t/sparse")
        assert made["exitCode"] == 0, made
        look = "cd /workspace && find . /tmp -printf '%p %y %m %l %n %s\\n' | sort"
        before = shell(frames, look)["stdout"]
        assert "t/env l 777 /usr/bin/env" in before
        assert frames.call("sandbox.stop", sandbox="box")["state"] == "stopped"
        assert shell(frames, look)["stdout"] == before
        frames.call("sandbox.delete", sandbox="box")
