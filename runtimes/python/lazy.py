"""IPython without what cells do not use. Its terminal (prompt_toolkit) and jedi take 0.2 of the 0.3 s of processor
time of `import IPython` and a shell; here they are loaded by the first code that names them."""
import sys
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

EMBED, COMPLETER = "IPython.terminal.embed", "IPython.core.completer"
JEDI = ("jedi", "jedi.api", "jedi.api.helpers", "jedi.api.classes")


def import_ipython():
    if "IPython" not in sys.modules:
        import_without({EMBED: SimpleNamespace(embed=None)}, "IPython")
        load_terminal_later()
    if not any(name in sys.modules for name in (COMPLETER, *JEDI)) and find_spec("jedi") is not None:
        later = ModuleType("jedi")
        later.settings = SimpleNamespace()
        import_without(dict.fromkeys(JEDI, later), COMPLETER)
        load_jedi_later(sys.modules[COMPLETER], later)
    return sys.modules["IPython"]


def import_without(others, name):
    """others: name → object that this import gets for it. Later imports get the real one."""
    sys.modules.update(others)
    try:
        import_module(name)
    finally:
        for other, known in others.items():
            if sys.modules.get(other) is known:
                del sys.modules[other]


def load_terminal_later():
    ipython = sys.modules["IPython"]
    if vars(ipython).get("embed", ipython) is not None or "__getattr__" in vars(ipython):
        return  # a version that does not import it

    def __getattr__(name):
        if name not in ("embed", "terminal"):
            raise AttributeError("module 'IPython' has no attribute %r" % name)
        ipython.embed = import_module(EMBED).embed
        del ipython.__getattr__
        return vars(ipython)[name]

    del ipython.embed
    ipython.__getattr__ = __getattr__


def load_jedi_later(completer, later):
    if getattr(completer, "jedi", None) is not later:
        return

    def __getattr__(name):
        if name[:2] == "__":
            raise AttributeError("module 'jedi' has no attribute %r" % name)
        for known in JEDI:
            import_module(known)
        completer.jedi = sys.modules["jedi"]
        return getattr(completer.jedi, name)

    later.__getattr__ = __getattr__
    sys.meta_path.insert(0, Settings(vars(later.settings)))


class Settings:
    """IPython sets some of jedi's settings when it is imported; so jedi gets them by whomever it is imported."""

    def __init__(self, values):
        self.values = values

    def find_spec(self, name, path=None, target=None):
        if name != "jedi.settings":
            return None
        sys.meta_path.remove(self)
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                vars(module).update(self.values)

            spec.loader.exec_module = exec_module
        return spec
