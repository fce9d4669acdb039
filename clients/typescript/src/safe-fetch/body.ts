import type { IncomingMessage } from 'node:http'
import type { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createBrotliDecompress, createGunzip, createInflate, createInflateRaw } from 'node:zlib'
import { SafeFetchError, badResponse } from './errors.js'

type Chunks = AsyncIterable<Uint8Array>
type Decode = (source: Chunks) => Chunks

export interface Body {
  bytes: Uint8Array | null
  /** It was compressed. */
  decoded: boolean
}

const tooLarge = (most: number): SafeFetchError =>
  new SafeFetchError('ERR_FETCH_RESPONSE_TOO_LARGE', `the body of the response has more than ${most} bytes (maxBodyBytes)`)

// Both sides of a decoder are counted: a small input may decompress to much, and a large one to nothing.
const counted = (most: number, refusal: (most: number) => Error = tooLarge): Decode => async function * (source) {
  let total = 0
  for await (const chunk of source) {
    total += chunk.length
    if (most > 0 && total > most) throw refusal(most)
    yield chunk
  }
}

const through = (make: () => Transform): Decode => async function * (source) {
  const decoder = make()
  const feeding = pipeline(source, decoder)
  // It is awaited below; until then its failure is known by the decoder's.
  feeding.catch(() => {})
  yield * decoder
  await feeding
}

const DEFLATED = 8
// "deflate" is zlib's format, but some servers send the bare one; the method in the first byte distinguishes them.
const inflate: Decode = async function * (source) {
  const chunks = source[Symbol.asyncIterator]()
  const first = await chunks.next()
  if (first.done === true) return
  const isZlib = ((first.value[0] ?? 0) & 0x0f) === DEFLATED
  const again = async function * (): Chunks {
    yield first.value
    yield * { [Symbol.asyncIterator]: () => chunks }
  }
  yield * through(isZlib ? createInflate : createInflateRaw)(again())
}

const DECODERS: Readonly<Record<string, Decode>> = {
  gzip: through(createGunzip),
  'x-gzip': through(createGunzip),
  deflate: inflate,
  br: through(createBrotliDecompress)
}
export const ACCEPTED = 'gzip, deflate, br'

function decoderOf (response: IncomingMessage, allowed: boolean): Decode | undefined {
  const coding = (response.headers['content-encoding'] ?? 'identity').trim().toLowerCase()
  if (coding === 'identity' || coding === '') return undefined
  if (!allowed) throw badResponse(`the response is compressed (${coding}), which allowCompressedResponses does not allow`)
  const decoder = Object.hasOwn(DECODERS, coding) ? DECODERS[coding] : undefined
  if (decoder === undefined) throw badResponse(`the response is compressed in a way that is not known (${coding})`)
  return decoder
}

async function collect (source: Chunks): Promise<Uint8Array> {
  const chunks: Uint8Array[] = []
  let total = 0
  for await (const chunk of source) {
    chunks.push(chunk)
    total += chunk.length
  }
  // Not Buffer.concat, which may return a view of memory that others use too.
  const all = new Uint8Array(total)
  let at = 0
  for (const chunk of chunks) {
    all.set(chunk, at)
    at += chunk.length
  }
  return all
}

/** All of a source, which is cancelled as soon as it has more than `most` bytes; 0: no bound. */
export const readAll = async (source: Chunks, most: number, refusal: (most: number) => Error): Promise<Uint8Array> => await collect(counted(most, refusal)(source))

const hasNoBody = (method: string, status: number): boolean => method === 'HEAD' || status === 204 || status === 205 || status === 304

/** Reads to the end, or throws as soon as a limit is passed. The caller destroys the response then. */
export async function readResponse (
  response: IncomingMessage, method: string, most: number, allowCompressed: boolean
): Promise<Body> {
  if (hasNoBody(method, response.statusCode ?? 0)) return { bytes: null, decoded: false }
  const announced = Number(response.headers['content-length'] ?? 0)
  if (most > 0 && announced > most) throw tooLarge(most)
  const decoder = decoderOf(response, allowCompressed)
  const raw = counted(most)(response)
  const bytes = await collect(decoder === undefined ? raw : counted(most)(decoder(raw)))
  return { bytes, decoded: decoder !== undefined }
}
