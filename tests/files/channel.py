"""The channel: frames in and out, jobs beside each other, the end."""
import json
import os
import select
import signal
import struct
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import HANG, Files, Gone, Refused


def children(f):
    return [int(pid) for pid in open(f"/proc/{f.process.pid}/task/{f.process.pid}/children").read().split()]


def test_methods_and_parameters_that_are_none():
    with Files() as f:
        try:
            f.call("file.nope")
        except Refused as error:
            assert error.code == -32601 and error.name == "invalid_argument"
        assert "path" in f.refused("invalid_argument", "file.read")
        assert "offset" in f.refused("invalid_argument", "file.read", path="a", offset="1")
        assert "nope" in f.refused("invalid_argument", "file.read", path="a", nope=1)
        f.refused("invalid_argument", "file.watch", path="a", recursive="yes")
        assert "content" in f.refused("invalid_argument", "file.write", path="x", content=None)
        f.send_text(json.dumps({"jsonrpc": "2.0", "method": "nobody.listens"}).encode())
        assert f.call("file.exists", path=".")["exists"]


def test_ids_may_be_strings():
    with Files() as f:
        f.send_text(json.dumps({"jsonrpc": "2.0", "id": "one", "method": "file.exists", "params": {"path": "."}}).encode())
        assert f.answer("one")["exists"]
        f.send_text(json.dumps({"jsonrpc": "2.0", "id": "two", "method": "file.watch", "params": {"path": "."}}).encode())
        assert f.event()["id"] == "two"
        assert f.call("cancel", id="two")["found"]


def test_answers_come_in_the_order_of_requests():
    with Files() as f:
        numbers = [f.send("file.write", path=f"f{i}", content=str(i)) for i in range(50)]
        order = [f.receive()["id"] for _ in numbers]
        assert order == numbers


def ends_badly(send):
    f = Files()
    try:
        send(f)
        error = None
        try:
            while True:
                error = f.receive()
        except Gone:
            pass
        assert f.process.wait(HANG) == 1
        return error
    finally:
        f.process.kill()
        f.sock.close()
        os.rmdir(f.root)


def test_bytes_that_are_no_frames_end_it():
    for text in (b"[]", b"{}", b"x", b'{"jsonrpc": "2.0", "id": 1.5, "method": "file.stat"}'):
        assert ends_badly(lambda f, text=text: f.send_text(text))["error"]["data"]["name"] == "protocol"
    ends_badly(lambda f: f.sock.sendall(struct.pack("<II", 3, 0)))
    ends_badly(lambda f: f.sock.sendall(struct.pack("<II", 1 << 31, 0)))


def test_a_job_does_not_hold_up_others():
    with Files({"x": "a" * 30 + "!"}) as f:
        watch = f.send("file.watch", path=".")
        f.event()
        assert f.call("file.read", path="x")["bytes"] == 31 and len(children(f)) == 1
        f.call("cancel", id=watch)
        assert children(f) == []


def test_a_job_that_is_killed_is_an_error():
    with Files() as f:
        watch = f.send("file.watch", path=".")
        f.event()
        os.kill(children(f)[0], signal.SIGKILL)
        try:
            f.answer(watch)
            raise AssertionError("it was answered")
        except Refused as error:
            assert error.name == "resource"
        assert f.call("file.exists", path=".")["exists"]


def test_no_more_jobs_than_there_may_be():
    with Files() as f:
        watches = [f.send("file.watch", path=".") for _ in range(64)]
        try:
            assert [f.event()["event"] for _ in watches] == ["ready"] * 64
        except Refused as error:  # others on this host watch too, and the kernel counts all together
            print(error, flush=True)
            raise SystemExit(77) from None
        assert "64" in f.refused("resource", "file.search", path=".", text="x")
        assert f.call("file.exists", path=".")["exists"]  # short requests go on
        for number in watches:
            assert f.call("cancel", id=number)["found"]
        assert f.call("file.search", path=".", text="x")["files"] == 0


def test_jobs_end_with_the_channel():
    f = Files()
    for _ in range(3):
        f.send("file.watch", path=".")
        f.event()
    jobs = children(f)
    f.__exit__(None)
    for pid in jobs:
        assert not os.path.exists(f"/proc/{pid}"), "a job outlived the program"


def test_jobs_end_with_the_program():
    f = Files()
    f.send("file.watch", path=".")
    f.event()
    job, = children(f)
    fd = os.pidfd_open(job)
    f.process.kill()
    f.process.wait(HANG)

    assert select.select([fd], [], [], HANG)[0], "the job goes on"
    os.close(fd)
    f.sock.close()
    os.rmdir(f.root)


def test_large_frames():
    with Files() as f:
        content = os.urandom(100 << 20)
        assert f.call("file.write", path="x", content=content)["bytes"] == len(content)
        assert f.read("x") == content
        for line in open(f"/proc/{f.process.pid}/status"):
            if line.startswith("VmRSS") and not os.path.exists(os.path.join(os.environ["CLOCHE_BUILD"], "tests/cloche-files-checked")):
                assert int(line.split()[1]) < 8192, "memory of a large frame is kept"
