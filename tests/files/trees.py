"""Directories: listed, made, moved, copied, removed."""
import os
import resource
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files, need_root

TREE = {"a/b/c": "1", "a.txt": "2", "a/.hidden": "3", ".dot/x": "4", "a-b": "5", "z": ("link", "a"), "empty": None}


def listing(f, **params):
    return [entry["relativePath"] for entry in f.call("file.list", **params)["entries"]]


def test_lists_are_sorted_by_path():
    with Files(TREE) as f:
        assert listing(f, path=".") == ["a", "a-b", "a.txt", "empty", "z"]
        assert listing(f, path=".", recursive=True) == ["a", "a-b", "a.txt", "a/b", "a/b/c", "empty", "z"]
        every = listing(f, path=".", recursive=True, hidden=True)
        assert every == sorted(every) == [".dot", ".dot/x", "a", "a-b", "a.txt", "a/.hidden", "a/b", "a/b/c", "empty", "z"]
        assert listing(f, path="z") == ["b"]  # the link itself is followed, none below is
        f.refused("file_kind", "file.list", path="a.txt")
        f.refused("file_not_found", "file.list", path="none")


def test_pages_hold_everything_once():
    with Files({f"d{i % 7}/{'x' * (i % 3)}{i}": "" for i in range(200)} | {b"\xff\xfe": "", b"\xff/y": "", "m": None}) as f:
        whole = listing(f, path=".", recursive=True, hidden=True, limit=1000)
        assert b"\xff/y" in whole and len(whole) == 200 + 7 + 4
        for limit in (1, 2, 7, 50, 211, 212):
            found, after = [], None
            while True:
                page = f.call("file.list", path=".", recursive=True, hidden=True, limit=limit, **({"after": after} if after else {}))
                assert len(page["entries"]) <= limit
                found += [entry["relativePath"] for entry in page["entries"]]
                after = page.get("next")
                if not after:
                    break
            assert found == whole, limit
        for limit in (0, 100_001):
            f.refused("invalid_argument", "file.list", path=".", limit=limit)
        f.refused("invalid_argument", "file.list", path=".", after="/%")


def test_many_names_of_one_directory():
    with Files({"d": None}) as f:
        for i in range(12_000):
            os.close(os.open(f.path(f"d/{i:05}"), os.O_CREAT))
        assert listing(f, path="d", limit=3, after="11990") == ["11991", "11992", "11993"]
        assert listing(f, path="d", limit=2) == ["00000", "00001"]
        assert listing(f, path="d", recursive=True, limit=100_000) == [f"{i:05}" for i in range(12_000)]


def test_entries():
    with Files({"f": "12345", "d": None, "l": ("link", "no\nwhere"), b"\xff": "x"}) as f:
        os.chmod(f.path("f"), 0o4711)
        os.utime(f.path("f"), (0, 1_700_000_000.25))
        os.mkfifo(f.path("p"))
        entry = f.call("file.stat", path="f")
        assert entry == {"name": "f", "path": f.path("f"), "relativePath": "f", "type": "file", "size": 5, "mode": 0o4711, "modifiedAt": "2023-11-14T22:13:20.250Z"}
        assert f.call("file.stat", path="d")["type"] == "directory" and f.call("file.stat", path="p")["type"] == "other"
        link = f.call("file.stat", path="l")
        assert link["type"] == "symlink" and link["target"] == "no\nwhere"
        assert [e["name"] for e in f.call("file.list", path=".")["entries"]] == ["d", "f", "l", "p", b"\xff"]
        f.refused("file_not_found", "file.stat", path="none")


def test_exists():
    with Files({"f": "", "d": None, "l": ("link", "f"), "dangling": ("link", "none")}) as f:
        for path, there in {"f": "file", "d": "directory", "l": "file", "dangling": None, "none": None, "none/below": None, "f/below": None}.items():
            answer = f.call("file.exists", path=path)
            assert answer["exists"] == bool(there) and answer.get("type") == there, path


def test_mkdir():
    with Files({"f": ""}) as f:
        assert f.call("file.mkdir", path="d")["created"] and stat.S_IMODE(os.stat(f.path("d")).st_mode) == 0o755
        f.refused("file_exists", "file.mkdir", path="d")
        f.refused("file_not_found", "file.mkdir", path="x/y")
        assert f.call("file.mkdir", path="x/y/z", recursive=True, mode=0o700)["created"]
        assert stat.S_IMODE(os.stat(f.path("x/y/z")).st_mode) == 0o700 and stat.S_IMODE(os.stat(f.path("x/y")).st_mode) == 0o755
        assert not f.call("file.mkdir", path="x/y", recursive=True)["created"]
        f.refused("file_kind", "file.mkdir", path="f", recursive=True)
        f.refused("file_kind", "file.mkdir", path="f/x", recursive=True)
        f.refused("file_exists", "file.mkdir", path="f")


def test_moves():
    with Files({"a/f": "1", "b/g": "2", "c": "3", "l": ("link", "a"), "e": None}) as f:
        assert f.call("file.move", **{"from": "c", "to": "d"}) == {"from": f.path("c"), "to": f.path("d")}
        assert f.call("file.move", **{"from": "d", "to": "a"})["to"] == f.path("a/d")
        f.refused("file_exists", "file.move", **{"from": "b/g", "to": "a/f", "overwrite": False})
        f.call("file.move", **{"from": "b/g", "to": "a/f"})
        assert f.read("a/f") == b"2"
        f.refused("file_not_found", "file.move", **{"from": "none", "to": "x"})
        f.refused("file_not_found", "file.move", **{"from": "a", "to": "none/x"})
        assert "itself" in f.refused("invalid_argument", "file.move", **{"from": "a", "to": "a/below"})
        assert "itself" in f.refused("invalid_argument", "file.move", **{"from": "a", "to": "l/below"})
        f.call("file.move", **{"from": "l", "to": "k"})
        assert os.readlink(f.path("k")) == "a"
        f.refused("file_denied", "file.move", **{"from": f.root, "to": "/tmp/elsewhere"})


def test_moves_between_file_systems():
    need_root()
    with Files(TREE, small="size=1m") as f, Files(ordinary=False) as other:
        before = f.snapshot()
        f.call("file.move", **{"from": "a", "to": other.path("a")})
        f.call("file.move", **{"from": "z", "to": other.path("z")})
        assert not os.path.exists(f.path("a")) and os.readlink(other.path("z")) == "a"
        assert {k: v for k, v in before.items() if k.startswith("a/") or k in ("a", "z")} == other.snapshot()


def test_copies_keep_what_they_can():
    with Files({"t/dir/f": "1", "t/l": ("link", "../outside"), "t/run": "x", "t/shut/x": "y", "t/big": None}) as f:
        os.chmod(f.path("t/run"), 0o755)
        os.chmod(f.path("t/shut"), 0o500)
        os.mkfifo(f.path("t/pipe"))
        with open(f.path("t/sparse"), "wb") as file:
            file.seek(64 << 20)
            file.write(b"end")
        for path in ("t/run", "t/dir/f", "t/dir", "t"):
            os.utime(f.path(path), (1_000_000_000, 1_000_000_000))
        assert f.call("file.copy", **{"from": "t", "to": "u"})["to"] == f.path("u")
        assert f.snapshot("t") == f.snapshot("u")
        for path in ("", "/run", "/dir/f", "/dir"):
            assert os.stat(f.path("u" + path)).st_mtime == 1_000_000_000, path
        assert os.stat(f.path("u/sparse")).st_blocks < 1000
        assert f.call("file.copy", **{"from": "t", "to": "u"})["to"] == f.path("u/t")
        assert f.snapshot("t") == f.snapshot("u/t")


def test_copies_over_what_is_there():
    with Files({"a/x": "1", "a/y/z": "2", "b/a/x": "old", "b/a/only": "3", "f": "4", "g": "5", "d/f": None, "l": ("link", "f"), "t/c": "6", "s/t": "file"}) as f:
        f.refused("file_exists", "file.copy", **{"from": "a", "to": "b", "overwrite": False})
        f.call("file.copy", **{"from": "a", "to": "b"})
        assert f.read("b/a/x") == b"1" and f.read("b/a/only") == b"3" and f.read("b/a/y/z") == b"2"
        f.call("file.copy", **{"from": "f", "to": "g"})
        assert f.read("g") == b"4"
        f.refused("file_kind", "file.copy", **{"from": "f", "to": "d"})
        f.refused("file_kind", "file.copy", **{"from": "t", "to": "s"})
        f.call("file.copy", **{"from": "l", "to": "m"})
        assert os.readlink(f.path("m")) == "f"
        for to in ("a", "a/below", "a/y/deep"):
            f.refused("invalid_argument", "file.copy", **{"from": "a", "to": to})
        f.refused("invalid_argument", "file.copy", **{"from": "f", "to": "f"})
        f.refused("file_not_found", "file.copy", **{"from": "none", "to": "x"})
        f.refused("invalid_argument", "file.copy", **{"from": "a/..", "to": "x"})


def test_a_copy_that_does_not_fit_is_taken_away():
    with Files({"d/small": "1", "d/z": b"x" * 300_000}, small="size=512k") as f:
        f.refused("disk_full", "file.copy", **{"from": "d", "to": "e"})
        assert sorted(os.listdir(f.root)) == ["d"]


def test_removes():
    with Files({"t/a/b": "", "t/c": "", "f": "", "l": ("link", "t"), "empty": None}) as f:
        assert "recursive" in f.refused("file_kind", "file.remove", path="empty")
        assert f.call("file.remove", path="l", recursive=True)["count"] == 1 and os.path.exists(f.path("t/c"))
        assert f.call("file.remove", path="f")["count"] == 1
        assert f.call("file.remove", path="t", recursive=True)["count"] == 4
        f.refused("file_not_found", "file.remove", path="t", recursive=True)
        assert f.call("file.remove", path="t", recursive=True, force=True)["count"] == 0
        f.refused("file_not_found", "file.remove", path="t")
        assert os.listdir(f.root) == ["empty"]


def test_links_in_what_is_removed_lead_nowhere():
    with Files({"t/l": ("link", "../kept"), "t/d/up": ("link", ".."), "kept/x": ""}) as f:
        f.call("file.remove", path="t", recursive=True)
        assert os.listdir(f.root) == ["kept"] and os.listdir(f.path("kept")) == ["x"]


def test_directories_that_are_shut_are_opened_to_be_removed():
    with Files({"t/cache/module/x": ""}, ordinary=True) as f:
        for path in ("t/cache/module", "t/cache"):
            os.chmod(f.path(path), 0o555)
        os.mkdir(f.path("t/none"), 0o000)
        if os.geteuid() == 0:
            os.chown(f.path("t/none"), 65534, 65534)
        f.call("file.remove", path="t", recursive=True)
        assert os.listdir(f.root) == []


def test_what_stays_where_it_is():
    with Files({"x": "", "l": ("link", "."), "d": None}) as f:
        for path in (f.root, ".", "d/.."):
            assert f.refused("file_denied", "file.remove", path=path, recursive=True)
        assert sorted(os.listdir(f.root)) == ["d", "l", "x"]


def test_mounts_stay_where_they_are():
    need_root()
    with Files({"inner": None, "x": ""}, small="size=1m") as f:
        subprocess.run(["mount", "-t", "tmpfs", "none", f.path("inner")], check=True)
        try:
            assert "mounted" in f.refused("file_denied", "file.remove", path="inner", recursive=True)
            f.refused("file_denied", "file.move", **{"from": "inner", "to": "outer"})
        finally:
            subprocess.run(["umount", f.path("inner")], check=True)


def test_trees_deeper_than_paths_and_descriptors():
    with Files() as f:
        here = os.open(f.root, os.O_RDONLY)
        for i in range(1000):
            os.mkdir("deep", dir_fd=here)
            below = os.open("deep", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        with open(os.open("bottom", os.O_CREAT | os.O_WRONLY, dir_fd=here), "w") as file:
            file.write("needle")
        os.close(here)
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, (60, 60))
        entries = f.call("file.list", path=".", recursive=True, limit=100_000)["entries"]
        assert len(entries) == 1001
        assert f.call("file.search", path=".", text="needle")["files"] == 1
        f.call("file.copy", **{"from": "deep", "to": "copy"})
        assert f.call("file.remove", path="copy", recursive=True)["count"] == 1001
        assert f.call("file.remove", path="deep", recursive=True)["count"] == 1001
        assert os.listdir(f.root) == []
