// The first part of the bare realm, a function of `host` run in the guest's realm: the tools of its
// other parts. `host` is of Node's realm and stays in this closure; the parts get guarded functions
// of it, whose errors are of the guest's realm.
'use strict'
const { DataView, Error, Function, Object, RangeError, Reflect, String, Symbol, Uint8Array } = globalThis
const { apply, construct, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, ownKeys } = Reflect
const uncurry = Function.prototype.bind.bind(Function.prototype.call)
const rootPrototype = Object.prototype
const stringOf = String
const isObject = (value) => (typeof value === 'object' && value !== null) || typeof value === 'function'

// True when an object was made in this realm: its prototype chain ends at this realm's Object.prototype.
function isOwn (value) {
  try {
    for (let left = 1000, at = value; left > 0 && at !== null; left--) {
      if (at === rootPrototype) return true
      at = getPrototypeOf(at)
    }
    return false
  } catch {
    return true // a proxy: only the guest creates those
  }
}

function own (thrown) {
  if (!isObject(thrown) || isOwn(thrown)) return thrown
  const { message, name } = thrown
  const Kind = name === 'RangeError' ? RangeError : Error
  return new Kind(typeof message === 'string' ? message : 'the call failed')
}

// A deep stack overflows in Node's realm too, and that RangeError must not be seen.
const guard = (fn) => (a, b, c, d) => {
  try {
    return fn(a, b, c, d)
  } catch (thrown) {
    throw own(thrown)
  }
}

const kit = { __proto__: null }
for (const name of Object.keys(host)) kit[name] = guard(host[name])

const typedPrototype = getPrototypeOf(Uint8Array.prototype)
const getter = (prototype, name) => uncurry(getOwnPropertyDescriptor(prototype, name).get)
const typedName = getter(typedPrototype, Symbol.toStringTag)
const typedParts = [getter(typedPrototype, 'buffer'), getter(typedPrototype, 'byteOffset'), getter(typedPrototype, 'byteLength')]
const viewParts = [getter(DataView.prototype, 'buffer'), getter(DataView.prototype, 'byteOffset'), getter(DataView.prototype, 'byteLength')]

// The memory of an ArrayBuffer or of any view of one, as bytes; undefined for anything else.
function bytesOf (value) {
  if (!isObject(value)) return undefined
  if (typedName(value) !== undefined) return new Uint8Array(typedParts[0](value), typedParts[1](value), typedParts[2](value))
  const kind = kit.kind(value)
  if (kind === 'ArrayBuffer') return new Uint8Array(value)
  if (kind === 'DataView') return new Uint8Array(viewParts[0](value), viewParts[1](value), viewParts[2](value))
  return undefined
}

const define = (target, name, value, enumerable = true) => defineProperty(target, name, { __proto__: null, value, writable: true, enumerable, configurable: true })

// Defines a global as the language does: not enumerable.
const provided = []
function provide (name, value) {
  if (/^[A-Z]/.test(name)) defineProperty(value.prototype, Symbol.toStringTag, { __proto__: null, value: name, configurable: true })
  define(globalThis, name, value, false)
  provided.push(name)
}

function bytesFrom (latin1) {
  const bytes = new Uint8Array(latin1.length)
  for (let i = 0; i < latin1.length; i++) bytes[i] = latin1.charCodeAt(i)
  return bytes
}

function utf8 (text) {
  const bytes = new Uint8Array(kit.byteLength(text))
  kit.encodeInto(text, bytes)
  return bytes
}

Object.assign(kit, {
  apply, bytesFrom, bytesOf, construct, define, defineProperty, getOwnPropertyDescriptor, getPrototypeOf, getter, isObject, isOwn, ownKeys,
  own, provide, provided, stringOf, typedName, uncurry, utf8
})
// Node before 24 has these in its main realm alone.
for (const name of ['dispose', 'asyncDispose']) if (Symbol[name] === undefined) defineProperty(Symbol, name, { __proto__: null, value: Symbol(`Symbol.${name}`) })
for (const name of ['SharedArrayBuffer', 'WebAssembly', 'console']) delete globalThis[name]
return kit
