"""Contexts whose interpreter is started from the sandbox's own files: in sandboxes with root, and where programs changed what the prepared interpreter has in memory."""
import os
import shutil
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import equal, need_root, need_writable_roots
from context_cells import Notebook
from image_trees import copy_files, copy_programs, make_store
from package_files import gem, npm_package, wheel
from rpc import HANG_MS, Daemon

TIMEOUT = 150
PIP, NPM = "/usr/share/python-wheels", "/usr/lib/node_modules/npm"
# A first cell, which prints 42, its user and whether a file is there; a second one that uses its variable; perhaps one that does not end.
JAVASCRIPT = ("let n = 6 * 7; console.log(n, process.getuid(), require('fs').existsSync('/opt/shell'))", "console.log(n + 1)", "console.log('go'); while (true);")
LANGUAGES = {
    "python": ("import os; n = 6 * 7; print(n, os.getuid(), str(os.path.exists('/opt/shell')).lower())", "print(n + 1)", "import time; print('go'); time.sleep(1000)"),
    "javascript": JAVASCRIPT, "typescript": ("let n: number = 6 * 7; " + JAVASCRIPT[0].partition("; ")[2], JAVASCRIPT[1], None),
    "ruby": ("n = 6 * 7; puts [n, Process.uid, File.exist?('/opt/shell')].join(' ')", "puts n + 1", "puts 'go'; sleep 1000"),
    "php": ("$n = 6 * 7; echo $n, ' ', posix_getuid(), ' ', var_export(file_exists('/opt/shell'), true), \"\\n\";", "echo $n + 1, \"\\n\";", "echo \"go\\n\"; sleep(1000);"),
    "bash": ("n=$((6 * 7)); echo $n $UID $([ -e /opt/shell ] && echo true || echo false)", "echo $((n + 1))", None),
}


def make_languages():
    """An image with every language of contexts."""
    store, (digest,) = make_store(1)
    tree = f"{store}/trees/{digest}"
    os.makedirs(f"{tree}/opt")
    real = {name: os.path.realpath("/usr/bin/" + name) for name in ("node", "ruby", "php")}
    extensions = [f"{folder}/{name}.so" for folder, _, _ in os.walk("/usr/lib/php") for name in ("ffi", "posix", "tokenizer", "ctype") if os.path.exists(f"{folder}/{name}.so")]
    extensions += [f"{folder}/{name}.so" for folder, _, _ in os.walk("/usr/lib/x86_64-linux-gnu/ruby") for name in ("psych", "zlib", "openssl") if os.path.exists(f"{folder}/{name}.so")]
    copy_programs(tree, *real.values(), *extensions, *("/usr/bin/" + name for name in ("ls", "rm", "mv", "kill")))
    copy_files(tree, ["/usr/bin/gem", *(f"/usr/share/zoneinfo/{name}" for name in ("Europe/Berlin", "UTC", "zone.tab", "zone1970.tab", "tzdata.zi") if os.path.exists(f"/usr/share/zoneinfo/{name}"))])
    for name, path in real.items():
        if not os.path.exists(f"{tree}/usr/bin/{name}"):
            os.symlink(os.path.basename(path), f"{tree}/usr/bin/{name}")
    for path in ("/usr/lib/ruby", "/usr/lib/x86_64-linux-gnu/ruby", "/etc/php", "/usr/share/php", "/usr/share/nodejs"):  # Debian's Node has modules there
        if os.path.isdir(path):
            shutil.copytree(path, tree + path, symlinks=True, dirs_exist_ok=True)
    if os.path.isdir(PIP) and os.path.isdir(NPM):
        for path in (PIP, NPM):
            shutil.copytree(path, tree + path, symlinks=True)
    return store, digest


def root_of(daemon, frames, digest, name="s", **more):
    frames.call("sandbox.create", sandbox=name, image=digest, root=True, limits={"diskBytes": 400 << 20}, **more)
    return Notebook(daemon, frames, name)


def shell(n, command):
    answer = n.call("exec", command=command, timeoutMs=HANG_MS)
    assert answer["exitCode"] == 0, answer
    return answer["stdout"]


def ran(n, context, code, **more):
    answer = n.call("context.run", context=context, code=code, **more)
    assert answer["status"] == "ok", answer
    return answer["stdout"]


def test_root():
    need_writable_roots()
    store, digest = make_languages()
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        n = root_of(daemon, frames, digest)
        shell(n, "echo > /opt/shell")
        for language, (first, second, spins) in LANGUAGES.items():
            made = n.call("context.create", context=language, language=language, env={"MINE": "1"})
            equal((made["start"], made["coldWhy"], made["forkable"], made["pid"] > 1), ("cold", "the sandbox has root, whose users a forked interpreter does not have", False, True))
            equal(ran(n, language, first), "42 0 true\n")
            if spins:
                for timeout_ms in (400, 4000, 20000):  # on a busy machine the limit may come before the line
                    said = n.call("context.run", context=language, code=spins, timeoutMs=timeout_ms)
                    if said["stdout"]:
                        break
                equal((said["error"]["name"], said["stdout"], said["ended"]), ("Timeout", "go\n", False))
            equal(ran(n, language, second), "43\n")
        the_same_system(n)
        ends(n)
        refusals(n)
        prefixes(n)
        packages(n)


def the_same_system(n):
    """Accounts, files of both, the network, other processes."""
    shell(n, "echo 'bob:x:1001:1001::/home/bob:/bin/sh' >> /etc/passwd; d=$(echo /usr/lib/python3.*); echo 'value = 3' > $d/added.py")
    equal(ran(n, "python", "import added, pwd; print(added.value, pwd.getpwnam('bob').pw_uid, os.environ['HOME'], os.environ['MINE'])"), "3 1001 /root 1\n")
    equal(ran(n, "python", "os.makedirs('/srv/cell', 0o700); os.chown('/srv/cell', 1001, 7); os.listdir('/run/cloche')[0] and print(len([p for p in os.listdir('/proc') if p.isdigit()]))"), "2\n")
    equal(shell(n, "python3 -c \"import os; s = os.stat('/srv/cell'); print(s.st_uid, s.st_gid, oct(s.st_mode & 0o777), os.listdir('/run/cloche'))\""), "1001 7 0o700 []\n")
    ran(n, "python", "import socket; server = socket.create_server(('', 80))")
    equal(shell(n, "python3 -c \"import socket; print(socket.create_connection(('127.0.0.1', 80)).getpeername()[1])\""), "80\n")
    n.call("sandbox.pause")  # a cell wakes it
    equal(ran(n, "python", "print(n)"), "42\n")
    equal(ran(n, "bash", "kill -0 2 && echo $$; echo $(id -u 2>&1)").split()[0], "2")  # its own pids


def ends(n):
    """Each way to end is told by PID 1; a restart starts anew, and so does one after the interpreter was changed."""
    for code, how in (("os._exit(3)", "left with exit code 3"), ("os.kill(os.getpid(), 9)", "killed by signal 9"), ("os.closerange(3, 1 << 20); import time; time.sleep(100)", "had closed its connection")):
        answer = n.call("context.run", context="python", code="import os; " + code)
        equal((answer["error"]["name"], answer["ended"]), ("ContextEnded", True))
        assert how in answer["error"]["message"], answer
        equal(n.call("context.restart", context="python")["start"], "cold")
        equal(ran(n, "python", "print('n' in globals())"), "False\n")
    # From a program that is no interpreter, and one that cannot start.
    for script, said in (("import nothing_of_the_sort", "No module named 'nothing_of_the_sort'"), ("import os; os._exit(0)", "left with exit code 0 before it was ready")):
        shell(n, f"mv /usr/bin/python3 /usr/bin/python4; printf '#!/usr/bin/python4\\n%s\\n' \"{script}\" > /usr/bin/python3; python4 -c 'import os; os.chmod(\"/usr/bin/python3\", 0o755)'")
        refused = n.refused("context.create", context="broken", language="python")
        assert refused.name == ("context_ended" if "exit code" in said else "missing_runtime") and said in refused.message, refused
        shell(n, "rm /usr/bin/python3; mv /usr/bin/python4 /usr/bin/python3")
    shell(n, "mv /usr/bin/ruby /usr/bin/ruby4")
    refused = n.refused("context.create", context="broken", language="ruby")
    assert refused.name == "missing_runtime" and "the image has no interpreter for ruby" in refused.message, refused
    shell(n, "mv /usr/bin/ruby4 /usr/bin/ruby")
    assert "broken" not in [context["context"] for context in n.call("context.list")["contexts"]]


def refusals(n):
    refused = n.refused("context.create", context="f", language="python", forkable=True)
    assert refused.name == "invalid_state" and "the sandbox has root" in refused.message and "without forkable" in refused.message, refused
    for method in ("context.fork", "context.checkpoint", "context.rollback"):
        refused = n.refused(method, context="python")
        assert refused.name == "invalid_state" and "was started cold" in refused.message, refused
    forked = n.call("sandbox.fork", names=["copy"])
    equal({row["reason"] for row in forked["omitted"] if row["kind"] == "context"}, {"its interpreter was started cold: only a forked one can be forked again"})
    n.frames.call("sandbox.delete", sandbox="copy")


def prefixes(n):
    """The caller's set-up runs in the cold interpreter as well; one with files has them nowhere."""
    made = n.frames.call("prefix.create", language="python", code="print('said by the set-up')\nword = 'kept'", name="mine", image=n.call("sandbox.get")["image"])
    equal(n.call("context.create", context="p", prefix=made["prefix"])["start"], "cold")
    equal(ran(n, "p", "print(word, 'print' in dir())"), "kept False\n")
    made = n.frames.call("prefix.create", language="python", code="x = 1", name="files", files={"f": "x"}, image=n.call("sandbox.get")["image"])
    refused = n.refused("context.create", context="q", prefix=made["prefix"])
    assert "has files" in refused.message, refused


def packages(n):
    """Packages that pip and npm install as root are found by commands and by cells, also by contexts that live already."""
    if not os.path.isdir(PIP) or not os.path.isdir(NPM):
        return print("pip's wheel or npm is not on this host")
    late, js = "import hellopy; print(hellopy.version)", "console.log(require('hellojs').version)"
    n.call("context.run", context="python", code="try: import hellopy\nexcept ImportError: pass")
    said = n.call("context.run", context="javascript", code=js)
    equal(said["status"], "error")
    for name, data in (("hellopy-1-py3-none-any.whl", wheel("1")), ("hellojs.tgz", npm_package())):
        n.call("file.write", path="/root/" + name, content={"$": "bytes", "at": 0, "n": len(data)}, attachments=data)
    shell(n, "cd /root; PYTHONPATH=$(echo /usr/share/python-wheels/pip*.whl) python3 -m pip install --no-index ./hellopy-1-py3-none-any.whl >&2; node /usr/lib/node_modules/npm/bin/npm-cli.js i -g --offline ./hellojs.tgz >&2")
    equal(shell(n, "python3 -c 'import hellopy; print(hellopy.version)'; hellojs"), "1\nhellojs one\n")
    for context, code, shown in (("python", late, "1\n"), ("javascript", js, "one\n")):
        equal(ran(n, context, code), shown)
    n.call("context.restart", context="python")
    equal(ran(n, "python", late), "1\n")
    equal(ran(n, "ruby", "begin; require 'hellorb'; rescue LoadError; puts 'none'; end"), "none\n")
    data = gem()
    n.call("file.write", path="/root/hellorb-1.gem", content={"$": "bytes", "at": 0, "n": len(data)}, attachments=data)
    shell(n, "ruby /usr/bin/gem install --local --no-document /root/hellorb-1.gem >&2")
    equal(ran(n, "ruby", "require 'hellorb'; puts HELLO"), "one\n")


def test_an_interpreter_that_the_image_lacks():
    """Programs of a sandbox with a writable root bring it; another sandbox of the image has none."""
    need_root()
    store, (digest,) = make_store(1)
    programs = f"{store}/trees/{digest}/usr/bin"
    os.rename(f"{programs}/python3", f"{programs}/python-of-the-image")
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        for name in ("s", "other"):
            frames.call("sandbox.create", sandbox=name, image=digest, writableRoot=True, limits={"diskBytes": 64 << 20})
        n = Notebook(daemon, frames, "s")
        shell(n, "python-of-the-image -c 'import os; os.symlink(\"python-of-the-image\", \"/usr/bin/python3\")'")
        made = n.call("context.create", context="c", language="python")
        assert made["start"] == "cold" and "the image has no interpreter for python" in made["coldWhy"], made
        equal(ran(n, "c", "import os; print(os.getuid(), os.path.realpath('/proc/self/exe') != '')"), "1000 True\n")
        refused = frames.refused("context.create", sandbox="other", language="python")
        assert refused.name == "missing_runtime" and "the image has no interpreter for python" in refused.message, refused
