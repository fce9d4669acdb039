// The executor contract, promise by promise, against the real daemon.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche } from 'cloche'
import { createExecutor, PermissionDeniedError, SandboxExecutor, SyncStates } from 'cloche/executor'
import { mountReason } from './lib/mounts.mjs'
import { real } from './lib/real.mjs'
import { result as resultOf, startPeer } from './lib/peer.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))

describe('executor', real, () => {
  let client, executor
  before(async () => {
    client = await Cloche.connect()
    executor = createExecutor({ client })
  })
  after(async () => {
    await executor?.dispose()
    await client?.close()
    assert.deepEqual(unhandled, [])
  })
  const python = (code, more = {}) => executor.execute({ language: 'python', code, ...more })

  describe('request', () => {
    const add = {
      python: 'def add(a, b): return a + b',
      ruby: 'def add(a, b) = a + b',
      php: 'function add($a, $b) { return $a + $b; }',
      js: 'function add (a, b) { return a + b }',
      javascript: 'const add = (a, b) => a + b',
      quickjs: 'export function add (a, b) { return a + b }',
      typescript: 'const add = (a: number, b: number): number => a + b',
      c: 'int add(int a, int b) { return a + b; }',
      clang: 'int add(int a, int b) { return a + b; }',
      cpp: 'int add(int a, int b) { return a + b; }',
      clangpp: 'int add(int a, int b) { return a + b; }',
      bash: 'add() { echo $(($1 + $2)); }'
    }
    for (const [language, code] of Object.entries(add)) {
      test(`language ${language}`, async () => {
        const { status, result, error } = await executor.execute({ language, code, functionName: 'add', args: [40, 2] })
        assert.deepEqual([status, Number(result)], ['success', 42], JSON.stringify(error))
      })
    }
    test('without functionName: the one public function, else the code is the body', async () => {
      assert.equal((await python('def only(x): return x * 2', { args: [21] })).result, 42)
      assert.equal((await python('return 6 * 7')).result, 42)
    })
    test('args by position, by name, and {index, value} in either', async () => {
      const code = 'def f(a, b=10, c=0): return [a, b, c]'
      assert.deepEqual((await python(code, { args: [1, 2] })).result, [1, 2, 0])
      assert.deepEqual((await python(code, { args: { a: 1, c: 3 } })).result, [1, 10, 3])
      assert.deepEqual((await python(code, { args: { a: 1, b: { index: 1, value: 2 }, c: 3 } })).result, [1, 2, 3], 'mixed')
      assert.deepEqual((await python(code, { args: [{ index: 2, value: 'c' }, { index: 0, value: 'a' }] })).result, ['a', 10, 'c'])
      assert.deepEqual((await python(code, { args: [1], kwargs: { c: 5 } })).result, [1, 10, 5])
      const { status, error } = await python(code, { args: { a: 1 }, kwargs: { a: 2 } })
      assert.deepEqual([status, error.type, error.message], ['error', 'TypeError', 'the argument a stands in args and in kwargs'])
    })
    test('js: names that no parameter has go to the options', async () => {
      const { result } = await executor.execute({ language: 'js', code: 'function calculate (a, b, options = {}) { const { multiplier = 1 } = options; return (a + b) * multiplier }', functionName: 'calculate', args: { a: 5, b: 3, multiplier: 10 } })
      assert.equal(result, 80)
    })
    test('schema: defaults, required, types, strict', async () => {
      const schema = { input: { a: { type: 'number', required: true, index: 0 }, b: { type: 'number', required: false, default: 7, index: 1 } }, strict: true }
      const code = 'def f(a, b): return [a, b]'
      const good = await python(code, { args: { a: 1 }, schema })
      assert.deepEqual([good.result, good.meta.signatureSource], [[1, 7], 'schema'])
      for (const [args, message] of [[{}, /a/], [{ a: 'x' }, /a/], [{ a: 1, z: 2 }, /z/]]) {
        const bad = await python(code, { args, schema })
        assert.equal(bad.status, 'error')
        assert.match(bad.error.message, message)
      }
      assert.equal((await python(code, { args: [1, 2], schema: { params: [{ name: 'a', type: 'string' }, { name: 'b' }] } })).status, 'error')
    })
    test('arguments never become source text', async () => {
      const nasty = '"; import os; os._exit(3) #\n\'\'\'\u2028{{}}$(x)`\\'
      assert.equal((await python('def f(x): return x', { args: [nasty] })).result, nasty)
      assert.equal((await executor.execute({ language: 'js', code: 'const f = (x) => x', args: [nasty] })).result, nasty)
    })
    test('rich values both ways', async () => {
      const value = { when: new Date(0), set: new Set([1, 'a']), bytes: Uint8Array.of(1, 2), big: 10n ** 30n, nan: NaN, map: new Map([[1, 'x']]) }
      assert.deepEqual((await python('def f(x): return x', { args: [value], rich: true })).result, value)
    })
    test('a large argument', async () => assert.equal((await python('def f(x): return len(x)', { args: ['a'.repeat(5e6)] })).result, 5e6))
    test('network: none without rules; of a call, its options or the executor', async () => {
      const code = "async function f () { try { await fetch('http://denied.test/') } catch { return 'refused' } }"
      const call = async (from, more) => {
        const { result, error, meta } = await from.execute({ language: 'javascript', code, ...more })
        return [result ?? error, meta.network?.denied.map(({ kind, host }) => [kind, host])]
      }
      const network = { allow: ['allowed.test'] }
      const asked = ['refused', [['dns', 'denied.test']]]
      assert.deepEqual(await call(executor, {}), ['refused', undefined])
      assert.deepEqual(await call(executor, { network }), asked)
      assert.deepEqual(await call(executor, { options: { network } }), asked)
      const open = createExecutor({ client, network })
      assert.deepEqual(await call(open, {}), asked)
      assert.match((await call(open, { network: { allow: ['10.0.0.1/8'] } }))[0].message, /network\.allow\[0\]/)
      await open.dispose()
    })
    test('image: of a call or the executor', async () => {
      const [one, other] = ['e', 'f'].map((digit) => `sha256-${digit.repeat(64)}`)
      const reason = async (from, more) => (await from.execute({ language: 'python', code: 'def f(): return 1', ...more })).error?.message
      const placed = createExecutor({ client, image: one })
      assert.equal(await reason(executor, {}), undefined)
      assert.match(await reason(executor, { image: other }), /images/)
      assert.match(await reason(executor, { image: 'python' }), /there is no image (store|'python:latest')/)
      assert.match(await reason(placed, {}), /images/)
      assert.match(await reason(placed, { image: 'other' }), /there is no image (store|'other:latest')/)
      await placed.dispose()
      const imageSettings = { env: { HOME: '/' } }
      const set = createExecutor({ client, image: one, imageSettings })
      assert.match(await reason(executor, { image: one, imageSettings }), /cannot set the variable 'HOME'/)
      assert.match(await reason(set, {}), /cannot set the variable 'HOME'/)
      assert.doesNotMatch(await reason(set, { image: other }), /HOME/, 'settings are those of the image beside them')
      await set.dispose()
    })
    test('files, relative ones under workdir; text and bytes', async () => {
      const files = { 'a.txt': 'text', '/workspace/sub/b.bin': Uint8Array.of(0, 255) }
      const { result, error } = await python('def f(): return [open("a.txt").read(), open("sub/b.bin", "rb").read()]', { files })
      assert.deepEqual(result, ['text', 'AP8='], JSON.stringify(error))
    })
    test('options {files, workdir, reporting} as in the newer form', async () => {
      const { result, files } = await python('def f():\n  import os\n  open("new", "w").write("x")\n  return [os.getcwd(), open("a").read()]', { options: { files: { a: '1' }, workdir: '/workspace/app', reporting: { includeContents: false } } })
      assert.deepEqual(result, ['/workspace/app', '1'])
      assert.deepEqual([files.created[0].path, files.created[0].content], ['/workspace/app/new', undefined])
    })
    test('defaultWorkdir', async () => {
      const { result } = await createExecutor({ client, defaultWorkdir: '/workspace/srv' }).execute({ language: 'python', code: 'import os\ndef f(): return os.getcwd()' })
      assert.equal(result, '/workspace/srv')
    })
    test('env, stdin, host functions and a standard: what was missed', async () => {
      assert.equal((await python('import os\ndef f(): return os.environ["WHO"]', { env: { WHO: 'me' } })).result, 'me')
      assert.equal((await python('def f(): return twice(21)', { globals: { twice: (n) => n * 2 } })).result, 42)
      assert.equal((await executor.execute({ language: 'cpp', code: 'auto f(auto x) { return x; }\nint g(int x) { return f(x); }', functionName: 'g', args: [3], build: { standard: 'c++20' } })).result, 3)
    })
    test('timeout in seconds; 0 is none; nonsense is refused', async () => {
      const { status, exitCode } = await python('while True: pass', { timeout: 0.3 })
      assert.deepEqual([status, exitCode], ['timeout', 124])
      assert.equal((await python('return 1', { timeout: 0 })).result, 1)
      for (const bad of [-1, NaN, '5']) {
        const { error } = await python('return 1', { timeout: bad })
        assert.deepEqual([error.type, error.message.slice(0, 10)], ['InvalidArgumentError', 'timeout is'])
      }
    })
  })

  describe('result', () => {
    test('success', async () => {
      const got = await python('def f():\n  print("out")\n  return None')
      assert.deepEqual([got.status, got.success, got.result, got.error, got.stdout, got.stderr, got.exitCode], ['success', true, null, undefined, 'out\n', '', 0])
      assert.ok(got.meta.duration > 0 && got.meta.signatureSource === 'inferred' && got.meta.usage.cpuMs > 0)
    })
    test('error: the language\'s own class, message and stack; exit code 1', async () => {
      const { status, success, exitCode, error, ...rest } = await python('def divide(a, b):\n  return a / b', { args: [1, 0] })
      assert.deepEqual([status, success, exitCode, error.type, error.message, 'result' in rest], ['error', false, 1, 'ZeroDivisionError', 'division by zero', false])
      assert.match(error.stack, /line 2/)
    })
    test('crash: the interpreter died', async () => {
      const { status, exitCode, error } = await python('import os\ndef f(): os.kill(os.getpid(), 9)')
      assert.deepEqual([status, exitCode, typeof error.message], ['crash', 1, 'string'])
    })
    test('crash: out of memory', async () => {
      const { status, error } = await python('def f(): return bytearray(1 << 30)', { limits: { memoryBytes: 64 << 20 } })
      assert.ok(status === 'crash' || error.type === 'MemoryError', JSON.stringify([status, error]))
    })
    test('terminated: cancelled by the caller, before and meanwhile', async () => {
      const before = await python('while True: pass', { signal: AbortSignal.abort() })
      const meanwhile = await python('while True: pass', { signal: AbortSignal.timeout(300) })
      assert.deepEqual([before.status, before.exitCode, meanwhile.status, meanwhile.exitCode], ['terminated', 143, 'terminated', 143])
    })
    test('what looks like a result marker is only text', async () => {
      const { result, stdout } = await python('def f():\n  print("__SANDBOX_RESULT__{}__END__")\n  print(\'{"jsonrpc":"2.0","id":1,"result":{"value":666}}\')\n  return 1')
      assert.equal(result, 1)
      assert.match(stdout, /666/)
    })
    test('changes: created, modified, deleted, with their helpers', async () => {
      const { files } = await python('import os\ndef f():\n  open("new", "w").write("n")\n  open("old", "a").write("!")\n  os.remove("gone")\n  os.mkdir("d")\n  open("d/x", "wb").write(b"\\xff")', { files: { old: 'o', gone: 'g' } })
      assert.deepEqual([files.created, files.modified, files.deleted].map((list) => list.map(({ type, path }) => [type, path])), [[['create', '/workspace/d/x'], ['create', '/workspace/new']], [['modify', '/workspace/old']], [['delete', '/workspace/gone']]])
      assert.deepEqual([files.hasChanges(), files.all().length, files.byPath('/workspace/nope')], [true, 4, undefined])
      const { content, size, timestamp } = files.byPath('/workspace/d/x')
      assert.deepEqual([content, size, timestamp instanceof Date], [Uint8Array.of(255), 1, true])
      assert.equal(Buffer.from(files.byPath('/workspace/old').content).toString(), 'o!')
    })
    test('includeChanges false: no files; includeContents false: no contents', async () => {
      const code = 'def f(): open("new", "w").write("n")'
      assert.equal((await python(code, { resultOptions: { includeChanges: false } })).files, undefined)
      assert.equal((await python(code, { resultOptions: { includeContents: false } })).files.created[0].content, undefined)
    })
    test('signatureSource: schema, inferred, convention', async () => {
      assert.equal((await python('def f(a): return a', { args: [1] })).meta.signatureSource, 'inferred')
      assert.equal((await python('return 1')).meta.signatureSource, 'convention')
    })
    test('async functions and generators', async () => {
      assert.equal((await python('async def f(): return 5')).result, 5)
      assert.deepEqual((await python('def f():\n  yield 1\n  yield 2')).result, [1, 2])
      assert.equal((await executor.execute({ language: 'js', code: 'const f = async () => 6' })).result, 6)
    })
  })

  describe('many at once', () => {
    test('64 calls in flight, each its own answer', async () => {
      const results = await Promise.all(Array.from({ length: 64 }, (_, i) => python('def f(n): return n * n', { args: [i] })))
      assert.deepEqual(results.map(({ result }) => result), Array.from({ length: 64 }, (_, i) => i * i))
    })
    test('abort of one leaves the others alone', async () => {
      const ending = new AbortController()
      const bad = python('import time\ndef f(): time.sleep(30)', { signal: ending.signal })
      const good = Promise.all([1, 2, 3].map((n) => python('import time\ndef f(n):\n  time.sleep(0.2)\n  return n', { args: [n] })))
      await sleep(100)
      ending.abort()
      assert.deepEqual([(await bad).status, (await good).map(({ result }) => result)], ['terminated', [1, 2, 3]])
    })
  })

  describe('mount', () => {
    let folder
    let skip
    before(async () => {
      skip = await mountReason(client)
      folder = mkdtempSync(path.join(tmpdir(), 'cloche-mount-'))
    })
    after(() => rmSync(folder, { recursive: true, force: true }))
    /** A tree of the host's, shown at /data. */
    const mounted = (name, use) => test(name, async (context) => {
      if (skip) return context.skip(skip)
      const dir = path.join(folder, name.replace(/\W+/g, '-').slice(0, 40))
      mkdirSync(path.join(dir, 'in'), { recursive: true })
      mkdirSync(path.join(dir, 'out'))
      writeFileSync(path.join(dir, 'in/a.txt'), 'alpha')
      writeFileSync(path.join(dir, 'in/b.txt'), 'beta')
      await use({ dir, own: createExecutor({ client }), read: (name) => readFileSync(path.join(dir, name), 'utf8'), mount: { dirs: { '/data': dir }, permissions: { rules: [{ pattern: 'out/**', allow: '*' }] } } })
    })
    const write = 'def f():\n  for n in ("x", "y"): open(f"/data/out/{n}.txt", "w").write(open("/data/in/a.txt").read().upper() + n)\n  return "done"'

    mounted('batch: what the rules permit is written after a successful run', async ({ mount, read }) => {
      const got = await python(write, { mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual([got.status, got.result], ['success', 'done'], JSON.stringify(got.error))
      assert.deepEqual([read('out/x.txt'), read('out/y.txt')], ['ALPHAx', 'ALPHAy'])
      assert.deepEqual(got.sync.synced.map((name) => path.basename(name)).sort(), ['x.txt', 'y.txt'])
    })
    mounted('batch: links that lead out of the directory are refused on demand', async ({ dir, mount }) => {
      const code = 'def f():\n  import os\n  os.symlink("/etc/passwd", "/data/out/far")\n  os.symlink("x.txt", "/data/out/near")'
      const run = async (links) => await client.call({ language: 'python', code, mount: { ...mount, sync: { mode: 'batch', onError: 'continue', ...links } } })
      const { sync } = await run({ links: 'inside' })
      assert.deepEqual([readdirSync(path.join(dir, 'out')), sync.failed.length], [['near'], 1])
      rmSync(path.join(dir, 'out/near'))
      await run({})
      assert.deepEqual(readdirSync(path.join(dir, 'out')).sort(), ['far', 'near'])
    })
    mounted('batch: a run that failed writes nothing', async ({ dir, mount }) => {
      const got = await python(`${write.replace('return "done"', 'raise ValueError("no")')}`, { mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual([got.status, readdirSync(path.join(dir, 'out'))], ['error', []])
    })
    mounted('throw: the guest sees its own PermissionError, and the denial is recorded with its rule', async ({ dir, own, mount, read }) => {
      const told = []
      own.on('permissionDenied', (record) => told.push(record))
      const got = await own.execute({ language: 'python', code: 'def f(): open("/data/in/a.txt", "w").write("!")', mount: { ...mount, permissions: { ...mount.permissions, rules: [...mount.permissions.rules, { pattern: 'in/**', deny: ['modify'] }] } } })
      assert.deepEqual([got.status, got.error.type, read('in/a.txt')], ['error', 'PermissionError', 'alpha'])
      assert.deepEqual([got.files.denied[0].operation, got.files.denied[0].timestamp instanceof Date], ['modify', true])
      assert.match(got.files.denied[0].path, /in\/a\.txt$/)
      assert.ok(told.length > 0 && told[0].operation === 'modify', JSON.stringify(told))
      assert.ok(dir)
    })
    mounted('manual: nothing is written until syncFiles, of what was chosen', async ({ dir, own, mount, read }) => {
      const manual = { ...mount, sync: { mode: 'manual' } }
      const { files } = await own.execute({ language: 'python', code: write, mount: manual })
      assert.deepEqual(readdirSync(path.join(dir, 'out')), [])
      const seen = []
      own.on('beforeSync', (change) => { seen.push(Buffer.from(change.content).toString()) })
      const outcome = await own.syncFiles(files.created.filter(({ path }) => path.endsWith('x.txt')), manual, { onError: 'continue' })
      assert.deepEqual([outcome.synced.length, outcome.failed, outcome.skipped], [1, [], []])
      assert.deepEqual([readdirSync(path.join(dir, 'out')), read('out/x.txt'), seen], [['x.txt'], 'ALPHAx', ['ALPHAx']])
      await assert.rejects(own.syncFiles([{ ...files.created[0], contentOmitted: true, content: undefined }], manual), /has no content, which was too large/)
    })
    mounted('beforeSync may skip, by this.result or by what it returns; afterSync is told', async ({ dir, own, mount }) => {
      const after = []
      own.on('beforeSync', function (change) { if (change.path.endsWith('x.txt')) this.result = { state: SyncStates.SKIP, reason: 'not x' } })
      own.on('afterSync', (data) => after.push([path.basename(data.path), data.success, data.type, data.size]))
      const got = await own.execute({ language: 'python', code: write, mount: { ...mount, sync: { mode: 'batch' } } })
      assert.equal(got.status, 'success', JSON.stringify(got.error))
      assert.deepEqual(readdirSync(path.join(dir, 'out')), ['y.txt'])
      assert.deepEqual(got.sync.skipped.map((name) => path.basename(name)), ['x.txt'])
      assert.deepEqual(after.find(([name]) => name === 'y.txt'), ['y.txt', true, 'create', 6])
    })
    mounted('manual: folders the run made come with the files in them', async ({ own, mount, read }) => {
      const manual = { ...mount, sync: { mode: 'manual' } }
      const { files } = await own.execute({ language: 'python', code: 'import os\ndef f():\n  os.makedirs("/data/out/new/deep")\n  open("/data/out/new/deep/x", "w").write("deep")\n  open("/data/out/new/y", "w").write("y")', mount: manual })
      assert.deepEqual(files.created.map((change) => path.basename(change.path)).sort(), ['x', 'y'])
      const asked = []
      own.on('beforeSync', (change) => { asked.push(path.basename(change.path)) })
      const outcome = await own.syncFiles(files.created.filter(({ path }) => path.endsWith('/x')), manual, { onError: 'rollback' })
      assert.deepEqual([outcome.synced.map((name) => path.basename(name)), outcome.failed, asked, read('out/new/deep/x')], [['x'], [], ['x'], 'deep'])
    })
    mounted('an abort leaves the tree as it was; the daemon holds nothing of runs that are over', async ({ dir, own, mount }) => {
      await own.execute({ language: 'python', code: write, mount: { ...mount, sync: { mode: 'manual' } } })
      const { status } = await own.execute({ language: 'python', code: write.replace('return', 'while True: pass\n  return'), mount: { ...mount, sync: { mode: 'batch' } }, signal: AbortSignal.timeout(400) })
      assert.deepEqual([status, readdirSync(path.join(dir, 'out'))], ['terminated', []])
      const { changesets = 0 } = await client.stats()
      assert.equal(changesets, 0)
    })
    mounted('afterSync alone has the change too', async ({ own, mount }) => {
      const after = []
      own.on('afterSync', ({ path: name, success, type, timestamp }) => after.push([path.basename(name), success, type, timestamp instanceof Date]))
      await own.execute({ language: 'python', code: write, mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual(after.sort(), [['x.txt', true, 'create', true], ['y.txt', true, 'create', true]])
    })
    mounted('beforeSync may abort the whole', async ({ dir, own, mount }) => {
      own.on('beforeSync', async () => { await sleep(5); return { state: SyncStates.ABORT, reason: 'not today' } })
      const { sync } = await own.execute({ language: 'python', code: write, mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual(readdirSync(path.join(dir, 'out')), [])
      assert.deepEqual([sync.synced, sync.failed, sync.skipped.map((name) => path.basename(name)).sort()], [[], [], ['x.txt', 'y.txt']])
      assert.deepEqual([sync.aborted.reason, /\/[xy]\.txt$/.test(sync.aborted.path)], ['not today', true])
    })
    mounted('an abort that the mount does not allow skips its file; syncFiles has the reason of one that it allows', async ({ dir, own, mount }) => {
      own.on('beforeSync', ({ path: name }) => name.endsWith('x.txt') ? { state: SyncStates.ABORT, reason: 'not x' } : undefined)
      const { sync } = await own.execute({ language: 'python', code: write, mount: { ...mount, sync: { mode: 'batch', allowAbort: false } } })
      assert.deepEqual([readdirSync(path.join(dir, 'out')), sync.skipped.map((name) => path.basename(name)), sync.aborted], [['y.txt'], ['x.txt'], undefined])
      const { files } = await own.execute({ language: 'python', code: write, mount })
      const { aborted, synced } = await own.syncFiles(files.all(), mount)
      assert.deepEqual([aborted.reason, path.basename(aborted.path), synced], ['not x', 'x.txt', []])
    })
    mounted('an abort at the second change: all are told as skipped, each once', async ({ dir, own, mount }) => {
      let asked = 0
      own.on('beforeSync', () => ({ state: ++asked === 2 ? SyncStates.ABORT : SyncStates.CONTINUE }))
      const { sync } = await own.execute({ language: 'python', code: `${write}`, mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual([asked, readdirSync(path.join(dir, 'out')), sync.skipped.map((name) => path.basename(name)).sort()], [2, [], ['x.txt', 'y.txt']])
    })
  })
})

describe('executor events, without a daemon', () => {
  const withExecutor = async (answer, use, options = {}) => {
    const peer = await startPeer(answer)
    const client = await Cloche.connect({ socket: peer.socket })
    try {
      await use(createExecutor({ client, ...options }), peer.links[0])
    } finally {
      await client.close()
      await peer.close()
    }
  }
  const change = { type: 'created', path: '/data/x', kind: 'file', size: 1, timestamp: 5, content: 'x' }
  const asking = async ({ id, method }, link) => {
    if (method !== 'call') return
    const answer = await link.ask('sync.before', { run: id, change })
    link.tell('sync.after', { run: id, path: '/data/x', success: false, error: { type: 'OSError', message: 'full' } })
    link.tell('sync.error', { run: id, change, error: { type: 'OSError', message: 'full' } })
    link.result(id, resultOf(answer.result ?? answer.error))
  }
  const request = { language: 'python', code: '', mount: { dirs: { '/data': 'relative' } } }

  test('the mount says what is listened for, and its folders are absolute', () => withExecutor(({ id }, link) => link.result(id, resultOf(1)), async (executor, link) => {
    await executor.execute(request)
    for (const name of ['beforeSync', 'afterSync', 'permissionDenied']) executor.on(name, () => {})
    await executor.execute(request)
    const [quiet, asked] = link.asked.slice(1).map(({ params }) => params.mount)
    assert.deepEqual(quiet.dirs, { '/data': path.resolve('relative') })
    assert.deepEqual([quiet.events, asked.events], [undefined, ['beforeSync', 'afterSync', 'permissionDenied']])
  }))
  test('beforeSync gets the change as users know it; skip has its reason', () => withExecutor(asking, async (executor) => {
    let seen
    executor.on('beforeSync', function (given) {
      seen = given
      this.result = { state: SyncStates.SKIP, reason: 'tmp' }
    })
    assert.deepEqual((await executor.execute(request)).result, { action: 'skip', reason: 'tmp' })
    assert.deepEqual(seen, { type: 'create', path: '/data/x', content: new Uint8Array(Buffer.from('x')), size: 1, timestamp: new Date(5) })
  }))
  test('stopped ends the round of listeners', () => withExecutor(asking, async (executor) => {
    executor.on('beforeSync', function () { this.result = { state: 'abort' }; this.stopped = true })
    executor.on('beforeSync', function () { this.result = { state: 'continue' } })
    assert.deepEqual((await executor.execute(request)).result, { action: 'abort' })
  }))
  test('abort without allowAbort is a skip', () => withExecutor(asking, async (executor) => {
    executor.on('beforeSync', () => ({ state: SyncStates.ABORT }))
    assert.deepEqual((await executor.execute(request)).result, { action: 'skip' })
  }, { syncEventConfig: { allowAbort: false } }))
  test('a listener that throws, or answers nonsense, is an error for the daemon', () => withExecutor(asking, async (executor) => {
    executor.once('beforeSync', () => { throw new RangeError('no idea') })
    assert.deepEqual((await executor.execute(request)).result.data, { name: 'RangeError', message: 'no idea' })
    executor.once('beforeSync', () => ({ state: 'later' }))
    assert.match((await executor.execute(request)).result.message, /continue, skip or abort is expected/)
    assert.equal(executor.listenerCount('beforeSync'), 0)
  }))
  test('afterSync and syncError have real errors', () => withExecutor(asking, async (executor) => {
    const seen = []
    executor.on('beforeSync', () => {})
    executor.on('afterSync', ({ path, success, error }) => seen.push([path, success, error instanceof Error, error.name, error.message]))
    executor.on('syncError', ({ path }, error) => seen.push([path, error.message]))
    await executor.execute(request)
    assert.deepEqual(seen, [['/data/x', false, true, 'OSError', 'full'], ['/data/x', 'full']])
  }))
  test('syncFiles sends what was chosen, and failures are errors', () => withExecutor(({ id }, link) => link.result(id, { synced: ['/a'], failed: [{ path: '/b', error: { name: 'x', message: 'full' } }], skipped: [{ path: '/c', reason: 'r' }], conflicts: [], kept: [] }), async (executor, link) => {
    const outcome = await executor.syncFiles([{ type: 'create', path: '/a', content: Uint8Array.of(1), size: 1, timestamp: new Date(7) }], { dirs: { '/': '/tmp' } }, { onError: 'continue' })
    assert.deepEqual([outcome.synced, outcome.failed[0].path, outcome.failed[0].error instanceof Error, outcome.failed[0].error.message, outcome.skipped], [['/a'], '/b', true, 'full', ['/c']])
    const { method, params } = link.asked[1]
    assert.deepEqual([method, params.onError, params.changes], ['sync', 'continue', [{ type: 'created', path: '/a', kind: 'file', content: { $: 'bytes', at: 0, n: 1 }, size: 1, timestamp: 7 }]])
    await assert.rejects(executor.syncFiles([{ type: 'created', path: '/a' }], { dirs: { '/': '/tmp' } }), { message: /changes\[0\]\.type is "created"/ })
  }))
  test('a listener must be a function; a class of its own; PermissionDeniedError says what and where', () => {
    const executor = new SandboxExecutor()
    assert.throws(() => executor.on('afterSync', 'x'), TypeError)
    const error = new PermissionDeniedError('/x', 'create')
    assert.deepEqual([error.name, error.path, error.operation, error instanceof Error], ['PermissionDeniedError', '/x', 'create', true])
  })
})
