#!/usr/bin/python3
"""system-calls.py [--build BUILD] [--runs N] [LANGUAGE...]: system calls of the daemon's engine between a request and its answer.

Warm calls of an empty function, as root, with strace. The fewest of N runs are those of the path itself; the median has company: a
spare that was made, a wake-up more. tests/daemon/critical-path.py holds the fewest of C."""
import argparse
import collections
import os
import statistics
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CODE = {"c": "int one(void) { return 1; }", "cpp": "int one() { return 1; }", "python": "return 1", "javascript": "return 1",
        "typescript": "return 1 as number", "ruby": "1", "php": "return 1;", "bash": "echo 1"}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE")
    options = parser.parse_args()
    os.environ.update(CLOCHE_BUILD=os.path.abspath(options.build), CLOCHE_SOURCE=SOURCE)
    sys.path[:0] = [os.path.join(SOURCE, "tests/daemon"), os.path.join(SOURCE, "tests/lib")]
    from rpc import Daemon
    from system_calls import counted
    print(f"{'run from a spare':32}{'fewest':>8}{'median':>8}  of the fewest")
    for language in options.languages or ["c", "python", "javascript"]:
        for words, wanted in (("", {"resultOptions": {"includeChanges": False}}), (", its changes", {})):
            with Daemon() as daemon, daemon.frames() as frames:
                runs = counted(daemon, frames, options.runs, language=language, code=CODE[language], warm=True, **wanted)
            names = collections.Counter(min(runs, key=len)).most_common()
            print(f"{language + words:32}{min(map(len, runs)):8}{statistics.median(map(len, runs)):8.0f}  "
                  + ", ".join(f"{count} {name}" for name, count in names))


if __name__ == "__main__":
    main()
