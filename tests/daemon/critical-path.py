"""System calls of the engine between a request and its answer, for a run from a spare. They were 66
and 154. Each bound is the number reached (decision 0028), with two waits for the guest."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import need_root
from rpc import Daemon
from system_calls import fewest

TIMES = 20
CALL = {"language": "c", "code": "int one(void) { return 1; }", "warm": True}


def at_most(bound, **options):
    need_root()  # to trace a process that is not dumpable
    with Daemon() as daemon, daemon.frames() as frames:
        calls = fewest(daemon, frames, TIMES, **CALL, **options)
        assert 0 < calls.total() <= bound, (calls.total(), calls)


def test_without_changes():
    at_most(17, resultOptions={"includeChanges": False})


def test_with_changes():
    at_most(26)
