"""Sandboxes for programs without an event loop: the classes, whose methods are made from the
requests of _sandbox_requests."""
from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from . import _context_requests
from . import _sandbox_requests as requests
from . import _transfer
from ._base_errors import ClocheError, ConnectionLostError
from ._context_results import ContextInfo
from ._core import GO_BELOW, HOLD_FROM, Event, Happening
from ._requests import Request
from ._run import Run, _dressed, _Ignored
from ._sandbox_requests import Place, Streaming
from ._sandbox_results import ProcessInfo, SessionInfo
from ._transfer import Steps
from .errors import InvalidStateError

if TYPE_CHECKING:
    from ._sync import Cloche

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")
N = TypeVar("N", bound="_Noun")


class Stream(Run[T], Generic[T, E]):
    """The events of a request in progress, to iterate over; `result` after the end. To leave
    earlier: close(), or `with`.

    A slow reader makes the daemon wait: at most a few MiB are buffered."""

    def __init__(self, client: Cloche, request: Streaming[T, E]) -> None:
        super().__init__(client, request)
        self._stream = request
        self._next: deque[Event] = deque()
        self._hold_lock = threading.Lock()
        self._held = False
        self._results: list[T] = []
        self._over = False

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> E:
        while True:
            item = self._stream.item(self._take())
            if item is not None:
                return item

    @property
    def result(self) -> T:
        """The result: after the last event."""
        if not self._results:
            raise InvalidStateError("there is a result when all that happens was iterated over")
        return self._results[0]

    def wait(self, timeout: float | None = None) -> T:
        """Skip the remaining events, and return the result."""
        if not self._over:
            try:
                self._results.append(super().wait(timeout))
            finally:
                self._over = True
                self._next.clear()
        return self.result

    def close(self) -> None:
        """Cancel the request; a command of stream() is killed. Idempotent."""
        if not self._over:
            self._over = True
            self._next.clear()
            self._give_up()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self) -> Self:
        """Send the request, and wait until it has started if it reports that."""
        self._client._send(self)
        try:
            while self._stream.ready is not None:
                event = self._take()
                if isinstance(event, Happening) and event.event == self._stream.ready:
                    break
        except StopIteration:
            pass
        return self

    def _take(self) -> Event:
        self._client._check_process()
        while not self._next:
            if self._over:
                raise StopIteration
            try:
                happened = self._inbox.get()
                if happened is not None:
                    happened()
                    continue
                self._over = True
                self._results.append(self._read())
            except BaseException:
                self._over = True
                self._give_up()
                raise
        event = self._next.popleft()
        self._backlog.taken(event)
        self._balance()
        return event

    def told(self, event: Event) -> None:
        super().told(event)
        if self._backlog.waiting > HOLD_FROM and not self._held:
            # Not in the reading thread: see Cloche._read.
            self._client._pool.submit(self._balance)

    def _tell(self, event: Event) -> None:
        self._next.append(event)

    def _balance(self) -> None:
        with self._hold_lock:
            hold = self._backlog.waiting > (GO_BELOW if self._held else HOLD_FROM)
            if hold == self._held or self.done:
                return
            self._held = hold
            try:
                self._client._send(_Ignored(self._client._core.hold(self, hold)))
            except ClocheError:
                pass


# ---- methods made from requests ----

class _Noun:
    """An object of a client's that requests refer to."""

    def __init__(self, client: Cloche, place: Place) -> None:
        self._client = client
        self._place = place

    def _streams(self, request: Streaming[T, E]) -> Stream[T, E]:
        return Stream(self._client, request)._begin()

    def _goes(self, steps: Steps[T]) -> T:
        """For operations of several requests."""
        return self._client._go(steps)


def _asks(build: Callable[Concatenate[Place, P], Request[T]]) -> Callable[Concatenate[_Noun, P], T]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client._ask(build(self._place, *args, **kwargs))
    return _dressed(method, build, 1)


def _streams(build: Callable[Concatenate[Place, P], Streaming[T, E]]) -> Callable[Concatenate[_Noun, P], Stream[T, E]]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> Stream[T, E]:
        return self._streams(build(self._place, *args, **kwargs))
    return _dressed(method, build, 1, "Stream[{}]")


def _goes(build: Callable[Concatenate[Place, P], Steps[T]]) -> Callable[Concatenate[_Noun, P], T]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._goes(build(self._place, *args, **kwargs))
    return _dressed(method, build, 1)


def _starts(build: Callable[Concatenate[Place, P], Request[ProcessInfo]]) -> Callable[Concatenate[_Noun, P], Process]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> Process:
        info = self._client._ask(build(self._place, *args, **kwargs))
        return Process(self._client, Place(self._place.sandbox, process=info.id))
    return _dressed(method, build, 1, "Process")


def _opens_session(build: Callable[Concatenate[Place, P], Request[SessionInfo]]) -> Callable[Concatenate[_Noun, P], Session]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> Session:
        info = self._client._ask(build(self._place, *args, **kwargs))
        return Session(self._client, Place(self._place.sandbox, session=info.session))
    return _dressed(method, build, 1, "Session")


def _opens_context(build: Callable[Concatenate[Place, P], Request[ContextInfo]]) -> Callable[Concatenate[_Noun, P], Context]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> Context:
        info = self._client._ask(build(self._place, *args, **kwargs))
        return Context(self._client, Place(self._place.sandbox, context=info.name))
    return _dressed(method, build, 1, "Context")


def _forks(build: Callable[Concatenate[Place, P], Request[list[ContextInfo]]]) -> Callable[Concatenate[_Noun, P], list[Context]]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> list[Context]:
        made = self._client._ask(build(self._place, *args, **kwargs))
        return [Context(self._client, Place(self._place.sandbox, context=info.name)) for info in made]
    return _dressed(method, build, 1, "list[Context]")


# ---- the classes ----

class _Commands(_Noun):
    """Operations that a sandbox (in its default session) and a session share."""

    exec = _asks(requests.exec)
    stream = _streams(requests.stream)
    read_output = _asks(requests.read_output)
    start = _starts(requests.start)
    processes = _asks(requests.processes)
    kill_all = _asks(requests.kill_all)
    set_env = _asks(requests.set_env)
    checkout = _asks(requests.checkout)


class Sandbox(_Commands):
    """A persistent box, with sessions, processes, files, ports and a network. A `with` block
    deletes it at the end, if its name was generated."""

    def __init__(self, client: Cloche, place: Place, is_ours: bool) -> None:
        super().__init__(client, place)
        self._is_ours = is_ours

    info = _asks(requests.sandbox_info)
    update = _asks(requests.sandbox_update)
    stop = _asks(requests.sandbox_stop)
    save = _asks(requests.sandbox_save)
    commit = _asks(requests.sandbox_commit)
    pause = _asks(requests.sandbox_pause)
    metrics = _asks(requests.sandbox_metrics)
    logs = _asks(requests.sandbox_logs)
    rename = _asks(requests.sandbox_rename)
    resume = _asks(requests.sandbox_resume)
    fork = _asks(requests.sandbox_fork)
    snapshot = _asks(requests.sandbox_snapshot)
    delete = _asks(requests.sandbox_delete)
    events = _streams(requests.events)
    session = _opens_session(requests.session)
    sessions = _asks(requests.sessions)
    cleanup = _asks(requests.cleanup)

    run_code = _asks(_context_requests.run_code)
    stream_code = _streams(_context_requests.stream_code)
    context = _opens_context(_context_requests.context)
    contexts = _asks(_context_requests.contexts)

    write_file = _asks(requests.write_file)
    read_file = _asks(requests.read_file)
    upload = _goes(_transfer.upload)
    download = _goes(_transfer.download)
    stat = _asks(requests.stat)
    exists = _asks(requests.exists)
    list_files = _asks(requests.list_files)
    walk = _goes(_transfer.walk)
    make_directory = _asks(requests.make_directory)
    move = _asks(requests.move)
    copy = _asks(requests.copy)
    remove = _asks(requests.remove)
    search = _asks(requests.search)
    replace = _asks(requests.replace)
    watch = _streams(requests.watch)
    pack = _asks(requests.pack)
    unpack = _asks(requests.unpack)

    expose_port = _asks(requests.expose_port)
    unexpose_port = _asks(requests.unexpose_port)
    ports = _asks(requests.ports)
    wait_for_port = _asks(requests.wait_for_port)
    network_log = _asks(requests.network_log)

    @property
    def name(self) -> str:
        return self._place.sandbox

    def process(self, id: str) -> Process:
        """An existing session; sends nothing."""
        return Process(self._client, Place(self.name, process=id))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_ours:
            _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<Sandbox {self.name}>"


class Session(_Commands):
    """A persistent shell of a sandbox; a `with` block deletes it at the end."""

    delete = _asks(requests.session_delete)

    @property
    def id(self) -> str:
        assert self._place.session is not None
        return self._place.session

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<Session {self.id} of {self._place.sandbox}>"


class Context(_Noun):
    """A persistent interpreter of a sandbox: cells see the variables of earlier ones. A `with`
    block deletes it at the end."""

    info = _asks(_context_requests.context_info)
    run = _asks(_context_requests.run)
    stream = _streams(_context_requests.stream)
    answer = _asks(_context_requests.answer)
    interrupt = _asks(_context_requests.context_interrupt)
    restart = _asks(_context_requests.context_restart)
    delete = _asks(_context_requests.context_delete)
    complete = _asks(_context_requests.complete)
    describe = _asks(_context_requests.describe)
    inspect = _asks(_context_requests.inspect)
    is_complete = _asks(_context_requests.is_complete)
    history = _asks(_context_requests.history)
    fork = _forks(_context_requests.fork)
    checkpoint = _asks(_context_requests.checkpoint)
    rollback = _asks(_context_requests.rollback)
    checkpoints = _asks(_context_requests.checkpoints)
    forget = _asks(_context_requests.forget)

    @property
    def name(self) -> str:
        assert self._place.context is not None
        return self._place.context

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<Context {self.name} of {self._place.sandbox}>"


class Process(_Noun):
    """A background command of a sandbox."""

    info = _asks(requests.process_info)
    kill = _asks(requests.process_kill)
    logs = _asks(requests.process_logs)
    follow = _streams(requests.process_follow)
    input = _asks(requests.process_input)
    resize = _asks(requests.process_resize)
    wait = _asks(requests.process_wait)
    wait_for = _asks(requests.process_wait_for)
    cleanup = _asks(requests.cleanup)

    @property
    def id(self) -> str:
        assert self._place.process is not None
        return self._place.process

    def __repr__(self) -> str:
        return f"<Process {self.id} of {self._place.sandbox}>"


def _leave(delete: Callable[[], Any], kind: type[BaseException] | None) -> None:
    try:
        delete()
    except ConnectionLostError:
        # This error must not hide one of the block.
        if kind is None:
            raise
