"""Cloche inside containers of other tools: it works there, or one line names the option to use."""
import shutil

from cloche import BUILD, F_ADD, ORDINARY_USER, SOURCE, call_words, cli, equal, need_ordinary_user, parse_result, skip

GUARDS = "memory,pids,cpu,freezer,private-uid"  # a container's user has none of these, but where groups are delegated to it
BWRAP = ["bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", SOURCE, SOURCE, "--ro-bind", BUILD, BUILD]  # they may be below /tmp


def add(under, **options):
    return cli(*call_words("python", F_ADD, "add", args=[40, 2], **options), under=under)


def works(under, **options):
    finished = add(under, **options)
    equal(parse_result(finished).value, 42, finished)


def refuses(under, *words, **options):
    finished = add(under, **options)
    line = finished.stderr.decode().strip()
    assert finished.code == 1 and not finished.stdout and len(line.splitlines()) == 1, finished
    for word in words:
        assert word in line, f"{word} is not named: {line!r}"


def need_bwrap():
    need_ordinary_user()
    if not shutil.which("bwrap"):
        skip("bubblewrap is not installed")


def test_root_of_a_user_namespace():
    need_ordinary_user()
    works([*ORDINARY_USER, "unshare", "-Ur"])
    works([*ORDINARY_USER, "unshare", "-Ur"], optional=GUARDS)
    refuses([*ORDINARY_USER, "unshare", "-Ur"], "private-uid", strict=True)


def test_an_ordinary_user_in_bubblewrap():
    need_bwrap()
    works([*ORDINARY_USER, *BWRAP, "--proc", "/proc", "--unshare-all"], optional=GUARDS)
    works([*ORDINARY_USER, *BWRAP, "--dev-bind", "/proc", "/proc"], optional=GUARDS)


def test_root_without_capabilities_in_bubblewrap():
    need_bwrap()
    under = [*ORDINARY_USER, *BWRAP, "--proc", "/proc", "--unshare-all", "--uid", "0", "--gid", "0"]
    refuses(under, "CAP_SETFCAP", "ordinary user", optional=GUARDS)
    works([*under, "--cap-add", "ALL"], optional=GUARDS)


def test_a_covered_proc_names_the_way_out():
    need_bwrap()
    refuses([*ORDINARY_USER, *BWRAP, "--proc", "/proc", "--ro-bind", "/proc/version", "/proc/uptime"], "unmask=ALL", "--dev-bind /proc /proc", optional=GUARDS)
