"""cloche image debian: its words, those that mmdebstrap gets, its result; the real mmdebstrap where apt's mirrors answer."""
import json
import os
import shutil
import subprocess

from cloche import ORDINARY_USER, bad_input, call, cli, equal, need_ordinary_user, sampled, skip
from image_trees import make_image

TIMEOUT = 900
SOURCES = "# trixie is not used\nTypes: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"


def pretend(script):
    """A mmdebstrap in front of the real one; its arguments are written to words."""
    os.makedirs("bin", exist_ok=True)
    with open("bin/mmdebstrap", "w") as file:
        file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {os.getcwd()}/words\n{script}\n")
    os.chmod("bin/mmdebstrap", 0o755)
    with open("sources", "w") as file:
        file.write(SOURCES)
    return {"PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"}


def debian(*words, env=None):
    return cli("image", "debian", "made", "--images", "images", "--sources", "sources", *words, env=env)


def test_words_and_result():
    make_image("root")
    env = pretend("echo I: downloading >&2; tar -C root -c .")
    finished = debian("--suite", "bookworm", "--packages", "nano,python3-yaml", env=env)
    equal((finished.code, finished.stdout, finished.stderr), (0, b"made:latest\n", b"I: downloading\n"), finished)
    with open("words") as words:
        equal(words.read().split(), ["--variant=minbase", "--dpkgopt=force-unsafe-io", "--include=nano,python3-yaml", "bookworm", "-", "sources"])
    equal(call("python", "def f(): return open('/etc/marker').read()", "f", image="made", images="images").value, "root")
    equal(debian("--suite", "bookworm-updates", "--json", env=env).code, 0)
    with open("words") as words:
        equal(words.read().split(), ["--variant=minbase", "--dpkgopt=force-unsafe-io", "bookworm-updates", "-", "sources"])


def test_one_that_fails_leaves_nothing():
    """Although what it had written is an archive."""
    make_image("root")
    finished = debian("--suite", "bookworm", env=pretend("tar -C root -c .; echo E: no space >&2; exit 25"))
    equal((finished.code, finished.stdout), (1, b""), finished)
    assert b"E: no space\ncloche: mmdebstrap failed" in finished.stderr and b"subuid" not in finished.stderr, finished
    assert debian("--suite", "bookworm", env=pretend("echo no archive")).code != 0
    equal(cli("image", "ls", "--images", "images").stdout, b"")


def test_one_that_fails_for_an_ordinary_user():
    need_ordinary_user()
    env = {**pretend("exit 25"), "TMPDIR": "/tmp"}
    os.chmod(".", 0o755)
    os.mkdir("store", 0o700)
    os.chown("store", 12345, 12345)
    finished = cli("image", "debian", "made", "--suite", "bookworm", "--sources", "sources", "--images", os.path.abspath("store"), env=env, under=ORDINARY_USER)
    equal(finished.code, 1, finished)
    assert b"needs ids in /etc/subuid and /etc/subgid" in finished.stderr, finished


def test_without_mmdebstrap():
    pretend("")
    os.makedirs("empty")
    finished = debian("--suite", "bookworm", env={"PATH": os.path.abspath("empty")})
    equal((finished.code, len(finished.stderr.splitlines())), (2, 1), finished)
    assert b"apt install mmdebstrap" in finished.stderr and b"cloche image import" in finished.stderr, finished


def test_a_store_that_refuses():
    """Before mmdebstrap runs."""
    env = pretend("")
    os.mkdir("images", 0o755)
    finished = debian("--suite", "bookworm", env=env)
    equal((finished.code, os.path.exists("words")), (2, False), finished)
    assert b"must be its user's alone" in finished.stderr, finished


def test_bad_input():
    env = pretend("")
    words = ("image", "debian", "made", "--images", "images", "--sources", "sources")
    os.environ.update(env)
    for suite in ("trixie", "book", "updates", "mirror.invalid"):
        bad_input(*words, "--suite", suite, says=f"does not name the suite '{suite}'")
    for suite in ("", "-x", "a b", "a/b", "$(x)"):
        bad_input(*words, "--suite", suite, says="not the name of a suite")
    for packages in ("", "--x", "a b", "a;b", "./a.deb"):
        bad_input(*words, "--suite", "bookworm", "--packages", packages, says="not a list")
    bad_input(*words, says="--suite")
    bad_input("image", "debian", "--suite", "bookworm", says="a name")
    bad_input(*words[:-1], "none", "--suite", "bookworm", says="none")
    bad_input("image", "debian", "Bad Name", *words[3:], "--suite", "bookworm", says="'Bad Name' is no name of an image")
    bad_input("image", "build", "--standard", "a:b c", *words[3:], says="'b c' is no tag of an image")
    assert not os.path.exists("words"), "nothing ran"


def test_the_real_one():
    """It finds the packages of every Debian and one more by the machine's sources, and plans their installation; with CLOCHE_TEST_ALL=1
    it installs them, which takes minutes. Skipped where apt's mirrors do not answer."""
    if not shutil.which("mmdebstrap"):
        skip("there is no mmdebstrap")
    suite = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
    updated = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME)"], capture_output=True, text=True).stdout.split()
    if suite not in updated:
        skip(f"apt has no lists of {suite}")
    plan = sampled("--simulate --verbose", "")
    env = pretend(f'exec {shutil.which("mmdebstrap")} {plan} "$@"')
    finished = cli("image", "debian", "real", "--suite", suite, "--packages", "python3", "--images", "images", env=env, bound=sampled(120, TIMEOUT))
    if b"mmdebstrap failed" in finished.stderr and b"apt-get update" in finished.stderr:
        skip("apt's mirrors do not answer")
    if plan:
        assert b"Inst python3 " in finished.stderr and b"mmdebstrap failed" not in finished.stderr, finished
        return
    equal((finished.code, finished.stdout), (0, b"real:latest\n"), finished)
    equal(call("python", "import sys\ndef f(): return sys.version_info[0]", "f", image="real", images="images").value, 3)
    names = json.loads(cli("image", "ls", "--images", "images", "--json").stdout)
    equal([row["names"] for row in names], [["real:latest"]])
