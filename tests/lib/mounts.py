"""Helpers for tests of mounted directories: a tree of the host, and code that works in it. Standard library only."""
import json
import os
import textwrap

import cloche

EVERYTHING = {"read": True, "list": True, "create": True, "modify": True, "delete": True}
PYTHON_PRELUDE = '''
import errno, mmap, os, stat, sys
def attempt(function, *arguments, **keywords):
    """ "ok", or the name of the errno of the OSError it raised."""
    try:
        function(*arguments, **keywords)
        return "ok"
    except OSError as e:
        return errno.errorcode.get(e.errno, str(e))

def put(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)

def get(path):
    with open(path, "rb") as file:
        return file.read().decode(errors="surrogateescape")
'''


def make(tree, root="host"):
    """{"a": b"…" or "…", "dir/": None, "link": ("to",)} -> the directory's absolute path."""
    os.makedirs(root, exist_ok=True)
    for name, what in tree.items():
        path = os.path.join(root, name)
        if what is None:
            os.makedirs(path, exist_ok=True)
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if isinstance(what, tuple):
            if not os.path.islink(path):
                os.symlink(what[0], path)
        else:
            with open(path, "wb") as file:
                file.write(what if isinstance(what, bytes) else what.encode())
    return os.path.abspath(root)


def tree(root="host"):
    """The present tree in the form of make(); contents of files as bytes."""
    found, root = {}, os.fsencode(root)
    for directory, directories, files in os.walk(root):
        for name in directories + files:
            path = os.path.join(directory, name)
            key = os.fsdecode(os.path.relpath(path, root))
            if os.path.islink(path):
                found[key] = (os.fsdecode(os.readlink(path)),)
            elif name in directories:
                found[key + "/"] = None
            else:
                with open(path, "rb") as file:
                    found[key] = file.read()
    return found


def rules(content, name="rules.json"):
    """A file of rules -> its path."""
    return cloche.write_file(name, content if isinstance(content, (str, bytes)) else json.dumps(content))


def allow(**rights):
    """Rules with a default only; other operations are denied."""
    return rules({"default": {**dict.fromkeys(EVERYTHING, False), **rights}})


def at(target="/data", source="host", rules=None):
    return f"{target}={source}" + (f":{rules}" if rules else "")


def call(body, mount=None, **options):
    """body as a Python function with the prelude above -> Result."""
    code = PYTHON_PRELUDE + "def f(*args):\n" + textwrap.indent(textwrap.dedent(body), "    ")
    return cloche.call("python", code, "f", mount=mount or at(), **options)


def value_of(body, mount=None, **options):
    result = call(body, mount, **options)
    assert result.status == "success", result
    assert not (result.raw.get("sync") or {}).get("error"), result
    return result.value


def bash(code, mount=None, **options):
    return cloche.run("bash", code, mount=mount or at(), **options)


def state(directory="state"):
    """The directory for kept changes in this test."""
    os.environ["XDG_STATE_HOME"] = os.path.abspath(directory)
    return os.environ["XDG_STATE_HOME"]
