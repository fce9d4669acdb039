// Translations that are told, and taken by another process: the same results, errors and places.
import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { start, withAgent } from './harness.mjs'

const teller = start()
const taker = start()
after(() => Promise.all([teller.stop(), taker.stop()]))
const call = (agent, code, params, attachments) => agent.ask('call', {
  code, filename: 'main.ts', function: null, args: [], holes: [], kwargs: {}, order: null, resultBytes: 1 << 20, globals: {}, imports: {}, ...params
}, attachments)
const evaluate = (agent, code, params, attachments) => agent.ask('evaluate', { code, filename: 'main.ts', resultBytes: 1 << 20, globals: {}, imports: {}, ...params }, attachments)

// [answer, params of the translation, its bytes]
async function tell (ask, code) {
  teller.told.length = 0
  const answer = await ask(teller, code, { translation: true })
  const [, params, bytes] = teller.told.find(([method]) => method === 'translated')
  return [answer, params, bytes]
}

const outcome = ({ result, error }) => {
  const { cpuMs, heapBytes, ...same } = result ?? error
  if (same.data) delete same.data.cpuMs
  if (same.data) delete same.data.heapBytes
  return same
}

const ROWS = [
  ['types', 'interface P { x: number }\nexport const f = (p?: P): string => p?.x === undefined ? "é日😀\t" : "b"'],
  ['a body', 'const x: number = 3\nreturn x as number'],
  ['a body that ends with a value', 'enum E { A = 5, B }\nE[E.B]'],
  ['an enum', 'enum E { A, B = "b" }\nnamespace N { export const c = 1 }\nexport const f = () => [E[0], E.B, N.c]'],
  ['what throws', 'type A = string\nfunction f(a?: A): never {\n  throw new TypeError("x" as string)\n}'],
  ['what throws in code that is printed anew', 'enum E { A }\nfunction f(): never {\n\n  throw new RangeError(E[0] as string)\n}'],
  ['what has no Unicode', 'export const f = (): number => "\\ud800\ud800".length'],
  ['a mark at the begin', '\ufeffexport const f = (): number => 4']
]
for (const [name, code] of ROWS) {
  test(`told and taken: ${name}`, async () => {
    const plain = outcome(await call(taker, code))
    const [answer, { translation }, bytes] = await tell(call, code)
    assert.deepEqual(outcome(answer), plain)
    assert.deepEqual(translation, { $: 'bytes', at: 0, n: bytes.length })
    assert.deepEqual(outcome(await call(taker, code, { translation }, [bytes])), plain)
  })
}

for (const code of [
  'enum E { A = 3 }\nexport const a: number = E.A\nexport const { stack } = new Error("x" as string)',
  'const d = (v: any, c: any) => v\n@d class A { accessor x: number = 2 }\nexport const { stack } = new Error("x" as string)'
]) {
  test(`the bare realm: ${code.slice(0, 10)}`, async () => {
    const plain = outcome(await evaluate(taker, code))
    const [answer, { translation }, bytes] = await tell(evaluate, code)
    assert.deepEqual(outcome(answer), plain)
    assert.match(plain.exports.stack, /main\.ts:3:26/)
    assert.deepEqual(outcome(await evaluate(taker, code, { translation }, [bytes])), plain)
  })
}

test('one that was taken is the one that runs', async () => {
  const bytes = Buffer.from(JSON.stringify(['export const f = () => "taken"']))
  const { result } = await call(taker, 'export const f = (): string => "translated"', { translation: { $: 'bytes', at: 0, n: bytes.length } }, [bytes])
  assert.equal(result.value, 'taken')
  const other = await call(taker, 'export const f = (): string => "other"')
  assert.equal(other.result.value, 'other')
})

test('code that does not compile is told as none, and refused as ever', async () => {
  const code = 'export const f = (x: number): string => {\n  let y: = 3\n}'
  const [answer, { translation }] = await tell(call, code)
  assert.equal(translation, null)
  assert.deepEqual(outcome(answer), outcome(await call(taker, code)))
  assert.match(answer.error.data.stack, /main\.ts:2:10/)
})

test('what a tsconfig.json decides is told as none', async () => {
  const cwd = mkdtempSync(join(tmpdir(), 'translations-'))
  writeFileSync(join(cwd, 'tsconfig.json'), '{"compilerOptions": {"experimentalDecorators": true}}')
  try {
    await withAgent({ cwd }, async (agent) => {
      const { result } = await call(agent, 'const d = (target: any, name?: string) => {}\nclass A { @d m() { return 1 } }\nexport const f = () => new A().m()', { translation: true })
      assert.equal(result.value, 1)
      assert.deepEqual(agent.told, [['translated', { translation: null }]])
    })
  } finally {
    rmSync(cwd, { recursive: true })
  }
})
