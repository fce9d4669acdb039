/**
 * The reason why a request failed. `ERR_FETCH_DENIED` is the host's decision (policy, rules,
 * addresses, ports, methods); the others mean that a limit was reached or that the other side
 * failed.
 */
export type SafeFetchErrorCode =
  | 'ERR_FETCH_DENIED'
  | 'ERR_FETCH_TIMEOUT'
  | 'ERR_FETCH_REQUEST_TOO_LARGE'
  | 'ERR_FETCH_RESPONSE_TOO_LARGE'
  | 'ERR_FETCH_BAD_RESPONSE'
  | 'ERR_FETCH_REDIRECT'
  | 'ERR_FETCH_NETWORK'

/**
 * The error of a guest's request. `code` is sent to the guest as a field of the error; `cause`,
 * which may name addresses of the host's network, is not.
 */
export class SafeFetchError extends Error {
  readonly code: SafeFetchErrorCode

  constructor (code: SafeFetchErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.code = code
    Object.defineProperty(this, 'name', { value: 'SafeFetchError', configurable: true, writable: true })
  }
}

export const badResponse = (message: string): SafeFetchError => new SafeFetchError('ERR_FETCH_BAD_RESPONSE', message)

/** A refusal with two texts: one that the guest may see, and the full reason for the host (onDenied). */
export class Denial extends Error {
  readonly reason: string

  constructor (message: string, reason = message, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}
