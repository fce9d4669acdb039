"""A sandbox whose root is writable: an overlay on each directory of its image, in its quota. The guest changes what it sees, and
nothing else: neither the image, nor what overlayfs believes, nor another box. Every wall holds in each place where layers can lie.
The driver plays the engine."""
import functools
import os
import shutil
import subprocess

import guest_acts
from cloche import ORDINARY_USER, equal, layer_places, need_ordinary_user, skip
from guest_acts import run_acts
from image_trees import make_image
from keeper_boxes import SCRATCH, Keeper, refusal

USER = 12345  # of ORDINARY_USER
TREE = "sha256-" + "5" * 64
MAKE, OPEN, CLOSE = range(3)  # actions of volumes
LIMITS = {"diskBytes": 16 << 20, "diskInodes": 1000}
os.environ["BOX_DRIVER_VOLUMES"] = os.path.abspath("volumes")

ACTS = guest_acts.ACTS + r"""
def get(path):
    with open(path) as file: return file.read()
"""


def make_store():
    """A tree with files of root's, of another user's, and a set-user-id file."""
    trees = os.path.abspath("store/trees")
    if os.path.exists(trees):  # of the test's run with layers in another place; no box can change it
        return trees
    os.makedirs(trees)
    os.chmod(trees, 0o700)
    tree = f"{trees}/{TREE}"
    shutil.copytree(make_image(), tree, symlinks=True, copy_function=os.link)
    for path in ("opt/lib/inner", "var/log", "srv"):
        os.makedirs(f"{tree}/{path}")
    for path in ("opt/lib/a", "opt/lib/inner/b", "opt/setid", "opt/others", "var/log/old", "srv/page"):
        with open(f"{tree}/{path}", "w") as file:
            file.write("image")
    os.chmod(f"{tree}/opt/setid", 0o4755)
    os.chown(f"{tree}/opt/others", 33, 33)
    return trees


def facts(tree):
    """All that a box could change."""
    found = {}
    for top, folders, names in os.walk(tree):
        for name in folders + names:
            path = os.path.join(top, name)
            status = os.lstat(path)
            found[path] = (status.st_mode, status.st_uid, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
    return found


def run(box, script):
    return run_acts(box, ACTS + script)


def sandbox(keeper, place, **more):
    return keeper.sandbox_on(place, image=TREE, writable_root=True, **{"limits": LIMITS, **more})


def in_each_place(test):
    """Run it for layers in memory, and for layers on the disk."""
    @functools.wraps(test)
    def tests():
        for place in layer_places():
            print(f"layers: {place}", flush=True)
            test(place)
    return tests


CHANGE = r"""
act('append', lambda: put('/opt/lib/a', '+')); act('reads', lambda: get('/opt/lib/a'))
act('etc', lambda: put('/etc/added', 'x')); act('log', lambda: put('/var/log/new', 'x'))
act('usr', lambda: put('/usr/bin/tool', 'x')); act('home', lambda: os.makedirs('/home/user/x'))
act('unlink', lambda: os.unlink('/var/log/old')); act('gone', lambda: get('/var/log/old'))
act('replace', lambda: (os.unlink('/opt/lib/inner/b'), os.rmdir('/opt/lib/inner'), os.mkdir('/opt/lib/inner'), '')[3])
act('empty', lambda: str(os.listdir('/opt/lib/inner')))
act('mine', lambda: os.setxattr('/opt/lib/a', 'user.mine', b'1'))
act('link', lambda: os.link('/opt/lib/a', '/opt/lib/c'))
"""
CHANGED = {"append": "done", "reads": "image+", "etc": "done", "log": "done", "usr": "done", "home": "done", "unlink": "done", "gone": "ENOENT", "replace": "done", "empty": "[]", "mine": "done", "link": "done"}


@in_each_place
def test_the_guest_changes_its_own_view(place):
    trees = make_store()
    before = facts(trees)
    with Keeper(trees=trees) as keeper:
        one, other = sandbox(keeper, place), sandbox(keeper, place)
        equal(run(one, CHANGE), CHANGED)
        look = "echo $(</opt/lib/a) /opt/lib/inner/* /var/log/*"
        equal(one.share().said(look), "image+ /opt/lib/inner/* /var/log/new\n")
        equal(other.said(look), "image /opt/lib/inner/b /var/log/old\n")
        plain = keeper.sandbox(image=TREE, limits=LIMITS)
        equal(run(plain, "act('append', lambda: put('/opt/lib/a', '+')); act('etc', lambda: put('/etc/added', 'x'))"), {"append": "EACCES", "etc": "EROFS"})
    equal(facts(trees), before)


FORGE = r"""
act('others', lambda: put('/opt/others', '+'))
for name in ('opaque', 'redirect', 'metacopy', 'origin', 'upper'):
    act('trusted.' + name, lambda: os.setxattr('/opt/lib/a', 'trusted.overlay.' + name, b'y'))
os.mkdir('/opt/made'); put('/opt/made/x', '1')
for name, value in (('opaque', b'y'), ('redirect', b'/etc')):
    try: os.setxattr('/opt/lib', 'user.overlay.' + name, value)
    except OSError: pass  # Linux 6.6 refuses it, a later one keeps it under another name
act('lib', lambda: ' '.join(sorted(os.listdir('/opt/lib'))))
act('whiteout', lambda: os.mknod('/opt/lib/w', stat.S_IFCHR, 0))
act('null', lambda: os.mknod('/opt/lib/n', stat.S_IFCHR | 0o666, os.makedev(1, 3)))
act('disk', lambda: os.mknod('/opt/lib/d', stat.S_IFBLK | 0o666, os.makedev(8, 0)))
put('/opt/setid', '+')
act('written-setid', lambda: oct(os.stat('/opt/setid').st_mode & 0o7777))
act('nosuid', lambda: str(bool(os.statvfs('/opt').f_flag & 2)))
import ctypes
def whiteout():  # renameat2(2) with RENAME_WHITEOUT
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, b'/opt/made/x', -100, b'/opt/made/y', 4): raise OSError(ctypes.get_errno(), 'renameat2')
act('rename-whiteout', whiteout)
act('out', lambda: os.link('/opt/lib/a', '/workspace/a'))
act('in', lambda: (put('/workspace/w', ''), os.link('/workspace/w', '/opt/w'))[1])
act('mountpoint', lambda: os.rename('/opt', '/tmp/opt'))
act('remove', lambda: os.rmdir('/srv'))
act('upper', lambda: str([path for path in ('/workspace/upper', '/workspace/work', '/upper', '/work') if os.path.exists(path)]))
act('mounts', lambda: str(any(word in line for line in open('/proc/self/mountinfo') for word in ('/store/trees', 'sha256-'))))
"""
FORGED = {**{f"trusted.{name}": "EPERM" for name in ("opaque", "redirect", "metacopy", "origin", "upper")}, "others": "EACCES", "lib": "a inner", "whiteout": "EPERM", "null": "EPERM", "disk": "EPERM", "written-setid": "0o755", "nosuid": "True", "rename-whiteout": "EINVAL", "out": "EXDEV", "in": "EXDEV", "mountpoint": "EXDEV", "remove": "EBUSY", "upper": "[]", "mounts": "False"}


@in_each_place
def test_the_guest_forges_nothing(place):
    trees = make_store()
    before = facts(trees)
    with Keeper(trees=trees) as keeper:
        said = run(sandbox(keeper, place), FORGE)
    equal(said, FORGED)
    equal(facts(trees), before)


FILL = r"""
def fill(path):
    with open(path, 'wb', buffering=0) as file:
        for _ in range(64): file.write(bytes(1 << 20))
def many(path):
    os.mkdir(path)
    for number in range(2000): open(f'{path}/{number}', 'w').close()
act('bytes', lambda: fill('/opt/big')); act('elsewhere', lambda: fill('/workspace/rest'))
print('together', 15 << 20 < os.path.getsize('/opt/big') + os.path.getsize('/workspace/rest') < 17 << 20)
os.unlink('/opt/big'); act('room', lambda: put('/workspace/small', 'x' * 100000))
act('inodes', lambda: many('/var/many')); print('made', len(os.listdir('/var/many')) > 900)
"""
FILLED = {"bytes": "ENOSPC", "elsewhere": "ENOSPC", "together": "True", "room": "done", "inodes": "ENOSPC", "made": "True"}


@in_each_place
def test_the_layer_is_in_the_quota(place):
    trees = make_store()
    with Keeper(trees=trees) as keeper:
        equal(run(sandbox(keeper, place), FILL), FILLED)


@in_each_place
def test_where_the_mounts_of_the_host_are_shared(place):
    """As systemd makes them. A box's mounts on its copy of the tree reach nobody."""
    here = os.getcwd()
    subprocess.run(["mount", "--bind", ".", "."], check=True)
    try:
        subprocess.run(["mount", "--make-shared", "."], check=True)
        os.chdir(os.getcwd())  # into the mount
        trees = make_store()
        with Keeper(trees=trees) as keeper:
            equal(run(sandbox(keeper, place), "act('append', lambda: put('/opt/lib/a', '+'))"), {"append": "done"})
            with open("/proc/self/mountinfo") as file:
                equal([line for line in file if TREE in line], [])
    finally:
        subprocess.run(["umount", "--lazy", "."], check=True)
        os.chdir(here)  # out of it


def test_an_ordinary_users_keeper():
    """The tree's files are that user's, and so the box's: nothing is mapped. The same walls; volumes, and so layers on the disk, are root's."""
    need_ordinary_user()
    if "memory" not in layer_places():
        skip("this kernel has no layers in memory")
    trees = make_store()
    for here, directories, files in os.walk("store"):
        for name in (".", *directories, *files):
            os.chown(f"{here}/{name}", USER, USER, follow_symlinks=False)
    os.chmod(f"{trees}/{TREE}/opt/setid", 0o4755)
    before = facts(trees)
    others = {"others": "done"}  # it has no other owners
    with Keeper(*ORDINARY_USER, trees=trees) as keeper:
        template = keeper.template(image=TREE)
        for script, expected in ((CHANGE, CHANGED), (FORGE, {**FORGED, **others}), (FILL, FILLED), (RAW, SHOWN)):
            equal(run(sandbox(keeper, "memory"), script), expected)
        for script, expected in ((CHANGE, CHANGED), (FORGE, {**FORGED, **others})):
            box = sandbox(keeper, "memory")
            equal(guest_acts.words_of(box.context(template).ran(ACTS + script)), expected)
        equal(refusal(keeper.ask, do="volume", action=SCRATCH, id="1" * 32, size=1 << 20, entries=1000).code, "forbidden")
        equal(keeper.sandbox(image=TREE).said("echo $(</opt/lib/a)"), "image\n")
    equal(facts(trees), before)


@in_each_place
def test_requests_that_are_refused(place):
    trees = make_store()
    with Keeper(trees=trees) as keeper:
        for spec in ({"image": TREE}, {"sandbox": True}):
            equal(refusal(keeper.box, writable_root=True, **spec).code, "invalid_argument")
        equal(keeper.sandbox(image=TREE).said("echo $(</opt/lib/a)"), "image\n")


@in_each_place
def test_the_longest_name_of_a_layer(place):
    trees = make_store()
    with Keeper(trees=trees) as keeper:
        names = [f"{trees}/{TREE}/{'d' * size}" for size in (239, 240)]
        os.mkdir(names[0])
        sandbox(keeper, place)
        os.mkdir(names[1])
        refused = refusal(sandbox, keeper, place)
        assert "240 bytes" in refused.message and "at most 239: rename it" in refused.message, refused
        for name in names:  # the store is that of the other place, too
            os.rmdir(name)


# ---- saved and restored -----------------------------------------------------------------------------------------------

MORE = r"""
os.mkdir('/opt/file'); put('/opt/file/x', '1'); os.unlink('/srv/page'); os.mkdir('/srv/page'); put('/srv/page/y', '2')
os.symlink('/etc/passwd', '/var/log/link'); put('/opt/shut', 's'); os.chmod('/opt/shut', 0)
os.mkdir('/opt/closed'); put('/opt/closed/in', '3'); os.chmod('/opt/closed', 0); os.link('/opt/lib/a', '/opt/lib/d')
os.rename('/usr/bin/tool', '/usr/bin/renamed'); os.mkdir('/opt/lib/inner/new'); os.chmod('/var/log', 0o700); os.mkfifo('/opt/pipe')
"""
SAVE = "import base64, subprocess; print('saved', base64.b64encode(subprocess.run(['cloche-files', '--pack', '/'], stdout=subprocess.PIPE, check=True).stdout).decode())"
RESTORE = r"""
import base64, subprocess
done = subprocess.run(['cloche-files', '--unpack', '/'], input=base64.b64decode(sys.stdin.readline()), stderr=subprocess.PIPE)
print('restored', done.returncode, done.stderr.decode().replace('\n', ' '))
"""
LOOK = r"""
import hashlib, json
def look(top):
    found = {}
    for here, folders, names in os.walk(top):
        for name in folders + names:
            path = f'{here}/{name}'
            status = os.lstat(path)
            kind = stat.S_IFMT(status.st_mode)
            if kind == stat.S_IFIFO: continue
            said = os.readlink(path) if kind == stat.S_IFLNK else hashlib.sha256(open(path, 'rb').read()).hexdigest() if kind == stat.S_IFREG and os.access(path, os.R_OK) else ''
            found[path] = [status.st_mode, said]
    return found
print('sees', json.dumps([look(top) for top in ('/opt', '/etc', '/var', '/srv', '/usr/bin', '/home')], sort_keys=True))
"""


def with_saver(trees):
    shutil.copy(os.path.join(os.environ["CLOCHE_BUILD"], "cloche-files"), f"{trees}/{TREE}/usr/bin/cloche-files")
    return trees


def restored(box, data):
    program = box.python(ACTS + RESTORE)
    program.write(data + "\n")
    said = program.read()
    program.wait()
    program.close()
    return guest_acts.words_of(said)["restored"]


@in_each_place
def test_changes_are_saved_and_come_back(place):
    trees = with_saver(make_store())
    with Keeper(trees=trees) as keeper:
        one, other = sandbox(keeper, place), sandbox(keeper, place)
        fresh = run(other, LOOK)
        run(one, CHANGE + MORE)
        data = run(one, SAVE)["saved"]
        seen = run(one, LOOK)
        assert seen != fresh and '"/opt/closed": [16384' in seen["sees"], seen
        equal(restored(other, data), "0 ")
        equal(run(other, LOOK), seen)
        equal(run(other, "os.chmod('/opt/closed', 0o700); act('in', lambda: get('/opt/closed/in')); act('a', lambda: str(os.stat('/opt/lib/a').st_nlink))"), {"in": "3", "a": "3"})
        again = sandbox(keeper, place)  # a save of what was restored
        equal(restored(again, run(other, SAVE)["saved"]), "0 ")
        equal(run(again, LOOK), run(other, LOOK))
        plain = keeper.sandbox(image=TREE, limits=LIMITS)  # without layers they are passed over
        equal(restored(plain, data), "0 ")
        equal(run(plain, "act('a', lambda: get('/opt/lib/a'))"), {"a": "image"})


def archive(*members):
    """A save with these members: (name, type, link). The root, with which a real one begins, would clear the box's."""
    import base64
    import io
    import tarfile
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, link in members:
            info = tarfile.TarInfo(name)
            info.type, info.linkname, info.mode = kind, link, 0o755
            tar.addfile(info)
    return base64.b64encode(out.getvalue()).decode()


@in_each_place
def test_forged_changes(place):
    """They do what the guest could do itself, or nothing."""
    from tarfile import CHRTYPE, DIRTYPE, LNKTYPE, REGTYPE
    trees = with_saver(make_store())
    before = facts(trees)
    with Keeper(trees=trees) as keeper:
        box = sandbox(keeper, place)
        for name in ("opt", "usr", "none", "proc", "none/x"):  # mount points, and what the image has not
            equal(restored(box, archive((f"run/.changes/{name}", CHRTYPE, ""))), "0 ")
        for name, kind, link in (("workspace/x", CHRTYPE, ""), ("opt/lib/a", CHRTYPE, ""), ("run/.changes/../etc/x", CHRTYPE, ""), ("run/.changes/", CHRTYPE, ""),
                                 ("run/.changes/opt/x", LNKTYPE, "workspace/w"), ("run/.changes/opt/x", LNKTYPE, "run/.changes/../w")):
            said = restored(box, archive((name, kind, link)))
            assert not said.startswith("0 "), (name, said)
        equal(run(box, "act('a', lambda: get('/opt/lib/a')); act('proc', lambda: str(os.path.exists('/proc/self')))"), {"a": "image", "proc": "True"})
        equal(restored(box, archive(("run/.changes/opt/lib", CHRTYPE, ""), ("run/.changes/opt/lib", DIRTYPE, ""), ("run/.changes/opt/lib/z", REGTYPE, ""))), "0 ")  # the twin
        equal(run(box, "act('lib', lambda: str(os.listdir('/opt/lib')))"), {"lib": "['z']"})
    equal(facts(trees), before)


@in_each_place
def test_contexts_have_the_same_walls(place):
    """A box beneath a template has the sandbox's overlays, in another user namespace. All that the sandbox may do it may, and no more."""
    trees = make_store()
    before = facts(trees)
    with Keeper(trees=trees) as keeper:
        template = keeper.template(image=TREE)

        def ran(box, script):
            return guest_acts.words_of(box.context(template).ran(ACTS + script))
        for script, expected in ((CHANGE, CHANGED), (FORGE, FORGED), (FILL, FILLED)):
            box = sandbox(keeper, place)
            equal(ran(box, script), expected)
        box = sandbox(keeper, place)
        run(box, CHANGE)
        equal(ran(box, LOOK), run(box, LOOK))
        equal(ran(box, "act('upper', lambda: str(os.path.exists('/run/.changes')))"), {"upper": "False"})
        # Neither a context of another sandbox nor a run of the template has them.
        plain = "act('a', lambda: get('/opt/lib/a')); act('write', lambda: put('/opt/lib/a', '+')); act('etc', lambda: put('/etc/x', '+'))"
        equal(ran(keeper.sandbox(image=TREE), plain), {"a": "image", "write": "EACCES", "etc": "EROFS"})
        run_box = keeper.box(parent=template.name)
        equal(guest_acts.words_of(run_box.ran(ACTS + plain)), {"a": "image", "write": "EACCES", "etc": "EROFS"})
        # A file that the template has mapped is changed: forks into this sandbox fail, others do not.
        equal(box.said("echo x >> $(echo /usr/bin/python3.*) && echo done"), "done\n")
        equal(box.context(template).forked_in_vain(), "")
        equal(ran(sandbox(keeper, place), "act('fork', lambda: 'lives')"), {"fork": "lives"})
    equal(facts(trees), before)


def test_a_scratch_volume_is_one_boxs():
    """Two upper layers in one would see each other's files; as a mount it would show the layers."""
    if "disk" not in layer_places():
        skip("this kernel has no layers on the disk")
    one, other, kept = ("%032x" % number for number in (1, 2, 3))
    with Keeper(trees=make_store()) as keeper:
        def layered(name):
            return keeper.sandbox(image=TREE, writable_root=True, scratch=name)
        for name in (one, other):
            keeper.ask(do="volume", action=SCRATCH, id=name, size=LIMITS["diskBytes"], entries=1000)
        keeper.ask(do="volume", action=MAKE, id=kept, size=LIMITS["diskBytes"])
        keeper.ask(do="volume", action=OPEN, id=kept)
        box = layered(one)
        equal(box.said("echo x > /opt/x && echo $(</opt/x)"), "x\n")
        for name in (one, kept, "4" * 32):
            equal(refusal(layered, name).code, "invalid_state")
        for name in (one, other):
            equal(refusal(keeper.sandbox, image=TREE, mount="/data", volume=name).code, "invalid_state")
        equal(keeper.sandbox(image=TREE, mount="/data", volume=kept).said("echo y > /data/y && echo $(</data/y)"), "y\n")  # the twin
        keeper.ask(do="volume", action=CLOSE, id=one)  # its box goes on
        equal(box.said("echo more >> /opt/x && echo $(</opt/x)"), "x more\n")
        equal(refusal(layered, one).code, "invalid_state")
        equal(layered(other).said("echo /opt/x*"), "/opt/x*\n")
        equal(os.listdir("volumes"), [kept + ".img"])  # these have no name


RAW = r"""
put('/opt/lib/a', '+'); os.unlink('/var/log/old'); raw = '/run/.changes'
act('read', lambda: get(raw + '/opt/lib/a')); act('whiteout', lambda: str(stat.S_ISCHR(os.lstat(raw + '/var/log/old').st_mode)))
act('attribute', lambda: os.setxattr(raw + '/opt/lib', 'user.overlay.opaque', b'y')); act('mknod', lambda: os.mknod(raw + '/w', stat.S_IFCHR, 0))
act('write', lambda: put(raw + '/opt/lib/a', '+')); act('unlink', lambda: os.unlink(raw + '/var/log/old')); act('chmod', lambda: os.chmod(raw + '/opt/lib/a', 0o777))
act('link', lambda: os.link(raw + '/opt/lib/a', '/workspace/a')); act('rename', lambda: os.rename(raw + '/opt/lib/a', '/opt/b'))
act('mountpoint', lambda: os.rmdir(raw))
"""
SHOWN = {"read": "image+", "whiteout": "True", "attribute": "EROFS", "mknod": "EROFS", "write": "EROFS", "unlink": "EROFS", "chmod": "EROFS",
         "link": "EXDEV", "rename": "EXDEV", "mountpoint": "EROFS"}


@in_each_place
def test_the_layers_are_shown_read_only(place):
    with Keeper(trees=make_store()) as keeper:
        equal(run(sandbox(keeper, place), RAW), SHOWN)
