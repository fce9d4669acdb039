"""A disk for the files of tests. ext4 without a journal looks, for each new file, at every inode of a group of blocks
that was freed in the last five minutes: after some ten thousand files of tests, that takes longer than all else that
is done with files. There root's tests have an ext4 with a journal in a file, in a namespace of mounts of their own."""
import ctypes
import os
import subprocess
import sys

CLONE_NEWNS, MS_BIND, MS_REC, MS_PRIVATE, MS_SHARED = 0x20000, 0x1000, 0x4000, 0x40000, 0x100000
GIB = 1 << 30
libc = ctypes.CDLL(None, use_errno=True)


def mount(source, target, flags):
    if libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def is_root_shared():
    with open("/proc/self/mountinfo") as file:
        return any(fields[4] == "/" and fields[6].startswith("shared:") for fields in map(str.split, file))


def own_namespace():
    """Make this process's mounts private, but shared among themselves where they were shared."""
    is_shared = is_root_shared()
    if libc.unshare(CLONE_NEWNS) < 0:
        raise OSError(ctypes.get_errno(), "unshare the mounts")
    mount("none", "/", MS_REC | MS_PRIVATE)
    if is_shared:
        mount("none", "/", MS_REC | MS_SHARED)


def is_slow(place):
    """True if it is on ext4 without a journal."""
    device = os.stat(place).st_dev
    link = f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"
    name = os.path.basename(os.readlink(link)) if os.path.islink(link) else ""
    return os.path.isdir("/proc/fs/ext4/" + name) and bool(name) and not any(entry.startswith(name + "-") for entry in os.listdir("/proc/fs/jbd2"))


def enter(directory, *places):
    """Replace these places, for this process and those that it starts, by directories of such a disk, whose file is
    made in `directory`. Call it before there are threads."""
    for place in places:
        os.makedirs(place, exist_ok=True)
    places = [place for place in places if is_slow(place)]
    if os.geteuid() or not places:
        return
    about, path, target = os.statvfs(directory), os.path.join(directory, f".disk-{os.getpid()}"), os.path.join(directory, f".mounted-{os.getpid()}")
    try:
        own_namespace()
        os.mkdir(target)
        with open(path, "wb") as file:
            file.truncate(min(16 * GIB, about.f_bavail * about.f_frsize // 10 * 8))
        subprocess.run(["mkfs.ext4", "-q", "-F", "-J", "size=64", "-E", "lazy_itable_init=1,lazy_journal_init=1,nodiscard", path], check=True)
        subprocess.run(["mount", "-o", "loop,data=writeback,nobarrier,noatime", path, target], check=True)
        for number, place in enumerate(places):
            own = f"{target}/{number}"
            os.mkdir(own)
            os.chmod(own, os.stat(place).st_mode & 0o7777)
            mount(own, place, MS_BIND)
    except (OSError, subprocess.CalledProcessError) as error:
        print(f"tests: their files are on this slow disk, for another could not be made: {error}", file=sys.stderr)
    finally:
        if os.path.exists(path):
            os.unlink(path)
        subprocess.run(["umount", "--lazy", target], check=False, stderr=subprocess.DEVNULL)
        if os.path.isdir(target):
            os.rmdir(target)
