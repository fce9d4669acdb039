#!/usr/bin/python3
"""The cost of a mount under rules: the same work done in a directory itself and through cloche-fs
with 50 rules.

    bench/fs-tree.py [--build DIR] [--rounds N] [--files N] [--gib N]

Run as root (it mounts, in a namespace of its own). Medians of N rounds; each round has a mount of
its own, so its cache has only data from the work itself ("again" is the same work once more). The
host's page cache is warm for both, except in rows called cold. "processor" is the time spent by the
guest and the server together, which is the same on a busy machine."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
options = argparse.ArgumentParser()
options.add_argument("--build", default=os.path.join(SOURCE, "build"))
options.add_argument("--rounds", type=int, default=5)
options.add_argument("--files", type=int, default=10000)
options.add_argument("--only", default="")
options.add_argument("--gib", type=float, default=1)
options = options.parse_args()
os.environ["CLOCHE_BUILD"] = options.build
sys.path.insert(0, os.path.join(SOURCE, "tests/fs"))
import mounted  # noqa: E402

RULES = {
    "default": mounted.ALL,
    "exclude": ["node_modules", ".env"],
    "rules": [{"pattern": f"{a}/**/*.{b}", "deny": ["modify"], "priority": i}
              for i, (a, b) in enumerate((a, b) for a in ("secret", "docs", "a{b,c}d", "*-old", "**/private", "x[0-9]")
                                         for b in ("key", "pem", "md", "c", "{h,hpp}", "py", "t?t", "lock"))],
}


def make_tree(root, files):
    for i in range(files):
        folder = f"{root}/d{i // 500}/e{i // 50 % 10}"
        if i % 50 == 0:
            os.makedirs(folder)
        with open(f"{folder}/f{i}.txt", "w") as file:
            file.write(f"{i}\n" * 100)


def walk():
    for top, _, names in os.walk("."):
        for name in names:
            os.stat(os.path.join(top, name))


def read_all():
    for top, _, names in os.walk("."):
        for name in names:
            with open(os.path.join(top, name), "rb") as file:
                file.read()


def rewrite():
    for top, _, names in os.walk("."):
        for name in names:
            path = os.path.join(top, name)
            with open(path, "rb") as file:
                text = file.read()
            with open(path, "wb") as file:
                file.write(text.upper() + b"x")


def git_status():
    subprocess.run(["git", "status", "--porcelain"], check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
                   env={**os.environ, "GIT_OPTIONAL_LOCKS": "0", "HOME": "/"})


def git_refresh():
    """The index of a checkout has the times and numbers of its files; otherwise git reads them all."""
    subprocess.run(["git", "update-index", "-q", "--refresh"], check=True, stdin=subprocess.DEVNULL, env={**os.environ, "HOME": "/"})


def read_big():
    with open("big", "rb", buffering=0) as file:
        buffer = bytearray(1 << 20)
        while file.readinto(buffer):
            pass


def write_big():
    block = b"x" * (1 << 20)
    with open("written", "wb", buffering=0) as file:
        for _ in range(256):
            file.write(block)


def make_checkout(root):
    make_tree(root, options.files)
    run = lambda *argv: subprocess.run(["git", "-c", "safe.directory=*", "-C", root, *argv], check=True, stdout=subprocess.DEVNULL)
    run("init", "-q")
    run("add", ".")
    run("-c", "user.name=x", "-c", "user.email=x@x", "commit", "-q", "-m", "all")


def make_big(root):
    with open(root + "/big", "wb") as file:
        for _ in range(int(options.gib * 1024)):
            file.write(os.urandom(1 << 20))


def processor_s(pid):
    """Processor time of this process, its children, and the server."""
    with open(f"/proc/{pid}/schedstat") as file:
        return sum(os.times()[:4]) + int(file.read().split()[0]) / 1e9


def timed(work, pid):
    start, spent = time.monotonic(), processor_s(pid)
    work()
    return time.monotonic() - start, processor_s(pid) - spent


def series(works, pid):
    return lambda: [timed(work, pid) for work in works]


def native(mount, works):
    """By the same owner in the same way, beside the mount."""
    at, mount.at = mount.at, mount.lower
    try:
        return mount.guest(series(works, mount.server.pid), timeout=600)
    finally:
        mount.at = at


def cold():
    subprocess.run(["sync"], check=True)
    with open("/proc/sys/vm/drop_caches", "w") as drop:
        drop.write("3")


CASES = [
    ("walk and stat", make_tree, [walk, walk]),
    ("walk and read", make_tree, [read_all, read_all]),
    ("walk and rewrite", make_tree, [rewrite, rewrite]),
    ("git status", make_checkout, [git_status, git_status]),
    (f"read {options.gib:g} GiB", make_big, [read_big, read_big]),
    (f"cold, read {options.gib:g} GiB", make_big, [read_big]),
    ("write 256 MiB", lambda root: None, [write_big]),
]


def main():
    print(f"{'':24} {'native':>9} {'mounted':>9} {'ratio':>7}   {'processor':>9} {'mounted':>9} {'ratio':>7}")
    for title, make, works in CASES:
        if options.only not in title:
            continue
        rows = []
        mounted.leave_namespace()
        for _ in range(options.rounds):
            m = mounted.Mounted(permissions=RULES, upper="4g")
            try:
                (make(m.lower, options.files) if make is make_tree else make(m.lower))
                m.make({})
            except BaseException:
                m.stop()
                raise
            with m:
                if works[0] is git_status:
                    native(m, [git_refresh])
                if title.startswith("cold"):
                    cold()
                through = m.guest(series(works, m.server.pid), timeout=600)
                if title.startswith("cold"):
                    cold()
                rows.append((native(m, works), through))
        for i in range(len(works)):
            cells = []
            for measure in (0, 1):
                a, b = (statistics.median(row[side][i][measure] for row in rows) for side in (0, 1))
                cells.append(f"{a * 1000:7.0f}ms {b * 1000:7.0f}ms {b / max(a, 1e-3):6.2f}x")
            print(f"{title + ', again' * i:24} " + "   ".join(cells), flush=True)


main()
