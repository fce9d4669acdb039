#!/usr/bin/python3
"""Killed from outside at any moment, and found whole each time.

As a test 27 kills, 80 with CLOCHE_TEST_ALL=1; by hand, with CLOCHE_BUILD set:  kill-at-random.py --thousand
"""
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from synced import Gone, Synced, Trees, every_kind_tree

TIMEOUT = 240


def duration(s, trees):
    """Seconds that an undisturbed sync takes."""
    s.begin()
    begun = time.monotonic()
    s.apply(trees.changes)
    taken = time.monotonic() - begun
    trees.renew()
    return taken


def kill_again_and_again(count, seed):
    chance, seen = random.Random(seed), {}
    with Synced(every_kind_tree(), memory="64m") as s:
        trees = Trees(s)
        longest = duration(s, trees)
        for i in range(count):
            s.begin(onError=("rollback", "continue", "abort")[i % 3])
            s.control.send("apply", {"changes": trees.changes})
            waited = chance.random() * longest
            time.sleep(waited)
            s.control.process.kill()
            s.begin()
            result = s.call("recover")
            state = trees.state()
            # The machine is as fast as now, not as at the first sync: both ends stay within reach.
            longest = waited if (result["state"], state) == ("none", "new") else max(longest, 2 * waited)
            assert result["state"] == "none" or {"undone": "old", "finished": "new"}[result["state"]] == state, (i, result["state"], state)
            seen[result["state"], state] = seen.get((result["state"], state), 0) + 1
    print(f"seed {seed}: {count} kills, {seen}", flush=True)
    return seen


def test_killed_at_random():
    from cloche import sampled
    seen = kill_again_and_again(sampled(27, 80), seed=os.getpid())
    assert {"old", "new"} == {state for _, state in seen}, seen


def test_killed_and_the_same_list_again():
    """The next sync of the list rolls forward: finished steps are no conflict."""
    from cloche import sampled
    chance, states = random.Random(os.getpid()), set()
    with Synced(every_kind_tree(), memory="64m") as s:
        trees = Trees(s)
        longest = duration(s, trees)
        for i in range(sampled(14, 40)):
            s.begin()
            s.control.send("apply", {"changes": trees.changes})
            time.sleep(chance.random() * longest)
            s.control.process.kill()
            s.begin()
            result = s.apply(trees.changes)
            states.add(result.get("recovered", {}).get("state"))
            assert not result["failed"] and not result["conflicts"], (i, result)
            assert trees.state() == "new", (i, trees.state(), result)
            trees.renew()
    print(f"states {states}", flush=True)


if __name__ == "__main__":
    kill_again_and_again(1000 if "--thousand" in sys.argv else 80, seed=int(time.time()))
