// structuredClone, a function of `host` (the kit) run in the guest's realm. Nothing is transferred.
'use strict'
const { bytesOf, construct, define, isObject, stringOf, uncurry } = host
const { Array, ArrayBuffer, Boolean, DataView, Date, Error, Map, Number, Object, RegExp, Set, Uint8Array } = globalThis
const timeOf = uncurry(Date.prototype.getTime)
const mapEach = uncurry(Map.prototype.forEach)
const setEach = uncurry(Set.prototype.forEach)
const typedClasses = { __proto__: null }
for (const name of Object.getOwnPropertyNames(globalThis)) {
  if (/^(Big)?(Int|Uint|Float)\d+(Clamped)?Array$/.test(name)) typedClasses[name] = globalThis[name]
}
const errorClasses = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }

const refuse = (what) => { throw new host.DOMException(`${what} could not be cloned.`, 'DataCloneError') }

function cloneBuffer (buffer) {
  const copy = new ArrayBuffer(new Uint8Array(buffer).length)
  new Uint8Array(copy).set(new Uint8Array(buffer))
  return copy
}

function cloneError (error, copy) {
  const Kind = errorClasses[error.name] ?? Error
  const message = host.getOwnPropertyDescriptor(error, 'message')
  const made = message ? new Kind(stringOf(message.value)) : new Kind()
  define(made, 'stack', typeof error.stack === 'string' ? error.stack : undefined, false)
  if (host.getOwnPropertyDescriptor(error, 'cause')) define(made, 'cause', copy(error.cause), false)
  return made
}

function unbox (value) {
  if (value instanceof Number) return new Number(+value) // eslint-disable-line no-new-wrappers
  if (value instanceof Boolean) return new Boolean(value.valueOf()) // eslint-disable-line no-new-wrappers
  if (typeof value.valueOf() === 'symbol') refuse('A symbol object')
  return Object(value.valueOf())
}

function structuredClone (value, options = undefined) {
  if (arguments.length === 0) throw new TypeError('structuredClone: a value is needed')
  if (options?.transfer !== undefined && [...options.transfer].length !== 0) refuse('A transferred object')
  const made = new Map()
  const remember = (from, to) => {
    made.set(from, to)
    return to
  }

  function copyView (view, Kind) {
    const bytes = bytesOf(view)
    const buffer = copy(bytes.buffer)
    const size = Kind === DataView ? bytes.length : bytes.length / Kind.BYTES_PER_ELEMENT
    return construct(Kind, [buffer, bytes.byteOffset, size])
  }

  function copyObject (from) {
    const to = remember(from, Array.isArray(from) ? new Array(from.length) : {})
    for (const key of Object.keys(from)) define(to, key, copy(from[key]))
    return to
  }

  function copyMap (from) {
    const to = remember(from, new Map())
    const entries = []
    mapEach(from, (item, key) => entries.push([key, item]))
    for (const [key, item] of entries) to.set(copy(key), copy(item))
    return to
  }

  function copySet (from) {
    const to = remember(from, new Set())
    const items = []
    setEach(from, (item) => items.push(item))
    for (const item of items) to.add(copy(item))
    return to
  }

  function copyKnown (from, kind) {
    switch (kind) {
      case 'Map': return copyMap(from)
      case 'Set': return copySet(from)
      case 'Date': return remember(from, new Date(timeOf(from)))
      case 'RegExp': return remember(from, new RegExp(from.source, from.flags))
      case 'Error': return remember(from, cloneError(from, copy))
      case 'ArrayBuffer': return remember(from, cloneBuffer(from))
      case 'DataView': return remember(from, copyView(from, DataView))
      case 'Boxed': return remember(from, unbox(from))
    }
    return refuse(`#<${kind}>`)
  }

  function copy (from) {
    if (typeof from === 'symbol') refuse(stringOf(from))
    if (typeof from === 'function') refuse(stringOf(from))
    if (!isObject(from)) return from
    if (made.has(from)) return made.get(from)
    const typed = host.typedName(from)
    if (typed !== undefined) return remember(from, copyView(from, typedClasses[typed]))
    if (host.isPlatform(from)) refuse(`#<${from.constructor?.name}>`)
    const kind = host.kind(from)
    return kind === '' ? copyObject(from) : copyKnown(from, kind)
  }

  return copy(value)
}

host.provide('structuredClone', structuredClone)
return {}
