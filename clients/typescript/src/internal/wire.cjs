// Values and frames on the wire (spec/values.md), both ways: the client imports this file, and the agent in a
// box compiles the same one in its own realm (runtimes/javascript/wire.cjs is a link to it). Each derives its
// Encoder and its Decoder from those here.
//
// `host` has the classes that decoded values are made of, `types` of node:util, `typed` arrays by their names in
// values.md, `verb` ("return" or "pass", in advice), and `errors`: {Unsendable, Malformed, Unmakeable, Oversize,
// FrameTooLarge, BadFrame}. RegExp, classes of errors and `classes` may be missing. Values are read with this
// realm's own, untouched classes.
'use strict'
// In parentheses, by which V8 compiles it at once instead of reading it twice: 0.4 ms of each cold call.
module.exports = (function (host) {
  const DEPTH_MAX = 200
  const ATTACHMENTS_MAX = 65536
  const FRAME_BYTES_MAX = 2 ** 30
  const JSON_BYTES_MAX = 2 ** 28
  const { types, verb } = host
  const { Unsendable, Malformed, Unmakeable, Oversize, FrameTooLarge, BadFrame } = host.errors
  // A key that is no string would be turned into one: ["set"] is not the tag "set".
  const has = (object, key) => typeof key === 'string' && Object.prototype.hasOwnProperty.call(object, key)
  // Both ends of a long path name the place well enough.
  const PATH_ENDS = 100
  const ends = (path) => `${path.slice(0, PATH_ENDS)}…${path.slice(-PATH_ENDS)}`
  const shortened = (path) => path.length > 2 * PATH_ENDS ? ends(path) : path
  const failAs = (Kind) => (path, what) => { throw new Kind(`$${shortened(path)}: ${what}`) }
  const refuse = failAs(Unsendable)
  const reject = failAs(Malformed)
  const unmakeable = failAs(Unmakeable)
  function attempt (path, make, fail) {
    try {
      return make()
    } catch (thrown) {
      return fail(path, thrown?.message)
    }
  }
  const step = (key) => /^[A-Za-z_$][\w$]*$/.test(key) ? `.${key}` : `[${JSON.stringify(key)}]`
  const isText = (text) => !/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?:[^\uD800-\uDBFF]|^)[\uDC00-\uDFFF]/.test(text)
  // By definition, not assignment: `__proto__` is a key like any other.
  const put = (object, key, value, enumerable) =>
    Object.defineProperty(object, key, { value, writable: true, enumerable, configurable: true })
  const define = (object, key, value) => put(object, key, value, true)
  const hide = (object, key, value) => put(object, key, value, false)

  // -- frames: u32 length, u32 JSON length, JSON, attachments; little endian, `length` counts all bytes behind itself

  function checkFrame (length, json = 0) {
    if (length > FRAME_BYTES_MAX) {
      throw new FrameTooLarge(`a frame of ${length} bytes; at most ${FRAME_BYTES_MAX} are allowed`)
    }
    if (length < 4) throw new BadFrame(`a frame of ${length} bytes, which cannot hold its head`)
    if (json > length - 4) throw new BadFrame(`a frame of ${length} bytes that claims ${json} bytes of JSON`)
    if (json > JSON_BYTES_MAX) {
      throw new FrameTooLarge(`a frame with ${json} bytes of JSON; at most ${JSON_BYTES_MAX} are allowed`)
    }
  }

  // {head, length} of a frame whose JSON has so many bytes.
  function frameHead (json, attachments) {
    let length = 4 + json
    for (const part of attachments) length += part.length
    const head = new host.Uint8Array(HEAD)
    const view = new DataView(head.buffer)
    view.setUint32(0, length, true)
    view.setUint32(4, json, true)
    return { head, length }
  }

  const HEAD = 8
  const u32 = (bytes, at) => (bytes[at] | bytes[at + 1] << 8 | bytes[at + 2] << 16 | bytes[at + 3] << 24) >>> 0

  // Cuts a stream into frames, however it is cut into chunks.
  class FrameReader {
    constructor () {
      this.chunks = []
      this.size = 0
      this.head = undefined // of a frame that is not whole yet
    }

    // True when a frame is begun and not whole.
    get isInside () { return this.head !== undefined || this.size > 0 }

    // So many bytes end the head, or the frame, at the earliest.
    get missing () { return (this.head === undefined ? HEAD : this.head.rest) - this.size }

    push (chunk) {
      this.chunks.push(chunk)
      this.size += chunk.length
    }

    // The next frame, or undefined until more bytes came.
    next () {
      this.head ??= this.readHead()
      if (this.head === undefined || this.size < this.head.rest) return undefined
      const { rest, json } = this.head
      const body = this.take(rest)
      this.head = undefined
      return { json: body.subarray(0, json), attachments: body.subarray(json) }
    }

    // A length that is not allowed fails before the bytes that it counts came.
    readHead () {
      if (this.size < 4) return undefined
      if (this.chunks[0].length < Math.min(HEAD, this.size)) this.chunks.unshift(this.gather(Math.min(HEAD, this.size)))
      const [bytes] = this.chunks
      const length = u32(bytes, 0)
      checkFrame(length)
      if (this.size < HEAD) return undefined
      const json = u32(bytes, 4)
      checkFrame(length, json)
      this.take(HEAD)
      return { rest: length - 4, json }
    }

    take (wanted) {
      this.size -= wanted
      if (wanted === 0) return new host.Uint8Array(0)
      const [first] = this.chunks
      if (first.length < wanted) return this.gather(wanted)
      if (first.length === wanted) return this.chunks.shift()
      this.chunks[0] = first.subarray(wanted)
      return first.subarray(0, wanted)
    }

    gather (wanted) {
      const bytes = new host.Uint8Array(wanted)
      let at = 0
      let used = 0
      while (at < wanted) {
        const chunk = this.chunks[used]
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

  // -- out

  const typedName = (value) => {
    for (const name in host.typed) if (types[`is${typedClass[name]}`](value)) return name
  }
  const typedClass = {
    i8: 'Int8Array', u8: 'Uint8Array', u8c: 'Uint8ClampedArray', i16: 'Int16Array', u16: 'Uint16Array',
    i32: 'Int32Array', u32: 'Uint32Array', i64: 'BigInt64Array', u64: 'BigUint64Array', f32: 'Float32Array',
    f64: 'Float64Array'
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
  // `flags` itself would read properties that user code may have put on the value.
  const flagGetters = {
    d: 'hasIndices', g: 'global', i: 'ignoreCase', m: 'multiline', s: 'dotAll', u: 'unicode', v: 'unicodeSets',
    y: 'sticky'
  }
  for (const flag in flagGetters) {
    const known = flagGetters[flag] in RegExp.prototype
    flagGetters[flag] = known ? getter(RegExp.prototype, flagGetters[flag]) : () => false
  }

  const isView = (value) => types.isTypedArray(value) || types.isDataView(value)
  const rangeOf = (value) => types.isDataView(value)
    ? [viewBuffer(value), viewOffset(value), viewLength(value)]
    : [bufferOf(value), offsetOf(value), lengthOf(value)]
  const bytesOf = (value) => types.isAnyArrayBuffer(value) ? new Uint8Array(value) : new Uint8Array(...rangeOf(value))

  // The memory of views that others of the value see too: an ArrayBuffer of its own for each stretch that windows
  // cover together; or the whole of a buffer that is in the value itself. Memory between windows is not sent: it may
  // be anything of this process, as in the pool of Node's Buffer.
  class Stretches {
    constructor () {
      this.buffers = new Map()
      this.views = new Map()
      this.isShared = false
    }

    note (value) {
      const [buffer, start, size] = isView(value) ? rangeOf(value) : [value, 0, Infinity]
      const windows = this.buffers.get(buffer) ?? []
      this.isShared ||= windows.some((window) =>
        window.value === value || (start < window.end && window.start < start + size))
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
        const covered = new Uint8Array(stretch.buffer, stretch.start, stretch.end - stretch.start)
        bytes.set(covered, stretch.start - stretch.base)
        stretch.memory = bytes.buffer
      }
      return stretch.memory
    }
  }

  // The byte arrays of one frame, in order; each value of the frame adds to the same list.
  class Attachments {
    constructor () {
      this.parts = []
      this.size = 0
    }
  }

  const refusedKinds = [
    ['isPromise', 'promise that is not awaited', 'await it (of many: await Promise.all(list))'],
    ['isWeakMap', 'weak map', `${verb} a Map`], ['isWeakSet', 'weak set', `${verb} a Set`],
    ['isModuleNamespaceObject', 'module', `${verb} those of its exports that are needed`],
    ['isExternal', 'external', `${verb} its data`]
  ]

  class Encoder {
    // references (the rich mode): a container is sent once, and errors, regular expressions and classes keep their
    // kind. views: those of one buffer stay that; else each has memory of its own. stacks: errors are sent with them.
    constructor ({ attachments, limit = Infinity, references = false, views = references, stacks = true }, stretches) {
      this.attachments = attachments
      this.limit = limit
      this.numbers = references ? new Map() : undefined
      this.views = views
      this.errorTexts = stacks ? errorTexts : errorTexts.slice(0, 2)
      this.stretches = stretches ?? new Stretches()
      this.isJoined = stretches !== undefined
      this.carriers = new Set()
      this.size = 0
      this.open = new Set()
      this.key = '' // of the value that is being read, for toJSON
    }

    // -- the forms of values that have no kind of their own: derived classes know more of them

    readsProxies () { return false }
    // True: the member is left out.
    isNoData (member) { return false }
    refusedKinds () { return refusedKinds }
    /** @returns {any} {t, v} of an instance that is sent as its class. */
    classOf (value, path) { return undefined }
    /** @returns {any} The items of a value that is sent as an array. */
    itemsOf (value, path) { return undefined }

    // -- kinds

    count (size) {
      this.size += size
      if (this.size > this.limit) throw new Oversize(`the value is larger than ${this.limit} bytes`)
    }

    attach (path, form, value) {
      // A copy: memory shared with a worker, or the caller's, may still change.
      return this.attachBytes(path, form, bytesOf(value).slice())
    }

    attachBytes (path, form, bytes) {
      const { parts, size } = this.attachments
      if (parts.length === ATTACHMENTS_MAX) {
        refuse(path, `more than ${ATTACHMENTS_MAX} byte arrays: join them, or write them to a file`)
      }
      this.count(bytes.length)
      form.at = size
      form.n = bytes.length
      parts.push(bytes)
      this.attachments.size += bytes.length
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
      const isWritten = Number.isInteger(value) && !Number.isSafeInteger(value) && Math.abs(value) < 1e21
      return isWritten ? { $: 'bigint', v: `${BigInt(value)}` } : value
    }

    encode (value, path, depth) {
      this.count(4)
      switch (typeof value) {
        case 'undefined': return { $: 'undefined' }
        case 'boolean': return value
        case 'string': return this.string(path, value)
        case 'number': return this.number(value)
        case 'bigint': return { $: 'bigint', v: `${value}` }
        case 'symbol': return refuse(path, `symbol cannot be sent: ${verb} its description`)
        case 'function':
          return refuse(path, `function cannot be sent: call it and ${verb} what it gives, or leave it out`)
      }
      if (value === null) return null
      if (types.isProxy(value) && !this.readsProxies()) refuse(path, `proxy cannot be sent: ${verb} a copy ({ ...it })`)
      if (this.numbers && (isView(value) || types.isArrayBuffer(value))) return this.memory(value, path, depth)
      if (types.isUint8Array(value) || types.isAnyArrayBuffer(value) || types.isDataView(value)) {
        return this.attach(path, { $: 'bytes' }, value)
      }
      if (types.isTypedArray(value)) return this.attach(path, { $: 'array', t: typedName(value) }, value)
      if (types.isDate(value)) return { $: 'date', v: this.date(path, value) }
      if (types.isBoxedPrimitive(value)) return this.encode(this.unbox(value), path, depth)
      if (types.isRegExp(value)) return this.regexp(path, value)
      return this.container(value, path, depth + 1)
    }

    memory (value, path, depth) {
      if (this.views && !this.isJoined) this.stretches.note(value)
      if (types.isDataView(value) || this.stretches.of(value) !== undefined) {
        return this.container(value, path, depth + 1)
      }
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
      const name = types.isDataView(value) ? 'DataView' : typedClass[typedName(value)]
      this.stretches.views.set(memory, stretch)
      return this.carry({ t: 'View', v: [name, memory, start - (stretch.base ?? 0), size] }, value, path, depth)
    }

    date (path, value) {
      if (Number.isNaN(Date.prototype.getTime.call(value))) return null
      const text = Date.prototype.toISOString.call(value)
      if (text.length === 24 && text >= '0001') return text
      return refuse(path, `date outside the years 1 to 9999 cannot be sent: ${verb} its getTime()`)
    }

    /** @returns {any} */
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

    // -- containers

    container (value, path, depth) {
      if (this.numbers?.has(value)) return this.ref(value, path)
      if (depth > DEPTH_MAX) {
        refuse(path, `nested deeper than ${DEPTH_MAX}: ${verb} it as text (JSON.stringify), or as a flat list`)
      }
      if (this.numbers) {
        this.numbers.set(value, this.numbers.size)
        return this.inside(value, path, depth)
      }
      if (this.open.has(value)) refuse(path, `cycle cannot be sent: ${verb} a copy without the way back`)
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
        const sent = pairs.map(([key, item], i) =>
          [this.encode(key, `${path}<key ${i}>`, depth), this.encode(item, `${path}<${i}>`, depth)])
        return { $: 'map', v: sent }
      }
      return this.other(value, path, depth)
    }

    other (value, path, depth) {
      if (Array.isArray(value)) return this.array(value, path, depth)
      if (types.isNativeError(value)) return this.error(value, path, depth)
      for (const [test, name, wayOut] of this.refusedKinds()) {
        if (types[test](value)) refuse(path, `${name} cannot be sent: ${wayOut}`)
      }
      const items = this.itemsOf(value, path)
      if (items !== undefined) return this.array(items, path, depth)
      const carried = this.numbers && this.classOf(value, path)
      return carried ? this.carry(carried, value, path, depth) : this.object(value, path, depth)
    }

    carry ({ t, v }, value, path, depth) {
      if (!isClass(t)) refuse(path, 'a class has a name of 1 to 64 letters')
      this.carriers.add(value)
      const sent = { $: 'class', t, v: this.encode(v, path, depth) }
      this.carriers.delete(value)
      return sent
    }

    error (value, path, depth) {
      if (!this.numbers) return this.object({ name: value.name, message: value.message, ...value }, path, depth)
      const sent = { name: 'Error', message: '' }
      for (const name of this.errorTexts) {
        const text = value[name]
        if (typeof text === 'string') sent[name] = this.string(path + step(name), text)
      }
      const keys = Object.keys(value).filter((key) => !notFields.includes(key))
      if (holdsErrors(value)) keys.push('errors')
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

    isHole (array, i) {
      return this.numbers !== undefined && array[i] === undefined && !Object.prototype.hasOwnProperty.call(array, i)
    }

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
        if (this.isNoData(member)) continue
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
  // The errors of an AggregateError are an own property, which is not enumerable.
  const holdsErrors = (error) => {
    const own = Object.getOwnPropertyDescriptor(error, 'errors')
    return own !== undefined && !own.enumerable && Array.isArray(own.value)
  }
  const isClass = (name) => typeof name === 'string' && /^[A-Za-z]{1,64}$/.test(name)

  // The value is read a second time when a first pass found memory that several parts of it see.
  function encodeWith (Kind, value, options) {
    const { attachments } = options
    const { parts, size } = attachments
    const before = parts.length
    const first = new Kind(options)
    const sent = first.encode(value, '', 0)
    if (!first.stretches.isShared) return sent
    parts.length = before
    attachments.size = size
    first.stretches.join()
    return new Kind(options, first.stretches).encode(value, '', 0)
  }

  // -- in: the other side may be hostile, so each form is checked whole before anything is made of it

  function only (path, form, ...keys) {
    for (const key of keys) if (!has(form, key)) reject(path, `"${form.$}" lacks "${key}"`)
    if (Object.keys(form).length !== keys.length + 1) reject(path, `"${form.$}" has an unknown key`)
  }

  const isPair = (value) => Array.isArray(value) && value.length === 2
  const pairs = (path, v) => {
    if (!Array.isArray(v) || !v.every(isPair)) reject(path, 'expected an array of pairs')
    return v
  }

  const DATE = /^(\d{4})-(\d\d)-(\d\d)(T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d{1,9})?(Z|[+-]([01]\d|2[0-3]):[0-5]\d)?)?$/
  function parseDate (path, v) {
    if (v === null) return new host.Date(NaN)
    const parts = typeof v === 'string' ? DATE.exec(v) : null
    // Date.parse takes February 30th for March 2nd.
    const isDay = parts && new Date(`${parts[1]}-${parts[2]}-${parts[3]}T00:00:00Z`).getUTCDate() === Number(parts[3])
    if (!isDay) reject(path, 'expected an RFC 3339 date')
    // Milliseconds are what a Date holds; a time without offset is the box's, which is UTC.
    return new host.Date(Date.parse(parts[4] !== undefined && parts[7] === undefined ? `${v}Z` : v))
  }

  // The built-in class of that name, else Error with the name. It has no stack of this side's.
  function makeError ({ name, message, stack = `${name}: ${message}` }) {
    const known = errorClasses.includes(name) && typeof host[name] === 'function'
    const parts = known && name === 'AggregateError' ? [new host.Array(), message] : [message]
    const made = new host[known ? name : 'Error'](...parts)
    if (!known) hide(made, 'name', name)
    return hide(made, 'stack', stack)
  }
  const errorClasses = [
    'Error', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'EvalError', 'URIError', 'AggregateError'
  ]

  function addFields (error, fields) {
    for (const key of Object.keys(fields)) {
      if (notFields.includes(key)) continue
      if (key === 'errors' && holdsErrors(error)) hide(error, key, fields[key])
      else define(error, key, fields[key])
    }
    return error
  }

  const wrong = (name) => { throw new host.TypeError(`expected what a ${name} is made of`) }
  const memoryClasses = {
    Buffer: (buffer) => types.isArrayBuffer(buffer) ? buffer : wrong('Buffer'),
    DataView: (bytes) => types.isUint8Array(bytes) ? new host.DataView(bufferOf(bytes)) : wrong('DataView'),
    View (parts) {
      const [name, buffer, start, size] = Array.isArray(parts) ? parts : wrong('View')
      if (!types.isArrayBuffer(buffer) || !isSize(start) || !isSize(size)) return wrong('View')
      if (name === 'DataView') return new host.DataView(buffer, start, size)
      for (const kind in host.typed) {
        const Typed = host.typed[kind]
        if (typedClass[kind] === name) return new Typed(buffer, start, size / Typed.BYTES_PER_ELEMENT)
      }
      return wrong('View')
    }
  }

  const isSize = (value) => Number.isSafeInteger(value) && value >= 0
  const OPEN = {} // the place of a class whose inside is being read

  // `ranges` are those of all values of the frame, for their attachments may not overlap.
  class Decoder {
    constructor (attachments, ranges) {
      this.attachments = attachments
      this.ranges = ranges
      this.tags = tags
      this.opened = []
    }

    // A function that makes an instance of what the class carries; undefined leaves that as it is.
    makerOf (name) {
      if (has(memoryClasses, name)) return memoryClasses[name]
      return has(host.classes ?? {}, name) ? host.classes[name] : undefined
    }

    whole (value) {
      const made = this.decode(value, '', 0)
      this.checkRanges()
      return made
    }

    open (made, path, depth) {
      if (depth > DEPTH_MAX) reject(path, `nested deeper than ${DEPTH_MAX}`)
      this.opened.push(made)
      return made
    }

    decode (value, path, depth) {
      if (typeof value === 'string' && !isText(value)) reject(path, 'string with a lone surrogate')
      if (value === null || typeof value !== 'object') return value
      depth++
      if (Array.isArray(value)) return this.items(this.open(new host.Array(), path, depth), value, path, depth)
      if (!has(value, '$')) return this.members(this.open(new host.Object(), path, depth), value, path, depth)
      if (!has(this.tags, value.$)) reject(path, `unknown tag ${JSON.stringify(value.$)}`)
      return this.tags[value.$](this, value, path, depth)
    }

    // The array's prototype may be hostile code's.
    append (made, i, item) { define(made, i, item) }

    items (made, value, path, depth) {
      for (let i = 0; i < value.length; i++) {
        if (isHole(value[i])) made.length = i + 1
        else this.append(made, i, this.decode(value[i], `${path}[${i}]`, depth))
      }
      return made
    }

    members (made, value, path, depth) {
      for (const key of Object.keys(value)) {
        define(made, this.key(path, key), this.decode(value[key], path + step(key), depth))
      }
      return made
    }

    pairMembers (made, form, path, depth) {
      only(path, form, 'v')
      for (const [name, item] of pairs(path, form.v)) {
        const key = this.text(path, name)
        if (typeof key !== 'string' || has(made, key)) reject(path, 'keys must be strings, each once')
        define(made, key, this.decode(item, path + step(key), depth))
      }
      return made
    }

    key (path, key) {
      return isText(key) ? key : reject(path, 'key with a lone surrogate')
    }

    bytes (path, { at, n }) {
      const isInside = isSize(at) && isSize(n) && at + n <= this.attachments.length
      if (!isInside) reject(path, 'range is outside the attachments')
      if (this.ranges.length === ATTACHMENTS_MAX) reject(path, `more than ${ATTACHMENTS_MAX} attachments`)
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
        if (at < end) reject('', 'two values share bytes of the attachments')
        end = at + n
      }
    }
  }

  const isHole = (value) =>
    value !== null && typeof value === 'object' && value.$ === 'hole' && Object.keys(value).length === 1
  const UNITS_AT_ONCE = 8192

  /** @type {Record<string, any>} */
  const tags = {
    undefined (decoder, form, path) { only(path, form) },
    hole (decoder, form, path) { only(path, form) },
    utf16 (decoder, form, path) {
      only(path, form, 'at', 'n')
      if (form.n % 2) reject(path, 'no whole number of units')
      const bytes = decoder.bytes(path, form)
      let text = ''
      for (let at = 0; at < bytes.length;) {
        const units = []
        const end = Math.min(at + 2 * UNITS_AT_ONCE, bytes.length)
        for (; at < end; at += 2) units.push(bytes[at] | bytes[at + 1] << 8)
        text += String.fromCharCode(...units)
      }
      return text
    },
    number (decoder, form, path) {
      only(path, form, 'v')
      const known = { NaN, Infinity, '-Infinity': -Infinity, '-0': -0 }
      return has(known, form.v) ? known[form.v] : reject(path, 'unknown number')
    },
    bigint (decoder, form, path) {
      only(path, form, 'v')
      if (typeof form.v !== 'string' || !/^-?(0|[1-9]\d*)$/.test(form.v)) reject(path, 'expected decimal digits')
      return BigInt(form.v)
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
      if (!has(host.typed, form.t)) reject(path, 'unknown element type')
      const Typed = host.typed[form.t]
      if (form.n % Typed.BYTES_PER_ELEMENT) reject(path, 'no whole number of elements')
      return new Typed(bufferOf(decoder.bytes(path, form)))
    },
    date (decoder, form, path) {
      only(path, form, 'v')
      return parseDate(path, form.v)
    },
    regexp (decoder, { source, flags, ...rest }, path) {
      only(path, rest)
      const isPattern = typeof source === 'string' && isText(source) && typeof flags === 'string'
      if (!isPattern) reject(path, 'expected source and flags')
      return attempt(path, () => new host.RegExp(source, flags), unmakeable)
    },
    ref (decoder, form, path) {
      only(path, form, 'n')
      // Not by has(): 1.5 and "0" are no numbers of containers.
      const found = Number.isSafeInteger(form.n) ? decoder.opened[form.n] : undefined
      return found === undefined || found === OPEN ? reject(path, 'reference to what is not opened before it') : found
    },
    set (decoder, form, path, depth) {
      only(path, form, 'v')
      const made = decoder.open(new host.Set(), path, depth)
      if (!Array.isArray(form.v)) reject(path, 'expected an array')
      form.v.forEach((item, i) => addTo.call(made, decoder.decode(item, `${path}[${i}]`, depth)))
      return made
    },
    map (decoder, form, path, depth) {
      only(path, form, 'v')
      const made = decoder.open(new host.Map(), path, depth)
      pairs(path, form.v).forEach(([key, item], i) => {
        key = decoder.decode(key, `${path}<key ${i}>`, depth)
        if (inMap.call(made, key)) reject(`${path}<key ${i}>`, 'this key is there twice')
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
      const isWhole = Object.keys(texts).every((key) => typeof texts[key] === 'string')
      if (!isWhole || Object.keys(rest).length > 0) reject(path, 'expected an error')
      const made = decoder.open(makeError(texts), path, depth)
      if (!has(form.v, 'fields')) return made
      const isObject = fields !== null && typeof fields === 'object' && !Array.isArray(fields)
      if (!isObject || (has(fields, '$') && fields.$ !== 'object')) reject(path, 'expected fields')
      const own = decoder[has(fields, '$') ? 'pairMembers' : 'members'](Object.create(null), fields, path, depth)
      return addFields(made, own)
    },
    class (decoder, form, path, depth) {
      only(path, form, 't', 'v')
      if (!isClass(form.t)) reject(path, 'a class has a name of 1 to 64 letters')
      decoder.open(OPEN, path, depth)
      const number = decoder.opened.length - 1
      const carried = decoder.decode(form.v, path, depth)
      const make = decoder.makerOf(form.t)
      decoder.opened[number] = make === undefined ? carried : attempt(path, () => make(carried), unmakeable)
      return decoder.opened[number]
    }
  }
  const addTo = Set.prototype.add
  const setIn = Map.prototype.set
  const inMap = Map.prototype.has

  return {
    Attachments, Encoder, encodeWith, Decoder, tags, makeError, addFields, holdsErrors,
    FRAME_BYTES_MAX, FrameReader, checkFrame, frameHead,
    attempt, define, has, isText, notFields, only, pairs, refuse, refusedKinds, reject, step
  }
})
