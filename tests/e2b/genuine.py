"""The genuine clients of E2B, unmodified, against cloched --e2b-listen: e2b, @e2b/code-interpreter and @e2b/cli from npm.

They are installed once, as package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import contextlib
import json
import os
import re
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
        assert sorted(env) == ["E2B_API_KEY", "E2B_API_URL", "E2B_SANDBOX_URL", "E2B_VOLUME_API_URL"], printed
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


def test_commands_of_the_cli_for_sandboxes():
    place = npm_cache.install(HERE)
    with served() as (_, env), tempfile.TemporaryDirectory() as home:
        def e2b(*words, input="", code=0):
            done = subprocess.run(["node", os.path.join(place, "node_modules/.bin/e2b"), *words], input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE, env={**os.environ, **env, "HOME": home})
            assert done.returncode == code, (words, done.returncode, done.stdout)
            return done.stdout

        [box] = re.findall(r"\bi[a-z0-9]{19}\b", e2b("sandbox", "create", "base", "--detach"))
        [row] = json.loads(e2b("sandbox", "list", "--format", "json"))
        assert (row["sandboxId"], row["state"]) == (box, "running"), row
        assert "typed\n" in e2b("sandbox", "exec", box, "--", "cat; exit 3", input="typed\n", code=3)
        assert "exit code 3" in e2b("sandbox", "logs", box)
        assert re.search("Memory: +[0-9]+ /", e2b("sandbox", "metrics", box))
        assert "Created snapshot kept" in e2b("sandbox", "snapshot", "create", box, "--name", "kept")
        assert "has been paused" in e2b("sandbox", "pause", box)
        assert "has been resumed" in e2b("sandbox", "resume", box)
        assert "has been killed" in e2b("sandbox", "kill", box)
