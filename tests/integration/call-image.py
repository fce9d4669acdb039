"""A directory as image: its files are the root, read-only, and nothing of the host's /usr shows."""
import json
import os
import subprocess
from cloche import ORDINARY_USER, bad_input, call, call_words, cli, equal, guest_code, need_ordinary_user, need_root, start
from image_trees import ETC, fill_etc, make_image, make_store


def test_the_images_files_are_the_root():
    image = make_image()
    result = call("python", "import os\ndef f(): return [open('/etc/marker').read(), sorted(os.listdir('/usr/bin'))]", "f",
                  image=image)
    equal(result.value[0], "image", result)
    assert "gcc" not in result.value[1] and "dash" in result.value[1], result


def test_it_cannot_be_written():
    image = make_image()
    attack = guest_code("return [attempt(open, p, 'w') for p in ('/etc/marker', '/usr/bin/dash', '/new', '/usr/new')]")
    result = call("python", attack, "attack", image=image)
    for answer in result.value:
        assert answer in ("EROFS", "EACCES"), result
    equal(open(image + "/etc/marker").read(), "image")
    assert not os.path.exists(image + "/usr/new")


def test_a_missing_interpreter_is_named():
    image = make_image()
    finished = cli(*call_words("javascript", "function f() {}", "f", image=image))
    assert finished.code not in (0, 124, 143) and b"node" in finished.stdout + finished.stderr, finished


def test_links_in_the_image_are_not_followed_on_the_host():
    """/dev, /proc and /etc/passwd as links out of the image (CVE-2026-47766, CVE-2021-30465)."""
    need_root()
    image = make_image()
    outside = os.path.abspath("outside")
    os.mkdir(outside)
    for name in ("dev", "proc", "tmp", "workspace", "etc/passwd", "etc/hosts"):
        os.symlink(outside, f"{image}/{name}")
    result = call("python", "def f(): return [open('/etc/passwd').read(), open('/proc/self/comm').read() != '']", "f",
                  image=image)
    equal(result.status, "success", result)
    assert "cloche" in result.value[0] and "root:" not in result.value[0], result
    equal(os.listdir(outside), [])


def test_an_etc_of_ten_thousand_entries():
    image = make_image()
    expected = fill_etc(image)
    equal(call("python", ETC, "f", image=image).value, expected)


def test_an_etc_of_ten_thousand_entries_for_an_ordinary_user():
    need_ordinary_user()
    image = make_image()
    expected = fill_etc(image)
    equal(call("python", ETC, "f", image=image, under=ORDINARY_USER).value, expected)


def test_an_image_without_an_etc():
    image = make_image()
    os.remove(f"{image}/etc/marker")
    os.rmdir(f"{image}/etc")
    equal(call("python", "import os\ndef f(): return [sorted(os.listdir('/etc')), open('/etc/hostname').read()]", "f", image=image).value,
          [["group", "hostname", "hosts", "nsswitch.conf", "passwd", "resolv.conf"], "cloche\n"])


MARKER = "def f(): return open('/etc/marker').read()"


def test_an_image_of_the_store():
    store, (one, other) = make_store(2)
    for digest in (one, other, other.replace("-", ":")):
        equal(call("python", MARKER, "f", image=digest, images=store).value, digest.replace(":", "-"))
    assert call("python", MARKER, "f", images=store).error["type"] == "FileNotFoundError"


def test_an_image_that_is_not_there():
    store, _ = make_store(0)
    missing = "sha256-" + "a" * 64
    for where in (store, store + "/none"):
        finished = cli(*call_words("python", MARKER, "f", image=missing, images=where))
        equal((finished.code, finished.stdout), (2, b""), finished)
        assert (missing if where == store else where).encode() in finished.stderr, finished
    for name in ("/python", "./python", "../python", ""):
        bad_input("call", "python", "-c", MARKER, "f", "--image", name, says="neither a directory nor an image")
    for name in ("python", "python:1", "sha256-" + "a" * 63):
        bad_input("call", "python", "-c", MARKER, "f", "--image", name, "--images", store, says=f"no image '{name}")
    for name in ("sha256-" + "A" * 64, "sha512-" + "a" * 64, "a/../b", "A"):
        equal(cli("call", "python", "-c", MARKER, "f", "--image", name, "--images", store).code, 2)


def test_set_up_code_in_an_image():
    store, (one, other) = make_store(2)
    equal(cli("prefix", "create", "of-image", "python", "-c", "marker = open('/etc/marker').read()", "--image", one, "--images", store,
              env={"XDG_DATA_HOME": os.getcwd()}).code, 0)
    for digest in (one, other):
        finished = cli("call", "python", "-c", "def f(): return marker", "f", "--prefix", "of-image", "--image", digest, "--images", store,
                       env={"XDG_DATA_HOME": os.getcwd()})
        equal((finished.code, json.loads(finished.stdout)), (0, digest), finished)


def test_an_etc_with_a_mount_in_it_is_refused_by_name():
    need_root()
    image = make_image()
    os.mkdir(f"{image}/etc/mounted")
    under = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$0/etc/mounted" && exec "$@"', image)
    finished = cli(*call_words("python", "def f(): return 1", "f", image=image), under=under)
    assert finished.code not in (0, 124, 143) and b"something is mounted in it" in finished.stdout + finished.stderr, finished
    equal(call("python", "import os\ndef f(): return os.listdir('/etc/mounted')", "f", image=image).value, [])


def test_an_imported_image_by_its_name():
    make_image()
    store, run = os.path.abspath("images"), ("python", MARKER, "f")
    equal(cli("image", "import", "image", "base:1", "--images", store).code, 0)
    equal(call(*run, images=store, image="base:1").value, "image")
    equal(cli("image", "import", "image", "image", "--images", store).code, 0)
    os.rename("image", "directory")
    equal(call(*run, images=store, image="image").value, "image")
    digest = json.loads(cli("image", "inspect", "image", "--json", "--images", store).stdout)["tree"]
    equal(call(*run, images=store, image=digest).value, "image")
    with open("directory/etc/marker", "w") as file:
        file.write("changed")
    os.rename("directory", "image")
    equal(call(*run, images=store, image="image").value, "changed", "a directory is preferred")


def test_an_image_in_use_is_not_removed():
    make_image()
    store = os.path.abspath("images")
    equal(cli("image", "import", "image", "base", "--images", store).code, 0)
    running = start("run", "bash", "-c", "echo ready; read x", "--image", "base", "--images", store, stdin=subprocess.PIPE)
    equal(running.stdout.readline(), b"ready\n")
    refused = cli("image", "rm", "base", "--images", store)
    assert refused.code != 0 and b"in use" in refused.stderr, refused
    equal(call("python", MARKER, "f", images=store, image="base").value, "image")
    running.communicate(b"\n")
    equal(running.returncode, 0)
    equal(cli("image", "rm", "base", "--images", store).code, 0)
    equal(cli(*call_words("python", MARKER, "f", image="base", images=store)).code, 2)


def test_an_imported_image_of_an_ordinary_user():
    """The store of their own, in its usual place."""
    need_ordinary_user()
    make_image()
    home = os.path.abspath("home")
    os.mkdir(home)
    os.chown(home, int(ORDINARY_USER[2]), int(ORDINARY_USER[4]))
    env = {"XDG_DATA_HOME": home, "HOME": home}
    for argument in (("import", "image", "base"), ("ls",)):
        finished = cli("image", *argument, under=ORDINARY_USER, env=env)
        equal(finished.code, 0, finished)
    equal(call("python", MARKER, "f", image="base", under=ORDINARY_USER, env=env).value, "image")
