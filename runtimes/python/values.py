"""Values on the wire (spec/values.md), both ways. What few programs use is in rare.py."""
from _collections import OrderedDict
from _json import encode_basestring, make_encoder, make_scanner

SAFE = (1 << 53) - 1
MAX_DEPTH = 200
MAX_STRING = 256 << 20
MAX_ATTACHMENTS = 65536
PATH_ENDS = 100
INFINITY = float("inf")
NUMBERS = {"NaN": float("nan"), "Infinity": INFINITY, "-Infinity": -INFINITY, "-0": -0.0}
ALL = slice(None)
NUL = b"\\u0000"


class Refused(Exception):
    """A value that cannot travel; every container adds its step to the path while this passes."""

    def __init__(self, what):
        self.what = what
        self.steps = []

    def __str__(self):
        path = "".join(map(step_text, reversed(self.steps)))
        if len(path) > 2 * PATH_ENDS:  # both ends name the place well enough
            path = path[:PATH_ENDS] + "\u2026" + path[-PATH_ENDS:]
        return "$" + path + ": " + self.what


class NotUnicode(Refused):
    def __init__(self):
        super().__init__("string with a lone surrogate cannot be sent here")


def step_text(step):
    if type(step) is int:
        return "[%d]" % step
    if type(step) is str and step.isidentifier():
        return "." + step
    return "[%.80r]" % (step,)


# ---- JSON text ----

def refuse_constant(name):
    raise ValueError(name + " is not JSON")


class Strict:
    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(refuse_constant)
    memo = {}


scan = make_scanner(Strict())
write_chunks = make_encoder(None, None, encode_basestring, None, ":", ",", False, False, False)
SPACE = " \t\r\n"


def parse_json(data):
    text = data.decode("utf-8")
    start = len(text) - len(text.lstrip(SPACE))
    try:
        value, end = scan(text, start)
    except StopIteration:
        raise ValueError("not JSON") from None
    if text[end:].strip(SPACE):
        raise ValueError("text after the JSON")
    return value


def write_json(tree):
    return "".join(write_chunks(tree, 0)).encode("utf-8")


# ---- Python to wire ----

class Encoder:
    def __init__(self, limit):
        self.limit = limit
        self.parts = []
        self.size = 0
        self.open = set()

    def encode(self, value, depth=0):
        handler = EXACT.get(type(value))
        if handler is not None:
            return handler(self, value, depth)
        return self.subclass(value, depth)

    def same(self, value, depth):
        return value

    def string(self, value, depth=0):
        try:
            return self.text(value)
        except NotUnicode:
            return self.attach({"$": "utf16"}, value.encode("utf-16-le", "surrogatepass"))

    def text(self, value):
        if not value.isascii():
            try:
                size = len(value.encode("utf-8"))
            except UnicodeEncodeError:
                raise NotUnicode from None
        else:
            size = len(value)
        if size > MAX_STRING:
            raise Refused("string of %d bytes is over the maximum of %d: write it to a file" % (size, MAX_STRING))
        return value

    def integer(self, value, depth):
        if -SAFE <= value <= SAFE:
            return value
        return {"$": "bigint", "v": digits(value)}

    def real(self, value, depth):
        if value != value:
            return {"$": "number", "v": "NaN"}
        if value in (INFINITY, -INFINITY):
            return {"$": "number", "v": "Infinity" if value > 0 else "-Infinity"}
        if value == 0 and repr(value)[0] == "-":
            return {"$": "number", "v": "-0"}
        return value

    def raw(self, value, depth=0):
        return self.attach({"$": "bytes"}, value)

    def buffer(self, value, depth):
        return self.attach({"$": "bytes"}, memoryview(value).tobytes())

    def attach(self, tag, data):
        if len(self.parts) == MAX_ATTACHMENTS:
            raise Refused("more than %d values of bytes: join them, or write them to a file" % MAX_ATTACHMENTS)
        tag["at"] = self.size
        tag["n"] = len(data)
        self.parts.append(data)
        self.size += len(data)
        check_size(self.size, self.limit)
        return tag

    def enter(self, value, depth):
        if depth >= MAX_DEPTH:
            raise Refused("nested deeper than %d: return it as text (json.dumps), or as a flat list" % MAX_DEPTH)
        if id(value) in self.open:
            raise Refused("cycle cannot be sent: return a copy without the way back")
        self.open.add(id(value))

    def items(self, owner, items, depth):
        self.enter(owner, depth)
        out = []
        try:
            for item in items:
                out.append(self.encode(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        self.open.discard(id(owner))
        return out

    def array(self, value, depth):
        return self.items(value, value, depth)

    def set(self, value, depth):
        return {"$": "set", "v": self.items(value, list(value), depth)}

    def mapping(self, value, depth):
        return self.pairs(value, list(value.items()), depth)

    def pairs(self, owner, pairs, depth):
        self.enter(owner, depth)
        plain = True
        out = []
        for key, item in pairs:
            try:
                if type(key) is not str and not isinstance(key, str):
                    plain = False
                out.append([self.encode(key, depth + 1), self.encode(item, depth + 1)])
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        self.open.discard(id(owner))
        if not plain:
            return {"$": "map", "v": out}
        try:
            tree = dict(out)
        except TypeError:  # a key that is not Unicode is a tag
            return {"$": "object", "v": out}
        return {"$": "object", "v": out} if "$" in tree else tree

    def subclass(self, value, depth):
        """The base decides, read through the base's own methods: an override must not change what is sent."""
        rare = part("rare")
        known, replaced = rare["encode_first"](self, value, depth)
        if known:
            return replaced
        if isinstance(value, str):
            return self.string(str.__str__(value))
        if isinstance(value, int):
            return self.integer(int.__index__(value), depth)
        if isinstance(value, float):
            return self.real(float.__float__(value), depth)
        if isinstance(value, dict):
            kind = OrderedDict if isinstance(value, OrderedDict) else dict
            return self.pairs(value, list(kind.items(value)), depth)
        if isinstance(value, list):
            return self.items(value, list.__getitem__(value, ALL), depth)
        if isinstance(value, tuple):
            return self.items(value, tuple.__getitem__(value, ALL), depth)
        if isinstance(value, (set, frozenset)):
            base = set if isinstance(value, set) else frozenset
            return {"$": "set", "v": self.items(value, list(base.__iter__(value)), depth)}
        if isinstance(value, (bytes, bytearray)):
            return self.buffer(value, depth)
        return rare["encode_other"](self, value, depth)


EXACT = {
    type(None): Encoder.same, bool: Encoder.same, str: Encoder.string, int: Encoder.integer, float: Encoder.real,
    list: Encoder.array, tuple: Encoder.array, dict: Encoder.mapping, set: Encoder.set, frozenset: Encoder.set,
    bytes: Encoder.raw, bytearray: Encoder.buffer, memoryview: Encoder.buffer,
}


class TooLarge(Exception):
    pass


def check_size(size, limit):
    if limit and size > limit:
        raise TooLarge("the result is %d bytes or more, over the limit of %d (resultBytes)" % (size, limit))


def digits(value):
    try:
        return str(value)
    except ValueError:
        return part("rare")["unlimited"](str, value)


def encode(value, limit=0, references=False):
    """The value's JSON text, its attachments, and their size."""
    encoder = part("rare")["Numbered"](limit) if references else Encoder(limit)
    tree = encoder.encode(value)
    if references:
        tree = part("rare")["escape_keys"](tree, part("rare")["are_disordered"])
    text = write_json(tree)
    # Looked for where it costs nothing. A NUL in a key is rare, and no JSON object of the engine can hold it.
    if NUL in text:
        text = write_json(part("rare")["escape_keys"](tree, part("rare")["hold_nul"]))
    check_size(len(text) + encoder.size, limit)
    return text, encoder.parts, encoder.size


# ---- wire to Python ----

class Referring(Exception):
    """The value holds a reference: few do, and only for them are containers numbered."""


class Decoder:
    """One for a frame: attachments may be used once."""

    def __init__(self, attachments):
        self.attachments = attachments
        self.ranges = []

    def decode(self, node):
        """One whole value."""
        ranges = len(self.ranges)
        try:
            return self.one(node, 0)
        except Referring:
            del self.ranges[ranges:]
        return part("rare")["Rebuilder"](self).one(node, 0)

    def one(self, node, depth):
        kind = type(node)
        if kind is str:
            return check_text(node)
        if kind is int:
            if not -SAFE <= node <= SAFE:
                raise Refused("integer outside the safe range must be a bigint")
            return node
        if kind is float:
            if node in (INFINITY, -INFINITY):
                raise Refused("number is too large")
            return node
        if kind is list:
            return self.items(node, depth)
        if kind is dict:
            return self.tagged(node, depth) if "$" in node else self.object(node.items(), depth)
        return node

    def items(self, node, depth, out=None):
        check_depth(depth)
        out = [] if out is None else out
        try:
            for item in node:
                out.append(self.one(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        return out

    def object(self, pairs, depth, out=None):
        check_depth(depth)
        out = {} if out is None else out
        for key, item in pairs:
            try:
                out[check_text(key)] = self.one(item, depth + 1)
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        return out

    def tagged(self, node, depth):
        kind = node["$"]
        handler = (TAGS.get(kind) or part("rare")["TAGS"].get(kind)) if type(kind) is str else None
        if handler is None:
            raise Refused("unknown kind %.80r" % (kind,))
        return handler(self, node, depth)

    def number(self, node, depth):
        name = only(node, str)
        if name not in NUMBERS:
            raise Refused("number %.80r" % name)
        return NUMBERS[name]

    def undefined(self, node, depth):
        if len(node) != 1:
            raise Refused("undefined has fields")

    def bigint(self, node, depth):
        text = only(node, str)
        figures = text[1:] if text[:1] == "-" else text
        if not (figures.isascii() and figures.isdigit()) or (figures[0] == "0" and text != "0"):
            raise Refused("bigint %.80r" % text)
        try:
            return int(text)
        except ValueError:
            return part("rare")["unlimited"](int, text)

    def bytes(self, node, depth):
        return bytes(self.attached(node, ()))

    def utf16(self, node, depth):
        data = self.attached(node, ())
        if len(data) % 2:
            raise Refused("half a unit of UTF-16")
        return bytes(data).decode("utf-16-le", "surrogatepass")

    def attached(self, node, more):
        if "b64" in node:
            fields(node, ("$", "b64", *more))
            return part("rare")["from_base64"](node["b64"])
        fields(node, ("$", "at", "n", *more))
        at, size = node["at"], node["n"]
        if type(at) is not int or type(size) is not int or at < 0 or size < 0:
            raise Refused("attachment range is not a pair of sizes")
        if at + size > len(self.attachments):
            raise Refused("attachment range is outside the frame")
        self.ranges.append((at, size))
        if len(self.ranges) > MAX_ATTACHMENTS:
            raise Refused("more than %d attachments" % MAX_ATTACHMENTS)
        return self.attachments[at:at + size]

    def array(self, node, depth):
        return part("rare")["decode_array"](node.get("t"), self.attached(node, ("t",)))

    def date(self, node, depth):
        fields(node, ("$", "v"))
        return part("rare")["decode_date"](node["v"])

    def set(self, node, depth, out=None):
        items = Decoder.items(self, only(node, list), depth)
        out = set() if out is None else out
        for index, item in enumerate(items):
            try:
                add_once(out, self.key(item), out.add)
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        return out

    def map(self, node, depth, out=None):
        check_depth(depth)
        out = {} if out is None else out
        for index, pair in enumerate(pair_list(node)):
            try:
                key = self.key(self.one(pair[0], depth + 1))
                add_once(out, key)
                out[key] = self.one(pair[1], depth + 1)
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        return out

    def escaped(self, node, depth):
        return self.object(string_pairs(node), depth)

    def key(self, value):
        return hashable(value)

    def finish(self):
        end = 0
        for at, size in sorted(self.ranges):
            if at < end and size:
                raise Refused("attachment ranges overlap")
            end = max(end, at + size)


TAGS = {
    "number": Decoder.number, "undefined": Decoder.undefined, "hole": Decoder.undefined, "utf16": Decoder.utf16,
    "bigint": Decoder.bigint, "bytes": Decoder.bytes, "buffer": Decoder.bytes, "array": Decoder.array, "date": Decoder.date, "set": Decoder.set, "map": Decoder.map,
    "object": Decoder.escaped,
}


def check_text(text):
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("string has a lone surrogate") from None
    return text


def check_depth(depth):
    if depth >= MAX_DEPTH:
        raise Refused("nested deeper than %d" % MAX_DEPTH)


def fields(node, names):
    if len(node) != len(names) or any(name not in node for name in names):
        raise Refused("%s must have exactly the fields %s" % (node["$"], ", ".join(names[1:])))


def only(node, kind):
    fields(node, ("$", "v"))
    if type(node["v"]) is not kind:
        raise Refused("%s has a wrong value" % node["$"])
    return node["v"]


def pair_list(node):
    pairs = only(node, list)
    if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise Refused("%s must be a list of pairs" % node["$"])
    return pairs


def string_pairs(node):
    pairs = pair_list(node)
    seen = set()
    for key, _ in pairs:
        if type(key) is not str:
            raise Refused("object has a key that is not a string")
        add_once(seen, key, seen.add)
    return pairs


def hashable(value):
    if type(value) is list:
        return tuple(map(hashable, value))
    try:
        hash(value)
    except TypeError:
        raise Refused("%s cannot be a set item or map key in Python" % type(value).__name__) from None
    return value


def add_once(seen, key, add=None):
    """1, 1.0 and True are one key in Python: to merge them silently would lose data."""
    if key in seen:
        raise Refused("%.80r is there twice" % (key,))
    if add:
        add(key)
