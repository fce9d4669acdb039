// values.cjs with references, without an agent around it: in a realm of its own, as the agent has it.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import util from 'node:util'
import vm from 'node:vm'

const here = new URL('.', import.meta.url)
const vectors = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}`, here)))

const host = {
  Array, ArrayBuffer, BigInt, DataView, Date, Error, Map, Object, RegExp, Set, Uint8Array,
  TypeError, RangeError, ReferenceError, SyntaxError, EvalError, URIError, AggregateError,
  typed: {
    i8: Int8Array, u8: Uint8Array, u8c: Uint8ClampedArray, i16: Int16Array, u16: Uint16Array, i32: Int32Array,
    u32: Uint32Array, i64: BigInt64Array, u64: BigUint64Array, f32: Float32Array, f64: Float64Array
  },
  types: { ...util.types }
}
function load (more = {}) {
  const parsingContext = vm.createContext(Object.create(null))
  const compile = (name, params) => {
    const file = new URL(`../../../runtimes/javascript/${name}`, here)
    return vm.compileFunction(readFileSync(file, 'utf8'), params, { filename: file.pathname, parsingContext })
  }
  const wire = {}
  compile('wire.cjs', ['module'])(wire)
  return compile('values.cjs', ['host', 'makeWire'])({ ...host, ...more }, wire.exports)
}
const values = load()

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

function decode (value, from = values) {
  const bytes = []
  const framed = toFrame(value, bytes)
  return from.decode(framed, Uint8Array.from(bytes))
}
function encode (value, from = values) {
  const { value: sent, attachments } = from.encode(value, 1 << 26, true)
  return toText(JSON.parse(JSON.stringify(sent)), Buffer.concat(attachments))
}
const again = (value, from) => decode(encode(value, from), from)

for (const vector of vectors('rich.json')) {
  const refused = vector.unsupported?.includes('javascript')
  test(`${vector.name} ${refused ? 'is refused' : 'comes back'}`, () => {
    if (refused) return assert.throws(() => decode(vector.value), /^TypeError: \$/)
    assert.deepEqual(encode(decode(vector.value)), 'javascript' in vector ? vector.javascript : vector.value)
  })
}

for (const file of ['invalid.json', 'invalid-rich.json']) {
  for (const vector of vectors(file)) {
    // Over the agent, the arguments are a container around it.
    test(`${file}: ${vector.name} is refused`, () => assert.throws(() => values.decode(vector.value, new Uint8Array(0)), /^TypeError: \$/))
  }
}

for (const vector of vectors('values.json')) {
  if (vector.unsupported?.includes('javascript')) continue
  test(`without references nothing changes: ${vector.name}`, () => {
    const { value, attachments } = values.encode(decode(vector.value), 1 << 26)
    assert.deepEqual(toText(JSON.parse(JSON.stringify(value)), Buffer.concat(attachments)), 'javascript' in vector ? vector.javascript : vector.value)
  })
}

test('identity', () => {
  const shared = { a: 1 }
  const value = { list: [shared, shared], map: new Map([[shared, new Set([shared])]]) }
  value.self = value
  value.map.set('map', value.map)
  const back = again(value)
  assert.equal(back.self, back)
  assert.equal(back.list[0], back.list[1])
  assert.equal(back.map.get('map'), back.map)
  assert.ok(back.map.get(back.list[0]).has(back.list[0]))
})

test('without references shared values are copied, and cycles refused', () => {
  const shared = [1]
  assert.deepEqual(JSON.parse(JSON.stringify(values.encode([shared, shared], 1000).value)), [[1], [1]])
  shared.push(shared)
  assert.throws(() => values.encode(shared, 1000), /^TypeError: \$\[1\]: cycle cannot be sent/)
  assert.equal(values.encode(new ArrayBuffer(1), 1000).value.$, 'bytes')
})

test('errors are errors of the host', () => {
  for (const name of ['Error', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'EvalError', 'URIError', 'AggregateError']) {
    const error = name === 'AggregateError' ? new AggregateError([], 'no') : new globalThis[name]('no')
    const back = again(error)
    assert.ok(back instanceof globalThis[name])
    assert.deepEqual([back.constructor.name, back.name, back.message, back.stack], [name, name, 'no', error.stack])
    assert.deepEqual(Object.keys(back), [])
  }
  class HttpError extends Error {
    constructor () {
      super('gone')
      this.name = 'HttpError'
      this.status = 410
      this.cause = new TypeError('why')
    }
  }
  const back = again(new HttpError())
  assert.deepEqual([back.constructor, back.name, back.status, back.cause.constructor], [Error, 'HttpError', 410, TypeError])
  assert.ok(!Object.hasOwn(Object.getOwnPropertyDescriptor(back, 'name'), 'get') && util.types.isNativeError(back))
})

test('fields of an error do not reach what it is', () => {
  const fields = { ['__proto__']: { polluted: 1 }, name: 'x', message: 'y', stack: 'z', constructor: 1 }
  const back = decode({ $: 'error', v: { name: 'TypeError', message: 'm', stack: 's', fields } })
  assert.equal(Object.getPrototypeOf(back), TypeError.prototype)
  assert.deepEqual([back.name, back.message, back.stack, back.polluted, Object.keys(back)], ['TypeError', 'm', 's', undefined, ['constructor']])
})

test('an error of a class this host lacks is an Error', () => {
  const back = decode({ $: 'error', v: { name: 'URIError', message: 'm' } }, load({ URIError: undefined }))
  assert.deepEqual([back.constructor, back.name], [Error, 'URIError'])
})

test('regular expressions', () => {
  for (const one of [/x/, /a(?<n>b)\/\n/dgimsuy, /[\p{L}--[a-z]]/v, new RegExp('')]) {
    const back = again(one)
    assert.ok(back instanceof RegExp)
    assert.deepEqual([back.source, back.flags, back.lastIndex], [one.source, one.flags, 0])
  }
  const lying = Object.defineProperty(/x/g, 'flags', { get () { throw new Error('asked') } })
  assert.equal(again(lying).flags, 'g')
  assert.throws(() => decode([{ $: 'regexp', source: 'x', flags: 'uv' }]), /^TypeError: \$\[0\]: Invalid flags/)
  assert.throws(() => decode({ $: 'regexp', source: 'x', flags: '' }, load({ RegExp: undefined })), /^TypeError: \$: host\.RegExp is not a constructor/)
})

test('bytes of every kind', () => {
  const buffer = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8).buffer
  assert.ok(again(buffer) instanceof ArrayBuffer)
  assert.deepEqual([...new Uint8Array(again(buffer))], [1, 2, 3, 4, 5, 6, 7, 8])
  assert.deepEqual(again(new DataView(buffer, 2, 3)), new DataView(Uint8Array.of(3, 4, 5).buffer))
  for (const name of ['Float32Array', 'Float64Array', 'BigInt64Array', 'BigUint64Array', 'Uint8ClampedArray', 'Uint8Array', 'Int16Array']) {
    const one = new globalThis[name](buffer)
    assert.deepEqual(again(one), one)
  }
})

test('what is easily lost', () => {
  assert.ok(Object.is(again([-0])[0], -0))
  const sparse = [, 1] // eslint-disable-line no-sparse-arrays
  assert.deepEqual([again(sparse).length, 0 in again(sparse), again(sparse)[0]], [2, false, undefined])
  assert.deepEqual(again([Object(1), Object('a'), Object(true), Object(5n)]), [1, 'a', true, 5n])
  assert.ok(Number.isNaN(again(new Date(NaN)).getTime()))
  const back = again(JSON.parse('{"__proto__":{"a":1}}'))
  assert.deepEqual([Object.keys(back), Object.getPrototypeOf(back)], [['__proto__'], Object.prototype])
  assert.deepEqual(again({ 'a\0': 1, $: { '\0': 2 } }), { 'a\0': 1, $: { '\0': 2 } })
  class Point { x = 1; get y () { return 2 } }
  assert.deepEqual(again(new Point()), { x: 1 })
})

test('views of one buffer stay that', () => {
  const buffer = Uint8Array.of(1, 2, 3, 4, 5, 6, 7, 8).buffer
  const [bytes, words, view, far] = again([new Uint8Array(buffer, 1, 4), new Uint16Array(buffer, 2, 1), new DataView(buffer, 3, 2), new Uint8Array(buffer, 7)])
  assert.deepEqual([bytes.buffer === words.buffer, words.buffer === view.buffer, far.buffer === bytes.buffer], [true, true, false])
  assert.deepEqual([[...bytes], words.length, view.byteLength, [...far]], [[2, 3, 4, 5], 1, 2, [8]])
  const [whole, again2, one] = again([buffer, buffer, new BigInt64Array(buffer)])
  assert.deepEqual([whole === again2, one.buffer === whole], [true, true])
  const twice = new Float32Array([1])
  const back = again([twice, twice])
  assert.equal(back[0], back[1])
  for (const bad of [['Uint8Array', 1, 0, 1], ['Nothing', { $: 'buffer', b64: '' }, 0, 0], ['Uint32Array', { $: 'buffer', b64: 'AAAA' }, 0, 8], ['Uint8Array', { $: 'buffer', b64: 'AAAA' }, -1, 1], 'x']) {
    assert.throws(() => decode({ $: 'class', t: 'View', v: bad }), /^TypeError: \$/)
  }
})

test('strings that are not Unicode', () => {
  const half = 'a\ud83d'
  for (const value of [half, { [half]: half }, new Map([[half, 1]]), 'x\udc00'.repeat(1000)]) assert.deepEqual(again(value), value)
  assert.deepEqual(encode(half), { $: 'utf16', b64: 'YQA92A==' })
  assert.equal(again(new Error(half)).message, half)
})

const refusals = {
  'a function': [{ a: [() => 1] }, /^TypeError: \$\.a\[0\]: function cannot be sent/],
  'a symbol': [[Symbol('x')], /^TypeError: \$\[0\]: symbol cannot be sent/],
  'a boxed symbol': [[Object(Symbol('x'))], /^TypeError: \$\[0\]: symbol cannot be sent/],
  'a function in an error': [Object.assign(new Error('x'), { f () {} }), /^TypeError: \$\.f: function cannot be sent/],
  'a promise': [Promise.resolve(), /^TypeError: \$: promise that is not awaited cannot be sent/],
  'a proxy': [{ p: new Proxy({}, {}) }, /^TypeError: \$\.p: proxy cannot be sent/]
}
for (const [name, [value, message]] of Object.entries(refusals)) test(`${name} is refused by its path`, () => assert.throws(() => encode(value), message))

const classes = {
  encodeClass: (value) => value instanceof URL ? { t: 'URL', v: value.href } : value instanceof Headers ? { t: 'Headers', v: [...value] } : undefined,
  classes: { URL: (text) => new URL(text), Headers: (pairs) => new Headers(pairs) }
}
test('classes go through the tables of the host', () => {
  const rich = load(classes)
  const url = new URL('https://example.org/a?b')
  const back = again({ url, same: url, headers: new Headers({ a: 'b' }), plain: [1] }, rich)
  assert.ok(back.url instanceof URL && back.headers instanceof Headers)
  assert.equal(back.same, back.url)
  assert.deepEqual([back.url.href, back.headers.get('a'), back.plain], [url.href, 'b', [1]])
  assert.equal(again(url, load({ encodeClass: classes.encodeClass })), url.href)
  assert.deepEqual(JSON.parse(JSON.stringify(rich.encode(new Headers(), 100).value)), [])
  assert.throws(() => decode([{ $: 'class', t: 'URL', v: 'no' }], rich), /^TypeError: \$\[0\]: Invalid URL/)
  assert.throws(() => encode(url, load({ encodeClass: () => ({ t: 'a b', v: 1 }) })), /^TypeError: \$: a class has a name/)
  const throwing = load({ encodeClass: (value) => { if (value === url) throw new TypeError('read before') } })
  assert.throws(() => encode({ a: url }, throwing), /^TypeError: \$\.a: read before/)
  const knot = new URL('https://example.org')
  assert.throws(() => encode([knot], load({ encodeClass: (value) => value === knot ? { t: 'URL', v: [knot] } : undefined })), /^TypeError: \$\[0\]\[0\]: cycle through a class/)
})

test('values of one frame may not share bytes', () => {
  const bytes = Uint8Array.of(1, 2, 3, 4)
  const ranges = []
  values.decode({ $: 'bytes', at: 0, n: 2 }, bytes, ranges)
  values.decode([{ $: 'bytes', at: 2, n: 2 }, { $: 'bytes', at: 1, n: 0 }], bytes, ranges)
  assert.throws(() => values.decode({ $: 'bytes', at: 3, n: 1 }, bytes, ranges), /share bytes/)
})

test('the bottom of 200 containers may be any leaf, and no container', () => {
  const nest = (inner, depth) => depth ? [nest(inner, depth - 1)] : inner
  for (const leaf of [{ $: 'undefined' }, { $: 'bytes', b64: '' }, { $: 'ref', n: 0 }, { $: 'date', v: null }]) decode(nest(leaf, 200))
  for (const inner of [[], {}, { $: 'set', v: [] }, { $: 'class', t: 'A', v: 1 }, { $: 'error', v: { name: '', message: '' } }]) {
    assert.throws(() => decode(nest(inner, 200)), /nested deeper than 200/)
  }
})
