// Where arguments go, and where the signature is from.
import assert from 'node:assert/strict'
import { after, test } from 'node:test'
import { startAgent } from './agent-harness.mjs'

const agent = startAgent()
after(() => agent.stop())

const ask = (code, params) => agent.ask('call', { code, filename: 'main.js', function: null, args: [], holes: [], kwargs: {}, order: null, resultBytes: 1 << 20, ...params })
const PAIR = 'function f (a, b) { return [a, b] }'
const DEFAULTS = 'function f (a = 1, b = 2, c = 3) { return [a, b, c] }'
const OPTIONS = 'function f (name, { mark, size } = {}) { return [name, mark, size] }'
const SUM = 'exports.f = function (...all) { return all }.bind(null)'

const bound = [
  ['positions', 'const f = (a, b = 2, ...rest) => [a, b, rest]', { args: [1, 5, 6] }, [1, 5, [6]]],
  ['fewer than there are', PAIR, { args: [1] }, [1, { $: 'undefined' }]],
  ['names', PAIR, { kwargs: { b: 2, a: 1 } }, [1, 2]],
  ['an options object by pattern', 'function f (a, { x = 1, y } = {}) { return [a, x, y] }', { args: [0], kwargs: { y: 3 } }, [0, 1, 3]],
  ['an options object by name', 'function f (a, options) { return [a, options.z] }', { args: [0], kwargs: { z: 3 } }, [0, 3]],
  ['an options object that is there', OPTIONS, { args: ['n', { mark: 1 }], kwargs: { size: 2 } }, ['n', 1, 2]],
  ['strings and comments in defaults', 'function f (a = "),(", b /* , c */ = `)`) { return [a, b] }', { kwargs: { b: 1 } }, ['),(', 1]],
  ['holes keep the default', DEFAULTS, { args: [null, null, 9], holes: [0, 1] }, [1, 2, 9]],
  ['null is no hole', DEFAULTS, { args: [null, null, 9], holes: [1] }, [null, 2, 9]],
  ['a hole for a keyword', PAIR, { args: [null, 2], holes: [0], kwargs: { a: 1 } }, [1, 2]]
]
for (const [name, code, params, expected] of bound) {
  test(`inferred: ${name}`, async () => {
    const { result, error } = await ask(code, { function: 'f', ...params })
    assert.deepEqual(result, { value: expected, signatureSource: 'inferred' }, error?.message)
  })
}

const ordered = [
  ['names the function has not', PAIR, { kwargs: { y: 2, x: 1 } }, [1, 2]],
  ['names the function has', 'function f (y, x) { return [y, x] }', { kwargs: { y: 2, x: 1 } }, [2, 1]],
  ['a function without parameters', 'function f () { return Array.from(arguments) }', { kwargs: { y: 2, x: 1 } }, [1, 2]],
  ['a bound function', SUM, { kwargs: { y: 2, x: 1 } }, [1, 2]],
  ['rest', 'function f (...all) { return all }', { kwargs: { y: 2, x: 1 } }, [1, 2]],
  ['the name of an options object', OPTIONS, { order: ['name', 'options'], kwargs: { name: 'n', options: { mark: 1, size: 2 } } }, ['n', 1, 2]],
  ['names of options', OPTIONS, { order: ['name', 'mark', 'size'], kwargs: { name: 'n', mark: 1, size: 2 } }, ['n', 1, 2]]
]
for (const [name, code, params, expected] of ordered) {
  test(`order: ${name}`, async () => {
    const { result, error } = await ask(code, { function: 'f', order: ['x', 'y'], ...params })
    assert.deepEqual(result, { value: expected, signatureSource: 'schema' }, error?.message)
  })
}

test('convention: keywords are the last argument of a bound function', async () => {
  assert.deepEqual((await ask(SUM, { args: [1], kwargs: { a: 2 } })).result, { value: [1, { a: 2 }], signatureSource: 'convention' })
})

const refused = [
  ['an unknown keyword', 'function f (a) {}', { args: [1], kwargs: { wrong: 1 } }, /'wrong'/],
  ['an unknown keyword beside an order', 'function f (a) {}', { order: ['x'], kwargs: { x: 1, wrong: 1 } }, /'wrong'/],
  ['given twice', PAIR, { args: [1], kwargs: { a: 1 } }, /'a' is given twice/],
  ['missing beside keywords', PAIR, { kwargs: { b: 1 } }, /missing required argument 'a'/],
  ['a hole without a default', PAIR, { args: [null, 1], holes: [0] }, /missing required argument 'a'/],
  ['too many beside keywords', 'function f (a) {}', { args: [1, 2, 3], kwargs: { a: 1 } }, /'a' is given twice/],
  ['too many of them', 'function f (a, b) {}', { args: [null, 2, 3], holes: [0], kwargs: { a: 1 } }, /3 arguments, at most 2/],
  ['options where there is something else', OPTIONS, { args: ['n', 5], kwargs: { mark: 1 } }, /'mark'/]
]
for (const [name, code, params, message] of refused) {
  test(`refused: ${name}`, async () => {
    const { error } = await ask(code, { function: 'f', ...params })
    assert.match(error.message, message)
    assert.equal(error.data.type, 'TypeError')
  })
}
