"""prune keepBytes: the images that were not used for longest go first, with their names; those in use stay."""
import fcntl
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from store import Gone, Image, Refused, Store, file, tar

SIZE = 100_000


def fill(s, names="abcd"):
    """One image of SIZE bytes a name, used in this order."""
    for number, name in enumerate(names):
        s.load(tar([file("data", name * SIZE)]), name)
        used_at(s, name, 1_000_000_000 + number)


def listing(s, name):
    return s.tree(name) + ".list"


def used_at(s, name, seconds):
    os.utime(listing(s, name), (seconds, seconds))


def names(s):
    return sorted(name for image in s.ask("list")["images"] for name in image["names"])


def test_the_oldest_go_first():
    with Store() as s:
        fill(s)
        equal(s.ask("prune"), {"images": 0, "trees": 0, "leftovers": 0, "inUse": 0, "keptBytes": 4 * SIZE})
        equal(s.ask("prune", keepBytes=4 * SIZE)["images"], 0)
        equal(s.ask("prune", keepBytes=3 * SIZE), {"images": 1, "trees": 1, "leftovers": 0, "inUse": 0, "keptBytes": 3 * SIZE})
        equal(names(s), ["b:latest", "c:latest", "d:latest"])
        s.ask("inspect", name="b")  # to look at it is no use
        os.utime(listing(s, "c"))  # as the keeper does when it makes a box
        equal(s.ask("prune", keepBytes=SIZE + 1)["keptBytes"], SIZE)
        equal(names(s), ["c:latest"])
        equal(s.ask("prune", keepBytes=0)["keptBytes"], 0)
        equal((names(s), os.listdir(s.path + "/trees"), os.listdir(s.path + "/images")), ([], [], []))


def test_a_use_is_told():
    with Store() as s:
        fill(s, "a")
        equal(s.ask("inspect", name="a")["lastUsedAt"], "2001-09-09T01:46:40.000Z")
        os.utime(listing(s, "a"))
        assert s.ask("inspect", name="a")["lastUsedAt"] > "2026"
        equal(s.ask("verify", name="a")["isWhole"], True)


def test_images_in_use_stay():
    with Store() as s:
        fill(s)
        user = os.open(s.tree("a"), os.O_RDONLY)
        fcntl.flock(user, fcntl.LOCK_SH)
        equal(s.ask("prune", keepBytes=SIZE), {"images": 3, "trees": 3, "leftovers": 0, "inUse": 1, "keptBytes": SIZE})
        equal(names(s), ["a:latest"])
        os.close(user)
        equal(s.ask("prune", keepBytes=0)["trees"], 1)


def test_one_in_use_without_a_name_counts_once():
    with Store() as s:
        fill(s, "a")
        user = os.open(s.tree("a"), os.O_RDONLY)
        fcntl.flock(user, fcntl.LOCK_SH)
        s.load(tar([file("data", "b" * SIZE)]), "a")
        equal(s.ask("prune", keepBytes=0), {"images": 1, "trees": 1, "leftovers": 0, "inUse": 1, "keptBytes": SIZE})
        os.close(user)


def test_a_tree_of_several_images_counts_once():
    with Store() as s:
        fill(s, "ab")
        layer = tar([file("data", "a" * SIZE)])
        s.load(Image([layer], {"Env": ["A=1"]}), "same")
        used_at(s, "a", 1_000_000_000)
        s.ask("import", s.write("again", layer), source="x", name="third", tag=None)
        equal(s.ask("prune", keepBytes=2 * SIZE), {"images": 0, "trees": 0, "leftovers": 0, "inUse": 0, "keptBytes": 2 * SIZE})
        equal(names(s), ["a:latest", "b:latest", "same:latest", "third:latest"])
        equal(s.ask("prune", keepBytes=SIZE), {"images": 2, "trees": 1, "leftovers": 0, "inUse": 0, "keptBytes": SIZE})
        equal(names(s), ["b:latest"])


def test_killed_at_every_point():
    """Every named image is whole, and the next prune removes the rest of the others."""
    with Store(size="64m", program="tests/cloche-image-crash") as s:
        point = 0
        while True:
            point += 1
            fill(s)
            try:
                s.ask("prune", crash=point, keepBytes=SIZE)
                break
            except Gone:
                pass
            left = names(s)
            assert "d:latest" in left, left
            for name in left:
                equal(s.ask("verify", name=name)["isWhole"], True)
            s.ask("prune", keepBytes=SIZE)
            equal((names(s), len(os.listdir(s.path + "/trees")), os.listdir(s.path + "/incoming")), (["d:latest"], 2, []))
        assert point > 6, point


def test_refusals():
    with Store() as s:
        fill(s, "a")
        for keep in (-1, "1", 1.5):
            try:
                s.ask("prune", keepBytes=keep)
                raise AssertionError(keep)
            except Refused as e:
                assert "keepBytes" in str(e)
        equal(names(s), ["a:latest"])
