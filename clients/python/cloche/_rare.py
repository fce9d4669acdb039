"""Values that few programs send: dates, typed arrays, enums, dataclasses, numpy, patterns, errors, and references among
containers."""
from __future__ import annotations

import array
import binascii
import builtins
import dataclasses
import datetime
import enum
import re
import sys
from collections.abc import Callable, Hashable, Iterable
from typing import Any

from ._values import (EXACT, Decoder, Encoder, Handler, Referring, Refused, Tree, check_depth, check_text, fields, hashable, only,
                      string_pairs)

CODES = {"i8": "b", "u8": "B", "u8c": "B", "i16": "h", "u16": "H", "i32": "i", "u32": "I", "i64": "q", "u64": "Q",
         "f32": "f", "f64": "d"}
KINDS = {**dict.fromkeys("bhilq", "i"), **dict.fromkeys("BHILQ", "u"), **dict.fromkeys("fd", "f")}
PATTERN_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL}
REGEXP_FLAGS = set("dgimsuvy")
OPEN = object()


def _is_a(value: Any, module: str, name: str) -> bool:
    """By name, so that numpy is not imported unless it is used."""
    return any(kind.__module__ == module and kind.__name__ == name for kind in type(value).__mro__)


# ---- Python to wire ----

def encode(encoder: Encoder, value: Any, depth: int) -> Tree:
    """Values of other than exactly built-in types. An enum may be a str too and a named tuple is a
    tuple: they are checked first."""
    if isinstance(value, enum.Enum):
        return encoder.encode(value.value, depth)
    if _is_a(value, "numpy", "generic"):
        return _encode_scalar(encoder, value, depth)
    if isinstance(value, tuple) and (names := getattr(type(value), "_fields", None)):
        return encoder.pairs(value, list(zip(names, tuple(value))), depth)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return encoder.pairs(value, [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)], depth)
    for base, handler in BASES:
        if isinstance(value, base):
            return handler(encoder, value, depth)
    if _is_a(value, "numpy", "ndarray"):
        return _encode_numpy(encoder, value, depth)
    if isinstance(value, BaseException):
        return encoder.pairs(value, _error_pairs(value), depth)
    raise Refused(f"{type(value).__name__} cannot be sent")


def _error_pairs(error: BaseException) -> list[tuple[Any, Any]]:
    """The same as for exceptions in a box: name, message and public attributes."""
    own = {name: item for name, item in vars(error).items() if not name.startswith("_")}
    return list({"name": type(error).__name__, "message": str(error), **own}.items())


def _encode_date(encoder: Encoder, value: datetime.date, depth: int) -> Tree:
    # pandas' NaT is a datetime that equals nothing.
    return {"$": "date", "v": None if value != value else date_text(value)}


def date_text(value: datetime.date) -> str:
    if not isinstance(value, datetime.datetime):
        return datetime.date.isoformat(value)
    if getattr(value, "nanosecond", 0):
        raise Refused(f"{type(value).__name__} with nanoseconds cannot be sent")
    offset = value.utcoffset()
    if offset is not None and (offset.seconds % 60 or offset.microseconds):
        value = value.astimezone(datetime.timezone.utc)
    text = datetime.datetime.isoformat(value)
    return text[:-6] + "Z" if text.endswith("+00:00") else text


def _encode_array(encoder: Encoder, value: array.array[Any], depth: int) -> Tree:
    if value.typecode not in KINDS:
        raise Refused(f"array of type {value.typecode!r} cannot be sent")
    if sys.byteorder == "big":
        value = value[:]
        value.byteswap()
    return encoder.attach({"$": "array", "t": f"{KINDS[value.typecode]}{value.itemsize * 8}"}, value.tobytes())


def _encode_numpy(encoder: Encoder, value: Any, depth: int) -> Tree:
    kind, name = value.dtype.kind, f"{value.dtype.kind}{value.dtype.itemsize * 8}"
    # Values under a mask are not the user's data.
    if hasattr(value, "mask"):
        raise Refused(f"{type(value).__name__} cannot be sent")
    if kind in "mM":
        raise Refused(f"array of {value.dtype} cannot be sent")
    if value.ndim == 1 and name in CODES:
        return encoder.attach({"$": "array", "t": name}, value.astype(value.dtype.newbyteorder("<")).tobytes())
    return encoder.encode(value.tolist(), depth)


def _encode_scalar(encoder: Encoder, value: Any, depth: int) -> Tree:
    plain = value.item()
    if value.dtype.kind in "mM" or type(plain) is type(value):
        raise Refused(f"{type(value).__name__} cannot be sent")
    return encoder.encode(plain, depth)


def _encode_pattern(encoder: Encoder, value: re.Pattern[Any], depth: int) -> Tree:
    known = re.IGNORECASE | re.MULTILINE | re.DOTALL | re.UNICODE
    if not isinstance(value.pattern, str) or value.flags & ~known:
        raise Refused("Pattern of bytes or with flags other than I, M and S cannot be sent")
    flags = "".join(letter for letter, flag in PATTERN_FLAGS.items() if value.flags & flag)
    return {"$": "regexp", "source": encoder.text(value.pattern), "flags": flags}


# A subclass is sent as its base, read through the base's own methods: an override must not change the result.
BASES: list[tuple[Any, Callable[[Encoder, Any, int], Tree]]] = [
    (str, lambda encoder, value, depth: encoder.string(str.__str__(value), depth)),
    (int, lambda encoder, value, depth: encoder.integer(int.__index__(value), depth)),
    (float, lambda encoder, value, depth: encoder.real(float.__float__(value), depth)),
    # Not dict.items: an OrderedDict keeps its order elsewhere.
    (dict, lambda encoder, value, depth: encoder.pairs(value, [(key, dict.__getitem__(value, key)) for key in _keys(value)], depth)),
    (list, lambda encoder, value, depth: encoder.items(value, list.__getitem__(value, slice(None)), depth)),
    (tuple, lambda encoder, value, depth: encoder.items(value, tuple.__getitem__(value, slice(None)), depth)),
    (set, lambda encoder, value, depth: {"$": "set", "v": encoder.items(value, list(set.__iter__(value)), depth)}),
    (frozenset, lambda encoder, value, depth: {"$": "set", "v": encoder.items(value, list(frozenset.__iter__(value)), depth)}),
    ((bytes, bytearray), lambda encoder, value, depth: encoder.raw(memoryview(value).tobytes())),
    (datetime.date, _encode_date),
    (array.array, _encode_array),
    (re.Pattern, _encode_pattern),
]


def _keys(value: dict[Any, Any]) -> list[Any]:
    from collections import OrderedDict
    return list(OrderedDict.keys(value) if isinstance(value, OrderedDict) else dict.keys(value))


class Numbered(Encoder):
    """Sends a container once; further occurrences send its number."""

    def __init__(self, frame: Encoder) -> None:
        super().__init__()
        self.frame = frame
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []

    def encode(self, value: Any, depth: int) -> Tree:
        number = self.numbers.get(id(value))
        if number is not None:
            return {"$": "ref", "n": number}
        # Not super().encode(): one more frame for each of 200 containers exceeds Python's recursion limit.
        return EXACT.get(type(value), encode)(self, value, depth)

    def attach(self, tag: dict[str, Any], data: bytes) -> Tree:
        return self.frame.attach(tag, data)

    def enter(self, value: Any, depth: int) -> None:
        check_depth(depth)
        # Keep the value alive: Python gives the id of a freed object to another.
        self.numbers[id(value)] = len(self.kept)
        self.kept.append(value)

    def leave(self, value: Any) -> None:
        pass


def are_disordered(keys: Iterable[str]) -> bool:
    """JavaScript reads indices first, in ascending order, and would number containers in that order."""
    last = -1
    for key in keys:
        index = _is_index(key)
        if index and int(key) < last:
            return True
        last = int(key) if index else 1 << 32
    return False


def _is_index(key: str) -> bool:
    return len(key) <= 10 and key.isascii() and key.isdigit() and (key[0] != "0" or key == "0") and int(key) < 0xffffffff


def escape_keys(tree: Tree, matter: Callable[[Iterable[str]], bool]) -> Tree:
    """Objects whose keys matter become pairs, in place. Tags have no such keys."""
    if isinstance(tree, list):
        tree[:] = [escape_keys(item, matter) for item in tree]
    if not isinstance(tree, dict):
        return tree
    for key in tree:
        tree[key] = escape_keys(tree[key], matter)
    if not matter(tree):
        return tree
    return {"$": "object", "v": [[key, item] for key, item in tree.items()]}


# ---- wire to Python ----

def from_base64(text: Tree) -> bytes:
    try:
        data = binascii.a2b_base64(text)
        exact = binascii.b2a_base64(data, newline=False).decode() == text
    except (TypeError, ValueError):
        exact = False
    if not exact:
        raise Refused("bytes are not base64")
    return data


def _decode_array(decoder: Decoder, node: dict[str, Tree], depth: int) -> array.array[Any]:
    data = decoder.attached(node, ("t",))
    name = node["t"]
    code = CODES.get(name) if type(name) is str else None
    if code is None:
        raise Refused("typed array of unknown type %.80r" % (name,))
    out: array.array[Any] = array.array(code)
    if len(data) % out.itemsize:
        raise Refused(f"{len(data)} bytes are no whole number of {name}")
    out.frombytes(data)
    if sys.byteorder == "big":
        out.byteswap()
    return out


DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


def _decode_date(decoder: Decoder, node: dict[str, Tree], depth: int) -> datetime.date | None:
    fields(node, ("$", "v"))
    text = node["v"]
    if text is None:
        return None
    try:
        return _parse_date(text)
    except (TypeError, ValueError, OverflowError):
        raise Refused("date %.80r" % (text,)) from None


def _parse_date(text: str) -> datetime.date:
    match = DATE.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    if hour is None:
        return datetime.date(int(year), int(month), int(day))
    # A datetime holds microseconds; C++ and Ruby send nanoseconds.
    micros = int((fraction or "")[:6].ljust(6, "0"))
    return datetime.datetime(int(year), int(month), int(day), int(hour), int(minute), int(second), micros, _parse_zone(zone))


def _parse_zone(text: str | None) -> datetime.timezone | None:
    if text is None:
        return None
    if text == "Z":
        return datetime.timezone.utc
    hours, minutes = int(text[1:3]), int(text[4:])
    if hours > 23 or minutes > 59:
        raise ValueError(text)
    offset = datetime.timedelta(hours=hours, minutes=minutes)
    return datetime.timezone(-offset if text[0] == "-" else offset)


class Rebuilder(Decoder):
    """Decodes a value with references: numbers every container as it opens."""

    def __init__(self, plain: Decoder) -> None:
        self.attachments, self.ranges, self.any_integer = plain.attachments, plain.ranges, plain.any_integer
        self.opened: list[Any] = []
        self.unfinished: set[int] = set()

    def open(self, out: Any) -> Any:
        self.opened.append(out)
        return out

    def items(self, node: list[Tree], depth: int, out: list[Any] | None = None) -> list[Any]:
        made: list[Any] = self.open([])
        self.unfinished.add(id(made))
        super().items(node, depth, made)
        self.unfinished.discard(id(made))
        return made

    def object(self, pairs: Iterable[Any], depth: int, out: dict[Any, Any] | None = None) -> dict[str, Any]:
        return super().object(_ordered(pairs), depth, self.open({}))

    def tagged(self, node: dict[str, Tree], depth: int) -> Any:
        kind = node["$"]
        if kind == "object":
            return super().object(string_pairs(node), depth, self.open({}))
        if kind == "set":
            return self.set(node, depth, self.open(set()))
        if kind == "map":
            return self.map(node, depth, self.open({}))
        if kind == "class":
            number = len(self.opened)
            self.open(OPEN)
            self.opened[number] = _carried(self, node, depth)
            return self.opened[number]
        return super().tagged(node, depth)

    def reference(self, number: Tree) -> Any:
        if type(number) is not int or not 0 <= number < len(self.opened) or self.opened[number] is OPEN:
            raise Refused("reference to what is not opened before it")
        return self.opened[number]

    def key(self, value: Any) -> Hashable:
        _check_tree(value, set(self.unfinished), 0)
        return hashable(value)


def _ordered(pairs: Iterable[Any]) -> list[Any]:
    pairs = list(pairs)
    if are_disordered(key for key, _ in pairs):
        raise Refused("an object in a value with references must have its keys in JavaScript's order")
    return pairs


def _check_tree(value: Any, seen: set[int], depth: int) -> None:
    """It becomes a tuple: a copy, so it must be finished and hold no cycle; and its hash,
    recomputed each time, visits shared values each time."""
    if type(value) is not list:
        return
    check_depth(depth)
    if id(value) in seen:
        raise Refused("an array that is in itself, or twice in one item or key, cannot be hashed in Python")
    seen.add(id(value))
    for item in value:
        _check_tree(item, seen, depth + 1)


def _reference(decoder: Decoder, node: dict[str, Tree], depth: int) -> Any:
    fields(node, ("$", "n"))
    if not isinstance(decoder, Rebuilder):
        raise Referring
    return decoder.reference(node["n"])


def _decode_pattern(decoder: Decoder, node: dict[str, Tree], depth: int) -> re.Pattern[str]:
    fields(node, ("$", "source", "flags"))
    source, letters = node["source"], node["flags"]
    if type(source) is not str or type(letters) is not str:
        raise Refused("regexp has a wrong source or flags")
    if set(letters) - REGEXP_FLAGS or len(set(letters)) != len(letters):
        raise Refused("regexp has the flags %.80r" % letters)
    check_text(source)
    flags = re.NOFLAG
    for letter in letters:
        flags |= PATTERN_FLAGS.get(letter, re.NOFLAG)
    try:
        return re.compile(source, flags)
    except Exception as error:
        raise Refused("regexp is none in Python: %.200s" % error) from None


def _decode_error(decoder: Decoder, node: dict[str, Tree], depth: int) -> Exception:
    told = only(node, dict)
    check_depth(depth)
    texts: dict[str, str] = {}
    for name in ("name", "message", "stack"):
        text = told.get(name, "" if name == "stack" else None)
        if type(text) is dict and text.get("$") == "utf16":
            text = decoder.utf16(text, depth)
        elif type(text) is str:
            check_text(text)
        else:
            raise Refused(f"error has a wrong {name}")
        texts[name] = text
    if told.keys() - {"name", "message", "stack", "fields"}:
        raise Refused("error has an unknown field")
    error = _make_error(texts["name"], texts["message"])
    if "stack" in told:
        error.__dict__["stack"] = texts["stack"]
    if isinstance(decoder, Rebuilder):
        decoder.open(error)
    error.__dict__.update(read_fields(decoder, told.get("fields", {}), depth))
    return error


def read_fields(decoder: Decoder, node: Tree, depth: int) -> dict[str, Any]:
    """Fields allowed in an exception's __dict__."""
    if type(node) is not dict or node.get("$", "object") != "object":
        raise Refused("error has wrong fields")
    pairs: list[Any] = list(string_pairs(node) if "$" in node else node.items())
    if isinstance(decoder, Rebuilder) and "$" not in node:
        pairs = _ordered(pairs)
    out = {}
    for key, item in pairs:
        try:
            if key[:2] == key[-2:] == "__":
                raise Refused("this name cannot be a field in Python")
            value = decoder.one(item, depth + 1)
            if key not in ("name", "message", "stack"):
                out[check_text(key)] = value
        except Refused as refusal:
            refusal.steps.append(key)
            raise
    return out


def _make_error(name: str, message: str) -> Exception:
    """An error of a class that Python lacks becomes an Exception with the name in its __dict__."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        try:
            return kind(message)
        except TypeError:
            pass
    error = Exception(message)
    if name != "Exception":
        error.__dict__["name"] = name
    return error


def _carried(decoder: Decoder, node: dict[str, Tree], depth: int) -> Any:
    """Kinds with a class in JavaScript only are decoded as their parts."""
    fields(node, ("$", "t", "v"))
    name = node["t"]
    if type(name) is not str or not (name.isascii() and name.isalpha() and len(name) <= 64):
        raise Refused("class of the name %.80r" % (name,))
    check_depth(depth)
    return decoder.one(node["v"], depth + 1)


TAGS: dict[str, Handler] = {
    "array": _decode_array, "date": _decode_date, "ref": _reference, "regexp": _decode_pattern, "error": _decode_error,
    "class": _carried,
}
