// Contexts: declarations of cells, and their visibility in later ones.
import assert from 'node:assert/strict'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openContext } from './contexts.mjs'

const context = await openContext()
const { cell, run, text, error } = context
const CONSTANT = 'Assignment to constant variable.'

test('what is declared stays, and closures see what later cells assign', async () => {
  assert.deepEqual(await run('let x = 1; const f = () => x; var v = 2; class A { static n = 3 } function g () { return v }'), [])
  assert.equal(await text('x = 5; f()'), '5')
  assert.equal(await text('v = 7; [g(), A.n, f.name, A.name]'), "[ 7, 3, 'f', 'A' ]")
  await run('let x = 6')
  assert.equal(await text('f()'), '6')
})

test('every kind can be declared again as every kind', async () => {
  const ways = ['let again = 1', 'const again = 1', 'var again = 1', 'class again { static toString () { return 1 } }', 'function again () {}\nagain = 1', 'import again from "node:os"\n']
  for (const one of ways) {
    for (const other of ways) {
      await run(one)
      await run(other)
    }
  }
  await run('const again = 4')
  assert.equal(await text('again'), '4')
  assert.equal(await text('let undefinedNow = 1, fresh\nlet undefinedNow2; [typeof fresh, typeof undefinedNow2]'), "[ 'undefined', 'undefined' ]")
  await run('let fresh = 1')
  assert.equal(await text('let fresh; fresh === undefined'), 'true')
  assert.equal(await text('var kept = 1; var kept; kept'), '1')
})

test('constants cannot be assigned to, in their cell, in later ones, or by functions of earlier ones', async () => {
  await run('let later = 1; function assign () { later = 2 }')
  await run('const later = 3')
  for (const code of ['assign()', 'later = 4', 'later++', '[later] = [1]', 'for (later of [1]);', '(() => { later ??= later = 1; later += 1 })()', 'const mine = 1; mine = 2', 'const mine = 1\nawait null\nmine = 2']) {
    assert.equal((await error(code)).message, CONSTANT, code)
  }
  assert.equal(await text('later'), '3')
  assert.equal((await error("'use strict'; later = 1")).name, 'TypeError')
  assert.match((await error('const early = 1; void early; const early2 = (() => late)(); const late = 1; late = 2')).message, /Cannot access 'late' before initialization/)
  assert.equal((await error('late')).message, 'late is not defined')
})

test('a declaration that fails leaves what was there', async () => {
  await run('const before = 1')
  await error('const before = (() => { throw new Error("no") })()')
  assert.equal(await text('before'), '1')
  await error('const never = null.x')
  assert.equal((await error('never')).name, 'ReferenceError')
})

test('patterns, loops, blocks, labels', async () => {
  assert.equal(await text('const { a, b: [c = 2, ...d], ...e } = { a: 1, b: [undefined, 3], f: 4 };\n[a, c, d, e]'), '[ 1, 2, [ 3 ], { f: 4 } ]')
  assert.equal(await text('let [p, q] = [1, 2]\n;[p, q] = [q, p];\n[p, q].join()'), "'2,1'")
  assert.equal(await text('for (var i = 0, n = 3; i < n; i++) { var inner = i }\nfor (var k in { z: 1 });\nfor (var [o] of [[9]]);\nif (i) var { w } = { w: 5 }\nelse var y\n[i, inner, k, o, w, y]'), "[ 3, 2, 'z', 9, 5, undefined ]")
  assert.equal(await text('[i, inner, k, o, w]'), "[ 3, 2, 'z', 9, 5 ]")
  assert.equal(await text('{ let hidden = 1; const hidden2 = 2 }\nfor (let hidden = 0; hidden < 1; hidden++);\ntypeof hidden + typeof hidden2'), "'undefinedundefined'")
  assert.equal(await text('const fs_ = []; for (let j = 0; j < 2; j++) fs_.push(() => j)\nfs_.map((f) => f()).join()'), "'0,1'")
  assert.equal(await text('outer: for (const a1 of [1]) { continue outer }\nlet noSemicolon\n[1].length'), '1')
  assert.equal(await text('const fn = function () { return 1 }\nlet [first] = [2]\nfn() + first'), '3')
  assert.equal(await text('class B extends A { static { var own = 1 } }\n(B.n)'), '3')
  assert.equal(await text('typeof own'), "'undefined'")
})

test('functions are there before their cell begins, and find later ones by name', async () => {
  assert.equal(await text('const early = hoisted(); function hoisted () { return other() } function other () { return 1 }\nearly'), '1')
  assert.equal(await text('function other () { return 2 }\nhoisted()'), '2')
  assert.equal(await text('function fib (n) { calls++; return n < 2 ? n : fib(n - 1) + fib(n - 2) }\nlet calls = 0; { const plain = fib, known = {}; fib = (n) => known[n] ??= plain(n) }\nfib(20); calls'), '21')
  assert.equal(await text('async function* gen () { yield* [1, 2] }\nlet sum = 0; for await (const one of gen()) sum += one\nsum'), '3')
  assert.equal(await text('function f2 (a,  b) { return a }\n`${f2}`'), "'function f2 (a,  b) { return a }'")
  assert.equal(await text("'use strict'\nfunction isStrict () { return this === undefined }\nisStrict()"), 'true')
})

test('await at the top', async () => {
  assert.equal(await text('const awaited = await Promise.resolve(4)\nlet [one, two] = await Promise.all([1, 2]); class C extends (await Map) {}\n[awaited, one, two, typeof C]'), "[ 4, 1, 2, 'function' ]")
  assert.equal(await text('[awaited, one, new C().size]'), '[ 4, 1, 0 ]')
  assert.equal(await text('const { then } = await ({ then: undefined }); (async () => 5)()'), '5')
  assert.deepEqual(await run('if (await 1) { 2 }'), [])
  assert.equal(await text('await 0; ({ then () { throw new Error("this is no promise") } }) // a comment').then((shown) => shown.includes('then')), true)
})

test('names of Node and of all objects can be the user\'s', async () => {
  assert.equal(await text("const crypto = 1, performance = 2; let toString = 3; var constructor = 4; const __proto__ = 5; const name = 'n';\n[crypto, performance, toString, constructor, __proto__, name]"), "[ 1, 2, 3, 4, 5, 'n' ]")
  assert.equal(await text("const console_ = console, crypto = require('crypto'); typeof crypto.createHash"), "'function'")
  assert.match((await error('let NaN = 1')).message, /Identifier 'NaN' has already been declared/)
  assert.match((await error('let twice; let twice')).message, /Identifier 'twice' has already been declared/)
})

test('_ is the last result, until the user has one', async () => {
  await run('41')
  assert.equal(await text('_ + 1'), '42')
  await run('undefined; null; void 0')
  assert.equal(await text('_'), '42')
  await run('const _ = { mine: true }')
  await run('1')
  assert.equal(await text('_.mine'), 'true')
})

test('what a module has', async () => {
  assert.equal(await text('[typeof require, require.main === module, module.exports === exports, __dirname === process.cwd(), __filename.startsWith(__dirname), this === globalThis, global === this]'),
    "[ 'function', true, true, true, true, true, true ]")
  assert.equal(await text('export const shared = 1\nexport default shared + 1'), '2')
  assert.equal(await text('export function published () { return 3 }\npublished()'), '3')
  assert.equal(await text('export default class Named {}\nexport { shared }\nawait Named.name'), "'Named'")
  assert.match((await error('export * from "fs"')).message, /cannot export from another module/)
})

test('import and require: built-ins, files, packages', async () => {
  const write = (name, content) => {
    mkdirSync(join(context.cwd, name, '..'), { recursive: true })
    writeFileSync(join(context.cwd, name), content)
  }
  write('mine.mjs', 'export let n = 1; export default "d"; export { n as "odd name" }')
  write('mine.cjs', 'exports.from = "cjs"')
  write('data.json', '{"a": 1}')
  write('node_modules/only-module/package.json', '{"name": "only-module", "exports": {"import": "./index.js"}, "type": "module"}')
  write('node_modules/only-module/index.js', 'export const where = "package"')
  assert.equal(await text(`import fs, { readFileSync as read } from 'fs'; import * as path from 'node:path'
    import d, { n, 'odd name' as odd } from './mine.mjs'; import './mine.cjs'; import { where } from 'only-module'
    [typeof fs.readFile, typeof read, path.sep, d, n, odd, where].join()`), "'function,function,/,d,1,1,package'")
  assert.equal(await text("[(await import('./mine.mjs')).default, require('./mine.cjs').from, require('./data.json').a, n]"), "[ 'd', 'cjs', 1, 1 ]")
  assert.equal(await text("(await eval(`import('only-module')`)).where"), "'package'")
  assert.equal((await error('n = 2')).message, CONSTANT)
  assert.match((await error("import { nowhere } from 'fs'")).message, /does not provide an export named 'nowhere'/)
  assert.match((await error("import 'no-such-package'")).message, /Cannot find package 'no-such-package'/)
  mkdirSync(join(context.cwd, 'deeper'))
  write('deeper/mine.cjs', 'exports.from = "deeper"')
  assert.equal(await text("process.chdir('deeper'); 1"), '1')
  assert.equal(await text("require('./mine.cjs').from + (await import('../mine.mjs')).default"), "'deeperd'")
  await run("process.chdir('..')")
})

test('describe', async () => {
  const { run, result } = await openContext()
  await run(`let n = 1, t = 'a'.repeat(500), big = 10n; const list = [1, 2], map = new Map([[1, 2]]), nothing = null; function f (a, ...b) {} ; class K {}
    const k = new K(), date = new Date(0), bytes = new Uint8Array(3), e = new TypeError('no'), p = Promise.resolve(), r = /x/g
    const trap = new Proxy({}, new Proxy({}, { get () { throw new Error('asked') } })), got = { get x () { throw new Error('asked') } }; undeclared = 5; var undef`)
  const { variables } = await result('describe')
  const told = Object.fromEntries(variables.map(({ name, type, summary }) => [name, [type, summary]]))
  assert.deepEqual({ ...told, t: undefined }, {
    n: ['number', '1'], t: undefined, big: ['bigint', '10n'], list: ['Array', '2 items'], map: ['Map', '1 item'], nothing: ['null', 'null'], f: ['function', 'f(a, ...b)'],
    K: ['class', 'class K'], k: ['K', '{}'], date: ['Date', '1970-01-01T00:00:00.000Z'], bytes: ['Uint8Array', 'Uint8Array of 3 items'], e: ['TypeError', 'no'],
    p: ['Promise', 'Promise'], r: ['RegExp', '/x/g'], trap: ['Proxy', 'Proxy'], got: ['Object', '{x}'], undeclared: ['number', '5'], undef: ['undefined', 'undefined']
  })
  assert.match(told.t[1], /^'a+\.\.\. \(500\)$/)
  await run('for (let i = 0; i < 1500; i++) globalThis[`v${i}`] = i')
  assert.equal((await result('describe')).variables.length, 1000)
})

test('complete', async () => {
  const { run, result } = await openContext()
  await run('const thing = { alpha: { beta: 1 }, get gamma () { throw new Error("asked") } }; let thin = "x"')
  const complete = async (code, at = [...code].length) => Object.values(await result('complete', { code, at }))
  assert.deepEqual(await complete('thin'), [['thing', 'thin'], 0, 4])
  assert.deepEqual((await complete('1 + thing.a')), [['alpha'], 10, 11])
  assert.deepEqual(await complete('thing.alpha.b'), [['beta'], 12, 13])
  assert.deepEqual(await complete('thing?.alpha . be'), [['beta'], 15, 17])
  assert.deepEqual((await complete('thing.gamma.'))[0], [])
  assert.ok((await complete('thin.'))[0].includes('toUpperCase'))
  assert.ok((await complete('"x".toUp'))[0].includes('toUpperCase'))
  assert.deepEqual(await complete('console.lo'), [['log'], 8, 10])
  assert.ok((await complete('crypto.'))[0].includes('subtle'))
  assert.deepEqual(await complete('"😀"; thing.a', 12), [['alpha'], 11, 12])
  assert.deepEqual(await complete('thing.a', 3), [['thing', 'thin', 'this'], 0, 3])
  assert.ok((await complete('whil'))[0].includes('while'))
  assert.deepEqual(await complete('nothing.here.'), [[], 13, 13])
  assert.deepEqual(await complete('', 99), [(await complete(''))[0], 0, 0])
})

test('inspect', async () => {
  const { run, text, result } = await openContext()
  const inspect = async (code, at = [...code].length, detail = 0) => (await result('inspect', { code, at, detail })).data['text/plain']
  await run(`let ran = 0; const loops = () => { ran++; for (;;); }
    function add (a, b = 2, ...more) { return a + b }
    class K extends Map { static make = async (x) => x; get size2 () { loops() } }
    const k = new K(), thing = { alpha: { beta: 1 }, get gamma () { loops() }, word: 'lemon' }
    const trap = new Proxy({}, new Proxy({}, { get: loops })), call = new Proxy(add, { apply: loops, get: loops })
    const liar = { [Symbol.toStringTag]: 'x', get [Symbol.toStringTag] () { loops() }, toString: loops, toJSON: loops, [Symbol.toPrimitive]: loops, [Symbol.for('nodejs.util.inspect.custom')]: loops, get constructor () { loops() } }
    Function.prototype.toString = Array.prototype.join = loops; const huge = 'x'.repeat(1e6), half = '\\ud83d'.repeat(300)`)
  assert.equal(await inspect('add'), 'Signature: add(a, b, ...more)\nType: function')
  assert.equal(await inspect('1 + add(1, [2], '), 'Signature: add(a, b, ...more)\nType: function')
  assert.equal(await inspect('add', 1, 1), 'Signature: add(a, b, ...more)\nType: function\nSource:\nfunction add (a, b = 2, ...more) { return a + b }')
  assert.match(await inspect('K', 1, 1), /^Signature: class K extends Map\nType: class\nSource:\nclass K extends Map \{ static/)
  assert.equal(await inspect('K.make'), 'Signature: async make(x)\nType: function')
  assert.equal(await inspect('thing.alpha.beta'), 'Value: 1\nType: number')
  assert.equal(await inspect('"😀"; thing.alpha', 12), 'Value: {beta}\nType: Object')
  assert.equal(await inspect('thing.alpha', 2), 'Value: {alpha, gamma, word}\nType: Object')
  assert.equal(await inspect('thing?.word'), "Value: 'lemon'\nType: string")
  assert.match(await inspect('thing.word.toUpperCase'), /^Signature: toUpperCase\(.*\nType: function/)
  assert.match(await inspect('console.log('), /^Signature: log\(/)
  for (const code of ['thing.gamma', 'k.size2']) assert.equal(await inspect(code), 'Value: not computed: that would run its getter\nType: getter')
  assert.equal(await inspect('trap'), 'Value: Proxy\nType: Proxy')
  assert.equal(await inspect('call', 4, 1), 'Value: Proxy\nType: Proxy')
  assert.match(await inspect('liar', 4, 1), /^Value: \{toString, toJSON, constructor\}\nType: Object/)
  for (const [code, at] of [['nosuch'], ['thing.nosuch.x'], ['trap.x'], ['thing.gamma.x'], ['', 0], ['f(', 99], ['"text".length'], ['while'], ['1 + ']]) assert.equal(await inspect(code, at), undefined, code)
  assert.ok((await inspect('huge')).length < 1000)
  assert.ok((await inspect('half')).length < 1000)
  assert.equal(await text('ran'), '0')
})

test('inspect asks no regular expression', async () => {
  const { run, text, result } = await openContext()
  const inspect = async (code) => (await result('inspect', { code, at: code.length, detail: 0 })).data['text/plain']
  await run(`let ran = 0; const count = () => { ran++; return null }, long = 'word '.repeat(50), expression = /a\\/b/gi
    Object.defineProperty(expression, 'source', { get: count }); Object.defineProperty(expression, 'flags', { get: count }); RegExp.prototype.exec = count`)
  assert.equal(await inspect('expression'), 'Value: /a\\/b/gi\nType: RegExp')
  assert.match(await inspect('long'), /^Value: 'word word /)
  assert.equal(await text('ran'), '0')
})

test('isComplete', async () => {
  const { run, text, result } = await openContext()
  await run('let n = 1')
  const judged = { complete: ['n = 2', '', 'function f () {\n}', '{ a: 1, b: 2 }', 'await 0', '// a', 'import fs from "fs"', '`a`', 'if (n) {\n}'],
    incomplete: ['function f () {', '`abc', '`a${', '/* a', 'f(1,', '[', '"a\\\n', 'n +', 'x.', 'if (n)', '{ a: 1, b:', 'const x', 'class A {', 'a ? b', 'do', 'try {}'],
    invalid: ['let x = )', '"abc', ']', 'f(1))', 'n = = 1', '/abc', 'let x; let x', 'return 1', 'let x: number'],
    unknown: ['('.repeat(100000)] }
  for (const status of Object.keys(judged)) for (const code of judged[status]) assert.equal((await result('isComplete', { code })).status, status, code.slice(0, 40))
  assert.deepEqual(await result('isComplete', { code: '  if (n) {' }), { status: 'incomplete', indent: '    ' })
  assert.equal(await text('n'), '1')
})
