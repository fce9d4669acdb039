// The image store of a daemon, against the real one.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { daemon, real, until } from './lib/real.mjs'

describe('images', real, () => {
  let folder, store, client
  const connect = async (changes) => await Cloche.connect({ daemon, daemonArgs: ['--images', store, '--image-changes', changes] })
  const pack = (text, size = 0) => {
    const root = path.join(folder, 'root')
    mkdirSync(path.join(root, 'etc'), { recursive: true })
    writeFileSync(path.join(root, 'etc/marker'), text)
    writeFileSync(path.join(root, 'data'), randomBytes(size))
    const file = path.join(folder, `${text}.tar`)
    execFileSync('tar', ['-C', root, '-cf', file, '.'])
    return file
  }
  before(async () => {
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-images-'))
    store = path.join(folder, 'images')
    mkdirSync(store, 0o700)
    client = await connect('owner')
  })
  after(async () => {
    await client?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('an image comes and goes', async () => {
    const file = pack('one', 3 << 20)
    const made = await client.images.import(file, 'tools:1')
    assert.deepEqual([made.name, made.isNew, made.entries], ['tools:1', true, 4])
    const bytes = readFileSync(file)
    assert.equal((await client.images.import(bytes, 'tools:2')).id, made.id)
    const pieces = async function * () { yield bytes.subarray(0, 10); yield bytes.subarray(10, 10); yield bytes.subarray(10) }
    assert.equal((await client.images.import(pieces(), 'tools:3')).isNew, false)
    const found = await client.images.get('tools:1')
    assert.deepEqual([found.tree, found.names.sort()], [made.tree, ['tools:1', 'tools:2', 'tools:3']])
    assert.equal((await client.images.list()).length, 1)
    assert.equal((await client.images.verify(found.tree)).isWhole, true)
    for (const tag of [1, 2, 3]) assert.equal((await client.images.delete(`tools:${tag}`)).imageRemoved, tag === 3)
    assert.deepEqual(await client.images.list(), [])
    assert.equal((await client.images.prune()).leftovers, 0)
  })

  test('warm interpreters and settings', async () => {
    const root = path.join(folder, 'shell')
    const file = path.join(folder, 'shell.tar')
    execFileSync('sh', ['-ec', `mkdir -p $1/usr/bin; for name in bin lib lib64; do ln -s usr/$name $1/$name; done
      libc=$(ldd /usr/bin/bash | grep -o '/[^ ]*/libc.so[^ ]*')
      for path in /usr/bin/bash $(ldd /usr/bin/bash | grep -o '/[^ ]*') \${libc%/*}/libpthread.so.0 \${libc%/*}/libdl.so.2; do mkdir -p $1/usr$(dirname \${path#/usr}); cp -L $path $1/usr\${path#/usr}; done
      tar -C $1 -cf $2 .`, 'sh', root, file])
    const made = await client.images.import(file, 'shell')
    const { interpreters: [one], idleMs } = await client.images.warm('shell', ['sh'])
    assert.deepEqual([one.language, one.isNew, one.memoryBytes > 0, idleMs], ['bash', true, true, 600_000])
    assert.equal((await client.images.warm('shell', 'bash')).interpreters[0].isNew, false)
    await assert.rejects(client.images.warm('shell', ['bash', 'python']), { name: 'MissingRuntimeError', message: /the image has no interpreter for python/ })
    await assert.rejects(client.images.warm('shell', []), { name: 'InvalidArgumentError', message: /expected 1 to/ })
    const imageSettings = { env: { A: '1' } }
    const print = { language: 'bash', code: 'echo "$A"' }
    assert.equal((await client.script({ ...print, image: made.tree, imageSettings })).stdout, '1\n')
    assert.equal((await client.script({ ...print, image: made.tree })).stdout, '\n')
    assert.equal((await client.images.warm(made.tree, 'bash', { imageSettings: { env: { A: '2' } } })).interpreters[0].isNew, true)
    await assert.rejects(client.script({ ...print, image: made.tree, imageSettings: { env: { HOME: '/' } } }), { name: 'InvalidArgumentError', message: /HOME/ })
    const { sandbox: box } = await client.sandboxes.create({ name: 'named', image: 'shell' })
    assert.equal((await box.get()).imageName, 'shell')
    const kept = await client.images.prune({ keepBytes: 0 })
    assert.deepEqual([kept.images, kept.inUse], [0, 1])
    await box.delete()
    await assert.rejects(client.images.delete('shell'), { name: 'StateError', message: /warm interpreter of bash/ })
    await client.close()
    client = await connect('owner')
    const isDeleted = async () => await client.images.delete('shell').then(() => true, (error) => assert.match(error.message, /is in use/))
    await until(isDeleted, 'the interpreters of the daemon before have ended')
  })

  test('refusals', async () => {
    await client.images.import(pack('two'), 'tools')
    await assert.rejects(client.images.get('tols'), { name: 'NotFoundError', message: /did you mean 'tools:latest'/ })
    await assert.rejects(client.call({ language: 'python', code: 'return 1', image: 'tols' }), { name: 'NotFoundError', message: /did you mean/ })
    await assert.rejects(client.images.import(Buffer.from('no archive'), 'bad'), { name: 'BadArchiveError' })
    await assert.rejects(client.images.import(randomBytes(3 << 20), 'bad'), { name: 'BadArchiveError' })
    await assert.rejects(client.images.import(pack('two'), 'Bad'), { name: 'InvalidArgumentError' })
    await assert.rejects(client.images.import(path.join(folder, 'nowhere'), 'x'), { code: 'ENOENT' })
    const broken = async function * () { yield randomBytes(2 << 20); throw new Error('the source is gone') }
    await assert.rejects(client.images.import(broken(), 'lost'), { message: 'the source is gone' })
    assert.deepEqual((await client.images.list()).map(({ names }) => names), [['tools:latest']])
    const other = await connect('none')
    for (const act of [() => other.images.import(pack('two'), 'x'), () => other.images.delete('tools'), () => other.images.prune()]) {
      await assert.rejects(act(), { name: 'ForbiddenError', message: /--image-changes/ })
    }
    assert.equal((await other.images.list()).length, 1)
    await other.close()
  })

  test('nothing is left of those that failed', async () => {
    await client.close()
    assert.deepEqual(readdirSync(path.join(store, 'incoming')), [])
  })
})
