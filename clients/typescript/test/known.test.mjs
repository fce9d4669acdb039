// Unknown options are refused by name, in every call, with the nearest one as a hint; undefined counts as absent.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { createSafeFetch, createSandbox } from 'cloche/isolate'
import { getSandbox } from 'cloche/sandbox'
import { nearest } from '../dist/internal/known.js'
import { real } from './lib/real.mjs'

const names = ['language', 'code', 'args', 'kwargs', 'timeout', 'timeoutMs']

test('the nearest name, if one is near', () => {
  for (const [typed, meant] of [['agrs', 'args'], ['TIMEOUT', 'timeout'], ['time_out', 'timeout'], ['timeoutMS', 'timeoutMs'], ['langauge', 'language']]) {
    assert.equal(nearest(typed, names), meant)
  }
  for (const typed of ['zzz', 'x', 'memory', 'a'.repeat(1000)]) assert.equal(nearest(typed, names), undefined)
})

test('connect', async () => {
  await assert.rejects(Cloche.connect({ sokcet: '/x' }), { name: 'InvalidArgumentError', message: 'connect: there is no option "sokcet"; did you mean socket?' })
})

test('createSafeFetch', () => {
  const refused = (message) => ({ name: 'TypeError', message })
  assert.throws(() => createSafeFetch({ rules: [], timeoutMS: 5 }), refused('createSafeFetch: there is no option "timeoutMS"; did you mean timeoutMs?'))
  assert.throws(() => createSafeFetch({ rules: [], zzz: 5 }), refused(/there is no option "zzz"; there are maxRedirects, /))
})

test('createSandbox and getSandbox have names of their own', async () => {
  const refused = (message) => ({ name: 'InvalidArgumentError', message })
  await assert.rejects(createSandbox({ maxConcurentRuns: 2 }), refused('createSandbox: there is no option "maxConcurentRuns"; did you mean maxConcurrentRuns?'))
  assert.throws(() => getSandbox({ stateDirr: '/x' }, 'id'), refused('getSandbox: the first argument: there is no option "stateDirr"; did you mean stateDir?'))
  assert.throws(() => getSandbox({ network: {} }, 'id'), refused(/^getSandbox: network is an option of the sandbox, and belongs in the third argument: getSandbox\(namespace, id, \{network\}\)$/))
  assert.throws(() => getSandbox(undefined, 'id', { sleepAfer: 1 }), refused(/the third argument: .*did you mean sleepAfter\?$/))
  getSandbox({ stateDir: '/x', daemonArgs: [], backups: '/y' }, 'id', { network: { allow: [] }, sleepAfter: 1 })
})

describe('against a daemon', real, () => {
  test('runs, prefixes, syncs, questions and operations; the same without the wrong option', async () => {
    const client = await Cloche.connect()
    try {
      const request = { language: 'python', code: 'def f(): return 1' }
      const prefix = await client.prefix(request)
      const script = { language: 'python', code: 'print(1)' }
      const wrong = [
        [() => client.call({ ...request, agrs: [] }), /^call: there is no option "agrs"; did you mean args\?$/],
        [() => client.call(request, { timeout: 5 }), /^call: options: there is no option "timeout"; did you mean timeoutMs\?$/],
        [() => client.call(request, { events: { beforesync () {} } }), /^call: options\.events: .*did you mean beforeSync\?$/],
        [() => client.script({ ...script, args: [] }), /^script: there is no option "args"; did you mean argv\?$/],
        [() => client.evaluate({ language: 'javascript', code: '', limit: {} }), /did you mean limits\?$/],
        [() => client.prefix({ ...request, network: {} }), /^prefix: there is no option "network"; there are language, code, /],
        [() => prefix.call({ code: 'f()', globals: {} }), /^call of a prefix: there is no option "globals"/],
        [() => client.sync({ changes: [], dryrun: true }), /did you mean dryRun\?$/],
        [() => client.stats({ timeout: 1 }), /^stats: options: .*did you mean timeoutMs\?$/],
        [() => client.sandbox('known').exec({ command: 'true' }, { timeout: 1 }), /^exec: options: .*did you mean timeoutMs\?$/],
        [() => client.sandbox('known').exec({ command: 'true', cdw: '/' }), /"cdw"/]
      ]
      for (const [call, message] of wrong) await assert.rejects(call, { name: 'InvalidArgumentError', message })
      assert.equal((await client.call({ ...request, args: [], env: undefined, agrs: undefined })).result, 1)
      assert.equal((await client.script({ ...script, argv: [] })).stdout, '1\n')
      assert.equal((await prefix.call({ code: 'def g(): return f()', function: 'g' })).result, 1)
    } finally {
      await client.close()
    }
  })
  test('cloche/isolate: runs, set-ups, calls; the same without the wrong option', async () => {
    const sandbox = await createSandbox()
    try {
      const code = 'export default 1'
      const callee = 'export const f = (a) => a'
      const prefix = await sandbox.precompile({ code: callee, globals: {}, imports: {}, limits: {}, filename: 'a.mjs', signal: undefined })
      const wrong = [
        [() => sandbox.run({ code, limit: {} }), 'run: there is no option "limit"; did you mean limits?'],
        [() => sandbox.run({ code, timeout: 5 }), 'run: there is no option "timeout"; there are code, limits, filename, globals, imports, signal, hardAbortSignal, call'],
        [() => sandbox.run({ code, call: { export: 'f', arguments: [1] } }), 'run: call: there is no option "arguments"; there are export, args'],
        [() => sandbox.readExports({ code, filname: 'a' }), 'readExports: there is no option "filname"; did you mean filename?'],
        [() => sandbox.precompile({ code, global: {} }), 'prepare: there is no option "global"; did you mean globals?'],
        [() => sandbox.prepare({ code, import: {} }), 'prepare: there is no option "import"; did you mean imports?'],
        [() => prefix.run({ code, abortSignal: null }), /^run: there is no option "abortSignal"/],
        [() => prefix.execute({ code, limts: {} }), 'run: there is no option "limts"; did you mean limits?'],
        [() => prefix.call({ export: 'f', arg: [] }), 'call: there is no option "arg"; did you mean args?']
      ]
      for (const [act, message] of wrong) await assert.rejects(act, { name: 'InvalidArgumentError', message })
      const { signal } = new AbortController()
      const all = { limits: {}, globals: {}, imports: {}, signal, hardAbortSignal: signal, filname: undefined }
      assert.equal((await sandbox.run({ code, filename: 'b.mjs', ...all })).exports.default, 1)
      assert.equal((await sandbox.run({ code: callee, ...all, call: { export: 'f', args: [2] } })).value, 2)
      assert.equal((await prefix.run({ code, filename: 'b.mjs', ...all })).exports.default, 1)
      assert.equal((await prefix.call({ export: 'f', args: [3], ...all })).value, 3)
      assert.equal((await sandbox.readExports({ code, limits: {}, filename: 'b.mjs' })).exports.default, 1)
    } finally {
      await sandbox.dispose()
    }
  })
  test('the executor: a request is answered, its own options are thrown', async () => {
    assert.throws(() => createExecutor({ defaultWorkDir: '/x' }), { name: 'InvalidArgumentError', message: /did you mean defaultWorkdir\?/ })
    const executor = createExecutor()
    try {
      const { status, error } = await executor.execute({ language: 'python', code: 'def f(): return 1', timeOut: 1 })
      assert.deepEqual([status, error.message], ['error', 'execute: there is no option "timeOut"; did you mean timeout?'])
      assert.match((await executor.execute({ language: 'python', code: '1', options: { workDir: '/x' } })).error.message, /options: .*did you mean workdir\?/)
      assert.equal((await executor.execute({ language: 'python', code: 'def f(): return 1' })).result, 1)
      await assert.rejects(executor.syncFiles([], { dirs: {} }, { onerror: 'abort' }), /did you mean onError\?/)
    } finally {
      await executor.dispose()
    }
  })
})
