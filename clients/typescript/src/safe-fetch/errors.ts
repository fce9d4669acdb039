/**
 * Why a request failed. `ERR_FETCH_DENIED` is the host's decision (policy, rules, addresses, ports, methods); the others say
 * which limit was hit or that the other side failed.
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
 * What a request of the guest fails with. `code` crosses to the guest as a field of the error; `cause`, which may name addresses
 * of the host's network, does not.
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

/** A refusal with two texts: the guest's says what it may know, the host's (onDenied) what was found. */
export class Denial extends Error {
  readonly reason: string

  constructor (message: string, reason = message, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.reason = reason
  }
}
