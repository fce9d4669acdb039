// Translation of TypeScript: the code that runs, the code that is refused, and the places of errors.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { after, test } from 'node:test'
import vm from 'node:vm'
import { brotliCompressSync, brotliDecompressSync, constants } from 'node:zlib'
import { folder, start, withAgent } from './harness.mjs'

const agent = start()
after(() => agent.stop())
const ask = (code, params) => agent.ask('call', {
  code, filename: 'main.ts', function: null, args: [], holes: [], kwargs: {}, order: null, resultBytes: 1 << 20, globals: {}, imports: {}, ...params
})
const undef = { $: 'undefined' }

const DECORATORS = `const _twice = (v: any, c: ClassMethodDecoratorContext) => function (this: any, ...a: any[]) { return v.apply(this, a) * 2 }
const _marked = (v: any, c: ClassDecoratorContext): void => { v.mark = c.name }
const _doubled = (v: any, c: any) => ({ get(this: any) { return v.get.call(this) * 2 } })\n`
const JSX = 'const React = { createElement: (tag: any, ...rest: unknown[]) => [tag.name ?? tag, ...rest] }\n'
const runs = [
  ['a function with types', 'interface P { x: number }\nfunction f<T extends P>(p: T, n = 1): number { return p.x + n }', { args: [{ x: 2 }] }, 3],
  ['an arrow with a type of its own', 'type F = (a: number) => number\nconst f: F = (a) => a * 2', { args: [4] }, 8],
  ['a function in parentheses', 'const f = ((a: number) => a + 1) as (a: number) => number', { args: [4] }, 5],
  ['overloads', 'function f(a: string): string\nfunction f(a: number): number\nfunction f(a: any) { return a }', { args: [7] }, 7],
  ['async', 'const f = async <T,>(x: T): Promise<T[]> => [x]', { args: [1] }, [1]],
  ['an async generator', 'async function* f(n: number): AsyncGenerator<number> { for (let i = 0; i < n; i++) yield i }', { args: [3] }, [0, 1, 2]],
  ['an exported function', 'import { basename } from "node:path"\nexport function f(p: string): string { return basename(p) }', { args: ['/a/b'] }, 'b'],
  ['a method of an exported object', 'class K { #k: number = 2; mul(a: number): number { return a * this.#k } }\nexport const api = new K()', { function: 'api.mul', args: [4] }, 8],
  ['abstract classes, fields, accessors', 'abstract class A { abstract n(): number; protected x?: string; get twice(): number { return this.n() * 2 } }\n' +
    'class B extends A { override n(): number { return 4 } }\nfunction f(): number { return new B().twice }', {}, 8],
  ['satisfies, as const, !', 'const o = { a: 1 } as const satisfies Record<string, number>\nfunction f(m?: Map<string, number>) { return [o.a, m!?.size] }', {}, [1, undef]],
  ['a body', 'const [a] = args as number[]\nreturn a! + 1', { args: [1] }, 2],
  ['a body\'s last expression', 'const a: number = args[0]\na satisfies number', { args: [5] }, 5],
  ['a body that awaits', 'const x: number = await Promise.resolve(3)\n(x as any) + 1', {}, 4],
  ['a body with an enum', 'enum E { A = 5 }\nreturn E.A + args[0]', { args: [1] }, 6],
  ['a body that ends with a value of an enum', 'enum E { A = 5, B }\nE[E.B]', {}, 'B'],
  ['an enum', 'enum E { A, B = "b", C = 1 << 3 }\nexport const f = (e: E = E.C) => [E[0], E.B, e]', {}, ['A', 'b', 8]],
  ['a const enum', 'const enum E { A = "a" }\nfunction f() { return E.A }', {}, 'a'],
  ['a namespace', 'namespace N { export const x: number = 1; export namespace M { export const y = x + 1 } }\nfunction f() { return [N.x, N.M.y] }', {}, [1, 2]],
  ['parameter properties', 'class P { constructor(private readonly a: number, public b?: string) {} sum() { return this.a } }\nfunction f() { const p = new P(3); return [p.sum(), p.b] }', {}, [3, undef]],
  ['import = and export =', 'import path = require("path")\nexport = { f: (p: string) => path.basename(p) }', { function: 'f', args: ['/x/y'] }, 'y'],
  ['import = in a module', 'import path = require("path")\nexport const f = (p: string) => path.basename(p)', { args: ['/x/y'] }, 'y'],
  ['type assertions in angles', 'const f = (x: unknown) => <number>x', { args: [1] }, 1],
  ['declarations', 'declare const nothing: number\ndeclare global { interface Array<T> { own: T } }\nfunction f() { return typeof nothing }\nexport { f }', {}, 'undefined'],
  ['imports of types', 'import { readFileSync, Stats, type Dirent } from "fs"\nimport NotThere, { Nor } from "not-there"\nimport type { X } from "x"\nexport const f = (s?: Stats, x?: X, d?: Nor) => typeof readFileSync', {}, 'function'],
  ['imports of types beside an enum', 'import { readFileSync, Stats } from "fs"\nenum E { A }\nexport const f = (s?: Stats) => typeof readFileSync', {}, 'function'],
  ['an import that only a template uses', 'import { sep, posix as p } from "path"\nexport const f = () => `${`${sep}`}${[`x`].join() + p.sep}`', {}, '/x/'],
  ['characters of every width', 'const s: string = "é日😀"; type T = "日本😀"; const f = (x?: "日"): string => s + "\t"', {}, 'é日😀\t'],
  ['a decorated method', `${DECORATORS}class A { @_twice m(n: number) { return n + 1 } @_twice static s(n?: number) { return n } }\nfunction f(a: number) { return [new A().m(a), A.s(2)] }`, { args: [1] }, [4, 4]],
  ['a decorated class', `${DECORATORS}@_marked class A { static own = 1; b() { return A.own } }\nexport const f = () => [new A().b(), (A as any).mark]`, {}, [1, 'A']],
  ['a decorated class in a body', `${DECORATORS}@_marked class A { constructor(private a: number) {} sum() { return this.a } }\nreturn [new A(args[0]).sum(), (A as any).mark]`, { args: [5] }, [5, 'A']],
  ['a decorated class and a last expression', `${DECORATORS}@_marked class A {}\nconst n: number = await Promise.resolve(2)\n;[(A as any).mark, n]`, {}, ['A', 2]],
  ['decorated fields, accessors, an exported default class', `${DECORATORS}const _plus = (v: any, c: any) => (x: number) => x + 1\nclass A { @_plus v = 1; @_plus #p = 7; @_doubled accessor w = 3; get p() { return this.#p } }\nfunction f() { const a = new A(); return [a.v, a.p, a.w] }`, {}, [2, 8, 6]],
  ['decorators with context: addInitializer, metadata', 'function _bound(v: any, c: any) { c.addInitializer(function (this: any) { this[c.name] = this[c.name].bind(this) }) }\nclass A { n = 4; @_bound m() { return this.n } }\nfunction f() { const { m } = new A(); return m() }', {}, 4],
  ['an @ that is no decorator', '/** @param a {number} */\nconst f = (a: number) => `@x ${a}` + "@y" + /@z/.source', { args: [1] }, '@x 1@y@z'],
  ['accessor', 'class A { accessor x: number = 1; static accessor y = 2; accessor: number = 5 }\nfunction f() { const a = new A(); a.x++; return [a.x, A.y, a.accessor] }', {}, [2, 2, 5]],
  ['using', 'function f() { const l: string[] = []; const open = (n: string) => ({ [Symbol.dispose]() { l.push(n) } })\n{ using a = open("a"), b: Disposable = open("b"); l.push("in") }\nfor (using c of [open("c")]) l.push("of")\nreturn l }', {}, ['in', 'b', 'a', 'of', 'c']],
  ['await using', 'async function f(using?: number) { const l: string[] = []; { await using a = { async [Symbol.asyncDispose]() { await null; l.push("a") } } }\nreturn [l, using] }', { args: [3] }, [['a'], 3]],
  ['using at the top of a body', 'const l: string[] = []\n{ using a = { [Symbol.dispose]() { l.push("end") } } }\nreturn l', {}, ['end']],
  ['an error while disposing', 'function f() { try { using a = { [Symbol.dispose]() { throw new Error("second") } }; throw new Error("first") } catch (e: any) { return [e.name, e.error.message, e.suppressed.message] } }', {}, ['SuppressedError', 'second', 'first']],
  ['JSX', `${JSX}const f = (name: string) => <p className="a">hi {name as string}</p>`, { args: ['x'] }, ['p', { className: 'a' }, 'hi ', 'x']],
  ['JSX over lines, with generics and an enum', `${JSX}enum E { A = 1 }\nconst _Row = <T,>({ of }: { of: T }) => of\nfunction f(a: number, b?: string) {\n  return <_Row of={<b/>}>\n    {...[1]}\n    <i>{E.A}</i>\n  </_Row>\n}`, { kwargs: { a: 1 } }, ['_Row', { of: ['b', null] }, 1, ['i', null, 1]]],
  ['JSX in a body', `${JSX}const x: number = 1\nif (x) {\n  return <b>{x}</b>\n}`, {}, ['b', null, 1]],
  ['JSX with a pragma', '/** @jsx h */\n/** @jsxFrag null */\nconst h = (...all: unknown[]) => all\nexport const f = () => <><b/></>', {}, [null, null, ['b', null]]],
  ['JSX of a component with a dot', `${JSX}const ui = { Box: "box" }\nconst f = () => <ui.Box a:b="1" {...{ z: 1 }}/>`, {}, ['box', { 'a:b': '1', z: 1 }]],
  ['the byte order mark', '\ufeffconst f = (x: number) => x', { args: [2] }, 2],
  ['lines of another system', 'enum E { A }\r\nconst f = (x: number) => x\r\n', { args: [2] }, 2]
]
for (const [name, code, params, expected] of runs) {
  test(`runs: ${name}`, async () => {
    const { result, error } = await ask(code, params)
    assert.deepEqual(result?.value, expected, error?.data.stack)
  })
}

const lacks = [
  ['one of no type', 'const f = (a, b?) => [a, b]'],
  ['one of a type', 'const f = (a: number, b?: string) => [a, b]'],
  ['on a line of its own', 'function f(\n  a: number,\n  b  ?: { x?: number; y: string },\n) { return [a, b] }'],
  ['behind a comment', 'function f(a: number /* ? */, b? /* c */ : string) { return [a, b] }'],
  ['in a method', 'export const api = { f(a: number, b?: string) { return [a, b] } }', 'api.f'],
  ['printed anew', 'enum E { A }\nexport const f = (a: E, b?: string) => [a, b]'],
  ['printed anew, with a comment', 'enum E { A }\nfunction f(a: E, b?: string /* c */, c?) { return [a, b] }'],
  ['printed anew, in a body of its own', 'enum E { A }\nconst f = async function (a: number, b?: string) { return [a, b] }']
]
for (const [name, code, fn = null] of lacks) {
  test(`an optional parameter may lack, another not: ${name}`, async () => {
    const { result, error } = await ask(code, { function: fn, kwargs: { a: 1 } })
    assert.deepEqual(result, { value: [1, undef], signatureSource: 'inferred' }, error?.message)
    assert.equal((await ask(code, { function: fn, kwargs: { b: 'x' } })).error?.message, "missing required argument 'a'")
  })
}

test('a type that has optional members makes no parameter optional', async () => {
  const { error } = await ask('type O = { x?: number }\nfunction f(a: { x?: number }, b: O extends string ? 1 : 2) {}', { kwargs: { a: {} } })
  assert.equal(error.message, "missing required argument 'b'")
})

test('keywords go to options, defaults stay', async () => {
  const code = 'interface O { mark?: string; size?: number }\nconst f = (name: string, { mark = ".", size }: O = {}): unknown[] => [name, mark, size]'
  assert.deepEqual((await ask(code, { args: ['a'], kwargs: { size: 2 } })).result.value, ['a', '.', 2])
})

const refused = [
  ['a type that is none', 'let x: = 3', 'SyntaxError', /^Unexpected token `=`.*\(main\.ts:1:8\)$/],
  ['its place behind tabs and wide characters', 'interface A {}\n\tlet s = "é日😀"; let y: = 3', 'SyntaxError', /\(main\.ts:2:25\)$/],
  ['its place in a body', 'return 1\nlet y: = 2', 'SyntaxError', /\(main\.ts:2:8\)$/],
  ['its place in a body\'s first line', 'return (1', 'SyntaxError', /\(main\.ts:[12]:\d+\)$/],
  ['return beside import', 'import "fs"\nreturn 1', 'SyntaxError', /^Return statement.*\(main\.ts:2:1\)$/],
  ['JSX that does not end', 'const f = () => {\n  return <div>é日😀\t</b>\n}', 'SyntaxError', /^Expected corresponding JSX closing tag for 'div' \(main\.ts:2:22\)$/],
  ['JSX without what it is made with', 'const f = () => <b/>', 'ReferenceError', /^React is not defined$/],
  ['decorators of parameters', 'class A {\n  constructor(@dec(1) private a: number) {}\n}', 'SyntaxError', /^decorators of parameters need "experimentalDecorators" in a tsconfig\.json: @dec \(main\.ts:2:15\)$/],
  ['a decorator with a mistake beside it', 'class A {\n  @dec m(): {}\n}\nlet x: = 1', 'SyntaxError', /\(main\.ts:\d:\d+\)$/],
  ['module X {}', 'module N { export const x = 1 }', 'SyntaxError', /^`module` keyword is not supported.*\(main\.ts:1:1\)$/],
  ['what V8 alone finds', 'const a: number = 1\nconst a = 2', 'SyntaxError', /^Identifier 'a' has already been declared \(main\.ts:2:7\)$/],
  ['the same printed anew', 'enum E { A }\n\nlet x = 1; let x = 2', 'SyntaxError', /\(main\.ts:3:16\)$/],
  ['the same in a module', 'export const f = 1\n export const f = 2', 'SyntaxError', /\(main\.ts:2:15\)$/],
  ['the same in a body', 'return 1; let a; let a', 'SyntaxError', /\(main\.ts:1:22\)$/],
  ['an export that is not there', 'import { nope } from "fs"\nexport const f = () => nope', 'SyntaxError', /does not provide an export named 'nope'$/],
  ['text that is no JSON', 'const f = () => JSON.parse("{")', 'SyntaxError', /JSON( at position 1.*| input)$/],
  ['several functions', 'export const a = (x: number) => x, b = (y: string) => y', 'TypeError', /several public functions \(a, b\)/],
  ['a class alone', 'interface P { x: number }\nclass A { constructor (private readonly x: number, ...args: number[]) {} }', 'TypeError', /that could take the arguments, but the class A: define a function that uses it$/, { args: [1] }],
  ['an exported class alone', 'export class A<T> { constructor (private readonly x: T) {} }', 'TypeError', /that could take the arguments, but the class A: /, { args: [1] }],
  ['code nested too deeply', `let x: ${'A<'.repeat(5e4)}1${'>'.repeat(5e4)}`, 'SyntaxError', /^the code is too large or nested too deeply: .* \(main\.ts:1:1\)$/],
  ['what comes after it', 'let x: = 1', 'SyntaxError', /\(main\.ts:1:8\)$/],
  ['an unknown keyword', 'function f(a?: number) {}', 'TypeError', /^unknown argument 'z'$/, { kwargs: { z: 1 } }],
  ['a value that cannot be sent', 'const f = (): unknown => ({ a: [() => 1] })', 'TypeError', /^\$\.a\[0\]: function cannot be sent/]
]
for (const [name, code, type, message, params] of refused) {
  test(`refused: ${name}`, async () => {
    const { result, error } = await ask(code, params)
    assert.equal(error?.data.type, type, JSON.stringify(result))
    assert.match(error.message, message)
  })
}

test('a syntax error shows the line', async () => {
  const { error } = await ask('interface A {}\n\tlet x: = 3')
  assert.match(error.data.stack, /^main\.ts:2:9\n\tlet x: = 3\n\t {7}\^\n\nSyntaxError: /)
})

const FAILS = 'function fail(x: string): never {\n  const at: number = 1;      throw new RangeError(x as string)\n}\nexport const f = (a?: number): void => {\n\n  fail("here")\n}'
const places = /^RangeError: here\n {4}at fail \(main\.ts:(\d+):(\d+)\)\n {4}at f \(main\.ts:(\d+):(\d+)\)$/
const where = (stack) => places.exec(stack)?.slice(1).map(Number)

test('a stack tells the places of the user', async () => {
  const { error } = await ask(FAILS)
  assert.deepEqual(where(error.data.stack), [2, 36, 6, 3], error.data.stack)
})

test('a stack of code that was printed anew, also where the code reads it', async () => {
  const { error } = await ask(`${FAILS}\nenum E { A }`)
  assert.deepEqual(where(error.data.stack), [2, 36, 6, 3], error.data.stack)
  const body = await ask('enum E { A }\nconst e = new Error("x")\nnamespace N { export const c = 1 }\n\n\nreturn [E.A, N.c, e.stack, new Error("y").stack]')
  assert.match(body.result.value[2], /main\.ts:2:/)
  assert.match(body.result.value[3], /main\.ts:6:/)
})

test('a body shows the line as it was written', async () => {
  const shown = /^main\.ts:3:15\n\(null as any\)\.x\n {14}\^\n\nTypeError: .*\n {4}at main\.ts:3:15$/
  assert.match((await ask('const alone: number = 1;\n\n(null as any).x')).error.data.stack, shown)
  assert.match((await ask('enum E { A }\n\n(null as any).x')).error.data.stack, shown)
})

test('what formats stacks for the user stays', async () => withAgent({}, async ({ call }) => {
  const code = 'enum E { A }\nfunction f() { Error.prepareStackTrace = (e, sites) => sites.length > 0; return new Error("x").stack }'
  assert.equal(await call(code), true)
}))

test('what user code does to built-ins does not reach the next translation', async () => withAgent({ asTemplate: true }, async ({ prepare, result, call }) => {
  await prepare(`const fail = (): never => { throw new Error('mine') }
    TextDecoder.prototype.decode = TextEncoder.prototype.encodeInto = fail
    String.prototype.replace = WebAssembly.Module = WebAssembly.Instance = Map = Reflect.apply = Reflect.get = JSON.parse = fail`)
  await result('freeze')
  assert.equal(await call('enum E { A = 3 }\nfunction f(x?: number): number { return E.A }'), 3)
}))

test('large code', async () => {
  const lines = Array.from({ length: 3000 }, (_, i) => `  const x${i}: number = a + ${i}; if (x${i}) { a += 1 }`).join('\n')
  assert.equal((await ask(`function f(a: number, b?: string): number {\n${lines}\nreturn a }`, { args: [1] })).result.value, 3001)
  const members = Array.from({ length: 3000 }, (_, i) => `A${i}`)
  assert.equal((await ask(`enum Large { ${members} }\nexport const f = () => Large.A7`)).result.value, 7)
})

test('a set-up, and what is called after it', async () => withAgent({ asTemplate: true }, async ({ prepare, result, call }) => {
  await prepare('import { sep } from "node:path"\nexport enum Color { Red = "red" }\nexport const limit: number = 10\nexport function twice(x: number, y?: number): number { return x * 2 }\nexport const s = sep')
  await result('freeze')
  assert.deepEqual(await call('declare const limit: number\nconst f = (c: string): unknown[] => [limit, Color.Red === c, twice(2 as number), s]', { args: ['red'] }), [10, true, 4, '/'])
}))

test('a set-up that fails names its place', async () => withAgent({ asTemplate: true }, async ({ prepare, fails }) => {
  assert.match((await fails(prepare('const a: = 1', { filename: 'prefix.ts' }))).message, /\(prefix\.ts:1:10\)$/)
  assert.match((await fails(prepare('enum E { A }\n\nthrow new Error("no")', { filename: 'prefix.ts' }))).data.stack, /prefix\.ts:3:/)
}))

test('what the host declares', async () => withAgent({}, async ({ call, asked }) => {
  const globals = { add: { kind: 'function' }, LIMIT: { kind: 'value', value: 7 } }
  const imports = { db: { members: { find: { kind: 'function' } } }, own: { source: 'import { find } from "db"\nexport enum E { A = 2 }\nexport const look = (x: number): Promise<unknown> => find(x as any)' } }
  const code = 'import { look, E } from "own"\ndeclare function add(...x: number[]): Promise<number[]>\nexport const f = async (): Promise<unknown> => [await add(1, 2), LIMIT, await look(E.A)]'
  assert.deepEqual(await call(code, { globals, imports }), [[1, 2], 7, [2]])
  assert.deepEqual(asked, ['global/add', 'import/db/find'])
}))

test('the bare realm: modules, their imports, errors', async () => withAgent({}, async ({ evaluate, fails, told }) => {
  const imports = { lib: { source: 'export enum E { A = 5 }\nexport interface I { x: number }\nexport const boom = (): never => {\n  throw new TypeError("lib") }' } }
  assert.deepEqual(await evaluate('import { E, I } from "lib"\nconst v: I = { x: E.A }\nexport default v.x as number', { imports, filename: 'main.ts' }), { default: 5 })
  const failed = await fails(evaluate('enum E { A }\nimport { boom } from "lib"\n\nboom()', { imports, filename: 'main.ts' }))
  assert.equal(failed.data.code, 'ERR_USER_CODE')
  assert.match(failed.data.stack, /^TypeError: lib\n {4}at boom \(lib:4:\d+\)\n {4}at main\.ts:4:1/)
  const broken = (await fails(evaluate('let x: = 1', { filename: 'main.ts' }))).data
  assert.deepEqual([broken.code, broken.name], ['ERR_COMPILE', 'SyntaxError'])
  assert.match(broken.message, /\(main\.ts:1:8\)$/)
  await evaluate('enum E { A }\n\nconsole.error(new Error("seen"))', { filename: 'main.ts' })
  assert.match(told.find(([method]) => method === 'console')[1].text, /main\.ts:3:15/)
}))

test('the bare realm: using and decorators', async () => withAgent({}, async ({ evaluate }) => {
  const code = 'const l: string[] = []; const d = (v: any, c: ClassDecoratorContext): void => { l.push(c.kind) }\n@d class A { [Symbol.dispose]() { l.push("end") }; async [Symbol.asyncDispose]() { l.push("later") } }\n{ using a = new A(); await using b = new A() }\nexport default l'
  assert.deepEqual(await evaluate(code, { filename: 'main.ts' }), { default: ['class', 'later', 'end'] })
}))

test('kept code of the compiler is used by the Node that it was made for, and refused by others', async () => {
  const own = join(scratch, 'other-node')
  cpSync(folder, own, { recursive: true })
  const kept = join(own, 'typescript.code.br')
  const rejected = (filename) => { // another name each time, or V8 would take the code from its own memory
    const host = {
      require: createRequire(import.meta.url),
      hasFile: () => true,
      readFile: (name) => readFileSync(join(own, name)),
      evaluateScript (name, text, cachedData) { throw new vm.Script(text, { filename, cachedData }).cachedDataRejected } // eslint-disable-line no-throw-literal
    }
    const { compile } = vm.compileFunction(readFileSync(join(own, 'compiler.cjs'), 'utf8'), ['host'])(host)
    try { compile('1', { settings: {} }) } catch (thrown) { return thrown }
  }
  assert.equal(rejected('first'), false)
  const code = brotliDecompressSync(readFileSync(kept))
  code[4] ^= 1 // V8's version
  writeFileSync(kept, brotliCompressSync(code, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }))
  assert.equal(rejected('second'), true)
  const decorated = 'function _twice(method: any) { return () => 2 * method() }\nclass A { @_twice static m(): number { return 21 } }\nfunction f() { return A.m() }'
  for (const prepare of [() => {}, () => rmSync(kept)]) {
    prepare()
    await withAgent({ agent: join(own, 'agent.cjs') }, async ({ call }) => assert.equal(await call(decorated), 42))
  }
})

test('the bare realm meets nothing of the main one', async () => withAgent({}, async ({ evaluate }) => {
  assert.deepEqual(await evaluate('enum E { A }\nexport default [typeof Error.prepareStackTrace, new Error("x").stack!.length > 0]', { filename: 'main.ts' }), { default: ['undefined', true] })
}))

const scratch = mkdtempSync(join(tmpdir(), 'script-'))
after(() => rmSync(scratch, { recursive: true }))
function script (code, { argv = [], input = '', files = {} } = {}) {
  rmSync(scratch, { recursive: true })
  for (const [name, text] of Object.entries({ ...files, 'main.ts': code })) {
    mkdirSync(dirname(join(scratch, name)), { recursive: true })
    writeFileSync(join(scratch, name), text)
  }
  const { status, stdout, stderr } = spawnSync(process.execPath, ['--experimental-vm-modules', '--no-warnings', `${folder}agent.cjs`, join(scratch, 'main.ts'), ...argv], { cwd: scratch, input, encoding: 'utf8' })
  return { status, stdout, stderr }
}

test('a script: arguments, input, exit code', () => {
  const code = `import { readFileSync } from 'node:fs'
    enum E { A = 1 }
    const text: string = readFileSync(0, 'utf8')
    console.log(E[1], text, process.argv.slice(2))
    process.exitCode = 3`
  assert.deepEqual(script(code, { argv: ['x', '-y'], input: 'in' }), { status: 3, stdout: "A in [ 'x', '-y' ]\n", stderr: '' })
})

test('a script is the main module, and what it throws is told in its places', () => {
  const { status, stdout, stderr } = script('function main(): void {\n  throw new TypeError("x" as string)\n}\nconsole.log(1)\nif (require.main === module) main()')
  assert.deepEqual([status, stdout], [1, '1\n'])
  assert.match(stderr, /^TypeError: x\n {4}at main \(main\.ts:2:9\)\n {4}at main\.ts:5:30\n$/)
})

test('a script that is none', () => {
  const { status, stderr } = script('console.log("not run")\nlet x: = 3')
  assert.equal(status, 65)
  assert.match(stderr, /^main\.ts:2:8\nlet x: = 3\n {7}\^\n/)
})

test('a script that takes what nothing caught', () => {
  const code = 'process.on("uncaughtException", (e: Error): void => { console.log(e.message); process.exit(9) })\nsetTimeout((): void => { throw new Error("late") }, 1)'
  assert.deepEqual(script(code), { status: 9, stdout: 'late\n', stderr: '' })
})

const FILES = {
  'types.ts': 'export interface User { name: string }\nexport type Id = string',
  'lib.ts': "import { User, Id } from './types'\nimport { shout } from './util.js'\nexport enum Role { Admin = 'admin' }\n" +
    'export class Greeter { constructor(private u: User) {} greet(): string { return shout(this.u.name) } fail(): never {\n  throw new RangeError("lib") } }\nexport const id = (x: Id): Id => x',
  'util.ts': "import { id } from './lib'\nexport const shout = (s: string): string => id(s.toUpperCase())",
  'old.cts': 'import path = require("path")\nexport = { base: (p: string): string => path.basename(p) }'
}

test('files that import each other', () => {
  const code = `import { Greeter, Role } from './lib'
    import { User } from './types.ts'
    import old from './old.cjs'
    const u: User = { name: 'ada' }
    console.log(new Greeter(u).greet(), Role.Admin, old.base('/a/b'), (await import('./util')).shout('x'))
    new Greeter(u).fail()`
  const { status, stdout, stderr } = script(code, { files: FILES })
  assert.deepEqual([status, stdout], [1, 'ADA admin b X\n'], stderr)
  assert.match(stderr, /^RangeError: lib\n {4}at Greeter\.fail \(.*\/lib\.ts:5:9\)\n {4}at main\.ts:6:20\n$/)
})

test('files that are required', () => {
  assert.equal(script("const old = require('./old.cts')\nconsole.log(old.base('/q/w'))", { files: FILES }).stdout, 'w\n')
  assert.match(script("require('./lib')", { files: FILES }).stderr, /lib\.ts is an ES module: it can be imported, not required/)
  assert.match(script("import './broken'", { files: { 'broken.ts': 'let x: = 1' } }).stderr, /broken\.ts:1:8\nlet x: = 1/)
  assert.match(script("import './absent.js'").stderr, /Cannot find module '\.\/absent/)
})

// -- tsconfig.json

const LEGACY = `const keys: unknown[] = []
const log = (t: any, k: string, d: PropertyDescriptor) => { const old = d.value; d.value = function (...a: unknown[]) { return old.apply(this, a) + 1 } }
const at = (t: any, k: any, i: number) => { keys.push([k ?? null, i]) }
function sealed<T extends { new (...a: any[]): {} }>(c: T) { return class extends c { sealed = true } }
@sealed class A { constructor(@at private n: number) {} @log m(): number { return this.n } static make() { return new A(1) } }
console.log(new A(4).m(), keys, (A.make() as any).sealed)`
const config = (compilerOptions) => ({ 'tsconfig.json': JSON.stringify({ compilerOptions }) })

test('the older decorators, by tsconfig.json', () => {
  assert.deepEqual(script(LEGACY, { files: config({ experimentalDecorators: true }) }), { status: 0, stdout: '5 [ [ null, 0 ] ] true\n', stderr: '' })
})

test('types of the older decorators', () => {
  const code = `const seen: any[] = []; (Reflect as any).metadata = (k: string, v: any) => () => { seen.push([k, v?.name ?? v]) }
    const d = (t: any, k: string) => {}
    class A { @d a!: string; @d b: number[] = [] }
    console.log(JSON.stringify(seen))`
  const { stdout, stderr } = script(code, { files: config({ experimentalDecorators: true, emitDecoratorMetadata: true }) })
  assert.equal(stdout, '[["design:type","String"],["design:type","Array"]]\n', stderr)
})

test('fields of an older target', () => {
  const code = 'const d = (t: any, k: string) => {}\nclass P { set a(v: number) { console.log("set", v) } }\nclass A extends P { @d a = 1 }\nnew A()'
  assert.equal(script(code, { files: config({ experimentalDecorators: true, target: 'ES2017' }) }).stdout, 'set 1\n')
  assert.equal(script(code, { files: config({ experimentalDecorators: true, target: 'ES2022' }) }).stdout, '')
})

test('comments, commas and what it extends', () => {
  const files = {
    'tsconfig.json': '\ufeff// mine\n{ "extends": "./base.json", /* "jsx": "x", */ "compilerOptions": { "jsxFactory": "h", /* , */ }, }',
    'base.json': '{ "compilerOptions": { "experimentalDecorators": true, "jsxFactory": "not", "paths": { "//x": ["/*"] } } }'
  }
  assert.equal(script(LEGACY, { files }).stdout, '5 [ [ null, 0 ] ] true\n')
  assert.equal(script('const h = (...a: unknown[]) => a\nconsole.log(<b/>)', { files }).stdout, "[ 'b', null ]\n")
})

test('a tsconfig.json that cannot be read', () => {
  assert.match(script(LEGACY, { files: { 'tsconfig.json': '{ "compilerOptions": ' } }).stderr, /tsconfig\.json: .*JSON/)
  assert.match(script(LEGACY, { files: { 'tsconfig.json': '{ "extends": "./tsconfig.json" }' } }).stderr, /tsconfig\.json: extends itself/)
})

test('JSX made by a module: pragma and tsconfig.json', () => {
  const files = {
    'node_modules/made/jsx-runtime.js': 'exports.jsx = exports.jsxs = (tag, props) => [tag, props]; exports.Fragment = "all"',
    'node_modules/made/package.json': '{}'
  }
  const code = 'const n: number = 1\nconsole.log(JSON.stringify(<><b a={n}>x</b></>))'
  const expected = '["all",{"children":["b",{"a":1,"children":"x"}]}]\n'
  assert.equal(script(`/** @jsxImportSource made */\n${code}`, { files }).stdout, expected)
  assert.equal(script(`/** @jsxRuntime automatic */\n/** @jsxImportSource made */\nimport { sep } from 'path'\nvoid sep\n${code}`, { files }).stdout, expected)
  assert.equal(script(code, { files: { ...files, ...config({ jsx: 'react-jsx', jsxImportSource: 'made' }) } }).stdout, expected)
})

test('files with JSX', () => {
  const files = {
    'view.tsx': "import type { User } from './types'\nconst h = (...a: unknown[]) => a\n/** @jsx h */\nexport const View = ({ of }: { of: User }) => <b>{of.name}</b>",
    'old.jsx': 'const React = { createElement: (...a) => a }\nexport default () => <i>{1}</i>'
  }
  files['view.tsx'] = `/** @jsx h */\n${files['view.tsx']}`
  assert.equal(script("import { View } from './view'\nimport old from './old.jsx'\nconsole.log(View({ of: { name: 'a' } }), old())", { files }).stdout, "[ 'b', null, 'a' ] [ 'i', null, 1 ]\n")
  assert.equal(script("import { View } from './view.jsx'\nconsole.log(View({ of: { name: 'a' } }))", { files }).stdout, "[ 'b', null, 'a' ]\n")
})

test('paths', () => {
  const files = {
    ...config({ paths: { '@/*': ['./src/*'], 'lib-one': ['./gone.ts', './src/one.ts'], '*-icon': ['./src/icons/*'], '*': ['./src/fallback/*'] } }),
    'src/one.ts': "import { two } from '@/deep/two'\nexport const one = (): number => two() - 1",
    'src/deep/two.ts': 'export const two = (): number => 2',
    'src/icons/red.cts': 'export = "red"',
    'src/fallback/extra.ts': 'export const extra = 3'
  }
  const code = "import { one } from 'lib-one'\nimport { two } from '@/deep/two.js'\nimport red from 'red-icon'\nimport { extra } from 'extra'\nimport { sep } from 'path'\nconsole.log(one(), two(), red, extra, sep, (await import('@/one')).one())"
  assert.deepEqual(script(code, { files }), { status: 0, stdout: '1 2 red 3 / 1\n', stderr: '' })
  assert.equal(script("console.log(require('red-icon'))", { files }).stdout, 'red\n')
  assert.match(script("import '@/none'", { files }).stderr, /Cannot find module '@\/none'/)
})

test('paths from baseUrl', () => {
  const files = { ...config({ baseUrl: './src', paths: { '#/*': ['deep/*'] } }), 'src/deep/two.ts': 'export const two = (): number => 2' }
  assert.equal(script("import { two } from '#/two'\nimport * as all from 'deep/two'\nconsole.log(two(), all.two())", { files }).stdout, '2 2\n')
})
