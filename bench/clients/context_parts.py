"""The parts of bench/context.py: each is a function PART(table, sides, options) that adds rows. sides: Cloche over frames first."""
import contextlib
import time

from context_sides import IMPORTS, Mcp, OfPrefix
from sandbox_parts import BLOCK, pss_kb, timed
from sandbox_sides import Refused, expect

LINE = "x" * 1023
MIB = f"print('\\n'.join(['{LINE}'] * 1024))"
PLOTS = "for i in range(10): plt.figure(); plt.plot(range(100)); plt.title(str(i));"
FRAMES = {"20 MB": 1_250_000, "200 MB": 12_500_000}  # rows of two columns of 8 bytes


def add(table, what, times, failures):
    """A row a side, with the ratio of the others' p50 to that of Cloche (the first side). times: side to ms."""
    first = None
    for side, ms in times.items():
        p50 = sorted(ms)[len(ms) // 2] if ms else None
        note = str(failures[side][0])[:120] if failures[side] else f"{p50 / first:.1f} times" if first and p50 else ""
        table.add(what, side.name, ms, len(failures[side]), note)
        first = first or p50


def in_turns(table, what, sides, rounds, act):
    """act(side) -> {suffix: ms}; in blocks, so that a slow moment of the machine affects all."""
    times, failures = {}, {side: [] for side in sides}
    for done in range(0, rounds, BLOCK):
        for side in sides:
            for _ in range(min(BLOCK, rounds - done)):
                try:
                    for suffix, ms in act(side).items():
                        times.setdefault(suffix, {each: [] for each in sides})[side].append(ms)
                except (Refused, KeyError, OSError, ValueError, TypeError) as error:
                    failures[side].append(error)
    for suffix, of_sides in times.items():
        add(table, what + suffix, of_sides, failures)

PAUSE_S = 0.15  # between two: a side that prewarms interpreters may do so


@contextlib.contextmanager
def one_each(sides):
    """A live context on each side, with the libraries imported."""
    made = {side: side.make() for side in sides}
    for side, context in made.items():
        side.run(context, IMPORTS)
        side.run(context, "import matplotlib.pyplot as plt, time")
    yield made
    for side, context in made.items():
        side.drop(context)


def create(table, sides, options):
    """Few rounds for sides that keep processes; Cloche again in more, for its p99, and without a
    pause for prewarming."""
    def act(side, pause_s=PAUSE_S):
        time.sleep(pause_s)
        made, context = timed(side.make)
        first = side.run(context, "40 + 2")
        expect(first.text == "42\n", first.text)
        imports = side.run(context, IMPORTS).whole_ms
        side.drop(context)
        return {", answered": made, " and its first cell": made + first.whole_ms, ", pandas and pyplot imported": made + first.whole_ms + imports}
    for side in sides:
        if side.name != "upstream":
            act(side)
    in_turns(table, "a new context", sides, min(side.most for side in sides), act)
    in_turns(table, "a new context", sides[:1], options.rounds, act)
    in_turns(table, "a new context (in a row)", sides[:1], options.rounds, lambda side: act(side, 0))


def prefix(table, sides, options):
    """Cloche alone: contexts from a set-up that holds a million numbers, beside plain ones."""
    both = [sides[0], OfPrefix(sides[0])]

    def act(side, pause_s=PAUSE_S):
        time.sleep(pause_s)
        made, context = timed(side.make)
        first = side.run(context, "40 + 2" if side is sides[0] else "len(held) // 10 ** 6 * 42")
        expect(first.text == "42\n", first.text)
        side.drop(context)
        return {", answered": made, " and its first cell": made + first.whole_ms}
    for side in both:
        act(side)
    in_turns(table, "a new context", both, options.rounds, act)
    in_turns(table, "a new context (in a row)", both, options.rounds, lambda side: act(side, 0))


def cells(table, sides, options):
    with one_each(sides) as made:
        def evaluates(side):
            ran = side.run(made[side], "1+1")
            expect(ran.text == "2\n", ran.text)
            return {"": ran.whole_ms}

        def prints(side):
            ran = side.run(made[side], "print('first'); time.sleep(0.02)")
            expect(ran.text == "first\n", ran.text)
            return {": first byte": ran.first_ms}

        def prints_much(side):
            ran = side.run(made[side], MIB)
            expect(len(ran.text) == 1 << 20, len(ran.text))
            return {"": ran.whole_ms}
        in_turns(table, "1+1 in a live context", sides, options.rounds, evaluates)
        in_turns(table, "a print, then 20 ms of sleep", sides, max(20, options.rounds // 4), prints)
        in_turns(table, "1 MiB of output", sides, max(20, options.rounds // 10), prints_much)


def mcp(table, sides, options):
    with contextlib.closing(Mcp(sides[0])) as pipe:
        pair = [sides[0], pipe]
        made = {side: side.make() for side in pair}

        def evaluates(side):
            ran = side.run(made[side], "1+1")
            expect(ran.text == "2\n", ran.text)
            return {"": ran.whole_ms}
        in_turns(table, "1+1 by run_code over standard input", pair, max(200, options.rounds), evaluates)
        for side, context in made.items():
            side.drop(context)


def plots(table, sides, options):
    sides = [side for side in sides if side.shows]
    with one_each(sides) as made:
        def act(side):
            ran = side.run(made[side], PLOTS)
            expect(ran.pictures == 10, ran.pictures)
            return {"": ran.whole_ms}
        in_turns(table, "10 plots as PNG", sides, max(10, options.rounds // 20), act)


def memory(table, sides, options):
    """PSS that further idle contexts add; all processes. Pages of a prefix are shared by all its forks."""
    for side in sides:
        def total():
            time.sleep(1)
            return sum(pss_kb(pid) for pid in side.pids())
        count = min(side.most, options.idle) - 1
        kept = [side.make()]
        side.run(kept[0], IMPORTS)
        before = total()
        for _ in range(count):
            kept.append(side.make())
            side.run(kept[-1], IMPORTS)
        each = (total() - before) / count / 1024
        table.add(f"an idle context, pandas and pyplot imported ({count})", side.name, note=f"{each:.1f} MiB of PSS each")
        for context in kept:
            side.drop(context)


def fork(table, sides, options):
    """Cloche alone: the others have no equivalent."""
    cloche = sides[0]
    for size, rows in FRAMES.items():
        context = cloche.make(forkable=True)
        cloche.run(context, f"import numpy, pandas; frame = pandas.DataFrame({{'a': numpy.arange({rows}.0), 'b': numpy.arange({rows}.0)}})")

        def act(side):
            forked, answer = timed(lambda: side.call("fork", context=context))
            branch = answer["contexts"][0]["context"]
            ran = side.run(branch, "len(frame)")
            expect(ran.text == f"{rows}\n", ran.text)
            side.drop(branch)
            return {", answered": forked, " and a cell in it": forked + ran.whole_ms}
        act(cloche)
        in_turns(table, f"fork of a context with {size}", sides[:1], max(20, options.rounds // 10), act)
        cloche.drop(context)
    context = cloche.make(forkable=True)
    cloche.run(context, IMPORTS)
    ms, answer = timed(lambda: cloche.call("fork", context=context, count=100))
    for branch in answer["contexts"]:
        expect(cloche.run(branch["context"], "1+1").text == "2\n", branch)
    table.add("100 forks at once, until all live", cloche.name, [ms])
    for branch in answer["contexts"]:
        cloche.drop(branch["context"])
    cloche.drop(context)
