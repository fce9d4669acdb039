import type { FetchRequest } from './request.js'
import type { HostFetchResponse } from './types.js'
import type { HeaderMap } from './headers.js'
import { SafeFetchError } from './errors.js'
import { parseUrl } from './url.js'

const STATUSES = new Set([301, 302, 303, 307, 308])
const CREDENTIALS = new Set(['authorization', 'cookie', 'proxy-authorization'])

export const isRedirect = ({ status, headers }: HostFetchResponse): boolean => STATUSES.has(status) && headers['location'] !== undefined

function targetOf (response: HostFetchResponse, sentTo: URL): URL {
  try {
    return parseUrl(response.headers['location'] ?? '', sentTo)
  } catch (cause) {
    const why = (cause as Error).message
    throw new SafeFetchError('ERR_FETCH_REDIRECT', `fetch: ${sentTo.origin} redirects to what cannot be followed: ${why}`, cause)
  }
}

const becomesGet = (status: number, method: string): boolean =>
  status === 303 ? method !== 'GET' && method !== 'HEAD' : (status === 301 || status === 302) && method === 'POST'

const without = (headers: HeaderMap, drops: (name: string) => boolean): HeaderMap => new Map([...headers].filter(([name]) => !drops(name)))

/**
 * The request for a redirect, made from the guest's own: additions by middleware for one hop were
 * for its server. `sentTo` is the URL of the request, which a middleware may have changed.
 */
export function redirected (request: FetchRequest, response: HostFetchResponse, sentTo: URL): FetchRequest {
  const url = targetOf(response, sentTo)
  const isSame = url.origin === sentTo.origin && url.origin === request.url.origin
  const headers = isSame ? request.headers : without(request.headers, (name) => CREDENTIALS.has(name))
  if (!becomesGet(response.status, request.method)) return { ...request, url, headers }
  return { ...request, url, method: 'GET', body: null, headers: without(headers, (name) => name.startsWith('content-')) }
}
