"""A small disk for a test, as a daemon's state directory."""
import os
import subprocess

from cloche import need_root

BYTES = 8 << 20


class Disk:
    """fill(left): fill all but so many bytes. fill_files(left): use up all but so many files."""

    def __init__(self, files=0):
        self.path = os.path.abspath("disk")
        self.filler = os.path.join(self.path, "filler")
        self.files = files  # 0: the file system's maximum
        self.options = ("--state-dir", os.path.join(self.path, "state"))

    def __enter__(self):
        need_root()
        os.mkdir(self.path)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={BYTES},nr_inodes={self.files},mode=711", "none", self.path], check=True)
        path = self.path
        while path != "/":  # the daemon's user has to pass
            os.chmod(path, os.stat(path).st_mode | 0o011)
            path = os.path.dirname(path)
        return self

    def fill(self, left=0):
        with open(self.filler, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(1 << 16))
            except OSError:
                pass
            size = file.tell() - left
            file.truncate(max(size, 0))

    def free(self):
        os.unlink(self.filler)

    def free_files(self):
        return os.statvfs(self.path).f_ffree

    def fill_files(self, left=0):
        os.mkdir(self.filler)
        for number in range(self.free_files() - left):
            open(os.path.join(self.filler, str(number)), "x").close()

    def empty_files(self):
        for name in os.listdir(self.filler):
            os.unlink(os.path.join(self.filler, name))
        os.rmdir(self.filler)

    def __exit__(self, *_):
        subprocess.run(["umount", "-l", self.path], check=True)
