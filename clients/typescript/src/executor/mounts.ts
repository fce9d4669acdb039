// Maps a mount from the public form to the daemon's: folders of this process, single files,
// patterns relative to the box's root.
import { statSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError } from '../generated/errors.js'
import { type MountOptions, present } from '../run.js'
import { isAtOrBelow, normalized, WRITABLE } from './places.js'
import type { MountConfig, PermissionConfig } from './types.js'

interface Directory { path: string, kind?: 'file', permissions?: PermissionConfig | undefined, loading?: object }

const FILE_PRIORITY = 1000

/**
 * The part of a pattern below the target, if the pattern begins with it: `/data/out/**` of a mount
 * at /data is `out/**`.
 */
function below (pattern: unknown, target: string): string | undefined {
  const front = `${target.slice(1)}/`
  const whole = typeof pattern === 'string' ? pattern.replace(/^\.?\/+/, '') : ''
  return whole.startsWith(front) && whole.length > front.length ? whole.slice(front.length) : undefined
}

/** Both meanings count: relative to the mount, and to the root. */
function permissionsFor (target: string, given: PermissionConfig | undefined): PermissionConfig | undefined {
  const { rules, exclude } = given ?? {}
  if (!Array.isArray(rules) && !Array.isArray(exclude)) return given
  const more: PermissionConfig = { ...given }
  if (Array.isArray(rules)) {
    more.rules = rules.flatMap((rule) => {
      const rest = below(rule?.pattern, target)
      return rest === undefined ? [rule] : [rule, { ...rule, pattern: rest }]
    })
  }
  if (Array.isArray(exclude)) {
    more.exclude = exclude.flatMap((entry) => {
      const rest = below(entry, target)
      return rest === undefined ? [entry] : [entry, `./${rest}`] // a name without a slash would match at any depth
    })
  }
  return more
}

const escaped = (name: string): string => name.replace(/[\\*?[\]{}()!@+,|]/g, '\\$&')

interface SingleFile { target: string, real: string }

export const isFile = (real: string): boolean => statSync(real, { throwIfNoEntry: false })?.isFile() === true

/**
 * Files of one folder of the host that are mounted in one folder under their own names: one mount
 * of that folder, with nothing else visible, and no new files in it. A box has at most eight
 * mounts.
 */
function togetherOf (folder: string, real: string, files: SingleFile[], permissions: PermissionConfig | undefined): [string, Directory] {
  const names = files.map(({ target }) => escaped(path.posix.basename(target)))
  const own = permissionsFor(folder, permissions)
  const rules = [{ pattern: `!{${names.join(',')}}`, deny: ['create', 'modify', 'delete'] as const, priority: FILE_PRIORITY }, ...own?.rules ?? []]
  return [folder, { path: real, permissions: { ...own, rules } as PermissionConfig, loading: { mode: 'explicit', include: names } }]
}

/** A file is a mount of its own, at any place and under any name. */
function aloneOf ({ target, real }: SingleFile, permissions: PermissionConfig | undefined): [string, Directory] {
  return [target, { path: real, kind: 'file', permissions: permissionsFor(path.posix.dirname(target), permissions) }]
}

/** A mount of the whole folder would hide the box's own there, or another mount. */
const isFree = (folder: string, targets: string[]): boolean => folder !== '/' && !WRITABLE.includes(folder) && !targets.some((target) => isAtOrBelow(folder, target))

function filesOf (files: SingleFile[], folders: string[], permissions: PermissionConfig | undefined): Array<[string, Directory]> {
  const groups = new Map<string, SingleFile[]>()
  for (const file of files) {
    const folder = path.posix.dirname(file.target)
    const isTogether = path.posix.basename(file.target) === path.basename(file.real) && isFree(folder, folders)
    const key = JSON.stringify(isTogether ? [folder, path.dirname(file.real)] : [file.target])
    groups.set(key, [...groups.get(key) ?? [], file])
  }
  const taken = new Set<string>()
  return [...groups.values()].flatMap((group) => {
    const { target, real } = group[0] as SingleFile
    const folder = path.posix.dirname(target)
    if (group.length === 1 || taken.has(folder)) return group.map((file) => aloneOf(file, permissions))
    taken.add(folder)
    return [togetherOf(folder, path.dirname(real), group, permissions)]
  })
}

export function checkDirs ({ dirs }: MountConfig): void {
  if (dirs !== null && typeof dirs === 'object') return
  throw new InvalidArgumentError('mount.dirs must be an object of folders in the box to folders of the host')
}

/**
 * Host paths are resolved here, because the daemon has another current directory. A mount without
 * `batch` is manual: its changes are in the result, and nothing is written.
 */
export function mountOf (mount: MountConfig): MountOptions {
  checkDirs(mount)
  const rows = Object.entries(mount.dirs).map(([target, real]) => ({ target: normalized(target), real: path.resolve(real) }))
  const folders = rows.filter(({ real }) => !isFile(real)).map(({ target, real }): [string, string | Directory] => {
    const permissions = permissionsFor(target, mount.permissions)
    return [target, permissions === mount.permissions ? real : { path: real, permissions }]
  })
  const files = filesOf(rows.filter(({ real }) => isFile(real)), folders.map(([target]) => target), mount.permissions)
  const dirs = Object.fromEntries([...folders, ...files])
  return { ...mount, dirs, sync: { mode: 'manual', ...present(mount.sync ?? {}) as object } } as unknown as MountOptions
}
