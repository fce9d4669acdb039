#!/usr/bin/python3
"""The rights that a mount has: root's daemon serves many users, each with his own and no more."""
import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import need_root
from http_client import Http
from rpc import DAEMON, Daemon, Failed, Frames
from sandbox_client import read_raw

USER, OTHER, TEAM = 54321, 54322, 54777
NAMED = 1  # a user on every host, in no group of the others
WRITES = {"default": {"create": True, "modify": True, "delete": True}}
READ = "import os\nfor name in sorted(os.listdir('m')):\n    try: print(name, open('m/' + name).read())\n    except OSError as e: print(name, e.strerror)"
WRITE = "open('m/new', 'w').write('new')\nopen('m/f', 'w').write('changed')"


class Tree:
    """A directory of root's, with those of others in it, each with a file f."""

    def __enter__(self):
        need_root()
        self.path = tempfile.mkdtemp(prefix="cloched-rights-")
        os.chmod(self.path, 0o755)
        self.make("secret", 0, 0, 0o700)
        self.make("mine", USER, USER, 0o700)
        self.make("others", OTHER, OTHER, 0o755)
        self.make("team", OTHER, TEAM, 0o770)
        self.make("closed", 0, 0, 0o700)
        self.make("closed/inner", USER, USER, 0o777)
        with open(self.at("others/private"), "w") as file:
            file.write("private")
        os.chmod(self.at("others/private"), 0o600)
        os.chown(self.at("others/private"), OTHER, OTHER)
        os.symlink("../secret", self.at("mine/link"))
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def at(self, name):
        return os.path.join(self.path, name)

    def make(self, name, uid, gid, mode):
        os.mkdir(self.at(name))
        with open(self.at(name + "/f"), "w") as file:
            file.write(os.path.basename(name))
        os.chmod(self.at(name + "/f"), 0o664)
        for path in (name, name + "/f"):
            os.chown(self.at(path), uid, gid)
        os.chmod(self.at(name), mode)

    def mount(self, name, permissions=None, mode="manual"):
        return {"dirs": {"/workspace/m": self.at(name)}, "sync": {"mode": mode}, **({"permissions": permissions} if permissions else {})}

    def read(self, name):
        return dict(language="python", code=READ, mount=self.mount(name))

    def write(self, name):
        return dict(language="python", code=WRITE, mount=self.mount(name, WRITES, "batch"))


def asked(frames, method, params):
    """The result, or [name, message] of the error."""
    try:
        return frames.call(method, **params)
    except Failed as error:
        return [error.name, error.message]


def as_user(daemon, questions, uid=USER, groups=(), face=None):
    """The responses to [(method, params)] for this user, with a connection of its own."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(read_end)
            os.setgroups(list(groups))
            os.setgid(uid)
            os.setuid(uid)
            if face == "http":
                with Http(daemon.connect()) as http:
                    answers = [http.post("/v1/" + method, **params)[1] for method, params in questions]
            else:
                with daemon.frames() as frames:
                    answers = [asked(frames, method, params) for method, params in questions]
            with os.fdopen(write_end, "w") as file:
                json.dump(answers, file)
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def served(tree, *options, **more):
    daemon = Daemon("--allow-uid", str(USER), *options, **more)
    os.chmod(daemon.directory, 0o755)
    return daemon


def is_refused(answer, says):
    assert isinstance(answer, list) and answer[0] in ("forbidden", "unreadable_file") and says in answer[1], answer


def is_read(answer, output):
    assert isinstance(answer, dict) and answer["status"] == "success" and answer["stdout"] == output, answer


def test_a_user_reads_what_he_may_read():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        secret, inner, link, others, mine, team = as_user(
            daemon, [("script", tree.read(name)) for name in ("secret", "closed/inner", "mine/link", "others", "mine", "team")])
        for answer in (secret, inner, link, team):
            is_refused(answer, f"user {USER}")
        is_read(others, "f others\nprivate Permission denied\n")
        os.unlink(tree.at("mine/link"))
        is_read(as_user(daemon, [("script", tree.read("mine"))])[0], "f mine\n")
        is_read(as_user(daemon, [("script", tree.read("team"))], groups=[TEAM])[0], "f team\n")
        with daemon.frames() as frames:  # root, as ever
            is_read(frames.call("script", **tree.read("secret")), "f secret\n")
            is_read(frames.call("script", **tree.read("others")), "f others\nprivate private\n")


def test_a_user_reads_by_every_face():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        os.unlink(tree.at("mine/link"))
        secret, mine = as_user(daemon, [("script", tree.read("secret")), ("script", tree.read("mine"))], face="http")
        assert secret["error"]["name"] == "forbidden", secret
        is_read(mine, "f mine\n")


def test_a_user_writes_where_he_may_write():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        others, mine = as_user(daemon, [("script", tree.write("others")), ("script", tree.write("mine"))])
        is_refused(others, "may not write")
        assert mine["status"] == "success" and not mine["sync"]["failed"] and len(mine["sync"]["synced"]) == 2, mine
        for name in ("new", "f"):
            status = os.stat(tree.at("mine/" + name))
            assert (status.st_uid, status.st_gid) == (USER, USER), name
        assert open(tree.at("others/f")).read() == "others" and not os.path.exists(tree.at("others/new"))
        team = as_user(daemon, [("script", tree.write("team"))], groups=[TEAM])[0]
        assert team["status"] == "success" and len(team["sync"]["synced"]) == 2, team
        assert os.stat(tree.at("team/new")).st_uid == USER and open(tree.at("team/f")).read() == "changed"


def test_a_user_syncs_where_he_may_write():
    """Changes that he brings himself, without a run."""
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        changes = [{"type": "created", "path": "/workspace/m/made", "kind": "file", "mode": 0o644, "content": "x"}]
        secret, others, mine = as_user(daemon, [("sync", {"changes": changes, "mount": tree.mount(name, WRITES)}) for name in ("secret", "others", "mine")])
        is_refused(secret, f"user {USER}")
        is_refused(others, "may not write")
        assert len(mine["synced"]) == 1 and os.stat(tree.at("mine/made")).st_uid == USER, mine
        assert not os.path.exists(tree.at("secret/made")) and not os.path.exists(tree.at("others/made"))


def swap(one, other, begun_fd):
    """A process of the user's that exchanges the two as fast as it can; killed at the end."""
    pid = os.fork()
    if pid == 0:
        os.setgid(USER)
        os.setuid(USER)
        libc = ctypes.CDLL(None)
        os.write(begun_fd, b"!")
        while True:
            libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), 2)  # RENAME_EXCHANGE
    return pid


def test_a_link_that_comes_and_goes_leads_nowhere():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        tree.make("mine/d", USER, USER, 0o755)
        ready, begun = os.pipe()
        pid = swap(tree.at("mine/link"), tree.at("mine/d"), begun)
        try:
            os.read(ready, 1)
            for answer in as_user(daemon, [("script", tree.read("mine/d"))] * 15):
                if isinstance(answer, dict):
                    is_read(answer, "f d\n")  # the twin: it was the directory
                else:
                    is_refused(answer, f"user {USER}")
        finally:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(ready)
            os.close(begun)


def test_the_way_to_the_named_directory_counts():
    with Tree() as tree, served(tree, "--mount-root", tree.at("closed/inner")) as daemon:
        is_refused(as_user(daemon, [("script", tree.read("closed/inner"))])[0], f"user {USER}")
        os.chmod(tree.at("closed"), 0o711)
        is_read(as_user(daemon, [("script", tree.read("closed/inner"))])[0], "f inner\n")  # the twin


def test_another_file_system_is_named_by_itself():
    """A user's own file system may be a program that never responds: the daemon never waits for it."""
    with Tree() as tree:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"uid={USER},gid={USER},mode=700", "none", tree.at("closed/inner")], check=True)
        os.chmod(tree.at("closed"), 0o711)
        try:
            with served(tree, "--mount-root", tree.path) as daemon:
                is_refused(as_user(daemon, [("script", tree.read("closed/inner"))])[0], "file system")
            with served(tree, "--mount-root", tree.path, "--mount-root", tree.at("closed/inner")) as daemon:
                is_read(as_user(daemon, [("script", tree.read("closed/inner"))])[0], "")  # the twin
        finally:
            subprocess.run(["umount", "-l", tree.at("closed/inner")], check=True)


def by_token(daemon, params):
    with Frames(daemon.connect_tcp(), token=daemon.token) as frames:
        return asked(frames, "script", params)


def test_callers_with_a_token_have_what_was_named():
    with Tree() as tree:
        with Daemon(tcp=True) as daemon:
            is_refused(by_token(daemon, tree.read("others")), "--mount-root")
        with Daemon("--mount-root", tree.at("others"), tcp=True) as daemon:
            is_read(by_token(daemon, tree.read("others")), "f others\nprivate private\n")  # its owner's rights
            answer = by_token(daemon, tree.read("secret"))
            assert answer[0] == "invalid_argument" and "--mount-root" in answer[1], answer
        with Daemon("--mount-root", f"{tree.path}:{NAMED}", tcp=True) as daemon:
            is_refused(by_token(daemon, tree.read("secret")), f"user {NAMED}")
            is_refused(by_token(daemon, tree.write("others")), "may not write")
            is_read(by_token(daemon, tree.read("others")), "f others\nprivate Permission denied\n")
            with daemon.frames() as frames:
                is_read(frames.call("script", **tree.read("others")), "f others\nprivate private\n")  # root, as ever


def test_roots_that_are_refused():
    need_root()
    for root, word in (("relative", "absolute"), ("/tmp:4294967295", "whole number"), ("/tmp:54321", "no user"), (":5", "absolute"), ("/nowhere:1", "/nowhere")):
        finished = subprocess.run([DAEMON, "--socket", os.path.abspath("socket"), "--state-dir", "", "--mount-root", root], capture_output=True, text=True, timeout=30)
        assert finished.returncode in (1, 2) and word in finished.stderr, (root, finished)


def stop_his_own(daemon, requests):
    """As the user: requests, and whatever runs as him is stopped meanwhile."""
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    frames = daemon.frames()
    for method, params in requests:
        frames.ask(method, **params)
    while True:
        try:
            os.kill(-1, signal.SIGSTOP)
        except ProcessLookupError:
            pass


def test_a_user_who_stops_what_runs_as_him_holds_up_nobody_else():
    global USER
    USER = 54323  # used by no other test, because this one kills all its processes
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        attacker = os.fork()
        if attacker == 0:
            # A directory that cannot be mounted: no server of his is started, which he may stop as he likes.
            stop_his_own(daemon, [("script", tree.read("secret"))] * 300)
        try:
            with daemon.frames() as frames:
                for i in range(3):
                    is_read(frames.call("script", **tree.read("others")), "f others\nprivate private\n")
        finally:
            os.kill(attacker, signal.SIGKILL)
            os.waitpid(attacker, 0)


def nested(tree, outer, inner, file=None, **more):
    dirs = {"/workspace/m": tree.at(outer), "/workspace/m/in": tree.at(inner)}
    if file:
        dirs["/workspace/m/one"] = {"path": tree.at(file), "kind": "file"}
    code = "import os\nprint(sorted(os.listdir('m')), sorted(os.listdir('m/in')))\nfor name in ('m/f', 'm/in/f', 'm/in/private', 'm/one'):\n" \
           "    try: print(name, open(name).read())\n    except OSError as e: print(name, e.strerror)"
    return dict(language="python", code=code, mount={"dirs": dirs, **more})


def test_a_mount_in_another_and_a_file_have_the_callers_rights():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        os.unlink(tree.at("mine/link"))
        good, secret, private, mine = as_user(daemon, [("script", nested(tree, "mine", "others", "others/f")), ("script", nested(tree, "mine", "secret")),
                                                       ("script", nested(tree, "mine", "others", "others/private")), ("script", nested(tree, "others", "mine", "secret/f"))])
        is_read(good, "['f', 'in', 'one'] ['f', 'private']\nm/f mine\nm/in/f others\nm/in/private Permission denied\nm/one others\n")
        is_refused(secret, f"user {USER}")
        is_refused(mine, f"user {USER}")
        is_read(private, "['f', 'in', 'one'] ['f', 'private']\nm/f mine\nm/in/f others\nm/in/private Permission denied\nm/one Permission denied\n")
        with daemon.frames() as frames:  # root's are served each as its owner
            is_read(frames.call("script", **nested(tree, "mine", "others", "others/private")),
                    "['f', 'in', 'one'] ['f', 'private']\nm/f mine\nm/in/f others\nm/in/private private\nm/one private\n")


def test_each_of_two_is_written_as_far_as_the_caller_may():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        mount = {"dirs": {"/workspace/m": tree.at("mine"), "/workspace/m/in": tree.at("others"), "/workspace/m/one": {"path": tree.at("mine/f"), "kind": "file"}}}
        code = "open('m/new', 'w').write('new')\nopen('m/one', 'a').write('!')\nprint(open('m/in/f').read())"
        rules = {"/workspace/m": WRITES, "/workspace/m/one": WRITES}
        mount["dirs"] = {target: {**(what if isinstance(what, dict) else {"path": what}), **({"permissions": rules[target]} if target in rules else {})} for target, what in mount["dirs"].items()}
        written, = as_user(daemon, [("script", dict(language="python", code=code, mount={**mount, "sync": {"mode": "batch"}}))])
        is_read(written, "others\n")
        assert sorted(written["sync"]["synced"]) == ["/workspace/m/new", "/workspace/m/one"], written
        assert (os.stat(tree.at("mine/new")).st_uid, open(tree.at("mine/f")).read()) == (USER, "mine!"), written
        mount["dirs"]["/workspace/m/in"]["permissions"] = WRITES
        refused, = as_user(daemon, [("script", dict(language="python", code=code, mount=mount))])
        is_refused(refused, f"user {USER}")


def test_a_file_that_is_not_called_one():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        with daemon.frames() as frames:
            answer = asked(frames, "script", dict(language="python", code="1", mount={"dirs": {"/x": tree.at("mine/f")}}))
        assert isinstance(answer, list) and 'it is not a directory: mount one file with "kind": "file"' in answer[1], answer
        for kind, says in (("fifo", "kind must be directory or file"), (3, "kind must be directory or file")):
            with daemon.frames() as frames:
                answer = asked(frames, "script", dict(language="python", code="1", mount={"dirs": {"/x": {"path": tree.at("mine/f"), "kind": kind}}}))
            assert isinstance(answer, list) and says in answer[1], answer


def of_sandbox(tree, name, permissions=None):
    return {"sandbox": "s", "mount": {"dirs": {"/mnt/m": tree.at(name)}, **({"permissions": permissions} if permissions else {})}}


CAT = ("exec", {"sandbox": "s", "command": "cat /mnt/m/f; cat /mnt/m/private"})


def test_a_sandbox_has_the_rights_of_the_user_who_made_it():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        os.unlink(tree.at("mine/link"))
        for name in ("secret", "team", "closed/inner"):
            is_refused(as_user(daemon, [("sandbox.create", of_sandbox(tree, name))])[0], f"user {USER}")
        is_refused(as_user(daemon, [("sandbox.create", of_sandbox(tree, "others", WRITES))])[0], "may not write")
        made, read = as_user(daemon, [("sandbox.create", of_sandbox(tree, "others")), CAT])
        assert made["created"] and read["stdout"] == "others" and "Permission denied" in read["stderr"], (made, read)
        with daemon.frames() as frames:  # root's own, of the same name
            frames.call("sandbox.create", **of_sandbox(tree, "secret"))
            assert frames.call(*CAT[:1], **CAT[1])["stdout"] == "secret"


def test_each_start_of_a_sandbox_has_the_rights_of_its_user():
    """Not those of the directory's owner, which requests without a socket of the user would have."""
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        stop = ("sandbox.stop", {"sandbox": "s"})
        as_user(daemon, [("sandbox.create", of_sandbox(tree, "others")), stop])
        raw = get_raw(daemon, "/mnt/m/f")
        assert raw[0] == 403 and b"unix socket" in raw[1], raw
        assert as_user(daemon, [CAT])[0]["stdout"] == "others"
        assert get_raw(daemon, "/mnt/m/f") == (200, b"others")  # the twin
        as_user(daemon, [stop])
        os.chmod(tree.at("others"), 0o700)
        is_refused(as_user(daemon, [CAT])[0], f"user {USER}")
        os.chmod(tree.at("others"), 0o755)
        assert as_user(daemon, [CAT])[0]["stdout"] == "others"


def test_a_sync_of_a_sandbox_has_the_rights_of_its_user():
    with Tree() as tree, served(tree, "--mount-root", tree.path) as daemon:
        os.unlink(tree.at("mine/link"))
        write = ("exec", {"sandbox": "s", "command": "echo new > /mnt/m/new"})
        stop = ("sandbox.stop", {"sandbox": "s", "sync": {}})
        made, _, stopped = as_user(daemon, [("sandbox.create", of_sandbox(tree, "mine", WRITES)), write, stop])
        assert made["created"] and stopped["sync"]["synced"] == ["/mnt/m/new"], stopped
        assert os.stat(tree.at("mine/new")).st_uid == USER
        with daemon.frames() as frames:  # root's own sandbox: as the directory's owner
            frames.call("sandbox.create", **of_sandbox(tree, "others", WRITES))
            frames.call(*write[:1], **write[1])
            frames.call(*stop[:1], **stop[1])
            assert os.stat(tree.at("others/new")).st_uid == OTHER


def get_raw(daemon, path):
    """The status and the body of a file of the user's sandbox; such a request carries no rights."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgid(USER)
            os.setuid(USER)
            with Http(daemon.connect()) as http:
                status = http.begin("GET", "/v1/sandboxes/s/raw?path=" + path)
                os.write(write_end, b"%d " % status + read_raw(http))
        finally:
            os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as file:
        status, body = file.read().split(b" ", 1)
    os.waitpid(pid, 0)
    return int(status), body


def test_a_sandbox_of_a_token_has_what_was_named():
    with Tree() as tree:
        with Daemon(tcp=True) as daemon, Frames(daemon.connect_tcp(), token=daemon.token) as frames:
            is_refused(asked(frames, "sandbox.create", of_sandbox(tree, "others")), "--mount-root")
        with Daemon("--mount-root", f"{tree.path}:{NAMED}", tcp=True) as daemon, Frames(daemon.connect_tcp(), token=daemon.token) as frames:
            is_refused(asked(frames, "sandbox.create", of_sandbox(tree, "secret")), f"user {NAMED}")
            frames.call("sandbox.create", **of_sandbox(tree, "others"))
            for _ in range(2):
                read = frames.call(*CAT[:1], **CAT[1])
                assert read["stdout"] == "others" and "Permission denied" in read["stderr"], read
                frames.call("sandbox.stop", sandbox="s")
