// Trees of files in memory: built for `files` of a request, and tracked for changes by code of the host.
import { lstat, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { PermissionDeniedError, PermissionResolver } from './permissions.js'
import { globTest } from './glob.js'
import type { FileChange, Permission, PermissionDeniedBehavior, PermissionDeniedRecord } from './types.js'

export interface WASITimestamps { access: Date, modification: Date, change: Date }
export type WASIFile = { path: string, timestamps: WASITimestamps } & ({ mode: 'string', content: string } | { mode: 'binary', content: Uint8Array })
export type WASIFS = Record<string, WASIFile>

function fileOf (name: string, content: string | Uint8Array, modified = new Date()): WASIFile {
  const timestamps = { access: modified, modification: modified, change: modified }
  return typeof content === 'string' ? { path: name, timestamps, mode: 'string', content } : { path: name, timestamps, mode: 'binary', content }
}

export interface LoadOptions { maxFileSize?: number, maxTotalSize?: number, exclude?: string[] }

/** Collects files; the result of build() can be the `files` of a request. */
export class FSBuilder {
  private files: WASIFS = {}
  private readonly workdir: string

  constructor ({ workdir = '/workspace' }: { workdir?: string } = {}) {
    this.workdir = workdir
  }

  private add (name: string, content: string | Uint8Array, modified?: Date): this {
    const whole = path.posix.resolve(this.workdir, name)
    this.files[whole] = fileOf(whole, content, modified)
    return this
  }

  addEntryFile (filename: string, content: string): this {
    return this.add(filename, content)
  }

  addFiles (files: Record<string, string | Uint8Array>): this {
    for (const [name, content] of Object.entries(files)) this.add(name, content)
    return this
  }

  /** Symbolic links, and files over a bound, are left out. */
  async loadFromDisk (virtualPath: string, realPath: string, { maxFileSize = Infinity, maxTotalSize = Infinity, exclude = [] }: LoadOptions = {}): Promise<this> {
    const tests = exclude.flatMap((entry) => entry.includes('/') ? [entry, `${entry}/**`] : [`**/${entry}`, `**/${entry}/**`]).map(globTest)
    let total = 0
    const load = async (below: string): Promise<void> => {
      const real = path.join(realPath, below)
      const about = await lstat(real)
      if (below !== '' && tests.some((test) => test(below))) return
      if (about.isDirectory()) {
        for (const name of (await readdir(real)).sort()) await load(below === '' ? name : `${below}/${name}`)
      } else if (about.isFile() && about.size <= maxFileSize && total + about.size <= maxTotalSize) {
        total += about.size
        this.add(path.posix.join(virtualPath, below), new Uint8Array(await readFile(real)), about.mtime)
      }
    }
    await load('')
    return this
  }

  build (): WASIFS {
    return { ...this.files }
  }

  clear (): this {
    this.files = {}
    return this
  }
}

const bytesOf = ({ content }: WASIFile): Uint8Array => typeof content === 'string' ? new Uint8Array(Buffer.from(content)) : content
const isSame = (a: WASIFile, b: WASIFile): boolean => Buffer.compare(bytesOf(a), bytesOf(b)) === 0

/** A tree that checks and reports each change made by code of this process. Changes in a box are reported in the result of its run. */
export class TrackedFileSystem {
  private readonly original: WASIFS
  private readonly denied: PermissionDeniedRecord[] = []
  private changed: WASIFS

  constructor (
    private readonly fs: WASIFS, private readonly resolver: PermissionResolver = PermissionResolver.allowAll(),
    private readonly onDenied: PermissionDeniedBehavior = 'throw'
  ) {
    this.original = { ...fs }
    this.changed = fs
  }

  getProxy (): WASIFS {
    return new Proxy(this.fs, {
      set: (target, name: string, file: WASIFile) => {
        if (this.may(name, Object.hasOwn(target, name) ? 'modify' : 'create')) target[name] = file
        return true
      },
      deleteProperty: (target, name: string) => {
        // eslint-disable-next-line @typescript-eslint/no-dynamic-delete
        if (Object.hasOwn(target, name) && this.may(name, 'delete')) delete target[name]
        return true
      }
    })
  }

  /** True if it is done: virtual writes are, though denied. */
  private may (name: string, operation: Permission): boolean {
    const { [operation]: allowed, matchedRule } = this.resolver.resolve(name)
    if (allowed) return true
    this.denied.push({ path: name, operation, ...matchedRule === undefined ? {} : { rule: matchedRule }, timestamp: new Date() })
    if (this.onDenied === 'throw') throw new PermissionDeniedError(name, operation)
    return this.onDenied === 'virtual'
  }

  /** getChanges compares this tree with its earlier state; by default the tracked one. */
  diffWithOriginal (fs: WASIFS = this.fs): void {
    this.changed = fs
  }

  getChanges (): { created: FileChange[], modified: FileChange[], deleted: FileChange[], denied: PermissionDeniedRecord[] } {
    const isVirtual = ({ path: name }: FileChange): boolean => this.denied.some((denial) => denial.path === name)
    const told = (changes: FileChange[]): FileChange[] => changes.filter((change) => !isVirtual(change))
    const now = Object.entries(this.changed)
    const change = (type: FileChange['type'], name: string, file: WASIFile, old?: WASIFile): FileChange => ({
      type,
      path: name,
      ...type === 'delete' ? {} : { content: bytesOf(file) },
      ...old === undefined ? {} : { oldContent: bytesOf(old) },
      size: bytesOf(file).length,
      timestamp: file.timestamps.modification
    })
    const old = (name: string): WASIFile | undefined => Object.hasOwn(this.original, name) ? this.original[name] : undefined
    return {
      created: told(now.filter(([name]) => old(name) === undefined).map(([name, file]) => change('create', name, file))),
      modified: told(now.flatMap(([name, file]) => {
        const before = old(name)
        return before === undefined || isSame(before, file) ? [] : [change('modify', name, file, before)]
      })),
      deleted: told(Object.entries(this.original).filter(([name]) => !Object.hasOwn(this.changed, name)).map(([name, file]) => change('delete', name, file, file))),
      denied: [...this.denied]
    }
  }
}
