"""Images of sandboxes that requests of the container API make: the operator's first one, or one that the request names among his."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import served
from image_trees import copy_programs, make_shell
from cloche import cli, equal, wait_for

IMAGES = ["--container-image", "tools:1", "--container-image", "other"]


def store():
    """Two images with bash and cat, which differ by a file, and a third one."""
    root = make_shell()
    copy_programs(root, "/usr/bin/cat")
    for name in ("tools:1", "other", "third"):
        with open(root + "/etc/marker", "w") as file:
            file.write(name)
        equal(cli("image", "import", "--images", "images", root, name).code, 0)
    return ["--images", os.path.abspath("images")]


class Box:
    def __init__(self, http, name):
        self.http, self.name = http, name

    def ask(self, path, /, **body):
        return self.http.post(f"/v1/sandboxes/{self.name}/container/api/{path}", {"X-Sandbox-Id": "x"}, **body)

    def image(self):
        """Its name; there is no such sandbox: None."""
        status, answer = self.http.get("/v1/sandboxes/" + self.name)
        return answer.get("imageName", "the daemon's") if status == 200 else None


def test_the_first_image_and_others():
    with served(*store(), *IMAGES) as (_, http):
        equal([Box(http, "a").image(), http.get("/v1/sandboxes/a/container/api/ping")[0], Box(http, "a").image()], [None, 200, None], "a sign of life makes none")
        equal(Box(http, "a").ask("execute", command="cat /etc/marker")[1]["stdout"], "tools:1")
        equal(Box(http, "b").ask("read", path="/etc/marker")[1]["content"], "tools:1")
        equal([Box(http, name).image() for name in "ab"], ["tools:1", "tools:1"])
        c = Box(http, "c")
        equal(c.ask("session/create", id="one", image="other")[0], 200)
        equal(c.ask("execute", command="cat /etc/marker", sessionId="one")[1]["stdout"], "other")
        equal((c.ask("session/create", id="two", image="other:latest")[0], c.ask("session/create", id="three")[0], c.image()), (200, 200, "other"))
        status, error = c.ask("session/create", id="four", image="tools:1")
        assert (status, error["code"]) == (409, "RESOURCE_BUSY") and "keeps its image" in error["message"], error
        assert "four" not in http.get("/v1/sandboxes/c/container/api/session/list")[1]["sessions"]


def test_images_that_the_operator_does_not_permit():
    options = store()
    with served(*options, *IMAGES) as (_, http):
        box = Box(http, "a")
        for name in ("third", "tools", "tools:2", "", "../tools:1", "sha256-" + "0" * 64):
            status, error = box.ask("session/create", id="x", image=name)
            assert (status, error["code"]) == (403, "PERMISSION_DENIED") and "--container-image" in error["message"], (name, error)
        equal(box.ask("session/create", id="x", image=["tools:1"])[0], 400)
        equal(box.image(), None)
        equal(box.ask("session/create", id="x", image="tools:1")[0], 200, "the twin")
    with served(*options) as (_, http):
        box = Box(http, "a")
        equal(box.ask("session/create", id="x", image="tools:1")[0], 403)
        equal((box.ask("session/create", id="x")[0], box.image()), (200, "the daemon's"))
    with served(*options, "--container-image", "nothing", "--container-image", "tools:1") as (daemon, http):
        wait_for(lambda: '"container-image"' in daemon.log_text(), "the log names the image")
        [line] = [json.loads(line) for line in daemon.log_text().splitlines() if '"container-image"' in line]
        assert line["level"] == "warning" and line["image"] == "nothing" and "there is no image 'nothing:latest'" in line["why"], line
        status, error = Box(http, "a").ask("execute", command="true")
        assert status == 404 and "there is no image 'nothing:latest'" in error["message"], error
        equal(Box(http, "a").image(), None)
