"""Packages of npm that tests need: installed once, as a package-lock.json has them, into a directory of the user's; nothing of them is in the tree."""
import fcntl
import hashlib
import os
import shutil
import subprocess


def install(folder):
    """Return the directory with the packages of folder/package.json."""
    with open(os.path.join(folder, "package-lock.json"), "rb") as file:
        version = hashlib.sha256(file.read()).hexdigest()[:12]
    parent = os.path.join(os.path.expanduser("~"), ".cache", "cloche")
    os.makedirs(parent, exist_ok=True)
    place = os.path.join(parent, f"{os.path.basename(folder)}-tests-{version}")
    with open(place + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        if not os.path.exists(os.path.join(place, "done")):
            shutil.rmtree(place, ignore_errors=True)
            os.mkdir(place)
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(folder, name), place)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=place, check=True, stdin=subprocess.DEVNULL)
            open(os.path.join(place, "done"), "w").close()
    return place
