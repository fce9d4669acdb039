"""The network of a call or script: none without rules; with rules exactly the named hosts, for any
code. The egress program is that of sandboxes, whose own walls are tested in network-sandbox and tests/egress."""
import json
import os
import signal
import socket
import sys
import time

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from rpc import Daemon, Failed

TIMEOUT = 150
NAMES = {"allowed.test": ["93.184.216.34"], "other.test": ["93.184.216.35"], "inside.test": ["10.1.1.1"], "meta.test": ["169.254.169.254"]}
GET = "import urllib.request\ndef get(url): return urllib.request.urlopen(url, timeout=8).read().decode()"
DENIED = "import urllib.request\ndef get(url):\n    try: return urllib.request.urlopen(url, timeout=8).read().decode()\n    except OSError as e: return 'refused'"


def start():
    world = egress.World(NAMES)
    egress.use_name_servers(egress.NAMES)
    return world


def get(url, code=DENIED, under=(), **options):
    return cloche.call("python", code, args=[url], under=under, **options)


def heard_of(world, *names):
    return [row for row in world.heard() if any(name in row for name in names)]


def test_no_network_without_rules():
    world = start()
    for url in ("http://allowed.test/", "http://93.184.216.34/", f"http://{egress.HOST}/"):
        result = get(url)
        cloche.equal(result.value, "refused")
        assert "network" not in result.meta, result
    assert world.heard() == []


def test_a_permitted_name_is_reached():
    start()
    cloche.equal(get("http://allowed.test/x", GET, network="allowed.test").value.strip(), "allowed.test /x 0")
    script = cloche.run("bash", "curl -sS http://allowed.test/y; curl -sSk https://allowed.test/", network="allowed.test:80,allowed.test:443")
    cloche.equal((script.code, script.stdout.split()), (0, [b"allowed.test", b"/y", b"0", b"secure"]), script)
    fetch = "export default async function get(url) { return (await fetch(url)).text() }"
    cloche.equal(cloche.value_of("javascript", fetch, args=["http://allowed.test/n"], network="*.test").strip(), "allowed.test /n 0")


def test_all_else_is_refused_and_told():
    world = start()
    refused = ["http://other.test/", "http://93.184.216.35/", "http://93.184.216.34/", "http://10.1.1.1/", "http://169.254.169.254/", "http://inside.test/", "http://meta.test/",
               f"http://{egress.HOST}:4321/", "http://127.0.0.1:4321/", "http://allowed.test:81/"]
    host = socket.socket()
    host.bind(("0.0.0.0", 4321)), host.listen()
    for url in refused:
        cloche.equal(get(url, network="allowed.test:80,inside.test,meta.test,!other.test").value, "refused", url)
    assert heard_of(world, "10.1.1.1", "169.254.169.254", "93.184.216.35") == []
    result = get("http://other.test/", network="allowed.test")
    rows = result.meta["network"]["denied"]
    assert [row["host"] for row in rows] == ["other.test"] and rows[0]["kind"] == "dns" and rows[0]["count"] >= 1, rows
    told = cloche.run("bash", "curl -sS -m 5 http://other.test/", network="allowed.test", denials=True)
    assert b"cloche: denied dns other.test" in told.stderr and told.code != 0, told
    # After a failed run the message comes unrequested, and bounded; after a good one only on request.
    told = cloche.run("bash", "curl -sS -m 5 http://other.test/", network="allowed.test")
    assert b"cloche: denied dns other.test" in told.stderr and told.code != 0, told
    told = cloche.run("bash", "for i in {1..12}; do curl -sS -m 5 http://n$i.test/; done", network="allowed.test")
    assert told.stderr.count(b"cloche: denied dns ") == 10 and b"cloche: and 2 more were denied (--denials prints them)" in told.stderr, told
    told = cloche.cli("call", "python", "get", "-c", GET, "--args", '["http://other.test/"]', "--network", "allowed.test")
    assert b"cloche: denied dns other.test" in told.stderr and told.code != 0, told
    told = cloche.run("bash", "curl -sS -m 5 http://nowhere.test/", network="nowhere.test")
    assert b"cloche: denied tcp nowhere.test:80: the name servers know no such name (/etc/hosts is not read)" in told.stderr, told
    told = cloche.run("bash", "curl -sS -m 5 http://other.test/; true", network="allowed.test")
    assert b"cloche: denied" not in told.stderr and told.code == 0, told
    # All of the internet excludes the host, and its neighbours.
    for url in (f"http://{egress.HOST}:4321/", "http://127.0.0.1:4321/", "http://10.1.1.1/", "http://169.254.169.254/"):
        cloche.equal(get(url, network="*").value, "refused", url)


def test_the_guest_changes_nothing():
    start()
    attempts = ["ip route add 10.0.0.0/8 dev lo", "ip link set lo down", "nft flush ruleset", "unshare -n true", "unshare -Urn true",
                "echo 0 > /proc/sys/net/ipv4/ip_unprivileged_port_start", "kill -9 -1", "curl -sS -m 5 -H 'Host: other.test' http://allowed.test/",
                "curl -sSk -m 5 --connect-to other.test:443:allowed.test:443 https://other.test/", "echo nameserver 9.9.9.9 > /etc/resolv.conf"]
    script = "\n".join(f"({line}) >/dev/null 2>&1 && echo OPEN: {json.dumps(line)}" for line in attempts if not line.startswith("kill"))
    finished = cloche.run("bash", script + "\ncurl -sS http://allowed.test/", network="allowed.test")
    cloche.equal(finished.stdout, b"allowed.test / 0\n", finished)
    # A call's code has no way to the engine or the egress program by descriptors it holds.
    code = "import os\ndef held(): return sorted(os.readlink(f'/proc/self/fd/{n}').split(':')[0] for n in os.listdir('/proc/self/fd') if int(n) > 3)"
    cloche.equal(cloche.value_of("python", code, network="allowed.test"), cloche.value_of("python", code))


def egress_programs():
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/comm").read() == "cloche-egress\n" and os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:
                found.append(int(pid))
        except OSError:
            pass
    return found


def test_an_egress_program_that_dies_leaves_no_network():
    world = start()
    code = "import sys, urllib.request\n" + DENIED + "\nprint(get('http://allowed.test/a'), flush=True); sys.stdin.readline(); print(get('http://allowed.test/b'))"
    process = cloche.start("run", "python", "-c", code, "--network", "allowed.test", stdin=-1)
    assert process.stdout.readline().startswith(b"allowed.test /a"), process.communicate()
    process.stdout.readline()
    (pid,) = egress_programs()
    status = dict(line.split(":", 1) for line in open(f"/proc/{pid}/status"))
    assert int(status["Uid"].split()[0]) >= 0x70000000 and int(status["CapPrm"], 16) == 0 and status["Seccomp"].strip() == "2", status
    world.heard()
    os.kill(pid, signal.SIGKILL)
    cloche.wait_for(lambda: egress_programs() == [], "the egress program to end")
    out, errors = process.communicate(b"go\n", timeout=cloche.HANG)
    cloche.equal((process.returncode, out), (0, b"refused\n"), errors)
    assert b"cloche: the network of the box is closed" in errors, errors
    assert heard_of(world, "/b") == []


def test_egress_programs_go_with_their_runs():
    start()
    process = cloche.start("run", "bash", "-c", "curl -sS http://allowed.test/; sleep 1000", "--network", "allowed.test")
    process.stdout.readline()
    cloche.equal(len(egress_programs()), 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=cloche.HANG)
    cloche.equal(egress_programs(), [])


def test_rules_are_checked_and_warm_runs_refused():
    start()
    for words, say in ((["call", "python", "-c", "return 1", "--network", "10.0.0.1/8"], "--network: '10.0.0.1/8'"), (["call", "python", "-c", "return 1", "--network", ""], "--network"),
                       (["run", "bash", "-c", "true", "--network", "ftp://x/"], "--network: 'ftp://x/'")):
        finished = cloche.cli(*words)
        assert finished.code == 2 and say.encode() in finished.stderr, finished
    cloche.equal(cloche.cli("prefix", "create", "warm", "python", "-c", "A = 1").code, 0)
    finished = cloche.cli("call", "python", "--prefix", "warm", "-c", "return A", "--network", "allowed.test")
    cloche.cli("prefix", "drop", "warm")
    assert finished.code == 2 and b"leave out the prefix" in finished.stderr, finished


def test_through_the_daemon():
    start()
    with Daemon() as daemon, daemon.frames() as frames:
        asked = dict(language="python", code=GET, args=["http://allowed.test/d"])
        assert frames.call("call", **asked, network={"allow": ["allowed.test"]})["result"].strip() == "allowed.test /d 0"
        refused = frames.call("call", **asked, network={"allow": ["other.test"]})
        assert refused["status"] == "error" and refused["meta"]["network"]["denied"][0]["host"] == "allowed.test", refused
        assert frames.call("call", **asked)["status"] == "error"
        for more, word in (({"warm": True, "network": {"allow": ["x.test"]}}, "warm"), ({"network": {"permit": []}}, "permit"), ({"network": {"allow": ["1.2.3.4/8"]}}, "allow[0]")):
            try:
                frames.call("call", **asked, **more)
                raise AssertionError(more)
            except Failed as e:
                assert word in str(e), e


def test_for_an_ordinary_user():
    cloche.need_ordinary_user()
    start()
    os.chmod(".", 0o755)
    home = {"HOME": "/nonexistent", "XDG_STATE_HOME": "/nonexistent"}
    cloche.equal(get("http://allowed.test/u", GET, network="allowed.test", under=cloche.ORDINARY_USER, env=home).value.strip(), "allowed.test /u 0")
    cloche.equal(get("http://other.test/", network="allowed.test", under=cloche.ORDINARY_USER, env=home).value, "refused")
