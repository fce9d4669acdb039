"""Processes, memory, disk and descriptors until there are no more: the limit holds, the sandbox reports it and goes on, its neighbour notices nothing."""
from cloche import HostStaysWell
from hostile_sandboxes import Box, Daemon, Failed, wait_for

PIDS = {"pids": 60}
BOMBS = [
    "bomb() { bomb | bomb & }; bomb; sleep 1000", "while :; do sleep 1000 & done", "python3 -c 'import os\nwhile True:\n  try: os.fork()\n  except OSError: pass'",
    "python3 -c 'import os\ndef away():\n  os.setsid()\n  while True:\n    try:\n      if os.fork() == 0: os.setsid()\n      elif os.fork() == 0: os._exit(0)\n    except OSError: pass\naway()'",
]


def test_fork_bombs_while_another_sandbox_works():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box, beside = Box(frames, "bombed", limits=PIDS), Box(frames, "beside")
        box.run("true", session="other"), box.call("file.exists", path="/")
        for bomb in BOMBS:
            started = box.call("process.start", command=bomb)["process"]
            wait_for(lambda: box.call("sandbox.get")["usage"]["pidsPeak"] >= 50)
            for n in range(10):
                assert beside.says(f"echo $(echo {n})") == b"%d\n" % n
            beside.is_well()
            assert box.says("echo $((6 * 7))") == b"42\n", "what needs no process works"
            box.call("process.kill", process=started, signal="KILL")
            box.call("process.wait", process=started, timeoutMs=20000)
            wait_for(lambda: box.run("true | true; (true)")["stderrBytes"] == 0)
            assert box.call("process.get", process=box.witness)["status"] == "running", bomb
        box.is_well()


def test_a_bomb_in_the_foreground_meets_its_timeout():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits=PIDS)
        box.run("true", session="other")
        for bomb in BOMBS:
            result = box.run(bomb, timeoutMs=500, outputBytes=0)
            assert result["timedOut"] and result["exitCode"] == 124, (bomb, result)
            wait_for(lambda: box.run("true | true; (true)")["stderrBytes"] == 0)
            assert box.call("process.get", process=box.witness)["status"] == "running", bomb
        box.is_well()


def test_a_bomb_whose_command_has_ended():
    """Orphaned processes: their sandbox can kill them with everything else there, or be stopped."""
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box, beside = Box(frames, limits=PIDS), Box(frames, "beside")
        assert box.run("bomb() { bomb | bomb & }; (bomb) &")["exitCode"] == 0
        wait_for(lambda: box.call("sandbox.get")["usage"]["pidsPeak"] >= 50)
        box.run("kill -KILL -1")
        box.is_well(spared=False)
        assert box.run("bomb() { bomb | bomb & }; (bomb) &")["exitCode"] == 0
        beside.is_well()
        assert box.call("sandbox.stop")["state"] == "stopped"
        box.is_well(spared=False)


def test_what_cannot_start_is_an_error_and_nothing_hangs():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits=PIDS)
        filled = box.call("process.start", command="python3 -c 'import os, time\ntry:\n  while True:\n    if os.fork() == 0: time.sleep(1000)\nexcept OSError: print(\"full\", flush=True)\ntime.sleep(1000)'")["process"]
        box.call("process.wait", process=filled, text="full", timeoutMs=20000)
        for method, params in (("exec", {"command": "/bin/true", "timeoutMs": 1500}), ("exec", {"command": "true", "fork": True}), ("process.start", {"command": "true"}), ("process.start", {"command": "true", "terminal": {"cols": 80, "rows": 24}}),
                               ("file.write", {"path": "f", "content": "x"}), ("file.list", {"path": "/", "recursive": True}), ("session.create", {"session": "late"}), ("exec", {"command": "true", "session": "late"})):
            try:
                result = box.call(method, **params)
                assert method != "exec" or params["command"] == "true" or result["exitCode"], result
            except Failed as error:
                assert error.name in ("spawn", "resource", "session_ended", "process_ended", "not_found", "sandbox_ended"), (method, params, error.name, str(error))
        box.call("process.kill", process=filled, signal="KILL")
        box.call("process.wait", process=filled, timeoutMs=20000)
        box.is_well()


def test_limits_are_raised_while_it_is_full():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits={"pids": 30})
        many = "for i in {1..40}; do sleep 1000 & done 2> /dev/null; jobs -p | wc -l; kill %%; kill $(jobs -p); wait"
        assert int(box.says("ulimit -u; for i in {1..25}; do sleep 0.3 & done 2> /dev/null; jobs -p | wc -l; wait", timeoutMs=20000).split()[-1]) <= 25
        box.call("sandbox.update", limits={"pids": 200})
        assert box.says(many + " 2> /dev/null", session="more").split()[0] == b"40"
        box.is_well()


HOGS = [
    ("python3 -c 'x = b\"x\" * (800 << 20)'", 137), ("python3 -c 'import mmap\nm = mmap.mmap(-1, 1 << 30)\nfor i in range(0, 1 << 30, 4096): m[i] = 1'", 137),
    ("tail /dev/zero", 137), ("x=$(yes | head -c 1000000000)", 137), ("python3 -c 'import os\nl = []\nwhile True: l.append(os.urandom(1 << 20))'", 137), ("sort /dev/zero", 137),
]


def test_memory_hogs_are_ended():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box, beside = Box(frames, limits={"memoryBytes": 96 << 20}), Box(frames, "beside")
        for hog, code in HOGS:
            result = box.run(hog, timeoutMs=60000)
            assert result["exitCode"] == code and not result["timedOut"], (hog, result)
            assert box.says("echo next") == b"next\n" and beside.says("echo next") == b"next\n", hog
            box.call("file.write", path="/tmp/f", content="x")
        assert box.run("python3 -c 'print(len(b\"x\" * (20 << 20)))'")["exitCode"] == 0  # the twin
        box.is_well(spared=False), beside.is_well()  # the kernel chooses its victim in a full group


def test_memory_of_files_and_pipes_counts():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits={"memoryBytes": 96 << 20, "diskBytes": 32 << 20})
        for command in ("head -c 900000000 /dev/zero > /dev/shm/x", "head -c 900000000 /dev/zero > /tmp/x", "head -c 900000000 /dev/zero > x", "python3 -c 'import os\nfor i in range(400):\n  f = os.memfd_create(\"x\")\n  os.write(f, bytes(1 << 20))'",
                        "for i in {1..100}; do head -c 1000000 /dev/zero > /tmp/y$i || break; done; [ $i -lt 100 ] && false"):
            assert box.run(command, timeoutMs=60000)["exitCode"] != 0, command
            box.run("rm -f x /tmp/* /dev/shm/*")
        box.is_well(spared=False)


def test_a_full_disk():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits={"diskBytes": 4 << 20})
        box.call("file.write", path="kept", content="kept")
        for fill in ("head -c 100000000 /dev/zero > big", "python3 -c 'n = 0\nwhile True: open(\"f%d\" % n, \"w\").close(); n += 1'", "python3 -c 'import os\nn = 0\nwhile True: os.mkdir(\"d%d\" % n); n += 1'",
                     "python3 -c 'import os\nn = 0\nwhile True: os.symlink(\"x\" * 4000, \"l%d\" % n); n += 1'", "python3 -c 'f = open(\"big\", \"w\"); f.truncate(1 << 60)' || cat /dev/zero > big"):
            result = box.run(fill, timeoutMs=60000)
            assert result["exitCode"] != 0 and not result["timedOut"], (fill, result)
            error = box.refused("file.write", path="more", content="x" * (5 << 20))
            assert error.name in ("disk_full", "too_large"), (fill, error.name)
            assert box.call("file.read", path="kept")["content"] == "kept" and box.says("echo alive") == b"alive\n"
            assert box.run("find . /tmp -mindepth 1 -not -name kept -delete")["exitCode"] == 0, fill
        assert box.call("file.write", path="more", content="x" * (1 << 20))["bytes"] == 1 << 20
        box.is_well()


def test_descriptors_and_threads():
    with HostStaysWell(), Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames, limits={"pids": 100})
        said = box.python("""
import os, threading, time
fds = []
try:
    while True: fds.append(os.open("/dev/null", 0))
except OSError as e: print(e.errno, flush=True)
for fd in fds: os.close(fd)
made = 0
try:
    while made < 1000: threading.Thread(target=time.sleep, args=[1000], daemon=True).start(); made += 1
except RuntimeError: print(made < 100, flush=True)
os._exit(0)""")
        assert said.split() == ["24", "True"], said
        box.run("python3 -c 'import os, socket\nl = []\nwhile True:\n  l.append(os.pipe()) if os.fork() == 0 else os.wait()'", timeoutMs=500)
        box.is_well()
