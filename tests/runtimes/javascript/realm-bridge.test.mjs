// The host's declarations in the bare realm: functions, values, expressions, modules; and its errors.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fails, fn, makeRealm } from './realm-harness.mjs'

const value = (v) => ({ kind: 'value', value: v })

test('calls are promises at once, several in flight, and find their target', async () => {
  let open = 0
  let most = 0
  const made = makeRealm(async (target, args) => {
    most = Math.max(most, ++open)
    await new Promise((resolve) => setTimeout(resolve, 5))
    open--
    return args
  })
  const names = { 'odd name!': fn, __proto__x: fn, deep: { kind: 'object', members: { er: { kind: 'object', members: { call: fn } } } } }
  const { default: got } = await made.evaluate(`
    const p = deep.er.call(1)
    import users, { list } from 'db'
    export default [p instanceof Promise, await Promise.all([p, globalThis['odd name!']('x', { a: new Map([[1, 2]]) }), list(), users.create(2n)]), deep.er.call.name]`, names,
  { db: { members: { list: fn, default: { kind: 'object', members: { create: fn } } } } })
  assert.deepEqual(got, [true, [[1], ['x', { a: new Map([[1, 2]]) }], [], [2n]], 'call'])
  assert.equal(most, 4)
  assert.deepEqual(made.calls.map((target) => target.join('/')).sort(), ['global/deep/er/call', 'global/odd name!', 'import/db/default/create', 'import/db/list'])
})

test('constants, expressions, shims, enumerable', async () => {
  const globals = {
    pi: value(3.14), config: value({ a: [1] }), made: { kind: 'expression', text: '({ list: [1, 2].map((x) => x * 2) })' }, hidden: { ...value(1), enumerable: false },
    shimmed: { kind: 'shim', text: 'function (r) { return { wrapped: r, same: this === undefined } }' }, ['__proto__']: value(1)
  }
  const { evaluate } = makeRealm((target, args) => args[0])
  const { default: got } = await evaluate(`
    'use strict'
    const e = []
    for (const f of [() => { pi = 1 }, () => { delete globalThis.made }, () => { made = 1 }]) try { f() } catch (x) { e.push(x.name) }
    export default [pi, config, made.list, Object.keys(globalThis), hidden, e, (await shimmed(5)).wrapped, made.constructor === Object]`, globals)
  assert.deepEqual(got, [3.14, { a: [1] }, [2, 4], ['pi', 'config', 'made', 'shimmed', '__proto__'], 1, ['TypeError', 'TypeError', 'TypeError'], 5, true])
  assert.equal((await fails(makeRealm().evaluate('', { bad: { kind: 'expression', text: 'let' + ' (' } }))).code, 'ERR_COMPILE')
  assert.equal((await fails(makeRealm().evaluate('', { bad: { kind: 'expression', text: 'nothing.at.all' } }))).name, 'ReferenceError')
})

test('reserved names', async () => {
  for (const name of ['console', 'URL', 'setTimeout', 'Headers', 'Response', 'crypto', 'structuredClone', 'performance', 'globalThis', 'undefined']) {
    const failure = await fails(makeRealm().evaluate('1', { [name]: fn }))
    assert.deepEqual([failure.code, failure.message.includes(name)], ['ERR_RESERVED_NAME', true])
    assert.equal((await fails(makeRealm().prepare('1', { [name]: fn }))).code, 'ERR_RESERVED_NAME')
  }
  assert.deepEqual(await makeRealm(() => 'got').evaluate('export default await fetch("x")', { fetch: fn }), { default: 'got' })
})

test('a function as an argument is fatal', async () => {
  for (const argument of ['() => 1', '{ a: [{ b () {} }] }', 'new Map([[1, () => 1]])', 'class A {}']) {
    const made = makeRealm()
    const failure = await fails(made.evaluate(`try { await f(1, ${argument}) } catch {} export default 1`, { f: fn }))
    assert.equal(failure.code, 'ERR_FUNCTION_ARGUMENT_NOT_SUPPORTED', argument)
    assert.deepEqual(made.calls, [])
  }
  const other = await makeRealm().evaluate('let e; try { await f(Promise.resolve()) } catch (x) { e = x } export default [e.name, e instanceof TypeError]', { f: fn })
  assert.deepEqual(other.default, ['TypeError', true])
  assert.equal((await fails(makeRealm().evaluate('await f({ get a () { throw new RangeError("getter") } })', { f: fn }))).code, 'ERR_USER_CODE')
})

test('the host\'s errors', async () => {
  const host = () => { throw Object.assign(new RangeError('too far'), { status: 418, detail: { a: 1 }, stack: 'host stack' }) }
  const { evaluate } = makeRealm(host)
  const code = (then) => `let e; try { await f() } catch (x) { e = x }\n${then}`
  assert.deepEqual((await evaluate(code('export default [e instanceof RangeError, e.message, e.status, e.detail, Object.keys(e), e.stack]'), { f: fn })).default, [true, 'too far', 418, { a: 1 }, ['status', 'detail'], 'RangeError: too far'])
  const told = ({ code, name, message, stack, fields }) => [code, name, message, stack, JSON.stringify(fields)]
  assert.deepEqual(told(await fails(evaluate('await f()'))), ['ERR_HOST_BRIDGE', 'RangeError', 'too far', undefined, '{"status":418,"detail":{"a":1}}'])
  assert.deepEqual(told(await fails(evaluate(code('e.extra = true; throw e')))), ['ERR_HOST_BRIDGE', 'RangeError', 'too far', undefined, '{"status":418,"detail":{"a":1},"extra":true}'])
  assert.equal((await fails(evaluate(code('throw new RangeError(e.message)')))).code, 'ERR_USER_CODE')
  assert.equal((await fails(evaluate(code('throw Object.assign(new Error("x"), e)')))).code, 'ERR_USER_CODE')
  const odd = makeRealm((target, [name]) => { throw name === undefined ? 'just text' : Object.assign(new Error('m'), { name, ['__proto__']: 5 }) }) // eslint-disable-line no-throw-literal
  assert.deepEqual((await odd.evaluate(`
    const of = async (n) => { try { await f(n) } catch (e) { return [e.name, e.message, e instanceof Error, Object.getPrototypeOf(e).constructor.name, Object.keys(e)] } }
    export default [await of(), await of('CustomError'), await of('SyntaxError'), await of('constructor')]`, { f: fn })).default, [
    ['Error', 'just text', true, 'Error', []], ['CustomError', 'm', true, 'Error', []], ['SyntaxError', 'm', true, 'SyntaxError', []], ['constructor', 'm', true, 'Error', []]
  ])
  assert.equal((await fails(makeRealm(() => 1).evaluate('await f()', { f: { kind: 'shim', text: '() => { throw new Error("shim") }' } }))).code, 'ERR_USER_CODE')
})

test('host modules', async () => {
  const imports = { kit: { members: { add: fn, version: value('1'), 'odd name': value(2), nested: { kind: 'object', members: { deep: fn, constant: value([1]) } }, default: value({ d: 1 }) } } }
  const { evaluate } = makeRealm((target, args) => args.reduce((a, b) => a + b, 0))
  assert.deepEqual((await evaluate(`
    import d, * as kit from 'kit'
    import { add, 'odd name' as odd } from 'kit'
    export default [d, await add(1, 2), kit.version, odd, await kit.nested.deep(4), kit.nested.constant, (await import('kit')) === kit, Object.keys(kit)]`, {}, imports)).default,
  [{ d: 1 }, 3, '1', 2, 4, [1], true, ['add', 'default', 'nested', 'odd name', 'version']])
  const late = makeRealm(() => 'late')
  await late.prepare('import { add } from "kit"; globalThis.add = add', {}, imports)
  assert.deepEqual(await late.evaluate('import * as kit from "kit"; export default [await add(), kit.add === add]'), { default: ['late', true] })
})
