"""Write the tables of the Python client."""
import builtins

FAULTS = {"CALLER": "CallerFault", "GUEST": "GuestFault", "HOST": "HostFault", "BUG": "BugFault"}

ERRORS_HEAD = '''"""Every error of Cloche, a class each. Written by tools/spec from spec/errors.def: change that."""
import builtins

from ._base_errors import BugFault, CallerFault, ClocheError, GuestFault, HostFault
'''

ERROR = '''

class {cls}({base}):
    """{doc}"""

    name = "{name}"
    http = {http}
'''

LIMITS_HEAD = '''"""The limits of a run. Written by tools/spec from spec/limits.def: change that."""
from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """A limit that is None has its default; 0: no limit."""

'''

LIMIT = '''    {field}: int | None = None
    """{doc}
    In {unit}, {min} to {max}; {default} by default."""
'''


def class_name(name):
    return "".join(word.capitalize() for word in name.split("_")) + "Error"


def errors(rows):
    out, names = [ERRORS_HEAD], []
    for row in rows:
        names.append(class_name(row["name"]))
        # Where Python has an exception of that name, ours derives from it, so that handlers of that one catch ours.
        base = FAULTS[row["fault"]] + (f", builtins.{names[-1]}" if hasattr(builtins, names[-1]) else "")
        out.append(ERROR.format(cls=names[-1], base=base, doc=row["text"], name=row["name"], http=row["http"]))
    listed = "".join(f"    {name}.name: {name},\n" for name in names)
    out.append(f"\n\nBY_NAME: dict[str, type[ClocheError]] = {{\n{listed}}}\n")
    exported = "".join(f'    "{name}",\n' for name in ["ClocheError", *FAULTS.values(), *names])
    out.append(f"\n__all__ = [\n{exported}]\n")
    return "".join(out)


def limits(rows):
    fields = "".join(LIMIT.format(**row) for row in rows)
    pairs = "".join(f'    "{row["field"]}": "{row["json"]}",\n' for row in rows)
    return f"{LIMITS_HEAD}{fields}\n\nJSON_NAMES = {{\n{pairs}}}\n"


def discovery(tables):
    out = ['"""Places and errors of the search for a daemon. Written by tools/spec from spec/discovery-places.def and discovery-faults.def: change those."""\n']
    out += ["\nINSTALLED = (\n", *(f'    "{row["path"]}",\n' for row in tables["DISCOVERY_INSTALLED"]), ")\n\n"]
    out += [f'{row["symbol"]} = "{row["text"]}"\n' for row in tables["DISCOVERY_FAULT"]]
    return "".join(out)


def files(tables):
    return {"clients/python/cloche/errors.py": errors(tables["CLOCHE_ERROR"]),
            "clients/python/cloche/limits.py": limits(tables["CLOCHE_LIMIT"]),
            "clients/python/cloche/_discovery.py": discovery(tables)}
