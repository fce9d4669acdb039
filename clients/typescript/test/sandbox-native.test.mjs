// The operations of spec/sandbox.md through the client's own classes, against the real daemon.
import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { getSandbox } from 'cloche/sandbox'
import { real, until } from './lib/real.mjs'
import { serve } from './lib/served.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))

describe('sandboxes of a client', real, () => {
  let served, client, box
  before(async () => {
    served = await serve('--preview-host', 'preview.test')
    client = await Cloche.connect({ socket: served.socket })
    box = client.sandbox('native')
  })
  after(async () => {
    await client?.close()
    await served?.end()
    assert.deepEqual(unhandled, [])
  })
  const all = async (iterable) => { const found = []; for await (const item of iterable) found.push(item); return found }
  const text = (parts) => Buffer.concat(parts.map(({ about }) => about.data)).toString()

  test('a directory of the host under rules', async (context) => {
    const folder = mkdtempSync(path.join(tmpdir(), 'cloche-mounted-'))
    context.after(() => rmSync(folder, { recursive: true }))
    writeFileSync(path.join(folder, 'a.txt'), 'a')
    chmodSync(folder, 0o755)
    const mount = { dirs: { '/mnt/m': folder }, permissions: { rules: [{ pattern: 'new', allow: ['create'] }] } }
    const other = await serve('--mount-root', folder)
    try {
      const namespace = { socket: other.socket }
      const of = getSandbox(namespace, 'mounted', { mount })
      assert.equal((await of.exec('cat /mnt/m/a.txt; echo x > /mnt/m/new; echo x > /mnt/m/a.txt; ls /mnt/m')).stdout, 'aa.txt\nnew\n')
      assert.deepEqual(readdirSync(folder), ['a.txt'])
      await of.stop({ sync: {} })
      assert.deepEqual(readdirSync(folder).sort(), ['a.txt', 'new'])
      assert.equal((await of.exec('cat /mnt/m/new')).stdout, 'x\n')
      const there = await Cloche.connect(namespace)
      assert.deepEqual((await there.sandbox('mounted').get()).mounts, [{ path: '/mnt/m', source: folder, state: 'mounted' }])
      const { sandbox: native } = await there.sandboxes.create({ name: 'native', mount })
      assert.equal((await native.exec({ command: 'cat /mnt/m/a.txt' })).stdout.toString(), 'a')
      await assert.rejects(there.sandboxes.create({ mount: { ...mount, sync: { mode: 'batch' } } }), /mount\.sync/)
      await assert.rejects(there.sandboxes.create({ mount: { dirs: { '/m': '/etc' } } }), /--mount-root/)
      await there.close()
    } finally {
      await other.end()
    }
    await assert.rejects(client.sandboxes.create({ mount }), /without --mount-root/)
  })

  test('kept packages', async () => {
    assert.deepEqual(await client.packages.list(), [])
    await assert.rejects(client.packages.delete('0'.repeat(64)), { code: 'not_found', message: /packages\.list lists them/ })
  })

  test('made, found, listed, changed, deleted', async () => {
    const { sandbox, created, info } = await client.sandboxes.create({ name: 'life', labels: { a: 'b' }, idleMs: 60_000 })
    assert.deepEqual([sandbox.name, created, info.state, info.labels, info.idleMs], ['life', true, 'running', { a: 'b' }, 60_000])
    assert.equal((await client.sandboxes.create({ name: 'life' })).created, false)
    assert.ok((await client.sandboxes.list()).some((found) => found.sandbox === 'life'))
    assert.deepEqual((await sandbox.update({ labels: { c: 'd' } })).labels, { c: 'd' })
    assert.equal((await sandbox.get()).sandbox, 'life')
    assert.deepEqual(await sandbox.delete(), {})
    await assert.rejects(sandbox.get(), { name: 'NotFoundError' })
    const made = await client.sandboxes.create()
    assert.match(made.sandbox.name, /^[a-z0-9-]+$/)
    await made.sandbox.delete()
    await assert.rejects(client.sandboxes.create({ name: '-x' }), { name: 'InvalidArgumentError' })
  })

  test('commands: the shell keeps its state, streams come apart, exit codes are results', async () => {
    const { exitCode, stdout, stderr, session, cwd, timedOut, sessionEnded } = await box.exec({ command: 'cd /tmp; X=1; f() { echo "$X$1"; }; f a; echo e >&2; false' })
    assert.deepEqual([exitCode, stdout, stderr, session, cwd, timedOut, sessionEnded], [1, '1a\n', 'e\n', 'default', '/tmp', false, false])
    assert.equal((await box.exec({ command: 'f b; pwd' })).stdout, '1b\n/tmp\n')
    assert.deepEqual([...(await box.exec({ command: "printf '\\377\\000'" })).stdout], [255, 0])
    assert.equal((await box.exec({ command: 'cat', stdin: Uint8Array.of(65, 10) })).stdout, 'A\n')
    assert.equal((await box.exec({ command: 'echo $Y; pwd', env: { Y: 'y' }, cwd: '/' })).stdout, 'y\n/\n')
    assert.equal((await box.exec({ command: 'if' })).exitCode, 2)
    assert.deepEqual(await box.exec({ command: 'sleep 100', timeoutMs: 200 }).then(({ exitCode, timedOut }) => [exitCode, timedOut]), [124, true])
    assert.deepEqual(await box.exec({ command: 'exit 7' }).then(({ exitCode, sessionEnded }) => [exitCode, sessionEnded]), [7, true])
  })

  test('output as it comes; what does not fit is read by the page', async () => {
    const asking = box.exec({ command: 'for i in 1 2 3; do echo $i; until [ -e /tmp/heard-$i ]; do sleep 0.01; done; done; echo end >&2', stream: true })
    const told = []
    for await (const event of asking) { // it goes on after the event was received
      told.push(event)
      if (event.about.stream === 'stdout') await box.file.write({ path: `/tmp/heard-${text([event]).trim()}`, content: '' })
    }
    assert.equal(text(told.filter(({ about }) => about.stream === 'stdout')), '1\n2\n3\n')
    assert.equal((await asking).exitCode, 0)
    const { stdout, stdoutBytes, truncated, output } = await box.exec({ command: 'seq 1000', outputBytes: 100 })
    assert.deepEqual([stdout.length, stdoutBytes, truncated], [100, 3893, true])
    const page = await box.output.read({ output, stream: 'stdout', offset: 100 })
    assert.deepEqual([page.data.length, page.next, page.total, page.end], [3793, 3893, 3893, true])
  })

  test('a reader that is slow holds back what it reads, and nothing else', async () => {
    await box.session.create({ session: 'beside' })
    const asking = box.exec({ command: 'yes | head -c 30000000', stream: true, fork: true })
    const events = asking[Symbol.asyncIterator]()
    let read = (await events.next()).value.about.data.length
    const before = process.memoryUsage().arrayBuffers
    for (let i = 0; i < 50; i++) await box.exec({ command: 'echo other', session: 'beside' })
    assert.ok(process.memoryUsage().arrayBuffers - before < 16 * 2 ** 20, 'memory')
    for await (const { about } of events) read += about.data.length
    assert.equal(read, 30_000_000)
  })

  test('a signal kills what the command started, leaving the loop too', async () => {
    await box.session.create({ session: 'looks' })
    const alive = async (name) => (await box.exec({ command: `pgrep -fc '^${name}'`, session: 'looks' })).stdout.trim() !== '0'
    const controller = new AbortController()
    const first = box.exec({ command: 'sleep 1001 & sleep 1001', fork: true }, { signal: controller.signal })
    await until(() => alive('sleep 1001'), 'it runs')
    controller.abort(new Error('enough'))
    await assert.rejects(first, /enough/)
    await until(async () => !await alive('sleep 1001'), 'it is killed')
    for await (const _ of box.exec({ command: 'echo x; sleep 1002', stream: true, fork: true })) break
    await until(async () => !await alive('sleep 1002'), 'it is killed too')
  })

  test('sessions', async () => {
    const { session, created, cwd } = await box.session.create({ session: 'two', cwd: '/tmp', env: { A: 'a' } })
    assert.deepEqual([session, created, cwd], ['two', true, '/tmp'])
    assert.equal((await box.session.create({ session: 'two' })).created, false)
    await box.session.env({ session: 'two', env: { B: 'b', A: null } })
    assert.equal((await box.exec({ session: 'two', command: 'echo "$A-$B"; pwd' })).stdout, '-b\n/tmp\n')
    assert.ok((await box.session.list()).sessions.some((found) => found.session === 'two' && !found.busy))
    await box.session.delete({ session: 'two' })
    await assert.rejects(box.session.delete({ session: 'default' }), { name: 'StateError' })
    await assert.rejects(box.session.delete({ session: 'nobody' }), { name: 'NotFoundError' })
  })

  test('processes: input, logs, following, waiting, killing', async () => {
    const { process: id, status } = await box.process.start({ command: 'while read line; do echo "got $line"; done; echo bye >&2; exit 3', stdin: true })
    assert.equal(status, 'running')
    const following = box.process.follow({ process: id })
    await box.process.input({ process: id, data: 'one\n' })
    assert.equal((await box.process.wait({ process: id, text: 'got one' })).line, 'got one')
    assert.deepEqual((await box.process.wait({ process: id, pattern: 'got (o)(.)' })).match, ['got on', 'o', 'n'])
    await box.process.input({ process: id, data: Uint8Array.of(98, 10), end: true })
    const told = await all(following)
    assert.deepEqual([text(told.filter(({ about }) => about.stream === 'stdout')), text(told.filter(({ about }) => about.stream === 'stderr'))], ['got one\ngot b\n', 'bye\n'])
    assert.deepEqual(await following.then((ended) => [ended.status, ended.exitCode]), ['failed', 3])
    const logs = await box.process.logs({ process: id })
    assert.deepEqual([logs.stdout, logs.stderr, logs.stdoutNext, logs.stdoutTotal], ['got one\ngot b\n', 'bye\n', 14, 14])
    await assert.rejects(box.process.wait({ process: id, text: 'never' }), ({ name, data }) => name === 'ProcessEndedError' && data.condition === 'text' && data.exitCode === 3)
    const long = await box.process.start({ process: 'long', command: 'sleep 1003' })
    assert.equal(long.process, 'long')
    await assert.rejects(box.process.wait({ process: 'long', timeoutMs: 50 }), ({ name, data }) => name === 'TimeoutError' && data.condition === 'end')
    assert.ok((await box.process.list()).processes.some((found) => found.process === 'long'))
    assert.deepEqual(await box.process.kill({ process: 'long' }).then((ended) => [ended.status, ended.exitCode]), ['killed', 143])
    assert.ok((await box.process.cleanup()).count >= 2)
    await assert.rejects(box.process.get({ process: 'long' }), { name: 'NotFoundError' })
  })

  test('files and archives', async () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, i) => i)
    assert.deepEqual(await box.file.write({ path: 'deep/er/a.bin', content: bytes }), { path: '/workspace/deep/er/a.bin', bytes: 256 })
    assert.deepEqual((await box.file.read({ path: '/workspace/deep/er/a.bin' })).content, bytes)
    assert.equal((await box.file.read({ path: 'deep/er/a.bin', offset: 65, limit: 3 })).content, 'ABC')
    await box.file.write({ path: 'deep/t.txt', content: 'hällo\n' })
    await box.file.write({ path: 'deep/t.txt', content: 'more\n', append: true })
    assert.equal((await box.file.read({ path: 'deep/t.txt' })).content, 'hällo\nmore\n')
    const { type, size, mode } = await box.file.stat({ path: 'deep/t.txt' })
    assert.deepEqual([type, size, mode], ['file', 12, 0o644])
    const { entries } = await box.file.list({ path: 'deep', recursive: true })
    assert.deepEqual(entries.map(({ relativePath }) => relativePath), ['er', 'er/a.bin', 't.txt'])
    const first = await box.file.list({ path: 'deep', recursive: true, limit: 1 })
    assert.equal((await box.file.list({ path: 'deep', recursive: true, after: first.next })).entries.length, 2)
    assert.equal((await box.file.copy({ from: 'deep/t.txt', to: 'deep/u.txt' })).to, '/workspace/deep/u.txt')
    assert.deepEqual(await box.file.search({ path: 'deep', text: 'more' }).then(({ matches, files }) => [matches.length, matches[0].line, files > 0]), [2, 2, true])
    assert.equal((await box.file.replace({ path: 'deep', pattern: 'm(o)re', replacement: '$1$1' })).count, 2)
    assert.equal((await box.file.read({ path: 'deep/u.txt' })).content, 'hällo\noo\n')
    assert.ok((await box.archive.create({ path: 'deep', to: '/tmp/deep.tar.gz' })).files >= 3)
    await box.archive.extract({ path: '/tmp/deep.tar.gz', to: 'again' })
    const copies = (await box.file.list({ path: 'again', recursive: true })).entries.map(({ name }) => name)
    assert.ok(copies.includes('a.bin') && copies.includes('u.txt'))
    assert.ok((await box.file.remove({ path: 'deep', recursive: true })).count >= 4)
    assert.equal((await box.file.exists({ path: 'deep' })).exists, false)
    await assert.rejects(box.file.read({ path: 'deep/t.txt' }), { name: 'FileNotFoundError' })
    await assert.rejects(box.file.read({ path: '/workspace' }), { name: 'FileKindError' })
    await assert.rejects(box.file.write({ path: '/etc/x', content: '' }), { name: 'FileDeniedError' })
  })

  test('changes of files are told', async () => {
    await box.file.mkdir({ path: 'watched', recursive: true })
    const watching = box.file.watch({ path: 'watched' })
    const events = watching[Symbol.asyncIterator]()
    assert.deepEqual((await events.next()).value, { event: 'ready', about: {} })
    await box.file.write({ path: 'watched/new.txt', content: 'x' })
    const { event, about } = (await events.next()).value
    assert.equal(event, 'change')
    assert.ok(about.path.includes('watched/'))
    await events.return()
    await assert.rejects(box.file.watch({ path: '/nowhere' }), { name: 'FileNotFoundError' })
  })

  test('ports, and what happens, as events', async () => {
    const life = box.events()
    const events = life[Symbol.asyncIterator]()
    const next = (name) => (async () => { for (;;) { const { value } = await events.next(); if (value.event === name) return value.about } })()
    const started = next('processStarted')
    await box.process.start({ process: 'web', command: 'exec python3 -m http.server 8099 --bind 127.0.0.1' })
    assert.equal((await started).process, 'web')
    await box.port.wait({ port: 8099, path: '/', timeoutMs: 20_000 })
    const { port, token, url } = await box.port.expose({ port: 8099, name: 'web' })
    assert.deepEqual([port, /^[a-z0-9_]{16}$/.test(token), new URL(url).hostname], [8099, true, `8099-native-${token}.preview.test`])
    const { exposed, open } = await box.port.list()
    assert.deepEqual([exposed[0].port, exposed[0].open, open.some((found) => found.port === 8099)], [8099, true, true])
    assert.deepEqual([await box.port.unexpose({ port: 8099 }), await box.port.unexpose({ port: 8099 })], [{ port: 8099, exposed: true }, { port: 8099, exposed: false }])
    await assert.rejects(box.port.wait({ port: 8098, timeoutMs: 100 }), { name: 'TimeoutError' })
    const over = next('processEnded')
    await box.process.kill({ process: 'web' })
    assert.equal((await over).process, 'web')
    await events.return()
  })

  test('stopped and started again: files stay, processes do not', async () => {
    await box.file.write({ path: 'kept.txt', content: 'kept' })
    await box.process.start({ process: 'gone', command: 'sleep 1004' })
    assert.equal((await box.stop()).state, 'stopped')
    assert.equal((await box.get()).state, 'stopped')
    assert.equal((await box.file.read({ path: 'kept.txt' })).content, 'kept')
    assert.equal((await box.get()).state, 'running')
    await assert.rejects(box.process.get({ process: 'gone' }), { name: 'NotFoundError' })
  })

  test('paused: processes and their memory stay', async () => {
    await box.exec({ command: 'X=1' })
    await box.process.start({ process: 'stays', command: 'sleep 1005' })
    assert.equal((await box.pause()).state, 'paused')
    await assert.rejects(box.pause(), { name: 'StateError' })
    assert.equal((await box.get()).state, 'paused')
    assert.equal((await box.resume()).resumed, 'memory')
    assert.deepEqual((await box.logs({ limit: 2 })).lines.map(({ event, message }) => [event, message]), [['paused', 'by a request, with its memory'], ['resumed', undefined]])
    assert.equal((await box.exec({ command: 'echo $X' })).stdout, '1\n')
    assert.equal((await box.process.get({ process: 'stays' })).status, 'running')
    await box.process.kill({ process: 'stays' })
    const of = getSandbox({ socket: served.socket }, 'rests', { idleAction: 'pause', lifetime: '1h', endAction: 'delete' })
    await of.exec('X=2')
    const { idleAction, endAction, endsAt } = await of.info()
    assert.deepEqual([idleAction, endAction, typeof endsAt], ['pause', 'delete', 'string'])
    await of.setLifetime(0)
    assert.equal((await of.info()).endsAt, undefined)
    await of.pause({ save: false })
    assert.equal(await of.resume(), 'memory')
    await of.pause({ memory: false })
    assert.equal((await of.info()).pauseKind, 'files')
    assert.equal(await of.resume(), 'files')
    await of.destroy()
  })

  test('forked, and kept as a snapshot', async () => {
    await box.file.write({ path: 'branch.txt', content: 'before' })
    await box.process.start({ process: 'alone', command: 'sleep 1006' })
    const { sandboxes, omitted } = await box.fork({ names: ['fork-1', 'fork-2'] })
    assert.deepEqual(sandboxes.map(({ sandbox, state }) => [sandbox, state]), [['fork-1', 'running'], ['fork-2', 'running']])
    assert.deepEqual(omitted.filter(({ kind }) => kind === 'process').map(({ name }) => name), ['alone'])
    await box.process.kill({ process: 'alone' })
    const taken = await box.snapshot({ snapshot: 'kept' })
    await box.file.write({ path: 'branch.txt', content: 'after' })
    assert.deepEqual((await client.snapshots.list()).snapshots, [taken])
    assert.deepEqual(await client.snapshots.get({ snapshot: 'kept' }), taken)
    const { sandbox: later } = await client.sandboxes.create({ name: 'later', snapshot: 'kept' })
    for (const copy of [client.sandbox('fork-1'), client.sandbox('fork-2'), later]) {
      assert.equal((await copy.file.read({ path: 'branch.txt' })).content, 'before')
      await copy.delete()
    }
    const of = getSandbox({ socket: served.socket }, 'of-kept', { snapshot: 'kept', startup: { start: 'echo up > /tmp/up; exec sleep 600', ready: '[ -e /tmp/up ]' } })
    assert.equal((await of.exec('cat branch.txt /tmp/up')).stdout, 'beforeup\n')
    await of.update({ network: { allow: ['one.test'], headers: { 'one.test': { 'X-Key': 'value' } } } })
    await of.update({ addNetwork: { allow: ['two.test'] } })
    assert.deepEqual((await of.info()).network, { allow: ['one.test', 'two.test'], headers: { 'one.test': { 'X-Key': null } } })
    await of.destroy() // the next one has the same value
    assert.equal((await of.exec('cat branch.txt')).stdout, 'before')
    assert.equal((await of.snapshot({ labels: { a: '1' } })).labels.a, '1')
    const { sandboxes: [{ sandbox: copy }] } = await of.fork()
    await client.sandbox(copy).delete()
    await of.destroy()
    for (const { snapshot } of (await client.snapshots.list()).snapshots) await client.snapshots.delete({ snapshot })
    await assert.rejects(client.snapshots.get({ snapshot: 'kept' }), { name: 'NotFoundError' })
  })

  test('they outlive the daemon', async () => {
    await box.exec({ command: 'cd /tmp; export KEPT=1; echo two > /workspace/kept.txt' })
    await box.save()
    await client.close()
    await served.stop()
    await served.start()
    client = await Cloche.connect({ socket: served.socket })
    box = client.sandbox('native')
    assert.equal((await box.exec({ command: 'cat /workspace/kept.txt; pwd; echo $KEPT' })).stdout, 'two\n/tmp\n1\n')
  })

  test('no network, and the log says so', async () => {
    assert.notEqual((await box.exec({ command: 'python3 -c "import urllib.request as u; u.urlopen(\'http://example.com\', timeout=5)"', timeoutMs: 20_000 })).exitCode, 0)
    await box.update({ network: { allow: ['allowed.test:80'] } })
    assert.deepEqual((await box.update({ addNetwork: { allow: ['more.test'] } })).network, { allow: ['allowed.test:80', 'more.test'] })
    await box.exec({ command: 'python3 -c "import urllib.request as u; u.urlopen(\'http://denied.test\', timeout=5)"', timeoutMs: 20_000 })
    const { decisions } = await box.network.log()
    assert.ok(decisions.some(({ host, verdict }) => host === 'denied.test' && verdict === 'denied'), JSON.stringify(decisions))
  })
})
