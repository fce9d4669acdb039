"""Sandboxes for asyncio: the same as _sandbox, with coroutines."""
from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from . import _context_requests
from . import _sandbox_requests as requests
from . import _transfer
from ._async_run import _Run
from ._base_errors import ClocheError, ConnectionLostError
from ._context_results import ContextInfo
from ._core import GO_BELOW, HOLD_FROM, Event, Happening
from ._requests import Request
from ._run import _dressed, _Ignored
from ._sandbox_requests import Place, Streaming
from ._sandbox_results import ProcessInfo, SessionInfo
from ._transfer import Steps
from .errors import InvalidStateError

if TYPE_CHECKING:
    from ._async import AsyncCloche

P = ParamSpec("P")
T = TypeVar("T")
E = TypeVar("E")


class AsyncStream(_Run[T], Generic[T, E]):
    """See Stream: `async for` over it, or `async with` and then `async for`. The request is sent then."""

    def __init__(self, client: AsyncCloche, request: Streaming[T, E]) -> None:
        super().__init__(client, request)
        self._stream = request
        self._begun = False
        self._held = False
        self._results: list[T] = []
        self._over = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> E:
        await self._begin()
        while True:
            item = self._stream.item(await self._take())
            if item is not None:
                return item

    @property
    def result(self) -> T:
        """The result: after the last event."""
        if not self._results:
            raise InvalidStateError("there is a result when all that happens was iterated over")
        return self._results[0]

    async def close(self) -> None:
        """Cancel the request; a command of stream() is killed. Idempotent."""
        if self._begun and not self._over:
            self._give_up()
        self._begun = self._over = True

    async def __aenter__(self) -> Self:
        await self._begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _begin(self) -> None:
        """Send the request, and wait until it has started if it reports that."""
        if self._begun:
            return
        self._begun = True
        await self._client._send(self)
        try:
            while self._stream.ready is not None:
                event = await self._take()
                if isinstance(event, Happening) and event.event == self._stream.ready:
                    break
        except StopAsyncIteration:
            pass

    async def _take(self) -> Event:
        if self._over:
            raise StopAsyncIteration
        try:
            happened = await self._inbox.get()
            if isinstance(happened, ClocheError):
                raise happened
            if happened is None:
                self._over = True
                self._results.append(self._read())
                raise StopAsyncIteration
        except StopAsyncIteration:
            raise
        except BaseException:
            self._over = True
            self._give_up()
            raise
        self._backlog.taken(happened)  # type: ignore[arg-type]
        self._balance()
        return happened  # type: ignore[return-value]

    def told(self, event: Event) -> None:
        super().told(event)
        self._balance()

    def _balance(self) -> None:
        hold = self._backlog.waiting > (GO_BELOW if self._held else HOLD_FROM)
        if hold != self._held and not self.done:
            self._held = hold
            self._client._send_if_open(_Ignored(self._client._core.hold(self, hold)))


# ---- methods made from requests ----

class _Noun:
    def __init__(self, client: AsyncCloche, place: Place) -> None:
        self._client = client
        self._place = place

    async def _goes(self, steps: Steps[T]) -> T:
        """For operations of several requests."""
        return await self._client._go(steps)


def _asks(build: Callable[Concatenate[Place, P], Request[T]]) -> Callable[Concatenate[_Noun, P], Coroutine[Any, Any, T]]:
    async def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._client._ask(build(self._place, *args, **kwargs))
    return _dressed(method, build, 1)


def _streams(build: Callable[Concatenate[Place, P], Streaming[T, E]]) -> Callable[Concatenate[_Noun, P], AsyncStream[T, E]]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> AsyncStream[T, E]:
        return AsyncStream(self._client, build(self._place, *args, **kwargs))
    return _dressed(method, build, 1, "AsyncStream[{}]")


def _goes(build: Callable[Concatenate[Place, P], Steps[T]]) -> Callable[Concatenate[_Noun, P], Coroutine[Any, Any, T]]:
    async def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._goes(build(self._place, *args, **kwargs))
    return _dressed(method, build, 1)


def _starts(build: Callable[Concatenate[Place, P], Request[ProcessInfo]]) -> Callable[Concatenate[_Noun, P], Coroutine[Any, Any, AsyncProcess]]:
    async def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> AsyncProcess:
        info = await self._client._ask(build(self._place, *args, **kwargs))
        return AsyncProcess(self._client, Place(self._place.sandbox, process=info.id))
    return _dressed(method, build, 1, "AsyncProcess")


def _opens_session(build: Callable[Concatenate[Place, P], Request[SessionInfo]]) -> Callable[Concatenate[_Noun, P], SessionOpening]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> SessionOpening:
        return SessionOpening(self._client, self._place, build(self._place, *args, **kwargs))
    return _dressed(method, build, 1, "SessionOpening")


def _opens_context(build: Callable[Concatenate[Place, P], Request[ContextInfo]]) -> Callable[Concatenate[_Noun, P], ContextOpening]:
    def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> ContextOpening:
        return ContextOpening(self._client, self._place, build(self._place, *args, **kwargs))
    return _dressed(method, build, 1, "ContextOpening")


def _forks(build: Callable[Concatenate[Place, P], Request[list[ContextInfo]]]) -> Callable[Concatenate[_Noun, P], Coroutine[Any, Any, list[AsyncContext]]]:
    async def method(self: _Noun, /, *args: P.args, **kwargs: P.kwargs) -> list[AsyncContext]:
        made = await self._client._ask(build(self._place, *args, **kwargs))
        return [AsyncContext(self._client, Place(self._place.sandbox, context=info.name)) for info in made]
    return _dressed(method, build, 1, "list[AsyncContext]")


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


class AsyncSandbox(_Commands):
    """See Sandbox."""

    def __init__(self, client: AsyncCloche, place: Place, is_ours: bool) -> None:
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

    def process(self, id: str) -> AsyncProcess:
        """An existing session; sends nothing."""
        return AsyncProcess(self._client, Place(self.name, process=id))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._is_ours:
            await _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<AsyncSandbox {self.name}>"


class AsyncSession(_Commands):
    """See Session."""

    delete = _asks(requests.session_delete)

    @property
    def id(self) -> str:
        assert self._place.session is not None
        return self._place.session

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<AsyncSession {self.id} of {self._place.sandbox}>"


class AsyncContext(_Noun):
    """See Context."""

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

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await _leave(self.delete, kind)

    def __repr__(self) -> str:
        return f"<AsyncContext {self.name} of {self._place.sandbox}>"


class AsyncProcess(_Noun):
    """See Process."""

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
        return f"<AsyncProcess {self.id} of {self._place.sandbox}>"


async def _leave(delete: Callable[[], Coroutine[Any, Any, Any]], kind: type[BaseException] | None) -> None:
    try:
        await delete()
    except ConnectionLostError:
        # This error must not hide one of the block.
        if kind is None:
            raise


# ---- to await or to enter ----

class SandboxOpening:
    """`box = await client.sandbox(...)`, or `async with client.sandbox(...) as box:`"""

    def __init__(self, client: AsyncCloche, request: Request[Place]) -> None:
        self._client = client
        self._request = request
        self._sandbox: AsyncSandbox | None = None

    async def _open(self) -> AsyncSandbox:
        return AsyncSandbox(self._client, await self._client._ask(self._request), "sandbox" not in self._request.params)

    def __await__(self) -> Generator[Any, None, AsyncSandbox]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSandbox:
        self._sandbox = await self._open()
        return self._sandbox

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._sandbox is not None:
            await self._sandbox.__aexit__(kind, error, trace)


class SessionOpening:
    """`session = await box.session(...)`, or `async with box.session(...) as session:`"""

    def __init__(self, client: AsyncCloche, place: Place, request: Request[SessionInfo]) -> None:
        self._client = client
        self._place = place
        self._request = request
        self._session: AsyncSession | None = None

    async def _open(self) -> AsyncSession:
        info = await self._client._ask(self._request)
        return AsyncSession(self._client, Place(self._place.sandbox, session=info.session))

    def __await__(self) -> Generator[Any, None, AsyncSession]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncSession:
        self._session = await self._open()
        return self._session

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._session is not None:
            await self._session.__aexit__(kind, error, trace)


class ContextOpening:
    """`context = await box.context(...)`, or `async with box.context(...) as context:`"""

    def __init__(self, client: AsyncCloche, place: Place, request: Request[ContextInfo]) -> None:
        self._client = client
        self._place = place
        self._request = request
        self._context: AsyncContext | None = None

    async def _open(self) -> AsyncContext:
        info = await self._client._ask(self._request)
        return AsyncContext(self._client, Place(self._place.sandbox, context=info.name))

    def __await__(self) -> Generator[Any, None, AsyncContext]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncContext:
        self._context = await self._open()
        return self._context

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._context is not None:
            await self._context.__aexit__(kind, error, trace)
