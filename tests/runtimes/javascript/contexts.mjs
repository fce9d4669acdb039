// A context of the agent, driven cell by cell. The runtime is the built one, laid out as its box has it.
import assert from 'node:assert/strict'
import { mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { built, startAgent } from './agent-harness.mjs'

const PATIENCE_MS = 20_000
const folders = mkdtempSync(join(tmpdir(), 'contexts-'))
process.on('exit', () => rmSync(folders, { recursive: true, force: true }))

export const makeFolder = () => realpathSync(mkdtempSync(join(folders, 'cells-')))

// A cell that leaves a timer, which does `code` as soon as `condition` holds, however long that takes.
export const once = (condition, code) => `{ const timer = setInterval(() => { if (!(${condition})) return; clearInterval(timer); setTimeout(() => { ${code} }) }, 1) } undefined`
// Node's watch has noted a SIGINT: a cell that begins later does not get it.
export const NOTED = "process.binding('contextify').watchdogHasPendingSigint()"

export async function until (condition, complain) {
  const end = Date.now() + PATIENCE_MS
  while (!condition()) {
    assert.ok(Date.now() < end, complain())
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

export function startLanguage (language, options) {
  const agent = startAgent({ agent: join(built, language, 'agent.cjs'), ...options })
  after(() => agent.stop())
  return agent
}

// An open context. displays: those of the last cell.
export async function openContext ({ language = 'javascript', cwd = makeFolder(), env = {}, ...options } = {}) {
  const agent = startLanguage(language, options)
  let count = 0
  assert.deepEqual(await agent.result('open', { cwd, env, language }), { pid: agent.child.pid, interpreter: `Node ${process.versions.node}` })

  const shape = ([method, params, attachments]) => method === 'display' ? inPlace(params, attachments) : { [method]: params }
  const cell = async (code, more = {}) => {
    agent.told.length = 0
    const answer = await agent.result('cell', { code, count: ++count, ...more })
    context.displays = agent.told.map(shape)
    return answer
  }
  const run = async (code, more) => {
    assert.deepEqual(await cell(code, more), { status: 'ok' })
    return context.displays
  }
  const shown = async (code, more) => {
    const displays = await run(code, more)
    assert.equal(displays.length, 1, JSON.stringify(displays))
    return displays[0].data
  }
  const error = async (code, more) => {
    const answer = await cell(code, more)
    assert.equal(answer.status, 'error', code)
    return answer.error
  }
  const printed = (text, stream = 'stdout') => until(() => agent.output[stream].includes(text), () => `${JSON.stringify(text)} did not come: ${JSON.stringify(agent.output[stream])}`)
  // Runs the work that a cell left to the event loop, after the answer to the cell.
  const between = async (code) => {
    const ended = join(folders, `ended-${agent.child.pid}-${count}`)
    await run(once(`require('fs').existsSync(${JSON.stringify(ended)})`, code))
    writeFileSync(ended, '')
  }
  const interrupt = () => agent.child.kill('SIGINT')
  const interruptBetween = async () => {
    const mark = `noted after ${count}\n`
    await run(once(NOTED, `process.stdout.write(${JSON.stringify(mark)})`))
    interrupt()
    await printed(mark)
  }
  const context = {
    ...agent, cwd, displays: [], cell, run, shown, error, printed, between, interrupt, interruptBetween,
    text: async (code, more) => (await shown(code, more))['text/plain']
  }
  return context
}

function inPlace (tree, attachments) {
  if (Array.isArray(tree)) return tree.map((item) => inPlace(item, attachments))
  if (tree === null || typeof tree !== 'object') return tree
  if (tree.$ === 'bytes') return Buffer.from(attachments.subarray(tree.at, tree.at + tree.n))
  if (tree.$ === 'object') return Object.fromEntries(tree.v.map(([key, item]) => [key, inPlace(item, attachments)]))
  return Object.fromEntries(Object.entries(tree).map(([key, item]) => [key, inPlace(item, attachments)]))
}
