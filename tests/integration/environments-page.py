"""The commands of docs/environments.md, in the order of the page, with a store of their own."""
import os
import re
import subprocess

from boxes import daemon
from cloche import BUILD, SOURCE, equal
from image_trees import copy_programs, make_image


def commands():
    with open(os.path.join(SOURCE, "docs/environments.md")) as file:
        return re.findall(r"^    \$ (.+)$", file.read(), re.M)


def placed(line):
    """The command with the test's store and image."""
    line = re.sub(r"cloche image (?!warm)(\w+)", r"cloche image \1 --images images", line.replace("/srv/root", "image"))
    return re.sub(r"--image (\S+)$", r"--image \1 --images images", line)


def run(lines):
    """The output of each; variables of one are there in the next."""
    script = "".join(f"echo '=='; {placed(line)}\n" for line in lines)
    done = subprocess.run(["sh", "-ec", script], stdin=subprocess.DEVNULL, capture_output=True, text=True)
    equal(done.returncode, 0, (done.stdout, done.stderr))
    outputs = done.stdout.removeprefix("==\n").split("==\n")
    equal(len(outputs), len(lines), done.stdout)
    return dict(zip(lines, map(str.strip, outputs)))


def test_commands():
    image = make_image()
    with open(image + "/etc/os-release", "w") as file:
        file.write("NAME=tools\n")
    for name in ("ls", "cat"):
        copy_programs(image, "/usr/bin/" + name)
    os.environ.update(XDG_DATA_HOME=os.path.abspath("data"), PATH=BUILD + ":" + os.environ["PATH"])
    lines = commands()
    ends = [line for line in lines if re.match("cloche image (rm|prune)", line)]  # the page has them before the runs
    with daemon("--images", os.path.abspath("images")):
        said = run([line for line in lines if line not in ends])
    for part, expected in ((" import - tools:1", "tools:1"), ("call python -c 'def f(): return open", '"NAME=tool"'), ("--prefix warm", '"[1]"'), ("exec mine", "NAME=tools")):
        [line] = [line for line in said if part in line]
        equal(said[line], expected, line)
    equal(run(ends)["cloche image prune"], "removed 0 images, 0 trees, 0 unfinished imports; 0 in use")
