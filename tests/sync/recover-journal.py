"""A journal that is damaged is refused in so many words; one that is whole is finished or undone."""
import fcntl
import json
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import cli
from synced import Gone, Refused, STAGE, Synced, difference

TIMEOUT = 240


def left_behind(s, state, fail=None):
    """Killed in the middle, so that the journal has that name. The point."""
    for point in range(1, 500):
        reset(s)
        s.begin(crash=point, fail=fail)
        try:
            s.apply(changes_of(s))
        except Gone:
            pass
        names = os.listdir(s.root + "/.cloche-sync") if os.path.exists(s.root + "/.cloche-sync") else []
        if state in names and (state == "draft" or any(name.startswith("o") for name in names)):
            return point
    raise AssertionError(f"never {state}")


def changes_of(s):
    return [s.modified("a", "new a"), s.deleted("b"), s.renamed("c", "d/c"), s.created("e", "new e"), s.chmod("d", 0o700)]


TREE = {"a": "a", "b": "b", "c": "c", "d/x": "x"}


def test_damage_at_every_byte():
    with Synced(TREE, memory="8m") as s:
        left_behind(s, "journal")
        journal = s.root + "/.cloche-sync/journal"
        with open(journal, "rb") as file:
            whole = file.read()
        before = s.snapshot()
        s.begin()
        for at in range(len(whole)):
            for data in (whole[:at] + bytes([whole[at] ^ 0x41]) + whole[at + 1:], whole[:at]):
                with open(journal, "r+b") as file:
                    file.truncate(0)
                    file.write(data)
                try:
                    s.call("recover")
                    raise AssertionError(f"a journal damaged at {at} was believed")
                except Refused as error:
                    assert "the journal is damaged at byte" in str(error), error
        try:
            s.apply([s.created("n")])
            raise AssertionError("a sync began over a damaged journal")
        except Refused as error:
            assert "damaged" in str(error)
        with open(journal, "r+b") as file:
            file.truncate(0)
            file.write(whole + b"x")
        try:
            s.call("recover")
            raise AssertionError("a journal with more behind it was believed")
        except Refused:
            pass
        now = s.snapshot()
        assert {path for path in difference(before, now)} <= {b".cloche-sync/journal"}, difference(before, now)
        with open(journal, "r+b") as file:
            file.truncate(0)
            file.write(whole)
        assert s.call("recover")["state"] == "finished"
        assert {path: row[5] for path, row in s.snapshot().items() if row[5]} == {b"a": b"new a", b"d/c": b"c", b"d/x": b"x", b"e": b"new e"}


def test_a_draft_is_thrown_away_whatever_it_says():
    with Synced(TREE, memory="8m") as s:
        left_behind(s, "draft")
        before = {path: row[5] for path, row in s.snapshot().items() if not path.startswith(STAGE)}
        with open(s.root + "/.cloche-sync/draft", "wb") as file:
            file.write(os.urandom(1000))
        s.begin()
        result = s.call("recover")
        assert result["state"] == "undone" and before == {path: row[5] for path, row in s.snapshot().items()}


def test_apply_recovers_by_itself_and_says_so():
    with Synced(TREE, memory="8m") as s:
        left_behind(s, "journal")
        assert s.begin()["journal"] is True
        result = s.apply([s.created("n")])
        assert result["synced"] == ["n"] and result["recovered"]["state"] == "finished" and "a" in result["recovered"]["paths"], result
        assert len(result["recovered"]["transaction"]) == 16
        assert s.begin()["journal"] is False and "recovered" not in s.apply([s.created("n2")])


def test_the_host_has_changed_something_between_crash_and_recovery():
    with Synced(TREE, memory="8m") as s:
        left_behind(s, "journal")
        for path in ("a", "e"):
            with open(f"{s.root}/{path}.tmp", "w") as file:
                file.write("host's")
            os.chown(f"{s.root}/{path}.tmp", 12345, 12345)
            os.rename(f"{s.root}/{path}.tmp", f"{s.root}/{path}")
        s.begin()
        result = s.call("recover")
        assert result["state"] == "undone", result
        rows = {path: row[5] for path, row in s.snapshot().items() if row[5]}
        assert rows == {b"a": b"host's", b"b": b"b", b"c": b"c", b"d/x": b"x", b"e": b"host's"}, rows


def test_recovery_that_is_killed_at_every_point():
    """A transaction being finished, and one being undone."""
    old, new = {b"a": b"a", b"b": b"b", b"c": b"c", b"d/x": b"x"}, {b"a": b"new a", b"d/c": b"c", b"d/x": b"x", b"e": b"new e"}
    for state, fail, outcome in (("journal", None, new), ("undo", 8, old)):
        with Synced(TREE, memory="8m") as s:
            first = left_behind(s, state, fail)
            for point in range(1, 200):
                reset(s)
                s.begin(crash=first, fail=fail)
                try:
                    s.apply(changes_of(s))
                except Gone:
                    pass
                assert os.path.exists(f"{s.root}/.cloche-sync/{state}")
                s.begin(crash=point)
                try:
                    s.call("recover")
                    break
                except Gone:
                    pass
                s.begin()
                s.call("recover")
                rows = {path: row[5] for path, row in s.snapshot().items() if row[5]}
                assert rows == outcome, (state, point, rows)
            assert point > 10, point
            print(state, point, "points")


def reset(s):
    s.settle()
    shutil.rmtree(s.root)
    os.mkdir(s.root)
    s.make(TREE)


def mounted(s, code="cat a; echo; ls", *more):
    """A script looks at the tree, by the command line."""
    finished = cli("run", "bash", "-c", f"cd /data; {code}", "--mount", f"/data={s.root}", *more)
    assert finished.code == 0, finished
    return finished.stdout.decode().split(), finished.stderr.decode()


def test_a_run_that_mounts_a_tree_recovers_it_first():
    with Synced(TREE, memory="8m") as s:
        left_behind(s, "journal")
        s.stop()
        seen, told = mounted(s)
        assert seen == ["new", "a", "a", "d", "e"], seen
        assert told.startswith("cloche: /data: a sync that was killed was finished first, of ") and told.count("\n") == 1, told
        assert not os.path.exists(s.root + "/.cloche-sync")
        assert mounted(s) == (seen, ""), "once"
        left_behind(s, "undo", fail=7)
        s.stop()
        seen, told = mounted(s)
        assert seen == ["a", "a", "b", "c", "d"] and "was undone first" in told, (seen, told)
        # In a call as well, in the result, and before its own changes are written.
        left_behind(s, "journal")
        s.stop()
        finished = cli("call", "python", "-c", "open('/data/a', 'a').write(' and more')\nreturn open('/data/a').read()", "--mount", f"/data={s.root}", "--rule", "**=*", "--json")
        result = json.loads(finished.stdout)
        assert result["result"] == "new a and more" and any("was finished first" in warning for warning in result["meta"]["warnings"]), result
        with open(s.root + "/a") as file:
            assert file.read() == "new a and more"


def test_what_is_no_killed_sync_is_left_alone():
    with Synced(TREE, memory="8m") as s:
        assert mounted(s) == (["a", "a", "b", "c", "d"], ""), "the twin"
        left_behind(s, "journal")
        s.stop()
        journal = s.root + "/.cloche-sync/journal"
        before = s.snapshot()
        lock = os.open(s.root + "/.cloche-sync", os.O_RDONLY)
        fcntl.flock(lock, fcntl.LOCK_EX)  # as a sync that is alive
        _, told = mounted(s, "true")
        assert "cloche: /data: another sync is at work there" in told, told
        assert not list(difference(before, s.snapshot()))
        os.close(lock)
        with open(journal, "r+b") as file:
            file.truncate(20)
        _, told = mounted(s, "true")
        assert "cloche: /data: a sync that was killed could not be finished or undone: " in told and "damaged" in told, told
        assert os.path.exists(journal)
