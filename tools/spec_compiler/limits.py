"""Check the texts of limits' options: they end in the default, which the row has as a number too."""
from .tables import TableError

UNITS = {"TIME": [(1000, "s")], "SIZE": [(1 << 30, "G"), (1 << 20, "M")], "BYTES": [(1 << 30, "G"), (1 << 20, "M")]}


def default_text(row, value):
    """Return a default as the option's user writes it."""
    if value == "NO_LIMIT":
        return "none"
    for size, name in UNITS.get(row["argument"], []):
        if int(value) % size == 0:
            return f"{int(value) // size}{name}"
    return value


def check(rows):
    for row in rows:
        texts = [] if row["argument"] == "NONE" else [("help", "default")]
        texts += [("sandbox_help", "sandbox")] if texts and row["scope"] == "BOX" else []
        for text, default in texts:
            expected = default_text(row, row[default])
            if row[text].partition("; default")[2].lstrip(": ").split(" ")[0] != expected:
                raise TableError(f"limits.def: {text} of {row['field']} must end in '; default {expected}', as its default is {row[default]}")
