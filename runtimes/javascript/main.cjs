'use strict'
// The JavaScript agent: answers requests on descriptor 3 (spec/agent.md). Parts that must work
// after user code ran (frames, values, errors) live in a realm of their own, created before that:
// the user's changes to Array.prototype, JSON or Buffer do not reach it. User code runs in the main
// realm, as in plain Node; code of `evaluate` runs in a bare realm (realm.cjs). Started as a
// template (template.cjs) the agent is forked, and goes on in the children.
const fs = require('node:fs')
const path = require('node:path')
const util = require('node:util')
const v8 = require('node:v8')
const vm = require('node:vm')

const agentContext = vm.createContext(Object.create(null), { name: 'agent' })

// A file of this folder as a function of `host`, compiled in the agent's realm.
function compile (name, params, text = fs.readFileSync(path.join(__dirname, name), 'utf8')) {
  return vm.compileFunction(text, params, { filename: path.join(__dirname, name), parsingContext: agentContext })
}
// The value of a script in the agent's realm. `cachedData` is its compiled code; V8 refuses that of
// another version or of other flags.
function evaluateScript (name, text, cachedData) {
  return new vm.Script(text, { filename: path.join(__dirname, name), cachedData }).runInContext(agentContext)
}
const load = (name, host) => compile(name, ['host'])(host)
const wire = {}
compile('wire.cjs', ['module'])(wire)
const loadValues = (host) => compile('values.cjs', ['host', 'makeWire'])(host, wire.exports)

let Socket // loaded before code with declarations runs, because that code may break the loader
let leave = process.reallyExit.bind(process)
const host = {
  Array, ArrayBuffer, BigInt, DataView, Date, Error, Map, Object, Set, TypeError, RangeError, ReferenceError, SyntaxError, Uint8Array,
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
  openSocket: (fd) => new Socket({ fd, readable: true, writable: false }),
  exit: (code) => leave(code)
}
const values = loadValues(host)
const channel = load('channel.cjs', { ...host, values })
const errors = load('errors.cjs', host)
const { scan } = load('scan.cjs', host)
const signature = load('signature.cjs', { ...host, scan })
const program = require('./program.cjs')
const language = load('language.cjs', { ...host, scan, compile, evaluateScript, require, program, readFile: (name) => fs.readFileSync(path.join(__dirname, name)), hasFile: (name) => fs.existsSync(path.join(__dirname, name)) })

const INVALID = -32602
const THREW = -32000
const CANNOT_FORK = -32001
const NOTEBOOK = '__cloche_notebook__' // set by notebook.cjs
const FRAME_BYTES_MAX = 1 << 30
const FUNCTION = { kind: 'function' }
const state = { id: undefined, answered: true, resultBytes: 0, isBare: false, isPreparing: false, drained: false }
const { setImmediate } = globalThis
const stdio = [process.stdout, process.stderr]
let template
let realm
let isForRealm = false // the set-up was the bare realm's
let contexts
let isSetUp = false // a caller's set-up ran on the notebook's

// -- responses

const describe = (thrown) => language.explain(errors.describe(thrown))

// An id is answered once: by the result, the error, or the end of the process. Nothing is iterated
// here: the user may have replaced the iterators of the main realm's arrays.
function answer (write, a, b, c, d) {
  if (state.answered) return
  state.answered = true
  write(state.id, a, b, c, d)
}

function sendError (thrown) {
  if (state.isBare) return sendFailure(thrown)
  const data = describe(thrown)
  if (state.signatureSource !== undefined) data.signatureSource = state.signatureSource
  answer(channel.writeError, THREW, data.message, data)
}

// In the contract's terms. An error that the realm did not describe is the agent's, or Node's.
function sendFailure (thrown) {
  const { code, name, message, stack, fields } = typeof thrown?.code === 'string' && thrown.code.startsWith('ERR_') && !host.types.isNativeError(thrown)
    ? thrown
    : { code: 'ERR_USER_CODE', ...named(describe(thrown)) }
  const texts = { name, message, ...stack !== undefined && { stack } }
  const data = { code, ...unicode(texts), ...state.cpuBefore && measured() }
  let attachments = []
  try {
    if (fields !== undefined) ({ value: data.fields, attachments } = realm.values.encode(fields, state.resultBytes || 1 << 20, true))
  } catch {}
  if (Object.values(texts).join('') !== Object.values(unicode(texts)).join('')) {
    const exact = values.encode(texts, FRAME_BYTES_MAX)
    data.exact = shifted(exact.value, sizeOf(attachments))
    attachments = [...attachments, ...exact.attachments]
  }
  answer(channel.writeError, THREW, data.message, data, attachments)
}

// Texts that JSON can hold.
const unicode = (texts) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, errors.wellFormed(text)]))
const sizeOf = (attachments) => attachments.reduce((size, bytes) => size + bytes.length, 0)
const shifted = (texts, by) => Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, typeof text === 'string' ? text : { ...text, at: text.at + by }]))

function tellLine (stream, text) {
  const shown = errors.wellFormed(text)
  if (shown === text) return channel.tellLine(stream, text)
  const { value, attachments } = values.encode(text, FRAME_BYTES_MAX)
  channel.tell('console', { stream, text: shown, exact: value }, attachments)
}

const named = ({ type, message, stack }) => ({ name: type, message, stack })

// place: of the function that returned the value.
function sendResult (value, signatureSource, place = '') {
  let encoded
  try {
    encoded = values.encode(value, state.resultBytes)
  } catch (thrown) {
    if (place !== '' && `${thrown?.message}`.startsWith('$')) thrown.message += `; returned by ${place}`
    sendError(thrown)
    return
  }
  answer(channel.writeResult, { value: encoded.value, signatureSource }, encoded.attachments)
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

// -- calls of the host

const asked = new Map()
let lastAsked = 0
let quietAsked = 0

// Resolves to {value}, or rejects with {name, message, fields}; `coder` encodes the request and
// decodes the response. A quiet request does not keep the event loop alive.
function ask (target, args, coder, references, { isQuiet = false, limit = FRAME_BYTES_MAX } = {}) {
  if (state.isPreparing) throw new Error(`${target.slice(1).join('.')} cannot be called while the set-up runs`)
  const sent = coder.encode(args, limit, references)
  const id = ++lastAsked
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve, reject, coder, isQuiet })
    if (isQuiet) quietAsked++
    channel.listen(receive)
    restWhenQuiet()
    channel.ask(id, target, sent.value, sent.attachments)
  })
}

const restWhenQuiet = () => { if (asked.size === quietAsked && !state.answered && !contexts?.isOpen()) channel.rest() }

function settle ({ id, result, error }) {
  const found = asked.get(id)
  if (found === undefined) return
  asked.delete(id)
  if (found.isQuiet) quietAsked--
  restWhenQuiet()
  const decode = (value) => found.coder.decode(value, channel.attachments())
  try {
    if (error === undefined) found.resolve({ value: decode(result.value) })
    else found.reject({ name: `${error.data?.name ?? 'Error'}`, message: `${error.data?.message ?? error.message}`, ...error.data?.exact && decode(error.data.exact), fields: error.data?.fields && decode(error.data.fields) })
  } catch (thrown) {
    found.reject(thrown)
  }
}

// A synchronous request of a context: reads the channel until the response arrives, and calls `pulse` meanwhile.
function askNow (method, params, attachments, pulse) {
  const id = ++lastAsked
  channel.request(id, method, params, attachments)
  for (;;) {
    const message = channel.read(pulse)
    if (message === undefined) host.exit(0)
    if (message.method !== undefined || message.id !== id) receive(message)
    else return message
  }
}

function askLater (method, params) {
  const id = ++lastAsked
  return new Promise((resolve, reject) => {
    asked.set(id, { resolve: ({ value }) => resolve(value), reject, coder: { decode: (value) => value } })
    channel.request(id, method, params, [])
  })
}

function receive (message) {
  if (message.method === undefined) settle(message)
  else setImmediate(() => start(message)) // without arguments, which Node would iterate with the user's iterators
}

// Declarations stay: those of a set-up are used in the runs after it.
let declare
async function declareAll ({ globals, imports }) {
  if (Object.keys(globals).length + Object.keys(imports).length === 0) return
  Socket ??= require('node:net').Socket
  declare ??= require('./bridge.cjs').makeBridge({ ask: (target, args) => ask(target, args, values, false).then(({ value }) => value), program, translate: language.translate })
  await declare(globals, imports)
}

function makeRealm (bridge) {
  const { createRealm } = require('./realm.cjs')
  const made = createRealm({ bridge: bridge ?? ((target, args, options) => ask(target, args, made.values, true, options)), tell: tellLine, values: loadValues, language })
  return made
}

// -- requests

function decoded (params, names, coder = values) {
  const ranges = []
  const given = { ...params }
  for (let i = 0; i < names.length; i++) {
    if (params[names[i]] !== undefined) given[names[i]] = coder.decode(params[names[i]], channel.attachments(), ranges)
  }
  return { globals: {}, imports: {}, ...given }
}

// Before any of the user's code runs, declared modules included: no code has a part in a translation that is kept.
function settleTranslation ({ code, filename, translation }, isBare) {
  if (translation === undefined) return
  if (translation !== true) return language.take(code, filename, isBare, values.decode(translation, channel.attachments()))
  const bytes = language.tell(code, filename, isBare)
  if (bytes === undefined) channel.tell('translated', { translation: null })
  else channel.tell('translated', { translation: { $: 'bytes', at: 0, n: bytes.length } }, [bytes])
}

async function call (request) {
  await declareAll(request)
  const keep = (source) => { state.signatureSource = source }
  const isBody = () => keep('convention')
  const found = await program.load(language.translate(request.code, request.filename), request.filename, request.function, { ...request, isBody }, scan)
  if (found.body) {
    isBody()
    return { value: await collect(found.value) }
  }
  const args = signature.bind(found.fn, request, keep)
  return { value: await collect(found.fn.apply(found.self, args)), fn: found.fn }
}

async function answerCall (params) {
  settleTranslation(params, false)
  const { value, fn } = await call(decoded(params, ['args', 'kwargs', 'globals', 'imports']))
  sendResult(value, state.signatureSource, placeOf(fn, params))
}

// "f (main.js, line 3)", as far as it is known.
function placeOf (fn, { code, filename }) {
  const at = fn === undefined ? -1 : code.indexOf(Function.prototype.toString.call(fn))
  return at < 0 ? filename : `${fn.name} (${filename}, line ${code.slice(0, at).split('\n').length})`
}

async function answerPrepare (params) {
  state.isPreparing = true
  if (params.realm === 'bare') {
    isForRealm = true
    await evaluate('prepare', params)
  } else {
    const request = decoded(params, ['globals', 'imports'])
    await declareAll(request)
    if (contexts === undefined) await program.prepare(language.translate(request.code, request.filename), request.filename, scan)
    else await setUpContexts(request)
  }
  state.isPreparing = false
  if (globalThis[NOTEBOOK] === true) await warmUpContexts()
  answer(channel.writeResult, {})
}

// -- contexts (contexts.cjs)

const getContexts = () => {
  contexts ??= require('./contexts.cjs').makeContexts({
    load, compile, host, values, scan, language, program, describe, askNow, askLater, THREW, wellFormed: errors.wellFormed, tell: channel.tell
  })
  return contexts
}

async function warmUpContexts () {
  delete globalThis[NOTEBOOK]
  Socket ??= require('node:net').Socket
  await getContexts().rehearse()
}

// A caller's set-up, on the notebook's. Its names are in cells what those of earlier cells are.
async function setUpContexts ({ code, filename }) {
  template?.userCodeBegins()
  isSetUp = true
  await contexts.setUp(code, filename)
}

async function answerContext (method, params) {
  const result = await getContexts().answer(method, params)
  if (method === 'open') {
    Socket ??= require('node:net').Socket
    channel.listen(receive) // from now on the event loop goes on between requests
    template?.unmute()
    template?.userCodeBegins()
  }
  answer(channel.writeResult, result)
}


function evaluate (method, params) {
  state.isBare = true
  Socket ??= require('node:net').Socket
  realm ??= makeRealm()
  template?.userCodeBegins()
  return realm[method](decoded(params, ['globals', 'imports'], realm.values))
}

// The time of the user's code only: the box's own clock includes the fork and the agent.
function measured () {
  const { user, system } = process.cpuUsage(state.cpuBefore)
  return { cpuMs: (user + system) / 1000, heapBytes: v8.getHeapStatistics().used_heap_size }
}

async function answerEvaluate (params) {
  if (params.lines === true && template !== undefined) channel.keepLines(() => template.lines())
  state.cpuBefore = process.cpuUsage()
  channel.tell('began', { cpuMs: (state.cpuBefore.user + state.cpuBefore.system) / 1000 })
  settleTranslation(params, true)
  const { exports, late } = await evaluate('evaluate', { ...params, measure: measured })
  const sent = realm.encodeExports(exports, params.resultBytes)
  if (late?.error !== undefined) late.error = unicode(late.error)
  answer(channel.writeResult, { exports: sent.value, ...measured(), ...late && { late } }, sent.attachments)
}

async function answerFreeze () {
  const blocker = template === undefined ? 'this process was not started as a template' : template.freeze()
  if (blocker !== undefined) {
    answer(channel.writeError, CANNOT_FORK, blocker)
    return
  }
  answer(channel.writeResult, {})
  const isTemplate = template.children()
  leave = process.reallyExit
  channel.renew()
  if (!isTemplate) await template.refresh(refreshing())
}

// A script: its streams and its exit code are the result. It ends when nothing is left to do.
async function answerRun ({ code, filename, argv, translation }) {
  settleTranslation({ code, filename: path.basename(filename), translation }, false)
  state.answered = state.isScript = true
  process.argv = [process.execPath, filename, ...argv]
  await program.prepare(translatedScript(code, path.basename(filename)), path.basename(filename), scan, true)
}

// Code that is translated, and does not compile, has the exit code that the engine uses for other
// compiled languages (EX_DATAERR of sysexits.h).
const NOT_COMPILED = 65
function translatedScript (code, filename) {
  try {
    return language.translate(code, filename)
  } catch (thrown) {
    return endScript(thrown, NOT_COMPILED)
  }
}

// A context is forked between two of its cells: in this process, and in each forked child, the next
// message is another request.
async function answerBranch () {
  const blocker = !contexts?.isOpen() || template === undefined ? 'this process is no context that was made to be forked' : contexts.standStill(() => template.judge())
  if (blocker !== undefined) {
    answer(channel.writeError, CANNOT_FORK, blocker)
    return
  }
  answer(channel.writeResult, {})
  const isChild = template.branches()
  if (isChild) channel.reborn()
  leave = isChild ? process.reallyExit : leave
  contexts.goOn()
}

const METHODS = {
  __proto__: null,
  call: answerCall, run: answerRun, prepare: answerPrepare, evaluate: answerEvaluate, freeze: answerFreeze,
  branch: answerBranch
}
for (const method of ['open', 'cell', 'describe', 'complete', 'inspect', 'isComplete', 'enter']) METHODS[method] = (params) => answerContext(method, params)

async function start (message) {
  await respond(message)
  if (!state.isScript) next()
}

async function respond (message) {
  state.id = message.id
  state.answered = state.isBare = state.isPreparing = state.drained = false
  state.cpuBefore = undefined
  const { method, params } = message
  state.resultBytes = params?.resultBytes ?? 0
  state.signatureSource = undefined
  if (METHODS[method] === undefined) answer(channel.writeError, -32601, `there is no method ${method}`)
  else if (typeof params !== 'object' || params === null) answer(channel.writeError, INVALID, 'params must be an object')
  else {
    try {
      await METHODS[method](params)
    } catch (thrown) {
      if (state.isScript) endScript(thrown)
      if (contexts !== undefined && thrown instanceof contexts.Refusal) answer(channel.writeError, thrown.code, thrown.message, thrown.data)
      else sendError(thrown)
    }
  }
}

// Between calls only leftovers of the user's could run: waiting blocks on purpose.
function next () {
  if (channel.isListening()) return channel.listen(receive)
  const message = channel.read()
  if (message === undefined) host.exit(0)
  setImmediate(() => start(message))
}

// -- the process

function endScript (thrown, code = 1) {
  fs.writeSync(2, `${describe(thrown).stack || String(thrown)}\n`)
  host.exit(code)
}

process.on('uncaughtException', (thrown) => {
  if ((state.isScript || contexts?.isOpen()) && process.listenerCount('uncaughtException') > 1) return // the script has its own way
  if (contexts?.isOpen()) return contexts.uncaught(thrown)
  if (state.isScript) endScript(thrown)
  sendError(thrown)
  host.exit(1)
})
process.on('unhandledRejection', (thrown, promise) => {
  if (realm?.owns(promise)) return
  if ((state.isScript || contexts?.isOpen()) && process.listenerCount('unhandledRejection') > 1) return
  if (contexts?.isOpen()) return contexts.uncaught(thrown)
  if (state.isScript) endScript(thrown)
  sendError(thrown)
  host.exit(1)
})
process.on('exit', (code) => {
  if (state.answered) return
  const [what, ended] = state.isPreparing ? ['set-up', 'ended'] : ['function', 'returned']
  const said = state.drained ? `the ${what}'s promise never settled` : `process.exit(${code}) was called before the ${what} ${ended}`
  sendError(new Error(said))
})
process.on('beforeExit', () => {
  if (state.isBare && realm.stalled()) setImmediate(() => {})
  else state.drained = true
})
for (const stream of stdio) stream._handle?.setBlocking?.(true) // output is written before the result is sent

// -- templates

// In a template: a whole request, whose response is not sent. Calls of the host return their first argument.
async function rehearse (method, params, attachments) {
  const declared = params.code.includes('$warm') ? { globals: { $warm: FUNCTION }, imports: { $warm: { members: { echo: FUNCTION } } } } : { globals: {}, imports: {} }
  const request = channel.received({ jsonrpc: '2.0', id: 1, method, params: { filename: 'main.js', resultBytes: 1 << 20, ...declared, ...params } }, attachments)
  channel.rehearse(({ id, method, params }) => {
    if (method === 'bridge') setImmediate(() => receive(channel.received({ jsonrpc: '2.0', id, result: { value: params.args[0] } })))
  })
  await respond(request)
  channel.rehearse(undefined)
}

async function rehearseCall (code, name, args) {
  const { value, attachments } = values.encode(args, 1 << 20)
  await rehearse('call', { code, function: name, args: value, holes: [], kwargs: {}, order: null }, attachments[0])
}

// In a child a set-up's timers may run at the same time, so nothing here is a request.
async function refreshCall (code, name, args) {
  const message = channel.received({ code, filename: 'main.js', function: name, args, holes: [], kwargs: {}, order: null, globals: {}, imports: {} })
  try {
    values.encode((await call(message)).value, 1 << 20)
  } catch (thrown) {
    describe(thrown)
  }
}

// Code of the bare realm's set-up could notice an evaluation.
async function refreshRealm (code) {
  await null
  values.encode(channel.received({ code }), 1 << 20)
}

function refreshing () {
  if (isForRealm) return refreshRealm
  if (contexts === undefined) return refreshCall
  return isSetUp ? contexts.rehearseValue : () => contexts.rehearse(1)
}

async function rehearseEvaluation (code) {
  await rehearse('evaluate', { code, lines: true })
  realm.withdraw('$warm')
}

async function begin () {
  const [,, script, ...argv] = process.argv
  if (script !== undefined) return start({ method: 'run', params: { code: fs.readFileSync(script, 'utf8'), filename: script, argv } })
  if (fs.existsSync('/run/cloche/libcloche-guest.so')) {
    const { Template } = require('./template.cjs')
    template = new Template()
    language.rehearse()
    await template.warmUp({ call: rehearseCall, evaluate: rehearseEvaluation, socket: channel.rehearseSocket })
    program.withdraw()
    channel.renew()
    lastAsked = 0
    program.beforeUserCode(() => template.userCodeBegins())
  }
  next()
}

begin()
