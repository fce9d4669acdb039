"""Where directories may stand in the box, and which of the host's may be shown: several at once, as their owner, and clear refusals."""
import json
import os
import stat
import subprocess
from cloche import ORDINARY_USER, bad_input, call, cli, equal, need_ordinary_user, need_root
from mounts import at, bash, make, state, tree, value_of
from mounts import call as call_in

state()


def test_places():
    make({"a": "text"})
    for place in ("/data", "/data/deep/er", "/workspace", "/workspace/sub", "/workspace/sub/sub", "/tmp/x", "/home/cloche", "/home/cloche/x", "/mnt/x"):
        result = call_in("return [get(args[0] + '/a'), attempt(put, args[0] + '/new', 'x')]", at(place), args=[place], rule="**=*", sync="manual")
        equal((result.value, result.paths("created")), (["text", "ok"], [f"{place}/new"]), result)


def test_a_place_may_end_in_a_slash():
    make({"a": "text"})
    equal(value_of("return get('/data/a')", at("/data/")), "text")


def test_places_that_are_not_free():
    make({"a": "text"})
    for place, says in [("/", "/"), ("/usr", "/usr"), ("/usr/share/x", "usr"), ("/etc/x", "etc"), ("/proc/x", "proc"), ("/dev", "dev"), ("/run/cloche/x", "run"),
                        ("/data/../x", r"\.\."), ("/data/./x", r"'\.'"), ("/data//x", "absolute path"), ("/" + "x" * 300, "less than")]:
        bad_input("run", "bash", "-c", ":", "--mount", at(place), says=says)


def test_several():
    for name in "abcdefgh":
        make({"own": name}, name)
    mounts = [at(f"/{'data' if name < 'e' else 'workspace'}/{name}", name) for name in "abcdefgh"]
    found = value_of("""
        own = [get(f"/{'data' if n < 'e' else 'workspace'}/{n}/own") for n in "abcdefgh"]
        put("/data/b/new", "b"); put("/workspace/h/new", "h")
        return [own, attempt(os.rename, "/data/a/own", "/data/b/own"), attempt(os.link, "/data/a/own", "/workspace/own")]
    """, mounts, rule="**=*")
    equal(found, [list("abcdefgh"), "EXDEV", "EXDEV"])
    equal([tree(name) for name in "abh"], [{"own": b"a"}, {"own": b"b", "new": b"b"}, {"own": b"h", "new": b"h"}])


def test_one_directory_twice():
    make({"a": "text"})
    equal(value_of("return [get('/data/a'), get('/other/a')]", [at("/data"), at("/other")]), ["text", "text"])


def test_too_many_or_twice():
    make({"a": "text"})
    words = ["run", "bash", "-c", ":"]
    bad_input(*words, *[w for i in range(9) for w in ("--mount", at(f"/m{i}"))], says="more than 8")
    bad_input(*words, "--mount", at("/data"), "--mount", at("/data"), says="'/data' is mounted twice")
    bad_input(*words, "--mount", at("/data"), "--mount", at("/data/"), says="'/data' is given twice")


def test_what_is_neither_directory_nor_file():
    make({"file": "text", "fifo/": None})
    os.mkfifo("host/pipe")
    words = ["run", "bash", "-c", ":"]
    bad_input(*words, "--mount", at(source="host/pipe"), says="host/pipe.*neither a directory nor a file")
    bad_input(*words, "--mount", at(source="absent"), says="absent.*no such file")
    bad_input(*words, "--mount", at(source="host/file/x"), says="host/file/x.*not a directory")


def test_a_link_to_a_directory_and_a_relative_path():
    make({"a": "text"})
    os.symlink("host", "link")
    equal(value_of("return get('/data/a')", at(source="link")), "text")
    equal(value_of("return get('/data/a')", at(source="./host/../host")), "text")
    value_of("put('/data/new', 'x')", at(source="link"), rule="**=*")
    equal((tree()["new"], os.path.islink("link")), (b"x", True))


def own(path, uid, mode):
    os.chown(path, uid, uid)
    os.chmod(path, mode)


def test_another_owners_closed_directory_is_served_as_that_owner():
    need_root()
    make({"a": "text", "sub/b": "b"})
    for path, mode in (("host/a", 0o600), ("host/sub/b", 0o600), ("host/sub", 0o700), ("host", 0o700)):
        own(path, 4321, mode)
    value_of("assert get('/data/sub/b') == 'b'; put('/data/a', 'changed'); put('/data/sub/new', 'new'); os.mkdir('/data/dir')", rule="**=*")
    equal(tree(), {"a": b"changed", "sub/": None, "sub/b": b"b", "sub/new": b"new", "dir/": None})
    for name in ("a", "sub/new", "dir"):
        st = os.stat("host/" + name)
        equal((st.st_uid, st.st_gid), (4321, 4321), name)
    equal(stat.S_IMODE(os.stat("host/a").st_mode), 0o600)


def test_its_owner_can_not_read_what_is_roots():
    need_root()
    make({"mine": "text", "roots": "secret"})
    own("host", 4321, 0o700)
    own("host/mine", 4321, 0o600)
    own("host/roots", 0, 0o600)
    equal(value_of("return [attempt(get, '/data/' + n) for n in ('mine', 'roots')]"), ["ok", "EACCES"])


def test_roots_directory():
    need_root()
    make({"a": "text"})
    own("host", 0, 0o700)
    own("host/a", 0, 0o600)
    value_of("put('/data/a', get('/data/a') + '!')", rule="a=modify")
    equal(tree(), {"a": b"text!"})


def test_the_guest_sees_everything_as_its_own():
    make({"a": "text"})
    equal(value_of("return [os.stat('/data').st_uid, os.stat('/data/a').st_uid, os.getuid(), attempt(os.chown, '/data/a', 0, 0)]", rule="**=*"),
          [1000, 1000, 1000, "EINVAL"], "(the box has no user 0)")


def test_nothing_beside_the_mount_is_reached():
    make({"a": "text"})
    with open("beside", "w") as file:
        file.write("secret")
    equal(bash("cat /data/../beside /data/a/../../beside 2>/dev/null; ls /data/..", rule="**=*").stdout.count(b"secret"), 0)


def test_an_ordinary_user_is_told_what_is_missing():
    """Here /dev/fuse is root's alone; where it is not, his own directory is served."""
    need_ordinary_user()
    os.chmod(".", 0o777)
    make({"a": "text"})
    guards = json.loads(cli("selftest", "--json", under=ORDINARY_USER).stdout)
    missing = ",".join(g["name"] for g in (guards["guards"] if isinstance(guards, dict) else guards) if g["state"] not in ("enforced", "off"))
    options = ["--optional", missing] if missing else []
    finished = cli("run", "bash", "-c", "cat /data/a", "--mount", at(), *options, under=ORDINARY_USER, env={"HOME": os.getcwd()})
    if subprocess.run([*ORDINARY_USER, "test", "-w", "/dev/fuse"]).returncode == 0:
        equal(finished.stdout, b"text", finished)
        return
    assert finished.code in (1, 2) and finished.stdout == b"", finished
    assert b"/dev/fuse" in finished.stderr and len(finished.stderr.splitlines()) == 1, finished
    finished = cli("run", "bash", "-c", "echo well", *options, under=ORDINARY_USER, env={"HOME": os.getcwd()})
    equal(finished.stdout, b"well\n", "(without a mount)")


def test_without_a_mount_there_is_none():
    equal(call("python", "import os\ndef f(): return os.path.exists('/data')").value, False)
