'use strict'
// The JavaScript agent: answers `call` on descriptor 3 (spec/values.md). What must work after user code ran (frames, values,
// errors) lives in a realm of its own, made here before that: whatever the user does to Array.prototype, JSON or Buffer is
// not seen there. User code runs in the main realm, as in plain Node.
const fs = require('node:fs')
const path = require('node:path')
const util = require('node:util')
const vm = require('node:vm')

const realm = vm.createContext(Object.create(null), { name: 'agent' })

// A file of this folder as a function of `host`, compiled in the agent's realm.
function load (name, host) {
  const file = path.join(__dirname, name)
  return vm.compileFunction(fs.readFileSync(file, 'utf8'), ['host'], { filename: file, parsingContext: realm })(host)
}

const host = {
  Array, ArrayBuffer, BigInt, Date, Error, Map, Object, Set, TypeError, RangeError, ReferenceError, SyntaxError, Uint8Array,
  typed: {
    i8: Int8Array, u8: Uint8Array, u8c: Uint8ClampedArray, i16: Int16Array, u16: Uint16Array, i32: Int32Array,
    u32: Uint32Array, i64: BigInt64Array, u64: BigUint64Array, f32: Float32Array, f64: Float64Array
  },
  types: { ...util.types },
  readSync: fs.readSync,
  writeSync: fs.writeSync,
  TextEncoder,
  TextDecoder,
  directory: __dirname,
  exit: process.reallyExit.bind(process)
}
const values = load('values.cjs', host)
const channel = load('channel.cjs', host)
const errors = load('errors.cjs', host)
const { scan } = load('scan.cjs', host)
const signature = load('signature.cjs', { ...host, scan })
const program = require('./program.cjs')

const state = { id: undefined, answered: true, resultBytes: 0 }
const { setImmediate } = globalThis
const stdio = [process.stdout, process.stderr]

// An id is answered once: by the result, the error, or what ended the process.
function answer (write, ...rest) {
  if (state.answered) return
  state.answered = true
  write(state.id, ...rest)
}

function sendError (thrown) {
  const data = errors.describe(thrown)
  answer(channel.writeError, -32000, data.message, data)
}

function sendResult (value, signatureSource) {
  let encoded
  try {
    encoded = values.encode(value, state.resultBytes)
  } catch (thrown) {
    sendError(thrown)
    return
  }
  answer(channel.writeResult, encoded.value, signatureSource, encoded.attachments)
}

async function collect (value) {
  value = await value
  if (value === null || typeof value !== 'object') return value
  if (host.types.isGeneratorObject(value)) {
    const items = []
    for await (const item of value) items.push(item)
    return items
  }
  return value
}

async function call (params) {
  const decode = (name) => values.decode(params[name], channel.attachments())
  const request = { args: decode('args'), kwargs: decode('kwargs'), schema: decode('schema') }
  const found = await program.load(params.code, params.filename, params.function, request, scan)
  if (found.body) return { value: await collect(found.value), source: 'convention' }
  const bound = signature.bind(found.fn, request)
  const value = await collect(found.fn.apply(found.self, bound.args))
  signature.checkOutput(request.schema, value)
  return { value, source: bound.source }
}

function start (message) {
  state.id = message.id
  state.answered = false
  if (message.method !== 'call') {
    answer(channel.writeError, -32601, `there is no method ${message.method}`)
    return
  }
  state.resultBytes = message.params.resultBytes
  call(message.params).then(({ value, source }) => sendResult(value, source), sendError).then(next)
}

// Between calls there is nothing to run but what the user left behind: waiting blocks on purpose.
function next () {
  const message = channel.read()
  if (message === undefined) host.exit(0)
  setImmediate(start, message)
}

process.on('uncaughtException', (thrown) => {
  sendError(thrown)
  host.exit(1)
})
process.on('unhandledRejection', (thrown) => {
  sendError(thrown)
  host.exit(1)
})
process.on('exit', (code) => {
  if (state.answered) return
  const said = state.drained ? "the function's promise never settled" : `process.exit(${code}) was called before the function returned`
  sendError(new Error(said))
})
process.on('beforeExit', () => {
  state.drained = true
})
for (const stream of stdio) stream._handle?.setBlocking?.(true) // what was printed is written before the result goes
next()
