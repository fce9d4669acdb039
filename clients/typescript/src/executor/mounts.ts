// A mount as its users write it, as the daemon takes it: folders of this process, single files, patterns as from the box's root.
import { statSync } from 'node:fs'
import path from 'node:path'
import { InvalidArgumentError } from '../generated/errors.js'
import { type MountOptions, present } from '../run.js'
import { normalized } from './places.js'
import type { MountConfig, PermissionConfig } from './types.js'

interface Directory { path: string, permissions?: PermissionConfig | undefined, loading?: object }

const FILE_PRIORITY = 1000

/** The part of a pattern below the target, when the pattern begins with it: `/data/out/**` of a mount at /data is `out/**`. */
function below (pattern: unknown, target: string): string | undefined {
  const front = `${target.slice(1)}/`
  const whole = typeof pattern === 'string' ? pattern.replace(/^\.?\/+/, '') : ''
  return whole.startsWith(front) && whole.length > front.length ? whole.slice(front.length) : undefined
}

/** Both meanings hold: below the mount, and as from the root. */
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
      return rest === undefined ? [entry] : [entry, `./${rest}`] // a name without a slash would be meant at any depth
    })
  }
  return more
}

const escaped = (name: string): string => name.replace(/[\\*?[\]{}()!@+,|]/g, '\\$&')

interface SingleFile { target: string, real: string }

/** The directories that hold the files, each with nothing else in sight, and nothing else to be made there. */
function directoriesOf (files: SingleFile[], permissions: PermissionConfig | undefined): Record<string, Directory> {
  const found: Record<string, { real: string, names: string[] }> = {}
  for (const { target, real } of files) {
    const [folder, name] = [path.posix.dirname(target), path.posix.basename(target)]
    if (name !== path.basename(real)) throw new InvalidArgumentError(`mount.dirs: the file ${real} stands under its own name, not as ${target}`)
    if (folder === '/') throw new InvalidArgumentError(`mount.dirs: ${target} needs a directory to stand in`)
    const row = found[folder] ??= { real: path.dirname(real), names: [] }
    if (row.real !== path.dirname(real)) throw new InvalidArgumentError(`mount.dirs: files of ${row.real} and of ${path.dirname(real)} cannot both stand in ${folder}`)
    row.names.push(escaped(name))
  }
  return Object.fromEntries(Object.entries(found).map(([folder, { real, names }]) => {
    const rest = names.length > 1 ? `!{${names.join(',')}}` : `!${String(names[0])}`
    const own = permissionsFor(folder, permissions)
    const rules = [{ pattern: rest, deny: ['create', 'modify', 'delete'] as const, priority: FILE_PRIORITY }, ...own?.rules ?? []]
    return [folder, { path: real, permissions: { ...own, rules } as PermissionConfig, loading: { mode: 'explicit', include: names } }]
  }))
}

export function checkDirs ({ dirs }: MountConfig): void {
  if (dirs !== null && typeof dirs === 'object') return
  throw new InvalidArgumentError('mount.dirs must be an object of folders in the box to folders of the host')
}

/** Host paths are resolved here, because the daemon has another current directory. A mount that does not say
 * `batch` is manual: its changes are in the result, and nothing is written. */
export function mountOf (mount: MountConfig): MountOptions {
  checkDirs(mount)
  const rows = Object.entries(mount.dirs).map(([target, real]) => ({ target: normalized(target), real: path.resolve(real) }))
  const isFile = ({ real }: SingleFile): boolean => statSync(real, { throwIfNoEntry: false })?.isFile() === true
  const folders = rows.filter((row) => !isFile(row)).map(({ target, real }): [string, string | Directory] => {
    const permissions = permissionsFor(target, mount.permissions)
    return [target, permissions === mount.permissions ? real : { path: real, permissions }]
  })
  const dirs = { ...Object.fromEntries(folders), ...directoriesOf(rows.filter(isFile), mount.permissions) }
  return { ...mount, dirs, sync: { mode: 'manual', ...present(mount.sync ?? {}) as object } } as unknown as MountOptions
}
