"""The OpenAPI document is valid, and a client that is generated from it calls ten operations with types. The packages are installed once, as
package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import json
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "daemon"))
import npm_cache
from http_client import Http
from rpc import Daemon, answers

TIMEOUT = 300  # with the installation


def run(place, *command, **env):
    done = subprocess.run(command, cwd=place, env={**os.environ, **env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=TIMEOUT - 100)
    assert done.returncode == 0, done.stdout
    return done.stdout


def work_place(daemon):
    """A directory with the packages, the document that the daemon serves, and the client."""
    place = tempfile.mkdtemp(prefix="openapi-")
    os.symlink(os.path.join(npm_cache.install(HERE), "node_modules"), os.path.join(place, "node_modules"))
    for name in ("package.json", "client.ts", "validate.mjs"):
        shutil.copy(os.path.join(HERE, name), place)
    with Http(daemon.connect()) as http, open(os.path.join(place, "openapi.json"), "w") as file:
        json.dump(http.get("/openapi.json")[1], file)
    return place


def test_the_document_is_valid():
    with Daemon() as daemon:
        place = work_place(daemon)
        assert int(run(place, "node", "validate.mjs", "openapi.json")) > 60
        with open(os.path.join(place, "openapi.json")) as file:
            document = json.load(file)
        del document["paths"]["/v1/sandboxes/{sandbox}"]["get"]["parameters"][0]["in"]
        with open(os.path.join(place, "bad.json"), "w") as file:
            json.dump(document, file)
        assert subprocess.run(["node", "validate.mjs", "bad.json"], cwd=place, capture_output=True).returncode != 0, "the validator sees what is missing"


def test_every_operation_has_a_typed_answer():
    with Daemon() as daemon, Http(daemon.connect()) as http:
        document = http.get("/openapi.json")[1]
    for path, item in document["paths"].items():
        for verb, operation in item.items():
            success = next(answer for status, answer in operation["responses"].items() if status != "default")
            schema = success.get("content", {}).get("application/json", {}).get("schema")
            if "101" in operation["responses"]:
                assert schema is None
            elif "application/json" in success["content"]:
                named = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
                assert named["type"] == "object" and named["description"], (verb, path)


def compile_client(place):
    """The client's types are generated and checked once for each version of the document and of the
    client, which takes 6 s of processor time."""
    version = npm_cache.version_of([os.path.join(place, name) for name in ("openapi.json", "client.ts", "package.json")] + [os.path.join(HERE, "package-lock.json")])
    with npm_cache.made_once(f"openapi-client-{version}") as (kept, is_done):
        if not is_done:
            binaries = os.path.join(place, "node_modules", ".bin")
            run(place, os.path.join(binaries, "openapi-typescript"), "openapi.json", "--default-non-nullable", "false", "-o", "schema.ts")
            run(place, os.path.join(binaries, "tsc"), "--strict", "--target", "es2022", "--lib", "es2022", "--module", "nodenext", "--types", "node", "--skipLibCheck", "client.ts")
            shutil.copy(os.path.join(place, "client.js"), kept)
        else:
            shutil.copy(os.path.join(kept, "client.js"), place)


def test_a_generated_client_calls_ten_operations():
    with Daemon(tcp=True) as daemon:
        place = work_place(daemon)
        compile_client(place)
        asked = os.path.join(place, "asked.json")
        run(place, "node", "client.js", DAEMON_URL=f"http://127.0.0.1:{daemon.port}", DAEMON_TOKEN=daemon.token, ASKED=asked)
        with open(asked) as file:
            rows = json.load(file)
        for verb, path, status, body in rows:
            answers.check_http(verb, path, status, body)
        assert len({path for _, path, status, _ in rows if status in (200, 201)}) >= 10
