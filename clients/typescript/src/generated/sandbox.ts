// Made from spec/sandbox.def by scripts/generate.mjs.
import type { Asking, OperationOptions } from '../internal/asking.js'
import type { Answers, NetworkPolicy, StreamEvents, TerminalSize } from '../sandbox/answers.js'
import type { Limits } from './limits.js'

/** Of sandbox.create. */
export interface SandboxCreateParams {
  /** Of the whole sandbox, by name; 0: none. */
  limits?: Limits | undefined
  /** Added to the environment of everything started in it. */
  env?: Record<string, string> | undefined
  /** Where it may connect to: {allow, deny}; absent: nowhere. */
  network?: NetworkPolicy | undefined
  /** It is saved and stopped when nothing was asked and nothing ran for so long; absent: 1200000, 0: never. */
  idleMs?: number | undefined
  /** The caller's own words about it. */
  labels?: Record<string, string> | undefined
}

/** Of sandbox.update. */
export interface SandboxUpdateParams {
  /** memoryBytes, pids and cpuPercent act at once, others when it starts next. */
  limits?: Limits | undefined
  /** In place of what was there; for what is started from now on. */
  env?: Record<string, string> | undefined
  /** In place of what was there; acts at once, on open connections too. */
  network?: NetworkPolicy | undefined
  /** As of sandbox.create. */
  idleMs?: number | undefined
  /** In place of what was there. */
  labels?: Record<string, string> | undefined
}

/** Of session.create. */
export interface SessionCreateParams {
  /** Its name; absent: one is made up. */
  session?: string | undefined
  /** Where it begins; absent: /workspace. */
  cwd?: string | undefined
  /** Added to the sandbox's. */
  env?: Record<string, string> | undefined
  /** In a pid namespace of its own. */
  isolation?: boolean | undefined
  /** Of its commands that name none; 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Of session.delete. */
export interface SessionDeleteParams {
  /** Which. */
  session: string
}

/** Of session.env. */
export interface SessionEnvParams {
  /** Absent: default. */
  session?: string | undefined
  /** Text by name; null: unset. */
  env: Record<string, string | null>
}

/** Of exec. */
export interface ExecParams {
  /** Absent: default, made on first use. */
  session?: string | undefined
  /** For the shell: several lines, here documents, anything. */
  command: string | Uint8Array
  /** For this command only. */
  cwd?: string | undefined
  /** For this command only: text by name; null: unset. */
  env?: Record<string, string | null> | undefined
  /** Absent: nothing. */
  stdin?: string | Uint8Array | undefined
  /** From when it begins; then everything it started is killed. 0: none. */
  timeoutMs?: number | undefined
  /** Of each stream in the answer, its beginning; the rest is read with output.read. Absent: 1048576. */
  outputBytes?: number | undefined
  /** Tell output as it comes. */
  stream?: boolean | undefined
  /** In a copy of the shell, at once: it waits for nobody, and leaves the session as it was. */
  fork?: boolean | undefined
}

/** Of output.read. */
export interface OutputReadParams {
  /** What exec answered as output. */
  output: string
  /** stdout or stderr. */
  stream: string
  /** In bytes; absent: 0. */
  offset?: number | undefined
  /** At most so many bytes; absent: 1048576. */
  limit?: number | undefined
}

/** Of process.start. */
export interface ProcessStartParams {
  /** Whose variables, functions and directory it has; absent: default. */
  session?: string | undefined
  /** Its id; absent: one is made up. */
  process?: string | undefined
  /** For the shell. */
  command: string | Uint8Array
  /** Absent: the session's. */
  cwd?: string | undefined
  /** Text by name; null: unset. */
  env?: Record<string, string | null> | undefined
  /** Keep its input open for process.input. */
  stdin?: boolean | undefined
  /** Then its tree is killed. 0 or absent: none. */
  timeoutMs?: number | undefined
  /** Forget it when it has ended. */
  autoCleanup?: boolean | undefined
  /** {cols, rows}: on a terminal of its own. */
  terminal?: TerminalSize | undefined
}

/** Of process.list. */
export interface ProcessListParams {
  /** Only of this session. */
  session?: string | undefined
}

/** Of process.get. */
export interface ProcessGetParams {
  /** Its id. */
  process: string
}

/** Of process.kill. */
export interface ProcessKillParams {
  /** Its id. */
  process: string
  /** SIGTERM, TERM or 15, and the like. */
  signal?: string | undefined
  /** false: only itself. */
  tree?: boolean | undefined
  /** Absent: 5000. */
  graceMs?: number | undefined
}

/** Of process.killAll. */
export interface ProcessKillAllParams {
  /** Only of this session. */
  session?: string | undefined
  /** Absent: 5000. */
  graceMs?: number | undefined
}

/** Of process.cleanup. */
export interface ProcessCleanupParams {
  /** Only this one. */
  process?: string | undefined
}

/** Of process.logs. */
export interface ProcessLogsParams {
  /** Its id. */
  process: string
  /** In bytes of each stream; absent: 0. */
  offset?: number | undefined
  /** At most so many bytes of each; absent: 1048576. */
  limit?: number | undefined
}

/** Of process.follow. */
export interface ProcessFollowParams {
  /** Its id. */
  process: string
  /** false: only what comes from now on. */
  replay?: boolean | undefined
}

/** Of process.input. */
export interface ProcessInputParams {
  /** Its id. */
  process: string
  /** What. */
  data?: string | Uint8Array | undefined
  /** Then close it. */
  end?: boolean | undefined
}

/** Of process.resize. */
export interface ProcessResizeParams {
  /** Its id. */
  process: string
  /** 1 to 1000. */
  cols: number
  /** 1 to 1000. */
  rows: number
}

/** Of process.wait. */
export interface ProcessWaitParams {
  /** Its id. */
  process: string
  /** A line of its output with this in it. */
  text?: string | undefined
  /** A line that matches this regular expression (PCRE2). */
  pattern?: string | undefined
  /** Something accepts connections at this port. */
  port?: number | undefined
  /** With port: and answers GET of this path over HTTP. */
  path?: string | undefined
  /** With path: with a status from [first, last]; absent: [200, 399]. */
  status?: readonly [first: number, last: number] | undefined
  /** Then the error timeout. 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Of file.write. */
export interface FileWriteParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Byte for byte. */
  content: string | Uint8Array
  /** At its end. */
  append?: boolean | undefined
  /** Into it, from here, without cutting it; 0 and absent differ. */
  offset?: number | undefined
  /** false: only into a file that is there, with append or offset. */
  create?: boolean | undefined
  /** Permission bits, as a number. */
  mode?: number | undefined
}

/** Of file.read. */
export interface FileReadParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Absent: 0. */
  offset?: number | undefined
  /** Absent: all, if it has at most 32 MiB. */
  limit?: number | undefined
}

/** Of file.stat. */
export interface FileStatParams {
  /** Absolute, or below /workspace. */
  path: string
}

/** Of file.exists. */
export interface FileExistsParams {
  /** Absolute, or below /workspace. */
  path: string
}

/** Of file.list. */
export interface FileListParams {
  /** Absolute, or below /workspace. */
  path: string
  /** And below it; links are not followed. */
  recursive?: boolean | undefined
  /** Names that begin with a dot too. */
  hidden?: boolean | undefined
  /** What an earlier page answered as next. */
  after?: string | undefined
  /** Entries at most; absent: 10000. */
  limit?: number | undefined
}

/** Of file.mkdir. */
export interface FileMkdirParams {
  /** Absolute, or below /workspace. */
  path: string
  /** With those on the way, and it may be there. */
  recursive?: boolean | undefined
  /** Permission bits, as a number; absent: 493, which is 0755. */
  mode?: number | undefined
}

/** Of file.move. */
export interface FileMoveParams {
  /** What. */
  from: string
  /** Its new path; into a directory when that is one. */
  to: string
  /** false: not over what is there. */
  overwrite?: boolean | undefined
}

/** Of file.copy. */
export interface FileCopyParams {
  /** What. */
  from: string
  /** The path of the copy; into a directory when that is one. */
  to: string
  /** false: not over what is there. */
  overwrite?: boolean | undefined
}

/** Of file.remove. */
export interface FileRemoveParams {
  /** What. */
  path: string
  /** A directory, with all that is in it. */
  recursive?: boolean | undefined
  /** It need not be there. */
  force?: boolean | undefined
}

/** Of file.search. */
export interface FileSearchParams {
  /** A file, or a directory to go through. */
  path: string
  /** This, letter for letter. */
  text?: string | undefined
  /** Or this regular expression (PCRE2). */
  pattern?: string | undefined
  /** Globs of paths below it; absent: all. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules. */
  exclude?: readonly string[] | undefined
  /** Capital or not. */
  ignoreCase?: boolean | undefined
  /** Matches at most; absent: 1000. */
  limit?: number | undefined
}

/** Of file.replace. */
export interface FileReplaceParams {
  /** A file, or a directory to go through. */
  path: string
  /** This, letter for letter. */
  text?: string | undefined
  /** Or this regular expression (PCRE2). */
  pattern?: string | undefined
  /** By this; of a pattern with $1, ${name}. */
  replacement: string
  /** Globs of paths below it; absent: all. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules. */
  exclude?: readonly string[] | undefined
  /** Capital or not. */
  ignoreCase?: boolean | undefined
  /** Only say how often. */
  dryRun?: boolean | undefined
}

/** Of file.watch. */
export interface FileWatchParams {
  /** A file or directory. */
  path: string
  /** false: not what is in directories below. */
  recursive?: boolean | undefined
  /** Globs; not with exclude. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules, .DS_Store. */
  exclude?: readonly string[] | undefined
}

/** Of archive.create. */
export interface ArchiveCreateParams {
  /** The directory or file. */
  path: string
  /** The archive. */
  to: string
  /** tar, tar.gz, tar.zst or zip; absent: what the name of the archive says. */
  format?: string | undefined
  /** Globs. */
  exclude?: readonly string[] | undefined
  /** inside: a symbolic link that leads out of the tree is an error; absent, any: links are packed as they are. */
  links?: string | undefined
}

/** Of archive.extract. */
export interface ArchiveExtractParams {
  /** The archive. */
  path: string
  /** The directory to unpack into; made when it is not there. */
  to: string
}

/** Of git.checkout. */
export interface GitCheckoutParams {
  /** https, http, ssh, git, file, name@host:path, or an absolute path in the sandbox: a repository or a bundle. */
  url: string
  /** Branch or tag; absent: the repository's own. */
  branch?: string | undefined
  /** Where; absent: below /workspace under the repository's name. */
  dir?: string | undefined
  /** So many commits; absent: all. */
  depth?: number | undefined
  /** For http; is in no command line, file or answer. */
  username?: string | undefined
  /** Likewise: a password or token. */
  password?: string | undefined
  /** Whose directory a relative dir is below; absent: default. */
  session?: string | undefined
  /** Absent: 600000. */
  timeoutMs?: number | undefined
}

/** Of context.create. */
export interface ContextCreateParams {
  /** Its name; absent: one is made up. */
  context?: string | undefined
  /** python, javascript, typescript, bash, ruby or php; absent: python. */
  language?: string | undefined
  /** Where it begins; made when it is not there. Absent: /workspace. */
  cwd?: string | undefined
  /** Added to the sandbox's. */
  env?: Record<string, string> | undefined
  /** Of its cells that name none; 0 or absent: none. */
  timeoutMs?: number | undefined
  /** It can be forked, and has checkpoints; its interpreter then has a template's rights, and cannot list network interfaces. */
  forkable?: boolean | undefined
}

/** Of context.get. */
export interface ContextGetParams {
  /** Its name. */
  context: string
}

/** Of context.delete. */
export interface ContextDeleteParams {
  /** Its name. */
  context: string
}

/** Of context.restart. */
export interface ContextRestartParams {
  /** Its name. */
  context: string
}

/** Of context.interrupt. */
export interface ContextInterruptParams {
  /** Its name. */
  context: string
}

/** Of context.run. */
export interface ContextRunParams {
  /** Absent: the language's default one, made on first use. */
  context?: string | undefined
  /** Without context: of the default one; absent: python. */
  language?: string | undefined
  /** The cell. */
  code: string
  /** From when it begins; then it is interrupted, and killed when that does not end it. 0: none. */
  timeoutMs?: number | undefined
  /** Of each stream in the answer, its beginning; the rest is read with output.read. Absent: 1048576. */
  outputBytes?: number | undefined
  /** Tell output and displays as they come. */
  stream?: boolean | undefined
  /** The code may ask for input; absent: what asks is told that there is none. */
  input?: boolean | undefined
  /** Without a result, and not counted. */
  silent?: boolean | undefined
  /** Begin anew when the interpreter has ended; absent: only of a default context. */
  restart?: boolean | undefined
}

/** Of context.input. */
export interface ContextInputParams {
  /** Its name. */
  context: string
  /** The number of the question. */
  input: number
  /** The line, without its end; absent: there is none. */
  value?: string | undefined
}

/** Of context.complete. */
export interface ContextCompleteParams {
  /** Its name. */
  context: string
  /** The code. */
  code: string
  /** Where, in code points; absent: at its end. */
  at?: number | undefined
}

/** Of context.describe. */
export interface ContextDescribeParams {
  /** Its name. */
  context: string
}

/** Of context.fork. */
export interface ContextForkParams {
  /** Which; made forkable. */
  context: string
  /** How many, at most 100; absent: 1. */
  count?: number | undefined
  /** The copies too. */
  forkable?: boolean | undefined
}

/** Of context.checkpoint. */
export interface ContextCheckpointParams {
  /** Which; made forkable. */
  context: string
  /** Its name; absent: one is made up. One of that name gives way. */
  checkpoint?: string | undefined
  /** false: without the workspace. */
  files?: boolean | undefined
}

/** Of context.rollback. */
export interface ContextRollbackParams {
  /** Which. */
  context: string
  /** Absent: the newest. */
  checkpoint?: string | undefined
}

/** Of context.checkpoints. */
export interface ContextCheckpointsParams {
  /** Which. */
  context: string
}

/** Of context.forget. */
export interface ContextForgetParams {
  /** Which. */
  context: string
  /** Its name. */
  checkpoint: string
}

/** Of port.expose. */
export interface PortExposeParams {
  /** 1024 to 65535. */
  port: number
  /** The caller's own word for it. */
  name?: string | undefined
  /** 1 to 16 of a-z 0-9 _; absent: 16 at random, or those it has. */
  token?: string | undefined
}

/** Of port.unexpose. */
export interface PortUnexposeParams {
  /** Which. */
  port: number
}

/** Of port.wait. */
export interface PortWaitParams {
  /** Which. */
  port: number
  /** And answers GET of this path over HTTP. */
  path?: string | undefined
  /** With a status from [first, last]; absent: [200, 399]. */
  status?: readonly [first: number, last: number] | undefined
  /** Then the error timeout. 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Of network.log. */
export interface NetworkLogParams {
  /** Only those after this number. */
  after?: number | undefined
}

export type Method =
  | 'sandbox.create'
  | 'sandbox.list'
  | 'sandbox.get'
  | 'sandbox.update'
  | 'sandbox.stop'
  | 'sandbox.save'
  | 'sandbox.delete'
  | 'sandbox.events'
  | 'session.create'
  | 'session.list'
  | 'session.delete'
  | 'session.env'
  | 'exec'
  | 'output.read'
  | 'process.start'
  | 'process.list'
  | 'process.get'
  | 'process.kill'
  | 'process.killAll'
  | 'process.cleanup'
  | 'process.logs'
  | 'process.follow'
  | 'process.input'
  | 'process.resize'
  | 'process.wait'
  | 'file.write'
  | 'file.read'
  | 'file.stat'
  | 'file.exists'
  | 'file.list'
  | 'file.mkdir'
  | 'file.move'
  | 'file.copy'
  | 'file.remove'
  | 'file.search'
  | 'file.replace'
  | 'file.watch'
  | 'archive.create'
  | 'archive.extract'
  | 'git.checkout'
  | 'context.create'
  | 'context.list'
  | 'context.get'
  | 'context.delete'
  | 'context.restart'
  | 'context.interrupt'
  | 'context.run'
  | 'context.input'
  | 'context.complete'
  | 'context.describe'
  | 'context.fork'
  | 'context.checkpoint'
  | 'context.rollback'
  | 'context.checkpoints'
  | 'context.forget'
  | 'port.expose'
  | 'port.unexpose'
  | 'port.list'
  | 'port.wait'
  | 'network.log'
/** Those that tell events before they are answered. */
export type StreamMethod = 'sandbox.events' | 'exec' | 'process.follow' | 'file.watch' | 'git.checkout' | 'context.run'
export type EventsOf<M> = M extends keyof StreamEvents ? StreamEvents[M] : never
export type Ask = <M extends Method>(method: M, params: object, options: OperationOptions) => Asking<Answers[M], EventsOf<M>>

export class SandboxOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a sandbox, or find the one of that name. */
  async create (params: SandboxCreateParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.create']> {
    return await this.ask('sandbox.create', params, options)
  }

  /** One sandbox: state, limits, what it uses. */
  async get (options: OperationOptions = {}): Promise<Answers['sandbox.get']> {
    return await this.ask('sandbox.get', {}, options)
  }

  /** Change what is named, in a running sandbox too. */
  async update (params: SandboxUpdateParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.update']> {
    return await this.ask('sandbox.update', params, options)
  }

  /** Save the files and end everything that runs; the next use starts it again. One that cannot be saved goes on running: the error is resource. */
  async stop (options: OperationOptions = {}): Promise<Answers['sandbox.stop']> {
    return await this.ask('sandbox.stop', {}, options)
  }

  /** Save the files as they are now; what runs goes on. */
  async save (options: OperationOptions = {}): Promise<Answers['sandbox.save']> {
    return await this.ask('sandbox.save', {}, options)
  }

  /** End it and forget everything of it. */
  async delete (options: OperationOptions = {}): Promise<Answers['sandbox.delete']> {
    return await this.ask('sandbox.delete', {}, options)
  }

  /** Tell what happens: ports, processes, connections, states. */
  events (options: OperationOptions = {}): Asking<Answers['sandbox.events'], EventsOf<'sandbox.events'>> {
    return this.ask('sandbox.events', {}, options)
  }

  /** Run a command in a session's shell, after those that came before. */
  exec (params: ExecParams, options: OperationOptions = {}): Asking<Answers['exec'], EventsOf<'exec'>> {
    return this.ask('exec', params, options)
  }
}

export class SessionOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a session, or find the one of that name. */
  async create (params: SessionCreateParams = {}, options: OperationOptions = {}): Promise<Answers['session.create']> {
    return await this.ask('session.create', params, options)
  }

  /** The sessions there are. */
  async list (options: OperationOptions = {}): Promise<Answers['session.list']> {
    return await this.ask('session.list', {}, options)
  }

  /** End a session and what runs in it. */
  async delete (params: SessionDeleteParams, options: OperationOptions = {}): Promise<Answers['session.delete']> {
    return await this.ask('session.delete', params, options)
  }

  /** Export variables into a session, or unset them. */
  async env (params: SessionEnvParams, options: OperationOptions = {}): Promise<Answers['session.env']> {
    return await this.ask('session.env', params, options)
  }
}

export class OutputOperations {
  constructor (protected readonly ask: Ask) {}

  /** What a command printed, a page at a time. */
  async read (params: OutputReadParams, options: OperationOptions = {}): Promise<Answers['output.read']> {
    return await this.ask('output.read', params, options)
  }
}

export class ProcessOperations {
  constructor (protected readonly ask: Ask) {}

  /** Start a command in the background. */
  async start (params: ProcessStartParams, options: OperationOptions = {}): Promise<Answers['process.start']> {
    return await this.ask('process.start', params, options)
  }

  /** The processes that were started and not forgotten. */
  async list (params: ProcessListParams = {}, options: OperationOptions = {}): Promise<Answers['process.list']> {
    return await this.ask('process.list', params, options)
  }

  /** One of them. */
  async get (params: ProcessGetParams, options: OperationOptions = {}): Promise<Answers['process.get']> {
    return await this.ask('process.get', params, options)
  }

  /** Signal it and everything beneath it; without a signal SIGTERM, and SIGKILL after graceMs. */
  async kill (params: ProcessKillParams, options: OperationOptions = {}): Promise<Answers['process.kill']> {
    return await this.ask('process.kill', params, options)
  }

  /** The same to all that run. */
  async killAll (params: ProcessKillAllParams = {}, options: OperationOptions = {}): Promise<Answers['process.killAll']> {
    return await this.ask('process.killAll', params, options)
  }

  /** Forget those that have ended. */
  async cleanup (params: ProcessCleanupParams = {}, options: OperationOptions = {}): Promise<Answers['process.cleanup']> {
    return await this.ask('process.cleanup', params, options)
  }

  /** What it has printed so far. */
  async logs (params: ProcessLogsParams, options: OperationOptions = {}): Promise<Answers['process.logs']> {
    return await this.ask('process.logs', params, options)
  }

  /** What it has printed, then what it prints, until it ends. */
  follow (params: ProcessFollowParams, options: OperationOptions = {}): Asking<Answers['process.follow'], EventsOf<'process.follow'>> {
    return this.ask('process.follow', params, options)
  }

  /** Write to its input or terminal; answered when it is with the kernel. */
  async input (params: ProcessInputParams, options: OperationOptions = {}): Promise<Answers['process.input']> {
    return await this.ask('process.input', params, options)
  }

  /** Its terminal has another size. */
  async resize (params: ProcessResizeParams, options: OperationOptions = {}): Promise<Answers['process.resize']> {
    return await this.ask('process.resize', params, options)
  }

  /** Until it has ended, printed something, or serves a port. */
  async wait (params: ProcessWaitParams, options: OperationOptions = {}): Promise<Answers['process.wait']> {
    return await this.ask('process.wait', params, options)
  }
}

export class FileOperations {
  constructor (protected readonly ask: Ask) {}

  /** Write a file; directories on the way are made. */
  async write (params: FileWriteParams, options: OperationOptions = {}): Promise<Answers['file.write']> {
    return await this.ask('file.write', params, options)
  }

  /** Read a file, or a piece of it. */
  async read (params: FileReadParams, options: OperationOptions = {}): Promise<Answers['file.read']> {
    return await this.ask('file.read', params, options)
  }

  /** What a file is. */
  async stat (params: FileStatParams, options: OperationOptions = {}): Promise<Answers['file.stat']> {
    return await this.ask('file.stat', params, options)
  }

  /** Whether there is such a file. */
  async exists (params: FileExistsParams, options: OperationOptions = {}): Promise<Answers['file.exists']> {
    return await this.ask('file.exists', params, options)
  }

  /** What is in a directory. */
  async list (params: FileListParams, options: OperationOptions = {}): Promise<Answers['file.list']> {
    return await this.ask('file.list', params, options)
  }

  /** Make a directory. */
  async mkdir (params: FileMkdirParams, options: OperationOptions = {}): Promise<Answers['file.mkdir']> {
    return await this.ask('file.mkdir', params, options)
  }

  /** Move or rename. */
  async move (params: FileMoveParams, options: OperationOptions = {}): Promise<Answers['file.move']> {
    return await this.ask('file.move', params, options)
  }

  /** Copy, directories with what is in them. */
  async copy (params: FileCopyParams, options: OperationOptions = {}): Promise<Answers['file.copy']> {
    return await this.ask('file.copy', params, options)
  }

  /** Remove. */
  async remove (params: FileRemoveParams, options: OperationOptions = {}): Promise<Answers['file.remove']> {
    return await this.ask('file.remove', params, options)
  }

  /** Lines of files with a text in them. */
  async search (params: FileSearchParams, options: OperationOptions = {}): Promise<Answers['file.search']> {
    return await this.ask('file.search', params, options)
  }

  /** Replace a text in files; a file is rewritten whole or not at all. */
  async replace (params: FileReplaceParams, options: OperationOptions = {}): Promise<Answers['file.replace']> {
    return await this.ask('file.replace', params, options)
  }

  /** Tell what changes. */
  watch (params: FileWatchParams, options: OperationOptions = {}): Asking<Answers['file.watch'], EventsOf<'file.watch'>> {
    return this.ask('file.watch', params, options)
  }
}

export class ArchiveOperations {
  constructor (protected readonly ask: Ask) {}

  /** Pack a tree into a file of the sandbox. */
  async create (params: ArchiveCreateParams, options: OperationOptions = {}): Promise<Answers['archive.create']> {
    return await this.ask('archive.create', params, options)
  }

  /** Unpack an archive; nothing of it is written when a member is not permitted. */
  async extract (params: ArchiveExtractParams, options: OperationOptions = {}): Promise<Answers['archive.extract']> {
    return await this.ask('archive.extract', params, options)
  }
}

export class GitOperations {
  constructor (protected readonly ask: Ask) {}

  /** Clone a repository, in the sandbox and through its network. */
  checkout (params: GitCheckoutParams, options: OperationOptions = {}): Asking<Answers['git.checkout'], EventsOf<'git.checkout'>> {
    return this.ask('git.checkout', params, options)
  }
}

export class ContextOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a context: an interpreter that stays. */
  async create (params: ContextCreateParams = {}, options: OperationOptions = {}): Promise<Answers['context.create']> {
    return await this.ask('context.create', params, options)
  }

  /** The contexts there are. */
  async list (options: OperationOptions = {}): Promise<Answers['context.list']> {
    return await this.ask('context.list', {}, options)
  }

  /** One of them. */
  async get (params: ContextGetParams, options: OperationOptions = {}): Promise<Answers['context.get']> {
    return await this.ask('context.get', params, options)
  }

  /** End a context; its cells under way fail. */
  async delete (params: ContextDeleteParams, options: OperationOptions = {}): Promise<Answers['context.delete']> {
    return await this.ask('context.delete', params, options)
  }

  /** Its interpreter anew, as it was made; cells under way fail. */
  async restart (params: ContextRestartParams, options: OperationOptions = {}): Promise<Answers['context.restart']> {
    return await this.ask('context.restart', params, options)
  }

  /** Interrupt the cell that runs; what the context holds stays. */
  async interrupt (params: ContextInterruptParams, options: OperationOptions = {}): Promise<Answers['context.interrupt']> {
    return await this.ask('context.interrupt', params, options)
  }

  /** Run a cell, after those that came before. */
  run (params: ContextRunParams, options: OperationOptions = {}): Asking<Answers['context.run'], EventsOf<'context.run'>> {
    return this.ask('context.run', params, options)
  }

  /** Answer what a cell asked for. */
  async input (params: ContextInputParams, options: OperationOptions = {}): Promise<Answers['context.input']> {
    return await this.ask('context.input', params, options)
  }

  /** How a piece of code could go on. */
  async complete (params: ContextCompleteParams, options: OperationOptions = {}): Promise<Answers['context.complete']> {
    return await this.ask('context.complete', params, options)
  }

  /** The variables it holds. */
  async describe (params: ContextDescribeParams, options: OperationOptions = {}): Promise<Answers['context.describe']> {
    return await this.ask('context.describe', params, options)
  }

  /** Copies of a live context, each in a box of its own with a copy of the workspace. */
  async fork (params: ContextForkParams, options: OperationOptions = {}): Promise<Answers['context.fork']> {
    return await this.ask('context.fork', params, options)
  }

  /** Keep a context as it is now, with the workspace. */
  async checkpoint (params: ContextCheckpointParams, options: OperationOptions = {}): Promise<Answers['context.checkpoint']> {
    return await this.ask('context.checkpoint', params, options)
  }

  /** The context as it was then, and the workspace where it was kept; the checkpoint stays. */
  async rollback (params: ContextRollbackParams, options: OperationOptions = {}): Promise<Answers['context.rollback']> {
    return await this.ask('context.rollback', params, options)
  }

  /** What was kept of it, oldest first. */
  async checkpoints (params: ContextCheckpointsParams, options: OperationOptions = {}): Promise<Answers['context.checkpoints']> {
    return await this.ask('context.checkpoints', params, options)
  }

  /** Give up a checkpoint. */
  async forget (params: ContextForgetParams, options: OperationOptions = {}): Promise<Answers['context.forget']> {
    return await this.ask('context.forget', params, options)
  }
}

export class PortOperations {
  constructor (protected readonly ask: Ask) {}

  /** Let whoever has the token reach a port. */
  async expose (params: PortExposeParams, options: OperationOptions = {}): Promise<Answers['port.expose']> {
    return await this.ask('port.expose', params, options)
  }

  /** Not any more; open connections end. */
  async unexpose (params: PortUnexposeParams, options: OperationOptions = {}): Promise<Answers['port.unexpose']> {
    return await this.ask('port.unexpose', params, options)
  }

  /** Exposed ports, and those something listens at. */
  async list (options: OperationOptions = {}): Promise<Answers['port.list']> {
    return await this.ask('port.list', {}, options)
  }

  /** Until something accepts connections at a port. */
  async wait (params: PortWaitParams, options: OperationOptions = {}): Promise<Answers['port.wait']> {
    return await this.ask('port.wait', params, options)
  }
}

export class NetworkOperations {
  constructor (protected readonly ask: Ask) {}

  /** The last decisions about connections. */
  async log (params: NetworkLogParams = {}, options: OperationOptions = {}): Promise<Answers['network.log']> {
    return await this.ask('network.log', params, options)
  }
}
