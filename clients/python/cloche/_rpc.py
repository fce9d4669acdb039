"""JSON-RPC 2.0 in frames: what one message is, and how it is written. No ids are given out here."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from . import errors
from ._base_errors import ClocheError, UnknownMethodError
from ._frames import Frame, parse_json, write_frame, write_json

NO_SUCH_METHOD = -32601
THROWN = -32000

Id = int | str


class Message(NamedTuple):
    kind: Literal["request", "notification", "result", "error"]
    id: Id | None
    method: str
    params: dict[str, Any]
    result: Any
    error: dict[str, Any]
    attachments: bytes


def read_message(frame: Frame) -> Message:
    tree = parse_json(frame.json)
    if not isinstance(tree, dict) or tree.get("jsonrpc") != "2.0":
        raise errors.ProtocolError("a message is no JSON-RPC 2.0 object")
    asked, ident = tree.get("method"), tree.get("id")
    if ident is not None and (isinstance(ident, bool) or not isinstance(ident, (int, str))):
        raise errors.ProtocolError("a message has an id that is neither a string nor an integer")
    if isinstance(asked, str):
        params = tree.get("params", {})
        if not isinstance(params, dict):
            raise errors.ProtocolError(f"the parameters of {asked:.80} are no object")
        return Message("request" if ident is not None else "notification", ident, asked, params, None, {}, frame.attachments)
    if "method" in tree:
        raise errors.ProtocolError("a message has a method that is no string")
    if "error" in tree:
        if not isinstance(tree["error"], dict) or "result" in tree:
            raise errors.ProtocolError("a message has an error that is none")
        return Message("error", ident, "", {}, None, tree["error"], frame.attachments)
    if "result" not in tree or ident is None:
        raise errors.ProtocolError("a message is neither a request nor an answer to one")
    return Message("result", ident, "", {}, tree["result"], {}, frame.attachments)


def write_request(ident: Id, method: str, params: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    return write_frame(write_json({"jsonrpc": "2.0", "id": ident, "method": method, "params": params}), parts)


def write_result(ident: Id, result: Any, parts: Sequence[bytes] = ()) -> bytes:
    return write_frame(write_json({"jsonrpc": "2.0", "id": ident, "result": result}), parts)


def write_error(ident: Id, code: int, message: str, data: dict[str, Any], parts: Sequence[bytes] = ()) -> bytes:
    return write_frame(write_json({"jsonrpc": "2.0", "id": ident, "error": {"code": code, "message": message, "data": data}}), parts)


def error_of(message: Message) -> ClocheError:
    """The exception for an error that the daemon answered with."""
    code, text, data = message.error.get("code"), message.error.get("message"), message.error.get("data")
    data = data if isinstance(data, dict) else {}
    name = data.get("name")
    told = text if isinstance(text, str) and text else "the daemon gave no message"
    if code == NO_SUCH_METHOD:
        return UnknownMethodError(told, data=data)
    if isinstance(name, str) and name in errors.BY_NAME:
        return errors.BY_NAME[name](told, data=data)
    if isinstance(name, str):
        return ClocheError(told, name=name, data=data)
    return errors.ProtocolError(f"the daemon refused a message: {told}", data=data)
