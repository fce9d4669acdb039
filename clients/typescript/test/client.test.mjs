// The core client against the real daemon: its methods, cancelling at every stage, ends, and no leftovers.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche, constant, expression, shim } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { createSandbox } from 'cloche/isolate'
import { createSubprocessSandbox } from 'cloche/subprocess'
import { daemon, daemons, descriptors, isProcess, real, until } from './lib/real.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))
after(() => assert.deepEqual(unhandled, []))

describe('client', real, () => {
  let client
  before(async () => { client = await Cloche.connect() })
  after(async () => { await client?.close() })

  test('what the daemon says of itself', async () => {
    assert.deepEqual([client.server.server, client.server.protocol], ['cloche', 1])
    const languages = await client.languages()
    assert.ok(languages.find(({ name }) => name === 'python').warm)
    const guards = await client.guards()
    assert.ok(guards.every(({ state }) => ['enforced', 'degraded', 'absent', 'off'].includes(state)))
    const { connections, runs } = await client.stats()
    assert.deepEqual([connections, runs.now], [1, 0])
  })
  test('a script: argv, env, stdin, output as it comes, its own exit code', async () => {
    const told = []
    const result = await client.script({ language: 'python', code: 'import os, sys\nprint(sys.argv[1:], os.environ["WHO"])\nsys.stdout.flush()\nprint(sys.stdin.read().upper(), file=sys.stderr)\nsys.exit(3)', argv: ['a', 'b c'], env: { WHO: 'me' }, stdin: 'data' },
      { onOutput: ({ stream, data }) => told.push([stream, Buffer.from(data).toString()]) })
    assert.deepEqual([result.status, result.exitCode, result.stdout, result.stderr], ['error', 3, "['a', 'b c'] me\n", 'DATA\n'])
    for (const [stream, whole] of [['stdout', result.stdout], ['stderr', result.stderr]]) assert.equal(told.filter(([name]) => name === stream).map(([, text]) => text).join(''), whole)
  })
  test('a network by rules', async () => {
    const code = "async function f () { try { await fetch('http://denied.test/') } catch { return 'refused' } }"
    const { result, meta } = await client.call({ language: 'javascript', code, network: { allow: ['allowed.test'] } })
    assert.deepEqual([result, meta.network.denied.map(({ kind, host }) => [kind, host])], ['refused', [['dns', 'denied.test']]])
    await assert.rejects(client.script({ language: 'javascript', code: '', network: { allow: ['10.0.0.1/8'] } }), /network\.allow\[0\]/)
  })
  test('an image of the store', async () => {
    const image = `sha256-${'f'.repeat(64)}`
    const acts = [
      async (of) => await client.call({ language: 'python', code: '1', ...of }), async (of) => await client.script({ language: 'python', code: '', ...of }),
      async (of) => await client.evaluate({ language: 'javascript', code: '', ...of }), async (of) => await client.prefix({ language: 'python', code: '', ...of }),
      async (of) => await client.sandboxes.create({ name: 'of-an-image', ...of })
    ]
    for (const act of acts) {
      await assert.rejects(act({ image }), { name: 'NotFoundError' })
      await assert.rejects(act({ image: 'python' }), /there is no image (store|'python:latest')/)
    }
    assert.equal((await client.call({ language: 'python', code: 'def f(): return 1' })).result, 1)
  })
  test('output that is no text is there as bytes too', async () => {
    const { stdout, stdoutBytes } = await client.script({ language: 'python', code: 'import sys\nsys.stdout.buffer.write(b"a\\xffb")' })
    assert.deepEqual([stdout, stdoutBytes], ['a\ufffdb', Uint8Array.of(97, 255, 98)])
  })
  test('globals: functions, objects of them, constants, expressions, shims', async () => {
    const globals = { add: (a, b) => a + b, db: { users: { find: async (id) => ({ id }) }, version: 3 }, list: [1, 2], both: constant({ f: 1 }), sum: expression('(...n) => n.reduce((a, b) => a + b, 0)'), twice: shim((n) => n, '(n) => n * 2') }
    const { result, error } = await client.call({ language: 'javascript', code: 'const f = async () => [await add(1, 2), await db.users.find(7), db.version, list, both.f, sum(1, 2, 3), await twice(4)]', function: 'f', globals })
    assert.deepEqual(result, [3, { id: 7 }, 3, [1, 2], 1, 6, 8], JSON.stringify(error))
  })
  test('a prefix: set up once, forked for each; listed; disposed', async () => {
    const prefix = await client.prefix({ language: 'python', code: 'import json\nLIMIT = 10\nseen = []', globals: { double: (n) => n * 2 } })
    const results = await Promise.all([1, 2, 3].map((n) => prefix.call({ code: 'seen.append(args[0])\nreturn [LIMIT * args[0], len(seen), double(args[0])]', args: [n] })))
    assert.deepEqual(results.map(({ result }) => result), [[10, 1, 2], [20, 1, 4], [30, 1, 6]])
    assert.ok((await client.prefixes()).some(({ prefix: id }) => String(id) === prefix.id))
    await prefix.dispose()
    await prefix.dispose()
    assert.ok(!prefix.alive)
    await assert.rejects(prefix.call({ code: 'return 1' }), { name: 'StateError' })
    assert.ok(!(await client.prefixes()).some(({ prefix: id }) => String(id) === prefix.id))
  })
  test('a set-up that fails says how', async () => {
    await assert.rejects(client.prefix({ language: 'python', code: 'raise KeyError("k")' }), (thrown) => thrown.name === 'PrefixError' && thrown.data.failure.type === 'KeyError' && /line 1/.test(thrown.data.failure.stack))
  })
  test('bad requests are refused by name, and the connection goes on', async () => {
    const bad = [
      [{ language: 'python', code: 'pass', limits: { wallMs: -1 } }, 'InvalidArgumentError', /wallMs/],
      [{ language: 'python', code: 'pass', limits: { nope: 1 } }, 'InvalidArgumentError', /nope/],
      [{ language: 'python', code: 5 }, 'InvalidArgumentError', /code/],
      [{ language: 'python', code: 'pass', files: { '../x': '' } }, 'InvalidArgumentError', /\.\.\/x/],
      [{ language: 'nope', code: 'pass' }, 'UnknownLanguageError', /nope/]
    ]
    for (const [request, name, message] of bad) await assert.rejects(client.call(request), { name, message })
    assert.equal((await client.call({ language: 'python', code: 'return 1' })).result, 1)
  })

  describe('cancelling at every stage', () => {
    const slow = { language: 'python', code: 'import time\ndef f():\n  print("begun", flush=True)\n  time.sleep(60)' }
    const ended = async (running) => assert.equal((await running).status, 'terminated')
    test('at once', () => ended(client.call(slow, { signal: AbortSignal.timeout(0) })))
    test('in the same turn', () => {
      const ending = new AbortController()
      const running = client.call(slow, { signal: ending.signal })
      ending.abort()
      // The request may have been sent or not: either way it ends.
      return running.then(({ status }) => assert.equal(status, 'terminated'), (thrown) => assert.equal(thrown, ending.signal.reason))
    })
    for (const ms of [1, 3, 10, 30]) test(`after ${ms} ms`, () => ended(client.call(slow, { signal: AbortSignal.timeout(ms) })))
    test('when its first output came', async () => {
      const ending = new AbortController()
      const result = await client.call(slow, { signal: ending.signal, onOutput: () => ending.abort() })
      assert.deepEqual([result.status, result.stdout], ['terminated', 'begun\n'])
    })
    test('while it waits for its turn', async () => {
      const ending = new AbortController()
      const all = Array.from({ length: 40 }, () => client.call(slow, { signal: ending.signal }))
      await until(async () => (await client.stats()).runs.waiting > 0, 'some wait')
      ending.abort()
      for (const running of all) await ended(running)
      assert.deepEqual((({ now, waiting }) => [now, waiting])((await client.stats()).runs), [0, 0])
    })
    test('from within a host function', async () => {
      const ending = new AbortController()
      await ended(client.call({ language: 'python', code: 'def f():\n  stop()\n  while True: pass', globals: { stop: () => ending.abort() } }, { signal: ending.signal }))
    })
    test('while a host function hangs, whose answer then goes nowhere', async () => {
      const ending = new AbortController()
      let release
      await ended(client.call({ language: 'python', code: 'def f(): return hang()', globals: { hang: () => { setTimeout(() => ending.abort(), 10); return new Promise((resolve) => { release = resolve }) } } }, { signal: ending.signal }))
      release('late')
      assert.equal((await client.call({ language: 'python', code: 'return 1' })).result, 1)
    })
    test('of a compiler', () => ended(client.call({ language: 'cpp', code: `#include <regex>\n// ${Math.random()}\nint f() { return std::regex_match("a", std::regex("a")); }` }, { signal: AbortSignal.timeout(150) })))
    test('of a set-up', async () => {
      await assert.rejects(client.prefix({ language: 'python', code: 'import time\ntime.sleep(60)' }, { signal: AbortSignal.timeout(100) }), { name: 'TimeoutError' })
      assert.equal((await client.prefixes()).length, 0)
    })
    test('after its end it does nothing', async () => {
      const ending = new AbortController()
      assert.equal((await client.call({ language: 'python', code: 'return 1' }, { signal: ending.signal })).result, 1)
      ending.abort()
      assert.equal((await client.call({ language: 'python', code: 'return 2' })).result, 2)
    })
  })

  describe('ends', () => {
    test('the daemon killed mid-run: every request rejects by name, also those that come later', async () => {
      const own = await Cloche.connect()
      const waiting = [own.call({ language: 'python', code: 'while True: pass' }), own.call({ language: 'python', code: 'def f(): return hang()', globals: { hang: () => new Promise(() => {}) } }), own.prefix({ language: 'python', code: 'import time\ntime.sleep(60)' })]
      await until(async () => (await own.stats()).runs.now >= 2, 'they run')
      process.kill(own.pid, 'SIGKILL')
      const outcomes = await Promise.allSettled(waiting)
      for (const [i, name] of ['call', 'call', 'prefix.create'].entries()) {
        assert.equal(outcomes[i].reason?.name, 'ConnectionError')
        assert.match(outcomes[i].reason.message, new RegExp(`^${name.replace('.', '\\.')} \\(request \\d+\\) has no answer: the private daemon .* \\(pid ${own.pid}\\) was killed by SIGKILL`))
      }
      assert.ok(!own.alive)
      assert.match(await own.ended, /was killed by SIGKILL/)
      await assert.rejects(own.stats(), { name: 'ConnectionError', message: /was killed by SIGKILL/ })
      await own.close()
    })
    test('close ends what runs, and the daemon of our own is gone', async () => {
      const own = await Cloche.connect()
      const { pid } = own
      const running = own.call({ language: 'python', code: 'while True: pass' })
      await until(async () => (await own.stats()).runs.now === 1, 'it runs')
      const [outcome] = await Promise.allSettled([running, own.close()])
      assert.equal(outcome.reason.message, 'call (request 2) has no answer: the client was closed')
      assert.ok(!isProcess(pid))
      await own.close()
    })
    test('an executor whose daemon died has a new one for its next run', async () => {
      const before = daemons()
      const executor = createExecutor()
      assert.equal((await executor.execute({ language: 'python', code: 'return 1' })).result, 1)
      const [pid] = daemons().filter((one) => !before.includes(one))
      process.kill(pid, 'SIGKILL')
      await until(() => !daemons().includes(pid), 'it is gone')
      await sleep(50)
      assert.equal((await executor.execute({ language: 'python', code: 'return 2' })).result, 2)
      await executor.dispose()
    })
    test('façades that name no daemon share one, which goes when all have let go', async () => {
      const before = daemons()
      const [executor, sandbox, subprocess] = [createExecutor(), await createSandbox(), createSubprocessSandbox()]
      await Promise.all([executor.execute({ language: 'python', code: 'return 1' }), sandbox.run({ code: '1' }), subprocess.execute('return 1')])
      const started = daemons().filter((one) => !before.includes(one))
      assert.ok(started.length <= 1, `${started.length} were started`)
      await Promise.all([executor.dispose(), sandbox.dispose(), subprocess.dispose()])
      await until(() => daemons().every((one) => one === client.pid), 'the shared daemon ends', 20_000)
    })
    test('a program that is done ends by itself, though it disposes of nothing', async () => {
      const program = 'import { createExecutor } from "cloche/executor"; const { result } = await createExecutor().execute({ language: "python", code: "return 42" }); console.log(result)'
      const child = spawn(process.execPath, ['--input-type=module', '-e', program], { cwd: new URL('..', import.meta.url), stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, CLOCHE_DAEMON: daemon } })
      let said = ''
      child.stdout.on('data', (text) => { said += text })
      const timer = setTimeout(() => child.kill('SIGKILL'), 60_000)
      const [code, by] = await new Promise((resolve) => child.once('close', (...end) => resolve(end)))
      clearTimeout(timer)
      assert.deepEqual([code, by, said], [0, null, '42\n'])
    })
  })

  describe('a daemon that is there already', () => {
    let folder, socket, served, log
    before(async () => {
      folder = mkdtempSync(path.join(tmpdir(), 'cloche-client-'))
      socket = path.join(folder, 's')
      served = spawn(daemon, ['--socket', socket, '--listen', '127.0.0.1:0', '--token-file', path.join(folder, 'token')], { stdio: ['ignore', 'ignore', 'pipe'] })
      log = ''
      served.stderr.on('data', (text) => { log += text })
      await until(async () => await Cloche.connect({ socket }).then(async (one) => { await one.close(); return true }, () => false), 'it takes connections')
    })
    after(async () => {
      const gone = new Promise((resolve) => served.once('exit', resolve))
      served.kill('SIGTERM')
      await gone
      rmSync(folder, { recursive: true })
    })
    test('by its socket; two clients do not see each other\'s prefixes', async () => {
      const [one, two] = [await Cloche.connect({ socket }), await Cloche.connect({ socket })]
      const prefix = await one.prefix({ language: 'python', code: 'x = 1' })
      assert.deepEqual([one.pid, (await two.prefixes()).length, (await prefix.call({ code: 'return x' })).result], [undefined, 0, 1])
      await one.close()
      assert.ok(two.alive)
      await two.close()
    })
    test('by TCP, with its token; with another it is refused by name', async () => {
      await until(() => /"port":(\d+)/.test(log), 'the log says the port')
      const port = Number(/"port":(\d+)/.exec(log)[1])
      const token = readFileSync(path.join(folder, 'token'), 'utf8').trim()
      const one = await Cloche.connect({ host: '127.0.0.1', port, token })
      assert.equal((await one.call({ language: 'python', code: 'return 1' })).result, 1)
      await one.close()
      for (const wrong of ['wrong', undefined]) await assert.rejects(Cloche.connect({ port, ...wrong && { token: wrong } }), { name: 'UnauthorizedError', code: 'unauthorized' })
    })
    test('a prefix with a name outlives the connection that made it', async () => {
      const one = await Cloche.connect({ socket })
      await one.prefix({ language: 'python', code: 'x = 41', name: 'kept', globals: { f: () => 0 } })
      await one.close()
      const two = await Cloche.connect({ socket })
      const kept = two.namedPrefix('kept', 'python', { f: () => 1 })
      assert.equal((await kept.call({ code: 'return x + f()' })).result, 42)
      await kept.dispose()
      await assert.rejects(two.namedPrefix('kept', 'python').call({ code: 'return x' }), { code: 'not_found' })
      await two.close()
    })
  })
  test('bytes go both ways as they are', async () => {
    const bytes = new Uint8Array(1 << 20).map((_, i) => i * 31)
    const { result } = await client.call({ language: 'python', code: 'def f(x): return x[::-1]', args: [bytes] })
    assert.ok(Buffer.from(bytes.reverse()).equals(result))
  })

  describe('nothing is left', () => {
    /** Node closes unused objects a little later, including older ones. */
    const fallsTo = async (count, most) => {
      for (const until = Date.now() + 20000; count() > most && Date.now() < until;) await new Promise((resolve) => setTimeout(resolve, 20))
      assert.ok(count() <= most, `${count()} are left of ${most}`)
    }
    test('descriptors and daemons are as before after ten clients', async () => {
      const once = async () => {
        const own = await Cloche.connect()
        await own.call({ language: 'python', code: 'return 1' })
        await own.close()
      }
      await once()
      const before = descriptors(), daemonsBefore = daemons().length
      for (let i = 0; i < 10; i++) await once()
      await fallsTo(descriptors, before)
      await fallsTo(() => daemons().length, daemonsBefore)
    })
    test('descriptors and the daemon\'s runs are flat over a hundred runs, aborts and refusals, twenty of each', async () => {
      const sandbox = await createSandbox({ client })
      const one = (i) => [
        () => client.call({ language: 'python', code: 'return f()', globals: { f: () => i } }),
        () => client.call({ language: 'python', code: 'while True: pass' }, { signal: AbortSignal.timeout(5) }),
        () => client.call({ language: 'nope', code: '' }).catch(() => {}),
        () => sandbox.run({ code: 'export default () => 1' }),
        () => client.call({ language: 'python', code: 'return args[0]', args: [new Uint8Array(1000)] })
      ][i % 5]()
      for (let i = 0; i < 10; i++) await one(i)
      const before = descriptors()
      for (let i = 0; i < 100; i += 10) await Promise.all(Array.from({ length: 10 }, (_, k) => one(i + k)))
      await fallsTo(descriptors, before)
      const { runs, prefixes } = await client.stats()
      assert.deepEqual([runs.now, runs.waiting, prefixes], [0, 0, 0])
      assert.equal(client.connection.open, 0)
      assert.equal(client.listeners.size, 0)
    })
  })
})
