// Nothing of Node's realm can be reached from the bare realm. The guest itself walks everything it can get hold of.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fn, makeRealm, run } from './realm-harness.mjs'

// Everything reachable from `roots`: foreign objects end at another Object.prototype, or lead to a Function that makes code.
const WALK = `
const root = Object.prototype
const reads = (value, key) => { try { return value[key] } catch (e) { return e } }
globalThis.walk = (...roots) => {
  const seen = new Set()
  const open = [globalThis, ...roots].map((value, i) => [value, 'root' + i])
  const foreign = []
  while (open.length > 0) {
    const [value, path] = open.pop()
    if ((typeof value !== 'object' || value === null) && typeof value !== 'function') continue
    if (seen.has(value)) continue
    seen.add(value)
    let at = value
    while (Reflect.getPrototypeOf(at) !== null) at = Reflect.getPrototypeOf(at)
    if (at !== root && Reflect.getPrototypeOf(value) !== null) foreign.push(path)
    if (typeof value === 'function' && value.constructor && value.constructor !== Function && !(value.constructor.prototype instanceof Function) && Object.getPrototypeOf(value) !== Function.prototype) {
      const chain = []
      for (let p = value; p !== null; p = Reflect.getPrototypeOf(p)) chain.push(p)
      if (!chain.includes(Function.prototype)) foreign.push(path + ' (function)')
    }
    open.push([Reflect.getPrototypeOf(value), path + '.__proto__'])
    if (path.length > 300) continue
    for (const key of Reflect.ownKeys(value)) {
      const property = Reflect.getOwnPropertyDescriptor(value, key)
      const name = path + '.' + String(key)
      if ('value' in property) open.push([property.value, name])
      else { open.push([property.get, name + '(get)'], [property.set, name + '(set)'], [reads(value, key), name]) }
    }
  }
  globalThis.walked = seen.size
  return foreign
}
`
const walk = async (code, globals, imports, host) => {
  const made = makeRealm(host)
  const { default: foreign, count } = await made.evaluate(`${WALK}\n${code}\nexport const count = walked`, globals, imports)
  assert.ok(count > 850, `walked ${count}`)
  assert.deepEqual(foreign, [])
}

test('the walk finds what is foreign', async () => {
  const { realm } = makeRealm()
  await assert.rejects(realm.evaluate({ code: `${WALK}\nglobalThis.x; const f = walk(globalThis.x); if (f.length) throw new Error(f.join())`, filename: 'x', globals: { x: { kind: 'value', value: { a: [1] } } }, imports: {} }), { code: 'ERR_USER_CODE' })
})

test('globals', () => walk('export default walk(globalThis)'))

test('one of everything', () => walk(`
  const url = new URL('http://a/?b=c')
  const signal = new AbortController()
  const things = [url, url.searchParams, [...url.searchParams], url.searchParams.entries(), new TextEncoder(), new TextEncoder().encode('x'), new TextEncoder().encodeInto('x', new Uint8Array(3)),
    new TextDecoder(), new Event('x'), new EventTarget(), signal, signal.signal, AbortSignal.timeout(1), AbortSignal.abort().reason, AbortSignal.any([signal.signal]), new Headers({ a: 'b' }),
    [...new Headers({ a: 'b' })], new Request('http://a/', { method: 'POST', body: 'x' }), new Response('x'), Response.json({}), Response.error(), new Response('x').text(), await new Response('x').arrayBuffer(),
    performance, performance.toJSON(), crypto, crypto.getRandomValues(new Uint8Array(4)), structuredClone({ a: [new Map(), new Set(), new Date(), /x/, new Error('x'), new ArrayBuffer(2)] }),
    console, setTimeout(() => {}, 1), import.meta, (function () { return arguments })(), new DOMException('x')]
  for (const thing of [...things]) for (const name of ['entries', 'keys', 'values', 'text', 'toString', 'toJSON', 'clone']) {
    try { const made = thing[name](); things.push(made, await made) } catch (e) { things.push(e) }
  }
  export default walk(...things)
`))

test('errors of every wrapper', () => walk(`
  const thrown = []
  const catches = (f) => { try { const made = f(); made?.catch?.((e) => thrown.push(e)); thrown.push(made) } catch (e) { thrown.push(e) } }
  const odd = [undefined, null, 0, 'x', Symbol('x'), {}, [], () => {}, Object.create(null), new Proxy({}, { get () { throw new Error('x') } }), { toString () { throw new TypeError('y') } }, new Uint8Array(1), 1n, NaN, '\\ud800']
  const callable = [atob, btoa, setTimeout, setInterval, clearTimeout, queueMicrotask, structuredClone, eval, ...['URL', 'URLSearchParams', 'TextDecoder', 'TextEncoder', 'Headers', 'Request', 'Response', 'Event', 'AbortSignal', 'DOMException', 'EventTarget', 'Function', 'Promise'].map((name) => (...a) => new globalThis[name](...a))]
  const statics = [[crypto, 'getRandomValues'], [AbortSignal, 'timeout'], [AbortSignal, 'any'], [AbortSignal, 'abort'], [Response, 'json'], [Response, 'redirect'], [URL, 'canParse'], [console, 'log'], [new URL('http://a'), 'toString'], [new TextDecoder('utf-8', { fatal: true }), 'decode'], [new TextEncoder(), 'encodeInto'], [globalThis, 'bridged']]
  const isFatal = (name, ...args) => name === 'bridged' && args.some((a) => typeof a === 'function' || Object.keys(a ?? {}).includes('toString'))
  for (const a of odd) for (const b of odd) {
    for (const f of callable) if (f !== setInterval || typeof a !== 'function') catches(() => f(a, b))
    for (const [self, name] of statics) if (!isFatal(name, a, b)) catches(() => self[name](a, b))
  }
  catches(() => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255])))
  await new Promise((resolve) => setTimeout(resolve, 5))
  export default walk(...thrown)
`, { bridged: fn }))

test('a stack overflow inside a wrapper', () => walk(`
  const thrown = []
  const calls = [() => new URL('http://a/'), () => console.log('x'), () => atob('eA=='), () => new TextDecoder().decode(new Uint8Array(1)), () => crypto.randomUUID(), () => structuredClone(new Map()),
    () => new URLSearchParams('a=%41'), () => performance.now(), () => setTimeout(() => {}, 1), () => bridged({ a: [new Map()] }).catch((e) => thrown.push(e)), () => storage.run(1, () => 1), () => storage.getStore(), () => new AsyncLocalStorage()]
  import { AsyncLocalStorage } from 'node:async_hooks'
  const storage = new AsyncLocalStorage()
  for (const call of calls) {
    const dive = () => { try { dive() } catch (e) { thrown.push(e); try { call() } catch (e) { thrown.push(e) } } }
    for (let pad = 0; pad < 12; pad++) { const deep = (n) => n ? deep(n - 1) : dive(); deep(pad) }
    thrown.length = Math.min(thrown.length, 400)
  }
  export default walk(...thrown)
`, { bridged: fn }))

test('what the host gives', () => walk(`
  import * as all from 'host'
  import { data, nested } from 'host'
  const results = [all, await import('host'), import('host'), data, nested, bridged(1), await bridged({ a: [1] }), await nested.call(1), value, shimmed(), await shimmed(), made]
  try { await bridged('fail') } catch (e) { results.push(e) }
  const p = bridged('fail'); results.push(p); p.catch((e) => results.push(e))
  await p.catch(() => {})
  export default walk(...results)
`, {
  bridged: fn, value: { kind: 'value', value: { a: [1, new Map([[1, 2]]), new Date(), /x/, new Uint8Array(2), new Error('x')] } }, shimmed: { kind: 'shim', text: '(x) => ({ x })' }, made: { kind: 'expression', text: '[import("host"), {}]' }
}, { host: { members: { data: { kind: 'value', value: [{}] }, nested: { kind: 'object', members: { call: fn } } } } }, (target, [first]) => {
  if (first === 'fail') throw Object.assign(new TypeError('no'), { detail: { a: 1 } })
  return { first, map: new Map(), date: new Date(), bytes: new Uint8Array(3) }
}))

test('import() in its many forms', () => walk(`
  const made = []
  const keep = (p) => { made.push(p); p?.catch?.((e) => made.push(e)) }
  keep(import('a')); keep(import /* c */ ('nope')); keep(import
  // line ( comment
  ('bad')); keep(import(Symbol('x'))); keep(import({ toString () { throw new Error('x') } })); import('throws').catch(keep); \`\${import('a')}\`
  keep((() => import('a'))()); keep([import('a')][0]); const obj = { import (x) { return x } }; keep(obj.import('a'))
  const text = "import('a')" + 'import ("a")' + \`import('a')\` ; const regex = /import('a')/
  if (text !== 'import(' + "'a')" + 'import' + ' ("a")' + 'import' + "('a')" || regex.source !== 'im' + "port('a')") throw new Error(text)
  const a = 1, g = 1; const division = a / import('a') / g
  await 0; await new Promise((resolve) => setTimeout(resolve, 10))
  if (made.length < 9) throw new Error('few')
  export default walk(...made)
`, {}, { a: { source: 'export const x = 1; export const again = () => import("a")' }, bad: { source: 'let x = ;' }, throws: { source: 'throw new Error("no")' } }))

test('callbacks', () => walk(`
  const got = []
  const note = function () { got.push(this, ...arguments, arguments); got.push(new Error('stack')) }
  const loose = loosen(got)
  setTimeout(note, 1, {}); setTimeout(loose, 1); setInterval(note, 1); queueMicrotask(note); queueMicrotask(loose)
  import { AsyncLocalStorage } from 'node:async_hooks'
  const storage = new AsyncLocalStorage()
  got.push(storage, storage.run({}, note, 1), storage.run(1, loose))
  const target = new EventTarget(); target.addEventListener('x', note); target.addEventListener('x', { handleEvent: loose }); target.dispatchEvent(new Event('x'))
  AbortSignal.timeout(1).addEventListener('abort', note)
  new URLSearchParams('a=b').forEach(note); new Headers({ a: 'b' }).forEach(loose)
  JSON.stringify({ toJSON: note }); console.log({ toJSON: note }, { toString: note }, { get x () { note.call(this) } })
  bridged({ get x () { note.call(this, 1) ; return 1 } })
  await new Promise((resolve) => setTimeout(resolve, 20))
  export default walk(...got)
`, { bridged: fn, loosen: { kind: 'expression', text: '(got) => function loose () { got.push(this === globalThis ? 0 : this, ...arguments, arguments, loose.caller, arguments.callee.caller); for (let f = loose.caller; f; f = f.caller) got.push(f) }' } }))

test('Error.prepareStackTrace', () => walk(`
  const got = []
  Error.prepareStackTrace = (error, frames) => { got.push(error, frames, ...frames.flatMap((f) => [f, f.getThis(), f.getFunction(), f.getTypeName(), f.getEvalOrigin()])); return 'x' }
  got.push(new Error('a').stack, new URL('http://a'))
  try { null.x } catch (e) { e.stack }
  try { new URL('nope') } catch (e) { e.stack }
  try { await import('bad') } catch (e) { e.stack }
  try { await import('nope') } catch (e) { e.stack }
  try { await bridged(new Error('in an argument')) } catch (e) { e.stack }
  setTimeout(() => { new Error('x').stack }, 1); console.log(new Error('y'))
  await new Promise((resolve) => setTimeout(resolve, 10))
  export default walk(...got)
`, { bridged: fn }, { bad: { source: 'let x = ;' } }))

test('Error.prepareStackTrace sees nothing of what exports and fields do later', async () => {
  const made = makeRealm()
  const hook = `${WALK}; globalThis.got = []; Error.prepareStackTrace = (error, frames) => { got.push(frames, ...frames); return 'x' }`
  await made.evaluate(`${hook}; export const list = [new Error('exported')]`)
  await made.evaluate('export default { get later () { return [new Error("made while it is encoded")] } }')
  await made.evaluate('export default await bridged({ get later () { return new Error("too") } })', { bridged: fn })
  await assert.rejects(made.evaluate('throw Object.assign(new Error("a"), { inner: new Error("b") })'), { code: 'ERR_USER_CODE', stack: 'x' })
  await assert.rejects(made.evaluate('let x = ;'), { code: 'ERR_COMPILE' })
  await assert.rejects(made.evaluate('import { x } from "b"', {}, { b: { source: '' } }), { code: 'ERR_COMPILE' })
  assert.deepEqual((await made.evaluate('export default walk(...got)')).default, [])
})

test('built-in methods replaced by the guest see nothing foreign', () => walk(`
  const got = []
  const spy = (owner, name) => {
    const real = owner[name]
    Object.defineProperty(owner, name, { configurable: true, writable: true, value (...args) { got.push(this, ...args); return Reflect.apply(real, this, args) } })
  }
  const real = got.push
  const apply = Reflect.apply
  for (const [owner, names] of [[Promise.prototype, ['then', 'catch', 'finally']], [Function.prototype, ['call', 'apply', 'bind']], [Map.prototype, ['get', 'set', 'forEach']], [WeakMap.prototype, ['get', 'set']], [String.prototype, ['split', 'slice']], [Object.prototype, ['toString']]]) for (const name of names) {
    const fn = owner[name]
    owner[name] = function (...args) { got[got.length] = this; for (const a of args) got[got.length] = a; return apply(fn, this, args) }
  }
  Object.defineProperty(Promise.prototype, 'constructor', { configurable: true, get () { got[got.length] = this; return Promise } })
  Object.defineProperty(Object.prototype, 'then', { configurable: true, get () { got[got.length] = this; return undefined } })
  Object.defineProperty(Promise, Symbol.species, { configurable: true, get () { got[got.length] = this; return Promise } })
  await bridged({ a: 1 }); await import('host'); await import('late'); new URL('http://a/').searchParams.get('x'); await new Response('x').json().catch(() => {})
  await new Promise((resolve) => setTimeout(resolve, 2))
  delete Object.prototype.then
  export default walk(...got)
`, { bridged: fn }, { host: { members: { f: fn } }, late: { source: 'await 1; export default 1' } }))

test('a then of the guest that is called with functions gets its own', async () => {
  const made = makeRealm()
  const code = `${WALK}
    globalThis.got = []
    const real = Promise.prototype.then
    Promise.prototype.then = function (a, b) { got.push(this, a, b); return Reflect.apply(real, this, [a, b]) }
    Object.defineProperty(Object.prototype, 'then', { configurable: true, value (a, b) { got.push(this, a, b); delete Object.prototype.then; a(this) } })
    await 1`
  await made.evaluate(code)
  await made.evaluate('delete Object.prototype.then; await import("a"); export const then = undefined', {}, { a: { source: 'export function then (a, b) { got.push(a, b); a({}) }' } })
  const { default: foreign } = await made.evaluate('export default walk(...got)')
  assert.deepEqual(foreign, [])
})

test('no code from strings, no process', async () => {
  const code = (text) => `let result; try { result = ${text} } catch (e) { result = e.name } export default String(result)`
  for (const text of ['eval("1")', 'new Function("1")', '(async () => {}).constructor("1")', '(function * () {}).constructor("1")']) assert.equal(await run(code(text)), 'EvalError', text)
  for (const name of ['process', 'Buffer', 'require', 'module', 'fetch', 'WebAssembly', 'SharedArrayBuffer', 'global', 'setImmediate', '__dirname']) assert.equal(await run(`export default typeof ${name}`), 'undefined', name)
})

// One method of the language after the other returns an object that records every access, while every API is called.
test('built-in methods that answer with traps', { timeout: 120000 }, () => walk(`
  import { AsyncLocalStorage } from 'node:async_hooks'
  const got = new Set()
  const { ownKeys, getOwnPropertyDescriptor, defineProperty, apply, get } = Reflect
  const add = Set.prototype.add
  const note = (...values) => { for (let i = 0; i < values.length; i++) if (values[i] !== evil) apply(add, got, [values[i]]) }
  let depth = 0
  const safely = (fn) => { if (depth > 3) return 1; depth++; try { return fn() } finally { depth-- } }
  const evil = new Proxy(function () {}, {
    get (target, key, self) { note(target, key, self); return key === Symbol.toPrimitive ? () => 'http://evil/' : key === 'length' ? 1 : key === 'done' ? true : evil },
    apply (target, self, args) { note(self, ...args); return evil },
    construct (target, args, self) { note(...args, self); return evil },
    has () { return true }
  })
  const storage = new AsyncLocalStorage()
  const keep = [() => new URL('http://a/?x=1#y').searchParams.get('x'), () => { const u = new URL('http://a/?q'); u.search = 'a=%41+b'; u.port = 5; u.searchParams.append('k', 'ü'); return String(u) },
    () => [...new URLSearchParams('a=%41&b=c+d')], () => new URLSearchParams({ a: 1 }).toString(), () => new TextEncoder().encode('aü'), () => new TextEncoder().encodeInto('aü', new Uint8Array(4)),
    () => new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([65, 66]).buffer), () => atob(btoa('x')), () => crypto.randomUUID(), () => crypto.getRandomValues(new Uint16Array(2)),
    () => structuredClone({ a: [new Map([[1, new Set([2])]]), new Date(), /x/, new Error('e'), new Uint8Array(1)] }), () => console.log('a', { b: [1] }, new Error('x'), new Uint8Array(2), /x/, () => 1),
    () => clearTimeout(setTimeout(() => {}, 5, 1)), () => queueMicrotask(() => {}), () => performance.now(), () => Math.random(), () => [...new Headers({ a: 'b' })], () => new Response('x').text(),
    () => new Request('http://a', { method: 'post', body: 'x', headers: [['a', 'b']] }).clone(), () => Response.json({}), () => storage.run(1, () => storage.getStore()), () => bridged({ a: [1, map] }),
    () => import('late'), () => { const t = new EventTarget(); t.addEventListener('x', () => {}); t.dispatchEvent(new Event('x')) }, () => AbortSignal.any([new AbortController().signal]), () => new DOMException('a', 'AbortError').code,
    () => shimmed(1), () => new AsyncLocalStorage()]
  const hush = (made) => { try { apply(then, made, [() => {}, () => {}]) } catch {} }
  const then = Promise.prototype.then
  const map = new Map()
  const owners = []
  for (const name of Object.getOwnPropertyNames(globalThis)) {
    if (name === 'globalThis') continue
    const value = globalThis[name]
    if (typeof value === 'function' || (typeof value === 'object' && value !== null)) { owners.push(value); if (value.prototype) owners.push(value.prototype) }
  }
  owners.push(Object.getPrototypeOf(Uint8Array.prototype), Object.getPrototypeOf(Uint8Array), Object.getPrototypeOf([][Symbol.iterator]()), Object.getPrototypeOf(Object.getPrototypeOf([][Symbol.iterator]())), Object.getPrototypeOf(new Map().entries()), Object.getPrototypeOf((function * () {})()), globalThis)
  let replaced = 0
  for (let i = 0; i < owners.length; i++) {
    const owner = owners[i]
    if (owner === RegExp.prototype) continue // its own algorithms loop for ever then
    const keys = ownKeys(owner)
    for (let j = 0; j < keys.length; j++) {
      const property = getOwnPropertyDescriptor(owner, keys[j])
      if (!property.configurable || keys[j] === 'walk' || keys[j] === 'Set' || keys[j] === 'Reflect') continue
      if (typeof property.value !== 'function' && !property.get) continue
      replaced++
      const trap = function (...args) { note(this, ...args); return evil }
      defineProperty(owner, keys[j], property.get ? { __proto__: null, configurable: true, get: trap, set: property.set } : { __proto__: null, configurable: true, writable: true, value: trap })
      for (let k = 0; k < keep.length; k++) { try { const made = keep[k](); hush(made); note(made) } catch (e) { note(e) } }
      defineProperty(owner, keys[j], { __proto__: null, ...property })
    }
  }
  await new Promise((resolve) => setTimeout(resolve, 5))
  if (replaced < 600) throw new Error('replaced ' + replaced)
  got.delete(evil)
  export default walk(...[...got].filter((value) => value !== evil))
`, { bridged: fn, shimmed: { kind: 'shim', text: '(x) => x' } }, { late: { source: 'export default 1' } }))
