// The classes of the Web that cross as what they are (spec/values.md, class): how each is taken apart and made again.

/** A body is read asynchronously: who meets this reads it (`readBody`) and encodes again. */
export class UnreadBody extends Error {
  constructor (readonly carrier: Request | Response) {
    super('the body is not read yet')
  }
}

const bodies = new WeakMap<object, Uint8Array | null>()

/** Node and the box agree on what a message may hold. */
const HEADERS_MAX = 1024
function pairs (headers: Headers): string[][] {
  const all = [...headers].map(([name, value]) => [name, value])
  if (all.length > HEADERS_MAX) throw new TypeError(`headers of more than ${HEADERS_MAX} entries cannot be sent`)
  return all
}

export async function readBody (carrier: Request | Response): Promise<void> {
  bodies.set(carrier, carrier.body === null ? null : new Uint8Array(await carrier.clone().arrayBuffer()))
}

/** A body that was read is gone: what comes of it is a message without one. */
function bodyOf (carrier: Request | Response): Uint8Array | null {
  if (carrier.bodyUsed) return null
  const body = bodies.get(carrier)
  if (body === undefined) throw new UnreadBody(carrier)
  return body
}

interface ClassForm { t: string, v: unknown }

export function classForm (value: object, path: string): ClassForm | undefined {
  if (value instanceof URL) return { t: 'URL', v: value.href }
  if (value instanceof Headers) return { t: 'Headers', v: pairs(value) }
  if (value instanceof Request) {
    const { method, url, redirect } = value
    return { t: 'Request', v: { method, url, headers: pairs(value.headers), body: bodyOf(value), redirect } }
  }
  if (value instanceof Response) {
    const { status, statusText, type } = value
    return { t: 'Response', v: { status, statusText, type: type === 'error' ? type : 'default', headers: pairs(value.headers), body: bodyOf(value) } }
  }
  if (value instanceof Blob || value instanceof ReadableStream || value instanceof FormData) {
    throw new TypeError(`$${path}: ${value.constructor.name} cannot be sent`)
  }
  return undefined
}

const wrong = (name: string): never => { throw new TypeError(`expected what a ${name} is made of`) }

interface Parts { url: string, body?: unknown, [key: string]: unknown }

/** Anything else would be turned into a text, which nobody sent. */
function madeBody (body: unknown = null): Uint8Array<ArrayBuffer> | ReadableStream<Uint8Array> | null {
  return body === null || body instanceof Uint8Array || body instanceof ReadableStream ? body as Uint8Array<ArrayBuffer> | null : wrong('body')
}

export const classes: Record<string, (value: unknown) => unknown> = {
  URL: (text) => new URL(text as string),
  Headers: (list) => new Headers(list as Array<[string, string]>),
  Request: (parts) => {
    const { url, body, ...init } = parts as Parts
    return new Request(url, { ...init, body: madeBody(body), duplex: 'half' } as RequestInit)
  },
  Response: (parts) => {
    const { body, url: _, type, ...init } = parts as Parts
    if (type === 'error') return Response.error()
    return new Response(madeBody(body), init as ResponseInit)
  }
}
