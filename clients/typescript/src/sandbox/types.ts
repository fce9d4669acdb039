// Options and results of the sandbox façade: those of @cloudflare/sandbox, 0.3.3 and the newest combined.
import type { ClientOptions } from '../internal/shared.js'
import type { Cloche, Prefix } from '../client.js'
import type { ImageSettings } from '../images.js'
import type { SandboxDenial, SandboxVolume } from '../generated/answers.js'
import type { Limits } from '../generated/limits.js'
import type { ContextState, FileType, NetworkPolicy } from './answers.js'
import type { MountOptions } from '../run.js'
import type { Result, ResultFields } from './results.js'

/** Access to sandboxes: a client, connection options, or nothing, which starts a daemon. */
export interface NamespaceOptions extends ClientOptions {
  /** For a started daemon: the directory of saved sandboxes. Without it they end with the process. */
  stateDir?: string
  /** HOST or HOST:PORT of the daemon's preview URLs, if the daemon shall not be queried. */
  previewHost?: string
  /**
   * Store for `createBackup`: a directory of this host, or a bucket. Default:
   * cloche/sandbox-backups in the state directory of the user (XDG_STATE_HOME).
   */
  backups?: string | BackupBucket
}

/** The part of an R2 bucket's interface that backups need. */
export interface BackupBucket {
  put (key: string, value: Uint8Array): Promise<unknown>
  get (key: string): Promise<{ arrayBuffer (): Promise<ArrayBuffer> } | null | undefined>
  delete (key: string): Promise<unknown>
}

export interface BackupOptions {
  /** Below /workspace, /home, /tmp, /var/tmp or /app. */
  dir: string
  name?: string
  /** Seconds until it expires; 259200 are three days. */
  ttl?: number
  /** Leave out files that git ignores, in a repository. */
  gitignore?: boolean
  /** Globs; one without a slash matches names at any depth. */
  excludes?: readonly string[]
  compression?: { format?: 'gzip' | 'zstd', threads?: number }
  /** Accepted without effect: `backups` of the namespace decides. */
  localBucket?: boolean
  /** Accepted without effect: archives are stored in one piece. */
  multipart?: boolean
}
/** Can be stored anywhere, as JSON. */
export interface DirectoryBackup { readonly id: string, readonly dir: string, readonly localBucket?: boolean }
export interface RestoreBackupResult { success: true, dir: string, id: string }

export interface SandboxOptions {
  /** It is saved and stopped after this time without a request or a running process: seconds, or "30s", "10m", "1h". */
  sleepAfter?: string | number
  /** Never stop it when idle. */
  keepAlive?: boolean
  /** 'pause': after sleepAfter it is paused, with its processes, instead of stopped. */
  idleAction?: 'stop' | 'pause'
  /** Its time from now on, used or not, in the forms of sleepAfter; 0 or absent: no end. */
  lifetime?: string | number
  /** Its fate at that end: stop (the default) or pause, if it runs, or delete. */
  endAction?: 'stop' | 'pause' | 'delete'
  /** Ids in lower case, as previews need them. */
  normalizeId?: boolean
  /** false: commands run in copies of the shell, which leave no state. */
  enableDefaultSession?: boolean
  labels?: Record<string, string>
  /** Limits of the whole sandbox; 0: none. */
  limits?: Limits
  /** Added to the environment of everything started in it. */
  env?: Record<string, string>
  /** Permitted connections; default: none. */
  network?: NetworkPolicy
  /** Its root file system: an image of the daemon's store, by its name or as sha256-DIGITS. An existing sandbox keeps its own. */
  image?: string
  /** Applies with a digest in place of a name. */
  imageSettings?: ImageSettings
  /** Commands of each of its starts, instead of those of its image or snapshot; `{}`: none. An existing sandbox keeps its own. */
  startup?: NonNullable<ImageSettings['startup']>
  /** The directories of its image can be changed, by a copy in its quota; with `image`, and root's daemon. An existing sandbox keeps its own. */
  writableRoot?: boolean
  /** Its programs are root of 65,536 users of its own: `apt-get install`, `useradd`, ports below 1024; `writableRoot` is implied. An existing sandbox keeps its own. */
  root?: boolean
  /** Directories and files of the host under rules; the guest's writes stay in the sandbox until it stops. An existing sandbox keeps its own. */
  mount?: Omit<MountOptions, 'sync'>
  /** Volumes of this caller in it (`client.volumes` makes them). An existing sandbox keeps its own. */
  volumes?: readonly SandboxVolume[]
  /** A snapshot of this caller: it begins with the files and the definition of that. An existing sandbox keeps its own. */
  snapshot?: string
  /** Packages that it begins with, installed once and then shared: `{ pip: ['requests'] }`, `npm`, `gem`. */
  packages?: Partial<Record<'pip' | 'npm' | 'gem', readonly string[]>>
  /** Accepted without effect: there is one transport, and no container to wait for. */
  containerTimeouts?: Record<string, number>
  transport?: string
}

export interface Abortable { signal?: AbortSignal | undefined }
export type Environment = Record<string, string | null | undefined>
export type StreamName = 'stdout' | 'stderr'

// -- commands

export interface ExecOptions extends Abortable {
  /** In ms; then all processes of the command are killed, and the result has exit code 124. */
  timeout?: number
  env?: Environment
  cwd?: string
  encoding?: string
  stdin?: string | Uint8Array
  /** Report output as it comes. */
  stream?: boolean
  onOutput?: (stream: StreamName, data: string) => void
  onComplete?: (result: ExecResult) => void
  onError?: (error: Error) => void
  origin?: 'user' | 'internal'
}

export interface ExecResult {
  success: boolean
  exitCode: number
  stdout: string
  stderr: string
  /** If the output is not UTF-8: its bytes. */
  stdoutRaw?: Uint8Array
  stderrRaw?: Uint8Array
  command: string
  /** In ms. */
  duration: number
  timestamp: string
  sessionId: string
  cwd: string
  timedOut: boolean
  /** Some output was dropped: over 64 MiB of a stream. */
  truncated: boolean
  /**
   * The command's timeout ended the shell; the next one starts a new one. A command that ends it
   * itself throws `SessionTerminatedError`.
   */
  sessionEnded: boolean
  signal?: string
  /** Lines about a failed command, such as who can allow the connection that it lacked. */
  warnings?: string[]
  /** The connections that the network policy refused meanwhile: each once, at most 100. */
  denials?: SandboxDenial[]
}

export interface StreamOptions extends Abortable {
  timeout?: number
  env?: Environment
  cwd?: string
  encoding?: string
  stdin?: string | Uint8Array
  sessionId?: string
  /** Accepted without effect: a reader that is slow holds the command's output back. */
  bufferSize?: number
  /** false: in the session's own shell, after the commands before, and leaving its state. */
  fork?: boolean
}

export interface ExecEvent {
  type: 'start' | 'stdout' | 'stderr' | 'complete' | 'error'
  timestamp: string
  data?: string
  command?: string
  sessionId?: string
  exitCode?: number
  result?: { stdout: string, stderr: string, exitCode: number, success: boolean, timedOut: boolean, warnings?: string[], denials?: SandboxDenial[] }
  error?: string
  code?: string
}

// -- processes

export type ProcessStatus = 'starting' | 'running' | 'completed' | 'failed' | 'killed' | 'error'

export interface ProcessOptions extends Abortable {
  processId?: string
  timeout?: number
  env?: Environment
  cwd?: string
  encoding?: string
  autoCleanup?: boolean
  /** Keep its input open for `write`. */
  stdin?: boolean
  sessionId?: string
  onStart?: (process: Process) => void
  onOutput?: (stream: StreamName, data: string) => void
  onExit?: (exitCode: number | null) => void
  onError?: (error: Error) => void
}

export interface WaitForPortOptions extends Abortable {
  mode?: 'http' | 'tcp'
  path?: string
  status?: number | { min: number, max: number }
  timeout?: number
  /** Accepted without effect: nothing is polled. */
  interval?: number
}

export interface Process {
  readonly id: string
  readonly pid?: number
  readonly command: string
  readonly status: ProcessStatus
  readonly startTime: Date
  readonly endTime?: Date
  readonly exitCode?: number
  readonly sessionId?: string
  kill (signal?: string | number): Promise<void>
  getStatus (): Promise<ProcessStatus>
  getLogs (): Promise<{ stdout: string, stderr: string }>
  waitForLog (pattern: string | RegExp, timeout?: number, options?: Abortable): Promise<WaitForLogResult>
  waitForPort (port: number, options?: WaitForPortOptions): Promise<void>
  waitForExit (timeout?: number, options?: Abortable): Promise<{ exitCode: number }>
  /** To its input, which `stdin` keeps open. */
  write (data: string | Uint8Array, options?: WriteOptions): Promise<void>
}
export interface WriteOptions extends Abortable {
  /** It is the last of its input. */
  end?: boolean
}
export interface WaitForLogResult { line: string, match?: RegExpMatchArray }

export interface ProcessLogsResult {
  success: true
  stdout: string
  stderr: string
  processId: string
  sessionId: string
  timestamp: string
}

export interface LogEvent {
  type: 'process_info' | 'stdout' | 'stderr' | 'complete' | 'exit' | 'error'
  timestamp: string
  data?: string
  processId: string
  sessionId?: string
  pid?: number
  command?: string
  status?: ProcessStatus
  exitCode?: number
  error?: string
  code?: string
}

// -- files

interface Done { success: true, exitCode: 0, path: string, timestamp: string }

export type FileContent = string | Uint8Array | ArrayBuffer | Blob | ReadableStream<Uint8Array>
export interface WriteFileOptions extends Abortable { encoding?: string, mode?: number, append?: boolean, sessionId?: string }
export interface WriteFileResult extends Done { bytes: number }
export interface ReadFileOptions extends Abortable { encoding?: string, sessionId?: string }
export interface ReadFileResult extends Done {
  content: string
  encoding: 'utf-8' | 'base64'
  isBinary: boolean
  mimeType: string
  size: number
}
export interface RawFileResult extends Omit<ReadFileResult, 'content' | 'encoding'> { content: ReadableStream<Uint8Array>, encoding: 'none' }
export interface MkdirOptions extends Abortable { recursive?: boolean, mode?: number, sessionId?: string }
export interface MkdirResult extends Done { recursive: boolean, stdout: '', stderr: '' }
export interface DeleteFileOptions extends Abortable { recursive?: boolean, force?: boolean, sessionId?: string }
export interface DeleteFileResult extends Done {}
export interface CopyFileOptions extends Abortable { overwrite?: boolean }
export interface RenameFileResult extends Done { oldPath: string, newPath: string }
export interface MoveFileResult extends Done { sourcePath: string, destinationPath: string, newPath: string }
export interface FileExistsResult { success: true, path: string, exists: boolean, timestamp: string }
export interface ListFilesOptions extends Abortable { recursive?: boolean, includeHidden?: boolean, sessionId?: string }
export interface FileInfo {
  name: string
  absolutePath: string
  relativePath: string
  type: FileType
  size: number
  modifiedAt: string
  /** "rwxr-xr-x" */
  mode: string
  permissions: { readable: boolean, writable: boolean, executable: boolean }
  /** For links. */
  target?: string
}
export interface ListFilesResult extends Done { files: FileInfo[], count: number }

export interface FileMetadata { mimeType: string, size: number, isBinary: boolean, encoding: 'utf-8' | 'base64' }
export type FileStreamEvent =
  | ({ type: 'metadata' } & FileMetadata)
  | { type: 'chunk', data: string }
  | { type: 'complete', bytesRead: number }
  | { type: 'error', error: string, code?: string }
export type FileChunk = string | Uint8Array

export interface WatchOptions extends Abortable { recursive?: boolean, include?: string[], exclude?: string[], sessionId?: string }
export type FileWatchEvent =
  | { type: 'watching', path: string, watchId: string }
  | {
    type: 'event'
    eventType: 'create' | 'modify' | 'delete' | 'move_from' | 'move_to' | 'attrib'
    path: string
    isDirectory: boolean
    timestamp: string
  }
  | { type: 'lost', path: string, timestamp: string }
  | { type: 'stopped', reason: string }
  | { type: 'error', error: string, code?: string }

export interface CheckChangesOptions extends Abortable {
  since?: string
  recursive?: boolean
  include?: string[]
  exclude?: string[]
  sessionId?: string
}
export interface CheckChangesResult { success: true, status: 'unchanged' | 'changed' | 'resync', version: string, path: string, timestamp: string }

export interface SearchOptions extends Abortable {
  include?: string[]
  exclude?: string[]
  ignoreCase?: boolean
  limit?: number
}
export interface SearchResult { matches: Array<{ path: string, line: number, column: number, text: string }>, files: number, truncated: boolean }
export interface ReplaceOptions extends Abortable { include?: string[], exclude?: string[], ignoreCase?: boolean, dryRun?: boolean }
export interface ReplaceResult { files: Array<{ path: string, count: number }>, count: number }

export interface TreeResult { path: string, to: string, files: number, bytes: number }
export interface DownloadResult extends TreeResult {
  /** Skipped entries, with reasons: links that lead out of the tree, devices, sockets. */
  skipped: Array<{ path: string, reason: string }>
}

// -- the code interpreter

export type CodeLanguage = 'python' | 'javascript' | 'typescript' | 'bash' | 'ruby' | 'php'
export interface CreateContextOptions extends Abortable {
  language?: CodeLanguage
  cwd?: string
  /** undefined and null are skipped. */
  envVars?: Environment
  /** Timeout of cells without their own, in ms. */
  timeout?: number
  /** It can be forked, and has checkpoints (`native()`). */
  forkable?: boolean
  /** A prefix of this client, or its name: cells see all that its set-up made. The language is then the prefix's. */
  prefix?: Prefix | string
}
export interface CodeContext {
  readonly id: string
  readonly language: string
  readonly cwd: string
  readonly createdAt: Date
  readonly lastUsed: Date
  readonly state: ContextState
}

export interface OutputMessage { text: string, timestamp: number }
export interface ExecutionError {
  name: string
  message: string
  /** The same as `message`. */
  value: string
  traceback: string[]
  /** The line of the cell, if the traceback names one. */
  lineNumber?: number
}
export interface RunCodeOptions extends Abortable {
  /** Default: the first known context of the language, else the language's default one. */
  context?: CodeContext
  language?: CodeLanguage
  /** Refused: a context's variables are set when it is created. */
  envVars?: Environment
  /** In ms; then the cell is interrupted, and its error is `Timeout`. */
  timeout?: number
  onStdout?: (output: OutputMessage) => void | Promise<void>
  onStderr?: (output: OutputMessage) => void | Promise<void>
  onResult?: (result: Result) => void | Promise<void>
  onError?: (error: ExecutionError) => void | Promise<void>
  /** The code removed its results so far (`clear_output`), with `wait` once the next one comes. */
  onClear?: (clear: { wait: boolean, timestamp: number }) => void | Promise<void>
  /** Returns the input that the code requests (`input()`); null: there is none. Without it such a request fails. */
  onInput?: (request: { prompt: string, password: boolean }) => string | null | undefined | Promise<string | null | undefined>
}
export interface ExecutionResult {
  code: string
  logs: { stdout: string[], stderr: string[] }
  error?: ExecutionError
  executionCount?: number
  /** As of `exec`. */
  denials?: SandboxDenial[]
  results: ResultFields[]
}
export type CodeEvent =
  | { type: 'stdout' | 'stderr', text: string, timestamp: number }
  | ({ type: 'result', timestamp: number } & ResultFields)
  | { type: 'clear_output', wait: boolean, timestamp: number }
  | { type: 'input_request', prompt: string, password: boolean, timestamp: number }
  | { type: 'error', ename: string, evalue: string, traceback: string[], execution_count?: number, denials?: SandboxDenial[], timestamp: number }
  | { type: 'execution_complete', execution_count: number, denials?: SandboxDenial[], timestamp: number }

// -- the rest

export interface GitCheckoutOptions extends Abortable {
  branch?: string
  targetDir?: string
  depth?: number
  /** In ms; 600,000 unless given. */
  cloneTimeoutMs?: number
  username?: string
  password?: string
  sessionId?: string
}
export interface GitCheckoutResult {
  success: true
  exitCode: 0
  stdout: string
  stderr: string
  repoUrl: string
  branch: string
  targetDir: string
  commit: string
  timestamp: string
}

export interface ExposePortOptions extends Abortable { hostname?: string, name?: string, token?: string }
export interface ExposePortResult { url: string, port: number, token: string, name?: string }
export interface ExposedPortInfo { url: string, port: number, name?: string, exposedAt: string, status: 'active' | 'inactive' }

export interface SessionOptions extends Abortable {
  id?: string
  /** The same as `id`. */
  name?: string
  env?: Environment
  cwd?: string
  isolation?: boolean
  /** Timeout of commands without their own, in ms. */
  commandTimeoutMs?: number
}
export interface SessionDeleteResult { success: true, sessionId: string, timestamp: string }

export interface TerminalOptions extends Abortable { cols?: number, rows?: number, shell?: string, sessionId?: string }

/** The namespace argument of `getSandbox`. */
export type Namespace = Cloche | PromiseLike<Cloche> | NamespaceOptions | null | undefined
