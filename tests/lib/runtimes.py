"""The runtimes of a build for tests that need no template as users have it."""
import glob
import json
import os
import re
import shutil
import subprocess

REHEARSED = re.compile(r"^( *|const )(REHEARSALS|EVALUATIONS|COMPILINGS) = \d+", re.M)  # in files of javascript, typescript, ruby and python
TIMES = {"REHEARSALS": 1, "EVALUATIONS": 1, "COMPILINGS": 0}
WARM = re.compile(r'^(WARM = \()"asyncio", ', re.M)  # in python/template.py
# IPython imports its terminal, with prompt_toolkit and jedi, only to offer the name `embed`.
NOTEBOOK = """
def without_terminal():
    import sys
    import types
    embed = sys.modules["IPython.terminal.embed"] = types.ModuleType("IPython.terminal.embed")
    embed.embed = None
    try:
        import IPython
    except ModuleNotFoundError:
        pass
    del sys.modules["IPython.terminal.embed"]


without_terminal()
del without_terminal
__cloche_notebook__ = True
"""


def rewrite(path, pattern, replacement):
    """True if the file had something to replace."""
    with open(path, encoding="utf-8") as file:
        code = file.read()
    code, count = pattern.subn(replacement, code)
    if count:
        with open(path, "w", encoding="utf-8") as file:
            file.write(code)
    return count > 0


def make_bare(build, target):
    """Copy the runtimes, but their templates are made of less. With CLOCHE_TEST_ALL=1 they are as
    shipped. Processor time that this saves: set-ups of Python's contexts import no packages (1.4 s a
    daemon) and no terminal of IPython (0.3 s), its templates no asyncio (60 ms); those of JavaScript
    and TypeScript rehearse once (0.3 and 1.4 s). Return the path."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(os.path.join(build, "runtimes"), target)
    if os.environ.get("CLOCHE_TEST_ALL") == "1":
        return target
    with open(os.path.join(target, "python/notebook.py"), "w") as file:
        file.write(NOTEBOOK)
    changed = {f"{target}/python"}
    for path in [path for kind in ("cjs", "rb", "py") for path in glob.glob(f"{target}/*/*.{kind}")]:
        if rewrite(path, REHEARSED, lambda constant: f"{constant[1]}{constant[2]} = {TIMES[constant[2]]}"):
            changed.add(os.path.dirname(path))
    assert rewrite(f"{target}/python/template.py", WARM, r"\1"), "WARM of Python's template begins otherwise"
    # Compiled code is that of the old source: each start of an agent would compile it again.
    for folder in changed:
        with open(f"{folder}/manifest.json", encoding="utf-8") as file:
            command = json.load(file).get("precompile")
        if command:
            subprocess.run(command, cwd=folder, check=True)
    return target
