"""Each daemon of root has a user of its own, which stays with its state directory."""
import os
import shutil
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import need_root
from rpc import DAEMON, Daemon, private

FIRST, DRAWN, END = 0x6fff0000, 0x6fffff00, 0x6ffffff0
OF_ALL = 0x6ffffffd  # of every daemon of root, before
STRANGER = 54321


def user_of(pid):
    ids = next(line.split()[1:] for line in open(f"/proc/{pid}/status") if line.startswith("Uid:"))
    assert len(set(ids)) == 1, ids
    return int(ids[0])


def served_by(daemon):
    daemon.frames().close()  # served, so it has come to that
    return user_of(daemon.engine_pid())


class Folder:
    """Where state directories are, which root's daemon can reach."""

    def __enter__(self):
        need_root()
        self.path = tempfile.mkdtemp(prefix="cloche-state-")
        os.chmod(self.path, 0o711)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def daemon(self, name, *options):
        return Daemon("--state-dir", self.at(name), *options)


def owners(path):
    """The users whose files are there."""
    return {os.lstat(os.path.join(top, name)).st_uid for top, folders, names in os.walk(path) for name in ["", *folders, *names]}


def own(path, uid):
    for top, folders, names in os.walk(path):
        for name in ["", *folders, *names]:
            os.lchown(os.path.join(top, name), uid, uid)


def save(folder, name, *options):
    """A daemon with a sandbox that is saved; its user."""
    with folder.daemon(name, *options) as daemon:
        with daemon.frames() as frames:
            frames.call("exec", sandbox="a", command="echo precious > file")
            assert frames.call("call", language="c", code="int main(void) { return 0; }")["status"] == "success"
            user = served_by(daemon)
        assert daemon.stop() == 0
    return user


def has_what_was_saved(daemon):
    with daemon.frames() as frames:
        return frames.call("exec", sandbox="a", command="cat file")["stdout"] == "precious\n"


def test_it_stays_with_the_state_directory():
    with Folder() as folder:
        user = save(folder, "one")
        assert FIRST <= user < DRAWN and owners(folder.at("one")) == {user} and stat.S_IMODE(os.stat(folder.at("one")).st_mode) == 0o700
        with folder.daemon("one") as daemon, folder.daemon("two") as other:
            assert served_by(daemon) == user and has_what_was_saved(daemon)
            assert FIRST <= served_by(other) < DRAWN and served_by(other) != user


def test_daemons_that_start_at_once():
    need_root()
    started = [private("--state-dir", "") for _ in range(6)]
    try:
        for process, frames in started:
            frames.call("stats")
        users = [user_of(process.pid) for process, _ in started]
        assert len(set(users)) == len(users) and all(DRAWN <= user < END for user in users), users
    finally:
        for process, frames in started:
            frames.close()
            process.wait(timeout=30)
    process, frames = private()
    try:
        frames.call("stats")
        assert user_of(process.pid) in range(DRAWN, END), "one that is free again"
    finally:
        frames.close()
        process.wait(timeout=30)


def test_a_directory_of_the_time_before():
    """All daemons of root had one user then: its files get the daemon's own user."""
    with Folder() as folder:
        save(folder, "old")
        own(folder.at("old"), OF_ALL)
        with folder.daemon("old") as daemon:
            user = served_by(daemon)
            assert FIRST <= user < DRAWN and owners(folder.at("old")) == {user} and has_what_was_saved(daemon)


def test_a_copy_gets_another():
    with Folder() as folder:
        user = save(folder, "one")
        subprocess.run(["cp", "-a", folder.at("one"), folder.at("copy")], check=True)
        with folder.daemon("one") as daemon:
            assert served_by(daemon) == user
            with folder.daemon("copy") as other:
                assert served_by(other) != user
                assert owners(folder.at("copy")) == {served_by(other)} and owners(folder.at("one")) == {user}
                assert has_what_was_saved(daemon) and has_what_was_saved(other)


def test_one_that_was_given_by_half():
    with Folder() as folder:
        save(folder, "one")
        os.chmod(folder.at("one"), 0)  # as it is meanwhile
        os.lchown(folder.at("one"), FIRST + 7, FIRST + 7)
        with folder.daemon("one") as daemon:
            assert {served_by(daemon)} == owners(folder.at("one")) and has_what_was_saved(daemon)


def test_what_was_left_there_is_not_followed():
    """A daemon that was taken over leaves links for root, which gives its directory away."""
    with Folder() as folder:
        save(folder, "old")
        os.makedirs(folder.at("victim/a"))
        with open(folder.at("victim/a/file"), "w") as file:
            file.write("root's")
        with open(folder.at("strangers"), "w") as file:
            file.write("a stranger's")
        os.chown(folder.at("strangers"), STRANGER, STRANGER)
        os.symlink(folder.at("victim"), folder.at("old/0/link"))
        os.symlink(folder.at("victim/a/file"), folder.at("old/link"))
        own(folder.at("old"), OF_ALL)
        os.link(folder.at("victim/a/file"), folder.at("old/hard"))
        os.link(folder.at("strangers"), folder.at("old/0/hard"))
        with folder.daemon("old") as daemon:
            user = served_by(daemon)
            assert owners(folder.at("victim")) == {0} and os.stat(folder.at("strangers")).st_uid == STRANGER
            assert os.lstat(folder.at("old/0/link")).st_uid == user and has_what_was_saved(daemon)


def test_a_directory_that_is_nobodys_of_ours():
    with Folder() as folder:
        for owner, files in ((0, ["x"]), (STRANGER, []), (END, []), (FIRST - 1, [])):
            os.mkdir(folder.at("d"))
            for name in files:
                open(folder.at("d/" + name), "w").close()
            own(folder.at("d"), owner)
            finished = subprocess.run([DAEMON, "--socket", folder.at("socket"), "--state-dir", folder.at("d")], capture_output=True, text=True, timeout=30)
            assert finished.returncode == 2 and "must be a new or empty directory of root" in finished.stderr, (owner, finished)
            assert os.stat(folder.at("d")).st_uid == owner
            shutil.rmtree(folder.at("d"))


def test_builds_are_its_own():
    with Folder() as folder:
        user = save(folder, "one")
        builds = os.path.join(folder.at("one"), ".builds")
        assert os.listdir(builds) and owners(builds) == {user}
        before = {name: os.stat(os.path.join(builds, name)).st_ino for name in os.listdir(builds)}
        assert save(folder, "one") == user
        assert {name: os.stat(os.path.join(builds, name)).st_ino for name in os.listdir(builds)} == before, "not built again"
