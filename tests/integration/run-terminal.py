"""cloche run -t: a script on a terminal of its own, which shows on ours."""
import signal

from boxes import Terminal
from cloche import bad_input, equal

ASK = """
import os, sys
print("size", *os.get_terminal_size(), sys.stdin.isatty(), sys.stderr.isatty(), os.environ["TERM"])
name = input("name? ")
print("hello", name)
sys.exit(7)
"""


def test_a_script_that_asks():
    with Terminal("run", "-t", "python", "-c", ASK, "-e", "TERM=test-kind") as terminal:
        terminal.until(b"size 101 33 True True test-kind")
        terminal.until(b"name? ")
        assert terminal.is_raw()
        terminal.type(b"Ada\r")
        terminal.until(b"hello Ada")
        equal(terminal.end(), 7)


def test_keys_and_sizes_reach_the_script():
    code = "import signal, os, time\nsignal.signal(signal.SIGWINCH, lambda *_: os.write(1, b'now %d %d ' % os.get_terminal_size()))\n" \
           "try:\n  print('up', flush=True)\n  while True: time.sleep(1)\nexcept KeyboardInterrupt: print('inter' + 'rupted'); raise SystemExit(9)"
    with Terminal("run", "-t", "python", "-c", code) as terminal:
        terminal.until(b"up")
        terminal.resize(120, 40)
        terminal.process.send_signal(signal.SIGWINCH)
        terminal.until(b"now 120 40")
        terminal.type(b"\x03")
        terminal.until(b"interrupted")
        equal(terminal.end(), 9)


def test_the_terminal_is_put_back_when_the_run_is_ended():
    for number in (signal.SIGTERM, signal.SIGKILL):
        with Terminal("run", "-t", "bash", "-c", "echo up; sleep 1000") as terminal:
            terminal.until(b"up")
            terminal.process.send_signal(number)
            equal(terminal.end(), 143 if number == signal.SIGTERM else -number)


def test_a_shell_ends_with_all_it_printed():
    with Terminal("run", "-t", "bash", "-c", "for i in {1..2000}; do echo line $i; done") as terminal:
        terminal.until(b"line 2000\r\n")
        equal(terminal.end(), 0)


def test_code_that_does_not_compile_is_told_from_a_program_with_its_exit_code():
    with Terminal("run", "-t", "c", "-c", "int main(void) { return twice(1) }") as terminal:
        terminal.until(b"cloche: error: ")
        equal(terminal.end(), 65)
    with Terminal("run", "-t", "c", "-c", "int main(void) { return 65; }") as terminal:
        equal(terminal.end(), 65)
        assert b"cloche: error" not in terminal.said, terminal.said


def test_a_set_up_and_a_terminal():
    with Terminal("run", "-t", "--prefix", "any", "python", "-c", "1") as terminal:
        terminal.until(b"a script forked from a set-up has no terminal")
        equal(terminal.end(), 2)


def test_a_terminal_needs_one():
    bad_input("run", "-t", "python", "-c", "1", says="terminal")
