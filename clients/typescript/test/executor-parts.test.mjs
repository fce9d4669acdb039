// The parts for users of the executor: signatures, trees in memory, generators, a sync of their own.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { CodeGenerator, createExecutor, FSBuilder, getGenerator, PermissionDeniedError, PermissionResolver, RESULT_MARKERS, SignatureInferenceEngine, SyncManager, TrackedFileSystem } from 'cloche/executor'
import { real } from './lib/real.mjs'

describe('SignatureInferenceEngine', () => {
  const engine = new SignatureInferenceEngine()
  const P = (name, required = true) => ({ name, required })
  const cases = [
    ['python', 'def f(a, b: int = 1, *args, c="x, y)", **kw): pass', 'f', { params: [P('a'), P('b', false), P('c', false)], variadic: true, acceptsKwargs: true }],
    ['python', 'class A: pass\nasync def only(a,\n  b=(1, [2, {3: 4}]),  # why, so\n  /): pass\ndef _hidden(x): pass', undefined, { params: [P('a'), P('b', false)] }],
    ['ruby', 'def f(a, b = {x: 1}, *r, c:, d: 2, **o, &blk) = a', 'f', { params: [P('a'), P('b', false), P('c'), P('d', false)], variadic: true, acceptsKwargs: true }],
    ['ruby', 'def f a, b\nend', 'f', { params: [P('a'), P('b')] }],
    ['php', '<?php function f(int $a, ?string &$b = null, ...$rest) {}', 'f', { params: [P('a'), P('b', false)], variadic: true, acceptsKwargs: true }],
    ['js', 'export async function f (a, b = ")", { c } = {}) {}', 'f', { params: [P('a'), P('b', false)], hasOptionsParam: true }],
    ['javascript', 'const f = async (a, ...rest) => a', 'f', { params: [P('a')], variadic: true }],
    ['quickjs', 'const f = x => x', 'f', { params: [P('x')] }],
    ['js', 'function f (a, options) {}', 'f', { params: [P('a'), P('options')], hasOptionsParam: true }],
    ['typescript', 'export const f = <T,>(a: Map<string, T>, b?: number): T => a', 'f', { params: [P('a'), P('b', false)] }],
    ['c', 'static const char *f(int a, char b[3], ...) { return 0; }', 'f', { params: [P('a'), P('b')], variadic: true }],
    ['cpp', 'std::vector<int> f(const std::map<int, int> &m, int n = 3) { return {}; }', 'f', { params: [P('m'), P('n', false)] }],
    ['c', 'int f(void) { return 1; }', undefined, { params: [] }]
  ]
  for (const [language, code, name, expected] of cases) {
    test(`${language}: ${code.split('\n')[0]}`, () => {
      assert.deepEqual(engine.resolve(code, name, language), { params: [], variadic: false, acceptsKwargs: false, hasOptionsParam: false, source: 'inferred', ...expected })
    })
  }
  test('the schema first, the convention last', () => {
    const params = [{ name: 'x', type: 'number', required: true }]
    assert.deepEqual(engine.resolve('def f(a): pass', 'f', 'python', { params }), { params, variadic: false, acceptsKwargs: true, hasOptionsParam: false, source: 'schema' })
    assert.deepEqual(engine.resolve('x = 1', 'f', 'python'), { params: [], variadic: true, acceptsKwargs: true, hasOptionsParam: false, source: 'convention' })
    assert.equal(engine.resolve('', 'f', 'js').hasOptionsParam, true)
    for (const language of ['bash', 'cobol']) assert.equal(engine.resolve('f() { :; }', 'f', language).source, 'convention')
  })
})

describe('FSBuilder and TrackedFileSystem', () => {
  const withTree = async (use) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'cloche-parts-'))
    mkdirSync(path.join(folder, 'a/node_modules'), { recursive: true })
    for (const [name, text] of [['x', '1'], ['a/y', '22'], ['a/node_modules/z', '3'], ['big', 'x'.repeat(100)]]) writeFileSync(path.join(folder, name), text)
    symlinkSync('/etc/passwd', path.join(folder, 'link'))
    try { await use(folder) } finally { rmSync(folder, { recursive: true }) }
  }
  test('files of memory and of the disk', () => withTree(async (folder) => {
    const builder = new FSBuilder({ workdir: '/work' }).addEntryFile('main.py', 'code').addFiles({ '/abs': 'A', 'b/c': Uint8Array.of(1) })
    await builder.loadFromDisk('/data', folder, { exclude: ['node_modules'], maxFileSize: 10 })
    const built = builder.build()
    assert.deepEqual(Object.keys(built).sort(), ['/abs', '/data/a/y', '/data/x', '/work/b/c', '/work/main.py'])
    assert.deepEqual([built['/abs'].mode, built['/abs'].content, built['/work/b/c'].mode, built['/data/x'].timestamps.modification instanceof Date], ['string', 'A', 'binary', true])
    assert.deepEqual(builder.clear().build(), {})
    assert.equal(Object.keys((await builder.loadFromDisk('/d', folder, { maxTotalSize: 3 })).build()).length, 2)
  }))
  test('what is built may be the files of a call', real, async () => {
    const client = await Cloche.connect()
    const { result, error } = await createExecutor({ client }).execute({ language: 'python', code: 'def f(): return open("/workspace/a").read() + open("b").read()', files: new FSBuilder().addFiles({ a: 'x', b: Uint8Array.of(65) }).build() })
    await client.close()
    assert.equal(result, 'xA', JSON.stringify(error))
  })
  test('changes are told with what was before, denials by their rule', () => {
    const fs = new FSBuilder().addFiles({ '/a': 'a', '/b': 'b', '/c': 'c' }).build()
    const file = (text) => new FSBuilder().addFiles({ '/x': text }).build()['/x']
    const tracked = new TrackedFileSystem(fs, new PermissionResolver({ default: { create: true, modify: true, delete: true }, rules: [{ pattern: 'c', deny: '*' }] }), 'ignore')
    const proxy = tracked.getProxy()
    proxy['/a'] = file('A')
    proxy['/b'] = file('b')
    proxy['/new'] = file('n')
    delete proxy['/b']
    proxy['/c'] = file('C')
    const { created, modified, deleted, denied } = tracked.getChanges()
    assert.deepEqual([created, modified, deleted].map((list) => list.map(({ path, oldContent }) => [path, oldContent && Buffer.from(oldContent).toString()])), [[['/new', undefined]], [['/a', 'a']], [['/b', 'b']]])
    assert.deepEqual([denied.map(({ path, operation, rule }) => [path, operation, rule.pattern]), proxy['/c'].content], [[['/c', 'modify', 'c']], 'c'])
    assert.throws(() => { new TrackedFileSystem({}, PermissionResolver.readOnly()).getProxy()['/x'] = file('x') }, PermissionDeniedError)
    const virtual = new TrackedFileSystem({}, PermissionResolver.readOnly(), 'virtual')
    virtual.getProxy()['/x'] = file('x')
    assert.deepEqual([virtual.getChanges().created, virtual.getChanges().denied.length, virtual.getProxy()['/x'].content], [[], 1, 'x'])
    tracked.diffWithOriginal({ '/a': file('a') })
    assert.deepEqual([tracked.getChanges().modified, tracked.getChanges().deleted.map(({ path }) => path)], [[], ['/b']])
  })
})

test('getGenerator: the code as it runs; arguments are never in it', async () => {
  assert.ok(getGenerator('python') instanceof CodeGenerator && getGenerator('js') === getGenerator('quickjs'))
  assert.deepEqual([getGenerator('c').fileExtension, getGenerator('clangpp').language, getGenerator('python').supportedArgsModes(), getGenerator('ruby').generateStdin({ code: '' })], ['.c', 'clangpp', ['auto'], ''])
  assert.deepEqual(await getGenerator('php').generateFiles({ code: 'echo 1;', args: ['x'] }), { 'main.php': '<?php\necho 1;' })
  assert.throws(() => getGenerator('python').generateExecutionCode('', 'f', [], {}), /never put into source text here/)
  assert.throws(() => getGenerator('cobol'), /Unsupported language: cobol/)
  assert.deepEqual(Object.keys(RESULT_MARKERS), ['START', 'END'])
})

describe('SyncManager', () => {
  const change = (type, name, more = {}) => ({ type, path: name, size: 1, timestamp: new Date(), content: Uint8Array.of(1), ...more })
  const make = (onError, more = {}) => {
    const store = new Map([['/r/old', 'old'], ['/r/gone', 'gone']])
    const manager = new SyncManager({
      config: { mode: 'batch', onError },
      pathResolver: (name) => name.startsWith('/v/') ? `/r/${name.slice(3)}` : null,
      fileWriter: async (name, content) => {
        if (name.endsWith('bad')) throw new Error('full')
        store.set(name, Buffer.from(content).toString('hex'))
      },
      fileDeleter: async (name) => { store.delete(name) },
      ...more
    })
    return { store, manager }
  }
  const all = [change('create', '/v/a'), change('create', '/other'), change('modify', '/v/old', { oldContent: Uint8Array.of(0) }), change('create', '/v/bad'), change('delete', '/v/gone')]
  test('continue, abort and rollback', async () => {
    const outcomes = []
    for (const onError of ['continue', 'abort', 'rollback']) {
      const { store, manager } = make(onError)
      const { synced, failed, skipped } = await manager.syncBatch(all)
      outcomes.push([synced, failed.map(({ path, error }) => [path, error.message]), skipped, [...store.keys()].sort(), store.get('/r/old')])
    }
    const failed = [['/v/bad', 'full']]
    assert.deepEqual(outcomes, [
      [['/v/a', '/v/old', '/v/gone'], failed, ['/other'], ['/r/a', '/r/old'], '01'],
      [['/v/a', '/v/old'], failed, ['/other'], ['/r/a', '/r/gone', '/r/old'], '01'],
      [[], failed, ['/other'], ['/r/gone', '/r/old'], '00']
    ])
  })
  test('events skip, abort and tell', async () => {
    const { store, manager } = make('continue')
    const told = []
    manager.on('beforeSync', async function ({ path }) { if (path === '/v/a') this.result = { state: 'skip' }; else if (path === '/v/gone') return { state: 'abort' } })
    manager.on('afterSync', ({ path, success, realPath }) => told.push([path, success, realPath]))
    manager.on('syncError', ({ path }, error) => told.push([path, error.message]))
    const { skipped } = await manager.syncBatch(all)
    assert.deepEqual([skipped, told, store.has('/r/gone')], [['/v/a', '/other'], [['/v/old', true, '/r/old'], ['/v/bad', 'full'], ['/v/bad', false, '/r/bad']], true])
    assert.throws(() => new SyncManager({}), /pathResolver must be a function/)
  })
})
