"""Sandboxes whose image can be changed: by exec, files and sessions; saved, started again, and by a daemon that starts anew."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from image_trees import copy_programs, make_store
from cloche import cli, equal, layer_places, need_ordinary_user, need_root, possible_layers, skip

USER = 12345  # as need_ordinary_user tries
SMALL = {"diskBytes": 64 << 20}  # reserved, where it lies on the disk
CHANGE = "echo mine > /opt/tool; echo new > /etc/added; echo changed > /etc/marker; python3 -c 'import os; [os.makedirs(path) for path in (\"/var/log/app\", \"/home/user\", \"/app/x\")]'; exec 3> /var/log/app/log; echo $?"
LOOK = "echo $(</opt/tool) $(</etc/added) $(</etc/marker) /var/log/app/* /home/*"
TYPE = "while read -r _ place type _; do [ $place != /workspace ] || echo $type; done < /proc/mounts"
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
        made = frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
        equal((made["writableRoot"], made["created"]), (True, True))
        equal(frames.call("exec", sandbox="s", command=CHANGE)["stdout"], "0\n")
        equal(frames.call("exec", sandbox="s", command=TYPE)["stdout"], {"memory": "tmpfs\n", "disk": "ext4\n"}[place])
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        frames.call("session.create", sandbox="s", session="apart", isolation=True)
        equal(frames.call("exec", sandbox="s", session="apart", command=LOOK)["stdout"], CHANGED)
        frames.call("sandbox.stop", sandbox="s")
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        equal(frames.call("file.read", sandbox="s", path="/etc/marker")["content"], "changed\n")
        # another sandbox of the image, with and without
        equal(cli("sandbox", "create", "t", "--image", digest, "--writable-root", "--disk", "64M", "--socket", daemon.path).code, 0)
        equal(frames.call("exec", sandbox="t", command="echo $(</etc/marker); echo x > /opt/t && echo done")["stdout"].split(), [digest, "done"])
        frames.call("sandbox.create", sandbox="u", image=digest)
        equal(frames.call("exec", sandbox="u", command="echo x > /opt/t || echo $(</etc/marker)")["stdout"], digest + "\n")
        assert "writableRoot" not in frames.call("sandbox.get", sandbox="u")
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
        frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
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
        refused = frames.refused("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
        assert refused.message.startswith("the writable root of the sandbox s lies on the disk: ") and "--volumes" in refused.message, refused
        frames.call("sandbox.create", sandbox="s", image=digest)


def test_contexts_see_the_same_system():
    """The overlays themselves, not their upper directories in a second mount: a write of either side is the other's at once."""
    store, digest = make_image_store()
    for place in layer_places():
        with Daemon("--images", store, *layers(place)) as daemon, daemon.frames() as frames:
            def shell(command):
                return frames.call("exec", sandbox="s", command=command)["stdout"]

            def cell(code, context="c"):
                answer = frames.call("context.run", sandbox="s", context=context, code=code)
                assert not answer.get("error"), answer
                return answer["stdout"]
            frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
            shell("echo shell > /opt/before; echo x > /etc/marker")
            frames.call("context.create", sandbox="s", context="c", language="python", forkable=True)
            equal(cell("print(open('/opt/before').read() + open('/etc/marker').read(), open('/opt/cell', 'w').write('cell'))"), "shell\nx\n 4\n")
            equal(shell("echo $(</opt/cell) > /var/log/after; echo $(</var/log/after)"), "cell\n")
            equal(cell("import os; print(open('/var/log/after').read(), sorted(os.listdir('/opt'))); os.remove('/opt/before')"), "cell\n ['before', 'cell']\n")
            equal(shell("echo /opt/*"), "/opt/cell\n")
            # A module that is installed later is found, and a checkpoint has the same root.
            shell("d=$(echo /usr/lib/python3.*); echo 'value = 3' > $d/added.py")
            equal(cell("import added; print(added.value)"), "3\n")
            frames.call("context.checkpoint", sandbox="s", context="c", checkpoint="k")
            shell("echo later > /opt/later")
            frames.call("context.rollback", sandbox="s", context="c", checkpoint="k")
            equal(cell("print(added.value, open('/opt/later').read())"), "3 later\n\n")
            assert "writable root" in frames.refused("context.fork", sandbox="s", context="c").message
            # Files that the interpreter has in memory: a changed one of them is named, and another is started; others go on.
            for change, named in (("echo >> $(echo /usr/bin/python3.*)", "/usr/bin/python3"), ("p=$(echo /usr/lib/python3.*/re/__init__.*); echo >> $p", "/re/__init__")):
                shell(change)
                made = frames.call("context.create", sandbox="s", context=named[-4:], language="python")
                assert made["start"] == "cold" and named in made["coldWhy"] and "programs of the sandbox changed" in made["coldWhy"], made
                equal(cell("import added; print(added.value, open('/opt/later').read(), open('/opt/cell', 'w').write('cold'))", named[-4:]), "3 later\n 4\n")
                equal(shell("echo $(</opt/cell)"), "cold\n")
                refused = frames.refused("context.create", sandbox="s", context="d", language="python", forkable=True)
                assert "cannot be forked" in refused.message and named in refused.message, refused
                assert "cold" in frames.refused("context.checkpoint", sandbox="s", context=named[-4:]).message
            equal(cell("print(1)"), "1\n")
            equal([context["start"] for context in frames.call("context.list", sandbox="s")["contexts"]], ["forked", "cold", "cold"])
            frames.call("sandbox.create", sandbox="other", image=digest, writableRoot=True, limits=SMALL)  # the image's are as they were
            equal(frames.call("context.create", sandbox="other", context="c", language="python")["start"], "forked")


def test_mounts_and_volumes_beside_layers():
    """In places that the image has not, as with a read-only root; their files are no layers."""
    store, digest = make_image_store()
    with tempfile.TemporaryDirectory(prefix="cloched-writable-") as host:
        os.chmod(host, 0o755)
        for place in layer_places():
            os.makedirs(f"{host}/{place}/inner")
            with open(f"{host}/{place}/file", "w") as file:
                file.write("host")
            mount = {"dirs": {"/data": {"path": f"{host}/{place}", "permissions": {"default": {"create": True, "modify": True}}}}}
            os.mkdir("state-of-" + place)
            with Daemon("--images", store, "--mount-root", host, "--state-dir", os.path.abspath("state-of-" + place), *layers(place)) as daemon, daemon.frames() as frames:
                frames.call("volume.create", volume="v", sizeBytes=16 << 20)
                frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL, mount=mount, volumes=[{"name": "v", "path": "/kept/v"}])
                write = "echo $(</data/file); for d in data data/inner kept/v opt usr/bin; do echo $d > /$d/mine || echo refused $d; done"
                equal(frames.call("exec", sandbox="s", command=write)["stdout"], "host\n")
                frames.call("session.create", sandbox="s", session="apart", isolation=True)
                equal(frames.call("exec", sandbox="s", session="apart", command="echo $(</data/mine) $(</kept/v/mine) $(</opt/mine)")["stdout"], "data kept/v opt\n")
                equal(frames.call("sandbox.stop", sandbox="s", sync={})["sync"].get("conflicts", []), [])
                equal([open(f"{host}/{place}/{path}mine").read() for path in ("", "inner/")], ["data\n", "data/inner\n"])
                equal(frames.call("exec", sandbox="s", command="echo $(</data/inner/mine) $(</kept/v/mine) $(</opt/mine) $(</usr/bin/mine)")["stdout"], "data/inner kept/v opt usr/bin\n")
                for where in ("/opt/x", "/usr/x", "/etc"):
                    refused = frames.refused("sandbox.create", sandbox="t", image=digest, writableRoot=True, limits=SMALL, volumes=[{"name": "v", "path": where}])
                    assert "cover" in refused.message, refused


def test_an_ordinary_users_daemon_on_an_older_kernel():
    need_ordinary_user()
    if "memory" in possible_layers():
        skip("this kernel has layers in memory")
    store, digest = make_image_store()
    become_user()
    with Daemon("--images", store, "--profile", "user") as daemon, daemon.frames() as frames:
        for more in ({"writableRoot": True}, {"root": True}):
            refused = frames.refused("sandbox.create", sandbox="s", image=digest, limits=SMALL, **more)
            assert "lies on the disk before Linux 6.6: " in refused.message and "daemon of root" in refused.message, refused
    assert b"ordinary user's daemon has writable roots from Linux 6.6 on" in cli("selftest").stdout


def become_user():
    """For the rest of this process."""
    for here, directories, files in os.walk("."):
        for name in (".", *directories, *files):
            os.chown(f"{here}/{name}", USER, USER, follow_symlinks=False)
    home = tempfile.mkdtemp(prefix="cloched-user-")
    os.chown(home, USER, USER)
    os.environ.update(TMPDIR=home, XDG_CACHE_HOME=home, XDG_STATE_HOME=home, XDG_RUNTIME_DIR=home, HOME=home)
    tempfile.tempdir = home
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def test_an_ordinary_users_daemon():
    """Its store's files are its own, so nothing has to be mapped; layers on the disk are root's."""
    need_ordinary_user()
    if "memory" not in layer_places():
        skip("this kernel has no layers in memory")
    store, digest = make_image_store()
    become_user()
    with Daemon("--images", store, "--profile", "user", "--layers", "memory") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
        equal(frames.call("exec", sandbox="s", command=CHANGE)["stdout"], "0\n")
        frames.call("sandbox.stop", sandbox="s")
        equal(frames.call("exec", sandbox="s", command=LOOK)["stdout"], CHANGED)
        frames.call("context.create", sandbox="s", context="c", language="python")
        equal(frames.call("context.run", sandbox="s", context="c", code="print(open('/etc/marker').read())")["stdout"], "changed\n\n")
    with Daemon("--images", store, "--profile", "user", "--layers", "disk") as daemon, daemon.frames() as frames:
        refused = frames.refused("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL)
        assert "lies on the disk: " in refused.message and "daemon of root" in refused.message, refused


# It stands for npm: packages come to a sandbox as files of its home directory, whatever made them.
TOOL = """#!/usr/bin/bash
[ "$1" = install ] || exit 2
mkdir -p ~/.local/bin
printf '#!/usr/bin/bash\\necho packaged\\n' > ~/.local/bin/packaged
chmod 755 ~/.local/bin/packaged
"""


def test_packages_beside_layers():
    store, digest = make_image_store()
    tree = f"{store}/trees/{digest}"
    copy_programs(tree, *("/usr/bin/" + name for name in ("tail", "mkdir", "chmod", "rm")))
    with open(f"{tree}/usr/bin/npm", "w") as file:
        file.write(TOOL)
    os.chmod(f"{tree}/usr/bin/npm", 0o755)
    for place in layer_places():
        with Daemon("--images", store, *layers(place)) as daemon, daemon.frames() as frames:
            made = frames.call("sandbox.create", sandbox="s", image=digest, writableRoot=True, limits=SMALL, packages={"npm": ["packaged"]})
            equal((made["writableRoot"], made["packages"]), (True, {"npm": ["packaged"]}))
            look = "~/.local/bin/packaged; echo $(</opt/x)"
            equal(frames.call("exec", sandbox="s", command=f"echo mine > /opt/x; {look}")["stdout"], "packaged\nmine\n")
            frames.call("sandbox.stop", sandbox="s")
            equal(frames.call("exec", sandbox="s", command=look)["stdout"], "packaged\nmine\n")


def test_refusals():
    need_root()
    store, digest = make_image_store()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        refused = frames.refused("sandbox.create", sandbox="s", writableRoot=True, limits=SMALL)
        assert refused.name == "invalid_argument" and "image" in refused.message, refused
        told = cli("sandbox", "create", "s", "--writable-root", "--socket", daemon.path)
        equal((told.code, told.stderr), (2, b"cloche: --writable-root: name an image of the store (--image)\n"), told)
        equal(frames.call("sandbox.list")["sandboxes"], [])


def test_other_users_of_layers():
    """The user of the image, and root of the sandbox, own their files in both places."""
    need_root()
    store, (digest,) = make_store(1)
    app = {"runsAs": {"uid": 1001, "gid": 50, "name": "app", "home": "/home/app"}}
    for place in layer_places():
        with Daemon("--images", store, *layers(place)) as daemon, daemon.frames() as frames:
            for name, more, owner in (("a", {"imageSettings": app, "writableRoot": True}, "1001 50\n"), ("r", {"root": True}, "0 0\n")):
                frames.call("sandbox.create", sandbox=name, image=digest, **more)
                done = frames.call("exec", sandbox=name, command="python3 -c 'import os; os.mkdir(\"/etc/n\"); open(\"/workspace/x\", \"w\"); open(\"/tmp/x\", \"w\"); open(os.path.expanduser(\"~/x\"), \"w\"); s = os.stat(\"/etc/n\"); print(s.st_uid, s.st_gid)'; exec 2>&1")
                equal((done["stdout"], done["stderr"]), (owner, ""), (place, name))
