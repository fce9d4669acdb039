import type { FileEntry } from './answers.js'
import type { SandboxHandle } from './native.js'
import { textOf } from './text.js'
import type { Abortable, FileInfo } from './types.js'

const bits = (mode: number): string => [...'rwxrwxrwx'].map((letter, i) => (mode >> (8 - i)) & 1 ? letter : '-').join('')

export function infoOf (entry: FileEntry): FileInfo {
  const { type, size, mode, modifiedAt, target } = entry
  return {
    name: textOf(entry.name),
    absolutePath: textOf(entry.path),
    relativePath: textOf(entry.relativePath),
    type,
    size,
    modifiedAt,
    mode: bits(mode),
    permissions: { readable: (mode & 0o400) !== 0, writable: (mode & 0o200) !== 0, executable: (mode & 0o100) !== 0 },
    ...target === undefined ? {} : { target: textOf(target) }
  }
}

/** All entries, however many pages they come in. */
export async function * entries (
  box: SandboxHandle, path: string, options: { recursive?: boolean | undefined, hidden?: boolean | undefined }, { signal }: Abortable
): AsyncGenerator<FileEntry, void, undefined> {
  for (let after: string | undefined; ;) {
    const page = await box.file.list({ path, ...options, after }, { signal })
    yield* page.entries
    after = page.next
    if (after === undefined) return
  }
}
