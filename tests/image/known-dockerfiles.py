"""Ten Dockerfiles of well-known shapes (image/dockerfiles) build, as root. Their base images are one: apt, dpkg and useradd are this
host's, with an index of one package; pip, npm and others are a script that leaves a file where the tool would."""
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
from cloche import SOURCE, cli, equal, need_root, need_writable_roots, write_file
from image_trees import copy_programs, make_shell
from root import fill_debian, serve_package

TIMEOUT = 300
STORE = ("--images", "store")
BASES = ("debian:bookworm-slim", "python:3.12-slim", "node:20-alpine", "gcc:13", "nginx:alpine", "ruby:3.3", "php:8.2-apache", "composer:2")
PROGRAMS = ["/usr/bin/" + name for name in "cp false sed sh tee touch true".split()] + ["/usr/sbin/groupadd"]
TOOLS = """#!/bin/bash
case ${0##*/} in
pip) mkdir -p /usr/local/lib/python; [ -d /root/.cache/pip ] && cp requirements.txt /usr/local/lib/python/;;
npm) mkdir -p node_modules/left-pad; cp package.json node_modules/left-pad/;;
make) [ "$1" = "CFLAGS=-O2 -static" ] && [ -f Makefile ] && cp hello.c hello && chmod 755 hello;;
bundle) mkdir -p /usr/local/bundle; echo "$@" >> /usr/local/bundle/config;;
composer) mkdir -p vendor; : > vendor/autoload.php;;
*) echo "$@" > /etc/${0##*/};;
esac
"""


def prepare():
    image = make_shell()
    os.symlink("bash", image + "/usr/bin/sh")
    fill_debian(image)
    copy_programs(image, *PROGRAMS)
    write_file(image + "/usr/bin/tools", TOOLS)
    os.chmod(image + "/usr/bin/tools", 0o755)
    for name in ("pip", "npm", "make", "bundle", "composer", "docker-php-ext-install", "a2enmod"):
        os.symlink("tools", f"{image}/usr/bin/{name}")
    for name in ("nginx/conf.d", "apache2/sites-available"):
        os.makedirs(f"{image}/etc/{name}")
    write_file(f"{image}/etc/apache2/sites-available/site.conf", "DocumentRoot /var/www/html\n")
    os.makedirs(image + "/usr/local/share")
    with open(image + "/etc/passwd", "a") as file:
        file.write("www-data:x:33:33:www-data:/var/www:/usr/sbin/nologin\n")
    with open(image + "/etc/group", "a") as file:
        file.write("www-data:x:33:\n")
    equal(cli("image", "import", image, BASES[0], *STORE).code, 0)
    write_file("Dockerfile", f"FROM {BASES[0]}\n")
    for name in BASES[1:]:
        equal(cli("image", "build", ".", "-t", name, *STORE).code, 0)


class Built:
    def __init__(self, name):
        record = json.loads(cli("image", "inspect", name, *STORE, "--json").stdout)
        self.config, self.tree = record["config"], f"store/trees/{record['tree'].replace(':', '-')}"

    def read(self, path):
        with open(f"{self.tree}{path}") as file:
            return file.read()

    def facts(self, path):
        found = os.lstat(f"{self.tree}{path}")
        return f"{found.st_uid}:{found.st_gid} {stat.S_IMODE(found.st_mode):o}"


def build(name, *options, warns=b"", context=None):
    done = cli("image", "build", context or f"{SOURCE}/tests/image/dockerfiles/{name}", "-t", f"{name}:1", *STORE, *options)
    assert done.code == 0 and warns in done.stderr, done.stderr.decode()[-1500:]
    assert b"--build-arg" not in done.stderr or warns, done
    return Built(f"{name}:1")


def check_applications():
    made = build("python-app")
    equal((made.read("/usr/local/lib/python/requirements.txt"), made.read("/app/app/uid"), made.facts("/app/app/__main__.py"), made.facts("/app/requirements.txt")), ("flask==3.0.0\nrequests\n", "1000\n", "1000:1000 644", "1000:1000 644"))
    assert "\napp:x:1000:1000::/home/app:/bin/bash\n" in made.read("/etc/passwd") and "user:*:" not in made.read("/etc/passwd"), made.read("/etc/passwd")
    equal((os.path.exists(made.tree + "/app/Dockerfile"), os.listdir(made.tree + "/root/.cache"), made.facts("/home/app/.profile")), (False, [], "1000:1000 644"))
    equal({name: made.config["healthcheck"][name] for name in ("Interval", "Timeout", "Retries")}, {"Interval": 30000000000, "Timeout": 3000000000, "Retries": 2})
    equal((made.config["healthcheck"]["Test"][0], made.config["user"], made.config["workingDir"]), ("CMD-SHELL", "app", "/app"))
    made = build("node-app")
    equal([made.facts("/usr/src/app/" + path) for path in ("server.js", "node_modules", "node_modules/left-pad/package.json")], ["1000:1000 644", "1000:1000 755", "1000:1000 644"])
    equal((made.config["env"], made.config["cmd"]), (["NODE_ENV=production"], ["node", "server.js"]))
    made = build("ruby-app")
    equal((made.read("/usr/local/bundle/config"), made.config["exposedPorts"], made.config["cmd"]), ("config --global frozen 1\ninstall\n", {"4567/tcp": {}}, ["/bin/sh", "-c", "bundle exec ruby app.rb -p $PORT"]))
    made = build("php-app")
    equal((made.read("/etc/apache2/sites-available/site.conf"), made.facts("/var/www/html/storage/.gitkeep"), made.facts("/usr/bin/composer"), os.path.exists(made.tree + "/var/www/html/vendor/autoload.php")),
          ("DocumentRoot /var/www/html/public\n", "33:33 664", "0:0 755", True))


def check_systems(index):
    made = build("debian-packages", "--build-arg", f"INDEX={index.url}", "--network", index.url[7:], "--build-arg", "MISSPELT=1", warns=b"--build-arg MISSPELT: Dockerfile has no ARG")
    rows = dict(row.split(":", 1) for row in made.read("/etc/passwd").splitlines())
    hello, service = (":".join(rows[name].split(":")[1:3]) for name in ("hello", "service"))
    equal((made.facts("/var/lib/hello"), made.facts("/srv/hello"), made.read("/var/lib/hello/by")), (f"{hello} 750", "33:33 755", "0\n"))
    equal((made.facts("/srv/service"), made.facts("/srv/service/who"), made.read("/srv/service/who")), (f"{service} 750", f"{service} 644", "service\n"))
    assert "\nservice:x:" in made.read("/etc/group") and "\nservice:!" in made.read("/etc/shadow")
    equal(os.listdir(made.tree + "/var/lib/apt/lists"), [])
    made = build("c-static")
    equal((sorted(os.listdir(made.tree)), made.facts("/bin/hello"), made.config["user"], made.config["entrypoint"]), (["bin", "etc"], "0:0 755", "65534:65534", ["/bin/hello"]))
    made = build("static-site")
    equal((made.read("/etc/nginx/conf.d/default.conf")[:6], made.facts("/usr/share/nginx/html/index.html"), made.facts("/usr/share/nginx/html/css/site.css")), ("server", "0:0 644", "0:0 644"))
    equal((made.config["volumes"], made.config["stopSignal"], made.config["labels"]), ({"/var/cache/nginx": {}}, "SIGQUIT", {"org.opencontainers.image.title": "Site", "org.opencontainers.image.licenses": "MIT"}))
    equal(cli("image", "export", "static-site:1", "site.tar", *STORE).code, 0)
    equal(cli("image", "import", "site.tar", "again:1", *STORE).code, 0)
    equal({**Built("again:1").config, "tree": ""}, {**made.config, "tree": ""})


def check_scripts():
    made = build("bash-tool")
    equal((made.read("/usr/local/share/said"), made.read("/usr/local/share/caught"), made.facts("/usr/local/bin/tool")), ("tool one\n", "caught\n", "0:0 755"))
    equal((made.config["shell"], made.config["labels"]["maintainer"], made.config["cmd"]), (["/bin/bash", "-o", "pipefail", "-c"], "somebody@example.org", ["--help"]))
    made = build("entrypoint-script")
    equal(made.read("/docker-entrypoint.sh"), "#!/bin/sh\nset -e\necho \"begins with $DATA\"\nexec \"$@\"\n")
    equal([made.read("/etc/service/" + name) for name in ("SETTINGS", "MOTD", "more")], ["directory=/data\nquoted=\"yes\" $kept\n", "of /data\n", "from /data\n"])
    equal((made.read("/data/list"), made.facts("/docker-entrypoint.sh"), made.facts("/etc/service/MOTD")), ("a\nb\n", "0:0 755", "0:0 644"))
    shutil.copytree(f"{SOURCE}/tests/image/dockerfiles/args-and-env", "args")
    with tarfile.open("args/files.tar.gz", "w:gz") as archive:
        archive.add("args/a b", "bin/file")
    made = build("args-and-env", "--build-arg", "VERSION=2.5", context="args")
    machine = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    equal((made.read("/opt/app/said"), made.read("/opt/app/bin/file")), (f"2.5 bookworm linux/{machine} two words a b unset\n", "space\n"))
    equal((made.facts("/opt/app/spaces/a b"), made.facts("/opt/app/spaces"), made.config["user"], made.config["labels"]), ("1500:1500 644", "1500:1500 755", "vscode", {"version": "2.5", "description": "Text that spans lines"}))
    equal(made.config["env"][-1], "PATH=/opt/app/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")


def test_ten_shapes():
    need_root()
    need_writable_roots()
    prepare()
    check_applications()
    check_systems(serve_package())
    check_scripts()
    equal((os.listdir("store/incoming"), subprocess.run(["find", "store/trees", "-perm", "/7000", "-o", "-type", "b", "-o", "-type", "c"], stdout=subprocess.PIPE, check=True).stdout), ([], b""))
