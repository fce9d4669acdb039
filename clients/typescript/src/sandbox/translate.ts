// Maps client errors to the façade's: one row each.
import { type ClocheError, isClocheError } from '../internal/error.js'
import {
  CodeExecutionError, ContextNotFoundError, type ErrorResponse, FileExistsError, FileNotFoundError, FileSystemError, FileTooLargeError, GitAuthenticationError,
  GitBranchNotFoundError, GitCloneError, GitNetworkError, GitNotFoundError, InvalidPortError, PermissionDeniedError, PortNotExposedError,
  ProcessError, ProcessNotFoundError, SandboxError, ServiceNotRespondingError, SessionDestroyedError, SessionNotFoundError,
  SessionTerminatedError, ValidationFailedError
} from './errors.js'

type Made = new (response: ErrorResponse<never>, options?: { cause?: unknown }) => Error
interface Row { code: string, status: number, made: Made }
const row = (code: string, status: number, made: Made = SandboxError): Row => ({ code, status, made })

// Keyed by the client error's name, or by operation and name if it depends on the operation: "process.*", then "*".
const rows: Record<string, Row> = {
  'invalid_argument': row('VALIDATION_FAILED', 400, ValidationFailedError),
  'port.* invalid_argument': row('INVALID_PORT', 400, InvalidPortError),
  'invalid_state': row('RESOURCE_BUSY', 409),
  'invalid_json': row('VALIDATION_FAILED', 400, ValidationFailedError),
  'not_found': row('NOT_FOUND', 404),
  'process.* not_found': row('PROCESS_NOT_FOUND', 404, ProcessNotFoundError),
  'session.* not_found': row('SESSION_NOT_FOUND', 404, SessionNotFoundError),
  'exec not_found': row('SESSION_NOT_FOUND', 404, SessionNotFoundError),
  'context.* not_found': row('CONTEXT_NOT_FOUND', 404, ContextNotFoundError),
  'context.* unknown_language': row('INVALID_LANGUAGE', 400, ValidationFailedError),
  'context_ended': row('CODE_EXECUTION_ERROR', 500, CodeExecutionError),
  'port.* not_found': row('PORT_NOT_EXPOSED', 404, PortNotExposedError),
  'timeout': row('OPERATION_TIMEOUT', 408),
  'port.wait timeout': row('SERVICE_NOT_RESPONDING', 408, ServiceNotRespondingError),
  'git.* timeout': row('GIT_CLONE_FAILED', 408, GitCloneError),
  'request_timeout': row('OPERATION_TIMEOUT', 408),
  'cancelled': row('OPERATION_INTERRUPTED', 409),
  'file_not_found': row('FILE_NOT_FOUND', 404, FileNotFoundError),
  'file_exists': row('FILE_EXISTS', 409, FileExistsError),
  'file_kind': row('IS_DIRECTORY', 400, FileSystemError),
  'file.list file_kind': row('NOT_DIRECTORY', 400, FileSystemError),
  'file.mkdir file_kind': row('NOT_DIRECTORY', 400, FileSystemError),
  'file_denied': row('PERMISSION_DENIED', 403, PermissionDeniedError),
  'too_large': row('FILE_TOO_LARGE', 413, FileTooLargeError),
  'disk_full': row('NO_SPACE', 507, FileSystemError),
  'bad_archive': row('FILESYSTEM_ERROR', 422, FileSystemError),
  'sandbox_ended': row('SESSION_DESTROYED', 410, SessionDestroyedError),
  'session_ended': row('SESSION_TERMINATED', 410, SessionTerminatedError),
  'process_ended': row('PROCESS_ERROR', 500, ProcessError),
  'port_closed': row('SERVICE_NOT_RESPONDING', 502, ServiceNotRespondingError),
  'git': row('GIT_CLONE_FAILED', 500, GitCloneError),
  'git_not_found': row('GIT_REPOSITORY_NOT_FOUND', 404, GitNotFoundError),
  'git_auth': row('GIT_AUTH_FAILED', 401, GitAuthenticationError),
  'git_network': row('GIT_NETWORK_ERROR', 502, GitNetworkError),
  'queue_full': row('RESOURCE_BUSY', 429),
  'forbidden': row('PERMISSION_DENIED', 403),
  'unauthorized': row('UNAUTHORIZED', 401),
  'connection': row('CONTAINER_UNAVAILABLE', 503),
  'stopping': row('CONTAINER_UNAVAILABLE', 503)
}

// An image without the interpreter, by its language.
const missing: Record<string, string> = { python: 'PYTHON_NOT_AVAILABLE', javascript: 'JAVASCRIPT_NOT_AVAILABLE', typescript: 'JAVASCRIPT_NOT_AVAILABLE' }

function madeOf (operation: string, thrown: ClocheError, { branch, language }: { branch?: unknown, language?: unknown }): Row {
  if (thrown.code === 'git_not_found' && branch !== undefined && /branch/i.test(thrown.message)) return row('GIT_BRANCH_NOT_FOUND', 404, GitBranchNotFoundError)
  if (thrown.code === 'missing_runtime') return row(missing[String(language)] ?? 'NOT_IMPLEMENTED', 501, CodeExecutionError)
  return rowOf(operation, thrown)
}

function rowOf (operation: string, { code, status }: ClocheError): Row {
  const group = `${operation.split('.')[0]}.*`
  return rows[`${operation} ${code}`] ?? rows[`${group} ${code}`] ?? rows[code] ?? row('INTERNAL_ERROR', status === 0 ? 500 : status)
}

export function fail<C extends object> (
  made: new (response: ErrorResponse<C>) => Error, code: string, httpStatus: number, message: string, context: C
): Error {
  return new made({ code, message, context, httpStatus, timestamp: new Date().toISOString() })
}

export const invalid = (message: string, context: object = {}): Error =>
  fail(ValidationFailedError, 'VALIDATION_FAILED', 400, message, { ...context })

/** The public form of an operation's error; other exceptions are kept, above all a signal's reason. */
export function translate (operation: string, thrown: unknown, context: object = {}): unknown {
  if (!isClocheError(thrown)) return thrown
  const { code, status, made } = madeOf(operation, thrown, context)
  const response = {
    code, message: thrown.message, context: { ...thrown.data, ...context }, httpStatus: status, operation, timestamp: new Date().toISOString()
  }
  return new made(response as never, { cause: thrown })
}
