#!/usr/bin/env python3
"""An agent loop: a model writes code, a box runs it, what came out is what the model sees next.

The model here is a script of three steps, so that this runs anywhere: put a language model in its place, nothing else changes.
Its second step takes for granted that the first has left something, but every box is new: it sees the error and mends it. Its tools
are functions of this program; the code in the box has them and nothing else of this machine."""
import csv
import pathlib

import cloche

RIVERS = list(csv.DictReader((pathlib.Path(__file__).parent / "rivers.csv").read_text().splitlines()))
QUESTION = "How much longer is the longest river than the longest one of Asia, in miles?"


def rivers_of(continent=None):
    """A tool: {river: km}, of one continent or of all."""
    if continent not in {None, *(row["continent"] for row in RIVERS)}:
        raise LookupError(f"no rivers of {continent!r} are known")
    return {row["river"]: float(row["length_km"]) for row in RIVERS if continent in (None, row["continent"])}


async def miles(km):
    """A tool too; it could ask a service."""
    return round(km / 1.609344)


def model(question, seen):
    """What to run next, or None: the last value is the answer."""
    steps = ["longest = max(rivers_of().values())\nlongest",
             "return longest - max(rivers_of('Atlantis').values())",
             "try:\n    asian = rivers_of('Atlantis')\nexcept LookupError:\n    asian = rivers_of('Asia')\n"
             "return miles(max(rivers_of().values()) - max(asian.values()))"]
    return steps[len(seen)] if len(seen) < len(steps) else None


def main():
    seen = []
    with cloche.Cloche() as client:
        while (code := model(QUESTION, seen)) is not None:
            result = client.call("python", code, globals={"rivers_of": rivers_of, "miles": miles},
                                 limits={"wall_ms": 5000, "bridge_calls": 20})
            seen.append(result.value if result.success else str(result.error))
            print(f"--- step {len(seen)}\n{code}\n=> {seen[-1]}")
    print(f"\n{QUESTION}\n{seen[-1]}")


if __name__ == "__main__":
    main()
