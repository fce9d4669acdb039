'use strict'
// The bare realm: a context with the language, a few Web APIs and the host's declarations, and no
// way to anything of Node. Its parts are functions of `host` compiled in it (realm-core.cjs and
// those after it). Node's side and the guest's exchange primitives; objects pass only to be
// encoded, decoded or returned. Nothing here reads a property of the guest's objects.
const fs = require('node:fs')
const path = require('node:path')
const util = require('node:util')
const vm = require('node:vm')
const { cleanStack, leaves, primitives } = require('./realm-host.cjs')
const { Failure, Modules } = require('./realm-modules.cjs')

const PARTS = ['errors', 'events', 'timers', 'text', 'url', 'clone', 'headers', 'streams', 'fetch', 'console', 'async', 'wait', 'bridge', 'bodies']
// Staged beside the agent; in a source tree npm has it.
const PONYFILL = ['ponyfill.js', 'node_modules/web-streams-polyfill/dist/ponyfill.js'].map((name) => path.join(__dirname, name))
const GRACE_MS = 30000
// The response gets this share of the run's time.
const WALL_MARGIN_MS = 250
const FIELDS_BYTES_MAX = 1024 * 1024
const SET_UP_LINES_BYTES_MAX = 1024 * 1024
// For the error of a body's source: the engine takes events of at most 131072 bytes.
const FAIL_TEXT_MAX = 8192
const CLASSES = [
  'Array', 'ArrayBuffer', 'BigInt', 'DataView', 'Date', 'Map', 'Object', 'RegExp', 'Set', 'Uint8Array', 'Error', 'AggregateError', 'EvalError',
  'RangeError', 'ReferenceError', 'SyntaxError', 'TypeError', 'URIError'
]
const TYPED = {
  i8: 'Int8Array', u8: 'Uint8Array', u8c: 'Uint8ClampedArray', i16: 'Int16Array', u16: 'Uint16Array', i32: 'Int32Array', u32: 'Uint32Array',
  i64: 'BigInt64Array', u64: 'BigUint64Array', f32: 'Float32Array', f64: 'Float64Array'
}
const AS_WRITTEN = { translate: (code) => code, place: (stack) => stack, named: (type, message) => message }

class Realm {
  constructor ({ bridge, tell, values, language = AS_WRITTEN }) {
    this.language = language
    this.bridge = bridge
    this.tell = tell
    this.run = undefined
    this.targets = []
    this.calls = 0
    this.loads = 0
    this.timers = new Map()
    this.lines = []
    this.lineBytes = 0
    this.context = vm.createContext(vm.constants?.DONT_CONTEXTIFY ?? Object.create(null), { name: 'run', codeGeneration: { strings: false, wasm: false } })
    this.guest = this.build()
    this.modules = new Modules(this.context, this.guest, language, () => this.showLines())
    this.values = typeof values === 'function' ? values(this.hostForValues()) : values
  }

  part (name) {
    const file = path.join(__dirname, `realm-${name}.cjs`)
    return vm.compileFunction(fs.readFileSync(file, 'utf8'), ['host'], { filename: file, parsingContext: this.context })
  }

  // Web streams of a package, run in the guest's realm like the parts.
  streams () {
    const exports = vm.runInContext('({ __proto__: null })', this.context)
    const file = PONYFILL.find((name) => fs.existsSync(name))
    vm.compileFunction(fs.readFileSync(file, 'utf8'), ['exports', 'module'], { filename: path.join(__dirname, 'ponyfill.js'), parsingContext: this.context })(exports, {})
    return exports
  }

  build () {
    const global = vm.runInContext('globalThis', this.context)
    this.classes = Object.fromEntries([...CLASSES, ...Object.values(TYPED)].map((name) => [name, global[name]]))
    const kit = this.part('core')({ ...leaves, ...this.leaves() })
    kit.streams = this.streams()
    for (const name of PARTS) {
      const made = this.part(name)(kit)
      for (const key of Object.keys(made)) kit[key] = made[key]
    }
    return kit
  }

  // Entry points for the guest's side. They return nothing but numbers, and throw nothing on purpose.
  leaves () {
    return {
      uncaught: (report) => {
        if (this.waiting === undefined) this.stop(this.failure(report))
        else this.endWaiting('failed', report)
      },
      fatal: (report) => this.stop(this.failure(report)),
      exportsRead: (report) => this.settleReading(report),
      bodiesSent: () => this.endBodies?.(),
      waited: (report) => this.endWaiting(report === undefined ? 'settled' : 'failed', report),
      bridge: (id, number, args) => this.call(id, this.targets[number], args),
      body: (id, step, args) => this.askOfBody(id, `${step}`, args),
      ...primitives(this.textLeaves())
    }
  }

  textLeaves () {
    return {
      tell: (stream, text) => {
        if (this.run?.phase === 'prepare') return this.keepLine(`${stream}`, `${text}`)
        this.told[stream]++
        this.tell(`${stream}`, `${text}`)
      },
      setGrace: (graceMs, wallMs) => this.setGrace(+graceMs, +wallMs),
      cleanStack: (stack) => this.shownStack(stack),
      target: (steps) => this.targets.push(JSON.parse(steps)) - 1,
      compile: (text, name) => this.modules.expression(`${text}`, `${name}`),
      load: (id, specifier) => this.load(id, specifier),
      setTimer: (id, ms, repeat) => this.setTimer(id, ms, repeat),
      clearTimer: (id) => {
        clearTimeout(this.timers.get(id))
        this.timers.delete(id)
      }
    }
  }

  // Lines of a set-up have no reader: a run that imports `cloche:set-up` prints them.
  keepLine (stream, text) {
    this.lineBytes += text.length + 1
    if (this.lineBytes <= SET_UP_LINES_BYTES_MAX) this.lines.push([stream, text])
  }

  showLines () {
    for (const [stream, text] of this.lines) this.tell(stream, text)
  }

  setTimer (id, ms, repeat) {
    const fire = () => {
      if (!repeat) this.timers.delete(id)
      this.guest.fire(id)
    }
    this.timers.set(id, repeat ? setInterval(fire, ms) : setTimeout(fire, ms))
  }

  // -- calls and imports of the guest

  call (id, target, args) {
    this.calls++
    this.asked++
    new Promise((resolve) => resolve(this.bridge(target, args))).finally(() => { this.calls-- }).then(
      ({ value }) => { this.guest.resolve(id, value) },
      (thrown) => this.refuse(id, thrown)
    )
  }

  // The response to `open` comes when the host abandons the body; nothing waits for it.
  askOfBody (id, step, args) {
    const isQuiet = step === 'open'
    if (step === 'fail') args = this.shortened(args[0], args[1], args[2], args[3])
    if (!isQuiet) this.calls++
    new Promise((resolve) => resolve(this.bridge(['body', step], args, { isQuiet }))).finally(() => { if (!isQuiet) this.calls-- }).then(
      ({ value }) => { this.guest.resolve(id, value === true) },
      (thrown) => this.refuse(id, thrown)
    )
  }

  shortened (number, name, message, fields) {
    return [number, name.slice(0, FAIL_TEXT_MAX), message.slice(0, FAIL_TEXT_MAX), this.sendable(fields, FAIL_TEXT_MAX)]
  }

  // The host's error comes as its name, message and fields; one of the guest's realm is the
  // encoder's about the arguments.
  refuse (id, thrown) {
    if (this.guest.owns(thrown)) this.guest.rejectWith(id, thrown)
    else this.guest.reject(id, `${thrown?.name ?? 'Error'}`, `${thrown?.message ?? thrown}`, thrown?.fields)
  }

  load (id, specifier) {
    this.loads++
    this.modules.load(specifier).finally(() => { this.loads-- }).then(
      ({ module }) => { this.guest.resolve(id, module.namespace) },
      (thrown) => {
        if (Failure.is(thrown)) this.guest.rejectCoded(id, thrown.code, thrown.name, thrown.message)
        else this.guest.rejectWith(id, thrown)
      }
    )
  }

  // -- runs

  begin (phase, params) {
    return new Promise((resolve, reject) => {
      this.run = { phase, resolve, reject }
      this.limit = params.resultBytes ?? FIELDS_BYTES_MAX
      this.modules.allowBuiltIns = phase === 'evaluate'
      this.guest.setPreparing(phase === 'prepare')
      this.guest.begin()
      this.guest.beginWaiting()
      this.guest.beginBodies(params.bodies === true)
      this.measure = params.measure
      Object.assign(this, { told: { stdout: 0, stderr: 0 }, asked: 0, graceMs: GRACE_MS, beganMs: performance.now(), wallMs: Infinity })
      const run = this.run
      this.execute(params).then((done) => this.end(run, resolve, done), (thrown) => this.end(run, reject, this.failureOf(thrown)))
    })
  }

  end (run, settle, value) {
    if (this.run !== run) return
    this.run = undefined
    this.guest.clear()
    settle(value)
  }

  stop (failure) {
    if (this.run !== undefined) this.end(this.run, this.run.reject, failure)
  }

  async execute ({ code, filename, globals = {}, imports = {} }) {
    this.modules.declare(imports)
    const declared = this.guest.declare(globals)
    if (declared.failed) throw this.failure(declared.failed)
    const module = await this.modules.link(() => this.modules.compile(code, filename))
    await module.evaluate()
    return this.run?.phase === 'prepare' ? this.checkSettled() : this.collect(module)
  }

  checkSettled () {
    const timer = this.guest.pendingTimer()
    if (timer !== undefined) throw new Failure('ERR_PREFIX_DID_NOT_SETTLE', 'Error', `the prefix left a timer of ${timer} pending`)
    if (this.loads > 0) throw new Failure('ERR_PREFIX_DID_NOT_SETTLE', 'Error', 'the prefix left an import() pending')
  }

  async collect (module) {
    const { failed, value } = this.guest.collect(module.namespace)
    if (failed) throw this.failure(failed)
    if (value.bad) throw new Failure('ERR_EXPORT_NOT_SERIALIZABLE', 'TypeError', value.bad)
    const isStreamed = await this.takeBodies(value.exports)
    const began = this.soFar()
    if (isStreamed) await this.sendExports(value.exports)
    if (this.guest.bodiesOpen() > 0) await new Promise((resolve) => { this.endBodies = resolve })
    const late = this.guest.isWaiting() ? await this.awaitWork(began) : undefined
    return { exports: isStreamed ? {} : value.exports, late }
  }

  // Resolves to true if bodies of the exports go piece by piece; the others are read to their ends.
  // The guest's promise stays in its realm: its `then` may be the guest's.
  takeBodies (exports) {
    const { failed, value } = this.guest.exportedBodies(exports, this.limit)
    if (failed) throw this.failure(failed)
    if (!value.isReading) return value.streams > 0
    return new Promise((resolve, reject) => {
      this.settleReading = (report) => {
        if (report === undefined) resolve(value.streams > 0)
        else reject(this.failure(report))
      }
    })
  }

  // The host reads bodies while the run goes on: it gets the exports before them.
  async sendExports (exports) {
    let sent
    try {
      sent = this.bridge(['body', 'exports'], [exports, { ...this.measure(), isWaiting: this.guest.isWaiting() }], { limit: this.limit })
    } catch (thrown) {
      throw this.exportFailure(thrown, this.limit)
    }
    this.calls++
    try {
      await sent
    } catch ({ message }) {
      throw new Failure('ERR_EXPORT_NOT_SERIALIZABLE', 'TypeError', `${message}`)
    } finally {
      this.calls--
    }
    this.guest.startExported()
  }

  // -- work that goes on after the exports were returned (waitUntil)

  soFar () {
    const { told: { stdout, stderr }, asked } = this
    return { ms: performance.now(), cpu: process.cpuUsage(), stdout, stderr, bridgeCalls: asked }
  }

  awaitWork (began) {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.endWaiting('truncated'), Math.max(0, Math.min(this.graceMs, this.wallMs - performance.now() - WALL_MARGIN_MS)))
      timer.unref() // work that nothing can settle is not awaited
      this.waiting = (status, report) => {
        clearTimeout(timer)
        const { user, system } = process.cpuUsage(began.cpu)
        const { stdout, stderr, bridgeCalls } = began
        resolve({ status, durationMs: performance.now() - began.ms, cpuTimeMs: (user + system) / 1000, stdout, stderr, bridgeCalls, ...report && { error: { name: report.name, message: report.message } } })
      }
      this.guest.awaitWork()
    })
  }

  endWaiting (status, report) {
    const end = this.waiting
    this.waiting = undefined
    end?.(status, report)
  }

  setGrace (graceMs, wallMs) {
    if (graceMs >= 0) this.graceMs = graceMs
    if (wallMs > 0) this.wallMs = this.beganMs + wallMs
  }

  // The event loop has nothing left: pending promises stay pending forever.
  stalled () {
    if (this.run === undefined || this.calls > 0 || this.timers.size > 0) return false
    if (this.waiting !== undefined) {
      this.endWaiting('truncated')
      return true
    }
    if (this.guest.bodiesOpen() > 0) {
      this.guest.abandonBodies()
      return true
    }
    const [code, what] = this.run.phase === 'prepare' ? ['ERR_PREFIX_DID_NOT_SETTLE', 'prefix'] : ['ERR_EXPORT_UNRESOLVED_PROMISE', 'code']
    this.stop(new Failure(code, 'Error', `the ${what} awaits a promise that nothing can settle`))
    return true
  }

  // -- failures

  shownStack (stack) {
    return this.language.place(cleanStack(stack))
  }

  failureOf (thrown) {
    return Failure.is(thrown) ? thrown : this.failure(this.guest.describeOwn(thrown))
  }

  failure ({ code, name, message, stack, fields }) {
    return new Failure(code, name, message, stack === undefined ? undefined : this.shownStack(stack), this.sendable(fields))
  }

  // Fields that cannot be sent are left out: the error itself matters more.
  sendable (fields, limit = this.limit) {
    if (fields === undefined || this.values === undefined) return fields
    this.guest.touch(fields)
    for (const key of Object.keys(fields)) if (!this.isSendable(fields[key], limit)) delete fields[key]
    return Object.keys(fields).length === 0 || !this.isSendable(fields, limit) ? undefined : fields
  }

  isSendable (value, limit) {
    try {
      this.values.encode(value, limit, true)
      return true
    } catch {
      return false
    }
  }

  encodeExports (exports, limit) {
    try {
      return this.values.encode(exports, limit, true)
    } catch (thrown) {
      throw this.exportFailure(thrown, limit)
    }
  }

  exportFailure (thrown, limit) {
    const failure = this.failureOf(thrown)
    if (failure.name === 'RangeError' && failure.message.includes('larger than')) return new Failure('ERR_EXPORT_TOO_LARGE', 'RangeError', `the exports are larger than ${limit} bytes`)
    const code = / headers of more than /.test(failure.message) ? 'ERR_TYPE_NOT_SERIALIZABLE' : 'ERR_EXPORT_NOT_SERIALIZABLE'
    if (failure.name === 'TypeError' && failure.message.startsWith('$')) return new Failure(code, 'TypeError', failure.message.replace(/^\$\[0\]/, '$'))
    return failure
  }

  hostForValues () {
    const typed = Object.fromEntries(Object.entries(TYPED).map(([name, kind]) => [name, this.classes[kind]]))
    const { classes, encodeClass } = this.guest
    // The encoder reads an error's stack after this check; by then it must be made (realm-bridge.cjs, format).
    const isNativeError = (value) => {
      const is = util.types.isNativeError(value)
      if (is) this.guest.format(value)
      return is
    }
    const own = Object.fromEntries(CLASSES.map((name) => [name, this.classes[name]]))
    return { ...own, typed, types: { ...util.types, isNativeError }, classes, encodeClass }
  }
}

// `values` is the result of values.cjs, or a function that makes it from hostForValues(); params
// are decoded with it before they come here. `bridge(target, args)` resolves to {value}, decoded
// too, or rejects with {name, message, fields}.
function createRealm (options) {
  const realm = new Realm(options)
  return {
    prepare: (params) => realm.begin('prepare', params),
    evaluate: (params) => realm.begin('evaluate', params),
    encodeExports: (exports, limit) => realm.encodeExports(exports, limit),
    hostForValues: () => realm.hostForValues(),
    stalled: () => realm.stalled(),
    owns: (value) => realm.guest.owns(value),
    // A rehearsal declared the name.
    withdraw (name) {
      vm.runInContext(`delete globalThis.${name}`, realm.context)
      realm.modules.withdraw(name)
    },
    values: realm.values
  }
}

module.exports = { createRealm }
