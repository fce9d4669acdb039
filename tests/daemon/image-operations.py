"""Operations on the daemon's image store, over frames and HTTP: their results, and whom they are refused."""
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http
from rpc import Daemon, Failed
from image_trees import make_image
from cloche import cli, equal

MARKER = {"language": "python", "code": "def f(): return open('/etc/marker').read()", "function": "f"}


def import_image(name, image="source", store="images"):
    equal(cli("image", "import", "--images", store, image, name).code, 0)
    return json.loads(cli("image", "inspect", "--images", store, "--json", name).stdout)


def small(text="1"):
    """A root without programs."""
    os.makedirs("source/etc", exist_ok=True)
    with open("source/etc/marker", "w") as file:
        file.write(text)
    return "source"


def daemon(*options, **more):
    return Daemon("--images", os.path.abspath("images"), *options, **more)


def test_list_get_and_verify():
    """Every caller may read, and the answers are those of cloche image."""
    small()
    record = import_image("tools:1")
    with daemon(tcp=True) as d, d.frames() as frames, Http(d.connect_tcp(), token=d.token) as http:
        equal(frames.call("image.list")["images"], [record])
        equal(http.get("/v1/images"), (200, {"images": [record]}))
        for name in ("tools:1", record["id"], record["tree"], record["tree"].replace(":", "-")):
            equal(frames.call("image.get", image=name), record)
        equal(http.get("/v1/images/tools:1"), (200, record))
        whole = {"isWhole": True, "tree": record["tree"], "found": record["tree"], "changeCount": 0, "changes": []}
        equal(frames.call("image.verify", image="tools:1"), whole)
        equal(http.request("POST", "/v1/images/tools:1/verify", headers={"Content-Type": "application/json"}), (200, whole))
        with open(f"images/trees/{record['tree'].replace(':', '-')}/etc/marker", "w") as file:
            file.write("2")
        changed = frames.call("image.verify", image="tools:1")
        equal((changed["isWhole"], changed["changeCount"], changed["changes"][0]["path"]), (False, 1, "etc/marker"))
        for name, kind in (("tools", "not_found"), ("Tools", "invalid_argument"), ("../tools", "invalid_argument"), ("sha256:" + "0" * 64, "not_found")):
            for method in ("image.get", "image.verify"):
                equal((name, frames.refused(method, image=name).name), (name, kind))
        status, answer = http.get("/v1/images/tools")
        equal((status, answer["error"]["name"]), (404, "not_found"))
        assert "did you mean 'tools:1'" in answer["error"]["message"], answer


def test_no_store():
    with Daemon("--images", "") as d, d.frames() as frames:
        for method, params in (("image.list", {}), ("image.get", {"image": "x"}), ("image.verify", {"image": "x"})):
            assert "no image store" in frames.refused(method, **params).message, method
    with daemon() as d, d.frames() as frames:
        equal(frames.refused("image.list").name, "not_found")
        assert not os.path.exists("images")
        small()
        import_image("x")
        equal(len(frames.call("image.list")["images"]), 1)


def test_changes_need_the_operators_word():
    small()
    record = import_image("tools")
    for options, over_tcp in (((), False), (("--image-changes", "none"), False), (("--image-changes", "owner"), True), (("--image-changes", "all"), True)):
        with daemon(*options, tcp=True) as d:
            if not over_tcp:  # nobody may, the owner neither
                with d.frames() as frames:
                    assert "--image-changes" in frames.refused("image.delete", image="tools").message
                    equal(frames.refused("image.prune").name, "forbidden")
            with Http(d.connect_tcp(), token=d.token) as http:
                equal(http.request("DELETE", "/v1/images/tools")[0], 403)
                equal(http.request("POST", "/v1/images/prune", headers={"Content-Type": "application/json"})[0], 403)
                equal(http.get("/v1/images/tools"), (200, record))
    for word in ("", "yes", "Owner"):
        refused = cli_daemon("--image-changes", word)
        assert refused[0] == 2 and "--image-changes must be none, owner or all" in refused[1], refused


def cli_daemon(*options):
    done = subprocess.run([os.path.join(os.environ["CLOCHE_BUILD"], "cloched"), "--socket", "s", *options], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stderr


def test_the_owner_removes_and_prunes():
    small()
    record = import_image("tools:1")
    import_image("tools:2")
    with daemon("--image-changes", "owner") as d, d.frames() as frames, Http(d.connect()) as http:
        equal(frames.call("image.delete", image="tools:1"), {"name": "tools:1", "id": record["id"], "imageRemoved": False, "treeRemoved": False})
        equal(frames.refused("image.delete", image="tools:1").name, "not_found")
        equal(http.request("DELETE", "/v1/images/tools:2"), (200, {"name": "tools:2", "id": record["id"], "imageRemoved": True, "treeRemoved": True}))
        equal(frames.call("image.list"), {"images": []})
        os.makedirs("images/incoming/0123456789abcdef/tree")
        equal(frames.call("image.prune"), {"images": 0, "trees": 0, "leftovers": 1, "inUse": 0})
        equal(http.request("POST", "/v1/images/prune", headers={"Content-Type": "application/json"})[1]["leftovers"], 0)
        equal(os.listdir("images/incoming"), [])


def test_an_image_in_use_names_its_users():
    image = make_image()
    import_image("tools:1", image)
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        frames.call("sandbox.create", sandbox="mine", image="tools:1")
        frames.call("prefix.create", name="warm", image="tools:1", language="python", code="x = 1")
        message = frames.refused("image.delete", image="tools:1")
        equal(message.name, "invalid_state")
        for user in ("sandbox mine", "prefix warm", "warm interpreter of python", "ten minutes"):
            assert user in message.message, (user, message)
        assert "other" not in message.message
        frames.call("prefix.dispose", prefix="warm")
        frames.call("sandbox.stop", sandbox="mine")
        assert "sandbox mine" in frames.refused("image.delete", image="tools:1").message, "it needs its image when it starts again"
        frames.call("sandbox.delete", sandbox="mine")
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        frames.call("sandbox.create", sandbox="other")
        assert frames.call("image.delete", image="tools:1")["treeRemoved"]


def test_many_requests_at_once():
    """Those that take long have programs of their own, and one that lists does not wait for them."""
    small()
    import_image("tools")
    with daemon() as d, d.frames() as frames:
        asked = [frames.ask("image.verify", image="tools") for _ in range(6)]
        listing = frames.ask("image.list")
        refused = [frames.ask("image.verify", image="tools") for _ in range(4)]
        equal(len(frames.wait(listing)["images"]), 1)
        assert all(frames.wait(number)["isWhole"] for number in asked)
        for number in refused:
            try:
                assert frames.wait(number)["isWhole"]
            except Failed as e:
                equal(e.name, "queue_full")
        for _ in range(20):
            leaving = d.frames()
            leaving.ask("image.verify", image="tools")
            leaving.close()
        frames.call("image.list")
