"""Values on the wire (spec/values.md), both ways. What few programs use is in _rare.py.

What is decoded may come from hostile code: nothing here costs more than in proportion to what was sent."""
from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from ._base_errors import ValueRefusedError

SAFE = (1 << 53) - 1
MAX_DEPTH = 200
MAX_STRING = 256 << 20
MAX_ATTACHMENTS = 65536
INFINITY = float("inf")
NUMBERS = {"NaN": float("nan"), "Infinity": INFINITY, "-Infinity": -INFINITY, "-0": -0.0}

# From here on it is looked at whether keys of a set or dict were chosen to have one hash, which makes it quadratic.
SUSPICIOUS = 1000

Tree = Any
"""Any argument of json.dumps."""


class Refused(Exception):
    """A value that cannot travel; every container adds its step to the path while this passes."""

    def __init__(self, what: str) -> None:
        super().__init__(what)
        self.what = what
        self.steps: list[Any] = []

    def named(self, root: str) -> ValueRefusedError:
        return ValueRefusedError(root + "".join(map(_step_text, reversed(self.steps))) + ": " + self.what)


class NotUnicode(Refused):
    def __init__(self) -> None:
        super().__init__("string with a lone surrogate cannot be sent here")


def _step_text(step: Any) -> str:
    if type(step) is int:
        return f"[{step}]"
    if type(step) is str and step.isidentifier():
        return "." + step
    return "[%.80r]" % (step,)


TOO_DEEP = "nested deeper than what is left of Python's stack permits"


# ---- Python to wire ----

class Encoder:
    """One for a frame: the attachments of all its values stand behind one another."""

    def __init__(self, references: bool = False) -> None:
        self.parts: list[bytes] = []
        self.size = 0
        self._references = references
        self._open: set[int] = set()

    def value(self, value: Any, root: str) -> Tree:
        """One whole value. Raises ValueRefusedError, which calls it `root`."""
        self._open.clear()
        writer = _rare.Numbered(self) if self._references else self
        try:
            tree = writer.encode(value, 0)
        except Refused as refusal:
            raise refusal.named(root) from None
        except RecursionError:
            raise Refused(TOO_DEEP).named(root) from None
        return _rare.escape_keys(tree, _rare.are_disordered) if self._references else tree

    def encode(self, value: Any, depth: int) -> Tree:
        handler = EXACT.get(type(value))
        if handler is not None:
            return handler(self, value, depth)
        return _rare.encode(self, value, depth)

    def same(self, value: Any, depth: int) -> Tree:
        return value

    def string(self, value: str, depth: int) -> Tree:
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
            raise Refused(f"string of {size} bytes is over the maximum of {MAX_STRING}")
        return value

    def integer(self, value: int, depth: int) -> Tree:
        if -SAFE <= value <= SAFE:
            return value
        try:
            return {"$": "bigint", "v": str(value)}
        except ValueError as error:
            raise Refused(f"int of {value.bit_length()} bits cannot be sent: {error}") from None

    def real(self, value: float, depth: int) -> Tree:
        if value != value:
            return {"$": "number", "v": "NaN"}
        if value in (INFINITY, -INFINITY):
            return {"$": "number", "v": "Infinity" if value > 0 else "-Infinity"}
        if value == 0 and repr(value)[0] == "-":
            return {"$": "number", "v": "-0"}
        return value

    def raw(self, value: bytes, depth: int = 0) -> Tree:
        return self.attach({"$": "bytes"}, value)

    def buffer(self, value: bytearray | memoryview, depth: int) -> Tree:
        return self.attach({"$": "bytes"}, memoryview(value).tobytes())

    def attach(self, tag: dict[str, Any], data: bytes) -> Tree:
        if len(self.parts) == MAX_ATTACHMENTS:
            raise Refused(f"more than {MAX_ATTACHMENTS} attachments in one message")
        tag["at"] = self.size
        tag["n"] = len(data)
        self.parts.append(data)
        self.size += len(data)
        return tag

    def enter(self, value: Any, depth: int) -> None:
        if depth >= MAX_DEPTH:
            raise Refused(f"nested deeper than {MAX_DEPTH}")
        if id(value) in self._open:
            raise Refused("cycle cannot be sent")
        self._open.add(id(value))

    def leave(self, value: Any) -> None:
        self._open.discard(id(value))

    def items(self, owner: Any, items: Iterable[Any], depth: int) -> list[Tree]:
        self.enter(owner, depth)
        out: list[Tree] = []
        try:
            for item in items:
                out.append(self.encode(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        self.leave(owner)
        return out

    def array(self, value: list[Any] | tuple[Any, ...], depth: int) -> Tree:
        return self.items(value, value, depth)

    def set(self, value: Iterable[Any], depth: int) -> Tree:
        return {"$": "set", "v": self.items(value, list(value), depth)}

    def mapping(self, value: Mapping[Any, Any], depth: int) -> Tree:
        return self.pairs(value, list(value.items()), depth)

    def pairs(self, owner: Any, pairs: Iterable[tuple[Any, Any]], depth: int) -> Tree:
        self.enter(owner, depth)
        all_text, plain = True, True
        out = []
        for key, item in pairs:
            try:
                if not isinstance(key, str):
                    all_text = False
                elif key == "$" or "\0" in key:
                    # The engine's JSON objects hold no key with NUL; its strings do.
                    plain = False
                name = self.encode(key, depth + 1)
                plain = plain and type(name) is not dict  # a key that is not Unicode
                out.append([name, self.encode(item, depth + 1)])
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        self.leave(owner)
        if not all_text:
            return {"$": "map", "v": out}
        return {key: item for key, item in out} if plain else {"$": "object", "v": out}


EXACT: dict[type, Callable[[Encoder, Any, int], Tree]] = {
    type(None): Encoder.same, bool: Encoder.same, str: Encoder.string, int: Encoder.integer, float: Encoder.real,
    list: Encoder.array, tuple: Encoder.array, dict: Encoder.mapping, set: Encoder.set, frozenset: Encoder.set,
    bytes: Encoder.raw, bytearray: Encoder.buffer, memoryview: Encoder.buffer,
}


# ---- wire to Python ----

class Referring(Exception):
    """The value holds a reference: few do, and only for them are containers numbered."""


class Decoder:
    """One for a frame: attachments may be used once. Sizes and times that the daemon tells of itself may be integers of any size."""

    def __init__(self, attachments: bytes, any_integer: bool = False) -> None:
        self.attachments = attachments
        self.any_integer = any_integer
        self.ranges: list[tuple[int, int]] = []

    def value(self, node: Tree, root: str) -> Any:
        """One whole value. Raises ValueRefusedError, which calls it `root`."""
        before = len(self.ranges)
        try:
            try:
                return self.one(node, 0)
            except Referring:
                del self.ranges[before:]
            return _rare.Rebuilder(self).one(node, 0)
        except Refused as refusal:
            raise refusal.named(root) from None
        except RecursionError:
            raise Refused(TOO_DEEP).named(root) from None

    def one(self, node: Tree, depth: int) -> Any:
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

    def items(self, node: list[Tree], depth: int, out: list[Any] | None = None) -> list[Any]:
        check_depth(depth)
        out = [] if out is None else out
        try:
            for item in node:
                out.append(self.one(item, depth + 1))
        except Refused as refusal:
            refusal.steps.append(len(out))
            raise
        return out

    def object(self, pairs: Iterable[Any], depth: int, out: dict[Any, Any] | None = None) -> dict[str, Any]:
        check_depth(depth)
        out = {} if out is None else out
        for key, item in pairs:
            try:
                out[check_text(key)] = self.one(item, depth + 1)
            except Refused as refusal:
                refusal.steps.append(key)
                raise
        return out

    def tagged(self, node: dict[str, Tree], depth: int) -> Any:
        kind = node["$"]
        handler = (TAGS.get(kind) or _rare.TAGS.get(kind)) if type(kind) is str else None
        if handler is None:
            raise Refused("unknown kind %.80r" % (kind,))
        return handler(self, node, depth)

    def number(self, node: dict[str, Tree], depth: int) -> float:
        name = only(node, str)
        if name not in NUMBERS:
            raise Refused("number %.80r" % name)
        return NUMBERS[name]

    def undefined(self, node: dict[str, Tree], depth: int) -> None:
        if len(node) != 1:
            raise Refused("undefined has fields")

    def bigint(self, node: dict[str, Tree], depth: int) -> int:
        text: str = only(node, str)
        figures = text[1:] if text[:1] == "-" else text
        if not (figures.isascii() and figures.isdigit()) or (figures[0] == "0" and text != "0"):
            raise Refused("bigint %.80r" % text)
        try:
            return int(text)
        except ValueError as error:
            # Reading decimal figures is quadratic: Python's own bound, which the process may move, is what protects here.
            raise Refused(f"bigint of {len(figures)} figures: {error}") from None

    def data(self, node: dict[str, Tree], depth: int) -> bytes:
        return self.attached(node, ())

    def utf16(self, node: dict[str, Tree], depth: int) -> str:
        data = self.attached(node, ())
        if len(data) % 2:
            raise Refused("half a unit of UTF-16")
        return data.decode("utf-16-le", "surrogatepass")

    def attached(self, node: dict[str, Tree], more: tuple[str, ...]) -> bytes:
        if "b64" in node:
            fields(node, ("$", "b64", *more))
            return _rare.from_base64(node["b64"])
        fields(node, ("$", "at", "n", *more))
        at, size = node["at"], node["n"]
        if type(at) is not int or type(size) is not int or at < 0 or size < 0:
            raise Refused("attachment range is not a pair of sizes")
        if at + size > len(self.attachments):
            raise Refused("attachment range is outside the frame")
        self.ranges.append((at, size))
        if len(self.ranges) > MAX_ATTACHMENTS:
            raise Refused(f"more than {MAX_ATTACHMENTS} attachments")
        return self.attachments[at:at + size]

    def set(self, node: dict[str, Tree], depth: int, out: set[Any] | None = None) -> set[Any]:
        out = set() if out is None else out
        keys = []
        for index, item in enumerate(Decoder.items(self, only(node, list), depth)):
            try:
                keys.append(self.key(item))
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        check_hashes(keys)
        for index, key in enumerate(keys):
            check_once(out, key, index)
            out.add(key)
        return out

    def map(self, node: dict[str, Tree], depth: int, out: dict[Any, Any] | None = None) -> dict[Any, Any]:
        check_depth(depth)
        out = {} if out is None else out
        pairs = []
        for index, pair in enumerate(pair_list(node)):
            try:
                pairs.append((self.key(self.one(pair[0], depth + 1)), self.one(pair[1], depth + 1)))
            except Refused as refusal:
                refusal.steps.append(index)
                raise
        check_hashes([key for key, _ in pairs])
        for index, (key, item) in enumerate(pairs):
            check_once(out, key, index)
            out[key] = item
        return out

    def escaped(self, node: dict[str, Tree], depth: int) -> dict[str, Any]:
        return self.object(string_pairs(node), depth)

    def key(self, value: Any) -> Hashable:
        return hashable(value)

    def finish(self) -> None:
        """All values of the frame are read: attachments may not overlap."""
        end = 0
        for at, size in sorted(self.ranges):
            if at < end and size:
                raise Refused("attachment ranges overlap").named("$")
            end = max(end, at + size)


Handler = Callable[[Decoder, dict[str, Tree], int], Any]

TAGS: dict[str, Handler] = {
    "number": Decoder.number, "undefined": Decoder.undefined, "hole": Decoder.undefined, "utf16": Decoder.utf16,
    "bigint": Decoder.bigint, "bytes": Decoder.data, "buffer": Decoder.data, "set": Decoder.set, "map": Decoder.map, "object": Decoder.escaped,
}


def check_text(text: str) -> str:
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise Refused("string has a lone surrogate") from None
    return text


def check_depth(depth: int) -> None:
    if depth >= MAX_DEPTH:
        raise Refused(f"nested deeper than {MAX_DEPTH}")


def fields(node: dict[str, Tree], names: tuple[str, ...]) -> None:
    if len(node) != len(names) or any(name not in node for name in names):
        raise Refused(f"{node['$']} must have exactly the fields {', '.join(names[1:])}")


def only(node: dict[str, Tree], kind: type) -> Any:
    fields(node, ("$", "v"))
    if type(node["v"]) is not kind:
        raise Refused(f"{node['$']} has a wrong value")
    return node["v"]


def pair_list(node: dict[str, Tree]) -> list[list[Tree]]:
    pairs: list[list[Tree]] = only(node, list)
    if any(type(pair) is not list or len(pair) != 2 for pair in pairs):
        raise Refused(f"{node['$']} must be a list of pairs")
    return pairs


def string_pairs(node: dict[str, Tree]) -> list[list[Tree]]:
    pairs = pair_list(node)
    seen: set[str] = set()
    for index, (key, _) in enumerate(pairs):
        if type(key) is not str:
            raise Refused("object has a key that is not a string")
        check_once(seen, key, index)
        seen.add(key)
    return pairs


def hashable(value: Any) -> Hashable:
    if type(value) is list:
        return tuple(map(hashable, value))
    try:
        hash(value)
    except TypeError:
        raise Refused(f"{type(value).__name__} cannot be a set item or map key in Python") from None
    assert isinstance(value, Hashable)
    return value


def check_once(seen: Any, key: Hashable, index: int) -> None:
    """1, 1.0 and True are one key in Python: to merge them silently would lose data."""
    if key in seen:
        refusal = Refused("%.80r is there twice" % (key,))
        refusal.steps.append(index)
        raise refusal


def check_hashes(keys: list[Hashable]) -> None:
    """Hashes of numbers are no secret: 100,000 keys of one hash would keep the host busy for minutes."""
    if len(keys) > SUSPICIOUS and len({hash(key) for key in keys}) < len(keys) // 2:
        raise Refused(f"{len(keys)} keys have but few hashes among them")


# At the end: it takes its bases from here.
from . import _rare  # noqa: E402
