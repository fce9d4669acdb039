export type {
  FetchContext, FetchContextReq, FetchMiddleware, FetchOriginRule, FetchRouteRule, HostFetchInit, HostFetchRequest, HostFetchResponse,
  MiddlewareResponse, Next, SafeFetchGlobal, SafeFetchLookup, SafeFetchOptions, SafeFetchPolicy, SafeFetchRequest
} from './types.js'
export type { SafeFetchErrorCode } from './errors.js'
export { SafeFetchError } from './errors.js'
export { createSafeFetch } from './safe-fetch.js'
