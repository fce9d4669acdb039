"""The client for programs without an event loop.

Threads: any number may use a client at once. One of its own reads the connection; functions of the host run in others, so that
several may be under way in one run; callbacks (output, denials, decisions of a sync) run in the thread that waits for the run.
Processes: a client belongs to the process that made it. In a forked child every use of it is an error, and closing it there closes
the child's copy only."""
from __future__ import annotations

import functools
import os
import socket
import threading
import weakref
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from . import _daemon, _images, _requests, _sandbox_requests
from ._base_errors import ClocheError, ConnectionLostError
from ._core import Core, Exchange
from ._requests import PrefixData, Request
from ._results import Result
from ._run import Run, _dressed, _Late
from ._sandbox import Sandbox
from ._sandbox_requests import Place
from ._threads import LoopThread, ThreadPool
from ._transfer import Steps
from ._version import USER_AGENT
from .errors import InternalError, InvalidArgumentError, InvalidStateError

P = ParamSpec("P")
T = TypeVar("T")

READ_SIZE = 1 << 18
STOP_GRACE = 5.0


# ---- methods made from requests ----

def _waits(build: Callable[P, Request[T]]) -> Callable[Concatenate[Cloche, P], T]:
    """A method that sends a request and waits."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._ask(build(*args, **kwargs))
    return _dressed(method, build, 0)


def _goes(build: Callable[P, Steps[T]]) -> Callable[Concatenate[Cloche, P], T]:
    """A method that sends several requests."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._go(build(*args, **kwargs))
    return _dressed(method, build, 0)


def _starts(build: Callable[P, Request[T]]) -> Callable[Concatenate[Cloche, P], Run[T]]:
    """A method that sends a request, and returns the Run to wait for."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> Run[T]:
        return self._start(build(*args, **kwargs))
    return _dressed(method, build, 0, "Run[{}]")


def _opens(build: Callable[P, Request[PrefixData]]) -> Callable[Concatenate[Cloche, P], Prefix]:
    """A method that creates a prefix."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> Prefix:
        return Prefix(self, self._ask(build(*args, **kwargs)))
    return _dressed(method, build, 0, "Prefix")


def _opens_sandbox(build: Callable[P, Request[Place]]) -> Callable[Concatenate[Cloche, P], Sandbox]:
    """A method that creates a sandbox."""
    def method(self: Cloche, /, *args: P.args, **kwargs: P.kwargs) -> Sandbox:
        request = build(*args, **kwargs)
        return Sandbox(self, self._ask(request), "sandbox" not in request.params)
    return _dressed(method, build, 0, "Sandbox")


def _prefix_waits(build: Callable[Concatenate[PrefixData, P], Request[T]]) -> Callable[Concatenate[Prefix, P], T]:
    def method(self: Prefix, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._client._ask(build(self._use(), *args, **kwargs))
    return _dressed(method, build, 1)


def _prefix_starts(build: Callable[Concatenate[PrefixData, P], Request[T]]) -> Callable[Concatenate[Prefix, P], Run[T]]:
    def method(self: Prefix, /, *args: P.args, **kwargs: P.kwargs) -> Run[T]:
        return self._client._start(build(self._use(), *args, **kwargs))
    return _dressed(method, build, 1, "Run[{}]")


class Prefix:
    """Set-up code that has run; every run of it starts where that ended. A `with` block disposes of it at the end."""

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
        """Evaluate a module of a bare prefix; a call of another."""
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
        """Dispose of the prefix. Runs in progress go on. Idempotent."""
        if self.alive:
            self._alive = False
            self._client._ask(_requests.prefix_dispose(self._data))

    def __enter__(self) -> Prefix:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.dispose()
        except ConnectionLostError:
            # The prefix is gone with the connection; the exception of the block is the one to raise.
            if kind is None:
                raise

    def _use(self) -> PrefixData:
        if not self._alive:
            raise InvalidStateError(f"the prefix {self._data.id} was disposed of: create another one")
        return self._data


class Cloche:
    """A connection to a cloched: one that listens at `address`, or one that is started for this client alone and ends with it.

    address         a path, unix:PATH or HOST:PORT; None: that of $CLOCHE_SOCKET, else start one
    token           the token of a daemon on TCP
    daemon          the program to start; by default $CLOCHE_DAEMON, or the first found: in the source tree, $PATH, sbin beside it, the usual
                    directories. It, daemon_options and optional ask for a daemon of this client alone, whatever $CLOCHE_SOCKET is
    daemon_options  more of its command line
    optional        guards it may lack, by name; None: unless it runs as root, the guards that an ordinary user may lack
    strict          a daemon that lacks any guard is refused: GuardMissingError
    shared          use the daemon of the command line, the system's or the user's own, started if none runs; it and its
                    sandboxes outlive the client
    connect_timeout seconds to wait for the daemon's first response
    host_threads    the most functions of the host that run at once, except coroutines; others wait their turn
    """

    def __init__(self, address: str | os.PathLike[str] | None = None, *, token: str | None = None,
                 daemon: str | os.PathLike[str] | None = None, daemon_options: Sequence[str] = (),
                 optional: Sequence[str] | None = None, strict: bool = False, shared: bool = False,
                 connect_timeout: float = 30.0, host_threads: int = 64) -> None:
        _check_options(token, host_threads)
        choice = _daemon.choose(address, daemon, daemon_options, optional, strict, shared)
        _requests.check_timeout(connect_timeout)
        self._core = Core(USER_AGENT)
        self._pool = ThreadPool(host_threads)
        self._loop = LoopThread()
        self._write_lock = threading.Lock()
        self._owner = os.getpid()
        self._socket, self._daemon = choice.open(connect_timeout)
        _living.add(self)
        self._reader = threading.Thread(target=self._read, name="cloche-reader", daemon=True)
        self._reader.start()
        self.server = self._greet(token, choice, connect_timeout)
        """The daemon's greeting: server, version, protocol, and the guards that are missing there."""

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
    sandbox = _opens_sandbox(_sandbox_requests.sandbox)
    sandboxes = _waits(_sandbox_requests.sandboxes)
    snapshots = _waits(_sandbox_requests.snapshots)
    snapshot = _waits(_sandbox_requests.snapshot)
    copy_snapshot = _waits(_sandbox_requests.copy_snapshot)
    delete_snapshot = _waits(_sandbox_requests.delete_snapshot)
    create_volume = _waits(_sandbox_requests.create_volume)
    volumes = _waits(_sandbox_requests.volumes)
    volume = _waits(_sandbox_requests.volume)
    delete_volume = _waits(_sandbox_requests.delete_volume)
    languages = _waits(_requests.languages)
    guards = _waits(_requests.guards)
    stats = _waits(_requests.stats)
    packages = _waits(_sandbox_requests.packages)
    delete_packages = _waits(_sandbox_requests.delete_packages)
    images = _waits(_images.images)
    image = _waits(_images.image)
    import_image = _goes(_images.import_image)
    verify_image = _waits(_images.verify_image)
    delete_image = _waits(_images.delete_image)
    prune_images = _waits(_images.prune_images)
    warm_image = _waits(_images.warm_image)

    @property
    def daemon_pid(self) -> int | None:
        """Process id of a daemon that this client has started."""
        return self._daemon.pid if self._daemon else None

    @property
    def closed(self) -> bool:
        return self._core.error is not None

    def _go(self, steps: Steps[T]) -> T:
        try:
            request = next(steps)
            while True:
                try:
                    answer = self._ask(request)
                except BaseException as error:
                    request = steps.throw(error)
                else:
                    request = steps.send(answer)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Cancel all runs, fail all requests with ConnectionLostError, and stop a daemon that this
        client has started. Idempotent."""
        if os.getpid() != self._owner:
            return
        self._core.lose(ConnectionLostError("the client was closed: open another one"))
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

    # -- requests

    def _greet(self, token: str | None, choice: _daemon.Choice, timeout: float) -> dict[str, Any]:
        hello = Run(self, self._core.hello(token, choice.is_ours, choice.strict))
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
                # The reader sees the end too, and reports how the daemon ended.
                self._reader.join(STOP_GRACE)
            raise self._core.error or ConnectionLostError("the connection to the daemon ended") from None

    def _check_process(self) -> None:
        if os.getpid() != self._owner:
            raise InvalidStateError(f"this client belongs to process {self._owner}, and this is its child {os.getpid()}: make another here")

    # -- the reader

    def _read(self) -> None:
        # One buffer for all reads: complete data is copied out of it.
        piece = memoryview(bytearray(READ_SIZE))
        error: ClocheError
        try:
            while size := self._socket.recv_into(piece):
                for reply in self._core.receive(piece[:size]):
                    # Not in this thread: if both sides only write, neither reads.
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


def _check_options(token: object, host_threads: object) -> None:
    if token is not None and not isinstance(token, str):
        raise InvalidArgumentError(f"token must be text, not a {type(token).__name__}")
    if isinstance(host_threads, bool) or not isinstance(host_threads, int) or host_threads < 1:
        raise InvalidArgumentError(f"host_threads must be an integer of 1 or more, not {host_threads!r}")


# ---- forks ----

_living: weakref.WeakSet[Cloche] = weakref.WeakSet()


def _after_fork_in_child() -> None:
    """The child must not keep the parent's daemon alive. No lock is taken: its owner may be a
    thread that does not exist here."""
    for client in list(_living):
        client._core.error = InvalidStateError("this client belongs to the parent process: make another here")
        client._socket.close()
        if client._daemon is not None:
            client._daemon.abandon()


os.register_at_fork(after_in_child=_after_fork_in_child)
