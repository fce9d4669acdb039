// Volumes through the client, against the real daemon.
import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { test } from 'node:test'
import { Cloche, NotFoundError, StateError } from 'cloche'
import { real } from './lib/real.mjs'
import { serve } from './lib/served.mjs'

const able = process.getuid() === 0 && existsSync('/dev/loop-control')

test('two sandboxes share a volume', able ? real : { skip: 'volumes need root and loop devices' }, async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-volumes-'))
  const served = await serve('--volumes', path.join(folder, 'volumes'))
  const client = await Cloche.connect({ socket: served.socket })
  try {
    const made = await client.volumes.create({ volume: 'data', sizeBytes: 16 << 20, labels: { of: 'tests' } })
    assert.deepEqual([made.volume, made.sizeBytes, made.labels, made.usedBy], ['data', 16 << 20, { of: 'tests' }, []])
    const { sandbox: one } = await client.sandboxes.create({ name: 'one', volumes: [{ name: 'data', path: '/data' }] })
    const { sandbox: two, info } = await client.sandboxes.create({ name: 'two', volumes: [{ name: 'data', path: '/data', readOnly: true }] })
    assert.deepEqual(info.volumes, [{ name: 'data', path: '/data', readOnly: true }])
    await one.exec({ command: 'echo shared > /data/f' })
    assert.equal((await two.exec({ command: 'cat /data/f; echo x > /data/f || echo closed' })).stdout, 'shared\nclosed\n')
    const { usage, usedBy } = await client.volumes.get({ volume: 'data' })
    assert.ok(usage.usedBytes > 0 && usage.usedBytes < usage.bytes)
    assert.deepEqual(usedBy, ['one', 'two'])
    await assert.rejects(client.volumes.delete({ volume: 'data' }), StateError)
    await one.delete()
    await two.delete()
    await client.volumes.delete({ volume: 'data' })
    assert.deepEqual((await client.volumes.list()).volumes, [])
    await assert.rejects(client.volumes.get({ volume: 'data' }), NotFoundError)
  } finally {
    await client.close()
    await served.end()
    rmSync(folder, { recursive: true })
  }
})
