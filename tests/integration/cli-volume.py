"""cloche volume, and volumes of sandboxes from the command line."""
import json
import os

from boxes import daemon, ok
from cloche import bad_input, cli, equal, need_root, skip


def rows(*words):
    return json.loads(ok(*words, "--json"))


def test_volumes():
    need_root()
    if not os.path.exists("/dev/loop-control"):
        skip("this host has no loop devices")
    with daemon("--volumes", os.path.abspath("volumes")):
        equal(ok("volume", "create", "data", "--size", "16M", "--label", "of=tests"), b"data\n")
        bad_input("volume", "create", "data", "--size", "16M", says="already")
        bad_input("volume", "create", "other", says="--size")
        bad_input("volume", "create", "other", "--size", "much", says="512M")
        bad_input("volume", "create", "other", "--size", "1K", says=r"^cloche: --size is 1024, expected 16777216 to \d+ bytes")
        for value in ("data", "data:relative", ":/data", "data:/data:rw"):
            bad_input("sandbox", "create", "one", "--volume", value, says="NAME:/PATH")
        bad_input("sandbox", "create", "one", "--volume", "none:/data", says=r"\(cloche volume ls lists them\): make it by cloche volume create")
        bad_input("volume", "inspect", "none", says=r"\(cloche volume ls lists them\)")
        equal(ok("sandbox", "create", "one", "--volume", "data:/data"), b"one\n")
        equal(ok("sandbox", "create", "two", "--volume", "data:/data:ro"), b"two\n")
        equal(ok("exec", "one", "--", "echo shared > /data/f"), b"")
        equal(ok("exec", "two", "--", "cat /data/f; echo x > /data/f 2>/dev/null || echo closed"), b"shared\nclosed\n")
        equal(rows("sandbox", "get", "two")["volumes"], [{"name": "data", "path": "/data", "readOnly": True}])
        equal([row["volume"] for row in rows("volume", "ls")], ["data"])
        line = ok("volume", "ls").decode().split()
        equal((line[0], line[1], line[3]), ("data", str(16 << 20), "one,two"))
        about = rows("volume", "inspect", "data")
        equal((about["labels"], about["usedBy"]), ({"of": "tests"}, ["one", "two"]))
        assert b"usage.usedBytes" in ok("volume", "inspect", "data")
        bad_input("volume", "rm", "data", says="one, two")
        ok("sandbox", "rm", "one", "two")
        equal(cli("__complete", "volume", "rm", "d").stdout.split(b"\t")[0].strip(), b"data")
        failed = cli("volume", "rm", "none", "data")
        assert failed.code == 2 and b"no volume" in failed.stderr, failed
        equal(rows("volume", "ls"), [])
