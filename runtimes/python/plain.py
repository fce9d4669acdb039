"""Cells without IPython: Python's own syntax, `display()` and `_repr_*_`, completion by names.
Magics are rejected by name."""
import builtins
import keyword
import os
import re
import sys

common = part("common")
CHART, ONLY_AST, TOP_LEVEL_AWAIT = common["CHART"], common["ONLY_AST"], common["TOP_LEVEL_AWAIT"]
RESULTS_KEPT, RESULTS_DROPPED = 1000, 200
MAX_MATCHES = 500
REPRS = {"text/html": "_repr_html_", "text/markdown": "_repr_markdown_", "text/latex": "_repr_latex_", "image/svg+xml": "_repr_svg_",
         "image/png": "_repr_png_", "image/jpeg": "_repr_jpeg_", "application/pdf": "_repr_pdf_", "application/json": "_repr_json_",
         "application/javascript": "_repr_javascript_"}
SETTLED = (type(None), bool, int, float, str, bytes, list, dict, tuple, set)
SYNTAX_OF_IPYTHON = (
    (re.compile(r"\s*(%%?[A-Za-z_]\w*)"), "the magic `%s`"),
    (re.compile(r"[\w\s.,*]+=\s*(%[A-Za-z_]\w*)"), "the magic `%s`"),
    (re.compile(r"\s*(!!?\s*\S*)"), "the command `%s`"),
    (re.compile(r"[\w\s.,*]+=\s*(!\s*\S*)"), "the command `%s`"),
    (re.compile(r"\s*(\?\??\s*[\w.%*]+)"), "the question `%s`"),
    (re.compile(r"\s*([%\w.*]+\?\??)\s*$"), "the question `%s`"),
)
NEEDS_IPYTHON = ("%s needs IPython, which this image's Python does not have: install it in the image (Debian: python3-ipython; "
                 "pip: ipython), or write it in Python")
NAME_AT_END = re.compile(r"((?:[^\W\d]\w*\.)*)((?:[^\W\d]\w*)?)$")
NOTHING = object()


class Shell(common["Cells"]):
    ast_node_interactivity = "last_expr"

    def __init__(self, main):
        self.user_ns = main.__dict__
        self.cells, self.inputs, self.results = set(), [""], {}
        self.text, self.request, self.last, self.execution_count = "", None, NOTHING, 1
        own = {"In": self.inputs, "Out": self.results, "exit": common["Quit"]("exit"), "quit": common["Quit"]("quit")}
        self.user_ns.update(own)
        self.user_ns_hidden = own

    # ---- interface for contexts ----

    def attach(self, context):
        self.context = context
        builtins.display = displaying(self)
        self.attach_builtins(context)
        if "matplotlib" not in sys.modules:
            os.environ.setdefault("MPLBACKEND", "Agg")

    def registered(self):
        return ()

    def forget(self, names):
        self.forget_cells(names)
        self.results.clear()
        self.last = NOTHING
        builtins.__dict__.pop("display", None)

    def end_cell(self, silent, error=None):
        pass

    def open_files(self):
        pass

    def close_files(self):
        common["close_fonts"]()

    def parse(self, code, name, flags):
        self.text = code
        try:
            return compile(code, name, "exec", flags | ONLY_AST, True)
        except SyntaxError as error:
            refused = named(error, code, name)
            if refused is None:
                raise
        raise refused

    def judge(self, code):
        import codeop
        import warnings
        known = common["judged"](code)
        if known:
            return known
        compiler = codeop.CommandCompiler()
        compiler.compiler.flags |= TOP_LEVEL_AWAIT
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compiler(code, "<cell>", "exec")  # an error is one of the code, not of its end
        last = code.rstrip().rpartition("\n")[2]
        blanks = last[:len(last) - len(last.lstrip(" \t"))]
        return "incomplete", blanks + "    " if last.endswith(":") else blanks

    # ---- results ----

    def displayhook(self, value):
        if value is None:
            return
        data, metadata = formatted(value)
        self.keep(value)
        if data:
            self.context.display(data, metadata, True)

    def keep(self, value):
        """Store the result as _, __, ___, _N and Out[N]. A `_` of the user's own stays."""
        names, count = self.user_ns, self.execution_count
        if names.get("_", NOTHING) is self.last or "_" not in names:
            names["___"], names["__"], names["_"] = names.get("__", ""), names.get("_", ""), value
            self.last = value
        names["_%d" % count] = self.results[count] = value
        if len(self.results) >= RESULTS_KEPT:
            for old in sorted(self.results)[:RESULTS_DROPPED]:
                self.results.pop(old)
                names.pop("_%d" % old, None)

    # ---- completion ----

    def complete(self, code, at):
        """Return None, or completions of the name before `at`: variables, builtins and keywords, or
        attributes of dotted names."""
        found = NAME_AT_END.search(code[:at])
        path, start = found[1], found[2]
        if found[0] == "" or code[:found.start()].endswith("."):
            return None
        names = self.names_at(path[:-1].split(".")) if path else {*self.user_ns, *dir(builtins), *keyword.kwlist}
        shown = sorted(name for name in names if type(name) is str and name.startswith(start) and (start or name[:1] != "_"))
        if not shown:
            return None
        return {"matches": shown[:MAX_MATCHES], "from": at - len(start), "to": at}

    def names_at(self, path):
        value = self.user_ns.get(path[0], getattr(builtins, path[0], NOTHING))
        try:
            for step in path[1:]:
                value = getattr(value, step)
            return () if value is NOTHING else dir(value)
        except Exception:
            return ()


def named(error, code, name):
    """The error for a line in IPython's own syntax, or None."""
    lines = code.split("\n")
    if not error.lineno or error.lineno > len(lines):
        return None
    line = lines[error.lineno - 1]
    for pattern, thing in SYNTAX_OF_IPYTHON:
        found = pattern.match(line)
        if found:
            return SyntaxError(NEEDS_IPYTHON % (thing % found[1].strip()), (name, error.lineno, found.start(1) + 1, line))
    return None


# ---- displays ----

def formatted(value):
    """(data by kind, metadata by kind); no data when the value has displayed itself."""
    data, metadata = {}, {}
    kind = type(value)
    if kind not in SETTLED:
        own = getattr(kind, "_ipython_display_", None)
        if own is not None:
            own(value)
            return {}, {}
        add_bundle(value, kind, data, metadata)
        for mime, method in REPRS.items():
            if mime not in data and getattr(kind, method, None) is not None:
                add_one(mime, getattr(kind, method), value, data, metadata)
        if common["is_figure"](value) and "image/png" not in data:
            add_one("image/png", picture, value, data, metadata)
    if "text/plain" not in data:
        data["text/plain"] = repr(value)
    common["add_rich"](value, data, metadata)
    return data, metadata


def add_bundle(value, kind, data, metadata):
    method = getattr(kind, "_repr_mimebundle_", None)
    if method is None:
        return
    try:
        bundle, more = with_metadata(method(value, include=None, exclude=None))
        data.update(bundle or {})
        metadata.update(more or {})
    except NotImplementedError:
        pass
    except Exception as error:
        metadata["_repr_mimebundle_"] = {"error": "%s: %s" % (type(error).__name__, error)}


def add_one(mime, method, value, data, metadata):
    """A kind whose method throws has the error in its metadata; the others are shown."""
    try:
        form, more = with_metadata(method(value))
    except NotImplementedError:
        return
    except Exception as error:
        metadata[mime] = {"error": "%s: %s" % (type(error).__name__, error)}
        return
    if form is not None:
        data[mime] = form
        if more:
            metadata[mime] = more


def with_metadata(answer):
    return answer if type(answer) is tuple and len(answer) == 2 else (answer, None)


def picture(figure):
    import io
    file = io.BytesIO()
    figure.savefig(file, format="png", bbox_inches="tight")
    return file.getvalue()


class Handle:
    """The result of `display(value, display_id=...)`: it can replace the displayed value."""

    def __init__(self, display, display_id):
        self.show, self.display_id = display, display_id

    def __repr__(self):
        return "<Handle display_id=%s>" % self.display_id

    def display(self, value, **options):
        self.show(value, display_id=self.display_id, **options)

    def update(self, value, **options):
        self.show(value, display_id=self.display_id, update=True, **options)


def displaying(shell):
    def display(*values, include=None, exclude=None, metadata=None, raw=False, display_id=None, clear=False, update=False):
        """Shows values; raw ones are dicts of MIME type to content. display_id (True: a new one)
        makes it replaceable through the returned handle."""
        if display_id is True:
            display_id = os.urandom(16).hex()
        if clear:
            shell.context.clear(True)
        for value in values:
            data, more = (dict(value), {}) if raw else formatted(value)
            data = {mime: form for mime, form in data.items() if (not include or mime in include) and mime not in (exclude or ())}
            if data:
                shell.context.display(data, {**more, **(metadata or {})}, False, display_id, update)
        return Handle(display, display_id) if display_id is not None and not update else None

    display.__module__, display.__qualname__ = "builtins", "display"
    return display


def make(main):
    return Shell(main)
