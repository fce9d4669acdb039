"""The runtimes of a build for tests that need no template as users have it."""
import glob
import json
import os
import re
import shutil
import subprocess

REHEARSED = re.compile(r"^( *|const )(REHEARSALS|EVALUATIONS|COMPILINGS) = \d+", re.M)  # in files of javascript, typescript, ruby and python
TIMES = {"REHEARSALS": 1, "EVALUATIONS": 1, "COMPILINGS": 0}
# Libraries and memory of templates that children find ready: file, pattern, the little that is left.
AHEAD = [("python/template.py", re.compile(r"^WARM = \([^)]*\)", re.M), 'WARM = ("json",)'),
         ("ruby/template.rb", re.compile(r"\b(20|100)_000\b"), "1_000"),
         ("ruby/template.rb", re.compile(r"^( *WARM = %w)\[[^]]*\]", re.M), r"\1[rubygems json]"),
         ("ruby/notebook.rb", re.compile(r"^( *%w)\[[^]]*\](\.each)", re.M), r"\1[json]\2"),
         *((f"{language}/{file}.cjs", re.compile(pattern, re.M), replacement) for language in ("javascript", "typescript") for file, pattern, replacement in (
             ("template", r"^const (MODULES|GLOBALS) = \[[^]]*\]", r"const \1 = []"), ("template", r"^    return fetch\('data:,x'\).*\n", ""),
             ("notebook", r"^await \(async(?:.*\n)*?\}\)\(\)\n", "")))]
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
    daemon) and no terminal of IPython (0.3 s), its templates only json (0.1 s); those of JavaScript
    and TypeScript rehearse once (0.3 and 1.4 s) and load no modules of Node ahead (0.1 s), and those
    of Ruby load none of its library and allocate little (0.25 s). Return the path."""
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
    for file, pattern, replacement in AHEAD:
        assert rewrite(f"{target}/{file}", pattern, replacement), f"{file} prepares its children otherwise"
        changed.add(os.path.dirname(f"{target}/{file}"))
    # Compiled code is that of the old source: each start of an agent would compile it again.
    for folder in changed:
        with open(f"{folder}/manifest.json", encoding="utf-8") as file:
            command = json.load(file).get("precompile")
        if command:
            subprocess.run(command, cwd=folder, check=True)
    return target
