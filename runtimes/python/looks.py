"""Looks at code and at names: `inspect` and `isComplete`. They run no code of the cells: attributes are found in the dictionaries
of modules, classes and objects, values of unknown classes are not asked, and only texts of `str` itself are believed."""
import builtins
import inspect
import os
import re
import stat
import types

names = part("names")
kind_name = names["kind_name"]
TEXT_MAX, DOC_MAX, VALUE_MAX, SOURCE_MAX, LINES_MAX, INPUTS_MAX, STEPS_MAX = 64 << 10, 32 << 10, 60, 4 << 20, 5000, 200, 10
NOTHING = object()
PATH = re.compile(r"[^\W\d]\w*(?:\s*\.\s*[^\W\d]\w*)*")
RECEIVER = re.compile(r"^\(\$\w+(?:,\s*/)?(?:,\s*)?")
INDENT = re.compile(r"[ \t]*")
CLASS_DICT, MRO, CLASS_NAME, CLASS_TEXT, FLAGS = (
    type.__dict__[name].__get__ for name in ("__dict__", "__mro__", "__name__", "__text_signature__", "__flags__"))
MADE_BY_PYTHON = 1 << 9  # Py_TPFLAGS_HEAPTYPE
MODULE_DICT = types.ModuleType.__dict__["__dict__"].__get__
Function, Method = types.FunctionType, types.MethodType
Static, OfClass = staticmethod, classmethod
cleandoc, getblock = inspect.cleandoc, inspect.getblock
NATIVE = (types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType, types.MethodWrapperType, types.ClassMethodDescriptorType)
SLOTS = types.GetSetDescriptorType, types.MemberDescriptorType
HELD = part("common")["held"]("").__code__
GENERIC, UNION = getattr(types, "GenericAlias", None), getattr(types, "UnionType", None)


def is_one(kind, kinds):
    """`in` would compare and hash the class, which are methods of its metaclass."""
    for one in kinds:
        if kind is one:
            return True
    return False


# ---- the name at the cursor ----

def path_at(code, at):
    """The dotted name in which `at` is or at whose end, up to the part with `at`; else that of the call in whose brackets it is."""
    line = code.rfind("\n", 0, at) + 1
    for found in PATH.finditer(code, line):
        if found.start() > at:
            break
        if at <= found.end():
            return steps_of(found[0], at - found.start())
    depth = 0
    for place in range(at - 1, max(-1, at - 10000), -1):
        if code[place] in ")]}":
            depth += 1
        elif code[place] in "([{":
            if depth == 0:
                before = code[:place].rstrip()
                last = [found for found in PATH.finditer(before, max(before.rfind("\n"), 0)) if found.end() == len(before)]
                return steps_of(last[0][0], len(before)) if last and code[place] == "(" else None
            depth -= 1
    return None


def steps_of(path, at):
    end = path.find(".", at)
    return [step.strip() for step in (path if end < 0 else path[:end]).split(".")]


def find(shell, steps):
    value = dict.get(shell.user_ns, steps[0], NOTHING)
    if value is NOTHING:
        value = dict.get(builtins.__dict__, steps[0], NOTHING)
    for step in steps[1:STEPS_MAX]:
        if value is NOTHING:
            break
        value = attribute(value, step)
    return NOTHING if len(steps) > STEPS_MAX else value


def attribute(value, name):
    """As getattr, without descriptors of the user's. inspect.getattr_static asks metaclasses in some versions."""
    kind = type(value)
    of_class = in_mro(MRO(value) if issubclass(kind, type) else MRO(kind), name)
    if issubclass(kind, type):
        found = in_mro(MRO(kind), name) if of_class is NOTHING else of_class
    elif type(of_class) is types.MemberDescriptorType:
        found = slot(of_class, value)
    elif is_one(type(of_class), (property, types.GetSetDescriptorType)):
        found = of_class
    else:
        found = dict.get(own_dict(value, kind), name, of_class)
    return found.__func__ if is_one(type(found), (Static, OfClass)) else found


def in_mro(mro, name):
    for base in mro:
        found = CLASS_DICT(base).get(name, NOTHING)
        if found is not NOTHING:
            return found
    return NOTHING


def own_dict(value, kind):
    if issubclass(kind, types.ModuleType):
        return MODULE_DICT(value)
    getter = in_mro(MRO(kind), "__dict__")
    own = getter.__get__(value) if type(getter) is types.GetSetDescriptorType else None
    return own if issubclass(type(own), dict) else {}


def slot(member, value):
    try:
        return member.__get__(value)
    except AttributeError:
        return NOTHING


# ---- what is told about it ----

def look(shell, code, at, detail):
    """{} or {"text/plain": text}."""
    steps = path_at(code, at)
    value = NOTHING if steps is None else find(shell, steps)
    if value is NOTHING:
        return {}
    kind, rows = type(value), []
    if issubclass(kind, type):
        tell_class(rows, value, steps[-1])
    elif is_one(kind, (Function, Method, *NATIVE)):
        tell(rows, "Signature", signed(steps[-1], value))
        tell(rows, "Docstring", document(value.__func__ if kind is Method else value))
    elif kind is property:
        tell_property(rows, value)
    elif issubclass(kind, types.ModuleType):
        tell(rows, "Docstring", cleaned(MODULE_DICT(value).get("__doc__")))
        tell(rows, "File", plain(MODULE_DICT(value).get("__file__")))
    elif is_one(kind, SLOTS):
        tell(rows, "Docstring", document(value))
    else:
        tell_value(rows, value, kind, steps[-1])
    rows.append(("Type", kind_name(kind)))
    file, source = source_of(shell, value) if detail else (None, None)
    tell(rows, "File", file)
    tell(rows, "Source", source)
    return {"text/plain": "\n".join("%s:%s%s" % (label, "\n" if "\n" in text else " ", text) for label, text in rows)[:TEXT_MAX]}


def tell(rows, label, text):
    if text:
        rows.append((label, text))


def tell_class(rows, value, name):
    mro = MRO(value)
    tell(rows, "Init signature", name + (made_with(mro) or "(...)"))
    tell(rows, "Docstring", cleaned(CLASS_DICT(value).get("__doc__")))
    tell(rows, "Bases", ", ".join(kind_name(base) for base in mro[1:20] if base is not object))


def made_with(mro):
    for base in mro:
        own = CLASS_DICT(base)
        for name in ("__init__", "__new__"):
            found = own.get(name)
            found = found.__func__ if type(found) is staticmethod else found
            if type(found) is Function:
                return signature(found, 1)
        text = CLASS_TEXT(base)
        if base is not object and type(text) is str:
            return RECEIVER.sub("(", text)
    return "()"


def tell_property(rows, value):
    getter = value.fget
    doc = value.__doc__ if type(value.__doc__) is str else None
    tell(rows, "Docstring", cleaned(doc) or (document(getter) if type(getter) is Function else None))
    rows.append(("Value", "not computed: that would run the property's code"))


def tell_value(rows, value, kind, name):
    rows.append(("Value", summary(value, kind)))
    call = in_mro(MRO(kind), "__call__")
    tell(rows, "Call signature", name + signature(call, 1) if type(call) is Function else None)
    if not is_settled(kind):  # numbers and texts need no explanation
        tell(rows, "Class docstring", cleaned(CLASS_DICT(kind).get("__doc__")))


def is_settled(kind):
    return type(kind) is type and kind in names["SUMMARIES"]


def summary(value, kind):
    """Classes of libraries are known by their names, which a class of the user's may have too: only one of C is believed."""
    is_known = is_settled(kind) or not FLAGS(kind) & MADE_BY_PYTHON
    return names["summary"](value, kind)[:names["MAX_SUMMARY"]] if is_known else kind_name(kind)


def plain(text):
    return text if type(text) is str else None


def cleaned(doc):
    return cleandoc(doc[:DOC_MAX]) if type(doc) is str else None


def document(value):
    """A kind that is not Python's own may have code of the user's behind it."""
    return cleaned(value.__doc__) if is_one(type(value), (Function, *NATIVE, *SLOTS)) else None


# ---- signatures ----

def signed(name, value):
    if type(value) is Method:
        called = value.__func__
        return name + signature(called, 1) if type(called) is Function else name + "(...)"
    if type(value) is Function:
        return name + signature(value)
    text = getattr(value, "__text_signature__", None)  # of a kind of Python's own
    return name + (RECEIVER.sub("(", text) if type(text) is str else "(...)")


def signature(function, skipped=0):
    function = wrapped_by(function)
    code, space = function.__code__, function.__annotations__ if not hasattr(Function, "__annotate__") else {}
    names_of, positional, keywords = [plain(name) or "?" for name in code.co_varnames], code.co_argcount, code.co_kwonlyargcount
    given, more, told = function.__defaults__, function.__kwdefaults__, []  # `or` would ask their classes
    defaults = list(tuple.__iter__(() if given is None else given))[-positional or 1:] if positional else []
    more = {} if more is None else more
    for place in range(positional):
        default = place - (positional - len(defaults))
        told.append(parameter(names_of[place], space, defaults[default] if default >= 0 else NOTHING))
        if place + 1 == code.co_posonlyargcount:
            told.append("/")
    rest = positional + keywords
    if code.co_flags & inspect.CO_VARARGS:
        told.append("*" + parameter(names_of[rest], space, NOTHING))
        rest += 1
    elif keywords:
        told.append("*")
    told += [parameter(name, space, dict.get(more, name, NOTHING)) for name in names_of[positional:positional + keywords]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        told.append("**" + parameter(names_of[rest], space, NOTHING))
    if skipped and positional:
        del told[:2 if code.co_posonlyargcount == 1 else 1]
    back = dict.get(space, "return", NOTHING)
    text = None if back is NOTHING else annotation(back)
    return "(%s)%s" % (", ".join(told), " -> %s" % text if text else "")


def wrapped_by(function):
    for _ in range(STEPS_MAX):
        inner = dict.get(function.__dict__, "__wrapped__")
        if type(inner) is not Function:
            break
        function = inner
    return function


def parameter(name, space, default):
    note = dict.get(space, name, NOTHING)
    note = None if note is NOTHING else annotation(note)
    text = "%s: %s" % (name, note) if note else name
    if default is NOTHING:
        return text
    return "%s %s %s" % (text, "=", shown(default)) if note else "%s=%s" % (text, shown(default))


def annotation(note, depth=3):
    kind = type(note)
    if note is None or note is Ellipsis:
        return "None" if note is None else "..."
    if kind is str:
        return note[:VALUE_MAX]
    if issubclass(kind, type):
        return kind_name(note)
    if not depth or kind is type(None) or not is_one(kind, (GENERIC, UNION)):
        return None
    inner = [annotation(item, depth - 1) for item in tuple.__iter__(note.__args__)]
    if None in inner:
        return None
    return " | ".join(inner) if kind is UNION else "%s[%s]" % (annotation(note.__origin__, 0), ", ".join(inner))


def shown(value, depth=2):
    kind = type(value)
    if is_one(kind, (tuple, list)):
        if depth and len(value) <= 5:
            inner = ", ".join(shown(item, depth - 1) for item in value)
            return "[%s]" % inner if kind is list else "(%s%s)" % (inner, "," if len(value) == 1 else "")
    elif kind is dict and not value:
        return "{}"
    elif issubclass(kind, type):
        return kind_name(value)
    elif is_one(kind, (str, bytes)):
        return repr(value) if len(value) <= VALUE_MAX else repr(value[:VALUE_MAX]) + "..."
    elif value is None or is_one(kind, (bool, int, float, complex)):
        return summary(value, kind)
    return "<%s>" % kind_name(kind)


# ---- sources ----

def source_of(shell, value):
    """(file, source), each text or None."""
    kind = type(value)
    if kind is Method:
        value, kind = value.__func__, type(value.__func__)
    if kind is property:
        value, kind = value.fget, type(value.fget)
    if issubclass(kind, type):
        return class_source(shell, value)
    if kind is not Function:
        return None, None
    function = wrapped_by(value)
    code, file = function.__code__, plain(function.__code__.co_filename) or ""
    if file.startswith("<frozen "):
        file = plain(dict.get(function.__globals__, "__file__")) or file
    block = lines_of(file)[max(code.co_firstlineno - 1, 0):][:LINES_MAX]
    try:
        return file, "".join(getblock(block)).rstrip("\n")
    except Exception:  # no whole block: the file is another one by now
        return file, None


def class_source(shell, value):
    own, name = CLASS_DICT(value), CLASS_NAME(value)
    for member in own.values():
        if type(member) is Function:
            code = member.__code__
            return plain(code.co_filename), class_in("".join(lines_of(code.co_filename)), name, code.co_firstlineno)
    if plain(own.get("__module__")) == "__main__" and type(shell.inputs) is list:
        for text in shell.inputs[:-INPUTS_MAX - 1:-1]:
            found = class_in(text, name, None) if type(text) is str else None
            if found:
                return None, found
    return None, None


def class_in(text, name, line):
    import ast
    if type(name) is not str or "class " + name not in text or len(text) > SOURCE_MAX:
        return None
    try:
        tree = ast.parse(text)
    except Exception:
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name == name and (line is None or node.lineno <= line <= node.end_lineno):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            return "\n".join(text.split("\n")[first - 1:node.end_lineno])
    return None


def lines_of(filename):
    """The lines of a cell, as it was kept for tracebacks, or of a file. What a cell put in the place of the kept text is not called."""
    import linecache
    if type(filename) is not str:
        return []
    entry = dict.get(linecache.cache, filename) if type(linecache.cache) is dict else None
    if type(entry) is tuple and len(entry) == 1 and type(entry[0]) is Function and entry[0].__code__ is HELD:
        text = entry[0].__closure__[0].cell_contents
        return text.splitlines(True) if type(text) is str else []
    if type(entry) is tuple and len(entry) == 4 and type(entry[2]) is list:
        return [line for line in entry[2] if type(line) is str]
    try:
        fd = os.open(filename, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return []
    with open(fd, "rb") as file:
        about = os.fstat(fd)
        if not stat.S_ISREG(about.st_mode) or about.st_size > SOURCE_MAX:
            return []
        return file.read(SOURCE_MAX).decode("utf-8", "replace").splitlines(True)


# ---- is it complete? ----

def judge(shell, code):
    try:
        status, indent = shell.judge(code)
    except (SyntaxError, OverflowError, ValueError, MemoryError, RecursionError):
        status, indent = "invalid", ""
    return {"status": status, "indent": indent}
