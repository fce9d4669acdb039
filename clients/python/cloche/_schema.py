"""Schemas of tools (the S of spec/signatures.md): checked when the tool is declared, and applied to
the arguments of hostile code."""
from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from re import _constants, _parser  # type: ignore[attr-defined]
from typing import Any

from .errors import InvalidArgumentError

Schema = Mapping[str, Any]
Check = Callable[[Any, str], None]

IGNORED = {"title", "description", "examples", "format", "default", "deprecated", "readOnly", "writeOnly", "$comment", "$schema", "$id",
           "name", "index"}
MAX_DEPTH = 64

# A pattern is the host's, the text is the guest's, and `re` cannot be interrupted: patterns that
# may take long are refused beforehand.
PATTERN_REPEATS = 3
PATTERN_TEXT = 256
FEW = 32


class Misfit(Exception):
    """A value that violates its schema; the text names the place."""


def compile_schema(schema: Any, where: str, depth: int = 0) -> Check:
    """Raises InvalidArgumentError for an invalid schema, or for keywords that are not checked here."""
    if not isinstance(schema, Mapping):
        raise InvalidArgumentError(f"{where} must be an object, not {schema!r}")
    if depth > MAX_DEPTH:
        raise InvalidArgumentError(f"{where} is nested deeper than {MAX_DEPTH}")
    checks = []
    for keyword, told in schema.items():
        if keyword in IGNORED:
            continue
        maker = KEYWORDS.get(keyword)
        if maker is None:
            raise InvalidArgumentError(f"{where} has the keyword {keyword!r}, which is not known; known are: {', '.join(KEYWORDS)}")
        checks.append(maker(told, schema, f"{where}.{keyword}", depth + 1))

    def check(value: Any, path: str) -> None:
        for one in checks:
            one(value, path)
    return check


# ---- types ----

def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: _is_number(value) and (isinstance(value, int) or (math.isfinite(value) and value == int(value))),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, (list, tuple)),
    "object": lambda value: isinstance(value, dict) and all(isinstance(key, str) for key in value),
    "null": lambda value: value is None,
    "bytes": lambda value: isinstance(value, bytes),
    "any": lambda value: True,
}


def _type(told: Any, schema: Schema, where: str, depth: int) -> Check:
    names = [told] if isinstance(told, str) else told
    if not isinstance(names, Sequence) or not names or any(name not in TYPES for name in names):
        raise InvalidArgumentError(f"{where} is {told!r}; expected one or more of: {', '.join(TYPES)}")

    def check(value: Any, path: str) -> None:
        if not any(TYPES[name](value) for name in names):
            raise Misfit(f"{path} must be {' or '.join(names)}, not {_kind(value)}")
    return check


def _kind(value: Any) -> str:
    names = ("null", "boolean", "string", "integer", "number", "array", "object", "bytes")
    return next((name for name in names if TYPES[name](value)), type(value).__name__)


def _same(a: Any, b: Any) -> bool:
    """1 and 1.0 are one number; 1 and true are not."""
    return a == b and isinstance(a, bool) == isinstance(b, bool)


def _enum(told: Any, schema: Schema, where: str, depth: int) -> Check:
    values = list(_array(told, where))

    def check(value: Any, path: str) -> None:
        if not any(_same(value, one) for one in values):
            raise Misfit(f"{path} must be one of: {', '.join(map(repr, values))}")
    return check


def _const(told: Any, schema: Schema, where: str, depth: int) -> Check:
    return _enum([told], schema, where, depth)


# ---- several schemas ----

def _some(least: int, most: int | None, text: str) -> Any:
    def maker(told: Any, schema: Schema, where: str, depth: int) -> Check:
        checks = [compile_schema(one, f"{where}[{index}]", depth) for index, one in enumerate(_array(told, where))]

        def check(value: Any, path: str) -> None:
            fits = sum(_fits(one, value, path) for one in checks)
            if fits < (least or len(checks)) or (most is not None and fits > most):
                raise Misfit(f"{path} fits {fits} of the {len(checks)} alternatives; it must fit {text}")
        return check
    return maker


def _fits(check: Check, value: Any, path: str) -> bool:
    try:
        check(value, path)
    except Misfit:
        return False
    return True


# ---- bounds ----

def _bound(kind: Callable[[Any], bool], measure: Callable[[Any], Any], holds: Callable[[Any, Any], bool], text: str) -> Any:
    def maker(told: Any, schema: Schema, where: str, depth: int) -> Check:
        if not _is_number(told) or told != told:
            raise InvalidArgumentError(f"{where} must be a number, not {told!r}")

        def check(value: Any, path: str) -> None:
            if kind(value) and not holds(measure(value), told):
                raise Misfit(f"{path} must {text} {told}")
        return check
    return maker


def _array(told: Any, where: str) -> Sequence[Any]:
    if not isinstance(told, (list, tuple)) or not told:
        raise InvalidArgumentError(f"{where} must be an array that is not empty, not {told!r}")
    return told


# ---- strings, arrays, objects ----

def _pattern(told: Any, schema: Schema, where: str, depth: int) -> Check:
    if not isinstance(told, str):
        raise InvalidArgumentError(f"{where} must be text, not {told!r}")
    try:
        tree = _parser.parse(told)
        pattern = re.compile(told)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidArgumentError(f"{where}: {told!r} is no pattern: {error}") from None
    if sum(1 for _ in _long_repeats(tree, where)) > PATTERN_REPEATS:
        raise InvalidArgumentError(f"{where}: {told!r} repeats more than {PATTERN_REPEATS} things often, which may take long")

    def check(value: Any, path: str) -> None:
        if not isinstance(value, str):
            return
        if len(value) > PATTERN_TEXT:
            raise Misfit(f"{path} has {len(value)} characters; where there is a pattern at most {PATTERN_TEXT} are taken")
        if not pattern.search(value):
            raise Misfit(f"{path} must match the pattern {told}")
    return check


def _long_repeats(tree: Any, where: str, inside: bool = False) -> Iterator[None]:
    """Yield once for each repeat above a small bound in a parsed pattern. Nested repeats are
    exponential, so are back references."""
    for code, argument in tree:
        if code in (_constants.GROUPREF, _constants.GROUPREF_EXISTS):
            raise InvalidArgumentError(f"{where} refers back to a group, which may take long")
        repeats = code in (_constants.MAX_REPEAT, _constants.MIN_REPEAT, _constants.POSSESSIVE_REPEAT) and argument[1] > 1
        if repeats and inside:
            raise InvalidArgumentError(f"{where} has a repeat in a repeat, which may take long")
        if repeats and argument[1] > FEW:
            yield None
        for part in _parts(argument):
            yield from _long_repeats(part, where, inside or repeats)


def _parts(argument: Any) -> Iterator[Any]:
    """The parts of a parsed pattern."""
    if isinstance(argument, _parser.SubPattern):
        yield argument
    elif isinstance(argument, (list, tuple)):
        for item in argument:
            yield from _parts(item)


def _items(told: Any, schema: Schema, where: str, depth: int) -> Check:
    each = compile_schema(told, where, depth)

    def check(value: Any, path: str) -> None:
        if isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                each(item, f"{path}[{index}]")
    return check


def _properties(told: Any, schema: Schema, where: str, depth: int) -> Check:
    if not isinstance(told, Mapping):
        raise InvalidArgumentError(f"{where} must be an object, not {told!r}")
    checks = {name: compile_schema(one, f"{where}.{name}", depth) for name, one in told.items()}

    def check(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for name, one in checks.items():
                if name in value:
                    one(value[name], f"{path}.{name}")
    return check


def _required(told: Any, schema: Schema, where: str, depth: int) -> Check:
    if isinstance(told, bool):
        return lambda value, path: None
    if not isinstance(told, (list, tuple)) or not all(isinstance(name, str) for name in told):
        raise InvalidArgumentError(f"{where} must be an array of names, not {told!r}")

    def check(value: Any, path: str) -> None:
        missing = [name for name in told if isinstance(value, dict) and name not in value]
        if missing:
            raise Misfit(f"{path}.{missing[0]} is required")
    return check


def _additional(told: Any, schema: Schema, where: str, depth: int) -> Check:
    known = set(schema.get("properties") or ())
    each = None if isinstance(told, bool) else compile_schema(told, where, depth)

    def check(value: Any, path: str) -> None:
        for name in value if isinstance(value, dict) else ():
            if name in known:
                continue
            if each is not None:
                each(value[name], f"{path}.{name}")
            elif not told:
                raise Misfit(f"{path} has no {name!r}; it has: {', '.join(sorted(known)) or 'nothing'}")
    return check


KEYWORDS: dict[str, Callable[[Any, Schema, str, int], Check]] = {
    "type": _type, "enum": _enum, "const": _const,
    "anyOf": _some(1, None, "one at least"), "oneOf": _some(1, 1, "exactly one"), "allOf": _some(0, None, "all"),
    "minimum": _bound(_is_number, lambda n: n, operator.ge, "not be less than"),
    "maximum": _bound(_is_number, lambda n: n, operator.le, "not be greater than"),
    "exclusiveMinimum": _bound(_is_number, lambda n: n, operator.gt, "be greater than"),
    "exclusiveMaximum": _bound(_is_number, lambda n: n, operator.lt, "be less than"),
    "minLength": _bound(TYPES["string"], len, operator.ge, "not be shorter than"),
    "maxLength": _bound(TYPES["string"], len, operator.le, "not be longer than"),
    "minItems": _bound(TYPES["array"], len, operator.ge, "not have fewer items than"),
    "maxItems": _bound(TYPES["array"], len, operator.le, "not have more items than"),
    "pattern": _pattern, "items": _items, "properties": _properties, "required": _required, "additionalProperties": _additional,
}
