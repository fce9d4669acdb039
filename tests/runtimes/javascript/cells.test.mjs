// Contexts: displays, output and input of cells, their failures, and interrupts.
import assert from 'node:assert/strict'
import { existsSync, readFileSync, unlinkSync } from 'node:fs'
import { test } from 'node:test'
import { makeFolder, openContext, startLanguage } from './contexts.mjs'

const context = await openContext()
const { run, shown, text, error, printed, between, interrupt, interruptBetween } = context
const CHART = 'application/vnd.cloche.chart+json'
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='

// -- requests

test('open: where and with what; what is wrong is refused by name', async () => {
  const agent = startLanguage('javascript')
  const refused = async (method, params) => {
    const { error } = await agent.ask(method, params)
    return [error.code, error.message]
  }
  assert.deepEqual(await refused('cell', { code: '1', count: 1 }), [-32600, 'no context is open here: `open` comes before `cell`'])
  assert.deepEqual(await refused('enter', {}), [-32600, 'no context is open here: `open` comes before `enter`'])
  assert.deepEqual(await refused('open', { language: 'python' }), [-32602, 'params.language is "python": this is the agent of javascript'])
  assert.deepEqual(await refused('open', { env: { 'A=': 'x' } }), [-32602, 'params.env["A="] is no variable of an environment: a name without =, and text, neither with NUL'])
  assert.deepEqual(await refused('open', { env: [] }), [-32602, 'params.env: expected object, found array'])
  assert.match((await refused('open', { cwd: '/proc/nowhere' }))[1], /^the context cannot be in \/proc\/nowhere: /)
  const cwd = `${makeFolder()}/a/b`
  assert.deepEqual(await agent.result('open', { cwd, env: { COLOUR: 'blue' }, language: 'javascript' }), { pid: agent.child.pid, interpreter: `Node ${process.versions.node}` })
  assert.deepEqual(await refused('open', {}), [-32600, 'a context is open here already'])
  assert.deepEqual(await refused('cell', { code: 5, count: 1 }), [-32602, 'params.code: expected string, found number'])
  assert.deepEqual(await refused('cell', { code: '', count: -1 }), [-32602, 'params.count is -1: expected a whole number from 0'])
  assert.match((await refused('branch', {}))[1], /no context that was made to be forked/)
  assert.equal((await refused('branch', {}))[0], -32001)
  await agent.result('cell', { code: '[process.cwd(), process.env.COLOUR]', count: 1 })
  assert.deepEqual(agent.told[0][1].data['application/json'], [cwd, 'blue'])
})

// -- results

test('the last expression is the result', async () => {
  assert.deepEqual(await run('1 + 1'), [{ data: { 'text/plain': '2' }, metadata: {}, isResult: true }])
  for (const [code, expected] of [
    ['null', 'null'], ["'it\\'s'", '"it\'s"'], ['[]', '[]'], ['10n', '10n'], ['-0', '-0'], ['new Map([[1, { a: 1 }]])', 'Map(1) { 1 => { a: 1 } }'], ['Promise.resolve(3)', '3'], ['({ a: 1 })', '{ a: 1 }'],
    ['{ a: 1, b: 2 }', '{ a: 1, b: 2 }'], ['{}', '{}'], ['1; 2; // end', '2'], ['(1, 2) /* end */', '2'], ["'use strict'", "'use strict'"], ['5;;', '5'], ['`\n`', "'\\n'"], ['Symbol("s")', 'Symbol(s)'],
    ['#!/usr/bin/node\n7', '7'], ['await 1; [2]', '[ 2 ]'], ['a => a', '[Function (anonymous)]']
  ]) assert.equal(await text(code), expected, code)
  for (const code of ['', '// nothing', 'undefined', 'let a', 'if (1) { 2 }', '{ let b = 1 }', '{ a: 1 };', 'function f () {}', 'for (;;) { break }', 'Promise.resolve()']) assert.deepEqual(await run(code), [], code)
  assert.deepEqual(await run('3', { silent: true }), [])
})

test('what JSON holds as it is comes as JSON too', async () => {
  const json = async (code) => (await shown(code))['application/json']
  assert.deepEqual(await json('({ a: [1, "x", null, true, 1.5], "": {}, $: 1 })'), { a: [1, 'x', null, true, 1.5], '': {}, $: 1 })
  for (const code of ['({ a: undefined })', '[,1]', '[NaN]', '[-0]', '[1e20]', '[1n]', '({ get a () { throw 1 } })', 'new (class A { x = 1 })()', '[new Date(0)]', 'const own = []; own.push(own); own', 'new Proxy([], {})',
    'Array(20000).fill(1)', 'Object.assign([1], { x: 1 })', '({ [Symbol("s")]: 1 })', 'let deep = []; for (let i = 0; i < 200; i++) deep = [deep]; deep']) assert.equal(await json(code), undefined, code)
  assert.deepEqual(await json('const shared = [1]; [shared, shared]'), [[1], [1]])
})

// -- displays

test('display, in order with the result', async () => {
  const displays = await run(`display(1); display.html('<b>x</b>'); display.markdown('# m'); display.latex('$x$'); display.svg('<svg/>'); display.json({ a: 1 }); display.javascript('x()')
    display({ plain: true }, { id: 'one', metadata: { k: [1] } }); display('new', { id: 'one', update: true }); 'end'`)
  assert.deepEqual(displays.map(({ data }) => data), [
    { 'text/plain': '1' }, { 'text/html': '<b>x</b>' }, { 'text/markdown': '# m' }, { 'text/latex': '$x$' }, { 'image/svg+xml': '<svg/>' }, { 'application/json': { a: 1 } }, { 'application/javascript': 'x()' },
    { 'text/plain': '{ plain: true }', 'application/json': { plain: true } }, { 'text/plain': "'new'" }, { 'text/plain': "'end'" }
  ])
  assert.deepEqual(displays.slice(7).map(({ displayId, isUpdate, metadata, isResult }) => [displayId, isUpdate, metadata, isResult]), [['one', undefined, { k: [1] }, false], ['one', true, {}, false], [undefined, undefined, {}, true]])
})

test('bytes: pictures, from buffers and base64', async () => {
  const bytes = Buffer.from(PIXEL, 'base64')
  const displays = await run(`display.png('${PIXEL}'); display.jpeg(Buffer.from('${PIXEL}', 'base64')); display.pdf(new Uint8Array([1, 2]).buffer); display.png('no base64!')`)
  assert.deepEqual(displays.map(({ data }) => data), [{ 'image/png': bytes }, { 'image/jpeg': bytes }, { 'application/pdf': Buffer.from([1, 2]) }, {}])
  assert.deepEqual(displays[3].metadata, { 'image/png': { error: 'this is no base64' } })
})

test('objects say what they look like', async () => {
  await run("const look = Symbol.for('Jupyter.display'); const own = (data) => ({ [look]: () => data })")
  assert.deepEqual(await shown("own({ 'text/html': '<i>', 'text/plain': 'i', 'application/json': new Date(0), 'image/x': undefined })"), { 'text/html': '<i>', 'text/plain': 'i', 'application/json': '1970-01-01T00:00:00.000Z' })
  const displays = await run("display({ [look]: async () => { await new Promise((r) => setTimeout(r, 5)); return { 'text/plain': 'slow' } } }); display('fast'); own(Promise.resolve({ 'text/plain': 'last' }))")
  assert.deepEqual(displays.map(({ data }) => data['text/plain']), ['slow', "'fast'", 'last'])
  assert.equal((await error("({ [look] () { throw new RangeError('ugly') } })")).name, 'RangeError')
  assert.equal((await error("display({ [look]: async () => { throw new RangeError('ugly') } })")).message, 'ugly')
  assert.match((await error('own(5)')).message, /a display is an object of kinds and their data, not number/)
  assert.deepEqual((await run("own({ 'application/json': 1n, 'text/plain': 'x' })"))[0], { data: { 'text/plain': 'x' }, metadata: { 'application/json': { error: 'Do not know how to serialize a BigInt' } }, isResult: true })
  assert.equal((await error('display.html(5)')).message, 'display.html wants text, not number')
})

test('charts', async () => {
  const chart = { type: 'line', title: 'T', xLabel: 'x', elements: [{ label: 'a', points: [[1, 2], [2, null]] }] }
  assert.deepEqual(await shown(`display.chart({ type: 'line', title: 'T', xLabel: 'x', elements: [{ label: 'a', points: [[1, 2], [2, NaN]] }] })`), { [CHART]: chart, 'text/plain': "<line chart 'T'>" })
  assert.equal((await error("display.chart({ type: 'lines' })")).message, 'chart.type is "lines": expected one of line, scatter, bar, histogram, pie, box_and_whisker, heatmap, superchart')
  assert.equal((await error("display.chart({ type: 'superchart', elements: [{ type: 'pie', elements: [{ label: 'a' }] }] })")).message, 'chart.elements[0].elements[0].angle is missing: an element of a pie has label, angle')
})

test('clear', async () => {
  assert.deepEqual(await run('display(1); display.clear(); display.clear({ wait: true })'), [{ data: { 'text/plain': '1' }, metadata: {}, isResult: false }, { clear: { wait: false } }, { clear: { wait: true } }])
})

test('what is too large lies in a file', async () => {
  const [{ data, metadata }] = await run("display.html('ü'.repeat(3000))", { storeBytes: 1000 })
  assert.deepEqual(data, { 'text/plain': '<text/html of 6000 bytes>' })
  assert.match(metadata.stored.path, /^\/tmp\/\.cloche-display\/[0-9a-f]{16}\.html$/)
  assert.deepEqual([metadata.stored.mime, metadata.stored.bytes, readFileSync(metadata.stored.path, 'utf8')], ['text/html', 6000, 'ü'.repeat(3000)])
  unlinkSync(metadata.stored.path)
  const [{ data: short, metadata: { stored } }] = await run("'x'.repeat(5000)", { storeBytes: 1000 })
  assert.match(short['text/plain'], /^'x{999}\.\.\. \(5002 characters in all\)$/)
  assert.ok(existsSync(stored.path))
  unlinkSync(stored.path)
  assert.deepEqual((await run('1', { storeBytes: 1000 }))[0].metadata, {})
})

test('lone surrogates are no text on the wire', async () => {
  assert.deepEqual(await shown("display.html('a\\ud800b')"), { 'text/html': 'a\ufffdb' })
  assert.equal((await error("throw new Error('\\udc00')")).message, '\ufffd')
})

// -- errors

test('errors have the cell\'s places and no frames of the agent', async () => {
  assert.deepEqual(await error('function thrower () {\n  throw new RangeError("far")\n}\n  thrower()', { count: 3 }),
    { name: 'RangeError', message: 'far', traceback: ['RangeError: far', '    at thrower (Cell In[3]:2:9)', '    at Cell In[3]:4:3'] })
  assert.deepEqual((await error('thrower()', { count: 4 })).traceback, ['RangeError: far', '    at thrower (Cell In[3]:2:9)', '    at Cell In[4]:1:1'])
  assert.deepEqual((await error('await 0; null.x', { count: 5 })).traceback, ["TypeError: Cannot read properties of null (reading 'x')", '    at Cell In[5]:1:15'])
  assert.deepEqual((await error('1\nawait thrower()', { filename: 'mine.js' })).traceback.slice(-1), ['    at mine.js:2:7'])
  assert.deepEqual((await error('let ok = 1; class Thrower { constructor () { thrower() } }\nconst { a } = new Thrower()', { count: 6 })).traceback.slice(2), ['    at new Thrower (Cell In[6]:1:46)', '    at Cell In[6]:2:15'])
  assert.deepEqual((await error("new Error('outer', { cause: new TypeError('inner') }).nothing.x; ")).name, 'TypeError')
  assert.ok((await error("throw new Error('outer', { cause: new TypeError('inner') })")).traceback.includes('Caused by: TypeError: inner'))
  assert.deepEqual(await error('throw { odd: 1 }'), { name: 'Uncaught', message: '{ odd: 1 }', traceback: ['Uncaught: { odd: 1 }'] })
  assert.deepEqual((await error('await Promise.reject(null)')).message, 'null')
  assert.ok((await error('(function deep () { deep() })()')).traceback.length < 500)
})

test('syntax errors show the line', async () => {
  assert.deepEqual(await error('let ok\nlet = = 5', { count: 1 }), { name: 'SyntaxError', message: "Unexpected token '='", traceback: ['Cell In[1]:2', 'let = = 5', '      ^', '', "SyntaxError: Unexpected token '='"] })
  assert.deepEqual(await error('await f()\nfoo(', { count: 2 }), { name: 'SyntaxError', message: 'Unexpected token', traceback: ['Cell In[2]:2', 'foo(', '    ^', '', 'SyntaxError: Unexpected token'] })
  assert.equal((await error('return 1')).message, 'Illegal return statement')
  for (const code of ['const shown = <b>hi</b>', 'await f(<b/>)']) assert.match((await error(code)).message, /^JSX is not JavaScript: give the code as typescript, which compiles it/)
  assert.doesNotMatch((await error('const s = "<b>hi</b>"; < 1')).message, /JSX/)
  assert.match((await error('['.repeat(100000))).name, /SyntaxError|RangeError/)
  assert.equal(await text('1'), '1')
})

test('an end of the process is an error of the cell', async () => {
  assert.deepEqual((await error('process.exit(3); 1', { count: 1 })), { name: 'Exit', message: 'process.exit(3) was called; the context stays', traceback: ['Exit: process.exit(3) was called; the context stays', '    at Cell In[1]:1:9'] })
  assert.equal((await error('await new Promise(() => setTimeout(() => process.exit(), 1))')).name, 'Exit')
  assert.equal(await text('thrower.name'), "'thrower'")
})

test('what nobody caught is the running cell\'s', async () => {
  assert.equal((await error('setTimeout(() => { throw new Error("in a timer") }, 1); await new Promise(() => {})')).message, 'in a timer')
  assert.equal((await error('Promise.reject(new Error("lost")); 1')).message, 'lost')
  assert.equal((await error('(async () => { await null; throw new Error("later") })(); undefined')).message, 'later')
  assert.deepEqual(await run('process.on("unhandledRejection", (e) => { globalThis.seen = e.message }); Promise.reject(new Error("mine")); undefined'), [])
  assert.equal(await text('process.removeAllListeners("unhandledRejection"); seen'), "'mine'")
})

// -- streams, and output between cells

test('what is printed comes before displays and the answer', async () => {
  await run("console.log('one'); process.stdout.write('two'); console.error('three'); display('x')")
  await printed('one\ntwo')
  await printed('three\n', 'stderr')
  await run("require('child_process').execSync('echo from a child', { stdio: 'inherit' }); undefined")
  await printed('from a child')
})

test('the event loop goes on between cells', async () => {
  await between("console.log('between'); display({ a: 1 }); throw new Error('nobody')")
  await printed('between')
  await printed('{ a: 1 }\n')
  await printed('Uncaught Error: nobody\n    at Timeout._onTimeout (Cell In[', 'stderr')
  assert.equal(await text('let ticks = 0; const timer = setInterval(() => ticks++, 1); await new Promise((r) => setTimeout(r, 30)); clearInterval(timer); ticks > 0'), 'true')
  await between("Promise.reject(new Error('first')).catch(() => {}); process.exit(1)")
  await printed('process.exit(1) was called', 'stderr')
})

// -- input

test('prompt and input', async () => {
  const asked = []
  const answers = ['Ann', { message: 'no input here' }, 'late', '']
  const input = (params) => {
    asked.push(params)
    const answer = answers.shift()
    if (typeof answer === 'object') throw answer // eslint-disable-line no-throw-literal
    return answer
  }
  const { text, between, error, printed, stop } = await openContext({ input })
  assert.equal(await text("prompt('Name? ') + '!'"), "'Ann!'")
  assert.deepEqual(await error("prompt('again', { password: true })", { count: 7 }), { name: 'Error', message: 'no input here', traceback: ['Error: no input here', '    at Cell In[7]:1:1'] })
  assert.equal(await text('await input(5)'), "'late'")
  assert.equal(await text('await 1; prompt()'), "''")
  assert.deepEqual(asked, [{ prompt: 'Name? ', password: false }, { prompt: 'again', password: true }, { prompt: '5', password: false }, { prompt: '', password: false }])
  await between('try { prompt() } catch (e) { console.log(e.message) }')
  await printed('prompt() can only be asked for while a cell runs\n')
  await stop()
})

// -- interrupts

const interrupted = { name: 'Interrupted', message: 'the cell was interrupted', traceback: ['Interrupted: the cell was interrupted'] }

async function interruptWhen (mark, code) {
  const { stdout } = context.output
  const before = stdout.length
  const answer = error(code)
  await printed(mark)
  interrupt()
  assert.deepEqual(await answer, interrupted, `${code} ${before}`)
}

test('an interrupt ends what runs, waits or asks, and the context stays', async () => {
  await run('let kept = 1')
  await interruptWhen('loop\n', "console.log('loop'); try { for (;;) kept++ } catch { kept = 0 } finally { kept = 0 }")
  assert.equal(await text('kept > 0'), 'true')
  await interruptWhen('never\n', "console.log('never'); await new Promise(() => {})")
  await interruptWhen('result\n', "console.log('result'); new Promise(() => {})")
  await interruptWhen('looking\n', "({ [Symbol.for('nodejs.util.inspect.custom')] () { console.log('looking'); for (;;); } })")
  await interruptWhen('regexp\n', "console.log('regexp'); /^(a+)+$/.test('a'.repeat(50) + 'b')")
  assert.equal(await text('kept = 5; kept'), '5')
})

test('an interrupt ends a question, and a late answer is nobody\'s', async () => {
  let question
  const context = await openContext({ input: () => { question?.() } }) // eslint-disable-line no-return-assign
  for (const code of ['prompt("x")', 'await null; prompt("x")', 'await input("x")']) {
    const asked = new Promise((resolve) => { question = resolve })
    const answer = context.error(code)
    await asked
    context.interrupt()
    assert.deepEqual(await answer, interrupted, code)
  }
  assert.equal(await context.text('1'), '1')
})

test('between cells an interrupt is nothing; a handler of the user\'s lasts as long as its cell', async () => {
  // A signal that is still on its way when the cell begins is the cell's.
  await interruptBetween()
  assert.equal(await text('1'), '1')
  await interruptBetween()
  assert.equal(await text('await new Promise((r) => setTimeout(r, 60)); 2'), '2')
  assert.equal(await text("const got = new Promise((r) => process.on('SIGINT', () => r('mine'))); process.kill(process.pid, 'SIGINT'); await got"), "'mine'")
  assert.equal(await text("process.listenerCount('SIGINT')"), '0')
  await interruptBetween()
  await interruptWhen('after\n', "console.log('after'); for (;;);")
})

// -- hostile

test('what cells do to built-in classes is not seen by the agent', async () => {
  const { run, text, cell, result, stop } = await openContext()
  await run(`for (const name of ['map', 'forEach', 'filter', 'join', 'slice', 'sort', 'find']) Array.prototype[name] = () => { throw new Error('mine') }
    Object.prototype.toJSON = () => 'mine'; JSON.stringify = () => '{'; Map.prototype.get = Set.prototype.has = Map.prototype.forEach = undefined
    Object.defineProperty = Object.keys = Object.getOwnPropertyDescriptor = undefined; String.prototype.split = RegExp.prototype.exec = undefined; Promise.prototype.then = undefined; globalThis.setTimeout = undefined
    Symbol.for = undefined; Reflect.apply = undefined; process.cwd = () => '/tmp'; undefined`)
  assert.equal(await text('let still = [1]; still'), '[ 1 ]')
  assert.equal(await text('const more = await 2; more'), '2')
  assert.equal((await cell('null.x')).error.name, 'TypeError')
  assert.equal((await result('describe')).variables.find(({ name }) => name === 'still').summary, '1 item')
  assert.deepEqual((await result('complete', { code: 'stil', at: 4 })).matches, ['still'])
  // A failure of Node itself is an error of the cell while it lasts.
  await run('const iterate = Array.prototype[Symbol.iterator], { push } = Array.prototype; Array.prototype[Symbol.iterator] = Array.prototype.push = () => { throw new Error("mine") }; undefined')
  assert.equal((await cell('[2]')).error.message, 'mine')
  await run('Array.prototype[Symbol.iterator] = iterate; Array.prototype.push = push; undefined')
  assert.equal(await text('still'), '[ 1 ]')
  await stop()
})

// -- in a template

test('a set-up for notebooks: cells are rehearsed, and no name of that is left', async () => {
  const { result, told, stop, prepare, output } = startLanguage('javascript', { asTemplate: true })
  await prepare(readFileSync(new URL('../../../runtimes/javascript/notebook.cjs', import.meta.url), 'utf8'))
  await result('freeze')
  await result('open', { cwd: makeFolder(), env: {}, language: 'javascript' })
  assert.deepEqual((await result('describe')).variables, [])
  await result('cell', { code: 'let a = 1; console.log("printed"); [a, typeof f, typeof A, typeof b, typeof _]', count: 1 })
  assert.deepEqual(told, [['display', { data: { 'text/plain': "[ 1, 'undefined', 'undefined', 'undefined', 'undefined' ]", 'application/json': [1, 'undefined', 'undefined', 'undefined', 'undefined'] }, metadata: {}, isResult: true }]])
  await stop()
  assert.equal(output.stdout, 'printed\n')
})
