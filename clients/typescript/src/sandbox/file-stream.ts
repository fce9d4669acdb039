// A file as server-sent events, and back. Text is sent as text, all else as base64.
import { pieces, type Piece } from './content.js'
import type { SandboxHandle } from './native.js'
import { parseSSEStream } from './sse.js'
import { translate } from './translate.js'
import type { Abortable, FileChunk, FileMetadata, FileStreamEvent } from './types.js'

/** A multiple of three: base64 of the pieces is that of the whole. */
const CHUNK_BYTES = 3 * 2 ** 16

const textDecoder = (): { decode (bytes: Uint8Array, isLast: boolean): string } => {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
  return { decode: (bytes, isLast) => decoder.decode(bytes, { stream: !isLast }) }
}

function isText ({ content, total }: Piece): boolean {
  try {
    textDecoder().decode(content, content.length >= total)
    return true
  } catch {
    return false
  }
}

async function * events (
  first: Piece, rest: AsyncIterable<Piece>, isBinary: boolean, options: Abortable
): AsyncGenerator<FileStreamEvent, void, undefined> {
  yield { type: 'metadata', mimeType: first.mimeType, size: first.total, isBinary, encoding: isBinary ? 'base64' : 'utf-8' }
  const decoder = textDecoder()
  let bytesRead = 0
  const chunk = (bytes: Uint8Array, isLast: boolean): string => isBinary ? Buffer.from(bytes).toString('base64') : decoder.decode(bytes, isLast)
  try {
    for await (const { content } of chain(first, rest)) {
      bytesRead += content.length
      const data = chunk(content, false)
      if (data !== '') yield { type: 'chunk', data }
    }
    chunk(new Uint8Array(), true)
    yield { type: 'complete', bytesRead }
  } catch (thrown) {
    if (options.signal?.aborted && thrown === options.signal.reason) throw thrown
    const isNoText = thrown instanceof TypeError && (thrown as { code?: unknown }).code === 'ERR_ENCODING_INVALID_ENCODED_DATA'
    if (isNoText) {
      const error = `${first.path} begins as text and is none at byte ${bytesRead} or before: read it with encoding base64`
      return yield { type: 'error', error }
    }
    const { message, code } = translate('file.read', thrown) as { message: string, code?: string }
    yield { type: 'error', error: message, ...typeof code === 'string' ? { code } : {} }
  }
}

async function * chain (first: Piece, rest: AsyncIterable<Piece>): AsyncGenerator<Piece, void, undefined> {
  yield first
  yield* rest
}

/** An unreadable file throws before the first event. */
export async function readEvents (
  box: SandboxHandle, path: string, encoding: string | undefined, options: Abortable
): Promise<AsyncGenerator<FileStreamEvent, void, undefined>> {
  const rest = pieces(box, path, options, CHUNK_BYTES)
  const { value: first } = await rest.next()
  if (first === undefined) throw new Error(`readFileStream: ${path} has no first piece`)
  return events(first, rest, encoding === 'base64' || !isText(first), options)
}

/** The chunks of a `readFileStream`: text, or bytes if it is no text; the generator returns its metadata. */
export async function * streamFile (stream: ReadableStream<Uint8Array>, signal?: AbortSignal): AsyncGenerator<FileChunk, FileMetadata, undefined> {
  let metadata: FileMetadata | undefined
  for await (const event of parseSSEStream<FileStreamEvent>(stream, signal)) {
    if (event.type === 'metadata') {
      const { type: _, ...rest } = event
      metadata = rest
    } else if (event.type === 'error') throw Object.assign(new Error(event.error), { code: event.code })
    else if (metadata === undefined) throw new Error(`a stream of a file begins with its metadata, not with ${event.type}`)
    else if (event.type === 'complete') return metadata
    else yield metadata.encoding === 'base64' ? new Uint8Array(Buffer.from(event.data, 'base64')) : event.data
  }
  throw new Error('the stream of a file ended before it was complete')
}

/** The whole content of a `readFileStream`. */
export async function collectFile (
  stream: ReadableStream<Uint8Array>, signal?: AbortSignal
): Promise<{ content: string | Uint8Array, metadata: FileMetadata }> {
  const chunks: FileChunk[] = []
  const source = streamFile(stream, signal)
  for (;;) {
    const { done, value } = await source.next()
    if (done !== true) chunks.push(value)
    else if (value.encoding === 'base64') return { content: new Uint8Array(Buffer.concat(chunks as Uint8Array[])), metadata: value }
    else return { content: chunks.join(''), metadata: value }
  }
}
