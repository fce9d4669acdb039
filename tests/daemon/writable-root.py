"""Sandboxes whose image can be changed: by exec, files and sessions; saved, started again, and by a daemon that starts anew."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from image_trees import make_store
from cloche import cli, equal, layer_places, need_root, skip

CHANGE = "echo mine > /opt/tool; echo new > /etc/added; echo changed > /etc/marker; python3 -c 'import os; [os.makedirs(path) for path in (\"/var/log/app\", \"/home/user\", \"/app/x\")]'; exec 3> /var/log/app/log; echo $?"
LOOK = "echo $(</opt/tool) $(</etc/added) $(</etc/marker) /var/log/app/* /home/*"
CHANGED = "mine new changed /var/log/app/log /home/cloche /home/user\n"


def layers(place):
    """Options of a daemon whose writable roots lie there, or refuses to."""
    return "--layers", place, "--volumes", os.path.abspath("volumes-of-" + place)


def make_image_store():
    store, (digest,) = make_store(1)
    for path in ("opt", "var/log"):
        os.makedirs(f"{store}/trees/{digest}/{path}")
    return store, digest


def test_changes_stay_with_the_sandbox():
    store, digest = make_image_store()
    for place in layer_places():
        changes_stay_with_the_sandbox(store, digest, place)


def changes_stay_with_the_sandbox(store, digest, place):
    state = os.path.abspath("state-" + place)
    os.mkdir(state)
    with Daemon("--images", store, "--state-dir", state, *layers(place)) as daemon, daemon.frames() as frames:
        made = frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True)
        equal((made["writableRoot"], made["created"]), (True, True))
        equal(frames.call("exec", sandbox="s", command=CHANGE)["stdout"], "0\n")
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        frames.call("session.create", sandbox="s", session="apart", isolation=True)
        equal(frames.call("exec", sandbox="s", session="apart", command=LOOK)["stdout"], CHANGED)
        frames.call("sandbox.stop", sandbox="s")
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        equal(frames.call("file.read", sandbox="s", path="/etc/marker")["content"], "changed\n")
        # another sandbox of the image, with and without
        equal(cli("sandbox", "create", "t", "--image", digest, "--writable-root", "--socket", daemon.path).code, 0)
        equal(frames.call("exec", sandbox="t", command="echo $(</etc/marker); echo x > /opt/t && echo done")["stdout"].split(), [digest, "done"])
        frames.call("sandbox.create", sandbox="u", image=digest)
        equal(frames.call("exec", sandbox="u", command="echo x > /opt/t || echo $(</etc/marker)")["stdout"], digest + "\n")
        assert "writableRoot" not in frames.call("sandbox.get", sandbox="u")
        refused = frames.refused("context.create", sandbox="s", language="python")
        assert "writable root" in refused.message, refused
    with Daemon("--images", store, "--state-dir", state, *layers(place)) as daemon, daemon.frames() as frames:
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        equal(frames.call("sandbox.get", sandbox="s")["writableRoot"], True)
    equal(os.listdir(f"volumes-of-{place}") if place == "disk" else [], [])  # these files never had a name


def test_directories_that_keep_their_owner_out():
    """Images of Fedora have /usr/bin with the mode 555. The image's mode must not hinder a restore."""
    need_root()
    store, digest = make_image_store()
    tree = f"{store}/trees/{digest}"
    for path, mode in (("opt/read", 0o555), ("opt/closed", 0), ("srv", 0)):
        os.makedirs(f"{tree}/{path}")
        os.chmod(f"{tree}/{path}", mode)
    os.makedirs(f"{tree}/opt/gone/in/inner")
    os.chmod(f"{tree}/opt/gone/in", 0o555)
    change = "import os, shutil\nos.chmod('/opt/gone/in', 0o755); shutil.rmtree('/opt/gone')\nfor p in ('/opt/read', '/opt/closed'):\n    mode = os.stat(p).st_mode & 0o777\n    os.chmod(p, 0o755); open(p + '/f', 'w').write(p); os.chmod(p, mode)\nos.chmod('/opt/read', 0o755)"
    look = "import os\nprint(os.path.exists('/opt/gone'))\nfor p in ('/opt/read', '/opt/closed', '/srv'): print(oct(os.stat(p).st_mode & 0o777))\nos.chmod('/opt/closed', 0o755); print(open('/opt/read/f').read(), open('/opt/closed/f').read())"
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True)
        equal(frames.call("exec", sandbox="s", command=f'python3 -c "{change}"')["stderr"], "")
        frames.call("sandbox.stop", sandbox="s")
        equal(frames.call("exec", sandbox="s", command=f'python3 -c "{look}"')["stdout"], "False\n0o755\n0o0\n0o0\n/opt/read /opt/closed\n")


def test_files_on_the_disk_are_bounded():
    if "disk" not in layer_places():
        skip("this kernel has no layers on the disk")
    store, digest = make_image_store()
    limits = {"diskBytes": 24 << 20}
    with Daemon("--images", store, "--volume-space", "40", *layers("disk")) as daemon, daemon.frames() as frames:
        for limit in ("diskBytes", "diskInodes"):
            refused = frames.refused("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits={**limits, limit: 0})
            assert refused.name == "invalid_argument" and limit in refused.message, refused
        frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=limits)
        refused = frames.refused("sandbox.create", sandbox="t", image=digest, writableRoot=True, limits=limits)
        assert refused.name == "queue_full" and "--volume-space" in refused.message, refused
        equal(frames.refused("volume.create", volume="v", sizeBytes=24 << 20).name, "queue_full")
        frames.call("sandbox.stop", sandbox="s")
        frames.call("sandbox.create", sandbox="t", image=digest, writableRoot=True, limits=limits)
        equal(frames.call("exec", sandbox="t", command="echo x > /opt/x && echo done")["stdout"], "done\n")
    with Daemon("--images", store, "--layers", "disk", "--volumes", "") as daemon, daemon.frames() as frames:
        refused = frames.refused("sandbox.create", sandbox="s", image=digest, writableRoot=True)
        assert refused.message.startswith("the writable root of the sandbox s lies on the disk: ") and "--volumes" in refused.message, refused
        frames.call("sandbox.create", sandbox="s", image=digest)


def test_refusals():
    need_root()
    store, digest = make_image_store()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for options, word in (({}, "image"), ({"image": digest, "packages": {"pip": ["x"]}}, "packages"), ({"image": digest, "volumes": [{"name": "v", "path": "/v"}]}, "volumes"), ({"image": digest, "mount": {"path": "/srv", "target": "/data"}}, "mounts")):
            refused = frames.refused("sandbox.create", sandbox="s", writableRoot=True, **options)
            assert refused.name == "invalid_argument" and word in refused.message, refused
        told = cli("sandbox", "create", "s", "--writable-root", "--socket", daemon.path)
        equal((told.code, told.stderr), (2, b"cloche: --writable-root: name an image of the store (--image)\n"), told)
        told = cli("sandbox", "create", "s", "--image", digest, "--writable-root", "--volume", "v:/v", "--socket", daemon.path)
        assert told.code == 2 and told.stderr.endswith(b": leave them out, or --writable-root\n"), told
        equal(frames.call("sandbox.list")["sandboxes"], [])
