"""Run code nobody vouches for, each piece in its own Linux box.

    with cloche.Cloche() as client:
        result = client.call("python", "def add(a, b): return a + b", args=[2, 3])
        print(result.unwrap())
"""
from . import errors
from ._async import AsyncCloche, AsyncPrefix
from ._base_errors import ConnectionLostError, DaemonNotFoundError, RunFailedError, RunTimeoutError, UnknownMethodError, ValueRefusedError
from ._declare import Expression, Function, Shim, Source, Value
from ._mount import Loading, Mount, Permissions, Rule, Sync
from ._requests import Abort, Directory, File, Skip, Symlink
from ._results import (Change, Changes, Collected, Console, Denial, Guard, GuestError, Language, Meta, PrefixInfo, Result, SyncOutcome,
                       SyncPlan, SyncReport)
from ._subprocess import AsyncSubprocessSandbox, SubprocessResult, SubprocessSandbox, Tool
from ._sync import Cloche, Prefix, Run
from ._version import VERSION as __version__
from .errors import *  # noqa: F403: a class per row of the table
from .limits import Limits

__all__ = [
    "Abort", "AsyncCloche", "AsyncPrefix", "AsyncSubprocessSandbox", "Change", "Changes", "Cloche", "Collected", "ConnectionLostError",
    "Console", "DaemonNotFoundError", "Denial", "Directory", "Expression", "File", "Function", "Guard", "GuestError", "Language",
    "Limits", "Loading", "Meta", "Mount", "Permissions", "Prefix", "PrefixInfo", "Result", "Rule", "Run", "RunFailedError",
    "RunTimeoutError", "Shim", "Skip", "Source", "SubprocessResult", "SubprocessSandbox", "Symlink", "Sync", "SyncOutcome", "SyncPlan",
    "SyncReport", "Tool", "UnknownMethodError", "Value", "ValueRefusedError", "__version__", *errors.__all__,
]
