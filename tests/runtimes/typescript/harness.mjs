// The built runtime as its box has it, copied to a folder of its own for this process.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { built, startAgent } from '../javascript/agent-harness.mjs'

const target = mkdtempSync(join(tmpdir(), 'typescript-'))
process.on('exit', () => rmSync(target, { recursive: true }))
cpSync(join(built, 'typescript'), join(target, 'typescript'), { recursive: true })

export const folder = `${target}/typescript/`
// As in tests/lib/runtimes.py: templates rehearse once, which saves each 1.5 s of processor time.
for (const name of process.env.CLOCHE_TEST_ALL === '1' ? [] : ['template.cjs', 'language.cjs']) {
  const code = readFileSync(folder + name, 'utf8')
  const less = code.replace(/^(const (?:REHEARSALS|EVALUATIONS|COMPILINGS)) = \d+/gm, '$1 = 1')
  if (less === code) throw new Error(`${name} says otherwise how often it rehearses`)
  writeFileSync(folder + name, less)
}
export const start = (options) => startAgent({ agent: `${folder}agent.cjs`, ...options })
export async function withAgent (options, work) {
  const agent = start(options)
  try {
    return await work(agent)
  } finally {
    agent.stop()
  }
}
