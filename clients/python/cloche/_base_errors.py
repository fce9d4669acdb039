"""The error above all others, one class per fault, and the errors that are the client's own."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ._results import GuestError, Result


class ClocheError(Exception):
    """Something went wrong outside of the code that was run: that code's own failure is a result, not an exception."""

    name: str = "error"
    """Stable, for machines: the name in spec/errors.def, or the client's own."""
    fault: ClassVar[str] = "BUG"
    http: ClassVar[int] = 500

    def __init__(self, message: str, *, name: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.data: Mapping[str, Any] = data or {}
        """All that the daemon said of the error."""
        if name is not None:
            self.name = name

    @property
    def failure(self) -> GuestError | None:
        """What the set-up code of a prefix threw, where that is what went wrong."""
        from ._results import GuestError
        told = self.data.get("failure")
        return GuestError.read(told) if isinstance(told, dict) else None

    def __str__(self) -> str:
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.args, self.__dict__))


def _rebuild(kind: type[ClocheError], args: tuple[Any, ...], state: dict[str, Any]) -> ClocheError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class CallerFault(ClocheError):
    """The request is at fault: the same again will fail again."""

    fault = "CALLER"
    http = 400


class GuestFault(ClocheError):
    """The code that was run is at fault."""

    fault = "GUEST"
    http = 422


class HostFault(ClocheError):
    """The machine is at fault: kernel, configuration, or what is used up."""

    fault = "HOST"
    http = 503


class BugFault(ClocheError):
    """Cloche is at fault."""


class ConnectionLostError(HostFault, ConnectionError):
    """The daemon is gone, or the connection to it was closed."""

    name = "connection_lost"


class DaemonNotFoundError(HostFault, FileNotFoundError):
    """There is no cloched to start, or nobody where the daemon was to be."""

    name = "daemon_not_found"


class GuardWarning(UserWarning):
    """The daemon that was started lacks guards, as an ordinary user's does. Warned of once per user and host."""


class UnknownMethodError(CallerFault):
    """The daemon does not know this request; it may be older than the client."""

    name = "unknown_method"


class ValueRefusedError(CallerFault, ValueError):
    """A value cannot travel, or Python cannot hold it; the message has its path."""

    name = "value_refused"


class RunTimeoutError(CallerFault, TimeoutError):
    """The caller's timeout is over; the run was cancelled."""

    name = "run_timeout"

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result
        """What the run came to: status `terminated`, with what it had printed. None when the daemon did not say in time."""


class RunFailedError(GuestFault):
    """Raised by Result.unwrap(): the code that was run failed."""

    name = "run_failed"

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
