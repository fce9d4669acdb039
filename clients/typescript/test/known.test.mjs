// Unknown options are refused by name, in every call, with the nearest one as a hint; undefined counts as absent.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { Cloche } from 'cloche'
import { createExecutor } from 'cloche/executor'
import { createSafeFetch, createSandbox } from 'cloche/isolate'
import { getSandbox, proxyTerminal } from 'cloche/sandbox'
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
  test('cloche/sandbox: every method with options of its own; all that the other package has are known', async () => {
    const box = getSandbox({}, 'known')
    const { signal } = new AbortController()
    try {
      const process = await box.startProcess('cat', { processId: 'p', stdin: true, timeout: 60_000, env: {}, cwd: '/', encoding: 'utf8', autoCleanup: false, sessionId: 'default' })
      const wrong = [
        [() => box.exec('true', { timeOut: 1 }), 'exec: there is no option "timeOut"; did you mean timeout?'],
        [() => box.exec('git', ['status']), 'exec: options are an array; an object of names and values is expected'],
        [() => box.exec('true', { timeoutMs: 1 }), 'exec: there is no option "timeoutMs"; did you mean timeout?'],
        [() => box.execStream('true', { stdn: '' }), 'execStream: there is no option "stdn"; did you mean stdin?'],
        [() => box.startProcess('true', { procesId: 'x' }), 'startProcess: there is no option "procesId"; did you mean processId?'],
        [() => box.listProcesses({ sgnal: signal }), /did you mean signal\?$/],
        [() => box.getProcessLogs('p', { follow: true }), 'getProcessLogs: there is no option "follow"; there are signal'],
        [() => box.streamProcessLogs('p', { singal: signal }), 'streamProcessLogs: there is no option "singal"; did you mean signal?'],
        [() => process.write('', { End: true }), 'write: there is no option "End"; did you mean end?'],
        [() => process.waitForLog('x', 1, { timeout: 5 }), /^waitForLog: there is no option "timeout"/],
        [() => process.waitForPort(8080, { timout: 1 }), 'waitForPort: there is no option "timout"; did you mean timeout?'],
        [() => process.waitForExit(1, { kill: true }), /^waitForExit: there is no option "kill"/],
        [() => process.getLogs({ limit: 1 }), /there is no option "limit"/],
        [() => box.writeFile('/tmp/a', '', { encodng: 'base64' }), 'writeFile: there is no option "encodng"; did you mean encoding?'],
        [() => box.readFile('/tmp/a', { encodng: 'base64' }), 'readFile: there is no option "encodng"; did you mean encoding?'],
        [() => box.readFileStream('/tmp/a', { offset: 1 }), /^readFileStream: there is no option "offset"/],
        [() => box.mkdir('/tmp/b', { recursiv: true }), 'mkdir: there is no option "recursiv"; did you mean recursive?'],
        [() => box.deleteFile('/tmp/a', { forced: true }), 'deleteFile: there is no option "forced"; did you mean force?'],
        [() => box.renameFile('/tmp/a', '/tmp/c', { overwrite: true }), /^renameFile: there is no option "overwrite"/],
        [() => box.moveFile('/tmp/a', '/tmp/c', { overwrite: true }), /^moveFile: there is no option "overwrite"/],
        [() => box.copyFile('/tmp/a', '/tmp/c', { overwritte: true }), 'copyFile: there is no option "overwritte"; did you mean overwrite?'],
        [() => box.listFiles('/tmp', { hidden: true }), 'listFiles: there is no option "hidden"; there are signal, sessionId, recursive, includeHidden'],
        [() => box.exists('/tmp', { session: 'a' }), /^exists: there is no option "session"/],
        [() => box.stat('/tmp', { session: 'a' }), /^stat: there is no option "session"/],
        [() => box.watch('/tmp', { includes: [] }), 'watch: there is no option "includes"; did you mean include?'],
        [() => box.checkChanges('/tmp', { sinse: '1' }), 'checkChanges: there is no option "sinse"; did you mean since?'],
        [() => box.search('/tmp', 'x', { limits: 1 }), 'search: there is no option "limits"; did you mean limit?'],
        [() => box.replace('/tmp', 'x', 'y', { dryrun: true }), 'replace: there is no option "dryrun"; did you mean dryRun?'],
        [() => box.uploadTree('/tmp', '/tmp', { excludes: [] }), 'uploadTree: there is no option "excludes"; did you mean exclude?'],
        [() => box.downloadTree('/tmp', '/nowhere', { maxByte: 1 }), 'downloadTree: there is no option "maxByte"; did you mean maxBytes?'],
        [() => box.setEnvVars({}, { global: true }), /there is no option "global"/],
        [() => box.gitCheckout('https://x.y/z', { brnch: 'main' }), 'gitCheckout: there is no option "brnch"; did you mean branch?'],
        [() => box.createBackup({ dir: '/workspace', exclude: [] }), 'createBackup: there is no option "exclude"; did you mean excludes?'],
        [() => box.restoreBackup({ id: '', dir: '/tmp' }, { force: true }), /^restoreBackup: there is no option "force"/],
        [() => box.createCodeContext({ lang: 'python' }), /^createCodeContext: there is no option "lang"; /],
        [() => box.runCode('1', { timeOut: 1 }), 'runCode: there is no option "timeOut"; did you mean timeout?'],
        [() => box.runCodeStream('1', { onStdOut () {} }), 'runCodeStream: there is no option "onStdOut"; did you mean onStdout?'],
        [() => box.terminal({ columns: 1 }), /^terminal: there is no option "columns"/],
        [() => box.createSession({ cwwd: '/' }), 'createSession: there is no option "cwwd"; did you mean cwd?'],
        [() => box.exposePort(8080, { hostName: 'a.b' }), 'exposePort: there is no option "hostName"; did you mean hostname?']
      ]
      for (const [act, message] of wrong) await assert.rejects(act, { code: 'VALIDATION_FAILED', httpStatus: 400, message }, String(act))
      assert.throws(() => proxyTerminal(box, 'default', {}, { columns: 1 }), { code: 'VALIDATION_FAILED', message: /^proxyTerminal: there is no option "columns"/ })

      const command = { timeout: 60_000, env: { A: 'a', B: undefined }, cwd: '/tmp', encoding: 'utf8', signal }
      const ran = await box.exec('echo $A', { ...command, stream: true, onOutput () {}, onComplete () {}, onError () {}, origin: 'user', timeOut: undefined })
      assert.equal(ran.stdout, 'a\n')
      const stream = await box.execStream('echo $A', { ...command, sessionId: 'default', bufferSize: 1024 })
      assert.match(await new Response(stream).text(), /"stdout":"a\\n"/)
      await box.writeFile('/tmp/a/b', 'eA==', { encoding: 'base64', sessionId: 'default' })
      assert.equal((await box.readFile('/tmp/a/b', { encoding: 'utf-8', sessionId: 'default' })).content, 'x')
      await box.mkdir('/tmp/a/c', { recursive: true, sessionId: 'default' })
      assert.equal((await box.listFiles('/tmp/a', { recursive: true, includeHidden: true, sessionId: 'default' })).count, 2)
      assert.equal((await box.exists('/tmp/a/b', 'default')).exists, true) // the other package's second argument
      assert.equal((await box.runCode('1 + 1', { language: 'python', envVars: {}, timeout: 60_000, signal, onStdout () {}, onStderr () {}, onResult () {}, onError () {} })).results[0].text, '2')
    } finally {
      await box.destroy()
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
