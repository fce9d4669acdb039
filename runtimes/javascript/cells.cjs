// Contexts: a persistent interpreter whose cells run one after another in the main realm
// (spec/agent.md, README.md). A function of `host`, run in the agent's own realm.
'use strict'
const { types, globals, interrupts, rewriting, displays, names, looks, language } = host
const { rewrite, columnOf, linesOf, looksLikeObject, NoSyntax } = rewriting
const STORE_BYTES = 16 << 20
const LINES_MAX = 400
const LINE_CHARS_MAX = 2000
const POLL_MS = 25
const HOME = '/workspace'
const INVALID_REQUEST = -32600
const INVALID_PARAMS = -32602
const INTERRUPTED = { name: 'Interrupted', message: 'the cell was interrupted', traceback: ['Interrupted: the cell was interrupted'] }

// An error response of the protocol.
class Refusal {
  constructor (code, message, data) {
    this.code = code
    this.message = message
    this.data = data
  }
}


let isOpen = false
let running // the cell: {storeBytes, silent, shown: a promise of pending displays, fail(thrown), failure}
let place // the directory that require, __filename and imports resolve from
let importModule
let module // of the set-up's CommonJS
let left // working directory of the parent context

// -- requests

const SHAPES = {
  __proto__: null,
  open: { cwd: ['string', 'null'], env: ['object'], language: ['string'] },
  cell: { code: ['string'], count: ['number'], filename: ['string', 'null'], storeBytes: ['number'], silent: ['boolean'] },
  complete: { code: ['string'], at: ['number'] },
  inspect: { code: ['string'], at: ['number'], detail: ['number'] },
  isComplete: { code: ['string'] },
  describe: {}, enter: {}
}
const DEFAULTS = {
  __proto__: null,
  open: { cwd: null, env: {}, language: language.name },
  cell: { filename: null, storeBytes: STORE_BYTES, silent: false }
}
const kindOf = (value) => value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value

function read (method, params) {
  const given = { ...DEFAULTS[method], ...params }
  for (const name of Object.keys(SHAPES[method])) {
    const wanted = SHAPES[method][name]
    const kind = kindOf(given[name])
    if (!wanted.includes(kind)) throw new Refusal(INVALID_PARAMS, `params.${name}: expected ${wanted.join(' or ')}, found ${kind}`)
    if (kind === 'number' && !(Number.isSafeInteger(given[name]) && given[name] >= 0)) throw new Refusal(INVALID_PARAMS, `params.${name} is ${given[name]}: expected a whole number from 0`)
  }
  return given
}

function readEnvironment (env) {
  for (const name of Object.keys(env)) {
    const isVariable = typeof env[name] === 'string' && name !== '' && !name.includes('=') && !`${name}${env[name]}`.includes('\0')
    if (!isVariable) throw new Refusal(INVALID_PARAMS, `params.env[${JSON.stringify(name.slice(0, 80))}] is no variable of an environment: a name without =, and text, neither with NUL`)
  }
}

function open (params) {
  if (isOpen) throw new Refusal(INVALID_REQUEST, 'a context is open here already')
  const { cwd, env, language: wanted } = read('open', params)
  if (wanted !== language.name) throw new Refusal(INVALID_PARAMS, `params.language is ${JSON.stringify(wanted.slice(0, 80))}: this is the agent of ${language.name}`)
  readEnvironment(env)
  for (const name of Object.keys(env)) host.process.env[name] = env[name]
  host.readNodePath()
  if (cwd !== null) goTo(cwd)
  begin()
  interrupts.start()
  return { pid: host.process.pid, interpreter: `Node ${host.process.versions.node}` }
}

// Node's own `recursive` loops forever in /proc.
function makeFolder (path) {
  if (host.fs.existsSync(path)) return
  const parent = host.dirname(path)
  if (parent !== path) makeFolder(parent)
  host.fs.mkdirSync(path)
}

function goTo (cwd) {
  try {
    makeFolder(cwd)
    host.process.chdir(cwd)
  } catch (thrown) {
    const message = `the context cannot be in ${cwd}: ${thrown.message}`
    throw new Refusal(host.THREW, message, { type: 'Error', message, stack: '' })
  }
}

// Called before this process is forked.
const remember = () => { left = host.process.cwd() }

// In a child forked from a context: change to the parent's directory, if it exists.
function enter () {
  try {
    host.process.chdir(left ?? HOME)
  } catch {
    host.process.chdir(HOME)
  }
  return { pid: host.process.pid }
}

// Turn this process into a context.
function begin () {
  isOpen = true
  host.install(globals.offer, { show, clear, ask, askLater })
}

const needed = (method) => {
  if (!isOpen) throw new Refusal(INVALID_REQUEST, `no context is open here: \`open\` comes before \`${method}\``)
}

async function answer (method, params) {
  if (method === 'open') return open(params)
  needed(method)
  const request = read(method, params)
  return ANSWERS[method](request)
}

// An interrupt ends it, as it ends a cell.
const look = (work) => (request) => {
  interrupts.clear()
  try {
    return interrupts.guarded(() => work(request))
  } catch (thrown) {
    if (!interrupts.isInterrupt(thrown)) throw thrown
    language.interrupted()
    const message = 'the look at the code was interrupted'
    throw new Refusal(host.THREW, message, { type: 'Error', message, stack: '' })
  }
}

const ANSWERS = {
  __proto__: null, cell, enter, describe: names.describe, complete: names.complete, inspect: look(looks.inspect), isComplete: look(looks.isComplete)
}

// -- a cell

async function cell ({ code, count, filename, storeBytes, silent }) {
  const name = filename ?? `Cell In[${count}]`
  const own = { storeBytes, silent, shown: undefined, failure: undefined, fail: undefined }
  const failed = new Promise((resolve, reject) => {
    own.fail = (thrown) => {
      own.failure ??= { thrown }
      reject(thrown)
    }
  })
  failed.catch(() => {})
  running = own
  interrupts.clear()
  try {
    await Promise.race([execute(own, code, name), failed])
  } catch (thrown) {
    own.failure ??= { thrown }
  }
  await host.turn() // an unhandled rejection fails the cell
  const error = own.failure && errorOf(own.failure.thrown)
  running = undefined
  interrupts.dropHandlers()
  return error === undefined ? { status: 'ok' } : { status: 'error', error }
}

async function execute (own, code, name) {
  move()
  const made = reading(code, name)
  for (const wanted of made.imports) await bring(wanted)
  globals.begin(made)
  let value
  try {
    if (made.functions !== undefined) interrupts.run(compile(made.functions, name, made.functionsHead, code))
    value = interrupts.run(compile(made.script, name, made.head, code))
    if (made.isAsync) value = (await settled(interrupts.guarded(value)))?.[0]
    if (made.hasValue && types.isPromise(value)) value = await settled(value)
    if (own.shown !== undefined) await settled(own.shown)
  } finally {
    globals.end(made)
  }
  if (made.hasValue && running === own) await showResult(own, value)
}

// A caller's set-up, before the context is open: its names become those of cells, and so do its exports.
async function setUp (code, name) {
  move()
  const made = reading(code, name)
  for (const wanted of made.imports) await bring(wanted)
  globals.begin(made)
  try {
    if (made.functions !== undefined) runPlainly(compile(made.functions, name, made.functionsHead, code))
    const value = runPlainly(compile(made.script, name, made.head, code))
    if (made.isAsync) await value
  } finally {
    globals.end(made)
  }
  const { exports } = module
  if (exports !== null && typeof exports === 'object') globals.bring(Object.entries(exports))
}

const runPlainly = (script) => script.runInThisContext({ displayErrors: false })

const shifted = new Map() // by cell: places where its lines became longer

function reading (code, name) {
  const { text, head } = translated(code, name)
  let made
  try {
    made = rewrite(text)
  } catch (thrown) {
    throw thrown instanceof NoSyntax ? syntaxError(thrown, text, name) : thrown
  }
  if (made.shifts.length > 0) shifted.set(name, made.shifts)
  else shifted.delete(name)
  return { ...made, head: made.head + head }
}

// An object alone is no program of TypeScript; in parentheses it is one.
function translated (code, name) {
  try {
    return { text: language.translate(code, name, false, true), head: 0 }
  } catch (thrown) {
    if (!looksLikeObject(code)) throw thrown
    try {
      return { text: language.translate(`(${code}\n)`, name, false, true), head: 1 }
    } catch {
      throw thrown
    }
  }
}

// With V8's message, unless the text is one that V8 alone would reject.
function syntaxError ({ text, line, column }, code, name) {
  if (!/\b(await|import|export)\b/.test(code)) {
    try {
      compile(code, name, 0, code)
    } catch (thrown) {
      return thrown
    }
  }
  const shown = linesOf(code)[line - 1] ?? ''
  const error = new host.SyntaxError(text)
  const stack = `${name}:${line}\n${shown}\n${shown.slice(0, column - 1).replace(/[^\t]/g, ' ')}^\n\nSyntaxError: ${text}`
  Object.defineProperty(error, 'stack', { value: stack, writable: true, configurable: true })
  return error
}

// The import callback costs a millisecond, so only code that may import gets one.
function compile (text, filename, head, code) {
  const options = { filename, columnOffset: -head }
  if (code.includes('import')) options.importModuleDynamically = (specifier, script, attributes) => importModule(specifier, attributes)
  return new host.Script(text, options)
}

// Update the globals that depend on the working directory.
function move () {
  const now = host.process.cwd()
  if (place === now) return
  place = now
  const given = host.notebook(language.file)
  importModule = given.importModule
  module = given.module
  for (const name of ['require', 'module', 'exports', '__filename', '__dirname']) globals.offer(name, given[name])
}

// -- imports: their bindings are constants

async function bring ({ specifier, attributes, bindings }) {
  const space = await settled(importModule(specifier, attributes.length > 0 ? { with: Object.fromEntries(attributes) } : undefined))
  const found = bindings.map(({ local, imported }) => {
    if (imported === null) return [local, space]
    if (imported in space) return [local, space[imported]]
    if (language.hasTypes) return undefined // the name may be a type
    throw new host.SyntaxError(`The requested module '${specifier}' does not provide an export named '${imported}'`)
  })
  globals.bring(found.filter((pair) => pair !== undefined))
}

// -- waiting: the event loop goes on; SIGINT abandons the wait

function settled (promise) {
  return new Promise((resolve, reject) => {
    const timer = host.setInterval(() => {
      if (interrupts.isPending()) done(reject, interrupts.error())
    }, POLL_MS)
    const done = (settle, value) => {
      host.clearInterval(timer)
      settle(value)
    }
    // In an array, because a value may have a `then`.
    host.then(promise, (value) => done(resolve, value), (thrown) => done(reject, thrown))
  })
}

// -- displays

async function showResult (own, value) {
  if (value === undefined) return
  globals.keepLast(value)
  if (own.silent) return
  const look = interrupts.guarded(() => displays.look(value))
  const data = types.isPromise(look) ? await settled(look) : look
  if (running === own) tell(own, { data, isResult: true })
}

// The result is sent just before the response to the cell. Other displays are requests: later
// output takes another way, and must not overtake.
function tell (own, request) {
  const { value, attachments } = displays.pack({ id: undefined, metadata: undefined, isUpdate: false, ...request }, own.storeBytes)
  if (request.isResult) host.tell('display', value, attachments)
  else host.askNow('display', value, attachments, pulse)
}

function pulse () {
  if (interrupts.isPending()) throw interrupts.error()
}

// For user code: display(value, options), or with given data. Returns a promise if the form of the
// value is one; displays keep their order.
function show (value, data, options) {
  const { id, update = false, metadata } = options ?? {}
  const request = { id, metadata, isUpdate: update === true, isResult: false }
  const own = running
  const look = data ?? displays.look(value)
  if (!types.isPromise(look) && own?.shown === undefined) return emit(own, { ...request, data: look })
  const later = host.then(own?.shown ?? host.Promise.resolve(), () => look, () => look)
  const shown = host.then(later, (found) => emit(own, { ...request, data: found }), undefined)
  if (own !== undefined) {
    own.shown = shown
    host.then(shown, undefined, own.fail)
  }
  return shown
}

// Between cells, and after its cell has ended, a display becomes text: its message has no receiver.
function emit (own, request) {
  if (own !== undefined && running === own) return tell(own, request)
  const text = request.data?.['text/plain']
  if (typeof text === 'string') host.process.stdout.write(`${text}\n`)
}

function clear (wait) {
  if (running !== undefined) host.askNow('clear', { wait }, [], pulse)
}

// -- input

const mayAsk = (what) => {
  if (running === undefined) throw new host.Error(`${what}() can only be asked for while a cell runs`)
}

function ask (prompt, password) {
  mayAsk('prompt')
  const { result, error } = host.askNow('input', { prompt: host.wellFormed(prompt), password }, [], pulse)
  if (error !== undefined) throw new host.Error(`${error.data?.message ?? error.message}`)
  return textOf(result.value)
}

function askLater (prompt, password) {
  mayAsk('input')
  return host.then(host.askLater('input', { prompt: host.wellFormed(prompt), password }), textOf, (thrown) => { throw new host.Error(thrown?.message ?? 'there is no input') })
}

function textOf (value) {
  if (typeof value !== 'string') throw new host.Error(`the answer to a question for input is ${kindOf(value)}, not text`)
  return value
}

// -- errors

const shorten = (text) => text.length > LINE_CHARS_MAX ? `${text.slice(0, LINE_CHARS_MAX)}...` : text

// The end of a frame's line: its place.
const PLACE = /^(\s+at .*?)((?:\()?)([^()]*):(\d+):(\d+)(\)?)$/

function placed (text) {
  const [, head, open, name, line, column, close] = PLACE.exec(text) ?? []
  const key = [...shifted.keys()].find((cell) => name !== undefined && (open === '' ? `${head}${name}`.endsWith(` ${cell}`) : name === cell))
  return key === undefined ? text : `${head}${open}${name}:${line}:${columnOf(shifted.get(key), Number(line), Number(column))}${close}`
}

function errorOf (thrown) {
  if (interrupts.isInterrupt(thrown)) return INTERRUPTED
  const isError = types.isNativeError(thrown) || (typeof thrown === 'object' && thrown !== null && typeof thrown.stack === 'string')
  const { type, message, stack } = isError ? host.describe(thrown) : { type: 'Uncaught', message: host.wellFormed(host.inspect(thrown)), stack: '' }
  const lines = (stack === '' ? `${type}: ${message}` : stack).split('\n')
  if (lines.length > LINES_MAX) lines.splice(LINES_MAX / 2, lines.length - LINES_MAX, `... ${lines.length - LINES_MAX} lines left out ...`)
  return { name: type, message, traceback: lines.map((line) => shorten(placed(line))) }
}

function safeErrorOf (thrown) {
  try {
    return errorOf(thrown)
  } catch {
    return { name: 'Error', message: 'an error that cannot be shown', traceback: ['Error: an error that cannot be shown'] }
  }
}

// Uncaught exceptions fail the running cell; without one they are printed.
function uncaught (thrown) {
  if (running !== undefined) return running.fail(thrown)
  host.printError(`Uncaught ${safeErrorOf(thrown).traceback.join('\n')}\n`)
}

const end = () => { isOpen = false }

return { answer, setUp, uncaught, begin, end, remember, isOpen: () => isOpen, Refusal }
