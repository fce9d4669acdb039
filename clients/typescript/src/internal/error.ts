/** Whose fault an error is: the request's, the program's, the machine's, or ours. */
export type Fault = 'caller' | 'guest' | 'host' | 'bug'

export interface ErrorOptions {
  cause?: unknown
  /** Further members of the daemon's error, such as `failure` of a prefix. */
  data?: Record<string, unknown>
}

/** All errors of this package; each row of spec/errors.def has a class of its own. */
export abstract class ClocheError extends Error {
  /** Stable, for programs. */
  abstract readonly code: string
  abstract readonly fault: Fault
  /** The status of the HTTP face; 0 when the error never crosses it. */
  abstract readonly status: number
  readonly data: Record<string, unknown>

  constructor (message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.data = options.data ?? {}
  }
}

/** The daemon could not be reached or started, or is gone: what was asked of it has no answer. */
export class ConnectionError extends ClocheError {
  override readonly name = 'ConnectionError'
  override readonly code = 'connection'
  override readonly fault = 'host'
  override readonly status = 0
}

/** No answer within the time the caller gave. */
export class RequestTimeoutError extends ClocheError {
  override readonly name = 'RequestTimeoutError'
  override readonly code = 'request_timeout'
  override readonly fault = 'caller'
  override readonly status = 0
}

export const isClocheError = (value: unknown): value is ClocheError => value instanceof ClocheError
export const isConnectionError = (value: unknown): value is ConnectionError => value instanceof ConnectionError
export const isRequestTimeoutError = (value: unknown): value is RequestTimeoutError => value instanceof RequestTimeoutError
