// The client against a daemon that misbehaves in ways the real one does not.
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { chmodSync, cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche, findDaemon } from 'cloche'
import { result, startPeer } from './lib/peer.mjs'

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

/** The client outside of any source tree. */
function copyOfDist (folder) {
  cpSync(new URL('../dist', import.meta.url), path.join(folder, 'a/b/c/dist'), { recursive: true })
  writeFileSync(path.join(folder, 'a/package.json'), '{"type": "module"}')
  return path.join(folder, 'a/b/c/dist')
}

const python = { language: 'python', code: 'pass' }

test('hello comes first, behind the eight bytes', () => withPeer(undefined, async (client, link) => {
  assert.equal(link.preamble, 'CLOCHE1\n')
  assert.deepEqual(link.asked.map(({ method, params }) => [method, params.protocol]), [['hello', 1]])
  assert.equal(client.server.version, 'test')
}))

test('strict refuses a daemon that lacks a guard, and names it', async () => {
  const peer = await startPeer(undefined, { greets: { missing: ['memory', 'pids'] } })
  try {
    await assert.rejects(Cloche.connect({ socket: peer.socket, strict: true }), { name: 'GuardMissingError', message: /memory, pids/ })
    const client = await Cloche.connect({ socket: peer.socket })
    assert.deepEqual(client.server.missing, ['memory', 'pids'])
    assert.equal(peer.links[1].asked[0].params.notice, undefined)
    await client.close()
  } finally {
    await peer.close()
  }
})

test('a program is found where PATH of ordinary users does not lead, and an error names the places', () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-sbin-'))
  const program = path.join(folder, 'sbin/cloched')
  try {
    mkdirSync(path.join(folder, 'sbin'))
    writeFileSync(program, '#!/bin/sh\n')
    chmodSync(program, 0o755)
    // The tree of this file may have a build, which comes first.
    const found = findDaemon(undefined, { PATH: `${folder}/bin` })
    assert.ok(found === program || /build[^/]*\/cloched$/.test(found), found)
    const alone = spawnSync(process.execPath, ['--input-type=module', '-e', 'import { findDaemon } from "./internal/daemon.js"; try { console.log(findDaemon()) } catch ({ message }) { console.log(message) }'], {
      cwd: copyOfDist(folder), env: { PATH: `${folder}/bin` }, encoding: 'utf8'
    })
    assert.equal(alone.stdout.trim(), program, alone.stderr)
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('a daemon that refuses the connection is quoted', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-refuses-'))
  const server = net.createServer((socket) => { socket.resume().end('HTTP/1.1 403 Forbidden\r\nContent-Length: 12\r\n\r\nyou may not\n') })
  try {
    await new Promise((resolve) => server.listen(path.join(folder, 's'), resolve))
    await assert.rejects(Cloche.connect({ socket: path.join(folder, 's') }), { name: 'ConnectionError', message: 'you may not' })
  } finally {
    await new Promise((resolve) => server.close(resolve))
    rmSync(folder, { recursive: true })
  }
})

test('shared finds a daemon: nothing else names or describes one', async () => {
  for (const more of [{ socket: '/x' }, { port: 1 }, { optional: ['memory'] }, { daemonArgs: ['--runs', '1'] }]) {
    await assert.rejects(Cloche.connect({ shared: true, ...more }), { name: 'InvalidArgumentError' })
  }
})

test('a shared daemon is the one that the program names, and its notice is a warning', async () => {
  const peer = await startPeer(undefined, { greets: { missing: ['memory'], notice: 'memory is missing' } })
  const program = path.join(path.dirname(peer.socket), 'cloched')
  const warned = new Promise((resolve) => { process.once('warning', resolve) })
  try {
    writeFileSync(program, `#!/bin/sh\n[ "$*" = '--on-demand --profile user' ] && echo ${peer.socket}\n`)
    chmodSync(program, 0o755)
    const client = await Cloche.connect({ daemon: program, shared: true })
    assert.equal(client.pid, undefined)
    assert.equal(peer.links[0].asked[0].params.notice, true)
    const { name, message } = await warned
    assert.deepEqual([name, message], ['ClocheWarning', 'memory is missing'])
    await client.close()
  } finally {
    await peer.close()
  }
})

test('guards that may be missing are for a daemon that is started', async () => {
  await assert.rejects(Cloche.connect({ socket: '/x', optional: ['memory'] }), { name: 'InvalidArgumentError', message: /optional/ })
  await assert.rejects(Cloche.connect({ optional: [], strict: true }), { name: 'InvalidArgumentError', message: /strict/ })
})

test('a token is given on TCP', async () => {
  await assert.rejects(Cloche.connect({ socket: '/x', port: 1 }), { name: 'InvalidArgumentError' })
  await assert.rejects(Cloche.connect({ socket: '/x', daemon: '/y' }), { name: 'InvalidArgumentError' })
  await assert.rejects(Cloche.connect({ port: 1, token: 'x' }), { name: 'ConnectionError', message: /127\.0\.0\.1:1 cannot be reached/ })
})

test('a socket that is not there is named', () => assert.rejects(Cloche.connect({ socket: '/nowhere/s' }), { name: 'ConnectionError', message: /^no daemon answers at '\/nowhere\/s': No such file or directory \(start one: / }))

test('who does not greet is given up', async () => {
  const peer = await startPeer(undefined, { greets: false })
  try {
    await assert.rejects(Cloche.connect({ socket: peer.socket, connectTimeoutMs: 50 }), { name: 'RequestTimeoutError', message: 'hello: no answer within 50 ms' })
  } finally {
    await peer.close()
  }
})

test('a run says what was asked, each member a value of its own', () => withPeer(({ id }, link) => link.result(id, result(1)), async (client, link) => {
  const shared = [1]
  await client.call({ ...python, function: 'f', args: [shared, shared, new Set([undefined])], kwargs: { b: Uint8Array.of(7) }, limits: { wallMs: 5, cpuMs: undefined }, globals: { f: () => 1, deep: { g: () => 2, v: 3 }, k: { a: 1 } } })
  const { params, attachments } = link.asked[1]
  assert.deepEqual(params, {
    language: 'python',
    code: 'pass',
    function: 'f',
    args: [[1], { $: 'ref', n: 1 }, { $: 'set', v: [{ $: 'undefined' }] }],
    kwargs: { b: { $: 'bytes', at: 0, n: 1 } },
    limits: { wallMs: 5 },
    globals: { f: { kind: 'function' }, deep: { kind: 'object', members: { g: { kind: 'function' }, v: { kind: 'value', value: 3 } } }, k: { kind: 'value', value: { a: 1 } } }
  })
  assert.deepEqual([...attachments], [7])
}))

test('what is changed after the call is not sent', () => withPeer(({ id }, link) => link.result(id, result(1)), async (client, link) => {
  const args = [Uint8Array.of(1), { a: 1 }]
  const running = client.call({ ...python, args })
  args[0][0] = 9
  args[1].a = 9
  await running
  assert.deepEqual([link.asked[1].params.args[1], [...link.asked[1].attachments]], [{ a: 1 }, [1]])
}))

test('what cannot be sent is refused by name, and nothing is sent', () => withPeer(undefined, async (client, link) => {
  await assert.rejects(client.call({ ...python, args: [{ a: [() => 1] }] }), { name: 'InvalidArgumentError', message: 'args: $[0].a[0]: function cannot be sent: call it and pass what it gives, or leave it out' })
  assert.equal(link.asked.length, 1)
}))

test('errors have the class of their row, and their data', () => withPeer(({ id }, link) => link.error(id, 'prefix', 'it threw', { failure: { type: 'E' } }), async (client) => {
  await assert.rejects(client.prefix({ ...python }), (thrown) => thrown.name === 'PrefixError' && thrown.code === 'prefix' && thrown.data.failure.type === 'E' && /prefix\.create: it threw/.test(thrown.message))
}))

test('an error nobody knows is no other error', () => withPeer(({ id }, link) => link.error(id, 'brand_new', 'hm'), async (client) => {
  await assert.rejects(client.stats(), { name: 'InternalError', message: /unknown error "brand_new"/ })
}))

test('host functions are called, several at once, and answer in their own order', () => withPeer(async ({ id, method }, link) => {
  if (method !== 'call') return
  const ask = (args, name = 'f') => link.ask('bridge', { run: id, target: ['global', name], args, kwargs: {} })
  const answers = await Promise.all([ask([30]), ask([1]), ask([], 'fail'), ask([], 'gone')])
  link.result(id, result(answers.map(({ result, error }) => [result ?? null, error ?? null])))
}, async (client) => {
  const order = []
  let release
  const quickIsDone = new Promise((resolve) => { release = resolve })
  const f = async (number) => {
    if (number === 30) await quickIsDone
    order.push(number)
    release()
    return number
  }
  const { result: [slow, quick, failed, gone] } = await client.call({
    ...python,
    globals: { f, fail: () => { throw Object.assign(new RangeError('no'), { status: 4, secret: () => 1 }) } }
  })
  assert.deepEqual(order, [1, 30])
  assert.deepEqual([slow[0], quick[0]], [{ value: 30 }, { value: 1 }])
  assert.deepEqual(failed[1], { code: -32000, message: 'no', data: { name: 'RangeError', message: 'no', fields: { status: 4 } } })
  assert.equal(gone[1].data.name, 'ReferenceError')
  assert.ok(!JSON.stringify([failed, gone]).includes('connection.test.mjs'), 'no stack of the host crosses')
}))

test('a value of a host function that cannot be sent is an error for the code', () => withPeer(async ({ id, method }, link) => {
  if (method === 'call') link.result(id, result((await link.ask('bridge', { run: id, target: ['global', 'f'], args: [], kwargs: {} })).error))
}, async (client) => {
  const { result: error } = await client.call({ ...python, globals: { f: () => ({ cb: () => 1 }) } })
  assert.match(error.message, /^\$\.cb: function cannot be sent/)
}))

test('keywords come last, as an object', () => withPeer(async ({ id, method }, link) => {
  if (method === 'call') link.result(id, result((await link.ask('bridge', { run: id, target: ['global', 'f'], args: [1], kwargs: { b: 2 } })).result.value))
}, async (client) => assert.deepEqual((await client.call({ ...python, globals: { f: (...args) => args } })).result, [1, { b: 2 }])))

test('output and denials are told as they come', () => withPeer(({ id }, link) => {
  link.tell('output', { run: id, stream: 'stdout', data: { $: 'bytes', at: 0, n: 2 } }, Buffer.from('hi'))
  link.tell('permissionDenied', { run: id, path: '/p', operation: 'read', rule: null, count: 1, timestamp: 5 })
  link.tell('output', { run: 999, stream: 'stdout', data: { $: 'bytes', at: 0, n: 2 } }, Buffer.from('no'))
  link.result(id, result(1))
}, async (client, link) => {
  const told = []
  await client.call(python, { onOutput: ({ stream, data }) => told.push([stream, Buffer.from(data).toString()]), onPermissionDenied: ({ path }) => told.push(path) })
  assert.deepEqual(told, [['stdout', 'hi'], '/p'])
  assert.equal(link.asked[1].params.stream, true)
}))

test('abort cancels the run, whose own answer says terminated', () => withPeer(({ id, method, params }, link) => {
  if (method !== 'cancel') return
  link.result(id, {})
  link.result(params.id, { ...result(null), status: 'terminated', success: false, exitCode: 143 })
}, async (client, link) => {
  const ending = new AbortController()
  const running = client.call(python, { signal: ending.signal })
  while (link.asked.length < 2) await sleep(1)
  ending.abort()
  assert.equal((await running).status, 'terminated')
}))

test('abort before anything was sent rejects with the reason, and nothing is sent', () => withPeer(undefined, async (client, link) => {
  const reason = new Error('changed my mind')
  await assert.rejects(client.call(python, { signal: AbortSignal.abort(reason) }), reason)
  await assert.rejects(client.stats({ signal: AbortSignal.abort(reason) }), reason)
  assert.equal(link.asked.length, 1)
}))

test('abort of a question rejects with the reason; the late answer goes nowhere', () => withPeer(({ id, method }, link) => {
  if (method === 'guards') link.result(id, { guards: [] })
}, async (client, link) => {
  const ending = new AbortController()
  const asking = client.stats({ signal: ending.signal })
  while (link.asked.length < 2) await sleep(1)
  ending.abort('enough')
  await assert.rejects(asking, (thrown) => thrown === 'enough')
  link.result(link.asked[1].id, { late: true })
  assert.deepEqual(await client.guards(), [])
}))

test('abort of a set-up or a sync rejects with the reason, and cancels it', () => withPeer(undefined, async (client, link) => {
  for (const [method, start] of [['prefix.create', (options) => client.prefix(python, options)], ['sync', (options) => client.sync({ changeset: 'c' }, options)]]) {
    const ending = new AbortController()
    const running = start({ signal: ending.signal })
    const { id } = await link.next(method)
    ending.abort('enough')
    await assert.rejects(running, (thrown) => thrown === 'enough')
    assert.deepEqual((await link.next('cancel')).params, { id })
    link.asked.length = 0
  }
}))

test('no answer in time: the run is cancelled', () => withPeer(undefined, async (client, link) => {
  await assert.rejects(client.call(python, { timeoutMs: 30 }), { name: 'RequestTimeoutError', message: 'call: no answer within 30 ms' })
  while (link.asked.length < 3) await sleep(1)
  assert.deepEqual([link.asked[2].method, link.asked[2].params], ['cancel', { id: link.asked[1].id }])
}))

const ends = {
  'the daemon hangs up': (link) => link.socket.end(),
  'the connection ends within a message': (link) => { link.socket.write(Buffer.of(100, 0, 0, 0, 50)); link.socket.end() },
  'a frame is too long': (link) => link.socket.write(Buffer.of(255, 255, 255, 255)),
  'a frame is too short': (link) => link.socket.write(Buffer.of(0, 0, 0, 0)),
  'JSON is none': (link) => link.send('{"a":'),
  'a message is no object': (link) => link.send('[1]'),
  'JSON is not UTF-8': (link) => link.socket.write(Buffer.concat([Buffer.of(7, 0, 0, 0, 3, 0, 0, 0), Buffer.of(0x22, 0xff, 0x22)]))
}
for (const [name, end] of Object.entries(ends)) {
  test(`${name}: everything that waits rejects by name, and so does what comes later`, () => withPeer(undefined, async (client, link) => {
    const waiting = [client.call(python), client.stats(), client.prefix(python)]
    while (link.asked.length < 4) await sleep(1)
    end(link)
    const outcomes = await Promise.allSettled(waiting)
    assert.deepEqual(outcomes.map(({ reason }) => [reason.name, /^(\S+) \(request \d+\) has no answer: the daemon at /.exec(reason.message)?.[1]]),
      [['ConnectionError', 'call'], ['ConnectionError', 'stats'], ['ConnectionError', 'prefix.create']])
    assert.ok(!client.alive)
    await assert.rejects(client.stats(), { name: 'ConnectionError' })
    assert.match(await client.ended, /the daemon at/)
  }))
}

test('a result that is none is a protocol error, and the connection goes on', () => withPeer(({ id, method }, link) => link.result(id, method === 'guards' ? { guards: [] } : 42), async (client) => {
  await assert.rejects(client.call(python), { name: 'ProtocolError', message: 'the answer is no result of a run' })
  assert.deepEqual(await client.guards(), [])
}))

test('a value of a form that there is not is the daemon\'s fault: that request is rejected, and the connection goes on', () => withPeer(({ id, method }, link) => link.result(id, method === 'guards' ? { guards: [] } : result({ $: 'bytes', at: 0, n: 9 })), async (client) => {
  await assert.rejects(client.call(python), { name: 'ProtocolError', message: 'the result of a run cannot be read: $: range is outside the attachments' })
  assert.deepEqual(await client.guards(), [])
}))

test('a value whose content no class takes is the guest\'s: an error of that run', () => {
  const forged = { $: 'class', t: 'Request', v: { method: 'GET', url: 'http://user:secret@example.org/', headers: [], body: null } }
  return withPeer(({ id }, link) => link.result(id, result(forged)), async (client) => {
    const { status, error } = await client.call(python)
    assert.deepEqual([status, /credentials/.test(error.message)], ['error', true], error.message)
  })
})

test('a daemon that does not read: new requests wait, and memory does not grow with them', async () => {
  await withPeer(({ id }, link) => link.result(id, result(1)), async (client, link) => {
    link.socket.pause()
    let encoded = 0
    const big = { get bytes () { encoded++; return new Uint8Array(8 << 20) } }
    const running = Array.from({ length: 12 }, () => client.call({ ...python, args: [big] }))
    await sleep(100)
    assert.ok(encoded <= 4, `${encoded} were encoded`)
    link.socket.resume()
    assert.equal((await Promise.all(running)).filter(({ result }) => result === 1).length, 12)
    assert.equal(encoded, 12)
  })
})

test('a daemon that does not read: who waits for room can give up', async () => {
  await withPeer(({ id }, link) => link.result(id, result(1)), async (client, link) => {
    link.socket.pause()
    const big = Array.from({ length: 4 }, () => client.call({ ...python, args: [new Uint8Array(8 << 20)] }))
    await sleep(50)
    const ending = new AbortController()
    const waiting = [client.call(python, { signal: ending.signal }), client.stats({ signal: ending.signal })]
    setTimeout(() => ending.abort('enough'), 20)
    for (const { reason } of await Promise.allSettled(waiting)) assert.equal(reason, 'enough')
    link.socket.resume()
    await Promise.all(big)
    assert.ok(!link.asked.some(({ method }) => method === 'stats'))
  })
})

test('an idle client does not keep Node alive, a waiting one does', async () => {
  const peer = await startPeer()
  const start = (then) => {
    const program = `import { Cloche } from 'cloche'; const client = await Cloche.connect({ socket: ${JSON.stringify(peer.socket)} }); ${then}`
    const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: new URL('..', import.meta.url), stdio: 'inherit' })
    return { child, ended: new Promise((resolve) => child.once('exit', (code, by) => resolve(by ?? code))) }
  }
  try {
    assert.equal(await start('').ended, 0)
    const { child, ended } = start('client.stats()')
    while (!peer.links[1]?.asked.some(({ method }) => method === 'stats')) await sleep(5)
    assert.equal(await Promise.race([ended, sleep(500, 'stays')]), 'stays')
    child.kill('SIGKILL')
    assert.equal(await ended, 'SIGKILL')
  } finally {
    await peer.close()
  }
})

test('a private daemon that cannot be started or dies at once says so', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'cloche-none-'))
  const program = path.join(folder, 'cloched')
  try {
    assert.throws(() => findDaemon(program), { name: 'ConnectionError', message: /the option daemon names .* which is no program/ })
    assert.throws(() => findDaemon(undefined, { CLOCHE_DAEMON: program }), { message: /\$CLOCHE_DAEMON names/ })
    writeFileSync(program, '#!/bin/sh\necho "no such luck" >&2\nexit 3\n')
    chmodSync(program, 0o755)
    // The tree of this file may have a build, which comes first.
    assert.match(findDaemon(undefined, { PATH: `/nowhere:${folder}` }), new RegExp(`^${program}$|/build[^/]*/cloched$`))
    await assert.rejects(Cloche.connect({ daemon: program }), { name: 'ConnectionError', message: /hello .* exited with 3; it said last: no such luck/ })
    await assert.rejects(Cloche.connect({ daemon: program, shared: true }), { name: 'ConnectionError', message: 'no such luck' })
    writeFileSync(program, 'no program\n')
    await assert.rejects(Cloche.connect({ daemon: program }), { name: 'ConnectionError' })
  } finally {
    rmSync(folder, { recursive: true })
  }
})

test('the package is what Node finds by its name', () => {
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', "for (const part of ['', '/executor', '/isolate', '/subprocess']) console.log(Object.keys(await import('cloche' + part)).length > 1)"], { cwd: new URL('..', import.meta.url) })
  assert.deepEqual([status, `${stdout}`], [0, 'true\n'.repeat(4)])
})
