"""One file: written and read, whole and in pieces."""
import os
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files

EVERY_BYTE = bytes(range(256)) * 300


def test_bytes_come_back_as_they_were():
    with Files() as f:
        for content in ("", "plain\n", "ä€🍏", "a\0b", "\r\n\t\x1b\x7f", EVERY_BYTE, b"\xff", b"\xed\xa0\x80", "x" * 5_000_000, os.urandom(5_000_000)):
            size = len(content.encode() if isinstance(content, str) else content)
            assert f.call("file.write", path="x", content=content)["bytes"] == size
            back = f.call("file.read", path="x")
            told = content if isinstance(content, bytes) or (len(content) < 65536 and "\0" not in content) else content.encode()
            assert back["content"] == told and back["bytes"] == back["total"] == size and back["offset"] == 0


def test_bytes_that_are_text_are_told_as_text():
    with Files() as f:
        f.call("file.write", path="x", content=b"text")
        assert f.call("file.read", path="x")["content"] == "text"


def test_directories_are_made_and_modes_kept():
    with Files({"old": "1"}) as f:
        os.chmod(f.path("old"), 0o640)
        f.call("file.write", path="old", content="2")
        assert stat.S_IMODE(os.stat(f.path("old")).st_mode) == 0o640
        f.call("file.write", path="a/b/c", content="3")
        assert stat.S_IMODE(os.stat(f.path("a/b/c")).st_mode) == 0o644 and stat.S_IMODE(os.stat(f.path("a/b")).st_mode) == 0o755
        f.call("file.write", path="a/tool", content="#!/bin/sh\n", mode=0o755)
        assert stat.S_IMODE(os.stat(f.path("a/tool")).st_mode) == 0o755
        f.refused("invalid_argument", "file.write", path="x", content="", mode=0o10000)


def test_nothing_is_left_beside():
    with Files({"old": "1"}) as f:
        for _ in range(3):
            f.call("file.write", path="old", content="2")
            f.call("file.write", path="new", content="2")
        f.refused("file_kind", "file.write", path=".", content="2")
        assert sorted(os.listdir(f.root)) == ["new", "old"]


def test_a_reader_of_the_old_file_keeps_it():
    with Files({"old": "before"}) as f, open(f.path("old")) as reader:
        f.call("file.write", path="old", content="after")
        assert reader.read() == "before" and f.read("old") == b"after"


def test_append_and_offset():
    with Files({"x": "0123456789"}) as f:
        f.call("file.write", path="x", content="ab", append=True)
        f.call("file.write", path="x", content="XY", offset=3)
        assert f.read("x") == b"012XY56789ab"
        f.call("file.write", path="x", content="Z", offset=0)
        assert f.read("x") == b"Z12XY56789ab"
        f.call("file.write", path="hole/x", content=b"end", offset=1 << 32)
        assert os.stat(f.path("hole/x")).st_size == (1 << 32) + 3 and os.stat(f.path("hole/x")).st_blocks < 100
        f.call("file.write", path="new", content="1", append=True)
        assert f.read("new") == b"1"
        f.refused("invalid_argument", "file.write", path="x", content="", append=True, offset=1)
        f.refused("too_large", "file.write", path="x", content="a", offset=2**53 - 1)


def test_pieces():
    with Files({"x": "0123456789", "ä": "äöü"}) as f:
        piece = f.call("file.read", path="x", offset=3, limit=4)
        assert (piece["content"], piece["offset"], piece["bytes"], piece["total"]) == ("3456", 3, 4, 10)
        assert f.call("file.read", path="x", offset=8)["content"] == "89"
        assert f.call("file.read", path="x", limit=0)["bytes"] == 0
        end = f.call("file.read", path="x", offset=100)
        assert end["content"] == "" and end["total"] == 10
        assert f.call("file.read", path="ä", limit=3)["content"] == "äö".encode()[:3]


def test_large_files_are_read_in_pieces():
    with Files({"large": os.urandom(32 << 20) + b"\xff"}) as f:
        assert "limit" in f.refused("too_large", "file.read", path="large")
        f.refused("too_large", "file.read", path="large", limit=(32 << 20) + 1)
        assert f.call("file.read", path="large", offset=32 << 20)["content"] == b"\xff"
        assert f.call("file.read", path="large", limit=1 << 30, offset=1)["content"] == f.read("large")[1:]


def test_links_are_followed():
    with Files({"dir/real": "1", "link": ("link", "dir/real"), "dangling": ("link", "dir/new"), "up": ("link", "dir"), "loop": ("link", "loop")}) as f:
        f.call("file.write", path="link", content="2")
        assert os.path.islink(f.path("link")) and f.read("dir/real") == b"2"
        f.call("file.write", path="dangling", content="3")
        assert os.path.islink(f.path("dangling")) and f.read("dir/new") == b"3"
        f.call("file.write", path="up/other", content="4")
        assert f.read("dir/other") == b"4"
        f.refused("file_kind", "file.write", path="loop", content="")
        f.refused("file_kind", "file.read", path="loop")


def test_what_is_no_file_is_refused_at_once():
    with Files({"dir": None, "file": "x"}) as f:
        os.mkfifo(f.path("pipe"))
        for path in ("pipe", "dir", "/dev/zero", "/dev/tty"):
            assert f.refused("file_kind", "file.read", path=path)
        for path in ("pipe", "dir", "/dev/null"):
            for how in ({}, {"append": True}, {"offset": 0}):
                f.refused("file_kind", "file.write", path=path, content="x", **how)
        f.refused("file_not_found", "file.read", path="none")
        f.refused("file_kind", "file.read", path="file/x")
        f.refused("file_kind", "file.write", path="file/x", content="")


def test_paths_that_are_none():
    with Files() as f:
        for path in ("", "a\0b", "a" * 5000, "/" + "a/" * 2100):
            assert f.refused("invalid_argument", "file.read", path=path)
        f.refused("invalid_argument", "file.read", path="n" * 300)
        f.refused("invalid_argument", "file.read", path=b"\xff")


def test_rights_are_those_of_the_user():
    with Files({"mine": "x", "others": "y", "kept/x": "z"}, ordinary=True) as f:
        if os.geteuid() == 0:
            os.chown(f.path("others"), 0, 0)
            os.chmod(f.path("others"), 0o600)
            f.refused("file_denied", "file.read", path="others")
        os.chmod(f.path("mine"), 0o444)
        f.refused("file_denied", "file.write", path="mine", content="")
        f.refused("file_denied", "file.write", path="mine", content="", append=True)
        os.chmod(f.path("kept"), 0o555)
        f.refused("file_denied", "file.write", path="kept/new", content="")
        f.call("file.write", path="kept/x", content="in place")  # its directory may not be written to, but it may
        assert f.read("kept/x") == b"in place"
        assert f.call("file.read", path="mine")["content"] == "x"
        f.refused("file_denied", "file.write", path="/cloche-none", content="")


def test_a_full_disk_leaves_the_old_file():
    with Files({"x": "old"}, small="size=256k,nr_inodes=20") as f:
        f.refused("disk_full", "file.write", path="x", content=b"n" * (1 << 20))
        assert f.read("x") == b"old"
        f.refused("disk_full", "file.write", path="x", content=b"n" * (1 << 20), append=True)
        assert f.read("x") == b"old" and os.listdir(f.root) == ["x"]
        f.call("file.write", path="y", content=b"n" * (1 << 16))  # there is room again
        for i in range(10):
            f.call("file.write", path=f"f{i}", content="")
        f.refused("disk_full", "file.mkdir", path="/".join(f"d{i}" for i in range(20)), recursive=True)


def test_kinds_of_contents():
    rows = {"a.py": ("print(1)", "text/x-python"), "b.json": ("{}", "application/json"), "c": ("text", "text/plain"), "d": (b"\xff\x00", "application/octet-stream"),
            "e.txt": (b"\x89PNG\r\n\x1a\n...", "image/png"), "f.pdf": ("%PDF-1.4", "application/pdf")}
    with Files({name: content for name, (content, _) in rows.items()}) as f:
        for name, (_, kind) in rows.items():
            assert f.call("file.read", path=name)["mimeType"] == kind, name


def test_files_of_proc_have_no_size_and_are_read():
    with Files() as f:
        read = f.call("file.read", path="/proc/version")
        assert read["content"].startswith("Linux") and read["total"] == read["bytes"] > 0
