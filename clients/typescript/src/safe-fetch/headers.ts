import { SafeFetchError } from './errors.js'

export const HEADER_BYTES_MAX = 65536

export type HeaderMap = Map<string, string>

/**
 * Neither the guest nor a middleware may set these: they define the end of a message, its receiver,
 * or request another protocol on the same connection. They are dropped silently, as in the Fetch
 * standard.
 */
const OURS = new Set([
  'host', 'content-length', 'transfer-encoding', 'te', 'trailer', 'connection', 'keep-alive', 'proxy-connection', 'upgrade',
  'http2-settings', 'expect', 'accept-encoding'
])
/** Between the server and this client, not for the guest. */
const HOP_BY_HOP = ['connection', 'keep-alive', 'proxy-connection', 'transfer-encoding', 'te', 'trailer', 'upgrade']

const NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/
const BAD_IN_VALUE = /[^\t\x20-\x7e\x80-\xff]/

const joined = (name: string): string => name === 'cookie' ? '; ' : ', '

function checked (name: string, value: string): void {
  if (!NAME.test(name)) throw new TypeError(`${JSON.stringify(name)} is no name of a header`)
  if (BAD_IN_VALUE.test(value)) throw new TypeError(`the header ${JSON.stringify(name)} has a character that no header may hold`)
}

function pairsOf (value: unknown, where: string): Array<[unknown, unknown]> {
  if (value === undefined || value === null) return []
  if (typeof value !== 'object') throw new TypeError(`${where} must be an object`)
  if (!(Symbol.iterator in value)) return Object.entries(value)
  return Array.from(value as Iterable<unknown>, (pair) => {
    if (!Array.isArray(pair) || pair.length !== 2) throw new TypeError(`${where} must be an object, or pairs of a name and a value`)
    return pair as [unknown, unknown]
  })
}

/** Reads headers of the guest or the host: a record, pairs, a Map or Headers. Names end in lower case. */
export function readHeaders (value: unknown, where = 'headers'): HeaderMap {
  const headers: HeaderMap = new Map()
  for (const [given, text] of pairsOf(value, where)) {
    if (typeof given !== 'string' || typeof text !== 'string') {
      throw new TypeError(`${where}: the header ${JSON.stringify(given) ?? typeof given} must be a string`)
    }
    const name = given.toLowerCase()
    checked(name, text)
    const before = headers.get(name)
    headers.set(name, before === undefined ? text : `${before}${joined(name)}${text}`)
  }
  return headers
}

const tooLarge = (what: string): SafeFetchError => new SafeFetchError('ERR_FETCH_REQUEST_TOO_LARGE', `the request has ${what}`)

export function limitHeaders (headers: HeaderMap, most: number): void {
  let bytes = 0
  for (const [name, value] of headers) bytes += name.length + value.length + 4
  if (most > 0 && headers.size > most) throw tooLarge(`${headers.size} headers, more than ${most} (maxHeaders)`)
  if (bytes > HEADER_BYTES_MAX) throw tooLarge(`headers of more than ${HEADER_BYTES_MAX} bytes`)
}

/** The headers that the request may carry. */
export const withoutOurs = (headers: HeaderMap): HeaderMap => new Map([...headers].filter(([name]) => !OURS.has(name)))

export const recordOf = (headers: HeaderMap): Record<string, string> => Object.fromEntries(headers)

/** Headers of a response for the guest; `decoded` if its body no longer has their coding and length. */
export function responseHeaders (given: NodeJS.Dict<string | string[]>, decoded: boolean): Record<string, string> {
  const headers = Object.entries(given).map(([name, value = '']) => [name, Array.isArray(value) ? value.join(', ') : value] as const)
  const dropped = new Set(decoded ? [...HOP_BY_HOP, 'content-encoding', 'content-length'] : HOP_BY_HOP)
  return Object.fromEntries(headers.filter(([name]) => !dropped.has(name)))
}
