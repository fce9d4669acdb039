"""Frames on the agent's socket."""
import os
from select import select
from os import (_exit, close, dup2, fstat, getpid, readv, register_at_fork, set_blocking,
                write)

wire = part("wire")
BadFrame, check_frame, frame_head = wire["BadFrame"], wire["check_frame"], wire["frame_head"]
SMALL = 1 << 16
# High numbers stay clear of what user code opens or closes by habit; the low ones serve a small RLIMIT_NOFILE.
NUMBERS = (1000, 500, 200, 60, 15)


class Channel:
    def __init__(self, fd):
        self.fd = move(fd)
        self.pid = getpid()
        self.socket = identity(self.fd)
        set_blocking(self.fd, True)
        register_at_fork(after_in_child=self.drop)

    def drop(self):
        """A forked child has no business on the channel, and must not hold it open when the agent dies."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            close(fd)

    def rest(self):
        """A template's channel: libcloche-guest writes to it from now on, and forked children close it."""
        self.fd = -1

    def mine(self):
        return getpid() == self.pid

    def read(self):
        """One frame as (JSON bytes, attachments), or None at the end of the stream."""
        head = self.exactly(8)
        if head is None:
            return None
        length, json_length = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:], "little")
        check_frame(length, json_length)
        body = self.exactly(length - 4)
        if body is None:
            return None
        view = memoryview(body)
        return bytes(view[:json_length]), view[json_length:]

    def has_input(self):
        return bool(select([self.fd], [], [], 0)[0])

    def exactly(self, size):
        buffer = bytearray(size)
        view = memoryview(buffer)
        have = 0
        while have < size:
            self.check()
            count = readv(self.fd, [view[have:]])
            if count == 0:
                return None
            have += count
        return buffer

    def send(self, text, attachments=(), size=0):
        head = frame_head(len(text), size)
        if size + len(text) <= SMALL:
            self.write(b"".join((head, text, *attachments)))
            return
        self.write(head)
        self.write(text)
        for data in attachments:
            self.write(data)

    def write(self, data):
        view = memoryview(data)
        done = 0
        while done < len(view):
            self.check()
            done += write(self.fd, view[done:])

    def check(self):
        """User code may have closed the descriptor, and something else may bear its number now."""
        if identity(self.fd) != self.socket:
            _exit(1)


def move(fd):
    for number in NUMBERS:
        try:
            dup2(fd, number, False)
        except OSError:
            continue
        close(fd)
        return number
    os.set_inheritable(fd, False)
    return fd


def identity(fd):
    try:
        status = fstat(fd)
    except OSError:
        return None
    return status.st_dev, status.st_ino
