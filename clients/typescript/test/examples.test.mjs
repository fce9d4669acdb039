// The examples, run like users run them. They are TypeScript; `npm run types` has checked their types.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { Cloche } from 'cloche'
import { mountReason } from './lib/mounts.mjs'
import { daemon, real } from './lib/real.mjs'

const examples = fileURLToPath(new URL('../../../examples/', import.meta.url))
const root = fileURLToPath(new URL('..', import.meta.url))

describe('examples', real, () => {
  let folder
  before(() => { folder = mkdtempSync(path.join(root, 'dist/examples-')) })
  after(() => rmSync(folder, { recursive: true }))

  // Below the package, so that its name is found; ES2022, as Node 20 has no `using`.
  function run (name, ...args) {
    const file = path.join(folder, `${name}.mjs`)
    const { outputText } = ts.transpileModule(readFileSync(path.join(examples, `${name}.mts`), 'utf8'), { fileName: `${name}.mts`, compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 } })
    writeFileSync(file, outputText)
    return new Promise((resolve, reject) => execFile(process.execPath, [file, ...args], { timeout: 600_000, env: { ...process.env, CLOCHE_DAEMON: daemon } },
      (error, stdout, stderr) => error ? reject(new Error(`${error.message}\n${stdout}${stderr}`)) : resolve(stdout)))
  }

  test('an agent loop with tools', async () => {
    const said = await run('typescript-agent-loop')
    assert.match(said, /turn 1: shop:order: params\.count must be at least 1/)
    assert.match(said, /\[warn\] "only 0 of chair left"/)
    assert.match(said, /answer: Bought desk and lamp; 50 is left\./)
    assert.match(said, /orders: \[\{"item":"desk","count":1\},\{"item":"lamp","count":1\}\]/)
  })

  test('data analysis over a mounted directory, with approval of the changes', async (context) => {
    const client = await Cloche.connect()
    const reason = await mountReason(client)
    await client.close()
    if (reason !== undefined) return context.skip(reason)
    const data = path.join(folder, 'data')
    mkdirSync(data)
    copyFileSync(path.join(examples, 'rivers.csv'), path.join(data, 'rivers.csv'))
    const said = await run('typescript-data-analysis', data)
    assert.match(said, /not permitted: Permission denied/)
    assert.match(said, /denied: modify of .*rivers\.csv/)
    assert.match(said, /written: summary\.json; left out: scratch\.tmp/)
    assert.ok(JSON.parse(readFileSync(path.join(data, 'report/summary.json'), 'utf8')).rows > 0)
    assert.ok(!existsSync(path.join(data, 'report/scratch.tmp')))
    assert.equal(readFileSync(path.join(data, 'rivers.csv'), 'utf8'), readFileSync(path.join(examples, 'rivers.csv'), 'utf8'))
  })

  test('a sandbox that stays between the turns of an agent', async () => {
    const said = await run('typescript-sandbox')
    assert.match(said, /\$ cd project && ls\nprimes\.py\nserve\.py\nexit code 0/)
    assert.match(said, /took too long, and was killed/)
    assert.match(said, /\$ pwd\n\/workspace\/project\n/)
    assert.match(said, /served: \[2, 3, 5, 7, 11, 13, 17, 19, 23, 29\]/)
    assert.match(said, /its log: asked \/10, asked \/30; it is killed/)
    assert.match(said, /2 files came back, 0 did not; changed: true/)
  })

  test('an agent with a code interpreter', async () => {
    const data = path.join(folder, 'interpreted')
    mkdirSync(data)
    copyFileSync(path.join(examples, 'rivers.csv'), path.join(data, 'rivers.csv'))
    const said = await run('typescript-code-interpreter', data)
    assert.match(said, /19 rows\n\[1\] a table\n\[2\] KeyError: 'length' \(line 1\)/)
    assert.match(said, /\[4\] Timeout: .*\n\[5\] a figure: bar "the longest"\n\[6\] \{"rows":19,"counted":true\}/)
    assert.equal(readFileSync(path.join(data, 'figure.png')).subarray(1, 4).toString(), 'PNG')
  })

  test('many runs against one prefix; a thousand with CLOCHE_TEST_ALL=1', async () => {
    const runs = process.env.CLOCHE_TEST_ALL === '1' ? 1000 : 100
    assert.match(await run('typescript-thousand-runs', runs), new RegExp(`^${runs} runs, all clean`))
  })
})

test('the demos of README.md run', real, async () => {
  const text = readFileSync(path.join(root, 'README.md'), 'utf8')
  const demos = [...text.matchAll(/```ts\n([^]*?)```\n(?:\n?prints `([^\n]*)`)?/g)]
  assert.ok(demos.length >= 4, `${demos.length} demos`)
  const folder = mkdtempSync(path.join(root, 'dist/demos-'))
  try {
    for (const [i, [, code, expected]] of demos.entries()) {
      const { outputText } = ts.transpileModule(code, { fileName: 'demo.mts', compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022 } })
      const file = path.join(folder, `${i}.mjs`)
      writeFileSync(file, outputText)
      const said = await new Promise((resolve, reject) => execFile(process.execPath, [file], { cwd: folder, timeout: 120_000, env: { ...process.env, CLOCHE_DAEMON: daemon } }, (error, stdout, stderr) => error ? reject(new Error(`${code}\n${stderr}`)) : resolve(stdout)))
      assert.equal(said.trim(), expected, code)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
})
