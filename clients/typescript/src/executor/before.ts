// Adds `oldContent` to changes: from the call's own files, or from the host's if the mount wrote
// nothing. A file rewritten with the same bytes is no change.
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import type { Change, Result } from '../run.js'

/** Larger files are not read. */
const OLD_BYTES_MAX = 2 ** 20

const bytesOf = (content: unknown): Uint8Array | undefined =>
  typeof content === 'string' ? new Uint8Array(Buffer.from(content)) : content instanceof Uint8Array ? content : undefined

interface Old { content: Uint8Array, mode: number }

/** The default mode of a file. */
const MODE = 0o644

/** files: the call's own, by any path; workdir: the base of relative ones. */
export function givenContents (files: object | undefined, workdir: string): Map<string, Old> {
  const found = new Map<string, Old>()
  for (const [name, file] of Object.entries(files ?? {})) {
    const { content: inside, mode } = Object(file) as { content?: unknown, mode?: unknown }
    const content = bytesOf(file) ?? bytesOf(inside)
    if (content !== undefined) found.set(path.posix.resolve(workdir, name), { content, mode: typeof mode === 'number' && mode !== 0 ? mode & 0o7777 : MODE })
  }
  return found
}

function onHost (realPath: string): Old | undefined {
  const about = statSync(realPath, { throwIfNoEntry: false })
  if (about?.isFile() !== true || about.size > OLD_BYTES_MAX) return undefined
  try {
    return { content: new Uint8Array(readFileSync(realPath)), mode: about.mode & 0o7777 }
  } catch {
    return undefined // the daemon may read what this process may not
  }
}

const isSame = ({ content, mode }: Change, old: Old): boolean =>
  Buffer.compare(bytesOf(content) as Uint8Array, old.content) === 0 && (mode === undefined || (mode & 0o7777) === old.mode)

export function withOldContents<T> (result: Result<T>, given: Map<string, Old>): Result<T> {
  const isWritten = result.sync !== undefined
  const oldOf = ({ path: name, realPath }: Change): Old | undefined => {
    const own = given.get(String(name))
    if (own !== undefined) return own
    return realPath === undefined || isWritten ? undefined : onHost(realPath)
  }
  const add = (change: Change): Change[] => {
    if (change.kind !== undefined && change.kind !== 'file') return [change]
    const old = oldOf(change)
    if (old === undefined) return [change]
    if (change.type === 'modified' && change.content !== undefined && isSame(change, old)) return []
    return [{ ...change, oldContent: old.content }]
  }
  const { modified, deleted } = result.files
  return { ...result, files: { ...result.files, modified: modified.flatMap(add), deleted: deleted.flatMap(add) } }
}
