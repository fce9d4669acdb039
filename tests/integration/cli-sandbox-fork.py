"""cloche sandbox fork, cloche sandbox snapshot and cloche snapshot."""
import json

from boxes import daemon, ok
from cloche import bad_input, cli, equal


def rows(*words):
    return json.loads(ok(*words, "--json"))


def test_forks():
    with daemon():
        bad_input("sandbox", "fork", "none", says=r"\(cloche sandbox ls lists them\)")
        ok("exec", "a", "--", "echo one > f; export WHO=Ada")
        ok("start", "a", "--process", "p", "--", "exec sleep 1000")
        done = cli("sandbox", "fork", "a", "b", "c")
        equal((done.code, done.stdout), (0, b"b\nc\n"))
        assert b"not copied: process p: " in done.stderr, done
        ok("context", "create", "a", "plain", "--language", "bash")
        assert b"(cloche context create --forkable)" in cli("sandbox", "fork", "a", "e").stderr
        ok("sandbox", "rm", "e")
        equal(ok("exec", "c", "--", "cat f; echo $WHO"), b"one\nAda\n")
        bad_input("sandbox", "fork", "a", "b", says="already")
        bad_input("sandbox", "fork", "a", "d", "--count", "2", says="names.*leave --count out")
        bad_input("sandbox", "pause", "a", "--no-memory", "--no-save", says="^cloche: --no-memory and --no-save would keep nothing")
        bad_input("sandbox", "commit", "a", "x", says="make it with --writable-root")
        equal(json.loads(ok("sandbox", "ls", "--json", "--filter", "created-after=2020-02-29T07:30:00Z"))[0]["sandbox"], "a")
        bad_input("sandbox", "fork", "a", "--forkable", says="no option")
        made = rows("sandbox", "fork", "b", "--count", "2")
        equal((len(made["sandboxes"]), made["omitted"]), (2, []))


def test_snapshots():
    with daemon():
        ok("exec", "a", "--", "echo one > f")
        equal(ok("sandbox", "snapshot", "a", "s", "--label", "of=tests"), b"s\n")
        bad_input("sandbox", "snapshot", "a", "s", says=r"\(cloche snapshot rm\), or give --replace")
        equal(ok("sandbox", "snapshot", "a", "s", "--label", "of=tests", "--replace"), b"s\n")
        ok("exec", "a", "--", "echo two > f")
        equal(ok("sandbox", "create", "b", "--snapshot", "s", "--pids", "77"), b"b\n")
        equal(ok("exec", "b", "--", "cat f"), b"one\n")
        equal(rows("sandbox", "get", "b")["limits"]["pids"], 77)
        bad_input("sandbox", "create", "c", "--snapshot", "none", says=r"\(cloche snapshot ls lists them\)")
        line, = ok("snapshot", "ls").decode().splitlines()
        equal((line.split()[0], line.split()[-1]), ("s", "a"))
        equal(rows("snapshot", "get", "s")["labels"], {"of": "tests"})
        assert b"digest" in ok("snapshot", "get", "s")
        equal(cli("__complete", "snapshot", "rm", "s").stdout.split(b"\t")[0].strip(), b"s")
        failed = cli("snapshot", "rm", "none", "s")
        assert failed.code == 2 and b"no snapshot" in failed.stderr, failed
        equal((rows("snapshot", "ls"), ok("exec", "b", "--", "cat f")), ([], b"one\n"))
