// The console, a function of `host` (the kit) run in the guest's realm. One call is one line,
// rendered here: arguments joined by a space, no substitution, and no value can make a call throw.
'use strict'
const { define, isObject, stringOf } = host
const { JSON, Map, Object, Array } = globalThis
const stringify = JSON.stringify
const tagOf = host.uncurry(Object.prototype.toString)
const join = host.uncurry(Array.prototype.join)
const TAGGED = { __proto__: null, Map: true, Set: true, Promise: true, WeakMap: true, WeakSet: true, ArrayBuffer: true, DataView: true, Generator: true, Iterator: true }

function renderError (error) {
  const text = stringOf(error)
  const stack = error.stack
  if (typeof stack !== 'string') return text
  const shown = host.cleanStack(stack)
  return shown.startsWith(text) ? shown : `${text}\n${shown}`
}

// JSON has no big integers.
const plain = (key, value) => typeof value === 'bigint' ? stringOf(value) : value

function renderObject (value) {
  if (typeof value === 'function') return tagOf(value)
  const kind = host.kind(value)
  if (kind === 'Error') return renderError(value)
  if (kind === 'RegExp') return stringOf(value)
  if (TAGGED[kind] === true) return tagOf(value)
  if (host.typedName(value) !== undefined) return join(value, ',')
  try {
    return stringify(value, plain) ?? tagOf(value)
  } catch {
    return tagOf(value)
  }
}

function render (value) {
  try {
    return isObject(value) ? renderObject(value) : stringOf(value)
  } catch {
    return '[unprintable]'
  }
}

function write (stream, args) {
  let line = ''
  for (let i = 0; i < args.length; i++) line += i === 0 ? render(args[i]) : ` ${render(args[i])}`
  host.tell(stream, line)
}

const console = {}
const streams = { __proto__: null, log: 'stdout', debug: 'stdout', info: 'stdout', warn: 'stderr', error: 'stderr' }
const SILENT = [
  'assert', 'clear', 'count', 'countReset', 'dir', 'dirxml', 'group', 'groupCollapsed', 'groupEnd', 'table', 'time', 'timeEnd', 'timeLog',
  'timeStamp', 'trace', 'profile', 'profileEnd', 'context'
]
for (const name of Object.keys(streams)) {
  define(console, name, { [name] (...args) { write(streams[name], args) } }[name])
}
for (const name of SILENT) define(console, name, { [name] () {} }[name])
host.provide('console', console)
return { render }
