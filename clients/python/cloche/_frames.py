"""Frames: u32 length, u32 JSON length, JSON, attachments; little endian (spec/values.md). Bytes in, frames out."""
from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from .errors import ProtocolError, TooLargeError

MAX_FRAME = 1 << 30
MAX_JSON = 256 << 20
HEAD = 8


class Frame(NamedTuple):
    json: bytes
    attachments: bytes


def write_frame(text: bytes, attachments: Sequence[bytes] = ()) -> bytes:
    size = sum(map(len, attachments))
    if len(text) > MAX_JSON:
        raise TooLargeError(f"the message has {len(text)} bytes of JSON; at most {MAX_JSON} fit into a frame")
    if 4 + len(text) + size > MAX_FRAME:
        raise TooLargeError(f"the message has {4 + len(text) + size} bytes; at most {MAX_FRAME} fit into a frame")
    head = (4 + len(text) + size).to_bytes(4, "little") + len(text).to_bytes(4, "little")
    return b"".join((head, text, *attachments))


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
        """The length that the next frame says, once the frame is here and may be."""
        have = len(self._buffer) - at
        if have < 4:
            return None
        length = int.from_bytes(self._buffer[at:at + 4], "little")
        if length > MAX_FRAME:
            raise TooLargeError(f"a frame of {length} bytes; at most {MAX_FRAME} are allowed")
        if length < 4:
            raise ProtocolError(f"a frame of {length} bytes; there must be 4 at least")
        if have < HEAD:
            return None
        size = int.from_bytes(self._buffer[at + 4:at + HEAD], "little")
        if size > length - 4:
            raise ProtocolError(f"a frame of {length} bytes says it has {size} bytes of JSON")
        if size > MAX_JSON:
            raise TooLargeError(f"a frame with {size} bytes of JSON; at most {MAX_JSON} are allowed")
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
