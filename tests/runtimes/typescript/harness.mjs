// The runtime as its box has it, laid out in a folder of its own for this process.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startAgent } from '../javascript/agent-harness.mjs'

const target = mkdtempSync(join(tmpdir(), 'typescript-'))
process.on('exit', () => rmSync(target, { recursive: true }))
execFileSync(new URL('../../../tools/stage-runtimes', import.meta.url).pathname, [target, '--only', 'typescript'], { stdio: ['ignore', 'ignore', 'inherit'] })

export const folder = `${target}/typescript/`
export const start = (options) => startAgent({ agent: `${folder}agent.cjs`, ...options })
export async function withAgent (options, work) {
  const agent = start(options)
  try {
    return await work(agent)
  } finally {
    agent.stop()
  }
}
