"""Parts shared by cells with IPython (shell.py) and without (plain.py): splitting at the last
expression, earlier inputs, errors, input and print."""
import __future__
import ast
import builtins
import linecache
import os
import sys

traces = part("traces")
FUTURES = sum({getattr(__future__, name).compiler_flag for name in __future__.all_feature_names})
ONLY_AST, TOP_LEVEL_AWAIT = 0x400, 0x2000
BLOCKS = tuple(getattr(ast, name) for name in (
    "FunctionDef", "AsyncFunctionDef", "ClassDef", "For", "AsyncFor", "While", "If", "With", "AsyncWith", "Try", "TryStar", "Match") if hasattr(ast, name))
CHART = "application/vnd.cloche.chart+json"
MAX_JSON_NODES = 10000
MAX_GAP = 10000
SAFE = (1 << 53) - 1
PRINT = builtins.print
INPUT = builtins.input
STREAMS = part("serve")["STREAMS"]
PYTHON = "Python " + sys.version.split()[0]


class Cells:
    """`user_ns` is the namespace; `inputs` the list that cells see as In; `text` the code of the
    cell as Python compiles it."""
    FUTURES = FUTURES
    context = None
    interpreter = PYTHON  # the name that clients see
    error_mode = "Context"  # how much of the code an error shows

    def attach_builtins(self, context):
        builtins.exit, builtins.quit = self.user_ns["exit"], self.user_ns["quit"]
        builtins.input, builtins.print = asking(context), printing()
        import getpass
        getpass.getpass = asking_password(context)
        sys.path[0] = ""

    def begin_cell(self, request):
        code, count = request["code"], request["count"]
        name = request["filename"] or "Cell In[%d]" % count
        self.cells.add(name)
        linecache.cache[name] = (held(code),)
        sys.displayhook = self.displayhook
        if not request["silent"]:
            self.remember(code, count)
        self.request = request
        return name

    def remember(self, code, count):
        if self.execution_count != count:
            self.execution_count = count
        history = self.inputs
        if len(history) < count <= len(history) + MAX_GAP:
            history += [""] * (count - len(history))
        history[count:] = [code]
        names = self.user_ns
        names["_iii"], names["_ii"], names["_i"] = names.get("_ii", ""), names.get("_i", ""), names.get("_i_now", "")
        names["_i_now"] = names["_i%d" % count] = code

    def forget_cells(self, names):
        """Delete everything that rehearsing left in the namespace and in memory."""
        for name in set(self.user_ns) - names:
            del self.user_ns[name]
        for name in self.cells:
            linecache.cache.pop(name, None)
        self.cells.clear()
        self.inputs[:] = [""]
        self.execution_count = 1
        self.context = None
        for name in ("last_type", "last_value", "last_traceback"):
            sys.__dict__.pop(name, None)

    def split(self, tree, code, silent):
        """(expression to display, statements before it), each a tree or None."""
        nodes = tree.body
        mode = "none" if silent else self.ast_node_interactivity
        if mode == "last_expr_or_assign" and nodes:
            name = assigned(nodes[-1])
            if name is not None:
                nodes.append(ast.copy_location(ast.Expr(ast.copy_location(ast.Name(name, ast.Load()), nodes[-1])), nodes[-1]))
            mode = "last_expr"
        shown = {"none": 0, "all": len(nodes), "last": 1}.get(mode, 0)
        if mode == "last_expr" and nodes and isinstance(nodes[-1], ast.Expr) and not self.is_quiet(nodes[-1]):
            shown = 1
        if not shown:
            return None, tree if nodes else None
        rest, last = nodes[:-shown], nodes[-shown:]
        tree.body = rest
        return ast.Interactive(last), tree if rest else None

    def is_quiet(self, node):
        """A semicolon after the last expression suppresses its display."""
        if ";" not in self.text:
            return False
        line = self.text.split("\n")[node.end_lineno - 1].encode()
        return line[node.end_col_offset:].lstrip(b" \t)").startswith(b";")

    def error_of(self, error):
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        return traces["describe"](error, self.cells, self.error_mode)


def assigned(node):
    if isinstance(node, ast.Assign) and isinstance(node.targets[-1], ast.Name):
        return node.targets[-1].id
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)) and isinstance(node.target, ast.Name) and node.value is not None:
        return node.target.id
    return None


def held(text):
    """In linecache: the lines are made when they are wanted."""
    return lambda: text


def judged(code):
    """(status, blanks for the next line) of code that is Python as it stands; None for other code. Like a prompt of Python's,
    a block goes on until an empty line."""
    import warnings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            body = compile(code + "\n", "<cell>", "exec", ONLY_AST | TOP_LEVEL_AWAIT, True).body
        except (SyntaxError, OverflowError, ValueError, MemoryError, RecursionError):
            return None
    last = code[code.rstrip().rfind("\n") + 1:]
    blanks = last[:len(last) - len(last.lstrip(" \t"))]
    if body and isinstance(body[-1], BLOCKS) and blanks and "\n" not in last:
        return "incomplete", blanks
    return "complete", ""


class Quit:
    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return "%s() ends the cell; the context stays" % self.name

    def __call__(self, code=None):
        raise SystemExit(code)


# ---- kinds of displays ----

def add_rich(value, data, metadata):
    """Plain containers as JSON, and figures as data."""
    kind = type(value)
    if kind is dict or kind is list:
        if is_json(value):
            data["application/json"] = value
    elif is_figure(value):
        add_chart(value, data, metadata)


def is_json(value):
    """True if JSON holds the value exactly, and it is small enough to traverse."""
    left, open_containers = MAX_JSON_NODES, set()

    def walk(item):
        nonlocal left
        left -= 1
        kind = type(item)
        if left < 0:
            return False
        if kind is str or kind is bool or item is None:
            return True
        if kind is int:
            return -SAFE <= item <= SAFE
        if kind is float:
            return item - item == 0
        if (kind is not dict and kind is not list) or id(item) in open_containers or len(open_containers) > 100:
            return False
        open_containers.add(id(item))
        fits = (all(map(walk, item)) if kind is list
                else all(type(key) is str and walk(inner) for key, inner in item.items()))
        open_containers.discard(id(item))
        return fits

    return walk(value)


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    return module is not None and isinstance(value, module.Figure)


def add_chart(figure, data, metadata):
    try:
        chart = part("charts")["chart_of"](figure)
    except Exception as error:
        metadata[CHART] = {"error": "%s: %s" % (type(error).__name__, error)}
        return
    if chart is not None:
        data[CHART] = chart


def close_fonts():
    """Runs before a fork: matplotlib keeps cached fonts open."""
    fonts = sys.modules.get("matplotlib.font_manager")
    for cache in (getattr(fonts, "_get_font", None), getattr(fonts, "get_font", None)):
        if hasattr(cache, "cache_clear"):
            cache.cache_clear()


# ---- replacements of Python's own functions ----

def printing():
    def print(*args, sep=" ", end="\n", file=None, flush=False):
        target = sys.stdout if file is None else file
        # Flush at once, even without a newline, and write in one piece.
        PRINT(*args, sep=sep, end=end, file=file, flush=flush or target is STREAMS[0] or target is STREAMS[1])

    return like(PRINT, print)


def asking(context):
    def input(prompt="", /):
        return context.ask_input(str(prompt), False)

    return like(INPUT, input)


def asking_password(context):
    def getpass(prompt="Password: ", stream=None):
        return context.ask_input(str(prompt), True)

    return getpass


def like(known, function):
    function.__doc__, function.__module__, function.__qualname__ = known.__doc__, "builtins", known.__name__
    return function
