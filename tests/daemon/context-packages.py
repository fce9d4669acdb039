"""Packages that pip, npm and gem install in a sandbox: its commands, new contexts and those that live already find them, also after
they were looked for in vain. The packages are files, so no network is needed."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import egress
from cloche import need_root
from package_files import gem, npm_package, wheel
from rpc import HANG_MS, Daemon

TIMEOUT = 120


class Box:
    def __init__(self, frames, name="box", **more):
        self.frames, self.name = frames, name
        frames.call("sandbox.create", sandbox=name, **more)

    def put(self, path, content):
        content = content if isinstance(content, bytes) else content.encode()
        self.frames.call("file.write", attachments=content, sandbox=self.name, path=path, content={"$": "bytes", "at": 0, "n": len(content)})

    def exec(self, command, **more):
        answer = self.frames.call("exec", sandbox=self.name, command=command, timeoutMs=HANG_MS, **more)
        assert answer["exitCode"] == 0, answer
        return answer["stdout"]

    def context(self, name, language, **more):
        self.frames.call("context.create", sandbox=self.name, context=name, language=language, **more)

    def cell(self, context, code):
        answer = self.frames.call("context.run", sandbox=self.name, context=context, code=code)
        return answer["error"]["name"] if answer["status"] == "error" else answer["stdout"].strip()


def test_python():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        for version in ("1", "2"):
            box.put(f"hellopy-{version}-py3-none-any.whl", wheel(version))
        box.context("early", "python", forkable=True)
        show = "import hellopy; print(hellopy.version)"
        assert box.cell("early", show) == "ModuleNotFoundError"
        assert "externally-managed" not in box.exec("pip install --no-index ./hellopy-1*.whl 2>&1")
        assert box.exec("hellopy; python3 -c 'import hellopy; print(hellopy.version)'") == "hellopy 1\n1\n"
        assert box.cell("early", show) == "1"
        box.context("late", "python")
        assert box.cell("late", show) == "1" and box.cell("late", "!hellopy") == "hellopy 1"
        fork = frames.call("context.fork", sandbox="box", context="early")["contexts"][0]["context"]
        assert box.cell(fork, show) == "1"
        # From within, over an older one, and a package of the image: that of the user comes first.
        assert "Successfully installed hellopy-2" in box.cell("late", "%pip install --no-index ./hellopy-2-py3-none-any.whl")
        box.context("later", "python")
        assert box.cell("later", show) == "2"
        # One cell installs and imports, the context's first package and a later one, by a magic and by a program.
        box.exec("rm -rf ~/.local")
        box.context("one", "python", forkable=True)
        for version, installs in (("1", "%pip install --no-index -q ./hellopy-1-py3-none-any.whl"), ("2", "import subprocess; subprocess.run('pip install --no-index -q ./hellopy-2-py3-none-any.whl', shell=True)")):
            said = box.cell("one", f"import sys; sys.modules.pop('hellopy', 0)\ntry: import missing_{version}\nexcept ImportError: print('none')\n{installs}\n{show}")
            assert (said[:4], said[-1]) == ("none", version), said
        box.exec("rm -r $(python3 -m site --user-site)/hellopy*")
        fork = frames.call("context.fork", sandbox="box", context="one")["contexts"][0]["context"]
        assert box.cell(fork, "import sys; del sys.modules['hellopy']\n%pip install --no-index -q ./hellopy-1-py3-none-any.whl\n" + show).endswith("1")
        box.exec("d=$(python3 -c 'import site; print(site.getusersitepackages())'); echo 'mine = 1' > $d/xml_mine.py; mkdir -p more $d; echo /workspace/more > $d/more.pth; echo 'x = 3' > more/by_path.py; mkdir $d/wsgiref; echo 'mine = 4' > $d/wsgiref/__init__.py")
        assert box.cell("later", "import xml_mine, by_path; print(xml_mine.mine, by_path.x)") == "1 3"


def test_the_environment_of_contexts():
    """It takes effect although the interpreter is a fork."""
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, env={"PYTHONPATH": "/workspace/lib", "RUBYLIB": "/workspace/lib"})
        box.put("lib/of_path.py", "v = 'py'"), box.put("lib/of_path.rb", "V = 'rb'"), box.put("js/of_path/index.js", "exports.v = 'js'"), box.put("own/of_path.py", "v = 'own'")
        box.context("py", "python")
        assert box.cell("py", "import of_path; print(of_path.v)") == "py"
        box.context("own", "python", env={"PYTHONPATH": "/workspace/own:/workspace/lib"})
        assert box.cell("own", "import of_path; print(of_path.v)") == "own"
        box.context("rb", "ruby")
        assert box.cell("rb", "require 'of_path'; puts V") == "rb"
        for language in ("javascript", "typescript"):
            box.context(language, language, env={"NODE_PATH": "/workspace/js"})
            assert box.cell(language, "console.log(require('of_path').v)") == "js"
            assert box.cell(language, "import * as one from 'of_path'; console.log(one.default.v)") == "js"


REGISTRY = """
import http.server, json, ssl, sys
PACKAGE = open("hellojs.tgz", "rb").read()
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        about = {"name": "hellojs", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {"name": "hellojs", "version": "1.0.0", "dist": {"tarball": "https://127.0.0.1:4443/hellojs.tgz"}}}}
        body = PACKAGE if self.path.endswith(".tgz") else json.dumps(about).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
server = http.server.ThreadingHTTPServer(("127.0.0.1", 4443), Handler)
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain("server.pem", "server.key")
server.socket = context.wrap_socket(server.socket, server_side=True)
print("ready", flush=True)
server.serve_forever()
"""


def make_authority(folder):
    """authority.pem, and server.pem with server.key for 127.0.0.1 by it."""
    run = lambda *words: subprocess.run(["openssl", *words], cwd=folder, check=True, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    run("req", "-x509", *key, "-keyout", "authority.key", "-out", "authority.pem", "-subj", "/CN=the machine's own", "-days", "2")
    run("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=registry")
    with open(folder + "/names", "w") as file:
        file.write("subjectAltName=IP:127.0.0.1\n")
    run("x509", "-req", "-in", "server.csr", "-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-out", "server.pem", "-days", "2", "-extfile", "names")


def test_a_registry_with_a_certificate_of_the_machines_own():
    """npm takes the authorities of the image; Node alone has its own."""
    need_root()
    folder = os.path.abspath("authority")
    os.mkdir(folder)
    make_authority(folder)
    bundle = "/etc/ssl/certs/ca-certificates.crt"
    with open(bundle, "rb") as known, open(folder + "/authority.pem", "rb") as own:
        bundled = known.read() + own.read()
    with open(folder + "/bundle", "wb") as file:
        file.write(bundled)
    egress.unshare(egress.CLONE_NEWNS)
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    subprocess.run(["mount", "--bind", folder + "/bundle", bundle], check=True)
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.put("hellojs.tgz", npm_package()), box.put("registry.py", REGISTRY)
        for name in ("server.pem", "server.key"):
            with open(os.path.join(folder, name), "rb") as file:
                box.put(name, file.read())
        frames.call("process.start", sandbox="box", command="python3 registry.py", process="registry")
        frames.call("process.wait", sandbox="box", process="registry", text="ready")
        install = "npm install --no-audit --no-fund --fetch-retries 0 --registry https://127.0.0.1:4443/ hellojs 2>&1"
        refused = frames.call("exec", sandbox="box", command="NPM_CONFIG_CAFILE= " + install, timeoutMs=HANG_MS)
        assert refused["exitCode"] != 0 and "certificate" in refused["stdout"], refused
        box.exec(install)
        assert box.exec("node -p 'require(\"hellojs\").version'") == "one\n"
        missing = frames.call("exec", sandbox="box", command="rm -r node_modules ~/.npm; NPM_CONFIG_CAFILE=/none " + install, timeoutMs=HANG_MS)
        assert "ENOENT" not in missing["stdout"] and "certificate" in missing["stdout"], missing


def test_node():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.put("hellojs.tgz", npm_package())
        box.exec("mkdir -p node_modules ~/.local/lib/node_modules")  # so that each place is looked at
        show = "console.log(require('hellojs').version)"
        bring = "const { default: it } = await import('hellojs'); console.log(it.version)"
        names = [(language, way) for language in ("javascript", "typescript") for way in ("local", "global")]
        for language, way in names:
            box.context(language + way, language)
            for code in (show, bring, "import it from 'hellojs'"):
                assert box.cell(language + way, code) == "Error", (language, way, code)
        install = {"local": "npm install --offline --no-audit --no-fund ./hellojs.tgz", "global": "npm install -g --offline --no-audit --no-fund ./hellojs.tgz"}
        for at in ("local", "global"):
            box.exec(install[at])
            for language, way in names:
                if way == at:
                    assert box.cell(language + way, show) == "one" and box.cell(language + way, bring) == "one", (language, way)
            box.exec("npm uninstall --offline hellojs")
        assert box.exec("hellojs; cd /; node -p 'require(\"hellojs\").version'") == "hellojs one\none\n"
        # Not looked for among packages: files, Node's own modules, a package that imports itself.
        box.put("package.json", json.dumps({"name": "self", "exports": "./it.js"})), box.put("it.js", "exports.v = 7"), box.put("node_modules/single.js", "exports.v = 8")
        for language in ("javascript", "typescript"):
            box.context(language, language)
            assert box.cell(language, "console.log(require('self').v, require('single').v, require('./it').v, typeof require('fs/promises').open, typeof require('node:test').test)") == "7 8 7 function function", language


def test_ruby():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.put("hellorb-1.gem", gem())
        box.context("early", "ruby")
        assert box.cell("early", "require 'hellorb'") == "LoadError"
        box.exec("gem install --local --no-document ./hellorb-1.gem")
        assert box.exec("hellorb; ruby -e 'require \"hellorb\"; puts HELLO'") == "hellorb one\none\n"
        box.context("late", "ruby")
        for context in ("early", "late"):
            assert box.cell(context, "require 'hellorb'; puts HELLO") == "one", context


def test_they_stay_with_the_sandbox():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.put("hellopy-1-py3-none-any.whl", wheel("1"))
        box.exec("pip install --no-index ./hellopy-1*.whl 2>&1")
        frames.call("sandbox.stop", sandbox="box")
        box.context("c", "python")
        assert box.cell("c", "import hellopy; print(hellopy.version)") == "1"
        assert box.exec("hellopy") == "hellopy 1\n"
