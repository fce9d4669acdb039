// Written by tools/spec from spec/errors.def: change that.
import { ClocheError, type ErrorOptions } from '../internal/error.js'

/** An argument is missing, malformed or out of range. */
export class InvalidArgumentError extends ClocheError {
  static readonly code = 'invalid_argument'
  override readonly name = 'InvalidArgumentError'
  override readonly code = 'invalid_argument'
  override readonly fault = 'caller'
  override readonly status = 400
}
export const isInvalidArgumentError = (value: unknown): value is InvalidArgumentError => value instanceof InvalidArgumentError

/** No runtime answers to this language name. */
export class UnknownLanguageError extends ClocheError {
  static readonly code = 'unknown_language'
  override readonly name = 'UnknownLanguageError'
  override readonly code = 'unknown_language'
  override readonly fault = 'caller'
  override readonly status = 400
}
export const isUnknownLanguageError = (value: unknown): value is UnknownLanguageError => value instanceof UnknownLanguageError

/** The text is not JSON, or not of the expected shape. */
export class InvalidJsonError extends ClocheError {
  static readonly code = 'invalid_json'
  override readonly name = 'InvalidJsonError'
  override readonly code = 'invalid_json'
  override readonly fault = 'caller'
  override readonly status = 400
}
export const isInvalidJsonError = (value: unknown): value is InvalidJsonError => value instanceof InvalidJsonError

/** A file named by the caller cannot be read. */
export class UnreadableFileError extends ClocheError {
  static readonly code = 'unreadable_file'
  override readonly name = 'UnreadableFileError'
  override readonly code = 'unreadable_file'
  override readonly fault = 'caller'
  override readonly status = 400
}
export const isUnreadableFileError = (value: unknown): value is UnreadableFileError => value instanceof UnreadableFileError

/** A message, value or file is over its hard maximum. */
export class TooLargeError extends ClocheError {
  static readonly code = 'too_large'
  override readonly name = 'TooLargeError'
  override readonly code = 'too_large'
  override readonly fault = 'caller'
  override readonly status = 413
}
export const isTooLargeError = (value: unknown): value is TooLargeError => value instanceof TooLargeError

/** The object is not in a state that permits this operation. */
export class StateError extends ClocheError {
  static readonly code = 'invalid_state'
  override readonly name = 'StateError'
  override readonly code = 'invalid_state'
  override readonly fault = 'caller'
  override readonly status = 409
}
export const isStateError = (value: unknown): value is StateError => value instanceof StateError

/** Too many runs wait already; try again when some have ended. */
export class QueueFullError extends ClocheError {
  static readonly code = 'queue_full'
  override readonly name = 'QueueFullError'
  override readonly code = 'queue_full'
  override readonly fault = 'caller'
  override readonly status = 429
}
export const isQueueFullError = (value: unknown): value is QueueFullError => value instanceof QueueFullError

/** The daemon does not accept the caller: there is no token, or a wrong one. */
export class UnauthorizedError extends ClocheError {
  static readonly code = 'unauthorized'
  override readonly name = 'UnauthorizedError'
  override readonly code = 'unauthorized'
  override readonly fault = 'caller'
  override readonly status = 401
}
export const isUnauthorizedError = (value: unknown): value is UnauthorizedError => value instanceof UnauthorizedError

/** This user, host name or origin has no access. */
export class ForbiddenError extends ClocheError {
  static readonly code = 'forbidden'
  override readonly name = 'ForbiddenError'
  override readonly code = 'forbidden'
  override readonly fault = 'caller'
  override readonly status = 403
}
export const isForbiddenError = (value: unknown): value is ForbiddenError => value instanceof ForbiddenError

/** There is no such thing, or it is somebody else's. */
export class NotFoundError extends ClocheError {
  static readonly code = 'not_found'
  override readonly name = 'NotFoundError'
  override readonly code = 'not_found'
  override readonly fault = 'caller'
  override readonly status = 404
}
export const isNotFoundError = (value: unknown): value is NotFoundError => value instanceof NotFoundError

/** The awaited event did not happen in time. */
export class TimeoutError extends ClocheError {
  static readonly code = 'timeout'
  override readonly name = 'TimeoutError'
  override readonly code = 'timeout'
  override readonly fault = 'guest'
  override readonly status = 408
}
export const isTimeoutError = (value: unknown): value is TimeoutError => value instanceof TimeoutError

/** The caller cancelled it. */
export class CancelledError extends ClocheError {
  static readonly code = 'cancelled'
  override readonly name = 'CancelledError'
  override readonly code = 'cancelled'
  override readonly fault = 'caller'
  override readonly status = 409
}
export const isCancelledError = (value: unknown): value is CancelledError => value instanceof CancelledError

/** There is no such file in the sandbox. */
export class FileNotFoundError extends ClocheError {
  static readonly code = 'file_not_found'
  override readonly name = 'FileNotFoundError'
  override readonly code = 'file_not_found'
  override readonly fault = 'caller'
  override readonly status = 404
}
export const isFileNotFoundError = (value: unknown): value is FileNotFoundError => value instanceof FileNotFoundError

/** There is something at this path already. */
export class FileExistsError extends ClocheError {
  static readonly code = 'file_exists'
  override readonly name = 'FileExistsError'
  override readonly code = 'file_exists'
  override readonly fault = 'caller'
  override readonly status = 409
}
export const isFileExistsError = (value: unknown): value is FileExistsError => value instanceof FileExistsError

/** The file is of another kind: a directory, none, or no plain file. */
export class FileKindError extends ClocheError {
  static readonly code = 'file_kind'
  override readonly name = 'FileKindError'
  override readonly code = 'file_kind'
  override readonly fault = 'caller'
  override readonly status = 400
}
export const isFileKindError = (value: unknown): value is FileKindError => value instanceof FileKindError

/** The sandbox's user may not do this to the file. */
export class FileDeniedError extends ClocheError {
  static readonly code = 'file_denied'
  override readonly name = 'FileDeniedError'
  override readonly code = 'file_denied'
  override readonly fault = 'caller'
  override readonly status = 403
}
export const isFileDeniedError = (value: unknown): value is FileDeniedError => value instanceof FileDeniedError

/** The sandbox's quota of bytes or files is used up. */
export class DiskFullError extends ClocheError {
  static readonly code = 'disk_full'
  override readonly name = 'DiskFullError'
  override readonly code = 'disk_full'
  override readonly fault = 'guest'
  override readonly status = 507
}
export const isDiskFullError = (value: unknown): value is DiskFullError => value instanceof DiskFullError

/** The archive cannot be read, is too large unpacked, or has a member that is not permitted. */
export class BadArchiveError extends ClocheError {
  static readonly code = 'bad_archive'
  override readonly name = 'BadArchiveError'
  override readonly code = 'bad_archive'
  override readonly fault = 'caller'
  override readonly status = 422
}
export const isBadArchiveError = (value: unknown): value is BadArchiveError => value instanceof BadArchiveError

/** The sandbox ended during the request. */
export class SandboxEndedError extends ClocheError {
  static readonly code = 'sandbox_ended'
  override readonly name = 'SandboxEndedError'
  override readonly code = 'sandbox_ended'
  override readonly fault = 'guest'
  override readonly status = 410
}
export const isSandboxEndedError = (value: unknown): value is SandboxEndedError => value instanceof SandboxEndedError

/** The session ended during the request. */
export class SessionEndedError extends ClocheError {
  static readonly code = 'session_ended'
  override readonly name = 'SessionEndedError'
  override readonly code = 'session_ended'
  override readonly fault = 'guest'
  override readonly status = 410
}
export const isSessionEndedError = (value: unknown): value is SessionEndedError => value instanceof SessionEndedError

/** The context's interpreter has ended; it can be restarted. */
export class ContextEndedError extends ClocheError {
  static readonly code = 'context_ended'
  override readonly name = 'ContextEndedError'
  override readonly code = 'context_ended'
  override readonly fault = 'guest'
  override readonly status = 410
}
export const isContextEndedError = (value: unknown): value is ContextEndedError => value instanceof ContextEndedError

/** The process ended before it did what was waited for. */
export class ProcessEndedError extends ClocheError {
  static readonly code = 'process_ended'
  override readonly name = 'ProcessEndedError'
  override readonly code = 'process_ended'
  override readonly fault = 'guest'
  override readonly status = 409
}
export const isProcessEndedError = (value: unknown): value is ProcessEndedError => value instanceof ProcessEndedError

/** Nothing accepts connections at this port of the sandbox. */
export class PortClosedError extends ClocheError {
  static readonly code = 'port_closed'
  override readonly name = 'PortClosedError'
  override readonly code = 'port_closed'
  override readonly fault = 'guest'
  override readonly status = 502
}
export const isPortClosedError = (value: unknown): value is PortClosedError => value instanceof PortClosedError

/** git failed. */
export class GitError extends ClocheError {
  static readonly code = 'git'
  override readonly name = 'GitError'
  override readonly code = 'git'
  override readonly fault = 'guest'
  override readonly status = 422
}
export const isGitError = (value: unknown): value is GitError => value instanceof GitError

/** There is no such repository or branch, or it is hidden without credentials. */
export class GitNotFoundError extends ClocheError {
  static readonly code = 'git_not_found'
  override readonly name = 'GitNotFoundError'
  override readonly code = 'git_not_found'
  override readonly fault = 'guest'
  override readonly status = 404
}
export const isGitNotFoundError = (value: unknown): value is GitNotFoundError => value instanceof GitNotFoundError

/** The repository wants credentials, or other ones. */
export class GitAuthError extends ClocheError {
  static readonly code = 'git_auth'
  override readonly name = 'GitAuthError'
  override readonly code = 'git_auth'
  override readonly fault = 'guest'
  override readonly status = 422
}
export const isGitAuthError = (value: unknown): value is GitAuthError => value instanceof GitAuthError

/** The repository's host cannot be reached from the sandbox. */
export class GitNetworkError extends ClocheError {
  static readonly code = 'git_network'
  override readonly name = 'GitNetworkError'
  override readonly code = 'git_network'
  override readonly fault = 'guest'
  override readonly status = 502
}
export const isGitNetworkError = (value: unknown): value is GitNetworkError => value instanceof GitNetworkError

/** Packages of a new sandbox could not be installed. */
export class PackagesError extends ClocheError {
  static readonly code = 'packages'
  override readonly name = 'PackagesError'
  override readonly code = 'packages'
  override readonly fault = 'guest'
  override readonly status = 422
}
export const isPackagesError = (value: unknown): value is PackagesError => value instanceof PackagesError

/** The daemon is about to end and takes no new work. */
export class StoppingError extends ClocheError {
  static readonly code = 'stopping'
  override readonly name = 'StoppingError'
  override readonly code = 'stopping'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isStoppingError = (value: unknown): value is StoppingError => value instanceof StoppingError

/** The set-up code of a prefix failed, or left something that cannot be forked. */
export class PrefixError extends ClocheError {
  static readonly code = 'prefix'
  override readonly name = 'PrefixError'
  override readonly code = 'prefix'
  override readonly fault = 'guest'
  override readonly status = 422
}
export const isPrefixError = (value: unknown): value is PrefixError => value instanceof PrefixError

/** The code called host functions more often, or with more bytes, than it may. */
export class BridgeLimitError extends ClocheError {
  static readonly code = 'bridge_limit'
  override readonly name = 'BridgeLimitError'
  override readonly code = 'bridge_limit'
  override readonly fault = 'guest'
  override readonly status = 422
}
export const isBridgeLimitError = (value: unknown): value is BridgeLimitError => value instanceof BridgeLimitError

/** A template died, or could not be forked. */
export class TemplateError extends ClocheError {
  static readonly code = 'template'
  override readonly name = 'TemplateError'
  override readonly code = 'template'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isTemplateError = (value: unknown): value is TemplateError => value instanceof TemplateError

/** The image does not hold the interpreter of this language. */
export class MissingRuntimeError extends ClocheError {
  static readonly code = 'missing_runtime'
  override readonly name = 'MissingRuntimeError'
  override readonly code = 'missing_runtime'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isMissingRuntimeError = (value: unknown): value is MissingRuntimeError => value instanceof MissingRuntimeError

/** A protection cannot be had here and was not named optional. */
export class GuardMissingError extends ClocheError {
  static readonly code = 'guard_missing'
  override readonly name = 'GuardMissingError'
  override readonly code = 'guard_missing'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isGuardMissingError = (value: unknown): value is GuardMissingError => value instanceof GuardMissingError

/** The kernel refused a namespace. */
export class NamespaceError extends ClocheError {
  static readonly code = 'namespace'
  override readonly name = 'NamespaceError'
  override readonly code = 'namespace'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isNamespaceError = (value: unknown): value is NamespaceError => value instanceof NamespaceError

/** The box's root could not be built. */
export class MountError extends ClocheError {
  static readonly code = 'mount'
  override readonly name = 'MountError'
  override readonly code = 'mount'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isMountError = (value: unknown): value is MountError => value instanceof MountError

/** The box's control group could not be made or set. */
export class CgroupError extends ClocheError {
  static readonly code = 'cgroup'
  override readonly name = 'CgroupError'
  override readonly code = 'cgroup'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isCgroupError = (value: unknown): value is CgroupError => value instanceof CgroupError

/** The system call filter could not be built or loaded. */
export class SeccompError extends ClocheError {
  static readonly code = 'seccomp'
  override readonly name = 'SeccompError'
  override readonly code = 'seccomp'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isSeccompError = (value: unknown): value is SeccompError => value instanceof SeccompError

/** Privilege could not be dropped, or was not gone afterwards. */
export class PrivilegeError extends ClocheError {
  static readonly code = 'privilege'
  override readonly name = 'PrivilegeError'
  override readonly code = 'privilege'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isPrivilegeError = (value: unknown): value is PrivilegeError => value instanceof PrivilegeError

/** The host is out of memory, descriptors or processes. */
export class ResourceError extends ClocheError {
  static readonly code = 'resource'
  override readonly name = 'ResourceError'
  override readonly code = 'resource'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isResourceError = (value: unknown): value is ResourceError => value instanceof ResourceError

/** A program could not be started in the box. */
export class SpawnError extends ClocheError {
  static readonly code = 'spawn'
  override readonly name = 'SpawnError'
  override readonly code = 'spawn'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isSpawnError = (value: unknown): value is SpawnError => value instanceof SpawnError

/** The keeper could not be started or is gone. */
export class KeeperError extends ClocheError {
  static readonly code = 'keeper'
  override readonly name = 'KeeperError'
  override readonly code = 'keeper'
  override readonly fault = 'host'
  override readonly status = 503
}
export const isKeeperError = (value: unknown): value is KeeperError => value instanceof KeeperError

/** A peer sent bytes that are not a valid frame or message. */
export class ProtocolError extends ClocheError {
  static readonly code = 'protocol'
  override readonly name = 'ProtocolError'
  override readonly code = 'protocol'
  override readonly fault = 'guest'
  override readonly status = 502
}
export const isProtocolError = (value: unknown): value is ProtocolError => value instanceof ProtocolError

/** An invariant of Cloche does not hold. */
export class InternalError extends ClocheError {
  static readonly code = 'internal'
  override readonly name = 'InternalError'
  override readonly code = 'internal'
  override readonly fault = 'bug'
  override readonly status = 500
}
export const isInternalError = (value: unknown): value is InternalError => value instanceof InternalError

export type ErrorCode = 'invalid_argument' | 'unknown_language' | 'invalid_json' | 'unreadable_file' | 'too_large' | 'invalid_state' | 'queue_full' | 'unauthorized' | 'forbidden' | 'not_found' | 'timeout' | 'cancelled' | 'file_not_found' | 'file_exists' | 'file_kind' | 'file_denied' | 'disk_full' | 'bad_archive' | 'sandbox_ended' | 'session_ended' | 'context_ended' | 'process_ended' | 'port_closed' | 'git' | 'git_not_found' | 'git_auth' | 'git_network' | 'packages' | 'stopping' | 'prefix' | 'bridge_limit' | 'template' | 'missing_runtime' | 'guard_missing' | 'namespace' | 'mount' | 'cgroup' | 'seccomp' | 'privilege' | 'resource' | 'spawn' | 'keeper' | 'protocol' | 'internal'
export const errorClasses: Record<ErrorCode, new (message: string, options?: ErrorOptions) => ClocheError> = {
  invalid_argument: InvalidArgumentError,
  unknown_language: UnknownLanguageError,
  invalid_json: InvalidJsonError,
  unreadable_file: UnreadableFileError,
  too_large: TooLargeError,
  invalid_state: StateError,
  queue_full: QueueFullError,
  unauthorized: UnauthorizedError,
  forbidden: ForbiddenError,
  not_found: NotFoundError,
  timeout: TimeoutError,
  cancelled: CancelledError,
  file_not_found: FileNotFoundError,
  file_exists: FileExistsError,
  file_kind: FileKindError,
  file_denied: FileDeniedError,
  disk_full: DiskFullError,
  bad_archive: BadArchiveError,
  sandbox_ended: SandboxEndedError,
  session_ended: SessionEndedError,
  context_ended: ContextEndedError,
  process_ended: ProcessEndedError,
  port_closed: PortClosedError,
  git: GitError,
  git_not_found: GitNotFoundError,
  git_auth: GitAuthError,
  git_network: GitNetworkError,
  packages: PackagesError,
  stopping: StoppingError,
  prefix: PrefixError,
  bridge_limit: BridgeLimitError,
  template: TemplateError,
  missing_runtime: MissingRuntimeError,
  guard_missing: GuardMissingError,
  namespace: NamespaceError,
  mount: MountError,
  cgroup: CgroupError,
  seccomp: SeccompError,
  privilege: PrivilegeError,
  resource: ResourceError,
  spawn: SpawnError,
  keeper: KeeperError,
  protocol: ProtocolError,
  internal: InternalError
}
