import type { Cloche, Prefix as CorePrefix, RunHooks } from '../client.js'
import type { ImageSettings } from '../images.js'
import { InvalidArgumentError, isPrefixError, isTemplateError, type PrefixError, StateError, type TemplateError } from '../generated/errors.js'
import type { Outgoing } from '../internal/connection.js'
import { addFields, makeError } from '../internal/values.js'
import { isConnectionError } from '../internal/error.js'
import { encodeAnswer, type Handlers, prepareHost, type ModuleDeclaration } from '../internal/host.js'
import { checkKnown, type Names } from '../internal/known.js'
import { clientNames } from '../internal/options.js'
import { lease, type Lease } from '../internal/shared.js'
import type { Result } from '../run.js'
import { Bridge } from './bridge.js'
import { type Armed, arm, defaults, forDaemon, given } from './limits.js'
import { Bodies } from './bodies.js'
import { aborted, type Begun, begunResult, callResult, type Ended, endOfBodies, failed, runResult } from './outcome.js'
import { CALL_MODULE, calling, importing, OWN_FILE, reading, withGrace, withSetUpLines } from './program.js'
import { Queue } from './queue.js'
import { globalsOf, importsOf, rebind, Undeclared } from './surface.js'
import type {
  BridgeCallEntry, CallResult, CallTarget, HostGlobals, Imports, PrecompileOptions, Prefix, PrefixCallOptions, PrefixRunOptions, ReadExportsOptions,
  ReadExportsResult, ResourceLimits, RunAborted, RunCallOptions, RunFailure, RunOptions, RunResult, Sandbox, SandboxOptions, SandboxStats, StaticImports
} from './types.js'

const RUN_FILE = '<cloche>'
const PREFIX_FILE = '<prefix>'
const DISPOSED = 'the sandbox is disposed'
const MAX_QUEUED = 10_000
/** Longer set-up code is a program, not a set-up. */
const SETUP_MS = 1000

interface ModuleRequest { code: string, filename: string, limits: object }

/** One evaluation: its code, its caller, and the resources it may use. */
interface Job {
  code: string
  filename: string | undefined
  limits: ResourceLimits | undefined
  handlers: Handlers
  target?: CallTarget
  /** The id of the prefix, for a run of one. */
  prefix?: string
  signals: Array<AbortSignal | undefined>
  start (request: ModuleRequest, signal: AbortSignal | undefined, hooks: RunHooks): Promise<Result<Record<string, unknown>>>
}

// A literal with half of a surrogate pair is written with an escape, which UTF-8 can hold.
const unicode = (code: string): string => code.replace(/[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g,
  (unit) => `\\u${unit.charCodeAt(0).toString(16)}`)

function codeAt (code: unknown, where: string): string {
  if (typeof code === 'string') return code
  const given = code === null ? 'null' : Array.isArray(code) ? 'an array' : typeof code
  throw new InvalidArgumentError(`${where}: code must be a string, the text of an ECMAScript module, not ${given}`)
}

/** Callers without type checks may pass anything, or nothing. */
function optionsAt<T> (options: T, where: string, known: Names<T>, example = CODE): T {
  if (options === null || typeof options !== 'object') {
    throw new InvalidArgumentError(`${where}: options are ${options === null ? 'null' : typeof options}; an object is expected: ${where}(${example})`)
  }
  checkKnown(where, options, known)
  return options
}
const CODE = "{code: 'export default 1'}"
const CALL = "{export: 'name', args: []}"

const abortNames = { signal: true, hardAbortSignal: true } as const
const codeNames = { code: true, limits: true, filename: true } as const
const surfaceNames = { globals: true, imports: true } as const
const targetNames: Names<CallTarget> = { export: true, args: true }
const runNames: Names<RunCallOptions> = { ...codeNames, ...surfaceNames, ...abortNames, call: true }
const exportsNames: Names<ReadExportsOptions> = codeNames
const prepareNames: Names<PrecompileOptions> = { ...codeNames, ...surfaceNames, signal: true }
const prefixRunNames: Names<PrefixRunOptions<HostGlobals, Imports>> = { ...codeNames, ...surfaceNames, ...abortNames }
const prefixCallNames: Names<PrefixCallOptions<HostGlobals, Imports>> = { ...targetNames, ...surfaceNames, ...abortNames, limits: true }

const isTake = (target: string[]): boolean => target[0] === 'import' && target[1] === CALL_MODULE
const pathOf = ({ export: path }: CallTarget): string[] => {
  if (typeof path !== 'string' || path === '') throw new TypeError('call.export must be the name of an export, dots reach into it')
  return path.split('.')
}
const argsOf = ({ args }: CallTarget): unknown[] => {
  if (args === undefined || args === null) return []
  if (!Array.isArray(args)) throw new InvalidArgumentError(`call: args must be an array, the arguments in their order, not ${typeof args}`)
  return args
}
const noCall = (): never => { throw new TypeError('nothing is being called') }
const callModule: Record<string, ModuleDeclaration> = { [CALL_MODULE]: { members: { take: { kind: 'function', handler: noCall } } } }

/** The user's module under its file name, beside its imports. */
function withModule (filename: string, code: string, imports: Imports | StaticImports | undefined): Record<string, ModuleDeclaration> {
  const declared = importsOf(imports)
  for (const name of [filename, CALL_MODULE]) {
    if (Object.hasOwn(declared, name)) throw new TypeError(`imports[${JSON.stringify(name)}] has the name of the code itself`)
  }
  return { ...declared, [filename]: { source: code }, ...callModule }
}

class Runner {
  readonly queue: Queue
  readonly prefixes = new Set<CorePrefix>()
  /** The number of runs that a prefix has, by its id. */
  readonly busy = new Map<string, number>()
  private disposed = false
  /** Runs with unfinished bodies after their exports were returned. */
  private followed = 0

  constructor (
    readonly held: Lease, readonly memoryMb: number, readonly budgetMb: number, private readonly most: number, mostQueued: number,
    readonly image: { image?: string, imageSettings?: ImageSettings }
  ) {
    this.queue = new Queue(most, mostQueued)
  }

  get client (): Cloche {
    return this.held.client
  }

  get alive (): boolean {
    return !this.disposed && this.client.alive
  }

  check (): void {
    if (this.disposed) throw new StateError(DISPOSED)
  }

  /** The connection was closed by dispose. */
  causeOf (thrown: unknown): unknown {
    return this.disposed && isConnectionError(thrown) ? new StateError(DISPOSED, { cause: thrown }) : thrown
  }

  async dispose (): Promise<void> {
    if (this.disposed) return
    this.disposed = true
    this.queue.close(DISPOSED)
    await Promise.all([...this.prefixes].map(async (prefix) => { await prefix.dispose() }))
    await this.held.end()
  }

  private async counted<T> ({ prefix }: Job, work: () => Promise<T>): Promise<T> {
    if (prefix === undefined) return await work()
    const add = (count: number): void => { this.busy.set(prefix, (this.busy.get(prefix) ?? 0) + count) }
    add(1)
    try {
      return await work()
    } finally {
      add(-1)
      if (this.busy.get(prefix) === 0) this.busy.delete(prefix)
    }
  }

  /** The exports may come before the run has ended; `reason` alone: it was cancelled before it started. */
  async evaluate (job: Job): Promise<Ended | Begun | { reason: unknown }> {
    this.check()
    const armed = arm(job.limits, this.memoryMb)
    const signals = job.signals.filter((signal) => signal !== undefined)
    const signal = signals.length === 0 ? undefined : AbortSignal.any(signals)
    if (signal?.aborted) return { reason: signal.reason }
    const bridge = new Bridge(job.handlers, armed.maxBridgePayloadBytes)
    const bodies = new Bodies(job.target === undefined ? bridge.call : withArguments(bridge, job.target), armed)
    const rest = this.ending(job, armed, signal, bodies, bridge.entries)
    rest.then((done) => { bodies.finish(endOfBodies(done)) }, (thrown) => { bodies.finish(thrown) })
    const begun = bodies.early.then((early) => ({ early, armed, bridgeCalls: bridge.entries, rest }))
    return await Promise.race([rest, begun])
  }

  // Another run may start before the bodies of this one are read: otherwise a caller that reads
  // them later would wait for itself. At most as many as may run at once may be left so: the code
  // alone decides how long its bodies are.
  private async follow (running: Promise<unknown>): Promise<void> {
    const ended = running.then(() => {}, () => {})
    if (this.followed >= this.most) return await ended
    this.followed++
    void ended.then(() => { this.followed-- })
  }

  private async ending (
    job: Job, armed: Armed, signal: AbortSignal | undefined, bodies: Bodies, bridgeCalls: BridgeCallEntry[]
  ): Promise<Ended | { reason: unknown }> {
    const hooks: RunHooks = { call: bodies.call, streamOf: bodies.streamOf }
    try {
      const { running } = await this.queue.run(async () => {
        const running = this.counted(job, async () => await job.start(requestOf(job, armed), signal, hooks))
        await Promise.race([running, bodies.early.then(async () => { await this.follow(running) })])
        return { running }
      }, signal)
      return { result: await running, armed, bridgeCalls, reason: signal?.reason }
    } catch (thrown) {
      if (signal?.aborted && thrown === signal.reason) return { reason: thrown }
      throw this.causeOf(thrown)
    }
  }
}

function requestOf ({ code, filename, target }: Job, armed: Armed): ModuleRequest {
  const limits = forDaemon(armed)
  // The arguments of a call are fetched by one internal call, which does not count.
  if (target !== undefined && limits.bridgeCalls) limits.bridgeCalls++
  return { code: withGrace(unicode(code), armed), filename: filename ?? RUN_FILE, limits }
}

function withArguments (bridge: Bridge, target: CallTarget): (target: string[], args: unknown[]) => Promise<Outgoing> {
  const given = { path: pathOf(target), args: argsOf(target) }
  return async (called, args) => isTake(called) ? await encodeAnswer(given, Infinity, true) : await bridge.call(called, args)
}

type Done = Ended | Begun | { reason: unknown }
function asResult<T extends RunResult | CallResult> (done: Done, make: (ended: Ended) => T): T | RunAborted {
  if ('early' in done) return begunResult(done, make)
  return 'result' in done ? make(done) : aborted(done.reason)
}
const asRun = (done: Done): RunResult => asResult(done, runResult)
const asCall = (done: Done, { export: path }: CallTarget): CallResult => asResult(done, (ended) => callResult(ended, path))

class OpenSandbox implements Sandbox {
  constructor (private readonly runner: Runner) {}

  get alive (): boolean {
    return this.runner.alive
  }

  run (options: RunCallOptions): Promise<CallResult>
  run (options: RunOptions): Promise<RunResult>
  async run (options: RunOptions & { call?: CallTarget }): Promise<RunResult | CallResult> {
    const { filename = RUN_FILE, globals, imports, limits, signal, hardAbortSignal, call } = optionsAt(options, 'run', runNames)
    checkKnown('run: call', call, targetNames)
    const code = codeAt(options.code, 'run')
    const surface = { globals: globalsOf(globals), imports: call === undefined ? importsOf(imports) : withModule(filename, code, imports) }
    const job = {
      limits,
      handlers: prepareHost(surface.globals, surface.imports).handlers,
      signals: [signal, hardAbortSignal],
      start: this.starter(surface)
    }
    if (call === undefined) return asRun(await this.runner.evaluate({ ...job, code, filename }))
    return asCall(await this.runner.evaluate({ ...job, code: calling(filename), filename: OWN_FILE, target: call }), call)
  }

  private starter (surface: RunHooks): Job['start'] {
    return async (request, signal, hooks) => {
      const module = { language: 'javascript', warm: true, ...this.runner.image, ...request }
      return await this.runner.client.run('evaluate', module, signal === undefined ? {} : { signal }, { ...surface, ...hooks, views: true })
    }
  }

  async readExports (options: ReadExportsOptions): Promise<ReadExportsResult> {
    const { code, limits, filename = RUN_FILE } = optionsAt(options, 'readExports', exportsNames)
    codeAt(code, 'readExports')
    const surface = { globals: {}, imports: withModule(filename, code, {}) }
    const job = { code: reading(filename), filename: OWN_FILE, limits, handlers: new Map(), signals: [], start: this.starter(surface) }
    const done = await this.runner.evaluate(job)
    const result = asRun(done)
    if (!result.ok) throw errorFrom(result as RunFailure)
    const { exports, skipped } = result.exports as unknown as { exports: Record<string, unknown>, skipped: string[] }
    return { exports: Object.assign({ default: undefined }, exports), skippedExports: skipped }
  }

  async precompile<G extends HostGlobals, M extends Imports> (options: PrecompileOptions<G, M>): Promise<Prefix<G, M>> {
    this.runner.check()
    const { globals, imports, filename = PREFIX_FILE, signal, limits } = optionsAt(options, 'prepare', prepareNames)
    const code = codeAt(options.code, 'prepare')
    const { wallTimeMs = SETUP_MS, cpuTimeMs = SETUP_MS, memoryMb = this.runner.memoryMb } = limits === undefined ? {} : given(limits)
    const surface = { globals: globalsOf(globals), imports: withModule(filename, code, imports) }
    const request = {
      language: 'javascript',
      code: importing(filename),
      filename: OWN_FILE,
      bare: true,
      ...this.runner.image,
      limits: forDaemon(arm({ wallTimeMs, cpuTimeMs, memoryMb }))
    }
    try {
      const core = await this.runner.client.makePrefix(request, { ...surface, views: true }, signal === undefined ? {} : { signal })
      this.runner.prefixes.add(core)
      return new OpenPrefix<G, M>(this.runner, core, filename)
    } catch (thrown) {
      throw isPrefixError(thrown) || isTemplateError(thrown) ? prefixFailure(thrown) : this.runner.causeOf(thrown)
    }
  }

  async prepare<G extends HostGlobals, M extends Imports> (options: PrecompileOptions<G, M>): Promise<Prefix<G, M>> {
    return await this.precompile(options)
  }

  async stats (): Promise<SandboxStats> {
    this.runner.check()
    const daemon = await this.runner.client.stats()
    const { queue, busy, budgetMb } = this.runner
    const prefixes = Object.fromEntries([...this.runner.prefixes].map(({ id }) => [id, { idle: 0, busy: busy.get(id) ?? 0 }]))
    return {
      activeRuns: queue.active,
      queueDepth: queue.depth,
      prefixes,
      warmInstances: queue.active,
      idleInstances: 0,
      idleHeapBytes: 0,
      budgetBytes: budgetMb * 2 ** 20,
      rssBytes: process.memoryUsage.rss(),
      underPressure: false,
      daemon
    }
  }

  async dispose (): Promise<void> {
    await this.runner.dispose()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}

class OpenPrefix<G extends HostGlobals, M extends Imports> implements Prefix<G, M> {
  /** The first run that compiles delivers the lines of the set-up's console. */
  private hasLines = true

  constructor (private readonly runner: Runner, private readonly core: CorePrefix, private readonly filename: string) {}

  get id (): string {
    return this.core.id
  }

  get alive (): boolean {
    return this.core.alive && this.runner.alive
  }

  async run (options: PrefixRunOptions<G, M>): Promise<RunResult> {
    const { code, filename, ...rest } = optionsAt(options, 'run', prefixRunNames)
    codeAt(code, 'run')
    const job = this.job(rest)
    return 'status' in job ? job : await this.delivering(code, async (code) => asRun(await this.runner.evaluate({ ...job, code, filename })))
  }

  private async delivering<T extends RunResult | CallResult> (code: string, evaluate: (code: string) => Promise<T>): Promise<T> {
    if (!this.hasLines) return await evaluate(code)
    this.hasLines = false
    const result = await evaluate(withSetUpLines(code))
    if (result.status === 'aborted' || (!result.ok && result.error.code === 'ERR_COMPILE')) this.hasLines = true
    return result
  }

  async execute (options: PrefixRunOptions<G, M>): Promise<RunResult> {
    return await this.run(options)
  }

  async call (options: PrefixCallOptions<G, M>): Promise<CallResult> {
    const { export: path, args = [], ...rest } = optionsAt(options, 'call', prefixCallNames, CALL)
    const job = this.job(rest)
    const target = { export: path, args }
    if ('status' in job) return job
    return await this.delivering(calling(this.filename), async (code) => asCall(await this.runner.evaluate({ ...job, code, filename: OWN_FILE, target }), target))
  }

  private job (
    { globals, imports, limits, signal, hardAbortSignal }: Omit<PrefixRunOptions<G, M>, 'code' | 'filename'>
  ): Omit<Job, 'code' | 'filename'> | RunFailure {
    if (!this.core.alive && this.runner.client.alive) return failed('ERR_PREFIX_DISPOSED', 'Error', 'the prefix is disposed')
    let handlers: Handlers
    try {
      handlers = rebind(this.core.handlers, globals, imports)
    } catch (thrown) {
      if (thrown instanceof Undeclared) return failed('ERR_UNDECLARED_BINDING', 'Error', thrown.message)
      throw thrown
    }
    return {
      limits,
      handlers,
      prefix: this.core.id,
      signals: [signal, hardAbortSignal],
      start: async (request, held, hooks) => await this.core.run('evaluate', request, held === undefined ? {} : { signal: held }, hooks)
    }
  }

  async dispose (): Promise<void> {
    this.runner.prefixes.delete(this.core)
    await this.core.dispose()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}

// -- errors of set-up code

function errorFrom ({ error: { code, name, message, stack, fields } }: Pick<RunFailure, 'error'>): Error {
  return addFields(Object.assign(makeError(name, message, stack), { code }), fields ?? {})
}

function prefixFailure (error: PrefixError | TemplateError): Error {
  const { failure } = error.data as { failure?: Record<string, unknown> }
  const { code, name = 'Error', message = error.message, stack, fields } = failure ?? {}
  const made = errorFrom({
    error: {
      code: (typeof code === 'string' ? code : limitOf(error.message)) as RunFailure['error']['code'],
      name: String(name),
      message: String(message),
      ...typeof stack === 'string' ? { stack } : {},
      ...fields === undefined ? {} : { fields: fields as Record<string, unknown> }
    }
  })
  return Object.defineProperty(made, 'cause', { value: error, writable: true, configurable: true, enumerable: false })
}

// Not a failure of the code's own: it took too long, too much, or ended.
function limitOf (message: string): string {
  if (/ran out of memory/.test(message)) return 'ERR_MEMORY_LIMIT'
  return /took more than/.test(message) ? 'ERR_WARMUP_LIMIT' : 'ERR_INTERNAL'
}

// -- creation

const countOf = (name: string, value: number | undefined): number => {
  if (value === undefined) return Infinity
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new InvalidArgumentError(`${name} is ${String(value)}; a whole number from 1 is expected`)
  }
  return value
}

const sandboxNames: Names<SandboxOptions> = {
  ...clientNames, maxIsolates: true, maxConcurrentRuns: true, maxQueuedRuns: true, memoryMb: true, memoryBudgetMb: true, binaryPath: true, image: true, imageSettings: true
}

/** A place for runs: each in a box of its own, forked warm, with clean state. */
export async function createSandbox (options: SandboxOptions = {}): Promise<Sandbox> {
  checkKnown('createSandbox', options, sandboxNames)
  const { maxIsolates, maxConcurrentRuns, maxQueuedRuns = MAX_QUEUED, memoryMb = defaults.memoryMb, memoryBudgetMb = 0, binaryPath, image, imageSettings, ...client } = options
  if (!Number.isSafeInteger(memoryBudgetMb) || memoryBudgetMb < 0) {
    throw new InvalidArgumentError(`memoryBudgetMb is ${String(memoryBudgetMb)}; a whole number of MiB is expected, 0 for none`)
  }
  const most = Math.min(countOf('maxIsolates', maxIsolates), countOf('maxConcurrentRuns', maxConcurrentRuns))
  arm({ memoryMb })
  const held = await lease({ ...client, ...binaryPath === undefined ? {} : { daemon: binaryPath } })
  return new OpenSandbox(new Runner(held, memoryMb, memoryBudgetMb, most, maxQueuedRuns, { ...(image === undefined ? {} : { image }), ...(imageSettings === undefined ? {} : { imageSettings }) }))
}
