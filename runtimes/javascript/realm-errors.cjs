// Describes exceptions in the contract's terms. A function of `host` (the kit of realm-core.cjs)
// run in the guest's realm: accessing the guest's errors from Node's realm would pass objects of
// Node's to its getters and Error.prepareStackTrace.
'use strict'
const { apply, define, defineProperty, isObject, ownKeys, getOwnPropertyDescriptor, stringOf } = host
const { AggregateError, Array, Error, EvalError, Object, RangeError, ReferenceError, SyntaxError, TypeError, URIError, WeakMap } = globalThis
const codeGet = host.uncurry(WeakMap.prototype.get)
const codeSet = host.uncurry(WeakMap.prototype.set)
const builtIn = { __proto__: null, Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError }
const HIDDEN = { __proto__: null, name: true, message: true, stack: true }
const has = (object, key) => getOwnPropertyDescriptor(object, key) !== undefined
const isArray = Array.isArray

// The errors of an AggregateError are an own property, which is not enumerable.
function holdsErrors (error) {
  const property = getOwnPropertyDescriptor(error, 'errors')
  return property !== undefined && !property.enumerable && isArray(property.value)
}

const isHidden = (key) => HIDDEN[key] === true || key === '__proto__'

// The contract's code of an error belongs to the object, not to its text: a new error made from it is the user's.
const codes = new WeakMap()
function mark (error, code) {
  codeSet(codes, error, code)
  return error
}

function read (object, key) {
  try {
    const value = object[key]
    return typeof value === 'string' ? value : undefined
  } catch {
    return undefined
  }
}

function text (value) {
  try {
    return stringOf(value)
  } catch {
    return 'a value that cannot be shown'
  }
}

// Own enumerable properties except those with a place of their own; undefined if there are none.
function fieldsOf (thrown) {
  let fields
  try {
    for (const key of ownKeys(thrown)) {
      if (typeof key !== 'string' || isHidden(key) || !getOwnPropertyDescriptor(thrown, key)?.enumerable) continue
      const value = thrown[key]
      fields ??= {}
      define(fields, key, value)
    }
    if (holdsErrors(thrown)) {
      fields ??= {}
      define(fields, 'errors', thrown.errors)
    }
  } catch {}
  return fields
}

function describe (thrown) {
  if (!isObject(thrown)) return { __proto__: null, code: 'ERR_USER_CODE', name: 'Error', message: text(thrown), stack: undefined, fields: undefined }
  const code = codeGet(codes, thrown) ?? 'ERR_USER_CODE'
  return {
    __proto__: null,
    code,
    name: read(thrown, 'name') || 'Error',
    message: read(thrown, 'message') ?? text(thrown),
    stack: code === 'ERR_HOST_BRIDGE' ? undefined : read(thrown, 'stack'),
    fields: fieldsOf(thrown)
  }
}

// Makes an error of this realm from one that a host function threw.
function rebuild (name, message, fields) {
  const error = name === 'AggregateError' ? new AggregateError([], message) : new (builtIn[name] ?? Error)(message)
  define(error, 'name', name, false)
  define(error, 'stack', message === '' ? name : `${name}: ${message}`, false)
  if (isObject(fields)) {
    for (const key of Object.keys(fields)) if (!isHidden(key)) define(error, key, fields[key], key !== 'errors' || !holdsErrors(error))
    // Where an early version of the contract had them all.
    if (!has(error, 'data')) define(error, 'data', fields, false)
  }
  return mark(error, 'ERR_HOST_BRIDGE')
}

// An error of the agent's that the guest can catch and that has its code.
function coded (code, message, name = 'TypeError') {
  const error = new (builtIn[name] ?? TypeError)(message)
  define(error, 'code', code, false)
  return mark(error, code)
}

function callable (what, fn) {
  if (typeof fn !== 'function') throw new TypeError(`${what} must be a function`)
  return fn
}

// A callback that is not awaited has no caller to throw to: the run ends with its exception.
function report (fn, self, args) {
  try {
    return apply(fn, self, args)
  } catch (thrown) {
    host.uncaught(describe(thrown))
  }
}

// A class of the agent's behind a name the guest reads: not writable, as built-in ones are.
const constant = (target, name, value) => defineProperty(target, name, { __proto__: null, value, enumerable: true })

return { describe, rebuild, coded, callable, holdsErrors, report, constant }
