"""Hostile archives: each is refused and leaves the store as it was, and has a twin that is accepted."""
import base64
import bz2
import gzip
import lzma
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from store import INDEX, MANIFEST, Image, Store, descriptor, directory, docker, file, gz, hard, json, link, member, paths, sha, tar, xattr

CHR, BLK, FIFO = tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE
REFUSED = {  # the members, and a word of the message
    "up": ([file("../evil", "x")], "../evil"),
    "up in the middle": ([file("a/../../evil", "x")], "a/../../evil"),
    "up at the end": ([directory("a/..")], "a/.."),
    "an absolute name": ([file("/tmp/cloche-evil", "x")], "absolute"),
    "a write through a link of the archive": ([link("l", "/tmp"), file("l/cloche-evil", "x")], "below a link"),
    "a write through a link in the archive": ([directory("a"), link("l", "a"), file("l/evil", "x")], "below a link"),
    "a directory through a link": ([link("l", "/tmp"), directory("l/cloche-evil")], "below a link"),
    "a link through a link": ([link("l", "/tmp"), link("l/cloche-evil", "x")], "below a link"),
    "a link to /proc and a write": ([link("proc", "/proc/self"), file("proc/comm", "x")], "below a link"),
    "a link to /dev and a write": ([link("dev", "/dev"), file("dev/null", "x")], "below a link"),
    "a link of two steps": ([link("a", "b"), link("b", ".."), file("a/evil", "x")], "below a link"),
    "a member below a file": ([file("f", "x"), file("f/x", "y")], "below a link or file"),
    "a hard link to the host": ([hard("l", "/etc/passwd")], "absolute"),
    "a hard link up": ([hard("l", "../outside")], '".."'),
    "a hard link through a link": ([link("e", "/etc"), hard("l", "e/passwd")], "no member before"),
    "a hard link to nothing": ([hard("l", "none")], "no member before"),
    "a hard link to a directory": ([directory("d"), hard("l", "d")], "hard link to a directory"),
    "a hard link to itself": ([file("f", "x"), hard("f", "f")], "itself"),
    "a character device": ([member("null", CHR)], "is a device"),
    "a block device": ([member("disk", BLK)], "is a device"),
    "an overlay's whiteout": ([member("etc/passwd", CHR)], "is a device"),
    "a device with the name of /dev's directory": ([member("dev", BLK)], "is a device"),
    "a whiteout of the parent": ([file(".wh...", "")], "whiteout of no name"),
    "a whiteout of the parent below": ([file("a/.wh...", "")], "whiteout of no name"),
    "a whiteout of the directory itself": ([file(".wh..", "")], "whiteout of no name"),
    "a whiteout of nothing": ([file(".wh.", "")], "whiteout of no name"),
    "a member below a whiteout": ([file(".wh.x/y", "")], "below a whiteout"),
    "a name that is too long": ([file("n" * 300, "x")], "too long"),
    "a path that is too long": ([file("d/" * 2500 + "x", "x")], "too long"),
    "5,000 directories in each other": ([directory("/".join("d" * 5000))], "too long"),
    "1,025 directories in each other": ([directory("/".join("d" * 1025))], "1024 directories"),
    "a user whose number is none": ([file("f", "x", uid=2**32 - 1)], "has an owner or group outside of"),
}


def test_members_that_no_image_may_have():
    with Store() as s:
        outside = s.write("outside", b"1")
        for why, (members, words) in REFUSED.items():
            archive = tar([file("first", "x"), *members])
            s.refused(archive, words)
            s.refused(s.write("x.tar", archive), words)
            s.refused(Image([archive]), words)
            assert not os.path.lexists("/tmp/cloche-evil") and open(outside).read() == "1", why
            assert not s.leftovers(), why


def test_links_over_layers():
    """A lower layer's link is no way out for an upper one, nor for a whiteout."""
    with Store() as s:
        victim = os.path.join(s.folder, "victim")
        os.mkdir(victim)
        open(os.path.join(victim, "kept"), "w").close()
        lower = tar([link("l", victim), link("m", "../../../../../.." + victim)])
        for upper in ([file("l/evil", "x")], [file("m/evil", "x")], [directory("l/evil")], [file("l/.wh.kept", "")], [hard("h", "l/kept")]):
            s.refused(Image([lower, tar(upper)]), "link")
            assert os.listdir(victim) == ["kept"]
        s.load(Image([lower, tar([file("l/.wh..wh..opq", ""), directory("m"), file("m/x", "1")])]))  # a directory takes a link's place
        assert os.listdir(victim) == ["kept"] and os.path.islink(s.tree() + "/l") and paths(s.tree()) == ["l", "m", "m/x"]


def test_directories_that_no_member_describes():
    """An archive of 10 kB makes 9,600 directories, and their paths 20 MB."""
    deep = "/".join(["d" * 240] * 16)
    with Store(size="400m") as s:
        s.refused(gzip.compress(tar([file(f"{i}/{deep}/f", "") for i in range(600)])), "paths of the image's directories")
        assert not s.leftovers()
        s.load(tar([file(f"{i}/{deep}/f", "") for i in range(3)]))
        assert os.path.exists(f"{s.tree()}/2/{deep}/f")


def test_their_permitted_twins():
    members = [directory("./"), file("./a/x", "1"), link("l", "/etc/passwd"), link("up", "../../.."), link("a/loop", "loop"), hard("h", "./a/x"), hard("hl", "l"),
               file("..a/...", "2"), file("a/x", "3"), link("dev/fd", "/proc/self/fd"), member("dev/null", CHR), member("dev/sda", BLK), directory("run"), member("run/pipe", FIFO),
               file(".wh.none", ""), file("f", "x", uid=2**32 - 2), directory("/".join("d" * 1024)), file("n" * 255, "y"), file("f/../g"[5:], "z"),
               file("e" * 200 + "/" + "f" * 255 + "/" + "/".join("g" * 1000), "deep")]
    with Store() as s:
        answer = s.load(tar(members))
        assert answer["dropped"] == {"devices": 2, "pipes": 1, "setid": 0, "capabilities": 0, "attributes": 0}, answer
        tree = s.tree()
        assert open(tree + "/a/x").read() == "3" and open(tree + "/h").read() == "1" and os.readlink(tree + "/l") == os.readlink(tree + "/hl") == "/etc/passwd"
        assert os.listdir(tree + "/dev") == ["fd"] and os.listdir(tree + "/run") == [] and ".wh.none" not in os.listdir(tree)
        assert os.stat(tree + "/f").st_uid == 2**32 - 2 and s.ask("verify", name="x")["isWhole"]


def test_rights_that_a_program_would_get_do_not_survive():
    """set-user-id, set-group-id, file capabilities and attributes that overlayfs obeys are left out and counted, from archives and directories."""
    capability = "AQAAAgAgAAAAAAAAAAAAAAAAAAA="
    attributes = xattr(security__capability="\1\0\0\2\0\x20\0\0\0\0\0\0\0\0\0\0\0\0\0\0", trusted__overlay__opaque="y", user__overlay__opaque="y", trusted__x="1",
                       security__selinux="x", user__kept="yes")
    members = [file("s", "x", mode=0o6755, pax=attributes), directory("d", mode=0o3777, pax=xattr(trusted__overlay__redirect="/etc", user__kept="d")), link("l", "s", pax=xattr(user__x="1"))]
    with Store() as s:
        answer = s.load(tar(members))
        assert answer["dropped"] == {"devices": 0, "pipes": 0, "setid": 2, "capabilities": 1, "attributes": 6}, answer
        assert os.stat(s.tree() + "/s").st_mode & 0o7777 == 0o755 and os.stat(s.tree() + "/d").st_mode & 0o7777 == 0o1777
        assert os.listxattr(s.tree() + "/s") == ["user.kept"] and os.listxattr(s.tree() + "/d") == ["user.kept"]
        source = os.path.join(s.folder, "directory")
        os.mkdir(source)
        open(source + "/s", "w").close()
        os.chmod(source + "/s", 0o6755)
        os.setxattr(source + "/s", "security.capability", base64.b64decode(capability))
        os.setxattr(source + "/s", "trusted.overlay.opaque", b"y")
        os.setxattr(source + "/s", "user.kept", b"yes")
        os.mkfifo(source + "/p")
        answer = s.load(source, "y")
        # Attributes of trusted.* are hidden from processes without CAP_SYS_ADMIN.
        assert answer["dropped"] == {"devices": 0, "pipes": 1, "setid": 1, "capabilities": 1, "attributes": 0}, answer
        assert os.listxattr(s.tree("y") + "/s") == ["user.kept"] and os.listdir(s.tree("y")) == ["s"]
        assert os.stat(s.tree("y") + "/s").st_mode & 0o7777 == 0o755
        os.mkdir(source + "/sub")
        os.mknod(source + "/sub/zero", 0o20666, os.makedev(1, 5))
        s.refused(source, "is a device", name="y")


def test_bombs():
    packers = {"gz": gz, "xz": lambda data: lzma.compress(data, preset=0), "bz2": lambda data: bz2.compress(data, 9),
               "zst": lambda data: subprocess.run(["zstd", "-q", "-c"], input=data, stdout=subprocess.PIPE, check=True).stdout}
    sizes = {"gz": 90, "xz": 72, "bz2": 72, "zst": 72}  # in MiB: 64 and more than 200 times the archive
    few = {"gz": 5, "xz": 5, "bz2": 5, "zst": 40}  # zstd's takes least to make and to read
    with Store() as s:
        for name, pack in packers.items():
            zeros = tar([file("zeros", bytes(sizes[name] << 20))])
            bomb = pack(zeros)
            assert len(zeros) > (64 << 20) + 200 * len(bomb)
            s.refused(s.write("bomb." + name, bomb), "200 times")
            s.refused(bomb, "200 times")
            s.load(s.write("few." + name, pack(tar([file("zeros", bytes(few[name] << 20))]))), "few")
            if name == "gz":
                s.refused(Image([zeros], compress=lambda _, packed=bomb: packed), "200 times")
                s.refused(gz(bomb), "more than once")
        s.refused(gz(gz(tar([file("a", "b")]))), "more than once")


def test_files_of_holes():
    """A small archive cannot claim more than its size permits; holes within that stay holes."""
    def sparse(size):
        name = os.path.abspath("sparse")
        with open(name, "wb") as out:
            out.truncate(size)
            out.seek(size - 1)
            out.write(b"x")
        return subprocess.run(["tar", "--sparse", "-cf", "-", "sparse"], stdout=subprocess.PIPE, check=True).stdout
    with Store() as s:
        s.refused(sparse(40 << 30), "more than 32 GiB")
        s.refused(s.write("s.tar", sparse(1 << 30)), "too large")
        s.load(s.write("s.tar", sparse(50 << 20)))
        status = os.stat(s.tree() + "/sparse")
        assert status.st_size == 50 << 20 and status.st_blocks * 512 < 1 << 20


def test_archives_that_are_none_or_not_whole():
    whole = tar([file(f"f{i}", os.urandom(3000)) for i in range(50)])
    packed = gz(whole)
    with Store() as s:
        for data in (b"", b"text\n" * 1000, b"\x1f\x8b", packed[:1000], packed[:-3000], whole[:100], whole[:50000], b"\0" * 100):
            s.refused(s.write("x", data))
            if data:
                s.refused(data)
        for at in (30_000, len(packed) - 8, len(packed) - 4):  # in stored bytes, the sum, the size
            torn = bytearray(packed)
            torn[at] ^= 0x55
            s.refused(bytes(torn))
            s.refused(s.write("x.gz", bytes(torn)))
            s.refused(gz(b"") + bytes(torn))
        s.load(packed)
        s.load(packed + bytes(512), "padded")


# ---- the JSON around layers -------------------------------------------------------------------------------------------

def layered(**options):
    return Image([tar([file("a", "1")]), tar([file("b", "2")])], **options)


def test_digests_and_sizes():
    with Store() as s:
        for part in ("config", 0, 1):
            for change in ({"size": 5}, {"digest": "sha256:" + "0" * 64}, {"digest": "sha512:" + "0" * 128}, {"digest": "sha256:../../index.json"}, {"digest": None}, {"size": -1}, {"size": "9"}):
                image = layered()
                row = image.manifest["config"] if part == "config" else image.manifest["layers"][part]
                row.update(change)
                image.seal()
                s.refused(image)
                s.refused(image.pack())
                s.refused(image.write(os.path.join(s.folder, "layout")))
        for name in list(layered().files):  # each blob with a bit changed, cut, longer, or missing
            if name.startswith("blobs/"):
                for change in (lambda data: data[:-1] + bytes([data[-1] ^ 1]), lambda data: data[:-1], lambda data: data + b"\0", None):
                    image = layered()
                    if change:
                        image.files[name] = change(image.files[name])
                    else:
                        del image.files[name]
                    s.refused(image)
        image = layered()
        image.layers.reverse()  # layers that are whole, in another order than the configuration has them
        image.manifest["layers"].reverse()
        image.seal()
        s.refused(image, "not that of the configuration")
        s.refused(layered(config_changes={"rootfs": {"type": "layers", "diff_ids": ["sha256:" + "1" * 64]}}), "2 layers")
        s.load(layered())


def test_docker_archives():
    layers = [tar([file("a", "1")]), tar([file("b", "2")])]
    def packed(files):
        return tar([file(name, data) for name, data in files.items()])
    with Store() as s:
        good = docker(layers)
        config = next(name for name in good if name.endswith(".json") and name != "manifest.json")
        for name, data in (("manifest.json", b"[]"), ("manifest.json", b"{}"), ("manifest.json", b'[{"Config": "' + config.encode() + b'", "Layers": [1, 2]}]'),
                           ("manifest.json", b'[{"Config": "../../etc/passwd", "Layers": []}]'), (config, good[config] + b" "), (sha(layers[0]) + "/layer.tar", layers[1])):
            s.refused(packed({**good, name: data}))
        two = json.loads(good["manifest.json"])
        s.refused(packed({**good, "manifest.json": json.dumps(two + two).encode()}), "several")
        s.refused(packed(good), "no image 'other'", tag="other")
        s.load(packed(good), "good")
        s.load(packed(good), "tagged", tag="v1")
        # each layer once, and links to it, as old archives have them
        once = sha(layers[0]) + "/layer.tar"
        members = [file(name, data) for name, data in docker([layers[0]] * 2, names=[once, "2" * 64 + "/layer.tar"]).items() if not name.startswith("2")]
        for to in ("../../../../etc/passwd", "/etc/passwd", "2" * 64 + "/layer.tar", "none"):
            s.refused(tar([*members, link("2" * 64 + "/layer.tar", to)]))
        s.load(tar([*members, link("2" * 64 + "/layer.tar", "../" + once)]), "links")


def test_indexes():
    with Store() as s:
        image = layered()
        image.set_index([image.row] * 10_000)
        s.refused(image, "10000 images")
        image.set_index([image.row] * 1000)  # of one image
        s.load(image)
        image = layered()
        own = json.dumps({"schemaVersion": 2, "manifests": [image.row]}).encode()
        for _ in range(4):  # indexes in indexes
            image.files["blobs/sha256/" + sha(own)] = own
            row = descriptor(own, INDEX, annotations={"org.opencontainers.image.ref.name": "v1"})
            image.set_index([row])
            own = json.dumps({"schemaVersion": 2, "manifests": [row]}).encode()
        s.refused(image, "in each other")
        image.seal()
        itself = descriptor(b"", INDEX)
        itself["digest"] = "sha256:" + sha(image.files["index.json"])
        image.set_index([itself])
        s.refused(image)  # an index that names itself: its digest cannot be its own
        manifest = dict(image.manifest, config=dict(image.row))
        text = json.dumps(manifest).encode()
        image.files["blobs/sha256/" + sha(text)] = text
        image.set_index([descriptor(text, MANIFEST)])
        s.refused(image)  # a manifest as the configuration
        for bad in (b"", b"[]", b"{}", b'{"manifests": {}}', b'{"manifests": [1]}', b'{"manifests": []}', b'{"manifests": [null], "manifests": []}', b"[" * 5000, b"\xff", b" " * (5 << 20)):
            image = layered()
            image.files["index.json"] = bad
            s.refused(image)


def test_layers_that_are_kept_elsewhere():
    with Store() as s:
        for change in ({"urls": ["https://example.org/layer"]}, {"mediaType": "application/vnd.oci.image.layer.nondistributable.v1.tar"},
                       {"mediaType": "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"}):
            image = layered()
            image.manifest["layers"][1].update(change)
            image.seal()
            s.refused(image, "kept elsewhere", "skopeo")
        image = layered()
        image.manifest["layers"][1]["urls"] = []
        image.seal()
        s.load(image)


def test_one_layer_twice():
    with Store() as s:
        layer, empty = tar([file("a", "1"), file("sub/b", "2")]), tar([])
        s.load(Image([layer, tar([file("sub/.wh.b", "")]), layer, empty, empty]))
        assert paths(s.tree()) == ["a", "sub", "sub/b"]


def test_members_of_configurations():
    with Store() as s:
        for bad in ({"Env": "A=1"}, {"Env": [1]}, {"User": 5}, {"WorkingDir": []}, {"Labels": []}, {"Cmd": "x"}):
            s.refused(layered(config=bad), "of another type")
        for change in ({"architecture": "other"}, {"os": "windows"}):
            s.refused(layered(config_changes=change), "this machine")
        s.load(layered(config={"Env": None, "User": "", "Labels": {"a": "b"}, "Entrypoint": ["x"]}))
        assert s.ask("inspect", name="x")["config"] == {"user": "", "labels": {"a": "b"}, "entrypoint": ["x"]}


def test_layouts_with_links():
    """A directory that is a layout cannot name files of the host."""
    with Store() as s:
        image = layered()
        layout = image.write(os.path.join(s.folder, "layout"))
        blob = os.path.join(layout, "blobs/sha256", sha(image.layers[0]))
        os.rename(blob, os.path.join(s.folder, "elsewhere"))
        os.symlink(os.path.join(s.folder, "elsewhere"), blob)
        s.refused(layout)
        os.unlink(blob)
        os.mkfifo(blob)
        s.refused(layout, "no plain file")
        os.unlink(blob)
        os.rename(os.path.join(s.folder, "elsewhere"), blob)
        s.load(layout)


def test_many_layers_and_parts():
    with Store() as s:
        layer = tar([file("a", "1")])
        image = Image([layer])
        image.manifest["layers"] *= 501
        image.seal()
        s.refused(image, "501 layers")
        many = tar([file("oci-layout", "{}"), *[file("blobs/sha256/" + format(i, "064x"), "") for i in range(10_001)]])
        s.refused(many, "10000 files")
        s.refused(s.write("many.tar", many), "10000 files")
        s.load(Image([layer] * 500))
