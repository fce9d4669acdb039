"""Floods and idlers: they wait for each other, never for or at the cost of anybody else. Hostile case 80."""
import os
import time

from egress import World

TIMEOUT = 200
ESTABLISHED = "01"  # in /proc/net/tcp
NAMES = {"allowed.test": ["93.184.216.34"]}


def memory(box):
    return int(next(line for line in open(f"/proc/{box.process.pid}/status") if line.startswith("VmRSS")).split()[1]) * 1024


def descriptors(box):
    return len(os.listdir(f"/proc/{box.process.pid}/fd"))


def connections(box):
    """How many of the guest's connections the egress program has accepted: others wait in the
    kernel, and have no inode yet."""
    folder = f"/proc/{box.process.pid}/fd/"
    inodes = {os.readlink(folder + name) for name in os.listdir(folder)}
    rows = [line.split() for line in open(f"/proc/{box.pid}/net/tcp")][1:]
    return sum(row[3] == ESTABLISHED and f"socket:[{row[9]}]" in inodes for row in rows)


def test_many_connections():
    world = World(NAMES)
    box, beside = world.box({"allow": ["allowed.test"]}), world.box({"allow": ["allowed.test"]})
    code = """
        import resource, threading
        resource.setrlimit(resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1:] * 2)
        held, at = [], name('allowed.test')
        for i in range(700):
            s = socket.socket(); s.setblocking(False); s.connect_ex((at, 25)); held.append(s)
        print('held', flush=True); time.sleep(60)"""
    flood = box.start(code)
    assert flood.stdout.readline() == "held\n"
    time.sleep(2)
    assert beside.run("get('http://allowed.test/')") == "allowed.test / 0", "a neighbour notices nothing"
    assert descriptors(box) < 2 * 256 + 64 and memory(box) < 64 << 20, (descriptors(box), memory(box))
    assert connections(box) == 256, connections(box)
    assert any("256 connections" in row["why"] for row in box.decisions())
    flood.kill()
    time.sleep(3)
    assert box.run("get('http://allowed.test/')") == "allowed.test / 0", "and it is well when they have gone"


def test_connections_that_come_and_go():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test:25"]})
    code = """
        at = name('allowed.test')
        for i in range(4000):
            s = socket.socket(); s.setblocking(False); s.connect_ex((at, 80)); s.close()
        print('done')"""
    assert box.run(code) == "done"
    time.sleep(3)
    assert memory(box) < 64 << 20 and descriptors(box) < 2 * 256 + 64
    told = box.decisions(kind="tcp", verdict="denied", port=80)
    assert 1 <= len(told) < 30, "many of the same are told as one"
    assert sum(row["count"] for row in told) > 100
    time.sleep(1.5)
    assert box.run("talk('allowed.test', 25)") == r"b'220 ready\r\n'"


def test_many_names():
    world = World(NAMES)
    box = world.box({"allow": ["*.many.test", "allowed.test"]})
    code = r"""
        import struct
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.connect(('127.0.0.1', 53)); s.setblocking(False)
        got = set()
        for i in range(12000):
            label = b'n%d' % i
            s.send(struct.pack('>HHHHHH', i & 65535, 0x100, 1, 0, 0, 0) + bytes([len(label)]) + label + b'\4many\4test\0\0\1\0\1')
            if i % 200 == 199: time.sleep(.4)
            try:
                while True: got.add(s.recv(600)[-4:])
            except OSError: pass
        print(len(got))"""
    got = int(box.run(code, bound=100))
    assert 300 < got <= 4096, got
    assert memory(box) < 64 << 20
    assert len(box.rows) < 3000, "so many decisions are counted, not told"
    time.sleep(1.5)
    assert box.run("get('http://allowed.test/')") in ("allowed.test / 0", "URLError"), "at worst its own names are used up"


def test_who_does_not_read_or_write():
    """Unread bytes stay queued; an endless request is cut."""
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    stuck = [box.start("s = connect('allowed.test', 19); s.sendall(b'900000000\\n'); print('asked', flush=True); time.sleep(90)") for _ in range(4)]
    for one in stuck:
        one.stdout.readline()
    loris = box.start(r"""
        s = connect('allowed.test', 80); print('begun', flush=True); s.settimeout(.1); t = time.monotonic()
        for b in b'GET / HTTP/1.1\r\nHost: allowed.test\r\nX: ' + b'y' * 900:
            try:
                s.send(bytes([b])); time.sleep(.5)
            except OSError as e:
                print(said(e), time.monotonic() - t > 25); break""")
    loris.stdout.readline()
    assert box.run("get('http://allowed.test/')") == "allowed.test / 0"
    assert memory(box) < 64 << 20
    assert loris.communicate(timeout=60)[0] in ("ConnectionResetError True\n", "BrokenPipeError True\n")
    assert box.decisions(kind="http", verdict="denied")[0]["why"] == "it did not come to the end of a greeting or a request's head"
    for one in stuck:
        one.kill()


def test_end_with_the_engine():
    world = World(NAMES)
    box = world.box({"allow": ["allowed.test"]})
    held = box.start("""
        s = connect('allowed.test', 25); s.recv(100); print('open', flush=True)
        try: s.recv(100)
        except OSError: pass
        print(talk('93.184.216.34', 80), name('allowed.test'))""")
    held.stdout.readline()
    box.close()
    said = held.communicate(timeout=20)[0]
    assert said in ("ConnectionRefusedError gaierror\n", "ConnectionResetError gaierror\n"), f"without an egress program there is no way, and at once: {said}"
