// The contents of a context for tools: its variables, and completions. Runs no user code: no
// getter, no proxy. A function of `host`, run in the agent's own realm.
'use strict'
const { types, globals, scan } = host
const VARIABLES_MAX = 1000
const SUMMARY_MAX = 200
const MATCHES_MAX = 500
const KEYS_SHOWN = 10
const PROTOTYPES_MAX = 20

const isObject = (value) => value !== null && (typeof value === 'object' || typeof value === 'function')
const dataOf = (object, key) => Object.getOwnPropertyDescriptor(object, key)?.value
const getter = (prototype, name) => Object.getOwnPropertyDescriptor(prototype, name).get
const sizeOfMap = getter(Map.prototype, 'size')
const sizeOfSet = getter(Set.prototype, 'size')
const typedPrototype = Object.getPrototypeOf(Uint8Array.prototype)
const lengthOf = getter(typedPrototype, 'length')
const kindOf = getter(typedPrototype, Symbol.toStringTag)
const sourceOf = getter(RegExp.prototype, 'source')
const FLAGS = Object.entries({ hasIndices: 'd', global: 'g', ignoreCase: 'i', multiline: 'm', dotAll: 's', unicode: 'u', unicodeSets: 'v', sticky: 'y' })
  .filter(([name]) => name in RegExp.prototype).map(([name, flag]) => [getter(RegExp.prototype, name), flag])
const { apply } = Reflect

// Search along the prototypes; undefined if that would run code.
function find (object, key) {
  for (let left = PROTOTYPES_MAX; isObject(object) && left > 0; left--) {
    if (types.isProxy(object)) return undefined
    const descriptor = Object.getOwnPropertyDescriptor(object, key)
    if (descriptor !== undefined) return descriptor
    object = Object.getPrototypeOf(object)
  }
}

// -- variables

const textOf = (value) => apply(Function.prototype.toString, value, [])
const isClass = (value) => /^class\b/.test(textOf(value))
const count = (n) => `${n} item${n === 1 ? '' : 's'}`

function typeOf (value) {
  if (!isObject(value)) return value === null ? 'null' : typeof value
  if (types.isProxy(value)) return 'Proxy'
  if (typeof value === 'function') return isClass(value) ? 'class' : 'function'
  const constructor = find(value, 'constructor')?.value
  const name = typeof constructor === 'function' && !types.isProxy(constructor) ? dataOf(constructor, 'name') : undefined
  return typeof name === 'string' && name !== '' ? name : 'Object'
}

function ofText (value) {
  const cut = host.inspect(value.slice(0, SUMMARY_MAX), { breakLength: Infinity }) // to break lines it calls RegExp.prototype.exec, which may be the user's
  return cut.length <= SUMMARY_MAX && value.length <= SUMMARY_MAX ? cut : `${cut.slice(0, 150)}... (${value.length})`
}

function ofFunction (value) {
  const name = dataOf(value, 'name')
  if (isClass(value)) return `class ${typeof name === 'string' ? name : ''}`.trimEnd()
  const parameters = scan.parameters(textOf(value).slice(0, 2000))?.map((parameter) => (parameter.rest ? '...' : '') + (parameter.name ?? '{}')) ?? ['...']
  return `${typeof name === 'string' && name !== '' ? name : 'function'}(${parameters.join(', ')})`
}

// As RegExp.prototype.toString, which asks properties of the object.
const ofRegExp = (value) => `/${apply(sourceOf, value, [])}/${FLAGS.map(([has, flag]) => apply(has, value, []) ? flag : '').join('')}`

function ofObject (value) {
  const keys = Object.keys(value)
  const shown = keys.slice(0, KEYS_SHOWN).join(', ')
  return `{${shown}${keys.length > KEYS_SHOWN ? `, ... (${keys.length})` : ''}}`
}

const SUMMARIES = [
  [types.isProxy, () => 'Proxy'],
  [(value) => typeof value === 'function', ofFunction],
  [Array.isArray, (value) => count(value.length)],
  [types.isMap, (value) => count(apply(sizeOfMap, value, []))],
  [types.isSet, (value) => count(apply(sizeOfSet, value, []))],
  [types.isTypedArray, (value) => `${apply(kindOf, value, [])} of ${count(apply(lengthOf, value, []))}`],
  [types.isDate, (value) => {
    const time = apply(Date.prototype.getTime, value, [])
    return Number.isNaN(time) ? 'Invalid Date' : new Date(time).toISOString()
  }],
  [types.isNativeError, (value) => {
    const message = dataOf(value, 'message')
    return typeof message === 'string' ? message : ''
  }],
  [(value) => types.isPromise(value) || types.isRegExp(value), (value) => types.isRegExp(value) ? ofRegExp(value) : 'Promise'],
  [() => true, ofObject]
]

function summaryOf (value) {
  if (typeof value === 'string') return ofText(value)
  if (!isObject(value)) return host.inspect(value)
  try {
    return SUMMARIES.find(([is]) => is(value))[1](value)
  } catch {
    return typeOf(value)
  }
}

function describe () {
  const variables = []
  for (const name of globals.names()) {
    const found = globals.look(name)
    if (found === undefined) continue
    if (variables.length === VARIABLES_MAX) break
    variables.push({ name, type: typeOf(found.value).slice(0, SUMMARY_MAX), summary: summaryOf(found.value).slice(0, SUMMARY_MAX) })
  }
  return { variables }
}

// -- completions

const CHAIN = /((?:[\p{ID_Start}$_][\p{ID_Continue}$]*\s*(?:\?\s*)?\.\s*)*)([\p{ID_Start}$_][\p{ID_Continue}$]*)?$/u
const WORDS = [
  'async', 'await', 'break', 'case', 'catch', 'class', 'const', 'continue', 'debugger', 'default', 'delete', 'else', 'export', 'extends', 'false', 'finally',
  'for', 'function', 'if', 'import', 'in', 'instanceof', 'let', 'new', 'null', 'of', 'return', 'static', 'super', 'switch', 'this', 'throw', 'true', 'try',
  'typeof', 'undefined', 'var', 'void', 'while', 'with', 'yield'
]
const isName = (key) => typeof key === 'string' && /^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(key)
const PROTOTYPE_OF = { __proto__: null, string: String, number: Number, boolean: Boolean, bigint: BigInt, symbol: Symbol }

// The object the names of the chain lead to, or undefined.
function lead (chain) {
  const [first, ...rest] = chain
  let value = (first === 'this' ? { value: host.globalThis } : globals.look(first))?.value
  for (const name of rest) value = isObject(value) ? find(value, name)?.value : undefined
  return isObject(value) ? value : PROTOTYPE_OF[typeof value]?.prototype
}

function* keysOf (object) {
  for (let left = PROTOTYPES_MAX; isObject(object) && !types.isProxy(object) && left > 0; left--) {
    const keys = Reflect.ownKeys(object)
    for (let i = 0; i < keys.length && i < 100 * MATCHES_MAX; i++) if (isName(keys[i])) yield keys[i]
    object = Object.getPrototypeOf(object)
  }
}

function* globalNames () {
  yield* globals.names()
  yield* WORDS
  yield* keysOf(host.globalThis)
}

function matching (candidates, prefix) {
  const found = new Set()
  for (const name of candidates) {
    if (name.startsWith(prefix) && (prefix !== '' || !name.startsWith('_'))) found.add(name)
    if (found.size === MATCHES_MAX) break
  }
  return [...found]
}

// `at`, `from` and `to` count code points.
function complete ({ code, at }) {
  const points = [...code.slice(0, 2 * at)].slice(0, at)
  const before = points.join('')
  const [, chain, word = ''] = CHAIN.exec(before.slice(-1000))
  const names = chain.split('.').map((part) => part.replace(/[\s?]/g, '')).slice(0, -1)
  const to = points.length
  const none = { matches: [], from: to, to }
  const head = before.slice(0, before.length - word.length - chain.length)
  let candidates
  if (names.length > 0) candidates = /\.\s*$/.test(head) ? [] : keysOf(lead(names))
  else if (/["'`]\s*\??\.\s*$/.test(head)) candidates = keysOf(String.prototype)
  else candidates = /[.\d]\s*$/.test(head) ? [] : globalNames()
  const matches = matching(candidates, word)
  return matches.length === 0 ? none : { matches, from: to - [...word].length, to }
}

return { describe, complete, find, typeOf, summaryOf, textOf, dataOf }
