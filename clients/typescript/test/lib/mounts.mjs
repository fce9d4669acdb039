// Tries a mount: the reason why the daemon has none, or undefined.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'

export async function mountReason (client) {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-probe-'))
  try {
    const { status, error } = await client.call({ language: 'python', code: 'def f(): return 1', mount: { dirs: { '/data': folder } } })
    return status === 'success' ? undefined : `a mount was tried: ${status} ${error?.message}`
  } catch (thrown) {
    if (process.env.CLOCHE_MUST_WORK === '1') throw thrown
    return `this daemon has no mounts: ${thrown.message}`
  } finally {
    rmSync(folder, { recursive: true })
  }
}
