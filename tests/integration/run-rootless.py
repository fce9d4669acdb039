"""An ordinary user gets a box too: refused with --strict, the missing guards named, and working once they are optional (guard-profile.py: without an option)."""
import json
import os
import subprocess
from cloche import ORDINARY_USER, call, call_words, cli, equal, guest_code, limit_hit, need_ordinary_user, skip

F = "import os\ndef f(): return [os.getuid(), os.getpid() < 100, os.path.exists('/sys/kernel')]"


def missing_guards():
    """Guards that selftest reports as not enforced for this user."""
    parsed = json.loads(cli("selftest", "--json", under=ORDINARY_USER).stdout)
    rows = parsed["guards"] if isinstance(parsed, dict) else parsed
    names = [row["name"] for row in rows if row["state"] not in ("enforced", "off")]
    if not names:
        skip("an ordinary user lacks no guard here")
    return names


def rootless(code, function="f", **options):
    """Run with exactly the named guards optional."""
    return call("python", code, function, under=ORDINARY_USER, optional=",".join(missing_guards()), **options)


def test_refuses_and_names_the_missing_guards():
    need_ordinary_user()
    finished = cli(*call_words("python", F, "f", strict=True), under=ORDINARY_USER)
    assert finished.code not in (0, 124, 143) and not finished.stdout, finished
    line = finished.stderr.decode().strip()
    equal(len(line.splitlines()), 1, finished)
    for name in missing_guards():
        assert name in line, f"{name} is not named: {line!r}"


def test_works_when_they_are_optional():
    need_ordinary_user()
    equal(rootless(F).value, [1000, True, False])


def test_one_missing_guard_not_named_is_still_refused():
    need_ordinary_user()
    names = missing_guards()
    if len(names) < 2:
        skip("only one guard is missing")
    finished = cli(*call_words("python", F, "f", optional=names[0]), under=ORDINARY_USER)
    assert finished.code not in (0, 124, 143) and not finished.stdout, finished
    assert names[1] in finished.stderr.decode(), finished


def test_the_wall_limit_holds():
    need_ordinary_user()
    limit_hit(rootless("def f():\n    while True: pass", timeout=1), "timeout", "WallTimeLimit")


def test_the_cpu_limit_holds():
    need_ordinary_user()
    result = rootless("def f():\n    while True: pass", cpu_time=1, timeout=20)
    limit_hit(result, "timeout", "CpuTimeLimit")


def test_memory_is_bounded_for_a_process():
    need_ordinary_user()
    result = rootless("def f():\n    return len(bytearray(2 << 30))", memory=256)
    assert result.status in ("crash", "error"), result


def test_the_users_files_are_out_of_reach():
    need_ordinary_user()
    result = rootless("import os\ndef f():\n    return [os.path.exists(p) for p in ('/root', '/work', '/home/cloche')]")
    equal(result.value[1:], [False, True], result)


def test_namespaces_and_seccomp_hold():
    need_ordinary_user()
    result = rootless(guest_code("return [syscall(272, 0x10000000), syscall(165, 0, 0, 0, 0, 0), syscall(101, 0, 0, 0, 0)]"),
                      "attack")
    equal(result.value, ["EPERM", "EPERM", "EPERM"], result)
