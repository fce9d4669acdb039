// The façade for users of @cloudflare/sandbox, promise by promise, against the real daemon.
import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, readlinkSync, rmSync, statSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Cloche } from 'cloche'
import {
  collectFile, FileNotFoundError, getSandbox, parseSSEStream, ProcessExitedBeforeReadyError, ProcessReadyTimeoutError, Sandbox, SandboxError, SessionTerminatedError, streamFile
} from 'cloche/sandbox'
import { real, until } from './lib/real.mjs'
import { serve } from './lib/served.mjs'

const unhandled = []
process.on('unhandledRejection', (reason) => unhandled.push(reason))

const all = async (iterable) => { const found = []; for await (const item of iterable) found.push(item); return found }
const events = async (stream, signal) => await all(parseSSEStream(stream, signal))
const joined = (list, type) => list.filter((event) => event.type === type).map(({ data }) => data).join('')
const bytesOf = async (stream) => Buffer.concat(await all(stream))

describe('sandbox façade', real, () => {
  let served, ns, sandbox, folder
  before(async () => {
    served = await serve()
    folder = mkdtempSync(path.join(tmpdir(), 'cloche-tree-'))
    ns = { socket: served.socket }
    sandbox = getSandbox(ns, 'my-sandbox')
  })
  after(async () => {
    await sandbox?.destroy()
    await served?.end()
    if (folder !== undefined) rmSync(folder, { recursive: true })
    assert.deepEqual(unhandled, [])
  })
  const fails = async (act, code, httpStatus) => {
    const error = await act.then(() => assert.fail(`nothing was thrown; ${code} is expected`), (thrown) => thrown)
    assert.deepEqual([error.code, error.httpStatus], [code, httpStatus], String(error.stack))
    assert.ok(error instanceof SandboxError)
    return error
  }

  describe('backups', () => {
    const kept = mkdtempSync(path.join(tmpdir(), 'cloche-backups-'))
    after(() => rmSync(kept, { recursive: true }))
    class Bucket extends Map {
      put = async (key, value) => this.set(key, value)
      get = async (key) => { const found = super.get(key); return found === undefined ? null : new Blob([found]) }
    }
    for (const [name, backups] of [['a directory', () => path.join(kept, 'backups')], ['a bucket', () => new Bucket()]]) {
      test(`in ${name}: what was there is there again, in another sandbox too`, async () => {
        const there = { ...ns, backups: backups() }
        const box = getSandbox(there, 'to-back-up')
        const other = getSandbox(there, 'to-restore')
        await box.exec('mkdir -p /app/p/sub && cd /app/p && git init -q . && echo one > one && echo two > sub/two && ln -s one link && echo x > a.log && mkdir tmp && echo t > tmp/t && echo tmp > .gitignore && head -c 9000000 /dev/urandom > big; sha256sum big > sum')
        const backup = await box.createBackup({ dir: '/app/p', name: 'first', excludes: ['*.log', '.git'], gitignore: true })
        assert.deepEqual([Object.keys(backup), backup.dir], [['id', 'dir'], '/app/p'])
        await box.exec('rm -r /app/p/sub; echo changed > /app/p/one; echo later > /app/p/later')
        for (const where of [box, other]) {
          assert.deepEqual(await where.restoreBackup(JSON.parse(JSON.stringify(backup))), { success: true, id: backup.id, dir: '/app/p' })
          assert.equal((await where.exec('cd /app/p && cat one sub/two && readlink link && ls -A && sha256sum --quiet -c sum && ls -A /tmp')).stdout, 'one\ntwo\none\n.gitignore\nbig\nlink\none\nsub\nsum\n')
        }
        const short = await box.createBackup({ dir: '/app/p/sub', ttl: 30, compression: { format: 'gzip' } })
        await fails(box.restoreBackup(short), 'BACKUP_EXPIRED', 400)
        await fails(box.restoreBackup({ ...backup, id: backup.id.replace(/^./, (digit) => digit === '0' ? '1' : '0') }), 'BACKUP_NOT_FOUND', 404)
        await fails(box.restoreBackup({ ...backup, id: '../../x' }), 'INVALID_BACKUP_CONFIG', 400)
        for (const ttl of [0, -1, Infinity, NaN, '60']) await fails(box.createBackup({ dir: '/app/p', ttl }), 'INVALID_BACKUP_CONFIG', 400)
        await fails(box.createBackup({ dir: '/etc' }), 'INVALID_BACKUP_CONFIG', 400)
        await fails(box.createBackup({ dir: '/app/../etc' }), 'INVALID_BACKUP_CONFIG', 400)
        await fails(box.createBackup({ dir: '/app', compression: { format: 'lz4' } }), 'INVALID_BACKUP_CONFIG', 400)
        await fails(box.createBackup({ dir: '/app/none' }), 'FILE_NOT_FOUND', 404)
        assert.equal((await box.exec('ls -A /tmp')).stdout, '')
        await box.destroy()
        await other.destroy()
      })
    }
    test('damaged records keep nobody from making another one, and go with time', async () => {
      const backups = path.join(kept, 'records')
      const record = (id) => path.join(backups, 'backups', id)
      const box = getSandbox({ ...ns, backups }, 'records')
      await box.exec('mkdir /app/p && echo one > /app/p/one')
      for (const [id, text] of [['empty', ''], ['none', undefined], ['old', '{'], ['strange', '[1]']]) {
        mkdirSync(record(id), { recursive: true })
        writeFileSync(path.join(record(id), 'data'), 'x')
        if (text !== undefined) writeFileSync(path.join(record(id), 'meta.json'), text)
      }
      utimesSync(record('old'), 0, 0)
      const backup = await box.createBackup({ dir: '/app/p' })
      assert.deepEqual(readdirSync(path.join(backups, 'backups')).sort(), [backup.id, 'empty', 'none', 'strange'].sort())
      writeFileSync(path.join(record(backup.id), 'meta.json'), '')
      await fails(box.restoreBackup(backup), 'BACKUP_RESTORE_FAILED', 500)
      await box.destroy()
    })
    test('an archive that cannot be read is an error of the restore', async () => {
      const backups = path.join(kept, 'unreadable')
      const box = getSandbox({ ...ns, backups }, 'unreadable')
      await box.exec('mkdir /app/p && echo one > /app/p/one')
      const backup = await box.createBackup({ dir: '/app/p' })
      const data = path.join(backups, 'backups', backup.id, 'data')
      rmSync(data)
      mkdirSync(data)
      await fails(box.restoreBackup(backup), 'BACKUP_RESTORE_FAILED', 500)
      assert.equal((await box.exec('cat /app/p/one; ls -A /tmp')).stdout, 'one\n')
      await box.destroy()
    })
    test('a damaged archive changes nothing', async () => {
      const there = { ...ns, backups: path.join(kept, 'damaged') }
      const box = getSandbox(there, 'damaged')
      await box.exec('mkdir /app/p && echo one > /app/p/one')
      const backup = await box.createBackup({ dir: '/app/p' })
      const file = path.join(kept, 'damaged/backups', backup.id, 'data')
      writeFileSync(file, readFileSync(file).subarray(0, -20))
      await fails(box.restoreBackup(backup), 'FILESYSTEM_ERROR', 422)
      assert.equal((await box.exec('ls -A /app/p /tmp; cat /app/p/one')).stdout, '/app/p:\none\n\n/tmp:\none\n')
      await box.destroy()
    })
  })

  describe('commands', () => {
    test('the result', async () => {
      assert.ok(sandbox instanceof Sandbox)
      const result = await sandbox.exec('echo out; echo err >&2; exit_with() { return 3; }; exit_with')
      const { duration, timestamp, ...rest } = result
      assert.deepEqual(rest, { success: false, exitCode: 3, stdout: 'out\n', stderr: 'err\n', command: 'echo out; echo err >&2; exit_with() { return 3; }; exit_with', sessionId: 'default', cwd: '/workspace', timedOut: false, truncated: false, sessionEnded: false })
      assert.ok(duration >= 0 && !Number.isNaN(Date.parse(timestamp)))
    })
    test('one that could not connect says who can allow it', async () => {
      const command = 'echo "curl: (6) Could not resolve host: x.example" >&2; '
      const hint = /sandbox my-sandbox has no network; .*cloche net my-sandbox --add HOST/
      const { warnings, stderr } = await sandbox.exec(`${command}false`)
      assert.match(warnings[0], hint)
      assert.equal(stderr, 'curl: (6) Could not resolve host: x.example\n')
      assert.match((await events(await sandbox.execStream(`${command}false`))).at(-1).result.warnings[0], hint)
      assert.equal('warnings' in await sandbox.exec(command), false)
    })
    test('the connections that the network refused', async () => {
      const box = getSandbox(ns, 'refused', { network: { allow: ['allowed.test:443'] } })
      const command = 'curl -sS -m 5 http://93.184.216.34:81/'
      const remedy = 'cloche net refused --add 93.184.216.34:81'
      assert.deepEqual((await box.exec(command)).denials.map((row) => row.remedy), [remedy])
      assert.deepEqual((await events(await box.execStream(command))).at(-1).result.denials.map((row) => row.remedy), [remedy])
      assert.equal('denials' in await box.exec('true'), false)
      await box.destroy()
    })
    test('state stays; options are for one call', async () => {
      await sandbox.exec('cd /tmp && export A=1')
      assert.equal((await sandbox.exec('echo $A $B; pwd', { env: { B: '2' }, cwd: '/' })).stdout, '1 2\n/\n')
      assert.equal((await sandbox.exec('echo $A $B; pwd')).stdout, '1\n/tmp\n')
      assert.equal((await sandbox.exec('echo ${A-none}', { env: { A: undefined } })).stdout, 'none\n')
      await sandbox.exec('cd /workspace')
    })
    test('timeout kills and says so; the session goes on', async () => {
      const { exitCode, timedOut, success } = await sandbox.exec('sleep 1010', { timeout: 200 })
      assert.deepEqual([exitCode, timedOut, success], [124, true, false])
      assert.equal((await sandbox.exec("pgrep -c -f '^sleep 1010'")).stdout, '0\n')
    })
    test('a signal kills', async () => {
      const controller = new AbortController()
      const running = sandbox.exec('sleep 1011', { signal: controller.signal })
      await until(async () => (await sandbox.listProcesses()).length >= 0, 'the daemon answers')
      await sleep(100)
      controller.abort(new Error('stop it'))
      await assert.rejects(running, /stop it/)
      assert.equal((await sandbox.exec("pgrep -c -f '^sleep 1011'")).stdout, '0\n')
    })
    test('output as it comes, by callbacks', async () => {
      const told = []
      let completed
      const result = await sandbox.exec('echo a; sleep 0.1; echo b >&2', { stream: true, onOutput: (stream, data) => told.push([stream, data]), onComplete: (one) => { completed = one } })
      assert.deepEqual([told, completed, result.exitCode], [[['stdout', 'a\n'], ['stderr', 'b\n']], result, 0])
      assert.deepEqual([result.stdout, result.stderr], ['a\n', 'b\n'])
    })
    test('a long output is whole; bytes that are no text are there raw', async () => {
      const { stdout, truncated } = await sandbox.exec('seq 1 400000')
      assert.equal(truncated, false)
      assert.equal(stdout.length, 2_688_895)
      assert.ok(stdout.endsWith('\n400000\n'))
      const odd = await sandbox.exec("printf 'a\\377b'")
      assert.deepEqual([odd.stdout, [...odd.stdoutRaw]], ['a\ufffdb', [97, 255, 98]])
      const zero = await sandbox.exec("printf 'a\\000b'; printf '%070000d' 0 >&2")
      assert.deepEqual([zero.stdout, zero.stdoutRaw, zero.stderr.length, zero.stderrRaw], ['a\0b', undefined, 70_000, undefined])
    })
    test('stdin is empty unless given; heredocs and syntax errors do no harm', async () => {
      assert.equal((await sandbox.exec('read x; echo "[$x]"')).stdout, '[]\n')
      assert.equal((await sandbox.exec('cat', { stdin: 'in' })).stdout, 'in')
      assert.equal((await sandbox.exec('cat <<EOF\nhere $((1+1))\nEOF')).stdout, 'here 2\n')
      assert.equal((await sandbox.exec('echo "')).exitCode, 2)
      assert.equal((await sandbox.exec('')).exitCode, 0)
    })
    test('exit ends the shell, and the next one begins', async () => {
      let told
      const error = await fails(sandbox.exec('echo said; exit 5', { onError: (thrown) => { told = thrown } }), 'SESSION_TERMINATED', 410)
      const { exitCode, sessionEnded, stdout } = error.context.result
      assert.deepEqual([error instanceof SessionTerminatedError, told === error, error.exitCode, error.sessionId, exitCode, sessionEnded, stdout], [true, true, 5, 'default', 5, true, 'said\n'])
      assert.equal((await sandbox.exec('echo on')).stdout, 'on\n')
      const ended = (await events(await sandbox.execStream('echo said; exit 6', { fork: false }))).at(-1)
      assert.deepEqual([ended.type, ended.code, ended.exitCode], ['error', 'SESSION_TERMINATED', 6])
      assert.equal((await sandbox.exec('(exit 7)')).exitCode, 7)
    })
    test('execStream: start, output, complete; beside the session, while it runs', async () => {
      await sandbox.exec('V=shell')
      const reading = events(await sandbox.execStream('echo "$V"; until [ -e /tmp/go ]; do sleep 0.01; done; V=changed'))
      await sandbox.exec('touch /tmp/go')
      const found = await reading
      assert.deepEqual([found[0].type, found[0].command.startsWith('echo'), found.at(-1).type, found.at(-1).exitCode], ['start', true, 'complete', 0])
      assert.ok(joined(found, 'stdout').startsWith('shell\n'))
      assert.equal(found.at(-1).result.success, true)
      assert.equal((await sandbox.exec('echo $V')).stdout, 'shell\n')
    })
    test('execStream is live, and cancelling its stream kills', async () => {
      const stream = await sandbox.execStream('echo first; sleep 1012')
      for await (const event of parseSSEStream(stream)) if (event.type === 'stdout') break
      await until(async () => (await sandbox.exec("pgrep -c -f '^sleep 1012'")).stdout === '0\n', 'it is killed')
    })
    test('execStream waits for its reader', async () => {
      const stream = await sandbox.execStream('yes | head -c 20000000; echo done >&2')
      const before = process.memoryUsage().arrayBuffers
      for (let i = 0; i < 20; i++) await sandbox.exec('true')
      assert.ok(process.memoryUsage().arrayBuffers - before < 16 * 2 ** 20)
      const found = await events(stream)
      assert.deepEqual([joined(found, 'stdout').length, joined(found, 'stderr')], [20_000_000, 'done\n'])
    })
    test('setEnvVars: exported, unset, and in sessions made later', async () => {
      await sandbox.setEnvVars({ ONE: '1', TWO: '2' })
      await sandbox.setEnvVars({ TWO: undefined })
      assert.equal((await sandbox.exec('env | grep -c "^ONE=1$"; echo ${TWO-none}')).stdout, '1\nnone\n')
      const session = await sandbox.createSession({ id: 'with-env', env: { THREE: '3' } })
      assert.equal((await session.exec('echo $ONE$THREE')).stdout, '13\n')
      await fails(sandbox.setEnvVars({ 'no name': 'x' }), 'VALIDATION_FAILED', 400)
    })
    test('enableDefaultSession false: commands leave no state', async () => {
      const plain = getSandbox(ns, 'my-sandbox', { enableDefaultSession: false })
      await plain.exec('W=1; cd /')
      assert.equal((await plain.exec('echo ${W-none}; pwd')).stdout, 'none\n/workspace\n')
    })
  })

  describe('processes', () => {
    test('started, listed, asked, killed', async () => {
      const process = await sandbox.startProcess('echo up; sleep 1020 & sleep 1020', { processId: 'p1', env: { P: 'p' }, cwd: '/tmp' })
      assert.deepEqual([process.id, process.status, process.command, process.sessionId, process.pid > 0, process.startTime instanceof Date, process.exitCode], ['p1', 'running', 'echo up; sleep 1020 & sleep 1020', 'default', true, true, undefined])
      assert.ok((await sandbox.listProcesses()).some(({ id }) => id === 'p1'))
      assert.equal((await sandbox.getProcess('p1')).status, 'running')
      await process.waitForLog('up')
      assert.deepEqual(await process.getLogs(), { stdout: 'up\n', stderr: '' })
      await sandbox.killProcess('p1')
      assert.equal(await process.getStatus(), 'killed')
      assert.deepEqual([process.exitCode, process.endTime instanceof Date], [143, true])
      assert.equal((await sandbox.exec("pgrep -c -f '^sleep 1020'")).stdout, '0\n')
      assert.equal(await sandbox.getProcess('nobody'), null)
      await fails(sandbox.killProcess('nobody'), 'PROCESS_NOT_FOUND', 404)
      await fails(sandbox.getProcessLogs('nobody'), 'PROCESS_NOT_FOUND', 404)
      await fails(sandbox.streamProcessLogs('nobody'), 'PROCESS_NOT_FOUND', 404)
    })
    test('callbacks', async () => {
      const told = []
      let started
      const ended = new Promise((resolve, reject) => {
        sandbox.startProcess('echo a; echo b >&2; exit 4', { onStart: ({ id }) => { started = id }, onOutput: (stream, data) => told.push([stream, data]), onExit: resolve, onError: reject }).catch(reject)
      })
      assert.equal(await ended, 4)
      assert.equal(typeof started, 'string')
      assert.deepEqual(told.sort(), [['stderr', 'b\n'], ['stdout', 'a\n']])
    })
    test('waitForLog: text and regular expressions, what was and what comes', async () => {
      const process = await sandbox.startProcess('echo "port 80"; sleep 0.2; echo "Listening on 8080 ü" >&2; sleep 0.2; echo end')
      const { line, match } = await process.waitForLog(/on (?<port>\d+) (.)$/u, 10_000)
      assert.deepEqual([line, match[1], match[2], match.groups.port], ['Listening on 8080 ü', '8080', 'ü', '8080'])
      assert.equal((await process.waitForLog('port')).line, 'port 80')
      const late = await process.waitForLog(/never/, 20).catch((error) => error)
      assert.ok(late instanceof ProcessReadyTimeoutError)
      assert.deepEqual([late.code, late.httpStatus, late.timeout, late.processId], ['PROCESS_READY_TIMEOUT', 408, 20, process.id])
      for (const pattern of ['never', /never/]) {
        const ended = await process.waitForLog(pattern).catch((error) => error)
        assert.ok(ended instanceof ProcessExitedBeforeReadyError, String(ended))
        assert.deepEqual([ended.code, ended.httpStatus, ended.exitCode], ['PROCESS_EXITED_BEFORE_READY', 500, 0])
      }
    })
    test('waitForPort and waitForExit', async () => {
      const server = await sandbox.startProcess('sleep 0.2; exec python3 -m http.server 8101 --bind 127.0.0.1')
      await server.waitForPort(8101, { timeout: 20_000 })
      await server.waitForPort(8101, { mode: 'tcp', timeout: 5000 })
      await server.waitForPort(8101, { path: '/nothing-there', status: 404, timeout: 5000 })
      const late = await server.waitForPort(8101, { path: '/nothing-there', timeout: 300 }).catch((error) => error)
      assert.ok(late instanceof ProcessReadyTimeoutError, String(late))
      assert.ok(await server.waitForExit(50).catch((error) => error) instanceof ProcessReadyTimeoutError)
      await server.kill('SIGKILL')
      assert.deepEqual(await server.waitForExit(), { exitCode: 137 })
      const short = await sandbox.startProcess('exit 9')
      assert.deepEqual(await short.waitForExit(10_000), { exitCode: 9 })
      assert.ok(await short.waitForPort(8102).catch((error) => error) instanceof ProcessExitedBeforeReadyError)
    })
    test('its logs as events: what was, what comes, its end', async () => {
      const process = await sandbox.startProcess('echo one; sleep 0.2; echo two; echo three >&2; exit 2')
      await process.waitForLog('one')
      const found = await events(await sandbox.streamProcessLogs(process.id))
      assert.deepEqual([found[0].type, found[0].processId, found.at(-1).type, found.at(-1).exitCode, found.at(-2).type, found.at(-2).status], ['process_info', process.id, 'exit', 2, 'complete', 'failed'])
      assert.deepEqual([joined(found, 'stdout'), joined(found, 'stderr')], ['one\ntwo\n', 'three\n'])
      const { stdout, stderr, processId } = await sandbox.getProcessLogs(process.id)
      assert.deepEqual([stdout, stderr, processId], ['one\ntwo\n', 'three\n', process.id])
    })
    test('a signal ends following; the process goes on', async () => {
      const process = await sandbox.startProcess('echo x; sleep 1021')
      const controller = new AbortController()
      const stream = await sandbox.streamProcessLogs(process.id, { signal: controller.signal })
      await assert.rejects((async () => { for await (const { type } of parseSSEStream(stream)) if (type === 'stdout') controller.abort(new Error('seen')) })(), /seen/)
      assert.equal(await process.getStatus(), 'running')
      await process.kill()
    })
    test('input', async () => {
      const process = await sandbox.startProcess('cat', { stdin: true })
      await process.write('typed\n', { end: true })
      await process.waitForExit()
      assert.equal((await process.getLogs()).stdout, 'typed\n')
    })
    test('long logs are whole', async () => {
      const process = await sandbox.startProcess('seq 1 400000; echo e >&2')
      await process.waitForExit()
      const { stdout, stderr } = await process.getLogs()
      assert.deepEqual([stdout.length, stderr], [2_688_895, 'e\n'])
    })
    test('all are killed, and forgotten', async () => {
      await Promise.all([sandbox.startProcess('sleep 1022'), sandbox.startProcess('sleep 1022')])
      assert.ok(await sandbox.killAllProcesses() >= 2)
      assert.ok(await sandbox.cleanupCompletedProcesses() >= 2)
      assert.deepEqual(await sandbox.listProcesses(), [])
    })
  })

  describe('files', () => {
    test('text and bytes, byte for byte', async () => {
      const { success, exitCode, path: where } = await sandbox.writeFile('/workspace/a/b/t.txt', 'hällo')
      assert.deepEqual([success, exitCode, where], [true, 0, '/workspace/a/b/t.txt'])
      const { timestamp, ...read } = await sandbox.readFile('/workspace/a/b/t.txt')
      assert.deepEqual(read, { success: true, exitCode: 0, path: '/workspace/a/b/t.txt', content: 'hällo', encoding: 'utf-8', isBinary: false, mimeType: 'text/plain', size: 6 })
      await sandbox.writeFile('/workspace/b.bin', 'AP/+', { encoding: 'base64' })
      const binary = await sandbox.readFile('/workspace/b.bin')
      assert.deepEqual([binary.content, binary.encoding, binary.isBinary, binary.size], ['AP/+', 'base64', true, 3])
      await sandbox.writeFile('/workspace/b.bin', Uint8Array.of(1, 200))
      assert.equal((await sandbox.readFile('/workspace/b.bin', { encoding: 'base64' })).content, 'Acg=')
      assert.equal((await sandbox.readFile('/workspace/b.bin', { encoding: 'utf8' })).content, '\u0001\ufffd')
      assert.deepEqual([...await bytesOf((await sandbox.readFile('/workspace/b.bin', { encoding: 'none' })).content)], [1, 200])
      await fails(sandbox.writeFile('/workspace/x', 'not base64!', { encoding: 'base64' }), 'VALIDATION_FAILED', 400)
      await fails(sandbox.writeFile('/workspace/x', '', { encoding: 'latin1' }), 'VALIDATION_FAILED', 400)
    })
    test('large ones in pieces, both ways', async () => {
      const large = Buffer.alloc(40 * 2 ** 20)
      for (let i = 0; i < large.length; i += 4096) large.writeUInt32LE(i, i)
      await sandbox.writeFile('/workspace/large.sh', 'old', { mode: 0o755 })
      const chunks = async function * () { for (let at = 0; at < large.length; at += 3_000_000) yield large.subarray(at, at + 3_000_000) }
      assert.equal((await sandbox.writeFile('/workspace/large.sh', ReadableStream.from(chunks()))).bytes, large.length)
      await fails(sandbox.readFile('/workspace/large.sh'), 'FILE_TOO_LARGE', 413)
      assert.ok(large.equals(await bytesOf((await sandbox.readFile('/workspace/large.sh', { encoding: 'none' })).content)))
      const { content, metadata } = await collectFile(await sandbox.readFileStream('/workspace/large.sh'))
      assert.ok(large.equals(content))
      assert.deepEqual([metadata.size, metadata.isBinary, metadata.encoding], [large.length, true, 'base64'])
      assert.equal((await sandbox.stat('/workspace/large.sh')).mode, 'rwxr-xr-x')
      assert.deepEqual((await sandbox.listFiles('/workspace')).files.filter(({ name }) => name.includes('upload')), [])
      await sandbox.writeFile('/workspace/large.sh', new Blob(['small']))
      assert.equal((await sandbox.readFile('/workspace/large.sh')).content, 'small')
      await fails(sandbox.writeFile('/workspace/a', ReadableStream.from([Buffer.from('x')])), 'IS_DIRECTORY', 400)
    })
    test('a text as a stream, characters whole', async () => {
      const text = 'aä€😀'.repeat(100_000)
      await sandbox.writeFile('/workspace/text.txt', text)
      const { content, metadata } = await collectFile(await sandbox.readFileStream('/workspace/text.txt'))
      assert.ok(content === text)
      assert.equal(metadata.encoding, 'utf-8')
      assert.deepEqual(await all(streamFile(await sandbox.readFileStream('/workspace/b.bin'))), [Uint8Array.of(1, 200)])
      await sandbox.writeFile('/workspace/empty', '')
      assert.equal((await collectFile(await sandbox.readFileStream('/workspace/empty'))).content, '')
    })
    test('what is not there, and what is of another kind', async () => {
      assert.ok(await fails(sandbox.readFile('/workspace/none'), 'FILE_NOT_FOUND', 404) instanceof FileNotFoundError)
      await fails(sandbox.readFileStream('/workspace/none'), 'FILE_NOT_FOUND', 404)
      await fails(sandbox.deleteFile('/workspace/none'), 'FILE_NOT_FOUND', 404)
      await fails(sandbox.listFiles('/workspace/none'), 'FILE_NOT_FOUND', 404)
      await fails(sandbox.deleteFile('/workspace/a'), 'IS_DIRECTORY', 400)
      await fails(sandbox.listFiles('/workspace/b.bin'), 'NOT_DIRECTORY', 400)
      await fails(sandbox.writeFile('/etc/passwd', 'x'), 'PERMISSION_DENIED', 403)
      await fails(sandbox.mkdir('/workspace/a'), 'FILE_EXISTS', 409)
    })
    test('directories, lists, moves, copies', async () => {
      const { recursive, stdout, stderr } = await sandbox.mkdir('/workspace/d/e', { recursive: true })
      assert.deepEqual([recursive, stdout, stderr], [true, '', ''])
      await sandbox.writeFile('/workspace/d/.hidden', 'h')
      await sandbox.writeFile('/workspace/d/e/run', '#!/bin/sh', { mode: 0o750 })
      await sandbox.exec('ln -s e/run d/link')
      const { files, count } = await sandbox.listFiles('/workspace/d', { recursive: true })
      assert.deepEqual([count, files.map(({ relativePath, type }) => [relativePath, type])], [3, [['e', 'directory'], ['e/run', 'file'], ['link', 'symlink']]])
      const run = files[1]
      assert.deepEqual([run.name, run.absolutePath, run.mode, run.permissions, run.size], ['run', '/workspace/d/e/run', 'rwxr-x---', { readable: true, writable: true, executable: true }, 9])
      assert.equal(files[2].target, 'e/run')
      assert.equal((await sandbox.listFiles('/workspace/d', { includeHidden: true })).count, 3)
      assert.equal((await sandbox.renameFile('/workspace/d/.hidden', '/workspace/d/shown')).newPath, '/workspace/d/shown')
      assert.equal((await sandbox.moveFile('/workspace/d/shown', '/workspace/d/e')).newPath, '/workspace/d/e/shown')
      await sandbox.copyFile('/workspace/d', '/workspace/d2')
      assert.equal((await sandbox.readFile('/workspace/d2/e/shown')).content, 'h')
      assert.deepEqual([(await sandbox.exists('/workspace/d2')).exists, (await sandbox.exists('/workspace/d3')).exists], [true, false])
      await sandbox.deleteFile('/workspace/d2', { recursive: true })
      await sandbox.deleteFile('/workspace/d/e/shown')
      await fails(sandbox.renameFile('/workspace/none', '/workspace/x'), 'FILE_NOT_FOUND', 404)
    })
    test('names with anything in them', async () => {
      for (const name of ['$(touch pwned)', 'a b\tc', "'quote\"", 'ünï', '-rf', 'new\nline']) {
        await sandbox.writeFile(`/workspace/odd/${name}`, name)
        assert.equal((await sandbox.readFile(`/workspace/odd/${name}`)).content, name)
      }
      assert.equal((await sandbox.listFiles('/workspace/odd')).count, 6)
      assert.equal((await sandbox.exists('/workspace/pwned')).exists, false)
    })
    test('search and replace', async () => {
      await sandbox.writeFile('/workspace/src/a.ts', 'const one = 1\nconst two = 2\n')
      await sandbox.writeFile('/workspace/src/b.md', 'CONST\n')
      assert.deepEqual((await sandbox.search('/workspace/src', 'const')).matches.map(({ path, line, text }) => [path, line, text]), [['/workspace/src/a.ts', 1, 'const one = 1'], ['/workspace/src/a.ts', 2, 'const two = 2']])
      assert.equal((await sandbox.search('/workspace/src', /const/i)).matches.length, 3)
      assert.equal((await sandbox.search('/workspace/src', /const/i, { include: ['*.md'] })).matches.length, 1)
      assert.equal((await sandbox.replace('/workspace/src', /const (\w+)/, 'let $1', { dryRun: true })).count, 2)
      assert.deepEqual(await sandbox.replace('/workspace/src', /const (\w+)/, 'let $1'), { files: [{ path: '/workspace/src/a.ts', count: 2 }], count: 2 })
      assert.equal((await sandbox.readFile('/workspace/src/a.ts')).content, 'let one = 1\nlet two = 2\n')
    })
    test('changes are told as they happen', async () => {
      await sandbox.mkdir('/workspace/w', { recursive: true })
      const controller = new AbortController()
      const stream = await sandbox.watch('/workspace/w', { signal: controller.signal })
      const found = parseSSEStream(stream)
      assert.equal((await found.next()).value.type, 'watching')
      await sandbox.writeFile('/workspace/w/new', 'x')
      const seen = []
      while (!seen.some(({ eventType, path }) => eventType === 'create' && path === '/workspace/w/new')) seen.push((await found.next()).value)
      await sandbox.renameFile('/workspace/w/new', '/workspace/w/newer')
      while (!seen.some(({ eventType, path }) => eventType === 'move_to' && path === '/workspace/w/newer')) seen.push((await found.next()).value)
      assert.ok(seen.some(({ eventType, path }) => eventType === 'move_from' && path === '/workspace/w/new'))
      controller.abort(new Error('enough'))
      await assert.rejects(found.next(), /enough/)
      await fails(sandbox.watch('/workspace/none'), 'FILE_NOT_FOUND', 404)
      await fails(sandbox.watch('/workspace/w', { include: ['a'], exclude: ['b'] }), 'VALIDATION_FAILED', 400)
    })
    test('relative paths begin where the shell is', async () => {
      const session = await sandbox.createSession({ cwd: '/workspace/relative/deep' })
      await session.writeFile('a', 'x')
      assert.equal((await sandbox.readFile('/workspace/relative/deep/a')).content, 'x')
      await session.exec('cd ..')
      assert.equal((await session.readFile('deep/a')).content, 'x')
      await session.writeFile('large', new Uint8Array(9 * 2 ** 20))
      assert.equal((await session.stat('large')).size, 9 * 2 ** 20)
      await session.moveFile('large', 'deep/large')
      assert.deepEqual((await session.listFiles('deep')).files.map(({ name }) => name), ['a', 'large'])
      assert.equal((await session.exists('large')).exists, false)
      assert.equal((await session.readFileStream('deep/a')) instanceof ReadableStream, true)
      await session.deleteFile('deep/large')
      await assert.rejects(sandbox.createSession({ cwd: '/proc/nothing' }), /the session's directory/)
    })

    test('what is not there is refused by name', async () => {
      await assert.rejects(sandbox.mountBucket('b', '/workspace/m'), { code: 'NOT_IMPLEMENTED', message: /mountBucket.*uploadTree/ })
      await assert.rejects(sandbox.wsConnect(new Request('http://localhost/'), 8080), { code: 'NOT_IMPLEMENTED', message: /wsConnect.*exposePort/ })
      assert.throws(() => sandbox.tunnels, { code: 'NOT_IMPLEMENTED', message: /tunnels.*exposePort/ })
    })

    test('checkChanges', async () => {
      const first = await sandbox.checkChanges('/workspace/w')
      assert.equal(first.status, 'unchanged')
      assert.equal((await sandbox.checkChanges('/workspace/w', { since: first.version })).status, 'unchanged')
      await sandbox.writeFile('/workspace/w/newer', 'y')
      const second = await sandbox.checkChanges('/workspace/w', { since: first.version })
      assert.equal(second.status, 'changed')
      await sandbox.writeFile('/workspace/w/.git/x', 'y')
      assert.equal((await sandbox.checkChanges('/workspace/w', { since: second.version })).status, 'unchanged')
      assert.equal((await sandbox.checkChanges('/workspace/w/newer')).status, 'unchanged')
    })
    test('trees go up and down, with modes and links', async () => {
      const local = path.join(folder, 'up')
      mkdirSync(path.join(local, 'sub'), { recursive: true })
      writeFileSync(path.join(local, 'sub/run'), 'x'.repeat(3_000_000))
      chmodSync(path.join(local, 'sub/run'), 0o755)
      writeFileSync(path.join(local, 'ü'.repeat(80)), Uint8Array.of(0, 255))
      symlinkSync('sub/run', path.join(local, 'link'))
      writeFileSync(path.join(local, 'left.log'), '')
      await sandbox.uploadTree(local, '/workspace/tree', { exclude: ['*.log'] })
      assert.equal((await sandbox.exec('ls -l tree/sub/run | cut -c1-10; readlink tree/link; ls tree | wc -l')).stdout, '-rwxr-xr-x\nsub/run\n3\n')
      const down = path.join(folder, 'down')
      const { skipped, bytes } = await sandbox.downloadTree('/workspace/tree', down)
      assert.deepEqual([skipped, bytes], [[], 3_000_002])
      assert.deepEqual([statSync(path.join(down, 'sub/run')).mode & 0o777, statSync(path.join(down, 'sub/run')).size, readlinkSync(path.join(down, 'link'))], [0o755, 3_000_000, 'sub/run'])
      assert.deepEqual([...readFileSync(path.join(down, 'ü'.repeat(80)))], [0, 255])
      await fails(sandbox.downloadTree('/workspace/tree', down), 'VALIDATION_FAILED', 400)
      await fails(sandbox.downloadTree('/workspace/tree', path.join(folder, 'no'), { maxBytes: 1000 }), 'VALIDATION_FAILED', 400)
      assert.deepEqual(readdirSync(folder).sort(), ['down', 'up'])
      await assert.rejects(sandbox.uploadTree(path.join(local, 'left.log'), '/workspace/x'), { code: 'VALIDATION_FAILED' })
    })
    test('a hostile tree writes nothing outside', async () => {
      await sandbox.exec('mkdir -p evil/d && cd evil && ln -s /etc abs && ln -s ../../.. up && ln -s . d/here && ln -s d/here/../../../../out through && ln -s d ok && mkfifo pipe && truncate -s 200M sparse; cd ..')
      const down = path.join(folder, 'evil')
      const { skipped } = await sandbox.downloadTree('/workspace/evil', down, { exclude: ['sparse'] })
      assert.deepEqual(skipped.map((one) => one.path).sort(), ['abs', 'pipe', 'through', 'up'])
      assert.deepEqual(readdirSync(down).sort(), ['d', 'ok'])
      assert.equal(readlinkSync(path.join(down, 'ok')), 'd')
      await assert.rejects(sandbox.downloadTree('/workspace/evil', path.join(folder, 'sparse'), { maxBytes: 10_000_000 }), /more than 10000000 bytes/)
      assert.ok(!existsSync(path.join(folder, 'sparse')))
    })
  })

  test('git', async () => {
    await sandbox.exec('git init -qb main repo && cd repo && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m one && git branch side; cd /workspace')
    const { success, targetDir, branch, commit, repoUrl } = await sandbox.gitCheckout('file:///workspace/repo', { branch: 'side', targetDir: '/workspace/clone', depth: 1 })
    assert.deepEqual([success, targetDir, branch, repoUrl, /^[0-9a-f]{40}$/.test(commit)], [true, '/workspace/clone', 'side', 'file:///workspace/repo', true])
    assert.equal((await sandbox.exec('git -C clone log --format=%s')).stdout, 'one\n')
    await fails(sandbox.gitCheckout('file:///workspace/none', { targetDir: '/workspace/c2' }), 'GIT_REPOSITORY_NOT_FOUND', 404)
    await fails(sandbox.gitCheckout('file:///workspace/repo', { branch: 'nowhere', targetDir: '/workspace/c3' }), 'GIT_BRANCH_NOT_FOUND', 404)
    await fails(sandbox.gitCheckout('--upload-pack=touch /tmp/pwned'), 'VALIDATION_FAILED', 400)
  })

  describe('sessions', () => {
    test('each has its own shell; files and processes are shared', async () => {
      const session = await sandbox.createSession({ id: 'one', cwd: '/tmp', env: { S: 's' } })
      assert.equal(session.id, 'one')
      assert.equal((await session.exec('X=1; echo $S; pwd')).stdout, 's\n/tmp\n')
      assert.equal((await sandbox.exec('echo ${X-none}')).stdout, 'none\n')
      assert.equal((await (await sandbox.getSession('one')).exec('echo $X')).stdout, '1\n')
      await session.writeFile('/workspace/shared', 'from one')
      assert.equal((await sandbox.readFile('/workspace/shared')).content, 'from one')
      const process = await session.startProcess('echo $S; sleep 1030')
      assert.equal(process.sessionId, 'one')
      assert.ok((await sandbox.listProcesses()).some(({ id }) => id === process.id))
      await session.setEnvVars({ T: 't' })
      assert.equal((await session.exec('echo $T')).stdout, 't\n')
      const { success, sessionId } = await sandbox.deleteSession('one')
      assert.deepEqual([success, sessionId], [true, 'one'])
      await fails(sandbox.deleteSession('one'), 'SESSION_NOT_FOUND', 404)
      await fails(sandbox.deleteSession('default'), 'RESOURCE_BUSY', 409)
    })
    test('run beside each other; one by itself in order', async () => {
      const [one, two] = await Promise.all([sandbox.createSession(), sandbox.createSession({ name: 'named' })])
      assert.equal(two.id, 'named')
      const order = []
      const other = two.exec('true').then(() => {
        order.push('two')
        return two.exec('touch /tmp/beside')
      })
      await Promise.all([one.exec('until [ -e /tmp/beside ]; do sleep 0.01; done').then(() => order.push('one')), one.exec('true').then(() => order.push('after')), other])
      assert.deepEqual(order, ['two', 'one', 'after'])
    })
    test('commandTimeoutMs', async () => {
      const session = await sandbox.createSession({ commandTimeoutMs: 200 })
      assert.equal((await session.exec('sleep 1031')).timedOut, true)
      assert.equal((await session.exec('echo on', { timeout: 5000 })).stdout, 'on\n')
    })
  })

  describe('life', () => {
    test('options are brought to one that is there', async () => {
      const one = getSandbox(ns, 'life', { sleepAfter: '5m', labels: { a: '1' }, env: { FROM: 'start' } })
      assert.equal((await one.exec('echo $FROM')).stdout, 'start\n')
      assert.deepEqual(await one.info().then(({ idleMs, labels }) => [idleMs, labels]), [300_000, { a: '1' }])
      const two = getSandbox(ns, 'life', { keepAlive: true })
      assert.equal((await two.info()).idleMs, 0)
      await two.setSleepAfter(90)
      assert.equal((await two.info()).idleMs, 90_000)
      await two.setKeepAlive(true)
      assert.equal((await two.info()).idleMs, 0)
      await two.setKeepAlive(false)
      assert.equal((await two.info()).idleMs, 90_000)
      await two.setLabels({ b: '2' })
      assert.deepEqual((await two.info()).labels, { b: '2' })
      await one.destroy()
    })
    test('sleepAfter: it sleeps when nothing uses it, looking does not wake it, using it does', async () => {
      const client = await Cloche.connect({ socket: served.socket })
      const stateOf = async (id) => (await client.sandboxes.list()).find((found) => found.sandbox === id)?.state
      const sleeps = async (id) => await until(async () => await stateOf(id) === 'stopped', `${id} sleeps`, 120_000)
      const one = getSandbox(ns, 'sleeper', { sleepAfter: 1 })
      const [busy, kept] = [getSandbox(ns, 'busy', { sleepAfter: '1s' }), getSandbox(ns, 'kept', { sleepAfter: 1, keepAlive: true })]
      await busy.startProcess('sleep 1032')
      await kept.exec('true')
      await one.exec('cd /tmp; export KEPT=1; echo precious > /workspace/kept')
      for (let turn = 0; turn < 2; turn++) { // the others were looked at meanwhile
        await sleeps('sleeper')
        const again = getSandbox(ns, 'sleeper', { sleepAfter: 1, labels: { turn: String(turn) } })
        for (const looker of [one, again]) assert.equal((await looker.info()).state, 'stopped')
        assert.deepEqual((await one.info()).labels, { turn: String(turn) })
        await one.setLabels({ turn: 'last' })
        assert.equal(await stateOf('sleeper'), 'stopped')
        assert.equal((await one.exec('cat /workspace/kept; pwd; echo $KEPT')).stdout, 'precious\n/tmp\n1\n')
      }
      assert.deepEqual([await stateOf('busy'), await stateOf('kept')], ['running', 'running'])
      assert.equal((await busy.killAllProcesses()), 1)
      await kept.setKeepAlive(false)
      await Promise.all([sleeps('busy'), sleeps('kept')]) // the twins
      assert.equal((await getSandbox(ns, 'no-such').info()).state, 'running') // it is made
      for (const box of [one, busy, kept, getSandbox(ns, 'no-such')]) await box.destroy()
      await client.close()
    })
    test('stop keeps the files; destroy keeps nothing', async () => {
      const one = getSandbox(ns, 'short')
      await one.writeFile('/workspace/kept', 'k')
      await one.stop()
      assert.equal((await one.readFile('/workspace/kept')).content, 'k')
      await one.destroy()
      assert.equal((await one.exists('/workspace/kept')).exists, false)
      await one.destroy()
    })
    test('two are two', async () => {
      const [one, two] = [getSandbox(ns, 'left'), getSandbox(ns, 'right')]
      await one.writeFile('/workspace/x', '1')
      assert.equal((await two.exists('/workspace/x')).exists, false)
      assert.equal((await two.exec('ls /proc | grep -c "^[0-9]"')).exitCode, 0)
      await Promise.all([one.destroy(), two.destroy()])
    })
    test('a daemon of our own: shared by name, gone with the process', async () => {
      const [one, same] = [getSandbox(undefined, 'private'), getSandbox(undefined, 'private')]
      await one.exec('V=1')
      assert.equal((await same.exec('echo $V')).stdout, '1\n')
      await one.destroy()
    })
  })
})
