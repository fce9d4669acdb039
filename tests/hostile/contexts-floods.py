"""More than anybody takes, from code in contexts: output, displays, questions, processes, memory. The daemon keeps no more of it than it promised."""
from cloche import HostStaysWell
from context_cells import together
from hostile_sandboxes import Host, Memory, wait_for
from http_client import Http

TIMEOUT = 180
ROOM = 48 << 20  # in the daemon's memory, beside the content of a response
PRELUDE = r"""
import json, os, stat, struct, time
if not os.uname().nodename.startswith("cloche") or os.getuid() != 1000:
    raise SystemExit("an attack that is not in a box would be one on the host")
def is_socket(fd):
    try:
        return stat.S_ISSOCK(os.fstat(fd).st_mode)
    except OSError:
        return False
channel = next(fd for fd in range(1099, 3, -1) if is_socket(fd))
def frame(**message):
    text = json.dumps({"jsonrpc": "2.0", **message}).encode()
    return struct.pack("<II", 4 + len(text), len(text)) + text
def write(data):
    view = memoryview(data)
    while view:
        view = view[os.write(channel, view):]
"""


def endless_output(n):
    n.is_well("beside")
    for timeout_ms in (600, 6000, 20000):  # on a busy machine it needs longer to print much
        with Memory(n.daemon, ROOM) as memory:
            number = n.ask("while True: print('flood ' * 10000)", timeoutMs=timeout_ms)
            for _ in range(10):
                assert n.value("6 * 7", "beside") == "42"
                memory.look()
            answer = n.wait(number)
        if answer["stdoutBytes"] > 1 << 20:
            break
    assert answer["timedOut"] and not answer["ended"] and answer["truncated"] and answer["stdoutBytes"] > 1 << 20 == len(answer["stdout"]), answer["stdoutBytes"]
    page = n.call("output.read", output=answer["output"], stream="stdout", offset=60000 * 10)
    assert page["data"]
    n.is_well()


def endless_output_nobody_reads(n):
    n.run("1")
    with Memory(n.daemon, ROOM) as memory:
        number = n.begin("while True: print('flood ' * 10000)", timeoutMs=60000)
        n.until(number, "output")
        n.frames.call("hold", id=number, hold=True)
        for _ in range(10):
            assert n.value("6 * 7", "beside") == "42"
            memory.look()
        n.cancel(number)
    n.is_well()


def streams_nobody_reads(n):
    """Over HTTP: a slow reader makes the cell wait, and a disconnected one ends it."""
    n.run("kept = 1")
    with Memory(n.daemon, ROOM) as memory:
        for code in ("while True: print('flood ' * 10000)", "while True: display('x' * 100000)"):
            with Http(n.daemon.connect()) as http:
                assert http.begin("POST", n.path + "/context/run", {"context": "c", "code": code}, accept="text/event-stream") == 200
                for _ in range(10):
                    assert n.value("6 * 7", "beside") == "42"
                    memory.look()
            wait_for(lambda: n.get()["state"] != "busy")
    assert n.run("kept", restart=True)["executionCount"]


def output_between_cells(n):
    """A child goes on printing; the next cell has its beginning, and the buffer is bounded."""
    with Memory(n.daemon, ROOM):
        n.run("import subprocess, time\nchild = subprocess.Popen(['yes', 'between'])")
        for _ in range(10):
            assert n.value("6 * 7", "beside") == "42"
        answer = n.run("child.kill()\nchild.wait()")
    assert answer["stdout"].startswith(b"between\nbetween\n") and answer["status"] == "ok", answer["status"]
    n.is_well()


def much_from_before_a_cell_that_nobody_reads(n):
    """It stays in its buffer until the reader of the cell goes on, and comes whole and before the answer."""
    size = 60_000_000
    command = f"until test -e go; do sleep 0.01; done; head -c {size} /dev/zero; touch printed"  # nothing of it in the first cell
    n.run(f"import subprocess\nchild = subprocess.Popen({command!r}, shell=True, cwd='/workspace')")
    n.call("exec", command="touch /workspace/go")
    wait_for(lambda: n.call("exec", command="test -e /workspace/printed")["exitCode"] == 0)
    with n.daemon.frames() as slow:
        with Memory(n.daemon, ROOM) as memory:
            number = slow.ask("context.run", sandbox=n.sandbox, context="c", code="child.wait(); print('own')", stream=True)
            for _ in range(10):
                assert n.value("6 * 7", "beside") == "42"
                memory.look()
        answer = slow.wait(number)
        text = b"".join(attachments for method, params, attachments in slow.told if method == "event" and params["event"] == "output")
        assert answer["stdoutBytes"] == len(text) == size + 4 and text.endswith(b"\0own\n") and text.count(b"\0") == size, len(text)
    n.is_well()


DISPLAYS = PRELUDE + "one = frame(method='display', params={'data': {'text/plain': 'x'}, 'metadata': {}, 'isResult': False})\n"


def a_flood_of_displays(n):
    n.run(PRELUDE)
    with Memory(n.daemon, ROOM):
        answer = n.run(DISPLAYS + "for _ in range(30): write(one * 600)")
        assert len(answer["displays"]) == 10000 and answer["displaysDropped"] == 8000, (len(answer["displays"]), answer["displaysDropped"])
        answer = n.run(DISPLAYS + "for _ in range(30): write(frame(method='clear', params={'wait': False}) * 100 + one)")
        assert len(answer["displays"]) == 1 and answer["displaysDropped"] == 0
    number = n.begin(DISPLAYS + "for _ in range(30): write(one * 100)")
    n.wait(number)
    assert sum(name == "display" for name, _ in n.events(number)) == 3000, "told are all"
    answer = n.run("for i in range(500): display(i)")
    assert len(answer["displays"]) == 500 and answer["displaysDropped"] == 0, "who shows much in order is not punished"
    n.is_well()


def displays_nobody_reads(n):
    n.run(PRELUDE)
    with Memory(n.daemon, ROOM) as memory:
        large = "large = frame(method='display', params={'data': {'text/plain': 'x' * 100000}, 'metadata': {}, 'isResult': False})\nwhile True: write(large)"
        number = n.begin(DISPLAYS + large, timeoutMs=60000)
        n.until(number, "display")
        n.frames.call("hold", id=number, hold=True)
        for _ in range(10):
            assert n.value("6 * 7", "beside") == "42"
            memory.look()
        n.cancel(number)
    wait_for(lambda: n.get()["state"] != "busy")
    assert n.run("6 * 7", restart=True)["status"] == "ok"


def questions_whose_answers_nobody_reads(n):
    """Messages to the agent queue up, but not without bound; so do the names of requests."""
    for method, params in (("input", "{'prompt': ''}"), ("display", "{'data': {}, 'metadata': {}}")):
        with Memory(n.daemon, ROOM) as memory:
            answer = n.run(PRELUDE + f"many = frame(method='{method}', id='x' * 64, params={params}) * 1000\nwhile True: write(many)", timeoutMs=20000, restart=True)
            memory.look()
        assert answer["ended"] and "does not read" in answer["error"]["message"], answer["error"]
        answer = n.run(PRELUDE + f"write(frame(method='{method}', id='x' * 65, params={params}))\ntime.sleep(1000)", timeoutMs=20000, restart=True)
        assert answer["ended"] and "65 bytes" in answer["error"]["message"], answer["error"]
        answer = n.run(PRELUDE + f"for i in range(1000): write(frame(method='{method}', id=i, params={params}))", timeoutMs=20000, restart=True)
        assert answer["status"] == "ok" and n.value("6 * 7", "beside") == "42", "the twin"
        n.call("context.restart", context="c")


def long_errors(n):
    for code, name in (("raise ValueError('x' * 20_000_000)", "ValueError"), ("raise type('N' * 1_000_000, (Exception,), {})('m')", None),
                       ("def f(i): return f(i + 1)\nf(0)", "RecursionError"),
                       ("e = ValueError(0)\nfor i in range(2000):\n    new = ValueError(i)\n    new.__cause__ = e\n    e = new\nraise e", "ValueError"),
                       ("raise ExceptionGroup('g', [ValueError('x' * 1000) for i in range(2000)])", "ExceptionGroup"),
                       ("class E(Exception):\n    def __str__(self): raise ValueError('in str')\nraise E()", "E"), ("class E(Exception):\n    def __str__(self): return 5\nraise E()", "E"),
                       ("class E(Exception):\n    def __str__(self): raise SystemExit(3)\nraise E()", "E"),
                       ("class M(type):\n    def __getattribute__(self, name): raise KeyboardInterrupt\nclass E(Exception, metaclass=M): pass\nraise E()", None),
                       ("class R:\n    def __getattribute__(self, name): raise MemoryError('no')\nraise R()", "TypeError")):
        with Memory(n.daemon, ROOM):
            answer = n.run(code, timeoutMs=20000)
        assert answer["status"] == "error" and not answer["ended"] and name in (None, answer["error"]["name"]), (code, str(answer)[:1000])
        assert len(str(answer["error"])) < 2 << 20, (code, len(str(answer["error"])))
        assert n.value("6 * 7") == "42", code
    for code in ("class E(Exception):\n    def __str__(self):\n        while True: pass\nraise E()", "class R:\n    def __repr__(self):\n        while True: pass\nR()"):
        answer = n.run(code, timeoutMs=300)
        assert answer["timedOut"] and answer["error"]["name"] == "Timeout", answer
        n.run("1", restart=True)
    n.is_well()


def enormous_figures(n):
    n.call("sandbox.create", limits={"memoryBytes": 512 << 20})
    for code in ("plt.figure(figsize=(1e6, 1e6))\nplt.plot([1])\nplt.show()", "plt.figure(figsize=(600, 600))\nplt.plot([1])\nplt.show()", "import numpy\nnumpy.zeros(1 << 40)"):
        answer = n.run("import matplotlib.pyplot as plt\n" + code, restart=True, timeoutMs=30000)
        assert answer["status"] == "error" or not answer["displays"] or "image/png" not in answer["displays"][0]["data"], answer
    assert n.run("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()", restart=True)["displays"][0]["data"]["image/png"], "the twin"


BOMBS = ["""
def bomb():
    while True:
        try: os.fork()
        except OSError: pass
bomb()""", """
def away():
    os.setsid()
    while True:
        try:
            if os.fork() == 0: os.setsid()
            elif os.fork() == 0: os._exit(0)
        except OSError: pass
if os.fork() == 0: away()
time.sleep(1000)""", """
import threading
while True:
    try: threading.Thread(target=time.sleep, args=(1000,)).start()
    except RuntimeError: pass"""]


def bombs_of_processes(n):
    n.call("sandbox.create", limits={"pids": 60})
    other = f"{n.sandbox}-other"
    n.frames.call("sandbox.create", sandbox=other)
    host = Host(n.daemon)
    n.shell("true")
    before = host.now()
    for bomb in BOMBS:
        n.create()
        number = n.begin("import os, time\nif not os.uname().nodename.startswith('cloche'): raise SystemExit\n" + bomb, timeoutMs=400)
        for _ in range(3):
            assert n.frames.call("context.run", sandbox=other, code="6 * 7")["status"] == "ok", "another sandbox has its own"
            assert n.shell("echo $((6 * 7))") == "42\n"
        answer = n.wait(number)
        assert answer["timedOut"], answer
        n.delete()
        wait_for(lambda: host.now()["processes"] <= before["processes"] + 12)  # but for spares
    n.is_well()
    n.frames.call("sandbox.delete", sandbox=other)


def bombs_of_memory(n):
    n.call("sandbox.create", limits={"memoryBytes": 256 << 20})
    n.run("x = 'kept'", "beside")
    number = n.ask("import os\nfor _ in range(8):\n    if os.fork() == 0: break\nheld = []\nwhile True: held.append(bytearray(b'x') * (4 << 20))", timeoutMs=8000)
    for _ in range(20):
        assert n.value("x", "beside") == "'kept'" and n.shell("echo on") == "on\n"
    answer = n.wait(number)
    assert answer["status"] == "error", answer
    assert n.call("context.restart", context="c")["state"] == "idle"
    n.is_well()


def test_floods():
    with HostStaysWell():
        together(endless_output, endless_output_nobody_reads, streams_nobody_reads, output_between_cells, much_from_before_a_cell_that_nobody_reads,
                 a_flood_of_displays, displays_nobody_reads, questions_whose_answers_nobody_reads, long_errors, enormous_figures, bombs_of_processes, bombs_of_memory,
                 has_packages=True)
