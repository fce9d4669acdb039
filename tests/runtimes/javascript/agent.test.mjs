// The agent's methods over its channel, without a box.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { startAgent } from './agent-harness.mjs'

const fn = { kind: 'function' }
const value = (v) => ({ kind: 'value', value: v })
async function withAgent (options, work) {
  const agent = startAgent(options)
  try {
    return await work(agent)
  } finally {
    agent.stop()
  }
}

test('call: what the host declares', () => withAgent({}, async ({ call, asked }) => {
  const globals = {
    add: fn, LIMIT: value(7), deep: { kind: 'object', members: { er: { kind: 'object', members: { call: fn } } } },
    made: { kind: 'expression', text: '[1, 2].map((x) => x * 2)' }, shimmed: { kind: 'shim', text: '(args) => args.length' }, hidden: { ...value(1), enumerable: false }
  }
  const imports = { db: { members: { users: { kind: 'object', members: { create: fn } }, pi: value(3) } }, own: { source: 'import { pi } from "db"; export const twice = pi * 2' } }
  const code = `async function main () {
    const p = add(1, { a: [2] })
    const { users } = await import('db')
    return [p instanceof Promise, await p, LIMIT, await deep.er.call(), made, await shimmed(1, 2), await users.create('x'), require('db').pi, require('own').twice,
      (await import('own')).twice, Object.keys(globalThis).includes('hidden'), add.name]
  }`
  assert.deepEqual(await call(code, { globals, imports }), [true, [1, { a: [2] }], 7, [], [2, 4], 2, ['x'], 3, 6, 6, false, 'add'])
  assert.deepEqual(asked, ['global/add', 'global/deep/er/call', 'global/shimmed', 'import/db/users/create'])
  assert.deepEqual(await call("import { users } from 'db'\nexport default async () => await users.create(1)"), [1])
}))

test('call: several questions at once, answered in another order', () => {
  const waiting = []
  const bridge = ({ args: [count, number] }) => new Promise((resolve) => {
    waiting.push(() => resolve({ value: number }))
    if (waiting.length === count) setImmediate(() => { while (waiting.length > 0) waiting.pop()() })
  })
  return withAgent({ bridge }, async ({ call }) => {
    const globals = { wait: fn }
    const code = 'async () => 0; async function main () { const seen = []; await Promise.all([3, 2, 1].map((i) => wait(3, i).then((got) => seen.push(got)))); return seen }'
    assert.deepEqual(await call(code, { globals, function: 'main' }), [1, 2, 3])
    assert.equal(await call('async function main () { await new Promise((r) => setTimeout(r, 5)); return wait(1, 1) }'), 1)
  })
})

test('call: bytes both ways, larger than a socket holds', () => {
  const bridge = ({ args: [bytes] }, attachments) => ({ value: bytes, attachments: [attachments.subarray(bytes.at, bytes.at + bytes.n)] })
  return withAgent({ bridge }, async ({ call }) => {
    const code = 'async function main () { const back = await echo(new Uint8Array(3e6).fill(7)); return [back instanceof Uint8Array, back.length, back.every((b) => b === 7)] }'
    assert.deepEqual(await call(code, { globals: { echo: fn } }), [true, 3e6, true])
  })
})

test('call: the host\'s errors, and arguments that cannot be sent', () => {
  const bridge = () => { throw { name: 'RangeError', message: 'too far', fields: { status: 404 } } } // eslint-disable-line no-throw-literal
  return withAgent({ bridge }, async ({ call, fails }) => {
    const globals = { boom: fn }
    const code = 'async function main () { try { await boom() } catch (e) { return [e instanceof RangeError, e.name, e.message, e.status] } }'
    assert.deepEqual(await call(code, { globals }), [true, 'RangeError', 'too far', 404])
    assert.deepEqual((await fails(call('async function main () { await boom() }'))).data.type, 'RangeError')
    assert.match((await fails(call('async function main () { await boom(() => 1) }'))).message, /function cannot be sent/)
  })
})

test('call: what user code does to built-in classes is not seen on the channel', () => withAgent({}, async ({ call, asked }) => {
  const code = `async function main () {
    Object.prototype.toJSON = Array.prototype.toJSON = () => 'mine'
    Array.prototype[Symbol.iterator] = () => { throw new Error('no') }
    return (await add('x')).length
  }`
  assert.equal(await call(code, { globals: { add: fn } }), 1)
  assert.deepEqual(asked, ['global/add'])
}))

test('call: what is not closed is told at the user\'s last line, in the user\'s text', async () => {
  const end = 'Unexpected end of input'
  const failures = [
    ['function f( {', 1, end], ['function f() {\n  return [1, 2', 2, end], ['return (', 1, end], ['return 1 }', 1, "Unexpected token '}'"],
    ['return 1 })', 1, "Unexpected token '}'"], ['await g(', 1, end], ['const a = await 1\nreturn (', 2, end], ['exports.f = (', 1, end], ['let x = `abc', 1, end],
    ['await 1 2', 1, 'Unexpected number'], ['let x\nlet x', 2, "Identifier 'x' has already been declared"]
  ]
  const asked = [...failures.map(([code, ...rest]) => [(agent) => agent.call(code), code, ...rest]), ...['f(', 'await f(', 'await 1\nf({'].map((code) => [
    (agent) => agent.prepare(code), code, code.split('\n').length, end])]
  for (const [ask, code, line, message] of asked) {
    await withAgent({}, async (agent) => {
      const { data } = await agent.fails(ask(agent))
      assert.deepEqual([data.type, data.message], ['SyntaxError', message], code)
      assert.match(data.stack, new RegExp(`^\\w+\\.js:${line}\n`), code)
      assert.equal(data.stack.split('\n')[1], code.split('\n')[line - 1], code)
    })
  }
  await withAgent({}, async ({ call, fails }) => {
    assert.equal(await call('const a = await 1\nreturn a + 1 // closed'), 2)
    assert.match((await fails(call('throw new Error(await 1)'))).data.stack, /at main\.js:1:7/)
  })
})

test('call: code that would drop its arguments says so', () => withAgent({}, async ({ ask }) => {
  const refused = async (code, params) => (await ask('call', { filename: 'main.js', function: null, order: null, holes: [], code, args: [], kwargs: {}, ...params })).error
  const named = [
    ['class A {\n  constructor (...args) { this.args = args }\n  total () { return 1 }\n}', 'A'],
    ['"use strict"\nconst { join } = require("path"), x = [\n  1\n]\nfunction _helper () { return {} }\nclass A { }; class B extends A { static x = `}` }', 'B'],
    ['class A {}\nmodule.exports = { A }', 'A'], ['module.exports = class A {}', 'A'], ['module.exports = class {}', 'of module.exports'], ['export class A {}', 'A'], ['export default class A {}', 'default']
  ]
  for (const [code, name] of named) {
    for (const params of [{ args: [1] }, { kwargs: { a: 1 } }]) {
      const { message, data } = await refused(code, params)
      assert.deepEqual([data.type, message], ['TypeError', `the code defines no function that could take the arguments, but the class ${name}: define a function that uses it`], code)
    }
  }
}))

test('call: code that looks at its arguments, or gets none, has classes', () => withAgent({}, async ({ call }) => {
  const none = { $: 'undefined' }
  const values = [
    ['class A {}', [], none], ['class B {}\nargs[0] + 1', [4], 5], ['class C {}\nconst x = `${args[0]}`', [4], none], ['class D {}\n7', [4], 7],
    ['export class E {}\nexport default 7', [4], 7], ['class F {}\nif (true) { var y = 1 }', [4], none]
  ]
  for (const [code, args, value] of values) assert.deepEqual(await call(code, { args }), value, code)
}))

test('call: stacks have no frames of built-in functions that the agent called', () => withAgent({}, async ({ ask }) => {
  const stackOf = async (code) => (await ask('call', { filename: 'main.js', function: null, order: null, holes: [], args: [], kwargs: {}, resultBytes: 1000, code })).error.data.stack
  assert.equal(await stackOf('const f = () => new Map([[1, () => 2]])'), 'TypeError: $<0>: function cannot be sent: call it and return what it gives, or leave it out; returned by f (main.js, line 1)')
  assert.match(await stackOf('const g = () => [1].map(() => { throw new Error("no") })'), /^Error: no\n +at main\.js:1:\d+\n +at Array\.map \(<anonymous>\)\n +at g \(main\.js:1:\d+\)$/)
}))

test('prepare: what a set-up declares, exports and assigns', async () => {
  const uses = 'async function main () { return [helper(x), typeof y] }'
  for (const code of [
    'const x = 41; let y; function helper (a) { return a + 1 }',
    'globalThis.x = 41; exports.helper = (a) => a + 1',
    "import os from 'os'; export const x = 41; export function helper (a) { return a + 1 }",
    'const x = await Promise.resolve(41); function helper (a) { return a + 1 }'
  ]) {
    await withAgent({}, async ({ prepare, call }) => {
      assert.deepEqual(await prepare(code), {})
      assert.deepEqual(await call(uses), [42, 'undefined'], code)
      assert.equal(await call('const x = 1; x + 1'), 2, 'a name of the set-up may be declared again')
    })
  }
})

test('prepare: the host is there, but not yet', () => withAgent({}, async ({ prepare, call, asked }) => {
  await prepare('globalThis.early = add(1).catch((e) => e.message); globalThis.later = () => add(2)', { globals: { add: fn }, imports: { db: { members: { get: fn } } } })
  assert.deepEqual(await call('async function main () { return [await early, await later(), await require("db").get(3)] }'), ['add cannot be called while the set-up runs', [2], [3]])
  assert.deepEqual(asked, ['global/add', 'import/db/get'])
}))

test('prepare: failures', async () => {
  const failing = { 'throw new TypeError("bad")': 'bad', 'await new Promise(() => {})': "the set-up's promise never settled", 'process.exit(2)': 'process.exit(2) was called before the set-up ended' }
  for (const [code, message] of Object.entries(failing)) {
    await withAgent({}, async ({ prepare, fails }) => assert.equal((await fails(prepare(code))).message, message))
  }
})

test('evaluate: exports, host, console', () => withAgent({}, async ({ evaluate, told, asked }) => {
  const exports = await evaluate("console.log('a', { b: 1 }); console.error('c'); import { get } from 'db'\nexport default [await add(1), await get(2)]; export const m = new Map([[1, 2]]), s = [m]",
    { globals: { add: fn }, imports: { db: { members: { get: fn } } } })
  assert.deepEqual(exports, { default: [[1], [2]], m: { $: 'map', v: [[1, 2]] }, s: [{ $: 'ref', n: 4 }] })
  const [began, ...lines] = told
  assert.deepEqual([began[0], began[1].cpuMs > 0], ['began', true])
  assert.deepEqual(lines, [['console', { stream: 'stdout', text: 'a {"b":1}' }], ['console', { stream: 'stderr', text: 'c' }]])
  assert.deepEqual(asked, ['global/add', 'import/db/get'])
}))

test('evaluate: failures are in the contract\'s terms', () => withAgent({}, async ({ evaluate, fails }) => {
  const code = async (text, more) => (await fails(evaluate(text, more))).data.code
  assert.equal(await code('let'), 'ERR_COMPILE')
  assert.equal(await code('import "nowhere"'), 'ERR_MODULE_NOT_FOUND')
  assert.equal(await code('export default () => 1'), 'ERR_EXPORT_NOT_SERIALIZABLE')
  assert.equal(await code('export default "x".repeat(1e6)', { resultBytes: 1000 }), 'ERR_EXPORT_TOO_LARGE')
  assert.equal(await code('1', { globals: { console: fn } }), 'ERR_RESERVED_NAME')
  assert.equal(await code('await new Promise(() => {})'), 'ERR_EXPORT_UNRESOLVED_PROMISE')
  const { data } = await fails(evaluate("throw Object.assign(new RangeError('far'), { status: 404, big: 1n })"))
  assert.deepEqual([data.code, data.name, data.message, data.fields], ['ERR_USER_CODE', 'RangeError', 'far', { status: 404, big: { $: 'bigint', v: '1' } }])
  assert.match(data.stack, /^RangeError: far\n {4}at main.js:1:/)
  assert.deepEqual(await evaluate('Promise.reject(new Error("nobody")); export default 1'), { default: 1 })
}))

test('evaluate: a set-up of the bare realm', () => withAgent({}, async ({ prepare, evaluate, call, fails }) => {
  assert.deepEqual(await prepare('globalThis.x = 5; globalThis.get = () => add(1)', { realm: 'bare', globals: { add: fn } }), {})
  assert.deepEqual(await evaluate('export default [x, await get(), typeof process]'), { default: [5, [1], 'undefined'] })
  assert.equal(await call('typeof x'), 'undefined')
  assert.equal((await fails(prepare('await add(1)', { realm: 'bare' }))).data.code, 'ERR_PREFIX_BRIDGE_CALL')
}))

test('freeze: only a template can', () => withAgent({}, async ({ ask }) => {
  assert.deepEqual((await ask('freeze')).error, { code: -32001, message: 'this process was not started as a template' })
  assert.equal((await ask('thaw')).error.code, -32601)
}))

test('a template: warm-up leaves no traces, and the child goes on', () => withAgent({ asTemplate: true }, async ({ result, call, evaluate, fails, stop, told, output }) => {
  assert.deepEqual(await result('freeze'), {})
  const names = await call('Object.getOwnPropertyNames(globalThis).filter((name) => /^(args|kwargs|require|module|exports|__|A$|f$|g$|h$|\\$)/.test(name))')
  assert.deepEqual(names.filter((name) => !['args', 'kwargs', 'require', 'module', 'exports', '__filename', '__dirname'].includes(name)), [])
  assert.deepEqual(await call('function main () { return [typeof require, process.execArgv.join(), typeof globalThis.$warm] }'), ['function', `--experimental-vm-modules,--no-warnings,-r,${new URL('./fake-library.cjs', import.meta.url).pathname}`, 'undefined'])
  assert.deepEqual(await evaluate('export default Object.keys(globalThis)'), { default: [] })
  assert.equal((await fails(evaluate('import "$warm"'))).data.code, 'ERR_MODULE_NOT_FOUND')
  assert.match((await fails(call('return await import("$warm")'))).message, /Cannot find (module|package) '\$warm'/)
  assert.deepEqual(told.filter(([method]) => method !== 'began'), [])
  await call('console.log("heard")')
  await stop()
  assert.equal(output.stdout, 'heard\n')
}))

test('a template: numbers and clocks are a child\'s own', () => withAgent({ asTemplate: true }, async ({ prepare, result, call }) => {
  await prepare('const c = require("crypto"); const seen = [c.randomInt(5), c.randomUUID(), crypto.randomUUID(), Math.random(), performance.now()]')
  await result('freeze')
  const code = 'function main () { return [Math.random.name, c.randomUUID() !== seen[1], performance.now() < 1000, process.uptime() < 1, Math.abs(performance.timeOrigin + performance.now() - Date.now()) < 20] }'
  assert.deepEqual(await call(code), ['random', true, true, true, true])
}))

test('a template: what a fork would lose', () => withAgent({ asTemplate: true }, async ({ prepare, ask }) => {
  const reason = async (code) => {
    await prepare(code)
    return (await ask('freeze')).error?.message
  }
  assert.equal(await reason('globalThis.worker = new (require("worker_threads").Worker)("setInterval(() => {}, 1000)", { eval: true })'), 'a worker thread is alive')
  assert.equal(await reason('await worker.terminate(); require("fs").stat("/", () => {})'), 'requests are under way: FSReqCallback')
}))

test('a Node that is too old refuses every request, by name', () => withAgent({ env: { NODE_OPTIONS: `--require ${new URL('./fake-old-node.cjs', import.meta.url).pathname}` } }, async ({ ask, stop, output, child }) => {
  const message = 'this image has Node 12.22.12, and the agent needs Node 18 or later: use an image with one (Debian 12 or later)'
  const error = { code: -32000, message, data: { type: 'UnsupportedVersion', message, stack: '' } }
  for (const method of ['call', 'freeze', 'open']) assert.deepEqual((await ask(method, { code: 'x'.repeat(200000) })).error, error)
  await stop()
  assert.deepEqual([child.exitCode, output.stderr], [0, ''])
}))
