"""A set-up that fails, or leaves fork blockers, is refused with the reason; nothing is kept and
nothing stays behind."""
import os
import re
from cloche import cli, equal

os.environ["XDG_DATA_HOME"] = os.path.abspath("data")


def refused(code, says, *words):
    finished = cli("prefix", "create", "a", "python", "-c", code, *words)
    equal((finished.code, finished.stdout), (1, b""), finished)
    last = finished.stderr.decode().splitlines()[-1]
    assert last.startswith("cloche: the set-up failed: ") and re.search(says, last), finished
    equal(os.listdir("data/cloche/prefixes") if os.path.exists("data") else [], [])
    return finished.stderr.decode()


def test_an_exception_with_its_line():
    said = refused("a = 1\nb = a / 0", "ZeroDivisionError: division by zero")
    assert "line 2" in said and "agent" not in said, said


def test_a_syntax_error():
    refused("x = ", "SyntaxError")


def test_an_exit():
    refused("import sys; sys.exit(3)", "SystemExit|ended")


def test_the_process_ends_itself():
    refused("import os; os._exit(0)", "ended")


def test_a_crash():
    refused("import ctypes; ctypes.string_at(0)", "ended")


def test_an_endless_loop():
    refused("while True: pass", "1000 ms", "--timeout", "1")


def test_an_endless_sleep():
    refused("import time; time.sleep(1000)", "500 ms", "--timeout", "0.5")


def test_too_much_memory():
    refused("x = bytearray(200 << 20)", "MemoryError|ran out of memory; the limit is 67108864 bytes", "--memory", "64")


def test_a_thread_left_alive():
    refused("import threading, time\nthreading.Thread(target=time.sleep, args=[1000], daemon=True).start()", "thread")


def test_a_process_left_alive():
    refused("import os, time\nif os.fork() == 0: time.sleep(1000)", "process|child")


def test_a_file_left_open():
    refused("kept = open('/tmp/left', 'w')", "/tmp/left")


def test_a_socket_left_open():
    refused("import socket\nkept = socket.socket()", "socket")


def test_a_thread_that_was_joined_and_a_file_that_was_closed_are_well():
    code = "import threading, os\nt = threading.Thread(target=os.getpid); t.start(); t.join()\nwith open('/tmp/x', 'w') as o: o.write('x')"
    finished = cli("prefix", "create", "a", "python", "-c", code)
    equal((finished.code, finished.stderr), (0, b""))
