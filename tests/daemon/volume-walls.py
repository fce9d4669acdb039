"""Attacks of programs on a volume and its quota; each act without the attack is permitted."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from volume_client import MIB, SMALL, Volumes, at, shell

# Writes until the wall, then says how many bytes it has, and why it stopped.
FILL = """
import os, sys
def fill(fd, piece=b'x' * 65536):
    done = 0
    try:
        while True:
            done += os.write(fd, piece)
    except OSError as e:
        return done, e.strerror
"""


def python(frames, code, sandbox="s"):
    answer = frames.call("exec", sandbox=sandbox, command="python3 -", stdin=FILL + code)
    return answer["stdout"] + answer["stderr"]


def usage(frames):
    return frames.call("volume.get", volume="data")["usage"]


class Filled(Volumes):
    """A volume in a sandbox."""

    def __enter__(self):
        super().__enter__()
        self.server = self.daemon()
        self.frames = self.server.frames()
        self.frames.call("volume.create", volume="data", sizeBytes=SMALL)
        self.frames.call("sandbox.create", sandbox="s", volumes=[at("/data")])
        return self.frames

    def __exit__(self, *error):
        self.frames.close()
        self.server.__exit__(*error)
        self.wait_until_unused()
        super().__exit__(*error)


def test_the_quota_of_bytes():
    with Filled() as frames:
        size = usage(frames)["bytes"]
        # Permitted: a file within it; a sparse one takes only what is written.
        equal(python(frames, "fd = os.open('/data/f', os.O_CREAT | os.O_RDWR); os.write(fd, b'x' * 1000000); os.truncate('/data/f', 1 << 27); print('ok')"), "ok\n")
        assert usage(frames)["usedBytes"] < 2 * MIB
        # A file, and behind a hole; then another name, a deleted file that is open, a file without a name, attributes.
        told = python(frames, """
fd = os.open('/data/f', os.O_RDWR); os.lseek(fd, 1 << 26, 0)
done, why = fill(fd); print(done < 16 << 20, why)
os.link('/data/f', '/data/other')
more = os.open('/data/more', os.O_CREAT | os.O_RDWR)
print(fill(more))
os.unlink('/data/f'); os.unlink('/data/other')
print(fill(more)[0] < 65536, 'while it is open')
os.close(fd)
gone = os.open('/data', os.O_TMPFILE | os.O_RDWR)
done, why = fill(gone); print(4 << 20 < done < 16 << 20, why)
os.close(gone); os.close(more)
""")
        equal(told, "True No space left on device\n(0, 'No space left on device')\nTrue while it is open\nTrue No space left on device\n")
        equal(python(frames, """
os.unlink('/data/more')
count = why = 0
try:
    for i in range(1000):
        os.close(os.open(f'/data/x{i}', os.O_CREAT | os.O_RDWR))
        for j in range(3):
            os.setxattr(f'/data/x{i}', f'user.a{j}', bytes([i % 256]) * 1200 + str((i, j)).encode())
        count += 3600
    fd = os.open('/data/rest', os.O_CREAT | os.O_RDWR)
    print(fill(fd)[0] + count * 1 < 16 << 20)
except OSError as e:
    print(count < 16 << 20, e.strerror)
"""), "True\n")
        left = usage(frames)
        assert left["usedBytes"] <= left["bytes"] == size, left


def test_the_quota_of_entries():
    with Filled() as frames:
        most = usage(frames)["entries"]
        equal(python(frames, """
def make(i):
    (os.mkdir if i % 3 == 0 else os.mkfifo if i % 3 == 1 else lambda p: os.symlink('x' * 100, p))(f'/data/{i}')
count = 0
try:
    while True:
        make(count); count += 1
except OSError as e:
    print(count < MOST, e.strerror)
for i in range(100):
    os.link('/data/2', f'/data/link{i}', follow_symlinks=False)
print('another name is no entry')
os.unlink('/data/1'); make(5000)
try:
    make(5001)
except OSError as e:
    print(e.strerror)
""".replace("MOST", str(most))), "True No space left on device\nanother name is no entry\nNo space left on device\n")
        full = usage(frames)
        equal(full["usedEntries"], full["entries"])


def test_what_would_give_rights():
    with Filled() as frames:
        told = shell(frames, "cp /usr/bin/id /data/id && /data/id -u; chmod 6755 /data/id && /data/id -u; chown 0 /data/id; chgrp 0 /data/id; "
                     "mknod /data/d c 1 3; mknod /data/b b 7 0; mkfifo /data/p && echo pipe; "
                     "chattr +i /data/id 2>/dev/null || echo none; mount -o remount,suid /data 2>/dev/null || echo none; umount /data 2>/dev/null || echo none").splitlines()
        equal(told[:2], ["1000", "1000"])
        equal([line.split(": ")[-1] for line in told[2:]], ["pipe"] + ["none"] * 3 + ["Invalid argument"] * 2 + ["Operation not permitted"] * 2)
        # A mark in a user namespace of its own is no right either, and the attributes of the kernel are closed.
        equal(python(frames, """
for name in ('trusted.x', 'security.capability'):
    try:
        os.setxattr('/data/id', name, b'\\1\\0\\0\\2' + b'\\0' * 16)
        print(name)
    except OSError as e:
        print(e.strerror)
"""), "Operation not permitted\n" * 2)
        # Shared with a second sandbox, which has another user on the host.
        frames.call("sandbox.create", sandbox="two", volumes=[at("/data")])
        equal(shell(frames, "/data/id -u; stat -c '%u %a' /data/id; chmod 0700 /data/id && echo mine", "two"), "1000\n1000 6755\nmine\n")


def test_ways_out_of_it():
    with Filled() as frames:
        equal(shell(frames, "cd /data/../../.. && pwd; cd /data && ls -A .. | grep -c lost+found; ls -A; mkdir d && cd d && ls -di .. /data | awk '{print $1}' | uniq | wc -l"), "/\n0\n1\n")
        # Links lead where they lead in the sandbox that follows them.
        shell(frames, "ln -s /etc/shadow /data/shadow; ln -s /proc/1/root /data/root; ln -s ../../../.. /data/up; echo own > /workspace/f; ln -s /workspace/f /data/f")
        frames.call("sandbox.create", sandbox="two", volumes=[at("/data")])
        told = shell(frames, "cat /data/f /data/shadow; ls /data/root/; ls -d /data/up/root", "two")
        assert "own" not in told and "root:" not in told and told.count("No such file") + told.count("Permission denied") + told.count("cannot access") >= 3, told
        equal(shell(frames, "cat /data/f"), "own\n")
        # Neither sandbox can move or remove the place, or open the device below it.
        told = shell(frames, "mv /data /x; rmdir /data; ls /dev/loop0; cat /dev/block/7:0").splitlines()
        assert len(told) == 4 and all("busy" in line for line in told[:2]) and all("No such file" in line for line in told[2:]), told
        # An open descriptor of one sandbox is of no use after its end, and the other one goes on.
        frames.call("process.start", sandbox="two", command="exec 5>/data/held; sleep 1000")
        shell(frames, "until [ -e /data/held ]; do :; done")
        frames.call("sandbox.delete", sandbox="two")
        equal(shell(frames, "echo on > /data/on; cat /data/on"), "on\n")
