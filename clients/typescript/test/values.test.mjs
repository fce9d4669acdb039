// The vectors all languages share, and what the client adds: classes of the Web, stacks that stay here.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readBody } from '../dist/internal/classes.js'
import { Incoming } from '../dist/internal/decode.js'
import { Attachments, encode } from '../dist/internal/encode.js'

const vectors = (name) => JSON.parse(readFileSync(new URL(`../../../tests/vectors/${name}`, import.meta.url)))
const TEXTED = ['bytes', 'buffer', 'array', 'utf16']

function toFrame (value, bytes) {
  if (Array.isArray(value)) return value.map((item) => toFrame(item, bytes))
  if (value === null || typeof value !== 'object') return value
  if (TEXTED.includes(value.$) && 'b64' in value) {
    const { b64, ...rest } = value
    const at = bytes.length
    bytes.push(...Buffer.from(b64, 'base64'))
    return { ...rest, at, n: bytes.length - at }
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toFrame(item, bytes)]))
}
function toText (value, bytes) {
  if (Array.isArray(value)) return value.map((item) => toText(item, bytes))
  if (value === null || typeof value !== 'object') return value
  if (TEXTED.includes(value.$)) {
    const { at, n, ...rest } = value
    return { ...rest, b64: bytes.subarray(at, at + n).toString('base64') }
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toText(item, bytes)]))
}
function decode (value) {
  const bytes = []
  const framed = toFrame(value, bytes)
  return new Incoming(Uint8Array.from(bytes)).decode(framed)
}
function sent (value, options) {
  const attachments = new Attachments()
  const encoded = JSON.parse(JSON.stringify(encode(value, attachments, options)))
  return toText(encoded, Buffer.concat(attachments.parts))
}
const again = (value, options = { references: true }) => decode(sent(value, options))

for (const vector of vectors('values.json')) {
  const refused = vector.unsupported?.includes('javascript')
  test(`${vector.name} ${refused ? 'is refused' : 'comes back'}`, () => {
    if (refused) return assert.throws(() => sent(decode(vector.value)), TypeError)
    assert.deepEqual(sent(decode(vector.value)), 'javascript' in vector ? vector.javascript : vector.value)
  })
}
for (const vector of vectors('rich.json')) {
  // A URL is one here (see below), where the bare vectors know of no class.
  if (vector.name === 'class') continue
  const refused = vector.unsupported?.includes('javascript')
  test(`rich: ${vector.name} ${refused ? 'is refused' : 'comes back'}`, () => {
    if (refused) return assert.throws(() => decode(vector.value), /^TypeError: \$/)
    assert.deepEqual(sent(decode(vector.value), { references: true, stacks: true }), 'javascript' in vector ? vector.javascript : vector.value)
  })
}
for (const file of ['invalid.json', 'invalid-rich.json']) {
  for (const vector of vectors(file)) {
    test(`${file}: ${vector.name} is refused`, () => assert.throws(() => new Incoming(new Uint8Array(0)).decode(vector.value), /^TypeError: \$/))
  }
}

test('values of one frame may not share bytes', () => {
  const incoming = new Incoming(Uint8Array.of(1, 2, 3))
  assert.deepEqual([...incoming.decode({ $: 'bytes', at: 0, n: 2 })], [1, 2])
  assert.throws(() => incoming.decode({ $: 'bytes', at: 1, n: 2 }), /share bytes/)
})

test('bytes are copied on the way out and in', () => {
  const bytes = Uint8Array.of(1, 2)
  const attachments = new Attachments()
  encode([bytes], attachments)
  bytes[0] = 9
  assert.deepEqual([...attachments.parts[0]], [1, 2])
})

test('identity and cycles cross with references only', () => {
  const shared = { a: 1 }
  const value = { list: [shared, shared], map: new Map([[shared, new Set([shared])]]) }
  value.self = value
  const back = again(value)
  assert.equal(back.self, back)
  assert.equal(back.list[0], back.list[1])
  assert.ok(back.map.get(back.list[0]).has(back.list[0]))
  assert.throws(() => sent(value), /^TypeError: \$\.self: cycle cannot be sent/)
})

test('an error of the host is sent without its stack', () => {
  const error = Object.assign(new RangeError('no'), { status: 4 })
  assert.deepEqual(sent(error, { references: true }), { $: 'error', v: { name: 'RangeError', message: 'no', fields: { status: 4 } } })
  const back = again(error)
  assert.ok(back instanceof RangeError)
  assert.equal(back.stack, 'RangeError: no')
})

test('no key is a setter', () => {
  const back = again(JSON.parse('{"__proto__": {"polluted": 1}, "a": 1}'))
  assert.deepEqual(Object.keys(back), ['__proto__', 'a'])
  assert.equal(back.polluted, undefined)
  assert.equal({}.polluted, undefined)
})

test('Headers, URL, Request and Response are real on both sides', async () => {
  const request = new Request('https://example.org/x', { method: 'POST', body: 'hello', headers: { a: 'b' } })
  const response = new Response(Uint8Array.of(1, 2), { status: 201, headers: { 'x-y': 'z' } })
  await readBody(request)
  await readBody(response)
  const back = again({ url: new URL('https://example.org/?q'), headers: new Headers({ a: 'b' }), request, response })
  assert.equal(back.url.href, 'https://example.org/?q')
  assert.equal(back.headers.get('a'), 'b')
  assert.deepEqual([back.request.method, back.request.headers.get('a'), await back.request.text()], ['POST', 'b', 'hello'])
  assert.deepEqual([back.response.status, back.response.headers.get('x-y'), new Uint8Array(await back.response.arrayBuffer())], [201, 'z', Uint8Array.of(1, 2)])
  assert.equal(await request.text(), 'hello')
})

const refusals = {
  'a function': [[() => 1], /^\$\[0\]: function cannot be sent/],
  'a symbol': [{ a: Symbol('x') }, /^\$\.a: symbol cannot be sent/],
  'a promise': [[Promise.resolve(1)], /^\$\[0\]: promise that is not awaited cannot be sent/],
  'a weak map': [{ 'a b': new WeakMap() }, /^\$\["a b"\]: weak map cannot be sent/],
  'a proxy': [new Proxy({}, {}), /proxy cannot be sent/],
  'a stream': [{ s: new ReadableStream() }, /^\$\.s: ReadableStream cannot be sent/],
  'a date far away': [new Date(8.64e15), /outside the years/],
  'a date in the year 0': [new Date('0000-12-31T23:59:59Z'), /outside the years 1 to 9999/]
}
for (const [name, [value, message]] of Object.entries(refusals)) {
  test(`${name} is refused by its path`, () => assert.throws(() => sent(value, { references: true }), { name: 'TypeError', message }))
}

test('strings that are not Unicode go as UTF-16, wherever a string may be', () => {
  const half = 'a\ud83d'
  assert.deepEqual(sent(half), { $: 'utf16', b64: Buffer.from(half, 'utf16le').toString('base64') })
  assert.deepEqual(sent({ [half]: 1 }), { $: 'object', v: [[{ $: 'utf16', b64: 'YQA92A==' }, 1]] })
  for (const value of [half, [half, '\udc00'], { [half]: half, $: 1 }, new Map([[half, half]]), new Set([half]), 'pair \u{1f600} and \ud83d'.repeat(1000)]) assert.deepEqual(again(value), value)
  const error = again(Object.assign(new TypeError(half), { field: half }))
  assert.deepEqual([error.message, error.field, error instanceof TypeError], [half, half, true])
  assert.throws(() => decode({ $: 'utf16', b64: 'YQA9' }), /whole number/)
  assert.throws(() => decode({ $: 'object', v: [[{ $: 'utf16', b64: 'YQA92A==' }, 1], [{ $: 'utf16', b64: 'YQA92A==' }, 2]] }), /each once/)
  assert.throws(() => decode({ $: 'object', v: [[{ $: 'bytes', b64: 'YQA92A==' }, 1]] }), /must be strings/)
})

test('holes stay holes, a DataView one', () => {
  const holes = [1, , undefined, 3]
  holes.length = 6
  assert.deepEqual(again(holes), holes)
  assert.deepEqual([1 in again(holes), 2 in again(holes), again(holes).length], [false, true, 6])
  const view = again(new DataView(Uint8Array.of(1, 2, 3).buffer, 1))
  assert.deepEqual([view instanceof DataView, view.byteLength, view.getUint8(0)], [true, 2, 2])
})

test('views of one buffer stay that where it is asked for, and nothing between their windows goes along', () => {
  const options = { references: true, views: true }
  const buffer = new ArrayBuffer(32)
  new Uint8Array(buffer).set([...'0123456789abcdefghijklmnopqrstuv'].map((letter) => letter.charCodeAt(0)))
  const [bytes, words, far] = again([new Uint8Array(buffer, 3, 9), new Uint16Array(buffer, 4, 3), new Uint8Array(buffer, 20, 4)], options)
  assert.equal(bytes.buffer, words.buffer)
  assert.notEqual(bytes.buffer, far.buffer)
  assert.equal(Buffer.from(bytes).toString() + Buffer.from(far).toString(), '3456789abklmn')
  bytes[1] = 255
  assert.equal(words[0] & 255, 255)
  assert.ok(!Buffer.from(bytes.buffer).toString('latin1').match(/[0-2c-j]/))
  const [whole, view, again1] = again([buffer, new DataView(buffer, 8), buffer], options)
  assert.deepEqual([whole === again1, view.buffer === whole, whole.byteLength], [true, true, 32])
  const twice = new Float64Array([1])
  const [one, other] = again([twice, twice], options)
  assert.equal(one, other)
  assert.notEqual(again([twice, twice])[0], again([twice, twice])[1])
  for (const bad of [['Uint8Array', 1, 0, 1], ['Nothing', { $: 'buffer', b64: '' }, 0, 0], ['Uint32Array', { $: 'buffer', b64: 'AAAA' }, 0, 8], 'x']) {
    assert.throws(() => decode({ $: 'class', t: 'View', v: bad }), /^TypeError: \$/)
  }
})

test('depth and size are bounded', () => {
  let deep = []
  for (let i = 0; i < 199; i++) deep = [deep]
  assert.ok(sent(deep))
  assert.throws(() => sent([deep]), /nested deeper than 200/)
  assert.throws(() => sent('x'.repeat(100), { limit: 50 }), RangeError)
})

test('as JSON: what a value is when its receiver knows JSON only', () => {
  const json = (value) => {
    const bytes = []
    const framed = toFrame(value, bytes)
    return new Incoming(Uint8Array.from(bytes)).decodeJson(framed)
  }
  const cases = [
    [{ $: 'map', v: [[1, 'a'], [{ $: 'number', v: 'NaN' }, 'b'], [true, 'c'], [null, 'd'], [[1, 2], 'e'], ['x', { $: 'undefined' }]] }, { 1: 'a', null: 'd', true: 'c', '[1,2]': 'e' }],
    [{ $: 'set', v: [3, { $: 'set', v: [1] }] }, [3, [1]]],
    [{ $: 'bigint', v: '9007199254740993' }, 9007199254740992],
    [[{ $: 'number', v: 'NaN' }, { $: 'number', v: '-Infinity' }], [null, null]],
    [[{ $: 'undefined' }], [null]],
    [{ a: { $: 'undefined' }, b: 1 }, { b: 1 }],
    [{ $: 'undefined' }, undefined],
    [{ $: 'bytes', b64: 'AP8=' }, 'AP8='],
    [{ $: 'buffer', b64: 'AP8=' }, 'AP8='],
    [{ $: 'array', t: 'u8', b64: 'AP8=' }, [0, 255]],
    [{ $: 'array', t: 'i64', b64: '/////////38=' }, [9223372036854775807]],
    [{ $: 'array', t: 'f32', b64: 'AADAfw==' }, [null]],
    [{ $: 'date', v: '2026-11-21' }, '2026-11-21'],
    [{ $: 'date', v: '2026-11-21T10:20:30.123456+02:00' }, '2026-11-21T10:20:30.123456+02:00'],
    [{ $: 'date', v: null }, null],
    [{ $: 'regexp', source: 'a/b', flags: 'gi' }, '/a\\/b/gi'],
    [{ $: 'error', v: { name: 'KeyError', message: 'k', stack: 's', fields: { code: { $: 'bigint', v: '7' } } } }, { name: 'KeyError', message: 'k', code: 7 }],
    [{ $: 'class', t: 'URL', v: 'http://x/' }, 'http://x/'],
    [{ $: 'object', v: [['$', 1], ['__proto__', 2]] }, JSON.parse('{"$":1,"__proto__":2}')],
    [[{ $: 'map', v: [[1, 2]] }, { $: 'ref', n: 1 }], [{ 1: 2 }, { 1: 2 }]]
  ]
  for (const [wire, expected] of cases) assert.deepEqual(json(wire), expected, JSON.stringify(wire))
  for (const bad of [{ $: 'bigint', v: 'x' }, { $: 'date', v: 'today' }, { $: 'set', v: 1 }, { $: 'map', v: [[1]] }, { $: 'set', v: [], more: 1 }]) assert.throws(() => json(bad), TypeError, JSON.stringify(bad))
})
