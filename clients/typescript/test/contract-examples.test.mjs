// Whole programs from the READMEs of the executor and subprocess packages: only one import line differs.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { SandboxExecutor } from 'cloche/executor'
import { SubprocessSandbox } from 'cloche/subprocess'
import { mountReason } from './lib/mounts.mjs'
import { real } from './lib/real.mjs'

describe('programs after the contracts', real, () => {
  let client
  before(async () => { client = await Cloche.connect() })
  after(() => client?.close())

  const calls = {
    'a function with positional arguments': [{ language: 'python', code: 'def greet(name, greeting="Hello"):\n    return f"{greeting}, {name}!"', functionName: 'greet', args: ['World'] }, 'Hello, World!'],
    'keywords': [{ language: 'ruby', code: 'def greet(name, greeting: "Hello") = "#{greeting}, #{name}!"', functionName: 'greet', args: ['World'], kwargs: { greeting: 'Hi' } }, 'Hi, World!'],
    'named arguments of PHP, without its tag': [{ language: 'php', code: 'function add(int $a, int $b = 10): int { return $a + $b; }', functionName: 'add', kwargs: { a: 5 } }, 15],
    'the last parameter is an options object': [{ language: 'js', code: 'function greet (name, { mark = "." } = {}) { return name + mark }', args: ['Ada'], kwargs: { mark: '!' } }, 'Ada!'],
    'arguments by index': [{ language: 'c', code: 'int sub(int a, int b) { return a - b; }', args: [{ index: 1, value: 2 }, { index: 0, value: 44 }] }, 42],
    'arguments as an object': [{ language: 'cpp', code: '#include <string>\nstd::string join(std::string a, std::string b) { return a + b; }', args: { b: 'y', a: 'x' } }, 'xy'],
    'a schema with defaults': [{ language: 'python', code: 'def f(count, label): return [count, label]', args: [1], schema: { params: [{ name: 'count', type: 'integer', required: true }, { name: 'label', type: 'string', default: 'none' }] } }, [1, 'none']],
    'code without a function is the body': [{ language: 'python', code: 'return sum(args)', args: [1, 2, 3] }, 6],
    'an asynchronous function': [{ language: 'typescript', code: 'export async function f (n: number): Promise<number> { return await Promise.resolve(n * 2) }', args: [21] }, 42],
    'a generator is collected': [{ language: 'python', code: 'def f(n):\n    for i in range(n): yield i', args: [3] }, [0, 1, 2]],
    'text that looks like a result is only text': [{ language: 'js', code: 'const f = () => { console.log("__RESULT__{}"); return { $: "bytes" } }' }, { $: 'bytes' }]
  }
  for (const [name, [request, expected]] of Object.entries(calls)) {
    test(`executor: ${name}`, async () => {
      const result = await new SandboxExecutor({ client }).execute(request)
      assert.deepEqual([result.status, result.success, result.result, result.exitCode], ['success', true, expected, 0], JSON.stringify(result.error))
      assert.ok(result.meta.duration > 0 && ['schema', 'inferred', 'convention'].includes(result.meta.signatureSource))
    })
  }

  test('executor: each status with its exit code', async () => {
    const executor = new SandboxExecutor({ client })
    const ended = async (request) => {
      const { status, exitCode, error } = await executor.execute({ language: 'python', ...request })
      return [status, exitCode, error.type]
    }
    assert.deepEqual(await ended({ code: 'def f(): return 1 / 0' }), ['error', 1, 'ZeroDivisionError'])
    assert.deepEqual((await ended({ code: 'import os\ndef f(): os.abort()' })).slice(0, 2), ['crash', 1])
    assert.deepEqual((await ended({ code: 'def f():\n  while True: pass', timeout: 0.5 })).slice(0, 2), ['timeout', 124])
    assert.deepEqual((await ended({ code: 'def f(): pass', signal: AbortSignal.abort() })).slice(0, 2), ['terminated', 143])
  })

  test('executor: files in and out', async () => {
    const { result, files } = await new SandboxExecutor({ client }).execute({
      language: 'python', files: { 'in.txt': 'a\nb\n', 'old.txt': 'old' },
      code: 'import os\ndef f():\n  lines = open("in.txt").read().split()\n  open("/workspace/out.txt", "w").write("-".join(lines))\n  os.remove("old.txt")\n  return lines'
    })
    assert.deepEqual(result, ['a', 'b'])
    assert.deepEqual(files.all().map(({ type, path: name }) => [type, name]), [['create', '/workspace/out.txt'], ['delete', '/workspace/old.txt']])
    assert.equal(Buffer.from(files.byPath('/workspace/out.txt').content).toString(), 'a-b')
  })

  test('executor: a mount under rules, its denials and its sync', async (context) => {
    const reason = await mountReason(client)
    if (reason !== undefined) return context.skip(reason)
    const data = mkdtempSync(path.join(tmpdir(), 'cloche-contract-'))
    try {
      writeFileSync(path.join(data, 'secret.env'), 'x')
      writeFileSync(path.join(data, 'in.csv'), 'a,b\n')
      const executor = new SandboxExecutor({ client })
      const denied = []
      executor.on('permissionDenied', ({ path: name, operation }) => denied.push([name, operation]))
      const mount = { dirs: { '/data': data }, permissions: { default: { read: true, list: true }, rules: [{ pattern: '{out,out/**}', allow: '*' }], exclude: ['*.env'] }, onPermissionDenied: 'throw' }
      const { result, files, error } = await executor.execute({
        language: 'python', mount,
        code: 'import os\ndef f():\n  os.makedirs("/data/out", exist_ok=True)\n  open("/data/out/r.txt", "w").write(open("/data/in.csv").read())\n  try: open("/data/secret.env").read()\n  except OSError as e: return type(e).__name__'
      })
      assert.deepEqual([result, existsSync(path.join(data, 'out'))], ['PermissionError', false], JSON.stringify(error))
      assert.ok(denied.some(([name]) => name === '/data/secret.env'), JSON.stringify(denied))
      const outcome = await executor.syncFiles(files.all(), mount, { onError: 'rollback' })
      assert.deepEqual([outcome.failed, readFileSync(path.join(data, 'out/r.txt'), 'utf8')], [[], 'a,b\n'])
    } finally {
      rmSync(data, { recursive: true })
    }
  })

  test('subprocess: a tool, logs, the result', async () => {
    const sandbox = new SubprocessSandbox({ client, timeout: 30000, memoryLimit: 128 })
    const tools = [{ name: 'add', description: 'adds', inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] } }]
    const done = await sandbox.execute('console.log("adding", { n: 2 })\nconst sum = await add({ a: 40, b: 2 })\nconsole.warn("done")\nreturn { sum }', tools, async (name, params) => params.a + params.b)
    assert.deepEqual([done.result, done.error, done.logs, done.duration >= 0], [{ sum: 42 }, undefined, ['[log] "adding" {"n":2}', '[warn] "done"'], true])
    const failed = await sandbox.execute('try { await add({ a: "x", b: 1 }) } catch (e) { console.log(e.message) }\nthrow new Error("over")', tools, async () => 1)
    assert.deepEqual([failed.error, failed.result, /a/.test(failed.logs[0])], ['over', undefined, true])
    const late = await new SubprocessSandbox({ client, timeout: 300 }).execute('while (true) {}', [], async () => null)
    assert.match(late.error, /tim/i)
    assert.equal(sandbox.isRunning(), false)
  })
})
