"""Images without an interpreter, a C library or a shell: one clear line before any work, and everything else goes on."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from image_trees import make_store
from cloche import equal

LANGUAGES = ("python", "javascript", "typescript", "ruby", "php", "bash", "c", "c++")
ONE = {"language": "python", "code": "def f(): return 1", "function": "f"}


def rewrite(path, text):
    """A file of its own: trees of a store are linked to each other, and may have links of the host's."""
    os.remove(path)
    with open(path, "w") as file:
        file.write(text)


def store_of(change):
    """A store with one tree, and a second one that is whole."""
    store, (digest, whole) = make_store(2)
    change(f"{store}/trees/{digest}")
    return store, digest, whole


def refused(frames, method, *words, **params):
    error = frames.refused(method, **params)
    assert error.name == "missing_runtime" and "\n" not in error.message, (error.name, error.message)
    for word in words:
        assert word in error.message, (word, error.message)
    return error.message


def empty(tree):
    subprocess.run(["rm", "-r", tree], check=True)
    os.makedirs(tree + "/etc")


def without_loader(tree):
    """As in an image with another C library: programs are there, and the kernel cannot start them."""
    for name in ("lib", "lib64", "usr/lib64"):
        subprocess.run(["rm", "-r", f"{tree}/{name}"], check=True)


def test_an_empty_tree():
    store, digest, whole = store_of(empty)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for language in LANGUAGES:
            for warm in (True, False):
                message = refused(frames, "call", "the image", language=language, code="x", function="f", image=digest, warm=warm)
            refused(frames, "prefix.create", "the image", language=language, code="", image=digest)
            refused(frames, "script", "the image", language=language, code="x", image=digest)
        assert "GNU C library" in message, f"{message}: programs of C are ours, and start with the image's loader"
        frames.call("sandbox.create", sandbox="s", image=digest)
        refused(frames, "exec", "bash", "files", sandbox="s", command="true")
        refused(frames, "process.start", "bash", sandbox="s", command="true")
        for language in LANGUAGES[:6]:
            refused(frames, "context.create", "contexts", language if language != "c++" else "cpp", sandbox="s", context="c", language=language)
        frames.call("file.write", sandbox="s", path="a", content="1")
        equal(frames.call("file.read", sandbox="s", path="a")["content"], "1")
        equal(frames.call("context.list", sandbox="s")["contexts"], [])
        equal(frames.call("call", image=whole, **ONE)["result"], 1)
        equal(frames.call("call", **ONE)["result"], 1)


def test_programs_whose_loader_is_missing():
    store, digest, whole = store_of(without_loader)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for language in ("python", "bash", "c"):
            for warm in (True, False):
                refused(frames, "call", "loader", "GNU C library", language=language, code="x", function="f", image=digest, warm=warm)
        refused(frames, "call", "no interpreter for javascript", "node", language="javascript", code="x", function="f", image=digest)
        frames.call("sandbox.create", sandbox="s", image=digest)
        refused(frames, "exec", "GNU C library", sandbox="s", command="true")
        refused(frames, "context.create", "loader", sandbox="s", context="c", language="python")
        equal(frames.call("call", image=whole, **ONE)["result"], 1)


def test_an_interpreter_that_cannot_load_our_library():
    """As Python in an image with musl: the reason stands in the error, and a terminal's control characters do not."""
    def spoil(tree):
        [version] = [name for name in os.listdir(f"{tree}/usr/lib") if name.startswith("python3.")]
        with open(f"/usr/lib/{version}/ctypes/__init__.py") as file:
            text = file.read()
        ctypes = f"{tree}/usr/lib/{version}/ctypes/__init__.py"
        os.rename(ctypes + "c", ctypes)  # the library has no sources (image_trees.py)
        rewrite(ctypes, text + "\nclass CDLL:\n    def __init__(self, name, *rest):\n        raise OSError('\\x1b[2JError loading shared library ld-linux.so: no such file (needed by %s)' % name)\n")
    store, digest, whole = store_of(spoil)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for _ in range(2):
            message = refused(frames, "call", "python", "musl, not the GNU one", "Error loading shared library ld-linux.so", image=digest, **ONE)
            assert "\x1b" not in message, message
        equal(frames.call("call", image=digest, warm=False, **ONE)["result"], 1, "without a template it works")
        refused(frames, "prefix.create", "Error loading", language="python", code="", image=digest)
        frames.call("sandbox.create", sandbox="s", image=digest)
        equal(frames.call("exec", sandbox="s", command="echo 1")["stdout"], "1\n")
        equal(frames.call("call", image=whole, **ONE)["result"], 1)
        equal(frames.call("call", **ONE)["result"], 1)


def test_a_compiler_without_its_libraries():
    """The tree has Debian's C library, and nothing that programs of C need besides."""
    store, digest, whole = store_of(lambda tree: None)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for language in ("c", "c++"):
            for warm in (True, False):
                refused(frames, "call", "libraries are missing", "cannot open shared object", language=language, code="int f(void) { return 1; }", function="f", image=digest, warm=warm)
        equal(frames.call("call", image=whole, **ONE)["result"], 1)


def test_modules_that_are_missing():
    """As in an image with python3-minimal: the line names the module, whether the interpreter is warm or cold."""
    def spoil(tree):
        [version] = [name for name in os.listdir(f"{tree}/usr/lib") if name.startswith("python3.")]
        os.remove(f"{tree}/usr/lib/{version}/ctypes/__init__.pyc")
        [module] = [name for name in os.listdir(f"{tree}/usr/lib/{version}/lib-dynload") if name.startswith("_json.")]
        os.remove(f"{tree}/usr/lib/{version}/lib-dynload/{module}")
    store, digest, whole = store_of(spoil)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        refused(frames, "call", "interpreter for python", "No module named '_json'", image=digest, warm=False, **ONE)
        refused(frames, "call", "interpreter for python", "No module named", image=digest, warm=True, **ONE)
        refused(frames, "image.warm", "No module named", image=digest, languages=["python"])
        refused(frames, "call", "No module named '_json'", image=digest, warm=False, stream=True, **ONE)
        frames.call("script", image=digest, language="python", code="print(1)", warm=False)
        for image in ({}, {"image": whole}):
            # Code that ends the interpreter by itself is not the image's fault, whatever it leaves unread.
            for code in ("import os\ndef f(): os._exit(3)", "import os\nos._exit(3)\ndef f(): pass"):
                result = frames.call("call", language="python", code=code, function="f", warm=False, **image)
                equal((result["status"], result["error"]["type"]), ("crash", "NoResult"))


def test_a_shell_that_cannot_load_our_builtin():
    def spoil(tree):
        os.remove(f"{tree}/usr/bin/bash")
        with open(f"{tree}/usr/bin/bash", "w") as file:
            file.write("#!/bin/sh\nexit 3\n")
        os.chmod(f"{tree}/usr/bin/bash", 0o755)
    store, digest, _ = store_of(spoil)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=digest)
        error = frames.refused("exec", sandbox="s", command="true")
        assert "status 3" in error.message and "GNU C library" in error.message, error.message
        frames.call("context.create", sandbox="s", context="c", language="python")
        equal(frames.call("context.run", sandbox="s", context="c", code="print(2)")["stdout"], "2\n")
