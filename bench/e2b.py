#!/usr/bin/python3
"""Times of the genuine E2B client against cloched --e2b-listen, over loopback.

The floor is a fork and exec of /bin/true by the same Node process, between the acts. Compare the
ratios rather than the milliseconds."""
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FLOOR = "fork and exec of /bin/true by Node"
# Milliseconds at p50 on a quiet machine.
GOALS = {"create": 15, "create and first command": 25, "commands.run": 8, "runCode 1+1": 4, "files.write of 1 KiB": 4, "files.read of 1 KiB": 4,
         "kill": 5}


def measure(rounds):
    import genuine
    import npm_cache
    place = npm_cache.install(os.path.join(SOURCE, "tests/e2b"))
    with genuine.served() as (_, env):
        command = ["node", "--no-warnings", os.path.join(SOURCE, "bench/clients/e2b.mjs"), str(rounds)]
        return json.loads(subprocess.run(command, env={**os.environ, **env, "E2B_CLIENTS": place}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         text=True, check=True).stdout)


def rows_of(times):
    floor = statistics.median(times[FLOOR])
    for name, values in times.items():
        p50, p99 = statistics.median(values), sorted(values)[max(0, len(values) * 99 // 100 - 1)]
        goal = GOALS.get(name)
        yield {"act": name, "p50_ms": p50, "p99_ms": p99, "ratio": p50 / floor, "goal_ms": goal, "is_short": bool(goal and p50 > goal)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    os.environ.update(CLOCHE_BUILD=os.path.abspath(options.build), CLOCHE_SOURCE=SOURCE)
    sys.path[:0] = [os.path.join(SOURCE, below) for below in ("tests/lib", "tests/daemon", "tests/e2b")]
    rows = list(rows_of(measure(options.rounds)))
    if options.json:
        print(json.dumps({"kernel": platform.release(), "cores": os.cpu_count(), "rows": rows}, indent=2))
        return
    print(f"Kernel {platform.release()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}.\n")
    print("| act | p50 ms | p99 ms | p50 to the floor | goal |\n|---|---:|---:|---:|---:|")
    for row in rows:
        goal = "" if row["goal_ms"] is None else f"{row['goal_ms']}{' (short)' if row['is_short'] else ''}"
        print(f"| {row['act']} | {row['p50_ms']:.2f} | {row['p99_ms']:.2f} | {row['ratio']:.1f} | {goal} |")


if __name__ == "__main__":
    main()
