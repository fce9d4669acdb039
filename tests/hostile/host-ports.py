"""Ports of the host's loopback that the operator opened by name: code in a box reaches the one that its policy names, and no other,
by no name, address, redirect, tunnel or change of a name."""
import os
import socketserver
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from egress import HOST, World
from rpc import DAEMON, HANG_MS, Daemon, Failed

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "loop.test": ["127.0.0.1"], "turns.test": [["93.184.216.34"], ["127.0.0.1"]], "db.host.internal": ["93.184.216.34"], "host.internal": ["127.0.0.1"]}


class Service(socketserver.StreamRequestHandler):
    """HTTP, and a proxy: answers CONNECT and absolute targets as if it led anywhere."""

    def handle(self):
        while line := self.rfile.readline(9000).decode().strip():
            self.server.lines.append(line)
            while self.rfile.readline(9000) not in (b"\r\n", b""):
                pass
            if line.startswith("CONNECT"):
                self.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
            elif line.startswith("GET /to/"):
                self.wfile.write(b"HTTP/1.1 302 Found\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n" % line.split()[1][4:].encode())
            else:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nservice\n")


class Loopback(socketserver.ThreadingTCPServer):
    daemon_threads = allow_reuse_address = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Service)
        self.port, self.lines = self.server_address[1], []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


def start():
    World(NAMES)
    egress.use_name_servers(egress.NAMES)
    return Loopback(), Loopback()


def run(frames, command, sandbox="box"):
    return frames.call("exec", sandbox=sandbox, command=command, timeoutMs=HANG_MS)


def talk(*pieces, host="db.host.internal", port):
    """Send pieces on one connection, and print the answer."""
    return f"python3 - <<'END-OF-IT'\n{egress.PRELUDE}\nprint(talk({host!r}, {port}, *{[piece.encode() for piece in pieces]!r}))\nEND-OF-IT"


def test_a_run_of_the_command_line():
    opened, closed = start()
    get = "import urllib.request\ndef get(url):\n    try: return urllib.request.urlopen(url, timeout=8).read().decode()\n    except OSError as e: return 'refused'"
    url, other = f"http://db.host.internal:{opened.port}/", f"http://db.host.internal:{closed.port}/"
    ports = [f"db={opened.port}", "other=1"]
    cloche.equal(cloche.call("python", get, args=[url], network="allowed.test,host:db", host_port=ports).value, "service\n")
    for address, network in ((url, "allowed.test,host:other"), (url, "*"), (other, "host:db,*"), (f"http://127.0.0.1:{opened.port}/", "host:db"), (f"http://loop.test:{opened.port}/", "*,host:db")):
        cloche.equal(cloche.call("python", get, args=[address], network=network, host_port=ports).value, "refused", (address, network))
    assert len(opened.lines) == 1 and not closed.lines, (opened.lines, closed.lines)
    for options, told in ((["--network", "host:db"], "--host-port"), (["--network", "host:none", "--host-port", ports[0]], "--host-port"), (["--host-port", ports[0]], "expected --network"),
                          *[(["--network", "host:db", "--host-port", wrong], "NAME=PORT") for wrong in ("db", "db=", "db=0", "db=65536", "Db=1", "-=1", "=1")],
                          (["--network", "host:db", "--host-port", "db=1", "--host-port", "db=2"], "once for each name")):
        told_by = cloche.cli("run", "bash", "-c", "true", *options)
        assert told_by.code == 2 and told in told_by.stderr.decode(), (options, told_by)


def test_the_port_that_the_policy_names():
    """The twin: from commands, contexts and runs, also after a change of the policy and a stop."""
    opened, _closed = start()
    url = f"http://db.host.internal:{opened.port}/"
    with Daemon("--host-port", f"db={opened.port}") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["allowed.test"]})
        answer = run(frames, f"curl -sS {url}")
        assert answer["exitCode"] == 6 and not opened.lines, answer
        [denied] = answer["denials"]
        assert denied["why"] == "a service of the host needs a rule host:NAME, and has one port" and denied["remedy"] == "cloche net box --add host:db", denied
        told = cloche.cli(*denied["remedy"].split()[1:], "--socket", daemon.path)
        assert told.code == 0 and told.stdout == b"allow allowed.test\nallow host:db\n", told
        assert run(frames, f"curl -sS {url}")["stdout"] == "service\n"
        rows = [row for row in frames.call("network.log", sandbox="box")["decisions"] if row["verdict"] == "allowed" and row["kind"] == "tcp"]
        assert rows and rows[-1]["host"] == "db.host.internal" and rows[-1]["rule"] == f"host:db:{opened.port}", rows
        assert run(frames, "curl -sS http://allowed.test/")["exitCode"] == 0
        frames.call("sandbox.stop", sandbox="box")
        assert run(frames, f"curl -sS {url}")["stdout"] == "service\n"
        frames.call("context.create", sandbox="box", context="c", language="python")
        cell = frames.call("context.run", sandbox="box", context="c", code=f"import urllib.request as u\nprint(u.urlopen({url!r}).read().decode())")
        assert cell["stdout"].strip() == "service", cell
        script = frames.call("script", language="bash", code=f"curl -sS {url}", network={"allow": ["host:db"]})
        assert script["stdout"] == "service\n", script
        # A change of the policy cuts connections that are open; a rule that denies wins.
        frames.call("process.start", sandbox="box", process="open", command=f"exec 7<>/dev/tcp/db.host.internal/{opened.port}; echo > is-open; cat <&7; echo cut")
        cloche.wait_for(lambda: run(frames, "test -e is-open")["exitCode"] == 0, "the connection")
        frames.call("sandbox.update", sandbox="box", network={"allow": ["allowed.test"]})
        ended = frames.call("process.wait", sandbox="box", process="open", timeoutMs=HANG_MS)
        assert ended["process"].get("exitCode") is not None, ended
        for deny in ("host:db", "*", "*.host.internal"):
            frames.call("sandbox.update", sandbox="box", network={"allow": ["host:db"], "deny": [deny]})
            assert run(frames, f"curl -sS {url}")["exitCode"] != 0, deny


def test_no_other_port_of_the_loopback():
    opened, closed = start()
    db, no = f"db.host.internal:{opened.port}", f"db.host.internal:{closed.port}"
    with Daemon("--host-port", f"db={opened.port}") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["host:db", "*", "loop.test", "turns.test", "*.host.internal", f"db.host.internal:{closed.port}"]})
        assert run(frames, f"curl -sS http://{db}/")["stdout"] == "service\n"
        opened.lines.clear()
        for host in (no, f"other.host.internal:{opened.port}", f"host.internal:{opened.port}", f"DB.Host.Internal.:{closed.port}", f"a.db.host.internal:{opened.port}", f"loop.test:{closed.port}", f"loop.test:{opened.port}",
                     f"turns.test:{closed.port}", f"turns.test:{closed.port}", f"127.0.0.1:{closed.port}", f"localhost:{closed.port}", f"0.0.0.0:{closed.port}", f"[::1]:{closed.port}", f"[::ffff:127.0.0.1]:{closed.port}", f"{HOST}:{closed.port}"):
            answer = run(frames, f"curl -sS -m 8 --noproxy '*' 'http://{host}/'")
            assert answer["exitCode"] != 0, (host, answer)
        # Its address that stands for the name, on another port.
        assert run(frames, f"a=$(getent ahostsv4 db.host.internal | head -1 | cut -d' ' -f1); curl -sS -m 8 http://$a:{closed.port}/")["exitCode"] != 0
        # Redirects, of which each hop is a connection.
        for to in (no, f"127.0.0.1:{closed.port}", f"loop.test:{closed.port}"):
            assert run(frames, f"curl -sSL -m 8 http://{db}/to/{to}")["exitCode"] != 0, to
        assert closed.lines == [] and all(line.startswith("GET /to/") for line in opened.lines), (closed.lines, opened.lines)
        opened.lines.clear()
        # Where the service is a proxy: what is in the connection is checked as well.
        for target in (no, f"127.0.0.1:{closed.port}", f"localhost:{closed.port}", f"127.0.0.1:{opened.port}"):
            said = run(frames, talk(f"CONNECT {target} HTTP/1.1\r\nHost: {db}\r\n\r\n", port=opened.port))["stdout"] if target[:3] != "loc" else run(frames, talk(f"GET http://{target}/ HTTP/1.1\r\nHost: {db}\r\n\r\n", port=opened.port))["stdout"]
            assert "200" not in said, (target, said)
        for fields in (f"Host: {no}", f"Host: 127.0.0.1:{opened.port}", f"Host: loop.test:{closed.port}"):
            said = run(frames, talk(f"GET / HTTP/1.1\r\n{fields}\r\n\r\n", port=opened.port))["stdout"]
            assert "200" not in said, (fields, said)
        # In a connection to another host its name leads there, and not to the loopback.
        run(frames, talk(f"GET / HTTP/1.1\r\nHost: {db}\r\nConnection: close\r\n\r\n", host="allowed.test", port=80))
        assert opened.lines == [] and closed.lines == [], (opened.lines, closed.lines)
        assert "200" in run(frames, talk(f"GET / HTTP/1.1\r\nHost: {db}\r\nConnection: close\r\n\r\n", port=opened.port))["stdout"]  # the twin


def test_a_preset_of_the_operator_may_open_one():
    opened, closed = start()
    with Daemon("--host-port", f"db={opened.port}", "--network-preset", "own=allowed.test:80,host:db", "--network-preset", "other=host:none") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["own"]})
        assert run(frames, f"curl -sS http://db.host.internal:{opened.port}/")["stdout"] == "service\n"
        assert run(frames, "curl -sS http://allowed.test/")["exitCode"] == 0
        assert run(frames, f"curl -sS -m 8 http://db.host.internal:{closed.port}/")["exitCode"] != 0 and not closed.lines
        error = frames.refused("sandbox.update", sandbox="box", network={"allow": ["own", "other"]})
        assert error.name == "invalid_argument" and "'host:none': no port of the host is open under this name" in error.message, error


def test_rules_of_callers_open_none():
    """Only the operator names ports; all that a caller can write is a name of these."""
    opened, closed = start()
    with Daemon("--host-port", f"db={opened.port}") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["*", f"db.host.internal:{opened.port}", "host:80"]})
        answer = run(frames, f"curl -sS -m 8 http://db.host.internal:{opened.port}/")
        assert answer["exitCode"] == 6 and not opened.lines, answer
        for rule in (f"host:db:{closed.port}", f"host:db:{opened.port}", f"host:x:{closed.port}", "host:other", "host:DB", "host:", "host:db:", "host:*", "host:db\u0000"):
            for where in ("allow", "deny"):
                for method, more in (("sandbox.update", {"sandbox": "box"}), ("script", {"language": "bash", "code": "true"})):
                    try:
                        raise AssertionError((rule, frames.call(method, network={where: [rule]}, **more)))
                    except Failed as e:
                        assert e.name == "invalid_argument" and f"network.{where}[0]" in e.message, (rule, e.message)
        try:
            raise AssertionError(frames.call("sandbox.update", sandbox="box", network={"allow": [], "services": {"x": closed.port}}))
        except Failed as e:
            assert "there is no 'services'" in e.message, e.message
    told = cloche.cli("run", "bash", "-c", "true", "--network", "host:db")
    assert told.code == 2 and b"--host-port" in told.stderr, told
    for value in ("db", "=80", "db=0", "db=65536", "db=+80", "DB=80", "80=80", "d b=80", "db-=80", "db=80x"):
        bad = subprocess.run([DAEMON, "--socket", "socket", "--host-port", value], capture_output=True, text=True)
        assert bad.returncode == 2 and "--host-port must be NAME=PORT" in bad.stderr, (value, bad)
    bad = subprocess.run([DAEMON, "--socket", "socket", "--host-port", "db=80", "--host-port", "db=81"], capture_output=True, text=True)
    assert bad.returncode == 2 and "once for each name" in bad.stderr, bad


def test_a_saved_rule_whose_port_is_gone():
    state = ["--state-dir", os.path.abspath("state")]
    with Daemon("--host-port", "db=1", *state) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["host:db"]})
        frames.call("sandbox.stop", sandbox="box")
    with Daemon(*state) as daemon, daemon.frames() as frames:
        told = cloche.cli("exec", "box", "--socket", daemon.path, "--", "true")
        assert told.code == 2 and told.stderr.decode().startswith(f'cloche: the network of the sandbox "box" has a rule that this daemon does not know; change it by cloche net box --socket {daemon.path}: '), told
        told = cloche.cli("net", "box", "--none", "--socket", daemon.path)
        assert told.code == 0, told
        cloche.equal(run(frames, "echo works")["stdout"], "works\n")
