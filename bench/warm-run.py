#!/usr/bin/python3
"""The cost of a run forked from a warm template, against the bare fork of such a process and against others.

    bench/warm-run.py [--build DIR] [--runs N] [--no-peers] [--growth] [--json]

Cloche's rows come from `cloche bench`, the others' from bench/peers/run --quick, both on this machine within minutes of each
other. The ratio is to `fork/cpython-huge fork_exit_wait`: fork, exit and wait of a CPython with 20 MB on huge pages.
"""
import argparse
import json
import os
import platform
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PEERS = ("floor", "fork/cpython", "isolated-vm", "quickjs-emscripten", "node:vm", "child_process.fork", "plain/python",
         "bubblewrap/python")
QUESTIONS = ("fork_exit_wait", "fork_reply", "trivial", "host_call", "socket_round_trip")
FLOOR = ("fork/cpython-huge", "fork_exit_wait")
GROWTH = (["python", "prefixes", "1", "10", "100", "1000"], ["python", "spares", "1", "10", "100", "1000"])


def ask(command):
    print("+", " ".join(command), file=sys.stderr)
    finished = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        sys.exit(f"warm-run.py: {' '.join(command)} ended with {finished.returncode}")
    return finished.stdout


def of_cloche(build, language, runs):
    told = json.loads(ask([os.path.join(build, "cloche"), "bench", language, "--runs", str(runs), "--json"]))
    for row in told["rows"]:
        yield {"who": f"cloche {language}", "what": row["question"], "p50_ms": row["p50Ms"], "p99_ms": row["p99Ms"],
               **({"per_second": row["perSecond"]} if row.get("perSecond") else {})}


def of_peers():
    for peer in PEERS:
        for line in ask([os.path.join(SOURCE, "bench/peers/run"), "--quick", "--only", peer]).splitlines():
            row = json.loads(line)
            if row.get("question") in QUESTIONS and "p50_ms" in row:
                yield {"who": row["peer"], "what": row["question"], "p50_ms": row["p50_ms"], "p99_ms": row["p99_ms"]}


def growth(build):
    for words in GROWTH:
        for line in ask([os.path.join(build, "bench-growth"), *words]).splitlines():
            row = json.loads(line)
            yield f"| {words[0]} {row['question']} | {row['count']} | {row['group_bytes'] / 2**20:.1f} | {row['bytes_each'] / 2**20:.2f} | {row['ms_each']:.1f} |"


def table(rows):
    floor = next((row["p50_ms"] for row in rows if (row["who"], row["what"]) == FLOOR), None)
    lines = ["| who | what | p50 ms | p99 ms | p50 to the floor | a second |", "|---|---|---:|---:|---:|---:|"]
    for row in rows:
        ratio = f"{row['p50_ms'] / floor:.2f}" if floor else ""
        lines.append(f"| {row['who']} | {row['what']} | {row['p50_ms']:.3f} | {row['p99_ms']:.3f} | {ratio} | {row.get('per_second', '')} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description="Warm runs against bare forks and other ways.")
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--growth", action="store_true", help="also memory with 1 to 1000 prefixes and spares")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    build = os.path.abspath(options.build)
    rows = [row for language in ("python", "javascript") for row in of_cloche(build, language, options.runs)]
    rows += [] if options.no_peers else of_peers()
    if options.json:
        print(json.dumps({"kernel": platform.release(), "cores": os.cpu_count(), "rows": rows}, indent=2))
        return
    print(f"Kernel {platform.release()}, {os.cpu_count()} cores.\n")
    print(table(rows))
    if options.growth:
        print("\n| what | count | MiB together | MiB each | ms each |\n|---|---:|---:|---:|---:|")
        print("\n".join(growth(build)))


if __name__ == "__main__":
    main()
