// Values on their way out (spec/values.md): plain JSON with tagged forms, bytes beside it. Without references shared
// values are copied and cycles refused; with them (the rich form) identity is kept, and errors and regular expressions
// keep their kind.
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

const wayOut = 'pass an array of its items'
const refusedKinds = [
  ...wire.refusedKinds, ['isGeneratorObject', 'generator', wayOut], ['isMapIterator', 'iterator', wayOut],
  ['isSetIterator', 'iterator', wayOut]
]

class Encoder extends wire.Encoder {
  override refusedKinds (): string[][] { return refusedKinds }
  override classOf (value: object, path: string): unknown { return classForm(value, path) }

  override regexp (path: string, value: RegExp): Json {
    if (this.numbers === undefined) wire.refuse(path, 'regular expression cannot be sent: pass its source')
    return super.regexp(path, value) as Json
  }
}

export function encode (value: unknown, attachments: Attachments, options: EncodeOptions = {}): Json {
  return wire.encodeWith(Encoder, value, { views: false, stacks: false, ...options, attachments }) as Json
}
