import { GuardMissingError, InternalError, InvalidArgumentError, ProtocolError, StateError } from './generated/errors.js'
import { type Method, SnapshotOperations, VolumeOperations } from './generated/sandbox.js'
import { Images } from './images.js'
import { Packages } from './packages.js'
import { Asking, type Line, type OperationOptions } from './internal/asking.js'
import { Connection, type Outgoing, type Peer, type Received, type Waiting } from './internal/connection.js'
import { readBody, UnreadBody } from './internal/classes.js'
import { type DaemonOptions, type Link, reach, within } from './internal/daemon.js'
import { Attachments, encode } from './internal/encode.js'
import { ConnectionError, RequestTimeoutError } from './internal/error.js'
import { checkKnown, type Names } from './internal/known.js'
import {
  askNames, callNames, connectNames, evaluateNames, eventNames, forkedCallNames, forkedEvaluateNames, operationNames, prefixNames, runOptionNames,
  scriptNames, syncNames, syncOptionNames
} from './internal/options.js'
import {
  type Declaration, declarationsOf, encodeAnswer, handlerKey, type Handlers, type ModuleDeclaration, modulesOf, prepareHost, thrownOf
} from './internal/host.js'
import {
  type CallRequest, type Change, decodeResult, type Denial, encodeRun, type MountOptions, present, type Result, type RunOptions,
  type RunRequest, type ScriptRequest, type SyncOutcome
} from './run.js'
import { type SandboxHandle, Sandboxes } from './sandbox/native.js'
import type { Json } from './internal/values.js'

export const VERSION = '0.1.0'
const PROTOCOL = 1

export interface ConnectOptions extends DaemonOptions {
  signal?: AbortSignal
  /** Time limit for the daemon's greeting, in ms. */
  connectTimeoutMs?: number
}

export interface Language {
  name: string
  aliases: string[]
  extension: string
  interpreter: string
  warm: boolean
  build: boolean
  evaluate: boolean
}

export interface Guard { name: string, state: 'absent' | 'degraded' | 'enforced' | 'off', reason: string }
export interface PrefixInfo { prefix: string, language: string, name?: string, runs: number }
export interface Stats {
  connections: number
  runs: { now: number, waiting: number, total: number, byStatus: Record<string, number> }
  prefixes: number
  [name: string]: unknown
}
export interface AskOptions { signal?: AbortSignal, timeoutMs?: number }

export interface SyncRequest {
  changeset?: string
  changes?: readonly object[]
  mount?: MountOptions
  onError?: 'rollback' | 'continue' | 'abort'
  conflict?: string
  /** inside: symbolic links that lead out of their directory are refused. */
  links?: 'any' | 'inside'
  dryRun?: boolean
}
/** The steps that a sync would take (`dryRun`). */
export interface SyncPlan {
  steps: Array<{ path: string, type: string, action: string, [name: string]: unknown }>
  denied: Array<{ path: string, [name: string]: unknown }>
  conflicts: SyncOutcome['conflicts']
  skipped: SyncOutcome['skipped']
}

export interface PrefixRequest extends Omit<RunRequest, 'stdin' | 'env' | 'workdir' | 'network' | 'warm' | 'mount' | 'resultOptions'> {
  /** For `evaluate`: set up in the bare realm (JavaScript). */
  bare?: boolean
  /** Kept by the daemon under this name when the connection ends. */
  name?: string
}

/** The callbacks of a running request. */
interface Listener {
  handlers: Handlers
  call: (target: string[], args: unknown[], kwargs: Record<string, unknown>) => Promise<Outgoing>
  options: RunOptions
  hasJsonArguments?: boolean
  streamOf?: RunHooks['streamOf'] | undefined
}

/** Listeners for the events of requests, by request id. */
type Hearers = Map<number, (event: string, about: unknown, received: Received) => void>

/** Options by which runs of the façades differ from plain ones. @internal */
export interface RunHooks {
  globals?: Record<string, Declaration>
  imports?: Record<string, ModuleDeclaration>
  handlers?: Handlers
  call?: Listener['call']
  /** The result's value is plain JSON. */
  isJson?: boolean
  /** Arguments of the host's functions are plain JSON. */
  hasJsonArguments?: boolean
  /** Views of one buffer in a declaration keep sharing it. */
  views?: boolean
  /** Unfinished bodies come piece by piece (spec/agent.md, Bodies): returns the stream of one, by its number. */
  streamOf?: (number: unknown) => ReadableStream<Uint8Array>
}

const ASK_TIMEOUT_MS = 30_000
const CONNECT_TIMEOUT_MS = 10_000
const CLOSE_WAIT_MS = 10_000
const KILL_WAIT_MS = 1000

const targetOf = (value: unknown): string[] => {
  if (!Array.isArray(value) || !value.every((step) => typeof step === 'string')) {
    throw new ProtocolError('a call of a host function has no target')
  }
  return value
}

/** Calls the host function at a target; returns its result, encoded. */
async function callHandler (handlers: Handlers, target: string[], args: unknown[], kwargs: Record<string, unknown>): Promise<Outgoing> {
  const handler = handlers.get(handlerKey(target))
  if (handler === undefined) throw new ReferenceError(`${target.slice(1).join('.')} is no function of the host`)
  // Languages with keywords pass them last, as an object.
  return await encodeAnswer(await handler(...args, ...Object.keys(kwargs).length > 0 ? [kwargs] : []))
}

/** A connection to cloched: runs, prefixes, sandboxes and syncs. */
export class Cloche implements AsyncDisposable {
  /** The daemon's greeting. */
  readonly server: {
    server: string
    version: string
    protocol: number
    /** Guards that are not in force there. */
    missing: string[]
  }
  private readonly connection: Connection
  private readonly link: Link
  private readonly listeners: Map<number, Listener>
  private readonly hearers: Hearers
  readonly sandboxes = new Sandboxes((method, params, options) => this.asking(method, params, options))
  /** Kept copies of sandboxes, for new ones (`snapshot` of `sandboxes.create`). */
  readonly snapshots = new SnapshotOperations((method, params, options) => this.asking(method, params, options))
  /** Kept directories of a fixed size, for the sandboxes of this caller. */
  readonly volumes = new VolumeOperations((method, params, options) => this.asking(method, params, options))

  /** The image store of the daemon. */
  readonly images = new Images(async (method, params, options) => await this.plain(method, params, options))

  /** Packages that are kept for new sandboxes. */
  readonly packages = new Packages(async (method, params, options) => await this.plain(method, params, options))

  private constructor (parts: {
    server: Cloche['server'], connection: Connection, link: Link, listeners: Map<number, Listener>, hearers: Hearers
  }) {
    this.server = parts.server
    this.connection = parts.connection
    this.link = parts.link
    this.listeners = parts.listeners
    this.hearers = parts.hearers
  }

  /**
   * Connects to a running daemon (`socket`, or `host`, `port` and `token`), or starts one, which
   * ends with this client.
   */
  static async connect (options: ConnectOptions = {}): Promise<Cloche> {
    checkKnown('connect', options, connectNames)
    const link = await reach(options, options.signal)
    const listeners = new Map<number, Listener>()
    const hearers: Hearers = new Map()
    const connection = new Connection(link.socket, new Answers(listeners, hearers), link.explain, link.refusal)
    try {
      const server = await greet(connection, options, link.isOurs)
      void connection.ended.then(async () => { await endLink(link, CLOSE_WAIT_MS) })
      return new Cloche({ server, connection, link, listeners, hearers })
    } catch (thrown) {
      connection.close('it did not greet')
      await endLink(link, KILL_WAIT_MS)
      throw thrown
    }
  }

  /** False if the connection has ended. */
  get alive (): boolean {
    return this.connection.isOpen
  }

  /** The process id of a daemon that this client has started. */
  get pid (): number | undefined {
    return this.link.pid
  }

  /** Resolves to the reason after the connection has ended. */
  get ended (): Promise<string> {
    return this.connection.ended
  }

  // -- runs

  /** Calls a function. A failure of the code is a result, not an exception. */
  async call<T = unknown> (request: CallRequest, options: RunOptions = {}): Promise<Result<T>> {
    checkRun('call', request, options, callNames)
    return await this.run<T>('call', request, options)
  }

  /** Runs a script: its streams and exit code are the result. */
  async script (request: ScriptRequest, options: RunOptions = {}): Promise<Result<undefined>> {
    checkRun('script', request, options, scriptNames)
    return await this.run<undefined>('script', request, options)
  }

  /** Evaluates an ECMAScript module in the bare realm: its exports are the result. */
  async evaluate<T = Record<string, unknown>> (request: RunRequest, options: RunOptions = {}): Promise<Result<T>> {
    checkRun('evaluate', request, options, evaluateNames)
    return await this.run<T>('evaluate', request, options)
  }

  /** Set-up code, run once and forked into every run. */
  async prefix (request: PrefixRequest, options: AskOptions = {}): Promise<Prefix> {
    checkKnown('prefix', request, prefixNames)
    checkKnown('prefix: options', options, askNames)
    return await this.makePrefix(request, hostOf(request), options)
  }

  /** @internal */
  async makePrefix (request: PrefixRequest, host: RunHooks, options: AskOptions = {}): Promise<Prefix> {
    const { globals, imports, handlers } = prepareHost(host.globals ?? {}, host.imports ?? {})
    const extra = { bare: request.bare, name: request.name }
    const make = (attachments: Attachments): Json => encodeRun(request, { globals, imports, extra }, attachments, host.views)
    const ask = async (): Promise<Received> =>
      await this.revocable(this.connection.nextId(), 'prefix.create', make, { timeoutMs: PREFIX_TIMEOUT_MS, ...options })
    const made = await withBodies(ask, options.signal)
    const id = (made.body as { prefix?: unknown } | null)?.prefix
    if (typeof id !== 'string' && typeof id !== 'number') throw new ProtocolError('prefix.create: the answer names no prefix')
    return new Prefix(this, String(id), id, request.language, handlers)
  }

  /** @internal */
  async run<T> (
    method: 'call' | 'script' | 'evaluate', request: object, options: RunOptions, hooks: RunHooks = {}, extra: Record<string, unknown> = {}
  ): Promise<Result<T>> {
    const host = hooks.globals === undefined && hooks.imports === undefined ? hostOf(request as RunRequest) : hooks
    const { globals, imports, handlers } = prepareHost(host.globals ?? {}, host.imports ?? {})
    const known = hooks.handlers ?? handlers
    const id = this.connection.nextId()
    const call = hooks.call ?? (async (target, args, kwargs) => await callHandler(known, target, args, kwargs))
    this.listeners.set(id, { handlers: known, call, options, hasJsonArguments: hooks.hasJsonArguments === true, streamOf: hooks.streamOf })
    const wire = {
      globals, imports, extra: { ...extra, stream: options.onOutput === undefined ? undefined : true, bodies: hooks.streamOf === undefined ? undefined : true }
    }
    const make = (attachments: Attachments): Json => encodeRun(withEvents(request, options), wire, attachments, hooks.views)
    try {
      return decodeResult<T>(await withBodies(async () => await this.cancellable(id, method, make, options), options.signal), hooks.isJson)
    } finally {
      this.listeners.delete(id)
    }
  }

  private async cancellable (
    id: number, method: string, make: (attachments: Attachments) => Json, { signal, timeoutMs }: RunOptions
  ): Promise<Received> {
    let isSent = false
    const cancel = (): void => { if (isSent) this.cancel(id) }
    const outgoing = (): Outgoing => {
      signal?.throwIfAborted()
      const message = outgoingOf(make)
      isSent = true
      return message
    }
    signal?.throwIfAborted()
    if (this.connection.isCongested) await this.connection.room(signal)
    signal?.addEventListener('abort', cancel, { once: true })
    try {
      return await this.connection.request(id, method, outgoing, { timeoutMs })
    } catch (thrown) {
      if (thrown instanceof RequestTimeoutError) cancel()
      throw thrown
    } finally {
      signal?.removeEventListener('abort', cancel)
    }
  }

  // Cancelled requests must not go on without a caller.
  private async revocable (id: number, method: string, make: (attachments: Attachments) => Json, { signal, timeoutMs }: Waiting): Promise<Received> {
    let isSent = false
    const outgoing = (): Outgoing => {
      const message = outgoingOf(make)
      isSent = true
      return message
    }
    try {
      return await this.connection.request(id, method, outgoing, { signal, timeoutMs })
    } catch (thrown) {
      if (isSent && (signal?.aborted === true || thrown instanceof RequestTimeoutError)) this.cancel(id)
      throw thrown
    }
  }

  private cancel (id: number): void {
    // The run's own response has its status, and reports a lost connection too.
    this.ask('cancel', () => ({ id })).catch(() => {})
  }

  // -- sandboxes

  /** The sandbox of that name: created, or restarted, on its first request. */
  sandbox (name: string): SandboxHandle {
    return this.sandboxes.get(name)
  }

  private asking<T, E> (method: Method, params: object, waiting: OperationOptions): Asking<T, E> {
    const line: Line = {
      request: async (id, make) => await this.revocable(id, method, make, waiting),
      listen: (id, hear) => {
        const { tap } = waiting
        this.hearers.set(id, tap === undefined ? hear : (event, about, received) => { tap(event, about); hear(event, about, received) })
      },
      forget: (id) => { this.hearers.delete(id) },
      cancel: (id) => { this.cancel(id) },
      hold: (id, hold) => { this.ask('hold', () => ({ id, hold })).catch(() => {}) }
    }
    const make = (attachments: Attachments): Json => {
      checkKnown(`${method}: options`, waiting, operationNames)
      try {
        return encodeMembers(params, attachments)
      } catch (thrown) {
        if (!(thrown instanceof TypeError || thrown instanceof RangeError)) throw thrown
        throw new InvalidArgumentError(`${method}: ${thrown.message}`, { cause: thrown })
      }
    }
    return new Asking<T, E>(line, this.connection.nextId(), make, ({ body, incoming }) => incoming.decode(body) as T)
  }

  // -- other requests

  async languages (options: AskOptions = {}): Promise<Language[]> {
    return (await this.plain<{ languages: Language[] }>('languages', {}, options)).languages
  }

  async guards (options: AskOptions = {}): Promise<Guard[]> {
    return (await this.plain<{ guards: Guard[] }>('guards', {}, options)).guards
  }

  async stats (options: AskOptions = {}): Promise<Stats> {
    return await this.plain<Stats>('stats', {}, options)
  }

  async prefixes (options: AskOptions = {}): Promise<PrefixInfo[]> {
    return (await this.plain<{ prefixes: PrefixInfo[] }>('prefix.list', {}, options)).prefixes
  }

  /** A prefix kept by name, made by this client or an earlier one. Host functions are this client's. */
  namedPrefix (name: string, language: string, functions: Record<string, unknown> = {}): Prefix {
    return new Prefix(this, name, name, language, prepareHost(declarationsOf(functions), {}).handlers)
  }

  async disposePrefix (prefix: string | number, options: AskOptions = {}): Promise<void> {
    await this.plain('prefix.dispose', { prefix }, options)
  }

  /** Writes changes to the host's directories, as one transaction; with `dryRun` returns the steps instead. */
  async sync (request: SyncRequest & { dryRun: true }, options?: AskOptions & Pick<RunOptions, 'events'>): Promise<SyncPlan>
  async sync (request: SyncRequest, options?: AskOptions & Pick<RunOptions, 'events'>): Promise<SyncOutcome>
  async sync (request: SyncRequest, options: AskOptions & Pick<RunOptions, 'events'> = {}): Promise<SyncOutcome | SyncPlan> {
    checkKnown('sync', request, syncNames)
    checkKnown('sync: options', options, syncOptionNames)
    checkKnown('sync: options.events', options.events, eventNames)
    const id = this.connection.nextId()
    const { events } = options
    this.listeners.set(id, { handlers: new Map(), call: noCall, options: events === undefined ? {} : { events } })
    const message = { ...request, ...events === undefined ? {} : { events: namesOf(events) } }
    try {
      const { body, incoming } = await this.revocable(id, 'sync', (attachments) => encodeMembers(message, attachments), options)
      return incoming.decode(body) as SyncOutcome | SyncPlan
    } finally {
      this.listeners.delete(id)
    }
  }

  async dropChangeset (changeset: string, options: AskOptions = {}): Promise<void> {
    await this.plain('changeset.drop', { changeset }, options)
  }

  private async plain<T> (method: string, params: object, options: AskOptions): Promise<T> {
    checkKnown(`${method}: options`, options, askNames)
    const { body, incoming } = await this.ask(method, (attachments) => encodeMembers(params, attachments), options)
    return incoming.decode(body) as T
  }

  private async ask (
    method: string, make: (attachments: Attachments) => Json, { signal, timeoutMs = ASK_TIMEOUT_MS }: Waiting = {}
  ): Promise<Received> {
    return await this.connection.request(this.connection.nextId(), method, () => outgoingOf(make), { signal, timeoutMs })
  }

  // -- the end

  /**
   * Ends the connection, and with it every run and unnamed prefix of this client; waits for a
   * daemon that it has started.
   */
  async close (): Promise<void> {
    this.connection.close('the client was closed')
    await endLink(this.link, CLOSE_WAIT_MS)
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.close()
  }
}

/** Bodies of requests and responses in the params are read first, within the caller's timeout. */
async function withBodies<T> (ask: () => Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  for (;;) {
    try {
      return await ask()
    } catch (thrown) {
      if (!(thrown instanceof UnreadBody)) throw thrown
      await orAborted(readBody(thrown.carrier), signal)
    }
  }
}

async function orAborted (reading: Promise<void>, signal: AbortSignal | undefined): Promise<void> {
  if (signal === undefined) return await reading
  let giveUp = (): void => {}
  const aborted = new Promise<never>((_resolve, reject) => { giveUp = () => { reject(signal.reason) } })
  signal.addEventListener('abort', giveUp, { once: true })
  try {
    await Promise.race([reading, aborted])
  } finally {
    signal.removeEventListener('abort', giveUp)
  }
}

/** A started daemon ends with its connection; one that hangs, or is no cloched at all, is killed. */
async function endLink (link: Link, waitMs: number): Promise<void> {
  await within(link.gone, waitMs)
  link.kill()
  await within(link.gone, KILL_WAIT_MS)
}

const PREFIX_TIMEOUT_MS = 120_000

function checkRun<T> (owner: string, request: object, options: RunOptions, known: Names<T>): void {
  checkKnown(owner, request, known)
  checkKnown(`${owner}: options`, options, runOptionNames)
  checkKnown(`${owner}: options.events`, options.events, eventNames)
}

const noCall: Listener['call'] = async () => { throw new InternalError('nothing runs here that could call the host') }

function outgoingOf (make: (attachments: Attachments) => Json): Outgoing {
  const attachments = new Attachments()
  return { body: make(attachments), attachments }
}

function encodeMembers (params: object, attachments: Attachments): Json {
  return Object.fromEntries(Object.entries(present(params) as object).map(([name, value]) => [name, encode(value, attachments)]))
}

const hostOf = ({ globals, imports }: Pick<RunRequest, 'globals' | 'imports'>): RunHooks =>
  ({ globals: declarationsOf(globals ?? {}), imports: modulesOf(imports ?? {}) })

const namesOf = (listeners: object): string[] =>
  Object.entries(listeners).filter(([, listener]) => listener !== undefined).map(([name]) => name)

/** The mount lists the events that have listeners. */
function withEvents<T extends { mount?: unknown }> (request: T, { events = {}, onPermissionDenied }: RunOptions): T {
  const names = namesOf({ ...events, permissionDenied: onPermissionDenied })
  return request.mount === undefined || names.length === 0 ? request : { ...request, mount: { ...request.mount as object, events: names } }
}

async function greet (
  connection: Connection, options: ConnectOptions, wantsNotice: boolean
): Promise<Cloche['server']> {
  const { token, signal, connectTimeoutMs = CONNECT_TIMEOUT_MS } = options
  const params = { protocol: PROTOCOL, client: `cloche-node/${VERSION}`, ...wantsNotice ? { notice: true } : {}, ...token === undefined ? {} : { token } }
  const hello = (): Outgoing => ({ body: params, attachments: new Attachments() })
  const { body } = await connection.request(connection.nextId(), 'hello', hello, { signal, timeoutMs: connectTimeoutMs })
  const { notice, ...server } = body as Cloche['server'] & { notice?: string }
  if (server?.server !== 'cloche') throw new ProtocolError(`hello: this is no cloched (${JSON.stringify(body)})`)
  if (server.protocol !== PROTOCOL) throw new ConnectionError(`the daemon speaks protocol ${server.protocol}, this client ${PROTOCOL}: update the older one`)
  const { missing = [] } = server
  if (options.strict === true && missing.length > 0) {
    throw new GuardMissingError(`guards missing: ${missing.join(', ')} (cloche selftest tells why; strict refuses)`)
  }
  if (notice !== undefined) process.emitWarning(notice, 'ClocheWarning')
  return server
}

/** Requests from the daemon, passed to the run they are about. */
class Answers implements Peer {
  constructor (private readonly listeners: Map<number, Listener>, private readonly hearers: Hearers) {}

  async asked (method: string, { body, incoming }: Received): Promise<Outgoing> {
    const params = Object(body) as Record<string, unknown>
    const listener = this.listeners.get(params.run as number)
    if (listener === undefined) throw new StateError(`${method}: the run ${String(params.run)} is over`)
    if (method === 'sync.before') return await beforeSync(listener, incoming.decode(params.change) as Change)
    if (method !== 'bridge') throw new InvalidArgumentError(`there is no method "${method}"`)
    incoming.streamOf = listener.streamOf
    try {
      const decode = (value: unknown): unknown => listener.hasJsonArguments === true ? incoming.decodeJson(value) : incoming.decode(value)
      const args = decode(params.args ?? []) as unknown[]
      const kwargs = decode(params.kwargs ?? {}) as Record<string, unknown>
      return await listener.call(targetOf(params.target), args, kwargs)
    } catch (thrown) {
      throw thrownOf(thrown)
    }
  }

  told (method: string, received: Received): void {
    const { body, incoming } = received
    const params = Object(body) as Record<string, unknown>
    if (method === 'event') return this.hearers.get(params.id as number)?.(String(params.event), incoming.decode(params.about), received)
    const options = this.listeners.get(params.run as number)?.options
    if (options === undefined) return
    const decoded = (): Record<string, unknown> => {
      const { run: _, ...rest } = incoming.decode(params) as Record<string, unknown>
      return rest
    }
    switch (method) {
      case 'output': return guarded(options.onOutput, () => [decoded()])
      case 'permissionDenied': return guarded(options.onPermissionDenied, () => [decoded() as unknown as Denial])
      case 'sync.after': return guarded(options.events?.afterSync, () => [decoded()])
      case 'sync.error': return guarded(options.events?.syncError, () => {
        const { change, error } = decoded()
        return [change, error]
      })
    }
  }
}

async function beforeSync ({ options }: Listener, change: Change): Promise<Outgoing> {
  const answer = await options.events?.beforeSync?.(change) ?? { action: 'continue' as const }
  return outgoingOf((attachments) => encodeMembers(answer, attachments))
}

/** An exception of a listener is thrown from the event loop, and the connection goes on. */
function guarded (listener: ((...args: never[]) => void) | undefined, args: () => unknown[]): void {
  if (listener === undefined) return
  const given = args()
  queueMicrotask(() => { listener(...given as never[]) })
}

/** Set-up code that has run once; every run is forked from it and sees its state. */
export class Prefix implements AsyncDisposable {
  private isDisposed = false

  /** @internal */
  constructor (
    readonly client: Cloche, readonly id: string, private readonly wireId: string | number, readonly language: string,
    /** @internal */ readonly handlers: Handlers
  ) {}

  get alive (): boolean {
    return !this.isDisposed && this.client.alive
  }

  async call<T = unknown> (request: Omit<CallRequest, 'language' | 'globals' | 'imports'>, options: RunOptions = {}): Promise<Result<T>> {
    checkRun('call of a prefix', request, options, forkedCallNames)
    return await this.run<T>('call', request, options)
  }

  async evaluate<T = Record<string, unknown>> (
    request: Omit<RunRequest, 'language' | 'globals' | 'imports'>, options: RunOptions = {}
  ): Promise<Result<T>> {
    checkRun('evaluate of a prefix', request, options, forkedEvaluateNames)
    return await this.run<T>('evaluate', request, options)
  }

  /** @internal */
  async run<T> (method: 'call' | 'evaluate', request: object, options: RunOptions, hooks: RunHooks = {}): Promise<Result<T>> {
    if (this.isDisposed) throw new StateError(`the prefix ${this.id} was disposed: create another one`)
    const all = { globals: {}, imports: {}, handlers: this.handlers, ...hooks }
    return await this.client.run<T>(method, { language: this.language, ...request }, options, all, { prefix: this.wireId })
  }

  /** Disposes of the prefix. Runs in progress go on. */
  async dispose (): Promise<void> {
    if (this.isDisposed) return
    this.isDisposed = true
    if (this.client.alive) {
      await this.client.disposePrefix(this.wireId).catch((thrown: unknown) => { if (!(thrown instanceof ConnectionError)) throw thrown })
    }
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }
}
