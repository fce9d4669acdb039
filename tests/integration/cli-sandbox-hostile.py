"""A daemon, or a sandbox behind it, that lies: data that cloche accepts from it, and data it
refuses. The daemon is a scripted peer."""
import json
import os
import socket
import struct
import threading

from boxes import frame
from cloche import cli, equal, write_file


class Peer:
    """Responds to each request with answers[method](params): a result, or (result, attachments), or
    a list of raw frames to send before it."""

    def __init__(self, answers):
        self.answers = {"hello": lambda params: {"server": "cloche", "version": "0", "protocol": 1}, "sandbox.get": lambda params: {}, **answers}
        self.listener = socket.socket(socket.AF_UNIX)
        self.path = os.path.abspath("peer")
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        os.environ["CLOCHE_SOCKET"] = self.path

    def exactly(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def one(self):
        length, size = struct.unpack("<II", self.exactly(8))
        message = json.loads(self.exactly(length - 4)[:size])
        answer = self.answers[message["method"]](message["params"])
        for raw in answer.pop("before", []) if isinstance(answer, dict) else []:
            self.socket.sendall(raw(message["id"]))
        result, attachments = answer if isinstance(answer, tuple) else (answer, b"")
        self.socket.sendall(frame({"jsonrpc": "2.0", "id": message["id"], "result": result}, attachments))

    def serve(self):
        self.socket, _ = self.listener.accept()
        with self.socket:
            try:
                self.exactly(8)
                while True:
                    self.one()
            except (EOFError, ConnectionError):
                pass

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.thread.join()
        self.listener.close()
        os.unlink(self.path)


def entry(path, kind="file", **more):
    return {"name": "n", "path": "/workspace/" + str(path), "relativePath": path, "type": kind, "size": 4, "mode": 0o644, **more}


def content(params):
    return {"path": params["path"], "content": {"$": "bytes", "at": 0, "n": 4}, "total": 4, "bytes": 4, "offset": params["offset"]}, b"evil"


def fetched(entries, into="target", name="d/."):
    """The result of cloche cp for this list; every file holds "evil"."""
    with Peer({"file.stat": lambda params: entry("d", "directory", mode=0o755), "file.list": lambda params: {"path": "d", "entries": entries},
               "file.read": content}):
        return cli("cp", "box:" + name, into)


def fetched_file(into):
    """The same for one file, box:f."""
    with Peer({"file.stat": lambda params: entry("f"), "file.read": content}):
        return cli("cp", "box:f", into)


def test_paths_that_lead_out():
    outside = os.path.abspath("outside")
    os.mkdir(outside)
    for number, path in enumerate(("../evil", "a/../../evil", outside + "/evil", "a//b", "./evil", ".", "..", "", "a/", "x" * 5000)):
        finished = fetched([entry(path), entry("good")], f"target{number}")
        assert finished.code in (1, 2) and finished.stderr, (path, finished)
        equal(os.listdir(f"target{number}"), ["good"], path)
    equal((os.listdir(outside), os.path.exists("evil")), ([], False))


def test_links_that_are_written_through():
    outside = os.path.abspath("outside")
    os.mkdir(outside)
    finished = fetched([entry("link", "symlink", target=outside), entry("link/evil"), entry("link/made", "directory"),
                        entry("link/other", "symlink", target="x"), entry("good")])
    assert finished.code, finished
    equal((os.listdir(outside), os.listdir("target")), ([], ["good"]))


def test_links_within_the_tree_are_not_written_through():
    finished = fetched([entry("a", "directory", mode=0o755), entry("link", "symlink", target="a"), entry("link/f"), entry("a/good")])
    assert finished.code and b"target/link/f" in finished.stderr, finished
    equal((os.readlink("target/link"), os.listdir("target/a")), ("a", ["good"]))


def test_links_that_lead_out_are_left_out():
    outwards = {"absolute": "/etc/passwd", "up": "..", "up-more": "../x", "a/up": "../../x", "a/hidden": "b/../../../x", "empty": "",
                "a/self": "./../../target"}
    finished = fetched([entry("a", "directory", mode=0o755), *(entry(name, "symlink", target=target) for name, target in outwards.items())])
    equal(finished.code, 2, finished)
    lines = finished.stderr.decode().splitlines()
    equal(len(lines), len(outwards), finished)
    for name, line in zip(outwards, lines):
        assert f"'{name}'" in line and "skipped" in line, line
    equal((os.listdir("target"), os.listdir("target/a")), (["a"], []))
    inwards = {"one": "f", "two": "./a/f", "a/three": "../f", "a/b/four": "../../a/./b", "nowhere": "not/there"}
    equal(fetched([entry("a", "directory", mode=0o755), entry("a/b", "directory", mode=0o755),
                   *(entry(name, "symlink", target=target) for name, target in inwards.items())], "twin").code, 0)
    equal({name: os.readlink("twin/" + name) for name in inwards}, inwards)


def test_links_that_stand_for_files_already():
    os.mkdir("target")
    os.symlink("../precious", "target/f")
    write_file("precious", "kept")
    finished = fetched([entry("f"), entry("good")])
    assert finished.code and b"target/f" in finished.stderr, finished
    equal((open("precious").read(), open("target/good").read()), ("kept", "evil"))


def test_one_file_is_not_written_through_a_link():
    """The guest chooses the name below a directory; the caller chooses the other."""
    write_file("precious", "kept")
    os.mkdir("target")
    for link, leads_to in (("target/f", "../precious"), ("named", "precious"), ("nowhere", "made")):
        os.symlink(leads_to, link)
        finished = fetched_file("target" if link == "target/f" else link)
        assert finished.code and "link" in finished.stderr.decode() and link in finished.stderr.decode(), finished
    equal((open("precious").read(), os.path.exists("made")), ("kept", False))
    os.unlink("target/f")
    os.symlink("target", "way")  # the twins: a link to the directory that the caller names, and one of its words before the last
    equal((fetched_file("way").code, fetched_file("way/other").code), (0, 0))
    equal((open("target/f").read(), open("target/other").read()), ("evil", "evil"))


def test_a_directory_is_not_filled_through_a_link():
    os.makedirs("outside")
    os.makedirs("target")
    os.symlink("../outside", "target/d")
    finished = fetched([entry("f")], "target", "d")
    assert finished.code and b"target/d" in finished.stderr, finished
    equal(os.listdir("outside"), [])
    os.symlink("outside", "named")  # the twin: the directory that the caller names may be a link
    equal(fetched([entry("f")], "named").code, 0)
    equal(os.listdir("outside"), ["f"])


def test_what_stands_there_is_replaced_not_written_into():
    """A file may have other names, be setuid, or be no file at all."""
    os.mkdir("target")
    write_file("precious", "kept")
    os.link("precious", "target/hard")
    write_file("target/tool", "kept")
    os.chmod("target/tool", 0o4755)
    os.mkfifo("target/pipe")
    reader = os.open("target/pipe", os.O_RDONLY | os.O_NONBLOCK)
    finished = fetched([entry("hard"), entry("tool", mode=0o644), entry("pipe"), entry("good")])
    assert finished.code and b"target/pipe" in finished.stderr, finished
    try:
        written = os.read(reader, 10)
    except BlockingIOError:
        written = b""
    os.close(reader)
    equal((open("precious").read(), written, os.stat("target/tool").st_mode & 0o7777 & ~0o022), ("kept", b"", 0o644))
    equal([open("target/" + name).read() for name in ("hard", "tool", "good")], ["evil"] * 3)


def test_names_that_are_no_text():
    finished = fetched([entry({"$": "bytes", "at": 0, "n": 0}), entry(5), entry("good")])
    assert finished.code and b"UTF-8" in finished.stderr, finished
    equal(os.listdir("target"), ["good"])


def test_permissions_give_nobody_more():
    equal(fetched([entry("f", mode=0o107777), entry("d", "directory", mode=0o47777)]).code, 0)
    equal([os.lstat("target/" + name).st_mode & 0o7000 for name in ("f", "d")], [0, 0])


def test_errors_do_not_steer_the_terminal():
    error = {"code": -32000, "message": "no \x1b]0;owned\x07 \u202efile", "data": {"name": "file_not_found"}}

    def refused(number):
        return frame({"jsonrpc": "2.0", "id": number, "error": error})
    with Peer({"sandbox.get": lambda params: {"before": [refused]}}):
        finished = cli("sandbox", "get", "box")
    equal(finished.code, 2)
    assert b"\x1b" not in finished.stderr and rb"\x1b]0;owned\x07" in finished.stderr and "\u202e".encode() not in finished.stderr, finished


def printed(data, attachments=b""):
    def raw(number):
        return frame({"jsonrpc": "2.0", "method": "event", "params": {"id": number, "event": "output", "about": {"stream": "stdout", "data": data}}}, attachments)
    return raw


def test_bytes_that_are_not_there():
    for data in ({"$": "bytes", "at": 0, "n": 5}, {"$": "bytes", "at": -1, "n": 1}, {"$": "bytes", "at": 2 ** 53, "n": 1}, {"$": "bytes", "at": 1, "n": 2 ** 62},
                 {"$": "bytes"}, 5, None, {"$": "array", "at": 0, "n": 1}):
        with Peer({"exec": lambda params, data=data: {"exitCode": 0, "before": [printed(data, b"abcd")]}}):
            finished = cli("exec", "box", "--", "x")
        equal((finished.code, finished.stdout), (1, b""), data)
        assert b"neither text nor bytes" in finished.stderr, finished
    with Peer({"exec": lambda params: {"exitCode": 0, "before": [printed({"$": "bytes", "at": 1, "n": 2}, b"abcd")]}}):
        equal(cli("exec", "box", "--", "x").stdout, b"bc")  # the twin


def test_what_is_told_of_others_is_passed_over():
    def stranger(number):
        return printed("not mine")(number + 100)

    def unknown(number):
        return frame({"jsonrpc": "2.0", "method": "news", "params": {"id": number}})
    with Peer({"exec": lambda params: {"exitCode": 3, "before": [stranger, unknown, printed("mine")]}}):
        finished = cli("exec", "box", "--", "x")
    equal((finished.code, finished.stdout), (3, b"mine"))


def test_frames_that_are_none():
    for raw in (b"\xff\xff\xff\xff\0\0\0\0", b"\1\0\0\0", b"\4\0\0\0\5\0\0\0", struct.pack("<II", 7, 3) + b"[1]", struct.pack("<II", 8, 4) + b"nope"):
        with Peer({"exec": lambda params, raw=raw: {"exitCode": 0, "before": [lambda number: raw]}}):
            finished = cli("exec", "box", "--", "x")
        equal((finished.code in (1, 2), finished.stdout, len(finished.stderr.splitlines())), (True, b"", 1), raw)
