"""Finds the function in the code, binds the arguments, calls it and awaits the result."""
import _ast
import sys

modules = sys.modules
ONLY_AST, TOP_LEVEL_AWAIT = 0x400, 0x2000
VARIADIC, VARIADIC_KEYWORDS = 0x04, 0x08
RESULT = "__cloche_result__"
BODY = "__cloche_body__"
MODULE = "<module>"


class Loader:
    """Gives linecache, and through it tracebacks and inspect, the source of a file that is not on disk."""

    def __init__(self, source):
        self.source = source

    def get_source(self, name):
        return self.source

    def is_package(self, name):
        return False


PREFIX = {}


def new_main(code, filename):
    """The module that the code runs in: a fresh one, or the one that the host's set-up code has filled."""
    main = PREFIX.get("main") or type(sys)("__main__")
    main.__file__ = filename
    main.__loader__ = Loader(code)
    main.__builtins__ = modules.get("builtins", sys)
    modules["__main__"] = main
    return main


def public_functions(tree):
    found = {}
    for node in tree.body:
        if isinstance(node, (_ast.FunctionDef, _ast.AsyncFunctionDef)) and node.name[0] != "_":
            found[node.name] = True
    return list(found)


def load(code, filename, name):
    """The namespace of the code, and the requested callable; a body is a callable like any other."""
    if name is not None:
        compiled = compile(code, filename, "exec", dont_inherit=True)
        main = new_main(code, filename)
        exec(compiled, main.__dict__)
        return resolve(main, name)
    tree = compile(code, filename, "exec", ONLY_AST, dont_inherit=True)
    names = public_functions(tree)
    if len(names) > 1:
        raise TypeError("code defines several public functions (%s): name one" % ", ".join(names))
    if names:
        compiled = compile_module(tree, filename, names[0])
        main = new_main(code, filename)
        exec(compiled, main.__dict__)
        return resolve(main, names[0])
    return body(tree, code, filename)


def compile_module(tree, filename, name):
    try:
        return compile(tree, filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        if error.msg == "'return' outside function":
            error.msg += ": the code defines %s(), which is called by itself; leave the return out and give %s() its arguments (args), or name it _%s for " \
                "the code to be the function's body" % (name, name, name)
        raise


def resolve(main, name):
    first, *rest = name.split(".")
    try:
        target = main.__dict__[first]
        for step in rest:
            target = getattr(target, step)
    except (KeyError, AttributeError):
        message = "function %r is not defined in the code; it defines: %s" % (name, defined(main))
        raise NameError(message) from None
    if not callable(target):
        raise TypeError("%r is not a function but %s" % (name, type(target).__name__))
    return target


def defined(main):
    names = [name for name, value in main.__dict__.items()
             if name[0] != "_" and callable(value) and getattr(value, "__module__", None) == "__main__"]
    return ", ".join(names) or "none"


# ---- code that is itself the body ----

def body(tree, code, filename):
    """Compile as a module if possible, so that its classes pickle and `global` works; as a function if it returns."""
    main = new_main(code, filename)
    # A return as the last statement tells it already: the error costs a tenth of a short call.
    if tree.body and isinstance(tree.body[-1], _ast.Return):
        return function_body(tree, code, filename, main)
    try:
        compiled = compile(tree, filename, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
    except SyntaxError:
        return function_body(tree, code, filename, main)
    unused = ignored_callable(tree)
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        tree.body[-1] = assignment(tree.body[-1])
        compiled = compile(tree, filename, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)

    def run(*args, **kwargs):
        if unused and (args or kwargs):
            raise TypeError("the code defines no function that could take the arguments, but %s: %s" % unused)
        space = main.__dict__
        space["args"], space["kwargs"] = args, kwargs
        waiting = eval(compiled, space)
        return finish(waiting, space) if waiting is not None else space.pop(RESULT, None)

    return run


def ignored_callable(tree):
    """The class or lambda that the arguments were probably meant for, and the remedy, if the code
    only defines things and ignores its arguments; else None."""
    found = None
    for node in tree.body:
        value = getattr(node, "value", None)
        if isinstance(node, _ast.ClassDef):
            found = "the class " + node.name, "name it as the function, or define a function that uses it"
        elif isinstance(value, _ast.Lambda):
            found = "a lambda", "write it with def"
        elif not isinstance(node, (_ast.Import, _ast.ImportFrom, _ast.Assign, _ast.AnnAssign)) and not (node is tree.body[0] and isinstance(value, _ast.Constant)):
            return None
    return None if found is None or reads(tree, ("args", "kwargs")) else found


def reads(node, names):
    if isinstance(node, _ast.Name):
        return node.id in names
    for field in node._fields:
        inner = getattr(node, field, None)
        for item in inner if isinstance(inner, list) else (inner,):
            if isinstance(item, _ast.AST) and reads(item, names):
                return True
    return False


async def finish(waiting, space):
    await waiting
    return space.pop(RESULT, None)


def place(node):
    return {"lineno": node.lineno, "col_offset": node.col_offset,
            "end_lineno": node.end_lineno, "end_col_offset": node.end_col_offset}


def assignment(node):
    name = _ast.Name(id=RESULT, ctx=_ast.Store(), **place(node))
    return _ast.Assign(targets=[name], value=node.value, type_comment=None, **place(node))


def function_body(tree, code, filename, main):
    try:
        compiled = compile(wrapped(tree, filename, "def "), filename, "exec", dont_inherit=True)
    except SyntaxError as error:
        try:
            tree = compile(code, filename, "exec", ONLY_AST, dont_inherit=True)
            compiled = compile(wrapped(tree, filename, "async def "), filename, "exec", dont_inherit=True)
        except SyntaxError:
            raise error from None
    exec(compiled, main.__dict__)
    function = main.__dict__.pop(BODY)
    function.__code__ = function.__code__.replace(co_name=MODULE)
    return function


def wrapped(tree, filename, keyword):
    """The tree, changed: statements that a function may not contain (future and star imports) stay in the module, before
    the function."""
    holder = compile(keyword + BODY + "(*args, **kwargs): pass", filename, "exec", ONLY_AST, dont_inherit=True)
    outside = [node for node in tree.body if is_module_only(node)]
    inside = [node for node in tree.body if not is_module_only(node)]
    holder.body[0].body = inside or holder.body[0].body
    holder.body[0].name = BODY
    tree.body = outside + holder.body
    return tree


def is_module_only(node):
    if not isinstance(node, _ast.ImportFrom):
        return False
    return node.module == "__future__" or any(alias.name == "*" for alias in node.names)


def run_script(code, filename):
    """The exit code of a plain interpreter; the caller reports exceptions other than SystemExit."""
    main = new_main(code, filename)
    try:
        exec(compile(code, filename, "exec", dont_inherit=True), main.__dict__)
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            sys.stderr.write("%s\n" % (end.code,))
            return 1
        return (end.code or 0) & 0xff
    finally:
        if "threading" in modules:
            modules["threading"]._shutdown()
    return 0


def prepare(code, filename):
    """Runs the host's set-up code: the names it leaves in its module are there for the code of every run."""
    compiled = compile(code, filename, "exec", TOP_LEVEL_AWAIT, dont_inherit=True)
    main = new_main(code, filename)
    waiting = eval(compiled, main.__dict__)
    if waiting is not None:
        settle(waiting)
    PREFIX["main"] = main


# ---- arguments ----

def shape(function):
    """(code object, number of leading parameters already bound) for functions and methods, else None."""
    inner = getattr(function, "__func__", None)
    if type(function) is METHOD and type(inner) is FUNCTION:
        return inner.__code__, 1
    return (function.__code__, 0) if type(function) is FUNCTION else None


FUNCTION = type(shape)
METHOD = type(Loader("").get_source)


def is_body(function):
    return function.__code__.co_name == MODULE or function.__globals__ is globals()


def source_of(function):
    if shape(function):
        inner = getattr(function, "__func__", function)
        return "convention" if is_body(inner) else "inferred"
    try:
        import inspect
        inspect.signature(function)
        return "inferred"
    except (TypeError, ValueError):
        return "convention"


def names_of(function):
    """(positional names, names that may be keywords), or None when anything may be one."""
    found = shape(function)
    if found is None:
        return names_by_inspect(function)
    code, bound = found
    if code.co_flags & VARIADIC_KEYWORDS:
        keywords = None
    else:
        first = max(code.co_posonlyargcount, bound)
        keywords = code.co_varnames[first:code.co_argcount + code.co_kwonlyargcount]
    return code.co_varnames[bound:code.co_argcount], keywords, bool(code.co_flags & VARIADIC)


def names_by_inspect(function):
    try:
        import inspect
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return (), None, True
    kinds = [(parameter.name, parameter.kind.name) for parameter in parameters]
    positional = tuple(name for name, kind in kinds if kind.startswith("POSITIONAL"))
    keywords = tuple(name for name, kind in kinds if kind in ("POSITIONAL_OR_KEYWORD", "KEYWORD_ONLY"))
    variadic = {kind for _, kind in kinds}
    return positional, None if "VAR_KEYWORD" in variadic else keywords, "VAR_POSITIONAL" in variadic


def by_name_or_place(placed, keywords, order, allowed):
    """Arguments that only the caller's schema names take the schema's position."""
    if allowed is None:
        return placed, keywords
    rest = {}
    for name, value in keywords.items():
        if name in allowed or name not in order:
            rest[name] = value
        else:
            placed[order.index(name)] = value
    return placed, rest


def bind(function, placed, keywords, order):
    """After a gap, positional arguments go by name, so that the language's own defaults fill the gap."""
    positional, allowed, variadic = names_of(function)
    placed, keywords = by_name_or_place(placed, dict(keywords), order, allowed)
    if not variadic and placed and max(placed) >= len(positional):
        raise TypeError("%s() takes %d positional arguments (%s): argument %d is too many" % (
            getattr(function, "__name__", "function"), len(positional), ", ".join(positional), max(placed) + 1))
    args = []
    while len(args) in placed:
        args.append(placed[len(args)])
    for index in sorted(placed)[len(args):]:
        name = positional[index] if index < len(positional) else None
        if name is None or (allowed is not None and name not in allowed):
            raise TypeError("argument at position %d%s is missing" % (
                len(args), " (%r)" % positional[len(args)] if len(args) < len(positional) else ""))
        if name in keywords:
            raise TypeError("argument %r is given twice" % name)
        keywords[name] = placed[index]
    return args, keywords


def call(code, filename, name, args, holes, kwargs, order):
    """(value, signature source)"""
    CALLED.clear()
    placed = {index: value for index, value in enumerate(args) if index not in holes}
    function = load(code, filename, name)
    source = CALLED["source"] = "schema" if order is not None else source_of(function)
    args, keywords = bind(function, placed, kwargs, order or [])
    CALLED["function"] = function
    return settle(function(*args, **keywords)), source


CALLED = {}


def place_of_called(filename):
    """The place of the function that returned an unsendable value."""
    function = CALLED.get("function")
    code = getattr(function, "__code__", None)
    if code is None or is_body(function):
        return filename
    return "%s (%s, line %d)" % (code.co_name, code.co_filename, code.co_firstlineno)


# ---- results ----

GENERATOR = type(item for item in ())


def settle(value):
    while True:
        kind = type(value)
        if kind is GENERATOR:
            return list(value)
        if not hasattr(kind, "__await__") and not hasattr(kind, "__anext__"):
            return value
        import asyncio
        value = asyncio.run(collect(value) if hasattr(kind, "__anext__") else wait(value))


async def wait(value):
    value = await value
    return await collect(value) if hasattr(type(value), "__anext__") else value


async def collect(items):
    return [item async for item in items]
