"""Failures of a sync, and the state after each."""
import fcntl
import json
import os
import struct
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from synced import OWNER, Refused, STAGE, Synced, difference, every_kind, every_kind_tree

TIMEOUT = 120


def refused(work):
    try:
        work()
    except Refused as error:
        return error
    raise AssertionError("it was not refused")


def test_a_full_disk_rolls_back():
    with Synced({"a": "a", "d/b": "b"}, memory="1m") as s:
        changes = [s.modified("a", "new"), s.deleted("d/b")] + [s.created(f"big{i}", os.urandom(60000)) for i in range(8)]
        filler = os.open(s.root + "/filler", os.O_WRONLY | os.O_CREAT)
        try:
            while os.write(filler, b"x" * 4096):
                pass
        except OSError:
            os.close(filler)
        os.chown(s.root + "/filler", OWNER, OWNER)
        before = s.snapshot()
        result = s.run(changes)
        assert not result["committed"] and result["failed"][0]["error"]["code"] == "no_space", result
        assert not difference(before, s.snapshot())
        os.unlink(s.root + "/filler")
        assert s.run(changes)["committed"]


def test_a_full_disk_under_continue_does_what_fits():
    with Synced({"a": "a", "d/b": "b"}, memory="1m") as s:
        changes = [s.deleted("d/b"), s.created("a-small", "x"), s.chmod("a", 0o600)] + [s.created(f"big{i}", os.urandom(90000)) for i in range(6)]
        result = s.run(changes, onError="continue")
        assert result["committed"] and {"d/b", "a"} <= set(result["synced"]) and {row["error"]["code"] for row in result["failed"]} == {"no_space"}, result
        for row in result["failed"]:
            assert not os.path.exists(os.path.join(s.root, row["path"]))


def test_a_directory_that_may_not_be_written():
    for on_error, committed in (("rollback", False), ("continue", True)):
        with Synced({"ro/a": "a", "rw/b": "b"}, memory="8m") as s:
            os.chmod(s.root + "/ro", 0o555)
            changes = [s.created("ro/new"), s.modified("ro/a"), s.created("rw/new")]
            before = s.snapshot()
            result = s.run(changes, onError=on_error)
            assert result["committed"] == committed and {row["error"]["code"] for row in result["failed"]} == {"permission"}, result
            if not committed:
                assert not difference(before, s.snapshot())
            os.chmod(s.root + "/ro", 0o755)
            assert s.run(changes[:2])["committed"]


def test_abort_stops_at_the_first():
    with Synced({"a": "a", "b": "b", "c": "c"}, memory="8m") as s:
        changes = [s.modified("a"), s.modified("b"), s.modified("c"), s.created("d")]
        with open(s.root + "/b", "w") as file:
            file.write("host's")
        result = s.run(changes, onError="abort")
        assert result["synced"] == ["a"] and [row["path"] for row in result["failed"]] == ["b"], result
        assert [(row["path"], row["reason"]) for row in result["skipped"]] == [("c", "aborted"), ("d", "aborted")]


def test_contents_that_are_not_as_said():
    with Synced({"a": "a"}, memory="8m") as s:
        missing, longer = {**s.created("m"), "contents": "77"}, s.created("l", "four")
        longer["size"] = 3
        os.mkfifo(s.contents + "/ff")
        os.symlink("/etc/passwd", s.contents + "/fe")
        fifo, link = {**s.created("f"), "contents": "ff"}, {**s.created("k"), "contents": "fe"}
        result = s.run([missing, longer, fifo, link, s.created("fine")], onError="continue")
        assert result["synced"] == ["fine"] and len(result["failed"]) == 4, result
        assert {row["error"]["code"] for row in result["failed"]} <= {"contents", "not_beneath"}, result["failed"]


def test_two_at_once():
    with Synced({"a": "a"}, memory="8m") as s:
        os.mkdir(s.root + "/.cloche-sync", 0o700)
        os.chown(s.root + "/.cloche-sync", OWNER, OWNER)
        other = os.open(s.root + "/.cloche-sync", os.O_RDONLY)
        fcntl.flock(other, fcntl.LOCK_EX)
        s.begin()
        error = refused(lambda: s.apply([s.created("n")]))
        assert error.data == {"name": "invalid_state", "reason": "busy"} and "another sync" in str(error), error.data
        assert "another sync" in str(refused(lambda: s.call("recover")))
        os.close(other)
        assert s.apply([s.created("n")])["synced"] == ["n"]


def test_a_stage_that_is_not_ours():
    for make in (lambda at: os.symlink("/tmp", at), lambda at: open(at, "w").close(), lambda at: os.mkdir(at, 0o700), os.mkfifo):
        with Synced({"a": "a"}, memory="8m") as s:
            make(s.root + "/.cloche-sync")
            s.begin()
            assert ".cloche-sync" in str(refused(lambda: s.apply([s.created("n")])))
            assert not os.path.exists(s.root + "/n")


def test_something_strange_in_the_stage():
    with Synced({"a": "a"}, memory="8m") as s:
        os.mkdir(s.root + "/.cloche-sync", 0o700)
        open(s.root + "/.cloche-sync/o3", "w").close()
        os.chown(s.root + "/.cloche-sync", OWNER, OWNER)
        s.begin()
        assert "no journal" in str(refused(lambda: s.apply([s.created("n")])))
        assert os.path.exists(s.root + "/.cloche-sync/o3")


def test_a_pipe_a_lock_and_a_lease_stop_nothing():
    with Synced({"a": "a", "leased": "old", "locked": "old", "r": "r"}, memory="8m") as s:
        changes = [s.modified("leased"), s.modified("locked"), s.modified("a"), s.renamed("r", "r2")]
        fd = os.open(s.root + "/leased", os.O_RDONLY)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        lock = os.open(s.root + "/locked", os.O_RDWR)
        fcntl.flock(lock, fcntl.LOCK_EX)
        fcntl.lockf(lock, fcntl.LOCK_EX)
        os.unlink(s.root + "/a")
        os.mkfifo(s.root + "/a")
        begun = time.monotonic()
        result = s.run(changes, onError="continue")
        assert sorted(result["synced"]) == ["leased", "locked", "r2"] and [row["path"] for row in result["failed"]] == ["a"], result
        os.close(fd)
        os.close(lock)
        print(time.monotonic() - begun)


def test_cancel_undoes():
    with Synced({"a": "a"}, memory="64m") as s:
        changes = [s.created(f"n{i}", "x") for i in range(3000)]
        s.begin()
        before = s.snapshot()
        first = s.control.send("apply", {"changes": changes})
        second = s.control.send("cancel")
        assert s.control.answer(second) == {"cancelled": True}
        result = s.control.answer(first)
        assert result["cancelled"] and not result["committed"] and {row["reason"] for row in result["skipped"]} == {"cancelled"}
        assert not difference(before, s.snapshot())
        assert s.call("cancel") == {"cancelled": False}
        assert len(s.apply(changes)["synced"]) == 3000


def test_the_end_of_the_socket_undoes():
    with Synced({"a": "a"}, memory="64m") as s:
        changes = [s.created(f"n{i}", "x") for i in range(3000)]
        s.begin()
        before = s.snapshot()
        s.control.send("apply", {"changes": changes})
        s.control.sock.close()
        assert s.control.process.wait(timeout=30) == 0
        assert not difference(before, s.snapshot())


def test_pages_and_very_many_changes():
    with Synced({"a": "a"}, memory="400m") as s:
        s.begin()
        total, page = sampled(40000, 200000), 20000
        for at in range(0, total, page):
            rows = [{"type": "created", "path": f"d{i // 1000}/f{i}", "kind": "file", "mode": 0o644, "size": 0, "mtimeNs": 1, "origin": None}
                    for i in range(at, at + page)] + [s.directory(f"d{i}") for i in range(at // 1000, (at + page) // 1000)]
            more = at + page < total
            result = s.apply(rows, **({"more": True} if more else {}))
            assert not more or result["received"] == (at + page) * 1001 // 1000
        assert result["committed"] and len(result["synced"]) == total + total // 1000, (len(result["synced"]), result["failed"][:3], result["skipped"][:3])
        assert sum(len(os.listdir(f"{s.root}/d{i}")) for i in range(total // 1000)) == total


def test_the_program_may_reach_nothing_else():
    with Synced({"a": "a"}, memory="8m") as s:
        assert s.begin()["landlock"] >= 2
        pid = s.control.process.pid
        with open(f"/proc/{pid}/status") as status:
            rows = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
        assert rows["NoNewPrivs"] == "1" and int(rows["CapEff"], 16) == 0 and rows["Uid"].split() == [str(OWNER)] * 4
        names = sorted(os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd") if int(fd) > 2)
        assert len(names) == 3, names


def test_requests_that_are_refused():
    with Synced({"a": "a"}, memory="8m") as s:
        early = s.start()
        assert "configure comes first" in str(refused(lambda: early.call("apply", changes=[])))
        early.sock.close()
        s.begin()
        assert "once only" in str(refused(lambda: s.call("configure")))
        assert "no method" in str(refused(lambda: s.call("nonsense")))
        assert "unknown member" in str(refused(lambda: s.call("apply", changes=[], nonsense=1)))
        assert "decisions[0].path" in str(refused(lambda: s.call("apply", changes=[], decisions=[{"path": "x", "action": "skip"}])))
        assert s.call("apply", changes=[])["synced"] == []
        assert s.call("recover") == {"state": "none", "transaction": None, "paths": [], "kept": []}
        for settings, words in (({"permissions": {"rules": [{"pattern": ""}]}}, "rules[0]"), ({"onError": "shrug"}, "onError"), ({"conflict": 3}, "conflict"),
                                ({"optional": ["seccomp"]}, "optional"), ({"x": 1}, "unknown member 'x'")):
            other = s.start()
            assert words in str(refused(lambda: other.call("configure", **settings)))
            assert other.process.wait(timeout=10) == 0


def test_nonsense_on_the_socket_ends_it():
    with Synced({"a": "a"}, memory="8m") as s:
        for data in (b"\xff" * 8, struct.pack("<II", 4 + 3, 3) + b"{}}", struct.pack("<II", 100, 200)):
            control = s.start()
            control.sock.sendall(data)
            assert control.process.wait(timeout=10) == 0


def test_lists_made_by_hand_are_checked():
    rows = [
        ([3], "changes[0]: expected an object"), ([{"path": "a"}], "changes[0].type"), ([{"type": "created"}], "changes[0].path"),
        ([{"type": "created", "path": "/a"}], "not relative"), ([{"type": "created", "path": "a//b"}], "empty part"),
        ([{"type": "created", "path": ""}], "empty part"), ([{"type": "created", "path": "a/"}], "empty part"),
        ([{"type": "created", "path": "../a"}], "'.' or '..'"), ([{"type": "created", "path": "a/./b"}], "'.' or '..'"),
        ([{"type": "created", "path": "a\0b"}], "changes[0].path"), ([{"type": "created", "path": "x" * 256}], "255"),
        ([{"type": "created", "path": "a/" * 2100 + "a"}], "4095"), ([{"type": "created", "path": ".cloche-sync/n0"}], "the journal's"),
        ([{"type": "renamed", "path": "a", "from": ".cloche-sync"}], "the journal's"), ([{"type": "renamed", "path": "a"}], "from"),
        ([{"type": "deleted", "path": "a", "from": "b"}], "from"), ([{"type": "created", "path": "a", "kind": "file", "size": 3}], "contents: missing"),
        ([{"type": "created", "path": "a", "contents": "../x"}], "contents"), ([{"type": "created", "path": "a", "contents": "01"}], "contents"),
        ([{"type": "created", "path": "a", "kind": "directory", "contents": "1"}], "contents"), ([{"type": "created", "path": "a", "kind": "symlink"}], "target"),
        ([{"type": "created", "path": "a", "mode": 0o4755}], "mode"), ([{"type": "created", "path": "a", "mode": 1.5}], "mode"),
        ([{"type": "created", "path": "a", "size": -1}], "size"), ([{"type": "created", "path": "a", "origin": {"dev": 1}}], "origin"),
        ([{"type": "created", "path": "a", "virtual": 1}], "virtual"), ([{"type": "created", "path": "a", "extra": 1}], "unknown member"),
        ([{"type": "created", "path": "a"}, {"type": "created", "path": "a"}], "both created and created"),
        ([{"type": "created", "path": "a"}, {"type": "modified", "path": "a", "size": 0}], "both"),
        ([{"type": "deleted", "path": "a"}, {"type": "renamed", "from": "a", "path": "b"}], "twice"),
        ([{"type": "created", "path": {"$": "bytes", "b64": "AA=="}}], "path"), ([{"type": "modified", "path": "a", "content": True}], "contents: missing"),
        ("x", "expected an array"),
    ]
    with Synced({"a": "a"}, memory="8m") as s:
        s.begin()
        before = s.snapshot()
        for changes, words in rows:
            error = str(refused(lambda: s.call("apply", changes=changes)))
            assert words in error, (changes, error)
        assert not difference(before, s.snapshot())
        assert s.apply([s.created(b"\xffodd")])["synced"] == [{"$": "bytes", "b64": "/29kZA=="}]


def test_a_step_that_fails_undoes_the_others():
    with Synced(every_kind_tree(), memory="64m") as s:
        before = s.snapshot()
        changes = every_kind(s)
        for fail in (25, 33, 47, 60, 75):
            s.begin(fail=fail)
            result = s.apply(changes)
            assert not result["committed"] and len(result["failed"]) == 1 and result["failed"][0]["error"]["code"] == "io", result["failed"]
            assert not difference(before, s.snapshot()), difference(before, s.snapshot())
        s.begin(fail=40, onError="continue")
        result = s.apply(changes)
        assert result["committed"] and len(result["failed"]) == 1
