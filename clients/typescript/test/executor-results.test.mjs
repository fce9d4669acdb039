// The executor returns JSON values, turns failures into results, and writes only on request.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { mountReason } from './lib/mounts.mjs'
import { real } from './lib/real.mjs'
import { startPeer } from './lib/peer.mjs'

describe('results', real, () => {
  let client, executor, folder, skip
  before(async () => {
    client = await Cloche.connect()
    executor = createExecutor({ client })
    skip = await mountReason(client)
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-results-'))
  })
  after(async () => {
    await client?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const python = (code, more = {}) => executor.execute({ language: 'python', code, ...more })
  /** A tree of the host's, shown at /data. */
  const mounted = (name, use) => test(name, async (context) => {
    if (skip) return context.skip(skip)
    const dir = path.join(folder, name.replace(/\W+/g, '-').slice(0, 60))
    mkdirSync(path.join(dir, 'out'), { recursive: true })
    writeFileSync(path.join(dir, 'out/old.txt'), 'old')
    writeFileSync(path.join(dir, 'gone.txt'), 'gone')
    const mount = { dirs: { '/data': dir }, permissions: { rules: [{ pattern: '**', allow: '*' }] } }
    await use({ dir, mount, read: (name) => readFileSync(path.join(dir, name), 'utf8') })
  })

  describe('a mount without sync', () => {
    const CHANGE = 'import os\ndef f():\n  open("/data/out/new.txt", "w").write("new")\n  open("/data/out/old.txt", "a").write("!")\n  os.remove("/data/gone.txt")'
    for (const [name, sync] of [['absent', undefined], ['of no mode', { onError: 'continue' }], ['with a mode of undefined', { mode: undefined }]]) {
      mounted(`${name}: nothing is written, the changes are in the result`, async ({ dir, mount, read }) => {
        const got = await python(CHANGE, { mount: { ...mount, ...sync === undefined ? {} : { sync } } })
        assert.equal(got.status, 'success', JSON.stringify(got.error))
        assert.deepEqual([readdirSync(dir).sort(), readdirSync(path.join(dir, 'out')), read('out/old.txt')], [['gone.txt', 'out'], ['old.txt'], 'old'])
        assert.equal(got.sync, undefined)
        const told = got.files.all().map(({ type, path, content }) => [type, path, content && Buffer.from(content).toString()])
        assert.deepEqual(told, [['create', '/data/out/new.txt', 'new'], ['modify', '/data/out/old.txt', 'old!'], ['delete', '/data/gone.txt', undefined]])
        assert.deepEqual((await executor.syncFiles(got.files.all(), mount)).synced.sort(), ['/data/gone.txt', '/data/out/new.txt', '/data/out/old.txt'])
        assert.deepEqual([readdirSync(dir), read('out/new.txt'), read('out/old.txt')], [['out'], 'new', 'old!'])
      })
    }
    mounted('with batch: written', async ({ mount, read }) => {
      await python(CHANGE, { mount: { ...mount, sync: { mode: 'batch' } } })
      assert.equal(read('out/new.txt'), 'new')
    })
    test('no directories are no mount', async () => assert.equal((await python('def f(): return 1', { mount: { dirs: {} } })).result, 1))
  })

  describe('execute never rejects', () => {
    const ok = 'def f(*args, **kwargs): return 1'
    const cases = {
      'an unknown language': [{ language: 'cobol', code: '' }, 'UnknownLanguageError', /cobol/],
      'a missing mount directory': [{ mount: { dirs: { '/data': '/nonexistent/x' } } }, 'UnreadableFileError', /open the directory \/nonexistent\/x: /],
      'a mount that is none': [{ mount: {} }, 'InvalidArgumentError', /mount\.dirs/],
      'an unknown rule': [{ mount: { dirs: { '/data': tmpdir() }, permissions: { rules: [{ pattern: 'a', allow: ['fly'] }] } } }, 'InvalidArgumentError', /fly/],
      'a bad timeout': [{ timeout: -1 }, 'InvalidArgumentError', /^timeout is -1; a number/],
      'a timeout as text': [{ timeout: '5' }, 'InvalidArgumentError', /^timeout is "5"; a number of seconds is expected/],
      'arguments that are none': [{ args: 5 }, 'InvalidArgumentError', /^args is 5; an array is expected/],
      'keywords that are none': [{ kwargs: 5 }, 'InvalidArgumentError', /kwargs/],
      'an unknown limit': [{ limits: { nope: 1 } }, 'InvalidArgumentError', /nope/],
      'a path of the kernel': [{ files: { '/proc/x': '1' } }, 'InvalidArgumentError', /\/proc/],
      'a path that leads out': [{ files: { '../../x': '1' } }, 'InvalidArgumentError', /\.\./],
      'a workdir that is relative': [{ workdir: 'app' }, 'InvalidArgumentError', /app/],
      'a workdir of the kernel': [{ workdir: '/proc/x' }, 'InvalidArgumentError', /\/proc/],
      'an argument that cannot be sent': [{ args: [() => 1] }, 'InvalidArgumentError', /args: \$\[0\]: function cannot be sent/],
      'a name in args and kwargs': [{ args: { a: 1 }, kwargs: { a: 2 } }, 'TypeError', /stands in args and in kwargs/],
      'a schema that is none': [{ schema: { params: [{ name: 'a', type: 'fish' }] } }, 'ValueError', /fish/],
      'code that is no text': [{ code: 7 }, 'InvalidArgumentError', /code/]
    }
    for (const [name, [request, type, message]] of Object.entries(cases)) {
      test(name, async (context) => {
        if (skip && request.mount !== undefined) return context.skip(skip)
        const { status, success, exitCode, error, stdout, stderr, meta, ...rest } = await python(ok, request)
        assert.deepEqual([status, success, exitCode, stdout, stderr, error.type, 'result' in rest], ['error', false, 1, '', '', type, false])
        assert.match(error.message, message)
        assert.ok(meta.duration >= 0 && ['schema', 'inferred', 'convention'].includes(meta.signatureSource))
      })
    }
    test('a request that is none', async () => {
      for (const request of [undefined, null, 'return 1']) {
        const { status, error } = await executor.execute(request)
        assert.deepEqual([status, error.type], ['error', 'InvalidArgumentError'])
        assert.match(error.message, /^execute: the request is (undefined|null|"return 1"); an object is expected/)
      }
      assert.match((await executor.execute({})).error.message, /^call needs the field "(language|code)"/)
      assert.equal((await executor.execute([])).error.message, 'execute: options are an array; an object of names and values is expected')
    })
    test('null for arguments is none', async () => {
      assert.deepEqual((await python('def f(*args, **kwargs): return [len(args), len(kwargs)]', { args: null, kwargs: null })).result, [0, 0])
    })
    test('a broken client throws', async () => {
      const peer = await startPeer(({ method }, link) => { if (method === 'call') link.socket.destroy() })
      const broken = await Cloche.connect({ socket: peer.socket })
      await assert.rejects(createExecutor({ client: broken }).execute({ language: 'python', code: ok }), { name: 'ConnectionError' })
      await broken.close()
      await peer.close()
    })
  })

  describe('signatureSource of a call that failed', () => {
    const sources = [
      ['python', 'def f(a):\n  return 1 / 0', 'inferred'], ['python', 'return 1 / 0', 'convention'], ['python', 'def f(:', 'inferred'],
      ['python', 'import os\nasync def f(a): os.abort()', 'inferred'], ['ruby', 'def f(a) = raise("no")', 'inferred'],
      ['php', 'function f(int $a = 1, ...$b) { throw new Exception("no"); }', 'inferred'], ['js', 'const f = async (a) => { throw new Error("no") }', 'inferred'],
      ['js', 'throw new Error("no")', 'convention'], ['typescript', 'export function f<T> (a: T): never { throw new Error("no") }', 'inferred'],
      ['c', '#include <stdlib.h>\nint f(int a) { abort(); }', 'inferred'], ['bash', 'f() { return 3; }', 'convention']
    ]
    for (const [language, code, source] of sources) {
      test(`${language}: ${code.split('\n').at(-1)}`, async () => {
        const { success, meta } = await executor.execute({ language, code, args: [1] })
        assert.deepEqual([success, meta.signatureSource], [false, source])
      })
    }
    test('with a schema', async () => {
      const { success, meta } = await python('def f(a): return 1 / 0', { args: [1], schema: { params: [{ name: 'a' }] } })
      assert.deepEqual([success, meta.signatureSource], [false, 'schema'])
    })
    test('stopped at its limit', async () => {
      const { status, meta } = await python('def f():\n  while True: pass', { timeout: 0.3 })
      assert.deepEqual([status, meta.signatureSource], ['timeout', 'inferred'])
    })
  })

  describe('values as JSON.parse gives them', () => {
    const cases = [
      ['python', 'def f(): return {1: "a", 2.5: "b", None: "c", True: "d"}', { 2.5: 'b', null: 'c', 1: 'd' }, 'keys'],
      ['python', 'from collections import Counter\ndef f(): return Counter([1, 1, 2])', { 1: 2, 2: 1 }],
      ['python', 'def f(): return [{3, 1} == {1, 3}, sorted([*{3, 1}]), {7}, frozenset([8])]', [true, [1, 3], [7], [8]]],
      ['python', 'def f(): return [2 ** 53 + 1, -2 ** 70, float("nan"), float("inf")]', [2 ** 53, -(2 ** 70), null, null]],
      ['python', 'import numpy as np\ndef f(): return [np.arange(3), np.array([1, 2], dtype="u1"), np.array([1.5])]', [[0, 1, 2], [1, 2], [1.5]]],
      ['python', 'import array\ndef f(): return array.array("b", [1, -1])', [1, -1]],
      ['python', 'import datetime as d\ndef f(): return [d.date(2026, 1, 2), d.datetime(2026, 1, 2, 3, 4, 5, 6)]', ['2026-01-02', '2026-01-02T03:04:05.000006']],
      ['python', 'def f(): return b"\\x00\\xff"', 'AP8='],
      ['python', 'def f(): return {(1, "x"): 2}', { '[1,"x"]': 2 }],
      ['cpp', '#include <map>\n#include <set>\n#include <vector>\nstd::map<int, std::set<int>> f() { return {{1, {2, 3}}}; }', { 1: [2, 3] }],
      ['js', 'const f = () => ({ m: new Map([[1, new Set([2n])]]), d: new Date(0), u: undefined, a: [undefined], t: new Float64Array([1]) })', { m: { 1: [2] }, d: '1970-01-01T00:00:00.000Z', a: [null], t: [1] }],
      ['js', 'const f = () => {}', undefined],
      ['ruby', 'require "set"\ndef f = { 1 => Set[2], a: 2 ** 80 }', { 1: [2], a: 2 ** 80 }],
      ['php', 'function f() { return [3 => "a", 5 => [1, 2]]; }', { 3: 'a', 5: [1, 2] }]
    ]
    for (const [language, code, expected] of cases) {
      test(`${language}: ${code.split('\n').at(-1)}`, async () => {
        const { result, error } = await executor.execute({ language, code })
        assert.deepEqual(result, expected, JSON.stringify(error))
        assert.deepEqual(result, expected === undefined ? undefined : JSON.parse(JSON.stringify(result)))
      })
    }
    test('rich, of a call or of all calls, keeps them', async () => {
      const code = 'import array\ndef f(): return [{1: 2}, {3}, 2 ** 64, array.array("i", [1]), __import__("datetime").date(2026, 1, 2), b"x"]'
      const expected = [new Map([[1, 2]]), new Set([3]), 2n ** 64n, Int32Array.of(1), new Date('2026-01-02'), new Uint8Array(Buffer.from('x'))]
      assert.deepEqual((await python(code, { rich: true })).result, expected)
      assert.deepEqual((await createExecutor({ client, rich: true }).execute({ language: 'python', code })).result, expected)
      assert.deepEqual((await client.call({ language: 'python', code })).result, expected, 'the native client')
    })
  })

  describe('stdin of a call', () => {
    const readers = {
      python: 'import sys\ndef f(): return sys.stdin.read()', ruby: 'def f = $stdin.read', php: 'function f() { return stream_get_contents(STDIN); }',
      js: 'const f = () => require("node:fs").readFileSync(0, "utf8")', bash: 'f() { cat; }',
      c: '#include <stdio.h>\n#include <string.h>\nstatic char line[100];\nchar *f(void) { return fgets(line, sizeof line, stdin); }',
      cpp: '#include <iostream>\n#include <string>\nstd::string f() { std::string line; std::getline(std::cin, line); return line; }'
    }
    for (const [language, code] of Object.entries(readers)) {
      test(language, async () => {
        const { result, error } = await executor.execute({ language, code, functionName: 'f', stdin: 'héllo' })
        assert.equal(result, 'héllo', JSON.stringify(error))
      })
    }
    test('line by line, large, bytes; without one it is empty', async () => {
      assert.deepEqual((await python('def f(): return [input("? "), input()]', { stdin: 'a\nb\n' })).result, ['a', 'b'])
      assert.equal((await python('import sys\ndef f(): return len(sys.stdin.buffer.read())', { stdin: new Uint8Array(3e6).fill(255) })).result, 3e6)
      assert.equal((await python('import sys\ndef f(): return sys.stdin.read()')).result, '')
    })
  })

  describe('workdir', () => {
    test('of several missing levels, with files below it', async () => {
      const { result, error } = await python('import os\ndef f(): return [os.getcwd(), open("a.txt").read()]', { workdir: '/workspace/x/y/z', files: { 'a.txt': 'text' } })
      assert.deepEqual(result, ['/workspace/x/y/z', 'text'], JSON.stringify(error))
      for (const workdir of ['/tmp/p/q/r', '/home/cloche/p/q']) assert.equal((await python('import os\ndef f(): return os.getcwd()', { workdir })).result, workdir)
    })
  })

  describe('what changed files were before', () => {
    const CODE = 'import os\ndef f(d):\n  open(d + "/same", "w").write("same")\n  open(d + "/old", "a").write("!")\n  os.remove(d + "/gone")\n  open(d + "/new", "w").write("n")'
    const told = (files) => files.all().map(({ type, path: name, oldContent }) => [type, path.basename(name), oldContent && Buffer.from(oldContent).toString()])
    const expected = [['create', 'new', undefined], ['modify', 'old', 'old'], ['delete', 'gone', 'gone']]
    test('of the call\'s own files', async () => {
      for (const workdir of ['/workspace', '/workspace/x']) {
        const { files, error } = await python(CODE, { workdir, args: [workdir], files: { same: 'same', [`${workdir}/old`]: 'old', './gone': new Uint8Array(Buffer.from('gone')) } })
        assert.deepEqual(told(files), expected, JSON.stringify(error))
      }
    })
    test('a chmod of the call\'s own files is told with its mode', async () => {
      const files = { plain: 'a', run: { content: 'b', mode: 0o755 }, both: 'c', touched: 'd', [`/opt/x`]: 'e' }
      const code = 'import os\ndef f():\n  os.chmod("plain", 0o600)\n  os.chmod("run", 0o644)\n  os.chmod("both", 0o755)\n  open("both", "w").write("C")\n  os.utime("touched")\n  os.chmod("touched", 0o644)\n  os.chmod("/opt/x", 0o700)'
      const { files: changes, error } = await python(code, { files })
      assert.deepEqual(changes?.all().map(({ type, path: name, mode, content, oldContent }) => [type, path.basename(name), mode, `${Buffer.from(content)}`, `${Buffer.from(oldContent)}`]).sort(),
        [['modify', 'both', 0o755, 'C', 'c'], ['modify', 'plain', 0o600, 'a', 'a'], ['modify', 'run', 0o644, 'b', 'b'], ['modify', 'x', 0o700, 'e', 'e']], JSON.stringify(error))
    })
    mounted('of a mount', async ({ dir, mount }) => {
      for (const name of ['same', 'old', 'gone']) writeFileSync(path.join(dir, name), name)
      const { files, error } = await python(CODE, { args: ['/data'], mount })
      assert.deepEqual(told(files), expected, JSON.stringify(error))
    })
    mounted('the same bytes with another mode are a change', async ({ dir, mount }) => {
      writeFileSync(path.join(dir, 'same'), 'same', { mode: 0o644 })
      const { files } = await python('import os\ndef f():\n  open("/data/same", "w").write("same")\n  os.chmod("/data/same", 0o755)', { mount })
      assert.deepEqual(files.all().map(({ type, mode }) => [type, mode]), [['modify', 0o755]])
    })
  })
})
