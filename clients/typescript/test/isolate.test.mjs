// The isolate contract, promise by promise, against the real daemon.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche } from 'cloche'
import { createSafeFetch, createSandbox } from 'cloche/isolate'
import { isolated } from './lib/isolate.mjs'
import { daemons, real, until } from './lib/real.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))

describe('isolate', real, () => {
  let client, sandbox
  const { run, value, failure } = isolated((made) => { ({ client, sandbox } = made) }, () => assert.deepEqual(unhandled, []))

  describe('run', () => {
    test('exports are one flat object, named ones beside default', async () => {
      const result = await run('export default 42; export const name = "n"')
      assert.deepEqual(result.exports, { default: 42, name: 'n' })
      assert.deepEqual([result.status, result.ok, result.skippedExports], ['completed', true, []])
    })
    test('no exports: default is undefined', async () => assert.deepEqual((await run('1')).exports, { default: undefined }))
    test('code is a module: top-level await works, a plain return does not compile', async () => {
      assert.equal(await value('export default await new Promise((r) => setTimeout(() => r("late"), 5))'), 'late')
      assert.equal((await failure('return 1')).code, 'ERR_COMPILE')
    })
    test('each run has an isolate of its own', async () => {
      await run('globalThis.leak = 1; Array.prototype.evil = 1')
      assert.deepEqual(await value('export default [typeof leak, [].evil]'), ['undefined', undefined])
    })
    test('image: of all runs and prefixes of a sandbox', async () => {
      const placed = await createSandbox({ client, image: 'python' })
      await assert.rejects(placed.run({ code: 'export default 1' }), /there is no image (store|'python:latest')/)
      await assert.rejects(placed.prepare({ code: '1' }), /there is no image (store|'python:latest')/)
      await placed.dispose()
      const set = await createSandbox({ client, image: `sha256-${'e'.repeat(64)}`, imageSettings: { env: { HOME: '/' } } })
      await assert.rejects(set.run({ code: 'export default 1' }), /cannot set the variable 'HOME'/)
      await assert.rejects(set.prepare({ code: '1' }), /cannot set the variable 'HOME'/)
      await set.dispose()
    })
    test('filename shows in stacks', async () => {
      assert.match((await failure('\nthrow new Error("x")', { filename: 'mine.mjs' })).stack, /mine\.mjs:2/)
      for (const filename of ['dir/user code.js', 'file:///x.js']) assert.ok((await failure('\nthrow new Error("x")', { filename })).stack.includes(`${filename}:2`), filename)
      assert.match((await failure('\nthrow new Error("x")')).stack, /<cloche>:2/)
    })
    test('the clock, the processor time and the memory are reported', async () => {
      const { durationMs, cpuTimeMs, memoryPeakBytes } = await run('for (let i = 0; i < 1e7; i++);')
      assert.ok(durationMs > 0 && cpuTimeMs > 0 && memoryPeakBytes > 0)
      assert.notEqual(durationMs % 1, 0, 'finer than milliseconds')
    })
    test('wrong options throw: they are no failure of the code', async () => {
      await assert.rejects(run('1', { limits: { cpuMs: 1 } }), { name: 'InvalidArgumentError', message: /limits\.cpuMs is no limit; there are memoryMb/ })
      for (const bad of [-1, NaN, 1.5, '1']) await assert.rejects(run('1', { limits: { cpuTimeMs: bad } }), { name: 'InvalidArgumentError', message: /limits\.cpuTimeMs is/ })
      await assert.rejects(createSandbox({ client, maxIsolates: 0 }), { name: 'InvalidArgumentError', message: /maxIsolates is 0/ })
      await assert.rejects(run('1', { globals: { x: 1 } }), { name: 'TypeError', message: /^globals\.x must be a function/ })
    })
  })

  describe('console', () => {
    test('one entry a call, by stream, in order', async () => {
      const { stdout, stderr } = await run('console.log("a", 1, {b: [2]}); console.info("i"); console.debug("x\\ny"); console.warn("w"); console.error("e")')
      assert.deepEqual([stdout, stderr], [['a 1 {"b":[2]}', 'i', 'x\ny'], ['w', 'e']])
    })
    test('lines survive failures', async () => assert.deepEqual((await run('console.log("before"); throw 1')).stdout, ['before']))
    test('a line over the cap is dropped whole, and the run goes on', async () => {
      const result = await run('console.log("x".repeat(90)); console.log("y".repeat(90)); console.log("z"); console.error("e".repeat(90))', { limits: { maxStdoutBytes: 100, maxStderrBytes: 50 } })
      assert.deepEqual([result.ok, result.stdout, result.stderr], [true, ['x'.repeat(90), 'z'], []])
    })
  })

  describe('values', () => {
    test('rich values pass both ways, with cycles and identity', async () => {
      const sent = { d: new Date(0), m: new Map([[1, new Set(['a'])]]), f: new Float32Array([1.5]), r: /x/gi, b: 10n ** 20n, u: undefined, n: NaN, z: -0, e: new RangeError('no'), bytes: Uint8Array.of(1, 255), url: new URL('https://example.org/') }
      sent.self = sent
      const back = await value('export default await echo()', { globals: { echo: () => sent } })
      assert.equal(back.self, back)
      delete sent.self
      delete back.self
      assert.deepEqual([back.e instanceof RangeError, back.e.message], [true, 'no'])
      delete sent.e
      delete back.e
      assert.deepEqual(back, sent)
    })
    test('arguments of host functions are as rich', async () => {
      let got
      await value('await take(new Map([["k", new Date(5)]]), [1n, , 3], new Uint8Array([7]))', { globals: { take: (...args) => { got = args } } })
      assert.deepEqual(got, [new Map([['k', new Date(5)]]), [1n, , 3], Uint8Array.of(7)])
    })
    test('Request, Response and Headers are real instances', async () => {
      const globals = { get: async (request) => new Response(`${request.method} ${new URL(request.url).pathname} ${await request.text()}`, { status: 201, headers: { a: 'b' } }) }
      const code = 'const r = await get(new Request("https://h/p", { method: "POST", body: "hi" })); export default [r instanceof Response, r.status, r.headers.get("a"), await r.text()]; export const made = new Response("out", { status: 404 })'
      const result = await run(code, { globals })
      assert.deepEqual(result.exports.default, [true, 201, 'b', 'POST /p hi'])
      assert.deepEqual([result.exports.made.status, await result.exports.made.text()], [404, 'out'])
    })
    test('an own key __proto__ is a plain key', async () => {
      const got = await value('export default JSON.parse(\'{"__proto__": {"x": 1}}\')')
      assert.deepEqual([Object.keys(got), got.x], [['__proto__'], undefined])
    })
    for (const [what, code] of Object.entries({ function: '() => 1', class: 'class {}', symbol: 'Symbol()', promise: 'Promise.resolve(1)', 'nested function': '{ a: [() => 1] }' })) {
      test(`an exported ${what} fails the run by name`, async () => {
        const error = await failure(`export const good = 1; export const bad = ${code}`)
        assert.deepEqual([error.code, error.message.startsWith('$.bad')], ['ERR_EXPORT_NOT_SERIALIZABLE', true], error.message)
      })
    }
    test('readExports skips what cannot be sent, and names it', async () => {
      const { exports, skippedExports } = await sandbox.readExports({ code: 'export default 1; export const f = () => 1; export const m = new Map([[1, 2]]); export const p = Promise.resolve(1)' })
      assert.deepEqual([exports, skippedExports.sort()], [{ default: 1, m: new Map([[1, 2]]) }, ['f', 'p']])
      await assert.rejects(sandbox.readExports({ code: 'throw new RangeError("x")' }), { name: 'RangeError', message: 'x', code: 'ERR_USER_CODE' })
    })
  })

  describe('globals', () => {
    test('a host function is asynchronous inside, whether it is or not', async () => {
      assert.deepEqual(await value('const p = f(); export default [p instanceof Promise, await p]', { globals: { f: () => 7 } }), [true, 7])
    })
    test('several calls are in flight at once, answers in their own order', async () => {
      const open = []
      const t = (number) => new Promise((resolve) => {
        open.push(() => resolve(number))
        if (open.length === 3) while (open.length > 0) open.pop()()
      })
      assert.deepEqual(await value('export default await Promise.all([t(60), t(40), t(20)])', { globals: { t } }), [60, 40, 20])
    })
    test('strings are expressions, evaluated inside', async () => assert.equal(await value('export default double(4)', { globals: { double: '(n) => n * 2' } }), 8))
    test('kinds: data, bridge, string, each enumerable or not', async () => {
      const globals = { D: { kind: 'data', value: { a: new Date(1) }, enumerable: false }, b: { kind: 'bridge', handler: (n) => n + 1 }, S: { kind: 'string', expr: '6 * 7' } }
      assert.deepEqual(await value('export default [D.a.getTime(), await b(1), S, Object.keys(globalThis).includes("D"), Object.keys(globalThis).includes("b")]', { globals }), [1, 2, 42, false, true])
    })
    test('a shim runs inside over the handler\'s result', async () => {
      const globals = { get: { kind: 'bridge-with-shim', handler: (n) => ({ n }), shim: '(r) => ({ ...r, twice: () => r.n * 2 })' } }
      assert.equal(await value('export default (await get(21)).twice()', { globals }), 42)
    })
    test('fetch is not special: it is not there unless given', async () => {
      const error = await failure('await fetch("https://example.org")')
      assert.deepEqual([error.code, error.name], ['ERR_USER_CODE', 'ReferenceError'])
    })
    test('createSafeFetch is assigned as a global', async () => {
      const globals = { fetch: createSafeFetch({ policy: () => true }) }
      const got = await value('let m; try { await fetch("http://127.0.0.1/") } catch (e) { m = e.message } export default m', { globals })
      assert.match(got, /127\.0\.0\.1|address|private|loopback/i)
    })
    test('reserved names are refused', async () => assert.equal((await failure('1', { globals: { console: () => 1 } })).code, 'ERR_RESERVED_NAME'))
    test('names may be any string and are never spliced into code', async () => {
      assert.equal(await value('export default await globalThis["a b; throw 1"]()', { globals: { 'a b; throw 1': () => 3 } }), 3)
    })
    test('a function as argument ends the run, even when that is caught', async () => {
      const error = await failure('try { await f(() => 1) } catch {}\nexport default 1', { globals: { f: () => 1 } })
      assert.equal(error.code, 'ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED')
    })
    test('a value of a handler that cannot be sent is ERR_HOST_BRIDGE of that call', async () => {
      assert.equal((await failure('await f()', { globals: { f: () => ({ cb: () => 1 }) } })).code, 'ERR_HOST_BRIDGE')
      assert.match(await value('let m; try { await f() } catch (e) { m = e.message } export default m', { globals: { f: () => ({ cb: () => 1 }) } }), /\$\.cb: function cannot be sent/)
    })
    test('calls are recorded', async () => {
      const { bridgeCalls } = await run('await ok("xyz"); try { await bad() } catch {}', { globals: { ok: () => 'abc', bad: () => { throw new Error('x') } } })
      assert.deepEqual(bridgeCalls.map(({ name, ok, blocked }) => [name, ok, blocked]), [['ok', true, false], ['bad', false, false]])
      assert.ok(bridgeCalls[0].argBytes >= 3 && bridgeCalls[0].responseBytes >= 3 && bridgeCalls[1].startMs >= bridgeCalls[0].startMs && bridgeCalls[0].durationMs >= 0)
    })
  })

  describe('errors', () => {
    const thrower = { globals: { fail: () => { throw Object.assign(new RangeError('too far'), { status: 404, secret: () => 1 }) } } }
    test('of the host are real errors inside: class, message, own properties; catchable', async () => {
      assert.deepEqual(await value('let r; try { await fail() } catch (e) { r = [e instanceof RangeError, e.name, e.message, e.status, "secret" in e] } export default r', thrower), [true, 'RangeError', 'too far', 404, false])
    })
    test('of the host, uncaught: ERR_HOST_BRIDGE without a stack', async () => {
      const error = await failure('await fail()', thrower)
      assert.deepEqual(error, { code: 'ERR_HOST_BRIDGE', name: 'RangeError', message: 'too far', fields: { status: 404 } })
    })
    test('the host\'s stack never crosses', async () => {
      const stack = await value('let s; try { await fail() } catch (e) { s = String(e.stack) } export default s', thrower)
      assert.ok(!stack.includes('isolate.test.mjs'), stack)
    })
    test('thrown again it keeps its class, a new one made of it is the code\'s', async () => {
      assert.equal((await failure('try { await fail() } catch (e) { e.more = 1; throw e }', thrower)).code, 'ERR_HOST_BRIDGE')
      assert.equal((await failure('try { await fail() } catch (e) { throw new Error(e.message) }', thrower)).code, 'ERR_USER_CODE')
    })
    test('a string thrown by the host is an Error with that message', async () => {
      assert.deepEqual(await value('let r; try { await f() } catch (e) { r = [e instanceof Error, e.message] } export default r', { globals: { f: () => { throw 'bare' } } }), [true, 'bare']) // eslint-disable-line no-throw-literal
    })
    test('of the code: name, message, stack, own properties', async () => {
      const error = await failure('throw Object.assign(new TypeError("no"), { status: 4 })')
      assert.deepEqual([error.code, error.name, error.message, error.fields], ['ERR_USER_CODE', 'TypeError', 'no', { status: 4 }])
      assert.match(error.stack, /TypeError: no\n {4}at <cloche>:1/)
      assert.equal((await failure('throw new Error("plain")')).fields, undefined)
    })
    test('a primitive thrown has its text as message, and no stack', async () => {
      assert.deepEqual(await failure('throw 42'), { code: 'ERR_USER_CODE', name: 'Error', message: '42' })
    })
    test('stack overflow and rejected awaits are the code\'s', async () => {
      assert.equal((await failure('(function f() { f() })()')).code, 'ERR_USER_CODE')
      assert.equal((await failure('await Promise.reject(new Error("x"))')).code, 'ERR_USER_CODE')
    })
  })

  describe('imports', () => {
    test('sources import each other; host modules have functions, data, nested both', async () => {
      const imports = { a: 'import { b } from "b"; export const a = b + 1', b: 'export const b = 1', db: { users: { find: (n) => ({ n }) }, VERSION: 3, default: { list: [1, new Date(0)] } } }
      assert.deepEqual(await value('import { a } from "a"; import db, { users, VERSION } from "db"; export default [a, await users.find(1), VERSION, db.list[1].getTime()]', { imports }), [2, { n: 1 }, 3, 0])
    })
    test('an unknown specifier is ERR_MODULE_NOT_FOUND', async () => assert.equal((await failure('import "fs"')).code, 'ERR_MODULE_NOT_FOUND'))
    test('what cannot be a module is refused when it is given', async () => {
      const cyclic = { a: {} }
      cyclic.a.b = cyclic
      for (const [bad, message] of [[[], /an array/], [null, /null/], [{ 'not-a-name': 1 }, /cannot be the name of an export/], [{ class: 1 }, /cannot be the name/], [cyclic, /is a cycle/], [{ a: [() => 1] }, /function inside data/], [{ a: new (class Thing {})() }, /instance of Thing/]]) {
        await assert.rejects(run('1', { imports: { m: bad } }), { name: 'TypeError', message })
      }
    })
    test('node:async_hooks gives AsyncLocalStorage to runs', async () => {
      assert.equal(await value('import { AsyncLocalStorage } from "node:async_hooks"; const s = new AsyncLocalStorage(); export default s.run(5, () => s.getStore())'), 5)
    })
  })

  describe('limits', () => {
    test('ten calls of host functions by default, the number said, the eleventh never reaches the host', async () => {
      let calls = 0
      const error = await failure('try { for (;;) await f() } catch {}\nexport default "caught"', { globals: { f: () => ++calls } })
      assert.deepEqual([error.code, calls], ['ERR_BRIDGE_CALL_LIMIT_EXCEEDED', 10])
      assert.match(error.message, /more than 10 calls .*limits\.maxBridgeCalls/)
    })
    test('globals and imports count together; 0 is none', async () => {
      const more = { globals: { f: () => 1 }, imports: { m: { g: () => 2 } } }
      const code = 'import { g } from "m"; let n = 0; for (let i = 0; i < 8; i++) n += await f() + await g(); export default n'
      assert.equal((await failure(code, more)).code, 'ERR_BRIDGE_CALL_LIMIT_EXCEEDED')
      assert.equal(await value(code, { ...more, limits: { maxBridgeCalls: 0 } }), 24)
    })
    test('bytes of a call', async () => assert.equal((await failure('await f("x".repeat(5000))', { globals: { f: () => 1 }, limits: { maxBridgeCallBytes: 2048 } })).code, 'ERR_BRIDGE_PAYLOAD_TOO_LARGE'))
    test('bytes of an answer fail that call', async () => {
      const more = { globals: { f: () => 'x'.repeat(5000) }, limits: { maxBridgePayloadBytes: 2048 } }
      assert.match(await value('let m; try { await f() } catch (e) { m = e.message } export default m', more), /larger than 2048 bytes/)
    })
    test('bytes of the exports', async () => assert.equal((await failure('export default "x".repeat(5000)', { limits: { maxExportBytes: 1024 } })).code, 'ERR_EXPORT_TOO_LARGE'))
    test('memory: 128 MiB by default, typed arrays count, lines before it are kept', async () => {
      const result = await run('console.log("before"); const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))')
      assert.deepEqual([result.error.code, result.stdout], ['ERR_MEMORY_LIMIT', ['before']])
      assert.match(result.error.message, /128 MiB/)
    })
    test('neighbours of a run out of memory stay well', async () => {
      const [bad, ...good] = await Promise.all([run('const a = []; for (;;) a.push(new Array(1e5).fill(1))', { limits: { memoryMb: 64 } }), ...[1, 2, 3].map((n) => run(`export default await new Promise((r) => setTimeout(() => r(${n}), 100))`))])
      assert.deepEqual([bad.error.code, good.map(({ exports }) => exports?.default)], ['ERR_MEMORY_LIMIT', [1, 2, 3]])
    })
    test('processor time', async () => assert.equal((await failure('for (;;);', { limits: { cpuTimeMs: 200 } })).code, 'ERR_CPU_TIMEOUT'))
    test('processor time leaves out waiting for the host', async () => {
      const result = await run('await wait()', { globals: { wait: () => sleep(600) }, limits: { cpuTimeMs: 300 } })
      assert.ok(result.ok && result.cpuTimeMs < 300)
    })
    test('wall time, also while a handler hangs; its late answer goes nowhere', async () => {
      let release
      const more = { globals: { hang: () => new Promise((resolve) => { release = resolve }) }, limits: { wallTimeMs: 3000 } }
      assert.equal((await failure('await hang()', more)).code, 'ERR_WALL_TIMEOUT')
      release('late')
      assert.equal(await value('export default 1'), 1)
    })
    test('an await that nothing can settle fails at once', async () => assert.equal((await failure('await new Promise(() => {})')).code, 'ERR_EXPORT_UNRESOLVED_PROMISE'))
  })

  describe('abort', () => {
    const reason = new Error('user went away')
    const assertAborted = (result) => {
      assert.deepEqual([result.status, result.ok, result.reason], ['aborted', false, reason])
      assert.deepEqual(result.error, { code: 'ERR_ABORTED', name: 'AbortError', message: 'run was aborted' })
    }
    test('before the run', async () => assertAborted(await run('export default 1', { signal: AbortSignal.abort(reason) })))
    test('while it waits for the host; the handler\'s late value is never seen', async () => {
      const ending = new AbortController()
      let release
      const hang = () => { ending.abort(reason); return new Promise((resolve) => { release = resolve }) }
      const result = await run('console.log("in"); await hang(); console.log("out")', { globals: { hang }, signal: ending.signal })
      assertAborted(result)
      assert.deepEqual(result.stdout, ['in'])
      release('late')
    })
    for (const name of ['signal', 'hardAbortSignal']) {
      test(`in a loop that never yields (${name})`, async () => {
        const ending = new AbortController()
        const result = await run('await begun(); for (;;);', { globals: { begun: () => { setTimeout(() => ending.abort(reason), 50) } }, [name]: ending.signal, limits: { cpuTimeMs: 0, wallTimeMs: 60_000 } })
        assertAborted(result)
        assert.ok(result.durationMs < 30_000)
      })
    }
    test('while it waits for its turn, and those that run stay undisturbed', async () => {
      const narrow = await createSandbox({ client, maxIsolates: 1 })
      const ending = new AbortController()
      const running = narrow.run({ code: 'export default await f()', globals: { f: async () => { await sleep(150); return 1 } } })
      const waiting = narrow.run({ code: 'export default 2', signal: ending.signal })
      const third = narrow.run({ code: 'export default 3' })
      ending.abort(reason)
      assertAborted(await waiting)
      assert.deepEqual([(await running).exports.default, (await third).exports.default], [1, 3])
      await narrow.dispose()
    })
    test('after completion it does nothing', async () => {
      const ending = new AbortController()
      const result = await run('export default 1', { signal: ending.signal })
      ending.abort(reason)
      assert.equal(result.status, 'completed')
    })
  })

  describe('prefix', () => {
    test('set-up runs once; runs see its global state, not its bindings, and none sees another', async () => {
      const prefix = await sandbox.precompile({ code: 'globalThis.list = [1]; const hidden = 1; globalThis.made = Math.random()' })
      const results = await Promise.all(Array.from({ length: 6 }, () => prefix.run({ code: 'list.push(2); globalThis.leak = 1; export default [list.length, typeof hidden, made]' })))
      assert.deepEqual([...new Set(results.map(({ exports }) => JSON.stringify(exports.default)))].length, 1)
      assert.deepEqual(results[0].exports.default.slice(0, 2), [2, 'undefined'])
      assert.deepEqual((await prefix.run({ code: 'export default typeof leak' })).exports.default, 'undefined')
    })
    test('handlers are the prefix\'s unless a run rebinds them', async () => {
      const prefix = await sandbox.precompile({ code: '', globals: { who: () => 'default' }, imports: { m: { deep: { who: () => 'm' } } } })
      const code = 'import { deep } from "m"; export default [await who(), await deep.who()]'
      assert.deepEqual((await prefix.run({ code })).exports.default, ['default', 'm'])
      assert.deepEqual((await prefix.run({ code, globals: { who: () => 'mine' }, imports: { m: { deep: { who: () => 'own' } } } })).exports.default, ['mine', 'own'])
      assert.deepEqual((await prefix.execute({ code })).exports.default, ['default', 'm'])
    })
    test('rebinding what was not declared is a result: ERR_UNDECLARED_BINDING', async () => {
      const prefix = await sandbox.precompile({ code: '', globals: { K: { kind: 'data', value: 1 } }, imports: { s: 'export const a = 1' } })
      for (const more of [{ globals: { nope: () => 1 } }, { globals: { K: () => 1 } }, { imports: { s: { a: () => 1 } } }, { imports: { t: { a: () => 1 } } }]) {
        const result = await prefix.run({ code: '1', ...more })
        assert.deepEqual([result.ok, result.error.code], [false, 'ERR_UNDECLARED_BINDING'])
      }
    })
    test('an override that is no function throws', async () => {
      const prefix = await sandbox.precompile({ code: '', globals: { f: () => 1 } })
      await assert.rejects(prefix.run({ code: '1', globals: { f: undefined } }), { name: 'TypeError', message: /globals\.f must be a function/ })
    })
    test('a shim stays, its handler can be rebound', async () => {
      const prefix = await sandbox.precompile({ code: '', globals: { get: { kind: 'bridge-with-shim', handler: () => 1, shim: '(n) => n * 10' } } })
      assert.equal((await prefix.run({ code: 'export default await get()', globals: { get: () => 2 } })).exports.default, 20)
    })
    test('limits hold per run', async () => {
      const prefix = await sandbox.precompile({ code: '', globals: { f: () => 1 } })
      assert.equal((await prefix.run({ code: 'await f(); await f()', limits: { maxBridgeCalls: 1 } })).error.code, 'ERR_BRIDGE_CALL_LIMIT_EXCEEDED')
      assert.equal((await prefix.run({ code: 'for (;;);', limits: { cpuTimeMs: 150 } })).error.code, 'ERR_CPU_TIMEOUT')
      assert.equal((await prefix.run({ code: 'export default await f()' })).exports.default, 1)
    })
    const failures = {
      'code that does not compile': ['export default (', 'ERR_COMPILE', 'SyntaxError'],
      'code that throws': ['throw Object.assign(new RangeError("no"), { status: 3 })', 'ERR_USER_CODE', 'RangeError'],
      'an import that is not there': ['import "nothing"', 'ERR_MODULE_NOT_FOUND', 'TypeError'],
      'a promise that does not settle': ['await new Promise(() => {})', 'ERR_PREFIX_DID_NOT_SETTLE', 'Error'],
      'a call of the host': ['await f()', 'ERR_PREFIX_BRIDGE_CALL', 'TypeError'],
      'node:async_hooks': ['import "node:async_hooks"', 'ERR_MODULE_NOT_FOUND', 'TypeError']
    }
    for (const [what, [code, expected, name]] of Object.entries(failures)) {
      test(`precompile rejects: ${what}`, async () => {
        await assert.rejects(sandbox.precompile({ code, globals: { f: () => 1 } }), (thrown) => {
          assert.ok(thrown instanceof Error)
          assert.deepEqual([thrown.code, thrown.name], [expected, name], thrown.stack)
          return typeof thrown.stack === 'string' && !thrown.stack.includes('cloche:')
        })
      })
    }
    test('precompile rejects: an endless loop, with ERR_WARMUP_LIMIT', () => assert.rejects(sandbox.precompile({ code: 'for (;;);', limits: { wallTimeMs: 400 } }), { code: 'ERR_WARMUP_LIMIT' }))
    test('typeof a host function is function also in the set-up', async () => {
      const prefix = await sandbox.prepare({ code: 'globalThis.seen = typeof f', globals: { f: () => 1 } })
      assert.equal((await prefix.run({ code: 'export default seen' })).exports.default, 'function')
    })
    test('disposed: not alive, runs resolve to ERR_PREFIX_DISPOSED, twice is once', async () => {
      const prefix = await sandbox.precompile({ code: '' })
      assert.ok(prefix.alive && typeof prefix.id === 'string')
      await prefix.dispose()
      await prefix.dispose()
      assert.ok(!prefix.alive)
      const result = await prefix.run({ code: '1' })
      assert.deepEqual([result.ok, result.error.code], [false, 'ERR_PREFIX_DISPOSED'])
    })
    test('call: dotted path, receiver, awaited value, arguments as rich as any', async () => {
      const prefix = await sandbox.precompile({ code: 'export class Base { twice (n) { return n * this.k * 2 } }\nexport const api = { v: Object.assign(new Base(), { k: 3 }) }\nexport async function keys (m) { return [...m.keys()] }', filename: 'lib.mjs' })
      assert.equal((await prefix.call({ export: 'api.v.twice', args: [7] })).value, 42)
      const result = await prefix.call({ export: 'keys', args: [new Map([[new Date(0), 1]])] })
      assert.deepEqual([result.ok, result.value, result.bridgeCalls], [true, [new Date(0)], []])
    })
    test('call: no such export, or none that can be called', async () => {
      const prefix = await sandbox.precompile({ code: 'export const a = { b: 1 }' })
      for (const path of ['nope', 'a.b', 'a.x.y', 'default']) assert.equal((await prefix.call({ export: path })).error.code, 'ERR_CALL_TARGET_NOT_FOUND', path)
    })
    test('call: what it throws, with its stack and nobody else\'s', async () => {
      const prefix = await sandbox.precompile({ code: 'export const boom = () => {\n  throw new Error("x")\n}', filename: 'lib.mjs' })
      const { error } = await prefix.call({ export: 'boom' })
      assert.equal(error.code, 'ERR_USER_CODE')
      assert.match(error.stack, /lib\.mjs:2/)
      assert.ok(!error.stack.includes('cloche:'), error.stack)
    })
    test('call: the limit of host calls is the code\'s own', async () => {
      let calls = 0
      const prefix = await sandbox.precompile({ code: 'export const go = async (n) => { for (let i = 0; i < n; i++) await f() }', globals: { f: () => { calls++ } } })
      assert.ok((await prefix.call({ export: 'go', args: [3], limits: { maxBridgeCalls: 3 } })).ok)
      assert.equal((await prefix.call({ export: 'go', args: [4], limits: { maxBridgeCalls: 3 } })).error.code, 'ERR_BRIDGE_CALL_LIMIT_EXCEEDED')
      assert.equal(calls, 6)
    })
    test('sandbox.run with call', async () => {
      assert.equal((await sandbox.run({ code: 'export const f = (n) => n + k()\nconst k = () => 1', call: { export: 'f', args: [41] } })).value, 42)
    })
    test('many runs against one prefix are each clean', async () => {
      const prefix = await sandbox.precompile({ code: 'globalThis.n = 1; globalThis.seen = new Set()', globals: { id: () => 0 } })
      const ids = new Set()
      for (let batch = 0; batch < 4; batch++) {
        const results = await Promise.all(Array.from({ length: 25 }, (_, i) => prefix.run({ code: 'const i = await id(); seen.add(i); n++; export default [i, seen.size, n]', globals: { id: () => batch * 25 + i } })))
        for (const { ok, exports, error } of results) {
          assert.ok(ok, JSON.stringify(error))
          assert.deepEqual(exports.default.slice(1), [1, 2])
          ids.add(exports.default[0])
        }
      }
      assert.equal(ids.size, 100)
    })
  })

  describe('the sandbox itself', () => {
    test('maxIsolates runs at once, the others in their order', async () => {
      const narrow = await createSandbox({ client, maxConcurrentRuns: 2 })
      let open = 0, most = 0
      const order = []
      const f = async (i) => { most = Math.max(most, ++open); order.push(i); await sleep(20); open-- }
      await Promise.all(Array.from({ length: 6 }, (_, i) => narrow.run({ code: `await f(${i})`, globals: { f } })))
      assert.ok(most <= 2)
      assert.deepEqual(order.toSorted?.() ?? [...order].sort(), [0, 1, 2, 3, 4, 5])
      await narrow.dispose()
    })
    test('more than maxQueuedRuns are refused by name', async () => {
      const narrow = await createSandbox({ client, maxIsolates: 1, maxQueuedRuns: 1 })
      const running = [narrow.run({ code: 'await f()', globals: { f: () => sleep(100) } }), narrow.run({ code: '1' })]
      await assert.rejects(narrow.run({ code: '1' }), { name: 'QueueFullError', message: /maxQueuedRuns is 1/ })
      assert.deepEqual((await Promise.all(running)).map(({ ok }) => ok), [true, true])
      await narrow.dispose()
    })
    test('disposed: alive is false, who waits is sent away, later runs reject', async () => {
      const own = await createSandbox({ client, maxIsolates: 1 })
      const running = own.run({ code: 'await f()', globals: { f: () => sleep(50) } })
      const waiting = own.run({ code: '1' })
      assert.ok(own.alive)
      await Promise.all([own.dispose(), assert.rejects(waiting, { name: 'StateError', message: 'the sandbox is disposed' })])
      assert.ok(!own.alive)
      await running
      await assert.rejects(own.run({ code: '1' }), { name: 'StateError' })
      await assert.rejects(own.precompile({ code: '1' }), { name: 'StateError' })
      await own.dispose()
    })
    test('disposed while a run is under way: it rejects with that', async () => {
      const own = await createSandbox({ daemonArgs: ['--max-saved', '1'] }) // a daemon without other sandboxes
      let begun
      const isRunning = new Promise((resolve) => { begun = resolve })
      const ended = assert.rejects(own.run({ code: 'begun(); await new Promise(() => setInterval(() => {}, 1000))', globals: { begun } }), { name: 'StateError', message: 'the sandbox is disposed' })
      await isRunning
      await Promise.all([own.dispose(), ended])
    })
    test('wrong options are refused in words', async () => {
      const refused = (message) => ({ name: 'InvalidArgumentError', message })
      const prefix = await sandbox.precompile({ code: 'export const f = (...all) => all.length' })
      for (const act of [() => sandbox.run(), () => prefix.run(), () => prefix.run(null)]) await assert.rejects(act, refused(/^run: options are (undefined|null); an object is expected: run\(\{code: /))
      await assert.rejects(() => sandbox.readExports(), refused(/^readExports: options are undefined/))
      await assert.rejects(() => sandbox.precompile('x'), refused(/^prepare: options are string/))
      await assert.rejects(() => prefix.call(), refused(/^call: options are undefined; .*export: 'name'/))
      await assert.rejects(() => prefix.call({ export: 'f', args: 'ab' }), refused('call: args must be an array, the arguments in their order, not string'))
      await assert.rejects(() => sandbox.run({ code: 'export const f = 1', call: { export: 'f', args: {} } }), refused(/^call: args must be an array/))
      assert.equal((await prefix.call({ export: 'f', args: ['a', 'b'] })).value, 2)
      await prefix.dispose()
    })
    test('stats', async () => {
      const prefix = await sandbox.precompile({ code: '' })
      const { activeRuns, queueDepth, prefixes, budgetBytes, underPressure } = await sandbox.stats()
      assert.deepEqual([activeRuns, queueDepth, prefixes[prefix.id], budgetBytes, underPressure], [0, 0, { idle: 0, busy: 0 }, 0, false])
      let seen
      await prefix.run({ code: 'export default 1' })
      const asking = await sandbox.precompile({ code: '', globals: { ask: async () => { seen = (await sandbox.stats()).prefixes[asking.id] } } })
      await asking.run({ code: 'await ask()' })
      assert.deepEqual(seen, { idle: 0, busy: 1 })
      await prefix.dispose()
      await asking.dispose()
      assert.equal((await sandbox.stats()).prefixes[prefix.id], undefined)
    })
    test('the daemon killed mid-run: every run rejects by name, alive is false, the next sandbox has a new one', async () => {
      // Without a client a sandbox uses the process's shared daemon: a newly started one is that.
      const before = daemons()
      const own = await createSandbox()
      const [pid] = daemons().filter((one) => !before.includes(one))
      const running = [own.run({ code: 'await f()', globals: { f: () => sleep(60_000, undefined, { ref: false }) } }), own.run({ code: 'for (;;);', limits: { cpuTimeMs: 0 } })]
      await until(async () => (await own.stats()).daemon.runs.now === 2, 'both run')
      process.kill(pid, 'SIGKILL')
      for (const outcome of await Promise.allSettled(running)) assert.match(`${outcome.reason}`, /^ConnectionError: evaluate \(request \d+\) has no answer: .*was killed by SIGKILL/)
      assert.ok(!own.alive)
      await own.dispose()
      const next = await createSandbox()
      assert.equal((await next.run({ code: 'export default 1' })).exports.default, 1)
      await next.dispose()
    })
    test('asyncDispose is dispose', async () => {
      const own = await createSandbox({ client })
      const prefix = await own.precompile({ code: '' })
      await prefix[Symbol.asyncDispose]()
      assert.ok(!prefix.alive && own.alive)
      await own[Symbol.asyncDispose]()
      assert.ok(!own.alive)
    })
  })
})
