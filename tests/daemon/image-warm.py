"""image.warm: interpreters in an image that are ready before the first run, whose they are, and how long they stay."""
import json
import os
import sys

sys.path[:0] = [os.path.dirname(os.path.abspath(__file__))]
from http_client import Http
from image_trees import make_image, make_shell
from rpc import Daemon, Failed, Frames
from cloche import cli, equal

MARKER = {"language": "python", "code": "def f(): return open('/etc/marker').read()", "function": "f"}
IDLE = 600_000


def store(image):
    """The record of its one image."""
    equal(cli("image", "import", "--images", "images", image, "tools:1").code, 0)
    return json.loads(cli("image", "inspect", "--images", "images", "--json", "tools:1").stdout)


def daemon(*options, **more):
    return Daemon("--images", os.path.abspath("images"), *options, **more)


def warm(frames, *languages, image="tools:1", **params):
    """{language: it was started by this request}."""
    answer = frames.call("image.warm", image=image, languages=list(languages), **params)
    equal(answer["idleMs"], IDLE)
    assert all(one["memoryBytes"] > 0 for one in answer["interpreters"]), answer
    return {one["language"]: one["isNew"] for one in answer["interpreters"]}


def test_runs_are_forked_from_it():
    """The answer comes when it is ready, and until it ends the image is in use."""
    record = store(make_image())
    with daemon("--image-changes", "owner") as d, d.frames() as frames, Http(d.connect()) as http:
        equal(warm(frames, "py", "bash"), {"python": True, "bash": True})
        equal(warm(frames, "python"), {"python": False})
        equal(frames.call("call", image="tools:1", **MARKER)["result"], "image")
        users = frames.refused("image.delete", image="tools:1").message
        assert users.count("warm interpreter of python") == 1 and users.count("warm interpreter of") == 2, users
        assert cli("image", "prune", "--keep-bytes", "0", "--images", "images").stdout.endswith(b"; 1 in use\n")
        finished = cli("image", "rm", "--images", "images", "tools:1")
        assert finished.code == 2 and b"in use" in finished.stderr, finished
        status, answer = http.request("POST", "/v1/images/tools:1/warm", body={"languages": ["python"]})
        equal((status, [one["isNew"] for one in answer["interpreters"]]), (200, [False]))
        equal(http.request("POST", "/v1/images/tools:1/warm", body={})[0], 400)
        frames.call("call", image=record["tree"], warm=True, **MARKER)  # of a digest, without the settings of the name
        equal(warm(frames, "python", image=record["tree"]), {"python": False})
        settings = {"env": {"A": "1"}}
        equal(warm(frames, "python", image=record["tree"], imageSettings=settings), {"python": True}, "other variables are another interpreter's")
        code = {"language": "python", "code": "import os\ndef f(): return os.environ['A']", "function": "f"}
        equal(frames.call("call", image=record["tree"], imageSettings=settings, **code)["result"], "1")
        equal(warm(frames, "python", image=record["tree"], imageSettings=settings), {"python": False})
        finished = cli("image", "warm", "tools:1", "python", "sh", "--socket", d.path)
        equal((finished.code, finished.stdout), (0, b"python       ready, was so before\nbash         ready, was so before\n"), finished)
        equal(json.loads(cli("image", "warm", "tools:1", "py", "--json", "--socket", d.path).stdout)["idleMs"], IDLE)


def test_reasons():
    """An image without the interpreter is refused with the words of a run; the others of a request stay."""
    record = store(make_shell())
    with daemon() as d, d.frames() as frames:
        of_a_run = frames.refused("call", image="tools:1", language="javascript", code="x", function="f", warm=True)
        error = frames.refused("image.warm", image="tools:1", languages=["javascript"])
        equal((error.name, error.message), (of_a_run.name, of_a_run.message))
        assert "the image has no interpreter for javascript" in error.message, error
        error = frames.refused("image.warm", image="tools:1", languages=["ruby", "bash"])
        assert error.name == "missing_runtime" and error.message.startswith("ruby: the image has no interpreter for ruby"), error
        assert error.message.endswith(" (ready: bash)"), error
        equal(warm(frames, "bash"), {"bash": False})
        for params, name, word in (({"languages": []}, "invalid_argument", "expected 1 to"), ({"languages": ["bash"] * 100}, "invalid_argument", "100 names"),
                                   ({"languages": ["bash", "cobol"]}, "unknown_language", "cobol"), ({"languages": ["perl"]}, "invalid_argument", "perl cannot be forked"),
                                   ({"languages": ["bash"], "image": "tols"}, "not_found", "did you mean 'tools:1'"), ({"languages": ["bash"], "image": ""}, "invalid_argument", "image"),
                                   ({"languages": ["bash"], "image": "sha256-" + "0" * 64}, "not_found", "no image"), ({"languages": "bash"}, "invalid_argument", "languages"),
                                   ({"languages": ["bash"], "image": record["tree"], "imageSettings": {"env": {"HOME": "/"}}}, "invalid_argument", "HOME")):
            error = frames.refused("image.warm", **{"image": "tools:1", **params})
            assert (error.name, word in error.message) == (name, True), (params, error.name, error.message)
        finished = cli("image", "warm", "tools:1", "ruby", "--socket", d.path)
        assert finished.code != 0 and finished.stdout == b"" and b"the image has no interpreter for ruby" in finished.stderr, finished
    with Daemon("--images", "") as d, d.frames() as frames:
        assert "no image store" in frames.refused("image.warm", image="tools:1", languages=["bash"]).message


def test_interpreters_are_their_callers():
    """Forks of one interpreter share addresses and seeds, so no caller warms one for another."""
    store(make_shell())
    with daemon(tcp=True) as d, d.frames() as owner, Frames(d.connect_tcp(), token=d.token) as other:
        equal(warm(other, "bash"), {"bash": True})
        equal(warm(owner, "bash"), {"bash": True})
        equal(warm(other, "bash"), {"bash": False})


def test_a_client_that_leaves():
    """The interpreter of a request that was cancelled, or whose client left, is ready for the next one."""
    store(make_shell())
    with daemon() as d, d.frames() as frames:
        leaving = d.frames()
        leaving.ask("image.warm", image="tools:1", languages=["bash"])
        leaving.close()
        number = frames.ask("image.warm", image="tools:1", languages=["ruby", "bash"], imageSettings={})
        cancelled = frames.call("cancel", id=number)["found"]
        try:
            frames.wait(number)
            raise AssertionError("there is no ruby")
        except Failed as e:
            equal(e.name, "cancelled" if cancelled else "missing_runtime")
        warm(frames, "bash")
        equal(warm(frames, "bash"), {"bash": False})


def test_one_caller_has_a_share():
    """Beyond --max-warm the interpreter ends that was not used for longest; neither another caller's nor one in use."""
    store(make_shell())
    with daemon("--max-warm", "3", tcp=True) as d, d.frames() as owner, Frames(d.connect_tcp(), token=d.token) as other:
        equal(warm(other, "bash"), {"bash": True})
        kept = owner.call("prefix.create", image="tools:1", language="bash", code="A=kept")["prefix"]
        settings = [{"env": {"A": str(number)}} for number in range(6)]
        for one in settings:
            equal(warm(owner, "bash", imageSettings=one), {"bash": True})
        for one in settings[:2:-1]:
            equal(warm(owner, "bash", imageSettings=one), {"bash": False}, one)
        equal(warm(owner, "bash", imageSettings=settings[0]), {"bash": True}, "it had to go")
        equal(warm(other, "bash"), {"bash": False})
        equal(owner.call("script", prefix=kept, language="bash", code="echo $A")["stdout"], "kept\n")


def test_contexts_outlive_their_set_up():
    """A set-up of contexts has its place among the caller's interpreters."""
    store(make_shell())
    with daemon("--max-warm", "1") as d, d.frames() as frames:
        for turn in range(2):
            for number in range(3):
                sandbox, settings = f"s{number}", {"env": {"A": str(number)}}
                if turn == 0:
                    frames.call("sandbox.create", sandbox=sandbox, image="tools:1", imageSettings=settings)
                frames.call("context.create", sandbox=sandbox, context=f"c{turn}", language="bash")
                for context in [f"c{before}" for before in range(turn + 1)]:
                    equal(frames.call("context.run", sandbox=sandbox, context=context, code="echo $A")["stdout"], f"{number}\n")
