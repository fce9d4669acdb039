// Written by tools/spec from spec/answers.def: change that.
import type { SandboxEvent } from '../internal/asking.js'
import type { Limits } from './limits.js'

/** Text if the bytes are UTF-8 without NUL, and at most 64 KiB. */
export type TextOrBytes = string | Uint8Array

/** An object without members. */
export type Empty = Record<string, never>

/** The daemon, and what protects its boxes. */
export interface Hello {
  /** Its kind. */
  server: 'cloche'
  /** Its version. */
  version: string
  /** The protocol version: 1. */
  protocol: number
  /** The guards that are not enforced. */
  missing: string[]
  /** A line about them for people, sent once per user and host. */
  notice?: string
}

/** A language. */
export interface Language {
  /** Its name. */
  name: string
  /** Its other names. */
  aliases: string[] | null
  /** The extension of its files, with the dot. */
  extension: string
  /** All extensions that name it. */
  extensions: string[]
  /** The program that the image must have. */
  interpreter: unknown
  /** Its runs can be forked from a template. */
  warm: boolean
  /** It is compiled. */
  build: boolean
  /** It has a bare realm, for evaluate. */
  evaluate: boolean
}

/** The languages. */
export interface Languages {
  /** One for each runtime. */
  languages: Language[]
}

/** A wall of boxes. */
export interface Guard {
  /** A row of spec/guards.def. */
  name: string
  /** off: nobody asked for it. */
  state: 'absent' | 'degraded' | 'enforced' | 'off'
  /** The reason why it is missing; empty if it is enforced. */
  reason: string
}

/** The walls of boxes. */
export interface Guards {
  /** All rows of spec/guards.def. */
  guards: Guard[]
}

/** The failure of the guest's code. */
export interface RunError {
  /** The language's own name of its class, or the limit or signal that ended it. */
  type: string
  /** Its text. */
  message?: unknown
  /** Where it came from. */
  stack?: string | null
  /** ERR_…, of a module in the bare realm. */
  code?: string
  /** The name that the code gave it, likewise. */
  name?: string
  [name: string]: unknown
}

/** A file that a run made, changed or removed. */
export interface Change {
  /** The kind of change; a rename is a deleted and a created file. */
  type: 'created' | 'modified' | 'deleted'
  /** The path in the box. */
  path: TextOrBytes
  /** The path on the host, if it is mounted. */
  realPath?: TextOrBytes
  /** The kind of file. */
  kind?: 'file' | 'directory' | 'symlink' | 'special'
  /** Its permission bits. */
  mode?: number
  /** In bytes. */
  size?: number
  /** Time of its last modification, in milliseconds since 1970. */
  timestamp: number
  /** The target of a symbolic link. */
  target?: TextOrBytes
  /** Its content. */
  content?: TextOrBytes
  /** The content before the run. */
  oldContent?: TextOrBytes
  /** The content is too large for the result. */
  contentOmitted?: boolean
  /** Mode or time changed, and no content. */
  attributesOnly?: boolean
  /** Permitted by onPermissionDenied: virtual alone; it is never synced. */
  virtual?: boolean
  /** The kind of file that it replaces. */
  over?: unknown
  /** Its earlier path. */
  renamedFrom?: TextOrBytes
  /** Its later path. */
  renamedTo?: TextOrBytes
  /** The path of the file that it is a hard link of. */
  linkOf?: TextOrBytes
}

/** An access that the rules of a mount refused. */
export interface Denial {
  /** The path in the box. */
  path: TextOrBytes
  /** read, list, create, modify or delete. */
  operation: string
  /** The pattern of the rule; absent: the default. */
  rule?: string
  /** The rules that permit it, for permissions.rules; absent if a rule refused it. */
  allow?: unknown[]
  /** How often. */
  count?: number
  /** Time of the first one, in milliseconds since 1970. */
  timestamp?: number
  /** Time of the last one, likewise. */
  last?: number
}

/** A path that was read back. */
export interface Collected {
  /** As requested. */
  path: TextOrBytes
  /** The kind of file. */
  kind?: 'file' | 'directory' | 'symlink' | 'special'
  /** Its permission bits. */
  mode?: number
  /** In bytes. */
  size?: number
  /** The content of a file. */
  content?: TextOrBytes
  /** The content is too large for the result. */
  contentOmitted?: boolean
  /** The target of a symbolic link. */
  target?: TextOrBytes
  /** The files of a directory. */
  entries?: Collected[]
  /** The reason why nothing was read. */
  error?: unknown
}

/** The files of a run. */
export interface Files {
  /** New files. */
  created: Change[]
  /** Changed files. */
  modified: Change[]
  /** Removed files. */
  deleted: Change[]
  /** Refused accesses; absent if the request omits them. */
  denied?: Denial[]
  /** One for each path of collect. */
  collected?: Collected[]
}

/** The resources that a run used. */
export interface Usage {
  /** Time from start to result. */
  wallMs: number
  /** Processor time of all processes together. */
  cpuMs: number
  /** The most memory at one time; 0: not known, because the box has served runs before (control groups of version 2). */
  memoryPeakBytes: number
  /** The most processes and threads at one time; 0: not known, because the box has served runs before. */
  pidsPeak: number
  /** Bytes of files in the box. */
  diskBytes: number
  /** Files and directories in the box. */
  diskInodes: number
  /** All that was printed, also beyond the limit. */
  stdoutBytes: number
  /** Likewise. */
  stderrBytes: number
  /** Processor time of an evaluated module's code alone. */
  evaluationCpuMs?: number
  /** The heap of an evaluated module when it had ended. */
  heapUsedBytes?: number
}

/** A connection that was refused. */
export interface RefusedConnection {
  /** The protocol that was decided on. */
  kind: 'dns' | 'tcp' | 'tls' | 'http'
  /** The name. */
  host?: string
  /** The address. */
  address?: string
  /** The port; absent if the network itself ended. */
  port?: number
  /** The reason. */
  why?: string
  /** The rule that decided. */
  rule?: string
  /** How often. */
  count?: number
}

/** A connection of a sandbox that was refused. Commands that run at the same time share them. */
export interface SandboxDenial {
  /** The protocol that was decided on. */
  kind: 'dns' | 'tcp' | 'tls' | 'http'
  /** The name. */
  host?: string
  /** The address. */
  address?: string
  /** The port; absent if the network itself ended. */
  port?: number
  /** The reason. */
  why?: string
  /** The rule that decided. */
  rule?: string
  /** How often. */
  count?: number
  /** The rules that permit it, for addNetwork.allow of sandbox.update; absent if no further rule would. */
  allow?: string[]
  /** The act that adds them: a command, or for a client with a daemon of its own or a token sandbox.update and its parameters; absent if none reaches the sandbox. */
  remedy?: string
}

/** The refused connections of a run. */
export interface RunNetwork {
  /** Each once, at most 100. */
  denied: RefusedConnection[]
  /** The number of the others. */
  lost: number
}

/** Facts about a run. */
export interface Meta {
  /** In milliseconds. */
  duration: number
  /** Where the function's parameters are from; null: it has none. */
  signatureSource: 'schema' | 'inferred' | 'convention' | null
  /** The resources it used. */
  usage: Usage
  /** The names of limits it reached. */
  limitsHit: string[]
  /** The limits in force. */
  limits: Limits
  /** Warnings for people. */
  warnings: string[]
  /** Output is missing, as the box ended too early. */
  outputLost?: boolean
  /** If the run had a network. */
  network?: RunNetwork
}

/** A change that was not written. */
export interface SyncFailure {
  /** The path in the box. */
  path: TextOrBytes
  /** The error: {code, message}. */
  error: unknown
}

/** A change that was left out. */
export interface SyncSkip {
  /** The path in the box. */
  path: TextOrBytes
  /** The reason. */
  reason?: string
  /** The reason in a sentence. */
  message?: string
}

/** A state of a file of the host. */
export interface FileIdentity {
  /** Its last modification, in milliseconds since 1970. */
  mtimeMs: number
  /** In bytes. */
  size: number
  /** Its number, as text: it exceeds the numbers of some clients. */
  inode: string
  /** The kind of file. */
  kind?: string
}

/** A file of the host that differs from the file the run saw. */
export interface SyncConflict {
  /** The path in the box. */
  path: TextOrBytes
  /** Its state at the run; null: there was none. */
  expected?: FileIdentity | null
  /** Its state now; null: there is none. */
  found?: FileIdentity | null
}

/** A file of the host that was kept under another name. */
export interface SyncKept {
  /** The path in the box. */
  path: TextOrBytes
  /** Its new name. */
  as: TextOrBytes
}

/** The change at which beforeSync aborted the sync. */
export interface SyncAbort {
  /** The path in the box. */
  path?: TextOrBytes
  /** The reason. */
  reason: string
}

/** A step that a sync would take. */
export interface SyncStep {
  /** The path in the box. */
  path: TextOrBytes
  /** The kind of change. */
  type: string
  /** The step. */
  action: string
  [name: string]: unknown
}

/** The outcome of writing changes to the host. A dry run has steps and denied in place of synced, failed and kept. */
export interface Sync {
  /** The paths that were written. */
  synced?: TextOrBytes[]
  /** The paths that were not. */
  failed?: SyncFailure[]
  /** The paths that were left out. */
  skipped: SyncSkip[]
  /** Files of the host that differ from those the run saw. */
  conflicts?: SyncConflict[]
  /** Files of the host that were kept under another name. */
  kept?: SyncKept[]
  /** beforeSync aborted it: nothing was written. */
  aborted?: SyncAbort
  /** The steps of a dry run. */
  steps?: SyncStep[]
  /** The changes that the rules refuse, of a dry run. */
  denied?: Denial[]
  /** Earlier syncs that were completed or undone first. */
  recovered?: unknown[]
  /** The mounts of a sandbox whose server had ended: their changes are gone. */
  lost?: string[]
  /** The reason why directories were left out: {name, message}. */
  error?: unknown
}

/** The lines that a module wrote with console. */
export interface Console {
  /** One for each call. */
  stdout: string[]
  /** Likewise. */
  stderr: string[]
}

/** The result of a run: the function executor contract. A failure of the guest's code is a result. */
export interface Result {
  /** How it ended: a row of spec/statuses.def. */
  status: 'success' | 'error' | 'crash' | 'timeout' | 'terminated'
  /** The status is success. */
  success: boolean
  /** The returned value; null: none. The exports of a module. */
  result: unknown
  /** The failure of the code; null: none. */
  error: RunError | null
  /** Standard output; bytes that are not UTF-8 are replaced. */
  stdout: string
  /** Standard error, likewise. */
  stderr: string
  /** The exact bytes, if they are not UTF-8. */
  stdoutBase64?: string
  /** Likewise. */
  stderrBase64?: string
  /** The console of a module. */
  console?: Console
  /** The outcome of a module's work after its exports. */
  late?: unknown
  /** The script's own, or that of the status. */
  exitCode: number
  /** The files it changed. */
  files: Files
  /** The outcome of writing its changes to the host, if it had a mount with sync.mode batch. */
  sync?: Sync
  /** The id of its changes, which were not written to the host. */
  changeset?: string
  /** Facts about the run. */
  meta: Meta
}

/** The answer to a message. */
export interface McpAnswer {
  /** JSON text; absent: the message needs no answer, or was cancelled. */
  message?: string
}

/** The answer to a request about another request. */
export interface Found {
  /** It was under way. */
  found: boolean
}

/** A prefix. */
export interface PrefixId {
  /** Its id. */
  prefix: string
}

/** A prefix in a list. */
export interface Prefix {
  /** Its id. */
  prefix: string
  /** The name of its language. */
  language: string
  /** Its name. */
  name?: string
  /** Runs that were forked from it. */
  runs: number
}

/** The caller's prefixes. */
export interface Prefixes {
  /** One for each. */
  prefixes: Prefix[]
}

/** Counts of runs. */
export interface RunCounts {
  /** Under way. */
  now: number
  /** Waiting for their turn. */
  waiting: number
  /** Since the daemon's start. */
  total: number
  /** Refused. */
  refused: number
  /** By how they ended. */
  byStatus: Record<string, number>
}

/** Counts of sandboxes. */
export interface SandboxCounts {
  /** Running and saved ones. */
  known: number
  /** Running ones. */
  running: number
  /** Their sessions. */
  sessions: number
  /** Their processes. */
  processes: number
  /** Requests to them that are under way. */
  asks: number
}

/** How the daemon confined itself. */
export interface Confinement {
  /** The Landlock ABI; 0: the kernel has none. */
  landlock: number
  /** It has a filter of system calls. */
  seccomp: boolean
}

/** Counts of past and present work. */
export interface Stats {
  /** The daemon's version. */
  version: string
  /** Time since its start. */
  uptimeSeconds: number
  /** Open connections. */
  connections: number
  /** All connections. */
  connectionsTotal: number
  /** Runs. */
  runs: RunCounts
  /** Sandboxes. */
  sandboxes: SandboxCounts
  /** Prefixes. */
  prefixes: number
  /** Requests. */
  requests: number
  /** Calls of host functions. */
  bridgeCalls: number
  /** Bytes from clients. */
  bytesRead: number
  /** Bytes to clients. */
  bytesWritten: number
  /** Memory of the daemon itself. */
  memoryBytes: number
  /** Restarts of its worker after a crash. */
  restarts: number
  /** How it confined itself. */
  confinement: Confinement
}

/** The state of the daemon. */
export interface Health {
  /** ok: it accepts work. */
  status: string
}

/** A document of OpenAPI 3.1. */
export interface OpenApi {
  [name: string]: unknown
}

/** A file that was written. */
export interface Written {
  /** Its path. */
  path: string
  /** Bytes that were written. */
  bytes: number
}

/** A tree that was unpacked. */
export interface Unpacked {
  /** Its directory. */
  path: string
  /** Number of files. */
  files: number
  /** Their size together. */
  bytes: number
}

/** Where connections may go. A rule is HOST, HOST:PORT or HOST:FIRST-LAST; HOST a name, *.name, *, an IPv4 address or CIDR. */
export interface NetworkPolicy {
  /** Rules; empty: nothing. */
  allow?: string[]
  /** Rules that win over allow. */
  deny?: string[]
  /** Names are resolved. */
  dns?: boolean
  /** Headers that are set in requests to hosts: {HOST: {NAME: null}}, without their values. */
  headers?: unknown
}

/** The resources that a running sandbox uses. */
export interface SandboxUsage {
  /** Processor time. */
  cpuMs: number
  /** The most memory at one time. */
  memoryPeakBytes: number
  /** The most processes and threads at one time. */
  pidsPeak: number
}

/** A time whose changes were lost. */
export interface LostTimes {
  /** The last save. */
  from: string
  /** The crash. */
  to: string
}

/** A directory or file of the host in a sandbox. */
export interface SandboxMount {
  /** Its place in the sandbox. */
  path: string
  /** The host's directory or file. */
  source: string
  /** lost: its server ended, perhaps killed for want of memory; programs get ENOTCONN, and the next start mounts it anew. */
  state: 'mounted' | 'stopped' | 'lost'
}

/** A volume in a sandbox. */
export interface SandboxVolume {
  /** Its name. */
  name: string
  /** Its place in the sandbox. */
  path: string
  /** The sandbox cannot write to it. */
  readOnly?: boolean
}

/** A sandbox. */
export interface Sandbox {
  /** Its name. */
  sandbox: string
  /** The processes of a paused one are frozen, or it has none: see pauseKind. A stopped one is saved and has none. The next use lets both run. */
  state: 'running' | 'paused' | 'stopped'
  /** The kind of a pause. memory: its processes go on. files: it has its files as of savedAt, and no processes: it was paused so, or its daemon or keeper ended. */
  pauseKind?: 'memory' | 'files'
  /** Since when it is paused. */
  pausedAt?: string
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** When it was last saved. */
  savedAt?: string
  /** Its limits. */
  limits: Limits
  /** The image of the store that it was made with. */
  image?: string
  /** The name by which it was found then; it may be another image's now. */
  imageName?: string
  /** The packages that it began with: {pip, npm, gem}, or {apt}. */
  packages?: unknown
  /** true: the directories of its image can be changed. */
  writableRoot?: boolean
  /** true: its programs are root of users of its own. */
  root?: boolean
  /** Directories and files of the host in it. */
  mounts?: SandboxMount[]
  /** Volumes in it. */
  volumes?: SandboxVolume[]
  /** The environment of all its programs. */
  env: Record<string, string>
  /** The rules for its connections; without allow: no network. */
  network: NetworkPolicy
  /** It is stopped or paused after this time without use; 0: never. */
  idleMs: number
  /** Its fate after that time. */
  idleAction: 'stop' | 'pause'
  /** The end of its lifetime. */
  endsAt?: string
  /** Its fate at that end. */
  endAction: 'stop' | 'pause' | 'delete'
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** Number of sessions. */
  sessions: number
  /** Number of running processes. */
  processes: number
  /** Number of contexts. */
  contexts: number
  /** Its host name, which no other has. */
  hostName: string
  /** Another at each start, and of each fork; its programs find it in /proc/sys/kernel/random/boot_id. Absent: it is stopped. */
  bootId?: string
  /** The resources a running one uses. */
  usage?: SandboxUsage
  /** In a list that asks for it: the newest sample; absent: it has not run since the daemon was started. */
  sample?: SandboxSample
  /** The reason why the last save failed. */
  saveError?: string
  /** The reason why the start or ready command of its image failed at its last start. */
  startupError?: string
  /** Changes between these times are lost, after a crash. */
  lost?: LostTimes
}

/** A stopped sandbox. */
export interface SandboxStopped {
  /** Its name. */
  sandbox: string
  /** The processes of a paused one are frozen, or it has none: see pauseKind. A stopped one is saved and has none. The next use lets both run. */
  state: 'running' | 'paused' | 'stopped'
  /** The kind of a pause. memory: its processes go on. files: it has its files as of savedAt, and no processes: it was paused so, or its daemon or keeper ended. */
  pauseKind?: 'memory' | 'files'
  /** Since when it is paused. */
  pausedAt?: string
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** When it was last saved. */
  savedAt?: string
  /** Its limits. */
  limits: Limits
  /** The image of the store that it was made with. */
  image?: string
  /** The name by which it was found then; it may be another image's now. */
  imageName?: string
  /** The packages that it began with: {pip, npm, gem}, or {apt}. */
  packages?: unknown
  /** true: the directories of its image can be changed. */
  writableRoot?: boolean
  /** true: its programs are root of users of its own. */
  root?: boolean
  /** Directories and files of the host in it. */
  mounts?: SandboxMount[]
  /** Volumes in it. */
  volumes?: SandboxVolume[]
  /** The environment of all its programs. */
  env: Record<string, string>
  /** The rules for its connections; without allow: no network. */
  network: NetworkPolicy
  /** It is stopped or paused after this time without use; 0: never. */
  idleMs: number
  /** Its fate after that time. */
  idleAction: 'stop' | 'pause'
  /** The end of its lifetime. */
  endsAt?: string
  /** Its fate at that end. */
  endAction: 'stop' | 'pause' | 'delete'
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** Number of sessions. */
  sessions: number
  /** Number of running processes. */
  processes: number
  /** Number of contexts. */
  contexts: number
  /** Its host name, which no other has. */
  hostName: string
  /** Another at each start, and of each fork; its programs find it in /proc/sys/kernel/random/boot_id. Absent: it is stopped. */
  bootId?: string
  /** The resources a running one uses. */
  usage?: SandboxUsage
  /** In a list that asks for it: the newest sample; absent: it has not run since the daemon was started. */
  sample?: SandboxSample
  /** The reason why the last save failed. */
  saveError?: string
  /** The reason why the start or ready command of its image failed at its last start. */
  startupError?: string
  /** Changes between these times are lost, after a crash. */
  lost?: LostTimes
  /** The outcome of writing the changes in its mounts to the host. */
  sync?: Sync
}

/** A sandbox that runs again. */
export interface SandboxResumed {
  /** Its name. */
  sandbox: string
  /** The processes of a paused one are frozen, or it has none: see pauseKind. A stopped one is saved and has none. The next use lets both run. */
  state: 'running' | 'paused' | 'stopped'
  /** The kind of a pause. memory: its processes go on. files: it has its files as of savedAt, and no processes: it was paused so, or its daemon or keeper ended. */
  pauseKind?: 'memory' | 'files'
  /** Since when it is paused. */
  pausedAt?: string
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** When it was last saved. */
  savedAt?: string
  /** Its limits. */
  limits: Limits
  /** The image of the store that it was made with. */
  image?: string
  /** The name by which it was found then; it may be another image's now. */
  imageName?: string
  /** The packages that it began with: {pip, npm, gem}, or {apt}. */
  packages?: unknown
  /** true: the directories of its image can be changed. */
  writableRoot?: boolean
  /** true: its programs are root of users of its own. */
  root?: boolean
  /** Directories and files of the host in it. */
  mounts?: SandboxMount[]
  /** Volumes in it. */
  volumes?: SandboxVolume[]
  /** The environment of all its programs. */
  env: Record<string, string>
  /** The rules for its connections; without allow: no network. */
  network: NetworkPolicy
  /** It is stopped or paused after this time without use; 0: never. */
  idleMs: number
  /** Its fate after that time. */
  idleAction: 'stop' | 'pause'
  /** The end of its lifetime. */
  endsAt?: string
  /** Its fate at that end. */
  endAction: 'stop' | 'pause' | 'delete'
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** Number of sessions. */
  sessions: number
  /** Number of running processes. */
  processes: number
  /** Number of contexts. */
  contexts: number
  /** Its host name, which no other has. */
  hostName: string
  /** Another at each start, and of each fork; its programs find it in /proc/sys/kernel/random/boot_id. Absent: it is stopped. */
  bootId?: string
  /** The resources a running one uses. */
  usage?: SandboxUsage
  /** In a list that asks for it: the newest sample; absent: it has not run since the daemon was started. */
  sample?: SandboxSample
  /** The reason why the last save failed. */
  saveError?: string
  /** The reason why the start or ready command of its image failed at its last start. */
  startupError?: string
  /** Changes between these times are lost, after a crash. */
  lost?: LostTimes
  /** memory: its processes go on. files: it was stopped or paused with its files only, and has its saved files. running: it was not paused. */
  resumed: 'running' | 'memory' | 'files'
}

/** A sandbox that was made or found. A found one keeps its options. */
export interface SandboxCreated {
  /** Its name. */
  sandbox: string
  /** The processes of a paused one are frozen, or it has none: see pauseKind. A stopped one is saved and has none. The next use lets both run. */
  state: 'running' | 'paused' | 'stopped'
  /** The kind of a pause. memory: its processes go on. files: it has its files as of savedAt, and no processes: it was paused so, or its daemon or keeper ended. */
  pauseKind?: 'memory' | 'files'
  /** Since when it is paused. */
  pausedAt?: string
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** When it was last saved. */
  savedAt?: string
  /** Its limits. */
  limits: Limits
  /** The image of the store that it was made with. */
  image?: string
  /** The name by which it was found then; it may be another image's now. */
  imageName?: string
  /** The packages that it began with: {pip, npm, gem}, or {apt}. */
  packages?: unknown
  /** true: the directories of its image can be changed. */
  writableRoot?: boolean
  /** true: its programs are root of users of its own. */
  root?: boolean
  /** Directories and files of the host in it. */
  mounts?: SandboxMount[]
  /** Volumes in it. */
  volumes?: SandboxVolume[]
  /** The environment of all its programs. */
  env: Record<string, string>
  /** The rules for its connections; without allow: no network. */
  network: NetworkPolicy
  /** It is stopped or paused after this time without use; 0: never. */
  idleMs: number
  /** Its fate after that time. */
  idleAction: 'stop' | 'pause'
  /** The end of its lifetime. */
  endsAt?: string
  /** Its fate at that end. */
  endAction: 'stop' | 'pause' | 'delete'
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** Number of sessions. */
  sessions: number
  /** Number of running processes. */
  processes: number
  /** Number of contexts. */
  contexts: number
  /** Its host name, which no other has. */
  hostName: string
  /** Another at each start, and of each fork; its programs find it in /proc/sys/kernel/random/boot_id. Absent: it is stopped. */
  bootId?: string
  /** The resources a running one uses. */
  usage?: SandboxUsage
  /** In a list that asks for it: the newest sample; absent: it has not run since the daemon was started. */
  sample?: SandboxSample
  /** The reason why the last save failed. */
  saveError?: string
  /** The reason why the start or ready command of its image failed at its last start. */
  startupError?: string
  /** Changes between these times are lost, after a crash. */
  lost?: LostTimes
  /** It is new. */
  created: boolean
}

/** The caller's sandboxes. */
export interface Sandboxes {
  /** One for each. */
  sandboxes: Sandbox[]
  /** With limit: the value of after for the next page; absent: this is the last. */
  next?: string
}

/** One line of the log of a sandbox. */
export interface SandboxLogLine {
  /** When it happened. */
  time: string
  /** failed: a start, a stop or a pause, or it ended by itself. unsaved: a save failed, told once. lost: changes after the last save. */
  event: 'created' | 'started' | 'paused' | 'resumed' | 'stopped' | 'failed' | 'unsaved' | 'lost' | 'forked' | 'snapshot' | 'changed' | 'renamed'
  /** More about it: the cause, the error, the name. */
  message?: string
  /** Lines before this one that could not be written, for want of room. */
  missed?: number
}

/** The log of a sandbox. */
export interface SandboxLog {
  /** The oldest first. */
  lines: SandboxLogLine[]
}

/** The usage of a sandbox at one time; a figure that the host does not tell is absent. */
export interface SandboxSample {
  /** When it was taken. */
  time: string
  /** Processor time since it was started. */
  cpuMs?: number
  /** Memory in use, its files included. */
  memoryBytes?: number
  /** Number of processes and threads. */
  pids?: number
  /** Bytes of its files. */
  diskBytes?: number
  /** Bytes that its connections have sent to hosts since it was started, up to a second before; not those to ports of it. */
  networkSentBytes: number
  /** Bytes that they have received, likewise. */
  networkReceivedBytes: number
}

/** The usage of a sandbox over time. */
export interface SandboxMetrics {
  /** Time between two samples while it runs; there are none of pauses and stops. */
  intervalMs: number
  /** The oldest first. */
  samples: SandboxSample[]
}

/** A part of a sandbox that its forks do not have. */
export interface Omitted {
  /** Its kind. Of a session that runs a command, the command. */
  kind: 'context' | 'checkpoint' | 'session' | 'process' | 'port' | 'mount' | 'volume'
  /** Its name, id, number or place. */
  name: string
  /** Why they do not have it. */
  reason: string
}

/** The forks of a sandbox. */
export interface SandboxForks {
  /** One for each. */
  sandboxes: Sandbox[]
  /** Each part of the sandbox that they do not have. */
  omitted: Omitted[]
}

/** A snapshot. */
export interface Snapshot {
  /** Its name. */
  snapshot: string
  /** The sandbox that it was taken of, which may be gone. */
  sandbox: string
  /** When it was taken. */
  createdAt: string
  /** Size of its files, as an archive. */
  bytes: number
  /** sha256- and 64 digits, of that archive; absent: it has no files. */
  digest?: string
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** The image of the store of its sandboxes. */
  image?: string
  /** The name by which it was found then. */
  imageName?: string
  /** The packages that the sandbox began with. */
  packages?: unknown
  /** true: the directories of their image can be changed. */
  writableRoot?: boolean
  /** true: their programs are root of users of their own. */
  root?: boolean
}

/** The caller's snapshots. */
export interface Snapshots {
  /** One for each. */
  snapshots: Snapshot[]
}

/** The usage of a volume. */
export interface VolumeUsage {
  /** Bytes that it has for files and directories. */
  bytes: number
  /** Bytes in use. */
  usedBytes: number
  /** Number of files and directories that it can hold. */
  entries: number
  /** Number of those in use; a few are the file system's own. */
  usedEntries: number
}

/** A volume. */
export interface Volume {
  /** Its name. */
  volume: string
  /** The bytes that are reserved for it. */
  sizeBytes: number
  /** When it was made. */
  createdAt: string
  /** Labels for the caller's own use. */
  labels: Record<string, string>
  /** The sandboxes that name it, running or not. */
  usedBy: string[]
  /** Its usage; in the answer of volume.get. */
  usage?: VolumeUsage
}

/** The caller's volumes. */
export interface Volumes {
  /** One for each. */
  volumes: Volume[]
}

/** A session. */
export interface SessionName {
  /** Its name. */
  session: string
}

/** A session that was made or found. */
export interface SessionCreated {
  /** Its name. */
  session: string
  /** Its directory; a missing one is made. */
  cwd: string
  /** It is new. */
  created: boolean
  /** It has its own pid namespace. */
  isolation: boolean
}

/** A session in a list. */
export interface Session {
  /** Its name. */
  session: string
  /** Its directory. */
  cwd: string
  /** It has its own pid namespace. */
  isolation: boolean
  /** A command runs in it. */
  busy: boolean
  /** When it was made. */
  createdAt: string
}

/** The sessions of a sandbox. */
export interface Sessions {
  /** One for each. */
  sessions: Session[]
}

/** The end of a command. */
export interface Command {
  /** Its exit code; 124: timeout; 128 plus the signal's number. */
  exitCode: number
  /** The signal that killed it. */
  signal?: string
  /** Its standard output, at most outputBytes. */
  stdout: TextOrBytes
  /** Its standard error, likewise. */
  stderr: TextOrBytes
  /** All that it printed, in bytes. */
  stdoutBytes: number
  /** Likewise. */
  stderrBytes: number
  /** It printed more than the answer holds. */
  truncated: boolean
  /** The id for output.read. */
  output?: string
  /** It was killed at its timeout. */
  timedOut: boolean
  /** Time from start to end. */
  durationMs: number
  /** Its session. */
  session: string
  /** The session's directory afterwards; absent if its name is not UTF-8. */
  cwd?: string
  /** The session's shell ended with it; the next command starts a new one. */
  sessionEnded: boolean
  /** Lines about a failed command, such as the sandbox's network policy. */
  warnings?: string[]
  /** The connections that the network refused meanwhile: each once, at most 100. */
  denials?: SandboxDenial[]
}

/** A page of output. */
export interface OutputPage {
  /** The bytes. */
  data: TextOrBytes
  /** The offset of the first one. */
  offset: number
  /** The offset of the next page. */
  next: number
  /** All that was printed, in bytes. */
  total: number
  /** This is the last page. */
  end: boolean
}

/** The size of a terminal. */
export interface TerminalSize {
  /** Columns. */
  cols: number
  /** Rows. */
  rows: number
}

/** A process. */
export interface Process {
  /** Its id. */
  process: string
  /** Its pid in the sandbox. */
  pid: number
  /** Its command. */
  command: string
  /** completed: exit 0; failed: another exit; killed: by a signal. */
  status: 'running' | 'completed' | 'failed' | 'killed'
  /** The session it was started from. */
  session: string
  /** When it was started. */
  startedAt: string
  /** When it ended. */
  endedAt?: string
  /** Its exit code; of a killed one 128 plus the signal's number. */
  exitCode?: number
  /** The signal that killed it. */
  signal?: string
  /** The size of its terminal, if it has one. */
  terminal?: TerminalSize
  /** It was killed at its timeout. */
  timedOut: boolean
  /** The connections that the network refused until its end: each once, at most 100. */
  denials?: SandboxDenial[]
}

/** The processes of a sandbox. */
export interface Processes {
  /** One for each. */
  processes: Process[]
}

/** A number of things. */
export interface Count {
  /** How many. */
  count: number
}

/** The output of a process; all output of a terminal is stdout. */
export interface Logs {
  /** The page of its standard output. */
  stdout: TextOrBytes
  /** The page of its standard error. */
  stderr: TextOrBytes
  /** The offset of the next page. */
  stdoutNext: number
  /** Likewise. */
  stderrNext: number
  /** All that it printed, in bytes. */
  stdoutTotal: number
  /** Likewise. */
  stderrTotal: number
  /** Bytes that were not kept. */
  stdoutDropped: number
  /** Likewise. */
  stderrDropped: number
}

/** The thing that was waited for. */
export interface ProcessWait {
  /** The process. */
  process: Process
  /** The line it printed. */
  line?: TextOrBytes
  /** The match of the pattern and of its groups; null: a group without a match. */
  match?: unknown[]
  /** The stream of the line. */
  stream?: 'stdout' | 'stderr'
  /** The status of the HTTP answer. */
  status?: number
}

/** A file, or a piece of it. A file over 32 MiB needs a limit (too_large). */
export interface FilePiece {
  /** Its path. */
  path: string
  /** The bytes. */
  content: TextOrBytes
  /** The offset of the first one. */
  offset: number
  /** Their number. */
  bytes: number
  /** The size of the whole file. */
  total: number
  /** The type that its name and content suggest. */
  mimeType: string
}

/** A file. */
export interface Entry {
  /** Its name; bytes if it is not UTF-8. */
  name: TextOrBytes
  /** Its path. */
  path: TextOrBytes
  /** Its path relative to the listed directory. */
  relativePath: TextOrBytes
  /** The kind of file. */
  type: 'file' | 'directory' | 'symlink' | 'other'
  /** In bytes. */
  size: number
  /** Permission bits, as a number. */
  mode: number
  /** Its last modification. */
  modifiedAt: string
  /** The target of a symbolic link. */
  target?: TextOrBytes
}

/** The existence of a file. */
export interface Existence {
  /** Its path. */
  path: string
  /** It exists. */
  exists: boolean
  /** The kind of an existing one. */
  type?: 'file' | 'directory' | 'symlink' | 'other'
}

/** A page of a directory, sorted by path. */
export interface Listing {
  /** The directory. */
  path: string
  /** Its files. */
  entries: Entry[]
  /** The value of after for the next page; absent: this is the last. */
  next?: string
}

/** A directory. */
export interface MadeDirectory {
  /** Its path. */
  path: string
  /** It is new. */
  created: boolean
}

/** A file at its new path. */
export interface Moved {
  /** Its earlier path, or the copy's source. */
  from: string
  /** Its new path. */
  to: string
}

/** Files that were removed. */
export interface Removed {
  /** The path. */
  path: string
  /** The number of files and directories. */
  count: number
}

/** A line that matches. */
export interface Match {
  /** The file. */
  path: TextOrBytes
  /** The number of the line, from 1. */
  line: number
  /** The position in it, from 1. */
  column: number
  /** The line. */
  text: TextOrBytes
}

/** The lines that match; files that contain NUL are skipped. */
export interface Search {
  /** At most limit. */
  matches: Match[]
  /** The number of files that were searched. */
  files: number
  /** There are more. */
  truncated: boolean
}

/** A file with replacements. */
export interface ReplacedFile {
  /** Its path. */
  path: TextOrBytes
  /** Replacements in it. */
  count: number
}

/** The replacements of a text. */
export interface Replacements {
  /** The changed files. */
  files: ReplacedFile[]
  /** Replacements in all of them. */
  count: number
}

/** The end of a watch. */
export interface WatchEnd {
  /** The watched path, which is gone. */
  path: string
}

/** An archive that was packed or unpacked. */
export interface Archive {
  /** The source. */
  path: string
  /** The target. */
  to: string
  /** Number of members. */
  files: number
  /** Their size together. */
  bytes: number
}

/** A repository that was cloned. */
export interface Checkout {
  /** Its URL, without credentials. */
  url: string
  /** Its directory. */
  dir?: string
  /** The commit; absent: the repository is empty. */
  commit?: string
  /** The branch; absent: a tag was checked out. */
  branch?: string
  /** Always empty. */
  stdout: string
  /** The output of git, without credentials. */
  stderr?: string
}

/** A port that was exposed. */
export interface Port {
  /** Its number. */
  port: number
  /** Its token. */
  token: string
  /** When it was exposed. */
  exposedAt: string
  /** A name for the caller's own use. */
  name?: string
  /** Its URL, if the daemon has a preview host. */
  url?: string
}

/** An exposed port in a list. */
export interface ExposedPort {
  /** Its number. */
  port: number
  /** Its token. */
  token: string
  /** When it was exposed. */
  exposedAt: string
  /** A name for the caller's own use. */
  name?: string
  /** Its URL, if the daemon has a preview host. */
  url?: string
  /** A program listens at it. */
  open: boolean
}

/** A port that a program listens at. */
export interface OpenPort {
  /** Its number. */
  port: number
  /** 127.0.0.1 or 0.0.0.0. */
  address: string
}

/** The ports of a sandbox. */
export interface Ports {
  /** Exposed ones. */
  exposed: ExposedPort[]
  /** Ports at which a program listens. */
  open: OpenPort[]
}

/** A port that is not exposed. */
export interface Unexposed {
  /** Its number. */
  port: number
  /** It was exposed. */
  exposed: boolean
}

/** A port that accepts connections. */
export interface PortWait {
  /** Its number. */
  port: number
  /** The status of the HTTP answer. */
  status?: number
}

/** A context. */
export interface Context {
  /** Its name. */
  context: string
  /** The name of its language. */
  language: string
  /** Its first directory. */
  cwd: string
  /** Variables added to the sandbox's. */
  env: Record<string, string>
  /** The state of its interpreter. */
  state: 'idle' | 'busy' | 'starting' | 'ended'
  /** Cells that ran. */
  executionCount: number
  /** It can be forked. */
  forkable: boolean
  /** Timeout of cells that set none; 0: none. */
  timeoutMs: number
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** Number of checkpoints. */
  checkpoints: number
  /** The pid of its interpreter. */
  pid?: number
  /** Name and version of a started interpreter: IPython 8.5.0 on Python 3.11.2 if the image has IPython, else Python 3.11.2, without IPython's syntax in cells (runtimes/python/README.md, Contexts). */
  interpreter?: string
  /** forked: its interpreter is a copy of a prepared one; cold: it was started from the sandbox's own files, in the sandbox's network, and cannot be forked. */
  start: 'forked' | 'cold'
  /** The reason why it was started cold. */
  coldWhy?: string
  /** The prefix it was made from. */
  prefix?: string
  /** The context it was forked from. */
  forkedFrom?: string
  /** In a sandbox with mounts: its code sees them, which that of a fork does not. */
  mounts?: boolean
  /** The reason why its interpreter ended. */
  endedWhy?: string
}

/** A context that was made or found. */
export interface ContextCreated {
  /** Its name. */
  context: string
  /** The name of its language. */
  language: string
  /** Its first directory. */
  cwd: string
  /** Variables added to the sandbox's. */
  env: Record<string, string>
  /** The state of its interpreter. */
  state: 'idle' | 'busy' | 'starting' | 'ended'
  /** Cells that ran. */
  executionCount: number
  /** It can be forked. */
  forkable: boolean
  /** Timeout of cells that set none; 0: none. */
  timeoutMs: number
  /** When it was made. */
  createdAt: string
  /** When it was last used. */
  lastUsedAt: string
  /** Number of checkpoints. */
  checkpoints: number
  /** The pid of its interpreter. */
  pid?: number
  /** Name and version of a started interpreter: IPython 8.5.0 on Python 3.11.2 if the image has IPython, else Python 3.11.2, without IPython's syntax in cells (runtimes/python/README.md, Contexts). */
  interpreter?: string
  /** forked: its interpreter is a copy of a prepared one; cold: it was started from the sandbox's own files, in the sandbox's network, and cannot be forked. */
  start: 'forked' | 'cold'
  /** The reason why it was started cold. */
  coldWhy?: string
  /** The prefix it was made from. */
  prefix?: string
  /** The context it was forked from. */
  forkedFrom?: string
  /** In a sandbox with mounts: its code sees them, which that of a fork does not. */
  mounts?: boolean
  /** The reason why its interpreter ended. */
  endedWhy?: string
  /** It is new. */
  created: boolean
}

/** Contexts of a sandbox. */
export interface Contexts {
  /** One for each. */
  contexts: Context[]
}

/** A context that is gone. */
export interface ContextName {
  /** Its name. */
  context: string
}

/** A context after an interrupt. */
export interface Interrupted {
  /** Its name. */
  context: string
  /** A cell was running. */
  interrupted: boolean
}

/** The failure of a cell's code. */
export interface CellError {
  /** The name of its class; Timeout; ContextEnded: the interpreter died. */
  name: string
  /** Its text. */
  message: string
  /** Lines. */
  traceback: string[]
}

/** One object in all its forms. */
export interface Display {
  /** By MIME type: text, JSON or bytes. application/vnd.cloche.chart+json is a chart as data (runtimes/python/README.md, Charts). */
  data: Record<string, unknown>
  /** stored {mime, path, bytes}: this form is too large, and is in that file of the sandbox; by MIME type {error}: the reason why a form is missing. */
  metadata: Record<string, unknown>
  /** It is the value of the cell's last expression. */
  isResult: boolean
  /** Its id. */
  displayId?: string
  /** It replaces the display with that id. */
  isUpdate?: boolean
}

/** The end of a cell. */
export interface Cell {
  /** Its context. */
  context: string
  /** Its number. */
  executionCount: number
  /** ok: its code ended; error: it failed. */
  status: 'ok' | 'error'
  /** The failure. */
  error?: CellError
  /** Its standard output, at most outputBytes. */
  stdout: TextOrBytes
  /** Its standard error, likewise. */
  stderr: TextOrBytes
  /** All that it printed, in bytes. */
  stdoutBytes: number
  /** Likewise. */
  stderrBytes: number
  /** It printed more than the answer holds. */
  truncated: boolean
  /** The id for output.read. */
  output?: string
  /** Its displays in order; empty if they were sent as events. */
  displays: Display[]
  /** Displays beyond 32 MiB, which are left out. */
  displaysDropped: number
  /** It was interrupted at its timeout. */
  timedOut: boolean
  /** It was interrupted. */
  interrupted: boolean
  /** The connections that the network refused meanwhile: each once, at most 100. */
  denials?: SandboxDenial[]
  /** The interpreter ended with it. */
  ended: boolean
  /** Time from start to end. */
  durationMs: number
}

/** Texts that complete a piece of code. */
export interface Completions {
  /** Each replaces the code between from and to. */
  matches: string[]
  /** In code points. */
  from: number
  /** In code points. */
  to: number
}

/** A variable. */
export interface Variable {
  /** Its name. */
  name: string
  /** Its type. */
  type: string
  /** Its value in short. */
  summary: string
}

/** The variables of a context. */
export interface Variables {
  /** One for each. */
  variables: Variable[]
}

/** The description of a name in a piece of code. */
export interface Inspection {
  /** There is such a name. */
  found: boolean
  /** By MIME type: text/plain, perhaps text/html; at most 128 KiB each. Empty if it was not found. */
  data: Record<string, string>
}

/** The answer whether a piece of code is a whole cell. */
export interface Completeness {
  /** incomplete: more lines can make it a cell; invalid: none can; unknown: the language's parser does not tell. */
  status: 'complete' | 'incomplete' | 'invalid' | 'unknown'
  /** Blanks that the next line begins with, if it is incomplete. */
  indent: string
}

/** A cell that began. */
export interface HistoryEntry {
  /** Its number; a restart begins anew. */
  count: number
  /** Its code. */
  code: string
}

/** The last cells of a context. */
export interface History {
  /** Newest last. */
  entries: HistoryEntry[]
}

/** A checkpoint. */
export interface Checkpoint {
  /** Its name. */
  checkpoint: string
  /** When it was made. */
  createdAt: string
  /** Cells that had run. */
  executionCount: number
  /** The workspace was kept. */
  files: boolean
}

/** The checkpoints of a context. */
export interface Checkpoints {
  /** Oldest first. */
  checkpoints: Checkpoint[]
}

/** A checkpoint that is gone. */
export interface CheckpointName {
  /** Its name. */
  checkpoint: string
}

/** A decision about a connection. */
export interface Decision {
  /** The protocol that was decided on. */
  kind: 'dns' | 'tcp' | 'tls' | 'http'
  /** The name. */
  host?: string
  /** The address. */
  address?: string
  /** The port; absent if the network itself ended. */
  port?: number
  /** The reason. */
  why?: string
  /** The rule that decided. */
  rule?: string
  /** How often. */
  count?: number
  /** Its number, from 1. */
  number: number
  /** When it was made. */
  time: string
  /** The decision. */
  verdict: 'allowed' | 'denied'
}

/** The last decisions about connections. */
export interface Decisions {
  /** Oldest first; of equal ones the eleventh of a second and later ones are one with a count. */
  decisions: Decision[]
  /** The value of after for later ones. */
  next: number
}

/** A piece of output. */
export interface Output {
  /** Where it was printed. */
  stream: 'stdout' | 'stderr'
  /** The piece. */
  data: Uint8Array
}

/** A piece of a process's output. */
export interface ProcessOutput {
  /** Where it was printed. */
  stream: 'stdout' | 'stderr' | 'terminal'
  /** The piece. */
  data: Uint8Array
}

/** A file that was written to the host, or not. */
export interface SyncedFile {
  /** The path in the box. */
  path: TextOrBytes
  /** It was written. */
  success: boolean
  /** The error: {code, message}. */
  error?: unknown
}

/** A change that failed. */
export interface SyncError {
  /** The change. */
  change?: Change
  /** The error: {code, message}. */
  error?: unknown
}

/** A change of a watched file. */
export interface FileChange {
  /** The kind of change. */
  type: 'create' | 'modify' | 'delete' | 'move' | 'attrib'
  /** Its path. */
  path: TextOrBytes
  /** Its earlier path. */
  from?: TextOrBytes
  /** It is a directory. */
  isDirectory: boolean
  /** When it changed. */
  timestamp: string
}

/** A cell begins; earlier ones have ended. */
export interface CellBegin {
  /** Its name. */
  context: string
  /** Its number. */
  executionCount: number
}

/** Displays of a cell are removed. */
export interface Clear {
  /** Only when the next display comes. */
  wait: boolean
}

/** A cell waits for context.input. */
export interface InputRequest {
  /** Its name. */
  context: string
  /** The number of the request. */
  input: number
  /** The text before the input. */
  prompt: string
  /** The input must not be shown. */
  password: boolean
}

/** The state of a sandbox. */
export interface State {
  /** Its new state. */
  state: 'running' | 'paused' | 'stopped'
  /** The kind of a pause, as in Sandbox. */
  pauseKind?: 'memory' | 'files'
}

/** A new name. */
export interface Renamed {
  /** The name before. */
  from: string
  /** The new name. */
  sandbox: string
}

/** Forks of a sandbox. */
export interface Forked {
  /** Their names. */
  sandboxes: string[]
}

/** A snapshot of a sandbox. */
export interface SnapshotTaken {
  /** Its name. */
  snapshot: string
}

/** An image of the store. */
export interface Image {
  /** Its digest: sha256: and 64 digits. */
  id: string
  /** Its names, each NAME:TAG. */
  names: string[]
  /** The digest of its files, by which boxes use it. */
  tree: string
  /** As the image states it: env, workingDir, user, entrypoint, cmd, labels, exposedPorts, volumes, healthcheck, stopSignal, shell, onBuild. */
  config: unknown
  /** The processor, as in images: amd64, arm64, … */
  architecture: string | null
  /** linux, if it is stated. */
  os: string | null
  /** When it was built, as it states it. */
  created: string | null
  /** Its last build step. */
  createdBy: string | null
  /** Number of layers that it was imported from. */
  layers: number
  /** Number of files, directories and links. */
  entries: number
  /** Bytes of its files. */
  size: number
  /** The kind of archive, and its digest if there is one. */
  source: unknown
  /** Its variables that apply in boxes, by name. */
  env: unknown
  /** Where code begins; absent: in /workspace. */
  workingDirectory?: string
  /** The user that it states: stated, uid, gid, name, home. */
  user?: unknown
  /** As whom code runs: uid, gid, name, home; absent: as the box's own user, cloche (1000:1000). */
  runsAs?: unknown
  /** Commands of each of its sandboxes: start, and ready, which must succeed within readyMs. */
  startup?: unknown
  /** Parts of its configuration that do not apply, and why. */
  notes: string[]
  /** When it was imported. */
  importedAt: string
  /** When a box was last made of its files, or they were imported; runs that are forked from a warm interpreter make none. */
  lastUsedAt: string | null
  /** Numbers of things that were left out: devices, pipes, setid, capabilities, attributes; of a commit to the store of an ordinary user also owners: files of other users, which belong to root there. */
  dropped: unknown
}

/** Images. */
export interface Images {
  /** All of the store, in no order. */
  images: Image[]
}

/** Packages that were installed once. */
export interface Layer {
  /** Their id. */
  layer: string
  /** The lists by kind, as sandbox.create has them. */
  packages: unknown
  /** The image for which they are; absent: the daemon's own. */
  image?: string
  /** Size of the archive. */
  bytes: number
  /** When they were installed. */
  createdAt: string
  /** From then on they are installed anew. */
  expiresAt: string
}

/** Kept packages. */
export interface Layers {
  /** All of the caller, the oldest first. */
  layers: Layer[]
}

/** An archive that is on its way. */
export interface ImageUpload {
  /** Its name, for the next piece. It ends with its connection, and after two minutes without a piece. */
  upload: string
  /** Size of all pieces so far. */
  bytes: number
}

/** An imported image. */
export interface ImageImported {
  /** Its name, NAME:TAG; empty: it has none. */
  name: string
  /** Its digest. */
  id: string
  /** The digest of its files. */
  tree: string
  /** Bytes of its files. */
  size: number
  /** Number of files, directories and links. */
  entries: number
  /** Numbers of things that were left out. */
  dropped: unknown
  /** Parts of its configuration that do not apply, and why. */
  notes: string[]
  /** The store did not have it. */
  isNew: boolean
}

/** A removed name. */
export interface ImageDeleted {
  /** The name; empty for a digest. */
  name: string
  /** The image. */
  id: string
  /** It was the last name. */
  imageRemoved: boolean
  /** No other image had these files. */
  treeRemoved: boolean
}

/** An entry that differs from the import. */
export interface ImageChange {
  /** Its path. */
  path: string
  /** The kind of difference. */
  change: string
  /** As it was imported. */
  was?: string
  /** As it is. */
  is?: string
}

/** The comparison of an image with its digest. */
export interface ImageVerified {
  /** Nothing differs. */
  isWhole: boolean
  /** The digest that it must have. */
  tree: string
  /** The digest that it has. */
  found: string
  /** Number of entries that differ. */
  changeCount: number
  /** The first of them. */
  changes: ImageChange[]
}

/** Interpreters in an image that are ready. */
export interface ImageWarmed {
  /** One for each language of the request. */
  interpreters: WarmInterpreter[]
  /** Each ends after this time without use. */
  idleMs: number
}

/** An interpreter from which runs are forked. */
export interface WarmInterpreter {
  /** Its language. */
  language: string
  /** It was not ready before this request. */
  isNew: boolean
  /** The memory that it took to start. */
  memoryBytes: number
}

/** Numbers of what was removed. */
export interface ImagesPruned {
  /** Images without a name. */
  images: number
  /** Trees without an image. */
  trees: number
  /** Unfinished imports. */
  leftovers: number
  /** Trees that stay because something uses them. */
  inUse: number
  /** Bytes of the trees that stay. */
  keptBytes: number
}

/** The answers of sandboxes' operations. */
export interface Answers {
  'sandbox.create': SandboxCreated
  'sandbox.list': Sandboxes
  'sandbox.get': Sandbox
  'sandbox.update': Sandbox
  'sandbox.stop': SandboxStopped
  'sandbox.save': Sandbox
  'sandbox.commit': ImageImported
  'sandbox.pause': Sandbox
  'sandbox.resume': SandboxResumed
  'sandbox.fork': SandboxForks
  'sandbox.snapshot': Snapshot
  'sandbox.delete': Empty
  'sandbox.metrics': SandboxMetrics
  'sandbox.logs': SandboxLog
  'sandbox.rename': Sandbox
  'sandbox.events': Empty
  'snapshot.list': Snapshots
  'snapshot.get': Snapshot
  'snapshot.copy': Snapshot
  'snapshot.delete': Empty
  'volume.create': Volume
  'volume.list': Volumes
  'volume.get': Volume
  'volume.delete': Empty
  'session.create': SessionCreated
  'session.list': Sessions
  'session.delete': SessionName
  'session.env': SessionName
  'exec': Command
  'output.read': OutputPage
  'process.start': Process
  'process.list': Processes
  'process.get': Process
  'process.kill': Process
  'process.killAll': Count
  'process.cleanup': Count
  'process.logs': Logs
  'process.follow': Process
  'process.input': Empty
  'process.resize': Empty
  'process.wait': ProcessWait
  'file.write': Written
  'file.read': FilePiece
  'file.stat': Entry
  'file.exists': Existence
  'file.list': Listing
  'file.mkdir': MadeDirectory
  'file.move': Moved
  'file.copy': Moved
  'file.remove': Removed
  'file.search': Search
  'file.replace': Replacements
  'file.watch': WatchEnd
  'archive.create': Archive
  'archive.extract': Archive
  'git.checkout': Checkout
  'context.create': ContextCreated
  'context.list': Contexts
  'context.get': Context
  'context.delete': ContextName
  'context.restart': Context
  'context.interrupt': Interrupted
  'context.run': Cell
  'context.input': Empty
  'context.complete': Completions
  'context.describe': Variables
  'context.inspect': Inspection
  'context.isComplete': Completeness
  'context.history': History
  'context.fork': Contexts
  'context.checkpoint': Checkpoint
  'context.rollback': Context
  'context.checkpoints': Checkpoints
  'context.forget': CheckpointName
  'port.expose': Port
  'port.unexpose': Unexposed
  'port.list': Ports
  'port.wait': PortWait
  'network.log': Decisions
}

/** The events before them. */
export interface StreamEvents {
  'sandbox.events': SandboxEvent<'portOpened', OpenPort> | SandboxEvent<'portClosed', OpenPort> | SandboxEvent<'processStarted', Process> | SandboxEvent<'processEnded', Process> | SandboxEvent<'network', Decision> | SandboxEvent<'fileDenied', Denial> | SandboxEvent<'state', State> | SandboxEvent<'renamed', Renamed> | SandboxEvent<'forked', Forked> | SandboxEvent<'snapshot', SnapshotTaken>
  'exec': SandboxEvent<'output', Output>
  'process.follow': SandboxEvent<'output', ProcessOutput>
  'file.watch': SandboxEvent<'ready', Empty> | SandboxEvent<'change', FileChange> | SandboxEvent<'lost', Empty>
  'git.checkout': SandboxEvent<'output', Output>
  'context.run': SandboxEvent<'output', Output> | SandboxEvent<'begin', CellBegin> | SandboxEvent<'display', Display> | SandboxEvent<'clear', Clear> | SandboxEvent<'input', InputRequest>
}
