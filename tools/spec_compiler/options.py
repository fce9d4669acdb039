"""The options of the command line: those of spec/options.def, then those of limits."""
from .tables import TableError

ARGUMENTS = {"TIME": "TIME", "SIZE": "SIZE", "BYTES": "SIZE", "COUNT": "N", "PERCENT": "PERCENT"}
LIMITS = {"limits": "help", "sandbox_limits": "sandbox_help"}


def of_limits(rows, group):
    for row in rows:
        if row["argument"] != "NONE" and row[LIMITS[group]]:
            yield {"group": group, "option": row["option"], "alias": "", "argument": ARGUMENTS[row["argument"]], "words": "",
                   "help": row[LIMITS[group]], "more": ""}


def by_group(tables):
    """Return the options of each group, in the order of the tables."""
    found = {}
    for row in tables["CLOCHE_OPTION"]:
        found.setdefault(row["group"], []).append(row)
    return {**found, **{group: list(of_limits(tables["CLOCHE_LIMIT"], group)) for group in LIMITS}}


def commands_of(tables, group):
    return [row["name"] for row in tables["CLOCHE_OPERATION"] if group in row["options"].split()]


def check(tables):
    groups = by_group(tables)
    used = {group for row in tables["CLOCHE_OPERATION"] for group in row["options"].split()}
    if used != set(groups):
        raise TableError(f"options.def: without an option or without a command: {', '.join(sorted(used ^ set(groups)))}")
    for row in tables["CLOCHE_OPERATION"]:
        names = [name for group in row["options"].split() for option in groups[group] for name in (option["option"], option["alias"]) if name]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise TableError(f"options.def: {row['name']} has {', '.join(sorted(twice))} twice")
