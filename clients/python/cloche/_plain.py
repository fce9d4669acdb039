"""Values as JSON has them, from the rich ones that runs give."""
from __future__ import annotations

import array
import base64
import datetime
import math
import re
from collections.abc import Mapping
from typing import Any

from . import _wire
from ._base_errors import ValueRefusedError


def plain(value: Any) -> Any:
    """Sets become lists, keys text, dates and bytes (base64) text, nan and infinities None. A value that holds itself is refused."""
    return _plain(value, set())


def _plain(value: Any, within: set[int]) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, datetime.date):
        return _wire.date_text(value)
    if isinstance(value, re.Pattern):
        return str(value.pattern)
    if isinstance(value, BaseException):
        return _plain({"name": type(value).__name__, "message": str(value), **vars(value)}, within)
    return _container(value, within)


def _container(value: Any, within: set[int]) -> Any:
    if id(value) in within:
        raise ValueRefusedError("a value holds itself, which JSON cannot express; rich=True passes it as it is")
    within.add(id(value))
    try:
        if isinstance(value, Mapping):
            return {_key(key): _plain(item, within) for key, item in value.items()}
        if isinstance(value, (list, tuple, set, frozenset, array.array)):
            return [_plain(item, within) for item in value]
    finally:
        within.discard(id(value))
    raise ValueRefusedError(f"a {type(value).__name__} has no form in JSON; rich=True passes it as it is")


def _key(key: Any) -> str:
    """As json.dumps writes keys; others by their text."""
    if isinstance(key, str):
        return key
    named = {None: "null", True: "true", False: "false"}
    if key is None or isinstance(key, bool):
        return named[key]
    if isinstance(key, datetime.date):
        return str(_wire.date_text(key))
    return str(key)
