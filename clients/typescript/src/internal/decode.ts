// Values on their way in (spec/values.md), from code that may be hostile.
import { classes } from './classes.js'
import { type Form, MalformedValueError, wire } from './values.js'

const { define, has, only, pairs, reject, tags: richTags } = wire

type Tag = (decoder: Decoder, form: Form, path: string, depth: number) => unknown

class Decoder extends wire.Decoder {
  constructor (readonly frame: Incoming) {
    super(frame.attachments, frame.ranges)
  }

  // The array is this process's own, and this takes half the time.
  override append (made: unknown[], _: number, item: unknown): void { made.push(item) }

  override makerOf (name: string): unknown {
    if (name === 'Stream') return this.frame.streamOf
    return has(classes, name) ? classes[name] : super.makerOf(name)
  }
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
const keyText = (key: unknown): string => typeof key === 'string' ? key : JSON.stringify(key) ?? 'null'

/** The same values as JSON has them; each is first looked at as a rich one. */
const jsonTags: Record<string, Tag> = {
  ...richTags,
  number (decoder, form, path, depth) {
    const value = richTags.number(decoder, form, path, depth) as number
    return Number.isFinite(value) ? value : null
  },
  bigint: (decoder, form, path, depth) => Number(richTags.bigint(decoder, form, path, depth)),
  bytes: (decoder, form, path, depth) => base64(richTags.bytes(decoder, form, path, depth) as Uint8Array),
  buffer: (decoder, form, path, depth) => base64(new Uint8Array(richTags.buffer(decoder, form, path, depth) as ArrayBuffer)),
  array (decoder, form, path, depth) {
    const numbers = Array.from(richTags.array(decoder, form, path, depth) as ArrayLike<number | bigint>, Number)
    return numbers.map((value) => Number.isFinite(value) ? value : null)
  },
  // The text says more than a Date holds: a day, microseconds, an offset.
  date (decoder, form, path, depth) {
    richTags.date(decoder, form, path, depth)
    return form.v
  },
  regexp: (decoder, form, path, depth) => String(richTags.regexp(decoder, form, path, depth)),
  set (decoder, form, path, depth) {
    only(path, form, 'v')
    return Array.isArray(form.v) ? decoder.decode(form.v, path, depth - 1) : reject(path, 'expected an array')
  },
  map (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open({}, path, depth)
    pairs(path, form.v).forEach(([key, item]: [unknown, unknown], i: number) => {
      define(made, keyText(decoder.decode(key, `${path}<key ${i}>`, depth)), decoder.decode(item, `${path}<${i}>`, depth))
    })
    return withoutUndefined(made)
  },
  error (decoder, form, path, depth) {
    const error = richTags.error(decoder, form, path, depth) as Error
    return Object.assign({ name: error.name, message: error.message }, error)
  }
}

const withoutUndefined = <T extends object>(made: T): T => {
  for (const [key, item] of Object.entries(made)) if (item === undefined) delete (made as Form)[key]
  return made
}

/** undefined is null in an array and absent in an object, as JSON.stringify has it. */
class JsonDecoder extends Decoder {
  override tags = jsonTags

  override makerOf (name: string): unknown {
    return name === 'Stream' ? super.makerOf(name) : undefined
  }

  override items (made: unknown[], value: unknown[], path: string, depth: number): unknown[] {
    super.items(made, value, path, depth)
    for (let i = 0; i < made.length; i++) if (made[i] === undefined) made[i] = null // holes, too
    return made
  }

  override members<T extends object> (made: T, value: Form, path: string, depth: number): T {
    return withoutUndefined(super.members(made, value, path, depth))
  }

  override pairMembers<T extends object> (made: T, form: Form, path: string, depth: number): T {
    return withoutUndefined(super.pairMembers(made, form, path, depth))
  }
}

/** The attachments of one frame: its values are decoded one by one, and no two may share bytes. */
export class Incoming {
  readonly ranges: Array<[number, number]> = []
  /** The stream of a body that is still being made, by its number; set where such bodies may come. */
  streamOf: ((number: unknown) => unknown) | undefined

  constructor (readonly attachments: Uint8Array) {}

  decode (value: unknown): unknown {
    return new Decoder(this).whole(value)
  }

  /** As JSON.parse gives values: no Map, Set, bigint, typed array or Date. */
  decodeJson (value: unknown): unknown {
    return new JsonDecoder(this).whole(value)
  }
}

const isForm = (value: unknown): value is Form => value !== null && typeof value === 'object' && !Array.isArray(value)

/** An error of evaluated code may have texts that are not Unicode, and fields; those that cannot be made here are left out. */
export function decodeFailure (error: Record<string, unknown>, incoming: Incoming): object {
  const made: Record<string, unknown> = {}
  const { fields, exact, ...texts } = error
  for (const [name, value] of Object.entries(texts)) if (value !== null) made[name] = value
  if (isForm(fields)) made.fields = valueOr({}, fields, incoming)
  if (isForm(exact)) Object.assign(made, valueOr({}, exact, incoming))
  return made
}

function valueOr (otherwise: unknown, value: unknown, incoming: Incoming): unknown {
  try {
    return incoming.decode(value)
  } catch (thrown) {
    if (!(thrown instanceof MalformedValueError)) throw thrown
    return otherwise
  }
}
