"""What contexts can be asked: interpreters of a sandbox that stay. As _sandbox_requests: the methods of Sandbox and Context."""
from __future__ import annotations

import codecs
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union

from ._context_results import CellResult, Checkpoint, Cleared, Completions, ContextInfo, Display, Question, Variable
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
"""Of the prompt, and whether what is typed is not to be seen. None: there is no input."""
CellEvent = Union[Output, Display, Cleared, Question]

KEPT_DISPLAYS = 32 << 20
"""As much as an answer of the daemon's has."""


# ---- contexts ----

def context(at: Place, name: str | None = None, *, language: LanguageName | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None,
            timeout_ms: int | None = None, forkable: bool | None = None) -> Request[ContextInfo]:
    """An interpreter that stays: make it, or find the one of that name.

    language    None: python
    timeout_ms  of its cells that name none
    forkable    it can be forked, and has checkpoints; its interpreter then has a template's rights, and cannot list network interfaces
    """
    w = _Writer(at).add(context=name, language=language, cwd=None if cwd is None else _path(cwd, "cwd")).env(env, False)
    return w.add(timeoutMs=timeout_ms, forkable=forkable).asks("context.create", _reads(ContextInfo.read))


def contexts(at: Place) -> Request[list[ContextInfo]]:
    """Those there are, the copies of forks too."""
    return _Writer(at).asks("context.list", _rows("contexts", ContextInfo.read))


def context_info(at: Place) -> Request[ContextInfo]:
    return _Writer(at).asks("context.get", _reads(ContextInfo.read))


def context_delete(at: Place) -> Request[None]:
    """End it; its cells under way fail."""
    return _Writer(at).asks("context.delete", _nothing)


def context_restart(at: Place) -> Request[ContextInfo]:
    """Its interpreter anew, as it was made; cells under way fail."""
    return _Writer(at).asks("context.restart", _reads(ContextInfo.read))


def context_interrupt(at: Place) -> Request[bool]:
    """Interrupt the cell that runs, from any thread; what the context holds stays. Whether one ran."""
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
    """Run a cell in the language's default context, which is made on first use and begins anew when its interpreter has ended.

    language  None: python
    else as Context.run
    """
    return _run(at, _cell(at, code, language, timeout_ms, output_bytes, silent, restart), on_stdout, on_stderr, on_display, on_clear, on_input, timeout)


def run(at: Place, code: str, *, timeout_ms: int | None = None, output_bytes: int | None = None, silent: bool | None = None,
        restart: bool | None = None, on_stdout: OnText | None = None, on_stderr: OnText | None = None, on_display: OnDisplay | None = None,
        on_clear: OnClear | None = None, on_input: OnInput | None = None, timeout: float | None = None) -> Request[CellResult]:
    """Run a cell, behind those that came before.

    timeout_ms    then it is interrupted, and killed when that does not end it
    output_bytes  of each stream in the answer (1 MiB); the rest is read with Sandbox.read_output()
    silent        without a result, and not counted
    restart       begin anew when the interpreter has ended
    on_stdout, on_stderr  are told text as it is printed
    on_display    is told what is displayed, and the result, as it comes; all of it is in the answer too
    on_clear      what was displayed is to go; True: when the next display comes
    on_input      is asked with a prompt, and whether what is typed is not to be seen; without it who asks is told that there is no input
    timeout       seconds after which the caller has waited long enough: the cell is interrupted, RunTimeoutError raised
    """
    return _run(at, _cell(at, code, None, timeout_ms, output_bytes, silent, restart), on_stdout, on_stderr, on_display, on_clear, on_input, timeout)


def stream_code(at: Place, code: str, *, language: LanguageName | None = None, timeout_ms: int | None = None, output_bytes: int | None = None,
                silent: bool | None = None, restart: bool | None = None) -> Streaming[CellResult, CellEvent]:
    """As run_code, to iterate over what it prints and displays while it runs; afterwards `result`. Leaving early interrupts it."""
    w = _cell(at, code, language, timeout_ms, output_bytes, silent, restart)
    return w.add(stream=True).streams("context.run", _reads(CellResult.read), _item)


def stream(at: Place, code: str, *, timeout_ms: int | None = None, output_bytes: int | None = None, silent: bool | None = None,
           restart: bool | None = None, input: bool | None = None) -> Streaming[CellResult, CellEvent]:
    """As run, to iterate over what it prints and displays while it runs; afterwards `result`. Leaving early interrupts it.

    input  the code may ask: a Question comes, for answer()
    """
    w = _cell(at, code, None, timeout_ms, output_bytes, silent, restart)
    return w.add(stream=True, input=True if input else None).streams("context.run", _reads(CellResult.read), _item)


def answer(at: Place, question: Question | int, value: str | None) -> Request[None]:
    """What a cell asked for: a line without its end; None: there is none."""
    number = question.number if isinstance(question, Question) else question
    return _Writer(at).add(input=number, value=value).asks("context.input", _nothing)


def complete(at: Place, code: str, position: int | None = None) -> Request[Completions]:
    """How a piece of code could go on, at a position in it or at its end."""
    return _Writer(at).add(code=code, at=position).asks("context.complete", _reads(Completions.read))


def describe(at: Place) -> Request[list[Variable]]:
    """The variables it holds."""
    return _Writer(at).asks("context.describe", _rows(
        "variables", lambda row: Variable(_get(row, "name", str, ""), _get(row, "type", str, ""), _get(row, "summary", str, ""))))


# ---- forks and checkpoints ----

def fork(at: Place, count: int | None = None, *, forkable: bool | None = None) -> Request[list[ContextInfo]]:
    """Copies with all the variables, each in a box of its own with a copy of the workspace. Of a context that was made forkable.

    forkable  the copies too
    """
    return _Writer(at).add(count=count, forkable=forkable).asks("context.fork", _rows("contexts", ContextInfo.read))


def checkpoint(at: Place, name: str | None = None, *, files: bool | None = None) -> Request[Checkpoint]:
    """Keep it as it is now, with the workspace; one of that name gives way.

    files  False: without the workspace
    """
    return _Writer(at).add(checkpoint=name, files=files).asks("context.checkpoint", _reads(Checkpoint.read))


def rollback(at: Place, name: str | None = None) -> Request[ContextInfo]:
    """As it was then, and the workspace where it was kept; the checkpoint stays. None: the newest."""
    return _Writer(at).add(checkpoint=name).asks("context.rollback", _reads(ContextInfo.read))


def checkpoints(at: Place) -> Request[list[Checkpoint]]:
    """Oldest first."""
    return _Writer(at).asks("context.checkpoints", _rows("checkpoints", Checkpoint.read))


def forget(at: Place, name: str) -> Request[str]:
    """Give up a checkpoint."""
    return _Writer(at).add(checkpoint=name).asks("context.forget", _text_of("checkpoint"))


# ---- what a cell tells ----

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
    """Whom a cell tells: text is decoded across its pieces, and displays, which are not in the answer then, are kept for it."""

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
