"""Streams of a run are exact, of any size, and never hold the run up for ever."""
import hashlib
import os
import subprocess
from cloche import HANG, equal, run, start

BIG = bytes(range(256)) * 40000  # 10 MB, every byte value
COPY = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"


def test_binary_round_trip():
    finished = run("python", COPY, stdin=BIG)
    equal(hashlib.sha256(finished.stdout).hexdigest(), hashlib.sha256(BIG).hexdigest())


def test_javascript_binary_round_trip():
    finished = run("javascript", "process.stdin.pipe(process.stdout)", stdin=BIG)
    equal(hashlib.sha256(finished.stdout).hexdigest(), hashlib.sha256(BIG).hexdigest())


def test_large_stdout_and_stderr_together():
    code = "import os\nfor _ in range(100):\n    os.write(1, b'o' * 65536)\n    os.write(2, b'e' * 65536)"
    finished = run("python", code, bound=HANG)
    # os.write may write less than asked to a pipe; what arrives is a whole number of what was written.
    assert set(finished.stdout) == {ord("o")} and set(finished.stderr) == {ord("e")}, finished
    assert len(finished.stdout) > 1 << 20 and len(finished.stderr) > 1 << 20, finished


def test_output_arrives_while_the_script_runs():
    process = start("run", "python", "-c", "import sys; print('ready', flush=True); sys.stdin.readline()",
                    stdin=subprocess.PIPE)
    equal(process.stdout.readline(), b"ready\n")
    process.communicate(b"go\n", timeout=HANG)
    equal(process.returncode, 0)


def test_a_conversation():
    code = "import sys\nfor line in sys.stdin:\n    print(line.strip()[::-1], flush=True)"
    process = start("run", "python", "-c", code, stdin=subprocess.PIPE)
    for word in (b"abc", b"xyz"):
        process.stdin.write(word + b"\n")
        process.stdin.flush()
        equal(process.stdout.readline(), word[::-1] + b"\n")
    process.communicate(timeout=HANG)
    equal(process.returncode, 0)


def test_script_that_does_not_read_its_stdin():
    equal(run("python", "print('done')", stdin=BIG).stdout, b"done\n")


def test_stdin_that_stays_open_does_not_hold_the_run():
    read_end, write_end = os.pipe()
    process = start("run", "python", "-c", "print('done')", stdin=read_end)
    equal(process.communicate(timeout=HANG)[0], b"done\n")
    equal(process.returncode, 0)
    os.close(write_end)


def test_closed_stdin_is_end_of_file():
    process = start("run", "python", "-c", "import sys; print(repr(sys.stdin.read()))", stdin=subprocess.DEVNULL)
    equal(process.communicate(timeout=HANG)[0], b"''\n")


def test_the_guest_does_not_hold_the_callers_descriptors():
    code = "import os; print([os.readlink(f'/proc/self/fd/{i}').split(':')[0] for i in range(3)], os.isatty(1))"
    path = os.path.abspath("out")
    with open(path, "wb") as file:
        process = start("run", "python", "-c", code, stdout=file)
        process.communicate(timeout=HANG)
    text = open(path).read()
    assert path not in text and "False" in text, text


def test_standard_streams_can_be_opened_by_name():
    """Scripts do so to read all of stdin; a socket cannot be opened that way (ENXIO), a pipe can."""
    equal(run("python", "open('/dev/stdout', 'w').write(open('/dev/stdin').read())", stdin=b"text").stdout, b"text")
    equal(run("javascript", "process.stdout.write(require('fs').readFileSync('/dev/stdin'))", stdin=b"text").stdout, b"text")
