"""The tables of spec/*.def, as tools/spec reads them."""
import functools
import json
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[3]


@functools.cache
def spec_tables():
    """Return lists of rows, dicts by column, by the name of their macro."""
    return json.loads(subprocess.run([sys.executable, str(SOURCE / "tools/spec"), "--json"], capture_output=True, check=True).stdout)
