"""cloche image build --standard: its table, the words that mmdebstrap gets, the hook, refusals, an interrupt; with CLOCHE_TEST_ALL=1
the real image, which takes minutes."""
import contextlib
import json
import os
import platform
import re
import signal
import subprocess

from boxes import daemon, ok
from cloche import SOURCE, bad_input, call, cli, equal, need_root, sampled, skip, spec_rows, start, wait_for, write_file

TIMEOUT = 3600
CALLS = {"python": "import bs4, lxml, matplotlib, nltk, numpy, openpyxl, pandas, PIL, plotly, pytest, requests, scipy, seaborn, sklearn, sympy, xarray, yaml\ndef f(): return 1",
         "javascript": "const f = () => [0, 1].at(-1)", "typescript": "const f = (n: number = 1): number => n", "ruby": "def f = 1", "bash": "f() { echo 1; }",
         "php": "function f() { return array_product(array_map('extension_loaded', ['curl', 'mbstring', 'xml', 'zip', 'sqlite3', 'gd', 'intl', 'bcmath'])); }",
         "c": "int f(void) { return 1; }", "c++": "#include <vector>\nint f() { return (int)std::vector<int>(1).size(); }"}
PROGRAMS = ("python", "pip", "ipython3", "node", "npm", "tsc", "bun", "ruby", "gem", "bundle", "php", "composer", "gcc", "g++", "make", "git", "curl", "jq", "rg", "sqlite3", "file")
SHOWS = {"import pandas; pandas.DataFrame({'a': [1]})": "text/html", "import matplotlib.pyplot as p; p.plot([1]); p.show()": "image/png",
         "import plotly.express as x; x.bar(x=['a'], y=[1])": "application/vnd.plotly.v1+json", "import sympy; sympy.Symbol('x')": "text/latex"}
# As mmdebstrap runs it.
HOOK = 'for word; do case "$word" in --setup-hook=*) sh -c "${word#--setup-hook=}" exec "$PWD/root" 2>/dev/null || exit 1; esac; done'
STANDARD, = spec_rows("STANDARD_IMAGE")
SUITE = STANDARD["suite"]
PACKAGES = [name for row in spec_rows("STANDARD_DEBIAN") for name in row["packages"].split(",")]
RELEASE = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
NPM = [row for row in spec_rows("STANDARD_NPM") if row["machine"] in ("", platform.machine())]


def pretend(name, script):
    os.makedirs("bin", exist_ok=True)
    write_file("bin/" + name, f"#!/bin/sh\n{script}\n")
    os.chmod("bin/" + name, 0o755)


@contextlib.contextmanager
def pretended(mmdebstrap="exit 1", npm="exit 0", suites=SUITE):
    """Both programs in front of the real ones, and the environment with them; words has the arguments of mmdebstrap, one a NUL. TMPDIR and
    the store look large enough."""
    need_root()
    pretend("mmdebstrap", f"printf '%s\\0' \"$@\" >{os.getcwd()}/words\n{mmdebstrap}")
    pretend("npm", npm)
    write_file("sources", f"deb http://mirror.invalid/debian {suites} main\n")
    os.chmod(".", 0o777)  # mmdebstrap runs as another user
    with mounted("room", "100g", "0711"), mounted("images", "100g"):
        yield {"PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}", "TMPDIR": os.path.abspath("room")}


@contextlib.contextmanager
def mounted(place, size, mode="0700"):
    os.makedirs(place, exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode={mode}", "none", place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)


def build(*words, env=None):
    return cli("image", "build", *words, "--images", "images", "--sources", "sources", env=env)


def words():
    with open("words") as file:
        os.remove("words")  # the next one is another user's
        return file.read().split("\0")[:-1]


def test_the_table():
    """Each package is there once, and Debian has it; the compiler of TypeScript is the runtime's. With CLOCHE_TEST_ALL=1 the image is built."""
    equal(len(PACKAGES), len(set(PACKAGES)))
    with open(os.path.join(SOURCE, "runtimes/typescript/package-lock.json")) as file:
        locked = json.load(file)["packages"]["node_modules/typescript"]
    equal([(row["version"], row["integrity"]) for row in NPM if row["name"] == "typescript"], [(locked["version"], locked["integrity"])])
    equal(sorted(row["program"] for row in NPM), ["bun", "tsc"])
    lists = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME) $(CREATED_BY)"], capture_output=True, text=True).stdout
    if f"{SUITE} Packages" not in lists:
        skip(f"apt has no lists of {SUITE}")
    policy = subprocess.run(["apt-cache", "policy", *PACKAGES], capture_output=True, text=True, check=True).stdout
    versions = dict(re.findall(r"^(\S+):\n((?: .*\n)+)", policy, re.M))
    missing = [name for name in PACKAGES if not re.search(rf" {SUITE}(-security|-updates)?/main ", versions.get(name, ""))]
    equal(missing, [])
    if sampled(False, True):
        build_and_check()


def test_words_and_result():
    os.makedirs("root/etc")
    write_file("root/etc/marker", "1")
    with pretended("echo I: installing >&2; tar -C root -c .") as env:
        finished = build("--standard", env=env)
        equal((finished.code, finished.stdout, finished.stderr), (0, b"standard:latest\n", b"I: installing\n"), finished)
        variant, option, include, hook, *rest = words()
        equal((variant, option, rest), ("--variant=minbase", "--dpkgopt=force-unsafe-io", ["--mode=unshare", SUITE, "-", "sources"]))
        equal(include, "--include=" + ",".join(PACKAGES))
        assert hook.startswith("--setup-hook="), hook
        write_file("sources", "deb http://mirror.invalid/debian other main\n")
        finished = build("--standard", "mine:2", "--suite", "other", "--packages", "nano", "--json", env=env)
        equal((finished.code, json.loads(finished.stdout)["name"]), (0, "mine:2"), finished)
        equal(words()[2], f"--include={','.join(PACKAGES)},nano")
        equal([sorted(row["names"]) for row in json.loads(cli("image", "ls", "--images", "images", "--json").stdout)], [["mine:2", "standard:latest"]])
        equal(os.listdir("room"), [])


def test_the_machines_sources():
    """Files that do not name the suite are left out: they could have other versions of the packages."""
    with pretended() as env:
        finished = cli("image", "build", "--standard", "--suite", RELEASE, "--images", "images", env=env)
    if b"does not name the suite" in finished.stderr:
        skip("apt's sources are not of this release")
    equal(finished.code, 1, finished)
    sources = words()[7:]
    assert sources
    for path in sources:
        with open(path) as file:
            assert re.search(rf"\b{RELEASE}\b", file.read()), path


def test_the_hook():
    """npm gets exact versions and hashes, and its files are gone but for the packages and the links to their programs."""
    npm = f"""[ "$1" = ci ] || exit 0
cp package.json package-lock.json {os.getcwd()}
mkdir -p node_modules/.bin node_modules/typescript/bin; touch node_modules/.package-lock.json node_modules/typescript/bin/tsc
[ "$2" = --cache ] && mkdir "$3"; printf '%s\\n' "$@" >{os.getcwd()}/npm-words"""
    os.makedirs("root/tmp")
    for path in ("root", "root/tmp"):
        os.chmod(path, 0o777)
    with pretended(HOOK + "&& tar -C root -c .", npm=npm) as env:
        equal(build("--standard", env=env).code, 0)
    with open("package.json") as file:
        equal(json.load(file), {"dependencies": {row["name"]: row["version"] for row in NPM}})
    with open("package-lock.json") as file:
        locked = json.load(file)["packages"]
    equal({path.removeprefix("node_modules/"): (row["version"], row["integrity"]) for path, row in locked.items() if path},
          {row["name"]: (row["version"], row["integrity"]) for row in NPM})
    with open("npm-words") as file:
        assert "--ignore-scripts" in file.read().split()
    found = sorted(os.path.relpath(os.path.join(place, name), "root") for place, folders, names in os.walk("root") for name in folders + names)
    equal([path for path in found if os.path.isfile("root/" + path)], ["usr/local/bin/tsc", "usr/local/lib/node_modules/typescript/bin/tsc"])
    equal(sorted(os.listdir("root/usr/local/bin")), ["bun", "tsc"])
    equal((os.listdir("root/tmp"), os.listdir("root/usr/local/lib"), os.listdir("root/usr/local/lib/node_modules")), ([], ["node_modules"], ["typescript"]))


def test_npm_fails():
    """Its registry does not answer, or an archive has another hash: a line says so before mmdebstrap's."""
    with pretended(HOOK.replace(" 2>/dev/null", ""), npm='[ "$1" != ci ]') as env:
        os.makedirs("root")
        os.chmod("root", 0o777)
        finished = build("--standard", env=env)
        equal((finished.code, finished.stdout, len(finished.stderr.splitlines())), (1, b"", 2), finished)
        assert finished.stderr.startswith(b"cloche: npm cannot install the packages"), finished


def test_what_is_missing():
    with pretended() as env:
        os.makedirs("empty")
        os.makedirs("npm-only")
        os.symlink("../bin/npm", "npm-only/npm")
        os.symlink("/bin/sh", "npm-only/sh")
        for path, expected in (("empty", b"npm is not installed: install it (apt install npm)"), ("npm-only", b"apt install mmdebstrap")):
            finished = build("--standard", env={**env, "PATH": os.path.abspath(path)})
            equal((finished.code, len(finished.stderr.splitlines())), (2, 1), finished)
            assert expected in finished.stderr, finished
        pretend("npm", "exit 3")
        finished = build("--standard", env=env)
        equal((finished.code, finished.stderr), (2, b"cloche: npm does not work: 'npm --version' failed\n"))
        assert not os.path.exists("words"), "nothing ran"


def test_no_space():
    with pretended() as env:
        for place, expected in (("room", b"TMPDIR"), ("images", b"--images")):
            with mounted(place, "1m"):
                finished = build("--standard", env=env)
            equal(finished.code, 2, finished)
            assert b"MiB left" in finished.stderr and expected in finished.stderr, finished
        assert not os.path.exists("words"), "nothing ran"


def test_bad_input():
    words = ("image", "build", "--images", "images", "--sources", "sources")
    with pretended() as env:
        os.environ.update(env)
        bad_input(*words, "--suite", SUITE, says="need --standard")
        bad_input(*words, says="directory of the Dockerfile, or --standard")
        bad_input("image", "build", "--images", "images", says="directory of the Dockerfile, or --standard")
        bad_input(*words, "--standard", "--tag", "x", says="for a Dockerfile")
        bad_input(*words, "--packages", "nano", "mine", says="cloche image debian")
        bad_input(*words, "--standard", "a", "b", says="b")
        bad_input(*words, "--standard", "--suite", "trixie", says="does not name the suite 'trixie'")
        bad_input(*words, "--standard", "--packages", "", says="not a list")
        bad_input(*words, "--standard", "--packages", "a b", says="not a list")
        assert not os.path.exists("words"), "nothing ran"


def test_an_interrupt_waits_for_the_clean_up():
    """mmdebstrap and the processes that it started get the signal; cloche ends after them, and leaves nothing."""
    with pretended("mkdir $TMPDIR/root; trap 'rm -r $TMPDIR/root; exit 1' INT TERM; sh -c 'echo $$ >pid; mv pid started; exec sleep 1000'") as env:
        for number, code in ((signal.SIGINT, -signal.SIGINT), (signal.SIGTERM, 143)):
            process = start("image", "build", "--standard", "--images", "images", "--sources", "sources", env={**os.environ, **env})
            wait_for(lambda: os.path.exists("started"), "mmdebstrap")
            process.send_signal(number)
            output, messages = process.communicate()
            equal((process.returncode, output, os.listdir("room")), (code, b"", []), messages)
            with open("started") as file:
                assert not os.path.exists(f"/proc/{file.read().strip()}"), "its child has ended"
            os.remove("started")
        equal(cli("image", "ls", "--images", "images").stdout, b"")


def test_mounts_end_with_mmdebstrap():
    """Mounts of root, also if it is killed before it removes them."""
    with pretended("mkdir $TMPDIR/root; mount -t tmpfs none $TMPDIR/root; grep -c $TMPDIR/root /proc/mounts >count; rmdir $TMPDIR/root; kill -9 $$") as env:
        finished = build("--standard", env=env)
        equal((finished.code, os.listdir("room")), (1, []), finished)
    with open("count") as file:
        equal(file.read(), "1\n")


def check_image(name, store):
    """Each language has a call, each program an answer, and cells have rich results."""
    for language, code in CALLS.items():
        equal(call(language, code, "f", image=name, images=store, timeout="60s").value, 1, language)
    with daemon("--images", store):
        ok("sandbox", "create", "box", "--image", name)
        for program in PROGRAMS:
            ok("exec", "box", "--", f"{program} --version")
        ok("exec", "box", "--", "ffmpeg -version && ffmpeg -v error -f lavfi -i testsrc=d=1 -y x.mp4 && test -s x.mp4")
        equal(ok("exec", "box", "--", "echo 'const a: number = 1; console.log(a)' >a.ts && tsc a.ts && node a.js && bun a.ts"), b"1\n1\n")
        ok("exec", "box", "--", "python3 -m venv v && v/bin/pip --version && git init -q r && git -C r -c user.name=a -c user.email=a@b commit -q --allow-empty -m x")
        for code, kind in SHOWS.items():
            displays = json.loads(ok("context", "run", "box", "--json", "-c", code))["displays"]
            assert any(kind in display["data"] for display in displays), (code, displays)


def build_and_check():
    need_root()
    os.mkdir("room")
    finished = cli("image", "build", "--standard", "--images", "images", env={"TMPDIR": os.path.abspath("room")}, bound=TIMEOUT - 600)
    equal((finished.code, finished.stdout, os.listdir("room")), (0, b"standard:latest\n", []), finished)
    check_image("standard", os.path.abspath("images"))
