"""Trees share files: an import links the ones that a tree of the store has already, and no others."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal
from store import Gone, Store, directory, file, hard, link, tar, xattr

SIZE = 10_000
BASE = [directory("d", mtime=1_500_000_000), file("d/a", "a" * SIZE), file("d/b", "b" * SIZE), file("c", "c" * SIZE), link("l", "c"), file("empty")]


def inode(tree, path):
    return os.lstat(os.path.join(tree, path)).st_ino


def shared(s, path, one="one", other="other"):
    return inode(s.tree(one), path) == inode(s.tree(other), path)


def sizes(s):
    return {image["names"][0]: (image["size"], image["ownSize"]) for image in s.ask("list", own=True)["images"]}


def test_equal_files_are_one():
    with Store() as s:
        s.load(tar(BASE), "one")
        s.load(tar([*BASE[:-2], file("more", "m" * 500), link("l", "d/a"), file("empty")]), "other")
        for path in ("d/a", "d/b", "c"):
            assert shared(s, path), path
        assert not shared(s, "empty") and not shared(s, "d")
        equal(os.lstat(s.tree("other") + "/d").st_mtime, 1_500_000_000)
        equal([s.ask("verify", name=name)["isWhole"] for name in ("one", "other")], [True, True])
        equal(sizes(s), {"one:latest": (3 * SIZE, 0), "other:latest": (3 * SIZE + 500, 500)})
        assert not s.leftovers()


def test_what_differs_is_not_shared():
    """The twin: each of these differs in one fact, and keeps a file of its own."""
    others = {"mode": file("c", "c" * SIZE, mode=0o600), "owner": file("c", "c" * SIZE, uid=7), "group": file("c", "c" * SIZE, gid=7),
              "time": file("c", "c" * SIZE, mtime=1), "attribute": file("c", "c" * SIZE, pax=xattr(user__x="1")),
              "bytes": file("c", "c" * (SIZE - 1) + "x"), "size": file("c", "c" * (SIZE + 1))}
    with Store() as s:
        s.load(tar(BASE), "one")
        for name, member in others.items():
            s.load(tar([*BASE[:3], member]), name)
            equal((name, shared(s, "d/a", other=name), shared(s, "c", other=name)), (name, True, False))


def test_names_within_one_image():
    """Copies stay copies, and hard links of one image stay one file."""
    with Store() as s:
        s.load(tar([file("x", "1" * SIZE), file("y", "1" * SIZE), hard("z", "x")]), "one")
        assert inode(s.tree("one"), "x") != inode(s.tree("one"), "y")
        s.load(tar([file("x", "1" * SIZE), file("y", "1" * SIZE), hard("z", "x"), file("n", "2")]), "other")
        tree = s.tree("other")
        equal((inode(tree, "x") == inode(tree, "z"), inode(tree, "x") == inode(tree, "y"), shared(s, "x")), (True, False, True))
        equal(sizes(s), {"one:latest": (3 * SIZE, 0), "other:latest": (3 * SIZE + 1, 1)})
        s.ask("remove", name="other")
        equal(sizes(s), {"one:latest": (3 * SIZE, 2 * SIZE)})


def test_a_damaged_file_is_not_taken_over():
    with Store() as s:
        s.load(tar(BASE), "one")
        path, before = s.tree("one") + "/c", os.lstat(s.tree("one") + "/c")
        with open(path, "r+b") as damaged:
            damaged.write(b"x")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        s.load(tar([*BASE, file("more", "m")]), "other")
        equal((shared(s, "d/a"), shared(s, "c")), (True, False))
        equal((s.ask("verify", name="one")["isWhole"], s.ask("verify", name="other")["isWhole"]), (False, True))


def test_a_damaged_listing_stops_no_import():
    with Store() as s:
        s.load(tar(BASE), "one")
        with open(s.tree("one") + ".list", "w") as listing:
            listing.write("f 644\n")
        s.load(tar([*BASE, file("more", "m")]), "other")
        assert not shared(s, "c") and s.ask("verify", name="other")["isWhole"]


def test_a_removed_image_takes_nothing_from_the_others():
    with Store() as s:
        s.load(tar(BASE), "one")
        s.load(tar([*BASE, file("more", "m")]), "other")
        s.ask("remove", name="one")
        assert s.ask("verify", name="other")["isWhole"]
        equal(sizes(s), {"other:latest": (3 * SIZE + 1, 3 * SIZE + 1)})
        s.load(tar(BASE), "one")
        assert shared(s, "c")


def test_a_directory_that_its_owner_may_not_write():
    """An ordinary user has no right above the modes."""
    with Store(user=4321) as s:
        for name, more in (("one", "1"), ("other", "2")):
            s.load(tar([directory("d", mode=0o555), file("d/a", "a" * SIZE), file("c", "c" * SIZE), file("more", more)]), name)
        equal((shared(s, "c"), s.ask("verify", name="other")["isWhole"]), (True, True))


def used_at(s, name, seconds):
    os.utime(s.tree(name) + ".list", (seconds, seconds))


def test_prune_counts_a_shared_file_once():
    """one and two share 3 files; four is alone."""
    with Store() as s:
        s.load(tar(BASE), "one")
        s.load(tar([*BASE, file("two", "2" * SIZE)]), "two")
        s.load(tar([file("four", "4" * SIZE)]), "four")
        for number, name in enumerate(("one", "two", "four")):
            used_at(s, name, 1_000_000_000 + number)
        equal(s.ask("prune", keepBytes=5 * SIZE)["keptBytes"], 5 * SIZE)
        equal(s.ask("prune", keepBytes=5 * SIZE - 1)["keptBytes"], SIZE)  # one frees nothing, two the rest
        equal(list(sizes(s)), ["four:latest"])


def test_prune_with_an_image_in_use():
    """The files that it shares are not counted as freed."""
    import fcntl
    with Store() as s:
        s.load(tar(BASE), "one")
        s.load(tar([*BASE, file("two", "2" * SIZE)]), "two")
        s.load(tar([file("four", "4" * SIZE)]), "four")
        for number, name in enumerate(("one", "two", "four")):
            used_at(s, name, 1_000_000_000 + number)
        user = os.open(s.tree("one"), os.O_RDONLY)
        fcntl.flock(user, fcntl.LOCK_SH)
        answer = s.ask("prune", keepBytes=3 * SIZE)
        equal((answer["keptBytes"], answer["inUse"], list(sizes(s))), (3 * SIZE, 1, ["one:latest"]))
        os.close(user)


def test_killed_at_every_point():
    with Store(size="64m", program="tests/cloche-image-crash") as s:
        s.load(tar(BASE), "one")
        before = s.ask("inspect", name="one")["tree"]
        point, linked = 0, set()
        while True:
            point += 1
            try:
                s.load(tar([*BASE, file("more", "m")]), "other", crash=point)
                break
            except Gone:
                linked.add(os.lstat(s.tree("one") + "/c").st_nlink)
            assert s.ask("verify", name="one")["isWhole"]
            s.ask("prune")
            assert not s.leftovers()
            if any("other:latest" in image["names"] for image in s.ask("list")["images"]):
                s.ask("remove", name="other")
            equal(os.lstat(s.tree("one") + "/c").st_nlink, 1)
        equal((s.ask("inspect", name="one")["tree"], linked, shared(s, "c")), (before, {1, 2}, True))
