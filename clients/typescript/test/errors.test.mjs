import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as cloche from 'cloche'
import { errorClasses } from '../dist/generated/errors.js'

const compile = (option) => execFileSync('python3', [fileURLToPath(new URL('../../../tools/spec', import.meta.url)), option], { encoding: 'utf8' })
const tables = JSON.parse(compile('--json'))

test('generated files are as tools/spec writes them', () => {
  compile('--check')
})

test('each row of spec/errors.def has a class of its own, with a guard', () => {
  const rows = tables.CLOCHE_ERROR
  assert.ok(rows.length > 20)
  for (const { name: code, fault, http } of rows) {
    const error = new errorClasses[code]('what')
    assert.ok(error instanceof cloche.ClocheError && error instanceof Error)
    assert.deepEqual([error.code, error.fault, error.status, error.message], [code, fault.toLowerCase(), Number(http), 'what'])
    assert.equal(cloche[error.name], errorClasses[code])
    assert.ok(cloche[`is${error.name}`](error) && !cloche[`is${error.name}`](new Error('x')))
    assert.match(error.stack, new RegExp(`^${error.constructor.name}|^Error`))
  }
  assert.equal(new Set(Object.values(errorClasses)).size, rows.length)
})

test('limits are those of spec/limits.def', () => {
  assert.deepEqual(Object.keys(cloche.limitTable), tables.CLOCHE_LIMIT.map(({ json }) => json))
})
