"""cloche top: a live table on a terminal, which is put back however it ends. The daemon is scripted: its names are any, and it may hang."""
import json
import os
import re
import signal
import threading

from boxes import Terminal
from cloche import cli, equal
from scripted_daemon import ScriptedDaemon

TIME = "2001-02-03T04:05:06.000Z"
HOSTILE = "\x1b]0;owned\x07\x1b[2J\r\nx"
ESCAPED = r"\x1b]0;owned\x07\x1b[2J\x0d\x0ax"
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
MIB = 1 << 20


class Daemon(ScriptedDaemon):
    """Its sandboxes use more of the processor with each look, the second one twice as much. is_open: cleared, it does not answer."""

    def __init__(self):
        self.asked, self.is_open, self.gone = [], threading.Event(), set()
        self.is_open.set()
        super().__init__(os.path.abspath("s"), self.reply)
        os.environ.update({"CLOCHE_SOCKET": self.path, "TERM": "xterm"})
        os.environ.pop("NO_COLOR", None)

    def reply(self, method, params):
        self.is_open.wait()
        self.asked.append((method, params.get("sandbox")))
        looks = len(self.asked)
        return {
            "sandbox.list": lambda: {"sandboxes": [row for row in (self.sandbox("first", looks, 9 * MIB), self.sandbox("second", 2 * looks, 5 * MIB),
                                                                   self.sandbox("third", 0, 0, state="stopped")) if row["sandbox"] not in self.gone]},
            "sandbox.get": lambda: self.sandbox("second", 0, 0),
            "process.list": lambda: {"processes": [{"process": "p1", "pid": 7, "status": "running", "session": "default", "startedAt": TIME, "command": HOSTILE}]},
            "context.list": lambda: {"contexts": [{"context": "cells", "language": "python", "state": "idle", "executionCount": 3, "checkpoints": 0, "lastUsedAt": TIME}]},
        }[method]()

    def sandbox(self, name, cpu_ms, memory, state="running"):
        use = {"usage": {"cpuMs": cpu_ms, "memoryPeakBytes": 0, "pidsPeak": 0}} if state == "running" else {}
        return {"sandbox": name, "state": state, "sessions": 0, "processes": 1, "contexts": 1, "createdAt": TIME, "lastUsedAt": TIME, **use,
                "sample": {"time": TIME, "cpuMs": cpu_ms, "memoryBytes": memory, "pids": 4, "diskBytes": 3 * MIB, "networkSentBytes": 0, "networkReceivedBytes": 10}}


def first_frame(terminal):
    terminal.until(ENTER)
    terminal.until(b"3 sandboxes, 2 running")
    terminal.until(b"q quit")


def names(terminal):
    """In the order of the next frame, which ends with the help."""
    terminal.until(b"3 sandboxes")
    while b"q quit" not in terminal.said:
        terminal.read(1)
    frame = terminal.said[:terminal.said.index(b"q quit")].decode()
    terminal.until(b"q quit")
    return re.findall(r"first|second|third", frame)


def test_keys():
    with Daemon() as daemon, Terminal("top") as terminal:
        first_frame(terminal)
        terminal.type(b"m")
        equal(names(terminal), ["first", "second", "third"])
        terminal.type(b"r")
        equal(names(terminal), ["third", "second", "first"])
        terminal.type(b"sr")
        while (order := names(terminal)) != ["first", "second", "third"]:
            assert sorted(order) == ["first", "second", "third"], order
        terminal.type(b"\x1b[B\x1b[A\x1b[B\r")
        terminal.until(b"PROCESS")
        terminal.until(ESCAPED.encode())
        terminal.until(b"cells")
        assert {name for method, name in daemon.asked if method != "sandbox.list"} < {"first", "second", "third"}, daemon.asked
        terminal.type(b"\x1b")
        names(terminal)
        assert HOSTILE.encode() not in terminal.said
        terminal.type(b"q")
        equal(terminal.end(), 0)
        assert LEAVE in terminal.said, terminal.said


def test_an_unused_sandbox_is_not_asked_twice():
    """A request would count as a use, and the sandbox would never be idle."""
    with Daemon() as daemon, Terminal("top", "second") as terminal:
        terminal.until(b"cells")
        terminal.until(b"cells")
        terminal.until(b"cells")
        equal([method for method, _ in daemon.asked].count("process.list"), 1, daemon.asked)
        daemon.gone.add("second")
        terminal.until(b"there is no sandbox second any more")
        terminal.type(b"\x03")
        equal(terminal.end(), 0)


def test_ends():
    with Daemon() as daemon:
        for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, -signal.SIGINT), (signal.SIGHUP, 143), (signal.SIGKILL, -signal.SIGKILL), (signal.SIGQUIT, -signal.SIGQUIT)):
            with Terminal("top") as terminal:
                first_frame(terminal)
                assert terminal.is_raw()
                terminal.process.send_signal(number)
                equal(terminal.end(), code, number)
                assert LEAVE in terminal.said, (number, terminal.said)
        with Terminal("top") as terminal:
            first_frame(terminal)
            daemon.is_open.clear()
            terminal.until(b"the daemon does not answer")
            terminal.type(b"q")
            equal(terminal.end(), 0)
            daemon.is_open.set()


def test_the_daemon_goes():
    with Daemon() as daemon, Terminal("top") as terminal:
        first_frame(terminal)
        daemon.drop()
        equal(terminal.end(), 1)
        assert terminal.said.index(LEAVE) < terminal.said.index(b"cloche: the connection to the daemon ended"), terminal.said


def test_sizes():
    with Daemon(), Terminal("top") as terminal:
        first_frame(terminal)
        terminal.resize(30, 4)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.until("sort …\x1b[K\x1b[J".encode())  # the help is cut
        terminal.until(b"\x1b[H")
        while b"\x1b[J" not in terminal.said:
            terminal.read(1)
        lines = re.sub(rb"\x1b\[[0-9]*[mKHJ]", b"", terminal.said.partition(b"\x1b[J")[0]).decode().split("\n")
        equal(len(lines), 4, lines)
        assert all(len(line.rstrip("\r")) <= 30 for line in lines), lines
        terminal.type(b"q")
        equal(terminal.end(), 0)


def test_elsewhere_one_list():
    with Daemon():
        done = cli("top", "--sort", "memory")
        rows = [line.split("\t") for line in done.stdout.decode().splitlines()]
        equal([row[:2] + row[3:] for row in rows], [["first", "running", str(9 * MIB), str(3 * MIB), "4", "0", "10", TIME, TIME],
                                                    ["second", "running", str(5 * MIB), str(3 * MIB), "4", "0", "10", TIME, TIME],
                                                    ["third", "stopped", "", str(3 * MIB), "", "", "", TIME, TIME]])
        assert float(rows[1][2]) >= 0 and rows[2][2] == "", rows
        [row] = json.loads(cli("top", "third", "--json", "--once").stdout)["sandboxes"]
        equal((row["sandbox"], row["state"], "memoryBytes" in row), ("third", "stopped", False))
        done = cli("top", "none")
        equal((done.code, done.stderr), (2, b'cloche: there is no sandbox "none" (cloche sandbox ls lists them)\n'))
        done = cli("top", "--sort", "size")
        assert done.code == 2 and b"must be cpu, memory, disk" in done.stderr, done
