"""The container API has no option for a network: the daemon has a policy for sandboxes without one,
and the error of a command that could not connect names the remedy."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Http, listener, of_events, served

from cloche import descendants, skip, wait_for
from egress import NAMES, World, use_name_servers

NEW = {"X-Sandbox-Id": "x"}
TIMEOUT = 120
HOSTS = {"allowed.test": ["93.184.216.34"], "other.test": ["93.184.216.35"]}


def run(http, command, **more):
    status, result = http.post(BASE + "/api/execute", NEW, command=command, sessionId="__DISABLE_SESSION__", **more)
    assert status == 200, result
    return result


def test_a_policy_for_sandboxes_without_one():
    world = World(HOSTS)
    use_name_servers(NAMES)
    with served("--network", "allowed.test,!allowed.test:25") as (daemon, http):
        for _ in range(3):  # spares have it too
            assert run(http, "curl -sS http://allowed.test/x")["stdout"] == "allowed.test /x 0\n"
        refused = run(http, "curl -sS -m 5 http://other.test/")
        assert refused["exitCode"] != 0 and "does not allow other.test; whoever runs it can allow more: cloche net wire --add other.test" in refused["stderr"], refused
        assert "220" not in run(http, "exec 7<>/dev/tcp/allowed.test/25; head -1 <&7")["stdout"]
        with daemon.frames() as frames:
            assert frames.call("sandbox.get", sandbox="wire")["network"] == {"allow": ["allowed.test"], "deny": ["allowed.test:25"]}
            frames.call("sandbox.create", sandbox="shut", network={})
            assert frames.call("exec", sandbox="shut", command="curl -sS -m 5 http://allowed.test/", timeoutMs=20000)["exitCode"] != 0, "one of its own stands"
            frames.call("sandbox.create", sandbox="native")
            assert frames.call("exec", sandbox="native", command="curl -sS http://allowed.test/n")["stdout"] == "allowed.test /n 0\n"
    world.heard()


def test_without_one():
    with served() as (daemon, http):
        for command in ("curl -sS -m 5 http://example.org/", "python3 -c 'import urllib.request as u; u.urlopen(\"http://example.org\")'",
                        "node -e \"require('http').get('http://example.org').on('error', e => { console.error(e); process.exit(1) })\""):
            result = run(http, command)
            assert result["exitCode"] != 0, result
            last = result["stderr"].splitlines()[-1]
            assert last.startswith("cloche: the sandbox wire has no network; whoever runs it can allow more: cloche net wire --add HOST"), result
        assert http.begin("POST", BASE + "/api/execute/stream", {"command": "curl -sS -m 5 http://example.org/"}, NEW) == 200
        events = [event for event in of_events(http) if event["type"] == "stderr"]
        assert events[-1]["data"].startswith("cloche: the sandbox wire has no network"), events
        assert "cloche:" not in run(http, "echo Could not resolve host >&2")["stderr"], "nothing failed"
        assert "cloche:" not in run(http, "echo no >&2; false")["stderr"], "nothing of a network"
        # A background process: in its past output, and while it goes on.
        for command, ends in (("curl -sS -m 5 http://example.org/", True), ("curl -sS -m 5 http://example.org/; printf more >&2; exec sleep 1000", False)):
            status, begun = http.post(BASE + "/api/process/start", NEW, command=command)
            assert status == 200, begun
            with Http(daemon.connect()) as follower:
                assert follower.begin("GET", BASE + f"/api/process/{begun['processId']}/stream", headers=NEW) == 200
                events, told = of_events(follower), ""
                while not told.endswith("cloched --network\n"):
                    event = next(events)
                    told += event.get("data", "") if event["type"] == "stderr" else ""
                assert told.count("cloche: the sandbox wire has no network; whoever runs it can allow more: cloche net wire --add HOST") == 1, told
                assert not ends or not any("cloche:" in event.get("data", "") for event in events), "once"
            logs = http.get(BASE + f"/api/process/{begun['processId']}/logs", **NEW)[1]
            assert logs["stderr"].splitlines()[-1].startswith("cloche: the sandbox wire has no network"), logs
        for command in ("echo Could not resolve host >&2", "echo no >&2; false"):
            _, begun = http.post(BASE + "/api/process/start", NEW, command=command)
            assert http.begin("GET", BASE + f"/api/process/{begun['processId']}/stream", headers=NEW) == 200
            told = "".join(event.get("data", "") for event in of_events(http))
            assert "Could" in command or "cloche:" not in told, "while it runs nobody knows that it will end well"
            assert "cloche:" not in http.get(BASE + f"/api/process/{begun['processId']}/logs", **NEW)[1]["stderr"]
        status, error = http.post(BASE + "/api/git/checkout", NEW, repoUrl="https://example.org/x.git")
        assert status == 500 and "cloche net wire --add" in error["message"], error
        answer = http.post(BASE + "/api/git/checkout", {}, repoUrl="https://example.org/x.git")[1]
        assert not answer["success"] and answer["stderr"].splitlines()[-1].startswith("cloche: the sandbox wire has no network"), answer
        assert "cloche net" in run(http, "cat /etc/resolv.conf")["stdout"]


def test_a_caller_without_the_command_line():
    """The sandbox of a token is changed with the token; where no socket takes one, by the daemon's options."""
    def there(http, command):
        status, result = http.post("/api/execute", command=command)
        assert status == 200, result
        return result

    World(HOSTS)
    use_name_servers(NAMES)
    with listener("mine", "--network", "allowed.test") as (daemon, http):
        told = there(http, "curl -sS -m 5 http://other.test/")["stderr"].splitlines()[-1]
        before, after = told.split("can allow more: sandbox.update ")
        params, number = json.JSONDecoder().raw_decode(after)
        assert before.startswith("cloche: ") and after[number:] == ", or for new sandboxes cloched --network", told
        with Http(daemon.connect_tcp(), daemon.token) as owner:
            status, changed = owner.request("PATCH", "/v1/sandboxes/" + params.pop("sandbox"), params)
            assert status == 200 and changed["network"]["allow"] == ["allowed.test", "other.test"], changed
        assert there(http, "curl -sS http://other.test/x")["stdout"] == "other.test /x 0\n"
    with listener("mine", "--network", "allowed.test", tcp=False) as (daemon, http):
        told = there(http, "curl -sS -m 5 http://other.test/")["stderr"].splitlines()[-1]
        assert told.endswith("does not allow other.test; whoever runs it can allow more: for new sandboxes cloched --network"), told
    with listener("mine", "--network", "allowed.test,other.test", tcp=False) as (daemon, http):
        assert there(http, "curl -sS http://other.test/x")["stdout"] == "other.test /x 0\n"


def test_cells_name_who_can_allow_it_too():
    hint = "cloche: the sandbox wire has no network; whoever runs it can allow more: cloche net wire --add HOST"
    with served() as (_, http):
        for language, code, hints in (("python", "import urllib.request as u; u.urlopen('http://example.org')", 1), ("python", "!curl -sS -m 5 http://example.org/", 1),
                                      ("javascript", "await fetch('http://example.org')", 1),
                                      ("python", "1 / 0", 0), ("python", "print('Could not resolve host')", 0), ("python", "import sys; print('x', file=sys.stderr)", 0)):
            assert http.begin("POST", BASE + "/api/execute/code", {"code": code, "language": language}, NEW) == 200
            events = list(of_events(http))
            told = "".join(event["text"] for event in events if event["type"] == "stderr")
            assert told.count(hint) == hints and told.count("cloche:") == hints, (code, told)
            assert events[-1]["type"] in ("error", "execution_complete"), events


def test_rules_that_are_none():
    for rules in ("", "bad rule", "exa mple.org:x", "a.example:99999"):
        done = subprocess.run([os.path.join(os.environ["CLOCHE_BUILD"], "cloched"), "--socket", "/tmp/never", "--state-dir", "", "--network", rules],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        assert done.returncode != 0 and "network" in done.stdout + done.stderr, (rules, done)


def interpreters(daemon):
    """The JavaScript interpreters in its boxes."""
    found = []
    for pid in descendants(daemon.engine_pid()):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                found += [pid] if os.path.basename(file.read().split(b"\0")[0]) == b"node" else []
        except OSError:
            pass  # it has ended meanwhile
    return found


def test_contexts_are_set_up_ahead():
    with open("/proc/meminfo") as file:
        if int(file.read().split("MemAvailable:")[1].split()[0]) < 2 << 20:
            skip("needs 2 GiB of free memory: with less than one the daemon makes no interpreters ahead")
    with listener("mine", ahead=True) as (daemon, http):
        wait_for(lambda: len(interpreters(daemon)) >= 2, "interpreters for JavaScript and TypeScript, for which nobody asked")
        assert http.post("/api/contexts", NEW, language="typescript")[0] == 200
    with listener("mine") as (daemon, http):
        assert http.post("/api/contexts", NEW, language="python")[0] == 200
        assert interpreters(daemon) == []
        assert http.post("/api/contexts", NEW, language="javascript")[0] == 200, "the twin"
        assert interpreters(daemon) != []
