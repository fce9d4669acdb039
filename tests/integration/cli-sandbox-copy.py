"""cloche cp: files and trees, both ways, and attacks of a sandbox on the host through it."""
import os
import signal
import stat
import subprocess

from boxes import daemon, ok
from cloche import bad_input, cli, equal, start, wait_for, write_file

TIMEOUT = 120


def tree(directory):
    """Path to (kind, mode or target, contents)."""
    found = {}
    for where, directories, files in os.walk(directory):
        for name in directories + files:
            path = os.path.join(where, name)
            short = os.path.relpath(path, directory)
            mode = os.lstat(path).st_mode
            if stat.S_ISLNK(mode):
                found[short] = ("link", os.readlink(path))
            elif stat.S_ISDIR(mode):
                found[short] = ("directory", stat.S_IMODE(mode))
            else:
                found[short] = ("file", stat.S_IMODE(mode), open(path, "rb").read())
    return found


def make_tree():
    os.makedirs("tree/a/b/c")
    os.makedirs("tree/empty")
    os.makedirs("tree/.hidden")
    write_file("tree/a/b/c/f", "deep")
    write_file("tree/.hidden/x", b"\0\xff")
    write_file("tree/a name", "")
    write_file("tree/tool", "#!/bin/sh\n")
    os.chmod("tree/tool", 0o755)
    os.chmod("tree/a", 0o700)
    os.symlink("a/b/c/f", "tree/link")
    os.symlink("/etc/passwd", "tree/outside")


def test_a_tree_there_and_back():
    make_tree()
    with daemon():
        ok("cp", "tree", "box:")
        equal(ok("exec", "box", "--", "cat tree/link; stat -c %a tree/tool tree/a; readlink tree/outside"), b"deep755\n700\n/etc/passwd\n")
        finished = cli("cp", "box:tree", "back")
        equal((finished.code, b"'outside'" in finished.stderr), (2, True), finished)
        os.unlink("tree/outside")  # it leads out of the tree: it is left out
        equal(tree("back"), tree("tree"))


def test_into_a_directory_that_is_there():
    write_file("f", "1")
    os.mkdir("d")
    with daemon():
        ok("cp", "f", "box:/tmp")
        ok("cp", "f", "box:new/name")
        equal(ok("exec", "box", "--", "cat /tmp/f new/name"), b"11")
        ok("cp", "box:/tmp/f", "d")
        ok("cp", "box:/tmp/f", "other")
        equal((open("d/f").read(), open("other").read()), ("1", "1"))


def test_large_files():
    data = os.urandom(1 << 20) * 40 + b"end"
    write_file("large", data)
    with daemon():
        ok("cp", "large", "box:large")
        ok("cp", "box:large", "back")
        equal(open("back", "rb").read() == data, True)
        equal(ok("cp", "box:large", "-") == data, True)
        equal(ok("exec", "box", "--", "ls -A"), b"large\n")


def test_standard_input_and_output():
    with daemon():
        for data in (b"", b"abc", bytes(range(256)) * 9000):
            ok("cp", "-", "box:f", stdin=data)
            equal(ok("cp", "box:f", "-") == data, True)
        bad_input("cp", "-", "box:/tmp", says="directory")
        bad_input("cp", "box:/tmp", "-", says="directory")


def test_what_is_not_there_or_not_permitted():
    write_file("f", "1")
    with daemon():
        bad_input("cp", "box:nothing", ".", says='no sandbox "box"')
        bad_input("cp", "nothing", "box:", says="nothing")
        bad_input("cp", "f", "box:/etc/f", says="f")
        bad_input("cp", "box:nothing", ".", says="nothing")
        bad_input("cp", "box:/etc/passwd", "/nonexistent/x", says="nonexistent")


def test_what_cannot_be_copied_is_passed_over():
    os.makedirs("tree")
    os.mkfifo("tree/pipe")
    write_file("tree/f", "1")
    with daemon():
        finished = cli("cp", "tree", "box:")
        equal(finished.code, 2, finished)
        assert b"tree/pipe" in finished.stderr, finished
        equal(ok("exec", "box", "--", "ls tree"), b"f\n")
        ok("exec", "box", "--", "mkfifo tree/pipe")
        finished = cli("cp", "box:tree", "back")
        assert finished.code and b"pipe" in finished.stderr, finished
        equal(os.listdir("back"), ["f"])


def test_links_of_the_sandbox_are_not_followed_on_the_host():
    """A link from the sandbox, and a file that would be written through it."""
    os.mkdir("outside")
    os.mkdir("target")
    with daemon():
        outside = os.path.abspath("outside")
        ok("exec", "box", "--", f"mkdir -p one two/link; ln -s {outside} one/link; ln -s kept one/near; echo 1 > one/kept; echo evil > two/link/f")
        finished = cli("cp", "box:one/.", "target")
        equal((finished.code, sorted(os.listdir("target"))), (2, ["kept", "near"]), finished)
        line, = finished.stderr.decode().splitlines()
        assert "'link'" in line and "skipped" in line, line
        ok("cp", "box:two/.", "target")  # the twin: without the link it is written
        equal((open("target/link/f").read(), os.readlink("target/near"), os.listdir("outside")), ("evil\n", "kept", []))


def test_an_interrupted_copy_leaves_nothing():
    with daemon():
        ok("exec", "box", "--", "true")
        process = start("cp", "-", "box:f", stdin=subprocess.PIPE)
        process.stdin.write(bytes(3 << 20))  # pieces of a MiB; the rest never comes
        process.stdin.flush()
        wait_for(lambda: b"f.cloche-upload-" in ok("exec", "box", "--", "ls -A"), "it to begin")
        process.send_signal(signal.SIGINT)
        equal(process.wait(30), -signal.SIGINT)
        for stream in (process.stdin, process.stdout, process.stderr):
            stream.close()
        equal(ok("exec", "box", "--", "ls -A"), b"")
