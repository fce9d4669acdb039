"""Packages that are installed while a context lives. Its interpreter is a fork: it began before its environment and before the
user's directory of packages."""
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
        self.place = site.getusersitepackages()
        self.seen = None
        sys.meta_path.append(self)

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.PathFinder.find_spec(name, path, target) if self.look() else None

    def look(self):
        """Add the user's directory, and what its .pth files name, before the image's; again when something was installed, which is the result."""
        try:
            stamp = os.stat(self.place).st_mtime_ns
        except OSError:
            return False
        if stamp == self.seen:
            return False
        self.seen = stamp
        count = len(sys.path)
        site.addsitedir(self.place)
        added, sys.path[count:] = sys.path[count:], []
        own = [i for i, path in enumerate(sys.path) if type(path) is str and path.endswith(("site-packages", "dist-packages")) and path != self.place]
        at = own[0] if own else len(sys.path)
        sys.path[at:at] = added
        importlib.invalidate_caches()
        return True
