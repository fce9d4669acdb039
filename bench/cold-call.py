#!/usr/bin/python3
"""The cost of a cold call, against starting that interpreter plainly, and against bubblewrap.

    bench/cold-call.py [--build DIR] [--repeat N] [--json]

Every command is run once per round, in turn, so that a slow moment of the machine falls on all of
them alike. The ratios are more reliable than the milliseconds. The floor is fork and exec of
/bin/true."""
import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LANGUAGES = {
    "python": dict(plain=["/usr/bin/python3", "-c", "pass"], code="def f(): pass"),
    "javascript": dict(plain=["/usr/bin/node", "-e", "0"], code="function f() {}"),
}
BUBBLEWRAP = ["bwrap", "--unshare-all", "--die-with-parent", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin",
              "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev",
              "--tmpfs", "/tmp"]


def candidates(cloche):
    """name -> (command, name of the row its ratio refers to)"""
    rows = {"fork and exec /bin/true": (["/bin/true"], None)}
    for language, row in LANGUAGES.items():
        if not os.access(row["plain"][0], os.X_OK):
            continue
        plain = f"{language}: plain start"
        rows[plain] = (row["plain"], plain)
        if shutil.which("bwrap"):
            rows[f"{language}: bubblewrap"] = (BUBBLEWRAP + row["plain"], plain)
        rows[f"{language}: cloche call"] = ([cloche, "call", language, "f", "-c", row["code"]], plain)
    return rows


# The caller's variables would slow some candidates only: NODE_EXTRA_CA_CERTS alone costs node 20 ms.
ENVIRONMENT = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/tmp"}


def once(command):
    started = time.perf_counter()
    code = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ENVIRONMENT).returncode
    if code:
        sys.exit(f"cold-call.py: {' '.join(command)} ended with {code}")
    return (time.perf_counter() - started) * 1000


def measure(rows, repeat):
    for command, _ in rows.values():  # warm the page cache; not counted
        once(command)
    samples = {name: [] for name in rows}
    for _ in range(repeat):
        for name, (command, _) in rows.items():
            samples[name].append(once(command))
    return samples


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))]


def summary(rows, samples):
    out = []
    for name, (_, base) in rows.items():
        row = {"name": name, "p50_ms": percentile(samples[name], 0.5), "p99_ms": percentile(samples[name], 0.99)}
        if base:
            row["p50_ratio"] = row["p50_ms"] / percentile(samples[base], 0.5)
            row["p50_over_ms"] = row["p50_ms"] - percentile(samples[base], 0.5)
        out.append(row)
    return out


def table(summary_rows):
    lines = ["| start | p50 ms | p99 ms | p50 to plain | p50 over plain, ms |", "|---|---:|---:|---:|---:|"]
    for row in summary_rows:
        ratio = f"{row['p50_ratio']:.2f} | {row['p50_over_ms']:+.1f}" if "p50_ratio" in row else "| "
        lines.append(f"| {row['name']} | {row['p50_ms']:.1f} | {row['p99_ms']:.1f} | {ratio} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Cold calls against plain starts and bubblewrap.")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--repeat", type=int, default=60)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    rows = candidates(os.path.join(os.path.abspath(options.build), "cloche"))
    result = summary(rows, measure(rows, options.repeat))
    machine = {"kernel": platform.release(), "cores": os.cpu_count(), "repeat": options.repeat}
    if options.json:
        print(json.dumps({**machine, "rows": result}, indent=2))
    else:
        print(f"Kernel {machine['kernel']}, {machine['cores']} cores, {options.repeat} rounds, commands in turn.\n")
        print(table(result))


if __name__ == "__main__":
    main()
