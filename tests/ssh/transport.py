"""cloche exec -i as the transport of other programs: bytes, ends, exit codes; git and rsync, unmodified, through it."""
import hashlib
import os
import random
import signal
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from boxes import daemon, ok
from cloche import CLI, PATIENCE, cli, equal, start, wait_for

TIMEOUT = 120
HANG = 60 * PATIENCE
BYTES = bytes(range(256)) * 16 + random.Random(24).randbytes(2_000_000)
MANY = 64 << 20
LARGE = 100 << 20  # more than is kept of an output
KEPT_BYTES_MAX = 40 << 20  # of memory of the command line, its program included


def through(*words, stdin=b""):
    done = cli("exec", "-i", "box", *words, stdin=stdin)
    return done.code, done.stdout, done.stderr


def bytes_and_ends():
    equal(through("cat", stdin=BYTES), (0, BYTES, b""))
    equal(through("cat >&2", stdin=BYTES), (0, b"", BYTES))
    equal(through("cat; echo end; exit 7", stdin=b"a"), (7, b"aend\n", b""))
    equal(through("cat; printf end"), (0, b"end", b""))
    equal(through("kill -TERM $BASHPID"), (143, b"", b""))
    equal(through("printf", "%s.", "a b", "", "-i", "--"), (0, b"a b..-i.--.", b""))


def an_input_that_is_not_read():
    """The command ends, though its input goes on."""
    with start("exec", "-i", "box", "head -c 3; exec 0<&-; cat /proc/self/comm; exit 4", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"abc")
        process.stdin.flush()
        equal(process.stdout.read(), b"abccat\n")
        equal(process.wait(HANG), 4)
    with subprocess.Popen(["yes"], stdout=subprocess.PIPE) as endless:
        done = subprocess.run([CLI, "exec", "-i", "box", "head -c 5"], stdin=endless.stdout, capture_output=True, timeout=HANG)
        endless.stdout.close()
    equal((done.returncode, done.stdout), (0, b"y\ny\ny"))


def peak_bytes(process):
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    equal(process.returncode, 0)
    return usage.ru_maxrss << 10


def slow_readers():
    """Neither side holds bytes that the other has not read."""
    with start("exec", "-i", "box", f"head -c {MANY} /dev/zero", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        size = 0
        while data := process.stdout.read(4096):
            size += len(data)
        equal(size, MANY)
        assert peak_bytes(process) < KEPT_BYTES_MAX
    with start("exec", "-i", "box", "python3 -c 'import os, hashlib\nh = hashlib.sha256()\nwhile b := os.read(0, 4096): h.update(b)\nprint(h.hexdigest())'", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        for _ in range(MANY >> 20):
            process.stdin.write(BYTES[:1 << 20])
        process.stdin.close()
        equal(process.stdout.read().decode().strip(), hashlib.sha256(BYTES[:1 << 20] * (MANY >> 20)).hexdigest())
        assert peak_bytes(process) < KEPT_BYTES_MAX


def nothing_is_dropped(frames):
    """More than the daemon keeps of a process: it waits for a reader who begins late."""
    with start("exec", "-i", "box", f"head -c {LARGE} /dev/zero", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) as process:
        totals = [0]
        while totals[-1] == 0 or len(totals) < 5 or len(set(totals[-5:])) > 1:  # until it is over or waits, while other programs run there
            frames.call("exec", sandbox="box", command="for i in {1..1000}; do :; done; true | true")
            [row] = frames.call("process.list", sandbox="box")["processes"] or [None]
            totals.append(frames.call("process.logs", sandbox="box", process=row["process"], limit=1)["stdoutTotal"] if row else 0)
        size = 0
        while data := process.stdout.read(1 << 16):
            size += len(data)
        equal((size, process.wait(HANG)), (LARGE, 0))
        assert totals[-1] < LARGE, totals


def a_reader_who_leaves(frames):
    """The process goes on then."""
    process = frames.call("process.start", sandbox="box", command=f"head -c {LARGE} /dev/zero; read _", stdin=True, paced=True)["process"]
    follow = frames.ask("process.follow", sandbox="box", process=process)
    frames.call("hold", id=follow, hold=True)
    frames.call("cancel", id=follow)
    frames.call("process.input", sandbox="box", process=process, end=True)
    equal(frames.call("process.wait", sandbox="box", process=process)["process"]["exitCode"], 1)
    equal(frames.call("process.logs", sandbox="box", process=process, limit=1)["stdoutTotal"], LARGE)


def ends_of_the_command_line():
    for number, code in ((signal.SIGTERM, 143), (signal.SIGHUP, 143), (signal.SIGINT, -signal.SIGINT)):
        with start("exec", "-i", "box", "echo on; exec cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            equal(process.stdout.readline(), b"on\n")
            process.send_signal(number)
            equal(process.wait(HANG), code)
    with start("exec", "-i", "box", "exec yes", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.read(2)
        process.stdout.close()
        equal(process.wait(HANG), 141)
    wait_for(lambda: ok("exec", "box", "cat /proc/[0-9]*/comm | grep -cx -e yes -e cat -e head || true") == b"1\n", "only the cat that looks is left")


def program(*words, **env):
    print("+", *words, flush=True)
    done = subprocess.run(words, capture_output=True, timeout=HANG, env={**os.environ, "PATH": f"{os.path.dirname(CLI)}:{os.environ['PATH']}", **env})
    equal(done.returncode, 0, done)
    return done.stdout


GIT = {"GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ALLOW_PROTOCOL": "ext", **{f"GIT_{who}_{field}": "a@b" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")}}
REMOTE = "ext::cloche exec -i box git %s /workspace/src.git"


def git(*words):
    return program("git", *words, **GIT)


def git_commands():
    ok("exec", "box", "git init -q --bare -b main /workspace/src.git")
    git("init", "-q", "-b", "main", "one")
    with open("one/file", "wb") as file:
        file.write(BYTES)
    git("-C", "one", "add", "file")
    git("-C", "one", "commit", "-q", "-m", "first")
    git("-C", "one", "push", "-q", REMOTE, "main")
    git("clone", "-q", REMOTE, "two")
    with open("two/file", "rb") as file:
        equal(file.read(), BYTES)
    ok("exec", "box", "git clone -q src.git work && cd work && git -c user.name=a -c user.email=b commit -q --allow-empty -m second && git push -q")
    git("-C", "two", "fetch", "-q")
    equal(git("-C", "two", "log", "-1", "--format=%s", "origin/main"), b"second\n")
    refused = subprocess.run(["git", "ls-remote", REMOTE.replace("src", "none")], capture_output=True, timeout=HANG, env={**os.environ, **GIT, "PATH": f"{os.path.dirname(CLI)}:{os.environ['PATH']}"})
    equal(refused.returncode, 128, refused)


def rsync_both_ways():
    os.makedirs("tree/a b")
    with open("tree/a b/it's", "wb") as file:
        file.write(BYTES)
    os.symlink("a b/it's", "tree/link")
    program("rsync", "-a", "-s", "-e", "cloche exec -i", "tree/", "box:copy of it/")
    program("rsync", "-a", "-s", "-e", "cloche exec -i", "box:copy of it/", "back")
    program("diff", "-r", "--no-dereference", "tree", "back")


def test_all_of_it():
    with daemon() as running, running.frames() as frames:
        ok("sandbox", "create", "box")
        nothing_is_dropped(frames)
        a_reader_who_leaves(frames)
        for part in (bytes_and_ends, an_input_that_is_not_read, slow_readers, ends_of_the_command_line, git_commands, rsync_both_ways):
            print(part.__name__, flush=True)
            part()


def test_a_killed_daemon():
    with daemon() as running, start("exec", "-i", "box", "echo on; exec cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        equal(process.stdout.readline(), b"on\n")
        running.stop(signal.SIGKILL)
        equal(process.wait(HANG), 1)
        assert b"connection to the daemon ended" in process.stderr.read()
    with daemon():
        equal(through("cat", stdin=b"again")[:2], (0, b"again"))
