"""Results, as dataclasses: the daemon's names in snake_case, its whole response in `raw`."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ._base_errors import RunFailedError
from ._rpc import Message
from ._values import Decoder
from .errors import ProtocolError

Raw = Mapping[str, Any]
Status = Literal["success", "error", "crash", "timeout", "terminated"]


def _get(raw: Raw, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
    """A field that the daemon may omit, but not send in another type."""
    value = raw.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise ProtocolError(f"the daemon's answer has a {name} of type {type(value).__name__}")
    return value


def _list(raw: Raw, name: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = _get(raw, name, list, [])
    if not all(isinstance(row, dict) for row in rows):
        raise ProtocolError(f"the daemon's answer has something else than objects in {name}")
    return rows


def _text(path: str | bytes) -> str:
    """A path in invalid UTF-8 keeps its bytes, as everywhere in Python."""
    return path.decode("utf-8", "surrogateescape") if isinstance(path, bytes) else path


def _why(told: Any) -> str | None:
    """An error or a reason, sent as text or as an object that has one."""
    if isinstance(told, dict):
        told = told.get("message", told.get("reason", told.get("name", "")))
    return None if told is None else str(told)


@dataclass(frozen=True)
class GuestError:
    """The exception of the guest's code, or the reason why the run ended."""

    type: str
    """The language's own name of its class (ZeroDivisionError, TypeError), or WallTimeLimit, MemoryLimit, Signal, ..."""
    message: str
    stack: str | None = None
    code: str | None = None
    """ERR_..., of modules in the bare realm."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> GuestError:
        name = _get(raw, "name", str, "Error")
        return cls(_get(raw, "type", str, name), _get(raw, "message", str, ""), raw.get("stack"), raw.get("code"),
                   _get(raw, "fields", dict, {}), raw)

    def __str__(self) -> str:
        return f"{self.type}: {self.message}"


@dataclass(frozen=True)
class Change:
    """A file that has changed since the start of the run."""

    type: Literal["created", "modified", "deleted"]
    path: str
    content: str | bytes | None = None
    """The content of a plain file, if it is small enough and was requested; else None."""
    old_content: str | bytes | None = None
    size: int = 0
    kind: str = "file"
    real_path: str | None = None
    timestamp: int | None = None
    """Milliseconds since 1970."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Change:
        return cls(_get(raw, "type", str, "modified"), _text(raw.get("path", "")), raw.get("content"),
                   raw.get("oldContent"), _get(raw, "size", int, 0), _get(raw, "kind", str, "file"), raw.get("realPath"),
                   raw.get("timestamp"), raw)


@dataclass(frozen=True)
class Denial:
    """An access that the rules of a mount refused."""

    path: str
    operation: str
    rule: str | None = None
    count: int = 1
    timestamp: int | None = None
    raw: Raw = field(default_factory=dict, repr=False)
    allow: list[dict[str, Any]] = field(default_factory=list)
    """The rules that permit it, for Rule(**row) in Permissions; empty if a rule refused it."""

    @classmethod
    def read(cls, raw: Raw) -> Denial:
        return cls(_text(raw.get("path", "")), _get(raw, "operation", str, ""), raw.get("rule"), _get(raw, "count", int, 1),
                   raw.get("timestamp"), raw, _list(raw, "allow"))


@dataclass(frozen=True)
class Changes:
    """All file changes of a run. With `sync.mode` manual it has the id of a change set, which client.sync() takes."""

    created: list[Change]
    modified: list[Change]
    deleted: list[Change]
    denied: list[Denial]
    changeset: str | None = None
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw, changeset: str | None) -> Changes:
        created, modified, deleted = ([Change.read(row) for row in _list(raw, name)] for name in ("created", "modified", "deleted"))
        return cls(created, modified, deleted, [Denial.read(row) for row in _list(raw, "denied")], changeset, raw)

    def __bool__(self) -> bool:
        return bool(self.created or self.modified or self.deleted)

    @property
    def all(self) -> list[Change]:
        return [*self.created, *self.modified, *self.deleted]


@dataclass(frozen=True)
class Collected:
    """A path that was read back."""

    path: str
    kind: str | None
    content: str | bytes | None = None
    error: str | None = None
    """The reason why there is no content."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Collected:
        return cls(_text(raw.get("path", "")), raw.get("kind"), raw.get("content"), raw.get("error"), raw)


@dataclass(frozen=True)
class Meta:
    duration_ms: float
    signature_source: str | None
    usage: Mapping[str, float]
    """Resources used: wallMs, cpuMs, memoryPeakBytes, pidsPeak, diskBytes, ..."""
    limits: Mapping[str, int]
    limits_hit: list[str]
    warnings: list[Any]
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Meta:
        return cls(_get(raw, "duration", (int, float), 0.0), raw.get("signatureSource"), _get(raw, "usage", dict, {}),
                   _get(raw, "limits", dict, {}), _get(raw, "limitsHit", list, []), _get(raw, "warnings", list, []), raw)


@dataclass(frozen=True)
class Console:
    """Console output of a module in the bare realm, one item a call."""

    stdout: list[str]
    stderr: list[str]


@dataclass(frozen=True)
class Result:
    """The end of a run. A failure of its code is in here; unwrap() raises it."""

    status: Status
    success: bool
    value: Any
    """The function's return value."""
    error: GuestError | None
    stdout: str
    stderr: str
    stdout_bytes: bytes
    """The exact output; `stdout` has replacements for invalid UTF-8."""
    stderr_bytes: bytes
    exit_code: int
    changes: Changes
    meta: Meta
    console: Console | None
    collected: list[Collected]
    sync: SyncReport | None
    """For a mount whose changes are written after the run: the result of that."""
    raw: Raw = field(repr=False)

    @property
    def files(self) -> Changes:
        """`changes` under the contract's name."""
        return self.changes

    @property
    def exports(self) -> Any:
        """The exports of a module: `default` and the named ones."""
        return self.value

    def unwrap(self) -> Any:
        """Return the value, or raise RunFailedError."""
        if not self.success:
            raise RunFailedError(str(self.error) if self.error else f"the run ended with status {self.status}", self)
        return self.value

    @classmethod
    def read(cls, message: Message) -> Result:
        decoder = Decoder(message.attachments)
        raw = message.result
        if not isinstance(raw, dict):
            raise ProtocolError(f"the daemon's answer is a {type(raw).__name__}, not the result of a run")
        value = decoder.value(raw.get("result"), "result")
        decoder.any_integer = True
        raw = {name: value if name == "result" else decoder.value(node, name) for name, node in raw.items()}
        decoder.finish()
        error, console, files, synced = raw.get("error"), raw.get("console"), _get(raw, "files", dict, {}), _get(raw, "sync", dict, None)
        out, err = _output(raw, "stdout"), _output(raw, "stderr")
        return cls(
            status=_get(raw, "status", str, "error"),
            success=_get(raw, "success", bool, False), value=value,
            error=GuestError.read(error) if isinstance(error, dict) else None,
            stdout=out.decode("utf-8", "replace"), stderr=err.decode("utf-8", "replace"), stdout_bytes=out, stderr_bytes=err,
            exit_code=_get(raw, "exitCode", int, 0),
            changes=Changes.read(files, _get(raw, "changeset", str, "") or None),
            meta=Meta.read(_get(raw, "meta", dict, {})),
            console=Console(_get(console, "stdout", list, []), _get(console, "stderr", list, [])) if isinstance(console, dict) else None,
            collected=[Collected.read(row) for row in _list(files, "collected")], sync=None if synced is None else SyncReport.read(synced),
            raw=raw)


def _output(raw: Raw, name: str) -> bytes:
    """The bytes of a stream: text, bytes, or text with the exact bytes beside it if text could not hold them."""
    exact: Any = raw.get(name + "Base64", raw.get(name, ""))
    if isinstance(exact, bytes):
        return exact
    if not isinstance(exact, str):
        raise ProtocolError(f"the daemon's answer has a {name} of type {type(exact).__name__}")
    if name + "Base64" not in raw:
        return exact.encode("utf-8")
    return Decoder(b"").value({"$": "bytes", "b64": exact}, name + "Base64")  # type: ignore[no-any-return]


@dataclass(frozen=True)
class SyncReport:
    """The result of writing changes to the host."""

    synced: list[Any]
    failed: list[Any]
    skipped: list[Any]
    conflicts: list[Any]
    kept: list[Any]
    aborted: str | None = None
    """The reason of an abort, if before_sync requested it."""
    error: str | None = None
    lost: list[str] = field(default_factory=list)
    """The mounts of a sandbox whose server had ended: their changes are gone."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SyncReport:
        lists = {name: _get(raw, name, list, []) for name in ("synced", "failed", "skipped", "conflicts", "kept", "lost")}
        return cls(**lists, aborted=_why(raw.get("aborted")), error=_why(raw.get("error")), raw=raw)


@dataclass(frozen=True)
class SyncPlan:
    """The result of a dry run; nothing was written."""

    steps: list[Any]
    denied: list[Any]
    conflicts: list[Any]
    skipped: list[Any]
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SyncPlan:
        lists = {name: _get(raw, name, list, []) for name in ("steps", "denied", "conflicts", "skipped")}
        return cls(**lists, raw=raw)


@dataclass(frozen=True)
class SyncOutcome:
    """One change that was written to the host, or skipped."""

    path: str
    success: bool
    error: str | None = None
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> SyncOutcome:
        return cls(_text(raw.get("path", "")), _get(raw, "success", bool, False), _why(raw.get("error")), raw)


@dataclass(frozen=True)
class Language:
    name: str
    aliases: list[str]
    warm: bool
    """Its runs can be forked from a template."""
    evaluate: bool
    build: bool
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Language:
        return cls(_get(raw, "name", str, ""), _get(raw, "aliases", list, []), bool(raw.get("warm")), bool(raw.get("evaluate")),
                   bool(raw.get("build")), raw)


@dataclass(frozen=True)
class Guard:
    name: str
    state: str
    """enforced, degraded, absent, or off: not requested"""
    reason: str
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Guard:
        return cls(_get(raw, "name", str, ""), _get(raw, "state", str, ""), _get(raw, "reason", str, ""), raw)


@dataclass(frozen=True)
class PrefixInfo:
    prefix: str
    language: str
    name: str | None
    runs: int
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> PrefixInfo:
        return cls(_get(raw, "prefix", str, ""), _get(raw, "language", str, ""), raw.get("name"), _get(raw, "runs", int, 0), raw)


def read_rows(message: Message, name: str) -> list[dict[str, Any]]:
    """The rows of a response that is a list under a name."""
    return _list(read_object(message), name)


def read_object(message: Message) -> dict[str, Any]:
    value = Decoder(message.attachments, any_integer=True).value(message.result, "result")
    if not isinstance(value, dict):
        raise ProtocolError(f"the daemon's answer is a {type(value).__name__}, not an object")
    return value
