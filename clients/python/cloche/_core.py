"""The part of a connection that both clients share: no sockets, threads or loops. Bytes in, bytes
out, and callbacks for the owners of requests."""
from __future__ import annotations

import functools
import itertools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from . import _rpc
from ._base_errors import ClocheError, ConnectionLostError, GuardWarning, ValueRefusedError
from ._declare import HostFunction
from ._frames import FrameReader
from ._requests import Abort, Decision, Request, Skip
from ._results import Change, Denial, SyncOutcome, _why
from ._rpc import Id, Message
from ._values import Decoder, Encoder, make_encoder
from .errors import ForbiddenError, GuardMissingError, InvalidArgumentError, InvalidStateError, ProtocolError, TooLargeError

MAGIC = b"CLOCHE1\n"
PROTOCOL = 1

# Most bytes of output that may wait for the callbacks of one run: code that prints faster than they
# read must not fill the host's memory.
MAX_WAITING_OUTPUT = 64 << 20
HAPPENING_SIZE = 512

# For a stream with an iterator: at this many waiting bytes the daemon is paused, and below GO_BELOW resumed.
HOLD_FROM = 1 << 20
GO_BELOW = 256 << 10


@dataclass(frozen=True)
class Output:
    """A piece of output. `terminal`: from a process of a sandbox on a terminal."""

    stream: Literal["stdout", "stderr", "terminal"]
    data: bytes


@dataclass(frozen=True)
class Happening:
    """An event of a sandbox other than output."""

    event: str
    about: dict[str, Any]


Event = Output | Denial | SyncOutcome | tuple[Change, str] | Happening


class HostCall:
    """The guest's code calls a function of the host. Respond once, in any thread."""

    def __init__(self, message: Message, references: bool, function: HostFunction, name: str) -> None:
        self._message = message
        self._references = references
        self.function = function
        self.name = name

    def arguments(self) -> tuple[list[Any], dict[str, Any]]:
        """Raises ValueRefusedError for a value that Python cannot represent."""
        decoder, params = Decoder(self._message.attachments), self._message.params
        args = decoder.value(params.get("args", []), "args")
        kwargs = decoder.value(params.get("kwargs", {}), "kwargs")
        decoder.finish()
        if not isinstance(args, list) or not isinstance(kwargs, dict) or not all(isinstance(key, str) for key in kwargs):
            raise ValueRefusedError("args must be an array and kwargs an object of names")
        return args, kwargs

    def answer(self, value: Any) -> bytes:
        encoder = make_encoder(self._references)
        try:
            tree = encoder.value(value, "$")
            return _rpc.write_result(self._ident, {"value": tree}, encoder.parts)
        except (ValueRefusedError, TooLargeError) as error:
            return self.fail(TypeError(f"what the host function {self.name} returned cannot be sent: {error}"))

    def fail(self, error: BaseException) -> bytes:
        """Name, message and fields are sent; the host's stack is not."""
        encoder = Encoder()
        data: dict[str, Any] = {"name": _error_name(error), "message": _error_text(error)}
        fields = _sendable_fields(error, encoder)
        if fields:
            data["fields"] = fields
        try:
            return _rpc.write_error(self._ident, _rpc.THROWN, data["message"], data, encoder.parts)
        except TooLargeError as too_large:
            return _rpc.write_error(self._ident, _rpc.THROWN, str(too_large), {"name": data["name"], "message": str(too_large)})

    @property
    def _ident(self) -> Id:
        assert self._message.id is not None
        return self._message.id


def _error_name(error: BaseException) -> str:
    """The class name, or the original name of an error that came from elsewhere."""
    name = error.__dict__.get("name")
    if type(error) is Exception and isinstance(name, str):
        return name
    return type(error).__name__


def _error_text(error: BaseException) -> str:
    try:
        # str() of a KeyError is the repr of its key.
        text = error.args[0] if isinstance(error, KeyError) and len(error.args) == 1 and isinstance(error.args[0], str) else str(error)
    except Exception as broken:
        text = f"{type(error).__name__} whose text cannot be had: {type(broken).__name__}"
    return text.encode("utf-8", "replace").decode("utf-8")[:1 << 20]


def _sendable_fields(error: BaseException, encoder: Encoder) -> dict[str, Any]:
    """An error without its unsendable fields is still that error."""
    out = {}
    for name, value in list(error.__dict__.items()):
        if name.startswith("_") or name in ("name", "message", "stack"):
            continue
        before = len(encoder.parts), encoder.size
        try:
            out[name] = encoder.value(value, name)
        except ValueRefusedError:
            del encoder.parts[before[0]:]
            encoder.size = before[1]
    return out


class SyncQuestion:
    """A decision about a change: write it or not. Respond once."""

    def __init__(self, message: Message) -> None:
        self._message = message
        self.change = Change.read(_plain(message, "change"))

    def answer(self, decision: Decision) -> bytes:
        """Raises InvalidArgumentError for an invalid decision: then send abort()."""
        tree: dict[str, Any] = {"action": decision}
        if decision is None:
            tree["action"] = "continue"
        elif isinstance(decision, (Skip, Abort)):
            tree["action"] = "skip" if isinstance(decision, Skip) else "abort"
            if decision.reason is not None:
                tree["reason"] = Encoder().value(str(decision.reason), "reason")
        elif decision not in ("continue", "skip", "abort"):
            raise InvalidArgumentError(f"before_sync answered {decision!r}; expected: None, 'continue', 'skip', 'abort', Skip() or Abort()")
        return self._write(tree)

    def abort(self, reason: str) -> bytes:
        return self._write({"action": "abort", "reason": reason})

    def _write(self, tree: dict[str, Any]) -> bytes:
        assert self._message.id is not None
        return _rpc.write_result(self._message.id, tree)


class Exchange:
    """A request in progress, as the connection sees it; subclasses of the two clients implement waiting."""

    def __init__(self, request: Request[Any]) -> None:
        self.request = request
        self.ident: Id = 0

    def answered(self, message: Message) -> None:
        """Called once; so is lost(), and only one of them."""
        raise NotImplementedError

    def lost(self, error: ClocheError) -> None:
        raise NotImplementedError

    def told(self, event: Event) -> None:
        """An event, before the response."""

    def host_call(self, call: HostCall) -> None:
        raise NotImplementedError

    def sync_question(self, question: SyncQuestion) -> None:
        raise NotImplementedError

    def read(self, message: Message) -> Any:
        if message.kind == "error":
            raise _rpc.error_of(message)
        return self.request.read(message)


class Core:
    """The state of one connection. `ask` may be called from any thread, all else from one."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.error: ClocheError | None = None
        self._frames = FrameReader()
        self._is_heard = False
        self._ids = itertools.count(1)
        self._waiting: dict[Id, Exchange] = {}

    # -- going out

    def greeting(self, exchange: Exchange) -> bytes:
        return MAGIC + self.ask(exchange)

    def hello(self, token: str | None, notice: bool = False, strict: bool = False) -> Request[dict[str, Any]]:
        """notice: a line about missing guards, if the daemon has one, becomes a warning."""
        params: dict[str, Any] = {"protocol": PROTOCOL, "client": self.client}
        if token is not None:
            params["token"] = token
        if notice:
            params["notice"] = True
        return Request("hello", params, functools.partial(_read_hello, strict))

    def ask(self, exchange: Exchange) -> bytes:
        """Return the frame to send. Raises the connection's error if it has ended."""
        request = exchange.request
        exchange.ident = ident = next(self._ids)
        data = _rpc.write_request(ident, request.method, request.params, request.parts)
        self._waiting[ident] = exchange
        if self.error is not None:
            # Insert first and check then: the reader does the opposite, and cannot miss both.
            self._waiting.pop(ident, None)
            raise self.error
        return data

    def cancel(self, exchange: Exchange) -> Request[None]:
        return Request("cancel", {"id": exchange.ident}, lambda message: None)

    def hold(self, exchange: Exchange, hold: bool) -> Request[None]:
        """Pause or resume its events: one slow reader must not block the connection for the others."""
        return Request("hold", {"id": exchange.ident, "hold": hold}, lambda message: None)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    # -- coming in

    def receive(self, data: bytes | bytearray | memoryview) -> list[bytes]:
        """Process received bytes; returns bytes to send at once. Raises ProtocolError: the
        connection is then unusable."""
        if not self._is_heard:
            self._is_heard = True
            _check_refusal(bytes(data[:512]))
        replies = []
        for frame in self._frames.feed(data):
            reply = self._one(_rpc.read_message(frame))
            if reply is not None:
                replies.append(reply)
        return replies

    def lose(self, error: ClocheError) -> None:
        """The connection is over: notify all waiters. Idempotent."""
        if self.error is None:
            self.error = error
        for ident in list(self._waiting):
            exchange = self._waiting.pop(ident, None)
            if exchange is not None:
                exchange.lost(self.error)

    def ended(self, told: str) -> ClocheError:
        """The error for the end of the stream."""
        cut = ", in the middle of a message" if self._frames.unfinished else ""
        return ConnectionLostError(f"the connection to the daemon ended{cut}{told}")

    def _one(self, message: Message) -> bytes | None:
        if message.kind in ("result", "error"):
            self._answer(message)
            return None
        if message.kind == "notification":
            self._tell(message)
            return None
        return self._asked(message)

    def _answer(self, message: Message) -> None:
        if message.id is None:
            raise _rpc.error_of(message)
        exchange = self._waiting.pop(message.id, None)
        if exchange is None:
            raise ProtocolError(f"the daemon answered request {message.id!r}, which is not open")
        exchange.answered(message)

    def _tell(self, message: Message) -> None:
        reader = EVENTS.get(message.method)
        exchange = self._owner(message, "id" if message.method == "event" else "run")
        # Drop events of a finished run, and unknown events of a later daemon.
        if reader is not None and exchange is not None:
            exchange.told(reader(message))

    def _asked(self, message: Message) -> bytes | None:
        assert message.id is not None
        exchange = self._owner(message)
        if message.method not in ("bridge", "sync.before"):
            return _rpc.write_error(message.id, _rpc.NO_SUCH_METHOD, f"a client has no method {message.method:.80}", {})
        if exchange is None:
            return _rpc.write_error(message.id, _rpc.THROWN, "the run has ended", {"name": "Error", "message": "the run has ended"})
        if message.method == "sync.before":
            exchange.sync_question(SyncQuestion(message))
            return None
        return self._bridge(message, exchange)

    def _owner(self, message: Message, name: str = "run") -> Exchange | None:
        run = message.params.get(name)
        return self._waiting.get(run) if isinstance(run, (int, str)) else None

    def _bridge(self, message: Message, exchange: Exchange) -> bytes | None:
        target = message.params.get("target")
        steps = tuple(target) if isinstance(target, list) and all(isinstance(step, str) for step in target) else ()
        function = exchange.request.handlers.functions.get(steps)
        name = ".".join(steps[1:])
        call = HostCall(message, exchange.request.references, function or _nobody, name)
        if function is None:
            return call.fail(NameError(f"the host has no function {name or target!r}"))
        exchange.host_call(call)
        return None


def _nobody(*args: Any, **kwargs: Any) -> None:
    raise AssertionError("called a function that is not there")


def _check_refusal(data: bytes) -> None:
    """A daemon refuses a connection with an HTTP response, whatever protocol it uses: the reason is
    the body. Other HTTP is no frame."""
    reason = data.partition(b"\r\n\r\n")[2].decode("utf-8", "replace").strip()
    for status, kind in ((b"403", ForbiddenError), (b"503", InvalidStateError)):
        if reason and data.startswith(b"HTTP/1.1 " + status):
            raise kind(reason)


def _read_hello(strict: bool, message: Message) -> dict[str, Any]:
    told = message.result
    if not isinstance(told, dict) or told.get("server") != "cloche":
        raise ProtocolError("who answered is no cloched")
    if told.get("protocol") != PROTOCOL:
        raise ProtocolError(f"the daemon speaks protocol {told.get('protocol')!r}, this client speaks {PROTOCOL}: update the older one")
    missing = told.get("missing", [])
    if strict and missing:
        raise GuardMissingError(f"guards missing: {', '.join(missing)} (cloche selftest tells why; strict refuses)")
    if notice := told.pop("notice", None):
        warnings.warn(notice, GuardWarning, stacklevel=2)
    return told


def _plain(message: Message, name: str) -> dict[str, Any]:
    value = Decoder(message.attachments, any_integer=True).value(message.params.get(name), name)
    if not isinstance(value, dict):
        raise ProtocolError(f"{message.method} without {name}")
    return value


def _read_output(message: Message) -> Event:
    return _output(message.params.get("stream"), Decoder(message.attachments).value(message.params.get("data"), "data"), ("stdout", "stderr"))


def _output(stream: Any, data: Any, streams: tuple[str, ...]) -> Output:
    if stream not in streams or not isinstance(data, (bytes, str)):
        raise ProtocolError("output of no stream, or that is neither bytes nor text")
    return Output(stream, data if isinstance(data, bytes) else data.encode("utf-8"))


def _read_event(message: Message) -> Event:
    """For a request about a sandbox."""
    event, about = message.params.get("event"), _plain(message, "about")
    if not isinstance(event, str):
        raise ProtocolError("an event without a name")
    if event == "output":
        return _output(about.get("stream"), about.get("data"), ("stdout", "stderr", "terminal"))
    return Happening(event, about)


def _read_params(message: Message) -> dict[str, Any]:
    told = {name: node for name, node in message.params.items() if name != "run"}
    value = Decoder(message.attachments, any_integer=True).value(told, message.method)
    assert isinstance(value, dict)
    return value


EVENTS: dict[str, Callable[[Message], Event]] = {
    "output": _read_output,
    "event": _read_event,
    "permissionDenied": lambda message: Denial.read(_read_params(message)),
    "sync.after": lambda message: SyncOutcome.read(_read_params(message)),
    "sync.error": lambda message: (Change.read(_plain(message, "change")), _why(_read_params(message).get("error")) or ""),
}


def dispatch(request: Request[Any], event: Event) -> Any:
    """Call the callback for this event; returns its result, which may be awaitable."""
    handlers = request.handlers
    if isinstance(event, Output):
        return handlers.on_output(event.stream, event.data) if handlers.on_output else None  # type: ignore[arg-type]
    if isinstance(event, Happening):
        return handlers.on_event(event) if handlers.on_event else None
    if isinstance(event, Denial):
        return handlers.on_permission_denied(event) if handlers.on_permission_denied else None
    if isinstance(event, SyncOutcome):
        return handlers.after_sync(event) if handlers.after_sync else None
    return handlers.on_sync_error(*event) if handlers.on_sync_error else None


def _size(event: Event) -> int:
    """The memory an event takes; small events count as nothing."""
    if isinstance(event, Output):
        return len(event.data)
    return HAPPENING_SIZE + _weight(event.about) if isinstance(event, Happening) else 0


def _weight(value: Any) -> int:
    """For texts and bytes in any container: a display may be large."""
    if isinstance(value, dict):
        return sum(_weight(item) for item in value.values())
    if isinstance(value, list):
        return sum(_weight(item) for item in value)
    return len(value) if isinstance(value, (str, bytes)) else 1


class Backlog:
    """The size of events that wait for one run's callbacks. Two counts, each written by one thread:
    a shared one would need a lock."""

    def __init__(self) -> None:
        self._come = 0
        self._gone = 0

    def put(self, event: Event) -> None:
        self._come += _size(event)

    def taken(self, event: Event) -> None:
        self._gone += _size(event)

    @property
    def waiting(self) -> int:
        return self._come - self._gone

    @property
    def over(self) -> TooLargeError | None:
        if self.waiting <= MAX_WAITING_OUTPUT:
            return None
        return TooLargeError(f"more than {MAX_WAITING_OUTPUT} bytes of output wait: on_output is slower than the run, which was cancelled")
