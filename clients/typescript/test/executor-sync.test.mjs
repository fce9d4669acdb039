// syncFiles writes exactly the caller's choice, to any target.
import assert from 'node:assert/strict'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { mountReason } from './lib/mounts.mjs'
import { real } from './lib/real.mjs'

const bytes = (text) => new Uint8Array(Buffer.from(text))
const created = (name, text = 'x') => ({ type: 'create', path: name, content: bytes(text), size: text.length, timestamp: new Date() })

describe('syncFiles', real, () => {
  let client, executor, folder, skip, made = 0
  before(async () => {
    client = await Cloche.connect()
    executor = createExecutor({ client })
    skip = await mountReason(client)
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-sync-'))
  })
  after(async () => {
    await client?.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const synced = (name, use) => test(name, async (context) => {
    if (skip) return context.skip(skip)
    const dir = path.join(folder, `${++made}`)
    await use({ dir, dirs: { '/workspace': dir }, read: (name) => readFileSync(path.join(dir, name), 'utf8'), tree: () => readdirSync(dir, { recursive: true }).sort() })
  })
  const run = async (mount) => await executor.execute({
    language: 'python', files: mount ? {} : { old: 'o', gone: 'g', from: 'f' }, ...mount ? { mount, workdir: Object.keys(mount.dirs)[0] } : {},
    code: 'import os\ndef f():\n  os.makedirs("a/b")\n  open("a/b/x","w").write("x")\n  open("old","a").write("!")\n  os.remove("gone")\n  os.rename("from","to")'
  })

  synced('a missing directory is made; no permissions are needed', async ({ dirs, tree, read }) => {
    const { files } = await run()
    const outcome = await executor.syncFiles(files.all(), { dirs })
    assert.deepEqual([outcome.failed, tree(), read('old'), read('to')], [[], ['a', 'a/b', 'a/b/x', 'old', 'to'], 'o!', 'f'])
  })
  synced('links are written as links', async ({ dir, dirs }) => {
    for (const mount of [undefined, { dirs, permissions: { default: { create: true } } }]) {
      mkdirSync(dir, { recursive: true })
      const { files } = await executor.execute({
        language: 'python', ...mount ? { mount } : {}, code: 'import os\ndef f():\n  open("to","w").write("t")\n  os.symlink("to","link")'
      })
      const outcome = await executor.syncFiles(files.all(), { dirs })
      assert.deepEqual([outcome.failed, readlinkSync(path.join(dir, 'link')), files.byPath('/workspace/link').target], [[], 'to', 'to'])
      rmSync(dir, { recursive: true })
    }
  })
  synced('what was permitted in the box alone is skipped', async ({ dir, dirs, read }) => {
    mkdirSync(dir)
    writeFileSync(path.join(dir, 'old'), 'host')
    const mount = { dirs, onPermissionDenied: 'virtual' }
    const { files } = await executor.execute({ language: 'python', mount, code: 'def f():\n  open("old","w").write("!")\n  open("new","w").write("n")' })
    const outcome = await executor.syncFiles(files.all(), mount)
    assert.deepEqual([outcome.synced, outcome.skipped.sort(), read('old'), readdirSync(dir)], [[], ['/workspace/new', '/workspace/old'], 'host', ['old']])
    assert.deepEqual(files.all().map((change) => change.virtual), [true, true])
  })
  synced('into another tree than the run had: what is there is overwritten', async ({ dir, dirs, tree, read }) => {
    mkdirSync(dir)
    for (const name of ['old', 'gone', 'from']) writeFileSync(path.join(dir, name), 'host')
    const { files } = await run()
    const outcome = await executor.syncFiles(files.all(), { dirs })
    assert.deepEqual([outcome.failed, outcome.skipped, tree(), read('old')], [[], [], ['a', 'a/b', 'a/b/x', 'old', 'to'], 'o!'])
  })
  synced('hand-made changes get their directories', async ({ dirs, read }) => {
    const outcome = await executor.syncFiles([created('/workspace/p/q/r.txt', 'deep')], { dirs })
    assert.deepEqual([outcome, read('p/q/r.txt')], [{ synced: ['/workspace/p/q/r.txt'], failed: [], skipped: [] }, 'deep'])
  })
  synced('copies of changes, without what the run knew of them', async ({ dirs, read }) => {
    const { files } = await run()
    const outcome = await executor.syncFiles(JSON.parse(JSON.stringify(files.created.filter(({ path }) => path.endsWith('x')))).map((change) => ({ ...change, content: bytes('x') })), { dirs })
    assert.deepEqual([outcome.synced, read('a/b/x')], [['/workspace/a/b/x'], 'x'])
  })
  synced('unmapped paths are skipped, by name', async ({ dirs, tree }) => {
    assert.deepEqual(await executor.syncFiles([created('/other/a'), created('/workspace2/b'), created('/workspace/c')], { dirs }), { synced: ['/workspace/c'], failed: [], skipped: ['/other/a', '/workspace2/b'] })
    assert.deepEqual(tree(), ['c'])
  })
  synced('a path that leads up is a wrong argument, and nothing is written', async ({ dir, dirs }) => {
    for (const path of ['/workspace/../x', '/workspace/a/..', '/other/../workspace/x']) {
      await assert.rejects(executor.syncFiles([created('/workspace/c'), created(path)], { dirs }), { name: 'InvalidArgumentError', message: `changes[1].path is "${path}"; a path without ".." is expected, as in the result of a run` })
    }
    assert.equal(existsSync(dir), false)
    assert.deepEqual((await executor.syncFiles([created('/workspace/..a')], { dirs })).synced, ['/workspace/..a'])
  })
  synced('nothing mapped: nothing is made', async ({ dir, dirs }) => {
    assert.deepEqual(await executor.syncFiles([created('/other/a')], { dirs }), { synced: [], failed: [], skipped: ['/other/a'] })
    assert.equal(existsSync(dir), false)
  })
  synced('of directories within each other the inner one takes its own', async ({ dir }) => {
    await executor.syncFiles([created('/d/a'), created('/d/in/b')], { dirs: { '/d': path.join(dir, 'one'), '/d/in/': path.join(dir, 'two') } })
    assert.deepEqual([readdirSync(path.join(dir, 'one')), readdirSync(path.join(dir, 'two'))], [['a'], ['b']])
  })
  synced('permissions are checked when they are given', async ({ dirs, tree }) => {
    const outcome = await executor.syncFiles([created('/workspace/a.txt'), created('/workspace/b.js')], { dirs, permissions: { rules: [{ pattern: '*.txt', allow: '*' }] } }, { onError: 'continue' })
    assert.deepEqual([outcome.synced, outcome.failed.map(({ path }) => path), tree()], [['/workspace/a.txt'], ['/workspace/b.js'], ['a.txt']])
  })

  describe('below a mount', () => {
    const mounted = (name, use) => synced(name, async ({ dir, ...rest }) => {
      mkdirSync(path.join(dir, 'd'), { recursive: true })
      for (const name of ['old', 'gone', 'from', 'd/in', 'c']) writeFileSync(path.join(dir, name), name)
      await use({ dir, ...rest, mount: { dirs: { '/data': dir }, permissions: { rules: [{ pattern: '**', allow: '*' }] } } })
    })
    const python = (mount, ...lines) => executor.execute({ language: 'python', mount, code: `import os\ndef f():\n  ${lines.join('\n  ')}` })

    mounted('renames of files and of directories', async ({ mount, tree, read }) => {
      const { files } = await python(mount, 'os.rename("/data/from", "/data/to")', 'os.rename("/data/d", "/data/e")')
      assert.deepEqual(files.all().map(({ type, path, renamedFrom, renamedTo }) => [type, path, renamedFrom ?? renamedTo]), [
        ['create', '/data/e', '/data/d'], ['create', '/data/to', '/data/from'], ['delete', '/data/d', '/data/e'], ['delete', '/data/from', '/data/to']])
      const outcome = await executor.syncFiles(files.all(), mount)
      assert.deepEqual([outcome.synced.sort(), outcome.failed, outcome.skipped], [['/data/d', '/data/e', '/data/from', '/data/to'], [], []])
      assert.deepEqual([tree(), read('to'), read('e/in')], [['c', 'e', 'e/in', 'gone', 'old', 'to'], 'from', 'd/in'])
    })
    mounted('half a rename is not done', async ({ mount, tree }) => {
      const { files } = await python(mount, 'os.rename("/data/from", "/data/to")')
      const { synced: done, failed } = await executor.syncFiles(files.created, mount)
      assert.deepEqual([done, failed[0].path, /is \/data\/from renamed/.test(failed[0].error.message), tree().includes('from')], [[], '/data/to', true, true])
    })
    mounted('a rename that was written to afterwards', async ({ mount, read, tree }) => {
      const { files } = await python(mount, 'os.rename("/data/from", "/data/to")', 'open("/data/to", "a").write("!")')
      await executor.syncFiles(files.all(), mount)
      assert.deepEqual([read('to'), tree().includes('from')], ['from!', false])
    })
    mounted('a chmod is told with its mode, and synced', async ({ dir, mount, read }) => {
      const { files } = await python(mount, 'os.chmod("/data/c", 0o755)')
      assert.deepEqual(files.all().map(({ type, path, mode, attributesOnly, content }) => [type, path, mode, attributesOnly, content]), [['modify', '/data/c', 0o755, true, undefined]])
      await executor.syncFiles(files.all(), mount)
      assert.deepEqual([statSync(path.join(dir, 'c')).mode & 0o777, read('c')], [0o755, 'c'])
    })
  })
})
