// Contexts that are forked: fork blockers, and the state of both sides afterwards. The fork itself
// is not here (tests/daemon).
import assert from 'node:assert/strict'
import { existsSync, unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { NOTED, makeFolder, once, startLanguage, until } from './contexts.mjs'

async function openForkable (branch) {
  const agent = startLanguage('javascript', { asTemplate: true, env: { FAKE_BRANCH: branch } })
  await agent.prepare('globalThis.__cloche_notebook__ = true')
  await agent.result('freeze')
  await agent.result('open', { cwd: makeFolder(), env: {}, language: 'javascript' })
  const text = async (code) => {
    agent.told.length = 0
    assert.deepEqual(await agent.result('cell', { code, count: 1 }), { status: 'ok' })
    return agent.told[0]?.[1].data['text/plain']
  }
  const noted = join(makeFolder(), 'noted')
  const interruptBetween = async () => {
    await text(once(NOTED, `require('fs').writeFileSync(${JSON.stringify(noted)}, '')`))
    agent.child.kill('SIGINT')
    await until(() => existsSync(noted), () => 'the signal was not noted')
    unlinkSync(noted)
  }
  return { ...agent, text, interruptBetween, refused: async () => (await agent.ask('branch')).error }
}

test('what the user has open is in the way, and is named', async () => {
  const { text, refused, result, stop } = await openForkable('-1')
  for (const [begin, end, told] of [
    ["const server = require('net').createServer().listen(0); await new Promise((r) => server.on('listening', r))", 'server.close()', /^handles are open: Server$/],
    ["const child = require('child_process').spawn('sleep', ['100'], { stdio: 'ignore' })", "const ended = new Promise((r) => child.on('exit', r)); child.kill(); await ended", /^handles are open: ChildProcess$/],
    ["const worker = new (require('worker_threads').Worker)('setInterval(() => {}, 1000)', { eval: true }); await new Promise((r) => worker.on('online', r))", 'await worker.terminate()', /^a worker thread is alive$/],
    ["const pipe = require('path').join(process.cwd(), 'pipe'); require('child_process').execFileSync('mkfifo', [pipe]); const opened = require('fs').promises.open(pipe)",
      "const other = require('fs').openSync(pipe, 'r+'); await (await opened).close(); require('fs').closeSync(other)", /^requests are under way: /]
  ]) {
    await text(`${begin}; undefined`)
    const { code, message } = await refused()
    assert.equal(code, -32001)
    assert.match(message, told)
    await text(`${end}; undefined`)
    assert.deepEqual(await result('branch'), {})
  }
  await stop()
})

test('the context goes on as it was', async () => {
  const { text, result, interruptBetween, stop } = await openForkable('-1')
  await text('let x = 1, ticks = 0; const timer = setInterval(() => ticks++, 1)')
  assert.deepEqual(await result('branch'), {})
  assert.equal(await text('x++; await new Promise((r) => setTimeout(r, 20)); clearInterval(timer); [x, ticks > 0]'), '[ 2, true ]')
  assert.deepEqual(await result('branch'), {})
  await interruptBetween()
  assert.equal(await text('x'), '2')
  await stop()
})

test('a child is an open context of its own', async () => {
  const { text, result, ask, child, interruptBetween, stop } = await openForkable('0')
  await text('let x = 1; process.chdir("/tmp")')
  assert.deepEqual(await result('branch'), {})
  assert.deepEqual(await result('enter'), { pid: child.pid })
  assert.equal(await text('[x, process.cwd()]'), "[ 1, '/tmp' ]")
  assert.equal((await ask('cell', { code: 'process.exit(1)', count: 1 })).result.error.name, 'Exit')
  assert.match((await ask('branch')).error.message, /not made to be forked/)
  await interruptBetween()
  assert.equal(await text('x'), '1')
  await stop()
})

test('a context that was not made for it is not forked', async () => {
  const { refused, stop } = await openForkable(undefined)
  assert.deepEqual(await refused(), { code: -32001, message: 'this context was not made to be forked' })
  await stop()
})
