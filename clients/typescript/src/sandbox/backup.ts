// Copies of a directory that outlive their sandbox: an archive and its record, kept on this host or in a bucket.
import { randomBytes, randomUUID } from 'node:crypto'
import { Readable } from 'node:stream'
import { backupCommands } from '../generated/backups.js'
import { fail } from './translate.js'
import { BackupCreateError, BackupExpiredError, BackupNotFoundError, BackupRestoreError, InvalidBackupConfigError, isSandboxError } from './errors.js'
import type { Asker } from './core.js'
import { pieces, write } from './content.js'
import type { SandboxHandle } from './native.js'
import type { BackupStore } from './backup-store.js'
import { textOf } from './text.js'
import type { Abortable, BackupOptions, DirectoryBackup, RestoreBackupResult } from './types.js'

const ROOTS = ['/workspace', '/home', '/tmp', '/var/tmp', '/app']
const TTL_S = 259_200
const NAME_MAX = 256
/** A backup with less time left counts as expired: its restore would not finish in time. */
const TTL_LEFT_MS = 60_000
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i
const FORMATS: Record<string, string> = { gzip: 'tar.gz', zstd: 'tar.zst' }

interface Meta { id: string, dir: string, name: string | null, sizeBytes: number, ttl: number, createdAt: string }

const bad = (reason: string): Error => fail(InvalidBackupConfigError, 'INVALID_BACKUP_CONFIG', 400, reason, { reason })

function checkDir (dir: unknown, label: string): void {
  if (typeof dir !== 'string' || !dir.startsWith('/')) throw bad(`${label} must be an absolute path`)
  if (dir.includes('\0') || dir.split('/').includes('..')) throw bad(`${label} must not contain NUL or ".."`)
  if (!ROOTS.some((root) => dir === root || dir.startsWith(`${root}/`))) throw bad(`${label} must be inside one of ${ROOTS.join(', ')}`)
}

function check ({ dir, name, ttl = TTL_S, gitignore = false, excludes = [], compression }: BackupOptions): string {
  checkDir(dir, 'BackupOptions.dir')
  if (name !== undefined && (typeof name !== 'string' || name.length > NAME_MAX)) throw bad(`BackupOptions.name must be a string of at most ${NAME_MAX} characters`)
  if (name !== undefined && /[\u0000-\u001f\u007f]/.test(name)) throw bad('BackupOptions.name must not contain control characters')
  if (!Number.isFinite(ttl) || ttl <= 0) throw bad('BackupOptions.ttl must be a positive number of seconds, and finite')
  if (typeof gitignore !== 'boolean') throw bad('BackupOptions.gitignore must be a boolean')
  if (!Array.isArray(excludes) || !excludes.every((glob) => typeof glob === 'string')) throw bad('BackupOptions.excludes must be an array of strings')
  if (compression !== undefined && (compression === null || typeof compression !== 'object')) {
    throw bad(`BackupOptions.compression is ${JSON.stringify(compression)}; an object is expected: {format: 'gzip'} or {format: 'zstd'}`)
  }
  const format = FORMATS[compression?.format ?? 'zstd']
  if (format === undefined) throw bad(`BackupOptions.compression.format is ${JSON.stringify(compression?.format)}; gzip and zstd are there`)
  return format
}

const globOf = (path: string): string => (path.includes('/') ? '' : '/') + path.replace(/[*?[\]{}()!+@\\]/g, '\\$&')

async function run (box: SandboxHandle, command: string, env: Record<string, string>, signal: AbortSignal | undefined): Promise<string> {
  const { exitCode, stdout, stderr } = await box.exec({ command, env, fork: true }, { signal })
  if (exitCode !== 0) throw new Error(textOf(stderr) === '' ? `exit code ${exitCode}` : textOf(stderr).trim())
  return textOf(stdout)
}

async function ignored (box: SandboxHandle, dir: string, signal: AbortSignal | undefined): Promise<string[]> {
  const printed = await run(box, backupCommands.ignored, { CLOCHE_DIR: dir }, signal)
  return printed.split('\0').filter((path) => path !== '').map((path) => globOf(path.replace(/\/$/, '')))
}

/** The file's bytes; fails at the end if their number is unexpected. */
async function * contents (box: SandboxHandle, path: string, sizeBytes: number, signal: AbortSignal | undefined): AsyncGenerator<Uint8Array, void, undefined> {
  let read = 0
  for await (const { content } of pieces(box, path, { signal })) {
    read += content.length
    yield content
  }
  if (read !== sizeBytes) throw new Error(`${read} of ${sizeBytes} bytes of the archive came: something in the sandbox changed ${path}`)
}

const keys = (id: string): { data: string, meta: string } => ({ data: `backups/${id}/data`, meta: `backups/${id}/meta.json` })

async function pack (box: SandboxHandle, store: BackupStore, id: string, format: string, options: BackupOptions & Abortable): Promise<DirectoryBackup> {
  const { dir, name, ttl = TTL_S, gitignore = false, excludes = [], signal } = options
  const archive = `/tmp/.backup-${id}`
  try {
    const exclude = gitignore ? [...excludes, ...await ignored(box, dir, signal)] : [...excludes]
    await box.archive.create({ path: dir, to: archive, format, exclude }, { signal })
    const { size: sizeBytes } = await box.file.stat({ path: archive }, { signal })
    const meta: Meta = { id, dir, name: name ?? null, sizeBytes, ttl, createdAt: new Date().toISOString() }
    await store.put(keys(id).data, contents(box, archive, sizeBytes, signal))
    await store.put(keys(id).meta, [Buffer.from(JSON.stringify(meta))])
    return { id, dir, ...options.localBucket === undefined ? {} : { localBucket: options.localBucket } }
  } catch (thrown) {
    await Promise.allSettled([store.delete(keys(id).data), store.delete(keys(id).meta)])
    throw thrown
  } finally {
    await box.file.remove({ path: archive, force: true }).catch(() => {})
  }
}

/** The façade's own errors are kept; all others get one class. */
const failed = (made: typeof BackupCreateError, code: string, thrown: unknown, context: { dir: string, backupId: string }): unknown =>
  isSandboxError(thrown) || !(thrown instanceof Error) || thrown.name === 'AbortError' ? thrown : fail(made, code, 500, thrown.message, context)

/** Packs a directory of the sandbox and keeps the archive. */
export async function createBackup (ask: Asker, store: BackupStore, options: BackupOptions & Abortable): Promise<DirectoryBackup> {
  const format = check(options)
  const id = randomUUID()
  const context = { dir: options.dir, backupId: id }
  try {
    await store.prune?.(keys, (meta, ageMs) => isMeta(meta) ? isOver(meta) : ageMs > TTL_S * 1000)
    return await ask('archive.create', context, async (box) => await pack(box, store, id, format, options))
  } catch (thrown) {
    throw failed(BackupCreateError, 'BACKUP_CREATE_FAILED', thrown, context)
  }
}

const isMeta = (value: unknown): value is Meta =>
  typeof value === 'object' && value !== null && typeof (value as Meta).ttl === 'number' && !Number.isNaN(Date.parse((value as Meta).createdAt))

const isOver = ({ createdAt, ttl }: Meta): boolean => Date.now() + TTL_LEFT_MS > new Date(createdAt).getTime() + ttl * 1000

function parsed (text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

async function metaOf (store: BackupStore, id: string): Promise<Meta> {
  const found = await store.get(keys(id).meta)
  if (found === null) throw fail(BackupNotFoundError, 'BACKUP_NOT_FOUND', 404, `there is no backup ${id}`, { backupId: id })
  const chunks: Uint8Array[] = []
  for await (const chunk of found) chunks.push(chunk)
  const meta = parsed(Buffer.concat(chunks).toString())
  if (!isMeta(meta)) throw new Error(`the record of the backup ${id} is damaged (${keys(id).meta}): make another backup`)
  if (!isOver(meta)) return meta
  const expiredAt = new Date(new Date(meta.createdAt).getTime() + meta.ttl * 1000).toISOString()
  throw fail(BackupExpiredError, 'BACKUP_EXPIRED', 400, `the backup ${id} expires at ${expiredAt}, and is not restored in its last minute: make one with a longer ttl`, { backupId: id, expiredAt })
}

async function unpack (box: SandboxHandle, data: AsyncIterable<Uint8Array>, id: string, dir: string, signal: AbortSignal | undefined): Promise<void> {
  const archive = `/tmp/.backup-${id}-${randomBytes(6).toString('hex')}`
  const beside = `.cloche-restore-${randomBytes(6).toString('hex')}`
  try {
    await write(box, { path: archive }, Readable.toWeb(Readable.from(data)) as ReadableStream<Uint8Array>, { signal })
    await box.archive.extract({ path: archive, to: `${dir}/${beside}` }, { signal })
    await run(box, backupCommands.exchange, { CLOCHE_DIR: dir, CLOCHE_NEW: beside }, signal)
  } finally {
    await box.file.remove({ path: archive, force: true }).catch(() => {})
  }
}

/** The directory gets exactly the backup's contents; the whole archive is verified before anything is deleted. */
export async function restoreBackup (ask: Asker, store: BackupStore, backup: DirectoryBackup, { signal }: Abortable): Promise<RestoreBackupResult> {
  const { id, dir } = backup
  if (typeof id !== 'string' || !ID.test(id)) throw bad('the backup has no id that createBackup gave')
  checkDir(dir, 'backup.dir')
  const context = { dir, backupId: id }
  try {
    await metaOf(store, id)
    const data = await store.get(keys(id).data)
    if (data === null) throw fail(BackupNotFoundError, 'BACKUP_NOT_FOUND', 404, `the archive of the backup ${id} is gone`, { backupId: id })
    await ask('archive.extract', context, async (box) => { await unpack(box, data, id, dir, signal) })
    return { success: true, id, dir }
  } catch (thrown) {
    throw failed(BackupRestoreError, 'BACKUP_RESTORE_FAILED', thrown, context)
  }
}
