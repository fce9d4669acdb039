// Values on their way in (spec/values.md). All input is a guest's: each form is checked completely before use.
import { classes as richClasses } from './classes.js'
import { ATTACHMENTS_MAX, DEPTH_MAX, define, isText, notFields, step } from './encode.js'

/** A value that is not as spec/values.md has it, named by its path. The daemon lets no such value pass. */
export class MalformedValueError extends TypeError {
  override readonly name = 'TypeError'
}

/** A value that is as spec/values.md has it, but whose class takes no such content: a forged Request, say. The content is the guest's. */
export class UnmakeableValueError extends MalformedValueError {}

type Form = Record<string, unknown>

const has = (object: unknown, key: unknown): boolean => typeof key === 'string' && Object.prototype.hasOwnProperty.call(object, key)
const refuse = (path: string, what: string): never => { throw new MalformedValueError(`$${path}: ${what}`) }

function attempt<T> (path: string, make: () => T): T {
  try {
    return make()
  } catch (thrown) {
    throw new UnmakeableValueError(`$${path}: ${(thrown as Error).message}`)
  }
}

function only (path: string, form: Form, ...keys: string[]): void {
  for (const key of keys) if (!has(form, key)) refuse(path, `"${String(form.$)}" lacks "${key}"`)
  if (Object.keys(form).length !== keys.length + 1) refuse(path, `"${String(form.$)}" has an unknown key`)
}

function pairsOf (path: string, v: unknown): Array<[unknown, unknown]> {
  if (!Array.isArray(v) || v.some((pair) => !Array.isArray(pair) || pair.length !== 2)) refuse(path, 'expected an array of pairs')
  return v as Array<[unknown, unknown]>
}

const DATE = /^(\d{4})-(\d\d)-(\d\d)(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$/
function parseDate (path: string, v: unknown): Date {
  if (v === null) return new Date(NaN)
  const parts = typeof v === 'string' ? DATE.exec(v) : null
  // Date.parse takes February 30th for March 2nd.
  if (!parts || new Date(`${parts[1]}-${parts[2]}-${parts[3]}T00:00:00Z`).getUTCDate() !== Number(parts[3])) {
    return refuse(path, 'expected an RFC 3339 date')
  }
  // A time without offset is the box's, which is UTC.
  return new Date(parts[4] !== undefined && parts[7] === undefined ? `${parts[0]}Z` : parts[0])
}

const errorClasses: Record<string, new (message: string) => Error> = { Error, TypeError, RangeError, ReferenceError, SyntaxError, EvalError, URIError }
const hide = (object: object, key: string, value: unknown): void => {
  Object.defineProperty(object, key, { value, writable: true, enumerable: false, configurable: true })
}

/** The built-in class of that name, else Error with the name. Without a stack of the guest's it has none of ours either. */
export function makeError (name: string, message: string, stack = `${name}: ${message}`): Error {
  const Known = has(errorClasses, name) ? errorClasses[name] : undefined
  const made = name === 'AggregateError' ? new AggregateError([], message) : new (Known ?? Error)(message)
  if (made.name !== name) hide(made, 'name', name)
  hide(made, 'stack', stack)
  return made
}

export function addFields (error: Error, fields: object): Error {
  for (const [key, value] of Object.entries(fields)) if (!notFields.includes(key)) define(error, key, value)
  return error
}

type TypedClass = { new (buffer: ArrayBuffer): unknown, BYTES_PER_ELEMENT: number }
const typedClasses: Record<string, TypedClass> = {
  i8: Int8Array, u8: Uint8Array, u8c: Uint8ClampedArray, i16: Int16Array, u16: Uint16Array, i32: Int32Array, u32: Uint32Array,
  i64: BigInt64Array, u64: BigUint64Array, f32: Float32Array, f64: Float64Array
}

const OPEN = {} // the place of a class whose inside is being read

type Tags = Record<string, (decoder: Decoder, form: Form, path: string, depth: number) => unknown>

class Decoder {
  readonly opened: unknown[] = []

  constructor (readonly frame: Incoming, private readonly tags = richTags, readonly classes = richClasses) {}

  open<T> (made: T, path: string, depth: number): T {
    if (depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}`)
    this.opened.push(made)
    return made
  }

  decode (value: unknown, path: string, depth: number): unknown {
    if (typeof value === 'string' && !isText(value)) refuse(path, 'string with a lone surrogate')
    if (value === null || typeof value !== 'object') return value
    depth++
    if (Array.isArray(value)) return this.items(this.open<unknown[]>([], path, depth), value, path, depth)
    const form = value as Form
    if (!has(form, '$')) return this.members(this.open({}, path, depth), form, path, depth)
    const tag = has(this.tags, form.$) ? this.tags[form.$ as string] : undefined
    return tag === undefined ? refuse(path, `unknown tag ${JSON.stringify(form.$)}`) : tag(this, form, path, depth)
  }

  items (made: unknown[], value: unknown[], path: string, depth: number): unknown[] {
    for (let i = 0; i < value.length; i++) {
      if (isHole(value[i])) made.length = i + 1
      else made.push(this.decode(value[i], `${path}[${i}]`, depth))
    }
    return made
  }

  /** A string in either form; undefined for anything else. */
  text (path: string, value: unknown): string | undefined {
    if (typeof value === 'string') return this.key(path, value)
    return has(Object(value), '$') && (value as Form).$ === 'utf16' ? utf16(this.frame, value as Form, path) : undefined
  }

  key (path: string, key: string): string {
    return isText(key) ? key : refuse(path, 'key with a lone surrogate')
  }

  members<T extends object> (made: T, value: Form, path: string, depth: number): T {
    for (const key of Object.keys(value)) define(made, this.key(path, key), this.decode(value[key], path + step(key), depth))
    return made
  }

  pairMembers<T extends object> (made: T, form: Form, path: string, depth: number): T {
    only(path, form, 'v')
    for (const [name, item] of pairsOf(path, form.v)) {
      const key = this.text(path, name)
      if (key === undefined || has(made, key)) return refuse(path, 'keys must be strings, each once')
      define(made, key, this.decode(item, path + step(key), depth))
    }
    return made
  }
}

const isHole = (value: unknown): boolean =>
  value !== null && typeof value === 'object' && (value as Form).$ === 'hole' && Object.keys(value).length === 1

function utf16 (frame: Incoming, form: Form, path: string): string {
  only(path, form, 'at', 'n')
  const bytes = frame.bytes(path, form)
  return bytes.length % 2 ? refuse(path, 'no whole number of units') : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('utf16le')
}

const richTags: Tags = {
  undefined (_, form, path) { only(path, form) },
  hole (_, form, path) { only(path, form) },
  utf16: ({ frame }, form, path) => utf16(frame, form, path),
  number (_, form, path) {
    only(path, form, 'v')
    const known: Record<string, number> = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 }
    return has(known, form.v) ? known[form.v as string] : refuse(path, 'unknown number')
  },
  bigint (_, form, path) {
    only(path, form, 'v')
    return typeof form.v === 'string' && /^-?(0|[1-9]\d*)$/.test(form.v) ? BigInt(form.v) : refuse(path, 'expected decimal digits')
  },
  bytes ({ frame }, form, path) {
    only(path, form, 'at', 'n')
    return frame.bytes(path, form)
  },
  buffer ({ frame }, form, path) {
    only(path, form, 'at', 'n')
    return frame.bytes(path, form).buffer
  },
  array ({ frame }, form, path) {
    only(path, form, 't', 'at', 'n')
    const Typed = has(typedClasses, form.t) ? typedClasses[form.t as string] : undefined
    if (Typed === undefined) return refuse(path, 'unknown element type')
    const bytes = frame.bytes(path, form)
    return bytes.length % Typed.BYTES_PER_ELEMENT ? refuse(path, 'no whole number of elements') : new Typed(bytes.buffer as ArrayBuffer)
  },
  date (_, form, path) {
    only(path, form, 'v')
    return parseDate(path, form.v)
  },
  regexp (_, { source, flags, ...rest }, path) {
    only(path, rest)
    if (typeof source !== 'string' || !isText(source) || typeof flags !== 'string') return refuse(path, 'expected source and flags')
    return attempt(path, () => new RegExp(source, flags))
  },
  ref (decoder, form, path) {
    only(path, form, 'n')
    // Not by has(): 1.5 and "0" are no numbers of containers.
    const found = Number.isSafeInteger(form.n) ? decoder.opened[form.n as number] : undefined
    return found === undefined || found === OPEN ? refuse(path, 'reference to what is not opened before it') : found
  },
  set (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open(new Set<unknown>(), path, depth)
    if (!Array.isArray(form.v)) return refuse(path, 'expected an array')
    form.v.forEach((item, i) => made.add(decoder.decode(item, `${path}[${i}]`, depth)))
    return made
  },
  map (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open(new Map<unknown, unknown>(), path, depth)
    pairsOf(path, form.v).forEach(([key, item], i) => {
      const decoded = decoder.decode(key, `${path}<key ${i}>`, depth)
      if (made.has(decoded)) refuse(`${path}<key ${i}>`, 'this key is there twice')
      made.set(decoded, decoder.decode(item, `${path}<${i}>`, depth))
    })
    return made
  },
  object (decoder, form, path, depth) {
    return decoder.pairMembers(decoder.open({}, path, depth), form, path, depth)
  },
  error (decoder, form, path, depth) {
    only(path, form, 'v')
    const { name, message, stack, fields, ...rest } = Object(form.v) as Form
    const texts = [name, message, ...has(Object(form.v), 'stack') ? [stack] : []].map((text) => decoder.text(path, text))
    if (texts.includes(undefined) || Object.keys(rest).length > 0) refuse(path, 'expected an error')
    const made = decoder.open(makeError(...texts as [string, string, string?]), path, depth)
    if (!has(form.v, 'fields')) return made
    if (fields === null || typeof fields !== 'object' || Array.isArray(fields) || (has(fields, '$') && (fields as Form).$ !== 'object')) {
      return refuse(path, 'expected fields')
    }
    const own = Object.create(null) as object
    return addFields(made, has(fields, '$') ? decoder.pairMembers(own, fields as Form, path, depth) : decoder.members(own, fields as Form, path, depth))
  },
  class (decoder, form, path, depth) {
    only(path, form, 't', 'v')
    const name = form.t
    if (typeof name !== 'string' || !/^[A-Za-z]{1,64}$/.test(name)) return refuse(path, 'a class has a name of 1 to 64 letters')
    decoder.open(OPEN, path, depth)
    const number = decoder.opened.length - 1
    const carried = decoder.decode(form.v, path, depth)
    const make = name === 'Stream' ? decoder.frame.streamOf : has(decoder.classes, name) ? decoder.classes[name] : undefined
    decoder.opened[number] = make === undefined ? carried : attempt(path, () => make(carried))
    return decoder.opened[number]
  }
}

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
const keyText = (key: unknown): string => typeof key === 'string' ? key : JSON.stringify(key) ?? 'null'

/** The same values as JSON has them; each is first looked at as a rich one. */
const jsonTags: Tags = {
  ...richTags,
  number (decoder, form, path, depth) {
    const value = richTags.number?.(decoder, form, path, depth) as number
    return Number.isFinite(value) ? value : null
  },
  bigint: (decoder, form, path, depth) => Number(richTags.bigint?.(decoder, form, path, depth)),
  bytes: (decoder, form, path, depth) => base64(richTags.bytes?.(decoder, form, path, depth) as Uint8Array),
  buffer: (decoder, form, path, depth) => base64(new Uint8Array(richTags.buffer?.(decoder, form, path, depth) as ArrayBuffer)),
  array (decoder, form, path, depth) {
    const numbers = Array.from(richTags.array?.(decoder, form, path, depth) as ArrayLike<number | bigint>, Number)
    return numbers.map((value) => Number.isFinite(value) ? value : null)
  },
  // The text says more than a Date holds: a day, microseconds, an offset.
  date (decoder, form, path, depth) {
    richTags.date?.(decoder, form, path, depth)
    return form.v
  },
  regexp: (decoder, form, path, depth) => String(richTags.regexp?.(decoder, form, path, depth)),
  set (decoder, form, path, depth) {
    only(path, form, 'v')
    return Array.isArray(form.v) ? decoder.decode(form.v, path, depth - 1) : refuse(path, 'expected an array')
  },
  map (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open({}, path, depth)
    pairsOf(path, form.v).forEach(([key, item], i) => {
      define(made, keyText(decoder.decode(key, `${path}<key ${i}>`, depth)), decoder.decode(item, `${path}<${i}>`, depth))
    })
    return withoutUndefined(made)
  },
  error (decoder, form, path, depth) {
    const error = richTags.error?.(decoder, form, path, depth) as Error
    return Object.assign({ name: error.name, message: error.message }, error)
  }
}

const withoutUndefined = <T extends object>(made: T): T => {
  for (const [key, item] of Object.entries(made)) if (item === undefined) delete (made as Form)[key]
  return made
}

/** undefined is null in an array and absent in an object, as JSON.stringify has it. */
class JsonDecoder extends Decoder {
  constructor (frame: Incoming) {
    super(frame, jsonTags, {})
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

  bytes (path: string, { at, n }: Form): Uint8Array {
    if (!Number.isSafeInteger(at) || !Number.isSafeInteger(n)) return refuse(path, 'range is outside the attachments')
    const [start, size] = [at as number, n as number]
    if (start < 0 || size < 0 || start + size > this.attachments.length) return refuse(path, 'range is outside the attachments')
    if (this.ranges.length === ATTACHMENTS_MAX) return refuse(path, `more than ${ATTACHMENTS_MAX} attachments`)
    this.ranges.push([start, size])
    return new Uint8Array(this.attachments.subarray(start, start + size))
  }

  decode (value: unknown): unknown {
    return this.checked(new Decoder(this).decode(value, '', 0))
  }

  /** As JSON.parse gives values: no Map, Set, bigint, typed array or Date. */
  decodeJson (value: unknown): unknown {
    return this.checked(new JsonDecoder(this).decode(value, '', 0))
  }

  private checked (made: unknown): unknown {
    this.checkRanges()
    return made
  }

  // An empty range shares nothing, wherever it is.
  private checkRanges (): void {
    let end = 0
    for (const [at, n] of this.ranges.filter(([, n]) => n > 0).sort(([a], [b]) => a - b)) {
      if (at < end) refuse('', 'two values share bytes of the attachments')
      end = at + n
    }
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
