"""Paths of the public examples of the sandbox package can be written to, are bounded, and are saved with the sandbox."""
import os
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Daemon, Http, of_events, served

NEW = {"X-Sandbox-Id": "x"}
PLACES = ["/app/index.js", "/app/src/a.ts", "/data/rows.csv", "/home/user/notes.txt", "/home/cloche/x", "/mnt/disk/f", "/opt/tool/bin/x",
          "/src/App.jsx", "/srv/www/index.html", "/var/log/app.log", "/var/backups/b.sqsh", "/var/tmp/x", "/var/lib/app/db", "/var/www/html/x", "/tmp/x", "/workspace/x"]


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
        for path in ("/usr/x", "/etc/x", "/bin/x", "/x", "/proc/x", "/dev/x", "/run/x"):
            assert http.post(BASE + "/api/write", NEW, path=path, content="")[0] in (403, 404, 500), path
        assert run(http, "cp /bin/true /app/setuid && chmod 4755 /app/setuid; findmnt -no OPTIONS /app || grep ' /app ' /proc/self/mounts")["stdout"].count("nosuid")
        status, _ = http.post(BASE + "/api/execute/code", NEW, code="open('/app/from-cell', 'w').write('x')")
        assert status == 200 and run(http, "cat /app/from-cell")["stdout"] == "x", "contexts have them too"


def test_a_guest_that_puts_others_in_their_place():
    """The directories below /run/tops are shown in interpreters that are made later: no link of the guest's leads anywhere."""
    changes = ("mv /run/tops/app /run/tops/gone; ln -s /usr /run/tops/app", "rm -rf /run/tops/opt; ln -s /proc/1/root /run/tops/opt",
               "rm -rf /run/tops/srv; echo x > /run/tops/srv", "mv /run/tops/data /run/tops/var/log/data", "mv /run/tops/mnt /run/tops/src/m; mkfifo /run/tops/mnt")
    code = """import os
def look(path):
    try:
        return sorted(os.listdir(path))
    except OSError as error:
        return type(error).__name__
def write(path):
    try:
        open(path + '/x', 'w').close()
        return 'written'
    except OSError as error:
        return type(error).__name__
print([(look(path), write(path)) for path in ('/app', '/opt', '/srv', '/data', '/mnt')], write('/usr'), write('/'), write('/src'))"""
    with served() as (_, http):
        for change in changes:
            assert run(http, change)["exitCode"] == 0, change
        status, context = http.post(BASE + "/api/contexts", NEW, language="python")
        assert status == 200, context
        assert http.begin("POST", BASE + "/api/execute/code", {"code": code, "context_id": context["id"]}, NEW) == 200
        printed = "".join(event.get("text", "") for event in of_events(http) if event["type"] == "stdout")
        assert printed == "[" + ", ".join(["([], 'OSError')"] * 5) + "] OSError OSError written\n", printed


def test_they_are_within_the_limit_of_the_disk():
    with served() as (daemon, http):
        with daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="wire", limits={"diskBytes": 8 << 20})
        result = run(http, "head -c 6M /dev/zero > /app/a && head -c 6M /dev/zero > /var/log/b")
        assert result["exitCode"] != 0 and "No space left" in result["stderr"], result


def test_they_are_saved():
    with tempfile.TemporaryDirectory() as state:
        os.chmod(state, 0o777)
        with Daemon("--state-dir", state) as daemon:
            with Http(daemon.connect()) as http:
                for path in PLACES:
                    assert http.post(BASE + "/api/write", NEW, path=path, content=path)[0] == 200
            with daemon.frames() as frames:
                frames.call("sandbox.stop", sandbox="wire")
            with Http(daemon.connect()) as http:
                for path in PLACES:
                    assert http.post(BASE + "/api/read", NEW, path=path)[1].get("content") == path, path
            assert daemon.stop() == 0, daemon.log_text()
