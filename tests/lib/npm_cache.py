"""Packages of npm that tests need, and the compiled TypeScript client: made once for each version of
their sources, in a directory of the user's, as ccache keeps objects of C."""
import contextlib
import fcntl
import glob
import hashlib
import os
import shutil
import subprocess
import sys

KEPT = 10  # of a kind


def version_of(paths):
    """A name for these files as they are now."""
    version = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as file:
            version.update(os.path.basename(path).encode() + b"\0" + hashlib.sha256(file.read()).digest())
    return version.hexdigest()[:12]


@contextlib.contextmanager
def made_once(name):
    """A directory called KIND-VERSION, and False if it is empty and has to be filled. A kind's
    longest unused ones are removed."""
    parent = os.path.join(os.path.expanduser("~"), ".cache", "cloche")
    os.makedirs(parent, exist_ok=True)
    place = os.path.join(parent, name)
    with open(place + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # tests run side by side
        is_done = os.path.exists(os.path.join(place, "done"))
        if not is_done:
            shutil.rmtree(place, ignore_errors=True)
            os.mkdir(place)
        yield place, is_done
        open(os.path.join(place, "done"), "w").close()
        os.utime(place)
    kind = name.rpartition("-")[0]
    for old in sorted(glob.glob(f"{parent}/{kind}-{'[0-9a-f]' * 12}"), key=os.path.getmtime)[:-KEPT]:
        shutil.rmtree(old, ignore_errors=True)


def install(folder):
    """Return the directory with the packages of folder/package.json."""
    with open(os.path.join(folder, "package-lock.json"), "rb") as file:
        version = hashlib.sha256(file.read()).hexdigest()[:12]
    with made_once(f"{os.path.basename(folder)}-tests-{version}") as (place, is_done):
        if not is_done:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(folder, name), place)
            subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--silent"], cwd=place, check=True, stdin=subprocess.DEVNULL)
    return place


def compile_client(folder):
    """Put the compiled client into folder/dist, from sources that passed the checks of their types and
    those of the tests' types; its packages are installed. Both take 12 s of processor time."""
    patterns = ("package*.json", "tsconfig.json", "src/**", "test/types/**", "../../examples/typescript-*.mts")
    paths = sorted(path for pattern in patterns for path in glob.glob(os.path.join(folder, pattern), recursive=True) if os.path.isfile(path))
    with made_once(f"client-{version_of(paths)}") as (place, is_done):
        dist = os.path.join(folder, "dist")
        shutil.rmtree(dist, ignore_errors=True)
        if is_done:
            shutil.copytree(os.path.join(place, "dist"), dist)
            return
        for script in ("build", "types"):
            subprocess.run(["npm", "run", "--silent", script], cwd=folder, check=True, stdin=subprocess.DEVNULL)
        shutil.copytree(dist, os.path.join(place, "dist"))


if __name__ == "__main__":
    compile_client(os.path.abspath(sys.argv[1]))
