"""Packages that are installed while a context lives. Its interpreter began before its environment, before the user's directory of
packages, and perhaps before the one in which root installs."""
import importlib
import importlib.machinery
import os
import site
import sys


class Packages:
    """Extends sys.path like the start of an interpreter. As the last finder of modules it looks again before an import
    fails: programs of the same cell may have installed the module."""

    def __init__(self):
        paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[1:1] = [path for path in paths if path not in sys.path]
        site.USER_SITE = site.USER_BASE = None  # of the template's home
        self.user = site.getusersitepackages()
        self.places = [self.user, *site.getsitepackages()]
        self.seen = {place: stamp_of(place) for place in self.places if place in sys.path and place != self.user}
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path, target) if self.look() else None

    def look(self):
        """Add the places of packages, and what their .pth files name; again when something was installed, which is the result."""
        changed = [place for place in self.places if self.is_new(place)]
        for place in changed:
            self.add(place)
        if changed:
            importlib.invalidate_caches()
        return bool(changed)

    def is_new(self, place):
        stamp = stamp_of(place)
        if stamp is None or stamp == self.seen.get(place):
            return False
        self.seen[place] = stamp
        return True

    def add(self, place):
        """The user's comes before the image's, and each other one where an interpreter that starts now has it."""
        count = len(sys.path)
        site.addsitedir(place)
        added, sys.path[count:] = sys.path[count:], []
        later = self.places[self.places.index(place) + 1:]
        own = [i for i, path in enumerate(sys.path) if path in later or place == self.user and is_of_packages(path) and path != place]
        at = own[0] if own else len(sys.path)
        sys.path[at:at] = added


def is_of_packages(path):
    return type(path) is str and path.endswith(("site-packages", "dist-packages"))


def stamp_of(place):
    try:
        return os.stat(place).st_mtime_ns
    except OSError:
        return None
