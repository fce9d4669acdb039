"""Sandboxes whose commands are root: Debian's own apt, dpkg, useradd, su and service work in them; owners and accounts are saved and committed
with them. integration/image-debian does the same with a whole Debian, its pip and npm."""
import hashlib
import io
import os
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import egress
from cloche import cli, equal, need_root, need_writable_roots, possible_layers, wait_for
from image_trees import copy_files, copy_programs, make_image, make_store
from images import users_of
from package_files import Index
from rpc import HANG_MS, Daemon, Failed

TIMEOUT = 150
PACKAGE = """Package: hello-root
Version: 1
Architecture: all
Maintainer: nobody
Description: owners
"""
SCRIPT = "#!/bin/sh -e\nuseradd --system --home-dir /var/lib/hello hello\nmkdir /var/lib/hello\nchown hello:hello /var/lib/hello\nchmod 750 /var/lib/hello\nid -u > /var/lib/hello/by\n"
SERVICE = """#!/bin/sh
case $1 in
start) exec start-stop-daemon --start --pidfile /run/hello.pid --startas /usr/sbin/hello > /dev/null ;;
stop) exec start-stop-daemon --stop --pidfile /run/hello.pid --remove-pidfile ;;
esac
"""
# As its own user behind a port of root's.
SERVER = """#!/usr/bin/python3
import os, pwd, socket
listener = socket.create_server(("", 80))
if os.fork():
    os._exit(0)
os.setsid()
with open("/run/hello.pid", "w") as file:
    file.write(str(os.getpid()))
hello = pwd.getpwnam("hello")
os.setgroups([]), os.setgid(hello.pw_gid), os.setuid(hello.pw_uid)
while True:
    with listener.accept()[0] as connection:
        connection.sendall(f"{os.getuid()} {os.getgid()} {os.getgroups()}".encode())
"""
PROGRAMS = ["/usr/bin/" + name for name in "apt-get basename chown chmod cat diff dpkg dpkg-deb dpkg-split dpkg-query id ls mkdir rm stat su setpriv tail tar".split()] + \
           ["/usr/sbin/" + name for name in "useradd start-stop-daemon ldconfig runuser".split()] + ["/usr/lib/apt/methods/http", "/usr/lib/apt/methods/store"]
MODULES = ["/usr/lib/x86_64-linux-gnu/security/pam_" + name for name in ("rootok.so", "unix.so", "permit.so")]
PAM = "auth sufficient pam_rootok.so\naccount required pam_unix.so\nsession required pam_unix.so\npassword required pam_permit.so\n"
ETC = {"passwd": "root:x:0:0:root:/root:/bin/sh\n_apt:x:42:65534::/nonexistent:/bin/false\nnobody:x:65534:65534::/:/bin/false\n",
       "group": "root:x:0:\nshadow:x:42:\nnogroup:x:65534:\n", "shadow": "root:*:19000::::::\n_apt:!:19000::::::\n",
       "login.defs": "UID_MIN 1000\nSYS_UID_MAX 999\nUSERGROUPS_ENAB yes\n", "pam.d/su": PAM, "pam.d/runuser": PAM, "pam.d/other": PAM}
DIRECTORIES = ("boot", "home", "opt", "root", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers", "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt", "etc/apt/apt.conf.d", "etc/pam.d", "sbin")


def make_debian():
    """A store with base:1, in which this host's apt and dpkg work."""
    tree, store = make_image(), os.path.abspath("images")
    fill_debian(tree)
    equal(cli("image", "import", tree, "base:1", "--images", store).code, 0)
    return store


def fill_debian(tree):
    os.makedirs(f"{tree}/usr/sbin")
    os.symlink("usr/sbin", f"{tree}/sbin")
    copy_programs(tree, *PROGRAMS, *MODULES)
    copy_files(tree, [f"/usr/share/dpkg/{name}table" for name in ("cpu", "os", "tuple")] + ["/usr/sbin/service"])
    for path in DIRECTORIES:
        os.makedirs(f"{tree}/{path}", exist_ok=True)
    for name, text in ETC.items():
        with open(f"{tree}/etc/{name}", "w") as file:
            file.write(text)
    os.chmod(f"{tree}/root", 0o700)
    os.chmod(f"{tree}/etc/shadow", 0o640)
    os.chown(f"{tree}/etc/shadow", 0, 42)
    for name in ("status", "available"):
        open(f"{tree}/var/lib/dpkg/{name}", "w").close()


def serve_package():
    """An index of one package, at an address that a policy may allow."""
    for directory in ("DEBIAN", "srv/hello", "etc/init.d", "usr/sbin"):
        os.makedirs(f"package/{directory}")
    os.chown("package/srv/hello", 33, 33)
    for name, text, mode in (("DEBIAN/control", PACKAGE, 0o644), ("DEBIAN/postinst", SCRIPT, 0o755), ("etc/init.d/hello", SERVICE, 0o755), ("usr/sbin/hello", SERVER, 0o755)):
        with open(f"package/{name}", "w") as file:
            file.write(text)
        os.chmod(f"package/{name}", mode)
    subprocess.run(["dpkg-deb", "--build", "package", "hello.deb"], check=True, stdout=subprocess.DEVNULL)
    with open("hello.deb", "rb") as file:
        package = file.read()
    egress.World({})
    egress.use_name_servers(egress.NAMES)
    index = Index(egress.HOST, kinds=())
    index.files = {"/apt/./hello.deb": package, "/apt/hello.deb": package,
                   "/apt/./Packages": (PACKAGE + f"Filename: ./hello.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n\n").encode()}
    return index


def said(frames, command, sandbox="s", **more):
    answer = frames.call("exec", sandbox=sandbox, command=command, timeoutMs=HANG_MS, **more)
    assert answer["exitCode"] == 0, answer
    return answer["stdout"]


OWNERS = """stat -c '%u %g %a' /var/lib/hello /srv/hello /home/bob /opt/mine /etc/shadow /home/user /root /srv /home
cat /var/lib/hello/by; id bob; dpkg-query -W hello-root; su bob -c 'cat ~/kept'; cat /root/kept"""
OWNED = """999 999 750
33 33 755
1001 1001 700
65535 7 640
0 42 640
1000 1000 755
0 0 700
33 0 755
0 0 755
0
uid=1001(bob) gid=1001(bob) groups=1001(bob)
hello-root\t1
bob's
root's
"""
ASK = "python3 -c 'import socket; print(socket.create_connection((\"127.0.0.1\", 80)).recv(100).decode())'"


def check_machine(frames, **where):
    equal(said(frames, OWNERS, **where), OWNED)


def check_service(frames, **where):
    equal(said(frames, f"service hello start; {ASK}; service hello stop; [ ! -e /run/hello.pid ]", **where), "999 999 []\n")


def test_packages_users_services_and_owners():
    need_writable_roots()
    store = make_debian()
    index = serve_package()
    for state in ("state", "elsewhere"):
        os.mkdir(state)
    with Daemon("--images", store, "--state-dir", os.path.abspath("state"), "--image-changes", "owner") as daemon, daemon.frames() as frames:
        made = frames.call("sandbox.create", sandbox="s", image="base:1", root=True, network={"allow": [index.url[7:]]})
        equal((made["root"], made["writableRoot"]), (True, True))
        said(frames, f"echo 'deb [trusted=yes] {index.url}/apt ./' > /etc/apt/sources.list; apt-get update >&2; apt-get install -y hello-root >&2")
        assert "/apt/./hello.deb" in index.paths or "/apt/hello.deb" in index.paths, index.paths
        equal(said(frames, "stat -c %u /var/lib/apt/lists/partial"), "42\n")  # apt fetched as _apt
        said(frames, "useradd -m bob; chmod 700 /home/bob; echo x > /opt/mine; chmod 640 /opt/mine; chown 65535:7 /opt/mine; chown 33 /srv")
        said(frames, "su bob -c \"echo bob\\'s > ~/kept\"; echo \"root's\" > /root/kept; [ -d /boot ] && [ $(cat /sys/devices/system/cpu/possible) = $(cat /sys/devices/system/cpu/online) ]")
        equal(said(frames, "su bob -c 'id -u'; su user -c 'id -u'; setpriv --reuid 1000 --regid 1000 --clear-groups id -u; sudo -u user id -u; sudo id -u"), "1001\n1000\n1000\n1000\n0\n")
        check_service(frames)
        check_machine(frames)
        assert cli("ports", "s", "--expose", "80", "--socket", daemon.path).code == 0
        equal([row["port"] for row in frames.call("port.list", sandbox="s")["exposed"]], [80])
        frames.call("sandbox.create", sandbox="plain")
        assert "without root cannot listen" in frames.refused("port.expose", sandbox="plain", port=80).message
        frames.call("session.create", sandbox="s", session="apart", isolation=True)
        check_machine(frames, session="apart")
        frames.call("sandbox.stop", sandbox="s")
        check_machine(frames)
        check_service(frames)
        for path in ("/etc/added", "/opt/mine"):
            frames.call("file.write", sandbox="s", path=path, content="x")
        equal(said(frames, "stat -c '%u %a' /etc/added /opt/mine"), "0 644\n65535 640\n")
        equal(frames.call("context.create", sandbox="s", context="c", language="python")["start"], "cold")
        equal(frames.call("context.run", sandbox="s", context="c", code="import os, pwd; print(os.getuid(), pwd.getpwnam('bob').pw_uid, os.stat('/opt/mine').st_gid)")["stdout"], "0 1001 7\n")
        frames.call("sandbox.commit", sandbox="s", image="machine:1")
        frames.call("sandbox.stop", sandbox="s")
    with Daemon("--images", store, "--state-dir", os.path.abspath("state")) as daemon, daemon.frames() as frames:
        equal(frames.call("sandbox.get", sandbox="s")["root"], True)
        check_machine(frames)
    with Daemon("--images", store, "--state-dir", os.path.abspath("elsewhere")) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="t", image="machine:1", root=True)
        check_machine(frames, sandbox="t")
        check_service(frames, sandbox="t")


def test_packages_of_apt():
    """Installed once, as root in a sandbox of their own, and given with their owners to the next one as well."""
    need_writable_roots()
    store = make_debian()
    index = serve_package()
    os.mkdir("state")
    with Daemon("--images", store, "--state-dir", os.path.abspath("state"), "--image-changes", "owner") as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image="base:1", root=True)
        said(frames, f"echo 'deb [trusted=yes] {index.url}/apt ./' > /etc/apt/sources.list")
        frames.call("sandbox.commit", sandbox="s", image="index:1")
        how = {"image": "index:1", "packages": {"apt": ["hello-root"]}, "network": {"allow": [index.url[7:]]}}
        assert "make the sandbox with root" in frames.refused("sandbox.create", sandbox="t", **how).message
        equal(frames.refused("sandbox.create", sandbox="t", root=True, image="index:1", packages={"apt": ["hello'; id"]}).name, "invalid_argument")
        refused = frames.refused("sandbox.create", sandbox="t", root=True, **{**how, "packages": {"apt": ["no-such-package"]}})
        assert refused.name == "packages" and "no-such-package" in refused.message, refused
        for name in ("t", "u"):
            before = len(index.paths)
            frames.call("sandbox.create", sandbox=name, root=True, **how)
            equal(len(index.paths) > before, name == "t")
            equal(said(frames, "stat -c '%u %g %a' /var/lib/hello /srv/hello; cat /var/lib/hello/by; dpkg-query -W hello-root", sandbox=name), "999 999 750\n33 33 755\n0\nhello-root\t1\n")
        equal([row["packages"] for row in frames.call("packages.list")["layers"]], [{"apt": ["hello-root"]}])
        told = cli("sandbox", "create", "v", "--image", "index:1", "--root", "--packages", "apt:hello-root", "--allow", index.url[7:], "--socket", daemon.path)
        equal((told.code, said(frames, "dpkg-query -W hello-root", sandbox="v")), (0, "hello-root\t1\n"), told)
        frames.call("sandbox.stop", sandbox="u")
        equal(said(frames, "dpkg-query -W hello-root", sandbox="u"), "hello-root\t1\n")


def test_archives_keep_owners():
    need_writable_roots()
    store, (digest,) = make_store(1)
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, kind, owner in (("in", tarfile.DIRTYPE, 33), ("in/file", tarfile.REGTYPE, 1000), ("in/link", tarfile.SYMTYPE, 7), ("in/beyond", tarfile.REGTYPE, 70000)):
            member = tarfile.TarInfo(name)
            member.type, member.uid, member.gid, member.mode, member.linkname = kind, owner, owner, 0o4755, "file"
            tar.addfile(member)
    with open("given.tar", "wb") as file:
        file.write(data.getvalue())
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for name, options in (("s", {"root": True}), ("plain", {})):
            frames.call("sandbox.create", sandbox=name, image=digest, **options)
            equal(cli("cp", "given.tar", f"{name}:given.tar", "--socket", daemon.path).code, 0)
            frames.call("archive.extract", sandbox=name, path="given.tar", to="out")
            frames.call("archive.create", sandbox=name, path="out", to="again.tar")
            frames.call("archive.extract", sandbox=name, path="again.tar", to="twice")
            look = "import os\nfor top in ('out', 'twice'): print([(os.lstat(f'{top}/in{end}').st_uid, os.lstat(f'{top}/in{end}').st_mode & 0o7777) for end in ('', '/file', '/link', '/beyond')])"
            owners = (33, 1000, 7, 65534) if options else (1000,) * 4
            line = str(list(zip(owners, (0o755, 0o755, 0o777, 0o755))))
            equal(frames.call("exec", sandbox=name, command=f'python3 -c "{look}"')["stdout"], f"{line}\n{line}\n")
        # facts that replace the archive's; links out of the tree on request alone
        frames.call("archive.extract", sandbox="s", path="given.tar", to="deep/given", uid=7, gid=8, mode=0o640)
        look = "import os; print(*((f'{s.st_uid} {s.st_gid} {s.st_mode & 0o7777:o}') for s in map(os.lstat, ('deep', 'deep/given', 'deep/given/in', 'deep/given/in/file', 'deep/given/in/link'))), sep=',')"
        equal(said(frames, f'python3 -c "{look}"'), "0 0 755,7 8 755,7 8 640,7 8 640,7 8 777\n")
        said(frames, "python3 -c 'import os; os.mkdir(\"out-of\"); os.symlink(\"/etc/passwd\", \"out-of/link\")'")
        frames.call("archive.create", sandbox="s", path="out-of", to="links.tar")
        equal(frames.refused("archive.extract", sandbox="s", path="links.tar", to="kept").name, "bad_archive")
        frames.call("archive.extract", sandbox="s", path="links.tar", to="kept", links="any")
        equal(said(frames, "python3 -c 'import os; print(os.readlink(\"kept/link\"))'"), "/etc/passwd\n")
        for name, options in (("plain", {"uid": 7}), ("s", {"uid": 65536}), ("s", {"links": "x"}), ("s", {"mode": 4096})):
            equal(frames.refused("archive.extract", sandbox=name, path="given.tar", to="no", **options).name, "invalid_argument")


# The file program stays for half a minute after a request. A process whose program root may not see is ours.
LOOK_AT_OURS = """
import errno, os
def opened(act):
    try: act()
    except OSError as e: return errno.errorcode[e.errno]
    return 'opened'
for pid in filter(str.isdigit, os.listdir('/proc')):
    at = f'/proc/{pid}/'
    if opened(lambda: os.readlink(at + 'exe')) == 'opened': continue
    reads = {opened(lambda: open(at + name, 'rb').read(1)) for name in ('mem', 'environ', 'maps', 'auxv', 'syscall', 'stack', 'io')}
    writes = {opened(lambda: open(at + name, 'r+b', 0)) for name in ('mem', 'clear_refs', 'oom_score_adj', 'coredump_filter')}
    lists = {opened(lambda: os.listdir(at + name)) for name in ('fd', 'fdinfo', 'map_files', 'root/etc', 'cwd/etc')}
    print('first' if pid == '1' else 'other', *sorted(reads | writes | lists))
"""


def test_our_programs_beside_root():
    need_writable_roots()
    store, (digest,) = make_store(1)
    with open("look.py", "w") as file:
        file.write(LOOK_AT_OURS)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="s", image=digest, root=True)
        equal(cli("cp", "look.py", "s:look.py", "--socket", daemon.path).code, 0)
        equal(sorted(set(said(frames, "python3 look.py").splitlines())), ["first EACCES", "other EACCES"])
        equal(frames.call("file.read", sandbox="s", path="look.py")["content"], LOOK_AT_OURS)
        said(frames, "for pid in $(cd /proc; echo [0-9]*); do [ $pid = $$ ] || kill -9 $pid 2> /dev/null; done; true")  # the twin: root ends all in its box
        try:
            frames.call("file.read", sandbox="s", path="look.py")
        except Failed as error:  # it came before the end of the file program was known
            assert "file program was killed" in error.message, error
        equal(frames.call("file.read", sandbox="s", path="look.py")["content"], LOOK_AT_OURS)
        frames.call("sandbox.stop", sandbox="s")
        equal(said(frames, "[ -s look.py ] && echo saved"), "saved\n")


MINE = "read -r zero first count < /proc/self/uid_map; echo $EUID $first $count; for d in /opt /srv /root /tmp; do [ -e $d/mark ] && echo marked; : > $d/mark; done; true"


def test_sandboxes_made_ahead():
    """Where the layers are in memory: on the disk each reserves its bytes, of its caller, whom a pool does not know."""
    need_writable_roots()
    store, (one,) = make_store(1)
    tree, ahead = f"{store}/trees/{one}", 2 * ("memory" in possible_layers())
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        def made(name, **options):
            frames.call("sandbox.create", sandbox=name, image=one, **options)
            line, = frames.call("exec", sandbox=name, command=MINE)["stdout"].splitlines()
            return [int(word) for word in line.split()]
        boxes = [made(f"root-{number}", root=True) for number in range(2)]
        wait_for(lambda: users_of(tree) == 2 + ahead, "the pool")
        boxes += [made(f"root-{number}", root=True) for number in range(2, 5)]  # that of another limit is none of the pool
        boxes.append(made("other", root=True, limits={"openFiles": 999}))
        equal([(uid, count) for uid, _, count in boxes], [(0, 65536)] * 6)
        equal(len({first for _, first, _ in boxes}), 6)
        for number in range(3):  # another kind has a pool of its own
            equal(made(f"writable-{number}", writableRoot=True)[::2], [1000, 1])
        equal(made("plain")[::2], [1000, 1])
        wait_for(lambda: users_of(tree) == 10 + 2 * ahead, "two pools")
        for number in range(5):
            frames.call("sandbox.delete", sandbox=f"root-{number}")
        equal(made("again", root=True)[0], 0)
        wait_for(lambda: users_of(tree) == 6 + 2 * ahead, "the two pools again")
        for number in range(4):  # the kind has the variables, the network and the root: it has a pool beside the others
            own = {"env": {"A": "own"}, "network": {"allow": ["allowed.test:80"]}, "root": True}
            equal(made(f"own-{number}", **own)[::2], [0, 65536])
            equal(frames.call("exec", sandbox=f"own-{number}", command="echo $A")["stdout"], "own\n")
            wait_for(lambda: users_of(tree) == 7 + number + (3 if number else 2) * ahead, "its pool")
        equal(made("own", **{**own, "root": False})[::2], [1000, 1])  # and one without root is of another kind


def test_refusals():
    need_root()
    store, (digest,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for options, word in (({}, "root: name an image"), ({"image": digest, "writableRoot": False}, "leave writableRoot out"), ({"image": digest, "packages": {"pip": ["x"]}}, "packages of apt alone")):
            refused = frames.refused("sandbox.create", sandbox="s", root=True, **options)
            assert refused.name == "invalid_argument" and word in refused.message, refused
        told = cli("sandbox", "create", "s", "--root", "--socket", daemon.path)
        equal((told.code, told.stderr), (2, b"cloche: --root: name an image of the store (--image)\n"), told)
        equal(frames.call("sandbox.list")["sandboxes"], [])
