"""cloche shell and exec -t: on a terminal, which is put back however it ends."""
import signal

from boxes import Terminal, daemon, ok
from cloche import cli, equal

TIMEOUT = 120


def test_a_shell():
    with daemon():
        ok("exec", "box", "--", "cd /tmp; export COLOR=green")
        with Terminal("shell", "box") as terminal:
            terminal.type(b"echo si''ze $(stty size) $COLOR $PWD\r")
            terminal.until(b"size 33 101 green /tmp")
            assert terminal.is_raw()
            terminal.type(b"exit 7\r")
            equal(terminal.end(), 7)


def test_a_change_of_size():
    with daemon(), Terminal("shell", "box") as terminal:
        terminal.type(b"echo be''gun\r")
        terminal.until(b"begun")
        terminal.until(b"$ ")  # before its prompt readline puts the size back that it has just read
        terminal.resize(120, 40)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.type(b"while [ \"$(stty size)\" != '40 120' ]; do sleep 0.1; done; echo ch''anged\r")
        terminal.until(b"changed")
        terminal.type(b"exit\r")
        equal(terminal.end(), 0)


def test_keys_go_to_the_sandbox():
    with daemon(), Terminal("exec", "-t", "box", "--", "trap 'echo in''terrupted; exit 9' INT; echo re''ady; while :; do sleep 0.1; done") as terminal:
        terminal.until(b"ready")
        terminal.type(b"\x03")
        terminal.until(b"interrupted")
        equal(terminal.end(), 9)


def test_leaving_and_coming_back():
    with daemon():
        with Terminal("shell", "box") as terminal:
            terminal.type(b"X=here; echo be''gun\r")
            terminal.until(b"begun")
            terminal.type(b"\x1d")
            terminal.until(b"--process ")
            equal(terminal.end(), 0)
            name = terminal.said.split()[0].decode()
        with Terminal("shell", "box", "--process", name) as terminal:
            terminal.type(b"echo still $X\r")
            terminal.until(b"still here")
            terminal.type(b"exit 3\r")
            equal(terminal.end(), 3)


def ended_by(number, code):
    with Terminal("shell", "box") as terminal:
        terminal.type(b"echo be''gun\r")
        terminal.until(b"begun")
        assert terminal.is_raw()
        terminal.process.send_signal(number)
        equal(terminal.end(), code)


def test_the_terminal_is_put_back():
    with daemon() as running:
        ended_by(signal.SIGTERM, 143)
        ended_by(signal.SIGHUP, 143)
        ended_by(signal.SIGKILL, -9)
        ended_by(signal.SIGQUIT, -3)
        with Terminal("shell", "box") as terminal:
            terminal.type(b"echo be''gun\r")
            terminal.until(b"begun")
            running.stop(signal.SIGKILL)
            equal(terminal.end(), 1)
            assert b"connection to the daemon ended" in terminal.said, terminal.said


def test_no_terminal_here():
    with daemon():
        finished = cli("shell", "box")
        equal(finished.code, 2, finished)
        assert b"terminal" in finished.stderr
