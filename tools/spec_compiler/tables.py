"""Read the tables of spec/*.def. A table begins with a comment that names its macros and their columns; C includes the same
files with macros of these names."""
import os
import re

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SPEC = os.path.join(SOURCE, "spec")
COMMENT = re.compile(r'(/\*.*?\*/)|"(?:[^"\\]|\\.)*"', re.S)  # or a text, which may have the same characters
SIGNATURE = re.compile(r"\b([A-Z][A-Z_]+)\(([\w, ]+)\)")
TOKEN = re.compile(r'\s*(?:"((?:[^"\\]|\\.)*)"|([(),])|([^\s"(),]+))')
ESCAPE = re.compile(r'\\(["\\])')  # a table has no other


class TableError(Exception):
    """A table cannot be read; the text names the file and the row."""


def signatures(text):
    """Return the columns of each macro that the comments name."""
    found = {}
    for comment in filter(None, COMMENT.findall(text)):
        for macro, columns in SIGNATURE.findall(comment):
            found.setdefault(macro, [column.strip().lower() for column in columns.split(",")])
    return found


def tokens(text, name):
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if not match:
            raise TableError(f"{name}: not a row: {text[at:at + 60].strip()!r}")
        quoted, mark, word = match.groups()
        yield ("text", ESCAPE.sub(r"\1", quoted)) if quoted is not None else ("mark", mark) if mark else ("word", word)
        at = match.end()


def cells(stream, name):
    """Return the arguments of one row, up to its closing parenthesis. Adjacent strings are one, adjacent words an expression."""
    found, now = [], None
    for kind, value in stream:
        if kind == "mark" and value in ",)":
            if now is None:
                raise TableError(f"{name}: a row has an empty column after {found[-1:]}")
            found.append(now)
            now = None
            if value == ")":
                return found
        elif kind == "mark":
            break
        else:
            now = value if now is None else now + value if kind == "text" else f"{now} {value}"
    raise TableError(f"{name}: a row does not end: {found[:2]}")


def rows_of(name, text):
    """Yield (macro, row) in the order of the file; a row is a dict by column."""
    columns = signatures(text)
    stream = tokens(COMMENT.sub(lambda found: "" if found[1] else found[0], text), name)
    for kind, macro in stream:
        if kind != "word" or macro not in columns or next(stream, None) != ("mark", "("):
            raise TableError(f"{name}: {macro!r} is no macro that the comments of the file describe")
        row = cells(stream, name)
        if len(row) != len(columns[macro]):
            raise TableError(f"{name}: {macro}({', '.join(row[:2])}, …) has {len(row)} columns, expected {', '.join(columns[macro])}")
        yield macro, dict(zip(columns[macro], row))


def read(folder=SPEC):
    """Return the rows of all tables by the name of their macro."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if not name.endswith(".def"):
            continue
        with open(os.path.join(folder, name), encoding="utf-8") as file:
            for macro, row in rows_of(name, file.read()):
                found.setdefault(macro, []).append(row)
    return found
