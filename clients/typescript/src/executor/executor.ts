import { InvalidArgumentError, ProtocolError } from '../generated/errors.js'
import { ConnectionError } from '../internal/error.js'
import { checkKnown, type Names } from '../internal/known.js'
import { clientNames } from '../internal/options.js'
import { Leasing } from '../internal/shared.js'
import type { Limits } from '../generated/limits.js'
import { exitCodes } from '../generated/statuses.js'
import type { BeforeSyncAnswer, CallRequest, Change, Denial, Result, RunFailure, RunOptions, SyncEvents, SyncOutcome, Usage } from '../run.js'
import { argumentsOf, shown } from './arguments.js'
import { givenContents, withOldContents } from './before.js'
import { Events, type EventContext } from './events.js'
import { asError, changeOf, denialOf, summaryOf, syncResultOf, wireChange } from './files.js'
import type { WASIFile } from './memory.js'
import { checkDirs, mountOf } from './mounts.js'
import { Places } from './places.js'
import { readyForSync } from './sync.js'
import { SignatureInferenceEngine } from './signature.js'
import type {
  AfterSyncEventData, BeforeSyncEventResult, ExecutionError, ExecutionMeta, ExecutionResult, ExecutorOptions, FileChange, FunctionCallRequest, InvokeOptions,
  MountConfig, PermissionDeniedRecord, ReportingOptions, SyncErrorBehavior, SyncEventConfig, SyncResult
} from './types.js'

const executorNames: Names<ExecutorOptions> = { ...clientNames, defaultWorkdir: true, network: true, image: true, imageSettings: true, rich: true, syncEventConfig: true }
const syncEventNames: Names<SyncEventConfig> = { allowAbort: true }
const requestNames: Names<FunctionCallRequest> = {
  language: true, code: true, functionName: true, args: true, kwargs: true, schema: true, timeout: true, mount: true, files: true, workdir: true,
  resultOptions: true, options: true, argsMode: true, autoModeThreshold: true, signal: true, rich: true, env: true, stdin: true, limits: true,
  network: true, image: true, imageSettings: true, build: true, globals: true
}
const invokeNames: Names<InvokeOptions> = { mount: true, files: true, workdir: true, reporting: true, network: true }
const reportingNames: Names<ReportingOptions> = { includeChanges: true, includeContents: true, includeDenied: true, includeTemporary: true }
const syncFilesNames: Names<SyncFilesOptions> = { onError: true, signal: true }

export interface SyncFilesOptions {
  onError?: SyncErrorBehavior
  signal?: AbortSignal
}

const WORKDIR = '/workspace'
/** Several processors may work on one run, so its processor time may exceed its wall time. */
const PROCESSORS = 2

function limitsOf ({ timeout, limits }: FunctionCallRequest): Limits {
  if (timeout === undefined) return limits ?? {}
  if (typeof timeout !== 'number' || !(timeout >= 0) || timeout === Infinity) {
    throw new InvalidArgumentError(`timeout is ${shown(timeout)}; a number of seconds is expected, 0 for none`)
  }
  const wallMs = Math.ceil(timeout * 1000)
  return { wallMs, cpuMs: wallMs * PROCESSORS, ...limits }
}

const errorOf = ({ message, type, stack }: RunFailure): ExecutionError => ({ message, type, ...stack === undefined ? {} : { stack } })

/** No directories: everything is virtual. */
const isEmpty = ({ dirs }: MountConfig): boolean => dirs !== null && typeof dirs === 'object' && Object.keys(dirs).length === 0

/** If the sync request itself fails (another sync holds the directory, for example), every path fails. */
const allFailed = ({ created, modified, deleted }: Result['files'], error: unknown): SyncOutcome['failed'] =>
  [...created, ...modified, ...deleted].flatMap(({ realPath }) => realPath === undefined ? [] : [{ path: realPath, error }])

type SignatureSource = ExecutionMeta['signatureSource']

function resultOf<T> (result: Result<T>, hasFiles: boolean, inferred: () => SignatureSource): ExecutionResult<T> {
  const { status, success, error, stdout, stderr, exitCode, files, meta, sync } = result
  const { duration, signatureSource = inferred(), usage, limitsHit, warnings, network } = meta
  return {
    status,
    success,
    ...success ? { result: result.result as T } : {},
    ...error === undefined ? {} : { error: errorOf(error) },
    stdout,
    stderr,
    exitCode,
    ...hasFiles ? { files: summaryOf(files) } : {},
    ...sync === undefined ? {} : { sync: syncResultOf(sync.error === undefined ? sync : { ...sync, failed: allFailed(files, sync.error) }) },
    meta: { duration, signatureSource, usage, limitsHit, warnings, ...network === undefined ? {} : { network } }
  }
}

/** Replaces entries built by FSBuilder by their contents. */
function filesOf (given: object | undefined): object | undefined {
  if (given === null || typeof given !== 'object') return given
  const isBuilt = (file: unknown): file is WASIFile => ['string', 'binary'].includes((Object(file) as { mode?: unknown }).mode as string)
  return Object.fromEntries(Object.entries(given).map(([name, file]) => [name, isBuilt(file) ? file.content : file as unknown]))
}

/** The daemon's names of the options. */
function resultOptionsOf (given: ReportingOptions | undefined): object | undefined {
  if (given === undefined || given === null || typeof given !== 'object') return given
  const { includeTemporary: _, ...rest } = given
  return rest
}

/** Removes the host paths of files in places: these directories are temporary, and are not synced. */
function withoutPlaces<T> (result: Result<T>, places: Places): Result<T> {
  if (places.isEmpty) return result
  const withoutRealPaths = (changes: Change[]): Change[] => changes.map((change) => {
    const { realPath: _, ...rest } = change
    return places.has(String(change.path)) ? rest : change
  })
  const { created, modified, deleted } = result.files
  const isGiven = ({ path }: Change): boolean => places.isGiven(String(path))
  const changed = created.filter(isGiven).map((change): Change => ({ ...change, type: 'modified' }))
  const files = {
    ...result.files,
    created: withoutRealPaths(created.filter((change) => !isGiven(change))),
    modified: withoutRealPaths([...changed, ...modified]),
    deleted: withoutRealPaths(deleted)
  }
  if (result.sync === undefined) return { ...result, files }
  const { synced, skipped } = result.sync
  const sync = { ...result.sync, synced: synced.filter((path) => !places.has(path)), skipped: skipped.filter(({ path }) => !places.has(path)) }
  return { ...result, files, sync }
}

const NO_USAGE: Usage = { wallMs: 0, cpuMs: 0, memoryPeakBytes: 0, pidsPeak: 0, diskBytes: 0, diskInodes: 0, stdoutBytes: 0, stderrBytes: 0 }

/** The result of a call that failed before its run started. */
function withoutRun (status: 'error' | 'terminated', error: ExecutionError, duration: number, signatureSource: SignatureSource): ExecutionResult<never> {
  return {
    status,
    success: false,
    error,
    stdout: '',
    stderr: '',
    exitCode: exitCodes[status],
    meta: { duration, signatureSource, usage: NO_USAGE, limitsHit: [], warnings: [] }
  }
}

const CANCELLED: ExecutionError = { message: 'cancelled by the caller before it began', type: 'Cancelled' }

/** True if the request is not at fault: there is no daemon, or it violates the protocol. */
const isBroken = (thrown: unknown): boolean => thrown instanceof ConnectionError || thrown instanceof ProtocolError

function refusalOf (thrown: unknown): ExecutionError {
  const { message, name } = asError(thrown)
  return { message: message.replace(/^call: /, ''), type: name }
}

function checkRequest (request: FunctionCallRequest): void {
  if (request === null || typeof request !== 'object') {
    throw new InvalidArgumentError(`execute: the request is ${shown(request)}; an object is expected: execute({language: 'python', code: 'return 1'})`)
  }
  checkKnown('execute', request, requestNames)
  checkKnown('execute: options', request.options, invokeNames)
  checkKnown('execute: options.reporting', request.options?.reporting, reportingNames)
  checkKnown('execute: resultOptions', request.resultOptions, reportingNames)
}

/** The same source that the agent reports for a successful call. */
function sourceOf (request: FunctionCallRequest): SignatureSource {
  const { code, functionName, language, schema } = Object(request) as FunctionCallRequest
  return new SignatureInferenceEngine().resolve(String(code), functionName === undefined ? undefined : String(functionName), language, schema).source
}

export interface ExecutorEvents {
  beforeSync: (
    this: EventContext & { result: BeforeSyncEventResult | undefined }, change: FileChange
  ) => BeforeSyncEventResult | void | Promise<BeforeSyncEventResult | void>
  afterSync: (this: EventContext, data: AfterSyncEventData) => void
  syncError: (this: EventContext, change: FileChange, error: Error) => void
  permissionDenied: (this: EventContext, record: PermissionDeniedRecord) => void
}

export interface SandboxExecutor {
  on<E extends keyof ExecutorEvents> (eventName: E, listener: ExecutorEvents[E]): this
  once<E extends keyof ExecutorEvents> (eventName: E, listener: ExecutorEvents[E]): this
  off<E extends keyof ExecutorEvents> (eventName: E, listener: ExecutorEvents[E]): this
}

/** Calls functions in many languages, each call in a box of its own. */
// eslint-disable-next-line @typescript-eslint/no-unsafe-declaration-merging
export class SandboxExecutor extends Events implements AsyncDisposable {
  private readonly leasing: Leasing

  constructor (private readonly options: ExecutorOptions = {}) {
    super()
    checkKnown('createExecutor', options, executorNames)
    checkKnown('createExecutor: syncEventConfig', options.syncEventConfig, syncEventNames)
    const { defaultWorkdir: _, syncEventConfig: __, rich: ___, network: ____, image: _____, imageSettings: ______, ...client } = options
    this.leasing = new Leasing(client)
  }

  /** Rejects only if there is no daemon, or it is broken: all other failures are results. */
  async execute<T = unknown> (request: FunctionCallRequest): Promise<ExecutionResult<T>> {
    const started = performance.now()
    const { signal, rich = this.options.rich ?? false } = Object(request) as FunctionCallRequest
    const ended = (status: 'error' | 'terminated', error: ExecutionError): ExecutionResult<T> =>
      withoutRun(status, error, performance.now() - started, sourceOf(request))
    if (signal?.aborted) return ended('terminated', CANCELLED)
    let places: Places | undefined
    try {
      const { call, places: made, files } = this.callOf(request)
      places = made
      const { client } = await this.leasing.take()
      const result = await client.run<T>('call', call, this.runOptions(signal, places), { isJson: !rich })
      // The result has the contents; the daemon would keep its copy as long as the connection.
      if (result.changeset !== undefined) await client.dropChangeset(result.changeset)
      const contents = givenContents(files, call.workdir ?? WORKDIR)
      const told = call.resultOptions?.includeContents === false ? withoutPlaces(result, places) : withOldContents(withoutPlaces(result, places), contents)
      return resultOf(told, call.resultOptions?.includeChanges !== false, () => sourceOf(request))
    } catch (thrown) {
      if (signal?.aborted && thrown === signal.reason) return ended('terminated', CANCELLED)
      if (isBroken(thrown)) throw thrown
      return ended('error', refusalOf(thrown))
    } finally {
      places?.[Symbol.dispose]()
    }
  }

  /** Writes changes of a run to the host, as far as the mount permits. */
  async syncFiles (
    changes: readonly FileChange[], mount: MountConfig, options: SyncFilesOptions = {}
  ): Promise<SyncResult> {
    checkKnown('syncFiles', options, syncFilesNames)
    const { onError, signal } = options
    if (!Array.isArray(changes)) throw new TypeError('syncFiles takes an array of changes: [...files.created, ...files.modified, ...files.deleted], or some of them')
    changes.forEach(wireChange) // throws for invalid changes
    const given = new Map(changes.map((change) => [change.path, change]))
    checkDirs(mount)
    const { mount: ready, changes: chosen, folders, skipped, failed } = readyForSync(changes, mount)
    const unasked = new Set(folders.map(({ path }) => path))
    const wire = [...folders, ...chosen].map(wireChange)
    if (wire.length === 0) return { synced: [], failed, skipped }
    const { client } = await this.leasing.take()
    const request = { changes: wire, mount: mountOf(ready), ...onError === undefined ? {} : { onError } }
    const outcome = syncResultOf(await client.sync(request, { events: this.events(given, (path) => unasked.has(path)), ...signal === undefined ? {} : { signal } }), unasked)
    const renamed = chosen.filter(({ path, renamedFrom, content }) => renamedFrom !== undefined && content === undefined && outcome.synced.includes(path)).map(({ renamedFrom }) => renamedFrom as string)
    return {
      synced: [...outcome.synced, ...renamed.filter((path) => !outcome.synced.includes(path))],
      failed: [...failed, ...outcome.failed],
      skipped: [...skipped, ...outcome.skipped],
      ...outcome.aborted === undefined ? {} : { aborted: outcome.aborted }
    }
  }

  /** Releases the daemon. Without this it is released when the process ends. */
  async dispose (): Promise<void> {
    await this.leasing.release()
  }

  async [Symbol.asyncDispose] (): Promise<void> {
    await this.dispose()
  }

  private callOf (request: FunctionCallRequest): { call: CallRequest, places: Places, files: object | undefined } {
    checkRequest(request)
    const { language, code, functionName, args, kwargs, schema, options = {}, env, stdin, build, globals } = request
    const workdir = options.workdir ?? request.workdir ?? this.options.defaultWorkdir ?? WORKDIR
    const given = options.mount ?? request.mount
    const mount = given === undefined || isEmpty(given) ? undefined : mountOf(given)
    const files = filesOf(options.files ?? request.files)
    const call: Record<string, unknown> = {
      language,
      code,
      function: functionName,
      ...argumentsOf(args as readonly unknown[], kwargs),
      schema,
      files,
      resultOptions: resultOptionsOf(options.reporting ?? request.resultOptions),
      limits: limitsOf(request),
      network: options.network ?? request.network ?? this.options.network,
      image: request.image ?? this.options.image,
      imageSettings: request.imageSettings ?? (request.image === undefined ? this.options.imageSettings : undefined),
      env,
      stdin,
      build,
      globals,
      mount
    }
    // A template has its own folder and environment: other values start cold.
    if (workdir !== WORKDIR) call.workdir = workdir
    if (workdir !== WORKDIR || env !== undefined || stdin !== undefined) call.warm = false
    const { includeTemporary = false } = options.reporting ?? request.resultOptions ?? {}
    const places = new Places(workdir, files, mount as MountConfig | undefined, includeTemporary)
    if (!places.isEmpty) {
      call.mount = { sync: { mode: 'manual' }, ...mount, dirs: { ...mount?.dirs, ...places.dirs() } }
      call.files = places.rest(files)
    }
    return { call: call as unknown as CallRequest, places, files }
  }

  private runOptions (signal: AbortSignal | undefined, places: Places): RunOptions {
    const onPermissionDenied = (denial: Denial): void => { this.emit('permissionDenied', denialOf(denial)) }
    return {
      ...signal === undefined ? {} : { signal },
      events: this.events(new Map(), (path) => places.has(path)),
      ...this.listenerCount('permissionDenied') === 0 ? {} : { onPermissionDenied }
    }
  }

  // Only events with listeners are requested: each response costs a round trip. given: the caller's
  // changes, contents included. isUnasked: true for paths that are written without an event.
  private events (given: Map<string, FileChange>, isUnasked: (path: string) => boolean): SyncEvents {
    const seen = new Map(given)
    const known = (change: Change): FileChange => {
      const path = String(change.path)
      const found = seen.get(path) ?? changeOf(change)
      seen.set(path, found)
      return found
    }
    const isHeard = (name: keyof ExecutorEvents): boolean => this.listenerCount(name) > 0
    const beforeSync = async (change: Change): Promise<BeforeSyncAnswer> => {
      const own = known(change)
      return isUnasked(own.path) || !isHeard('beforeSync') ? { action: 'continue' } : await this.beforeSync(own)
    }
    const afterSync = ({ path, success, error }: { path: string, success: boolean, error?: unknown }): void => {
      if (isUnasked(path)) return
      this.emit('afterSync', { ...seen.get(path), path, success, ...error === undefined || error === null ? {} : { error: asError(error) } })
    }
    return {
      // afterSync gets the change that beforeSync received.
      ...isHeard('beforeSync') || (isHeard('afterSync') && given.size === 0) ? { beforeSync } : {},
      ...isHeard('afterSync') ? { afterSync } : {},
      ...isHeard('syncError') ? { syncError: (change, error) => { this.emit('syncError', known(change), asError(error)) } } : {}
    }
  }

  private async beforeSync (change: FileChange): Promise<BeforeSyncAnswer> {
    const answer = await this.emitAsync('beforeSync', change) as Partial<BeforeSyncEventResult> | undefined
    const { state = 'continue', reason } = answer ?? {}
    if (!['continue', 'skip', 'abort'].includes(state)) {
      throw new TypeError(`beforeSync answered ${JSON.stringify(state)}; continue, skip or abort is expected`)
    }
    const mayAbort = this.options.syncEventConfig?.allowAbort !== false
    return { action: state === 'abort' && !mayAbort ? 'skip' : state, ...reason === undefined ? {} : { reason } }
  }
}

export function createExecutor (options: ExecutorOptions = {}): SandboxExecutor {
  return new SandboxExecutor(options)
}
