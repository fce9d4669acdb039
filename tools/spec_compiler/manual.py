"""Write the limits' options in man/cloche.1, between lines that name this program."""
import os

from .limits import ARGUMENTS
from .tables import SOURCE, TableError

PAGE = "man/cloche.1"
BEGIN, END = '.\\" tools/spec writes these lines: ', '.\\" tools/spec: end\n'


def run_limits(rows):
    return "".join(f".It Fl -{row['option'][2:]} Ar {ARGUMENTS[row['argument']]}\n{row['help'][0].upper()}{row['help'][1:]}.\n"
                   for row in rows if row["argument"] != "NONE")


def sandbox_limits(rows):
    options = [f"Fl -{row['option'][2:]}" for row in rows if row["scope"] == "BOX" and row["argument"] != "NONE"]
    return f".It {' , '.join(options)}\n"


def replaced(page, name, text):
    begin = f"{BEGIN}{name}\n"
    before, found, rest = page.partition(begin)
    _, end, after = rest.partition(END)
    if not found or not end:
        raise TableError(f"{PAGE} has no lines {begin.strip()!r} and {END.strip()!r}")
    return before + begin + text + END + after


def files(tables):
    with open(os.path.join(SOURCE, PAGE), encoding="utf-8") as file:
        page = file.read()
    page = replaced(page, "limits", run_limits(tables["CLOCHE_LIMIT"]))
    return {PAGE: replaced(page, "limits of sandboxes", sandbox_limits(tables["CLOCHE_LIMIT"]))}
