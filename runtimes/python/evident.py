"""Values that have no kind of their own on the wire, but one form that everybody would give them: decimals, paths, iterators, data
frames, objects with public attributes (the table is in spec/values.md). Loaded when first met. Iterators and to_dict are the user's
code: it runs here, and an exception of it is the call's."""
import sys
from _collections_abc import ItemsView, Iterator, KeysView, Mapping, Sequence, Set, ValuesView

Refused = part("values")["Refused"]
ITEMS_MAX = 1000000
WAY_OUT = "return its data, or give its class a method to_dict()"
MEMBER = type(type("Slotted", (), {"__slots__": ("a",)}).a)
POINTER = tuple.__itemsize__


def kin(value):
    """Package and name of each class of the value: classes are known by these, so that nothing is imported."""
    return [(kind.__module__.partition(".")[0] if type(kind.__module__) is str else "", kind.__name__) for kind in type(value).__mro__]


def encode(encoder, value, depth):
    for known in kin(value):
        if known in KNOWN:
            return KNOWN[known](encoder, value, depth)
    if isinstance(value, BaseException):
        return encode_exception(encoder, value, depth)
    if isinstance(value, (KeysView, ItemsView, ValuesView)):
        return listed(encoder, value, depth)
    if isinstance(value, Mapping):
        return encoder.pairs(value, list(value.items()), depth)
    if isinstance(value, Set):
        return {"$": "set", "v": listed(encoder, value, depth)}
    if isinstance(value, (Sequence, Iterator)):
        return listed(encoder, value, depth)
    if hasattr(type(value), "__fspath__"):
        return encoder.encode(value.__fspath__(), depth)
    return encode_object(encoder, value, depth)


def bounded(items):
    out = []
    for item in items:
        if len(out) == ITEMS_MAX:
            raise Refused("%s of more than %d items cannot be sent: return a list of those that are needed" % (
                type(items).__name__, ITEMS_MAX))
        out.append(item)
    return out


def listed(encoder, value, depth):
    return encoder.items(value, bounded(value), depth)


# ---- objects ----

def is_plain(kind):
    """Whether instances hold nothing but attributes: no state of C, such as a file or a lock has."""
    slots = sum(type(member) is MEMBER for base in kind.__mro__ for member in vars(base).values())
    offsets = (kind.__dictoffset__ > 0) + (kind.__weakrefoffset__ > 0)
    return kind is not object and kind.__basicsize__ == object.__basicsize__ + POINTER * (slots + offsets)


def attributes_of(value):
    kind = type(value)
    names = [name for base in reversed(kind.__mro__) for name, member in vars(base).items() if type(member) is MEMBER]
    found = {name: getattr(value, name) for name in names if hasattr(value, name)}
    if kind.__dictoffset__ != 0:
        found.update(object.__getattribute__(value, "__dict__"))
    return found


def public(attributes):
    return [(name, item) for name, item in attributes.items() if type(name) is str and name[:1] != "_"]


def encode_object(encoder, value, depth):
    kind = type(value)
    plain = is_plain(kind)
    attributes = attributes_of(value) if plain else {}
    pairs = public(attributes)
    if pairs:
        return encoder.pairs(value, pairs, depth)
    for hook in ("__json__", "to_dict", "tolist"):
        if any(hook in vars(base) for base in kind.__mro__):
            encoder.enter(value, depth)
            tree = encoder.encode(getattr(value, hook)(), depth + 1)
            encoder.open.discard(id(value))
            return tree
    if plain and not attributes:
        return {}
    raise Refused("%s cannot be sent: %s" % (kind.__name__, "it has no public attributes; " + WAY_OUT if plain else WAY_OUT))


def encode_exception(encoder, value, depth):
    own = dict(public(vars(value)))
    told = {"name": own.get("name", type(value).__name__), "message": part("errors")["message_of"](value)}
    return encoder.pairs(value, list({**told, **own}.items()), depth)


# ---- of the standard library ----

def as_text(encoder, value, depth):
    return encoder.text(str(value))


def seconds(encoder, value, depth):
    return None if value != value else encoder.real(value.total_seconds(), depth)


def complex_parts(encoder, value, depth):
    return {"real": encoder.real(value.real, depth), "imag": encoder.real(value.imag, depth)}


def namespace(encoder, value, depth):
    return encoder.pairs(value, public(vars(value)), depth)


def row(encoder, value, depth):
    return encoder.pairs(value, [(name, value[name]) for name in value.keys()], depth)


def refused(encoder, value, depth):
    raise Refused("%s cannot be sent: %s" % (type(value).__name__, WAY_OUT))


# ---- pandas, polars ----

def frame(encoder, value, depth):
    if not value.columns.is_unique:
        raise Refused("DataFrame in which two columns have one name cannot be sent: return its to_dict('split')")
    return encoder.items(value, value.to_dict("records"), depth)


def series(encoder, value, depth):
    """A list where the index only counts."""
    items = value.tolist()
    if is_counting(value.index):
        return encoder.items(value, items, depth)
    pairs = list(zip(value.index.tolist(), items))
    return encoder.pairs(value, pairs, depth) if value.index.is_unique else encoder.items(value, pairs, depth)


def is_counting(index):
    return ("pandas", "RangeIndex") in kin(index) and index.start == 0 and index.step == 1


def tolist(encoder, value, depth):
    return encoder.items(value, value.tolist(), depth)


def none(encoder, value, depth):
    return None


KNOWN = {
    **dict.fromkeys([("decimal", "Decimal"), ("fractions", "Fraction"), ("uuid", "UUID"), ("pathlib", "PurePath"), ("datetime", "time"),
                     ("datetime", "tzinfo"), ("ipaddress", "_IPAddressBase"), ("collections", "UserString"), ("pandas", "Period"),
                     ("pandas", "Interval")], as_text),
    ("datetime", "timedelta"): seconds, ("builtins", "complex"): complex_parts, ("types", "SimpleNamespace"): namespace,
    ("sqlite3", "Row"): row, ("_io", "_IOBase"): refused, 
    ("pandas", "DataFrame"): frame, ("pandas", "Series"): series, ("pandas", "Index"): tolist, ("pandas", "NAType"): none,
    ("pandas", "ExtensionArray"): tolist, ("polars", "DataFrame"): lambda encoder, value, depth: encoder.items(value, value.to_dicts(), depth),
    ("polars", "Series"): lambda encoder, value, depth: encoder.items(value, value.to_list(), depth),
}


# ---- numpy ----

def encode_numpy(encoder, value, depth):
    """Values that its own tolist() and item() would turn into numbers without a meaning, and masked arrays."""
    if hasattr(value, "mask"):
        return encoder.encode(value.tolist(), depth)
    return (numpy_array if ("numpy", "ndarray") in kin(value) else numpy_scalar)(encoder, value, depth)


UNITS_OF_DAYS = ("Y", "M", "W", "D")
UNITS_OF_SECONDS = ("h", "m", "s")


def numpy_date(value):
    """The text of a datetime64: to the nanosecond at most."""
    unit = value.dtype.str.partition("[")[2].rstrip("]").lstrip("0123456789")
    if value != value:
        return {"$": "date", "v": None}
    target = "D" if unit in UNITS_OF_DAYS else "s" if unit in UNITS_OF_SECONDS else unit if unit in ("ms", "us", "ns") else "ns"
    text, _, fraction = str(value.astype("datetime64[%s]" % target)).partition(".")
    if text[:1] in "-+" or text[4:5] != "-" or text[:4] == "0000":
        raise Refused("datetime64 outside the years 1 to 9999 cannot be sent: return its text, str(value)")
    fraction = fraction.ljust(9, "0")
    fraction = fraction[:6] if fraction[6:] == "000" else fraction
    return {"$": "date", "v": text if not fraction.strip("0") else text + "." + fraction}


def numpy_duration(encoder, value, depth):
    if value != value:
        return None
    numpy = sys.modules["numpy"]
    try:
        return encoder.real(float(value / numpy.timedelta64(1, "s")), depth)
    except TypeError:
        raise Refused("timedelta64 of months or years has no length in seconds and cannot be sent: return its number, astype(int)") from None


def numpy_scalar(encoder, value, depth):
    kind = value.dtype.kind
    if kind == "M":
        return numpy_date(value)
    if kind == "m":
        return numpy_duration(encoder, value, depth)
    if kind == "c":
        return complex_parts(encoder, complex(value), depth)
    if kind == "f":
        return encoder.real(float(value), depth)
    if value.dtype.names:
        return encoder.pairs(value, [(name, value[name]) for name in value.dtype.names], depth)
    raise Refused("%s of numpy cannot be sent: return its text, str(value)" % type(value).__name__)


def numpy_array(encoder, value, depth):
    if value.ndim == 0:
        return numpy_scalar(encoder, value[()], depth)
    return encoder.items(value, list(value), depth)
