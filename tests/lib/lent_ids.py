"""An ordinary user to whom the host lends ids (subuid(5)), with control groups of its own: this process becomes it, in a mount namespace
where /etc says so. Standard library only."""
import contextlib
import ctypes
import os
import shutil
import subprocess
import sys
import traceback

from cloche import equal, need_ordinary_user, skip

USER, NAME = 12345, "tester"  # the number of ORDINARY_USER
FIRST, FIRST_GROUP = 200000, 300000
LENT = {"subuid": f"{NAME}:{FIRST}:65536\n", "subgid": f"{NAME}:{FIRST_GROUP}:65536\n"}
PROGRAMS = ("newuidmap", "newgidmap")


def show(path, name):
    subprocess.run(["mount", "--bind", path, name], check=True)


def show_etc(files):
    for name in ("passwd", "group"):
        with open("/etc/" + name) as file:
            files[name] = file.read() + f"{NAME}:x:{USER}:" + (f"{USER}::/:/bin/sh\n" if name == "passwd" else "\n")
    os.makedirs("etc", exist_ok=True)
    for name, text in files.items():
        with open("etc/" + name, "w") as file:
            file.write(text)
        if not os.path.exists("/etc/" + name):
            skip(f"/etc/{name} is missing, so that nothing can be shown in its place")
        show("etc/" + name, "/etc/" + name)


@contextlib.contextmanager
def own_groups():
    """Groups of version 1 beneath the test's, into which its child goes."""
    groups = [group + "/user" for group in os.environ.get("CLOCHE_TEST_GROUPS", "").split(":") if os.path.exists(f"{group}/tasks")]
    if not groups:
        skip("the test has no control groups of version 1 that it could hand on")
    for group in groups:
        os.mkdir(group)
        for path in (group, f"{group}/cgroup.procs", f"{group}/tasks"):
            os.chown(path, USER, USER)
    try:
        yield groups
    finally:
        for group in groups:
            os.rmdir(group)


def need_lent_ids():
    need_ordinary_user()
    for name in PROGRAMS:
        if not shutil.which(name):
            skip(f"{name} is not installed")


def become_user(groups, before, hidden, lent):
    if ctypes.CDLL(None).unshare(0x20000):  # CLONE_NEWNS
        raise OSError("unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)
    show_etc({**LENT, **lent})
    before()
    for name in hidden:
        with open(f"etc/{name}", "w"):
            show(f"etc/{name}", shutil.which(name))
    for group in groups:
        with open(group + "/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))
    for here, directories, files in os.walk("."):
        for name in (".", *directories, *files):
            os.chown(f"{here}/{name}", USER, USER, follow_symlinks=False)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)


def as_user(do, before=lambda: None, hidden=(), has_groups=True, **lent):
    """Call do in a child that is this user; the test's directory becomes the user's. before: called as root, in the child's mount namespace. hidden: programs that are not there.
    lent: other texts of subuid and subgid."""
    with own_groups() if has_groups else contextlib.nullcontext(()) as groups:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                become_user(groups, before, hidden, lent)
                do()
                status = 0
            except BaseException:
                traceback.print_exc(file=sys.stdout)
            finally:
                sys.stdout.flush()
                os._exit(status)
        equal(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0, "the child's status")
