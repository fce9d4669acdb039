"""Requests in progress, for asyncio."""
from __future__ import annotations

import asyncio
import contextvars
import functools
import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ._base_errors import ClocheError, RunTimeoutError
from ._core import Backlog, Event, Exchange, Happening, HostCall, SyncQuestion, dispatch
from ._requests import Request
from ._results import Result
from ._rpc import Message
from ._run import CANCEL_GRACE, GONE, _Ignored

if TYPE_CHECKING:
    from ._async import AsyncCloche

T = TypeVar("T")


class _Run(Exchange, Generic[T]):
    """A request in progress; `settle` is awaited once."""

    def __init__(self, client: AsyncCloche, request: Request[T]) -> None:
        super().__init__(request)
        self._client = client
        self._context = contextvars.copy_context()
        self._inbox: asyncio.Queue[Event | SyncQuestion | ClocheError | None] = asyncio.Queue()
        self._backlog = Backlog()
        self._answer: Message | ClocheError | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._given_up = False

    @property
    def done(self) -> bool:
        return self._answer is not None

    async def settle(self, timeout: float | None) -> T:
        try:
            async with asyncio.timeout(timeout) as bound:
                await self._drain()
            return self._read()
        except TimeoutError:
            if not bound.expired():
                self._give_up()
                raise
            return await self._after_timeout(timeout)
        except BaseException:
            self._give_up()
            raise

    async def _drain(self) -> None:
        """All events in order, then the response."""
        while (happened := await self._inbox.get()) is not None:
            if isinstance(happened, ClocheError):
                raise happened
            if isinstance(happened, SyncQuestion):
                await self._decide(happened)
                continue
            self._backlog.taken(happened)
            value = dispatch(self.request, happened)
            answer: Any = await value if inspect.isawaitable(value) else value
            if isinstance(happened, Happening) and (reply := self.request.handlers.reply(happened, answer)) is not None:
                self._client._send_if_open(_Ignored(reply))

    def _read(self) -> T:
        if isinstance(self._answer, ClocheError):
            raise type(self._answer)(*self._answer.args, name=self._answer.name, data=self._answer.data)
        assert self._answer is not None
        return self.read(self._answer)  # type: ignore[no-any-return]

    async def _after_timeout(self, timeout: float | None) -> T:
        self.cancel()
        message = f"{self.request.method}: not done after {timeout:g} s; it was cancelled"
        try:
            async with asyncio.timeout(CANCEL_GRACE):
                await self._drain()
            value = self._read()
        except (TimeoutError, ClocheError):
            self._give_up()
            raise RunTimeoutError(message) from None
        except BaseException:
            self._give_up()
            raise
        if isinstance(value, Result) and value.status == "terminated":
            raise RunTimeoutError(message, value)
        # It ended on its own in the meantime.
        return value

    def cancel(self) -> None:
        if not self.done:
            self._client._send_if_open(_Ignored(self._client._core.cancel(self)))

    def _give_up(self) -> None:
        """The caller has stopped waiting: further events of the run are dropped."""
        self.cancel()
        self._given_up = True
        if isinstance(self._answer, Message):
            self._forget(self._answer)
        for task in self._tasks:
            task.cancel()
        while not self._inbox.empty():
            left = self._inbox.get_nowait()
            if isinstance(left, SyncQuestion):
                self._reply(left.abort(GONE))

    # -- callbacks of the connection

    def answered(self, message: Message) -> None:
        self._end(message)

    def lost(self, error: ClocheError) -> None:
        self._end(error)

    def _end(self, answer: Message | ClocheError) -> None:
        self._answer = answer
        self._inbox.put_nowait(None)
        for task in self._tasks:
            task.cancel()
        if self._given_up and isinstance(answer, Message):
            self._forget(answer)

    def _forget(self, answer: Message) -> None:
        forget = self.request.forget(answer)
        if forget is not None:
            self._client._send_if_open(_Ignored(forget))

    def told(self, event: Event) -> None:
        if self._given_up:
            return
        self._backlog.put(event)
        over = self._backlog.over
        self._inbox.put_nowait(over or event)
        if over is not None:
            self._given_up = True
            self.cancel()

    def host_call(self, call: HostCall) -> None:
        if self._given_up:
            self._reply(call.fail(RuntimeError(GONE)))
            return
        task = self._client._loop.create_task(self._serve(call), context=self._context.copy())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def sync_question(self, question: SyncQuestion) -> None:
        if self._given_up:
            self._reply(question.abort(GONE))
        else:
            self._inbox.put_nowait(question)

    # -- responses

    async def _decide(self, question: SyncQuestion) -> None:
        ask = self.request.handlers.before_sync
        try:
            decision: Any = ask(question.change) if ask else None
            reply = question.answer(await decision if inspect.isawaitable(decision) else decision)
        except BaseException as error:
            self._reply(question.abort(f"before_sync failed: {type(error).__name__}"))
            raise
        self._reply(reply)

    async def _serve(self, call: HostCall) -> None:
        try:
            args, kwargs = call.arguments()
            value = await self._invoke(call.function, args, kwargs)
        except asyncio.CancelledError:
            self._reply(call.fail(RuntimeError("the call of the host function was cancelled")))
            raise
        except (KeyboardInterrupt, SystemExit) as error:
            self._reply(call.fail(error))
            raise
        except BaseException as error:
            self._reply(call.fail(error))
        else:
            self._reply(call.answer(value))

    async def _invoke(self, function: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None)):
            return await function(*args, **kwargs)
        work = functools.partial(contextvars.copy_context().run, functools.partial(function, *args, **kwargs))
        value = await asyncio.wrap_future(self._client._pool.submit(work))
        return await value if inspect.isawaitable(value) else value

    def _reply(self, data: bytes) -> None:
        if not self.done:
            self._client._write_if_open(data)
