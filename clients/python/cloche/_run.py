"""Requests in progress, for programs without an event loop, and the making of methods from requests."""
from __future__ import annotations

import contextvars
import functools
import inspect
import queue
import re
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from . import _requests
from ._base_errors import ClocheError, RunTimeoutError
from ._core import Backlog, Event, Exchange, Happening, HostCall, SyncQuestion, dispatch
from ._requests import Request
from ._results import Result
from ._rpc import Message

if TYPE_CHECKING:
    from ._sync import Cloche

T = TypeVar("T")

CANCEL_GRACE = 5.0
GONE = "the caller is gone"

OWNER = re.compile("^(prefix|sandbox|session|process|context)_")
"""Matches the names of requests that become methods of these classes."""


class Run(Exchange, Generic[T]):
    """A request in progress. `wait` returns its result; `cancel` may be called from any thread, at any time."""

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
        """True after the response, or the end of the connection."""
        return self._answer is not None

    def wait(self, timeout: float | None = None) -> T:
        """Wait for the end, and call the callbacks meanwhile. If one throws, or this thread is
        interrupted, the run is cancelled. The timeout ends the run too: RunTimeoutError."""
        _requests.check_timeout(timeout)
        # Before taking the lock: in a forked child its owner may be a thread that does not exist.
        self._client._check_process()
        with self._turn:
            if self._outcome is None:
                self._outcome = self._settle(timeout)
            value, error = self._outcome
            if error is not None:
                raise error
            return value  # type: ignore[return-value]

    def cancel(self) -> None:
        """Cancel the run. Its result then has status `terminated`, unless it had ended before."""
        if self._cancelled or self.done:
            return
        self._cancelled = True
        try:
            self._client._send(_Ignored(self._client._core.cancel(self)))
        except ClocheError:
            # The connection is closed, and the run with it.
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
        """The caller stops waiting."""
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
        """All events in order, then the response. Raises _Late."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            # Checked even if events keep coming: a run may print without end.
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
            # A new one for each waiter: they are raised in several threads.
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
        # It may have ended on its own in the meantime.
        return (None, RunTimeoutError(message, value)) if value.status == "terminated" else (value, None)  # type: ignore[return-value]

    # -- in the reading thread

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

    # -- in the waiting thread

    def _tell(self, event: Event) -> None:
        self._backlog.taken(event)
        answer = _await_here(dispatch(self.request, event), self._client)
        if isinstance(event, Happening) and (reply := self.request.handlers.reply(event, answer)) is not None:
            self._client._send(_Ignored(reply))

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
        """Responses after the end of the run, or of the connection, are dropped."""
        if not self.done:
            try:
                self._client._write(data)
            except ClocheError:
                pass


class _Late(Exception):
    """The caller's timeout has expired. A class of its own: callbacks may raise TimeoutError."""


async def _coroutine(awaitable: Any) -> Any:
    return await awaitable


def _throw(error: ClocheError) -> None:
    raise error


def _await_here(value: Any, client: Cloche) -> Any:
    """Callbacks may be coroutine functions too."""
    return client._loop.submit(_coroutine(value), contextvars.copy_context()).result() if inspect.isawaitable(value) else value


class _Ignored(Exchange):
    """A request whose response changes nothing."""

    def answered(self, message: Message) -> None:
        pass

    def lost(self, error: ClocheError) -> None:
        pass


# ---- methods made from requests ----

F = TypeVar("F", bound=Callable[..., Any])


def _dressed(method: F, build: Callable[..., Any], skip: int, gives: str = "{}") -> F:
    """With the name, the docstring and the signature of its request; the first `skip` parameters
    are not the caller's."""
    signature = inspect.signature(build)
    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    answer = str(signature.return_annotation).partition("[")[2].removesuffix("]")
    method.__doc__ = build.__doc__
    method.__name__ = OWNER.sub("", build.__name__)
    method.__qualname__ = method.__name__
    method.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[own, *list(signature.parameters.values())[skip:]], return_annotation=gives.format(answer))
    return method
