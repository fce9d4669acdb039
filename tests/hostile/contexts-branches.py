"""Forkable contexts whose code has taken the agent's own functions, and contexts that get all
requests at once, in any order."""
import random

from cloche import HostStaysWell
from context_cells import together
from hostile_sandboxes import Failed, Host

TIMEOUT = 180
SEEDS = (42, 5, 2)
ENDINGS = {"ok", "cancelled", "not_found", "context_ended", "invalid_state", "invalid_argument", "queue_full", "sandbox_ended"}
# attack(agent, fd, go) runs in the agent's place when it is to be frozen and forked; go() is the agent's own action.
TAKE = r"""
import json, os, signal, struct, sys, time
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
def frame(message):
    text = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()
    return struct.pack("<II", 4 + len(text), len(text)) + text
pid = os.getpid()
below = sys._getframe()
while "State" not in below.f_globals or getattr(below.f_globals["State"], "template", None) is None:
    below = below.f_back
taken = below.f_globals["State"].template
stand = type(taken).stand
type(taken).stand = lambda agent, channel: attack(agent, channel.fd, lambda: stand(agent, channel))
"""
ATTACKS = [
    *(f"os.write(fd, frame({{'method': 'failed', 'params': {params}}}) * 3)\n    return go()" for params in (
        "{'fork': 1, 'errno': 5, 'message': 'made up'}", "{'fork': -1}", "{'fork': 10 ** 18}", "{'fork': 'x', 'message': 5}", "[]", "{}", "{'fork': 0, 'message': 'x' * 1000000}", "None")),
    "for i in range(200): os.write(fd, frame({'method': 'failed', 'params': {'fork': i, 'errno': 5, 'message': 'made up'}}))\n    return go()",
    "for i in range(200): os.write(fd, frame({'method': 'exited', 'params': {'fork': i, 'status': 9}}))\n    return go()",
    "os.write(fd, b'\\xff' * 100)\n    return go()", "os._exit(3)", "raise ValueError('no')", "return False", "return True", "time.sleep(1000)",
    *(f"os.write(fd, frame({message}))\n    return go()" for message in (
        "{'id': 77, 'result': {}}", "{'method': 'display', 'params': {}}", "{'method': 'input', 'id': 1, 'params': {}}")),
    "os.kill(os.getpid(), signal.SIGSTOP)\n    return go()", "if os.fork() == 0: return go()\n    return go()",
    "made = go()\n    if os.getpid() != pid: os._exit(3)\n    return made", "made = go()\n    if os.getpid() != pid: time.sleep(1000)\n    return made",
    "made = go()\n    os.write(fd, b'\\xff' * 100)\n    return made",
    "for other in range(3, 1100):\n        try: os.close(other)\n        except OSError: pass\n    return go()",
]


def asked(n, method, **params):
    """Its answer, or the name of its error; taken back when none comes."""
    number = n.frames.ask(method, sandbox=n.sandbox, **params)
    n.frames.socket.settimeout(1.5)
    try:
        return n.frames.wait(number)
    except Failed as error:
        return error.name
    except TimeoutError:
        n.frames.socket.settimeout(40)
        n.frames.call("cancel", id=number)
        while number not in n.frames.answers:
            n.frames.turn()
        return n.frames.answers.pop(number)[0].get("error", {}).get("data", {}).get("name")
    finally:
        n.frames.socket.settimeout(40)


def agents_that_were_taken(n):
    n.is_well("beside")
    for i, attack in enumerate(ATTACKS):
        name = f"c{i}"
        n.create(name, forkable=True)
        answer = n.run(TAKE + "def attack(agent, fd, go):\n    " + attack, name)
        assert answer["status"] == "ok", answer
        asked(n, "context.fork", context=name, count=2)
        assert n.value("6 * 7", "beside") == "42", attack
        n.call("context.restart", context=name)
        assert n.value("6 * 7", name) == "42", attack
        for context in n.call("context.list")["contexts"]:
            if context["context"] != "beside":
                n.delete(context["context"])
    n.create("twin", forkable=True)
    assert n.run(TAKE + "def attack(agent, fd, go):\n    sys.stdout.write('')\n    return go()", "twin")["status"] == "ok"
    made = n.call("context.fork", context="twin", count=2)["contexts"]
    assert [n.run("pid", context["context"])["status"] for context in made] == ["ok", "ok"], "what goes through to the agent's own works"


def one_of(chance, known):
    context = chance.choice(known)
    return chance.choice([
        *[("context.create", {"context": context, "forkable": True})] * 4, ("context.create", {"context": context}),
        ("context.run", {"context": context, "code": "x = 1\nx", "restart": True}),
        ("context.run", {"context": context, "code": "while True: pass", "timeoutMs": 30}), ("context.run", {"context": context, "code": "import os; os._exit(1)"}),
        ("context.run", {"context": context, "code": "print('x' * 100000)", "stream": True}), ("context.fork", {"context": context, "count": chance.randint(1, 2), "forkable": True}),
        ("context.fork", {"context": context}), ("context.checkpoint", {"context": context, "checkpoint": "k"}), ("context.rollback", {"context": context}),
        ("context.forget", {"context": context, "checkpoint": "k"}), ("context.restart", {"context": context}), ("context.delete", {"context": context}),
        ("context.interrupt", {"context": context}), ("context.complete", {"context": context, "code": "x"}), ("context.list", {}), ("cancel", None), ("cancel", None),
    ])


def storm(n, seed):
    """How many of its requests ended how. The same requests every time, as far as a machine lets it be."""
    chance, known, numbers, outcomes = random.Random(seed), ["a", "b", "a-fork-1"], [], {}
    for step in range(200):
        method, params = one_of(chance, known)
        if method == "cancel":
            if numbers:
                n.frames.ask("cancel", id=chance.choice(numbers))
            continue
        numbers.append(n.frames.ask(method, sandbox=n.sandbox, **params))
        if chance.random() < 0.15:
            known = ["a", "b", *[c["context"] for c in n.call("context.list")["contexts"] if c["context"] not in ("a", "b", "beside")][:4]]
        if step == 100:
            n.frames.ask("sandbox.stop", sandbox=n.sandbox)
    for number in numbers:
        try:
            n.frames.wait(number)
            name = "ok"
        except Failed as error:
            name = error.name
        outcomes[name] = outcomes.get(name, 0) + 1
    return outcomes


def everything_at_once(n):
    n.is_well("beside")
    n.call("sandbox.stop")
    host = Host(n.daemon)
    n.shell("true")
    before = host.now()
    for seed in SEEDS:
        outcomes = storm(n, seed)
        assert outcomes["ok"] > 20 and set(outcomes) <= ENDINGS, (seed, outcomes)
        n.call("sandbox.stop")
        n.frames.answers.clear()
        n.known.clear()
        n.is_well("beside")
    n.delete("beside")
    host.comes_back_to(before)


def test_branches():
    with HostStaysWell():
        together(agents_that_were_taken, everything_at_once)
