"""sandbox.commit: the changes of a sandbox become an image, that starts elsewhere and that other programs read. The guest's archive is hostile."""
import json
import os
import shutil
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from image_trees import configured_image
from cloche import cli, equal, need_root, need_writable_roots

CONFIG = {"Env": ["A=1", "PATH=/opt/bin:/usr/bin:/bin"], "WorkingDir": "/srv/app", "Labels": {"x": "y"}, "Cmd": ["a"]}
CHANGE = """import os, shutil
os.makedirs('/opt/new'); open('/opt/new/f', 'w').write('new'); os.link('/opt/new/f', '/opt/new/g')
os.symlink('/nowhere', '/opt/link'); os.remove('/opt/bin/tool'); os.chmod('/opt/new/f', 0o4755)
shutil.rmtree('/srv/app'); os.makedirs('/srv/app'); open('/srv/app/only', 'w').close()
os.makedirs('/app/x'); open('/app/x/y', 'w').write('1')
open('/etc/passwd', 'a').write('z'); open('/etc/marker', 'w').write('changed')
for path in ('/tmp', '/workspace', '/home', '/root'): open(path + '/gone', 'w').close()
os.link('/root/gone', '/app/kept'); os.mkfifo('/opt/pipe')"""
LOOK = """import os
for path in ('/opt', '/opt/new', '/opt/bin', '/srv/app', '/app', '/app/x', '/tmp', '/workspace', '/home', '/root'): print(path, *sorted(os.listdir(path)))
print(open('/opt/new/g').read(), os.readlink('/opt/link'), open('/etc/marker').read(), oct(os.stat('/opt/new/f').st_mode))"""
SEEN = """/opt bin link new
/opt/new f g
/opt/bin
/srv/app only
/app kept x
/app/x y
/tmp
/workspace
/home cloche
/root
new /nowhere changed 0o100755
"""


def python(frames, sandbox, code):
    done = frames.call("exec", sandbox=sandbox, command="exec python3 -", stdin=code)
    equal(done["stderr"], "", code)
    return done["stdout"]


def serve(changes="owner"):
    """A daemon whose store has base:1. Imported once for all tests of this file's directory."""
    store = os.path.abspath("store")
    if not os.path.exists(store):
        equal(cli("image", "import", configured_image(CONFIG), "base:1", "--images", store).code, 0)
    return Daemon("--images", store, "--image-changes", changes)


def inspect(name):
    return json.loads(cli("image", "inspect", name, "--images", "store", "--json").stdout)


def test_a_commit_starts_elsewhere():
    need_writable_roots()
    with serve() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image="base:1", writableRoot=True)
        base = frames.call("sandbox.commit", sandbox="s")
        equal((base["name"], base["tree"], base["isNew"]), ("", inspect("base:1")["tree"], False))
        python(frames, "s", CHANGE)
        made = frames.call("sandbox.commit", sandbox="s", image="made:1", comment="a step",
                           config={"env": {"A": None, "B": "2"}, "labels": {"q": "r"}, "workingDir": "/app/x", "cmd": None, "entrypoint": ["b"], "exposedPorts": ["80/tcp"]})
        equal(made["dropped"], {"devices": 0, "pipes": 0, "setid": 1, "capabilities": 0, "attributes": 0})
        frames.call("sandbox.create", sandbox="t", image="made:1", writableRoot=True)
        equal(python(frames, "t", LOOK), SEEN)
        equal(frames.call("exec", sandbox="t", command="echo $PWD $A-$B $PATH")["stdout"].split()[:2], ["/app/x", "-2"])
        # read-only as well, and the files of the image that did not change are the same files
        equal(python(frames, "t", "print(open('/etc/passwd').read()[:6])"), "cloche\n")
        frames.call("sandbox.create", sandbox="u", image="made:1")
        equal(python(frames, "u", LOOK), SEEN.replace("/root\n", "/root\n"))
        told = cli("sandbox", "commit", "t", "made:2", "--env", "C=3", "--label", "z=1", "--comment", "again", "--socket", daemon.path)
        equal((told.code, told.stdout, told.stderr), (0, b"made:2\n", b""), told)
    trees = [f"store/trees/{inspect(name)['tree'].replace(':', '-')}/usr/bin/bash" for name in ("base:1", "made:1")]
    equal(*(os.stat(tree).st_ino for tree in trees))
    told = inspect("made:1")
    equal(told["config"], {"env": ["PATH=/opt/bin:/usr/bin:/bin", "B=2"], "workingDir": "/app/x", "labels": {"x": "y", "q": "r"}, "entrypoint": ["b"], "exposedPorts": {"80/tcp": {}}})
    equal((told["createdBy"], told["layers"], told["source"]["kind"]), ("a step", 2, "commit"))
    equal(inspect("made:2")["config"]["env"], ["PATH=/opt/bin:/usr/bin:/bin", "B=2", "C=3"])
    equal(cli("image", "verify", "made:1", "--images", "store").code, 0)
    # owners of the image, and other programs read it
    equal({os.lstat(os.path.join(place, name)).st_uid for place, _, names in os.walk(os.path.dirname(trees[1])) for name in names}, {0})
    equal(cli("image", "export", "made:1", "made.tar", "--images", "store").code, 0)
    shutil.unpack_archive("made.tar", "layout")
    with open("layout/index.json") as file:
        manifest = json.load(file)["manifests"][0]["digest"].removeprefix("sha256:")
    with open(f"layout/blobs/sha256/{manifest}") as file:
        layer = json.load(file)["layers"][0]["digest"].removeprefix("sha256:")
    with tarfile.open(f"layout/blobs/sha256/{layer}") as archive:
        names = {name.removeprefix("./") for name in archive.getnames()}
    assert {"opt/new/g", "app/x/y", "srv/app/only"} <= names and not {name for name in names if ".wh." in name or name.startswith(("opt/bin/tool", "srv/app/helper"))}
    if shutil.which("umoci"):
        subprocess.run(["umoci", "unpack", "--rootless", "--image", "layout:1", "bundle"], check=True, capture_output=True)
        assert os.path.exists("bundle/rootfs/opt/new/g")


def test_an_image_can_be_removed_right_after_its_sandbox():
    """Its box may still end then. The twin: one that is used is refused."""
    with serve() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image="base:1", limits={"diskBytes": 1 << 24})  # none of a pool
        told = cli("image", "rm", "base:1", "--images", "store")
        assert told.code == 2 and b"is in use" in told.stderr, told
        frames.call("exec", sandbox="s", command="while :; do read -t 1000 <> <(:); done & echo")
        frames.call("sandbox.delete", sandbox="s")
        equal(cli("image", "rm", "base:1", "--images", "store").code, 0)
        equal(cli("image", "import", "layout", "base:1", "--images", "store").code, 0)
        frames.call("sandbox.create", sandbox="s", image="base:1", limits={"diskBytes": 1 << 24})  # none of a pool
        frames.call("sandbox.delete", sandbox="s")
        equal(frames.call("image.delete", image="base:1")["treeRemoved"], True)


def test_whiteouts_of_directories():
    """A removed directory, one that became a file, one that was made anew over another: the result is that of the sandbox."""
    need_writable_roots()
    code = """import os, shutil
os.makedirs('/opt/a/b/c'); open('/opt/a/b/c/f', 'w').close(); os.makedirs('/opt/d/e'); os.makedirs('/opt/g/h'); open('/opt/g/h/i', 'w').close(); open('/opt/k', 'w').close()"""
    turn = """import os, shutil
shutil.rmtree('/opt/a/b'); shutil.rmtree('/opt/d'); open('/opt/d', 'w').close(); shutil.rmtree('/opt/g'); os.makedirs('/opt/g/j'); os.remove('/opt/k'); os.makedirs('/opt/k/l')"""
    look = "import os\nfor path, folders, names in os.walk('/opt'): folders.sort(); print(path, *folders, *sorted(names))"
    with serve() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="w", image="base:1", writableRoot=True)
        python(frames, "w", code)
        frames.call("sandbox.commit", sandbox="w", image="w:1")
        frames.call("sandbox.create", sandbox="x", image="w:1", writableRoot=True)
        python(frames, "x", turn)
        frames.call("sandbox.commit", sandbox="x", image="w:2")
        frames.call("sandbox.create", sandbox="y", image="w:2")
        equal(python(frames, "y", look), python(frames, "x", look))


KILL = """import os, signal
open('/workspace/kills', 'w').close()
while True:
    for pid in filter(str.isdigit, os.listdir('/proc')):
        try:
            if b'pack-system' in open(f'/proc/{pid}/cmdline', 'rb').read():
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
"""


def check_a_cut_archive(frames):
    """It is none: the guest can kill the file program, whose user it is."""
    frames.call("sandbox.create", sandbox="k", image="base:1", writableRoot=True)
    python(frames, "k", "import os\nfor i in range(3): open(f'/opt/{i}', 'wb').write(os.urandom(8 << 20))")
    frames.call("file.write", sandbox="k", path="/workspace/kill", content=KILL)
    frames.call("process.start", sandbox="k", command="exec python3 /workspace/kill", process="killer")
    frames.call("exec", sandbox="k", command="until [ -e /workspace/kills ]; do sleep 0.02; done")
    refused = frames.refused("sandbox.commit", sandbox="k", image="cut:1")
    assert "signal 9" in refused.message, refused
    frames.call("process.kill", sandbox="k", process="killer")
    frames.call("sandbox.commit", sandbox="k", image="cut:1")


def test_refusals():
    need_writable_roots()
    with serve() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image="base:1", writableRoot=True)
        for config, word in (({"env": {"A=B": "x"}}, "env"), ({"env": {"A": 1}}, "env"), ({"cmd": "x"}, "cmd"), ({"cmd": [1]}, "cmd"), ({"volumes": {}}, "volumes"), ({"user": "a\0b"}, "user"), ({"env": []}, "env")):
            refused = frames.refused("sandbox.commit", sandbox="s", config=config)
            assert refused.name == "invalid_argument" and word in refused.message, refused
        equal(frames.refused("sandbox.commit", sandbox="s", image="No/Name").name, "invalid_argument")
        equal(frames.refused("sandbox.commit", sandbox="s", key="abc").name, "invalid_argument")
        frames.call("exec", sandbox="s", command="echo > /opt/.wh.bin")
        refused = frames.refused("sandbox.commit", sandbox="s", image="no:1")
        assert refused.name == "bad_archive" and "/opt/.wh.bin" in refused.message, refused
        frames.call("exec", sandbox="s", command="echo > /opt/_wh.x; : > /opt/x; python3 -c 'import os; os.remove(\"/opt/.wh.bin\")'")
        frames.call("sandbox.commit", sandbox="s", image="yes:1")
        frames.call("sandbox.create", sandbox="plain", image="base:1")
        assert "writableRoot" in frames.refused("sandbox.commit", sandbox="plain").message
        check_a_cut_archive(frames)
        equal(json.loads(cli("image", "inspect", "no:1", "--images", "store", "--json").stdout or "null"), None)
    equal(os.listdir("store/incoming"), [])
    with serve("none") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image="base:1", writableRoot=True)
        equal(frames.refused("sandbox.commit", sandbox="s", image="no:1").name, "forbidden")
    told = cli("sandbox", "commit", "s")
    equal(told.code, 2, told)


def look(path):
    with open(path) as file:
        return file.read()


USER_ROW = "user:*:1000:1000:user:/home/user:/bin/sh\n"  # each sandbox with root has it behind the image's
ACCOUNTS = f"""import os
for name, row in (('passwd', 'new:x:1002:1002::/home/new:/bin/sh'), ('group', 'new:x:1002:')):
    rows = open('/etc/' + name).read()
    assert name == 'group' or rows.endswith({USER_ROW!r}), rows
    with open('/etc/' + name + '+', 'w') as file: file.write(rows + row + '\\n')
    os.rename('/etc/' + name + '+', '/etc/' + name)"""


def test_owners_of_other_users():
    """The image's root is the user of the box, whichever number that shows; in a box with a root of its own it is root."""
    need_root()
    need_writable_roots()
    app = {"runsAs": {"uid": 1001, "gid": 50, "name": "app", "home": "/home/app"}}
    with serve() as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", image="base:1", imageSettings=app, writableRoot=True)
        python(frames, "a", "open('/opt/mine', 'w').close()")
        frames.call("sandbox.commit", sandbox="a", image="app:1")
        frames.call("sandbox.create", sandbox="r", image="base:1", root=True)
        python(frames, "r", "import os\nfor uid in (0, 33, 1000): open(f'/opt/{uid}', 'w').close(); os.chown(f'/opt/{uid}', uid, uid)")
        python(frames, "r", ACCOUNTS)
        frames.call("sandbox.commit", sandbox="r", image="root:1")
        # as root it may put anything in the place of its accounts: our program follows no link, and writes to no other file
        frames.call("sandbox.create", sandbox="h", image="root:1", root=True)
        python(frames, "h", "import os\nos.link('/etc/passwd', '/etc/linked'); open('/etc/passwd', 'a').write('more')\nos.remove('/etc/group'); os.symlink('../opt/mine', '/etc/group'); open('/opt/mine', 'w').write('user:x:1000:\\n'); os.mkfifo('/etc/passwd-')")
        frames.call("sandbox.commit", sandbox="h", image="root:2")
        frames.call("exec", sandbox="h", command="echo > /opt/.wh.opt")
        equal(frames.refused("sandbox.commit", sandbox="h", image="no:1").name, "bad_archive")
        refused = frames.call("exec", sandbox="h", command="python3 -c 'import os; os.mknod(\"/opt/null\", 0o20666, os.makedev(1, 3))'")
        assert refused["exitCode"] == 1 and "PermissionError" in refused["stderr"], refused
    etc = [f"store/trees/{inspect(f'root:{number}')['tree'].replace(':', '-')}/etc/" for number in (1, 2)]
    equal([look(etc[0] + name) for name in ("passwd", "group")], ["app:x:1001:1001::/home/app:/bin/sh\nnew:x:1002:1002::/home/new:/bin/sh\n", "root:x:0:\nnogroup:x:65534:\nnew:x:1002:\n"])
    equal((look(etc[1] + "linked"), os.readlink(etc[1] + "group"), look(etc[1] + "../opt/mine"), os.path.lexists(etc[1] + "passwd-")),
          (look(etc[0] + "passwd") + USER_ROW + "more", "../opt/mine", "user:x:1000:\n", False))
    for name, owners in (("app:1", {"mine": 0}), ("root:1", {"0": 0, "33": 33, "1000": 1000})):
        tree = f"store/trees/{inspect(name)['tree'].replace(':', '-')}/opt/"
        equal({name: (os.stat(tree + name).st_uid, os.stat(tree + name).st_gid) for name in owners}, {name: (uid, uid) for name, uid in owners.items()})
