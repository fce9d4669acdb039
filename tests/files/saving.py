"""cloche-files --pack and --unpack: how a sandbox's files are kept while it is stopped."""
import os
import stat
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from program import PROGRAM, Files


def save(*paths):
    return subprocess.run([PROGRAM, "--pack", *paths], stdout=subprocess.PIPE, check=True).stdout


def restore(directory, data):
    return subprocess.run([PROGRAM, "--unpack", directory], input=data, stderr=subprocess.PIPE, check=False)


def test_everything_comes_back():
    with Files({"in/ws/d/f": "1", "in/ws/ro/x": "2", "in/ws/absolute": ("link", "/usr/bin/python3"), "in/ws/odd": ("link", "a/../../.."), "in/tmp": None,
                b"in/ws/\xff": "3", "in/ws/empty": None, "out/ws": None}) as f:
        os.chmod(f.path("in/tmp"), 0o1777)
        os.chmod(f.path("in/ws/ro"), 0o555)
        os.chmod(f.path("in/ws/d/f"), 0o4711)
        os.utime(f.path("in/ws/d"), (1_000_000_000, 1_000_000_000))
        with open(f.path("in/ws/sparse"), "wb") as file:
            file.truncate(64 << 20)
        data = save(f.path("in/ws"), f.path("in/tmp"), f.path("none"))
        assert len(data) < 10_000
        assert restore(f.path("out"), data).returncode == 0
        back = f.path("out" + f.path("in"))[len(f.root) + 1:]
        assert {k: v for k, v in f.snapshot("in").items() if k != "ws/sparse"} == {k: v for k, v in f.snapshot(back).items() if k != "ws/sparse"}
        sparse = os.stat(f.path(back + "/ws/sparse"))
        assert sparse.st_size == 64 << 20 and sparse.st_blocks < 1000 and os.stat(f.path(back + "/ws/d")).st_mtime == 1_000_000_000


def test_what_its_owner_may_not_read_is_saved_with_its_modes():
    with Files({"t/a": "1", "t/shut": "2", "t/closed/x": "3", "t/deep/er/y": "4"}, ordinary=True) as f:
        os.mkfifo(f.path("t/pipe"))
        os.chmod(f.path("t/shut"), 0)
        modes = {"t/shut": 0, "t/closed": 0, "t/deep/er": 0o311, "t/deep": 0o100}
        for name, mode in modes.items():
            os.chmod(f.path(name), mode)
        options = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        fd = os.open(PROGRAM, os.O_RDONLY)
        data = subprocess.run(["/bin/sh", "-c", f'exec /proc/self/fd/{fd} --pack "$0"', f.path("t")], stdout=subprocess.PIPE, pass_fds=[fd], check=True, **options).stdout
        os.close(fd)
        os.mkdir(f.path("u"))
        assert restore(f.path("u"), data).returncode == 0
        found = f.path("u" + f.path("t"))
        for top in (f.path("t"), found):  # it keeps its former state, and so does the copy
            assert {name: stat.S_IMODE(os.stat(top + name[1:]).st_mode) for name in modes} == modes, top
        assert sorted(os.listdir(found)) == ["a", "closed", "deep", "shut"]
        for name in ("closed", "shut", "deep", "deep/er"):
            os.chmod(f"{found}/{name}", 0o700)
        for name, text in (("shut", "2"), ("closed/x", "3"), ("deep/er/y", "4")):
            with open(f"{found}/{name}") as file:
                assert file.read() == text, name


def test_what_is_damaged_is_an_error():
    with Files({"t/a": os.urandom(100_000), "u": None}) as f:
        data = save(f.path("t"))
        for bad in (b"", b"x" * 1000, data[:len(data) // 2]):
            finished = restore(f.path("u"), bad)
            assert finished.returncode == 1 and finished.stderr
        assert stat.S_ISDIR(os.stat(f.path("u")).st_mode)
        assert restore(f.path("none"), data).returncode == 1
        assert subprocess.run([PROGRAM, "--unpack", "relative"], stderr=subprocess.DEVNULL, check=False).returncode == 2


def test_nothing_is_written_through_links():
    with Files({"t/l/x": "evil", "outside/x": "kept"}) as f:
        data = save(f.path("t"))
        os.makedirs(f.path("u" + f.path("t")))
        os.symlink(f.path("outside"), f.path("u" + f.path("t/l")))
        assert restore(f.path("u"), data).returncode == 1
        assert f.read("outside/x") == b"kept"
