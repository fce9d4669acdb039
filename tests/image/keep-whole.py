"""The store stays whole: killed at each step, on a full disk, by several at once; images in use stay."""
import fcntl
import json
import os
import shutil
import subprocess
import sys
import threading

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled, wait_for
from store import Gone, Image, Refused, Store, describe, directory, feed, file, gz, hard, link, paths, tar

TIMEOUT = 300
LOWER = [file(f"d{i % 7}/f{i}", str(i)) for i in range(300)]
UPPER = [file("d1/.wh..wh..opq"), file("new", "2"), hard("h", "d2/f2"), directory("d3", mode=0o700), link("l", "x")]


def pruned(s, **options):
    """The numbers that a prune returns, but for the bytes that are left."""
    return {name: value for name, value in s.ask("prune", **options).items() if name != "keptBytes"}


def a_killed(s, point, method, **params):
    """True: it was killed at that point."""
    try:
        if method == "import":
            s.load(params["data"], params["name"], crash=point)
        else:
            s.ask(method, crash=point, **params)
        return False
    except Gone:
        return True


def check_whole(s):
    """Every named image is whole; prune removes the rest, and leaves nothing that no image needs."""
    for image in s.ask("list")["images"]:
        if image["names"]:
            assert s.ask("verify", name=image["names"][0])["isWhole"], image
    s.ask("prune")
    left = s.ask("list")["images"]
    trees = {image["tree"].replace(":", "-") for image in left}
    assert sorted(os.listdir(s.path + "/trees")) == sorted(trees | {tree + ".list" for tree in trees})
    assert sorted(os.listdir(s.path + "/images")) == sorted(image["id"].removeprefix("sha256:") + ".json" for image in left)
    assert set(os.listdir(s.path)) - {"names.json"} == {"images", "incoming", "lock", "trees"} and not s.leftovers()
    return {name: image["tree"] for image in left for name in image["names"]}


def test_killed_at_every_point_of_an_import():
    image = Image([tar(LOWER), tar(UPPER)]).pack()
    for data in (gz(image), tar(LOWER)):  # through a pipe, with a copy; one layer
        with Store(size="64m", program="tests/cloche-image-crash") as s:
            s.load(tar([file("a", "1")]), "other")
            other = s.ask("inspect", name="other")["tree"]
            point, seen = 0, set()
            while True:
                point += 1
                if not a_killed(s, point, "import", data=data, name="x"):
                    break
                names = check_whole(s)
                assert names["other:latest"] == other and set(names) <= {"other:latest", "x:latest"}
                seen.add("x:latest" in names)
                if "x:latest" in names:
                    s.ask("remove", name="x")
            assert point > 15 and seen == {False, True}, (point, seen)
            assert s.ask("verify", name="x")["isWhole"]
            print(point, "points")


def test_killed_at_every_point_of_a_removal():
    with Store(size="64m", program="tests/cloche-image-crash") as s:
        s.load(tar([file("a", "1")]), "other")
        point = 0
        while True:
            point += 1
            s.load(tar(LOWER))
            if not a_killed(s, point, "remove", name="x"):
                break
            names = check_whole(s)
            assert set(names) in ({"other:latest"}, {"other:latest", "x:latest"})
        assert point > 6 and set(check_whole(s)) == {"other:latest"}


def test_killed_at_every_point_of_a_prune():
    with Store(size="64m", program="tests/cloche-image-crash") as s:
        s.load(tar([file("a", "1")]), "other")
        point = 0
        while True:
            point += 1
            s.load(tar(LOWER))
            s.load(tar(UPPER[1:2]))  # takes the name
            os.mkdir(s.path + "/incoming/0123456789abcdef")
            if not a_killed(s, point, "prune"):
                break
            assert set(check_whole(s)) == {"other:latest", "x:latest"}
        assert point > 3


def test_a_full_disk():
    """Whatever runs out, bytes or inodes, the import fails, leaves nothing, and the images that are there stay."""
    big, many = tar([file(f"f{i}", os.urandom(300_000)) for i in range(60)]), tar([file(f"d{i}/f") for i in range(3000)])
    for options, data in (("8m", big), ("8m,nr_inodes=1000", many)):
        with Store(size=options) as s:
            s.load(tar([file("a", "1")]), "other")
            for source in (data, s.write("x.tar", data), Image([data], compress=gz), Image([tar([file("b", "1")]), data])):
                message = s.refused(source)
                assert "No space left" in message, message
            s.refused(Image([data]).pack(), "No space left")  # the copy of what a pipe brings
            assert s.ask("verify", name="other")["isWhole"]
            s.load(tar([file("c", "1")]))


def test_room_for_the_tree_but_not_for_its_names():
    """At the last bytes of the disk there is the whole image or nothing."""
    data, seen = tar(LOWER[:40]), set()
    with Store(size="2m") as s:
        filler = s.path + "/filler"
        for left in range(0, 600_000, sampled(12_288, 4096)):
            with open(filler, "wb", buffering=0) as out:
                try:
                    while True:
                        out.write(bytes(4096))
                except OSError:
                    pass
            os.truncate(filler, max(os.stat(filler).st_size - left, 0))
            try:
                s.load(data)
                seen.add("imported")
            except Refused as e:
                assert "No space left" in str(e) and not s.leftovers(), e
                seen.add("refused")
            os.unlink(filler)
            assert set(check_whole(s)) <= {"x:latest"}
            if "x:latest" in check_whole(s):
                s.ask("remove", name="x")
    assert seen == {"imported", "refused"}


def test_several_imports_at_once():
    archives, errors = [tar([*LOWER, file("own", str(i % 3))]) for i in range(9)], []
    with Store() as s:
        def one(i):
            try:
                s.load(archives[i], f"x{i}")
                s.ask("prune")
            except Exception as e:
                errors.append(e)
        threads = [threading.Thread(target=one, args=(i,)) for i in range(len(archives))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not errors, errors
        names = check_whole(s)
        assert len(names) == 9 and len(set(names.values())) == 3


def test_cancelled_imports_leave_nothing():
    """The client goes away in the middle: the source is a pipe that brings no more."""
    with Store() as s:
        reading, writing = os.pipe()
        whole = tar([file(f"f{i}", bytes(10_000)) for i in range(1000)])
        with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink:
            feeder = threading.Thread(target=lambda: feed(sink, whole))
            with s.process(source) as control:
                control.call("open")
                control.send("import", {"source": "a pipe", "name": "x"})
                feeder.start()
                wait_for(lambda: os.listdir(s.path + "/incoming"), "the import to begin")
                control.sock.close()
                control.process.wait()
            source.close()
            feeder.join()
        assert not s.leftovers() and not os.listdir(s.path + "/trees") and s.ask("list")["images"] == []


def test_images_in_use_stay():
    with Store() as s:
        s.load(tar([file("a", "1")]))
        s.load(tar([file("a", "1")]), "y")
        tree = s.tree()
        user = os.open(tree, os.O_RDONLY)
        fcntl.flock(user, fcntl.LOCK_SH)
        s.ask("remove", name="y")  # a name of several
        for refused in ("x", "x:latest", os.path.basename(tree)):
            try:
                s.ask("remove", name=refused)
                raise AssertionError("it was removed")
            except Refused as e:
                assert "in use" in str(e)
        s.load(tar([file("a", "2")]))  # the name moves on, the tree has none
        assert pruned(s) == {"images": 0, "trees": 0, "leftovers": 0, "inUse": 1} and os.path.exists(tree + "/a")
        os.close(user)
        assert pruned(s) == {"images": 1, "trees": 1, "leftovers": 0, "inUse": 0} and not os.path.exists(tree)
        s.ask("remove", name="x")  # nobody uses it
        assert s.ask("list")["images"] == [] and os.listdir(s.path + "/trees") == []


def test_a_tree_that_no_image_names_counts_once():
    """As a killed removal leaves it, with its listing beside it."""
    with Store() as s:
        s.load(tar([file("a", "1")]))
        tree = s.tree()
        for name in os.listdir(s.path + "/images"):
            os.unlink(s.path + "/images/" + name)
        os.unlink(s.path + "/names.json")
        user = os.open(tree, os.O_RDONLY)
        fcntl.flock(user, fcntl.LOCK_SH)
        assert pruned(s) == {"images": 0, "trees": 0, "leftovers": 0, "inUse": 1} and os.path.exists(tree + "/a")
        os.close(user)
        assert pruned(s) == {"images": 0, "trees": 1, "leftovers": 0, "inUse": 0}
        assert os.listdir(s.path + "/trees") == []


def test_verify_tells_what_differs():
    with Store() as s:
        s.load(tar([file("a/f", "1"), file("a/g", "2"), file("a.b", "3"), link("l", "x"), directory("gone"), file("owner", ""), file("attribute", ""), file("kind", "")]))
        tree = s.tree()
        assert s.ask("verify", name="x") == {"isWhole": True, "found": s.ask("inspect", name="x")["tree"], "tree": s.ask("inspect", name="x")["tree"], "changeCount": 0, "changes": []}
        with open(tree + "/a/f", "w") as out:
            out.write("9")
        os.chmod(tree + "/a/g", 0o4755)
        os.unlink(tree + "/l")
        os.symlink("y", tree + "/l")
        os.rmdir(tree + "/gone")
        os.chown(tree + "/owner", 5, 0)
        os.setxattr(tree + "/attribute", "user.a", b"1")
        os.unlink(tree + "/kind")
        os.mkfifo(tree + "/kind")
        open(tree + "/a.added", "w").close()
        answer = s.ask("verify", name="x")
        changes = {(row["path"], row["change"]) for row in answer["changes"]}
        assert not answer["isWhole"] and answer["changeCount"] == len(answer["changes"]), answer
        assert {("a/f", "contents"), ("a/g", "mode"), ("l", "target or attributes"), ("gone", "removed"), ("owner", "uid"), ("attribute", "target or attributes"), ("kind", "kind"),
                ("a.added", "added")} <= changes and not any(path == "a.b" for path, _ in changes), changes
        s.load(tar([file("a", "1")]), "y")
        shutil.rmtree(s.tree("y"))
        try:
            s.ask("verify", name="y")
            raise AssertionError("there is no tree")
        except Refused as e:
            assert "no tree" in str(e)
        s.load(tar([file("a", "1")]), "y")  # imported again
        assert s.ask("verify", name="y")["isWhole"]


def test_verify_without_a_listing():
    with Store() as s:
        s.load(tar([file("f", "1")]))
        for harm in (lambda: None, lambda: os.chmod(s.tree() + "/f", 0o600)):
            os.unlink(s.tree() + ".list")
            harm()
            try:
                raise AssertionError(s.ask("verify", name="x"))
            except Refused as e:
                assert "has lost the listing" in str(e) and "import the image again" in str(e), e
            s.load(tar([file("f", "1")]))
            answer = s.ask("verify", name="x")
        assert not answer["isWhole"] and answer["changes"][0]["path"] == "f", answer  # the tree stays as it is


def test_exports_come_back():
    members = [directory("./", mode=0o700), *LOWER, hard("h", "d1/f1"), link("l", "x"), file("späce", "1", uid=7, gid=8), file("big", os.urandom(3 << 20)), directory("d", mode=0o1777)]
    config = {"Env": ["A=1", "PATH=/bin"], "WorkingDir": "/w", "User": "7:8", "Entrypoint": ["e"], "Cmd": ["c"], "Labels": {"a": "b"}, "ExposedPorts": {"80/tcp": {}}, "Volumes": {"/v": {}}}
    with Store() as s, Store() as other:
        s.load(Image([tar(members)], config))
        out, again = s.folder + "/out.tar", s.folder + "/again.tar"
        for path in (out, again):
            with open(path, "wb") as file_:
                s.ask("export", file_, name="x")
        with open(out, "rb") as one, open(again, "rb") as two:
            assert one.read() == two.read()
        assert not s.leftovers()
        back = other.load(out)
        assert (back["tree"], back["id"]) == tuple(s.ask("inspect", name="x")[key] for key in ("tree", "id"))
        assert describe(other.tree()) == describe(s.tree()) and os.stat(other.tree() + "/h").st_nlink == 2
        if shutil.which("skopeo") and shutil.which("umoci"):
            subprocess.run(["skopeo", "--insecure-policy", "copy", "-q", "oci-archive:out.tar:latest", "oci:L:v1"], cwd=s.folder, check=True)
            subprocess.run(["umoci", "unpack", "--image", "L:v1", "B"], cwd=s.folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            assert paths(s.folder + "/B/rootfs") == paths(s.tree())
            inspected = json.loads(subprocess.run(["skopeo", "inspect", "--config", "oci:L:v1"], cwd=s.folder, check=True, stdout=subprocess.PIPE).stdout)
            assert inspected["config"]["Env"] == config["Env"] and inspected["config"]["User"] == "7:8"


def test_names():
    with Store() as s:
        archive = tar([file("a", "1")])
        for name in ("x", "0.1_b-c", "a:T.a-g_1", "a" * 128 + ":" + "b" * 128):
            s.load(archive, name)
        for name in ("", ".a", "-a", "A", "a/b", "a b", "a:", ":a", "a:.b", "a:b:c", "a" * 129, "ä", "..", "a\n", "a:" + "b" * 129):
            s.refused(archive, "no ", name=name)
        for name in ("none", "sha256:" + "0" * 64, "../x"):
            for method in ("inspect", "verify", "remove", "export"):
                try:
                    s.ask(method, name=name)
                    raise AssertionError(name)
                except Refused:
                    pass
