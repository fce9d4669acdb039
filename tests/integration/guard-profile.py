"""The profile for ordinary users: without an option their runs start although guards are missing
that only root or a delegated control group can provide, and one line reports that, once. Root has
no profile."""
import json
import os
import re
import subprocess
import sys
from cloche import CLI, ORDINARY_USER, SOURCE, Finished, cli, equal, need_ordinary_user, need_root, sampled, skip, spec_rows

ADD = ["call", "python", "-c", "def add(a, b): return a + b", "--args", "[40, 2]"]


def home(name):
    """A home directory of the ordinary user."""
    path = os.path.abspath(name)
    os.makedirs(path)
    for directory in (path, os.path.dirname(path)):
        os.chmod(directory, 0o755)
    os.chown(path, 12345, 12345)
    return path


def ordinary(*words, at, **keywords):
    return cli(*words, under=ORDINARY_USER, env={"HOME": at, "XDG_STATE_HOME": at + "/state", **keywords})


def permitted():
    """The guards that the profile permits to be missing, from the table."""
    return [row["name"] for row in spec_rows("CLOCHE_GUARD") if row["profile"] == "USER"]


def missing(at):
    rows = json.loads(ordinary("selftest", "--json", at=at).stdout)["guards"]
    return [row["name"] for row in rows if row["state"] not in ("enforced", "off")]


def without_groups(*words):
    """Root on a host without control groups."""
    words = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh", CLI, *words]
    done = subprocess.run(words, capture_output=True)
    return Finished(done.returncode, done.stdout, done.stderr)


def test_the_first_line_of_the_readme_works():
    need_ordinary_user()
    with open(os.path.join(SOURCE, "README.md")) as file:
        line = next(line for line in file if "$cloche call python" in line)
    assert "--optional" not in line, line
    done = ordinary(*ADD, at=home("home"))
    equal([done.code, done.stdout], [0, b"42\n"], done)


def test_one_line_says_once_what_is_missing():
    need_ordinary_user()
    at = home("home")
    names = missing(at)
    first, second = ordinary(*ADD, at=at), ordinary(*ADD, at=at)
    lines = first.stderr.decode().splitlines()
    equal(len(lines), 1, first)
    for word in [*names, "selftest", "--strict"]:
        assert word in lines[0], (word, lines)
    equal([second.code, second.stderr], [0, b""], second)


def test_the_line_comes_again_when_the_set_changes():
    need_ordinary_user()
    at = home("home")
    ordinary(*ADD, at=at)
    [record] = os.listdir(at + "/state/cloche")
    with open(f"{at}/state/cloche/{record}", "w") as file:
        file.write("memory")
    assert ordinary(*ADD, at=at).stderr, "the set changed and nothing was said"
    equal(ordinary(*ADD, at=at).stderr, b"")


def test_json_has_no_line_and_takes_none():
    need_ordinary_user()
    at = home("home")
    done = ordinary(*ADD, "--json", at=at)
    equal([done.code, done.stderr], [0, b""], done)
    assert ordinary(*ADD, at=at).stderr, "the line was taken by a caller who was not shown it"


def test_without_a_place_to_remember_it_the_run_starts():
    need_ordinary_user()
    done = ordinary(*ADD, at="/proc/none")
    equal([done.code, done.stdout, len(done.stderr.splitlines())], [0, b"42\n", 1], done)


def test_strict_refuses():
    need_ordinary_user()
    at = home("home")
    done = ordinary(*ADD, "--strict", at=at)
    equal([done.code, done.stdout, len(done.stderr.splitlines())], [1, b"", 1], done)
    for name in missing(at):
        assert name.encode() in done.stderr, done


def test_strict_and_optional_contradict_each_other():
    done = cli(*ADD, "--strict", "--optional", "cpu")
    equal([done.code, done.stdout], [2, b""], done)
    assert b"--strict" in done.stderr and b"--optional" in done.stderr, done


def test_optional_says_exactly_what_may_be_missing():
    need_ordinary_user()
    at = home("home")
    names = missing(at)
    done = ordinary(*ADD, "--optional", ",".join(names), at=at)
    equal([done.code, done.stderr], [0, b""], done)
    equal(ordinary(*ADD, "--optional", names[0], at=at).code, 1)


def test_what_is_missing_here_is_in_the_table():
    need_ordinary_user()
    assert set(missing(home("home"))) <= set(permitted()), permitted()
    with open(os.path.join(SOURCE, "docs/reference.md")) as file:
        text = file.read()
    for name in permitted():
        assert re.search(rf"\| `{name}` \| USER \|", text), name


def test_selftest_tells_all_and_its_exit_code_says_whether_runs_start():
    need_ordinary_user()
    at = home("home")
    done, strict = ordinary("selftest", at=at), ordinary("selftest", "--strict", at=at)
    equal([done.code, strict.code], [0, 1], (done, strict))
    for name in missing(at):
        assert re.search(rf"^{name} +(degraded|absent) ", done.stdout.decode(), re.M), done
    assert b"--strict" in done.stdout.splitlines()[-1], done
    assert b"refused" in strict.stdout.splitlines()[-1], strict
    rows = json.loads(ordinary("selftest", "--json", at=at).stdout)["guards"]
    equal([row["name"] for row in rows if row["optional"]], permitted())


def test_root_has_no_profile():
    need_root()
    equal([row["name"] for row in json.loads(cli("selftest", "--json").stdout)["guards"] if row["optional"]], [])
    done = without_groups(*ADD)
    equal([done.code, done.stdout], [1, b""], done)
    for name in (b"memory", b"pids"):
        assert name in done.stderr, done
    equal(without_groups("selftest").code, 1)


def python_client(*arguments):
    """The output of a client of the ordinary user: guards that are missing in the daemon it starts, then the result of a call."""
    code = f"import cloche\nwith cloche.Cloche({', '.join(arguments)}) as c: print(c.server['missing'], c.call('python', 'return 42').unwrap())"
    env = {**os.environ, "PYTHONPATH": SOURCE + "/clients/python", "CLOCHE_DAEMON": CLI + "d", "PYTHONDONTWRITEBYTECODE": "1"}
    at = home("home") if not os.path.exists("home") else os.path.abspath("home")
    done = subprocess.run([*ORDINARY_USER, sys.executable, "-c", code], env={**env, "HOME": at, "XDG_STATE_HOME": at + "/state"}, capture_output=True, cwd="/")
    return Finished(done.returncode, done.stdout.decode(), done.stderr.decode())


def need_source():
    if subprocess.run([*ORDINARY_USER, "test", "-r", SOURCE + "/clients/python/cloche/__init__.py"]).returncode:
        skip("the source is closed to other users")


def test_a_client_starts_a_daemon_with_the_profile():
    need_ordinary_user()
    need_source()
    first, second = python_client(), python_client()
    names = missing(os.path.abspath("home"))
    equal([first.code, first.stdout], [0, f"{names} 42\n"], first)
    assert "GuardWarning" in first.stderr and names[0] in first.stderr, first
    equal([second.code, second.stderr], [0, ""], second)


def test_a_client_that_is_strict_refuses():
    need_ordinary_user()
    need_source()
    done = python_client("strict=True")
    assert done.code == 1 and "GuardMissingError" in done.stderr, done


def test_a_client_may_name_the_guards():
    need_ordinary_user()
    need_source()
    names = missing(home("home"))
    done = python_client(f"optional={names!r}")
    equal([done.code, done.stderr], [0, ""], done)
    done = python_client(f"optional={names[:1]!r}")
    assert done.code == 1 and "GuardMissingError" in done.stderr, done


def test_many_warm_runs_of_an_ordinary_user():
    """Without control groups the keeper reports the usage of a box, while other boxes are made."""
    need_ordinary_user()
    at = home("home")
    for _ in range(sampled(1, 3)):
        done = ordinary("bench", "python", "--runs", "20", "--json", at=at)
        equal([done.code, done.stderr], [0, b""], done)
