"""Archives: packed, unpacked, and read by other programs."""
import io
import os
import stat
import subprocess
import sys
import tarfile
import zipfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import Files

TREE = {"t/a/file": "1" * 1000, "t/b/empty": "", "t/none": None, "t/link": ("link", "a/file"), "t/ä/€.txt": "umlaut", "t/" + "n" * 120 + "/" + "m" * 120: "long",
        "t/bytes": os.urandom(100_000)}
FORMATS = ("tar", "tar.gz", "tar.zst", "zip")


def make(f):
    os.chmod(f.path("t/a/file"), 0o755)
    os.chmod(f.path("t/b"), 0o700)
    os.utime(f.path("t/a/file"), (1_000_000_000, 1_000_000_000))
    os.utime(f.path("t/a"), (1_000_000_000, 1_000_000_000))


def test_what_is_packed_is_unpacked_again():
    with Files(TREE) as f:
        make(f)
        for name in FORMATS:
            made = f.call("archive.create", path="t", to=f"out/x.{name}")
            assert made["files"] == 6 and made["bytes"] == 101_010, made
            done = f.call("archive.extract", path=f"out/x.{name}", to=f"u-{name}")
            assert (done["files"], done["bytes"]) == (6, 101_010)
            assert f.snapshot("t") == f.snapshot(f"u-{name}"), name
            for path in ("a/file", "a"):
                assert os.stat(f.path(f"u-{name}/{path}")).st_mtime == 1_000_000_000, (name, path)


def test_others_read_what_is_packed():
    with Files(TREE) as f:
        make(f)
        for name in FORMATS[:2]:
            f.call("archive.create", path="t", to="x", format=name)
            with tarfile.open(f.path("x")) as tar:
                assert tar.extractfile("ä/€.txt").read() == b"umlaut" and tar.getmember("link").linkname == "a/file" and tar.getmember("a/file").mode == 0o755
        f.call("archive.create", path="t", to="x.tar.zst")
        assert b"a/file" in subprocess.run(["zstd", "-dc", f.path("x.tar.zst")], stdout=subprocess.PIPE, check=True).stdout
        f.call("archive.create", path="t", to="x.zip")
        with zipfile.ZipFile(f.path("x.zip")) as archive:
            assert archive.testzip() is None and archive.read("ä/€.txt") == b"umlaut"


def test_what_others_packed_is_unpacked():
    with Files(TREE) as f:
        make(f)
        for suffix, mode in (("tar", "w"), ("tar.gz", "w:gz"), ("tar.bz2", "w:bz2"), ("tar.xz", "w:xz")):
            for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
                with tarfile.open(f.path("x"), mode, format=kind) as tar:
                    tar.add(f.path("t"), arcname=".")
                f.call("archive.extract", path="x", to="u")
                assert f.snapshot("t") == f.snapshot("u"), suffix
                f.call("file.remove", path="u", recursive=True)
        with zipfile.ZipFile(f.path("x"), "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("d/ä.txt", "text")
            archive.writestr("e/", "")
        f.call("archive.extract", path="x", to="u")
        assert f.read("u/d/ä.txt") == b"text" and stat.S_IMODE(os.stat(f.path("u/d/ä.txt")).st_mode) == 0o600 and os.path.isdir(f.path("u/e"))


def test_names_that_are_no_text():
    with Files({b"t/caf\xe9": "1", b"t/\xff\xfe/x": "2"}) as f:
        for name in FORMATS:
            f.call("archive.create", path="t", to=f"x.{name}")
            f.call("archive.extract", path=f"x.{name}", to=f"u-{name}")
            assert f.snapshot("t") == f.snapshot(f"u-{name}"), name


def test_hard_links_and_holes():
    with Files({"t/one": "same"}) as f:
        os.link(f.path("t/one"), f.path("t/two"))
        with open(f.path("t/sparse"), "wb") as file:
            file.seek(100 << 20)
            file.write(b"middle")
            file.truncate(300 << 20)
        f.call("archive.create", path="t", to="x.tar.zst")
        assert os.stat(f.path("x.tar.zst")).st_size < 100_000
        f.call("archive.extract", path="x.tar.zst", to="u")
        assert os.stat(f.path("u/one")).st_ino == os.stat(f.path("u/two")).st_ino
        sparse = os.stat(f.path("u/sparse"))
        assert sparse.st_size == 300 << 20 and sparse.st_blocks < 1000
        with open(f.path("u/sparse"), "rb") as file:
            file.seek((100 << 20) - 2)
            assert file.read(10) == b"\0\0middle\0\0"


def test_an_archive_does_not_hold_itself():
    with Files({"a": "1", "skip/x": "2", "b.o": "3"}) as f:
        for _ in range(2):
            made = f.call("archive.create", path=".", to="x.tar", exclude=["skip", "*.o"])
            assert made["files"] == 1
        with tarfile.open(f.path("x.tar")) as tar:
            assert tar.getnames() == ["a"]


def test_one_file_is_packed_under_its_name():
    with Files({"d/a": "1", "l": ("link", "d/a")}) as f:
        f.call("archive.create", path="d/a", to="x.zip")
        f.call("archive.create", path="l", to="y.zip")
        assert zipfile.ZipFile(f.path("x.zip")).namelist() == ["a"] and zipfile.ZipFile(f.path("y.zip")).read("l") == b"1"


def test_pipes_and_sockets_are_passed_over():
    with Files({"t/a": "1"}) as f:
        os.mkfifo(f.path("t/pipe"))
        assert f.call("archive.create", path="t", to="x.tar")["files"] == 1


def test_requests_that_are_none():
    with Files({"t/a": "1", "file": "x"}) as f:
        assert "tar.zst" in f.refused("invalid_argument", "archive.create", path="t", to="x.rar")
        f.refused("invalid_argument", "archive.create", path="t", to="x.tar", format="cpio")
        f.refused("file_not_found", "archive.create", path="none", to="x.tar")
        f.refused("file_kind", "archive.create", path="t", to="t", format="tar")
        f.refused("file_not_found", "archive.extract", path="none", to="u")
        f.refused("file_kind", "archive.extract", path="t", to="u")
        assert sorted(os.listdir(f.root)) == ["file", "t"]


def test_what_is_there_is_replaced_and_the_rest_stays():
    with Files({"t/a": "new", "t/d/x": "1", "u/a": "old", "u/other": "2", "outside": "3"}) as f:
        os.makedirs(f.path("u/d"))
        os.symlink("../../outside", f.path("u/d/x"))
        f.call("archive.create", path="t", to="x.tar")
        f.call("archive.extract", path="x.tar", to="u")
        assert f.read("u/a") == b"new" and f.read("u/other") == b"2" and f.read("outside") == b"3"
        assert not os.path.islink(f.path("u/d/x")) and f.read("u/d/x") == b"1"


def test_what_does_not_fit_is_taken_away():
    with Files(small="size=400k") as f:
        with tarfile.open(f.path("x.tar.gz"), "w:gz") as tar:
            member = tarfile.TarInfo("d/zeros")
            member.size = 1 << 20
            tar.addfile(member, io.BytesIO(bytes(1 << 20)))
        f.refused("disk_full", "archive.extract", path="x.tar.gz", to="u")
        assert os.listdir(f.root) == ["x.tar.gz"]
        with open(f.path("random"), "wb") as file:
            file.write(os.urandom(300_000))
        f.refused("disk_full", "archive.create", path="random", to="y.tar")
        assert sorted(os.listdir(f.root)) == ["random", "x.tar.gz"]


def test_links_that_lead_out_are_refused_on_demand():
    for target, is_inside in (("a", True), ("./a", True), ("../t/a", False), ("../../etc/passwd", False), ("/etc/passwd", False), ("d/../../..", False)):
        with Files({"t/a": "1", "t/l": ("link", target)}) as f:
            if is_inside:
                assert f.call("archive.create", path="t", to="x.tar", links="inside")["files"] == 2, target
            else:
                assert "links" in f.refused("bad_archive", "archive.create", path="t", to="x.tar", links="inside"), target
                assert not os.path.exists(f.path("x.tar")), target
            assert f.call("archive.create", path="t", to="y.tar")["files"] == 2, "else they are packed as they are"
            f.call("archive.create", path="t", to="z.tar", links="any")
    with Files({"t/d/l": ("link", "../a"), "t/a": "1"}) as f:
        assert f.call("archive.create", path="t", to="x.tar", links="inside")["files"] == 2
        f.refused("invalid_argument", "archive.create", path="t", to="x.tar", links="outside")
