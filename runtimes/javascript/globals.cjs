// The names of cells: properties of the global object of the main realm. `let`, `var`, functions
// and classes are plain ones; a constant is not writable, or, if some code assigns to it, throws on
// assignment (an unwritable property would fail silently). A function of `host`, run in the agent's
// own realm.
'use strict'
const { globalThis, TypeError, ReferenceError, SyntaxError } = host
const { defineProperty, getOwnPropertyDescriptor, hasOwn, getOwnPropertyNames, is } = Object

const kinds = new Map() // of every name that a cell declared
const constants = new Map() // those that throw: {isSet, value}
const assigned = new Set() // names that some cell assigns to, perhaps in a function
const known = new Map(getOwnPropertyNames(globalThis).map((name) => [name, getOwnPropertyDescriptor(globalThis, name)])) // Node's own

const define = (name, value) => defineProperty(globalThis, name, { value, writable: true, enumerable: true, configurable: true })
const isPlain = (descriptor) => descriptor !== undefined && hasOwn(descriptor, 'value')

// Define a global of the agent's, which is not counted as the user's. A name that code declared stays.
function offer (name, value) {
  if (kinds.has(name)) return
  defineProperty(globalThis, name, { value, writable: true, enumerable: false, configurable: true })
  known.set(name, getOwnPropertyDescriptor(globalThis, name))
}

function makeConstant (name, isSet, value) {
  const constant = { isSet, value }
  constants.set(name, constant)
  defineProperty(globalThis, name, {
    enumerable: true,
    configurable: true,
    get () {
      if (!constant.isSet) throw new ReferenceError(`Cannot access '${name}' before initialization`)
      return constant.value
    },
    set (given) {
      if (constant.isSet) throw new TypeError('Assignment to constant variable.')
      constant.isSet = true
      constant.value = given
    }
  })
}

// Make the name assignable, keeping its value.
function loosen (name, isNeeded) {
  constants.delete(name)
  const now = getOwnPropertyDescriptor(globalThis, name)
  if (now === undefined) {
    if (isNeeded || name in globalThis) define(name, undefined)
  } else if (!(isPlain(now) && now.writable)) {
    if (!now.configurable) throw new SyntaxError(`Identifier '${name}' has already been declared`)
    let value
    try {
      value = globalThis[name]
    } catch {}
    define(name, value)
  }
}

// Called before a cell runs. cell: the result of rewrite.cjs.
function begin (cell) {
  cell.assigned.forEach((name) => assigned.add(name))
  cell.assigned.forEach((name) => {
    const now = kinds.get(name) === 'const' && !cell.kinds.has(name) && !constants.has(name) ? getOwnPropertyDescriptor(globalThis, name) : undefined
    if (isPlain(now) && !now.writable && now.configurable) makeConstant(name, true, now.value)
  })
  cell.kinds.forEach((kind, name) => {
    loosen(name, cell.isStrict || kind === 'var')
    kinds.set(name, kind === 'import' ? 'const' : kind)
    if (!cell.assigned.has(name) || getOwnPropertyDescriptor(globalThis, name)?.configurable === false) return
    if (kind === 'const') makeConstant(name, false, undefined)
    if (kind === 'import') makeConstant(name, true, globalThis[name])
  })
  for (let i = 0; i < cell.empty.length; i++) globalThis[cell.empty[i]] = undefined
}

// Define the bindings of an import: [name, value] each.
function bring (pairs) {
  pairs.forEach(([name, value]) => {
    loosen(name, true)
    globalThis[name] = value
  })
}

// Called after a cell, failed or not: make its declared constants constant.
function end (cell) {
  cell.kinds.forEach((kind, name) => {
    if (kind !== 'const' && kind !== 'import') return
    const constant = constants.get(name)
    const now = getOwnPropertyDescriptor(globalThis, name)
    if (constant !== undefined) {
      if (constant.isSet) return
      constants.delete(name)
      delete globalThis[name]
    } else if (isPlain(now) && now.configurable) {
      if (assigned.has(name)) makeConstant(name, true, now.value)
      else defineProperty(globalThis, name, { writable: false })
    }
  })
}

// {value} of a name, or undefined if reading it would run user code. Node's own lazy getters are run.
function look (name) {
  const constant = constants.get(name)
  if (constant !== undefined) return constant.isSet ? { value: constant.value } : undefined
  const now = getOwnPropertyDescriptor(globalThis, name)
  if (isPlain(now)) return { value: now.value }
  const own = known.get(name)
  return now !== undefined && own?.get === now.get ? { value: globalThis[name] } : undefined
}

// The user's names, declared or not, in the order of creation.
function names () {
  const found = new Set(kinds.keys())
  const all = getOwnPropertyNames(globalThis)
  for (let i = 0; i < all.length; i++) {
    const now = known.has(all[i]) ? known.get(all[i]) : undefined
    if (now === undefined || (isPlain(now) && !is(now.value, look(all[i])?.value))) found.add(all[i])
  }
  return found
}

// The last result, until the user defines a `_`.
let last
function keepLast (value) {
  const now = getOwnPropertyDescriptor(globalThis, '_')
  if (kinds.has('_') || (now !== undefined && now.value !== last)) return
  last = value
  defineProperty(globalThis, '_', { value, writable: true, enumerable: false, configurable: true })
  known.set('_', getOwnPropertyDescriptor(globalThis, '_'))
}

// Returns a function that makes the last result what it is now.
function saveLast () {
  const now = getOwnPropertyDescriptor(globalThis, '_')
  const own = known.get('_')
  const value = last
  return () => {
    if (now === undefined) delete globalThis._
    else defineProperty(globalThis, '_', now)
    if (own === undefined) known.delete('_')
    else known.set('_', own)
    last = value
  }
}

// Called after a rehearsal.
function forget () {
  for (const name of names()) delete globalThis[name]
  delete globalThis._
  for (const own of [kinds, constants, assigned]) own.clear()
  known.delete('_')
  last = undefined
}

return { begin, bring, end, look, names, known, offer, keepLast, saveLast, forget }
