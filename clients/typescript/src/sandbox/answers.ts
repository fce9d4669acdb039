// Responses and events of spec/sandbox.md, as types.
import type { SandboxEvent } from '../internal/asking.js'
import type { Limits } from '../generated/limits.js'

/**
 * The permitted connections of a sandbox. A rule is HOST, HOST:PORT or HOST:FIRST-LAST; HOST a
 * name, *.name, *, an IPv4 address or CIDR.
 */
export interface NetworkPolicy {
  allow?: readonly string[]
  deny?: readonly string[]
  dns?: boolean
}
export interface TerminalSize { cols: number, rows: number }

export interface SandboxInfo {
  sandbox: string
  state: 'running' | 'stopped'
  createdAt: string
  lastUsedAt: string
  savedAt?: string
  /** Changes between these times are lost: the sandbox, or the daemon, crashed. */
  lost?: { from: string, to: string }
  limits: Limits
  env: Record<string, string>
  network: NetworkPolicy
  idleMs: number
  labels: Record<string, string>
  sessions: number
  processes: number
  usage?: { memoryBytes: number, memoryPeakBytes: number, cpuMs: number, pids: number, diskBytes: number }
}

export interface SessionInfo { session: string, cwd: string, isolation: boolean, busy: boolean, createdAt: string }

/** Text if the bytes are UTF-8 without NUL, and at most 64 KiB. */
export type TextOrBytes = string | Uint8Array

export interface CommandResult {
  exitCode: number
  signal?: string
  stdout: TextOrBytes
  stderr: TextOrBytes
  stdoutBytes: number
  stderrBytes: number
  truncated: boolean
  /** For output.read, if there is more than the response holds. */
  output?: string
  timedOut: boolean
  durationMs: number
  session: string
  cwd: string
  sessionEnded: boolean
}

export type ProcessState = 'running' | 'completed' | 'failed' | 'killed'
export interface ProcessInfo {
  process: string
  pid: number
  command: TextOrBytes
  status: ProcessState
  session: string
  startedAt: string
  endedAt?: string
  exitCode?: number
  signal?: string
  terminal?: TerminalSize | boolean
  timedOut?: boolean
}

export interface ProcessLogs {
  stdout: TextOrBytes
  stderr: TextOrBytes
  stdoutNext: number
  stderrNext: number
  stdoutTotal: number
  stderrTotal: number
  stdoutDropped: number
  stderrDropped: number
}

export type FileType = 'file' | 'directory' | 'symlink' | 'other'
export interface FileEntry {
  name: TextOrBytes
  path: TextOrBytes
  /** Relative to the listed directory. */
  relativePath: TextOrBytes
  type: FileType
  size: number
  mode: number
  modifiedAt: string
  target?: TextOrBytes
}

export type ContextState = 'idle' | 'busy' | 'starting' | 'ended'
export interface ContextInfo {
  context: string
  language: string
  cwd: string
  env: Record<string, string>
  state: ContextState
  executionCount: number
  forkable: boolean
  /** Timeout of cells without their own; 0: none. */
  timeoutMs: number
  createdAt: string
  lastUsedAt: string
  pid?: number
  /** Name and version: `IPython 8.5.0 on Python 3.11.2` has magics, `Python 3.11.2` has none. */
  interpreter?: string
  forkedFrom?: string
  /** Number of checkpoints. */
  checkpoints: number
  /** The reason why the interpreter of an ended one exited. */
  endedWhy?: string
}

export interface CheckpointInfo {
  checkpoint: string
  createdAt: string
  executionCount: number
  /** True if the workspace was saved. */
  files: boolean
}

/** One value in all its forms, by their MIME types: text, bytes, or JSON data. */
export interface Display {
  data: Record<string, unknown>
  metadata: Record<string, unknown>
  /** The value of the cell's last expression. */
  isResult: boolean
  displayId?: string
  /** Replaces the display with the same `displayId`. */
  isUpdate?: boolean
}

export interface CellError { name: string, message: string, traceback: string[] }
export interface CellResult {
  context: string
  executionCount: number
  status: 'ok' | 'error'
  error?: CellError
  stdout: TextOrBytes
  stderr: TextOrBytes
  stdoutBytes: number
  stderrBytes: number
  truncated: boolean
  /** For output.read, if there is more than the response holds. */
  output?: string
  /** All displays of the cell; empty if they were sent as events. */
  displays: Display[]
  displaysDropped: number
  timedOut: boolean
  interrupted: boolean
  /** The interpreter has ended with it. */
  ended: boolean
  durationMs: number
}

/** A cell's request for input, to be answered by `context.input` with its number. */
export interface Question { context: string, input: number, prompt: string, password: boolean }

export interface Variable { name: string, type: string, summary: string }

export interface ExposedPort { port: number, token: string, name?: string, url?: string, exposedAt: string, open: boolean }

export interface NetworkDecision {
  number: number
  time: string
  host?: string
  address?: string
  port: number
  verdict: 'allowed' | 'denied'
  rule?: string
  why: string
  kind: 'dns' | 'tcp' | 'tls' | 'http'
}

export interface Answers {
  'sandbox.create': SandboxInfo & { created: boolean }
  'sandbox.list': { sandboxes: SandboxInfo[] }
  'sandbox.get': SandboxInfo
  'sandbox.update': SandboxInfo
  'sandbox.stop': SandboxInfo
  'sandbox.save': SandboxInfo
  'sandbox.delete': Record<string, never>
  'sandbox.events': Record<string, never>
  'session.create': { session: string, cwd: string, created: boolean, isolation: boolean }
  'session.list': { sessions: SessionInfo[] }
  'session.delete': { session: string }
  'session.env': { session: string }
  'exec': CommandResult
  'output.read': { data: TextOrBytes, offset: number, next: number, total: number, end: boolean }
  'process.start': ProcessInfo
  'process.list': { processes: ProcessInfo[] }
  'process.get': ProcessInfo
  'process.kill': ProcessInfo
  'process.killAll': { count: number }
  'process.cleanup': { count: number }
  'process.logs': ProcessLogs
  'process.follow': ProcessInfo
  'process.input': Record<string, never>
  'process.resize': Record<string, never>
  'process.wait': { process: ProcessInfo, line?: string, match?: string[], stream?: 'stdout' | 'stderr' | 'terminal', status?: number }
  'file.write': { path: string, bytes: number }
  'file.read': { path: string, content: TextOrBytes, offset: number, bytes: number, total: number, mimeType: string }
  'file.stat': FileEntry
  'file.exists': { path: string, exists: boolean, type?: FileType }
  'file.list': { path: string, entries: FileEntry[], next?: string }
  'file.mkdir': { path: string, created: boolean }
  'file.move': { from: string, to: string }
  'file.copy': { from: string, to: string }
  'file.remove': { path: string, count: number }
  'file.search': { matches: Array<{ path: TextOrBytes, line: number, column: number, text: TextOrBytes }>, files: number, truncated: boolean }
  'file.replace': { files: Array<{ path: TextOrBytes, count: number }>, count: number }
  'file.watch': Record<string, never>
  'archive.create': { path: string, to: string, files: number, bytes: number }
  'archive.extract': { path: string, to: string, files: number, bytes: number }
  'git.checkout': { url: string, dir: string, branch: string, commit: string, stdout: TextOrBytes, stderr: TextOrBytes }
  'port.expose': { port: number, token: string, name?: string, url?: string }
  'port.unexpose': { port: number, exposed: boolean }
  'port.list': { exposed: ExposedPort[], open: Array<{ port: number, address: string }> }
  'port.wait': { port: number, status?: number }
  'context.create': ContextInfo & { created: boolean }
  'context.list': { contexts: ContextInfo[] }
  'context.get': ContextInfo
  'context.delete': { context: string }
  'context.restart': ContextInfo
  'context.interrupt': { context: string, interrupted: boolean }
  'context.run': CellResult
  'context.input': Record<string, never>
  'context.complete': { matches: string[], from: number, to: number }
  'context.describe': { variables: Variable[] }
  'context.fork': { contexts: ContextInfo[] }
  'context.checkpoint': CheckpointInfo
  'context.rollback': ContextInfo
  'context.checkpoints': { checkpoints: CheckpointInfo[] }
  'context.forget': { checkpoint: string }
  'network.log': { decisions: NetworkDecision[], next: number }
}

export type OutputEvent = SandboxEvent<'output', { stream: 'stdout' | 'stderr' | 'terminal', data: Uint8Array }>
export type CellEvent =
  | SandboxEvent<'begin', { context: string, executionCount: number }>
  | SandboxEvent<'output', { stream: 'stdout' | 'stderr', data: Uint8Array }>
  | SandboxEvent<'display', Display>
  | SandboxEvent<'clear', { wait: boolean }>
  | SandboxEvent<'input', Question>
export interface FileChange {
  type: 'create' | 'modify' | 'delete' | 'move' | 'attrib'
  path: TextOrBytes
  from?: TextOrBytes
  isDirectory: boolean
  timestamp: string
}
export type WatchEvent =
  | SandboxEvent<'ready', Record<string, never>>
  | SandboxEvent<'change', FileChange>
  | SandboxEvent<'lost', Record<string, never>>
export type LifeEvent =
  | SandboxEvent<'portOpened' | 'portClosed', { port: number, address: string }>
  | SandboxEvent<'processStarted' | 'processEnded', ProcessInfo>
  | SandboxEvent<'network', NetworkDecision>
  | SandboxEvent<'state', { state: 'running' | 'stopped' }>

export interface StreamEvents {
  'exec': OutputEvent
  'process.follow': OutputEvent
  'git.checkout': OutputEvent
  'context.run': CellEvent
  'file.watch': WatchEvent
  'sandbox.events': LifeEvent
}
