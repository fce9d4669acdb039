// Where calls run and what they see: any absolute directory, mounts in all their forms, patterns in both meanings.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { mountReason } from './lib/mounts.mjs'
import { real } from './lib/real.mjs'

const places = () => readdirSync(tmpdir()).filter((name) => name.startsWith('cloche-place-'))
const told = (files) => files.all().map(({ type, path, content }) => [type, path, content && Buffer.from(content).toString()])

describe('paths', real, () => {
  let client, executor, folder, skip, made = 0
  before(async () => {
    client = await Cloche.connect()
    executor = createExecutor({ client })
    skip = await mountReason(client)
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-paths-'))
    process.env.TMPDIR = folder // other tests make places, too
  })
  after(async () => {
    await client?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const python = (code, more = {}) => executor.execute({ language: 'python', code, ...more })
  const mounted = (name, use) => test(name, async (context) => {
    if (skip) return context.skip(skip)
    const dir = path.join(folder, `${++made}`)
    mkdirSync(path.join(dir, 'out'), { recursive: true })
    writeFileSync(path.join(dir, 'in.txt'), 'host')
    writeFileSync(path.join(dir, 'other.txt'), 'other')
    await use({ dir, read: (name) => readFileSync(path.join(dir, name), 'utf8') })
  })
  const WORK = 'import os\ndef f():\n  text = open("in.txt").read()\n  open("out.txt", "w").write(text.upper())\n  open("in.txt", "a").write("!")\n  return [os.getcwd(), text]'

  for (const workdir of ['/app', '/custom/path', '/app/', '/workspace/', '/opt/x/y', '/home/me', '/root', '/tmp/./x']) {
    mounted(`workdir ${workdir}`, async () => {
      const { result, error, files } = await python(WORK, { workdir, files: { './in.txt': 'hi' } })
      const cwd = path.posix.normalize(workdir).replace(/\/$/, '')
      assert.deepEqual(result, [cwd, 'hi'], JSON.stringify(error))
      assert.deepEqual(told(files), [['create', `${cwd}/out.txt`, 'HI'], ['modify', `${cwd}/in.txt`, 'hi!']])
      assert.ok(files.all().every(({ realPath }) => realPath === undefined))
      assert.deepEqual(places(), [])
    })
  }
  mounted('changes below /tmp and the home, when asked', async ({ dir }) => {
    const code = 'import os, tempfile\ndef f():\n  open("/tmp/t", "w").write("t")\n  open(os.path.expanduser("~/h"), "w").write("h")\n  open("w", "w").write("w")\n  with tempfile.NamedTemporaryFile() as file: file.write(b"x")'
    const all = (await python(code, { resultOptions: { includeTemporary: true } })).files
    assert.deepEqual(told(all).sort(), [['create', '/home/cloche/h', 'h'], ['create', '/tmp/t', 't'], ['create', '/workspace/w', 'w']])
    assert.deepEqual(told((await python(code)).files), [['create', '/workspace/w', 'w']])
    const beside = await python(code, { resultOptions: { includeTemporary: true }, mount: { dirs: { '/tmp/x': dir } } })
    assert.deepEqual([beside.status, told(beside.files).map(([, name]) => name).sort()], ['success', ['/home/cloche/h', '/workspace/w']], JSON.stringify(beside.error))
  })
  mounted('defaultWorkdir, and other languages', async () => {
    const own = createExecutor({ client, defaultWorkdir: '/app' })
    for (const [language, code] of [['js', 'const f = () => process.cwd()'], ['ruby', 'def f = Dir.pwd'], ['php', 'function f() { return getcwd(); }'], ['bash', 'f() { pwd; }']]) {
      const { result, error } = await own.execute({ language, code, functionName: 'f' })
      assert.equal(result, '/app', JSON.stringify(error))
    }
  })
  mounted('files anywhere but in what is the box\'s own', async () => {
    const { result, error } = await python('def f(): return [open("/data/x.csv").read(), open("/srv/a/b").read(), open("c").read()]', { files: { '/data/x.csv': '1,2', '/srv/a/b': '3', './c': '4' } })
    assert.deepEqual(result, ['1,2', '3', '4'], JSON.stringify(error))
    for (const name of ['/proc/x', '/dev/x', '/sys/x', '/run/x', '/etc/x', '/app/../etc/x']) {
      const { status, error } = await python('def f(): return 1', { files: { [name]: '1' } })
      assert.deepEqual([status, error.type], ['error', 'InvalidArgumentError'], name)
    }
    assert.deepEqual(places(), [])
  })
  mounted('a place and a mount with batch sync: only the mount is synced, and told', async ({ dir, read }) => {
    const own = createExecutor({ client })
    const asked = []
    own.on('beforeSync', ({ path }) => { asked.push(path) })
    const { files, sync } = await own.execute({
      language: 'python', workdir: '/app', files: { 'in.txt': 'v' }, mount: { dirs: { '/data': dir }, permissions: { default: { create: true } }, sync: { mode: 'batch' } },
      code: 'def f():\n  open("a", "w").write("a")\n  open("/data/b", "w").write("b")'
    })
    assert.deepEqual([told(files).sort(), sync.synced, asked, read('b')], [[['create', '/app/a', 'a'], ['create', '/data/b', 'b']], ['/data/b'], ['/data/b'], 'b'])
  })
  mounted('mounts at the top, deep, in the home, with a slash behind; a workdir in them', async ({ dir }) => {
    for (const target of ['/app', '/app/b/c', '/home/me/x', '/home/cloche/x', '/workspace', '/data/']) {
      const { result, error } = await python('import os\ndef f(): return [os.getcwd(), open("in.txt").read()]', { mount: { dirs: { [target]: dir } }, workdir: target })
      assert.deepEqual(result, [target.replace(/\/$/, ''), 'host'], JSON.stringify(error))
    }
  })
  mounted('a single file', async ({ dir, read }) => {
    const mount = { dirs: { '/data/in.txt': path.join(dir, 'in.txt') }, permissions: { rules: [{ pattern: '**', allow: '*' }] } }
    const code = 'import os\ndef f():\n  open("/data/in.txt", "a").write("!")\n  try: open("/data/new", "w")\n  except PermissionError: return sorted(os.listdir("/data"))'
    const { result, error, files } = await python(code, { mount })
    assert.deepEqual(result, ['in.txt'], JSON.stringify(error))
    assert.deepEqual(told(files), [['modify', '/data/in.txt', 'host!']])
    await executor.syncFiles(files.all(), { dirs: { '/data': dir } })
    assert.equal(read('in.txt'), 'host!')
    assert.match((await python(code, { mount: { dirs: { '/data/x.csv': path.join(dir, 'in.txt') } } })).error.message, /stands under its own name/)
  })
  mounted('patterns below the mount and as from the root', async ({ dir }) => {
    const code = 'def f():\n  done = []\n  for name in ("out/a", "b", "in.txt"):\n    try:\n      open("/data/" + name, "w").write("x")\n      done.append(name)\n    except PermissionError: pass\n  return done'
    for (const pattern of ['out/**', '/out/**', 'data/out/**', '/data/out/**', '/data/out/*']) {
      assert.deepEqual((await python(code, { mount: { dirs: { '/data': dir }, permissions: { rules: [{ pattern, allow: '*' }] } } })).result, ['out/a'], pattern)
    }
    const rules = [{ pattern: '**', allow: '*' }]
    assert.deepEqual((await python(code, { mount: { dirs: { '/data': dir }, permissions: { rules, exclude: ['/data/b'] } } })).result, ['out/a', 'in.txt'])
    assert.deepEqual((await python(code, { mount: { dirs: { '/data': dir }, permissions: { rules: [{ pattern: '!*.txt', allow: '*' }] } } })).result, ['out/a', 'b'])
    assert.deepEqual((await python(code, { mount: { dirs: { '/data': dir }, permissions: { rules: [{ pattern: '@(b|in.txt)', allow: '*' }] } } })).result, ['b', 'in.txt'])
  })
})
