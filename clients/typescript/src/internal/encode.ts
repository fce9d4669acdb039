// Values on their way out (spec/values.md): plain JSON with tagged forms, bytes beside it. Without references shared values are
// copied and cycles refused; with them (the rich form) identity is kept, and errors and regular expressions are what they are.
import { classForm } from './classes.js'
import { type Json, wire } from './values.js'

/** The byte arrays of one frame, in order; each value of the frame adds to the same list. */
export class Attachments extends wire.Attachments {
  declare readonly parts: Uint8Array[]
}

export interface EncodeOptions {
  references?: boolean
  /** The most bytes, roughly those on the wire. */
  limit?: number
  /** Views of one buffer stay that; else each has memory of its own, as languages other than JavaScript take it. */
  views?: boolean
  /** Errors with their stacks; by default these stay here: where the host's code lies is no affair of a guest's. */
  stacks?: boolean
}

const refusedKinds = [
  ...wire.refusedKinds, ['isGeneratorObject', 'generator', 'pass an array of its items'], ['isMapIterator', 'iterator', 'pass an array of its items'],
  ['isSetIterator', 'iterator', 'pass an array of its items']
]

class Encoder extends wire.Encoder {
  override refusedKinds (): string[][] { return refusedKinds }
  override classOf (value: object, path: string): unknown { return classForm(value, path) }

  override regexp (path: string, value: RegExp): Json {
    return this.numbers === undefined ? wire.refuse(path, 'regular expression cannot be sent: pass its source') : super.regexp(path, value) as Json
  }
}

export function encode (value: unknown, attachments: Attachments, options: EncodeOptions = {}): Json {
  return wire.encodeWith(Encoder, value, { views: false, stacks: false, ...options, attachments }) as Json
}
