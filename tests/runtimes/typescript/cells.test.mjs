// Contexts in TypeScript: cells are translated, and are then as JavaScript's.
import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { openContext } from '../javascript/contexts.mjs'

const context = await openContext({ language: 'typescript' })
const { run, text, error } = context

test('types are taken away, names stay', async () => {
  assert.equal(await text('interface P { x: number }\nconst p: P = { x: 1 }\nlet later!: number | undefined\nfunction f<T> (a: T, b?: T): T { return a }\np'), '{ x: 1 }')
  assert.equal(await text('type N = number\nlet q: N = await Promise.resolve(f<N>(p.x)); abstract class A<T> { declare t: T; constructor (readonly n = 1) {} }\nq as unknown satisfies unknown'), '1')
  assert.equal(await text('class B extends A<string> {}\n[new B().n, later, q!]'), '[ 1, undefined, 1 ]')
  assert.equal((await error('const p2: P = p; p2 = p')).message, 'Assignment to constant variable.')
  assert.equal(await text('{ a: 1, b: <number>2 }'), '{ a: 1, b: 2 }')
  assert.equal(await text('export const shared: number = 5\nshared'), '5')
})

test('enums and namespaces begin anew with their cell', async () => {
  assert.equal(await text('enum E { A, B = "b" }\nE'), "{ '0': 'A', A: 0, B: 'b' }")
  assert.equal(await text('enum E { C }\nE'), "{ '0': 'C', C: 0 }")
  assert.equal(await text('namespace S { export const c: number = E.C, d = 1 }\nS'), '{ c: 0, d: 1 }')
  assert.equal(await text('namespace S { export const c: number = 2 }\nS'), '{ c: 2 }')
})

test('decorators, JSX and using', async () => {
  assert.equal(await text('const mark = (v: any, c: ClassDecoratorContext): void => { v.mark = c.name }\n@mark class D { accessor a: number = 1 }\n[(D as any).mark, new D().a]'), "[ 'D', 1 ]")
  assert.equal(await text('@mark class D { b = 2 }\nnew D().b'), '2')
  assert.equal(await text('const React = { createElement: (...all: unknown[]) => all }; const shown = <b>{(D as any).mark}</b>\nshown'), "[ 'b', null, 'D' ]")
  assert.equal(await text('const seen: string[] = []; { using u = { [Symbol.dispose]() { seen.push("end") } } }\nawait null; seen'), "[ 'end' ]")
})

test('imports stay for later cells, used or not; types among them are nothing', async () => {
  writeFileSync(join(context.cwd, 'lib.ts'), 'export interface Shape { x: number }\nexport const make = (x: number): Shape => ({ x })\n')
  assert.deepEqual(await run("import { make, Shape } from './lib'; import fs, { readFileSync, type PathLike } from 'node:fs'"), [])
  assert.equal(await text('const s: Shape = make(2); [s.x, typeof readFileSync, typeof fs]'), "[ 2, 'function', 'object' ]")
  assert.deepEqual(await run("import { sep } from 'node:path'\nenum Unused { A }"), [])
  assert.equal(await text("import os = require('node:os')\n[sep, typeof os.cpus]"), "[ '/', 'function' ]")
})

test('errors have the cell\'s places', async () => {
  const head = 'type X = number; '
  assert.deepEqual((await error(`${head}function g (x: X): never {\n  throw new RangeError('far')\n}\ng(1 as X)`, { count: 1 })).traceback, ['RangeError: far', '    at g (Cell In[1]:2:9)', '    at Cell In[1]:4:1'])
  assert.deepEqual((await error("enum Color { Red }\nclass D { constructor (private z: Color) {}\n  get (): number { throw new Error('printed') } }\nnew D(Color.Red).get()", { count: 2 })).traceback.slice(0, 2), ['Error: printed', '    at D.get (Cell In[2]:3:26)'])
  const { name, message, traceback } = await error('let ok: number\nlet x: = 5', { count: 3 })
  assert.deepEqual([name, traceback.slice(0, 4)], ['SyntaxError', ['Cell In[3]:2:8', 'let x: = 5', '       ^', '']])
  assert.ok(message.endsWith(' (Cell In[3]:2:8)'), message)
  assert.match((await error('let once = 1; let once = 2', { count: 4 })).message, /^Identifier 'once' has already been declared \(Cell In\[4\]:1:\d+\)$|^the name `once` is defined multiple times/)
  assert.equal((await error('@decorated class D2 {}')).message, 'decorated is not defined')
  assert.match((await error('return 1')).name, /SyntaxError/)
})

test('isComplete', async () => {
  const { result } = context
  const judged = { complete: ['let m: number = 2', 'enum Color { Red }', 'interface I { a: string }', 'type T = { a: number }', '{ a: 1, b: <number>2 }', 'f<number>(1)', 'await null as unknown', 'const React = 1'],
    incomplete: ['function f (a: number): number {', 'interface I {', 'type T =', 'let x: {', 'const a: number[] = [', '`abc', '/* a', '"a\\\n', 'f(1, // a comment', 'enum E { A,', 'let \u00e9\u{1f600}2: string = (', '\tlet x =', 'class A {\n  x: number', 'const x', '@d class D {', '{ a: 1, b:'],
    invalid: ['let x = )', 'let x: = 5', '"abc', ']', 'f(1))', 'let x: number = 1; let x = 2', 'return 1', '/abc'],
    unknown: ['('.repeat(100000)] }
  for (const status of Object.keys(judged)) for (const code of judged[status]) assert.equal((await result('isComplete', { code })).status, status, code.slice(0, 40))
  assert.equal(await text('p'), '{ x: 1 }')
  assert.match((await result('inspect', { code: 'make', at: 4, detail: 1 })).data['text/plain'], /^Signature: make\(x\)/)
})
