import assert from 'node:assert/strict'
import { test } from 'node:test'
import { schemaCheck } from '../dist/subprocess/schema.js'

const cases = {
  type: [{ type: ['string', 'null'] }, ['x', null], [1, undefined, [], {}]],
  'integers are also bigints and 1.0': [{ type: 'integer' }, [1, 1n, -0], [1.5, NaN, '1']],
  any: [{ type: 'any' }, [1, 'x', null], []],
  'a map is no object': [{ type: 'object' }, [{}, Object.create(null)], [new Map(), [], null, new Date()]],
  enum: [{ enum: [1, 'a', { b: [2] }] }, [1, 'a', { b: [2] }], [2, { b: [3] }, { b: [2], c: 1 }]],
  const: [{ const: null }, [null], [undefined, 0]],
  bounds: [{ minimum: 1, exclusiveMaximum: 3 }, [1, 2n, 'no number'], [0, 3, NaN]],
  multipleOf: [{ multipleOf: 0.5 }, [1, 1.5], [1.2]],
  'lengths count code points': [{ minLength: 2, maxLength: 3 }, ['ab', '😀😀😀'], ['a', '😀', 'abcd']],
  pattern: [{ pattern: '^\\p{L}+$' }, ['äb', 1], ['1', '', 'a'.repeat(5000)]],
  items: [{ items: { type: 'number' }, minItems: 1, maxItems: 2, uniqueItems: true }, [[1], [1, 2]], [[], [1, 1], [1, 2, 3], ['x']]],
  properties: [{ properties: { a: { type: 'number' } }, required: ['b'], additionalProperties: { type: 'string' } }, [{ b: 'x' }, { a: 1, b: 'x', c: 'y' }], [{}, { b: undefined }, { a: 'x', b: 'x' }, { b: 1 }]],
  'names from the prototype are no parameters': [{ type: 'object', properties: {}, additionalProperties: false }, [{}], [JSON.parse('{"__proto__": 1}'), { constructor: 1 }]],
  patternProperties: [{ patternProperties: { '^x-': { type: 'number' } }, additionalProperties: false }, [{ 'x-a': 1 }], [{ 'x-a': 'y' }, { y: 1 }]],
  combined: [{ anyOf: [{ type: 'string' }, { minimum: 5, type: 'number' }], not: { const: 'no' } }, ['x', 6], [4, 'no', null]],
  oneOf: [{ oneOf: [{ minimum: 1 }, { maximum: 3 }] }, [0, 4], [2]],
  allOf: [{ allOf: [{ minimum: 1 }, { maximum: 3 }] }, [2], [0, 4]],
  'booleans are schemas': [{ properties: { a: false, b: true } }, [{ b: 1 }], [{ a: 1 }]],
  '$ref within, also to itself': [{ $defs: { node: { type: 'object', properties: { next: { $ref: '#/$defs/node' } }, required: ['n'] } }, $ref: '#/$defs/node' }, [{ n: 1 }, { n: 1, next: { n: 2 } }], [{ n: 1, next: {} }, 5]],
  'annotations say nothing': [{ title: 'x', description: 'y', format: 'email', default: 3, $schema: 'z' }, [1, 'no mail'], []]
}
for (const [name, [schema, good, bad]] of Object.entries(cases)) {
  test(name, () => {
    const check = schemaCheck(schema)
    for (const value of good) assert.equal(check(value), undefined)
    for (const value of bad) assert.equal(typeof check(value), 'string', String(value))
  })
}

test('a value in itself does not hang', () => {
  const value = { n: 1 }
  value.next = value
  assert.match(schemaCheck(cases['$ref within, also to itself'][0])(value), /nested deeper/)
})
test('what is not known is refused', () => {
  for (const [schema, message] of [[{ if: {} }, /keyword "if"/], [{ $ref: 'http://x' }, /leads out/], [{ type: 'int' }, /no type/], [5, /must be an object/], [{ items: [1] }, /items/]]) {
    assert.throws(() => schemaCheck(schema), { name: 'TypeError', message })
  }
})
