#!/usr/bin/python3
"""The cost of work in a mounted directory: the same Python natively, in a bubblewrap sandbox with a
bind mount, and in a box of Cloche's with cloche-fs and 50 rules in between.

    bench/mounts.py [--build DIR] [--rounds N] [--files N] [--gib N] [--only WORK]

The last work is a mount with the default rules, of which the kernel reads large files by itself
(passthrough); beside it stands the same by the ordinary way, with the 50 rules. Run as root. Rounds
interleave the three ways; medians, and the ratio to native of the same run. The work measures
itself, so starting is not counted. Everything is in the host's page cache before ("first": a fresh
box that touches each file once; "again": the same work in the same process once more)."""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

WORK = r'''
import json, os, subprocess, sys, time
what, root, times = sys.argv[1], sys.argv[2], []
os.chdir(root)

def walk():
    for top, _, names in os.walk("."):
        for name in names: os.stat(os.path.join(top, name))

def rewrite():
    for top, _, names in os.walk("tree"):
        for name in names:
            path = os.path.join(top, name)
            with open(path) as file: text = file.read()
            with open(path, "w") as file: file.write(text.replace("1", "2"))

def git():
    subprocess.run(["git", "-c", "safe.directory=*", "-C", "checkout", "status", "--porcelain"], check=True, stdout=subprocess.DEVNULL)

def large():
    with open("large", "rb", 0) as file:
        piece = bytearray(1 << 20)
        while file.readinto(piece): pass

fixed = large

for turn in range(2):
    begun = time.perf_counter()
    globals()[what]()
    times.append(1000 * (time.perf_counter() - begun))
print(json.dumps(times))
'''
WORKS = {"walk": "walk and stat of {files} files", "rewrite": "read and rewrite of {files} files", "git": "git status in a checkout of Cloche",
         "large": "read {gib:g} GiB", "fixed": "read {gib:g} GiB that nobody may change"}


def make_tree(root, files, gib):
    for i in range(files):
        folder = f"{root}/tree/d{i // 500}/e{i // 50 % 10}"
        if i % 50 == 0:
            os.makedirs(folder)
        with open(f"{folder}/f{i}.txt", "w") as file:
            file.write(f"{i}\n" * 100)
    subprocess.run(["git", "clone", "-q", "--no-hardlinks", SOURCE, f"{root}/checkout"], check=True)
    with open(f"{root}/large", "wb") as file:
        piece = os.urandom(1 << 20)
        for _ in range(int(1024 * gib)):
            file.write(piece)


def write_rules(path):
    rules = [{"pattern": f"{a}/**/*.{b}", "deny": ["modify"], "priority": i}
             for i, (a, b) in enumerate((a, b) for a in ("secret", "docs", "a{b,c}d", "*-old", "**/private", "x[0-9]")
                                        for b in ("key", "pem", "md", "c", "{h,hpp}", "py", "t?t", "lock"))]
    with open(path, "w") as file:
        json.dump({"default": dict.fromkeys(["read", "list", "create", "modify", "delete"], True), "exclude": ["node_modules", ".env"], "rules": rules}, file)


def commands(build, root, rules, what):
    script = ["python3", "-c", WORK, what]
    bind = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--bind", root, "/workspace/m"]
    box = [f"{build}/cloche", "run", "python", "-c", WORK, "--mount", f"/workspace/m={root}:{rules}", "--sync", "manual", "--timeout", "600", "--cpu-time", "0",
           "--memory", "3000", "--disk", "2000", "--", what, "/workspace/m"]
    if what == "fixed":
        default = [word.removesuffix(f":{rules}") for word in box]
        return {"native": [*script, root], "passthrough": default, "ordinary": box}
    return {"native": [*script, root], "bubblewrap": [*bind, *script, "/workspace/m"], "cloche": box}


def measure(command):
    environment = {**os.environ, "HOME": "/tmp", "XDG_STATE_HOME": tempfile.gettempdir() + "/cloche-bench-state"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=900)
    if not done.stdout.strip():
        raise SystemExit(f"{command[0]} failed: {done.stderr}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=10000)
    parser.add_argument("--gib", type=float, default=1)
    parser.add_argument("--only", choices=WORKS)
    options = parser.parse_args()
    top = tempfile.mkdtemp(prefix="cloche-bench-")
    try:
        root, rules = f"{top}/host", f"{top}/rules.json"
        os.mkdir(root)
        make_tree(root, options.files, options.gib)
        write_rules(rules)
        print(f"{'work':40} {'way':12} {'first ms':>9} {'ratio':>6} {'again ms':>9} {'ratio':>6}")
        for what in [options.only] if options.only else WORKS:
            seen = {}
            for done in range(options.rounds + 1):
                print(f"\r{what}: round {done} of {options.rounds}", end="", file=sys.stderr)
                for way, command in commands(options.build, root, rules, what).items():
                    times = measure(command)
                    if done > 0:  # the first fills the cache
                        seen.setdefault(way, []).append(times)
            print("\r" + " " * 40 + "\r", end="", file=sys.stderr)
            middle = {way: [statistics.median(times) for times in zip(*rounds)] for way, rounds in seen.items()}
            for way, (first, again) in middle.items():
                print(f"{WORKS[what].format(files=options.files, gib=options.gib):40} {way:12} {first:9.0f} {first / middle['native'][0]:6.2f} "
                      f"{again:9.0f} {again / middle['native'][1]:6.2f}", flush=True)
    finally:
        shutil.rmtree(top, ignore_errors=True)
        shutil.rmtree(tempfile.gettempdir() + "/cloche-bench-state", ignore_errors=True)


if __name__ == "__main__":
    main()
