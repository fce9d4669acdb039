"""Shared by the Python programs here: options, percentiles, rows, memory."""
import argparse
import json
import os
import sys


def options(description):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--only", default="", metavar="PREFIX", help="only peers whose name begins so")
    return parser


def emit(**row):
    print(json.dumps(row), flush=True)


def percentile(values, share):
    return round(sorted(values)[min(len(values) - 1, round(share * (len(values) - 1)))], 4)


def emit_times(peer, question, samples, note):
    times = {"p50_ms": percentile(samples, 0.5), "p99_ms": percentile(samples, 0.99)}
    emit(peer=peer, question=question, n=len(samples), **times, note=note)


def emit_skipped(peer, question, reason):
    emit(peer=peer, question=question, skipped=str(reason).splitlines()[0][:200])


def progress(text):
    print(text, file=sys.stderr, flush=True)


def rollup_kb(field, pid="self"):
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as lines:
        return next((int(line.split()[1]) for line in lines if line.startswith(field + ":")), 0)


def descendants(roots):
    """The processes ROOTS and all below them: bubblewrap keeps a process of its own above the program."""
    children = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as stat:
                parent = int(stat.read().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(pid))
    found = list(roots)
    for pid in found:
        found.extend(children.get(pid, ()))
    return found
