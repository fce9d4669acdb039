"""cloche repl: cells typed on a terminal, with completion, questions, interrupts; and standard input as one cell."""
import json
import os
import signal

from boxes import Terminal, daemon, ok
from cloche import bad_input, cli, equal, start

TIMEOUT = 180


def sandboxes():
    return [row["sandbox"] for row in json.loads(ok("sandbox", "ls", "--json"))]


def contexts():
    return [row["context"] for row in json.loads(ok("context", "list", "box", "--json"))]


def python(*words):
    """At its first prompt."""
    terminal = Terminal("repl", *words)
    terminal.until(b"Ctrl-D ends.")
    terminal.until(b">>> ")
    return terminal


def leave(terminal):
    """At a prompt: earlier input is for the code."""
    terminal.until(b">>> ")
    terminal.type(b"\x04")
    equal(terminal.end(), 0)


def cells():
    with python("--sandbox", "box") as terminal:
        terminal.type(b"6 * 7\n")
        terminal.until(b"\r\n42\r\n")
        terminal.type(b"def f(n):\n")
        terminal.until(b"... ")
        terminal.type(b"    return n + 1\n\n")
        terminal.until(b">>> ")
        terminal.type(b"f(40)\n")
        terminal.until(b"\r\n41\r\n")
        terminal.type("print('ä' + 'ß')\n".encode())
        terminal.until("\r\näß\r\n".encode())
        terminal.type(b"print('no', 'end', sep='-', end='')\n")
        terminal.until(b"\r\nno-end\r\n")
        terminal.type(b"raise ValueError('no\\x1bsuch')\n")
        terminal.until(rb"ValueError: no\x1bsuch")
        leave(terminal)


def completion():
    with python("--sandbox", "box") as terminal:
        terminal.type(b"a_long_name = 5\n")
        terminal.until(b">>> ")
        terminal.type(b"print(a_lo\t * 3)\n")
        terminal.until(b"\r\n15\r\n")
        terminal.type(b"a_long_name.bi\t\t")  # as far as both go, then both
        terminal.until(b"t_count")
        terminal.until(b"bit_length")
        terminal.type(b"length()\n")
        terminal.until(b"\r\n3\r\n")
        leave(terminal)


def wholes():
    """The language's parser decides where a cell ends, also where brackets and indentation would not tell."""
    with python("--sandbox", "box") as terminal:
        terminal.type(b"text = \'\'\'(\n")
        terminal.until(b"... ")
        terminal.type(b"\n\'\'\'; len(text) + 40\n")
        terminal.until(b"\r\n43\r\n")
        terminal.type(b"'[' '{'; 7 * 8  # (\n")
        terminal.until(b"\r\n56\r\n")
        terminal.type(b"x = )\n")
        terminal.until(b"SyntaxError")
        leave(terminal)
    with Terminal("repl", "javascript", "--sandbox", "box") as terminal:
        terminal.until(b">>> ")
        terminal.type(b"const f = (n) => {\n")
        terminal.until(b"... ")
        terminal.type(b"\n  return /[(]/.test('(') ? n : 0\n}; f(45)\n")
        terminal.until(b"\r\n45\r\n")
        terminal.type(b"f?\n")  # a question only in Python
        terminal.until(b"... ")
        terminal.type(b"46 : 0\n")
        terminal.until(b"\r\n46\r\n")
        terminal.type(b"f\x1bh")  # Alt-H
        terminal.until(b"Signature: f(n)\r\nType: function\r\n")
        terminal.type(b"(47)\n")
        terminal.until(b"\r\n47\r\n")
        leave(terminal)


def descriptions():
    with python("--sandbox", "box") as terminal:
        terminal.type(b"def add(a, b=2):\n    'Of \\x1b[2J add.'\n    return a + b\n\n")
        terminal.until(b">>> ")
        terminal.type(b"add?\n")
        terminal.until(b"Signature: add(a, b=2)\r\nDocstring: Of \\x1b[2J add.\r\nType: function\r\n")
        terminal.type(b"add??\n")
        terminal.until(b"Source:\r\ndef add(a, b=2):\r\n    'Of ")
        terminal.type(b"'\xc3\xa9'; add(3)\x1b[D\x1b[D\x1b[D\x1bh")  # the cursor is at the end of the name
        terminal.until(b"Signature: add(a, b=2)")
        terminal.type(b"\n")
        terminal.until(b"\r\n5\r\n")
        terminal.type(b"nosuch\x1bh")
        terminal.until(b"no such name here")
        terminal.type(b"\x03")
        leave(terminal)


def cells_of_others():
    ok("context", "create", "box", "shared")
    ok("context", "run", "box", "--context", "shared", "-c", "z = 'of ' + 'another'\nz")
    with python("--sandbox", "box", "--context", "shared") as terminal:
        terminal.type(b"\x10\x10\n")  # Ctrl-P: the first line of that cell
        terminal.until(b">>> ")
        terminal.type(b"z\n")
        terminal.until(b"'of another'")
        terminal.until(b">>> ")
        busy = start("context", "run", "box", "--context", "shared", "-c", "print('begun', flush=True); import time; time.sleep(100)")
        equal(busy.stdout.readline(), b"begun\n")
        terminal.type(b"(\n")  # the parser cannot be asked while that cell runs
        terminal.until(b"... ")
        ok("context", "interrupt", "box", "shared")
        busy.communicate()
        terminal.type(b"48)\n")
        terminal.until(b"\r\n48\r\n")
        leave(terminal)
    ok("context", "delete", "box", "shared")


def interrupts():
    with python("--sandbox", "box") as terminal:
        terminal.type(b"x = 5\n")
        terminal.until(b">>> ")
        terminal.type(b"forgotten\x03")
        terminal.until(b">>> ")
        terminal.type(b"import time; print('be' + 'gun', flush=True); time.sleep(100)\n")
        terminal.until(b"begun")
        terminal.type(b"\x03")
        terminal.until(b"KeyboardInterrupt")
        terminal.type(b"x + 1\n")
        terminal.until(b"\r\n6\r\n")
        terminal.until(b">>> ")
        terminal.type(b"while True:\n    try:\n        print('be' + 'gun', flush=True); time.sleep(100)\n    except KeyboardInterrupt:\n        print('ig' + 'nored')\n\n")
        terminal.until(b"begun")
        terminal.type(b"\x03")
        terminal.until(b"ignored\r\nbegun")
        terminal.type(b"\x03")  # a second one gives it up
        terminal.until(b"stopped waiting")
        terminal.until(b">>> ")
        terminal.type(b"'comes too early, or not'\n")
        terminal.until(b">>> ")
        terminal.type(b"'anew'\n")
        terminal.until(b"\r\n'anew'\r\n")
        leave(terminal)


def questions():
    with python("--sandbox", "box") as terminal:
        terminal.type(b"'hello ' + input('who? ')\n")
        terminal.until(b"\r\nwho? ")
        terminal.type(b"Ada\n")
        terminal.until(b"'hello Ada'")
        terminal.type(b"import getpass; len(getpass.getpass('word? '))\n")
        terminal.until(b"\r\nword? ")
        terminal.type(b"secret\n")
        terminal.until(b"\r\n6\r\n")
        assert b"secret" not in terminal.said
        terminal.type(b"input('more? ')\n")
        terminal.until(b"\r\nmore? ")
        terminal.type(b"\x04")
        terminal.until(b"EOFError")
        leave(terminal)


def pictures():
    os.environ["TMPDIR"] = os.path.abspath("temporary")
    with python("--sandbox", "box") as terminal:
        terminal.type(b"import matplotlib.pyplot as plt; _ = plt.plot([1, 2]); plt.show()\n")
        terminal.until(b"image/png: ")
        terminal.until(b"\r\n")
        leave(terminal)
    files = [os.path.join(place, name) for place, _, names in os.walk("temporary") for name in names]
    del os.environ["TMPDIR"]
    equal([open(name, "rb").read(8) for name in files], [b"\x89PNG\r\n\x1a\n"])


def history():
    name = os.path.join(os.environ["XDG_STATE_HOME"], "cloche/history-python")
    equal(os.stat(name).st_mode & 0o777, 0o600)
    with python("--sandbox", "box") as terminal:
        terminal.type(b"'kept' * 2\n")
        terminal.until(b"'keptkept'")
        leave(terminal)
    with python("--sandbox", "box") as terminal:
        terminal.type(b"\x10\n")  # Ctrl-P: the line before
        terminal.until(b"'keptkept'")
        leave(terminal)


def named_and_own():
    with python("--sandbox", "box", "--context", "mine") as terminal:
        terminal.type(b"y = 'here'\n")
        leave(terminal)
    equal(contexts(), ["mine"])
    equal(ok("repl", "--sandbox", "box", "--context", "mine", stdin=b"print(y)"), b"here\n")
    bad_input("repl", "bash", "--sandbox", "box", "--context", "mine", says="mine")
    with Terminal("repl", "bash") as terminal:
        terminal.until(b"bash in sandbox ")
        equal(len(sandboxes()), 2)
        terminal.until(b">>> ")
        terminal.type(b"for x in a b; do\necho $x$x\ndone\n")
        terminal.until(b"\r\naa\r\nbb\r\n")
        terminal.process.send_signal(signal.SIGTERM)
        equal(terminal.end(), 143)
    equal(sandboxes(), ["box"])


def piped():
    finished = cli("repl", stdin=b"import sys\nfor n in range(2):\n    print(n)\nprint('e', file=sys.stderr)\n\n'last'")
    equal((finished.code, finished.stdout, finished.stderr), (0, b"0\n1\n'last'\n", b"e\n"))
    finished = cli("repl", stdin=b"1/0")
    assert finished.code == 1 and b"ZeroDivisionError" in finished.stderr, finished
    equal(sandboxes(), ["box"])
    bad_input("repl", "box", says="there is no language 'box' .*; a sandbox is named by --sandbox box")
    bad_input("repl", "perl", says='no contexts of the language "perl"')


def test_typed_cells():
    """One daemon for all: each part has contexts of its own."""
    os.makedirs("temporary")
    os.environ.update(XDG_STATE_HOME=os.path.abspath("xdg"), LC_ALL="C.UTF-8")
    with daemon():
        ok("sandbox", "create", "box")
        for part in (cells, completion, wholes, descriptions, cells_of_others, interrupts, questions, pictures, history, named_and_own, piped):
            print("--", part.__name__, flush=True)
            part()
            equal(contexts(), ["mine"] if part in (named_and_own, piped) else [])
