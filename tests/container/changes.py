"""checkChanges of the container API: the response includes everything written before the check."""
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Http, served


def check(http, path="/workspace/w", **more):
    status, answer = http.post(BASE + "/api/watch/check", path=path, **more)
    return (status, answer) if status != 200 else answer


def write(http, name, content):
    assert http.post(BASE + "/api/write", path="/workspace/w/" + name, content=content, encoding="utf-8")[0] == 200


def test_right_after_a_write():
    with served() as (_, http):
        write(http, "a", "0")
        first = check(http)
        assert first["status"] == "unchanged" and re.fullmatch(r"watch-\d+-\d+:0", first["version"]), first
        version = first["version"]
        for turn in range(20):
            assert check(http, since=version)["status"] == "unchanged"
            if turn % 2:
                write(http, "a", str(turn))
            else:
                assert http.post(BASE + "/api/execute", command=f"mkdir -p /workspace/w/d{turn} && echo x > /workspace/w/d{turn}/f")[0] == 200
            changed = check(http, since=version)
            assert changed["status"] == "changed" and changed["version"] != version, (turn, changed)
            version = changed["version"]


def test_many_checks_at_once():
    with served() as (daemon, http):
        write(http, "a", "0")
        version = check(http)["version"]
        write(http, "a", "1")

        def ask(_):
            with Http(daemon.connect()) as other:
                return check(other, since=version)["status"]

        with ThreadPoolExecutor(8) as pool:
            assert set(pool.map(ask, range(40))) == {"changed"}


def test_excluded_files_change_nothing():
    with served() as (_, http):
        write(http, "a.txt", "0")
        version = check(http, exclude=["*.log"])["version"]
        write(http, "b.log", "0")
        assert check(http, exclude=["*.log"], since=version)["status"] == "unchanged"
        write(http, "b.txt", "0")
        assert check(http, exclude=["*.log"], since=version)["status"] == "changed"


def test_versions_of_others():
    with served() as (_, http):
        write(http, "a", "0")
        version = check(http)["version"]
        number, rest = version.removeprefix("watch-").split("-")
        for bad in ("x", "", "watch-1", "watch-1-2", "watch-1-2:", "watch-1-2:3x", "watch--2:3", "watch-1-2:-3", "watch-1-2:99999999999999999999999"):
            status, error = check(http, since=bad)
            assert status == 400 and error["code"] == "VALIDATION_FAILED" and "checkChanges()" in error["message"], (bad, error)
        status, error = check(http, since=version.replace(":0", ":7"))
        assert status == 400 and "newer version" in error["message"], error
        resync = check(http, since=f"watch-{int(number) + 9}-{rest}")
        assert (resync["status"], resync["reason"], resync["version"]) == ("resync", "restarted", version), resync
        fresh = check(http, since=version, recursive=False)  # another watch, which begins with this check
        assert (fresh["status"], fresh["reason"]) == ("resync", "expired"), fresh
        old = check(http, since="watch-1-5:0", include=["a"])  # of a daemon that has ended
        assert (old["status"], old["reason"]) == ("resync", "restarted"), old


def test_a_guest_that_sends_the_signal():
    with served() as (_, http):
        write(http, "a", "0")
        version = check(http)["version"]
        result = http.post(BASE + "/api/execute", command="for i in $(seq 200); do pkill -USR1 -f cloche-files; done; echo done")[1]
        assert result["stdout"] == "done\n", result
        assert check(http, since=version)["status"] == "unchanged"
        write(http, "a", "1")
        assert check(http, since=version)["status"] == "changed"
