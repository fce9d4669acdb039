"""The genuine clients of E2B, unmodified, against cloched --e2b-listen: e2b, @e2b/code-interpreter and @e2b/cli from npm.

They are installed once, as package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import contextlib
import json
import os
import pty
import re
import socket
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from cloche import cli, equal
from image_trees import copy_programs, make_shell
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


def image_store():
    """An image with bash and a few programs."""
    root = make_shell()
    copy_programs(root, *("/usr/bin/" + name for name in ("cat", "chmod", "chown", "cp", "dirname", "id", "mkdir", "rm", "setpriv", "stat")))
    equal(cli("image", "import", "--images", "images", root, "tools:1").code, 0)
    return ["--images", os.path.abspath("images")]


def in_terminal(command, steps, **more):
    """The exit code and output of a command on a terminal of its own, in which a line is typed after each text that came."""
    parent, child = pty.openpty()
    with subprocess.Popen(command, stdin=child, stdout=child, stderr=child, start_new_session=True, **more) as process:
        os.close(child)
        seen, at = b"", 0
        try:
            with contextlib.suppress(OSError):  # EIO: all ends of it are closed
                while piece := os.read(parent, 65536):
                    seen += piece
                    while steps and steps[0][0] in seen[at:]:
                        at = len(seen)
                        os.write(parent, steps.pop(0)[1])
            return process.wait(60 * PATIENCE), seen.decode(errors="replace")
        finally:
            process.kill()
            os.close(parent)


def test_commands_of_the_cli():
    place = npm_cache.install(HERE)
    with served() as (_, env), tempfile.TemporaryDirectory() as home:
        more = {"env": {**os.environ, **env, "HOME": home}, "cwd": home}
        command = ["node", os.path.join(place, "node_modules/.bin/e2b")]

        def e2b(*words, input="", code=0):
            done = subprocess.run([*command, *words], input=input, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE, **more)
            assert done.returncode == code, (words, done.returncode, done.stdout)
            return done.stdout

        def typed(*words):
            code, seen = in_terminal([*command, *words], [(b"$ ", b"echo $((6 * 7))\n"), (b"42", b"exit\n")], **more)
            assert code == 0 and "42" in seen, (code, seen)

        [box] = re.findall(r"\bi[a-z0-9]{19}\b", e2b("sandbox", "create", "base", "--detach"))
        [row] = json.loads(e2b("sandbox", "list", "--format", "json"))
        assert (row["sandboxId"], row["state"]) == (box, "running"), row
        assert "typed\n" in e2b("sandbox", "exec", box, "--", "cat; exit 3", input="typed\n", code=3)
        assert "exit code 3" in e2b("sandbox", "logs", box)
        assert re.search("Memory: +[0-9]+ /", e2b("sandbox", "metrics", box))
        assert "Created snapshot kept" in e2b("sandbox", "snapshot", "create", box, "--name", "kept")
        assert "kept" in e2b("sandbox", "snapshot", "list", box)
        assert "kept has been deleted" in e2b("sandbox", "snapshot", "delete", "kept")
        typed("sandbox", "connect", box)
        assert "has been paused" in e2b("sandbox", "pause", box)
        assert "has been resumed" in e2b("sandbox", "resume", box)
        assert "has been killed" in e2b("sandbox", "kill", box)
        typed("sandbox", "create", "base")


def test_commands_of_the_cli_for_templates():
    place = npm_cache.install(HERE)
    with served(*image_store()) as (_, env), tempfile.TemporaryDirectory() as home:
        def e2b(*words, code=0):
            done = subprocess.run(["node", os.path.join(place, "node_modules/.bin/e2b"), "template", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60 * PATIENCE, cwd=home, env={**os.environ, **env, "HOME": home})
            assert done.returncode == code, (words, done.returncode, done.stdout)
            return done.stdout

        with open(os.path.join(home, "e2b.Dockerfile"), "w") as file:
            file.write("FROM tools:1\nENV A=1\nRUN echo made > made\n")
        e2b("create", "by-cli", "-d", "e2b.Dockerfile")
        rows = lambda: {name: access for access, name in re.findall(r"(Private|Public) +(\S+)", e2b("list"))}
        e2b("publish", "by-cli", "-y")
        assert rows() == {"by-cli": "Public"}, rows()
        e2b("unpublish", "by-cli", "-y")
        assert rows() == {"by-cli": "Private"}, rows()
        e2b("delete", "by-cli", "-y")
        assert "not found" in e2b("delete", "by-cli", "-y", code=1)
