"""An engine that was taken over has boxes made of directories that it may not read: their image, or
their runtime. The driver plays the engine; the guest, chosen by the engine, reads the files in a
box. The keeper is root's, or an ordinary user's."""
import os
import shutil
import tempfile

from cloche import ORDINARY_USER, equal, need_ordinary_user, need_root
from keeper_boxes import RUNTIMES, Keeper, Refused

USER = 12345  # of ORDINARY_USER
PYTHON = os.path.join(RUNTIMES, "python")


def outcome(keeper, **sources):
    """True if a box was made from that, and the kind of error."""
    try:
        keeper.box(**sources)
    except Refused as refused:
        return refused.code
    return "made"


def closed_directory(owner, mode):
    """Only its owner may enter it. The file is in a directory that everybody may enter."""
    directory = tempfile.mkdtemp(prefix="keeper-sources-")
    below, path = directory + "/open", directory + "/open/file"
    os.mkdir(below, 0o755)
    with open(path, "w") as file:
        file.write("secret")
    os.chmod(path, mode)
    for made in (path, below, directory):
        os.chown(made, owner, owner)
    return directory


def check(owner, mode, *before):
    directory = closed_directory(owner, mode)
    try:
        with Keeper(*before) as keeper:
            for sources in ({"runtime": directory + "/open"}, {"image": directory}, {"runtime": PYTHON + "/../../../" + directory + "/open"}, {"runtime": os.path.dirname(PYTHON)},
                            {"image": "/"}, {"runtime": PYTHON + "/."}, {"runtime": PYTHON + "/.."}):
                equal((sources, outcome(keeper, **sources)), (sources, "forbidden"))
            sandbox = keeper.sandbox()
            for runtime in (directory + "/open", os.path.dirname(PYTHON), PYTHON + "/.."):
                equal((runtime, outcome(keeper, shared=sandbox.name, runtime=runtime)), (runtime, "forbidden"))
            said = sandbox.share(runtime=PYTHON).said("ls /run/cloche; echo; ls -l /proc/1/fd /proc/$$/fd 2>&1")
            assert "agent.py" in said and directory not in said and RUNTIMES not in said, said
            equal(outcome(keeper), "made")  # the twins
            said = keeper.box(runtime=PYTHON).said("ls /run/cloche")
            assert "agent.py" in said, said
    finally:
        shutil.rmtree(directory)


def test_roots_keeper():
    need_root()
    check(0, 0o644)


def test_an_ordinary_users_keeper():
    need_ordinary_user()
    check(USER, 0o600, *ORDINARY_USER)  # the user mapped in the box
