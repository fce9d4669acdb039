"""Start and ready commands of images: they run in each sandbox of the image, whose creation waits; those of sandboxes made ahead belong to one caller."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from images import make_store, users_of
from rpc import Daemon, Frames
from cloche import equal, possible_layers, wait_for

STAYS = "exec 9<> <(:); read -t 1000 -u 9"
SERVICE = f"echo out; echo told >&2; echo $UID $A $PWD > /tmp/up; {STAYS}"
UP = {"start": SERVICE, "ready": "[ -e /tmp/up ]"}
SETTINGS = {"env": {"A": "stated"}, "workingDirectory": "/tmp"}


def shell(frames, sandbox, command):
    return frames.call("exec", sandbox=sandbox, command=command)["stdout"]


def create(frames, sandbox, image, startup, **options):
    return frames.call("sandbox.create", sandbox=sandbox, image=image, imageSettings={**SETTINGS, "startup": startup}, **options)


def refused(frames, image, startup, **options):
    return frames.refused("sandbox.create", sandbox="bad", image=image, imageSettings={**SETTINGS, "startup": startup}, **options)


def test_life():
    """The process is there when the sandbox is, is no reason to go on running, and starts again with it, also in a fork and from a snapshot."""
    store, (image,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        equal(create(frames, "s", image, UP)["created"], True)
        equal(shell(frames, "s", "echo $(</tmp/up)"), "1000 stated /tmp\n")
        (process,) = frames.call("process.list", sandbox="s")["processes"]
        equal((process["process"], process["status"]), ("image-start", "running"))
        logs = frames.call("process.logs", sandbox="s", process="image-start")
        equal((logs["stdout"], logs["stderr"]), ("out\n", "told\n"))
        # a look that makes no use of it is no reason to run
        frames.call("sandbox.update", sandbox="s", idleMs=1)
        wait_for(lambda: frames.call("sandbox.get", sandbox="s")["state"] == "stopped", "the idle sandbox")
        frames.call("sandbox.update", sandbox="s", idleMs=0)
        equal(frames.call("process.list", sandbox="s")["processes"], [])
        equal(shell(frames, "s", "echo $(</tmp/up)"), "1000 stated /tmp\n")
        # a paused one goes on
        frames.call("sandbox.pause", sandbox="s")
        equal(frames.call("sandbox.resume", sandbox="s")["state"], "running")
        equal(len(frames.call("process.list", sandbox="s")["processes"]), 1)
        equal(frames.call("sandbox.fork", sandbox="s", names=["forked"])["omitted"], [])
        frames.call("sandbox.snapshot", sandbox="s", snapshot="kept")
        frames.call("sandbox.create", sandbox="snapped", snapshot="kept")
        for name in ("forked", "snapped"):
            equal([row["process"] for row in frames.call("process.list", sandbox=name)["processes"]], ["image-start"], name)
        # the twin without commands, and those that leave a daemon and end
        frames.call("sandbox.create", sandbox="plain", image=image, imageSettings=SETTINGS)
        equal(frames.call("process.list", sandbox="plain")["processes"], [])
        create(frames, "ended", image, {"start": f"({STAYS}) & echo begun > /tmp/begun", "ready": "[ -e /tmp/begun ]"})
        create(frames, "only", image, {"ready": "[ ! -e /tmp/tried ] && echo > /tmp/tried; [ -e /tmp/tried ]"})
        equal(shell(frames, "only", "[ -e /tmp/tried ] && echo tried"), "tried\n")
        # npm's file of authorities would take those of NODE_EXTRA_CA_CERTS from it: the first is there without the second alone, unless the user sets both
        own = "/etc/ssl/certs/ca-certificates.crt"
        for env, expected in (({}, own), ({"NODE_EXTRA_CA_CERTS": "/x"}, ""), ({"NODE_EXTRA_CA_CERTS": "/x", "NPM_CONFIG_CAFILE": "/y"}, "/y")):
            frames.call("session.create", sandbox="plain", session=f"npm{len(env)}", env=env)
            equal(frames.call("exec", sandbox="plain", session=f"npm{len(env)}", command="echo $NPM_CONFIG_CAFILE")["stdout"], expected + "\n")
            # the same by the command's own variables, in the shell and without one; the session has its own again
            equal(frames.call("exec", sandbox="plain", command="echo $NPM_CONFIG_CAFILE", env=env)["stdout"], expected + "\n")
            frames.call("process.start", sandbox="plain", process=f"npm{len(env)}", command="echo $NPM_CONFIG_CAFILE", env=env)
            frames.call("process.wait", sandbox="plain", process=f"npm{len(env)}")
            equal(frames.call("process.logs", sandbox="plain", process=f"npm{len(env)}")["stdout"], expected + "\n")
            equal(shell(frames, "plain", "echo $NPM_CONFIG_CAFILE"), own + "\n")
        # the user of the image, also where commands are root
        settings = {"startup": {"start": f"echo $UID $GROUPS > /tmp/up; {STAYS}", "ready": "[ $UID = 33 ] && [ -s /tmp/up ]"}, "runsAs": {"uid": 33, "gid": 34, "name": "web", "home": "/home/web"}}
        for name, options in (("user", {}), ("root", {"root": True})) if possible_layers() else (("user", {}),):
            frames.call("sandbox.create", sandbox=name, image=image, imageSettings=settings, **options)
            equal(shell(frames, name, "echo $(</tmp/up) $UID"), f"33 34 {0 if options else 33}\n")


def test_commands_of_a_sandbox():
    """They take the place of those of its image or snapshot, also without an image, and come back with it."""
    store, (image,) = make_store(1)
    own = {"start": f"echo own > /tmp/up; {STAYS}", "ready": "[ -e /tmp/up ]"}
    with Daemon("--images", store) as daemon:
        with daemon.frames() as frames:
            settings = {**SETTINGS, "startup": UP}
            frames.call("sandbox.create", sandbox="image", image=image, imageSettings=settings, startup=own)
            frames.call("sandbox.create", sandbox="plain", startup=own)
            frames.call("sandbox.snapshot", sandbox="plain", snapshot="kept")
            frames.call("sandbox.fork", sandbox="plain", names=["fork"])
            frames.call("sandbox.create", sandbox="same", snapshot="kept")
            frames.call("sandbox.create", sandbox="none", snapshot="kept", startup={})
            frames.call("sandbox.create", sandbox="never", image=image, imageSettings=settings, startup={})
            error = frames.refused("sandbox.create", sandbox="bad", startup={"start": ""})
            assert error.name == "invalid_argument" and "start must be text" in error.message, error
            error = frames.refused("sandbox.create", sandbox="bad", snapshot="kept", startup={"start": "echo why; exit 3", "ready": "[ -e /never ]"})
            equal((error.name, error.data["output"]), ("process_ended", "why\n"))
            names = [row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]]
            equal(sorted(names), ["fork", "image", "never", "none", "plain", "same"])
            for name in names:
                frames.call("sandbox.stop", sandbox=name)
        os.kill(daemon.engine_pid(), 9)
        with daemon.frames() as frames:
            for name in names:
                shell(frames, name, "true")
                started = [row["process"] for row in frames.call("process.list", sandbox=name)["processes"]]
                equal((name, started), (name, [] if name in ("none", "never") else ["image-start"]))
            equal(shell(frames, "image", "echo $(</tmp/up)"), "own\n")


def test_failures():
    """A new sandbox whose commands fail is none; one that was saved runs, and its description has the reason."""
    store, (image,) = make_store(1)
    with Daemon("--images", store) as daemon, daemon.frames() as frames:
        error = refused(frames, image, {"start": "echo begins; echo no such port >&2; exit 3", "ready": "[ -e /never ]"})
        equal((error.name, error.message, error.data["output"]),
              ("process_ended", "the image's start command ended with status 3 before its ready command succeeded: no such port", "no such port\n"))
        error = refused(frames, image, {"ready": "echo tried; exit 4", "readyMs": 3000})
        equal((error.name, error.message), ("timeout", "the image's ready command did not succeed within 3000 ms (status 4): tried"))
        error = refused(frames, image, {"start": SERVICE, "ready": "while :; do :; done", "readyMs": 100})
        equal(error.name, "timeout")
        error = refused(frames, image, {"start": "printf '%6000s|\\n' x >&2; printf '%0200d\\n' 7 >&2; exit 1", "ready": "[ -e /never ]"})
        assert error.data["output"] == "0" * 199 + "7\n" and error.message.endswith("succeeded"), error.data
        error = refused(frames, image, {"start": "printf '\\377\\376\\n'; exit 1", "ready": "[ -e /never ]"})
        equal(error.message, "the image's start command ended with status 1 before its ready command succeeded")
        error = refused(frames, image, {"start": "until [ -e /tmp/again ]; do :; done; echo no such port; exit 3", "ready": "[ -e /tmp/tried ] && echo > /tmp/again; echo > /tmp/tried; echo not yet; exit 1"})
        assert error.message.endswith("succeeded: no such port"), error.message
        error = refused(frames, image, {"start": STAYS, "ready": "kill -9 -1"})
        equal((error.name, error.message), ("process_ended", "the image's start command ended with status 137 before its ready command succeeded"))
        equal(frames.call("sandbox.list")["sandboxes"], [])
        # the same names are free
        breakable = {"start": SERVICE, "ready": "[ ! -e /workspace/broken ]", "readyMs": 3000}
        create(frames, "bad", image, breakable)
        shell(frames, "bad", "echo > /workspace/broken")
        frames.call("sandbox.stop", sandbox="bad")
        equal(shell(frames, "bad", "[ -e /workspace/broken ] && echo reached"), "reached\n")
        assert "did not succeed within 3000 ms" in frames.call("sandbox.get", sandbox="bad")["startupError"]
        assert "startupError" not in create(frames, "good", image, breakable)
        for startup, says in (({"start": ""}, "start must be text"), ({"start": "a\0b"}, "start must be text"), ({"x": "y"}, "unknown field 'x'"), ("text", "must be an object"),
                              ({"ready": "true", "readyMs": 0}, "1 to 600000"), ({"ready": "x" * 20000}, "16384 bytes")):
            error = refused(frames, image, startup)
            assert error.name == "invalid_argument" and says in error.message, error.message


def test_made_ahead():
    """The start command of a pooled sandbox ran before the request that gets it. No other caller gets one, and neither does one whose command failed since."""
    store, (image,) = make_store(1)
    tree = f"{store}/trees/{image}"
    with Daemon("--images", store, tcp=True) as daemon, daemon.frames() as frames, Frames(daemon.connect_tcp(), token=daemon.token) as other:
        def is_ahead(asker, name, startup=UP):
            """True if its process is older than the request."""
            before = max((row["createdAt"] for row in asker.call("sandbox.list")["sandboxes"]), default="")
            create(asker, name, image, startup)
            described = asker.call("sandbox.get", sandbox=name)
            (process,) = asker.call("process.list", sandbox=name)["processes"]
            assert described["createdAt"] > before
            return process["startedAt"] < described["createdAt"]
        equal([is_ahead(frames, name) for name in "ab"], [False, False])
        wait_for(lambda: users_of(tree) == 4, "the pool")
        equal([is_ahead(other, name) for name in "ab"], [False, False])
        wait_for(lambda: users_of(tree) == 6, "the other caller's")
        equal(is_ahead(other, "c"), True)  # the second is made when the first is ready
        equal(shell(other, "c", "echo $(</tmp/up)"), "1000 stated /tmp\n")
        equal(other.call("process.logs", sandbox="c", process="image-start")["stdout"], "out\n")
        # They end with their service, and the next request makes new ones.
        brief = {"start": "echo > /tmp/up; exec 9<> <(:); read -t 1 -u 9; exit 5", "ready": "[ -e /tmp/up ]"}
        for name in "xy":
            create(frames, name, image, brief)
        wait_for(lambda: users_of(tree) > 7, "one made ahead")
        wait_for(lambda: users_of(tree) == 7, "its end")
        logs = frames.call("sandbox.logs", sandbox="x")
        assert "the image's start command ended with status 5" in str(logs), logs
