// Errors of the façade: its public classes, each made from a client error, which is its cause.
import type { ExecResult } from './types.js'

export interface ErrorResponse<C = Record<string, unknown>> {
  code: string
  message: string
  context: C
  httpStatus: number
  operation?: string
  timestamp: string
  suggestion?: string
}

export class SandboxError<C = Record<string, unknown>> extends Error {
  override readonly name: string = 'SandboxError'

  constructor (readonly errorResponse: ErrorResponse<C>, options: { cause?: unknown } = {}) {
    super(errorResponse.message, options)
  }

  get code (): string { return this.errorResponse.code }
  get context (): C { return this.errorResponse.context }
  get httpStatus (): number { return this.errorResponse.httpStatus }
  get operation (): string | undefined { return this.errorResponse.operation }
  get suggestion (): string | undefined { return this.errorResponse.suggestion }
  get timestamp (): string { return this.errorResponse.timestamp }

  toJSON (): object {
    const { name, message, code, context, httpStatus, operation, suggestion, timestamp } = this
    return { name, message, code, context, httpStatus, operation, suggestion, timestamp }
  }
}

export class ValidationFailedError extends SandboxError { override readonly name: string = 'ValidationFailedError' }
/** An invalid id or port. */
export class SecurityError extends ValidationFailedError { override readonly name = 'SecurityError' }
export class FileSystemError extends SandboxError { override readonly name: string = 'FileSystemError' }
export class FileNotFoundError extends FileSystemError { override readonly name = 'FileNotFoundError' }
export class FileExistsError extends FileSystemError { override readonly name = 'FileExistsError' }
export class FileTooLargeError extends FileSystemError { override readonly name = 'FileTooLargeError' }
export class PermissionDeniedError extends FileSystemError { override readonly name = 'PermissionDeniedError' }
export class CommandError extends SandboxError { override readonly name = 'CommandError' }
export class ProcessError extends SandboxError { override readonly name: string = 'ProcessError' }
export class ProcessNotFoundError extends ProcessError { override readonly name = 'ProcessNotFoundError' }
export class PortError extends SandboxError { override readonly name: string = 'PortError' }
export class InvalidPortError extends PortError { override readonly name = 'InvalidPortError' }
export class PortNotExposedError extends PortError { override readonly name = 'PortNotExposedError' }
export class ServiceNotRespondingError extends PortError { override readonly name = 'ServiceNotRespondingError' }
export class GitError extends SandboxError { override readonly name: string = 'GitError' }
export class GitCloneError extends GitError { override readonly name = 'GitCloneError' }
export class GitNotFoundError extends GitError { override readonly name = 'GitNotFoundError' }
export class GitBranchNotFoundError extends GitError { override readonly name = 'GitBranchNotFoundError' }
export class GitAuthenticationError extends GitError { override readonly name = 'GitAuthenticationError' }
export class GitNetworkError extends GitError { override readonly name = 'GitNetworkError' }
export class SessionNotFoundError extends SandboxError { override readonly name = 'SessionNotFoundError' }
/** The shell of a session ended; `context.result` has the output of the command that ended it, if any. */
export class SessionTerminatedError extends SandboxError<{ sessionId?: string, exitCode?: number, command?: string, result?: ExecResult }> {
  override readonly name = 'SessionTerminatedError'
  get sessionId (): string | undefined { return this.context.sessionId }
  get exitCode (): number | undefined { return this.context.exitCode }
}
export class SessionDestroyedError extends SandboxError { override readonly name = 'SessionDestroyedError' }

export class ContextNotFoundError extends SandboxError<{ contextId: string }> {
  override readonly name = 'ContextNotFoundError'
  get contextId (): string { return this.context.contextId }
}
export class CodeExecutionError extends SandboxError { override readonly name: string = 'CodeExecutionError' }

export class InvalidBackupConfigError extends SandboxError<{ reason: string }> {
  override readonly name = 'InvalidBackupConfigError'
  get reason (): string { return this.context.reason }
}
export class BackupNotFoundError extends SandboxError<{ backupId: string }> {
  override readonly name = 'BackupNotFoundError'
  get backupId (): string { return this.context.backupId }
}
export class BackupExpiredError extends SandboxError<{ backupId: string, expiredAt: string }> {
  override readonly name = 'BackupExpiredError'
  get backupId (): string { return this.context.backupId }
  get expiredAt (): string { return this.context.expiredAt }
}
export class BackupCreateError extends SandboxError<{ dir: string, backupId: string }> {
  override readonly name: string = 'BackupCreateError'
  get dir (): string { return this.context.dir }
  get backupId (): string { return this.context.backupId }
}
export class BackupRestoreError extends BackupCreateError {
  override readonly name = 'BackupRestoreError'
}

interface Readiness { processId: string, command: string, condition: string }

/** The awaited event did not happen in time. */
export class ProcessReadyTimeoutError extends SandboxError<Readiness & { timeout: number }> {
  override readonly name = 'ProcessReadyTimeoutError'
  get processId (): string { return this.context.processId }
  get command (): string { return this.context.command }
  get condition (): string { return this.context.condition }
  get timeout (): number { return this.context.timeout }
}

/** The process ended before the awaited event. */
export class ProcessExitedBeforeReadyError extends SandboxError<Readiness & { exitCode: number }> {
  override readonly name = 'ProcessExitedBeforeReadyError'
  get processId (): string { return this.context.processId }
  get command (): string { return this.context.command }
  get condition (): string { return this.context.condition }
  get exitCode (): number { return this.context.exitCode }
}

export const isSandboxError = (value: unknown): value is SandboxError => value instanceof SandboxError
