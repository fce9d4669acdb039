// The names of all options of the façade's methods: unknown ones are refused, with the nearest one as a hint.
import { InvalidArgumentError } from '../generated/errors.js'
import { checkKnown, type Names } from '../internal/known.js'
import { translate } from './translate.js'
import type { TreeOptions } from './tree.js'
import type {
  Abortable, BackupOptions, CheckChangesOptions, CopyFileOptions, CreateContextOptions, DeleteFileOptions, ExecOptions, ExposePortOptions,
  GitCheckoutOptions, ListFilesOptions, MkdirOptions, ProcessOptions, ReadFileOptions, ReplaceOptions, RunCodeOptions, SearchOptions, SessionOptions,
  StreamOptions, TerminalOptions, WaitForPortOptions, WatchOptions, WriteFileOptions, WriteOptions
} from './types.js'

const abortable: Names<Abortable> = { signal: true }
const session = { sessionId: true } as const
const globs = { include: true, exclude: true } as const
const command = { ...abortable, timeout: true, env: true, cwd: true, encoding: true, stdin: true } as const
const watch: Names<WatchOptions> = { ...abortable, ...session, ...globs, recursive: true }
const search = { ...abortable, ...globs, ignoreCase: true } as const
const cell: Names<RunCodeOptions> = {
  ...abortable, context: true, language: true, envVars: true, timeout: true, onStdout: true, onStderr: true, onResult: true, onError: true, onClear: true,
  onInput: true
}
const tree: Names<TreeOptions> = { ...abortable, exclude: true, maxBytes: true }
const exec: Names<ExecOptions> = { ...command, stream: true, onOutput: true, onComplete: true, onError: true, origin: true }
const execStream: Names<StreamOptions> = { ...command, ...session, fork: true, bufferSize: true }
const startProcess: Names<ProcessOptions> = {
  ...command, ...session, processId: true, autoCleanup: true, onStart: true, onOutput: true, onExit: true, onError: true
}
const waitForPort: Names<WaitForPortOptions> = { ...abortable, mode: true, path: true, status: true, timeout: true, interval: true }
const writeFile: Names<WriteFileOptions> = { ...abortable, ...session, encoding: true, mode: true, append: true }
const readFile: Names<ReadFileOptions> = { ...abortable, ...session, encoding: true }
const mkdir: Names<MkdirOptions> = { ...abortable, ...session, recursive: true, mode: true }
const deleteFile: Names<DeleteFileOptions> = { ...abortable, ...session, recursive: true, force: true }
const listFiles: Names<ListFilesOptions> = { ...abortable, ...session, recursive: true, includeHidden: true }
const gitCheckout: Names<GitCheckoutOptions> = {
  ...abortable, ...session, branch: true, targetDir: true, depth: true, cloneTimeoutMs: true, username: true, password: true
}
const createBackup: Names<BackupOptions & Abortable> = {
  ...abortable, dir: true, name: true, ttl: true, gitignore: true, excludes: true, compression: true, localBucket: true, multipart: true
}
const createContext: Names<CreateContextOptions> = { ...abortable, language: true, cwd: true, envVars: true, timeout: true, forkable: true, prefix: true }
const terminal: Names<TerminalOptions> = { ...abortable, ...session, cols: true, rows: true, shell: true }
const createSession: Names<SessionOptions> = { ...abortable, id: true, name: true, env: true, cwd: true, isolation: true, commandTimeoutMs: true }
const exposePort: Names<ExposePortOptions> = { ...abortable, hostname: true, name: true, token: true }

interface Methods {
  exec: ExecOptions
  execStream: StreamOptions
  startProcess: ProcessOptions
  waitForPort: WaitForPortOptions
  write: WriteOptions
  writeFile: WriteFileOptions
  readFile: ReadFileOptions
  readFileStream: ReadFileOptions
  mkdir: MkdirOptions
  deleteFile: DeleteFileOptions
  copyFile: CopyFileOptions
  listFiles: ListFilesOptions
  watch: WatchOptions
  checkChanges: CheckChangesOptions
  search: SearchOptions
  replace: ReplaceOptions
  uploadTree: TreeOptions
  downloadTree: TreeOptions
  gitCheckout: GitCheckoutOptions
  createBackup: BackupOptions & Abortable
  createCodeContext: CreateContextOptions
  runCode: RunCodeOptions
  runCodeStream: RunCodeOptions
  terminal: TerminalOptions
  proxyTerminal: TerminalOptions
  createSession: SessionOptions
  exposePort: ExposePortOptions
}

const methods: { [M in keyof Methods]: Names<Methods[M]> } = {
  exec,
  execStream,
  startProcess,
  waitForPort,
  write: { ...abortable, end: true },
  writeFile,
  readFile,
  readFileStream: readFile,
  mkdir,
  deleteFile,
  copyFile: { ...abortable, overwrite: true },
  listFiles,
  watch,
  checkChanges: { ...watch, since: true },
  search: { ...search, limit: true },
  replace: { ...search, dryRun: true },
  uploadTree: tree,
  downloadTree: tree,
  gitCheckout,
  createBackup,
  createCodeContext: createContext,
  runCode: cell,
  runCodeStream: cell,
  terminal,
  proxyTerminal: terminal,
  createSession,
  exposePort
}

function refusing<T> (method: string, options: T, names: Names<T>): T {
  try {
    checkKnown(method, options, names)
    return options
  } catch (thrown) {
    throw thrown instanceof InvalidArgumentError ? translate(method, thrown) : thrown
  }
}

/** The options of a method, if it knows all of them. */
export const optionsOf = <M extends keyof Methods>(method: M, options: Methods[M]): Methods[M] => refusing(method, options, methods[method])
/** Likewise, for a method without options of its own. */
export const abortOf = (method: string, options: Abortable): Abortable => refusing(method, options, abortable)
