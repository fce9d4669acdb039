"""The command line, cloche mcp and the clients for Python and TypeScript find the same daemon, by one rule (spec/discovery.def), and
refuse in the same words. The daemons are scripted: each greets with its label."""
import ctypes
import json
import os
import socket
import subprocess
import sys
from cloche import BUILD, CLI, HANG, ORDINARY_USER, SOURCE, equal, need_ordinary_user, skip, write_file
from egress import CLONE_NEWNS, MS_PRIVATE, MS_REC, unshare

from scripted_daemon import ScriptedDaemon

sys.path.insert(0, os.path.join(SOURCE, "tools"))
from spec_compiler import tables  # noqa: E402

UID = 12345
FAULTS = tables.read()["DISCOVERY_FAULT"]
VARIABLES = ("CLOCHE_SOCKET", "CLOCHE_DAEMON", "XDG_RUNTIME_DIR")
SYSTEM = "/run/cloche/socket"
AMODULE = os.path.join(SOURCE, "runtimes/typescript/node_modules/amaro")

PROGRAM = """#!/bin/sh
case "$*" in
*--connect-fd*) exec /usr/bin/python3 {folder}/private.py "$@" ;;
esac
exec {cloched} "$@"
"""
PRIVATE = """import sys, socket
sys.path[:0] = {path!r}
from tests.peer import Conversation
talk = Conversation(socket.socket(fileno=int(sys.argv[sys.argv.index("--connect-fd") + 1])))
talk.greet(version="private")
try:
    while True:
        talk.answer(talk.receive()[0], {{"message": "private", "sandboxes": []}})
except (EOFError, OSError):
    pass
"""
PYTHON = """import json, os, sys
import cloche
for line in sys.stdin:
    case = json.loads(line)
    for name in case["variables"]:
        os.environ.pop(name, None)
    os.environ.update(case["env"])
    try:
        with cloche.Cloche(case["socket"], shared=case["shared"] and case["socket"] is None, daemon=case["program"]) as client:
            said = client.server["version"]
    except (cloche.ClocheError, cloche.DaemonNotFoundError) as error:
        said = str(error)
    print(json.dumps(said), flush=True)
"""
NODE = """import { createInterface } from 'node:readline'
import { Cloche } from './dist/index.js'
for await (const line of createInterface({ input: process.stdin })) {
  const { variables, env, socket, shared, program } = JSON.parse(line)
  for (const name of variables) delete process.env[name]
  Object.assign(process.env, env)
  let said
  try {
    const client = await Cloche.connect({ socket: socket ?? undefined, shared: shared && socket === null, daemon: program ?? undefined })
    said = client.server.version
    await client.close()
  } catch ({ message }) {
    said = message
  }
  console.log(JSON.stringify(said))
}
"""
STRIP = """const { transformSync } = require(process.argv[2])
const { cpSync, readFileSync, readdirSync, writeFileSync } = require('node:fs')
const [from, to] = process.argv.slice(3)
cpSync(from, to, { recursive: true, dereference: true })
// The façades are not loaded.
for (const name of readdirSync(to, { recursive: true }).filter((name) => /^(?!executor|isolate|safe-fetch|subprocess).*[.]ts$/.test(name))) {
  const path = to + '/' + name
  writeFileSync(path.replace(/ts$/, 'js'), transformSync(readFileSync(path, 'utf8'), { mode: 'transform' }).code)
}
writeFileSync('package.json', '{"type": "module"}')
"""


def labelled(path, label, status=200, user=0):
    """It answers everything with its label."""
    return ScriptedDaemon(path, lambda method, params: {"message": label, "sandboxes": [{"sandbox": label}]}, version=label, status=status, user=user)


class Programs:
    """All that look for a daemon, as the ordinary user. Clients that are asked for many daemons stay."""

    def __init__(self):
        self.folder = os.getcwd()
        self.base = {"PATH": os.environ["PATH"], "HOME": self.folder + "/home", "CLOCHE_LIBEXEC": BUILD}
        write_file("strip.cjs", STRIP)
        subprocess.run(["node", "strip.cjs", AMODULE, os.path.join(SOURCE, "clients/typescript/src"), "dist"], check=True)
        self.clients = [self.start("/usr/bin/python3", write_file("client.py", PYTHON), PYTHONPATH=os.path.join(SOURCE, "clients/python")),
                        self.start("node", write_file("client.mjs", NODE))]

    def start(self, *words, **env):
        return subprocess.Popen([*ORDINARY_USER, *words], env={**self.base, **env}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def close(self):
        for client in self.clients:
            client.communicate(timeout=HANG)

    def command(self, words, env, stdin=b""):
        done = subprocess.run([*ORDINARY_USER, CLI, *words], env={**self.base, **env}, input=stdin, capture_output=True, timeout=HANG)
        return done.stdout.decode(), done.stderr.decode().strip().removeprefix("cloche: ").removeprefix("cloched: ")

    def found(self, env, option):
        """The labels or errors of programs that look for a daemon that all share."""
        out, error = self.command(["sandbox", "ls", "--json", *(["--socket", option] if option is not None else [])], env)
        return [json.loads(out)[0]["sandbox"] if out else error, *self.ask(env, option, True)]

    def alone(self, env, option, is_private):
        """The same for programs that have a daemon of their own if none is named."""
        words = [*(["--socket", option] if option is not None else []), *(["--network", "10.0.0.1"] if is_private else [])]
        out, error = self.command(["mcp", *words], env, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        return [out.partition("\n")[0] or error, *self.ask(env, option, False, self.folder + "/cloched" if is_private else None)]

    def ask(self, env, option, shared, program=None):
        for client in self.clients:
            case = {"variables": VARIABLES, "env": env, "socket": option, "shared": shared, "program": program}
            client.stdin.write(json.dumps(case).encode() + b"\n")
            client.stdin.flush()
        return [json.loads(client.stdout.readline()) for client in self.clients]


def words(fault, *filled):
    text = next(row["text"] for row in FAULTS if row["symbol"] == fault)
    return text % filled


class Host:
    """An empty /run, and daemons: a and b are named ones; closed: one that the user may not connect to; file: a socket that nobody listens at."""

    def __init__(self):
        need_ordinary_user()
        if not os.path.isdir(AMODULE):
            skip("there is no amaro")
        os.environ.pop("CLOCHE_SOCKET", None)
        unshare(CLONE_NEWNS)
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mount(None, b"/", None, MS_REC | MS_PRIVATE, None)
        if libc.mount(b"tmpfs", b"/run", b"tmpfs", 0, b"mode=755") < 0:
            raise OSError(ctypes.get_errno(), "mount")
        self.folder = os.getcwd()
        os.chmod(".", 0o755)
        for path in ("home", "run", "run/cloche"):
            self.own_directory(path)
        write_file("cloched", PROGRAM.format(folder=self.folder, cloched=CLI + "d"))
        os.chmod("cloched", 0o755)
        write_file("private.py", PRIVATE.format(path=[os.path.join(SOURCE, "clients/python")]))
        self.named = [labelled(self.folder + "/a", "a"), labelled(self.folder + "/b", "b"), labelled(self.folder + "/refuses", "refuses", 403)]
        self.closed = labelled(self.folder + "/closed", "closed")
        os.chmod("closed", 0o600)
        socket.socket(socket.AF_UNIX).bind("file")
        os.chmod("file", 0o666)
        self.programs = Programs()

    def own_directory(self, path):
        os.makedirs(path, 0o700, exist_ok=True)
        os.chown(path, UID, UID)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.programs.close()
        for daemon in (*self.named, self.closed):
            daemon.close()

    def env(self, **more):
        return {"CLOCHE_DAEMON": self.folder + "/cloched", "XDG_RUNTIME_DIR": self.folder + "/run", **more}

    def found(self, expected, option=None, **env):
        equal(self.programs.found(self.env(**env), option), [expected] * 3, (option, env))

    def alone(self, expected, option=None, is_private=False, **env):
        equal(self.programs.alone(self.env(**env), option, is_private), [expected] * 3, (option, env))


def no_one(path, reason="No such file or directory"):
    return words("NONE", path, reason)


def named_daemons(host):
    """Options win over the variable; both are errors if nothing is there. Nothing else runs."""
    here, long = host.folder, "/" + "x" * 107
    for ways in (host.found, host.alone):
        ways("a", here + "/a", CLOCHE_SOCKET=here + "/b")
        ways("b", CLOCHE_SOCKET=here + "/b")
        ways("a", "./a")
        ways("a", CLOCHE_SOCKET="a")
        ways(no_one("/nowhere/s"), "/nowhere/s")
    host.found(no_one("/nowhere/s"), CLOCHE_SOCKET="/nowhere/s")
    host.found(no_one(here + "/file", "Connection refused"), here + "/file", CLOCHE_SOCKET=here + "/a")
    host.found(words("CLOSED", here + "/closed", "Permission denied"), here + "/closed")
    host.found("may not", here + "/refuses")
    offered, _ = host.programs.command(["__complete", "exec", "--socket", here + "/a", ""], host.env(CLOCHE_SOCKET=here + "/b"))
    equal(offered.split(), ["a"])
    host.found(words("LONG", "108"), long)
    host.found(words("LONG", "108"), CLOCHE_SOCKET=long)
    host.alone("private", is_private=True, CLOCHE_SOCKET=here + "/b")


def systems_daemon(host):
    """The user's own runs beside it."""
    own = labelled(host.folder + "/run/cloche/socket", "own", user=UID)
    try:
        for status, expected in ((200, "system"), (403, "own"), (503, f"the daemon at {SYSTEM} accepts no work now (HTTP status 503)")):
            system = labelled(SYSTEM, "system", status)
            os.chmod("/run/cloche", 0o755)
            try:
                host.found(expected)
                host.found("a", CLOCHE_SOCKET=host.folder + "/a")
            finally:
                system.close()
        socket.socket(socket.AF_UNIX).bind(SYSTEM)
        os.chmod(SYSTEM, 0o666)
        host.found("own", CLOCHE_SOCKET="")
        host.alone("private", CLOCHE_SOCKET="")
        os.unlink(SYSTEM)
    finally:
        own.close()


def directories(host):
    """Without a usable XDG_RUNTIME_DIR the next directory is taken; a socket without a daemon is none, and one is started in its place."""
    os.makedirs("/run/user")
    for path in ("/run/user/12345", "/run/user/12345/cloche"):
        host.own_directory(path)
    own = labelled("/run/user/12345/cloche/socket", "of the user", user=UID)
    try:
        host.found("of the user")
        host.found("of the user", XDG_RUNTIME_DIR="run")
        host.found("of the user", XDG_RUNTIME_DIR="/nowhere")
        host.found("of the user", XDG_RUNTIME_DIR="/run")
    finally:
        own.close()
    host.found(words("NAMED", "$CLOCHE_DAEMON", "/usr"), CLOCHE_DAEMON="/usr")


def one_is_started(host):
    """By the first that looks; the others find it."""
    started = host.folder + "/run/cloche/socket"
    write_file("cloched", PROGRAM.format(folder=host.folder, cloched=f"{CLI}d --exit-when-idle 300"))
    try:
        out, error = host.programs.command(["daemon", "start"], host.env())
        equal(out.strip(), started, error)
        version = subprocess.run([CLI, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        equal(host.programs.ask(host.env(), None, True), [version] * 2)
    finally:
        host.programs.command(["daemon", "stop"], host.env())


def test_all_find_the_same():
    with Host() as host:
        named_daemons(host)
        systems_daemon(host)
        directories(host)
        one_is_started(host)
