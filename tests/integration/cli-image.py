"""cloche image: words, output, exit codes. tests/image has the store itself."""
import fcntl
import hashlib
import io
import json
import os
import re
import signal
import tarfile

from cloche import ORDINARY_USER, bad_input, cli, equal, need_ordinary_user, start, wait_for

STORE = "images"


def archive(path, members, mode="w"):
    with tarfile.open(path, mode) as out:
        for name, contents in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(contents), 0o4755 if name == "setuid" else 0o644
            out.addfile(info, io.BytesIO(contents))
    return path


def image(*words, **options):
    return cli("image", words[0], "--images", STORE, *words[1:], **options)


def done(*words, **options):
    finished = image(*words, **options)
    equal(finished.code, 0, finished)
    return finished.stdout.decode()


def refused(*words, says, code=2, **options):
    finished = image(*words, **options)
    equal(finished.code, code, finished)
    assert says in finished.stderr.decode() and finished.stdout == b"" and len(finished.stderr.splitlines()) == 1, finished


def test_from_import_to_removal():
    root = archive("My.Tools.tar.gz", {"etc/hostname": b"x\n", "setuid": b"#!"}, "w:gz")
    finished = image("import", root)
    equal((finished.code, finished.stdout), (0, b"my.tools:latest\n"), finished)
    equal(finished.stderr, b"cloche: left out of the image: 1 set-user-id and set-group-id bits\n")
    with open(root, "rb") as source:
        answer = json.loads(done("import", "-", "other:v1", "--json", stdin=source.read()))
    equal((answer["name"], answer["isNew"], answer["dropped"]["setid"]), ("other:v1", False, 1))
    lines = done("ls").splitlines()
    assert [line.split()[:2] for line in lines] == [["my.tools:latest", answer["tree"]], ["other:v1", answer["tree"]]], lines
    [row] = json.loads(done("ls", "--json"))
    equal(row["names"], ["my.tools:latest", "other:v1"])
    text = done("inspect", "my.tools")
    assert f"tree           {answer['tree']}\n" in text and "source         tar\n" in text, text
    equal(json.loads(done("inspect", answer["tree"], "--json"))["id"], answer["id"])
    equal(done("verify", "other:v1"), "")
    exported = cli("image", "export", "other:v1", "-", "--images", STORE)
    equal(exported.code, 0, exported)
    done("export", "other:v1", "out.tar")
    with open("out.tar", "rb") as file:
        assert file.read() == exported.stdout
    equal(json.loads(done("import", "out.tar:v1", "--json"))["tree"], answer["tree"])
    equal(done("rm", "other:v1", "out:v1"), "")
    equal(done("prune"), "removed 0 images, 0 trees, 0 unfinished imports; 0 in use\n")
    bad_input("image", "prune", "--keep-bytes", "1X", "--images", STORE, says="such as 512M or 1.5G")
    equal(done("prune", "--keep-bytes", "1T"), "removed 0 images, 0 trees, 0 unfinished imports; 0 in use\n")
    done("rm", "my.tools")
    equal((done("ls"), os.listdir(STORE + "/trees"), os.listdir(STORE + "/incoming")), ("", [], []))


def test_an_image_that_is_not_as_it_was():
    done("import", archive("a.tar", {"f": b"1", "g\x1b[1m": b"2"}), "x")
    tree = os.path.join(STORE, "trees", json.loads(done("inspect", "x", "--json"))["tree"].replace(":", "-"))
    os.chmod(tree + "/f", 0o600)
    os.unlink(tree + "/g\x1b[1m")
    finished = image("verify", "x")
    equal(finished.code, 1, finished)
    equal(finished.stdout.decode().splitlines(), ["f: mode was 644, is 600", "g\\\\x1b[1m: removed"])
    assert "2 differences" in finished.stderr.decode(), finished
    finished = image("verify", "x", "--json")
    equal((finished.code, json.loads(finished.stdout)["changeCount"]), (1, 2), finished)


def test_words_of_images_cannot_steer_the_terminal():
    layer = b"\0" * 1024
    config = json.dumps({"config": {"Env": ["A=\x1b]0;x\x07"], "Labels": {"\x1b[2J": "y"}}, "rootfs": {"diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    name = hashlib.sha256(config).hexdigest() + ".json"
    done("import", archive("d.tar", {name: config, "l.tar": layer, "manifest.json": json.dumps([{"Config": name, "RepoTags": [], "Layers": ["l.tar"]}]).encode()}), "x")
    text = done("inspect", "x")
    refused("import", archive("e.tar", {"\x1b[2J/../x": b""}), says="\\x1b[2J/../x")
    assert "\x1b" not in text and "env            A=\\x1b]0;x\\x07" in text, text


def test_bad_input():
    done("import", archive("a.tar", {"f": b"1"}), "x")
    refused("import", "none.tar", says="cannot open 'none.tar'")
    refused("import", "-", says="expected a name", stdin=b"")
    refused("import", "docker://debian", says="skopeo copy docker://debian oci-archive:")
    refused("import", "a.tar", "Bad", says="is no name of an image")
    refused("import", archive("b.tar", {"../x": b""}), says='has ".." in its path')
    refused("import", "-", "x", says="cannot be read as an archive", stdin=b"text\n" * 1000)
    for word in ("inspect", "verify", "rm"):
        refused(word, "none", says="there is no image 'none:latest'")
    refused("export", "none", "out.tar", says="there is no image")
    assert not os.path.exists("out.tar") and not os.path.exists("out.tar.part")
    finished = image("rm", "none", "x")
    equal((finished.code, done("ls")), (2, ""), finished)
    os.mkdir("open", 0o755)
    bad_input("image", "ls", "--images", "open", says="its user's alone")
    bad_input("image", "inspect", says="expected an image")
    bad_input("image", "list", says="did you mean 'cloche image ls'")


def test_wrong_words():
    """Each command of images and networks names the surplus or missing word, and its usage."""
    none = {"ls": "[OPTION…]", "prune": "[OPTION…]"}
    one = {"inspect": "IMAGE [OPTION…]", "verify": "IMAGE [OPTION…]"}
    for command, usage in {**none, **one}.items():
        usage = re.escape(f"(usage: cloche image {command} {usage})")
        words = ["x"] * (command in one)
        for surplus in ("y", "-", "--"):
            bad_input("image", command, *words, surplus, says=f"unexpected word '{surplus}' {usage}")
    for surplus in ("y", "-", "--"):
        bad_input("image", "export", "x", "-", surplus, says=re.escape(f"unexpected word '{surplus}' (usage: cloche image export IMAGE FILE [OPTION…])"))
        bad_input("image", "import", "-", "x", surplus, says=re.escape(f"unexpected word '{surplus}' (usage: cloche image import SOURCE [NAME] [OPTION…])"))
        bad_input("net", "box", surplus, says=re.escape(f"unexpected word '{surplus}' (usage: cloche net SANDBOX [OPTION…])"))
    bad_input("image", "rm", "x", "-", says=re.escape("unexpected word '-' (usage: cloche image rm IMAGE… [OPTION…])"))
    for words, missing in (("import", "a source"), ("inspect", "an image"), ("verify", "an image"), ("rm", "an image"), ("export", "an image and a file"), ("export x", "an image and a file")):
        bad_input("image", *words.split(), says=re.escape(f"expected {missing} (usage: cloche image {words.split()[0]} "))
    bad_input("net", says=re.escape("expected a sandbox (usage: cloche net SANDBOX [OPTION…])"))
    bad_input("image", says="expected one of import, debian, build, ls, ")


def test_an_image_in_use():
    done("import", archive("a.tar", {"f": b"1"}), "x")
    tree = os.path.join(STORE, "trees", json.loads(done("inspect", "x", "--json"))["tree"].replace(":", "-"))
    user = os.open(tree, os.O_RDONLY)
    fcntl.flock(user, fcntl.LOCK_SH)
    refused("rm", "x", says=f"in use by process {os.getpid()} (")
    os.close(user)
    done("rm", "x")


def test_an_interrupted_import():
    """Ctrl-C ends the command; the unfinished tree is removed."""
    reading, writing = os.pipe()
    command = start("image", "import", "-", "x", "--images", STORE, stdin=reading)
    os.close(reading)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for i in range(100):
            info = tarfile.TarInfo(str(i))
            info.size = 10_000
            tar.addfile(info, io.BytesIO(bytes(10_000)))
    os.write(writing, out.getvalue()[:60_000])
    wait_for(lambda: os.path.isdir(STORE + "/incoming") and os.listdir(STORE + "/incoming"), "the import to begin")
    command.send_signal(signal.SIGINT)
    equal(command.wait(), -signal.SIGINT)
    os.close(writing)
    wait_for(lambda: not os.listdir(STORE + "/incoming"), "the unfinished tree to be removed")
    equal((done("ls"), os.listdir(STORE + "/trees")), ("", []))


def as_user(*words, **environment):
    """The command of an ordinary user, whose home is the test's directory."""
    under = []
    if os.geteuid() == 0:
        need_ordinary_user()
        os.chmod(".", 0o777)
        under = ORDINARY_USER
    return cli(*words, under=[*under, "env", "HOME=" + os.getcwd(), *(f"{name}={value}" for name, value in environment.items())])


def test_the_store_of_a_user():
    archive("a.tar", {"f": b"1"})
    for environment, store in (({"XDG_DATA_HOME": ""}, ".local/share/cloche/images"), ({"XDG_DATA_HOME": os.path.abspath("data")}, "data/cloche/images")):
        finished = as_user("image", "import", "a.tar", "tools", **environment)
        equal((finished.code, finished.stdout), (0, b"tools:latest\n"), finished)
        equal(os.stat(store).st_mode & 0o777, 0o700)
        equal(as_user("__complete", "image", "rm", "t", **environment).stdout, b"tools:latest\timage\n")
        equal(as_user("__complete", "image", "rm", "u", **environment).stdout, b"")
