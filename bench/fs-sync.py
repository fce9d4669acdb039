#!/usr/bin/python3
"""The cost of writing a run's changes to the host: cloche-sync and rsync -a, the same result on the
same disk.

    bench/fs-sync.py [--build DIR] [--rounds N] [--files N] [--memory]

Run as root, with rsync installed (apt-get install rsync). The tree has --files files; as many are
made new in it and a tenth is changed. rsync -a gets a directory with the final state; cloche-sync a
list of changes and numbered contents on a tmpfs, as cloche-fs leaves them. rsync waits for no disk
and a crash leaves a mixture; "and sync" adds the wait for the disk, which cloche-sync's figure
includes. Both have their sources in memory. The target is a fresh ext4 in a file, and no tree is
removed before the end: ext4 walks around inodes that were freed in the last minutes, one by one.
--memory: a tmpfs."""
import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
options = argparse.ArgumentParser()
options.add_argument("--build", default=os.path.join(SOURCE, "build"))
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--files", type=int, default=10000)
options.add_argument("--memory", action="store_true")
options = options.parse_args()
os.environ["CLOCHE_BUILD"] = options.build
sys.path.insert(0, os.path.join(SOURCE, "tests/sync"))
import synced  # noqa: E402


def path_of(i, kind):
    return f"d{i // 500}/{kind}{i}.txt"


def fill(root, kind, numbers, text):
    for i in numbers:
        path = os.path.join(root, path_of(i, kind))
        if i % 500 == 0 or not os.path.isdir(os.path.dirname(path)):
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as file:
            file.write(f"{text} {i}\n" * 60)


def cpu():
    """Processor seconds of ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def settle():
    subprocess.run(["sync"], check=True)


def with_rsync(s, ready):
    settle()
    begun, used = time.monotonic(), cpu()
    subprocess.run(["rsync", "-a", ready + "/", s.root + "/"], check=True)
    written = time.monotonic()
    subprocess.run(["sync", "-f", s.root], check=True)
    return written - begun, time.monotonic() - begun, cpu() - used


def with_sync(s, changes):
    s.begin()
    frame = s.control.frame("apply", {"changes": changes})
    s.settle()
    settle()
    begun, used = time.monotonic(), cpu()
    s.begin()
    s.control.last += 1
    result = s.control.answer(s.control.send_frame(frame))
    taken = time.monotonic() - begun
    assert len(result["synced"]) == len(changes) and not result["failed"]
    s.settle()
    return taken, cpu() - used


def changes_of(s):
    rows = [s.created(path_of(i, "new"), f"new {i}\n" * 60) for i in range(options.files)]
    return rows + [s.modified(path_of(i, "old"), f"changed {i}\n" * 60) for i in range(0, options.files, 10)]


def mount_image(folder):
    """A private file system, gone with this process."""
    image = folder + ".image"
    subprocess.run(["truncate", "-s", "8G", image], check=True)
    subprocess.run(["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, folder], check=True)
    os.unlink(image)


def round_of(top, number):
    """Times of rsync, rsync and sync, cloche-sync, and their processors'; each in a tree of its own."""
    times = []
    for which in ("rsync", "cloche"):
        s = synced.Synced(folder=f"{top}/{which}{number}")
        try:
            synced.mount("tmpfs", s.contents, "tmpfs", 0, f"size=1g,uid={synced.OWNER}")
            fill(s.root, "old", range(options.files), "old")
            synced.own(s.root)
            if which == "cloche":
                times += with_sync(s, changes_of(s))
            else:
                ready = s.contents + "/ready"
                shutil.copytree(s.root, ready)
                fill(ready, "new", range(options.files), "new")
                fill(ready, "old", range(0, options.files, 10), "changed")
                synced.own(ready)
                times += with_rsync(s, ready)
        finally:
            s.stop()
            synced.libc.umount2(os.fsencode(s.contents), 2)
    return times


def main():
    if not shutil.which("rsync"):
        sys.exit("bench/fs-sync.py: rsync is not installed (apt-get install rsync)")
    synced.leave_namespace()
    with tempfile.TemporaryDirectory(prefix="cloche-bench-", ignore_cleanup_errors=True) as folder:
        if options.memory:
            synced.mount("tmpfs", folder, "tmpfs", 0, "size=8g")
        else:
            mount_image(folder)
        try:
            rows = [round_of(folder, i) for i in range(options.rounds)]
        finally:
            synced.libc.umount2(os.fsencode(folder), 2)
    rsync, rsync_sync, rsync_cpu, ours, ours_cpu = (statistics.median(column) * 1000 for column in zip(*rows))
    print(f"{options.files} files made, {options.files // 10} changed, p50 of {options.rounds}; milliseconds, and of processors")
    print(f"{'rsync -a':24} {rsync:7.0f}")
    print(f"{'rsync -a, and sync':24} {rsync_sync:7.0f} {rsync_cpu:7.0f}")
    print(f"{'cloche-sync':24} {ours:7.0f} {ours_cpu:7.0f}   {ours / rsync:.2f} of rsync, {ours / rsync_sync:.2f} of rsync and sync; "
          f"{ours_cpu / rsync_cpu:.2f} of the processors")


main()
