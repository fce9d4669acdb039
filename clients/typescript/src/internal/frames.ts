// Frames (spec/values.md), whose form is in wire.cjs.
import { wire } from './values.js'

export const { FRAME_BYTES_MAX } = wire

export interface Frame {
  json: Uint8Array
  attachments: Uint8Array
}

/** The pieces of a frame, to be written in this order. */
export function frameParts (json: Uint8Array, attachments: Uint8Array[]): Uint8Array[] {
  const { head, length } = wire.frameHead(json.length, attachments)
  wire.checkFrame(length, json.length)
  return [head, json, ...attachments]
}

/** Cuts a stream into frames, whatever pieces it comes in. */
export class FrameReader {
  private readonly reader = new wire.FrameReader()

  /** True when a frame is begun and not whole. */
  get isInside (): boolean {
    return this.reader.isInside
  }

  * push (chunk: Uint8Array): Generator<Frame> {
    this.reader.push(chunk)
    for (let frame: Frame | undefined; (frame = this.reader.next()) !== undefined;) yield frame
  }
}
