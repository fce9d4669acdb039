"""Frames: u32 length, u32 JSON length, JSON, attachments; little endian (spec/values.md). Bytes in, frames out."""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from . import _wire
from .errors import ProtocolError, TooLargeError

HEAD = 8


class Frame(NamedTuple):
    json: bytes
    attachments: bytes


def _check(length: int, json_size: int = 0) -> None:
    try:
        _wire.check_frame(length, json_size)
    except _wire.BadFrame as bad:
        raise (TooLargeError if bad.is_too_large else ProtocolError)(str(bad)) from None


def write_frame(text: bytes, attachments: Sequence[bytes] = ()) -> bytes:
    size = sum(map(len, attachments))
    _check(4 + len(text) + size, len(text))
    return b"".join((_wire.frame_head(len(text), size), text, *attachments))


class FrameReader:
    """Cuts a stream into frames; what is refused is refused from its first bytes on, before any more are waited for."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes | bytearray | memoryview) -> Iterator[Frame]:
        """The frames that are complete with this piece. To be exhausted before the next piece comes."""
        self._buffer += data
        at = 0
        try:
            while (length := self._next_length(at)) is not None:
                json_at = at + HEAD
                json_end = json_at + int.from_bytes(self._buffer[at + 4:json_at], "little")
                end = at + 4 + length
                with memoryview(self._buffer) as view:
                    frame = Frame(bytes(view[json_at:json_end]), bytes(view[json_end:end]))
                at = end
                yield frame
        finally:
            del self._buffer[:at]

    def _next_length(self, at: int) -> int | None:
        """The length of the next frame, once all of it is here and it is allowed."""
        have = len(self._buffer) - at
        if have < 4:
            return None
        length = int.from_bytes(self._buffer[at:at + 4], "little")
        _check(length)
        if have < HEAD:
            return None
        _check(length, int.from_bytes(self._buffer[at + 4:at + HEAD], "little"))
        return length if have >= 4 + length else None

    @property
    def unfinished(self) -> int:
        """Bytes that wait for the rest of their frame."""
        return len(self._buffer)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


_decoder = json.JSONDecoder(parse_constant=_refuse_constant)
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, check_circular=False, separators=(",", ":"))


def parse_json(data: bytes) -> Any:
    try:
        return _decoder.decode(data.decode("utf-8"))
    except RecursionError:
        raise ProtocolError("a message is nested too deeply") from None
    except ValueError as error:
        raise ProtocolError(f"a message is no JSON: {error}") from None


def write_json(tree: Any) -> bytes:
    return _encoder.encode(tree).encode("utf-8")
