"""The client for programs without an event loop.

Threads: a client may be used by any number at once. One of its own reads the connection; functions of the host run in others, so that
several may be under way in one run; callbacks (output, denials, questions of a sync) run in the thread that waits for the run.
Processes: a client belongs to the process that made it. In a forked child every use of it is an error, and closing it there closes
the child's copy only."""
from __future__ import annotations

import contextvars
import functools
import inspect
import os
import queue
import socket
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar

from . import _daemon, _requests
from ._base_errors import ClocheError, ConnectionLostError, RunTimeoutError
from ._core import Backlog, Core, Event, Exchange, HostCall, SyncQuestion, dispatch
from ._requests import PrefixData, Request
from ._results import Result
from ._rpc import Message
from ._threads import LoopThread, ThreadPool
from ._version import USER_AGENT
from .errors import InternalError, InvalidArgumentError, InvalidStateError

P = ParamSpec("P")
T = TypeVar("T")

READ_SIZE = 1 << 18
STOP_GRACE = 5.0
CANCEL_GRACE = 5.0
GONE = "the caller is gone"


class Run(Exchange, Generic[T]):
    """A request under way. `wait` gives what it came to; `cancel` may be called from any thread, at any time."""

    def __init__(self, client: Cloche, request: Request[T]) -> None:
        super().__init__(request)
        self._client = client
        self._context = contextvars.copy_context()
        self._inbox: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._backlog = Backlog()
        self._answer: Message | ClocheError | None = None
        self._outcome: tuple[T | None, BaseException | None] | None = None
        self._coroutines: set[Future[Any]] = set()
        self._turn = threading.Lock()
        self._cancelled = False
        self._given_up = False

    @property
    def done(self) -> bool:
        """The daemon has answered, or is gone."""
        return self._answer is not None

    def wait(self, timeout: float | None = None) -> T:
        """Wait for the end, and meanwhile call the callbacks. When one throws, or this thread is interrupted, the run is cancelled.
        When the timeout is over so is the run: RunTimeoutError."""
        _requests.check_timeout(timeout)
        # Before the lock, which in a forked child may be held by a thread that is not there.
        self._client._check_process()
        with self._turn:
            if self._outcome is None:
                self._outcome = self._settle(timeout)
            value, error = self._outcome
            if error is not None:
                raise error
            return value  # type: ignore[return-value]

    def cancel(self) -> None:
        """The run's result then has status `terminated`, unless it had ended before."""
        if self._cancelled or self.done:
            return
        self._cancelled = True
        try:
            self._client._send(_Ignored(self._client._core.cancel(self)))
        except ClocheError:
            # The connection is gone, and the run with it.
            pass

    def __enter__(self) -> Run[T]:
        return self

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def _settle(self, timeout: float | None) -> tuple[T | None, BaseException | None]:
        try:
            self._drain(timeout)
            return self._read(), None
        except _Late:
            return self._after_timeout(timeout)
        except ClocheError as error:
            self._give_up()
            return None, error
        except BaseException:
            self._give_up()
            raise

    def _give_up(self) -> None:
        """The caller has something else to do than to wait for this."""
        self._given_up = True
        if isinstance(self._answer, Message):
            self._forget(self._answer)
        self.cancel()

    def _forget(self, answer: Message) -> None:
        forget = self.request.forget(answer)
        if forget is not None:
            try:
                self._client._send(_Ignored(forget))
            except ClocheError:
                pass

    def _drain(self, timeout: float | None) -> None:
        """Everything that happens, in its order, up to the answer. Raises _Late."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            # Looked at also when there is always something: a run may print without end.
            if left is not None and left <= 0 and not self.done:
                raise _Late
            try:
                happened = self._inbox.get(timeout=left if left is None else max(left, 0.0))
            except queue.Empty:
                raise _Late from None
            if happened is None:
                return
            happened()

    def _read(self) -> T:
        if isinstance(self._answer, ClocheError):
            # A new one for each that waits: they are raised in several threads.
            raise type(self._answer)(*self._answer.args, name=self._answer.name, data=self._answer.data).with_traceback(None)
        assert self._answer is not None
        return self.read(self._answer)  # type: ignore[no-any-return]

    def _after_timeout(self, timeout: float | None) -> tuple[T | None, BaseException | None]:
        self.cancel()
        message = f"{self.request.method}: not done after {timeout:g} s; it was cancelled"
        try:
            self._drain(CANCEL_GRACE)
            value = self._read()
        except (_Late, ClocheError):
            self._give_up()
            return None, RunTimeoutError(message)
        if not isinstance(value, Result):
            return value, None
        # It may have ended by itself in the meantime.
        return (None, RunTimeoutError(message, value)) if value.status == "terminated" else (value, None)  # type: ignore[return-value]

    # -- in the thread that reads

    def answered(self, message: Message) -> None:
        self._end(message)

    def lost(self, error: ClocheError) -> None:
        self._end(error)

    def _end(self, answer: Message | ClocheError) -> None:
        self._answer = answer
        self._inbox.put(None)
        for future in list(self._coroutines):
            future.cancel()
        if self._given_up and isinstance(answer, Message):
            # Not in this thread: see Cloche._read.
            self._client._pool.submit(functools.partial(self._forget, answer))

    def told(self, event: Event) -> None:
        if self._given_up:
            return
        self._backlog.put(event)
        if (error := self._backlog.over) is not None:
            self._given_up = True
            self._inbox.put(functools.partial(_throw, error))
            self._client._pool.submit(self.cancel)
            return
        self._inbox.put(functools.partial(self._tell, event))

    def host_call(self, call: HostCall) -> None:
        self._client._pool.submit(functools.partial(self._context.copy().run, self._serve, call))

    def sync_question(self, question: SyncQuestion) -> None:
        if self._given_up:
            self._client._pool.submit(lambda: self._reply(question.abort(GONE)))
        else:
            self._inbox.put(functools.partial(self._decide, question))

    # -- in the thread that waits

    def _tell(self, event: Event) -> None:
        self._backlog.taken(event)
        _await_here(dispatch(self.request, event), self._client)

    def _decide(self, question: SyncQuestion) -> None:
        ask = self.request.handlers.before_sync
        try:
            reply = question.answer(_await_here(ask(question.change), self._client) if ask else None)
        except BaseException as error:
            self._reply(question.abort(f"before_sync failed: {type(error).__name__}"))
            raise
        self._reply(reply)

    # -- in a thread of the pool

    def _serve(self, call: HostCall) -> None:
        if self._given_up or self.done:
            self._reply(call.fail(RuntimeError(GONE)))
            return
        try:
            args, kwargs = call.arguments()
            value = call.function(*args, **kwargs)
        except BaseException as error:
            self._reply(call.fail(error))
            return
        if not inspect.isawaitable(value):
            self._reply(call.answer(value))
            return
        future = self._client._loop.submit(_coroutine(value), contextvars.copy_context())
        self._coroutines.add(future)
        future.add_done_callback(functools.partial(self._served, call))
        if self.done:
            future.cancel()

    def _served(self, call: HostCall, future: Future[Any]) -> None:
        self._coroutines.discard(future)
        if future.cancelled():
            return
        error = future.exception()
        self._reply(call.fail(error) if error is not None else call.answer(future.result()))

    def _reply(self, data: bytes) -> None:
        """What is answered after the run's end, or the connection's, goes nowhere."""
        if not self.done:
            try:
                self._client._write(data)
            except ClocheError:
                pass


class _Late(Exception):
    """The caller's timeout is over. Of its own kind: callbacks may raise TimeoutError."""


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable


def _throw(error: ClocheError) -> None:
    raise error


def _await_here(value: Any, client: Cloche) -> Any:
    """Callbacks may be coroutine functions too."""
    return client._loop.submit(_coroutine(value), contextvars.copy_context()).result() if inspect.isawaitable(value) else value


class _Ignored(Exchange):
    """A request whose answer changes nothing."""

    def answered(self, message: Message) -> None:
        pass

    def lost(self, error: ClocheError) -> None:
        pass


# ---- methods out of requests ----

F = TypeVar("F", bound=Callable[..., Any])


def _dressed(method: F, build: Callable[..., Any], skip: int, gives: str = "{}") -> F:
    """With the name, the text and the signature of what it asks; `skip` parameters are not the caller's."""
    signature = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    answer = str(signature.return_annotation).removeprefix("Request[").removesuffix("]")
    method.__doc__ = build.__doc__
    method.__name__ = build.__name__.removeprefix("prefix_")
    method.__qualname__ = method.__name__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *list(signature.parameters.values())[skip:]], return_annotation=gives.format(answer))
    return method


def _waits(build: Callable[P, Request[T]]) -> Callable[Concatenate[Cloche, P], T]:
    """A method that asks and waits."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._ask(build(*args, **kwargs))
    return _dressed(method, build, 0)


def _starts(build: Callable[P, Request[T]]) -> Callable[Concatenate[Cloche, P], Run[T]]:
    """A method that asks, and gives the Run to wait for."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> Run[T]:
        return self._start(build(*args, **kwargs))
    return _dressed(method, build, 0, "Run[{}]")


def _opens(build: Callable[P, Request[PrefixData]]) -> Callable[Concatenate[Cloche, P], Prefix]:
    """A method that asks for a prefix."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> Prefix:
        return Prefix(self, self._ask(build(*args, **kwargs)))
    return _dressed(method, build, 0, "Prefix")


def _prefix_waits(build: Callable[Concatenate[PrefixData, P], Request[T]]) -> Callable[Concatenate[Prefix, P], T]:
    def method(self: Prefix, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client._ask(build(self._use(), *args, **kwargs))
    return _dressed(method, build, 1)


def _prefix_starts(build: Callable[Concatenate[PrefixData, P], Request[T]]) -> Callable[Concatenate[Prefix, P], Run[T]]:
    def method(self: Prefix, /, *args: P.args, **kwargs: P.kwargs) -> Run[T]:
        return self._client._start(build(self._use(), *args, **kwargs))
    return _dressed(method, build, 1, "Run[{}]")


class Prefix:
    """Set-up code that has run; every run of it begins where that ended. Disposed of at the end of a `with`."""

    def __init__(self, client: Cloche, data: PrefixData) -> None:
        self._client = client
        self._data = data
        self._alive = True

    call = _prefix_waits(_requests.prefix_call)
    script = _prefix_waits(_requests.prefix_script)
    evaluate = _prefix_waits(_requests.prefix_evaluate)
    start_call = _prefix_starts(_requests.prefix_call)
    start_script = _prefix_starts(_requests.prefix_script)
    start_evaluate = _prefix_starts(_requests.prefix_evaluate)

    def run(self, code: str, **options: Any) -> Result:
        """A module of a bare prefix, a call of another."""
        return self.evaluate(code, **options) if self._data.bare else self.call(code, **options)

    @property
    def id(self) -> str:
        return self._data.id

    @property
    def language(self) -> str:
        return self._data.language

    @property
    def alive(self) -> bool:
        return self._alive and not self._client.closed

    def dispose(self) -> None:
        """Runs that were started go on. Again does nothing."""
        if self.alive:
            self._alive = False
            self._client._ask(_requests.prefix_dispose(self._data))

    def __enter__(self) -> Prefix:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.dispose()
        except ConnectionLostError:
            # It went with the connection; what went wrong in the block is what is to be seen.
            if kind is None:
                raise

    def _use(self) -> PrefixData:
        if not self._alive:
            raise InvalidStateError(f"the prefix {self._data.id} was disposed of")
        return self._data


class Cloche:
    """A connection to a cloched: one that listens at `address`, or one that is started for this client alone and ends with it.

    address         a path, unix:PATH or HOST:PORT; None: start one
    token           what a daemon on TCP wants to see
    daemon          the program to start; else $CLOCHE_DAEMON, $PATH, the source tree are looked through
    daemon_options  more of its command line
    connect_timeout seconds until the daemon must have answered for the first time
    host_threads    so many functions of the host that are no coroutines run at once; others wait for their turn
    """

    def __init__(self, address: str | os.PathLike[str] | None = None, *, token: str | None = None,
                 daemon: str | os.PathLike[str] | None = None, daemon_options: Sequence[str] = (), connect_timeout: float = 30.0,
                 host_threads: int = 64) -> None:
        _check_options(address, token, daemon, host_threads)
        _requests.check_timeout(connect_timeout)
        self._core = Core(USER_AGENT)
        self._pool = ThreadPool(host_threads)
        self._loop = LoopThread()
        self._write_lock = threading.Lock()
        self._owner = os.getpid()
        self._daemon: _daemon.PrivateDaemon | None = None
        if address is None:
            self._daemon = _daemon.PrivateDaemon(daemon, daemon_options)
            self._socket = self._daemon.socket
        else:
            self._socket = _daemon.connect(_daemon.parse_address(address), connect_timeout)
        _living.add(self)
        self._reader = threading.Thread(target=self._read, name="cloche-reader", daemon=True)
        self._reader.start()
        self.server = self._greet(token, connect_timeout)
        """What the daemon said of itself: server, version, protocol."""

    call = _waits(_requests.call)
    script = _waits(_requests.script)
    evaluate = _waits(_requests.evaluate)
    start_call = _starts(_requests.call)
    start_script = _starts(_requests.script)
    start_evaluate = _starts(_requests.evaluate)
    sync = _waits(_requests.sync)
    plan_sync = _waits(_requests.plan_sync)
    drop_changes = _waits(_requests.drop_changes)
    prefix = _opens(_requests.prefix)
    find_prefix = _opens(_requests.find_prefix)
    prefixes = _waits(_requests.prefixes)
    languages = _waits(_requests.languages)
    guards = _waits(_requests.guards)
    stats = _waits(_requests.stats)

    @property
    def daemon_pid(self) -> int | None:
        """Of a daemon of our own."""
        return self._daemon.pid if self._daemon else None

    @property
    def closed(self) -> bool:
        return self._core.error is not None

    def close(self) -> None:
        """What runs is ended, what waits gets ConnectionLostError, a daemon of our own is seen off. Again does nothing."""
        if os.getpid() != self._owner:
            return
        self._core.lose(ConnectionLostError("the client was closed"))
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        if threading.current_thread() is not self._reader:
            self._reader.join()
        self._socket.close()
        self._loop.close()
        if self._daemon is not None:
            self._daemon.stop(STOP_GRACE)
        _living.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Cloche {self._daemon.path if self._daemon else 'connected'}{' closed' if self.closed else ''}>"

    # -- asking

    def _greet(self, token: str | None, timeout: float) -> dict[str, Any]:
        hello = Run(self, self._core.hello(token))
        try:
            self._write(self._core.greeting(hello))
            hello._drain(timeout)
            return hello._read()
        except _Late:
            self.close()
            raise ConnectionLostError(f"the daemon did not answer within {timeout:g} s") from None
        except BaseException:
            self.close()
            raise

    def _ask(self, request: Request[T]) -> T:
        return self._start(request).wait(request.timeout)

    def _start(self, request: Request[T]) -> Run[T]:
        run = Run(self, request)
        self._send(run)
        return run

    def _send(self, exchange: Exchange) -> None:
        self._check_process()
        self._write(self._core.ask(exchange))

    def _write(self, data: bytes) -> None:
        try:
            with self._write_lock:
                self._socket.sendall(data)
        except OSError:
            if self._core.error is None:
                # The reader will see the end too, and says how the daemon ended.
                self._reader.join(STOP_GRACE)
            raise self._core.error or ConnectionLostError("the connection to the daemon ended") from None

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise InvalidStateError(f"this client belongs to process {self._owner}, and this is its child {os.getpid()}: make another here")

    # -- the reader

    def _read(self) -> None:
        # One piece of memory for all that is read: what is complete is copied out of it.
        piece = memoryview(bytearray(READ_SIZE))
        error: ClocheError
        try:
            while size := self._socket.recv_into(piece):
                for reply in self._core.receive(piece[:size]):
                    # Not from here: when both sides only write, nobody reads.
                    self._pool.submit(functools.partial(self._write_late, reply))
            error = self._core.ended(self._daemon.last_words() if self._daemon and not self.closed else "")
        except OSError as failure:
            words = self._daemon.last_words() if self._daemon and not self.closed else ""
            error = ConnectionLostError(f"the connection to the daemon ended: {failure.strerror or failure}{words}")
        except ClocheError as failure:
            error = failure
        except Exception as failure:
            error = InternalError(f"the client failed on what the daemon sent: {type(failure).__name__}: {failure}")
        self._core.lose(error)
        try:
            self._socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    def _write_late(self, reply: bytes) -> None:
        try:
            self._write(reply)
        except ClocheError:
            pass


def _check_options(address: object, token: object, daemon: object, host_threads: object) -> None:
    if address is not None and daemon is not None:
        raise InvalidArgumentError("address and daemon exclude each other: connect to one that runs, or start one")
    if token is not None and not isinstance(token, str):
        raise InvalidArgumentError(f"token must be text, not a {type(token).__name__}")
    if isinstance(host_threads, bool) or not isinstance(host_threads, int) or host_threads < 1:
        raise InvalidArgumentError(f"host_threads must be an integer of 1 or more, not {host_threads!r}")


# ---- forks ----

_living: weakref.WeakSet[Cloche] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The child must not keep the parent's daemon alive. No lock is taken: whoever held one is not here."""
    for client in list(_living):
        client._core.error = InvalidStateError("this client belongs to the parent process: make another here")
        client._socket.close()
        if client._daemon is not None:
            client._daemon.abandon()


os.register_at_fork(after_in_child=_after_fork_in_child)
