// Displays in the sandbox façade, for all data a guest may send.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fieldsOf, plain, Result } from '../dist/sandbox/results.js'

const display = (data, metadata = {}) => new Result(fieldsOf({ data, metadata, isResult: true }))

test('forms by their names, bytes as base64, text as text', () => {
  const bytes = Buffer.from('grüße')
  const all = display({
    'text/plain': 'p', 'text/html': bytes, 'image/png': bytes, 'image/jpeg': 'AAAA', 'image/svg+xml': '<svg/>', 'text/latex': 'l', 'text/markdown': 'm',
    'application/javascript': 'j', 'application/json': [1n, null, bytes], 'application/pdf': bytes
  })
  assert.deepEqual(all.formats(), ['png', 'jpeg', 'svg', 'html', 'json', 'latex', 'markdown', 'javascript', 'text', 'pdf'])
  const base64 = bytes.toString('base64')
  assert.deepEqual([all.html, all.png, all.jpeg, all.pdf, all.json], ['grüße', base64, 'AAAA', base64, ['1', null, base64]])
  assert.equal('data' in all, false)
  assert.deepEqual(display({ 'application/json': 0 }).formats(), ['json'], 'what is false is there too')
})

test('kinds without a name are in data; names of other objects are none', () => {
  const { data, metadata, ...rest } = display({ 'application/vnd.x+json': { a: 1 }, constructor: 'c' }, { 'text/plain': { error: 'why' } }).toJSON()
  assert.deepEqual([data, metadata, rest], [{ 'application/vnd.x+json': { a: 1 }, constructor: 'c' }, { 'text/plain': { error: 'why' } }, {}])
})

test('charts', () => {
  const kind = 'application/vnd.cloche.chart+json'
  assert.deepEqual(display({ [kind]: { type: 'line', title: 't', elements: [1], xLabel: 'x' } }).chart, { type: 'line', title: 't', data: [1], layout: { xLabel: 'x' } })
  const axes = { type: 'superchart', title: 't', elements: [{ type: 'line', title: '', elements: [1], xLabel: 'x' }, { type: 'pie', title: 'p', elements: [2] }] }
  assert.deepEqual(display({ [kind]: axes }).chart, {
    type: 'superchart', title: 't', layout: {},
    data: [{ type: 'line', title: '', data: [1], layout: { xLabel: 'x' } }, { type: 'pie', title: 'p', data: [2], layout: {} }]
  })
  const boxes = { type: 'box_and_whisker', title: 't', elements: [1] }
  assert.deepEqual(display({ [kind]: boxes }).chart, { type: 'unknown', title: 't', data: boxes })
  for (const odd of ['text', null, [], { type: 'line' }]) assert.equal(display({ [kind]: odd }).chart.type, 'unknown')
})

test('what a guest sends is not unfolded', () => {
  const circle = { name: 'c' }
  circle.self = circle
  assert.deepEqual(plain(circle), { name: 'c', self: null })
  let doubled = ['x']
  for (let i = 0; i < 60; i++) doubled = [doubled, doubled]
  assert.ok(JSON.stringify(plain(doubled)).length < 1000)
  assert.deepEqual(plain({ map: new Map([['a', new Set([1])]]), date: new Date(0), never: new Date(NaN), none: undefined }), { map: [['a', [1]]], date: '1970-01-01T00:00:00.000Z', never: null, none: undefined })
})
