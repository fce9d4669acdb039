"""Write docs/reference.md."""

# Title, macro, and a heading for each column that is printed: as a dict by its column, or for the first columns in their order. A
# heading that ends in ` is code.
LIMIT = {"field": "field`", "json": "JSON`", "option": "option`", "unit": "unit", "default": "default", "sandbox": "default of a sandbox", "min": "least",
         "max": "most", "rlimit": "resource limit", "doc": "meaning"}

OPTION = {"group": "group of commands`", "option": "option`", "argument": "value`", "help": "meaning", "more": "in detail"}

SECTIONS = [
    ("Operations", "CLOCHE_OPERATION", ["symbol`", "name`", "usage`", "options`", "summary", "meaning", "in detail"]),
    ("Options of the command line", "CLOCHE_OPTION", OPTION),
    ("How a run ends", "CLOCHE_STATUS", ["symbol`", "status`", "exit code", "meaning"]),
    ("Limits of a run", "CLOCHE_LIMIT", LIMIT),
    ("The walls of a box", "CLOCHE_GUARD", ["symbol`", "guard`", "profile that permits it to be missing", "meaning"]),
    ("Rights of templates' code", "CLOCHE_RIGHT", ["symbol`", "right`", "set-up code", "a context that can be forked", "meaning"]),
    ("Programs under Landlock", "CLOCHE_LANDLOCKED", ["symbol`", "program`", "what is permitted and refused"]),
    ("Features of the host", "CLOCHE_HOST", ["symbol`", "feature`", "since Linux", "without it"]),
    ("Errors", "CLOCHE_ERROR", ["symbol`", "name`", "fault", "HTTP", "meaning"]),
    ("How a program finds its daemon", "DISCOVERY_STEP", ["symbol`", "in this order: the first that applies", "daemon"]),
    ("Variables for daemons and directories", "DISCOVERY_VARIABLE", ["symbol`", "variable`", "meaning"]),
    ("Directories of a user's own daemon", "DISCOVERY_DIRECTORY",
     {"users": "users`", "parent": "parent (empty: `$XDG_RUNTIME_DIR`)", "name": "name (`%u`: the user id)", "doc": "meaning"}),
    ("Directories of saved sandboxes", "DISCOVERY_STATE", ["users`", "directory`", "meaning"]),
    ("The program cloched", "DISCOVERY_PROGRAM", ["symbol`", "place, in this order"]),
    ("Usual directories of cloched", "DISCOVERY_INSTALLED", ["directory`"]),
    ("Errors of the search for a daemon", "DISCOVERY_FAULT", ["symbol`", "error`", "text"]),
    ("Operations of the daemon", "DAEMON_OPERATION", ["symbol`", "method`", "verb", "path`", "HTTP", "answer`", "meaning"]),
    ("Parameters of the daemon", "DAEMON_FIELD", ["parameter`", "type", "required in", "optional in", "meaning"]),
    ("Lanes of callers", "CALLER_LANE", ["symbol`", "lane", "meaning"]),
    ("Limits of unknown callers", "CALLER_LIMIT", ["symbol`", "value", "unit", "meaning"]),
    ("Operations of sandboxes", "SANDBOX_OPERATION", ["symbol`", "method`", "verb", "path`", "HTTP", "kind", "needs", "answer`", "meaning"]),
    ("Parameters of sandboxes", "SANDBOX_FIELD", ["symbol`", "parameter`", "type", "need", "meaning"]),
    ("Answers", "ANSWER", ["answer`", "has all members of`", "meaning"]),
    ("Members of answers", "ANSWER_MEMBER", ["answer`", "member`", "type`", "need", "meaning"]),
    ("Events before answers", "ANSWER_EVENT", ["operations`", "event`", "about`", "meaning"]),
    ("Packages of Debian in the standard image", "STANDARD_DEBIAN", ["purpose", "packages"]),
    ("Packages of npm in the standard image", "STANDARD_NPM", {"name": "package`", "version": "version", "machine": "machine", "program": "program`"}),
    ("Requests to the keeper", "KEEPER_REQUEST", ["request`", "handler`", "after the greeting", "meaning"]),
]


def limit_row(row):
    """A cell that does not apply is empty."""
    sandbox = "" if row["scope"] == "RUN" else row["sandbox"].replace("NO_LIMIT", "none")
    return {**row, "sandbox": sandbox, "rlimit": row["rlimit"].replace("NO_RLIMIT", "")}


def line(cells):
    return "| " + " | ".join(cells) + " |"


def table(headings, rows):
    """rows: lists of text, a cell for each heading."""
    yield line(heading.rstrip("`") for heading in headings)
    yield "|" + "---|" * len(headings)
    for row in rows:
        cells = [cell.replace("|", "\\|") for cell in row]
        yield line(f"`{cell}`" if cell and heading.endswith("`") else cell for heading, cell in zip(headings, cells, strict=True))


def files(tables):
    out = ["# Reference: operations, statuses, limits, guards, errors", "",
           "Written by `tools/spec` from the tables in spec/; the tests hold both together.", ""]
    tables = {**tables, "CLOCHE_LIMIT": [limit_row(row) for row in tables["CLOCHE_LIMIT"]]}
    for title, macro, headings in SECTIONS:
        columns = list(headings) if isinstance(headings, dict) else list(tables[macro][0])
        names = list(headings.values()) if isinstance(headings, dict) else headings
        out += [f"## {title}", "", *table(names, [[row[column] for column in columns] for row in tables[macro]]), ""]
    return {"docs/reference.md": "\n".join(out)}
