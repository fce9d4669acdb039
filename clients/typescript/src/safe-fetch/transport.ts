import type { IncomingMessage, RequestOptions } from 'node:http'
import type { LookupFunction } from 'node:net'
import type { HeaderMap } from './headers.js'
import type { Settings } from './options.js'
import type { Endpoint } from './resolve.js'
import type { HostFetchResponse } from './types.js'
import { Agent as HttpAgent, request as httpRequest } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP } from 'node:net'
import { ACCEPTED, readResponse } from './body.js'
import { SafeFetchError, badResponse } from './errors.js'
import { responseHeaders } from './headers.js'
import { hostOf, portOf } from './url.js'

export const RESPONSE_HEADER_BYTES_MAX = 65536

/** One request to one permitted URL, at checked addresses. */
export interface Exchange {
  readonly url: URL
  readonly method: string
  readonly headers: HeaderMap
  readonly body: Uint8Array | null
  readonly endpoints: readonly Endpoint[]
}

// No connection is used twice: its address was checked for another request, and leftover bytes on
// it would be read as the response. A resumed TLS session skips the check of the certificate's
// name, hence no sessions either. The agents are not Node's global ones, which the environment may
// route through a proxy.
const httpAgent = new HttpAgent({ keepAlive: false })
const httpsAgent = new HttpsAgent({ keepAlive: false, maxCachedSessions: 0 })

// The socket uses this instead of a name server.
const pinned = (endpoints: readonly Endpoint[]): LookupFunction => (_host, options, callback) => {
  const [first] = endpoints
  if (options.all === true) callback(null, [...endpoints])
  else callback(null, first?.address ?? '', first?.family ?? 0)
}

function optionsOf ({ url, method, endpoints }: Exchange, { ca }: Pick<Settings<never>, 'ca'>, signal: AbortSignal): RequestOptions {
  const host = hostOf(url)
  const secure = url.protocol === 'https:'
  return {
    protocol: url.protocol,
    host,
    port: portOf(url),
    path: `${url.pathname}${url.search}`,
    method,
    agent: secure ? httpsAgent : httpAgent,
    lookup: pinned(endpoints),
    autoSelectFamily: true,
    insecureHTTPParser: false,
    maxHeaderSize: RESPONSE_HEADER_BYTES_MAX,
    signal,
    // Set explicitly, because NODE_TLS_REJECT_UNAUTHORIZED=0 would turn them off.
    ...secure && { rejectUnauthorized: true, servername: isIP(host) === 0 ? host : '', ...ca !== undefined && { ca } }
  } as RequestOptions
}

const codeOf = (thrown: unknown): string => {
  const { code, message, errors } = thrown as NodeJS.ErrnoException & { errors?: unknown[] }
  return code ?? (errors?.[0] === undefined ? message : codeOf(errors[0]))
}

// Node's messages contain addresses, which the guest must not see.
function failure (url: URL, thrown: unknown): Error {
  if (thrown instanceof SafeFetchError) return thrown
  const code = codeOf(thrown)
  const kind = /^(HPE_|Z_|ERR__ERROR_|ERR_BROTLI_)/.test(code) ? 'ERR_FETCH_BAD_RESPONSE' : 'ERR_FETCH_NETWORK'
  return new SafeFetchError(kind, `fetch: ${url.origin} failed (${code})`, thrown)
}

function checkCount (response: IncomingMessage, most: number): void {
  const count = response.rawHeaders.length / 2
  if (most > 0 && count > most) throw badResponse(`the response has ${count} headers, more than ${most} (maxHeaders)`)
}

/** Sends a request and reads the whole response. The connection is always destroyed. */
export async function exchange (
  given: Exchange, settings: Pick<Settings<never>, 'ca' | 'limits' | 'allowCompressedResponses'>, signal: AbortSignal
): Promise<HostFetchResponse> {
  const { url, method, body } = given
  const { limits, allowCompressedResponses } = settings
  signal.throwIfAborted()
  const request = (url.protocol === 'https:' ? httpsRequest : httpRequest)(optionsOf(given, settings, signal))
  try {
    // Node silently drops headers over its maximum; they are counted here.
    request.maxHeadersCount = 0
    for (const [name, value] of given.headers) request.setHeader(name, value)
    request.setHeader('accept-encoding', allowCompressedResponses ? ACCEPTED : 'identity')
    const response = await new Promise<IncomingMessage>((resolve, reject) => {
      request.once('response', (response) => {
        // Reading it fails by its errors too; this is for a response that is not read.
        response.on('error', () => {})
        resolve(response)
      })
      request.on('error', reject)
      // Also the end of a response that switches protocols, for which there is no error.
      request.once('close', () => { reject(badResponse(`fetch: ${url.origin} closed the connection without a response`)) })
      request.end(body ?? undefined)
    })
    checkCount(response, limits.maxHeaders)
    const { bytes, decoded } = await readResponse(response, method, limits.maxBodyBytes, allowCompressedResponses)
    const headers = responseHeaders(response.headers, decoded)
    return { status: response.statusCode ?? 0, statusText: response.statusMessage ?? '', headers, body: bytes }
  } catch (thrown) {
    if (signal.aborted) throw signal.reason
    throw failure(url, thrown)
  } finally {
    request.destroy()
  }
}
