"""The base class of all errors, one class per fault, and the client's own errors."""
from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from ._results import GuestError, Result


class ClocheError(Exception):
    """Something failed outside of the guest's code: a failure of that code is a result, not an exception."""

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
        """The exception of a prefix's set-up code, if that caused the error."""
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
    """The request is at fault: repeating it fails again."""

    fault = "CALLER"
    http = 400


class GuestFault(ClocheError):
    """The guest's code is at fault."""

    fault = "GUEST"
    http = 422


class HostFault(ClocheError):
    """The machine is at fault: kernel, configuration, or exhausted resources."""

    fault = "HOST"
    http = 503


class BugFault(ClocheError):
    """Cloche is at fault."""


class ConnectionLostError(HostFault, ConnectionError):
    """The daemon has exited, or the connection was closed."""

    name = "connection_lost"


class DaemonNotFoundError(HostFault, FileNotFoundError):
    """There is no cloched to start, or no daemon at the address."""

    name = "daemon_not_found"


class GuardWarning(UserWarning):
    """The started daemon lacks guards, like every ordinary user's daemon. Warned of once per user and host."""


class UnknownMethodError(CallerFault):
    """The daemon does not have this method; it may be older than the client."""

    name = "unknown_method"


class ValueRefusedError(CallerFault, ValueError):
    """A value cannot be sent, or Python cannot represent it; the message has its path."""

    name = "value_refused"


class RunTimeoutError(CallerFault, TimeoutError):
    """The caller's timeout has expired; the run was cancelled."""

    name = "run_timeout"

    def __init__(self, message: str, result: Result | None = None) -> None:
        super().__init__(message)
        self.result = result
        """The result of the failed run."""


class RunFailedError(GuestFault):
    """Raised by Result.unwrap(): the guest's code failed."""

    name = "run_failed"

    def __init__(self, message: str, result: Result) -> None:
        super().__init__(message)
        self.result = result
