"""All commands of docs/environments.md, with a store, a home directory, indexes and services of the test's own. One that no test takes fails."""
import contextlib
import json
import os
import re
import signal
import socketserver
import subprocess
import threading

from boxes import daemon
from cloche import BUILD, SOURCE, equal, need_root, possible_layers, skip, wait_for
from image_trees import copy_programs, make_image
from package_files import Index

TIMEOUT = 150
with open(os.path.join(SOURCE, "docs/environments.md")) as page:
    PAGE = page.read().replace("\\\n", "")
PROMPTED = re.findall(r"^    \$ (.+)$", PAGE, re.M)
SHELL = [line for line in re.findall(r"^    (\S.+)$", PAGE, re.M) if re.match(r"(cloche|cloched|curl) ", line)]
BLOCKS = {"own daemon": "cloche daemon stop|cloched --on-demand", "import": "cloche image import SOURCE", "made": "cloche image (debian NAME|build) ", "volumes": "cloche volume |cloche sandbox create (one|two)|cloche exec one ", "writable root": "cloche sandbox (create work --image|commit work) ", "daemon's store": "cloche image (ls|inspect|prune) .*(--daemon|--socket s)$", "changes": "cloched --socket s --image-changes|curl .*/v1/images",
          "a machine": "cloche image debian machine|cloche (exec|sandbox commit|sandbox create) web ",  # integration/image-debian
          "packages": "cloche sandbox create data|cloched .*--package-index pip=http:", "mounts": "cloche sandbox create work --mount|cloche exec work -- 'cd src|cloche sandbox stop work",
          "services": "cloched .*--network-preset|cloche sandbox create work --allow|cloche exec work --socket|cloche net ", "programs": "curl .*/v1/sandboxes"}


OTHERS = "\\$ |IMAGE  |# (app|web)/|echo ('the service|> /dev/shm/ready)|exec 3<|(FROM|ARG|ENV|WORKDIR|COPY|RUN|CMD) |tools:1|(python|bash) +ready|box = client|client\\.create_volume|mount=cloche|await client"  # commands of PROMPTED, an output, code


def test_each_command_has_its_test():
    for line in SHELL:
        equal(len([block for block, pattern in BLOCKS.items() if re.match(pattern, line)]), 1, line)
    equal([line for line in re.findall(r"^ {4,}(\S.+)$", PAGE, re.M) if line not in SHELL and not re.match(OTHERS, line)], [])


def of(block):
    found = [line for line in SHELL if re.match(BLOCKS[block], line)]
    assert found, block
    return found


def placed(line):
    """The command with the test's store and image."""
    line = re.sub(r"cloche image (?!warm)(\w+)", r"cloche image \1 --images images", line.replace("/srv/root", "image"))
    return re.sub(r"--image (\S+)$", r"--image \1 --images images", line)


def shell(line, **env):
    print("+", line, flush=True)
    done = subprocess.run(["sh", "-ec", line], stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, **env})
    equal(done.returncode, 0, (done.stdout, done.stderr))
    return done.stdout.strip()


def prepare():
    os.environ.update(XDG_DATA_HOME=os.path.abspath("data"), PATH=f"{os.path.abspath('bin')}:{BUILD}:{os.environ['PATH']}")


@contextlib.contextmanager
def served(line, *more):
    """The daemon of that line, and the test's options after it."""
    need_root()
    prepare()
    os.makedirs("images", mode=0o700, exist_ok=True)
    print("+", line, *more, flush=True)
    with open("log", "w") as log:
        process = subprocess.Popen(["sh", "-c", f"exec {line} \"$@\"", "sh", "--state-dir", os.path.abspath("state"), "--images", os.path.abspath("images"), *more], stderr=log, stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: process.poll() is not None or '"ready"' in open("log").read(), "the daemon")
        assert process.poll() is None, open("log").read()
        yield
    finally:
        process.send_signal(signal.SIGTERM)
        equal(process.wait(), 0)


def run(lines):
    """The output of each; variables of one are there in the next."""
    outputs = (shell("".join(f"echo '=='; {placed(line)}\n" for line in lines)) + "\n").removeprefix("==\n").split("==\n")
    equal(len(outputs), len(lines), outputs)
    return dict(zip(lines, map(str.strip, outputs)))


def test_the_store_and_runs():
    image = make_image()
    with open(image + "/etc/os-release", "w") as file:
        file.write("NAME=tools\n")
    for name in ("ls", "cat"):
        copy_programs(image, "/usr/bin/" + name)
    prepare()
    ends = [line for line in PROMPTED if re.match("cloche image (rm|prune)", line)]  # the page has them before the runs
    with daemon("--images", os.path.abspath("images")):
        said = run([line for line in PROMPTED if line not in ends and not re.search("image build| site", line)])
    for part, expected in ((" import - tools:1", "tools:1"), ("call python -c 'def f(): return open", '"NAME=tool"'), ("--prefix warm", '"[1]"'), ("exec mine", "NAME=tools")):
        [line] = [line for line in said if part in line]
        equal(said[line], expected, line)
    equal(run(ends)["cloche image prune"], "removed 0 images, 0 trees, 0 unfinished imports; 0 in use")


def test_a_dockerfile():
    if not possible_layers():
        skip("this kernel has no writable roots")
    need_root()
    prepare()
    make_image()
    os.makedirs("app/bin")
    with open("app/bin/about", "w") as file:
        file.write("#!/bin/sh\necho $MODE: $(cat about)\n")
    os.chmod("app/bin/about", 0o755)
    copy_programs("image", "/usr/bin/cat")
    os.makedirs("web")
    for path in ("app/Dockerfile", "web/Dockerfile", "web/server.sh"):
        with open(path, "w") as file:
            file.write(re.search(rf"    # {path}\n((?:    .*\n)+)", PAGE)[1].replace("    ", ""))
    shell("cloche image import --images images image tools:1")
    line, web = [line for line in PROMPTED if "image build" in line]
    equal(shell(placed(line)), "app:1")
    equal(shell("cloche run bash -c about --image app:1 --images images"), "test: built for test")
    equal(shell(placed(web)), "web:1")
    with daemon("--images", os.path.abspath("images")):
        said = run([line for line in PROMPTED if " site" in line])
    equal(said["cloche logs site image-start"], "the service begins")


def small_image():
    os.makedirs("image/etc")
    with open("image/etc/marker", "w") as file:
        file.write("1")
    subprocess.run(["tar", "-C", "image", "-cf", "tools.tar", "."], check=True)


def test_imports_and_builds():
    """mmdebstrap and npm are pretended; image-debian and image-build try the real ones."""
    small_image()
    prepare()
    os.mkdir("bin")
    os.mkdir("tmp")
    for name, script in (("mmdebstrap", "exec cat tools.tar"), ("npm", "")):
        with open("bin/" + name, "w") as file:
            file.write(f"#!/bin/sh\n{script}\n")
        os.chmod("bin/" + name, 0o755)
    with open("sources", "w") as file:
        file.write("deb http://mirror.invalid/debian bookworm main\n")
    [line] = of("import")
    equal(shell(placed(line.replace("SOURCE [NAME[:TAG]]", "tools.tar tools:2"))), "tools:2")
    for line, name in zip(of("made"), ("name:latest", "standard:latest", "data:1"), strict=True):
        equal(shell(placed(line.replace(" NAME ", " name ")) + " --sources sources", TMPDIR=os.path.abspath("tmp")), name)


def test_changes_of_a_daemons_store():
    small_image()
    start, put = of("changes")
    with served(start):
        equal(json.loads(shell(put))["name"], "tools:1")
        listed, inspected, pruned = (shell(line, CLOCHE_SOCKET="s") for line in of("daemon's store"))
        *made, commit = of("writable root")
        if possible_layers():
            equal([shell(line, CLOCHE_SOCKET="s") for line in made], ["work"])
            equal(shell(commit, CLOCHE_SOCKET="s"), "tools:2")
        assert listed.startswith("tools:1\t") and "tools:1" in inspected, (listed, inspected, pruned)


def test_volumes():
    if not os.path.exists("/dev/loop-control"):
        skip("this host has no loop devices")
    *made, kept, inspected = of("volumes")
    with served("cloched --socket s", "--volumes", os.path.abspath("volumes")):
        for line in made:
            shell(line, CLOCHE_SOCKET="s")
        equal(shell(kept, CLOCHE_SOCKET="s"), "kept")
        assert "data" in shell(inspected, CLOCHE_SOCKET="s")


def test_the_own_daemon():
    prepare()
    os.mkdir("run", 0o700)
    os.environ.update(XDG_RUNTIME_DIR=os.path.abspath("run"), XDG_STATE_HOME=os.path.abspath("state"))
    os.environ.pop("CLOCHE_SOCKET", None)
    stop, start = of("own daemon")
    shell("cloche daemon start")
    shell(stop)
    process = subprocess.Popen(["sh", "-c", "exec " + start], stdin=subprocess.DEVNULL)
    wait_for(lambda: subprocess.run(["cloche", "daemon", "status"], capture_output=True).returncode == 0, "the daemon")
    assert shell("cloche sandbox create box --allow host:db") == "box"
    shell(stop)
    equal(process.wait(), 0)


@contextlib.contextmanager
def index():
    """An index on this host, and a function that puts it in place of the page's."""
    server = Index("127.0.0.1", kinds=("pip", "npm"))
    port = server.server_address[1]
    server.files["/npm/hellojs"] = server.files["/npm/hellojs"].replace(b"127.0.0.1", b"index.host.internal")

    def place(line):
        return line.replace("8080", str(port)).replace("/simple", "/pip/").replace("requests,numpy", "hellopy").replace("requests", "hellopy").replace("left-pad", "hellojs")
    try:
        yield place, ["--package-index", f"npm=http://index.host.internal:{port}/npm/"]
    finally:
        server.shutdown()
        server.server_close()


def test_packages():
    create, start, of_index = of("packages")
    with index() as (place, more), served(place(start), *more):
        equal(shell(place(create) + " --allow host:index --socket s"), "data")
        equal(shell("cloche exec data --socket s -- 'hellopy; hellojs'"), "hellopy 1\nhellojs one")
        shell("cloche sandbox rm data --socket s")
        equal(shell(place(of_index)), "data")
        equal(shell("cloche exec data --socket s -- hellopy"), "hellopy 1")


def test_directories():
    os.makedirs("home/project")
    os.chmod("home/project", 0o755)
    for name, text in (("Makefile", "all:\n\techo made >out; cat secret.key || true\n"), ("secret.key", "key")):
        with open("home/project/" + name, "w") as file:
            file.write(text)
    home = os.path.abspath("home")
    with served("cloched --socket s", "--mount-root", home):
        create, make, stop = of("mounts")
        said = [shell(line, HOME=home, CLOCHE_SOCKET="s") for line in (create, make)]
        assert said[0] == "work" and "key" not in said[1].split("\n"), said
        assert not os.path.exists("home/project/out")
        shell(stop, CLOCHE_SOCKET="s")
    with open("home/project/out") as file:
        equal(file.read(), "made\n")


class Service(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"the service\n")


@contextlib.contextmanager
def service():
    """A function that puts its port in place of the page's."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield lambda line: line.replace("5432", str(server.server_address[1]))
        server.shutdown()


def test_services_and_programs():
    start, create, connect, add = of("services")
    [post] = of("programs")
    with service() as port, index() as (place, _), served(port(start), *place("--host-port index=8080 --package-index pip=http://index.host.internal:8080/simple").split()):
        equal(shell(create), "work")
        equal(shell(port(connect)), "the service")
        shell(add)
        answer = json.loads(shell(place(post).replace('"host:db"', '"host:db", "host:index"')))
        equal((answer["sandbox"], answer["created"]), ("data", True))
        equal(shell("cloche exec data --socket s -- hellopy"), "hellopy 1")
