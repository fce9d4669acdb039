"""Sandboxes from the command line: commands with their streams and exit codes, processes, files' changes, ports, rules."""
import json
import os
import signal
import subprocess

from boxes import daemon, ok
from cloche import CLI, alive, bad_input, cli, descendants, equal, need_root, start, wait_for

TIMEOUT = 120


def rows(*words):
    return json.loads(ok(*words, "--json"))


def rows_of(command):
    return json.loads(ok("exec", "box", "--json", "--", command))


def test_life_of_a_sandbox():
    with daemon():
        equal(ok("sandbox", "create", "box", "--memory", "256", "--label", "who=test", "-e", "COLOR=green"), b"box\n")
        again = cli("sandbox", "create", "box", "--packages", "pip:requests")
        equal((again.code, again.stdout), (0, b"box\n"))
        assert b"the sandbox 'box' exists and keeps its options" in again.stderr, again
        equal(cli("sandbox", "create", "box").stderr, b"")
        made = ok("sandbox", "create").decode().strip()
        assert made and made != "box", made
        equal(sorted(row["sandbox"] for row in rows("sandbox", "ls")), sorted(["box", made]))
        about = rows("sandbox", "get", "box")
        equal((about["limits"]["memoryBytes"], about["labels"]), (256 << 20, {"who": "test"}))
        assert b"limits.memoryBytes" in ok("sandbox", "get", "box")
        equal(ok("exec", "box", "--", "echo $COLOR"), b"green\n")
        ok("sandbox", "set", "box", "--label", "who=else", "--pids", "64")
        equal(rows("sandbox", "get", "box")["labels"], {"who": "else"})
        ok("exec", "box", "--", "echo kept > kept")
        ok("exec", "box", "--", "X=1")
        ok("sandbox", "pause", "box")
        equal(rows("sandbox", "get", "box")["state"], "paused")
        bad_input("sandbox", "pause", "box", says="paused already")
        equal(ok("sandbox", "resume", "box"), b"box  memory\n")
        equal(ok("exec", "box", "--", "echo $X"), b"1\n")
        ok("sandbox", "pause", "--no-memory", "box")
        equal(rows("sandbox", "get", "box")["pauseKind"], "files")
        assert b"paused (files)" in ok("sandbox", "ls")
        equal([row["sandbox"] for row in rows("sandbox", "ls", "--filter", "state=paused", "--filter", "label=who=else", "--filter", "label=who")], ["box"])
        equal([row["sandbox"] for row in rows("sandbox", "ls", "--filter", "name=bo", "--sort", "name", "--reverse")][-1], "box")
        equal([row["sandbox"] for row in rows("sandbox", "ls", "--limit", "1", "--sort", "used", "--reverse")], ["box"])
        bad_input("sandbox", "ls", "--filter", "size=3", says="is none of state=, label=")
        bad_input("sandbox", "ls", "--filter", "state=here", says="expected running, paused or stopped")
        equal(type(rows("sandbox", "metrics", "box")), list)
        bad_input("sandbox", "pause", "--no-memory", "--no-save", "box", says="would keep nothing")
        equal(ok("sandbox", "resume", "box"), b"box  files\n")
        ok("sandbox", "set", "box", "--lifetime", "1h", "--end-action", "pause", "--idle-action", "pause")
        about = rows("sandbox", "get", "box")
        equal((about["endAction"], about["idleAction"], "endsAt" in about), ("pause", "pause", True))
        ok("sandbox", "set", "box", "--lifetime", "0")
        equal("endsAt" in rows("sandbox", "get", "box"), False)
        bad_input("sandbox", "set", "box", "--end-action", "stop", says="--lifetime")
        bad_input("sandbox", "create", "other", "--end-action", "stop", says="--lifetime")
        bad_input("sandbox", "set", "box", "--end-action", "explode", says="--end-action must be stop, pause or delete")
        ok("sandbox", "stop", "box")
        equal(rows("sandbox", "get", "box")["state"], "stopped")
        equal(ok("exec", "box", "--", "cat kept"), b"kept\n")
        ok("sandbox", "save", "box", made)
        ok("sandbox", "rm", "box", made)
        equal(rows("sandbox", "ls"), [])
        bad_input("sandbox", "get", "box", says="box")


def test_mounts_of_a_sandbox():
    os.mkdir("host")
    for name in ("a.txt", "key.pem"):
        with open("host/" + name, "w") as file:
            file.write(name)
    os.chmod("host", 0o755)
    with daemon("--mount-root", os.path.abspath("host")):
        equal(ok("sandbox", "create", "box", "--mount", "/mnt/m=host", "--mount", "/one=host/a.txt", "--rule", "*.pem=-*", "--rule", "**=create,modify", "--on-denied", "throw"), b"box\n")
        equal(ok("exec", "box", "--", "cat /mnt/m/a.txt /one; echo new > /mnt/m/new; cat /mnt/m/new; cat /mnt/m/key.pem 2>/dev/null || echo denied"), b"a.txta.txtnew\ndenied\n")
        equal(rows("sandbox", "get", "box")["mounts"], [{"path": "/mnt/m", "source": os.path.abspath("host"), "state": "mounted"},
                                                        {"path": "/one", "source": os.path.abspath("host/a.txt"), "state": "mounted"}])
        assert b"mounts" in ok("sandbox", "get", "box")
        equal(sorted(os.listdir("host")), ["a.txt", "key.pem"])
        ok("sandbox", "stop", "box", "--sync")
        equal(sorted(os.listdir("host")), ["a.txt", "key.pem", "new"])
        ok("exec", "box", "--", "echo guest > /mnt/m/a.txt")
        with open("host/a.txt", "w") as file:
            file.write("host")
        bad_input("sandbox", "stop", "box", "--conflict", "overwrite", says="needs --sync")
        bad_input("sandbox", "stop", "box", "--sync", "--conflict", "none", says="--conflict must be refuse, keepBoth or overwrite")
        bad_input("sandbox", "stop", "box", "--sync", says="the host has changed it")
        ok("sandbox", "stop", "box", "--sync", "--conflict", "overwrite")
        with open("host/a.txt") as file:
            equal(file.read(), "guest\n")
        bad_input("sandbox", "create", "--mount", "/m=/etc", says="--mount: /etc is not beneath a directory that may be mounted")
        bad_input("sandbox", "create", "--mount", "/m", says="PLACE=HOSTPATH")
        bad_input("sandbox", "create", "--rule", "*=read", says="--mount PLACE=HOSTPATH")
        bad_input("sandbox", "create", "--mount", "/m=host", "--sync", "batch", says="--sync")
    with daemon():
        finished = cli("sandbox", "create", "--mount", "/m=host")
        assert finished.code and b"--mount-root" in finished.stderr, finished


def test_logs_and_new_names():
    with daemon():
        ok("sandbox", "create", "box")
        ok("sandbox", "rename", "box", "other")
        bad_input("sandbox", "rename", "box", "third", says=r"\(cloche sandbox ls lists them")
        bad_input("sandbox", "rename", "other", "other", says="already")
        equal([line.split(maxsplit=2)[1:] for line in ok("sandbox", "logs", "other").decode().splitlines()], [["created"], ["started"], ["renamed", 'from "box"']])
        equal(rows("sandbox", "logs", "other")[0]["event"], "created")


def test_names_that_do_not_exist():
    with daemon():
        for words in (("sandbox", "rm"), ("sandbox", "stop"), ("sandbox", "save"), ("sandbox", "set", "--idle", "5m"), ("events",), ("ps",), ("ports",), ("context", "list")):
            bad_input(*words, "absent", says=r'there is no sandbox "absent" \(cloche sandbox ls lists them')
        for words in (("logs", "absent", "p"), ("kill", "absent", "p"), ("watch", "absent", "/workspace"), ("context", "get", "absent", "c"), ("cp", "absent:f", "host-file")):
            bad_input(*words, says=r'there is no sandbox "absent" \(cloche sandbox ls lists them')
        equal(rows("sandbox", "ls"), [], "a mistyped name makes none")
        ok("sandbox", "create", "there")
        bad_input("kill", "there", "none", says=r'there is no process "none" in this sandbox \(cloche ps SANDBOX lists them')
        bad_input("context", "get", "there", "none", says=r'there is no context "none" in this sandbox \(cloche context list SANDBOX lists them')
        bad_input("sandbox", "rm", "absent", "there", says='there is no sandbox "absent"')
        equal(rows("sandbox", "ls"), [])
        ok("sandbox", "rm", "--force", "absent")
        ok("sandbox", "rm", "-f", "absent", "there")
        bad_input("sandbox", "rm", "-f", "no_such_name", says="name")


def test_names_that_are_invalid():
    with daemon():
        bad_input("sandbox", "create", "no_such_name", says="name|no_such_name")
        for option in ("--allow", "--deny"):
            bad_input("sandbox", "create", "box", option, "a b", says=f"{option}: 'a b': expected a host's name")
        bad_input("exec", "box", "-C", "", "--", "true", says="-C must have 1 to")
        bad_input("exec", "box", "-e", "A B=1", "--", "true", says='--env: "A B" is not a valid name')
        for command in (("context", "create", "box"), ("context", "run", "box", "-c", "1")):
            bad_input(*command, "--language", "perl", says='no contexts of the language "perl", expected one of: bash, javascript,')


def test_streams_and_exit_codes():
    with daemon():
        finished = cli("exec", "box", "--", "echo out; echo err >&2; exit 3")
        equal((finished.code, finished.stdout, finished.stderr), (3, b"out\n", b"err\n"))
        equal(ok("exec", "box", "--", "printf", "%s|", "a b", "c'd", "$HOME"), b"a b|c'd|$HOME|")
        equal(cli("exec", "box", "--", "bash", "-c", "kill -9 $$").code, 137)
        for more in [(), ("-i",)]:
            late = cli("exec", "box", *more, "--timeout", "0.5", "--", "sleep", "60")
            equal((late.code, late.stderr), (124, b"cloche: timeout: the command was stopped; the limit is 500 ms\n"))
        equal(ok("exec", "box", "-C", "/tmp", "-e", "A=1", "--", "pwd; echo $A"), b"/tmp\n1\n")
        # Words behind "--" are not ours.
        equal(ok("exec", "box", "--", "echo", "--json", "-t"), b"--json -t\n")


def test_json():
    with daemon():
        answer = json.loads(cli("exec", "box", "--json", "--", "echo out; exit 5").stdout)
        equal((answer["exitCode"], answer["stdout"], answer["session"]), (5, "out\n", "default"))
        equal(cli("exec", "box", "--json", "--", "exit 5").code, 5)
        equal(rows_of("seq 30000")["stdout"], "".join(f"{n}\n" for n in range(1, 30001)))
        equal(rows_of(r"printf '\377'")["stdout"], {"$": "bytes", "b64": "/w=="})


def test_a_session_stays():
    with daemon():
        ok("exec", "box", "--", "cd /tmp; X=5; f() { echo f$X; }")
        equal(ok("exec", "box", "--", "pwd; f"), b"/tmp\nf5\n")
        equal(ok("exec", "box", "-s", "other", "--", "pwd; type -t f || true; x=2"), b"/workspace\n")
        for words in (["--session", "other"], ["--session=other"]):
            equal(ok("exec", "box", *words, "--", "echo $x"), b"2\n")


def test_output_of_any_size_and_bytes():
    with daemon():
        finished = cli("exec", "box", "--", "head -c 20000000 /dev/zero; head -c 3000000 /dev/zero >&2")
        equal((finished.code, len(finished.stdout), len(finished.stderr)), (0, 20000000, 3000000))
        equal(ok("exec", "box", "--", r"printf '\377\000\200'"), b"\xff\0\x80")


def test_standard_input():
    with daemon():
        equal(ok("exec", "-i", "box", "--", "cat", stdin=b"abc\0\xff"), b"abc\0\xff")
        equal(ok("exec", "-i", "box", "--", "wc -c", stdin=bytes(5000000)), b"5000000\n")
        equal(cli("exec", "-i", "box", "--", "exit 4", stdin=b"").code, 4)
        equal(ok("exec", "-i", "box", "--", "head -c 3", stdin=bytes(5000000)), bytes(3))
        equal(rows("ps", "box"), [])  # none of these is left
        # The streams can be opened by name, as in a run.
        by_name = "cat /dev/stdin > /dev/stdout; echo bad > /dev/stderr"
        for command in (by_name, f"bash -c '{by_name}'"):
            finished = cli("exec", "-i", "box", "--", command, stdin=b"text")
            equal((finished.code, finished.stdout, finished.stderr), (0, b"text", b"bad\n"))


def test_output_comes_as_it_is_printed():
    with daemon():
        process = start("exec", "-i", "box", "--", "while read line; do echo got $line; done", stdin=subprocess.PIPE)
        for word in (b"one", b"two"):
            process.stdin.write(word + b"\n")
            process.stdin.flush()
            equal(process.stdout.readline(), b"got " + word + b"\n")
        process.stdin.close()
        equal(process.wait(30), 0)
        process.stdout.close()
        process.stderr.close()


def interrupted(number, *words):
    """SIGINT and the like while a command prints: the command is dead when we have ended."""
    process = start("exec", *words, "box", "--", "echo $BASHPID; exec sleep 1000")
    pid = process.stdout.readline()
    assert pid.strip(), process.stderr.read()
    process.send_signal(number)
    equal(process.wait(30), -number if number == signal.SIGINT else 143)
    process.stdout.close()
    process.stderr.close()
    equal(ok("exec", "box", "--", "pgrep -x sleep || true"), b"")


def test_signals_kill_the_command():
    with daemon():
        ok("exec", "box", "--", "true")
        interrupted(signal.SIGINT)
        interrupted(signal.SIGTERM)
        interrupted(signal.SIGINT, "-i")


def test_the_end_of_the_command_line_ends_its_command():
    with daemon():
        process = start("exec", "box", "--", "echo here; exec sleep 1000")
        process.stdout.readline()
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        wait_for(lambda: ok("exec", "box", "-s", "look", "--", "pgrep -x sleep || true") == b"", "the command to end")


def test_a_reader_who_goes():
    with daemon():
        finished = subprocess.run(["bash", "-c", f"'{CLI}' exec box -- yes | head -2; exit ${{PIPESTATUS[0]}}"], capture_output=True, timeout=60)
        equal((finished.returncode, finished.stdout), (141, b"y\ny\n"))
        wait_for(lambda: ok("exec", "box", "-s", "look", "--", "pgrep -x yes || true") == b"", "the command to end")


def test_a_reader_of_logs_who_goes_ends_them_though_nothing_more_is_printed():
    with daemon():
        ok("start", "box", "--process", "silent", "--", "echo line; exec sleep 1000")
        process = start("logs", "-f", "box", "silent")
        equal(process.stdout.readline(), b"line\n")
        process.stdout.close()
        equal((process.stderr.read(), process.wait(30)), (b"", 141))
        ok("exec", "box", "--", "until pgrep -x sleep; do sleep 0.02; done")  # the process itself goes on
        ok("kill", "box", "silent")


def test_processes():
    with daemon():
        equal(ok("start", "box", "--process", "web", "--", "echo one; echo two >&2; sleep 1000"), b"web\n")
        wait_for(lambda: cli("logs", "box", "web").stderr == b"two\n", "what it prints")
        equal(ok("logs", "box", "web"), b"one\n")
        row, = rows("ps", "box")
        equal((row["process"], row["status"]), ("web", "running"))
        assert b"web" in ok("ps", "box")
        equal(rows("kill", "box", "web")["status"], "killed")
        finished = cli("logs", "-f", "box", "web")
        equal((finished.code, finished.stdout, finished.stderr), (0, b"one\n", b"two\n"))
        bad_input("kill", "box", "nobody", says="nobody")
        bad_input("logs", "box", "nobody", says="nobody")
        name = ok("start", "box", "--", "sleep", "1000").decode().strip()
        equal(rows("kill", "box", name, "-s", "INT")["process"], name)


def test_long_logs():
    with daemon():
        ok("start", "box", "--process", "p", "--", "seq 300000; seq 7 >&2")
        wait_for(lambda: rows("ps", "box")[0]["status"] == "completed", "its end")
        finished = cli("logs", "box", "p")
        equal((finished.stdout, finished.stderr), (b"".join(b"%d\n" % n for n in range(1, 300001)), b"1\n2\n3\n4\n5\n6\n7\n"))


def test_watch_and_events():
    with daemon():
        ok("exec", "box", "--", "mkdir sub")
        watch, events = start("watch", "box", "/workspace", "--json"), start("events", "box", "--json")
        equal(json.loads(watch.stdout.readline()), {"event": "ready", "about": {}})
        ok("exec", "box", "--", r"touch $'sub/a\033[2Jb'")
        change = json.loads(watch.stdout.readline())
        equal((change["event"], change["about"]["path"]), ("change", "/workspace/sub/a\x1b[2Jb"))
        wait_for(lambda: events.poll() is None, "events to go on")
        ok("start", "box", "--process", "seen", "--", "true")
        while True:
            event = json.loads(events.stdout.readline())
            if event["event"] == "processStarted":
                break
        equal(event["about"]["process"], "seen")
        for process in (watch, events):
            process.send_signal(signal.SIGINT)
            equal(process.wait(30), -signal.SIGINT)
            process.stdout.close()
            process.stderr.close()


def test_names_that_steer_a_terminal_are_shown():
    with daemon():
        ok("exec", "box", "--", "true")
        watch = start("watch", "box", "/workspace")
        equal(watch.stdout.readline(), b"ready\n")
        ok("exec", "box", "--", r"touch $'a\033[2Jb'")
        equal(watch.stdout.readline(), rb"create  /workspace/a\x1b[2Jb" + b"\n")
        watch.terminate()
        watch.wait(30)
        watch.stdout.close()
        watch.stderr.close()


def test_ports():
    with daemon():
        ok("start", "box", "--", "python3", "-m", "http.server", "8080", "--bind", "127.0.0.1")
        wait_for(lambda: b"8080\tlistener\topen" in ok("ports", "box"), "the server")
        token = ok("ports", "box", "--expose", "8080", "--name", "web").decode().strip()
        assert token, token
        port, = rows("ports", "box")["exposed"]
        equal((port["port"], port["name"], port["token"]), (8080, "web", token))
        assert b"exposed\topen" in ok("ports", "box")
        ok("ports", "box", "--unexpose", "8080")
        bad_input("ports", "box", "--unexpose", "8080", says="8080")


def test_rules_of_the_network():
    with daemon():
        ok("sandbox", "create", "box")
        equal(ok("net", "box"), b"nowhere\n")
        equal(ok("net", "box", "--allow", "example.org:443", "--deny", "bad.example.org"), b"allow example.org:443\ndeny  bad.example.org\n")
        equal(rows("net", "box")["allow"], ["example.org:443"])
        equal(ok("net", "box", "--none"), b"nowhere\n")
        for option in ("--allow", "--deny", "--add", "--add-deny"):
            bad_input("net", "box", option, "a b", says=f"^cloche: {option}: 'a b': expected a host's name")
        equal(rows("net", "box", "--log"), [])


def test_git():
    with daemon():
        ok("exec", "box", "--", "git init -q -b main origin && (cd origin && git config user.email a@b.c && git config user.name n && echo x > f && git add f && "
                                "git commit -qm one)")
        said = ok("git", "box", "file:///workspace/origin", "copy").decode().split()
        equal((said[0], said[2], len(said[1])), ("/workspace/copy", "main", 40))
        equal(ok("exec", "box", "--", "cat /workspace/copy/f"), b"x\n")
        finished = cli("git", "box", "file:///workspace/none", "other")
        assert finished.code in (1, 2) and finished.stderr, finished


def test_completion_of_names():
    with daemon():
        ok("sandbox", "create", "alpha")
        ok("sandbox", "create", "beta")
        equal([line.split(b"\t")[0] for line in ok("__complete", "exec", "a").splitlines()], [b"alpha"])
        equal(sorted(line.split(b"\t")[0] for line in ok("__complete", "sandbox", "rm", "").splitlines()), [b"alpha", b"beta"])


def test_a_daemon_that_goes():
    with daemon() as running:
        process = start("exec", "box", "--", "echo here; sleep 1000")
        process.stdout.readline()
        started = descendants(running.process.pid)  # whose parent is another when the supervisor has ended
        running.stop(signal.SIGKILL)
        equal(process.wait(30), 1)
        assert b"connection to the daemon ended" in process.stderr.read()
        process.stdout.close()
        process.stderr.close()
        for pid in started:
            wait_for(lambda: not alive(pid), "what the daemon had started to end")
        assert b"no daemon answers" in cli("ps", "box").stderr


def test_others_may_not_ask():
    need_root()
    with daemon() as running:
        os.chmod(running.directory, 0o755)
        os.chmod(running.path, 0o777)
        finished = cli("sandbox", "ls", under=["setpriv", "--reuid", "12345", "--regid", "12345", "--clear-groups"])
        assert finished.code in (1, 2) and finished.stderr and not finished.stdout, finished


def test_ports_of_the_boxs_network_are_not_the_guests():
    with daemon():
        ok("sandbox", "create", "box", "--allow", "192.0.2.1:80")
        equal(ok("ports", "box"), b"")
        ok("start", "box", "--", "exec python3 -m http.server 8080 --bind 127.0.0.1")
        wait_for(lambda: ok("ports", "box") == b"8080\tlistener\topen\t127.0.0.1\t\t\t\n", "the server, alone")


def test_sizes_and_times_have_units():
    with daemon():
        ok("sandbox", "create", "box", "--memory", "1536M", "--idle", "90m")
        lines = dict(line.split() for line in ok("sandbox", "get", "box").decode().splitlines() if len(line.split()) == 2)
        equal((lines["limits.memoryBytes"], lines["limits.diskBytes"], lines["idleMs"], lines["limits.pids"]), ("1536M", "1G", "90m", "512"))


def test_a_daemon_that_is_named_is_the_one_that_is_stopped():
    with daemon() as running:
        ok("sandbox", "create", "box")
        ok("daemon", "stop")
        equal(running.process.wait(30), 0)
        finished = cli("daemon", "stop")
        equal((finished.code, running.path.encode() in finished.stderr), (1, True), finished)
        finished = cli("daemon", "status", "--json")
        equal((finished.code, json.loads(finished.stdout)), (1, {"socket": None, "missing": None, "stats": None}), finished)


def test_a_bundle_is_checked_out():
    with daemon():
        ok("exec", "box", "--", "git init -q -b main origin && cd origin && git config user.email a@b && git config user.name a && echo 1 > f && git add f && "
                                "git commit -qm one && git bundle create -q ../parcel.bundle --all")
        for url, directory in (("/workspace/parcel.bundle", ()), ("file:///workspace/parcel.bundle", ("/workspace/again",))):
            said = ok("git", "box", url, *directory).decode().split()
            equal((said[0], said[2]), (directory[0] if directory else "/workspace/parcel", "main"))
        equal(ok("exec", "box", "--", "cat /workspace/parcel/f /workspace/again/f"), b"1\n1\n")
