"""Threads for functions of the host, and an event loop for those that are coroutines."""
from __future__ import annotations

import asyncio
import collections
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

IDLE_SECONDS = 10.0


class ThreadPool:
    """At most this many threads, started on demand and ended when idle. They are daemons: a
    function that never returns must not keep the program from ending, as those of
    concurrent.futures do."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._condition = threading.Condition()
        self._work: collections.deque[tuple[Future[Any], Callable[[], Any]]] = collections.deque()
        self._threads = 0
        self._idle = 0

    def submit(self, function: Callable[[], Any]) -> Future[Any]:
        """In a copy of the caller's context."""
        future: Future[Any] = Future()
        with self._condition:
            self._work.append((future, function))
            if self._idle >= len(self._work):
                self._condition.notify()
            elif self._threads < self._most:
                self._threads += 1
                threading.Thread(target=self._serve, name="cloche-host-function", daemon=True).start()
        return future

    def _serve(self) -> None:
        while (job := self._next()) is not None:
            future, function = job
            if not future.set_running_or_notify_cancel():
                continue
            try:
                value = function()
            except BaseException as error:
                future.set_exception(error)
                del error
            else:
                future.set_result(value)
                del value
            del job, future, function

    def _next(self) -> tuple[Future[Any], Callable[[], Any]] | None:
        with self._condition:
            self._idle += 1
            try:
                while not self._work:
                    if not self._condition.wait(IDLE_SECONDS) and not self._work:
                        self._threads -= 1
                        return None
                return self._work.popleft()
            finally:
                self._idle -= 1


class LoopThread:
    """An event loop in a thread of its own, started on first use."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, Any], context: contextvars.Context) -> Future[Any]:
        with self._lock:
            if self._closed:
                coroutine.close()
                future: Future[Any] = Future()
                future.cancel()
                return future
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._run, args=(self._loop,), name="cloche-host-loop", daemon=True).start()
            loop = self._loop
        return context.run(asyncio.run_coroutine_threadsafe, coroutine, loop)

    @staticmethod
    def _run(loop: asyncio.AbstractEventLoop) -> None:
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
        finally:
            loop.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)
