// Changes between the daemon's form and the one users know.
import type { Change, Denial, Result, SyncOutcome } from '../run.js'
import { InvalidArgumentError } from '../generated/errors.js'
import { makeError } from '../internal/values.js'
import type { FileChange, FileChangeSummary, PermissionDeniedRecord, PermissionRule, SyncResult } from './types.js'

const types = { created: 'create', modified: 'modify', deleted: 'delete' } as const
const wireTypes = { create: 'created', modify: 'modified', delete: 'deleted' } as const

const bytesOf = (content: string | Uint8Array): Uint8Array => typeof content === 'string' ? new Uint8Array(Buffer.from(content)) : content
const textOf = (path: string | Uint8Array): string => typeof path === 'string' ? path : Buffer.from(path).toString()

export function changeOf (change: Change): FileChange {
  const { type, path, kind, content, oldContent, size, timestamp, realPath, contentOmitted, mode, attributesOnly, renamedFrom, renamedTo, target, virtual } = change
  return {
    type: types[type],
    path: textOf(path),
    ...realPath === undefined ? {} : { realPath },
    ...content === undefined ? {} : { content: bytesOf(content) },
    ...oldContent === undefined ? {} : { oldContent: bytesOf(oldContent) },
    size: size ?? 0,
    timestamp: new Date(timestamp),
    ...kind === undefined || kind === 'file' ? {} : { kind },
    ...target === undefined ? {} : { target: textOf(target) },
    ...virtual === true ? { virtual } : {},
    ...contentOmitted === true ? { contentOmitted } : {},
    ...mode === undefined || type === 'deleted' ? {} : { mode },
    ...attributesOnly === true ? { attributesOnly } : {},
    ...renamedFrom === undefined ? {} : { renamedFrom: textOf(renamedFrom) },
    ...renamedTo === undefined ? {} : { renamedTo: textOf(renamedTo) }
  }
}

/** Checks a change given to syncFiles, which the caller's own code may have built or edited. */
export function wireChange (change: FileChange, i: number): object {
  const type = wireTypes[change?.type]
  if (type === undefined) throw new TypeError(`changes[${i}].type is ${JSON.stringify(change?.type)}; create, modify or delete is expected`)
  if (typeof change.path !== 'string') throw new TypeError(`changes[${i}].path must be a string`)
  for (const name of ['path', 'renamedFrom'] as const) {
    if (String(change[name] ?? '').split('/').includes('..')) {
      throw new InvalidArgumentError(`changes[${i}].${name} is ${JSON.stringify(change[name])}; a path without ".." is expected, as in the result of a run`)
    }
  }
  if (change.contentOmitted === true) {
    const why = 'has no content, which was too large to come with the result: sync such a run with sync.mode batch'
    throw new TypeError(`changes[${i}] (${change.path}) ${why}`)
  }
  const { path, content, oldContent, size, timestamp, kind, mode, attributesOnly, renamedFrom, target, virtual } = change
  return {
    type,
    path,
    kind: kind ?? 'file',
    target,
    virtual,
    content,
    oldContent,
    size: size ?? content?.length ?? 0,
    timestamp: timestamp instanceof Date ? timestamp.getTime() : timestamp,
    mode,
    attributesOnly,
    renamedFrom: content === undefined ? renamedFrom : undefined
  }
}

export function denialOf ({ path, operation, rule, timestamp }: Denial): PermissionDeniedRecord {
  return { path, operation, ...rule === undefined || rule === null ? {} : { rule: rule as PermissionRule }, timestamp: new Date(timestamp) }
}

const isFolder = ({ kind }: Change): boolean => kind === 'directory'

/** Folders the run made, which a change needs when it is written alone. */
const needed = new WeakMap<FileChange, Change[]>()

/** Folders are left out: what is in them is listed, unless they were renamed. */
const isTold = (change: Change): boolean => !isFolder(change) || change.renamedFrom !== undefined || change.renamedTo !== undefined

function filesIn (changes: Change[], folders: Change[] = []): FileChange[] {
  return changes.filter(isTold).map((change) => {
    const made = changeOf(change)
    const above = folders.filter(({ path }) => made.path.startsWith(`${textOf(path)}/`) && path !== change.path)
    if (above.length > 0) needed.set(made, above)
    return made
  })
}

/** The folders of these changes that are not among them, each once, outer ones first. */
export function foldersOf (changes: readonly FileChange[]): Change[] {
  const given = new Set(changes.map(({ path }) => path))
  const found = new Map(changes.flatMap((change) => needed.get(change) ?? []).map((folder) => [textOf(folder.path), folder]))
  return [...found].filter(([path]) => !given.has(path)).sort(([a], [b]) => a.length - b.length).map(([, folder]) => folder)
}

class Summary implements FileChangeSummary {
  constructor (
    readonly created: FileChange[], readonly modified: FileChange[], readonly deleted: FileChange[], readonly denied: PermissionDeniedRecord[]
  ) {}

  hasChanges (): boolean {
    return this.all().length > 0
  }

  all (): FileChange[] {
    return [...this.created, ...this.modified, ...this.deleted]
  }

  byPath (path: string): FileChange | undefined {
    return this.all().find((change) => change.path === path)
  }
}

export function summaryOf ({ created, modified, deleted, denied = [] }: Result['files']): FileChangeSummary {
  return new Summary(filesIn(created, created.filter(isFolder)), filesIn(modified), filesIn(deleted), denied.map(denialOf))
}

export function asError (value: unknown): Error {
  if (value instanceof Error) return value
  if (typeof value === 'string') return new Error(value)
  const { name, type, message } = Object(value) as { name?: unknown, type?: unknown, message?: unknown }
  return makeError(String(name ?? type ?? 'Error'), String(message ?? JSON.stringify(value)))
}

/** unasked: paths the caller did not name; of these only failures are told. */
export const syncResultOf = ({ synced, failed, skipped, aborted }: SyncOutcome, unasked = new Set<string>()): SyncResult => ({
  synced: synced.filter((path) => !unasked.has(path)),
  failed: failed.map(({ path, error }) => ({ path, error: asError(error) })),
  skipped: skipped.map(({ path }) => path).filter((path) => !unasked.has(path)),
  ...aborted === undefined ? {} : { aborted }
})
