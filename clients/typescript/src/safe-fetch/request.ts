import type { HostFetchRequest } from './types.js'
import type { Limits } from './options.js'
import type { HeaderMap } from './headers.js'
import { readAll } from './body.js'
import { SafeFetchError } from './errors.js'
import { limitHeaders, readHeaders, recordOf, withoutOurs } from './headers.js'
import { parseUrl } from './url.js'

const REDIRECT_MODES = ['follow', 'manual', 'error'] as const
export type RedirectMode = typeof REDIRECT_MODES[number]

/** A request whose form was checked, but not yet whether it is permitted. */
export interface FetchRequest {
  readonly url: URL
  readonly method: string
  readonly headers: HeaderMap
  readonly body: Buffer | null
  readonly redirect: RedirectMode
  /** The original request, for middleware. */
  readonly raw: Readonly<HostFetchRequest>
}

type Dictionary = Record<string, unknown>

const isBytes = (value: unknown): value is ArrayBufferView | ArrayBufferLike =>
  ArrayBuffer.isView(value) || value instanceof ArrayBuffer || value instanceof SharedArrayBuffer

/** Copies bytes and encodes text; null is no body. */
export function bytesOf (body: unknown): Buffer | null {
  if (body === undefined || body === null) return null
  if (typeof body === 'string') return Buffer.from(body)
  if (ArrayBuffer.isView(body)) return Buffer.from(new Uint8Array(body.buffer, body.byteOffset, body.byteLength))
  if (isBytes(body)) return Buffer.from(new Uint8Array(body as ArrayBuffer))
  throw new TypeError('body must be a string, bytes or null')
}

function readBody (body: unknown, method: string, most: number): Buffer | null {
  if (body === undefined || body === null) return null
  if (method === 'GET' || method === 'HEAD') throw new TypeError(`a ${method} request has no body`)
  const size = typeof body === 'string' ? Buffer.byteLength(body) : isBytes(body) ? body.byteLength : 0
  if (most > 0 && size > most) {
    const what = `a body of ${size} bytes, more than ${most} (maxRequestBodyBytes)`
    throw new SafeFetchError('ERR_FETCH_REQUEST_TOO_LARGE', `the request has ${what}`)
  }
  return bytesOf(body)
}

function readMethod (value: unknown): string {
  if (value === undefined) return 'GET'
  if (typeof value !== 'string' || !/^[A-Za-z-]{1,32}$/.test(value)) {
    throw new TypeError('method must be the name of a method, such as "POST"')
  }
  return value.toUpperCase()
}

function readRedirect (value: unknown): RedirectMode {
  if (value === undefined) return 'follow'
  const mode = REDIRECT_MODES.find((known) => known === value)
  if (mode === undefined) throw new TypeError(`redirect must be one of ${REDIRECT_MODES.join(', ')}`)
  return mode
}

function readInit (value: unknown): Dictionary {
  if (value === undefined || value === null) return {}
  if (typeof value !== 'object') throw new TypeError('the second argument must be an object')
  return value as Dictionary
}

// Each member is read once: a getter could return another value the second time.
function read (input: unknown, init: Dictionary, limits: Limits): FetchRequest {
  const text = input instanceof URL ? input.href : input
  if (typeof text !== 'string' || text === '') throw new TypeError('the URL must be a string that is not empty')
  const { method, headers, body, redirect, signal } = init
  const url = parseUrl(text)
  const name = readMethod(method)
  const all = readHeaders(headers)
  limitHeaders(all, limits.maxHeaders)
  const bytes = readBody(body, name, limits.maxRequestBodyBytes)
  const raw: HostFetchRequest = { url: text, method: name, headers: recordOf(all), body: typeof body === 'string' ? body : bytes }
  if (signal instanceof AbortSignal) raw.signal = signal
  return { url, method: name, headers: withoutOurs(all), body: bytes, redirect: readRedirect(redirect), raw: Object.freeze(raw) }
}

function named<T> (make: () => T): T {
  try {
    return make()
  } catch (thrown) {
    if (thrown instanceof TypeError) thrown.message = `fetch: ${thrown.message}`
    throw thrown
  }
}

const unendingBody = (most: number): SafeFetchError =>
  new SafeFetchError('ERR_FETCH_REQUEST_TOO_LARGE', `the request has a body of more than ${most} bytes (maxRequestBodyBytes)`)

/**
 * The members of a Request, as an `init`. The guest's arrives as one of the host's, and its body
 * may still be in production, without end.
 */
async function initOf (request: Request, most: number): Promise<Dictionary> {
  const { method, headers, redirect } = request
  return { method, headers, redirect, body: request.body === null ? null : await readAll(request.body, most, unendingBody) }
}

/**
 * Reads the guest's arguments: a URL or Request, and an `init`, whose unknown members are ignored
 * as Fetch does. Rejects with TypeError, or an error that it is too large.
 */
export async function readArguments ([input, given]: readonly unknown[], limits: Limits): Promise<FetchRequest> {
  const own = input instanceof Request ? await initOf(input, limits.maxRequestBodyBytes) : {}
  return named(() => read(input instanceof Request ? input.url : input, { ...own, ...readInit(given) }, limits))
}

/** Reads a request of the host. */
export const readHostRequest = (given: unknown, limits: Limits): FetchRequest => named(() => {
  const init = readInit(given)
  return read(init['url'], init, limits)
})
