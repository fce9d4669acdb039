"""Text in files: found and replaced."""
import os
import stat
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files

SOURCES = {"src/a.c": "int main;\n  return main;\n", "src/b.h": "Main\n", "README": "about main\n", ".git/x": "main\n", "node_modules/m/i.js": "main\n",
           "deep/node_modules/x": "main\n", "bin": b"main\0", "out": ("link", "README")}


def places(f, **params):
    answer = f.call("file.search", path=".", **params)
    return [(os.path.relpath(m["path"], f.root), m["line"], m["column"]) for m in answer["matches"]]


def test_a_text_is_found_letter_for_letter():
    with Files(SOURCES) as f:
        assert places(f, text="main") == [("README", 1, 7), ("src/a.c", 1, 5), ("src/a.c", 2, 10)]
        assert places(f, text="main", ignoreCase=True)[-1] == ("src/b.h", 1, 1)
        assert places(f, text="m.in") == [] and len(places(f, pattern="m.in")) == 3
        answer = f.call("file.search", path="src/a.c", text="main")
        assert answer["matches"][1] == {"path": f.path("src/a.c"), "line": 2, "column": 10, "text": "  return main;"} and answer["files"] == 1


def test_include_and_exclude():
    with Files(SOURCES) as f:
        assert places(f, text="main", include=["*.c"]) == [("src/a.c", 1, 5), ("src/a.c", 2, 10)]
        assert places(f, text="main", include=["src/*"], exclude=["*.c"]) == []
        assert ("deep/node_modules/x", 1, 1) in places(f, text="main", exclude=[])
        assert "include" in f.refused("invalid_argument", "file.search", path=".", text="x", include=["+(+(a))"])
        f.refused("invalid_argument", "file.search", path=".", text="x", exclude=["a"] * 257)


def test_expressions():
    with Files({"x": "one\r\ntwo\r\n\nthrée €\n"}) as f:
        assert places(f, pattern="^t\\w+$") == [("x", 2, 1), ] and places(f, pattern="^t\\w+") == [("x", 2, 1), ("x", 4, 1)]
        assert places(f, pattern="\\p{Sc}") == [("x", 4, 7)] and places(f, pattern="ÉE", ignoreCase=True) == [("x", 4, 4)]
        assert places(f, pattern="^$") == [("x", 3, 1)]
        assert "at 1" in f.refused("invalid_argument", "file.search", path=".", pattern="(")
        for params in ({}, {"text": "a", "pattern": "b"}, {"text": ""}, {"pattern": "\\C"}, {"pattern": "a" * 70_000}):
            f.refused("invalid_argument", "file.search", path=".", **params)


def test_an_expression_that_never_ends_is_an_error():
    with Files({"x": "a" * 4000 + "!\n"}) as f:
        assert "backtracks" in f.refused("invalid_argument", "file.search", path=".", pattern="(a+)+$")
        assert "backtracks" in f.refused("invalid_argument", "file.replace", path=".", pattern="(a|aa)+$", replacement="")
        assert len(places(f, pattern="a+!")) == 1


def test_bytes_that_are_no_text():
    with Files({"latin": b"caf\xe9 au lait\n", b"\xff\xfe": "here\n", "late": b"x" * 300_000 + b"here\n" + b"\0"}) as f:
        match = f.call("file.search", path=".", text="lait")["matches"][0]
        assert match["text"] == b"caf\xe9 au lait"
        assert f.call("file.search", path=".", pattern="LA.T", ignoreCase=True)["files"] == 1
        matches = f.call("file.search", path=".", text="here")["matches"]
        assert [m["path"] for m in matches] == [os.fsencode(f.root) + b"/\xff\xfe"]


def test_limits():
    with Files({"x": "hit\n" * 3000, "y": "hit " * 1000}) as f:
        assert len(f.call("file.search", path=".", text="hit")["matches"]) == 1000
        answer = f.call("file.search", path=".", text="hit", limit=3001)
        assert len(answer["matches"]) == 3001 and not answer["truncated"] and answer["files"] == 2
        assert len(answer["matches"][-1]["text"]) == 1000
        assert f.call("file.search", path=".", text="hit", limit=3000)["truncated"]
        f.refused("invalid_argument", "file.search", path=".", text="hit", limit=0)
        f.refused("file_not_found", "file.search", path="none", text="hit")
        f.refused("file_kind", "file.search", path="/dev/null", text="hit")


def test_lines_of_large_files():
    with Files() as f:
        with open(f.path("log"), "wb") as file:
            for i in range(400_000):
                file.write(b"%07d an ordinary line of a log that somebody keeps\n" % i)
        match, = f.call("file.search", path=".", text="0399999 an")["matches"]
        assert (match["line"], match["column"]) == (400_000, 1)
        assert f.call("file.search", path=".", pattern="^0399998 .*keeps$")["matches"][0]["line"] == 399_999


def test_replaces():
    with Files({"a": "one two one\n", "b/c": "one\n", "d": "none\n", "bin": b"one\0", ".git/x": "one\n", "l": ("link", "a")}) as f:
        os.chmod(f.path("a"), 0o640)
        dry = f.call("file.replace", path=".", text="one", replacement="1", dryRun=True)
        assert dry["count"] == 4 and f.read("a") == b"one two one\n"
        done = f.call("file.replace", path=".", text="one", replacement="$1", exclude=["d", ".git"])
        assert done == {"files": [{"path": f.path("a"), "count": 2}, {"path": f.path("b/c"), "count": 1}], "count": 3}
        assert f.read("a") == b"$1 two $1\n" and f.read("bin") == b"one\0" and f.read(".git/x") == b"one\n"
        assert stat.S_IMODE(os.stat(f.path("a")).st_mode) == 0o640 and sorted(os.listdir(f.root)) == [".git", "a", "b", "bin", "d", "l"]
        f.call("file.replace", path="l", text="two", replacement="2")
        assert os.path.islink(f.path("l")) and f.read("a") == b"$1 2 $1\n"


def test_replaces_by_groups():
    with Files({"x": "key = value\nother = 2\n", "latin": b"caf\xe9 = 1\n", "many": "a" * 100_000}) as f:
        f.call("file.replace", path=".", pattern="^(?<name>\\w+) = (.*)$", replacement="${name}: $2;", include=["x"])
        assert f.read("x") == b"key: value;\nother: 2;\n"
        f.call("file.replace", path="latin", pattern="= (\\d)", replacement="is $1")
        assert f.read("latin") == b"caf\xe9 is 1\n"
        f.call("file.replace", path="x", pattern="KEY", replacement="$$", ignoreCase=True)
        assert f.read("x").startswith(b"$: value")
        f.call("file.replace", path="x", text="VALUE", replacement="$1", ignoreCase=True)
        assert f.read("x").startswith(b"$: $1;")
        f.call("file.replace", path="many", text="a", replacement="bcd" * 20)
        assert f.read("many") == b"bcd" * 20 * 100_000
        f.call("file.replace", path="x", pattern="\\n", replacement="")
        assert b"\n" not in f.read("x")


def test_a_bad_replacement_changes_nothing():
    with Files({"x": "abc"}) as f:
        for replacement in ("$3", "${none}", "${"):
            f.refused("invalid_argument", "file.replace", path=".", pattern="b", replacement=replacement)
        f.refused("too_large", "file.replace", path=".", pattern="a|b|c|$", replacement="x" * (17 << 20))
        assert f.read("x") == b"abc" and os.listdir(f.root) == ["x"]
