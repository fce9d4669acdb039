"""OpenSSH's ssh, scp and sftp and rsync, unmodified, with the entries of cloche ssh-config."""
import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box_sshd import HANG, bring_sshd, configure, free_port, good, run
from boxes import Terminal, daemon, ok
from cloche import equal, wait_for

TIMEOUT = 120
BYTES = random.Random(24).randbytes(3_000_000)


def write(path, data):
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        return file.read()


def commands():
    equal(good("ssh", "box", "id -un; pwd"), b"cloche\n/home/cloche\n")
    equal(good("ssh", "box.cloche", "cat", stdin=BYTES), BYTES)
    equal(run("ssh", "box", "echo out; echo err >&2; exit 7").returncode, 7)
    equal(run("ssh", "box", "echo err >&2").stderr, b"err\n")  # and no line of ours or of sshd
    ok("exec", "box", "--", "export 'ODD=a \"b\" \\c $d'")
    equal(good("ssh", "box", "printf %s \"$ODD\""), b'a "b" \\c $d')  # programs have the environment of the session
    equal(good("ssh", "box", "umask; ulimit -c; ls /proc/self/fd"), ok("exec", "-i", "box", "umask; ulimit -c; ls /proc/self/fd"))
    assert b"CLOCHE_SSH" not in good("ssh", "box", "env; set")


def terminal():
    with Terminal("-F", "config", "box", program="ssh") as shell:
        shell.type(b"echo si''ze $(stty size) $SHELL; shopt -q login_shell && echo lo''gin\r")
        shell.until(b"size 33 101 /bin/bash")
        shell.until(b"login")
        shell.resize(120, 40)
        shell.process.send_signal(signal.SIGWINCH)
        shell.type(b"while [ \"$(stty size)\" != '40 120' ]; do sleep 0.1; done; echo ch''anged\r")
        shell.until(b"changed")
        shell.type(b"exit 5\r")
        equal(shell.end(), 5)
        assert b"cloche:" not in shell.said, shell.said


def copies():
    write("files/tree/deep/bytes", BYTES)
    os.symlink("deep/bytes", "files/tree/link")
    good("scp", "-q", "-r", "files/tree", "box:by-scp")
    good("scp", "-q", "box:by-scp/deep/bytes", "files/back")
    equal(read("files/back"), BYTES)
    good("sftp", "-q", "-b", "-", "box", stdin=b"rename by-scp by-sftp\nchmod 600 by-sftp/deep/bytes\nget by-sftp/deep/bytes files/back-2\n")
    equal(read("files/back-2"), BYTES)
    equal(good("ssh", "box", "stat -c %a by-sftp/deep/bytes"), b"600\n")
    for source, target in (("files/tree/", "box:by-rsync/"), ("box:by-rsync/", "files/by-rsync/")):
        subprocess.run(["rsync", "-a", "-e", "ssh -F config", source, target], check=True, timeout=HANG)
    equal(read("files/by-rsync/deep/bytes"), BYTES)
    equal(os.readlink("files/by-rsync/link"), "deep/bytes")


# Answers each connection with its name and all that it got.
SERVER = "import contextlib, socket, sys\nlistener = socket.create_server(('127.0.0.1', int(sys.argv[2])))\nwhile True:\n    with contextlib.suppress(OSError), listener.accept()[0] as c:\n" \
         "        c.sendall(sys.argv[1].encode() + b' has ')\n        while (data := c.recv(65536)):\n            c.sendall(data)\n"


def say(port, text, socks=None):
    """The answer of the server at this port, through a SOCKS proxy if there is one."""
    with socket.create_connection(("127.0.0.1", socks or port), timeout=HANG) as connection:
        file = connection.makefile("rwb")
        if socks:
            file.write(b"\x05\x01\x00\x05\x01\x00\x01" + socket.inet_aton("127.0.0.1") + port.to_bytes(2, "big"))
            file.flush()
            equal(file.read(12)[:4], b"\x05\x00\x05\x00")
        file.write(text)
        file.flush()
        connection.shutdown(socket.SHUT_WR)
        return file.read()


def serve_here(listener):
    while True:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            connection.sendall(b"the host has " + connection.makefile("rb").read())


@contextlib.contextmanager
def connected(*words):
    """ssh with these words; its standard input and output are those of a shell in the sandbox, which has answered."""
    with subprocess.Popen(["ssh", "-F", "config", "-o", "ExitOnForwardFailure=yes", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"echo ready\n")
        process.stdin.flush()
        equal(process.stdout.readline(), b"ready\n")
        yield process
        process.stdin.close()
        equal(process.wait(HANG), 0)


def forwards():
    """An editor's remote mode: commands through a shell, and ports both ways, over one connection."""
    here = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=serve_here, args=[here], daemon=True).start()
    ours, socks = free_port(), free_port()
    write("server.py", SERVER.encode())
    good("scp", "-q", "server.py", "box:")
    ok("start", "box", "--process", "server", "--", "python3 ~/server.py 'the box' 8123")
    with connected("-T", "-L", f"{ours}:127.0.0.1:8123", "-R", f"8124:127.0.0.1:{here.getsockname()[1]}", "-D", str(socks), "box", "bash") as editor:
        wait_for(lambda: run("ssh", "box", "exec 3<>/dev/tcp/127.0.0.1/8123").returncode == 0, "the server listens")
        for text in (b"a", BYTES):
            equal(say(ours, text), b"the box has " + text)
        equal(say(8123, b"by socks", socks=socks), b"the box has by socks")
        editor.stdin.write(b"exec 3<>/dev/tcp/127.0.0.1/8124; echo hello >&3; python3 -c 'import socket; socket.socket(fileno=3).shutdown(1)'; cat <&3\n")
        editor.stdin.flush()
        equal(editor.stdout.readline(), b"the host has hello\n")
    ok("kill", "box", "server")


def nothing_stays():
    wait_for(lambda: b"sshd" not in ok("exec", "box", "--", "cat /proc/[0-9]*/comm"), "the sshds ended")
    wait_for(lambda: b"# ssh" not in ok("ps", "box"), "their proxies removed them")


def programs_go_on():
    good("ssh", "box", "nohup sleep 1000 </dev/null >/dev/null 2>&1 & echo $! >left")
    nothing_stays()
    ok("exec", "box", "--", "kill $(cat ~/left)")


def test_all_of_them():
    with daemon():
        ok("sandbox", "create", "box")
        bring_sshd("box")
        configure("box")
        for part in (commands, terminal, copies, forwards, programs_go_on, nothing_stays):
            part()
