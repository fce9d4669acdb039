import type { FetchRequest } from './request.js'
import type { FetchContext, FetchContextReq, FetchMiddleware, MiddlewareResponse } from './types.js'
import { readHeaders, recordOf } from './headers.js'
import { bytesOf } from './request.js'
import { readResponseOf } from './response.js'
import { parseUrl } from './url.js'

/** The request that middleware changes: the request of one hop. */
export class RequestView implements FetchContextReq {
  readonly method: string
  readonly raw: FetchRequest['raw']
  headers: Record<string, string>
  body: Uint8Array | string | null
  #url: URL

  constructor (request: FetchRequest, readonly params: Record<string, string>, readonly hop: number) {
    this.method = request.method
    this.raw = request.raw
    this.headers = recordOf(request.headers)
    this.body = request.body
    this.#url = request.url
  }

  get url (): string { return this.#url.href }
  /** Never changed in place: another object is another URL. */
  get target (): URL { return this.#url }

  // Functions of their own, for `const { setBody } = ctx.req`.
  readonly header = (name: string, value: string): void => {
    const [[checkedName = '', text = ''] = []] = readHeaders([[name, value]], 'ctx.req.header')
    this.headers[checkedName] = text
  }

  readonly setUrl = (url: string): void => {
    if (typeof url !== 'string') throw new TypeError('ctx.req.setUrl: the URL must be a string')
    this.#url = parseUrl(url, this.#url)
  }

  readonly setBody = (body: Uint8Array | string | null): void => { this.body = bytesOf(body) }
}

/** Runs each middleware around the later ones, and `send` innermost. */
export async function runMiddleware<C> (
  all: ReadonlyArray<FetchMiddleware<C>>, view: RequestView, context: C | undefined, send: () => Promise<MiddlewareResponse>
): Promise<MiddlewareResponse> {
  const ctx: FetchContext<C> = { req: view, res: null, context }

  const keep = (response: MiddlewareResponse): MiddlewareResponse => {
    ctx.res = response
    return response
  }

  const run = async (i: number): Promise<MiddlewareResponse> => {
    const middleware = all[i]
    if (middleware === undefined) return keep(await send())
    const returned = await middleware(ctx, () => next(i + 1))
    if (returned === undefined && ctx.res === null) throw new TypeError('a middleware neither returned a response nor called next()')
    return keep(readResponseOf(returned === undefined ? ctx.res : returned))
  }

  // A middleware that does not await next() must not crash the process if that fails.
  const next = (i: number): Promise<MiddlewareResponse> => {
    const response = run(i)
    response.catch(() => {})
    return response
  }

  return await run(0)
}
