// Contents of files in pieces, if they are too large for one message.
import { randomBytes } from 'node:crypto'
import { posix } from 'node:path'
import type { SandboxHandle } from './native.js'
import { bytesOf, textOf } from './text.js'
import { invalid } from './translate.js'
import type { Abortable, FileContent } from './types.js'

/** Contents up to this size are sent in one message. */
const WHOLE_BYTES = 8 * 2 ** 20
const PIECE_BYTES = 2 ** 20
const WORKSPACE = '/workspace'
const LINKS_MAX = 16

export interface Piece { path: string, content: Uint8Array, offset: number, total: number, mimeType: string }

/** A file piece by piece, on demand; for an empty one, one empty piece. */
export async function * pieces (
  box: SandboxHandle, path: string, { signal }: Abortable, limit = PIECE_BYTES
): AsyncGenerator<Piece, void, undefined> {
  for (let offset = 0; ;) {
    const { content, total, mimeType } = await box.file.read({ path, offset, limit }, { signal })
    const piece = { path, content: bytesOf(content), offset, total, mimeType }
    yield piece
    offset += piece.content.length
    if (piece.content.length === 0 || offset >= total) return
  }
}

/** The bytes of a file as a stream, read on demand. */
export function byteStream (first: Piece, rest: AsyncGenerator<Piece, void, undefined>): ReadableStream<Uint8Array> {
  let next: Piece | undefined = first
  return new ReadableStream<Uint8Array>({
    async pull (controller) {
      const piece = next ?? (await rest.next()).value
      next = undefined
      if (piece === undefined || (piece.content.length === 0 && piece.offset > 0)) controller.close()
      else if (piece.content.length === 0) controller.close()
      else controller.enqueue(piece.content)
    },
    async cancel () {
      await rest.return()
    }
  }, { highWaterMark: 0 })
}

function fromBase64 (text: string, path: string): Uint8Array {
  const bytes = Buffer.from(text, 'base64')
  const plain = (base64: string): string => base64.replace(/[\s=]/g, '')
  if (plain(bytes.toString('base64')) !== plain(text)) throw invalid(`writeFile: the content for ${path} is not base64`, { path })
  return bytes
}

/** The content to write: at once, or a stream. */
export function contentOf (content: FileContent, encoding: string | undefined, path: string): string | Uint8Array | ReadableStream<Uint8Array> {
  if (typeof content === 'string') return encodedText(content, encoding, path)
  if (content instanceof Uint8Array) return content
  if (content instanceof ArrayBuffer) return new Uint8Array(content)
  if (content instanceof Blob) return content.stream() as ReadableStream<Uint8Array>
  if (content instanceof ReadableStream) return content
  throw invalid(`writeFile: the content for ${path} is no text, bytes, Blob or ReadableStream`, { path })
}

function encodedText (content: string, encoding: string = 'utf-8', path: string): string | Uint8Array {
  if (encoding === 'base64') return fromBase64(content, path)
  if (encoding === 'utf-8' || encoding === 'utf8') return content
  throw invalid(`writeFile: encoding is ${JSON.stringify(encoding)}; utf-8, utf8 and base64 are there`, { path })
}

async function * chunksOf (content: Uint8Array | ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array, void, undefined> {
  if (content instanceof Uint8Array) {
    for (let at = 0; at < content.length; at += PIECE_BYTES) yield content.subarray(at, at + PIECE_BYTES)
    return
  }
  const reader = content.getReader()
  let isDone = false
  try {
    for (;;) {
      const { done, value } = await reader.read()
      isDone = done
      if (done) return
      yield* chunksOf(Buffer.from(value))
    }
  } finally {
    if (!isDone) reader.cancel().catch(() => {})
    reader.releaseLock()
  }
}

export interface Target { path: string, mode?: number | undefined, append?: boolean | undefined }

/** Writes a file: a large one beside its target first, so that readers never see half of it. */
export async function write (
  box: SandboxHandle, { path, mode, append }: Target, content: string | Uint8Array | ReadableStream<Uint8Array>, { signal }: Abortable
): Promise<number> {
  const size = typeof content === 'string' ? content.length : content instanceof Uint8Array ? content.length : Infinity
  if (size <= WHOLE_BYTES) {
    return (await box.file.write({ path, content: content as string | Uint8Array, mode, append }, { signal })).bytes
  }
  const chunks = chunksOf(typeof content === 'string' ? Buffer.from(content) : content as Uint8Array | ReadableStream<Uint8Array>)
  if (append === true) return await appendAll(box, path, chunks, signal)
  const place = await placeOf(box, path, signal)
  const beside = `${place.path}.cloche-upload-${randomBytes(6).toString('hex')}`
  try {
    const written = await writeAll(box, beside, mode ?? place.mode, chunks, signal)
    await box.file.move({ from: beside, to: place.path }, { signal })
    return written
  } catch (thrown) {
    await box.file.remove({ path: beside, force: true }).catch(() => {})
    throw thrown
  }
}

// The same target as a write in one piece: through links, and with the mode of an existing file.
async function placeOf (box: SandboxHandle, path: string, signal: AbortSignal | undefined): Promise<{ path: string, mode?: number }> {
  let at = posix.resolve(WORKSPACE, path)
  for (let links = 0; links < LINKS_MAX; links++) {
    if (!(await box.file.exists({ path: at }, { signal })).exists) return { path: at }
    const { type, target, mode } = await box.file.stat({ path: at }, { signal })
    // Write reports the proper error; a move would go into the directory.
    if (type === 'directory') await box.file.write({ path: at, content: '' }, { signal })
    if (type !== 'symlink' || target === undefined) return { path: at, mode }
    at = posix.resolve(posix.dirname(at), textOf(target))
  }
  throw invalid(`writeFile: ${path} is a link to a link, more than ${LINKS_MAX} times`, { path })
}

async function writeAll (
  box: SandboxHandle, path: string, mode: number | undefined, chunks: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined
): Promise<number> {
  await box.file.write({ path, content: '', mode }, { signal })
  let offset = 0
  for await (const content of chunks) {
    await box.file.write({ path, content, offset }, { signal })
    offset += content.length
  }
  return offset
}

async function appendAll (box: SandboxHandle, path: string, chunks: AsyncIterable<Uint8Array>, signal: AbortSignal | undefined): Promise<number> {
  let written = 0
  for await (const content of chunks) {
    await box.file.write({ path, content, append: true }, { signal })
    written += content.length
  }
  return written
}
