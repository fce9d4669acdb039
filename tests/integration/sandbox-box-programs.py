"""Services of a sandbox's box for the engine: programs, terminals, ports, names, limits while it lives."""
import signal
import time
from keeper_boxes import Keeper, Refused
from cloche import equal

MIB = 1 << 20


def refusal(act, *words, **how):
    try:
        act(**how)
    except Refused as refused:
        for word in words:
            assert word in (refused.code, *refused.message.split()) or word in refused.message, refused
        return refused
    raise AssertionError("nothing was refused")


def test_a_program_comes_as_a_memory_file():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.spawn("renamed", "one", "two", program="/bin/echo")
        equal(program.read(), "one two\n")
        equal(program.wait(), 0)
        names = box.spawn("renamed", "-c", "readlink /proc/self/fd/* | grep -v pipe; cat /proc/$$/cmdline | tr '\\0' ' '", program="/bin/dash")
        equal(names.read().splitlines()[-1].split()[0], "renamed")
        equal(names.wait(), 0)
        refusal(lambda: box.spawn("x", program="/bin/echo", unsealed=True), "protocol", "sealed")
        refusal(lambda: box.spawn("x", program="/etc/hostname"), "spawn")


def test_a_program_in_a_terminal_as_a_memory_file():
    with Keeper() as keeper:
        box = keeper.sandbox()
        program = box.spawn("sh", "-c", "tty; stty size; exit 3", program="/bin/dash", terminal=[132, 43], reaps=True)
        equal(program.read("43 132").split("\r\n")[:2], ["/dev/pts/0", "43 132"])
        equal(program.wait(), 3)


def test_a_terminal_controls_its_programs():
    with Keeper() as keeper:
        box = keeper.sandbox()
        shell = box.spawn("bash", "--norc", "--noprofile", "-i", terminal=[80, 24], env=["PS1=ready> "])
        shell.read("ready> ")
        begun = "sh -c 'echo be\"\"gun; exec sleep 1000'\n"  # it says so in the foreground
        shell.write(begun)
        shell.read("begun\r\n")
        shell.write("\x1a")
        shell.read("Stopped")
        shell.write("kill %1; wait; stty size\n")
        shell.read("24 80")
        shell.resize(100, 30)
        shell.write("stty size\n")
        shell.read("30 100")
        shell.write(begun)
        shell.read("begun\r\n")
        shell.write("\x03")
        shell.read("^C")
        shell.write("exit 7\n")
        equal(shell.wait(), 7)


def test_programs_reap_or_do_not():
    with Keeper() as keeper:
        box = keeper.sandbox()
        script = "(sh -c 'exec sleep 1000' &) ; sleep 0.2; grep PPid /proc/$(pgrep -x sleep | tail -1)/status | cut -f2; echo self $$; pkill sleep"
        equal(box.said(script).split()[0], "1")
        first, _, second = box.said(script, reaps=True).split()
        equal(first, second)


def test_ports_and_connections():
    with Keeper() as keeper:
        box = keeper.sandbox()
        equal(box.ports(), [])
        refusal(lambda: box.ask("connect", port=8000), "port_closed")
        server = box.python("""
import socket, sys
sockets = []
for family, address, port in ((socket.AF_INET, '127.0.0.1', 8001), (socket.AF_INET, '0.0.0.0', 8002), (socket.AF_INET6, '::1', 8003), (socket.AF_INET6, '::', 8004), (socket.AF_INET, '127.0.0.9', 8005)):
    s = socket.socket(family); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind((address, port)); s.listen(); sockets.append(s)
bound = socket.socket(); bound.bind(('127.0.0.1', 8006))
print('up', flush=True)
for s in sockets[:4]:
    c = s.accept()[0]; c.sendall(str(s.getsockname()[1]).encode() + c.recv(10)); c.close()
print('done', flush=True)
sys.stdin.read()
""")
        server.read("up")
        equal(sorted(box.ports()), [[8001, 1], [8002, 0], [8003, 1], [8004, 0], [8005, 1]])
        for port in range(8001, 8005):
            equal(box.ask("connect", port=port, data="hello")["data"], f"{port}hello")
        refusal(lambda: box.ask("connect", port=8006), "port_closed")
        for port in (0, 65536):
            refusal(lambda: box.ask("connect", port=port), "invalid_argument", str(port))
        server.read("done")
        # Connections do not count, nor do they hide those that listen.
        equal(len(box.ports()), 5)


def test_a_port_is_never_connected_to_itself():
    with Keeper() as keeper:
        box = keeper.sandbox()
        for port in range(32768, 32768 + 300):
            refusal(lambda: box.ask("connect", port=port), "port_closed")


def test_names_are_asked_for_on_the_loopback():
    with Keeper() as keeper:
        box, plain = keeper.sandbox(), keeper.box()
        equal(box.said("grep -v ^# /etc/resolv.conf"), "nameserver 127.0.0.1\noptions timeout:2 attempts:2\n")
        equal(plain.said("cat /etc/resolv.conf"), "")
        equal(box.said("getent hosts example.com; echo $?"), "2\n")
        equal(box.said("getent hosts localhost | grep -c localhost"), "1\n")


def test_limits_change_while_it_lives():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"pids": 20, "memoryBytes": 64 * MIB, "cpuPercent": 50})
        many = "for i in $(seq 40); do sleep 0.2 & done 2>&1 | grep -c . ; wait"
        assert box.said("(for i in $(seq 40); do sleep 2 & done; wait) 2>&1 | grep -c -i 'retry\\|fork'").strip() != "0"
        box.ask("limit", limits={"pids": 100})
        equal(box.said("(for i in $(seq 40); do sleep 0.5 & done; wait) 2>&1 | grep -c -i 'retry\\|fork'").strip(), "0", many)
        # A limit that was not named stays as it was.
        equal(box.python("b = bytearray(100 << 20)").wait(), -signal.SIGKILL)
        box.ask("limit", limits={"memoryBytes": 256 * MIB})
        equal(box.python("b = bytearray(100 << 20)").wait(), 0)
        box.ask("limit", limits={"memoryBytes": None, "cpuPercent": None, "pids": None})
        equal(box.python("b = bytearray(300 << 20)").wait(), 0)
        box.ask("limit", limits={"memoryBytes": 64 * MIB, "cpuPercent": 200})
        equal(box.python("b = bytearray(100 << 20)").wait(), -signal.SIGKILL)
        equal(box.said("echo alive"), "alive\n")


def test_memory_is_not_lowered_below_what_is_used():
    with Keeper() as keeper:
        box = keeper.sandbox(limits={"memoryBytes": 256 * MIB})
        box.said("head -c 60M /dev/zero > /tmp/file")
        refused = refusal(lambda: box.ask("limit", limits={"memoryBytes": 20 * MIB}), "invalid_argument", str(20 * MIB))
        used = [int(word) for word in refused.message.split() if word.isdigit() and int(word) > 20 * MIB]
        assert used and used[0] >= 60 * MIB, refused.message
        equal(box.python("b = bytearray(150 << 20)").wait(), 0, "the old limit holds")
        box.said("rm /tmp/file")
        box.ask("limit", limits={"memoryBytes": 20 * MIB})
        equal(box.python("b = bytearray(150 << 20)").wait(), -signal.SIGKILL)


def test_bad_limits_are_refused():
    with Keeper() as keeper:
        box = keeper.sandbox()
        for name, value in [("memoryBytes", 1000), ("pids", 1), ("cpuPercent", 10**9), ("pids", 10**7)]:
            refusal(lambda: box.ask("limit", limits={name: value}), "invalid_argument", str(value))
        box.ask("limit", limits={"diskBytes": 1, "wallMs": 1})  # not of these, and nothing is changed


def test_a_frozen_sandbox_is_dropped():
    """The host's administrator may freeze groups: nobody else waits, and in version 1 a kill needs a thaw first."""
    with Keeper() as keeper:
        box = keeper.sandbox()
        beside = box.share()
        beside.shell("while :; do sleep 0.01; done")
        box.freeze()
        equal(keeper.box().said("echo alive"), "alive\n")
        box.freeze(thaws=True)
        equal(box.said("echo again"), "again\n")
        box.freeze()
        box.drop()
        beside.ask("dead")
        beside.drop()
