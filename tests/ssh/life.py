"""ssh and the life of a sandbox: stopped and paused ones start, one that is missing is an error, and so is a daemon that ends."""
import os
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from box_sshd import HANG, SSHD, bring_sshd, collect, configure, good, programs, run
from boxes import daemon, ok
from cloche import equal, need_ordinary_user, need_root, need_writable_roots, skip
from image_trees import copy_programs, libraries_of, make_image, make_shell
from lent_ids import as_user

TIMEOUT = 120


def many_at_once():
    """The first connections make the host key, which is one."""
    them = [subprocess.Popen(["ssh", "-F", "config", "box", f"echo {i}; exit {i}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE) for i in range(4)]
    equal([one.communicate(timeout=HANG)[0] for one in them], [b"0\n", b"1\n", b"2\n", b"3\n"])
    equal([one.returncode for one in them], [0, 1, 2, 3])
    equal(sorted(os.listdir("data/cloche/ssh/hosts")), ["box.cloche"])


def stopped_and_paused():
    for words, state in ((["stop"], b"stopped"), (["pause"], b"paused"), (["pause", "--no-memory"], b"paused (files)")):
        ok("sandbox", *words, "box")
        assert state in ok("sandbox", "ls"), state
        equal(good("ssh", "box", "echo on"), b"on\n")


def something_in_the_place_of_its_files():
    for code in ("ln -s /nonexistent", "touch", "ln -s /tmp"):
        ok("exec", "box", "--", f"rm -rf /dev/shm/.cloche-ssh; {code} /dev/shm/.cloche-ssh")
        equal(good("ssh", "box", "echo on"), b"on\n")
        equal(ok("exec", "box", "--", "stat -c '%F %a' /dev/shm/.cloche-ssh"), b"directory 755\n")


def missing():
    done = run("ssh", "none.cloche", config="all")
    equal((done.returncode, done.stdout), (255, b""))
    assert b'cloche: there is no sandbox "none"' in done.stderr, done
    equal(good("ssh", "box", "echo there"), b"there\n")
    assert b"none" not in ok("sandbox", "ls")


def another_key():
    """The key that the sandbox shows must be the one that is kept on the host."""
    os.rename("data/cloche/ssh/hosts/box.cloche/key", "kept")
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", "data/cloche/ssh/hosts/box.cloche/other"], check=True)
    os.rename("data/cloche/ssh/hosts/box.cloche/other", "data/cloche/ssh/hosts/box.cloche/key")
    done = run("ssh", "box", "true")
    equal(done.returncode, 255, done)
    assert b"Host key verification failed" in done.stderr, done
    os.rename("kept", "data/cloche/ssh/hosts/box.cloche/key")
    equal(good("ssh", "box", "echo again"), b"again\n")


def broken_key():
    """The error names the directory to remove: then another key is made."""
    open("data/cloche/ssh/hosts/box.cloche/key", "w").close()
    done = run("ssh", "box", "true")
    equal(done.returncode, 255, done)
    shutil.rmtree(re.search(rb"remove the directory '([^']+)'", done.stderr)[1])
    equal(good("ssh", "box", "echo new"), b"new\n")


def ended(end, reason):
    with subprocess.Popen(["ssh", "-F", "config", "box", "echo on; cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        equal(process.stdout.readline(), b"on\n")
        end()
        equal(process.wait(HANG), 255)
        said = process.stderr.read()
        assert reason in said, said


def test_the_life_of_a_sandbox():
    with daemon() as running:
        ok("sandbox", "create", "box")
        bring_sshd("box")
        os.symlink(running.path, "socket")
        configure("--socket", "socket", "box")
        with open("all", "wb") as file:
            file.write(ok("ssh-config"))
        for part in (many_at_once, missing, another_key, broken_key, stopped_and_paused, something_in_the_place_of_its_files):
            part()
        ok("sandbox", "save", "box")
        ended(lambda: running.stop(signal.SIGKILL), b"connection to the daemon ended")
    with daemon() as running:
        os.remove("socket")
        os.symlink(running.path, "socket")
        equal(good("ssh", "box", "echo again"), b"again\n")
        for word in ("stop", "rm"):
            ended(lambda: ok("sandbox", word, "box"), f"cloche: the sandbox was {'deleted' if word == 'rm' else 'stopped'}\n".encode())


def as_ordinary_user():
    home = os.path.abspath("home")
    os.environ.update(HOME=home, XDG_RUNTIME_DIR=home, XDG_STATE_HOME=home + "/state")
    ok("sandbox", "create", "box")
    bring_sshd("box")
    configure()
    equal(good("ssh", "box.cloche", "id -un; cat", stdin=b"input"), b"cloche\ninput")
    good("sftp", "-q", "-b", "-", "box.cloche", stdin=b"put config copy\nget copy back\n")
    equal(open("back").read(), open("config").read())
    ok("daemon", "stop")
    equal(good("ssh", "box.cloche", "cat copy").decode(), open("config").read())  # starts a daemon, which starts the sandbox
    ok("daemon", "stop")


def test_an_ordinary_user():
    need_ordinary_user()
    if os.path.exists("/run/cloche/socket"):
        skip("a system's daemon runs here")
    os.environ.pop("CLOCHE_SOCKET", None)
    os.mkdir("home", 0o700)
    collect()
    as_user(as_ordinary_user, has_groups=False)


def make_sshd_image():
    """Debian's sshd, with the user that its package makes."""
    image, place = make_image(), programs() or ""
    if place:
        os.environ["LD_LIBRARY_PATH"] = f"{place}/usr/lib/x86_64-linux-gnu"
    os.mkdir(f"{image}/usr/sbin")
    os.makedirs(f"{image}/root")
    copy_programs(image, *("/usr/bin/" + name for name in ("id", "ls", "mkdir", "mv", "true")))
    for path in [place + SSHD, *libraries_of(place + SSHD)]:
        target = f"{image}/usr/{'sbin' if path.endswith('/sshd') else 'lib'}/{os.path.basename(path)}"
        if not os.path.exists(target):
            subprocess.run(["cp", "-L", path, target], check=True)
    os.environ.pop("LD_LIBRARY_PATH", None)
    for name, text in (("passwd", "root:x:0:0:root:/root:/bin/bash\nsshd:x:100:65534::/run/sshd:/usr/sbin/nologin\n"), ("group", "root:x:0:\nnogroup:x:65534:\n")):
        with open(f"{image}/etc/{name}", "w") as file:
            file.write(text)
    return image


def test_images():
    need_root()
    need_writable_roots()
    ok("image", "import", make_sshd_image(), "with", "--images", "images")
    ok("image", "import", make_shell("shell"), "without", "--images", "images")
    with daemon("--images", os.path.abspath("images")):
        ok("sandbox", "create", "root", "--image", "with", "--root")
        ok("sandbox", "create", "user", "--image", "with")
        ok("sandbox", "create", "bare", "--image", "without")
        configure("root", "user", "bare")
        equal(good("ssh", "root", "id -u; echo ~; echo $LD_PRELOAD"), b"0\n/root\n\n")
        equal(good("ssh", "user@root", "id -u; echo ~"), b"1000\n/home/user\n")
        equal(good("ssh", "user", "id -un"), b"cloche\n")
        equal(run("ssh", "root@user", "id").returncode, 255)
        good("sftp", "-q", "-b", "-", "root", stdin=b"put config /usr/config\n")
        equal(good("ssh", "root", "ls /usr/config"), b"/usr/config\n")
        done = run("ssh", "bare", "id")
        equal((done.returncode, done.stdout), (255, b""))
        assert b"cloche: there is no sshd in this sandbox: install openssh-server in its image" in done.stderr, done
