"""The command line takes what people type: sizes and times with units, files for code, environment by name, JSON from files."""
import json
import os
from cloche import cli, equal, run, write_file

F = "def f(*a, **k): return [a, k]"


def plain(*words, **more):
    """The value that a call prints."""
    finished = cli(*words, **more)
    equal(finished.code, 0, finished)
    return json.loads(finished.stdout)


def refused(*words, says, **more):
    finished = cli(*words, **more)
    equal(finished.code, 2, finished)
    text = finished.stderr.decode()
    equal(len(text.splitlines()), 1, finished)
    for word in [says] if isinstance(says, str) else says:
        assert word in text, (word, finished)


# ---- sizes and times ------------------------------------------------------------------------------------------

MEMORY = "import resource; return resource.getrlimit(resource.RLIMIT_FSIZE)[0]"


def test_sizes_with_units():
    for text, size in [("1G", 1 << 30), ("1.5G", 3 << 29), ("512M", 512 << 20), ("64MiB", 64 << 20), ("2048k", 2 << 20), ("3", 3 << 20),
                       ("1gb", 1 << 30)]:
        equal(plain("call", "python", "-c", MEMORY, "--file-size", text), size, text)


def test_a_size_that_is_none_says_the_range_and_the_form():
    refused("call", "python", "-c", F, "--memory", "much", says=["--memory", "'much'", "8M", "1T", "512M"])
    for text in ("1X", "1G2", "-1G", "", ".", "1e9", "0x10M", "inf", "nan", " 1G", "1M", "2T"):
        refused("call", "python", "-c", F, "--memory", text, says="--memory")


def test_times_with_units():
    for text in ("5s", "5", "5000ms", "5.0", "0.5m"):
        equal(cli("call", "python", "-c", "return 1", "--timeout", text, "--cpu-time", "1h30m").code, 0, text)
    equal(cli("run", "python", "-c", "while True: pass", "--timeout", "300ms").code, 124)


def test_a_time_that_is_none_says_the_range_and_the_form():
    refused("call", "python", "-c", F, "--timeout", "soon", says=["--timeout", "'soon'", "1ms", "1d", "1m30s"])
    for text in ("5x", "1m30", "-5s", "", "ms", "1e3", "25h", "2d"):
        refused("call", "python", "-c", F, "--timeout", text, says="--timeout")
