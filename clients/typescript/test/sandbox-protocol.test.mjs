// Requests with events, against a scripted daemon; and the pure parts of the sandbox façade.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, readlinkSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche } from 'cloche'
import { asyncIterableToSSEStream, collectFile, FileNotFoundError, getSandbox, parseSSEStream, ProcessNotFoundError, proxyToSandbox, responseToAsyncIterable, SandboxError, streamFile } from 'cloche/sandbox'
import { matches } from '../dist/sandbox/globs.js'
import { previewOf, previewUrl, suffixOf } from '../dist/sandbox/preview-host.js'
import { archiveEnd, memberHead, memberTail } from '../dist/sandbox/tar.js'
import { StreamText } from '../dist/sandbox/text.js'
import { startPeer } from './lib/peer.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
after(() => assert.deepEqual(unhandled, []))

async function withPeer (answer, use) {
  const peer = await startPeer(answer)
  const client = await Cloche.connect({ socket: peer.socket })
  try {
    return await use(client, peer.links[0], peer)
  } finally {
    await client.close()
    await peer.close()
  }
}
const output = (link, id, data, stream = 'stdout') => link.tell('event', { id, event: 'output', about: { stream, data: { $: 'bytes', at: 0, n: Buffer.byteLength(data) } } }, Buffer.from(data))
const ended = { exitCode: 0, stdout: '', stderr: '', stdoutBytes: 0, stderrBytes: 0, truncated: false, timedOut: false, durationMs: 1, session: 'default', cwd: '/workspace', sessionEnded: false }
const askedFor = (link, method) => link.asked.filter((message) => message.method === method)
const until = async (condition) => { while (!condition()) await sleep(1) }

describe('a request that tells events', () => {
  test('is iterated, then awaited; the name of the sandbox goes with it', () => withPeer(undefined, async (client, link) => {
    const asking = client.sandbox('mine').exec({ command: 'ls', stream: true })
    const { id, params } = await link.next('exec')
    assert.deepEqual(params, { sandbox: 'mine', command: 'ls', stream: true })
    output(link, id, 'one')
    output(link, id, '\xff\x00two')
    link.result(id, { ...ended, exitCode: 3 })
    const told = []
    for await (const { event, about } of asking) told.push([event, about.stream, Buffer.from(about.data).toString()])
    assert.deepEqual(told, [['output', 'stdout', 'one'], ['output', 'stdout', '\xff\x00two']])
    assert.equal((await asking).exitCode, 3)
  }))
  test('only awaited, it keeps no events', () => withPeer(undefined, async (client, link) => {
    const asking = client.sandbox('mine').exec({ command: 'yes', stream: true })
    const answer = asking.then(({ exitCode }) => exitCode)
    const { id } = await link.next('exec')
    for (let i = 0; i < 40; i++) output(link, id, 'x'.repeat(100_000))
    link.result(id, ended)
    assert.equal(await answer, 0)
    assert.equal(askedFor(link, 'hold').length, 0)
  }))
  test('is held while its reader does not keep up, and let go when it has', () => withPeer(({ id, method }, link) => method === 'hold' && link.result(id, { found: true }), async (client, link) => {
    const asking = client.sandbox('mine').exec({ command: 'yes', stream: true })
    const { id } = await link.next('exec')
    for (let i = 0; i < 12; i++) output(link, id, 'x'.repeat(100_000))
    await until(() => askedFor(link, 'hold').length === 1)
    assert.deepEqual(askedFor(link, 'hold')[0].params, { id, hold: true })
    const events = asking[Symbol.asyncIterator]()
    for (let i = 0; i < 12; i++) await events.next()
    await until(() => askedFor(link, 'hold').length === 2)
    assert.deepEqual(askedFor(link, 'hold')[1].params, { id, hold: false })
    link.result(id, ended)
    assert.deepEqual(await events.next(), { done: true, value: undefined })
  }))
  test('who leaves the loop cancels it', () => withPeer(undefined, async (client, link) => {
    const asking = client.sandbox('mine').process.follow({ process: 'p' })
    const { id } = await link.next('process.follow')
    output(link, id, 'x')
    for await (const _ of asking) break
    assert.deepEqual((await link.next('cancel')).params, { id })
    link.error(id, 'cancelled', 'taken back')
    await assert.rejects(asking, { name: 'CancelledError' })
  }))
  test('a signal ends it at once, in the daemon too; what comes later is nobody\'s', () => withPeer(undefined, async (client, link) => {
    const controller = new AbortController()
    const asking = client.sandbox('mine').exec({ command: 'sleep', stream: true }, { signal: controller.signal })
    const { id } = await link.next('exec')
    controller.abort(new Error('enough'))
    await assert.rejects(asking, /enough/)
    assert.deepEqual((await link.next('cancel')).params, { id })
    output(link, id, 'late')
    link.error(id, 'cancelled', 'x')
    await assert.rejects((async () => { for await (const _ of asking) assert.fail() })(), /enough/)
  }))
  test('a signal that is aborted already sends nothing; timeoutMs cancels', () => withPeer(undefined, async (client, link) => {
    await assert.rejects(client.sandbox('mine').exec({ command: 'x' }, { signal: AbortSignal.abort(new Error('before')) }), /before/)
    assert.equal(askedFor(link, 'exec').length, 0)
    await assert.rejects(client.sandbox('mine').file.read({ path: 'x' }, { timeoutMs: 20 }), { name: 'RequestTimeoutError' })
    await link.next('cancel')
  }))
  test('its error comes to the loop', () => withPeer(({ id, method }, link) => method === 'file.watch' && link.error(id, 'file_not_found', 'no /x'), async (client) => {
    await assert.rejects((async () => { for await (const _ of client.sandbox('mine').file.watch({ path: '/x' })) assert.fail() })(), { name: 'FileNotFoundError', message: 'file.watch: no /x' })
  }))
  test('the end of the connection ends it', () => withPeer(({ method }, link) => method === 'exec' && link.socket.destroy(), async (client) => {
    await assert.rejects(client.sandbox('mine').exec({ command: 'x' }), { name: 'ConnectionError' })
  }))
  test('what cannot be sent is refused by its place', () => withPeer(undefined, async (client, link) => {
    await assert.rejects(client.sandbox('mine').exec({ command: () => 1 }), { name: 'InvalidArgumentError', message: /exec: .*function cannot be sent/ })
    assert.equal(askedFor(link, 'exec').length, 0)
  }))
  test('bytes go as attachments; undefined is absent, null is not', () => withPeer(({ id, method }, link) => method === 'session.env' ? link.result(id, { session: 'default' }) : method === 'file.write' && link.result(id, { path: 'a', bytes: 2 }), async (client, link) => {
    await client.sandbox('mine').file.write({ path: 'a', content: Uint8Array.of(0, 255), mode: undefined })
    const { params, attachments } = await link.next('file.write')
    assert.deepEqual([params, [...attachments]], [{ sandbox: 'mine', path: 'a', content: { $: 'bytes', at: 0, n: 2 } }, [0, 255]])
    await client.sandbox('mine').session.env({ env: { A: null } })
    assert.deepEqual((await link.next('session.env')).params.env, { A: null })
  }))
})

describe('the façade on a connection', () => {
  for (const [there, asked] of [
    ['one that is there already is brought to it, and not started for that', { existed: true, updates: 1, creates: 0 }],
    ['one that is not there is made with it', { existed: false, created: true, updates: 1, creates: 1 }],
    ['one that another made meanwhile is brought to it', { existed: false, created: false, updates: 2, creates: 1 }]
  ]) {
    test(`what it was named with is asked for once; ${there}`, () => withPeer((message, link) => {
      if (message.method === 'sandbox.create') link.result(message.id, { sandbox: 's', created: asked.created })
      if (message.method === 'sandbox.update' && !asked.existed && askedFor(link, 'sandbox.create').length === 0) link.error(message.id, 'not_found', 'there is no sandbox "s"')
      else if (message.method === 'sandbox.update') link.result(message.id, { sandbox: 's' })
      if (message.method === 'exec') link.result(message.id, ended)
    }, async (client, link) => {
      const sandbox = getSandbox(client, 'S', { normalizeId: true, sleepAfter: '2m', labels: { a: 'b' }, network: { allow: ['x.org'] }, image: 'sha256-0', imageSettings: { env: { A: '1' } }, packages: { pip: ['a==1'] }, volumes: [{ name: 'v', path: '/v' }] })
      await Promise.all([sandbox.exec('a'), sandbox.exec('b')])
      await sandbox.exec('c')
      const wanted = { sandbox: 's', idleMs: 120_000, labels: { a: 'b' }, network: { allow: ['x.org'] } }
      assert.deepEqual(askedFor(link, 'sandbox.create').map(({ params }) => params), Array(asked.creates).fill({ ...wanted, image: 'sha256-0', imageSettings: { env: { A: '1' } }, packages: { pip: ['a==1'] }, volumes: [{ name: 'v', path: '/v' }] }))
      assert.deepEqual(askedFor(link, 'sandbox.update').map(({ params }) => params), Array(asked.updates).fill(wanted))
      assert.equal(askedFor(link, 'exec').length, 3)
    }))
  }
  test('rules are added in one request; a sandbox that is made again has the answer\'s', () => withPeer((message, link) => {
    const network = message.params?.addNetwork === undefined ? { allow: ['x.org'] } : { allow: ['x.org', 'of-another.org', 'y.org'] }
    if (message.method === 'sandbox.update') link.result(message.id, { sandbox: 's', network })
    if (message.method === 'sandbox.delete') link.result(message.id, {})
  }, async (client, link) => {
    const sandbox = getSandbox(client, 's', { network: { allow: ['x.org'] } })
    await sandbox.addNetwork({ allow: ['y.org'] })
    await sandbox.destroy()
    await sandbox.setKeepAlive(true)
    assert.deepEqual(askedFor(link, 'sandbox.update').map(({ params: { network, addNetwork } }) => network ?? addNetwork),
      [{ allow: ['x.org'] }, { allow: ['y.org'] }, { allow: ['x.org', 'of-another.org', 'y.org'] }, undefined])
  }))
  test('errors have the codes that are known, and ours as their cause', () => withPeer((message, link) => {
    const names = { 'file.read': 'file_not_found', 'process.kill': 'not_found', 'port.expose': 'invalid_argument', 'git.checkout': 'git_auth', 'exec': 'session_ended', 'file.remove': 'file_kind', 'process.get': 'not_found', 'file.write': 'disk_full' }
    if (message.method === 'port.list') link.result(message.id, { exposed: [], open: [] })
    if (names[message.method] !== undefined) link.error(message.id, names[message.method], 'because')
  }, async (client) => {
    const sandbox = getSandbox(client, 's')
    const codes = async (...acts) => await Promise.all(acts.map(async (act) => await act.then(() => 'nothing', (error) => [error.constructor.name, error.code, error.httpStatus])))
    assert.deepEqual(await codes(sandbox.readFile('/x'), sandbox.killProcess('p'), sandbox.exposePort(8080, { hostname: 'x' }), sandbox.gitCheckout('https://a:b@c/d', { branch: 'main' }), sandbox.exec('x'), sandbox.deleteFile('/x'), sandbox.writeFile('/x', '')), [
      ['FileNotFoundError', 'FILE_NOT_FOUND', 404], ['ProcessNotFoundError', 'PROCESS_NOT_FOUND', 404], ['InvalidPortError', 'INVALID_PORT', 400], ['GitAuthenticationError', 'GIT_AUTH_FAILED', 401], ['SessionTerminatedError', 'SESSION_TERMINATED', 410], ['FileSystemError', 'IS_DIRECTORY', 400], ['FileSystemError', 'NO_SPACE', 507]])
    assert.equal(await sandbox.getProcess('nobody'), null)
    const error = await sandbox.readFile('/x').catch((thrown) => thrown)
    assert.ok(error instanceof FileNotFoundError && error instanceof SandboxError)
    assert.deepEqual([error.context, error.operation, error.cause.code, error.name], [{ path: '/x' }, 'file.read', 'file_not_found', 'FileNotFoundError'])
    assert.deepEqual(JSON.parse(JSON.stringify(error)).code, 'FILE_NOT_FOUND')
    assert.equal((await sandbox.gitCheckout('https://a:secret@c/d').catch((thrown) => thrown)).context.repository, 'https://c/d')
    assert.ok(await sandbox.killProcess('p').catch((thrown) => thrown) instanceof ProcessNotFoundError)
  }))
  test('a long output is read to its end, characters and all', () => withPeer((message, link) => {
    const all = 'ä'.repeat(10)
    if (message.method === 'exec') link.result(message.id, { ...ended, stdout: { $: 'bytes', at: 0, n: 5 }, stdoutBytes: 20, truncated: true, output: 'o1' }, Buffer.from(all).subarray(0, 5))
    if (message.method === 'output.read') {
      const piece = Buffer.from(all).subarray(message.params.offset, message.params.offset + 6)
      const next = message.params.offset + piece.length
      link.result(message.id, { data: { $: 'bytes', at: 0, n: piece.length }, offset: message.params.offset, next, total: 20, end: next === 20 }, piece)
    }
  }, async (client) => {
    const { stdout, truncated, stdoutRaw } = await getSandbox(client, 's').exec('x')
    assert.deepEqual([stdout, truncated, stdoutRaw], ['ä'.repeat(10), false, undefined])
  }))
  test('ids, ports and durations that cannot be', async () => {
    for (const [id, code] of [['', 'INVALID_SANDBOX_ID_LENGTH'], ['x'.repeat(64), 'INVALID_SANDBOX_ID_LENGTH'], ['-a', 'INVALID_SANDBOX_ID_HYPHENS'], ['a-', 'INVALID_SANDBOX_ID_HYPHENS'], ['a b', 'INVALID_SANDBOX_ID'], ['WWW', 'RESERVED_SANDBOX_ID']]) {
      assert.throws(() => getSandbox(undefined, id), { code, httpStatus: 400 }, id)
    }
    assert.throws(() => getSandbox(undefined, ''), { name: 'SecurityError', message: /1 to 63/ })
    await assert.rejects(getSandbox({ socket: '/nowhere' }, 'MyBox').exposePort(8080), { name: 'SecurityError', code: 'INVALID_SANDBOX_ID', message: /capital letters.*normalizeId: true.* mybox$/ })
    await assert.rejects(getSandbox({ socket: '/nowhere' }, 'MyBox', { normalizeId: true }).exposePort(8080), { code: 'CONTAINER_UNAVAILABLE' })
    for (const compression of ['lz4', 'gzip', null, { format: 'lz4' }]) {
      await assert.rejects(getSandbox({ socket: '/nowhere' }, 'x').createBackup({ dir: '/workspace', compression }), { code: 'INVALID_BACKUP_CONFIG', message: /compression.*gzip/ })
    }
    assert.throws(() => getSandbox(undefined, 'x', { sleepAfter: 'soon' }), { code: 'VALIDATION_FAILED' })
    for (const port of [80, 65536, 1.5, '8080']) await assert.rejects(getSandbox({ socket: '/nowhere' }, 'x').exposePort(port, { hostname: 'x' }), { code: 'INVALID_PORT' })
    await assert.rejects(getSandbox({ socket: '/nowhere' }, 'x').exec('ls'), { code: 'CONTAINER_UNAVAILABLE', httpStatus: 503 })
    assert.throws(() => getSandbox({ socket: '/nowhere', stateDir: '/x' }, 'x'), /stateDir/)
  })
})

describe('server-sent events', () => {
  const bytes = (...texts) => new ReadableStream({ start (controller) { for (const text of texts) controller.enqueue(Buffer.from(text, 'latin1')); controller.close() } })
  const all = async (iterable) => { const found = []; for await (const item of iterable) found.push(item); return found }
  test('are read in whatever pieces they come', async () => {
    const text = Buffer.from(': hello\nevent: x\ndata: {"a":\ndata: "ü"}\n\ndata:[1]\r\n\r\ndata: [DONE]\n\ndata: 3').toString('latin1')
    for (const pieces of [[text], [...text], text.match(/.{1,3}/gs)]) assert.deepEqual(await all(parseSSEStream(bytes(...pieces))), [{ a: 'ü' }, [1], 3])
  })
  test('what is no JSON is an error that quotes it', () => assert.rejects(all(parseSSEStream(bytes('data: {x}\n\n'))), { name: 'SyntaxError', message: /not JSON: .*\{x\}/ }))
  test('leaving the loop, and the signal, cancel the stream', async () => {
    let cancelled = 0
    const endless = () => new ReadableStream({ pull (controller) { controller.enqueue(Buffer.from('data: 1\n\n')) }, cancel () { cancelled++ } }, { highWaterMark: 0 })
    for await (const _ of parseSSEStream(endless())) break
    const controller = new AbortController()
    await assert.rejects((async () => { for await (const _ of parseSSEStream(endless(), controller.signal)) controller.abort(new Error('no more')) })(), /no more/)
    assert.equal(cancelled, 2)
  })
  test('are made of what can be iterated, as it is wanted', async () => {
    let made = 0
    async function * numbers () { try { for (;;) yield ++made } finally { made = -1 } }
    const stream = asyncIterableToSSEStream(numbers())
    await sleep(5)
    assert.equal(made, 0)
    const found = []
    for await (const n of responseToAsyncIterable(new Response(stream))) { found.push(n); if (n === 3) break }
    assert.deepEqual(found, [1, 2, 3])
    await until(() => made === -1)
    await assert.rejects(all(responseToAsyncIterable(new Response('x', { status: 500 }))), /500/)
  })
  test('of a file: text or bytes, and its metadata', async () => {
    const lines = (...events) => bytes(...events.map((event) => `data: ${JSON.stringify(event)}\n\n`))
    const metadata = { mimeType: 'image/png', size: 2, isBinary: true, encoding: 'base64' }
    assert.deepEqual(await collectFile(lines({ type: 'metadata', ...metadata }, { type: 'chunk', data: 'AP8=' }, { type: 'complete', bytesRead: 2 })), { content: Uint8Array.of(0, 255), metadata })
    await assert.rejects(collectFile(lines({ type: 'metadata', ...metadata }, { type: 'chunk', data: 'AP8=' })), /before it was complete/)
    await assert.rejects(collectFile(lines({ type: 'metadata', ...metadata }, { type: 'error', error: 'gone' })), /gone/)
    assert.deepEqual(await all(streamFile(lines({ type: 'metadata', ...metadata, encoding: 'utf-8' }, { type: 'chunk', data: 'a' }, { type: 'complete' }))), ['a'])
  })
  test('characters that straddle pieces come whole, streams apart', () => {
    const text = new StreamText()
    const [first, last] = [Buffer.from('ü').subarray(0, 1), Buffer.from('ü').subarray(1)]
    assert.deepEqual([text.push('stdout', first), text.push('stderr', Buffer.from('e')), text.push('stdout', last), text.push('stdout', first), [...text.rest()]], ['', 'e', 'ü', '', [['stdout', '\ufffd']]])
  })
})

test('preview names', async () => {
  assert.equal(previewUrl(8080, 'a-b', 'tok_1', 'example.com'), 'https://8080-a-b-tok_1.example.com/')
  assert.equal(previewUrl(8080, 'a', 't', 'localhost:8787'), 'http://8080-a-t.localhost:8787/')
  assert.equal(suffixOf('http://8080-a-t.preview.local:90/'), 'preview.local:90')
  assert.deepEqual(previewOf('8080-a-b-tok_1.example.com:80'), { port: 8080, sandbox: 'a-b', token: 'tok_1', host: 'example.com:80' })
  for (const host of ['example.com', '80-a-t.x', '8080-a.x', '8080--a-t.x', '70000-a-t.x', 'x8080-a-t.x', '8080-a-t', '8080-a-T!.x']) assert.equal(previewOf(host), undefined, host)
  assert.equal(await proxyToSandbox(new Request('http://example.com/'), { Sandbox: undefined }), null)
  await assert.rejects(proxyToSandbox(new Request('http://8080-a-t.example.com/'), { Sandbox: undefined }), /needs a daemon that listens/)
})

test('globs are about names at any depth, and take what is below with them', () => {
  const ask = (include, exclude, ...paths) => paths.filter(matches(include, exclude))
  assert.deepEqual(ask(undefined, undefined, 'a', '.git/config', 'x/node_modules/y/z', '.gitignore'), ['a', '.gitignore'])
  assert.deepEqual(ask(undefined, [], '.git/config'), ['.git/config'])
  assert.deepEqual(ask(['*.ts', 'lib/*.js'], undefined, 'a.ts', 'x/b.ts', 'lib/c.js', 'x/lib/c.js', 'a.md'), ['a.ts', 'x/b.ts', 'lib/c.js'])
  assert.throws(() => matches(['a'], ['b']), /both given/)
})

test('archives are what tar reads', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-tar-'))
  try {
    const long = `${'d/'.repeat(60)}ü-${'x'.repeat(90)}`
    const members = [
      [{ path: 'a', type: 'file', mode: 0o100755, mtimeMs: 1e12, size: 3 }, 'abc'],
      [{ path: 'sub', type: 'directory', mode: 0o40750, mtimeMs: 1e12, size: 0 }],
      [{ path: 'sub/link', type: 'symlink', mode: 0o120777, mtimeMs: 1e12, size: 0, target: `../${'t'.repeat(120)}` }],
      [{ path: long, type: 'file', mode: 0o100644, mtimeMs: 1e12, size: 600 }, 'y'.repeat(600)]
    ]
    writeFileSync(path.join(folder, 'x.tar'), Buffer.concat([...members.flatMap(([member, text = '']) => [memberHead(member), Buffer.from(text), memberTail(member.size)]), archiveEnd()]))
    execFileSync('tar', ['-xf', 'x.tar'], { cwd: folder })
    const at = (name) => path.join(folder, name)
    assert.equal(readFileSync(at('a'), 'utf8'), 'abc')
    assert.deepEqual([statSync(at('a')).mode & 0o777, statSync(at('sub')).mode & 0o777, statSync(at('a')).mtimeMs], [0o755, 0o750, 1e12])
    assert.equal(readlinkSync(at('sub/link')), `../${'t'.repeat(120)}`)
    assert.equal(readFileSync(at(long), 'utf8').length, 600)
  } finally {
    rmSync(folder, { recursive: true })
  }
})
