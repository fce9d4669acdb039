"""An uninstall removes all installed files."""
import os
import subprocess

from cloche import BUILD, equal, skip

TIMEOUT = 120


def files_below(root):
    return [os.path.join(top, name) for top, _, names in os.walk(root) for name in names]


def test_uninstall_removes_all_that_was_installed():
    if not os.path.exists(os.path.join(BUILD, "build.ninja")):
        skip("needs a build directory")
    env = {**os.environ, "DESTDIR": os.path.abspath("root")}
    subprocess.run(["meson", "install", "--no-rebuild", "-C", BUILD], env=env, stdout=subprocess.DEVNULL, check=True)
    installed = files_below("root")
    assert any(path.endswith("runtimes/python/agent.py") for path in installed) and any(path.endswith("bin/cloche") for path in installed), installed
    subprocess.run(["ninja", "-C", BUILD, "uninstall"], env=env, stdout=subprocess.DEVNULL, check=True)
    equal(files_below("root"), [])
