// A place is an empty directory of the host, mounted for one call where a box has no writable
// directory: `/app`, `/custom/path`; a file that lies in `/` or /home itself is a mount of its own.
// Everything is permitted there, as without a mount. The result has the changes; the directory is removed.
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { InvalidArgumentError } from '../generated/errors.js'
import { givenContents } from './before.js'
import type { MountConfig } from './types.js'

const TEMPORARY = ['/tmp', '/home/cloche']
export const WRITABLE = ['/workspace', ...TEMPORARY]
const CLOSED = ['/proc', '/dev', '/sys', '/run', '/etc']
/** Read-only folders of the image. */
const SYSTEM = ['/usr', '/bin', '/sbin', '/lib', '/lib32', '/lib64']
/** Mounts of a box. */
const PLACES_MAX = 8
const EVERYTHING = { read: true, list: true, create: true, modify: true, delete: true }

/** Without a slash at the end, `.` and empty parts. */
export const normalized = (name: string): string => path.posix.normalize(name).replace(/(.)\/$/, '$1')

export const isAtOrBelow = (name: string, folder: string): boolean => name === folder || name.startsWith(`${folder}/`)

/** The top-level directory, or the one below /home, /tmp or the home, that must exist for this path. */
function placeOf (name: string): string {
  const temporary = TEMPORARY.find((folder) => isAtOrBelow(name, folder))
  if (temporary !== undefined) return [temporary, ...name.slice(temporary.length + 1).split('/').slice(0, 1)].filter((part) => part !== '').join('/')
  const [, first = '', second = ''] = name.split('/')
  return first === 'home' && second !== '' ? `/home/${second}` : `/${first}`
}

interface Given { option: 'workdir' | 'files', name: string }

function placesOf (all: Given[], targets: string[]): string[] {
  const found = new Set<string>()
  for (const { option, name: given } of all) {
    const name = path.posix.normalize(given)
    if (name === '/') throw new InvalidArgumentError(`${option}: "/" itself is read-only in a box; choose /workspace, or another folder such as /app`)
    const isThere = [...WRITABLE, ...targets].some((folder) => isAtOrBelow(name, folder))
    const closed = (isThere ? CLOSED : [...CLOSED, ...SYSTEM]).find((folder) => isAtOrBelow(name, folder))
    if (closed !== undefined) {
      throw new InvalidArgumentError(`${option}: ${JSON.stringify(given)} lies below ${closed}, which is the box's own; choose /workspace, or another folder such as /app`)
    }
    if (!isThere) found.add(placeOf(name))
  }
  return [...found]
}

function temporaryOf (workdir: unknown, targets: string[], isAsked: boolean): string[] {
  const name = typeof workdir === 'string' ? normalized(workdir) : ''
  const wanted = isAsked ? TEMPORARY : TEMPORARY.some((folder) => isAtOrBelow(name, folder)) ? [placeOf(name)] : []
  // Mounts of the caller report changes anyway.
  return wanted.filter((place) => !targets.some((target) => isAtOrBelow(place, target)))
}

export class Places implements Disposable {
  private readonly folders = new Map<string, string>()
  /** Places that are files: their names are free for nothing else. */
  private readonly singles = new Map<string, string>()
  private readonly given: Set<string>
  /** Mounts of the caller: they may lie in places, but no place lies in them. */
  private readonly targets: string[]

  /** hasTemporary: report changes below /tmp and the home. Changes in the working directory are always reported. */
  constructor (workdir: unknown, files: object | undefined, mount: MountConfig | undefined, hasTemporary: boolean) {
    const targets = Object.keys(mount?.dirs ?? {}).map(normalized)
    this.targets = targets
    const own: Given[] = typeof workdir === 'string' ? [{ option: 'workdir', name: workdir }] : []
    const names = [...own, ...Object.keys(files ?? {}).map((name): Given => ({ option: 'files', name }))].filter(({ name }) => name.startsWith('/'))
    this.given = new Set(Object.keys(files ?? {}).map((name) => path.posix.resolve(typeof workdir === 'string' ? workdir : '/', name)))
    const places = [...placesOf(names, targets), ...temporaryOf(workdir, targets, hasTemporary)]
    if (places.length > PLACES_MAX) {
      throw new InvalidArgumentError(`${names.at(-1)?.option}: ${places.slice(0, 3).join(', ')} and more are ${places.length} places, each a mount; a box has ${PLACES_MAX} at most: put them into one folder such as /data`)
    }
    for (const place of places) this.folders.set(place, mkdtempSync(path.join(tmpdir(), 'cloche-place-')))
    this.makeSingles(files)
  }

  private makeSingles (files: object | undefined): void {
    for (const [name, { content, mode }] of givenContents(files, '/')) {
      const folder = this.folders.get(name)
      if (folder === undefined) continue
      const file = path.join(folder, path.posix.basename(name))
      writeFileSync(file, content)
      chmodSync(file, mode)
      this.singles.set(name, file)
    }
  }

  /** The call's files, but those that are places themselves. */
  rest (files: object | undefined): object | undefined {
    if (files === undefined || files === null || this.isEmpty) return files
    const isPlace = (name: string, file: unknown): boolean => {
      const place = name.startsWith('/') ? normalized(name) : ''
      return this.singles.has(place) || (this.folders.has(place) && (Object(file) as { directory?: unknown }).directory === true)
    }
    return Object.fromEntries(Object.entries(files).filter(([name, file]) => !isPlace(name, file)))
  }

  get isEmpty (): boolean {
    return this.folders.size === 0
  }

  has (name: string): boolean {
    return [...this.folders.keys()].some((place) => isAtOrBelow(name, place)) && !this.targets.some((target) => isAtOrBelow(name, target))
  }

  /** One of the call's own files, in a place. */
  isGiven (name: string): boolean {
    return this.given.has(name) && this.has(name)
  }

  /** For mount.dirs. */
  dirs (): Record<string, object> {
    const permissions = { default: EVERYTHING }
    return Object.fromEntries([...this.folders].map(([place, folder]) => {
      const single = this.singles.get(place)
      return [place, single === undefined ? { path: folder, permissions } : { path: single, kind: 'file', permissions }]
    }))
  }

  [Symbol.dispose] (): void {
    for (const folder of this.folders.values()) rmSync(folder, { recursive: true, force: true })
  }
}
