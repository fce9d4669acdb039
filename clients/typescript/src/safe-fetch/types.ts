type MaybePromise<T> = T | Promise<T>

/** A request as the policy sees it. */
export interface SafeFetchRequest {
  /** Canonical: no user info, no fragment, no trailing dot of the host; names in ASCII, addresses in their usual form. */
  url: string
  protocol: 'http' | 'https'
  /** Lower case, without brackets. */
  host: string
  /** 80 and 443 when the URL has none. */
  port: number
  /** Path and query as sent. */
  path: string
  /** Upper case. */
  method: string
  /** Names in lower case. */
  headers: Record<string, string>
  /** Always null: names are resolved after the request is permitted, so that a denied one causes no DNS query. */
  resolvedIp: string | null
  /** 0 for the request itself, 1 and up for redirects. */
  hop: number
}

export interface HostFetchRequest {
  url: string
  method: string
  headers: Record<string, string>
  body: Uint8Array | string | null
  signal?: AbortSignal
}

export interface HostFetchResponse {
  status: number
  statusText?: string
  headers: Record<string, string>
  /**
   * Bytes or null from the network. A middleware may return a string, which becomes bytes, or any
   * value the bridge carries.
   */
  body: unknown
}

/** A response in the hands of a middleware. */
export interface MiddlewareResponse extends HostFetchResponse {
  statusText: string
  bytes (): Uint8Array
  text (): string
  json (): unknown
}

export interface FetchContextReq {
  readonly url: string
  readonly method: string
  /** Parameters of the route's path. */
  readonly params: Record<string, string>
  readonly hop: number
  /** The guest's request, unchanged by middleware. */
  readonly raw: Readonly<HostFetchRequest>
  headers: Record<string, string>
  body: Uint8Array | string | null
  readonly header: (name: string, value: string) => void
  /** The new URL is checked against rules, policy and addresses before anything is sent to it. */
  readonly setUrl: (url: string) => void
  readonly setBody: (body: Uint8Array | string | null) => void
}

export interface FetchContext<C = unknown> {
  readonly req: FetchContextReq
  /** The response of `next()`; null before. */
  res: HostFetchResponse | null
  /** The context given to `invoke`; undefined for requests of the guest. */
  readonly context: C | undefined
}

/** Goes on to the next middleware, at last to the network. Each call sends the request anew. */
export type Next = () => Promise<MiddlewareResponse>

/** Returns a response, or nothing, which stands for `ctx.res`. */
export type FetchMiddleware<C = unknown> = (ctx: FetchContext<C>, next: Next) => MaybePromise<HostFetchResponse | void>

export interface FetchRouteRule<C = unknown> {
  /**
   * A path, as sent (nothing is decoded): segments of text, `:name` for one that is not empty, `:name(one|two)` for one that
   * matches the expression, `*` for any one; at the end `/**` or `/**:name` for zero or more.
   */
  path: string
  /** Default: all permitted methods, also `*`. */
  methods?: string | readonly string[]
  middleware?: FetchMiddleware<C>
}

export interface FetchOriginRule<C = unknown> {
  /** A host, or `*.example.com` for one label before it. Rules of exactly the host come before those of a pattern. */
  host: string | readonly string[]
  /** Default: the standard port of the scheme; else only these. */
  port?: number | readonly number[]
  /** Default true. */
  httpsOnly?: boolean
  /** An empty list denies everything. */
  routes: ReadonlyArray<FetchRouteRule<C>>
  middleware?: FetchMiddleware<C>
}

/** True permits. Anything else denies; an exception denies with its message, which the guest sees. */
export type SafeFetchPolicy = (request: SafeFetchRequest) => MaybePromise<boolean>

/** Addresses of a name. */
export type SafeFetchLookup = (host: string, signal: AbortSignal) => MaybePromise<ReadonlyArray<{ address: string }>>

export interface SafeFetchOptions<C = unknown> {
  /** Called if no rule names the host. Without rules and policy there is no safe fetch. */
  policy?: SafeFetchPolicy
  rules?: FetchOriginRule<C> | ReadonlyArray<FetchOriginRule<C>>
  /**
   * Runs around those of the rule and the route. Headers that it adds are not sent to another
   * origin after a redirect; those of a rule's middleware are, because a rule names its hosts.
   */
  middleware?: FetchMiddleware<C>
  /**
   * True (default): every address of the name must be public. False: its public addresses are used.
   * Either way only checked addresses are connected to.
   */
  pinDns?: boolean
  /** Redirects followed; default 0: the guest gets the 3xx. */
  maxRedirects?: number
  /** For everything together: waiting, policy, names, redirects, body. Default 30,000; 0 = none. */
  timeoutMs?: number
  /** Bytes of a response, both as sent and decompressed. Default 16 MiB; 0 = none. */
  maxBodyBytes?: number
  /** Default 1 MiB; 0 = none. */
  maxRequestBodyBytes?: number
  /** Headers of a request and of a response each. Default 100; 0 = none. */
  maxHeaders?: number
  /** Requests in progress; others wait. They may hold this many bodies at once. Default 64; 0 = none. */
  maxConcurrent?: number
  /** Default GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS. */
  methods?: readonly string[]
  /** Default false: identity is requested, and a compressed response is refused. True: gzip, deflate and br. */
  allowCompressedResponses?: boolean
  /** Reachable networks that are not public, as `10.1.0.0/16`. The addresses of cloud metadata services stay closed. */
  allowPrivate?: readonly string[]
  /** Replaces the system's resolver. Its results are checked like any others. */
  lookup?: SafeFetchLookup
  /** Authorities instead of Node's own, as PEM. */
  ca?: string | readonly string[]
  /** Called when a request is permitted, before it is sent, at each hop; an exception is a denial with its message. */
  onRequest?: (request: SafeFetchRequest) => MaybePromise<void>
  /** Called for every denial with the full reason, before the guest gets it. */
  onDenied?: (request: SafeFetchRequest, reason: string) => MaybePromise<void>
}

/** A value for `globals.fetch`. */
export interface SafeFetchGlobal<C = unknown> {
  readonly kind: 'bridge-with-shim'
  /** The guest's `fetch(url, init)`. */
  readonly handler: (...args: unknown[]) => Promise<HostFetchResponse>
  /** Source of the function that makes the guest's response of the handler's result. */
  readonly shim: string
  /** The same path for the host, with a context for the middleware. */
  readonly invoke: (request: HostFetchInit, context?: C) => Promise<HostFetchResponse>
}

export type HostFetchInit = Pick<HostFetchRequest, 'url'> & Partial<HostFetchRequest>
