"""Trees, names, links and archives made by a guest to mislead readers outside: over operations, raw
bodies and trees."""
import io
import json
import os
import stat
import tarfile
import zipfile
import zlib

from cloche import sampled
from hostile_sandboxes import Box, Daemon, Failed, IS_SANITIZED, wait_for
from http_client import Http
from sandbox_client import put, read_events, read_raw

A = "/v1/sandboxes/a"
RAW, TREE = A + "/raw?path=", A + "/tree?path="
SECRET = "/etc/shadow"  # the host's; the box has none


def test_as_many_files_as_there_may_be():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        said = box.python("import os\nos.mkdir('many')\nos.chdir('many')\ni = 0\ntry:\n  while i < 1000000:\n    os.mknod('f%06d' % i)\n    i += 1\nexcept OSError as e: print(i, e.errno)")
        count, error = map(int, said.split())
        assert count > 20000 and error == 28, said
        assert box.refused("file.write", path="/workspace/more", content="x").name == "disk_full"
        before, seen, after = daemon.memory(), [], {}
        while True:
            page = box.call("file.list", path="many", limit=30000, **after)
            seen += [entry["name"] for entry in page["entries"]]
            if "next" not in page:
                break
            after = {"after": page["next"]}
        assert seen == ["f%06d" % i for i in range(count)], len(seen)
        assert len(box.call("file.list", path="many")["entries"]) == 10000, "no more than is said at once"
        assert IS_SANITIZED or daemon.memory() - before < 200 << 20
        number = box.ask("file.remove", path="many", recursive=True)
        assert box.says("echo beside") == b"beside\n"
        assert frames.wait(number)["count"] >= count
        box.is_well()


# In the sandbox: the file program goes on a little at a time from its first instruction on, and is looked at each time.
STEP = """
import json, os, signal
def errno_of(pid, name, flags):
    try: os.close(os.open(f'/proc/{pid}/{name}', flags))
    except OSError as e: return e.errno
def looked_at(pid):
    if open(f'/proc/{pid}/stat').read().rsplit(')', 1)[1].split()[1] != '1': return None  # what PID 1 has not started
    os.kill(pid, signal.SIGSTOP)
    try:
        if not open(f'/proc/{pid}/cmdline').read().startswith('cloche-files'): return None
        return [errno_of(pid, *file) for file in (('mem', os.O_RDWR), ('environ', 0), ('maps', 0), ('fd/0', os.O_PATH), ('cwd', 0))]
    finally: os.kill(pid, signal.SIGCONT)
known, seen = {name for name in os.listdir('/proc') if name.isdigit()}, {}
open('/tmp/seen', 'w').close()
while True:
    for name in os.listdir('/proc'):
        if not name.isdigit() or name in known: continue
        try: found = looked_at(int(name))
        except OSError: continue
        if not found: continue
        seen.setdefault(name, []).append(found)
        if len(seen[name]) == 3:
            known.add(name)
            with open('/tmp/seen', 'a') as file: file.write(json.dumps(seen[name]) + chr(10))
            os.kill(int(name), signal.SIGKILL)
"""


def test_the_file_program_is_closed_from_its_start():
    """The twin: its requests are answered by the next one."""
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.call("process.start", command="exec /usr/bin/python3 -c \"$STEP\"", env={"STEP": STEP})
        wait_for(lambda: box.says("ls /tmp/seen 2>/dev/null || true"))
        seen, ended = [], 0
        while len(seen) < 8:
            try:
                box.call("file.write", path="/tmp/new", content="x")
            except Failed as failed:
                assert "file program" in str(failed), failed
                ended += 1
            seen = [json.loads(line) for line in box.says("cat /tmp/seen").splitlines()]
            assert ended < 100, "it was killed and not looked at; the attack must be written anew"
        for one in seen:
            assert all(code in (1, 13) for looks in one for code in looks), one  # EPERM, EACCES


NAMES = [b"new\nline", b"\xff\xfe\x80", b"\xc3\x28", b"-rf", b"--help", b" ", b"\t\r", b"'\"`$(touch x)", b"\x1b[31m\x07", b"a" * 255, b"\xe2\x80\xaegnp.exe", b"{\"$\": \"bytes\"}", b"%00", b"\\", b"*", b"~", b"...", b".hidden", "é".encode(), "e\u0301".encode()]


def test_names_of_any_bytes():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.python(f"import os\nos.mkdir('names')\nfor n in {NAMES!r}:\n  open(b'names/' + n, 'wb').write(n)")
        listed = box.call("file.list", path="names", hidden=True, recursive=True)["entries"]
        assert sorted(box.bytes(entry["name"]) for entry in listed) == sorted(NAMES)
        for entry in listed:
            if isinstance(entry["name"], str):
                path = "names/" + entry["name"]
                assert box.bytes(box.call("file.read", path=path)["content"]) == entry["name"].encode()
                assert box.call("file.stat", path=path)["size"] == len(entry["name"].encode())
        found = box.call("file.search", path="names", text="a")["matches"]
        assert found, "who cannot be named in text does not stop the others"
        with Http(daemon.connect()) as http:
            assert http.begin("GET", TREE + "names&format=tar") == 200
            data = read_raw(http)
            with tarfile.open(fileobj=io.BytesIO(data), encoding="utf-8", errors="surrogateescape") as archive:
                packed = {os.fsencode(os.path.basename(member.name)) for member in archive.getmembers() if member.isfile()}
            assert packed == set(NAMES), packed ^ set(NAMES)
            status, answer = put(http, TREE + "copy&format=tar", data)
            assert status == 200 and answer["files"] >= len(NAMES), answer
        assert box.says("cd names; for f in * .h*; do cmp \"./$f\" \"../copy/names/$f\" || cmp \"./$f\" \"../copy/$f\"; done 2> /dev/null; echo same") == b"same\n"
        assert box.call("file.remove", path="names", recursive=True)["count"] > 0
        for wrong in ("a\0b", "", "x" * 5000, "y/" * 3000):
            assert box.refused("file.write", path=wrong, content="x").name in ("invalid_argument", "file_name", "too_large", "file_kind", "resource", "unreadable_file"), wrong
        box.is_well()


LINKS = {"absolute": "/etc/shadow", "relative": "../../../../../../../../etc/shadow", "directory": "/", "up": "..", "loop": "loop", "proc": "/proc/1/root", "self": "/proc/self/root", "cwd": "/proc/self/cwd",
         "descriptor": "/proc/self/fd/3", "host": "/proc/1/cwd", "mem": "/proc/self/mem", "device": "/dev/zero", "tty": "/dev/ptmx", "long": "x" * 4000, "keeper": "/run/cloche"}


def test_links_lead_nowhere_outside():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        host = open(SECRET).read() if os.path.exists(SECRET) else None
        mark = os.path.join(daemon.directory, "only-on-the-host")
        open(mark, "w").write("secret of the host")
        links = {**LINKS, "mark": mark, "mark-up": "../../../../../../../.." + mark, "folder": daemon.directory}
        box.python(f"import os\nos.mkdir('links')\nfor name, target in {links!r}.items(): os.symlink(target, 'links/' + name)")
        with Http(daemon.connect()) as http:
            for name in links:
                for path in (f"links/{name}", f"links/{name}/only-on-the-host", f"links/{name}/etc/shadow", f"links/{name}{mark}", f"links/{name}/self/root{mark}"):
                    for method, more in (("file.read", {"limit": 100}), ("file.stat", {}), ("file.exists", {}), ("file.list", {}), ("file.search", {"text": "secret of the host"}), ("file.copy", {})):
                        params = {"from": path, "to": "stolen", "overwrite": True} if method == "file.copy" else {"path": path, **more}
                        try:
                            said = box.call(method, **params)
                            assert not said.get("matches"), (path, said)
                            assert box.bytes(said.get("content", "")) not in (b"secret of the host", (host or "\1").encode()[:100]), (method, path)
                        except Failed as error:
                            assert error.name, error
                    status = http.begin("GET", RAW + path, headers={"Range": "bytes=0-99"})
                    assert b"secret of the host" not in read_raw(http), (path, status)
                    box.run("rm -rf stolen")
            assert http.begin("GET", TREE + "links&format=tar") == 200
            assert b"secret of the host" not in read_raw(http)
            for name in ("mark", "mark-up", "folder", "directory"):
                below = f"links/{name}" + ("" if name.startswith("mark") else "/only-on-the-host" if name == "folder" else mark)
                put(http, RAW + below, b"written")
                for method, more in (("file.write", {"content": "written"}), ("file.write", {"content": "written", "append": True}), ("file.remove", {"force": True}), ("file.mkdir", {})):
                    try:
                        box.call(method, path=below, **more)
                    except Failed as error:
                        assert error.name, error
        assert open(mark).read() == "secret of the host" and sorted(os.listdir(daemon.directory)) == ["log", "only-on-the-host", "socket", "state"], os.listdir(daemon.directory)
        box.run("echo mine > target; ln -s target inside")
        assert box.call("file.read", path="inside")["content"] == "mine\n"  # the twin: a link in the sandbox is followed
        box.is_well()


SWAP = """
import os
os.makedirs('race/real', exist_ok=True)
open('race/real/f', 'w').write('mine')
while True:
    try:
        os.rename('race/real', 'race/kept'); os.symlink('/etc', 'race/real'); os.unlink('race/real'); os.rename('race/kept', 'race/real')
    except OSError: pass
"""


def test_links_that_are_swapped_meanwhile():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        passwd = open("/etc/passwd", "rb").read()
        box.call("process.start", command="exec python3 -c \"$CODE\"", env={"CODE": SWAP})
        wait_for(lambda: box.call("file.exists", path="race/real")["exists"])
        for n in range(60):
            for method, params in (("file.write", {"path": f"race/real/new{n}", "content": "x"}), ("file.read", {"path": "race/real/passwd"}), ("file.list", {"path": "race", "recursive": True}),
                                   ("file.copy", {"from": "race/real", "to": f"copies/{n}"}), ("file.remove", {"path": "race/kept", "recursive": True, "force": True}) if n % 20 == 19 else ("file.exists", {"path": "race"})):
                try:
                    said = box.call(method, **params)
                    assert box.bytes(said.get("content", "")) != passwd
                    assert not any(entry["relativePath"].startswith("real/passwd") for entry in said.get("entries", []) if isinstance(entry["relativePath"], str)), "a list follows no link"
                except Failed as error:
                    assert error.name != "internal", error
        assert box.says("find copies -name passwd -o -name shadow") == b"", "a copy follows none"
        box.is_well()


def member(name, data=b"x", kind=tarfile.REGTYPE, link="", mode=0o644):
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname, info.mode = len(data) if kind == tarfile.REGTYPE else 0, kind, link, mode
    return info, data


def tar(*members, mode="w"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, format=tarfile.GNU_FORMAT) as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))
    return out.getvalue()


LEAD_OUT = {
    "absolute": tar(member("/workspace/evil")), "up": tar(member("../evil")), "deep up": tar(member("a/../../evil")), "link out": tar(member("l", kind=tarfile.SYMTYPE, link="/etc/passwd")),
    "through a link": tar(member("l", kind=tarfile.SYMTYPE, link="."), member("l/evil")), "link up": tar(member("l", kind=tarfile.SYMTYPE, link=".."), member("l/evil")),
    "hard link out": tar(member("h", kind=tarfile.LNKTYPE, link="/etc/passwd")), "hard link up": tar(member("h", kind=tarfile.LNKTYPE, link="../kept")), "device": tar(member("d", kind=tarfile.CHRTYPE)),
    "block": tar(member("d", kind=tarfile.BLKTYPE)), "garbage": b"no archive" * 1000, "cut": tar(member("f", b"x" * 100000))[:50000], "empty": b"",
}


def test_trees_and_archives_that_lead_out():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.call("file.write", path="kept", content="kept")
        for why, data in LEAD_OUT.items():
            with Http(daemon.connect()) as http:
                status, error = put(http, TREE + "t&format=tar", data)
                assert status == 422 and error["error"]["name"] == "bad_archive", (why, status, error)
            box.call("file.remove", path="t", recursive=True, force=True)
            with Http(daemon.connect()) as http:
                assert put(http, RAW + "evil.tar", data)[0] == 200
            assert box.refused("archive.extract", path="evil.tar", to="t").name == "bad_archive", why
            box.call("file.remove", path="t", recursive=True, force=True)
        assert box.says("find / -xdev -name 'evil' 2> /dev/null; find . -type l") == b"" and box.call("file.read", path="kept")["content"] == "kept"
        with Http(daemon.connect()) as http:
            status, answer = put(http, TREE + "t&format=tar", tar(member("d/f", b"fine"), member("l", kind=tarfile.SYMTYPE, link="d/f"), member("s", b"x", mode=0o4777)))
            assert status == 200, answer  # the twin
        assert box.says("cat t/l; stat -c %a t/s") .decode() in ("fine777\n", "fine755\n", "fine775\n"), "and nobody is made another by running it"
        box.is_well()


def bomb_zip():
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(4):
            with archive.open(f"f{n}", "w") as file:
                for _ in range(30):
                    file.write(bytes(1 << 20))
    return out.getvalue()


def bomb_gzip():
    packer = zlib.compressobj(9, wbits=31)
    info = tarfile.TarInfo("f")
    info.size = 100 << 20
    data = packer.compress(info.tobuf())
    for _ in range(100):
        data += packer.compress(bytes(1 << 20))
    return data + packer.flush()


def test_bombs():
    with Daemon() as daemon, daemon.frames() as frames:
        box, small = Box(frames, limits={"diskBytes": 2 << 30, "memoryBytes": 1 << 30}), Box(frames, "small", limits={"diskBytes": 16 << 20})
        before = daemon.memory()
        for form, data in (("zip", bomb_zip()), ("tar.gz", bomb_gzip())):
            for name in ("a", "small"):
                with Http(daemon.connect()) as http:
                    status, error = put(http, f"/v1/sandboxes/{name}/tree?path=t&format={form}", data)
                    assert error["error"]["name"] in ("bad_archive",) if name == "a" else ("bad_archive", "disk_full"), (form, name, error)
                assert frames.call("exec", sandbox=name, command="[ -d t ] && du -sm t | cut -f1 || echo 0")["stdout"].strip() in ("0", "1"), "what was unpacked is taken away"
        assert IS_SANITIZED or daemon.memory() - before < 60 << 20
        count = sampled(5000, 20000)
        many = tar(*[member("d" * (i % 50 + 1) + f"/{i}", b"") for i in range(count)])
        with Http(daemon.connect()) as http:
            assert put(http, TREE + "many&format=tar", many)[1].get("files") == count  # the twin
        box.is_well(), small.is_well()


def test_a_watch_under_churn():
    with Daemon() as daemon, daemon.frames() as frames:
        box = Box(frames)
        box.run("mkdir tree; true", session="churn")
        before = daemon.memory()
        streams = []
        for n in range(4):
            http = Http(daemon.connect())
            assert http.begin("POST", A + "/file/watch", {"path": "tree", "recursive": True}, accept="text/event-stream") == 200
            events = read_events(http)
            assert next(event for event in events if event[0])[0] == "ready"
            streams.append((http, events))
        churn = box.call("process.start", command="exec python3 -c \"$CODE\"", env={"CODE": "import os, shutil\nos.chdir('tree')\nn = 0\nwhile True:\n  n += 1\n  os.makedirs('a%d/b/c' % n)\n  os.rename('a%d' % n, 'x%d' % n)\n"
                                                                                  "  open('x%d/b/c/f' % n, 'w').close()\n  shutil.rmtree('x%d' % n)"})["process"]
        for n in range(30):
            assert box.says(f"echo {n}") == b"%d\n" % n
        box.call("process.kill", process=churn, signal="KILL")
        for http, _ in streams[1:]:
            http.close()
        box.run("rm -rf tree/*; echo end > tree/last")
        kinds = set()
        for name, about in streams[0][1]:
            kinds.add(name)
            if name == "lost" or name == "change" and isinstance(about["path"], str) and about["path"].endswith("last"):
                break
        assert kinds <= {"", "ready", "change", "lost"} and kinds & {"lost", "change"}, kinds
        box.run("rm -rf tree")
        assert IS_SANITIZED or daemon.memory() - before < 60 << 20
        streams[0][0].close()
        box.is_well()
