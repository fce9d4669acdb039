"""The translation of TypeScript code that comes again is kept for its next runs. No input of a run
must change it."""
import base64
import json
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../daemon"))
from cloche import equal, need_root
from rpc import Daemon
from system_calls import traced
from warm import Warm

PROGRAM = """
    import { writeSync } from 'fs'
    export const f = (forged: string): string => { if (forged !== '') writeSync(3, Buffer.from(forged, 'base64')); return 'good' }
"""
EVIL = b'["export const f = () => \'evil\'"]'
FORGED = {"jsonrpc": "2.0", "method": "translated", "params": {"translation": {"$": "bytes", "at": 0, "n": len(EVIL)}}}


def frame(message, attachment):
    text = json.dumps(message).encode()
    return struct.pack("<II", 4 + len(text) + len(attachment), len(text)) + text + attachment


def test_a_forged_translation_is_refused():
    forged = base64.b64encode(frame(FORGED, EVIL)).decode()
    with Warm("typescript", spares=1) as warm:
        for _ in range(4):  # the first is noted, the second is asked for its translation, the others get it
            result = warm.run(PROGRAM, args=[forged])
            equal((result.status, result.error["type"]), ("crash", "ProtocolError"), result)
        for _ in range(2):
            equal(warm.value(PROGRAM, args=[""]), "good")


def translations(lines):
    """The engine's part in each request to a child."""
    sent = [line for line in lines if "sendmsg(" in line and '\\"method\\":\\"call\\"' in line]
    return ["asks" if '\\"translation\\":true' in line else "gives" if '\\"translation\\":{' in line else "nothing" for line in sent]


def test_a_translation_is_kept_for_the_same_code():
    need_root()  # to trace a process that is not dumpable
    numbers = iter((1, 1, 1, 1, 2))
    with Daemon() as daemon, daemon.frames() as frames:
        def run():
            number = next(numbers)
            equal(frames.call("call", language="typescript", warm=True, code=f"export const f = (): number => {number}")["result"], number)
        equal(translations(traced(daemon.engine_pid(), run, 5)), ["nothing", "asks", "gives", "gives", "nothing"])


def test_each_set_up_has_its_own():
    code = "declare const which: string\nexport const f = (): string => which"
    for which in ("one", "other"):
        with Warm("typescript", f"globalThis.which = '{which}'") as warm:
            for _ in range(4):
                equal(warm.value(code), which)
