"""Presets in network rules: their hosts are those of the operator's options, else those that the host's tools are configured with;
without either they are refused. A refused connection names the preset that permits it."""
import ctypes
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from egress import HOST, World
from package_files import Index
from rpc import DAEMON, HANG_MS, Daemon, Failed

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "other.test": ["93.184.216.35"], "python": ["93.184.216.35"]}


def start(**files):
    """A host whose /etc has these files besides its own, those of the tools excepted."""
    world = World(NAMES)
    libc = ctypes.CDLL(None, use_errno=True)
    egress.unshare(egress.CLONE_NEWNS)
    assert libc.mount(None, b"/", None, egress.MS_REC | egress.MS_PRIVATE, None) == 0
    for name in ("upper", "work"):
        os.mkdir(name)
    options = f"lowerdir=/etc,upperdir={os.getcwd()}/upper,workdir={os.getcwd()}/work".encode()
    if libc.mount(b"overlay", b"/etc", b"overlay", 0, options) < 0:
        cloche.skip("the test's directory cannot be the upper one of an overlay")
    subprocess.run("rm -rf /etc/pip.conf /etc/npmrc /etc/gemrc /etc/xdg/pip /etc/apt/sources.list*", shell=True, check=True)
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(text)
    egress.use_name_servers(egress.NAMES)
    return world


def run(frames, command, sandbox="box"):
    return frames.call("exec", sandbox=sandbox, command=command, timeoutMs=HANG_MS)


def test_the_operators_indexes():
    start()
    index, other = Index(HOST, kinds=("pip",)), Index(HOST, kinds=("npm",))
    with Daemon("--package-index", f"pip={index.url}/pip/", "--package-index", f"npm={other.url}/npm/", "--network", "python") as daemon, daemon.frames() as frames:
        made = frames.call("sandbox.create", sandbox="box")
        assert made["network"]["allow"] == ["python"], made
        answer = run(frames, "pip install --no-cache-dir hellopy >&2; hellopy")
        assert answer["stdout"] == "hellopy 1\n" and "denials" not in answer, answer
        # The registry of npm is not in the preset for pip; the remedy names its own.
        answer = run(frames, f"curl -sS {other.url}/npm/hellojs")
        assert answer["exitCode"] != 0 and not other.paths and [row["remedy"] for row in answer["denials"]] == ["cloche net box --add node"], answer
        told = cloche.cli(*answer["denials"][0]["remedy"].split()[1:], "--socket", daemon.path)
        assert told.code == 0 and told.stdout == b"allow python\nallow node\n", told
        assert run(frames, f"curl -sS {other.url}/npm/hellojs")["exitCode"] == 0 and other.paths
        # Denied by name, although a rule allows the host.
        frames.call("sandbox.update", sandbox="box", network={"allow": ["python", HOST], "deny": ["node"]})
        assert run(frames, f"curl -sS {other.url}/npm/hellojs")["exitCode"] != 0 and run(frames, f"curl -sS {index.url}/pip/hellopy/")["exitCode"] == 0
        # Presets of which nothing is known are refused, and rules behind a preset keep their places in errors.
        for rules, told in ((["ruby"], "network.allow[0]: 'ruby': no hosts are known for this preset: expected the daemon's option --package-index gem=URL or --network-preset ruby=HOST, or HOST:PORT"),
                            (["python", "debian"], "network.allow[1]: 'debian': no hosts are known"), (["git"], "expected the daemon's option --network-preset git=HOST, or HOST:PORT"), (["python", "a b"], "network.allow[1]: 'a b'")):
            for method, more in (("sandbox.create", {"sandbox": "new"}), ("sandbox.update", {"sandbox": "box"}), ("script", {"language": "bash", "code": "true"})):
                try:
                    raise AssertionError(frames.call(method, network={"allow": rules}, **more))
                except Failed as e:
                    assert told in e.message, (method, e.message)
        # A run has them, too.
        script = frames.call("script", language="bash", code=f"curl -sS {index.url}/pip/hellopy/ && ! curl -sS {other.url}/", network={"allow": ["python"]})
        assert script["exitCode"] == 0 and "hellopy-1" in script["stdout"], script


def test_presets_of_the_operator():
    start()
    options = ["--network-preset", "tools=allowed.test:80,other.test:8080", "--network-preset", "git=other.test:443", "--network-preset", "tools=other.test:80"]
    with Daemon(*options) as daemon, daemon.frames() as frames:
        told = cloche.cli("sandbox", "create", "box", "--allow", "tools", "--socket", daemon.path)
        assert told.code == 0, told
        for url, code in (("http://allowed.test/", 0), ("http://other.test:8080/", 0), ("http://other.test/", 0), ("https://other.test/", 7), ("http://allowed.test:8080/", 7)):
            answer = run(frames, f"curl -sSk {url}")
            assert (answer["exitCode"] == 0) == (code == 0), (url, answer)
        denied = run(frames, "curl -sSk https://other.test/")["denials"]
        assert [row["remedy"] for row in denied] == ["cloche net box --add git"], denied
        # A host of the name of a preset has a port, or all of them.
        for rule in ("python:80", "python:1-65535"):
            frames.call("sandbox.update", sandbox="box", network={"allow": [rule]})
            answer = run(frames, "curl -sS http://python/")
            assert answer["stdout"].startswith("python /"), (rule, answer, frames.call("network.log", sandbox="box")["decisions"][-3:])
    for value in ("tools", "=a.test", "Tools=a.test", "tools="):
        bad = subprocess.run([DAEMON, "--socket", "socket", "--network-preset", value], capture_output=True, text=True)
        assert bad.returncode == 2 and "--network-preset must be NAME=HOST" in bad.stderr, bad


def test_files_of_the_host():
    start(**{"/etc/pip.conf": "[global]\n# index-url = http://comment.test/\nindex-url = http://user:secret@allowed.test/simple\nextra-index-url = https://other.test:8080/simple\n",
             "/etc/npmrc": "registry=http://allowed.test:8080/\n;registry=http://comment.test\n",
             "/etc/apt/sources.list.d/debian.sources": "Types: deb\nURIs: http://other.test/debian http://bad_host:xyz/\nSuites: stable\n",
             "/etc/apt/sources.list.d/old.list": "deb [signed-by=/x] http://allowed.test/old stable main\n", "/etc/apt/sources.list.d/off.disabled": "deb http://comment.test/ stable main\n"})
    reach = {"python": {"http://allowed.test/", "http://other.test:8080/"}, "node": {"http://allowed.test:8080/"}, "debian": {"http://other.test/", "http://allowed.test/"}}
    with Daemon() as daemon, daemon.frames() as frames:
        for preset, urls in reach.items():
            frames.call("sandbox.create", sandbox=preset, network={"allow": [preset]})
            for url in set().union(*reach.values()):
                answer = run(frames, f"curl -sS {url}", preset)
                assert (answer["exitCode"] == 0) == (url in urls), (preset, url, answer)
        assert "secret" not in str(frames.call("network.log", sandbox="python"))
    told = cloche.cli("run", "bash", "-c", "curl -sS http://allowed.test/ && ! curl -sS http://other.test/", "--network", "python")
    assert told.code == 0 and told.stdout.startswith(b"allowed.test /"), told
    # The operator's own replace them.
    with Daemon("--network-preset", "python=other.test:80") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["python"]})
        assert run(frames, "curl -sS http://allowed.test/")["exitCode"] != 0 and run(frames, "curl -sS http://other.test/")["exitCode"] == 0
