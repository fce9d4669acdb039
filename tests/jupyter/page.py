"""The commands of docs/jupyter.md, in their order, in a directory of their own; and kernelspecs."""
import json
import os
import re
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from cloche import CLI, SOURCE, equal
from front_end import BUILD, HANG, environment
from rpc import Daemon

with open(os.path.join(SOURCE, "docs/jupyter.md")) as page:
    PAGE = page.read()
COMMANDS = [line for line in re.findall(r"^    (\S.+)$", PAGE, re.M) if not re.match("cloched|jupyter notebook", line)]  # gateway.py has the others
NOTEBOOK = {"cells": [{"cell_type": "code", "source": ["open('said', 'w').write('6')\n", "6 * 7"], "metadata": {}, "outputs": [], "execution_count": None}],
            "metadata": {"kernelspec": {"name": "cloche-python", "display_name": "x"}}, "nbformat": 4, "nbformat_minor": 2}


def test_the_commands_of_the_page():
    with tempfile.TemporaryDirectory() as directory, Daemon() as daemon:
        env = {**environment(directory, daemon.path), "JUPYTER_PATH": ""}
        with open(os.path.join(directory, "page.ipynb"), "w") as out:
            json.dump(NOTEBOOK, out)
        with daemon.frames() as frames:
            frames.call("sandbox.create", sandbox="project")
        for line in COMMANDS:
            done = subprocess.run(["sh", "-ec", line.replace("/usr/local", directory + "/usr")], cwd=directory, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG)
            assert done.returncode == 0, (line, done.stdout, done.stderr)
        with open(os.path.join(directory, "page.ipynb")) as result:
            equal(json.load(result)["cells"][0]["outputs"][0]["data"]["text/plain"], ["42"])
        kernels = sorted(os.listdir(os.path.join(directory, "data/kernels")))
        equal(kernels, sorted(["cloche-python-project", *(f"cloche-{language}" for language in ("python", "javascript", "typescript", "ruby", "php", "bash"))]))
        specs = {}
        for name in kernels:
            with open(os.path.join(directory, "data/kernels", name, "kernel.json")) as spec:
                specs[name] = json.load(spec)
        equal(specs["cloche-python"], {"argv": ["cloche-kernel", "-f", "{connection_file}", "--language", "python"], "display_name": "Python 3 (Cloche)", "language": "python",
                                       "interrupt_mode": "message", "metadata": {"debugger": False}})
        equal(specs["cloche-python-project"]["argv"][-2:], ["--sandbox", "project"])
        equal(specs["cloche-ruby"]["argv"][-1], "--forkable")
        shared = os.path.join(directory, "usr/share/jupyter/kernels")
        equal(os.listdir(shared), ["cloche-python"])
        mask = os.umask(0)
        os.umask(mask)
        for path in (shared, os.path.join(shared, "cloche-python")):  # other users read it
            equal(stat.S_IMODE(os.stat(path).st_mode), 0o755 & ~mask)


def test_kernelspecs_that_are_refused():
    with tempfile.TemporaryDirectory() as directory:
        env = environment(directory)
        for words, text in ((["--language", "perl"], "--language must be python"), (["--user", "--prefix", directory], "contradict"), (["--sandbox", "a/b"], "is no name of a sandbox"),
                            (["--prefix", "/dev/null"], "/dev/null")):
            done = subprocess.run([CLI, "jupyter", "install", *words], env=env, capture_output=True, text=True, timeout=HANG)
            assert done.returncode and text in done.stderr and done.stderr.count("\n") == 1, (words, done)
        env["PATH"] = "/usr/bin:/bin"  # without the program: its path is written
        done = subprocess.run([CLI, "jupyter", "install", "--language", "bash", "--user"], env=env, capture_output=True, text=True, timeout=HANG)
        with open(done.stdout.strip()) as spec:
            equal(json.load(spec)["argv"][0], os.path.join(BUILD, "cloche-kernel"))
        done = subprocess.run([CLI, "jupyter", "install", "--language", "bash", "--socket", "d.sock"], env=env, cwd=directory, capture_output=True, text=True, timeout=HANG)
        with open(done.stdout.strip()) as spec:
            equal(json.load(spec)["argv"][-2:], ["--socket", os.path.join(directory, "d.sock")])
