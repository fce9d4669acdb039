// The public examples of @cloudflare/sandbox, as the genuine clients run them, with the façade.
import { after, test } from 'node:test'
import { rmSync } from 'node:fs'
import path from 'node:path'
import { collectFile, getSandbox, parseSSEStream, streamFile } from 'cloche/sandbox'
import { examples } from '../../../tests/container/examples.mjs'
import { daemon, real } from './lib/real.mjs'
import { serve } from './lib/served.mjs'

if (daemon === undefined) {
  test('the examples of the sandbox package', real, () => {})
} else {
  const served = await serve('--preview-host', 'preview.test')
  const ns = { socket: served.socket, backups: path.join(served.folder, 'backups') }
  const sandbox = getSandbox(ns, 'walk')
  after(async () => {
    await sandbox.destroy()
    await served.end()
    rmSync(served.folder, { recursive: true, force: true })
  })
  examples({ sandbox, name: 'walk', isNew: true, isFacade: true, parseSSEStream, streamFile, collectFile, backups: () => getSandbox(ns, 'walk-backups') })
}
