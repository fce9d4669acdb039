// The state of a tree as one word: nothing is stored, and a stop of the sandbox in between does not matter.
import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { isFileKindError } from '../generated/errors.js'
import type { FileEntry } from './answers.js'
import { entries } from './listing.js'
import type { SandboxHandle } from './native.js'
import { textOf } from './text.js'
import type { Abortable } from './types.js'

/** The kernel's clock for files has steps; a file this young may change again with the same time. */
const STEP_MS = 20
const LOOKS_MAX = 5

async function look (
  box: SandboxHandle, path: string, recursive: boolean, wanted: (path: string) => boolean, options: Abortable
): Promise<{ version: string, newestMs: number }> {
  const hash = createHash('sha256')
  let newestMs = 0
  const add = (entry: FileEntry, name: string): void => {
    const { type, size, mode, modifiedAt, target } = entry
    hash.update(JSON.stringify([name, type, size, mode, modifiedAt, target === undefined ? null : textOf(target)]))
    newestMs = Math.max(newestMs, Date.parse(modifiedAt))
  }
  try {
    for await (const entry of entries(box, path, { recursive, hidden: true }, options)) {
      const name = textOf(entry.relativePath)
      if (wanted(name)) add(entry, name)
    }
  } catch (thrown) {
    // A single file.
    if (!isFileKindError(thrown)) throw thrown
    add(await box.file.stat({ path }, options), '')
  }
  return { version: hash.digest('hex').slice(0, 32), newestMs }
}

export async function versionOf (
  box: SandboxHandle, path: string, recursive: boolean, wanted: (path: string) => boolean, options: Abortable
): Promise<string> {
  for (let looks = 1; ; looks++) {
    const { version, newestMs } = await look(box, path, recursive, wanted, options)
    const ageMs = Date.now() - newestMs
    if (ageMs > STEP_MS || ageMs < 0 || looks === LOOKS_MAX) return version
    await sleep(STEP_MS, undefined, options.signal === undefined ? {} : { signal: options.signal })
  }
}
