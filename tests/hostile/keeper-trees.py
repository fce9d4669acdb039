"""An engine that was taken over has boxes made of what lies in, beside or behind the store of images. The driver plays
the engine. Trees are named by their digest, and by nothing else."""
import contextlib
import fcntl
import os
import shutil
import threading

from cloche import ORDINARY_USER, equal, need_ordinary_user, need_root
from image_trees import make_image
from keeper_boxes import Keeper, Refused

USER = 12345  # of ORDINARY_USER
GOOD, OTHER, LINK, DANGLING, FILE, MISSING = (f"sha256-{digit * 64}" for digit in "01234f")


def outcome(keeper, image):
    """ "made", or the kind of error."""
    try:
        keeper.box(image=image)
    except Refused as refused:
        return refused.code
    return "made"


def make_store(owner):
    """A store with two good trees, and with entries that nobody's import makes."""
    image = make_image()
    trees = os.path.abspath("store/trees")
    os.makedirs(trees)
    for name in (GOOD, OTHER, "image", GOOD.upper(), GOOD[:-1], GOOD + "0"):
        shutil.copytree(image, f"{trees}/{name}", symlinks=True, copy_function=os.link)
        os.remove(f"{trees}/{name}/etc/marker")
        with open(f"{trees}/{name}/etc/marker", "w") as file:
            file.write(name)
    os.symlink(GOOD, f"{trees}/{LINK}")
    os.symlink("/nowhere", f"{trees}/{DANGLING}")
    with open(f"{trees}/{FILE}", "w"):
        pass
    os.rename(image, os.path.abspath("store/outside"))
    for here, directories, files in os.walk("store"):
        for name in (".", *directories, *files):
            os.chown(f"{here}/{name}", owner, owner, follow_symlinks=False)
    os.chmod(f"{trees}/{OTHER}", 0o757)  # as in its image
    os.chmod(trees, 0o700)
    return trees


def refusals(trees):
    for name in ("sha256-", "image", GOOD.upper(), GOOD[:-1], GOOD + "0", GOOD + "/", GOOD + "/.", GOOD + "/../" + OTHER, "../outside", "..", ".", "./" + GOOD, GOOD + "\n",
                 "sha256-" + "../" * 21 + "a", "a" * 4095):
        yield name, "invalid_argument"
    for name in (f"{trees}/{GOOD}", trees, f"{trees}/../outside", "/", "//"):
        yield name, "forbidden"
    for name in (LINK, DANGLING, FILE):
        yield name, "unreadable_file"
    yield MISSING, "not_found"


def check(owner, *before):
    trees = make_store(owner)
    with Keeper(*before, trees=trees) as keeper:
        for name, code in refusals(trees):
            equal((name, outcome(keeper, name)), (name, code))
        for name in (GOOD, OTHER):  # the twins, two images of one keeper
            equal(keeper.box(image=name).said("read -r a < /etc/marker; echo $a; (: > /etc/marker; : > /usr/x) 2> /dev/null"), name + "\n")
        assert "cloche" in keeper.box().said("hostname; ls /usr/bin/env"), "and boxes of the host"
        template = keeper.box(template=True, image=GOOD)
        equal(keeper.box(parent=template.name).said("read -r a < /etc/marker; echo $a"), GOOD + "\n")
        try:
            keeper.box(parent=template.name, image=OTHER)
            raise AssertionError("a box beneath a template got another image")
        except Refused as refused:
            equal(refused.code, "invalid_argument")
        for mode in (0o777, 0o755, 0o710):
            os.chmod(trees, mode)
            equal((mode, outcome(keeper, GOOD)), (mode, "forbidden"))
        os.chmod(trees, 0o700)
        if owner == 0:
            os.chown(trees, USER, USER)
            equal(outcome(keeper, GOOD), "forbidden")
            os.chown(trees, 0, 0)
        equal(outcome(keeper, GOOD), "made")
    with Keeper(*before) as keeper:
        equal(outcome(keeper, GOOD), "forbidden")
        equal(outcome(keeper, ""), "made")
    with Keeper(*before, trees=trees + "/nowhere") as keeper:
        equal(outcome(keeper, GOOD), "not_found")
        equal(outcome(keeper, ""), "made")


def test_roots_keeper():
    need_root()
    check(0)


def test_an_ordinary_users_keeper():
    need_ordinary_user()
    check(USER, *ORDINARY_USER)


def test_a_tree_in_use_is_locked():
    """Its remover takes the lock first, and a box is made of no tree that is being removed."""
    trees = make_store(os.geteuid())
    fd = os.open(f"{trees}/{GOOD}", os.O_RDONLY)

    def remover_locks():
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    with Keeper(trees=trees) as keeper:
        box, second = keeper.box(image=GOOD), keeper.box(image=GOOD)
        assert not remover_locks()
        box.drop()
        assert not remover_locks()
        second.drop()
        assert remover_locks()
        equal(outcome(keeper, GOOD), "invalid_state")
        equal(outcome(keeper, OTHER), "made")
        fcntl.flock(fd, fcntl.LOCK_UN)
        equal(outcome(keeper, GOOD), "made")
    os.close(fd)


@contextlib.contextmanager
def closing_fd(fd):
    try:
        yield fd
    finally:
        os.close(fd)


def replace_in_turn(trees, until):
    """A remover and an importer that never rest: the tree is another directory each time."""
    spare = f"{trees}/spare"
    while not until.is_set():
        with contextlib.suppress(BlockingIOError), closing_fd(os.open(f"{trees}/{GOOD}", os.O_RDONLY)) as fd:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(f"{trees}/{GOOD}", spare)
            os.rename(f"{trees}/{OTHER}", f"{trees}/{GOOD}")
            os.rename(spare, f"{trees}/{OTHER}")


def test_the_tree_of_a_box_is_the_one_that_is_locked():
    trees = make_store(os.geteuid())
    until, made = threading.Event(), 0
    replacer = threading.Thread(target=replace_in_turn, args=(trees, until))
    replacer.start()
    try:
        with Keeper(trees=trees) as keeper:
            while made < 20:
                try:
                    box = keeper.box(image=GOOD)
                except Refused as refused:
                    assert refused.code in ("invalid_state", "not_found"), refused
                    continue
                made += 1
                with open(f"{trees}/{GOOD}/etc/marker") as file:
                    equal(box.said("read -r a < /etc/marker; echo $a"), file.read() + "\n")
                box.drop()
    finally:
        until.set()
        replacer.join()


def images(keeper, method, written=False, path="", root=0, **params):
    """The answer of a program of the image store, or the kind of error."""
    try:
        message = keeper.ask(do="images", method=method, params=params, written=written, path=path, root=root)["message"]
    except Refused as refused:
        return refused.code
    return message.get("result") or message["error"]["message"]


def check_store(owner, *before):
    """An engine that was taken over reads the one store, and changes it only where the operator permits that."""
    trees = make_store(owner)
    os.chmod("store", 0o700)
    with Keeper(*before, trees=trees) as keeper:
        equal(images(keeper, "list"), {"images": []})
        for method in ("import", "remove", "prune", "export"):
            assert method in images(keeper, method, name="x", source="x"), method
            equal(images(keeper, method, written=True, name="x", source="x"), "forbidden")
        for path, root in (("..", 0), ("trees", 0), ("", 1)):
            equal(images(keeper, "list", path=path, root=root), "invalid_argument")
        equal(images(keeper, "list", path="/etc"), "invalid_argument")
        os.chmod("store", 0o711)
        equal(images(keeper, "list"), "forbidden")
        os.chmod("store", 0o700)
        for name in (LINK, DANGLING, FILE):  # prune knows only what imports make
            os.remove(f"{trees}/{name}")
        left = sorted(os.listdir("store/trees"))
    with Keeper(*before, trees=trees, written=True) as keeper:  # the twin
        assert set(images(keeper, "prune", written=True)) >= {"images", "trees"}
        assert "prune" in images(keeper, "prune"), "a reader changes nothing here either"
        assert sorted(os.listdir("store/trees")) != left
    with Keeper(*before) as keeper:
        equal(images(keeper, "list"), "invalid_argument")


def test_the_store_of_roots_keeper():
    need_root()
    check_store(0)


def test_the_store_of_an_ordinary_users_keeper():
    need_ordinary_user()
    check_store(USER, *ORDINARY_USER)
