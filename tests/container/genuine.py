"""The genuine clients of the container API, unmodified, against cloched: @cloudflare/sandbox 0.3.7 and 0.12.10, from npm.

They are installed once, as package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import os
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from rpc import PATIENCE, Daemon

TIMEOUT = 300  # with the installation


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def run(*names, **env):
    """Files of tests, each with a sandbox of its own behind a port of its own."""
    place = npm_cache.install(HERE)
    for name in names:
        port = free_port()
        # A context's language is set up when it is first asked for: half of the files ask for none.
        with Daemon("--container-listen", f"127.0.0.1:{port}={name}", "--contexts", "", has_packages=name == "interpreter") as daemon:
            # Without --test, which would be a second process of Node for the one file.
            command = ["node", "--no-warnings", "--test-reporter=spec", os.path.join(HERE, name + ".test.mjs")]
            try:
                done = subprocess.run(command, env={**os.environ, "CAN_UNPACK": str(int(os.path.exists("/usr/bin/unsquashfs"))), "CONTAINER_URL": f"http://127.0.0.1:{port}", "CONTAINER_CLIENTS": place, **env},
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=(TIMEOUT - 100) * PATIENCE)
            except subprocess.TimeoutExpired as e:
                raise AssertionError(f"it does not end:\n{(e.output or b'').decode(errors='replace')}") from None
            assert done.returncode == 0, done.stdout
            assert daemon.stop() == 0, daemon.log_text()


def test_0_3_client():
    run("old-client")


def test_0_3_sandbox():
    run("old-sandbox")


def test_0_12_client():
    run("new-client")


def test_0_12_client_over_a_websocket():
    run("new-client", TRANSPORT="websocket")


def test_0_12_sandbox():
    run("new-sandbox")


def test_0_12_sandbox_over_a_websocket():
    run("new-sandbox", TRANSPORT="websocket")


def test_the_interpreter():
    run("interpreter")


def test_the_0_3_walk_through():
    run("walk-through", CLIENT="0.3")


def test_the_0_12_walk_through():
    run("walk-through", CLIENT="0.12")


def test_the_0_12_walk_through_over_a_websocket():
    run("walk-through", CLIENT="0.12", TRANSPORT="websocket")
