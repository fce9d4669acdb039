"""Untrusted archives. Each is refused before anything is written, and has a twin that is accepted."""
import io
import os
import random
import stat
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files, Refused


def pack(path, *members, mode="w", **options):
    """Members: (name, contents), (name, type, link target) or (name, None) for a directory."""
    with tarfile.open(path, mode, **options) as tar:
        for name, *what in members:
            info = tarfile.TarInfo(name)
            info.mode = 0o644
            if len(what) == 2:
                info.type, info.linkname = what
            elif what[0] is None:
                info.type, info.mode = tarfile.DIRTYPE, 0o755
            else:
                info.size = len(what[0])
            tar.addfile(info, io.BytesIO(what[0]) if len(what) == 1 and what[0] is not None else None)


SYM, HARD = tarfile.SYMTYPE, tarfile.LNKTYPE
REFUSED = {
    "absolute": [("/tmp/cloche-evil", b"x")],
    "up": [("../evil", b"x")],
    "up in the middle": [("a/../../evil", b"x")],
    "up at the end": [("a/..", None)],
    "a link to an absolute path": [("l", SYM, "/etc/passwd")],
    "a link that leads out": [("l", SYM, "../outside")],
    "a link that leads out from below": [("a/l", SYM, "../../outside")],
    "a link that goes down and up": [("l", SYM, "a/../../outside")],
    "links that lead out together": [("d/x", SYM, ".."), ("y", SYM, "d/x/..")],
    "a member through a link": [("l", SYM, "a"), ("l/evil", b"x")],
    "a link where there is a directory": [("a/x", b"x"), ("a", SYM, "b")],
    "a directory where there is a link": [("l", SYM, "b"), ("l", None)],
    "a file where there is a directory": [("a/x", b"x"), ("a", b"x")],
    "a member below a file": [("a", b"x"), ("a/x", b"x")],
    "a link below a link": [("a", SYM, "."), ("a/b", SYM, "..")],
    "a hard link to the host": [("l", HARD, "/etc/passwd")],
    "a hard link up": [("l", HARD, "../outside")],
    "a hard link to nothing": [("l", HARD, "none")],
    "a hard link to a link": [("s", SYM, "a"), ("l", HARD, "s")],
    "a character device": [("null", tarfile.CHRTYPE, "")],
    "a block device": [("disk", tarfile.BLKTYPE, "")],
    "a pipe": [("pipe", tarfile.FIFOTYPE, "")],
    "a name that is too long": [("n" * 300, b"x")],
    "a path that is too long": [("a/" * 2500 + "x", b"x")],
}


def test_members_that_lead_elsewhere():
    with Files({"outside": "1"}) as f:
        for why, members in REFUSED.items():
            pack(f.path("x.tar"), ("first", b"x"), *members)
            message = f.refused("bad_archive", "archive.extract", path="x.tar", to="u")
            assert not os.path.lexists(f.path("u")), why
            assert members[-1][0][:100] in message, (why, message)
            assert sorted(os.listdir(f.root)) == ["outside", "x.tar"] and f.read("outside") == b"1", why
        assert not os.path.exists("/tmp/cloche-evil")


def test_their_permitted_twins():
    with Files() as f:
        pack(f.path("x.tar"), ("./a/", None), ("a/x", b"1"), ("l", SYM, "a/x"), ("a/l", SYM, "../l"), ("a/top", SYM, ".."), ("h", HARD, "a/x"), ("..b/...", b"2"),
             ("dangling", SYM, "a/none"), ("a/x", b"3"))
        assert f.call("archive.extract", path="x.tar", to="u")["files"] == 8
        assert f.read("u/a/l") == b"3" and f.read("u/h") == b"1" and f.read("u/a/top/..b/...") == b"2"


def test_links_that_are_there_already():
    with Files({"outside/x": "1", "u/sub": None, "u/l": ("link", "../outside"), "u/sub/in": ("link", "../sub")}) as f:
        for name in ("l/x", "l/new/y", "sub/in/z"):
            pack(f.path("x.tar"), ("first", b"x"), (name, b"evil"))
            f.refused("bad_archive", "archive.extract", path="x.tar", to="u")
            assert f.read("outside/x") == b"1" and sorted(os.listdir(f.path("outside"))) == ["x"] and not os.path.exists(f.path("u/first")), name
        pack(f.path("x.tar"), ("l", b"a file of its own"))
        f.call("archive.extract", path="x.tar", to="u")
        assert f.read("outside/x") == b"1" and not os.path.islink(f.path("u/l"))
        os.symlink("u", f.path("v"))
        f.call("archive.extract", path="x.tar", to="v")  # where it is unpacked to is the caller's word


def test_modes_that_give_rights():
    with Files() as f:
        with tarfile.open(f.path("x.tar"), "w") as tar:
            for name, mode, kind in (("s", 0o6755, tarfile.REGTYPE), ("d", 0o3777, tarfile.DIRTYPE)):
                info = tarfile.TarInfo(name)
                info.mode, info.type = mode, kind
                tar.addfile(info)
        f.call("archive.extract", path="x.tar", to="u")
        assert stat.S_IMODE(os.stat(f.path("u/s")).st_mode) == 0o755 and stat.S_IMODE(os.stat(f.path("u/d")).st_mode) == 0o777


def test_bombs():
    with Files() as f:
        for name, mode, effort in (("x.tar.gz", "w:gz", {"compresslevel": 6}), ("x.tar.xz", "w:xz", {"preset": 0})):
            pack(f.path(name), ("zeros", bytes(100 << 20)), mode=mode, **effort)
            assert "200 times" in f.refused("bad_archive", "archive.extract", path=name, to="u")
        with zipfile.ZipFile(f.path("x.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            for i in range(5):
                archive.writestr(f"z{i}", bytes(20 << 20))
        f.refused("bad_archive", "archive.extract", path="x.zip", to="u")
        assert not os.path.exists(f.path("u"))
        pack(f.path("y.tar.gz"), ("zeros", bytes(40 << 20)), mode="w:gz")  # the twin: little enough
        assert f.call("archive.extract", path="y.tar.gz", to="u")["bytes"] == 40 << 20


def test_archives_that_are_none_or_not_whole():
    with Files({"empty": "", "text": "text\n" * 100, "u/kept": "1"}) as f:
        whole = {}
        pack(f.path("x.tar.gz"), *[(f"f{i}", os.urandom(5000)) for i in range(20)], mode="w:gz")
        with zipfile.ZipFile(f.path("x.zip"), "w", zipfile.ZIP_DEFLATED) as archive:
            for i in range(20):
                archive.writestr(f"f{i}", os.urandom(5000))
        for name in ("x.tar.gz", "x.zip"):
            whole[name] = f.read(name)
        bad = {"empty": None, "text": None}
        for name, data in whole.items():
            for size in (1, 100, len(data) // 2, len(data) - 30):
                bad[f"{name}-{size}"] = data[:size]
            torn = bytearray(data)
            for at in range(2000, 60_000, 500):
                torn[at] ^= 0x55
            bad[f"{name}-torn"] = torn
        for name, data in bad.items():
            if data is not None:
                f.make(name, bytes(data))
            f.refused("bad_archive", "archive.extract", path=name, to="u")
            assert os.listdir(f.path("u")) == ["kept"], name


def test_encrypted_archives():
    with Files({"secret": "x" * 100}) as f:
        data = bytearray(make_zip())
        for signature, at in ((b"PK\3\4", 6), (b"PK\1\2", 8)):  # the flag for this, in both headers
            data[data.index(signature) + at] |= 1
        f.make("x.zip", bytes(data))
        assert "encrypted" in f.refused("bad_archive", "archive.extract", path="x.zip", to="u")


def make_zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a", "contents")
    return out.getvalue()


def test_zip_names_and_links():
    with Files() as f:
        for name in ("../evil", "/evil", "a/../../evil"):
            with zipfile.ZipFile(f.path("x.zip"), "w") as archive:
                archive.writestr("first", "x")
                archive.writestr(name, "x")
            f.refused("bad_archive", "archive.extract", path="x.zip", to="u")
            assert not os.path.exists(f.path("u")), name
        with zipfile.ZipFile(f.path("x.zip"), "w") as archive:
            info = zipfile.ZipInfo("l")
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
            archive.writestr(info, "../outside")
        f.refused("bad_archive", "archive.extract", path="x.zip", to="u")


def test_too_many_members():
    with Files() as f:
        block = tarfile.TarInfo("f").tobuf()
        with open(f.path("x.tar"), "wb") as file:
            for _ in range(1001):
                file.write(block * 1000)
            file.write(bytes(1024))
        assert "1000000" in f.refused("bad_archive", "archive.extract", path="x.tar", to="u")
        assert not os.path.exists(f.path("u"))


def tear(data, chance):
    for _ in range(chance.choice((1, 1, 2, 5, 20))):
        at, size = chance.randrange(len(data)), chance.randrange(1, 600)
        kind = chance.randrange(4)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2 and len(data) > 2 * size:
            del data[at:at + size]
        else:
            data[at:at] = data[chance.randrange(len(data)):][:size]
    return bytes(data)


def test_archives_torn_at_random():
    chance = random.Random(7)
    with Files({"t/a": "1" * 3000, "t/b/c": os.urandom(2000), "t/l": ("link", "a")}) as f:
        os.link(f.path("t/a"), f.path("t/h"))
        whole = []
        for name in ("tar", "tar.gz", "tar.zst", "zip"):
            f.call("archive.create", path="t", to=f"x.{name}")
            whole.append(f.read(f"x.{name}"))
            f.call("file.remove", path=f"x.{name}")
        before = f.snapshot("t")
        for _ in range(150):
            f.make("torn", tear(bytearray(chance.choice(whole)), chance))
            try:
                f.call("archive.extract", path="torn", to="u")
                f.call("file.remove", path="u", recursive=True)
            except Refused as error:
                assert error.name == "bad_archive", error
            assert sorted(os.listdir(f.root)) == ["t", "torn"]
        assert f.snapshot("t") == before
