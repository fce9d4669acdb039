"""Results and events of contexts (spec/sandbox.md), as dataclasses; displays appear in the reader's
own notebook too."""
from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from ._base_errors import GuestFault
from ._results import Raw, _get, _list
from ._sandbox_results import RefusedConnection, _denials, _path, _printed, _texts
from .errors import ProtocolError

CHART = "application/vnd.cloche.chart+json"


@dataclass(frozen=True)
class ContextInfo:
    name: str
    language: str
    cwd: str
    env: Mapping[str, str]
    state: Literal["idle", "busy", "starting", "ended"]
    execution_count: int
    forkable: bool
    timeout_ms: int
    """Timeout of cells without their own; 0: none."""
    created_at: str
    last_used_at: str
    pid: int | None
    forked_from: str | None
    checkpoints: int
    ended_why: str | None
    """The reason why the interpreter of an ended one exited."""
    prefix: str | None
    """The prefix it was made from."""
    interpreter: str | None
    """Name and version: "IPython 8.5.0 on Python 3.11.2" has magics, "Python 3.11.2" has none."""
    mounts: bool | None = None
    """In a sandbox with mounts: its code sees them, which that of a fork does not. None: it has none."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> ContextInfo:
        return cls(_get(raw, "context", str, ""), _get(raw, "language", str, ""), _path(raw, "cwd"), _texts(raw, "env"), _get(raw, "state", str, "idle"),
                   _get(raw, "executionCount", int, 0), bool(raw.get("forkable")), _get(raw, "timeoutMs", int, 0), _get(raw, "createdAt", str, ""),
                   _get(raw, "lastUsedAt", str, ""), _get(raw, "pid", int, None), raw.get("forkedFrom"), _get(raw, "checkpoints", int, 0),
                   raw.get("endedWhy"), raw.get("prefix"), raw.get("interpreter"), _get(raw, "mounts", bool, None), raw)


@dataclass(frozen=True)
class Checkpoint:
    name: str
    created_at: str
    execution_count: int
    files: bool
    """True if the workspace was saved."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Checkpoint:
        return cls(_get(raw, "checkpoint", str, ""), _get(raw, "createdAt", str, ""), _get(raw, "executionCount", int, 0), bool(raw.get("files")), raw)


@dataclass(frozen=True)
class Variable:
    name: str
    type: str
    summary: str


@dataclass(frozen=True)
class Completions:
    """Completions: any of `matches` in place of code[start:end]."""

    matches: list[str]
    start: int
    end: int

    @classmethod
    def read(cls, raw: Raw) -> Completions:
        return cls([str(match) for match in _get(raw, "matches", list, [])], _get(raw, "from", int, 0), _get(raw, "to", int, 0))


@dataclass(frozen=True)
class Inspection:
    """The description of a name, by MIME type; empty if it was not found."""

    data: dict[str, str]

    @property
    def found(self) -> bool:
        return bool(self.data)

    @property
    def text(self) -> str | None:
        return self.data.get("text/plain")

    @classmethod
    def read(cls, raw: Raw) -> Inspection:
        return cls({str(mime): str(form) for mime, form in _get(raw, "data", dict, {}).items()})


@dataclass(frozen=True)
class Completeness:
    """`incomplete`: more lines can make it a cell, and the next begins with `indent`."""

    status: Literal["complete", "incomplete", "invalid", "unknown"]
    indent: str

    @classmethod
    def read(cls, raw: Raw) -> Completeness:
        return cls(_get(raw, "status", str, "unknown"), _get(raw, "indent", str, ""))


@dataclass(frozen=True)
class HistoryEntry:
    """A cell that began."""

    count: int
    code: str


# ---- displays ----

F = TypeVar("F")


@dataclass(frozen=True)
class Display:
    """One displayed value in all its forms: the last expression of a cell, or a display by the code."""

    data: Mapping[str, Any]
    """By MIME type: text, bytes, or JSON data."""
    metadata: Mapping[str, Any]
    is_result: bool
    """The value of the cell's last expression."""
    display_id: str | None
    is_update: bool
    """It replaces the display with that display_id."""
    raw: Raw = field(default_factory=dict, repr=False)

    @classmethod
    def read(cls, raw: Raw) -> Display:
        return cls(_get(raw, "data", dict, {}), _get(raw, "metadata", dict, {}), bool(raw.get("isResult")), _get(raw, "displayId", str, None),
                   bool(raw.get("isUpdate")), raw)

    def formats(self) -> list[str]:
        """Its MIME types."""
        return list(self.data)

    def _form(self, kind: str, type: type[F]) -> F | None:
        value = self.data.get(kind)
        return value if isinstance(value, type) else None

    @property
    def text(self) -> str | None:
        return self._form("text/plain", str)

    @property
    def html(self) -> str | None:
        return self._form("text/html", str)

    @property
    def markdown(self) -> str | None:
        return self._form("text/markdown", str)

    @property
    def latex(self) -> str | None:
        return self._form("text/latex", str)

    @property
    def svg(self) -> str | None:
        return self._form("image/svg+xml", str)

    @property
    def javascript(self) -> str | None:
        return self._form("application/javascript", str)

    @property
    def png(self) -> bytes | None:
        return self._form("image/png", bytes)

    @property
    def jpeg(self) -> bytes | None:
        return self._form("image/jpeg", bytes)

    @property
    def pdf(self) -> bytes | None:
        return self._form("application/pdf", bytes)

    @property
    def json(self) -> Any:
        return self.data.get("application/json")

    @property
    def chart(self) -> dict[str, Any] | None:
        """A chart as data: runtimes/python/README.md, Charts."""
        return self._form(CHART, dict)

    @property
    def stored(self) -> Mapping[str, Any] | None:
        """{mime, path, bytes}: that form is too large and is in this file of the sandbox."""
        told = self.metadata.get("stored")
        return told if isinstance(told, dict) else None

    def _repr_mimebundle_(self, include: Collection[str] | None = None, exclude: Collection[str] | None = None) -> tuple[dict[str, Any], dict[str, Any]]:
        """For IPython: shows the display in the caller's notebook. Bytes are base64 there."""
        kinds = [kind for kind in self.data if (not include or kind in include) and not (exclude and kind in exclude)]
        data = {kind: base64.b64encode(value).decode() if isinstance(value := self.data[kind], bytes) else value for kind in kinds}
        return data, {kind: self.metadata[kind] for kind in kinds if kind in self.metadata}


# ---- cells ----

@dataclass(frozen=True)
class CellError:
    """The failure of a cell, in its language's terms."""

    name: str
    message: str
    traceback: list[str]

    @classmethod
    def read(cls, raw: Raw) -> CellError:
        lines = _get(raw, "traceback", list, [])
        return cls(_get(raw, "name", str, ""), _get(raw, "message", str, ""), [str(line) for line in lines])

    def __str__(self) -> str:
        return f"{self.name}: {self.message}" if self.message else self.name


class CellFailedError(GuestFault):
    """Raised by CellResult.unwrap(): the cell failed."""

    name = "cell_failed"

    def __init__(self, message: str, result: CellResult) -> None:
        super().__init__(message)
        self.result = result


@dataclass(frozen=True)
class CellResult:
    """The result of a cell. A failed cell raises no exception; unwrap() does."""

    context: str
    execution_count: int
    status: Literal["ok", "error"]
    error: CellError | None
    stdout: str
    stderr: str
    stdout_bytes: bytes
    """The exact output, up to output_bytes of it; `stdout` has replacements for invalid UTF-8."""
    stderr_bytes: bytes
    stdout_total: int
    """Size of the whole output in bytes; the rest is read with Sandbox.read_output()."""
    stderr_total: int
    truncated: bool
    output: str | None
    """Its id for read_output()."""
    displays: list[Display]
    """In order; empty with stream(), which yields them."""
    displays_dropped: int
    """Number of displays that were too large for the response."""
    timed_out: bool
    interrupted: bool
    ended: bool
    """True if the interpreter died."""
    duration_ms: float
    denials: list[RefusedConnection] = field(default_factory=list)
    """The connections that the network refused meanwhile."""
    raw: Raw = field(default_factory=dict, repr=False)

    @property
    def success(self) -> bool:
        return self.status == "ok"

    @property
    def result(self) -> Display | None:
        """The value of the last expression."""
        return next((display for display in reversed(self.displays) if display.is_result), None)

    @property
    def text(self) -> str | None:
        """The value as text."""
        return self.result.text if self.result else None

    def unwrap(self) -> CellResult:
        """Return self, or raise CellFailedError."""
        if self.error is not None:
            raise CellFailedError("\n".join(self.error.traceback) or str(self.error), self)
        return self

    @classmethod
    def read(cls, raw: Raw, told: list[Display] | None = None, dropped: int = 0) -> CellResult:
        """told: displays that came as events and are not in the response."""
        if raw.get("status") not in ("ok", "error"):
            raise ProtocolError("the daemon's answer has no status of the cell")
        failure = _get(raw, "error", dict, None)
        displays = [Display.read(row) for row in _list(raw, "displays")] + (told or [])
        return cls(_get(raw, "context", str, ""), _get(raw, "executionCount", int, 0), _get(raw, "status", str, ""),
                   None if failure is None else CellError.read(failure), *_printed(raw), displays, _get(raw, "displaysDropped", int, 0) + dropped,
                   bool(raw.get("timedOut")), bool(raw.get("interrupted")), bool(raw.get("ended")), _get(raw, "durationMs", (int, float), 0.0), _denials(raw), raw)


@dataclass(frozen=True)
class Cleared:
    """The displays of the cell are to be cleared; with `wait` when the next one comes."""

    wait: bool


@dataclass(frozen=True)
class Question:
    """The cell waits for input: Context.answer() takes this number."""

    number: int
    prompt: str
    password: bool

    @classmethod
    def read(cls, raw: Raw) -> Question:
        return cls(_get(raw, "input", int, 0), _get(raw, "prompt", str, ""), bool(raw.get("password")))
