"""Descriptors can be sent over every unix socket that a guest or a caller shares with Cloche. The receiver of such a
message, or the process that closes the socket with the message in it, closes the descriptors, and the last close of a
TCP socket waits as long as its owner wishes (SO_LINGER). No other process may wait for that."""
import os
import subprocess
import sys

from cloche import ORDINARY_USER, SOURCE, equal, need_root, wait_for

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import Daemon, Failed  # noqa: E402

# A socket whose last close waits: in its queue lies a connection with more unsent bytes than the other end has room for, and before it that other end (the kernel closes the last first).
SLOW = """
import array, ctypes, os, socket, stat, struct
libc = ctypes.CDLL(None)
def send(to, fd, data, flags=0):
    to.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array('i', [fd]))], flags)
def make_slow():
    server = socket.create_server(('127.0.0.1', 0))
    near = socket.create_connection(server.getsockname())
    far = server.accept()[0]
    near.setblocking(False)
    try:
        while True: near.send(bytes(1 << 16))
    except BlockingIOError: pass
    near.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 1000))
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    for each in (far, near): send(one, each.fileno(), b'x')
    for each in (server, near, far, one): each.close()
    return other.detach()
def find(kind):
    for fd in map(int, os.listdir('/proc/self/fd')):
        try: is_socket = fd > 2 and stat.S_ISSOCK(os.fstat(fd).st_mode)
        except OSError: continue
        if is_socket and socket.socket(fileno=os.dup(fd)).type == kind: return socket.socket(fileno=os.dup(fd))
def attack(to, times=100, is_out_of_band=False):
    '''The start of one long message, a byte and a descriptor at a time. The sender exits at once, so that the receiver is the last to close the descriptor.'''
    sent = 0
    if to.type == socket.SOCK_STREAM: to.send(struct.pack('<II', 4000, 3000))
    for _ in range(times):
        pid = libc.syscall(57)
        if pid == 0:
            try:
                # A look into a stream passes over what comes out of band (SO_OOBINLINE of socket(7)).
                send(to, make_slow(), b' ', socket.MSG_OOB if to.type == socket.SOCK_STREAM and is_out_of_band else 0)
                os._exit(0)
            except BaseException: os._exit(1)
        if os.waitpid(pid, 0)[1]: break
        sent += 1
    return sent
"""


def is_served(victim, name="victim"):
    equal(victim.call("exec", sandbox=name, command="echo served")["stdout"], "served\n")
    equal(victim.call("call", language="python", code="return 6 * 7")["result"], 42)


def ended(frames, number):
    try:
        return frames.wait(number)
    except Failed as error:
        return error


def test_the_attack_holds_up_who_takes_it():
    """The twin: a program that reads from such a socket, and one that closes it, wait in the kernel."""
    need_root()  # to see where they wait
    for act in ("other.recv(1)", "other.close()"):
        code = SLOW + f"one, other = socket.socketpair()\nfd = make_slow()\nsend(one, fd, b' ')\nos.close(fd)\n{act}\n"
        program = subprocess.Popen([sys.executable, "-c", code])
        try:
            def waits():
                with open(f"/proc/{program.pid}/stack") as file:
                    return "sk_stream_wait_close" in file.read()
            wait_for(waits, "the wait")
        finally:
            program.kill()
            program.wait()


def test_calls_and_set_up_code():
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        is_served(victim)
        cold = evil.ask("call", language="python", code=SLOW + "def main(): return attack(find(socket.SOCK_STREAM))", function="main")
        is_served(victim)
        print("+", ended(evil, cold))
        # At the first fork, on the template's socket for fork requests, whose other end is the
        # keeper's; and on its channel.
        for kind in ("SOCK_SEQPACKET", "SOCK_STREAM"):
            setup = SLOW + f"os.register_at_fork(before=lambda: attack(find(socket.{kind}), 20))\n"
            prefix = evil.call("prefix.create", language="python", code=setup)["prefix"]
            number = evil.ask("call", prefix=prefix, code="return 1", limits={"wallMs": 4000})
            is_served(victim)
            print("+", ended(evil, number))
            evil.call("prefix.dispose", prefix=prefix)
            is_served(victim)
        # In a run of a prefix; and when it is stopped with unread messages.
        prefix = evil.call("prefix.create", language="python", code=SLOW)["prefix"]
        for code in ("return attack(find(socket.SOCK_STREAM))", "attack(find(socket.SOCK_STREAM), 1)\nos._exit(0)",
                     "attack(find(socket.SOCK_STREAM), 1, True)\nos._exit(0)", "return attack(find(socket.SOCK_STREAM), 3, True)"):
            number = evil.ask("call", prefix=prefix, code=code)
            is_served(victim)
            print("+", ended(evil, number))
        is_served(victim)


def test_contexts_and_shells():
    with Daemon() as daemon, daemon.frames() as evil, daemon.frames() as victim:
        is_served(victim)
        for context, is_forkable in (("plain", False), ("forkable", True)):
            evil.call("context.create", sandbox="evil", context=context, forkable=is_forkable)
            for kind in ("SOCK_STREAM", "SOCK_SEQPACKET"):
                code = SLOW + f"to = find(socket.{kind})\nprint(to and attack(to, 20))"
                number = evil.ask("context.run", sandbox="evil", context=context, code=code)
                is_served(victim)
                print("+", ended(evil, number))
            evil.call("context.delete", sandbox="evil", context=context)
            is_served(victim)
        # A session's shell has a socket of Cloche's, which its programs can be given.
        command = "for fd in /proc/$$/fd/*; do case $(readlink $fd) in socket:*) eval \"exec 9<&${fd##*/}\";; esac; done; python3 -c \"$CODE\""
        code = SLOW + "to = socket.socket(fileno=9)\nprint(to.type, attack(to, 20))"
        number = evil.ask("exec", sandbox="evil", session="default", command=command, env={"CODE": code})
        is_served(victim)
        print("+", ended(evil, number))
        evil.call("sandbox.delete", sandbox="evil")
        is_served(victim)


CALLER = SLOW + """
import sys
def connect():
    s = socket.socket(socket.AF_UNIX)
    s.connect(sys.argv[1])
    return s
held = []
for first in (b'CLOCHE1\\n', b'CLO', b'GET /health HTTP/1.1\\r\\nHost: x\\r\\nX: ', b'GET /health HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n', b'nothing', b''):
    for ends, is_out_of_band in ((False, False), (True, False), (False, True), (True, True)):
        s = connect()
        try:
            if first: s.send(first)
            attack(s, 2 if is_out_of_band else 10, is_out_of_band)
        except OSError: pass
        if ends: s.close()
        else: held.append(s)
print('sent', flush=True)
sys.stdin.read()
"""


def test_callers():
    """For root's daemon: permitted callers, and refused ones, who can connect to a socket of systemd before the daemon's first start."""
    need_root()
    with Daemon("--allow-uid", ORDINARY_USER[2]) as daemon, daemon.frames() as victim:
        is_served(victim)
        os.chmod(daemon.path, 0o666)
        for user in (ORDINARY_USER[2], "12346"):
            command = ["setpriv", "--reuid", user, "--regid", user, "--clear-groups", sys.executable, "-c", CALLER, daemon.path]
            caller = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            try:
                equal(caller.stdout.readline(), b"sent\n")
                is_served(victim)
                caller.stdin.close()
                caller.wait()
                is_served(victim)
            finally:
                caller.kill()
                caller.wait()
