// The file system of calls: any absolute directory, mounts in all their forms, patterns in both meanings.
import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
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
    assert.deepEqual([beside.status, told(beside.files).map(([, name]) => name).sort()], ['success', ['/home/cloche/h', '/tmp/t', '/workspace/w']], JSON.stringify(beside.error))
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
    const atTop = await python('def f():\n  open("/x.csv", "a").write("!")\n  open("/home/n.txt", "w").write("n")\n  return [open(name).read() for name in ("/x.csv", "/same.txt", "/home/n.txt")]', {
      files: { '/x.csv': 'x', '/same.txt': Buffer.from('same'), '/home/n.txt': { content: 'old', mode: 0o600 }, '/dir': { directory: true } }
    })
    assert.deepEqual([atTop.result, told(atTop.files).sort()], [['x!', 'same', 'n'], [['modify', '/home/n.txt', 'n'], ['modify', '/x.csv', 'x!']]], JSON.stringify(atTop.error))
    assert.deepEqual(atTop.files.all().map(({ realPath, oldContent }) => [realPath, Buffer.from(oldContent).toString()]).sort(), [[undefined, 'old'], [undefined, 'x']])
    const many = Object.fromEntries(Array.from({ length: 9 }, (_, i) => [`/f${i}`, `${i}`]))
    assert.match((await python('def f(): return 1', { files: many })).error.message, /^files: \/f0, \/f1, \/f2 and more are 9 places, each a mount; a box has 8 at most: /)
    assert.match((await python('def f(): return 1', { workdir: '/' })).error.message, /^workdir: "\/" itself is read-only in a box; choose /)
    for (const [workdir, folder] of [['/usr/local/x', '/usr'], ['/bin', '/bin'], ['/lib64/x', '/lib64'], ['/etc/x', '/etc']]) {
      const { error } = await python('def f(): return 1', { workdir })
      assert.deepEqual([error.type, error.message], ['InvalidArgumentError', `workdir: "${workdir}" lies below ${folder}, which is the box's own; choose /workspace, or another folder such as /app`])
    }
    assert.match((await python('def f(): return 1', { files: { '/usr/local/x': '1' } })).error.message, /^files: "\/usr\/local\/x" lies below \/usr/)
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
  const ALL = { rules: [{ pattern: '**', allow: '*' }] }
  mounted('a single file, under its own name', async ({ dir, read }) => {
    const mount = { dirs: { '/data/in.txt': path.join(dir, 'in.txt') }, permissions: ALL }
    const code = 'import os\ndef f():\n  open("/data/in.txt", "a").write("!")\n  try: open("/data/new", "w")\n  except OSError: return sorted(os.listdir("/data"))'
    const { result, error, files } = await python(code, { mount })
    assert.deepEqual(result, ['in.txt'], JSON.stringify(error))
    assert.deepEqual(told(files), [['modify', '/data/in.txt', 'host!']])
    await executor.syncFiles(files.all(), { dirs: { '/data': dir } })
    assert.equal(read('in.txt'), 'host!')
  })
  for (const target of ['/x.csv', '/data/x.csv', '/data/deep/er/x.csv', '/workspace/x.csv', '/home/cloche/x.csv', '/opt/x']) {
    mounted(`a single file under another name: ${target}`, async ({ dir, read }) => {
      const mount = { dirs: { [target]: path.join(dir, 'in.txt') }, permissions: { rules: [{ pattern: path.basename(target), allow: '*' }] } }
      const code = `import os\ndef f():\n  text = open("${target}").read()\n  open("${target}", "a").write("!")\n  open("/workspace/beside", "w").write("x")\n  return [text, open("${target}").read(), os.path.exists("${path.dirname(target)}/other.txt")]`
      const { result, error, files } = await python(code, { mount })
      assert.deepEqual(result, ['host', 'host!', false], JSON.stringify(error))
      const change = files.all().find((one) => one.path === target)
      assert.deepEqual([change?.type, Buffer.from(change?.content ?? []).toString(), change?.realPath], ['modify', 'host!', path.join(dir, 'in.txt')])
      assert.equal(read('in.txt'), 'host')
      assert.deepEqual((await executor.syncFiles([change], mount)).synced, [target])
      assert.deepEqual([read('in.txt'), read('other.txt')], ['host!', 'other'])
      const batch = await python(code, { mount: { ...mount, sync: { mode: 'batch' } } })
      assert.deepEqual([batch.sync?.synced, read('in.txt')], [[target], 'host!!'], JSON.stringify(batch.error))
    })
  }
  mounted('a single file without the right to write, and rules by the name in the box or from the root', async ({ dir, read }) => {
    const code = 'def f():\n  try: open("/data/x.csv", "a").write("!")\n  except PermissionError as e: return e.errno\n  return "written"'
    const dirs = { '/data/x.csv': path.join(dir, 'in.txt') }
    const denied = await python(code, { mount: { dirs } })
    assert.deepEqual([denied.result, denied.files.denied.map(({ path, operation }) => [path, operation])], [13, [['/data/x.csv', 'modify']]], JSON.stringify(denied.error))
    for (const [pattern, expected] of [['x.csv', 'written'], ['/data/*.csv', 'written'], ['in.txt', 13], ['data/y', 13]]) {
      assert.equal((await python(code, { mount: { dirs, permissions: { rules: [{ pattern, allow: '*' }] } } })).result, expected, pattern)
    }
    assert.equal(read('in.txt'), 'host')
  })
  mounted('more single files than a box has mounts, of one folder', async ({ dir }) => {
    const names = Array.from({ length: 12 }, (_, at) => `f${at}`)
    for (const name of names) writeFileSync(path.join(dir, name), name)
    const dirs = Object.fromEntries(names.map((name) => [`/data/${name}`, path.join(dir, name)]))
    const { result, error } = await python('import os\ndef f(): return [sorted(os.listdir("/data")), open("/data/f7").read()]', { mount: { dirs } })
    assert.deepEqual(result, [[...names].sort(), 'f7'], JSON.stringify(error))
  })
  mounted('a folder within another, and within a place', async ({ dir, read }) => {
    const inner = path.join(dir, 'out')
    for (const outer of [{ '/workspace': dir }, {}]) {
      const at = outer['/workspace'] === undefined ? '/app' : '/workspace'
      const code = `import os\ndef f():\n  open("${at}/modules/new", "w").write("inner")\n  open("${at}/beside", "w").write("outer")\n  return sorted(os.listdir("${at}"))`
      const mount = { dirs: { ...outer, [`${at}/modules`]: inner }, permissions: ALL }
      const { result, error, files } = await python(code, { mount, workdir: at })
      assert.ok(result?.includes('modules'), JSON.stringify(error))
      assert.deepEqual(files.all().map(({ path, realPath }) => [path, realPath]).sort(),
        [[`${at}/beside`, at === '/app' ? undefined : path.join(dir, 'beside')], [`${at}/modules/new`, path.join(inner, 'new')]])
      await executor.syncFiles(files.all(), mount)
      assert.equal(read('out/new'), 'inner')
      rmSync(path.join(inner, 'new'))
    }
    assert.equal(read('beside'), 'outer')
    assert.deepEqual(places(), [])
  })
  mounted('followSymlinks', async ({ dir }) => {
    symlinkSync('in.txt', path.join(dir, 'inside'))
    symlinkSync('/tmp/of-the-box', path.join(dir, 'outside'))
    symlinkSync(path.join(dir, '..'), path.join(dir, 'host'))
    const code = `import os
def f():
  open("/tmp/of-the-box", "w").write("box")
  def read(name):
    try: return open("/data/" + name).read()
    except OSError as e: return os.strerror(e.errno)
  return [read("inside"), read("outside"), read("host/secret")]`
    writeFileSync(path.join(folder, 'secret'), 'the host\'s')
    for (const [followSymlinks, expected] of [
      [true, ['host', 'box', 'No such file or directory']],
      ['restricted', ['host', 'Permission denied', 'Permission denied']],
      [false, Array(3).fill('Too many levels of symbolic links')]
    ]) {
      const { result, error } = await python(code, { mount: { dirs: { '/data': dir }, security: { followSymlinks } } })
      assert.deepEqual(result, expected, JSON.stringify([followSymlinks, error]))
    }
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
