"""Steps that take more than a second are reported on a terminal, and nowhere else."""
import os
import signal

from boxes import Terminal, daemon, ok
from cloche import cli, equal, write_file

SLOW_SET_UP = "import time; time.sleep(2.5); x = 1"
SLOW_TO_COMPILE = """
constexpr int f(int n) { int s = 0; for (int i = 0; i < n; i++) for (int k = 0; k < 100000; k++) s += k & 1; return s; }
static_assert(f(15) + f(16) + f(17) >= 0);
static_assert(f(18) + f(14) + f(13) >= 0);
int main() { return 7; }
"""


def test_a_set_up():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    with Terminal("prefix", "create", "slow", "python", "-c", SLOW_SET_UP) as terminal:
        terminal.until("cloche: running the set-up that runs are forked from…".encode())
        equal(terminal.end(), 0)
    finished = cli("call", "python", "-c", "return x", "--prefix", "slow")
    equal((finished.stdout, finished.stderr), (b"1\n", b""))


def test_a_compiler():
    with Terminal("run", write_file("slow.cpp", SLOW_TO_COMPILE), "--timeout", "0", "--cpu-time", "0") as terminal:
        terminal.until("cloche: compiling…".encode())
        terminal.process.send_signal(signal.SIGTERM)
        equal(terminal.end(), 143)


def test_code_that_takes_long_is_not_waited_for():
    with Terminal("run", "python", "-c", "import time; time.sleep(2.5); print('done')") as terminal:
        terminal.until(b"done")
        assert b"cloche:" not in terminal.said, terminal.said
        equal(terminal.end(), 0)


def test_programs_are_told_nothing():
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    finished = cli("prefix", "create", "slow", "python", "-c", SLOW_SET_UP)
    equal((finished.code, finished.stdout, finished.stderr), (0, b"", b""))


def test_a_copy_and_a_cell():
    with daemon():
        ok("exec", "box", "--", "true")
        with Terminal("context", "run", "box", "-c", "import time; time.sleep(2.5); 6 * 7") as terminal:
            terminal.until(b"42")
            equal(terminal.end(), 0)
