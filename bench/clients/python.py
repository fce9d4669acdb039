#!/usr/bin/python3
"""The cost of a call from Python: latency of one after another, throughput with 1, 8 and 64 in flight.

    bench/clients/python.py [--daemon PATH] [--calls N] [--json]

Rows: a round trip of the connection alone (stats, which starts nothing: the floor); a call of Python forked from the warm interpreter;
of a prefix; with one function of the host; a module in the bare realm. `threads` is Cloche with as many threads as calls in flight,
`asyncio` is AsyncCloche with as many tasks. Milliseconds as the caller sees them. Other load on the machine is unknown:
the ratio to the floor is more reliable than the milliseconds."""
import argparse
import asyncio
import concurrent.futures
import json
import os
import platform
import sys
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(SOURCE, "clients/python"))

import cloche  # noqa: E402

IN_FLIGHT = (1, 8, 64)
CODE = "def f(x): return x"
ASKING = "def f(x): return ask(x)"
MODULE = "export default 42"


def questions(client, python_prefix, bare_prefix):
    """Name to one operation. The same for both clients: one of them returns coroutines."""
    return {
        "connection": client.stats,
        "call": lambda: client.call("python", CODE, args=[1]),
        "prefix": lambda: python_prefix.call(function="f", args=[1]),
        "host_function": lambda: client.call("python", ASKING, args=[1], globals={"ask": abs}),
        "module": lambda: bare_prefix.evaluate(MODULE),
    }


def check(done):
    if isinstance(done, cloche.Result):
        done.unwrap()


def row(question, client, in_flight, times, seconds):
    times = sorted(times)

    def at(share):
        return round(times[min(len(times) - 1, int(len(times) * share))] * 1000, 3)
    return {"question": question, "client": client, "in_flight": in_flight, "calls": len(times), "p50_ms": at(0.5), "p99_ms": at(0.99),
            "per_second": round(len(times) / seconds, 1)}


# ---- with threads ----

def measure(question, ask, in_flight, calls):
    times = []

    def once(_):
        begun = time.perf_counter()
        check(ask())
        times.append(time.perf_counter() - begun)
    with concurrent.futures.ThreadPoolExecutor(in_flight) as pool:
        list(pool.map(once, range(in_flight * 2)))
        times.clear()
        begun = time.perf_counter()
        list(pool.map(once, range(calls)))
        return row(question, "threads", in_flight, times, time.perf_counter() - begun)


def with_threads(daemon, calls):
    with (cloche.Cloche(daemon=daemon) as client, client.prefix("python", CODE) as prefix,
          client.prefix("javascript", "globalThis.x = 1", bare=True) as bare):
        for question, ask in questions(client, prefix, bare).items():
            for in_flight in IN_FLIGHT:
                yield measure(question, ask, in_flight, calls)


# ---- with tasks ----

async def measure_tasks(question, ask, in_flight, calls):
    times = []

    async def work(count):
        for _ in range(count):
            begun = time.perf_counter()
            check(await ask())
            times.append(time.perf_counter() - begun)
    await asyncio.gather(*(work(2) for _ in range(in_flight)))
    times.clear()
    begun = time.perf_counter()
    await asyncio.gather(*(work(-(-calls // in_flight)) for _ in range(in_flight)))
    return row(question, "asyncio", in_flight, times, time.perf_counter() - begun)


async def with_tasks(daemon, calls):
    async with (cloche.AsyncCloche(daemon=daemon) as client, client.prefix("python", CODE) as prefix,
                client.prefix("javascript", "globalThis.x = 1", bare=True) as bare):
        for question, ask in questions(client, prefix, bare).items():
            for in_flight in IN_FLIGHT:
                yield await measure_tasks(question, ask, in_flight, calls)


async def collect(rows):
    return [one async for one in rows]


# ---- the table ----

def table(rows):
    floors = {one["client"]: one["p50_ms"] for one in rows if (one["question"], one["in_flight"]) == ("connection", 1)}
    lines = [f"Python {platform.python_version()}, {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}", "",
             "| what | client | in flight | p50 ms | p99 ms | p50 to the floor | a second |", "|---|---|---:|---:|---:|---:|---:|"]
    for one in rows:
        ratio = one["p50_ms"] / floors[one["client"]]
        lines.append(f"| {one['question']} | {one['client']} | {one['in_flight']} | {one['p50_ms']} | {one['p99_ms']} | {ratio:.1f} "
                     f"| {one['per_second']} |")
    return "\n".join(lines)


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--daemon", help="the program; else as the client finds it")
    options.add_argument("--calls", type=int, default=500, help="of each row")
    options.add_argument("--json", action="store_true", help="a line a row")
    chosen = options.parse_args()
    rows = [*with_threads(chosen.daemon, chosen.calls), *asyncio.run(collect(with_tasks(chosen.daemon, chosen.calls)))]
    print("\n".join(map(json.dumps, rows)) if chosen.json else table(rows))


if __name__ == "__main__":
    main()
