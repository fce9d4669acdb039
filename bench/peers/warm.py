#!/usr/bin/python3
"""A warm CPython that forks a child for every run, and measures it: warm.py fork|multiprocessing.

python.py starts it and requests blocks. One JSON line in, {"question", "count"}; one out, {"samples"} or {"error"}.
It measures inside the warm process: a caller elsewhere pays one more socket round trip.
"""
import ast  # noqa: F401  imports of real guests are part of a warm heap
import collections  # noqa: F401
import contextlib
import gc
import json
import os
import re  # noqa: F401
import signal
import socket
import sys
import time

from measure import rollup_kb

HEAP_KB = 20 * 1024
WARM_UP = 3
QUESTIONS = {
    "trivial": ("result = 40 + 2", 42),
    "host_call": ("result = host(41)", 42),
    "fib24": ("def fib(n):\n    return n if n < 2 else fib(n - 1) + fib(n - 2)\nresult = fib(24)", 46368),
}
HOW = sys.argv[1]
# Only where it is measured: its modules do work at every fork, and a bare fork takes twice as long.
if HOW == "multiprocessing":
    import multiprocessing
    FORKING = multiprocessing.get_context("fork")


def milliseconds_since(started):
    return (time.perf_counter() - started) * 1000


def fill_heap():
    """Small objects, like a program's, until the process has 20 MB of its own."""
    heap = []
    while rollup_kb("Anonymous") < HEAP_KB:
        heap.append([(number, str(number)) for number in range(2000)])
    return heap


def guest(channel, source):
    def host(number):
        channel.send({"host": number})
        return channel.recv()
    scope = {"host": host}
    exec(compile(source, "guest", "exec"), scope)
    channel.send({"result": scope["result"]})


def converse(channel):
    while "host" in (message := channel.recv()):
        channel.send(message["host"] + 1)
    return message["result"]


class JsonChannel:
    """A JSON line a message over a unix socket: pickle is unsafe for a guest's messages."""

    def __init__(self, end):
        self.end = end

    def send(self, message):
        self.end.sendall(json.dumps(message).encode() + b"\n")

    def recv(self):
        data = b""
        while not data.endswith(b"\n"):
            part = self.end.recv(4096)
            if not part:
                raise EOFError("the guest closed its socket")
            data += part
        return json.loads(data)


def fork_into(work, *arguments):
    """The child must never return into the code below."""
    pid = os.fork()
    if pid:
        return pid
    try:
        work(*arguments)
    finally:
        os._exit(0)


def start_fork(source):
    ours, theirs = socket.socketpair()
    pid = fork_into(guest, JsonChannel(theirs), source)
    theirs.close()
    return JsonChannel(ours), lambda: (os.waitpid(pid, 0), ours.close())


def start_multiprocessing(source):
    ours, theirs = FORKING.Pipe()
    process = FORKING.Process(target=guest, args=(theirs, source))
    process.start()
    theirs.close()
    return ours, lambda: (process.join(), process.close(), ours.close())


START = {"fork": start_fork, "multiprocessing": start_multiprocessing}


def sample_run(question):
    source, expected = QUESTIONS[question]
    started = time.perf_counter()
    channel, finish = START[HOW](source)
    value = converse(channel)
    answer = milliseconds_since(started)
    finish()
    if value != expected:
        raise ValueError(f"{question} gave {value}")
    return answer, milliseconds_since(started)


def sample_fork_exit_wait():
    started = time.perf_counter()
    pid = fork_into(lambda: None)
    os.waitpid(pid, 0)
    return milliseconds_since(started), None


def echo(ours, theirs):
    ours.close()
    while message := theirs.recv(100):
        theirs.sendall(message)


@contextlib.contextmanager
def echoing_process():
    ours, theirs = socket.socketpair()
    pid = fork_into(echo, ours, theirs)
    theirs.close()
    yield ours
    ours.close()
    os.waitpid(pid, 0)


def sample_round_trip(peer, message=bytes(100)):
    started = time.perf_counter()
    peer.sendall(message)
    if len(peer.recv(100)) != 100:
        raise ValueError("short echo")
    return milliseconds_since(started), None


def sampler(question, stack):
    if question == "fork_exit_wait":
        return sample_fork_exit_wait
    if question == "socket_round_trip":
        peer = stack.enter_context(echoing_process())
        return lambda: sample_round_trip(peer)
    return lambda: sample_run(question)


def answer_and_stay(channel):
    guest(channel, QUESTIONS["trivial"][0])
    signal.pause()


def idle_child():
    ours, theirs = socket.socketpair()
    pid = fork_into(answer_and_stay, JsonChannel(theirs))
    converse(JsonChannel(ours))
    return pid


def measure_memory(count):
    before = rollup_kb("Pss")
    pids = [idle_child() for _ in range(count)]
    after = sum(rollup_kb("Pss", pid) for pid in ["self", *pids])
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return {"kb": (after - before) / count}


def answer(request):
    if request["question"] == "memory":
        return measure_memory(request["count"])
    with contextlib.ExitStack() as stack:
        sample = sampler(request["question"], stack)
        for _ in range(WARM_UP):
            sample()
        return {"samples": [sample() for _ in range(request["count"])]}


def main():
    heap = fill_heap()
    gc.freeze()  # otherwise a collection in the child would write to, and so copy, the whole heap
    about = {"heap_kb": rollup_kb("Anonymous"), "huge_kb": rollup_kb("AnonHugePages"), "objects": len(heap)}
    print(json.dumps(about), flush=True)
    for line in sys.stdin:
        try:
            reply = answer(json.loads(line))
        except Exception as error:  # the driver skips this measurement and goes on
            reply = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)


if __name__ == "__main__":
    main()
