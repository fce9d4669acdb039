#!/usr/bin/python3
"""sandbox.py [--build BUILD] [--rounds N] [--at-once N] [--idle N] [--only PART,…] [--no-upstream]
[--json]: the cost of sandboxes, beside the container server of @cloudflare/sandbox
(peers/upstream.py, downloaded on first use).

The same client drives both over HTTP on loopback, one connection each, kept alive; and Cloche over
frames on its unix socket too. The sides take turns in blocks of ten, so that a slow moment of the
machine falls on both: read the ratios (how many times faster Cloche over HTTP is), not the
milliseconds.

Parts: execute, stream, start, session (sides in turn), sandbox (Cloche alone: upstream's unit is a
container, which is not there), concurrent (N at once, from N threads), transfer (100 MiB there and
back), idle (memory of N sandboxes with a session each, all processes), paused (the same N, frozen: what they cost the daemon), copies (forks, snapshots, pauses), cli. As
root, for the peer makes pid namespaces."""
import argparse
import contextlib
import os
import sys

from parts import add_only, parts_of

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ("execute", "stream", "start", "session", "sandbox", "concurrent", "transfer", "cli", "idle", "paused", "copies")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--at-once", type=int, default=64)
    parser.add_argument("--idle", type=int, default=200)
    add_only(parser, PARTS)
    parser.add_argument("--no-upstream", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.parts = parts_of(parser, options, PARTS)
    return options


def main():
    options = arguments()
    os.environ["CLOCHE_BUILD"] = os.path.abspath(options.build)
    os.environ["CLOCHE_SOURCE"] = SOURCE
    sys.path[:0] = [os.path.join(SOURCE, below) for below in ("tests/daemon", "bench/peers", "bench/clients")]
    import upstream
    import sandbox_parts
    from rpc import Daemon
    from sandbox_sides import Cloche, Frames, Upstream
    table = sandbox_parts.Table(options.json)
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Daemon(tcp=True))
        sides = [Cloche(daemon), Frames(daemon)]
        if not options.no_upstream:
            try:
                sides.append(Upstream(stack.enter_context(upstream.Server())))
            except upstream.Unavailable as error:
                print(f"without upstream: {error}", file=sys.stderr)
        table.begin()
        for part in options.parts:
            getattr(sandbox_parts, part)(table, sides, options)
    table.end()


if __name__ == "__main__":
    main()
