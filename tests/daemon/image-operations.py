"""Operations on the daemon's image store, over frames and HTTP: their results, and whom they are refused."""
import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import traceback

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sync")]
from http_client import Http
from rpc import Daemon, Failed, Frames
from sandbox_client import put, wait_for
from synced import leave_namespace, mount
from image_trees import make_image
from cloche import cli, equal, need_root

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


def test_the_last_use_is_known():
    """A box of an image sets it, and a look at it does not."""
    image = make_image()
    import_image("tools", image)
    [listing] = [f"images/trees/{name}" for name in os.listdir("images/trees") if name.endswith(".list")]
    os.utime(listing, (0, 1_000_000_000))
    with daemon() as d, d.frames() as frames:
        frames.call("image.verify", image="tools")
        equal(frames.call("image.get", image="tools")["lastUsedAt"], "2001-09-09T01:46:40.000Z")
        equal(frames.call("call", image="tools", warm=False, **MARKER)["result"], "image")
        used = frames.call("image.list")["images"][0]
        assert used["lastUsedAt"] >= used["importedAt"], used
        os.remove(listing)
        equal(frames.call("call", image="tools", warm=False, **MARKER)["result"], "image", "a box needs no listing")
        equal(frames.call("image.get", image="tools")["lastUsedAt"], None)


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
        equal(frames.call("image.prune"), {"images": 0, "trees": 0, "leftovers": 1, "inUse": 0, "keptBytes": 0})
        equal(http.request("POST", "/v1/images/prune", headers={"Content-Type": "application/json"})[1]["leftovers"], 0)
        equal(os.listdir("images/incoming"), [])


def test_prune_keeps_what_is_used():
    """An image that lost its name, and one that keepBytes would remove, stay while a stopped sandbox needs them."""
    for name in ("one", "two", "three"):
        import_image(name, small(name))
    with daemon("--image-changes", "owner") as d, d.frames() as frames, Http(d.connect()) as http:
        made = frames.call("sandbox.create", sandbox="mine", image="one")
        equal(made["imageName"], "one")
        frames.call("sandbox.stop", sandbox="mine")
        import_image("one", small("other"))
        found = frames.call("image.prune")
        equal((found["images"], found["inUse"]), (0, 1), "its name is another image's now")
        for bad in (-1, "1", 1.5):
            equal(frames.refused("image.prune", keepBytes=bad).name, "invalid_argument")
        equal(frames.call("image.prune", keepBytes=1 << 40)["images"], 0)
        status, found = http.request("POST", "/v1/images/prune", body={"keepBytes": 0})
        equal((status, found["images"], found["inUse"], found["keptBytes"]), (200, 3, 1, 3))
        equal([image["tree"].replace(":", "-") for image in frames.call("image.list")["images"]], [made["image"]])
        equal(frames.call("file.read", sandbox="mine", path="/etc/marker")["content"], "one")
        frames.call("sandbox.delete", sandbox="mine")
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        equal(frames.call("image.prune")["images"], 1, "the twin")


def test_the_name_of_a_sandbox_image():
    """sandbox.get shows it beside the digest, after a start of the daemon too."""
    tree = import_image("one", small("one"))["tree"].replace(":", "-")
    state = os.path.abspath("state")
    with daemon("--state-dir", state) as d, d.frames() as frames:
        frames.call("sandbox.create", sandbox="named", image="one")
        frames.call("sandbox.create", sandbox="digest", image=tree)
        frames.call("sandbox.create", sandbox="told", image=tree, imageName="mine:1")
        frames.call("sandbox.create", sandbox="without", imageName="mine:1")
        equal(frames.refused("sandbox.create", sandbox="long", image=tree, imageName="x" * 301).name, "invalid_argument")
    with daemon("--state-dir", state) as d, d.frames() as frames:
        shown = {name: frames.call("sandbox.get", sandbox=name) for name in ("named", "digest", "told", "without")}
        equal({name: (one.get("image"), one.get("imageName")) for name, one in shown.items()},
              {"named": (tree, "one"), "digest": (tree, None), "told": (tree, "mine:1"), "without": (None, None)})
        assert not any("packages" in one for one in shown.values()), shown
        finished = cli("sandbox", "get", "named", "--socket", d.path)
        assert b"imageName                  one\n" in finished.stdout, finished


def test_the_command_line_reaches_the_store_of_a_daemon():
    record = import_image("tools:1", small())
    import_image("tools:2")
    with daemon("--image-changes", "owner") as d:
        def image(*words, code=0, env=None):
            finished = cli("image", *words, *([] if env else ["--socket", d.path]), env=env)
            equal((words, finished.code), (words, code), finished)
            return finished.stderr.decode() if code else finished.stdout.decode()
        here = json.loads(cli("image", "ls", "--images", "images", "--json").stdout)
        equal(json.loads(image("ls", "--json")), [{name: value for name, value in row.items() if name != "ownSize"} for row in here])
        assert " own " not in image("ls"), "a daemon does not measure"
        equal(json.loads(image("inspect", "tools:1", "--json"))["tree"], record["tree"])
        equal(image("ls", "--daemon", env={"CLOCHE_SOCKET": d.path}), image("ls"))
        assert "did you mean 'tools:1'" in image("inspect", "tools:3", code=2)
        equal(image("verify", "tools:1"), "")
        assert "exclude each other" in image("ls", "--images", "images", code=2)
        assert "exclude each other" in image("ls", "--images", "images", "--daemon", code=2, env={"CLOCHE_SOCKET": d.path})
        offered = cli("__complete", "image", "inspect", "--daemon", "too", env={"CLOCHE_SOCKET": d.path}).stdout.decode()
        equal(sorted(line.split("\t")[0] for line in offered.splitlines()), ["tools:1", "tools:2"])
        equal(image("rm", "tools:2", "tools:9", code=2).count("there is no image"), 1)
        equal(image("prune", "--keep-bytes", "0"), "removed 1 images, 1 trees, 0 unfinished imports; 0 in use\n")
        equal(image("ls"), "")
    small()
    import_image("tools:1")
    with daemon() as d:
        for words in (("rm", "tools:1"), ("prune",)):
            finished = cli("image", *words, "--socket", d.path)
            assert finished.code == 2 and b"--image-changes" in finished.stderr, finished
        equal(len(json.loads(cli("image", "ls", "--json", "--socket", d.path).stdout)), 1)


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
        frames.call("sandbox.snapshot", sandbox="mine", snapshot="kept")
        frames.call("sandbox.delete", sandbox="mine")
        assert "snapshot kept" in frames.refused("image.delete", image="tools:1").message
        frames.call("sandbox.create", sandbox="again", snapshot="kept")
        equal(frames.call("sandbox.get", sandbox="again")["imageName"], "tools:1")
        frames.call("sandbox.delete", sandbox="again")
        frames.call("snapshot.delete", snapshot="kept")
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        frames.call("sandbox.create", sandbox="other")
        assert frames.call("image.delete", image="tools:1")["treeRemoved"]


def test_many_requests_at_once():
    """Long ones have programs of their own, and one that lists does not wait for them."""
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


def test_a_name_of_any_length_ends_no_program():
    """The reader serves all callers: requests of others at the same time are answered."""
    small()
    record = import_image("tools")
    with daemon(tcp=True) as d, d.frames() as frames, Frames(d.connect_tcp(), token=d.token) as stranger:
        frames.call("image.list")
        for size in (1000, 100_000, 5_000_000):
            asked = [(stranger.ask("image.get", image="a" * size), frames.ask("image.get", image="tools"), frames.ask("sandbox.create", sandbox="s", image="b" * 300)) for _ in range(20)]
            for long, short, other in asked:
                equal(frames.wait(short), record)
                for client, number in ((stranger, long), (frames, other)):
                    try:
                        raise AssertionError(client.wait(number))
                    except Failed as e:
                        equal(e.name, "invalid_argument")


# ---- imports ----

def archive(*files):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data in files:
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return out.getvalue()


def large(seed=1):
    return archive(("etc/marker", b"large"), ("data", random.Random(seed).randbytes(5 << 20)))


def content(data, at=0):
    return {"$": "bytes", "at": at, "n": len(data)}


def send(frames, data, piece, image, **params):
    """Pieces over frames, each after the answer of the one before."""
    upload = {"image": image, **params}
    while len(data) > piece:
        answer = frames.call("image.upload", data[:piece], content=content(data[:piece]), **upload)
        upload, data = {"upload": answer["upload"]}, data[piece:]
    return frames.call("image.import", data, content=content(data), **upload)


def everything():
    """Names, images, trees and unfinished imports of the store."""
    return sorted(os.path.join(here, name) for here, folders, files in os.walk("images") for name in folders + files if "/trees/" not in here and name != "lock")


def make_store():
    os.mkdir("images", 0o700)


def programs():
    """The cloche-image of our store that write."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as words:
                if words.read().split(b"\0")[0] == b"cloche-image" and os.readlink(f"/proc/{pid}/fd/3") == os.path.abspath("images"):
                    found.append(pid)
        except OSError:
            pass
    return found


def test_imports_in_one_piece_and_in_many():
    make_store()
    data = large()
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        for image, piece in (("one", len(data)), ("many", 100_000), ("big", 3 << 20)):
            answer = send(frames, data, piece, image)
            equal((answer["name"], answer["entries"], answer["isNew"]), (f"{image}:latest", 4, image == "one"))
        equal(len(frames.call("image.list")["images"]), 1)
        equal(send(frames, archive(("etc/marker", b"other")), 1 << 20, "one:2")["isNew"], True)
        equal(frames.refused("image.import", image="text", content="no archive at all").name, "bad_archive")
        with Http(d.connect()) as http:
            status, answer = put(http, "/v1/images/http:1", data)
            equal((status, answer["name"], answer["isNew"]), (200, "http:1", False))
            status, answer = put(http, "/v1/images/chunks", large(2), chunk=50_000)
            equal((status, answer["name"], answer["isNew"]), (200, "chunks:latest", True))
            status, answer = put(http, "/v1/images/bad", b"x" * 100_000)
            equal((status, answer["error"]["name"]), (422, "bad_archive"))
            status, answer = put(http, "/v1/images/Bad", data)
            equal((status, answer["error"]["name"]), (400, "invalid_argument"))
        assert frames.call("image.verify", image="chunks")["isWhole"]
    equal(sorted(json.load(open("images/names.json"))), ["big:latest", "chunks:latest", "http:1", "many:latest", "one:2", "one:latest"])


def test_an_imported_image_runs():
    make_store()
    image = make_image()
    done = subprocess.run(["tar", "-C", image, "-czf", "-", "."], capture_output=True, check=True)
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        send(frames, done.stdout, 4 << 20, "tools")
        equal(frames.call("call", image="tools", **MARKER)["result"], "image")


def test_unfinished_imports_leave_nothing():
    """The client leaves, cancels or waits between pieces, at the end of the archive too, where only the word that it is whole is missing."""
    make_store()
    data = large()
    with daemon("--image-changes", "owner") as d:
        with d.frames() as frames:
            send(frames, archive(("a", b"1")), 1 << 20, "there")
        before = everything()
        for sent in (1000, 2 << 20, len(data)):
            with d.frames() as frames:
                answer = frames.call("image.upload", data[:sent], content=content(data[:sent]), image="lost")
                equal(answer["bytes"], sent)
                wait_for(programs)
            wait_for(lambda: not programs())
            equal(everything(), before)
            with Http(d.connect()) as http:
                http.send_head("PUT", "/v1/images/lost", {"Host": "localhost", "Content-Length": len(data) + (sent == len(data))})
                http.socket.sendall(data[:sent])
                wait_for(programs)
            wait_for(lambda: not programs())
            equal(everything(), before)
        with d.frames() as frames:
            upload = frames.call("image.upload", data[:1000], content=content(data[:1000]), image="lost")["upload"]
            with d.frames() as other:
                equal(other.refused("image.import", upload=upload).name, "not_found")
            equal(frames.refused("image.import", upload=upload).name, "bad_archive", "it is cut")
            equal(frames.refused("image.import", upload=upload).name, "not_found")
        wait_for(lambda: not programs())
        equal(everything(), before)
        with d.frames() as frames:  # the twin
            send(frames, data, 1 << 20, "kept")
        assert everything() != before


def test_a_daemon_that_is_killed_leaves_no_image():
    make_store()
    data = large()
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        frames.call("image.upload", data, content=content(data), image="lost")
        wait_for(programs)
        os.kill(d.engine_pid(), 9)
        wait_for(lambda: not programs())
        assert not os.path.exists("images/names.json") and not os.listdir("images/trees")


def test_one_caller_leaves_room_for_others():
    """However slowly it sends, and however many archives."""
    make_store()
    with daemon("--image-changes", "all", tcp=True) as d, d.frames() as frames, Frames(d.connect_tcp(), token=d.token) as stranger:
        send(frames, archive(("a", b"1")), 1 << 20, "there")
        begun = [answered(stranger, "image.upload", image=f"slow-{i}", content="x") for i in range(6)]
        assert frames.call("image.verify", image="there")["isWhole"]
        equal([name for name in begun if name], ["queue_full"] * 3)
        upload = stranger.ask("image.verify", image="there")
        try:
            raise AssertionError(stranger.wait(upload))
        except Failed as e:
            assert e.name == "queue_full" and "of this caller" in e.message, e
    with daemon("--image-changes", "all") as d, d.frames() as frames:  # the twin: the owner has all the room
        equal([answered(frames, "image.upload", image=f"slow-{i}", content="x") for i in range(7)], [None] * 6 + ["queue_full"])


def test_imports_that_end_slowly_leave_room_for_names():
    """One that undoes much work is at it for a while after its client left."""
    small()
    import_image("there")
    stopped = set()
    with daemon("--image-changes", "all") as d:
        try:
            for _ in range(8):
                with d.frames() as leaving:
                    upload = leaving.call("image.upload", image="slow", content="x")["upload"]
                    wait_for(lambda: set(programs()) - stopped or answered(leaving, "image.upload", upload=upload, content="x"))
                    for pid in set(programs()) - stopped:
                        os.kill(int(pid), signal.SIGSTOP)
                        stopped.add(pid)
            assert len(stopped) >= 6, stopped
            with d.frames() as frames:
                equal(frames.call("image.get", image="there")["names"], ["there:latest"])
                assert "under way already" in frames.refused("image.import", image="slow", content="x").message
        finally:
            for pid in stopped:
                os.kill(int(pid), signal.SIGKILL)
        with d.frames() as frames:  # the twin
            wait_for(lambda: answered(frames, "image.import", image="new", content="no archive") == "bad_archive")


def answered(frames, method, **params):
    """The name of the error, or None."""
    try:
        frames.call(method, **params)
    except Failed as e:
        return e.name


def test_an_archive_that_is_too_large():
    make_store()
    data = large()
    with daemon("--image-changes", "owner", "--max-image", "4") as d, d.frames() as frames, Http(d.connect()) as http:
        upload = frames.call("image.upload", data[:4 << 20], content=content(data[:4 << 20]), image="big")["upload"]
        refused = frames.refused("image.import", upload=upload, content="x")
        assert refused.name == "too_large" and "--max-image" in refused.message, refused
        status, answer = put(http, "/v1/images/big", data)
        equal((status, answer["error"]["name"]), (413, "too_large"))
        wait_for(lambda: not programs())
        equal(os.listdir("images/incoming"), [])
        send(frames, archive(("a", b"1" * (3 << 20))), 1 << 20, "small")


def test_who_may_import():
    """With --image-changes all, callers with the token add images, and change no name that there is."""
    make_store()
    one, two = archive(("a", b"1")), archive(("a", b"2"))
    for options, first, second in (((), 403, 403), (("--image-changes", "owner"), 403, 403), (("--image-changes", "all"), 200, 403)):
        with daemon(*options, tcp=True) as d, d.frames() as frames:
            with Http(d.connect_tcp(), token=d.token) as http:
                status, answer = put(http, "/v1/images/theirs", one)
                equal((options, status), (options, first))
            with Http(d.connect_tcp(), token=d.token) as http:
                status, answer = put(http, "/v1/images/theirs", two)
                equal((options, status, answer["error"]["name"]), (options, second, "forbidden"))
            if first == 200:
                assert "another image has the name 'theirs:latest'" in answer["error"]["message"], answer
                equal(len(frames.call("image.list")["images"]), 1)
                with Http(d.connect_tcp(), token=d.token) as http:
                    equal(put(http, "/v1/images/theirs", one)[0], 200, "the same image")
                    equal(http.request("DELETE", "/v1/images/theirs")[0], 403)
            if options:
                equal(send(frames, two, 1 << 20, "theirs")["name"], "theirs:latest")
                equal(frames.call("image.delete", image="theirs")["treeRemoved"], True)
            else:
                equal(frames.refused("image.import", image="theirs", content="x").name, "forbidden")


def test_a_full_disk_leaves_nothing():
    """The store is a small tmpfs in a mount namespace of this process."""
    need_root()
    os.mkdir("images")
    child = os.fork()
    if child == 0:
        code = 1
        try:
            leave_namespace()
            mount("tmpfs", os.path.abspath("images"), "tmpfs", 6, "size=3m,mode=700")
            full_disk()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    equal(os.waitpid(child, 0)[1], 0)


def full_disk():
    with daemon("--image-changes", "owner") as d, d.frames() as frames:
        send(frames, archive(("a", b"1")), 1 << 20, "there")
        before = everything()
        try:
            send(frames, large(), 1 << 20, "lost")
            raise AssertionError("it was imported")
        except Failed as e:
            assert "No space left" in e.message, e
        wait_for(lambda: not any("incoming/" in path for path in everything()))
        equal(everything(), before)
        assert frames.call("image.verify", image="there")["isWhole"]
