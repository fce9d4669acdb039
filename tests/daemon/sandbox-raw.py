#!/usr/bin/python3
"""Files of any size and whole trees as bodies of HTTP."""
import hashlib
import io
import os
import sys
import tarfile
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import Daemon, Gone
from sandbox_client import IS_SANITIZED, put, read_raw, wait_for

RAW = "/v1/sandboxes/a/raw?path="
TREE = "/v1/sandboxes/a/tree?path="
TIMEOUT = 120


def get(http, path, **headers):
    status = http.begin("GET", path, headers=headers)
    return status, read_raw(http)


def names(http, path="/workspace"):
    return [entry["name"] for entry in http.post("/v1/sandboxes/a/file/list", path=path, hidden=True)[1]["entries"]]


def test_a_hundred_mebibytes_there_and_back():
    block = os.urandom(1 << 20)
    data = b"".join(block[i:] + block[:i] for i in range(100))
    with Daemon() as daemon, Http(daemon.connect()) as http:
        assert put(http, RAW + "small", b"x")[0] == 200
        before = daemon.memory()
        assert put(http, RAW + "big", data) == (200, {"path": "/workspace/big", "bytes": len(data)})
        most = daemon.memory() - before
        assert names(http) == ["big", "small"], "nothing of the way there is left"
        digest = http.post("/v1/sandboxes/a/exec", command="sha256sum < big")[1]["stdout"].split()[0]
        assert digest == hashlib.sha256(data).hexdigest()
        status, back = get(http, RAW + "big")
        most = max(most, daemon.memory() - before)
        assert status == 200 and back == data and int(http.headers["content-length"]) == len(data)
        assert most < 40 << 20 or IS_SANITIZED, ("it was held whole", most)
        assert put(http, RAW + "chunks", data[:5000001], chunk=70000) == (200, {"path": "/workspace/chunks", "bytes": 5000001})
        assert get(http, RAW + "chunks")[1] == data[:5000001]
        status, back = get(http, RAW + "big", Range="bytes=90000000-90000099")
        assert status == 206 and back == data[90000000:90000100]


def test_ranges():
    data = bytes(range(256)) * 10
    with Daemon() as daemon, Http(daemon.connect()) as http:
        put(http, RAW + "f", data)
        for text, status, part, said in (("bytes=0-0", 206, data[:1], "bytes 0-0/2560"), ("bytes=10-19", 206, data[10:20], "bytes 10-19/2560"),
                                         ("bytes=2550-", 206, data[2550:], "bytes 2550-2559/2560"), ("bytes=2550-9999", 206, data[2550:], "bytes 2550-2559/2560"),
                                         ("bytes=-10", 206, data[-10:], "bytes 2550-2559/2560"), ("bytes=-9999", 206, data, "bytes 0-2559/2560"),
                                         ("bytes=0-1,4-5", 200, data, None), ("bytes=5-3", 200, data, None), ("bytes=x", 200, data, None), ("lines=1-2", 200, data, None),
                                         ("bytes=99999999999999999999-", 200, data, None)):
            assert get(http, RAW + "f", Range=text) == (status, part), text
            assert http.headers.get("content-range") == said and http.headers["accept-ranges"] == "bytes", text
        for text in ("bytes=2560-", "bytes=9999-99999", "bytes=-0"):
            assert get(http, RAW + "f", Range=text)[0] == 416 and http.headers["content-range"] == "bytes */2560", text
        put(http, RAW + "empty", b"")
        assert get(http, RAW + "empty") == (200, b"") and get(http, RAW + "empty", Range="bytes=0-")[0] == 416
        assert http.headers["x-content-type-options"] == "nosniff"


def test_what_is_refused():
    with Daemon() as daemon:
        with Http(daemon.connect()) as http:
            for path, status, name in ((RAW + "none", 404, "file_not_found"), (RAW + "/tmp", 400, "file_kind"), (RAW[:-6], 400, "invalid_argument"),
                                       (RAW + "a&path=b", 400, "invalid_argument"), (RAW + "a&what=b", 400, "invalid_argument"), (RAW + "%", 400, "invalid_argument"),
                                       (RAW + "a%00b", 400, "invalid_argument"), (RAW + "%ff", 400, "invalid_argument"), (RAW + "%zz", 400, "invalid_argument"),
                                       (TREE + "/workspace&format=rar", 400, "invalid_argument"), (TREE + "none", 404, "file_not_found"),
                                       ("/v1/sandboxes/a/raw", 400, "invalid_argument")):
                status_now, error = http.get(path)
                assert (status_now, error["error"]["name"]) == (status, name), (path, status_now, error)
            assert http.request("POST", RAW + "x", {})[0] == 405
        for path, status, name in ((RAW + "/tmp", 400, "file_kind"), (RAW + "/usr/x", 403, "file_denied"), (RAW + "/proc/self/mem/x", 400, None),
                                   (RAW[:-6], 400, "invalid_argument")):
            with Http(daemon.connect()) as http:
                status_now, error = put(http, path, b"data")
                assert status_now >= 400 and (name is None or error["error"]["name"] == name), (path, status_now, error)
        with Http(daemon.connect()) as http:
            assert put(http, TREE + "/workspace/t&format=tar", b"no archive at all")[1]["error"]["name"] == "bad_archive"
            assert names(http, "/tmp") == [] and names(http) in ([], ["t"])


def test_names_with_anything_in_them():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        for path, name in (("a%20b", "a b"), ("a+b", "a b"), ("%C3%A4", "\u00e4"), ("%25", "%"), ("a%26b%3Dc", "a&b=c"), ("..%2F..%2Ftmp%2Fup", None), ("%3Cb%3E", "<b>")):
            assert put(http, RAW + path, b"x")[0] == 200, path
            assert get(http, RAW + path) == (200, b"x")
            assert name is None or name in names(http), (path, names(http))
        assert names(http, "/tmp") == ["up"], "it leads out of /workspace, and not out of the sandbox"


def test_modes_and_links():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        def run(command):
            return http.post("/v1/sandboxes/a/exec", command=command)[1]["stdout"]

        run("echo '#!/bin/sh' > tool; chmod 755 tool; mkdir dir")
        assert put(http, RAW + "tool", b"#!/bin/sh\necho new\n")[0] == 200
        assert run("./tool; stat -c %a tool") == "new\n755\n", "what may be run may be run afterwards"
        assert put(http, RAW + "dir/new/deep", b"x")[0] == 200 and run("cat dir/new/deep") == "x"


def test_an_upload_that_ends_early_leaves_nothing():
    with Daemon() as daemon:
        with Http(daemon.connect()) as keeper:
            put(keeper, RAW + "f", b"old")
            for length in (False, True):
                with Http(daemon.connect()) as http:
                    head = {"Host": "a", **({"Content-Length": "50000000"} if length else {"Transfer-Encoding": "chunked"})}
                    http.send_head("PUT", RAW + "f", head)
                    http.socket.sendall((b"" if length else b"400000\r\n") + bytes(4 << 20))
                    wait_for(lambda: len(names(keeper)) == 2)
                wait_for(lambda: names(keeper) == ["f"])
            assert get(keeper, RAW + "f")[1] == b"old", "and what was there is as it was"
            with Http(daemon.connect()) as http:
                http.begin("GET", RAW + "/dev/zero", headers={"Range": "bytes=0-"})
            assert keeper.get("/health")[0] == 200


def test_a_sandbox_that_goes_meanwhile():
    with Daemon() as daemon, Http(daemon.connect()) as keeper, Http(daemon.connect()) as http:
        keeper.post("/v1/sandboxes/a/exec", command="true")
        http.send_head("PUT", RAW + "f", {"Host": "a", "Content-Length": str(6 << 20)})
        http.socket.sendall(bytes(3 << 20))
        wait_for(lambda: len(names(keeper)) == 1)
        assert keeper.request("DELETE", "/v1/sandboxes/a")[0] == 200
        http.socket.sendall(bytes(3 << 20))
        status, error = http.read_head(), http.read_body()
        assert status == 410 and error["error"]["name"] == "sandbox_ended", (status, error)


def test_what_does_not_fit():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.post("/v1/sandboxes", sandbox="a", limits={"diskBytes": 8 << 20})
        with Http(daemon.connect()) as other:
            status, error = put(other, RAW + "f", bytes(30 << 20))
            assert status in (507, 400) and error["error"]["name"] in ("disk_full", "too_large"), (status, error)
        wait_for(lambda: names(http) == [])
        assert put(http, RAW + "f", bytes(1 << 20))[0] == 200


def test_a_reader_that_is_slow():
    with Daemon() as daemon, Http(daemon.connect()) as http, Http(daemon.connect()) as other:
        http.post("/v1/sandboxes/a/exec", command="head -c 60000000 /dev/zero > zeros")
        before = daemon.memory()
        other.begin("GET", RAW + "zeros")
        time.sleep(0.5)
        assert daemon.memory() - before < 30 << 20 or IS_SANITIZED
        assert len(read_raw(other)) == 60000000


def test_trees():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        http.post("/v1/sandboxes/a/exec", command="mkdir -p t/sub; echo one > t/one; echo two > t/sub/two; ln -s one t/link; chmod 755 t/one")
        for form in ("", "&format=tar", "&format=tar.gz"):
            status, data = get(http, TREE + "t" + form)
            assert status == 200
            with tarfile.open(fileobj=io.BytesIO(data)) as archive:
                found = {os.path.normpath(member.name): member for member in archive.getmembers()}
                assert any(name.endswith("sub/two") for name in found), found
            status, answer = put(http, TREE + "copy" + form.replace("&format=", "-").replace(".", "") + form, data)
            assert status == 200 and answer["files"] >= 3, answer
        assert names(http, "/tmp") == [], "archives on the way are removed"
        out = http.post("/v1/sandboxes/a/exec", command="find copy -name two -exec cat {} +")[1]["stdout"]
        assert out == "two\n"
        for form in ("tar.zst", "zip"):
            status, data = get(http, TREE + "t&format=" + form)
            assert status == 200 and data[:4] in (b"\x28\xb5\x2f\xfd", b"PK\x03\x04"), (form, data[:4])
            assert put(http, TREE + "from-" + form + "&format=" + form, data)[0] == 200


def test_over_tcp_the_token_is_asked_before_the_body():
    with Daemon(tcp=True) as daemon:
        with Http(daemon.connect_tcp()) as http:
            http.send_head("PUT", RAW + "f", {"Host": "localhost", "Content-Length": "100000000000"})
            assert http.read_head() == 401 and http.read_body()["error"]["name"] == "unauthorized"
        with Http(daemon.connect_tcp(), daemon.token) as http:
            assert put(http, RAW + "f", bytes(3 << 20))[0] == 200 and len(get(http, RAW + "f")[1]) == 3 << 20
            for host in ("evil.example", "8080-a-token.preview.test"):
                http.host = host
                assert http.get(RAW + "f")[0] == 403


def test_one_request_behind_the_other():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        def head(verb, path, length, more=""):
            return f"{verb} {path} HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n{more}\r\n".encode()

        http.socket.sendall(head("PUT", RAW + "f", 5) + b"first" + head("GET", RAW + "f", 0) + head("PUT", RAW + "f", 6) + b"second" + head("GET", RAW + "f", 0))
        answers = [(http.read_head(), read_raw(http)) for _ in range(4)]
        assert [status for status, _ in answers] == [200] * 4 and answers[1][1] == b"first" and answers[3][1] == b"second", answers
        http.socket.sendall(head("PUT", RAW + "f", 3, "Expect: 100-continue\r\n"))
        assert http.until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        http.socket.sendall(b"abc")
        assert http.read_head() == 200 and http.read_body()["bytes"] == 3
        http.socket.sendall(b"PUT " + RAW.encode() + b"f HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + b"".join(
            b"1;name=value\r\n" + bytes([byte]) + b"\r\n" for byte in b"a byte at a time") + b"0\r\nTrailer: x\r\n\r\n")
        assert http.read_head() == 200 and http.read_body()["bytes"] == 16
        assert get(http, RAW + "f")[1] == b"a byte at a time"


BAD = ["Content-Length: -1", "Content-Length: 99999999999999999999999", "Content-Length: x", "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "Transfer-Encoding: chunked\r\n\r\nffffffffffffffffff\r\n"]


def test_bodies_that_are_none():
    with Daemon() as daemon:
        with Http(daemon.connect()) as keeper:
            put(keeper, RAW + "f", b"old")
        for text in BAD:
            with Http(daemon.connect()) as http:
                try:
                    http.socket.sendall(f"PUT {RAW}f HTTP/1.1\r\nHost: a\r\n{text}\r\n\r\n".encode())
                    assert http.read_head() >= 400, text
                except (Gone, ConnectionError):
                    pass
        with Http(daemon.connect()) as keeper:
            wait_for(lambda: names(keeper) == ["f"])
            assert get(keeper, RAW + "f")[1] == b"old"
