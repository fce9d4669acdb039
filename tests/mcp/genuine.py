"""The genuine clients of MCP, unmodified, against cloched --mcp and cloche mcp: @modelcontextprotocol/client and @modelcontextprotocol/sdk from npm.

They are installed once, as package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from rpc import BUILD, DAEMON, PATIENCE, Daemon

TIMEOUT = 300  # with the installation


def test_clients_of_both_eras():
    place = npm_cache.install(HERE)
    with Daemon("--mcp", tcp=True) as daemon:
        command = ["node", "--no-warnings", "--test-force-exit", "--test-reporter=spec", f"--test-timeout={int(90000 * PATIENCE)}", "--test", os.path.join(HERE, "clients.test.mjs")]
        env = {**os.environ, "MCP_CLIENTS": place, "MCP_URL": f"http://127.0.0.1:{daemon.port}/mcp", "MCP_TOKEN": daemon.token, "MCP_SOCKET": daemon.path,
               "CLOCHE": os.path.join(BUILD, "cloche"), "CLOCHE_DAEMON": DAEMON, "CLOCHE_LIBEXEC": BUILD}
        done = subprocess.run(command, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=(TIMEOUT - 100) * PATIENCE)
        assert done.returncode == 0, done.stdout
        assert daemon.stop() == 0, daemon.log_text()
