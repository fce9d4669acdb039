// The examples of the isolate package and of its fetch package: only one import line differs.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { createSafeFetch, createSandbox } from 'cloche/isolate'
import { real, until } from './lib/real.mjs'
import { echo, httpServer, PUBLIC, to } from './safe-fetch/helpers.mjs'

describe('the isolate package\'s examples', real, () => {
  let sandbox
  before(async () => { sandbox = await createSandbox() })
  after(() => sandbox?.dispose())

  test('a run: exports, lines, times', async () => {
    const result = await sandbox.run({
      code: `
        console.log('hello', { from: 'inside' })
        console.error('careful')
        export const answer = 6 * 7
        export default await Promise.resolve([answer, 'done'])`
    })
    assert.ok(result.ok)
    assert.deepEqual([result.status, result.exports, result.stdout, result.stderr], ['completed', { default: [42, 'done'], answer: 42 }, ['hello {"from":"inside"}'], ['careful']])
    assert.ok(result.durationMs > 0 && result.cpuTimeMs > 0)
  })

  test('a function of the caller\'s is wrapped: export default await (<fn>)()', async () => {
    const fn = 'async () => { const n = await double(21); return { n } }'
    const result = await sandbox.run({ code: `export default await (${fn})()`, globals: { double: (n) => n * 2 } })
    assert.deepEqual(result.exports.default, { n: 42 })
    assert.equal((await sandbox.run({ code: 'return 1' })).error.code, 'ERR_COMPILE')
  })

  test('host functions are asynchronous inside, and several are in flight at once', async () => {
    const open = []
    const slow = (name) => new Promise((resolve) => {
      open.push(() => { resolve(name) })
      if (open.length === 3) for (const go of open.reverse()) go()
    })
    const code = 'const pending = slow("a"); export default [pending instanceof Promise, await Promise.all([pending, slow("b"), slow("c")])]'
    assert.deepEqual((await sandbox.run({ code, globals: { slow } })).exports.default, [true, ['a', 'b', 'c']])
  })

  test('each kind of global', async () => {
    const globals = {
      plain: (n) => n + 1,
      bridged: { kind: 'bridge', handler: async (n) => n + 2 },
      shimmed: { kind: 'bridge-with-shim', handler: (n) => ({ n }), shim: '(answer) => ({ get: () => answer.n * 10 })' },
      config: { kind: 'data', value: { region: 'eu', since: new Date(0), tags: new Set(['a']) } },
      VERSION: '"1.2." + 3',
      quiet: { kind: 'string', expr: 'Object.freeze({ deep: true })', enumerable: false },
      'object.set': (key, value) => [key, value]
    }
    const code = `export default [await plain(1), await bridged(1), (await shimmed(4)).get(), config.region, config.since.getTime(), config.tags.has('a'), VERSION, quiet.deep,
      await globalThis['object.set']('k', 1), Object.keys(globalThis).includes('quiet'), typeof fetch]`
    assert.deepEqual((await sandbox.run({ code, globals })).exports.default, [2, 3, 40, 'eu', 0, true, '1.2.3', true, ['k', 1], false, 'undefined'])
  })

  test('errors of the host are caught, with their class and fields, and without their stack', async () => {
    class NotFound extends Error {}
    const globals = {
      find: () => { throw Object.assign(new TypeError('no such user'), { status: 404 }) },
      other: () => { throw new NotFound('gone') },
      text: () => { throw 'just a text' } // eslint-disable-line no-throw-literal
    }
    const code = 'const seen = []; for (const f of [find, other, text]) { try { await f() } catch (e) { seen.push([e instanceof Error, e instanceof TypeError, e.name, e.message, e.status, /isolate-examples/.test(e.stack)]) } } export default seen'
    assert.deepEqual((await sandbox.run({ code, globals })).exports.default, [
      [true, true, 'TypeError', 'no such user', 404, false], [true, false, 'Error', 'gone', undefined, false], [true, false, 'Error', 'just a text', undefined, false]
    ])
    const uncaught = await sandbox.run({ code: 'await find()', globals })
    assert.deepEqual([uncaught.ok, uncaught.error.code, uncaught.error.name, uncaught.error.message, uncaught.error.fields, uncaught.error.stack], [false, 'ERR_HOST_BRIDGE', 'TypeError', 'no such user', { status: 404 }, undefined])
    const again = await sandbox.run({ code: 'try { await find() } catch (e) { e.step = "save"; throw e }', globals })
    assert.deepEqual([again.error.code, again.error.fields], ['ERR_HOST_BRIDGE', { status: 404, step: 'save' }])
    const rebuilt = await sandbox.run({ code: 'try { await find() } catch (e) { throw new Error("wrapped: " + e.message) }', globals })
    assert.deepEqual([rebuilt.error.code, rebuilt.error.message], ['ERR_USER_CODE', 'wrapped: no such user'])
  })

  test('errors of the code have name, message, stack and fields; what is thrown and no error is one', async () => {
    const { error, stdout } = await sandbox.run({ code: 'console.log("before"); class Denied extends Error { name = "Denied"; reason = "quota" }\nthrow new Denied("too much")', filename: 'agent.mjs' })
    assert.deepEqual([error.code, error.name, error.message, error.fields, stdout], ['ERR_USER_CODE', 'Denied', 'too much', { reason: 'quota' }, ['before']])
    assert.match(error.stack, /agent\.mjs:2/)
    const { error: { name, message, stack, fields } } = await sandbox.run({ code: 'throw 7' })
    assert.deepEqual([name, message, stack, fields], ['Error', '7', undefined, undefined])
    assert.equal((await sandbox.run({ code: 'await Promise.reject(new RangeError("x"))' })).error.name, 'RangeError')
    assert.equal((await sandbox.run({ code: 'const f = () => f(); f()' })).error.code, 'ERR_USER_CODE')
    assert.equal((await sandbox.run({ code: 'fetch("https://example.org")' })).error.message, 'fetch is not defined')
  })

  test('imports: source modules, host modules, nested ones, and a rebound function', async () => {
    const imports = {
      'lib/math': 'import { base } from "lib/base"; export const add = (a, b) => a + b + base',
      'lib/base': 'export const base = 100',
      'app:db': { users: { create: async (name) => ({ id: 7, name }), table: 'users' }, default: 'the default' }
    }
    const code = 'import fallback, { users } from "app:db"; import { add } from "lib/math"; export default [add(1, 2), await users.create("ada"), users.table, fallback]'
    assert.deepEqual((await sandbox.run({ code, imports })).exports.default, [103, { id: 7, name: 'ada' }, 'users', 'the default'])
    await using(sandbox.precompile({ code: '', imports }), async (prefix) => {
      const rebound = await prefix.run({ code, imports: { 'app:db': { users: { create: async (name) => ({ id: 8, name }) } } } })
      assert.deepEqual(rebound.exports.default[1], { id: 8, name: 'ada' })
      assert.equal((await prefix.run({ code, imports: { 'lib/base': 'export const base = 0' } })).error.code, 'ERR_UNDECLARED_BINDING')
    })
    assert.equal((await sandbox.run({ code: 'import "left-pad"' })).error.code, 'ERR_MODULE_NOT_FOUND')
    for (const bad of [[], null, { 'not an identifier': 1 }]) await assert.rejects(sandbox.run({ code: '1', imports: { bad } }), TypeError)
  })

  test('AsyncLocalStorage of node:async_hooks: run and getStore, of run code only', async () => {
    const code = 'import { AsyncLocalStorage } from "node:async_hooks"; const s = new AsyncLocalStorage(); export default await s.run(5, async () => { await null; return s.getStore() })'
    assert.equal((await sandbox.run({ code })).exports.default, 5)
    await assert.rejects(sandbox.precompile({ code }), { code: 'ERR_MODULE_NOT_FOUND' })
  })

  // `await using` of newer Node.
  async function using (making, use) {
    const made = await making
    try {
      return await use(made)
    } finally {
      await made[Symbol.asyncDispose]()
    }
  }

  test('a prefix: state that all its runs begin with, and none leaves behind', async () => {
    const prefix = await sandbox.precompile({
      code: 'globalThis.parse = (text) => text.split(","); globalThis.count = 0; const hidden = 1',
      globals: { lookup: async (id) => `declared ${id}` }
    })
    assert.equal(typeof prefix.id, 'string')
    const code = 'count++; export default [parse("a,b"), count, typeof hidden, await lookup(1)]'
    assert.deepEqual((await prefix.run({ code })).exports.default, [['a', 'b'], 1, 'undefined', 'declared 1'])
    assert.deepEqual((await prefix.run({ code, globals: { lookup: async (id) => `rebound ${id}` } })).exports.default, [['a', 'b'], 1, 'undefined', 'rebound 1'])
    assert.equal((await prefix.execute({ code: '1', globals: { other: () => 1 } })).error.code, 'ERR_UNDECLARED_BINDING')
    assert.ok(prefix.alive)
    await prefix.dispose()
    await prefix.dispose()
    const late = await prefix.run({ code: '1' })
    assert.deepEqual([prefix.alive, late.ok, late.error.code], [false, false, 'ERR_PREFIX_DISPOSED'])
  })

  test('a set-up that fails rejects, with a code', async () => {
    for (const [code, expected] of [['const const', 'ERR_COMPILE'], ['throw new RangeError("no")', 'ERR_USER_CODE'], ['import "nowhere"', 'ERR_MODULE_NOT_FOUND'], ['await new Promise(() => {})', 'ERR_PREFIX_DID_NOT_SETTLE'], ['for (;;);', 'ERR_WARMUP_LIMIT']]) {
      await assert.rejects(sandbox.precompile({ code }), (thrown) => {
        assert.ok(thrown instanceof Error, code)
        assert.deepEqual([thrown.code, typeof thrown.name, typeof thrown.stack], [expected, 'string', 'string'])
        return true
      })
    }
    await assert.rejects(sandbox.precompile({ code: 'await ask()', globals: { ask: () => 1 } }), { code: 'ERR_PREFIX_BRIDGE_CALL' })
    await using(sandbox.precompile({ code: 'globalThis.kind = typeof fetch', globals: { fetch: () => 1 } }), async (prefix) => assert.equal((await prefix.run({ code: 'export default kind' })).exports.default, 'function'))
  })

  test('call: a dotted path, its receiver, a promise that is awaited', async () => {
    const code = 'export const api = { factor: 3, times (n) { return Promise.resolve(n * this.factor) } }; export default class { static make = (...all) => all }'
    await using(sandbox.prepare({ code }), async (prefix) => {
      assert.equal((await prefix.call({ export: 'api.times', args: [5] })).value, 15)
      assert.deepEqual((await prefix.call({ export: 'default.make', args: [1, new Map([[1, 2]])] })).value, [1, new Map([[1, 2]])])
      assert.equal((await prefix.call({ export: 'api.factor' })).error.code, 'ERR_CALL_TARGET_NOT_FOUND')
    })
    assert.equal((await sandbox.run({ code, call: { export: 'api.times', args: [2] } })).value, 6)
  })

  test('readExports and stats', async () => {
    assert.deepEqual(await sandbox.readExports({ code: 'export const name = "tool"; export const run = () => 1; export default { version: 2 }' }), { exports: { default: { version: 2 }, name: 'tool' }, skippedExports: ['run'] })
    const stats = await sandbox.stats()
    assert.deepEqual([stats.activeRuns, stats.queueDepth, stats.underPressure], [0, 0, false])
  })

  test('values cross as what they are, both ways', async () => {
    const shared = { n: 1 }
    const cycle = { name: 'cycle' }
    cycle.self = cycle
    const sent = [undefined, null, NaN, -0, Infinity, 10n ** 40n, new Date(1e12), /x/gi, new Map([[shared, 'v']]), new Set([shared]), Uint8Array.of(1, 2), new Float64Array([1.5]), new ArrayBuffer(3), [, 1], new RangeError('r'), cycle] // eslint-disable-line no-sparse-arrays
    const { exports: { default: got } } = await sandbox.run({ code: 'const all = await same(); export default [...all, all[8].has([...all[9]][0])]', globals: { same: () => sent } })
    assert.ok(got.pop())
    assert.deepEqual(got, sent)
    assert.equal(got[15].self, got[15])
    assert.equal(Object.getPrototypeOf((await sandbox.run({ code: 'export default await f()', globals: { f: () => Buffer.from('x') } })).exports.default), Uint8Array.prototype)
    const forged = await sandbox.run({ code: 'export default JSON.parse(`{"__proto__": {"evil": 1}}`)' })
    assert.deepEqual([forged.exports.default.evil, Object.hasOwn(forged.exports.default, '__proto__')], [undefined, true])
  })

  test('what cannot cross: functions as arguments, functions and promises as exports', async () => {
    const fatal = await sandbox.run({ code: 'try { await f(() => 1) } catch {} export default "went on"', globals: { f: () => 1 } })
    assert.equal(fatal.error.code, 'ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED')
    // The last era skips such exports; if eras contradict each other the earlier ones hold (README.md).
    for (const code of ['export const f = () => 1', 'export class C {}', 'export const s = Symbol("s")', 'export const p = Promise.resolve(1)']) {
      assert.equal((await sandbox.run({ code })).error.code, 'ERR_EXPORT_NOT_SERIALIZABLE', code)
    }
    assert.equal((await sandbox.run({ code: 'try { await f() } catch (e) { export_(e) }', globals: { f: () => () => 1, export_: () => 1 } })).ok, true)
    assert.equal((await sandbox.run({ code: 'await f()', globals: { f: () => () => 1 } })).error.code, 'ERR_HOST_BRIDGE')
  })

  test('limits: each has its code, and the lines before it are there', async () => {
    const cases = [
      ['console.log("x"); for (;;);', { cpuTimeMs: 200 }, 'ERR_CPU_TIMEOUT'],
      ['console.log("x"); const all = []; for (;;) all.push(new Uint8Array(1 << 20).fill(1))', { memoryMb: 64 }, 'ERR_MEMORY_LIMIT'],
      ['console.log("x"); export default "x".repeat(2000)', { maxExportBytes: 1000 }, 'ERR_EXPORT_TOO_LARGE'],
      ['console.log("x"); await hang("x".repeat(2000))', { maxBridgeCallBytes: 1000 }, 'ERR_BRIDGE_PAYLOAD_TOO_LARGE']
    ]
    for (const [code, limits, expected] of cases) {
      const { error, stdout } = await sandbox.run({ code, limits, globals: { hang: () => new Promise(() => {}) } })
      assert.deepEqual([error?.code, stdout], [expected, ['x']], expected)
    }
    let hangs = false
    for (const wallTimeMs of [200, 2000, 20_000]) { // on a busy machine the code may not have come to its call
      const globals = { hang: () => { hangs = true; return new Promise(() => {}) } }
      const { error, stdout } = await sandbox.run({ code: 'console.log("x"); await hang()', limits: { wallTimeMs }, globals })
      assert.equal(error?.code, 'ERR_WALL_TIMEOUT')
      if (hangs) assert.deepEqual(stdout, ['x'])
      if (hangs) break
    }
    assert.equal(hangs, true)
    assert.equal((await sandbox.run({ code: 'export default 1' })).ok, true, 'others are undisturbed')
  })

  test('the eleventh call of the host never reaches it, unless the limit is raised', async () => {
    let calls = 0
    const globals = { f: () => { calls++ } }
    const code = 'for (let i = 0; i < 30; i++) { try { await f() } catch {} } export default "went on"'
    const { error } = await sandbox.run({ code, globals })
    assert.deepEqual([error.code, calls, /by default 10; raise it/.test(error.message)], ['ERR_BRIDGE_CALL_LIMIT_EXCEEDED', 10, true])
    assert.equal((await sandbox.run({ code, globals, limits: { maxBridgeCalls: 0 } })).exports.default, 'went on')
    calls = 0
    await sandbox.run({ code, globals, limits: { maxBridgeCalls: 3 } })
    assert.equal(calls, 3)
  })

  test('abort: while a handler is in flight, in a loop, before, and after', async () => {
    const leave = new AbortController()
    const inHandler = await sandbox.run({ code: 'await f()', globals: { f: () => { leave.abort('enough'); return new Promise(() => {}) } }, signal: leave.signal })
    assert.deepEqual([inHandler.status, inHandler.ok, inHandler.error.code, inHandler.error.name, inHandler.error.message, inHandler.reason], ['aborted', false, 'ERR_ABORTED', 'AbortError', 'run was aborted', 'enough'])
    assert.equal((await sandbox.run({ code: '1', signal: leave.signal })).status, 'aborted')
    const loop = new AbortController()
    assert.equal((await sandbox.run({ code: 'await f(); for (;;);', globals: { f: () => { setTimeout(() => { loop.abort() }, 50) } }, signal: loop.signal })).status, 'aborted')
    const late = new AbortController()
    assert.equal((await sandbox.run({ code: 'export default 1', signal: late.signal })).exports.default, 1)
    late.abort()
  })

  test('one at a time, in order, where maxIsolates says so', async () => {
    const own = await createSandbox({ maxIsolates: 1 })
    const order = []
    await Promise.all([1, 2, 3].map(async (n) => { await own.run({ code: `await mark(${n}); await mark(-${n})`, globals: { mark: (x) => { order.push(x) } } }) }))
    assert.deepEqual(order, [1, -1, 2, -2, 3, -3])
    await own[Symbol.asyncDispose]()
    assert.equal(own.alive, false)
    await assert.rejects(own.run({ code: '1' }), { message: /disposed/ })
  })

  test('what is there inside, and what is not', async () => {
    const there = ['console', 'Headers', 'Request', 'Response', 'TextEncoder', 'TextDecoder', 'URL', 'URLSearchParams', 'setTimeout', 'clearTimeout', 'Intl']
    const absent = ['process', 'Buffer', 'require', 'SharedArrayBuffer', 'WebAssembly', 'WebSocket']
    const code = `const has = (name) => typeof globalThis[name] !== 'undefined'; export default [${JSON.stringify(there)}.every(has), ${JSON.stringify(absent)}.filter(has)]`
    assert.deepEqual((await sandbox.run({ code })).exports.default, [true, []])
    for (const name of ['console', 'setTimeout', 'Request', 'URL', 'waitUntil']) assert.equal((await sandbox.run({ code: '1', globals: { [name]: () => 1 } })).error.code, 'ERR_RESERVED_NAME')
    const rendered = await sandbox.run({ code: 'console.log("%s", 1, [1], { a: "b" }, new Uint8Array([1, 2, 3]), new Map(), null, undefined); console.table([1]); console.log({ toJSON () { throw 1 } })' })
    assert.deepEqual(rendered.stdout, ['%s 1 [1] {"a":"b"} 1,2,3 [object Map] null undefined', '[object Object]'])
  })
})

describe('the fetch package\'s examples', real, () => {
  let sandbox
  before(async () => { sandbox = await createSandbox() })
  after(() => sandbox?.dispose())
  // 127.0.0.1 stands for the public internet.
  const at = { lookup: to(PUBLIC), allowPrivate: [`${PUBLIC}/32`] }
  const value = async (code, fetch) => {
    const result = await sandbox.run({ code, globals: { fetch }, limits: { maxBridgeCalls: 0 } })
    assert.ok(result.ok, JSON.stringify(result.error))
    return result.exports.default
  }
  const refusal = async (code, fetch) => await value(`let e; try { await ${code} } catch (thrown) { e = thrown } export default [e?.name, e?.message]`, fetch)

  test('a policy alone: true allows, false and a throw deny', async (t) => {
    const { port } = await httpServer(t, (_request, response) => response.writeHead(200, { 'content-type': 'application/json' }).end('{"title":"post"}'))
    const seen = []
    const fetch = createSafeFetch({
      ...at,
      policy: (req) => {
        seen.push(req)
        if (req.host === 'loud.test') throw new Error('ask the owner')
        return req.host === 'api.test' && req.method === 'GET'
      }
    })
    assert.deepEqual(await value(`const res = await fetch('http://API.test:${port}/posts/1?x=1', { headers: { 'X-Mine': 'y' } }); export default [res.status, res.ok, res.headers['content-type'], (await res.json()).title, res.json().title]`, fetch), [200, true, 'application/json', 'post', 'post'])
    const { protocol, host, path, method, headers, resolvedIp, hop } = seen[0]
    assert.deepEqual([protocol, host, path, method, headers['x-mine'], resolvedIp, hop, seen[0].port], ['http', 'api.test', '/posts/1?x=1', 'GET', 'y', null, 0, port])
    assert.deepEqual(await refusal('fetch("http://other.test/")', fetch), ['SafeFetchError', 'request denied by policy'])
    assert.deepEqual(await refusal('fetch("http://loud.test/")', fetch), ['SafeFetchError', 'ask the owner'])
    assert.throws(() => createSafeFetch({}), TypeError)
  })

  test('rules: hosts, routes, methods; exact beats wildcard; a host without a matching route is denied', async (t) => {
    const { port } = await httpServer(t, echo)
    const fetch = createSafeFetch({
      ...at,
      rules: [
        { host: '*.test', port, httpsOnly: false, routes: [{ path: '/**' }] },
        { host: 'api.test', port, httpsOnly: false, routes: [{ path: '/users/:id', methods: ['GET', 'POST'] }] },
        { host: 'none.test', port, httpsOnly: false, routes: [] }
      ],
      policy: () => true
    })
    const origin = (host) => `http://${host}.test:${port}`
    assert.deepEqual(await value(`const r = await fetch('${origin('api')}/users/7', { method: 'POST', body: 'x' }); const { method, url, body } = r.json(); export default [method, url, body]`, fetch), ['POST', '/users/7', 'x'])
    assert.equal(await value(`export default (await fetch('${origin('other')}/any/thing', { method: 'DELETE' })).status`, fetch), 200)
    for (const code of [`fetch('${origin('api')}/users/7', { method: 'DELETE' })`, `fetch('${origin('api')}/users')`, `fetch('${origin('none')}/')`]) {
      assert.equal((await refusal(code, fetch))[0], 'SafeFetchError', code)
    }
  })

  test('middleware: global, then the rule\'s, then the route\'s; secrets the guest never sees; an answer without network', async (t) => {
    const { port, requests } = await httpServer(t, echo)
    const order = []
    const mark = (name) => async (ctx, next) => { order.push(name); return await next() }
    const fetch = createSafeFetch({
      ...at,
      middleware: mark('global'),
      rules: [{
        host: 'api.test', port, httpsOnly: false,
        middleware: async (ctx, next) => { order.push('origin'); ctx.req.header('authorization', 'Bearer secret'); return await next() },
        routes: [{ path: '/real', middleware: mark('route') }, { path: '/canned', middleware: async () => ({ status: 203, headers: {}, body: 'from the cache' }) }]
      }]
    })
    assert.equal(await value(`export default (await fetch('http://api.test:${port}/real')).status`, fetch), 200)
    assert.deepEqual([order, requests[0].headers.authorization], [['global', 'origin', 'route'], 'Bearer secret'])
    assert.deepEqual(await value(`const r = await fetch('http://api.test:${port}/canned'); export default [r.status, r.text()]`, fetch), [203, 'from the cache'])
    assert.equal(requests.length, 1)
  })

  test('redirects: passed through by default; followed, and each hop is asked; credentials stay with their origin', async (t) => {
    const { port, requests } = await httpServer(t, (request, response) => {
      if (request.url === '/go') response.writeHead(302, { location: `http://b.test:${port}/end` }).end()
      else echo(request, response)
    })
    const start = `fetch('http://a.test:${port}/go', { method: 'POST', body: 'x', headers: { authorization: 'mine', cookie: 'c=1', 'x-kept': '1' } })`
    assert.equal(await value(`export default (await ${start}).status`, createSafeFetch({ ...at, policy: () => true })), 302)
    const hops = []
    const fetch = createSafeFetch({ ...at, maxRedirects: 3, policy: ({ host, hop }) => { hops.push([host, hop]); return true } })
    const { method, headers, body } = await value(`export default (await ${start}).json()`, fetch)
    assert.deepEqual([method, body, headers.authorization, headers.cookie, headers['x-kept']], ['GET', '', undefined, undefined, '1'])
    assert.deepEqual([hops, requests.length], [[['a.test', 0], ['b.test', 1]], 3])
    const wary = createSafeFetch({ ...at, maxRedirects: 3, policy: ({ host }) => host === 'a.test' })
    assert.equal((await refusal(start, wary))[1], 'request denied by policy')
  })

  test('hygiene: schemes, user info, private addresses, bodies over the limit, a deadline', async (t) => {
    const { port, requests } = await httpServer(t, (request, response) => { if (request.url !== '/hang') response.end('x'.repeat(5000)) })
    const fetch = createSafeFetch({ ...at, policy: () => true, maxBodyBytes: 1000, timeoutMs: 300 })
    assert.equal((await refusal('fetch("ftp://a.test/")', fetch))[0], 'TypeError')
    assert.equal((await refusal(`fetch('http://a.test:${port}/large')`, fetch))[0], 'SafeFetchError')
    assert.equal((await refusal(`fetch('http://a.test:${port}/hang')`, fetch))[0], 'SafeFetchError')
    await value(`try { await fetch('http://user:pass@a.test:${port}/', { headers: { host: 'evil.test' } }) } catch {} export default 1`, fetch)
    assert.deepEqual([requests.at(-1).headers.authorization, requests.at(-1).headers.host, requests.at(-1).headers['accept-encoding']], [undefined, `a.test:${port}`, 'identity'])
    const strict = createSafeFetch({ policy: () => true })
    for (const host of ['127.0.0.1', '[::ffff:7f00:1]', '[64:ff9b::7f00:1]', '169.254.169.254', '10.0.0.1', '[fe80::1]']) assert.equal((await refusal(`fetch('http://${host}:${port}/')`, strict))[0], 'SafeFetchError', host)
    assert.ok((await refusal('fetch("http://a.test/", { headers: { "x": "a\\r\\nb" } })', fetch))[0] === 'TypeError')
  })

  test('onDenied hears each refusal; invoke is the same way for the host; a Request with a stream for its body is sent', async (t) => {
    const { port } = await httpServer(t, echo)
    const denied = []
    const fetch = createSafeFetch({ ...at, policy: ({ host }) => host === 'a.test', onDenied: (request, reason) => { denied.push([request.host, reason]) } })
    await refusal('fetch("http://evil.test/")', fetch)
    await until(() => denied.length === 1, 'it was told')
    assert.equal(denied[0][0], 'evil.test')
    const answer = await fetch.invoke({ url: `http://a.test:${port}/`, method: 'PUT', headers: {}, body: 'of the host' })
    assert.equal(JSON.parse(Buffer.from(answer.body)).body, 'of the host')
    const streamed = `const r = await fetch(new Request('http://a.test:${port}/', { method: 'POST', body: (async function * () { yield 'piece '; await null; yield 'by piece' })() })); export default r.json().body`
    assert.equal(await value(streamed, fetch), 'piece by piece')
    const endless = `fetch(new Request('http://a.test:${port}/', { method: 'POST', body: (async function * () { for (;;) yield 'x'.repeat(10_000) })() }))`
    assert.match((await refusal(endless, createSafeFetch({ ...at, policy: () => true, maxRequestBodyBytes: 100_000 })))[1], /more than 100000 bytes \(maxRequestBodyBytes\)/)
  })
})
