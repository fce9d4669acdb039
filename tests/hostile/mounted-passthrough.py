"""Large read-only files of a mount are read by the kernel past the server
(src/helpers/fs/passthrough.h). A guest's attacks on them, and the effects on processes outside.
Attacks by a lying server are in tests/fs/passthrough.py."""
import hashlib
import os
import random
import signal
import time

from cloche import call_words, descendants, equal, guest_value, need_root, skip, start, wait_for

MIB = 1 << 20
SIZE = 64 * MIB
HOLD = """
import os, sys, time
def read(path):
    piece, total = bytearray(1 << 20), 0
    with open(path, 'rb', 0) as file:
        while n := file.readinto(piece): total += n
    return total
held = open('/workspace/m/large', 'rb', 0)
print(read('/workspace/m/large'), flush=True)
time.sleep(60)
"""


def large():
    need_root()
    if not os.path.exists("/dev/fuse") or tuple(map(int, os.uname().release.split(".")[:2])) < (6, 9):
        skip("needs /dev/fuse and Linux 6.9")
    host = os.path.abspath("host")
    os.makedirs(host, exist_ok=True)
    data = random.Random(3).randbytes(MIB) * (SIZE // MIB)
    with open(host + "/large", "wb") as file:
        file.write(data)
    os.chmod(host + "/large", 0o666)
    return host, data


def name_of(pid):
    try:
        return open(f"/proc/{pid}/comm").read().strip()
    except OSError:
        return ""


class Holding:
    """A run that has read the large file, and has it open still."""

    def __init__(self, host, **options):
        words = [word for name, value in {"mount": f"/workspace/m={host}", "timeout": 40, **options}.items() for word in (f"--{name}", str(value))]
        self.cloche = start("run", "python", "-c", HOLD, *words)

    def __enter__(self):
        equal(self.cloche.stdout.readline().strip(), str(SIZE).encode())
        self.all = descendants(self.cloche.pid)
        return self

    def __exit__(self, *_):
        self.cloche.send_signal(signal.SIGTERM)
        self.cloche.communicate(timeout=30)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in self.all), "all of them to be gone")

    def find(self, name):
        return [pid for pid in self.all if name_of(pid) == name][0]

    def read_by_server(self):
        with open(f"/proc/{self.find('cloche-fs')}/io") as file:
            return int(file.readline().split()[1])


def test_the_server_reads_none_of_it():
    host, _ = large()
    with Holding(host) as default:
        assert default.read_by_server() < MIB, default.read_by_server()
    with Holding(host, rule="**=*") as free:
        assert free.read_by_server() >= SIZE, "the twin: what may be written is read by the server"


def test_the_keeper_keeps_nothing():
    """A copy of the connection would let the guest of a dead server wait for ever, one of a file keep it on the host's disk."""
    host, _ = large()
    with Holding(host) as run:
        keeper = f"/proc/{run.find('cloche-keeper')}/fd"
        wait_for(lambda: not [name for name in os.listdir(keeper) if os.readlink(f"{keeper}/{name}").startswith(("/dev/fuse", "/fuse", host + "/large"))],
                 "the keeper to have closed all")


def test_two_boxes_of_one_directory():
    host, _ = large()
    with Holding(host) as one, Holding(host) as other:
        assert one.read_by_server() < MIB and other.read_by_server() < MIB


def test_a_server_that_is_killed_leaves_nobody_waiting():
    host, _ = large()
    with Holding(host) as run:
        os.kill(run.find("cloche-fs"), signal.SIGKILL)
        run.cloche.wait(timeout=30)
        assert run.cloche.returncode == 1


def test_the_guest_reads_and_does_not_write():
    host, data = large()
    answers = guest_value("""
        import hashlib
        path = '/workspace/m/large'
        fd = os.open(path, os.O_RDONLY)
        def ioctl(request, text=b'x' * 64):
            import fcntl
            return attempt(fcntl.ioctl, fd, request, text)
        with mmap.mmap(fd, 0, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ) as view:
            digests = [hashlib.sha256(view).hexdigest(), hashlib.sha256(open(path, 'rb').read()).hexdigest()]
            hole = attempt(view.madvise, 9)
        tried = [attempt(os.open, path, flags) for flags in (os.O_WRONLY, os.O_RDWR, os.O_RDONLY | os.O_TRUNC, os.O_RDWR | os.O_DIRECT)]
        tried += [attempt(os.open, f'/proc/self/fd/{fd}', os.O_RDWR), attempt(mmap.mmap, fd, 0, mmap.MAP_SHARED, mmap.PROT_WRITE), hole]
        others = [attempt(os.pwrite, fd, b'x', 0), attempt(os.ftruncate, fd, 0), attempt(os.posix_fallocate, fd, 0, 1)]
        return digests, tried, others, [attempt(os.open, path, os.O_RDONLY | os.O_DIRECT), ioctl(0x5452)]
    """, mount=f"/workspace/m={host}")
    digest = hashlib.sha256(data).hexdigest()
    equal(answers[0], [digest, digest])
    equal(answers[1], ["EACCES"] * 7)
    assert "ok" not in answers[2], answers
    equal(answers[3][0], "ok")
    with open(host + "/large", "rb") as file:
        equal(hashlib.sha256(file.read()).hexdigest(), digest)


def test_the_guest_does_not_reach_the_keeper():
    """Neither the server's socket, nor the device, nor the calls that make and use an id."""
    host, _ = large()
    answers = guest_value("""
        import fcntl
        BACKING_OPEN, BACKING_CLOSE, OPEN_TREE, MOUNT_SETATTR, STATMOUNT = 0x4010e501, 0x4004e502, 428, 442, 457
        fd = os.open('/workspace/m/large', os.O_RDONLY)
        sockets = [name for name in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{name}') and stat.S_ISSOCK(os.stat(f'/proc/self/fd/{name}').st_mode)]
        programs = []
        for pid in filter(str.isdigit, os.listdir('/proc')):
            try:
                programs.append(open(f'/proc/{pid}/comm').read().strip())
            except OSError:
                pass
        calls = [attempt(fcntl.ioctl, fd, BACKING_OPEN, struct.pack('iIQ', fd, 0, 0)), attempt(fcntl.ioctl, fd, BACKING_CLOSE, struct.pack('I', 1)),
                 syscall(OPEN_TREE, fd, b'', 0x1001), syscall(MOUNT_SETATTR, fd, b'', 0x1000, bytes(32), 32)]
        devices = [attempt(os.open, '/dev/fuse', os.O_RDWR), attempt(os.mknod, '/tmp/fuse', stat.S_IFCHR | 0o666, os.makedev(10, 229))]
        maps = [line.split(None, 5)[5].strip() for line in open('/proc/self/maps') if '/large' in line]
        return len([s for s in sockets if int(s) > 2]), programs, calls, devices, maps
    """, mount=f"/workspace/m={host}")
    assert answers[0] <= 1, "the agent's own channel and no other"
    assert not [name for name in answers[1] if name.startswith(("cloche-fs", "cloche-keeper"))], answers
    assert "ok" not in answers[2] and all(isinstance(answer, str) for answer in answers[2]), answers
    assert "ok" not in answers[3], answers


def test_opening_again_and_again_stops_no_other_box():
    """Each open and close is a packet to the keeper: others are served all the same, and the mount works on."""
    host, _ = large()
    code = """
import os, time
def f():
    print('begun', flush=True)
    while True:
        for _ in range(1000): os.close(os.open('/workspace/m/large', os.O_RDONLY))
"""
    flood = start(*call_words("python", code, mount=f"/workspace/m={host}", timeout=40))
    try:
        wait_for(lambda: [pid for pid in descendants(flood.pid) if name_of(pid) == "cloche-fs"], "the run to begin")
        time.sleep(0.5)
        equal(guest_value("return len(open('/workspace/m/large', 'rb').read())", mount=f"/workspace/m={host}"), SIZE)
    finally:
        flood.send_signal(signal.SIGTERM)
        flood.communicate(timeout=30)
    equal(flood.returncode, 143)
