"""Mounted directories over the wire: permitted mounts, change sets, syncs, and the requests and events meanwhile."""
import json
import os
import shutil
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from http_client import Http, read_events
from rpc import Daemon, Failed, private

ALL = {"default": {"create": True, "modify": True, "delete": True}}
WORK = "import os\nopen('m/new', 'wb').write(b'\\xff!')\nopen('m/a', 'w').write('changed')\nos.remove('m/b')"


class Directory:
    """A directory of the host with a few files."""

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="cloched-mount-")
        os.chmod(self.path, 0o755)
        for name in ("a", "b", "secret"):
            with open(os.path.join(self.path, name), "w") as file:
                file.write(name)
        return self

    def __exit__(self, *_):
        shutil.rmtree(self.path)

    def tree(self):
        return {name: open(os.path.join(self.path, name), "rb").read() for name in sorted(os.listdir(self.path))}


BEFORE = {"a": b"a", "b": b"b", "secret": b"secret"}
AFTER = {"a": b"changed", "new": b"\xff!", "secret": b"secret"}


def mount(directory, mode="manual", **more):
    return {"dirs": {"/workspace/m": directory.path}, "permissions": ALL, "sync": {"mode": mode}, **more}


def test_changes_are_kept_until_they_are_synced():
    with Directory() as directory:
        process, frames = private()
        with frames:
            result = frames.call("script", language="python", code=WORK, mount=mount(directory))
            assert result["status"] == "success", result
            assert directory.tree() == BEFORE, "nothing is written before the sync"
            assert [change["path"] for change in result["files"]["created"]] == ["/workspace/m/new"]
            change = result["files"]["created"][0]["content"]
            assert frames.attachments[change["at"]:change["at"] + change["n"]] == b"\xff!"
            changeset = result["changeset"]
            plan = frames.call("sync", changeset=changeset, dryRun=True)
            assert len(plan["steps"]) >= 3 and directory.tree() == BEFORE, plan
            done = frames.call("sync", changeset=changeset)
            assert len(done["synced"]) == 3 and not done["failed"], done
            assert directory.tree() == AFTER
            assert frames.call("changeset.drop", changeset=changeset) == {}
            assert frames.refused("sync", changeset=changeset).name == "not_found"
        assert process.wait(20) == 0


def test_what_is_asked_and_told():
    with Directory() as directory:
        process, frames = private()
        asked = []

        def before(message):
            change = message["params"]["change"]
            asked.append((change["type"], change["path"]))
            if change["path"].endswith("/a"):
                return {"action": "skip", "reason": "not this one"}
            return {"action": "continue"}

        def answer(message, attachments):
            assert message["method"] == "sync.before"
            frames.send({"jsonrpc": "2.0", "id": message["id"], "result": before(message)})

        frames.answer = answer
        with frames:
            rules = {"default": {"create": True, "modify": True, "delete": True}, "rules": [{"pattern": "secret", "deny": ["modify"]}]}
            events = ["beforeSync", "afterSync", "syncError", "permissionDenied"]
            code = WORK + "\ntry:\n    open('m/secret', 'w')\nexcept PermissionError:\n    pass"
            number = frames.ask("script", language="python", code=code, mount={**mount(directory, "batch", events=events), "permissions": rules})
            result = frames.wait(number)
            assert result["status"] == "success", result
            assert sorted(asked) == [("created", "/workspace/m/new"), ("deleted", "/workspace/m/b"), ("modified", "/workspace/m/a")], asked
            told = {method: params for method, params, _ in frames.told}
            assert told["permissionDenied"]["path"] == "/workspace/m/secret" and told["permissionDenied"]["operation"] == "modify"
            assert all(params["run"] == number for _, params, _ in frames.told)
            after = [params["path"] for method, params, _ in frames.told if method == "sync.after"]
            assert sorted(after) == ["/workspace/m/b", "/workspace/m/new"], frames.told
            assert directory.tree() == {"a": b"a", "new": b"\xff!", "secret": b"secret"}
            assert result["sync"]["skipped"][0]["reason"] == "not this one", result["sync"]
        assert process.wait(20) == 0


def test_a_host_that_goes_is_no_host_that_agrees():
    with Directory() as directory:
        for end in ("abort", "error", "nonsense", "close"):
            process, frames = private()
            questions = []

            def answer(message, attachments):
                questions.append(message)
                reply = {"abort": {"result": {"action": "abort", "reason": "no"}}, "nonsense": {"result": {"action": "perhaps"}},
                         "error": {"error": {"code": -32000, "message": "no"}}}
                if end != "close":
                    frames.send({"jsonrpc": "2.0", "id": message["id"], **reply[end]})

            frames.answer = answer
            with frames:
                number = frames.ask("script", language="python", code=WORK, mount=mount(directory, "batch", events=["beforeSync"]))
                while not questions:
                    frames.turn()
                if end != "close":
                    result = frames.wait(number)
                    assert result["sync"]["aborted"], result
            assert process.wait(20) == 0
            assert directory.tree() == BEFORE, (end, directory.tree())


def test_syncs_of_what_the_caller_says():
    with Directory() as directory:
        process, frames = private()
        with frames:
            changes = [{"type": "created", "path": "/workspace/m/made", "kind": "file", "mode": 420, "content": "by hand"}]
            done = frames.call("sync", changes=changes, mount=mount(directory))
            assert not done["failed"] and directory.tree()["made"] == b"by hand", done
            for params in ({"changes": changes}, {"mount": mount(directory)}, {"changeset": "c1", "changes": changes, "mount": mount(directory)},
                           {"changes": [5], "mount": mount(directory)}, {"changes": [{"type": "created", "path": "/etc/x"}], "mount": mount(directory)},
                           {"changes": changes, "mount": {**mount(directory), "events": ["afterAll"]}},
                           {"changes": changes, "mount": mount(directory), "onError": "hope"}):
                error = frames.refused("sync", **params)
                assert error.data["fault"] == "caller", (params, error.data, error.message)
        assert process.wait(20) == 0


def test_only_what_was_named_may_be_mounted():
    with Directory() as directory, Directory() as other:
        with Daemon() as daemon, daemon.frames() as frames:
            error = frames.refused("script", language="python", code="1", mount=mount(directory))
            assert error.name == "forbidden" and "--mount-root" in error.message, error.message
        with Daemon("--mount-root", directory.path) as daemon:
            with daemon.frames() as frames:
                assert frames.call("script", language="python", code="print(open('m/a').read())", mount=mount(directory))["stdout"] == "a\n"
                one = {"path": os.path.join(directory.path, "a"), "kind": "file"}
                for loading, is_well in (({"mode": "lazy", "maxFileSize": 10}, True), (None, True), ({"maxFilesize": 10}, False)):
                    for asked in ({**mount(directory), "loading": loading}, {"dirs": {"/workspace/m/a": {**one, "loading": loading}}}):
                        ask = {"language": "python", "code": "print(open('m/a').read())", "mount": asked}
                        if is_well:
                            assert frames.call("script", **ask)["stdout"] == "a\n", asked
                        else:
                            assert 'mount.loading has no member "maxFilesize"' in frames.refused("script", **ask).message, asked
                error = frames.refused("script", language="python", code="1", mount={"/workspace/m": directory.path})
                assert error.message.endswith('mount has no member "/workspace/m": places are the members of its "dirs"'), error.message
                for path in (other.path, "/", "/etc", directory.path + "/.."):
                    error = frames.refused("script", language="python", code="1", mount={"dirs": {"/workspace/m": path}})
                    assert error.data["fault"] == "caller", (path, error.data, error.message)
                mine = frames.call("script", language="python", code=WORK, mount=mount(directory))["changeset"]
                with daemon.frames() as stranger:
                    assert stranger.refused("sync", changeset=mine).name == "not_found"
                    assert stranger.refused("changeset.drop", changeset=mine).name == "not_found"
            with Http(daemon.connect()) as http:
                result = http.post("/v1/script", language="python", code=WORK, mount=mount(directory))[1]
                assert directory.tree() == BEFORE
                status, done = http.post("/v1/sync", changeset=result["changeset"])
                assert status == 200 and directory.tree() == AFTER, done
                assert http.request("DELETE", "/v1/changesets/" + result["changeset"]) == (200, {})
                assert http.request("DELETE", "/v1/changesets/" + result["changeset"])[0] == 404
                code = "try:\n    open('m/secret', 'w')\nexcept PermissionError:\n    pass"
                body = {"language": "python", "code": code, "mount": {"dirs": {"/workspace/m": directory.path}, "events": ["permissionDenied"]}}
                http.begin("POST", "/v1/script", body, accept="text/event-stream")
                events = list(read_events(http))
                assert events[0][0] == "permissionDenied" and events[0][1]["path"] == "/workspace/m/secret", events
