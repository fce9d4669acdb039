// The requests for runs, and their results.
import type { NetworkDecision, NetworkPolicy } from './sandbox/answers.js'
import type { Limits } from './generated/limits.js'
import type { ImageSettings } from './images.js'
import type { Status } from './generated/statuses.js'
import { InvalidArgumentError, ProtocolError } from './generated/errors.js'
import type { Received } from './internal/connection.js'
import { decodeFailure, type Incoming } from './internal/decode.js'
import { type Attachments, encode } from './internal/encode.js'
import { isPlainObject } from './internal/host.js'
import { type Json, MalformedValueError, UnmakeableValueError } from './internal/values.js'

/** A file placed in the box: its content, or its kind. */
export type FileSource =
  string | Uint8Array | { content: string | Uint8Array, mode?: number } | { directory: true, mode?: number } | { symlink: string }

export type Permission = 'read' | 'list' | 'create' | 'modify' | 'delete'

/** Its own options override those of the whole mount. */
export interface MountedDirectory extends Pick<MountOptions, 'permissions' | 'loading' | 'security' | 'onPermissionDenied'> {
  path: string
  kind?: 'directory' | 'file'
}

export interface MountOptions {
  /** Folders of the box, and the host's folders shown there, or, with `kind: 'file'`, one file. One may lie in another. */
  dirs: Record<string, string | MountedDirectory>
  permissions?: {
    default?: Partial<Record<Permission, boolean>>
    rules?: Array<{ pattern: string, allow?: Permission[] | '*', deny?: Permission[] | '*', priority?: number }>
    exclude?: string[]
  }
  loading?: { mode: 'eager' | 'lazy' | 'explicit', include?: string[], maxFileSize?: number, maxTotalSize?: number }
  /** allowAbort false: if beforeSync returns abort, its change alone is skipped. */
  sync?: { mode: 'batch' | 'manual', onError?: 'rollback' | 'continue' | 'abort', conflict?: 'refuse' | 'keepBoth' | 'overwrite', links?: 'any' | 'inside', allowAbort?: boolean }
  security?: { followSymlinks?: boolean | 'restricted' }
  onPermissionDenied?: 'throw' | 'ignore' | 'virtual'
}

export interface Change {
  type: 'created' | 'modified' | 'deleted'
  path: string | Uint8Array
  kind?: 'file' | 'directory' | 'symlink' | 'special'
  /** A symlink's target. */
  target?: string | Uint8Array
  /** Permitted by `onPermissionDenied: 'virtual'` alone: it is never synced. */
  virtual?: boolean
  realPath?: string
  content?: string | Uint8Array
  oldContent?: string | Uint8Array
  /** The content is not here because it is too large. */
  contentOmitted?: boolean
  size: number
  /** Milliseconds since 1970. */
  timestamp: number
  mode?: number
  /** The mode or the time changed, but not the content. */
  attributesOnly?: boolean
  /** The two names of a rename, of which one is deleted and one created. */
  renamedFrom?: string
  renamedTo?: string
}

export interface Denial {
  path: string
  operation: Permission
  rule?: unknown
  count?: number
  timestamp: number
}

export interface Output {
  stream: 'stdout' | 'stderr'
  data: Uint8Array
}

export type BeforeSyncAnswer = { action: 'continue' | 'skip' | 'abort', reason?: string }

export interface SyncEvents {
  beforeSync?: (change: Change) => BeforeSyncAnswer | void | Promise<BeforeSyncAnswer | void>
  afterSync?: (event: { path: string, success: boolean, error?: unknown }) => void
  syncError?: (change: Change, error: unknown) => void
}

export interface RunOptions {
  /** Aborting cancels the run: its result has status `terminated`. */
  signal?: AbortSignal
  /** Timeout for the response, in ms; the run itself ends by its limits. */
  timeoutMs?: number
  /** Output as it comes. */
  onOutput?: (output: Output) => void
  onPermissionDenied?: (denial: Denial) => void
  events?: SyncEvents
}

/** The outcome of writing changes to the host. */
export interface SyncOutcome {
  synced: string[]
  failed: Array<{ path: string, error: unknown }>
  skipped: Array<{ path: string, reason?: string }>
  /** Files of the host that changed since the run read them. */
  conflicts: Array<{ path: string, [name: string]: unknown }>
  kept: unknown[]
  /**
   * The change at which beforeSync returned abort, and the reason: nothing was written, and all are
   * among the skipped ones.
   */
  aborted?: { path?: string, reason: string }
  /** The reason if nothing was synced at all. */
  error?: unknown
}

export interface ResultOptions { includeChanges?: boolean, includeContents?: boolean, includeDenied?: boolean }

/** Members of all requests for a run. */
export interface RunRequest {
  language: string
  code: string
  filename?: string
  build?: { standard?: string, flags?: string[], sources?: Record<string, string> }
  /** The root file system: an image of the daemon's store, by its name or as sha256-DIGITS; absent: the daemon's own, or the prefix's. */
  image?: string
  /** Applies with a digest in place of a name. */
  imageSettings?: ImageSettings
  workdir?: string
  env?: Record<string, string>
  stdin?: string | Uint8Array
  /** Rules for the connections of the run; absent: it has none. Such a run is started cold. */
  network?: NetworkPolicy
  limits?: Limits
  /** Forked from a prewarmed interpreter instead of started cold; by default if the language can. */
  warm?: boolean
  /** Functions call the host; plain objects that hold functions are objects; all else are constants. */
  globals?: Record<string, unknown>
  imports?: Record<string, string | Record<string, unknown>>
  files?: Record<string, FileSource>
  mount?: MountOptions
  resultOptions?: ResultOptions
}

export interface CallRequest extends RunRequest {
  /** If absent: the one public function of the code; without one the code is the function's body. */
  function?: string
  args?: readonly unknown[] | Record<string, unknown>
  kwargs?: Record<string, unknown>
  schema?: Record<string, unknown>
}

export interface ScriptRequest extends RunRequest {
  argv?: readonly string[]
}

export interface RunFailure {
  type: string
  message: string
  stack?: string
  /** The code of the failure; evaluated modules alone have one. */
  code?: string
  name?: string
  fields?: Record<string, unknown>
}

export interface Usage {
  wallMs: number
  cpuMs: number
  memoryPeakBytes: number
  pidsPeak: number
  diskBytes: number
  diskInodes: number
  stdoutBytes: number
  stderrBytes: number
  /** The processor time of an evaluated module's code alone, without its box. */
  evaluationCpuMs?: number
  /** The size of an evaluated module's JavaScript heap at its end. */
  heapUsedBytes?: number
}

export interface Result<T = unknown> {
  status: Status
  success: boolean
  result?: T
  error?: RunFailure
  stdout: string
  stderr: string
  /** If the output is not UTF-8: its bytes. */
  stdoutBytes?: Uint8Array
  stderrBytes?: Uint8Array
  exitCode: number
  files: { created: Change[], modified: Change[], deleted: Change[], denied?: Denial[] }
  /** The lines of an evaluated module, one entry a call of console. */
  console?: { stdout: string[], stderr: string[] }
  /**
   * The outcome of the work of `waitUntil`, for an evaluated module that called it, and the numbers
   * of lines and calls before that work.
   */
  late?: {
    status: 'settled' | 'truncated' | 'failed'
    durationMs: number
    cpuTimeMs: number
    stdout: number
    stderr: number
    bridgeCalls: number
    error?: { name: string, message: string }
  }
  /** With batch sync: the changes written. */
  sync?: SyncOutcome
  /** With a mount: holds the contents until it is dropped, or the client closed. */
  changeset?: string
  meta: {
    duration: number
    signatureSource?: 'schema' | 'inferred' | 'convention'
    usage: Usage
    limitsHit: string[]
    limits: Record<string, number | null>
    warnings: string[]
    /** With `network`: refused connections, each once. */
    network?: { denied: Array<Omit<NetworkDecision, 'number' | 'time' | 'verdict'> & { count: number }>, lost: number }
  }
}

// -- out

/** undefined members are absent, at any depth of plain data. */
export function present (value: unknown): unknown {
  if (Array.isArray(value)) return value.map(present)
  if (!isPlainObject(value)) return value
  return Object.fromEntries(Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) => [key, present(item)]))
}

const PLAIN = [
  'language', 'code', 'filename', 'build', 'image', 'imageSettings', 'workdir', 'env', 'stdin', 'network', 'limits', 'warm', 'files', 'mount', 'resultOptions', 'function', 'schema', 'argv'
] as const

interface WireParts {
  globals?: object | undefined
  imports?: object | undefined
  extra?: Record<string, unknown>
}

/** The params of a run: each member a value of its own. */
export function encodeRun (request: object, parts: WireParts, attachments: Attachments, views = false): { [key: string]: Json } {
  const { args, kwargs, schema, ...rest } = request as CallRequest & ScriptRequest
  const sent: { [key: string]: Json } = {}
  const put = (name: string, value: unknown, references: boolean): void => {
    if (value === undefined) return
    try {
      sent[name] = encode(value, attachments, { references, views: references && views })
    } catch (thrown) {
      if (thrown instanceof TypeError || thrown instanceof RangeError) {
        throw new InvalidArgumentError(`${name}: ${thrown.message}`, { cause: thrown })
      }
      throw thrown
    }
  }
  for (const name of PLAIN) put(name, present(name === 'schema' ? schema : (rest as Record<string, unknown>)[name]), false)
  // A schema, or arguments by name or index, need access to the parts: identity cannot be kept
  // there (spec/signatures.md).
  const isPositional = Array.isArray(args) && schema === undefined
  put('args', args, isPositional)
  put('kwargs', kwargs, isPositional || args === undefined)
  for (const name of ['globals', 'imports'] as const) {
    if (parts[name] !== undefined && Object.keys(parts[name]).length > 0) put(name, parts[name], true)
  }
  for (const [name, value] of Object.entries(parts.extra ?? {})) put(name, value, false)
  return sent
}

// -- in

const isObject = (value: unknown): value is Record<string, unknown> => value !== null && typeof value === 'object' && !Array.isArray(value)

function decodeFiles (files: unknown, decode: (value: unknown) => unknown): Result['files'] {
  const found: Record<string, unknown[]> = { created: [], modified: [], deleted: [] }
  if (!isObject(files)) return found as unknown as Result['files']
  for (const [list, changes] of Object.entries(files)) {
    if (!Array.isArray(changes)) throw new ProtocolError(`a result's files.${list} is no list`)
    found[list] = changes.map((change) => decode(change))
  }
  return found as unknown as Result['files']
}

const fromBase64 = (text: unknown): Uint8Array => new Uint8Array(Buffer.from(String(text), 'base64'))

/** isJson: the result's value is plain, as from JSON.parse, instead of a rich one. */
export function decodeResult<T> (received: Received, isJson = false): Result<T> {
  try {
    return resultOf<T>(received, isJson)
  } catch (thrown) {
    if (thrown instanceof MalformedValueError) {
      throw new ProtocolError(`the result of a run cannot be read: ${thrown.message}`, { cause: thrown })
    }
    throw thrown
  }
}

/**
 * A value whose content the guest forged, such as a Request with credentials, is the guest's failure. A value of a form that does not exist is the
 * daemon's, which checks the forms: decodeResult() rejects it.
 */
function decodeValue (value: unknown, incoming: Incoming, isJson: boolean): object {
  try {
    return { result: isJson ? incoming.decodeJson(value) : incoming.decode(value) }
  } catch (thrown) {
    if (!(thrown instanceof UnmakeableValueError)) throw thrown
    const { message } = thrown
    return { status: 'error', success: false, error: { type: 'TypeError', code: 'ERR_EXPORT_NOT_SERIALIZABLE', name: 'TypeError', message } }
  }
}

function resultOf<T> ({ body, incoming }: Received, isJson: boolean): Result<T> {
  if (!isObject(body) || typeof body.status !== 'string') throw new ProtocolError('the answer is no result of a run')
  const { result, error, files, stdoutBase64, stderrBase64, meta, ...rest } = body
  const decode = (value: unknown): unknown => incoming.decode(value)
  const made: Record<string, unknown> = rest
  if (isObject(error)) made.error = decodeFailure(error, incoming)
  if (rest.success === true && result !== undefined) Object.assign(made, decodeValue(result, incoming, isJson))
  if (isObject(rest.console)) made.console = decode(rest.console)
  made.files = decodeFiles(files, decode)
  if (stdoutBase64 !== undefined) made.stdoutBytes = fromBase64(stdoutBase64)
  if (stderrBase64 !== undefined) made.stderrBytes = fromBase64(stderrBase64)
  made.meta = isObject(meta) && meta.signatureSource === null ? { ...meta, signatureSource: undefined } : meta
  return made as unknown as Result<T>
}
