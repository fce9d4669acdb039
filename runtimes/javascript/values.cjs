// Values both ways (spec/values.md). A function of `host`, run in the agent's own realm; what it decodes is made of the main
// realm's classes, what it encodes is looked at with its own, untouched ones.
'use strict'
const DEPTH_MAX = 200
const ATTACHMENTS_MAX = 65536
const { types } = host
// A key that is no string would be turned into one: ["set"] is not the tag "set".
const has = (object, key) => typeof key === 'string' && Object.prototype.hasOwnProperty.call(object, key)
const refuse = (path, what) => { throw new host.TypeError(`$${path}: ${what}`) }
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

function bytesOf (value) {
  if (types.isAnyArrayBuffer(value)) return new Uint8Array(value)
  if (types.isDataView(value)) return new Uint8Array(viewBuffer(value), viewOffset(value), viewLength(value))
  return new Uint8Array(bufferOf(value), offsetOf(value), lengthOf(value))
}

class Encoder {
  constructor (limit) {
    this.limit = limit
    this.size = 0
    this.at = 0
    this.attachments = []
    this.open = new Set()
  }

  count (size) {
    this.size += size
    if (this.size > this.limit) throw new host.RangeError(`the result is larger than ${this.limit} bytes`)
  }

  attach (path, form, value) {
    // A copy: memory shared with a worker may still change.
    const bytes = bytesOf(value).slice()
    if (this.attachments.length === ATTACHMENTS_MAX) refuse(path, `more than ${ATTACHMENTS_MAX} byte arrays`)
    this.count(bytes.length)
    form.at = this.at
    form.n = bytes.length
    this.at += bytes.length
    this.attachments.push(bytes)
    return form
  }

  string (path, value) {
    if (!isText(value)) refuse(path, 'string with a lone surrogate cannot be sent')
    this.count(value.length)
    return value
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
      case 'symbol': case 'function': return refuse(path, `${typeof value} cannot be sent`)
    }
    if (value === null) return null
    if (types.isProxy(value)) refuse(path, 'proxy cannot be sent')
    if (types.isUint8Array(value) || types.isAnyArrayBuffer(value) || types.isDataView(value)) return this.attach(path, { $: 'bytes' }, value)
    if (types.isTypedArray(value)) return this.attach(path, { $: 'array', t: typedName(value) }, value)
    if (types.isDate(value)) return { $: 'date', v: Number.isNaN(Date.prototype.getTime.call(value)) ? null : this.date(path, value) }
    if (types.isBoxedPrimitive(value)) return this.encode(this.unbox(value), path, depth)
    return this.container(value, path, depth + 1)
  }

  date (path, value) {
    const text = Date.prototype.toISOString.call(value)
    return text.length === 24 ? text : refuse(path, 'date outside the years 0 to 9999 cannot be sent')
  }

  unbox (value) {
    if (types.isNumberObject(value)) return Number.prototype.valueOf.call(value)
    if (types.isStringObject(value)) return String.prototype.valueOf.call(value)
    if (types.isBooleanObject(value)) return Boolean.prototype.valueOf.call(value)
    if (types.isBigIntObject(value)) return BigInt.prototype.valueOf.call(value)
    return Symbol.prototype.valueOf.call(value)
  }

  container (value, path, depth) {
    if (depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}`)
    if (this.open.has(value)) refuse(path, 'cycle cannot be sent')
    this.open.add(value)
    const sent = this.inside(value, path, depth)
    this.open.delete(value)
    return sent
  }

  inside (value, path, depth) {
    if (Array.isArray(value)) return this.array(value, path, depth)
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
    if (types.isNativeError(value)) return this.object({ name: value.name, message: value.message, ...value }, path, depth)
    for (const [test, name] of refusedKinds) if (types[test](value)) refuse(path, `${name} cannot be sent`)
    return this.object(value, path, depth)
  }

  array (value, path, depth) {
    const sent = []
    for (let i = 0; i < value.length; i++) sent.push(this.encode(value[i], `${path}[${i}]`, depth))
    return sent
  }

  object (value, path, depth) {
    const sent = Object.create(null)
    const keys = Object.keys(value)
    const escaped = keys.includes('$') ? [] : undefined
    for (const key of keys) {
      this.string(path, key)
      const item = this.encode(value[key], path + step(key), depth)
      if (escaped) escaped.push([key, item])
      else define(sent, key, item)
    }
    return escaped ? { $: 'object', v: escaped } : sent
  }
}

const refusedKinds = [
  ['isPromise', 'promise'], ['isRegExp', 'regular expression'], ['isWeakMap', 'weak map'], ['isWeakSet', 'weak set'],
  ['isGeneratorObject', 'generator'], ['isModuleNamespaceObject', 'module'], ['isExternal', 'external'], ['isMapIterator', 'iterator'],
  ['isSetIterator', 'iterator']
]

function encode (value, limit) {
  const encoder = new Encoder(limit)
  return { value: encoder.encode(value, '', 0), attachments: encoder.attachments }
}

// -- in

function range (path, form, attachments) {
  const { at, n } = form
  if (!Number.isSafeInteger(at) || !Number.isSafeInteger(n) || at < 0 || n < 0 || at + n > attachments.length) refuse(path, 'range is outside the attachments')
  return attachments.subarray(at, at + n)
}

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

const tags = {
  undefined (form, path) { only(path, form) },
  number (form, path) {
    only(path, form, 'v')
    const known = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 }
    return has(known, form.v) ? known[form.v] : refuse(path, 'unknown number')
  },
  bigint (form, path) {
    only(path, form, 'v')
    return typeof form.v === 'string' && /^-?(0|[1-9]\d*)$/.test(form.v) ? BigInt(form.v) : refuse(path, 'expected decimal digits')
  },
  bytes (form, path, attachments) {
    only(path, form, 'at', 'n')
    return new host.Uint8Array(range(path, form, attachments))
  },
  array (form, path, attachments) {
    only(path, form, 't', 'at', 'n')
    if (!has(host.typed, form.t)) refuse(path, 'unknown element type')
    const Typed = host.typed[form.t]
    if (form.n % Typed.BYTES_PER_ELEMENT) refuse(path, 'no whole number of elements')
    return new Typed(new host.Uint8Array(range(path, form, attachments)).buffer)
  },
  date (form, path) {
    only(path, form, 'v')
    return parseDate(path, form.v)
  },
  set (form, path, attachments, depth) {
    only(path, form, 'v')
    const made = new host.Set()
    if (!Array.isArray(form.v)) refuse(path, 'expected an array')
    form.v.forEach((item, i) => made.add(decodeAt(item, `${path}[${i}]`, attachments, depth)))
    return made
  },
  map (form, path, attachments, depth) {
    only(path, form, 'v')
    const made = new host.Map()
    pairs(path, form.v).forEach(([key, item], i) => made.set(decodeAt(key, `${path}<key ${i}>`, attachments, depth), decodeAt(item, `${path}<${i}>`, attachments, depth)))
    return made
  },
  object (form, path, attachments, depth) {
    only(path, form, 'v')
    const made = new host.Object()
    for (const [key, item] of pairs(path, form.v)) {
      if (typeof key !== 'string' || has(made, key)) refuse(path, 'keys must be strings, each once')
      define(made, key, decodeAt(item, path + step(key), attachments, depth))
    }
    return made
  }
}

function decodeAt (value, path, attachments, depth) {
  if (typeof value === 'number' && Number.isInteger(value) && !Number.isSafeInteger(value)) return value
  if (typeof value === 'string' && !isText(value)) refuse(path, 'string with a lone surrogate')
  if (value === null || typeof value !== 'object') return value
  if (++depth > DEPTH_MAX) refuse(path, `nested deeper than ${DEPTH_MAX}`)
  if (Array.isArray(value)) {
    const made = new host.Array()
    value.forEach((item, i) => define(made, i, decodeAt(item, `${path}[${i}]`, attachments, depth)))
    return made
  }
  if (has(value, '$')) return has(tags, value.$) ? tags[value.$](value, path, attachments, depth) : refuse(path, `unknown tag ${JSON.stringify(value.$)}`)
  const made = new host.Object()
  for (const key of Object.keys(value)) define(made, key, decodeAt(value[key], path + step(key), attachments, depth))
  return made
}

return { encode, decode: (value, attachments) => decodeAt(value, '', attachments, 0) }
