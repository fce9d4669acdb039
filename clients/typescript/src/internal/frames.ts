// Frames (spec/values.md): u32 length, u32 JSON length, JSON, attachments; little endian, length counts all behind itself.
import { ProtocolError, TooLargeError } from '../generated/errors.js'

export const FRAME_BYTES_MAX = 2 ** 30
export const JSON_BYTES_MAX = 2 ** 28
const HEAD = 8

export interface Frame {
  json: Uint8Array
  attachments: Uint8Array
}

/** The pieces of a frame, to be written in this order. */
export function frameParts (json: Uint8Array, attachments: Uint8Array[]): Uint8Array[] {
  let length = 4 + json.length
  for (const part of attachments) length += part.length
  if (length > FRAME_BYTES_MAX) throw new TooLargeError(`a message of ${length} bytes; at most ${FRAME_BYTES_MAX} fit a frame`)
  if (json.length > JSON_BYTES_MAX) {
    throw new TooLargeError(`a message with ${json.length} bytes of JSON; at most ${JSON_BYTES_MAX} fit a frame`)
  }
  const head = Buffer.allocUnsafe(HEAD)
  head.writeUInt32LE(length, 0)
  head.writeUInt32LE(json.length, 4)
  return [head, json, ...attachments]
}

/** Cuts a stream into frames, whatever pieces it comes in. */
export class FrameReader {
  private chunks: Uint8Array[] = []
  private size = 0
  private head: { rest: number, json: number } | undefined

  /** True when a frame is begun and not whole. */
  get isInside (): boolean {
    return this.head !== undefined || this.size > 0
  }

  * push (chunk: Uint8Array): Generator<Frame> {
    this.chunks.push(chunk)
    this.size += chunk.length
    for (;;) {
      this.head ??= this.readHead()
      if (this.head === undefined || this.size < this.head.rest) return
      const { rest, json } = this.head
      const body = this.take(rest)
      this.head = undefined
      yield { json: body.subarray(0, json), attachments: body.subarray(json) }
    }
  }

  // An impossible length is reported before its bytes have arrived.
  private readHead (): { rest: number, json: number } | undefined {
    if (this.size < 4) return undefined
    const length = this.peek(0)
    if (length > FRAME_BYTES_MAX) throw new TooLargeError(`a frame of ${length} bytes came; at most ${FRAME_BYTES_MAX} are taken`)
    if (length < 4) throw new ProtocolError(`a frame of ${length} bytes came, which cannot hold its head`)
    if (this.size < HEAD) return undefined
    const json = this.peek(4)
    if (json > length - 4) throw new ProtocolError(`a frame of ${length} bytes came that claims ${json} bytes of JSON`)
    if (json > JSON_BYTES_MAX) throw new TooLargeError(`a frame with ${json} bytes of JSON came; at most ${JSON_BYTES_MAX} are taken`)
    this.take(HEAD)
    return { rest: length - 4, json }
  }

  private peek (offset: number): number {
    const [first] = this.chunks
    if (first !== undefined && first.length < offset + 4) this.chunks = [Buffer.concat(this.chunks)]
    const bytes = this.chunks[0] as Uint8Array
    return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(offset, true)
  }

  private take (wanted: number): Uint8Array {
    const first = this.chunks[0]
    this.size -= wanted
    if (first !== undefined && first.length > wanted) {
      this.chunks[0] = first.subarray(wanted)
      return first.subarray(0, wanted)
    }
    if (first?.length === wanted) {
      this.chunks.shift()
      return first
    }
    return this.gather(wanted)
  }

  private gather (wanted: number): Uint8Array {
    const bytes = new Uint8Array(wanted)
    let at = 0
    let used = 0
    while (at < wanted) {
      const chunk = this.chunks[used] as Uint8Array
      const part = chunk.subarray(0, wanted - at)
      bytes.set(part, at)
      at += part.length
      if (part.length === chunk.length) used++
      else this.chunks[used] = chunk.subarray(part.length)
    }
    this.chunks.splice(0, used)
    return bytes
  }
}
