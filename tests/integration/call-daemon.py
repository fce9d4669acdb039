"""cloche call --socket: the call is the daemon's, and all that is printed is as of a call in an engine of the command."""
import json
import os

from boxes import daemon
from cloche import bad_input, cli, equal, write_file

CALLS = [
    ["python", "-c", "def add(a, b=1):\n    print('out')\n    return {a: b}", "add", "--args", '["é", {"$": "bigint", "v": "99999999999999999999"}]'],
    ["python", "-c", "import sys\nsys.stdout.buffer.write(b'\\xff\\n')\nraise ValueError('no')"],
    ["python", "-c", "return [open('/tmp/f').read(), __import__('os').environ['A']]", "--file", "/tmp/f=file", "-e", "A=1"],
    ["python", "-c", "import os\nreturn [open('/tmp/d/link').read(), os.stat('/tmp/d/f').st_mode, os.readlink('/tmp/d/link')]", "--file", "/tmp/d=tree"],
    ["python", "-c", "def f(a: int): return a", "f", "--kwargs", '{"a": 1}', "--schema", '{"params": [{"name": "a", "type": {"type": "integer"}}]}'],
    ["javascript", "-c", "return new Map([[1, 2n]])"],
    ["python", "-c", "return x", "--prefix", "five"],
    ["python", "-c", "return 1", "--args", '{"$": "nothing"}'],
    ["nolanguage", "-c", "return 1"],
]


def printed(words, *more):
    done = cli("call", *words, *more)
    return done.code, done.stdout, done.stderr


def test_as_without_a_daemon():
    write_file("file", "text")
    os.mkdir("tree")
    os.chmod(write_file("tree/f", "below"), 0o700)
    os.symlink("f", "tree/link")
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    equal(cli("prefix", "create", "five", "python", "-c", "x = 5").code, 0)
    with daemon():
        socket = os.environ.pop("CLOCHE_SOCKET")
        for words in CALLS:
            equal(printed(words, "--socket", socket), printed(words), words)
        code, out, _ = printed(["python", "-c", "return 2"], "--json", "--socket", socket)
        equal((code, json.loads(out)["result"]), (0, 2))
        equal(printed(["python", "-c", "while True: pass"], "--timeout", "200ms", "--socket", socket)[0], 124)
        runs = json.loads(cli("daemon", "status", "--json", "--socket", socket).stdout)["stats"]["runs"]["total"]
        assert runs >= 8, runs
        for option in (["--mount", "/data=."], ["--optional", "cpu"], ["--core-scheduling"], ["--network", "a.test", "--host-port", "db=1"]):
            bad_input("call", "python", "-c", "return 1", *option, "--socket", socket, says=r"is not for a call with --socket")
        bad_input("call", "python", "-c", "return 1", "--image", os.getcwd(), "--socket", socket, says="is a path")
        bad_input("call", "python", "-c", "return 1", "--image", "none", "--socket", socket, says="there is no image")
