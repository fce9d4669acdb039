// Values both ways (spec/values.md). A function of `host`, run in the agent's own realm; what it decodes is made of the main
// realm's classes, what it encodes is looked at with its own, untouched ones. Of `host` may be missing: `RegExp` and the classes
// of errors (what needs them is refused, or an Error), `classes` and `encodeClass` (spec/values.md, class).
'use strict'
const DEPTH_MAX = 200
const ATTACHMENTS_MAX = 65536
const { types } = host
// A key that is no string would be turned into one: ["set"] is not the tag "set".
const has = (object, key) => typeof key === 'string' && Object.prototype.hasOwnProperty.call(object, key)
const refuse = (path, what) => { throw new host.TypeError(`$${shortened(path)}: ${what}`) }
// Both ends of a long path name the place well enough.
const PATH_ENDS = 100
const shortened = (path) => path.length > 2 * PATH_ENDS ? `${path.slice(0, PATH_ENDS)}…${path.slice(-PATH_ENDS)}` : path
function attempt (path, make) {
  try {
    return make()
  } catch (thrown) {
    return refuse(path, thrown?.message)
  }
}
const step = (key) => /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
const isText = (text) => !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?:[^\uD800-\uDBFF]|^)[\uDC00-\uDFFF]/.test(text)
const define = (object, key, value) => Object.defineProperty(object, key, { value, writable: true, enumerable: true, configurable: true })

// -- out

const typedName = (value) => {
  for (const name in host.typed) if (types[`is${typedClass[name]}`](value)) return name
}
const typedClass = {
  i8: 'Int8Array', u8: 'Uint8Array', u8c: 'Uint8ClampedArray', i16: 'Int16Array', u16: 'Uint16Array', i32: 'Int32Array',
  u32: 'Uint32Array', i64: 'BigInt64Array', u64: 'BigUint64Array', f32: 'Float32Array', f64: 'Float64Array'
}
const typedProto = Object.getPrototypeOf(Uint8Array.prototype)
const getter = (proto, name) => {
  const { get } = Object.getOwnPropertyDescriptor(proto, name)
  return (value) => get.call(value)
}
const bufferOf = getter(typedProto, 'buffer')
const offsetOf = getter(typedProto, 'byteOffset')
const lengthOf = getter(typedProto, 'byteLength')
const viewBuffer = getter(DataView.prototype, 'buffer')
const viewOffset = getter(DataView.prototype, 'byteOffset')
const viewLength = getter(DataView.prototype, 'byteLength')
const sourceOf = getter(RegExp.prototype, 'source')
// `flags` itself would ask properties that user code may have put on the value.
const flagGetters = {
  d: 'hasIndices', g: 'global', i: 'ignoreCase', m: 'multiline', s: 'dotAll', u: 'unicode', v: 'unicodeSets', y: 'sticky'
}
for (const flag in flagGetters) {
  const known = flagGetters[flag] in RegExp.prototype
  flagGetters[flag] = known ? getter(RegExp.prototype, flagGetters[flag]) : () => false
}

function bytesOf (value) {
  if (types.isAnyArrayBuffer(value)) return new Uint8Array(value)
  if (types.isDataView(value)) return new Uint8Array(viewBuffer(value), viewOffset(value), viewLength(value))
  return new Uint8Array(bufferOf(value), offsetOf(value), lengthOf(value))
}

const isView = (value) => types.isTypedArray(value) || types.isDataView(value)
const rangeOf = (value) => types.isDataView(value) ? [viewBuffer(value), viewOffset(value), viewLength(value)] : [bufferOf(value), offsetOf(value), lengthOf(value)]

// The memory of views that others of the value see too: {bytes, start} by view, `bytes` an ArrayBuffer of its own for each stretch that
// windows cover together; or the whole of a buffer that is in the value itself.
class Stretches {
  constructor () {
    this.buffers = new Map()
    this.views = new Map()
    this.isShared = false
  }

  note (value) {
    const [buffer, start, size] = isView(value) ? rangeOf(value) : [value, 0, Infinity]
    const windows = this.buffers.get(buffer) ?? []
    this.isShared ||= windows.some((window) => window.value === value || (start < window.end && window.start < start + size))
    windows.push({ value, start, end: start + size })
    this.buffers.set(buffer, windows)
  }

  // Alignment stays, so that elements of any size find theirs.
  join () {
    for (const [buffer, windows] of this.buffers) {
      let stretch
      windows.sort((a, b) => a.start - b.start || b.end - a.end)
      for (const { value, start, end } of windows) {
        if (stretch === undefined || start >= stretch.end) stretch = { buffer, start, end, count: 0 }
        stretch.end = Math.max(stretch.end, end)
        stretch.count++
        this.views.set(value, stretch)
      }
    }
  }

  // Undefined: nothing else sees it.
  of (value) {
    const stretch = this.views.get(value)
    return stretch?.count > 1 ? stretch : undefined
  }

  memoryOf (stretch) {
    if (stretch.end === Infinity) return stretch.buffer
    if (stretch.memory === undefined) {
      stretch.base = stretch.start - stretch.start % 8
      const bytes = new Uint8Array(stretch.end - stretch.base)
      bytes.set(new Uint8Array(stretch.buffer, stretch.start, stretch.end - stretch.start), stretch.start - stretch.base)
      stretch.memory = bytes.buffer
    }
    return stretch.memory
  }
}

class Encoder {
  // With references (the rich mode): a container is sent once, and errors, regular expressions and classes as what they are.
  constructor (limit, references, stretches) {
    this.limit = limit
    this.numbers = references ? new Map() : undefined
    this.stretches = stretches ?? new Stretches()
    this.isJoined = stretches !== undefined
    this.carriers = new Set()
    this.size = 0
    this.at = 0
    this.attachments = []
    this.open = new Set()
    this.key = '' // of the value that is being read, for toJSON
  }

  count (size) {
    this.size += size
    if (this.size > this.limit) throw new host.RangeError(`the result is larger than ${this.limit} bytes`)
  }

  attach (path, form, value) {
    // A copy: memory shared with a worker may still change.
    return this.attachBytes(path, form, bytesOf(value).slice())
  }

  attachBytes (path, form, bytes) {
    if (this.attachments.length === ATTACHMENTS_MAX) refuse(path, `more than ${ATTACHMENTS_MAX} byte arrays: join them, or write them to a file`)
    this.count(bytes.length)
    form.at = this.at
    form.n = bytes.length
    this.at += bytes.length
    this.attachments.push(bytes)
    return form
  }

  string (path, value) {
    if (!isText(value)) return this.utf16(path, value)
    this.count(value.length)
    return value
  }

  // Half of a surrogate pair has no UTF-8, hence no JSON.
  utf16 (path, value) {
    const bytes = new Uint8Array(2 * value.length)
    for (let i = 0; i < value.length; i++) {
      const unit = value.charCodeAt(i)
      bytes[2 * i] = unit & 255
      bytes[2 * i + 1] = unit >> 8
    }
    return this.attachBytes(path, { $: 'utf16' }, bytes)
  }

  number (value) {
    if (value !== value) return { $: 'number', v: 'NaN' }
    if (value === Infinity || value === -Infinity) return { $: 'number', v: `${value}` }
    if (Object.is(value, -0)) return { $: 'number', v: '-0' }
    // JSON writes these without an exponent, and an integer outside the safe range is a bigint on the wire.
    if (Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21) return { $: 'bigint', v: `${BigInt(value)}` }
    return value
  }

  encode (value, path, depth) {
    this.count(4)
    switch (typeof value) {
      case 'undefined': return { $: 'undefined' }
      case 'boolean': return value
      case 'string': return this.string(path, value)
      case 'number': return this.number(value)
      case 'bigint': return { $: 'bigint', v: `${value}` }
      case 'symbol': return refuse(path, 'symbol cannot be sent: return its description')
      case 'function': return refuse(path, 'function cannot be sent: call it and return what it gives, or leave it out')
    }
    if (value === null) return null
    // A proxy is read through its traps, as JSON.stringify does; the rich mode copies, and what a trap answers is no copy.
    if (types.isProxy(value) && this.numbers) refuse(path, 'proxy cannot be sent: return a copy ({ ...it })')
    if (this.numbers && (isView(value) || types.isArrayBuffer(value))) return this.memory(value, path, depth)
    if (types.isUint8Array(value) || types.isAnyArrayBuffer(value) || types.isDataView(value)) return this.attach(path, { $: 'bytes' }, value)
    if (types.isTypedArray(value)) return this.attach(path, { $: 'array', t: typedName(value) }, value)
    if (types.isDate(value)) return { $: 'date', v: Number.isNaN(Date.prototype.getTime.call(value)) ? null : this.date(path, value) }
    if (types.isBoxedPrimitive(value)) return this.encode(this.unbox(value), path, depth)
    if (types.isRegExp(value)) return this.regexp(path, value)
    return this.container(value, path, depth + 1)
  }

  memory (value, path, depth) {
    if (!this.isJoined) this.stretches.note(value)
    if (types.isDataView(value) || this.stretches.of(value) !== undefined) return this.container(value, path, depth + 1)
    if (types.isArrayBuffer(value)) return this.attach(path, { $: 'buffer' }, value)
    return this.attach(path, types.isUint8Array(value) ? { $: 'bytes' } : { $: 'array', t: typedName(value) }, value)
  }

  // The memory is seen by several parts of the value, or has a class of its own.
  sharedMemory (value, path, depth) {
    const stretch = this.stretches.of(value)
    if (!isView(value)) return { $: 'class', t: 'Buffer', v: this.attach(path, { $: 'buffer' }, value) }
    if (stretch === undefined) return { $: 'class', t: 'DataView', v: this.attach(path, { $: 'bytes' }, value) }
    const memory = this.stretches.memoryOf(stretch)
    const [, start, size] = rangeOf(value)
    const name = types.isDataView(value) ? 'DataView' : typedClass[types.isUint8Array(value) ? 'u8' : typedName(value)]
    this.stretches.views.set(memory, stretch)
    return this.carry({ t: 'View', v: [name, memory, start - (stretch.base ?? 0), size] }, value, path, depth)
  }

  date (path, value) {
    const text = Date.prototype.toISOString.call(value)
    return text.length === 24 && text >= '0001' ? text : refuse(path, 'date outside the years 1 to 9999 cannot be sent: return its getTime()')
  }

  regexp (path, value) {
    let flags = ''
    for (const flag in flagGetters) if (flagGetters[flag](value)) flags += flag
    return { $: 'regexp', source: this.string(path, sourceOf(value)), flags }
  }

  unbox (value) {
    if (types.isNumberObject(value)) return Number.prototype.valueOf.call(value)
    if (types.isStringObject(value)) return String.prototype.valueOf.call(value)
    if (types.isBooleanObject(value)) return Boolean.prototype.valueOf.call(value)
    if (types.isBigIntObject(value)) return BigInt.prototype.valueOf.call(value)
    return Symbol.prototype.valueOf.call(value)
  }

  container (value, path, depth) {
    if (this.numbers?.has(value)) return this.ref(value, path)
    if (depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}: return it as text (JSON.stringify), or as a flat list`)
    if (this.numbers) {
      this.numbers.set(value, this.numbers.size)
      return this.inside(value, path, depth)
    }
    if (this.open.has(value)) refuse(path, 'cycle cannot be sent: return a copy without the way back')
    this.open.add(value)
    const sent = this.inside(value, path, depth)
    this.open.delete(value)
    return sent
  }

  ref (value, path) {
    // Made of what it carries, it is not there yet when that is read.
    if (this.carriers.has(value)) refuse(path, 'cycle through a class cannot be sent')
    return { $: 'ref', n: this.numbers.get(value) }
  }

  inside (value, path, depth) {
    if (isView(value) || types.isArrayBuffer(value)) return this.sharedMemory(value, path, depth)
    if (types.isSet(value)) {
      const items = []
      Set.prototype.forEach.call(value, (item) => items.push(item))
      return { $: 'set', v: this.array(items, path, depth) }
    }
    if (types.isMap(value)) {
      const pairs = []
      Map.prototype.forEach.call(value, (item, key) => pairs.push([key, item]))
      return { $: 'map', v: pairs.map(([key, item], i) => [this.encode(key, `${path}<key ${i}>`, depth), this.encode(item, `${path}<${i}>`, depth)]) }
    }
    const replaced = this.numbers ? value : this.replaced(value)
    if (replaced !== value) return this.encode(replaced, path, depth - 1)
    if (Array.isArray(value)) return this.array(value, path, depth)
    if (types.isNativeError(value) && this.numbers) return this.error(value, path, depth)
    if (types.isNativeError(value)) return this.object({ name: value.name, message: value.message, ...value }, path, depth)
    for (const [test, name, wayOut] of refusedKinds) if (types[test](value)) refuse(path, `${name} cannot be sent: ${wayOut}`)
    if (!this.numbers && isIterator(value)) return this.array(collected(path, value), path, depth)
    // Without properties of its own: Headers, FormData, wrappers of private fields.
    if (!this.numbers && isBlank(value) && hasMethod(value, Symbol.iterator)) return this.array(collected(path, value[Symbol.iterator]()), path, depth)
    const carried = this.numbers && host.encodeClass && attempt(path, () => host.encodeClass(value))
    return carried ? this.carry(carried, value, path, depth) : this.object(value, path, depth)
  }

  // An object says by toJSON what it is, as JSON.stringify has it: what toJSON gives stands in its place, and is not asked again.
  replaced (value) {
    const asked = this.said === value
    this.said = undefined
    if (asked || !saysItsForm(value)) return value
    return (this.said = value.toJSON(`${this.key}`))
  }

  carry ({ t, v }, value, path, depth) {
    if (!isClass(t)) refuse(path, 'a class has a name of 1 to 64 letters')
    this.carriers.add(value)
    const sent = { $: 'class', t, v: this.encode(v, path, depth) }
    this.carriers.delete(value)
    return sent
  }

  error (value, path, depth) {
    const sent = { name: 'Error', message: '' }
    for (const name of errorTexts) {
      const text = value[name]
      if (typeof text === 'string') sent[name] = this.string(path + step(name), text)
    }
    const keys = Object.keys(value).filter((key) => !notFields.includes(key))
    if (keys.length > 0) sent.fields = this.object(value, path, depth, keys)
    return { $: 'error', v: sent }
  }

  array (value, path, depth) {
    const sent = []
    for (let i = 0; i < value.length; i++) {
      this.key = i
      sent.push(this.isHole(value, i) ? this.hole() : this.encode(value[i], `${path}[${i}]`, depth))
    }
    return sent
  }

  isHole (array, i) { return this.numbers !== undefined && array[i] === undefined && !Object.prototype.hasOwnProperty.call(array, i) }
  hole () {
    this.count(4)
    return { $: 'hole' }
  }

  object (value, path, depth, keys = Object.keys(value)) {
    const sent = Object.create(null)
    // A key with NUL no JSON object of the engine can hold.
    const escaped = keys.some((key) => key === '$' || key.includes('\0') || !isText(key)) ? [] : undefined
    for (const key of keys) {
      const name = this.string(path, key)
      const member = value[key]
      if (!this.numbers && isNoData(member)) continue
      this.key = key
      const item = this.encode(member, path + step(key), depth)
      if (escaped) escaped.push([name, item])
      else define(sent, key, item)
    }
    return escaped ? { $: 'object', v: escaped } : sent
  }
}

const errorTexts = ['name', 'message', 'stack']
const notFields = ['__proto__', ...errorTexts]
const isClass = (name) => typeof name === 'string' && /^[A-Za-z]{1,64}$/.test(name)

const refusedKinds = [
  ['isPromise', 'promise that is not awaited', 'await it (of many: await Promise.all(list))'],
  ['isWeakMap', 'weak map', 'return a Map'], ['isWeakSet', 'weak set', 'return a Set'],
  ['isModuleNamespaceObject', 'module', 'return those of its exports that are needed'],
  ['isExternal', 'external', 'return its data']
]

const ITEMS_MAX = 1000000
const isIterator = (value) => types.isGeneratorObject(value) || (hasMethod(value, 'next') && hasMethod(value, Symbol.iterator))
// The user's code runs here, and an exception of it is the call's.
function collected (path, iterator) {
  const items = []
  for (let step = iterator.next(); !step.done; step = iterator.next()) {
    if (typeof step.then === 'function') refuse(path, 'asynchronous iterator inside a value cannot be sent: await its items')
    if (items.length === ITEMS_MAX) refuse(path, `iterator of more than ${ITEMS_MAX} items cannot be sent: return an array of those that are needed`)
    items.push(step.value)
  }
  return items
}

const arrays = host.Array.prototype
// True when a class has the method; one that somebody put on Object.prototype or Array.prototype is no class's.
function hasMethod (value, name) {
  for (let owner = Object.getPrototypeOf(value); owner !== null && Object.getPrototypeOf(owner) !== null; owner = Object.getPrototypeOf(owner)) {
    if (owner === arrays) return false
    if (Object.prototype.hasOwnProperty.call(owner, name)) return typeof owner[name] === 'function'
  }
  return false
}

const saysItsForm = (value) => has(value, 'toJSON') ? typeof value.toJSON === 'function' : hasMethod(value, 'toJSON')
// Members that JSON leaves out.
const isNoData = (member) => typeof member === 'function' || typeof member === 'symbol'
const isBlank = (value) => Object.keys(value).length === 0

function encode (value, limit, references = false) {
  let encoder = new Encoder(limit, references)
  let sent = encoder.encode(value, '', 0)
  if (encoder.stretches.isShared) {
    encoder.stretches.join()
    encoder = new Encoder(limit, references, encoder.stretches)
    sent = encoder.encode(value, '', 0)
  }
  return { value: sent, attachments: encoder.attachments }
}

// -- in

function only (path, form, ...keys) {
  for (const key of keys) if (!has(form, key)) refuse(path, `"${form.$}" lacks "${key}"`)
  if (Object.keys(form).length !== keys.length + 1) refuse(path, `"${form.$}" has an unknown key`)
}

const pairs = (path, v) => {
  if (!Array.isArray(v) || v.some((pair) => !Array.isArray(pair) || pair.length !== 2)) refuse(path, 'expected an array of pairs')
  return v
}

const DATE = /^(\d{4})-(\d\d)-(\d\d)(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$/
function parseDate (path, v) {
  if (v === null) return new host.Date(NaN)
  const parts = typeof v === 'string' ? DATE.exec(v) : null
  // Date.parse takes February 30th for March 2nd.
  if (!parts || new Date(`${parts[1]}-${parts[2]}-${parts[3]}T00:00:00Z`).getUTCDate() !== Number(parts[3])) refuse(path, 'expected an RFC 3339 date')
  // Milliseconds are what a Date holds; a time without offset is the box's, which is UTC.
  return new host.Date(Date.parse(v))
}

function makeError ({ name, message, stack = `${name}: ${message}` }) {
  const known = errorClasses.includes(name) && typeof host[name] === 'function'
  const made = known && name === 'AggregateError' ? new host[name](new host.Array(), message) : new host[known ? name : 'Error'](message)
  if (!known) hide(made, 'name', name)
  return hide(made, 'stack', stack)
}
const hide = (object, key, value) => Object.defineProperty(object, key, { value, writable: true, enumerable: false, configurable: true })
const errorClasses = ['Error', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'EvalError', 'URIError', 'AggregateError']

const wrong = (name) => { throw new host.TypeError(`expected what a ${name} is made of`) }
const memoryClasses = {
  Buffer: (buffer) => types.isArrayBuffer(buffer) ? buffer : wrong('Buffer'),
  DataView: (bytes) => types.isUint8Array(bytes) ? new host.DataView(bufferOf(bytes)) : wrong('DataView'),
  View (parts) {
    const [name, buffer, start, size] = Array.isArray(parts) ? parts : wrong('View')
    if (!types.isArrayBuffer(buffer) || !Number.isSafeInteger(start) || !Number.isSafeInteger(size)) return wrong('View')
    if (name === 'DataView') return new host.DataView(buffer, start, size)
    for (const kind in host.typed) if (typedClass[kind] === name) return new host.typed[kind](buffer, start, size / host.typed[kind].BYTES_PER_ELEMENT)
    return wrong('View')
  }
}

const OPEN = {} // the place of a class whose inside is being read

class Decoder {
  constructor (attachments, ranges) {
    this.attachments = attachments
    this.ranges = ranges
    this.opened = []
  }

  open (made, path, depth) {
    if (depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}`)
    this.opened.push(made)
    return made
  }

  decode (value, path, depth) {
    if (typeof value === 'string' && !isText(value)) refuse(path, 'string with a lone surrogate')
    if (value === null || typeof value !== 'object') return value
    depth++
    if (Array.isArray(value)) {
      const made = this.open(new host.Array(), path, depth)
      value.forEach((item, i) => {
        if (isHole(item)) made.length = i + 1
        else define(made, i, this.decode(item, `${path}[${i}]`, depth))
      })
      return made
    }
    if (!has(value, '$')) return this.members(this.open(new host.Object(), path, depth), value, path, depth)
    return has(tags, value.$) ? tags[value.$](this, value, path, depth) : refuse(path, `unknown tag ${JSON.stringify(value.$)}`)
  }

  members (made, value, path, depth) {
    for (const key of Object.keys(value)) define(made, this.key(path, key), this.decode(value[key], path + step(key), depth))
    return made
  }

  pairMembers (made, form, path, depth) {
    only(path, form, 'v')
    for (const [name, item] of pairs(path, form.v)) {
      const key = this.text(path, name)
      if (typeof key !== 'string' || has(made, key)) refuse(path, 'keys must be strings, each once')
      define(made, key, this.decode(item, path + step(key), depth))
    }
    return made
  }

  key (path, key) {
    return isText(key) ? key : refuse(path, 'key with a lone surrogate')
  }

  bytes (path, { at, n }) {
    if (!Number.isSafeInteger(at) || !Number.isSafeInteger(n) || at < 0 || n < 0 || at + n > this.attachments.length) refuse(path, 'range is outside the attachments')
    if (this.ranges.length === ATTACHMENTS_MAX) refuse(path, `more than ${ATTACHMENTS_MAX} attachments`)
    this.ranges.push([at, n])
    return new host.Uint8Array(this.attachments.subarray(at, at + n))
  }

  // A string in either form; undefined for anything else.
  text (path, value) {
    if (typeof value === 'string') return this.key(path, value)
    return has(Object(value), '$') && value.$ === 'utf16' ? tags.utf16(this, value, path) : undefined
  }

  // An empty range shares nothing, wherever it is.
  checkRanges () {
    let end = 0
    for (const [at, n] of this.ranges.filter(([, n]) => n > 0).sort(([a], [b]) => a - b)) {
      if (at < end) refuse('', 'two values share bytes of the attachments')
      end = at + n
    }
  }
}

const isHole = (value) => value !== null && typeof value === 'object' && value.$ === 'hole' && Object.keys(value).length === 1
const UNITS_AT_ONCE = 8192

const tags = {
  undefined (decoder, form, path) { only(path, form) },
  hole (decoder, form, path) { only(path, form) },
  utf16 (decoder, form, path) {
    only(path, form, 'at', 'n')
    if (form.n % 2) refuse(path, 'no whole number of units')
    const bytes = decoder.bytes(path, form)
    let text = ''
    for (let at = 0; at < bytes.length;) {
      const units = []
      for (const end = Math.min(at + 2 * UNITS_AT_ONCE, bytes.length); at < end; at += 2) units.push(bytes[at] | bytes[at + 1] << 8)
      text += String.fromCharCode(...units)
    }
    return text
  },
  number (decoder, form, path) {
    only(path, form, 'v')
    const known = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 }
    return has(known, form.v) ? known[form.v] : refuse(path, 'unknown number')
  },
  bigint (decoder, form, path) {
    only(path, form, 'v')
    return typeof form.v === 'string' && /^-?(0|[1-9]\d*)$/.test(form.v) ? BigInt(form.v) : refuse(path, 'expected decimal digits')
  },
  bytes (decoder, form, path) {
    only(path, form, 'at', 'n')
    return decoder.bytes(path, form)
  },
  buffer (decoder, form, path) {
    only(path, form, 'at', 'n')
    return bufferOf(decoder.bytes(path, form))
  },
  array (decoder, form, path) {
    only(path, form, 't', 'at', 'n')
    if (!has(host.typed, form.t)) refuse(path, 'unknown element type')
    const Typed = host.typed[form.t]
    if (form.n % Typed.BYTES_PER_ELEMENT) refuse(path, 'no whole number of elements')
    return new Typed(bufferOf(decoder.bytes(path, form)))
  },
  date (decoder, form, path) {
    only(path, form, 'v')
    return parseDate(path, form.v)
  },
  regexp (decoder, { source, flags, ...rest }, path) {
    only(path, rest)
    if (typeof source !== 'string' || !isText(source) || typeof flags !== 'string') refuse(path, 'expected source and flags')
    return attempt(path, () => new host.RegExp(source, flags))
  },
  ref (decoder, form, path) {
    only(path, form, 'n')
    // Not by has(): 1.5 and "0" are no numbers of containers.
    const found = Number.isSafeInteger(form.n) ? decoder.opened[form.n] : undefined
    return found === undefined || found === OPEN ? refuse(path, 'reference to what is not opened before it') : found
  },
  set (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open(new host.Set(), path, depth)
    if (!Array.isArray(form.v)) refuse(path, 'expected an array')
    form.v.forEach((item, i) => addTo.call(made, decoder.decode(item, `${path}[${i}]`, depth)))
    return made
  },
  map (decoder, form, path, depth) {
    only(path, form, 'v')
    const made = decoder.open(new host.Map(), path, depth)
    pairs(path, form.v).forEach(([key, item], i) => {
      key = decoder.decode(key, `${path}<key ${i}>`, depth)
      if (inMap.call(made, key)) refuse(`${path}<key ${i}>`, 'this key is there twice')
      setIn.call(made, key, decoder.decode(item, `${path}<${i}>`, depth))
    })
    return made
  },
  object (decoder, form, path, depth) {
    return decoder.pairMembers(decoder.open(new host.Object(), path, depth), form, path, depth)
  },
  error (decoder, form, path, depth) {
    only(path, form, 'v')
    const { name, message, stack, fields, ...rest } = Object(form.v)
    const given = { name, message, ...has(Object(form.v), 'stack') && { stack } }
    const texts = {}
    for (const key of Object.keys(given)) texts[key] = decoder.text(path, given[key])
    if (!Object.keys(texts).every((key) => typeof texts[key] === 'string') || Object.keys(rest).length > 0) refuse(path, 'expected an error')
    const made = decoder.open(makeError(texts), path, depth)
    if (!has(form.v, 'fields')) return made
    if (fields === null || typeof fields !== 'object' || Array.isArray(fields) || (has(fields, '$') && fields.$ !== 'object')) refuse(path, 'expected fields')
    const own = decoder[has(fields, '$') ? 'pairMembers' : 'members'](Object.create(null), fields, path, depth)
    for (const key of Object.keys(own)) if (!notFields.includes(key)) define(made, key, own[key])
    return made
  },
  class (decoder, form, path, depth) {
    only(path, form, 't', 'v')
    if (!isClass(form.t)) refuse(path, 'a class has a name of 1 to 64 letters')
    decoder.open(OPEN, path, depth)
    const number = decoder.opened.length - 1
    const carried = decoder.decode(form.v, path, depth)
    const make = has(memoryClasses, form.t) ? memoryClasses[form.t] : has(host.classes ?? {}, form.t) ? host.classes[form.t] : undefined
    decoder.opened[number] = make === undefined ? carried : attempt(path, () => make(carried))
    return decoder.opened[number]
  }
}
const addTo = Set.prototype.add
const setIn = Map.prototype.set
const inMap = Map.prototype.has

// Values of one frame are decoded with one `ranges`, for their attachments may not overlap.
function decode (value, attachments, ranges = []) {
  const decoder = new Decoder(attachments, ranges)
  const made = decoder.decode(value, '', 0)
  decoder.checkRanges()
  return made
}

return { encode, decode }
