// The types of answers and events, by the names that users of the client know.
import type { Entry, Existence, Process, Context, StreamEvents } from '../generated/answers.js'

export type {
  Answers, Cell as CellResult, CellError, Checkpoint as CheckpointInfo, Command as CommandResult, Completeness, Context as ContextInfo, Decision as NetworkDecision, Display,
  Entry as FileEntry, ExposedPort, FileChange, HistoryEntry, InputRequest as Question, Inspection, Logs as ProcessLogs, Omitted, Process as ProcessInfo, Sandbox as SandboxInfo,
  SandboxVolume, Session as SessionInfo, Snapshot as SnapshotInfo, StreamEvents, TextOrBytes, Variable, Volume as VolumeInfo, VolumeUsage
} from '../generated/answers.js'

/** The permitted connections of a sandbox. A rule is HOST, HOST:PORT or HOST:FIRST-LAST; HOST a name, *.name, *, an IPv4 address or CIDR. */
export interface NetworkPolicy {
  allow?: readonly string[]
  deny?: readonly string[]
  dns?: boolean
  /** Headers that are set in HTTP requests to a host, outside of the sandbox: `{ 'llm.host.internal': { Authorization: 'Bearer …' } }`. */
  headers?: Readonly<Record<string, Readonly<Record<string, string>>>>
}
export interface TerminalSize { cols: number, rows: number }

export type ProcessState = Process['status']
export type FileType = Entry['type'] & NonNullable<Existence['type']>
export type ContextState = Context['state']

export type OutputEvent = StreamEvents['exec'] | StreamEvents['process.follow']
export type CellEvent = StreamEvents['context.run']
export type WatchEvent = StreamEvents['file.watch']
export type LifeEvent = StreamEvents['sandbox.events']
