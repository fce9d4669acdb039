"""The file system below the daemon has no more files, or no more bytes: operations that need one
fail by name and leave nothing behind, and all others go on."""
import os

from disk import Disk
from hostile_sandboxes import Box, Daemon, Failed

FULL = "No space left on device"
C_TWICE = {"language": "c", "code": "int twice(int n) { return 2 * n; }", "args": [21]}
FILES, BYTES = ((Disk.fill_files, Disk.empty_files), (Disk.fill, Disk.free))


def begin(frames):
    """One that runs, one that is saved."""
    box = Box(frames, "runs")
    box.run("echo precious > f")
    box.call("port.expose", port=8000, token="first")
    for command in (dict(method="exec", command="echo saved > f"), dict(method="sandbox.stop")):
        frames.call(command.pop("method"), sandbox="rests", **command)
    return box


def kept_names(disk):
    return sorted(os.listdir(os.path.join(disk.path, "state", "0")))


def check_refused(frames, disk, box):
    exposed = box.call("port.list")["exposed"]
    for method, params in (("sandbox.create", {"sandbox": "new"}), ("sandbox.create", {"sandbox": "new", "env": {"A": "b"}}), ("exec", {"sandbox": "new", "command": "true"}),
                           ("file.write", {"sandbox": "new", "path": "f", "content": "x"}), ("sandbox.save", {"sandbox": "runs"}), ("sandbox.stop", {"sandbox": "runs"})):
        error = frames.refused(method, **params)
        assert error.name == "resource" and FULL in error.message and params["sandbox"] in error.message, (method, error.name, error.message)
    for port, token in ((8000, "other"), (8001, "another")):
        error = box.refused("port.expose", port=port, token=token)
        assert error.name == "resource" and FULL in error.message, error.message
    assert box.call("port.list")["exposed"] == exposed, "it is not exposed without having been written down"
    assert sorted(row["sandbox"] for row in frames.call("sandbox.list")["sandboxes"]) == kept_names(disk) == ["rests", "runs"]


def check_served(frames, box):
    """Operations without disk space. Compiled code that cannot be stored runs all the same."""
    assert frames.call("call", language="python", code="return 6 * 7")["result"] == 42
    assert frames.call("call", language="python", code="open('f', 'w').write('x')\nreturn 6 * 7", warm=False)["result"] == 42
    assert frames.call("call", **C_TWICE)["result"] == 42
    assert box.says("cat f") == b"precious\n"
    box.is_well()
    assert frames.call("exec", sandbox="rests", command="cat f")["stdout"] == "saved\n", "what is saved is read"


def check_output(box):
    """If output exceeds the daemon's memory buffer, the part before the disk was full is sent, and the total size."""
    size = 12 << 20
    box.call("process.start", process="loud", command=f"head -c {size} /dev/zero | tr '\\0' x; echo done >&2")
    box.call("process.wait", process="loud")
    logs = box.call("process.logs", process="loud")
    assert logs["stdoutTotal"] == size and logs["stderr"] == "done\n", logs
    assert box.bytes(logs["stdout"]).strip(b"x") == b"" and 0 < logs["stdoutNext"] < size, logs


def exhaust(fill, empty, **disk_options):
    with Disk(**disk_options) as disk:
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            box = begin(frames)
            fill(disk)
            check_refused(frames, disk, box)
            check_served(frames, box)
            check_output(box)
            check_refused(frames, disk, box)
            empty(disk)
            frames.call("exec", sandbox="new", command="echo new > f")  # the twins
            assert box.call("port.expose", port=8000, token="other")["token"] == "other"
            box.call("sandbox.save")
            box.is_well()
            assert daemon.stop() == 0
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            assert [frames.call("exec", sandbox=name, command="cat f")["stdout"] for name in ("runs", "rests", "new")] == ["precious\n", "saved\n", "new\n"]


def test_no_more_files():
    exhaust(*FILES, files=300)


def test_no_more_bytes():
    exhaust(*BYTES)


def test_sandboxes_until_there_are_no_more_files():
    """A caller makes one after the other. Each confirmed one exists, also after a restart; the next
    one is an error, and a deleted one makes room."""
    with Disk(files=60) as disk:
        made = []
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            while len(made) < 60:
                name = f"box{len(made)}"
                try:
                    frames.call("exec", sandbox=name, command=f"echo {name} > f")
                    made.append(name)
                    frames.call("sandbox.stop", sandbox=name)
                except Failed as error:
                    assert error.name == "resource" and FULL in error.message, error.message
                    break
            assert 10 < len(made) < 60, made
            assert kept_names(disk) == sorted(made)
            assert frames.call("exec", sandbox=made[0], command="cat f")["stdout"] == f"{made[0]}\n"
            frames.call("sandbox.delete", sandbox=made.pop(0))
            frames.call("sandbox.stop", sandbox=made[-1])
            assert frames.call("sandbox.list")
            assert daemon.stop() == 0
        with Daemon(*disk.options) as daemon, daemon.frames() as frames:
            assert [row["sandbox"] for row in sorted(frames.call("sandbox.list")["sandboxes"], key=lambda row: int(row["sandbox"][3:]))] == made
            for name in (made[0], made[-1]):
                assert frames.call("exec", sandbox=name, command="cat f")["stdout"] == f"{name}\n"
