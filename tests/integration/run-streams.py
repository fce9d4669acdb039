"""Streams of a run are exact, of any size, and never hold the run up for ever."""
import hashlib
import os
import subprocess
from cloche import CLI, HANG, cli, equal, run, start

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
    # os.write may write less than requested to a pipe; the output is a whole number of successful writes.
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


def first_line_of(*words):
    """As in a shell's `cloche … | head -1`: the line, and the exit code of cloche."""
    process = start(*words)
    line = process.stdout.readline()
    process.stdout.close()
    errors = process.stderr.read()
    return line, process.wait(HANG), errors


def test_a_reader_that_goes_away_ends_a_script_by_sigpipe():
    equal(first_line_of("run", "bash", "-c", "while echo line; do :; done"), (b"line\n", 141, b""))


def test_a_reader_that_goes_away_is_an_error_to_a_script_that_ignores_sigpipe():
    line, code, errors = first_line_of("run", "python", "-c", "while True: print('line')")
    equal((line, code), (b"line\n", 1))
    assert b"BrokenPipeError" in errors, errors
    line, code, errors = first_line_of("run", "javascript", "-c", "setInterval(() => console.log('line'), 1)")
    equal((line, code), (b"line\n", 1))
    assert b"EPIPE" in errors, errors


def test_a_reader_that_goes_away_ends_a_script_of_a_set_up_too():
    create = cli("prefix", "create", "pipes", "python", "-c", "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)")
    equal(create.code, 0, create)
    line, code, errors = first_line_of("run", "--prefix", "pipes", "python", "-c", "while True: print('line', flush=True)")
    equal(cli("prefix", "drop", "pipes").code, 0)
    assert line == b"line\n" and code in (1, 141), (line, code, errors)


def test_a_script_that_writes_no_more_goes_on_without_a_reader():
    code = "import sys; print('line', flush=True); sys.stdin.readline(); print('end', file=sys.stderr)"
    process = start("run", "python", "-c", code, stdin=subprocess.PIPE)
    equal(process.stdout.readline(), b"line\n")
    process.stdout.close()
    process.stdin.write(b"go\n")
    process.stdin.close()
    equal((process.stderr.read(), process.wait(HANG)), (b"end\n", 0))


def test_a_full_disk_is_told():
    with open("/dev/full", "wb") as full:
        process = start("run", "bash", "-c", "while echo line; do :; done", stdout=full)
        errors = process.communicate(timeout=HANG)[1]
    assert b"cannot write to stdout: No space left on device" in errors, errors
    equal(process.returncode, 141)


def test_output_that_was_lost_fails():
    for command in ("run", "call"):
        with open("/dev/full", "wb") as full:
            equal(start(command, "bash", "-c", "echo line", stdout=full).wait(HANG), 1, command)


def test_standard_streams_that_are_closed():
    for closing in ("<&-", ">&-", "2>&-", "<&- >&- 2>&-"):
        process = subprocess.run(["sh", "-c", f'"$0" run bash -c "echo line" {closing}', CLI], capture_output=True, timeout=HANG)
        equal((process.returncode, process.stdout), (0, b"" if ">&-" in closing.replace("2>&-", "") else b"line\n"), closing)
