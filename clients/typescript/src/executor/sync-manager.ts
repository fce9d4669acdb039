// Writes changes through functions of the caller: to object stores, archives, other machines. For
// directories of this host executor.syncFiles() is one transaction, also if it is interrupted.
import { asError } from './files.js'
import { Events } from './events.js'
import type { BeforeSyncEventResult, FileChange, SyncConfig, SyncEventConfig, SyncResult } from './types.js'

export interface SyncManagerOptions {
  config?: Partial<SyncConfig>
  eventConfig?: SyncEventConfig
  /** null: the path has no target, and is skipped. */
  pathResolver: (virtualPath: string) => string | null
  fileWriter: (realPath: string, content: Uint8Array) => Promise<void>
  fileDeleter: (realPath: string) => Promise<void>
}

type Undo = () => Promise<void>

export class SyncManager extends Events {
  constructor (private readonly options: SyncManagerOptions) {
    super()
    for (const name of ['pathResolver', 'fileWriter', 'fileDeleter'] as const) {
      if (typeof options?.[name] !== 'function') throw new TypeError(`${name} must be a function`)
    }
  }

  async syncBatch (changes: readonly FileChange[]): Promise<SyncResult> {
    const result: SyncResult = { synced: [], failed: [], skipped: [] }
    const undo: Undo[] = []
    const { onError = 'continue' } = this.options.config ?? {}
    for (const change of changes) {
      const { state, reason } = await this.ask(change)
      const realPath = state === 'continue' ? this.options.pathResolver(change.path) : null
      if (state === 'abort') {
        result.aborted = { path: change.path, reason: reason ?? 'aborted by the caller' }
        if (onError === 'rollback') await this.rollBack(undo, result)
        break
      }
      if (realPath === null) {
        result.skipped.push(change.path)
        continue
      }
      if (await this.write(change, realPath, undo, result) || onError === 'continue') continue
      if (onError === 'rollback') await this.rollBack(undo, result)
      break
    }
    return result
  }

  private async ask (change: FileChange): Promise<BeforeSyncEventResult> {
    const { eventConfig, config } = this.options
    const mayAbort = eventConfig?.allowAbort !== false && config?.allowAbort !== false
    const { state = 'continue', reason } = await this.emitAsync('beforeSync', change) as Partial<BeforeSyncEventResult> | undefined ?? {}
    return { state: state === 'abort' && !mayAbort ? 'skip' : state, ...reason === undefined ? {} : { reason } }
  }

  private async write (change: FileChange, realPath: string, undo: Undo[], result: SyncResult): Promise<boolean> {
    const { fileWriter, fileDeleter } = this.options
    const { type, content, oldContent } = change
    try {
      if (type === 'delete') await fileDeleter(realPath)
      else await fileWriter(realPath, content ?? new Uint8Array())
    } catch (thrown) {
      const error = asError(thrown)
      result.failed.push({ path: change.path, error })
      this.emit('syncError', change, error)
      this.emit('afterSync', { ...change, realPath, success: false, error })
      return false
    }
    if (type === 'create') undo.push(async () => { await fileDeleter(realPath) })
    else if (oldContent !== undefined) undo.push(async () => { await fileWriter(realPath, oldContent) })
    result.synced.push(change.path)
    this.emit('afterSync', { ...change, realPath, success: true })
    return true
  }

  /** Without oldContent a change cannot be undone; it stays among the synced ones. */
  private async rollBack (undo: Undo[], result: SyncResult): Promise<void> {
    const failures: unknown[] = []
    for (const step of undo.reverse()) await step().catch((thrown: unknown) => failures.push(thrown))
    if (failures.length > 0) throw new AggregateError(failures, 'the rollback failed')
    result.synced = undo.length === result.synced.length ? [] : result.synced
  }
}
