"""Paths of the public examples of the sandbox package can be written to, are bounded, and are saved with the sandbox."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Daemon, Http, of_events, served

NEW = {"X-Sandbox-Id": "x"}
PLACES = ["/app/index.js", "/app/src/a.ts", "/data/rows.csv", "/home/user/notes.txt", "/home/cloche/x", "/mnt/disk/f", "/opt/tool/bin/x",
          "/src/App.jsx", "/server.js", "/my-project/src/a.ts", "/root/.config/x", "/srv/www/index.html", "/var/log/app.log", "/var/backups/b.sqsh", "/var/tmp/x", "/var/lib/app/db", "/var/www/html/x", "/tmp/x", "/workspace/x"]


def run(http, command):
    return http.post(BASE + "/api/execute", NEW, command=command, sessionId="__DISABLE_SESSION__")[1]


def test_they_can_be_written_to():
    with served() as (_, http):
        for path in PLACES:
            status, answer = http.post(BASE + "/api/write", NEW, path=path, content=path)
            assert status == 200, answer
            assert run(http, f"cat {path}")["stdout"] == path
            assert run(http, f"echo more >> {path}")["exitCode"] == 0
        assert http.post(BASE + "/api/session/create", NEW, id="s", cwd="/app")[0] == 200
        assert http.post(BASE + "/api/execute", NEW, command="pwd; ls", sessionId="s")[1]["stdout"] == "/app\nindex.js\nsrc\n"
        assert run(http, "df --output=target / /app /var | tail -n +2 | sort -u")["exitCode"] == 0
        for path in ("/usr/x", "/etc/x", "/bin/x", "/proc/x", "/dev/x", "/run/x"):
            assert http.post(BASE + "/api/write", NEW, path=path, content="")[0] in (403, 404, 500), path
        assert run(http, "cp /bin/true /app/setuid && chmod 4755 /app/setuid; grep ' / ' /proc/self/mounts")["stdout"].count("nosuid")
        for path in ("/app/from-cell", "/from-cell"):
            status, _ = http.post(BASE + "/api/execute/code", NEW, code=f"print(open('/server.js').read()); open('{path}', 'w').write('x')")
            assert status == 200 and run(http, f"cat {path}")["stdout"] == "x", "contexts have them too"
        assert run(http, "ls -d /server.js /from-cell; rm /server.js; ls /server.js")["stdout"] == "/from-cell\n/server.js\n"
        assert http.post(BASE + "/api/session/create", NEW, id="alone", isolation=True)[0] == 200
        assert http.post(BASE + "/api/execute", NEW, command="echo 1 > /isolated && rm /isolated && ls /from-cell", sessionId="alone")[1]["stdout"] == "/from-cell\n"


REPOSITORY = """set -e; cd /tmp; git init -q -b main r; cd r; git config user.email a@example.org; git config user.name a; echo hi > README
git add .; git commit -qm 1; git clone -q --bare . /tmp/project.git"""


def test_tools_of_the_examples():
    """Sources are cloned to where clients put them, and dependencies installed beside a program, without a network: from a directory."""
    with served() as (_, http):
        assert run(http, REPOSITORY)["exitCode"] == 0
        status, answer = http.post(BASE + "/api/git/checkout", NEW, repoUrl="file:///tmp/project.git", sessionId="s")
        assert status == 200 and answer["targetDir"] == "/workspace/project", answer
        assert run(http, "cat /workspace/project/README")["stdout"] == "hi\n"
        for place in ("/app/clone", "/clone", "/root/clone"):
            status, answer = http.post(BASE + "/api/git/checkout", NEW, repoUrl="file:///tmp/project.git", targetDir=place, sessionId="s")
            assert status == 200 and run(http, f"cat {place}/README")["stdout"] == "hi\n", answer
        assert run(http, """mkdir -p /data/dep && echo '{"name": "dep", "version": "1.0.0", "main": "i.js"}' > /data/dep/package.json && echo 'module.exports = 7' > /data/dep/i.js""")["exitCode"] == 0
        result = run(http, "command -v npm || exit 0; cd /app && npm init -y >/dev/null && npm install --offline --no-audit --no-fund --install-links /data/dep && node -p 'require(\"dep\")' | grep -x 7")
        assert result["exitCode"] == 0, result
        result = run(http, """/usr/bin/python3 -m pip --version || exit 0; mkdir -p /data/mod && cd /data/mod && echo 'x = 7' > mod.py &&
            printf 'from setuptools import setup\nsetup(name="mod", version="1", py_modules=["mod"])\n' > setup.py && /usr/bin/python3 -c 'import setuptools, wheel' || exit 0
            /usr/bin/python3 -m pip install --no-index --no-build-isolation --no-deps --target /app/vendor /data/mod && PYTHONPATH=/app/vendor /usr/bin/python3 -c 'import mod; assert mod.x == 7'""")
        assert result["exitCode"] == 0, result


def test_a_guest_that_shuts_its_root():
    """Programs of that command are not found any more; the next command of the same shell is one as always."""
    with served() as (_, http):
        def next_one(command):
            return http.post(BASE + "/api/execute", NEW, command=command, sessionId="s")[1]

        assert next_one("echo keep > /workspace/f; HERE=1")["exitCode"] == 0
        for mode, found in (("0", "700"), ("0077", "777"), ("0711", "711"), ("0755", "755")):
            shut = next_one(f"cd /workspace; chmod {mode} /; /bin/cat f")
            assert (shut["exitCode"] == 0) == (found in ("711", "755")), (mode, shut)
            assert next_one("echo $HERE; cat /workspace/f; stat -c %a /")["stdout"] == f"1\nkeep\n{found}\n", mode


WALLS = """for name in usr etc run proc dev tmp workspace; do
mv /$name /moved 2>/dev/null && echo "$name moved"; rmdir /$name 2>/dev/null && echo "$name gone"; mv -T /data /$name 2>/dev/null && echo "$name replaced"; ln -sfnT /tmp /$name 2>/dev/null && echo "$name linked"; done
for path in /usr/x /etc/resolv.conf /etc/hosts /run/cloche/x /usr/bin/env; do (echo x > $path) 2>/dev/null && echo "$path written"; rm -f $path 2>/dev/null && test ! -e $path && test $path != /usr/x -a $path != /run/cloche/x && echo "$path gone"; done
umount /usr /etc /proc 2>/dev/null && echo unmounted; mount --bind /tmp /etc 2>/dev/null && echo mounted; true"""


def test_a_guest_does_not_get_what_the_box_shows_out_of_its_root():
    """Files of the image, or of the box itself, stay in place, for each kind of process in a
    sandbox. The twins: names beside them can be removed, created and changed."""
    with served() as (_, http):
        assert http.post(BASE + "/api/session/create", NEW, id="alone", isolation=True)[0] == 200
        for session in ("__DISABLE_SESSION__", "alone"):
            answer = http.post(BASE + "/api/execute", NEW, command=WALLS, sessionId=session)[1]
            assert answer["exitCode"] == 0 and answer["stdout"] == "", (session, answer)
        http.post(BASE + "/api/write", NEW, path="/walls.sh", content=WALLS)
        code = "import subprocess; print([subprocess.run(['bash', '/walls.sh'], capture_output=True, text=True).stdout])"
        assert http.begin("POST", BASE + "/api/execute/code", {"code": code}, NEW) == 200
        assert "".join(event.get("text", "") for event in of_events(http) if event["type"] == "stdout") == "['']\n"
        twin = run(http, "mkdir /other && mv /data /other/data && ln -s /other/data /data && echo 1 > /data/x && cat /other/data/x && mv -T /other /else && ls /")
        assert twin["exitCode"] == 0 and twin["stdout"].startswith("1\n") and "else" in twin["stdout"], twin


def test_a_guest_that_puts_others_in_their_place():
    """Interpreters that are made later, isolated sessions and saves come to a root of which the guest replaced all that it can: no link of it leads us anywhere, and all of it holds in its sandbox alone."""
    changes = ("mv /app /gone; ln -s /usr /app", "rm -rf /opt; ln -s /proc/1/root /opt", "rm -rf /srv; echo x > /srv", "mv /data /var/log/data", "mv /mnt /src/m; mkfifo /mnt",
               "rm /lib32 /libx32; ln -s /proc/self/fd /lib32; mkdir /libx32; true", "rm -rf /home && ln -s /etc /home")
    code = """import os
def look(path):
    try:
        return sorted(os.listdir(path)) and 'files'
    except OSError as error:
        return type(error).__name__
def write(path):
    try:
        open(path + '/x', 'w').close()
        return 'written'
    except OSError as error:
        return type(error).__name__
print([(look(path), write(path)) for path in ('/app', '/srv', '/data', '/mnt')], write('/usr'), write('/etc'), write('/'), write('/src'), open('/etc/hostname').read())"""
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o777)
        with Daemon("--state-dir", state) as daemon:
            with Http(daemon.connect()) as http:
                for change in changes:
                    assert run(http, change)["exitCode"] == 0, change
                for turn in range(2):
                    status, context = http.post(BASE + "/api/contexts", NEW, language="python")
                    assert status == 200, context
                    assert http.begin("POST", BASE + "/api/execute/code", {"code": code, "context_id": context["id"]}, NEW) == 200
                    printed = "".join(event.get("text", "") for event in of_events(http) if event["type"] == "stdout")
                    # A pipe is not saved, and a directory that was moved stays away.
                    expected = ("[('files', 'OSError'), ('NotADirectoryError', 'NotADirectoryError'), "
                                + "('FileNotFoundError', 'FileNotFoundError'), " + ("('NotADirectoryError', 'NotADirectoryError')" if turn == 0 else "('FileNotFoundError', 'FileNotFoundError')")
                                + "] OSError OSError written written cloche-")
                    assert printed.startswith(expected), printed
                    name = "alone" + str(turn)
                    assert http.post(BASE + "/api/session/create", NEW, id=name, isolation=True)[0] == 200
                    assert http.post(BASE + "/api/execute", NEW, command="readlink /app /home; ls /gone /var/log/data", sessionId=name)[1]["exitCode"] == 0
                    with daemon.frames() as frames:
                        frames.call("sandbox.stop", sandbox="wire")
            other = BASE.replace("wire", "twin")
            with Http(daemon.connect()) as http:
                assert http.post(other + "/api/execute", NEW, command="test ! -L /app && test ! -L /home && echo fine > /app/x && cat /app/x", sessionId="s")[1]["stdout"] == "fine\n"
            assert daemon.stop() == 0, daemon.log_text()


def test_they_are_within_the_limit_of_the_disk():
    with served() as (daemon, http):
        with daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="wire", limits={"diskBytes": 8 << 20})
        result = run(http, "head -c 6M /dev/zero > /a && head -c 6M /dev/zero > /var/log/b")
        assert result["exitCode"] != 0 and "No space left" in result["stderr"], result


def test_they_are_saved():
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o777)
        with Daemon("--state-dir", state) as daemon:
            with Http(daemon.connect()) as http:
                for path in PLACES:
                    assert http.post(BASE + "/api/write", NEW, path=path, content=path)[0] == 200
                assert run(http, "mkdir -m 700 /made && ln -s /made /link && rm /bin && mkdir /bin && echo mine > /bin/x")["exitCode"] == 0
            with daemon.frames() as frames:
                frames.call("sandbox.stop", sandbox="wire")
            with Http(daemon.connect()) as http:
                for path in PLACES:
                    assert http.post(BASE + "/api/read", NEW, path=path)[1].get("content") == path, path
                answer = run(http, "readlink /link /lib; stat -c %a /made; cat /bin/x; grep -c . /etc/hosts")
                assert answer["stdout"] == "/made\nusr/lib\n700\nmine\n2\n", answer
            assert daemon.stop() == 0, daemon.log_text()


def test_whatever_the_guest_makes_of_its_root_it_starts_again():
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o777)
        with Daemon("--state-dir", state) as daemon:
            with daemon.frames() as frames:
                def again(sandbox, before, look):
                    frames.call("exec", sandbox=sandbox, command=before)
                    found = frames.call("exec", sandbox=sandbox, command=look)["stdout"]
                    frames.call("sandbox.stop", sandbox=sandbox)
                    assert frames.call("exec", sandbox=sandbox, command=look)["stdout"] == found and found, (before, found)

                # Entries of a new root that it removed leave room for files, which must be there when it starts again.
                frames.call("sandbox.create", sandbox="full", limits={"diskInodes": 64})
                again("full", "cd /; rm -f /sbin /lib32; rmdir /srv /src; i=0; while echo x 2>/dev/null >/f$i; do i=$((i+1)); done", "ls -d /f* | wc -l; ls -d /srv /sbin 2>&1")
                again("full", "rm /f0; echo y > /f0", "cat /f0; ls -d /f* | wc -l")
                # Its owner may take the rights to its own files.
                keep = "mkdir -p /workspace/d && echo keep > /workspace/keep && echo deep > /workspace/d/deep"
                look = "cat /workspace/keep; chmod 700 /workspace/d && cat /workspace/d/deep"
                for number, change in enumerate(("chmod 0311 /", "chmod 0 /workspace/d", "chmod 0 /workspace/keep; chmod 0300 /workspace/d", "chmod 0 /")):
                    name = f"shut{number}"
                    frames.call("exec", sandbox=name, command=f"{keep}; {change}; true")
                    frames.call("sandbox.stop", sandbox=name)
                    answer = frames.call("exec", sandbox=name, command=f"chmod 600 /workspace/keep; {look}")
                    assert answer["stdout"] == "keep\ndeep\n", (change, answer)
            assert daemon.stop() == 0, daemon.log_text()
