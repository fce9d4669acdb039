"""The contents of a context for tools: its variables, and completions."""
import sys
import types

MAX_VARIABLES = 1000
MAX_SUMMARY = 200
MAX_MATCHES = 500
MODULE_OF = type.__dict__["__module__"].__get__


def describe(shell):
    hidden = shell.user_ns_hidden
    variables = []
    for name, value in list(shell.user_ns.items()):
        if type(name) is not str or name[:1] == "_" or (name in hidden and hidden[name] is value):
            continue
        if len(variables) == MAX_VARIABLES:
            break
        kind = type(value)
        variables.append({"name": name, "type": kind_name(kind), "summary": summary(value, kind)[:MAX_SUMMARY]})
    return {"variables": variables}


def kind_name(kind):
    name = type.__getattribute__(kind, "__qualname__")
    module = MODULE_OF(kind)
    return name if module in (None, "builtins") or type(module) is not str else "%s.%s" % (module, name)


def summary(value, kind):
    """Runs no user code: values of unknown classes are shown without calling their repr."""
    try:
        # To look a class up hashes it, which is a method of its metaclass.
        known = SUMMARIES.get(kind) if type(kind) is type else None
        known = known or of_library(kind)
        return known(value) if known else kind_name(kind)
    except Exception:
        return kind_name(kind)


def of_library(kind):
    """A class of the user's may have the name of a library's."""
    place, _, name = kind_name(kind).rpartition(".")
    module = sys.modules.get(place)
    return LIBRARIES.get("%s.%s" % (place, name)) if type(module) is types.ModuleType and vars(module).get(name) is kind else None


def short(value):
    return repr(value)


def of_text(value):
    cut = value[:MAX_SUMMARY]
    return repr(cut) if len(cut) == len(value) else "%s... (%d)" % (repr(cut[:150]), len(value))


def of_int(value):
    return repr(value) if value.bit_length() < 512 else "%d bits" % value.bit_length()


def of_items(value):
    return "%d item%s" % (len(value), "" if len(value) == 1 else "s")


def of_function(value):
    code = value.__code__
    return "%s(%s)" % (value.__name__, ", ".join(code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]))


def of_shape(value):
    return "shape %s, %s" % (value.shape, value.dtype)


def of_frame(value):
    columns = [str(name) for name in value.columns[:20]]
    return "%d rows, %d columns: %s%s" % (*value.shape, ", ".join(columns), ", ..." if value.shape[1] > 20 else "")


def of_series(value):
    return "%d values, %s" % (len(value), value.dtype)


SUMMARIES = {
    **dict.fromkeys((bool, float, complex, type(None), range), short), int: of_int, str: of_text, bytes: of_text,
    **dict.fromkeys((list, dict, tuple, set, frozenset, bytearray), of_items), types.FunctionType: of_function,
    types.ModuleType: lambda value: str(value.__name__), type: kind_name,
}
LIBRARIES = {
    "numpy.ndarray": of_shape, "pandas.core.frame.DataFrame": of_frame, "pandas.core.series.Series": of_series,
    "torch.Tensor": of_shape, "polars.dataframe.frame.DataFrame": of_frame, "polars.series.series.Series": of_series,
}


def complete(shell, code, at):
    """`at`, `from` and `to` count characters (code points)."""
    if not hasattr(shell, "Completer"):
        return shell.complete(code, at)
    from IPython.core.completer import provisionalcompleter, rectify_completions
    with provisionalcompleter():
        found = []
        for completion in rectify_completions(code, shell.Completer.completions(code, at)):
            if completion.text[:1] != "%" or "%" in code[:at]:
                found.append(completion)
            if len(found) == MAX_MATCHES:
                break
    if not found:
        return None
    return {"matches": [completion.text for completion in found], "from": found[0].start, "to": found[0].end}
