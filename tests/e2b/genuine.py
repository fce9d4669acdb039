"""The genuine clients of E2B, unmodified, against cloched --e2b-listen: e2b and @e2b/code-interpreter from npm.

They are installed once, as package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import contextlib
import os
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from rpc import BUILD, PATIENCE, Daemon

TIMEOUT = 300  # with the installation


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


@contextlib.contextmanager
def served(*options, **more):
    """A daemon with the API, and the environment of its clients, as cloche e2b env prints it."""
    address = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory() as directory, Daemon("--e2b-listen", address, "--token-file", os.path.join(directory, "token"), *options, **more) as daemon:
        printed = subprocess.run([os.path.join(BUILD, "cloche"), "e2b", "env", address, "--token-file", os.path.join(directory, "token")], stdout=subprocess.PIPE, text=True, check=True).stdout
        env = dict(line.removeprefix("export ").split("=", 1) for line in printed.splitlines())
        assert sorted(env) == ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL"], printed
        yield daemon, {**env, "TOKEN_FILE": os.path.join(directory, "token")}


def run(name, **more):
    place = npm_cache.install(HERE)
    with served(**more) as (daemon, env):
        # The clients leave timers of a minute behind, for which Node would wait.
        command = ["node", "--no-warnings", "--test-force-exit", "--test-reporter=spec", f"--test-timeout={int(90000 * PATIENCE)}", "--test", os.path.join(HERE, name + ".test.mjs")]
        done = subprocess.run(command, env={**os.environ, **env, "E2B_CLIENTS": place}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=(TIMEOUT - 100) * PATIENCE)
        assert done.returncode == 0, done.stdout
        assert daemon.stop() == 0, daemon.log_text()


def test_sandboxes_commands_and_files():
    run("sandbox")


def test_the_code_interpreter():
    run("code")


def test_templates():
    run("template")
