"""python3 precompile.py [FOLDER]: flat .pyc files for this interpreter beside the agent's parts (see agent.py).

Compiling the agent's source is two thirds of a cold call's own cost (8 ms of 12)."""
import pathlib
import py_compile
import sys


def main(folder):
    for source in folder.glob("*.py"):
        target = source.with_name("%s.%s.pyc" % (source.stem, sys.implementation.cache_tag))
        # Validated by the hash of the source: a copy into a box changes times.
        py_compile.compile(str(source), str(target), dfile="/run/cloche/" + source.name, doraise=True,
                           invalidation_mode=py_compile.PycInvalidationMode.CHECKED_HASH)


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent)
