"""examples/call.c, a program of libcloche, does exactly as its source promises."""
import os
import subprocess
from cloche import BUILD, HANG, equal


def example():
    return subprocess.run([os.path.join(BUILD, "example-call")], capture_output=True, timeout=HANG)


def test_it_runs():
    finished = example()
    equal(finished.returncode, 0, finished)
    assert finished.stdout.strip(), finished
    equal(finished.stderr, b"")


def test_it_does_the_same_every_time():
    equal(example().stdout, example().stdout)
