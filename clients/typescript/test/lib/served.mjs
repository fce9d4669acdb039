// A listening daemon for a test, for features that a private one lacks: several clients, HTTP, previews.
import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { Cloche } from 'cloche'
import { daemon, until } from './real.mjs'

export async function serve (...args) {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-served-'))
  // A daemon started by root drops to another user, who needs access to its saved files.
  chmodSync(folder, 0o711)
  const socket = path.join(folder, 's')
  const start = async () => {
    const child = spawn(daemon, ['--socket', socket, '--state-dir', path.join(folder, 'state'), ...args], { stdio: ['ignore', 'ignore', 'pipe'] })
    served.log = ''
    child.stderr.on('data', (text) => { served.log += text })
    served.exited = new Promise((resolve) => child.once('exit', (code, signal) => resolve(code ?? signal)))
    served.child = child
    await until(async () => {
      if (child.exitCode !== null) throw new Error(`cloched ended: ${served.log}`)
      return await Cloche.connect({ socket }).then(async (one) => { await one.close(); return true }, () => false)
    }, 'it takes connections')
  }
  const stop = async () => {
    served.child?.kill('SIGTERM')
    return await served.exited
  }
  const served = { folder, socket, start, stop }
  served.end = async () => {
    await stop()
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await start()
    return served
  } catch (thrown) {
    await served.end()
    throw thrown
  }
}
