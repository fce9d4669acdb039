// An agent that its code took over: its possible messages about bodies and lines, and the reactions
// of the engine and the client. The agent here follows the code's first line, outside of the bare
// realm.
import assert from 'node:assert/strict'
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createSandbox } from 'cloche/isolate'
import { daemon, real } from './lib/real.mjs'

const runtimes = daemon === undefined ? '' : path.join(process.env.CLOCHE_LIBEXEC ?? path.dirname(daemon), 'runtimes')
const BEGINS = 'async function answerEvaluate (params) {\n'

describe('an agent that was taken over', real, () => {
  let folder, client, sandbox
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-agent-'))
    cpSync(runtimes, folder, { recursive: true })
    const main = path.join(folder, 'javascript/main.cjs')
    const text = readFileSync(main, 'utf8')
    assert.ok(text.includes(BEGINS))
    writeFileSync(main, text.replace(BEGINS, `${BEGINS}  const told = /^\\/\\/ (.*)/.exec(params.code)\n  if (told !== null) eval(told[1])\n`))
    process.env.CLOCHE_RUNTIMES = folder
    client = await Cloche.connect()
    sandbox = await createSandbox({ client })
  })
  after(async () => {
    await sandbox?.dispose()
    await client?.close()
    rmSync(folder, { recursive: true })
  })
  const run = async (told, code = 'export default 1', more = {}) => await sandbox.run({ code: `// ${told}\n${code}`, ...more })
  const streamed = 'export default new Response((async function * () { yield "x" })())'
  const isWell = async () => assert.equal(await (await sandbox.run({ code: `console.log("y"); ${streamed}` })).exports.default.text(), 'x')

  test('as long as it says what an agent says, nothing is otherwise', async () => {
    const { ok, exports, stdout } = await run('channel.tellLine("stdout", "of the agent")', 'console.log("of the code"); export default 1')
    assert.deepEqual([ok, exports.default, stdout], [true, 1, ['of the agent', 'of the code']])
    await isWell()
  })

  const endings = {
    // The body stays open as long as `held` has not returned, and none of the calls is answered.
    'more calls about bodies than there can be': ['channel.ask(1000, ["global", "held"], [{ $: "class", t: "Response", v: { status: 200, statusText: "", headers: [], body: { $: "class", t: "Stream", v: 1 } } }], []); for (let i = 0; i < 200; i++) channel.ask(1001 + i, ["body", "open"], [1], [])', /more than 129 requests for bodies/],
    'a piece that is too large': ['channel.ask(1000, ["body", "piece"], [1, "x".repeat(200000)], [])', /a piece of a body with/],
    'lines that are cut off': ['channel.tell("lines", { number: 1 }, [new Uint8Array([255, 0, 0, 0, 65])])', /console lines must be complete/],
    'lines that are no text': ['channel.tell("lines", { number: 1 }, [new Uint8Array([2, 0, 0, 0, 255])])', /complete UTF-8/]
  }
  for (const [name, [told, message]] of Object.entries(endings)) {
    test(`${name} end the run, and no other`, async () => {
      assert.match((await run(told, 'await new Promise((resolve) => setTimeout(resolve, 20_000))', { globals: { held: () => new Promise(() => {}) } })).error?.message, message)
      await isWell()
    })
  }

  test('exports that come twice end the run, and its bodies', async () => {
    const forged = '{ default: { $: "class", t: "Response", v: { status: 200, statusText: "", headers: [], body: { $: "class", t: "Stream", v: 1 } } } }'
    const { ok, exports } = await run(`for (const id of [1000, 1001]) channel.ask(id, ["body", "exports"], [${forged}, {}], [])`, 'await new Promise((resolve) => setTimeout(resolve, 20_000))')
    assert.ok(ok)
    await assert.rejects(exports.default.text(), { message: /sent the exports twice/ })
    await isWell()
  })

  test('pieces of bodies that nobody has are wanted by nobody; the run goes on', async () => {
    const { ok, exports } = await run('for (let i = 0; i < 20; i++) channel.ask(1000 + i, ["body", ["piece", "end", "fail"][i % 3]], [i + 70, "x", "y"], [])')
    assert.deepEqual([ok, exports?.default], [true, 1])
  })

  test('a number that stands for two bodies, and more bodies than may be, are refused', async () => {
    const forged = (numbers) => `channel.ask(1000, ["global", "f"], [${numbers}.map((v) => ({ $: "class", t: "Response", v: { status: 200, statusText: "", headers: [], body: { $: "class", t: "Stream", v } } }))], [])`
    for (const numbers of ['[1, 1]', 'Array.from({ length: 65 }, (_, i) => i)', '["x"]', '[-1.5]']) {
      let calls = 0
      await run(forged(numbers), 'export default 1', { globals: { f: () => { calls++ } } })
      assert.equal(calls, 0, numbers)
    }
    let got
    await run(forged('[1, 2]'), 'export default 1', { globals: { f: (bodies) => { got = bodies } } })
    for (const response of got) await assert.rejects(response.text(), { message: /the run ended before the body did/ })
  })

  test('who asked for no bodies gets no call about one', async () => {
    const { success, error } = await client.evaluate({ language: 'javascript', code: '// channel.ask(1000, ["body", "open"], [1], [])\nexport default 1' })
    assert.deepEqual([success, /a call of a host function must have target/.test(error?.message)], [false, true], error?.message)
  })

  test('the memory of lines: what a killed agent left there, and what it forged', async () => {
    const kill = 'process.kill(process.pid, "SIGKILL")'
    assert.deepEqual((await run(`channel.keepLines(() => template.lines()); channel.tellLine("stdout", "left"); channel.tellLine("stderr", "é"); ${kill}`)).stdout, ['left'])
    const forge = (bytes) => `const m = new Uint8Array(template.lines()); m.set(${JSON.stringify(bytes)}); ${kill}`
    const cases = [
      [[1, 0, 0, 0, 255, 255, 255, 255], []], // a size beyond the memory
      [[1, 0, 0, 0, 9, 0, 0, 0, 255, 255, 255, 255, 65], []], // a line beyond its size
      [[1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 255], []], // no text
      [[0, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 65], []], // a number that was used before
      [[1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 65], ['A']]
    ]
    for (const [bytes, lines] of cases) {
      const { ok, stdout } = await run(forge(bytes))
      assert.deepEqual([ok, stdout], [false, lines], JSON.stringify(bytes))
    }
    const { stdout } = await run(forge([1, 0, 0, 0, 5, 0, 0, 0, 2, 0, 0, 0, 65]), '', { limits: { maxStdoutBytes: 0 } })
    assert.deepEqual(stdout, ['A'])
    await isWell()
  })

  test('lines that were sent are not read again from the memory', async () => {
    const { stdout } = await run('channel.keepLines(() => template.lines()); channel.tellLine("stdout", "once"); channel.tell("console", { stream: "stdout", text: "then" }); process.kill(process.pid, "SIGKILL")')
    assert.deepEqual(stdout, ['once', 'then'])
  })
})
