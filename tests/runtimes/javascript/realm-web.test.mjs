// The Web APIs of the bare realm; where Node has the same, its answers are the measure.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import vm from 'node:vm'
import { fails, makeRealm, run } from './realm-harness.mjs'

// The same code here and there.
const alike = async (text) => {
  const here = await vm.runInThisContext(`(async () => { ${text} })()`)
  assert.deepEqual(await run(`export default await (async () => { ${text} })()`), here, text)
}
const caught = (text) => `try { return await (${text}) } catch (e) { return [e.name, e instanceof TypeError, e instanceof DOMException, e.code] }`

test('console', async () => {
  const made = makeRealm()
  await made.evaluate(`
    console.log('a', 1, true, null, undefined, 2n, Symbol('s'), NaN, -0)
    console.info({ a: [1, { b: null }] }, [1, 'x'], new Date(0), new Map(), new Set(), Promise.resolve(), new Uint8Array([1, 2, 3]))
    console.debug('%s', 'x'); console.log()
    console.warn(() => 1, /x/g, { toJSON () { return 'json' } }, new URL('http://a/'), { big: 1n })
    console.error({ get a () { throw 1 } }, new Proxy({}, { get () { throw 1 }, ownKeys () { throw 1 } }), Object.create(null))
    const loop = {}; loop.loop = loop; console.log(loop, new (class { toString () { throw 1 } toJSON () { throw 1 } get [Symbol.toStringTag] () { throw 1 } })())
    for (const name of ['table', 'dir', 'time', 'group', 'trace', 'assert', 'count']) console[name]('x')
    const { log } = console; log('bare', '\\ud800')
  `)
  assert.deepEqual(made.lines.map(([method, stream, text]) => [stream, text]), [
    ['stdout', 'a 1 true null undefined 2 Symbol(s) NaN 0'],
    ['stdout', '{"a":[1,{"b":null}]} [1,"x"] "1970-01-01T00:00:00.000Z" [object Map] [object Set] [object Promise] 1,2,3'],
    ['stdout', '%s x'], ['stdout', ''],
    ['stderr', '[object Function] /x/g "json" "http://a/" {"big":"1"}'],
    ['stderr', '[object Object] [unprintable] {}'],
    ['stdout', '[object Object] [unprintable]'],
    ['stdout', 'bare \ud800']
  ])
  const other = makeRealm()
  await other.evaluate('const e = new TypeError("t"); console.log(e); e.stack = "odd"; console.log(e); console.log(Object.assign(new Error("s"), { stack: 5 }))')
  assert.deepEqual(other.lines.map(([, , text]) => text), ['TypeError: t\n    at user.mjs:1:11', 'TypeError: t\nodd', 'Error: s'])
})

test('URL', async () => {
  const parts = '[u.href, u.protocol, u.username, u.password, u.host, u.hostname, u.port, u.pathname, u.search, u.hash, u.origin, String(u), JSON.stringify(u), u.searchParams.toString()]'
  for (const args of ['"https://user:pass@example.com:8080/a/../b?x=1&y=%20#h"', '"../c?d", "http://a/b/"', '"http://EXÄMPLE.com/ü?ü#ü"', '"data:text/plain,hi"', '"file:///a b"', '"http://[::1]:80/"', '"http://a/?a\\nb"']) {
    await alike(`const u = new URL(${args}); return ${parts}`)
  }
  for (const change of ['u.port = 99', 'u.hash = "x y"', 'u.search = "?q=ü"', 'u.protocol = "https"', 'u.host = "b:1"', 'u.pathname = "x/ y"', 'u.href = "http://z/?k=v"', 'u.searchParams.append("a", "b c")', 'u.searchParams.delete("q")', 'u.username = "me"', 'u.hostname = "not a host"']) {
    await alike(`const u = new URL("http://a/b?q=1#h"); const p = u.searchParams; ${change}; return [${parts}, [...p]]`)
  }
  await alike(caught('new URL("nope")'))
  await alike('return [URL.canParse("x"), URL.canParse("x", "http://a")]')
  await alike('return [Object.prototype.toString.call(new URL("http://a")), "href" in URL.prototype]')
})

test('URLSearchParams', async () => {
  for (const init of ['"?a=1&b=2&a=3+4&c"', '"%zz=%41&&=x&a=%ff"', '{ a: 1, "b c": "ü&=" }', '[["x", "y"], ["x", 2]]', 'new Map([["a", "b"]])', 'new URLSearchParams("q=1")', '"~!*()\'-._ ü€😀"']) {
    await alike(`const p = new URLSearchParams(${init}); return [p.toString(), [...p], p.size, p.get("a"), p.getAll("a"), p.has("x", "2"), [...p.keys()], [...p.values()]]`)
  }
  await alike('const p = new URLSearchParams("z=1&a=2&z=3&b=4"); p.set("z", "9"); p.append("a", "x"); p.delete("a", "2"); p.sort(); p.set("new", 1); const seen = []; p.forEach((v, k) => seen.push([k, v])); return [p.toString(), seen]')
  await alike('try { new URLSearchParams([["x"]]) } catch (e) { return e.name }')
})

test('text and base64', async () => {
  await alike('return [new TextEncoder().encode("aü€😀\\ud800"), new TextEncoder().encode(), new TextEncoder().encoding]')
  await alike('const b = new Uint8Array(4); return [{ ...new TextEncoder().encodeInto("aü€", b) }, b]')
  await alike('const d = new TextDecoder(); return [d.decode(new Uint8Array([0xef, 0xbb, 0xbf, 65, 0xff, 66])), d.decode(), d.encoding, d.fatal, d.ignoreBOM]')
  await alike('const d = new TextDecoder(); const b = new Uint8Array([0xe2, 0x82, 0xac, 0xf0, 0x9f]); return [d.decode(b.subarray(0, 1), { stream: true }), d.decode(b.subarray(1, 3), { stream: true }), d.decode(b.subarray(3), { stream: true }), d.decode()]')
  await alike('return [new TextDecoder("utf-16le").decode(new Uint8Array([65, 0, 66, 0]).buffer), new TextDecoder("latin1").encoding, new TextDecoder("utf-8", { ignoreBOM: true }).decode(new DataView(new Uint8Array([0xef, 0xbb, 0xbf, 65]).buffer)).length]')
  assert.deepEqual(await run('let e; try { new TextDecoder("utf-8", { fatal: true }).decode(new Uint8Array([255])) } catch (x) { e = x } export default [e instanceof TypeError]'), [true])
  assert.deepEqual(await run('let e; try { new TextDecoder("nope") } catch (x) { e = x } export default [e instanceof RangeError]'), [true])
  await alike('return [btoa("hello\\xff"), atob("aGVs bG8="), atob("aGk")]')
  for (const text of ['atob("*")', 'btoa("€")']) await alike(caught(text))
})

test('timers', async () => {
  assert.deepEqual(await run(`
    const order = []
    const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
    setTimeout((...a) => order.push(...a), 3, 'b', 'c'); setTimeout(() => order.push('a'), 1)
    clearTimeout(setTimeout(() => order.push('never'), 2)); clearTimeout(undefined); clearTimeout({}); clearInterval('x')
    let n = 0; const i = setInterval(() => { order.push(++n); if (n === 2) clearInterval(i) }, 8)
    queueMicrotask(() => order.push('micro'))
    await wait(40)
    const e = []; for (const f of [() => setTimeout('1'), () => setInterval(), () => queueMicrotask(1), () => { for (let i = 0; i < 10001; i++) setTimeout(() => {}, 1e6) }]) try { f() } catch (x) { e.push(x.name) }
    export default [order, e, typeof setTimeout(() => {}, 1, 1) ]`).catch((failure) => failure.message), 'setTimeout: more than 10000 timers are pending')
  assert.deepEqual(await run(`
    const order = []
    const late = setTimeout(() => order.push('late'), 60000)  // those that fire come as they are made, for a stall between two of them moves the second
    setTimeout(() => order.push('a'), 1); setTimeout((...a) => order.push(...a), 6, 'b', 'c'); clearTimeout(setTimeout(() => order.push('never'), 2))
    let n = 0; await new Promise((resolve) => { const i = setInterval(() => { order.push(++n); if (n === 2) { clearInterval(i); resolve() } }, 20) })
    clearTimeout(late)
    export default order`), ['a', 'b', 'c', 1, 2])
})

test('structuredClone', async () => {
  await alike('const a = { date: new Date(5), map: new Map([[{ k: 1 }, new Set([1, "x"])]]), re: /a/gi, typed: new Float64Array([1.5]), buffer: new Uint8Array([1, 2]).buffer, n: null, u: undefined, big: 1n, list: [1, , 3] }; a.self = a; const c = structuredClone(a); return [c.self === c, c.date.getTime(), [...c.map], String(c.re), c.typed, c.buffer.byteLength, c.n, "u" in c, c.big, c.list.length, 1 in c.list]')
  await alike('const b = new Uint8Array(8); const c = structuredClone({ x: b.subarray(2, 4), y: b }); return [c.x.buffer === c.y.buffer, c.x.byteOffset, c.x.length]')
  await alike('const e = structuredClone(Object.assign(new RangeError("r", { cause: 1 }), { extra: 1 })); return [e instanceof RangeError, e.message, e.cause, e.extra]')
  await alike('class A { constructor () { this.x = 1 } get y () { return 2 } } const c = structuredClone(new A()); return [c.constructor === Object, c, typeof structuredClone(Object("s")), structuredClone(new Number(3)) + 1]')
  for (const value of ['() => 1', 'Symbol("x")', '{ a: [() => 1] }', 'new WeakMap()', 'Promise.resolve()']) await alike(caught(`structuredClone(${value})`))
})

test('crypto, performance, randomness', async () => {
  const made = makeRealm()
  const { default: got } = await made.evaluate(`
    const a = crypto.getRandomValues(new Uint32Array(64))
    const e = []; for (const x of [new Float64Array(1), new Uint8Array(65537), {}, 5]) try { crypto.getRandomValues(x) } catch (y) { e.push(y.name) }
    const r = Array.from({ length: 1000 }, Math.random)
    const t = performance.now()
    export default [new Set(a).size > 60, crypto.randomUUID(), crypto.randomUUID(), typeof crypto.subtle, e, r.every((x) => x >= 0 && x < 1), new Set(r).size, Math.abs(r.reduce((a, b) => a + b) / 1000 - 0.5) < 0.1, t >= 0 && t < 1000, Math.abs(performance.timeOrigin + t - Date.now()) < 50]`)
  const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
  assert.match(got[1], uuid)
  assert.match(got[2], uuid)
  assert.notEqual(got[1], got[2])
  assert.deepEqual([got[0], ...got.slice(3)], [true, 'undefined', ['TypeMismatchError', 'QuotaExceededError', 'TypeMismatchError', 'TypeMismatchError'], true, 1000, true, true, true])
})

test('events and abort', async () => {
  await alike('const t = new EventTarget(); const seen = []; const f = (e) => seen.push(e.type, e.target === t, e.eventPhase, e.defaultPrevented); t.addEventListener("x", f); t.addEventListener("x", f); t.addEventListener("x", { handleEvent (e) { seen.push("object"); e.preventDefault() } }, { once: true }); const e = new Event("x", { cancelable: true }); const r = [t.dispatchEvent(e), t.dispatchEvent(new Event("x")), e.defaultPrevented]; t.removeEventListener("x", f); t.dispatchEvent(new Event("x")); return [seen, r, e.currentTarget, e.eventPhase]')
  await alike('const t = new EventTarget(); const seen = []; t.addEventListener("x", (e) => { seen.push(1); e.stopImmediatePropagation() }); t.addEventListener("x", () => seen.push(2)); const c = new AbortController(); t.addEventListener("y", () => seen.push(3), { signal: c.signal }); t.dispatchEvent(new Event("x")); c.abort(); t.dispatchEvent(new Event("y")); return seen')
  await alike('const c = new AbortController(); const seen = []; c.signal.onabort = () => seen.push("on"); c.signal.addEventListener("abort", () => seen.push("listener")); c.abort("why"); c.abort("again"); let thrown; try { c.signal.throwIfAborted() } catch (e) { thrown = e } return [seen, c.signal.aborted, c.signal.reason, thrown]')
  await alike('const s = AbortSignal.abort(); return [s.aborted, s.reason.name, s.reason.code, s.reason instanceof DOMException, s.reason instanceof Error, new AbortController().signal.reason]')
  await alike('const c = new AbortController(); const s = AbortSignal.any([new AbortController().signal, c.signal]); const before = s.aborted; c.abort(7); return [before, s.aborted, s.reason, AbortSignal.any([AbortSignal.abort(3)]).reason]')
  await alike('const s = AbortSignal.timeout(2); setTimeout(() => {}, 30); await new Promise((r) => s.addEventListener("abort", r)); return [s.aborted, s.reason.name, s.reason.code]')
  await alike(caught('new AbortSignal()').replace(', e.code', ''))
  await alike('const e = new DOMException("m", "AbortError"); return [e.name, e.message, e.code, String(e), e.ABORT_ERR, DOMException.DATA_CLONE_ERR, new DOMException().name, Object.keys(e)]')
  assert.equal((await fails(makeRealm().evaluate('const t = new EventTarget(); t.addEventListener("x", () => { throw new Error("listener") }); t.dispatchEvent(new Event("x"))'))).message, 'listener')
})

test('Headers', async () => {
  await alike('const h = new Headers({ "X-B": "1", a: " v " }); h.append("x-b", "2"); h.append("Set-Cookie", "c=1"); h.append("set-cookie", "d=2"); h.set("z", 9); h.delete("nope"); return [[...h], h.get("x-b"), h.has("Z"), h.getSetCookie(), [...h.keys()], [...h.values()], h.get("none"), [...new Headers(h)]]')
  await alike('return [[...new Headers([["a", "b"], ["a", "c"]])], [...new Headers()], [...new Headers(new Map([["k", "v"]]))]]')
  for (const bad of ['new Headers({ "a b": "1" })', 'new Headers({ a: "x\\ny" })', 'new Headers({ a: "€" })', 'new Headers([["x"]])', 'new Headers(5)', 'new Headers().append("", "x")']) {
    assert.deepEqual(await run(`let e; try { ${bad} } catch (x) { e = x } export default e instanceof TypeError`), true, bad)
  }
})

test('Response and Request', async () => {
  await alike('const r = new Response("hü", { status: 201, statusText: "Made", headers: { x: "y" } }); const c = r.clone(); return [r.ok, r.status, r.statusText, [...r.headers], r.type, r.url, r.redirected, r.bodyUsed, await r.text(), r.bodyUsed, await c.text()]')
  await alike('return [await new Response(\'{"a":[1]}\').json(), new Uint8Array(await new Response(new Uint8Array([1, 2, 3]).subarray(1)).arrayBuffer()), await new Response(new URLSearchParams("a=b c")).text(), [...new Response(new URLSearchParams()).headers], await new Response(null).text(), [...new Response().headers]]')
  await alike('const r = Response.json({ a: 1 }, { status: 400 }); const d = Response.redirect("http://a/b", 301); const e = Response.error(); return [r.status, [...r.headers], await r.json(), d.status, d.headers.get("location"), e.status, e.type, e.ok]')
  for (const bad of ['new Response("x", { status: 99 })', 'new Response("x", { status: 204 })', 'new Response("x").json()', 'Response.redirect("http://a", 200)', 'Response.json(undefined)', 'Response.error().headers.append("a", "b")', '(async () => { const r = new Response("x"); await r.text(); return r.text() })()', 'new Request("/relative")', 'new Request("http://a", { body: "x" })', 'new Request("http://u:p@a/")', 'new Request("http://a", { method: "TRACE" })', 'new Request("http://a", { method: "b d" })', 'new Request("http://a", { signal: 5 })']) {
    await alike(`try { await (${bad}); return "fine" } catch (e) { return e.name }`)
  }
  await alike('const r = new Request("http://a/b#c", { method: "post", body: "hi", headers: { q: "1" } }); const c = r.clone(); const n = new Request(r, { headers: { z: "2" } }); return [r.method, r.url, [...c.headers], await c.text(), n.method, [...n.headers].filter(([k]) => k === "z"), await n.text(), r.signal.aborted, r.redirect]')
  await alike('const c = new AbortController(); const r = new Request("http://a/", { signal: c.signal, method: "patch" }); c.abort(1); return [r.signal.aborted, r.signal.reason, r.method, r.signal === c.signal]')
  assert.deepEqual(await run('export default [await new Response("ab").bytes(), new Response("ab").body instanceof ReadableStream, new Response().body]'), [new Uint8Array([97, 98]), true, null])
  await alike('const r = new Request("http://a/", { method: "POST", body: "abc" }); const n = new Request(r); return [r.bodyUsed, n.bodyUsed, await n.text()]')
  await alike('const r = new Response("abc"); const reader = r.body.getReader(); const { value, done } = await reader.read(); return [value, done, r.bodyUsed, (await reader.read()).done]')
  await alike('const r = new Response(new ReadableStream({ start (c) { c.enqueue(new Uint8Array([97])); c.close() } })); const c = r.clone(); return [await r.text(), await c.text(), r.bodyUsed]')
  await alike('const r = new Response("x"); r.body.getReader(); try { await r.text(); return "fine" } catch (e) { return e.name }')
  assert.deepEqual(await run('export default await new Response((async function * () { yield "a"; yield new Uint8Array([98]) })()).text()'), 'ab')
})
