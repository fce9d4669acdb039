#!/usr/bin/python3
"""The cost of images, beside the same act without one.

    bench/images.py [--build DIR] [--rounds N] [--sandboxes N] [--only PART,…] [--json]     # as root

The image has Debian's python3 and bash, and files of 20 KiB up to 300 MiB. Parts: import (against `tar x`, in turn, on the
disk and on a tmpfs), shared (a second image that has the first one's files and one more; against mkfs.erofs if it is
installed), sandbox (one of this image, and one without an image), root (one with a writable root and one with
root, each with its first command, against a read-only one and the fork and exec of a process), commit (of 50 changed
files, in this image and in one of 300 files), build (20 steps that were built before), memory (N sandboxes of the image, each with a Python), call
(cold and forked, in the image and without one, in turn)."""
import argparse
import contextlib
import json
import os
import platform
import random
import shutil
import subprocess
import sys
import tempfile
import time

from parts import add_only, parts_of

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ("import", "shared", "sandbox", "root", "commit", "build", "memory", "call")
IMAGE_BYTES, FILE_BYTES = 300 << 20, 20 << 10
PAUSE = 0.2  # seconds between two creations: time in which the pool is filled
PYTHON = {"language": "python", "code": "def f(): return 1", "function": "f"}


class Bench:
    def __init__(self, options, directory):
        self.options, self.directory, self.rows = options, directory, []
        self.cloche = os.path.join(os.environ["CLOCHE_BUILD"], "cloche")
        self.number = 0

    def add(self, what, times, base=None, limit=""):
        """times and base: lists, or one figure each."""
        value, against = median(times), median(base) if base else None
        self.rows.append({"what": what, "value": value, **({"base": against, "ratio": value / against} if base else {}), **({"limit": limit} if limit else {})})
        if not self.options.json:
            print(f"| {what} | {value:.1f} | {f'{against:.1f} | {value / against:.2f}' if base else ' | '} | {limit} |", flush=True)

    def path(self, word, directory=None):
        self.number += 1
        return os.path.join(directory or self.directory, f"{word}-{self.number}")

    def store(self, directory=None):
        path = self.path("store", directory)
        os.mkdir(path, 0o700)
        return path

    def load(self, store, archive, name):
        ran([self.cloche, "image", "import", "--images", store, archive, name])


def median(times):
    times = sorted(times) if isinstance(times, list) else [times]
    return times[len(times) // 2]


def ran(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"images.py: {' '.join(command)} ended with {done.returncode}: {done.stderr[-500:]}")
    return done.stdout


def timed(act, *arguments):
    begun = time.perf_counter()
    act(*arguments)
    return (time.perf_counter() - begun) * 1e3


# ---- archives ---------------------------------------------------------------------------------------------------------

def make_root(bench):
    from image_trees import make_image
    root, chance = make_image(os.path.join(bench.directory, "root")), random.Random(1)
    size = int(ran(["du", "-sb", root]).split()[0])
    for number in range((IMAGE_BYTES - size) // FILE_BYTES):
        folder = f"{root}/usr/share/data/{number % 200}"
        os.makedirs(folder, exist_ok=True)
        with open(f"{folder}/{number}", "wb") as file:
            file.write(chance.randbytes(FILE_BYTES))
    return root


def make_archives(bench):
    """The image, and one that has a file more."""
    root = make_root(bench)
    one, other = (os.path.join(bench.directory, name) for name in ("one.tar", "other.tar"))
    ran(["tar", "-C", root, "-cf", one, "."])
    with open(root + "/usr/share/extra", "w") as file:
        file.write("another image")
    ran(["tar", "-C", root, "-cf", other, "."])
    return root, one, other


# ---- parts ------------------------------------------------------------------------------------------------------------

def unpack(archive, directory):
    os.mkdir(directory)
    ran(["tar", "-C", directory, "-xf", archive])


@contextlib.contextmanager
def on_tmpfs(bench):
    path = bench.path("tmpfs")
    os.mkdir(path)
    ran(["mount", "-t", "tmpfs", "tmpfs", path])
    try:
        yield path
    finally:
        ran(["umount", path])


def compare_import(bench, archive, directory, where, limit):
    ours, theirs = [], []
    for number in range(bench.options.rounds):
        target = os.path.join(directory, "tar")
        theirs.append(timed(unpack, archive, target))
        shutil.rmtree(target)
        store = bench.store(directory)
        ours.append(timed(bench.load, store, archive, "one"))
        shutil.rmtree(store)
    bench.add(f"import of {os.path.getsize(archive) >> 20} MiB on {where}, ms; base: tar x", ours, theirs, limit)


def part_import(bench):
    compare_import(bench, bench.one, bench.directory, "the disk", "3.00")
    with on_tmpfs(bench) as directory:
        compare_import(bench, bench.one, directory, "a tmpfs", "")


def disk_bytes(path):
    return int(ran(["du", "-s", "--block-size=1", path]).split()[0])


def part_shared(bench):
    first, second, store = [], [], None
    for _ in range(bench.options.rounds):
        if store:
            shutil.rmtree(store)
        store = bench.store()
        first.append(timed(bench.load, store, bench.one, "one"))
        before = disk_bytes(store)
        second.append(timed(bench.load, store, bench.other, "other"))
        after = disk_bytes(store)
    shutil.rmtree(store)
    bench.add("import of an image with the same files and one more, ms; base: of the first", second, first)
    bench.add("disk for both, MiB; base: for one", after / 2**20, before / 2**20)
    make = shutil.which("mkfs.erofs")
    if not make:
        return print("without mkfs.erofs", file=sys.stderr)
    images, times = [bench.path("erofs"), bench.path("erofs")], []
    for image in images:
        times.append(timed(ran, [make, "-T0", "-U", "00000000-0000-0000-0000-000000000000", image, bench.root]))
    bench.add("mkfs.erofs of the unpacked tree, ms; base: import", median(times), first)
    bench.add("disk for both as erofs, MiB; base: for one directory", sum(map(disk_bytes, images)) / 2**20, before / 2**20)


def creations(bench, frames, sides):
    """A sandbox of each side, in turn: milliseconds by side."""
    times = {side: [] for side in sides}
    for number in range(10 * bench.options.rounds + 3):
        for side, options in sides.items():
            name = f"s-{side}-{number}"
            took = timed(lambda: frames.call("sandbox.create", sandbox=name, **options))
            if number >= 3:  # the pools begin with the first
                times[side].append(took)
            frames.call("sandbox.delete", sandbox=name)
            time.sleep(PAUSE)
    return times


def part_sandbox(bench):
    with bench.daemon() as daemon, daemon.frames() as frames:
        times = creations(bench, frames, {"image": {"image": bench.digest}, "none": {}})
        bench.add("sandbox of a warm image, with a pause before it, ms; base: without an image", times["image"], times["none"], "10 ms")
        cold = {"image": {"image": bench.digest, "limits": {"openFiles": 999}}, "none": {"limits": {"openFiles": 999}}}
        times = creations(bench, frames, cold)
        bench.add("the same without a pool, ms", times["image"], times["none"])


def part_root(bench):
    image = {"image": bench.digest}
    sides = {"image": image, "writable": {**image, "writableRoot": True}, "root": {**image, "root": True}}
    floor = [timed(subprocess.run, ["/bin/true"]) for _ in range(10 * bench.options.rounds)]
    with bench.daemon() as daemon, daemon.frames() as frames:
        for how, more in (("from a pool", {}), ("without a pool", {"limits": {"openFiles": 999}})):
            times = {side: [] for side in sides}
            for number in range(10 * bench.options.rounds + 3):
                for side, options in sides.items():
                    took = timed(lambda: (frames.call("sandbox.create", sandbox=f"r-{side}", **options, **more), frames.call("exec", sandbox=f"r-{side}", command=":")))
                    if number >= 3:
                        times[side].append(took)
                    frames.call("sandbox.delete", sandbox=f"r-{side}")
                    time.sleep(PAUSE)
            for side in ("writable", "root"):
                bench.add(f"sandbox of an image with {side} {how}, and its first command, ms; base: read-only", times[side], times["image"], "15 ms" if side == "root" and not more else "")
    bench.add("fork and exec of /bin/true and its end, ms", floor)


CHANGED, STEPS = 50, 20


def commits(bench, store):
    from rpc import Daemon
    times = []
    with Daemon("--images", store, "--image-changes", "owner") as daemon, daemon.frames() as frames:
        for number in range(3 * bench.options.rounds):
            frames.call("sandbox.create", sandbox="c", image="one", writableRoot=True)
            done = frames.call("exec", sandbox="c", command=f"set -e; for i in {{1..{CHANGED}}}; do echo {number} $i >/usr/lib/changed-$i; done")
            if done["exitCode"]:
                sys.exit(f"images.py: the files were not written: {done['stderr'][:500]}")
            times.append(timed(lambda: frames.call("sandbox.commit", sandbox="c")))
            frames.call("sandbox.delete", sandbox="c")
    return times


def part_commit(bench):
    from image_trees import make_image
    small, archive = bench.store(), bench.path("small") + ".tar"
    ran(["tar", "-C", make_image(bench.path("root")), "-cf", archive, "."])
    bench.load(small, archive, "one")
    bench.add(f"commit of {CHANGED} changed files, ms; base: in an image of few files", commits(bench, bench.own_store), commits(bench, small), "200 ms")


def part_build(bench):
    context = bench.path("context")
    os.mkdir(context)
    with open(context + "/Dockerfile", "w") as file:
        file.write("FROM one\n" + "".join(f"RUN echo {number} >/usr/share/step-{number}\n" for number in range(STEPS)))
    build = [bench.cloche, "image", "build", "--images", bench.own_store, "-t", "built", context]
    ran(build)
    bench.add(f"build of {STEPS} steps that were built before, ms; base: cloche --version", [timed(ran, build) for _ in range(10 * bench.options.rounds)],
              [timed(ran, [bench.cloche, "--version"]) for _ in range(10 * bench.options.rounds)], "100 ms")


def memory_of(pid):
    """Bytes of file pages: resident, and by share."""
    found = {}
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            name, value = line.split()[:2]
            if name in ("Rss:", "Pss:", "Pss_File:", "Pss_Anon:", "Anonymous:"):
                found[name[:-1]] = int(value) << 10
    return found


def part_memory(bench):
    from measure import descendants
    with bench.daemon() as daemon, daemon.frames() as frames:
        sums = {}
        for count in (1, bench.options.sandboxes):
            for number in range(count):
                frames.call("sandbox.create", sandbox=f"m-{count}-{number}", image=bench.digest)
                frames.call("process.start", sandbox=f"m-{count}-{number}", command="exec python3 -c 'import json, ssl, time; print(1, flush=True); time.sleep(1000)'")
            time.sleep(PAUSE + count * 0.1)
            rows = [memory_of(pid) for pid in descendants([daemon.process.pid]) if of_image(pid)]
            sums[count] = {name: sum(row[name] for row in rows) / 2**20 for name in ("Rss", "Pss", "Pss_File")}
            for number in range(count):
                frames.call("sandbox.delete", sandbox=f"m-{count}-{number}")
        many, one = sums[bench.options.sandboxes], sums[1]
        bench.add(f"file pages by share (PSS) of {bench.options.sandboxes} sandboxes with a Python each, MiB; base: of one", many["Pss_File"], one["Pss_File"])
        bench.add("all their memory by share, MiB; base: resident (RSS)", many["Pss"], many["Rss"])


def of_image(pid):
    """A program of the guest: bash or python3 of the image."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("bash", "python"))
    except OSError:
        return False


def part_call(bench):
    sides = {"image": {"image": bench.digest}, "none": {}}
    with bench.daemon() as daemon, daemon.frames() as frames:
        for what, more, rounds in (("forked call", {}, 30), ("cold call", {"warm": False}, 10)):
            times = {side: [] for side in sides}
            for number in range(rounds * bench.options.rounds + 3):
                for side, options in sides.items():
                    took = timed(lambda: frames.call("call", **PYTHON, **options, **more))
                    if number >= 3:
                        times[side].append(took)
            bench.add(f"{what} of Python in the image, ms; base: without an image", times["image"], times["none"], "1.10")


# ---- whole ------------------------------------------------------------------------------------------------------------

def prepare(bench):
    from rpc import Daemon
    bench.root, bench.one, bench.other = make_archives(bench)
    store = bench.store()
    bench.load(store, bench.one, "one")
    bench.digest = json.loads(ran([bench.cloche, "image", "inspect", "--json", "--images", store, "one"]))["tree"].replace(":", "-")
    bench.own_store = store
    bench.daemon = lambda: Daemon("--images", store)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sandboxes", type=int, default=100)
    add_only(parser, PARTS)
    parser.add_argument("--directory", help="of the files; default: below TMPDIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    parts = parts_of(parser, options, PARTS)
    os.environ.update(CLOCHE_BUILD=os.path.abspath(options.build), CLOCHE_SOURCE=SOURCE)
    sys.path[:0] = [os.path.join(SOURCE, below) for below in ("tests/lib", "tests/daemon", "bench/peers", "bench/clients")]
    with tempfile.TemporaryDirectory(prefix="cloche-images-", dir=options.directory) as directory:
        bench = Bench(options, directory)
        prepare(bench)
        if not options.json:
            print(f"Kernel {platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, medians.\n\n| act | value | base | ratio | limit |\n|---|---:|---:|---:|---:|")
        for part in parts:
            globals()["part_" + part](bench)
    if options.json:
        print(json.dumps({"kernel": platform.release(), "cores": os.cpu_count(), "rows": bench.rows}, indent=2))


if __name__ == "__main__":
    main()
