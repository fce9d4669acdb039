"""imageSettings of runs, prefixes and sandboxes: environment and working directory below the caller's, above the defaults."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from image_trees import make_store
from cloche import equal

FACTS = {"language": "python", "code": "import os\ndef f(): return [os.getcwd(), os.environ.get('A'), os.environ.get('TZ'), os.environ['HOME']]", "function": "f"}
SETTINGS = {"env": {"A": "stated", "TZ": "Europe/Berlin", "PATH": "/opt/own:/usr/bin:/bin"}, "workingDirectory": "/srv/app"}
STATED = ["/srv/app", "stated", "Europe/Berlin", "/home/cloche"]
NONE = ["/workspace", None, "UTC", "/home/cloche"]


def store_with_a_directory(count=1):
    store, digests = make_store(count)
    for digest in digests:
        os.makedirs(f"{store}/trees/{digest}/srv/app")
    return store, digests


def test_runs_and_prefixes():
    store, (one,) = store_with_a_directory()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for _ in range(3):  # in turns: a template has one environment
            equal(frames.call("call", image=one, imageSettings=SETTINGS, **FACTS)["result"], STATED)
            equal(frames.call("call", image=one, **FACTS)["result"], NONE)
            equal(frames.call("call", image=one, imageSettings={"env": {"A": "other"}}, **FACTS)["result"][:2], ["/workspace", "other"])
        equal(frames.call("call", image=one, imageSettings=SETTINGS, warm=False, **FACTS)["result"], STATED)
        equal(frames.call("call", image=one, imageSettings=SETTINGS, env={"A": "mine"}, workdir="/tmp", **FACTS)["result"][:3], ["/tmp", "mine", "Europe/Berlin"])
        prefix = frames.call("prefix.create", image=one, imageSettings=SETTINGS, language="python", code="import os\nfirst = os.getcwd()\nos.chdir('/')")["prefix"]
        equal(frames.call("call", prefix=prefix, **FACTS)["result"], STATED)
        equal(frames.call("call", prefix=prefix, image=one, language="python", code="def g(): return first", function="g")["result"], "/srv/app")


def test_sandboxes():
    store, (one,) = store_with_a_directory()
    state = os.path.abspath("state")
    os.mkdir(state)
    options = ("--images", store, "--state-dir", state)
    cell = "import os; print(os.getcwd(), os.environ['A'], os.environ['TZ'], os.environ['PATH'].split(':')[0])"
    with Daemon(*options) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=SETTINGS, env={"A": "mine"})
        said = frames.call("exec", sandbox="s", command="echo $PWD $A $TZ; echo $PATH")["stdout"].splitlines()
        equal(said, ["/srv/app mine Europe/Berlin", "/home/cloche/.local/bin:/home/cloche/.local/share/gems/bin:/opt/own:/usr/bin:/bin"])
        equal(frames.call("exec", sandbox="s", command="echo $PWD $A", cwd="/tmp", env={"A": "here"})["stdout"], "/tmp here\n")
        equal(frames.call("session.create", sandbox="s", session="t")["cwd"], "/srv/app")
        for number in range(2):  # the second is prewarmed
            frames.call("context.create", sandbox="s", context=f"c{number}", language="python")
            equal(frames.call("context.run", sandbox="s", context=f"c{number}", code=cell)["stdout"], "/srv/app mine Europe/Berlin /home/cloche/.local/bin\n")
        frames.call("sandbox.create", sandbox="plain", image=one)
        equal(frames.call("exec", sandbox="plain", command="echo $PWD $A $TZ")["stdout"], "/workspace\n")
        frames.call("sandbox.stop", sandbox="s")
        daemon.stop()
    with Daemon(*options) as daemon, daemon.frames() as frames:
        equal(frames.call("exec", sandbox="s", command="echo $PWD $A $TZ")["stdout"], "/srv/app mine Europe/Berlin\n", "it is saved")


def test_a_directory_that_each_box_makes():
    store, (one,) = store_with_a_directory()
    settings = {"workingDirectory": "/workspace/sub/deep"}
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for warm in (True, True, False):
            equal(frames.call("call", image=one, imageSettings=settings, warm=warm, **FACTS)["result"][0], "/workspace/sub/deep")
        frames.call("sandbox.create", sandbox="s", image=one, imageSettings=settings)
        frames.call("context.create", sandbox="s", context="c", language="python")
        equal(frames.call("context.run", sandbox="s", context="c", code="import os; print(os.getcwd())")["stdout"], "/workspace/sub/deep\n")


def test_what_is_refused():
    store, (one,) = store_with_a_directory()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for settings in ({"env": {"HOME": "/"}}, {"env": {"BASH_ENV": "/x"}}, {"env": {"A-B": "1"}}, {"env": {"": "1"}}, {"env": {"A": 1}}, {"env": {"A": "x\0y"}}, {"env": ["A=1"]},
                         {"env": {f"A{i}": "1" for i in range(1025)}}, {"env": {"A": "x" * 70_000}}, {"workingDirectory": "srv"}, {"workingDirectory": "/srv/../.."},
                         {"workingDirectory": 1}, {"workingDirectory": "/" + "x" * 2000}, {"user": "root"}):
            for method, more in (("call", FACTS), ("sandbox.create", {"sandbox": "s"})):
                refused = frames.refused(method, image=one, imageSettings=settings, **more)
                assert refused.name in ("invalid_argument", "too_large") and "imageSettings" in refused.message, (settings, refused.message)
        assert "expected an image" in frames.refused("call", imageSettings=SETTINGS, **FACTS).message
        for warm in (True, False):  # it is a file, or is not there and cannot be made
            for directory, why in (("/etc/marker", "Not a directory"), ("/usr/none", "No such file")):
                refused = frames.refused("call", image=one, imageSettings={"workingDirectory": directory}, warm=warm, **FACTS)
                assert directory in refused.message and why in refused.message and "interpreter" not in refused.message, refused
        equal(frames.call("call", image=one, imageSettings=SETTINGS, **FACTS)["result"], STATED)
        equal(frames.call("sandbox.list")["sandboxes"], [])
