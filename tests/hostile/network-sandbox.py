"""The network of a sandbox as clients see it: a policy, programs of all kinds inside, permitted and
refused connections, and the log. tests/egress has the rest, for the egress program alone."""
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from egress import World
from rpc import Daemon, Failed, Frames, private

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "other.test": ["93.184.216.35"], "inside.test": ["10.1.1.1"], "meta.test": ["169.254.169.254"]}
FETCH = "import urllib.request\ntry: print(urllib.request.urlopen('http://%s/c').read().decode())\nexcept OSError as e: print(type(e).__name__)"


class Sandbox:
    def __init__(self, frames, name, network=None):
        self.frames, self.name = frames, name
        frames.call("sandbox.create", sandbox=name, **({} if network is None else {"network": network}))

    def run(self, command, **more):
        return self.frames.call("exec", sandbox=self.name, command=command, timeoutMs=40000, **more)

    def says(self, command):
        return self.run(command)["stdout"].strip()

    def python(self, code):
        result = self.run("python3 - <<'END-OF-IT'\n" + egress.PRELUDE + "\n" + code + "\nEND-OF-IT")
        return (result["stdout"] + result["stderr"]).strip()

    def decisions(self, **which):
        return [row for row in self.frames.call("network.log", sandbox=self.name)["decisions"] if all(row.get(k) == v for k, v in which.items())]


def start():
    world = World(NAMES)
    egress.use_name_servers(egress.NAMES)
    return world


def egress_programs():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/comm").read() == "cloche-egress\n" and os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
                found.append(int(pid))
        except OSError:
            pass
    return found


def test_without_a_policy():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "none")
        assert box.python("print(name('allowed.test'), talk('93.184.216.34', 80))") == "gaierror OSError"
        assert box.decisions() == []
        # The error of a command that failed for this names the remedy; others do not.
        way_out = "the sandbox none has no network; whoever runs it can allow more: cloche net none --add HOST, or for new sandboxes cloched --network"
        assert box.run("curl -sS http://allowed.test/")["warnings"] == [way_out]
        for command in ("curl -sS http://allowed.test/; true", "echo no such thing >&2; false"):
            assert "warnings" not in box.run(command), command
        told = cloche.cli("exec", "none", "--socket", daemon.path, "--", "curl -sS http://allowed.test/")
        for_socket = way_out.replace("net none", f"net none --socket {daemon.path}")
        assert told.code == 6 and told.stderr.decode().endswith(f"\ncloche: {for_socket}\n"), told
        os.environ["CLOCHE_SOCKET"] = daemon.path
        told = cloche.cli("exec", "none", "--", "curl -sS http://allowed.test/")
        assert told.code == 6 and told.stderr.decode().endswith(f"\ncloche: {way_out}\n"), told
        del os.environ["CLOCHE_SOCKET"]
        try:
            raise AssertionError(frames.call("git.checkout", sandbox="none", url="https://allowed.test/group/" + 60 * "repository" + ".git", dir="copy"))
        except Failed as e:
            failed = e
        assert failed.name == "git_network" and "git: unable to access 'https://allowed.test/group/" in failed.message and failed.message.endswith("; " + way_out), failed
        told = cloche.cli("git", "none", "https://allowed.test/a.git", "--socket", daemon.path)
        assert told.code != 0 and b"Could not resolve host: allowed.test; " + for_socket.encode() in told.stderr, told


def test_programs_reach_what_is_allowed():
    world = start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"]})
        assert box.says("curl -sS http://allowed.test/x") == "allowed.test /x 0"
        assert box.says("curl -sSk https://allowed.test/") == "secure"
        said = box.python("print(get('http://allowed.test/p'), get('https://allowed.test/'))").split()
        assert said == ["allowed.test", "/p", "0", "secure"], said
        assert box.says("node -e \"fetch('http://allowed.test/n').then(r => r.text()).then(console.log)\"") == "allowed.test /n 0"
        assert box.says("exec 7<>/dev/tcp/allowed.test/25; head -1 <&7; exec 7<&-") == "220 ready"
        world.heard()
        for command in ("curl -sS -m 5 http://other.test/", "curl -sS -m 5 http://93.184.216.34/", "curl -sS -m 5 http://169.254.169.254/", "curl -sS -m 5 http://10.1.1.1/",
                        "curl -sS -m 5 -H 'Host: other.test' http://allowed.test/", "curl -sSk -m 5 --connect-to other.test:443:allowed.test:443 https://other.test/"):
            assert box.run(command)["exitCode"] != 0, command
        assert [row for row in world.heard() if row[0] == "http" or row[1:] == ["93.184.216.34", "other.test"]] == []
        cloche.wait_for(lambda: {row["kind"] for row in box.decisions(verdict="denied", host="other.test")} == {"dns", "http", "tls"}, "the decisions in the log")
        denied = box.decisions(verdict="denied", host="other.test")
        assert all(row["number"] and row["time"] for row in denied), denied
        cloche.wait_for(lambda: box.decisions(verdict="denied", address="169.254.169.254"), "the decision on an address")
        assert box.decisions(verdict="denied", address="169.254.169.254")[0]["why"] == "no rule allows this address on this port"


def test_denials_reach_who_waits():
    start()
    dns = {"kind": "dns", "host": "other.test", "why": "no rule allows this name", "allow": ["other.test"], "remedy": "cloche net box --add other.test"}
    tcp = {"kind": "tcp", "address": "93.184.216.35", "port": 80, "why": "no rule allows this address on this port", "allow": ["93.184.216.35:80"], "remedy": "cloche net box --add 93.184.216.35:80"}

    def rows(answer):
        return [{name: value for name, value in row.items() if name not in ("count", "rule", "port") or name == "port" and row["kind"] == "tcp"} for row in answer["denials"]]

    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"]})
        for command in ("curl -sS http://allowed.test/", "true"):
            assert "denials" not in box.run(command), command
        for code in (6, 6, 0):  # one after the other: each has its own
            answer = box.run("curl -sS http://other.test/" + ("" if code else " || true"))
            assert answer["exitCode"] == code and rows(answer) == [dns], answer
        answer = box.run("for i in 1 2 3; do curl -sS http://93.184.216.35/; done")
        assert rows(answer) == [tcp] and answer["denials"][0]["count"] == 3, answer
        assert "denials" not in box.run("true")
        # A name of the guest's choice reaches no shell.
        answer = box.run("getent hosts 'x;reboot.test'")
        assert all("remedy" not in row for row in answer.get("denials", [])), answer

        # The command in the remedy does permit it.
        told = cloche.cli(*dns["remedy"].split()[1:], "--socket", daemon.path)
        assert told.code == 0 and "denials" not in box.run("curl -sS http://other.test/"), told
        assert "denials" not in box.run("curl -sS http://allowed.test/"), told  # and keeps what was allowed

        frames.call("context.create", sandbox="box", context="c", language="python")
        cell = frames.call("context.run", sandbox="box", context="c", code="import socket\ntry: socket.create_connection(('93.184.216.36', 443)).recv(1)\nexcept OSError: pass")
        assert cell["status"] == "ok" and [row["address"] for row in cell.get("denials", ())] == ["93.184.216.36"], cell
        assert "denials" not in frames.call("context.run", sandbox="box", context="c", code="1")
        process = frames.call("process.start", sandbox="box", command="curl -sS http://93.184.216.34:8080/")["process"]
        process = frames.call("process.wait", sandbox="box", process=process)["process"]
        assert [row["port"] for row in process["denials"]] == [8080], process
        well = frames.call("process.start", sandbox="box", command="curl -sS http://93.184.216.34:8080/ || true")["process"]
        frames.call("process.wait", sandbox="box", process=well)
        line = f"denied tcp 93.184.216.34:8080: no rule allows this address on this port; cloche net box --add 93.184.216.34:8080 --socket {daemon.path} permits it\n"
        told = cloche.cli("ps", "box", "--socket", daemon.path)
        assert told.code == 0 and told.stderr.decode() == f"cloche: {process['process']}: {line}", told  # not of the one that did well
        for options in ([], ["-f"]):
            told = cloche.cli("logs", "box", process["process"], "--socket", daemon.path, *options)
            assert told.code == 0 and told.stderr.decode().endswith(f"\ncloche: {line}"), told
            assert b"denied" not in cloche.cli("logs", "box", well, "--socket", daemon.path, *options).stderr

        told = cloche.cli("exec", "box", "--socket", daemon.path, "--", "curl -sS http://third.test/")
        line = f"\ncloche: denied dns third.test:53: no rule allows this name( \\(2 times\\))?; (cloche net box --add third.test --socket {daemon.path}) permits it\n$"
        assert told.code == 6 and re.search(line, told.stderr.decode()), told
        assert b"denied" not in cloche.cli("exec", "box", "--socket", daemon.path, "--", "curl -sS http://third.test/ || true").stderr
        fetch = "import urllib.request as u\nu.urlopen('http://third.test/')"
        told = cloche.cli("context", "run", "box", "--socket", daemon.path, "-c", fetch)
        assert told.code == 1 and re.search(line, told.stderr.decode()), told
        # The line as it stands permits it; one for the daemon that the command finds by itself names no socket.
        permitting = cloche.cli(*re.search(line, told.stderr.decode())[2].split()[1:])
        assert permitting.code == 0 and b"allow third.test\n" in permitting.stdout, permitting
        told = cloche.cli("exec", "box", "--", "curl -sS -m 5 http://fourth.test/", env={**os.environ, "CLOCHE_SOCKET": daemon.path})
        assert told.stderr.endswith(b"; cloche net box --add fourth.test permits it\n"), told
        fetch = fetch.replace("third", "fourth")
        told = cloche.cli("context", "run", "box", "--socket", daemon.path, "-c", fetch.replace("u.url", "try: u.url") + "\nexcept OSError: pass")
        assert told.code == 0 and b"denied" not in told.stderr, told


def test_the_end_of_a_network_is_named():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"]})
        assert box.says("mkfifo go; curl -sS http://allowed.test/") == "allowed.test / 0"
        client = cloche.start("exec", "box", "--session", "other", "--socket", daemon.path, "--", "echo begun; read word < /workspace/go; exit 3")
        assert client.stdout.readline() == b"begun\n"
        [program] = egress_programs()
        os.kill(program, 9)
        cloche.wait_for(lambda: box.decisions(verdict="denied"), "the end of the network in the log")
        box.run("echo > go")
        errors = client.communicate()[1].decode()
        why = "the network of the box is closed: its egress program ended"
        assert client.returncode == 3 and errors == f"cloche: denied tcp connections: {why}\n", errors
        told = cloche.cli("net", "box", "--log", "--socket", daemon.path).stdout.decode()
        assert f"\tdenied\ttcp\tconnections\t{why}\t\n" in told, told


def test_the_remedy_of_a_denial():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["inside.test", "allowed.test"], "deny": ["allowed.test:81"]})
        # A closed address needs a rule of its own; the rules before are kept.
        [denied] = box.run("curl -sS -m 5 http://inside.test/")["denials"]
        assert denied["remedy"] == "cloche net box --add 10.1.1.1:80", denied
        told = cloche.cli(*denied["remedy"].split()[1:], "--socket", daemon.path)
        assert told.code == 0 and told.stdout == b"allow inside.test\nallow allowed.test\nallow 10.1.1.1:80\ndeny  allowed.test:81\n", told
        assert "denials" not in box.run("curl -sS -m 5 http://inside.test/")
        # No rule that allows prevails over one that denies.
        [denied] = box.run("curl -sS -m 5 http://allowed.test:81/")["denials"]
        assert denied["rule"] == "allowed.test:81" and "remedy" not in denied, denied
        for others in (["--allow", "b.test"], ["--deny", "b.test"], ["--none"], ["--log"]):
            for option in ("--add", "--add-deny"):
                told = cloche.cli("net", "box", option, "a.test", *others, "--socket", daemon.path)
                assert told.code == 2 and (b"--add" in told.stderr or others == ["--log"]), told
        # A rule that denies is added likewise, and prevails.
        told = cloche.cli("net", "box", "--add-deny", "inside.test", "--add", "b.test", "--socket", daemon.path)
        assert told.stdout == b"allow inside.test\nallow allowed.test\nallow 10.1.1.1:80\nallow b.test\ndeny  allowed.test:81\ndeny  inside.test\n", told
        [denied] = box.run("curl -sS -m 5 http://inside.test/")["denials"]
        assert denied["rule"] == "inside.test", denied


def test_rules_that_are_added_at_once():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"], "deny": ["b.test:81"]})
        names = [f"h{i}.test" for i in range(20)]
        adding = [cloche.start("net", "box", "--add", name, "--add", "allowed.test", "--socket", daemon.path) for name in names]
        printed = [(adder.communicate(), adder.returncode) for adder in adding]
        rules = frames.call("sandbox.get", sandbox="box")["network"]
        assert rules == {"allow": ["allowed.test", *rules["allow"][1:]], "deny": ["b.test:81"]} and sorted(rules["allow"][1:]) == sorted(names), (rules, printed)
        numbers = [frames.ask("sandbox.update", sandbox="box", addNetwork={"allow": [f"r{i}.test"], "deny": [f"d{i}.test"]}) for i in range(20)]
        for number in numbers:
            frames.wait(number)
        rules = frames.call("sandbox.get", sandbox="box")["network"]
        assert len(rules["allow"]) == 41 and len(rules["deny"]) == 21, rules
        assert box.says("curl -sS http://allowed.test/a") == "allowed.test /a 0"
        for wrong, says in (({"addNetwork": {"allow": ["x.test"]}, "network": {}}, "exclude each other"), ({"addNetwork": {"dns": False}}, "no 'dns'"),
                            ({"addNetwork": {"allow": ["10.0.0.1/8"]}}, "addNetwork.allow[0]"), ({"addNetwork": {"permit": []}}, "permit"), ({"addNetwork": {"allow": "x"}}, "an array"),
                            ({"addNetwork": {"allow": [f"x{i}.test" for i in range(970)]}}, "at most 1000 rules"), ({"addNetwork": []}, "addNetwork")):
            error = frames.refused("sandbox.update", sandbox="box", **wrong)
            assert error.name == "invalid_argument" and says in str(error), (wrong, error)
        assert frames.call("sandbox.get", sandbox="box")["network"] == rules
        frames.call("sandbox.create", sandbox="none")
        assert frames.call("sandbox.update", sandbox="none", addNetwork={"allow": ["allowed.test"]})["network"]["allow"] == ["allowed.test"]


def test_the_remedy_of_each_kind_permits_the_act():
    start()
    acts = {  # by the kind of the denial and its rules: the first as the guest is refused
        "dns": ("get('http://other.test/')", ["other.test"]),
        "tcp name on a port": ("get('http://allowed.test:8080/')", ["allowed.test:8080"]),
        "tcp address": ("talk('93.184.216.35', 80)", ["93.184.216.35:80"]),
        "tcp own address": (f"talk('{egress.HOST}', 80)", [f"{egress.HOST}:80"]),
        "tcp closed address of a name": ("get('http://inside.test/')", ["10.1.1.1:80"]),
        "tls": ("tls('allowed.test', 443, 'other.test')", ["other.test:443"]),
        "http name": ("ask('allowed.test', 80, b'GET / HTTP/1.1\\r\\nHost: other.test\\r\\nConnection: close\\r\\n\\r\\n')", ["other.test:80"]),
        "http address": ("ask('allowed.test', 80, b'GET / HTTP/1.1\\r\\nHost: 93.184.216.35\\r\\nConnection: close\\r\\n\\r\\n')", ["93.184.216.35:80"]),
        "http tunnel": ("ask('allowed.test', 80, b'CONNECT other.test:4444 HTTP/1.1\\r\\nHost: other.test:4444\\r\\n\\r\\n', timeout=1)", ["other.test:4444"]),
    }
    process, own = private()
    with Daemon(tcp=True) as daemon, daemon.frames() as frames, Frames(daemon.connect_tcp(), token=daemon.token) as stranger, own:
        for i, (kind, (act, rules)) in enumerate(acts.items()):
            command = "python3 - <<'END'\n" + egress.PRELUDE + f"\n{act}\nEND"
            # The command line does not reach the sandboxes of a token, nor those of a private daemon.
            for client in (frames, *(stranger, own)[i:i + 1]):
                box = Sandbox(client, f"box{i}", {"allow": ["allowed.test:80", "allowed.test:443", "inside.test:80"]})
                rows = box.run(command)["denials"]
                assert all(row["allow"] == rules for row in rows), (kind, rows)
                [remedy] = {row["remedy"] for row in rows}
                if client is frames:
                    assert remedy == f"cloche net box{i} " + " ".join(f"--add {rule}" for rule in rules), (kind, remedy)
                    told = cloche.cli(*remedy.split()[1:], "--socket", daemon.path)
                    assert told.code == 0, (kind, told)
                else:
                    method, params = remedy.split(" ", 1)
                    assert method == "sandbox.update" and json.loads(params)["sandbox"] == f"box{i}", (kind, remedy)
                    client.call(method, **json.loads(params))
                assert "denials" not in box.run(command), kind
                client.call("sandbox.delete", sandbox=f"box{i}")
    assert process.wait(30) == 0


def test_no_remedy_is_told_where_no_rule_helps():
    start()
    acts = (({"deny": ["other.test"]}, "get('http://other.test/')", "a rule denies it", "other.test"),
            ({"allow": ["a.test"], "deny": ["*"]}, "get('http://other.test/')", "a rule denies it", "*"),
            ({"deny": ["93.184.216.0/24"]}, "talk('93.184.216.35', 80)", "a rule denies it", "93.184.216.0/24"),
            ({"allow": ["other.test"], "dns": False}, "get('http://other.test/')", "names are not answered", None),
            ({"allow": ["none.test"]}, "get('http://none.test/')", "the name servers know no such name (/etc/hosts is not read)", None),
            ({"allow": ["allowed.test"]}, "ask('allowed.test', 80, b'GET / HTTP/1.1\\r\\nHost : allowed.test\\r\\n\\r\\n')", None, None),
            ({"allow": ["allowed.test"]}, "ask('allowed.test', 80, b'GET / HTTP/1.1\\r\\nHost: allowed.test:81\\r\\n\\r\\n')", "a request names another port than it goes to", None))
    with Daemon() as daemon, daemon.frames() as frames:
        for i, (policy, act, why, rule) in enumerate(acts):
            box = Sandbox(frames, f"box{i}", policy)
            answer = box.run("python3 - <<'END'\n" + egress.PRELUDE + f"\n{act}\nEND\necho 'Could not resolve host' >&2; exit 1")
            assert [row for row in answer["denials"] if "remedy" in row or (why and row["why"] != why) or row.get("rule") != rule] == [], (policy, act, answer)
            [warning] = answer["warnings"]
            assert "--add" not in warning and f"cloche net box{i} shows its rules" in warning and (not rule or f"deny {rule}" in warning), warning


def test_contexts_have_the_network_of_their_sandbox():
    """Each has an egress program of its own, under the policy of all."""
    start()

    def fetches(context, host):
        cell = frames.call("context.run", sandbox="box", context=context, code=FETCH % host)
        return cell["stdout"].strip(), [row["host"] for row in cell.get("denials", [])]

    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"]})
        for context in ("first", "second"):
            frames.call("context.create", sandbox="box", context=context, language="python")
            assert fetches(context, "allowed.test") == ("allowed.test /c 0", [])
            assert fetches(context, "other.test") == ("URLError", ["other.test"])
        frames.call("context.create", sandbox="box", context="js", language="javascript")
        cell = frames.call("context.run", sandbox="box", context="js", code="await (await fetch('http://allowed.test/j')).text()")
        assert cell["status"] == "ok" and "allowed.test /j 0" in cell["displays"][0]["data"]["text/plain"], cell
        assert {row["host"] for row in box.decisions(verdict="denied")} == {"other.test"}

        frames.call("sandbox.update", sandbox="box", network={"allow": ["other.test"]})
        for context in ("first", "second"):
            assert fetches(context, "allowed.test") == ("URLError", ["allowed.test"])
            assert fetches(context, "other.test") == ("other.test /c 0", [])
        frames.call("sandbox.update", sandbox="box", network={})
        assert fetches("first", "other.test") == ("URLError", ["other.test"])

        # One that was made before there was a policy; forks; and the ways around.
        late = Sandbox(frames, "late")
        frames.call("context.create", sandbox="late", context="c", language="python", forkable=True)
        run = lambda code, context="c": frames.call("context.run", sandbox="late", context=context, code=code)["stdout"].strip()
        assert run(FETCH % "allowed.test") == "URLError"
        frames.call("sandbox.update", sandbox="late", network={"allow": ["allowed.test"]})
        assert run(FETCH % "allowed.test") == "allowed.test /c 0"
        child = frames.call("context.fork", sandbox="late", context="c")["contexts"][0]["context"]
        assert run(FETCH % "allowed.test", child) == "allowed.test /c 0" and run(FETCH % "other.test", child) == "URLError"
        for context in ("c", child):
            for at in (("93.184.216.35", 80), ("169.254.169.254", 80), ("10.1.1.1", 80), (egress.HOST, 80)):
                assert run(f"import socket\ntry: s = socket.create_connection({at!r}, 5); s.send(b'GET / HTTP/1.0\\r\\n\\r\\n'); print(s.recv(9))\nexcept OSError: print('no')", context) in ("no", "b''"), (context, at)
        count = len(egress_programs())
        assert count >= 3, count
        frames.call("context.delete", sandbox="late", context=child)
        cloche.wait_for(lambda: len(egress_programs()) == count - 1, "the end of the fork's egress program")


def test_no_other_box_gets_the_network_of_a_context():
    """A policy that changes while a context starts, whose box has no number yet; and checkpoints, which run no code."""
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        first = Sandbox(frames, "first")  # has the keeper's box 0
        box = Sandbox(frames, "box")
        frames.call("context.create", sandbox="box", context="c", language="python")
        asked = [frames.ask("context.create", sandbox="box", context="starting", language="python", forkable=True),
                 frames.ask("sandbox.update", sandbox="box", network={"allow": ["allowed.test"]})]
        for number in asked:
            frames.wait(number)
        run = lambda context: frames.call("context.run", sandbox="box", context=context, code=FETCH % "allowed.test")["stdout"].strip()
        got = first.run("curl -sS -m 5 http://allowed.test/")
        assert got["exitCode"] == 6, ("another sandbox has this network", got)
        assert box.says("curl -sS http://allowed.test/a") == "allowed.test /a 0"
        assert [run("c"), run("starting")] == ["allowed.test /c 0"] * 2  # the twin
        assert len(egress_programs()) == 3

        frames.call("context.checkpoint", sandbox="box", context="starting")
        frames.call("sandbox.update", sandbox="box", network={"allow": ["allowed.test", "other.test"]})
        assert len(egress_programs()) == 3
        frames.call("context.rollback", sandbox="box", context="starting")
        assert run("starting") == "allowed.test /c 0"


def test_the_guest_changes_nothing():
    """No right in its network, no port of the egress program's, no other way out."""
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box", {"allow": ["allowed.test"]})
        assert box.says("curl -sS http://allowed.test/") == "allowed.test / 0"
        for command in ("ip route add 10.0.0.0/8 dev lo", "ip address add 10.9.9.9/32 dev lo", "ip link add d0 type dummy", "ip link set lo down", "nft flush ruleset",
                        "unshare -n true", "unshare -Urn true", "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start"):
            assert box.run(command)["exitCode"] != 0, command
        tried = box.python("""
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
for kind in ((16, 3, 12), (17, 3, 768), (2, 3, 255), (2, 3, 1), (38, 5, 0), (40, 1, 0)):
    try: socket.socket(*kind); print('made', kind)
    except OSError as e: pass
for port in (1, 53):
    for host in ('127.0.0.1', '0.0.0.0', '10.255.0.2'):
        try: socket.socket().bind((host, port)); print('bound', host, port)
        except OSError: pass
s = socket.socket()
for option in ((1, 36, 1), (1, 25, b'lo'), (0, 19, 1)):
    try:
        s.setsockopt(*option)
        if option[1] != 25: print('set', option)
    except OSError: pass
print('done')""")
        assert tried == "done", tried
        assert box.says("curl -sS http://allowed.test/") == "allowed.test / 0"


def test_the_host_is_out_of_reach():
    """Case 72: the daemon's own port, the host's loopback, abstract and other sockets, and a neighbour's ports (79)."""
    start()
    tcp, abstract = socket.socket(), socket.socket(socket.AF_UNIX)
    tcp.bind(("0.0.0.0", 4321)), tcp.listen()
    abstract.bind("\0cloche-test-sandbox"), abstract.listen()
    with Daemon() as daemon, daemon.frames() as frames:
        box, beside = Sandbox(frames, "box", {"allow": ["*"]}), Sandbox(frames, "beside", {"allow": ["*"]})
        frames.call("process.start", sandbox="beside", command="python3 -m http.server 4444")
        beside.run("for i in $(seq 100); do curl -s http://127.0.0.1:4444/ >&2 && break; sleep .1; done")
        said = box.python(f"""
for at in (('127.0.0.1', 4321), ('127.0.0.1', 4444), ('10.255.0.2', 4444), ('{egress.HOST}', 4321), ('{egress.HOST}', 4444), ('10.255.0.3', 4444), ('0.0.0.0', 4321)):
    print(talk(*at, first=True))
s = socket.socket(socket.AF_UNIX)
try: s.connect('\\0cloche-test-sandbox'); print('connected')
except OSError as e: print(said(e))""").splitlines()
        assert set(said) <= {"ConnectionRefusedError", "ConnectionResetError", "b''"}, said
        assert box.run("ls /run/docker.sock /run/dbus /var/run/cloche* /tmp/*.sock")["stdout"] == ""


def test_a_policy_changes():
    world = start()
    with Daemon() as daemon, daemon.frames() as frames:
        box = Sandbox(frames, "box")
        assert box.run("curl -sS -m 5 http://allowed.test/")["exitCode"] != 0
        frames.call("sandbox.update", sandbox="box", network={"allow": ["allowed.test"]})
        assert box.says("curl -sS http://allowed.test/") == "allowed.test / 0", "a sandbox without a network gets one"
        held = frames.call("process.start", sandbox="box", command="exec 7<>/dev/tcp/allowed.test/25; cat <&7")["process"]
        frames.call("process.wait", sandbox="box", process=held["process"] if isinstance(held, dict) else held, text="220")
        frames.call("sandbox.update", sandbox="box", network={"allow": ["other.test"]})
        assert box.says("curl -sS http://other.test/") == "other.test / 0"
        assert box.run("curl -sS -m 5 http://allowed.test/")["exitCode"] != 0
        cloche.wait_for(lambda: box.decisions(why="it is open, and another policy does not allow it"), "what was open to be cut")
        frames.call("sandbox.update", sandbox="box", network={})
        assert box.run("curl -sS -m 5 http://other.test/")["exitCode"] != 0
        for wrong, word in (({"allow": ["10.0.0.1/8"]}, "network.allow[0]"), ({"permit": []}, "permit"), ({"allow": "x"}, "array")):
            try:
                frames.call("sandbox.update", sandbox="box", network=wrong)
                raise AssertionError(wrong)
            except Failed as e:
                assert word in str(e), e
        world.heard()


def test_egress_programs_go_with_their_boxes():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        boxes = [Sandbox(frames, f"b{i}", {"allow": ["allowed.test", f"{i}.test"]}) for i in range(3)]  # none is made ahead of this kind
        for box in boxes:
            assert box.says("curl -sS http://allowed.test/") == "allowed.test / 0"
        running = egress_programs()
        assert len(running) == 3
        for pid in running:
            status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
            assert int(status["Uid"].split()[0]) >= 0x70000000 and int(status["CapPrm"], 16) == 0 and status["Seccomp"].strip() == "2", status
            groups = {name: path for _, names, path in (line.rstrip("\n").split(":", 2) for line in open(f"/proc/{pid}/cgroup")) for name in names.split(",")}
            assert all("/cloche" in groups[name] for name in ("memory", "cpu") if name in groups), groups
            assert sorted(os.listdir(f"/proc/{pid}/fd"), key=int)[:7] == [str(n) for n in range(7)]
        frames.call("sandbox.delete", sandbox="b0")
        frames.call("sandbox.stop", sandbox="b1")
        assert len(egress_programs()) == 1
        assert boxes[2].says("curl -sS http://allowed.test/") == "allowed.test / 0"
        assert boxes[1].says("curl -sS http://allowed.test/") == "allowed.test / 0", "one that was stopped has its network again"
    assert egress_programs() == []


def test_memory_used_up():
    """The egress program's memory is the box's, but a program that uses it up is killed first."""
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="box", network={"allow": ["allowed.test"]}, limits={"memoryBytes": 100 << 20})
        box = Sandbox(frames, "box")
        for _ in range(3):
            box.run("python3 -c 'x = bytearray(10 ** 9)'; for i in 1 2 3 4 5 6; do tail -c 30000000 </dev/zero | cat >/dev/null & done; wait")
            assert box.says("curl -sS http://allowed.test/") == "allowed.test / 0"


def test_for_an_ordinary_user():
    """Without root the same: his keeper has rights in his boxes' namespaces."""
    cloche.need_ordinary_user()
    start()
    rows = json.loads(cloche.cli("selftest", "--json", under=cloche.ORDINARY_USER).stdout)
    missing = ",".join(row["name"] for row in (rows["guards"] if isinstance(rows, dict) else rows) if row["state"] not in ("enforced", "off"))
    place = tempfile.mkdtemp(prefix="cloched-")
    os.chmod(place, 0o777)
    command = [*cloche.ORDINARY_USER, os.path.join(egress.BUILD, "cloched"), "--socket", place + "/socket", "--state-dir", place + "/state", "--optional", missing]
    daemon = subprocess.Popen(command if missing else command[:-2], stdin=subprocess.DEVNULL)
    asking = f"""
import socket, sys, time
sys.path[:0] = {[os.path.join(cloche.SOURCE, "tests", folder) for folder in ("lib", "daemon")]!r}
from rpc import Frames
while True:
    try:
        s = socket.socket(socket.AF_UNIX); s.connect({place + "/socket"!r}); break
    except OSError: time.sleep(.05)
frames = Frames(s)
frames.call("sandbox.create", sandbox="a", network={{"allow": ["allowed.test"]}})
for url in ("http://allowed.test/", "http://93.184.216.34/", "http://other.test/"):
    print(frames.call("exec", sandbox="a", command="curl -s -m 5 " + url)["stdout"].strip())
frames.call("context.create", sandbox="a", context="c", language="python", forkable=True)
fork = frames.call("context.fork", sandbox="a", context="c")["contexts"][0]["context"]
for context in ("c", fork):
    cell = frames.call("context.run", sandbox="a", context=context, code={FETCH % "allowed.test"!r} + chr(10) + {FETCH % "other.test"!r})
    print(cell["stdout"].split(), [row["host"] for row in cell.get("denials", [])])"""
    try:
        said = subprocess.run([*cloche.ORDINARY_USER, "/usr/bin/python3", "-c", asking], capture_output=True, text=True, timeout=60)
        of_contexts = "['allowed.test', '/c', '0', 'URLError'] ['other.test']"
        assert said.stdout.splitlines() == ["allowed.test / 0", "", "", of_contexts, of_contexts], said
    finally:
        daemon.terminate()
        daemon.wait(20)
        shutil.rmtree(place)
