import type { FetchRequest } from './request.js'
import type { Settings } from './options.js'
import type {
  FetchMiddleware, HostFetchInit, HostFetchResponse, MiddlewareResponse, SafeFetchGlobal, SafeFetchOptions, SafeFetchRequest
} from './types.js'
import { Denial, SafeFetchError } from './errors.js'
import { Gate } from './gate.js'
import { readHeaders, recordOf, withoutOurs } from './headers.js'
import { RequestView, runMiddleware } from './middleware.js'
import { readOptions } from './options.js'
import { isRedirect, redirected } from './redirect.js'
import { bytesOf, readArguments, readHostRequest } from './request.js'
import { resolveHost } from './resolve.js'
import { held, plain } from './response.js'
import { matchRules } from './rules.js'
import { SHIM } from './shim.js'
import { exchange } from './transport.js'
import { hostOf, isOtherProtocol, portOf, protocolOf } from './url.js'

interface Allowed<C> {
  params: Record<string, string>
  middleware: ReadonlyArray<FetchMiddleware<C>>
}

const describe = (url: URL, method: string, headers: Record<string, string>, hop: number): SafeFetchRequest => ({
  url: url.href,
  protocol: protocolOf(url),
  host: hostOf(url),
  port: portOf(url),
  path: `${url.pathname}${url.search}`,
  method,
  headers,
  resolvedIp: null,
  hop
})

/** The host's message, which the guest may read. */
async function asDenial<T> (ask: () => Promise<T>): Promise<T> {
  try {
    return await ask()
  } catch (thrown) {
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    throw new Denial(message, message, thrown)
  }
}

/** One call of fetch: its redirects, all under one signal. */
class Call<C> {
  readonly #settings: Settings<C>
  readonly #context: C | undefined
  readonly #signal: AbortSignal
  /** The first hop: the request of the guest, and the URL it was sent to. */
  readonly #origins = new Set<string>()

  constructor (settings: Settings<C>, context: C | undefined, signal: AbortSignal) {
    this.#settings = settings
    this.#context = context
    this.#signal = signal
  }

  async run (first: FetchRequest): Promise<HostFetchResponse> {
    let request = first
    for (let hop = 0; ; hop++) {
      const { response, sentTo } = await this.#hop(request, hop)
      if (!isRedirect(response) || request.redirect === 'manual') return plain(response)
      if (request.redirect === 'error') {
        throw new SafeFetchError('ERR_FETCH_REDIRECT', `fetch: ${sentTo.origin} redirects, which redirect: "error" does not allow`)
      }
      if (hop === this.#settings.limits.maxRedirects) return plain(response)
      request = redirected(request, response, sentTo)
    }
  }

  async #hop (request: FetchRequest, hop: number): Promise<{ response: MiddlewareResponse, sentTo: URL }> {
    const shown = describe(request.url, request.method, recordOf(request.headers), hop)
    const { params, middleware } = await this.#telling(shown, () => this.#authorize(shown, request.url))
    const view = new RequestView(request, params, hop)
    const { middleware: global } = this.#settings
    const all = global === undefined ? middleware : [this.#withholding(global, request, view), ...middleware]
    if (hop === 0) this.#origins.add(request.url.origin)
    const response = await runMiddleware(all, view, this.#context, () => this.#send(request, view))
    if (hop === 0) this.#origins.add(view.target.origin)
    return { response, sentTo: view.target }
  }

  /**
   * A global middleware does not name the servers its headers are for, and a server chooses its
   * redirects: so its headers are sent to the first origin only. A rule names its hosts, so its
   * middleware may add any header.
   */
  #withholding (global: FetchMiddleware<C>, request: FetchRequest, view: RequestView): FetchMiddleware<C> {
    return (ctx, next) => global(ctx, () => { // not async: an unawaited promise of next() must not reject unhandled
      if (view.hop > 0 && !this.#origins.has(view.target.origin)) view.headers = recordOf(request.headers)
      return next()
    })
  }

  // A URL changed by a middleware may have been chosen by the guest: rules and policy apply to it as to the first.
  async #send (request: FetchRequest, view: RequestView): Promise<MiddlewareResponse> {
    const url = view.target
    const headers = withoutOurs(readHeaders(view.headers, 'ctx.req.headers'))
    const shown = describe(url, request.method, recordOf(headers), view.hop)
    const endpoints = await this.#telling(shown, async () => {
      if (url !== request.url) await this.#authorize(shown, url)
      const endpoints = await resolveHost(shown.host, this.#settings, this.#signal)
      await asDenial(async () => await this.#settings.onRequest?.(shown))
      return endpoints
    })
    this.#signal.throwIfAborted()
    const { method } = request
    return held(await exchange({ url, method, headers, body: bytesOf(view.body), endpoints }, this.#settings, this.#signal))
  }

  async #authorize (request: SafeFetchRequest, url: URL): Promise<Allowed<C>> {
    const { methods, rules } = this.#settings
    if (!methods.has(request.method)) throw new Denial(`the method ${request.method} is not allowed`)
    const match = matchRules(rules, url, request.method)
    switch (match.verdict) {
      case 'deny': throw new Denial(match.why)
      case 'allow': return { params: match.params, middleware: match.middleware }
      case 'none': await this.#askPolicy(request)
    }
    return { params: {}, middleware: [] }
  }

  async #askPolicy (request: SafeFetchRequest): Promise<void> {
    const { policy } = this.#settings
    if (policy === undefined) throw new Denial(`no rule names the host ${JSON.stringify(request.host)}`)
    if (isOtherProtocol(request.port)) throw new Denial(`port ${request.port} is that of another protocol`)
    const answer = await asDenial(async () => await policy({ ...request, headers: { ...request.headers } }))
    this.#signal.throwIfAborted()
    if (answer !== true) throw new Denial('request denied by policy')
  }

  // The host is notified of a denial before the guest gets it.
  async #telling<T> (request: SafeFetchRequest, decide: () => Promise<T>): Promise<T> {
    try {
      return await decide()
    } catch (thrown) {
      if (!(thrown instanceof Denial)) throw thrown
      const failed = await this.#tell(request, thrown.reason)
      throw new SafeFetchError('ERR_FETCH_DENIED', thrown.message, failed ?? thrown.cause ?? thrown)
    }
  }

  // A denial stands even if the notification fails.
  async #tell (request: SafeFetchRequest, reason: string): Promise<unknown> {
    try {
      await this.#settings.onDenied?.(request, reason)
      return undefined
    } catch (thrown) {
      return thrown
    }
  }
}

/** Runs a task that must end in time, or when `given` aborts, and stops everything it left running. */
async function withDeadline<T> (timeoutMs: number, given: AbortSignal | undefined, task: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const { signal } = controller
  const late = new SafeFetchError('ERR_FETCH_TIMEOUT', `fetch took longer than ${timeoutMs} ms (timeoutMs)`)
  const timer = timeoutMs === 0 ? undefined : setTimeout(() => { controller.abort(late) }, timeoutMs)
  const forward = (): void => { controller.abort(given?.reason) }
  // The task may wait for code without signals: a policy, a middleware, a name server.
  const stopped = new Promise<never>((_resolve, reject) => {
    signal.addEventListener('abort', () => { reject(signal.reason) }, { once: true })
  })
  given?.addEventListener('abort', forward, { once: true })
  if (given?.aborted === true) forward()
  try {
    return await Promise.race([stopped, task(signal)])
  } finally {
    clearTimeout(timer)
    given?.removeEventListener('abort', forward)
    stopped.catch(() => {})
    controller.abort()
  }
}

/**
 * A `fetch` for untrusted code: `globals: {fetch: createSafeFetch({...})}`. Every request, redirect
 * and change of a URL is checked against rules and policy; names are resolved once, and only public
 * addresses are connected to. Throws TypeError for invalid options.
 */
export function createSafeFetch<C = unknown> (options: SafeFetchOptions<C>): SafeFetchGlobal<C> {
  const settings = readOptions(options)
  const gate = new Gate(settings.limits.maxConcurrent)

  const perform = async (request: FetchRequest, context: C | undefined): Promise<HostFetchResponse> => {
    return await withDeadline(settings.limits.timeoutMs, request.raw.signal, async (signal) => {
      await gate.enter(signal)
      return await new Call(settings, context, signal).run(request)
    })
  }

  return {
    kind: 'bridge-with-shim',
    handler: async (...args) => await perform(await readArguments(args, settings.limits), undefined),
    shim: SHIM,
    invoke: async (request: HostFetchInit, context?: C) => await perform(readHostRequest(request, settings.limits), context)
  }
}
