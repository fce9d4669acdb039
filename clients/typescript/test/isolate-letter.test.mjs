// The isolate contract in cases that troubled its users: texts that are not Unicode, streams, the
// last era's values, limits and ends.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { findDaemon } from 'cloche'
import { createSandbox } from 'cloche/isolate'
import { isolated } from './lib/isolate.mjs'
import { daemon, daemons, isProcess, real, until } from './lib/real.mjs'

const root = fileURLToPath(new URL('..', import.meta.url))
const HALF = 'cut \ud83d'
const IN_CODE = 'cut \\ud83d'

describe('isolate, to the letter', real, () => {
  let client, sandbox
  const { run, value, failure } = isolated((made) => { ({ client, sandbox } = made) })

  describe('a text that is cut within a surrogate pair', () => {
    const caught = (code, more) => value(`let e; try { ${code} } catch (x) { e = x } export default [e.name, e.message, e.field]`, more)
    test('as an export, also within a value, and as a key', async () => {
      assert.deepEqual(await value(`export default ["${IN_CODE}", { a: new Map([["${IN_CODE}", 1]]) }, { ["${IN_CODE}"]: 1 }]`), [HALF, { a: new Map([[HALF, 1]]) }, { [HALF]: 1 }])
    })
    test('as an argument and an answer of a host function', async () => {
      let got
      assert.equal(await value(`export default await f("${IN_CODE}", { x: "${IN_CODE}" }) === "${IN_CODE}"`, { globals: { f: (...args) => { got = args; return HALF } } }), true)
      assert.deepEqual(got, [HALF, { x: HALF }])
    })
    test('as the argument of a call, and as data', async () => {
      const prefix = await sandbox.prepare({ code: 'export const same = (text) => [text === D, text.length]', globals: { D: { kind: 'data', value: HALF } } })
      assert.deepEqual((await prefix.call({ export: 'same', args: [HALF] })).value, [true, HALF.length])
    })
    test('as a line of the console', async () => assert.deepEqual((await run(`console.log("${IN_CODE}"); console.log("whole"); console.error("${IN_CODE}")`)).stdout, [HALF, 'whole']))
    test('in what the code throws, and what a set-up throws', async () => {
      const { name, message, fields } = await failure(`throw Object.assign(new RangeError("${IN_CODE}"), { field: "${IN_CODE}" })`)
      assert.deepEqual([name, message, fields], ['RangeError', HALF, { field: HALF }])
      await assert.rejects(sandbox.prepare({ code: `throw new RangeError("${IN_CODE}")` }), { name: 'RangeError', message: HALF, code: 'ERR_USER_CODE' })
    })
    test('in what a host function throws', async () => {
      assert.deepEqual(await caught('await f()', { globals: { f: () => { throw Object.assign(new TypeError(HALF), { field: HALF }) } } }), ['TypeError', HALF, HALF])
      assert.deepEqual(await caught('await f()', { globals: { f: () => { throw HALF } } }), ['Error', HALF, undefined]) // eslint-disable-line no-throw-literal
      assert.equal((await failure('await f()', { globals: { f: () => { throw new Error(HALF) } } })).message, HALF)
    })
    test('in the code itself', async () => assert.equal(await value(`export default "${HALF}"`), HALF))
    test('Python holds it both ways; what cannot says so', async () => {
      assert.deepEqual((await client.call({ language: 'python', code: 'def f(a): return [a, len(a), "x\\ud83d"]', args: [HALF] })).result, [HALF, 5, 'x\ud83d'])
      for (const [language, code] of [['ruby', 'def f(a) = 1'], ['bash', 'f() { echo 1; }']]) {
        const { success, error } = await client.call({ language, code, args: [HALF] })
        assert.deepEqual([success, /surrogate/.test(error?.message)], [false, true], `${language}: ${error?.message}`)
      }
    })
  })

  describe('run() resolves whatever the guest does', () => {
    test('Response.error() crosses, both ways', async () => {
      const { type, status } = await value('export default Response.error()')
      assert.deepEqual([type, status], ['error', 0])
      assert.deepEqual(await value('const r = await f(); export default [r.type, r.status]', { globals: { f: () => Response.error() } }), ['error', 0])
    })
    test('a forged Request is a failure of its own', async () => {
      const forge = 'for (const name of ["username", "password"]) Object.defineProperty(URL.prototype, name, { get () { return "" } })\n'
      const { code, message } = await failure(`${forge}export default new Request("http://user:secret@example.org/")`)
      assert.deepEqual([code, /credentials/.test(message)], ['ERR_EXPORT_NOT_SERIALIZABLE', true], message)
      assert.match(await value(`${forge}let m; try { await f(new Request("http://user:secret@example.org/")) } catch (e) { m = e.message } export default m`, { globals: { f: () => 1 } }), /credentials/)
      assert.equal((await failure(`${forge}throw Object.assign(new Error("x"), { request: new Request("http://user:secret@example.org/") })`)).message, 'x')
      assert.equal(await value('export default 1'), 1)
    })
    test('bytes in what is thrown come whole, both ways', async () => {
      assert.deepEqual((await failure('throw Object.assign(new Error("x"), { bytes: new Uint8Array([1, 255]) })')).fields, { bytes: Uint8Array.of(1, 255) })
      const globals = { f: () => { throw Object.assign(new Error('x'), { bytes: Uint8Array.of(7) }) } }
      assert.deepEqual(await value('let b; try { await f() } catch (e) { b = e.bytes } export default b', { globals }), Uint8Array.of(7))
      await assert.rejects(sandbox.prepare({ code: 'throw Object.assign(new Error("x"), { bytes: new Uint8Array([3]) })' }), { bytes: Uint8Array.of(3) })
    })
  })

  describe('streams', () => {
    const big = Uint8Array.from({ length: 500_000 }, (_, i) => i % 251)
    const pieces = 'async function * g () { yield "one "; await null; yield new Uint8Array([116, 119, 111]); yield new DataView(new Uint8Array([33]).buffer) }\n'
    test('a body of an async generator arrives whole: exported, called, as an argument', async () => {
      assert.equal(await (await value(`${pieces}export default new Response(g(), { status: 201 })`)).text(), 'one two!')
      const called = await sandbox.run({ code: `${pieces}export const f = async () => new Response(g())`, call: { export: 'f' } })
      assert.equal(await called.value.text(), 'one two!')
      let got
      await value(`${pieces}await f({ deep: [new Request("https://h/", { method: "POST", body: g() })] })`, { globals: { f: async ({ deep: [request] }) => { got = await request.text() } } })
      assert.equal(got, 'one two!')
    })
    test('so does one of a ReadableStream, a plain generator, and a passed on body', async () => {
      assert.equal(await (await value('export default new Response(new ReadableStream({ start (c) { c.enqueue("a"); c.enqueue("b"); c.close() } }))')).text(), 'ab')
      assert.equal(await (await value('export default new Response((function * () { yield "a"; yield "b" })())')).text(), 'ab')
      const echoed = await sandbox.run({
        code: 'export const echo = (request) => new Response(request.body)',
        call: { export: 'echo', args: [new Request('https://h/', { method: 'POST', body: big })] }
      })
      assert.deepEqual(new Uint8Array(await echoed.value.arrayBuffer()), big)
    })
    test('a body of the host\'s stream arrives whole, read piece by piece or at once', async () => {
      const globals = { f: () => new Response(new ReadableStream({ start (c) { c.enqueue(big.subarray(0, 70_000)); c.enqueue(big.subarray(70_000)); c.close() } })) }
      assert.equal(await value('let n = 0; for await (const piece of (await f()).body) n += piece.length; export default n', { globals }), big.length)
      assert.deepEqual(await value('export default await (await f()).bytes()', { globals }), big)
      assert.equal(await value('const reader = (await f()).body.pipeThrough(new TransformStream()).getReader(); let n = 0; for (let r; !(r = await reader.read()).done;) n += r.value.length; export default n', { globals }), big.length)
    })
    test('bodies are read once; clones are their own', async () => {
      assert.deepEqual(await value(`${pieces}const a = new Response(g()), b = a.clone(); const texts = [await a.text(), await b.text()]; let m; try { await a.text() } catch (e) { m = e.message } export default [...texts, m, a.bodyUsed]`), ['one two!', 'one two!', 'the body was already read', true])
      assert.deepEqual(await value('const r = new Request("https://h/", { method: "POST", body: "x" }); const s = new Request(r); export default [r.bodyUsed, await s.text(), new Response().body]'), [true, 'x', null])
    })
    test('a source that fails makes the reader fail, never a wrong body', async () => {
      const fails = await value('export default new Response((async function * () { yield "a"; throw new RangeError("source exploded") })())')
      await assert.rejects(fails.text(), { name: 'RangeError', message: 'source exploded', code: 'ERR_USER_CODE' })
      await assert.rejects((await value('export default new Response((async function * () { yield { not: "bytes" } })())')).text(), { name: 'TypeError', message: /must be bytes or text/ })
      let read
      assert.equal(await value(`await f(new Request("https://h/", { method: "POST", body: (async function * () { throw new EvalError("no") })() })); export default 1`, { globals: { f: async (request) => { read = await request.text().catch((e) => e.name) } } }), 1)
      assert.equal(read, 'EvalError')
    })
    test('one without end meets the limit of the exports; one that never comes is named', async () => {
      const endless = 'new Response((async function * () { for (;;) yield "x".repeat(1000) })())'
      await assert.rejects((await value(`export default ${endless}`, { limits: { maxExportBytes: 50_000 } })).text(), { code: 'ERR_EXPORT_TOO_LARGE', message: /limits\.maxExportBytes/ })
      await assert.rejects((await value('export default new Response(new ReadableStream({}))')).text(), { message: /nothing can settle/ })
      let failed
      await run('await f(new Request("https://h/", { method: "POST", body: (async function * () { for (;;) yield "x".repeat(1000) })() }))', { globals: { f: async (request) => { failed = await request.text().catch((e) => e) } }, limits: { maxBridgeCallBytes: 50_000 } })
      assert.deepEqual([failed.code, failed.name], ['ERR_BRIDGE_PAYLOAD_TOO_LARGE', 'RangeError'])
    })
    test('a body is read while the code still makes it', async () => {
      let go
      const globals = { f: () => new Promise((resolve) => { go = resolve }), g: () => 1 }
      const result = await run('console.log("before"); export default new Response((async function * () { yield "first"; await f(); console.log("within"); await g(); yield "second" })())', { globals })
      const reader = result.exports.default.body.getReader()
      assert.equal(Buffer.from((await reader.read()).value).toString(), 'first')
      await until(() => go !== undefined, 'the code waits for the host')
      assert.deepEqual([result.stdout, result.bridgeCalls.length], [['before'], 0])
      go()
      assert.equal(Buffer.from((await reader.read()).value).toString(), 'second')
      assert.equal((await reader.read()).done, true)
      await until(() => result.stdout.length === 2, 'the run has ended')
      assert.deepEqual([result.stdout, result.bridgeCalls.map(({ name }) => name)], [['before', 'within'], ['f', 'g']])
    })
    test('two bodies are made side by side, in whatever order they are read', async () => {
      const made = 'const make = (name) => new Response((async function * () { for (let i = 0; i < 400; i++) yield name.repeat(1000) })())\n'
      const [a, b] = await value(`${made}export default [make("a"), make("b")]`)
      assert.deepEqual([await b.text(), await a.text()], ['b'.repeat(400_000), 'a'.repeat(400_000)])
      const many = await value('export default Array.from({ length: 100 }, (_, i) => new Response((async function * () { yield "body " + i })()))')
      assert.deepEqual(await Promise.all(many.map((one) => one.text())), Array.from({ length: 100 }, (_, i) => `body ${i}`))
    })
    test('cancelling on the host cancels the source, also when it only waits', async () => {
      for (const body of ['(async function * () { try { for (;;) yield "x" } finally { await f() } })()', 'new ReadableStream({ pull (c) { c.enqueue("x") }, cancel: () => f() })', 'new ReadableStream({ start (c) { c.enqueue("x"); setTimeout(() => {}, 20_000) }, cancel: () => f() })']) {
        let isCancelled = false
        const response = await value(`export default new Response(${body})`, { globals: { f: () => { isCancelled = true } } })
        const reader = response.body.getReader()
        assert.equal((await reader.read()).value[0], 120)
        await reader.cancel()
        await until(() => isCancelled, `${body} was cancelled`)
      }
    })
    test('the code makes no more than fits while nobody reads', async () => {
      let made = 0
      const code = 'export default new Response((async function * () { for (let i = 0; i < 200; i++) { await f(); yield "x".repeat(10_000) } })())'
      const response = await value(code, { globals: { f: () => { made++ } }, limits: { maxBridgeCalls: 0 } })
      await until(() => made > 20, 'what fits was made')
      // Without a bound, this run would produce pieces all the time.
      assert.equal(await value('for (let i = 0; i < 100; i++) await f(); export default 1', { globals: { f: () => 1 }, limits: { maxBridgeCalls: 0 } }), 1)
      assert.ok(made <= 60, `${made} pieces of 10,000 bytes were made`)
      assert.equal((await response.text()).length, 2_000_000)
      assert.equal(made, 200)
    })
    test('the run\'s limits, its signal and the daemon\'s end are the end of its bodies', async () => {
      const endless = 'export default new Response((async function * () { for (;;) yield "x".repeat(1000) })())'
      const late = await value(endless, { limits: { wallTimeMs: 500 } })
      await assert.rejects(async () => { for await (const _ of late.body) await sleep(1) }, { code: 'ERR_WALL_TIMEOUT' })
      const busy = await value('export default new Response((async function * () { yield "x"; for (;;); })())', { limits: { cpuTimeMs: 400 } })
      await assert.rejects(busy.text(), { code: 'ERR_CPU_TIMEOUT' })
      const leave = new AbortController()
      const left = await value(endless, { signal: leave.signal })
      leave.abort(new RangeError('enough'))
      await assert.rejects(left.text(), { message: 'enough' })
      const full = await value('const all = []; export default new Response((async function * () { yield "x"; for (;;) all.push(new Uint8Array(1 << 20).fill(1)) })())', { limits: { memoryMb: 64 } })
      await assert.rejects(full.text(), { code: 'ERR_MEMORY_LIMIT' })
    })
    test('another run may begin before the bodies of one are read, also where there is one place; and not any number', async () => {
      const own = await createSandbox({ client, maxIsolates: 1 })
      const large = { code: 'export default new Response((async function * () { for (let i = 0; i < 1000; i++) yield "x".repeat(1000) })())' }
      const first = (await own.run(large)).exports.default
      const second = (await own.run(large)).exports.default
      let isThird = false
      const third = own.run({ code: 'export default 3' }).then((result) => { isThird = true; return result.exports.default })
      await until(async () => (await own.stats()).queueDepth === 1, 'the third waits')
      assert.equal(isThird, false)
      assert.equal((await second.text()).length, 1_000_000)
      assert.equal(await third, 3)
      assert.equal((await first.text()).length, 1_000_000)
      await own.dispose()
    })
    test('a host function that returns without reading holds nothing up; small bodies stay readable', async () => {
      const kept = []
      const code = (count) => `await f(new Request("https://h/", { method: "POST", body: (async function * () { for (let i = 0; i < ${count}; i++) yield "x".repeat(1000) })() })); export default 1`
      for (const count of [100, 1000]) assert.equal(await value(code(count), { globals: { f: (request) => { kept.push(request) } } }), 1)
      assert.equal((await kept[0].text()).length, 100_000)
      await assert.rejects(kept[1].text(), { message: /was given up: the host function returned without reading it/ })
    })
    test('a body that was sent is used; one behind a getter is refused by name', async () => {
      const code = 'const r = new Request("https://h/", { method: "POST", body: (async function * () { yield "once" })() }); await f(r); let m; try { await f(r) } catch (e) { m = e.message } export default [r.bodyUsed, m]'
      assert.deepEqual(await value(code, { globals: { f: async (request) => await request.text() } }), [true, 'the body of a request or response was sent already: send a clone()'])
      const { code: name, message } = await failure('export default { get r () { return new Response((async function * () { yield "x" })()) } }')
      assert.deepEqual([name, /behind a getter/.test(message)], ['ERR_EXPORT_NOT_SERIALIZABLE', true], message)
    })
    test('an export that cannot be sent fails the run also beside a stream', async () => {
      const { code } = await failure('export default new Response((async function * () { yield "x" })()); export const f = () => 1')
      assert.equal(code, 'ERR_EXPORT_NOT_SERIALIZABLE')
    })
    test('clients that take no bodies piece by piece get them whole', async () => {
      const result = await client.evaluate({ language: 'javascript', code: `${pieces}export default new Response(g())` })
      assert.equal(await result.result.default.text(), 'one two!')
      const { success, error } = await client.evaluate({ language: 'javascript', code: 'export default new Response((async function * () { throw new RangeError("x") })())' })
      assert.deepEqual([success, error.name], [false, 'RangeError'])
    })
    test('waitUntil and a body of one run: the report comes once both have ended', async () => {
      const result = await run('console.log("in"); waitUntil((async () => { await null; console.log("work") })()); export default new Response((async function * () { yield "x"; console.log("body") })())')
      assert.equal(await result.exports.default.text(), 'x')
      const report = await result.waitUntil
      assert.equal(report.status, 'settled')
      assert.deepEqual([...result.stdout, ...report.stdout].sort(), ['body', 'in', 'work'])
    })
  })

  describe('waitUntil', () => {
    test('of iso4:runtime and as a global: the work\'s own report, apart from the run\'s', async () => {
      const code = 'import { waitUntil as w } from "iso4:runtime"\nconsole.log("in"); w((async () => { await null; console.log("after"); await f("late"); waitUntil(f("later")) })()); await f("now"); export default 1'
      const result = await run(code, { globals: { f: (name) => name } })
      assert.deepEqual([result.exports.default, result.stdout, result.bridgeCalls.length], [1, ['in', 'after'].slice(0, result.stdout.length), result.bridgeCalls.length])
      const report = await result.waitUntil
      assert.equal(report.status, 'settled')
      assert.deepEqual([...result.stdout, ...report.stdout], ['in', 'after'])
      assert.equal(result.bridgeCalls.length + report.bridgeCalls.length, 3)
      assert.ok(report.durationMs >= 0 && report.cpuTimeMs >= 0)
    })
    test('what fails is told, and the run is well', async () => {
      const result = await run('waitUntil((async () => { await new Promise((r) => setTimeout(r, 5)); throw new RangeError("too late") })()); export default 1')
      assert.deepEqual([result.ok, (await result.waitUntil).status, (await result.waitUntil).error], [true, 'failed', { name: 'RangeError', message: 'too late' }])
    })
    test('graceMs, and promises that nothing settles, cut it short', async () => {
      const slow = await run('waitUntil(f()); export default 1', { globals: { f: () => sleep(60_000, undefined, { ref: false }) }, limits: { graceMs: 50 } })
      assert.deepEqual([slow.exports.default, (await slow.waitUntil).status], [1, 'truncated'])
      const never = await run('waitUntil(new Promise(() => {})); export default 1')
      assert.deepEqual([never.exports.default, (await never.waitUntil).status], [1, 'truncated'])
    })
    test('of a prefix that is called; without it there is no report', async () => {
      const prefix = await sandbox.prepare({ code: 'import { waitUntil } from "iso4:runtime"; export const both = () => { waitUntil(Promise.resolve()); return new Response((async function * () { yield "streamed" })()) }; export const plain = () => 1' })
      const { value: response, waitUntil } = await prefix.call({ export: 'both', limits: { graceMs: 1000 } })
      assert.deepEqual([await response.text(), (await waitUntil).status], ['streamed', 'settled'])
      assert.equal((await prefix.call({ export: 'plain' })).waitUntil, undefined)
    })
    test('its name is reserved', async () => assert.equal((await failure('1', { globals: { waitUntil: () => 1 } })).code, 'ERR_RESERVED_NAME'))
  })

  describe('values as the last era has them', () => {
    test('Request and Response as data, nested too, with their bodies', async () => {
      const request = new Request('https://example.org/in?x=1', { method: 'POST', body: '{"n": 7}', headers: { 'x-trace': 'abc' } })
      const globals = { req: { kind: 'data', value: request }, payload: { kind: 'data', value: { list: [new Response('nested', { status: 207 })] } } }
      const code = 'const [r] = payload.list; export default [req instanceof Request, req.headers.get("x-trace"), (await req.json()).n, r instanceof Response, r.status, await r.text()]'
      assert.deepEqual(await value(code, { globals }), [true, 'abc', 7, true, 207, 'nested'])
      const prefix = await sandbox.prepare({ code: '', globals: { res: { kind: 'data', value: new Response('of the prefix') } } })
      assert.equal((await prefix.run({ code: 'export default await res.text()' })).exports.default, 'of the prefix')
      assert.equal(await request.text(), '{"n": 7}', 'the host\'s own is still there')
    })
    test('a body that was read is gone, both ways', async () => {
      const response = await value('const r = new Response("secret"); await r.text(); export default r')
      assert.deepEqual([response.bodyUsed, await response.text()], [false, ''])
      const used = new Response('secret')
      await used.text()
      assert.equal(await value('export default await (await f()).text()', { globals: { f: () => used } }), '')
    })
    test('1024 headers cross, 1025 do not', async () => {
      const code = (count) => `const r = new Response(null); for (let i = 0; i < ${count}; i++) r.headers.append("x-h" + i, "v"); export default r`
      assert.equal([...(await value(code(1024))).headers].length, 1024)
      assert.equal((await failure(code(1025))).code, 'ERR_TYPE_NOT_SERIALIZABLE')
      const many = new Headers(Array.from({ length: 1025 }, (_, i) => [`x-h${i}`, 'v']))
      assert.equal((await failure('await f()', { globals: { f: () => many } })).code, 'ERR_HOST_BRIDGE')
    })
    test('errors of the host: name is own, data holds what they had', async () => {
      const globals = { own: () => { throw Object.assign(new TypeError('x'), { data: { a: 1 } }) }, more: () => { throw Object.assign(new Error('y'), { status: 4 }) } }
      const code = 'const see = async (f) => { try { await f() } catch (e) { return [Object.hasOwn(e, "name"), e.name, e.data, Object.keys(e)] } }; export default [await see(own), await see(more)]'
      assert.deepEqual(await value(code, { globals }), [[true, 'TypeError', { a: 1 }, ['data']], [true, 'Error', { status: 4 }, ['status']]])
    })
    test('error.fields, and error.data as it was called first', async () => {
      const error = await failure('throw Object.assign(new Error("x"), { data: { a: 1 }, status: 5 })')
      assert.deepEqual([error.fields, error.data, Object.keys(error).includes('data')], [{ data: { a: 1 }, status: 5 }, { data: { a: 1 }, status: 5 }, false])
    })
    test('holes, DataView, views of one buffer, both ways', async () => {
      const [holes, view, bytes, words, buffer] = await value('const b = new ArrayBuffer(8); const h = [1, , 3]; h.length = 5; export default [h, new DataView(b, 2), new Uint8Array(b), new Uint16Array(b, 2, 2), b]')
      assert.deepEqual([1 in holes, 2 in holes, holes.length], [false, true, 5])
      assert.deepEqual([view instanceof DataView, view.byteOffset, view.buffer === buffer, bytes.buffer === buffer, words.byteOffset], [true, 2, true, true, 2])
      const shared = new ArrayBuffer(8)
      const sent = [[, 1], new DataView(shared, 4), new Uint8Array(shared)]
      assert.deepEqual(await value('const [h, v, u] = await f(); u[4] = 9; export default [0 in h, v.getUint8(0), v.buffer === u.buffer]', { globals: { f: () => sent } }), [false, 9, true])
    })
    test('getters are asked, also when they throw; proxies are refused by name', async () => {
      assert.deepEqual(await value('export default { get a () { return 1 } }'), { a: 1 })
      assert.deepEqual((({ code, name }) => [code, name])(await failure('export default { get a () { throw new RangeError("no") } }')), ['ERR_USER_CODE', 'RangeError'])
      const { code, message } = await failure('export default { p: new Proxy({}, {}) }')
      assert.deepEqual([code, message], ['ERR_EXPORT_NOT_SERIALIZABLE', '$.default.p: proxy cannot be sent: return a copy ({ ...it })'])
    })
  })

  describe('limits', () => {
    test('cpuTimeMs is of the evaluation, heapUsedBytes its heap', async () => {
      const idle = await run('export default 1')
      const busy = await run('let sum = 0; for (let i = 0; i < 1e8; i++) sum += i; export default 1') // work, not time: a busy machine has none to spare
      assert.ok(idle.cpuTimeMs > 0 && idle.heapUsedBytes > 0 && busy.cpuTimeMs > idle.cpuTimeMs)
      assert.ok((await run('throw new Error("x")')).cpuTimeMs > 0)
      // Measured from outside: the box's start, which takes some milliseconds, is not included either.
      const { meta: { usage } } = await client.evaluate({ language: 'javascript', code: 'await new Promise((resolve) => setTimeout(resolve, 60_000))', limits: { wallMs: 300 } })
      assert.ok(usage.evaluationCpuMs >= 0 && usage.evaluationCpuMs < usage.cpuMs, JSON.stringify(usage))
    })
    test('small ones are what they say, large ones are no error, memory says what is needed', async () => {
      assert.equal(await value('export default await f(1)', { globals: { f: (n) => n + 1 }, limits: { maxBridgeCallBytes: 64, maxExportBytes: 100 } }), 2)
      assert.equal((await failure('export default "x".repeat(40)', { limits: { maxExportBytes: 30 } })).code, 'ERR_EXPORT_TOO_LARGE')
      assert.equal((await failure('await f("x".repeat(400))', { globals: { f: () => 1 }, limits: { maxBridgeCallBytes: 64 } })).code, 'ERR_BRIDGE_PAYLOAD_TOO_LARGE')
      assert.equal(await value('export default 1', { limits: { wallTimeMs: Number.MAX_SAFE_INTEGER, cpuTimeMs: 1e12, maxExportBytes: 2 ** 40, maxBridgeCalls: 1e12 } }), 1)
      await assert.rejects(run('1', { limits: { memoryMb: 2 } }), { name: 'InvalidArgumentError', message: /limits\.memoryMb is 2; at least 8/ })
    })
    test('a set-up without end ends in a second, by default', async () => {
      await assert.rejects(sandbox.prepare({ code: 'for (;;);' }), { code: 'ERR_WARMUP_LIMIT', message: /1000 ms/ })
      await assert.rejects(sandbox.prepare({ code: 'await new Promise((r) => setTimeout(r, 60_000))' }), { code: 'ERR_WARMUP_LIMIT' })
    })
    test('a set-up out of memory is ERR_MEMORY_LIMIT', async () => {
      await assert.rejects(sandbox.prepare({ code: 'const a = []; for (;;) a.push(new Uint8Array(1 << 20).fill(1))', limits: { wallTimeMs: 60_000 } }), { code: 'ERR_MEMORY_LIMIT' })
    })
    test('memoryBudgetMb is a number that is one', async () => {
      for (const bad of [Infinity, NaN, -1, 1.5, '64']) await assert.rejects(createSandbox({ client, memoryBudgetMb: bad }), { name: 'InvalidArgumentError', message: /^memoryBudgetMb is/ })
      const own = await createSandbox({ client, memoryBudgetMb: 64 })
      assert.equal((await own.stats()).budgetBytes, 64 * 2 ** 20)
      await own.dispose()
    })
    test('without code it is code that is named', async () => {
      const prefix = await sandbox.prepare({ code: '' })
      for (const asked of [() => sandbox.run({}), () => sandbox.run({ code: null }), () => sandbox.prepare({}), () => sandbox.readExports({}), () => prefix.run({}), () => sandbox.run({ call: { export: 'f' } })]) {
        await assert.rejects(asked(), { name: 'InvalidArgumentError', message: /code must be a string/ })
      }
    })
  })

  describe('errors that hold errors', () => {
    const many = () => {
      const inner = Object.assign(new AggregateError([new URIError('deepest')], 'inner'), { status: 503 })
      return new AggregateError([new TypeError('one'), inner, 'a text', { plain: true }, () => {}], 'all failed')
    }
    const shown = `const tell = (e) => e instanceof Error ? [e.name, e.message, e instanceof AggregateError ? e.errors.map(tell) : undefined, e.status, Object.keys(e), /test.mjs/.test(e.stack)] : e\n`
    const expected = ['AggregateError', 'all failed', [
      ['TypeError', 'one', undefined, undefined, [], false],
      ['AggregateError', 'inner', [['URIError', 'deepest', undefined, undefined, [], false]], 503, ['status'], false], 'a text', { plain: true }, '() => {}'
    ], undefined, [], false]
    test('from a host function, caught', async () => {
      assert.deepEqual(await value(`${shown} try { await f() } catch (e) { globalThis.e = e }; export default tell(e)`, { globals: { f: () => { throw many() } } }), expected)
    })
    test('from a host function, not caught', async () => {
      const { code, name, fields } = await failure('await f()', { globals: { f: () => { throw new AggregateError([new Error('x')], 'y') } } })
      assert.deepEqual([code, name, fields.errors.map(({ message }) => message)], ['ERR_HOST_BRIDGE', 'AggregateError', ['x']])
    })
    test('as an answer, as data, as an export and as an argument', async () => {
      const one = () => new AggregateError([new RangeError('r')], 'm')
      const same = (e) => assert.deepEqual([e instanceof AggregateError, e.message, e.errors.map(({ name, message }) => [name, message]), Object.keys(e)], [true, 'm', [['RangeError', 'r']], []])
      let got
      same(await value('const e = await f(D); export default e', { globals: { f: (e) => { got = e; return e }, D: { kind: 'data', value: one() } } }))
      same(got)
      same(await value('export default new AggregateError([new RangeError("r")], "m")'))
    })
    test('that the code throws', async () => {
      const { code, name, fields } = await failure('await Promise.any([1, 2].map(async (n) => { throw new RangeError(`no ${n}`) }))')
      assert.deepEqual([code, name, fields.errors.map((e) => [e instanceof RangeError, e.message])], ['ERR_USER_CODE', 'AggregateError', [[true, 'no 1'], [true, 'no 2']]])
    })
  })

  describe('what the source of a body throws', () => {
    const fails = (what) => `export default new Response(new ReadableStream({ async pull (c) { c.enqueue(new Uint8Array(3)); await null; throw ${what} } }))`
    const end = async (what) => await (await value(fails(what))).text().then(() => assert.fail('it came whole'), (thrown) => thrown)
    test('has its fields', async () => {
      const { name, message, code, status, why } = await end('Object.assign(new RangeError("dry"), { status: 9, why: [new Map([[1, 2]])] })')
      assert.deepEqual([name, message, code, status, why], ['RangeError', 'dry', 'ERR_USER_CODE', 9, [new Map([[1, 2]])]])
    })
    test('but for those that cannot be sent', async () => {
      const { message, good, bad } = await end('Object.assign(new Error("dry"), { good: 1, bad () {} })')
      assert.deepEqual([message, good, bad], ['dry', 1, undefined])
    })
    test('in any size', async () => {
      const { name, message, code, big } = await end('Object.assign(new Error("\\0".repeat(3e5)), { big: "x".repeat(3e5), name: "n".repeat(3e5) })')
      assert.deepEqual([code, message.length > 1000, name.length > 1000, big], ['ERR_USER_CODE', true, true, undefined])
    })
  })

  describe('the console of a prefix', () => {
    test('comes with the first run that compiles, before its own lines', async () => {
      const prefix = await sandbox.prepare({ code: 'console.log("set up", { a: 1 }); console.error("beware"); globalThis.x = 1; export const f = () => { console.log("f") }' })
      assert.equal((await prefix.run({ code: 'not a program' })).error.code, 'ERR_COMPILE')
      const { stdout, stderr } = await prefix.run({ code: 'console.log("run"); export default x' })
      assert.deepEqual([stdout, stderr], [['set up {"a":1}', 'run'], ['beware']])
      assert.deepEqual((await prefix.run({ code: 'console.log("run")' })).stdout, ['run'])
      await prefix.dispose()
    })
    test('also with a call, and however many lines there were', async () => {
      const prefix = await sandbox.prepare({ code: 'for (let i = 0; i < 30000; i++) console.log(`line ${i}`); export const f = () => { console.log("f") }' })
      const { stdout } = await prefix.call({ export: 'f' })
      assert.deepEqual([stdout.length, stdout[0], stdout[29999], stdout[30000]], [30001, 'line 0', 'line 29999', 'f'])
      assert.deepEqual((await prefix.call({ export: 'f' })).stdout, ['f'])
      await prefix.dispose()
    })
  })

  describe('ERR_COMPILE names the line', () => {
    for (const [what, code, place] of [
      ['a return', 'const a = 1\n  return a', ':2:3'],
      ['a return after awaits and exports', 'import x from "y"\nfor await (const a of []) await a\nexport default 1\nreturn 1', ':4:1'],
      ['an export after half a statement', 'export const a = 1\nconst b =\n  export default a', ':3:3'],
      ['an export where a brace is not closed', 'const f = async () => {\n  await 1\nexport default f()', ':3:1'],
      ['what strict code may not do', 'const o = {}\nwith (o) {}', ':2:1'],
      ['a name that is there twice', 'let a\nlet a', ':2:5']
    ]) {
      test(`of ${what}`, async () => {
        const { code: kind, stack } = await failure(code, { imports: { y: 'export default 1' } })
        assert.deepEqual([kind, stack.includes(`<cloche>${place}`)], ['ERR_COMPILE', true], stack)
      })
    }
  })

  test('imports in the form of the first versions', async () => {
    const imports = { static: { lib: { kind: 'source', source: 'export const one = 1' }, host: { kind: 'host', exports: { two: () => 2, deep: { three: 3 } } } } }
    const code = 'import { one } from "lib"; import { two, deep } from "host"; export default [one, await two(), deep.three]'
    assert.deepEqual(await value(code, { imports }), [1, 2, 3])
    const prefix = await sandbox.prepare({ code: '', imports })
    assert.deepEqual((await prefix.run({ code, imports: { static: { host: { kind: 'host', exports: { two: () => 20 } } } } })).exports.default, [1, 20, 3])
    await assert.rejects(run('1', { imports: { ...imports, resolve: () => {} } }), { name: 'TypeError', message: /imports\.resolve cannot be used/ })
    await assert.rejects(run('1', { imports: { static: { lib: { kind: 'source', source: 1 } } } }), { name: 'TypeError', message: /imports\.static\["lib"\]\.source must be a string/ })
    assert.equal(await value('import { x } from "static"; export default x', { imports: { static: { x: 1 } } }), 1, 'a module that is called static')
  })

  test('handlers of one run start at once, also on a template that is not young', async () => {
    const open = []
    const t = () => new Promise((resolve) => {
      open.push(resolve)
      if (open.length === 8) for (const go of open.splice(0)) go(1)
    })
    const prefix = await sandbox.prepare({ code: '', globals: { t } })
    for (const waitMs of [0, 1500]) {
      await sleep(waitMs)
      assert.equal((await prefix.run({ code: 'export default (await Promise.all(Array.from({ length: 8 }, () => t()))).length' })).exports?.default, 8)
    }
  })

  test('many lines of the console arrive, all of them and in order', async () => {
    const { ok, stdout, stderr } = await run('for (let i = 0; i < 20000; i++) (i % 100 === 0 ? console.error : console.log)("line " + i)', { limits: { maxStdoutBytes: 0, cpuTimeMs: 0 } })
    assert.deepEqual([ok, stdout.length, stderr.length, stdout[0], stdout.at(-1), stderr.at(-1)], [true, 19800, 200, 'line 1', 'line 19999', 'line 19900'])
  })
  test('empty lines take a byte of the limit each: a flood of them fills nobody\'s memory', async () => {
    const { ok, stdout } = await run('for (let i = 0; i < 100_000; i++) console.log(""); console.log("x")', { limits: { maxStdoutBytes: 1000, maxStderrBytes: 1000 } })
    assert.deepEqual([ok, stdout.length], [true, 1000])
  })
  test('the last line before a loop without end is there', async () => {
    const { error, stdout } = await run('for (let i = 0; i < 5000; i++) console.log("line " + i); for (;;);', { limits: { cpuTimeMs: 1500 } })
    assert.deepEqual([error.code, stdout.length, stdout.at(-1)], ['ERR_CPU_TIMEOUT', 5000, 'line 4999'])
  })

  describe('daemons of our own', () => {
    let folder
    before(() => { folder = mkdtempSync(path.join(tmpdir(), 'cloche-isolate-')) })
    after(() => rmSync(folder, { recursive: true }))
    const program = (text) => {
      const file = path.join(folder, `fake-${Math.random().toString(36).slice(2)}`)
      writeFileSync(file, `#!/bin/sh\necho $$ >> ${file}.pid\n${text}\n`)
      chmodSync(file, 0o755)
      return { file, pids: () => readFileSync(`${file}.pid`, 'utf8').trim().split('\n') }
    }
    test('one that hangs is not left running', async () => {
      const { file, pids } = program('exec sleep 1000')
      await assert.rejects(createSandbox({ binaryPath: file, connectTimeoutMs: 300 }), { name: 'RequestTimeoutError' })
      assert.ok(!pids().some(isProcess))
    })
    test('nor one that speaks garbage', async () => {
      const { file, pids } = program('echo this is no frame at all, but a long line of text >&3; exec sleep 1000')
      await assert.rejects(createSandbox({ binaryPath: file }), { name: 'ConnectionError', message: /broke the protocol/ })
      assert.ok(!pids().some(isProcess))
    })
    test('after dispose nothing is left; another sandbox of the same daemon keeps it', async () => {
      const before = daemons()
      const [one, other] = [await createSandbox({ memoryMb: 64 }), await createSandbox()]
      const mine = daemons().filter((pid) => !before.includes(pid))
      assert.equal(mine.length, 1)
      await one.dispose()
      await one.dispose()
      assert.equal((await other.run({ code: 'export default 1' })).exports.default, 1)
      await other.dispose()
      await until(() => !isProcess(mine[0]), 'the daemon has ended')
    })
    test('where there is none the error says where to get one', () => {
      assert.throws(() => findDaemon(undefined, { PATH: folder, CLOCHE_DAEMON: path.join(folder, 'nothing') }), { name: 'ConnectionError', message: /which is no program/ })
    })
  })
})

describe('the package', () => {
  const node = (...args) => spawnSync(process.execPath, args, { cwd: root, encoding: 'utf8', env: { ...process.env, CLOCHE_DAEMON: daemon ?? '' } })
  const pack = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  test('says what tools look for', () => {
    assert.deepEqual([pack.license, typeof pack.repository.url, typeof pack.types, pack.exports['./package.json']], ['MIT', 'string', 'string', './package.json'])
    for (const entry of Object.keys(pack.exports).filter((name) => name !== '.' && name !== './package.json')) {
      assert.deepEqual(pack.typesVersions['*'][entry.slice(2)], [pack.exports[entry].types])
      assert.ok(readFileSync(path.join(root, pack.exports[entry].types), 'utf8').length > 0)
    }
    assert.equal(node('-p', 'require("cloche/package.json").name').stdout, 'cloche\n')
  })
  test('can be required where Node can require modules', (context) => {
    if (!process.features.require_module) return context.skip('this Node cannot')
    assert.equal(node('-p', 'typeof require("cloche/isolate").createSandbox').stdout, 'function\n')
  })
  test('every method of the isolate façade is documented', () => {
    const text = readFileSync(path.join(root, 'dist/isolate/types.d.ts'), 'utf8')
    for (const name of ['Prefix', 'Sandbox']) {
      const body = text.slice(text.indexOf(`export interface ${name}<`) < 0 ? text.indexOf(`export interface ${name} `) : text.indexOf(`export interface ${name}<`))
      const members = body.slice(0, body.indexOf('\n}')).split('\n').slice(1)
      members.forEach((line, i) => {
        if (/^ {4}(readonly )?[\w[]/.test(line)) assert.match(members[i - 1], /\*\/$|eslint/, `${name}: ${line}`)
      })
    }
  })
})
