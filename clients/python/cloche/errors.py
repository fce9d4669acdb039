"""Every error of Cloche, a class each. Written by tools/spec from spec/errors.def: change that."""
import builtins

from ._base_errors import BugFault, CallerFault, ClocheError, GuestFault, HostFault


class InvalidArgumentError(CallerFault):
    """An argument is missing, malformed or out of range."""

    name = "invalid_argument"
    http = 400


class UnknownLanguageError(CallerFault):
    """No runtime answers to this language name."""

    name = "unknown_language"
    http = 400


class InvalidJsonError(CallerFault):
    """The text is not JSON, or not of the expected shape."""

    name = "invalid_json"
    http = 400


class UnreadableFileError(CallerFault):
    """A file named by the caller cannot be read."""

    name = "unreadable_file"
    http = 400


class TooLargeError(CallerFault):
    """A message, value or file is over its hard maximum."""

    name = "too_large"
    http = 413


class InvalidStateError(CallerFault):
    """The object is not in a state that permits this operation."""

    name = "invalid_state"
    http = 409


class QueueFullError(CallerFault):
    """Too many runs wait already; try again when some have ended."""

    name = "queue_full"
    http = 429


class UnauthorizedError(CallerFault):
    """The daemon does not accept the caller: there is no token, or a wrong one."""

    name = "unauthorized"
    http = 401


class ForbiddenError(CallerFault):
    """This user, host name or origin has no access."""

    name = "forbidden"
    http = 403


class NotFoundError(CallerFault):
    """There is no such thing, or it is somebody else's."""

    name = "not_found"
    http = 404


class TimeoutError(GuestFault, builtins.TimeoutError):
    """The awaited event did not happen in time."""

    name = "timeout"
    http = 408


class CancelledError(CallerFault):
    """The caller cancelled it."""

    name = "cancelled"
    http = 409


class FileNotFoundError(CallerFault, builtins.FileNotFoundError):
    """There is no such file in the sandbox."""

    name = "file_not_found"
    http = 404


class FileExistsError(CallerFault, builtins.FileExistsError):
    """There is something at this path already."""

    name = "file_exists"
    http = 409


class FileKindError(CallerFault):
    """The file is of another kind: a directory, none, or no plain file."""

    name = "file_kind"
    http = 400


class FileDeniedError(CallerFault):
    """The sandbox's user may not do this to the file."""

    name = "file_denied"
    http = 403


class DiskFullError(GuestFault):
    """The sandbox's quota of bytes or files is used up."""

    name = "disk_full"
    http = 507


class BadArchiveError(CallerFault):
    """The archive cannot be read, is too large unpacked, or has a member that is not permitted."""

    name = "bad_archive"
    http = 422


class SandboxEndedError(GuestFault):
    """The sandbox ended during the request."""

    name = "sandbox_ended"
    http = 410


class SessionEndedError(GuestFault):
    """The session ended during the request."""

    name = "session_ended"
    http = 410


class ContextEndedError(GuestFault):
    """The context's interpreter has ended; it can be restarted."""

    name = "context_ended"
    http = 410


class ProcessEndedError(GuestFault):
    """The process ended before it did what was waited for."""

    name = "process_ended"
    http = 409


class PortClosedError(GuestFault):
    """Nothing accepts connections at this port of the sandbox."""

    name = "port_closed"
    http = 502


class GitError(GuestFault):
    """git failed."""

    name = "git"
    http = 422


class GitNotFoundError(GuestFault):
    """There is no such repository or branch, or it is hidden without credentials."""

    name = "git_not_found"
    http = 404


class GitAuthError(GuestFault):
    """The repository wants credentials, or other ones."""

    name = "git_auth"
    http = 422


class GitNetworkError(GuestFault):
    """The repository's host cannot be reached from the sandbox."""

    name = "git_network"
    http = 502


class PackagesError(GuestFault):
    """Packages of a new sandbox could not be installed."""

    name = "packages"
    http = 422


class StoppingError(HostFault):
    """The daemon is about to end and takes no new work."""

    name = "stopping"
    http = 503


class PrefixError(GuestFault):
    """The set-up code of a prefix failed, or left something that cannot be forked."""

    name = "prefix"
    http = 422


class BridgeLimitError(GuestFault):
    """The code called host functions more often, or with more bytes, than it may."""

    name = "bridge_limit"
    http = 422


class TemplateError(HostFault):
    """A template died, or could not be forked."""

    name = "template"
    http = 503


class MissingRuntimeError(HostFault):
    """The image does not hold the interpreter of this language."""

    name = "missing_runtime"
    http = 503


class GuardMissingError(HostFault):
    """A protection cannot be had here and was not named optional."""

    name = "guard_missing"
    http = 503


class NamespaceError(HostFault):
    """The kernel refused a namespace."""

    name = "namespace"
    http = 503


class MountError(HostFault):
    """The box's root could not be built."""

    name = "mount"
    http = 503


class CgroupError(HostFault):
    """The box's control group could not be made or set."""

    name = "cgroup"
    http = 503


class SeccompError(HostFault):
    """The system call filter could not be built or loaded."""

    name = "seccomp"
    http = 503


class PrivilegeError(HostFault):
    """Privilege could not be dropped, or was not gone afterwards."""

    name = "privilege"
    http = 503


class ResourceError(HostFault):
    """The host is out of memory, descriptors or processes."""

    name = "resource"
    http = 503


class SpawnError(HostFault):
    """A program could not be started in the box."""

    name = "spawn"
    http = 503


class KeeperError(HostFault):
    """The keeper could not be started or is gone."""

    name = "keeper"
    http = 503


class ProtocolError(GuestFault):
    """A peer sent bytes that are not a valid frame or message."""

    name = "protocol"
    http = 502


class InternalError(BugFault):
    """An invariant of Cloche does not hold."""

    name = "internal"
    http = 500


BY_NAME: dict[str, type[ClocheError]] = {
    InvalidArgumentError.name: InvalidArgumentError,
    UnknownLanguageError.name: UnknownLanguageError,
    InvalidJsonError.name: InvalidJsonError,
    UnreadableFileError.name: UnreadableFileError,
    TooLargeError.name: TooLargeError,
    InvalidStateError.name: InvalidStateError,
    QueueFullError.name: QueueFullError,
    UnauthorizedError.name: UnauthorizedError,
    ForbiddenError.name: ForbiddenError,
    NotFoundError.name: NotFoundError,
    TimeoutError.name: TimeoutError,
    CancelledError.name: CancelledError,
    FileNotFoundError.name: FileNotFoundError,
    FileExistsError.name: FileExistsError,
    FileKindError.name: FileKindError,
    FileDeniedError.name: FileDeniedError,
    DiskFullError.name: DiskFullError,
    BadArchiveError.name: BadArchiveError,
    SandboxEndedError.name: SandboxEndedError,
    SessionEndedError.name: SessionEndedError,
    ContextEndedError.name: ContextEndedError,
    ProcessEndedError.name: ProcessEndedError,
    PortClosedError.name: PortClosedError,
    GitError.name: GitError,
    GitNotFoundError.name: GitNotFoundError,
    GitAuthError.name: GitAuthError,
    GitNetworkError.name: GitNetworkError,
    PackagesError.name: PackagesError,
    StoppingError.name: StoppingError,
    PrefixError.name: PrefixError,
    BridgeLimitError.name: BridgeLimitError,
    TemplateError.name: TemplateError,
    MissingRuntimeError.name: MissingRuntimeError,
    GuardMissingError.name: GuardMissingError,
    NamespaceError.name: NamespaceError,
    MountError.name: MountError,
    CgroupError.name: CgroupError,
    SeccompError.name: SeccompError,
    PrivilegeError.name: PrivilegeError,
    ResourceError.name: ResourceError,
    SpawnError.name: SpawnError,
    KeeperError.name: KeeperError,
    ProtocolError.name: ProtocolError,
    InternalError.name: InternalError,
}

__all__ = [
    "ClocheError",
    "CallerFault",
    "GuestFault",
    "HostFault",
    "BugFault",
    "InvalidArgumentError",
    "UnknownLanguageError",
    "InvalidJsonError",
    "UnreadableFileError",
    "TooLargeError",
    "InvalidStateError",
    "QueueFullError",
    "UnauthorizedError",
    "ForbiddenError",
    "NotFoundError",
    "TimeoutError",
    "CancelledError",
    "FileNotFoundError",
    "FileExistsError",
    "FileKindError",
    "FileDeniedError",
    "DiskFullError",
    "BadArchiveError",
    "SandboxEndedError",
    "SessionEndedError",
    "ContextEndedError",
    "ProcessEndedError",
    "PortClosedError",
    "GitError",
    "GitNotFoundError",
    "GitAuthError",
    "GitNetworkError",
    "PackagesError",
    "StoppingError",
    "PrefixError",
    "BridgeLimitError",
    "TemplateError",
    "MissingRuntimeError",
    "GuardMissingError",
    "NamespaceError",
    "MountError",
    "CgroupError",
    "SeccompError",
    "PrivilegeError",
    "ResourceError",
    "SpawnError",
    "KeeperError",
    "ProtocolError",
    "InternalError",
]
