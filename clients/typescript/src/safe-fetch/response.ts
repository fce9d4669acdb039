import type { HostFetchResponse, MiddlewareResponse } from './types.js'
import { readHeaders, recordOf } from './headers.js'
import { bytesOf } from './request.js'

const decoder = new TextDecoder()
const isBytes = (value: unknown): value is Uint8Array => value instanceof Uint8Array

/**
 * The response object of a middleware. Only data are own properties, so that `{...response, body}`
 * is a response again.
 */
class HeldResponse implements MiddlewareResponse {
  status: number
  statusText: string
  headers: Record<string, string>
  body: unknown

  constructor ({ status, statusText, headers, body }: HostFetchResponse) {
    this.status = status
    this.statusText = statusText ?? ''
    this.headers = headers
    this.body = body
  }

  bytes (): Uint8Array { return isBytes(this.body) ? this.body : new TextEncoder().encode(this.text()) }

  text (): string {
    if (this.body === null) return ''
    return isBytes(this.body) ? decoder.decode(this.body) : JSON.stringify(this.body) ?? ''
  }

  json (): unknown { return isBytes(this.body) || this.body === null ? JSON.parse(this.text()) : this.body }
}

const wrong = (message: string): TypeError => new TypeError(`a middleware's response: ${message}`)
const isText = (body: unknown): boolean => typeof body === 'string' || ArrayBuffer.isView(body) || body instanceof ArrayBuffer

/** Converts a middleware's response to its one form; throws the reason if it is invalid. */
export function readResponseOf (value: unknown): MiddlewareResponse {
  if (typeof value !== 'object' || value === null) throw new TypeError('a middleware must return a response or nothing')
  const { status, statusText = '', headers, body = null } = value as Partial<HostFetchResponse>
  if (typeof status !== 'number' || !Number.isInteger(status) || status < 200 || status > 599) throw wrong('status must be from 200 to 599')
  if (typeof statusText !== 'string') throw wrong('statusText must be a string')
  const given = isText(body) ? bytesOf(body) : body
  return new HeldResponse({
    status,
    statusText,
    headers: recordOf(readHeaders(headers, 'a middleware\'s response: headers')),
    body: Buffer.isBuffer(given) ? new Uint8Array(given) : given
  })
}

export const held = (response: HostFetchResponse): MiddlewareResponse => new HeldResponse(response)

/** Plain data, as the bridge carries it. */
export const plain = ({ status, statusText = '', headers, body }: HostFetchResponse): HostFetchResponse =>
  ({ status, statusText, headers, body })
