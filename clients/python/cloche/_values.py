"""Values on the wire (spec/values.md), as requests and results have them: a refusal names the value by its `root`."""
from __future__ import annotations

from typing import Any, NoReturn

from . import _wire
from ._base_errors import ValueRefusedError
from ._wire import Refused

TOO_DEEP = "nested deeper than what is left of Python's stack permits"

Tree = Any
"""A tree that json.dumps accepts."""


def _raise(refusal: Refused, root: str) -> NoReturn:
    raise ValueRefusedError(refusal.text(root)) from None


class Encoder(_wire.Encoder):
    def value(self, value: Any, root: str) -> Tree:
        """One whole value. Raises ValueRefusedError, which calls it `root`."""
        try:
            return self.whole(value)
        except Refused as refusal:
            _raise(refusal, root)
        except RecursionError:
            _raise(Refused(TOO_DEEP), root)

    def other(self, value: Any, depth: int) -> Tree:
        if not isinstance(value, BaseException):
            return super().other(value, depth)
        # As code in a box sends exceptions: name, message and public attributes.
        own = {name: item for name, item in vars(value).items() if not name.startswith("_")}
        return self.pairs(value, list({"name": type(value).__name__, "message": str(value), **own}.items()), depth)


class Numbered(_wire.Numbering, Encoder):
    pass


def make_encoder(references: bool) -> Encoder:
    return Numbered() if references else Encoder()


class Decoder(_wire.Decoder):
    def __init__(self, attachments: bytes, any_integer: bool = False) -> None:
        super().__init__(attachments)
        self.any_integer = any_integer

    def value(self, node: Tree, root: str) -> Any:
        """One whole value. Raises ValueRefusedError, which calls it `root`."""
        try:
            return self.decode(node)
        except Refused as refusal:
            _raise(refusal, root)
        except RecursionError:
            _raise(Refused(TOO_DEEP), root)

    def finish(self) -> None:
        try:
            super().finish()
        except Refused as refusal:
            _raise(refusal, "$")
