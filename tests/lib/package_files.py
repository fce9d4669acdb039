"""A package for pip, npm and gem each, and an index that serves them."""
import base64
import hashlib
import http.server
import io
import json
import os
import socketserver
import subprocess
import tarfile
import tempfile
import threading
import zipfile


def wheel(version):
    """PEP 427."""
    info = f"hellopy-{version}.dist-info"
    files = {"hellopy/__init__.py": f"version = {version!r}\ndef main(): print('hellopy', version)\n", f"{info}/entry_points.txt": "[console_scripts]\nhellopy=hellopy:main\n",
             f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hellopy\nVersion: {version}\n", f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    rows = [f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b'=').decode()},{len(text)}\n" for name, text in files.items()]
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, text in {**files, f"{info}/RECORD": "".join(rows) + f"{info}/RECORD,,\n"}.items():
            archive.writestr(name, text)
    return file.getvalue()


def npm_package():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in {"package.json": json.dumps({"name": "hellojs", "version": "1.0.0", "main": "entry.js", "bin": {"hellojs": "bin.js"}}),
                           "entry.js": "module.exports = { version: 'one' }", "bin.js": "#!/usr/bin/env node\nconsole.log('hellojs', 'one')\n"}.items():
            member = tarfile.TarInfo("package/" + name)
            member.size, member.mode = len(text), 0o755
            archive.addfile(member, io.BytesIO(text.encode()))
    return file.getvalue()


def gem():
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/lib"), os.makedirs(folder + "/bin")
        for name, text in {"lib/hellorb.rb": "HELLO = 'one'\n", "bin/hellorb": "#!/usr/bin/env ruby\nrequire 'hellorb'\nputs \"hellorb #{HELLO}\"\n",
                           "hellorb.gemspec": "Gem::Specification.new { |s| s.name = 'hellorb'; s.version = '1'; s.summary = 's'; s.authors = ['a']; s.files = ['lib/hellorb.rb', 'bin/hellorb']; s.executables = ['hellorb'] }"}.items():
            with open(f"{folder}/{name}", "w") as file:
                file.write(text)
        subprocess.run(["gem", "build", "--silent", "hellorb.gemspec"], cwd=folder, check=True)
        with open(folder + "/hellorb-1.gem", "rb") as file:
            return file.read()


def gem_index():
    """The files of a source of gem, by path."""
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        os.mkdir(folder + "/gems")
        with open(folder + "/gems/hellorb-1.gem", "wb") as file:
            file.write(gem())
        subprocess.run(["gem", "generate_index", "--quiet", "--directory", folder], check=True, capture_output=True)
        for place, _, names in os.walk(folder):
            for name in names:
                with open(f"{place}/{name}", "rb") as file:
                    files[f"{place}/{name}"[len(folder):]] = file.read()
    return files


class Index(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """Serves the packages below /pip/, /npm/ and /gem/. paths: what was requested, in order."""
    daemon_threads = True

    def __init__(self, host, port=0, kinds=("pip", "npm", "gem")):
        super().__init__((host, port), Page)
        self.url, self.paths = f"http://{host}:{self.server_address[1]}", []
        self.files = {"/pip/hellopy/hellopy-1-py3-none-any.whl": wheel("1"), "/pip/hellopy/": b"<a href='hellopy-1-py3-none-any.whl'>hellopy-1-py3-none-any.whl</a>"}
        if "npm" in kinds:
            tarball = npm_package()
            about = {"name": "hellojs", "version": "1.0.0", "bin": {"hellojs": "bin.js"},
                     "dist": {"tarball": f"{self.url}/npm/hellojs.tgz", "integrity": "sha512-" + base64.b64encode(hashlib.sha512(tarball).digest()).decode()}}
            self.files |= {"/npm/hellojs": json.dumps({"name": "hellojs", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": about}}).encode(), "/npm/hellojs.tgz": tarball}
        if "gem" in kinds:
            self.files |= {"/gem" + path: content for path, content in gem_index().items()}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class Page(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.split("?")[0]
        content = self.server.files.get(path)
        self.server.paths.append(path)
        self.send_response(404 if content is None else 200)
        self.send_header("Content-Type", "text/html" if path.endswith("/") else "application/octet-stream")
        self.send_header("Content-Length", str(len(content or b"")))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content or b"")

    do_HEAD = do_GET

    def do_CONNECT(self):
        self.server.paths.append("CONNECT " + self.path)
        self.send_error(403)

    def log_message(self, *_):
        pass
