"""Run untrusted code, each piece in its own Linux box.

    with cloche.Cloche() as client:
        result = client.call("python", "def add(a, b): return a + b", args=[2, 3])
        print(result.unwrap())
"""
from . import errors
from ._async import AsyncCloche, AsyncPrefix
from ._async_sandbox import AsyncContext, AsyncProcess, AsyncSandbox, AsyncSession, AsyncStream
from ._base_errors import (ConnectionLostError, DaemonNotFoundError, GuardWarning, RunFailedError, RunTimeoutError, UnknownMethodError,
                           ValueRefusedError)
from ._context_results import (CellError, CellFailedError, CellResult, Checkpoint, Cleared, Completeness, Completions, ContextInfo, Display,
                               HistoryEntry, Inspection, Question, Variable)
from ._core import Output
from ._declare import Expression, Function, Shim, Source, Value
from ._images import ImageCheck, ImageImport, ImageInfo, WarmInterpreter
from ._mount import Loading, Mount, Permissions, Rule, Sync
from ._requests import Abort, Directory, File, Skip, Symlink
from ._results import (Change, Changes, Collected, Console, Denial, Guard, GuestError, Language, Meta, PrefixInfo, Result, SyncOutcome,
                       SyncPlan, SyncReport)
from ._run import Run
from ._sandbox import Context, Process, Sandbox, Session, Stream
from ._sandbox_results import (Archived, Checkout, Completed, ExposedPort, FileChange, FileContent, FileEntry, FileList, FileMatch, Found,
                               KeptPackages, Logs,
                               Network, NetworkDecision, OpenPort, Omitted, OutputPage, Ports, ProcessInfo, RefusedConnection, Replaced, SandboxEvent, SandboxForks, SandboxInfo, SandboxLogLine, SandboxMount, SandboxPage, SandboxSample,
                               SessionInfo, SnapshotInfo, VolumeInfo, VolumeMount, Waited)
from ._subprocess import AsyncSubprocessSandbox, SubprocessResult, SubprocessSandbox, Tool
from ._sync import Cloche, Prefix
from ._version import VERSION as __version__
from .errors import *  # noqa: F403: a class per row of the table
from .limits import Limits

__all__ = [
    "Abort", "Archived", "AsyncCloche", "AsyncContext", "AsyncPrefix", "AsyncProcess", "AsyncSandbox", "AsyncSession", "AsyncStream",
    "AsyncSubprocessSandbox", "CellError", "CellFailedError", "CellResult", "Change", "Changes", "Checkout", "Checkpoint", "Cleared",
    "Cloche", "Collected", "Completed", "Completeness", "Completions", "ConnectionLostError", "Console", "Context", "ContextInfo", "DaemonNotFoundError",
    "Denial", "Directory", "Display", "ExposedPort", "Expression", "File", "FileChange", "FileContent", "FileEntry", "FileList",
    "FileMatch", "Found", "Function", "Guard", "GuardWarning", "GuestError", "HistoryEntry", "ImageCheck",
    "ImageImport", "ImageInfo", "Inspection", "KeptPackages", "Language", "Limits", "Loading", "Logs", "Meta", "Mount", "Network",
    "NetworkDecision", "Omitted", "OpenPort", "Output", "OutputPage", "Permissions", "Ports", "Prefix", "PrefixInfo", "Process", "ProcessInfo",
    "Question", "RefusedConnection", "Replaced", "Result", "Rule", "Run", "RunFailedError", "RunTimeoutError", "Sandbox", "SandboxEvent", "SandboxForks", "SandboxInfo", "SandboxLogLine", "SandboxMount", "SandboxPage", "SandboxSample",
    "Session", "SessionInfo", "Shim", "Skip", "SnapshotInfo", "Source", "Stream", "SubprocessResult", "SubprocessSandbox", "Symlink", "Sync", "SyncOutcome",
    "SyncPlan", "SyncReport", "Tool", "UnknownMethodError", "Value", "ValueRefusedError", "Variable", "VolumeInfo", "VolumeMount", "Waited", "WarmInterpreter", "__version__", *errors.__all__,
]
