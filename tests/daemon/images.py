"""Images of a daemon's boxes."""
import os
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from rpc import Daemon
from images import ETC, fill_etc, make_image
from cloche import equal

ETC_RUN = {"language": "python", "code": ETC, "function": "f"}


def test_an_etc_of_ten_thousand_entries_in_forked_runs_and_sandboxes():
    image = make_image()
    expected = fill_etc(image)
    with Daemon("--image", image) as daemon, daemon.frames() as frames:
        for _ in range(2):
            equal(frames.call("call", **ETC_RUN)["result"], expected)
        frames.call("sandbox.create", sandbox="s")
        said = frames.call("exec", sandbox="s", command="set -- /etc/*; echo $#; read a < /etc/hostname; echo $a; read a < /etc/file-77; echo $a")
        equal(said["stdout"].split(), ["10009", "cloche", "77"])
