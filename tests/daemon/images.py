"""Images of a daemon's boxes."""
import fcntl
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from clocks import Clock
from sandbox_client import wait_for
from image_trees import ETC, fill_etc, make_image, make_store
from cloche import cli, equal

ETC_RUN = {"language": "python", "code": ETC, "function": "f"}


def test_an_etc_of_ten_thousand_entries_in_forked_runs_and_sandboxes():
    image = make_image()
    expected = fill_etc(image)
    with Daemon("--image", image) as daemon, daemon.frames() as frames:
        for _ in range(2):
            equal(frames.call("call", **ETC_RUN)["result"], expected)
        frames.call("sandbox.create", sandbox="s")
        said = frames.call("exec", sandbox="s", command="set -- /etc/*; echo $#; read a < /etc/hostname; echo $a; read a < /etc/file-77; echo $a")
        equal(said["stdout"].split(), ["10009", "cloche", "77"])


MARKER = {"language": "python", "code": "def f(): return open('/etc/marker').read()", "function": "f"}


def test_several_images_of_one_daemon():
    """Runs are forked from templates of their own image, also when they are alike."""
    store, digests = make_store(3)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for _ in range(2):
            asked = [(digest, frames.ask("call", image=digest, **MARKER)) for digest in digests * 2]
            for digest, number in asked:
                equal(frames.wait(number)["result"], digest)
        for digest in digests:
            equal(frames.call("call", image=digest, warm=False, **MARKER)["result"], digest)
            equal(frames.call("script", image=digest, language="bash", code="read -r a < /etc/marker; echo $a")["stdout"], digest + "\n")
        assert frames.call("call", **MARKER)["status"] == "error", "the host has no marker"


def test_set_up_code_belongs_to_its_image():
    store, (one, other) = make_store(2)
    setup = {"language": "python", "code": "marker = open('/etc/marker').read()"}
    run = {"language": "python", "code": "def f(): return marker", "function": "f"}
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        prefixes = {digest: frames.call("prefix.create", image=digest, **setup)["prefix"] for digest in (one, other)}
        for digest, prefix in prefixes.items():
            equal(frames.call("call", prefix=prefix, **run)["result"], digest)
            equal(frames.call("call", prefix=prefix, image=digest, **run)["result"], digest)
        equal(frames.refused("call", prefix=prefixes[one], image=other, **run).name, "invalid_argument")


def test_what_an_image_lacks_is_reported_and_breaks_nothing_else():
    store, (one,) = make_store(1)
    code = {"language": "javascript", "code": "function f() { return 1 }", "function": "f"}
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for warm in (True, False):
            refused = frames.refused("call", image=one, warm=warm, **code)
            assert refused.name == "missing_runtime" and "javascript" in refused.message and "node" in refused.message, refused
        equal(frames.call("call", image=one, **MARKER)["result"], one)
        equal(frames.call("call", **code)["result"], 1)


def test_images_that_are_refused():
    store, (one,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for name in ("python", "sha256-", one + "0", one.upper(), "/", store, f"{store}/trees/{one}", "../" + one, one + "/"):
            refused = frames.refused("call", image=name, **MARKER)
            assert refused.name == "invalid_argument" and "image" in refused.message, (name, refused)
        for warm in (True, False):
            refused = frames.refused("call", image="sha256-" + "f" * 64, warm=warm, **MARKER)
            assert refused.name == "not_found" and "sha256-fff" in refused.message, refused
        equal(frames.call("call", image=one, **MARKER)["result"], one)
    with Daemon("--images", "") as daemon, daemon.frames() as frames:
        assert "no image store" in frames.refused("call", image=one, **MARKER).message


def test_a_daemon_whose_own_image_is_of_the_store():
    store, (one, other) = make_store(2)
    with Daemon("--images", store, "--image", one) as daemon, daemon.frames() as frames:
        equal(frames.call("call", **MARKER)["result"], one)
        equal(frames.call("call", image=other, **MARKER)["result"], other)


def test_sandboxes_of_several_images():
    store, (one, other) = make_store(2)
    read = {"command": "read -r a < /etc/marker; echo $a; : > /workspace/kept; cat /etc/marker /workspace/kept"}
    context = "print(open('/etc/marker').read(), 1)"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for name, image in (("a", one), ("b", other.replace("-", ":"))):
            made = frames.call("sandbox.create", sandbox=name, image=image)
            equal((made["image"], made["created"]), (image.replace(":", "-"), True))
            equal(frames.call("exec", sandbox=name, **read)["stdout"].split()[0], made["image"])
            for number in range(2):  # the second is prewarmed
                frames.call("context.create", sandbox=name, context=f"c{number}", language="python")
                equal(frames.call("context.run", sandbox=name, context=f"c{number}", code=context)["stdout"], made["image"] + " 1\n")
        assert "image" not in frames.call("sandbox.create", sandbox="host")
        assert "No such file" in frames.call("exec", sandbox="host", **read)["stderr"]
        equal(frames.call("sandbox.create", sandbox="a", image=other)["image"], one, "a found one keeps its image")
        for name in ("python", one + "0", "/"):
            equal(frames.refused("sandbox.create", sandbox="c", image=name).name, "invalid_argument")
        equal(frames.refused("sandbox.create", sandbox="c", image="sha256-" + "f" * 64).name, "not_found")
        equal(sorted(row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]), ["a", "b", "host"])


def test_a_saved_sandbox_keeps_its_image():
    store, (one, other) = make_store(2)
    state = os.path.abspath("state")
    os.mkdir(state)
    options = ("--images", store, "--state-dir", state)
    read = {"sandbox": "a", "command": "read -r a < /etc/marker; echo $a; read -r b < /workspace/b; echo $b"}
    with Daemon(*options) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", image=one)
        frames.call("exec", sandbox="a", command="echo saved > /workspace/b")
        frames.call("sandbox.stop", sandbox="a")
        equal(frames.call("exec", **read)["stdout"].split(), [one, "saved"])
        daemon.stop()
    with Daemon(*options, "--image", other) as daemon, daemon.frames() as frames:
        equal(frames.call("sandbox.get", sandbox="a")["image"], one)
        equal(frames.call("exec", **read)["stdout"].split(), [one, "saved"])
        daemon.stop()
    os.rename(f"{store}/trees/{one}", f"{store}/trees/{one}.away")
    with Daemon(*options) as daemon, daemon.frames() as frames:
        equal(frames.refused("exec", **read).name, "not_found")
        os.rename(f"{store}/trees/{one}.away", f"{store}/trees/{one}")
        equal(frames.call("exec", **read)["stdout"].split(), [one, "saved"])


def can_be_removed(tree):
    """A remover of images takes this lock."""
    fd = os.open(tree, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    except BlockingIOError:
        return False
    finally:
        os.close(fd)


def test_unused_interpreters_let_go_of_their_image():
    store, (one, other) = make_store(2)
    tree = f"{store}/trees/{one}"
    with Clock() as clock, Daemon("--images", store, env=clock.env) as daemon, daemon.frames() as frames:
        equal(frames.call("call", image=one, **MARKER)["result"], one)
        frames.call("sandbox.create", sandbox="a", image=one)
        frames.call("context.create", sandbox="a", context="c", language="python")
        frames.call("context.run", sandbox="a", context="c", code="1")
        frames.call("sandbox.update", sandbox="a", idleMs=0)
        clock.jump(0, monotonic=601)
        equal(frames.call("call", image=other, **MARKER)["result"], other)
        assert not can_be_removed(tree), "a sandbox uses it"
        equal(frames.call("context.run", sandbox="a", context="c", code="print(open('/etc/marker').read())")["stdout"], one + "\n")
        frames.call("sandbox.delete", sandbox="a")
        clock.jump(0, monotonic=1300)
        wait_for(lambda: can_be_removed(tree))
        equal(frames.call("call", image=one, **MARKER)["result"], one)
        assert not can_be_removed(tree)


def add_package(image, name, text):
    directory = f"{image}/usr/lib/python3/dist-packages/{name}"
    os.makedirs(directory)
    with open(directory + "/__init__.py", "w") as file:
        file.write(text)


def test_broken_packages_of_an_image_break_no_contexts():
    """matplotlib raises RuntimeError where /etc/matplotlibrc is missing; others may raise anything, or lack what is used."""
    image = make_image()
    add_package(image, "matplotlib", "raise RuntimeError('Could not find matplotlibrc file')")
    add_package(image, "numpy", "raise ValueError('no processor for it')")
    add_package(image, "pandas", "whole = 'nothing is in it'")
    with Daemon("--image", image) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s")
        frames.call("context.create", sandbox="s", context="c", language="python")

        def ran(code):
            return frames.call("context.run", sandbox="s", context="c", code=code)
        equal(ran("print(1 + 1)")["stdout"], "2\n")
        error = ran("import matplotlib.pyplot")["error"]
        equal((error["name"], error["message"]), ("RuntimeError", "Could not find matplotlibrc file"))
        equal(ran("import numpy")["error"]["name"], "ValueError")
        equal(ran("import pandas\nprint(pandas.whole)")["stdout"], "nothing is in it\n")
        equal(ran("print([name for name in ('there', 'use', 'draw', 'numpy', 'matplotlib') if name in globals()])")["stdout"], "[]\n")


def test_names_on_the_command_line():
    """They are looked up by the command, in the store of its options; the daemon gets the digest."""
    image = make_image()
    subprocess.run(["tar", "-C", image, "-cf", "image.tar", "."], check=True)
    equal(cli("image", "import", "--images", "images", "image.tar", "tools:1").code, 0)
    with Daemon("--images", os.path.abspath("images")) as daemon, daemon.frames() as frames:
        made = cli("sandbox", "create", "s", "--image", "tools:1", "--images", "images", "--socket", daemon.path)
        equal((made.code, made.stdout), (0, b"s\n"), made)
        [tree] = [name for name in os.listdir("images/trees") if not name.endswith(".list")]
        equal(frames.call("sandbox.get", sandbox="s")["image"], tree)
        for name, says in (("none:1", b"there is no image 'none:1' (cloche image ls lists them)"), ("./image", b"--image: './image' is a path")):
            refused = cli("sandbox", "create", "t", "--image", name, "--images", "images", "--socket", daemon.path)
            assert refused.code == 2 and says in refused.stderr, refused
        equal([row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]], ["s"])
