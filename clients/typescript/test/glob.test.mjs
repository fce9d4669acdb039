import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { globTest } from '../dist/executor/glob.js'
import { PermissionDeniedError, PermissionResolver } from 'cloche/executor'

test('globs are those of the daemon and of minimatch: the shared vectors', () => {
  const vectors = JSON.parse(readFileSync(new URL('../../../tests/vectors/globs.json', import.meta.url)))
  const wrong = vectors.filter(([pattern, path, expected]) => globTest(pattern)(path) !== expected)
  assert.deepEqual(wrong, [])
  assert.ok(vectors.length > 300)
})

test('what is no pattern here is refused by name', () => {
  for (const pattern of ['+(a|b)', 'x/*(a)', '!(a|b)', '@(a|!(b))']) assert.throws(() => globTest(pattern), /extended glob/)
  assert.throws(() => globTest('a/../b'), /leaves the mount/)
  assert.throws(() => globTest(''), /not empty/)
  assert.throws(() => globTest('{1..999}{1..999}'), /alternatives/)
})

test('the first rule that matches decides, higher priorities first', () => {
  const resolver = new PermissionResolver({
    default: { read: true },
    rules: [{ pattern: '**/*.txt', allow: ['create'] }, { pattern: 'a.txt', deny: '*' }, { pattern: 'b/**', allow: '*', priority: 5 }, { pattern: 'c.txt', deny: '*', allow: ['read'], priority: 1 }]
  })
  assert.ok(resolver.check('/a.txt', 'create'))
  assert.ok(!resolver.check('a.md', 'create'))
  assert.ok(resolver.check('b/x.txt', 'delete'))
  assert.deepEqual({ ...resolver.resolve('c.txt'), matchedRule: undefined }, { read: true, list: false, create: false, modify: false, delete: false, matchedRule: undefined })
})

test('exclude denies before all rules, a plain name at any depth', () => {
  const resolver = new PermissionResolver({ rules: [{ pattern: '**', allow: '*', priority: 999 }], exclude: ['node_modules', 'src/secret'] })
  for (const path of ['node_modules', 'a/node_modules', 'a/node_modules/b', 'src/secret', 'src/secret/x']) assert.ok(!resolver.check(path, 'read'), path)
  assert.ok(resolver.check('src/public', 'modify') && resolver.check('a/src/secret', 'read'))
})

test('allowAll, readOnly and PermissionDeniedError', () => {
  assert.ok(PermissionResolver.allowAll().check('x', 'delete'))
  assert.ok(PermissionResolver.readOnly().check('x', 'read') && !PermissionResolver.readOnly().check('x', 'create'))
  assert.throws(() => PermissionResolver.readOnly().assert('x', 'create'), (thrown) => thrown instanceof PermissionDeniedError && thrown.path === 'x' && thrown.operation === 'create')
})
