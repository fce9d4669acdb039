"""A run's changes to a directory are reported completely, and written so: renames, odd names, deep
trees, holes, modes, links, virtual files."""
import json
import os
import stat
import subprocess
from cloche import BUILD, cli, equal, write_file
from mounts import at, bash, call, make, rules, state, tree, value_of

state()
TIMEOUT = 120


def test_kinds_of_changes():
    make({"kept": "k", "a": "old", "gone": "g", "dir/x": "x"})
    result = call("""
        put("/data/a", "new"); os.unlink("/data/gone"); put("/data/made", "m"); os.makedirs("/data/deep/er"); os.symlink("a", "/data/link")
        os.unlink("/data/dir/x"); os.rmdir("/data/dir"); put("/data/shortlived", "s"); os.unlink("/data/shortlived"); get("/data/kept")
    """, rule="**=*")
    equal([result.paths(kind) for kind in ("created", "modified", "deleted")],
          [["/data/deep", "/data/deep/er", "/data/link", "/data/made"], ["/data/a"], ["/data/dir", "/data/dir/x", "/data/gone"]])
    change = result.files["modified"][0]
    equal((change["content"], change["size"], change["realPath"], change["kind"]), ("new", 3, os.path.abspath("host/a"), "file"))
    assert change["timestamp"] > 1.6e12, change
    equal(sorted(result.raw["sync"]["synced"]), sorted(p for kind in ("created", "modified", "deleted") for p in result.paths(kind)))
    equal(tree(), {"kept": b"k", "a": b"new", "made": b"m", "deep/": None, "deep/er/": None, "link": ("a",)})


def test_given_contents_are_kept_apart():
    """Also those of an empty file, in front of others."""
    contents = ["", "data", "", "more"]
    changes = [{"type": "created", "path": f"/workspace/m/{i}", "kind": "file", "content": content} for i, content in enumerate(contents)]
    os.mkdir("set")
    subprocess.run([os.path.join(BUILD, "tests/given-changes"), make({}), "set", json.dumps(changes)], check=True, timeout=TIMEOUT,
                   env={**os.environ, "CLOCHE_LIBEXEC": BUILD, "CLOCHE_RUNTIMES": os.path.join(BUILD, "runtimes")})
    found = sorted(open(os.path.join(directory, name)).read() for directory, _, names in os.walk("set") for name in names if not name.endswith(".json"))
    equal(found, sorted(contents))


def test_renames_are_pairs_that_name_each_other():
    make({"a": "a", "dir/x": "x", "dir/y": "y"})
    result = call("os.rename('/data/a', '/data/b'); os.rename('/data/dir', '/data/moved'); put('/data/moved/x', 'changed')", rule="**=*")
    pairs = {c["path"]: c["renamedFrom"] for c in result.files["created"] if "renamedFrom" in c}
    equal(pairs, {"/data/b": "/data/a", "/data/moved": "/data/dir"}, result)
    equal({c["path"]: c["renamedTo"] for c in result.files["deleted"]}, {old: new for new, old in pairs.items()}, result)
    equal(result.paths("modified"), ["/data/moved/x"], result)
    equal(tree(), {"b": b"a", "moved/": None, "moved/x": b"changed", "moved/y": b"y"})


def test_names_that_were_traded():
    make({"a": "a", "b": "b", "c/x": "x", "d/y": "y"})
    value_of("""
        for one, other in (("a", "b"), ("c", "d")):
            os.rename(f"/data/{one}", "/data/aside"); os.rename(f"/data/{other}", f"/data/{one}"); os.rename("/data/aside", f"/data/{other}")
    """, rule="**=*")
    equal(tree(), {"a": b"b", "b": b"a", "c/": None, "c/y": b"y", "d/": None, "d/x": b"x"})


def test_a_file_and_a_directory_take_each_others_place():
    make({"file": "f", "dir/x": "x"})
    value_of("os.unlink('/data/file'); os.makedirs('/data/file/in'); os.unlink('/data/dir/x'); os.rmdir('/data/dir'); put('/data/dir', 'now')", rule="**=*")
    equal(tree(), {"file/": None, "file/in/": None, "dir": b"now"})


def test_odd_names():
    names = [b"line\nfeed", b"\xff\xfe not utf-8 \x80", b"tab\there", b" ", b"-rf", b"'\"$(x)`", b"\\x41", b"\x1b[31m", "ü€😀".encode(), b"n" * 255, b"*?[a]{b,c}"]
    make({os.fsdecode(name): name for name in names})
    code = f"""
        names = {names!r}
        assert sorted(os.listdir(b"/data")) == sorted(names), os.listdir(b"/data")
        for name in names:
            assert open(b"/data/" + name, "rb").read() == name
            open(b"/data/" + name, "ab").write(b"!")
            os.mkdir(b"/data/" + name[:250] + b".dir")
        return len(names)
    """
    equal(value_of(code, rule="**=*"), len(names))
    found = tree()
    equal({k: v for k, v in found.items() if v is not None}, {os.fsdecode(name): name + b"!" for name in names})
    equal(len(found), 2 * len(names))


def test_a_name_that_is_too_long():
    make({"a": "a"})
    equal(value_of("return [attempt(put, '/data/' + 'n' * 256, ''), attempt(put, '/data/' + 'n' * 255, '')]", rule="**=*"), ["ENAMETOOLONG", "ok"])


def test_deep_trees():
    make({"d/" * 100 + "f": "host"})
    result = call("""
        path = "/data"
        os.chdir(path)
        for _ in range(100):
            os.chdir("d")
        put("f", "changed")
        for _ in range(400):
            os.mkdir("d"); os.chdir("d")
        put("f", "deep")
        return os.getcwd().count("/d")
    """, rule="**=*", sync="manual")
    equal(result.status, "success", result)
    equal(cli("sync").code, 0)
    equal(open("host/" + "d/" * 100 + "f").read(), "changed")
    equal(open("host/" + "d/" * 500 + "f").read(), "deep")


def test_holes_stay_holes():
    make({"a": "a"})
    value_of("""
        with open("/data/sparse", "wb") as file:
            file.seek(100 << 20); file.write(b"end")
    """, rule="**=*", file_size=200)
    st = os.stat("host/sparse")
    equal(st.st_size, (100 << 20) + 3)
    assert st.st_blocks * 512 < 1 << 20, st
    with open("host/sparse", "rb") as file:
        file.seek(100 << 20)
        equal(file.read(), b"end")


def test_modes_and_times():
    make({"a": "a", "dir/x": "x", "b": "b"})
    os.chmod("host/a", 0o640)
    value_of("""
        os.chmod("/data/b", 0o4755); os.chmod("/data/dir", 0o750); put("/data/run", "#!"); os.chmod("/data/run", 0o755)
        put("/data/a", "more"); os.utime("/data/dir/x", ns=(1_500_000_000_000_000_000, 1_500_000_000_123_456_789))
    """, rule="**=*")
    equal([stat.S_IMODE(os.stat("host/" + n).st_mode) for n in ("a", "b", "dir", "run")], [0o640, 0o755, 0o750, 0o755])
    equal(os.stat("host/dir/x").st_mtime_ns, 1_500_000_000_123_456_789)
    equal(tree()["dir/x"], b"x")


def test_hard_links():
    make({"a": "a"})
    value_of("os.link('/data/a', '/data/b'); put('/data/new', 'n'); os.link('/data/new', '/data/other'); put('/data/b', 'both')", rule="**=*")
    equal(tree(), {"a": b"both", "b": b"both", "new": b"n", "other": b"n"})
    equal(os.stat("host/new").st_ino, os.stat("host/other").st_ino)


def test_pipes_and_sockets_are_the_guests_own():
    make({"a": "a"})
    result = call("os.mkfifo('/data/pipe'); import socket; socket.socket(socket.AF_UNIX).bind('/data/socket')", rule="**=*")
    equal(result.status, "success", result)
    equal(sorted(w.split(": ")[0] for w in result.meta["warnings"]), ["/data/pipe", "/data/socket"], result)
    equal(tree(), {"a": b"a"})


def test_large_contents_are_named_and_synced():
    make({})
    result = call("put('/data/large', 'x' * (3 << 20)); put('/data/small', 'y')", rule="**=*")
    changes = {c["path"]: c for c in result.files["created"]}
    equal((changes["/data/large"].get("contentOmitted"), changes["/data/small"]["content"]), (True, "y"))
    equal(os.path.getsize("host/large"), 3 << 20)


def test_bytes_that_are_no_text():
    make({})
    result = call("put('/data/b', bytes(range(256)), 'wb')", rule="**=*")
    equal(result.files["created"][0]["content"]["$"], "bytes", result)
    equal(tree(), {"b": bytes(range(256))})


def test_a_failed_run_writes_nothing():
    make({"a": "a"})
    for code, code_of in (("echo x > /data/a; exit 3", 3), ("echo x > /data/a; kill -9 $$", 137)):
        equal(bash(code, rule="**=*").code, code_of)
    equal(bash("echo x > /data/a; sleep 100", rule="**=*", timeout=1).code, 124)
    equal(call("put('/data/a', 'x'); raise ValueError", rule="**=*").status, "error")
    equal(tree(), {"a": b"a"})
    equal(bash("echo x > /data/a", rule="**=*").code, 0)
    equal(tree(), {"a": b"x\n"})


def test_rules_are_asked_again_when_it_is_written():
    make({"a": "a"})
    finished = bash("echo x > /data/ok; echo y > /data/no 2>/dev/null; :", at(rules=rules({"rules": [{"pattern": "ok", "allow": ["create"]}]})))
    equal((finished.code, tree()), (0, {"a": b"a", "ok": b"x\n"}))


def test_two_runs_of_one_directory_see_only_the_hosts():
    make({"a": "1"})
    equal(value_of("put('/data/a', '2'); put('/data/b', 'b'); return get('/data/a')", rule="**=*", sync="manual"), "2")
    equal(value_of("return [get('/data/a'), os.path.exists('/data/b')]"), ["1", False])


# ---- virtual files over a mount -------------------------------------------------------------------------------

def test_virtual_files_over_a_mount():
    make({"a": "host", "sub/b": "host"})
    before = tree()
    given = write_file("given", "virtual")
    result = call("""
        seen = [get("/data/a"), get("/data/sub/new/c"), get("/data/sub/b"), sorted(os.listdir("/data")), sorted(os.listdir("/data/sub"))]
        put("/data/a", "changed"); put("/data/sub/new/d", "made")
        return [*seen, get("/data/a")]
    """, file=[f"/data/a={given}", f"/data/sub/new/c={given}"], rule="**=*", sync="manual")
    equal(result.value, ["virtual", "virtual", "host", ["a", "sub"], ["b", "new"], "changed"], result)
    equal(tree(), before)
    equal(cli("sync").code, 0)
    equal(tree(), {**before, "sub/new/": None, "sub/new/d": b"made"}, "(what was put there is not the host's)")


def test_virtual_files_are_free_whatever_the_rules():
    make({"a": "host"})
    given = write_file("given", "virtual")
    result = call("put('/data/v', 'x'); return [get('/data/v'), attempt(put, '/data/a', 'x')]", file=f"/data/v={given}")
    equal((result.value, tree()), (["x", "EACCES"], {"a": b"host"}))


def test_the_script_of_a_run_is_a_virtual_file_of_the_workspace():
    make({"a": "host"})
    finished = bash("ls; cat a", at("/workspace"), rule="**=*")
    equal((finished.code, finished.stdout, finished.stderr, tree()), (0, b"a\nmain.sh\nhost", b"", {"a": b"host"}))
