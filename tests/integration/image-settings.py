"""Env, WorkingDir and User of an image as `cloche call`, `run` and `prefix` have them: below the caller's, above the defaults."""
import json
import os
import subprocess

from cloche import ORDINARY_USER, call, call_words, cli, equal, need_ordinary_user, parse_result
from image_trees import configured_image

FACTS = """import os
def f(): return [os.getcwd(), *(os.environ.get(name) for name in ("A", "TZ", "HOME", "PATH", "LINES"))]"""
CONFIG = {"Env": ["A=image", "TZ=Europe/Berlin", "HOME=/root", "PATH=/opt/bin:/usr/bin:/bin", "LINES=1\n2"], "WorkingDir": "/srv/app", "User": "app"}
EXPECTED = ["/srv/app", "image", "Europe/Berlin", "/home/app", "/opt/bin:/usr/bin:/bin", "1\n2"]


def imported(config, name="configured", store="images"):
    finished = cli("image", "import", configured_image(config), name, "--images", store)
    equal((finished.code, finished.stdout.decode()), (0, f"{name}:latest\n"), finished)
    return finished.stderr.decode()


def test_calls_and_scripts():
    notes = imported(CONFIG)
    assert "cloche: Env HOME=/root is left out" in notes and "User" not in notes, notes
    inspected = cli("image", "inspect", "configured", "--images", "images").stdout.decode()
    assert "runsAs         app (1001:1001), home /home/app\n" in inspected, inspected
    image = {"image": "configured", "images": "images"}
    equal(call("python", FACTS, "f", **image).value, EXPECTED)
    finished = cli(*call_words("python", FACTS, "f", **image), "--env", "A=mine")
    equal(parse_result(finished).value[1:3], ["mine", "Europe/Berlin"], finished)
    equal(call("python", FACTS, "f").value[:3], ["/workspace", None, "UTC"])
    script = cli("run", "bash", "-c", 'echo "$PWD $A $TZ $HOME $UID"; tool', "--image", "configured", "--images", "images")
    equal(script.stdout.decode().splitlines(), ["/srv/app image Europe/Berlin /home/app 1001", "a tool of the image's PATH"], script)
    digest = json.loads(cli("image", "inspect", "configured", "--images", "images", "--json").stdout)["tree"]
    equal(call("python", FACTS, "f", image=digest, images="images").value[:4], ["/workspace", None, "UTC", "/home/cloche"], "the digest of a tree is of files alone")


def test_set_up_code():
    imported(CONFIG)
    data = {"XDG_DATA_HOME": os.getcwd()}
    words = ("--image", "configured", "--images", "images")
    code = FACTS.replace("import os", "import os; os.chdir('/'); first = os.environ['A']") + " + [first]"
    equal(cli("prefix", "create", "facts", "python", "-c", code, *words, env=data).code, 0)
    finished = cli("call", "python", "-c", "def g(): return f()", "g", "--prefix", "facts", *words, env=data)
    equal((finished.code, json.loads(finished.stdout)), (0, [*EXPECTED, "image"]), finished)


def test_directories_that_the_box_has():
    """They are made where they are missing, in each box."""
    imported({"WorkingDir": "/workspace/sub/deep"})
    image = {"image": "configured", "images": "images"}
    code = "import os\ndef f():\n    open('x', 'x').close()\n    return os.getcwd()"
    for _ in range(2):
        equal(call("python", code, "f", **image).value, "/workspace/sub/deep")
    imported({"WorkingDir": "/app/made"})
    equal(call("python", "import os\ndef f(): return [os.getcwd(), os.listdir('.')]", "f", **image).value, ["/app/made", []])
    assert "/workspace, for it is no absolute path" in imported({"WorkingDir": "../.."})
    equal(call("python", "import os\ndef f(): return os.getcwd()", "f", **image).value, "/workspace")


def test_a_hostile_environment_stays_in_the_box():
    """A library that is preloaded is loaded by programs of the image only; without it they start."""
    imported({"Env": ["LD_PRELOAD=/nowhere.so", "PYTHONPATH=/srv/app", "CLOCHE_LIBEXEC=/srv", "BASH_ENV=/srv/app/env"]})
    finished = cli("run", "bash", "-c", "echo $LD_PRELOAD $CLOCHE_LIBEXEC $BASH_ENV", "--image", "configured", "--images", "images")
    equal((finished.code, finished.stdout), (0, b"/nowhere.so /srv\n"), finished)
    equal(call("python", "import helper\ndef f(): return helper.VALUE", "f", image="configured", images="images").value, 7)


def test_an_ordinary_user():
    need_ordinary_user()
    image = configured_image(CONFIG)
    store = os.path.abspath("store")
    os.mkdir(store, 0o700)
    os.chown(store, 12345, 12345)
    finished = cli("image", "import", image, "mine", "--images", store, under=ORDINARY_USER)
    equal(finished.code, 0, finished)
    equal(call("python", FACTS, "f", image="mine", images=store, under=ORDINARY_USER).value, EXPECTED)
    words, ids = ("--image", "mine", "--images", store), "import os\ndef f(): return [os.getuid(), os.getgid(), os.stat(os.path.expanduser('~')).st_uid, os.stat('/usr').st_uid]"
    equal(call("python", ids, "f", image="mine", images=store, under=ORDINARY_USER).value, [1001] * 4)
    data = os.path.abspath("data")
    os.mkdir(data)
    os.chown(data, 12345, 12345)
    created = cli("prefix", "create", "ids", "python", "-c", ids + "\nfirst = f()", *words, env={"XDG_DATA_HOME": data}, under=ORDINARY_USER)
    equal(created.code, 0, created)
    finished = cli("call", "python", "-c", "def g(): return [first, f()]", "g", "--prefix", "ids", *words, env={"XDG_DATA_HOME": data}, under=ORDINARY_USER)
    equal((finished.code, json.loads(finished.stdout)), (0, [[1001] * 4] * 2), finished)


def test_images_of_umoci():
    """The words of `umoci config`."""
    image = configured_image({}, "plain")
    bundle = ("umoci", "config", "--image", f"{image}:v1")
    subprocess.run([*bundle, "--config.env", "A=umoci", "--config.workingdir", "/srv/app", "--config.user", "1001"], check=True)
    equal(cli("image", "import", f"{image}:v1", "u", "--images", "images").code, 0)
    equal(call("python", FACTS, "f", image="u", images="images").value[:2], ["/srv/app", "umoci"])
