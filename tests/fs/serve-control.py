"""The control socket, loading, and how a server ends."""
import errno
import os
import struct
import subprocess
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from mounted import ALL, HANG, Mounted, Refused, read, write

FREE = {"default": ALL}


def refused(work):
    try:
        work()
    except Refused as error:
        return str(error)
    raise AssertionError("it was not refused")


def test_the_end_of_the_socket_is_the_end():
    m = Mounted({"a": "a"}, permissions=FREE)
    with m:
        waiting = m.begin(lambda: (time.sleep(0.5), os.listdir("."))[1])
        m.control.sock.close()
        assert m.server.wait(timeout=HANG) == 0
        try:
            m.finish(waiting)
            raise AssertionError("the mount still works")
        except OSError as error:
            assert error.errno in (errno.ENOTCONN, errno.ECONNABORTED)


def test_contents_come_along():
    written = {f"{i:02}": bytes([i]) * (300 << 10) for i in range(12)}
    with Mounted({"old": "old"}, permissions=FREE) as m:
        m.guest(lambda: [[write(name, data, "wb") for name, data in written.items()], write("large", "x" * (1 << 20)), os.chmod("old", 0o600)])
        had, pages, rows = {}, 0, []
        while True:
            answer = m.control.call("changes", after=len(rows), fileBytes=400 << 10, allBytes=(3 << 20) - sum(map(len, had.values())))
            attached, pages = m.control.attached, pages + 1
            assert len(attached) <= (1 << 20) + (400 << 10), "a page of them is about a MiB"
            had.update({row["path"]: attached[row["bytes"]["at"]:][:row["bytes"]["n"]] for row in answer["changes"] if "bytes" in row})
            rows += answer["changes"]
            if not answer["more"]:
                break
        assert sorted(row["path"] for row in rows) == sorted([*written, "large", "old"]) and pages > 2
        assert len(had) == 10 and all(written[name] == data for name, data in had.items()), "as many as there is room for, none too large, none of the host's"
        assert not any("bytes" in row for row in m.control.call("changes")["changes"]) and m.control.attached == b"", "none when none were asked for"


def test_requests_that_are_refused():
    with Mounted({"a": "a", "d/b": "b"}, permissions=FREE) as m:
        assert "once only" in refused(lambda: m.control.call("configure"))
        assert "no method 'nonsense'" in refused(lambda: m.control.call("nonsense"))


def test_settings_that_are_refused():
    for settings, words in (({"permissions": {"rules": [{"pattern": "["}]}}, ""), ({"loading": {"mode": "later"}}, "loading: mode"), ({"loading": {"maxFilesize": 1}}, "loading: unknown member 'maxFilesize'"),
                            ({"onPermissionDenied": "shrug"}, "onPermissionDenied"), ({"followSymlinks": 3}, "followSymlinks"),
                            ({"limits": {"nodes": -1}}, "limits: nodes"), ({"nonsense": 1}, "unknown member 'nonsense'"),
                            ({"target": "relative"}, "target"), ({"loading": {"mode": "explicit", "include": [3]}}, "include[0]"),
                            ({"optional": ["fuse"]}, "optional")):
        if words:
            m = Mounted({}, **settings)
            try:
                m.start(configure=False)
                text = refused(lambda: m.control.call("configure", **settings))
                assert words in text, text
                m.server.wait(timeout=HANG)
            finally:
                m.stop()


def test_nonsense_on_the_socket_ends_the_server():
    for data in (b"\xff" * 8, struct.pack("<II", 4 + 3, 3) + b"{}}", struct.pack("<II", 100, 200)):
        m = Mounted({})
        try:
            m.start(configure=False)
            m.control.sock.sendall(data)
            assert m.server.wait(timeout=HANG) == 0
        finally:
            m.stop()


def test_an_engine_that_does_not_read_stops_nobody():
    with Mounted({"a": "a"}, permissions={"default": {**ALL, "modify": False}}) as m:
        def work():
            for i in range(3000):
                try:
                    os.truncate("a", i)
                except PermissionError:
                    pass
                try:
                    write(f"a/{i}", "")
                except NotADirectoryError:
                    pass
            return True
        assert m.guest(work)
        m.control.sock.settimeout(0.2)
        try:
            while True:
                m.control.send("usage")
        except TimeoutError:
            pass
        assert m.guest(lambda: read("a")) == "a"


def test_the_server_may_reach_nothing_else():
    with Mounted({"a": "a"}, permissions=FREE) as m:
        assert m.guards["landlock"] >= 1
        with open(f"/proc/{m.server.pid}/status") as status:
            rows = dict(line.split(":\t", 1) for line in status.read().splitlines() if ":\t" in line)
        assert m.guards["seccomp"] is True and rows["Seccomp"] == "2"
        assert rows["NoNewPrivs"] == "1" and int(rows["CapEff"], 16) == 0 and rows["Uid"].split() == ["12345"] * 4
        names = sorted(os.readlink(f"/proc/{m.server.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{m.server.pid}/fd") if int(fd) > 2)
        assert len(names) == 4, names


def test_calls_that_are_no_servers_are_refused():
    """The calls of the filter's source, tried in a process that has entered it as the server does."""
    program = os.path.join(os.environ["CLOCHE_BUILD"], "tests/try-fs-filter")
    done = subprocess.run([program], capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stdout + done.stderr


def test_explicit_loading():
    tree = {"src/a.c": "a", "src/deep/b.c": "b", "src/deep/b.h": "h", "docs/x": "x", "other/y": "y", "top.txt": "t", "whole/q/r": "r"}
    loading = {"mode": "explicit", "include": ["src/**/*.c", "whole", "{docs,none}/x"]}
    with Mounted(tree, permissions=FREE, loading=loading) as m:
        seen = m.guest(lambda: sorted(os.path.join(top, name)[2:] for top, folders, names in os.walk(".") for name in folders + names))
        assert seen == ["docs", "docs/x", "src", "src/a.c", "src/deep", "src/deep/b.c", "whole", "whole/q", "whole/q/r"], seen
        m.fails(errno.ENOENT, lambda: read("top.txt"))
        m.fails(errno.ENOTEMPTY, lambda: (os.unlink("src/deep/b.c"), os.rmdir("src/deep")))
        m.guest(lambda: write("top.txt", "new"))
        assert m.summary() == {"src/deep/b.c": "deleted", "top.txt": "modified"}
    with Mounted(tree, permissions={"default": {**ALL, "modify": False}}, loading=loading) as m:
        m.fails(errno.EACCES, lambda: write("top.txt", "new"))
        m.guest(lambda: write("new.txt", "new"))


def test_size_bounds():
    tree = {"a": "x" * 100, "b": "x" * 1000, "d/c": "x" * 100, "d/e": "x" * 100}
    with Mounted(tree, permissions=FREE, loading={"maxFileSize": 500}) as m:
        assert sorted(m.guest(lambda: os.listdir("."))) == ["a", "d"]
        m.fails(errno.ENOENT, lambda: read("b"))
        assert [(w["path"], w["message"]) for w in m.changes()["warnings"]] == [("b", "larger than maxFileSize")]
    with Mounted(tree, permissions=FREE, loading={"mode": "eager", "maxTotalSize": 250}) as m:
        assert [w["path"] for w in m.changes()["warnings"]] == ["b", "d/e"]
        assert m.guest(lambda: sorted(os.listdir(".") + os.listdir("d"))) == ["a", "c", "d"]
        m.fails(errno.ENOENT, lambda: read("b"))
        m.fails(errno.ENOTEMPTY, lambda: (os.unlink("d/c"), os.rmdir("d")))
        m.guest(lambda: write("b", "new"))
        assert m.summary()["b"] == "modified"
    with Mounted(tree, permissions=FREE, loading={"mode": "lazy", "maxTotalSize": 250}) as m:
        assert m.guest(lambda: read("d/c") + read("d/e") + read("d/c"))
        m.fails(errno.EFBIG, lambda: read("a"))
        assert [w["path"] for w in m.changes()["warnings"]] == ["a"]


def test_open_files_are_bounded():
    with Mounted({"a": "a"}, permissions=FREE, limits={"openFiles": 20}) as m:
        m.fails(errno.ENFILE, lambda: [os.open("a", os.O_RDONLY) for _ in range(30)])
        assert m.guest(lambda: read("a")) == "a"
        m.guest(lambda: [write(f"{i}", "x") for i in range(50)])
        m.settled()


def test_nodes_are_bounded():
    with Mounted({f"f{i}": "" for i in range(500)}, permissions=FREE, limits={"nodes": 100}) as m:
        m.fails(errno.ENOMEM, lambda: [os.stat(f"f{i}") for i in range(500)])
        with open("/proc/sys/vm/drop_caches", "w") as drop:
            drop.write("2")
        assert m.guest(lambda: os.stat("f1").st_size) == 0
