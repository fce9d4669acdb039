// Exceptions in the form of the result: the language's own type, message, and a stack in the user's
// coordinates. A function of `host`, run in the agent's own realm.
'use strict'
const CAUSES_MAX = 8
const STACK_CHARS_MAX = 65536
const { types } = host

// Reading a property may run user code.
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
    return String(value)
  } catch {
    return 'a value that cannot be shown'
  }
}

function typeOf (error) {
  try {
    const { name } = error.constructor
    if (typeof name === 'string' && name && name !== 'Error' && name !== 'Object') return name
  } catch {}
  return read(error, 'name') || 'Error'
}

const isOurs = (line) => line.includes(host.directory) || /\(?node:/.test(line)
// Without the agent's frames, and those of built-in functions that it called.
function clean (stack) {
  let isCalledByUs = true // from the end on: each line's caller comes behind it
  const keeps = (line) => {
    if (!/^\s+at /.test(line)) return true
    if (/\(<anonymous>\)$/.test(line)) return !isCalledByUs
    isCalledByUs = isOurs(line)
    return !isCalledByUs
  }
  return stack.split('\n').reverse().filter(keeps).reverse().join('\n')
}

function stackOf (error, left = CAUSES_MAX) {
  const stack = clean(read(error, 'stack') ?? text(error))
  let cause
  try {
    cause = error.cause
  } catch {}
  if (left === 0 || !types.isNativeError(cause)) return stack
  return `${stack}\nCaused by: ${stackOf(cause, left - 1)}`
}

function describe (thrown) {
  const isError = types.isNativeError(thrown) || (thrown !== null && typeof thrown === 'object' && typeof read(thrown, 'message') === 'string')
  if (!isError) return { type: 'Error', message: wellFormed(text(thrown)), stack: '' }
  return {
    type: wellFormed(typeOf(thrown)),
    message: wellFormed(read(thrown, 'message') ?? ''),
    stack: wellFormed(stackOf(thrown).slice(0, STACK_CHARS_MAX))
  }
}

// A lone surrogate is not Unicode and would make the response invalid JSON.
const wellFormed = (value) => value.toWellFormed ? value.toWellFormed() : value.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g, '\uFFFD')

return { describe, wellFormed }
