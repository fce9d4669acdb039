"""Cloche's Python agent: answers `call` requests on descriptor 3 (spec/values.md).

This file only loads its parts. They are not imported but executed here, for three reasons: `import values` in
the user's code must find the user's file; the parts need builtins that user code cannot change; and there is no
__pycache__ in a box, so precompiled code is taken from flat `NAME.CACHE_TAG.pyc` files when they fit.
"""
import _imp
import builtins
import marshal
import os
import sys
from _frozen_importlib_external import MAGIC_NUMBER

LEAST = (3, 9)
FOLDER = os.path.dirname(os.path.abspath(__file__))
RAW_MAGIC = int.from_bytes(MAGIC_NUMBER, "little")
PRIVATE_BUILTINS = dict(vars(builtins))


def read(name):
    with open(FOLDER + "/" + name, "rb") as file:
        return file.read()


def cached(name, source):
    try:
        data = read(name + "." + sys.implementation.cache_tag + ".pyc")
    except OSError:
        return None
    if data[:4] != MAGIC_NUMBER or data[8:16] != _imp.source_hash(RAW_MAGIC, source):
        return None
    return marshal.loads(data[16:])


class Part:
    """One file of the agent, read at the start, executed when first asked for: user code may unlink or chdir."""

    def __init__(self, name):
        self.name = name
        self.source = read(name + ".py")
        self.code = cached(name, self.source)
        self.space = None

    def __call__(self):
        if self.space is None:
            code = self.code or compile(self.source, FOLDER + "/" + self.name + ".py", "exec", dont_inherit=True)
            space = {"__name__": "cloche_" + self.name, "__builtins__": PRIVATE_BUILTINS,
                     "FOLDER": FOLDER, "part": part, "LEAST": LEAST}
            exec(code, space)
            self.space = space
        return self.space


PARTS = {name: Part(name) for name in ("wire", "channel", "values", "call", "serve", "evident", "errors", "bridge", "template")}


def part(name):
    """Those of contexts (cells.py and what it asks for) are read when there is one: a cold call must not pay for them."""
    if name not in PARTS:
        PARTS[name] = Part(name)
    return PARTS[name]()


part("serve" if sys.version_info >= LEAST else "old")["main"]()
