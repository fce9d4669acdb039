// Written by tools/spec from spec/sandbox.def: change that.
import type { Asking, OperationOptions } from '../internal/asking.js'
import type { Answers, NetworkPolicy, SandboxVolume, StreamEvents, TerminalSize } from '../sandbox/answers.js'
import type { Limits } from './limits.js'

/** Parameters of sandbox.create. */
export interface SandboxCreateParams {
  /** Limits of the whole sandbox, by name; 0: none. */
  limits?: Limits | undefined
  /** Its root file system: an image of the daemon's store, as NAME[:TAG], sha256-DIGITS or sha256:DIGITS; absent: the daemon's own. It stays, also if the name is another image's later. */
  image?: string | undefined
  /** A snapshot of the caller: it begins with the files and the definition of that, to which the other options are changes. Not with image, imageSettings, packages, writableRoot and root. */
  snapshot?: string | undefined
  /** The name by which the caller found the digest, to be shown with it; with a name the daemon keeps that. */
  imageName?: string | undefined
  /** Environment, working directory, user and commands that the image states: {env, workingDirectory, runsAs, startup}; the first two apply where the caller states nothing else; startup, {start, ready, readyMs}, in sandboxes. */
  imageSettings?: Record<string, unknown> | undefined
  /** Commands of each of its starts instead of those of its image or snapshot: {start, ready, readyMs}; {}: none. They stay, also in its forks and snapshots. */
  startup?: Record<string, unknown> | undefined
  /** true: the directories of its image can be changed, by a copy in its quota, and belong to its user; it stays. Needs image; of an ordinary user's daemon also Linux 6.6. A context in it starts cold if its programs changed files that the prepared interpreter has in memory, and cannot be forked. */
  writableRoot?: boolean | undefined
  /** true: its programs are root of 65,536 users of its own, with rights over its files, processes and ports; writableRoot is implied, and it stays. Needs control groups for memory and pids, and of an ordinary user's daemon Linux 6.6, newuidmap and 65,536 ids in /etc/subuid and subgid; packages are those of apt. Its contexts start cold. */
  root?: boolean | undefined
  /** Directories and files of the host under rules: an object as that of a run, without sync. It stays. Writes of the guest stay in the sandbox until it stops. */
  mount?: Record<string, unknown> | undefined
  /** Volumes of the caller in it: [{name, path, readOnly}]. They stay; with mounts at most eight, none of which lies in a volume. */
  volumes?: readonly SandboxVolume[] | undefined
  /** Added to the environment of all its programs. */
  env?: Record<string, string> | undefined
  /** Rules for its connections: {allow, deny, headers}; absent: the daemon's (--network), by default none. */
  network?: NetworkPolicy | undefined
  /** Packages that it begins with: {pip: [text, …], npm: […], gem: […]}, or with root {apt: […]}, installed once and then shared. */
  packages?: Record<string, unknown> | undefined
  /** It is saved and stopped after this time without requests and processes; absent: 1200000, 0: never. */
  idleMs?: number | undefined
  /** pause: after idleMs it is paused instead of stopped. */
  idleAction?: string | undefined
  /** Its time from now on, used or not, at most a year; 0 or absent: no end. */
  lifetimeMs?: number | undefined
  /** Its fate at that end: stop (the default) or pause, if it runs, or delete. */
  endAction?: string | undefined
  /** Labels for the caller's own use. */
  labels?: Record<string, string> | undefined
}

/** Parameters of sandbox.list. */
export interface SandboxListParams {
  /** Only those in this state: running, paused or stopped. */
  state?: string | undefined
  /** Only those with all of these labels: NAME=VALUE, or NAME for any value. */
  labels?: readonly string[] | undefined
  /** Only those that were made with this image: by the name that was given then, or by its digest. */
  image?: string | undefined
  /** Only those whose name begins with this. */
  prefix?: string | undefined
  /** Only those made after this time, or a beginning of one, such as 2026-11-28. */
  createdAfter?: string | undefined
  /** Only those made before this time, likewise. */
  createdBefore?: string | undefined
  /** created (the default), used or name: the oldest first. */
  order?: string | undefined
  /** true: the newest first. */
  reverse?: boolean | undefined
  /** Maximum of sandboxes; absent: all. */
  limit?: number | undefined
  /** true: each has the newest sample of sandbox.metrics. */
  sample?: boolean | undefined
  /** The next of the page before. Sandboxes that are made or deleted meanwhile neither repeat nor hide another; with order used and reverse, one that is used meanwhile is on no later page. */
  after?: string | undefined
}

/** Parameters of sandbox.update. */
export interface SandboxUpdateParams {
  /** memoryBytes, pids and cpuPercent take effect at once, other limits at the next start. */
  limits?: Limits | undefined
  /** Replaces all earlier variables, for programs started from now on. */
  env?: Record<string, string> | undefined
  /** Replaces the earlier policy at once, also for open connections. */
  network?: NetworkPolicy | undefined
  /** Adds rules to the policy, {allow, deny}, in one step; those that it has are kept. */
  addNetwork?: Omit<NetworkPolicy, 'dns'> | undefined
  /** As in sandbox.create. */
  idleMs?: number | undefined
  /** As in sandbox.create. */
  idleAction?: string | undefined
  /** Its time from now on, which replaces the earlier end; 0: no end. */
  lifetimeMs?: number | undefined
  /** As in sandbox.create. */
  endAction?: string | undefined
  /** Replaces all earlier labels. */
  labels?: Record<string, string> | undefined
}

/** Parameters of sandbox.stop. */
export interface SandboxStopParams {
  /** Write the changes in its mounts to the host, once its processes have ended: {onError, conflict, links} as in sync of a mount. If a change cannot be written it goes on running, and the error is invalid_state. Absent: they are lost. */
  sync?: Record<string, unknown> | undefined
}

/** Parameters of sandbox.commit. */
export interface SandboxCommitParams {
  /** The name to give, NAME[:TAG]; absent: none, so that image.prune removes it. */
  image?: string | undefined
  /** Changes of the configuration of its image: {env, labels, workingDir, user, entrypoint, cmd, exposedPorts, volumes, healthcheck, stopSignal, shell, startup, onBuild}. env and labels are objects whose members are added, exposedPorts and volumes lists that are added, entrypoint, cmd, shell and onBuild lists of text, startup {start, ready, readyMs} the commands of its sandboxes; null removes. */
  config?: Record<string, unknown> | undefined
  /** The step that made the changes; createdBy of the image. */
  comment?: string | undefined
  /** 64 digits: a later build of the same caller finds the image by them. */
  key?: string | undefined
  /** The time of all changed files, in seconds since 1970; absent: their own. */
  fileTime?: number | undefined
}

/** Parameters of sandbox.pause. */
export interface SandboxPauseParams {
  /** false: do not save its files before. */
  save?: boolean | undefined
  /** false: keep its files only: they are saved, and its processes end; writes in its mounts are lost, as by a stop. Also of one that is paused with its memory. */
  memory?: boolean | undefined
}

/** Parameters of sandbox.fork. */
export interface SandboxForkParams {
  /** 1 to 100; absent: as many as names, or 1. */
  count?: number | undefined
  /** Names of the new sandboxes; absent: new names are generated. */
  names?: readonly string[] | undefined
}

/** Parameters of sandbox.snapshot. */
export interface SandboxSnapshotParams {
  /** A name that no other of the caller's snapshots has; absent: a new name is generated. */
  snapshot?: string | undefined
  /** true: it takes the place of the snapshot of that name, which stays until this one is on the disk. */
  replace?: boolean | undefined
  /** Labels for the caller's own use. */
  labels?: Record<string, string> | undefined
}

/** Parameters of sandbox.metrics. */
export interface SandboxMetricsParams {
  /** Only samples from this time on, or from a beginning of one, such as 2026-11-28T07. */
  from?: string | undefined
  /** Only samples until this time, likewise. */
  to?: string | undefined
}

/** Parameters of sandbox.logs. */
export interface SandboxLogsParams {
  /** Only the newest so many lines; absent: all. */
  limit?: number | undefined
}

/** Parameters of sandbox.rename. */
export interface SandboxRenameParams {
  /** A name that no other of the caller's sandboxes has. */
  name: string
}

/** Parameters of snapshot.get. */
export interface SnapshotGetParams {
  /** Its name. */
  snapshot: string
}

/** Parameters of snapshot.copy. */
export interface SnapshotCopyParams {
  /** Its name. */
  snapshot: string
  /** The name of the copy; its own, with replace and labels, changes the labels. */
  to: string
  /** true: it takes the place of the snapshot of that name. */
  replace?: boolean | undefined
  /** Labels of the copy; absent: those of the snapshot. */
  labels?: Record<string, string> | undefined
}

/** Parameters of snapshot.delete. */
export interface SnapshotDeleteParams {
  /** Its name. */
  snapshot: string
}

/** Parameters of volume.create. */
export interface VolumeCreateParams {
  /** Its name: 1 to 63 of A-Z a-z 0-9 - _, with a letter or digit first. */
  volume: string
  /** Its size, from 16 MiB on, which is reserved on the host's disk. Tables of its file system take some of it; it holds an entry for each 16 KiB. */
  sizeBytes: number
  /** Labels for the caller's own use. */
  labels?: Record<string, string> | undefined
}

/** Parameters of volume.get. */
export interface VolumeGetParams {
  /** Its name. */
  volume: string
}

/** Parameters of volume.delete. */
export interface VolumeDeleteParams {
  /** Its name. */
  volume: string
}

/** Parameters of session.create. */
export interface SessionCreateParams {
  /** Its name; absent: a new name is generated. */
  session?: string | undefined
  /** Its first directory; absent: /workspace. */
  cwd?: string | undefined
  /** Added to the sandbox's. */
  env?: Record<string, string> | undefined
  /** true: in its own pid namespace. */
  isolation?: boolean | undefined
  /** Timeout of commands that set none; 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Parameters of session.delete. */
export interface SessionDeleteParams {
  /** Its name. */
  session: string
}

/** Parameters of session.env. */
export interface SessionEnvParams {
  /** Absent: default. */
  session?: string | undefined
  /** Text by name; null: unset. */
  env: Record<string, string | null>
}

/** Parameters of exec. */
export interface ExecParams {
  /** Absent: default, made on first use. */
  session?: string | undefined
  /** Shell code: one or more lines, with here documents, functions and the like. */
  command: string | Uint8Array
  /** For this command only. */
  cwd?: string | undefined
  /** For this command only: text by name; null: unset. */
  env?: Record<string, string | null> | undefined
  /** Absent: empty. */
  stdin?: string | Uint8Array | undefined
  /** Counted from its start; on timeout all its processes are killed. 0: none. */
  timeoutMs?: number | undefined
  /** Maximum of each stream in the answer; the rest is read with output.read. Absent: 1048576. */
  outputBytes?: number | undefined
  /** Send output as events. */
  stream?: boolean | undefined
  /** Run it at once in a copy of the shell, which leaves the session unchanged. */
  fork?: boolean | undefined
}

/** Parameters of output.read. */
export interface OutputReadParams {
  /** The field output of an answer to exec or context.run. */
  output: string
  /** stdout or stderr. */
  stream: string
  /** In bytes; absent: 0. */
  offset?: number | undefined
  /** Maximum of bytes; absent: 1048576. */
  limit?: number | undefined
}

/** Parameters of process.start. */
export interface ProcessStartParams {
  /** The session whose variables, functions and directory it gets; absent: default. */
  session?: string | undefined
  /** Its id; absent: a new id is generated. */
  process?: string | undefined
  /** For the shell. */
  command: string | Uint8Array
  /** Absent: the session's. */
  cwd?: string | undefined
  /** Text by name; null: unset. */
  env?: Record<string, string | null> | undefined
  /** Keep its input open for process.input. */
  stdin?: boolean | undefined
  /** true: it waits until the first process.follow has come, and for the slowest one, where its oldest output would be dropped. */
  paced?: boolean | undefined
  /** On timeout its tree is killed. 0 or absent: none. */
  timeoutMs?: number | undefined
  /** Remove it when it has ended. */
  autoCleanup?: boolean | undefined
  /** {cols, rows}: give it a terminal. */
  terminal?: TerminalSize | undefined
}

/** Parameters of process.list. */
export interface ProcessListParams {
  /** Only of this session. */
  session?: string | undefined
}

/** Parameters of process.get. */
export interface ProcessGetParams {
  /** Its id. */
  process: string
}

/** Parameters of process.kill. */
export interface ProcessKillParams {
  /** Its id. */
  process: string
  /** A signal as SIGTERM, TERM or 15. */
  signal?: string | undefined
  /** false: only the process itself. */
  tree?: boolean | undefined
  /** Absent: 5000. */
  graceMs?: number | undefined
}

/** Parameters of process.killAll. */
export interface ProcessKillAllParams {
  /** Only of this session. */
  session?: string | undefined
  /** Absent: 5000. */
  graceMs?: number | undefined
}

/** Parameters of process.cleanup. */
export interface ProcessCleanupParams {
  /** Only this one. */
  process?: string | undefined
}

/** Parameters of process.logs. */
export interface ProcessLogsParams {
  /** Its id. */
  process: string
  /** In bytes of each stream; absent: 0. */
  offset?: number | undefined
  /** Maximum of bytes of each stream; absent: 1048576. */
  limit?: number | undefined
}

/** Parameters of process.follow. */
export interface ProcessFollowParams {
  /** Its id. */
  process: string
  /** false: only new output. */
  replay?: boolean | undefined
}

/** Parameters of process.input. */
export interface ProcessInputParams {
  /** Its id. */
  process: string
  /** The bytes to write. */
  data?: string | Uint8Array | undefined
  /** true: close the input afterwards. */
  end?: boolean | undefined
}

/** Parameters of process.resize. */
export interface ProcessResizeParams {
  /** Its id. */
  process: string
  /** 1 to 1000. */
  cols: number
  /** 1 to 1000. */
  rows: number
}

/** Parameters of process.wait. */
export interface ProcessWaitParams {
  /** Its id. */
  process: string
  /** Wait for a line of output that contains this text. */
  text?: string | undefined
  /** Wait for a line that matches this regular expression (PCRE2). */
  pattern?: string | undefined
  /** Wait until a program accepts connections at this port. */
  port?: number | undefined
  /** With port: also until it answers GET of this path over HTTP. */
  path?: string | undefined
  /** With path: the status must lie in [first, last]; absent: [200, 399]. */
  status?: readonly [first: number, last: number] | undefined
  /** On timeout the error is timeout. 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Parameters of file.write. */
export interface FileWriteParams {
  /** Absolute, or below /workspace. */
  path: string
  /** The content, byte for byte. */
  content: string | Uint8Array
  /** Write at the end of the file. */
  append?: boolean | undefined
  /** Write at this offset, without truncating the file; 0 and absent differ. */
  offset?: number | undefined
  /** false: the file must exist; with append or offset. */
  create?: boolean | undefined
  /** Permission bits, as a number. */
  mode?: number | undefined
}

/** Parameters of file.read. */
export interface FileReadParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Absent: 0. */
  offset?: number | undefined
  /** Absent: all, if it has at most 32 MiB. */
  limit?: number | undefined
}

/** Parameters of file.stat. */
export interface FileStatParams {
  /** Absolute, or below /workspace. */
  path: string
}

/** Parameters of file.exists. */
export interface FileExistsParams {
  /** Absolute, or below /workspace. */
  path: string
}

/** Parameters of file.list. */
export interface FileListParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Also list directories below it; links are not followed. */
  recursive?: boolean | undefined
  /** Include names that begin with a dot. */
  hidden?: boolean | undefined
  /** The next of the page before. */
  after?: string | undefined
  /** Maximum of entries; absent: 10000. */
  limit?: number | undefined
}

/** Parameters of file.mkdir. */
export interface FileMkdirParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Make missing parents too; it may exist already. */
  recursive?: boolean | undefined
  /** Permission bits, as a number; absent: 493, which is 0755. */
  mode?: number | undefined
}

/** Parameters of file.move. */
export interface FileMoveParams {
  /** Its present path. */
  from: string
  /** Its new path; if that is a directory, it is moved into it. */
  to: string
  /** false: fail if the target exists. */
  overwrite?: boolean | undefined
}

/** Parameters of file.copy. */
export interface FileCopyParams {
  /** The path of the source. */
  from: string
  /** The path of the copy; if that is a directory, the copy is made in it. */
  to: string
  /** false: fail if the target exists. */
  overwrite?: boolean | undefined
}

/** Parameters of file.remove. */
export interface FileRemoveParams {
  /** Absolute, or below /workspace. */
  path: string
  /** Remove a directory with its content. */
  recursive?: boolean | undefined
  /** A missing file is no error. */
  force?: boolean | undefined
}

/** Parameters of file.search. */
export interface FileSearchParams {
  /** A file, or a directory to search. */
  path: string
  /** The literal text. */
  text?: string | undefined
  /** Or this regular expression (PCRE2). */
  pattern?: string | undefined
  /** Globs of paths below it; absent: all. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules. */
  exclude?: readonly string[] | undefined
  /** Ignore the case of letters. */
  ignoreCase?: boolean | undefined
  /** Maximum of matches; absent: 1000. */
  limit?: number | undefined
}

/** Parameters of file.replace. */
export interface FileReplaceParams {
  /** A file, or a directory to search. */
  path: string
  /** The literal text. */
  text?: string | undefined
  /** Or this regular expression (PCRE2). */
  pattern?: string | undefined
  /** The new text; with a pattern it may contain $1, ${name}. */
  replacement: string
  /** Globs of paths below it; absent: all. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules. */
  exclude?: readonly string[] | undefined
  /** Ignore the case of letters. */
  ignoreCase?: boolean | undefined
  /** Only count the replacements. */
  dryRun?: boolean | undefined
}

/** Parameters of file.watch. */
export interface FileWatchParams {
  /** A file or directory. */
  path: string
  /** false: without the directories below. */
  recursive?: boolean | undefined
  /** Globs; not with exclude. */
  include?: readonly string[] | undefined
  /** Globs; absent: .git, node_modules, .DS_Store. */
  exclude?: readonly string[] | undefined
}

/** Parameters of archive.create. */
export interface ArchiveCreateParams {
  /** The directory or file. */
  path: string
  /** The archive. */
  to: string
  /** tar, tar.gz, tar.zst or zip; absent: by the name of the archive. */
  format?: string | undefined
  /** Globs. */
  exclude?: readonly string[] | undefined
  /** inside: a symbolic link that leads out of the tree is an error; absent, any: links are packed as they are. */
  links?: string | undefined
}

/** Parameters of archive.extract. */
export interface ArchiveExtractParams {
  /** The archive. */
  path: string
  /** The directory to unpack into; made if missing. */
  to: string
  /** any: symbolic links may lead out of the tree; absent, inside: such a link is an error. */
  links?: string | undefined
  /** Permission bits of all files and directories of the archive; absent: their own. */
  mode?: number | undefined
  /** The user who owns all members, in a sandbox with root; absent: as in the archive. */
  uid?: number | undefined
  /** Likewise the group. */
  gid?: number | undefined
}

/** Parameters of git.checkout. */
export interface GitCheckoutParams {
  /** https, http, ssh, git, file, name@host:path, or an absolute path in the sandbox: a repository or a bundle. */
  url: string
  /** Branch or tag; absent: the repository's own. */
  branch?: string | undefined
  /** The directory; absent: named after the repository, below /workspace. */
  dir?: string | undefined
  /** Number of commits; absent: all. */
  depth?: number | undefined
  /** For http; it appears in no command line, file or answer. */
  username?: string | undefined
  /** Likewise: a password or token. */
  password?: string | undefined
  /** The session whose directory a relative dir starts from; absent: default. */
  session?: string | undefined
  /** Absent: 600000. */
  timeoutMs?: number | undefined
}

/** Parameters of context.create. */
export interface ContextCreateParams {
  /** Its name; absent: a new name is generated. */
  context?: string | undefined
  /** python, javascript, typescript, bash, ruby or php; absent: that of the prefix, or python. */
  language?: string | undefined
  /** The id or the name of a prefix of the caller: its cells see all that the prefix's set-up made. */
  prefix?: string | undefined
  /** Its first directory; made if missing. Absent: /workspace. */
  cwd?: string | undefined
  /** Added to the sandbox's. */
  env?: Record<string, string> | undefined
  /** Timeout of cells that set none; 0 or absent: none. */
  timeoutMs?: number | undefined
  /** Permit forks and checkpoints; its interpreter then has the rights of a template, and cannot list network interfaces. */
  forkable?: boolean | undefined
}

/** Parameters of context.get. */
export interface ContextGetParams {
  /** Its name. */
  context: string
}

/** Parameters of context.delete. */
export interface ContextDeleteParams {
  /** Its name. */
  context: string
}

/** Parameters of context.restart. */
export interface ContextRestartParams {
  /** Its name. */
  context: string
}

/** Parameters of context.interrupt. */
export interface ContextInterruptParams {
  /** Its name. */
  context: string
}

/** Parameters of context.run. */
export interface ContextRunParams {
  /** Absent: the language's default one, made on first use. */
  context?: string | undefined
  /** Without context: the language of the default context; absent: python. */
  language?: string | undefined
  /** The cell. */
  code: string
  /** Counted from its start; on timeout it is interrupted, and killed if that does not end it. 0: none. */
  timeoutMs?: number | undefined
  /** Maximum of each stream in the answer; the rest is read with output.read. Absent: 1048576. */
  outputBytes?: number | undefined
  /** Send output and displays as events. */
  stream?: boolean | undefined
  /** The code may request input; absent: such requests fail at once. */
  input?: boolean | undefined
  /** Run without a result and without a number. */
  silent?: boolean | undefined
  /** false: leave the cell out of context.history. */
  history?: boolean | undefined
  /** Restart an interpreter that has ended; absent: only in a default context. */
  restart?: boolean | undefined
}

/** Parameters of context.input. */
export interface ContextInputParams {
  /** Its name. */
  context: string
  /** The number of the request. */
  input: number
  /** The line, without its end; absent: end of input. */
  value?: string | undefined
}

/** Parameters of context.complete. */
export interface ContextCompleteParams {
  /** Its name. */
  context: string
  /** The code. */
  code: string
  /** Position in code points; absent: the end. */
  at?: number | undefined
}

/** Parameters of context.describe. */
export interface ContextDescribeParams {
  /** Its name. */
  context: string
}

/** Parameters of context.inspect. */
export interface ContextInspectParams {
  /** Its name. */
  context: string
  /** The code, at most 1 MiB. */
  code: string
  /** Position in code points, in the name or at its end; absent: the end. */
  at?: number | undefined
  /** 1: with its source, where the language can give it; 0 or absent: without. */
  detail?: number | undefined
}

/** Parameters of context.isComplete. */
export interface ContextIsCompleteParams {
  /** Its name. */
  context: string
  /** The code, at most 1 MiB. */
  code: string
}

/** Parameters of context.history. */
export interface ContextHistoryParams {
  /** Its name. */
  context: string
  /** Only the newest so many; absent: all. */
  limit?: number | undefined
}

/** Parameters of context.fork. */
export interface ContextForkParams {
  /** Its name; made with forkable. */
  context: string
  /** Number of copies, at most 100; absent: 1. */
  count?: number | undefined
  /** Permit forks of the copies too. */
  forkable?: boolean | undefined
}

/** Parameters of context.checkpoint. */
export interface ContextCheckpointParams {
  /** Its name; made with forkable. */
  context: string
  /** Its name; absent: a new name is generated. It replaces a checkpoint of the same name. */
  checkpoint?: string | undefined
  /** false: without the workspace. */
  files?: boolean | undefined
}

/** Parameters of context.rollback. */
export interface ContextRollbackParams {
  /** Its name. */
  context: string
  /** Absent: the newest. */
  checkpoint?: string | undefined
}

/** Parameters of context.checkpoints. */
export interface ContextCheckpointsParams {
  /** Its name. */
  context: string
}

/** Parameters of context.forget. */
export interface ContextForgetParams {
  /** Its name. */
  context: string
  /** Its name. */
  checkpoint: string
}

/** Parameters of port.expose. */
export interface PortExposeParams {
  /** 1024 to 65535, and with `root` from 1 on. */
  port: number
  /** A name for the caller's own use. */
  name?: string | undefined
  /** 1 to 16 of a-z 0-9 _; absent: its present token, or a random one. */
  token?: string | undefined
}

/** Parameters of port.unexpose. */
export interface PortUnexposeParams {
  /** Its number. */
  port: number
}

/** Parameters of port.wait. */
export interface PortWaitParams {
  /** Its number. */
  port: number
  /** Also wait for an answer to GET of this path over HTTP. */
  path?: string | undefined
  /** The status must lie in [first, last]; absent: [200, 399]. */
  status?: readonly [first: number, last: number] | undefined
  /** On timeout the error is timeout. 0 or absent: none. */
  timeoutMs?: number | undefined
}

/** Parameters of network.log. */
export interface NetworkLogParams {
  /** Only decisions after this number. */
  after?: number | undefined
}

export type Method =
  | 'sandbox.create'
  | 'sandbox.list'
  | 'sandbox.get'
  | 'sandbox.update'
  | 'sandbox.stop'
  | 'sandbox.save'
  | 'sandbox.commit'
  | 'sandbox.pause'
  | 'sandbox.resume'
  | 'sandbox.fork'
  | 'sandbox.snapshot'
  | 'sandbox.delete'
  | 'sandbox.metrics'
  | 'sandbox.logs'
  | 'sandbox.rename'
  | 'sandbox.events'
  | 'snapshot.list'
  | 'snapshot.get'
  | 'snapshot.copy'
  | 'snapshot.delete'
  | 'volume.create'
  | 'volume.list'
  | 'volume.get'
  | 'volume.delete'
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
  | 'context.inspect'
  | 'context.isComplete'
  | 'context.history'
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
/** Methods that send events before they are answered. */
export type StreamMethod = 'sandbox.events' | 'exec' | 'process.follow' | 'file.watch' | 'git.checkout' | 'context.run'
export type EventsOf<M> = M extends keyof StreamEvents ? StreamEvents[M] : never
export type Ask = <M extends Method>(method: M, params: object, options: OperationOptions) => Asking<Answers[M], EventsOf<M>>

export class SandboxOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a sandbox, or find the one of that name. */
  async create (params: SandboxCreateParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.create']> {
    return await this.ask('sandbox.create', params, options)
  }

  /** Return one sandbox: state, limits, usage. */
  async get (options: OperationOptions = {}): Promise<Answers['sandbox.get']> {
    return await this.ask('sandbox.get', {}, options)
  }

  /** Change the given options, also of a running sandbox. */
  async update (params: SandboxUpdateParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.update']> {
    return await this.ask('sandbox.update', params, options)
  }

  /** Save the files and end all processes; the next use starts it again. If it cannot be saved it goes on running, and the error is resource. */
  async stop (params: SandboxStopParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.stop']> {
    return await this.ask('sandbox.stop', params, options)
  }

  /** Save the files as they are now; processes go on. */
  async save (options: OperationOptions = {}): Promise<Answers['sandbox.save']> {
    return await this.ask('sandbox.save', {}, options)
  }

  /** Make an image of a sandbox with a writable root: its image with the changes outside of /workspace, /tmp, /home, /root and /run. Its programs go on; files that they write meanwhile may be old or new. --image-changes decides who may. */
  async commit (params: SandboxCommitParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.commit']> {
    return await this.ask('sandbox.commit', params, options)
  }

  /** Freeze all processes; they keep their memory. The answer comes when all are frozen. The next request that needs them, or sandbox.resume, lets them go on. */
  async pause (params: SandboxPauseParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.pause']> {
    return await this.ask('sandbox.pause', params, options)
  }

  /** Let a paused sandbox go on, or start a stopped one, or one that is paused with its files only, from its saved files. */
  async resume (options: OperationOptions = {}): Promise<Answers['sandbox.resume']> {
    return await this.ask('sandbox.resume', {}, options)
  }

  /** Make new sandboxes with its definition, its files as they are now, and its contexts that can be forked; it goes on. Those of a stopped one are stopped, with its saved files. */
  async fork (params: SandboxForkParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.fork']> {
    return await this.ask('sandbox.fork', params, options)
  }

  /** Keep its files as they are now and its definition under a name, for new sandboxes (sandbox.create with snapshot). Nothing changes them any more. */
  async snapshot (params: SandboxSnapshotParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.snapshot']> {
    return await this.ask('sandbox.snapshot', params, options)
  }

  /** End it and remove its files and options. */
  async delete (options: OperationOptions = {}): Promise<Answers['sandbox.delete']> {
    return await this.ask('sandbox.delete', {}, options)
  }

  /** Return its usage over the last ten minutes in which it ran, a sample every five seconds. */
  async metrics (params: SandboxMetricsParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.metrics']> {
    return await this.ask('sandbox.metrics', params, options)
  }

  /** Return the log of its life: made, started, paused, stopped and the like, with the reasons. It outlives the daemon; of a long one the newest lines are kept. */
  async logs (params: SandboxLogsParams = {}, options: OperationOptions = {}): Promise<Answers['sandbox.logs']> {
    return await this.ask('sandbox.logs', params, options)
  }

  /** Give it another name, in any state; its processes and requests under way go on. Previews of its ports have the new name. */
  async rename (params: SandboxRenameParams, options: OperationOptions = {}): Promise<Answers['sandbox.rename']> {
    return await this.ask('sandbox.rename', params, options)
  }

  /** Send events: ports, processes, connections, states. */
  events (options: OperationOptions = {}): Asking<Answers['sandbox.events'], EventsOf<'sandbox.events'>> {
    return this.ask('sandbox.events', {}, options)
  }

  /** Run a command in a session's shell, after the earlier ones. */
  exec (params: ExecParams, options: OperationOptions = {}): Asking<Answers['exec'], EventsOf<'exec'>> {
    return this.ask('exec', params, options)
  }
}

export class SnapshotOperations {
  constructor (protected readonly ask: Ask) {}

  /** List the caller's snapshots. */
  async list (options: OperationOptions = {}): Promise<Answers['snapshot.list']> {
    return await this.ask('snapshot.list', {}, options)
  }

  /** Return one snapshot. */
  async get (params: SnapshotGetParams, options: OperationOptions = {}): Promise<Answers['snapshot.get']> {
    return await this.ask('snapshot.get', params, options)
  }

  /** Keep a snapshot under another name too. Both share the disk space of their files. */
  async copy (params: SnapshotCopyParams, options: OperationOptions = {}): Promise<Answers['snapshot.copy']> {
    return await this.ask('snapshot.copy', params, options)
  }

  /** Remove a snapshot. Sandboxes that began with it keep their files. */
  async delete (params: SnapshotDeleteParams, options: OperationOptions = {}): Promise<Answers['snapshot.delete']> {
    return await this.ask('snapshot.delete', params, options)
  }
}

export class VolumeOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a volume: a directory that is kept, of a fixed size, which sandboxes of this caller mount. */
  async create (params: VolumeCreateParams, options: OperationOptions = {}): Promise<Answers['volume.create']> {
    return await this.ask('volume.create', params, options)
  }

  /** List the caller's volumes. */
  async list (options: OperationOptions = {}): Promise<Answers['volume.list']> {
    return await this.ask('volume.list', {}, options)
  }

  /** Return one volume with its usage. */
  async get (params: VolumeGetParams, options: OperationOptions = {}): Promise<Answers['volume.get']> {
    return await this.ask('volume.get', params, options)
  }

  /** Remove a volume with all its files, unless a sandbox names it, running or not. */
  async delete (params: VolumeDeleteParams, options: OperationOptions = {}): Promise<Answers['volume.delete']> {
    return await this.ask('volume.delete', params, options)
  }
}

export class SessionOperations {
  constructor (protected readonly ask: Ask) {}

  /** Make a session, or find the one of that name. */
  async create (params: SessionCreateParams = {}, options: OperationOptions = {}): Promise<Answers['session.create']> {
    return await this.ask('session.create', params, options)
  }

  /** List the sessions. */
  async list (options: OperationOptions = {}): Promise<Answers['session.list']> {
    return await this.ask('session.list', {}, options)
  }

  /** End a session and its processes. */
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

  /** Read the output of a command, a page at a time. */
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

  /** List the processes that were started and not removed. */
  async list (params: ProcessListParams = {}, options: OperationOptions = {}): Promise<Answers['process.list']> {
    return await this.ask('process.list', params, options)
  }

  /** Return one process. */
  async get (params: ProcessGetParams, options: OperationOptions = {}): Promise<Answers['process.get']> {
    return await this.ask('process.get', params, options)
  }

  /** Signal it and all processes beneath it; without a signal SIGTERM, and SIGKILL after graceMs. */
  async kill (params: ProcessKillParams, options: OperationOptions = {}): Promise<Answers['process.kill']> {
    return await this.ask('process.kill', params, options)
  }

  /** Kill all running processes, likewise. */
  async killAll (params: ProcessKillAllParams = {}, options: OperationOptions = {}): Promise<Answers['process.killAll']> {
    return await this.ask('process.killAll', params, options)
  }

  /** Remove processes that have ended. */
  async cleanup (params: ProcessCleanupParams = {}, options: OperationOptions = {}): Promise<Answers['process.cleanup']> {
    return await this.ask('process.cleanup', params, options)
  }

  /** Return the output so far. */
  async logs (params: ProcessLogsParams, options: OperationOptions = {}): Promise<Answers['process.logs']> {
    return await this.ask('process.logs', params, options)
  }

  /** Send the output so far, then new output, until it ends. */
  follow (params: ProcessFollowParams, options: OperationOptions = {}): Asking<Answers['process.follow'], EventsOf<'process.follow'>> {
    return this.ask('process.follow', params, options)
  }

  /** Write to its input or terminal; answered when the kernel has all bytes. */
  async input (params: ProcessInputParams, options: OperationOptions = {}): Promise<Answers['process.input']> {
    return await this.ask('process.input', params, options)
  }

  /** Change the size of its terminal. */
  async resize (params: ProcessResizeParams, options: OperationOptions = {}): Promise<Answers['process.resize']> {
    return await this.ask('process.resize', params, options)
  }

  /** Wait until it has ended, printed a line, or serves a port. */
  async wait (params: ProcessWaitParams, options: OperationOptions = {}): Promise<Answers['process.wait']> {
    return await this.ask('process.wait', params, options)
  }
}

export class FileOperations {
  constructor (protected readonly ask: Ask) {}

  /** Write a file, and make missing directories. */
  async write (params: FileWriteParams, options: OperationOptions = {}): Promise<Answers['file.write']> {
    return await this.ask('file.write', params, options)
  }

  /** Read a file, or a piece of it. */
  async read (params: FileReadParams, options: OperationOptions = {}): Promise<Answers['file.read']> {
    return await this.ask('file.read', params, options)
  }

  /** Return type, size, mode and times of a file. */
  async stat (params: FileStatParams, options: OperationOptions = {}): Promise<Answers['file.stat']> {
    return await this.ask('file.stat', params, options)
  }

  /** Return whether the file exists. */
  async exists (params: FileExistsParams, options: OperationOptions = {}): Promise<Answers['file.exists']> {
    return await this.ask('file.exists', params, options)
  }

  /** List a directory. */
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

  /** Copy a file, or a directory with its content. */
  async copy (params: FileCopyParams, options: OperationOptions = {}): Promise<Answers['file.copy']> {
    return await this.ask('file.copy', params, options)
  }

  /** Remove a file or directory. */
  async remove (params: FileRemoveParams, options: OperationOptions = {}): Promise<Answers['file.remove']> {
    return await this.ask('file.remove', params, options)
  }

  /** Find lines of files that contain a text. */
  async search (params: FileSearchParams, options: OperationOptions = {}): Promise<Answers['file.search']> {
    return await this.ask('file.search', params, options)
  }

  /** Replace a text in files; each file is rewritten completely or not at all. */
  async replace (params: FileReplaceParams, options: OperationOptions = {}): Promise<Answers['file.replace']> {
    return await this.ask('file.replace', params, options)
  }

  /** Send an event for each change. */
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

  /** Unpack an archive; if a member is not permitted, no member is written. */
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

  /** List the contexts. */
  async list (options: OperationOptions = {}): Promise<Answers['context.list']> {
    return await this.ask('context.list', {}, options)
  }

  /** Return one context. */
  async get (params: ContextGetParams, options: OperationOptions = {}): Promise<Answers['context.get']> {
    return await this.ask('context.get', params, options)
  }

  /** End a context; its cells under way fail. */
  async delete (params: ContextDeleteParams, options: OperationOptions = {}): Promise<Answers['context.delete']> {
    return await this.ask('context.delete', params, options)
  }

  /** Restart its interpreter with the options of its creation; cells under way fail. */
  async restart (params: ContextRestartParams, options: OperationOptions = {}): Promise<Answers['context.restart']> {
    return await this.ask('context.restart', params, options)
  }

  /** Interrupt the running cell; the context keeps its state. */
  async interrupt (params: ContextInterruptParams, options: OperationOptions = {}): Promise<Answers['context.interrupt']> {
    return await this.ask('context.interrupt', params, options)
  }

  /** Run a cell, after the earlier ones. */
  run (params: ContextRunParams, options: OperationOptions = {}): Asking<Answers['context.run'], EventsOf<'context.run'>> {
    return this.ask('context.run', params, options)
  }

  /** Answer a cell's request for input. */
  async input (params: ContextInputParams, options: OperationOptions = {}): Promise<Answers['context.input']> {
    return await this.ask('context.input', params, options)
  }

  /** Complete a piece of code. */
  async complete (params: ContextCompleteParams, options: OperationOptions = {}): Promise<Answers['context.complete']> {
    return await this.ask('context.complete', params, options)
  }

  /** List its variables. */
  async describe (params: ContextDescribeParams, options: OperationOptions = {}): Promise<Answers['context.describe']> {
    return await this.ask('context.describe', params, options)
  }

  /** Describe the name at a place of a piece of code, without running it. While a cell runs the error is invalid_state. */
  async inspect (params: ContextInspectParams, options: OperationOptions = {}): Promise<Answers['context.inspect']> {
    return await this.ask('context.inspect', params, options)
  }

  /** Say by the language's own parser if a piece of code is a whole cell, without running it. While a cell runs the error is invalid_state. */
  async isComplete (params: ContextIsCompleteParams, options: OperationOptions = {}): Promise<Answers['context.isComplete']> {
    return await this.ask('context.isComplete', params, options)
  }

  /** Return the code of its last cells, of all clients: at most 1000, which have 256 KiB together. Silent cells, and those of more than 64 KiB, are left out. */
  async history (params: ContextHistoryParams, options: OperationOptions = {}): Promise<Answers['context.history']> {
    return await this.ask('context.history', params, options)
  }

  /** Make copies of a live context, each in its own box with a copy of the workspace. */
  async fork (params: ContextForkParams, options: OperationOptions = {}): Promise<Answers['context.fork']> {
    return await this.ask('context.fork', params, options)
  }

  /** Keep a context as it is now, with the workspace. */
  async checkpoint (params: ContextCheckpointParams, options: OperationOptions = {}): Promise<Answers['context.checkpoint']> {
    return await this.ask('context.checkpoint', params, options)
  }

  /** Return a context to a checkpoint, with the workspace if that was kept; the checkpoint stays. */
  async rollback (params: ContextRollbackParams, options: OperationOptions = {}): Promise<Answers['context.rollback']> {
    return await this.ask('context.rollback', params, options)
  }

  /** List its checkpoints, oldest first. */
  async checkpoints (params: ContextCheckpointsParams, options: OperationOptions = {}): Promise<Answers['context.checkpoints']> {
    return await this.ask('context.checkpoints', params, options)
  }

  /** Remove a checkpoint. */
  async forget (params: ContextForgetParams, options: OperationOptions = {}): Promise<Answers['context.forget']> {
    return await this.ask('context.forget', params, options)
  }
}

export class PortOperations {
  constructor (protected readonly ask: Ask) {}

  /** Open a port to everyone who has its token. */
  async expose (params: PortExposeParams, options: OperationOptions = {}): Promise<Answers['port.expose']> {
    return await this.ask('port.expose', params, options)
  }

  /** Close an exposed port; open connections end. */
  async unexpose (params: PortUnexposeParams, options: OperationOptions = {}): Promise<Answers['port.unexpose']> {
    return await this.ask('port.unexpose', params, options)
  }

  /** List exposed ports and listening ports. */
  async list (options: OperationOptions = {}): Promise<Answers['port.list']> {
    return await this.ask('port.list', {}, options)
  }

  /** Wait until a program accepts connections at a port. */
  async wait (params: PortWaitParams, options: OperationOptions = {}): Promise<Answers['port.wait']> {
    return await this.ask('port.wait', params, options)
  }
}

export class NetworkOperations {
  constructor (protected readonly ask: Ask) {}

  /** Return the last decisions about connections. */
  async log (params: NetworkLogParams = {}, options: OperationOptions = {}): Promise<Answers['network.log']> {
    return await this.ask('network.log', params, options)
  }
}
