"""cloche image build: ten shapes of Dockerfiles, what is refused, the cache, secrets, and builds that end early. The image has bash and little else."""
import hashlib
import json
import os
import shutil
import signal
import socketserver
import tarfile
import tempfile
import threading

from cloche import BUILD, alive, cli, descendants, equal, layer_places, need_ordinary_user, need_root, need_writable_roots, skip, start, wait_for
from image_trees import copy_programs, make_shell

TIMEOUT = 240
STORE = ("--images", "store")


def prepare():
    need_writable_roots()
    image = make_shell()
    os.symlink("bash", image + "/usr/bin/sh")
    for path in ("opt", "srv"):
        os.mkdir(f"{image}/{path}")
    copy_programs(image, "/usr/bin/ln")
    equal(cli("image", "import", image, "base:1", *STORE).code, 0)


def write(files, directory="context"):
    for path, text in files.items():
        os.makedirs(os.path.dirname(f"{directory}/{path}"), exist_ok=True)
        with open(f"{directory}/{path}", "w") as file:
            file.write(text)


def build(text, *options, files=(), expected=0, env=None):
    write({"Dockerfile": text, **dict(files)})
    done = cli("image", "build", "context", *STORE, *options, env=env)
    equal(done.code != 0 if expected is None else done.code, expected is None or expected, (text, done))
    return done


def config_of(name):
    return json.loads(cli("image", "inspect", name, *STORE, "--json").stdout)["config"]


def tree_of(name):
    return f"store/trees/{json.loads(cli('image', 'inspect', name, *STORE, '--json').stdout)['tree'].replace(':', '-')}"


def look(path):
    with open(path) as file:
        return file.read()


def test_shapes():
    prepare()
    # a comment, continued lines with comments and empty lines, and both forms of RUN
    build("# syntax=docker/dockerfile:1\nFROM base:1\n\nRUN echo one > /opt/a && \\\n    # inside\n\n  echo \"two\" >> \\\n /opt/a\nrun [\"bash\", \"-c\", \"echo $0 $1 >> /opt/a\", \"x y\", \"z\"]\n", "-t", "shape:1")
    equal(look(tree_of("shape:1") + "/opt/a"), "one\ntwo\nx y z\n")
    # ARG before FROM, with and without a value from the command line
    text = "ARG BASE=base\nARG TAG=none\nFROM ${BASE}:$TAG\nARG TAG\nARG WORD=\"a default\"\nRUN echo $TAG $WORD ${BASE:-unset} > /opt/b\n"
    build(text, "-t", "shape:2", "--build-arg", "TAG=1", "--build-arg", "WORD=given")
    equal(look(tree_of("shape:2") + "/opt/b"), "1 given unset\n")
    # forms of ENV; those of one instruction do not see each other
    text = "FROM base:1\nENV OLD the rest of  the line\nENV A=1 B=\"two words\" C=three\\ words D='$A'\nENV A=2 E=$A F=${NONE:-${B}} G=${A:+set} H=${NONE} I=\\$A PATH=/opt/bin:/usr/bin:/bin\nRUN echo \"$OLD|$A|$B|$C|$D|$E|$F|$G|$H|$I|$PATH\" > /opt/c\n"
    build(text, "-t", "shape:3")
    equal(look(tree_of("shape:3") + "/opt/c"), "the rest of  the line|2|two words|three words|$A|1|two words|set||$A|/opt/bin:/usr/bin:/bin\n")
    # WORKDIR relative, made if it is missing, and with a variable
    build("FROM base:1\nENV AT=below\nWORKDIR /app\nWORKDIR $AT\nRUN --mount=type=cache,destination=/srv/cache [ -d /srv/cache ] && pwd > here\nWORKDIR later\n", "-t", "shape:4")
    equal(look(tree_of("shape:4") + "/app/below/here"), "/app/below\n")
    equal(config_of("shape:4")["workingDir"], "/app/below/later")
    assert os.path.isdir(tree_of("shape:4") + "/app/below/later")
    # COPY: a file, another name, patterns, a directory's contents, several sources, spaces; and .dockerignore
    files = {"one": "1", "src/a.c": "a", "src/b.c": "b", "src/sub/d": "d", "src/skip.log": "no", "logs/keep.log": "yes", "logs/x.log": "no", "a b": "space", ".dockerignore": "# no logs\n**/*.log\n!logs/keep.log\n/context-only\n", "context-only/x": "no"}
    write(files)
    os.symlink("../one", "context/src/link")
    os.chmod("context/one", 0o755)
    build("FROM base:1\nWORKDIR /app\nCOPY one .\nCOPY one two\nCOPY src/*.c one /opt/\nCOPY src code/\nCOPY [\"a b\", \"/srv/\"]\nCOPY . /all/\nRUN [ -x /app/two ] && [ \"$(<code/sub/d)\" = d ]\n", "-t", "shape:5")
    tree = tree_of("shape:5")
    equal(sorted(os.listdir(tree + "/opt")), ["a.c", "b.c", "one"])
    equal((sorted(os.listdir(tree + "/app")), sorted(os.listdir(tree + "/app/code")), os.readlink(tree + "/app/code/link")), (["code", "one", "two"], ["a.c", "b.c", "link", "sub"], "../one"))
    equal((look(tree + "/srv/a b"), os.listdir(tree + "/all/logs"), os.path.exists(tree + "/all/context-only")), ("space", ["keep.log"], False))
    # USER, LABEL, EXPOSE, CMD and ENTRYPOINT in their forms
    build("FROM base:1\nLABEL a=b \"c d\"='e f'\nLABEL old form\nEXPOSE 80 53/udp\nUSER 1001:1001\nCMD echo $HOME\n", "-t", "shape:6")
    equal(config_of("shape:6"), {"env": [], "labels": {"a": "b", "c d": "e f", "old": "form"}, "exposedPorts": {"80/tcp": {}, "53/udp": {}}, "user": "1001:1001", "cmd": ["/bin/sh", "-c", "echo $HOME"]})
    build("FROM shape:6\nENTRYPOINT [\"bash\", \"-c\"]\n", "-t", "shape:7")
    equal({name: config_of("shape:7").get(name) for name in ("entrypoint", "cmd", "user")}, {"entrypoint": ["bash", "-c"], "cmd": None, "user": "1001:1001"})
    # stages, by name, by number, and another image
    build("FROM base:1 AS build\nRUN echo made > /opt/made; : > /opt/only\nFROM base:1\nCOPY --from=build /opt/made /srv/x\nCOPY --from=0 /opt /copied\nCOPY --from=shape:1 /opt/a /srv/\nFROM 1\n".replace("FROM 1\n", ""), "-t", "shape:8")
    equal([look(tree_of("shape:8") + path) for path in ("/srv/x", "/copied/made", "/srv/a")], ["made\n", "made\n", "one\ntwo\nx y z\n"])
    equal(os.listdir(tree_of("shape:8") + "/opt"), [])
    # a stage on a stage; ADD unpacks an archive, and only that
    with tarfile.open("context/files.tar.gz", "w:gz") as archive:
        archive.add("context/src", "in")
    build("FROM base:1 AS one\nENV A=1\nFROM one AS two\nADD files.tar.gz /opt/\nADD one /opt/\nRUN [ $A = 1 ]\n", "-t", "shape:9")
    equal((sorted(os.listdir(tree_of("shape:9") + "/opt")), look(tree_of("shape:9") + "/opt/in/a.c")), (["in", "one"], "a"))
    # its name tells, not that of a directory above
    write({"notes.tar.txt": "plain", "a.test/x": "", "b.tar/y": "plain"})
    os.rename("context/files.tar.gz", "context/a.test/files.tar.gz")
    build("FROM base:1\nADD a.test/files.tar.gz notes.tar.txt b.tar/y /opt/\n", "-t", "shape:10")
    equal((sorted(os.listdir(tree_of("shape:10") + "/opt")), look(tree_of("shape:10") + "/opt/y")), (["in", "notes.tar.txt", "y"], "plain"))
    # an image without a base: the archive of a root file system, whose links lead anywhere
    os.symlink("/proc/mounts", "image/etc/mtab")
    for name in ("dev", "proc", "run", "sys", "tmp", "root", "home"):
        os.mkdir(f"image/{name}")
    with tarfile.open("context/rootfs.tar", "w") as archive:
        archive.add("image", ".")
    build("FROM scratch\nADD rootfs.tar /\nCOPY src /bin/\nRUN [ -x /usr/bin/bash ] && echo own > /opt/made\n", "-t", "shape:11")
    tree = tree_of("shape:11")
    equal((look(tree + "/opt/made"), look(tree + "/usr/bin/a.c"), os.readlink(tree + "/etc/mtab"), os.readlink(tree + "/bin")), ("own\n", "a", "/proc/mounts", "usr/bin"))
    write({"top/bin/below": "1", "top/etc/set": "2"})
    build("FROM base:1\nCOPY top /\n", "-t", "shape:12")
    equal((look(tree_of("shape:12") + "/usr/bin/below"), look(tree_of("shape:12") + "/etc/set"), os.path.islink(tree_of("shape:12") + "/bin")), ("1", "2", True))
    # without a name the digest is printed; another Dockerfile
    write({"other": "FROM base:1\nRUN : > /opt/x\n"})
    told = cli("image", "build", "context", "-f", "context/other", *STORE)
    assert told.code == 0 and told.stdout.startswith(b"sha256:"), told
    equal(cli("image", "verify", told.stdout.decode().strip(), *STORE).code, 0)


USER = 12345  # as need_ordinary_user tries


def test_an_ordinary_users_build():
    need_ordinary_user()
    if "memory" not in layer_places():
        skip("this kernel has no layers in memory")
    prepare()
    write({"one": "1", "Dockerfile": "FROM base:1\nWORKDIR /app\nCOPY one .\nUSER 7\nRUN echo $UID > /opt/made\n"})
    for here, directories, files in os.walk("."):
        for name in (".", *directories, *files):
            os.chown(f"{here}/{name}", USER, USER, follow_symlinks=False)
    home = tempfile.mkdtemp(prefix="cloche-user-")
    os.chown(home, USER, USER)
    os.environ.update(TMPDIR=home, XDG_CACHE_HOME=home, XDG_STATE_HOME=home, XDG_RUNTIME_DIR=home, HOME=home)
    os.setgroups([])
    os.setgid(USER)
    os.setuid(USER)  # for the rest of this process
    equal(cli("image", "build", "context", "-t", "made:1", *STORE).code, 0)
    tree = tree_of("made:1")
    equal((look(tree + "/app/one"), look(tree + "/opt/made"), os.stat(tree + "/opt/made").st_uid), ("1", "1000\n", USER))
    for line, word in (("RUN [ $UID = 0 ]", "build as root"), ("COPY --chown=7 one /opt/", "--chown=7 needs root")):
        assert word in build(f"FROM base:1\n{line}\n", expected=None).stderr.decode(), line


REFUSED = (
    ("ONBUILD FROM x", 2, "ONBUILD FROM is not permitted"), ("ONBUILD onbuild RUN x", 2, "it stands once"), ("ONBUILD RUN <<E", 2, "'E' is not closed"), ("ONBUILD FOO x", 2, "FOO"), ("ONBUILD RUN", 2, "RUN needs a value"), ("ONBUILD COPY --what=x y z", 2, "COPY --what"), ("HEALTHCHECK x", 2, "NONE"), ("HEALTHCHECK CMDX y", 2, "NONE"), ("HEALTHCHECK CMD []", 2, "NONE"), ("HEALTHCHECK --interval=x CMD y", 2, "--interval=x"), ("SHELL /bin/bash", 2, "list"), ("VOLUME x", 2, "absolute"), ("STOPSIGNAL kill", 2, "kill"),
    ("FOO x", 2, "FOO"), ("RUN", 2, "RUN"), ("RUN <<E\nx\n E", 2, "'E' is not closed"), ("COPY <<E <<E /opt/\nE\nE", 2, "twice"), ("RUN --mount=type=cache,target=/opt y", 2, "the image has /opt"), ("RUN --mount=type=cache,target=x y", 2, "target=DIRECTORY"),
    ("COPY --chown=no Dockerfile /opt/", 2, "no user 'no'"), ("COPY --chown=:no Dockerfile /opt/", 2, "no group 'no'"), ("COPY --chmod=4755 Dockerfile /opt/", 2, "--chmod=4755"), ("COPY --parents a b", 2, "--parents"), ("FROM --platform=linux/s390x base:1", 2, "s390x"),
    ("COPY a", 2, "source"), ("COPY ../x /opt/", 2, "context"), ("COPY none /opt/", 2, "none"), ("COPY *.none /opt/", 2, "none"), ("ADD http://x/y /opt/", 2, "URL"),
    ("COPY Dockerfile /tmp/x", 2, "every box"), ("COPY link/passwd /opt/", 2, "link"), ("ENV A", 2, "A"), ("ENV A='x", 2, "quote"), ("ENV A=${B", 2, "}"), ("ENV A=${B:?}", 2, "B"), ("ENV A=${B/x/y}", 2, "B"), ("ENV 1A=x", 2, "1A"),
    ("EXPOSE x", 2, "x"), ("RUN --network=host x", 2, "--network"), ("RUN --mount=type=bind,target=/x y", 2, "type=bind"), ("RUN --mount=type=secret,id=q y", 2, "--secret"), ("FROM base:1 as", 2, "AS"), ("FROM none:1", 2, "none"),
    ("\n# c\nENV A=1 \\\n  B=2\nONBUILD FROM x", 6, "ONBUILD"))


def test_refusals_name_line_and_word():
    prepare()
    os.makedirs("context")
    os.symlink("/etc", "context/link")
    for line, number, word in REFUSED:
        done = build(f"FROM base:1\n{line}\n", expected=2)
        told = done.stderr.decode().splitlines()[-1]
        assert told.startswith(f"cloche: Dockerfile:{number}: ") and word in told, (line, told)
    for text, word in (("", "no FROM"), ("# x\n", "no FROM"), ("RUN x\nFROM base:1\n", "Dockerfile:1: RUN stands before FROM"), ("# escape=`\nFROM base:1\n", "escape"), ("FROM base:1\n" + "ENV A=1\n" * 1001, "1000")):
        assert word in build(text, expected=2).stderr.decode(), text
    os.remove("context/Dockerfile")
    equal(cli("image", "build", "context", *STORE).code, 2)
    equal(cli("image", "build", *STORE).code, 2)
    equal(os.listdir("store/incoming"), [])


def test_hostile_steps():
    """As root of their sandbox: each act has its twin."""
    need_root()
    prepare()
    copy_programs("image", *("/usr/bin/" + name for name in ("chmod", "cp", "mknod", "rm")))
    equal(cli("image", "import", "image", "base:2", *STORE).code, 0)
    # devices cannot be made, pipes are left out; bits that give rights are dropped
    build("FROM base:2\nRUN mknod /opt/null c 1 3\n", expected=1)
    build("FROM base:2\nRUN mknod /opt/pipe p && cp /usr/bin/bash /opt/su && chmod 6755 /opt/su && chmod 1777 /opt\n", "-t", "rights:1")
    tree = tree_of("rights:1")
    equal((os.listdir(tree + "/opt"), [os.stat(tree + path).st_mode & 0o7777 for path in ("/opt/su", "/opt")]), (["su"], [0o755, 0o1777]))
    # a name that would be a whiteout
    assert b"/opt/.wh.bin" in build("FROM base:2\nRUN : > /opt/.wh.bin\n", expected=2).stderr
    build("FROM base:2\nRUN : > /opt/_wh.bin\n")
    # links out of the tree are those of the image: nothing of the host is read or written through them
    with open("marker", "w") as file:
        file.write("of the host")
    here = os.getcwd()
    files = {"file": "new"}
    text = f"FROM base:2\nRUN ln -s {here}/marker /opt/link && ln -s {here} /opt/directory && ln -s /srv /opt/inside\n"
    build(text, "-t", "links:1")
    build("FROM links:1\nCOPY file /opt/link\nCOPY file /opt/inside/\n", "-t", "links:2", files=files)
    assert b"/opt/directory" in build("FROM links:1\nCOPY file /opt/directory/\n", expected=2).stderr
    tree = tree_of("links:2")
    equal((look(tree + "/opt/link"), os.readlink(tree + "/opt/directory"), look(tree + "/srv/file"), look("marker"), os.path.exists("file")), ("new", here, "new", "of the host", False))
    assert b"the other image has no" in build("FROM base:2\nCOPY --from=links:1 /opt/link /opt/got\n", expected=2).stderr
    build("FROM base:2\nCOPY --from=links:2 /opt/inside/file /opt/got\nCOPY --from=links:1 /opt /copied\n", "-t", "links:3")
    equal((look(tree_of("links:3") + "/opt/got"), os.readlink(tree_of("links:3") + "/copied/link")), ("new", here + "/marker"))
    # accounts that are a link are followed by nobody: the next step has rows of its own
    build("FROM base:2\nRUN rm -f /etc/passwd && echo kept > /opt/x && ln -s /opt/x /etc/passwd\nRUN read -r row < /etc/passwd && [ ${row%%:*} = root ] && echo $row > /srv/row\n", "-t", "links:4")
    tree = tree_of("links:4")
    equal((look(tree + "/opt/x"), look(tree + "/srv/row")), ("kept\n", "root:x:0:0:root:/root:/bin/sh\n"))
    # a secret in places that are in no image, a cache, and no step keeps a process
    write({"token": "s3cr3t-t0ken"}, ".")
    text = "FROM base:2\nRUN --mount=type=secret,id=t --mount=type=cache,target=/srv/cache/deep (cp /run/secrets/t /run/copy; cp /run/secrets/t /srv/cache/deep/; cp /run/secrets/t /tmp/; cp /run/secrets/t /workspace/) && cp /run/copy /opt/open-$(</srv/cache/deep/t)\nRUN [ ! -e /run/copy ] && [ ! -e /srv/cache/deep ] && [ ! -e /tmp/t ]\n"
    build(text, "-t", "secret:2", "--secret", "id=t,src=token")
    found = [os.path.join(place, name) for place, _, names in os.walk(tree_of("secret:2")) for name in names if os.path.isfile(os.path.join(place, name)) and b"s3cr3t-t0ken" in open(os.path.join(place, name), "rb").read()]
    equal(found, [tree_of("secret:2") + "/opt/open-s3cr3t-t0ken"])  # the twin: a file that the step itself leaves
    equal((os.listdir("store/incoming"), no_daemons()), ([], True))


class Service(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(b"served\n")


def images():
    return json.loads(cli("image", "ls", "--json", "--all", *STORE).stdout)


def no_daemons():
    """Processes of builds with this store."""
    store = os.path.realpath("store")
    return not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if store in read_words(pid)]


def read_words(pid):
    try:
        with open(f"/proc/{pid}/cmdline") as file:
            words = file.read().split("\0")
        return [os.path.realpath(os.path.join(os.readlink(f"/proc/{pid}/cwd"), word)) for word in words if word.endswith("store")]
    except OSError:
        return []


def test_the_cache_and_failures():
    prepare()
    text = "FROM base:1\nARG X=1\nCOPY file /opt/\nRUN echo $X > /opt/x\n"
    nothing = {"CLOCHE_DAEMON": "/nonexistent/cloched"}  # a step that is not run needs none
    first = build(text, files={"file": "1"}).stdout
    os.utime("context/file", (1, 1))
    done = build(text, env=nothing)
    equal((done.stdout, done.stderr.count(b"(as before)")), (first, 2), done)
    for options, files in ((("--build-arg", "X=2"), {}), (("--network", "host:x"), {}), ((), {"file": "2"}), (("--reproducible",), {}), (("--no-cache",), {})):
        build(text, *options, files=files, expected=2, env=nothing)
        write({"file": "1"})
    # a step has no network, or that of the options
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        text = f"FROM base:1\nRUN read -r word < /dev/tcp/one.host.internal/{server.server_address[1]} && [ $word = served ] && : > /opt/served\n"
        told = build("FROM base:1\nRUN read -r w < /dev/tcp/192.0.2.7/80; read -r w < /dev/tcp/192.0.2.8/80\n", "--network", "elsewhere.test", expected=1).stderr
        assert b"a build permits it by --network 192.0.2.7:80,192.0.2.8:80\n" in told and b"sandbox.update" not in told and b"no network" not in told, told
        told = build(text, expected=1).stderr
        assert b"steps have no network, unless --network permits hosts" in told, told
        build(text, "--network", "host:one", "--host-port", f"one={server.server_address[1]}")
        build(text.replace("RUN ", "RUN --network=default "), "--network", "host:one", "--host-port", f"one={server.server_address[1]}")
        told = build(text.replace("RUN ", "RUN --network=none "), "--network", "host:one", "--host-port", f"one={server.server_address[1]}", expected=1).stderr
        assert b"its --network=none has it without" in told, told
        server.shutdown()
    # a name that the store refuses is refused before the first step
    told = build("FROM base:1\nRUN echo begun\n", "-t", "Bad:1", expected=2, env=nothing).stderr
    assert b"'Bad:1' is no name of an image" in told and b"[2/2]" not in told, told
    # a step that fails keeps the result of those before it, and no more
    before = len(images())
    done = build("FROM base:1\nRUN echo kept > /opt/kept\nRUN echo told; echo more >&2; : > /opt/half; exit 7\nRUN echo never\n", "-t", "half:1", expected=1)
    told = done.stderr.decode()
    assert "told\n" in told and "more\n" in told and "Dockerfile:3: RUN: step 3 failed: its command ended with status 7" in told and "never" not in told.split("\n")[-2], told
    equal((len(images()) - before, os.listdir("store/incoming"), no_daemons()), (1, [], True))
    # steps are listed on request alone
    told = cli("image", "ls", *STORE)
    equal(([line.split()[0] for line in told.stdout.decode().splitlines()], len(images()) > before, json.loads(cli("image", "ls", "--json", *STORE).stdout)[0]["names"]), (["base:1"], True, ["base:1"]))
    assert f"{len(images()) - 1} without a name".encode() in told.stderr, told
    equal(build("FROM base:1\nRUN kill -STOP $$\n", "--timeout", "300ms", expected=124).stderr.count(b"300 ms"), 1)
    assert b"no-space" in build("FROM base:1\nRUN (set -e; for i in 1 2 3 4 5 6 7 8 9; do printf %1000000s x; done) > /opt/full || echo no-space; exit 1\n", "--disk", "8M", expected=1).stderr
    # a secret is a file of one step
    write({"token": "s3cr3t-t0ken"}, ".")
    build("FROM base:1\nRUN --mount=type=secret,id=t [ \"$(</run/secrets/t)\" = s3cr3t-t0ken ] && echo $(</run/secrets/t) > /dev/shm/copy\nRUN [ ! -e /run/secrets/t ] && [ ! -e /dev/shm/copy ]\n", "-t", "secret:1", "--secret", "id=t,src=token")
    equal([name for place, _, names in os.walk(tree_of("secret:1")) for name in names if os.path.isfile(os.path.join(place, name)) and b"s3cr3t-t0ken" in open(os.path.join(place, name), "rb").read()], [])
    # two builds have one tree, and files one time
    text = "FROM base:1\nCOPY file /opt/\nRUN echo x > /opt/y; echo $SOURCE_DATE_EPOCH > /opt/z\n"
    one, two = (build(text, "--reproducible", "--no-cache").stdout for _ in range(2))
    equal(one, two)
    tree = tree_of(one.decode().strip())
    equal(({int(os.stat(f"{tree}/opt/{name}").st_mtime) for name in "yz"}, look(tree + "/opt/z")), ({315532800}, "315532800\n"))
    # steps have no name: they go with a prune, and are made again
    cli("image", "prune", *STORE)
    build(text, "--reproducible", expected=2, env=nothing)


def test_start_and_ready_commands():
    """They are labels of the image, which later images and archives keep; no step of a build runs them."""
    prepare()
    build("FROM base:1\nLABEL cloche.start=\"echo > /opt/started\"\nRUN [ ! -e /opt/started ]\n", "-t", "served:1", "--ready", "[ -e /opt/ready ]", "--ready-within", "20s")
    def startup(name):
        told = json.loads(cli("image", "inspect", name, *STORE, "--json").stdout)
        return told.get("startup"), told["config"].get("labels")
    equal(startup("served:1"), ({"start": "echo > /opt/started", "ready": "[ -e /opt/ready ]", "readyMs": 20000},
                                {"cloche.start": "echo > /opt/started", "cloche.ready": "[ -e /opt/ready ]", "cloche.ready-ms": "20000"}))
    shown = cli("image", "inspect", "served:1", *STORE).stdout.decode()
    assert "start          echo > /opt/started\nready          [ -e /opt/ready ]\nreadyMs        20000\n" in shown, shown
    build("FROM served:1\nRUN [ ! -e /opt/started ]\n", "-t", "served:2", "--start", "true")
    equal(startup("served:2")[0], {"start": "true", "ready": "[ -e /opt/ready ]", "readyMs": 20000})
    build("FROM served:1\n", "-t", "served:3", "--start", "", "--ready", "")
    equal(startup("served:3"), (None, {"cloche.ready-ms": "20000"}))
    without = b"cloche: Label cloche.ready-ms has no effect: the image has no ready command (--ready)\n"
    equal(build("FROM base:1\n", "--ready-within", "20s").stderr.endswith(without), True)
    assert without not in build("FROM served:1\n", "--ready-within", "30s").stderr  # the one below has a command
    equal(cli("image", "export", "served:1", "served.tar", *STORE).code, 0)
    equal(cli("image", "import", "served.tar", "again:1", "--images", "other").code, 0)
    equal(json.loads(cli("image", "inspect", "again:1", "--images", "other", "--json").stdout)["startup"], startup("served:1")[0])
    # labels of anyone that mean nothing are told
    told = build("FROM base:1\nLABEL cloche.ready=x cloche.ready-ms=later cloche.start=" + "y" * 20000 + "\n", "-t", "odd:1", "--json")
    equal(startup("odd:1")[0], {"ready": "x"})
    equal(json.loads(told.stdout)["notes"], ["Label cloche.start is left out: the command is too long", "Label cloche.ready-ms is left out: it is no number from 1 to 600000"])
    for within, says in (("0", b"readyMs"), ("11m", b"--ready-within"), ("x", b"--ready-within")):
        assert says in build("FROM base:1\n", "--ready", "true", "--ready-within", within, expected=None).stderr, within


def test_images_of_debian():
    """FROM debian:SUITE is made by mmdebstrap, here a pretended one, of the sources that name the suite, once; integration/image-debian tries the real one."""
    prepare()
    os.mkdir("bin")
    os.chmod(".", 0o777)  # root's mmdebstrap runs as another user
    def pretend(script):
        with open("bin/mmdebstrap", "w") as file:
            file.write(f"#!/bin/sh\nprintf '%s\\n' \"$@\" >> {os.getcwd()}/words\n{script}\n")
        os.chmod("bin/mmdebstrap", 0o755)
    def words():
        with open("words") as file:
            said = file.read().split()
        os.remove("words")
        return said
    with open("sources", "w") as file:
        file.write("deb http://mirror.invalid/debian bookworm main\n")
    env, own = {"PATH": f"{os.getcwd()}/bin:{os.environ['PATH']}"}, ("--sources", "sources")
    pretend('echo "I: downloading at ${SOURCE_DATE_EPOCH-now}" >&2; tar -C image -c .')
    told = build("FROM debian:bookworm AS one\nRUN echo x > /opt/x\nFROM debian:bookworm\nCOPY --from=one /opt/x /opt/y\n", "-t", "made:1", *own, env=env)
    equal((told.stdout, look(tree_of("made:1") + "/opt/y")), (b"made:1\n", "x\n"))
    assert b"FROM debian:bookworm: mmdebstrap makes it of the suite bookworm\nI: downloading at now\n" in told.stderr, told
    equal(words(), ["--variant=minbase", "--dpkgopt=force-unsafe-io", "--mode=unshare", "bookworm", "-", "sources"])
    assert "debian:bookworm" in sum((image["names"] for image in images()), [])
    build("FROM debian:bookworm\n", *own, env=env)  # the store has it
    assert not os.path.exists("words")
    told = build("FROM debian:bookworm\nFROM debian:bookworm\n", "--pull", "--reproducible", *own, env=env)
    assert b"I: downloading at 315532800\n" in told.stderr, told  # the day is in /etc/shadow
    equal(words().count("bookworm"), 1)
    unused = b"cloche: --sources has no effect: "
    for text, is_unused in (("FROM debian:bookworm\n", True), ("FROM base:1\n", True), ("FROM debian:bookworm-slim\n", False)):
        equal(unused in build(text, *own, env=env).stderr, is_unused, text)
    assert {"--variant=minbase", "--dpkgopt=path-exclude=/usr/share/man/*", "bookworm"} <= set(words())
    build("FROM debian:bookworm-important\n", *own, env=env)
    assert {"--variant=important", "bookworm"} <= set(words())
    # what cannot be made, with the line
    for text, says in (("\nFROM debian:trixie\n", b"does not name the suite 'trixie'"), ("\nFROM debian\n", b"does not name the suite 'stable'"), ("\nFROM debian:-x\n", b"'-x' is no"), ("\nFROM debian:\n", b"'' is no tag")):
        told = build(text, *own, env=env, expected=2)
        assert says in told.stderr and b"Dockerfile:2: FROM: " in told.stderr, told
    pretend("echo 'E: Temporary failure resolving mirror.invalid' >&2; exit 25")
    told = build("FROM base:1\nFROM debian:bookworm-standard\n", *own, env=env, expected=1)
    assert b"E: Temporary failure resolving mirror.invalid\ncloche: mmdebstrap failed: its messages stand above; if no mirror answers" in told.stderr, told
    assert b"Dockerfile:2: FROM: the image 'debian:bookworm-standard' is not in the store, and was not made" in told.stderr, told
    os.remove("bin/mmdebstrap")
    told = build("FROM debian:bookworm-buildd\n", *own, env={"PATH": os.path.abspath("bin")}, expected=2)
    assert b"apt install mmdebstrap" in told.stderr, told
    # the twin: other names are those of the store alone
    told = build("FROM debian12:1\n", *own, env=env, expected=None)
    assert b"mmdebstrap" not in told.stderr, told


def test_instructions_for_images_above():
    """ONBUILD is recorded, and carried out by the build of an image on this one, not by that of a third."""
    prepare()
    build("FROM base:1\nONBUILD ENV AT=above\nONBUILD COPY --chmod=600 mine /srv/\nONBUILD RUN --network=none [ ! -e /opt/own ] && echo $AT > /opt/above\nRUN [ ! -e /opt/above ]\n", "-t", "below:1")
    equal(config_of("below:1")["onBuild"], ["ENV AT=above", "COPY --chmod=600 mine /srv/", "RUN --network=none [ ! -e /opt/own ] && echo $AT > /opt/above"])
    assert b"onBuild        ENV AT=above\nonBuild        COPY" in cli("image", "inspect", "below:1", *STORE).stdout
    equal(cli("image", "export", "below:1", "below.tar", *STORE).code, 0)
    equal(cli("image", "import", "below.tar", "below:2", *STORE).code, 0)
    for name in ("below:1", "below:2"):
        build(f"FROM {name}\nRUN [ -e /opt/above ] && echo x > /opt/own\n", "-t", "above:1", files={"mine": "m"}.items())
        equal((look(tree_of("above:1") + "/opt/above"), look(tree_of("above:1") + "/srv/mine"), config_of("above:1").get("onBuild")), ("above\n", "m", None))
    build("FROM above:1\nRUN rm -f /opt/above 2> /opt/no || :\nRUN [ -e /opt/above ]\n", "-t", "third:1")
    # of a stage of the same file too; a step that fails is told with the line of FROM
    told = build("FROM base:1 AS one\nONBUILD RUN exit 3\nFROM one\n", expected=1)
    assert b"Dockerfile:3: RUN: step 4 failed: its command ended with status 3" in told.stderr, told
    os.remove("context/mine")
    told = build("\nFROM below:1\n", expected=2)
    assert b"Dockerfile:2: COPY: the context has no 'mine'" in told.stderr, told
    # an image of anyone may have rows that are none
    shutil.unpack_archive("below.tar", "layout")
    config = next(path for path in (f"layout/blobs/sha256/{name}" for name in os.listdir("layout/blobs/sha256")) if b"OnBuild" in open(path, "rb").read())
    for rows, says in ((["FROM scratch"], "ONBUILD FROM is not permitted"), (["RUN a\nRUN b"], "expected one instruction"), (["# x"], "expected an instruction"), (["ENV A=1"] * 1001, "more than 1000 instructions")):
        bad_layout(config, rows)
        equal(cli("image", "import", "bad", "bad:1", *STORE).code, 0)
        told = build("FROM bad:1\n", expected=2).stderr.decode()
        assert f"Dockerfile:1: {says}" in told or f"Dockerfile:1: there are {says}" in told or says in told, told


def bad_layout(config, rows):
    """Copy the layout to bad, with these rows of OnBuild."""
    shutil.rmtree("bad", ignore_errors=True)
    shutil.copytree("layout", "bad")
    def put(value, old):
        data = json.dumps(value).encode()
        digest = hashlib.sha256(data).hexdigest()
        with open(f"bad/blobs/sha256/{digest}", "wb") as file:
            file.write(data)
        return {**old, "digest": f"sha256:{digest}", "size": len(data)}
    with open(config) as file:
        value = json.load(file)
    value["config"]["OnBuild"] = rows
    with open("bad/index.json") as file:
        index = json.load(file)
    with open("bad/blobs/sha256/" + index["manifests"][0]["digest"].removeprefix("sha256:")) as file:
        manifest = json.load(file)
    manifest["config"] = put(value, manifest["config"])
    index["manifests"][0] = put(manifest, index["manifests"][0])
    with open("bad/index.json", "w") as file:
        json.dump(index, file)


def test_patterns_in_other_images():
    prepare()
    text = "FROM base:1 AS one\nRUN mkdir -p /opt/a/x /opt/b/x /opt/.c && echo 1 > /opt/a/x/one.c && echo 2 > /opt/b/x/two.c && echo 3 > /opt/b/x/no.h && echo 4 > /opt/.c/three.c && ln -s /opt/a /opt/link && ln -s one.c /opt/a/x/soft.c\n"
    copy_programs("image", "/usr/bin/mkdir", "/usr/bin/ln")
    equal(cli("image", "import", "image", "base:1", *STORE).code, 0)
    build(text + "FROM base:1\nCOPY --from=one /opt/*/x/*.c /opt/a/x/one? /srv/\nCOPY --from=one opt/[ab] /app/\nCOPY --from=one /opt/b/x/n* /opt/single\n".replace(" /opt/a/x/one?", ""), "-t", "globbed:1")
    tree = tree_of("globbed:1")
    equal({name: look(f"{tree}/srv/{name}") for name in os.listdir(tree + "/srv")}, {"one.c": "1\n", "two.c": "2\n", "soft.c": "1\n"})
    equal(look(tree + "/opt/single"), "3\n")
    equal(sorted(os.listdir(tree + "/app/x")), ["no.h", "one.c", "soft.c", "two.c"])
    for line, says in (("/opt/*.none /srv/", "the other image has no '/opt/*.none'"), ("/opt/*/x/*.c /srv/x", "must end in '/'"), ("/opt/[ /srv/", "[")):
        assert says in build(text + f"FROM base:1\nCOPY --from=one {line}\n", expected=2).stderr.decode(), line


def test_told_at_the_start():
    """A secret that cannot be read before any step; a directory that cannot be read to its end; a preset without hosts by the build's option."""
    prepare()
    text = "FROM base:1\nRUN echo x > /opt/x\nRUN --mount=type=secret,id=t true\n"
    os.mkdir("folder")
    with open("large", "wb") as file:
        file.truncate((1 << 20) + 1)
    for path, says in (("none", b"--secret id=t: cannot open 'none': No such file"), ("folder", b"is a directory"), ("large", b"more than 1048576 bytes")):
        told = build(text, "--secret", f"id=t,src={path}", expected=2).stderr
        assert says in told and b"RUN" not in told, told
    env = {"LD_PRELOAD": os.path.join(BUILD, "tests/fail-readdir.so")}
    files = {"tree/a": "1", "tree/unreadable-below": "2"}
    for line in ("COPY tree /opt/tree", "COPY tree/* /opt/"):
        told = build(f"FROM base:1\n{line}\n", files=files.items(), env=env, expected=2).stderr
        assert b"Dockerfile:2: COPY: " in told and b"Input/output error" in told, told
        build(f"FROM base:1\n{line}\n", files=files.items())
    told = build("FROM base:1\nRUN echo x > /opt/preset\n", "--network", "git", expected=2)
    assert b"name them instead of the preset, by --network HOST or HOST:PORT" in told.stderr, told


STOPPED = "FROM base:1\nRUN echo begun; kill -STOP $$\n"


def begin():
    """A build whose step has begun, and does not end."""
    process = start("image", "build", "context", "-t", "never:1", *STORE, stdout=-1, stderr=-1)
    seen = b""
    while b"begun\n" not in seen:
        piece = os.read(process.stderr.fileno(), 4096)
        assert piece, seen
        seen += piece
    return process


def test_builds_that_end_early():
    prepare()
    write({"Dockerfile": STOPPED})
    for number, code in ((signal.SIGTERM, 143), (signal.SIGKILL, -signal.SIGKILL)):
        process = begin()
        beneath = descendants(process.pid)
        assert beneath
        process.send_signal(number)
        equal(process.wait(), code)
        wait_for(lambda: not any(map(alive, beneath)), "the end of the build's processes")
        wait_for(no_daemons, "the end of the daemon")
        equal([os.listdir("store/incoming"), [image["names"] for image in images()]], [[], [["base:1"]]])
    # two builds of one key at once
    write({"Dockerfile": "FROM base:1\nRUN echo x > /opt/x\n"})
    both = [start("image", "build", "context", *STORE, stdout=-1) for _ in range(2)]
    told = [process.communicate()[0] for process in both]
    equal(([process.returncode for process in both], len(set(told))), ([0, 0], 1))
