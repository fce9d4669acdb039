"""python3 precompile.py [FOLDER] [--stamp FILE]: flat .pyc files for this interpreter beside the agent's parts (see agent.py)."""
import pathlib
import py_compile
import sys


def main(folder):
    for source in folder.glob("*.py"):
        target = source.with_name("%s.%s.pyc" % (source.stem, sys.implementation.cache_tag))
        # Bound to the source by its hash: a copy into a box changes times.
        py_compile.compile(str(source), str(target), dfile="/run/cloche/" + source.name, doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


if __name__ == "__main__":
    words = sys.argv[1:]
    stamp = words.pop(words.index("--stamp") + 1) if "--stamp" in words else None
    folders = [word for word in words if word != "--stamp"]
    main(pathlib.Path(folders[0]) if folders else pathlib.Path(__file__).resolve().parent)
    if stamp:
        pathlib.Path(stamp).touch()
