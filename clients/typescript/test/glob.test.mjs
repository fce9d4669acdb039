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
  for (const pattern of ['+(a*(b))', '*(@(x|+(y)))', '{+,x}({*,y}(a))']) assert.throws(() => globTest(pattern), /repeats within one that repeats/)
  for (const pattern of ['+(a/b)', 'x/!(a/b)']) assert.throws(() => globTest(pattern), /about one name/)
  assert.throws(() => globTest('@('.repeat(20) + 'a' + ')'.repeat(20)), /groups 17 deep/)
  for (const literal of ['[', '{', '@(', '{[', '{a}']) {
    assert.throws(() => globTest(literal.repeat(2000 / literal.length)), /more than 16 of .* a backslash/)
    assert.ok(globTest(literal.repeat(8))(literal.repeat(8)), literal)
  }
  assert.throws(() => globTest(`[${'{'.repeat(2000)}]`), /more than 16 of/) // braces come before classes
  for (const pattern of ['a'.repeat(4097), '!']) assert.throws(() => globTest(pattern), /1 to 4096 bytes/)
  assert.throws(() => globTest('a/../b'), /leaves the mount/)
  assert.throws(() => globTest(''), /not empty/)
  assert.throws(() => globTest('{1..999}{1..999}'), /alternatives/)
  assert.throws(() => globTest('{1..999999999999999}'), /alternatives/)
})

test('patterns that fit in many ways end', () => {
  const before = process.cpuUsage()
  for (const pattern of ['+(a|aa|a*|*a)', '*(a|aa)', '!(a)', '@(a|aa|*)', '*a', '!(*(a|aa)b)']) assert.ok(!globTest(pattern.repeat(40) + 'c')('a'.repeat(255)), pattern)
  const nested = (deep, inner) => '?@('.repeat(deep) + inner + ')!(x)*'.repeat(deep)
  const patterns = [nested(16, 'a'), `+(${nested(14, 'a')})`, nested(15, '+(a|*b)'), '!('.repeat(16) + 'a' + 'b)*'.repeat(16), `+(a|${'*a'.repeat(500)}b)`]
  for (const pattern of patterns) assert.equal(typeof globTest(pattern)('a'.repeat(1000)), 'boolean')
  const used = process.cpuUsage(before) // generous: milliseconds, compared with minutes for exponential work
  assert.ok(used.user + used.system < 60e6, JSON.stringify(used))
  assert.ok(!globTest('**/a/'.repeat(60) + 'b')('a/'.repeat(120) + 'a'))
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
