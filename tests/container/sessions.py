"""Sessions of the container API: their directories, their ends, their failures."""
import json
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from wire import BASE, Http, of_events, served

NEW = {"X-Sandbox-Id": "x"}


def run(http, command, **more):
    return http.post(BASE + "/api/execute", NEW, command=command, **more)


def test_relative_paths_begin_at_the_sessions_directory():
    with served() as (_, http):
        def new(path, /, **body):
            status, answer = http.post(BASE + "/api/" + path, NEW, sessionId="s", **body)
            assert status == 200, answer
            return answer

        assert http.post(BASE + "/api/session/create", NEW, id="s", cwd="/tmp/begin")[0] == 200
        assert new("write", path="a/b.txt", content="1")["path"] == "a/b.txt", "paths are told as they were given"
        assert run(http, "cat /tmp/begin/a/b.txt")[1]["stdout"] == "1"
        assert run(http, "mkdir deeper && cd deeper && echo 2 > c", sessionId="s")[0] == 200
        assert new("read", path="c")["content"] == "2\n", "where its shell is now"
        assert new("read", path="../a/b.txt")["content"] == "1"
        assert new("read", path="/tmp/begin/a/b.txt")["content"] == "1"
        assert new("exists", path="c")["exists"] and not new("exists", path="a")["exists"]
        assert new("mkdir", path="d", recursive=False)["success"]
        assert [file["name"] for file in new("list-files", path=".", options={})["files"]] == ["c", "d"]
        assert new("rename", oldPath="c", newPath="d/e")["newPath"] == "d/e"
        assert new("move", sourcePath="d/e", destinationPath="f")["success"]
        assert http.begin("POST", BASE + "/api/read/stream", {"path": "f", "sessionId": "s"}, NEW) == 200
        assert "2\n" in [event.get("data") for event in of_events(http)]
        assert new("delete", path="f")["success"]
        assert run(http, "ls /tmp/begin/deeper")[1]["stdout"] == "d\n"
        assert http.post(BASE + "/api/read", NEW, path="a/b.txt", sessionId="__DISABLE_SESSION__")[0] == 404, "without a session: /workspace"
        assert http.post(BASE + "/api/read", NEW, path="a/b.txt", sessionId="nobody")[0] == 404
        assert run(http, "cd /tmp/begin")[0] == 200
        assert http.post(BASE + "/api/read", path="a/b.txt", encoding="utf-8")[1]["content"] == "1", "the default session, of 0.3 too"


def test_a_sessions_directory_is_made_or_an_error():
    with served() as (_, http):
        status, made = http.post(BASE + "/api/session/create", NEW, id="made", cwd="/workspace/not/yet")
        assert status == 200 and made["data"]["cwd"] == "/workspace/not/yet", made
        assert run(http, "pwd", sessionId="made")[1]["stdout"] == "/workspace/not/yet\n"
        for cwd in ("/", "/usr", "/proc/self", "/workspace"):
            assert http.post(BASE + "/api/session/create", NEW, id="at" + cwd.replace("/", "-") + "x", cwd=cwd)[0] == 200, cwd
        assert run(http, "touch /workspace/file")[0] == 200
        for cwd in ("/proc/nothing", "/usr/nothing", "/workspace/file"):
            status, error = http.post(BASE + "/api/session/create", NEW, id="wrong", cwd=cwd)
            assert status >= 400 and error["error"] == "Failed to create session" and cwd in error["message"], error
        assert "wrong" not in http.get(BASE + "/api/session/list")[1]["sessions"]


def test_exit_ends_the_session():
    with served() as (_, http):
        assert run(http, "cd /tmp; export A=1", sessionId="s")[0] == 200
        for command, code in (("echo out; echo err >&2; exit 3", 3), ("exit 0", 0), ("kill -9 $$", 137)):
            status, error = run(http, command, sessionId="s")
            assert (status, error["code"]) == (410, "SESSION_TERMINATED"), error
            assert error["message"] == f"Session 's' shell exited (exit code: {code})", error
            assert (error["context"]["sessionId"], error["context"]["exitCode"]) == ("s", code), error
            if code == 3:
                assert (error["context"]["stdout"], error["context"]["stderr"]) == ("out\n", "err\n"), error
            status, result = run(http, 'pwd; echo "[$A]"', sessionId="s")
            assert (status, result["stdout"]) == (200, "/workspace\n[]\n"), "the next command begins anew"
        status, result = run(http, "exit 3", sessionId="__DISABLE_SESSION__")
        assert (status, result["exitCode"]) == (200, 3), "without a session nothing ends"
        status, result = run(http, "(exit 3)", sessionId="s")
        assert (status, result["exitCode"]) == (200, 3), "a subshell is no session"
        assert http.post(BASE + "/api/session/create", id="o")[0] == 200
        status, error = http.post(BASE + "/api/execute", id="o", command="exit 3")
        assert (status, error["error"], error["message"]) == (500, "Command execution failed", "Control process exited with code 3"), error
        assert http.post(BASE + "/api/execute", id="o", command="echo $((6 * 7))")[1]["stdout"] == "42\n"


def test_what_a_command_printed_before_its_timeout():
    with served() as (_, http):
        status, error = run(http, "echo out; echo err >&2; sleep 60", sessionId="s", timeoutMs=1500)
        assert (status, error["code"], error["message"]) == (500, "COMMAND_EXECUTION_ERROR", "Command timeout after 1500ms"), error
        assert (error["context"]["stdout"], error["context"]["stderr"], error["context"]["exitCode"]) == ("out\n", "err\n", 124), error


def test_processes_have_ids_of_their_own():
    with served() as (_, http):
        ids = set()
        for _ in range(5):
            status, started = http.post(BASE + "/api/process/start", NEW, command="true")
            assert status == 200 and started["processId"].startswith("proc_"), started
            ids.add(started["processId"])
        assert len(ids) == 5
        for verb, path in (("GET", ""), ("DELETE", ""), ("GET", "/logs"), ("GET", "/stream")):
            status, error = http.request(verb, BASE + "/api/process/none" + path, headers=NEW)
            assert (status, error["code"], error["message"]) == (404, "PROCESS_NOT_FOUND", "Process none not found"), (verb, path, error)
        status, error = http.request("GET", BASE + "/api/process/none", headers={"Content-Type": "application/json"})  # of 0.3
        assert (status, error["error"], error["message"]) == (404, "Process not found", "none"), error


def killed(daemon, http, command):
    """How it ended that DELETE had killed."""
    started = http.post(BASE + "/api/process/start", NEW, command=command)[1]
    assert http.begin("GET", BASE + f"/api/process/{started['processId']}/stream", headers=NEW) == 200
    events = of_events(http)
    while next(events).get("data") != "ready\n":
        pass
    with Http(daemon.connect()) as other:
        assert other.request("DELETE", BASE + "/api/process/" + started["processId"], headers=NEW)[0] == 200
        rest = list(events)
        assert rest[-1]["type"] == "exit", rest
        return other.get(BASE + "/api/process/" + started["processId"])[1]["process"]


def test_the_exit_code_of_what_was_killed():
    with served() as (daemon, http):
        for command, code in (("echo ready; sleep 600", 143), ("trap '' TERM; echo ready; while :; do sleep 600; done", 137)):
            process = killed(daemon, http, command)
            assert (process["status"], process["exitCode"]) == ("killed", code), process


def test_git_failures():
    with served() as (_, http):
        commands = "git init -q g && cd g && git -c user.email=a@example.org -c user.name=a commit -q --allow-empty -m x"
        assert run(http, commands, sessionId="__DISABLE_SESSION__")[1]["exitCode"] == 0

        def clone(**body):
            return http.post(BASE + "/api/git/checkout", NEW, **body)

        for body, words in (({"repoUrl": "/workspace/none.git"}, "does not exist"), ({"repoUrl": "http://127.0.0.1:9/x.git"}, "unable to access"),
                            ({"repoUrl": "/workspace/g", "branch": "nobranch", "targetDir": "/workspace/h"}, "nobranch"),
                            ({"repoUrl": "/workspace/g", "targetDir": "/workspace/g"}, "already exists")):
            status, error = clone(**body)
            assert (status, error["code"], error["context"]["exitCode"]) == (500, "GIT_OPERATION_FAILED", 128), error
            assert error["message"].startswith(f"Failed to clone repository '{body['repoUrl']}': ") and words in error["context"]["stderr"], error
        status, error = clone(repoUrl="http://name:secret@127.0.0.1:9/x.git")
        assert "secret" not in json.dumps(error), error
        status, answer = clone(repoUrl="/workspace/g", targetDir="below/it", sessionId="__DISABLE_SESSION__")
        assert (status, answer["targetDir"]) == (200, "below/it"), answer
        assert clone(repoUrl="/workspace/g", targetDir="/workspace/k")[1]["targetDir"] == "/workspace/k"


def test_deleting_a_directory():
    with served() as (_, http):
        status, error = http.post(BASE + "/api/delete", NEW, path="/workspace")
        assert (status, error["code"]) == (400, "IS_DIRECTORY"), error
        assert error["message"] == "Cannot delete directory with deleteFile() at '/workspace'. Use exec('rm -rf <path>') instead.", error


def test_types_of_files():
    with served() as (_, http):
        for name, content, expected in (("a.png", "text", "image/png"), ("a.pdf", "text", "application/pdf"), ("b.json", "%PDF-1.4", "application/json"),
                                        ("c.bin", "text", "application/octet-stream"), ("plain", "%PDF-1.4", "application/pdf"), ("other", "text", "text/plain")):
            assert http.post(BASE + "/api/write", NEW, path=name, content=content)[0] == 200
            assert http.post(BASE + "/api/read", NEW, path=name)[1]["mimeType"] == expected, name
