"""Package indexes and a proxy that the operator names: pip, npm and gem in sandboxes use them without options, in commands and
contexts; a caller's own variables win."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from egress import HOST, World
from package_files import Index
from rpc import DAEMON, HANG_MS, Daemon

TIMEOUT = 150


class Box:
    def __init__(self, frames, name, **more):
        self.frames, self.name = frames, name
        frames.call("sandbox.create", sandbox=name, **more)

    def exec(self, command, code=0, **more):
        answer = self.frames.call("exec", sandbox=self.name, command=command, timeoutMs=HANG_MS, **more)
        assert answer["exitCode"] == code, answer
        return answer["stdout"]


def start():
    world = World({})
    egress.use_name_servers(egress.NAMES)
    return world


def test_indexes():
    start()
    index = Index(HOST)
    options = [word for kind in ("pip", "npm", "gem") for word in ("--package-index", f"{kind}={index.url}/{kind}/")]
    with Daemon(*options) as daemon, daemon.frames() as frames:
        box = Box(frames, "box", network={"allow": [index.url[7:]]})
        box.exec("pip install --no-cache-dir hellopy >&2")
        box.exec("npm install -g --no-audit --no-fund hellojs >&2")
        box.exec("gem install --no-document hellorb >&2")
        assert box.exec("hellopy; hellojs; hellorb") == "hellopy 1\nhellojs one\nhellorb one\n"
        for path in ("/pip/hellopy/", "/npm/hellojs", "/gem/gems/hellorb-1.gem"):
            assert path in index.paths, index.paths
        # A context, in a sandbox that has only the rule.
        other = Box(frames, "other", network={"allow": [index.url[7:]]})
        frames.call("context.create", sandbox="other", context="c", language="python")
        cell = frames.call("context.run", sandbox="other", context="c", code="%pip install --no-cache-dir hellopy")
        assert cell["status"] == "ok" and "Successfully installed hellopy-1" in cell["stdout"], cell
        cell = frames.call("context.run", sandbox="other", context="c", code="import hellopy; hellopy.main()")
        assert cell["stdout"] == "hellopy 1\n", cell
        # The file of gem is there after a stop as well, and when the guest changed it.
        other.exec("echo broken > $GEMRC")
        frames.call("sandbox.stop", sandbox="other")
        assert other.exec("gem list --remote hellorb") == "hellorb (1)\n"
        # One that puts a link in its place reaches nothing through it, and starts.
        other.exec("echo kept > kept; ln -sf /workspace/kept $GEMRC")
        frames.call("sandbox.stop", sandbox="other")
        assert other.exec("cat kept") == "kept\n"


def test_a_callers_own_variables_win():
    start()
    index, own = Index(HOST, kinds=("pip",)), Index(HOST, kinds=("pip",))
    with Daemon("--package-index", f"pip={index.url}/pip/", "--package-index", "npm=http://index.example.org") as daemon, daemon.frames() as frames:
        box = Box(frames, "box", network={"allow": [HOST]}, env={"PIP_INDEX_URL": own.url + "/pip/"})
        box.exec("pip install --no-cache-dir --trusted-host " + HOST + " hellopy >&2")
        assert own.paths and not index.paths, (own.paths, index.paths)
        assert box.exec("echo ${NPM_CONFIG_REGISTRY-unset}") == "http://index.example.org\n"
        assert box.exec("echo ${NPM_CONFIG_REGISTRY-unset}", env={"NPM_CONFIG_REGISTRY": None}) == "unset\n"
        assert box.exec("echo $PIP_INDEX_URL", env={"PIP_INDEX_URL": "mine"}) == "mine\n"


def test_runs():
    """With a network they have the same variables, below the caller's. gem reads a file, which only sandboxes have."""
    start()
    index = Index(HOST, kinds=("pip",))
    show = {"language": "bash", "code": "echo ${PIP_INDEX_URL-unset} ${NPM_CONFIG_REGISTRY-unset} ${GEMRC-unset}"}
    with Daemon("--package-index", f"pip={index.url}/pip/", "--package-index", "npm=http://index.example.org", "--package-index", "gem=http://gems.example.org") as daemon, daemon.frames() as frames:
        network = {"allow": [index.url[7:]]}
        cloche.equal(frames.call("script", network=network, **show)["stdout"], f"{index.url}/pip/ http://index.example.org unset\n")
        cloche.equal(frames.call("script", network=network, env={"PIP_INDEX_URL": "mine"}, **show)["stdout"], "mine http://index.example.org unset\n")
        cloche.equal(frames.call("script", **show)["stdout"], "unset unset unset\n")
        install = "python3 -m venv --without-pip v && pip --python v/bin/python install --no-cache-dir hellopy >&2 && v/bin/python -c 'import hellopy; hellopy.main()'"
        done = frames.call("script", language="bash", code=install, network=network, limits={"wallMs": 60000})
        assert done["stdout"] == "hellopy 1\n" and "/pip/hellopy/" in index.paths, done


def test_several_indexes_and_a_proxy():
    start()
    proxy = Index(HOST, kinds=("pip",))
    with Daemon("--package-index", "pip=https://one.example.org/simple", "--package-index", "pip=http://two.example.org:8080/simple", "--package-index", "pip=http://three.example.org",
                "--package-index", "gem=https://gems.example.org/", "--package-proxy", proxy.url) as daemon, daemon.frames() as frames:
        box = Box(frames, "box", network={"allow": [proxy.url[7:], "one.example.org:443", "gems.example.org:443"]})
        shown = box.exec("printf '%s\\n' \"$PIP_INDEX_URL\" \"$PIP_EXTRA_INDEX_URL\" \"$PIP_TRUSTED_HOST\" $PIP_PROXY $NPM_CONFIG_PROXY $NPM_CONFIG_HTTPS_PROXY")
        assert shown.splitlines() == ["https://one.example.org/simple", "http://two.example.org:8080/simple http://three.example.org", "two.example.org:8080 three.example.org"] + 3 * [proxy.url], shown
        box.exec("pip download --no-cache-dir --retries 0 --index-url $PIP_INDEX_URL hellopy", code=1)
        shown = box.exec("cat $GEMRC; gem fetch hellorb 2>&1; true")
        assert {"CONNECT one.example.org:443", "CONNECT gems.example.org:443"} <= set(proxy.paths), (proxy.paths, shown)
        # A preset that is denied closes its own hosts, also through the proxy, and not those of another preset.
        seen = len(proxy.paths)
        other = Box(frames, "other", network={"allow": ["python", "ruby"], "deny": ["ruby"]})
        other.exec("pip download --no-cache-dir --retries 0 --index-url $PIP_INDEX_URL hellopy; gem fetch hellorb; true")
        assert "CONNECT one.example.org:443" in proxy.paths[seen:] and "CONNECT gems.example.org:443" not in proxy.paths[seen:], proxy.paths
        assert "proxy" not in box.exec("env | grep -v PIP_ | grep -v NPM_ | tr A-Z a-z")  # other programs connect as before


def test_options_that_are_none():
    for options, told in ((["--package-index", "pip"], "pip=URL"), (["--package-index", "cargo=https://index.example.org"], "pip=URL"), (["--package-index", "pip=index.example.org"], "begins with https://"),
                          (["--package-index", "gem=https://"], "begins with"), (["--package-index", "gem=https://a\"\n- evil"], "begins with"), (["--package-proxy", "socks5://proxy.example.org"], "--package-proxy must be a URL"),
                          (["--package-index", "npm=https://a.example.org", "--package-index", "npm=https://b.example.org"], "one URL for npm"),
                          (["--package-index", "pip=http://127.0.0.1:8080/simple"], "--host-port NAME=PORT"), (["--package-proxy", "http://user@localhost:3128"], "http://NAME.host.internal:PORT")):
        run = subprocess.run([DAEMON, "--socket", "socket", *options], capture_output=True, text=True)
        assert run.returncode == 2 and told in run.stderr, (options, run)
