// Values on their way out (spec/values.md): plain JSON with tagged forms, bytes beside it. Without references shared values are
// copied and cycles refused; with them (the rich form) identity is kept, and errors and regular expressions are what they are.
import { types } from 'node:util'
import { classForm } from './classes.js'

export const DEPTH_MAX = 200
export const ATTACHMENTS_MAX = 65536

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json }

/** A value that cannot be sent, named by its path. */
class UnsendableError extends TypeError {
  override readonly name = 'TypeError'
}

/** More bytes than the encoder was allowed. */
export class OversizeError extends RangeError {
  override readonly name = 'RangeError'
}

export const isText = (text: string): boolean => !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?:[^\uD800-\uDBFF]|^)[\uDC00-\uDFFF]/.test(text)
export const step = (key: string): string => /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
export const define = (object: object, key: string, value: unknown): void => {
  // By definition, not assignment: `__proto__` is a key like any other.
  Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })
}
export const notFields = ['__proto__', 'name', 'message', 'stack']

const refuse = (path: string, what: string): never => { throw new UnsendableError(`$${path}: ${what}`) }

const typedTests: Array<[string, (value: unknown) => boolean]> = [
  ['i8', types.isInt8Array], ['u8c', types.isUint8ClampedArray], ['i16', types.isInt16Array], ['u16', types.isUint16Array],
  ['i32', types.isInt32Array], ['u32', types.isUint32Array], ['i64', types.isBigInt64Array], ['u64', types.isBigUint64Array],
  ['f32', types.isFloat32Array], ['f64', types.isFloat64Array]
]

const refusedKinds: Array<[(value: unknown) => boolean, string]> = [
  [types.isPromise, 'promise'], [types.isRegExp, 'regular expression'], [types.isWeakMap, 'weak map'], [types.isWeakSet, 'weak set'],
  [types.isGeneratorObject, 'generator'], [types.isModuleNamespaceObject, 'module'], [types.isExternal, 'external'],
  [types.isMapIterator, 'iterator'], [types.isSetIterator, 'iterator']
]

/** The byte arrays of one frame, in order; each value of the frame adds to the same list. */
export class Attachments {
  readonly parts: Uint8Array[] = []
  size = 0

  add (bytes: Uint8Array): { at: number, n: number } {
    if (this.parts.length === ATTACHMENTS_MAX) throw new OversizeError(`more than ${ATTACHMENTS_MAX} byte arrays in one message`)
    const at = this.size
    this.parts.push(bytes)
    this.size += bytes.length
    return { at, n: bytes.length }
  }
}

/** The memory of a view: its buffer, where it begins there, and its size. */
const rangeOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView): [ArrayBufferLike, number, number] => [buffer, byteOffset, byteLength]

interface Stretch { buffer: ArrayBufferLike, start: number, end: number, count: number, base: number, memory?: ArrayBufferLike }

/**
 * Memory that several parts of a value see. Only their windows are sent: the memory between them in the same buffer may be
 * anything of this process, as in the pool of Node's Buffer.
 */
class Stretches {
  isShared = false
  private readonly buffers = new Map<ArrayBufferLike, Array<{ value: object, start: number, end: number }>>()
  private readonly views = new Map<object, Stretch>()

  note (value: ArrayBufferView | ArrayBufferLike): void {
    const [buffer, start, size] = ArrayBuffer.isView(value) ? rangeOf(value) : [value, 0, Infinity] as const
    const windows = this.buffers.get(buffer) ?? []
    this.isShared ||= windows.some((window) => window.value === value || (start < window.end && window.start < start + size))
    windows.push({ value, start, end: start + size })
    this.buffers.set(buffer, windows)
  }

  join (): void {
    for (const [buffer, windows] of this.buffers) {
      let stretch: Stretch | undefined
      windows.sort((a, b) => a.start - b.start || b.end - a.end)
      for (const { value, start, end } of windows) {
        if (stretch === undefined || start >= stretch.end) stretch = { buffer, start, end, count: 0, base: 0 }
        stretch.end = Math.max(stretch.end, end)
        stretch.count++
        this.views.set(value, stretch)
      }
    }
  }

  of (value: object): Stretch | undefined {
    const stretch = this.views.get(value)
    return stretch !== undefined && stretch.count > 1 ? stretch : undefined
  }

  /** Alignment stays, so that elements of any size find theirs. */
  memoryOf (stretch: Stretch): ArrayBufferLike {
    if (stretch.end === Infinity) return stretch.buffer
    if (stretch.memory === undefined) {
      const { buffer, start, end } = stretch
      stretch.base = start - start % 8
      const bytes = new Uint8Array(end - stretch.base)
      bytes.set(new Uint8Array(buffer, start, end - start), start - stretch.base)
      stretch.memory = bytes.buffer
      this.views.set(stretch.memory, stretch)
    }
    return stretch.memory
  }
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

class Encoder {
  readonly numbers: Map<object, number> | undefined
  readonly open = new Set<object>()
  readonly carriers = new Set<object>()
  size = 0

  readonly limit: number
  readonly errorTexts: ReadonlyArray<'name' | 'message' | 'stack'>
  readonly stretches: Stretches | undefined

  /** joined: what an earlier pass found that is shared. */
  constructor (
    readonly attachments: Attachments, { references = false, limit = Infinity, stacks = false, views = false }: EncodeOptions,
    readonly joined?: Stretches
  ) {
    this.stretches = joined ?? (references && views ? new Stretches() : undefined)
    this.numbers = references ? new Map() : undefined
    this.limit = limit
    this.errorTexts = stacks ? ['name', 'message', 'stack'] : ['name', 'message']
  }

  count (size: number): void {
    this.size += size
    if (this.size > this.limit) throw new OversizeError(`the value is larger than ${this.limit} bytes`)
  }

  attach (form: { [key: string]: Json }, bytes: Uint8Array): Json {
    this.count(bytes.length)
    // A copy: the caller may go on writing to it.
    return Object.assign(form, this.attachments.add(Uint8Array.prototype.slice.call(bytes)))
  }

  /** Half of a surrogate pair has no UTF-8, hence no JSON. */
  text (value: string): Json {
    if (!isText(value)) return this.attach({ $: 'utf16' }, Buffer.from(value, 'utf16le'))
    this.count(value.length)
    return value
  }

  number (value: number): Json {
    if (Number.isNaN(value)) return { $: 'number', v: 'NaN' }
    if (value === Infinity || value === -Infinity) return { $: 'number', v: String(value) }
    if (Object.is(value, -0)) return { $: 'number', v: '-0' }
    // JSON writes these without an exponent, and an integer outside the safe range is a bigint on the wire.
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) return { $: 'bigint', v: String(BigInt(value)) }
    return value
  }

  encode (value: unknown, path: string, depth: number): Json {
    this.count(4)
    switch (typeof value) {
      case 'undefined': return { $: 'undefined' }
      case 'boolean': return value
      case 'string': return this.text(value)
      case 'number': return this.number(value)
      case 'bigint': return { $: 'bigint', v: String(value) }
      case 'symbol': case 'function': return refuse(path, `${typeof value} cannot be sent`)
    }
    if (value === null) return null
    return this.object(value as object, path, depth)
  }

  object (value: object, path: string, depth: number): Json {
    if (types.isProxy(value)) refuse(path, 'proxy cannot be sent')
    if (this.numbers && this.isMemory(value)) return this.container(value, path, depth + 1)
    if (types.isUint8Array(value)) return this.attach({ $: 'bytes' }, value)
    if (types.isAnyArrayBuffer(value)) {
      return this.attach({ $: this.numbers && types.isArrayBuffer(value) ? 'buffer' : 'bytes' }, new Uint8Array(value))
    }
    if (ArrayBuffer.isView(value)) return this.view(value)
    if (types.isDate(value)) return { $: 'date', v: this.date(path, value) }
    if (types.isBoxedPrimitive(value)) return this.encode((value as { valueOf(): unknown }).valueOf(), path, depth)
    if (this.numbers && types.isRegExp(value)) return { $: 'regexp', source: this.text(value.source), flags: value.flags }
    return this.container(value, path, depth + 1)
  }

  private isMemory (value: object): boolean {
    if (!ArrayBuffer.isView(value) && !types.isAnyArrayBuffer(value)) return false
    if (this.joined === undefined) this.stretches?.note(value)
    return types.isDataView(value) || this.joined?.of(value) !== undefined
  }

  /** Encodes memory that several parts of the value see, or that has a class of its own. */
  private memory (value: ArrayBufferView | ArrayBufferLike, path: string, depth: number): Json {
    if (!ArrayBuffer.isView(value)) return { $: 'class', t: 'Buffer', v: this.attach({ $: 'buffer' }, new Uint8Array(value)) }
    const stretch = this.joined?.of(value)
    if (stretch === undefined) return { $: 'class', t: 'DataView', v: this.view(value) }
    const memory = (this.joined as Stretches).memoryOf(stretch)
    const name = types.isDataView(value) ? 'DataView' : types.isUint8Array(value) ? 'Uint8Array' : value.constructor.name
    return { $: 'class', t: 'View', v: this.encode([name, memory, value.byteOffset - stretch.base, value.byteLength], path, depth) }
  }

  view (value: ArrayBufferView): Json {
    const bytes = new Uint8Array(value.buffer, value.byteOffset, value.byteLength)
    const typed = typedTests.find(([, test]) => test(value))
    return this.attach(typed === undefined ? { $: 'bytes' } : { $: 'array', t: typed[0] }, bytes)
  }

  date (path: string, value: Date): string | null {
    if (Number.isNaN(value.getTime())) return null
    const text = value.toISOString()
    return text.length === 24 && text >= '0001' ? text : refuse(path, 'date outside the years 1 to 9999 cannot be sent')
  }

  container (value: object, path: string, depth: number): Json {
    const number = this.numbers?.get(value)
    if (number !== undefined) {
      // Made of what it carries, it is not there yet when that is read.
      if (this.carriers.has(value)) refuse(path, 'cycle through a class cannot be sent')
      return { $: 'ref', n: number }
    }
    if (depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}`)
    if (this.numbers) {
      this.numbers.set(value, this.numbers.size)
      return this.inside(value, path, depth)
    }
    if (this.open.has(value)) refuse(path, 'cycle cannot be sent')
    this.open.add(value)
    const sent = this.inside(value, path, depth)
    this.open.delete(value)
    return sent
  }

  inside (value: object, path: string, depth: number): Json {
    if (ArrayBuffer.isView(value) || types.isAnyArrayBuffer(value)) return this.memory(value, path, depth)
    if (Array.isArray(value)) return this.array(value, path, depth)
    if (types.isSet(value)) return { $: 'set', v: this.array([...value], path, depth) }
    if (types.isMap(value)) {
      return {
        $: 'map',
        v: [...value].map(([key, item], i) => [this.encode(key, `${path}<key ${i}>`, depth), this.encode(item, `${path}<${i}>`, depth)])
      }
    }
    if (types.isNativeError(value)) return this.error(value, path, depth)
    for (const [test, name] of refusedKinds) if (test(value)) refuse(path, `${name} cannot be sent`)
    const carried = this.numbers && classForm(value, path)
    if (carried === undefined) return this.members(value, path, depth)
    this.carriers.add(value)
    const sent = { $: 'class', t: carried.name, v: this.encode(carried.value, path, depth) }
    this.carriers.delete(value)
    return sent
  }

  error (value: Error, path: string, depth: number): Json {
    if (!this.numbers) return this.members(Object.assign({ name: value.name, message: value.message }, value), path, depth)
    const sent: { [key: string]: Json } = { name: 'Error', message: '' }
    for (const name of this.errorTexts) {
      const text = value[name]
      if (typeof text === 'string') sent[name] = this.text(text)
    }
    const keys = Object.keys(value).filter((key) => !notFields.includes(key))
    if (keys.length > 0) sent.fields = this.members(value, path, depth, keys)
    return { $: 'error', v: sent }
  }

  array (value: unknown[], path: string, depth: number): Json[] {
    const sent: Json[] = []
    for (let i = 0; i < value.length; i++) sent.push(this.isHole(value, i) ? this.hole() : this.encode(value[i], `${path}[${i}]`, depth))
    return sent
  }

  private isHole (array: unknown[], i: number): boolean {
    return this.numbers !== undefined && array[i] === undefined && !Object.hasOwn(array, i)
  }

  private hole (): Json {
    this.count(4)
    return { $: 'hole' }
  }

  members (value: object, path: string, depth: number, keys = Object.keys(value)): Json {
    const sent: { [key: string]: Json } = {}
    // A key with NUL no JSON object of the engine can hold.
    const isEscaped = keys.some((key) => key === '$' || key.includes('\0') || !isText(key))
    const pairs: Json[] = []
    for (const key of keys) {
      const name = this.text(key)
      const item = this.encode((value as Record<string, unknown>)[key], path + step(key), depth)
      if (isEscaped) pairs.push([name, item])
      else define(sent, key, item)
    }
    return isEscaped ? { $: 'object', v: pairs } : sent
  }
}

export function encode (value: unknown, attachments: Attachments, options: EncodeOptions = {}): Json {
  const { parts, size } = attachments
  const before = parts.length
  const first = new Encoder(attachments, options)
  const sent = first.encode(value, '', 0)
  if (first.stretches?.isShared !== true) return sent
  parts.length = before
  attachments.size = size
  first.stretches.join()
  return new Encoder(attachments, options, first.stretches).encode(value, '', 0)
}
