// Runs in the bare realm: exports, errors, modules, the prefix.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails, fn, makeRealm, run } from './realm-harness.mjs'

const WEB = [
  'AbortController', 'AbortSignal', 'DOMException', 'Event', 'EventTarget', 'Headers', 'Request', 'Response', 'TextDecoder', 'TextEncoder', 'URL', 'URLSearchParams',
  'ByteLengthQueuingStrategy', 'CountQueuingStrategy', 'ReadableStream', 'TransformStream', 'WritableStream', 'atob', 'btoa', 'clearInterval', 'clearTimeout', 'console', 'crypto', 'performance', 'queueMicrotask', 'setInterval', 'setTimeout', 'structuredClone', 'waitUntil'
]
const LANGUAGE = [
  'AggregateError', 'Array', 'ArrayBuffer', 'Atomics', 'BigInt', 'BigInt64Array', 'BigUint64Array', 'Boolean', 'DataView', 'Date', 'Error', 'EvalError',
  'FinalizationRegistry', 'Float32Array', 'Float64Array', 'Function', 'Infinity', 'Int16Array', 'Int32Array', 'Int8Array', 'Intl', 'JSON', 'Map', 'Math', 'NaN', 'Number', 'Object',
  'Promise', 'Proxy', 'RangeError', 'ReferenceError', 'Reflect', 'RegExp', 'Set', 'String', 'Symbol', 'SyntaxError', 'TypeError', 'URIError', 'Uint16Array', 'Uint32Array',
  'Uint8Array', 'Uint8ClampedArray', 'WeakMap', 'WeakRef', 'WeakSet', 'decodeURI', 'decodeURIComponent', 'encodeURI', 'encodeURIComponent', 'escape', 'eval', 'globalThis',
  'isFinite', 'isNaN', 'parseFloat', 'parseInt', 'undefined', 'unescape'
]

test('the globals are the language and the web surface', async () => {
  // A later Node's V8 may know more of the language.
  const names = await run('export default Object.getOwnPropertyNames(globalThis)')
  const later = ['Iterator', 'Float16Array', 'SuppressedError', 'DisposableStack', 'AsyncDisposableStack', 'Temporal']
  assert.deepEqual(names.filter((name) => !later.includes(name)).sort(), [...LANGUAGE, ...WEB].sort())
  assert.deepEqual(await run('const k = []; for (const n in globalThis) k.push(n); export default [k, Object.keys(globalThis)]'), [[], []])
})

test('exports are one flat object', async () => {
  const { evaluate } = makeRealm()
  assert.deepEqual(await evaluate('export default 42'), { default: 42 })
  assert.deepEqual(await evaluate('export const a = [1, { b: 2n }]; export let c = new Map([[1, new Date(0)]]); export { a as "odd name" }'), { a: [1, { b: 2n }], c: new Map([[1, new Date(0)]]), 'odd name': [1, { b: 2n }] })
  assert.deepEqual(await evaluate('1 + 1'), {})
  assert.deepEqual(await evaluate('export default undefined'), { default: undefined })
  assert.deepEqual(await evaluate('export let n = 1; setTimeout(() => { n = 3 }); await new Promise((r) => setTimeout(r, 5))'), { n: 3 })
  assert.deepEqual(await evaluate('const a = []; a.push(a); export default [a, a]; export const then = 1').then(({ default: [a, b], then }) => [a === b, a[0] === a, then]), [true, true, 1])
})

test('rich exports', async () => {
  const { default: all } = await makeRealm().evaluate('export default [new URL("http://a/b"), new Headers({ x: "y" }), new Request("http://a/", { method: "POST", body: "x" }), new Response("hi", { status: 201 }), /x/g, new Error("e"), new Uint8Array([1]), new Float64Array([1.5])]')
  assert.deepEqual(all[0], { t: 'URL', v: 'http://a/b' })
  assert.deepEqual(all[1], { t: 'Headers', v: [['x', 'y']] })
  assert.deepEqual([all[2].v.method, all[2].v.url, Buffer.from(all[2].v.body).toString()], ['POST', 'http://a/', 'x'])
  assert.deepEqual([all[3].v.status, Buffer.from(all[3].v.body).toString()], [201, 'hi'])
  assert.equal(String(all[4]), '/x/g')
  assert.equal(all[5].message, 'e')
})

test('what cannot be exported is named', async () => {
  for (const [code, path] of [
    ['export default () => 1', '$.default: a function'], ['export class A {}', '$.A: a function'], ['export const s = Symbol("x")', '$.s: a symbol'],
    ['export const p = Promise.resolve(1)', '$.p: a promise'], ['export default { a: [1, { "b c": async () => {} }] }', '$.default.a[1]["b c"]: a function'],
    ['export default new Map([[1, Promise.resolve()]])', '$.default[0]: a promise'], ['export default new Set([() => {}])', '$.default[0]: a function'],
    ['export default new Proxy({}, {})', '$.default: proxy'], ['export default new WeakMap()', '$.default: weak map'], ['export default { get a () { return () => {} } }', '$.default.a: function']
  ]) {
    const failure = await fails(makeRealm().evaluate(code))
    assert.equal(failure.code, 'ERR_EXPORT_NOT_SERIALIZABLE', code)
    assert.ok(failure.message.startsWith(path), failure.message)
  }
  assert.equal((await fails(makeRealm().evaluate('export default "x".repeat(200)', {}, {}, 100))).code, 'ERR_EXPORT_TOO_LARGE')
  const thrown = await fails(makeRealm().evaluate('export default { get a () { throw new RangeError("mine") } }'))
  assert.deepEqual([thrown.code, thrown.message], ['ERR_USER_CODE', 'mine'])
})

test('what does not compile', async () => {
  for (const code of ['return 1', 'let x = ;', 'import { y } from "m"', 'await 1; }', 'export default 1; export default 2', 'import(']) {
    const failure = await fails(makeRealm().evaluate(code, {}, { m: { source: 'export const z = 1' } }))
    assert.deepEqual([failure.code, failure.name], ['ERR_COMPILE', 'SyntaxError'], code)
    assert.match(failure.stack, /user\.mjs/)
  }
  assert.equal((await fails(makeRealm().evaluate('import "m"', {}, { m: { source: 'return' } }))).code, 'ERR_COMPILE')
})

test('where it does not compile', async () => {
  for (const [code, place] of [
    ['const a = 1\nlet x = ;', '2:9'], ['import a from "a"\nimport {\n  b\n} from \'b\'\nexport const c = {\n  a: 1\n  b: 2\n}', '7:3'], ['export default { a: (1 }', '1:24'],
    ['export { a as b }\nexport * from "c"\nexport default async () => {\n  await 1 2\n}', '4:11'], ['let a\nlet a', '2:5'], ['await 1\nif (', undefined], ['return', undefined]
  ]) {
    const { stack, message } = await fails(makeRealm().evaluate(code))
    const found = /at user\.mjs(?::([\d:]+))?$/.exec(stack)
    if (place !== undefined) assert.equal(found[1], place, `${code}: ${message}`)
    assert.ok(found, stack)
  }
})

test('errors of the code', async () => {
  const failure = await fails(makeRealm().evaluate('const f = () => {\n  throw Object.assign(new TypeError("no"), { a: 1, f () {}, __proto__: null })\n}\nf()'))
  const { stack, fields, ...rest } = failure
  assert.deepEqual({ ...rest }, { code: 'ERR_USER_CODE', name: 'TypeError', message: 'no' })
  assert.equal(stack, 'TypeError: no\n    at f (user.mjs:2:23)\n    at user.mjs:4:1')
  assert.equal(JSON.stringify(fields), '{"a":1}')
  assert.equal((await fails(makeRealm().evaluate('throw new Error("x")'))).fields, undefined)
  for (const [value, message] of [['"text"', 'text'], ['42', '42'], ['null', 'null'], ['undefined', 'undefined'], ['Symbol("s")', 'Symbol(s)']]) {
    const { stack, fields, ...told } = await fails(makeRealm().evaluate(`throw ${value}`))
    assert.deepEqual([{ ...told }, stack, fields], [{ code: 'ERR_USER_CODE', name: 'Error', message }, undefined, undefined])
  }
  assert.deepEqual((({ name, message }) => [name, message])(await fails(makeRealm().evaluate('class Odd extends Error { get name () { return "Odd" } } throw new Odd("x")'))), ['Odd', 'x'])
  assert.equal((await fails(makeRealm().evaluate('await Promise.reject(new Error("later"))'))).message, 'later')
  assert.equal((await fails(makeRealm().evaluate('fetch("x")'))).name, 'ReferenceError')
  const deep = await fails(makeRealm().evaluate('const f = () => f() + 1; f()'))
  assert.deepEqual([deep.code, deep.name], ['ERR_USER_CODE', 'RangeError'])
  for (const odd of ['{ get message () { throw 1 } }', 'new Proxy({}, { get () { throw 1 }, getPrototypeOf () { throw 2 }, ownKeys () { throw 3 } })', 'Object.create(null)', 'Object.assign(new Error("\\ud800"), { "\\udc00": 1 })']) {
    assert.equal((await fails(makeRealm().evaluate(`throw ${odd}`))).code, 'ERR_USER_CODE')
  }
  assert.equal((await fails(makeRealm().evaluate('Array.prototype.push = String.prototype.split = Object.keys = undefined; throw new Error("still told")'))).message, 'still told')
})

test('errors in callbacks end the run, rejections nobody handles do not', async () => {
  assert.equal((await fails(makeRealm().evaluate('setTimeout(() => { throw new Error("timer") }, 1); await new Promise((r) => setTimeout(r, 1000))'))).message, 'timer')
  assert.equal((await fails(makeRealm().evaluate('queueMicrotask(() => { throw new Error("micro") }); await new Promise((r) => setTimeout(r, 1000))'))).message, 'micro')
  assert.deepEqual(await makeRealm().evaluate('setTimeout(() => {}, 1e6); setInterval(() => {}, 1e6); export default 1'), { default: 1 })
})

test('columns and lines are the user\'s, with import() too', async () => {
  const imports = { a: { source: 'export default 1' } }
  const failure = await fails(makeRealm().evaluate('const m = await import("a"); if (m.default) throw new Error("x")\n// import("b")', {}, imports))
  assert.match(failure.stack, /^Error: x\n {4}at user\.mjs:1:51$/)
})

test('a promise that nothing settles', async () => {
  const { evaluate, prepare, realm } = makeRealm()
  assert.equal(realm.stalled(), false)
  const waiting = fails(evaluate('await new Promise(() => {})'))
  await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(realm.stalled(), true)
  assert.equal((await waiting).code, 'ERR_EXPORT_UNRESOLVED_PROMISE')
  const timed = evaluate('await new Promise((r) => setTimeout(r, 30)); export default 1')
  await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(realm.stalled(), false)
  assert.deepEqual(await timed, { default: 1 })
  const preparing = fails(prepare('await new Promise(() => {})'))
  await new Promise((resolve) => setTimeout(resolve, 5))
  assert.equal(realm.stalled(), true)
  assert.equal((await preparing).code, 'ERR_PREFIX_DID_NOT_SETTLE')
})

test('modules of the map', async () => {
  const imports = {
    a: { source: 'import { b } from "b"; export const a = b + 1; globalThis.times = (globalThis.times ?? 0) + 1' }, b: { source: 'export { default as b } from "c"' }, c: { source: 'export default await 1' },
    loop: { source: 'import { two } from "loop2"; export const one = 1; export const sum = () => one + two' }, loop2: { source: 'import { one } from "loop"; export const two = 2; export const get = () => one' },
    broken: { source: 'import "nowhere"' }, throws: { source: 'throw new Error("inside")' }, thenable: { source: 'export const then = (resolve) => resolve("then")' }
  }
  const { evaluate } = makeRealm()
  assert.deepEqual(await evaluate('import { a } from "a"; import { sum } from "loop"; const same = (await import("a")) === (await import("a")); export default [a, sum(), same, times]', {}, imports), { default: [2, 3, true, 1] })
  assert.deepEqual(await evaluate('export default [times, (await import("a")).a]'), { default: [1, 2] })
  assert.deepEqual(await evaluate('export default await Promise.all(["a", "loop2", "c", "thenable"].map((s) => import(s).then((m) => typeof m)))'), { default: ['object', 'object', 'object', 'string'] })
  for (const code of ['import "nope"', 'import "broken"', 'await import("nope")', 'await import("broken")', 'import "fs"', 'import "node:fs"', 'await import("./a")']) {
    assert.equal((await fails(evaluate(code))).code, 'ERR_MODULE_NOT_FOUND', code)
  }
  assert.deepEqual(await evaluate('let e; try { await import("nope") } catch (x) { e = x } export default [e.code, e instanceof TypeError, Object.keys(e)]'), { default: ['ERR_MODULE_NOT_FOUND', true, []] })
  assert.deepEqual(await evaluate('const e = []; for (const s of ["throws", "throws"]) try { await import(s) } catch (x) { e.push(x) } export default [e[0].message, e[0] === e[1]]'), { default: ['inside', true] })
  assert.equal((await fails(evaluate('import "throws"'))).message, 'inside')
})

test('the prefix leaves its global state and its modules', async () => {
  const imports = { counter: { source: 'export let n = 0; export const next = () => ++n' } }
  const { evaluate, prepare } = makeRealm()
  await prepare('import { next } from "counter"; next(); globalThis.shared = { a: await 1 }; const mine = 1', {}, imports)
  assert.deepEqual(await evaluate('import { n, next } from "counter"; export default [n, next(), shared.a, typeof mine]'), { default: [1, 2, 1, 'undefined'] })
  const failures = [
    ['return', 'ERR_COMPILE'], ['import "nope"', 'ERR_MODULE_NOT_FOUND'], ['throw new Error("x")', 'ERR_USER_CODE'], ['setTimeout(() => {}, 1000)', 'ERR_PREFIX_DID_NOT_SETTLE'],
    ['setInterval(() => {}, 1000); await 1', 'ERR_PREFIX_DID_NOT_SETTLE'], ['await bridged()', 'ERR_PREFIX_BRIDGE_CALL'], ['import "node:async_hooks"', 'ERR_MODULE_NOT_FOUND'],
    ['await import("node:async_hooks")', 'ERR_MODULE_NOT_FOUND'], ['import "viaHooks"', 'ERR_MODULE_NOT_FOUND']
  ]
  for (const [code, expected] of failures) {
    const failure = await fails(makeRealm().prepare(code, { bridged: fn }, { viaHooks: { source: 'import "node:async_hooks"' } }))
    assert.equal(failure.code, expected, code)
  }
  const later = makeRealm(() => 'called')
  await later.prepare('globalThis.kind = typeof bridged; globalThis.call = () => bridged(); globalThis.caught = await bridged().catch((e) => e.code)', { bridged: fn })
  assert.deepEqual(await later.evaluate('export default [kind, caught, await call()]'), { default: ['function', 'ERR_PREFIX_BRIDGE_CALL', 'called'] })
  const forgotten = await fails(makeRealm().prepare('await 1; setTimeout(() => {}, 9)'))
  assert.match(forgotten.message, /setTimeout/)
})

test('node:async_hooks', async () => {
  const code = `
    import { AsyncLocalStorage } from 'node:async_hooks'
    const storage = new AsyncLocalStorage()
    const work = async (ms) => { await new Promise((r) => setTimeout(r, ms)); await bridged(); await null; return storage.getStore() }
    const results = await Promise.all([storage.run({ id: 1 }, work, 5), storage.run({ id: 2 }, work, 1), work(1)])
    let thrown; try { storage.run(1, () => { throw new Error('through') }) } catch (e) { thrown = e.message }
    queueMicrotask(() => {})
    export default [results, storage.getStore(), storage.run(3, (...a) => [storage.getStore(), ...a], 4, 5), thrown, Object.getOwnPropertyNames(AsyncLocalStorage.prototype)]`
  assert.deepEqual(await run(code, { bridged: fn }), [[{ id: 1 }, { id: 2 }, undefined], undefined, [3, 4, 5], 'through', ['constructor', 'run', 'getStore']])
  assert.deepEqual(await run('import x from "node:async_hooks"; export default x', {}, { 'node:async_hooks': { source: 'export default "mine"' } }), 'mine')
})

test('a run is cheap', async () => {
  const { realm } = makeRealm()
  const one = () => realm.evaluate({ code: 'export default 42', filename: 'user.mjs', globals: {}, imports: {} })
  for (let i = 0; i < 100; i++) await one()
  const times = []
  for (let i = 0; i < 200; i++) {
    const start = performance.now()
    await one()
    times.push(performance.now() - start)
  }
  assert.ok(times.sort((a, b) => a - b)[100] < 3, `median ${times[100]} ms`)
})
