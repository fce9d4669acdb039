import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as cloche from 'cloche'
import { errorClasses } from '../dist/generated/errors.js'

const spec = (name) => readFileSync(new URL(`../../../spec/${name}`, import.meta.url), 'utf8')

test('what is generated is as the tables have it', () => {
  execFileSync(process.execPath, [fileURLToPath(new URL('../scripts/generate.mjs', import.meta.url)), '--check'])
})

test('each row of spec/errors.def has a class of its own, with a guard', () => {
  const rows = [...spec('errors.def').matchAll(/^CLOCHE_ERROR\(\w+, "(\w+)", (\w+), (\d+)/gm)]
  assert.ok(rows.length > 20)
  for (const [, code, fault, http] of rows) {
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
  const names = [...spec('limits.def').matchAll(/^CLOCHE_LIMIT\(\w+, "(\w+)"/gm)].map(([, name]) => name)
  assert.deepEqual(Object.keys(cloche.limitTable), names)
})
