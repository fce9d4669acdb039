"""The host's declarations for code: functions that call back, constants, modules (the declarations
of spec/agent.md)."""
from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ._values import Encoder
from .errors import InvalidArgumentError

HostFunction = Callable[..., Any]
Target = tuple[str, ...]
"""("global", name, member, ...) or ("import", specifier, name, member, ...)"""


@dataclass(frozen=True)
class Function:
    """Calls the host. A plain callable means the same."""

    function: HostFunction
    enumerable: bool = True


@dataclass(frozen=True)
class Value:
    """A constant, even if it is a mapping that holds callables. Any plain value that is not callable means the same."""

    value: Any
    enumerable: bool = True


@dataclass(frozen=True)
class Expression:
    """The value of JavaScript text, evaluated once in the box."""

    text: str
    enumerable: bool = True


@dataclass(frozen=True)
class Shim:
    """Calls the host, then `text`, the source of a JavaScript function, with the result."""

    function: HostFunction
    text: str
    enumerable: bool = True


@dataclass(frozen=True)
class Source:
    """A module as text in the language. In `imports` a plain str means the same."""

    text: str


Declarations = Mapping[str, Any]


class Declarer:
    """Writes declarations, and collects their functions."""

    def __init__(self, encoder: Encoder) -> None:
        self.functions: dict[Target, HostFunction] = {}
        self._encoder = encoder

    def globals(self, declared: Declarations) -> dict[str, Any]:
        return self._members(declared, ("global",), "globals")

    def imports(self, declared: Declarations) -> dict[str, Any]:
        _check_names(declared, "imports")
        return {specifier: self._module(module, specifier) for specifier, module in declared.items()}

    def _module(self, module: Any, specifier: str) -> dict[str, Any]:
        root = f"imports[{specifier!r}]"
        if isinstance(module, (str, Source)):
            text = module if isinstance(module, str) else module.text
            return {"source": self._encoder.value(text, root)}
        if not isinstance(module, Mapping):
            raise InvalidArgumentError(f"{root} must be the text of a module or a mapping of its members, not a {type(module).__name__}")
        return {"members": self._members(module, ("import", specifier), root)}

    def _members(self, declared: Declarations, target: Target, root: str) -> dict[str, Any]:
        _check_names(declared, root)
        return {name: self._one(item, (*target, name), f"{root}[{name!r}]") for name, item in declared.items()}

    def _one(self, item: Any, target: Target, root: str) -> dict[str, Any]:
        if isinstance(item, Expression):
            return _hidden(item, {"kind": "expression", "text": item.text})
        if isinstance(item, Shim):
            self._keep(target, item.function, root)
            return _hidden(item, {"kind": "shim", "text": item.text})
        if isinstance(item, Function):
            self._keep(target, item.function, root)
            return _hidden(item, {"kind": "function"})
        if isinstance(item, Value):
            return _hidden(item, {"kind": "value", "value": self._encoder.value(item.value, root)})
        if isinstance(item, Mapping) and _holds_functions(item, 0):
            return {"kind": "object", "members": self._members(item, target, root)}
        if callable(item):
            self._keep(target, item, root)
            return {"kind": "function"}
        return {"kind": "value", "value": self._encoder.value(item, root)}

    def _keep(self, target: Target, function: Any, root: str) -> None:
        if not callable(function):
            raise InvalidArgumentError(f"{root} must be a function, not a {type(function).__name__}")
        self.functions[target] = function


def rebind(declared: Mapping[Target, HostFunction], anew: Declarations) -> dict[Target, HostFunction]:
    """A prefix's functions, some of them replaced for one run. Names that the prefix did not
    declare cannot be added later."""
    out = dict(declared)
    for target, function in _leaves(anew, ("global",)):
        if target not in declared:
            known = ", ".join(".".join(known[1:]) for known in declared if known[0] == "global") or "none"
            raise InvalidArgumentError(f"globals: the prefix declares no function {'.'.join(target[1:])}; it declares: {known}")
        if not callable(function):
            raise InvalidArgumentError(f"globals: {'.'.join(target[1:])} must be a function, not a {type(function).__name__}")
        out[target] = function
    return out


def _leaves(declared: Declarations, target: Target) -> list[tuple[Target, Any]]:
    out: list[tuple[Target, Any]] = []
    for name, item in declared.items():
        if isinstance(item, Mapping):
            out += _leaves(item, (*target, name))
        else:
            out.append(((*target, name), item.function if isinstance(item, (Function, Shim)) else item))
    return out


def _hidden(item: Function | Value | Expression | Shim, tree: dict[str, Any]) -> dict[str, Any]:
    return tree if item.enumerable else {**tree, "enumerable": False}


def _holds_functions(item: Mapping[Any, Any], depth: int) -> bool:
    if depth > 32:
        raise InvalidArgumentError("declarations are nested deeper than 32")
    return any(callable(member) or isinstance(member, (Function, Shim, Expression, Value))
               or (isinstance(member, Mapping) and _holds_functions(member, depth + 1)) for member in item.values())


def _check_names(declared: Declarations, root: str) -> None:
    if not isinstance(declared, Mapping):
        raise InvalidArgumentError(f"{root} must be a mapping of names, not a {type(declared).__name__}")
    for name in declared:
        if not isinstance(name, str):
            raise InvalidArgumentError(f"{root} has a name of type {type(name).__name__}; names are strings")
        if "\0" in name:
            raise InvalidArgumentError(f"{root} has a name with NUL in it: {name!r}")
