"""cloched --image NAME: the image of the store that boxes have whose request names none, with what it states."""
import os
import subprocess
import sys
import tarfile

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
from image_trees import configured_image, make_shell
from rpc import DAEMON, Daemon
from cloche import cli, equal

PRINT = {"language": "bash", "code": "echo $PWD $A"}


def store():
    root = make_shell("root")
    os.makedirs(root + "/srv/app")
    with tarfile.open("layer.tar", "w", format=tarfile.PAX_FORMAT) as layer:
        layer.add(root, ".")
    layout = configured_image({"Env": ["A=stated"], "WorkingDir": "/srv/app"})
    equal(cli("image", "import", "--images", "images", layout, "tools:1").code, 0)
    return ["--images", os.path.abspath("images")]


def refused(*options):
    done = subprocess.run([DAEMON, "--socket", "refused", "--state-dir", "", *options], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done
    return done.stderr


def test_a_name():
    images = store()
    with Daemon(*images, "--image", "tools:1", "--image-changes", "owner") as d, d.frames() as frames:
        equal(frames.call("script", **PRINT)["stdout"], "/srv/app stated\n")
        equal(frames.call("exec", sandbox="s", command="echo $PWD $A")["stdout"], "/srv/app stated\n")
        equal(frames.call("script", env={"A": "mine"}, workdir="/tmp", **PRINT)["stdout"], "/tmp mine\n")
        assert "option --image" in frames.refused("image.delete", image="tools:1").message
        equal(frames.call("image.prune", keepBytes=0)["inUse"], 1)
    tree = os.path.join("images/trees", next(name for name in os.listdir("images/trees") if not name.endswith(".list")))
    for image in (tree, os.path.basename(tree)):  # a directory, a digest: neither states anything
        with Daemon(*images, "--image", image) as d, d.frames() as frames:
            equal(frames.call("script", **PRINT)["stdout"], "/workspace\n")


def test_names_that_are_none():
    images = store()
    for name, words in (("tols:1", "did you mean 'tools:1'"), ("tools:2", "there is no image 'tools:2'"), ("../tools:1", "No such file"), ("Tools", "no name of an image"), ("./tools:1", "No such file")):
        assert words in refused(*images, "--image", name), (name, refused(*images, "--image", name))
    assert "cannot open the image store" in refused("--images", os.path.abspath("nowhere"), "--image", "tools:1")
    assert "No such file" in refused("--images", "", "--image", "tools:1")
