#!/usr/bin/python3
"""timeline.py [--build BUILD] [--runs N] [--calls] [LANGUAGE...]: where the time of a run from a spare goes, in microseconds,
from the daemon's reception of a request to its answer.

As root, with perf(1), which adds some 0.3 us to each system call, page fault and change of process. Medians of N runs, each after
a pause. --calls also prints the run of median length, event by event."""
import argparse
import collections
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = {"c": "int one(void) { return 1; }", "cpp": "int one() { return 1; }", "python": "return 1", "javascript": "return 1",
        "typescript": "return 1 as number", "ruby": "1", "php": "return 1;", "bash": "echo 1"}
EVENTS = "raw_syscalls:sys_enter,raw_syscalls:sys_exit,sched:sched_switch,sched:sched_waking,exceptions:page_fault_user"
TRACED = "mount -t tracefs tracefs /sys/kernel/tracing 2>/dev/null; exec perf "  # in a mount namespace of its own
LINE = re.compile(r"\s*.+?\s+(?P<pid>\d+)/(?P<tid>\d+)\s+\[\d+\]\s+(?P<at>\d+\.\d+):\s+\w+:(?P<name>\w+): (?P<rest>.*)")
WOKEN = re.compile(r"pid=(\d+) ")
ATTACH_S = 1.5
PAUSE_S = 0.05  # the spare of the last run is made meanwhile
PARTS = ("engine, until the guest is woken", "until the guest runs", "guest, until the engine is woken", "until the engine runs",
         "engine, until the answer is sent")

Event = collections.namedtuple("Event", "at pid name rest")


def perf(*words):
    return ["unshare", "-m", "sh", "-c", TRACED + " ".join(words)]


def recorded(work, times):
    """Events of all processes while work() runs so many times, and the times before each."""
    with tempfile.TemporaryDirectory(prefix="timeline-") as directory:
        path = os.path.join(directory, "perf.data")
        recorder = subprocess.Popen(perf("record -q -a -c 1 -k mono -m 8192", "-e", EVENTS, "-o", path), stderr=subprocess.DEVNULL)
        time.sleep(ATTACH_S)
        begun = []
        for _ in range(times):
            time.sleep(PAUSE_S)
            begun.append(time.monotonic())
            work()
        recorder.terminate()
        recorder.wait()
        text = subprocess.run(perf("script", "-i", path, "--ns -F comm,pid,tid,cpu,time,event,trace"), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True, errors="replace", check=True).stdout
    lines = filter(None, map(LINE.match, text.splitlines()))
    return [Event(float(line["at"]), int(line["tid"]), line["name"], line["rest"]) for line in lines], begun


def first(events, **wanted):
    return next((event for event in events if all(getattr(event, key) == value for key, value in wanted.items())), None)


def wakes(events, waker, is_wanted):
    return [event for event in events if event.pid == waker and event.name == "sched_waking" and is_wanted(int(WOKEN.search(event.rest)[1]))]


def stages(events, engine, client):
    """The times that bound the PARTS, and the guest's pid; None of a run that an event is missing from."""
    answers = wakes(events, engine, lambda pid: pid == client)
    start = first(events, pid=engine, name="sys_exit")
    if not answers or not start:
        return None
    end = answers[-1].at
    inside = [event for event in events if start.at <= event.at <= end]
    faults = collections.Counter(event.pid for event in inside if event.name == "page_fault_user" and event.pid != engine)
    for guest, _ in faults.most_common():
        asked = wakes(inside, engine, lambda pid: pid == guest)
        answered = asked and [event for event in wakes(inside, guest, lambda pid: pid == engine) if event.at > asked[0].at]
        if answered:
            awake = first([event for event in inside if event.at > asked[0].at], pid=guest, name="sys_exit")
            back = first([event for event in inside if event.at > answered[-1].at], pid=engine, name="sys_exit")
            if awake and back:
                return [start.at, asked[0].at, awake.at, answered[-1].at, back.at, end], guest
    return None


def count(events, pid, name, begin, end):
    return sum(event.pid == pid and event.name == name and begin <= event.at <= end for event in events)


def show_calls(events, bounds, engine, guest):
    last = bounds[0]
    for event in events:
        if event.pid in (engine, guest) and bounds[0] <= event.at <= bounds[-1]:
            who = "engine" if event.pid == engine else "guest"
            print(f"{(event.at - bounds[0]) * 1e6:8.0f} {(event.at - last) * 1e6:+6.0f}  {who:7} {event.name:16} {event.rest[:90]}")
            last = event.at


def measure(language, options):
    from rpc import Daemon
    with Daemon() as daemon, daemon.frames() as frames:
        params = {"language": language, "code": CODE[language], "warm": True, "resultOptions": {"includeChanges": False}}
        for _ in range(5):
            frames.call("call", **params)
        engine = daemon.engine_pid()
        events, begun = recorded(lambda: frames.call("call", **params), options.runs)
    runs = []
    for begin, end in zip(begun, [*begun[1:], float("inf")]):
        some = [event for event in events if begin <= event.at < end]
        found = stages(some, engine, os.getpid())
        if found:
            runs.append((*found, some))
    print(f"{language}: {len(runs)} of {len(begun)} runs")
    if not runs:
        return
    for number, part in enumerate(PARTS):
        print(f"  {part:36}{statistics.median((b[number + 1] - b[number]) * 1e6 for b, _, _ in runs):8.0f} us")
    print(f"  {'in all':36}{statistics.median((b[-1] - b[0]) * 1e6 for b, _, _ in runs):8.0f} us")
    for what, name in (("page faults", "page_fault_user"), ("system calls", "sys_enter")):
        print(f"  {what + ' of the guest and of the engine':36}{statistics.median(count(some, guest, name, *b[2:4]) for b, guest, some in runs):8.0f}"
              f" {statistics.median(count(some, engine, name, b[0], b[-1]) for b, _, some in runs):.0f}")
    if options.calls:
        bounds, guest, some = sorted(runs, key=lambda run: run[0][-1] - run[0][0])[len(runs) // 2]
        show_calls(some, bounds, engine, guest)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--calls", action="store_true")
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE")
    options = parser.parse_args()
    os.environ.update(CLOCHE_BUILD=os.path.abspath(options.build), CLOCHE_SOURCE=SOURCE)
    sys.path[:0] = [os.path.join(SOURCE, "tests/daemon"), os.path.join(SOURCE, "tests/lib")]
    for language in options.languages or ["c", "python", "javascript", "typescript"]:
        measure(language, options)


if __name__ == "__main__":
    main()
