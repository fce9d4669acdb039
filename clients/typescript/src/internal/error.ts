/** The party at fault: the request, the guest's program, the machine, or Cloche. */
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
  /** The HTTP status; 0 if the error is never sent over HTTP. */
  abstract readonly status: number
  readonly data: Record<string, unknown>

  constructor (message: string, options: ErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.data = options.data ?? {}
  }
}

/** The daemon could not be reached or started, or has exited: the request has no response. */
export class ConnectionError extends ClocheError {
  override readonly name = 'ConnectionError'
  override readonly code = 'connection'
  override readonly fault = 'host'
  override readonly status = 0
}

/** No response within the caller's timeout. */
export class RequestTimeoutError extends ClocheError {
  override readonly name = 'RequestTimeoutError'
  override readonly code = 'request_timeout'
  override readonly fault = 'caller'
  override readonly status = 0
}

export const isClocheError = (value: unknown): value is ClocheError => value instanceof ClocheError
export const isConnectionError = (value: unknown): value is ConnectionError => value instanceof ConnectionError
export const isRequestTimeoutError = (value: unknown): value is RequestTimeoutError => value instanceof RequestTimeoutError
