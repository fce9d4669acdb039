// Timers, microtasks, the clock and randomness, a function of `host` (the kit) run in the guest's realm.
'use strict'
const { bytesFrom, bytesOf, callable, define, defineProperty, provide, report } = host
const { Math, Promise, RangeError, Symbol, Uint32Array } = globalThis
const TIMERS_MAX = 10000
const DELAY_MAX = 2147483647
const RANDOM_BYTES_MAX = 65536
const then = host.uncurry(Promise.prototype.then)
const settled = Promise.resolve()

// -- timers

const live = { __proto__: null }
let count = 0
let last = 0

function start (name, callback, delay, args, repeat) {
  callable(`${name}: the callback`, callback)
  if (count === TIMERS_MAX) throw new RangeError(`${name}: more than ${TIMERS_MAX} timers are pending`)
  const ms = Math.trunc(+delay)
  const id = ++last
  live[id] = { callback, args, repeat, name }
  count++
  host.setTimer(id, ms >= 1 && ms <= DELAY_MAX ? ms : 1, repeat)
  return id
}

function stop (id) {
  const known = typeof id === 'number' || typeof id === 'string' ? live[id] : undefined
  if (known === undefined) return
  delete live[id]
  count--
  host.clearTimer(+id)
}

function fire (id) {
  const timer = live[id]
  if (timer === undefined) return
  if (!timer.repeat) {
    delete live[id]
    count--
  }
  report(timer.callback, undefined, timer.args)
}

function setTimeout (callback, delay, ...args) { return start('setTimeout', callback, delay, args, false) }
function setInterval (callback, delay, ...args) { return start('setInterval', callback, delay, args, true) }
function clearTimeout (id) { stop(id) }
function clearInterval (id) { stop(id) }
function queueMicrotask (callback) {
  callable('queueMicrotask: the callback', callback)
  then(settled, () => report(callback, undefined, []))
}
const functions = { setTimeout, setInterval, clearTimeout, clearInterval, queueMicrotask }
for (const name in functions) provide(name, functions[name])

function pendingTimer () {
  for (const id in live) return live[id].name
}

// -- clock

let origin = 0
let originDate = 0
class Performance {
  now () { return host.now() - origin }
  get timeOrigin () { return originDate }
  toJSON () { return { timeOrigin: originDate } }
}
defineProperty(Performance.prototype, Symbol.toStringTag, { __proto__: null, value: 'Performance', configurable: true })
provide('performance', new Performance())

// -- randomness

// The realm has its own: V8's generator is seeded once per realm, and every fork of a template
// would see the same numbers.
let seed
function random () {
  seed ??= new Uint32Array(bytesFrom(host.random(16)).buffer)
  const t = (seed[0] + seed[1] + seed[3]++) | 0
  seed[0] = seed[1] ^ (seed[1] >>> 9)
  seed[1] = seed[2] + (seed[2] << 3)
  seed[2] = ((seed[2] << 21) | (seed[2] >>> 11)) + t
  return (t >>> 0) / 4294967296 + (seed[0] & 0x1fffff) / 9007199254740992
}
define(Math, 'random', { random }.random, false)

const INTEGERS = {
  __proto__: null, Int8Array: true, Uint8Array: true, Uint8ClampedArray: true, Int16Array: true, Uint16Array: true, Int32Array: true, Uint32Array: true,
  BigInt64Array: true, BigUint64Array: true
}
const hex = (byte) => (byte < 16 ? '0' : '') + byte.toString(16)

class Crypto {
  getRandomValues (array) {
    const bytes = INTEGERS[host.isObject(array) ? host.typedName(array) : ''] === true ? bytesOf(array) : undefined
    if (bytes === undefined) throw new host.DOMException('getRandomValues: an array of integers is needed', 'TypeMismatchError')
    if (bytes.length > RANDOM_BYTES_MAX) throw new host.DOMException(`getRandomValues: more than ${RANDOM_BYTES_MAX} bytes`, 'QuotaExceededError')
    const from = host.random(bytes.length)
    for (let i = 0; i < bytes.length; i++) bytes[i] = from.charCodeAt(i)
    return array
  }

  randomUUID () {
    const bytes = bytesFrom(host.random(16))
    bytes[6] = (bytes[6] & 0x0f) | 0x40
    bytes[8] = (bytes[8] & 0x3f) | 0x80
    let text = ''
    for (let i = 0; i < 16; i++) text += (i === 4 || i === 6 || i === 8 || i === 10 ? '-' : '') + hex(bytes[i])
    return text
  }
}
defineProperty(Crypto.prototype, Symbol.toStringTag, { __proto__: null, value: 'Crypto', configurable: true })
provide('crypto', new Crypto())

// A run begins: its clock starts and its random numbers are its own.
function begin () {
  origin = host.now()
  originDate = host.date()
  seed = undefined
}

function clear () {
  for (const id in live) stop(id)
}

return { fire, pendingTimer, begin, clear, startTimer: start, eventTime: () => host.now() - origin }
