"""The requests of contexts: persistent interpreters in a sandbox. Like _sandbox_requests: the
methods of Sandbox and Context."""
from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Any, Literal, Protocol, Union

from ._context_results import CellResult, Checkpoint, Cleared, Completeness, Completions, ContextInfo, Display, HistoryEntry, Inspection, Question, Variable
from ._core import Event, Happening, Output, _weight
from ._requests import Handlers, Maybe, Request
from ._results import _get, read_object
from ._rpc import Message
from ._sandbox_requests import Path, Place, Streaming, _nothing, _path, _reads, _rows, _text_of, _Writer
from .errors import InvalidArgumentError

LanguageName = Literal["python", "javascript", "typescript", "bash", "ruby", "php"]
OnText = Callable[[str], Maybe[object]]
OnDisplay = Callable[[Display], Maybe[object]]
OnClear = Callable[[bool], Maybe[object]]
OnInput = Callable[[str, bool], Maybe["str | None"]]
"""(prompt, True if input is to be hidden) -> a line; None: no input."""


class HasId(Protocol):
    """A Prefix of either client."""

    @property
    def id(self) -> str: ...


PrefixName = Union[HasId, str]
CellEvent = Union[Output, Display, Cleared, Question]

KEPT_DISPLAYS = 32 << 20
"""The same limit as in a response of the daemon."""


# ---- contexts ----

def context(at: Place, name: str | None = None, *, language: LanguageName | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None,
            timeout_ms: int | None = None, forkable: bool | None = None, prefix: PrefixName | None = None) -> Request[ContextInfo]:
    """A persistent interpreter: create it, or find the one of that name.

    language    None: that of the prefix, or python
    timeout_ms  of cells without one of their own
    forkable    it can be forked, and has checkpoints; its interpreter then has a template's rights, and cannot list network interfaces
    prefix      one of this client, or the name of one: cells see all that its set-up made
    """
    w = _Writer(at).add(context=name, language=language, cwd=None if cwd is None else _path(cwd, "cwd")).env(env, False)
    w.add(prefix=prefix if prefix is None or isinstance(prefix, str) else prefix.id)
    return w.add(timeoutMs=timeout_ms, forkable=forkable).asks("context.create", _reads(ContextInfo.read))


def contexts(at: Place) -> Request[list[ContextInfo]]:
    """List the contexts, including copies made by forks."""
    return _Writer(at).asks("context.list", _rows("contexts", ContextInfo.read))


def context_info(at: Place) -> Request[ContextInfo]:
    return _Writer(at).asks("context.get", _reads(ContextInfo.read))


def context_delete(at: Place) -> Request[None]:
    """End it; its running cells fail."""
    return _Writer(at).asks("context.delete", _nothing)


def context_restart(at: Place) -> Request[ContextInfo]:
    """Restart its interpreter, with its first options; running cells fail."""
    return _Writer(at).asks("context.restart", _reads(ContextInfo.read))


def context_interrupt(at: Place) -> Request[bool]:
    """Interrupt the running cell, from any thread; the context keeps its variables. True if one was running."""
    return _Writer(at).asks("context.interrupt", lambda message: bool(read_object(message).get("interrupted")))


# ---- cells ----

def _cell(at: Place, code: str, language: str | None, timeout_ms: int | None, output_bytes: int | None, silent: bool | None,
          restart: bool | None) -> _Writer:
    if not isinstance(code, str):
        raise InvalidArgumentError(f"code must be text, not a {type(code).__name__}")
    w = _Writer(at).add(language=language, code=code, timeoutMs=timeout_ms, outputBytes=output_bytes)
    return w.add(silent=True if silent else None, restart=restart)


def _run(at: Place, w: _Writer, on_stdout: OnText | None, on_stderr: OnText | None, on_display: OnDisplay | None, on_clear: OnClear | None,
         on_input: OnInput | None, timeout: float | None) -> Request[CellResult]:
    if all(handler is None for handler in (on_stdout, on_stderr, on_display, on_clear, on_input)):
        return w.asks("context.run", _reads(CellResult.read), timeout)
    told = _Told(at, {"stdout": on_stdout, "stderr": on_stderr}, on_display, on_clear, on_input)
    w.add(stream=True, input=True if on_input is not None else None)
    return w.asks("context.run", told.result, timeout, handlers=Handlers(on_output=told.output, on_event=told.event, reply=told.reply))


def run_code(at: Place, code: str, *, language: LanguageName | None = None, timeout_ms: int | None = None, output_bytes: int | None = None,
             silent: bool | None = None, restart: bool | None = None, on_stdout: OnText | None = None, on_stderr: OnText | None = None,
             on_display: OnDisplay | None = None, on_clear: OnClear | None = None, on_input: OnInput | None = None,
             timeout: float | None = None) -> Request[CellResult]:
    """Run a cell in the language's default context, which is created on first use and restarts if its interpreter has ended.

    language  None: python
    others: see Context.run
    """
    return _run(at, _cell(at, code, language, timeout_ms, output_bytes, silent, restart), on_stdout, on_stderr, on_display, on_clear, on_input, timeout)


def run(at: Place, code: str, *, timeout_ms: int | None = None, output_bytes: int | None = None, silent: bool | None = None,
        restart: bool | None = None, on_stdout: OnText | None = None, on_stderr: OnText | None = None, on_display: OnDisplay | None = None,
        on_clear: OnClear | None = None, on_input: OnInput | None = None, timeout: float | None = None) -> Request[CellResult]:
    """Run a cell, after all earlier ones.

    timeout_ms    then it is interrupted, and killed if that does not end it
    output_bytes  of each stream in the response (1 MiB); the rest is read with Sandbox.read_output()
    silent        no result, and not counted
    restart       restart if the interpreter has ended
    on_stdout, on_stderr  receive text as it is printed
    on_display    receives displays and the result as they come; the response has all of them too
    on_clear      clear the displays; True: when the next one comes
    on_input      returns a line of input; receives the prompt, and True if input is to be hidden; without it input fails
    timeout       seconds to wait: then the cell is interrupted, RunTimeoutError raised
    """
    return _run(at, _cell(at, code, None, timeout_ms, output_bytes, silent, restart), on_stdout, on_stderr, on_display, on_clear, on_input, timeout)


def stream_code(at: Place, code: str, *, language: LanguageName | None = None, timeout_ms: int | None = None, output_bytes: int | None = None,
                silent: bool | None = None, restart: bool | None = None) -> Streaming[CellResult, CellEvent]:
    """As run_code, but iterate over output and displays while it runs; afterwards `result`. Leaving
    early interrupts it."""
    w = _cell(at, code, language, timeout_ms, output_bytes, silent, restart)
    return w.add(stream=True).streams("context.run", _reads(CellResult.read), _item)


def stream(at: Place, code: str, *, timeout_ms: int | None = None, output_bytes: int | None = None, silent: bool | None = None,
           restart: bool | None = None, input: bool | None = None) -> Streaming[CellResult, CellEvent]:
    """As run, but iterate over output and displays while it runs; afterwards `result`. Leaving early interrupts it.

    input  the code may request input: a Question comes, for answer()
    """
    w = _cell(at, code, None, timeout_ms, output_bytes, silent, restart)
    return w.add(stream=True, input=True if input else None).streams("context.run", _reads(CellResult.read), _item)


def answer(at: Place, question: Question | int, value: str | None) -> Request[None]:
    """Answer a cell's Question: a line without its newline; None: no input."""
    number = question.number if isinstance(question, Question) else question
    return _Writer(at).add(input=number, value=value).asks("context.input", _nothing)


def complete(at: Place, code: str, position: int | None = None) -> Request[Completions]:
    """Completions of a piece of code, at a position in it or at its end."""
    return _Writer(at).add(code=code, at=position).asks("context.complete", _reads(Completions.read))


def describe(at: Place) -> Request[list[Variable]]:
    """The variables in it."""
    return _Writer(at).asks("context.describe", _rows(
        "variables", lambda row: Variable(_get(row, "name", str, ""), _get(row, "type", str, ""), _get(row, "summary", str, ""))))


def inspect(at: Place, code: str, position: int | None = None, *, detail: int | None = None) -> Request[Inspection]:
    """Describe the name at a position of a piece of code, or at its end; nothing of it runs. An error while a cell runs.

    detail  1: with its source, where the language can give it
    """
    return _Writer(at).add(code=code, at=position, detail=detail).asks("context.inspect", _reads(Inspection.read))


def is_complete(at: Place, code: str) -> Request[Completeness]:
    """Ask the language's parser if code is a whole cell; nothing of it runs. An error while a cell runs."""
    return _Writer(at).add(code=code).asks("context.isComplete", _reads(Completeness.read))


def history(at: Place, limit: int | None = None) -> Request[list[HistoryEntry]]:
    """The code of its last cells, of all clients, newest last. limit: only so many."""
    return _Writer(at).add(limit=limit).asks("context.history", _rows(
        "entries", lambda row: HistoryEntry(_get(row, "count", int, 0), _get(row, "code", str, ""))))


# ---- forks and checkpoints ----

def fork(at: Place, count: int | None = None, *, forkable: bool | None = None) -> Request[list[ContextInfo]]:
    """Copies with all the variables, each in a box of its own with a copy of the workspace. The context must be forkable.

    forkable  True: so are the copies
    """
    return _Writer(at).add(count=count, forkable=forkable).asks("context.fork", _rows("contexts", ContextInfo.read))


def checkpoint(at: Place, name: str | None = None, *, files: bool | None = None) -> Request[Checkpoint]:
    """Save its present state, with the workspace; replaces one of that name.

    files  False: without the workspace
    """
    return _Writer(at).add(checkpoint=name, files=files).asks("context.checkpoint", _reads(Checkpoint.read))


def rollback(at: Place, name: str | None = None) -> Request[ContextInfo]:
    """Restore a checkpoint, and the workspace if it was saved; the checkpoint stays. None: the newest."""
    return _Writer(at).add(checkpoint=name).asks("context.rollback", _reads(ContextInfo.read))


def checkpoints(at: Place) -> Request[list[Checkpoint]]:
    """List the checkpoints, oldest first."""
    return _Writer(at).asks("context.checkpoints", _rows("checkpoints", Checkpoint.read))


def forget(at: Place, name: str) -> Request[str]:
    """Delete a checkpoint."""
    return _Writer(at).add(checkpoint=name).asks("context.forget", _text_of("checkpoint"))


# ---- events of a cell ----

def _item(event: Event) -> CellEvent | None:
    if isinstance(event, Output):
        return event
    if not isinstance(event, Happening):
        return None
    readers: dict[str, Callable[[dict[str, Any]], CellEvent]] = {
        "display": Display.read, "clear": lambda about: Cleared(bool(about.get("wait"))), "input": Question.read}
    reader = readers.get(event.event)
    return reader(event.about) if reader else None


class _Told:
    """The callbacks of a cell: decodes text across its pieces, and keeps displays for them, because
    the response lacks them then."""

    def __init__(self, at: Place, on_text: Mapping[str, OnText | None], on_display: OnDisplay | None, on_clear: OnClear | None,
                 on_input: OnInput | None) -> None:
        self._at = at
        self._on_text = on_text
        self._on_display = on_display
        self._on_clear = on_clear
        self._on_input = on_input
        self._decoders = {name: codecs.getincrementaldecoder("utf-8")("replace") for name in on_text}
        self._displays: list[Display] = []
        self._kept = 0
        self._dropped = 0

    def output(self, stream: str, data: bytes) -> Maybe[object]:
        text, tell = self._decoders[stream].decode(data) if stream in self._decoders else "", self._on_text.get(stream)
        return tell(text) if tell is not None and text else None

    def event(self, event: Happening) -> Any:
        told = _item(event)
        if isinstance(told, Display):
            self._keep(told, _weight(event.about))
            return self._on_display(told) if self._on_display is not None else None
        if isinstance(told, Cleared):
            return self._on_clear(told.wait) if self._on_clear is not None else None
        if isinstance(told, Question) and self._on_input is not None:
            return self._on_input(told.prompt, told.password)
        return None

    def reply(self, event: Happening, value: Any) -> Request[None] | None:
        if event.event != "input":
            return None
        if value is not None and not isinstance(value, str):
            raise InvalidArgumentError(f"on_input answered a {type(value).__name__}; expected text, or None: no input")
        at = Place(self._at.sandbox, context=_get(event.about, "context", str, ""))
        return answer(at, Question.read(event.about), value)

    def _keep(self, display: Display, weight: int) -> None:
        if self._kept + weight > KEPT_DISPLAYS:
            self._dropped += 1
            return
        self._kept += weight
        self._displays.append(display)

    def result(self, message: Message) -> CellResult:
        return CellResult.read(read_object(message), self._displays, self._dropped)
