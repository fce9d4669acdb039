"""Lists are tables on a terminal, and whole lines with tabs elsewhere. The daemon is scripted, so that its names can be any."""
import os
import re
import unicodedata

from boxes import Terminal
from cloche import cli, equal
from scripted_daemon import ScriptedDaemon

TIME = "2001-02-03T04:05:06.000Z"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\n\tx\u202e"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\x0d\x0a\x09x\xe2\x80\xae"
LONG = "run " + "very-" * 60 + "long"
COLOURS = re.compile(r"\x1b\[[0-9]*m")

PROCESSES = [{"process": "process-1", "pid": 7, "status": "running", "session": "default", "startedAt": TIME, "command": "日本 " + HOSTILE},
             {"process": "second", "pid": 12345, "status": "failed", "exitCode": 3, "session": "default", "startedAt": TIME, "command": LONG},
             {"process": "third", "pid": 8, "status": "killed", "signal": "SIGTERM", "exitCode": 143, "session": "default", "startedAt": TIME, "command": "true"}]
ANSWERS = {
    "process.list": {"processes": PROCESSES},
    "sandbox.get": {"sandbox": "box"},
    "sandbox.list": {"sandboxes": [{"sandbox": "a", "state": "paused", "pauseKind": "files", "sessions": 1, "processes": 20, "createdAt": TIME,
                                    "lastUsedAt": TIME}]},
    "volume.list": {"volumes": [{"volume": "data", "sizeBytes": 3 << 19, "createdAt": TIME, "usedBy": ["a", "b"]}]},
}


class Env:
    """Variables of this process, and so of commands on its terminals."""

    def __init__(self, **env):
        self.env, self.before = env, dict(os.environ)

    def __enter__(self):
        os.environ.update({"CLOCHE_SOCKET": os.path.abspath("s"), "TERM": "xterm", **self.env})

    def __exit__(self, *_):
        os.environ.clear()
        os.environ.update(self.before)


def width(line):
    return sum(2 if unicodedata.east_asian_width(character) in "WF" else 1 for character in line)


def on_terminal(*words, **env):
    with Env(**env), Terminal(*words) as terminal:
        equal(terminal.end(), 0, terminal.said)
        return terminal.said.decode().replace("\r\n", "\n").splitlines()


def piped(*words):
    with Env():
        done = cli(*words)
    equal((done.code, done.stderr), (0, b""), done)
    return done.stdout.decode().splitlines()


def a_table(lines):
    """Its cells; each line fits on the terminal, each column begins at one place, nothing but colours is escaped."""
    plain = [COLOURS.sub("", line) for line in lines]
    for line in plain:
        assert "\x1b" not in line and width(line) <= 101, line
    equal([line.rstrip() for line in plain[:1]], ["PROCESS      PID  STATUS          SESSION  STARTED    COMMAND"])
    at = plain[0].index("COMMAND")
    assert plain[1][at:].startswith("日本 " + ESCAPED[:10]), plain
    assert plain[2][at:].startswith("run very-very") and plain[2].endswith("…") and width(plain[2]) == 101, plain
    equal(plain[3][at:], "true")
    return plain


def test_tables():
    with ScriptedDaemon(os.path.abspath("s"), lambda method, params: ANSWERS[method]):
        a_terminal_has_headings_and_colours()
        elsewhere_nothing_is_lost()
        sizes_and_ages()


def a_terminal_has_headings_and_colours():
    lines = on_terminal("ps", "box")
    a_table(lines)
    assert "\x1b[32mrunning\x1b[0m" in lines[1] and "\x1b[31mfailed 3\x1b[0m" in lines[2] and "\x1b[1mPROCESS\x1b[0m" in lines[0], lines
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
        lines = on_terminal("ps", "box", **env)
        equal(lines, a_table(lines), env)
    assert "\x1b[32m" in on_terminal("ps", "box", NO_COLOR="")[1], "an empty NO_COLOR is none"


def elsewhere_nothing_is_lost():
    equal(piped("ps", "box"),
          [f"process-1\t7\trunning\tdefault\t{TIME}\t日本 {ESCAPED}", f"second\t12345\tfailed 3\tdefault\t{TIME}\t{LONG}",
           f"third\t8\tkilled SIGTERM\tdefault\t{TIME}\ttrue"])
    equal(piped("sandbox", "ls"), [f"a\tpaused (files)\t1\t20\t{TIME}\t{TIME}\t"])


def sizes_and_ages():
    equal(piped("volume", "ls"), [f"data\t{3 << 19}\t{TIME}\ta,b"])
    [_, line] = on_terminal("volume", "ls")
    assert re.fullmatch(r"data    1\.5M  \d+ days  a,b", line), line
