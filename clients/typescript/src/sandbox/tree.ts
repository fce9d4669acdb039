// Trees between the host and a sandbox. Uploads are sent as an archive, which the sandbox unpacks
// with its own checks. Downloads come entry by entry: names and links from a guest are not trusted.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, type FileHandle, lstat, mkdir, mkdtemp, open, readdir, readlink, rename, rm, symlink, utimes } from 'node:fs/promises'
import path from 'node:path'
import type { FileEntry } from './answers.js'
import { pieces, write } from './content.js'
import { matches } from './globs.js'
import { entries } from './listing.js'
import type { SandboxHandle } from './native.js'
import { archiveEnd, type Member, memberHead, memberTail } from './tar.js'
import { textOf } from './text.js'
import { invalid } from './translate.js'
import type { Abortable, DownloadResult, TreeResult } from './types.js'

export interface TreeOptions extends Abortable {
  /** Globs of files to skip; default: none. */
  exclude?: string[]
  /** Maximum of a download; default 4 GiB. A guest's sparse files may be larger than their data. */
  maxBytes?: number
}

const READ_BYTES = 2 ** 20
const MAX_BYTES = 4 * 2 ** 30
const AT_ONCE = 8

// -- up

async function * walk (root: string, below: string, wanted: (path: string) => boolean): AsyncGenerator<{ member: Member, file: string }> {
  const names = (await readdir(path.join(root, below))).sort()
  for (const name of names) {
    const relative = below === '' ? name : `${below}/${name}`
    if (!wanted(relative)) continue
    const file = path.join(root, relative)
    const { mode, mtimeMs, size, ...found } = await lstat(file).then((stat) => ({
      mode: stat.mode, mtimeMs: stat.mtimeMs, size: stat.size, isFile: stat.isFile(), isDirectory: stat.isDirectory(), isLink: stat.isSymbolicLink()
    }))
    const about = { path: relative, mode, mtimeMs }
    if (found.isFile) yield { file, member: { ...about, type: 'file', size } }
    else if (found.isLink) yield { file, member: { ...about, type: 'symlink', size: 0, target: await readlink(file) } }
    else if (found.isDirectory) {
      yield { file, member: { ...about, type: 'directory', size: 0 } }
      yield* walk(root, relative, wanted)
    } else throw invalid(`uploadTree: ${file} is no file, directory or link`, { path: file })
  }
}

async function * contents (file: string, size: number): AsyncGenerator<Uint8Array, void, undefined> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW)
  try {
    for (let at = 0; at < size;) {
      const { bytesRead, buffer } = await handle.read(Buffer.allocUnsafe(Math.min(READ_BYTES, size - at)), 0, null, at)
      if (bytesRead === 0) throw invalid(`uploadTree: ${file} became shorter while it was read`, { path: file })
      yield buffer.subarray(0, bytesRead)
      at += bytesRead
    }
  } finally {
    await handle.close()
  }
}

async function * archive (root: string, wanted: (path: string) => boolean): AsyncGenerator<Uint8Array, void, undefined> {
  for await (const { member, file } of walk(root, '', wanted)) {
    yield memberHead(member)
    if (member.type !== 'file') continue
    yield* contents(file, member.size)
    yield memberTail(member.size)
  }
  yield archiveEnd()
}

function streamOf (chunks: AsyncGenerator<Uint8Array, void, undefined>): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>({
    async pull (controller) {
      const { done, value } = await chunks.next()
      if (done === true) controller.close()
      else if (value.length > 0) controller.enqueue(value)
      else await this.pull?.(controller)
    },
    async cancel () {
      await chunks.return()
    }
  }, { highWaterMark: 0 })
}

export async function upload (box: SandboxHandle, local: string, to: string, { exclude = [], signal }: TreeOptions): Promise<TreeResult> {
  if (!(await lstat(local)).isDirectory()) throw invalid(`uploadTree: ${local} is no directory; writeFile takes files`, { path: local })
  const packed = `/tmp/.cloche-upload-${randomBytes(8).toString('hex')}.tar`
  try {
    await write(box, { path: packed }, streamOf(archive(local, matches(undefined, exclude))), { signal })
    const { files, bytes } = await box.archive.extract({ path: packed, to }, { signal })
    return { path: local, to, files, bytes }
  } finally {
    await box.file.remove({ path: packed, force: true }).catch(() => {})
  }
}

// -- down

interface Wanted { entry: FileEntry, name: string }

/** The reason why an entry is skipped, or undefined. */
function unfit ({ relativePath, type, target }: FileEntry): string | undefined {
  if (typeof relativePath !== 'string') return 'its name is no UTF-8'
  const names = relativePath.split('/')
  if (relativePath.includes('\0') || names.some((name) => name === '' || name === '.' || name === '..')) return 'its name is no path below the tree'
  if (type === 'other') return 'it is no file, directory or link'
  if (type !== 'symlink') return undefined
  return typeof target === 'string' && staysInside(names.length - 1, target) ? undefined : 'the link leads out of the tree'
}

// A `..` after a name may come after another link, and then leads elsewhere than its text suggests.
function staysInside (depth: number, target: string): boolean {
  const steps = target.split('/').filter((step) => step !== '' && step !== '.')
  const ups = steps.findIndex((step) => step !== '..')
  const leading = ups === -1 ? steps.length : ups
  return target !== '' && !target.startsWith('/') && !target.includes('\0') && leading <= depth && !steps.slice(leading).includes('..')
}

class Budget {
  used = 0

  constructor (private readonly most: number) {}

  take (bytes: number): void {
    this.used += bytes
    if (this.used > this.most) throw invalid(`downloadTree: the tree has more than ${this.most} bytes (maxBytes)`, { maxBytes: this.most })
  }
}

async function fetchFile (box: SandboxHandle, { entry }: Wanted, to: string, budget: Budget, options: Abortable): Promise<void> {
  const file: FileHandle = await open(to, constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW, 0o600)
  try {
    for await (const { content } of pieces(box, textOf(entry.path), options)) {
      budget.take(content.length)
      await file.writeFile(content)
    }
    await file.chmod(entry.mode & 0o777)
    const modified = new Date(entry.modifiedAt)
    await file.utimes(modified, modified)
  } finally {
    await file.close()
  }
}

async function atOnce<T> (items: T[], act: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values()
  const worker = async (): Promise<void> => { for (const item of rest) await act(item) }
  const results = await Promise.allSettled(Array.from({ length: AT_ONCE }, worker))
  const failed = results.find((result) => result.status === 'rejected')
  if (failed !== undefined) throw failed.reason
}

async function fill (box: SandboxHandle, wanted: Wanted[], staging: string, options: TreeOptions): Promise<number> {
  const budget = new Budget(options.maxBytes ?? MAX_BYTES)
  const of = (type: string): Wanted[] => wanted.filter(({ entry }) => entry.type === type)
  for (const { name } of of('directory')) await mkdir(path.join(staging, name), { mode: 0o700, recursive: true })
  await atOnce(of('file'), async (item) => { await fetchFile(box, item, path.join(staging, item.name), budget, options) })
  // Links last, so that no write goes through one; directories get their modes after their contents.
  for (const { entry, name } of of('symlink')) await symlink(textOf(entry.target ?? ''), path.join(staging, name))
  for (const { entry, name } of of('directory').reverse()) {
    const modified = new Date(entry.modifiedAt)
    await utimes(path.join(staging, name), modified, modified)
    await chmod(path.join(staging, name), entry.mode & 0o777)
  }
  return budget.used
}

async function isFree (local: string): Promise<boolean> {
  try {
    return (await readdir(local)).length === 0
  } catch (thrown) {
    return (thrown as NodeJS.ErrnoException).code === 'ENOENT'
  }
}

export async function download (box: SandboxHandle, from: string, local: string, options: TreeOptions): Promise<DownloadResult> {
  const { exclude = [], signal } = options
  const isWanted = matches(undefined, exclude)
  if (!await isFree(local)) throw invalid(`downloadTree: ${local} is there and no empty directory`, { path: local })
  const wanted: Wanted[] = []
  const skipped: DownloadResult['skipped'] = []
  for await (const entry of entries(box, from, { recursive: true, hidden: true }, { signal })) {
    const name = textOf(entry.relativePath)
    if (!isWanted(name)) continue
    const reason = unfit(entry)
    if (reason === undefined) wanted.push({ entry, name })
    else skipped.push({ path: name, reason })
  }
  const place = path.resolve(local)
  const staging = await mkdtemp(path.join(path.dirname(place), `.${path.basename(place)}.`))
  try {
    const bytes = await fill(box, wanted, staging, options)
    await chmod(staging, 0o755)
    await rename(staging, place)
    return { path: from, to: local, files: wanted.length, bytes, skipped }
  } catch (thrown) {
    await rm(staging, { recursive: true, force: true })
    throw thrown
  }
}
