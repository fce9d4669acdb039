import type { Cloche, Prefix as CorePrefix, RunHooks } from '../client.js'
import { InvalidArgumentError, isPrefixError, type PrefixError, StateError } from '../generated/errors.js'
import type { Outgoing } from '../internal/connection.js'
import { addFields, makeError } from '../internal/decode.js'
import { encodeAnswer, type Handlers, prepareHost, type ModuleDeclaration } from '../internal/host.js'
import { lease, type Lease } from '../internal/shared.js'
import type { Result } from '../run.js'
import { Bridge } from './bridge.js'
import { type Armed, arm, defaults, forDaemon, given } from './limits.js'
import { aborted, callResult, type Ended, failed, runResult } from './outcome.js'
import { CALL_MODULE, calling, importing, OWN_FILE, reading } from './program.js'
import { Queue } from './queue.js'
import { globalsOf, importsOf, rebind, Undeclared } from './surface.js'
import type {
  CallResult, CallTarget, HostGlobals, Imports, PrecompileOptions, Prefix, PrefixCallOptions, PrefixRunOptions, ReadExportsOptions,
  ReadExportsResult, ResourceLimits, RunCallOptions, RunFailure, RunOptions, RunResult, Sandbox, SandboxOptions, SandboxStats
} from './types.js'

const RUN_FILE = '<cloche>'
const PREFIX_FILE = '<prefix>'
const MAX_QUEUED = 10_000
const SETUP_MS = 10_000

interface ModuleRequest { code: string, filename: string, limits: object }

/** One evaluation: what is evaluated, for whom, and what it may use. */
interface Job {
  code: string
  filename: string | undefined
  limits: ResourceLimits | undefined
  handlers: Handlers
  target?: CallTarget
  signals: Array<AbortSignal | undefined>
  start (request: ModuleRequest, signal: AbortSignal | undefined, hooks: RunHooks): Promise<Result<Record<string, unknown>>>
}

const isTake = (target: string[]): boolean => target[0] === 'import' && target[1] === CALL_MODULE
const pathOf = ({ export: path }: CallTarget): string[] => {
  if (typeof path !== 'string' || path === '') throw new TypeError('call.export must be the name of an export, dots reach into it')
  return path.split('.')
}
const noCall = (): never => { throw new TypeError('nothing is being called') }
const callModule: Record<string, ModuleDeclaration> = { [CALL_MODULE]: { members: { take: { kind: 'function', handler: noCall } } } }

/** The user's module under its file name, beside what it imports. */
function withModule (filename: string, code: string, imports: Imports | undefined): Record<string, ModuleDeclaration> {
  const declared = importsOf(imports)
  for (const name of [filename, CALL_MODULE]) {
    if (Object.hasOwn(declared, name)) throw new TypeError(`imports[${JSON.stringify(name)}] has the name of the code itself`)
  }
  return { ...declared, [filename]: { source: code }, ...callModule }
}

class Runner {
  readonly queue: Queue
  readonly prefixes = new Set<CorePrefix>()
  private disposed = false

  constructor (readonly held: Lease, readonly memoryMb: number, most: number, mostQueued: number) {
    this.queue = new Queue(most, mostQueued)
  }

  get client (): Cloche {
    return this.held.client
  }

  get alive (): boolean {
    return !this.disposed && this.client.alive
  }

  check (): void {
    if (this.disposed) throw new StateError('the sandbox is disposed')
  }

  async dispose (): Promise<void> {
    if (this.disposed) return
    this.disposed = true
    this.queue.close('the sandbox is disposed')
    await Promise.all([...this.prefixes].map(async (prefix) => { await prefix.dispose() }))
    this.held.release()
  }

  /** undefined: given up before it began. */
  async evaluate (job: Job): Promise<Ended | { reason: unknown }> {
    this.check()
    const armed = arm(job.limits, this.memoryMb)
    const signals = job.signals.filter((signal) => signal !== undefined)
    const signal = signals.length === 0 ? undefined : AbortSignal.any(signals)
    if (signal?.aborted) return { reason: signal.reason }
    const bridge = new Bridge(job.handlers, armed.maxBridgePayloadBytes)
    const hooks: RunHooks = { call: job.target === undefined ? bridge.call : withArguments(bridge, job.target) }
    try {
      const result = await this.queue.run(async () => await job.start(requestOf(job, armed), signal, hooks), signal)
      return { result, armed, bridgeCalls: bridge.entries, reason: signal?.reason }
    } catch (thrown) {
      if (signal?.aborted && thrown === signal.reason) return { reason: thrown }
      throw thrown
    }
  }
}

function requestOf ({ code, filename, target }: Job, armed: Armed): ModuleRequest {
  const limits = forDaemon(armed)
  // The arguments of a call are fetched by one call of ours, which is not the code's.
  if (target !== undefined && limits.bridgeCalls) limits.bridgeCalls++
  return { code, filename: filename ?? RUN_FILE, limits }
}

function withArguments (bridge: Bridge, target: CallTarget): (target: string[], args: unknown[]) => Promise<Outgoing> {
  const given = { path: pathOf(target), args: target.args ?? [] }
  return async (called, args) => isTake(called) ? await encodeAnswer(given) : await bridge.call(called, args)
}

const isEnded = (value: Ended | { reason: unknown }): value is Ended => 'result' in value
const asRun = (done: Ended | { reason: unknown }): RunResult => isEnded(done) ? runResult(done) : aborted(done.reason)
const asCall = (done: Ended | { reason: unknown }, { export: path }: CallTarget): CallResult =>
  isEnded(done) ? callResult(done, path) : aborted(done.reason)

class OpenSandbox implements Sandbox {
  constructor (private readonly runner: Runner) {}

  get alive (): boolean {
    return this.runner.alive
  }

  run (options: RunCallOptions): Promise<CallResult>
  run (options: RunOptions): Promise<RunResult>
  async run (options: RunOptions & { call?: CallTarget }): Promise<RunResult | CallResult> {
    const { code, filename = RUN_FILE, globals, imports, limits, signal, hardAbortSignal, call } = options
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
      const module = { language: 'javascript', warm: true, ...request }
      return await this.runner.client.run('evaluate', module, signal === undefined ? {} : { signal }, { ...surface, ...hooks })
    }
  }

  async readExports ({ code, limits, filename = RUN_FILE }: ReadExportsOptions): Promise<ReadExportsResult> {
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
    const { code, globals, imports, filename = PREFIX_FILE, signal, limits } = options
    const { wallTimeMs = SETUP_MS, cpuTimeMs = SETUP_MS } = limits === undefined ? {} : given(limits)
    const surface = { globals: globalsOf(globals), imports: withModule(filename, code, imports) }
    const request = {
      language: 'javascript',
      code: importing(filename),
      filename: OWN_FILE,
      bare: true,
      limits: { wallMs: wallTimeMs, cpuMs: cpuTimeMs }
    }
    try {
      const core = await this.runner.client.makePrefix(request, surface, signal === undefined ? {} : { signal })
      this.runner.prefixes.add(core)
      return new OpenPrefix<G, M>(this.runner, core, filename)
    } catch (thrown) {
      throw isPrefixError(thrown) ? prefixFailure(thrown) : thrown
    }
  }

  async prepare<G extends HostGlobals, M extends Imports> (options: PrecompileOptions<G, M>): Promise<Prefix<G, M>> {
    return await this.precompile(options)
  }

  async stats (): Promise<SandboxStats> {
    this.runner.check()
    const daemon = await this.runner.client.stats()
    return { activeRuns: this.runner.queue.active, queueDepth: this.runner.queue.depth, prefixes: daemon.prefixes, daemon }
  }

  async dispose (): Promise<void> {
    await this.runner.dispose()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}

class OpenPrefix<G extends HostGlobals, M extends Imports> implements Prefix<G, M> {
  constructor (private readonly runner: Runner, private readonly core: CorePrefix, private readonly filename: string) {}

  get id (): string {
    return this.core.id
  }

  get alive (): boolean {
    return this.core.alive && this.runner.alive
  }

  async run ({ code, filename, ...options }: PrefixRunOptions<G, M>): Promise<RunResult> {
    const job = this.job(options)
    return 'status' in job ? job : asRun(await this.runner.evaluate({ ...job, code, filename }))
  }

  async execute (options: PrefixRunOptions<G, M>): Promise<RunResult> {
    return await this.run(options)
  }

  async call ({ export: path, args = [], ...options }: PrefixCallOptions<G, M>): Promise<CallResult> {
    const job = this.job(options)
    const target = { export: path, args }
    return 'status' in job ? job : asCall(await this.runner.evaluate({ ...job, code: calling(this.filename), filename: OWN_FILE, target }), target)
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

// -- what set-up throws

function errorFrom ({ error: { code, name, message, stack, fields } }: Pick<RunFailure, 'error'>): Error {
  return addFields(Object.assign(makeError(name, message, stack), { code }), fields ?? {})
}

function prefixFailure (error: PrefixError): Error {
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

// Without a failure of the code's own: it took too long, too much, or ended.
const limitOf = (message: string): string => /took more than|limit|memory/i.test(message) ? 'ERR_WARMUP_LIMIT' : 'ERR_INTERNAL'

// -- making one

const countOf = (name: string, value: number | undefined): number => {
  if (value === undefined) return Infinity
  if (!Number.isSafeInteger(value) || value < 1) {
    throw new InvalidArgumentError(`${name} is ${String(value)}; a whole number from 1 is expected`)
  }
  return value
}

/** A place for runs: each in a box of its own, forked warm, with clean state. */
export async function createSandbox (options: SandboxOptions = {}): Promise<Sandbox> {
  const { maxIsolates, maxConcurrentRuns, maxQueuedRuns = MAX_QUEUED, memoryMb = defaults.memoryMb, memoryBudgetMb: _, binaryPath, ...client } = options
  const most = Math.min(countOf('maxIsolates', maxIsolates), countOf('maxConcurrentRuns', maxConcurrentRuns))
  arm({ memoryMb })
  const held = await lease({ ...client, ...binaryPath === undefined ? {} : { daemon: binaryPath } })
  return new OpenSandbox(new Runner(held, memoryMb, most, maxQueuedRuns))
}
