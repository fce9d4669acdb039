"""Packages of new sandboxes: installed once, kept by content, given to the next sandbox without a download; a failure keeps nothing."""
import os
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.environ["CLOCHE_SOURCE"], "tests", "daemon"))
import cloche
import egress
from egress import HOST, World
from image_trees import make_image
from http_client import Http
from package_files import Index
from rpc import HANG_MS, Daemon, Failed, Frames, PATIENCE

TIMEOUT = 240
SHOW = "python3 -c 'import hellopy; print(hellopy.version)'"
PIP = {"pip": ["hellopy"]}


def start(kinds=("pip",)):
    World({})
    egress.use_name_servers(egress.NAMES)
    index = Index(HOST, kinds=kinds)
    return index, [word for kind in kinds for word in ("--package-index", f"{kind}={index.url}/{kind}/")]


def run(frames, sandbox, command):
    return frames.call("exec", sandbox=sandbox, command=command, timeoutMs=HANG_MS)


def names(frames):
    return sorted(row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"])


def layers(daemon):
    return [name for name in kept(daemon) if not name.startswith(".")]


def kept(daemon):
    """With a description of each."""
    return [name for place, _, files in os.walk(daemon.directory + "/state") if place.endswith("/.packages") for name in files]


def fails(frames, told, **more):
    try:
        raise AssertionError(frames.call("sandbox.create", sandbox="failed", **more))
    except Failed as e:
        assert told in e.message, e.message
        return e


def test_installed_once():
    index, options = start(("pip", "npm", "gem"))
    with Daemon(*options) as daemon, daemon.frames() as frames:
        made = frames.call("sandbox.create", sandbox="a", packages={"pip": ["hellopy"], "npm": ["hellojs"], "gem": ["hellorb"]})
        assert made["created"] and made["network"].get("allow", []) == [], made
        assert run(frames, "a", "hellopy; hellojs; hellorb")["stdout"] == "hellopy 1\nhellojs one\nhellorb one\n"
        assert names(frames) == ["a"] and len(layers(daemon)) == 1
        assert frames.call("sandbox.get", sandbox="a")["packages"] == {"pip": ["hellopy"], "npm": ["hellojs"], "gem": ["hellorb"]}
        # The index was for the installation only.
        assert run(frames, "a", f"curl -sS {index.url}/pip/hellopy/")["exitCode"] != 0
        # The next one needs no index, in whatever order; what the first one does to its files is its own.
        run(frames, "a", "rm -rf ~/.local; echo 3 > ~/mine")
        frames.call("sandbox.stop", sandbox="a")
        index.shutdown(), index.server_close()
        count = len(index.paths)
        frames.call("sandbox.create", sandbox="b", packages={"gem": ["hellorb"], "npm": ["hellojs", "hellojs"], "pip": ["hellopy"]})
        assert run(frames, "b", "hellopy; hellojs; hellorb; ls ~")["stdout"] == "hellopy 1\nhellojs one\nhellorb one\n"
        assert len(index.paths) == count and len(layers(daemon)) == 1
        frames.call("context.create", sandbox="b", context="c", language="python")
        assert frames.call("context.run", sandbox="b", context="c", code="import hellopy; print(hellopy.version)")["stdout"] == "1\n"
        frames.call("sandbox.stop", sandbox="b")
        assert run(frames, "b", SHOW)["stdout"] == "1\n"
        # One that is there keeps what it has; other packages are another layer, which the index would have to serve.
        assert not frames.call("sandbox.create", sandbox="a", packages=PIP)["created"]
        assert fails(frames, "packages.pip could not be installed", packages=PIP).name == "packages"
        assert names(frames) == ["a", "b"] and len(layers(daemon)) == 1


def test_two_at_once_and_a_client_that_leaves():
    index, options = start()
    with Daemon(*options) as daemon, daemon.frames() as frames, daemon.frames() as other:
        gone = daemon.frames()
        gone.ask("sandbox.create", sandbox="gone", packages=PIP)
        asked = [(client, client.ask("sandbox.create", sandbox=name, packages=PIP)) for client, name in ((frames, "one"), (other, "two"), (frames, "three"))]
        gone.close()
        for client, number in asked:
            client.wait(number)
        assert [run(frames, name, SHOW)["stdout"] for name in ("one", "two", "three")] == ["1\n"] * 3
        assert index.paths.count("/pip/hellopy/hellopy-1-py3-none-any.whl") == 1, index.paths
        assert [name for name in names(frames) if name != "gone"] == ["one", "three", "two"]


def test_failures_keep_nothing():
    index, options = start()
    with Daemon(*options) as daemon, daemon.frames() as frames:
        e = fails(frames, "packages.pip could not be installed: ", packages={"pip": ["hellopy", "nothing-of-this-name"]})
        assert e.name == "packages" and "No matching distribution found for nothing-of-this-name" in e.data["output"], e.data
        # No registry of npm is known, and no rule allows one.
        e = fails(frames, "packages.npm could not be installed, the network refused ", packages={"npm": ["hellojs"]}, env={"NPM_CONFIG_REGISTRY": index.url + "/npm/"}, network={"allow": []})
        assert f"refused {HOST} (the rule python permits it, or cloched --package-index npm=URL): " in e.message, e.message
        assert names(frames) == [] and layers(daemon) == []
        for packages, told in (({"pip": ["-r x"]}, "packages.pip[0]"), ({"pip": ["a", "b'; reboot; '"]}, "packages.pip[1]"), ({"npm": "hellojs"}, "packages.npm must be a list"), ({"cargo": ["x"]}, "there is no kind 'cargo'"),
                               ({"pip": [3]}, "packages.pip[0]"), ({"gem": ["a\nb"]}, "packages.gem[0]"), ({"pip": ["x" * 201]}, "packages.pip[0]"), ({"pip": ["x"] * 201}, "at most 200"), ({"pip": [""]}, "packages.pip[0]")):
            assert fails(frames, told, packages=packages).name == "invalid_argument", packages
        # Afterwards it works, also without a package.
        frames.call("sandbox.create", sandbox="none", packages={"pip": [], "npm": []})
        frames.call("sandbox.create", sandbox="a", packages=PIP)
        assert run(frames, "a", SHOW)["stdout"] == "1\n"
    with Daemon("--state-dir", "", *options) as daemon, daemon.frames() as frames:
        assert fails(frames, "start it with --state-dir", packages=PIP).name == "invalid_state"


def test_names_of_installations():
    """The daemon deletes sandboxes of these names when it starts and stops, so a caller cannot make one; similar names are the caller's."""
    reserved, similar = "packages--" + "0a" * 20, ["packages--mine", "packages--" + "0a" * 19]
    with Daemon() as daemon, daemon.frames() as frames:
        for method, more in (("sandbox.create", {}), ("exec", {"command": "true"})):
            e = frames.refused(method, sandbox=reserved, **more)
            assert e.name == "invalid_argument" and "choose another name" in e.message, e
        for name in similar:
            run(frames, name, "echo kept > f")
        assert daemon.stop() == 0
        with Daemon("--state-dir", daemon.directory + "/state") as again, again.frames() as later:
            assert names(later) == sorted(similar) and [run(later, name, "cat f")["stdout"] for name in similar] == ["kept\n"] * 2


def test_an_image_without_the_tools():
    """The reason is in the error, though nothing could filter the tool's output."""
    _, options = start()
    store = os.path.abspath("images")
    cloche.equal(cloche.cli("image", "import", make_image(), "bare", "--images", store).code, 0)
    with Daemon("--images", store, *options) as daemon, daemon.frames() as frames:
        assert "tail: command not found" in fails(frames, "tail: command not found", image="bare", packages=PIP).data["output"]


def test_a_daemon_that_is_killed_meanwhile():
    """Its sandbox for the installation is gone with the next daemon, and no layer is there."""
    index, options = start()
    with Daemon(*options) as daemon, daemon.frames() as frames:
        frames.ask("sandbox.create", sandbox="a", packages=PIP)
        until = time.monotonic() + 60 * PATIENCE
        while not index.paths and time.monotonic() < until:
            time.sleep(0.01)
        assert index.paths
        pid = daemon.engine_pid()
        os.kill(pid, signal.SIGKILL)
        cloche.wait_for(daemon.is_ready, "the next engine")
        with daemon.frames() as again:
            assert [name for name in names(again) if name != "a"] == [] and layers(daemon) == []
            again.call("sandbox.create", sandbox="b", packages=PIP)
            assert run(again, "b", SHOW)["stdout"] == "1\n"


def test_a_layer_is_never_changed_and_of_one_caller():
    index, options = start()
    with Daemon(*options, tcp=True) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", packages=PIP)
        frames.call("sandbox.create", sandbox="b", packages=PIP)
        # A guest that writes into what it was given changes neither the layer nor the other sandbox.
        run(frames, "a", "f=$(python3 -c 'import hellopy; print(hellopy.__file__)'); echo 'version = \"bad\"' > $f; ln -s / ~/.local/root")
        frames.call("sandbox.save", sandbox="a")
        assert run(frames, "b", SHOW)["stdout"] == "1\n"
        frames.call("sandbox.create", sandbox="c", packages=PIP)
        assert run(frames, "c", SHOW + "; ls -A ~; pgrep -c pip")["stdout"] == "1\n.local\n0\n"
        # Another caller, with a token, gets none of it: the code in a layer is what its maker's index had.
        fetched = index.paths.count("/pip/hellopy/hellopy-1-py3-none-any.whl")
        with Frames(daemon.connect_tcp(), token=daemon.token) as stranger:
            stranger.call("sandbox.create", sandbox="a", packages=PIP)
            assert run(stranger, "a", SHOW)["stdout"] == "1\n"
        assert fetched == 1 and index.paths.count("/pip/hellopy/hellopy-1-py3-none-any.whl") == 2 and len(layers(daemon)) == 2, index.paths
        # Another environment may mean another index.
        frames.call("sandbox.create", sandbox="d", packages=PIP, env={"PIP_INDEX_URL": index.url + "/pip/"})
        assert len(layers(daemon)) == 3


def test_a_bound_of_sandboxes_is_one_of_layers():
    """Each layer may take as much room as a saved sandbox."""
    index, options = start()
    with Daemon("--max-saved", "2", *options) as daemon, daemon.frames() as frames:
        for i in range(3):
            frames.call("sandbox.create", sandbox="a", packages=PIP, env={"NUMBER": str(i)})
            assert run(frames, "a", SHOW)["stdout"] == "1\n"
            frames.call("sandbox.delete", sandbox="a")
            assert len(layers(daemon)) == min(i + 1, 2), layers(daemon)
        count = len(index.paths)
        frames.call("sandbox.create", sandbox="a", packages=PIP, env={"NUMBER": "2"})  # the twin: the latest is there
        assert len(index.paths) == count


def test_the_rules_of_a_network_are_those_of_a_layer():
    """One with fewer rules does not get the files that another one fetched; equal rules share."""
    index, options = start()
    wheel = "/pip/hellopy/hellopy-1-py3-none-any.whl"
    with Daemon(*options) as daemon, daemon.frames() as frames:
        for count, network in ((1, {"allow": ["*"]}), (2, {"allow": ["a.test"]}), (2, {"allow": ["*"]}), (2, {"allow": ["a.test"]})):
            frames.call("sandbox.create", sandbox="a", packages=PIP, network=network)
            assert run(frames, "a", SHOW)["stdout"] == "1\n" and index.paths.count(wheel) == count, (network, index.paths)
            frames.call("sandbox.delete", sandbox="a")
        # A rule that denies the index: nothing of the others is there.
        assert fails(frames, "packages.pip could not be installed", packages=PIP, network={"allow": ["*"], "deny": [HOST]}).name == "packages"
        assert len(layers(daemon)) == 2


def test_another_interpreter_means_other_packages():
    """With the host's /usr an upgrade replaces it. The namespace of mounts is this test's own."""
    index, options = start()
    wheel = "/pip/hellopy/hellopy-1-py3-none-any.whl"
    with Daemon(*options) as daemon, daemon.frames() as frames:
        frames.call("sandbox.create", sandbox="a", packages=PIP)
        assert daemon.stop() == 0
        python = os.path.realpath("/usr/bin/python3")
        shutil.copy(python, "python")
        os.chmod("python", 0o755)
        subprocess.run(["mount", "--bind", "python", python], check=True)
        for name, count in (("b", 2), ("c", 2)):
            with Daemon("--state-dir", daemon.directory + "/state", *options) as again, again.frames() as later:
                later.call("sandbox.create", sandbox=name, packages=PIP)
                assert run(later, name, SHOW)["stdout"] == "1\n" and index.paths.count(wheel) == count, (name, index.paths)
                assert again.stop() == 0


def test_a_layer_goes_after_its_week():
    index, options = start()
    with Daemon(*options) as daemon, daemon.frames() as frames:
        for number in ("1", "2"):
            frames.call("sandbox.create", sandbox=f"s{number}", packages=PIP, env={"NUMBER": number})
        assert daemon.stop() == 0
        place, = (place for place, _, files in os.walk(daemon.directory + "/state") if place.endswith("/.packages"))
        old, young = sorted(layers(daemon))
        week = 7 * 86400
        for name, age in ((old, week + 3600), (young, week - 3600)):
            os.utime(os.path.join(place, name), (time.time() - age,) * 2)
        with Daemon("--state-dir", daemon.directory + "/state", *options) as again, again.frames() as later:
            cloche.wait_for(lambda: sorted(os.listdir(place)) == ["." + young, young], "nobody asked for it")
            assert [run(later, name, SHOW)["stdout"] for name in ("s1", "s2")] == ["1\n"] * 2, "sandboxes keep theirs"


def test_their_owner_lists_and_removes_them():
    index, options = start()
    with Daemon(*options, tcp=True) as daemon, daemon.frames() as frames, Frames(daemon.connect_tcp(), token=daemon.token) as stranger:
        assert frames.call("packages.list") == {"layers": []}
        for name in ("a", "b"):
            frames.call("sandbox.create", sandbox=name, packages=PIP, env={"NAME": name})
        first, second = frames.call("packages.list")["layers"]
        assert first["packages"] == PIP and "image" not in first and first["bytes"] > 1000 and first["createdAt"] <= second["createdAt"] < first["expiresAt"], first
        assert sorted(kept(daemon)) == sorted(name for row in (first, second) for name in (row["layer"], "." + row["layer"]))
        # Another caller does not see them, and nobody the rest of the state directory.
        assert stranger.call("packages.list") == {"layers": []}
        for client, layer in ((stranger, first["layer"]), (frames, "0" * 64), (frames, "../a/files"), (frames, "." + first["layer"]), (frames, "")):
            assert client.refused("packages.delete", layer=layer).name == "not_found", layer
        assert frames.call("packages.list")["layers"] == [first, second]
        with Http(daemon.connect()) as http:
            assert http.request("DELETE", "/v1/packages/" + first["layer"]) == (200, {})
            assert http.get("/v1/packages")[1] == {"layers": [second]}
        assert sorted(kept(daemon)) == sorted([second["layer"], "." + second["layer"]])
        assert run(frames, "a", SHOW)["stdout"] == "1\n", "it keeps its files"
        frames.call("sandbox.create", sandbox="c", packages=PIP, env={"NAME": "a"})  # installed anew
        assert index.paths.count("/pip/hellopy/hellopy-1-py3-none-any.whl") == 3
        told = cloche.cli("packages", "ls", "--socket", daemon.path).stdout.decode().splitlines()
        assert len(told) == 2 and all(line.endswith("\tpip:hellopy\t") and line.split("\t")[2].startswith("20") for line in told), told
        told = cloche.cli("packages", "rm", second["layer"], "none", "--socket", daemon.path)
        assert told.code == 2 and 'there are no packages "none" (cloche packages ls lists them)' in told.stderr.decode(), told
        assert len(frames.call("packages.list")["layers"]) == 1


def test_beside_a_mount():
    """The layer is unpacked around it; both are there again after a stop, whose sync writes the mount alone."""
    _index, options = start()
    host = os.path.abspath("host")
    os.mkdir(host)
    os.chmod(host, 0o777)
    with open("host/f", "w") as file:
        file.write("host\n")
    with Daemon("--mount-root", host, *options) as daemon, daemon.frames() as frames:
        mount = {"dirs": {"/home/cloche/host": host}, "permissions": {"default": {"create": True}}}
        frames.call("sandbox.create", sandbox="a", packages=PIP, mount=mount, env={"A": "1"})
        shown = run(frames, "a", SHOW + "; cat ~/host/f; echo new > ~/host/new; echo $A; ls ~")["stdout"]
        assert shown == "1\nhost\n1\nhost\n", shown
        stopped = frames.call("sandbox.stop", sandbox="a", sync={})
        assert stopped["sync"]["synced"] == ["/home/cloche/host/new"] and sorted(os.listdir(host)) == ["f", "new"], stopped
        assert run(frames, "a", SHOW + "; cat ~/host/new")["stdout"] == "1\nnew\n"


def test_the_command_line():
    index, options = start()
    with Daemon(*options) as daemon:
        told = cloche.cli("sandbox", "create", "box", "--packages", "pip:hellopy", "--socket", daemon.path)
        assert told.code == 0, told
        told = cloche.cli("exec", "box", "--socket", daemon.path, "--", "hellopy")
        assert told.stdout == b"hellopy 1\n", told
        told = cloche.cli("sandbox", "create", "other", "--packages", "pip:hellopy,nothing-of-this-name", "--socket", daemon.path)
        assert told.code != 0 and b"packages.pip could not be installed" in told.stderr and not told.stderr.endswith(b"\n\n"), told
        told = cloche.cli("sandbox", "create", "other", "--packages", "npm:hellojs", "-e", f"NPM_CONFIG_REGISTRY={index.url}/npm/", "--socket", daemon.path)
        assert told.code != 0 and f"refused {HOST} (--allow python permits it, or cloched --package-index npm=URL): ".encode() in told.stderr, told
        for value in ("hellopy", ":x", "cargo:x"):
            told = cloche.cli("sandbox", "create", "other", "--packages", value, "--socket", daemon.path)
            assert told.code == 2 and b"pip" in told.stderr, told
