"""Values that few programs send: dates, typed arrays, enums, dataclasses, numpy, patterns, errors,
and references among containers. Loaded on first use."""
import sys

values = part("values")
Refused, Referring, Encoder, Decoder = values["Refused"], values["Referring"], values["Encoder"], values["Decoder"]
EXACT, fields, check_text, check_depth = values["EXACT"], values["fields"], values["check_text"], values["check_depth"]
modules = sys.modules
BUILTINS = __builtins__

CODES = {"i8": "b", "u8": "B", "u8c": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
         "f32": "f", "f64": "d"}
PATTERN_FLAGS = {"i": 2, "m": 8, "s": 16}
OPEN = object()
KINDS = {**dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), **dict.fromkeys("fd", "f")}


def datetime_types():
    try:
        # datetime.py adds 2,500 lines before the same classes.
        import _datetime as module
    except ImportError:
        import datetime as module
    return module


def is_a(value, module, name):
    """By name, so that nothing is imported; the module may be gone from sys.modules."""
    return any(kind.__module__ == module and kind.__name__ == name for kind in type(value).__mro__)


# ---- Python to wire ----

def encode_first(encoder, value, depth):
    """(True, tree) for values that must be checked before their base class: an enum is a str, a named tuple a tuple."""
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
    if is_a(value, "re", "Pattern"):
        return encode_pattern(encoder, value)
    return part("evident")["encode"](encoder, value, depth)


def dataclass_pairs(value):
    fields = type(value).__dataclass_fields__.values()
    return [(field.name, getattr(value, field.name)) for field in fields if field._field_type.name == "_FIELD"]


def date_text(value):
    types = datetime_types()
    if value != value:
        return None
    if not isinstance(value, types.datetime):
        return types.date.isoformat(value)
    offset = types.datetime.utcoffset(value)
    if offset is not None and (offset.seconds % 60 or offset.microseconds):
        value = types.datetime.astimezone(value, types.timezone.utc)
    text = types.datetime.isoformat(value)
    nanoseconds = getattr(value, "nanosecond", 0)
    if nanoseconds:
        text = types.datetime.isoformat(value, timespec="microseconds")
        text = "%s%03d%s" % (text[:26], nanoseconds, text[26:])
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def encode_array(encoder, value):
    if value.typecode not in KINDS:
        raise Refused("array of type %r cannot be sent: return its list, tolist()" % value.typecode)
    if sys.byteorder == "big":
        value = value[:]
        value.byteswap()
    tag = {"$": "array", "t": "%s%d" % (KINDS[value.typecode], value.itemsize * 8)}
    return encoder.attach(tag, memoryview(value).tobytes())


def encode_numpy(encoder, value, depth):
    kind, size = value.dtype.kind, value.dtype.itemsize
    # Data under a mask is not the user's.
    if hasattr(value, "mask"):
        return encoder.encode(value.tolist(), depth)
    if kind in "mMcV":
        return part("evident")["numpy_array"](encoder, value, depth)
    if value.ndim == 1 and "%s%d" % (kind, size * 8) in CODES:
        tag = {"$": "array", "t": "%s%d" % (kind, size * 8)}
        return encoder.attach(tag, value.astype(value.dtype.newbyteorder("<")).tobytes())
    return encoder.encode(value.tolist(), depth)


def encode_scalar(encoder, value, depth):
    plain = value.item()
    if value.dtype.kind in "mMcV" or type(plain) is type(value):
        return part("evident")["numpy_scalar"](encoder, value, depth)
    return encoder.encode(plain, depth)


def encode_pattern(encoder, value):
    # 32 is re.UNICODE, the default for patterns of text; the others have no letter.
    if type(value.pattern) is not str or value.flags & ~(sum(PATTERN_FLAGS.values()) | 32):
        raise Refused("Pattern of bytes or with flags other than I, M and S cannot be sent: return its pattern")
    flags = "".join(letter for letter, flag in PATTERN_FLAGS.items() if value.flags & flag)
    return {"$": "regexp", "source": encoder.text(value.pattern), "flags": flags}


class Numbered(Encoder):
    """Sends a container once; further occurrences send its number."""

    def __init__(self, limit):
        super().__init__(limit)
        self.numbers = {}
        self.kept = []

    def encode(self, value, depth=0):
        number = self.numbers.get(id(value))
        if number is not None:
            return {"$": "ref", "n": number}
        # Not super().encode(): one more frame for each of 200 containers exceeds Python's recursion limit.
        handler = EXACT.get(type(value), Encoder.subclass)
        return handler(self, value, depth)

    def enter(self, value, depth):
        check_depth(depth)
        # Keep the value alive: Python gives the id of a freed object to another.
        self.numbers[id(value)] = len(self.kept)
        self.kept.append(value)


def are_disordered(keys):
    """JavaScript reads indices first, in ascending order, and would number containers in that order."""
    last = -1
    for key in keys:
        index = is_index(key)
        if index and int(key) < last:
            return True
        last = int(key) if index else 1 << 32
    return False


def hold_nul(keys):
    return any("\0" in key for key in keys)


def is_index(key):
    return len(key) <= 10 and key.isascii() and key.isdigit() and (key[0] != "0" or key == "0") and int(key) < 0xffffffff


def escape_keys(tree, matter):
    """Objects whose keys matter become pairs, in place: the engine's JSON objects cannot hold a key
    with NUL, its strings can. Tags have no such keys."""
    if type(tree) is not dict and type(tree) is not list:
        return tree
    for key, item in tree.items() if type(tree) is dict else enumerate(tree):
        tree[key] = escape_keys(item, matter)
    if type(tree) is list or not matter(tree):
        return tree
    return {"$": "object", "v": [[key, item] for key, item in tree.items()]}


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
    numbers(figures, "d" * min(max(1, len(figures)), 9))
    # A datetime holds microseconds; C++ and Ruby send nanoseconds.
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


class Rebuilder(Decoder):
    """Decodes a value with references: numbers every container as it opens."""

    def __init__(self, plain):
        self.attachments, self.ranges = plain.attachments, plain.ranges
        self.opened = []
        self.unfinished = set()

    def open(self, out):
        self.opened.append(out)
        return out

    def items(self, node, depth):
        out = self.open([])
        self.unfinished.add(id(out))
        super().items(node, depth, out)
        self.unfinished.discard(id(out))
        return out

    def object(self, pairs, depth):
        return super().object(ordered(pairs), depth, self.open({}))

    def tagged(self, node, depth):
        kind = node["$"]
        if kind == "object":
            return super().object(values["string_pairs"](node), depth, self.open({}))
        if kind == "set":
            return self.set(node, depth, self.open(set()))
        if kind == "map":
            return self.map(node, depth, self.open({}))
        if kind == "class":
            number = len(self.opened)
            self.open(OPEN)
            self.opened[number] = carried(self, node, depth)
            return self.opened[number]
        return super().tagged(node, depth)

    def reference(self, number):
        if type(number) is not int or not 0 <= number < len(self.opened) or self.opened[number] is OPEN:
            raise Refused("reference to what is not opened before it")
        return self.opened[number]

    def key(self, value):
        check_tree(value, set(self.unfinished), 0)
        return super().key(value)


def ordered(pairs):
    if are_disordered(key for key, _ in pairs):
        raise Refused("an object in a value with references must have its keys in JavaScript's order")
    return pairs


def check_tree(value, seen, depth):
    """It becomes a tuple: a copy, so it must be finished and hold no cycle; and its hash,
    recomputed each time, visits shared values each time."""
    if type(value) is not list:
        return
    check_depth(depth)
    if id(value) in seen:
        raise Refused("an array that is in itself, or twice in one item or key, cannot be hashed in Python")
    seen.add(id(value))
    for item in value:
        check_tree(item, seen, depth + 1)


def reference(decoder, node, depth):
    fields(node, ("$", "n"))
    if type(decoder) is Decoder:
        raise Referring
    return decoder.reference(node["n"])


def decode_pattern(decoder, node, depth):
    import re
    fields(node, ("$", "source", "flags"))
    source, letters = node["source"], node["flags"]
    if type(source) is not str or type(letters) is not str:
        raise Refused("regexp has a wrong source or flags")
    if set(letters) - set("dgimsuvy") or len(set(letters)) != len(letters):
        raise Refused("regexp has the flags %.80r" % letters)
    try:
        return re.compile(check_text(source), sum(PATTERN_FLAGS.get(letter, 0) for letter in letters))
    except Refused:
        raise
    except Exception as error:
        raise Refused("regexp is none in Python: %.200s" % error) from None


def decode_error(decoder, node, depth):
    told = values["only"](node, dict)
    check_depth(depth)
    texts = {}
    for name in ("name", "message", "stack"):
        text = told.get(name, "" if name == "stack" else None)
        if type(text) is dict and text.get("$") == "utf16":
            text = decoder.utf16(text, depth)
        elif type(text) is str:
            check_text(text)
        else:
            raise Refused("error has a wrong %s" % name)
        texts[name] = text
    if told.keys() - {"name", "message", "stack", "fields"}:
        raise Refused("error has an unknown field")
    error = make_error(texts["name"], texts["message"])
    if "stack" in told:
        error.__dict__["stack"] = texts["stack"]
    pairs = field_pairs(told.get("fields", {}))
    if type(decoder) is Rebuilder:
        decoder.open(error)
        pairs = pairs if type(pairs) is list else ordered(pairs)
    for key, item in pairs:
        try:
            if key[:2] == key[-2:] == "__":
                raise Refused("this name cannot be a field in Python")
            item = decoder.one(item, depth + 1)
            if key not in ("name", "message", "stack"):
                error.__dict__[check_text(key)] = item
        except Refused as refusal:
            refusal.steps.append(key)
            raise
    return error


def field_pairs(node):
    if type(node) is not dict or node.get("$", "object") != "object":
        raise Refused("error has wrong fields")
    return values["string_pairs"](node) if "$" in node else node.items()


def make_error(name, message):
    """An error of a class that Python lacks becomes an Exception whose attribute `name` holds the name."""
    kind = BUILTINS.get(name)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    error = Exception(message)
    if name != "Exception":
        error.__dict__["name"] = name
    return error


def carried(decoder, node, depth):
    """Kinds with a class in JavaScript only are decoded as their parts."""
    fields(node, ("$", "t", "v"))
    name = node["t"]
    if type(name) is not str or not (name.isascii() and name.isalpha() and len(name) <= 64):
        raise Refused("class of the name %.80r" % (name,))
    check_depth(depth)
    return decoder.one(node["v"], depth + 1)


TAGS = {"ref": reference, "regexp": decode_pattern, "error": decode_error, "class": carried}
