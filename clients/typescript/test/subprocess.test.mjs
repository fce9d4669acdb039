// The contract of the subprocess sandbox, promise by promise, against the real daemon.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche } from 'cloche'
import { createSubprocessSandbox, SubprocessSandbox } from 'cloche/subprocess'
import { real } from './lib/real.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
const numbers = { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'], additionalProperties: false }

describe('subprocess', real, () => {
  let client, sandbox
  before(async () => {
    client = await Cloche.connect()
    sandbox = createSubprocessSandbox({ client })
  })
  after(async () => {
    await sandbox?.dispose()
    await client?.close()
    assert.deepEqual(unhandled, [])
  })
  const none = async () => null
  const execute = (code, tools = [], tool = none, more) => sandbox.execute(code, tools, tool, more)
  const python = (code, tools, tool) => execute(code, tools, tool, { language: 'python' })

  test('a value is returned, promises are awaited, nothing is undefined', async () => {
    assert.ok(sandbox instanceof SubprocessSandbox)
    assert.equal((await execute('return 1 + 2 * 3;')).result, 7)
    assert.equal((await execute('const delay = (ms) => new Promise((r) => setTimeout(r, ms))\nawait delay(20)\nreturn "done"')).result, 'done')
    assert.deepEqual(Object.keys(await execute('const x = 1;')).sort(), ['duration', 'logs'])
    assert.equal((await execute('return await new Promise((r) => setTimeout(() => r(1), 60))')).duration >= 60, true)
  })
  test('a comment at the end is no harm', async () => assert.equal((await execute('return 5 // five')).result, 5))
  test('logs are lines with their level or stream in front', async () => {
    const { logs } = await execute('console.log("Hello", { a: 1 }); console.info("i"); console.warn("two\\nlines"); console.error("%s!", "e"); console.debug("d", undefined, 1n, [null], () => 1); console.log(); process.stdout.write("raw\\n"); process.stderr.write("err\\n")')
    assert.deepEqual(logs, ['[log] "Hello" {"a":1}', '[log] "i"', '[warn] "two\\nlines"', '[error] "%s!" "e"', '[debug] "d" undefined 1 [null] () => 1', '[log] ', '[stdout] raw', '[stderr] err'])
  })
  test('logs cannot be forged by what is printed', async () => {
    assert.deepEqual((await execute('process.stdout.write("[error] forged\\n")')).logs, ['[stdout] [error] forged'])
  })
  test('errors are in the answer, by class and message; logs are kept', async () => {
    const { error, logs, result } = await execute('console.log("before")\nthrow new RangeError("no")')
    assert.deepEqual([error, logs, result], ['no', ['[log] "before"'], undefined])
    assert.match((await execute('await Promise.reject(new Error("Async error"))')).error, /Async error/)
    assert.equal((await execute('undefinedVariable.method()')).error, 'undefinedVariable is not defined')
    assert.match((await execute('return (')).error, /^Unexpected token/)
  })

  test('results are JSON; rich ones are what the code had', async () => {
    const code = 'return { at: new Date(0), m: new Map([["a", 1n]]), s: new Set([2]) }'
    assert.deepEqual((await execute(code)).result, { at: '1970-01-01T00:00:00.000Z', m: { a: 1 }, s: [2] })
    assert.deepEqual((await execute(code, [], none, { rich: true })).result, { at: new Date(0), m: new Map([['a', 1n]]), s: new Set([2]) })
    assert.deepEqual((await createSubprocessSandbox({ client, rich: true }).execute('return 5n')).result, 5n)
    assert.deepEqual((await python('return {1: 10**20, "s": {3}}')).result, { 1: 1e20, s: [3] })
  })
  test('options that there are not are refused by name', async () => {
    await assert.rejects(execute('return 1', [], none, { timeoutMs: 5 }), { name: 'InvalidArgumentError', message: 'execute: there is no option "timeoutMs"; did you mean timeout?' })
    assert.throws(() => createSubprocessSandbox({ memorylimit: 5 }), { message: /there is no option "memorylimit"; did you mean memoryLimit\?/ })
    assert.equal((await execute('return 1', [], none, { timeoutMs: undefined })).result, 1)
  })

  describe('tools', () => {
    test('get their parameters as JSON; rich ones as the code had them', async () => {
      const schema = { properties: { at: { type: 'string' } } }
      const tool = async (name, { at }) => typeof at
      assert.equal((await execute('return await t({ at: new Date(0) })', [{ name: 't', inputSchema: schema }], tool)).result, 'string')
      assert.equal((await execute('return await t({ at: new Date(0) })', [{ name: 't' }], tool, { rich: true })).result, 'object')
    })
    const add = { name: 'add', description: 'adds', inputSchema: numbers }
    test('are async functions by name; the host gets name and params', async () => {
      const calls = []
      const { result, error } = await execute('const p = add({ a: 5, b: 3 }); return [p instanceof Promise, await p]', [add], async (name, params) => { calls.push([name, params]); return params.a + params.b })
      assert.deepEqual([result, error, calls], [[true, 8], undefined, [['add', { a: 5, b: 3 }]]])
    })
    test('colons and dots reach into objects, what is no name becomes one', async () => {
      const names = ['test:add', 'files.read', 'my-tool']
      const { result, error } = await execute('return [await test.add({}), await files.read({}), await my_tool({})]', names.map((name) => ({ name })), async (name) => name)
      assert.deepEqual([result, error], [names, undefined])
    })
    test('parameters are checked before the host is called', async () => {
      let calls = 0
      const bad = ['{ a: 1 }', '{ a: "x", b: 1 }', '{ a: 1, b: 2, c: 3 }', '']
      const code = `const said = []; for (const run of [${bad.map((params) => `() => add(${params})`)}]) { try { await run() } catch (e) { said.push(e.name + ': ' + e.message) } } return said`
      const { result } = await execute(code, [add], async () => ++calls)
      assert.deepEqual(result, ['TypeError: add: params.b is missing', 'TypeError: add: params.a must be number, not string', 'TypeError: add: params has no parameter "c"; there are a, b', 'TypeError: add: params.a is missing'])
      assert.equal(calls, 0)
    })
    test('names that are no identifiers: members by their own name, and by an identifier', async () => {
      const tools = [{ name: 'my-ns:do-it' }, { name: 'my-ns:deep-er:x.y' }, { name: 'a-b' }]
      const tool = async (name) => name
      const { result, error } = await execute('return [await my_ns["do-it"]({}), await my_ns.do_it({}), await my_ns["deep-er"].x.y({}), await my_ns.deep_er.x.y({}), await a_b({})]', tools, tool)
      assert.deepEqual(result, ['my-ns:do-it', 'my-ns:do-it', 'my-ns:deep-er:x.y', 'my-ns:deep-er:x.y', 'a-b'], error)
      const { result: python } = await execute('return [my_ns.do_it(), my_ns.deep_er.x.y(), a_b()]', tools, tool, { language: 'python' })
      assert.deepEqual(python, ['my-ns:do-it', 'my-ns:deep-er:x.y', 'a-b'])
    })
    test('a tool\'s error is an exception in the code, and can be caught', async () => {
      const tool = async () => { throw Object.assign(new RangeError('too far'), { status: 4 }) }
      assert.deepEqual((await execute('try { await go({}) } catch (e) { return [e.name, e.message, e.status] }', [{ name: 'go' }], tool)).result, ['RangeError', 'too far', 4])
      assert.equal((await execute('await go({})', [{ name: 'go' }], tool)).error, 'too far')
    })
    test('many calls, more than the daemon permits by default, and several at once', async () => {
      let open = 0, most = 0
      const tool = async (_, { i }) => { most = Math.max(most, ++open); await sleep(1); open--; return i }
      const { result, error } = await execute('let n = 0; for (let k = 0; k < 150; k++) n += (await Promise.all(Array.from({ length: 8 }, (_, i) => t({ i })))).length; return n', [{ name: 't' }], tool)
      assert.deepEqual([result, error], [1200, undefined])
      assert.ok(most > 1)
    })
    test('a schema or a name that cannot be is refused when it is given', async () => {
      const bad = {
        'a keyword nobody knows': [{ name: 't', inputSchema: { type: 'object', dependentSchemas: {} } }, /tools\[0\] \(t\)\.inputSchema: the keyword "dependentSchemas"/],
        'a type there is not': [{ name: 't', inputSchema: { type: 'float' } }, /there is no type "float"/],
        'no name': [{ name: '' }, /tools\[0\]\.name/],
        'a pattern that does not compile': [{ name: 't', inputSchema: { properties: { a: { pattern: '(' } } } }, /pattern/]
      }
      for (const [tool, message] of Object.values(bad)) await assert.rejects(execute('return 1', [tool]), { name: 'TypeError', message })
      await assert.rejects(execute('return 1', [{ name: 'a' }, { name: 'a' }]), /has the place of another/)
      await assert.rejects(execute('return 1', [{ name: 'a' }, { name: 'a.b' }]), /lies inside another/)
    })
  })

  describe('python', () => {
    test('the body returns; functions in it see each other and its names', async () => {
      const { result, error } = await python('import json\ntotal = 4\ndef f(): return total * g(2)\ndef g(x): return x\nsquares = [total * n for n in range(3)]\nreturn [f(), json.loads("[1]"), squares]')
      assert.deepEqual([result, error], [[8, [1], [0, 4, 8]], undefined])
    })
    test('tools are callables: keywords, positions, an object', async () => {
      const tool = async (name, params) => [name, params]
      const { result, error } = await python('return [add(a=1, b=2), add(1, 2), add({"a": 1, "b": 2}), files.read({"p": 1})]', [{ name: 'add', inputSchema: numbers }, { name: 'files:read' }], tool)
      assert.deepEqual([result, error], [[['add', { a: 1, b: 2 }], ['add', { a: 1, b: 2 }], ['add', { a: 1, b: 2 }], ['files:read', { p: 1 }]], undefined])
    })
    test('parameters are checked; errors are exceptions', async () => {
      const { result } = await python('try:\n  add(a="x", b=1)\nexcept TypeError as e:\n  return str(e)', [{ name: 'add', inputSchema: numbers }])
      assert.equal(result, 'add: params.a must be number, not string')
      assert.match((await python('return 1 / 0')).error, /^division by zero$/)
      assert.match((await python('def (')).error, /^invalid syntax/)
    })
    test('print, logging and standard error', async () => {
      const { logs } = await python('import logging, sys\nprint("hi")\nlogging.warning("careful %s", 1)\nlogging.info("so")\nprint("e", file=sys.stderr)')
      assert.deepEqual(logs, ['[stdout] hi', '[warn] careful 1', '[info] so', '[stderr] e'])
    })
    test('await', async () => {
      const { result, error } = await python('import asyncio\nreturn await asyncio.gather(t(i=1), t(i=2))', [{ name: 't' }], async (_, { i }) => i * 10)
      assert.deepEqual([result, error], [[10, 20], undefined])
    })
    test('texts keep their indentation', async () => assert.equal((await python('x = """a\nb\n  c"""\nreturn x')).result, 'a\nb\n  c'))
  })

  describe('environment', () => {
    test('minimal: PATH and a marker only', async () => {
      assert.deepEqual((await execute('return Object.keys(process.env).sort()')).result, ['CLOCHE_SUBPROCESS', 'PATH'])
      assert.deepEqual((await python('import os\nreturn sorted(os.environ)')).result, ['CLOCHE_SUBPROCESS', 'PATH'])
    })
    test('minimalEnv false: the host\'s', async () => {
      process.env.CLOCHE_TEST_ONLY = 'seen'
      assert.equal((await createSubprocessSandbox({ client, minimalEnv: false }).execute('return process.env.CLOCHE_TEST_ONLY')).result, 'seen')
      assert.equal((await execute('return process.env.CLOCHE_TEST_ONLY ?? null')).result, null)
    })
  })

  describe('limits and ends', () => {
    test('timeout kills, and error says so; a tool that still works is told', async () => {
      let told
      const tool = (_, __, { signal }) => new Promise(() => { signal.addEventListener('abort', () => { told = signal.reason.message }) })
      const { error, logs } = await createSubprocessSandbox({ client, timeout: 3000 }).execute('console.log("in"); await hang({})', [{ name: 'hang' }], tool)
      assert.deepEqual([error, logs, told], ['execution terminated: timed out after 3000 ms', ['[log] "in"'], 'the execution timed out'])
      assert.match((await createSubprocessSandbox({ client, timeout: 300 }).execute('while (true) { }')).error, /terminated/)
    })
    test('a timeout of one execution, and the sandbox\'s for the next', async () => {
      const [error, next] = [await execute('for (;;);', [], none, { timeout: 300 }), await execute('return 1')]
      assert.deepEqual([error.error, next.result], ['execution terminated: timed out after 300 ms', 1])
      await assert.rejects(execute('return 1', [], none, { timeout: -1 }), { name: 'InvalidArgumentError', message: /timeout is -1/ })
    })
    test('the timeout covers the start of a daemon that never greets; without one the same waits', async (t) => {
      const silent = createServer(() => {}).listen(0)
      t.after(() => { silent.close() })
      await once(silent, 'listening')
      const { port } = silent.address()
      const own = createSubprocessSandbox({ port, token: 'x', connectTimeoutMs: 1000 })
      assert.equal((await own.execute('return 1', [], none, { timeout: 50 })).error, 'execution terminated: timed out after 50 ms')
      await assert.rejects(own.execute('return 1', [], none, { timeout: 0 }), { name: 'RequestTimeoutError' })
      await own.dispose().catch(() => {})
    })
    test('what was disposed executes nothing more', async () => {
      const own = createSubprocessSandbox({ client })
      assert.equal((await own.execute('return 1')).result, 1)
      await own.dispose()
      await assert.rejects(own.execute('return 1'), { name: 'StateError', message: /this subprocess sandbox was disposed/ })
    })
    test('memoryLimit', async () => {
      const { error } = await createSubprocessSandbox({ client, memoryLimit: 64 }).execute('const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))')
      assert.equal(error, 'execution terminated: out of memory, the limit is 64 MB')
    })
    test('isRunning; terminate ends what runs, and more can be executed', async () => {
      assert.ok(!sandbox.isRunning())
      const running = execute('await new Promise((r) => setTimeout(r, 20000))')
      await sleep(50)
      assert.ok(sandbox.isRunning())
      sandbox.terminate()
      assert.equal((await running).error, 'execution terminated')
      assert.ok(!sandbox.isRunning())
      assert.equal((await execute('return 1')).result, 1)
    })
    test('terminate while a tool works', async () => {
      const { error } = await execute('try { await stop({}) } catch {}\nawait new Promise((r) => setTimeout(r, 20000))', [{ name: 'stop' }], async () => { sandbox.terminate() })
      assert.equal(error, 'execution terminated')
    })
    test('a signal, before and meanwhile', async () => {
      assert.equal((await execute('return 1', [], none, { signal: AbortSignal.abort() })).error, 'execution terminated')
      assert.equal((await execute('for (;;);', [], none, { signal: AbortSignal.timeout(200) })).error, 'execution terminated')
    })
    test('nonsense in the config is refused by name', () => {
      assert.throws(() => createSubprocessSandbox({ timeout: -1 }), { name: 'InvalidArgumentError', message: /timeout is -1/ })
      assert.throws(() => createSubprocessSandbox({ memoryLimit: 1.5 }), { name: 'InvalidArgumentError', message: /memoryLimit/ })
      assert.throws(() => createSubprocessSandbox({ language: 'perl' }), { name: 'InvalidArgumentError', message: /language is "perl"/ })
    })
    test('executions see nothing of each other', async () => {
      await execute('globalThis.leak = 1; require("node:fs").writeFileSync("/tmp/leak", "x")')
      assert.deepEqual((await execute('return [typeof leak, require("node:fs").existsSync("/tmp/leak")]')).result, ['undefined', false])
    })
    test('typescript', async () => assert.equal((await execute('const n: number = 41\nreturn n + 1', [], none, { language: 'typescript' })).result, 42))
  })
})
