'use strict'
// The bare realm's needs of Node, as leaf functions: primitives in and out, except objects of the
// guest that are only inspected and handles (a decoder, a storage) that the guest's side keeps in
// private fields. None calls the guest but storageRun. The guest may have replaced any method its
// side uses, so arguments may be of any type: an object in place of a text has methods that Node
// would call with objects of its own.
const { AsyncLocalStorage } = require('node:async_hooks')
const { randomBytes } = require('node:crypto')
const { unescapeBuffer } = require('node:querystring')
const { types } = require('node:util')

const encoder = new TextEncoder()
const wellFormed = (text) => Buffer.from(text).toString()

const KINDS = {
  Promise: types.isPromise,
  Map: types.isMap,
  Set: types.isSet,
  Date: types.isDate,
  RegExp: types.isRegExp,
  Error: types.isNativeError,
  ArrayBuffer: types.isArrayBuffer,
  DataView: types.isDataView,
  Boxed: types.isBoxedPrimitive,
  WeakMap: types.isWeakMap,
  WeakSet: types.isWeakSet,
  Generator: types.isGeneratorObject,
  Iterator: (value) => types.isMapIterator(value) || types.isSetIterator(value),
  Module: types.isModuleNamespaceObject
}
const KIND_NAMES = Object.keys(KINDS)

function kind (value) {
  if (types.isProxy(value)) return 'Proxy'
  for (const name of KIND_NAMES) if (KINDS[name](value)) return name
  return ''
}

// A URL as the lines of its parts: none of them can hold a line feed.
const PARTS = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash', 'origin']
const show = (url) => PARTS.map((name) => url[name]).join('\n')

function parseUrl (input, base) {
  try {
    return show(base === undefined ? new URL(input) : new URL(input, base))
  } catch {
    return undefined
  }
}

function changeUrl (href, name, value) {
  const url = new URL(href)
  url[name] = value
  return show(url)
}

const formDecode = (text) => unescapeBuffer(wellFormed(text).replace(/\+/g, ' ').replace(/[^\0-\x7f]+/g, encodeURIComponent)).toString()
const formHex = (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`
const formEncode = (text) => encodeURIComponent(wellFormed(text)).replace(/%20/g, '+').replace(/[!'()~]/g, formHex)

function decoder (label, fatal, ignoreBOM) {
  try {
    return new TextDecoder(label, { fatal, ignoreBOM })
  } catch {
    return undefined
  }
}

// Copied: only the slots of the guest's array are read.
function decode (handle, bytes, stream) {
  try {
    return types.isUint8Array(bytes) ? handle.decode(new Uint8Array(bytes), { stream: stream === true }) : undefined
  } catch {
    return undefined
  }
}

function base64Decode (text) {
  try {
    return atob(text)
  } catch {
    return undefined
  }
}

function base64Encode (text) {
  try {
    return btoa(text)
  } catch {
    return undefined
  }
}

let read = 0
function encodeInto (text, bytes) {
  if (typeof text !== 'string' || !types.isUint8Array(bytes)) throw new TypeError('a text and bytes are needed')
  const done = encoder.encodeInto(text, bytes)
  read = done.read
  return done.written
}

// Frames of the realm's own parts, of the agent and of Node are useless to the user.
const OURS = new RegExp(`^\\s+at (.*\\(|async )?(${__dirname.replace(/[^\w/]/g, '\\$&')}/|node:)`)
const STACK_CHARS_MAX = 65536
const cleanStack = (stack) => stack.slice(0, STACK_CHARS_MAX).split('\n').filter((line) => !OURS.test(line)).join('\n')

const isPrimitive = (value) => (typeof value !== 'object' || value === null) && typeof value !== 'function'
const primitive = (fn) => (a, b, c, d) => {
  if (!isPrimitive(a) || !isPrimitive(b) || !isPrimitive(c) || !isPrimitive(d)) throw new TypeError('a built-in method was replaced')
  return fn(a, b, c, d)
}
const primitives = (leaves) => Object.fromEntries(Object.entries(leaves).map(([name, fn]) => [name, primitive(fn)]))

module.exports = {
  cleanStack,
  primitives,
  wellFormed,
  leaves: {
    kind,
    decode,
    encodeInto,
    encodeRead: () => read,
    encodingOf: (handle) => handle.encoding,
    storage: () => new AsyncLocalStorage(),
    storageRun: (storage, store, callback) => storage.run(store, callback),
    storageGet: (storage) => storage.getStore(),
    ...primitives({
      parseUrl,
      changeUrl,
      formDecode,
      formEncode,
      wellFormed,
      byteLength: (text) => Buffer.byteLength(text),
      decoder,
      base64Decode,
      base64Encode,
      random: (size) => randomBytes(size).toString('latin1'),
      now: () => performance.now(),
      date: () => Date.now()
    })
  }
}
