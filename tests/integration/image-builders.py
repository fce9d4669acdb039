"""Archives that umoci and buildah made: Python, Node, contexts and sessions with pip and npm run in them, through the command line and both
clients; after an export umoci and skopeo have the same tree and settings. An ordinary run leaves Node out, whose size takes ten seconds to pack,
and tries the command line with one, the clients with the other."""
import json
import os
import shutil
import subprocess

from boxes import daemon, ok
from cloche import SOURCE, call, equal, need_root, sampled, skip, write_file
from image_trees import copy_programs, make_image
from package_files import npm_package, wheel

TIMEOUT = 300
FILES = {"hellopy-1-py3-none-any.whl": wheel("1"), "hellojs.tgz": npm_package()}
SESSIONS = {"python": "pip install --no-index ./hellopy-1-py3-none-any.whl >/dev/null && hellopy",
            "javascript": "npm install --offline --no-audit --no-fund ./hellojs.tgz >/dev/null && node -p 'require(\"hellojs\").version'"}
CELLS = {"python": "import os, hellopy; print(hellopy.version, os.environ['MADE_BY'])", "javascript": "console.log(require('hellojs').version, process.env.MADE_BY)"}
CALLS = {"python": "def f(): return 6 * 7", "javascript": "const f = () => [6, 7].at(-1)"}
EXPECTED = {"python": [42, "hellopy 1\n", "1 {}\n"], "javascript": [7, "one\n", "one {}\n"]}
ALL = (["python", "javascript"], ["command line", "clients", "back"])
TYPESCRIPT = """import { readFileSync } from 'node:fs'
import { Cloche } from './dist/index.js'
const [image, work] = [process.argv[2], JSON.parse(process.argv[3])]
const client = await Cloche.connect({ socket: process.env.CLOCHE_SOCKET })
const { sandbox } = await client.sandboxes.create({ name: 'ts', image })
for (const name of work.files) await sandbox.file.write({ path: name, content: readFileSync(name) })
const results = []
for (const { language, code, command, cell } of work.languages) {
  const { context } = await sandbox.contexts.create({ language })
  results.push([(await client.call({ language, code, image })).result, (await sandbox.exec({ command })).stdout, (await context.run(cell)).stdout])
}
console.log(JSON.stringify(results))
await sandbox.delete()
await client.close()
"""
PYTHON = """import json, os, sys
import cloche
image, work = sys.argv[1], json.loads(sys.argv[2])
with cloche.Cloche(os.environ["CLOCHE_SOCKET"]) as client:
    box = client.sandbox("py", image=image)
    for name in work["files"]:
        with open(name, "rb") as file:
            box.write_file(name, file.read())
    print(json.dumps([[client.call(each["language"], each["code"], image=image).unwrap(), box.exec(each["command"]).stdout,
                       box.context(language=each["language"]).run(each["cell"]).stdout] for each in work["languages"]]))
    box.delete()
"""
# The TypeScript client without its types, which `make test` checks.
STRIP = """const { transformSync } = require(process.argv[2])
const { cpSync, readFileSync, readdirSync, writeFileSync } = require('node:fs')
const [from, to] = process.argv.slice(3)
cpSync(from, to, { recursive: true, dereference: true })
for (const name of readdirSync(to, { recursive: true }).filter((name) => name.endsWith('.ts'))) {
  const path = to + '/' + name
  writeFileSync(path.replace(/ts$/, 'js'), transformSync(readFileSync(path, 'utf8'), { mode: 'transform' }).code)
}
writeFileSync('package.json', '{"type": "module"}')
"""


def tool(*words, **more):
    print("+", *words, flush=True)
    return subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True, **more).stdout


def make_root(languages):
    """Debian's programs of this machine: Python with pip, Node with npm."""
    root = make_image("root")
    copy_programs(root, *(f"/usr/bin/{name}" for name in ("cat", "dirname", "ls", "sed", "uname")))
    copy_tree(root, "/usr/lib/python3/dist-packages/pip")
    shutil.copy("/usr/bin/pip3", root + "/usr/bin/pip")
    if "javascript" in languages:
        copy_programs(root, os.path.realpath("/usr/bin/node"))
        npm = os.path.realpath("/usr/bin/npm")
        copy_tree(root, os.path.dirname(os.path.dirname(npm)))
        os.symlink(npm, root + "/usr/bin/npm")
    return root


def copy_tree(root, path):
    shutil.copytree(path, root + path, symlinks=True, ignore=shutil.ignore_patterns("docs", "man"))


def made_by_umoci(root):
    """Two layers of gzip."""
    tool("umoci", "init", "--layout", "layout")
    tool("umoci", "new", "--image", "layout:v1")
    tool("umoci", "unpack", "--image", "layout:v1", "bundle")
    for name in os.listdir(root):
        os.rename(f"{root}/{name}", f"bundle/rootfs/{name}")
    with open("bundle/rootfs/etc/replaced", "w") as file:
        file.write("below")
    tool("umoci", "repack", "--refresh-bundle", "--image", "layout:v1", "bundle")
    os.remove("bundle/rootfs/etc/replaced")
    with open("bundle/rootfs/etc/tool", "w") as file:
        file.write("umoci")
    tool("umoci", "repack", "--image", "layout:v2", "bundle")
    tool("umoci", "config", "--image", "layout:v2", "--config.env", "MADE_BY=umoci", "--config.env", "PATH=/usr/bin")
    tool("skopeo", "--insecure-policy", "copy", "oci:layout:v2", "oci-archive:umoci.tar:v2")
    return "umoci.tar"


def made_by_buildah(root):
    """Layers as they are."""
    with open(f"{root}/etc/tool", "w") as file:
        file.write("buildah")
    buildah = ["buildah", "--root", os.path.abspath("storage"), "--runroot", os.path.abspath("run"), "--storage-driver", "vfs"]
    container = tool(*buildah, "from", "scratch").strip()
    tool(*buildah, "copy", "--quiet", container, root, "/")
    tool(*buildah, "config", "--env", "MADE_BY=buildah", "--env", "PATH=/usr/bin", container)
    tool(*buildah, "commit", "--quiet", "--disable-compression", container, f"oci-archive:{os.path.abspath('buildah.tar')}:v2")
    tool(*buildah, "rm", container)
    return "buildah.tar"


def through_the_command_line(name, store, languages):
    ok("sandbox", "create", "cli", "--image", name)
    for file in FILES:
        ok("cp", file, "cli:")
    results = [[call(language, CALLS[language], "f", image=name, images=store).value, ok("exec", "cli", "--", SESSIONS[language]).decode(),
                ok("context", "run", "cli", "--language", language, "-c", CELLS[language]).decode()] for language in languages]
    ok("sandbox", "rm", "cli")
    return results


def through_a_client(program, name, languages):
    work = {"files": list(FILES), "languages": [{"language": each, "code": CALLS[each], "command": SESSIONS[each], "cell": CELLS[each]} for each in languages]}
    env = {**os.environ, "PYTHONPATH": os.path.join(SOURCE, "clients/python")}
    return json.loads(tool(*program, name, json.dumps(work), env=env))


def round_trip(name, store):
    """umoci unpacks the tree that was imported, and skopeo reads the settings."""
    ok("image", "export", name, "out.tar", "--images", store)
    equal(json.loads(tool("skopeo", "inspect", "--config", "oci-archive:out.tar:latest"))["config"]["Env"], [f"MADE_BY={name}", "PATH=/usr/bin"])
    os.mkdir("back")
    tool("tar", "-C", "back", "-xf", "out.tar")
    tool("umoci", "unpack", "--image", "back:latest", "out")
    tree = json.loads(ok("image", "inspect", name, "--json", "--images", store))["tree"]
    equal(tool("diff", "-r", "--no-dereference", "out/rootfs", f"{store}/trees/{tree.replace(':', '-')}"), "")


def try_all(name, archive, languages, ways):
    store = os.path.abspath("images")
    ok("image", "import", f"{archive}:v2", name, "--images", store)
    for file, content in {**FILES, "client.mjs": TYPESCRIPT, "client.py": PYTHON, "strip.cjs": STRIP}.items():
        write_file(file, content)
    expected = [[text.format(name) if isinstance(text, str) else text for text in EXPECTED[language]] for language in languages]
    with daemon("--images", store):
        if "command line" in ways:
            equal(through_the_command_line(name, store, languages), expected)
        if "clients" in ways:
            tool("node", "strip.cjs", os.path.join(SOURCE, "runtimes/typescript/node_modules/amaro"), os.path.join(SOURCE, "clients/typescript/src"), "dist")
            equal(through_a_client(["node", "client.mjs"], name, languages), expected)
            equal(through_a_client(["/usr/bin/python3", "client.py"], name, languages), expected)
    if "back" in ways:
        round_trip(name, store)


def need_tools(*names):
    need_root()
    for name in names:
        if not shutil.which(name):
            skip(f"there is no {name}")


def test_umoci():
    need_tools("umoci", "skopeo", "pip3", "npm")
    languages, ways = sampled((["python"], ["command line"]), ALL)
    try_all("umoci", made_by_umoci(make_root(languages)), languages, ways)


def test_buildah():
    need_tools("buildah", "umoci", "skopeo", "pip3", "npm")
    languages, ways = sampled((["python"], ["clients"]), ALL)
    try_all("buildah", made_by_buildah(make_root(languages)), languages, ways)
