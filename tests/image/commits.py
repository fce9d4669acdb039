"""cloche-image's commits: archives that a guest could have written, each with its permitted twin; killed at each step; steps of builds by key."""
import os
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, wait_for
from store import Gone, Refused, Store, directory, feed, file, hard, link, member, tar, xattr

TIMEOUT = 240
BASE = [directory("usr"), file("usr/tool", "base", mode=0o755), directory("etc"), file("etc/shadow", "secret", mode=0o600), link("bin", "usr"), link("out", "/etc"), directory("opt"), file("opt/old", "1"), directory("opt/d"), file("opt/d/in", "2", uid=33)]
OWN = {"uid": 1000, "gid": 1000}
CHANGES = "run/.changes/"


def whiteout(name):
    return member(CHANGES + name, tarfile.CHRTYPE)


def opaque(name, value="y"):
    return directory(CHANGES + name, pax=xattr(user__overlay__opaque=value), **OWN)


def commit(s, members, name="y", base="x", **params):
    return s.ask("commit", tar(members), base=base, owner=1000, name=name, **params)


def make_base(s):
    return s.load(tar(BASE), "x")


def contents(path):
    """Paths below it, files with their bytes."""
    found = {}
    for place, folders, names in os.walk(path):
        for name in folders + names:
            at = os.path.join(place, name)
            found[os.path.relpath(at, path)] = os.readlink(at) if os.path.islink(at) else open(at).read() if os.path.isfile(at) else None
    return found


def test_changes():
    with Store() as s:
        make_base(s)
        base = contents(s.tree("x"))
        made = commit(s, [directory("./", **OWN), directory("app", **OWN), file("app/new", "n", **OWN), directory("data", **OWN), hard("app/same", "app/new"),
                          directory(CHANGES + "opt", **OWN), whiteout("opt/old"), opaque("opt/d"), file(CHANGES + "opt/d/mine", "m", mode=0o4755, **OWN), hard(CHANGES + "opt/again", CHANGES + "opt/d/mine"),
                          directory(CHANGES + "usr", **OWN), file(CHANGES + "usr/tool", "changed", **OWN)])
        equal(made["dropped"], {"devices": 0, "pipes": 0, "setid": 1, "capabilities": 0, "attributes": 0})
        expected = {**base, "app": None, "app/new": "n", "app/same": "n", "opt/d/mine": "m", "opt/again": "m", "usr/tool": "changed"}
        del expected["opt/old"], expected["opt/d/in"]
        equal(contents(s.tree("y")), expected)
        equal(contents(s.tree("x")), base)
        for path, uid in (("app/new", 0), ("usr/tool", 0), ("opt/d/mine", 0)):
            equal(os.lstat(f"{s.tree('y')}/{path}").st_uid, uid)
        equal(os.stat(s.tree("y") + "/opt/d/mine").st_mode & 0o7777, 0o755)
        equal(os.stat(s.tree("y") + "/etc/shadow").st_ino, os.stat(s.tree("x") + "/etc/shadow").st_ino)
        # the listing, of which most lines are those of the tree below, is that of all files
        equal(s.ask("verify", name="y")["isWhole"], True)
        # the same tree from an import of both layers: a layer of Docker
        both = s.load(tar([entry for entry in BASE if entry[0].name not in ("opt/old", "opt/d/in", "usr/tool")] + [file("usr/tool", "changed"), directory("app"), file("app/new", "n"), hard("app/same", "app/new"), file("opt/d/mine", "m", mode=0o755), hard("opt/again", "opt/d/mine")]), "z")
        equal(both["tree"], made["tree"])
        # files of boxes are left out
        left = commit(s, [file(f"{place}/x", "no", **OWN) for place in ("tmp", "workspace", "home/user", "root", "run/x", "dev", "proc", "sys", "boot")] + [file(CHANGES + name, "no", **OWN) for name in ("etc/passwd", "etc/resolv.conf")], "left")
        equal(left["tree"], s.ask("inspect", name="x")["tree"])


def test_an_archive_without_changes_makes_no_tree():
    """No file is linked anew, which its time of change tells; an archive with one change is the twin."""
    row = "user:*:1000:1000:user:/home/user:/bin/sh\n"
    same = [directory("./", **OWN), link("bin", "usr", **OWN), directory("workspace", **OWN), file("tmp/x", "1", **OWN), directory(CHANGES + "opt", **OWN), file(CHANGES + "opt/old", "1", mtime=5, **OWN)]
    roots = [directory("home"), directory("home/user", uid=1000), directory("home/cloche"), file(CHANGES + "etc/passwd", "root:x:0:0\n" + row)]
    rows = ((same, {}, True), (roots, {"owner": 0}, True), ([*same, file(CHANGES + "opt/old", "2", **OWN)], {}, False), ([*same, file(CHANGES + "opt/old", "1", mode=0o600, **OWN)], {}, False),
            ([*same, file(CHANGES + "opt/old", "1", uid=1001)], {}, False), ([directory(CHANGES + "opt", mode=0o700, **OWN)], {}, False), ([opaque("opt")], {}, False), ([whiteout("opt/old")], {}, False),
            ([directory(CHANGES + "opt", pax=xattr(user__a="1"), **OWN)], {}, False), ([link(CHANGES + "opt/old", "1", **OWN)], {}, False), ([link("bin", "opt", **OWN)], {}, False), ([hard("opt/old", "usr/tool")], {}, False),
            (roots[:3] + [file("home/user/x", "1", uid=1000)], {"owner": 0}, False), (roots + [directory("home/bob")], {"owner": 0}, False), ([file(CHANGES + "etc/passwd", "root:x:0:1\n" + row)], {"owner": 0}, False))
    with Store() as s:
        s.load(tar([*BASE, file("etc/passwd", "root:x:0:0\n")]), "x")
        base, tool = s.ask("inspect", name="x"), s.tree("x") + "/usr/tool"
        for number, (members, params, is_same) in enumerate(rows):
            before = os.stat(tool).st_ctime_ns
            made = s.ask("commit", s.write("changes.tar", tar(members)), base="x", **{"owner": 1000, **params}, name="y")
            equal((made["tree"] == base["tree"], os.stat(tool).st_ctime_ns == before), (is_same, is_same), f"{number}: {members}")
        # another configuration of the same files
        made = s.ask("commit", s.write("changes.tar", tar(same)), base="x", owner=1000, config={"env": {"A": "1"}}, name="y")
        equal((made["tree"], made["id"] == base["id"], s.ask("inspect", name="y")["config"]["env"]), (base["tree"], False, ["A=1"]))


HOSTILE = (
    ([file("../x", "1")], ".."), ([file(CHANGES + "../../x", "1")], ".."), ([file("/x", "1")], "/x"),
    ([file("opt/.wh.old", "")], ".wh."), ([file("app/.wh..wh..opq", "")], ".wh."), ([directory(".wh.d")], ".wh."), ([file("app/.wh.x/y", "")], ".wh."), ([link(".wh.l", "x")], ".wh."),
    ([file("app/a", "1", **OWN), hard("app/b", "app/.wh.c")], ".wh."),
    ([file("bin/x", "1")], "link"), ([file(CHANGES + "out/shadow", "1")], "link"), ([hard("app/x", "out/shadow")], "no member before it"), ([hard("app/x", "usr")], "directory"),
    ([member("opt/dev", tarfile.CHRTYPE)], "device"), ([member(CHANGES + "opt/dev", tarfile.BLKTYPE)], "device"),
    ([file("app/x", "1", uid=2**32 - 1)], "owner"), ([file("a/" * 1100 + "x", "1")], "directories"))


def test_hostile_archives():
    with Store() as s:
        make_base(s)
        before = s.everything()
        for members, word in HOSTILE:
            try:
                commit(s, members)
            except Refused as e:
                assert word in str(e), (word, str(e))
            else:
                raise AssertionError(f"{members} was committed")
            equal(s.everything(), before, word)
        # a device with numbers is none that overlayfs makes
        info, _ = member(CHANGES + "opt/old", tarfile.CHRTYPE)
        info.devmajor, info.devminor = 1, 3
        try:
            commit(s, [(info, b"")])
            raise AssertionError("a device was committed")
        except Refused as e:
            assert "device" in str(e)
        # an archive that is cut, or is none
        for data in (tar([file("app/x", "1" * 4000)])[:2000], b"\x28\xb5\x2f\xfd garbage"):
            try:
                s.ask("commit", data, base="x", owner=1000, name="y")
                raise AssertionError("it was committed")
            except Refused:
                equal(s.everything(), before)
        # a whiteout of a missing file, signs outside of a layer, an attribute of another value: without a meaning
        commit(s, [whiteout("opt/none"), whiteout("none/none"), directory("opt", pax=xattr(user__overlay__opaque="y"), **OWN), directory(CHANGES + "opt/d", pax=xattr(user__overlay__opaque="x"), **OWN)])
        equal(contents(s.tree("y")), contents(s.tree("x")))
        # a link of the image may be removed and become a directory: the guest's own image
        commit(s, [whiteout("opt/old"), whiteout("out"), directory("out", **OWN), file("out/shadow", "1", **OWN)])
        equal((contents(s.tree("y"))["out/shadow"], contents(s.tree("x"))["etc/shadow"]), ("1", "secret"))


def test_configurations():
    with Store() as s:
        make_base(s)
        tree = s.ask("inspect", name="x")["tree"]
        first = s.ask("commit", base="x", name="y", config={"env": {"A": "1", "B": "2"}, "workingDir": "/opt", "cmd": ["a"], "labels": {"l": "1"}})
        second = s.ask("commit", base=first["id"], name="y", config={"env": {"A": None}, "cmd": None, "exposedPorts": ["80/tcp"], "labels": {"l": None, "m": "2"}})
        told = s.ask("inspect", name="y")
        equal((told["config"], told["tree"], told["layers"]), ({"env": ["B=2"], "workingDir": "/opt", "labels": {"m": "2"}, "exposedPorts": {"80/tcp": {}}}, tree, 2))
        equal((s.ask("commit", base=second["id"])["id"], s.leftovers()), (second["id"], False))
        # another directory is made
        third = s.ask("commit", base="x", config={"workingDir": "/opt/new/one"})
        assert third["tree"] != tree and s.ask("inspect", name=third["id"])["workingDirectory"] == "/opt/new/one"
        for config in ({"env": {"": "x"}}, {"env": {"A": 1}}, {"cmd": "x"}, {"labels": {"a": 1}}, {"x": 1}, {"user": 1}, {"exposedPorts": [1]}, {"env": {f"A{i}": "" for i in range(2000)}}):
            try:
                s.ask("commit", base="x", config=config)
                raise AssertionError(config)
            except Refused:
                pass


def test_steps_by_key():
    with Store() as s:
        make_base(s)
        key, other = "1" * 64, "2" * 64
        made = commit(s, [file("app/x", "1", **OWN)], name=None, key=key, principal=7)
        equal(s.ask("step", key=key, principal=7)["id"], made["id"])
        for params in ({"key": other, "principal": 7}, {"key": key, "principal": 8}, {"key": key}):
            try:
                s.ask("step", **params)
                raise AssertionError(params)
            except Refused as e:
                assert "step" in str(e), e
        # another caller cannot give this one a result
        commit(s, [file("app/x", "poison", **OWN)], name=None, key=key, principal=8)
        equal(s.ask("step", key=key, principal=7)["id"], made["id"])
        s.ask("prune")
        try:
            s.ask("step", key=key, principal=7)
            raise AssertionError("it is there")
        except Refused:
            pass
        with open(s.path + "/builds.json") as builds:
            equal(builds.read(), "{}")


def test_killed_at_every_point():
    changes = tar([directory(CHANGES + "opt", **OWN), whiteout("opt/old"), *(file(f"app/{i}", str(i), **OWN) for i in range(100))])
    with Store(size="16m", program="tests/cloche-image-crash") as s:
        make_base(s)
        base, point, seen = s.ask("inspect", name="x")["tree"], 0, set()
        while True:
            point += 1
            try:
                s.ask("commit", changes, crash=point, base="x", owner=1000, name="y", key="1" * 64, principal=0)
                break
            except Gone:
                pass
            names = {name: image["tree"] for image in s.ask("list")["images"] for name in image["names"]}
            equal(names["x:latest"], base)
            seen.add("y:latest" in names)
            for name in names:
                assert s.ask("verify", name=name)["isWhole"], (point, name)
            if "y:latest" in names:
                s.ask("remove", name="y")
            s.ask("prune")
            equal((s.leftovers(), len(os.listdir(s.path + "/trees"))), (False, 2), point)
        assert point > 6 and seen == {False, True}, (point, seen)


def test_a_full_disk():
    """No room for the links of the tree below, of which tmpfs counts each, nor for the changes: nothing is left, and smaller ones fit."""
    many = tar([file(f"d{number % 7}/f{number}", str(number)) for number in range(300)])
    for size, data in (("8m,nr_inodes=480", tar([file("app/x", "1", **OWN)])), ("2500k", tar([file("app/x", os.urandom(2 << 20), **OWN)]))):
        with Store(size=size) as s:
            s.load(many, "x")
            before = s.everything()
            try:
                s.ask("commit", data, base="x", owner=1000, name="y")
                raise AssertionError("it was committed")
            except Refused as e:
                assert "No space left" in str(e) and ("d" in str(e) or "app/x" in str(e)), e
            equal(s.everything(), before)
            assert s.ask("verify", name="x")["isWhole"]
            s.ask("commit", s.write("same.tar", tar([directory("./", **OWN)])), base="x", owner=1000, name="y")
            if "nr_inodes" not in size:
                s.ask("commit", tar([file("app/x", "1", **OWN)]), base="x", owner=1000, name="y")


def test_cancelled_commits_leave_nothing():
    """The client goes away while the archive, a pipe, brings no more."""
    with Store() as s:
        make_base(s)
        before = s.everything()
        reading, writing = os.pipe()
        with open(reading, "rb") as source, open(writing, "wb", buffering=0) as sink:
            with s.process(source) as control:
                control.call("open")
                control.send("commit", {"base": "x", "owner": 1000, "name": "y"})
                wait_for(lambda: os.listdir(s.path + "/incoming"), "the commit to begin")
                control.sock.close()
                source.close()
                feed(sink, tar([file(f"app/{number}", bytes(10_000), **OWN) for number in range(1000)]))
                control.process.wait()
        equal((s.everything(), s.leftovers()), (before, False))
