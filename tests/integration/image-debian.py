"""cloche image debian: its words, those that mmdebstrap gets, its result; the real mmdebstrap where apt's mirrors answer, and a sandbox
with root of such a Debian: the commands of docs/environments.md."""
import fcntl
import http.server
import json
import os
import re
import shutil
import socketserver
import subprocess
import sys
import threading
import urllib.error
import urllib.request

from cloche import BUILD, ORDINARY_USER, SOURCE, bad_input, call, cli, equal, need_ordinary_user, need_root, need_writable_roots, sampled, skip, write_file
from image_trees import make_image
from package_files import Index

sys.path.insert(0, os.path.join(SOURCE, "tests/daemon"))
from rpc import Daemon  # noqa: E402

TIMEOUT = 1800
MODE = ["--mode=unshare"] if os.geteuid() == 0 else []
SOURCES = "# trixie is not used\nTypes: deb\nURIs: http://mirror.invalid/debian\nSuites: bookworm bookworm-updates\nComponents: main\n"


def pretend(script):
    """A mmdebstrap in front of the real one; its arguments are written to words."""
    os.makedirs("bin", exist_ok=True)
    with open("bin/mmdebstrap", "w") as file:
        file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" > {os.getcwd()}/words\n{script}\n")
    os.chmod("bin/mmdebstrap", 0o755)
    os.chmod(".", 0o777)  # root's runs as another user
    with open("sources", "w") as file:
        file.write(SOURCES)
    return {"PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"}


def debian(*words, env=None):
    return cli("image", "debian", "made", "--images", "images", "--sources", "sources", *words, env=env)


def test_words_and_result():
    make_image("root")
    env = pretend("echo I: downloading >&2; tar -C root -c .")
    finished = debian("--suite", "bookworm", "--packages", "nano,python3-yaml", env=env)
    equal((finished.code, finished.stdout, finished.stderr), (0, b"made:latest\n", b"I: downloading\n"), finished)
    with open("words") as words:
        os.remove("words")  # the next one is another user's
        equal(words.read().split(), ["--variant=minbase", "--dpkgopt=force-unsafe-io", "--include=nano,python3-yaml", *MODE, "bookworm", "-", "sources"])
    equal(call("python", "def f(): return open('/etc/marker').read()", "f", image="made", images="images").value, "root")
    equal(debian("--suite", "bookworm-updates", "--json", env=env).code, 0)
    with open("words") as words:
        equal(words.read().split(), ["--variant=minbase", "--dpkgopt=force-unsafe-io", *MODE, "bookworm-updates", "-", "sources"])


def test_whose_rights_it_has():
    """Root's mmdebstrap is root of a namespace, who can neither read nor write what others may not, nor change the host; what it leaves behind is removed."""
    need_root()
    make_image("root")
    write_file("secret", "s")
    os.chmod("secret", 0o600)
    climbs = ["cat secret", "chown 70000 $TMPDIR", "mount --bind / /mnt", "kill -0 $PPID", "mknod $TMPDIR/d b 1 1", "echo 1 > /proc/sys/kernel/panic", "chroot / id"]
    script = "".join(f"({act}) > /dev/null 2>&1 && echo 'did {act}' >&2\n" for act in climbs)
    script += "id -u >&2; cut -c1-30 /proc/self/uid_map >&2; mkdir -p $TMPDIR/a/b; chown 33 $TMPDIR/a; chmod 0 $TMPDIR/a; tar -C root -c ."
    os.mkdir("tmp", 0o755)
    finished = debian("--suite", "bookworm", env={**pretend(script), "TMPDIR": os.path.abspath("tmp")})
    equal((finished.code, finished.stdout), (0, b"made:latest\n"), finished)
    said = finished.stderr.decode().split("\n")
    # a mount of its own namespace and the root directory are no rights over the host
    equal([line for line in said if line.startswith("did ") and line not in ("did mount --bind / /mnt", "did chroot / id")], [])
    uid, inside, outside, *_ = " ".join(line for line in said if not line.startswith("did ")).split()
    assert (uid, inside) == ("0", "0") and int(outside) >= 0x70400000, said
    equal((os.listdir("tmp"), os.path.ismount("/mnt")), ([], False))
    os.mkdir("closed", 0o700)
    os.mkdir("closed/tmp", 0o777)
    finished = debian("--suite", "bookworm", env={**pretend("exit 0"), "TMPDIR": os.path.abspath("closed/tmp")})
    assert finished.code == 1 and b"that other users may not enter: name another one by TMPDIR" in finished.stderr, finished
    equal(os.listdir("closed/tmp"), [])


def test_its_ids_are_taken_until_it_ends():
    """Also if the command line is killed before: a sandbox with root must not have them at the same time."""
    need_root()
    env = pretend("echo $(</proc/self/uid_map) >&2; read line < gate")
    with open("bin/mmdebstrap") as file:
        script = file.read().replace("#!/bin/sh", "#!/bin/bash")
    write_file("bin/mmdebstrap", script)
    os.mkdir("tmp", 0o755)
    os.mkfifo("gate")
    os.chmod("gate", 0o666)
    with subprocess.Popen([os.path.join(BUILD, "cloche"), "image", "debian", "made", "--images", "images", "--sources", "sources", "--suite", "bookworm"], env={**os.environ, **env, "TMPDIR": os.path.abspath("tmp")}, stderr=subprocess.PIPE) as command:
        first = command.stderr.readline().split()[1].decode()
        command.kill()
        command.wait()
        with open(f"/run/cloche-ids/{first}") as lease:
            try:
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
                raise AssertionError("the ids are free")
            except BlockingIOError:
                pass
            write_file("gate", "\n")
            fcntl.flock(lease, fcntl.LOCK_EX)  # it ends


def test_one_that_fails_leaves_nothing():
    """Although what it had written is an archive."""
    make_image("root")
    finished = debian("--suite", "bookworm", env=pretend("tar -C root -c .; echo E: no space >&2; exit 25"))
    equal((finished.code, finished.stdout), (1, b""), finished)
    assert b"E: no space\ncloche: mmdebstrap failed" in finished.stderr and b"subuid" not in finished.stderr, finished
    assert debian("--suite", "bookworm", env=pretend("echo no archive")).code != 0
    equal(cli("image", "ls", "--images", "images").stdout, b"")


def test_one_that_fails_for_an_ordinary_user():
    need_ordinary_user()
    env = {**pretend("exit 25"), "TMPDIR": "/tmp"}
    os.chmod(".", 0o755)
    os.mkdir("store", 0o700)
    os.chown("store", 12345, 12345)
    finished = cli("image", "debian", "made", "--suite", "bookworm", "--sources", "sources", "--images", os.path.abspath("store"), env=env, under=ORDINARY_USER)
    equal(finished.code, 1, finished)
    assert b"needs ids in /etc/subuid and /etc/subgid" in finished.stderr, finished


def test_without_mmdebstrap():
    pretend("")
    os.makedirs("empty")
    finished = debian("--suite", "bookworm", env={"PATH": os.path.abspath("empty")})
    equal((finished.code, len(finished.stderr.splitlines())), (2, 1), finished)
    assert b"apt install mmdebstrap" in finished.stderr and b"cloche image import" in finished.stderr, finished


def test_a_store_that_refuses():
    """Before mmdebstrap runs."""
    env = pretend("")
    os.mkdir("images", 0o755)
    finished = debian("--suite", "bookworm", env=env)
    equal((finished.code, os.path.exists("words")), (2, False), finished)
    assert b"must be its user's alone" in finished.stderr, finished


def test_bad_input():
    env = pretend("")
    words = ("image", "debian", "made", "--images", "images", "--sources", "sources")
    os.environ.update(env)
    for suite in ("trixie", "book", "updates", "mirror.invalid"):
        bad_input(*words, "--suite", suite, says=f"does not name the suite '{suite}'")
    for suite in ("", "-x", "a b", "a/b", "$(x)"):
        bad_input(*words, "--suite", suite, says="not the name of a suite")
    for packages in ("", "--x", "a b", "a;b", "./a.deb"):
        bad_input(*words, "--suite", "bookworm", "--packages", packages, says="not a list")
    bad_input(*words, says="--suite")
    bad_input("image", "debian", "made", "--images", "images", "--suite", "bookworm", "--sources", "no-file", says="--sources: no-file: No such file or directory")
    bad_input("image", "debian", "--suite", "bookworm", says="a name")
    bad_input(*words[:-1], "none", "--suite", "bookworm", says="none")
    bad_input("image", "debian", "Bad Name", *words[3:], "--suite", "bookworm", says="'Bad Name' is no name of an image")
    bad_input("image", "build", "--standard", "a:b c", *words[3:], says="'b c' is no tag of an image")
    assert not os.path.exists("words"), "nothing ran"


def test_the_real_one():
    """It finds the packages of every Debian and one more by the machine's sources, and plans their installation; with CLOCHE_TEST_ALL=1
    it installs them, which takes minutes. Skipped where apt's mirrors do not answer."""
    if not shutil.which("mmdebstrap"):
        skip("there is no mmdebstrap")
    suite = subprocess.run(["sh", "-c", ". /etc/os-release; echo $VERSION_CODENAME"], capture_output=True, text=True).stdout.strip()
    updated = subprocess.run(["apt-get", "indextargets", "--format", "$(CODENAME)"], capture_output=True, text=True).stdout.split()
    if suite not in updated:
        skip(f"apt has no lists of {suite}")
    plan = sampled("--simulate --verbose", "")
    env = pretend(f'exec {shutil.which("mmdebstrap")} {plan} "$@"')
    finished = cli("image", "debian", "real", "--suite", suite, "--packages", "python3", "--images", "images", env=env, bound=sampled(120, TIMEOUT))
    if b"mmdebstrap failed" in finished.stderr and b"apt-get update" in finished.stderr:
        skip("apt's mirrors do not answer")
    if plan:
        assert b"Inst python3 " in finished.stderr and b"mmdebstrap failed" not in finished.stderr, finished
        return
    equal((finished.code, finished.stdout), (0, b"real:latest\n"), finished)
    equal(call("python", "import sys\ndef f(): return sys.version_info[0]", "f", image="real", images="images").value, 3)
    names = json.loads(cli("image", "ls", "--images", "images", "--json").stdout)
    equal([row["names"] for row in names], [["real:latest"]])


# -- a machine of it ----------------------------------------------------------------------------------------------------

class Mirror(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """The mirrors of this machine's apt, as /HOST/PATH: their addresses need not be public."""
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Mirrored)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        pass


class Mirrored(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        try:
            with urllib.request.urlopen("http:/" + self.path) as found:
                status, content = found.status, found.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, b""
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_):
        pass


def of_page():
    """The commands of the page that make a machine."""
    with open(os.path.join(SOURCE, "docs/environments.md")) as page:
        return re.findall(r"^    (cloche (?:image debian machine|(?:exec|sandbox create|sandbox commit) web) .+)$", page.read(), re.M)


def told(line, socket):
    print("+", line, flush=True)
    done = subprocess.run(["sh", "-ec", line], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          env={**os.environ, "CLOCHE_SOCKET": socket, "PATH": f"{os.environ['CLOCHE_BUILD']}:{os.environ['PATH']}"})
    equal(done.returncode, 0, (line, done.stdout[-2000:], done.stderr[-2000:]))
    return done.stdout


LOOK = """python3 -c 'import hellopy, urllib.request; print(hellopy.version, urllib.request.urlopen("http://127.0.0.1/").status)'
hellojs; su - bob -c 'id; cat said'; stat -c '%U %n' /var/www /home/bob/said /etc/shadow; stat -c %G /etc/shadow; dpkg --audit; dpkg --verify; passwd -S bob | cut -d' ' -f1,2"""
SEEN = """1 200
hellojs one
uid=1001(bob) gid=1001(bob) groups=1001(bob)
hellojs one
bob /var/www
bob /home/bob/said
root /etc/shadow
shadow
bob L
"""


def check_machine(sandbox, socket):
    equal(told(f"cloche exec {sandbox} -- 'service nginx status || service nginx start' > log; cat > look <<'E'\n{LOOK}\nE\ncloche exec {sandbox} -- \"$(cat look)\"", socket), SEEN)


def test_a_machine_of_it():
    """With CLOCHE_TEST_ALL=1, for it installs some hundred packages; daemon/root does the like with this machine's own programs."""
    need_writable_roots()
    if not sampled(0, 1):
        skip("CLOCHE_TEST_ALL=1 runs it")
    if not shutil.which("mmdebstrap"):
        skip("there is no mmdebstrap")
    [debian, create, *acts, commit] = of_page()
    print("+", debian, flush=True)
    made = cli(*debian.split()[1:], "--images", "images", bound=1000)
    if made.code and b"apt-get update" in made.stderr:
        skip("apt's mirrors do not answer")
    equal((made.code, made.stdout), (0, b"machine:latest\n"), made)
    mirror, index = Mirror().server_address[1], Index("127.0.0.1", kinds=("pip", "npm"))
    port, host = index.server_address[1], f"http://index.host.internal:{index.server_address[1]}"
    index.files = {path: content.replace(index.url.encode(), host.encode()) for path, content in index.files.items()}
    for state in ("here", "elsewhere"):
        os.mkdir(state)
    with Daemon("--images", os.path.abspath("images"), "--state-dir", os.path.abspath("here"), "--image-changes", "owner", "--host-port", f"index={port}", "--host-port", f"mirror={mirror}",
                "--network-preset", "debian=host:mirror", "--package-index", f"pip={host}/pip", "--package-index", f"npm={host}/npm") as daemon:
        told(f"{create} --allow host:index --disk 3G --memory 3G", daemon.path)
        told(f"cloche exec web -- 'find /etc/apt -name \\*.list -o -name \\*.sources | xargs sed -i s,http://,http://mirror.host.internal:{mirror}/,'", daemon.path)
        for line in acts:
            told(line, daemon.path)
        check_machine("web", daemon.path)
        told("cloche sandbox stop web", daemon.path)
        check_machine("web", daemon.path)
        equal(told(commit, daemon.path), "web:1\n")
    with Daemon("--images", os.path.abspath("images"), "--state-dir", os.path.abspath("elsewhere")) as daemon:
        told("cloche sandbox create other --image web:1 --root", daemon.path)
        check_machine("other", daemon.path)
