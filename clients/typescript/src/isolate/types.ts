// The public types of the isolate façade. Names and shapes are part of its contract; README.md has the extensions.
import type { ImageSettings } from '../images.js'
import type { ClientOptions } from '../internal/shared.js'

/** Caps of one run. Unset means the default, 0 means none. */
export interface ResourceLimits {
  /** Memory of the box in MiB; by default the sandbox's `memoryMb`, 128. */
  memoryMb?: number
  /** Processor time in ms, without waiting for the host; by default 5,000. */
  cpuTimeMs?: number
  /** Time from start to result in ms; by default 30,000. */
  wallTimeMs?: number
  /** Calls of host functions, globals and imports together; by default 10. The next one never reaches the host and ends the run. */
  maxBridgeCalls?: number
  /** Bytes of one call's arguments, and of the bodies in them; by default 16 MiB. */
  maxBridgeCallBytes?: number
  /** Bytes of one call's arguments, and of its answer; by default 16 MiB. */
  maxBridgePayloadBytes?: number
  /** Bytes of all exports together, also of their bodies that come while they are read; by default 16 MiB. */
  maxExportBytes?: number
  /** Bytes of console.log, info and debug; a line over it is dropped whole. By default 1 MiB. */
  maxStdoutBytes?: number
  /** Likewise of console.warn and error. */
  maxStderrBytes?: number
  /**
   * Time for work given to `waitUntil` after the exports were returned, in ms, within `wallTimeMs`;
   * by default 30,000.
   */
  graceMs?: number
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type HostExportFunction = (...args: any[]) => unknown

/** Values that keep their class both ways, with cycles and identity. */
export type HostExportData =
  | null | undefined | boolean | number | bigint | string | Date | RegExp | Error | URL
  | Map<HostExportData, HostExportData> | Set<HostExportData> | ArrayBuffer | DataView
  | Int8Array | Uint8Array | Uint8ClampedArray | Int16Array | Uint16Array | Int32Array | Uint32Array | Float32Array | Float64Array
  | BigInt64Array | BigUint64Array | Request | Response | Headers
  | HostExportData[] | { [key: string]: HostExportData }

export interface GlobalOptions {
  /** True, the default: the name shows when globalThis is enumerated. */
  enumerable?: boolean
}

/** A host function; in the sandbox it is always asynchronous. */
export interface BridgeGlobal<H extends HostExportFunction = HostExportFunction> extends GlobalOptions {
  kind: 'bridge'
  handler: H
}

/** A host function whose result goes through `shim`, the source of a function, in the sandbox. */
export interface BridgeWithShim<H extends HostExportFunction = HostExportFunction> extends GlobalOptions {
  kind: 'bridge-with-shim'
  handler: H
  shim: string
}

/** A constant. */
export interface DataGlobal extends GlobalOptions {
  kind: 'data'
  value: HostExportData
}

/** An expression, evaluated once in the sandbox. */
export interface StringGlobal extends GlobalOptions {
  kind: 'string'
  expr: string
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type HostGlobalValue = HostExportFunction | string | BridgeWithShim<any> | BridgeGlobal<any> | DataGlobal | StringGlobal
export type HostGlobals = Record<string, HostGlobalValue>

export interface HostModuleObject { [name: string]: HostModuleValue }
export type HostModuleValue = HostExportFunction | HostExportData | HostModuleObject
/** The source of a module, or an object: its functions call the host, its data are constants. */
export type ImportValue = string | HostModuleObject
export type Imports<M extends Record<string, ImportValue> = Record<string, ImportValue>> = M

/** A module in the form of the first versions. */
export type ImportDefinition = { kind: 'source', source: string } | { kind: 'host', exports: HostModuleObject }
/** Imports in the form of the first versions: each module has its kind. */
export interface StaticImports { static: Record<string, ImportDefinition> }

export type RebindValue<V> = V extends BridgeWithShim<infer H> ? H : V extends BridgeGlobal<infer H> ? H : V extends HostExportFunction ? V : never

/** An object type without members would take any. */
type Closed<T> = [keyof T] extends [never] ? Record<string, never> : T

/** Other handlers for one run: only for declared functions. */
export type RebindGlobals<G extends HostGlobals> = Closed<{
  [K in keyof G as G[K] extends string | DataGlobal | StringGlobal ? never : K]?: RebindValue<G[K]>
}>
export type RebindHostModule<T> = T extends HostExportFunction ? T : T extends HostModuleObject
  ? Closed<{
    [K in keyof T as T[K] extends HostExportFunction | HostModuleObject ? K : never]?: T[K] extends HostExportFunction ? T[K] : RebindHostModule<T[K]>
  }>
  : never
export type RebindImports<M extends Record<string, ImportValue>> = Record<string, ImportValue> extends M
  ? Record<string, never>
  : Closed<{ [K in keyof M as M[K] extends string ? never : K]?: M[K] extends HostModuleObject ? RebindHostModule<M[K]> : never }>

interface AbortOptions {
  /** The run ends as `aborted`, at any point. */
  signal?: AbortSignal
  /** The same: no run here can outlast a soft abort. */
  hardAbortSignal?: AbortSignal
}

export interface RunOptions extends AbortOptions {
  /** An ECMAScript module. */
  code: string
  limits?: ResourceLimits
  globals?: HostGlobals
  imports?: Imports | StaticImports
  /** Shown in stacks. */
  filename?: string
}

/** An export to call, its path dotted; `this` is the object of its last step. */
export interface CallTarget {
  export: string
  args?: unknown[]
}

export interface RunCallOptions extends RunOptions { call: CallTarget }

export interface PrecompileOptions<G extends HostGlobals = HostGlobals, M extends Imports = Imports> {
  code: string
  /** Globals that runs may use, with the handlers for runs that do not rebind them. */
  globals?: G
  imports?: M | StaticImports
  /** Limits of the set-up: cpuTimeMs and wallTimeMs, by default 1,000, and memoryMb, by default the sandbox's. */
  limits?: ResourceLimits
  filename?: string
  signal?: AbortSignal
}

export interface PrefixRunOptions<G extends HostGlobals, M extends Imports> extends AbortOptions {
  code: string
  globals?: RebindGlobals<G>
  imports?: RebindImports<M>
  limits?: ResourceLimits
  filename?: string
}

export interface PrefixCallOptions<G extends HostGlobals, M extends Imports> extends CallTarget, AbortOptions {
  globals?: RebindGlobals<G>
  imports?: RebindImports<M>
  limits?: ResourceLimits
}

export interface ReadExportsOptions {
  code: string
  limits?: ResourceLimits
  filename?: string
}

export type RunErrorCode =
  | 'ERR_USER_CODE' | 'ERR_MEMORY_LIMIT' | 'ERR_CPU_TIMEOUT' | 'ERR_WALL_TIMEOUT' | 'ERR_ABORTED' | 'ERR_MODULE_NOT_FOUND' | 'ERR_COMPILE'
  | 'ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED' | 'ERR_EXPORT_NOT_SERIALIZABLE' | 'ERR_TYPE_NOT_SERIALIZABLE' | 'ERR_EXPORT_TOO_LARGE'
  | 'ERR_EXPORT_UNRESOLVED_PROMISE' | 'ERR_CALL_TARGET_NOT_FOUND' | 'ERR_HOST_BRIDGE' | 'ERR_BRIDGE_PAYLOAD_TOO_LARGE'
  | 'ERR_BRIDGE_CALL_LIMIT_EXCEEDED' | 'ERR_UNDECLARED_BINDING' | 'ERR_RESERVED_NAME'
  | 'ERR_PREFIX_DID_NOT_SETTLE' | 'ERR_PREFIX_BRIDGE_CALL' | 'ERR_WARMUP_LIMIT' | 'ERR_PREFIX_DISPOSED' | 'ERR_INTERNAL'

export interface RunError {
  code: RunErrorCode
  name: string
  message: string
  stack?: string
  /** Further own properties of the error. */
  fields?: Record<string, unknown>
}

export interface BridgeCallEntry {
  name: string
  /** After the start of the run. */
  startMs: number
  durationMs: number
  argBytes: number
  responseBytes: number
  ok: boolean
  /** Refused by a limit; such a call ends the run. */
  blocked: boolean
}

export type SandboxExports = { default: unknown } & { [name: string]: unknown }

interface Outcome {
  /**
   * One entry a call of console. The source of a body may print later, while it is read: such lines
   * are added after the run has ended.
   */
  stdout: string[]
  stderr: string[]
  durationMs: number
  /** The processor time of the evaluation. */
  cpuTimeMs: number
  /** The first 10,000. */
  bridgeCalls: BridgeCallEntry[]
  /** The peak memory of the box, of all kinds. */
  memoryPeakBytes?: number
  /** The size of the JavaScript heap at the end of the code. */
  heapUsedBytes?: number
}

/** The outcome of the work given to `waitUntil`. */
export interface WaitUntilResult {
  /** truncated: it was unfinished when its time was over. */
  status: 'settled' | 'truncated' | 'failed'
  durationMs: number
  cpuTimeMs: number
  stdout: string[]
  stderr: string[]
  bridgeCalls: BridgeCallEntry[]
  /** The first failure. */
  error?: { name: string, message: string }
}

export interface RunSuccess extends Outcome {
  status: 'completed'
  ok: true
  /**
   * A body from a stream or a generator can be read while it is produced. The run goes on until it
   * was read or cancelled, and ends by its limits; then the reader fails. At most 256 KiB are
   * produced ahead of the reader.
   */
  exports: SandboxExports
  /**
   * Always empty: an unsendable export fails the run by name. The other package's last versions
   * leave it out, which a caller that checks only `ok` would miss.
   */
  skippedExports: string[]
  /**
   * Present if the code called `waitUntil`. It is settled already, because the result waits for
   * that work; unless the exports have an unfinished body: then it settles once that has ended,
   * too.
   */
  waitUntil?: Promise<WaitUntilResult>
}

export interface CallSuccess extends Outcome {
  status: 'completed'
  ok: true
  value: unknown
  /** See RunResult. */
  waitUntil?: Promise<WaitUntilResult>
}

export interface RunFailure extends Outcome {
  status: 'failed'
  ok: false
  error: RunError
}

export interface RunAborted extends Outcome {
  status: 'aborted'
  ok: false
  error: RunError
  /** The argument of abort(). */
  reason: unknown
}

export type RunResult = RunSuccess | RunFailure | RunAborted
export type CallResult = CallSuccess | RunFailure | RunAborted

export interface ReadExportsResult {
  exports: SandboxExports
  /** The names of unsendable exports. */
  skippedExports: string[]
}

export interface SandboxStats {
  activeRuns: number
  queueDepth: number
  /** The number of runs of each live prefix, by its id. A run's process is never used again, so none is idle. */
  prefixes: Record<string, { idle: number, busy: number }>
  /** The number of runs: each has a box of its own. */
  warmInstances: number
  /** Always 0, as is idleHeapBytes. */
  idleInstances: number
  idleHeapBytes: number
  /** `memoryBudgetMb`; 0 if there is none. */
  budgetBytes: number
  /** The memory of this process, which holds no isolates. */
  rssBytes: number
  underPressure: boolean
  /** The daemon's own figures. */
  daemon: Record<string, unknown>
}

export interface SandboxOptions extends ClientOptions {
  /** Runs at once; more wait in their order. By default the daemon decides. */
  maxIsolates?: number
  /** The same. */
  maxConcurrentRuns?: number
  /** Runs that may wait; by default 10,000. */
  maxQueuedRuns?: number
  /** The memory of each run in MiB; by default 128, 0 for none. */
  memoryMb?: number
  /** A whole number of MiB, 0 for none. Without effect: the daemon itself bounds the memory of prewarmed processes. */
  memoryBudgetMb?: number
  /** Another cloched. */
  binaryPath?: string
  /** The image with the Node of all runs, of the daemon's store, by its name or as sha256-DIGITS; by default the daemon's own. */
  image?: string
  /** Applies with a digest in place of a name. */
  imageSettings?: ImageSettings
}

/** Set-up code that has run once. Each run is a fork of it: it sees its state, and no other run's. */
export interface Prefix<G extends HostGlobals = HostGlobals, M extends Imports = Imports> extends AsyncDisposable {
  /** Unique among the prefixes of a daemon. */
  readonly id: string
  /** False after dispose, or if the daemon has exited. */
  readonly alive: boolean
  /** Evaluates a module in a fork. Failures of the code are results, and so is a disposed prefix. */
  run (options: PrefixRunOptions<G, M>): Promise<RunResult>
  /** The same as `run`, by its newer name. */
  execute (options: PrefixRunOptions<G, M>): Promise<RunResult>
  /** Calls an export of the prefix, in a fork. */
  call (options: PrefixCallOptions<G, M>): Promise<CallResult>
  /** Permits no further runs; those in progress go on. Idempotent. */
  dispose (): Promise<void>
  /** For `await using`: dispose. */
  [Symbol.asyncDispose] (): Promise<void>
}

/** A place for runs, each in a box of its own. */
export interface Sandbox extends AsyncDisposable {
  /** False after dispose, or if the daemon has exited. */
  readonly alive: boolean
  /** Evaluates a module and calls one of its exports. */
  run (options: RunCallOptions): Promise<CallResult>
  /**
   * Evaluates a module: its exports are the result. Failures of the code are results; rejects if
   * the daemon has exited, or for wrong options.
   */
  run (options: RunOptions): Promise<RunResult>
  /** Runs set-up code once, for many runs; rejects with its exception, whose `code` is the kind of failure. */
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type
  precompile<G extends HostGlobals = {}, M extends Imports = {}> (options: PrecompileOptions<G, M>): Promise<Prefix<G, M>>
  /** The same as `precompile`, by its newer name. */
  // eslint-disable-next-line @typescript-eslint/no-empty-object-type
  prepare<G extends HostGlobals = {}, M extends Imports = {}> (options: PrecompileOptions<G, M>): Promise<Prefix<G, M>>
  /** The sendable exports of a module, and the names of the others; rejects with the exception of the code. */
  readExports (options: ReadExportsOptions): Promise<ReadExportsResult>
  /** Figures of running and waiting runs. */
  stats (): Promise<SandboxStats>
  /**
   * Ends the prefixes, rejects waiting runs, and ends the daemon if it has no other user in this
   * process. Idempotent.
   */
  dispose (): Promise<void>
  /** For `await using`: dispose. */
  [Symbol.asyncDispose] (): Promise<void>
}
