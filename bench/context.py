#!/usr/bin/python3
"""context.py [--build BUILD] [--rounds N] [--idle N] [--only PART,…] [--without SIDE,…] [--json]:
the cost of contexts (persistent interpreters), beside the interpreter of @cloudflare/sandbox's
container server (peers/upstream.py), a Jupyter kernel (peers/jupyter.py), and python3 -i over a
pipe. Missing ones are installed on first use.

The sides take turns in blocks of ten, so that a slow moment of the machine falls on all: read the
ratios (of a side's p50 to Cloche's), not the milliseconds.

Parts: create, cells, plots, memory; Cloche alone: prefix, mcp, fork. As root, for the upstream server makes pid
namespaces."""
import argparse
import contextlib
import os
import sys

from parts import add_only, parts_of, some_of

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PARTS = ("create", "prefix", "cells", "mcp", "plots", "memory", "fork")
PEERS = ("upstream", "jupyter", "pipe")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default=os.path.join(SOURCE, "build"))
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--idle", type=int, default=20)
    add_only(parser, PARTS)
    parser.add_argument("--without", default="", help="some of " + ",".join(PEERS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.parts = parts_of(parser, options, PARTS)
    options.without = some_of(parser, "--without", options.without, PEERS)
    return options


def peers(stack, without):
    """The available sides."""
    import context_sides
    import jupyter
    import upstream

    def begin_upstream():
        return context_sides.Upstream(stack.enter_context(upstream.Server(interpreters=3)))

    def begin_closed(side):
        return stack.enter_context(contextlib.closing(side()))
    begin = {"upstream": begin_upstream, "jupyter": lambda: begin_closed(context_sides.Jupyter), "pipe": lambda: begin_closed(context_sides.Pipe)}
    for name in PEERS:
        try:
            if name not in without:
                yield begin[name]()
        except (upstream.Unavailable, jupyter.Unavailable) as error:
            print(f"without {name}: {error}", file=sys.stderr)


def main():
    options = arguments()
    os.environ["CLOCHE_BUILD"] = os.path.abspath(options.build)
    os.environ["CLOCHE_SOURCE"] = SOURCE
    sys.path[:0] = [os.path.join(SOURCE, below) for below in ("tests/daemon", "tests/mcp", "bench/peers", "bench/clients")]
    import context_parts
    from context_sides import Frames, OverHttp
    from rpc import Daemon
    from sandbox_parts import Table
    table = Table(options.json)
    with contextlib.ExitStack() as stack:
        daemon = stack.enter_context(Daemon("--state-dir", "", tcp=True))
        sides = [Frames(daemon), OverHttp(daemon), *peers(stack, options.without)]
        table.begin()
        for part in options.parts:
            getattr(context_parts, part)(table, sides, options)
    table.end()


if __name__ == "__main__":
    main()
