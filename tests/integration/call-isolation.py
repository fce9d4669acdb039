"""Runs at the same time, and one after another, know nothing of each other."""
import json
import socket
import threading
from cloche import HANG, call, call_words, equal, start, value_of


def two(code):
    """The values of two calls of f(i) that overlap in time."""
    both = [start(*call_words("python", code, "f", args=[i], timeout=30)) for i in range(2)]
    outs = [p.communicate(timeout=HANG) for p in both]
    for process, (_, err) in zip(both, outs):
        equal(process.returncode, 0, err)
    return [json.loads(out)["result"] for out, _ in outs]


def test_files():
    code = """
import os, time
def f(i):
    for d in ('/workspace', '/tmp', '/dev/shm', '/home/cloche'): open(f'{d}/mine-{i}', 'w').close()
    time.sleep(1)
    return sorted(n for d in ('/workspace', '/tmp', '/dev/shm', '/home/cloche') for n in os.listdir(d) if n.startswith('mine'))
"""
    equal(two(code), [["mine-0"] * 4, ["mine-1"] * 4])


def test_processes():
    code = "import os, time\ndef f(i):\n    time.sleep(1)\n    return len([n for n in os.listdir('/proc') if n.isdigit()])"
    for count in two(code):
        assert count <= 4, count


def test_abstract_sockets():
    """They belong to the network namespace: each box has its own, so both can take the same name."""
    code = "import socket, time\ndef f(i):\n    s = socket.socket(socket.AF_UNIX)\n    s.bind('\\0meeting')\n    time.sleep(1)\n    return 'bound'"
    equal(two(code), ["bound", "bound"])


def test_system_v_shared_memory():
    code = """
import ctypes, time
def f(i):
    libc = ctypes.CDLL(None, use_errno=True)
    IPC_CREAT_EXCL = 0o3000
    got = libc.shmget(4711, 4096, IPC_CREAT_EXCL | 0o666)
    time.sleep(1)
    return got >= 0
"""
    equal(two(code), [True, True])


def test_nothing_stays_for_the_next_run():
    value_of("python", "def f():\n    for d in ('/workspace', '/tmp', '/home/cloche'): open(d + '/left', 'w').write('x')", "f")
    equal(value_of("python", "import os\ndef f(): return [os.listdir(d) for d in ('/workspace', '/tmp', '/home/cloche')]", "f"),
          [[], [], []])


def test_loopback_of_the_box_works():
    code = """
import socket
def f():
    server = socket.create_server(('127.0.0.1', 0))
    client = socket.create_connection(server.getsockname())
    server.accept()[0].send(b'hello')
    return client.recv(5).decode()
"""
    equal(value_of("python", code, "f"), "hello")


def test_the_hosts_loopback_is_out_of_reach():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)):
            pass  # the twin: from the host it answers
        code = "import socket, errno\ndef f(port):\n    try:\n        socket.create_connection(('127.0.0.1', port), 3)\n" \
               "        return 'connected'\n    except OSError as e:\n        return errno.errorcode[e.errno]"
        equal(value_of("python", code, "f", args=[port]), "ECONNREFUSED")


def test_only_a_loopback_interface():
    equal(value_of("python", "import socket\ndef f(): return [n for _, n in socket.if_nameindex()]", "f"), ["lo"])


def test_many_at_once():
    answers = []
    def one(i):
        answers.append(call("python", "def f(i): return i * i", "f", args=[i]).value)
    threads = [threading.Thread(target=one, args=[i]) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal(sorted(answers), [i * i for i in range(8)])


def test_a_box_says_which_system_its_programs_are_of():
    told = dict(line.rstrip("\n").split("=", 1) for line in open("/etc/os-release") if "=" in line)
    equal(value_of("python", "import platform\nreturn platform.freedesktop_os_release()['ID']"), told["ID"].strip('"'))
