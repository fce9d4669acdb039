// Stores for backups: a directory of this host, or a bucket with R2's interface.
import { randomBytes } from 'node:crypto'
import { access, mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { homedir } from 'node:os'
import path from 'node:path'
import type { BackupBucket } from './types.js'

export interface BackupStore {
  put (key: string, value: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void>
  /** null: there is none. */
  get (key: string): Promise<AsyncIterable<Uint8Array> | null>
  delete (key: string): Promise<void>
  /**
   * Removes expired backups, unless the store itself does. isOver: takes a record and its age;
   * null: it is missing, or damaged.
   */
  prune? (keys: (id: string) => { meta: string }, isOver: (meta: unknown, ageMs: number) => boolean): Promise<void>
}

const stateHome = (): string => process.env['XDG_STATE_HOME'] || path.join(homedir(), '.local/state')

/** Opens the file on the first read, so that no descriptor is held before. */
async function * contents (target: string): AsyncGenerator<Uint8Array, void, undefined> {
  const file = await open(target)
  try {
    yield * file.createReadStream({ autoClose: false }) as AsyncIterable<Uint8Array>
  } finally {
    await file.close()
  }
}

class Directory implements BackupStore {
  constructor (private readonly directory: string) {}

  async put (key: string, value: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    const target = path.join(this.directory, key)
    const beside = `${target}.${randomBytes(6).toString('hex')}`
    await mkdir(path.dirname(target), { recursive: true, mode: 0o700 })
    try {
      const file = await open(beside, 'wx', 0o600)
      try {
        for await (const chunk of value) await file.writeFile(chunk) // at the current position, and all of it: write() may write a part
        await file.sync()
      } finally {
        await file.close()
      }
      await rename(beside, target)
    } catch (thrown) {
      await rm(beside, { force: true })
      throw thrown
    }
  }

  async get (key: string): Promise<AsyncIterable<Uint8Array> | null> {
    const target = path.join(this.directory, key)
    try {
      await access(target)
    } catch (thrown) {
      if ((thrown as NodeJS.ErrnoException).code === 'ENOENT') return null
      throw thrown
    }
    return contents(target)
  }

  async delete (key: string): Promise<void> {
    const target = path.join(this.directory, key)
    await rm(target, { force: true })
    if ((await readdir(path.dirname(target)).catch(() => ['?'])).length === 0) await rm(path.dirname(target), { recursive: true })
  }

  async prune (keys: (id: string) => { meta: string }, isOver: (meta: unknown, ageMs: number) => boolean): Promise<void> {
    for (const id of await readdir(path.join(this.directory, 'backups')).catch(() => [])) {
      const directory = path.join(this.directory, 'backups', id)
      const since = await stat(directory).then(({ mtimeMs }) => mtimeMs, () => Date.now())
      const meta: unknown = await readFile(path.join(this.directory, keys(id).meta), 'utf8').then(JSON.parse).catch(() => null)
      if (isOver(meta, Date.now() - since)) await rm(directory, { recursive: true, force: true })
    }
  }
}

class Bucket implements BackupStore {
  constructor (private readonly bucket: BackupBucket) {}

  async put (key: string, value: AsyncIterable<Uint8Array> | Iterable<Uint8Array>): Promise<void> {
    const chunks: Uint8Array[] = [] // a bucket requires the size beforehand
    for await (const chunk of value) chunks.push(chunk)
    await this.bucket.put(key, Buffer.concat(chunks))
  }

  async get (key: string): Promise<AsyncIterable<Uint8Array> | null> {
    const found = await this.bucket.get(key)
    if (found === null || found === undefined) return null
    const bytes = new Uint8Array(await found.arrayBuffer())
    return (async function * () { yield bytes })()
  }

  async delete (key: string): Promise<void> {
    await this.bucket.delete(key)
  }
}

/** Default: cloche/sandbox-backups in the state directory of the process's user. */
export const backupStoreOf = (backups: string | BackupBucket | undefined): BackupStore =>
  typeof backups === 'object' ? new Bucket(backups) : new Directory(backups ?? path.join(stateHome(), 'cloche/sandbox-backups'))
