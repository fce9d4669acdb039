// Prepares the changes given to syncFiles: the caller may have filtered them, and may sync to
// another directory than the run's.
import { lstatSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { foldersOf } from './files.js'
import { isFile } from './mounts.js'
import type { FileChange, MountConfig, PermissionSet, SyncResult } from './types.js'

const EVERYTHING: PermissionSet = { read: true, list: true, create: true, modify: true, delete: true }

export interface Ready {
  mount: MountConfig
  changes: FileChange[]
  /** Folders needed by the changes: outer ones first. */
  folders: FileChange[]
  /** Paths outside every mount, which the daemon never sees. */
  skipped: string[]
  failed: SyncResult['failed']
}

interface Mapping { virtual: string, real: string }

const exists = (real: string): boolean => lstatSync(real, { throwIfNoEntry: false }) !== undefined
const trimmed = (virtual: string): string => virtual.replace(/\/+$/, '')

function mappingsOf ({ dirs }: MountConfig): Mapping[] {
  const found = Object.entries(dirs).map(([virtual, real]) => ({ virtual: trimmed(virtual), real: path.resolve(real) }))
  return found.sort((a, b) => b.virtual.length - a.virtual.length)
}

/** A mapping of one file is that file. */
const holds = ({ virtual, real }: Mapping, name: string): boolean => name.startsWith(`${virtual}/`) || (name === virtual && isFile(real))

function realOf (mappings: Mapping[], name: string): string | undefined {
  const found = mappings.find((mapping) => holds(mapping, name))
  return found === undefined ? undefined : path.join(found.real, name.slice(found.virtual.length))
}

/** Adapted to the host: a file to modify may be missing there. */
const fitted = (change: FileChange, isThere: boolean): FileChange =>
  change.type === 'modify' && change.attributesOnly !== true && !isThere ? { ...change, type: 'create' } : change

/** The old name shows the caller that a file is deleted; the new one alone would delete it silently. */
const isHalfRename = (change: FileChange, paths: Set<string>): boolean =>
  change.type === 'create' && change.renamedFrom !== undefined && change.content === undefined && !paths.has(change.renamedFrom)

function missingFolders (mappings: Mapping[], changes: FileChange[], known: Set<string>): FileChange[] {
  const found = new Map<string, FileChange>()
  for (const { path: name, type, timestamp } of changes) {
    const { virtual } = mappings.find((mapping) => holds(mapping, name)) as Mapping
    for (let at = name.lastIndexOf('/'); type !== 'delete' && at > virtual.length; at = name.lastIndexOf('/', at - 1)) {
      const folder = name.slice(0, at)
      if (known.has(folder) || exists(realOf(mappings, folder) as string)) continue
      found.set(folder, { type: 'create', path: folder, kind: 'directory', size: 0, timestamp })
    }
  }
  return [...found.values()].sort((a, b) => a.path.length - b.path.length)
}

/** Without a permissions option all chosen changes are written. Missing directories of the host are created. */
export function readyForSync (given: readonly FileChange[], mount: MountConfig): Ready {
  const mappings = mappingsOf(mount)
  const paths = new Set(given.map((change) => change.path))
  const placed = new Set(given.filter(({ type }) => type === 'create').map(({ path: name }) => name))
  const isMapped = (change: FileChange): boolean => realOf(mappings, change.path) !== undefined
  const isThere = (name: string): boolean => placed.has(name) || exists(realOf(mappings, name) as string)
  const mapped = given.filter(isMapped)
  const changes = mapped.filter((change) => !isHalfRename(change, paths)).map((change) => fitted(change, isThere(change.path)))
  for (const { virtual, real } of mappings) {
    if (changes.some(({ path: name, type }) => type !== 'delete' && name.startsWith(`${virtual}/`))) mkdirSync(real, { recursive: true })
  }
  const made = foldersOf(changes).filter(({ path: name }) => realOf(mappings, String(name)) !== undefined)
  const known = new Set([...made.map(({ path: name }) => String(name)), ...changes.map(({ path: name }) => name)])
  const dirs = Object.fromEntries(mappings.filter(({ real }) => exists(real)).map(({ virtual, real }) => [virtual, real]))
  return {
    mount: { ...mount, dirs, permissions: mount.permissions ?? { default: EVERYTHING } },
    changes,
    folders: [...made.map(({ path: name, timestamp }): FileChange =>
      ({ type: 'create', path: String(name), kind: 'directory', size: 0, timestamp: new Date(timestamp) })), ...missingFolders(mappings, changes, known)],
    skipped: given.filter((change) => !isMapped(change)).map(({ path: name }) => name),
    failed: mapped.filter((change) => isHalfRename(change, paths)).map((change) => ({
      path: change.path, error: new Error(`is ${change.renamedFrom} renamed: give the deletion of that with it`)
    }))
  }
}
