"""Killed at every point: the result is finished or undone, and whole in both cases. An ordinary run
takes each third point of rollback, and, as the steps are the same for all ways to handle errors,
each twelfth of the others."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from synced import Gone, Synced, Trees, every_kind_tree

TIMEOUT = 240
EACH, OTHERS = sampled(3, 1), sampled(12, 1)


def run_killed(s, trees, point, fail=None, **settings):
    """True: it was killed."""
    s.begin(crash=point, fail=fail, **settings)
    try:
        s.apply(trees.changes)
        return False
    except Gone:
        return True


def every_point(on_error, fail=None, step=1):
    with Synced(every_kind_tree(), memory="64m") as s:
        trees, seen, point = Trees(s), {}, 1 - step
        while True:
            point += step
            killed = run_killed(s, trees, point, fail=fail, onError=on_error)
            if not killed:
                break
            s.begin()
            result = s.call("recover")
            state = trees.state()
            if fail or result["state"] != "none":
                assert {"none": "old", "undone": "old", "finished": "new"}[result["state"]] == state, (point, result["state"], state)
            seen[result["state"]] = seen.get(result["state"], 0) + 1
        print(f"{point} points, {seen}")
        return seen, point


def test_killed_at_every_point_under_rollback():
    seen, points = every_point("rollback", step=EACH)
    assert points > 200 and seen["undone"] > 20 // EACH and seen["finished"] > 100 // EACH


def test_killed_at_every_point_under_continue():
    seen, points = every_point("continue", step=OTHERS)
    assert points > 200 and seen["undone"] > 20 // OTHERS and seen["finished"] > 100 // OTHERS


def test_killed_at_every_point_under_abort():
    seen, points = every_point("abort", step=OTHERS)
    assert points > 200 and seen["undone"] > 20 // OTHERS and seen["finished"] > 100 // OTHERS


def test_killed_at_every_point_of_an_undoing():
    """The last step fails, so all of them are undone."""
    seen, points = every_point("rollback", fail=75, step=OTHERS)
    assert points > 300 and seen["undone"] > 100 // OTHERS
