"""A long session keeps nothing of its commands."""
import os
import socket

from cloche import sampled
from shell import FORK, REQUEST, RUN, STATUS, Shell, eventually, memory_file

TIMEOUT = 180


def state(s):
    with open(f"/proc/{s.process.pid}/smaps_rollup") as file:  # it counts pages; status sums up the batched counters of each processor
        anonymous_kib = next(int(line.split()[1]) for line in file if line.startswith("Anonymous:"))
    return anonymous_kib, len(os.listdir(f"/proc/{s.process.pid}/fd"))


def many(s, count, command, env=b"", env_count=0):
    strings_fd, null_fd = memory_file(command + env), os.open("/dev/null", os.O_RDWR)
    head = REQUEST.pack(RUN, 1, len(command), 0, env_count, 0)
    for _ in range(count):
        socket.send_fds(s.socket, [head], [strings_fd, null_fd, null_fd, null_fd])
        s.receive()
    os.close(strings_fd)
    os.close(null_fd)


def test_many_commands():
    with Shell() as s:
        for command in (b":", b"x=1; f() { echo $x; }; f; echo \"$(<<<x)\"", b"if", b"set -e; false", b"set +e; echo ${nothing?gone}"):
            many(s, 500, command, b"A=1\0PATH=/usr/bin:/bin\0LANG\0", 3)
            before = state(s)
            many(s, sampled(4000, 20000) if command == b":" else sampled(600, 3000), command, b"A=1\0PATH=/usr/bin:/bin\0LANG\0", 3)
            after = state(s)
            assert after[1] == before[1] and after[0] <= before[0] + 300, (command, before, after)


def test_many_copies():
    with Shell() as s:
        strings_fd, null_fd = memory_file(b":"), os.open("/dev/null", os.O_RDWR)

        def copies(count):
            for _ in range(count):
                read_fd, write_fd = os.pipe()
                socket.send_fds(s.socket, [REQUEST.pack(FORK, 1, 1, 0, 0, 0)], [strings_fd, null_fd, null_fd, null_fd, write_fd])
                os.close(write_fd)
                assert s.receive().pid > 0 and len(os.read(read_fd, 100)) == STATUS.size and os.read(read_fd, 1) == b""
                os.close(read_fd)

        copies(100)
        before = state(s)
        copies(sampled(400, 2000))
        after = state(s)
        assert after[1] == before[1] and after[0] <= before[0] + 300, (before, after)
        eventually(lambda: not s.descendants())
        os.close(strings_fd)
        os.close(null_fd)


def test_many_jobs_and_interrupts():
    with Shell() as s:
        many(s, 100, b"sleep 0 & /bin/true; wait")
        before = state(s)
        # A table of bash's, of 512 KiB, comes and goes with jobs that end before or after it waits: so many commands that 2 KiB of each would show.
        many(s, sampled(500, 1500), b"sleep 0 & /bin/true; wait")
        after = state(s)
        assert after[1] == before[1] and after[0] <= before[0] + 512 + 400, (before, after)
