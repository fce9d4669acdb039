"""One root file system from every kind of source is one tree with one digest; layers, whiteouts, names, times."""
import bz2
import hashlib
import lzma
import os
import random
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import sampled
from store import Image, Store, describe, directory, docker, file, gz, hard, link, member, paths, sha, tar, tarfile, xattr

TIMEOUT = 300
MEMBERS = [directory("./"), directory("etc", mode=0o750), file("etc/passwd", "root:x:0:0\n", uid=0), file("home/u/f", "1", uid=1000, gid=100, mode=0o600), link("bin", "usr/bin"),
           directory("usr/bin"), file("usr/bin/sh", "#!\n", mode=0o755), hard("usr/bin/dash", "usr/bin/sh"), file("usr/lib/x", "2", pax=xattr(user__note="n")), file("empty", "")]


def zstd(data):
    return subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout


def unpacked(s, archive, name="directory"):
    path = os.path.join(s.folder, name)
    os.mkdir(path, 0o755)
    subprocess.run(["tar", "--xattrs", "--same-owner", "-p", "-xf", "-", "-C", path], input=archive, check=True)
    return path


def test_every_kind():
    archive = tar(MEMBERS)
    shuffled = tar(random.Random(1).sample([each for each in MEMBERS if each[0].type != tarfile.LNKTYPE], len(MEMBERS) - 1) + [MEMBERS[7]])
    image = Image([archive])
    packed = docker([archive])
    with Store() as s:
        sources = {"tar": archive, "gz": gz(archive), "xz": lzma.compress(archive), "bz2": bz2.compress(archive), "zst": zstd(archive), "two gzip members": gz(archive[:1024]) + gz(archive[1024:]),
                   "oci": image.pack(), "oci gz": gz(image.pack()), "oci backwards": image.pack(lambda names: sorted(names, reverse=True)), "oci of gzip": Image([archive], compress=gz).pack(),
                   "oci of zstd": Image([archive], compress=zstd).pack(), "docker": tar([file(name, data) for name, data in packed.items()]),
                   "docker gz": gz(tar([file("./" + name, data) for name, data in packed.items()])), "one entry a layer": Image([tar([each]) for each in MEMBERS]).pack(), "shuffled": shuffled}
        digests = {}
        for number, (kind, data) in enumerate(sources.items()):
            with Store() as own:  # nothing is known from an earlier import
                digests[kind, "pipe"] = own.load(data)["tree"]
            with Store() as own:
                digests[kind, "file"] = own.load(own.write("f", data))["tree"]
        digests["directory"] = s.load(unpacked(s, archive))["tree"]
        digests["layout"] = s.load(image.write(os.path.join(s.folder, "layout")), "l")["tree"]
        assert len(set(digests.values())) == 1, digests
        found = describe(s.tree())
        assert found["etc"] == ("d", 0o750, None) and found["bin"] == ("l", 0o777, b"usr/bin") and found["usr/bin/dash"] == ("f", 0o755, b"#!\n"), found
        status = os.stat(s.tree() + "/home/u/f")
        assert (status.st_uid, status.st_gid) == (1000, 100) and os.getxattr(s.tree() + "/usr/lib/x", "user.note") == b"n"
        with open(s.tree() + ".list", "rb") as listing:  # the digest is that of the listing
            assert hashlib.sha256(listing.read()).hexdigest() == s.ask("inspect", name="x")["tree"].removeprefix("sha256:")


def test_what_is_in_the_digest():
    """Each fact alone changes it; times and the order of members do not."""
    base = [directory("d"), file("d/f", "1", pax=xattr(user__a="1")), link("l", "x")]
    others = {"contents": [base[0], file("d/f", "2", pax=xattr(user__a="1")), base[2]], "size": [base[0], file("d/f", "12", pax=xattr(user__a="1")), base[2]],
              "attribute": [base[0], file("d/f", "1", pax=xattr(user__a="2")), base[2]], "no attribute": [base[0], file("d/f", "1"), base[2]],
              "mode": [base[0], file("d/f", "1", mode=0o600, pax=xattr(user__a="1")), base[2]], "uid": [base[0], file("d/f", "1", uid=7, pax=xattr(user__a="1")), base[2]],
              "gid": [base[0], file("d/f", "1", gid=7, pax=xattr(user__a="1")), base[2]], "mode of a directory": [directory("d", mode=0o700), *base[1:]],
              "owner of a link": [*base[:2], link("l", "x", uid=1)], "target": [*base[:2], link("l", "y")], "kind": [*base[:2], file("l", "x")],
              "name": [*base[:2], link("m", "x")], "more": [*base, file("n")], "less": base[:2], "mode of the top": [directory("./", mode=0o700), *base]}
    with Store() as s:
        same = {s.load(tar(base))["tree"], s.load(tar([(info, data) for info, data in reversed(base)]))["tree"]}
        for info, _ in base:
            info.mtime = 5
        same.add(s.load(tar(base))["tree"])
        assert len(same) == 1
        for info, _ in base:
            info.mtime = 1_600_000_000
        digests = {why: s.load(tar(members))["tree"] for why, members in others.items()}
        assert len(set(digests.values()) | same) == len(others) + 1, digests


def test_times_are_kept():
    """Interpreters compare times of sources with those that their compiled files state."""
    with Store() as s:
        s.load(tar([directory("d", mtime=1000), file("d/f", "1", mtime=2000.75), link("d/l", "f", mtime=-5), directory("late", mtime=3000), file("late/x", "1")]))
        tree = s.tree()
        assert [os.lstat(tree + path).st_mtime for path in ("/d", "/d/f", "/d/l", "/late")] == [1000, 2000, -5, 3000]


def test_whiteouts():
    lower = tar([file("gone", "1"), directory("dir"), file("dir/a", "1"), file("dir/deep/b", "1"), directory("opaque"), file("opaque/old", "1"), file("opaque/sub/old", "1"), file("kept", "1"),
                 file("again", "1"), directory("again2"), file("again2/x", "1"), file("becomes", "f"), directory("becomes2"), file("becomes2/x", "1"), file("wh", "1")])
    upper = tar([file(".wh.gone"), file(".wh.dir"), file("opaque/new", "2"), file("opaque/sub/new", "2"), file("opaque/.wh..wh..opq"), file(".wh.again"), file("again", "2"),
                 file("again2/y", "2"), file(".wh.again2"), directory("becomes"), file("becomes/x", "2"), file("becomes2", "f"), file(".wh.nothing"), file("no/such/.wh.x"), file("wh/.wh.x"[:2], "2"),
                 file(".wh..wh.plnk/1.2", ""), file(".wh..wh.aufs", "")])
    with Store() as s:
        s.load(Image([lower, upper]))
        found = {path: contents for path, (kind, _, contents) in describe(s.tree()).items() if kind == "f"}
        assert found == {"opaque/new": b"2", "opaque/sub/new": b"2", "kept": b"1", "again": b"2", "again2/y": b"2", "becomes/x": b"2", "becomes2": b"f", "wh": b"2"}, found
        assert "dir" not in paths(s.tree()) and "no" not in paths(s.tree())
        s.load(Image([lower, tar([file("opaque/.wh..wh..opq"), file(".wh..wh..opq")]), tar([file("a", "3")])]), "y")
        assert paths(s.tree("y")) == ["a"]


def test_links_over_layers():
    lower, upper = tar([file("a", "1"), file("d/b", "2"), hard("d/c", "d/b")]), tar([hard("h", "a"), file("d/b", "new"), hard("e", "d/c")])
    with Store() as s:
        s.load(Image([lower, upper, tar([file(".wh.a")])]))
        found = {path: contents for path, (kind, _, contents) in describe(s.tree()).items() if kind == "f"}
        assert found == {"h": b"1", "d/b": b"new", "d/c": b"2", "e": b"2"}, found
        assert os.stat(s.tree() + "/d/c").st_ino == os.stat(s.tree() + "/e").st_ino


def test_attributes_of_directories_over_layers():
    lower = tar([directory("d", mode=0o700, uid=5, pax=xattr(user__old="1")), file("d/f", "1"), directory("e", mode=0o700)])
    with Store() as s:
        s.load(Image([lower, tar([directory("d", mode=0o755, uid=6, pax=xattr(user__new="1"))]), tar([file("d/g", "1"), file("e/.wh..wh..opq")])]))
        status = os.stat(s.tree() + "/d")
        assert (status.st_mode & 0o7777, status.st_uid) == (0o755, 6) and os.listxattr(s.tree() + "/d") == ["user.new"]
        assert os.stat(s.tree() + "/e").st_mode & 0o7777 == 0o700


def test_names_are_bytes():
    names = ["späce né", "e\u0301", "\u00e9", os.fsdecode(b"\xff\xfe"), "-rf", "new\nline", "\"quoted\\", "a" * 255, " ", "日本" * 42, "\\x41", "tab\t"]
    with Store() as s:
        s.load(tar([file("d/" + name, name.encode("utf-8", "surrogateescape")) for name in names] + [link("l" + str(i), name) for i, name in enumerate(names)]))
        assert sorted(os.listdir(s.tree() + "/d")) == sorted(names)
        assert [os.readlink(f"{s.tree()}/l{i}") for i in range(len(names))] == names
        assert s.ask("verify", name="x")["isWhole"]
        assert s.load(unpacked(s, tar([file("d/" + name, name.encode("utf-8", "surrogateescape")) for name in names])), "y")["entries"] == len(names) + 2
        with open(s.tree() + ".list") as listing:
            assert all(len(line.split()) in (7, 8) for line in listing)
        with open(s.folder + "/out", "wb") as out:
            s.ask("export", out, name="x")
        assert s.load(s.folder + "/out", "back")["tree"] == s.ask("inspect", name="x")["tree"]


def test_images_by_tag_and_processor():
    one, two, other = Image([tar([file("a", "1")])], tag="v1"), Image([tar([file("a", "2")])], tag="v2"), Image([tar([file("a", "3")])], tag="v3", config_changes={"architecture": "other"})
    one.files.update({**two.files, **other.files, **one.files})
    one.set_index([one.row, two.row, {**other.row, "platform": {"os": "linux", "architecture": "other"}}])
    with Store() as s:
        s.refused(one, "SOURCE:TAG", "v1", "v2")
        s.refused(one, "no image 'v4'", tag="v4")
        s.refused(one, tag="v3")
        s.load(one, "two", tag="v2")
        s.load(one, "one", tag="v1")
        assert [open(s.tree(name) + "/a").read() for name in ("one", "two")] == ["1", "2"]


def test_an_import_again_does_no_work():
    image = Image([tar([file("a", "1")])])
    with Store() as s:
        first, again = s.load(image), s.load(image, "other:tag")
        assert first["isNew"] and not again["isNew"] and first["id"] == again["id"]
        for name in [name for name in image.files if name.endswith(sha(image.layers[0]))]:
            del image.files[name]  # the layer is not read
        s.load(image, "third")
        assert sorted(s.ask("list")["images"][0]["names"]) == ["other:tag", "third:latest", "x:latest"] and len(os.listdir(s.path + "/trees")) == 2
        s.load(Image([tar([file("a", "1")])], config={"Env": ["A=1"]}), "env")  # another image of the same tree
        assert len(s.ask("list")["images"]) == 2 and len(os.listdir(s.path + "/trees")) == 2


def test_many_files():
    count = sampled(20_000, 200_000)
    with Store(size="1g") as s:
        answer = s.load(s.write("many.tar", tar([file(f"d{i // 1000}/{i}", "x") for i in range(count)])))
        assert answer["entries"] == count + count // 1000 + 1 and s.ask("verify", name="x")["isWhole"]
        assert s.ask("remove", name="x")["treeRemoved"] and not os.listdir(s.path + "/trees")


def test_an_ordinary_user():
    """All entries are its own, and are listed as root's; ids of the image change nothing."""
    with Store(user=12345) as s, Store() as of_root:
        os.chmod(s.folder, 0o777)
        answer = s.load(tar([file("a", "1", uid=5, gid=6), directory("shut", mode=0), file("shut/x", "1", mode=0)]))
        status = os.stat(s.tree() + "/a")
        assert (status.st_uid, status.st_gid) == (12345, 12345)
        plain = [file("a", "1"), directory("d", mode=0o755), file("d/x", "2", mode=0o644)]
        assert s.load(tar(plain), "plain")["tree"] == of_root.load(tar(plain))["tree"] != answer["tree"]
        assert s.ask("verify", name="x")["isWhole"] and s.ask("remove", name="x")["treeRemoved"]


def test_a_directory_that_contains_the_store():
    with Store() as s:
        os.mkdir(s.folder + "/beside")
        s.load(s.folder)
        assert paths(s.tree()) == ["beside", "store"]
