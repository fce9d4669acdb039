"""cloche diff, sync and changes: unwritten changes are kept, shown without control sequences for
the terminal, and written later or dropped."""
import fcntl
import json
import os
import re
import signal
import subprocess
import time
from cloche import ORDINARY_USER, bad_input, cli, equal, need_ordinary_user, need_root, run, start
from mounts import at, bash, make, state, tree

state()
KEPT = re.compile(rb"^cloche: (\d+) changes? kept: cloche diff (\S+), cloche sync \2$", re.M)


def kept(finished):
    """(how many, name)"""
    found = KEPT.search(finished.stderr)
    assert found, finished
    return int(found[1]), found[2].decode()


def names():
    return [line.split()[0] for line in cli("changes", "list").stdout.decode().splitlines()]


def change(code="echo new > /data/a; rm /data/b; mv /data/c /data/d; mkdir /data/e; ln -s a /data/l; echo x > /data/f", **options):
    make({"a": "old\n", "b": "gone\n", "c": "moved\n"})
    return kept(bash(code, **{"rule": "**=*", "sync": "manual", **options}))


# ---- keeping --------------------------------------------------------------------------------------------------

def test_without_a_name_it_is_the_newest_of_this_directory():
    _, here = change("echo new > /data/a")
    os.makedirs("elsewhere", exist_ok=True)
    where = os.getcwd()
    try:
        os.chdir("elsewhere")
        for words in (["sync"], ["diff"]):
            bad_input(*words, says=f"no kept changes belong to this directory; the newest of other directories are '{here}'")
        equal(cli("diff", here).code, 0)
        os.chdir(os.path.join(where, "host"))
        assert cli("diff").stdout.endswith(b"/host/a\n")
        os.chdir(where)
        equal((cli("sync").code, tree()["a"]), (0, b"new\n"))
    finally:
        os.chdir(where)


def test_manual_changes_are_kept_and_nothing_is_written():
    count, name = change()
    equal(count, 6)
    assert re.fullmatch(r"\d{8}-\d{6}\.\d{3}-[a-z]{4}", name), name
    equal(tree(), {"a": b"old\n", "b": b"gone\n", "c": b"moved\n"})
    equal(names(), [name])


def test_a_run_that_fails_keeps_them_too():
    make({"a": "a"})
    for code, exit_code in (("echo 1 > /data/a; exit 7", 7), ("echo 2 > /data/a; kill -9 $$", 137), ("echo 3 > /data/a; sleep 100", 124)):
        finished = bash(code, rule="**=*", timeout=1)
        equal((finished.code, kept(finished)[0]), (exit_code, 1))
    equal(tree(), {"a": b"a"})


def test_nothing_is_kept_of_nothing():
    make({"a": "a"})
    for options in ({"sync": "manual"}, {}):
        finished = bash("cat /data/a; touch /data/x && rm /data/x", rule="**=*", **options)
        equal((finished.code, finished.stdout, finished.stderr), (0, b"a", b""))
    equal(os.path.exists("state"), False, "(not even the directory)")


def test_a_sync_is_told_in_a_line():
    make({"a": "a"})
    make({}, "other")
    finished = bash("echo 1 > /data/a; echo 2 > /data/b; echo 3 > /other/c", [at(), at("/other", "other")], rule="**=*")
    equal((finished.code, finished.stderr.decode().splitlines()),
          (0, [f"cloche: wrote 2 changes to {os.path.abspath('host')}", f"cloche: wrote 1 change to {os.path.abspath('other')}"]))
    equal(os.path.exists("state"), False)


def test_a_json_answer_names_them():
    make({"a": "a"})
    words = ["call", "python", "-c", "open('/data/a', 'w').write('b'); return {'}': ['\"}']}", "--mount", at(), "--rule", "**=*", "--json"]
    finished = cli(*words, "--sync", "manual")
    result = json.loads(finished.stdout)
    equal((finished.code, finished.stderr, result["result"], [result["changeset"]]), (0, b"", {"}": ['"}']}, names()))
    result = json.loads(cli(*words).stdout)
    equal(("changeset" in result, result["sync"]["synced"]), (False, ["/data/a"]))


def changed_meanwhile(*options):
    """A run whose directory the host changes before it ends -> (exit code, the message)."""
    make({"a": "a"})
    process = start("run", "bash", "-c", "echo box > /data/a; echo more > /data/b; echo ready; read x", "--mount", at(), "--rule", "**=*", *options,
                    stdin=subprocess.PIPE)
    equal(process.stdout.readline(), b"ready\n")
    make({"a": "the host's"})
    _, said = process.communicate(b"\n", timeout=30)
    return process.returncode, said


def test_a_conflict_fails_the_sync_not_the_run():
    code, said = changed_meanwhile()
    equal(code, 1, said)
    lines = said.decode().splitlines()
    assert any(line.startswith(f"cloche: not written: {os.path.abspath('host/a')}: ") for line in lines), said
    assert any("--conflict keepBoth" in line and "--conflict overwrite" in line for line in lines), said
    equal(tree(), {"a": b"the host's"})
    equal(cli("sync", "--conflict", "overwrite").code, 0)
    equal(tree(), {"a": b"box\n", "b": b"more\n"})


def test_what_was_written_all_the_same_is_not_kept():
    code, said = changed_meanwhile("--on-error", "continue")
    equal((code, tree()), (1, {"a": b"the host's", "b": b"more\n"}), said)
    equal(cli("diff").stdout, b"M  " + os.fsencode(os.path.abspath("host/a")) + b"\n")
    equal([cli("sync", "--conflict", "keepBoth").code, sorted(tree()), names()], [0, ["a", "a.cloche-conflict-1", "b"], []])


LINKS = "ln -s a /data/near; ln -s ../../etc/passwd /data/far; ln -s /etc/passwd /data/absolute; echo 1 > /data/b"


def test_links_that_lead_out_of_a_mount():
    """They are refused by the run's own sync with that option, or by a later sync of a run with it;
    the twins: without it they are made, and links that stay inside always are."""
    make({"a": "a"})
    finished = bash(LINKS, rule="**=*", links="inside", on_error="continue")
    equal((finished.code, tree()), (1, {"a": b"a", "b": b"1\n", "near": ("a",)}), finished)
    assert finished.stderr.count(b"not written") == 2 and b"absolute" in finished.stderr and b"far" in finished.stderr, finished
    make({"c": ""}, "other")
    finished = bash("ln -s /etc/passwd /data/absolute", [at("/data", "other")], rule="**=*", links="any")
    equal((finished.code, os.readlink("other/absolute")), (0, "/etc/passwd"), finished)
    make({}, "kept")
    kept(bash("ln -s /etc/passwd /data/absolute", [at("/data", "kept")], rule="**=*", links="inside", sync="manual"))
    finished = cli("sync", names()[-1])
    equal((finished.code, os.listdir("kept")), (1, []), finished)
    equal(cli("sync", "--links", "any", names()[-1]).code, 0)
    equal(os.readlink("kept/absolute"), "/etc/passwd")
    bad_input("call", "bash", "-c", "true", "--mount", at(), "--links", "outside", says="--links must be any or inside")


def test_links_that_a_move_leads_out():
    """A link of the host, and one in a directory, is not moved nearer to the top, nor has it another name there; as deep as before, and without the option, it is."""
    def inside(command, code):
        finished = bash(command, rule="**=*", links="inside")
        equal(finished.code, code, finished)
        assert code == 0 or b"nearer to the top" in finished.stderr, finished

    make({"a/b/up": ("../../x",), "a/b/c/f": "1", "c/": None})
    before = tree()
    inside("mv /data/a/b/up /data/up", 1)
    inside("mv /data/a/b /data/b", 1)
    inside("ln /data/a/b/up /data/up", 1)
    equal(tree(), before)
    inside("mv /data/a/b /data/c/b && mv /data/c/b/up /data/c/b/c/up && mv /data/c/b/c/f /data/f", 0)
    equal((os.readlink("host/c/b/c/up"), tree()["f"]), ("../../x", b"1"))
    equal(bash("mv /data/c/b/c/up /data/up", rule="**=*").code, 0)
    equal(os.readlink("host/up"), "../../x")


def test_where_they_are_kept():
    make({"a": "a"})
    os.environ["HOME"] = os.path.abspath("home")
    del os.environ["XDG_STATE_HOME"]
    _, name = kept(bash("echo x > /data/a", rule="**=*", sync="manual"))
    equal(os.listdir("home/.local/state/cloche/changes"), [name])
    equal(os.stat("home/.local/state/cloche/changes").st_mode & 0o777, 0o700)
    equal(cli("changes", "drop", name).code, 0)
    os.environ["XDG_STATE_HOME"] = "relative"
    _, name = kept(bash("echo x > /data/a", rule="**=*", sync="manual"))
    equal(os.listdir("home/.local/state/cloche/changes"), [name])


def test_where_nothing_can_be_kept_is_said():
    make({"a": "a"})
    open("file", "w").close()
    state("file")
    finished = bash("echo x > /data/a", rule="**=*", sync="manual")
    equal(finished.code, 1, finished)
    assert b"cloche: cannot make '" in finished.stderr and b"kept" not in finished.stderr, finished
    equal(bash("cat /data/a").code, 0, "(and only where there is something to keep)")


def test_whatever_the_umask():
    need_root()
    make({"a": "a"})
    os.chown("host", 4321, 4321)
    os.chown("host/a", 4321, 4321)
    old = os.umask(0o077)
    try:
        kept(bash("echo x > /data/a; echo y > /data/b", rule="**=*", sync="manual"))
        equal(cli("sync").code, 0)
    finally:
        os.umask(old)
    equal(tree(), {"a": b"x\n", "b": b"y\n"})


def test_only_the_user_reaches_them():
    need_ordinary_user()
    _, name = change()
    equal(subprocess.run([*ORDINARY_USER, "ls", f"state/cloche/changes/{name}"], capture_output=True).returncode != 0, True)


def test_two_kept_at_once():
    make({"a": "a"})
    running = [start("run", "bash", "-c", f"echo {i} > /data/a", "--mount", at(), "--rule", "**=*", "--sync", "manual") for i in range(5)]
    for process in running:
        _, said = process.communicate(timeout=30)
        equal(process.returncode, 0, said)
    equal(len(set(names())), 5)


# ---- looking --------------------------------------------------------------------------------------------------

def test_diff_is_a_line_each():
    change()
    host = os.path.abspath("host")
    equal(sorted(cli("diff").stdout.decode().splitlines()), sorted([
        f"M  {host}/a", f"D  {host}/b", f"R  {host}/c -> {host}/d", f"A  {host}/e/", f"A  {host}/f", f"A  {host}/l -> a"]))


def test_diff_of_the_newest_or_by_name():
    _, first = change("echo 1 > /data/first")
    _, second = change("echo 2 > /data/second")
    assert cli("diff").stdout.endswith(b"/second\n") and cli("diff", first).stdout.endswith(b"/first\n")
    equal(names(), [first, second])


def test_unified():
    make({"dir/x": "1\n2\n3\n", "same": "s\n"})
    change("cd /data; sed -i s/old/new/ a; rm b; mv dir moved; sed -i s/2/two/ moved/x; printf 'no end' > n; touch empty; chmod 600 same")
    text = cli("diff", "-u").stdout.decode().replace(os.path.abspath("host"), "H")
    for part in ("--- H/a\n+++ H/a\n@@ -1 +1 @@\n-old\n+new\n", "--- H/b\n+++ /dev/null\n@@ -1 +0,0 @@\n-gone\n", "R  H/dir -> H/moved/\n",
                 "--- H/moved/x\n+++ H/moved/x\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n", "+no end\n\\ No newline at end of file\n",
                 "A  H/empty\n", "M  H/same (mode 0600, times)\n"):
        assert part in text, (part, text)


def test_unified_reads_the_host_with_the_users_own_rights():
    need_root()
    make({"a": "old\n"})
    os.chmod("host/a", 0o600)
    os.chmod("host", 0o700)
    change("echo new > /data/a")
    assert b"-old\n+new\n" in cli("diff", "-u").stdout


def test_unified_follows_no_link_of_the_host():
    with open("outside", "w") as file:
        file.write("secret\n")
    change("echo new > /data/a")
    os.remove("host/a")
    os.symlink("../outside", "host/a")
    finished = cli("diff", "-u")
    equal(b"secret" in finished.stdout, False, finished)
    assert b"cannot be read" in finished.stdout, finished


def test_binaries_are_said_and_not_shown():
    change("printf 'a\\0b' > /data/a; head -c 1000 /dev/urandom > /data/random; printf '\\0' >> /data/random")
    text = cli("diff", "-u").stdout
    equal(text.count(b"Binary files "), 2, text)
    equal(re.findall(rb"[^\x20-\x7e\n]", text), [])


def test_nothing_steers_the_terminal():
    evil = b"\x1b]0;title\x07\x1b[2J\x9b31m\xc2\x9b\xe2\x80\xae\r\x7f"
    make({"a": "old\n"})
    code = f"""
evil = {evil!r}
open('/data/a', 'wb').write(b'text ' + evil + b'\\ttab\\n')
open(b'/data/name' + evil, 'wb').write(b'x')
import os; os.symlink(evil, '/data/link')
try: open(b'/data/secret' + evil, 'w')
except OSError: pass
"""
    finished = run("python", code, mount=at(), rule=["secret*=-*", "**=*"], sync="manual", denials=True)
    said = finished.stderr
    for words in (["diff"], ["diff", "-u"], ["diff", "--json"], ["sync", "--dry-run"], ["sync", "--dry-run", "--json"], ["changes", "list"]):
        finished = cli(*words)
        equal(finished.code, 0, finished)
        said += finished.stdout + finished.stderr
    equal(sorted(set(re.findall(rb"[^\x20-\x7e\n\t]", said))), [], said)
    for shown in (b"\\x1b]0;title\\x07", b"\\xc2\\x9b", b"\\xe2\\x80\\xae", b"\\x0d", b"\\x7f", b"\ttab"):
        assert shown in said, shown


def test_letters_of_all_the_world_are_shown_as_they_are():
    change("echo 'grün 漢字 😀 \\' > '/data/ä \\漢'")
    text = cli("diff", "-u").stdout.decode()
    assert "ä \\\\漢" in text and "+grün 漢字 😀 \\\n" in text, text


def test_diff_as_json():
    _, name = change()
    answer = json.loads(cli("diff", "--json").stdout)
    equal((answer["changeset"], sorted(c["path"] for c in answer["created"])), (name, ["/data/d", "/data/e", "/data/f", "/data/l"]))
    equal([(c["path"], c["content"], c["realPath"]) for c in answer["modified"]], [("/data/a", "new\n", os.path.abspath("host/a"))])
    bad_input("diff", "-u", "--json", says="exclude each other")


def test_diff_of_an_ordinary_user():
    need_ordinary_user()
    _, name = change("echo new > /data/a")
    subprocess.run(["cp", "-r", "state", "theirs"], check=True)
    subprocess.run(["chown", "-R", "12345:12345", "theirs"], check=True)
    finished = cli("diff", "-u", under=ORDINARY_USER, env={"XDG_STATE_HOME": os.path.abspath("theirs")})
    assert finished.code == 0 and b"-old\n+new\n" in finished.stdout, finished


def test_large_files_are_not_compared():
    make({"a": "old\n"})
    kept(bash("head -c 40M /dev/zero | tr '\\0' 'x' > /data/a", rule="**=*", sync="manual"))
    assert b"(more than 32 MiB: not compared)\n" in cli("diff", "-u").stdout


# ---- writing --------------------------------------------------------------------------------------------------

def test_sync_writes_and_removes_them():
    change()
    finished = cli("sync")
    equal((finished.code, finished.stdout, finished.stderr), (0, f"wrote 6 changes to {os.path.abspath('host')}\n".encode(), b""))
    equal(tree(), {"a": b"new\n", "d": b"moved\n", "e/": None, "f": b"x\n", "l": ("a",)})
    equal((names(), cli("sync").code), ([], 2))


def test_a_dry_run_writes_nothing():
    _, name = change()
    finished = cli("sync", "--dry-run")
    equal(finished.code, 0, finished)
    equal(sorted(line.rsplit("/", 1)[1] for line in finished.stdout.decode().splitlines()), ["a", "b", "d", "e", "f", "l"])
    assert all(line.startswith(b"would ") for line in finished.stdout.splitlines()), finished
    equal((sorted(tree()), names()), (["a", "b", "c"], [name]))
    plan = json.loads(cli("sync", name, "--dry-run", "--json").stdout)
    equal((plan["changeset"], len(plan["steps"]), plan["conflicts"], plan["denied"]), (name, 6, [], []))


def test_conflicts_and_what_to_do_with_them():
    _, name = change("echo box > /data/a; echo f > /data/f")
    make({"a": "the host's\n"})
    finished = cli("sync", "--dry-run")
    equal((finished.code, b"conflict " + os.fsencode(os.path.abspath("host/a")) in finished.stdout), (1, True), finished)
    finished = cli("sync")
    equal((finished.code, finished.stdout, names()), (1, b"", [name]))
    assert b"not written" in finished.stderr and b"are kept: cloche diff" in finished.stderr, finished
    equal((tree()["a"], "f" in tree()), (b"the host's\n", False), "(rolled back)")
    finished = cli("sync", "--on-error", "continue", "--json")
    answer = json.loads(finished.stdout)
    equal((finished.code, answer["synced"], answer["changeset"], answer["failed"][0]["path"]), (1, ["/data/f"], name, "/data/a"))
    equal(cli("changes", "list").stdout.split(b"\t")[1], b"1", "(what is left)")
    answer = json.loads(cli("sync", "--conflict", "overwrite", "--json").stdout)
    equal((answer["changeset"], tree()["a"], names()), (None, b"box\n", []))


def test_the_policies_of_the_run_are_those_of_its_sync():
    change("echo box > /data/a", conflict="keepBoth")
    make({"a": "the host's\n"})
    finished = cli("sync")
    equal((finished.code, tree()["a"], tree()["a.cloche-conflict-1"]), (0, b"the host's\n", b"box\n"))
    assert b"a.cloche-conflict-1" in finished.stderr, finished


def test_rules_of_the_run_hold_when_it_is_synced():
    """A process that can write the list, but not the user's own word, gains nothing outside of the directory."""
    need_root()
    _, name = change("echo box > /data/a")
    path = f"state/cloche/changes/{name}/set/changes.json"
    with open(path) as file:
        original = file.read()
    elsewhere = make({"a": "elsewhere\n"}, "elsewhere")
    for old, new in ((os.path.abspath("host"), elsewhere), ('"path":"a"', '"path":"../elsewhere/a"'), ('"path":"a"', '"path":"/etc/passwd"')):
        assert old in original
        with open(path, "w") as file:
            file.write(original.replace(old, new))
        finished = cli("sync", "--conflict", "overwrite")
        assert finished.code in (1, 2) and finished.stderr, (new, finished)
        finished = cli("diff", "-u")
        equal(b"elsewhere\n" in finished.stdout.replace(b"elsewhere/a\n", b""), False, (new, finished))
    equal((tree("elsewhere"), tree()["a"]), ({"a": b"elsewhere\n"}, b"old\n"))


def test_damaged_sets():
    _, name = change()
    directory = f"state/cloche/changes/{name}"
    for path, text in ((f"{directory}/set/changes.json", "{"), (f"{directory}/set/changes.json", '{"format": 99}'), (f"{directory}/about.json", "[]")):
        with open(path, "w") as file:
            file.write(text)
        for command in ("diff", "sync"):
            finished = cli(command)
            assert finished.code in (1, 2) and len(finished.stderr.splitlines()) == 1 and not finished.stdout, (path, finished)
    equal(cli("changes", "list").code, 1)
    equal((cli("changes", "drop", name).code, names()), (0, []))


def test_a_directory_that_is_gone():
    change()
    os.rename("host", "elsewhere")
    finished = cli("sync")
    assert finished.code == 2 and b"host" in finished.stderr, finished
    assert cli("diff").code == 0
    os.rename("elsewhere", "host")
    equal(cli("sync").code, 0)


def test_one_sync_of_a_set_at_a_time():
    _, name = change()
    fd = os.open(f"state/cloche/changes/{name}", os.O_RDONLY)
    fcntl.flock(fd, fcntl.LOCK_EX)
    bad_input("sync", says="being synced already")
    os.close(fd)
    equal(cli("sync").code, 0)


def test_a_killed_sync_is_finished_or_undone():
    old = {f"n{i}": b"old" for i in range(200)}
    for after_s in (0.04, 0.1):
        subprocess.run(["rm", "-rf", "host"], check=True)
        make(old)
        kept(bash("cd /data; for i in n*; do echo new > $i; done; mkdir d; for i in $(seq 200); do echo x > d/$i; done", rule="**=*", sync="manual"))
        process = start("sync")
        time.sleep(after_s)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        finished = cli("sync")
        found = {k: v for k, v in tree().items() if not k.startswith(".cloche")}
        one_tree = {**{k: b"new\n" for k in old}, "d/": None, **{f"d/{i}": b"x\n" for i in range(1, 201)}}
        assert found in ({**old}, one_tree), (after_s, finished, len(found))
        cli("changes", "drop", "--all")


# ---- throwing away --------------------------------------------------------------------------------------------

def test_list_and_drop():
    equal((cli("changes", "list").stdout, cli("changes", "list", "--json").stdout), (b"", b"[]\n"))
    _, first = change()
    _, second = change("echo 1 > /data/one")
    rows = json.loads(cli("changes", "list", "--json").stdout)
    equal([(r["name"], r["count"], r["mounts"]) for r in rows],
          [(n, c, [{"target": "/data", "source": os.path.abspath("host")}]) for n, c in ((first, 6), (second, 1))])
    assert all(0 <= r["ageSeconds"] < 60 for r in rows)
    equal((cli("changes", "drop", first, "20000101-000000.000-aaaa").code, names()), (2, [second]))
    change()
    equal((cli("changes", "drop", "--all").code, names(), os.listdir("state/cloche/changes")), (0, [], []))
    equal(cli("changes", "drop", "--all").code, 0)


def test_bad_words():
    bad_input("diff", says="no kept changes")
    bad_input("sync", says="no kept changes")
    for name in ("nothing", "../../etc", "20000101-000000.000-aaaa", "a/b", ""):
        for words in (["diff"], ["sync"], ["changes", "drop"]):
            bad_input(*words, name, says="no kept changes")
    bad_input("changes", "drop", says="names, or --all")
    bad_input("changes", "drop", "--all", "x", says="names, or --all")
    bad_input("changes", "keep", says="list, drop")
    bad_input("diff", "a", "b", says="unexpected word")
    change()
    bad_input("sync", "--on-error", "retry", says="--on-error must be rollback, continue or abort")
    bad_input("sync", "--conflict", "merge", says="--conflict must be refuse, keepBoth or overwrite")
    bad_input("sync", "--links=outside", says="--links must be inside or any")
    bad_input("sync", "--on-error", "", says="--on-error must be")
    equal(len(names()), 1)


def test_dropping_follows_no_link():
    need_root()
    _, name = change()
    make({"kept": "k"}, "precious")
    os.symlink(os.path.abspath("precious"), f"state/cloche/changes/{name}/set/link")
    equal((cli("changes", "drop", name).code, tree("precious")), (0, {"kept": b"k"}))


def test_completion():
    _, name = change()
    offered = lambda *words: [line.split("\t")[0] for line in cli("__complete", *words).stdout.decode().splitlines()]
    equal([offered("diff", ""), offered("sync", name[:4]), offered("changes", "drop", name, "")], [[name]] * 3)
    equal(offered("changes", ""), ["list", "drop"])
    equal(offered("sync", "--conflict", "k"), ["keepBoth"])
    equal(offered("call", "python", "--sync", ""), ["batch", "manual"])
    assert "--dry-run" in offered("sync", "--d") and "--denials" in offered("run", "bash", "--de"), offered("sync", "--d")


def test_syncs_of_one_directory_wait_for_each_other():
    make({"a": "a"})
    mount = ["--mount", f"/data={os.path.abspath('host')}", "--rule", "**=*", "--sync", "batch"]
    runs = [start("call", "bash", "-c", f"echo {i} > /data/{i}", *mount) for i in range(6)]
    equal([process.wait(50) for process in runs], [0] * 6)
    equal(tree(), {"a": b"a", **{str(i): f"{i}\n".encode() for i in range(6)}})
