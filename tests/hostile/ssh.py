"""An sshd of the sandbox's code: it gets no password, no agent and no command on the host, whatever it asks for, and ends no terminal of ours."""
import contextlib
import os
import signal
import socket
import stat
import subprocess
import sys
import threading

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "ssh"))
from box_sshd import HANG, bring_sshd, configure, good, run
from boxes import daemon, ok
from cloche import equal, start, wait_for, write_file

TIMEOUT = 120
# Keys and settings are where those of the genuine one are.
PLACE = "/dev/shm/.cloche-ssh"
GENUINE = "$(ls ~/.local/bin/genuine /usr/sbin/sshd 2>/dev/null | head -n 1)"


@contextlib.contextmanager
def guests_sshd(text):
    """The code has put a script of its own into the place of sshd."""
    ok("exec", "box", f"mkdir -p ~/.local/bin; cd ~/.local/bin; [ -e genuine ] || [ ! -e sshd ] || mv sshd genuine; printf '%s\\n' {quoted(text)} >sshd; chmod +x sshd")
    yield
    ok("exec", "box", "cd ~/.local/bin; rm sshd; [ ! -e genuine ] || mv genuine sshd")


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


class Agent:
    """Counts the connections to an agent of the user's."""

    def __init__(self):
        self.count, self.path = 0, os.path.abspath("agent")
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            connection, _ = self.listener.accept()
            self.count += 1
            connection.close()


def asks_for_everything(agent):
    """Password, keyboard and keys of the agent; then the agent, a display, a tunnel and a command on the host."""
    with guests_sshd(f'#!/bin/sh\nexec {GENUINE} -i -f {PLACE}/settings -o AuthenticationMethods=password -o PasswordAuthentication=yes -o KbdInteractiveAuthentication=yes'):
        done = run("ssh", "box", "true")
        equal((done.returncode, done.stdout), (255, b""))
        assert b"Permission denied" in done.stderr, done
        assert not os.path.exists("asked")
        run("ssh", "-o", "PasswordAuthentication=yes", "-o", "PreferredAuthentications=password", "box", "true")
        assert os.path.exists("asked")  # as the user's own settings would have it
    equal(agent.count, 0)
    with guests_sshd(f'#!/bin/sh\nexec {GENUINE} -i -f {PLACE}/settings -o AllowAgentForwarding=yes -o X11Forwarding=yes -o PermitTunnel=yes -o GatewayPorts=yes'):
        equal(good("ssh", "box", "echo ${SSH_AUTH_SOCK:-no} ${DISPLAY:-no}"), b"no no\n")
        equal(agent.count, 0)
        run("ssh", "-o", "IdentityAgent=SSH_AUTH_SOCK", "-o", "ForwardAgent=yes", "box", "ssh-add -l")
        assert agent.count > 0
    assert not os.path.exists("made")


def speaks_no_ssh():
    for text in ("head -c 3000000 /dev/urandom; exec sleep 1000", "printf 'SSH-2.0-x\\r\\n'; head -c 3000000 /dev/zero; exec sleep 1000", "exit 0", "printf 'SSH-2.0-%070000d\\r\\n' 1"):
        with guests_sshd("#!/bin/sh\n" + text):
            done = run("ssh", "box", "true")
            equal((done.returncode, done.stdout), (255, b""), text)
    equal(good("ssh", "box", "echo well"), b"well\n")


def words_on_the_terminal():
    """Words of the guest's sshd before a login; the output of a command is as with any ssh."""
    with guests_sshd("#!/bin/sh\nprintf 'a\\033]0;title\\007\\tb\\n\\302\\233c' >&2"):
        done = run("ssh", "box", "true")
        equal(done.returncode, 255)
        assert done.stderr.startswith(b"a\\x1b]0;title\\x07\tb\n\\xc2\\x9bc"), done.stderr


def another_key_of_the_guests():
    with guests_sshd(f'#!/bin/sh\nd=$(mktemp -d) && ssh-keygen -q -t ed25519 -N "" -f $d/key && exec {GENUINE} -i -f {PLACE}/settings -o HostKey=$d/key'):
        done = run("ssh", "box", "true")
        equal((done.returncode, done.stdout), (255, b""))
        assert b"Host key verification failed" in done.stderr, done


def stays_when_the_client_ends():
    """It ignores the end of its input and all signals: ssh ends, and the sandbox goes on."""
    with guests_sshd("#!/bin/sh\ntrap '' HUP TERM INT PIPE\ntouch /tmp/on\nwhile :; do sleep 0.1; done"):
        with subprocess.Popen(["ssh", "-F", "config", "box"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            wait_for(lambda: ok("exec", "box", "ls /tmp").count(b"on\n"), "the guest's sshd runs")
            process.send_signal(signal.SIGTERM)
            process.wait(HANG)
        with start("ssh-proxy", "box", stdin=subprocess.PIPE) as proxy:  # it reads nothing either: the rest of the input waits
            proxy.stdin.write(bytes(150_000))
            proxy.stdin.close()
            proxy.wait(HANG)
        wait_for(lambda: b"# ssh" not in ok("ps", "box"), "it was killed, as were those before")


def no_links_in_our_place():
    """The files of a connection are the sandbox's own, wherever its code leads them."""
    ok("exec", "box", f"rm -rf {PLACE}; mkdir -m 0 {PLACE}")
    equal(run("ssh", "box", "true").returncode, 255)
    ok("exec", "box", f"rmdir {PLACE}; ln -s /workspace/elsewhere {PLACE}; mkdir /workspace/elsewhere")
    equal(good("ssh", "box", "echo there"), b"there\n")
    equal(ok("exec", "box", f"ls /workspace/elsewhere; rm -r {PLACE}"), b"")


def names_in_the_environment():
    """Variables of the session become a line of sshd's settings."""
    ok("exec", "box", "export 'A=1\" \"LD_PRELOAD=/x' B='\nPermitTunnel yes' C='# \\' 'D=$(touch /tmp/bad) `touch /tmp/bad`' E='%h'")
    equal(good("ssh", "box", "printf '%s|' \"$A\" \"${B-none}\" \"$C\" \"$D\" \"$E\" \"${LD_PRELOAD-none}\""), b'1" "LD_PRELOAD=/x|none|# \\|$(touch /tmp/bad) `touch /tmp/bad`|%h|none|')
    equal(ok("exec", "box", "ls /tmp").count(b"bad"), 0)


def test_what_the_sandboxs_code_may_do_to_its_users_ssh():
    agent = Agent()
    write_file("ask", "#!/bin/sh\ntouch asked\necho secret\n")
    os.chmod("ask", stat.S_IRWXU)
    os.environ.update(SSH_AUTH_SOCK=agent.path, SSH_ASKPASS=os.path.abspath("ask"), SSH_ASKPASS_REQUIRE="force", DISPLAY=":9")
    with daemon():
        ok("sandbox", "create", "box")
        bring_sshd("box")
        configure("box")
        with open("config", "a") as file:
            file.write("Host *\n    ForwardAgent yes\n    ForwardX11 yes\n    PermitLocalCommand yes\n    LocalCommand touch made\n    PasswordAuthentication yes\n")
        for part in (another_key_of_the_guests, words_on_the_terminal, speaks_no_ssh, stays_when_the_client_ends, no_links_in_our_place, names_in_the_environment):
            part()
        asks_for_everything(agent)
