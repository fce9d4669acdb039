"""Values on the wire (spec/values.md), both ways: the client imports this file, and the agent in a box runs the
same one (runtimes/python/wire.py is a link to it). Each derives its Encoder and its Decoder from those here.

A box pays for every import at each cold call, and its Python may be 3.9: modules are imported where a value needs
them, and annotations are texts."""
import builtins
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable
    from typing import Any

    Tree = Any  # json.dumps accepts it
    Handler = Callable[["Decoder", dict[str, Tree], int], Any]

SAFE = (1 << 53) - 1
MAX_DEPTH = 200
MAX_STRING = 256 << 20
MAX_ATTACHMENTS = 65536
MAX_FRAME = 1 << 30
MAX_JSON = 256 << 20
PATH_ENDS = 100
INFINITY = float("inf")
NUMBERS = {"NaN": float("nan"), "Infinity": INFINITY, "-Infinity": -INFINITY, "-0": -0.0}
ALL = slice(None)
CODES = {"i8": "b", "u8": "B", "u8c": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
         "f32": "f", "f64": "d"}
KINDS = {**dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), **dict.fromkeys("fd", "f")}
PATTERN_FLAGS = {"i": 2, "m": 8, "s": 16}
REGEXP_FLAGS = set("dgimsuvy")
UNICODE_FLAG = 32  # re.UNICODE: every pattern of text has it
BUILTINS = dict(vars(builtins))
OPEN = object()

# A larger set or dict is checked for keys that were chosen to have one hash, which makes it quadratic.
SUSPICIOUS = 1000
PATTERNS_MAX = 4096  # characters of patterns in a value: compiling one holds all threads, up to 3.5 ms a character


class Refused(Exception):
    """A value that cannot travel; every container adds its step to the path while this passes."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.steps: "list[Any]" = []

    def __str__(self) -> str:
        return self.text("$")

    def text(self, root: str) -> str:
        path = "".join(map(step_text, reversed(self.steps)))
        if len(path) > 2 * PATH_ENDS:  # both ends name the place well enough
            path = path[:PATH_ENDS] + "\u2026" + path[-PATH_ENDS:]
        return root + path + ": " + self.what


class NotUnicode(Refused):
    def __init__(self) -> None:
        super().__init__("string with a lone surrogate cannot be sent here")


def step_text(step: "Any") -> str:
    if type(step) is int:
        return "[%d]" % step
    if type(step) is str and step.isidentifier():
        return "." + step
    return "[%.80r]" % (step,)


# ---- frames: u32 length, u32 JSON length, JSON, attachments; little endian ----

class BadFrame(Exception):
    """The stream cannot be followed any further."""

    def __init__(self, what: str, is_too_large: bool = False) -> None:
        super().__init__(what)
        self.is_too_large = is_too_large


def frame_head(json_size: int, attachments_size: int) -> bytes:
    return (4 + json_size + attachments_size).to_bytes(4, "little") + json_size.to_bytes(4, "little")


def check_frame(length: int, json_size: int = 0) -> None:
    """Raise BadFrame for a frame that nobody may send. The length can be checked before the second number is there."""
    if length > MAX_FRAME:
        raise BadFrame("a frame of %d bytes; at most %d are allowed" % (length, MAX_FRAME), True)
    if length < 4:
        raise BadFrame("a frame of %d bytes; there must be 4 at least" % length)
    if json_size > length - 4:
        raise BadFrame("a frame of %d bytes has a head for %d bytes of JSON" % (length, json_size))
    if json_size > MAX_JSON:
        raise BadFrame("a frame with %d bytes of JSON; at most %d are allowed" % (json_size, MAX_JSON), True)


# ---- Python to wire ----

class Encoder:
    """One for a frame: the attachments of all its values stand behind one another."""

    verb = "pass"  # messages advise the user to pass, or to return, another value
    is_bounded = False  # True: this process has a processor limit, and may spend all of it
    numpy_kinds = "mM"  # dtypes that numpy() encodes

    def __init__(self) -> None:
        self.parts: "list[bytes]" = []
        self.size = 0
        self.open: "set[int]" = set()

    def whole(self, value: "Any") -> "Tree":
        """One whole value, after which the next may follow."""
        self.open.clear()
        return self.encode(value, 0)

    def encode(self, value: "Any", depth: int) -> "Tree":
        handler = EXACT.get(type(value))
        if handler is not None:
            return handler(self, value, depth)
        return self.subclass(value, depth)

    def other(self, value: "Any", depth: int) -> "Tree":
        """A value without a kind of its own."""
        raise Refused("%s cannot be sent" % type(value).__name__)

    def numpy(self, value: "Any", depth: int) -> "Tree":
        """A masked array, or an array or scalar of one of numpy_kinds."""
        name = type(value).__name__
        raise Refused("%s of %s cannot be sent: %s a list of its items" % (name, value.dtype, self.verb))

    def same(self, value: "Any", depth: int) -> "Tree":
        return value

    def string(self, value: str, depth: int) -> "Tree":
        try:
            return self.text(value)
        except NotUnicode:
            return self.attach({"$": "utf16"}, value.encode("utf-16-le", "surrogatepass"))

    def text(self, value: str) -> str:
        if value.isascii():
            size = len(value)
        else:
            try:
                size = len(value.encode("utf-8"))
            except UnicodeEncodeError:
                raise NotUnicode from None
        if size > MAX_STRING:
            raise Refused("string of %d bytes is over the maximum of %d: write it to a file" % (size, MAX_STRING))
        return value

    def integer(self, value: int, depth: int) -> "Tree":
        if -SAFE <= value <= SAFE:
            return value
        try:
            return {"$": "bigint", "v": str(value)}
        except ValueError as error:
            if self.is_bounded:
                return {"$": "bigint", "v": unlimited(str, value)}
            raise Refused("int of %d bits cannot be sent: %s" % (value.bit_length(), error)) from None

    def real(self, value: float, depth: int) -> "Tree":
        if value != value:
            return {"$": "number", "v": "NaN"}
        if value in (INFINITY, -INFINITY):
            return {"$": "number", "v": "Infinity" if value > 0 else "-Infinity"}
        if value == 0 and repr(value)[0] == "-":
            return {"$": "number", "v": "-0"}
        return value

    def raw(self, value: bytes, depth: int) -> "Tree":
        return self.attach({"$": "bytes"}, value)

    def buffer(self, value: "bytes | bytearray | memoryview", depth: int) -> "Tree":
        return self.attach({"$": "bytes"}, memoryview(value).tobytes())

    def attach(self, tag: "dict[str, Any]", data: bytes) -> "Tree":
        if len(self.parts) == MAX_ATTACHMENTS:
            raise Refused("more than %d values of bytes: join them, or write them to a file" % MAX_ATTACHMENTS)
        tag["at"] = self.size
        tag["n"] = len(data)
        self.parts.append(data)
        self.size += len(data)
        return tag

    def enter(self, value: "Any", depth: int) -> None:
        if depth >= MAX_DEPTH:
            way_out = "%s it as text (json.dumps), or as a flat list" % self.verb
            raise Refused("nested deeper than %d: %s" % (MAX_DEPTH, way_out))
        if id(value) in self.open:
            raise Refused("cycle cannot be sent: %s a copy without the way back" % self.verb)
        self.open.add(id(value))

    def items(self, owner: "Any", items: "Iterable[Any]", depth: int) -> "list[Tree]":
        self.enter(owner, depth)
        out: "list[Tree]" = []
        try:
            for item in items:
                out.append(self.encode(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        self.open.discard(id(owner))
        return out

    def array(self, value: "list[Any] | tuple[Any, ...]", depth: int) -> "Tree":
        return self.items(value, value, depth)

    def set(self, value: "Iterable[Any]", depth: int) -> "Tree":
        return {"$": "set", "v": self.items(value, list(value), depth)}

    def mapping(self, value: "dict[Any, Any]", depth: int) -> "Tree":
        return self.pairs(value, list(value.items()), depth)

    def pairs(self, owner: "Any", pairs: "Iterable[tuple[Any, Any]]", depth: int) -> "Tree":
        self.enter(owner, depth)
        all_text = True
        out = []
        for key, item in pairs:
            try:
                if type(key) is not str and not isinstance(key, str):
                    all_text = False
                out.append([self.encode(key, depth + 1), self.encode(item, depth + 1)])
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        self.open.discard(id(owner))
        if not all_text:
            return {"$": "map", "v": out}
        try:
            tree = {key: item for key, item in out}
        except TypeError:  # a key that is not Unicode is a tag
            return {"$": "object", "v": out}
        # The engine's JSON objects hold no key with NUL; its strings do.
        return {"$": "object", "v": out} if "$" in tree or "\0" in "".join(tree) else tree

    def subclass(self, value: "Any", depth: int) -> "Tree":
        """An enum may be a str too and a named tuple is a tuple: they come first. For other values their base
        decides, and is read through its own methods: an override must not change the result."""
        if is_a(value, "enum", "Enum"):
            return self.encode(value.value, depth)
        if is_a(value, "numpy", "generic"):
            return encode_scalar(self, value, depth)
        names = getattr(type(value), "_fields", None)
        if isinstance(value, tuple) and names is not None:
            return self.pairs(value, list(zip(names, tuple(value))), depth)
        if hasattr(type(value), "__dataclass_fields__"):
            return self.pairs(value, dataclass_pairs(value), depth)
        if isinstance(value, str):
            return self.string(str.__str__(value), depth)
        if isinstance(value, int):
            return self.integer(int.__index__(value), depth)
        if isinstance(value, float):
            return self.real(float.__float__(value), depth)
        if isinstance(value, dict):
            return self.pairs(value, dict_pairs(value), depth)
        if isinstance(value, list):
            return self.items(value, list.__getitem__(value, ALL), depth)
        if isinstance(value, tuple):
            return self.items(value, tuple.__getitem__(value, ALL), depth)
        if isinstance(value, set):
            return {"$": "set", "v": self.items(value, list(set.__iter__(value)), depth)}
        if isinstance(value, frozenset):
            return {"$": "set", "v": self.items(value, list(frozenset.__iter__(value)), depth)}
        if isinstance(value, (bytes, bytearray)):
            return self.buffer(value, depth)
        for module, name, handler in RARE:
            if is_a(value, module, name):
                return handler(self, value, depth)
        return self.other(value, depth)


EXACT: "dict[type, Callable[[Any, Any, int], Tree]]" = {
    type(None): Encoder.same, bool: Encoder.same, str: Encoder.string, int: Encoder.integer, float: Encoder.real,
    list: Encoder.array, tuple: Encoder.array, dict: Encoder.mapping, set: Encoder.set, frozenset: Encoder.set,
    bytes: Encoder.raw, bytearray: Encoder.buffer, memoryview: Encoder.buffer,
}


class Numbering(Encoder):
    """Sends a container once, and its number where it is met again. A base in front of the derived Encoder."""

    def whole(self, value: "Any") -> "Tree":
        self.numbers: "dict[int, int]" = {}
        self.kept: "list[Any]" = []
        return escape_disordered(super().whole(value))

    def encode(self, value: "Any", depth: int) -> "Tree":
        number = self.numbers.get(id(value))
        if number is not None:
            return {"$": "ref", "n": number}
        # Not super().encode(): 200 containers with a frame more for each do not fit into Python's limit.
        return EXACT.get(type(value), Encoder.subclass)(self, value, depth)

    def enter(self, value: "Any", depth: int) -> None:
        check_depth(depth)
        # A value that is gone could give its id to another: all are kept.
        self.numbers[id(value)] = len(self.kept)
        self.kept.append(value)


def is_a(value: "Any", module: str, name: str) -> bool:
    """Classes are known by their names: nothing is imported, and the module may be gone from sys.modules."""
    return any(kind.__module__ == module and kind.__name__ == name for kind in type(value).__mro__)


def dict_pairs(value: "dict[Any, Any]") -> "list[tuple[Any, Any]]":
    """An OrderedDict keeps its order elsewhere than a dict."""
    if is_a(value, "collections", "OrderedDict"):
        try:
            from _collections import OrderedDict  # type: ignore
        except ImportError:
            from collections import OrderedDict
        if isinstance(value, OrderedDict):
            return list(OrderedDict.items(value))
    return list(dict.items(value))


def dataclass_pairs(value: "Any") -> "list[tuple[Any, Any]]":
    fields = type(value).__dataclass_fields__.values()
    return [(field.name, getattr(value, field.name)) for field in fields if field._field_type.name == "_FIELD"]


def unlimited(convert: "Callable[[Any], Any]", value: "Any") -> "Any":
    """Python bounds decimal conversion since 3.11; the wire bounds only strings."""
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return convert(value)
    finally:
        sys.set_int_max_str_digits(before)


def datetime_types() -> "Any":
    try:
        # datetime.py is 2,500 lines in front of the same classes.
        import _datetime as module  # type: ignore
    except ImportError:
        import datetime as module
    return module


def date_text(value: "Any") -> "Any":
    """Send pandas' NaT as null: it is a datetime that equals nothing."""
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


def encode_date(encoder: Encoder, value: "Any", depth: int) -> "Tree":
    return {"$": "date", "v": date_text(value)}


def encode_array(encoder: Encoder, value: "Any", depth: int) -> "Tree":
    if value.typecode not in KINDS:
        raise Refused("array of type %r cannot be sent: %s its list, tolist()" % (value.typecode, encoder.verb))
    if sys.byteorder == "big":
        value = value[:]
        value.byteswap()
    tag = {"$": "array", "t": "%s%d" % (KINDS[value.typecode], value.itemsize * 8)}
    return encoder.attach(tag, memoryview(value).tobytes())


def encode_numpy(encoder: Encoder, value: "Any", depth: int) -> "Tree":
    kind, name = value.dtype.kind, "%s%d" % (value.dtype.kind, value.dtype.itemsize * 8)
    # The values under a mask are not the user's data.
    if hasattr(value, "mask") or kind in encoder.numpy_kinds:
        return encoder.numpy(value, depth)
    if value.ndim == 1 and name in CODES:
        return encoder.attach({"$": "array", "t": name}, value.astype(value.dtype.newbyteorder("<")).tobytes())
    return encoder.encode(value.tolist(), depth)


def encode_scalar(encoder: Encoder, value: "Any", depth: int) -> "Tree":
    plain = value.item()
    if value.dtype.kind in encoder.numpy_kinds or type(plain) is type(value):
        return encoder.numpy(value, depth)
    return encoder.encode(plain, depth)


def encode_pattern(encoder: Encoder, value: "Any", depth: int) -> "Tree":
    if type(value.pattern) is not str or value.flags & ~(sum(PATTERN_FLAGS.values()) | UNICODE_FLAG):
        way_out = "%s its pattern" % encoder.verb
        raise Refused("Pattern of bytes or with flags other than I, M and S cannot be sent: " + way_out)
    flags = "".join(letter for letter, flag in PATTERN_FLAGS.items() if value.flags & flag)
    return {"$": "regexp", "source": encoder.text(value.pattern), "flags": flags}


RARE: "list[tuple[str, str, Callable[[Encoder, Any, int], Tree]]]" = [
    ("datetime", "date", encode_date), ("array", "array", encode_array), ("numpy", "ndarray", encode_numpy),
    ("re", "Pattern", encode_pattern),
]


def are_disordered(keys: "Iterable[str]") -> bool:
    """JavaScript reads indices first, in ascending order, and would number containers so."""
    last = -1
    for key in keys:
        index = is_index(key)
        if index and int(key) < last:
            return True
        last = int(key) if index else 1 << 32
    return False


def is_index(key: str) -> bool:
    if len(key) > 10 or not (key.isascii() and key.isdigit()):
        return False
    return (key[0] != "0" or key == "0") and int(key) < 0xffffffff


def escape_disordered(tree: "Tree") -> "Tree":
    """Turn objects that JavaScript would read in another order into pairs, in place. A tag has no such keys."""
    if isinstance(tree, list):
        tree[:] = map(escape_disordered, tree)
    if not isinstance(tree, dict):
        return tree
    for key, item in tree.items():
        tree[key] = escape_disordered(item)
    if not are_disordered(tree):
        return tree
    return {"$": "object", "v": [[key, item] for key, item in tree.items()]}


# ---- wire to Python ----

class Referring(Exception):
    """The value holds a reference: few do, and only for them are containers numbered."""


class Decoder:
    """One for a frame: attachments may be used once. Hostile code may have sent the values: the cost of decoding is
    in proportion to their size, except where the process is bounded."""

    is_bounded = False  # as in Encoder
    any_integer = False  # True: numbers of any size are integers, as in the daemon's own sizes and times

    def __init__(self, attachments: "bytes | memoryview") -> None:
        self.attachments = attachments
        self.ranges: "list[tuple[int, int]]" = []
        self.patterns_left = PATTERNS_MAX

    def decode(self, node: "Tree") -> "Any":
        """One whole value."""
        before = len(self.ranges)
        try:
            return self.one(node, 0)
        except Referring:
            del self.ranges[before:]
        return Rebuilder(self).one(node, 0)

    def one(self, node: "Tree", depth: int) -> "Any":
        kind = type(node)
        if kind is str:
            return check_text(node)
        if kind is int:
            if not -SAFE <= node <= SAFE and not self.any_integer:
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

    def items(self, node: "list[Tree]", depth: int, out: "list[Any] | None" = None) -> "list[Any]":
        check_depth(depth)
        out = [] if out is None else out
        try:
            for item in node:
                out.append(self.one(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        return out

    def object(self, pairs: "Iterable[Any]", depth: int, out: "dict[Any, Any] | None" = None) -> "dict[str, Any]":
        check_depth(depth)
        out = {} if out is None else out
        for key, item in pairs:
            try:
                out[check_text(key)] = self.one(item, depth + 1)
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        return out

    def tagged(self, node: "dict[str, Tree]", depth: int) -> "Any":
        kind = node["$"]
        handler = TAGS.get(kind) if type(kind) is str else None
        if handler is None:
            raise Refused("unknown kind %.80r" % (kind,))
        return handler(self, node, depth)

    def number(self, node: "dict[str, Tree]", depth: int) -> float:
        name = only(node, str)
        if name not in NUMBERS:
            raise Refused("number %.80r" % name)
        return NUMBERS[name]

    def undefined(self, node: "dict[str, Tree]", depth: int) -> None:
        if len(node) != 1:
            raise Refused("undefined has fields")

    def bigint(self, node: "dict[str, Tree]", depth: int) -> int:
        text: str = only(node, str)
        figures = text[1:] if text[:1] == "-" else text
        if not (figures.isascii() and figures.isdigit()) or (figures[0] == "0" and text != "0"):
            raise Refused("bigint %.80r" % text)
        try:
            return int(text)
        except ValueError as error:
            # The conversion is quadratic: a process without another bound needs Python's, which it may move.
            if self.is_bounded:
                return unlimited(int, text)  # type: ignore[no-any-return]
            raise Refused("bigint of %d figures: %s" % (len(figures), error)) from None

    def data(self, node: "dict[str, Tree]", depth: int) -> bytes:
        return bytes(self.attached(node, ()))

    def utf16(self, node: "dict[str, Tree]", depth: int) -> str:
        data = bytes(self.attached(node, ()))
        if len(data) % 2:
            raise Refused("half a unit of UTF-16")
        return data.decode("utf-16-le", "surrogatepass")

    def attached(self, node: "dict[str, Tree]", more: "tuple[str, ...]") -> "bytes | memoryview":
        if "b64" in node:
            fields(node, ("$", "b64", *more))
            return from_base64(node["b64"])
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

    def set(self, node: "dict[str, Tree]", depth: int, out: "set[Any] | None" = None) -> "set[Any]":
        out = set() if out is None else out
        keys = []
        for index, item in enumerate(Decoder.items(self, only(node, list), depth)):
            try:
                keys.append(self.key(item))
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        self.check_hashes(keys)
        for index, key in enumerate(keys):
            check_once(out, key, index)
            out.add(key)
        return out

    def map(self, node: "dict[str, Tree]", depth: int, out: "dict[Any, Any] | None" = None) -> "dict[Any, Any]":
        check_depth(depth)
        out = {} if out is None else out
        pairs = []
        for index, pair in enumerate(pair_list(node)):
            try:
                pairs.append((self.key(self.one(pair[0], depth + 1)), self.one(pair[1], depth + 1)))
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        self.check_hashes([key for key, _ in pairs])
        for index, (key, item) in enumerate(pairs):
            check_once(out, key, index)
            out[key] = item
        return out

    def escaped(self, node: "dict[str, Tree]", depth: int) -> "dict[str, Any]":
        return self.object(string_pairs(node), depth)

    def key(self, value: "Any") -> "Any":
        return hashable(value)

    def check_hashes(self, keys: "list[Hashable]") -> None:
        """Hashes of numbers are no secret: 100,000 keys of one hash would keep a host busy for minutes."""
        if len(keys) > SUSPICIOUS and not self.is_bounded and len({hash(key) for key in keys}) < len(keys) // 2:
            raise Refused("%d keys have but few hashes among them" % len(keys))

    def finish(self) -> None:
        """All values of the frame are read: attachments may not overlap."""
        end = 0
        for at, size in sorted(self.ranges):
            if at < end and size:
                raise Refused("attachment ranges overlap")
            end = max(end, at + size)


class Rebuilder(Decoder):
    """Numbers every container of a value with references as it opens."""

    def __init__(self, plain: Decoder) -> None:
        self.attachments, self.ranges = plain.attachments, plain.ranges
        self.is_bounded, self.any_integer, self.patterns_left = plain.is_bounded, plain.any_integer, PATTERNS_MAX
        self.opened: "list[Any]" = []
        self.unfinished: "set[int]" = set()

    def opening(self, out: "Any") -> "Any":
        self.opened.append(out)
        return out

    def items(self, node: "list[Tree]", depth: int, out: "list[Any] | None" = None) -> "list[Any]":
        made: "list[Any]" = self.opening([])
        self.unfinished.add(id(made))
        super().items(node, depth, made)
        self.unfinished.discard(id(made))
        return made

    def object(self, pairs: "Iterable[Any]", depth: int, out: "dict[Any, Any] | None" = None) -> "dict[str, Any]":
        return super().object(ordered(pairs), depth, self.opening({}))

    def tagged(self, node: "dict[str, Tree]", depth: int) -> "Any":
        kind = node["$"]
        if kind == "object":
            return super().object(string_pairs(node), depth, self.opening({}))
        if kind == "set":
            return self.set(node, depth, self.opening(set()))
        if kind == "map":
            return self.map(node, depth, self.opening({}))
        if kind == "class":
            number = len(self.opened)
            self.opening(OPEN)
            self.opened[number] = decode_class(self, node, depth)
            return self.opened[number]
        return super().tagged(node, depth)

    def reference(self, number: "Tree") -> "Any":
        if type(number) is not int or not 0 <= number < len(self.opened) or self.opened[number] is OPEN:
            raise Refused("reference to what is not opened before it")
        return self.opened[number]

    def key(self, value: "Any") -> "Any":
        check_tree(value, set(self.unfinished), 0)
        return hashable(value)


def check_text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("string has a lone surrogate") from None
    return text


def check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused("nested deeper than %d" % MAX_DEPTH)


def fields(node: "dict[str, Tree]", names: "tuple[str, ...]") -> None:
    if len(node) != len(names) or any(name not in node for name in names):
        raise Refused("%s must have exactly the fields %s" % (node["$"], ", ".join(names[1:])))


def only(node: "dict[str, Tree]", kind: type) -> "Any":
    fields(node, ("$", "v"))
    if type(node["v"]) is not kind:
        raise Refused("%s has a wrong value" % node["$"])
    return node["v"]


def pair_list(node: "dict[str, Tree]") -> "list[list[Tree]]":
    pairs: "list[list[Tree]]" = only(node, list)
    if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise Refused("%s must be a list of pairs" % node["$"])
    return pairs


def string_pairs(node: "dict[str, Tree]") -> "list[list[Tree]]":
    pairs = pair_list(node)
    seen: "set[str]" = set()
    for index, (key, _) in enumerate(pairs):
        if type(key) is not str:
            raise Refused("object has a key that is not a string")
        check_once(seen, key, index)
        seen.add(key)
    return pairs


def hashable(value: "Any") -> "Any":
    if type(value) is list:
        return tuple(map(hashable, value))
    try:
        hash(value)
    except TypeError:
        raise Refused("%s cannot be a set item or map key in Python" % type(value).__name__) from None
    return value


def check_once(seen: "Any", key: "Hashable", index: int) -> None:
    """1, 1.0 and True are one key in Python: to merge them silently would lose data."""
    if key in seen:
        refusal = Refused("%.80r is there twice" % (key,))
        refusal.steps.append(index)
        raise refusal


def ordered(pairs: "Iterable[Any]") -> "list[Any]":
    pairs = list(pairs)
    if are_disordered(key for key, _ in pairs):
        raise Refused("an object in a value with references must have its keys in JavaScript's order")
    return pairs


def check_tree(value: "Any", seen: "set[int]", depth: int) -> None:
    """The list becomes a tuple, hence a copy: it must be finished and hold no cycle; and its hash, which is computed
    each time, visits a shared item each time."""
    if type(value) is not list:
        return
    check_depth(depth)
    if id(value) in seen:
        raise Refused("an array that is in itself, or twice in one item or key, cannot be hashed in Python")
    seen.add(id(value))
    for item in value:
        check_tree(item, seen, depth + 1)


def from_base64(text: "Tree") -> bytes:
    from binascii import a2b_base64, b2a_base64
    try:
        data = a2b_base64(text)
        exact = b2a_base64(data, newline=False).decode() == text
    except (TypeError, ValueError):
        exact = False
    if not exact:
        raise Refused("bytes are not base64")
    return data


def decode_array(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> "Any":
    from array import array
    data = decoder.attached(node, ("t",))
    name = node["t"]
    code = CODES.get(name) if type(name) is str else None
    if code is None:
        raise Refused("typed array of unknown type %.80r" % (name,))
    out: "array[Any]" = array(code)
    if len(data) % out.itemsize:
        raise Refused("%d bytes are no whole number of %s" % (len(data), name))
    out.frombytes(data)
    if sys.byteorder == "big":
        out.byteswap()
    return out


def decode_date(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> "Any":
    fields(node, ("$", "v"))
    text = node["v"]
    if text is None:
        return None
    try:
        if type(text) is str:
            return parse_date(text)
    except (ValueError, OverflowError):
        pass
    raise Refused("date %.80r" % (text,))


def parse_date(text: str) -> "Any":
    types = datetime_types()
    day = numbers(text[:10], "dddd-dd-dd")
    if len(text) == 10:
        return types.date(*day)
    clock = numbers(text[10:19], "Tdd:dd:dd")
    rest = text[19:]
    micros = 0
    if rest[:1] == ".":
        figures = rest[1:].rstrip("Z") if rest.endswith("Z") else rest[1:].partition("+")[0].partition("-")[0]
        numbers(figures, "d" * min(max(1, len(figures)), 9))
        # A datetime holds microseconds; C++ and Ruby send nanoseconds.
        micros = int(figures[:6].ljust(6, "0"))
        rest = rest[1 + len(figures):]
    return types.datetime(*day, *clock, micros, parse_zone(rest, types))


def parse_zone(text: str, types: "Any") -> "Any":
    if not text:
        return None
    if text == "Z":
        return types.timezone.utc
    hours, minutes = numbers(text[1:], "dd:dd")
    if text[0] not in "+-" or hours > 23 or minutes > 59:
        raise ValueError(text)
    offset = types.timedelta(hours=hours, minutes=minutes)
    return types.timezone(-offset if text[0] == "-" else offset)


def numbers(text: str, shape: str) -> "list[int]":
    """The numbers in a text of exactly this shape, d for a digit."""
    if len(text) != len(shape):
        raise ValueError(text)
    for have, want in zip(text, shape):
        if have != want and not (want == "d" and have in "0123456789"):
            raise ValueError(text)
    return [int(figures) for figures in "".join(c if c in "0123456789" else " " for c in text).split()]


def decode_reference(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> "Any":
    fields(node, ("$", "n"))
    if not isinstance(decoder, Rebuilder):
        raise Referring
    return decoder.reference(node["n"])


def decode_pattern(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> "Any":
    import re
    fields(node, ("$", "source", "flags"))
    source, letters = node["source"], node["flags"]
    if type(source) is not str or type(letters) is not str:
        raise Refused("regexp has a wrong source or flags")
    if set(letters) - REGEXP_FLAGS or len(set(letters)) != len(letters):
        raise Refused("regexp has the flags %.80r" % letters)
    check_text(source)
    if not decoder.is_bounded:
        decoder.patterns_left -= len(source)
        if decoder.patterns_left < 0:
            raise Refused("regexp exceeds the %d characters that all patterns of a value may have together: "
                          "send sources as text" % PATTERNS_MAX)
    try:
        return re.compile(source, sum(PATTERN_FLAGS.get(letter, 0) for letter in letters))
    except Exception as error:
        raise Refused("regexp is none in Python: %.200s" % error) from None


def decode_error(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> Exception:
    told = only(node, dict)
    check_depth(depth)
    texts: "dict[str, str]" = {}
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
    if isinstance(decoder, Rebuilder):
        decoder.opening(error)
    # Here, not in a function of its own: 200 errors in one another would need more frames than Python's limit.
    for key, item in field_pairs(told.get("fields", {}), isinstance(decoder, Rebuilder)):
        try:
            if key[:2] == key[-2:] == "__":
                raise Refused("this name cannot be a field in Python")
            value = decoder.one(item, depth + 1)
            if key not in ("name", "message", "stack"):
                error.__dict__[check_text(key)] = value
        except Refused as refusal:
            refusal.steps.append(key)
            raise
    return error


def field_pairs(node: "Tree", has_order: bool) -> "Iterable[Any]":
    if type(node) is not dict or node.get("$", "object") != "object":
        raise Refused("error has wrong fields")
    if "$" in node:
        return string_pairs(node)
    return ordered(node.items()) if has_order else node.items()


def make_error(name: str, message: str) -> Exception:
    """An error that Python has no class for is an Exception with its name."""
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


def decode_class(decoder: Decoder, node: "dict[str, Tree]", depth: int) -> "Any":
    """An instance of a class of JavaScript's is here the value that it is made of."""
    fields(node, ("$", "t", "v"))
    name = node["t"]
    if type(name) is not str or not (name.isascii() and name.isalpha() and len(name) <= 64):
        raise Refused("class of the name %.80r" % (name,))
    check_depth(depth)
    return decoder.one(node["v"], depth + 1)


TAGS: "dict[str, Handler]" = {
    "number": Decoder.number, "undefined": Decoder.undefined, "hole": Decoder.undefined, "utf16": Decoder.utf16,
    "bigint": Decoder.bigint, "bytes": Decoder.data, "buffer": Decoder.data, "array": decode_array, "date": decode_date,
    "set": Decoder.set, "map": Decoder.map, "object": Decoder.escaped, "ref": decode_reference,
    "regexp": decode_pattern, "error": decode_error, "class": decode_class,
}
