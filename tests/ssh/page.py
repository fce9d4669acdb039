"""All commands of docs/ssh.md, as they stand, in a home directory of the test's own. One that no test takes fails."""
import os
import re
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box_sshd import HANG, bring_sshd, free_port
from boxes import daemon, ok
from cloche import CLI, SOURCE, equal, write_file

TIMEOUT = 120
with open(os.path.join(SOURCE, "docs/ssh.md")) as page:
    LINES = re.findall(r"^    (\S.+)$", page.read(), re.M)
COMMANDS = [line for line in LINES if not line.startswith("RUN ")]  # a line of a Dockerfile: ssh/life has such an image
OUTPUTS = {"ssh box 'echo hello": "hello from cloche\n", "ssh box.cloche pwd": "/home/cloche\n"}
SSH = "#!/bin/sh\nprogram=$(basename \"$0\")\nexec /usr/bin/$program -F \"$HOME/.ssh/config\" \"$@\"\n"  # ssh takes the home directory of /etc/passwd, not that of the environment


def shell(line):
    print("+", line, flush=True)
    with open("output", "w+") as output:  # no pipe: ssh -f stays
        done = subprocess.run(["bash", "-ec", line], stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, timeout=HANG)
        output.seek(0)
        said = output.read()
    equal(done.returncode, 0, said)
    return said


def prepare():
    home = os.path.abspath("home")
    os.makedirs("home/.ssh")
    os.mkdir("bin")
    os.mkdir("tree")
    for name in ("ssh", "scp", "sftp"):
        write_file(f"bin/{name}", SSH)
        os.chmod(f"bin/{name}", 0o755)
    write_file("home/.ssh/config", f'Include "{home}/.ssh/config.d/cloche"\n')
    write_file("notes.txt", "notes\n")
    write_file("tree/file", "file\n")
    os.environ.pop("XDG_DATA_HOME", None)
    os.environ.update(HOME=home, PATH=f"{os.path.abspath('bin')}:{os.path.dirname(CLI)}:{os.environ['PATH']}", GIT_CONFIG_GLOBAL="/dev/null",
                      **{f"GIT_{who}_{field}": "a@b" for who in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL")})
    shell("git init -q -b main . && git add notes.txt && git commit -q -m first")


def end_forwards(port):
    """ssh -f has left a process, which has the test as its parent."""
    found = subprocess.run(["pgrep", "-f", f"[s]sh -F {os.environ['HOME']}.*{port}"], capture_output=True, text=True, check=True).stdout.split()
    for pid in found:
        os.kill(int(pid), signal.SIGTERM)


def test_the_commands_of_the_page():
    prepare()
    with daemon():
        for line in COMMANDS:
            port = free_port()
            said = shell(line.replace("8080:", f"{port}:"))
            if line.startswith("cloche sandbox create"):
                bring_sshd("box")
            for begin, expected in OUTPUTS.items():
                if line.startswith(begin):
                    equal(said, expected)
            if "ssh -f" in line:
                end_forwards(port)
        equal(open("back.txt").read() + open("back/file").read() + open("copy/notes.txt").read(), "notes\nfile\nnotes\n")
        equal(ok("exec", "box", "cat", "/home/cloche/tree/file"), b"file\n")
