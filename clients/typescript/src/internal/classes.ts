// The classes of the Web that cross as what they are (spec/values.md, class): how each is taken apart and made again.

/** A body is read asynchronously: who meets this reads it (`readBody`) and encodes again. */
export class UnreadBody extends Error {
  constructor (readonly carrier: Request | Response) {
    super('the body is not read yet')
  }
}

const bodies = new WeakMap<object, Uint8Array | null>()
const pairs = (headers: Headers): string[][] => [...headers].map(([name, value]) => [name, value])

export async function readBody (carrier: Request | Response): Promise<void> {
  if (carrier.bodyUsed) throw new TypeError('a Request or Response whose body was read cannot be sent')
  bodies.set(carrier, carrier.body === null ? null : new Uint8Array(await carrier.clone().arrayBuffer()))
}

function bodyOf (carrier: Request | Response): Uint8Array | null {
  const body = bodies.get(carrier)
  if (body === undefined) throw new UnreadBody(carrier)
  return body
}

interface ClassForm { name: string, value: unknown }

export function classForm (value: object, path: string): ClassForm | undefined {
  if (value instanceof URL) return { name: 'URL', value: value.href }
  if (value instanceof Headers) return { name: 'Headers', value: pairs(value) }
  if (value instanceof Request) {
    const { method, url, redirect } = value
    return { name: 'Request', value: { method, url, headers: pairs(value.headers), body: bodyOf(value), redirect } }
  }
  if (value instanceof Response) {
    const { status, statusText } = value
    return { name: 'Response', value: { status, statusText, headers: pairs(value.headers), body: bodyOf(value) } }
  }
  if (value instanceof Blob || value instanceof ReadableStream || value instanceof FormData) {
    throw new TypeError(`$${path}: ${value.constructor.name} cannot be sent`)
  }
  return undefined
}

interface Parts { url: string, body?: Uint8Array<ArrayBuffer> | null, [key: string]: unknown }

export const classes: Record<string, (value: unknown) => unknown> = {
  URL: (text) => new URL(text as string),
  Headers: (list) => new Headers(list as Array<[string, string]>),
  Request: (parts) => {
    const { url, body = null, ...init } = parts as Parts
    return new Request(url, { ...init, body })
  },
  Response: (parts) => {
    const { body = null, url: _, ...init } = parts as Parts
    return new Response(body, init as ResponseInit)
  }
}
