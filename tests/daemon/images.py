"""Images of a daemon's boxes."""
import fcntl
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, WebSocket
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
        equal(said["stdout"].split(), ["10009", frames.call("sandbox.get", sandbox="s")["hostName"], "77"])


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
        for name in ("sha256-", one + "0", one.upper(), "/", store, f"{store}/trees/{one}", "../" + one, one + "/"):
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
        for name in (one + "0", "/"):
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


def users_of(tree):
    """The number of boxes that lock it; without a lock of our own, which would stop one from being made."""
    inode = f":{os.stat(tree).st_ino} "
    with open("/proc/locks") as locks:
        return sum("FLOCK" in line and inode in line for line in locks)


def test_sandboxes_made_ahead():
    """The second sandbox of an image fills its pool, from which the third comes; the engine's own image and other settings have none of it."""
    store, (one, other) = make_store(2)
    tree = f"{store}/trees/{one}"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        def made(name, **options):
            frames.call("sandbox.create", sandbox=name, **options)
            said = frames.call("exec", sandbox=name, command="read -r a < /etc/marker; echo $a; echo ${A-}; pwd")["stdout"].split("\n")
            frames.call("sandbox.delete", sandbox=name)
            return said[:3]
        equal(made("a", image=one), [one, "", "/workspace"])
        wait_for(lambda: users_of(tree) == 0)  # one alone fills no pool
        equal(made("b", image=one), [one, "", "/workspace"])
        wait_for(lambda: users_of(tree) == 2)
        for name in ("c", "d", "e"):
            equal(made(name, image=one), [one, "", "/workspace"])
        settings = {"env": {"A": "stated"}, "workingDirectory": "/tmp"}
        equal(made("f", image=one, imageSettings=settings), [one, "stated", "/tmp"])
        equal(made("g")[:2], ["", ""])
        for name in ("h", "i", "j"):
            equal(made(name, image=other), [other, "", "/workspace"])
        wait_for(lambda: users_of(tree) == 0)  # the pool has the other image now
        wait_for(lambda: users_of(f"{store}/trees/{other}") == 2)
        # Sandboxes with variables or a network of their own have a pool of their kind.
        for name, own in (("k", "1"), ("l", "1"), ("m", "1"), ("n", "2")):
            equal(made(name, image=one, env={"A": own}, network={"allow": ["allowed.test:80"]}), [one, own, "/workspace"])
            wait_for(lambda: users_of(tree) == (0 if name in "kn" else 2))


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


def import_image(store, name, image):
    done = cli("image", "import", "--images", store, image, name)
    equal(done.code, 0, done)


def make_two(store="images"):
    """A store with images tools:1 and tools:2, which differ by /etc/marker; their trees."""
    image = make_image()
    trees = []
    for tag in ("1", "2"):
        with open(f"{image}/etc/marker", "w") as file:
            file.write(tag)
        import_image(store, f"tools:{tag}", image)
        trees.append(json.loads(cli("image", "inspect", "--images", store, "--json", f"tools:{tag}").stdout)["tree"].replace(":", "-"))
    return os.path.abspath(store), trees


def test_names_in_requests():
    """Every kind of request takes them, over frames, HTTP and WebSockets."""
    store, (one, two) = make_two()
    with Daemon("--images", store, tcp=True) as daemon, daemon.frames() as frames:
        equal(frames.call("call", image="tools:1", **MARKER)["result"], "1")
        equal(frames.call("script", image="tools:2", language="bash", code="read -r a < /etc/marker; echo $a")["stdout"], "2\n")
        made = frames.call("prefix.create", image="tools:2", language="python", code="marker = open('/etc/marker').read()")
        equal(frames.call("call", prefix=made["prefix"], language="python", code="def f(): return marker", function="f")["result"], "2")
        equal(frames.call("sandbox.create", sandbox="a", image="tools:2")["image"], two)
        equal(frames.call("call", image=one, **MARKER)["result"], "1")
        with Http(daemon.connect()) as http:
            equal(http.post("/v1/call", image="tools:2", **MARKER)[1]["result"], "2")
            equal(http.post("/v1/sandboxes", sandbox="b", image="tools:1")[1]["image"], one)
            status, body = http.post("/v1/call", image="tols:1", **MARKER)
            equal((status, body["error"]["name"]), (404, "not_found"))
            assert "did you mean 'tools:1'" in body["error"]["message"], body
        with WebSocket(daemon.connect_tcp(), token=daemon.token) as socket:
            equal(socket.call("call", image="tools:1", **MARKER)["result"], "1")
        for name, kind in (("tols:1", "not_found"), ("Tools", "invalid_argument"), ("../tools", "invalid_argument"), ("/", "invalid_argument"), ("tools:1/..", "invalid_argument")):
            for method, about in (("call", MARKER), ("sandbox.create", {"sandbox": "c"})):
                refused = frames.refused(method, image=name, **about)
                equal((name, refused.name), (name, kind))
        equal(sorted(row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]), ["a", "b"])


def test_a_name_is_looked_up_at_each_request():
    """After a second import the name is another image, with a template of its own; after a removal it is none."""
    image = make_image()
    import_image("images", "tools", image)
    setup = {"image": "tools", "language": "python", "code": "marker = open('/etc/marker').read()"}
    run = {"language": "python", "code": "def f(): return marker", "function": "f"}
    with Daemon("--images", os.path.abspath("images")) as daemon, daemon.frames() as frames:
        prefixes = [frames.call("prefix.create", **setup)["prefix"]]
        for text in ("image", "other", "third"):
            with open(f"{image}/etc/marker", "w") as file:
                file.write(text)
            import_image("images", "tools", image)
            for _ in range(2):
                equal(frames.call("call", image="tools", **MARKER)["result"], text)
            prefixes.append(frames.call("prefix.create", **setup)["prefix"])
        equal([frames.call("call", prefix=prefix, **run)["result"] for prefix in prefixes], ["image", "image", "other", "third"])
        for name in ("one", "two"):
            frames.call("sandbox.create", sandbox=name, image="tools")
        os.environ["CLOCHE_SOCKET"] = daemon.path
        refused = cli("image", "rm", "--images", "images", "tools")
        users = refused.stderr.partition(b" (cloche-keeper): ")[2].strip().split(b", ")
        assert refused.code == 2 and sorted(users) == [b"sandbox one", b"sandbox two"], refused
        import_image("images", "later", image)
        equal(frames.call("call", image="later", **MARKER)["result"], "third")


def test_requests_after_one_that_names_an_image():
    """They come after it, as it arrived first: else exec would make the sandbox without its image."""
    store, (one, two) = make_two()
    for connect in ("frames", "socket"):
        with Daemon("--images", store, tcp=True) as daemon, daemon.frames() if connect == "frames" else WebSocket(daemon.connect_tcp(), token=daemon.token) as frames:
            for number in range(3):
                name = f"s{number}"
                asked = [frames.ask("sandbox.create", sandbox=name, image="tools:2"), frames.ask("exec", sandbox=name, command="read -r a < /etc/marker; echo $a"),
                         frames.ask("call", image="tools:1", **MARKER), frames.ask("languages")]
                answers = [frames.wait(each) for each in asked]
                equal(answers[0]["image"], two)
                equal(answers[1]["stdout"].splitlines()[-1], "2")
                equal(answers[2]["result"], "1")
                assert answers[3]["languages"]


def test_an_image_for_the_container_api():
    """The operator creates the sandbox with its image; requests of the API use it, and choose none."""
    store, (one, two) = make_two()
    read = {"command": "read -r a < /etc/marker; echo $a"}
    with Daemon("--images", store) as daemon, daemon.frames() as frames, Http(daemon.connect()) as http:
        frames.call("sandbox.create", sandbox="with", image="tools:2")
        equal(http.post("/v1/sandboxes/with/container/api/execute", **read)[1]["stdout"], "2\n")
        for more in ({}, {"image": "tools:1"}):
            assert "2" not in http.post("/v1/sandboxes/without/container/api/execute", **read, **more)[1].get("stdout", "")
        assert "image" not in frames.call("sandbox.get", sandbox="without")
        equal(frames.call("sandbox.get", sandbox="with")["image"], two)


def test_a_client_that_leaves_and_a_reader_that_dies():
    store, (one, two) = make_two()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for _ in range(20):
            leaving = daemon.frames()
            leaving.ask("call", image="tools:1", **MARKER)
            leaving.close()
        equal(frames.call("call", image="tools:1", **MARKER)["result"], "1")
        readers = [pid for pid in os.listdir("/proc") if pid.isdigit() and is_reader_of(pid, store)]
        equal(len(readers), 1)
        os.kill(int(readers[0]), 9)
        wait_for(lambda: not is_reader_of(readers[0], store))
        equal(frames.call("call", image="tools:2", **MARKER)["result"], "2")


def is_reader_of(pid, store):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as words:
            return words.read().startswith(b"cloche-image\0") and os.readlink(f"/proc/{pid}/fd/3") == store
    except OSError:
        return False


def test_a_store_that_is_not_there_yet():
    with Daemon("--images", os.path.abspath("images")) as daemon, daemon.frames() as frames:
        refused = frames.refused("call", image="tools", **MARKER)
        assert refused.name == "not_found" and "cloche image import" in refused.message, refused
        assert not os.path.exists("images")
        import_image("images", "tools", make_image())
        equal(frames.call("call", image="tools", **MARKER)["result"], "image")
        os.chmod("images", 0o755)
        wait_for(lambda: frames.refused("call", image="other", **MARKER))
        os.chmod("images", 0o700)


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
        for name, says in (("none:1", b"there is no image 'none:1' (cloche image ls lists them,"), ("./image", b"--image: './image' is a path")):
            refused = cli("sandbox", "create", "t", "--image", name, "--images", "images", "--socket", daemon.path)
            assert refused.code == 2 and says in refused.stderr, refused
        equal([row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]], ["s"])
