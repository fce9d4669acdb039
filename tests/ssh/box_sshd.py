"""For tests of ssh: sandboxes with an sshd, and the genuine clients with the entries of cloche ssh-config."""
import glob
import os
import shutil
import socket
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "lib"))
from boxes import ok
from cloche import PATIENCE, equal
from debian_programs import unpacked

HANG = 100 * PATIENCE
SSHD = "/usr/sbin/sshd"


def programs():
    """A directory with sshd and its libraries that this machine lacks; None: it has its own, and boxes that show its /usr too."""
    return None if os.path.exists(SSHD) else unpacked("openssh-server", "libwrap0")


def collect():
    """Put sshd into a directory of the test's, unless this machine has its own."""
    place = None if os.path.exists("sshd") else programs()
    if place is None:
        return
    os.makedirs("sshd/bin")
    for path in [place + SSHD, *glob.glob(f"{place}/usr/lib/*/libwrap.so.0")]:
        shutil.copy(os.path.realpath(path), f"sshd/bin/{os.path.basename(path)}")


def bring_sshd(sandbox):
    """Its own programs are before those of the host's /usr in the PATH."""
    if os.path.exists(SSHD):
        return
    collect()
    ok("cp", "sshd/bin", f"{sandbox}:/home/cloche/.local/")
    ok("exec", sandbox, "--", "export LD_LIBRARY_PATH=~/.local/bin")


def configure(*sandboxes):
    """Write the entries, with keys in a directory of the test's."""
    os.environ["XDG_DATA_HOME"] = os.path.abspath("data")
    with open("config", "wb") as file:
        file.write(ok("ssh-config", *sandboxes))


def run(*words, stdin=b"", config="config"):
    """ssh and its relatives: the words with -F CONFIG behind the first."""
    print("+", *words, flush=True)
    return subprocess.run([words[0], "-F", config, *words[1:]], input=stdin, capture_output=True, timeout=HANG)


def good(*words, stdin=b""):
    done = run(*words, stdin=stdin)
    equal(done.returncode, 0, done)
    return done.stdout


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]
