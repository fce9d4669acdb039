"""Values that few programs send: dates, typed arrays, enums, dataclasses, numpy. Loaded when first met."""
import sys

values = part("values")
Refused = values["Refused"]
modules = sys.modules

CODES = {"i8": "b", "u8": "B", "u8c": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
         "f32": "f", "f64": "d"}
KINDS = {**dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), **dict.fromkeys("fd", "f")}


def datetime_types():
    try:
        # datetime.py is 2,500 lines in front of the same classes.
        import _datetime as module
    except ImportError:
        import datetime as module
    return module


def is_a(value, module, name):
    """By name, so that nothing is imported; the module may be gone from sys.modules."""
    return any(kind.__module__ == module and kind.__name__ == name for kind in type(value).__mro__)


# ---- Python to wire ----

def encode_first(encoder, value, depth):
    """(True, tree) for what must be seen before its base class: an enum is a str, a named tuple a tuple."""
    if is_a(value, "enum", "Enum"):
        return True, encoder.encode(value.value, depth)
    if is_a(value, "numpy", "generic"):
        return True, encode_scalar(encoder, value, depth)
    if isinstance(value, tuple) and hasattr(type(value), "_fields"):
        return True, encoder.pairs(value, list(zip(type(value)._fields, tuple(value))), depth)
    if hasattr(type(value), "__dataclass_fields__"):
        return True, encoder.pairs(value, dataclass_pairs(value), depth)
    return False, None


def encode_other(encoder, value, depth):
    if is_a(value, "datetime", "date"):
        return {"$": "date", "v": date_text(value)}
    if is_a(value, "array", "array"):
        return encode_array(encoder, value)
    if is_a(value, "numpy", "ndarray"):
        return encode_numpy(encoder, value, depth)
    raise Refused("%s cannot be sent" % type(value).__name__)


def dataclass_pairs(value):
    fields = type(value).__dataclass_fields__.values()
    return [(field.name, getattr(value, field.name)) for field in fields if field._field_type.name == "_FIELD"]


def date_text(value):
    types = datetime_types()
    if value != value:
        return None
    if not isinstance(value, types.datetime):
        return types.date.isoformat(value)
    if getattr(value, "nanosecond", 0):
        raise Refused("%s with nanoseconds cannot be sent" % type(value).__name__)
    offset = types.datetime.utcoffset(value)
    if offset is not None and (offset.seconds % 60 or offset.microseconds):
        value = types.datetime.astimezone(value, types.timezone.utc)
    text = types.datetime.isoformat(value)
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def encode_array(encoder, value):
    if value.typecode not in KINDS:
        raise Refused("array of type %r cannot be sent" % value.typecode)
    if sys.byteorder == "big":
        value = value[:]
        value.byteswap()
    tag = {"$": "array", "t": "%s%d" % (KINDS[value.typecode], value.itemsize * 8)}
    return encoder.attach(tag, memoryview(value).tobytes())


def encode_numpy(encoder, value, depth):
    kind, size = value.dtype.kind, value.dtype.itemsize
    # What lies under a mask is not the user's data.
    if hasattr(value, "mask"):
        raise Refused("%s cannot be sent" % type(value).__name__)
    if kind in "mM":
        raise Refused("array of %s cannot be sent" % value.dtype)
    if value.ndim == 1 and "%s%d" % (kind, size * 8) in CODES:
        tag = {"$": "array", "t": "%s%d" % (kind, size * 8)}
        return encoder.attach(tag, value.astype(value.dtype.newbyteorder("<")).tobytes())
    return encoder.encode(value.tolist(), depth)


def encode_scalar(encoder, value, depth):
    plain = value.item()
    if value.dtype.kind in "mM" or type(plain) is type(value):
        raise Refused("%s cannot be sent" % type(value).__name__)
    return encoder.encode(plain, depth)


def unlimited(convert, value):
    """Python bounds decimal conversion since 3.11; the wire bounds strings only, and the box has a CPU limit."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return convert(value)
    finally:
        sys.set_int_max_str_digits(before)


# ---- wire to Python ----

def from_base64(text):
    from binascii import a2b_base64, b2a_base64
    try:
        data = a2b_base64(text)
        exact = b2a_base64(data, newline=False).decode() == text
    except (TypeError, ValueError):
        exact = False
    if not exact:
        raise Refused("bytes are not base64")
    return data


def decode_array(name, data):
    from array import array
    code = CODES.get(name) if type(name) is str else None
    if code is None:
        raise Refused("typed array of unknown type %.80r" % (name,))
    out = array(code)
    if len(data) % out.itemsize:
        raise Refused("%d bytes are no whole number of %s" % (len(data), name))
    out.frombytes(data)
    if sys.byteorder == "big":
        out.byteswap()
    return out


def decode_date(text):
    if text is None:
        return None
    try:
        return parse_date(text)
    except (TypeError, ValueError, IndexError, AttributeError, OverflowError):
        raise Refused("date %.80r" % (text,)) from None


def parse_date(text):
    types = datetime_types()
    day = numbers(text[:10], "dddd-dd-dd")
    if len(text) == 10:
        return types.date(*day)
    clock = numbers(text[10:19], "Tdd:dd:dd")
    rest = text[19:]
    micros = 0
    if rest[:1] == ".":
        figures = rest[1:].rstrip("Z") if rest.endswith("Z") else rest[1:].partition("+")[0].partition("-")[0]
        micros = parse_micros(figures)
        rest = rest[1 + len(figures):]
    return types.datetime(*day, *clock, micros, parse_zone(rest, types))


def parse_micros(figures):
    numbers(figures, "d" * max(1, len(figures)))
    if figures[6:].strip("0"):
        raise ValueError("finer than a microsecond")
    return int(figures[:6].ljust(6, "0"))


def parse_zone(text, types):
    if not text:
        return None
    if text == "Z":
        return types.timezone.utc
    hours, minutes = numbers(text[1:], "dd:dd")
    if text[0] not in "+-" or hours > 23 or minutes > 59:
        raise ValueError(text)
    offset = types.timedelta(hours=hours, minutes=minutes)
    return types.timezone(-offset if text[0] == "-" else offset)


def numbers(text, shape):
    """The numbers in a text of exactly this shape, d for a digit."""
    if len(text) != len(shape):
        raise ValueError(text)
    for have, want in zip(text, shape):
        if have != want and not (want == "d" and have in "0123456789"):
            raise ValueError(text)
    return [int(figures) for figures in "".join(c if c in "0123456789" else " " for c in text).split()]
