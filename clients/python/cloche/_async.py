"""The client for asyncio. It belongs to the event loop of its first use.

Functions of the host that are coroutine functions run as tasks of the loop, the others in threads; several may be under way in one
run. Callbacks (output, denials, decisions of a sync) run in the task that awaits the run, one after another. When that task is
cancelled so is the run."""
from __future__ import annotations

import asyncio
import functools
import os
import socket
import weakref
from collections.abc import Callable, Coroutine, Generator, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from . import _daemon, _images, _requests, _sandbox_requests
from ._async_run import _Run
from ._async_sandbox import AsyncSandbox, SandboxOpening
from ._base_errors import ClocheError, ConnectionLostError
from ._core import Core, Exchange
from ._requests import PrefixData, Request
from ._results import Result
from ._run import _dressed
from ._sandbox_requests import Place
from ._sync import STOP_GRACE, _check_options
from ._threads import ThreadPool
from ._transfer import Steps
from ._version import USER_AGENT
from .errors import InternalError, InvalidStateError

P = ParamSpec("P")
T = TypeVar("T")


class _Wire(asyncio.Protocol):
    """Callbacks of the connection."""

    def __init__(self, core: Core, pool: ThreadPool, told: Callable[[], str]) -> None:
        self._core = core
        self._pool = pool
        self._told = told
        self._transport: asyncio.Transport | None = None
        self.over = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        try:
            for reply in self._core.receive(data):
                self.write(reply)
        except ClocheError as error:
            self._end(error)
        except Exception as error:
            self._end(InternalError(f"the client failed on what the daemon sent: {type(error).__name__}: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.over.set()
        if self._core.error is None:
            # In a thread, because reading the exit status and the last log lines may block.
            words = asyncio.wrap_future(self._pool.submit(self._told))
            words.add_done_callback(lambda words: self._core.lose(self._core.ended((f": {error}" if error else "") + words.result())))

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _end(self, error: ClocheError) -> None:
        self._core.lose(error)
        self.abort()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


# ---- methods made from requests ----

def _awaits(build: Callable[P, Request[T]]) -> Callable[Concatenate[AsyncCloche, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncCloche, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._ask(build(*args, **kwargs))
    return _dressed(method, build, 0)


def _goes(build: Callable[P, Steps[T]]) -> Callable[Concatenate[AsyncCloche, P], Coroutine[Any, Any, T]]:
    """A method that sends several requests."""
    async def method(self: AsyncCloche, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._go(build(*args, **kwargs))
    return _dressed(method, build, 0)


def _opens(build: Callable[P, Request[PrefixData]]) -> Callable[Concatenate[AsyncCloche, P], PrefixOpening]:
    def method(self: AsyncCloche, /, *args: P.args, **kwargs: P.kwargs) -> PrefixOpening:
        return PrefixOpening(self, build(*args, **kwargs))
    return _dressed(method, build, 0, "PrefixOpening")


def _opens_sandbox(build: Callable[P, Request[Place]]) -> Callable[Concatenate[AsyncCloche, P], SandboxOpening]:
    def method(self: AsyncCloche, /, *args: P.args, **kwargs: P.kwargs) -> SandboxOpening:
        return SandboxOpening(self, build(*args, **kwargs))
    return _dressed(method, build, 0, "SandboxOpening")


def _prefix_awaits(
        build: Callable[Concatenate[PrefixData, P], Request[T]]) -> Callable[Concatenate[AsyncPrefix, P], Coroutine[Any, Any, T]]:
    async def method(self: AsyncPrefix, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._client._ask(build(self._use(), *args, **kwargs))
    return _dressed(method, build, 1)


class AsyncPrefix:
    """See Prefix."""

    def __init__(self, client: AsyncCloche, data: PrefixData) -> None:
        self._client = client
        self._data = data
        self._alive = True

    call = _prefix_awaits(_requests.prefix_call)
    script = _prefix_awaits(_requests.prefix_script)
    evaluate = _prefix_awaits(_requests.prefix_evaluate)

    async def run(self, code: str, **options: Any) -> Result:
        """Evaluate a module of a bare prefix; a call of another."""
        return await (self.evaluate(code, **options) if self._data.bare else self.call(code, **options))

    @property
    def id(self) -> str:
        return self._data.id

    @property
    def language(self) -> str:
        return self._data.language

    @property
    def alive(self) -> bool:
        return self._alive and not self._client.closed

    async def dispose(self) -> None:
        """Dispose of the prefix. Runs in progress go on. Idempotent."""
        if self.alive:
            self._alive = False
            await self._client._ask(_requests.prefix_dispose(self._data))

    async def __aenter__(self) -> AsyncPrefix:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            await self.dispose()
        except ConnectionLostError:
            # The prefix is gone with the connection; the exception of the block is the one to raise.
            if kind is None:
                raise

    def _use(self) -> PrefixData:
        if not self._alive:
            raise InvalidStateError(f"the prefix {self._data.id} was disposed of: create another one")
        return self._data


class PrefixOpening:
    """To await or to enter: `prefix = await client.prefix(...)`, `async with client.prefix(...) as prefix:`"""

    def __init__(self, client: AsyncCloche, request: Request[PrefixData]) -> None:
        self._client = client
        self._request = request
        self._prefix: AsyncPrefix | None = None

    async def _open(self) -> AsyncPrefix:
        return AsyncPrefix(self._client, await self._client._ask(self._request))

    def __await__(self) -> Generator[Any, None, AsyncPrefix]:
        return self._open().__await__()

    async def __aenter__(self) -> AsyncPrefix:
        self._prefix = await self._open()
        return self._prefix

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._prefix is not None:
            await self._prefix.__aexit__(kind, error, trace)


class AsyncCloche:
    """See Cloche. For asyncio: `async with AsyncCloche() as client:`, or the first request connects."""

    def __init__(self, address: str | os.PathLike[str] | None = None, *, token: str | None = None,
                 daemon: str | os.PathLike[str] | None = None, daemon_options: Sequence[str] = (),
                 optional: Sequence[str] | None = None, strict: bool = False, shared: bool = False,
                 connect_timeout: float = 30.0, host_threads: int = 64) -> None:
        _check_options(token, host_threads)
        choice = _daemon.choose(address, daemon, daemon_options, optional, strict, shared)
        _requests.check_timeout(connect_timeout)
        self._choice = choice
        self._token = token
        self._connect_timeout = connect_timeout
        self._core = Core(USER_AGENT)
        self._pool = ThreadPool(host_threads)
        self._owner = os.getpid()
        self._connecting: asyncio.Task[None] | None = None
        self._wire: _Wire | None = None
        self._socket: socket.socket | None = None
        self._daemon: _daemon.PrivateDaemon | None = None
        self.server: dict[str, Any] = {}

    call = _awaits(_requests.call)
    script = _awaits(_requests.script)
    evaluate = _awaits(_requests.evaluate)
    sync = _awaits(_requests.sync)
    plan_sync = _awaits(_requests.plan_sync)
    drop_changes = _awaits(_requests.drop_changes)
    prefix = _opens(_requests.prefix)
    find_prefix = _opens(_requests.find_prefix)
    prefixes = _awaits(_requests.prefixes)
    sandbox = _opens_sandbox(_sandbox_requests.sandbox)
    sandboxes = _awaits(_sandbox_requests.sandboxes)
    snapshots = _awaits(_sandbox_requests.snapshots)
    snapshot = _awaits(_sandbox_requests.snapshot)
    copy_snapshot = _awaits(_sandbox_requests.copy_snapshot)
    delete_snapshot = _awaits(_sandbox_requests.delete_snapshot)
    create_volume = _awaits(_sandbox_requests.create_volume)
    volumes = _awaits(_sandbox_requests.volumes)
    volume = _awaits(_sandbox_requests.volume)
    delete_volume = _awaits(_sandbox_requests.delete_volume)
    languages = _awaits(_requests.languages)
    guards = _awaits(_requests.guards)
    stats = _awaits(_requests.stats)
    packages = _awaits(_sandbox_requests.packages)
    delete_packages = _awaits(_sandbox_requests.delete_packages)
    images = _awaits(_images.images)
    image = _awaits(_images.image)
    import_image = _goes(_images.import_image)
    verify_image = _awaits(_images.verify_image)
    delete_image = _awaits(_images.delete_image)
    prune_images = _awaits(_images.prune_images)
    warm_image = _awaits(_images.warm_image)

    @property
    def daemon_pid(self) -> int | None:
        """Process id of a daemon that this client has started."""
        return self._daemon.pid if self._daemon else None

    @property
    def closed(self) -> bool:
        return self._core.error is not None

    async def _go(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                try:
                    answer = await self._ask(request)
                except Exception as error:
                    request = steps.throw(error)
                except asyncio.CancelledError:
                    steps.close()
                    raise
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def connect(self) -> Self:
        """Connect. Idempotent."""
        self._check_owner()
        if self._connecting is None:
            self._loop = asyncio.get_running_loop()
            # A task: if the first caller is cancelled, the others go on waiting.
            self._connecting = self._loop.create_task(self._connect())
        await asyncio.shield(self._connecting)
        return self

    async def close(self) -> None:
        """Cancel all runs, fail all requests with ConnectionLostError, and stop a daemon that this
        client has started. Idempotent."""
        if os.getpid() != self._owner:
            return
        if self._connecting is not None and not self._connecting.done():
            self._connecting.cancel()
            await asyncio.wait([self._connecting])
        self._core.lose(ConnectionLostError("the client was closed: open another one"))
        if self._wire is not None:
            self._wire.abort()
            await self._wire.over.wait()
        elif self._socket is not None:
            self._socket.close()
        self._wire = self._socket = None
        if self._daemon is not None:
            await asyncio.wrap_future(self._pool.submit(functools.partial(self._daemon.stop, STOP_GRACE)))
        _living.discard(self)

    async def __aenter__(self) -> Self:
        return await self.connect()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- connecting

    async def _connect(self) -> None:
        try:
            async with asyncio.timeout(self._connect_timeout):
                sock: socket.socket = await asyncio.wrap_future(self._pool.submit(self._open_socket))
                self._socket = sock
                _living.add(self)
                sock.setblocking(False)
                wire = _Wire(self._core, self._pool, self._last_words)
                await self._loop.create_connection(lambda: wire, sock=sock)
                self._wire = wire
                hello = _Run(self, self._core.hello(self._token, self._choice.is_ours, self._choice.strict))
                wire.write(self._core.greeting(hello))
                self.server = await hello.settle(None)
        except BaseException as error:
            late = ConnectionLostError(f"the daemon did not answer within {self._connect_timeout:g} s")
            self._core.lose(error if isinstance(error, ClocheError) else late)
            if self._wire is not None:
                self._wire.abort()
            if self._daemon is not None:
                self._pool.submit(functools.partial(self._daemon.stop, STOP_GRACE))
            if isinstance(error, TimeoutError) and not isinstance(error, ClocheError):
                raise late from None
            raise

    def _open_socket(self) -> socket.socket:
        """Blocks: runs in a thread."""
        sock, self._daemon = self._choice.open(self._connect_timeout)
        return sock

    def _last_words(self) -> str:
        return self._daemon.last_words() if self._daemon is not None else ""

    # -- requests

    async def _ask(self, request: Request[T]) -> T:
        return await (await self._start(request)).settle(request.timeout)

    async def _start(self, request: Request[T]) -> _Run[T]:
        """Send a request; it is sent when this returns. The result is to be settled."""
        run = _Run(self, request)
        await self._send(run)
        return run

    async def _send(self, exchange: Exchange) -> None:
        if self._wire is None or not self.server:
            await self.connect()
        self._check_owner()
        data = self._core.ask(exchange)
        assert self._wire is not None
        self._wire.write(data)

    def _send_if_open(self, exchange: Exchange) -> None:
        try:
            self._write_if_open(self._core.ask(exchange))
        except ClocheError:
            # The connection is closed, and the request with it.
            pass

    def _write_if_open(self, data: bytes) -> None:
        if self._wire is not None:
            self._wire.write(data)

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise InvalidStateError(f"this client belongs to process {self._owner}, and this is its child {os.getpid()}: make another here")
        if self._connecting is not None and self._loop is not asyncio.get_running_loop():
            raise InvalidStateError("this client belongs to another event loop: make one for each")


# ---- forks ----

_living: weakref.WeakSet[AsyncCloche] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The child must not keep the parent's daemon alive; its loop is a copy that never runs."""
    for client in list(_living):
        client._core.error = InvalidStateError("this client belongs to the parent process: make another here")
        if client._socket is not None:
            client._socket.close()
        if client._daemon is not None:
            client._daemon.abandon()


os.register_at_fork(after_in_child=_after_fork_in_child)
