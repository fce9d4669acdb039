// The agent over a socket pair, without a box: every shared vector comes back as it went, every invalid one is refused.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { after, before, test } from 'node:test'

const here = new URL('.', import.meta.url)
const vectors = (name) => JSON.parse(readFileSync(new URL(`../../vectors/${name}`, here)))
let agent

// The text form's b64 becomes a range of the attachments, as the engine sends it.
function toFrame (value, attachments) {
  if (Array.isArray(value)) return value.map((item) => toFrame(item, attachments))
  if (value === null || typeof value !== 'object') return value
  if (['bytes', 'buffer', 'array'].includes(value.$) && 'b64' in value) {
    const bytes = Buffer.from(value.b64, 'base64')
    const { b64, ...rest } = value
    const at = attachments.reduce((sum, one) => sum + one.length, 0)
    attachments.push(bytes)
    return { ...rest, at, n: bytes.length }
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toFrame(item, attachments)]))
}

function toText (value, bytes) {
  if (Array.isArray(value)) return value.map((item) => toText(item, bytes))
  if (value === null || typeof value !== 'object') return value
  if (['bytes', 'buffer', 'array'].includes(value.$)) {
    const { at, n, ...rest } = value
    return { ...rest, b64: bytes.subarray(at, at + n).toString('base64') }
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, toText(item, bytes)]))
}

class Agent {
  constructor () {
    const folder = process.env.CLOCHE_AGENT_FOLDER ?? new URL('../../../runtimes/javascript/', here).pathname
    const { agent: [program, ...flags] } = JSON.parse(readFileSync(`${folder}manifest.json`))
    const argv = flags.map((word) => word.replace('/run/cloche/', folder))
    this.process = spawn(program, argv, { stdio: ['ignore', 'ignore', 'inherit', 'pipe'] })
    this.channel = this.process.stdio[3]
    this.have = Buffer.alloc(0)
    this.waiting = []
    this.id = 0
    this.channel.on('data', (data) => {
      this.have = Buffer.concat([this.have, data])
      this.cut()
    })
  }

  cut () {
    while (this.have.length >= 8 && this.have.length >= 4 + this.have.readUInt32LE(0)) {
      const end = 4 + this.have.readUInt32LE(0)
      const jsonEnd = 8 + this.have.readUInt32LE(4)
      const message = JSON.parse(this.have.subarray(8, jsonEnd))
      const attachments = this.have.subarray(jsonEnd, end)
      this.have = this.have.subarray(end)
      this.waiting.shift()({ ...message, attachments })
    }
  }

  call (code, args, more = {}) {
    const attachments = []
    const params = { language: 'javascript', code, filename: 'main.js', function: 'f', args: toFrame(args, attachments), holes: [], kwargs: {}, order: null, resultBytes: 1 << 26, ...more }
    const json = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id: ++this.id, method: 'call', params }))
    const head = Buffer.alloc(8)
    const body = Buffer.concat([json, ...attachments])
    head.writeUInt32LE(4 + body.length, 0)
    head.writeUInt32LE(json.length, 4)
    this.channel.write(Buffer.concat([head, body]))
    return new Promise((resolve) => this.waiting.push(resolve))
  }
}

before(() => { agent = new Agent() })
after(() => agent.process.kill('SIGKILL'))

const IDENTITY = 'function f (x) { return x }'

for (const vector of vectors('values.json')) {
  const refused = vector.unsupported?.includes('javascript')
  test(`${vector.name} ${refused ? 'is refused' : 'comes back'}`, async () => {
    const answer = await agent.call(IDENTITY, [vector.value])
    if (refused) return assert.ok(answer.error)
    assert.equal(answer.error, undefined, JSON.stringify(answer.error))
    assert.deepEqual(toText(answer.result.value, answer.attachments), 'javascript' in vector ? vector.javascript : vector.value)
  })
}

for (const vector of vectors('invalid.json')) {
  test(`${vector.name} is refused and the agent lives`, async () => {
    const answer = await agent.call(IDENTITY, [vector.value])
    assert.ok(answer.error, JSON.stringify(answer.result))
    assert.equal((await agent.call(IDENTITY, [1])).result.value, 1)
  })
}

test('bytes that overlap are refused', async () => {
  const answer = await agent.call(IDENTITY, [{ $: 'bytes', at: 0, n: 2 }, { $: 'bytes', b64: 'AAEC' }])
  assert.match(answer.error.data.message, /share bytes/)
})

const refusals = {
  'a function': ['() => [() => 1]', /^\$\[0\]: function cannot be sent/],
  'a symbol': ['() => ({ a: [Symbol()] })', /^\$\.a\[0\]: symbol cannot be sent: return its description/],
  'a cycle': ['() => { const o = {}; o.self = o; return o }', /^\$\.self: cycle cannot be sent: return a copy without the way back/],
  'a cycle through toJSON': ['() => { const o = { toJSON: () => [o] }; return o }', /^\$\[0\]: cycle cannot be sent/],
  'a toJSON without end': ['() => { class D { toJSON () { return { d: new D() } } } return new D() }', /^\$(\.d)+…(\.d)+: nested deeper than 200: return it as text \(JSON\.stringify\), or as a flat list/],
  'a long path, which is shortened': ['() => { let v = []; for (let i = 1; i < 201; i++) v = { items: v }; return { first: v } }', /^\$\.first\.items[.a-z]{50,}…[.a-z]{50,}\.items: nested deeper than 200/],
  'its place': ['\n(() => [() => 1])', /^\$\[0\]: function cannot be sent: call it and return what it gives, or leave it out; returned by f \(main\.js, line 2\)$/],
  'a promise inside': ['() => [Promise.resolve(1)]', /^\$\[0\]: promise that is not awaited cannot be sent/],
  'an iterator without end': ['() => ({ n: (function * () { for (;;) yield 1 })() })', /^\$\.n: iterator of more than 1000000 items cannot be sent/],
  'an asynchronous iterator inside': ['() => [(async function * () { yield 1 })()]', /^\$\[0\]: asynchronous iterator inside a value cannot be sent/],
  'a date in the year 0': ['() => new Date("0000-12-31T23:59:59Z")', /^\$: date outside the years 1 to 9999 cannot be sent: return its getTime\(\)/],
  'a revoked proxy': ['() => { const { proxy, revoke } = Proxy.revocable({}, {}); revoke(); return proxy }', /revoked/]
}
for (const [name, [code, message]] of Object.entries(refusals)) {
  test(`${name} is refused by its path`, async () => {
    const answer = await agent.call(`const f = ${code}`, [])
    assert.equal(answer.error.data.type, 'TypeError')
    assert.match(answer.error.data.message, message)
  })
}

const evident = {
  'a regular expression': ['[/a.b/gi]', [{ $: 'regexp', source: 'a.b', flags: 'gi' }]],
  'iterators': ['[new Map([[1, 2]]).entries(), new Set([3]).values(), [4].values(), (function * () { yield 5 })()]', [[[1, 2]], [3], [4], [5]]],
  'class instances': ['[new (class A { a = 1; #b = 2; get c () { return 3 } })()]', [{ a: 1 }]],
  'classes that say what they are': ['[new URL("http://x/y"), new URLSearchParams("a=1"), new (class { #v = 7; toJSON () { return { v: this.#v } } })()]', ['http://x/y', [['a', '1']], { v: 7 }]],
  'a class that can be iterated': ['new (class { #items = [1, 2]; [Symbol.iterator] () { return this.#items.values() } })()', [1, 2]],
  'errors': ['[new RangeError("r"), Object.assign(new Error("m"), { code: 7 })]', [{ name: 'RangeError', message: 'r' }, { name: 'Error', message: 'm', code: 7 }]],
  'objects with a toJSON': ['[{ a: 1, toJSON () { return { b: this.a } } }, new (class M { n = 5; toJSON () { return `${this.n} EUR` } })(), Object.assign([1], { toJSON: () => "list" })]', [{ b: 1 }, '5 EUR', 'list']],
  'a toJSON that is given its key': ['({ k: { toJSON: (key) => key }, l: [{ toJSON: (key) => key + typeof key }] })', { k: 'k', l: ['0string'] }],
  'a toJSON that gives its object, or another with one': ['[{ a: 1, toJSON () { return this } }, { toJSON: () => ({ b: 2, toJSON: () => 3 }) }, { toJSON: () => new Set([1]) }]', [{ a: 1 }, { b: 2 }, { $: 'set', v: [1] }]],
  'errors with a toJSON': ['Object.assign(new Error("m"), { toJSON: () => ({ status: 404 }) })', { status: 404 }],
  'a toJSON of what has a kind': ['[Object.assign(new Set([1]), { toJSON: () => 1 }), Object.assign(new Date(0), { toJSON: () => 1 })]', [{ $: 'set', v: [1] }, { $: 'date', v: '1970-01-01T00:00:00.000Z' }]],
  'a toJSON that is data': ['({ toJSON: 1 })', { toJSON: 1 }],
  'members that are no data': ['[{ a: 1, f () {}, g: () => 1, s: Symbol() }, new (class { n = 1; f = () => this.n })()]', [{ a: 1 }, { n: 1 }]],
  'proxies': ['[new Proxy({ a: 1 }, {}), new Proxy([1, 2], {}), new Proxy({ a: 1 }, { get: (o, k) => k === "toJSON" ? undefined : o[k] * 2 }), new Proxy({}, { ownKeys: () => ["x"], getOwnPropertyDescriptor: () => ({ value: 7, enumerable: true, configurable: true }), get: (o, k) => k === "x" ? 7 : undefined })]', [{ a: 1 }, [1, 2], { a: 2 }, { x: 7 }]],
  'empty objects, whatever is on their prototype': ['(Object.prototype.toJSON = Object.prototype.next = () => 1, [{}])', [{}]]
}
for (const [name, [expression, expected]] of Object.entries(evident)) {
  test(`the evident form of ${name}`, async () => {
    const answer = await agent.call(`const f = () => (${expression})`, [])
    assert.deepEqual(answer.result?.value, expected, JSON.stringify(answer.error))
  })
}

test('a result over its limit is refused', async () => {
  const answer = await agent.call('const f = () => "x".repeat(1000)', [], { resultBytes: 100 })
  assert.equal(answer.error.data.type, 'RangeError')
})

test('what user code does to built-ins does not reach the channel', async () => {
  const code = `function f (x) {
    JSON.stringify = JSON.parse = () => { throw new Error('mine') }
    Array.prototype.push = Array.prototype.map = Object.keys = Map.prototype.forEach = () => 'mine'
    Object.prototype.toJSON = () => 'mine'
    Buffer.concat = TextEncoder.prototype.encode = () => 'mine'
    return { x, m: [1, 2] }
  }`
  const own = new Agent()
  try {
    assert.deepEqual((await own.call(code, [5])).result.value, { x: 5, m: [1, 2] })
  } finally {
    own.process.kill('SIGKILL')
  }
})

test('the stack is in the coordinates of the user', async () => {
  const answer = await agent.call('function f () {\n  throw new RangeError("bad")\n}', [])
  assert.match(answer.error.data.stack, /^RangeError: bad\n {4}at f \(main\.js:2:9\)$/)
})
