"""The container server of @cloudflare/sandbox 0.3.7 on loopback: the peer of sandboxes in
bench/sandbox.py, and of contexts in bench/context.py.

Downloaded with npm into a cache directory ($XDG_CACHE_HOME/cloche-bench), never into the tree, and
built like in the package's own Dockerfile. Two things are changed: it listens on 127.0.0.1 instead
of everywhere, and at a port of our choice; and its interpreters are found where they are and work
in its directory, not in those of its image. They are prewarmed only on request (interpreters: the
number for Python). It runs as its caller, and so do its commands: each session is a Node process
and a bash in a pid namespace, without other walls. Later versions have no server in their npm
package (0.12.10 is the client, and a Dockerfile that builds from the repository), so only this one
is measured."""
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

VERSION, BUN = "0.3.7", "1.4.5"
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "cloche-bench", f"upstream-{VERSION}")
SOURCE = os.path.join(CACHE, "package", "container_src")
COMPILED = {"control-process.ts": "--outDir .", "runtime/executors/javascript/node_executor.ts": "", "runtime/executors/typescript/ts_executor.ts": ""}
READY_S = 30


class Unavailable(Exception):
    """It is not available or does not start; the text has the reason."""


def run(command, cwd):
    done = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise Unavailable(f"{' '.join(command)} in {cwd} ended with {done.returncode}: {(done.stderr or done.stdout)[-300:]}")


def change(name, changes):
    path = os.path.join(SOURCE, name)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    for was, is_now in changes:
        if is_now in text:
            continue
        if text.count(was) != 1:
            raise Unavailable(f"{path} has {was!r} {text.count(was)} times, expected once")
        text = text.replace(was, is_now)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def listen_on_loopback():
    change("index.ts", (('hostname: "0.0.0.0"', 'hostname: "127.0.0.1"'), ("port: 3000", "port: Number(process.env.PORT)")))


def find_python():
    script = "/runtime/executors/python/ipython_executor.py"
    change("runtime/process-pool.ts", ((f'"/container-server{script}"', f'"{SOURCE}{script}"'), ('cwd: "/workspace"', "cwd: process.env.TEMP_DIR")))


def install():
    done = os.path.join(CACHE, "installed")
    if os.path.exists(done):
        return
    for program in ("npm", "node", "npx"):
        if not shutil.which(program):
            raise Unavailable(f"{program} is not installed")
    shutil.rmtree(CACHE, ignore_errors=True)
    os.makedirs(CACHE)
    print(f"upstream: install {VERSION} into {CACHE}", file=sys.stderr, flush=True)
    run(["npm", "pack", f"@cloudflare/sandbox@{VERSION}"], CACHE)
    run(["tar", "-xzf", f"cloudflare-sandbox-{VERSION}.tgz"], CACHE)
    quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
    run(["npm", "install", *quiet, "--prefix", CACHE, f"bun@{BUN}"], CACHE)
    run([bun(), "install", "--frozen-lockfile"], SOURCE)
    for name, options in COMPILED.items():
        run(["npx", "tsc", os.path.basename(name), *options.split(), *"--module commonjs --target es2020 --esModuleInterop --skipLibCheck".split()],
            os.path.join(SOURCE, os.path.dirname(name)))
    listen_on_loopback()
    open(done, "w").close()


def bun():
    return os.path.join(CACHE, "node_modules", ".bin", "bun")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


class Server:
    """A running one, in a process group of its own and with a directory for its sessions and temporary files; all gone at the end."""

    def __init__(self, interpreters=0):
        install()
        find_python()
        self.directory = tempfile.mkdtemp(prefix="cloche-upstream-")
        self.port = free_port()
        path = os.pathsep.join(dict.fromkeys(["/usr/bin", "/bin", "/usr/sbin", "/sbin", os.path.dirname(shutil.which("node"))]))
        environment = {"PATH": path, "HOME": self.directory, "TEMP_DIR": self.directory, "TMPDIR": self.directory, "PORT": str(self.port)}
        environment |= {"PYTHON_POOL_MIN_SIZE": str(interpreters), "JAVASCRIPT_POOL_MIN_SIZE": "0", "TYPESCRIPT_POOL_MIN_SIZE": "0"}
        self.process = subprocess.Popen([bun(), "index.ts"], cwd=SOURCE, env=environment, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        try:
            self.wait_until_ready()
        except BaseException:
            self.__exit__()
            raise

    def wait_until_ready(self):
        until = time.monotonic() + READY_S
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api/ping", timeout=READY_S):
                    return
            except OSError as error:
                if self.process.poll() is not None or time.monotonic() > until:
                    raise Unavailable(f"its server does not answer: {error}") from None
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """SIGTERM makes it end its sessions; their bash is PID 1 of a namespace and ends with its Node process."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)
