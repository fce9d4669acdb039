'use strict'
// Templates: prewarming and rehearsals before the fork, and state that siblings must not share
// after it. The delicate part is in libcloche-guest (src/box/join/node.c).
const crypto = require('node:crypto')
const v8 = require('node:v8')
const vm = require('node:vm')

const LIBRARY = '/run/cloche/libcloche-guest.so'
const REHEARSALS = 8 // of calls: with 4 to 60 a run costs the same (decision 0029)
const EVALUATIONS = 15
const UUIDS_CACHED = 128
const INTEGERS_CACHED = 1024
const REAP_MS = 500
const CHANNEL_FD = 3
const KINDS_SHOWN = 8
const LINES_BYTES = 65536
const OWN_FLAGS = /^--(single-threaded|v8-pool-size=|no-memory-reducer)/
const MODULES = [
  'assert', 'async_hooks', 'buffer', 'child_process', 'crypto', 'events', 'fs', 'fs/promises', 'http', 'https', 'module', 'net', 'os', 'path',
  'perf_hooks', 'querystring', 'readline', 'stream', 'stream/promises', 'string_decoder', 'timers/promises', 'tty', 'url', 'util', 'worker_threads', 'zlib'
]
// Getters that load their modules.
const GLOBALS = ['fetch', 'Headers', 'Request', 'Response', 'FormData', 'WebSocket', 'crypto', 'ReadableStream', 'TextDecoderStream', 'CompressionStream', 'Blob', 'BroadcastChannel']

const CALLS = [
  ['args', null, [1, 'two', 3.5, null, [true], { key: 1, bytes: new Uint8Array(3) }]],
  ['function f(a, b = 2, ...rest) { return { a, b: [b, rest], map: new Map([[1, new Set([1])]]), date: new Date(0), n: 1n } }', null, [1, 'x']],
  ['const util = require("util"); class A {}\nasync function g(x) { await null; return [String(x), JSON.stringify(x), util.inspect(x)] }', 'g', [{ k: [1, 2] }]],
  ['exports.api = { add: (a, b) => a + b }', 'api.add', [1, 2]],
  ['import os from "os"\nexport default (x) => [x, typeof os]', null, ['y']],
  ['function h() { throw new TypeError("no") }', 'h', []],
  ['[1, 2, 3].map((x) => x * 2).reduce((a, b) => a + b)', null, []],
  ['const t = await Promise.resolve(5)\nt + 1', null, []],
  ['return await $warm(1)', null, []],
  ['import { echo } from "$warm"\nexport default (x) => echo(x)', null, ['y']]
]
const PLAIN_CALLS = [CALLS[2], ['return args[0]', null, [1, 'x']]]
const EVALUATED = [
  'export default 1', 'export const a = [1, "x", { y: new Map([[1, 2]]) }], b = new Date(0)\nexport default async function () {}', 'throw new TypeError("no")',
  'console.log("x", { a: [1] }); export default await new Promise((resolve) => setTimeout(resolve, 0, [1, "a", { b: 2n }]))',
  'export default await $warm(1, { a: [2] })', 'import { echo } from "$warm"; export default await echo(1)',
  'export const a = new Uint8Array(3), b = new Set([undefined]), c = new Error("no"), d = /x/g, e = 1n', 'export default JSON.stringify({ u: new URL("http://a/b"), r: Math.random() })',
  'this is no program'
]

// -- numbers that siblings must not share

const state = new Uint32Array(4)
let seeded = false
// V8 seeds its own once per realm, and children would go on with the same numbers.
function random () {
  if (!seeded) crypto.randomFillSync(state)
  seeded = true
  const t = (state[0] + state[1] + state[3]++) | 0
  state[0] = state[1] ^ (state[1] >>> 9)
  state[1] = state[2] + (state[2] << 3)
  state[2] = ((state[2] << 21) | (state[2] >>> 11)) + t
  return (t >>> 0) / 4294967296 + (state[0] & 0x1fffff) / 9007199254740992
}

// Node generates random bytes ahead for these two. Each child discards those that a set-up left.
const cached = { randomUUID: UUIDS_CACHED, randomInt: INTEGERS_CACHED }
const used = new Set()
const plain = { randomUUID: crypto.randomUUID, randomInt: crypto.randomInt }
const WebCrypto = Object.getPrototypeOf(crypto.webcrypto) // Node 18 has no such global
const webUUID = Object.getOwnPropertyDescriptor(WebCrypto, 'randomUUID')

function watchRandom () {
  Object.defineProperty(Math, 'random', { value: { random }.random, writable: true, configurable: true })
  for (const name of Object.keys(cached)) {
    crypto[name] = { [name] (...args) {
      used.add(name)
      return plain[name](...args)
    } }[name]
  }
  Object.defineProperty(WebCrypto, 'randomUUID', { ...webUUID, value: { randomUUID () {
    used.add('randomUUID')
    return webUUID.value.call(this)
  } }.randomUUID })
  require('node:module').syncBuiltinESMExports()
}

function renewRandom () {
  seeded = false
  for (const name of used) for (let left = cached[name]; left > 0; left--) plain[name](name === 'randomInt' ? 2 : undefined)
}

// -- clocks: a child's starts with it

const { now } = Object.getPrototypeOf(performance)
const { timeOrigin } = performance
const { uptime } = process
const clock = { origin: 0, born: 0 }

function watchClocks () {
  const prototype = Object.getPrototypeOf(performance)
  const define = (name, descriptor) => Object.defineProperty(prototype, name, { ...Object.getOwnPropertyDescriptor(prototype, name), ...descriptor })
  define('now', { value: { now () { return now.call(this) - clock.origin } }.now })
  define('timeOrigin', { get () { return timeOrigin + clock.origin } })
  process.uptime = { uptime: () => uptime() - clock.born }.uptime
}

function renewClocks () {
  clock.origin = now.call(performance)
  clock.born = uptime()
}

// -- fork blockers that libcloche-guest cannot see

const workers = new Set()
function watchWorker (worker) {
  workers.add(worker)
  worker.once('exit', () => workers.delete(worker))
}

require('node:diagnostics_channel').subscribe('worker_threads', ({ worker }) => watchWorker(worker))
if (parseInt(process.versions.node, 10) < 20) watchClass(require('node:worker_threads'))

// Node 18 does not publish on that channel.
function watchClass (threads) {
  threads.Worker = class Worker extends threads.Worker {
    constructor (...args) {
      super(...args)
      watchWorker(this)
    }
  }
  require('node:module').syncBuiltinESMExports()
}

function blocker () {
  if (workers.size > 0) return 'a worker thread is alive'
  const requests = process._getActiveRequests().map((request) => request.constructor.name)
  return requests.length > 0 ? `requests are under way: ${requests.join(', ')}` : undefined
}

// Handles of the user's in the event loop: sockets, servers, child processes. The channel and the
// streams are not the user's.
function openHandles () {
  const own = new Set([process.stdout, process.stderr])
  const kinds = process._getActiveHandles().filter((handle) => !own.has(handle) && handle._handle?.fd !== CHANNEL_FD).map((handle) => handle.constructor.name)
  return kinds.length > 0 ? `handles are open: ${kinds.slice(0, KINDS_SHOWN).join(', ')}` : undefined
}

class Template {
  constructor () {
    const library = { exports: {} }
    process.dlopen(library, LIBRARY)
    this.library = library.exports
    // With the first stream libuv opens a descriptor for itself, and keeps it.
    new (require('node:net').Socket)({ fd: this.library.lonelySocket() }).destroy()
    const started = this.library.start()
    if (started !== 1) throw new Error(`cannot become a template: ${started}`)
    watchRandom()
    watchClocks()
    this.mute()
    process.execArgv = process.execArgv.filter((flag) => !OWN_FLAGS.test(flag)) // forks of the user's code would inherit them
    v8.setFlagsFromString('--no-flush-bytecode')
    v8.setFlagsFromString('--expose-gc')
    this.gc = vm.runInNewContext('gc')
    v8.setFlagsFromString('--no-expose-gc') // otherwise each new realm would have it
  }

  // A template's output has no reader; writing to a pipe without one would fail.
  mute () {
    for (const stream of [process.stdout, process.stderr]) {
      stream._write = (chunk, encoding, done) => done()
      stream._writev = (chunks, done) => done()
    }
  }

  unmute () {
    for (const stream of [process.stdout, process.stderr]) {
      delete stream._writev // the last one first: V8 then keeps the object's form
      delete stream._write
    }
  }

  preload () {
    for (const name of MODULES) require(`node:${name}`)
    for (const name of GLOBALS) void globalThis[name] // eslint-disable-line no-void
    return fetch('data:,x').then((response) => response.text())
  }

  // Code that has run is compiled, and writes less memory in a child.
  async warmUp ({ call, evaluate, socket }) {
    await this.preload()
    this.rehearseBirth()
    this.isWarmingUp = true
    for (let i = 0; i < REHEARSALS; i++) {
      for (const [code, name, args] of CALLS) await call(code, name, args)
    }
    for (let i = 0; i < EVALUATIONS; i++) {
      for (const code of EVALUATED) await evaluate(code)
      await socket(this.library.lonelySocket())
    }
    this.isWarmingUp = false
    used.clear()
  }

  rehearseBirth () {
    const { reallyExit } = process
    this.born()
    process.reallyExit = reallyExit
    this.unmute()
    this.mute()
  }

  // Runs in a child before its first request: the memory that a call writes to becomes its own
  // before the call comes. Code of a set-up ran in this process: nothing is rehearsed that could
  // collide with it.
  async refresh (call) {
    this.isRefreshing = true
    v8.setFlagsFromString('--no-opt') // userCodeBegins then finds the pages of the flags copied
    try {
      for (const [code, name, args] of PLAIN_CALLS) if (this.library.isAsked() === 0) await call(code, name, args)
    } finally {
      this.isRefreshing = false
    }
  }

  // undefined, or the fork blocker.
  freeze () {
    if (this.library.shrink() === 0) {
      this.gc()
      this.gc()
    }
    v8.setFlagsFromString('--no-opt')
    return blocker() ?? this.library.freeze(3)
  }

  // The fork blocker of a context that has run user code, or undefined.
  judge () {
    if (!this.isForkable) return 'this context was not made to be forked'
    return blocker() ?? openHandles() ?? this.library.freeze(3)
  }

  // Returns undefined when the next request has arrived, and true in each child that is forked meanwhile.
  branches () {
    const told = this.library.branches()
    clearInterval(this.reaping)
    if (told >= 0) {
      this.isForkable = told === 1
      this.born()
      return true
    }
    // The boxes of ended children stay until these are reaped.
    this.reaping = setInterval(() => this.library.reap(), REAP_MS)
    this.reaping.unref()
  }

  // Between the fork and the user's code nothing is optimized: it would happen on the main thread,
  // in each child again, and takes longer than the whole call.
  userCodeBegins () {
    if (!this.isRefreshing) v8.setFlagsFromString('--opt')
  }

  // Returns in a child only: true if the child may itself become a template.
  children () {
    this.isForkable = this.library.children() === 1
    this.born()
    process.on('exit', (code) => this.library.exitCode(code))
    if (!this.isForkable) this.unmute()
    return this.isForkable
  }

  // Memory for the console's lines that outlives this process (spec/agent.md, Lines).
  lines () { return this.isWarmingUp ? new ArrayBuffer(LINES_BYTES) : this.library.lines() }

  // Renew state that siblings must not share.
  born () {
    const { pid, exit } = this.library
    Object.defineProperty(process, 'pid', { value: pid(), enumerable: true, configurable: true })
    process.reallyExit = (code) => exit(code ?? 0) // Node's own way out waits for threads that are not there
    process.chdir('.') // Node caches the working directory
    renewRandom()
    renewClocks()
  }
}

module.exports = { Template, LIBRARY }
