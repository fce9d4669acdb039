// The public types of the executor façade. Names and shapes are part of its contract.
import type { ImageSettings } from '../images.js'
import type { FileSource, Result, Usage } from '../run.js'
import type { NetworkPolicy } from '../sandbox/answers.js'
import type { ClientOptions } from '../internal/shared.js'
import type { WASIFile } from './memory.js'
import type { Limits } from '../generated/limits.js'

export type { Limits, NetworkPolicy }

// -- permissions

export const ALL_PERMISSIONS = ['read', 'list', 'create', 'modify', 'delete'] as const
export type Permission = (typeof ALL_PERMISSIONS)[number]
export type PermissionSet = { [P in Permission]?: boolean }

export interface PermissionRule {
  pattern: string
  allow?: Permission[] | '*'
  deny?: Permission[] | '*'
  /** Higher first; equal ones in the order given. The first that matches decides. */
  priority?: number
}

export interface PermissionConfig {
  default?: PermissionSet
  rules?: PermissionRule[]
  /** Denied wholly, before all rules; without a slash: that name at any depth. */
  exclude?: string[]
}

// -- mounts

export type LoadingMode = 'eager' | 'lazy' | 'explicit'
export type SyncMode = 'batch' | 'manual'
export type SyncErrorBehavior = 'rollback' | 'continue' | 'abort'
export type SymlinkBehavior = boolean | 'restricted'
export type PermissionDeniedBehavior = 'throw' | 'ignore' | 'virtual'

export interface LoadingConfig {
  mode: LoadingMode
  include?: string[]
  maxFileSize?: number
  maxTotalSize?: number
}

export interface SyncConfig {
  mode: SyncMode
  onError?: SyncErrorBehavior
  /**
   * False: beforeSync cannot abort this sync, its file is skipped instead; so too with the
   * executor's syncEventConfig. Default true.
   */
  allowAbort?: boolean
}

export interface SecurityConfig {
  /**
   * Decides about symbolic links in a mount. `true`, the default: it is shown as it is, and the box
   * resolves it within the box: it may lead to another mount or to the box's own files, never to
   * files of the host that are not mounted. One to an absolute path of the mounted folder leads to
   * the same place in the box. `'restricted'`: one that leaves its mount cannot be read or followed
   * (EACCES). `false`: none can (ELOOP).
   */
  followSymlinks?: SymlinkBehavior
}

export interface MountConfig {
  /** Folders of the box, and the host's folders shown there; relative ones are below the current directory. A path of the host may be a single file, under any name,
   * and one may lie in another: `{'/workspace': '.', '/workspace/node_modules': '/cache/modules'}`. */
  dirs: Record<string, string>
  permissions?: PermissionConfig
  loading?: LoadingConfig
  sync?: SyncConfig
  security?: SecurityConfig
  onPermissionDenied?: PermissionDeniedBehavior
}

// -- requests

export type SupportedLanguage =
  | 'python' | 'ruby' | 'php' | 'quickjs' | 'js' | 'javascript' | 'c' | 'clang' | 'cpp' | 'clangpp' | 'typescript' | 'bash'
  // Any other language of the daemon.
  | (string & {})

/** @deprecated JsonSchema says the same. */
export interface ParamSchema {
  name: string
  type?: 'string' | 'number' | 'integer' | 'boolean' | 'object' | 'array' | 'any'
  required?: boolean
  default?: unknown
  description?: string
}

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export interface JsonSchema extends Record<string, any> {
  type?: string | string[]
  description?: string
  default?: unknown
}

export type InputSchema = JsonSchema[] | Record<string, JsonSchema & { index?: number }>

export interface FunctionSchema {
  params?: ParamSchema[]
  input?: InputSchema
  output?: JsonSchema
  strict?: boolean
  variadic?: boolean
  acceptsKwargs?: boolean
}

export interface ReportingOptions {
  includeChanges?: boolean
  includeContents?: boolean
  includeDenied?: boolean
  /** Also report changes below /tmp and the home. Changes in the working directory are always reported. */
  includeTemporary?: boolean
}
export type ResultOptions = ReportingOptions

/** The prefix of standard input in versions that sent arguments there. Unused. */
export type InputProtocol = string

/** Other versions' way to pass arguments; here they are always beside the code, never in it. */
export type ArgsMode = 'stdin' | 'inline' | 'file' | 'auto'

// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type ArgumentItem = any | { index: number, value: any }

export interface InvokeOptions {
  mount?: MountConfig
  files?: Record<string, FileSource | WASIFile>
  workdir?: string
  reporting?: ReportingOptions
  network?: NetworkPolicy
}

export interface FunctionCallRequest {
  language: SupportedLanguage
  code: string
  /** If absent: the one public function of the code; without one the code is the function's body. */
  functionName?: string
  /** Positions, keywords, or `{index, value}` in either. */
  args?: readonly ArgumentItem[] | Record<string, ArgumentItem>
  kwargs?: Record<string, unknown>
  schema?: FunctionSchema
  /** In seconds; 0 for none. */
  timeout?: number
  mount?: MountConfig
  /** Path to content; relative paths are below workdir. */
  files?: Record<string, FileSource | WASIFile>
  workdir?: string
  resultOptions?: ResultOptions
  options?: InvokeOptions
  argsMode?: ArgsMode
  autoModeThreshold?: number

  // These members are new here.
  signal?: AbortSignal
  /** Values richer than JSON (Map, Set, bigint, typed arrays, Date) keep their types, instead of becoming JSON. */
  rich?: boolean
  env?: Record<string, string>
  stdin?: string | Uint8Array
  limits?: Limits
  /** Permitted connections: `{allow: ['example.org:443']}`; absent: the executor's, else none. */
  network?: NetworkPolicy
  /** The root file system: an image of the daemon's store, by its name or as sha256-DIGITS; absent: the executor's, else the daemon's own. */
  image?: string
  /** Applies with a digest in place of a name. */
  imageSettings?: ImageSettings
  /** Compiled languages: the standard, the compiler's flags, further source files. */
  build?: { standard?: string, flags?: string[], sources?: Record<string, string> }
  /** Functions and constants of the host. */
  globals?: Record<string, unknown>
}

// -- results

export type ExecutionStatus = 'success' | 'error' | 'crash' | 'timeout' | 'terminated'

export interface ExecutionError {
  message: string
  /** The language's own class name: ZeroDivisionError, TypeError, … */
  type?: string
  stack?: string
}

export interface FileChange {
  type: 'create' | 'modify' | 'delete'
  path: string
  realPath?: string
  content?: Uint8Array
  oldContent?: Uint8Array
  size: number
  timestamp: Date
  /** Set unless it is a plain file. Folders come in events only: results list their contents. */
  kind?: 'directory' | 'symlink' | 'special'
  /** A symlink's target. */
  target?: string
  /** Permitted by `onPermissionDenied: 'virtual'` alone: it is never synced. */
  virtual?: boolean
  /** The content is not here because it is too large. */
  contentOmitted?: boolean
  /** Below a mount: the file's permission bits. */
  mode?: number
  /** The mode or the time changed, but not the content. */
  attributesOnly?: boolean
  /**
   * A rename below a mount is a deletion with the new path, and a creation with the old one; the
   * host has the content.
   */
  renamedFrom?: string
  renamedTo?: string
}

export interface PermissionDeniedRecord {
  path: string
  operation: string
  rule?: PermissionRule
  timestamp: Date
}

export interface FileChangeSummary {
  created: FileChange[]
  modified: FileChange[]
  deleted: FileChange[]
  denied: PermissionDeniedRecord[]
  hasChanges (): boolean
  all (): FileChange[]
  byPath (path: string): FileChange | undefined
}

export interface ExecutionMeta {
  /** In ms. */
  duration: number
  signatureSource: 'schema' | 'inferred' | 'convention'
  usage: Usage
  limitsHit: string[]
  warnings: string[]
  /** With `network`: refused connections, each once. */
  network?: Result['meta']['network']
}

export interface ExecutionResult<T = unknown> {
  status: ExecutionStatus
  success: boolean
  result?: T
  error?: ExecutionError
  stdout: string
  stderr: string
  exitCode: number
  files?: FileChangeSummary
  /** With a mount and batch sync: changes written to the host. */
  sync?: SyncResult
  meta?: ExecutionMeta
}

export interface SyncResult {
  synced: string[]
  failed: Array<{ path: string, error: Error }>
  skipped: string[]
  /** The change at which beforeSync returned abort, and its reason: nothing was written. */
  aborted?: { path?: string, reason: string }
}

// -- events

export const SyncStates = { CONTINUE: 'continue', SKIP: 'skip', ABORT: 'abort' } as const
export type SyncState = (typeof SyncStates)[keyof typeof SyncStates]

export interface BeforeSyncEventResult {
  state: SyncState
  reason?: string
}

export interface AfterSyncEventData extends FileChange {
  success: boolean
  error?: Error
}

export interface SyncEventConfig {
  /** True if beforeSync may abort the whole sync; by default true. Otherwise its file is skipped. */
  allowAbort?: boolean
}

export interface ExecutorOptions extends ClientOptions {
  /** By default /workspace. */
  defaultWorkdir?: string
  /** The default for calls without one. */
  rich?: boolean
  /** Permitted connections for calls without their own. */
  network?: NetworkPolicy
  /** The image of calls that name none. */
  image?: string
  imageSettings?: ImageSettings
  syncEventConfig?: SyncEventConfig
}
